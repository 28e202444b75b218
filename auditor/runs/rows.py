"""Releases as candidates to be judged in a row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from auditor.releases import fixed_by, timeline
from auditor.repo.marks import mark_of
from auditor.repo.snapshot import (
    Snapshot,
    open_reference,
)
from auditor.rulebook import Rulebook

if TYPE_CHECKING:
    pass


def candidate(ref: str, name: str, around: Snapshot, cache: Path | None) -> timeline.Candidate:
    """A release that is opened when it is judged."""
    return timeline.Candidate(
        name,
        lambda: open_reference(ref, "fork", around, cache or Path()),
        lambda: mark_of(ref, around.repository, cache or Path()),
    )


def whole_releases(
    fork: Snapshot, book: Rulebook, cache: Path | None, alone: bool
) -> fixed_by.Whole:
    """Judges releases in full, each by itself as in `audit history`."""

    def whole(tags: Sequence[str]) -> list[frozenset[tuple[str, str]]]:
        row = [candidate(tag, tag, fork, cache) for tag in tags]
        return [v.defects for v in timeline.judge(row, book, cache, alone, lambda *_: None)]

    return whole
