"""Asks the other sides what they have at the symbol of a fork's hit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from auditor.checks import CHECKS
from auditor.checks.view import View
from auditor.gates.norm import wait_line
from auditor.model import Evidence, Hit, Side, Skipped, Symbol
from auditor.rulebook import CheckName, Rule
from auditor.source.unchanged import digests
from auditor.triage.findings import State, Witness

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
        fork: View,
        views: Sequence[View],
        known: Sequence[Defects],
        skipped: Sequence[Skipped],
        report_path: Callable[[Side, str], str],
        later: bool = False,
    ) -> None:
        """``known`` are the defects of each of the other views; ``skipped`` names report paths.

        ``later`` says that the merge base is upstream's code from after its release.
        """
        self.fork = fork
        self.later = later
        self.views = views
        self.report_path = report_path
        self.unread = {(s.side, s.path) for s in skipped}
        self.defects = {id(view): hits for view, hits in zip(views, known, strict=True)}

    @property
    def upstreams(self) -> list[View]:
        """The views of upstream's release and of the merge base."""
        return [view for view in self.views if view.side != "target"]

    def __call__(self, hit: Hit) -> tuple[list[Witness], list[Witness]]:
        """What the upstream sides have, and what the targets have."""
        upstreams = [self._ask(v, hit) for v in self.upstreams]
        targets = [self._ask(v, hit) for v in self.views if v.side == "target"]
        return upstreams, targets

    def _ask(self, view: View, hit: Hit) -> Witness:
        state, places = self._state(view, hit)
        symbol = hit.where.symbol
        same = texts(self.fork, symbol) == texts(view, symbol)
        return Witness(view.side, view.ref, state, places, same, self.later and view.side == "base")

    def _state(self, view: View, hit: Hit) -> tuple[State, tuple[Evidence, ...]]:
        symbol = hit.where.symbol
        roots = set(hit.anchor.split(","))
        at_home = _at_home(view, symbol)
        for other in self.defects[id(view)].get(symbol.qualname, ()):
            if at_home and other.where.symbol.path != symbol.path:
                continue  # another file's class of the same name
            if roots & set(other.anchor.split(",")):
                return "defect", ()
        if (view.side, self.report_path(view.side, symbol.path)) in self.unread:
            return "unread", ()
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
            return "gated", (place,)
        told = [
            e
            for e in hit.evidence
            if e.side == view.side and e.symbol == symbol.qualname and e.side != "fork"
        ]
        if told:  # the hit itself rests on this side's version of the symbol
            return "gated", ()
        if symbol.qualname in view.functions or _defines(view, symbol.path, symbol.qualname):
            return "present", ()
        return "absent", ()


def _defines(view: View, path: str, qualname: str) -> bool:
    """Whether a file that was not extracted defines a symbol, by its text."""
    data = view.sources.get(path)
    if data is None or path in view.index.modules:
        return False
    return f"def {qualname.rpartition('.')[2]}(".encode() in data


def texts(view: View, symbol: Symbol) -> frozenset[str]:
    """What tells the text of a symbol's function from others; several where a name has several.

    Functions of other files count only where the symbol's own has none of the name.
    """
    found = view.functions.get(symbol.qualname, ())
    at_home = {f.facts.digest for f in found if f.path == symbol.path}
    if not at_home and symbol.path not in view.index.modules:
        at_home = set(digests(view.sources.get(symbol.path, b""), symbol.qualname))
    return frozenset(at_home or (f.facts.digest for f in found))


def _at_home(view: View, symbol: Symbol) -> bool:
    """Whether a side has the symbol in the same file."""
    known = any(f.path == symbol.path for f in view.functions.get(symbol.qualname, ()))
    return known or _defines(view, symbol.path, symbol.qualname)
