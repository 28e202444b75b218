"""A rule that was renamed is still meant by its old name."""

from __future__ import annotations

from pathlib import Path

import pytest
from scenarios.pools import POOL, READERS, pool

from auditor.errors import UsageProblem
from auditor.model import BaselineEntry
from auditor.rulebook import Rulebook
from auditor.runs.audit import audit_sources
from auditor.runs.request import chosen
from auditor.runs.rules import load
from auditor.triage.baseline import match

PAGE = """\
id: {id}
category: sync
title: A late wait
effect: none
severity: high
confidence: high
check: sibling-gates
params: {{shape: {shape}}}
why: "In production: none."
fix: fix
aliases: [{aliases}]
invalid:
  - "x = 1  # error: [{id}]"
valid:
  - "x = 1"
"""


def book(folder: Path, aliases: str, rule_id: str = "our-late-wait") -> Rulebook:
    (folder / "sync").mkdir(exist_ok=True)
    page = PAGE.format(id=rule_id, aliases=aliases, shape="ungated")
    (folder / "sync" / f"{rule_id}.yaml").write_text(page)
    return load([folder])


def test_an_alias_finds_its_rule(tmp_path: Path) -> None:
    rules = book(tmp_path, "late-wait, slow-wait")
    assert rules.rule("slow-wait").id == rules.rule("late-wait").id == "our-late-wait"
    assert rules.find("no-wait") is None
    with pytest.raises(UsageProblem, match="did you mean slow-wait"):
        rules.rule("slow-wai")


def test_select_and_ignore_take_aliases(tmp_path: Path) -> None:
    rules = book(tmp_path, "late-wait")
    assert [rule.id for rule in chosen(rules, ["late-wait"], [])] == ["our-late-wait"]
    assert "our-late-wait" not in [rule.id for rule in chosen(rules, [], ["late-wait"])]


def test_a_baseline_and_a_suppression_with_an_alias_work(tmp_path: Path) -> None:
    rules = book(tmp_path, "late-wait")
    text = pool(READERS[1:], READERS[:1])
    read = "        return self.rows[layer_id][slots]"
    at = text.rindex(read, 0, text.index("class PoolLoader"))
    silenced = f"{text[:at]}        # audit: ignore[late-wait] known\n{text[at:]}"
    report = audit_sources({POOL: silenced}, rulebook=rules)
    told = {f.rule: f.disposition for f in report.findings}
    assert told["our-late-wait"] == "suppressed"

    findings = audit_sources({POOL: text}, rulebook=rules).findings
    [ours] = [f for f in findings if f.rule == "our-late-wait"]
    entry = BaselineEntry("late-wait", ours.fingerprint, "", "")
    matched = match([entry], [ours], rules.names())
    assert matched.accepting == (entry,)


@pytest.mark.parametrize("aliases", ["gate-after-read", "our-late-wait", "a-b, a-b"])
def test_an_alias_is_the_name_of_one_rule_only(tmp_path: Path, aliases: str) -> None:
    with pytest.raises(UsageProblem, match=r"aliases: '.*' is a name of .* too"):
        book(tmp_path, aliases)


def test_an_alias_is_an_id(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="aliases"):
        book(tmp_path, "Not An Id")


def test_the_page_tells_earlier_names(tmp_path: Path) -> None:
    from auditor.formats.explain import rule_page
    from auditor.formats.text import Screen

    rule = book(tmp_path, "late-wait").rule("late-wait")
    assert "\nFormerly late-wait\n" in rule_page(rule, Screen())
