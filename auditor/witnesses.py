"""Asks the other sides what they have at the symbol of a fork's hit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from auditor.analysis.norm import wait_line
from auditor.checks import CHECKS
from auditor.checks.view import View
from auditor.model import Evidence, Hit, Side, Skipped
from auditor.rulebook import CheckName, Rule
from auditor.triage.findings import Witness

Defects = Mapping[str, Sequence[Hit]]
"""The hits on one side by qualified name."""


def defects(
    rules: Sequence[Rule], norms: Mapping[CheckName, object], views: Sequence[View]
) -> list[Defects]:
    """What each of the sides has, judged by the same norms as the fork."""
    found: list[Defects] = []
    for view in views:
        hits: dict[str, list[Hit]] = {}
        for rule in rules:
            for hit in CHECKS[rule.check].judge(rule.params, norms[rule.check], view):
                hits.setdefault(hit.where.symbol.qualname, []).append(hit)
        found.append(hits)
    return found


class Witnesses:
    """Answers for each hit of the fork what every other side has there."""

    def __init__(
        self,
        views: Sequence[View],
        known: Sequence[Defects],
        skipped: Sequence[Skipped],
        report_path: Callable[[Side, str], str],
    ) -> None:
        """``known`` are the defects of each view; ``skipped`` names report paths."""
        self.views = views
        self.report_path = report_path
        self.unread = {(s.side, s.path) for s in skipped}
        self.defects = {id(view): hits for view, hits in zip(views, known, strict=True)}

    def __call__(self, hit: Hit) -> tuple[list[Witness], list[Witness]]:
        """What the upstream sides have, and what the targets have."""
        upstreams = [self._ask(v, hit) for v in self.views if v.side != "target"]
        targets = [self._ask(v, hit) for v in self.views if v.side == "target"]
        return upstreams, targets

    def _ask(self, view: View, hit: Hit) -> Witness:
        symbol = hit.where.symbol
        roots = set(hit.anchor.split(","))
        at_home = any(f.path == symbol.path for f in view.functions.get(symbol.qualname, ()))
        for other in self.defects[id(view)].get(symbol.qualname, ()):
            if at_home and other.where.symbol.path != symbol.path:
                continue  # another file's class of the same name
            if roots & set(other.anchor.split(",")):
                return Witness(view.side, view.ref, "defect")
        if (view.side, self.report_path(view.side, symbol.path)) in self.unread:
            return Witness(view.side, view.ref, "unread")
        gated = [
            r
            for r in view.readings_of.get(symbol.qualname, ())
            if r.gated and not r.optional and r.root in roots
            if not at_home or r.function.path == symbol.path
        ]
        if gated:
            facts = gated[0].function.facts
            gate = gated[0].gate.rpartition(".")[2]
            line = wait_line(view.readings, gated[0])
            place = Evidence(
                gated[0].function.path, line, facts.qualname, f"waits on {gate} here", view.side
            )
            return Witness(view.side, view.ref, "gated", (place,))
        told = [
            e
            for e in hit.evidence
            if e.side == view.side and e.symbol == symbol.qualname and e.side != "fork"
        ]
        if told:  # the hit itself rests on this side's version of the symbol
            return Witness(view.side, view.ref, "gated")
        if symbol.qualname in view.functions or _defines(view, symbol.path, symbol.qualname):
            return Witness(view.side, view.ref, "present")
        return Witness(view.side, view.ref, "absent")


def _defines(view: View, path: str, qualname: str) -> bool:
    """Whether a file that was not extracted defines a symbol, by its text."""
    data = view.sources.get(path)
    if data is None or path in view.index.modules:
        return False
    return f"def {qualname.rpartition('.')[2]}(".encode() in data
