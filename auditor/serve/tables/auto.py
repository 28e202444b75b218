"""Which parser and template a tree chooses by itself: path matchers, built-in templates, rules."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Literal

from auditor.serve.tables.conditions import (
    Scope,
    SimpleTest,
    Test,
    alternatives,
    assigned,
    conjunction,
    returns_true,
)
from auditor.serve.tables.constants import Module, Tree, evaluate, lookup
from auditor.serve.tables.encoders import functions_of, modules_of
from auditor.serve.tables.facts import AutoRule, ConversationTemplate, PathMatcher
from auditor.serve.tables.modules import definitions, source
from auditor.serve.tables.nodes import last_name
from auditor.serve.tables.values import FunctionValue, Instance


def conversation_templates(tree: Tree) -> tuple[ConversationTemplate, ...]:
    """The built-in names for ``--chat-template``, in the order in which they are registered."""
    found: list[ConversationTemplate] = []
    for module in modules_of(tree, b"register_conv_template"):
        for node in definitions(module.body):
            if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
                continue
            call = node.value
            if last_name(call.func) != "register_conv_template" or not call.args:
                continue
            name = _name_argument(call.args[0], module)
            if name is None:
                tree.note(f"{module.path}:{node.lineno}: a template's name comes at run time")
            elif name not in (known.name for known in found):
                found.append(ConversationTemplate(name, module.path, node.lineno))
    return tuple(found)


def _name_argument(node: ast.expr, module: Module) -> str | None:
    made = evaluate(node, module)
    if isinstance(made, Instance) and isinstance(made.attributes.get("name"), str):
        return str(made.attributes["name"])
    if isinstance(node, ast.Call):
        named = [keyword.value for keyword in node.keywords if keyword.arg == "name"]
        for each in [*named, *node.args[:1]]:
            value = evaluate(each, module)
            if isinstance(value, str):
                return value
    return None


def path_matchers(tree: Tree) -> tuple[PathMatcher, ...]:
    """What picks a built-in template by the model path, in the order in which it is asked."""
    found: list[PathMatcher] = []
    for module in modules_of(tree, b"register_conv_template"):
        for node, _ in functions_of(module):
            decorators = [
                last_name(each.func if isinstance(each, ast.Call) else each)
                for each in node.decorator_list
            ]
            if any("match" in name and "template" in name for name in decorators):
                _match(node.body, module, _path_scope(node, module), [()], found)
    return tuple(found)


def _path_scope(node: ast.FunctionDef, module: Module) -> Scope:
    """The scope in which the function's parameter is the model path, whatever its name."""
    scope = Scope(module)
    parameters = node.args.args
    if parameters and parameters[0].arg != "model_path":
        scope = scope.with_name(parameters[0].arg, ast.Name("model_path", ast.Load()))
    return scope


def _match(
    body: Sequence[ast.stmt],
    module: Module,
    scope: Scope,
    guard: list[Test],
    found: list[PathMatcher],
) -> None:
    for node in body:
        if isinstance(node, ast.If):
            then = conjunction(guard, alternatives(node.test, scope))
            _match(node.body, module, scope, then, found)
            _match(node.orelse, module, scope, guard, found)
            last = node.body[-1]
            if isinstance(last, ast.Return):
                refused = last.value is None or evaluate(last.value, module) is None
                if refused:
                    guard = conjunction(guard, alternatives(node.test, scope, True))
        elif isinstance(node, ast.Return):
            if node.value is not None:
                for test in guard:
                    found.extend(_matchers(node, node.value, test, module))
            return
        else:
            scope = assigned(node, scope)


def _matchers(
    node: ast.Return, value: ast.expr, test: Test, module: Module
) -> Iterator[PathMatcher]:
    wanted = [each for each in test if each.subject == "path" and not each.negated]
    refused = [each for each in test if each.subject == "path" and each.negated]
    if not wanted:
        return
    types = tuple(
        text
        for each in test
        if each.subject == "model_type" and not each.negated
        for text in each.texts
    )
    for template, first in _picked(value, wanted[0], module):
        groups = [first, *("|".join(each.texts) for each in wanted[1:])]
        ignore = all(each.ignore_case for each in (*wanted, *refused))
        if len(groups) == 1 and not refused:
            pattern = groups[0]
        else:
            # Each must be found somewhere in the path, and none of the refused ones.
            pattern = "^" + "".join(f"(?!.*(?:{'|'.join(each.texts)}))" for each in refused)
            pattern += "".join(f"(?=.*(?:{text}))" for text in groups)
        yield PathMatcher(template, pattern, ignore, module.path, node.lineno, types)


