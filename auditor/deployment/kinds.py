"""What is asked about: a setting, a variable, the platform, the model, a class."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from auditor.deployment.code import Code
from auditor.deployment.parts import Body
from auditor.serve.tables.conditions import returns_true
from auditor.serve.tables.constants import UNKNOWN
from auditor.serve.tables.facts import Term
from auditor.serve.tables.modules import Tree, source
from auditor.serve.tables.terms import (
    Cases,
    holds,
)
from auditor.serve.tables.values import FunctionValue

_NEGATIVE = frozenset({"false", "none", "!=", "not in"})

Kind = Literal["flag", "variable", "model", "platform", "class", "parameter", "other"]
_OF_MODEL = re.compile(r"\b(hf_(?:\w+_)?config|model_config|architectures?|model_type)\b")
_OF_PLATFORM = re.compile(r"\bplatform\b", re.IGNORECASE)
_MODELS = "hf_config"
"""Whose attributes are the model's: the class that holds its configuration."""


class Kinds:
    """Fields of terms: what each is, and where it was first asked for."""

    def __init__(self, code: Code, tree: Tree, settings: Mapping[str, tuple[str, object]]) -> None:
        """``settings`` has for each field of the server's settings its flag and its default.

        ``tree`` has whole modules, where pieces of them do not tell enough.
        """
        self.code = code
        self.tree = tree
        self.settings = settings
        self.asked: dict[str, Asked] = {}
        self._models: frozenset[str] | None = None
        self._of_model: dict[ast.expr, bool] = {}
        self._following: list[int] = []

    def kind(self, term: Term) -> Kind:
        """What a term is about."""
        return self.asked[term.field].kind

    def absent(self, term: Term) -> bool | None:
        """Whether a term holds where nothing is set; None where that is not known.

        Of what is not understood the tree is taken to do what it does otherwise: an ``else``.
        """
        asked = self.asked[term.field]
        if asked.kind in ("flag", "variable"):
            return None if asked.default is UNKNOWN else holds(term, asked.default)
        if asked.kind in ("other", "parameter", "class"):
            return True if term.op in _NEGATIVE else None
        return None

    def constant(self, node: ast.expr, body: Body) -> object:
        """The value of a literal or a member of an enumeration, by its name."""
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, RecursionError, MemoryError):
            pass
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner[:1].isupper():
                return f"{owner}.{name}"
            case ast.Name(id=name):
                rows = body.file.given(body.file.top, name)
                if len(rows) == 1 and name not in body.assigned and name.isupper():
                    return self.constant(rows[0][0], body)
        return UNKNOWN

    def setting(self, node: ast.expr, body: Body) -> str | None:
        """The field of the settings that an expression reads, by its name."""
        match node:
            case ast.Attribute(attr=name) if name in self.settings:
                pass
            case ast.Name(id=name) if name in self.settings and name not in body.assigned:
                if name not in body.parameters:
                    return None
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
                if name not in self.settings:
                    return None
            case _:
                return None
        dest, default = self.settings[name]
        self.note(dest, "flag", dest, node, body, default)
        return dest

    def variable(self, node: ast.expr, body: Body) -> str | None:
        """The variable of the environment that an expression reads."""
        default: object = UNKNOWN
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Attribute(value=ast.Name(id=owner), attr=name)),
                args=[],
            ) if name.isupper():
                default = self.declared(owner, name, body)
            case ast.Call(func=func, args=[ast.Constant(value=str(name)), *rest]) if (
                name.isupper() and "env" in source(func).lower()
            ):
                default = rest[0].value if rest and isinstance(rest[0], ast.Constant) else None
                if isinstance(default, str) and default.lower() in ("false", "0", ""):
                    default = False
            case _:
                return None
        self.note(f"${name}", "variable", name, node, body, default)
        return f"${name}"

    def declared(self, owner: str, name: str, body: Body) -> object:
        """The default of a variable that a class of the tree declares."""
        imported = body.file.imported(owner)
        there = self.code.imported(imported[0]) if imported is not None else None
        for part in there.parts(name) if there is not None else ():
            for scope in part.bodies:
                for value, _, _ in scope.assigned.get(name, ()):
                    if isinstance(value, ast.Call) and value.args:
                        return self.constant(value.args[0], scope)
        return UNKNOWN

    def platform(self, node: ast.expr, body: Body, term: Term) -> str | None:
        """The platform that a test asks for: a function of no arguments that asks torch for it."""
        if term.op not in ("true", "false"):
            return None
        match node:
            case (
                ast.Call(func=ast.Attribute(value=owner, attr=name))
                | ast.Attribute(value=owner, attr=name)
            ) if name.startswith("is_") and _OF_PLATFORM.search(source(owner)):
                pass
            case ast.Call(func=ast.Name(id=name), args=[], keywords=[]) if name.startswith("is_"):
                function = self.code.function(body.file, name)
                if function is None or function.function is None:
                    return None
                if b"torch" not in ast.unparse(function.function).encode():
                    return None
            case _:
                return None
        word = name.removeprefix("is_")
        self.note(f"platform {word}", "platform", word, node, body)
        return f"platform {word}"

    def of_class(self, given: ast.expr, kinds: ast.expr, body: Body, negated: bool) -> Cases:
        """``isinstance(given, kinds)``: of a pool, or of a model's configuration."""
        parts = kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
        parts = [part for whole in parts for part in _either(whole)]
        names = "|".join(sorted(source(part).rpartition(".")[2] for part in parts))
        rows = body.assigned.get(given.id, ()) if isinstance(given, ast.Name) else ()
        kind: Kind = "class"
        about = self.of_model(given, body) or any(self.of_model(value, body) for value, *_ in rows)
        if about and all(name.endswith("Config") for name in names.split("|")):
            kind = "model"
        self.note(f"{kind} {names}", kind, names, kinds, body)
        return (frozenset([Term(f"{kind} {names}", "false" if negated else "true")]),)

    def of_model(self, node: ast.expr, body: Body) -> bool:
        """Whether an expression is about the model alone."""
        if node not in self._of_model:
            self._of_model[node] = bool(_OF_MODEL.search(source(node, 400))) or (
                isinstance(node, ast.Attribute)
                and not (isinstance(node.value, ast.Name) and node.value.id == "self")
                and node.attr in self.models
            )
        return self._of_model[node]

    @property
    def models(self) -> frozenset[str]:
        """The names of what the class that holds a model's configuration says of it."""
        if self._models is None:
            found: set[str] = set()
            for path in self.code.where("kept", _MODELS):
                file = self.code.file(path)
                if file is not None:
                    owners = {id(row[0].owner) for row in file.attributes(_MODELS)}
                    found |= {
                        name
                        for part in file.parts("self.")
                        for name, rows in part.attributes.items()
                        if any(id(row[0].owner) in owners for row in rows)
                    }
            self._models = frozenset(found)
        return self._models

    def model(self, node: ast.expr, body: Body, term: Term) -> Cases:
        """A question to the model, by the name of the function or attribute that answers it."""
        inner = node.func if isinstance(node, ast.Call) else node
        name = source(inner).rpartition(".")[2]
        field = f"model {name}"
        if field not in self.asked:
            self.note(field, "model", name, node, body, tests=self.architectures(node, body))
        if term.op in ("true", "set") or term.op in ("false", "none"):
            positive = term.op in ("true", "set")
            return (frozenset([Term(field, "true" if positive else "false")]),)
        return (frozenset([Term(field, term.op, term.values)]),)

    def architectures(
        self, node: ast.expr, body: Body
    ) -> tuple[tuple[tuple[str, tuple[str, ...], bool, bool], ...], ...]:
        """What a function of the tree asks of a model's architecture and type."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return ()
        function = self.code.function(body.file, node.func.id)
        if function is None or function.function is None or function.owner is not None:
            return ()
        module = self.tree.module(function.file.path)
        if module is None:
            return ()
        try:
            found = returns_true(FunctionValue(module, function.function))
        except RecursionError:
            return ()
        rows = tuple(
            tuple((t.subject, t.texts, t.part, t.negated) for t in alternative)
            for alternative in found
        )
        told = all(any(t[0] in ("architecture", "model_type") for t in row) for row in rows)
        return rows if told and len(rows) <= 8 else ()

    def opaque_subject(self, node: ast.expr, body: Body, term: Term) -> Cases:
        """A term on an expression that is not understood."""
        told = isinstance(node, ast.Attribute) and node.attr in self.models
        if told or self.of_model(node, body):
            return self.model(node, body, term)
        text = source(node, 80)
        self.note(f"? {text}", "other", text, node, body)
        return (frozenset([Term(f"? {text}", term.op, term.values)]),)

    def opaque(self, node: ast.expr, body: Body, negated: bool) -> Cases:
        """A whole test that is not understood."""
        text = source(node, 80)
        kind: Kind = "model" if _OF_MODEL.search(text) else "other"
        field = f"model {text}" if kind == "model" else f"? {text}"
        self.note(field, kind, text, node, body)
        return (frozenset([Term(field, "false" if negated else "true")]),)

    def note(
        self,
        field: str,
        kind: Kind,
        name: str,
        node: ast.AST,
        body: Body,
        default: object = UNKNOWN,
        tests: tuple[tuple[tuple[str, tuple[str, ...], bool, bool], ...], ...] = (),
    ) -> None:
        """Keep what a field is, and where it was first asked for."""
        line = getattr(node, "lineno", 0)
        self.asked.setdefault(field, Asked(kind, name, body.file.path, line, default, tests))


@dataclass(frozen=True)
class Asked:
    """What a term's field is: ``name`` says it to a person, ``default`` holds where nothing is set.

    ``tests`` are alternatives of (``architecture`` or ``model_type``, texts, whether a part of the
    name is enough, negated) that a model's configuration must pass; empty where they are unknown.
    """

    kind: Kind
    name: str
    path: str
    line: int
    default: object = UNKNOWN
    tests: tuple[tuple[tuple[str, tuple[str, ...], bool, bool], ...], ...] = ()


def _either(kinds: ast.expr) -> list[ast.expr]:
    """The classes of ``A | B``."""
    if isinstance(kinds, ast.BinOp) and isinstance(kinds.op, ast.BitOr):
        return [*_either(kinds.left), *_either(kinds.right)]
    return [kinds]


def place_of(body: Body) -> tuple[str, int]:
    """Where a body begins."""
    return body.file.path, body.function.lineno if body.function is not None else 1
