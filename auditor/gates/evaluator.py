"""Summaries of functions, each made once for a class context."""

from __future__ import annotations

from collections.abc import Mapping

from auditor.gates.events import Summaries
from auditor.gates.flow import Walk
from auditor.gates.memory import SideMemory
from auditor.gates.questions import Asked, Grounds
from auditor.gates.values import (
    Summary,
    Types,
)
from auditor.source.index import SourceIndex
from auditor.source.names import ClassKey, Function
from auditor.vocabulary import Vocabulary

_DEEPEST = 14


class Evaluator(Summaries):
    """Summaries of functions, each made once for a class context."""

    def __init__(
        self,
        index: SourceIndex,
        vocabulary: Vocabulary,
        gates: frozenset[str],
        votes: Mapping[str, tuple[ClassKey, ...]],
        memory: SideMemory | None = None,
    ) -> None:
        """``votes`` are the classes that may be meant by a method name on an unknown object."""
        self.index = index
        self.votes = votes
        self.memory = memory
        self.asked = memory.ask(index, votes) if memory else Asked(index, votes, Grounds())
        self.words = vocabulary
        self.gates = gates
        self.too_deep: set[tuple[str, str]] = set()
        self._verdicts: dict[str, tuple[str, int]] = {}
        self._summaries: dict[tuple[object, ...], tuple[Summary | None, int]] = {}
        self._making: list[tuple[object, ...]] = []

    def summary(
        self, function: Function, context: ClassKey | None, types: Types = ()
    ) -> Summary | None:
        """The summary of a function on objects of a class; None while it is being made.

        ``types`` are the classes of parameters, where a caller knows more than the annotations.
        """
        key = (*function.key, context, types)
        known = self._summaries.get(key)
        if known is None:
            known = self._made(key, function, context, types)
        # One that calls itself gets the same answer whoever asks first.
        if known[0] is not None or not self._making or self._making[-1] != key:
            self.asked.rests |= known[1]
        return known[0]

    def _made(
        self, key: tuple[object, ...], function: Function, context: ClassKey | None, types: Types
    ) -> tuple[Summary | None, int]:
        """A summary and its grounds, remembered or worked out."""
        name = (*function.key, context, tuple((n, tuple(sorted(keys))) for n, keys in types))
        if self.memory is not None:
            remembered = self.memory.recall(name)
            if remembered is not None:
                self._summaries[key] = remembered
                return remembered
        if len(self._making) > _DEEPEST:
            return None, Grounds.order
        self._summaries[key] = (None, Grounds.order)
        outer, self.asked.rests = self.asked.rests, 0
        self._making.append(key)
        found: Summary | None = None
        try:
            found = Walk(self, function, context, types).run()
        except RecursionError:
            self.too_deep.add((function.path, function.facts.qualname))
            self.asked.rests |= Grounds.order
        finally:
            self._making.pop()
        made = self._summaries[key] = (found, self.asked.rests)
        self.asked.rests = outer
        if self.memory is not None and found is not None:
            if self.index.settled and not made[1] & Grounds.order:
                self.memory.keep(name, made[1], found)
        return made

    def verdict(self, name: str) -> str:
        """The gate that most of the classes behind a vote wait on in a method; empty for none."""
        known = self._verdicts.get(name)
        if known is None:
            self._verdicts[name] = ("", Grounds.order)  # cuts recursion
            outer, self.asked.rests = self.asked.rests, 0
            known = self._verdicts[name] = (self._count(name), self.asked.rests)
            self.asked.rests = outer
        self.asked.rests |= known[1]
        return known[0]

    def _count(self, name: str) -> str:
        gates: list[str] = []
        voters = 0
        for key in self.asked.votes(name):
            method = self.asked.method(key, name)
            summary = self.summary(method, key) if method is not None else None
            if summary is None:
                continue
            voters += 1
            held = [t[-1] for t, keys in summary.exit_held if t[0] == "self" and keys]
            gates += [gate for gate in held if gate in self.gates][:1]
        return max(sorted(set(gates)), key=gates.count) if 2 * len(gates) > voters else ""
