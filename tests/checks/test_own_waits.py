"""A read among its method's own waits: which of them a finding names, and as what."""

from __future__ import annotations

import json

import pytest

from auditor.formats import render
from auditor.formats.text import Screen
from auditor.formats.verdict import decide
from auditor.rulebook import load
from auditor.runs.audit import audit_sources

HEAD = """\
import torch


class RowPool:
    def __init__(self, layers, slots, width, eager):
        self.counter = None
        self.eager = eager
        self.rows = [torch.zeros(slots, width) for _ in range(layers)]

    def attach_counter(self, counter):
        self.counter = counter

    def _settle(self, layer_id):
        if self.counter is not None:
            self.counter.wait_until(layer_id)

    def get_rows(self, layer_id):
        self._settle(layer_id)
        return self.rows[layer_id]

    def get_pair(self, layer_id):
        self._settle(layer_id)
        return self.rows[layer_id], layer_id

    def gather(self, layer_id, slots):
"""
START = len(HEAD.splitlines())
LATE = """\
        found = self.rows[layer_id].index_select(0, slots)
        self._settle(layer_id)
        return found
"""
PARTIAL = """\
        if self.eager:
            self._settle(layer_id)
        found = self.rows[layer_id].index_select(0, slots)
        return found
"""
UNGATED = """\
        return self.rows[layer_id].index_select(0, slots)
"""


@pytest.mark.parametrize(
    ("body", "rule", "wait", "note"),
    [
        (LATE, "gate-after-read", 2, "waits on counter here, only after the read"),
        (PARTIAL, "gate-not-on-all-paths", 2, "waits on counter here, on some paths only"),
        (UNGATED, "ungated-buffer-read", 0, ""),
    ],
)
def test_the_wait_of_the_method_itself_is_the_first_evidence_and_a_step_of_the_flow(
    body: str, rule: str, wait: int, note: str
) -> None:
    path = "sglang/srt/mem_cache/row_pool.py"
    report = audit_sources({path: HEAD + body})
    [finding] = report.findings
    assert finding.rule == rule
    mine = [piece for piece in finding.hit.evidence if piece.side == "fork"]
    own = [(e.line - START, e.note) for e in mine if e.symbol == "RowPool.gather"]
    assert own == ([(wait, note)] if wait else [])
    assert [e.symbol for e in mine if e.symbol != "RowPool.gather"] == [
        *("RowPool.get_pair", "RowPool.get_rows")
    ]
    if wait:
        assert mine[0].symbol == "RowPool.gather"

    text = render("sarif", report, decide(report, "high", False), Screen(), None, load().rules)
    [result] = json.loads(text)["runs"][0]["results"]
    if not wait:
        assert "codeFlows" not in result
        return
    [thread] = result["codeFlows"][0]["threadFlows"]
    steps = [
        (
            step["location"]["physicalLocation"]["region"]["startLine"] - START,
            step["location"]["message"]["text"],
        )
        for step in thread["locations"]
    ]
    read = (
        body.splitlines().index("        found = self.rows[layer_id].index_select(0, slots)") + 1,
        "the read",
    )
    assert steps == sorted([(wait, f"RowPool.gather: {note}"), read])
