"""Whose inner gates are void: nobody in the tree arms them, wherever it stands."""

from __future__ import annotations

import pytest

from auditor.gates.readings import Readings
from auditor.rulebook import load
from auditor.runs.audit import audit_sources
from auditor.source.extract import extract
from auditor.source.index import SourceIndex
from auditor.source.scout import Scouted

POOLS = """
import torch


class RowPool:
    def __init__(self, count):
        self.counter = None
        self.rows = [torch.zeros(8, 4) for _ in range(count)]

    def attach_counter(self, counter):
        self.counter = counter

    def get_rows(self, layer_id):
        if self.counter is not None:
            self.counter.wait_until(layer_id)
        return self.rows[layer_id]

    def get_page(self, layer_id, page):
        if self.counter is not None:
            self.counter.wait_until(layer_id)
        return self.rows[layer_id][page]


class OuterPool:
    def __init__(self, count):
        self.counter = None
        self.inner = RowPool(count)

    def attach_counter(self, counter):
        self.counter = counter

    def get_rows(self, layer_id):
        if self.counter is not None:
            self.counter.wait_until(layer_id)
        return self.inner.get_rows(layer_id)

    def get_head(self, layer_id):
        if self.counter is not None:
            self.counter.wait_until(layer_id)
        return self.inner.get_page(layer_id, 0)

    def get_page(self, layer_id, page):
        return self.inner.get_page(layer_id, page)
"""


def reported(elsewhere: str) -> set[str]:
    files = {"sglang/srt/pools.py": POOLS, "sglang/srt/start.py": elsewhere}
    return {f.hit.where.symbol.qualname for f in audit_sources(files).findings}


@pytest.mark.parametrize(
    "elsewhere",
    ["", "def start(pool, counter):\n    pool.attach_counter(counter)\n"],
)
def test_an_inner_pool_that_nobody_arms_is_waited_for_outside(elsewhere: str) -> None:
    assert reported(elsewhere) == {"OuterPool.get_page"}


@pytest.mark.parametrize(
    "elsewhere",
    [
        "def start(pool, counter):\n    pool.inner.attach_counter(counter)\n",
        "def start(pool, counter):\n    part = pool.inner\n    part.attach_counter(counter)\n",
    ],
)
def test_an_inner_pool_that_another_file_arms_waits_itself(elsewhere: str) -> None:
    assert reported(elsewhere) == set()


@pytest.mark.parametrize(
    ("text", "void"),
    [
        (b"pool.attach_counter(counter)", {("self", "inner", "counter")}),
        (b"pool.inner.attach_counter(counter)", set()),
    ],
)
def test_a_file_that_was_not_extracted_may_arm_too(text: bytes, void: set[object]) -> None:
    path = "sglang/srt/pools.py"
    index = SourceIndex({path: extract(POOLS.encode(), "sglang.srt")})
    scouted = Scouted(gates=frozenset({"counter"}))
    readings = Readings(index, scouted, load().vocabulary, {"elsewhere.py": text})
    assert readings.disarmed((path, "OuterPool")) == void
