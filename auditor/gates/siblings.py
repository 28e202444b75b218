"""Judges the methods of families by their siblings: who reads a guarded buffer without the gate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from auditor.gates.brought import Brought
from auditor.gates.callers import Callers, Candidate
from auditor.gates.gaps import Gap, Shape, Sibling
from auditor.gates.kept import kept_views
from auditor.gates.norm import SiblingNorm, inner_name, is_gated_reader, sibling_of
from auditor.gates.optional import Omissions
from auditor.gates.outside import Bypasses, nearest_class
from auditor.gates.readings import Reading, Readings, key_parameters, reads_elements
from auditor.gates.usage import Usage
from auditor.gates.values import Place
from auditor.model import Confidence, Reach, Side
from auditor.source.names import ClassKey, Function

_FEWEST_PEERS = 3
"""Gated getters that a class needs before they speak for a buffer that only one method reads."""
_PEER_SHARE = 0.6
"""The share of a class's comparable getters that must wait for the same. SpotBugs reports a field
from 50 % locked accesses on; a getter's neighbours are weaker evidence than accesses to the same
field, so the bar is higher."""


class Judge:
    """Judges one side by the norm."""

    def __init__(
        self,
        norm: SiblingNorm,
        side: Side,
        readings: Readings,
        mentioned: Callable[[str], bool],
    ) -> None:
        """``mentioned`` tells whether a name occurs in a file that was not extracted."""
        self.norm = norm
        self.side = side
        self.readings = readings
        self.index = readings.index
        self.mentioned = mentioned

    def gaps(self) -> list[Gap]:
        """Every gap of the side, one a method, ordered by place."""
        found: dict[tuple[str, str], Gap] = {}
        groups = (
            self._own(),
            self._omitters(),
            self._bypasses.inner_methods(),
            self._bypasses.raw_reads(),
        )
        for gap in (gap for group in groups for gap in group):
            key = (gap.function.path, gap.function.facts.qualname)
            if key not in found:
                found[key] = gap
        return sorted(found.values(), key=lambda g: (g.function.path, g.line))

    @cached_property
    def _bypasses(self) -> Bypasses:
        return Bypasses(self.norm, self.side, self.readings, self.usage)

    @cached_property
    def usage(self) -> Usage:
        """Who uses what; made for the names of all that may be a gap."""
        names: set[str] = set()
        for reading in self.readings.readings:
            name = reading.function.facts.name
            if name not in names and self._may_be_open(reading):
                symbol = reading.function.facts.qualname
                if self.siblings(reading.context, reading.root, symbol) or reading.waits:
                    names.add(name)
        return Usage(self.readings, self.norm, frozenset(names))

    def _may_be_open(self, reading: Reading) -> bool:
        return not (reading.gated and not reading.optional) and self._duty_bound(reading)

    @cached_property
    def omissions(self) -> Omissions:
        """Calls that leave optional gates out."""
        return Omissions(self.readings, self.usage)

    @cached_property
    def callers(self) -> Callers:
        """Who answers for a read that does not wait."""
        return Callers(self.readings, self.usage, self.candidates, self.mentioned)

    def open_users(self, gap: Gap) -> tuple[Place, ...]:
        """Where the functions that answer for a gap's read in no way come by it."""
        candidate = self.candidates.get((gap.context, gap.function.facts.name))
        if candidate is None:
            return ()
        name = gap.function.facts.name
        places = []
        for user in self.callers.open_users(candidate):
            calls = self.readings.summary(user, user.owner).calls
            line, column = min(
                ((c.line, c.column) for c in calls if c.name == name),
                default=(1, user.facts.column),
            )
            places.append(Place(user.path, user.facts.qualname, user.line_of(line), column))
        return tuple(sorted(set(places), key=lambda p: (p.path, p.line, p.qualname)))

    @cached_property
    def brought(self) -> Brought:
        """What the getters of old buffers say of new ones."""
        return Brought(self.norm, self.side, self.readings, self.usage, self.candidates)

    # -- methods of the families -----------------------------------------------------------------

    def _own(self) -> Iterator[Gap]:
        for candidate in self.candidates.values():
            gap = self._judge(candidate)
            if gap is not None:
                yield gap

    @cached_property
    def candidates(self) -> dict[tuple[ClassKey, str], Candidate]:
        """Methods with at least one read of elements, by a key, that is not behind a gate."""
        found: dict[tuple[ClassKey, str], Candidate] = {}
        for reading in self.readings.readings:
            name = reading.function.facts.name
            if not self._may_be_open(reading):
                continue
            if reading.gated and not self.omissions.of(reading):
                continue
            key = (reading.context, name)
            candidate = found.setdefault(key, Candidate(reading.function, reading.context))
            candidate.readings.append(reading)
        return {
            key: candidate
            for key, candidate in found.items()
            if not self.readings.refuses(candidate.context)
            and not self.readings.holds_nothing(candidate.context)
        }

    def _duty_bound(self, reading: Reading) -> bool:
        return (
            reads_elements(reading.read)
            and self._by_the_index(reading)
            and not self.readings.duty(reading.function.facts.name)
            and not self.readings.no_buffer(reading.context, reading.read.path)
        )

    def _kept(self, context: ClassKey) -> Mapping[str, frozenset[str]]:
        known = self._kept_in.get(context)
        if known is None:
            known = self._kept_in[context] = kept_views(self.readings, context)
        return known

    @cached_property
    def _kept_in(self) -> dict[ClassKey, Mapping[str, frozenset[str]]]:
        return {}

    def _by_the_index(self, reading: Reading) -> bool:
        """Whether the element is chosen by what a gate of the family is waited on for.

        Parameters play the same part under the same name in one family; a method that has none of
        those names may choose by any.
        """
        keys = key_parameters(reading.read)
        names = self._index_names(reading.context)
        own = names & {p.name for p in reading.function.facts.parameters}
        return bool(keys & own) if own else bool(keys)

    def _index_names(self, context: ClassKey) -> frozenset[str]:
        known = self._index_names_of.get(context)
        if known is None:
            found: set[str] = set()
            for method in self.readings.index.methods(context):
                for wait in self.readings.summary(method, context).waits:
                    if wait.kind == "keyed" and self.readings.is_gate(wait.token):
                        found |= wait.keys
            known = self._index_names_of[context] = frozenset(found)
        return known

    @cached_property
    def _index_names_of(self) -> dict[ClassKey, frozenset[str]]:
        return {}

    def siblings(self, context: ClassKey, root: str, but: str) -> tuple[Sibling, ...]:
        """Gated readers of an attribute on a class or its bases, other than a method itself.

        The same method counts where another side's version of it waits.
        """
        found: dict[Sibling, None] = {}
        for key in self.index.classes[context].mro:
            for sibling in self.norm.readers(key, root, self.side):
                if sibling.symbol != but or sibling.side != self.side:
                    found[sibling] = None
        return tuple(found)

    def _readers(self, context: ClassKey, root: str, but: str) -> tuple[Sibling, ...]:
        """Siblings, those of what an attribute keeps elements of where it has none itself."""
        found = self.siblings(context, root, but)
        kept = () if found else sorted(self._kept(context).get(root, ()))
        return found or tuple(s for name in kept for s in self.siblings(context, name, but))

    def _judge(self, candidate: Candidate) -> Gap | None:
        function, context = candidate.function, candidate.context
        qualname = function.facts.qualname
        by_root: dict[str, tuple[Sibling, ...]] = {}
        for reading in candidate.readings:
            siblings = self._readers(context, reading.root, qualname)
            own = reading.partial or reading.late
            if siblings or own:
                by_root[reading.root] = siblings
        weak = ""
        if not by_root:
            brought = self.brought.siblings(candidate)
            peers = brought or self._peers(candidate)
            weak = "brought" if brought else "peers" if peers else "role"
            peers = peers or self._role(candidate)
            if not peers:
                return None
            by_root = {candidate.readings[0].root: peers}
        if self.callers.answered_for(candidate):
            return None
        chosen = [r for r in candidate.readings if r.root in by_root]
        first = min(chosen, key=_in_order)
        siblings = tuple(dict.fromkeys(s for found in by_root.values() for s in found))
        unguarded = self._unguarded(context, first.root)
        shape = self._shape(candidate, chosen, siblings)
        believed = self._confidence(chosen, siblings, unguarded, weak)
        reads = [r.read for r in chosen]
        # Of what a kernel of unknown body is handed with the place to store at nobody knows.
        target = all(r.handed and self._bypasses.targets.may_be(function, r) for r in reads)
        return Gap(
            shape,
            function,
            context,
            tuple(sorted(by_root)),
            function.line_of(first.read.line),
            first.read.column,
            siblings,
            unguarded,
            "low" if target else self._tempered(chosen, believed),
            *self._reach(shape, chosen, siblings),
            self._cause(function, first, chosen),
            siblings[0].gate if siblings else first.gate or _any_gate(chosen),
            waits=self._own_waits(candidate, shape, first.read.line),
            disarmed=self.readings.disarming(context, first.root) if shape == "delegate" else None,
            here=first.read.origin.qualname == qualname,
            vain=any(r.vain for r in chosen),
        )

    def _reach(
        self, shape: Shape, chosen: Sequence[Reading], siblings: Sequence[Sibling]
    ) -> tuple[Reach, str]:
        """Waits that all came with a newer release may have come with what they wait for."""
        if shape in ("ungated", "delegate") and all(s.side == "target" for s in siblings):
            if siblings and self.side != "target":
                return "latent", "only the target waits here: it may have begun to load this buffer"
        return self.usage.reach([r.read for r in chosen], chosen[0].context)

    def _own_waits(self, candidate: Candidate, shape: Shape, read: int) -> tuple[int, ...]:
        """The lines on which the method waits for an index, by itself or through what it calls."""
        if shape not in ("partial", "late"):
            return ()
        summary = self.readings.summary(candidate.function, candidate.context)
        lines = {
            wait.line
            for wait in summary.waits
            if wait.kind == "keyed" and self.readings.is_gate(wait.token)
        }
        after = sorted(line for line in lines if shape == "partial" or line > read)
        return tuple(map(candidate.function.line_of, after))

    def _shape(
        self, candidate: Candidate, chosen: Sequence[Reading], siblings: Sequence[Sibling]
    ) -> Shape:
        if any(self.omissions.of(r) for r in chosen):
            return "optional"
        if any(r.partial for r in chosen) or self._elsewhere_gated(candidate, chosen):
            return "partial"
        if any(r.late for r in chosen):
            return "late"
        if self._overrides_gated(candidate):
            return "override"
        if siblings and all(_same_method(s, candidate, self.side) for s in siblings):
            # Only what upstream's version did can have been removed, not what a newer one does.
            if any(s.side in ("upstream", "base") for s in siblings):
                return "removed"
        if all(r.delegated for r in chosen):
            return "delegate"
        return "ungated"

    def _elsewhere_gated(self, candidate: Candidate, chosen: Sequence[Reading]) -> bool:
        """Whether the method reads the same buffer behind the gate on another path."""
        roots = {r.root for r in chosen}
        taken = {r.read.origin for r in chosen}
        return any(
            r.gated
            and r.waits
            and r.root in roots
            and r.read.origin not in taken
            and reads_elements(r.read)
            for r in self.readings.of_method(candidate.context, candidate.function)
        )

    def _overrides_gated(self, candidate: Candidate) -> bool:
        name = candidate.function.facts.name
        for key in self.index.classes[candidate.context].mro[1:]:
            if name in self.index.classes[key].methods:
                return any(s.name == name for s in self.norm.symbols.get((key[1], name), ()))
        return False

    def _peers(self, candidate: Candidate) -> tuple[Sibling, ...]:
        """Gated getters of the class that speak for a buffer which no sibling shares."""
        name = candidate.function.facts.name
        verb = self.readings.words.verb(name)
        keys = set().union(*(key_parameters(r.read) for r in candidate.readings))
        gated: dict[str, Sibling] = {}
        open_: set[str] = set()
        for method in self.readings.in_force(candidate.context):
            other = method.facts.name
            if self.readings.words.verb(other) != verb or self.readings.duty(other):
                continue
            for reading in self.readings.of_method(candidate.context, method):
                if not reads_elements(reading.read) or not key_parameters(reading.read) & keys:
                    continue
                if reading.gated:
                    gated.setdefault(other, sibling_of(self.side, self.readings, reading))
                elif not other.startswith("_") and not self._answered(candidate.context, other):
                    open_.add(other)
        open_ -= gated.keys()
        share = len(gated) / (len(gated) + len(open_ | {name}))
        if len(gated) < _FEWEST_PEERS or share < _PEER_SHARE:
            return ()
        return tuple(gated[other] for other in sorted(gated))

    def _answered(self, context: ClassKey, name: str) -> bool:
        """Whether all that use an open reader of a class wait: it is no other habit."""
        open_reader = self.candidates.get((context, name))
        return open_reader is not None and self.callers.answered_for(open_reader)

    def _role(self, candidate: Candidate) -> tuple[Sibling, ...]:
        """The same method of other classes in the same role (under a common base) that waits."""
        name = candidate.function.facts.name
        mro = self.index.classes[candidate.context].mro
        common = [base for base in mro[1:] if name in self.index.classes[base].methods]
        cousins = {k for base in common for k in self.index.subclasses.get(base, ())} - {mro[0]}
        waiting: dict[ClassKey, Sibling] = {}
        others = 0
        for key in sorted(cousins):
            method = self.index.classes[key].methods.get(name)
            if method is None:
                continue
            reads = [r for r in self.readings.of_method(key, method) if self._reads(r)]
            gated = [r for r in reads if is_gated_reader(self.readings, r)]
            if gated:
                waiting[key] = sibling_of(self.side, self.readings, gated[0])
            elif reads:
                others += 1
        share = len(waiting) / (len(waiting) + others + 1)
        if len(waiting) < _FEWEST_PEERS or share < _PEER_SHARE:
            return ()
        return tuple(waiting.values())

    def _reads(self, reading: Reading) -> bool:
        return reads_elements(reading.read) and bool(key_parameters(reading.read))

    def _omitters(self) -> Iterator[Gap]:
        """The call sites of optional gates that are not handed over."""
        for candidate in self.candidates.values():
            sites = [s for r in candidate.readings for s in self.omissions.of(r)]
            gap = self._judge(candidate) if sites else None
            if gap is None or gap.shape != "optional":
                continue
            for user, call in sites:
                yield replace(
                    gap,
                    function=user,
                    line=user.line_of(call.line),
                    column=call.column,
                    callers=(self._place(candidate),),
                )

    def _place(self, candidate: Candidate) -> Place:
        facts = candidate.function.facts
        return Place(candidate.function.path, facts.qualname, facts.line, facts.column)

    # -- belief ----------------------------------------------------------------------------------

    def _unguarded(self, context: ClassKey, root: str) -> int:
        return len(
            {
                c.function.facts.qualname
                for c in self.candidates.values()
                if any(r.root == root for r in c.readings)
                and c.context in self.index.classes[context].mro
            }
        )

    def _confidence(
        self, chosen: Sequence[Reading], siblings: Sequence[Sibling], unguarded: int, weak: str
    ) -> Confidence:
        if weak == "brought":
            return "medium"
        if weak:
            return "medium" if weak == "peers" and self.usage.transferred(chosen) else "low"
        sure = any(r.partial or r.late for r in chosen)
        sure = sure or len({s.symbol for s in siblings}) >= max(2, unguarded)
        if all(r.read.ordered for r in chosen) and not any(self.omissions.of(r) for r in chosen):
            # It waits for something else, which may be the ordering that is meant.
            return "medium" if sure else "low"
        return "high" if sure else "medium"

    def _tempered(self, chosen: Sequence[Reading], believed: Confidence) -> Confidence:
        """What the inner object says of a delegate's read.

        Where the inner class waits before the same read, its void gate is what the wrapper must
        make up for. Where it waits before others only, it does not ask for it here. Where it never
        waits, only siblings that read the same inner buffer speak for sure.
        """
        kept = self._kept(chosen[0].context)
        if not all(r.delegated and r.root not in kept for r in chosen):
            return believed
        verdicts = [self._inner_verdict(r) for r in chosen]
        if "gated" in verdicts:
            return believed
        if all(v == "open" for v in verdicts):
            return "low"
        if any(self._shares_inner(r) for r in chosen):
            return believed
        return _step_down(believed)

    def _inner_verdict(self, reading: Reading) -> str:
        """``gated``, ``open`` (its class waits elsewhere) or empty where its class never waits."""
        origin = reading.read.origin
        owner = (origin.path, origin.qualname.rpartition(".")[0])
        if owner == reading.context or owner not in self.index.classes:
            return ""
        if origin.qualname in self._gated_symbols:
            return "gated"
        return "open" if owner[1] in self.norm.by_class else ""

    @cached_property
    def _gated_symbols(self) -> frozenset[str]:
        """Methods that wait in their own class, and those reached from such methods only."""
        found = {s.symbol for siblings in self.norm.by_class.values() for s in siblings}
        for reading in self.readings.readings:
            if reading.gated and not reading.optional and reads_elements(reading.read):
                found.add(reading.read.origin.qualname)
        return frozenset(found)

    def _shares_inner(self, reading: Reading) -> bool:
        name = inner_name(reading.read.path)
        for key in self.index.classes[reading.context].mro:
            for sibling in self.norm.readers(key, reading.root, self.side):
                if sibling.inner == name and sibling.symbol != reading.function.facts.qualname:
                    return True
        return False

    def _cause(self, function: Function, first: Reading, chosen: Sequence[Reading]) -> str:
        """The class that takes the element, and the attribute: what findings of one root share.

        Where one call may take it in several classes, the nearest stands for all of them.
        """
        place = (first.root, first.read.line, first.read.column)
        taken = {
            (r.read.origin.path, r.read.origin.qualname.rpartition(".")[0])
            for r in chosen
            if (r.root, r.read.line, r.read.column) == place
        } & self.index.classes.keys()
        if not taken:
            return f"{first.read.origin.qualname}.{first.root}"
        return f"{nearest_class(self.index, function.path, taken)[1]}.{first.root}"


def _in_order(reading: Reading) -> tuple[int, int, int, int]:
    """Of what one call reads, what its callee takes first: names say nothing of the order."""
    read = reading.read
    return read.line, read.column, read.origin.line, read.origin.column


def _same_method(sibling: Sibling, candidate: Candidate, side: Side) -> bool:
    return sibling.symbol == candidate.function.facts.qualname and sibling.side != side


def _step_down(confidence: Confidence) -> Confidence:
    return "medium" if confidence == "high" else "low"


def _any_gate(readings: Iterable[Reading]) -> str:
    for reading in readings:
        for token in sorted(reading.read.may):
            return ".".join(token)
    return "its gate"
