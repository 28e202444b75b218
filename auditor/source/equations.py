"""Sets that are defined by each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")

_NOWHERE = 1 << 30
_MOST_ROUNDS = 12
"""Sets only grow from round to round, unless their equations deny each other."""


class Equations(Generic[T]):
    """Sets that are defined by each other, solved for the smallest solution.

    So an answer does not depend on which of them was asked for first. One that is asked for while
    it is worked out answers with what the round before found; the outermost of a circle goes round
    until none of them changes. ``settled`` is False once that did not come to an end.
    """

    def __init__(self) -> None:
        self.settled = True
        self._solved: dict[tuple[object, ...], frozenset[T]] = {}
        self._open: dict[tuple[object, ...], int] = {}
        self._lowest = _NOWHERE
        self._before: dict[tuple[object, ...], frozenset[T]] = {}
        self._round: dict[tuple[object, ...], tuple[frozenset[T], int]] = {}

    def solve(self, key: tuple[object, ...], work: Callable[[], frozenset[T]]) -> frozenset[T]:
        """The solution for a key; ``work`` finds it and may come back to any key."""
        known = self._solved.get(key)
        if known is not None:
            return known
        depth = self._open.get(key)
        if depth is not None:
            self._lowest = min(self._lowest, depth)
            return self._before.get(key, frozenset())
        if key in self._round:
            found, lowest = self._round[key]
            self._lowest = min(self._lowest, lowest)
            return found
        outer, first = self._lowest, len(self._round)
        depth = self._open[key] = len(self._open)
        try:
            for last in reversed(range(_MOST_ROUNDS)):
                self._lowest = _NOWHERE
                found = work()
                if self._lowest == _NOWHERE:  # of no circle
                    self._solved[key] = found
                    return found
                if self._lowest < depth:  # of a circle that somebody further out goes round
                    for member in list(self._round)[first:]:  # what rests on this one does too
                        value, lowest = self._round[member]
                        self._round[member] = (value, min(lowest, self._lowest))
                    self._round[key] = (found, self._lowest)
                    return found
                circle = dict(list(self._round.items())[first:])
                values = {k: value for k, (value, _) in circle.items()} | {key: found}
                self._forget(circle)
                changed = {k: v for k, v in values.items() if self._before.get(k, frozenset()) != v}
                if not changed or not last:
                    self.settled &= not changed
                    self._solved |= values
                    for k in values:
                        self._before.pop(k, None)
                    self._lowest = _NOWHERE
                    break
                self._before |= changed
            return found
        except RecursionError:
            self._forget(list(self._round)[first:])
            raise
        finally:
            self._lowest = min(outer, self._lowest)
            del self._open[key]

    def _forget(self, keys: Iterable[tuple[object, ...]]) -> None:
        for key in keys:
            del self._round[key]
