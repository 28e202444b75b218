"""Reads every side of an audit and makes the views that the checks see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

import msgspec

from auditor.checks.view import View
from auditor.gates.memory import Memory
from auditor.model import Skipped
from auditor.repo.snapshot import Snapshot
from auditor.source.facts import ModuleFacts
from auditor.source.index import SourceIndex
from auditor.source.names import Derived
from auditor.source.results import content_key
from auditor.source.scans import Found, Scans
from auditor.source.scout import Scout, Scouted, lost_waits
from auditor.source.store import FactStore
from auditor.streams.reading import Read
from auditor.vocabulary import Vocabulary

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
        self.scans = Scans(store.folder)
        self.sources: list[dict[str, bytes]] = []
        self._memory: Memory | None = None
        for number, snapshot in enumerate(snapshots):
            with stage("read", number, len(snapshots)):
                self.sources.append(self.scans.intern(dict(snapshot.read_python())))

    def digests(self) -> list[dict[str, bytes]]:
        """What tells the contents of each side's files apart, by path."""
        return [{p: self.scans.digest(data) for p, data in s.items()} for s in self.sources]

    def views(self) -> list[View]:
        """A view of each side, still without readings; what one calls a gate is one on all."""
        derived = Derived()
        scouts = [
            Scout(sources, self.vocabulary, self._facts(snapshot, sources), self.scans, derived)
            for snapshot, sources in zip(self.snapshots, self.sources, strict=True)
        ]
        with self.stage("scout", 0, sum(map(len, self.sources))):
            self._read_ahead()
            shared = _merged(scout.find_gates() for scout in scouts)
            shared = _merged(scout.find_families(shared) for scout in scouts)
            lost = self._lost_waits(scouts)
            chosen = [scout.find_readers(shared, lost) for scout in scouts]
        self.store.save()
        words = msgspec.json.encode(self.vocabulary, order="deterministic")
        self._memory = Memory(self.store.folder, content_key([words, *sorted(shared.gates)], ()))
        views: list[View] = []
        rows = zip(self.snapshots, scouts, chosen, strict=True)
        for snapshot, scout, names in rows:
            read = {path: self.scans.digest(scout.sources[path]) for path in scout.modules}
            views.append(
                View(
                    snapshot.side,
                    snapshot.ref,
                    scout.sources,
                    names,
                    SourceIndex(scout.modules, derived),
                    self.vocabulary,
                    self.scans,
                    self._read(snapshot, scout.sources),
                    self._memory.side(content_key(sorted(shared.protected), [read])),
                )
            )
        return views

    def analyse(self, views: Sequence[View]) -> None:
        """Make the readings of each side."""
        for number, view in enumerate(views):
            with self.stage("analyse", number, len(views)):
                _ = view.readings.readings

    def _read_ahead(self) -> None:
        """Extract all at once the changed files whose other versions were extracted before.

        The steps of the scout ask for a few at a time, which keeps a second process from helping.
        """
        fork, *others = self.sources
        for other in others:
            before = {p: data for p, data in other.items() if fork.get(p, data) is not data}
            self.store.facts({path: fork[path] for path in sorted(self.store.known(before))})

    def adopt(self, skipped: Iterable[Skipped], facts: Mapping[bytes, bytes], found: Found) -> None:
        """Take over what another process could not read, what it extracted, and what it found."""
        self.skipped += [row for row in skipped if row not in self.skipped]
        self.store.adopt(facts)
        self.scans.adopt(found)

    def save(self) -> None:
        """Keep what was worked out of the views for later runs."""
        self.scans.save()
        self.store.save()
        if self._memory is not None:
            self._memory.save()

    def _facts(
        self, snapshot: Snapshot, sources: Mapping[str, bytes]
    ) -> Callable[[Iterable[str]], Mapping[str, ModuleFacts]]:
        read = self._read(snapshot, sources)

        def facts(paths: Iterable[str]) -> Mapping[str, ModuleFacts]:
            return read({path: sources[path] for path in paths})

        return facts

    def _read(self, snapshot: Snapshot, sources: Mapping[str, bytes]) -> Read:
        """Reads files, or parts of them; what is unreadable as a whole is told."""

        def read(contents: Mapping[str, bytes]) -> Mapping[str, ModuleFacts]:
            found, failed = self.store.facts(contents)
            for path, reason in failed.items():
                place = snapshot.report_path(path)
                skipped = Skipped(snapshot.side, place, "parse", reason)
                if contents[path] is sources[path] and skipped not in self.skipped:
                    self.skipped.append(skipped)
            return found

        return read

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
