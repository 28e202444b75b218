"""Tells raw reads that may be no more than the target of a store, by what stands beside them.

A kernel of unknown body that is handed a raw buffer may read it or store to it. For a store speaks
a location beside it at which, elsewhere in the tree, the pools' own setters store. But an attention
kernel may store the new rows and read the old ones too: then it must be told where those are, so
nothing may stand beside it that the tree hands to readers alone. What a kernel makes of locals that
no other code hands to readers is not told by this, and so it lowers the confidence and does not
silence.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property

from auditor.gates.norm import SiblingNorm
from auditor.gates.readings import Readings
from auditor.gates.values import Read
from auditor.source import facts as f
from auditor.source.names import Function


class Targets:
    """What is handed to setters and to readers on one side."""

    def __init__(self, norm: SiblingNorm, readings: Readings) -> None:
        self.norm = norm
        self.readings = readings

    def may_be(self, function: Function, read: Read) -> bool:
        """Whether what reads is a call, its result not taken, that may only store there.

        It is handed a write location, and nothing that only readers are handed.
        """
        body = _Body(function)
        for call in body.calls:
            if (call.line, call.column) == read.handed:
                given = _given(call)
                others = [a for a in given if not self._is_location(a, body)]
                beside = frozenset().union(*map(body.names, others))
                return len(others) < len(given) and beside.isdisjoint(self._only_read)
        return False

    # -- what setters are handed -----------------------------------------------------------------

    @cached_property
    def _setters(self) -> dict[str, list[tuple[Function, str]]]:
        """The families' writers by name, with the parameters that say where they store."""
        writers = [
            method
            for key in self.readings.families
            for name, method in self.readings.index.classes[key].methods.items()
            if self.readings.duty(name) == "write"
        ]
        # In one family a parameter plays the same part under the same name.
        places = {name for method in writers for name in _stored_at(method)}
        found: dict[str, list[tuple[Function, str]]] = {}
        for method in writers:
            for parameter in method.facts.parameters:
                if parameter.name in places:
                    found.setdefault(method.facts.name, []).append((method, parameter.name))
        return found

    @cached_property
    def _locations(self) -> list[tuple[f.Expr, _Body]]:
        """What callers hand the setters as the place to store at."""
        found: list[tuple[f.Expr, _Body]] = []
        for body, call in self._calls_of(self._setters):
            for method, parameter in self._setters[_called(call)]:
                argument = _argument(call, method, parameter)
                if argument is not None:
                    found.append((argument, body))
        return found

    @cached_property
    def _held(self) -> frozenset[str]:
        """The attributes that hold such places."""
        sources = (s for argument, body in self._locations for s in body.sources(argument))
        return frozenset(s.name for s in sources if isinstance(s, f.Attr))

    @cached_property
    def _translators(self) -> frozenset[str]:
        """The methods that make such a place of another."""
        sources = (s for argument, body in self._locations for s in body.sources(argument))
        return frozenset(_called(s) for s in sources if isinstance(s, f.Call)) - {""}

    def _is_location(self, expr: f.Expr, body: _Body, known: frozenset[str] = frozenset()) -> bool:
        """Whether an expression stands for a write location, whatever its locals were given.

        ``known`` are locals of which the same is being asked.
        """
        found = list(body.followed(expr, known))
        if not found:
            return bool(known)  # nothing but what is being asked
        return all(self._tells(source, body, names) for source, names in found)

    def _tells(self, source: f.Expr, body: _Body, known: frozenset[str]) -> bool:
        if isinstance(source, f.Attr):
            return source.name in self._held
        if not isinstance(source, f.Call) or not isinstance(source.func, f.Attr):
            return False
        if source.func.name in self._translators and len(source.args) == 1:
            if self._is_location(source.args[0], body, known):
                return True
        return self._is_location(source.func.value, body, known)  # ``loc.long()``

    # -- what readers are handed -----------------------------------------------------------------

    @cached_property
    def _only_read(self) -> frozenset[str]:
        """What is handed to getters, or with what they hand out to other calls, and to no store.

        These are the attributes and parameters that tell readers where the old rows are.
        """
        getters = {name for _, name in self.norm.symbols}
        read: set[str] = set()
        stored: set[str] = set()
        for function in self._mentioning({*getters, *self._setters}):
            body = _Body(function)
            for call in body.calls:
                given = _given(call)
                taken = [a for a in given if any(_called(s) in getters for s in body.chain(a))]
                if not taken and _called(call) not in (getters | self._setters.keys()):
                    continue
                names = {n for a in given if a not in taken for n in body.names(a)}
                if self.readings.evaluator.stores(f.dotted(call.func)):
                    stored |= names
                elif not any(self._is_location(argument, body) for argument in given):
                    read |= names
        tells = self.readings.evaluator.tells_metadata
        return frozenset(name for name in read - stored if not tells(name))

    def _calls_of(self, names: Collection[str]) -> Iterator[tuple[_Body, f.Call]]:
        for function in self._mentioning(names):
            body = _Body(function)
            for call in body.calls:
                if _called(call) in names:
                    yield body, call

    def _mentioning(self, names: Collection[str]) -> list[Function]:
        found: dict[tuple[object, ...], Function] = {}
        for name in sorted(names):
            for function in self.readings.index.mentioning(name):
                found[function.key] = function
        return list(found.values())


