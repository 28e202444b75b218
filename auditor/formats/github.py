"""The report as annotations of GitHub Actions: workflow commands, one a line."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.formats.order import deployment, origin, rank
from auditor.formats.text import count, printable
from auditor.formats.verdict import Verdict
from auditor.model import Finding, Report, Severity

# GitHub shows ten of each kind for a step and drops the rest in silence
# (actions/toolkit, docs/problem-matchers.md).
MOST_OF_A_KIND = 10

_KINDS: dict[Severity, str] = {
    "critical": "error",
    "high": "error",
    "medium": "warning",
    "low": "notice",
    "info": "notice",
}


def render(report: Report, verdict: Verdict) -> str:
    """The worst active findings of each kind, and one notice of how many more there are.

    Empty where there is nothing to say.
    """
    # One place among the notices is for what is not shown, one among the warnings for a doubt.
    room = {"error": MOST_OF_A_KIND, "warning": MOST_OF_A_KIND, "notice": MOST_OF_A_KIND - 1}
    lines = []
    if verdict.undecided:
        room["warning"] -= 1
        told = "; ".join(verdict.undecided)
        lines.append(f"::warning title={_property('audit: in doubt')}::{_data(told)}")
    active = sorted((f for f in report.findings if f.disposition == "active"), key=rank)
    left: list[Finding] = []
    for finding in active:
        kind = _KINDS[finding.severity]
        if room[kind]:
            room[kind] -= 1
            lines.append(_annotation(kind, finding))
        else:
            left.append(finding)
    if left:
        lines.append(f"::notice title=audit::{_data(_rest(left))}")
    return "".join(f"{line}\n" for line in lines)


def _annotation(kind: str, finding: Finding) -> str:
    hit, where = finding.hit, finding.hit.where
    properties = {"file": where.symbol.path, "line": str(where.line)}
    if where.end_line > where.line:
        properties["endLine"] = str(where.end_line)
    else:
        # GitHub takes columns only of an annotation on one line.
        properties["col"] = str(where.column)
    properties["title"] = f"{finding.rule} ({finding.severity}, {origin(finding)})"
    told = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    lines = [hit.message, finding.means, deployment(finding)]
    lines += [f"To do: {hit.fix}" if hit.fix else "", f"audit {finding.fingerprint}"]
    return f"::{kind} {told}::" + "%0A".join(_data(line) for line in lines if line)


def _rest(left: Sequence[Finding]) -> str:
    severities = [finding.severity for finding in left]
    counted = [f"{severities.count(s)} {s}" for s in _KINDS if s in severities]
    return f"{count(len(left), 'more finding')} not shown here: {', '.join(counted)}"


def _data(text: str) -> str:
    """A message; line ends within the text of the tree have become their visible escapes."""
    return printable(text).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
