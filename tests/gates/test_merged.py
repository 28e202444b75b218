"""What a merge makes of a getter that waits: told where it breaks the wait, else silent."""

from __future__ import annotations

import pytest

from auditor.model import Finding
from auditor.runs.audit import audit_sources

PATH = "sglang/srt/pool.py"
POOL = """
import torch
from kernels import copy_rows, store_rows, take_rows


class Inner:
    def __init__(self, count):
        self.rows = [torch.zeros(8, 4) for _ in range(count)]

    def row_of(self, number):
        return self.rows[number]


class Pool:
    def __init__(self, size, count):
        self.counter = None
        self.size = size
        self.start = 0
        self.places = {}
        self.keys = [torch.zeros((self.size, 4)) for _ in range(count)]
        self.values = [torch.zeros((self.size, 4)) for _ in range(count)]
        self.inner = Inner(count)
        # fields

    def attach(self, counter):
        self.counter = counter

    def _settle(self, layer_id):
        if self.counter is not None:
            self.counter.wait_until(layer_id - self.start)

    @staticmethod
    def _take(rows, number):
        return rows[number]

    def get_keys(self, layer_id):
        self._settle(layer_id)
        return self.keys[layer_id - self.start]

    def get_values(self, layer_id):
        self._settle(layer_id)
        return self.values[layer_id - self.start]

    def get_inner(self, layer_id):
        self._settle(layer_id)
        return self.inner.row_of(layer_id - self.start)

    # methods
"""
KEYS = """\
        self._settle(layer_id)
        return self.keys[layer_id - self.start]
"""
FIELDS, METHODS = "        # fields\n", "    # methods\n"


def told(fork: str, upstream: str = POOL) -> list[Finding]:
    """What the defaults show of synchronization."""
    findings = audit_sources({PATH: fork}, {PATH: upstream}).findings
    return [f for f in findings if f.category == "sync" and f.hit.confidence != "low"]


def at(fork: str, upstream: str = POOL) -> list[tuple[str, str]]:
    """The functions that are told, and the origins."""
    return [
        (f.hit.where.symbol.qualname.rpartition(".")[2], f.origin) for f in told(fork, upstream)
    ]


def with_keys(*lines: str, fields: str = "") -> str:
    body = "".join(f"        {line}\n" for line in lines)
    return POOL.replace(KEYS, body).replace(FIELDS, f"        {fields or 'pass'}\n")


def with_new(field: str, pool: str = POOL) -> str:
    getter = "    def get_new(self, layer_id):\n        return self.new[layer_id - self.start]\n"
    return pool.replace(FIELDS, f"        self.new = {field}\n").replace(METHODS, getter)


LOST = [
    pytest.param(with_keys("self._settle(0)", "return self.keys[layer_id - self.start]"), id="0"),
    pytest.param(
        with_keys("self._settle(layer_id - 1)", "return self.keys[layer_id - self.start]"),
        id="the layer before",
    ),
    pytest.param(
        with_keys(
            "self.counter = None",
            "self._settle(layer_id)",
            "return self.keys[layer_id - self.start]",
        ),
        id="the gate taken away before",
    ),
    pytest.param(
        with_keys(
            "self.counter = None",
            "if self.counter is not None:",
            "    self.counter.wait_until(layer_id - self.start)",
            "return self.keys[layer_id - self.start]",
        ),
        id="the gate taken away before its own test",
    ),
    pytest.param(
        with_keys("return Pool._take(self.keys, layer_id - self.start)"),
        id="handed whole to a static method",
    ),
    pytest.param(
        with_keys("return take_rows(self.keys, layer_id - self.start).view(torch.int8)"),
        id="handed whole to what is imported",
    ),
    pytest.param(
        with_keys(
            "self.later = lambda: self._settle(layer_id)",
            "return self.keys[layer_id - self.start]",
        ),
        id="in a lambda that is put away",
    ),
    pytest.param(
        with_keys(
            "kept = self.kept.get(layer_id)",
            "if kept is not None:",
            "    return kept",
            "self._settle(layer_id)",
            "self.kept[layer_id] = self.keys[layer_id - self.start].view(torch.int8)",
            "return self.kept[layer_id]",
            fields="self.kept = {}",
        ),
        id="a kept view handed out before",
    ),
]


@pytest.mark.parametrize("fork", LOST)
def test_a_wait_is_lost_in_another_way_than_by_its_line(fork: str) -> None:
    assert at(fork) == [("get_keys", "regressed")]


SAME = [
    pytest.param(
        with_keys("self._settle(layer_id - 1)", "return self.keys[layer_id - self.start - 1]"),
        id="what is read has moved too",
    ),
    pytest.param(
        POOL.replace(KEYS, KEYS.replace("layer_id", "index")).replace(
            "get_keys(self, layer_id)", "get_keys(self, index)"
        ),
        id="another name",
    ),
    pytest.param(
        with_keys("self._settle(layer_id)", "return take_rows(self.keys, layer_id - self.start)"),
        id="handed whole behind the wait",
    ),
    pytest.param(
        with_keys(
            "kept = self.kept.get(layer_id)",
            "if kept is not None:",
            "    return kept",
            "self._settle(layer_id)",
            "self.kept[layer_id] = self.keys[layer_id - self.start].clone()",
            "return self.kept[layer_id]",
            fields="self.kept = {}",
        ),
        id="a kept copy",
    ),
    pytest.param(
        with_keys(
            "place = self.places.get(layer_id)",
            "if place is None:",
            "    return None",
            "self._settle(layer_id)",
            "return self.keys[layer_id - self.start]",
        ),
        id="nothing is handed out before",
    ),
]


