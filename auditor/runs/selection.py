"""Which findings of a run are shown: not accepted, and asked for."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from auditor.model import (
    CONFIDENCES,
    Finding,
    Origin,
    Skipped,
)
from auditor.repo.scripts import Scripts, Surroundings
from auditor.repo.since import Since
from auditor.rulebook import Rule
from auditor.runs import acceptance
from auditor.runs.launches import Read, Served
from auditor.runs.request import AuditRequest
from auditor.triage import baseline as baselines
from auditor.triage.findings import hidden_counts


def wanted_of(request: AuditRequest) -> acceptance.Wanted:
    """What is accepted; a baseline that cannot be read ends the run before it has begun."""
    if request.baseline is None:
        return acceptance.Wanted(request.comments, request.ignores)
    entries = baselines.load(request.baseline)
    return acceptance.Wanted(request.comments, request.ignores, entries, request.baseline.name)


def scope_of(
    trees: Sequence[Read],
    rules: Sequence[Rule],
    around: Surroundings,
    scripts: Scripts,
    served: Served,
    skipped: Collection[Skipped],
) -> acceptance.Scope:
    """What a run looked at, for what was accepted and is not there."""
    return acceptance.Scope(
        trees,
        rules,
        around,
        scripts,
        served.launches,
        served.silent,
        served.judged,
        frozenset(row.path for row in skipped if row.side == "fork" and row.path),
    )


def selected(
    findings: Sequence[Finding],
    request: AuditRequest,
    scope: acceptance.Scope,
    since: Since | None,
) -> tuple[list[Finding], dict[str, int]]:
    """The findings that are shown, and how many each option hides."""
    lowest = CONFIDENCES.index(request.min_confidence)
    shown: list[Finding] = []
    hidden: dict[str, list[Finding]] = {
        "min-confidence": [],
        "origin": [],
        "since": [],
        "reachable": [],
    }
    for finding in findings:
        if CONFIDENCES.index(finding.hit.confidence) > lowest:
            hidden["min-confidence"].append(finding)
        elif request.origins and not _asked_for(finding, request.origins):
            hidden["origin"].append(finding)
        elif since and not since.holds(finding.hit.where, scope.in_tree):
            hidden["since"].append(finding)
        elif request.reachable and finding.deployment and finding.deployment.state == "off":
            hidden["reachable"].append(finding)
        else:
            shown.append(finding)
    return shown, hidden_counts(hidden)


def _asked_for(finding: Finding, origins: Collection[Origin]) -> bool:
    """Whether a finding is of the asked origins.

    What came with later code of upstream's counts as introduced too: who merges it takes it on.
    """
    return finding.origin in origins or bool(finding.since_base and "introduced" in origins)
