"""The report as GitLab's Code Quality artifact, which a merge request is judged by."""

from __future__ import annotations

import json
from typing import Any

from auditor.formats.order import place
from auditor.formats.text import printable
from auditor.model import Finding, Report, Severity

_SEVERITIES: dict[Severity, str] = {
    "critical": "blocker",
    "high": "critical",
    "medium": "major",
    "low": "minor",
    "info": "info",
}


def render(report: Report) -> str:
    """The active findings as an indented ASCII JSON list, in the order of their places."""
    seen: dict[str, int] = {}
    listed = []
    for finding in sorted(report.findings, key=place):
        if finding.disposition == "active":
            seen[finding.fingerprint] = seen.get(finding.fingerprint, 0) + 1
            listed.append(_entry(finding, seen[finding.fingerprint]))
    return json.dumps(listed, indent=2) + "\n"


def _entry(finding: Finding, ordinal: int) -> dict[str, Any]:
    hit, where = finding.hit, finding.hit.where
    fix = f". To do: {hit.fix}" if hit.fix else ""
    return {
        "description": printable(hit.message + fix),
        "check_name": finding.rule,
        # GitLab drops all but one entry of a fingerprint.
        "fingerprint": finding.fingerprint + (f"-{ordinal}" if ordinal > 1 else ""),
        "severity": _SEVERITIES[finding.severity],
        "location": {
            "path": printable(where.symbol.path.removeprefix("./")),
            "lines": {"begin": where.line, "end": max(where.line, where.end_line)},
        },
    }
