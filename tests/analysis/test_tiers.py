"""Which buffers a load moves of which pools: what a host is told, asks for and is handed."""

from __future__ import annotations

import pytest

from auditor.pipeline import audit_sources

POOL = """
import torch
{imports}

class Pool:
    def __init__(self, count):
        self.counter = None
        self.rows = [torch.zeros(8, 4) for _ in range(count)]
        {scales}

    def attach_counter(self, counter):
        self.counter = counter

    def get_rows(self, layer_id):
        self.counter.wait_until(layer_id)
        return self.rows[layer_id]

    def get_scaled(self, layer_id):
        self.counter.wait_until(layer_id)
        return self.rows[layer_id] * self.scales[layer_id]

    def get_head(self, layer_id):
        self.counter.wait_until(layer_id)
        return self.rows[layer_id][:1] * self.scales[layer_id]

    def get_scales(self, layer_id):
        return self.scales[layer_id].norm()
{methods}
"""

SCALES = "self.scales = [torch.ones(8) for _ in range(count)]"

LOADER = """
class Loader:
    def __init__(self, pool, counter):
        pool.attach_counter(counter)

    def load_layer(self, pool, layer_id, host):
        pool.rows[layer_id].copy_(host[layer_id])
"""


def reach(files: dict[str, str], symbol: str = "Pool.get_scales") -> tuple[str, str]:
    report = audit_sources({f"sglang/srt/{path}": text for path, text in files.items()})
    (finding,) = [f for f in report.findings if f.hit.where.symbol.qualname == symbol]
    return finding.hit.reach, finding.hit.reach_reason


def pool(scales: str = SCALES, methods: str = "", imports: str = "") -> str:
    return POOL.format(scales=scales, methods=methods, imports=imports)


# -- records -------------------------------------------------------------------------------------

RECORDS = """
from enum import Enum


class Layout(Enum):
    FLAT = 1
    PAGED = 2


class Parts:
    first: list
    second: list
    layout: Layout


class Shapes:
    second: list
"""

FILLED = """
    def parts(self):
        return Parts(first=self.rows, second=tuple(self.scales), layout={layout})

    def shapes(self):
        return Shapes(second=self.rows)
"""

HOST = """
from sglang.srt.records import Layout, Parts, Shapes


class Host:
    def __init__(self, parts: {record}, shapes: Shapes):
        {demand}
        self.buffers = {taken}

    def load_layer(self, layer_id, host):
        self.buffers[layer_id].copy_(host[layer_id])
"""


def handed(
    taken: str = "parts.second",
    record: str = "Parts",
    demand: str = "self.size = 1",
    layout: str = "Layout.FLAT",
) -> str:
    files = {
        "pool.py": pool(
            methods=FILLED.replace("{layout}", layout),
            imports="from sglang.srt.records import Layout, Parts, Shapes",
        ),
        "loader.py": HOST.format(taken=taken, record=record, demand=demand) + LOADER,
        "records.py": RECORDS,
    }
    return reach(files)[0]


@pytest.mark.parametrize(
    ("taken", "record", "told"),
    [
        ("parts.second", "Parts", "live"),
        ("parts.first", "Parts", "latent"),
        ("shapes.second", "Parts", "latent"),  # a field of that name, and other content
        ("parts.second", "Unknown", "latent"),
    ],
)
def test_what_a_pool_puts_into_a_record_is_moved_where_a_host_takes_that_field(
    taken: str, record: str, told: str
) -> None:
    assert handed(taken=taken, record=record) == told


DEMAND = """if {test}:
            raise ValueError("another layout")
        self.size = 1"""


@pytest.mark.parametrize(
    ("test", "layout", "told"),
    [
        ("parts.layout != Layout.PAGED", "Layout.FLAT", "latent"),
        ("parts.layout != Layout.PAGED", "Layout.PAGED", "live"),
        ("parts.layout != Layout.PAGED", "Layout.PAGED if self.rows else Layout.FLAT", "live"),
        ("parts.layout != Layout.PAGED", "self.layout()", "live"),  # it may be any
        ("parts.layout == Layout.PAGED", "Layout.FLAT", "live"),
        ("not (parts.second and parts.layout == Layout.PAGED)", "Layout.FLAT", "latent"),
        ("not parts.second or parts.layout != Layout.PAGED", "Layout.FLAT", "latent"),
        ("parts.second and parts.layout != Layout.PAGED", "Layout.FLAT", "live"),
    ],
)
def test_a_host_that_raises_for_what_a_pool_gives_is_not_made_for_it(
    test: str, layout: str, told: str
) -> None:
    assert handed(demand=DEMAND.format(test=test), layout=layout) == told


