"""Sets that are defined by each other, against plain iteration."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from auditor.source.equations import Equations

KEYS = [(f"e{n}",) for n in range(6)]
OWN = [frozenset({f"c{n}"}) for n in range(6)]

systems = st.lists(
    st.tuples(st.booleans(), st.frozensets(st.integers(0, 5), max_size=4)), min_size=6, max_size=6
)


@settings(max_examples=500)
@given(systems, st.permutations(range(6)))
@example(
    # 2 waits for 4, which waits for 1: when 5 asks for 2, only 1 is still being worked out.
    [
        (False, frozenset()),
        (False, frozenset({0, 1, 4, 5})),
        (False, frozenset({4})),
        (True, frozenset()),
        (False, frozenset({1, 2, 3})),
        (False, frozenset({2})),
    ],
    [0, 1, 2, 3, 4, 5],
)
def test_sets_defined_by_each_other_have_the_smallest_solution(
    system: list[tuple[bool, frozenset[int]]], order: list[int]
) -> None:
    """Whatever is asked for first. A set has its own element or none, and all of those it names."""
    solved = Equations[str]()

    def ask(number: int) -> frozenset[str]:
        own, others = system[number]
        parts = [ask_again(other) for other in sorted(others)]
        return frozenset().union(OWN[number] if own else frozenset(), *parts)

    def ask_again(number: int) -> frozenset[str]:
        return solved.solve(KEYS[number], lambda: ask(number))

    expected = [frozenset[str]()] * 6
    for _ in range(6):  # an element comes as far as there are sets
        expected = [
            frozenset().union(OWN[n] if own else frozenset(), *(expected[m] for m in others))
            for n, (own, others) in enumerate(system)
        ]
    assert {n: ask_again(n) for n in order} == dict(enumerate(expected))
    assert solved.settled


def test_what_never_settles_is_told() -> None:
    """Something that denies itself has no solution: the rounds end, and nothing is kept of it."""
    solved = Equations[str]()

    def ask() -> frozenset[str]:
        return OWN[0] - solved.solve(KEYS[0], ask)

    solved.solve(KEYS[0], ask)
    assert not solved.settled


def test_a_recursion_that_went_too_deep_leaves_nothing_behind() -> None:
    solved = Equations[str]()

    def deep() -> frozenset[str]:
        solved.solve(KEYS[1], lambda: OWN[1] | solved.solve(KEYS[0], deep))
        raise RecursionError

    with pytest.raises(RecursionError):
        solved.solve(KEYS[0], deep)
    assert solved.solve(KEYS[1], lambda: OWN[2]) == OWN[2]
    assert solved.solve(KEYS[0], lambda: OWN[3]) == OWN[3]