UNPACKED = """\
        self._settle(layer_id)
        number, _ = self.places[layer_id]
        return self.keys[number]
"""


def test_an_index_may_be_looked_up_before_the_wait() -> None:
    wait, lookup, read = UNPACKED.splitlines(keepends=True)
    upstream = POOL.replace(KEYS, UNPACKED)
    assert at(POOL.replace(KEYS, lookup + wait + read), upstream) == []
    taken = "        rows = self.keys[self.places[layer_id]].clone()\n"
    used = upstream.replace(lookup + read, taken + "        return rows\n")
    late = used.replace(wait + taken, taken + wait)
    assert at(late, used) == [("get_keys", "regressed")]


@pytest.mark.parametrize("fork", SAME)
def test_what_waits_as_before_is_silent(fork: str) -> None:
    assert at(fork) == []


def test_a_kept_view_is_told_by_the_readers_of_what_is_kept() -> None:
    """No other side is asked."""
    again = POOL[POOL.index("    def get_keys") : POOL.index("    def get_values")]
    kept = next(p.values[0] for p in LOST if p.id == "a kept view handed out before")
    assert isinstance(kept, str)
    fork = kept.replace(METHODS, again.replace("get_keys", "get_rows"))
    assert at(fork, fork) == [("get_keys", "inherited")]


def test_a_kept_view_of_an_inner_object_is_one_too() -> None:
    read = "        return self.inner.row_of(layer_id - self.start)\n"
    wait = "        self._settle(layer_id)\n" + read
    early = """\
        if layer_id in self.kept:
            return self.kept[layer_id]
        self._settle(layer_id)
        self.kept[layer_id] = self.inner.row_of(layer_id - self.start)
        return self.kept[layer_id]
"""
    fork = POOL.replace(wait, early).replace(FIELDS, "        self.kept = {}\n")
    assert at(fork) == [("get_inner", "regressed")]


ENTRIES = """

class Entry:
    number: int
    pool: Inner


class Routed(Pool):
    def __init__(self, size, count):
        super().__init__(size, count)
        self.entries = [Entry(0, Inner(count)) for _ in range(count)]

    def get_routed(self, layer_id):
        self._settle(layer_id)
        number, inner = self.entries[layer_id]
        return inner.row_of(number)
"""


@pytest.mark.parametrize(
    ("line", "lost"),
    [
        ("self._settle(layer_id)", "self.later = lambda: self._settle(layer_id)"),
        ("return inner.row_of(number)", "self.kept[layer_id] = inner.row_of(number)"),
    ],
)
def test_a_pool_out_of_an_entry_is_told_by_the_other_side_alone(line: str, lost: str) -> None:
    upstream = POOL + ENTRIES
    fork = POOL + ENTRIES.replace(line, lost)
    if "kept" in lost:
        wait = "        self._settle(layer_id)\n"
        early = "        if layer_id in self.kept:\n            return self.kept[layer_id]\n"
        fork = POOL + ENTRIES.replace(line, f"{lost}\n        return self.kept[layer_id]").replace(
            wait, early + wait
        )
    assert at(fork, upstream) == [("get_routed", "regressed")]


def test_a_wait_for_what_another_name_says_is_not_the_layer_before() -> None:
    fork = POOL.replace(KEYS, KEYS.replace("_settle(layer_id)", "_settle(self.settled[1])"))
    assert "for another index" not in "".join(f.hit.message for f in told(fork))


def test_messages_say_what_became_of_the_wait() -> None:
    [shifted] = told(LOST[1].values[0])  # type: ignore[arg-type]
    assert "for another index" in shifted.hit.message
    [taken] = told(LOST[2].values[0])  # type: ignore[arg-type]
    assert "puts None in the place of counter" in taken.hit.message


# -- what the fork brings ------------------------------------------------------------------------

LIKE = "[torch.zeros((self.size, 1)) for _ in range(count)]"


def test_a_new_buffer_is_waited_for_as_all_others_are() -> None:
    [finding] = told(with_new(LIKE))
    assert finding.hit.where.symbol.qualname == "Pool.get_new"
    assert (finding.origin, finding.hit.confidence) == ("introduced", "medium")
    assert "3 others of the class wait before they read its other buffers" in finding.hit.message


def test_shapes_that_are_worked_out_are_compared_by_how() -> None:
    shaped = "[torch.zeros(self.shape_of({})) for _ in range(count)]"
    pool = POOL.replace("torch.zeros((self.size, 4))", "torch.zeros(self.shape_of(size))")
    assert at(with_new(shaped.format("size"), pool), pool) == [("get_new", "introduced")]
    assert at(with_new(shaped.format("count"), pool), pool) == []


