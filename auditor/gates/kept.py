"""Attributes in which a class keeps elements of its buffers: views that no later wait renews."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from auditor.gates.readings import Readings
from auditor.gates.values import SELF
from auditor.source import facts as f
from auditor.source.names import ClassKey, Function


def kept_views(readings: Readings, context: ClassKey) -> Mapping[str, frozenset[str]]:
    """Attribute → the attributes whose elements methods of a class put into it, as they are.

    A copy is none: it is what it was when it was made, whatever a load does afterwards.
    """
    found: dict[str, set[str]] = {}
    for method in readings.index.methods(context):
        work = partial(_puts, readings, method)
        for holder, taken in readings.index.derived.of(method.facts, "kept views", work).items():
            found.setdefault(holder, set()).update(taken)
    return {holder: frozenset(taken) for holder, taken in found.items()}


def _puts(readings: Readings, method: Function) -> dict[str, set[str]]:
    given: dict[str, list[f.Expr]] = {}
    stores: list[tuple[str, f.Expr]] = []
    for stmt in f.statements(method.facts.body):
        if not isinstance(stmt, f.Assign) or stmt.value is None:
            continue
        for target in stmt.targets:
            if isinstance(target, f.Sub) and (holder := _own(target.value)):
                stores.append((holder, stmt.value))
            for part in target.parts if isinstance(target, f.Group) else (target,):
                if isinstance(part, f.Name):
                    given.setdefault(part.id, []).append(stmt.value)
    found: dict[str, set[str]] = {}
    for holder, value in stores:
        taken = set(_taken(readings, method.owner, value, given, frozenset())) - {holder}
        if taken:
            found.setdefault(holder, set()).update(taken)
    return found


def _taken(
    readings: Readings,
    owner: ClassKey | None,
    expr: f.Expr,
    given: Mapping[str, list[f.Expr]],
    seen: frozenset[str],
) -> Iterator[str]:
    """The attributes whose element an expression is, or a view of it."""
    match expr:
        case f.Name(id=name) if name not in seen:
            for value in given.get(name, ()):
                yield from _taken(readings, owner, value, given, seen | {name})
        case f.Choice():
            yield from _taken(readings, owner, expr.body, given, seen)
            yield from _taken(readings, owner, expr.orelse, given, seen)
        case f.Sub():
            yield from [_own(expr.value)] if _own(expr.value) else ()
            yield from _taken(readings, owner, expr.value, given, seen)
        case f.Call(func=f.Attr(value=inner, name=name)):
            if name in readings.words.view_methods:
                yield from _taken(readings, owner, inner, given, seen)
            else:
                for holder in _held(inner, given, seen):
                    # An object that holds buffers hands out an element; of a tensor it is a copy.
                    types = readings.index.attribute_types(owner, holder) if owner else ()
                    if types or name in readings.evaluator.votes:
                        yield holder


def _held(expr: f.Expr, given: Mapping[str, list[f.Expr]], seen: frozenset[str]) -> Iterator[str]:
    """The attributes that hold an object which is asked for an element."""
    match expr:
        case f.Name(id=name) if name not in seen:
            for value in given.get(name, ()):
                yield from _held(value, given, seen | {name})
        case f.Choice():
            yield from _held(expr.body, given, seen)
            yield from _held(expr.orelse, given, seen)
        case f.Sub():
            yield from _held(expr.value, given, seen)
        case f.Attr():
            yield from [_own(expr)] if _own(expr) else ()


def _own(expr: f.Expr) -> str:
    own = isinstance(expr, f.Attr) and expr.value == f.Name(SELF[0])
    return expr.name if own and isinstance(expr, f.Attr) else ""
