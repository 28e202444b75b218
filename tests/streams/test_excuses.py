"""Blocks that need no wait of their own, and the nearest ones that do."""

from __future__ import annotations

import pytest

from tests.streams.sides import blocks

CLASS = """\
import torch


class Mover:
    def __init__(self, group):
        self.group = group
        self.side = torch.cuda.Stream()

"""


def judged(methods: str, **others: str) -> str:
    """What becomes of the only block of a class with these methods."""
    lines = "".join(f"    {line}\n" if line else "\n" for line in methods.splitlines())
    [found] = blocks(CLASS + lines, **others).values()
    return found


WORK = "    with torch.cuda.stream(self.side):\n        {}\n"
RUN = "    with torch.cuda.stream(self.side):\n        rows.mul(2)\n"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("init_rows", "start-up"),
        ("warmup", "start-up"),
        ("capture_graph", "start-up"),
        ("_prealloc", "start-up"),
        ("run_event_loop", "event loop"),
        ("move", "open"),
        ("loop", "open"),
    ],
)
def test_the_name_says_that_nothing_comes_before(name: str, expected: str) -> None:
    assert judged(f"def {name}(self, rows):\n{RUN}") == expected


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        ("self.group.recv_tensors()", "receives"),
        ("self.group.irecv(rows)", "receives"),
        ("rows.to(self.device, non_blocking=True)", "receives"),
        ("rows.to(self.device)", "open"),
        ("rows.to('cpu', non_blocking=True)", "open"),
        ("own.copy_(rows, non_blocking=True)", "receives"),
        ("own.copy_(rows)", "open"),
        ("pinned.copy_(rows, non_blocking=True)", "open"),
        ("self.group.broadcast(own)", "receives"),
        ("self.group.broadcast(rows)", "open"),
        ("self.group.broadcast()", "open"),
        ("self.group.recv_tensors().mul(2)", "open"),
    ],
)
def test_what_comes_from_outside_waits_for_no_stream(work: str, expected: str) -> None:
    made = "    own = torch.empty(4, device='cuda')\n    pinned = torch.empty(4, pin_memory=True)\n"
    assert judged(f"def take(self, rows):\n{made}{WORK.format(work)}") == expected


def test_a_stream_that_may_be_the_current_one_in_its_attribute() -> None:
    run = f"def move(self, rows):\n{RUN}"
    put = "def choose(self, stream):\n    self.side = {}\n\n"
    assert judged(put.format("stream or torch.cuda.current_stream()") + run) == "may be current"
    assert judged(put.format("stream or torch.cuda.Stream()") + run) == "open"


FORK = "def fork(self):\n    self.side.wait_stream(torch.cuda.current_stream())\n\n"


@pytest.mark.parametrize(
    ("caller", "expected"),
    [
        ("self.fork()\n    self._move(rows)", "ordered elsewhere"),
        ("self.side.wait_stream(torch.cuda.current_stream())\n    self._move(rows)", None),
        ("self._move(rows)\n    self.fork()", "open"),
        ("if rows:\n        self.fork()\n    self._move(rows)", "open"),
        ("torch.cuda.synchronize()\n    self._move(rows)", None),
        ("with torch.cuda.stream(self.side):\n        self._move(rows)", None),
    ],
)
def test_all_callers_make_the_stream_wait(caller: str, expected: str | None) -> None:
    text = f"{FORK}def _move(self, rows):\n{RUN}\ndef all(self, rows):\n    {caller}\n"
    lines = "".join(f"    {line}\n" if line else "\n" for line in text.splitlines())
    found = blocks(CLASS + lines)
    assert found[min(found)] == (expected or "ordered elsewhere")


def test_one_caller_that_does_not_is_enough() -> None:
    text = f"{FORK}def _move(self, rows):\n{RUN}\ndef one(self, rows):\n    self.fork()\n"
    text += "    self._move(rows)\n"
    assert judged(text) == "ordered elsewhere"
    assert judged(f"{text}\ndef two(self, rows):\n    self._move(rows)\n") == "open"


def test_a_caller_of_the_caller_and_the_neighbour() -> None:
    text = f"{FORK}def _move(self, rows):\n{RUN}\ndef some(self, rows):\n    self._move(rows)\n"
    outer = "\ndef all(self, rows):\n    {}    self.some(rows)\n"
    assert judged(text + outer.format("self.fork()\n")) == "ordered elsewhere"
    assert judged(text + outer.format("")) == "open"
    lone = f"def move_rows(self, rows):\n{RUN}"
    near = "def go(mover, rows, main):\n{}    mover.move_rows(rows)\n"
    wait = "    mover.side.wait_stream(main)\n"
    assert judged(lone, near=near.format(wait)) == "ordered elsewhere"
    assert judged(lone, near=near.format("")) == "open"


def test_a_method_that_is_there_to_make_the_stream_wait() -> None:
    """Only where nobody is seen to call the one that needs it."""
    assert judged(f"{FORK}def move(self, rows):\n{RUN}") == "ordered elsewhere"
    assert judged(f"def move(self, rows):\n{RUN}") == "open"
    other = FORK.replace("self.side.", "self.group.")
    assert judged(f"{other}def move(self, rows):\n{RUN}") == "open"
    called = f"{FORK}def move(self, rows):\n{RUN}\ndef all(self, rows):\n    self.move(rows)\n"
    assert judged(called) == "open"


def test_an_attribute_into_which_only_streams_that_wait_are_put() -> None:
    put = (
        "def start(self):\n    alt = self.side\n{}    self.pending = alt\n\n"
        "def stop(self):\n    alt = self.pending\n    self.pending = None\n"
        "    with torch.cuda.stream(alt):\n        self.group.mul(2)\n\n"
        "def both(self):\n    self.start()\n    self.stop()\n"
    )
    assert judged(put.format("    alt.wait_stream(torch.cuda.current_stream())\n")) == (
        "ordered elsewhere"
    )
    assert judged(put.format("")) == "open"


def test_a_stream_that_a_caller_hands_over() -> None:
    text = "def move(self, rows, stream):\n    side = stream\n    with torch.cuda.stream(side):\n"
    assert judged(f"{text}        rows.mul(2)\n") == "handed over"
    assert judged(text.replace("= stream", "= self.side") + "        rows.mul(2)\n") == "open"


@pytest.mark.parametrize("where", ["base", "module", "staticmethod"])
def test_functions_that_are_called_before(where: str) -> None:
    wait = "stream.wait_stream(torch.cuda.current_stream())"
    head = f"import torch\n\n\ndef arrange(stream):\n    {wait}\n\n\n"
    base = f"class Base:\n    def arrange(self, stream):\n        {wait}\n\n\n"
    own = f"    @staticmethod\n    def arrange(stream):\n        {wait}\n\n"
    call = "arrange(self.side)" if where == "module" else "self.arrange(self.side)"
    text = {"base": "import torch\n\n\n" + base, "module": head}.get(where, "import torch\n\n\n")
    text += "class Mover(Base):\n" if where == "base" else "class Mover:\n"
    text += own if where == "staticmethod" else ""
    text += f"    def move(self, rows):\n        {call}\n"
    text += "        with torch.cuda.stream(self.side):\n            rows.mul(2)\n"
    assert list(blocks(text).values()) == ["ordered"]
    assert list(blocks(text.replace("stream.wait_stream(", "note(")).values()) == ["open"]
