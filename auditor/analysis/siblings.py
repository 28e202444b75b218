"""The sibling norm: which buffers are read behind a gate, and who reads them without.

Learned over all sides together, judged on each: a gate that only a newer release holds is found,
and an untouched reader never looks new because the fork gated its neighbour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from auditor.analysis.gaps import Gap, Shape, Sibling
from auditor.analysis.readings import Reading, Readings, key_parameters, reads_elements
from auditor.analysis.values import ELEMENT, RESULT, SELF, CallSite, Keys, Path, Place, Read
from auditor.model import Confidence, Reach, Side
from auditor.rulebook import words
from auditor.source.index import ClassKey, Function, is_property

_FEWEST_PEERS = 3
"""Gated getters that a class needs before they speak for a buffer that only one method reads."""
_PEER_SHARE = 0.6
"""The share of a class's comparable getters that must wait for the same. SpotBugs reports a field
from 50 % locked accesses on; a getter's neighbours are weaker evidence than accesses to the same
field, so the bar is higher."""


@dataclass(frozen=True)
class SiblingNorm:
    """Gated readers by (class name, attribute), and by class name, over all sides."""

    by_buffer: Mapping[tuple[str, str], tuple[Sibling, ...]]
    by_class: Mapping[str, tuple[Sibling, ...]]
    symbols: Mapping[tuple[str, str], tuple[Sibling, ...]]


def learn(sides: Sequence[tuple[Side, Readings]]) -> SiblingNorm:
    """What siblings do, over all sides."""
    by_buffer: dict[tuple[str, str], dict[Sibling, None]] = {}
    by_class: dict[str, dict[Sibling, None]] = {}
    symbols: dict[tuple[str, str], dict[Sibling, None]] = {}
    for side, readings in sides:
        for reading in readings.readings:
            if not _is_gated_reader(readings, reading):
                continue
            sibling = _sibling(side, reading)
            name = reading.context[1]
            by_buffer.setdefault((name, reading.root), {})[sibling] = None
            by_class.setdefault(name, {})[sibling] = None
            symbols.setdefault((name, reading.function.facts.name), {})[sibling] = None
    return SiblingNorm(
        {key: tuple(sorted(found)) for key, found in by_buffer.items()},
        {key: tuple(sorted(found)) for key, found in by_class.items()},
        {key: tuple(sorted(found)) for key, found in symbols.items()},
    )


def _is_gated_reader(readings: Readings, reading: Reading) -> bool:
    return (
        reading.gated
        and reading.gate != "*"
        and not reading.optional
        and reads_elements(reading.read)
        and not readings.duty(reading.function.facts.name)
        and not readings.no_buffer(reading.context, reading.read.path)
    )


def _sibling(side: Side, reading: Reading) -> Sibling:
    facts = reading.function.facts
    return Sibling(
        side,
        reading.function.path,
        facts.qualname,
        facts.line,
        reading.root,
        reading.gate,
        facts.name,
        _inner_name(reading.read.path),
    )


@dataclass
class _Candidate:
    function: Function
    context: ClassKey
    readings: list[Reading] = field(default_factory=list)


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
        groups = (self._own(), self._omitters(), self._inner_bypasses(), self._outside())
        for gap in (gap for group in groups for gap in group):
            key = (gap.function.path, gap.function.facts.qualname)
            if key not in found:
                found[key] = gap
        return sorted(found.values(), key=lambda g: (g.function.path, g.line))

    # -- methods of the families -----------------------------------------------------------------

    def _own(self) -> Iterator[Gap]:
        for candidate in self._candidates.values():
            gap = self._judge(candidate)
            if gap is not None:
                yield gap

    @cached_property
    def _candidates(self) -> dict[tuple[ClassKey, str], _Candidate]:
        """Methods with at least one read of elements, by a key, that is not behind a gate."""
        found: dict[tuple[ClassKey, str], _Candidate] = {}
        for reading in self.readings.readings:
            name = reading.function.facts.name
            if reading.gated and not (reading.optional and self._omitting(reading)):
                continue
            if not self._duty_bound(reading):
                continue
            key = (reading.context, name)
            candidate = found.setdefault(key, _Candidate(reading.function, reading.context))
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
            for sibling in self.norm.by_buffer.get((key[1], root), ()):
                if sibling.symbol != but or sibling.side != self.side:
                    found[sibling] = None
        return tuple(found)

    def _judge(self, candidate: _Candidate) -> Gap | None:
        function, context = candidate.function, candidate.context
        qualname = function.facts.qualname
        if self._answered_for(candidate):
            return None
        by_root: dict[str, tuple[Sibling, ...]] = {}
        for reading in candidate.readings:
            siblings = self.siblings(context, reading.root, qualname)
            own = reading.partial or reading.late
            if siblings or own:
                by_root[reading.root] = siblings
        weak = ""
        if not by_root:
            peers = self._peers(candidate)
            weak = "peers" if peers else "role"
            peers = peers or self._role(candidate)
            if not peers:
                return None
            by_root = {candidate.readings[0].root: peers}
        chosen = [r for r in candidate.readings if r.root in by_root]
        first = min(chosen, key=lambda r: (r.read.line, r.read.column))
        siblings = tuple(dict.fromkeys(s for found in by_root.values() for s in found))
        unguarded = self._unguarded(context, first.root)
        return Gap(
            self._shape(candidate, chosen, siblings),
            function,
            context,
            tuple(sorted(by_root)),
            first.read.line,
            first.read.column,
            siblings,
            unguarded,
            self._tempered(chosen, self._confidence(chosen, siblings, unguarded, weak)),
            *self._reach(context, chosen),
            self._cause(first),
            siblings[0].gate if siblings else first.gate or _any_gate(chosen),
        )

    def _shape(
        self, candidate: _Candidate, chosen: Sequence[Reading], siblings: Sequence[Sibling]
    ) -> Shape:
        if any(self._omitting(r) for r in chosen):
            return "optional"
        if any(r.partial for r in chosen) or self._elsewhere_gated(candidate, chosen):
            return "partial"
        if any(r.late for r in chosen):
            return "late"
        if self._overrides_gated(candidate):
            return "override"
        if siblings and all(_same_method(s, candidate, self.side) for s in siblings):
            return "removed"
        if all(r.delegated for r in chosen):
            return "delegate"
        return "ungated"

    def _elsewhere_gated(self, candidate: _Candidate, chosen: Sequence[Reading]) -> bool:
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

    def _overrides_gated(self, candidate: _Candidate) -> bool:
        name = candidate.function.facts.name
        for key in self.index.classes[candidate.context].mro[1:]:
            if name in self.index.classes[key].methods:
                return any(s.name == name for s in self.norm.symbols.get((key[1], name), ()))
        return False

    def _peers(self, candidate: _Candidate) -> tuple[Sibling, ...]:
        """Gated getters of the class that speak for a buffer which no sibling shares."""
        name = candidate.function.facts.name
        verb = self.readings.words.verb(name)
        keys = set().union(*(key_parameters(r.read) for r in candidate.readings))
        gated: dict[str, Sibling] = {}
        open_: set[str] = set()
        for method in self._in_force(candidate.context):
            other = method.facts.name
            if self.readings.words.verb(other) != verb or self.readings.duty(other):
                continue
            for reading in self.readings.of_method(candidate.context, method):
                if not reads_elements(reading.read) or not key_parameters(reading.read) & keys:
                    continue
                if reading.gated:
                    gated.setdefault(other, _sibling(self.side, reading))
                elif not other.startswith("_"):
                    open_.add(other)
        open_ -= gated.keys()
        share = len(gated) / (len(gated) + len(open_ | {name}))
        if len(gated) < _FEWEST_PEERS or share < _PEER_SHARE:
            return ()
        return tuple(gated[other] for other in sorted(gated))

    def _role(self, candidate: _Candidate) -> tuple[Sibling, ...]:
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
            gated = [r for r in reads if _is_gated_reader(self.readings, r)]
            if gated:
                waiting[key] = _sibling(self.side, gated[0])
            elif reads:
                others += 1
        share = len(waiting) / (len(waiting) + others + 1)
        if len(waiting) < _FEWEST_PEERS or share < _PEER_SHARE:
            return ()
        return tuple(waiting.values())

    def _reads(self, reading: Reading) -> bool:
        return reads_elements(reading.read) and bool(key_parameters(reading.read))

    def _in_force(self, context: ClassKey) -> Iterator[Function]:
        seen: set[str] = set()
        for method in self.readings.index.methods(context):
            if method.facts.name not in seen:
                seen.add(method.facts.name)
                yield method

    # -- optional gates --------------------------------------------------------------------------

    def _omitting(self, reading: Reading) -> list[tuple[Function, CallSite]]:
        """Calls of a method that do not hand over the gate which it would wait on."""
        summary = self.readings.summary(reading.function, reading.context)
        roots = {w.token[0] for w in summary.waits if w.token[0].startswith("param:")}
        gates = {g.removeprefix("param:") for g in roots if self.readings.is_gate((g,))}
        gates |= {
            token[0][1:]
            for token, _ in reading.read.held
            if token[0].startswith("?") and self.readings.is_gate(token)
        }
        if not gates:
            return []
        return self._omitted(reading.function, reading.context, frozenset(gates))

    def _omitted(
        self, method: Function, context: ClassKey, gates: frozenset[str]
    ) -> list[tuple[Function, CallSite]]:
        key = (context, method.facts.name)
        if key not in self._omissions:
            found: list[tuple[Function, CallSite]] = []
            for user, owner in self._functions():
                if method.facts.name not in user.facts.mentions:
                    continue
                if self.readings.duty(user.facts.name):
                    continue
                for call in self.readings.summary(user, owner).calls:
                    if call.name != method.facts.name or _hands_over(call, method, gates):
                        continue
                    if call.types and not call.types & {context, *self.index.classes[context].mro}:
                        continue
                    if not any(self.readings.is_gate(t) for t, _ in call.held):
                        found.append((user, call))
            self._omissions[key] = found
        return self._omissions[key]

    @cached_property
    def _omissions(self) -> dict[tuple[ClassKey, str], list[tuple[Function, CallSite]]]:
        return {}

    def _omitters(self) -> Iterator[Gap]:
        """The call sites of optional gates that are not handed over."""
        for candidate in self._candidates.values():
            sites = [s for r in candidate.readings for s in self._omitting(r)]
            gap = self._judge(candidate) if sites else None
            if gap is None or gap.shape != "optional":
                continue
            for user, call in sites:
                yield replace(
                    gap,
                    function=user,
                    line=call.line,
                    column=call.column,
                    callers=(self._place(candidate),),
                )

    def _place(self, candidate: _Candidate) -> Place:
        facts = candidate.function.facts
        return Place(candidate.function.path, facts.qualname, facts.line, facts.column)

    # -- silence ---------------------------------------------------------------------------------

    def _answered_for(self, candidate: _Candidate) -> bool:
        """Whether every way to the method that the tree shows waits first or only stores.

        A private method that nothing names is dead code. A public one may have callers elsewhere:
        it counts as answered for only where each mention of it in the tree is understood.
        """
        qualname = candidate.function.facts.qualname
        if qualname in self._asking:
            return True
        self._asking.add(qualname)
        try:
            return self._asked(candidate)
        finally:
            self._asking.discard(qualname)

    @cached_property
    def _asking(self) -> set[str]:
        return set()

    def _asked(self, candidate: _Candidate) -> bool:
        name = candidate.function.facts.name
        private = name.startswith("_") and not name.startswith("__")
        users = self._users.get(name, ())
        if not users:
            return private and not self.mentioned(name)
        here = (candidate.function.path, candidate.function.facts.qualname)
        reads: dict[tuple[str, str], list[tuple[ClassKey | None, Read]]] = {}
        for context, user, read in self._by_origin.get(here, ()):
            reads.setdefault((user.path, user.facts.qualname), []).append((context, read))
        used = False
        for user in users:
            if (user.path, user.facts.qualname) == here:
                continue
            found = reads.get((user.path, user.facts.qualname))
            if found is None:
                calls = self._calls_of(user, candidate)
                if calls is None or private or user.facts.name.startswith("_"):
                    continue  # metadata, or another class's method of that name
                if not self.readings.duty(user.facts.name) and not self._all_held(calls):
                    return False
                used = True
                continue
            used = True
            if not self.readings.duty(user.facts.name) and not self._covered(user, found):
                return False
        return private or (used and not self.mentioned(name))

    def _calls_of(self, user: Function, candidate: _Candidate) -> list[CallSite] | None:
        """The calls in a function that may mean a candidate's method; None if all mean another."""
        name = candidate.function.facts.name
        named = [c for c in self.readings.summary(user, user.owner).calls if c.name == name]
        own = {candidate.context, *self.index.subclasses.get(candidate.context, ())}
        meant = own | set(self.index.classes[candidate.context].mro)
        calls = [
            call
            for call in named
            if (not call.types or call.types & meant)
            and (call.receivers != {SELF} or user.owner in own)
        ]
        return None if named and not calls else calls

    def _all_held(self, calls: Sequence[CallSite]) -> bool:
        return bool(calls) and all(
            any(self.readings.is_gate(t) for t, _ in call.held) for call in calls
        )

    def _covered(self, user: Function, found: list[tuple[ClassKey | None, Read]]) -> bool:
        """Whether a user's reads are behind a gate, stores, or the matter of its own callers."""
        for context, read in found:
            if read.use == "store" or self.readings.gate_held(read, context) is not None:
                continue
            if read.path[0] == "self" and context is not None:
                if self.readings.no_buffer(context, read.path):
                    continue
            inner = self._candidates.get((context, user.facts.name)) if context else None
            if inner is None or not self._answered_for(inner):
                return False
        return True

    @cached_property
    def _users(self) -> dict[str, tuple[Function, ...]]:
        """Method name → the functions that name it on some object."""
        wanted = {name for _, name in self._candidates}
        found: dict[str, list[Function]] = {}
        for function, _ in self._functions():
            for name in wanted & set(function.facts.mentions):
                found.setdefault(name, []).append(function)
        return {name: tuple(users) for name, users in found.items()}

    @cached_property
    def _by_origin(self) -> dict[tuple[str, str], list[tuple[ClassKey | None, Function, Read]]]:
        """Where an element is taken → the other functions that come by it, and how they use it."""
        found: dict[tuple[str, str], list[tuple[ClassKey | None, Function, Read]]] = {}
        for context in self.readings.families:
            for method in self._in_force(context):
                for read in self.readings.summary(method, context).reads:
                    origin = (read.origin.path, read.origin.qualname)
                    if origin != (method.path, method.facts.qualname):
                        found.setdefault(origin, []).append((context, method, read))
        for function, read in self._outside_reads:
            origin = (read.origin.path, read.origin.qualname)
            found.setdefault(origin, []).append((function.owner, function, read))
            for step in read.path:
                # Reached through an object of unknown class: any method of the name may be meant.
                for key in self.readings.evaluator.votes.get(step.removesuffix(RESULT), ()):
                    meant = self.index.method(key, step.removesuffix(RESULT))
                    if meant is not None:
                        origin = (meant.path, meant.facts.qualname)
                        own = replace(read, held=_without_vote(read, step))
                        found.setdefault(origin, []).append((function.owner, function, own))
        return found

    # -- belief ----------------------------------------------------------------------------------

    def _unguarded(self, context: ClassKey, root: str) -> int:
        return len(
            {
                c.function.facts.qualname
                for c in self._candidates.values()
                if any(r.root == root for r in c.readings)
                and c.context in self.index.classes[context].mro
            }
        )

    def _confidence(
        self, chosen: Sequence[Reading], siblings: Sequence[Sibling], unguarded: int, weak: str
    ) -> Confidence:
        if weak:
            return "medium" if weak == "peers" and self._transferred(chosen) else "low"
        sure = any(r.partial or r.late for r in chosen)
        sure = sure or len({s.symbol for s in siblings}) >= max(2, unguarded)
        if all(r.read.ordered for r in chosen) and not any(self._omitting(r) for r in chosen):
            # It waits for something else, which may be the ordering that is meant.
            return "medium" if sure else "low"
        return "high" if sure else "medium"

    def _tempered(self, chosen: Sequence[Reading], believed: Confidence) -> Confidence:
        """What the inner object says of a delegate's read.

        Where the inner class waits before the same read, its void gate is what the wrapper must
        make up for. Where it waits before others only, it does not ask for it here. Where it never
        waits, only siblings that read the same inner buffer speak for sure.
        """
        if not all(r.delegated for r in chosen):
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
        name = _inner_name(reading.read.path)
        for key in self.index.classes[reading.context].mro:
            for sibling in self.norm.by_buffer.get((key[1], reading.root), ()):
                if sibling.inner == name and sibling.symbol != reading.function.facts.qualname:
                    return True
        return False

    def _transferred(self, chosen: Sequence[Reading]) -> bool:
        return any(set(r.read.path[1:]) & self._moved for r in chosen)

    @cached_property
    def _moved(self) -> frozenset[str]:
        """Attribute names that a transfer between the tiers touches."""
        found: set[str] = set()
        for key, known in self.index.classes.items():
            for method in known.methods.values():
                if key in self.readings.families:
                    continue
                if self.readings.duty(method.facts.name) == "transfer":
                    found |= set(method.facts.mentions)
        return frozenset(found)

    def _reach(self, context: ClassKey, chosen: Sequence[Reading]) -> tuple[Reach, str]:
        if not self._armed:
            return "latent", "nothing in this tree puts a gate in place"
        if self._transferred(chosen):
            names = sorted(set().union(*(set(r.read.path[1:]) for r in chosen)) & self._moved)
            return "live", f"a transfer between the tiers moves {', '.join(names)}"
        return "latent", "no transfer between the tiers that moves this buffer was found"

    @cached_property
    def _armed(self) -> bool:
        names = self.readings.arming
        if not names:
            return True
        for path, module in self.index.modules.items():
            for facts in module.functions:
                if names & set(facts.mentions):
                    return True
            for known in module.classes:
                for method in known.methods:
                    if method.name not in names and names & set(method.mentions):
                        return True
            del path
        return False

    def _cause(self, first: Reading) -> str:
        origin = first.read.origin
        owner = origin.qualname.rpartition(".")[0]
        return f"{owner or origin.qualname}.{first.root}"

    # -- reads from outside ----------------------------------------------------------------------

    @cached_property
    def _outside_reads(self) -> list[tuple[Function, Read]]:
        """Reads of protected attributes by functions that belong to no family."""
        names = {root for _, root in self.norm.by_buffer}
        getters = {name for _, name in self.norm.symbols} | {name for _, name in self._candidates}
        names |= {
            name
            for key in self.readings.families
            for name, method in self.index.classes[key].methods.items()
            if is_property(method.facts) and names & set(method.facts.mentions)
        }
        inside = set(self.readings.families)
        found: list[tuple[Function, Read]] = []
        for function, context in self._functions():
            if context in inside or not (names | getters) & set(function.facts.mentions):
                continue
            found += [(function, r) for r in self.readings.summary(function, context).reads]
        return found

    def _functions(self) -> Iterator[tuple[Function, ClassKey | None]]:
        for function in self.index.functions.values():
            yield function, None
        for key, known in self.index.classes.items():
            for method in known.methods.values():
                yield method, key

    def _outside(self) -> Iterator[Gap]:
        """Raw reads of a family's buffers by code outside the family."""
        for function, read in self._outside_reads:
            if read.use not in ("read", "return") or self.readings.duty(function.facts.name):
                continue
            if read.origin.qualname != function.facts.qualname:
                continue
            for position in range(1, len(read.path) - 1):
                name, after = read.path[position], read.path[position + 1]
                if name not in self._raw_buffers or after != ELEMENT:
                    continue
                if self._holds(function, read.path[:position], name):
                    held = self.readings.gate_held(read, None) is not None
                    if not held and not self._copies_between_tiers(function, name):
                        yield self._bypass(function, read, name)
                    break

    @cached_property
    def _raw_buffers(self) -> dict[str, tuple[Sibling, ...]]:
        """Attributes that family getters index directly behind a gate."""
        found: dict[str, dict[Sibling, None]] = {}
        for reading in self.readings.readings:
            if _is_gated_reader(self.readings, reading):
                path = reading.read.path
                for position in range(1, len(path) - 1):
                    if path[position + 1] == "[]" and path[position].isidentifier():
                        name = path[position]
                        found.setdefault(name, {})[_sibling(self.side, reading)] = None
                        break
        return {name: tuple(sorted(s)) for name, s in found.items()}

    @cached_property
    def _holders(self) -> frozenset[str]:
        """Names under which family objects are held: receivers of their getters, inner objects."""
        getters = {name for _, name in self.norm.symbols}
        found: set[str] = set()
        for function, context in self._functions():
            if getters & set(function.facts.mentions):
                for call in self.readings.summary(function, context).calls:
                    if call.name in getters:
                        found |= {p[-1] for p in call.receivers if p != SELF}
        for context in self.readings.families:
            for reading in self.readings.readings:
                if reading.context == context and reading.delegated:
                    found.add(reading.root)
        return frozenset(found)

    def _holds(self, function: Function, receiver: Path, name: str) -> bool:
        """Whether a receiver is one of the family's objects: by its type, else by its name."""
        types = self.readings.types_of(function, receiver)
        if types:
            return bool(types & set(self.readings.families))
        if receiver == SELF or receiver[-1] not in self._holders:
            return False
        return self._nearest_is_family(function, name)

    def _nearest_is_family(self, function: Function, name: str) -> bool:
        """Whether, of the classes with an attribute of that name, the nearest by folder is ours.

        A back-end of its own often has pools with the same names, which nothing ever loads.
        """
        near: dict[int, list[ClassKey]] = {}
        for key in self.index.classes:
            if name in self.index.assigned(key):
                near.setdefault(_shared_folders(function.path, key[0]), []).append(key)
        owners = near[max(near)] if near else []
        return not owners or any(key in self.readings.families for key in owners)

    def _copies_between_tiers(self, function: Function, name: str) -> bool:
        """Whether a function reads an attribute of that name of a host object too."""
        host = self.readings.words.host_words
        for other, read in self._outside_reads:
            if other is function and name in read.path:
                holder = read.path[: read.path.index(name)]
                if any(set(words(step)) & host for step in holder):
                    return True
        return False

    def _bypass(self, function: Function, read: Read, name: str) -> Gap:
        siblings = self._raw_buffers[name]
        moved = name in self._moved
        owner = siblings[0].symbol.rpartition(".")[0]
        return Gap(
            "bypass",
            function,
            function.owner or (function.path, ""),
            (name,),
            read.line,
            read.column,
            siblings,
            0,
            "medium",
            "live" if moved and self._armed else "latent",
            f"a transfer between the tiers moves {name}" if moved else "no transfer was found",
            f"{function.facts.qualname}.{name}",
            siblings[0].gate,
            detail=owner,
        )

    def _inner_bypasses(self) -> Iterator[Gap]:
        """Ungated methods of an object that its owner guards, called from outside the owner."""
        for (owner, root), guarded in sorted(self._guarded_objects.items()):
            inner = self.index.attribute_types(owner, root)
            for key in sorted(inner - set(self.readings.families)):
                yield from self._inner(owner, root, key, guarded)

    @cached_property
    def _guarded_objects(self) -> dict[tuple[ClassKey, str], tuple[Sibling, ...]]:
        found: dict[tuple[ClassKey, str], dict[Sibling, None]] = {}
        for reading in self.readings.readings:
            if reading.delegated and _is_gated_reader(self.readings, reading):
                key = (reading.context, reading.root)
                found.setdefault(key, {})[_sibling(self.side, reading)] = None
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
            moved = set(first.path[1:]) & self._moved
            yield Gap(
                "bypass",
                method,
                key,
                (root,),
                first.line,
                first.column,
                guarded,
                0,
                "medium",
                "live" if moved and self._armed else "latent",
                f"a transfer between the tiers moves {', '.join(sorted(moved))}"
                if moved
                else "no transfer between the tiers that moves this buffer was found",
                f"{key[1]}.{name}",
                guarded[0].gate,
                callers=tuple(callers),
                detail=owner[1],
            )

    def _reached(self, owner: ClassKey, root: str) -> set[str]:
        """Methods of the inner object that the owner calls behind its gate."""
        found: set[str] = set()
        for method in self._in_force(owner):
            if root in method.facts.mentions:
                for call in self.readings.summary(method, owner).calls:
                    inner = any(p[1:2] == (root,) for p in call.receivers)
                    if inner and any(self.readings.is_gate(t) for t, _ in call.held):
                        found.add(call.name)
        return found

    def _callers_outside(self, owner: ClassKey, root: str, name: str) -> list[Place]:
        family = {owner, *self.index.subclasses.get(owner, ())}
        found: list[Place] = []
        for function, context in self._functions():
            if context in family or not {root, name} <= set(function.facts.mentions):
                continue
            if self.readings.duty(function.facts.name) not in ("", "host", "metadata"):
                continue
            for call in self.readings.summary(function, context).calls:
                if call.name == name and any(p[-1] == root for p in call.receivers):
                    gated = any(t[-1] in self.readings.gates for t, _ in call.held)
                    if not gated:
                        found.append(Place(function.path, function.facts.qualname, call.line))
        return sorted(set(found), key=lambda p: (p.path, p.line))


