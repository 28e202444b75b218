"""By which parameters a function chooses the members that it reads, followed into callees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from auditor.gates.readings import Readings, key_parameters, reads_elements
from auditor.gates.values import SELF
from auditor.source import facts as f
from auditor.source.names import ClassKey, Function

Chosen = frozenset[str]
"""Parameters and attributes of parameters (``layer.layer_id``) that an index is made of."""

UNKNOWN = "?"
"""Stands among them for all that is no parameter's value, such as the variable of a loop."""

_DEEPEST = 4
"""Calls that are followed from a method to the helper that takes the member."""


def chosen(
    readings: Readings, function: Function, context: ClassKey, roots: frozenset[str], depth: int = 0
) -> frozenset[Chosen]:
    """For each place at which members of attributes are taken, what chooses them; constants not."""
    body = _Body.of(function)
    found: set[Chosen] = set()
    for node in body.nodes:
        if isinstance(node, f.Sub) and body.root(node.value) in roots:
            found.add(body.terms(_first(node.index)))
        elif isinstance(node, f.Call) and depth < _DEEPEST:
            for callee, owner, taken in _callees(readings, body, node, context, roots):
                for inner in chosen(readings, callee, owner, taken, depth + 1):
                    found.add(body.handed(node, callee, inner))
    return frozenset(found - {frozenset()})


def _callees(
    readings: Readings, body: _Body, call: f.Call, context: ClassKey, roots: frozenset[str]
) -> Iterator[tuple[Function, ClassKey, frozenset[str]]]:
    """The methods that a call on the object or on one of its attributes may mean, and their roots.

    On another object all that is chosen by a parameter counts, for its attributes have names of
    their own.
    """
    if not isinstance(call.func, f.Attr):
        return
    name, held = call.func.name, call.func.value
    index = readings.index
    if held == f.Name(body.receiver):
        method = index.method(context, name)
        if method is not None:
            yield method, context, roots
    elif isinstance(held, f.Call) and held.func == f.Name("super"):
        owner = body.function.owner
        method = index.method(context, name, owner) if owner is not None else None
        if method is not None:
            yield method, context, roots
    elif isinstance(held, f.Attr) and body.root(held) in roots:
        for key in sorted(index.attribute_types(context, held.name)):
            method = index.method(key, name)
            if method is not None:
                reads = readings.summary(method, key).reads
                keyed = [r for r in reads if reads_elements(r) and key_parameters(r)]
                yield method, key, frozenset(r.path[1] for r in keyed if r.path[:1] == SELF)


def _first(index: f.Expr) -> f.Expr:
    """Of ``rows[layer, slots]`` the index that chooses the member."""
    return index.parts[0] if isinstance(index, f.Group) and index.op == "tuple" else index


@dataclass
class _Body:
    """A function's expressions, and what its names were given."""

    function: Function
    receiver: str
    parameters: frozenset[str]
    nodes: list[f.Expr] = field(default_factory=list)
    _given: dict[str, list[f.Expr | None]] = field(default_factory=dict)

    @classmethod
    def of(cls, function: Function) -> _Body:
        names = [p.name for p in function.facts.parameters]
        bound = function.owner is not None and "staticmethod" not in function.facts.decorators
        body = cls(function, names[0] if bound and names else "", frozenset(names[bound:]))
        for stmt in f.statements(function.facts.body):
            for top in f.expressions(stmt):
                body.nodes += f.walk(top)
            if isinstance(stmt, f.Assign) and stmt.value is not None:
                for target in stmt.targets:
                    body._bind(target, stmt.value)
            elif isinstance(stmt, f.Augment):
                body._bind(stmt.target, stmt.value)
            elif isinstance(stmt, f.Loop) and stmt.target is not None:
                body._bind(stmt.target, None)
            elif isinstance(stmt, f.With):
                for _, bound_as in stmt.items:
                    if bound_as is not None:
                        body._bind(bound_as, None)
        for node in body.nodes:
            if isinstance(node, f.Comp):
                for target, _ in node.generators:
                    body._bind(target, None)
            elif isinstance(node, f.Bind):
                body._given.setdefault(node.target, []).append(node.value)
        return body

    def _bind(self, target: f.Expr, value: f.Expr | None) -> None:
        if isinstance(target, f.Name):
            self._given.setdefault(target.id, []).append(value)
        elif isinstance(target, f.Group):
            parts: Sequence[f.Expr] = value.parts if isinstance(value, f.Group) else ()
            one_each = len(parts) == len(target.parts)
            for position, part in enumerate(target.parts):
                self._bind(part, parts[position] if one_each else None)

    def root(self, expr: f.Expr, known: frozenset[str] = frozenset()) -> str:
        """The attribute of the object through which attributes alone lead; empty for none."""
        while isinstance(expr, f.Attr):
            if expr.value == f.Name(self.receiver):
                return expr.name
            expr = expr.value
        if isinstance(expr, f.Name) and expr.id not in known:
            told = {
                self.root(value, known | {expr.id}) if value is not None else ""
                for value in self._given.get(expr.id, ())
            }
            return told.pop() if len(told) == 1 else ""
        return ""

    def terms(self, expr: f.Expr | None, known: frozenset[str] = frozenset()) -> Chosen:
        """What the value of an expression is made of."""
        if expr is None or isinstance(expr, f.Comp | f.Lambda):
            return frozenset((UNKNOWN,))
        match expr:
            case f.Name(id=name):
                own = frozenset((name,)) if name in self.parameters else frozenset[str]()
                given = () if name in known else self._given.get(name, ())
                return own.union(*(self.terms(value, known | {name}) for value in given))
            case f.Attr(value=f.Name(id=name), name=attribute) if name in self.parameters:
                return frozenset((f"{name}.{attribute}",))
            case f.Sub(value=f.Name(id=name)) if name in self.parameters:
                return frozenset((UNKNOWN,))
            case f.Choice():
                return self.terms(expr.body, known) | self.terms(expr.orelse, known)
        parts = (self.terms(part, known) for part in f.children(expr))
        return frozenset[str]().union(*parts)

    def handed(self, call: f.Call, callee: Function, inner: Chosen) -> Chosen:
        """What chooses in a callee, in terms of what the call gives it; defaults are constants."""
        plain = [p.name for p in callee.facts.parameters if p.kind == "plain"]
        plain = plain[callee.owner is not None and "staticmethod" not in callee.facts.decorators :]
        starred = any(isinstance(a, f.Group) and a.op == "star" for a in call.args)
        given = dict(call.keywords) | ({} if starred else dict(zip(plain, call.args, strict=False)))
        found: set[str] = {UNKNOWN} if starred or "**" in given else set()
        for term in inner:
            name, dot, attribute = term.partition(".")
            if term == UNKNOWN:
                found.add(term)
            elif name in given:
                found |= {t + dot + attribute for t in self.terms(given[name])}
        return frozenset(found)
