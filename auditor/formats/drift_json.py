"""The drift report for machines, schema ``audit-drift/1``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal, TypedDict

import msgspec

from auditor.drift.facts import Drift, FixState, PatchState
from auditor.drift.runs import Ages, Moved, active, tally
from auditor.formats.drift_words import Standing
from auditor.formats.json import schema_of
from auditor.formats.order import place
from auditor.formats.records import Count, Line, ToolRecord
from auditor.formats.text import encodable
from auditor.formats.verdict import Status
from auditor.model import Category, Origin, Severity, SideInfo

SCHEMA_FILE = Path(__file__).with_name("audit-drift-1.schema.json")


class FindingRecord(TypedDict):
    """An active finding; ``audit -o json`` has the whole of it."""

    fingerprint: str
    rule: str
    category: Category
    severity: Severity
    origin: Origin
    fixed_in: str | None
    path: str
    line: Line
    symbol: str


class SummaryRecord(TypedDict):
    """The counts; null where it could not be told. ``missed`` are the repairs that are owed.

    ``undecided`` says why an exit status is 3, or would be without findings; ``mismatch`` that
    upstream is not the release which the fork is based on.
    """

    ahead: Count | None
    behind: Count | None
    differing: Count
    both_changed: Count
    conflicts: Count | None
    fixes: dict[FixState, Count]
    missed: Count
    patches: dict[PatchState, Count]
    patch_ages: Ages | None
    findings: dict[Origin, Count]
    serve_findings: Count
    exit_status: Status
    undecided: list[str]
    mismatch: str


class Document(TypedDict):
    """A report of ``audit drift``; ``moved`` is null without an earlier run in ``--history``."""

    schema: Literal["audit-drift/1"]
    tool: ToolRecord
    fork: SideInfo
    upstream: SideInfo | None
    moved: Moved | None
    drift: Drift
    findings: list[FindingRecord]
    summary: SummaryRecord


def render(standing: Standing) -> str:
    """The whole report as indented JSON; no clock, host or absolute path of its own."""
    text = json.dumps(encodable(msgspec.to_builtins(document(standing))), ensure_ascii=False)
    return msgspec.json.format(text, indent=2) + "\n"


def document(standing: Standing) -> Document:
    """The report in the shape of the contract."""
    report, drift = standing.report, standing.drift
    counts = tally(report, drift)
    found = sorted(active(report), key=place)
    return {
        "schema": "audit-drift/1",
        "tool": {"name": "audit", "version": report.tool_version},
        "fork": report.fork,
        "upstream": report.upstream,
        "moved": standing.moved,
        "drift": drift,
        "findings": [
            {
                "fingerprint": finding.fingerprint,
                "rule": finding.rule,
                "category": finding.category,
                "severity": finding.severity,
                "origin": finding.origin,
                "fixed_in": finding.fixed_in,
                "path": finding.hit.where.symbol.path,
                "line": finding.hit.where.line,
                "symbol": finding.hit.where.symbol.qualname,
            }
            for finding in found
        ],
        "summary": {
            "ahead": counts.ahead,
            "behind": counts.behind,
            "differing": counts.differing,
            "both_changed": counts.both_changed,
            "conflicts": counts.conflicts,
            "fixes": counts.fixes,
            "missed": counts.missed,
            "patches": counts.patches,
            "patch_ages": counts.ages,
            "findings": {origin: counts.of_origin(origin) for origin in counts.findings},
            "serve_findings": sum(finding.category == "serve" for finding in found),
            "exit_status": standing.verdict.status,
            "undecided": list(standing.verdict.undecided),
            "mismatch": report.mismatch,
        },
    }


def schema() -> str:
    """The JSON Schema of the contract; ``audit-drift-1.schema.json`` is this text."""
    return schema_of(Document, "audit-drift/1")
