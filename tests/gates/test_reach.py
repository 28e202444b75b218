"""Which reads a load between the tiers can overtake: by the buffers that they take and it moves."""

from __future__ import annotations

import pytest

from auditor.model import Finding
from auditor.runs.audit import audit_sources

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
        (  # rows of a view, and a constant
            ["return self.rows.view(8, -1)[layer_id] * self.bias[layer_id]"],
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


INNER = """
    def get_bias(self, layer_id):
        self.settle(layer_id)
        return {read}

    def get_new"""


@pytest.mark.parametrize(
    ("read", "reach"),
    [
        ("self.bias[layer_id], self.places[layer_id]", "latent"),
        ("self.strict(layer_id)", "latent"),
        ("self.rows[layer_id], self.places[layer_id]", "live"),
    ],
)
def test_of_an_inner_getter_only_buffers_count_that_it_hands_out(read: str, reach: str) -> None:
    """Neither the table of places, which a load names too, nor rows that it raises before."""
    strict = """    def strict(self, layer_id):
        if self.scales is None:
            raise RuntimeError("not packed")
        return self.rows[layer_id] * self.scales[layer_id]

    def attach_counter"""
    inner = POOL.format(new="        self.settle(layer_id)\n        return self.rows[layer_id]")
    inner = inner.replace("\n    def get_new", INNER.replace("{read}", read))
    inner = inner.replace("    def attach_counter", strict, 1)
    inner = inner.replace("self.counter = None", "self.counter = None\n        self.places = {}", 1)
    inner = inner.replace("pool.rows[layer_id]", "pool.rows[self.pool.places[layer_id]]")
    outer = OUTER.replace("{getter}", "get_bias")
    report = audit_sources({PATH: inner, "sglang/srt/outer.py": outer})
    told = {f.hit.where.symbol.qualname: f.hit.reach for f in report.findings}
    assert told["Outer.get_fresh"] == reach


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


KEPT = """

class KeptRows(HostRows):
    def __init__(self, {parameter}):
        super().__init__({handed})


def keep(pool: Pool):
    return KeptRows({given})
"""


@pytest.mark.parametrize(
    ("parameter", "handed", "given"),
    [("buffers", "buffers", "pool.bias"), ("pool", "pool.bias", "pool")],
)
def test_what_a_subclass_of_a_host_is_made_from_is_moved(
    parameter: str, handed: str, given: str
) -> None:
    """Where it is made, or where its constructor takes it from the pool."""
    text = POOL.format(new="        return self.bias[layer_id].norm()")
    host = HOST.replace("[pool.bias]", "[pool.rows]")
    kept = KEPT.format(parameter=parameter, handed=handed, given=given)
    for made, reach in ((host, "latent"), (host + kept, "live")):
        (finding,) = audit_sources({PATH: text, "sglang/srt/host.py": made}).findings
        assert finding.hit.reach == reach


BESIDE = """
from sglang.srt.pools import Pool


class Model:
    def load_weights(self, weights):
        self.weights = weights


def warm_up(counter):
    pool = Pool(4, False)
    model = Model()
    return model, pool.bias
"""


def test_what_is_named_where_no_host_is_made_is_not_moved() -> None:
    """A pool with a load of its own is no host, nor is what loads nothing of a pool."""
    text = POOL.format(new="        return self.bias[layer_id].norm()")
    text = text.replace(
        "    def get_new",
        "    def load_layer(self, host, i):\n        self.rows[i].copy_(host[i])\n\n"
        "    def get_new",
    )
    (finding,) = audit_sources({PATH: text, "sglang/srt/beside.py": BESIDE}).findings
    assert finding.hit.reach == "latent"


STRICT = """
    def get_strict(self, layer_id):
        if self.scales is None:
            raise RuntimeError("not packed")
        self.settle(layer_id)
        return self.scales[layer_id]

    def get_new"""


def test_what_is_read_beside_a_method_that_raises_counts() -> None:
    new = "        return self.rows[layer_id] * self.get_strict(layer_id)"
    text = POOL.format(new=new).replace("\n    def get_new", STRICT)
    text = text.replace(
        "        self.settle(layer_id)\n        return self.scales", "        return self.scales"
    )
    told = {f.hit.where.symbol.qualname: f.hit.reach for f in audit_sources({PATH: text}).findings}
    assert told["Pool.get_new"] == "live"
