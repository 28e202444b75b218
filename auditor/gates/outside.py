"""Reads past a family's getters: raw buffers taken from outside, unguarded inner methods."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property

from auditor.gates.gaps import Gap, Sibling
from auditor.gates.norm import SiblingNorm, is_gated_reader, sibling_of
from auditor.gates.readings import Readings, key_parameters, reads_elements
from auditor.gates.targets import Targets
from auditor.gates.usage import Usage
from auditor.gates.values import ELEMENT, RESULT, SELF, Path, Place, Read
from auditor.model import Side
from auditor.source.index import SourceIndex
from auditor.source.names import ClassKey, Function
from auditor.vocabulary import words


class Bypasses:
    """Finds them on one side."""

    def __init__(self, norm: SiblingNorm, side: Side, readings: Readings, usage: Usage) -> None:
        self.norm = norm
        self.side = side
        self.readings = readings
        self.index = readings.index
        self.usage = usage

    def raw_reads(self) -> Iterator[Gap]:
        """Raw reads of a family's buffers by code outside the family, what may be stores last."""
        found = list(self._raw_reads())
        yield from (gap for gap in found if not gap.maybe_target)
        yield from (gap for gap in found if gap.maybe_target)

    def _raw_reads(self) -> Iterator[Gap]:
        for function, read in self.usage.outside_reads:
            if read.use not in ("read", "return") or self.readings.duty(function.facts.name):
                continue
            if read.origin.qualname != function.facts.qualname:
                continue
            for position in range(1, len(read.path) - 1):
                name, after = read.path[position], read.path[position + 1]
                if name not in self.norm.raw or after != ELEMENT:
                    continue
                if self._holds(function, read.path[:position], name):
                    held = self.readings.gate_held(read, None) is not None
                    if not held and not self._copies_between_tiers(function, name):
                        yield self._bypass(function, read, position)
                    break

    def _holds(self, function: Function, receiver: Path, name: str) -> bool:
        """Whether a receiver is one of the family's objects: by its type, else by its name."""
        types = self.readings.types_of(function, receiver)
        if types:
            return bool(types & set(self.readings.families))
        if receiver == SELF or receiver[-1].removesuffix(RESULT) not in self.usage.holders:
            return False
        return self._nearest_is_family(function, name)

    def _nearest_is_family(self, function: Function, name: str) -> bool:
        """Whether, of the classes with an attribute of that name, the nearest by folder is ours.

        A back-end of its own often has pools with the same names, which nothing ever loads.
        """
        near: dict[int, list[ClassKey]] = {}
        for key in {m.owner: None for m in self.index.mentioning(name) if m.owner is not None}:
            if name in self.index.assigned(key):
                near.setdefault(_shared_folders(function.path, key[0]), []).append(key)
        owners = near[max(near)] if near else []
        return not owners or any(key in self.readings.families for key in owners)

    def _copies_between_tiers(self, function: Function, name: str) -> bool:
        """Whether a function reads an attribute of that name of a host object too."""
        host = self.readings.words.host_words
        for other, read in self.usage.outside_reads:
            if other is function and name in read.path:
                holder = read.path[: read.path.index(name)]
                if any(set(words(step)) & host for step in holder):
                    return True
        return False

    def _bypass(self, function: Function, read: Read, position: int) -> Gap:
        name = read.path[position]
        siblings = self.norm.raw[name]
        owner = self._meant(function, read.path[:position], siblings)
        target = read.handed is not None and self.targets.may_be(function, read)
        return Gap(
            "bypass",
            function,
            function.owner or (function.path, ""),
            (name,),
            function.line_of(read.line),
            read.column,
            siblings,
            0,
            "low" if target else "medium",
            *self.usage.reach([read]),
            f"{function.facts.qualname}.{name}",
            siblings[0].gate,
            detail=owner,
            maybe_target=target,
        )

    def _meant(self, function: Function, receiver: Path, siblings: Sequence[Sibling]) -> str:
        """The class whose getters are meant: that of the receiver, else the nearest."""
        types = self.readings.types_of(function, receiver)
        own = {key for held in types for key in self.index.classes[held].mro}
        owners = {(s.path, s.symbol.rpartition(".")[0]) for s in siblings}
        known = (owners & own or owners) & self.index.classes.keys()
        if not known:
            return siblings[0].symbol.rpartition(".")[0]
        return nearest_class(self.index, function.path, known)[1]

    @cached_property
    def targets(self) -> Targets:
        """Which raw reads may only store."""
        return Targets(self.norm, self.readings)

    def inner_methods(self) -> Iterator[Gap]:
        """Ungated methods of an object that its owner guards, called from outside the owner."""
        for (owner, root), guarded in sorted(self._guarded_objects.items()):
            inner = self.index.attribute_types(owner, root)
            for key in sorted(inner - set(self.readings.families)):
                yield from self._inner(owner, root, key, guarded)

    @cached_property
    def _guarded_objects(self) -> dict[tuple[ClassKey, str], tuple[Sibling, ...]]:
        found: dict[tuple[ClassKey, str], dict[Sibling, None]] = {}
        for reading in self.readings.readings:
            if reading.delegated and is_gated_reader(self.readings, reading):
                key = (reading.context, reading.root)
                found.setdefault(key, {})[sibling_of(self.side, self.readings, reading)] = None
        return {key: tuple(sorted(s)) for key, s in found.items()}

    def _inner(
        self, owner: ClassKey, root: str, key: ClassKey, guarded: tuple[Sibling, ...]
    ) -> Iterator[Gap]:
        reached = self._reached(owner, root)
        for method in self.index.classes[key].methods.values():
            name = method.facts.name
            if name in reached or name.startswith("_") or self.readings.duty(name):
                continue
            reads = [
                r
                for r in self.readings.summary(method, key).reads
                if r.path[0] == "self"
                and r.use == "read"
                and reads_elements(r)
                and key_parameters(r)
                and r.origin.qualname == method.facts.qualname
            ]
            callers = self._callers_outside(owner, root, name)
            if not reads or not callers:
                continue
            first = min(reads, key=lambda r: (r.line, r.column))
            yield Gap(
                "bypass",
                method,
                key,
                (root,),
                method.line_of(first.line),
                first.column,
                guarded,
                0,
                "medium",
                *self.usage.reach([first], key),
                f"{key[1]}.{name}",
                guarded[0].gate,
                callers=tuple(callers),
                detail=owner[1],
            )

    def _reached(self, owner: ClassKey, root: str) -> set[str]:
        """Methods of the inner object that the owner calls behind its gate."""
        found: set[str] = set()
        for method in self.readings.in_force(owner):
            if root in method.facts.mentions:
                for call in self.readings.summary(method, owner).calls:
                    inner = any(p[1:2] == (root,) for p in call.receivers)
                    if inner and any(self.readings.is_gate(t) for t, _ in call.held):
                        found.add(call.name)
        return found

    def _callers_outside(self, owner: ClassKey, root: str, name: str) -> list[Place]:
        family = {owner, *self.index.subclasses.get(owner, ())}
        found: list[Place] = []
        for function in self.index.mentioning(name):
            if function.owner in family or root not in function.facts.mentions:
                continue
            if self.readings.duty(function.facts.name) not in ("", "host", "metadata"):
                continue
            for call in self.readings.summary(function, function.owner).calls:
                if call.name == name and any(p[-1] == root for p in call.receivers):
                    gated = any(self.readings.is_gate(t) for t, _ in call.held)
                    if not gated:
                        line = function.line_of(call.line)
                        found.append(Place(function.path, function.facts.qualname, line))
        return sorted(set(found), key=lambda p: (p.path, p.line))


def nearest_class(index: SourceIndex, path: str, keys: Collection[ClassKey]) -> ClassKey:
    """Of several classes that of a file; else the one with the most below it, a back-end's last."""

    def rank(key: ClassKey) -> tuple[bool, int, int, ClassKey]:
        below = len(index.subclasses.get(key, ()))
        return key[0] != path, -below, len(index.classes[key].mro), key

    return min(keys, key=rank)


def _shared_folders(left: str, right: str) -> int:
    """How many leading folders two paths share."""
    count = 0
    for mine, theirs in zip(left.split("/")[:-1], right.split("/")[:-1], strict=False):
        if mine != theirs:
            break
        count += 1
    return count
