"""The line on this deployment, and the order of findings that follows from it."""

from __future__ import annotations

import msgspec
import pytest

from auditor.formats.order import deployment, rank
from auditor.model import Condition, Deployment, Finding, Hit, Location, Symbol, TurnedOn

TIER = Condition("flag", "--tier", "server_args.py", 3)
MODEL = Condition("model", "the model is sparse", "model.py", 9)


def finding(ours: Deployment | None, category="sync", severity="high", line=1) -> Finding:
    hit = Hit(Location(Symbol("a.py", "A.f"), line), "kv", "", (), "high", "live", "", "", "kv")
    return Finding("gate", category, severity, hit, "0", "introduced", "", deployment=ours)


@pytest.mark.parametrize(
    ("ours", "text"),
    [
        (None, ""),
        (
            Deployment("on", ((TIER,),), (TurnedOn("run.sh", 14, "--tier"),)),
            "turned on by run.sh:14 (--tier)",
        ),
        (Deployment("on"), "every launch here runs it"),
        (
            Deployment("off", ((TIER, MODEL),)),
            "no launch here turns it on; needs --tier and the model is sparse",
        ),
        (Deployment("off"), "no launch here turns it on"),
        (
            Deployment("undecided", ((TIER,), (MODEL,)), reason="$A is not known"),
            "undecided: $A is not known; needs --tier, or the model is sparse",
        ),
        (Deployment("no-launch", ((TIER,),)), "runs with --tier"),
        (Deployment("no-launch", ((TIER,), ())), ""),
    ],
)
def test_the_line_says_where_a_finding_runs(ours, text):
    assert deployment(finding(ours)) == text


def test_a_line_does_not_grow_with_the_launches():
    places = tuple(TurnedOn(f"run{i}.sh", i, "--tier") for i in range(5))
    text = deployment(finding(Deployment("on", (), places)))
    assert text == "turned on by run0.sh:0 (--tier) and 4 more places"
    assert "run1.sh:1 (--tier)" in deployment(finding(Deployment("on", (), places[:2])))


def test_what_runs_here_comes_first_within_a_severity():
    on, off = finding(Deployment("on"), line=9), finding(Deployment("off"), line=1)
    perhaps = finding(Deployment("undecided", reason="x"), line=5)
    unjoined = finding(Deployment("no-launch"), line=6)
    flag = finding(None, "serve", line=2)
    worse = msgspec.structs.replace(off, severity="critical")
    assert sorted([off, flag, unjoined, perhaps, on, worse], key=rank) == [
        worse,
        on,
        perhaps,
        unjoined,
        flag,
        off,
    ]
