"""What code of the start writes to settings: at once, by their name, made of their own value."""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from auditor.serve.tables.constants import UNKNOWN, Tree, evaluate
from auditor.serve.tables.facts import Term
from auditor.serve.tables.flags import Field
from auditor.serve.tables.nodes import last_name
from auditor.serve.tables.setting_tests import Frame, Tests, imported
from auditor.serve.tables.terms import (
    Cases,
    Conjunction,
    both,
)
from auditor.serve.tables.values import ClassValue, is_known


class Writes(Tests):
    """Keeps what is written to settings, on top of what tests ask of them."""

    def __init__(self, tree: Tree, owner: ClassValue, declared: Mapping[str, Field]) -> None:
        super().__init__(tree, owner, declared)
        self.writes: list[Write] = []

    def stores(self, node: ast.stmt, frame: Frame, may: Cases) -> None:
        """Keep what a statement writes."""
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self.store(target, value, frame, may)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.store(target, value, frame, may)
            case ast.AugAssign(target=target) | ast.For(target=target):
                self.store(target, None, frame, may)
            case ast.Delete(targets=targets):
                for target in targets:
                    self.store(target, None, frame, may)

    def store(self, target: ast.expr, value: ast.expr | None, frame: Frame, may: Cases) -> None:
        """Keep what a target is given."""
        match target:
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                values = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
                for index, part in enumerate(parts):
                    same = len(values) == len(parts)
                    self.store(part, values[index] if same else None, frame, may)
            case ast.Attribute(value=owner, attr=name) if name in self.fields:
                if self.is_args(owner, frame):
                    self.write(name, value, frame, may)
            case ast.Subscript(slice=ast.Constant(value=str(name))) if name in self.fields:
                self.write(name, value, frame, may)
            case ast.Name(id=name):
                if value is not None and self.is_view(value, frame):
                    frame.args.add(name)

    def write(self, name: str, value: ast.expr | None, frame: Frame, may: Cases) -> None:
        """Keep one value of a setting, and when it is written."""
        match value:
            case None:
                self.writes.append(Write(name, UNKNOWN, may, self.order))
            case ast.IfExp():
                for part, negated in ((value.body, False), (value.orelse, True)):
                    when = both(may, self.test(value.test, frame, negated)[1], may)
                    self.write(name, part, frame, when)
            case ast.BoolOp(op=ast.Or(), values=[first, *rest]) if (
                self.field_of(first, frame) == name and len(rest) == 1
            ):
                when = both(may, (frozenset([Term(name, "false")]),), may)
                self.write(name, rest[0], frame, when)
            case ast.Call(func=ast.Name(id="int" | "float" | "bool" | "str"), args=[inner]) if (
                self.field_of(inner, frame) == name
            ):
                pass
            case _ if self.field_of(value, frame) == name:
                pass
            case _:
                constant = self.constant(value, frame)
                made = self.computed(name, value, frame) if constant is UNKNOWN else ()
                self.writes.append(Write(name, constant, may, self.order, *made))

    def computed(
        self, name: str, value: ast.expr, frame: Frame
    ) -> tuple[()] | tuple[Callable[[object, Conjunction], object], tuple[Conjunction, ...]]:
        """A value that is made of the field's own, and what says that others are not given."""
        settings = Settings(lambda node: self.field_of(node, frame))
        expression = settings.expression(value)
        if name not in settings.found:
            return ()
        scope = imported(value, frame)
        terms = [
            Term(other, "none" if self.fields[other].default is None else "false")
            for other in sorted(settings.found - {name})
            if self.fields[other].default in (None, False)
        ]
        alone = [frozenset([term]) for term in terms]
        given = (*alone, frozenset(terms)) if len(terms) > 1 else tuple(alone)

        @functools.cache
        def compute(before: object, left_out: Conjunction) -> object:
            names = {Settings.name(t.field): self.fields[t.field].default for t in left_out}
            own = {Settings.name(name): before}
            after = evaluate(expression, frame.module, {**scope, **names, **own})
            return after if is_known(after) else UNKNOWN

        return compute, given

    def declared(self, node: ast.expr, frame: Frame, may: Cases) -> None:
        """Values for settings by their name: keywords, dictionaries, pairs, ``setattr``."""
        match node:
            case ast.Call(func=function, args=args, keywords=keywords):
                handed = any(self.is_args(arg, frame) for arg in args)
                if handed or last_name(function) in ("dict", "update", "override"):
                    for keyword in keywords:
                        if keyword.arg in self.fields:
                            self.write(str(keyword.arg), keyword.value, frame, may)
                if last_name(function) == "setattr" and len(args) == 3 and handed:
                    for name in self.named(args[1], frame):
                        self.write(name, args[2], frame, may)
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    if isinstance(key, ast.Constant) and key.value in self.fields:
                        self.write(str(key.value), value, frame, may)
            case ast.Tuple(elts=[ast.Constant(value=str(name)), value]) if name in self.fields:
                self.write(name, value, frame, may)

    def named(self, node: ast.expr, frame: Frame) -> list[str]:
        """The settings that a name which is put together or looped over may stand for.

        Where a run decides it, the values come from declarations, which count where they stand.
        """
        match node:
            case ast.Constant(value=str(name)):
                names = [name]
            case ast.Name(id=variable):
                names = [
                    text
                    for rows in frame.loops.get(variable, ())
                    for text in (rows if isinstance(rows, (list, tuple)) else [rows])
                    if isinstance(text, str)
                ]
            case _:
                names = []
        return [name for name in names if name in self.fields]


@dataclass(frozen=True)
class Write:
    """A value that a field may get.

    ``computed`` gives it of the field's own value before; other settings that go into it are
    unknown, but for those that the terms leave out. ``given`` are such terms, fewer first.
    """

    field: str
    value: object
    when: Cases
    order: int
    computed: Callable[[object, Conjunction], object] | None = None
    given: tuple[Conjunction, ...] = ()


class Settings(ast.NodeTransformer):
    """Puts a name in the place of each setting in an expression."""

    def __init__(self, field_of: Callable[[ast.expr], str | None]) -> None:
        self.field_of = field_of
        self.found: set[str] = set()

    def expression(self, node: ast.expr) -> ast.expr:
        """A copy with the names in it."""
        made = self.visit(copy.deepcopy(node))
        return made if isinstance(made, ast.expr) else node

    @staticmethod
    def name(field_name: str) -> str:
        """A name that no text can have."""
        return f"setting {field_name}"

    def visit(self, node: ast.AST) -> ast.AST:
        """A name for a setting; any other code as it is."""
        found = self.field_of(node) if isinstance(node, ast.expr) else None
        if found is None:
            return self.generic_visit(node)
        self.found.add(found)
        return ast.Name(self.name(found), ast.Load())
