"""Conditions of the tree as alternatives of simple tests: ``"X" in arch``, ``parser == "y"``.

Local names and small functions are followed, so that a chain of ``if``/``return`` reads the same
whether a test stands in it, in a variable before it, or in a function of another module.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from auditor.serve.tables.constants import Module, evaluate
from auditor.serve.tables.modules import bound, source
from auditor.serve.tables.values import ClassValue, FunctionValue, Pattern, is_known

_MOST = 64
"""Alternatives of one condition; the largest of 0.5.23 has 40."""

_DEEPEST = 24
"""Functions, names and expressions within each other that are followed."""

_STEPS = 2_000
"""Expressions of one condition; the largest of 0.5.23 takes some 100."""

Test = tuple["SimpleTest", ...]
"""Simple tests that must all hold."""


@dataclass(frozen=True)
class SimpleTest:
    """One simple test: the subject equals, or with ``part`` contains, one of the texts.

    ``subject`` is ``parser``, ``architecture``, ``model_type``, ``template`` (whether there is
    one), ``text`` (of a template) or ``path`` (texts are regular expressions); ``other`` for a test
    that is none of these, with its source as the text.
    """

    subject: str
    texts: tuple[str, ...] = ()
    part: bool = False
    negated: bool = False
    ignore_case: bool = False


@dataclass(frozen=True)
class Scope:
    """Where an expression stands, and what its local names and parameters were given."""

    module: Module
    names: dict[str, tuple[ast.expr | None, Scope]] = field(default_factory=dict)

    def with_name(self, name: str, value: ast.expr | None) -> Scope:
        """The scope behind an assignment; None for a value that is not followed."""
        return Scope(self.module, {**self.names, name: (value, self)})


_SUBJECTS = (
    (re.compile(r"tool_call_parser\b"), "parser"),
    (re.compile(r"\bmodel_type\b"), "model_type"),
    (re.compile(r"(?:\b|_)arch(itectures?)?\b"), "architecture"),
    (re.compile(r"chat_template\b"), "template"),
    (re.compile(r"\.template$"), "text"),
    (re.compile(r"\bmodel_path\b"), "path"),
    (re.compile(r"\b(tokenizer|hf_config|config)$"), "given"),
)


def alternatives(test: ast.expr, scope: Scope, negated: bool = False) -> list[Test]:
    """The alternatives of which one must hold for a condition; none where it is never true.

    What is too large, or understood in part only, has a test ``other`` in it.
    """
    try:
        return _Reader().read(test, scope, negated)
    except RecursionError:
        return [(SimpleTest("other", ("nested too deeply",)),)]


def returns_true(func: FunctionValue) -> list[Test]:
    """The alternatives of which one must hold for a function to return a true value."""
    if isinstance(func.node, ast.Lambda):
        return alternatives(func.node.body, Scope(func.module))
    return _Reader().body(func.node.body, Scope(func.module), False)


def conjunction(left: Sequence[Test], right: Sequence[Test]) -> list[Test]:
    """The alternatives of ``left and right``."""
    if len(left) * len(right) > _MOST:
        return [(SimpleTest("other", ("too many alternatives",)),)]
    return [tuple(dict.fromkeys((*a, *b))) for a in left for b in right]


def followed(node: ast.expr, scope: Scope) -> tuple[ast.expr, Scope]:
    """The expression behind a local name, as far as it is known."""
    for _ in range(_DEEPEST):
        if not (isinstance(node, ast.Name) and node.id in scope.names):
            break
        value, outer = scope.names[node.id]
        if value is None:
            break
        node, scope = value, outer
    return node, scope


def function_of(node: ast.Call, scope: Scope) -> tuple[FunctionValue, Scope] | None:
    """The function of the tree that a call runs, and the scope of its body."""
    func, where = followed(node.func, scope)
    target = evaluate(func, where.module)
    if not isinstance(target, FunctionValue) and isinstance(func, ast.Attribute):
        if isinstance(func.value, ast.Name):
            target = _method(scope.module, func.attr)
    if not isinstance(target, FunctionValue):
        return None
    spec = target.node.args
    names = [arg.arg for arg in (*spec.posonlyargs, *spec.args)]
    if target.owner is not None and names[:1] == ["self"]:
        names = names[1:]
    given: dict[str, tuple[ast.expr | None, Scope]] = {}
    for name, default in zip(reversed(names), reversed(spec.defaults), strict=False):
        given[name] = (default, Scope(target.module))
    for name, value in zip(names, node.args, strict=False):
        given[name] = (value, scope)
    for keyword in node.keywords:
        if keyword.arg:
            given[keyword.arg] = (keyword.value, scope)
    # A parameter that is given by its own name is that name, not itself again.
    given = {
        name: (value, outer)
        for name, (value, outer) in given.items()
        if not (isinstance(value, ast.Name) and value.id == name and name not in outer.names)
    }
    return target, Scope(target.module, given)


def _method(module: Module, name: str) -> FunctionValue | None:
    """A method of that name, where one class of the module has it."""
    found = [
        FunctionValue(module, item, ClassValue(module, node))
        for node in module.classes.values()
        for item in node.body
        if isinstance(item, ast.FunctionDef) and item.name == name
    ]
    return found[0] if len(found) == 1 else None


def assigned(node: ast.stmt, scope: Scope) -> Scope:
    """The scope behind a statement."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return scope.with_name(name, value)
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            return scope.with_name(name, value)
        case ast.ImportFrom(names=names):
            other = scope.module.tree.find(scope.module.absolute(node))
            for alias in names:
                if other is not None:
                    there = (ast.Name(alias.name, ast.Load()), Scope(other))
                    name = alias.asname or alias.name
                    scope = Scope(scope.module, {**scope.names, name: there})
            return scope
    for name in bound(node):
        scope = scope.with_name(name, None)
    return scope


