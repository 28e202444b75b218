"""Says whether a change could be taken back from a file as it stands: then the file has it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

_AROUND = 3  # lines of context, as in a patch
_SAYS = re.compile(r"\s*[^\s#]")
_INSIDE = re.compile(r"(\s*)(?:async\s+)?def\s+(\w+)")


def stands(old: bytes, new: bytes, tree: bytes) -> bool:
    """Whether the reverse of the change from ``old`` to ``new`` applies to ``tree`` word for word.

    Each changed place, with three lines on either side, is in ``tree`` and in ``new`` exactly once,
    in the same order and in a function of the same name, and as it was before nowhere in ``tree``.
    Each adds a line that says something: a place that only lost lines looks alike in a file that
    never had them. Such a file has the change, whatever else became of the code around it. False
    proves nothing.
    """
    before, after, found = map(_lines, (old, new, tree))
    places = list(_places(before, after))
    at = 0
    for place in places:
        if place.first is None or _times(after, place.new) != [place.start]:
            return False
        hits = _times(found, place.new)
        if len(hits) != 1 or hits[0] < at:
            return False
        # At an end of the file what was added may leave all that was there in one piece.
        if not _times(place.new, place.old) and _times(found, place.old):
            return False
        at = hits[0]
        moved = at - place.start
        if _function(after, place.first) != _function(found, place.first + moved):
            return False
    return bool(places)


class _Place(NamedTuple):
    """A changed place with lines around it, as it was and as it is.

    It begins at ``start`` of the new text; ``first`` is there the first added line that says
    anything.
    """

    old: Sequence[str]
    new: Sequence[str]
    start: int
    first: int | None


def _lines(content: bytes) -> list[str]:
    return content.decode("utf-8", "surrogateescape").splitlines()


def _places(before: Sequence[str], after: Sequence[str]) -> Iterator[_Place]:
    # Most of a file is the same at both ends, and comparing it would take all of the time.
    least = min(len(before), len(after))
    head = next((i for i in range(least) if before[i] != after[i]), least)
    tail = next((i for i in range(least - head) if before[-1 - i] != after[-1 - i]), least - head)
    middle = SequenceMatcher(
        None, before[head : len(before) - tail], after[head : len(after) - tail], autojunk=False
    )
    merged: list[list[tuple[int, int, int, int]]] = []
    for tag, *ends in middle.get_opcodes():
        if tag == "equal":
            continue
        change = (head + ends[0], head + ends[1], head + ends[2], head + ends[3])
        if merged and change[2] - merged[-1][-1][3] <= 2 * _AROUND:
            merged[-1].append(change)
        else:
            merged.append([change])
    for changes in merged:
        (first_old, _, first, _), (_, last_old, _, last) = changes[0], changes[-1]
        told = [_first(after, *change[2:]) for change in changes]
        start = max(first - _AROUND, 0)
        yield _Place(
            before[max(first_old - _AROUND, 0) : last_old + _AROUND],
            after[start : last + _AROUND],
            start,
            None if None in told else told[0],
        )


def _first(after: Sequence[str], start: int, end: int) -> int | None:
    return next((at for at in range(start, end) if _SAYS.match(after[at])), None)


def _times(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Where a run of lines stands."""
    size, known = len(wanted), list(wanted)
    if not size:
        return []
    return [
        at
        for at in range(len(lines) - size + 1)
        if lines[at] == known[0] and list(lines[at : at + size]) == known
    ]


def _function(lines: Sequence[str], at: int) -> str:
    """The name of the function that a line stands in, or begins; empty outside of any."""
    indent = len(lines[at]) - len(lines[at].lstrip())
    for number in range(at, -1, -1):
        match = _INSIDE.match(lines[number])
        if match and (number == at or len(match[1]) < indent):
            return match[2]
    return ""
