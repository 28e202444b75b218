"""Counts which transfers of one name wait in the classes of a family, and which stand out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from auditor.source import facts as f
from auditor.transfers.methods import Method, Methods
from auditor.transfers.picking import ends

_FEWEST = 2
"""Siblings that wait: one alone may be the exception."""
_SHARE = 0.6
"""Of all comparable ones, as for gates."""
_SHARED_NAMES = 2
"""Names of transfers that two classes have in common, where they share no base."""


@dataclass(frozen=True)
class Gap:
    """A transfer that its siblings' would have waited for.

    ``siblings`` are those of its name that wait, ``others`` the transfers of other names of the
    family that do, where too few of its own name tell. ``total`` counts the comparable ones, itself
    among them. ``early`` is what it frees or acknowledges before the wait that it makes.
    """

    method: Method
    siblings: tuple[Method, ...]
    total: int
    others: tuple[Method, ...] = ()
    early: f.Call | None = None


class Norm:
    """What the transfers of one side do."""

    def __init__(self, methods: Methods) -> None:
        self.methods = methods
        self._bases = {id(one): methods.bases(one.place) for one in methods.found}
        self._names: dict[tuple[str, str], set[str]] = {}
        for name in methods.names:
            for place in methods.lookup.places.get(name, ()):
                self._names.setdefault((place.path, place.owner), set()).add(name)

    def gaps(self) -> Iterator[Gap]:
        """Every transfer that stands out."""
        for method in self.methods.found:
            gap = self._open(method) if not method.done else self._early(method)
            if gap is not None:
                yield gap

    @property
    def doubtful(self) -> bool:
        """Whether more reading may decide: something stands out, or would if it were a sibling."""
        known = self.methods.found
        waiting = [method.name for method in _waiting(known)]
        left = any(not one.done and waiting.count(one.name) >= _FEWEST for one in known)
        return left or any(True for _ in self.gaps())

    def rows(self) -> Iterator[tuple[str, list[Method], int]]:
        """For each name by which siblings wait, those that do, and how many could."""
        for name in sorted({method.name for method in self.methods.found}):
            named = [method for method in self.methods.found if method.name == name]
            related = [one for one in named if any(self._related(one, other) for other in named)]
            waiting = [one for one in related if one.done and one.waits]
            if len(waiting) >= _FEWEST:
                yield name, waiting, len(related)

    def _open(self, method: Method) -> Gap | None:
        same = self._siblings(method)
        waiting = _waiting(same)
        if _agree(len(waiting), len(same) + 1):
            return Gap(method, tuple(waiting), len(same) + 1)
        if not waiting:
            return None
        # Too few of its own name: the other ways of the family, where most of each wait.
        for name in self._other_ways(method):
            others = [one for one in self._family(method) if one.name == name]
            telling = _waiting(others)
            if _agree(len(telling), len(others)):
                return Gap(method, tuple(waiting), len(same) + 1, tuple(telling))
        return None

    def _early(self, method: Method) -> Gap | None:
        """One that waits, but not before it lets go of what it copies from."""
        if not method.early:
            return None
        same = [one for one in self._siblings(method) if one.early or one.late]
        waiting = [one for one in same if one.waits and not one.early]
        if not _agree(len(waiting), len(same) + 1):
            return None
        return Gap(method, tuple(waiting), len(same) + 1, early=method.early[0])

    def _siblings(self, method: Method) -> list[Method]:
        return [one for one in self._family(method) if one.name == method.name]

    def _family(self, method: Method) -> list[Method]:
        """The transfers of the class and of those that are like it, the method itself left out."""
        return [one for one in self.methods.found if one is not method and self._kin(one, method)]

    def _other_ways(self, method: Method) -> list[str]:
        """Names that share the first or the last word: ``push_rows`` of ``pull_rows``."""
        mine = set(ends(method.name))
        found = {one.name for one in self._family(method) if not mine.isdisjoint(ends(one.name))}
        return sorted(found - {method.name})

    def _related(self, one: Method, other: Method) -> bool:
        return one is not other and self._kin(one, other)

    def _kin(self, one: Method, other: Method) -> bool:
        """Whether two classes are one, share a base, or share names of transfers."""
        if not self._bases[id(one)].isdisjoint(self._bases[id(other)]):
            return True
        mine, theirs = ((m.place.path, m.place.owner) for m in (one, other))
        return len(self._names[mine] & self._names[theirs]) >= _SHARED_NAMES


def _waiting(methods: Sequence[Method]) -> list[Method]:
    return [one for one in methods if one.done and one.waits]


def _agree(waiting: int, total: int) -> bool:
    return waiting >= _FEWEST and waiting >= _SHARE * total
