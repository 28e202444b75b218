"""Which templates and native encoders a tree has, and on what conditions it chooses them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from auditor.serve.tables.conditions import (
    Scope,
    SimpleTest,
    Test,
    alternatives,
    assigned,
    conjunction,
    followed,
    function_of,
    returns_true,
)
from auditor.serve.tables.constants import Module, Tree, evaluate, lookup
from auditor.serve.tables.facts import AutoRule, ConversationTemplate, Encoder, PathMatcher
from auditor.serve.tables.modules import bound, definitions, source
from auditor.serve.tables.nodes import last_name
from auditor.serve.tables.values import FunctionValue, Instance, is_known

_ENCODING = re.compile(r"^_*(resolve|choose|select|pick|get|use|infer)\w*_encod(ing|er)\w*$")
_DEFINED = re.compile(
    rb"def _*(?:resolve|choose|select|pick|get|use|infer)\w*_encod(?:ing|er)\w*\("
)

WORDS = (b"_encod", b"DetectionRule", b"register_conv_template", b"_PARSER_RULES")
"""Words that the files of interest hold; see ``Tree.mentioning``."""


def _mentions(tree: Tree, *words: bytes) -> list[str]:
    found = tree.mentioning(WORDS)
    return list(dict.fromkeys(path for word in words for path in found[word]))


def _modules(tree: Tree, *words: bytes) -> list[Module]:
    paths = _mentions(tree, *words)
    return [module for path in paths if (module := tree.module(path)) is not None]


def _functions(module: Module) -> Iterator[tuple[ast.FunctionDef, str]]:
    """Functions of the top level and methods, with the name of the class."""
    for node in definitions(module.body):
        if isinstance(node, ast.FunctionDef):
            yield node, ""
        elif isinstance(node, ast.ClassDef):
            for inner in definitions(node.body):
                if isinstance(inner, ast.FunctionDef):
                    yield inner, node.name


# Native encoders


def encoders(tree: Tree) -> tuple[Encoder, ...]:
    """The rows of the chain that chooses a native encoder, in the order in which it decides."""
    chains: list[tuple[tuple[str, ...], tuple[Encoder, ...]]] = []
    for path in _mentions(tree, b"_encod"):
        module = tree.module(path) if _may_choose(tree.content(path) or b"") else None
        for node, _ in _functions(module) if module else ():
            if module and _ENCODING.search(node.name):
                chain = _Chain(module, set())
                chain.follow(node.body, Scope(module), [()], "")
                rows = tuple(row for row in chain.rows if row.spec)
                if any(row.parsers or row.architectures or row.model_types for row in rows):
                    chains.append((tuple(sorted(chain.inlined)), rows))
                elif "encoding" in node.name and any(row.undecided for row in rows):
                    tree.note(f"{path}:{node.lineno}: {node.name} cannot be followed")
    # Where one function passes on to another, it has the rows of both.
    chains.sort(key=lambda chain: (len(chain[1]), len(chain[0])), reverse=True)
    return chains[0][1] if chains else ()


def _may_choose(data: bytes) -> bool:
    """Whether a file may choose an encoder by what a model is or by its parser."""
    chooses = b"architectures" in data or b"tool_call_parser" in data
    return chooses and _DEFINED.search(data) is not None


@dataclass
class _Chain:
    """Follows a chain of ``if`` and ``return``."""

    module: Module
    inlined: set[str]
    rows: list[Encoder] = field(default_factory=list)
    depth: int = 0

    def follow(
        self, body: Sequence[ast.stmt], scope: Scope, guard: list[Test], condition: str
    ) -> bool:
        """Add rows for what a body returns under the guard; tells whether it always returns."""
        for node in body:
            match node:
                case ast.Return(value=value):
                    self.returned(node, value, scope, guard, condition)
                    return True
                case ast.Raise():
                    return True
                case ast.If(test=test):
                    both = _and(condition, test)
                    then = conjunction(guard, alternatives(test, scope))
                    ended = self.follow(node.body, scope, then, both)
                    if ended and not _chooses(node.body):
                        # Nothing is chosen there, which rules out all that comes next.
                        guard = conjunction(guard, alternatives(test, scope, True))
                    if self.follow(node.orelse, scope, guard, condition) and ended:
                        return True
                    for inner in definitions([*node.body, *node.orelse]):
                        for name in bound(inner):
                            scope = scope.with_name(name, None)
                case _:
                    scope = assigned(node, scope)
        return False

    def returned(
        self,
        node: ast.Return,
        value: ast.expr | None,
        scope: Scope,
        guard: list[Test],
        condition: str,
    ) -> None:
        if value is None or self.depth > 4:
            return
        value, scope = followed(value, scope)
        match value:
            case ast.IfExp(test=test, body=body, orelse=orelse):
                then = conjunction(guard, alternatives(test, scope))
                self.returned(node, body, scope, then, _and(condition, test))
                self.returned(node, orelse, scope, guard, condition)
            case ast.BoolOp(op=ast.Or(), values=values) if any(
                isinstance(part, ast.Call) for part in values
            ):
                for part in values:
                    self.returned(node, part, scope, guard, condition)
            case ast.Call() | ast.Subscript() if self.table(node, value, scope, guard, condition):
                pass
            case ast.Call():
                self.delegate(node, value, scope, guard, condition)
            case _:
                spec = evaluate(value, scope.module)
                if isinstance(spec, str):
                    self.add(spec, node, guard, condition)
                elif not is_known(spec):
                    self.truth(node, value, scope, guard)

    def table(
        self,
        node: ast.Return,
        value: ast.expr,
        scope: Scope,
        guard: list[Test],
        condition: str,
    ) -> bool:
        """``TABLE.get(parser)`` and ``TABLE[parser]``: a row for each of the table's."""
        match value:
            case ast.Call(func=ast.Attribute(value=table, attr="get"), args=[key, *_]):
                pass
            case ast.Subscript(value=table, slice=key):
                pass
            case _:
                return False
        rows = evaluate(table, scope.module)
        if not isinstance(rows, dict):
            return False
        for name, spec in rows.items():
            if isinstance(name, str) and isinstance(spec, str):
                test = ast.Compare(key, [ast.Eq()], [ast.Constant(name)])
                found = conjunction(guard, alternatives(test, scope))
                self.add(spec, node, found, condition or source(test))
        return True

    def delegate(
        self,
        node: ast.Return,
        value: ast.Call,
        scope: Scope,
        guard: list[Test],
        condition: str,
    ) -> None:
        target = function_of(value, scope)
        func, inner = target or (None, scope)
        if func is None or isinstance(func.node, ast.Lambda):
            self.truth(node, value, scope, guard)
            return
        name = f"{func.module.path}:{func.node.lineno}"
        if name in self.inlined:
            return
        self.inlined.add(name)
        outer, self.module = self.module, func.module
        self.depth += 1
        self.follow(func.node.body, inner, guard, condition)
        self.depth -= 1
        self.module = outer

    def truth(self, node: ast.Return, value: ast.expr, scope: Scope, guard: list[Test]) -> None:
        """A function that says only whether the one native encoder is used."""
        found = conjunction(guard, alternatives(value, scope))
        if any(literal.subject != "other" for test in found for literal in test):
            self.add(_only_encoder(self.module), node, found, source(value))

    def add(self, spec: str, node: ast.Return, guard: list[Test], condition: str) -> None:
        for test in guard:
            self.rows.append(_encoder(spec, test, condition, self.module.path, node.lineno))


