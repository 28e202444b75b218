"""The functions of two trees that differ, picked by bytes: only these are read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from auditor.errors import Unreadable
from auditor.source import facts as f
from auditor.source.extract import extract
from auditor.source.statements import Piece, cut
from auditor.waits.untouched import Telling, untouched

_NAME = re.compile(rb"\bdef[ \t]+(\w+)")
_CLASS = re.compile(rb"class[ \t]+(\w+)")


@dataclass(frozen=True)
class Version:
    """A function as one tree has it; ``text`` is that of the statement around it."""

    path: str
    facts: f.FunctionFacts
    text: bytes

    @property
    def qualname(self) -> str:
        """Its dotted name within the file."""
        return self.facts.qualname

    def line_of(self, line: int) -> int:
        """The line of the file, of one that is counted from the ``def``."""
        return self.facts.line + line - 1


@dataclass(frozen=True)
class Pair:
    """A function before and after."""

    before: Version
    after: Version


class Pieces:
    """The statements of a tree's files, each file cut once and each statement read once."""

    def __init__(
        self, sources: Mapping[str, bytes], known: Mapping[str, f.ModuleFacts] | None = None
    ) -> None:
        """``known`` are facts of files that were read whole."""
        self.sources = sources
        self._known = known or {}
        self.unread: set[str] = set()  # files with a function that could not be read
        self.differing: dict[tuple[str, str], tuple[list[Piece], list[Piece]]] = {}
        self._cut: dict[str, list[Piece]] = {}
        self._read: dict[tuple[str, int], list[Version]] = {}

    def of(self, path: str) -> list[Piece]:
        """The pieces of a file; none of one that is not there."""
        known = self._cut.get(path)
        if known is None:
            known = self._cut[path] = cut(self.sources[path]) if path in self.sources else []
        return known

    def versions(self, path: str, piece: Piece) -> list[Version]:
        """The functions of a piece."""
        key = (path, piece.start)
        known = self._read.get(key)
        if known is None:
            known = self._read[key] = self._versions(path, piece)
        return known

    def _versions(self, path: str, piece: Piece) -> list[Version]:
        lead = b"\n" * (piece.start - 1)
        module = self._known.get(path)
        if module is not None:
            last = piece.start + piece.text.rstrip().count(b"\n")
            return [
                Version(path, facts, piece.text)
                for facts in f.functions(module)
                if piece.start <= facts.line <= last
            ]
        owner = _owner(piece)
        if owner:
            lead = b"\n" * (piece.start - 2) + b"class " + owner + b":\n"
        try:
            read = extract(lead + piece.text, "")
        except Unreadable:
            self.unread.add(path)
            return []
        return [Version(path, facts, piece.text) for facts in f.functions(read)]


def pairs(
    before: Pieces,
    after: Pieces,
    path: str,
    other: str,
    telling: Callable[[Piece], Telling | None],
) -> Iterator[Pair]:
    """The functions of a file on both sides that differ, and whose earlier text is telling.

    ``other`` is the path after; ``telling`` tells lines that may wait, where any do.
    """
    gone, come = differing(before, after, path, other)
    named: dict[tuple[bytes, bytes], list[Piece]] = {}
    for piece in come:
        for name in dict.fromkeys(_NAME.findall(piece.text)):
            named.setdefault((_owner(piece), name), []).append(piece)
    earlier: dict[str, list[Version]] = {}
    for piece in gone:
        lines = telling(piece)
        if lines is not None and not _untouched(piece, named, lines):
            for version in before.versions(path, piece):
                earlier.setdefault(version.qualname, []).append(version)
    for qualname, versions in earlier.items():
        found = [
            version
            for piece in _named(named, qualname)
            for version in after.versions(other, piece)
            if version.qualname == qualname
        ]
        if len(found) == len(versions):
            for mine, theirs in zip(versions, found, strict=True):
                if mine.facts.digest != theirs.facts.digest:
                    yield Pair(mine, theirs)


def _untouched(
    piece: Piece, named: Mapping[tuple[bytes, bytes], list[Piece]], telling: Telling
) -> bool:
    """Whether the only piece that may be the same function shows by its lines that it waits so."""
    head = _NAME.search(piece.text)
    found = [] if head is None else named.get((_owner(piece), head[1]), [])
    return len(found) == 1 and untouched(piece.text, found[0].text, telling)


def _named(named: Mapping[tuple[bytes, bytes], list[Piece]], qualname: str) -> list[Piece]:
    """The pieces that may hold a function: where a file was not cut, no class is told apart."""
    owner, _, name = qualname.encode().rpartition(b".")
    return named.get((owner, name)) or named.get((b"", name), [])


def differing(
    before: Pieces, after: Pieces, path: str, other: str
) -> tuple[list[Piece], list[Piece]]:
    """The pieces of a file on both sides that the other side does not have."""
    known = after.differing.get((path, other))
    if known is not None:
        return known
    old, new = before.of(path), after.of(other)
    had, have = Counter(map(_identity, old)), Counter(map(_identity, new))
    found = after.differing[path, other] = (_without(old, have), _without(new, had))
    return found


def _without(pieces: list[Piece], same: Counter[tuple[bytes, bytes]]) -> list[Piece]:
    rest = Counter(same)
    found: list[Piece] = []
    for piece in pieces:
        mark = _identity(piece)
        if rest[mark]:
            rest[mark] -= 1
        else:
            found.append(piece)
    return found


def _identity(piece: Piece) -> tuple[bytes, bytes]:
    """What makes a piece the same wherever it stands: its class, and its text."""
    return _owner(piece), piece.text.rstrip()


def _owner(piece: Piece) -> bytes:
    """The class that a piece is a member of; empty for one of the top level."""
    found = None if piece.shell is None else _CLASS.search(piece.shell.text)
    return b"" if found is None else found[1]
