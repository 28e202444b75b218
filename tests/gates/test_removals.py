"""How sure a removed wait is, and what may stand in its way."""

from __future__ import annotations

import pytest

from auditor.runs.audit import audit_sources

POOL = """
import torch


class Notes:
    def __init__(self):
        self.text = torch.zeros(8, 4)

    def take(self, slots):
        return self.text[slots]


class Pool:
    def __init__(self, count):
        self.counter = None
        self.places = dict(enumerate(range(count)))
        self.rows = [torch.zeros(8, 4) for _ in range(count)]
        self.notes = Notes()
        self.done = [torch.cuda.Event() for _ in range(count)]

    def attach(self, counter):
        self.counter = counter

    def get_rows(self, layer_id):
        if self.counter is not None:
            self.counter.wait_until(layer_id)
        return self.rows[layer_id]

    def get_notes(self, slots):
        {wait}
        return self.notes.take(slots)
"""


def confidences(wait: str) -> list[tuple[str, str, str]]:
    path = "sglang/srt/pool.py"
    report = audit_sources({path: POOL.format(wait="pass")}, {path: POOL.format(wait=wait)})
    return [(f.rule, f.hit.confidence, f.origin) for f in report.findings]


@pytest.mark.parametrize(
    "wait",
    [
        "self.counter.wait_until(min(self.places))",
        "self.counter.wait_until(0)",
        "self.counter.wait_until(slots)",
    ],
)
def test_a_wait_on_the_familys_gate_is_missed_whatever_it_waited_for(wait: str) -> None:
    assert confidences(wait) == [("gate-removed", "medium", "regressed")]


def test_a_wait_on_no_gate_is_a_lost_wait() -> None:
    assert confidences("self.done[0].synchronize()") == [("wait-lost", "high", "regressed")]


@pytest.mark.parametrize(
    "now, told",
    [
        ("platform.synchronize()", False),
        ("platform.empty_cache()", True),
        ("self.stream.synchronize()", True),
    ],
)
def test_the_whole_device_is_waited_for_through_any_module(now: str, told: bool) -> None:
    path = "sglang/srt/pool.py"
    before = POOL.format(wait="torch.cuda.synchronize()")
    report = audit_sources({path: POOL.format(wait=now)}, {path: before})
    assert [f.rule for f in report.findings] == (["wait-lost"] if told else [])
