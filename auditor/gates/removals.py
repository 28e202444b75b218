"""Waits on a gate that another side's version of a reader makes and this one's no longer does.

Waits of every other kind are held against each other in ``waits``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from auditor.gates.events import EVERYTHING
from auditor.gates.gaps import Gap, Sibling
from auditor.gates.indices import shifted
from auditor.gates.kept import kept_views
from auditor.gates.readings import Readings, key_parameters, reads_elements
from auditor.gates.values import ELEMENT, NO_KEYS, SELF, Path, Place, Read, Wait
from auditor.model import Side
from auditor.source import facts as f
from auditor.source.names import Function
from auditor.vocabulary import words

_PART = frozenset(("stream", "event"))
"""Of a device: what is asked for one of them does not wait for everything."""

Functions = Mapping[str, Sequence[Function]]
"""Functions by qualified name."""


def removed_waits(
    mine: tuple[Side, Readings, Functions],
    others: Sequence[tuple[Side, Readings, Functions]],
    explained: set[tuple[str, str]],
) -> Iterator[Gap]:
    """One gap a function that lost a wait, unless the wait moved or ``explained`` covers it."""
    _, readings, functions = mine
    for other_side, other, theirs in others:
        telling = other.waiting_names | readings.words.primitive_waits.keys()
        for name, versions in sorted(theirs.items()):
            if len(versions) != 1 or len(functions.get(name, ())) != 1:
                continue
            before, after = versions[0], functions[name][0]
            if (after.path, name) in explained or not _may_wait(before, telling):
                continue
            if before.facts.digest == after.facts.digest:
                continue
            if before.facts.decorators != after.facts.decorators:
                continue  # what a new decorator does is not followed
            # The index of a wait that a function makes itself is compared in ``waits``.
            wrong = shifted(before, after, other.waiting_names)
            if not (wrong or _says_less(before, after, telling) or _returns_more(before, after)):
                continue
            lost = _lost(other, before, readings, after)
            lost = [w for w in lost if not _moved(w, after, readings, functions, other, theirs)]
            early = None if lost else _handed_out_early(readings, after, other, before)
            if wrong or early:
                lost = [w for w in other.summary(before, before.owner).waits if w.kind == "keyed"]
            whole = early or _handed_whole(readings, after, other, before)
            if not lost or not (whole or _still_reads(readings, after, other, before)):
                continue
            first = whole or _first_read(readings, after)
            if first is not None and _on_its_gate(lost[0], first, other.is_gate(lost[0].token)):
                explained.add((after.path, name))
                yield _gap(lost[0], before, other_side, after, first, bool(wrong))


def _may_wait(function: Function, telling: frozenset[str]) -> bool:
    return not telling.isdisjoint(function.facts.mentions)


def _says_less(before: Function, after: Function, telling: frozenset[str]) -> bool:
    """Whether a text lost a wait, or the name of something that waits: worth summing it up."""
    if telling & set(before.facts.mentions) - set(after.facts.mentions):
        return True
    own = _calls_of(before, telling), _calls_of(after, telling)
    return any(count > own[1][call] for call, count in own[0].items())


def _returns_more(before: Function, after: Function) -> bool:
    """Whether a text has a way out that it did not have: worth asking what is returned there."""
    return _ways_out(after) > _ways_out(before)


def _ways_out(function: Function) -> int:
    return sum(
        isinstance(stmt, f.Exit) and stmt.kind == "return"
        for stmt in f.statements(function.facts.body)
    )


def _calls_of(function: Function, telling: frozenset[str]) -> Counter[tuple[str, str]]:
    """(receiver's last name, method) of the calls with a telling name."""
    found: Counter[tuple[str, str]] = Counter()
    for stmt in f.statements(function.facts.body):
        if isinstance(stmt, f.Assign) and isinstance(stmt.value, f.Lambda):
            continue  # put away, and not called here
        for top in f.expressions(stmt):
            for node in f.walk(top):
                if isinstance(node, f.Call) and isinstance(node.func, f.Attr):
                    if node.func.name in telling:
                        found[f.dotted(node.func.value).rpartition(".")[2], node.func.name] += 1
    return found


def _lost(other: Readings, before: Function, readings: Readings, after: Function) -> list[Wait]:
    """Waits made by the function itself, or by a callee that only waits, and not made now."""
    now = readings.summary(after, after.owner).waits
    then = other.summary(before, before.owner).waits
    kept = {_name(w) for w in now}
    # Whichever module is asked to wait for the whole device, the device is waited for.
    whole = sum(map(_whole, now)) >= sum(map(_whole, then))
    return [
        w
        for w in then
        if w.kind != "believed" and _name(w) and _name(w) not in kept and _plain(other, w, before)
        if not (whole and _whole(w))
    ]


def _whole(wait: Wait) -> bool:
    """Whether a module is asked to wait, and not a stream or an event that it was asked for."""
    root, *steps = wait.token
    return (
        wait.kind == "device"
        and root.startswith("global:")
        and _PART.isdisjoint(word for step in steps for word in words(step))
    )


def _plain(other: Readings, wait: Wait, function: Function) -> bool:
    place = (wait.origin.path, wait.origin.qualname)
    if place == (function.path, function.facts.qualname):
        return True
    owner, _, name = wait.origin.qualname.rpartition(".")
    known = other.index.classes.get((wait.origin.path, owner))
    made = known.methods.get(name) if known else other.index.functions.get(place)
    if made is None or made.facts.name not in function.facts.mentions:
        return False
    return not any(map(reads_elements, other.summary(made, made.owner).reads))


def _still_reads(readings: Readings, after: Function, other: Readings, before: Function) -> bool:
    """Whether what the wait protected is still read, and not behind a wait for everything."""
    summary = readings.summary(after, after.owner)
    if EVERYTHING in dict(summary.exit_held):
        return False
    read_before = any(map(reads_elements, other.summary(before, before.owner).reads))
    return not read_before or any(map(reads_elements, summary.reads))


def _handed_out_early(
    readings: Readings, after: Function, other: Readings, before: Function
) -> Read | None:
    """A view that was kept, and is returned before the wait that every earlier way out made."""
    now = readings.summary(after, after.owner)
    gates = {t for t, _ in other.summary(before, before.owner).exit_held if other.is_gate(t)}
    if after.owner is None or not gates or gates & dict(now.exit_held).keys():
        return None
    kept = kept_views(readings, after.owner)
    early = [
        r
        for r in now.reads
        if r.use == "return" and len(r.path) > 1 and r.path[1] in kept and reads_elements(r)
        if r.path[0] == SELF[0] and readings.gate_held(r, after.owner) is None
    ]
    return min(early, key=lambda r: (r.line, r.column), default=None)


def _handed_whole(
    readings: Readings, after: Function, other: Readings, before: Function
) -> Read | None:
    """A call that is handed a buffer whole, with what chose the element that was read before.

    What a callee of unknown body takes of it is told by the version that took it itself.
    """
    reads = [r for r in other.summary(before, before.owner).reads if reads_elements(r)]
    roots = {r.path[1]: r.keys for r in reads if r.path[0] == SELF[0]}
    facts = after.facts
    for stmt in f.statements(facts.body):
        for call in (n for top in f.expressions(stmt) for n in f.walk(top)):
            if not isinstance(call, f.Call):
                continue
            if readings.evaluator.stores(f.dotted(call.func)):
                continue
            given = (*call.args, *(value for _, value in call.keywords))
            names = {n.id for a in given for n in f.walk(a) if isinstance(n, f.Name)}
            for value in given:
                if isinstance(value, f.Attr) and value.value == f.Name(SELF[0]):
                    keys = roots.get(value.name, NO_KEYS) & names
                    if keys:
                        path = (SELF[0], value.name, ELEMENT)
                        place = Place(after.path, facts.qualname, value.line, value.column)
                        return Read(
                            path, keys, (), frozenset(), "read", value.line, value.column, place
                        )
    return None


def _name(wait: Wait) -> str:
    """The attribute or parameter waited on; empty for a passing object (the current stream)."""
    for step in reversed(wait.token):
        if step.isidentifier():
            return step
        if step.endswith("()") or step.startswith("global:"):
            return ""
        if step.startswith("param:"):
            return step.removeprefix("param:")
    return ""


def _moved(
    wait: Wait,
    after: Function,
    readings: Readings,
    functions: Functions,
    other: Readings,
    theirs: Functions,
) -> bool:
    """Whether another function of the class or file now makes the wait and did not before."""
    name = _name(wait)
    for qualname, versions in functions.items():
        for function in versions:
            near = function.path == after.path or after.facts.name in function.facts.mentions
            if not near or function.key == after.key or not _direct(readings, function, name):
                continue
            earlier = theirs.get(qualname, ())
            if not any(_direct(other, old, name) for old in earlier):
                return True
    return False


def _direct(readings: Readings, function: Function, name: str) -> bool:
    primitive = readings.words.primitive_waits.keys()
    if not primitive & set(function.facts.mentions):
        return False
    return any(
        _name(w) == name and w.origin.qualname == function.facts.qualname
        for w in readings.summary(function, function.owner).waits
    )


def _first_read(readings: Readings, after: Function) -> Read | None:
    reads = [r for r in readings.summary(after, after.owner).reads if reads_elements(r)]
    return min(reads, key=lambda r: (r.line, r.column), default=None)


def _gap(wait: Wait, before: Function, side: Side, after: Function, first: Read, vain: bool) -> Gap:
    facts = after.facts
    gate = ".".join(wait.token)
    name = _name(wait)
    roots = (_root(first.path),)
    line = before.line_of(wait.line)
    sibling = Sibling(
        side, before.path, before.facts.qualname, line, roots[0], gate, before.facts.name, ""
    )
    return Gap(
        "removed",
        after,
        after.owner or (after.path, ""),
        roots,
        after.line_of(first.line),
        first.column,
        (sibling,),
        1,
        "medium",
        "unknown",
        "whether anything else orders the read is not known",
        f"{facts.qualname}.{name}",
        name,
        here=first is None or first.origin.qualname == facts.qualname,
        detail="index" if vain else "",
        vain=vain,
    )


def _on_its_gate(wait: Wait, first: Read, gate: bool) -> bool:
    """Whether a wait is on a family's gate, or for the index of the read."""
    if wait.token == EVERYTHING:
        return False
    held = first.path[0] == "self" or first.path[0].startswith("param:")
    told = wait.kind == "keyed" or ELEMENT in wait.token
    return held and (gate or bool(told and wait.keys & key_parameters(first)))


def _root(path: Path) -> str:
    return next((s for s in path[1:] if s.isidentifier()), path[0].rpartition(":")[2])
