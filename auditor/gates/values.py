"""What an expression may stand for: access paths, the parameters it depends on, and held gates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec

from auditor.source.names import ClassKey, Function

Path: TypeAlias = tuple[str, ...]
"""An access path: a root (``self``, ``param:x``, ``global:x``) and steps.

A step is an attribute name, ``[]`` for a subscript (``[0]`` by a constant, ``[*]`` by a loop's own
variable only) or ``name()`` for the result of a call whose body is not known. A gate that is waited
on only where a parameter says so has the step ``?parameter`` before its path.
"""

Keys: TypeAlias = frozenset[str]
"""Names of the parameters a value is computed from; ``LOOP`` for a loop's own variable."""

Types: TypeAlias = tuple[tuple[str, frozenset[ClassKey]], ...]
"""Parameter names with the classes of what they are given."""

LOOP = "@loop"
ELEMENT = "[]"
FIXED = "[0]"
LOOPED = "[*]"
RESULT = "()"
MEMBERS = frozenset((ELEMENT, FIXED, LOOPED))
"""Steps to a member of a container."""
SELF: Path = ("self",)

_LONGEST = 9
_WIDEST = 8
NO_KEYS: Keys = frozenset()


class Place(msgspec.Struct, frozen=True, array_like=True):
    """A position in a named function; in summaries lines count from its ``def``, which is 1."""

    path: str
    qualname: str
    line: int
    column: int = 1


Taken: TypeAlias = "tuple[tuple[Path, tuple[int, int, Place | None]], ...]"
"""Path → line, column and origin of the value that led to it, before several were joined."""

Guards: TypeAlias = "tuple[tuple[Path, tuple[tuple[Path, Keys | None], ...]], ...]"
"""Path → the gates that were held on the way to it."""


class Value(msgspec.Struct, frozen=True, array_like=True):
    """The abstract value of an expression.

    ``parts`` are the members of a tuple or list display. ``line``/``column`` is where the function
    at hand came by it, ``origin`` where the element was taken, maybe in a callee. ``local`` is a
    function defined in the same body. ``text`` is a string literal, ``none`` a None or False.
    ``guards`` are gates held for one of the paths only, since it was returned behind them;
    ``taken`` is for paths that were come by elsewhere, on another branch.
    """

    paths: frozenset[Path] = frozenset()
    deps: Keys = NO_KEYS
    types: frozenset[ClassKey] = frozenset()
    parts: tuple[Value, ...] = ()
    line: int = 0
    column: int = 1
    origin: Place | None = None
    guards: Guards = ()
    text: str = ""
    none: bool = False
    local: Function | None = None
    taken: Taken = ()

    @property
    def keys(self) -> Keys:
        """The parameters it depends on when it is used as an index or argument."""
        keys = self.deps
        for path in self.paths:
            if path[0].startswith("param:"):
                keys |= {path[0][6:]}
        for part in self.parts:
            keys |= part.keys
        return keys

    def step(self, name: str, types: frozenset[ClassKey], deps: Keys = NO_KEYS) -> Value:
        """The value one step further along its paths."""
        return Value(
            frozenset([_longer(p, name) for p in self.paths]),
            self.deps | deps if deps else self.deps,
            types,
            (),
            self.line,
            self.column,
            self.origin,
            tuple((_longer(p, name), held) for p, held in self.guards) if self.guards else (),
            taken=tuple((_longer(p, name), t) for p, t in self.taken) if self.taken else (),
        )

    def guard(self, path: Path) -> tuple[tuple[Path, Keys | None], ...]:
        """The gates held for one path beyond those of the moment."""
        return next((held for p, held in self.guards if p == path), ())

    def came_by(self, path: Path) -> tuple[int, int, Place | None]:
        """Line, column and origin of one of its paths."""
        own = (self.line, self.column, self.origin)
        return next((taken for p, taken in self.taken if p == path), own)

    def at(self, place: Place) -> Value:
        """The same value, taken at another place."""
        return Value(
            self.paths,
            self.deps,
            self.types,
            self.parts,
            place.line,
            place.column,
            place,
            self.guards,
            self.text,
            self.none,
            self.local,
        )


NOTHING = Value()


def _longer(path: Path, step: str) -> Path:
    return path if len(path) >= _LONGEST else (*path, step)


def is_element(path: Path) -> bool:
    """Whether a path leads to a member of what an attribute holds."""
    return len(path) > 2 and any(_is_taking(step) for step in path[2:])


def _is_taking(step: str) -> bool:
    return step in MEMBERS or step.endswith(RESULT)


def is_data(path: Path) -> bool:
    """Whether a path may lead to a buffer's elements: a member, or what a caller handed over."""
    return is_element(path) or (len(path) == 1 and path[0].startswith("param:"))


