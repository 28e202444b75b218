"""Copies to the host that do not block: which they are, and whether anything waits for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from auditor.source import facts as f
from auditor.streams.identity import Scope, text
from auditor.streams.lookup import Lookup, Place
from auditor.streams.words import ALLOCATIONS, called, last, orders
from auditor.vocabulary import Vocabulary, words

_RECORDS = frozenset({"record", "event", "events"})
_BLOCKING = frozenset({"cpu", "query"})
_UPWARDS = 2


@dataclass(frozen=True)
class Copy:
    """A copy to the host; ``line`` is that of the file, ``target`` what is copied, as text.

    ``sure`` says that the copy's own words tell that it goes to the host.
    """

    place: Place
    line: int
    column: int
    target: str
    sure: bool


def unblocking(call: f.Call) -> bool:
    """Whether a copy says that it does not block."""
    return any(
        name == "non_blocking" and value == f.Const("bool", "True") for name, value in call.keywords
    )


def to_host(call: f.Call, vocabulary: Vocabulary) -> bool:
    """Whether a ``to`` names the host: ``"cpu"``, or ``torch.device("cpu")``."""
    named = [value for name, value in call.keywords if name == "device"]
    inner = [arg for one in call.args if isinstance(one, f.Call) for arg in _device(one)]
    inner += [arg for one in named if isinstance(one, f.Call) for arg in _device(one)]
    for given in (*call.args, *named, *inner):
        if isinstance(given, f.Const) and given.text.strip("'\"") in vocabulary.host_words:
            return True
    return False


def _device(call: f.Call) -> Sequence[f.Expr]:
    """What ``torch.device`` is called with."""
    return call.args if called(call) == "device" else ()


def on_host(made: f.Call, vocabulary: Vocabulary) -> bool:
    """Whether an allocation is one of the host: pinned, or for the device ``cpu``."""
    pinned = any(
        name == "pin_memory" and value != f.Const("bool", "False") for name, value in made.keywords
    )
    return pinned or called(made) == "pin_memory" or to_host(made, vocabulary)


def copies(place: Place, lookup: Lookup) -> Iterator[Copy]:
    """The copies of a function that go to the host and do not block."""
    scope = lookup.scope(place)
    for call in calls(place.facts):
        if not isinstance(call.func, f.Attr) or not unblocking(call):
            continue
        if call.func.name == "to" and to_host(call, lookup.vocabulary):
            yield Copy(place, place.line(call.line), call.column, text(call.func.value), True)
        elif call.func.name == "copy_" and call.args:
            into, source = call.func.value, call.args[0]
            if _hosts(into, scope, place, lookup) and not _hosts(source, scope, place, lookup):
                sure = _allocated(into, scope, place, lookup)
                yield Copy(place, place.line(call.line), call.column, text(source), sure)


def calls(function: f.FunctionFacts) -> Iterator[f.Call]:
    """Every call of a function, those of the functions in its body too."""
    pending = [function]
    while pending:
        for stmt in f.statements(pending.pop().body):
            if isinstance(stmt, f.Define):
                pending.append(stmt.function)
            for top in f.expressions(stmt):
                yield from (node for node in f.walk(top) if isinstance(node, f.Call))


def _hosts(expr: f.Expr, scope: Scope, place: Place, lookup: Lookup) -> bool:
    """Whether a buffer is one of the host, by its name or by how it is made."""
    expr = _buffer(expr)
    named = not lookup.vocabulary.host_words.isdisjoint(words(last(expr)))
    return named or _allocated(expr, scope, place, lookup)


def _buffer(expr: f.Expr) -> f.Expr:
    """The buffer that an index or a view of it is taken of."""
    while True:
        if isinstance(expr, f.Sub):
            expr = expr.value
        elif isinstance(expr, f.Call) and isinstance(expr.func, f.Attr) and not _makes(expr):
            expr = expr.func.value
        else:
            return expr


def _makes(call: f.Call) -> bool:
    return called(call) in ALLOCATIONS or called(call) == "pin_memory"


def _allocated(expr: f.Expr, scope: Scope, place: Place, lookup: Lookup) -> bool:
    """Whether the allocation of a buffer is seen, and is one of the host."""
    expr = _buffer(expr)
    values = scope.options(expr)
    if isinstance(expr, f.Attr) and expr.value == f.Name("self"):
        put = lookup.assigned(expr.name, place)
        values = [option for value, where in put for option in where.options(value)]
    return any(
        isinstance(value, f.Call) and _makes(value) and on_host(value, lookup.vocabulary)
        for value in values
    )


def answers(function: f.FunctionFacts, vocabulary: Vocabulary) -> bool:
    """Whether a function waits for what it enqueues, or records or hands on an event of it."""
    for call in calls(function):
        name = called(call)
        parts = set(words(name))
        if name in vocabulary.primitive_waits or orders(name) or name in _BLOCKING:
            return True
        if not _RECORDS.isdisjoint(parts):
            return True
    return any(not _RECORDS.isdisjoint(words(name)) for name in function.mentions) or any(
        not _RECORDS.isdisjoint(words(parameter.name)) for parameter in function.parameters
    )


def answered(place: Place, lookup: Lookup, depth: int = 0) -> bool:
    """Whether a function, or everything that calls it, waits for the copy or records an event."""
    if answers(place.facts, lookup.vocabulary):
        return True
    users = lookup.users(place)
    if not users or depth >= _UPWARDS:
        return False
    return all(answered(one, lookup, depth + 1) for one in users)
