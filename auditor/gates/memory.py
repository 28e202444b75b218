"""Summaries of functions kept beyond one evaluator: for the other sides of a run, for later runs.

A summary is used again where everything that it rests on is as it was (``Grounds``). Of a fork that
changed five files nearly all can be, wherever in their files the functions now stand.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import msgspec

from auditor.gates.questions import Asked, Ground, Grounds
from auditor.gates.values import Summary
from auditor.source.index import SourceIndex
from auditor.source.names import ClassKey
from auditor.source.results import ResultStore

_MEMORIES = 3
"""Files of some 15 MB, one for each set of gates; the oldest go."""
_WORTH_WRITING = 0.02
"""The share of the summaries that is new; fewer are quicker made than all are written."""
_MOST_GROUNDS = 60_000
"""One release has 15,000; beyond this most are of trees that are gone, and it is begun anew."""

Key: TypeAlias = tuple[str, str, str, ClassKey | None, tuple[tuple[str, tuple[ClassKey, ...]], ...]]
"""Path, qualified name and digest of a function, the class context, the types of parameters."""


class _Row(msgspec.Struct, frozen=True, array_like=True):
    key: Key
    rests: bytes
    summary: bytes


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """A memory as it is stored: a bit of a set is a place among the grounds.

    ``sides`` are the grounds that held on each side, by its digest.
    """

    grounds: tuple[Ground, ...] = ()
    rows: tuple[_Row, ...] = ()
    sides: dict[str, bytes] = {}


class _Entry:
    __slots__ = ("rests", "stored", "summary")

    def __init__(self, rests: int, summary: Summary | None, stored: bytes) -> None:
        self.rests = rests
        self.summary = summary
        self.stored = stored


class Memory:
    """Summaries by function; one for all sides of a run."""

    def __init__(self, cache: Path | None, about: str) -> None:
        """``about`` is a digest of all that decides on summaries beside the trees.

        What an earlier run kept under it in the folder ``cache`` is taken over.
        """
        self._store = ResultStore(cache and cache / "memory", Kept, _MEMORIES)
        self._about = about
        kept = self._store.load(about) or Kept()
        self.grounds = Grounds(kept.grounds)
        self.held = {digest: _number(holding) for digest, holding in kept.sides.items()}
        self.entries: dict[Key, list[_Entry]] = {}
        for row in kept.rows:
            entry = _Entry(_number(row.rests), None, row.summary)
            self.entries.setdefault(row.key, []).append(entry)
        self.grown = 0
        self._sides: list[SideMemory] = []

    def side(self, digest: str) -> SideMemory:
        """The memory for one side; ``digest`` tells apart all that answers of it depend on."""
        self._sides.append(SideMemory(self, digest))
        return self._sides[-1]

    def save(self) -> None:
        """Write what holds on one of the sides, if enough of it is new to be worth it.

        It is also written where no side was there before: the next run knows upstream by it.
        """
        asked = {side.digest: side.asked for side in self._sides if side.asked is not None}
        known = any(digest in self.held for digest in asked)
        if known and self.grown <= _WORTH_WRITING * len(self.entries):
            return
        rows = [
            _Row(key, _bytes(entry.rests), entry.stored or msgspec.msgpack.encode(entry.summary))
            for key, entries in self.entries.items()
            for entry in entries
            if any(side.holds(entry.rests) for side in asked.values())
        ]
        held = {digest: _bytes(side.holding()) for digest, side in asked.items()}
        kept = Kept(tuple(self.grounds.known), tuple(rows), held)
        self._store.save(self._about, kept if len(kept.grounds) <= _MOST_GROUNDS else Kept())


class SideMemory:
    """The memory as one side may use it."""

    def __init__(self, memory: Memory, digest: str) -> None:
        self.digest = digest
        self.asked: Asked | None = None
        self._memory = memory

    def ask(self, index: SourceIndex, votes: Mapping[str, tuple[ClassKey, ...]]) -> Asked:
        """The questions that the summaries of this side rest on."""
        held = self._memory.held.get(self.digest)
        self.asked = Asked(index, votes, self._memory.grounds, held)
        return self.asked

    def recall(self, key: Key) -> tuple[Summary, int] | None:
        """A summary that holds on this side, and what it rests on."""
        for entry in self._memory.entries.get(key, ()):
            if self.asked is not None and self.asked.holds(entry.rests):
                if entry.summary is None:
                    try:
                        entry.summary = _DECODER.decode(entry.stored)
                    except (msgspec.DecodeError, RecursionError):
                        return None
                return entry.summary, entry.rests
        return None

    def keep(self, key: Key, rests: int, summary: Summary) -> None:
        """Remember a summary; it must not depend on the order of questions."""
        self._memory.entries.setdefault(key, []).append(_Entry(rests, summary, b""))
        self._memory.grown += 1


_DECODER = msgspec.msgpack.Decoder(Summary)


def _bytes(bits: int) -> bytes:
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


def _number(bits: bytes) -> int:
    return int.from_bytes(bits, "little")
