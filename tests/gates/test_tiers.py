"""Which buffers a load moves of which pools: what a host is told, asks for and is handed."""

from __future__ import annotations

import pytest

from auditor.runs.audit import audit_sources

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
    methods: str = FILLED,
    more: str = "",
    more_of_pool: str = "",
) -> str:
    files = {
        "pool.py": pool(
            methods=methods.replace("{layout}", layout) + more_of_pool,
            imports="from sglang.srt.records import Layout, Parts, Shapes",
        ),
        "loader.py": HOST.format(taken=taken, record=record, demand=demand) + LOADER + more,
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


def test_a_host_that_goes_on_demands_nothing() -> None:
    demand = "self.size = 2 if parts.first else 1\n        if parts.layout != Layout.PAGED:"
    assert handed(demand=f"{demand}\n            self.size = 3") == "live"


def test_what_a_host_is_made_from_is_not_moved_for_a_pool_that_it_refuses() -> None:
    demand = DEMAND.format(test="parts.layout != Layout.PAGED")
    made = "\n\ndef assemble(pool):\n    return Host(pool.scales, None)\n"
    assert handed(demand=demand, more=made) == "latent"
    assert handed(demand=demand, more=made, layout="Layout.PAGED") == "live"


OTHER = """class Other:
    def attach_counter(self, counter):
        self.counter = counter

    def parts(self):
        return Parts(second=self.scales)"""


@pytest.mark.parametrize(
    ("filled", "told"),
    [
        ("def parts(pool):\n    return Parts(second=pool.scales)", "live"),
        ("def parts(pool):\n    return Parts(second=pool.table.scales)", "latent"),
        ("def parts(pool):\n    return Parts(second=TABLE.scales)", "latent"),
        (OTHER, "latent"),
    ],
)
def test_a_record_is_filled_for_the_pool_by_its_own_methods_or_a_function(
    filled: str, told: str
) -> None:
    assert handed(methods="", more_of_pool=f"\n\n{filled}\n") == told


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
    between = "from sglang.srt.loader import Loader\n\n\nclass Between(Loader):\n    pass\n"
    further = files["host.py"].replace("srt.loader import Loader", "srt.between import Between")
    further = further.replace("(Loader)", "(Between)")
    assert reach({**files, "between.py": between, "host.py": further})[0] == "live"


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
            "a = torch.zeros(8)\n        b = a * 2\n        self.rows, self.scales = a, b[4:]",
            "latent",
        ),
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


