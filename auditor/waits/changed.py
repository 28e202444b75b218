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

Read = Callable[[Mapping[str, bytes]], Mapping[str, f.ModuleFacts]]
"""Gives the facts of whole files by path; it tells of what it cannot read."""

_NAME = re.compile(rb"\bdef[ \t]+(\w+)")
_CLASS = re.compile(rb"class[ \t]+(\w+)")


@dataclass(frozen=True)
class Version:
    """A function as one tree has it."""

    path: str
    facts: f.FunctionFacts

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
        self, sources: Mapping[str, bytes], known: Mapping[str, f.ModuleFacts], read: Read
    ) -> None:
        """``known`` are facts of files that were read whole, ``read`` gives those of others."""
        self.sources = sources
        self._whole: dict[str, f.ModuleFacts | None] = dict(known)
        self._read_whole = read
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
            known = self._read[key] = list(self._versions(path, piece))
        return known

    def _versions(self, path: str, piece: Piece) -> Iterator[Version]:
        if path not in self._whole:
            owner = _owner(piece)
            head = b"class " + owner + b":\n" if owner else b""
            lead = b"\n" * (piece.start - 1 - bool(owner)) + head
            try:
                read = extract(lead + piece.text, "")
            except Unreadable:
                # A file may say in its first line how all others are to be read.
                found = self._read_whole({path: self.sources[path]})
                self._whole[path] = found.get(path)
            else:
                yield from (Version(path, facts) for facts in f.functions(read))
                return
        module = self._whole[path]
        last = piece.start + piece.text.rstrip().count(b"\n")
        for facts in f.functions(module) if module is not None else ():
            if piece.start <= facts.line <= last:
                yield Version(path, facts)


class Changed:
    """What differs between two trees, as far as it is asked for.

    ``files`` are the paths of each file that differs, before (empty: it is new) and after.
    """

    def __init__(self, before: Pieces, after: Pieces) -> None:
        self.before = before
        self.after = after
        self.files = sorted(_files(before.sources, after.sources))
        self._differing: dict[tuple[str, str], tuple[list[Piece], list[Piece]]] = {}

    def differing(self, path: str, other: str) -> tuple[list[Piece], list[Piece]]:
        """The pieces of a file on both sides that the other side does not have."""
        known = self._differing.get((path, other))
        if known is None:
            old, new = self.before.of(path), self.after.of(other)
            had, have = Counter(map(_identity, old)), Counter(map(_identity, new))
            known = self._differing[path, other] = (_without(old, have), _without(new, had))
        return known

    def pairs(
        self, path: str, other: str, telling: Callable[[Piece], Telling | None]
    ) -> Iterator[Pair]:
        """The functions of a file on both sides that differ, and whose earlier text is telling.

        ``other`` is the path after; ``telling`` tells lines that may wait, where any do.
        """
        gone, come = self.differing(path, other)
        named: dict[tuple[bytes, bytes], list[Piece]] = {}
        for piece in come:
            for name in dict.fromkeys(_NAME.findall(piece.text)):
                named.setdefault((_owner(piece), name), []).append(piece)
        earlier: dict[str, list[Version]] = {}
        for piece in gone:
            lines = telling(piece)
            if lines is not None and not _untouched(piece, named, lines):
                for version in self.before.versions(path, piece):
                    earlier.setdefault(version.qualname, []).append(version)
        for qualname, versions in earlier.items():
            found = [
                version
                for piece in _named(named, qualname)
                for version in self.after.versions(other, piece)
                if version.qualname == qualname
            ]
            if len(found) == len(versions):
                for mine, theirs in zip(versions, found, strict=True):
                    if mine.facts.digest != theirs.facts.digest:
                        yield Pair(mine, theirs)


def _files(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """Files that differ; one of a name that only one new file has has moved there."""
    came: dict[str, list[str]] = {}
    for path in after.keys() - before.keys():
        came.setdefault(path.rpartition("/")[2], []).append(path)
        yield "", path
    for path, data in before.items():
        moved = [path] if path in after else came.get(path.rpartition("/")[2], [])
        if len(moved) == 1 and after[moved[0]] is not data:
            yield path, moved[0]


def _untouched(
    piece: Piece, named: Mapping[tuple[bytes, bytes], list[Piece]], telling: Telling
) -> bool:
    """Whether the only piece that may be the same function shows by its lines that it waits so."""
    head = _NAME.search(piece.text)
    found = [] if head is None else named.get((_owner(piece), head[1]), [])
    return len(found) == 1 and untouched(piece.text, found[0].text, telling)


def _named(named: Mapping[tuple[bytes, bytes], list[Piece]], qualname: str) -> list[Piece]:
    """The pieces that may hold a function: where a file was not cut, no class is told apart."""
    owner, _, rest = qualname.encode().rpartition(b".")
    owner, name = owner.partition(b".")[0], rest
    return named.get((owner, name)) or named.get((b"", name), [])


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
