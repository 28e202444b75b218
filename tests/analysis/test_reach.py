"""Which reads a load between the tiers can overtake: by the buffers that they take and it moves."""

from __future__ import annotations

import pytest

from auditor.model import Finding
from auditor.pipeline import audit_sources

PATH = "sglang/srt/pools.py"

POOL = """
import torch


class Pool:
    def __init__(self, count, packed):
        self.counter = None
        self.rows = [torch.zeros(8, 4) for _ in range(count)]
        self.bias = [torch.zeros(4) for _ in range(count)]
        self.scales = [torch.ones(8) for _ in range(count)] if packed else None

    def attach_counter(self, counter):
        self.counter = counter

    def settle(self, layer_id):
        if self.counter is not None:
            self.counter.wait_until(layer_id)

    def get_rows(self, layer_id):
        self.settle(layer_id)
        return self.rows[layer_id] + self.bias[layer_id]

    def get_tail(self, layer_id, count):
        self.settle(layer_id)
        return self.rows[layer_id][-count:] + self.bias[layer_id]

    def get_packed(self, layer_id):
        self.settle(layer_id)
        return self.rows[layer_id] * self.scales[layer_id]

    def get_new(self, layer_id):
{new}


class Loader:
    def __init__(self, pool: Pool, counter):
        self.pool = pool
        pool.attach_counter(counter)

    def load_layer(self, layer_id, host):
        self.pool.rows[layer_id].copy_(host[layer_id])
"""


def found(*lines: str) -> Finding:
    body = "\n".join(f"        {line}" for line in lines)
    (finding,) = audit_sources({PATH: POOL.format(new=body)}).findings
    assert finding.hit.where.symbol.qualname == "Pool.get_new"
    return finding


READ = "return self.rows[layer_id] + self.bias[layer_id]"


@pytest.mark.parametrize(
    ("lines", "reach"),
    [
        (["return self.rows[layer_id].norm()"], "live"),
        ([READ], "live"),
        (["return self.bias[layer_id].norm()"], "latent"),
        (  # an optional scale
            [
                "if self.scales is not None:",
                "    return self.rows[layer_id] * self.scales[layer_id]",
                READ,
            ],
            "live",
        ),
        (  # without the scales there is no read, and nothing loads them
            [
                "if self.scales is None:",
                "    raise RuntimeError('not packed')",
                "return self.rows[layer_id] * self.scales[layer_id]",
            ],
            "latent",
        ),
        (  # what it asks for is what a load moves
            ["if self.rows is None:", "    raise RuntimeError('no rows')", READ],
            "live",
        ),
        (  # it does something else then
            ["if self.scales is None:", "    return None", READ],
            "live",
        ),
        (  # either of two that are missing
            [
                "if self.rows is None or self.scales is None:",
                "    raise RuntimeError('not packed')",
                "return self.rows[layer_id] * self.scales[layer_id]",
            ],
            "latent",
        ),
    ],
)
def test_one_buffer_that_a_load_moves_is_enough(lines: list[str], reach: str) -> None:
    finding = found(*lines)
    assert finding.hit.reach == reach
    assert finding.severity == ("high" if reach == "live" else "medium")


def test_the_buffer_that_is_moved_is_named_and_not_the_constant() -> None:
    assert found(READ).hit.reach_reason == "a transfer between the tiers moves rows"


OUTER = """
from sglang.srt.pools import Pool


class Outer:
    def __init__(self, count, inner_class):
        self.counter = None
        self.inner = inner_class(count)
        self.inner.attach_counter(None)

    def attach_counter(self, counter):
        self.counter = counter

    def get_rows(self, layer_id):
        self.counter.wait_until(layer_id)
        return self.inner.get_rows(layer_id)

    def get_tail(self, layer_id, count):
        self.counter.wait_until(layer_id)
        return self.inner.get_tail(layer_id, count)

    def get_bias(self, layer_id):
        self.counter.wait_until(layer_id)
        return self.inner.get_bias(layer_id)

    def get_fresh(self, layer_id):
        return self.inner.{getter}(layer_id)
"""