def on_chip(
    path: str, other: str, defaults: str = "chips/defaults.py", extra: str = "", methods: str = ""
) -> str:
    files = {
        path: pool(methods=methods),
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


def test_a_folder_with_hosts_of_other_modes_is_no_platform() -> None:
    files = {
        "pool.py": pool(),
        "loader.py": MODES.replace("        {other}\n", ""),
        "other.py": KNOWN,
    }
    chosen = {"defaults.py": "def defaults(args):\n    args.load_backend = 'chip'\n"}
    assert reach({**files, **chosen})[0] == "live"


def test_a_host_of_the_platform_needs_no_mode() -> None:
    own = LOADER.replace("Loader", "ChipLoader").replace("rows", "scales")
    files = {
        "chips/pool.py": pool(),
        "chips/defaults.py": "def defaults(args):\n    args.load_backend = 'chip'\n",
        "loader.py": KNOWN,
    }
    assert reach(files)[0] == "latent"
    assert reach({**files, "chips/loader.py": own})[0] == "live"
    assert reach({**files, "elsewhere/loader.py": own})[0] == "latent"


INNER = """
from sglang.srt.{base} import Base


class Inner(Base):
    def __init__(self, count):
        self.scales = [count]
"""

BASE = """
class Base:
    def attach_counter(self, counter):
        self.counter = counter
"""


@pytest.mark.parametrize(
    "made",
    ["self.inner: Base = Inner(count)", "self.inner = inner"],
    ids=["declared as a base", "unknown"],
)
def test_the_class_that_has_the_buffer_decides_or_else_the_reader(made: str) -> None:
    text = pool(
        made, imports="from sglang.srt.chips.inner import Inner\nfrom sglang.srt.base import Base"
    )
    text = text.replace("self.scales[layer_id]", "self.inner.scales[layer_id]")
    files = {
        "base.py": BASE,
        "chips/inner.py": INNER.format(base="base"),
        "chips/defaults.py": "def defaults(args):\n    args.load_backend = 'chip'\n",
        "loader.py": MODES.replace("        {other}\n", "").replace("pool.sc", "self.pool.sc"),
        "other.py": KNOWN,
    }
    assert reach({**files, "chips/pool.py": text})[0] == "latent"
    elsewhere = "latent" if "Base" in made else "live"
    assert reach({**files, "pool.py": text})[0] == elsewhere


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
    assert on_chip("chips/pool.py", asks, extra=WIDE) == "latent"
    abstract = "\n    @abc.abstractmethod\n    def name(self): ...\n"
    assert on_chip("chips/pool.py", asks, extra=WIDE, methods=abstract) == "live"


TAILED = POOL.format(scales="self.tails = [count]", methods="", imports="").replace(
    "class Pool", "class Tailed"
)
"""Another pool, with an attribute of its own."""


NEEDS = """
class Loader:
    def __init__(self, pool, counter):
        pool.attach_counter(counter)

    def load_layer(self, pool, layer_id, host{annotation}, backend):
{body}

    def load_part(self, pool):
        pool.tails

    def load_all(self, pool):
        self.load_part(pool)
"""


def needing(*lines: str, annotation: str = "") -> str:
    body = "\n".join(f"        {line}" for line in lines)
    loader = NEEDS.format(annotation=annotation, body=body)
    return reach({"pool.py": pool(), "loader.py": loader, "other.py": TAILED})[0]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["pool.scales[layer_id].copy_(pool.tails[layer_id])"], "latent"),
        (["pool.scales[layer_id].copy_(host.item_bytes)"], "live"),  # no pool has such a thing
        (["pool.scales", "if self.wide:", "    pool.tails"], "latent"),
        (["pool.scales", "if pool.wide:", "    pool.tails"], "live"),  # it asks
        (["if self.wide:", "    pool.tails", "else:", "    pool.scales"], "live"),
        (["if self.wide:", "    raise ValueError(pool.tails)", "pool.scales"], "live"),
    ],
)
def test_a_host_that_reads_what_a_pool_lacks_is_made_for_others(
    lines: list[str], told: str
) -> None:
    """What is read in a part of its own, as ``load_part``, may be left out."""
    assert needing(*lines) == told


ONE, TWO, TAILS, ROWS = (
    "if backend == 'one':",
    "if backend == 'two':",
    "    pool.tails",
    "    pool.scales",
)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([ONE, TAILS, TWO, ROWS], "live"),
        ([ONE, TAILS, "else:", ROWS], "latent"),  # in the only mode that has a name
        (
            ["if backend != 'one':", "    raise ValueError(backend)", "pool.scales, pool.tails"],
            "latent",
        ),
        (["if backend == 'one' and self.wide:", TAILS, TWO, ROWS], "live"),
        (["if not backend == 'one':", TAILS, TWO, ROWS], "live"),
        (["if backend == 'one' or backend == 'two':", TAILS, "pool.scales"], "latent"),
        (  # a name of its own is no mode
            ["kind = type(host)", "if kind != 'array':", TAILS, "pool.scales"],
            "latent",
        ),
    ],
)
def test_it_fits_where_one_of_its_modes_needs_nothing_that_a_pool_lacks(
    lines: list[str], told: str
) -> None:
    assert needing(*lines) == told


def test_what_is_declared_as_something_else_is_not_the_pool() -> None:
    line = "pool.scales[layer_id].copy_(host.tails)"
    assert needing(line) == "latent"
    assert needing(line, annotation=": Tape") == "live"


NARROW = """
from sglang.srt.pool import Pool


class Narrow(Pool):
    def __init__(self, count):
        super().__init__(count)
        self.marks = [count]


class NarrowHost:
    def __init__(self, pool: {declared}):
        self.scales = pool.scales

    def load_layer(self, pool, layer_id, host):
        self.scales[layer_id].copy_(host[layer_id])
"""


@pytest.mark.parametrize(
    ("declared", "methods", "told"),
    [
        ("Narrow", "", "latent"),
        ("Pool", "", "live"),
        ("Pool | Narrow", "", "live"),
        ("Narrow", "\n    @abc.abstractmethod\n    def name(self): ...\n", "live"),
    ],
)
def test_a_host_of_a_subclass_is_not_made_for_objects_of_its_base(
    declared: str, methods: str, told: str
) -> None:
    """Unless the base is abstract, so that all of its objects are of subclasses."""
    text = NARROW.format(declared=declared)
    files = {"pool.py": pool(methods=methods), "loader.py": LOADER, "narrow.py": text}
    assert reach(files)[0] == told
