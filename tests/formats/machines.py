"""What the tests of the formats for machines share: hostile text, rules, golden files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from auditor.formats import render
from auditor.formats.text import Screen
from auditor.formats.verdict import FailOn, decide
from auditor.model import (
    Checked,
    Deployment,
    Evidence,
    Excerpt,
    Proposal,
    Replacement,
    Report,
    SideInfo,
    Skipped,
    TurnedOn,
)
from auditor.rulebook import Rule

from .sample import finding, report

GOLDEN = Path(__file__).parent.parent / "golden"

HOSTILE = (
    "a\"b'c\n::error::x\r\n\t\x00\x1b[2J\x07\x9b\u202e\u2028\ufffe\udce9\ud83d %0A%25 :,; "
    "| `x` ``` <script>alert(1)</script> <!-- --> ]]> &lt; @octocat #12 GH-3 {0} {{x}} "
    "[link](https://evil.example/x) ![i](//evil.example) https://evil.example www.evil.example "
    "\\| \\` $x$ ~~d~~ *s* _e_ \U000e0041 é 漢 😀"
)


def written(
    name: str, value: Report, fail_on: FailOn = "high", rules: tuple[Rule, ...] = ()
) -> str:
    return render(name, value, decide(value, fail_on, False), Screen(), None, rules)


def hostile_report() -> Report:
    """Text of the tree that does its worst in every place where there can be some."""
    seen = Evidence(HOSTILE, 3, HOSTILE, HOSTILE)
    other = Evidence(HOSTILE, 4, HOSTILE, HOSTILE, "upstream")
    told: dict[str, Any] = {"path": HOSTILE, "symbol": HOSTILE, "message": HOSTILE, "fix": HOSTILE}
    told |= {"origin_reason": HOSTILE, "reach_reason": HOSTILE, "cause": HOSTILE}
    runs = Deployment("on", (), (TurnedOn(HOSTILE, 1, HOSTILE),), HOSTILE, HOSTILE)
    told |= {"effect": HOSTILE, "means": HOSTILE, "since_base": HOSTILE, "deployment": runs}
    told |= {"fixed_in": HOSTILE, "evidence": (seen, other), "fingerprint": "ab" * 8}
    lines = ("def read(self):", HOSTILE)
    return report(
        finding(**told, rule="gate-after-read"),
        finding(**told | {"fingerprint": "cd" * 8, "path": "\\.\\a b%20c.py"}, severity="low"),
        finding(
            **told | {"fingerprint": "ef" * 8},
            disposition="suppressed",
            disposition_reason=HOSTILE,
        ),
        fork=SideInfo("fork", HOSTILE, "worktree", "1f" * 20, 1, 1, HOSTILE),
        skipped=(Skipped("fork", HOSTILE, HOSTILE, HOSTILE),),
        checked=(Checked("sync", HOSTILE, 1, 1, HOSTILE, HOSTILE),),
        warnings=(HOSTILE,),
        hidden={HOSTILE: 1},
        undecided=(HOSTILE,),
        proposals={
            "ab" * 8: Proposal("safe", HOSTILE, Replacement(HOSTILE, 1, 1, 2, 3, HOSTILE)),
            "cd" * 8: Proposal("unsafe", HOSTILE, Replacement("a b.sh", 1, 2, 1, 3, "")),
        },
        configuration={"upstream": HOSTILE},
        excerpts={
            "ab" * 8: (Excerpt("read", "fork", HOSTILE, HOSTILE, 1, lines, 2, 9, 0, HOSTILE),)
        },
    )


def small_rules() -> tuple[Rule, ...]:
    """Pages of three rules, as the rulebook would hold them."""
    return (
        _page("optional-gate-omitted", "medium", "optional", "A call leaves the gate out", ()),
        _page(
            "override-drops-gate",
            "high",
            "override",
            "An override drops the wait",
            ("https://example.org/pages/override drops",),
        ),
        _page(
            "ungated-buffer-read",
            "high",
            "ungated",
            "A buffer is read without a wait",
            (
                "a book",
                "https://cwe.mitre.org/data/definitions/820.html",
                "https://example.org/reads",
            ),
        ),
    )


def _page(name: str, severity: str, shape: str, title: str, references: tuple[str, ...]) -> Rule:
    why = f"First line of why\n{name} hurts.\n\nMore, with `code`.\n"
    return Rule(
        id=name,
        category="sync",
        title=title,
        effect="garbled answers, no error",
        means=f"{name} hurts under load.",
        severity=severity,
        confidence="high" if severity == "high" else "medium",
        check="sibling-gates",
        params={"shape": shape},
        why=why,
        fix="Wait first.\n",
        references=references,
        valid=(),
        invalid=(),
    )
