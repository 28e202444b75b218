"""Cuts out the source lines that a report shows: the read, the nearest sibling, upstream's text."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from auditor.model import Evidence, Excerpt, Finding, Side
from auditor.repo.snapshot import Snapshot

MOST_FINDINGS = 200
"""Findings of one report that lines are cut out for."""
MOST_LINES = 60
"""Lines of one excerpt: most readers are shorter, and a page shows a few of them."""
LONGEST_LINE = 300
"""Characters of one line."""

_BEFORE_MARK = 40  # of MOST_LINES, where a function is longer
_AROUND = 6  # lines on either side where there is no function
_SHOWN = 4 * 2**20  # bytes of a file that is looked into

_LINE_END = re.compile(r"\r\n|\r|\n")
_HEAD = re.compile(r"([ \t]*)(?:async[ \t]+def|def|class)[ \t]+(\w+)")
_NAMES = re.compile(r"[\w.]+")
_WORD = re.compile(r"""[^\s"'`,;]+""")
_CLOSING = ")]}"

Read = tuple[Snapshot, Mapping[str, bytes]]
"""A side and its Python files by package-relative path."""


def excerpts(
    findings: Sequence[Finding], trees: Sequence[Read], script: Callable[[str], bytes | None]
) -> dict[str, tuple[Excerpt, ...]]:
    """The lines for each of the first findings, by fingerprint, the finding's own place first.

    ``trees`` are all sides, the fork first; ``script`` reads a file of the fork that is not of the
    package, by its report path. What is not there to be shown is left out.
    """
    files = _Files(trees, script)
    found = {f.fingerprint: tuple(_of(f, files)) for f in findings[:MOST_FINDINGS]}
    return {fingerprint: shown for fingerprint, shown in found.items() if shown}


class _Files:
    """The lines of the files of all sides, by side and report path."""

    def __init__(self, trees: Sequence[Read], script: Callable[[str], bytes | None]) -> None:
        self.trees = trees
        self.script = script
        self._paths: dict[int, dict[str, str]] = {}
        self._lines: dict[tuple[Side, str], list[str]] = {}

    def lines(self, side: Side, path: str) -> list[str]:
        """The lines without their ends; none where the side has no such file."""
        if (side, path) not in self._lines:
            data = self._data(side, path)[:_SHOWN]
            text = data.decode("utf-8-sig", "replace")
            self._lines[side, path] = _LINE_END.split(text) if data else []
        return self._lines[side, path]

    def _data(self, side: Side, path: str) -> bytes:
        for number, (snapshot, sources) in enumerate(self.trees):
            if snapshot.side == side:
                inner = self._report_paths(number).get(path)
                if inner is not None:
                    return sources[inner]
        return (self.script(path) or b"") if side == "fork" else b""

    def elsewhere(self, side: Side, path: str) -> str:
        """The report path on another side of a file of the fork; empty for none and the same."""
        inner = self._report_paths(0).get(path)
        for snapshot, sources in self.trees[1:]:
            if snapshot.side == side and inner is not None and inner in sources:
                same = sources[inner] == self.trees[0][1][inner]
                return "" if same else snapshot.report_path(inner)
        return ""

    def _report_paths(self, number: int) -> dict[str, str]:
        if number not in self._paths:
            snapshot, sources = self.trees[number]
            self._paths[number] = {snapshot.report_path(path): path for path in sources}
        return self._paths[number]


def _of(finding: Finding, files: _Files) -> list[Excerpt]:
    where = finding.hit.where
    path, symbol = where.symbol.path, where.symbol.qualname
    lines = files.lines("fork", path)
    if not 1 <= where.line <= len(lines):
        return []
    marked = lines[where.line - 1]
    in_script = finding.category == "serve"
    end = _end_of_word(marked, where.column) if in_script else _end_of_read(marked, where.column)
    if where.end_column:
        end = where.end_column if where.end_line <= where.line else 0
    spot = _Spot("fork", path, symbol, where.line, where.column, end)
    found = [_excerpt("read", lines, spot)]
    sibling = nearest_sibling(finding)
    if sibling is not None:
        theirs = files.lines(sibling.side, sibling.path)
        if 1 <= sibling.line <= len(theirs):
            found.append(_excerpt("sibling", theirs, _spot(sibling, theirs)))
    if finding.category == "sync" and symbol:
        found += _upstream(finding, lines, files)
    return found


def nearest_sibling(finding: Finding) -> Evidence | None:
    """The sibling that is shown beside a read: the first of the evidence, which is the nearest."""
    siblings = [e for e in finding.hit.evidence if e.sibling]
    return next((e for e in siblings if e.side == "fork"), siblings[0] if siblings else None)


def _upstream(finding: Finding, mine: list[str], files: _Files) -> list[Excerpt]:
    """Upstream's version of the function, if it says something else, with what it has more."""
    where = finding.hit.where
    symbol = where.symbol.qualname
    own = _block(mine, where.line - 1, symbol)
    own_text = mine[slice(*own)] if own else []
    for side in ("upstream", "base"):
        told = [e for e in finding.hit.evidence if e.side == side and e.symbol == symbol]
        if told:
            theirs = files.lines(told[0].side, told[0].path)
            if 1 <= told[0].line <= len(theirs):
                return [_excerpt("upstream", theirs, _spot(told[0], theirs))]
        path = files.elsewhere(side, where.symbol.path)
        theirs = files.lines(side, path) if path else []
        block = _definition(theirs, symbol)
        if block is None or not own_text or theirs[slice(*block)] == own_text:
            continue
        line = block[0] + 1 + _first_difference(own_text, theirs[slice(*block)])
        note = "where this version of the function is another one"
        return [_excerpt("upstream", theirs, _line(side, path, symbol, line, theirs, note))]
    return []


