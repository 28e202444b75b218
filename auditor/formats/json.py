"""The machine's contract: the report as JSON, schema ``audit/1``, and its reading back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, TypedDict

import msgspec

from auditor.errors import UsageProblem
from auditor.formats.order import place
from auditor.formats.records import (
    BaselineRecord,
    ClosestRecord,
    DeploymentRecord,
    Document,
    EvidenceRecord,
    FindingRecord,
    LaunchRecord,
    RepairRecord,
    SideRecord,
    SummaryRecord,
)
from auditor.formats.text import encodable
from auditor.formats.verdict import Verdict
from auditor.model import (
    ORIGINS,
    SEVERITIES,
    Applicability,
    Baseline,
    Closest,
    Deployment,
    Evidence,
    Finding,
    Launch,
    Proposal,
    Repair,
    Report,
    SideInfo,
    Suppression,
)
from auditor.serve.tables.facts import Tables

SCHEMA = "audit/1"
SCHEMA_FILE = Path(__file__).with_name("audit-1.schema.json")
_LARGEST_REPORT = 256 * 2**20


def render(report: Report, verdict: Verdict, tables: Tables | None = None) -> str:
    """The report as indented ASCII JSON: the same report gives the same bytes."""
    # msgspec only lays the text out: json's own indentation is ten times slower.
    text = json.dumps(encodable(msgspec.to_builtins(document(report, verdict, tables))))
    return msgspec.json.format(text, indent=2) + "\n"


def document(report: Report, verdict: Verdict, tables: Tables | None = None) -> Document:
    """The report in the shape of the contract, every list in an order of its own."""
    changes = report.changes
    return {
        "schema": "audit/1",
        "tool": {"name": "audit", "version": report.tool_version},
        "fork": _side(report.fork),
        "upstream": _side(report.upstream) if report.upstream else None,
        "target": [_side(target) for target in report.targets],
        "closest": _closest(report.closest),
        "changes": {
            "base": _side(report.base) if report.base else None,
            "files": [
                {
                    "path": change.path,
                    "status": change.status,
                    "area": change.area,
                    "added": change.added,
                    "removed": change.removed,
                    "old_path": change.old_path,
                    "symbols": sorted(change.symbols),
                }
                for change in sorted(changes.files, key=lambda change: (change.path, change.status))
            ],
            "commits": None
            if changes.commits is None
            else [
                {
                    "sha": commit.sha,
                    "date": commit.date,
                    "subject": commit.subject,
                    "areas": sorted(commit.areas),
                }
                for commit in changes.commits
            ],
            "ahead": changes.ahead,
            "behind": changes.behind,
            "history_note": changes.history_note,
            "own_commits": changes.own,
        },
        "findings": [
            _finding(finding, report.proposals.get(finding.fingerprint))
            for finding in sorted(report.findings, key=place)
        ],
        "checked": [
            {
                "category": checked.category,
                "subject": checked.subject,
                "held": checked.held,
                "total": checked.total,
                "path": checked.path,
                "symbol": checked.symbol,
                "evidence": [_evidence(evidence) for evidence in checked.evidence],
            }
            for checked in sorted(report.checked)
        ],
        "launches": [_launch(launch) for launch in sorted(report.launches)],
        "tables": tables,
        "skipped": [
            {
                "side": skipped.side,
                "path": skipped.path,
                "stage": skipped.stage,
                "reason": skipped.reason,
            }
            for skipped in sorted(report.skipped)
        ],
        "suppressions": [
            {
                "path": suppression.path,
                "line": suppression.line,
                "column": suppression.column,
                "rules": list(suppression.rules),
                "reason": suppression.reason,
                "source": suppression.source,
                "brought_by": suppression.brought_by,
                "applies_to": suppression.applies_to,
                "symbol": suppression.symbol,
                "expires": suppression.expires,
                "matched": suppression.matched,
            }
            for suppression in sorted(report.suppressions, key=_written_at)
        ],
        "baseline": _baseline(report.baseline),
        "summary": _summary(report, verdict),
    }


def load(path: Path) -> list[FindingRecord]:
    """The findings of a report that ``-o json`` wrote.

    Raises ``UsageProblem`` where the file is none or is too large to be one.
    """
    try:
        if path.stat().st_size > _LARGEST_REPORT:
            raise UsageProblem(f"{path} is too large for a report of audit")
        data = path.read_bytes()
    except (OSError, ValueError) as problem:
        raise UsageProblem(f"cannot read the report {path}: {problem}") from problem
    try:
        return msgspec.json.decode(data, type=_Saved)["findings"]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise UsageProblem(
            f"{path} is no report of `audit -o json` (schema {SCHEMA}): {problem}"
        ) from problem


class _Saved(TypedDict):
    schema: Literal["audit/1"]
    findings: list[FindingRecord]


def schema() -> str:
    """The JSON Schema of the contract; ``audit-1.schema.json`` is this text."""
    return schema_of(Document, "audit/1")


def schema_of(contract: Any, title: str) -> str:
    """The JSON Schema of a type, as text; no object of it may have further keys."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}
    return json.dumps({**head, **_closed(msgspec.json.schema(contract))}, indent=2) + "\n"


