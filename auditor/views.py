"""Reads every side of an audit and makes the views that the checks see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

from auditor.checks.view import View
from auditor.model import Skipped
from auditor.repo.snapshot import Snapshot
from auditor.rulebook import Vocabulary
from auditor.source.facts import ModuleFacts
from auditor.source.index import SourceIndex
from auditor.source.scout import Scans, Scout, Scouted, lost_waits
from auditor.source.store import FactStore

Stage = Callable[[str, int, int], AbstractContextManager[None]]
"""Marks a stage of the run: name, number done, total."""


@contextmanager
def unmarked(stage: str, done: int, total: int) -> Iterator[None]:
    """Marks nothing."""
    yield


class Sides:
    """The sides of one audit, the fork first.

    ``sources`` are all Python files of each side, equal contents being one object; ``skipped``
    grows by what cannot be parsed as the views are made.
    """

    def __init__(
        self, snapshots: Sequence[Snapshot], vocabulary: Vocabulary, store: FactStore, stage: Stage
    ) -> None:
        self.snapshots = snapshots
        self.vocabulary = vocabulary
        self.store = store
        self.stage = stage
        self.skipped: list[Skipped] = []
        self.scans = Scans()
        self.sources: list[dict[str, bytes]] = []
        for number, snapshot in enumerate(snapshots):
            with stage("read", number, len(snapshots)):
                self.sources.append(self.scans.intern(dict(snapshot.read_python())))

    def views(self) -> list[View]:
        """A view of each side; what one side calls a gate is looked for on all."""
        scouts = [
            Scout(sources, self.vocabulary, self._facts(snapshot, sources), self.scans)
            for snapshot, sources in zip(self.snapshots, self.sources, strict=True)
        ]
        with self.stage("scout", 0, 1):
            shared = _merged(scout.find_gates() for scout in scouts)
            shared = _merged(scout.find_families(shared) for scout in scouts)
            lost = self._lost_waits(scouts)
            chosen = [scout.find_readers(shared, lost) for scout in scouts]
        self.store.save()
        views: list[View] = []
        rows = zip(self.snapshots, scouts, chosen, strict=True)
        for number, (snapshot, scout, names) in enumerate(rows):
            with self.stage("analyse", number, len(scouts)):
                index = SourceIndex(scout.modules)
                view = View(
                    snapshot.side, snapshot.ref, scout.sources, names, index, self.vocabulary
                )
                _ = view.readings.readings
            views.append(view)
        return views

    def _facts(
        self, snapshot: Snapshot, sources: Mapping[str, bytes]
    ) -> Callable[[Iterable[str]], Mapping[str, ModuleFacts]]:
        def facts(paths: Iterable[str]) -> Mapping[str, ModuleFacts]:
            found, failed = self.store.facts({path: sources[path] for path in paths})
            for path, reason in failed.items():
                place = snapshot.report_path(path)
                skipped = Skipped(snapshot.side, place, "parse", reason)
                if skipped not in self.skipped:
                    self.skipped.append(skipped)
            return found

        return facts

    def _lost_waits(self, scouts: Sequence[Scout]) -> set[str]:
        """Files in which the fork has fewer waits of some kind than another side.

        Where a file is missing on one side, its functions may have moved: then both count.
        """
        fork = scouts[0].sources
        lost: set[str] = set()
        for scout in scouts[1:]:
            for path, theirs in scout.sources.items():
                mine = fork.get(path, b"")
                if mine != theirs and lost_waits(mine, theirs, self.vocabulary):
                    lost.add(path)
            if any(path not in fork for path in lost):
                gained = fork.keys() - scout.sources.keys()
                lost |= {p for p in gained if lost_waits(b"", fork[p], self.vocabulary)}
        return lost


def _merged(names: Iterable[Scouted]) -> Scouted:
    shared = Scouted()
    for one in names:
        shared = shared.merge(one)
    return shared
