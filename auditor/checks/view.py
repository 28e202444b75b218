"""All that a check may see of one side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from auditor.gates.gaps import Gap
from auditor.gates.memory import SideMemory
from auditor.gates.norm import SiblingNorm
from auditor.gates.parameters import dropped_parameters
from auditor.gates.readings import Reading, Readings
from auditor.gates.removals import removed_waits
from auditor.gates.siblings import Judge
from auditor.gates.values import Place
from auditor.model import Side, Symbol
from auditor.source.index import SourceIndex
from auditor.source.names import Function
from auditor.source.scans import Scans
from auditor.source.scout import Scouted, deployed
from auditor.streams.reading import Read
from auditor.vocabulary import Vocabulary


@dataclass(frozen=True)
class Norm:
    """What siblings do, and the sides it was learned from."""

    siblings: SiblingNorm
    views: tuple[View, ...]


@dataclass(frozen=True)
class View:
    """One side, read: its files, what was extracted of them, and the readings they share.

    ``sources`` are all Python files by package-relative path. ``read`` gives the facts of files
    that the gates have no part in, or of some functions of them.
    """

    side: Side
    ref: str
    sources: Mapping[str, bytes]
    scouted: Scouted
    index: SourceIndex
    vocabulary: Vocabulary
    scans: Scans
    read: Read
    memory: SideMemory | None = None
    _gaps: dict[int, tuple[Norm, Judge, list[Gap]]] = field(default_factory=dict)

    @cached_property
    def readings(self) -> Readings:
        """The families' readings, made once for all rules."""
        return Readings(self.index, self.scouted, self.vocabulary, self.deployed, self.memory)

    def gaps(self, norm: Norm) -> list[Gap]:
        """What the norm says of this side, judged once for all rules."""
        return self._judged(norm)[1]

    def open_users(self, norm: object, symbol: Symbol) -> tuple[Place, ...]:
        """Who comes to the read of a gap, by its symbol, without a wait of any kind.

        Nobody where the norm is one of another check.
        """
        if not isinstance(norm, Norm):
            return ()
        judge, gaps = self._judged(norm)
        for gap in gaps:
            if (gap.function.path, gap.function.facts.qualname) == (symbol.path, symbol.qualname):
                return judge.open_users(gap)
        return ()

    def _judged(self, norm: Norm) -> tuple[Judge, list[Gap]]:
        known = self._gaps.get(id(norm))
        if known is None:
            judge = Judge(norm.siblings, self.side, self.readings, self.mentioned)
            known = self._gaps[id(norm)] = (norm, judge, self._judge(norm, judge))
        return known[1:]

    def _judge(self, norm: Norm, judge: Judge) -> list[Gap]:
        found = [*dropped_parameters(self.side, self.readings), *judge.gaps()]
        gaps: dict[tuple[str, str], Gap] = {}
        for gap in found:
            gaps.setdefault((gap.function.path, gap.function.facts.qualname), gap)
        # The merge base too: what it lacks of the release is not what the fork took away.
        before = {"fork": ("upstream", "base"), "base": ("upstream",)}.get(self.side, ())
        others = [(v.side, v.readings, v.functions) for v in norm.views if v.side in before]
        if others:
            mine = (self.side, self.readings, self.functions)
            explained = {place for place, gap in gaps.items() if gap.confidence != "low"}
            for gap in removed_waits(mine, others, explained):
                place = (gap.function.path, gap.function.facts.qualname)
                if place not in gaps or gap.confidence != "low":
                    gaps[place] = gap
        return sorted(gaps.values(), key=lambda g: (g.function.path, g.line))

    def text(self, function: Function) -> bytes:
        """The source lines of a function."""
        lines = self.sources[function.path].split(b"\n")
        return b"\n".join(lines[function.facts.line - 1 : function.facts.end_line])

    def mentioned(self, name: str) -> bool:
        """Whether a name occurs in a deployed file that was not extracted."""
        return self.scans.occurs(name, self._unread)

    @cached_property
    def _unread(self) -> list[bytes]:
        known = self.index.modules
        return [data for path, data in self.deployed.items() if path not in known]

    @cached_property
    def deployed(self) -> Mapping[str, bytes]:
        """The files that can be part of a running server."""
        return {path: data for path, data in self.sources.items() if deployed(path)}

    @cached_property
    def functions(self) -> Mapping[str, tuple[Function, ...]]:
        """Every extracted function and method, by qualified name."""
        found: dict[str, list[Function]] = {}
        for function in self.index.every_function():
            found.setdefault(function.facts.qualname, []).append(function)
        return {name: tuple(functions) for name, functions in found.items()}

    @cached_property
    def readings_of(self) -> Mapping[str, tuple[Reading, ...]]:
        """The readings of each method, by qualified name."""
        found: dict[str, list[Reading]] = {}
        for reading in self.readings.readings:
            found.setdefault(reading.function.facts.qualname, []).append(reading)
        return {name: tuple(readings) for name, readings in found.items()}