def join_values(values: Iterable[Value]) -> Value:
    """Either of several values."""
    known = list(dict.fromkeys(v for v in values if v != NOTHING))
    if not known:
        return NOTHING
    if len(known) == 1:
        return known[0]
    paths = frozenset().union(*(v.paths for v in known))
    if len(paths) > _WIDEST:
        paths = frozenset(sorted(paths)[:_WIDEST])
    first = next((v for v in known if v.line), known[0])
    sizes = {len(v.parts) for v in known if v.parts}
    parts: tuple[Value, ...] = ()
    if len(sizes) == 1:
        rows = [v.parts for v in known if v.parts]
        parts = tuple(join_values(column) for column in zip(*rows, strict=True))
    return Value(
        paths,
        frozenset().union(*(v.deps for v in known)),
        frozenset().union(*(v.types for v in known)),
        parts,
        first.line,
        first.column,
        first.origin,
        _join_guards(known),
        none=all(v.none for v in known),
        local=first.local,
        taken=_join_taken(known, first),
    )


def _join_taken(values: list[Value], first: Value) -> Taken:
    """A path is taken where the first value that leads to it took it."""
    places = {(v.line, v.column, v.origin) for v in values}
    if len(places) == 1 and not any(v.taken for v in values):
        return ()
    own = (first.line, first.column, first.origin)
    found: dict[Path, tuple[int, int, Place | None]] = {}
    for value in values:
        for path in value.paths:
            found.setdefault(path, value.came_by(path))
    return tuple(sorted((p, taken) for p, taken in found.items() if taken != own))


def _join_guards(values: list[Value]) -> Guards:
    """A path keeps the gates that every value which leads to it holds for it."""
    if not any(v.guards for v in values):
        return ()
    joined: dict[Path, dict[Path, Keys | None]] = {}
    for value in values:
        for path in value.paths:
            own = dict(value.guard(path))
            joined[path] = join_held(joined[path], own) if path in joined else own
    return tuple((p, tuple(sorted(held.items()))) for p, held in sorted(joined.items()) if held)


Held: TypeAlias = Mapping[Path, "Keys | None"]
"""Gates that were waited on along every path to a point: receiver → the keys it was waited for.

None stands for every key: the wait was made for all of them, or the gate is known to be absent.
"""


def join_held(left: Held, right: Held) -> dict[Path, Keys | None]:
    """What is held whichever of two ways was taken."""
    held: dict[Path, Keys | None] = {}
    for token, keys in left.items():
        if token in right:
            other = right[token]
            common = other if keys is None else keys if other is None else keys & other
            if common is None or common:
                held[token] = common
    return held


def add_held(held: dict[Path, Keys | None], token: Path, keys: Keys | None) -> None:
    """Add a wait to what is held."""
    before = held.get(token, NO_KEYS)
    held[token] = None if before is None or keys is None else before | keys


class Read(msgspec.Struct, frozen=True, array_like=True):
    """One use of a buffer's elements.

    ``use`` is ``return`` (handed to the caller, who decides), ``read`` or ``store``. ``origin`` is
    where the element is taken, ``line`` where the function at hand does it or calls who does.
    ``held`` are the gates held on every path, ``may`` those waited on along some path before.
    ``ordered`` tells of another wait (an event, a stream) held on every path. ``handed`` is where
    they are handed to a call of unknown body whose result nobody takes: its line and column.
    """

    path: Path
    keys: Keys
    held: tuple[tuple[Path, Keys | None], ...]
    may: frozenset[Path]
    use: str
    line: int
    column: int
    origin: Place
    ordered: bool = False
    handed: tuple[int, int] | None = None


class Wait(msgspec.Struct, frozen=True, array_like=True):
    """One wait: on what, for which keys, and where.

    ``kind`` is as in the vocabulary, or ``believed`` where only a method's name tells of it.
    """

    token: Path
    keys: Keys
    kind: str
    line: int
    origin: Place


class CallSite(msgspec.Struct, frozen=True, array_like=True):
    """A method call on a tracked object; ``given`` are the arguments by position or name."""

    receivers: frozenset[Path]
    name: str
    types: frozenset[ClassKey]
    arguments: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]
    held: tuple[tuple[Path, Keys | None], ...]
    may: frozenset[Path]
    used: bool
    line: int
    column: int

    @property
    def keys(self) -> Keys:
        """The parameters its arguments depend on."""
        values = [*self.arguments, *(v for _, v in self.keywords)]
        return NO_KEYS.union(*(v.keys for v in values))


class Summary(msgspec.Struct, frozen=True, array_like=True):
    """What a function does to its receiver and parameters.

    ``exit_held`` is what every normal way out has waited on, ``result`` what it returns.
    """

    reads: tuple[Read, ...] = ()
    waits: tuple[Wait, ...] = ()
    calls: tuple[CallSite, ...] = ()
    exit_held: tuple[tuple[Path, Keys | None], ...] = ()
    exit_may: frozenset[Path] = frozenset()
    exit_ordered: bool = False
    result: Value = NOTHING

    @property
    def only_waits(self) -> bool:
        """Whether it waits and reads nothing."""
        return bool(self.exit_held) and not self.reads
