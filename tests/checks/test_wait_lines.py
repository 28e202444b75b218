"""Evidence points at the wait of a sibling, never at its head; the nearest sibling comes first."""

from __future__ import annotations

import ast

import pytest

from auditor.model import Evidence
from auditor.rulebook import load
from auditor.runs.audit import audit_sources

GATES = [rule for rule in load().rules if rule.check == "sibling-gates"]

HEAD = """
import torch


class Pool:
    def __init__(self, n):
        self.k = [torch.zeros(8, 8) for _ in range(n)]
        self.v = [torch.zeros(8, 8) for _ in range(n)]
        self.counter = None

    def register(self, counter):
        self.counter = counter

    def _pause(self, layer_id):
        if self.counter is not None:
            self.counter.wait_until(layer_id)
"""

SIBLINGS = {
    "its own wait": """
    def get_key(self, layer_id):
        self.counter.wait_until(layer_id)  # here
        return self.k[layer_id]
""",
    "a helper's, where it is called": '''
    def get_key(self, layer_id):
        """Two
        lines."""
        self._pause(layer_id)  # here
        return self.k[layer_id]
''',
    "the last one before the read": """
    def get_key(self, layer_id):
        self.counter.wait_until(layer_id)
        v = self.v[layer_id]
        self.counter.wait_until(layer_id)  # here
        return self.k[layer_id]
""",
    "the one that no branch leads around": """
    def get_key(self, layer_id, again=False):
        self.counter.wait_until(layer_id)  # here
        if again:
            self.counter.wait_until(layer_id)
        return self.k[layer_id]
""",
    "the branch's own": """
    def get_key(self, layer_id, raw=False):
        if raw:
            self.counter.wait_until(layer_id)
            return 0
        else:
            self.counter.wait_until(layer_id)  # here
            return self.k[layer_id]
""",
    "under a test of the gate": """
    def get_key(self, layer_id):
        if self.counter is not None:
            self.counter.wait_until(layer_id)  # here
        return self.k[layer_id]
""",
    "a wait after the read is none": """
    def get_key(self, layer_id):
        self.counter.wait_until(layer_id)  # here
        k = self.k[layer_id]
        self.counter.wait_until(layer_id)
        return k
""",
}

READ = """
    def get_key_raw(self, layer_id, slots):
        return self.k[layer_id].index_select(0, slots)
"""


def evidence(text: str, symbol: str) -> tuple[Evidence, ...]:
    [found] = [
        f.hit.evidence
        for f in audit_sources({"sglang/srt/pool.py": text}).findings
        if f.hit.where.symbol.qualname == symbol
    ]
    return found


@pytest.mark.parametrize("kind", SIBLINGS)
def test_the_line_is_that_of_the_wait_which_covers_the_read(kind: str) -> None:
    text = HEAD + SIBLINGS[kind] + READ
    [here] = [n for n, line in enumerate(text.split("\n"), 1) if line.endswith("# here")]
    found = {e.symbol: e.line for e in evidence(text, "Pool.get_key_raw") if e.sibling}
    assert found["Pool.get_key"] == here


@pytest.mark.parametrize("rule", GATES, ids=lambda rule: rule.id)
def test_no_sibling_of_any_example_is_shown_at_its_head(rule: object) -> None:
    told = 0
    for example in rule.invalid:  # type: ignore[attr-defined]
        sides = {"fork": example.side(example.fork), "upstream": example.side(example.upstream)}
        found = audit_sources(sides["fork"], sides["upstream"]).findings
        for piece in (e for f in found for e in f.hit.evidence if e.sibling):
            text = (sides.get(piece.side) or sides["fork"])[piece.path]
            first, last = _function(text, piece.symbol, piece.line)
            assert first < piece.line <= last or first == last
            told += 1
    assert told


def _function(text: str, symbol: str, line: int) -> tuple[int, int]:
    """The first line of the body of the innermost function of that name around a line, minus 1."""
    name = symbol.rpartition(".")[2]
    around = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name == name
        and node.lineno <= line <= (node.end_lineno or 0)
    ]
    node = around[-1]
    return node.body[0].lineno - 1, node.end_lineno or 0


def test_the_nearest_sibling_comes_first() -> None:
    near = SIBLINGS["its own wait"]
    text = (
        HEAD
        + near.replace("get_key", "get_key_far")
        + "\n    x = 1" * 20
        + READ
        + near.replace("get_key", "get_key_near")
        + near.replace("get_key", "get_value").replace("self.k", "self.v")
    )
    waits = [e for e in evidence(text, "Pool.get_key_raw") if e.sibling]
    assert [e.symbol for e in waits][:2] == ["Pool.get_key_near", "Pool.get_key_far"]


def test_of_an_override_the_replaced_method_comes_first() -> None:
    near = SIBLINGS["its own wait"]
    text = (
        HEAD
        + near.replace("get_key", "get_key_raw")
        + near.replace("get_key", "get_first")
        + "\n\nclass Child(Pool):\n"
        + near.replace("get_key", "get_second")
        + "\n"
        + READ
    )
    waits = [e for e in evidence(text, "Child.get_key_raw") if e.sibling]
    assert waits[0].symbol == "Pool.get_key_raw"


def test_a_sibling_whose_wait_can_be_seen_comes_before_one_that_asks_another_getter() -> None:
    near = SIBLINGS["its own wait"]
    both = """
    def get_both(self, layer_id):
        return self.get_key(layer_id), self.k[layer_id]
"""
    text = HEAD + near + both.replace("self.k[layer_id]", "self.get_key(layer_id)") + READ
    waits = [e for e in evidence(text, "Pool.get_key_raw") if e.sibling]
    assert [e.symbol for e in waits] == ["Pool.get_key", "Pool.get_both"]


def test_what_makes_an_inner_gate_void_is_shown() -> None:
    text = (
        HEAD
        + SIBLINGS["its own wait"]
        + """

class Wrapper:
    def __init__(self, n):
        self.pool = Pool(n)
        self.counter = None

    def register(self, counter):
        self.counter = counter
        self.pool.register(None)  # here

    def get_key(self, layer_id):
        self.counter.wait_until(layer_id)
        return self.pool.get_key(layer_id)

    def get_other(self, layer_id):
        self.counter.wait_until(layer_id)
        return self.pool.get_key(layer_id)

    def get_raw(self, layer_id):
        return self.pool.get_key(layer_id)
"""
    )
    [here] = [n for n, line in enumerate(text.split("\n"), 1) if "None)  # here" in line]
    shown = [e for e in evidence(text, "Wrapper.get_raw") if not e.sibling]
    assert [(e.symbol, e.line) for e in shown] == [("Wrapper.register", here)]
    assert "pool" in shown[0].note
