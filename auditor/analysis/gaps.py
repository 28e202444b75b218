"""The values an analysis of gates ends in: a gap, and the siblings that speak against it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from auditor.analysis.values import Place
from auditor.model import Confidence, Reach, Side
from auditor.source.index import ClassKey, Function

Shape = Literal[
    "dropped-parameter",
    "optional",
    "late",
    "partial",
    "override",
    "delegate",
    "bypass",
    "ungated",
    "removed",
]
"""How a read misses its gate; each rule owns one, the most specific shape wins."""


@dataclass(frozen=True, order=True)
class Sibling:
    """A reader that waits: where, on which side, before which read, on which gate.

    ``line`` is that of the wait.
    ``root`` is the attribute of its object, ``inner`` the buffer of the object held there.
    """

    side: Side
    path: str
    symbol: str
    line: int
    root: str
    gate: str
    name: str
    inner: str


@dataclass(frozen=True)
class Gap:
    """A read that misses the gate of its siblings.

    ``waits`` are the lines of the method's own waits, where it has some that do not cover the read.
    """

    shape: Shape
    function: Function
    context: ClassKey
    roots: tuple[str, ...]
    line: int
    column: int
    siblings: tuple[Sibling, ...]
    unguarded: int
    confidence: Confidence
    reach: Reach
    reach_reason: str
    cause: str
    gate: str
    callers: tuple[Place, ...] = ()
    detail: str = ""
    waits: tuple[int, ...] = ()


def nearness(gap: Gap, sibling: Sibling) -> tuple[bool, bool, bool, int]:
    """How near a sibling is to a read, the least first: class, file, buffer, and lines between."""
    here, there = gap.function, sibling.path
    owner = here.facts.qualname.rpartition(".")[0]
    return (
        there != here.path or sibling.symbol.rpartition(".")[0] != owner,
        there != here.path,
        sibling.root not in gap.roots,
        abs(sibling.line - gap.line),
    )
