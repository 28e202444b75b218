"""One defect, one finding: where two checks miss the same wait, the one that knows more speaks."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.model import Hit, Symbol
from auditor.rulebook import Rule
from auditor.triage.findings import capped

Judged = tuple[Rule, Hit]

GATES = "sibling-gates"
WAITS = "lost-waits"


def distinct(hits: Sequence[Judged]) -> list[Judged]:
    """The hits without those that say again what another says at the same symbol.

    Siblings know what is read without the wait, so they speak first; where they are not sure, that
    another version waits is the better reason.
    """
    sure: dict[Symbol, set[str]] = {}
    lost: dict[Symbol, set[str]] = {}
    for rule, hit in hits:
        if rule.check == GATES and capped(hit.confidence, rule.confidence) != "low":
            sure.setdefault(hit.where.symbol, set()).add(hit.about)
        elif rule.check == WAITS:
            lost.setdefault(hit.where.symbol, set()).add(hit.about)
    return [
        (rule, hit)
        for rule, hit in hits
        if not (rule.check == WAITS and _says(sure.get(hit.where.symbol, set()), hit.about))
        if not (
            rule.check == GATES
            and hit.about not in sure.get(hit.where.symbol, ())
            and _says(lost.get(hit.where.symbol, set()), hit.about)
        )
    ]


def _says(told: set[str], about: str) -> bool:
    """Whether what is told covers a wait; that of a function that is called may be any."""
    return bool(told) and (not about or about in told or "" in told)
