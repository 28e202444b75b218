"""One defect, one finding: of several checks that miss one wait the one that knows most speaks."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.model import Hit, Symbol
from auditor.rulebook import CheckName, Rule
from auditor.triage.findings import capped

Judged = tuple[Rule, Hit]

GATES: CheckName = "sibling-gates"
WAITS: CheckName = "lost-waits"
STREAMS: CheckName = "stream-order"
TRANSFERS: CheckName = "unfinished-transfers"


def distinct(hits: Sequence[Judged]) -> list[Judged]:
    """The hits without those that say again what another check says of the same wait.

    Siblings know what is read without the wait, so they speak first; where they are not sure, that
    another version waits is the better reason. That only a later release does is the worst.
    """
    told: dict[Symbol, list[tuple[CheckName, str]]] = {}
    kept: set[int] = set()
    for number in sorted(range(len(hits)), key=lambda n: _rank(*hits[n])):
        rule, hit = hits[number]
        others = told.setdefault(hit.where.symbol, [])
        if not any(check != rule.check and _same(about, hit.about) for check, about in others):
            kept.add(number)
        if rule.check in (GATES, WAITS, STREAMS, TRANSFERS):
            others.append((rule.check, hit.about))
    return [judged for number, judged in enumerate(hits) if number in kept]


def _rank(rule: Rule, hit: Hit) -> int:
    if rule.check == WAITS:
        return 4 if rule.params.get("shape") == "later" else 1
    if capped(hit.confidence, rule.confidence) == "low":
        return 5
    return {GATES: 0, TRANSFERS: 2, STREAMS: 3}.get(rule.check, 0)


def _same(about: str, other: str) -> bool:
    """Whether two hits are about one wait; that of a function that is called may be any."""
    return not about or not other or about == other
