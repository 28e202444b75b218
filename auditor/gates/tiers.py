"""What loads between the tiers move: which buffers, of pools of which classes."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from auditor.gates.fitting import Fitting
from auditor.gates.handover import Field, Handover
from auditor.gates.readings import Readings
from auditor.gates.values import SELF
from auditor.source.names import ClassKey, Function


class Buffer(NamedTuple):
    """An attribute that holds a buffer, and the class of the pool that has it, if it is known."""

    name: str
    owner: ClassKey | None


class Tiers:
    """The transfers of one side, and the hosts that make them.

    A *host* is an object with transfer methods that is no pool of the families: it copies what is
    in the host's memory into the buffers of a pool. It names them, is handed them when it is made,
    or finds them in a record that the pool fills in. Not every host fits every pool.
    """

    def __init__(self, readings: Readings) -> None:
        self.readings = readings
        self.index = readings.index
        self._inside = frozenset(readings.families)
        self._moved: dict[tuple[ClassKey | None, ClassKey | None], frozenset[str]] = {}

    def moves(self, buffer: Buffer, reader: ClassKey | None) -> bool:
        """Whether some load moves a buffer that a method of the class ``reader`` reads."""
        return buffer.name in self.moved(reader, buffer.owner)

    def moved(
        self, reader: ClassKey | None = None, owner: ClassKey | None = None
    ) -> frozenset[str]:
        """The attributes that loads move of a pool; without classes, of any."""
        known = self._moved.get((reader, owner))
        if known is None:
            hosts = {host for host in self._hosts if self._fitting.fits(host, owner, reader)}
            known = self._moved[reader, owner] = self._moved_by(hosts, owner)
        return known

    def _moved_by(self, hosts: set[ClassKey], owner: ClassKey | None) -> frozenset[str]:
        unfit = self._hosts - hosts
        mentions = [t.facts.mentions for t in self.transfers if t.owner not in unfit]
        found = set().union(*mentions, *(self._named_to_make[host] for host in hosts))
        read = set().union(*(self._fields_read[host] for host in hosts))
        found |= self._handover.taken(read, owner)
        if owner is not None:
            found |= self._handover.sharing(owner, found)
        return frozenset(found)

    @cached_property
    def _handover(self) -> Handover:
        return Handover(self.readings)

    @cached_property
    def _fitting(self) -> Fitting:
        return Fitting(self.readings, self._hosts)

    @cached_property
    def transfers(self) -> tuple[Function, ...]:
        """The methods that move data between the tiers.

        A family's own counts where it copies from an object that it is handed, by the name of an
        attribute of that object: what else it calls a load is a copy of its own for later.
        """
        return tuple(
            function
            for function in self.index.every_function()
            if function.owner is not None
            if self.readings.duty(function.facts.name) == "transfer"
            if function.owner not in self._inside or self._copies_from_another(function)
        )

    def _copies_from_another(self, function: Function) -> bool:
        reads = self.readings.summary(function, function.owner).reads
        own = {step for r in reads if r.path[0] == SELF[0] for step in r.path[1:2]}
        theirs = {step for r in reads if r.path[0].startswith("param:") for step in r.path[1:2]}
        return bool(own & theirs)

    @cached_property
    def _hosts(self) -> frozenset[ClassKey]:
        """Classes with a transfer method of the same name as one that names what is guarded."""
        protected = self.readings.scouted.protected
        names = {t.facts.name for t in self.transfers if protected & set(t.facts.mentions)}
        classes = self.index.classes.items()
        hosts = {key for key, known in classes if not names.isdisjoint(known.methods)}
        hosts |= {key for host in hosts for key in self.index.subclasses.get(host, ())}
        return frozenset(hosts - self._inside)

    @cached_property
    def _named_to_make(self) -> dict[ClassKey, frozenset[str]]:
        """The names in the functions that make a host, and in what those call in their file.

        A host that is handed its device buffers does not name them.
        """
        return {
            host: frozenset().union(*(made.facts.mentions for made in self._assembly(host)))
            for host in self._hosts
        }

    def _assembly(self, host: ClassKey) -> list[Function]:
        pending = list(self.index.mentioning(host[1]))
        own = self.index.classes[host].methods.get("__init__")
        if own is not None:
            pending.append(own)
        found: dict[tuple[object, ...], Function] = {}
        while pending:
            function = pending.pop()
            if function.key in found:
                continue
            found[function.key] = function
            for name in function.facts.mentions:
                called = self.index.functions.get((function.path, name))
                if called is not None:
                    pending.append(called)
        return list(found.values())

    @cached_property
    def _fields_read(self) -> dict[ClassKey, frozenset[Field]]:
        """The fields of records that the methods of a host read, whichever class defines them."""
        fields: dict[tuple[object, ...], frozenset[Field]] = {}
        found: dict[ClassKey, frozenset[Field]] = {}
        for host in self._hosts:
            methods = list(self.readings.in_force(host))
            for method in methods:
                if method.key not in fields:
                    fields[method.key] = frozenset(self._handover.fields_read(method))
            found[host] = frozenset().union(*(fields[method.key] for method in methods))
        return found
