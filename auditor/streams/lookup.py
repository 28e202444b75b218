"""What a function asks of others: which streams a helper makes wait, what a context enters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import msgspec

from auditor.source import facts as f
from auditor.streams.flow import CURRENT, EVERYTHING, Block, Site, Walk
from auditor.streams.identity import Keys, Scope, given_names, renamed, text
from auditor.streams.words import called, current, entered, last, orders
from auditor.vocabulary import Vocabulary, words

_DEEPEST = 2
"""Helpers of helpers: what lies deeper is no fork of a stream that anybody would find again."""

_SELF = f.Name("self")
_SUFFIXES = ("_ctx", "_context")


@dataclass(frozen=True)
class Place:
    """A function where it stands; ``owner`` is the qualified name of its class, empty for none."""

    path: str
    owner: str
    facts: f.FunctionFacts

    def line(self, line: int) -> int:
        """The line of the file for one of the facts."""
        return self.facts.line + line - 1


class Lookup:
    """Some files, read, and what is known of their functions."""

    def __init__(self, modules: Mapping[str, f.ModuleFacts], vocabulary: Vocabulary) -> None:
        self.modules = modules
        self.vocabulary = vocabulary
        self._depth = 0
        self._held: dict[int, Keys] = {}
        self._walks: dict[int, Walk] = {}
        self._scopes: dict[int, Scope] = {}
        self._assigned: dict[str, list[tuple[f.Expr, Place]]] = {}

    @cached_property
    def places(self) -> Mapping[str, list[Place]]:
        """Every function by its name."""
        found: dict[str, list[Place]] = {}
        for path, module in self.modules.items():
            for function in module.functions:
                found.setdefault(function.name, []).append(Place(path, "", function))
            for known in module.classes:
                for method in known.methods:
                    found.setdefault(method.name, []).append(Place(path, known.qualname, method))
        return found

    @cached_property
    def _mentioning(self) -> Mapping[str, list[Place]]:
        found: dict[str, list[Place]] = {}
        for places in self.places.values():
            for place in places:
                for name in place.facts.mentions:
                    found.setdefault(name, []).append(place)
        return found

    @cached_property
    def _waiting(self) -> frozenset[str]:
        """The names of the functions in which a wait, or a call of one that waits, is named."""
        waits = frozenset(self.vocabulary.primitive_waits)
        places = [place for found in self.places.values() for place in found]
        told = {p.facts.name for p in places if any(map(orders, p.facts.mentions))}
        for _ in range(_DEEPEST):
            telling = told | waits
            told |= {p.facts.name for p in places if not telling.isdisjoint(p.facts.mentions)}
        return frozenset(told)

    def mentioning(self, name: str) -> list[Place]:
        """The functions that name an attribute or a called function."""
        return self._mentioning.get(name, [])

    def users(self, place: Place) -> list[Place]:
        """The functions that name another: those of its file, else all."""
        name = place.facts.name
        found = [one for one in self.mentioning(name) if one.facts is not place.facts]
        here = [one for one in found if one.path == place.path]
        return here or found

    @cached_property
    def _bases(self) -> Mapping[tuple[str, str], set[str]]:
        return {
            (path, known.qualname): {last(base) for base in known.bases}
            for path, module in self.modules.items()
            for known in module.classes
        }

    def walk(self, place: Place) -> Walk:
        """A function walked, once."""
        known = self._walks.get(id(place.facts))
        if known is None:
            known = self._walks[id(place.facts)] = self._walk(place)
        return known

    def _walk(self, place: Place, watched: frozenset[str] = frozenset()) -> Walk:
        def held(call: f.Call, name: str, scope: Scope) -> Keys | None:
            if name not in self.places:
                return None
            return self._of_call(call, scope, place) if name in self._waiting else frozenset()

        def context(expr: f.Expr, scope: Scope) -> tuple[str, Keys] | None:
            return self._of_context(expr, scope, place)

        return Walk(place.facts, self.vocabulary, held, context, watched)

    def sites(self, place: Place, name: str) -> list[Site]:
        """The calls of a name in a function."""
        return self._walk(place, frozenset((name,))).sites

    def makes_wait(self, place: Place) -> Keys:
        """The streams that have been made to wait wherever a function returns, in its own words."""
        key = id(place.facts)
        known = self._held.get(key)
        if known is None:
            self._held[key] = frozenset()  # of a function that calls itself
            known = self._held[key] = self.walk(place).out
        return known

    def blocks(self, place: Place) -> list[Block]:
        """The blocks of a function that enter a stream."""
        return self.walk(place).blocks

    def _of_call(self, call: f.Call, scope: Scope, place: Place) -> Keys | None:
        found = self.callee(call, place)
        if found is None or self._depth >= _DEEPEST:
            return None
        self._depth += 1
        try:
            held = self.makes_wait(found)
        finally:
            self._depth -= 1
        return renamed(held, names_at(call, found, scope)) | (held & {EVERYTHING, CURRENT})

    def callee(self, call: f.Call, place: Place) -> Place | None:
        """The function that a call means, where told: of the class, the file, or the only one."""
        candidates = self.places.get(called(call), [])
        if isinstance(call.func, f.Name):
            candidates = [one for one in candidates if not one.owner]
        elif isinstance(call.func, f.Attr) and call.func.value == _SELF and place.owner:
            candidates = [one for one in candidates if one.owner]
            here = [one for one in candidates if (one.path, one.owner) == (place.path, place.owner)]
            bases = self._bases.get((place.path, place.owner), set())
            above = [one for one in candidates if one.owner.rpartition(".")[2] in bases]
            candidates = here or above or candidates
        own = [one for one in candidates if one.path == place.path]
        chosen = own or candidates
        return chosen[0] if len(chosen) == 1 else None

    def _of_context(self, expr: f.Expr, scope: Scope, place: Place) -> tuple[str, Keys] | None:
        """The stream of ``with self.side_ctx``: by what was put there, else by its name."""
        name = last(expr)
        if not name:
            return None
        if isinstance(expr, f.Attr):
            receiver = scope.keys(expr.value)
            for value, where in self.assigned(name, place):
                for option in where.options(value):
                    stream = entered(option) if isinstance(option, f.Call) else None
                    if stream is not None and not where.may_be_current(stream):
                        keys = renamed(where.keys(stream), {"self": receiver})
                        shown = text(stream)
                        return shown, keys or frozenset((shown,))
        if "stream" not in words(name) or not name.endswith(_SUFFIXES):
            return None
        length = next(len(suffix) for suffix in _SUFFIXES if name.endswith(suffix))
        keys = frozenset(key[:-length] for key in scope.keys(expr) if key.endswith(name))
        return text(expr)[:-length], keys

    def assigned(self, name: str, place: Place) -> Iterator[tuple[f.Expr, Scope]]:
        """What is put into an attribute of self, by the class itself where it is told."""
        known = self._assigned.get(name)
        if known is None:
            known = self._assigned[name] = [
                (stmt.value, one)
                for one in self.mentioning(name)
                for stmt in f.statements(one.facts.body)
                if isinstance(stmt, f.Assign) and stmt.value is not None
                if any(_of_self(target, name) for target in stmt.targets)
            ]
        own = [row for row in known if (row[1].path, row[1].owner) == (place.path, place.owner)]
        for value, one in own or known:
            yield value, self.scope(one)

    def scope(self, place: Place) -> Scope:
        """The local names of a function."""
        known = self._scopes.get(id(place.facts))
        if known is None:
            known = self._scopes[id(place.facts)] = Scope(place.facts)
        return known

    def may_be_current(self, keys: Keys, place: Place) -> bool:
        """Whether an attribute of the class may hold the stream that is the current one."""
        for key in keys:
            head, _, name = key.partition(".")
            if head == "self" and name.isidentifier():
                for value, scope in self.assigned(name, place):
                    if any(current(option) for option in scope.options(value)):
                        return True
        return False


def _of_self(target: f.Expr, name: str) -> bool:
    return isinstance(target, f.Attr) and target.name == name and target.value == _SELF


def names_at(call: f.Call, callee: Place, scope: Scope) -> dict[str, Keys]:
    """What a callee's parameters, and its ``self``, are in the words of a caller."""
    function = callee.facts
    if not callee.owner or not isinstance(call.func, f.Attr):
        return given_names(function, call, scope)
    if "staticmethod" in function.decorators or not function.parameters:
        return given_names(function, call, scope)
    bound, *others = function.parameters
    without = msgspec.structs.replace(function, parameters=tuple(others))
    return {bound.name: scope.keys(call.func.value), **given_names(without, call, scope)}
