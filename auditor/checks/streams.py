"""Turns blocks on side streams and copies to the host that nothing orders into hits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import msgspec

from auditor.checks.view import View
from auditor.claims import Claim
from auditor.model import Checked, Confidence, Evidence, Hit, Location, Side, Symbol
from auditor.rulebook import Param, of_shapes
from auditor.source import facts as f
from auditor.streams.copies import Copy
from auditor.streams.entries import Entry
from auditor.streams.lookup import Place
from auditor.streams.norm import Gap, gaps, rows
from auditor.streams.reading import Shortened
from auditor.streams.side import SideStreams

Shape = Literal["side-stream", "host-copy"]
PARAMETERS = of_shapes(get_args(Shape))

_MOST_EVIDENCE = 12
_COPIES = ("to", "copy_")  # the calls that copy to the host
_REACH = "whether a configuration of the tree runs it is not worked out for streams"


@dataclass(frozen=True)
class StreamNorm:
    """The streams of all sides, each with its view."""

    sides: tuple[tuple[View, SideStreams], ...]

    def of(self, view: View) -> SideStreams:
        """What was read of one side."""
        return next(streams for known, streams in self.sides if known is view)


def learn(views: Sequence[View]) -> StreamNorm:
    """Picks the files of every side; of others than the fork only some will be read."""
    shortened = Shortened()
    found: list[tuple[View, SideStreams]] = []
    fork: SideStreams | None = None
    for view in views:
        streams = SideStreams(
            view.deployed,
            view.index,
            view.read,
            view.scans,
            view.vocabulary,
            shortened,
            fork,
        )
        if view.side == "fork":
            fork = streams
        streams.pick()
        found.append((view, streams))
    return StreamNorm(tuple(found))


def judge(params: Mapping[str, Param], norm: StreamNorm, view: View) -> Iterator[Hit]:
    """What is not ordered, of one shape (``params: {shape: …}``)."""
    streams = norm.of(view)
    if params["shape"] == "side-stream":
        for gap in gaps(streams.entries):
            yield _side_stream(gap, norm, view)
    else:
        alone: dict[tuple[str, str], Copy] = {}
        for copy, answered in sorted(
            streams.copies, key=lambda row: (not row[0].read, row[0].line)
        ):
            if not answered:
                alone.setdefault((copy.place.path, copy.place.facts.qualname), copy)
        for copy in alone.values():
            yield _host_copy(copy, norm, view)


def survey(norm: StreamNorm, view: View) -> Iterator[Checked]:
    """For each stream of a class or a function, how many of the entries on it are ordered."""
    streams = norm.of(view)
    for row in rows(streams.entries):
        shown = tuple(_evidence(entry, "fork") for entry in row.held)[:_MOST_EVIDENCE]
        subject = f"{row.owner}.{row.name}"
        yield Checked("sync", subject, len(row.held), row.total, row.path, row.owner, shown)
    grouped: dict[str, list[tuple[Copy, bool]]] = {}
    for copy, answered in streams.copies:
        grouped.setdefault(copy.place.path, []).append((copy, answered))
    for path, found in sorted(grouped.items()):
        waited = [copy for copy, answered in found if answered]
        subject = f"copies to the host in {path.rpartition('/')[2]}"
        yield Checked("sync", subject, len(waited), len(found), path, "")


def _side_stream(gap: Gap, norm: StreamNorm, view: View) -> Hit:
    entry = gap.entry
    place = entry.place
    name = place.facts.name
    belief = "no other block on it shows how it should be"
    if gap.siblings:
        first = gap.siblings[0]
        where = f"{first.place.path.rpartition('/')[2]}:{first.edge or first.line}"
        of = {"class": "its class", "file": "its file", "tree": "the tree"}[gap.within]
        belief = f"{len(gap.siblings)} of {gap.total} blocks on it in {of} wait first, as {where}"
    message = (
        f"{name} starts work on {entry.stream} without making it wait for the stream that made "
        f"the inputs; {belief}"
    )
    model = f", as {gap.siblings[0].place.facts.qualname} does" if gap.siblings else ""
    fix = f"call {entry.stream}.wait_stream(current stream) before the block{model}"
    siblings = [_evidence(one, view.side, sibling=True) for one in gap.siblings]
    evidence = [*_elsewhere(entry, norm, view), *siblings]
    confidence: Confidence = "medium" if gap.siblings else "low"
    hit = _hit(place, entry.line, 1, entry.name, message, evidence, confidence, fix)
    claim = Claim("enter", (entry.name, *_written(entry)))
    return msgspec.structs.replace(hit, about=entry.name, claim=claim)


def _written(entry: Entry) -> list[str]:
    """The names that a block is entered by, where its context was made elsewhere."""
    facts = entry.place.facts
    items = [
        context
        for stmt in f.statements(facts.body)
        if isinstance(stmt, f.With) and entry.place.line(stmt.line) == entry.line
        for context, _ in stmt.items
    ]
    names = {
        node.name if isinstance(node, f.Attr) else node.id
        for item in items
        for node in f.walk(item)
        if isinstance(node, f.Attr | f.Name)
    }
    return sorted(names - {entry.name, "self"})


def _host_copy(copy: Copy, norm: StreamNorm, view: View) -> Hit:
    message = (
        f"{copy.place.facts.name} copies {copy.target} to the host without blocking; neither it "
        "nor all that call it wait for the copy or record an event after it"
    )
    fix = (
        "record an event after the copy and let the reader synchronize on it, or leave out "
        "non_blocking"
    )
    evidence: list[Evidence] = []
    for side, streams in _others(norm, view):
        for other, answered in streams.copies:
            if answered and _same_symbol(other.place, copy.place) and other.target == copy.target:
                note = "waits for the copy, or records an event, here"
                evidence.append(_at(other.place, other.line, note, side))
    confidence: Confidence = "medium" if copy.read else "low"
    where = (copy.line, copy.column)
    hit = _hit(copy.place, *where, copy.target, message, evidence, confidence, fix)
    return msgspec.structs.replace(hit, claim=Claim("call", _COPIES))


def _hit(
    place: Place,
    line: int,
    column: int,
    anchor: str,
    message: str,
    evidence: Sequence[Evidence],
    confidence: Confidence,
    fix: str,
) -> Hit:
    symbol = Symbol(place.path, place.facts.qualname)
    return Hit(
        Location(symbol, line, column, line),
        anchor.replace(",", ";"),
        message,
        tuple(dict.fromkeys(evidence))[:_MOST_EVIDENCE],
        confidence,
        "unknown",
        _REACH,
        fix,
        f"{place.owner or place.facts.qualname}.{anchor}",
    )


def _others(norm: StreamNorm, view: View) -> Iterator[tuple[Side, SideStreams]]:
    """The sides from before the fork's own changes."""
    if view.side == "fork":
        for other, streams in norm.sides:
            if other.side in ("upstream", "base"):
                yield other.side, streams


def _elsewhere(entry: Entry, norm: StreamNorm, view: View) -> Iterator[Evidence]:
    """The same function's own wait on another side."""
    for side, streams in _others(norm, view):
        same = [
            one
            for one in streams.entries
            if _same_symbol(one.place, entry.place) and one.name == entry.name
        ]
        if same and not any(one.open for one in same):
            yield from (_evidence(one, side) for one in same[:1] if one.ordered)


def _same_symbol(one: Place, other: Place) -> bool:
    return (one.path, one.facts.qualname) == (other.path, other.facts.qualname)


def _evidence(entry: Entry, side: Side, *, sibling: bool = False) -> Evidence:
    note = f"makes {entry.stream} wait first"
    return _at(entry.place, entry.edge or entry.line, note, side, sibling=sibling)


def _at(place: Place, line: int, note: str, side: Side, *, sibling: bool = False) -> Evidence:
    return Evidence(place.path, line, place.facts.qualname, note, side, sibling)