class _Spot(NamedTuple):
    """A place to be marked; ``end`` is excluded, 0 stands for the end of the line."""

    side: Side
    path: str
    symbol: str
    line: int
    column: int
    end: int
    note: str = ""


def _spot(piece: Evidence, lines: Sequence[str]) -> _Spot:
    if piece.end_column:
        end = piece.end_column if piece.end_line <= piece.line else 0
        return _Spot(
            piece.side, piece.path, piece.symbol, piece.line, piece.column, end, piece.note
        )
    return _line(piece.side, piece.path, piece.symbol, piece.line, lines, piece.note)


def _line(side: Side, path: str, symbol: str, line: int, lines: Sequence[str], note: str) -> _Spot:
    """A whole line, without its indentation."""
    return _Spot(side, path, symbol, line, _indent(lines[line - 1]) + 1, 0, note)


def _excerpt(
    role: Literal["read", "sibling", "upstream"], lines: list[str], spot: _Spot
) -> Excerpt:
    at = spot.line - 1
    block = _block(lines, at, spot.symbol) if spot.symbol else None
    start, end = block or (max(0, at - _AROUND), min(len(lines), at + _AROUND + 1))
    if end - start > MOST_LINES:
        start = max(start, min(at - _BEFORE_MARK, end - MOST_LINES))
        end = start + MOST_LINES
    shown = [_bounded(line) for line in lines[start:end]]
    column, stop = spot.column, spot.end
    if len(lines[at]) > LONGEST_LINE:
        cut = max(0, min(spot.column - 1 - LONGEST_LINE // 2, len(lines[at]) - LONGEST_LINE))
        shown[at - start] = lines[at][cut : cut + LONGEST_LINE]
        column = spot.column - cut
        stop = min(spot.end - cut, LONGEST_LINE + 1) if spot.end else 0
    return Excerpt(
        role,
        spot.side,
        spot.path,
        spot.symbol,
        start + 1,
        tuple(shown),
        spot.line,
        column,
        stop,
        spot.note,
    )


def _bounded(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else line[:LONGEST_LINE]


def _block(lines: Sequence[str], at: int, symbol: str) -> tuple[int, int] | None:
    """The lines (from, to) of the innermost definition of that name around a line (from 0).

    Told by indentation: a file need not be read as Python to be shown.
    """
    name = symbol.rpartition(".")[2]
    first = at
    while first + 1 < len(lines) and lines[first].lstrip().startswith("@"):
        first += 1
    for start in range(first, -1, -1):
        if _head(lines[start], name) is not None:
            end = _end_of_block(lines, start)
            if end > at:
                return min(start, at), end
    return None


def _definition(lines: Sequence[str], symbol: str) -> tuple[int, int] | None:
    """The lines (from, to) of a dotted name, None where the file does not define it."""
    start, end, inside = 0, len(lines), -1
    for name in symbol.split("."):
        for number in range(start, end):
            indent = _head(lines[number], name)
            if indent is not None and indent > inside:
                start, end, inside = number, _end_of_block(lines, number), indent
                break
        else:
            return None
    return start, end


def _head(line: str, name: str) -> int | None:
    """The indentation of the definition of that name which a line begins."""
    head = _HEAD.match(line) if name in line else None
    return len(head[1]) if head is not None and head[2] == name else None


def _end_of_block(lines: Sequence[str], start: int) -> int:
    """The number of the line behind a definition's last one."""
    indent, last = _indent(lines[start]), start
    for number in range(start + 1, len(lines)):
        text = lines[number].strip()
        if not text or text.startswith("#"):
            continue
        if _indent(lines[number]) <= indent and text[0] not in _CLOSING:
            break
        last = number
    return last + 1


def _first_difference(mine: Sequence[str], theirs: Sequence[str]) -> int:
    """The first line (from 0) of theirs that is not in mine; where mine has more, the one after."""
    steps = difflib.SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes()
    changed = [(tag, start) for tag, _, _, start, _ in steps if tag != "equal"]
    lines = [start for tag, start in changed if tag != "delete"] or [s for _, s in changed]
    return min(lines[0], len(theirs) - 1) if lines else 0


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def _end_of_read(line: str, column: int) -> int:
    """The column behind an access path and what it is first indexed or called with; 0 if unknown.

    The brackets count as they stand, also in strings; what does not close ends with the line.
    """
    names = _NAMES.match(line, column - 1)
    if names is None:
        return 0
    depth = 0
    for position in range(names.end(), len(line)):
        character = line[position]
        if depth == 0 and character not in "([":
            return position + 1
        depth += (character in "([{") - (character in ")]}")
        if depth == 0:
            return position + 2
    return 0 if depth else len(line) + 1


def _end_of_word(line: str, column: int) -> int:
    """The column behind a word of a script; 0 if none begins there."""
    word = _WORD.match(line, column - 1)
    return word.end() + 1 if word else 0
