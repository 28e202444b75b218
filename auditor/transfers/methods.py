"""The transfer methods of some files, each walked, and what the functions that they call do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from auditor.source import facts as f
from auditor.streams.lookup import Lookup, Place
from auditor.streams.words import called, last
from auditor.transfers.walk import Effect, Start, TransferWalk, effect
from auditor.transfers.words import says_it_ends
from auditor.vocabulary import Vocabulary

_DEEPEST = 2
"""Helpers of helpers."""
_GENERAL = frozenset({"ABC", "object", "Module", "Protocol", "Generic", "Thread", "Enum"})
"""Bases that make no family: they are nobody's own."""


@dataclass(frozen=True)
class Method:
    """A transfer, and whether nothing of it is under way wherever it returns.

    ``waits`` are the lines of the file that see to it; ``early`` are what it frees or acknowledges
    before that, ``late`` what it does after. ``last`` is where the last copy starts.
    """

    place: Place
    done: bool
    starts: tuple[Start, ...]
    waits: tuple[int, ...]
    early: tuple[f.Call, ...]
    late: tuple[f.Call, ...]

    @property
    def name(self) -> str:
        """Its own name, by which siblings go."""
        return self.place.facts.name

    @property
    def visible(self) -> bool:
        """Whether a copy is seen to return before it is done."""
        return any(start.visible for start in self.starts)

    @property
    def last(self) -> Start:
        """The last copy that it starts, one that is seen to be under way first."""
        return max(self.starts, key=lambda start: (start.visible, start.line, start.column))


class Methods:
    """The methods of some names in the files that were read."""

    def __init__(
        self, modules: Mapping[str, f.ModuleFacts], names: frozenset[str], vocabulary: Vocabulary
    ) -> None:
        self.lookup = Lookup(modules, vocabulary)
        self.names = names
        self.vocabulary = vocabulary
        self._effects: dict[int, Effect] = {}
        self._depth = 0

    @cached_property
    def found(self) -> list[Method]:
        """Those that start something; what is only handed on to others starts nothing."""
        places = [p for n in sorted(self.names) for p in self.lookup.places.get(n, ()) if p.owner]
        return [method for method in map(self._method, places) if method is not None]

    def _method(self, place: Place) -> Method | None:
        walk = self.walk(place)
        if not walk.starts:
            return None
        waits = set(walk.waits)
        if not walk.done and any(map(self._waits_around, place.facts.decorators)):
            waits.add(1)
        done = walk.done or 1 in waits
        lines = tuple(sorted(map(place.line, waits)))
        starts = tuple(walk.starts.values())
        return Method(place, done, starts, lines, tuple(walk.early), tuple(walk.late))

    def walk(self, place: Place, started: str = "") -> TransferWalk:
        """A function walked; a call of ``started`` counts as one that starts a copy."""
        ask = _Asking(self, place, started)
        return TransferWalk(place.facts, self.vocabulary, ask, lambda *_: None)

    def missing(self) -> set[str]:
        """What the methods, and what they call, call or are wrapped in, and what was not read."""
        reached = set(self.names)
        named = set(self.names)
        for _ in range(_DEEPEST + 1):
            places = [place for name in named for place in self.lookup.places.get(name, ())]
            called = {name for place in places for name in place.facts.mentions}
            around = {_undotted(name) for place in places for name in place.facts.decorators}
            named = (called | around) - reached
            reached |= named
        return reached - set(self.lookup.places)

    def unread(self) -> set[str]:
        """The bases of what leaves copies under way that were not read: helpers may be theirs."""
        above = {base for one in self.found if not one.done for base in self.bases(one.place)}
        return above - set(self._bases)

    def bases(self, place: Place) -> frozenset[str]:
        """The names of a method's class and of all that it is derived from, as far as read."""
        return self._closure(_undotted(place.owner))

    def _closure(self, name: str) -> frozenset[str]:
        found = {name}
        pending = [name]
        while pending:
            for base in self._bases.get(pending.pop(), ()):
                if base not in found and base not in _GENERAL:
                    found.add(base)
                    pending.append(base)
        return frozenset(found)

    @cached_property
    def _bases(self) -> Mapping[str, set[str]]:
        found: dict[str, set[str]] = {}
        for module in self.lookup.modules.values():
            for known in module.classes:
                named = {last(_plain(base)) for base in known.bases}
                found.setdefault(known.name, set()).update(named - {""})
        return found

    def effect_of(self, call: f.Call, place: Place, started: str) -> Effect | None:
        """What a call does that a function makes; None where that is not known."""
        name = called(call)
        if name == started:
            return "starts visibly"
        found = self._callee(call, place)
        known = None if found is None else self._effect(found)
        if name in self.names and known != "ends":
            return "none"  # what one of those that are compared leaves open is told where it stands
        return known

    def _effect(self, found: Place) -> Effect | None:
        known = self._effects.get(id(found.facts))
        if known is not None:
            return known
        if self._depth >= _DEEPEST:
            return None
        self._effects[id(found.facts)] = "none"  # of a function that calls itself
        self._depth += 1
        try:
            known = effect(found.facts, self.vocabulary, _Asking(self, found, ""), lambda *_: None)
        finally:
            self._depth -= 1
        self._effects[id(found.facts)] = known
        return known

    def _callee(self, call: f.Call, place: Place) -> Place | None:
        """The function that a call on self, on ``super()`` or by a bare name means."""
        func = call.func
        if not isinstance(func, f.Attr) or func.value == f.Name("self"):
            found = self.lookup.callee(call, place)
            return None if found is None or found.facts is place.facts else found
        if isinstance(func.value, f.Call) and func.value.func == f.Name("super"):
            named = self.lookup.places.get(func.name, ())
            above = {_undotted(one.owner): one for one in named}
            order = self._above(_undotted(place.owner))
            return next((above[name] for name in order if name in above), None)
        return None

    def _above(self, name: str) -> Iterator[str]:
        """The classes that a class is derived from, the nearest first."""
        pending = sorted(self._bases.get(name, ()))
        seen: set[str] = {name}
        while pending:
            base = pending.pop(0)
            if base not in seen:
                seen.add(base)
                yield base
                pending += sorted(self._bases.get(base, ()))

    def _waits_around(self, decorator: str) -> bool:
        """Whether what a method is wrapped in waits for it."""
        plain = _undotted(decorator)
        if says_it_ends(plain, self.vocabulary):
            return True
        inner = [
            stmt.function
            for place in self.lookup.places.get(plain, ())
            if not place.owner
            for stmt in f.statements(place.facts.body)
            if isinstance(stmt, f.Define)
        ]
        return any(
            effect(function, self.vocabulary, lambda _: None, lambda *_: None) == "ends"
            for function in inner
        )


@dataclass(frozen=True)
class _Asking:
    """What the calls of one function do."""

    methods: Methods
    place: Place
    started: str

    def __call__(self, call: f.Call) -> Effect | None:
        return self.methods.effect_of(call, self.place, self.started)


def _plain(base: f.Expr) -> f.Expr:
    """A base without what it is given: ``Pool[Row]``."""
    return base.value if isinstance(base, f.Sub) else base


def _undotted(name: str) -> str:
    """The last name of a path, without what it is called with."""
    return name.partition("(")[0].rpartition(".")[2]