def test_the_test_of_a_demand_may_have_a_name() -> None:
    demand = """paged = parts.second and parts.layout == Layout.PAGED
        if not paged:
            raise ValueError("another layout")"""
    assert handed(demand=demand) == "latent"
    assert handed(demand=demand, layout="Layout.PAGED") == "live"


def test_a_host_in_a_file_that_names_nothing_guarded_is_found_by_its_base() -> None:
    files = {
        "pool.py": pool(
            methods=FILLED.replace("{layout}", "Layout.FLAT"),
            imports="from sglang.srt.records import Layout, Parts, Shapes",
        ),
        "loader.py": LOADER,
        "records.py": RECORDS,
        "host.py": """
from sglang.srt.loader import Loader
from sglang.srt.records import Parts


class Host(Loader):
    def __init__(self, parts: Parts):
        self.buffers = parts.second
""",
    }
    assert reach(files)[0] == "live"
    assert reach({**files, "host.py": files["host.py"].replace("(Loader)", "")})[0] == "latent"


# -- one allocation ------------------------------------------------------------------------------

SLAB = """
def allocate(count):
    slab = torch.zeros(count, 8, 8)
    rows = list(slab.unbind(0))
    apart = [torch.ones(8) for _ in range(count)]
    views = {"scales": [row[:, 4:].view(8, 4) for row in rows]}
    return rows, views, apart
"""


@pytest.mark.parametrize(
    ("scales", "told"),
    [
        (
            "slab = torch.zeros(count, 8, 8)\n        self.rows, self.scales = slab, slab[4:]",
            "live",
        ),
        (
            "self.rows = torch.zeros(8, 8)\n        self.scales = self.rows[:, 4:].view(8, 4)",
            "live",
        ),
        ("self.rows, views, _ = allocate(count)\n        self.scales = views['scales']", "live"),
        ("self.rows, _, self.scales = allocate(count)", "latent"),
        (
            "slab = torch.zeros(8)\n        self.rows = slab\n        self.scales = slab.mul(2)",
            "latent",
        ),
    ],
)
def test_views_of_one_allocation_are_moved_together(scales: str, told: str) -> None:
    text = pool(scales=scales) + SLAB
    assert reach({"pool.py": text, "loader.py": LOADER})[0] == told


# -- modes of a platform, and attributes ---------------------------------------------------------

MODES = """
class Loader:
    def __init__(self, pool, counter):
        pool.attach_counter(counter)

    def load_layer(self, pool, layer_id, host, backend):
        if backend == "plain":
            pool.scales[layer_id].copy_(host[layer_id])
        {other}
        else:
            raise ValueError(backend)
"""

ON_CHIP = "elif backend == 'chip':\n            pool.{name}[layer_id].copy_(host[layer_id])"
KNOWN = (
    MODES.replace("Loader", "Known")
    .replace("scales", "rows")
    .replace("{other}", ON_CHIP.format(name="rows"))
)
"""A host that knows the mode, so that it is one, and moves other buffers."""


def on_chip(path: str, other: str, defaults: str = "chips/defaults.py", extra: str = "") -> str:
    files = {
        path: pool(),
        "loader.py": MODES.replace("        {other}\n", f"        {other}\n" if other else ""),
        "arguments.py": "def defaults(args):\n    args.load_backend = 'plain'\n",
        defaults: "def defaults(args):\n    args.load_backend = 'chip'\n",
        "other.py": extra,
    }
    return reach(files)[0]


@pytest.mark.parametrize(
    ("path", "other", "told"),
    [
        ("chips/pool.py", "", "latent"),
        ("chips/pool.py", ON_CHIP.format(name="scales"), "live"),
        ("pool.py", "", "live"),
    ],
)
def test_pools_of_a_platform_are_moved_by_hosts_that_know_its_mode(
    path: str, other: str, told: str
) -> None:
    assert on_chip(path, other, extra=KNOWN) == told


def test_a_mode_that_is_chosen_elsewhere_too_is_of_no_platform() -> None:
    assert on_chip("chips/pool.py", "", "defaults.py", KNOWN) == "live"


WIDE = """
from sglang.srt.chips.pool import Pool


class Wide(Pool):
    def __init__(self, count):
        self.counter = None
        self.tails = [count]
"""


def test_a_host_that_reads_what_a_pool_lacks_is_not_made_for_it() -> None:
    apart = "class Apart:\n    pass\n"
    asks = ON_CHIP.format(name="scales") + "\n            pool.tails[layer_id].copy_(host)"
    other = POOL.format(scales="self.tails = [count]", methods="", imports="").replace(
        "class Pool", "class Tailed"
    )
    assert on_chip("chips/pool.py", asks, extra=apart + other) == "latent"
    assert on_chip("chips/pool.py", asks, extra=WIDE) == "live"  # a subclass has it
