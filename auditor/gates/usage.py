"""Who uses what a family hands out: functions by the names they mention, reads from outside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial

from auditor.gates.norm import SiblingNorm
from auditor.gates.readings import Reading, Readings, reads_elements
from auditor.gates.tiers import Buffer, Tiers
from auditor.gates.values import MEMBERS, RESULT, SELF, Keys, Path, Read
from auditor.model import Reach
from auditor.source import facts as f
from auditor.source.equations import Equations
from auditor.source.index import is_property
from auditor.source.names import ClassKey, Function

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
        chosen: dict[tuple[object, ...], Function] = {}
        for name in sorted(wanted):
            for function in self.index.mentioning(name):
                if function.owner not in self._inside:
                    chosen[function.key] = function
        return [
            (function, read)
            for function in chosen.values()
            for read in self.readings.summary(function, function.owner).reads
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
            for function in self.index.mentioning(name):
                getters.setdefault(function.key, (function, set()))[1].add(name)
        for function, names in getters.values():
            about = ("receivers", *sorted(names))
            facts = function.facts
            work = partial(_receivers, facts, names)
            found |= self.index.derived.of(facts, about, work)
        return frozenset(found)

    # -- what arms and moves ---------------------------------------------------------------------

    @cached_property
    def tiers(self) -> Tiers:
        """What loads move, found when it is first asked for."""
        return Tiers(self.readings)

    @cached_property
    def armed(self) -> bool:
        """Whether anything puts a gate in place; True where no method for it was recognised."""
        names = self.readings.arming
        if not names:
            return True
        return any(
            function.facts.name not in names
            for name in names
            for function in self.index.mentioning(name)
        )

    def reach(self, reads: Sequence[Read], reader: ClassKey | None = None) -> tuple[Reach, str]:
        """Whether a configuration of this tree can reach the reads with the gate armed, and why.

        ``reader`` is the class whose objects read. One buffer that a transfer moves is enough: what
        else is read beside it, a constant of the layer or an optional scale, does not keep the read
        from overtaking the copy. But a method that raises without a buffer which no transfer moves
        is of no use on what was loaded.
        """
        if not self.armed:
            return "latent", "nothing in this tree puts a gate in place"
        useless = [read for read in reads if self._lacking(read, reader)]
        useful = [read for read in reads if read not in useless]
        taken = {buffer for read in useful for buffer in self._buffers(read.path, reader)}
        if useless and not taken:
            name = useless[0].origin.qualname.rpartition(".")[2]
            lacking = ", ".join(sorted(self._lacking(useless[0], reader)))
            told = f"{name} raises without {lacking}, which no transfer between the tiers moves"
            return "latent", told
        taken = taken or {Buffer(_holder(read.path), None) for read in useful}
        moving = {buffer.name for buffer in taken if self.tiers.moves(buffer, reader)}
        if moving:
            return "live", f"a transfer between the tiers moves {', '.join(sorted(moving))}"
        return "latent", f"no transfer between the tiers moves {', '.join(self._told(taken))}"

    def _told(self, buffers: set[Buffer]) -> list[str]:
        """The names of buffers that are not moved, with the class where others of them are."""
        moved = self.tiers.moved()
        return sorted(
            {
                f"{name} of {owner[1]}" if owner is not None and name in moved else name
                for name, owner in buffers
            }
        )

    def _lacking(self, read: Read, reader: ClassKey | None) -> frozenset[str]:
        """What the method that takes an element raises without, and no transfer moves."""
        place = (read.origin.path, read.origin.qualname)
        owner, _, name = read.origin.qualname.rpartition(".")
        known = self.index.classes.get((read.origin.path, owner))
        made = known.methods.get(name) if known else self.index.functions.get(place)
        if made is None:
            return frozenset()
        needed = self.index.derived.of(made.facts, "demanded", partial(_demanded, made.facts))
        return frozenset(n for n in needed if not self.tiers.moves(Buffer(n, made.owner), reader))

    def _buffers(self, path: Path, reader: ClassKey | None) -> frozenset[Buffer]:
        """The attributes whose members a path takes; empty where no more than a holder is known.

        A call of a method that is not known here stands for what the families' methods of that name
        take; one of a view is its tensor.
        """
        found: set[Buffer] = set()
        held = frozenset() if reader is None or path[0] != SELF[0] else frozenset((reader,))
        last, owners = "", held
        for step in path[1:]:
            if step.isidentifier():
                last, owners = step, held
                inner = (self.index.attribute_types(key, step) for key in held)
                held = frozenset().union(*inner)
                continue
            if step in MEMBERS or step.removesuffix(RESULT) in self.readings.words.view_methods:
                if last:
                    found |= {Buffer(last, owner) for owner in self._having(owners, last)}
            else:
                found |= self._handed_out(step.removesuffix(RESULT))
            last = ""
        return frozenset(found)

    def _having(self, owners: frozenset[ClassKey], name: str) -> Sequence[ClassKey | None]:
        """Those of some classes that make an attribute; None where none of them is known to."""
        classes = self.index.classes
        makers = [
            owner
            for owner in sorted(owners & self._inside)
            if any(name in self.index.assigned(key) for key in classes[owner].mro)
        ]
        return makers or [None]

    def _handed_out(self, name: str) -> frozenset[Buffer]:
        """The buffers whose elements the families' methods of a name take."""
        return self._handed.solve((name,), partial(self._work_out, name))

    def _work_out(self, name: str) -> frozenset[Buffer]:
        found: set[Buffer] = set()
        for key in self.readings.families:
            method = self.index.classes[key].methods.get(name)
            for read in self.readings.summary(method, key).reads if method else ():
                if read.path[0] != SELF[0] or len(read.path) < 2 or not reads_elements(read):
                    continue
                if not self.readings.no_buffer(key, read.path) and not self._lacking(read, key):
                    found |= self._buffers(read.path, key)
        return frozenset(found)

    @cached_property
    def _handed(self) -> Equations[Buffer]:
        """Methods may lead to each other; no answer hangs on which was asked for first."""
        return Equations()

    def transferred(self, readings: Sequence[Reading]) -> bool:
        """Whether a transfer moves any of the buffers read."""
        return any(set(r.read.path[1:]) & self.tiers.moved() for r in readings)


def _holder(path: Path) -> str:
    """The attribute that holds what a path calls, the buffer's stand-in."""
    return next((step for step in reversed(path) if step.isidentifier()), path[0])


def _demanded(facts: f.FunctionFacts) -> set[str]:
    """The attributes of its object without which a method raises at once."""
    found: set[str] = set()
    for stmt in facts.body:
        if isinstance(stmt, f.If) and stmt.body:
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
