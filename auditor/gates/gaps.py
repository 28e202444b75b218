"""The values an analysis of gates ends in: a gap, and the siblings that speak against it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from auditor.gates.values import Place
from auditor.model import Confidence, Reach, Side
from auditor.source.names import ClassKey, Function

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

    ``line`` is that of the wait, ``apart`` says that it is another one than that of the read.
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
    apart: bool = True


@dataclass(frozen=True)
class Gap:
    """A read that misses the gate of its siblings.

    ``waits`` are the lines of the method's own waits, where it has some that do not cover the read,
    ``disarmed`` is where the gate of the object that is read through is made void. ``maybe_target``
    says that the read may be no more than the target of a store, ``here`` that the function takes
    the element itself, and not what it calls, or drops the parameter itself. ``vain`` says that the
    function does wait on the gate, but not for what it reads, or after it took the gate away.
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
    disarmed: Place | None = None
    maybe_target: bool = False
    here: bool = True
    vain: bool = False


def nearness(gap: Gap, sibling: Sibling) -> tuple[bool, bool, bool, bool, bool, int]:
    """How near a sibling is to a read, the least first.

    Of an override the replaced method; then those of the class, of the file and of the buffer,
    those whose wait can be seen, and by the lines between.
    """
    here, there = gap.function, sibling.path
    owner = here.facts.qualname.rpartition(".")[0]
    return (
        gap.shape == "override" and sibling.name != here.facts.name,
        there != here.path or sibling.symbol.rpartition(".")[0] != owner,
        there != here.path,
        sibling.root not in gap.roots,
        not sibling.apart,
        abs(sibling.line - gap.line),
    )