@pytest.mark.parametrize(
    ("getter", "reach", "named"), [("get_rows", "live", "rows"), ("get_bias", "latent", "bias")]
)
def test_of_an_inner_object_of_unknown_class_its_buffer_is_meant(
    getter: str, reach: str, named: str
) -> None:
    inner = POOL.format(new="        self.settle(layer_id)\n        return self.rows[layer_id]")
    inner = inner.replace(
        "    def get_new",
        "    def get_bias(self, layer_id):\n        self.settle(layer_id)\n"
        "        return self.bias[layer_id]\n\n    def get_new",
    )
    outer = OUTER.replace("{getter}", getter)
    report = audit_sources({PATH: inner, "sglang/srt/outer.py": outer})
    (finding,) = report.findings
    assert finding.hit.where.symbol.qualname == "Outer.get_fresh"
    assert finding.hit.reach == reach
    assert named in finding.hit.reach_reason
    assert "inner" not in finding.hit.reach_reason


HOST = """
from sglang.srt.pools import Pool


class HostRows:
    def __init__(self, buffers):
        self.buffers = buffers

    def load_layer(self, layer_id, host):
        self.buffers[layer_id].copy_(host[layer_id])


def regions(pool: Pool):
    return [pool.bias]


def assemble(pool: Pool):
    return [HostRows(buffers) for buffers in regions(pool)]
"""


@pytest.mark.parametrize(
    ("host", "reach"),
    [
        (HOST, "live"),
        (HOST.replace("return [HostRows(buffers) for", "return [buffers for"), "latent"),
        (HOST.replace("def load_layer", "def print_layer"), "latent"),
    ],
)
def test_what_a_host_object_is_made_from_is_moved(host: str, reach: str) -> None:
    text = POOL.format(new="        return self.bias[layer_id].norm()")
    (finding,) = audit_sources({PATH: text, "sglang/srt/host.py": host}).findings
    assert finding.hit.reach == reach


def test_a_pools_own_load_counts_where_it_copies_from_another_object() -> None:
    text = POOL.format(new="        return self.bias[layer_id].norm()")
    own = "    def get_new"
    load = "    def load_layer(self, host, i):\n        self.bias[i].copy_({source})\n\n"

    def reach(source: str) -> str:
        given = text.replace(own, load.replace("{source}", source) + own)
        (finding,) = audit_sources({PATH: given}).findings
        return finding.hit.reach

    assert reach("host.bias[i]") == "live"
    assert reach("host[i]") == "latent"  # a copy that it made of itself


CIRCLE = """
class Pair:
    def __init__(self, count, left, right):
        self.counter = None
        self.left = left(count)
        self.right = right(count)
        self.left.attach_counter(None)
        self.right.attach_counter(None)

    def attach_counter(self, counter):
        self.counter = counter

    def get_one(self, layer_id):
        self.counter.wait_until(layer_id)
        return self.left.get_two(layer_id)

    def get_two(self, layer_id):
        self.counter.wait_until(layer_id)
        return self.right.get_one(layer_id), self.left.get_rows(layer_id)

    def {first}(self, layer_id):
        return self.left.get_one(layer_id)

    def {second}(self, layer_id):
        return self.left.get_two(layer_id)
"""


@pytest.mark.parametrize(("first", "second"), [("get_a", "get_b"), ("get_b", "get_a")])
def test_getters_that_lead_to_each_other_answer_alike_whichever_is_asked_first(
    first: str, second: str
) -> None:
    inner = POOL.format(new="        self.settle(layer_id)\n        return self.rows[layer_id]")
    text = CIRCLE.replace("{first}", first).replace("{second}", second)
    report = audit_sources({PATH: inner, "sglang/srt/pair.py": text})
    told = {f.hit.where.symbol.qualname: f.hit.reach for f in report.findings}
    assert told == {"Pair.get_a": "live", "Pair.get_b": "live"}
