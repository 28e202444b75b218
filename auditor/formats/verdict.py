"""Decides what a report means for the exit status, once for every format."""

from __future__ import annotations

from typing import Literal

import msgspec

from auditor.formats.text import count
from auditor.model import ORIGINS, SEVERITIES, Finding, Report, Severity

Status = Literal[0, 1, 3]
FailOn = Literal["critical", "high", "medium", "low", "info", "never"]

_OF_ORIGIN = {
    "introduced": "introduced by this fork",
    "regressed": "regressed by this fork",
    "inherited": "inherited",
    "fixed-upstream": "fixed upstream",
    "unknown": "of unknown origin",
}


_OF_DEPLOYMENT = "of this deployment"


def _whose(finding: Finding) -> str:
    """A serve script belongs to the deployment, whatever tree it starts."""
    if finding.category == "serve" and finding.origin == "introduced":
        return _OF_DEPLOYMENT
    return _OF_ORIGIN[finding.origin]


class Verdict(msgspec.Struct, frozen=True):
    """Exit status 0 (in order), 1 (``failing`` findings) or 3 (``undecided``, with the reasons).

    ``suppressed`` and ``baselined`` count what was accepted.
    """

    status: Status
    fail_on: FailOn
    failing: tuple[Finding, ...]
    active: int
    undecided: tuple[str, ...]
    suppressed: int = 0
    baselined: int = 0

    def line(self) -> str:
        """The verdict in one line: how many, whose, and the exit status."""
        parts = []
        if self.failing:
            total = len(self.failing)
            causes = len({finding.hit.cause or finding.fingerprint for finding in self.failing})
            shared = f" ({count(causes, 'cause')})" if causes < total else ""
            parts.append(f"{count(total, 'finding')} at or above {self.fail_on}{shared}")
            whose = [_whose(finding) for finding in self.failing]
            named = (*(_OF_ORIGIN[origin] for origin in ORIGINS), _OF_DEPLOYMENT)
            parts += [f"{whose.count(name)} {name}" for name in named if name in whose]
        elif self.fail_on == "never":
            parts.append(f"{count(self.active, 'finding')}, none fails the run (fail-on never)")
        else:
            parts.append(f"nothing at or above {self.fail_on}")
            if self.active:
                parts.append(f"{count(self.active, 'finding')} below it")
        accepted = {"suppressed": self.suppressed, "baselined": self.baselined}
        parts += [f"{number:,} {told}" for told, number in accepted.items() if number]
        if self.undecided:
            told = "; ".join(self.undecided)
            parts.append(told if self.failing else f"could not decide: {told}")
            if not self.failing:
                parts.insert(0, parts.pop())
        return " · ".join([*parts, f"exit {self.status}"])


def decide(report: Report, fail_on: FailOn, strict: bool) -> Verdict:
    """The verdict on ``report``; only active findings count, ``fail_on`` is a severity or never."""
    active = [finding for finding in report.findings if finding.disposition == "active"]
    failing: tuple[Severity, ...] = ()
    if fail_on != "never":
        failing = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    dispositions = [finding.disposition for finding in report.findings]
    found = tuple(finding for finding in active if finding.severity in failing)
    undecided = _undecided(report, strict)
    return Verdict(
        status=1 if found else 3 if undecided else 0,
        fail_on=fail_on,
        failing=found,
        active=len(active),
        undecided=undecided,
        suppressed=dispositions.count("suppressed"),
        baselined=dispositions.count("baselined"),
    )


def _undecided(report: Report, strict: bool) -> tuple[str, ...]:
    reasons = [*report.undecided]
    if report.fork.read_files == 0:
        reasons.append("no Python file of the fork was read")
    # What could not be read a second time was read once, and its findings stand.
    unread = {s.path for s in report.skipped if s.side == "fork" and s.stage != "confirm"}
    if unread:
        reasons.append(f"{count(len(unread), 'file')} of the fork could not be read")
    if strict and len(report.skipped) > 0 and not unread:
        reasons.append(f"{count(len(report.skipped), 'place')} skipped (strict)")
    if strict and report.mismatch:
        reasons.append("upstream is not the release that the fork is based on (strict)")
    return tuple(reasons)