def test_members_of_one_record_are_alike() -> None:
    pool = POOL.replace("[torch.zeros((self.size, 4)) for _ in range(count)]", "size['rows']")
    assert at(with_new("size['new']", pool), pool) == [("get_new", "introduced")]
    assert at(with_new("count['new']", pool), pool) == []


@pytest.mark.parametrize(
    "field",
    [
        "[1.0] * count",
        "[torch.ones(1) for _ in range(count)]",
        "[torch.ones((4, 1))] * count",
        "torch.zeros(self.size)",
    ],
)
def test_what_is_made_as_no_buffer_is_may_be_a_constant(field: str) -> None:
    assert at(with_new(field)) == []


def test_a_buffer_that_upstream_has_is_its_own_matter() -> None:
    upstream = POOL.replace(FIELDS, f"        self.new = {LIKE}\n")
    assert at(with_new(LIKE), upstream) == []
    assert at(with_new(LIKE), with_new(LIKE)) == []


def test_a_number_a_row_is_a_buffer() -> None:
    field = "[torch.zeros(self.size) for _ in range(count)]"
    assert at(with_new(field)) == [("get_new", "introduced")]


def test_a_reader_that_its_callers_wait_for_does_not_spoil_the_habit() -> None:
    raw = """\
    def get_raw(self, layer_id):
        return self.keys[layer_id - self.start]

    def get_sum(self, layer_id):
        self._settle(layer_id)
        return self.get_raw(layer_id).sum()

"""
    host = """

class Host:
    def load_to_device_per_layer(self, pool, layer_id, rows):
        pool.keys[layer_id][rows] = self.rows[layer_id]
"""
    upstream = POOL.replace(METHODS, raw + METHODS) + host
    assert at(upstream, upstream) == []
    assert at(with_new(LIKE, upstream), upstream) == [("get_new", "introduced")]


def test_one_getter_is_no_habit() -> None:
    start, end = POOL.index("    def get_values"), POOL.index(METHODS)
    one = POOL[:start] + POOL[end:]
    assert at(with_new(LIKE, one), one) == []


def test_a_class_that_reads_another_buffer_in_the_open_has_no_habit() -> None:
    """The other one is the fork's too, and a load moves it."""
    other = "        self.more = [torch.zeros((self.size, 2)) for _ in range(count)]\n"
    getter = (
        "    def get_more(self, layer_id):\n        return self.more[layer_id - self.start]\n\n"
    )
    host = """

class Host:
    def load_to_device_per_layer(self, pool, layer_id, rows):
        pool.keys[layer_id][rows] = self.rows[layer_id]
        pool.more[layer_id][rows] = self.more[layer_id]
"""
    upstream = POOL.replace(FIELDS, other + FIELDS).replace(METHODS, getter + METHODS) + host
    assert "get_new" not in dict(at(with_new(LIKE, upstream), upstream))


def test_a_store_that_is_handed_a_buffer_is_no_read_of_it() -> None:
    fork = with_keys("store_rows(self.keys, layer_id - self.start)")
    assert "gate-removed" not in {f.rule for f in told(fork)}
    assert "gate-removed" in {
        f.rule for f in told(fork.replace("store_rows(self", "copy_rows(self"))
    }


def test_a_cause_is_named_by_what_is_taken_first() -> None:
    helper = """\
    def _both(self, layer_id):
        first = self.values[layer_id - self.start]
        return self.keys[layer_id - self.start], first

    def get_both(self, layer_id):
        return torch.cat(self._both(layer_id))
"""
    fork = POOL.replace(METHODS, helper)
    assert {f.hit.cause for f in told(fork)} == {"Pool.values"}


def test_readers_whose_users_wait_speak_for_no_other_habit() -> None:
    """Of four getters one waits no longer; four others hand out what their users wait for."""
    names = ("left", "right", "upper", "lower")
    fields = "".join(f"        self.{n} = [torch.zeros((self.size, 2))]\n" for n in names)
    getters = "".join(
        f"    def get_{n}(self, layer_id):\n"
        + ("" if n == "lower" else "        self._settle(layer_id)\n")
        + f"        return self.{n}[layer_id - self.start]\n\n"
        for n in names
    )
    raw = "".join(
        f"    def get_raw_{k}(self, layer_id):\n"
        "        return self.lower[layer_id - self.start], self.upper[layer_id - self.start]\n\n"
        for k in range(4)
    )
    users = "".join(
        f"\n\ndef total_{k}(pool: Pool, layer_id):\n"
        "    pool._settle(layer_id)\n"
        f"    return sum(pool.get_raw_{k}(layer_id))\n"
        for k in range(4)
    )
    start = POOL.index("    def get_keys")
    pool = POOL[:start].replace(FIELDS, fields) + getters + raw
    host = """

class Host:
    def load_to_device_per_layer(self, pool, layer_id, rows):
        pool.upper[layer_id][rows] = self.upper[layer_id]
        pool.lower[layer_id][rows] = self.lower[layer_id]
"""
    pool += users + host
    assert at(pool, pool) == [("get_lower", "inherited")]
