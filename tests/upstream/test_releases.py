"""Real releases, from their wheels: nothing skipped, known defects found, sound readers silent.

The wheels are downloaded once and kept (``AUDIT_TEST_CACHE`` or the user's cache). Without a copy
and without a network these tests are skipped and say so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from auditor.runs.history import run_history
from auditor.runs.request import AuditRequest
from tests.benchmarks.audits import GATES, Found, audit, sync_findings
from tests.benchmarks.releases import Unavailable, release
from tests.benchmarks.score import Row, judge, truth

pytestmark = pytest.mark.upstream

VERSIONS = ("0.5.9", "0.5.12", "0.5.18")


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def _tree(version: str) -> Path:
    try:
        return release(version)
    except Unavailable as problem:
        pytest.skip(f"no released wheel and no network: {problem}")


@pytest.fixture(scope="module")
def tree(version: str) -> Path:
    return _tree(version)


@pytest.fixture(scope="module")
def report(tree: Path) -> dict[str, Any]:
    return audit(tree, str(tree))


@pytest.fixture(scope="module")
def findings(report: dict[str, Any]) -> list[Found]:
    return sync_findings(report)


@pytest.fixture(scope="module")
def rows(version: str) -> list[Row]:
    return [row for row in truth() if row.version == version]


def test_every_file_is_read(report: dict[str, Any], tree: Path) -> None:
    assert report["skipped"] == []
    assert report["fork"]["python_files"] == sum(1 for _ in tree.rglob("*.py"))


def test_every_known_cause_is_found(findings: list[Found], rows: list[Row]) -> None:
    score = judge(findings, rows)
    assert score.causes - score.causes_found == set()


def test_readers_known_to_wait_are_silent(findings: list[Found], rows: list[Row]) -> None:
    waiting = [row for row in rows if row.label.startswith("gated") and row.expect == "silent"]
    assert len(waiting) >= 10
    assert [f.place for f in findings if any(row.matches(f) for row in waiting)] == []


def test_most_of_what_is_reported_is_real(findings: list[Found], rows: list[Row]) -> None:
    score = judge(findings, rows)
    right, wrong = score.methods_found, score.wrong_methods
    assert right / (right + wrong) >= 0.85, [found.place for found in score.false_alarms]


def test_a_release_held_against_itself_has_only_inherited_findings(
    report: dict[str, Any],
) -> None:
    assert {finding["origin"] for finding in report["findings"]} == {"inherited"}
    assert report["changes"]["files"] == []


def test_findings_say_which_siblings_wait(report: dict[str, Any]) -> None:
    gaps = [finding for finding in report["findings"] if finding["rule"] in GATES]
    assert gaps
    assert [f["symbol"] for f in gaps if not f["evidence"]] == []


def test_the_index_serves_the_upstream_of_a_fork() -> None:
    report = audit(_tree("0.5.9"), "pypi:0.5.9")
    assert report["upstream"]["kind"] == "release"
    assert report["skipped"] == []
    assert {finding["origin"] for finding in report["findings"]} == {"inherited"}


def test_a_defect_that_a_later_release_fixed_is_known_as_fixed() -> None:
    old, newer = _tree("0.5.9"), _tree("0.5.12")
    report = audit(old, str(old), "--target", str(newer))
    fixed = {f["symbol"] for f in report["findings"] if f["origin"] == "fixed-upstream"}
    assert {
        "NSATokenToKVPool.get_index_k_continuous",
        "NSATokenToKVPool.get_index_k_scale_continuous",
        "NSATokenToKVPool.get_index_k_scale_buffer",
    } <= fixed


def test_the_index_k_getters_end_where_upstream_fixed_them() -> None:
    """They read without a wait up to 0.5.10 and wait from 0.5.11 on."""
    before, after = (_tree(version) for version in ("0.5.9", "0.5.12"))
    found, status = run_history(AuditRequest(before, None, str(before), (str(after),), jobs=1))
    ends = {
        life.finding.hit.where.symbol.qualname: life.ended_reason
        for life in found.lifetimes
        if life.ended is not None
    }
    getters = ("continuous", "scale_buffer", "scale_continuous")
    assert ends == {f"NSATokenToKVPool.get_index_k_{getter}": "it waits" for getter in getters}
    assert (status, found.skipped) == (0, ())
