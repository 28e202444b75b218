"""What is asked of a run, and what it tells while it goes on."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from auditor.model import (
    Confidence,
    Origin,
)
from auditor.repo.scripts import Scripts
from auditor.rulebook import Rule, Rulebook
from auditor.triage import ignores

if TYPE_CHECKING:
    pass


Progress = Callable[[str, int, int], None]


class AuditRequest(msgspec.Struct, frozen=True):
    """All that decides on a run.

    ``upstream`` None is a UsageProblem that names the closest release. ``origins`` empty means all.
    ``cache`` None keeps nothing beyond the run. ``since`` is a revision of the fork: only findings
    in what changed since. ``comments`` False gives suppressions in comments no effect.
    ``reachable`` leaves out what no launch turns on. ``instead`` are contents that count in the
    place of files on disk, by full path: what an edit would lead to.
    """

    root: Path
    rev: str | None = None
    upstream: str | None = None
    targets: tuple[str, ...] = ()
    rules_dirs: tuple[Path, ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    min_confidence: Confidence = "medium"
    origins: tuple[Origin, ...] = ()
    jobs: int = 0
    cache: Path | None = None
    configuration: dict[str, str] = {}
    serve: Scripts = Scripts()
    since: str | None = None
    baseline: Path | None = None
    comments: bool = True
    ignores: tuple[ignores.Ignore, ...] = ()
    reachable: bool = False
    instead: Mapping[Path, bytes] = {}


def silent(stage: str, done: int, total: int) -> None:
    """No progress shown."""


def chosen(book: Rulebook, select: Sequence[str], ignore: Sequence[str]) -> tuple[Rule, ...]:
    """The rules to run; raises UsageProblem for an id that no rule has."""
    wanted = {book.rule(rule_id).id for rule_id in select}
    unwanted = {book.rule(rule_id).id for rule_id in ignore}
    return tuple(r for r in book.rules if (not wanted or r.id in wanted) and r.id not in unwanted)


class Clock:
    """Tells the stages apart: progress while they run, seconds afterwards."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.spent: dict[str, float] = {}

    @contextlib.contextmanager
    def stage(self, name: str, done: int = 0, total: int = 1) -> Iterator[None]:
        """Counts what is done within as a part of a stage."""
        self.progress(name, done, total)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.spent[name] = self.spent.get(name, 0.0) + time.perf_counter() - start
