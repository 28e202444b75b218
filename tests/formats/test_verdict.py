from __future__ import annotations

import msgspec
import pytest

from auditor.formats.verdict import FailOn, decide
from auditor.model import Skipped

from .sample import finding, report

FORK_SKIP = Skipped("fork", "a.py", "scan", "syntax")
UPSTREAM_SKIP = Skipped("upstream", "a.py", "scan", "syntax")


@pytest.mark.parametrize(
    ("severity", "fail_on", "status"),
    [
        ("critical", "high", 1),
        ("high", "high", 1),
        ("medium", "high", 0),
        ("medium", "medium", 1),
        ("info", "info", 1),
        ("low", "medium", 0),
        ("critical", "never", 0),
    ],
)
def test_findings_at_or_above_fail_on_set_status_1(
    severity: str, fail_on: FailOn, status: int
) -> None:
    assert decide(report(finding(severity=severity)), fail_on, False).status == status


@pytest.mark.parametrize("disposition", ["suppressed", "baselined"])
def test_accepted_findings_do_not_count(disposition: str) -> None:
    verdict = decide(report(finding(disposition=disposition)), "info", True)
    assert (verdict.status, verdict.active, verdict.failing) == (0, 0, ())


def test_what_could_not_be_decided_is_status_3_and_findings_win() -> None:
    nothing_read = report()
    nothing_read = msgspec.structs.replace(
        nothing_read, fork=msgspec.structs.replace(nothing_read.fork, read_files=0)
    )
    assert decide(nothing_read, "high", False).status == 3
    assert decide(report(skipped=(FORK_SKIP,)), "high", False).status == 3
    assert decide(report(skipped=(FORK_SKIP,)), "never", False).status == 3
    assert decide(report(skipped=(UPSTREAM_SKIP,)), "high", False).status == 0
    assert decide(report(skipped=(UPSTREAM_SKIP,)), "high", True).status == 3
    assert decide(report(finding(), skipped=(FORK_SKIP,)), "high", True).status == 1


def test_the_line_says_how_many_whose_and_the_status() -> None:
    findings = (
        finding(fingerprint="a" * 16, cause="X"),
        finding(fingerprint="b" * 16, cause="X", origin="inherited"),
        finding(fingerprint="c" * 16, severity="low"),
    )
    assert (
        decide(report(*findings), "high", False).line()
        == "2 findings at or above high (1 cause) · 1 introduced by this fork · 1 inherited"
        " · exit 1"
    )
    low = report(findings[2])
    assert (
        decide(low, "high", False).line()
        == "nothing at or above high · 1 finding below it · exit 0"
    )
    assert "fail-on never" in decide(low, "never", False).line()
    undecided = decide(report(skipped=(FORK_SKIP, FORK_SKIP)), "high", False)
    assert undecided.line().startswith("could not decide: 1 file of the fork could not be read")
    assert undecided.line().endswith("exit 3")


def test_an_upstream_that_is_not_the_base_is_in_doubt_where_that_is_asked_for() -> None:
    value = report(mismatch="v0.5.18 is newer than v0.5.9")
    assert decide(value, "high", False).status == 0
    strict = decide(value, "high", True)
    assert strict.status == 3
    assert strict.undecided == ("upstream is not the release that the fork is based on (strict)",)
    assert decide(msgspec.structs.replace(value, findings=(finding(),)), "high", True).status == 1
