"""Buffers that the fork brings to a class whose others are all waited for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from auditor.gates.callers import Candidate
from auditor.gates.gaps import Sibling
from auditor.gates.norm import SiblingNorm, is_gated_reader, sibling_of
from auditor.gates.readings import Readings
from auditor.gates.usage import Usage
from auditor.model import Side
from auditor.source import facts as f
from auditor.source.names import ClassKey

_FEWEST = 2
"""Gated readers that make the habit of a class; of one alone nobody knows what it is for."""


class Brought:
    """What the getters of a class's old buffers say of those of its new ones."""

    def __init__(
        self,
        norm: SiblingNorm,
        side: Side,
        readings: Readings,
        usage: Usage,
        candidates: Mapping[tuple[ClassKey, str], Candidate],
    ) -> None:
        self.norm = norm
        self.side = side
        self.readings = readings
        self.usage = usage
        self.candidates = candidates

    def siblings(self, candidate: Candidate) -> tuple[Sibling, ...]:
        """The getters that wait, all of them, where the fork brings what a method reads.

        Nothing of a table of constants: what is new has to be made as a guarded buffer is.
        """
        context = candidate.context
        roots = {r.root for r in candidate.readings}
        before = self.norm.attributes.get(context[1])
        if self.side != "fork" or before is None or not roots.isdisjoint(before):
            return ()
        gated: dict[str, Sibling] = {}
        for method in self.readings.in_force(context):
            for reading in self.readings.of_method(context, method):
                if reading.root not in roots and is_gated_reader(self.readings, reading):
                    sibling = sibling_of(self.side, self.readings, reading)
                    gated.setdefault(method.facts.name, sibling)
        guarded = {s.root for s in gated.values()}
        if len(gated) < _FEWEST or self._open_too(context, roots | guarded):
            return ()
        if not any(self._made_alike(context, new, old) for new in roots for old in guarded):
            return ()
        return tuple(gated[name] for name in sorted(gated))

    def _open_too(self, context: ClassKey, roots: set[str]) -> bool:
        """Whether the class has a buffer that loads move and that none of its getters waits for."""
        names = {m.facts.name for m in self.readings.in_force(context)}
        return any(
            reading.root not in roots and self.usage.transferred([reading])
            for (owner, name), candidate in self.candidates.items()
            if owner in self._mro(context) and name in names
            for reading in candidate.readings
        )

    def _mro(self, context: ClassKey) -> Sequence[ClassKey]:
        return self.readings.index.classes[context].mro

    def _made_alike(self, context: ClassKey, new: str, old: str) -> bool:
        theirs = {made for value in self._values(context, old) for made in _makings(value)}
        return any(not theirs.isdisjoint(_makings(v)) for v in self._values(context, new))

    def _values(self, context: ClassKey, name: str) -> Iterator[f.Expr]:
        for key in self._mro(context):
            for _, assign in self.readings.index.assigned(key).get(name, ()):
                if assign.value is not None:
                    yield assign.value


def _makings(value: f.Expr) -> Iterator[tuple[object, ...]]:
    """What two buffers share that are as long: who makes them, and by which leading sizes.

    Of a list with a member a layer that is the first size of a member, of one tensor for all layers
    the first two. A member of a record or mapping shares with the others where it is taken from.
    """
    sizes = 2
    if isinstance(value, f.Comp):
        value, sizes = value.element, 1
    elif isinstance(value, f.Group) and value.op in ("list", "value"):
        inner = [part for part in value.parts if isinstance(part, f.Group | f.Call)]
        if len(inner) == 1:
            yield from _makings(inner[0])
        return
    match value:
        case f.Call(args=(shape, *_)) if f.dotted(value.func):
            if isinstance(shape, f.Call):
                yield (f.dotted(value.func), _text(shape))
            named = isinstance(shape, f.Group) and shape.op in ("tuple", "list")
            parts = shape.parts if named and isinstance(shape, f.Group) else value.args
            yield (f.dotted(value.func), sizes, *map(_text, parts[:sizes]))
        case f.Sub(value=held, index=f.Const(kind="str")) | f.Attr(value=held):
            if f.dotted(held) not in ("", "self"):
                yield ("of", f.dotted(held))


def _text(expr: f.Expr) -> str:
    """An expression without its place."""
    return " ".join(
        f.dotted(node) or getattr(node, "text", "") or type(node).__name__ for node in f.walk(expr)
    )
