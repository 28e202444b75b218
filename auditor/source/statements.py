"""A file cut into statements of its top level and of its classes, by its lines alone.

Each can be parsed by itself: of a file of thousands of lines the few functions that matter are.
"""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

_DEFINITION = re.compile(rb"[ \t]*(?:def|class|async[ \t]+def)\b")
_BODY = re.compile(
    rb"""class\s+\w+\s*(?:\((?:[^()]|\([^()]*\))*\)\s*)?:[ \t]*(?:\#.*)?\n
    (?:[ \t]*(?:\#.*)?\n)*([ \t]+)""",
    re.VERBOSE,
)
"""The header of a class, and how its body is indented."""

# Each by itself, for a literal is found many times faster than a choice of two.
_QUOTES = (re.compile(rb'"""'), re.compile(rb"'''"))

_ONLY_WORDS = bytes(c if c > 127 or chr(c).isalnum() or c == 95 else 32 for c in range(256))
"""Turns into spaces what is no part of a name."""


@dataclass(frozen=True, eq=False)
class Piece:
    """A statement of the top level, or of a class that stands there.

    ``start`` is its line, ``decorators`` are that many lines of it. A class is a piece without what
    it defines, its ``shell``; each of its methods is a piece of its own.
    """

    start: int
    text: bytes
    decorators: int = 0
    shell: Piece | None = None

    @cached_property
    def words(self) -> frozenset[bytes]:
        """All names in it."""
        return words(self.text)

    def holds(self, text: str) -> bool:
        """Whether it has a name, or a text that is more than a name."""
        return text.encode() in (self.words if text.isidentifier() else self.text)

    def parsed(self) -> list[ast.stmt] | None:
        """The statement, with the lines of its file; None where it is none by itself."""
        if self.shell is None:
            return statements(b"\n" * (self.start - 1) + self.text)
        found = statements(b"\n" * (self.start - 2) + b"class _:\n" + self.text)
        return found[0].body if found and isinstance(found[0], ast.ClassDef) else None


def words(data: bytes) -> frozenset[bytes]:
    """All names in a file, in texts and comments too."""
    return frozenset(data.translate(_ONLY_WORDS).split())


def statements(data: bytes) -> list[ast.stmt] | None:
    """The parsed statements of some code; None where this interpreter cannot parse it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(data).body
    except (SyntaxError, RecursionError, MemoryError, ValueError, LookupError):
        return None


def cut(data: bytes) -> list[Piece]:
    """The pieces of a file in their order; the whole file where its lines do not tell them apart.

    A text of several lines may hold lines that look like statements: where a piece has only one end
    of it, nothing is cut.
    """
    data = b"\n" + data
    quotes = sorted(match.start() for kind in _QUOTES for match in kind.finditer(data))
    pieces: list[Piece] = []
    line = told = 0
    for start, head, end in _spans(data, b"", 0, len(data), quotes):
        if (bisect_left(quotes, end) - bisect_left(quotes, start)) % 2:
            return [Piece(1, data[1:])]
        line += data.count(b"\n", told, start)
        told = start
        pieces += _members(data, start, head, end, line, quotes)
    return pieces


def _spans(
    data: bytes, indent: bytes, begin: int, end: int, quotes: Sequence[int]
) -> Iterator[tuple[int, int, int]]:
    """Where each statement of a block begins, its line after the decorators, and its end.

    The lines of the block are indented so; those within a text of several lines are none.
    """
    first, head, decorated = -1, -1, False
    for match in _beginning(indent).finditer(data, begin, end):
        at = match.start() + 1
        if bisect_left(quotes, at) % 2:
            continue
        if not decorated:
            if first >= 0:
                yield first, head, at
            first = at
        head = at
        decorated = match[0].endswith(b"@")
    if first >= 0:
        yield first, head, end


@lru_cache(maxsize=16)
def _beginning(indent: bytes) -> re.Pattern[bytes]:
    """The end of a line after which a statement may begin."""
    return re.compile(rb"\n%b(?!(?:else|elif|except|finally)\b)[^\s#)\]}]" % indent)


def _members(
    data: bytes, start: int, head: int, end: int, line: int, quotes: Sequence[int]
) -> Iterator[Piece]:
    """A statement of the top level as one piece, a class as its shell and what it defines."""
    body = _BODY.match(data, head, end)
    if body is None:
        yield Piece(line, data[start:end], data.count(b"\n", start, head))
        return
    indent = body[1]
    defined: list[tuple[int, int, int]] = []
    kept: list[bytes] = []
    told = start
    for first, word, last in _spans(data, indent, body.start(1) - 1, end, quotes):
        if _DEFINITION.match(data, word):
            defined.append((first, word, last))
            kept += [data[told:first], b"\n" * data.count(b"\n", first, last)]
            told = last
    alone = b"".join([*kept, data[told:end], b"\n", indent, b"pass\n"])
    shell = Piece(line, alone, data.count(b"\n", start, head))
    yield shell
    told = start
    for first, word, last in defined:
        line += data.count(b"\n", told, first)
        told = first
        yield Piece(line, data[first:last], data.count(b"\n", first, word), shell)
