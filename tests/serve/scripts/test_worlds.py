"""The runs of a script: each is followed once, and none is left out."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from auditor.serve.scripts.worlds import Pace, World, explore


def followed(ask: Callable[[World], object], most: int = 1000) -> tuple[list[object], bool]:
    seen: list[object] = []

    def run(world: World) -> Pace:
        seen.append(ask(world))
        return Pace.ALL

    every = explore(run, most)
    return seen, every


@given(st.lists(st.integers(1, 3), max_size=5))
def test_every_run_is_followed_once(counts: list[int]) -> None:
    seen, every = followed(lambda world: tuple(world.choose(count) for count in counts))
    assert every
    assert sorted(seen) == sorted(product(*(range(count) for count in counts)))  # type: ignore[type-var]


@given(st.lists(st.booleans(), min_size=1, max_size=6))
def test_the_same_question_has_the_same_answer(keys: list[bool]) -> None:
    seen, _ = followed(lambda world: tuple(world.choose(2, key) for key in keys))
    assert len(seen) == 2 ** len(set(keys))
    for answers in seen:
        assert isinstance(answers, tuple)
        assert len({*zip(keys, answers, strict=True)}) == len(set(keys))


def test_runs_that_decide_little_otherwise_come_first() -> None:
    seen, every = followed(lambda world: sum(world.choose(2) for _ in range(10)), most=12)
    assert not every
    assert seen == [0, *[1] * 10, 2]


def test_what_starts_something_is_decided_first() -> None:
    def ask(world: World) -> tuple[int, ...]:
        early = [world.choose(2) for _ in range(8)]
        world.urgent = True
        late = world.choose(2)
        world.urgent = False
        return (*early, late)

    seen, every = followed(ask, most=2)
    assert not every
    assert seen[1] == (0,) * 8 + (1,)


def test_where_there_is_no_more_time_each_branch_is_taken_once() -> None:
    seen: list[tuple[int, ...]] = []

    def run(world: World) -> Pace:
        answers = []
        for site in range(4):
            world.site = site
            answers.append(world.choose(3))
        seen.append(tuple(answers))
        return Pace.NEW

    assert not explore(run)
    assert len(seen) == 1 + 4 * 2
    assert {(site, answers[site]) for answers in seen for site in range(4)} == set(
        product(range(4), range(3))
    )


def test_what_follows_from_an_answer_is_remembered() -> None:
    def ask(world: World) -> tuple[bool, bool, bool]:
        return world.equals("1", "a"), world.equals("1", "b"), world.is_filled("1")

    seen, _ = followed(ask)
    assert sorted(seen) == [  # type: ignore[type-var]
        (False, False, False),
        (False, False, True),
        (False, True, True),
        (True, False, True),
    ]


def test_a_condition_that_ends_the_script_splits_no_run() -> None:
    def ask(world: World) -> tuple[bool, bool | None]:
        return world.otherwise(lambda: not world.is_filled("X")), world.filled("X")

    assert followed(ask) == ([(True, True)], True)
    assert followed(lambda world: world.otherwise(lambda: True)) == ([False], True)
