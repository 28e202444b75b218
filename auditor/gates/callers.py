"""Whether a read that does not wait is answered for: by callers that wait, or that only store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from auditor.gates.readings import Reading, Readings
from auditor.gates.usage import Usage
from auditor.gates.values import SELF, CallSite, Read
from auditor.source.names import ClassKey, Function


@dataclass
class Candidate:
    """A family's method with reads that are not behind a gate."""

    function: Function
    context: ClassKey
    readings: list[Reading] = field(default_factory=list)


class Callers:
    """Follows the users of candidates, transitively."""

    def __init__(
        self,
        readings: Readings,
        usage: Usage,
        candidates: Mapping[tuple[ClassKey, str], Candidate],
        mentioned: Callable[[str], bool],
    ) -> None:
        """``mentioned`` tells whether a name occurs in a file that was not extracted."""
        self.readings = readings
        self.index = readings.index
        self.usage = usage
        self.candidates = candidates
        self.mentioned = mentioned
        self._asking: set[str] = set()

    def answered_for(self, candidate: Candidate) -> bool:
        """Whether every way to the method that the tree shows waits first or only stores.

        A private method that nothing names is dead code. A public one may have callers elsewhere:
        it counts as answered for only where each mention of it in the tree is understood.
        """
        qualname = candidate.function.facts.qualname
        if qualname in self._asking:
            return True
        self._asking.add(qualname)
        try:
            return self._asked(candidate)
        finally:
            self._asking.discard(qualname)

    def _asked(self, candidate: Candidate) -> bool:
        name = candidate.function.facts.name
        private = name.startswith("_") and not name.startswith("__")
        if not self.index.mentioning(name):
            return private and not self.mentioned(name)
        used = False
        for _, answered in self._users(candidate, private):
            if not answered:
                return False
            used = True
        return private or (used and not self.mentioned(name))

    def open_users(self, candidate: Candidate) -> list[Function]:
        """The functions that come to the method's read and answer for it in no way."""
        name = candidate.function.facts.name
        private = name.startswith("_") and not name.startswith("__")
        self._asking.add(candidate.function.facts.qualname)
        try:
            return [user for user, answered in self._users(candidate, private) if not answered]
        finally:
            self._asking.discard(candidate.function.facts.qualname)

    def _users(self, candidate: Candidate, private: bool) -> Iterator[tuple[Function, bool]]:
        """Who uses the method, and whether that use waits, stores, or is none of its business."""
        here = (candidate.function.path, candidate.function.facts.qualname)
        reads: dict[tuple[str, str], list[tuple[ClassKey | None, Read]]] = {}
        for context, user, read in self.usage.by_origin.get(here, ()):
            reads.setdefault((user.path, user.facts.qualname), []).append((context, read))
        for user in self.index.mentioning(candidate.function.facts.name):
            if (user.path, user.facts.qualname) == here:
                continue
            duty = self.readings.duty(user.facts.name)
            found = reads.get((user.path, user.facts.qualname))
            if found is not None:
                yield user, bool(duty) or self._covered(user, found)
                continue
            calls = self._calls_of(user, candidate)
            if calls is None or private or user.facts.name.startswith("_"):
                continue  # metadata, or another class's method of that name
            yield user, bool(duty) or self._all_held(calls)

    def _calls_of(self, user: Function, candidate: Candidate) -> list[CallSite] | None:
        """The calls in a function that may mean a candidate's method; None if all mean another."""
        name = candidate.function.facts.name
        named = [c for c in self.readings.summary(user, user.owner).calls if c.name == name]
        own = {candidate.context, *self.index.subclasses.get(candidate.context, ())}
        meant = own | set(self.index.classes[candidate.context].mro)
        calls: list[CallSite] = []
        for call in named:
            # A declared type without such a method is wider than the object that is meant.
            types = {key for key in call.types if self.index.method(key, name) is not None}
            if (not types or types & meant) and (call.receivers != {SELF} or user.owner in own):
                calls.append(call)
        return None if named and not calls else calls

    def _all_held(self, calls: Sequence[CallSite]) -> bool:
        return bool(calls) and all(
            any(self.readings.is_gate(t) for t, _ in call.held) for call in calls
        )

    def _covered(self, user: Function, found: list[tuple[ClassKey | None, Read]]) -> bool:
        """Whether a user's reads are behind a gate, stores, or the matter of its own callers."""
        for context, read in found:
            if read.use == "store" or self.readings.gate_held(read, context) is not None:
                continue
            if read.path[0] == "self" and context is not None:
                if self.readings.no_buffer(context, read.path):
                    continue
            inner = self.candidates.get((context, user.facts.name)) if context else None
            if inner is None or not self.answered_for(inner):
                return False
        return True
