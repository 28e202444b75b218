"""Blocks on side streams: what orders them on every way, and what only seems to."""

from __future__ import annotations

import pytest

from tests.streams.sides import blocks

HEAD = """\
import torch
from contextlib import nullcontext


class Layer:
    def __init__(self, proj):
        self.proj = proj
        self.alt_stream = torch.cuda.Stream()
        self.other_stream = torch.cuda.Stream()

    def run(self, x, flag, event=None, stream=None, tensors=()):
        main = torch.cuda.current_stream()
"""
BLOCK = """\
with torch.cuda.stream(self.alt_stream):
    y = self.proj(x)
"""


def judged(body: str, head: str = HEAD) -> str:
    """What becomes of the last block of ``run``."""
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    found = blocks(head + lines)
    return found[max(found)]


@pytest.mark.parametrize(
    "before",
    [
        "self.alt_stream.wait_stream(main)",
        "self.alt_stream.wait_event(main.record_event())",
        "main.record_event().wait(self.alt_stream)",
        "side = self.alt_stream\nside.wait_stream(main)",
        "torch.cuda.synchronize()",
        "main.synchronize()",
        "if self.alt_stream is not None:\n    self.alt_stream.wait_stream(main)",
        "if self.alt_stream:\n    self.alt_stream.wait_stream(main)",
        "if self.alt_stream is None:\n    pass\nelse:\n    self.alt_stream.wait_stream(main)",
        "if event is not None:\n    self.alt_stream.wait_event(event)",
        "if event and self.alt_stream is not None:\n    self.alt_stream.wait_event(event)",
        "if stream and self.alt_stream:\n    self.alt_stream.wait_stream(stream)",
        "if event is None or x is None:\n    return\nelse:\n    self.alt_stream.wait_event(event)",
        "if event is None or not self.alt_stream:\n    x\nelse:\n    event.wait(self.alt_stream)",
        "if not (event is None):\n    self.alt_stream.wait_event(event)",
        "if x.is_cuda:\n    self.alt_stream.wait_stream(main)",
        "if flag:\n    self.alt_stream.wait_stream(main)\nelse:\n    event.wait(self.alt_stream)",
        "if flag:\n    self.alt_stream.wait_stream(main)\nelse:\n    return x",
        "try:\n    x.check()\nfinally:\n    self.alt_stream.wait_stream(main)",
        "while True:\n    self.alt_stream.wait_stream(main)\n    break",
        "with self.lock:\n    self.alt_stream.wait_stream(main)",
        "def fork(side):\n    side.wait_stream(main)\n\nfork(self.alt_stream)",
        "wait_for_stream(self.alt_stream, main)",
        "if x.ready is not None:\n    wait_until_ready(self.alt_stream, x)",
        "(side := self.alt_stream).wait_stream(main)",
    ],
)
def test_a_wait_before_orders_a_block(before: str) -> None:
    assert judged(f"{before}\n{BLOCK}") == "ordered"


