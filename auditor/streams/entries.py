"""Judges every block on a side stream of a side: is it ordered, and if not, is that in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from auditor.source import facts as f
from auditor.source.names import Derived
from auditor.streams.copies import on_host, statements, to_host, unblocking
from auditor.streams.flow import EVERYTHING, Block
from auditor.streams.identity import Keys, renamed
from auditor.streams.lookup import Lookup, Place, names_at
from auditor.streams.words import (
    ALLOCATIONS,
    called,
    collective,
    context,
    event_loop,
    receives,
    startup,
)
from auditor.vocabulary import Vocabulary

_UPWARDS = 2
"""Callers of callers."""


@dataclass(frozen=True)
class Entry:
    """A block on a side stream; lines are those of the file.

    ``ordered`` says that the stream waits before the block's work, ``edge`` where (0: not told by a
    line of this function). ``excuse`` says why one that is not ordered need not be.
    """

    place: Place
    line: int
    stream: str
    keys: Keys
    ordered: bool
    edge: int
    handed: bool
    work: tuple[f.Call, ...] = ()
    excuse: str = ""

    @property
    def name(self) -> str:
        """The last name of the stream, without an index."""
        return self.stream.rpartition(".")[2].partition("[")[0].partition("(")[0]

    @property
    def open(self) -> bool:
        """Whether it is neither ordered nor excused."""
        return not self.ordered and not self.excuse


def entries(
    path: str, module: f.ModuleFacts, vocabulary: Vocabulary, derived: Derived
) -> tuple[Entry, ...]:
    """The blocks of one file that start work on a side stream, by what the file says alone."""
    return derived.of(module, ("streams", path), lambda: tuple(_entries(path, module, vocabulary)))


def _entries(path: str, module: f.ModuleFacts, vocabulary: Vocabulary) -> Iterator[Entry]:
    lookup = Lookup({path: module}, vocabulary)
    for places in lookup.places.values():
        for place in places:
            if _may_enter(place.facts):
                for block in lookup.blocks(place):
                    if block.ordered is not None and not block.current:
                        yield _entry(place, block, vocabulary, lookup)


def _may_enter(function: f.FunctionFacts) -> bool:
    """Whether a function has a block at all that is named for a stream."""
    return any("tream" in name for name in function.mentions) and any(
        context(item)
        for stmt in statements(function)
        if isinstance(stmt, f.With)
        for item, _ in stmt.items
    )


def _entry(place: Place, block: Block, vocabulary: Vocabulary, lookup: Lookup) -> Entry:
    excuse = ""
    if not block.ordered:
        excuse = _excuse(place, block, vocabulary, lookup)
    edge = place.line(block.edge) if block.ordered and block.edge else 0
    return Entry(
        place,
        place.line(block.line),
        block.stream,
        block.keys,
        bool(block.ordered),
        edge,
        block.handed,
        tuple(block.work),
        excuse,
    )


def _excuse(place: Place, block: Block, vocabulary: Vocabulary, lookup: Lookup) -> str:
    if startup(place.facts.qualname, vocabulary):
        return "start-up"
    if event_loop(place.facts.name) or any(event_loop(called(call)) for call in block.work):
        return "event loop"
    if block.handed:
        return "handed over"
    if block.work and all(_brings(call, place, lookup) for call in block.work):
        return "receives"
    if lookup.may_be_current(block.keys, place):
        return "may be current"
    return ""


def _brings(call: f.Call, place: Place, lookup: Lookup) -> bool:
    """Whether a call fills what was made for it with what another rank sends or the host has."""
    name = called(call)
    if receives(name):
        return True
    if name in ("to", "copy_"):
        return _uploads(call, place, lookup)
    given = [arg for arg in call.args if isinstance(arg, f.Name)]
    return collective(name) and bool(given) and all(_made(arg, place, lookup) for arg in given)


def _uploads(call: f.Call, place: Place, lookup: Lookup) -> bool:
    """Whether a copy that does not block goes from the host into a new tensor of the device."""
    if not unblocking(call) or not isinstance(call.func, f.Attr):
        return False
    if call.func.name == "to":
        return not to_host(call, lookup.vocabulary)
    made = _made(call.func.value, place, lookup)
    return made is not None and not on_host(made, lookup.vocabulary)


def _made(expr: f.Expr, place: Place, lookup: Lookup) -> f.Call | None:
    """The allocation that a local name stands for."""
    if isinstance(expr, f.Name):
        for value in lookup.scope(place).values.get(expr.id, ()):
            if isinstance(value, f.Call) and called(value) in ALLOCATIONS:
                return value
    return None


def settled(entry: Entry, place: Place, lookup: Lookup) -> Entry:
    """An open entry with what more files say: helpers of theirs, callers, other methods.

    ``place`` is its function among those that can be looked up.
    """
    again = [
        _entry(place, block, lookup.vocabulary, lookup)
        for block in lookup.blocks(place)
        if place.line(block.line) == entry.line and block.ordered is not None
    ]
    found = next((one for one in again if one.stream == entry.stream), entry)
    if not found.open:
        return found
    told = _by_callers(place, entry.keys, lookup, 0)
    if not told:
        told = _as_put(found, lookup) or (told is None and _by_another_method(found, lookup))
    return replace(found, excuse="ordered elsewhere") if told else found


def _by_callers(place: Place, keys: Keys, lookup: Lookup, depth: int) -> bool | None:
    """Whether every caller makes the stream wait before it calls; None where none is known."""
    name = place.facts.name
    answers: list[bool] = []
    for caller in lookup.users(place):
        for site in lookup.sites(caller, name):
            mine = renamed(keys, names_at(site.call, place, site.scope))
            met = mine & (site.held | site.on) or site.held & {EVERYTHING}
            if not met and mine and depth < _UPWARDS:
                met = mine if _by_callers(caller, mine, lookup, depth + 1) else frozenset()
            answers.append(bool(met))
    return all(answers) if answers else None


def _attributes(entry: Entry) -> set[str]:
    """The attributes of self that the stream of an entry may be in."""
    mine = {key for key in entry.keys if key.startswith("self.")}
    return {key.split(".")[1].partition("[")[0] for key in mine}


def _as_put(entry: Entry, lookup: Lookup) -> bool:
    """Whether only streams that already wait are put into the attribute that holds the stream."""
    place = entry.place
    for name in _attributes(entry):
        owners = [p for p in lookup.mentioning(name) if p.owner == place.owner]
        puts = [w.kept[name] for p in owners if name in (w := lookup.walk(p)).kept]
        if puts and all(puts):
            return True
    return False


def _by_another_method(entry: Entry, lookup: Lookup) -> bool:
    """Whether a method of the class is there to make the stream wait, and does nothing on it."""
    mine = {key for key in entry.keys if key.startswith("self.")}
    users = {id(p.facts): p for name in _attributes(entry) for p in lookup.mentioning(name)}
    for other in users.values():
        if (other.path, other.owner) != (entry.place.path, entry.place.owner):
            continue
        if other.facts is not entry.place.facts and lookup.makes_wait(other) & mine:
            if not any(block.keys & mine for block in lookup.blocks(other)):
                return True
    return False
