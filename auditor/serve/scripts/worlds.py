"""The possible runs of a script: each is followed apart, by what it decides on its way.

A run is followed from the start with a list of decisions. Where it meets a question that nothing in
the script answers it takes the next decision of its list, or the first answer; the questions that
it met beyond its list give the lists of further runs. A run remembers what follows from its
answers, so that the same question has the same answer for the whole of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from enum import Enum
from typing import Any

MOST_WORLDS = 64
"""Runs of one script that are followed; those that decide most things otherwise are left out."""


_MOST_TRIALS = 16


class World:
    """One run: its decisions, and what they say of what its caller gives it.

    While it is ``urgent`` the questions asked decide on what starts something, while ``near`` the
    script itself asks them and not a file that it takes in; ``site`` tells apart the statements.
    """

    def __init__(self, planned: tuple[int, ...] = ()) -> None:
        self._planned = planned
        self.taken: list[tuple[int, int]] = []
        self.urgent = False
        self.near = False
        self.first: set[int] = set()
        self.own: set[int] = set()
        self.site: Hashable = None
        self.sites: list[Hashable] = []
        self.when: list[str] = []
        self._answers: dict[Hashable, int] = {}
        self._values: dict[str, str] = {}
        self._others: dict[str, set[str]] = {}
        self._filled: set[str] = set()
        self._trial: tuple[int, ...] | None = None
        self._tried: list[tuple[int, int]] = []

    def choose(self, count: int, key: Hashable = None) -> int:
        """One of ``count`` answers to the question ``key``, always the same one in this run."""
        if count < 2:
            return 0
        if key is not None and key in self._answers:
            return self._answers[key]
        planned, taken = self._planned, self.taken
        if self._trial is not None:
            planned, taken = self._trial, self._tried
        number = len(taken)
        if self._trial is None:
            self.sites.append(self.site if self.site is not None else key)
            if self.urgent:
                self.first.add(number)
            if self.near:
                self.own.add(number)
        chosen = planned[number] if number < len(planned) else 0
        taken.append((chosen, count))
        if key is not None:
            self._answers[key] = chosen
        return chosen

    def holds(self, question: str) -> bool:
        """Whether something holds that only a run can tell."""
        known = ("holds", question) in self._answers
        yes = self.choose(2, ("holds", question)) == 0
        if not known:
            self.when.append(question if yes else f"not {question}")
        return yes

    def otherwise(self, ask: Callable[[], bool]) -> bool:
        """Whether something does not hold, where it need not hold: no run is split for it.

        The questions on the way are answered so that it does not; False where it holds whatever
        the answers are.
        """
        saved = self._state()
        waiting: deque[tuple[int, ...]] = deque([()])
        for _ in range(_MOST_TRIALS):
            self._trial, self._tried = waiting.popleft(), []
            held = ask()
            answers = [chosen for chosen, _ in self._tried]
            counts = [count for _, count in self._tried]
            planned, self._trial = self._trial, None
            if not held:
                return True
            self._restore(saved)
            for at in range(len(planned), len(answers)):
                waiting.extend((*answers[:at], other) for other in range(1, counts[at]))
            if not waiting:
                break
        return False

    def _state(self) -> tuple[Any, ...]:
        others = {symbol: set(texts) for symbol, texts in self._others.items()}
        filled = set(self._filled)
        return list(self.when), dict(self._answers), dict(self._values), others, filled

    def _restore(self, state: tuple[Any, ...]) -> None:
        when, answers, values, others, filled = state
        self.when, self._answers, self._values = list(when), dict(answers), dict(values)
        self._others = {symbol: set(texts) for symbol, texts in others.items()}
        self._filled = set(filled)

    def answered(self, key: Hashable) -> int | None:
        """The answer to a question, None where it was not asked yet."""
        return self._answers.get(key)

    def value(self, symbol: str) -> str | None:
        """What something unknown holds in this run, as far as the run has found out."""
        return self._values.get(symbol)

    def is_filled(self, symbol: str) -> bool:
        """Whether something unknown holds any text; asks where it is not known."""
        known = self.filled(symbol)
        if known is not None:
            return known
        if self.choose(2) == 0:
            self.assume_filled(symbol)
            return True
        self.set(symbol, "")
        return False

    def is_default(self, symbol: str) -> bool:
        """Whether the default of something that the caller may set holds; asks if not known."""
        known = self.filled(symbol)
        if known is not None:
            return not known
        if self.choose(2) == 0:
            self.set(symbol, "")
            return True
        self.assume_filled(symbol)
        return False

    def assume_filled(self, symbol: str, silently: bool = False) -> None:
        """From here on something unknown holds a text, or the run would have ended."""
        if symbol not in self._filled and symbol not in self._values:
            self._filled.add(symbol)
            if not silently:
                self.when.append(f"${symbol} is set")

    def filled(self, symbol: str) -> bool | None:
        """The same without asking."""
        if symbol in self._values:
            return self._values[symbol] != ""
        return True if symbol in self._filled else None

    def equals(self, symbol: str, text: str) -> bool:
        """Whether something unknown is a text; asks where it is not known."""
        known = self.may_equal(symbol, text)
        if known is not None:
            return known
        if self.choose(2) == 0:
            self.set(symbol, text)
            return True
        self.exclude(symbol, [text])
        return False

    def may_equal(self, symbol: str, text: str) -> bool | None:
        """The same without asking."""
        if symbol in self._values:
            return self._values[symbol] == text
        if text in self._others.get(symbol, ()) or (not text and symbol in self._filled):
            return False
        return None

    def set(self, symbol: str, text: str) -> None:
        """From here on something unknown is a text."""
        self._values[symbol] = text
        self.when.append(f"${symbol} = {text}" if text else f"${symbol} is not set")

    def exclude(self, symbol: str, texts: Iterable[str]) -> None:
        """From here on something unknown is none of some texts."""
        found = [text for text in texts if text not in self._others.get(symbol, ())]
        if found:
            self._others.setdefault(symbol, set()).update(found)
            self.when.append(f"${symbol} is not {' or '.join(text or 'empty' for text in found)}")
        if "" in found:
            self._filled.add(symbol)


class Pace(Enum):
    """What is still to be followed: any run, those that show something new, or none."""

    ALL = 2
    NEW = 1
    NONE = 0


def explore(run: Callable[[World], Pace], most: int = MOST_WORLDS) -> bool:
    """Follow the runs; whether all were.

    First come those that decide otherwise on what starts something or take a branch of the script
    itself which none has taken yet, then such branches of other files, then the others, those first
    that decide the fewest things otherwise.
    ``run`` says what to go on with.
    """
    waiting: deque[tuple[int, ...]] = deque([()])
    first: deque[tuple[int, ...]] = deque()
    new: deque[tuple[int, ...]] = deque()
    seen: set[tuple[Hashable, int]] = set()
    for _ in range(most):
        if not (first or new or waiting):
            return True
        planned = (first or new or waiting).popleft()
        world = World(planned)
        pace = run(world)
        answers = [chosen for chosen, _ in world.taken]
        seen.update(zip(world.sites, answers, strict=True))
        for at in range(len(planned), len(answers)):
            site, count = world.sites[at], world.taken[at][1]
            for other in range(1, count):
                branch = (site, other)
                fresh = site is not None and branch not in seen
                seen.add(branch)
                soon = at in world.first or (fresh and at in world.own)
                queue = first if soon else new if fresh else waiting
                queue.append((*answers[:at], other))
        if pace is Pace.NONE or (pace is Pace.NEW and not (first or new)):
            return pace is not Pace.NONE and not waiting
    return not (first or new or waiting)