@pytest.mark.parametrize(
    "before",
    [
        "pass",
        "self.other_stream.wait_stream(main)",
        "main.wait_stream(self.alt_stream)",
        "self.alt_stream.record_event()",
        "if flag:\n    self.alt_stream.wait_stream(main)",
        "if flag and event is not None:\n    self.alt_stream.wait_event(event)",
        "if self.other_stream is not None:\n    self.alt_stream.wait_stream(main)",
        "if flag:\n    self.alt_stream.wait_stream(main)\nif not flag:\n    x = x + 1",
        "try:\n    self.alt_stream.wait_stream(main)\nexcept RuntimeError:\n    pass",
        "done = lambda: self.alt_stream.wait_stream(main)",
        "def fork(side):\n    side.wait_stream(main)",
        "def fork(side):\n    if flag:\n        side.wait_stream(main)\n\nfork(self.alt_stream)",
        "note(self.alt_stream, main)",
        "if main.ready is not None:\n    wait_until_ready(self.alt_stream, x)",
        "self.alt_stream.synchronize()",
        "if stream is not None:\n    self.alt_stream.wait_stream(stream)",
    ],
)
def test_what_is_no_wait_of_the_stream_on_every_way_orders_nothing(before: str) -> None:
    assert judged(f"{before}\n{BLOCK}") == "open"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("self.alt_stream.wait_stream(main)\ny = self.proj(x)", "ordered"),
        ("y = self.proj(x)\nself.alt_stream.wait_stream(main)", "open"),
        ("y = self.proj(event.wait())", "ordered"),
        ("torch.cuda.current_stream().wait_event(event)\ny = self.proj(x)", "ordered"),
        ("if event is not None:\n    event.wait()\ny = self.proj(x)", "ordered"),
        ("if flag:\n    event.wait()\ny = self.proj(x)", "open"),
        ("event.wait(self.other_stream)\ny = self.proj(x)", "open"),
        ("x[flag] = 0", "open"),
        ("x[flag] += 1", "open"),
        ("y = x[flag] + 1", "open"),
        ("for x in tensors:\n    self.alt_stream.wait_stream(main)\n    self.proj(x)", "ordered"),
    ],
)
def test_a_wait_at_the_beginning_of_the_block(body: str, expected: str) -> None:
    inside = "".join(f"    {line}\n" for line in body.splitlines())
    assert judged(f"with torch.cuda.stream(self.alt_stream):\n{inside}") == expected


@pytest.mark.parametrize(
    "body",
    [
        "pass",
        "event.record()",
        "buffer = torch.empty(4)",
        "event.synchronize()",
        "n = x.numel()",
        "self.note_wait_event(event)",
        "self.graph.replay()",
    ],
)
def test_a_block_that_starts_no_work_is_not_counted(body: str) -> None:
    text = f"{HEAD}        with torch.cuda.stream(self.alt_stream):\n            {body}\n"
    assert blocks(text) == {}


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ("torch.cuda.stream(self.alt_stream)", "open"),
        ("torch.cuda.StreamContext(self.alt_stream)", "open"),
        ("torch.npu.stream(self.alt_stream)", "open"),
        ("torch.get_device_module(x.device).stream(self.alt_stream)", "open"),
        ("self.device_module.stream(self.alt_stream)", "open"),
        ("torch.cuda.device(0), torch.cuda.stream(self.alt_stream)", "open"),
        ("torch.cuda.stream(getattr(self, 'alt_stream', None))", "open"),
        ("torch.cuda.stream(self.alt_stream) if flag else nullcontext()", "open"),
        ("torch.cuda.stream(stream)", "handed over"),
    ],
)
def test_forms_of_a_context(context: str, expected: str) -> None:
    assert judged(f"with {context}:\n    y = self.proj(x)\n") == expected


@pytest.mark.parametrize(
    "context",
    [
        "client.stream('GET', x)",
        "mx.stream(mx.cpu)",
        "torch.cuda.stream(None)",
        "open_stream(x)",
        "torch.cuda.stream(torch.cuda.current_stream())",
        "torch.cuda.stream(main)",
        "torch.cuda.stream(self.alt_stream if flag else main)",
        "torch.cuda.stream(stream or torch.cuda.current_stream())",
    ],
)
def test_what_enters_no_stream_or_maybe_the_current_one(context: str) -> None:
    text = f"{HEAD}        with {context}:  # .stream(\n            y = self.proj(x)\n"
    assert blocks(text) == {}


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("flag", "ordered"),
        ("not flag", "open"),
        ("event is not None", "open"),
        ("flag and x.ok", "ordered"),
        ("x.ok", "open"),
    ],
)
def test_a_wait_under_a_test_holds_where_the_same_test_holds(test: str, expected: str) -> None:
    wait = "if flag:\n    self.alt_stream.wait_stream(main)\nx = x.view(1)\n"
    block = "".join(f"    {line}\n" for line in BLOCK.splitlines())
    assert judged(f"{wait}if {test}:\n{block}") == expected
    choice = f"with torch.cuda.stream(self.alt_stream) if {test} else nullcontext():\n"
    assert judged(f"{wait}{choice}    y = self.proj(x)\n") == expected


