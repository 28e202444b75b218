"""All that a check may see of one side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from auditor.analysis.readings import Reading, Readings
from auditor.analysis.siblings import Gap, Judge, SiblingNorm
from auditor.model import Side
from auditor.rulebook import Vocabulary
from auditor.source.index import Function, SourceIndex
from auditor.source.scout import Scouted, deployed


@dataclass(frozen=True)
class View:
    """One side, read: its files, what was extracted of them, and the readings they share.

    ``sources`` are all Python files by package-relative path.
    """

    side: Side
    ref: str
    sources: Mapping[str, bytes]
    scouted: Scouted
    index: SourceIndex
    vocabulary: Vocabulary
    _gaps: dict[int, tuple[SiblingNorm, list[Gap]]] = field(default_factory=dict)

    @cached_property
    def readings(self) -> Readings:
        """The families' readings, made once for all rules."""
        return Readings(self.index, self.scouted, self.vocabulary)

    def gaps(self, norm: SiblingNorm) -> list[Gap]:
        """What the norm says of this side, judged once for all rules."""
        known = self._gaps.get(id(norm))
        if known is None:
            judge = Judge(norm, self.side, self.readings, self.mentioned)
            known = self._gaps[id(norm)] = (norm, judge.gaps())
        return known[1]

    def mentioned(self, name: str) -> bool:
        """Whether a name occurs in a deployed file that was not extracted."""
        wanted = name.encode()
        return any(wanted in data for data in self._unread)

    @cached_property
    def _unread(self) -> list[bytes]:
        known = self.index.modules
        return [d for path, d in self.sources.items() if path not in known and deployed(path)]

    @cached_property
    def functions(self) -> Mapping[str, tuple[Function, ...]]:
        """Every extracted function and method, by qualified name."""
        found: dict[str, list[Function]] = {}
        for function in self.index.functions.values():
            found.setdefault(function.facts.qualname, []).append(function)
        for known in self.index.classes.values():
            for method in known.methods.values():
                found.setdefault(method.facts.qualname, []).append(method)
        return {name: tuple(functions) for name, functions in found.items()}

    @cached_property
    def readings_of(self) -> Mapping[str, tuple[Reading, ...]]:
        """The readings of each method, by qualified name."""
        found: dict[str, list[Reading]] = {}
        for reading in self.readings.readings:
            found.setdefault(reading.function.facts.qualname, []).append(reading)
        return {name: tuple(readings) for name, readings in found.items()}