class _Body:
    """A function's calls, and what its locals stand for."""

    def __init__(self, function: Function) -> None:
        self.calls: list[f.Call] = []
        self._parameters = {p.name for p in function.facts.parameters}
        self._assigned: dict[str, list[f.Expr]] = {}
        for stmt in f.statements(function.facts.body):
            for top in f.expressions(stmt):
                self.calls += [node for node in f.walk(top) if isinstance(node, f.Call)]
            if isinstance(stmt, f.Assign) and stmt.value is not None:
                for target in stmt.targets:
                    self._bind(target, stmt.value)
            elif isinstance(stmt, f.Loop) and stmt.target is not None:
                self._bind(stmt.target, _UNKNOWN)

    def _bind(self, target: f.Expr, value: f.Expr) -> None:
        if isinstance(target, f.Name):
            self._assigned.setdefault(target.id, []).append(value)
        elif isinstance(target, f.Group):
            one_each = isinstance(value, f.Group) and len(value.parts) == len(target.parts)
            values = value.parts if isinstance(value, f.Group) and one_each else ()
            for position, part in enumerate(target.parts):
                self._bind(part, values[position] if values else _UNKNOWN)

    def sources(self, expr: f.Expr) -> Iterator[f.Expr]:
        """What an expression stands for, seen through locals, choices and subscripts."""
        return (source for source, _ in self.followed(expr, frozenset()))

    def followed(
        self, expr: f.Expr, known: frozenset[str]
    ) -> Iterator[tuple[f.Expr, frozenset[str]]]:
        """The same, each with the locals on the way; those that are ``known`` are not followed."""
        inner: Sequence[f.Expr]
        match expr:
            case f.Name(id=name) if name in known:
                return
            case f.Name(id=name) if name in self._assigned:
                known = known | {name}
                inner = self._assigned[name]
                if name in self._parameters:
                    inner = (*inner, _UNKNOWN)
            case f.Sub():
                inner = (expr.value,)
            case f.Choice():
                inner = (expr.body, expr.orelse)
            case _:
                yield expr, known
                return
        for part in inner:
            yield from self.followed(part, known)

    def chain(self, expr: f.Expr, known: frozenset[str] = frozenset()) -> Iterator[f.Expr]:
        """What an expression stands for, and what that is asked of (``loc`` of ``loc.long()``)."""
        for source, names in self.followed(expr, known):
            yield source
            if isinstance(source, f.Call) and isinstance(source.func, f.Attr):
                yield from self.chain(source.func.value, names)

    def names(self, expr: f.Expr) -> frozenset[str]:
        """The attributes and parameters that an expression stands for, or asks something of."""
        found = list(self.chain(expr))
        return frozenset(s.name for s in found if isinstance(s, f.Attr)) | frozenset(
            s.id for s in found if isinstance(s, f.Name) and s.id in self._parameters
        )


_UNKNOWN = f.Const("other")


def _given(call: f.Call) -> tuple[f.Expr, ...]:
    return (*call.args, *(value for _, value in call.keywords))


def _called(expr: f.Expr) -> str:
    """The name of the method that an expression calls; empty where it calls none."""
    match expr:
        case f.Call(func=f.Attr(name=name)):
            return name
    return ""


def _stored_at(method: Function) -> set[str]:
    """The parameters that say where in a member something is stored: ``rows[layer][loc] = new``."""
    parameters = {p.name for p in method.facts.parameters}
    return {
        target.index.id
        for stmt in f.statements(method.facts.body)
        if isinstance(stmt, f.Assign)
        for target in stmt.targets
        if isinstance(target, f.Sub) and isinstance(target.value, f.Sub)
        if isinstance(target.index, f.Name) and target.index.id in parameters
    }


def _argument(call: f.Call, method: Function, parameter: str) -> f.Expr | None:
    """What a call of a method gives for a parameter; None where that cannot be told."""
    for name, value in call.keywords:
        if name == parameter:
            return value
    names = [p.name for p in method.facts.parameters if p.kind == "plain"][1:]
    place = names.index(parameter) if parameter in names else len(call.args)
    starred = any(isinstance(a, f.Group) and a.op == "star" for a in call.args)
    return call.args[place] if place < len(call.args) and not starred else None
