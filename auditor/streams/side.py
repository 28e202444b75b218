"""Reads one side for its streams: few functions of few files, more only where they decide."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property

from auditor.source import facts as f
from auditor.source.names import Derived
from auditor.source.scans import Scans
from auditor.streams.copies import Copy, answered, copies
from auditor.streams.entries import Entry, entries, settled
from auditor.streams.lookup import Lookup, Place
from auditor.streams.reading import Read, Shortened, copying, entering
from auditor.vocabulary import Vocabulary, words

_MOST_FILES = 12
"""Files that call a function; a name in more is not this function's alone."""


class SideStreams:
    """The entries and the copies of one side."""

    def __init__(
        self,
        sources: Mapping[str, bytes],
        known: Mapping[str, f.ModuleFacts],
        read: Read,
        scans: Scans,
        vocabulary: Vocabulary,
        derived: Derived,
        shortened: Shortened,
    ) -> None:
        """``known`` are the files that were read whole; ``derived`` and ``shortened`` are shared.

        ``beside`` are the files that were read for this, whole or in part.
        """
        self.sources = sources
        self.known = known
        self.read = read
        self.scans = scans
        self.vocabulary = vocabulary
        self.derived = derived
        self.shortened = shortened
        self.beside: dict[str, f.ModuleFacts] = {}

    @cached_property
    def modules(self) -> Mapping[str, f.ModuleFacts]:
        """The files with a block on a stream: known ones whole, of others what matters."""
        return self._modules(entering(self.sources, self.scans), self.shortened.entering)

    @cached_property
    def entries(self) -> list[Entry]:
        """Every block on a side stream that starts work."""
        found = [
            entry
            for path, module in self.modules.items()
            for entry in entries(path, module, self.vocabulary, self.derived)
        ]
        doubtful = [entry for entry in found if entry.open]
        if not doubtful:
            return found
        lookup = Lookup(self._around(entry.place for entry in doubtful), self.vocabulary)
        places = {(p.path, p.facts.qualname): p for ps in lookup.places.values() for p in ps}
        return [self._settled(entry, lookup, places) if entry.open else entry for entry in found]

    def _settled(
        self, entry: Entry, lookup: Lookup, places: Mapping[tuple[str, str], Place]
    ) -> Entry:
        place = places.get((entry.place.path, entry.place.facts.qualname), entry.place)
        return settled(entry, place, lookup)

    @cached_property
    def copies(self) -> list[tuple[Copy, bool]]:
        """Copies to the host, each with whether something waits for it or records an event."""
        modules = self._modules(copying(self.sources, self.scans), self.shortened.copying)
        lookup = Lookup({**self.modules, **modules}, self.vocabulary)
        found = [
            copy
            for places in lookup.places.values()
            for place in places
            if "to" in place.facts.mentions or "copy_" in place.facts.mentions
            for copy in copies(place, lookup)
        ]
        alone = [copy for copy in found if not answered(copy.place, Lookup({}, self.vocabulary))]
        wide = Lookup(self._around(copy.place for copy in alone), self.vocabulary)
        return [(copy, copy not in alone or answered(copy.place, wide)) for copy in found]

    def _modules(
        self, paths: Iterable[str], shorten: Callable[[bytes], bytes]
    ) -> dict[str, f.ModuleFacts]:
        found = {path: self.known[path] for path in paths if path in self.known}
        missing = [path for path in paths if path not in self.known]
        read = dict(self.read({path: shorten(self.sources[path]) for path in missing}))
        # What cannot be read in part is read whole, or is told to be unreadable.
        failed = {path: self.sources[path] for path in missing if path not in read}
        if failed:
            read |= self.read(failed)
        for path, module in read.items():
            self.beside.setdefault(path, module)
        return {**found, **read}

    def _around(self, places: Iterable[Place]) -> Mapping[str, f.ModuleFacts]:
        """The files of some functions and of their callers, with what the functions name."""
        wanted: dict[str, set[bytes]] = {}
        for place in places:
            own = wanted.setdefault(place.path, set())
            own |= {place.facts.name.encode(), b"__init__"}
            own |= {name.encode() for name in place.facts.mentions if len(name) > 3}
            for path in self._naming(place.facts.name):
                wanted.setdefault(path, set()).add(place.facts.name.encode())
        found = {**self.modules, **{p: self.known[p] for p in wanted if p in self.known}}
        more = {p: ws for p, ws in wanted.items() if p not in self.known}
        read = self.read({p: self.shortened.file(self.sources[p], ws) for p, ws in more.items()})
        return {**found, **read}

    def _naming(self, name: str) -> list[str]:
        """The files that call a function of that name, where it is one that says enough."""
        if name[:1] == "_" or len(words(name)) < 2:
            return []
        pattern = re.compile(re.escape(name.encode()) + rb"\(")
        found = self.scans.holding(self.sources, [f"{name}("], pattern)
        return found if len(found) <= _MOST_FILES else []