def _closed(node: Any) -> Any:
    """The schema with every object that lists its properties closed to others."""
    if isinstance(node, list):
        return [_closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    closed = {key: _closed(value) for key, value in node.items()}
    if isinstance(closed.get("properties"), dict) and closed.get("type") == "object":
        closed["additionalProperties"] = False
    return closed


def _finding(finding: Finding, proposal: Proposal | None) -> FindingRecord:
    hit, where = finding.hit, finding.hit.where
    record: FindingRecord = {
        "rule": finding.rule,
        "category": finding.category,
        "severity": finding.severity,
        "confidence": hit.confidence,
        "origin": finding.origin,
        "origin_reason": finding.origin_reason,
        "reach": hit.reach,
        "reach_reason": hit.reach_reason,
        "cause": hit.cause,
        "fixed_in": finding.fixed_in,
        "fixed_by": repair_record(finding.fixed_by),
        "since_base": finding.since_base,
        "effect": finding.effect,
        "means": finding.means,
        "deployment": _deployment(finding.deployment),
        "path": where.symbol.path,
        "line": where.line,
        "column": where.column,
        "end_line": max(where.end_line, where.line),
        "symbol": where.symbol.qualname,
        "message": hit.message,
        "fix": hit.fix,
        "applicability": _applicability(finding, proposal),
        "evidence": [_evidence(evidence) for evidence in hit.evidence],
        "fingerprint": finding.fingerprint,
        "disposition": finding.disposition,
        "disposition_reason": finding.disposition_reason,
    }
    if where.end_column:
        record["end_column"] = where.end_column
    if hit.confirmed:
        record["confirmed"] = hit.confirmed
    return record


def _deployment(deployment: Deployment | None) -> DeploymentRecord | None:
    if deployment is None:
        return None
    return {
        "state": deployment.state,
        "conditions": [
            [{"kind": c.kind, "text": c.text, "path": c.path, "line": c.line} for c in way]
            for way in deployment.conditions
        ],
        "turned_on": [
            {"path": t.path, "line": t.line, "setting": t.setting}
            for t in sorted(deployment.turned_on)
        ],
        "reason": deployment.reason,
        "mitigation": deployment.mitigation,
    }


def _closest(closest: Closest | None) -> ClosestRecord | None:
    if closest is None:
        return None
    return {
        "found": [{"ref": f.ref, "equal": f.equal, "total": f.total} for f in closest.found],
        "note": closest.note,
    }


def _applicability(finding: Finding, proposal: Proposal | None) -> Applicability | None:
    if proposal is not None:
        return proposal.applicability
    # Functions are rewritten, and words of scripts that a check knows another spelling of.
    editable = finding.hit.rewrite is not None or finding.hit.where.symbol.qualname
    return None if editable else "display"


def _written_at(suppression: Suppression) -> tuple[str, int, int, tuple[str, ...]]:
    return suppression.path, suppression.line, suppression.column, suppression.rules


def _baseline(baseline: Baseline | None) -> BaselineRecord | None:
    if baseline is None:
        return None
    return {
        "name": baseline.name,
        "entries": baseline.entries,
        "absorbed": baseline.absorbed,
        "stale": [
            {"rule": e.rule, "fingerprint": e.fingerprint, "path": e.path, "symbol": e.symbol}
            for e in sorted(baseline.stale)
        ],
    }


def repair_record(repair: Repair | None) -> RepairRecord | None:
    """A commit as JSON has it, null where it is not known."""
    if repair is None:
        return None
    return {"sha": repair.sha, "date": repair.date, "subject": repair.subject}


def _launch(launch: Launch) -> LaunchRecord:
    return {
        "path": launch.path,
        "line": launch.line,
        "program": launch.program,
        "command": launch.command,
        "form": launch.form,
        "role": launch.role,
        "model": launch.model,
        "flags": [
            {
                "flag": argument.flag,
                "value": argument.value,
                "path": argument.path,
                "line": argument.line,
                "column": argument.column,
                "resolved": argument.resolved,
                "conditional": argument.conditional,
            }
            for argument in launch.arguments
        ],
        "environment": [
            {
                "name": variable.name,
                "value": variable.value,
                "path": variable.path,
                "line": variable.line,
                "column": variable.column,
                "resolved": variable.resolved,
                "conditional": variable.conditional,
            }
            for variable in launch.environment
        ],
        "unresolved": launch.unresolved,
        "worlds": [
            {"when": when, "flags": list(world)}
            for when, world in zip(launch.when, launch.worlds, strict=True)
        ],
        "joined": launch.joined,
    }


def _evidence(evidence: Evidence) -> EvidenceRecord:
    record: EvidenceRecord = {
        "path": evidence.path,
        "line": evidence.line,
        "symbol": evidence.symbol,
        "note": evidence.note,
        "side": evidence.side,
    }
    if evidence.end_column:
        record["column"] = evidence.column
        record["end_line"] = evidence.end_line
        record["end_column"] = evidence.end_column
    return record


def _side(side: SideInfo) -> SideRecord:
    return {
        "side": side.side,
        "ref": side.ref,
        "kind": side.kind,
        "commit": side.commit,
        "python_files": side.python_files,
        "read_files": side.read_files,
        "note": side.note,
    }


def _summary(report: Report, verdict: Verdict) -> SummaryRecord:
    active = [finding for finding in report.findings if finding.disposition == "active"]
    dispositions = [finding.disposition for finding in report.findings]
    return {
        "exit_status": verdict.status,
        "fail_on": verdict.fail_on,
        "verdict": verdict.line(),
        "findings": len(active),
        "failing": len(verdict.failing),
        "by_severity": {s: sum(f.severity == s for f in active) for s in SEVERITIES},
        "by_origin": {o: sum(f.origin == o for f in active) for o in ORIGINS},
        "suppressed": dispositions.count("suppressed"),
        "baselined": dispositions.count("baselined"),
        "hidden": dict(sorted(report.hidden.items())),
        "undecided": list(verdict.undecided),
        "mismatch": report.mismatch,
        "warnings": list(report.warnings),
        "configuration": dict(sorted(report.configuration.items())),
    }
