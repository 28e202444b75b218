"""Counts how entries on each stream are ordered, and which of those that are not stand out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from auditor.streams.entries import Entry
from auditor.vocabulary import words

_FEWEST_WORDS = 2
"""Words in the name of a stream that means the same in all of a tree: ``alt_stream``; ``stream``
is anybody's."""


@dataclass(frozen=True)
class Gap:
    """The first entry of a function on a stream that is not ordered.

    ``siblings`` are entries on the same stream that are, the nearest first; ``total`` counts both
    kinds. ``within`` says where they are the same stream: ``class``, ``file``, ``tree``, or empty
    where there are none.
    """

    entry: Entry
    siblings: tuple[Entry, ...]
    total: int
    within: str


def gaps(entries: Sequence[Entry]) -> list[Gap]:
    """What is neither ordered nor excused, one for each function and stream."""
    found: dict[tuple[str, str, str], Gap] = {}
    for entry in sorted(entries, key=lambda one: (one.place.path, one.line)):
        if entry.open:
            key = (entry.place.path, entry.place.facts.qualname, entry.name)
            if key not in found:
                found[key] = _gap(entry, entries)
    return list(found.values())


def _gap(entry: Entry, entries: Sequence[Entry]) -> Gap:
    named = [one for one in entries if one.name == entry.name and (one.ordered or one.open)]
    place = entry.place
    for within in ("class", "file", "tree"):
        same = [one for one in named if _same(one, entry, within)]
        if any(one.ordered for one in same):
            ordered = [one for one in same if one.ordered]
            ordered.sort(key=lambda o: (o.place.path != place.path, o.place.path, o.line))
            return Gap(entry, tuple(ordered), len(same), within)
    return Gap(entry, (), 1, "")


def _same(one: Entry, other: Entry, within: str) -> bool:
    mine, theirs = one.place, other.place
    if within == "tree":
        telling = len(words(other.name)) >= _FEWEST_WORDS
        return telling and "." in one.stream and "." in other.stream
    if mine.path != theirs.path:
        return False
    return within == "file" or mine.owner == theirs.owner != ""


@dataclass(frozen=True)
class Row:
    """A stream of a class or a file: how many of the entries on it are ordered."""

    path: str
    owner: str
    name: str
    held: tuple[Entry, ...]
    total: int


def rows(entries: Sequence[Entry]) -> list[Row]:
    """All that counts for the norm, by stream."""
    grouped: dict[tuple[str, str, str], list[Entry]] = {}
    for entry in entries:
        if entry.ordered or entry.open:
            place = entry.place
            owner = place.owner or place.facts.qualname
            grouped.setdefault((place.path, owner, entry.name), []).append(entry)
    return [
        Row(path, owner, name, tuple(e for e in found if e.ordered), len(found))
        for (path, owner, name), found in sorted(grouped.items())
    ]