def test_a_wait_under_nested_tests_holds_under_all_of_them() -> None:
    wait = "if flag:\n    if x.ok:\n        self.alt_stream.wait_stream(main)\n"
    both = "if flag and x.ok:\n    with torch.cuda.stream(self.alt_stream):\n        self.proj(x)\n"
    one = both.replace(" and x.ok", "")
    assert judged(wait + both) == "ordered"
    assert judged(wait + one) == "open"


def test_a_test_that_leaves_the_function_is_known_afterwards() -> None:
    wait = "if flag:\n    self.alt_stream.wait_stream(main)\n"
    assert judged(f"{wait}if not flag:\n    return x\n{BLOCK}") == "ordered"
    assert judged(f"{wait}if flag:\n    return x\n{BLOCK}") == "open"


def test_a_context_that_is_made_where_the_stream_waits() -> None:
    made = (
        "if flag:\n{wait}    context = torch.cuda.stream(self.alt_stream)\n"
        "else:\n    context = nullcontext()\nwith context:\n    y = self.proj(x)\n"
    )
    wait = "    self.alt_stream.wait_stream(main)\n"
    assert judged(made.format(wait=wait)) == "ordered"
    assert judged(made.format(wait="")) == "open"


def test_streams_of_a_list_by_index_and_in_a_loop() -> None:
    head = HEAD.replace("torch.cuda.Stream()", "[torch.cuda.Stream()]", 1)
    each = "for side in self.alt_stream:\n    side.wait_stream(main)\n"
    first = "self.alt_stream[0].wait_stream(main)\n"
    block = "with torch.cuda.stream(self.alt_stream[{}]):\n    y = self.proj(x)\n"
    assert judged(each + block.format(1), head) == "ordered"
    assert judged(first + block.format(0), head) == "ordered"
    assert judged(first + block.format(1), head) == "open"
    numbered = "for n, side in enumerate(self.alt_stream):\n    side.wait_stream(main)\n"
    assert judged(numbered + block.format(1), head) == "ordered"


def test_a_block_within_a_function_within() -> None:
    inner = "def work():\n    with torch.cuda.stream(self.alt_stream):\n        self.proj(x)\n"
    assert judged(f"self.alt_stream.wait_stream(main)\n{inner}work()\n") == "ordered"
    assert judged(f"{inner}self.alt_stream.wait_stream(main)\nwork()\n") == "ordered"
    assert judged(f"{inner}work()\n") == "open"


def test_a_context_in_an_attribute() -> None:
    head = HEAD.replace(
        "        self.other_stream",
        "        self.side_ctx = torch.cuda.stream(self.alt_stream)\n        self.other_stream",
    )
    block = "with self.side_ctx:\n    y = self.proj(x)\n"
    assert judged(block, head) == "open"
    assert judged(f"self.alt_stream.wait_stream(main)\n{block}", head) == "ordered"
    assert judged(f"self.other_stream.wait_stream(main)\n{block}", head) == "open"


def test_a_context_whose_making_is_not_seen_goes_by_its_name() -> None:
    block = "with self.plan_stream_ctx:\n    y = self.proj(x)\n"
    assert judged(block) == "open"
    assert judged(f"self.plan_stream.wait_stream(main)\n{block}") == "ordered"


def test_a_hostile_function_is_read_to_its_end() -> None:
    deep = "".join(f"{'    ' * n}if x.a{n}:\n" for n in range(85))
    wait = "    " * 85 + "self.alt_stream.wait_stream(main)\n"
    assert judged(f"{deep}{wait}{BLOCK}") == "open"
    many = "".join(f"if x.a{n}:\n    self.s{n}.wait_stream(main)\n" for n in range(400))
    assert judged(f"{many}{BLOCK}") == "open"
    chain = "a0 = self.alt_stream\n" + "".join(f"a{n + 1} = a{n} or a{n}\n" for n in range(200))
    assert judged(f"{chain}with torch.cuda.stream(a200):\n    self.proj(x)\n") == "open"
