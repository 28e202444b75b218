"""Which native encoders a tree has, and on what conditions it chooses them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from auditor.serve.tables.conditions import (
    Scope,
    Test,
    alternatives,
    assigned,
    conjunction,
    followed,
    function_of,
)
from auditor.serve.tables.constants import Module, Tree, evaluate
from auditor.serve.tables.facts import Encoder
from auditor.serve.tables.modules import bound, definitions, source
from auditor.serve.tables.values import is_known

_ENCODING = re.compile(r"^_*(resolve|choose|select|pick|get|use|infer)\w*_encod(ing|er)\w*$")
_DEFINED = re.compile(
    rb"def _*(?:resolve|choose|select|pick|get|use|infer)\w*_encod(?:ing|er)\w*\("
)

WORDS = (b"_encod", b"DetectionRule", b"register_conv_template", b"_PARSER_RULES")
"""Words that the files of interest hold; see ``Tree.mentioning``."""


def mentioning(tree: Tree, *words: bytes) -> list[str]:
    """The files that hold one of some words, in order of the words."""
    found = tree.mentioning(WORDS)
    return list(dict.fromkeys(path for word in words for path in found[word]))


def modules_of(tree: Tree, *words: bytes) -> list[Module]:
    """The modules that hold all of some words."""
    paths = mentioning(tree, *words)
    return [module for path in paths if (module := tree.module(path)) is not None]


def functions_of(module: Module) -> Iterator[tuple[ast.FunctionDef, str]]:
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
    for path in mentioning(tree, b"_encod"):
        module = tree.module(path) if _may_choose(tree.content(path) or b"") else None
        for node, _ in functions_of(module) if module else ():
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


# Templates by the model path


# Rules of ``auto``
