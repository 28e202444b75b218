"""What a comment or a table accepts, and what is said about those that do nothing."""

from __future__ import annotations

import datetime

import pytest
from scenarios.pools import POOL, READERS, pool

from auditor import rulebook
from auditor.model import Comment, Finding, Report
from auditor.runs.audit import audit_sources
from auditor.triage import suppress
from auditor.triage.ignores import Ignore

BOOK = rulebook.load()
BROKEN = pool(READERS[1:], READERS[:1])
READ = "        return self.rows[layer_id][slots]\n"
OPEN = BROKEN.rindex(READ, 0, BROKEN.index("class PoolLoader"))
LINE = BROKEN[:OPEN].count("\n") + 1


def with_comment(before: str = "", behind: str = "", read: str = READ) -> str:
    """The pool whose one open read has a comment above it or behind it."""
    above = f"        {before}\n" if before else ""
    line = read.rstrip("\n") + (f"  {behind}" if behind else "")
    return BROKEN[:OPEN] + above + line + "\n" + BROKEN[OPEN + len(READ) :]


def audit(text: str, upstream: str | None = None, **files: str) -> Report:
    theirs = None if upstream is None else {POOL: upstream}
    return audit_sources({POOL: text, **files}, theirs, rulebook=BOOK)


def told(report: Report) -> dict[str, str]:
    return {f.rule: f.disposition for f in report.findings}


WAY = "audit: ignore[ungated-buffer-read] only the transfer thread calls it"


@pytest.mark.parametrize("place", ["before", "behind"])
def test_a_comment_accepts_the_finding_of_its_statement(place: str) -> None:
    report = audit(with_comment(**{place: f"# {WAY}"}))
    [finding] = report.findings
    assert (finding.rule, finding.disposition) == ("ungated-buffer-read", "suppressed")
    assert finding.disposition_reason == "only the transfer thread calls it"
    [entry] = report.suppressions
    assert (entry.line, entry.rules, entry.matched) == (LINE, ("ungated-buffer-read",), 1)


SPREAD = """\
        return [
            self.rows[layer_id][slots],
            slots,  # {way}
        ]
"""


def test_any_line_of_the_statement_will_do() -> None:
    assert told(audit(with_comment(read=SPREAD.format(way=WAY)))) == {
        "ungated-buffer-read": "suppressed"
    }


@pytest.mark.parametrize(
    "text",
    [
        # On the line of the function, whose body is no part of that statement.
        BROKEN.replace(
            "def get_rows(self, layer_id, slots=None):",
            f"def get_rows(self, layer_id, slots=None):  # {WAY}",
        ),
        with_comment(before=f"'# {WAY}'"),
        with_comment(behind=f"; '# {WAY}'".strip()),
        with_comment(before=f"# {WAY}\n"),
    ],
)
def test_elsewhere_it_accepts_nothing(text: str) -> None:
    assert told(audit(text))["ungated-buffer-read"] == "active"


@pytest.mark.parametrize(
    "text",
    [
        f'"""# {WAY}"""\n',
        f"x = f'''\n# {WAY}\n{{1}}'''\n",
        f"x = '\\\n# {WAY}'\n",
        f'def f():\n    """Doc.\n\n    # {WAY}\n    """\n',
    ],
)
def test_text_in_a_string_is_no_comment(text: str) -> None:
    report = audit(text + BROKEN)
    assert told(report) == {"ungated-buffer-read": "active"}
    assert report.suppressions == ()


