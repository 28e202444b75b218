"""Copies to the host that do not block: which they are, what answers for them, who reads them."""

from __future__ import annotations

import pytest

from tests.streams.sides import PATH, copies, side

HEAD = """\
import torch


class Rows:
    def __init__(self):
        self.pinned = torch.empty(4, pin_memory=True)
        self.device_rows = torch.empty(4, device="cuda")

    def move(self, rows, host_rows, cpu_rows):
"""


def found(body: str, **others: str) -> list[bool]:
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    return list(copies(HEAD + lines, **others).values())


@pytest.mark.parametrize(
    "copy",
    [
        'rows.to("cpu", non_blocking=True)',
        'rows.to(device="cpu", non_blocking=True)',
        'rows.to(torch.device("cpu"), non_blocking=True)',
        'rows.to(device=torch.device("cpu"), non_blocking=True)',
        "self.pinned.copy_(rows, non_blocking=True)",
        "self.pinned[:2].copy_(rows, non_blocking=True)",
        "host_rows.copy_(rows, non_blocking=True)",
        "host_rows.view(4).copy_(rows, non_blocking=True)",
        "own = torch.empty(4, pin_memory=True)\nown.copy_(rows, non_blocking=True)",
        'own = torch.empty(4, device="cpu")\nown.copy_(rows, non_blocking=True)',
        "own = torch.empty(4).pin_memory()\nown.copy_(rows, non_blocking=True)",
    ],
)
def test_a_copy_that_goes_to_the_host(copy: str) -> None:
    assert found(copy) == [False]


@pytest.mark.parametrize(
    "copy",
    [
        'rows.to("cpu")',
        'rows.to("cpu", non_blocking=False)',
        "rows.cpu()",
        "host_rows.to(rows.device, non_blocking=True)",
        "self.device_rows.copy_(rows, non_blocking=True)",
        "host_rows.copy_(cpu_rows, non_blocking=True)",
        "self.pinned.copy_(host_rows[:4], non_blocking=True)",
        "own = torch.empty(4, pin_memory=False)\nown.copy_(rows, non_blocking=True)",
        'note("cpu", non_blocking=True)',
    ],
)
def test_what_is_no_copy_to_the_host_or_blocks(copy: str) -> None:
    assert found(copy) == []


COPY = 'kept = rows.to("cpu", non_blocking=True)\n'


@pytest.mark.parametrize(
    "after",
    [
        "torch.cuda.synchronize()",
        "torch.cuda.current_stream().synchronize()",
        "self.done.record()",
        "event = torch.cuda.Event()",
        "while not self.done.query():\n    pass",
        "self.wait_for_copy()",
        "rows.sum().cpu()",
        "return kept, self.copy_event",
    ],
)
def test_a_function_that_waits_or_records_answers_for_its_copy(after: str) -> None:
    assert found(COPY + after) == [True]
    assert found(f"{COPY}return kept") == [False]


def test_an_event_that_is_handed_over() -> None:
    text = "def take(rows, {}):\n    return rows.to('cpu', non_blocking=True)\n"
    assert list(copies(text.format("done_event")).values()) == [True]
    assert list(copies(text.format("other")).values()) == [False]


def test_what_calls_the_function_answers_for_it() -> None:
    text = "def _take(rows):\n    return rows.to('cpu', non_blocking=True)\n\n\n"
    waits = "def one(rows):\n    _take(rows)\n    done.synchronize()\n\n\n"
    bare = "def two(rows):\n    return _take(rows)\n\n\n"
    above = "def three(rows):\n    two(rows)\n    done.synchronize()\n"
    assert list(copies(text).values()) == [False]
    assert list(copies(text + waits).values()) == [True]
    assert list(copies(text + waits + bare).values()) == [False]
    assert list(copies(text + waits + bare + above).values()) == [True]


def test_a_neighbour_that_calls_the_function_answers_for_it() -> None:
    text = "def take_rows(rows):\n    return rows.to('cpu', non_blocking=True)\n"
    near = "def go(rows):\n    take_rows(rows)\n{}"
    assert list(copies(text, near=near.format("    done.synchronize()\n")).values()) == [True]
    assert list(copies(text, near=near.format("")).values()) == [False]


@pytest.mark.parametrize(
    ("after", "read"),
    [
        ("return kept.tolist()", True),
        ("return int(kept)", True),
        ("if kept:\n    return rows", True),
        ("while kept:\n    pass", True),
        ("return kept", False),
        ("rows.kept = kept", False),
        ("return rows.tolist()", False),
    ],
)
def test_whether_the_host_is_seen_to_read_the_copy(after: str, read: bool) -> None:
    lines = "".join(f"        {line}\n" for line in (COPY + after).splitlines())
    [(copy, answered)] = side({PATH: HEAD + lines}).copies
    assert (copy.read, answered) == (read, False)


@pytest.mark.parametrize(
    ("reader", "read"),
    [
        ("return self.kept.tolist()", True),
        ("launch(self.kept)", True),
        ("self.kept = None", False),
        ("torch.cuda.synchronize()\n        return self.kept.tolist()", False),
    ],
)
def test_another_method_that_reads_what_is_kept(reader: str, read: bool) -> None:
    text = f"{HEAD}        self.kept = rows.to('cpu', non_blocking=True)\n"
    text += f"\n    def use(self):\n        {reader}\n"
    [(copy, _)] = side({PATH: text}, whole=True).copies
    assert copy.read is read
    assert side({PATH: text}).copies[0][0].read is read
