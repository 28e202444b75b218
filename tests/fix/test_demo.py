"""The example fork, fixed as a whole: what is left are the findings without an edit."""

from __future__ import annotations

from pathlib import Path

from auditor.demo import build
from auditor.runs.audit import run
from auditor.runs.fix import repair
from auditor.runs.request import AuditRequest

WITHOUT_AN_EDIT = {"gate-bypassed", "template-never-rendered"}


def test_all_planted_defects_that_have_an_edit_are_put_right(tmp_path: Path) -> None:
    made = build(tmp_path / "fork")
    request = AuditRequest(
        root=made.fork,
        upstream=made.upstream,
        targets=(made.target,),
        min_confidence="low",
        cache=tmp_path / "cache",
    )
    done = repair(request, unsafe=True)
    left = {fix.finding.rule for fix in done.fixes if fix.state != "made"}
    assert left == WITHOUT_AN_EDIT
    assert len(done.fixes) >= 12
    assert {finding.rule for finding in run(request).findings} == WITHOUT_AN_EDIT
    safe = repair(request)
    assert [fix.state for fix in safe.fixes] == ["none"] * len(safe.fixes)