@pytest.mark.parametrize(
    ("comment", "rule", "column"),
    [
        ("# audit: ignore[ungated-buffer-read]", "suppression-without-reason", 9),
        ("# audit: ignore[ungated-buffer-read] --- !", "suppression-without-reason", 9),
        ("# audit: ignore[ungated-buffer-read]  # noqa", "suppression-without-reason", 9),
        ("# audit: ignore[no-such-rule] because", "suppression-unknown-rule", 25),
        ("# audit: ignore because", "suppression-unknown-rule", 9),
        ("# audit: ignore[] because", "suppression-unknown-rule", 9),
        ("# audit: ignore[ungated-buffer-read because", "suppression-unknown-rule", 9),
        ("# audit: ignore[*] because", "suppression-unknown-rule", 25),
        ("# audit: ignore[suppression-unused] because", "suppression-unknown-rule", 25),
        ("# audit: ignore[gate-removed] because", "suppression-unused", 25),
    ],
)
def test_a_wrong_one_accepts_nothing_and_is_a_finding(comment: str, rule: str, column: int) -> None:
    report = audit(with_comment(before=comment), upstream=BROKEN)
    assert told(report) == {"ungated-buffer-read": "active", rule: "active"}
    [about] = [f for f in report.findings if f.rule == rule]
    where = about.hit.where
    assert (where.symbol.path, where.line, where.column) == (POOL, LINE, column)
    assert (about.severity, about.category, about.origin) == ("low", "drift", "introduced")


def test_one_comment_may_name_several_rules_and_is_asked_for_each() -> None:
    both = "# audit: ignore[gate-removed, ungated-buffer-read] read by one thread"
    report = audit(with_comment(before=both))
    assert told(report) == {"ungated-buffer-read": "suppressed", "suppression-unused": "active"}
    [unused] = [f for f in report.findings if f.rule == "suppression-unused"]
    assert unused.hit.where.column == 9 + both.index("gate-removed")


def test_a_rule_that_a_comment_names_twice_counts_once() -> None:
    twice = "# audit: ignore[no-such, ungated-buffer-read, no-such, ungated-buffer-read] because"
    report = audit(with_comment(before=twice))
    assert sorted(f.rule for f in report.findings) == [
        "suppression-unknown-rule",
        "ungated-buffer-read",
    ]
    [entry] = report.suppressions
    assert (entry.rules, entry.matched) == (("ungated-buffer-read",), 1)


def test_two_comments_may_accept_one_finding() -> None:
    report = audit(with_comment(before=f"# {WAY}", behind=f"# {WAY} too"))
    assert told(report) == {"ungated-buffer-read": "suppressed"}
    assert [s.matched for s in report.suppressions] == [1, 1]


def test_what_a_suppression_is_about_cannot_be_silenced_by_another() -> None:
    above = "# audit: ignore[suppression-unused] kept\n        # audit: ignore[gate-removed] kept"
    report = audit(with_comment(before=above))
    dispositions = {f.rule: f.disposition for f in report.findings}
    assert dispositions["suppression-unused"] == "active"


def test_upstreams_own_comment_is_not_the_forks() -> None:
    ours, theirs = with_comment(before=f"# {WAY}"), with_comment(before=f"# {WAY}")
    assert [s.brought_by for s in audit(ours, theirs).suppressions] == ["upstream"]
    assert [s.brought_by for s in audit(ours, BROKEN).suppressions] == ["fork"]
    quoted = f'"""\n# {WAY}\n"""\n' + BROKEN
    assert [s.brought_by for s in audit(ours, quoted).suppressions] == ["fork"]


def test_files_that_are_not_judged_have_no_unused_ones() -> None:
    files = {"sglang/test/test_pool.py": f"x = 1  # {WAY}\n", "sglang/b.py": f"x = (  # {WAY}\n"}
    assert told(audit(BROKEN, **files)) == {"ungated-buffer-read": "active"}


def test_rules_that_were_not_run_have_no_unused_ones() -> None:
    rules = tuple(r for r in BOOK.rules if r.id not in ("gate-removed",))
    names = BOOK.names()
    comment = Comment(3, 1, "# audit: ignore[gate-removed, gate-after-read] why", 3, 3)
    outcome = suppress.suppress(
        [],
        list(suppress.marks("a.py", [comment], ())),
        [],
        names,
        rules,
        lambda rule_id, path: rule_id in {rule.id for rule in rules},
        lambda rule_id, ignore: True,
        datetime.date(2030, 1, 1),
    )
    assert [f.hit.message for f in outcome.findings] == [
        "gate-after-read finds nothing in this statement"
    ]


