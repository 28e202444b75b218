"""What an edit of a gap is made from: the sides of the audit, and functions as written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from auditor.checks.view import Norm, View
from auditor.fix.text import Source
from auditor.fix.written import Written
from auditor.gates.gaps import Gap
from auditor.gates.readings import key_parameters
from auditor.source.names import Function


@dataclass
class Material:
    """The sides of an audit, the fork's first, and what is written in them; parsed once."""

    views: Sequence[View]

    norm: Norm

    _written: dict[tuple[int, str, int], Written] = field(default_factory=dict)

    _sources: dict[tuple[int, str], Source] = field(default_factory=dict)

    @property
    def fork(self) -> View:
        """The side that is edited."""
        return self.views[0]

    def gaps(self) -> dict[tuple[str, str], Gap]:
        """The gaps of the fork by path and qualified name."""
        return {
            (gap.function.path, gap.function.facts.qualname): gap
            for gap in self.fork.gaps(self.norm)
        }

    def written(self, view: View, function: Function) -> Written:
        """A function of a side as it is written, parsed once. Raises Unfit."""
        place = self.views.index(view)
        key = (place, function.path, function.facts.line)
        if key not in self._written:
            self._written[key] = Written.of(
                self.source(place, function.path), function.facts.qualname, function.facts.line
            )
        return self._written[key]

    def source(self, place: int, path: str) -> Source:
        """A file of the ``place``-th side. Raises Unfit."""
        if (place, path) not in self._sources:
            self._sources[place, path] = Source.of_python(self.views[place].sources[path])
        return self._sources[place, path]

    def _versions(self, gap: Gap, views: Sequence[View]) -> Iterator[Written]:
        for view in views:
            for function in versions_of(view, gap.function):
                yield self.written(view, function)

    def _lines(self, view: View, function: Function, gap: Gap) -> set[int]:
        """The lines at which a function waits on a gate, or on what the gap is about."""
        readings = view.readings
        about = gate_name(gap.gate.split("."))
        return {
            function.line_of(wait.line)
            for wait in readings.summary(function, function.owner).waits
            if readings.is_gate(wait.token) or gate_name(wait.token) == about
        }

    def _keys(self, gap: Gap) -> frozenset[str]:
        """The parameters that choose what is read too early."""
        owner = gap.function.owner
        if owner is None:
            return frozenset()
        found = self.fork.readings.of_method(owner, gap.function)
        keys = [key_parameters(r.read) for r in found if r.root in gap.roots and not r.gated]
        return frozenset().union(*keys)


def versions_of(view: View, function: Function) -> list[Function]:
    """Another side's versions of a function: of the same file, or the only one of its name."""
    found = view.functions.get(function.facts.qualname, ())
    home = [f for f in found if f.path == function.path]
    return home or (list(found) if len(found) == 1 else [])


def gate_name(token: Sequence[str]) -> str:
    """The attribute or parameter at the end of an access path, whatever is taken of it."""
    steps = (last_of(step) for step in reversed(token))
    return next((step for step in steps if step.isidentifier()), "")


def last_of(step: str) -> str:
    """A step of an access path by its name."""
    return step.removeprefix("param:")
