"""Summaries kept for later runs: an audit that remembers finds what one without a memory finds."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from auditor.checks.sides import Sides, unmarked
from auditor.gates import flow
from auditor.gates.questions import Grounds
from auditor.model import Report
from auditor.repo.snapshot import open_fork, open_reference
from auditor.rulebook import load
from auditor.runs.audit import run
from auditor.runs.request import AuditRequest
from auditor.source.store import FactStore

POOLS = """\
{imports}
{helper}
class Counter:
    def wait_until(self, i): ...

class Pool:
    def register(self, counter):
        self.counter = counter
    def get_keys(self, i):
        {keys}
    def get_values(self, i):
        {values}
    def get_scales(self, i):
        {scales}
    def get_all(self, i):
        self.counter.wait_until(i)
        return self.keys[i], self.values[i], self.scales[i]
    def get_rows(self, i):
        self.counter.wait_until(i)
        return self.keys[i] + self.values[i] + self.scales[i]
    {more}
    def __init__(self):
        {held}

class Quantized(Pool{second_base}):
    def get_keys(self, i):
        {override}

class Wrapper:
    def __init__(self):
        self.inner: {inner} = make()
    def get_rows(self, i):
        self.counter.wait_until(i)
        return self.inner.get_rows(i)
    def register(self, counter):
        self.counter = counter
    def get_values(self, i):
        {delegate}
    def get_keys(self, i):
        self.counter.wait_until(i)
        return self.inner.get_keys(i)
"""
WAITS = """\
from sglang.srt.pools import Pool
{elsewhere}
class Rows:
    {nested}
def waited(pool, i):
    {waited}
    return pool
class Mixin:
    def get_keys(self, i):
        return self.keys[i]
"""
USERS = """\
from sglang.srt.pools import Pool, Wrapper
{alias}
def by_name(thing, i):
    return thing.get_rows(i)
class Backend{backend_base}:
    def __init__(self, runner):
        self.pool{typed} = runner.pool
    def forward(self, i):
        {forward}
    def built(self, i):
        made = Made()
        return made.get_keys(i)
    def row(self, i):
        row = self.Row()
        return row.get_keys(i)
    def transfer(self, i):
        self.pool.keys[i].copy_(self.host.keys[i])
        self.pool.values[i].copy_(self.host.values[i])
