"""Buffers that go by another name: a field of a record, and parts of one allocation."""

from __future__ import annotations

from collections.abc import Iterator, Set
from functools import cached_property

from auditor.gates.readings import Readings
from auditor.source import facts as f
from auditor.source.names import ClassKey, Function

Field = tuple[ClassKey, str]
"""(class of the record, name of the field)."""


class Handover:
    """What pools put into records, and which of their attributes are views of one allocation."""

    def __init__(self, readings: Readings) -> None:
        self.readings = readings
        self.index = readings.index
        self._inside = frozenset(readings.families)
        self._views_in: dict[tuple[object, ...], dict[str, set[str]]] = {}

    def taken(self, read: Set[Field], owner: ClassKey | None) -> set[str]:
        """The attributes that a pool puts into some fields."""
        own = None if owner is None else {m.key for m in self.readings.in_force(owner)}
        return {
            name
            for place, field, name in self._given
            if field in read and (own is None or place.owner is None or place.key in own)
        }

    @cached_property
    def _records(self) -> frozenset[str]:
        """The names of fields that a family fills in."""
        return frozenset(field for _, (_, field), _ in self._given)

    @cached_property
    def _given(self) -> list[tuple[Function, Field, str]]:
        """(function, field, attribute): ``Record(field=self.attribute)`` in the families' files.

        A function of such a file may stand in for a method, with the pool as its parameter.
        """
        files = {key[0] for key in self._inside}
        return [
            (function, (record, field), name)
            for function in self.index.every_function()
            if (function.owner in self._inside if function.owner else function.path in files)
            for call in _calls(function)
            for record in [self.index.class_in(function, f.dotted(call.func))]
            if record is not None
            for field, value in call.keywords
            for name in _attributes(value, {p.name for p in function.facts.parameters})
        ]

    def fields_read(self, method: Function) -> Iterator[Field]:
        """The fields of pools' records that a method reads."""
        if self._records.isdisjoint(method.facts.mentions):
            return
        for node in _nodes(method):
            if isinstance(node, f.Attr) and node.name in self._records:
                for record in self.index.types(method, method.owner, node.value):
                    yield record, node.name

    # -- one allocation --------------------------------------------------------------------------

    def sharing(self, owner: ClassKey, moved: set[str]) -> set[str]:
        """The attributes of a class that are views of what one that is moved is a view of."""
        found: set[str] = set()
        for method in self.index.methods(owner):
            views = {name: parts for name, parts in self._views(method).items() if parts}
            for name, parts in views.items():
                if any(parts & views[other] for other in views.keys() & moved):
                    found.add(name)
        return found

    def _views(self, method: Function) -> dict[str, set[str]]:
        """Attributes of self that a method makes → all that they are views of, by local names."""
        known = self._views_in.get(method.key)
        if known is None:
            bases = self._bases(method)
            made = {node for node in bases if node.startswith("self.")}
            known = {node.removeprefix("self."): _closure(node, bases) for node in made}
            self._views_in[method.key] = known
        return known

    def _bases(self, function: Function) -> dict[str, set[str]]:
        """Local name, or ``self.name`` → what a function makes it a direct view of.

        Of several results of a call, what they are views of by the names in what is called.
        """
        found = _assigned(function, self._view_methods)
        for stmt in f.statements(function.facts.body):
            if isinstance(stmt, f.Assign) and isinstance(stmt.value, f.Call):
                called = self.index.function_in(function, f.dotted(stmt.value.func))
                for target in stmt.targets:
                    if isinstance(target, f.Group) and called is not None:
                        results = self._results(called, len(target.parts))
                        for part, bases in zip(target.parts, results, strict=False):
                            found.setdefault(_node(part), set()).update(bases)
        return found

    def _results(self, called: Function, count: int) -> list[set[str]]:
        bases = _assigned(called, self._view_methods)
        for stmt in f.statements(called.facts.body):
            if isinstance(stmt, f.Exit) and isinstance(stmt.value, f.Group):
                if stmt.value.op == "tuple" and len(stmt.value.parts) == count:
                    return [
                        {f"{called.facts.name}: {name}" for name in _closure(_node(part), bases)}
                        for part in stmt.value.parts
                    ]
        return []

    @property
    def _view_methods(self) -> frozenset[str]:
        return self.readings.words.view_methods


def _assigned(function: Function, methods: frozenset[str]) -> dict[str, set[str]]:
    """Local name, or ``self.name`` → what is assigned to it a view of."""
    found: dict[str, set[str]] = {}
    for stmt in f.statements(function.facts.body):
        if not isinstance(stmt, f.Assign) or stmt.value is None:
            continue
        for target in stmt.targets:
            pairs = [(target, stmt.value)]
            if isinstance(target, f.Group) and isinstance(stmt.value, f.Group):
                pairs = list(zip(target.parts, stmt.value.parts, strict=False))
            for part, value in pairs:
                if _node(part):
                    found.setdefault(_node(part), set()).update(_viewed(value, methods))
    return found


def _calls(function: Function) -> Iterator[f.Call]:
    for node in _nodes(function):
        if isinstance(node, f.Call):
            yield node


def _nodes(function: Function) -> Iterator[f.Expr]:
    for stmt in f.statements(function.facts.body):
        for top in f.expressions(stmt):
            yield from f.walk(top)


def _attributes(value: f.Expr, names: set[str]) -> set[str]:
    """The attributes of some names that a value is made from."""
    return {
        node.name
        for node in f.walk(value)
        if isinstance(node, f.Attr) and isinstance(node.value, f.Name) and node.value.id in names
    }


def _node(expr: f.Expr) -> str:
    dotted = f.dotted(expr)
    plain = "." not in dotted or (dotted.startswith("self.") and dotted.count(".") == 1)
    return dotted if plain else ""


def _closure(node: str, bases: dict[str, set[str]]) -> set[str]:
    """A node and all that it is a view of, at first or second hand."""
    found: set[str] = set()
    pending = [node] if node else []
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += bases.get(name, ())
    return found


_CONTAINERS = frozenset(("list", "tuple", "enumerate", "zip", "reversed"))


def _viewed(value: f.Expr, methods: frozenset[str]) -> set[str]:
    """The local names and attributes of self that a value consists of views of."""
    if _node(value):
        return {_node(value)}
    again = [value.value] if isinstance(value, f.Sub) else []
    if isinstance(value, f.Group):
        again = list(value.parts) if value.op in ("list", "tuple", "dict", "star") else []
    elif isinstance(value, f.Call):
        if isinstance(value.func, f.Attr):
            again = [value.func.value] if value.func.name in methods else []
        elif f.dotted(value.func) in _CONTAINERS:
            again = list(value.args)
    elif isinstance(value, f.Comp):
        again = [value.element, *(source for _, source in value.generators)]
    return set().union(*(_viewed(part, methods) for part in again))
