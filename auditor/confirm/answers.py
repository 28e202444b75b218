"""What is asked of a second reading of a function, and what it answers."""

from __future__ import annotations

from typing import Literal

import msgspec

from auditor.claims import Claim

Span = tuple[int, int, int, int]
"""Line and column of the first character, and of the one behind the last; 1-based."""


class Waits(msgspec.Struct, frozen=True, array_like=True):
    """What waits: primitive waits by name with their kinds, and methods of the object that do.

    A wait that may be told an index is of kind ``keyed``.
    """

    primitive: tuple[tuple[str, str], ...]
    methods: tuple[str, ...] = ()


class Row(msgspec.Struct, frozen=True, array_like=True):
    """A call where it stands: its code, and the tests and blocks around it with exits before it."""

    code: str
    around: tuple[str, ...]
    span: Span


class Question(msgspec.Struct, frozen=True, array_like=True):
    """Whether a claim holds in a place; without one, where the wait on a line stands.

    Without a ``wait`` neither, only what stands there, or where all ``calls`` of a name do. Lines
    count from the ``def``, which is 1; column 1 stands for an unknown one.
    """

    line: int
    column: int
    waits: Waits
    claim: Claim | None = None
    wait: bool = False
    calls: str = ""


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """What the second reading says: ``yes``, ``no``, or that it cannot read; and why.

    ``span`` is where what is meant stands, its lines counted as in the question. ``called`` is the
    method of its own object that a statement there calls and does nothing else. ``rows`` are the
    calls that were asked for.
    """

    verdict: Literal["yes", "no", "unreadable"]
    reason: str = ""
    span: Span | None = None
    called: str = ""
    rows: tuple[Row, ...] = ()
