"""Who uses what a family hands out: functions by the names they mention, reads from outside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial

from auditor.analysis.norm import SiblingNorm
from auditor.analysis.readings import Reading, Readings, reads_elements
from auditor.analysis.values import MEMBERS, RESULT, SELF, Keys, Path, Read
from auditor.model import Reach
from auditor.source import facts as f
from auditor.source.equations import Equations
from auditor.source.index import ClassKey, Function, is_property

Origin = tuple[str, str]
"""(path, qualname) of the function that takes an element."""


class Usage:
    """One side's uses, found on demand and kept."""

    def __init__(self, readings: Readings, norm: SiblingNorm, names: frozenset[str]) -> None:
        """``names`` are methods whose users matter beside those of the norm's raw buffers."""
        self.readings = readings
        self.index = readings.index
        self.norm = norm
        self.names = names
        self._inside = frozenset(readings.families)

    def functions(self) -> Iterator[tuple[Function, ClassKey | None]]:
        """Every function and method of the side."""
        for function in self.index.functions.values():
            yield function, None
        for key, known in self.index.classes.items():
            for method in known.methods.values():
                yield method, key

    def mentioning(self, name: str) -> Sequence[tuple[Function, ClassKey | None]]:
        """The functions that name an attribute, a method or a called function."""
        return self._mentioning.get(name, ())

    @cached_property
    def _mentioning(self) -> dict[str, list[tuple[Function, ClassKey | None]]]:
        found: dict[str, list[tuple[Function, ClassKey | None]]] = {}
        for function, context in self.functions():
            for name in function.facts.mentions:
                found.setdefault(name, []).append((function, context))
        return found

    # -- reads from outside ----------------------------------------------------------------------

    @cached_property
    def outside_reads(self) -> list[tuple[Function, Read]]:
        """What functions outside the families read, where they name what a family guards."""
        raw = {name for name in self.norm.raw if name.isidentifier()}
        wanted = raw | self.names
        for key in self.readings.families:
            for name, method in self.index.classes[key].methods.items():
                if is_property(method.facts) and raw & set(method.facts.mentions):
                    wanted.add(name)
        chosen: dict[tuple[object, ...], tuple[Function, ClassKey | None]] = {}
        for name in sorted(wanted):
            for function, context in self.mentioning(name):
                if context not in self._inside:
                    place = (*function.key, context)
                    chosen[place] = (function, context)
        return [
            (function, read)
            for function, context in chosen.values()
            for read in self.readings.summary(function, context).reads
        ]

    @cached_property
    def by_origin(self) -> dict[Origin, list[tuple[ClassKey | None, Function, Read]]]:
        """Where an element is taken → the other functions that come by it, and how they use it."""
        found: dict[Origin, list[tuple[ClassKey | None, Function, Read]]] = {}
        for context in self.readings.families:
            for method in self.readings.in_force(context):
                for read in self.readings.summary(method, context).reads:
                    origin = (read.origin.path, read.origin.qualname)
                    if origin != (method.path, method.facts.qualname):
                        found.setdefault(origin, []).append((context, method, read))
        for function, read in self.outside_reads:
            for origin, own in self._origins(read):
                found.setdefault(origin, []).append((function.owner, function, own))
        return found

    def _origins(self, read: Read) -> Iterator[tuple[Origin, Read]]:
        yield (read.origin.path, read.origin.qualname), read
        for step in read.path:
            # Reached through an object of unknown class: any method of the name may be meant.
            name = step.removesuffix(RESULT)
            for key in self.readings.evaluator.votes.get(name, ()) if step != name else ():
                meant = self.index.method(key, name)
                if meant is not None:
                    own = Read(
                        read.path,
                        read.keys,
                        _without_vote(read, step),
                        read.may,
                        read.use,
                        read.line,
                        read.column,
                        read.origin,
                        read.ordered,
                    )
                    yield (meant.path, meant.facts.qualname), own

    @cached_property
    def holders(self) -> frozenset[str]:
        """Names under which family objects are held: receivers of their getters, inner objects."""
        found = {r.root for r in self.readings.readings if r.delegated}
        getters: dict[tuple[object, ...], tuple[Function, set[str]]] = {}
        for name in {name for _, name in self.norm.symbols}:
            for function, _ in self.mentioning(name):
                getters.setdefault(function.key, (function, set()))[1].add(name)
        for function, names in getters.values():
            about = ("receivers", *sorted(names))
            facts = function.facts
            work = partial(_receivers, facts, names)
            found |= self.index.derived.of(facts, about, work)
        return frozenset(found)

    # -- what arms and moves ---------------------------------------------------------------------

    @cached_property
    def moved(self) -> frozenset[str]:
        """Attribute names that a transfer between the tiers touches, or is made from."""
        found: set[str] = set()
        for function in (*self._transfers, *self._assembly):
            found |= set(function.facts.mentions)
        return frozenset(found)

    @cached_property
    def _transfers(self) -> list[Function]:
        """The methods that move data between the tiers.

        A family's own counts where it copies from an object that it is handed, by the name of an
        attribute of that object: what else it calls a load is a copy of its own for later.
        """
        return [
            function
            for function, context in self.functions()
            if context is not None and self.readings.duty(function.facts.name) == "transfer"
            if context not in self._inside or self._copies_from_another(function, context)
        ]

    def _copies_from_another(self, function: Function, context: ClassKey) -> bool:
        reads = self.readings.summary(function, context).reads
        own = {step for r in reads if r.path[0] == SELF[0] for step in r.path[1:2]}
        theirs = {step for r in reads if r.path[0].startswith("param:") for step in r.path[1:2]}
        return bool(own & theirs)

    @cached_property
    def _assembly(self) -> list[Function]:
        """The functions that make objects of a host tier, and what those call in their file.

        A host object that is handed its device buffers does not name them. Its class is known by a
        transfer method of the same name as one that does, its own or inherited.
        """
        protected = self.readings.scouted.protected
        names = {t.facts.name for t in self._transfers if protected & set(t.facts.mentions)}
        classes = self.index.classes.items()
        hosts = {key for key, known in classes if not names.isdisjoint(known.methods)}
        hosts |= {key for host in hosts for key in self.index.subclasses.get(host, ())}
        hosts -= self._inside
        pending = [f for host in sorted(hosts) for f, _ in self.mentioning(host[1])]
        pending += [
            made
            for host in sorted(hosts)
            if (made := self.index.classes[host].methods.get("__init__")) is not None
        ]
        found: dict[tuple[object, ...], Function] = {}
        while pending:
            function = pending.pop()
            if function.key in found or function.owner in self._inside:
                continue
            found[function.key] = function
            for name in function.facts.mentions:
                called = self.index.functions.get((function.path, name))
                if called is not None:
                    pending.append(called)
        return list(found.values())

    @cached_property
    def armed(self) -> bool:
        """Whether anything puts a gate in place; True where no method for it was recognised."""
        names = self.readings.arming
        if not names:
            return True
        return any(
            function.facts.name not in names
            for name in names
            for function, _ in self.mentioning(name)
        )

    def reach(self, reads: Sequence[Read]) -> tuple[Reach, str]:
        """Whether a configuration of this tree can reach the reads with the gate armed, and why.

        One buffer that a transfer moves is enough: what else is read beside it, a constant of the
        layer or an optional scale, does not keep the read from overtaking the copy. But a method
        that raises without a buffer which no transfer moves is of no use on what was loaded.
        """
        if not self.armed:
            return "latent", "nothing in this tree puts a gate in place"
        useless = [read for read in reads if self._lacking(read)]
        useful = [read for read in reads if read not in useless]
        taken = {name for read in useful for name in self._buffers(read.path)}
        if useless and not taken:
            name = useless[0].origin.qualname.rpartition(".")[2]
            lacking = ", ".join(sorted(self._lacking(useless[0])))
            told = f"{name} raises without {lacking}, which no transfer between the tiers moves"
            return "latent", told
        buffers = sorted(taken or {_holder(read.path) for read in useful})
        moving = [name for name in buffers if name in self.moved]
        if moving:
            return "live", f"a transfer between the tiers moves {', '.join(moving)}"
        return "latent", f"no transfer between the tiers moves {', '.join(buffers)}"

    def _lacking(self, read: Read) -> frozenset[str]:
        """What the method that takes an element raises without, and no transfer moves."""
        place = (read.origin.path, read.origin.qualname)
        owner, _, name = read.origin.qualname.rpartition(".")
        known = self.index.classes.get((read.origin.path, owner))
        made = known.methods.get(name) if known else self.index.functions.get(place)
        if made is None:
            return frozenset()
        needed = self.index.derived.of(made.facts, "demanded", partial(_demanded, made.facts))
        return frozenset(needed - self.moved)

    def _buffers(self, path: Path) -> frozenset[str]:
        """The attributes whose members a path takes; empty where no more than a holder is known.

        A call of a method that is not known here stands for what the families' methods of that name
        take; one of a view is its tensor.
        """
        found: set[str] = set()
        last = ""
        for step in path[1:]:
            if step.isidentifier():
                last = step
                continue
            if step in MEMBERS or step.removesuffix(RESULT) in self.readings.words.view_methods:
                found.add(last)
            else:
                found |= self._handed_out(step.removesuffix(RESULT))
            last = ""
        return frozenset(found - {""})

    def _handed_out(self, name: str) -> frozenset[str]:
        """The buffers whose elements the families' methods of a name take."""
        return self._handed.solve((name,), partial(self._work_out, name))

    def _work_out(self, name: str) -> frozenset[str]:
        found: set[str] = set()
        for key in self.readings.families:
            method = self.index.classes[key].methods.get(name)
            for read in self.readings.summary(method, key).reads if method else ():
                if read.path[0] != SELF[0] or len(read.path) < 2 or not reads_elements(read):
                    continue
                if not self.readings.no_buffer(key, read.path) and not self._lacking(read):
                    found |= self._buffers(read.path)
        return frozenset(found)

    @cached_property
    def _handed(self) -> Equations[str]:
        """Methods may lead to each other; no answer hangs on which was asked for first."""
        return Equations()

    def transferred(self, readings: Sequence[Reading]) -> bool:
        """Whether a transfer moves any of the buffers read."""
        return any(set(r.read.path[1:]) & self.moved for r in readings)