def _same_method(sibling: Sibling, candidate: _Candidate, side: Side) -> bool:
    return sibling.symbol == candidate.function.facts.qualname and sibling.side != side


def _hands_over(call: CallSite, method: Function, gates: frozenset[str]) -> bool:
    parameters = method.facts.parameters[1:]
    given = dict(zip((p.name for p in parameters), call.arguments, strict=False))
    given |= dict(call.keywords)
    if "**" in given:
        return True
    by_default = {p.name for p in parameters if p.default == "value"}
    return all(not given[g].none if g in given else g in by_default for g in gates)


def _without_vote(read: Read, step: str) -> tuple[tuple[Path, Keys | None], ...]:
    """What a user holds itself, not what it is believed to hold since most methods of a name wait."""
    receiver = read.path[: read.path.index(step)]
    return tuple((token, keys) for token, keys in read.held if token[:-1] != receiver)


def _shared_folders(left: str, right: str) -> int:
    """How many leading folders two paths share."""
    count = 0
    for mine, theirs in zip(left.split("/")[:-1], right.split("/")[:-1], strict=False):
        if mine != theirs:
            break
        count += 1
    return count


def _inner_name(path: Path) -> str:
    """The buffer of an inner object that a path indexes; empty where it is not known."""
    step = path[2] if len(path) > 2 else ""
    return step if step.isidentifier() else ""


def _step_down(confidence: Confidence) -> Confidence:
    return "medium" if confidence == "high" else "low"


def _any_gate(readings: Iterable[Reading]) -> str:
    for reading in readings:
        for token in sorted(reading.read.may):
            return ".".join(token)
    return "its gate"
