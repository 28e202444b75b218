"""Who reads which buffer, how, and behind which gate: one reading of a snapshot for all rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from auditor.gates.bookkeeping import Bookkeeping
from auditor.gates.events import EVERYTHING
from auditor.gates.values import (
    ELEMENT,
    LOOP,
    LOOPED,
    NO_KEYS,
    RESULT,
    SELF,
    Keys,
    Path,
    Read,
)
from auditor.source import facts as f
from auditor.source.names import ClassKey, Function


@dataclass(frozen=True)
class Reading:
    """One method's read of one attribute of its object, on objects of ``context``.

    ``gated``: a gate is held on every path; ``partial``: it was waited on along some; ``late``: the
    method waits, but only after the read; ``waits``: it waits at all. ``gate`` is the receiver
    waited on, as text. ``vain``: the method itself has taken the gate away that it asks for.
    """

    context: ClassKey
    function: Function
    root: str
    read: Read
    gated: bool
    partial: bool
    late: bool
    waits: bool
    gate: str
    vain: bool = False

    @property
    def optional(self) -> bool:
        """Whether the gate is one that a caller may leave out."""
        return self.gate.startswith(("param:", "?"))

    @property
    def delegated(self) -> bool:
        """Whether the elements are another object's, reached through an attribute."""
        step = self.read.path[2] if len(self.read.path) > 2 else ""
        return step.endswith(RESULT) or step.isidentifier()


class Readings(Bookkeeping):
    """The families of a snapshot (classes that share a gate by inheritance) and their readings."""

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        """Every reading by a family's own methods, in a fixed order."""
        return tuple(self._readings())

    def _readings(self) -> Iterator[Reading]:
        for context in self.families:
            known = self.index.classes[context]
            for _, method in sorted(known.methods.items()):
                yield from self.of_method(context, method)

    def of_method(self, context: ClassKey, method: Function) -> Iterator[Reading]:
        """The readings of one method on objects of a class."""
        summary = self.summary(method, context)
        waited = [w for w in summary.waits if w.kind == "keyed" and self.is_gate(w.token)]
        taken_away = self._takes_gate_away(method)
        for read in summary.reads:
            if read.path[0] != "self" or len(read.path) < 2 or read.path[1] in self.gates:
                continue
            held = None if taken_away else self.gate_held(read, context)
            own = [w for w in waited if w.keys & read.keys and not self._void(w.token, context)]
            after = read.use != "return" and any(
                w.line > read.line for w in own if w.token not in read.may
            )
            may = {w.token for w in own} & read.may
            yield Reading(
                context,
                method,
                read.path[1],
                read,
                held is not None,
                bool(may) and not taken_away,
                after,
                bool(waited),
                ".".join(held) if held else "",
                taken_away,
            )

    def _takes_gate_away(self, method: Function) -> bool:
        """Whether a method that reads for others puts None in a gate's place.

        Its own test for the gate then says nothing.
        """
        facts = method.facts
        if self.gates.isdisjoint(facts.mentions) or facts.name.startswith("__"):
            return False
        return any(
            isinstance(target, f.Attr)
            and target.name in self.gates
            and target.value == f.Name(SELF[0])
            for stmt in f.statements(facts.body)
            if isinstance(stmt, f.Assign) and stmt.value == f.Const("none")
            for target in stmt.targets
        )

    def gate_held(self, read: Read, context: ClassKey | None) -> Path | None:
        """The gate that a read is behind on every path, for the read's own keys."""
        wanted = read.keys - {LOOP}
        for token, keys in read.held:
            if token == EVERYTHING:
                return token
            if not self.is_gate(token):
                continue
            if context is not None and self._void(token, context):
                continue
            if keys is None or not wanted or keys & read.keys:
                return token
        return None

    def _void(self, token: Path, context: ClassKey) -> bool:
        return any(token[: len(p)] == p for p in self.disarmed(context))


def key_parameters(read: Read) -> Keys:
    """The parameters that say which element is read."""
    return read.keys - {LOOP} if read.keys else NO_KEYS


def reads_elements(read: Read) -> bool:
    """Whether elements are taken and used: not the container, its metadata or one fixed member."""
    chosen = any(s in (ELEMENT, LOOPED) or s.endswith(RESULT) for s in read.path[2:])
    return read.use in ("read", "return") and chosen