def _and(condition: str, test: ast.expr) -> str:
    text = source(test, 500)
    return f"{condition} and {text}" if condition else text


def _chooses(body: Sequence[ast.stmt]) -> bool:
    """Whether a body returns something else than None."""
    return any(
        isinstance(node, ast.Return)
        and node.value is not None
        and not (isinstance(node.value, ast.Constant) and node.value.value is None)
        for node in definitions(body)
    )


def _only_encoder(module: Module) -> str:
    """The encoder that a module imports (``encoding_dsv32``), where it is one."""
    found: set[str] = set()
    for node in ast.walk(ast.Module(module.body, [])):
        if isinstance(node, ast.ImportFrom):
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            found.update(name for name in names if re.fullmatch(r"encoding_\w+", name))
        elif isinstance(node, ast.Import):
            found.update(
                name
                for alias in node.names
                for name in alias.name.split(".")
                if re.fullmatch(r"encoding_\w+", name)
            )
    return found.pop().removeprefix("encoding_") if len(found) == 1 else "native"


_ENCODER_TERMS = ("parser", "architecture", "model_type")


def _encoder(spec: str, test: Test, condition: str, path: str, line: int) -> Encoder:
    known: dict[str, tuple[str, ...]] = {}
    without, undecided = False, False
    for literal in test:
        if literal.subject == "template" and literal.negated:
            without = True
        elif literal.negated or literal.subject in known or literal.subject not in _ENCODER_TERMS:
            undecided = True
        else:
            known[literal.subject] = literal.texts
    return Encoder(
        spec,
        condition,
        path,
        line,
        known.get("parser", ()),
        known.get("architecture", ()),
        known.get("model_type", ()),
        without,
        undecided,
    )


# Conversation templates


def conversation_templates(tree: Tree) -> tuple[ConversationTemplate, ...]:
    """The built-in names for ``--chat-template``, in the order in which they are registered."""
    found: list[ConversationTemplate] = []
    for module in _modules(tree, b"register_conv_template"):
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


# Templates by the model path


def path_matchers(tree: Tree) -> tuple[PathMatcher, ...]:
    """What picks a built-in template by the model path, in the order in which it is asked."""
    found: list[PathMatcher] = []
    for module in _modules(tree, b"register_conv_template"):
        for node, _ in _functions(module):
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


# Rules of ``auto``


def auto_rules(tree: Tree) -> tuple[AutoRule, ...]:
    """The rules by which ``auto`` finds parsers: those on the template, then on the model."""
    found: list[AutoRule] = []
    for module in _modules(tree, b"DetectionRule", b"_PARSER_RULES"):
        for name, nodes in module.bindings.items():
            kind = None if isinstance(nodes[0], ast.ImportFrom) else _kind(name)
            value = lookup(module, name) if kind else None
            if isinstance(value, (tuple, list)):
                for rule in value:
                    if kind and isinstance(rule, Instance):
                        found.extend(_rules(rule, kind, module))
        for node, _ in _functions(module):
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
