"""Where a fork differs from upstream: the files by area, and how much of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from auditor.formats.text import count
from auditor.model import FileChange


class Area(NamedTuple):
    """How many files of an area differ from upstream, and by how many lines.

    ``statuses`` are those added, modified, deleted and renamed.
    """

    name: str
    statuses: tuple[int, ...]
    added: int
    removed: int


def areas_of(files: Iterable[FileChange]) -> list[Area]:
    """The areas that differ, the most changed first."""
    grouped: dict[str, list[FileChange]] = {}
    for change in files:
        grouped.setdefault(change.area or ".", []).append(change)
    areas = []
    for name, changes in grouped.items():
        found = [change.status for change in changes]
        added, modified, deleted, renamed = (
            found.count(status) for status in ("added", "modified", "deleted", "renamed")
        )
        lines = [sum(c.added or 0 for c in changes), sum(c.removed or 0 for c in changes)]
        areas.append(Area(name, (added, modified, deleted, renamed), *lines))
    return sorted(areas, key=lambda a: (-sum(a.statuses) - a.added - a.removed, a.name))


def summed(name: str, areas: Sequence[Area]) -> Area:
    """Several areas as one."""
    statuses = tuple(map(sum, zip(*(area.statuses for area in areas), strict=True)))
    return Area(name, statuses, sum(a.added for a in areas), sum(a.removed for a in areas))


def differing(files: Sequence[FileChange]) -> str:
    """How many files differ, and by how many lines."""
    added = sum(change.added or 0 for change in files)
    removed = sum(change.removed or 0 for change in files)
    verb = "differs" if len(files) == 1 else "differ"
    return f"{count(len(files), 'file')} {verb} from upstream (+{added:,} -{removed:,})"


def busiest(areas: Iterable[str]) -> str:
    """The three most named areas, and how many there are besides."""
    counts: dict[str, int] = {}
    for area in areas:
        counts[area] = counts.get(area, 0) + 1
    order = sorted(counts, key=lambda area: (-counts[area], area))
    more = f" and {count(len(order) - 3, 'more area')}" if len(order) > 3 else ""
    return ", ".join(f"{area} ({counts[area]})" for area in order[:3]) + more
