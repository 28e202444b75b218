"""Copies to the host that do not block: which they are, and whether anything waits for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from auditor.source import facts as f
from auditor.streams.identity import Scope, text
from auditor.streams.lookup import Lookup, Place
from auditor.streams.words import ALLOCATIONS, called, last, orders
from auditor.vocabulary import Vocabulary, words

_RECORDS = frozenset({"record", "event", "events"})
_BLOCKING = frozenset({"cpu", "query"})
_READERS = frozenset({"tolist", "item", "numpy"})
_READING = frozenset({"int", "float", "bool", "list", "sum", "min", "max", "sorted", "any", "all"})
_SELF = f.Name("self")
_UPWARDS = 2


@dataclass(frozen=True)
class Copy:
    """A copy to the host; ``line`` is that of the file, ``target`` what is copied, as text.

    ``read`` says that the host is seen to read it: in the function, or in another one of the class
    that does not wait.
    """

    place: Place
    line: int
    column: int
    target: str
    read: bool


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
        copied: f.Expr | None = None
        if call.func.name == "to" and to_host(call, lookup.vocabulary):
            copied = call.func.value
        elif call.func.name == "copy_" and call.args:
            into, source = call.func.value, call.args[0]
            if _hosts(into, scope, place, lookup) and not _hosts(source, scope, place, lookup):
                copied = source
        if copied is not None:
            read = call.func.name == "to" and _read(call, place, lookup)
            yield Copy(place, place.line(call.line), call.column, text(copied), read)


def _read(copy: f.Call, place: Place, lookup: Lookup) -> bool:
    """Whether the host is seen to read what a ``to`` gives."""
    names: set[str] = set()
    for stmt in statements(place.facts):
        if isinstance(stmt, (f.If, f.Loop)):
            tops = tuple(f.expressions(stmt))
            if any(node is copy or _named(node, names) for top in tops for node in f.walk(top)):
                return True
        if isinstance(stmt, f.Assign) and stmt.value is copy:
            names |= {target.id for target in stmt.targets if isinstance(target, f.Name)}
            kept = [t.name for t in stmt.targets if isinstance(t, f.Attr) and t.value == _SELF]
            if any(_read_elsewhere(name, place, lookup) for name in kept):
                return True
    return any(_reads(call, copy, names) for call in calls(place.facts))


def _named(node: f.Expr, names: Iterable[str]) -> bool:
    return isinstance(node, f.Name) and node.id in names


def _reads(call: f.Call, copy: f.Call, names: Iterable[str]) -> bool:
    """Whether a call takes the elements of a copy: ``host.tolist()``, ``int(host)``."""
    if isinstance(call.func, f.Attr) and call.func.name in _READERS:
        return any(node is copy or _named(node, names) for node in f.walk(call.func.value))
    if isinstance(call.func, f.Name) and call.func.id in _READING:
        return any(arg is copy or _named(arg, names) for arg in call.args)
    return False


def _read_elsewhere(name: str, place: Place, lookup: Lookup) -> bool:
    """Whether another method of the class takes an attribute and waits for nothing."""
    return any(
        other.facts is not place.facts
        and (other.path, other.owner) == (place.path, place.owner)
        and not answers(other.facts, lookup.vocabulary)
        and any(_taken(stmt, name) for stmt in statements(other.facts))
        for other in lookup.mentioning(name)
    )


def _taken(stmt: f.Stmt, name: str) -> bool:
    """Whether a statement takes an attribute of self, and does not only put something there."""
    tops = [stmt.value] if isinstance(stmt, f.Assign) else f.expressions(stmt)
    return any(
        isinstance(node, f.Attr) and node.name == name and node.value == _SELF
        for top in tops
        if top is not None
        for node in f.walk(top)
    )


def statements(function: f.FunctionFacts) -> Iterator[f.Stmt]:
    """Every statement of a function, those of the functions in its body too."""
    for stmt in f.statements(function.body):
        yield stmt
        if isinstance(stmt, f.Define):
            yield from statements(stmt.function)


def calls(function: f.FunctionFacts) -> Iterator[f.Call]:
    """Every call of a function, those of the functions in its body too."""
    for stmt in statements(function):
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
