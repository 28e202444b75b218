"""Turns gaps of the sibling norm into hits, one shape a rule."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

from auditor.checks.view import Norm, View
from auditor.claims import Claim
from auditor.gates.gaps import Gap, Shape, Sibling, nearness
from auditor.gates.norm import learn as learn_norm
from auditor.gates.norm import wait_line
from auditor.gates.readings import key_parameters, reads_elements
from auditor.model import Checked, Evidence, Hit, Location, Symbol
from auditor.rulebook import Param, of_shapes

PARAMETERS = of_shapes(get_args(Shape))

_MOST_EVIDENCE = 12
_PLAIN = re.compile(r"self(?:\.\w+)+")
"""An access path of names alone: the wait on such a gate can be seen in any text."""


def learn(views: Sequence[View]) -> Norm:
    """What siblings do on all sides together."""
    return Norm(learn_norm([(view.side, view.readings) for view in views]), tuple(views))


def judge(params: Mapping[str, Param], norm: Norm, view: View) -> Iterator[Hit]:
    """The gaps of one shape (``params: {shape: …}``)."""
    for gap in view.gaps(norm):
        if gap.shape == params["shape"]:
            yield _hit(gap)


def survey(norm: Norm, view: View) -> Iterator[Checked]:
    """For each guarded buffer of each class, how many of its readers wait."""
    readings = view.readings
    rows: dict[tuple[str, str, str], tuple[set[str], set[str], dict[Evidence, None]]] = {}
    open_methods = {(g.function.path, g.function.facts.qualname) for g in view.gaps(norm)}
    for reading in readings.readings:
        facts = reading.function.facts
        owner = reading.context[1]
        if (owner, reading.root) not in norm.siblings.by_buffer or readings.duty(facts.name):
            continue
        if not reads_elements(reading.read) or not key_parameters(reading.read):
            continue
        place = (reading.function.path, facts.qualname)
        held, seen, evidence = rows.setdefault((place[0], owner, reading.root), (set(), set(), {}))
        if reading.gated and place not in open_methods:
            held.add(facts.qualname)
            seen.add(facts.qualname)
            note = f"waits on {_short(reading.gate)}"
            line = wait_line(readings, reading)
            evidence[Evidence(place[0], line, facts.qualname, note)] = None
        elif place in open_methods:
            seen.add(facts.qualname)
    for (path, owner, root), (held, seen, evidence) in sorted(rows.items()):
        places = tuple(sorted(evidence))[:_MOST_EVIDENCE]
        yield Checked("sync", f"{owner}.{root}", len(held), len(seen), path, owner, places)


def _hit(gap: Gap) -> Hit:
    facts = gap.function.facts
    symbol = Symbol(gap.function.path, facts.qualname)
    end = max(gap.line, min(gap.line, facts.end_line))
    return Hit(
        Location(symbol, gap.line, gap.column, end),
        ",".join(gap.roots),
        _message(gap),
        _evidence(gap),
        gap.confidence,
        gap.reach,
        gap.reach_reason,
        _fix(gap),
        gap.cause,
        about=_short(gap.gate),
        claim=_claim(gap),
    )


def _claim(gap: Gap) -> Claim:
    """What the gap says of its place, which is a function where no read is meant."""
    if gap.shape == "dropped-parameter":
        # A parameter that ends in a record is used, and not by whoever takes the record up.
        return Claim("function", gap.roots if gap.here else ())
    if gap.shape == "optional":
        if gap.callers:
            return Claim("call", (gap.callers[0].qualname.rpartition(".")[2],))
        return Claim("read", gap.roots, here=gap.here)
    if gap.vain:
        return Claim("read", gap.roots, here=gap.here)
    if gap.shape == "removed":
        at_def = (gap.line, gap.column) == (gap.function.facts.line, gap.function.facts.column)
        return (
            Claim("function", ())
            if at_def
            else Claim("read", gap.roots, _short(gap.gate), gap.here)
        )
    if gap.shape == "bypass":
        # Whose gate it is that would have to be waited on, the path to the pool must say.
        return Claim("read", ()) if gap.callers else Claim("raw", gap.roots)
    return Claim("read", gap.roots, gap.gate if _PLAIN.fullmatch(gap.gate) else "", gap.here)


def _message(gap: Gap) -> str:
    name = gap.function.facts.name
    buffers = _listed(gap.roots)
    gate = _short(gap.gate)
    waiting = len({s.symbol for s in gap.siblings if s.side == "fork"})
    total = waiting + max(gap.unguarded, 1)
    belief = f"{waiting} of {total} readers of it wait first"
    if waiting and not any(s.root in gap.roots for s in gap.siblings):
        belief = f"{waiting} others of the class wait before they read its other buffers"
    if not waiting:
        others = sorted({s.side for s in gap.siblings})
        belief = f"the {' and the '.join(others)} side's readers wait first"
    messages: dict[Shape, str] = {
        "ungated": f"{name} reads {buffers} without waiting on {gate}; {belief}",
        "override": f"{name} replaces a method that waits on {gate}, and reads {buffers} without",
        "delegate": f"{name} reads through {buffers}, whose own gate does not hold here, without "
        f"waiting on {gate}; {belief}",
        "bypass": _bypass_message(gap, buffers, gate),
        "partial": f"{name} waits on {gate} on some paths only before it reads {buffers}",
        "late": f"{name} waits on {gate}, but only after it has read {buffers}",
        "optional": f"{name} reads {buffers}, but its wait on {gate} needs an argument that is "
        "left out",
        "dropped-parameter": f"{name} accepts {buffers} and never waits on it"
        if gap.here
        else f"{name} stores {buffers} in a record, and nobody waits on it there",
        "removed": f"{name} reads {buffers} without the wait on {gate} that the other side's "
        "version makes",
    }
    if gap.vain and gap.detail == "index":
        return f"{name} waits on {gate}, but for another index than the other side's version does"
    if gap.vain:
        return f"{name} puts None in the place of {gate} and reads {buffers} without a wait"
    if gap.shape == "optional" and gap.callers:
        return f"{name} calls {gap.callers[0].qualname} without the {gate} it would wait on"
    return messages[gap.shape]


def _bypass_message(gap: Gap, buffers: str, gate: str) -> str:
    name = gap.function.facts.name
    if gap.callers:
        return (
            f"{name} reads its buffers without a wait, and is called from outside {gap.detail}, "
            f"which waits on {gate} before it reads {buffers}"
        )
    taken = f"{name} takes {buffers} of a pool directly"
    if gap.maybe_target:
        taken += ", maybe only to store, for what it calls is handed the place to store at too"
    return f"{taken}; the getters of {gap.detail} wait on {gate}"


def _fix(gap: Gap) -> str:
    gate = _short(gap.gate)
    if gap.shape == "optional":
        return f"hand over {gate} and its index at every call, or wait inside the method always"
    if gap.shape == "bypass" and not gap.callers:
        return "read through the getter that waits, or wait on the same gate first"
    if gap.shape == "late":
        return f"move the wait on {gate} before the read"
    if gap.shape == "partial":
        return f"wait on {gate} on every path that reaches the read"
    if gap.shape == "dropped-parameter":
        where = "before the first read" if gap.here else "where the record is taken up again"
        return f"wait on {gate} {where}, as the siblings do"
    model = next((s.symbol for s in _nearest(gap) if s.side == "fork"), "")
    return f"wait on {gate} first" + (f", as {model} does" if model else "")


def _evidence(gap: Gap) -> tuple[Evidence, ...]:
    """The method's own waits, its siblings' waits and then what calls, hands over or disarms."""
    facts = gap.function.facts
    when = "only after the read" if gap.shape == "late" else "on some paths only"
    note = f"waits on {_short(gap.gate)} here, {when}"
    own = [Evidence(gap.function.path, line, facts.qualname, note) for line in gap.waits]
    waits: dict[tuple[str, str], Evidence] = {}
    for sibling in _nearest(gap):
        gate = _short(sibling.gate)
        same = sibling.root in (gate, *gap.roots)
        then = "first" if same else f"before it reads {sibling.root}"
        piece = Evidence(
            sibling.path,
            sibling.line,
            sibling.symbol,
            f"waits on {gate} {then}",
            sibling.side,
            sibling=True,
        )
        waits.setdefault((sibling.path, sibling.symbol), piece)
    note = "waits only if it is given the gate" if gap.shape == "optional" else "calls it"
    others = [Evidence(p.path, p.line, p.qualname, note) for p in gap.callers]
    if gap.disarmed is not None:
        note = f"gives {_listed(gap.roots)} None for a gate: its own is void"
        others.append(Evidence(gap.disarmed.path, gap.disarmed.line, gap.disarmed.qualname, note))
    room = max(1, _MOST_EVIDENCE - len(own) - len(others))
    found = (*own, *list(waits.values())[:room], *others)
    return tuple(dict.fromkeys(found))[:_MOST_EVIDENCE]


def _nearest(gap: Gap) -> list[Sibling]:
    """The siblings, those of the fork and near the read first."""
    return sorted(gap.siblings, key=lambda s: (s.side != "fork", nearness(gap, s), s))


def _short(gate: str) -> str:
    return gate.rpartition(".")[2].removeprefix("param:")


def _listed(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
