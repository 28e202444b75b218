"""Sets the source lines of a finding side by side, with the place and what differs marked."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import Literal, NamedTuple

from auditor.formats.text import printable
from auditor.model import Excerpt, Side

ROWS = {"read": 10, "sibling": 6, "upstream": 10}
"""Lines of an excerpt that are shown: the place, what differs near it, and the definition."""
_LONG = 60  # lines from which on an excerpt may begin and end within its function
_LONGEST = 200  # characters of a line
_BEFORE_PLACE = 40  # of them before a place that lies beyond

_WORD = re.compile(r"\w+|\s+|[^\w\s]")

Sign = Literal["", "+", "-"]
Kind = Literal["", "place", "word"]
Marks = dict[int, Container[int]]
"""Lines (by index) that the other side does not have, and which of their characters differ."""


class Piece(NamedTuple):
    """Characters of a line: the marked ``place``, a ``word`` that differs, or neither."""

    text: str
    kind: Kind


class Row(NamedTuple):
    """A line with its number (1-based); where ``left_out`` is not 0, so many lines instead.

    ``sign`` is ``+`` on a line that only the fork has and ``-`` on one that only upstream has.
    """

    number: int
    pieces: tuple[Piece, ...] = ()
    sign: Sign = ""
    marked: bool = False
    left_out: int = 0


class Column(NamedTuple):
    """An excerpt, by what it is called (printable), and those of its lines that are shown."""

    role: Literal["read", "sibling", "upstream"]
    side: Side
    path: str
    line: int
    symbol: str
    rows: tuple[Row, ...]


def columns(excerpts: Sequence[Excerpt]) -> list[Column]:
    """A column for each excerpt, in the order given; all text in the rows is printable.

    The first upstream version is held against the fork's own place line by line.
    """
    texts = {id(excerpt): _lines(excerpt) for excerpt in excerpts}
    ours = next((e for e in excerpts if e.role == "read" and e.side == "fork"), None)
    theirs = next((e for e in excerpts if e.role == "upstream"), None)
    changed: dict[int, Marks] = {}
    if ours is not None and theirs is not None:
        changed[id(ours)], changed[id(theirs)] = _differences(ours, theirs)
    return [
        Column(
            excerpt.role,
            excerpt.side,
            printable(excerpt.path),
            excerpt.line,
            printable(excerpt.symbol),
            tuple(_rows(excerpt, texts[id(excerpt)], changed.get(id(excerpt), {}))),
        )
        for excerpt in excerpts
    ]


def _margin(excerpt: Excerpt) -> int:
    """Columns of indentation that every line has."""
    return min((len(s) - len(s.lstrip()) for s in excerpt.lines if s.strip()), default=0)


def _lines(excerpt: Excerpt) -> list[str]:
    margin = _margin(excerpt)
    return [line[margin:].rstrip() for line in excerpt.lines]


def _differences(ours: Excerpt, theirs: Excerpt) -> tuple[Marks, Marks]:
    """The marks of both sides; no characters where the other side has no line for a line."""
    mine, other = _lines(ours), _lines(theirs)
    codes = SequenceMatcher(None, mine, other, autojunk=False).get_opcodes()
    if max(len(mine), len(other)) >= _LONG:
        # At the ends one side may only have been cut out from further on.
        codes = [c for c in codes if c[0] == "replace" or c not in (codes[0], codes[-1])]
    marks: tuple[Marks, Marks] = {}, {}
    for tag, first, last, their_first, their_last in codes:
        if tag == "equal":
            continue
        lines, their_lines = range(first, last), range(their_first, their_last)
        marks[0].update(dict.fromkeys(lines, ()))
        marks[1].update(dict.fromkeys(their_lines, ()))
        if len(lines) == len(their_lines):
            for line, their_line in zip(lines, their_lines, strict=True):
                words = _words(mine[line], other[their_line])
                marks[0][line], marks[1][their_line] = words
    return marks


def _words(ours: str, theirs: str) -> tuple[set[int], set[int]]:
    """The characters of the words that the other line does not have; none where all differ."""
    tokens = [_WORD.findall(line[:_LONGEST]) for line in (ours, theirs)]
    matcher = SequenceMatcher(None, tokens[0], tokens[1], autojunk=False)
    if matcher.ratio() < 0.5:
        return set(), set()
    found: tuple[set[int], set[int]] = set(), set()
    for tag, *spans in matcher.get_opcodes():
        if tag != "equal":
            for side, (first, last) in enumerate((spans[:2], spans[2:])):
                start = sum(map(len, tokens[side][:first]))
                found[side].update(range(start, start + sum(map(len, tokens[side][first:last]))))
    return found


def _rows(excerpt: Excerpt, texts: Sequence[str], changed: Marks) -> Iterator[Row]:
    at = excerpt.line - excerpt.first
    sign: Sign = "-" if excerpt.role == "upstream" else "+"
    before = 0
    for index in _shown(len(texts), at, changed, ROWS[excerpt.role]):
        if index > before:
            yield Row(0, left_out=index - before)
        place = _place(excerpt, texts[index]) if index == at else range(0)
        yield Row(
            excerpt.first + index,
            tuple(_pieces(texts[index], place, changed.get(index, ()))),
            sign if index in changed else "",
            index == at,
        )
        before = index + 1
    if before < len(texts):
        yield Row(0, left_out=len(texts) - before)


def _shown(total: int, at: int, changed: Container[int], most: int) -> list[int]:
    """The indices of some ``most`` lines, what matters most taken first."""
    near = sorted(range(total), key=lambda index: (abs(index - at), index > at))
    definition = [0] if total < _LONG else []
    kinds = (
        [at, *definition, at - 1, at + 1, at - 2],
        [index for index in near if index in changed],
        near,
    )
    wanted = dict.fromkeys(i for kind in kinds for i in kind if 0 <= i < total)
    shown = sorted(list(wanted)[:most])
    # A line takes no more room than to say that one is left out.
    alone = [i for i in range(total) if i not in shown and {i - 1, i + 1} <= {-1, total, *shown}]
    return sorted([*shown, *alone])


def _place(excerpt: Excerpt, text: str) -> range:
    """The marked characters of a line without its margin."""
    margin = _margin(excerpt)
    start = max(excerpt.column - 1 - margin, 0)
    end = excerpt.end_column - 1 - margin if excerpt.end_column else len(text)
    return range(start, min(end, len(text)))


def _pieces(text: str, place: range, words: Container[int]) -> Iterator[Piece]:
    first = max(0, place.start - _BEFORE_PLACE) if place and place.start >= _LONGEST else 0
    last = min(len(text), first + _LONGEST)

    def kind(index: int) -> Kind:
        return "place" if index in place else "word" if index in words else ""

    if first:
        yield Piece("… ", "")
    for told, run in groupby(range(first, last), key=kind):
        indices = list(run)
        yield Piece(printable(text[indices[0] : indices[-1] + 1]), told)
    if last < len(text):
        yield Piece(" …", "")
