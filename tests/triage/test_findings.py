"""Identity across edits, origin across sides, severity by reach."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from auditor.model import Evidence, Hit, Location, Origin, Symbol
from auditor.rulebook import load, packaged_rules
from auditor.runs.rules import load as load_rules
from auditor.triage.findings import (
    Witness,
    blame,
    capped,
    fingerprints,
    hidden_counts,
    severity_of,
)

SEVERE = "severity: critical\nkeeps_severity: true"


def hit(path: str, qualname: str, anchor: str = "rows", line: int = 1) -> Hit:
    where = Location(Symbol(path, qualname), line)
    return Hit(where, anchor, "message", (), "high", "live", "why", "fix", "cause")


def marks(*hits: Hit) -> list[str]:
    return fingerprints([("a-rule", h) for h in hits])


def test_a_fingerprint_is_name_and_anchor() -> None:
    (before,) = marks(hit("p/a.py", "Pool.get", line=3))
    assert marks(hit("q/b.py", "Pool.get", line=300)) == [before]
    assert fingerprints([("another-rule", hit("p/a.py", "Pool.get"))]) == [before]
    others = [hit("p/a.py", "Pool.get2"), hit("p/a.py", "Pool.get", "keys")]
    assert before not in marks(*others)
    assert len(set(marks(*others))) == 2


def test_no_two_are_alike() -> None:
    same = [
        hit("p/a.py", "Pool.get", line=1),
        hit("p/a.py", "Pool.get", line=9),
        hit("p/b.py", "Pool.get"),
        hit("p/c.py", "Pool.get"),
    ]
    assert len(set(marks(*same))) == len(same)
    for first, second in itertools.pairwise(same[1:]):
        assert len(set(marks(first, second))) == 2


def test_names_cannot_be_joined_differently() -> None:
    assert len(set(marks(hit("p", "A.b", "c"), hit("p", "A", "b.c"), hit("p", "A.bc", "")))) == 3


def test_an_equal_finding_of_a_second_file_leaves_other_names_alone() -> None:
    lone = hit("p/a.py", "Pool.get")
    (before,) = marks(lone)
    after = marks(lone, hit("p/z.py", "Other.get"))
    assert after[0] == before


def witness(side: str, state: str, ref: str = "") -> Witness:
    line = Evidence("p/a.py", 7, "Pool.get", "waits here", "upstream")
    return Witness(side, ref or side, state, (line,) if state == "gated" else ())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("upstream", "base", "target", "expected"),
    [
        ("absent", None, None, "introduced"),
        ("present", None, None, "introduced"),
        ("gated", None, None, "regressed"),
        ("defect", None, None, "inherited"),
        ("unread", None, None, "unknown"),
        ("absent", "defect", None, "inherited"),
        ("gated", "defect", None, "fixed-upstream"),
        ("present", "defect", None, "fixed-upstream"),
        ("absent", "gated", None, "regressed"),
        ("gated", "absent", None, "regressed"),
        ("unread", "gated", None, "unknown"),
        ("unread", "defect", None, "inherited"),
        ("defect", None, "gated", "fixed-upstream"),
        ("defect", None, "present", "fixed-upstream"),
        ("defect", None, "defect", "inherited"),
        ("defect", None, "absent", "inherited"),
        ("defect", None, "unread", "inherited"),
        ("gated", None, "gated", "regressed"),
        ("absent", None, "gated", "introduced"),
    ],
)
def test_origins(upstream: str, base: str | None, target: str | None, expected: str) -> None:
    sides = [witness("upstream", upstream), *([witness("base", base)] if base else [])]
    targets = [witness("target", target, "v9")] if target else []
    found = blame(sides, targets)
    assert found.origin == expected
    assert found.reason
    assert found.fixed_in == (
        ("v9" if target else "upstream") if expected == "fixed-upstream" else None
    )
    assert bool(found.evidence) == (expected == "regressed")
    assert not found.since_base


def test_the_first_target_that_fixed_it_is_named() -> None:
    targets = [witness("target", s, r) for s, r in [("defect", "v1"), ("gated", "v2")]]
    targets.append(witness("target", "gated", "v3"))
    assert blame([witness("upstream", "defect")], targets).fixed_in == "v2"


def test_upstreams_code_from_after_the_release_is_marked_so() -> None:
    release = witness("upstream", "absent", "v1")
    later = replace(witness("base", "defect", "abc"), later=True)
    found = blame([release, later], [])
    assert (found.origin, found.since_base) == ("inherited", "v1")
    assert "v1" in found.reason and "abc" in found.reason
    found = blame([witness("upstream", "gated", "v1"), later], [witness("target", "gated", "v2")])
    assert (found.origin, found.fixed_in, found.since_base) == ("fixed-upstream", "v2", "v1")
    assert not blame([witness("upstream", "defect", "v1"), later], []).since_base


@pytest.mark.parametrize(
    ("unchanged", "same", "state", "origin"),
    [
        (False, True, "defect", "inherited"),
        (False, False, "defect", "regressed"),  # the target's function reads otherwise
        (False, True, "gated", "regressed"),  # half of the target's change was taken
        (True, True, "defect", "regressed"),  # the lost wait is elsewhere
    ],
)
def test_a_target_with_the_same_text_and_defect_brought_it(
    unchanged: bool, same: bool, state: str, origin: str
) -> None:
    release = replace(witness("upstream", "gated", "v1"), same=unchanged)
    target = replace(witness("target", state, "v2"), same=same)
    found = blame([release], [target])
    assert (found.origin, found.since_base) == (origin, "v1" if origin == "inherited" else "")


def test_a_latent_defect_is_one_step_less_severe() -> None:
    def severity(of_rule: str, reach: str, origin: str, category: str = "sync") -> str:
        rule = msgspec.structs.replace(load().rules[0], severity=of_rule, category=category)
        reached = msgspec.structs.replace(hit("p/a.py", "Pool.get"), reach=reach)
        return severity_of(rule, reached, origin)  # type: ignore[arg-type]

    assert severity("critical", "latent", "inherited") == "high"
    assert severity("info", "latent", "introduced") == "info"
    assert severity("high", "live", "inherited") == severity("high", "unknown", "unknown") == "high"
    # What upstream thought necessary; of a script the reach is whether a run passes the flag.
    assert severity("high", "latent", "regressed") == "high"
    assert severity("high", "latent", "regressed", "serve") == "medium"


def test_a_page_can_say_that_a_latent_defect_is_as_severe_as_any(tmp_path: Path) -> None:
    page = (packaged_rules() / "sync" / "gate-after-read.yaml").read_text()
    page = page.replace("gate-after-read", "our-late-wait").replace("severity: high", SEVERE)
    (tmp_path / "sync").mkdir()
    (tmp_path / "sync" / "our-late-wait.yaml").write_text(page)
    latent = msgspec.structs.replace(hit("p/a.py", "Pool.get"), reach="latent")
    rule = load_rules([tmp_path]).rule("our-late-wait")
    for origin in get_args(Origin):
        assert severity_of(rule, latent, origin) == "critical"
    assert not any(rule.keeps_severity for rule in load().rules)


def test_a_rule_bounds_the_confidence() -> None:
    assert capped("high", "medium") == "medium"
    assert capped("low", "medium") == "low"


def test_filters_that_hid_nothing_are_not_named() -> None:
    assert hidden_counts({"a": [], "b": [None, None]}) == {"b": 2}  # type: ignore[list-item]