def _picked(value: ast.expr, wanted: SimpleTest, module: Module) -> Iterator[tuple[str, str]]:
    """The template that is returned, and the pattern for it; one for each text of a group."""
    pattern = "|".join(wanted.texts)
    template = evaluate(value, module)
    if isinstance(template, str):
        yield template, pattern
        return
    group = re.search(r"\(((?:[\w.-]+\|)*[\w.-]+)\)", pattern)
    if not isinstance(value, ast.JoinedStr) or group is None or "group(1)" not in source(value):
        return
    for text in group.group(1).split("|"):
        parts = [
            part.value if isinstance(part, ast.Constant) else text.lower() for part in value.values
        ]
        yield "".join(map(str, parts)), pattern.replace(group.group(0), text, 1)


def auto_rules(tree: Tree) -> tuple[AutoRule, ...]:
    """The rules by which ``auto`` finds parsers: those on the template, then on the model."""
    found: list[AutoRule] = []
    for module in modules_of(tree, b"DetectionRule", b"_PARSER_RULES"):
        for name, nodes in module.bindings.items():
            kind = None if isinstance(nodes[0], ast.ImportFrom) else _kind(name)
            value = lookup(module, name) if kind else None
            if isinstance(value, (tuple, list)):
                for rule in value:
                    if kind and isinstance(rule, Instance):
                        found.extend(_rules(rule, kind, module))
        for node, _ in functions_of(module):
            if "arch" in node.name:
                _by_architecture(node.body, Scope(module), [()], module.path, found)
    return tuple(found)


Kind = Literal["tool", "reasoning"]


def _kind(name: str) -> Kind | None:
    """Which parsers a list of rules finds, by its name."""
    lowered = name.lower()
    if "mode" in lowered or "rule" not in lowered:
        return None
    return "tool" if "tool" in lowered else "reasoning" if "reason" in lowered else None


def _rules(rule: Instance, kind: Kind, module: Module) -> Iterator[AutoRule]:
    parser = rule.attributes.get("value")
    if not isinstance(parser, str):
        return
    line = rule.node.lineno if rule.node else 1
    predicate = rule.attributes.get("predicate")
    tests: list[Test] = [(SimpleTest("other"),)]
    if isinstance(predicate, FunctionValue):
        tests = returns_true(predicate)
    plain = [test for test in tests if len(test) == 1 and _is_text(test[0])]
    if len(tests) > 1 and len(plain) == len(tests):
        texts = tuple(text for test in tests for text in test[0].texts)
        yield AutoRule(kind, parser, module.path, line, any_of=texts)
        return
    for test in tests:
        yield AutoRule(
            kind,
            parser,
            module.path,
            line,
            tuple(t for each in test if _is_text(each) for t in each.texts),
            (),
            tuple(
                t for each in test if each.subject == "text" and each.negated for t in each.texts
            ),
            undecided=any(each.subject != "text" for each in test),
        )


def _is_text(literal: SimpleTest) -> bool:
    return literal.subject == "text" and not literal.negated


def _by_architecture(
    body: Sequence[ast.stmt], scope: Scope, guard: list[Test], path: str, found: list[AutoRule]
) -> None:
    """Rules of a chain that sets the parsers by the model's architecture."""
    for node in body:
        if isinstance(node, ast.If):
            then = conjunction(guard, alternatives(node.test, scope))
            _by_architecture(node.body, scope, then, path, found)
            _by_architecture(node.orelse, scope, guard, path, found)
            continue
        if isinstance(node, ast.Assign):
            for name, value in _pairs(node):
                if name.endswith("_parser") and guard != [()]:
                    kind: Kind = "tool" if "tool" in name else "reasoning"
                    parser = evaluate(value, scope.module)
                    if isinstance(parser, str):
                        found.extend(_architecture_rules(kind, parser, guard, path, node.lineno))
        scope = assigned(node, scope)


def _pairs(node: ast.Assign) -> Iterator[tuple[str, ast.expr]]:
    for target in node.targets:
        match target, node.value:
            case ast.Tuple(elts=names), ast.Tuple(elts=values) if len(names) == len(values):
                for name, value in zip(names, values, strict=True):
                    yield last_name(name), value
            case _:
                yield last_name(target), node.value


def _architecture_rules(
    kind: Kind, parser: str, guard: list[Test], path: str, line: int
) -> Iterator[AutoRule]:
    for test in guard:
        names = [t for each in test if each.subject == "architecture" for t in each.texts]
        further = any(each.subject != "architecture" or each.negated for each in test)
        for name in names or [""]:
            yield AutoRule(
                kind,
                parser,
                path,
                line,
                architecture=name,
                undecided=further,
            )