def _holder(path: Path) -> str:
    """The attribute that holds what a path calls, the buffer's stand-in."""
    return next((step for step in reversed(path) if step.isidentifier()), path[0])


def _demanded(facts: f.FunctionFacts) -> set[str]:
    """The attributes of its object without which a method raises at once."""
    found: set[str] = set()
    for stmt in facts.body:
        if isinstance(stmt, f.If) and stmt.body and not stmt.orelse:
            last = stmt.body[-1]
            if isinstance(last, f.Exit) and last.kind == "raise":
                found |= _missing(stmt.test)
    return found


def _missing(test: f.Expr) -> set[str]:
    """The attributes of ``self`` of which a test asks whether one is missing."""
    if isinstance(test, f.Group) and test.op == "or":
        return set().union(*map(_missing, test.parts))
    if isinstance(test, f.Group) and test.op == "is":
        first, *rest = test.parts
        if (
            isinstance(first, f.Attr)
            and first.value == f.Name("self")
            and rest == [f.Const("none")]
        ):
            return {first.name}
    return set()


def _receivers(facts: f.FunctionFacts, names: set[str]) -> set[str]:
    """The last names of the objects that methods of some names are called on."""
    found: set[str] = set()
    for stmt in f.statements(facts.body):
        for top in f.expressions(stmt):
            for node in f.walk(top):
                if isinstance(node, f.Attr) and node.name in names:
                    held = node.value
                    while isinstance(held, f.Call | f.Sub):
                        held = held.func if isinstance(held, f.Call) else held.value
                    if isinstance(held, f.Attr):
                        found.add(held.name)
                    elif isinstance(held, f.Name) and held.id not in ("self", "super"):
                        found.add(held.id)
    return found


def _without_vote(read: Read, step: str) -> tuple[tuple[Path, Keys | None], ...]:
    """What a user holds itself, not what most methods of a name are believed to wait on."""
    receiver = read.path[: read.path.index(step)]
    return tuple((token, keys) for token, keys in read.held if token[:-1] != receiver)
