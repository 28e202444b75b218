"""Which hosts can be made for which pools, by what the hosts ask of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from posixpath import commonpath, dirname
from typing import NamedTuple

from auditor.gates.readings import Readings
from auditor.source import facts as f
from auditor.source.names import ClassKey, Function


class Mode(NamedTuple):
    """A way of its own to transfer: what a parameter of the transfer is compared with."""

    parameter: str
    text: str


class Home(NamedTuple):
    """A folder of pools that are transferred in modes which nothing outside of it chooses."""

    folder: str
    modes: frozenset[Mode]


class Demand(NamedTuple):
    """A constant that a field of what a host is made from must have."""

    record: ClassKey
    field: str
    constant: str


class Fitting:
    """What every host asks of a pool, and what the classes of pools answer.

    A host does not fit where it knows none of the modes of the platform that the pool is for, where
    in each of its modes it reads an attribute that the pool's class lacks, or where its constructor
    raises for the constant that the class gives. What the tree does not tell keeps nobody apart.
    """

    def __init__(self, readings: Readings, hosts: frozenset[ClassKey]) -> None:
        self.readings = readings
        self.index = readings.index
        self.hosts = hosts
        self._inside = frozenset(readings.families)
        self._filled_by: dict[ClassKey, list[tuple[ClassKey, dict[str, f.Expr]]]] = {}
        self._needed: dict[tuple[ClassKey, Mode | None], frozenset[str]] = {}

    def fits(self, host: ClassKey, owner: ClassKey | None, reader: ClassKey | None) -> bool:
        """Whether a host can be made for the pool that has a buffer, as far as the classes tell.

        ``owner`` is the class that has the buffer; where it is not known, the class of the object
        through which it is read still tells the platform.
        """
        modes: frozenset[Mode | None] = frozenset(self._modes[host])
        path = (owner or reader or ("", ""))[0]
        homes = [home for home in self._homes if path.startswith(home.folder)]
        if homes and not any(host[0].startswith(home.folder) for home in homes):
            modes &= frozenset().union(*(home.modes for home in homes))
            if not modes:
                return False
        if owner is None:
            return True
        if all(self._lacks(owner, self._needs(host, mode)) for mode in modes or {None}):
            return False
        if self._narrower(host, owner):
            return False
        return all(
            not given or demand.constant in given
            for demand in self._demands[host]
            for given in [self._given(owner, demand)]
        )

    def _transfers(self, host: ClassKey) -> Iterator[Function]:
        for method in self.readings.in_force(host):
            if self.readings.duty(method.facts.name) == "transfer":
                yield method

    # -- modes -----------------------------------------------------------------------------------

    @cached_property
    def _modes(self) -> Mapping[ClassKey, frozenset[Mode]]:
        return {host: self._modes_of(host) for host in self.hosts}

    def _modes_of(self, host: ClassKey) -> frozenset[Mode]:
        return frozenset(
            mode
            for method in self._transfers(host)
            for stmt in f.statements(method.facts.body)
            for top in f.expressions(stmt)
            for node in f.walk(top)
            if (mode := _mode(node)) is not None
            if method.parameter(mode.parameter) is not None
        )

    @cached_property
    def _homes(self) -> list[Home]:
        """The folders that hold all the files which choose a mode, and no host with other modes."""
        found: dict[str, set[Mode]] = {}
        for mode, files in self._choosing.items():
            folder = commonpath([dirname(file) for file in files]) + "/"
            inside = {host for host in self.hosts if host[0].startswith(folder)}
            if all(self._modes[host] <= {mode} for host in inside):
                found.setdefault(folder, set()).add(mode)
        return [Home(folder, frozenset(modes)) for folder, modes in found.items()]

    @cached_property
    def _choosing(self) -> Mapping[Mode, list[str]]:
        """The files that give a mode's text to a name which ends in that of the parameter."""
        found: dict[Mode, list[str]] = {}
        known = frozenset().union(*self._modes.values())
        for parameter in {mode.parameter for mode in known}:
            name = parameter.encode()
            given = re.compile(rb"%s\s*=\s*['\"](\w+)['\"]" % name)
            for path, data in self.readings.sources.items():
                if name in data:
                    chosen = {Mode(parameter, text.decode()) for text in given.findall(data)}
                    for mode in chosen & known:
                        found.setdefault(mode, []).append(path)
        return found

    # -- attributes ------------------------------------------------------------------------------

    def _needs(self, host: ClassKey, mode: Mode | None) -> frozenset[str]:
        """The attributes of a pool without which a host's transfers fail in a mode."""
        known = self._needed.get((host, mode))
        if known is None:
            known = self._needed[host, mode] = self._needs_of(host, mode)
        return known

    def _needs_of(self, host: ClassKey, mode: Mode | None) -> frozenset[str]:
        found: set[str] = set()
        methods = list(self.readings.in_force(host))
        for method in self._transfers(host):
            name = method.facts.name
            if any(name in m.facts.mentions for m in methods if m.facts.name != name):
                continue  # a part of another, which may leave it out
            handed = {p.name for p in method.facts.parameters[1:] if p.annotation is None}
            found |= _read(method.facts.body, handed, mode) or set()
        return frozenset(found & self._attributes)

    @cached_property
    def _attributes(self) -> frozenset[str]:
        """The attributes that pools have."""
        return frozenset(
            name
            for key in self.readings.families
            for name in (*self.index.assigned(key), *self.index.classes[key].methods)
        )

    def _lacks(self, pool: ClassKey, names: frozenset[str]) -> bool:
        """Whether a class has not all of some attributes."""
        has: set[str] = set()
        for key in self._meant(pool):
            for base in self.index.classes[key].mro:
                known = self.index.classes[base]
                has |= self.index.assigned(base).keys() | known.methods.keys()
                for assign in known.facts.assigns:
                    has |= {t.id for t in assign.targets if isinstance(t, f.Name)}
        return not names <= has

    def _meant(self, pool: ClassKey) -> tuple[ClassKey, ...]:
        """The classes of the objects that a class is named for: subclasses of an abstract one."""
        methods = self.readings.in_force(pool)
        if any(
            d.rpartition(".")[2] == "abstractmethod" for m in methods for d in m.facts.decorators
        ):
            return (pool, *self.index.subclasses.get(pool, ()))
        return (pool,)

    def _narrower(self, host: ClassKey, pool: ClassKey) -> bool:
        """Whether a host's constructor declares that it takes pools of a subclass only."""
        below = {key for key in self._declared[host] if pool in self.index.classes[key].mro}
        return bool(below) and below.isdisjoint(self._meant(pool))

    @cached_property
    def _declared(self) -> Mapping[ClassKey, frozenset[ClassKey]]:
        """The classes of pools that a host's constructor declares."""
        return {
            host: frozenset(
                key
                for parameter in made.facts.parameters
                if parameter.annotation is not None
                for key in self.index.annotation_types(made, parameter.annotation) & self._inside
            )
            if (made := self.index.method(host, "__init__")) is not None
            else frozenset()
            for host in self.hosts
        }

    # -- constants -------------------------------------------------------------------------------

    @cached_property
    def _demands(self) -> Mapping[ClassKey, set[Demand]]:
        """What a host's constructor raises without."""
        return {host: self._demands_of(host) for host in self.hosts}

    def _demands_of(self, host: ClassKey) -> set[Demand]:
        made = self.index.method(host, "__init__")
        if made is None:
            return set()
        return {
            Demand(record, field.name, constant)
            for stmt in made.facts.body
            if isinstance(stmt, f.If) and _raises(stmt.body)
            for field, constant in _denied(stmt.test, made)
            for record in self.index.types(made, host, field.value)
        }

    def _given(self, pool: ClassKey, demand: Demand) -> set[str]:
        """The constants that a class's methods give to a field; empty where it may be any."""
        found: set[str] = set()
        for record, keywords in self._filled(pool):
            if record == demand.record:
                found |= _options(keywords.get(demand.field))
        return found if "" not in found else set()

    def _filled(self, pool: ClassKey) -> list[tuple[ClassKey, dict[str, f.Expr]]]:
        """The records that a class's methods fill in by the names of fields."""
        if pool not in self._filled_by:
            self._filled_by[pool] = [
                (record, dict(node.keywords))
                for method in self.readings.in_force(pool)
                for stmt in f.statements(method.facts.body)
                for top in f.expressions(stmt)
                for node in f.walk(top)
                if isinstance(node, f.Call) and node.keywords
                if (record := self.index.class_in(method, f.dotted(node.func))) is not None
            ]
        return self._filled_by[pool]