"""
WAIT = "self.counter.wait_until(i); "
OTHERS = "".join(f"class Other{n}:\n    def get_rows(self, i): ...\n" for n in range(6))
CHOICES = {
    "imports": [
        "from sglang.srt.waits import waited",
        "from sglang.srt import waits\nwaited = waits.waited",
        "",
    ],
    "helper": ["", "def waited(pool, i):\n    return pool\n", "\n\n\n# moved\n"],
    "keys": [WAIT + "return self.keys[i]", "return self.keys[i]", "return waited(self, i).keys[i]"],
    "values": [WAIT + "return self.values[i]", "x = self.values[i]; " + WAIT + "return x"],
    "scales": ["return self.scales[i]", WAIT + "return self.scales[i]", "return self.keys[i]"],
    "more": ["", "def get_values(self, i):\n        return self.values[i]", "# nothing"],
    "held": [
        "self.keys = []",
        "self.keys = []; self.pool = Quantized()",
        "self.keys = [Counter()]",
    ],
    "second_base": ["", ", Mixin"],
    "override": ["return super().get_keys(i)", "return self.keys[i]", WAIT + "return self.keys[i]"],
    "inner": ["Pool", "Quantized", "'Wrapper'", "Unknown"],
    "delegate": ["return self.inner.get_values(i)", "return self.inner.values[i]"],
    "elsewhere": ["", "class Counter: ...", "class Wrapper: ...\n", OTHERS],
    "nested": ["pass", "class Row(Pool): ...", "class Row:\n        def get_keys(self, i): ..."],
    "waited": ["pool.counter.wait_until(i)", "pass", "pool.counter.wait_until(0)"],
    "alias": [
        "",
        "from sglang.srt.pools import Pool as Made",
        "from sglang.srt.pools import Wrapper as Made",
    ],
    "backend_base": ["", "(Rows)"],
    "typed": ["", ": Pool", ": Wrapper"],
    "forward": ["return self.pool.get_keys(i)", "return self.pool.keys[i]", "pass"],
}
VOCABULARY = load().vocabulary
NAMES = sorted(CHOICES)
FIRST = dict.fromkeys(NAMES, 0)


def write(folder: Path, state: dict[str, int]) -> None:
    parts = {name: CHOICES[name][at] for name, at in state.items()}
    (folder / "sglang/srt").mkdir(parents=True, exist_ok=True)
    for path, text in (("pools", POOLS), ("waits", WAITS), ("users", USERS)):
        (folder / f"sglang/srt/{path}.py").write_text(text.format(**parts))


def audit(fork: Path, upstream: Path, cache: Path | None) -> Report:
    request = AuditRequest(fork, upstream=str(upstream), cache=cache, min_confidence="low", jobs=1)
    return run(request)


@contextmanager
def walks() -> Iterator[list[str]]:
    """The functions whose bodies are walked meanwhile."""
    seen: list[str] = []
    original = flow.Walk.run

    def counted(self: flow.Walk) -> object:
        seen.append(self.function.facts.qualname)
        return original(self)

    flow.Walk.run = counted  # type: ignore[method-assign,assignment]
    try:
        yield seen
    finally:
        flow.Walk.run = original  # type: ignore[method-assign]


step = st.sampled_from(NAMES).flatmap(
    lambda name: st.tuples(st.just(name), st.integers(0, len(CHOICES[name]) - 1))
)


def summaries(fork: Path, upstream: Path, cache: Path | None) -> list[object]:
    """What each function of the fork does, in the order of an audit and then of names."""
    snapshots = [open_fork(fork), open_reference(str(upstream), "upstream", open_fork(fork), fork)]
    with closing(FactStore(cache, alone=True)) as store:
        sides = Sides(snapshots, VOCABULARY, store, unmarked)
        view, *_ = sides.views()
        found: list[object] = list(view.readings.readings)
        for name in sorted(view.functions):
            for function in view.functions[name]:
                found.append((name, view.readings.summary(function, function.owner)))
        sides.save()
    return found


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(step, min_size=1, max_size=8), st.lists(step, max_size=3))
def test_remembering_changes_nothing(
    steps: list[tuple[str, int]], before: list[tuple[str, int]]
) -> None:
    """Every choice changes what some answer rests on: a body, a base, a type, a name, a place."""
    with tempfile.TemporaryDirectory() as scratch:
        fork, upstream, cache = (Path(scratch) / name for name in ("fork", "upstream", "cache"))
        write(upstream, FIRST | dict(before))
        state = dict(FIRST)
        write(fork, state)
        audit(fork, upstream, cache)
        for name, at in steps:
            state[name] = at
            write(fork, state)
            assert summaries(fork, upstream, cache) == summaries(fork, upstream, None)
            remembered, fresh = audit(fork, upstream, cache), audit(fork, upstream, None)
            assert remembered.findings == fresh.findings
            assert remembered.checked == fresh.checked
            assert remembered.skipped == fresh.skipped


@pytest.mark.parametrize(
    ("before", "edit", "what"),
    [
        ({"keys": 2}, {"imports": 2, "helper": 1}, "Pool.get_keys"),
        ({"keys": 2}, {"waited": 1}, "Pool.get_keys"),
        ({"alias": 1}, {"alias": 0}, "Backend.built"),
        ({"backend_base": 1, "nested": 1}, {"nested": 2}, "Backend.row"),
        ({"backend_base": 1, "nested": 1}, {"nested": 0}, "Backend.row"),
        ({"typed": 1}, {"typed": 2}, "Backend.forward"),
        ({"override": 0}, {"second_base": 1, "keys": 1}, "Quantized.get_keys"),
        ({}, {"elsewhere": 3}, "by_name"),
        ({"inner": 0}, {"inner": 3}, "Wrapper.get_keys"),
    ],
)
def test_an_answer_that_changed_is_noticed(
    tmp_path: Path, before: dict[str, int], edit: dict[str, int], what: str
) -> None:
    """In each case a function has another summary though its own text stays as it was."""
    fork, cache = tmp_path / "fork", tmp_path / "cache"
    write(fork, FIRST | before)
    old = summaries(fork, fork, cache)
    write(fork, FIRST | before | edit)
    new = summaries(fork, fork, None)
    assert dict(named(old))[what] != dict(named(new))[what]
    assert summaries(fork, fork, cache) == new


def named(found: list[object]) -> list[tuple[str, object]]:
    return [pair for pair in found if isinstance(pair, tuple)]


def test_the_choices_matter(tmp_path: Path) -> None:
    """Or the test above would compare the same few things again and again."""
    chance = random.Random(7)
    found, summed = set(), set()
    fork = tmp_path / "fork"
    for _ in range(60):
        write(fork, {name: chance.randrange(len(CHOICES[name])) for name in NAMES})
        report = audit(fork, fork, None)
        found.add(tuple((f.rule, f.hit.where.symbol, f.hit.confidence) for f in report.findings))
        summed |= set(map(repr, summaries(fork, fork, None)))
    assert len(found) > 20
    assert len(summed) > 100


def test_what_only_moved_is_not_walked_again(tmp_path: Path) -> None:
    for name in ("fork", "upstream"):
        write(tmp_path / name, FIRST)
    cache = tmp_path / "cache"
    with walks() as first:
        before = audit(tmp_path / "fork", tmp_path / "upstream", cache)
    assert "Pool.get_keys" in first
    pools = tmp_path / "fork/sglang/srt/pools.py"
    pools.write_text("# a line\n# and one more\n" + pools.read_text())
    with walks() as again:
        after = audit(tmp_path / "fork", tmp_path / "upstream", cache)
    assert again == []
    lines = [f.hit.where.line for f in before.findings]
    assert lines
    moved = {f.hit.where.symbol.path: f.hit.where.line for f in after.findings}
    assert [f.hit.where.line for f in after.findings] == [
        f.hit.where.line + 2 * f.hit.where.symbol.path.endswith("pools.py") for f in before.findings
    ], moved


def test_only_what_rests_on_a_changed_body_is_walked_again(tmp_path: Path) -> None:
    for name in ("fork", "upstream"):
        write(tmp_path / name, FIRST)
    cache = tmp_path / "cache"
    audit(tmp_path / "fork", tmp_path / "upstream", cache)
    write(tmp_path / "fork", FIRST | {"scales": 2})
    with walks() as again:
        audit(tmp_path / "fork", tmp_path / "upstream", cache)
    assert set(again) == {"Pool.get_scales"}


@pytest.mark.parametrize("kind", ["memory", "scans"])
@pytest.mark.parametrize("content", [b"", b"\xc1", b"\x93\x90\x90\x80", b"\x80", b"\x00" * 5000])
def test_a_damaged_file_counts_as_missing(tmp_path: Path, kind: str, content: bytes) -> None:
    for name in ("fork", "upstream"):
        write(tmp_path / name, FIRST)
    cache = tmp_path / "cache"
    expected = audit(tmp_path / "fork", tmp_path / "upstream", cache).findings
    [file] = (cache / kind / "results").iterdir()
    file.write_bytes(content)
    for result in (cache / "results").iterdir():
        result.unlink()
    assert audit(tmp_path / "fork", tmp_path / "upstream", cache).findings == expected
    assert expected


def test_grounds_are_numbered_once() -> None:
    grounds = Grounds([(("vote", "a"), "x")])
    assert grounds.bit((("vote", "a"), "x")) == 2
    assert grounds.bit((("vote", "a"), "y")) == 4
    assert grounds.bit((("vote", "a"), "y")) == 4
    assert grounds.known == [(("vote", "a"), "x"), (("vote", "a"), "y")]


DECORATORS = """\
def waiting(method):
    def wrapper(self, i):
        self.counter.wait_until(i)
        return method(self, i)
    return wrapper
def telling(method):
    def wrapper(self, i):
        print(i)
        return method(self, i)
    return wrapper
class Pool:
    def __init__(self):
        self.counter, self.rows = None, []
    def get_first(self, i):
        self.counter.wait_until(i)
        return self.rows[i]
    @waiting
    def get_rows(self, i):
        return self.rows[i]
    @telling
    def get_open(self, i):
        return self.rows[i]
"""


def test_wrappers_of_one_name_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang/pools.py").write_text(DECORATORS)
    found = dict(named(summaries(tmp_path, tmp_path, None)))
    held = {name: tuple(dict(found[name].exit_held)) for name in ("Pool.get_rows", "Pool.get_open")}  # type: ignore[attr-defined]
    assert held == {"Pool.get_rows": (("self", "counter"),), "Pool.get_open": ()}
