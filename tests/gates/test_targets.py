"""Whether a kernel that is handed a raw buffer may only store there: by the rows it is told of."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from auditor.model import Finding
from auditor.runs.audit import audit_sources

POOLS, MODEL = "sglang/srt/pools.py", "sglang/srt/models/model.py"

TREE = {
    POOLS: """
import torch
from kernels import attend


class Pool:
    def __init__(self, count):
        self.counter = None
        self.rows = [torch.zeros(8, 4) for _ in range(count)]

    def attach_counter(self, counter):
        self.counter = counter

    def get_rows(self, layer_id):
        if self.counter is not None:
            self.counter.wait_until(layer_id)
        return self.rows[layer_id]

    def get_tail(self, layer_id, count):
        if self.counter is not None:
            self.counter.wait_until(layer_id)
        return self.rows[layer_id][-count:]

    def set_rows(self, layer_id, loc, rows):
        self.rows[layer_id][loc] = rows


class Loader:
    def __init__(self, pool: Pool, counter):
        self.pool = pool
        pool.attach_counter(counter)

    def load_layer(self, layer_id, host):
        self.pool.rows[layer_id].copy_(host[layer_id])


class Backend:
    def __init__(self, pool: Pool):
        self.pool = pool

    def step(self, i, q, rows, batch, out):
        self.pool.set_rows(i, batch.fresh, rows)
        attend(q, self.pool.get_rows(i), batch.lengths, self.notes.old_slots, out, out.shape)

    def cross_step(self, i, rows, batch):
        place = batch.fresh if batch.own else batch.fresh_cross
        self.pool.set_rows(i, place, rows)

    def window_step(self, i, rows, batch):
        self.pool.set_rows(i, loc=self.pool.in_window(batch.fresh), rows=rows)
""",
}


def found(*lines: str, tree: Mapping[str, str] = TREE) -> Finding:
    body = "\n".join(f"    {line}" for line in lines)
    head = (
        "import torch\nfrom kernels import fused, gather\nfrom sglang.srt.pools import Pool\n\n\n"
    )
    text = f"{head}def prepare(i, q, new, pool: Pool, batch, notes, loc):\n{body}\n"
    (finding,) = audit_sources({**tree, MODEL: text}, tree).findings
    assert finding.hit.where.symbol.qualname == "prepare"
    assert finding.rule == "gate-bypassed"
    return finding


@pytest.mark.parametrize(
    "lines",
    [
        ["fused(new, pool.rows[i], batch.fresh)"],
        ["q = notes.project(q)", "fused(q, new, pool.rows[i], batch.fresh)"],
        ["fused(new, buffer=pool.rows[i], slots=batch.fresh, eps=notes.eps)"],
        ["rows = pool.rows[i]", "where = batch.fresh", "fused(rows.view(-1), where, new)"],
        ["fused(new, pool.rows[i], batch.fresh[: new.shape[0]].long())"],
        ["where = batch.fresh", "where = where.long()", "fused(new, pool.rows[i], where)"],
        ["fused(new, pool.rows[i], batch.fresh if q else batch.fresh_cross)"],
        ["where = pool.in_window(batch.fresh)", "fused(new, pool.rows[i], where)"],
        ["fused(new, pool.rows[i], batch.fresh, new.shape)"],  # sizes tell of no rows
        ["fused(new, pool.rows[i], batch.fresh, i)"],  # nor what setters are handed too
    ],
)
def test_a_place_that_setters_store_at_makes_a_store_likely(lines: list[str]) -> None:
    finding = found(*lines)
    assert finding.hit.confidence == "low"
    assert "maybe only to store" in finding.hit.message


@pytest.mark.parametrize(
    "lines",
    [
        # other rows
        ["gather(pool.rows[i], notes.old_slots, new)"],
        ["gather(pool.rows[i], batch.others, new)"],
        ["gather(pool.rows[i], loc, new)"],  # by the setters' name, from anywhere
        ["gather(pool.rows[i], pool.in_window(notes.old_slots), new)"],
        ["gather(pool.rows[i], pool.in_window(batch.fresh, notes.old_slots), new)"],
        ["gather(pool.rows[i], torch.cat([batch.others, batch.fresh]), new)"],
        ["gather(pool.rows[i], notes.table[batch.fresh], new)"],
        # other rows too
        ["fused(q, new, pool.rows[i], batch.fresh, notes.old_slots)"],
        ["old = notes.old_slots.long()", "fused(q, pool.rows[i], batch.fresh, old, new)"],
        ["fused(q, pool.rows[i], batch.fresh, batch.lengths, new)"],
        ["fused(q, new, pool.rows[i], batch.fresh)"],  # queries are for readers
        # maybe other rows
        ["where = batch.fresh if q else batch.others", "fused(new, pool.rows[i], where)"],
        ["if q:", "    loc = batch.fresh", "fused(new, pool.rows[i], loc)"],
        ["where, _ = batch.places", "fused(new, pool.rows[i], where)"],
        # what the call gives is taken
        ["return fused(pool.rows[i], batch.fresh)"],
        ["new.copy_(fused(pool.rows[i], batch.fresh))"],
        # the rows are read elsewhere as well
        ["rows = pool.rows[i]", "fused(rows, batch.fresh, new)", "return rows.sum()"],
        ["fused(pool.rows[i], batch.fresh, new)", "gather(pool.rows[i], batch.others, q)"],
    ],
)
def test_what_may_tell_of_other_rows_is_a_read(lines: list[str]) -> None:
    finding = found(*lines)
    assert finding.hit.confidence == "medium"
    assert "maybe only to store" not in finding.hit.message


def test_only_what_setters_are_handed_in_this_tree_is_a_place_to_store_at() -> None:
    other = {POOLS: TREE[POOLS].replace("batch.fresh", "batch.latest")}
    assert found("fused(new, pool.rows[i], batch.fresh)", tree=other).hit.confidence == "medium"
    assert found("fused(new, pool.rows[i], batch.latest)", tree=other).hit.confidence == "low"


def test_the_second_of_two_reads_is_told_where_the_first_may_store() -> None:
    finding = found("fused(pool.rows[i], batch.fresh)", "gather(pool.rows[i], batch.others)")
    assert finding.hit.where.line == 8


BACK_END = """
from sglang.srt.pools import Pool


class ABoardPool(Pool):
    def get_rows(self, layer_id):
        self.counter.wait_until(layer_id)
        return self.rows[layer_id]
"""


@pytest.mark.parametrize("receiver", ["pool", "notes.pool"])
def test_the_class_of_the_receiver_is_named_and_not_the_first_of_the_alphabet(
    receiver: str,
) -> None:
    tree = {**TREE, "sglang/srt/board/pools.py": BACK_END}
    finding = found(f"gather({receiver}.rows[i], notes.old_slots, new)", tree=tree)
    assert finding.hit.message.endswith("the getters of Pool wait on counter")
