"""Methods that take what their siblings wait on, and do nothing with it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

from auditor.gates.gaps import Gap, Sibling
from auditor.gates.handed import every_expression, waited_later
from auditor.gates.readings import Readings
from auditor.gates.unread import stored_in_vain
from auditor.model import Side
from auditor.source import facts as f
from auditor.source.names import ClassKey, Function

_FEWEST = 2
"""Siblings that wait; one alone may be the odd one out."""


def dropped_parameters(side: Side, readings: Readings) -> Iterator[Gap]:
    """One gap a method and parameter; siblings share a base that has the method, or its name."""
    for (_, parameter), methods in sorted(_by_parameter(readings).items()):
        if not any(
            parameter in _waited(readings, method)
            or waited_later(readings, key, method, parameter) is not None
            for key, method in methods
        ):
            continue
        waiting = [
            (key, where)
            for key, method in methods
            if (where := _waits_on(readings, key, method, parameter)) is not None
        ]
        if len(waiting) < _FEWEST:
            continue
        for key, method in methods:
            siblings = [
                _sibling(side, *where, parameter)
                for near, where in waiting
                if _related(readings, key, near)
            ]
            if len(siblings) < _FEWEST:
                continue
            ignored = _ignores(method, parameter)
            if ignored or stored_in_vain(readings, key, method, parameter):
                facts = method.facts
                yield Gap(
                    "dropped-parameter",
                    method,
                    key,
                    (parameter,),
                    facts.line,
                    facts.column,
                    tuple(siblings),
                    1,
                    "medium",
                    "unknown",
                    "whether the caller has work in flight is not known",
                    f"{facts.qualname}.{parameter}",
                    parameter,
                    here=ignored,
                )


def _by_parameter(
    readings: Readings,
) -> dict[tuple[str, str], list[tuple[ClassKey, Function]]]:
    found: dict[tuple[str, str], list[tuple[ClassKey, Function]]] = {}
    for key, known in readings.index.classes.items():
        for name, method in known.methods.items():
            if not name.startswith("__"):
                for parameter in method.facts.parameters[1:]:
                    found.setdefault((name, parameter.name), []).append((key, method))
    return {pair: methods for pair, methods in found.items() if len(methods) > _FEWEST}


def _waited(readings: Readings, method: Function) -> Collection[str]:
    """The plain names that a body itself waits on: worth asking what the others do."""
    primitive = readings.words.primitive_waits.keys()
    if primitive.isdisjoint(method.facts.mentions):
        return ()
    work = partial(_waited_names, method, primitive)
    return readings.index.derived.of(method.facts, "waited", work)


def _waited_names(method: Function, primitive: Collection[str]) -> set[str]:
    found: set[str] = set()
    for expr in _expressions(method):
        for node in f.walk(expr):
            if isinstance(node, f.Call) and isinstance(node.func, f.Attr):
                if node.func.name in primitive:
                    places = (node.func.value, *node.args)
                    found |= {e.id for e in places if isinstance(e, f.Name)}
    return found


def _waits_on(
    readings: Readings, key: ClassKey, method: Function, parameter: str
) -> tuple[Function, int] | None:
    """Where a method, or who it hands its parameter to, waits on it: the function and the line."""
    if not any(_names(expr, parameter) for expr in _expressions(method)):
        return None
    root = f"param:{parameter}"
    for wait in readings.summary(method, key).waits:
        if wait.token == (root,):
            return method, method.line_of(wait.line)
    return waited_later(readings, key, method, parameter)


def _ignores(method: Function, parameter: str) -> bool:
    """Whether a body does something, and never with the parameter."""
    body = method.facts.body
    if not body or all(isinstance(s, f.Exit) and s.kind == "raise" for s in body):
        return False
    return not any(_names(expr, parameter) for expr in _expressions(method))


def _expressions(method: Function) -> Iterator[f.Expr]:
    return (expr for _, expr in every_expression(method.facts.body))


def _names(expr: f.Expr, name: str) -> bool:
    return any(isinstance(node, f.Name) and node.id == name for node in f.walk(expr))


def _related(readings: Readings, left: ClassKey, right: ClassKey) -> bool:
    return left != right and bool(_bases(readings, left) & _bases(readings, right))


def _bases(readings: Readings, key: ClassKey) -> set[tuple[str, str]]:
    """A class and its bases; of those whose file was not read, what they are imported as.

    A base from outside the tree (``torch.nn.Module``) makes nobody a sibling.
    """
    found = set(readings.index.classes[key].mro)
    for path, qualname in readings.index.classes[key].mro:
        package = path.partition("/")[0]
        for base in readings.index.classes[path, qualname].facts.bases:
            name = f.dotted(base)
            if readings.index.class_of(path, name) is None:
                for entry in readings.index.modules[path].imports:
                    if entry.name == name and entry.module.partition(".")[0] == package:
                        found.add((entry.module, entry.member))
    return found


def _sibling(side: Side, method: Function, line: int, parameter: str) -> Sibling:
    facts = method.facts
    return Sibling(side, method.path, facts.qualname, line, parameter, parameter, facts.name, "")
