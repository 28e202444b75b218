"""What holds on every way that leads to a place of a function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from auditor.source import facts as f
from auditor.streams.identity import Keys, known

Told = Sequence[tuple[f.Expr, bool]]
"""Tests, with how they came out."""
_Needed = frozenset[tuple[str, bool]]

_MOST_LATER = 64


@dataclass(frozen=True)
class Way:
    """``held`` are the streams that were made to wait, ``later`` those where tests came out so.

    ``told`` are the tests on the way, the outermost first.
    """

    held: Keys = frozenset()
    told: tuple[tuple[f.Expr, bool], ...] = ()
    later: frozenset[tuple[_Needed, str]] = frozenset()

    def hold(self, keys: Keys) -> Way:
        """With more streams that wait."""
        return self if keys <= self.held else Way(self.held | keys, self.told, self.later)

    def without(self, key: str) -> Way:
        """Where something does not hold any more, however the tests came out."""
        if key not in self.held and not self.later:
            return self
        later = frozenset(pair for pair in self.later if pair[1] != key)
        return Way(self.held - {key}, self.told, later)

    def given(self, tests: Told) -> Way:
        """Where tests came out so."""
        told = (*self.told, *tests)
        if not self.later:
            return Way(self.held, told)
        so = frozenset(part for test, outcome in told for part in known(test, outcome))
        more = frozenset(key for needed, key in self.later if needed <= so)
        return Way(self.held | more, told, self.later)


def joined(one: Way | None, other: Way | None, test: f.Expr | None = None) -> Way | None:
    """What holds where two ways meet; ``one`` is that on which the test came out true.

    What only one of them holds is kept for where the same test comes out the same again.
    """
    if one is None or other is None:
        return other if one is None else one
    both = zip(one.told, other.told, strict=False)
    told = one.told[: next((n for n, (a, b) in enumerate(both) if a is not b), len(one.told))]
    told = told[: len(other.told)]
    if one.held == other.held and one.later == other.later:
        return Way(one.held, told, one.later)
    held = one.held & other.held
    later = {
        pair
        for pair in one.later | other.later
        if (pair in one.later or pair[1] in one.held)
        and (pair in other.later or pair[1] in other.held)
    }
    if test is not None:
        for way, outcome in ((one, True), (other, False)):
            so = frozenset(known(test, outcome))
            later |= {(so, key) for key in way.held - held}
            later |= {(needed | so, key) for needed, key in way.later - later}
    kept = sorted(later, key=lambda pair: (len(pair[0]), sorted(pair[0]), pair[1]))
    return Way(held, told, frozenset(kept[:_MOST_LATER])).given(())