def _mode(test: f.Expr) -> Mode | None:
    """The mode that a comparison asks for, or rules out."""
    if isinstance(test, f.Group) and test.op in ("==", "!="):
        name, value = test.parts
        if isinstance(name, f.Name) and isinstance(value, f.Const) and value.kind == "str":
            return Mode(name.id, value.text)
    return None


def _holds(test: f.Expr, mode: Mode | None) -> bool | None:
    """Whether a test holds in a mode; None where that does not tell."""
    if isinstance(test, f.Group) and test.op in ("and", "or", "not"):
        answers = [_holds(part, mode) for part in test.parts]
        if test.op == "not":
            return None if answers[0] is None else not answers[0]
        decisive = test.op == "or"
        if decisive in answers:
            return decisive
        return None if None in answers else not decisive
    asked = _mode(test)
    if mode is None or asked is None or asked.parameter != mode.parameter:
        return None
    return (asked == mode) == (isinstance(test, f.Group) and test.op == "==")


def _read(body: tuple[f.Stmt, ...], handed: set[str], mode: Mode | None) -> set[str] | None:
    """The attributes of what is handed that a body reads in a mode; None where it raises.

    Of two branches that both go on, what both read; of a lone one, all that it reads, unless its
    test asks what was handed.
    """
    found: set[str] = set()
    for stmt in body:
        asked = set().union(*(_attributes_of(top, handed) for top in f.expressions(stmt)))
        if isinstance(stmt, f.If):
            holds = _holds(stmt.test, mode)
            first = _read(stmt.body, handed, mode) if holds is not False else None
            other = _read(stmt.orelse, handed, mode) if holds is not True else None
            if first is None and other is None:
                return None
            if first is None or other is None:
                found |= asked | (first or other or set())
            elif stmt.orelse or _names(stmt.test) & handed:
                found |= first & other
            else:
                found |= asked | first
            continue
        found |= asked
        for block in f.blocks(stmt):
            found |= _read(block, handed, mode) or set()
        if isinstance(stmt, f.Exit):
            return None if stmt.kind == "raise" else found
    return found


