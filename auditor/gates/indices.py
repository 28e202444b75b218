"""For which index a function waits, beside another side's version of it: the same, or another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from auditor.source import facts as f
from auditor.source.names import Function

Index = tuple[frozenset[str], tuple[str, ...]]
"""The names that an index is computed from, and the numbers in it."""


def shifted(before: Function, after: Function, telling: Collection[str]) -> f.Call | None:
    """The call that waits for a member before or after the one that the other version waits for.

    Names and what else the function computes are the same: only a number in the index is not, so
    that it is not what it reads that has moved. Facts hold no operators, so ``i - 1`` and ``i + 1``
    are one.
    """
    then, now = _Indices(before, telling), _Indices(after, telling)
    if then.numbers != now.numbers:
        return None
    for called, index in now.waits:
        theirs = [
            i for c, i in then.waits if (c.receiver, c.name) == (called.receiver, called.name)
        ]
        if len(theirs) == 1 and theirs[0][0] == index[0] and theirs[0][1] != index[1]:
            return called.call
    return None


class _Called:
    def __init__(self, call: f.Call, func: f.Attr) -> None:
        self.call = call
        self.name = func.name
        self.receiver = f.dotted(func.value)


class _Indices:
    """The indices that a function waits for, and the numbers in everything else."""

    def __init__(self, function: Function, telling: Collection[str]) -> None:
        self.waits: list[tuple[_Called, Index]] = []
        self.numbers: Counter[str] = Counter()
        given = {
            target.id: stmt.value
            for stmt in f.statements(function.facts.body)
            if isinstance(stmt, f.Assign) and stmt.value is not None
            for target in stmt.targets
            if isinstance(target, f.Name) and function.parameter(target.id) is None
        }
        for stmt in f.statements(function.facts.body):
            for top in f.expressions(stmt):
                self.numbers.update(_numbers(top))
                for node in f.walk(top):
                    if isinstance(node, f.Call) and isinstance(node.func, f.Attr):
                        if node.func.name in telling and len(node.args) == 1:
                            own = node.args[0]
                            self.numbers.subtract(_numbers(own))
                            index = given.get(own.id, own) if isinstance(own, f.Name) else own
                            if index is not own:
                                self.numbers.subtract(_numbers(index))
                            self.waits.append((_Called(node, node.func), _index(index)))


def _index(expr: f.Expr) -> Index:
    names = frozenset(n for node in f.walk(expr) if (n := f.dotted(node)))
    return names, tuple(sorted(_numbers(expr)))


def _numbers(expr: f.Expr) -> Iterator[str]:
    for node in f.walk(expr):
        if isinstance(node, f.Const) and node.kind == "int":
            yield node.text
