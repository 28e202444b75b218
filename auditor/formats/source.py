"""Draws lines of source for a terminal: numbered, harmless, with carets under the marked place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from auditor.formats.text import Paint, printable, width_of
from auditor.model import Excerpt

TAB = 4  # columns
_LEAST_ROOM = 20  # columns of source, however narrow the screen


class Row(NamedTuple):
    """A line as it is shown; ``carets`` are the first marked column (from 0) and how many."""

    number: int
    text: str
    carets: tuple[int, int] | None = None


def draw(
    excerpt: Excerpt, paint: Paint, width: int, *, severity: str, gutter: int, before: int = 1
) -> Iterator[str]:
    """The marked line and some before it, then a line of carets and the note of the excerpt.

    ``gutter`` is the room of the line numbers; ``width`` is that of the screen, in columns.
    """
    room = max(_LEAST_ROOM, width - gutter - 5)
    bar = paint.dim(" " * gutter + " |")
    for row in rows(excerpt, room, before):
        yield f"  {paint.dim(f'{row.number:>{gutter}} |')} {row.text}".rstrip()
        if row.carets is not None:
            start, length = row.carets
            note = printable(excerpt.note)
            fits = start + length + 1 + columns_of(note) <= room
            carets = " " * start + paint.severity(severity, "^" * length)
            yield f"  {bar} {carets} {note if fits else ''}".rstrip()
            if note and not fits:
                yield f"  {bar} {note}"


def rows(excerpt: Excerpt, room: int, before: int) -> list[Row]:
    """The lines, without what all of them are indented by, cut to ``room`` columns."""
    marked = excerpt.line - excerpt.first
    first = max(0, marked - before)
    while first < marked and not any(map(str.isalnum, excerpt.lines[first])):
        first += 1
    shown = [spread(line) for line in excerpt.lines[first : marked + 1]]
    text, columns = shown[-1]
    start = columns[min(excerpt.column - 1, len(columns) - 1)]
    indents = [len(text) - len(text.lstrip(" ")) for text, _ in shown if text.strip()]
    indent = min([start, *indents])
    end = columns[min(excerpt.end_column - 1, len(columns) - 1)] if excerpt.end_column else 0
    end = end or columns[-1] - (len(text) - len(text.rstrip()))
    left = indent if start - indent < room - 1 else start - room // 2
    start, end = start - left, min(end - left, room)
    found = [
        Row(excerpt.first + first + number, _window(line, left if last else indent, room))
        for number, (line, _) in enumerate(shown)
        for last in (number == len(shown) - 1,)
    ]
    return [*found[:-1], found[-1]._replace(carets=(start, max(1, end - start)))]


def spread(line: str) -> tuple[str, list[int]]:
    """A line as a terminal shows it, and the column (from 0) of each code point and of its end."""
    text: list[str] = []
    columns = [0]
    for character in line:
        at = columns[-1]
        told = " " * (TAB - at % TAB) if character == "\t" else printable(character)
        text.append(told)
        columns.append(at + columns_of(told))
    return "".join(text), columns


def columns_of(text: str) -> int:
    """How many columns a text takes, character by character: each has a place of its own."""
    return len(text) if text.isascii() else sum(map(width_of, text))


def _window(text: str, left: int, room: int) -> str:
    """The columns of a line from ``left`` on, as many as there is room for; cuts are marked."""
    shown: list[str] = []
    column = 0
    total = columns_of(text.rstrip())
    for character in text:
        width = width_of(character)
        if column >= left and column + width <= left + room:
            shown.append(character)
        elif column < left < column + width:
            shown.append(" ")
        column += width
    if left and shown and any(not c.isspace() for c in text[:left]):
        shown[0] = "…" + " " * (width_of(shown[0]) - 1)
    if total > left + room and shown:
        shown[-1] = "…"
    return "".join(shown)


def gutter_of(excerpts: Sequence[Excerpt]) -> int:
    """The room that the line numbers of some excerpts need."""
    return max((len(str(excerpt.line)) for excerpt in excerpts), default=1)
