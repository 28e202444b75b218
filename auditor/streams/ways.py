"""What holds on every way that leads to a place of a function."""

from __future__ import annotations

from dataclasses import dataclass

from auditor.source import facts as f
from auditor.streams.identity import Keys, known

Tests = frozenset[tuple[str, bool]]
"""Tests as text, with how they came out."""

_MOST_LATER = 64


@dataclass(frozen=True)
class Way:
    """``held`` are the streams that were made to wait, ``later`` those where tests came out so."""

    held: Keys = frozenset()
    tests: Tests = frozenset()
    later: frozenset[tuple[Tests, str]] = frozenset()

    def hold(self, keys: Keys) -> Way:
        """With more streams that wait."""
        return self if keys <= self.held else Way(self.held | keys, self.tests, self.later)

    def learn(self, test: f.Expr, outcome: bool) -> Way:
        """Where a test comes out so."""
        return self.given(frozenset(known(test, outcome)))

    def given(self, tests: Tests) -> Way:
        """Where tests have come out so."""
        tests |= self.tests
        more = frozenset(key for needed, key in self.later if needed <= tests)
        return Way(self.held | more, tests, self.later)


def joined(one: Way | None, other: Way | None, test: f.Expr | None = None) -> Way | None:
    """What holds where two ways meet; ``one`` is that on which the test came out true.

    What only one of them holds is kept for where the same test comes out the same again.
    """
    if one is None or other is None:
        return other if one is None else one
    held = one.held & other.held
    both = one.later | other.later
    later = {
        pair
        for pair in both
        if (pair in one.later or pair[1] in one.held)
        and (pair in other.later or pair[1] in other.held)
    }
    if test is not None:
        for way, outcome in ((one, True), (other, False)):
            told = frozenset(known(test, outcome))
            later |= {(told, key) for key in way.held - held}
            later |= {
                (needed | told, key) for needed, key in way.later if (needed, key) not in later
            }
    kept = frozenset(sorted(later, key=lambda p: (len(p[0]), sorted(p[0]), p[1]))[:_MOST_LATER])
    return Way(held, one.tests & other.tests, kept)
