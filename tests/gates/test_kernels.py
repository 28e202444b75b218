"""A kernel that only stores to what it is handed does not read it, whatever it is called."""

from __future__ import annotations

import pytest

from auditor.runs.audit import audit_sources

PATH = "sglang/srt/pool.py"
POOL = """
import torch
import triton
import triton.language as tl
from kernels import blend


@triton.jit
def spread(rows, fresh, places, stride):
    at = tl.load(places + tl.program_id(0))
    where = rows + at * stride
    tl.store(where + tl.arange(0, 8), tl.load(fresh + tl.arange(0, 8)).to(rows.dtype))


@triton.jit
def spread_more(rows, fresh, places, stride):
    at = tl.load(places + tl.program_id(0))
    where = rows + at * stride
    tl.store(where, tl.load(fresh) + tl.load(where))


@triton.jit
def gather(rows, fresh, places, stride):
    at = tl.load(places + tl.program_id(0))
    tl.store(fresh, tl.load(rows + at * stride))


@triton.jit
def through_a_record(rows, fresh, places, stride):
    both, other = rows + 1, fresh
    tl.store(rows, 0)
    tl.store(both, tl.load(other))


@triton.jit
def refused(rows, fresh, places, stride):
    raise NotImplementedError


class Pool:
    def __init__(self, count):
        self.counter = None
        self.rows = [torch.zeros(8, 4) for _ in range(count)]

    def attach(self, counter):
        self.counter = counter

    def get_rows(self, layer_id):
        if self.counter is not None:
            self.counter.wait_until(layer_id)
        return self.rows[layer_id]

    def set_rows(self, layer_id, places, fresh):
        self.rows[layer_id][places] = fresh

    def replace(self, layer_id, places, fresh):
        {call}


class Backend:
    def __init__(self, pool: Pool):
        self.pool = pool

    def step(self, layer_id, batch, fresh):
        self.pool.set_rows(layer_id, batch.fresh_places, fresh)
        self.pool.replace(layer_id, batch, fresh)
"""


def confidences(call: str) -> list[str]:
    tree = {PATH: POOL.replace("{call}", call)}
    findings = audit_sources(tree, tree).findings
    return [f.hit.confidence for f in findings if f.hit.where.symbol.qualname == "Pool.replace"]


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("spread[(4,)](self.rows[layer_id], fresh, places, 8)", []),
        ("spread[(4,)](rows=self.rows[layer_id], fresh=fresh, places=places, stride=8)", []),
        ("spread_more[(4,)](self.rows[layer_id], fresh, places, 8)", ["medium"]),
        ("gather[(4,)](self.rows[layer_id], fresh, places, 8)", ["medium"]),
        ("refused[(4,)](self.rows[layer_id], fresh, places, 8)", ["medium"]),
        ("through_a_record[(4,)](self.rows[layer_id], fresh, places, 8)", ["medium"]),
    ],
)
def test_a_kernel_of_known_body_reads_what_it_loads(call: str, found: list[str]) -> None:
    assert confidences(call) == found


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("blend(self.rows[layer_id], places.fresh_places, fresh)", ["low"]),
        ("blend(self.rows[layer_id], places.old_places, fresh)", ["medium"]),
        ("return blend(self.rows[layer_id], places.fresh_places, fresh)", ["medium"]),
    ],
)
def test_of_an_unknown_one_a_place_to_store_at_leaves_it_open(call: str, found: list[str]) -> None:
    assert confidences(call) == found
