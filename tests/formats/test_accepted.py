"""How a report shows what was accepted, by whom, and what is stale."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import msgspec
import pytest

from auditor.formats.explain import baseline_table
from auditor.formats.json import SCHEMA_FILE
from auditor.formats.json import render as render_json
from auditor.formats.table import render
from auditor.formats.text import Screen
from auditor.formats.verdict import decide
from auditor.model import Baseline, BaselineEntry, Report, Suppression

from .sample import finding, report

COMMENT = Suppression("a.py", 3, 9, ("a-rule",), "why \x1b[2J", "comment", "fork", matched=2)
TABLE = Suppression(
    *("audit.toml", 4, 1, ("b-rule",), "because", "configuration", "fork", "srt/**", "Pool"),
    expires="2030-01-02",
)
STALE = tuple(BaselineEntry("a-rule", f"{n:016x}", f"{n}.py", "Pool.get") for n in range(25))


def accepted(**changes: Any) -> Report:
    return report(
        finding(disposition="suppressed", disposition_reason="why", fingerprint="a" * 16),
        *(finding(disposition="baselined", fingerprint=f"{n:016x}") for n in range(60)),
        suppressions=(COMMENT, TABLE, msgspec.structs.replace(COMMENT, brought_by="upstream")),
        baseline=Baseline("base.json", 85, 60, STALE),
        **changes,
    )


def page(value: Report, **screen: bool) -> str:
    return render(value, decide(value, "high", False), Screen(**screen))


def test_the_last_line_counts_both() -> None:
    value = accepted()
    assert decide(value, "high", False).line() == (
        "nothing at or above high · 1 suppressed · 60 baselined · exit 0"
    )
    more = msgspec.structs.replace(value, findings=(*value.findings, finding()))
    assert decide(more, "high", False).line() == (
        "1 finding at or above high · 1 introduced by this fork · 1 suppressed · 60 baselined"
        " · exit 1"
    )
    assert decide(more, "never", False).line() == (
        "1 finding, none fails the run (fail-on never) · 1 suppressed · 60 baselined · exit 0"
    )
    undecided = msgspec.structs.replace(value, undecided=("no start was found",))
    assert decide(undecided, "high", False).line() == (
        "could not decide: no start was found · nothing at or above high · 1 suppressed"
        " · 60 baselined · exit 3"
    )


def test_the_page_names_what_the_fork_brought() -> None:
    text = page(accepted())
    assert "Suppressions that the fork brought · 2\n" in text
    assert "  a.py:3 a-rule · 2 findings: why \\x1b[2J\n" in text
    assert (
        "  audit.toml:4 b-rule · for srt/** Pool · until 2030-01-02 · 0 findings: because\n" in text
    )
    assert "\x1b" not in text


def test_the_page_is_cut_and_v_is_not() -> None:
    short, long = page(accepted()), page(accepted(), verbose=True)
    assert "+11 more findings, see: -v or -o json" in short
    assert "Stale · 25 entries of base.json match nothing any more" in short
    assert "  +5 more, see: -v or -o json\n" in short
    assert "audit baseline prune base.json takes them out" in short
    assert long.count("· baselined") == 60
    assert long.count("a-rule 00000000000000") == 25


def test_nothing_is_said_where_nothing_was_accepted() -> None:
    text = page(report(finding(severity="low"), baseline=Baseline("base.json", 0, 0)))
    assert "fork brought" not in text
    assert "Stale" not in text


def test_json_keeps_to_the_schema() -> None:
    value = accepted()
    document = json.loads(render_json(value, decide(value, "high", False)))
    jsonschema.validate(document, json.loads(SCHEMA_FILE.read_text()))
    assert document["summary"]["suppressed"] == 1
    assert document["summary"]["baselined"] == 60
    assert document["baseline"]["stale"][0] == {
        "rule": "a-rule",
        "fingerprint": "0" * 16,
        "path": "0.py",
        "symbol": "Pool.get",
    }
    assert [s["brought_by"] for s in document["suppressions"]] == ["fork", "upstream", "fork"]
    assert document["suppressions"][2]["expires"] == "2030-01-02"


@pytest.mark.parametrize("entries", [(), STALE[:1]])
def test_a_baseline_as_a_page(entries: tuple[BaselineEntry, ...]) -> None:
    shown = baseline_table(entries, Screen())
    assert shown.endswith(f"{len(entries)} finding{'' if entries else 's'} accepted\n")
    assert shown.count("Pool.get") == len(entries)


def test_a_hostile_baseline_is_shown_harmless() -> None:
    assert "\x1b" not in baseline_table(
        [BaselineEntry("\x1b[2J", "\x1b", "\x1b", "\x1b")], Screen()
    )
