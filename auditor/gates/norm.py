"""Learns what siblings do: which readers of a buffer wait, over all sides together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from auditor.gates.gaps import Sibling
from auditor.gates.readings import Reading, Readings, reads_elements
from auditor.gates.values import ELEMENT, Path, Wait
from auditor.model import Side
from auditor.source import facts as f
from auditor.source.names import ClassKey


@dataclass(frozen=True)
class SiblingNorm:
    """Gated readers over all sides: by (class name, attribute), by class name, by (class, method).

    ``raw`` are those that index an attribute by that attribute's name, whoever holds it.
    ``attributes`` are all that classes had before the fork, by class name.
    """

    by_buffer: Mapping[tuple[str, str], tuple[Sibling, ...]]
    by_class: Mapping[str, tuple[Sibling, ...]]
    symbols: Mapping[tuple[str, str], tuple[Sibling, ...]]
    raw: Mapping[str, tuple[Sibling, ...]]
    attributes: Mapping[str, frozenset[str]]

    def readers(self, key: ClassKey, root: str, side: Side) -> list[Sibling]:
        """The gated readers of a class's attribute.

        Of another side's classes that of the same file is meant; where none is, the class may have
        moved, and any of its name counts.
        """
        path, name = key
        found = self.by_buffer.get((name, root), ())
        at_home = {s.side for s in found if s.path == path}
        return [s for s in found if s.path == path or (s.side != side and s.side not in at_home)]


def learn(sides: Sequence[tuple[Side, Readings]]) -> SiblingNorm:
    """What siblings do, over all sides."""
    by_buffer: dict[tuple[str, str], dict[Sibling, None]] = {}
    by_class: dict[str, dict[Sibling, None]] = {}
    symbols: dict[tuple[str, str], dict[Sibling, None]] = {}
    raw: dict[str, dict[Sibling, None]] = {}
    attributes: dict[str, set[str]] = {}
    for side, readings in sides:
        for key in readings.families if side in ("upstream", "base") else ():
            own = attributes.setdefault(key[1], set())
            for base in readings.index.classes[key].mro:
                own.update(readings.index.assigned(base))
        for reading in readings.readings:
            if not is_gated_reader(readings, reading):
                continue
            sibling = sibling_of(side, readings, reading)
            name = reading.context[1]
            by_buffer.setdefault((name, reading.root), {})[sibling] = None
            by_class.setdefault(name, {})[sibling] = None
            symbols.setdefault((name, reading.function.facts.name), {})[sibling] = None
            indexed = _indexed(reading.read.path)
            if indexed:
                raw.setdefault(indexed, {})[sibling] = None
    return SiblingNorm(
        {key: tuple(sorted(found)) for key, found in by_buffer.items()},
        {key: tuple(sorted(found)) for key, found in by_class.items()},
        {key: tuple(sorted(found)) for key, found in symbols.items()},
        {key: tuple(sorted(found)) for key, found in raw.items()},
        {name: frozenset(own) for name, own in attributes.items()},
    )


def is_gated_reader(readings: Readings, reading: Reading) -> bool:
    """Whether a reading shows that its buffer is read behind a gate."""
    return (
        reading.gated
        and reading.gate != "*"
        and not reading.optional
        and reads_elements(reading.read)
        and not readings.duty(reading.function.facts.name)
        and not readings.no_buffer(reading.context, reading.read.path)
    )


def sibling_of(side: Side, readings: Readings, reading: Reading) -> Sibling:
    """A gated reading as evidence: the line is that of the wait."""
    function, line = reading.function, wait_line(readings, reading)
    return Sibling(
        side,
        function.path,
        function.facts.qualname,
        line,
        reading.root,
        reading.gate,
        function.facts.name,
        inner_name(reading.read.path),
        line != function.line_of(reading.read.line),
    )


def wait_line(readings: Readings, reading: Reading) -> int:
    """The line of the file on which the wait that a gated read is behind is made or called for.

    Of several that is the last one before the read that no branch leads around; where each branch
    has its own, the last one before the read. Where the wait is not seen, it comes with the call
    that reads.
    """
    function, read = reading.function, reading.read
    waits = [w for w in readings.summary(function, reading.context).waits if _covers(w, reading)]
    before = [w.line for w in waits if w.line <= read.line] or [w.line for w in waits]
    way = _way(function.facts.body, read.line)
    always = [line for line in before if way[: len(own := _way(function.facts.body, line))] == own]
    return function.line_of(max(always or before, default=read.line))


def _covers(wait: Wait, reading: Reading) -> bool:
    named = ".".join(wait.token) == reading.gate
    return named and (not wait.keys or bool(wait.keys & reading.read.keys))


def _way(body: Sequence[f.Stmt], line: int) -> tuple[tuple[int, int], ...]:
    """The branches that lead to a line of a body: the line of each statement, which block of it."""
    placed = [s for s in body if not isinstance(s, f.Import | f.Define) and s.line <= line]
    if not placed:
        return ()
    blocks = list(enumerate(f.blocks(placed[-1])))
    for number, block in reversed(blocks):
        inner = _way(block, line)
        if inner or any(not isinstance(s, f.Import | f.Define) and s.line <= line for s in block):
            return ((placed[-1].line, number), *inner)
    return ()


def inner_name(path: Path) -> str:
    """The buffer of an inner object that a path indexes; empty where it is not known."""
    step = path[2] if len(path) > 2 else ""
    return step if step.isidentifier() else ""


def _indexed(path: Path) -> str:
    """The attribute that a path takes its first member of; empty where a call comes first."""
    for position in range(1, len(path) - 1):
        if path[position + 1] == ELEMENT and path[position].isidentifier():
            return path[position]
    return ""