def _attributes_of(expr: f.Expr, names: set[str]) -> set[str]:
    return {
        node.name
        for node in f.walk(expr)
        if isinstance(node, f.Attr) and isinstance(node.value, f.Name) and node.value.id in names
    }


def _names(expr: f.Expr) -> set[str]:
    return {node.id for node in f.walk(expr) if isinstance(node, f.Name)}


def _raises(body: tuple[f.Stmt, ...]) -> bool:
    last = body[-1] if body else None
    return isinstance(last, f.Exit) and last.kind == "raise"


def _denied(test: f.Expr, place: Function) -> list[tuple[f.Attr, str]]:
    """(field, constant) pairs that must be equal for a test not to hold."""
    if isinstance(test, f.Group) and test.op == "or":
        return [pair for part in test.parts for pair in _denied(part, place)]
    if isinstance(test, f.Group) and test.op == "not":
        return _affirmed(test.parts[0], place)
    return _compared(test, "!=")


def _affirmed(test: f.Expr, place: Function) -> list[tuple[f.Attr, str]]:
    """(field, constant) pairs that must be equal for a test to hold."""
    if isinstance(test, f.Name) and len(place.scope.get(test.id, ())) == 1:
        test = place.scope[test.id][0]
    if isinstance(test, f.Group) and test.op == "and":
        return [pair for part in test.parts for pair in _compared(part, "==")]
    return _compared(test, "==")


def _compared(test: f.Expr, op: str) -> list[tuple[f.Attr, str]]:
    if isinstance(test, f.Group) and test.op == op:
        field, constant = test.parts
        if isinstance(field, f.Attr) and isinstance(constant, f.Attr):
            return [(field, constant.name)]
    return []


def _options(value: f.Expr | None) -> set[str]:
    """The constants that a value may be, each by its last name; "" for anything else."""
    if isinstance(value, f.Choice):
        return _options(value.body) | _options(value.orelse)
    return {value.name if isinstance(value, f.Attr) else ""}
