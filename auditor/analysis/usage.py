"""Who uses what a family hands out: functions by the names they mention, reads from outside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial

from auditor.analysis.norm import SiblingNorm
from auditor.analysis.readings import Reading, Readings
from auditor.analysis.values import RESULT, Keys, Path, Read
from auditor.model import Reach
from auditor.source import facts as f
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
        """Attribute names that a transfer between the tiers touches."""
        found: set[str] = set()
        for function, context in self.functions():
            if context not in self._inside and context is not None:
                if self.readings.duty(function.facts.name) == "transfer":
                    found |= set(function.facts.mentions)
        return frozenset(found)

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

    def reach(self, paths: Sequence[Path]) -> tuple[Reach, str]:
        """Whether a configuration of this tree can reach the reads with the gate armed, and why.

        A read is as live as the least of the buffers that it needs: packed rows are of no use
        without their scales.
        """
        if not self.armed:
            return "latent", "nothing in this tree puts a gate in place"
        buffers = sorted({_buffer(path) for path in paths})
        still = [name for name in buffers if name not in self.moved]
        if still:
            return "latent", f"no transfer between the tiers moves {', '.join(still)}"
        return "live", f"a transfer between the tiers moves {', '.join(buffers)}"

    def transferred(self, readings: Sequence[Reading]) -> bool:
        """Whether a transfer moves any of the buffers read."""
        return any(set(r.read.path[1:]) & self.moved for r in readings)


def _buffer(path: Path) -> str:
    """The attribute whose member a path takes; a call on the way hides it, its holder stands in."""
    name = path[1] if len(path) > 1 else path[0]
    for step in path[1:]:
        if not step.isidentifier():
            break
        name = step
    return name


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
