"""Every example of a defect on the rule pages is put right, or the rule has no edits at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from auditor.rulebook import Example, load

from .trees import fix

UNFIXED = "gate-bypassed"
"""How to go through a getter is for a person to decide."""


LATER = ("gate-parameter-dropped", (3, 4, 5))
"""The siblings wait where a record is taken up: no wait of theirs can be copied."""


def cases(*, later: bool = False) -> Iterator[object]:
    for rule in load().rules:
        if rule.check == "sibling-gates" and rule.id != UNFIXED:
            for number, example in enumerate(rule.invalid):
                if later == (rule.id == LATER[0] and number in LATER[1]):
                    yield pytest.param(example, id=f"{rule.id}-{number}")


@pytest.mark.parametrize("example", list(cases(later=True)))
def test_a_wait_that_siblings_make_later_is_not_copied(example: Example, tmp_path: Path) -> None:
    done = fix(tmp_path, example.fork, example.upstream, example.target, confidence="low")
    assert done.changes == ()
    assert [f.state for f in done.fixes] != []
    assert all(f.reason for f in done.fixes)


@pytest.mark.parametrize("example", list(cases()))
def test_every_gate_of_the_examples_is_put_right(example: Example, tmp_path: Path) -> None:
    done = fix(tmp_path, example.fork, example.upstream, example.target, confidence="low")
    assert done.changes
    assert [(f.finding.rule, f.reason) for f in done.fixes if f.state != "made"] == []
    again = fix(
        tmp_path / "again",
        {p: (tmp_path / "fork" / p).read_bytes() for p in example.fork},
        example.upstream,
        example.target,
        confidence="low",
    )
    assert again.fixes == ()
