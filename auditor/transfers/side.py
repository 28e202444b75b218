"""Reads one side for its transfers: few methods of few files, more only where they decide."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property

from auditor.source import facts as f
from auditor.source.scans import Scans
from auditor.streams.reading import Read, Shortened
from auditor.transfers.methods import Methods
from auditor.transfers.norm import Gap, Norm
from auditor.transfers.picking import picked, waiting
from auditor.vocabulary import Vocabulary

_MOST_FILES = 12
"""Files that call a method; a name in more is not this method's alone."""
_ROUNDS = 2
"""Times that more is read where something is left open: helpers of helpers, bases of bases."""
_UPWARDS = 2
"""Callers of callers."""


class Transfers:
    """The transfers of one side."""

    def __init__(
        self,
        sources: Mapping[str, bytes],
        known: Mapping[str, f.ModuleFacts],
        read: Read,
        scans: Scans,
        vocabulary: Vocabulary,
        shortened: Shortened,
    ) -> None:
        """``known`` are the files that were read whole; ``shortened`` is shared between sides."""
        self.sources = sources
        self.known = known
        self.read = read
        self.scans = scans
        self.vocabulary = vocabulary
        self.shortened = shortened

    def pick(self) -> None:
        """Look for the files that matter, and read none of them yet."""
        _ = self._files

    @cached_property
    def _files(self) -> list[str]:
        return waiting(self.sources, self.scans)

    @cached_property
    def norm(self) -> Norm:
        """What is counted, of the methods and of the helpers that they call."""
        found = picked(self.sources, self._files, self.vocabulary)
        names = frozenset(found)
        heads = {f"def {name}(".encode() for name in names}
        wanted = {path: heads for paths in found.values() for path in paths}
        methods = Methods(self._read(wanted), names, self.vocabulary)
        for _ in range(_ROUNDS):
            heads |= {f"def {name}(".encode() for name in methods.missing()}
            classes = {f"class {name}{end}".encode() for name in methods.unread() for end in "(:"}
            heads |= classes
            # What is called on self may be a base's, which stands in another of the files.
            wanted = dict.fromkeys([*wanted, *self._holding(classes)], heads)
            methods = Methods(self._read(wanted), names, self.vocabulary)
            norm = Norm(methods)
            if not norm.doubtful:
                break
        return norm

    @cached_property
    def gaps(self) -> list[Gap]:
        """What stands out, and is not left to who calls it."""
        return [gap for gap in self.norm.gaps() if not self._left_to_callers(gap)]

    def _read(self, wanted: Mapping[str, Iterable[bytes]]) -> Mapping[str, f.ModuleFacts]:
        found = {path: self.known[path] for path in wanted if path in self.known}
        short = {
            path: self.shortened.file(self.sources[path], heads)
            for path, heads in wanted.items()
            if path not in found
        }
        read = dict(self.read(short))
        # What cannot be read in part is read whole, or is told to be unreadable.
        failed = {path: self.sources[path] for path in short if path not in read}
        return {**found, **read, **(self.read(failed) if failed else {})}

    def _holding(self, words: Collection[bytes]) -> list[str]:
        """The files with one of some words."""
        sources = self.sources.items() if words else ()
        return [path for path, data in sources if any(word in data for word in words)]

    def _left_to_callers(self, gap: Gap) -> bool:
        """Whether all that call a method wait after it."""
        return gap.early is None and self._awaited(gap.method.name, 0)

    def _awaited(self, name: str, depth: int) -> bool:
        calls = [f".{name}(".encode(), *([f" {name}(".encode()] if depth else [])]
        paths = self._holding(calls)
        if not paths or len(paths) > _MOST_FILES:
            return False
        found = Methods(self._read(dict.fromkeys(paths, calls)), frozenset(), self.vocabulary)
        users = [place for place in found.lookup.mentioning(name) if place.facts.name != name]
        calling = [(place, walk) for place in users if (walk := found.walk(place, name)).starts]
        return bool(calling) and all(
            walk.done or (depth < _UPWARDS and self._awaited(place.facts.name, depth + 1))
            for place, walk in calling
        )
