"""What the analysis says of a method body against a walk of all its paths."""

from __future__ import annotations

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from auditor.runs.audit import audit_sources

from .paths import Block, Stmt, blocks, reads_early, render

POOL = """
import torch


class Pool:
    def __init__(self, count):
        self.counter = None
        self.mode = 1
        self.rows = [torch.zeros(8, 4) for _ in range(count)]

    def attach(self, counter):
        self.counter = counter

    def _pause(self, layer_id):
        if self.counter is not None:
            self.counter.wait_until(layer_id)

    def get_rows(self, layer_id):
        self._pause(layer_id)
        return self.rows[layer_id]

    def get_page(self, layer_id, page):
        self._pause(layer_id)
        return self.rows[layer_id][page]

    def get_head(self, layer_id, count):
        self._pause(layer_id)
        return self.rows[layer_id][:count]
"""


def found_in(bodies: list[Block]) -> list[bool]:
    """For each body, as a method of the pool, whether the audit reports it."""
    lines = [POOL]
    for number, body in enumerate(bodies):
        lines += [f"    def get_{number}(self, layer_id, slots, items):", "        rows = None"]
        lines += render(body, 2)
    report = audit_sources({"sglang/srt/pool.py": "\n".join(lines) + "\n"})
    assert not report.skipped
    named = {f.hit.where.symbol.qualname for f in report.findings}
    assert named <= {f"Pool.get_{n}" for n in range(len(bodies))}
    return [f"Pool.get_{n}" in named for n in range(len(bodies))]


QUICK = settings(max_examples=60, derandomize=True, deadline=None, database=None)


@QUICK
@given(st.lists(blocks(), min_size=1, max_size=8))
def test_no_path_to_an_early_use_is_called_gated(bodies: list[Block]) -> None:
    for body, reported in zip(bodies, found_in(bodies), strict=True):
        early = reads_early(body)
        event(f"early use: {early}, reported: {reported}")
        assert reported or not early, "\n".join(["reaches a use early:", *render(body)])


@QUICK
@given(st.lists(blocks(plain=True), min_size=1, max_size=8))
def test_without_try_and_aliases_the_answer_is_exact(bodies: list[Block]) -> None:
    for body, reported in zip(bodies, found_in(bodies), strict=True):
        early = reads_early(body)
        assert reported == early, "\n".join([f"reaches a use early: {early}", *render(body)])


def block(text: str) -> Block:
    """A body of simple statements by their names."""
    return tuple(Stmt(kind) for kind in text.split())


@pytest.mark.parametrize(
    ("body", "early"),
    [
        (block("kernel wait"), True),
        (block("wait kernel"), False),
        (block("take wait use"), False),
        (block("take use wait"), True),
        (block("take wait return-rows"), False),
        (block("return-absent wait kernel"), False),
        (block("lambda kernel"), True),
        (block("some kernel"), True),
        ((Stmt("for", (block("use take"),)),), True),
        ((Stmt("for", (block("take"),)), *block("wait use")), False),
        ((Stmt("for", (block("wait break"),)), *block("kernel")), True),
        ((Stmt("forever", (block("wait break"),)), *block("kernel")), False),
        ((Stmt("for-else", (block("break"), block("wait"))), *block("kernel")), True),
        ((Stmt("for-else", (block("work"), block("wait"))), *block("kernel")), False),
        ((Stmt("try", (block("wait"), block("work"))), *block("kernel")), True),
        ((Stmt("try", (block("wait"), block("raise"))), *block("kernel")), False),
        ((Stmt("try-finally", (block("return-read"), block("wait"))),), False),
        ((Stmt("try-finally", (block("wait"), block("kernel"))),), True),
    ],
)
def test_the_interpreter_itself(body: Block, early: bool) -> None:
    assert reads_early(body) is early
