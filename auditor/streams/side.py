"""Reads one side for its streams: few functions of few files, more only where they decide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from auditor.source import facts as f
from auditor.source.names import Names
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
        index: Names,
        read: Read,
        scans: Scans,
        vocabulary: Vocabulary,
        shortened: Shortened,
        beside: SideStreams | None = None,
    ) -> None:
        """``index`` holds the files that were read whole; ``shortened`` is shared between sides.

        Of a side that stands ``beside`` another only the files are looked at in which that one has
        something to be asked for.
        """
        self.sources = sources
        self.known = index.modules
        self.derived = index.derived
        self.read = read
        self.scans = scans
        self.vocabulary = vocabulary
        self.shortened = shortened
        self.beside = beside

    def pick(self) -> None:
        """Look for the files that matter, and read none of them yet."""
        _ = self._picked

    @cached_property
    def _picked(self) -> tuple[list[str], list[str]]:
        """The files in which a stream may be entered, and those with copies to the host."""
        return entering(self.sources, self.scans), copying(self.sources, self.scans)

    @cached_property
    def doubtful(self) -> frozenset[str]:
        """The files with something that is not in order."""
        entered = {entry.place.path for entry in self.entries if entry.open}
        return frozenset(entered | {copy.place.path for copy, told in self.copies if not told})

    @cached_property
    def _entering(self) -> list[str]:
        return self._asked(self._picked[0])

    @cached_property
    def _to_host(self) -> list[str]:
        return self._asked(self._picked[1])

    def _asked(self, paths: list[str]) -> list[str]:
        if self.beside is None:
            return paths
        return [path for path in paths if path in self.beside.doubtful]

    @cached_property
    def modules(self) -> Mapping[str, f.ModuleFacts]:
        """The files that matter: known ones whole, of others the functions that do."""
        paths = sorted({*self._entering, *self._to_host})
        found = {path: self.known[path] for path in paths if path in self.known}
        missing = [path for path in paths if path not in self.known]
        short = {path: self.shortened.telling(self.sources[path]) for path in missing}
        beside = dict(self.read(short))
        # What cannot be read in part is read whole, or is told to be unreadable.
        failed = {path: self.sources[path] for path in missing if path not in beside}
        if failed:
            beside |= self.read(failed)
        return {**found, **beside}

    @cached_property
    def entries(self) -> list[Entry]:
        """Every block on a side stream that starts work."""
        found = [
            entry
            for path in self._entering
            if path in self.modules
            for entry in entries(path, self.modules[path], self.vocabulary, self.derived)
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
        modules = {path: self.modules[path] for path in self._to_host if path in self.modules}
        lookup = Lookup(modules, self.vocabulary)
        found = [
            copy
            for path, module in modules.items()
            for place in self._copying(path, module)
            for copy in copies(place, lookup)
        ]
        alone = [copy for copy in found if not answered(copy.place, Lookup({}, self.vocabulary))]
        wide = Lookup(self._around(copy.place for copy in alone), self.vocabulary)
        places = {(p.path, p.facts.qualname): p for ps in wide.places.values() for p in ps}
        again = {(copy.place.path, copy.line): copy for copy in alone}
        for place in {key: places[key] for key in map(_symbol, alone) if key in places}.values():
            again |= {(place.path, copy.line): copy for copy in copies(place, wide)}
        return [
            (copy, True)
            if copy not in alone
            else (
                again[copy.place.path, copy.line],
                answered(again[copy.place.path, copy.line].place, wide),
            )
            for copy in found
        ]

    def _copying(self, path: str, module: f.ModuleFacts) -> Iterator[Place]:
        """The functions of a file with a line that says it does not block."""
        lines = self.sources[path].split(b"\n")
        told = [number for number, line in enumerate(lines, start=1) if b"non_blocking" in line]
        owners = [("", module.functions), *((c.qualname, c.methods) for c in module.classes)]
        for owner, functions in owners:
            for function in functions:
                if any(function.line <= number <= function.end_line for number in told):
                    yield Place(path, owner, function)

    def _around(self, places: Iterable[Place]) -> Mapping[str, f.ModuleFacts]:
        """The files of some functions and of their callers, with what the functions name."""
        wanted: dict[str, set[bytes]] = {}
        for place in places:
            own = wanted.setdefault(place.path, set())
            own |= {place.facts.name.encode(), b"__init__"}
            own |= {name.encode() for name in place.facts.mentions if len(name) > 3}
            # Those who call it, and who call them.
            own |= self.shortened.naming(self.sources[place.path], [place.facts.name.encode()])
            for path in self._naming(place.facts.name, place.path):
                wanted.setdefault(path, set()).add(place.facts.name.encode())
        found = {path: self.known[path] for path in wanted if path in self.known}
        more = {p: ws for p, ws in wanted.items() if p not in self.known}
        read = self.read({p: self.shortened.file(self.sources[p], ws) for p, ws in more.items()})
        return {**found, **read}

    def _naming(self, name: str, path: str) -> list[str]:
        """The neighbours of a file that call a function of that name."""
        if name[:1] == "_" or len(words(name)) < 2:
            return []
        folder = path.rpartition("/")[0] + "/"
        call = f"{name}(".encode()
        near = (p for p in self.sources if p.startswith(folder) and p != path)
        found = [p for p in near if call in self.sources[p]]
        return found if len(found) <= _MOST_FILES else []


def _symbol(copy: Copy) -> tuple[str, str]:
    return copy.place.path, copy.place.facts.qualname
