"""What the calls of two versions of a function say of a wait that one of them lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from auditor.claims import LostWait
from auditor.confirm.answers import Row

_LATER = ("Lambda", "FunctionDef")
"""Around what runs at another time, if at all."""


def contradicted(lost: LostWait, was: int, then: Sequence[Row], now: Sequence[Row]) -> str:
    """What the rows of both versions say against a loss; empty for nothing.

    ``was`` is the line of the wait in the earlier version. What is written alike counts as the
    same only where all that its local names are given is written alike too.
    """
    there = [row for row in then if row.span[0] <= was <= row.span[2]]
    if not there:
        return f"no call of {lost.name} stands on line {was} of the version that waits"
    if lost.shape == "late":
        same = [row for row in now if any(row.code == one.code for one in there)]
        if same and all(row.span[:2] < (lost.about, 1) for row in same):
            return "the wait comes first"
        return ""
    own, theirs = (Counter(_marks(rows, lost)) for rows in (now, then))
    if any(own[mark] < theirs[mark] for mark in _marks(there, lost)):
        return ""
    return "it makes the same wait as often"


def _marks(rows: Iterable[Row], lost: LostWait) -> Iterator[tuple[str, tuple[str, ...]]]:
    """What makes two waits the same: of one that may be under a test now also what is around it."""
    for row in rows:
        yield (
            row.code,
            row.around
            if lost.shape == "weakened"
            else tuple(step for step in row.around if step in _LATER),
        )