@dataclass
class _Reader:
    depth: int = 0
    steps: int = 0

    def read(self, node: ast.expr, scope: Scope, negated: bool) -> list[Test]:
        self.steps += 1
        if self.depth > _DEEPEST or self.steps > _STEPS:
            return [(SimpleTest("other", ("too much to follow",)),)]
        self.depth += 1
        try:
            return self.one(node, scope, negated)
        finally:
            self.depth -= 1

    def one(self, node: ast.expr, scope: Scope, negated: bool) -> list[Test]:
        node, scope = followed(node, scope)
        match node:
            case ast.Constant(value=value):
                return [()] if bool(value) is not negated else []
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.read(operand, scope, not negated)
            case ast.BoolOp(op=op, values=values):
                parts = [self.read(value, scope, negated) for value in values]
                if isinstance(op, ast.And) is not negated:
                    return _all(parts)
                found = list(dict.fromkeys(test for part in parts for test in part))
                return found if len(found) <= _MOST else _other(node, negated)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                first = conjunction(self.read(test, scope, False), self.read(body, scope, negated))
                second = conjunction(
                    self.read(test, scope, True), self.read(orelse, scope, negated)
                )
                return [*first, *second]
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self.comparison(node, left, op, right, scope, negated)
            case ast.Call():
                return self.call(node, scope, negated)
        subject = _subject(node, scope)
        if subject in ("given", "architecture"):  # a model has them
            return [] if negated else [()]
        if subject in ("template", "path"):
            return [
                (SimpleTest("template" if subject == "template" else "other", (), negated=negated),)
            ]
        return _other(node, negated)

    def comparison(
        self,
        node: ast.Compare,
        left: ast.expr,
        op: ast.cmpop,
        right: ast.expr,
        scope: Scope,
        negated: bool,
    ) -> list[Test]:
        if isinstance(op, (ast.NotEq, ast.NotIn, ast.IsNot)):
            negated = not negated
        elif not isinstance(op, (ast.Eq, ast.In, ast.Is)):
            return _other(node, negated)
        if isinstance(op, (ast.Is, ast.IsNot, ast.Eq, ast.NotEq)):
            if isinstance(right, ast.Constant) and right.value is None:
                return self.read(left, scope, not negated)
            texts, subject = _texts(right, scope), left
            if texts is None:
                texts, subject = _texts(left, scope), right
            part = False
        else:
            # "x" in subject, or subject in ("x", "y")
            texts, subject, part = _texts(left, scope), right, True
            if texts is None:
                texts, subject, part = _texts(right, scope), left, False
        if texts is None:
            return _other(node, negated)
        kind = _subject(subject, scope)
        if kind == "path" and part:
            about = source(_resolved(subject, scope))
            ignore = ".lower()" in about or ".casefold()" in about
            escaped = tuple(re.escape(text) for text in texts)
            return [(SimpleTest("path", escaped, True, negated, ignore),)]
        if kind in ("parser", "architecture", "model_type") or (kind == "text" and part):
            return [(SimpleTest(kind, texts, part, negated),)]
        return _other(node, negated)

    def call(self, node: ast.Call, scope: Scope, negated: bool) -> list[Test]:
        match node:
            case ast.Call(func=ast.Name(id="any" | "all" as name), args=[loop]):
                return self.loop(node, name, loop, scope, negated)
            case ast.Call(func=ast.Name(id="bool"), args=[inner]):
                return self.read(inner, scope, negated)
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str()), *_]):
                if _subject(node, scope) == "template":
                    return [(SimpleTest("template", negated=negated),)]
                return _other(node, negated)
        found = pattern_of(node, scope)
        if found is not None:
            text, ignore = found
            return [(SimpleTest("path", (text,), True, negated, ignore),)]
        target = function_of(node, scope)
        if target is None:
            return _other(node, negated)
        func, inner_scope = target
        if isinstance(func.node, ast.Lambda):
            return self.read(func.node.body, inner_scope, negated)
        return self.body(func.node.body, inner_scope, negated)

    def loop(
        self, node: ast.Call, name: str, loop: ast.expr, scope: Scope, negated: bool
    ) -> list[Test]:
        """``any(test for x in …)``: over constants each, over a subject its members."""
        if not isinstance(loop, (ast.GeneratorExp, ast.ListComp)) or len(loop.generators) != 1:
            return _other(node, negated)
        generator = loop.generators[0]
        if not isinstance(generator.target, ast.Name) or generator.ifs:
            return _other(node, negated)
        texts = _texts(generator.iter, scope)
        if texts is None:
            return self.read(
                loop.elt, scope.with_name(generator.target.id, generator.iter), negated
            )
        each = [
            self.read(loop.elt, scope.with_name(generator.target.id, ast.Constant(text)), negated)
            for text in texts[:_MOST]
        ]
        if (name == "all") is not negated:
            return _all(each)
        return [test for part in each for test in part]

    def body(self, body: Sequence[ast.stmt], scope: Scope, negated: bool) -> list[Test]:
        """When a function of straight assignments, ``if`` and ``return`` returns a true value."""
        for index, node in enumerate(body):
            self.steps += 1
            if self.steps > _STEPS:
                return [(SimpleTest("other", ("too much to follow",)),)]
            if isinstance(node, ast.Return):
                return self.read(node.value or ast.Constant(None), scope, negated)
            if isinstance(node, ast.If):
                rest = [*body[index + 1 :]]
                then = self.body([*node.body, *rest], scope, negated)
                otherwise = self.body([*node.orelse, *rest], scope, negated)
                return [
                    *conjunction(self.read(node.test, scope, False), then),
                    *conjunction(self.read(node.test, scope, True), otherwise),
                ]
            scope = assigned(node, scope)
        return [()] if negated else []


