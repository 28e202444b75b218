"""Turns transfers that return, free or acknowledge before they are done into hits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from auditor.checks.view import View
from auditor.claims import Claim
from auditor.model import Checked, Confidence, Evidence, Hit, Location, Symbol
from auditor.rulebook import Param, Parameters
from auditor.source import facts as f
from auditor.streams.identity import text
from auditor.streams.reading import Shortened
from auditor.transfers.methods import Method
from auditor.transfers.norm import Gap
from auditor.transfers.side import Transfers

PARAMETERS: Parameters = {}

_MOST_EVIDENCE = 12
_MOST_NAMED = 3
_REACH = "whether a configuration of the tree runs it is not worked out for transfers"


@dataclass(frozen=True)
class TransferNorm:
    """The transfers of all sides, each with its view; siblings are those of its own tree."""

    sides: tuple[tuple[View, Transfers], ...]

    def of(self, view: View) -> Transfers:
        """What was read of one side."""
        return next(transfers for known, transfers in self.sides if known is view)


def learn(views: Sequence[View]) -> TransferNorm:
    """Picks the files of every side; of others than the fork only some will be read."""
    shortened = Shortened()
    found: list[tuple[View, Transfers]] = []
    for view in views:
        known = view.index.modules
        transfers = Transfers(
            view.deployed, known, view.read, view.scans, view.vocabulary, shortened
        )
        if view.side == "fork":
            transfers.pick()
        found.append((view, transfers))
    return TransferNorm(tuple(found))


def judge(params: Mapping[str, Param], norm: TransferNorm, view: View) -> Iterator[Hit]:
    """The transfers that stand out among their siblings."""
    fork, transfers = norm.sides[0]
    # Where the fork has nothing, no other side need be asked.
    if view is fork or transfers.gaps:
        for gap in norm.of(view).gaps:
            yield _hit(gap)


def survey(norm: TransferNorm, view: View) -> Iterator[Checked]:
    """For each name of transfers, how many of the methods that have it wait."""
    for name, waiting, total in norm.of(view).norm.rows():
        shown = tuple(_evidence(method) for method in waiting)[:_MOST_EVIDENCE]
        path = waiting[0].place.path
        yield Checked("sync", f"transfers named {name}", len(waiting), total, path, "", shown)


def _hit(gap: Gap) -> Hit:
    method = gap.method
    place = method.place
    start = method.last
    line, column = (start.line, start.column)
    if gap.early is not None:
        line, column = gap.early.line, gap.early.column
    confidence: Confidence = "medium" if method.visible else "low"
    symbol = Symbol(place.path, place.facts.qualname)
    evidence = [_evidence(one, sibling=True) for one in (*gap.siblings, *gap.others)]
    return Hit(
        Location(symbol, place.line(line), column, place.line(line)),
        method.name,
        _message(gap),
        tuple(dict.fromkeys(evidence))[:_MOST_EVIDENCE],
        confidence,
        "unknown",
        _REACH,
        _fix(gap),
        f"{place.owner}.{method.name}",
        claim=Claim("read", ()),
    )


def _message(gap: Gap) -> str:
    name = gap.method.name
    first = [f"{_class(one)} ({_short(one)})" for one in gap.siblings[:_MOST_NAMED]]
    count = f"{len(gap.siblings)} of {gap.total} methods of that name in its family wait"
    belief = f"{count}, as {', '.join(first)}"
    if gap.early is not None:
        return f"{name} calls {_called(gap.early)} before its copies are waited for; {belief}"
    if gap.others:
        other = gap.others[0].name
        belief += f", and so do {len(gap.others)} of {other}"
    path = " on some path" if gap.method.waits else ""
    return f"{name} starts copies and returns{path} without waiting for them; {belief}"


def _fix(gap: Gap) -> str:
    model = gap.siblings[0]
    where = "before that" if gap.early is not None else "on every path before it returns"
    return f"wait for the copies {where}, as {model.place.facts.qualname} does"


def _called(call: f.Call) -> str:
    return text(call.func)


def _class(method: Method) -> str:
    return method.place.owner.rpartition(".")[2]


def _short(method: Method) -> str:
    return f"{method.place.path.rpartition('/')[2]}:{method.waits[-1]}"


def _evidence(method: Method, *, sibling: bool = False) -> Evidence:
    place = method.place
    note = "waits for its copies here"
    return Evidence(place.path, method.waits[-1], place.facts.qualname, note, "fork", sibling)
