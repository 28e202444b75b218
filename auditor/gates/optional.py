"""Gates that a caller may leave out, and the calls that do."""

from __future__ import annotations

from auditor.gates.readings import Reading, Readings
from auditor.gates.usage import Usage
from auditor.gates.values import CallSite
from auditor.source.names import ClassKey, Function


class Omissions:
    """Finds the calls of a method that do not hand over the gate which it would wait on."""

    def __init__(self, readings: Readings, usage: Usage) -> None:
        self.readings = readings
        self.usage = usage
        self._known: dict[tuple[ClassKey, str], list[tuple[Function, CallSite]]] = {}

    def of(self, reading: Reading) -> list[tuple[Function, CallSite]]:
        """The calls that leave the gate of a reading out; none where its gate is not optional."""
        key = (reading.context, reading.function.facts.name)
        if key not in self._known:
            gates = self._gates(reading)
            found = self._omitting(reading, gates) if gates else []
            if not gates:
                return found  # another read of the method may have a switch
            self._known[key] = found
        return self._known[key]

    def _gates(self, reading: Reading) -> frozenset[str]:
        """Parameters that are waited on, or that switch a wait."""
        summary = self.readings.summary(reading.function, reading.context)
        roots = {w.token[0] for w in summary.waits if w.token[0].startswith("param:")}
        gates = {g.removeprefix("param:") for g in roots if self.readings.is_gate((g,))}
        gates |= {
            token[0][1:]
            for token, _ in reading.read.held
            if token[0].startswith("?") and self.readings.is_gate(token)
        }
        return frozenset(gates)

    def _omitting(self, reading: Reading, gates: frozenset[str]) -> list[tuple[Function, CallSite]]:
        method, context = reading.function, reading.context
        meant = {context, *self.readings.index.classes[context].mro}
        found: list[tuple[Function, CallSite]] = []
        for user in self.readings.index.mentioning(method.facts.name):
            if self.readings.duty(user.facts.name):
                continue
            for call in self.readings.summary(user, user.owner).calls:
                if call.name != method.facts.name or _hands_over(call, method, gates):
                    continue
                if call.types and not call.types & meant:
                    continue
                if not any(self.readings.is_gate(token) for token, _ in call.held):
                    found.append((user, call))
        return found


def _hands_over(call: CallSite, method: Function, gates: frozenset[str]) -> bool:
    parameters = method.facts.parameters[1:]
    given = dict(zip((p.name for p in parameters), call.arguments, strict=False))
    given |= dict(call.keywords)
    if "**" in given:
        return True
    by_default = {p.name for p in parameters if p.default == "value"}
    return all(not given[g].none if g in given else g in by_default for g in gates)