def _all(parts: Sequence[list[Test]]) -> list[Test]:
    found: list[Test] = [()]
    for part in parts:
        found = conjunction(found, part)
    return found


def _other(node: ast.expr, negated: bool) -> list[Test]:
    return [(SimpleTest("other", (source(node),), negated=negated),)]


def _texts(node: ast.expr, scope: Scope) -> tuple[str, ...] | None:
    """The text or texts that an expression is, None where it is neither."""
    node, scope = followed(node, scope)
    value = evaluate(node, scope.module)
    if isinstance(value, str):
        return (value,)
    if isinstance(value, (list, tuple, set, frozenset, dict)) and is_known(value) and value:
        if all(isinstance(item, str) for item in value):
            ordered = sorted(value) if isinstance(value, (set, frozenset)) else value
            return tuple(str(item) for item in ordered)
    return None


def _resolved(node: ast.expr, scope: Scope) -> ast.expr:
    """An expression with its local names replaced, one level deep each time."""
    for _ in range(4):
        found, outer = followed(node, scope)
        if found is not node:
            node, scope = found, outer
            continue
        if isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
            inner = node.func if isinstance(node, ast.Call) else node.value
            if isinstance(inner, ast.Attribute) and isinstance(node, ast.Call):
                value, _ = followed(inner.value, scope)
                return ast.Call(ast.Attribute(value, inner.attr), node.args, node.keywords)
            value, _ = followed(inner, scope)
            if isinstance(node, ast.Attribute):
                return ast.Attribute(value, node.attr)
            if isinstance(node, ast.Subscript):
                return ast.Subscript(value, node.slice)
        return node
    return node


def _subject(node: ast.expr, scope: Scope) -> str:
    """What an expression is about, by the names in it and in what its names were given."""
    texts = [source(node, 2000)[-200:], source(_resolved(node, scope), 2000)[-200:]]
    for pattern, subject in _SUBJECTS:
        if any(pattern.search(text) for text in texts):
            return subject
    return ""


def pattern_of(node: ast.Call, scope: Scope) -> tuple[str, bool] | None:
    """The regular expression that a call searches in the model path, and whether without case."""
    func = node.func
    if not isinstance(func, ast.Attribute) or func.attr not in ("search", "match", "fullmatch"):
        return None
    compiled = evaluate(func.value, scope.module)
    args = list(node.args)
    if isinstance(compiled, Pattern):
        found = compiled
    elif len(args) > 1:
        flags = [*args[2:], *(keyword.value for keyword in node.keywords)]
        value = evaluate(args.pop(0), scope.module)
        if not isinstance(value, str):
            return None
        named = " ".join(source(flag) for flag in flags)
        found = Pattern(value, bool(re.search(r"\bre\.(I|IGNORECASE)\b", named)))
    else:
        return None
    if not args or _subject(args[0], scope) != "path":
        return None
    subject = source(_resolved(args[0], scope))
    text = {"search": "{}", "match": "^(?:{})", "fullmatch": "^(?:{})$"}[func.attr]
    return text.replace("{}", found.text), found.ignore_case or ".lower()" in subject