def test_hostile_reasons() -> None:
    text = with_comment(
        before=f"# audit: ignore[ungated-buffer-read] a\x1b[2J\u202eb {'x' * 150_000}"
    )
    [finding] = audit(text).findings
    assert finding.disposition == "suppressed"
    assert len(finding.disposition_reason) == suppress.LONGEST_REASON
    assert "\n" not in finding.disposition_reason


def test_a_line_of_a_megabyte_is_refused_in_one_line() -> None:
    report = audit(with_comment(before=f"# {WAY} {'x' * 1_000_000}"))
    assert told(report) == {"ungated-buffer-read": "active"}
    [skipped] = report.skipped
    assert (skipped.side, skipped.path, skipped.stage) == ("fork", POOL, "comments")


def test_a_flood_of_comments_accepts_nothing() -> None:
    report = audit(with_comment(before=f"# {WAY}") + "# audit: ignore[a] b\n" * 100_000)
    assert told(report) == {"ungated-buffer-read": "active"}
    assert "more than 5,000" in report.skipped[0].reason


def test_a_thousand_ids_cost_nothing() -> None:
    listed = ",".join(f"no-such-rule-{number}" for number in range(5_000))
    report = audit(with_comment(before=f"# audit: ignore[{listed}] x"))
    assert 1 < len(report.findings) < 100


# -- configured -----------------------------------------------------------------------------------


def toml(**keys: str) -> str:
    return "[[ignore]]\n" + "".join(f'{key} = "{value}"\n' for key, value in keys.items())


RULE = "ungated-buffer-read"


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"path": POOL},
        {"path": "sglang/srt/**"},
        {"symbol": "Pool.get_rows"},
        {"symbol": "Pool", "path": "**/pool.py", "expires": "9999-12-31"},
    ],
)
def test_a_table_accepts_what_it_is_for(keys: dict[str, str]) -> None:
    report = audit(BROKEN, **{"audit.toml": toml(rule=RULE, reason="upstream's code", **keys)})
    [finding] = report.findings
    assert (finding.disposition, finding.disposition_reason) == ("suppressed", "upstream's code")
    [entry] = report.suppressions
    assert (entry.source, entry.brought_by, entry.path) == ("configuration", "fork", "audit.toml")
    assert (entry.applies_to, entry.symbol) == (keys.get("path", ""), keys.get("symbol", ""))


@pytest.mark.parametrize(
    ("keys", "rule", "line"),
    [
        ({"rule": RULE}, "suppression-without-reason", 1),
        ({"rule": RULE, "reason": "..."}, "suppression-without-reason", 1),
        ({"reason": "x"}, "suppression-unknown-rule", 1),
        ({"reason": "x", "rule": "no-such-rule"}, "suppression-unknown-rule", 3),
        (
            {"rule": RULE, "reason": "x", "expires": "2001-01-01"},
            "suppression-expired",
            4,
        ),
        ({"rule": RULE, "reason": "x", "path": "sglang/other.py"}, "suppression-unused", 1),
        ({"rule": RULE, "reason": "x", "symbol": "Other"}, "suppression-unused", 1),
    ],
)
def test_a_wrong_table_accepts_nothing_and_is_a_finding(
    keys: dict[str, str], rule: str, line: int
) -> None:
    report = audit(BROKEN, **{"audit.toml": toml(**keys)})
    assert told(report) == {RULE: "active", rule: "active"}
    [about] = [f for f in report.findings if f.rule == rule]
    assert (about.hit.where.symbol.path, about.hit.where.line) == ("audit.toml", line)


@pytest.mark.parametrize(("day", "expired"), [(1, False), (2, False), (3, True)])
def test_the_last_day_counts(day: int, expired: bool) -> None:
    ignore = Ignore(RULE, reason="x", expires=datetime.date(2030, 1, 2), name="audit.toml")
    outcome = suppress.suppress(
        [],
        [],
        [ignore],
        BOOK.names(),
        BOOK.rules,
        lambda rule_id, path: False,
        lambda rule_id, ignore: False,
        datetime.date(2030, 1, day),
    )
    rules: list[Finding] = list(outcome.findings)
    assert [f.rule for f in rules] == (["suppression-expired"] if expired else [])
    assert len(outcome.suppressions) == (not expired)
