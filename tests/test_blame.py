"""Whose defect it is where upstream went on: made repositories, each with one right answer."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import TinyRepository
from scenarios.pools import POOL, READERS, pool

from auditor.formats.verdict import decide
from auditor.model import Finding, Report
from auditor.runs.audit import audit_sources, run
from auditor.runs.request import AuditRequest

Make = Callable[..., TinyRepository]

PATH = f"python/{POOL}"
SOUND = pool()
LATER = pool(READERS, ["get_later"])
"""Upstream's code from after its release: a reader that does not wait."""
BROKEN = pool(READERS[1:], READERS[:1])
OTHER = {"python/sglang/version.py": "__version__ = '0'\n"}
CI = ("introduced", "regressed", "unknown")


def audit(repository: TinyRepository, upstream: str = "v0.5.9", **more: object) -> Report:
    request = AuditRequest(root=repository.top, upstream=upstream, jobs=1, **more)  # type: ignore[arg-type]
    return run(request)


def only(report: Report) -> Finding:
    (finding,) = report.findings
    return finding


def on_release_branches(make: Make, main: dict[str, str], tag: str = "") -> TinyRepository:
    """Upstream: v0.5.9 on a branch of its own, then ``main`` on main, which ``tag`` may hold."""
    repository = make({PATH: SOUND, **OTHER})
    repository.git("tag", "--delete", "v0.5.9")
    repository.git("checkout", "--quiet", "-b", "release")
    repository.commit({"python/sglang/version.py": "__version__ = '0.5.9'\n"}, "cut", "v0.5.9")
    repository.git("checkout", "--quiet", "main")
    repository.commit(main, "upstream goes on")
    if tag:
        repository.git("checkout", "--quiet", "-b", "next")
        repository.commit({"python/sglang/version.py": f"__version__ = {tag!r}\n"}, "cut", tag)
        repository.git("checkout", "--quiet", "main")
    return repository


# -- upstream's later code -----------------------------------------------------------------------


def test_what_the_fork_merged_of_upstreams_later_code_is_not_its_own(tiny_repository: Make) -> None:
    repository = on_release_branches(tiny_repository, {PATH: LATER}, "v0.5.10")
    repository.commit({"python/sglang/own.py": "x = 1\n"}, "the fork's own")
    finding = only(audit(repository))
    assert (finding.origin, finding.since_base) == ("inherited", "v0.5.9")
    assert "v0.5.9" in finding.origin_reason


def test_what_upstream_broke_later_is_not_fixed_by_its_release(tiny_repository: Make) -> None:
    repository = on_release_branches(tiny_repository, {PATH: BROKEN}, "v0.5.10")
    repository.commit({"python/sglang/own.py": "x = 1\n"}, "the fork's own")
    finding = only(audit(repository))
    assert (finding.origin, finding.since_base) == ("inherited", "v0.5.9")


def test_a_tag_that_moves_is_seen_beside_what_is_kept(
    tiny_repository: Make, tmp_path: Path
) -> None:
    """The trees stay, and so would what was found of them."""
    repository = on_release_branches(tiny_repository, {PATH: LATER}, "v0.5.10")
    repository.commit({"python/sglang/own.py": "x = 1\n"}, "the fork's own")
    assert only(audit(repository, cache=tmp_path / "cache")).since_base == "v0.5.9"
    taken = repository.git("rev-parse", "HEAD~1")
    moved = repository.git("commit-tree", "v0.5.9^{tree}", "-p", taken, "-m", "cut again")
    repository.git("tag", "--force", "v0.5.9", moved)
    finding = only(audit(repository, cache=tmp_path / "cache"))
    assert (finding.origin, finding.since_base) == ("inherited", "")


def test_who_merges_it_takes_it_on_and_the_pipeline_stops(tiny_repository: Make) -> None:
    repository = on_release_branches(tiny_repository, {PATH: LATER}, "v0.5.10")
    report = audit(repository, origins=CI)
    assert decide(report, "high", False).status == 1
    assert only(report).hit.where.symbol.qualname == "Pool.get_later"
    # What upstream's own release has is not of the asked origins.
    old = audit(repository, "v0.5.10", origins=CI)
    assert not old.findings
    assert old.hidden == {"origin": 1}


def test_a_branch_of_upstreams_remote_tells_it_too(tiny_repository: Make) -> None:
    repository = on_release_branches(tiny_repository, {PATH: LATER})
    assert only(audit(repository)).origin == "introduced"
    repository.git("remote", "add", "upstream", "https://example.com/upstream.git")
    repository.git("update-ref", "refs/remotes/upstream/main", "HEAD")
    finding = only(audit(repository))
    assert (finding.origin, finding.since_base) == ("inherited", "v0.5.9")


def test_what_was_picked_from_a_later_release_has_its_text(tiny_repository: Make) -> None:
    repository = on_release_branches(tiny_repository, {PATH: LATER}, "v0.5.10")
    repository.git("checkout", "--quiet", "-b", "fork", "v0.5.9")
    repository.commit({PATH: LATER}, "taken by hand")
    finding = only(audit(repository))
    assert (finding.origin, finding.since_base) == ("inherited", "v0.5.9")
    assert "v0.5.10" in finding.origin_reason
    assert decide(audit(repository, origins=CI), "high", False).status == 1


def test_a_function_of_that_name_in_another_class_is_no_part_of_its_text(
    tiny_repository: Make,
) -> None:
    other = "\n\nclass Draft:\n    def get_later(self, layer_id):\n        return {}\n"
    repository = tiny_repository({PATH: SOUND + other.format("layer_id"), **OTHER})
    repository.commit({PATH: LATER + other.format("None")}, "upstream goes on", "v0.5.10")
    repository.git("checkout", "--quiet", "-b", "fork", "v0.5.9")
    repository.commit({PATH: LATER + other.format("layer_id")}, "taken by hand")
    finding = only(audit(repository))
    assert (finding.origin, finding.since_base) == ("inherited", "v0.5.9")


def without_counter(text: str) -> str:
    """A pool from before there was anything to wait for."""
    for lines in (
        "        self.counter = None\n",
        "    def attach_counter(self, counter):\n        self.counter = counter\n\n",
    ):
        assert lines in text
        text = text.replace(lines, "")
    return text


def test_a_reader_that_was_sound_until_upstream_came_to_wait_around_it(
    tiny_repository: Make,
) -> None:
    """Its text is that of the release, where nothing waits; the fork took the waits of the next."""
    before = without_counter(pool((), (*READERS, "get_later"), armed=False))
    repository = tiny_repository({PATH: before, **OTHER})
    repository.commit({PATH: LATER}, "upstream waits", "v0.5.10")
    repository.git("checkout", "--quiet", "-b", "fork", "v0.5.9")
    repository.commit({PATH: LATER.replace("(8, 4)", "(16, 4)")}, "taken with another size")
    finding = only(audit(repository))
    assert (finding.origin, finding.since_base) == ("inherited", "v0.5.9")


RAW = """\
def checksum(context, layer_id):
    return float(context.pool.rows[layer_id].sum())
"""
HOLDS = """\
def width(context, layer_id):
    assert context.pool.rows[layer_id].shape
    return context.pool.get_rows(layer_id).sum()
"""


def test_a_later_release_without_the_defect_does_not_excuse_text_that_was_always_there(
    tiny_repository: Make,
) -> None:
    """Upstream reads past the getters and waits nowhere; the fork made its getters wait.

    That the object is a pool is told by a third file, which is not looked at for one symbol.
    """
    raw = {"python/sglang/srt/models/worker.py": RAW, "python/sglang/srt/layers/holds.py": HOLDS}
    before = without_counter(pool((), READERS, armed=False))
    repository = tiny_repository({PATH: before, **raw, **OTHER})
    repository.commit({"python/sglang/later.py": ""}, "upstream goes on", "v0.5.10")
    repository.git("checkout", "--quiet", "-b", "fork", "v0.5.9")
    repository.commit({PATH: SOUND}, "waits")
    finding = only(audit(repository))
    assert finding.rule == "gate-bypassed"
    assert (finding.origin, finding.since_base) == ("introduced", "")


@pytest.mark.parametrize("committed", [True, False])
def test_where_few_files_do_not_show_the_defect_the_text_decides(
    tiny_repository: Make, committed: bool
) -> None:
    """If they do not show it at the fork's own commit with that text either."""
    worker = {"python/sglang/srt/models/worker.py": RAW}
    holds = {"python/sglang/srt/layers/holds.py": HOLDS}
    repository = tiny_repository({PATH: SOUND, **holds, **OTHER})
    repository.commit(worker, "upstream reads past the getters", "v0.5.10")
    repository.git("checkout", "--quiet", "-b", "fork", "v0.5.9")
    if committed:
        repository.commit(worker, "taken by hand")
    else:
        repository.write(worker)
    finding = only(audit(repository))
    assert finding.rule == "gate-bypassed"
    assert finding.since_base == ("v0.5.9" if committed else "")


def test_what_is_not_the_forks_own_fault_is_as_bad_as_upstreams(tiny_repository: Make) -> None:
    """A wait that a fork takes away is bad wherever it was; one that upstream took by its reach."""
    sound, broken = pool(armed=False), pool(READERS[1:], READERS[:1], armed=False)
    repository = tiny_repository({PATH: sound, **OTHER})
    repository.commit({PATH: broken}, "lost upstream", "v0.5.10")
    repository.git("checkout", "--quiet", "-b", "fork", "v0.5.9")
    repository.commit({PATH: broken.replace("(8, 4)", "(16, 4)")}, "taken with another size")
    finding = only(audit(repository))
    assert (finding.origin, finding.since_base) == ("inherited", "v0.5.9")
    assert finding.severity == only(audit_sources({POOL: broken})).severity
    mine = only(audit_sources({POOL: broken}, {POOL: sound}))
    assert (mine.origin, mine.severity == finding.severity) == ("regressed", False)


def test_text_that_no_later_release_has_is_the_forks_own(tiny_repository: Make) -> None:
    repository = on_release_branches(tiny_repository, {PATH: LATER}, "v0.5.10")
    repository.git("checkout", "--quiet", "-b", "fork", "v0.5.9")
    other = LATER.replace("slots=None):", "slots=None, *, own=True):")
    repository.commit({PATH: other}, "the fork's own")
    finding = only(audit(repository))
    assert (finding.origin, finding.since_base) == ("introduced", "")
    assert "v0.5.10" in finding.origin_reason


HELPED = """\
import torch


class Base:
    def __init__(self, count):
        self.counter = None
        self.rows = [torch.zeros(8, 4) for _ in range(count)]

    def attach_counter(self, counter):
        self.counter = counter

    def ready(self, layer_id):
{ready}
"""
TAKEN = """\
from sglang.srt.mem_cache.base import Base


class Pool(Base):
    def get_rows(self, layer_id):
        self.ready(layer_id)
        return self.rows[layer_id]

    def get_page(self, layer_id, slots):
        self.counter.wait_until(layer_id)
        return self.rows[layer_id][slots]

    def get_head(self, layer_id, slots):
        self.counter.wait_until(layer_id)
        return self.rows[layer_id][:slots]


class Loader:
    def __init__(self, pool: Pool, counter):
        self.pool = pool
        pool.attach_counter(counter)

    def load_layer(self, layer_id, host):
        self.pool.rows[layer_id].copy_(host[layer_id])
"""
BASE = "python/sglang/srt/mem_cache/base.py"
IDLE = HELPED.format(ready="        pass")
WAITING = HELPED.format(ready="        self.counter.wait_until(layer_id)")
BEFORE = TAKEN.replace("self.ready(layer_id)", "self.counter.wait_until(layer_id)")


def test_half_of_a_later_change_is_the_forks_own_fault(tiny_repository: Make) -> None:
    """Upstream moved the wait into a helper of another file; the fork took the caller alone."""
    repository = tiny_repository({PATH: BEFORE, BASE: IDLE, **OTHER})
    repository.commit({PATH: TAKEN, BASE: WAITING}, "moved", "v0.5.10")
    repository.git("checkout", "--quiet", "-b", "fork", "v0.5.9")
    repository.commit({PATH: TAKEN}, "half of it")
    finding = only(audit(repository))
    assert finding.origin == "regressed"
    assert finding.hit.where.symbol.qualname == "Pool.get_rows"


def test_a_later_release_that_waits_excuses_no_lone_reader(tiny_repository: Make) -> None:
    """Without siblings only upstream's version speaks against the read, not the fork's files."""

    def lone(text: str) -> str:
        before, _, after = text.partition("    def get_page")
        return before.rstrip() + "\n\n\n" + after[after.index("class Loader") :]

    repository = tiny_repository({PATH: lone(BEFORE), BASE: IDLE, **OTHER})
    repository.commit({PATH: lone(TAKEN), BASE: WAITING}, "moved", "v0.5.10")
    repository.git("checkout", "--quiet", "-b", "fork", "v0.5.9")
    repository.commit({PATH: lone(TAKEN)}, "half of it")
    finding = only(audit(repository))
    assert (finding.rule, finding.origin) == ("gate-removed", "regressed")
    # That a later release has no such text is said of what the fork brought.
    assert "later release" not in finding.origin_reason


def test_half_of_a_later_change_is_the_forks_own_fault_before_it_is_committed_too(
    tiny_repository: Make,
) -> None:
    repository = tiny_repository({PATH: BEFORE, BASE: IDLE, **OTHER})
    repository.commit({PATH: TAKEN, BASE: WAITING}, "moved", "v0.5.10")
    repository.git("checkout", "--quiet", "-b", "fork", "v0.5.9")
    repository.write({PATH: TAKEN})
    assert only(audit(repository)).origin == "regressed"


def test_text_that_upstream_had_all_along_excuses_nothing(tiny_repository: Make) -> None:
    """The wait was lost in another file; later upstream lost it there too, in another way."""
    repository = tiny_repository({PATH: TAKEN, BASE: WAITING, **OTHER})
    repository.commit({BASE: IDLE.replace("pass", "return None")}, "lost upstream", "v0.5.10")
    repository.git("checkout", "--quiet", "-b", "fork", "v0.5.9")
    repository.commit({BASE: IDLE}, "lost in the fork")
    finding = only(audit(repository))
    assert (finding.origin, finding.since_base) == ("regressed", "")


def test_a_fork_that_is_older_than_its_upstream(tiny_repository: Make) -> None:
    repository = tiny_repository({PATH: BROKEN, **OTHER})
    repository.git("checkout", "--quiet", "-b", "fork")
    repository.git("checkout", "--quiet", "main")
    repository.commit({PATH: SOUND}, "repaired", "v0.5.10")
    repository.git("checkout", "--quiet", "fork")
    finding = only(audit(repository, "v0.5.10"))
    assert (finding.origin, finding.fixed_in) == ("fixed-upstream", "v0.5.10")


DIGEST = "python/sglang/srt/models/digest.py"
READ = "def digest(pool, i):\n    return float(pool.marks[i].sum())\n"
WAITED = READ.replace("    return", "    pool.counter.wait_until(i)\n    return")


def test_a_wait_outside_the_pools_that_came_after_the_fork_left_was_not_removed_by_it(
    tiny_repository: Make,
) -> None:
    repository = tiny_repository({PATH: SOUND, DIGEST: READ, **OTHER})
    repository.git("checkout", "--quiet", "-b", "fork")
    repository.git("checkout", "--quiet", "main")
    repository.commit({DIGEST: WAITED}, "repaired", "v0.5.10")
    repository.git("checkout", "--quiet", "fork")
    repository.commit({"python/sglang/own.py": "x = 1\n"}, "the fork's own")
    finding = only(audit(repository, "v0.5.10"))
    assert (finding.rule, finding.origin) == ("gate-removed", "fixed-upstream")


def test_a_wait_outside_the_pools_that_upstream_took_back_was_not_removed_by_the_fork(
    tiny_repository: Make,
) -> None:
    repository = tiny_repository({PATH: SOUND, DIGEST: WAITED, **OTHER})
    repository.git("tag", "--delete", "v0.5.9")
    repository.git("checkout", "--quiet", "-b", "release")
    repository.commit({"python/sglang/version.py": "__version__ = '0.5.9'\n"}, "cut", "v0.5.9")
    repository.git("checkout", "--quiet", "main")
    repository.commit({DIGEST: READ}, "taken back")
    repository.git("remote", "add", "upstream", "https://example.com/upstream.git")
    repository.git("update-ref", "refs/remotes/upstream/main", "HEAD")
    repository.commit({"python/sglang/own.py": "x = 1\n"}, "the fork's own")
    finding = only(audit(repository))
    assert (finding.rule, finding.origin) == ("gate-removed", "inherited")
    assert finding.since_base == "v0.5.9"


def test_without_history_the_blame_says_what_it_rests_on() -> None:
    report = audit_sources({POOL: LATER}, {POOL: SOUND})
    assert only(report).origin == "introduced"
    assert "upstream" in only(report).origin_reason


def test_a_folder_as_target_tells_it_by_the_same_text() -> None:
    report = audit_sources({POOL: LATER}, {POOL: SOUND}, [{POOL: LATER}])
    finding = only(report)
    assert (finding.origin, finding.since_base) == ("inherited", "upstream")
    other = LATER.replace("return self.rows[layer_id][slots]", "return self.rows[layer_id] [slots]")
    assert only(audit_sources({POOL: LATER}, {POOL: SOUND}, [{POOL: other}])).origin == "introduced"


def cached(folder: Path, version: str, released: str, others: dict[str, str] | None = None) -> Path:
    """A cache with the wheel of one release."""
    cache = folder / "cache"
    (cache / "releases").mkdir(parents=True)
    name = f"sglang-{version}-py3-none-any.whl"
    with zipfile.ZipFile(cache / "releases" / name, "w") as wheel:
        wheel.writestr("sglang/version.py", "")
        for path, text in {POOL: released, **(others or {})}.items():
            wheel.writestr(path, text)
        wheel.writestr(
            f"sglang-{version}.dist-info/METADATA", f"Name: sglang\nVersion: {version}\n"
        )
    return cache


@pytest.mark.parametrize(
    ("released", "version", "origin"),
    [
        (LATER, "0.5.11", "inherited"),
        (LATER, "0.5.8", "introduced"),  # an older release is no source of it
        (pool((*READERS, "get_later")), "0.5.11", "introduced"),  # it waits there
    ],
)
def test_a_release_in_the_cache_tells_it_where_there_is_no_tag(
    tiny_repository: Make, tmp_path: Path, released: str, version: str, origin: str
) -> None:
    repository = tiny_repository({PATH: SOUND, **OTHER})
    repository.commit({PATH: LATER}, "taken by hand")
    cache = cached(tmp_path, version, released)
    finding = only(audit(repository, cache=cache))
    assert finding.origin == origin
    # A release that told nothing is not named: the report does not hang on the cache.
    assert (f"pypi:{version}" in finding.origin_reason) == (origin == "inherited")


def test_half_of_the_change_of_a_release_in_the_cache_is_the_forks_own_fault(
    tiny_repository: Make, tmp_path: Path
) -> None:
    repository = tiny_repository({PATH: BEFORE, BASE: IDLE, **OTHER})
    repository.commit({PATH: TAKEN}, "half")
    inside = BASE.removeprefix("python/")
    cache = cached(tmp_path, "0.5.10", TAKEN, {inside: WAITING})
    assert only(audit(repository, cache=cache)).since_base == ""
    cache = cached(tmp_path / "other", "0.5.10", TAKEN, {inside: IDLE})
    assert only(audit(repository, cache=cache)).since_base == "v0.5.9"


def test_the_repositorys_own_tag_speaks_for_a_release(
    tiny_repository: Make, tmp_path: Path
) -> None:
    """A wheel of that version with other code, as a fork's own build may be, does not."""
    repository = tiny_repository({PATH: SOUND, **OTHER})
    repository.commit({"python/sglang/later.py": ""}, "upstream goes on", "v0.5.10")
    repository.commit({PATH: LATER}, "the fork's own")
    assert only(audit(repository, cache=cached(tmp_path, "0.5.10", LATER))).origin == "introduced"


# -- a caller that made it a defect --------------------------------------------------------------

INNER = """\
import torch


class Pool:
    def __init__(self, count):
        self.counter = None
        self.rows = [torch.zeros(8, 4) for _ in range(count)]

    def attach_counter(self, counter):
        self.counter = counter

    def settle(self, i):
        if self.counter is not None:
            self.counter.wait_until(i)

    def get_rows(self, i):
        self.settle(i)
        return self._rows(i)

    def get_pair(self, i):
        self.settle(i)
        return self.rows[i], self.rows[i + 1]

    def get_page(self, i, slots):
        self.settle(i)
        return self.rows[i][slots]

    def _rows(self, i):
        return self.rows[i]

    def get_raw(self, i):
        return self.rows[i]


class Loader:
    def __init__(self, pool: Pool, counter):
        pool.attach_counter(counter)

    def load_layer(self, pool, i, host):
        pool.rows[i].copy_(host[i])
"""
STORE = "def store(pool, i, loc, rows):\n    pool.get_raw(i)[loc] = rows\n"
USE = "def checksum(pool, i):\n    return float(pool.get_raw(i).sum())\n"
WRITER, WORKER = "sglang/srt/models/writer.py", "sglang/srt/models/worker.py"


def test_a_new_caller_is_what_makes_upstreams_raw_getter_a_defect() -> None:
    upstream = {POOL: INNER, WRITER: STORE}
    assert not audit_sources(upstream).findings
    finding = only(audit_sources({**upstream, WORKER: USE}, upstream))
    where = finding.hit.where
    assert (where.symbol.path, where.symbol.qualname, where.line) == (WORKER, "checksum", 2)
    assert finding.origin == "introduced"
    assert "Pool.get_raw" in finding.origin_reason
    assert finding.hit.evidence[0].symbol == "Pool.get_raw"


def test_of_several_new_callers_one_is_the_place_and_the_others_are_named() -> None:
    upstream = {POOL: INNER, WRITER: STORE}
    second = "sglang/srt/models/zeta.py"
    fork = {**upstream, WORKER: USE, second: USE.replace("checksum", "norm")}
    finding = only(audit_sources(fork, upstream))
    assert finding.hit.where.symbol.path == WORKER
    assert (second, "norm") in [(e.path, e.symbol) for e in finding.hit.evidence]


def test_a_caller_that_lost_its_wait_answers_for_the_helper_below_it() -> None:
    lost = INNER.replace(
        "    def get_rows(self, i):\n        self.settle(i)\n", "    def get_rows(self, i):\n"
    )
    findings = audit_sources({POOL: lost}, {POOL: INNER}).findings
    at = {f.hit.where.symbol.qualname: f.origin for f in findings}
    assert at["Pool.get_rows"] == "regressed"
    assert "Pool._rows" not in at


BESIDE = """\
from sglang.srt.models.pools import Notes


class Worker:
    def __init__(self, notes: Notes):
        self.notes = notes

    def checksum(self, pool, i):
        return float(pool.get_raw(i).sum()) + self.notes.texts[i].sum()
"""
NOTES = "sglang/srt/models/pools.py"


def test_another_defect_of_the_caller_swallows_nothing() -> None:
    """The new caller reads a second pool's buffer past its getters: two defects, both told."""
    notes = pool(["get_texts", "get_page", "get_head"], name="Notes", buffer="texts")
    upstream = {POOL: INNER, WRITER: STORE, NOTES: notes}
    found = audit_sources({**upstream, WORKER: BESIDE}, upstream).findings
    assert sorted(f.hit.anchor for f in found) == ["rows", "texts"]
    assert {f.hit.where.symbol.qualname for f in found} == {"Worker.checksum"}


def test_a_second_caller_stands_for_itself_where_the_first_has_the_hit() -> None:
    """One caller lost its wait and has a hit on the buffer; a new one has none."""
    calls = INNER.replace("        return self._rows(i)\n", "        return self.get_raw(i)\n")
    lost = calls.replace(
        "    def get_rows(self, i):\n        self.settle(i)\n", "    def get_rows(self, i):\n"
    )
    upstream = {POOL: calls, WRITER: STORE}
    findings = audit_sources({POOL: lost, WRITER: STORE, WORKER: USE}, upstream).findings
    at = {f.hit.where.symbol.qualname: f.origin for f in findings}
    assert at == {"Pool.get_rows": "regressed", "checksum": "introduced"}


USE_ROWS = "def checksum(pool, i):\n    return float(pool.get_rows(i).sum())\n"


def test_a_wait_that_was_lost_below_a_getter_is_not_its_new_callers_fault() -> None:
    """The getter's text is upstream's, the helper of its base class lost the wait."""
    base = BASE.removeprefix("python/")
    upstream = {POOL: TAKEN, base: WAITING}
    findings = audit_sources({POOL: TAKEN, base: IDLE, WORKER: USE_ROWS}, upstream).findings
    told = {f.hit.where.symbol.qualname: f.origin for f in findings}
    assert told == {"Pool.get_rows": "regressed"}  # who reads behind it is told, once


def test_a_caller_that_upstream_has_too_is_not_what_made_the_defect() -> None:
    """The fork made the neighbours of a raw getter wait; who calls it is as it was."""
    calls = {WORKER: USE.replace("get_raw", "get_later")}
    before = without_counter(pool((), (*READERS, "get_later"), armed=False))
    finding = only(audit_sources({POOL: LATER, **calls}, {POOL: before, **calls}))
    where = finding.hit.where.symbol
    assert (where.qualname, finding.origin) == ("Pool.get_later", "introduced")


MIXED = """
    def get_mixed(self, layer_id, pool):
        return float(pool.get_raw(layer_id).sum()) + self.texts[layer_id].sum()
"""


def test_a_sure_defect_of_the_caller_on_another_buffer_swallows_nothing() -> None:
    notes = pool(READERS, name="Notes", buffer="texts", armed=False)
    upstream = {POOL: INNER, WRITER: STORE, NOTES: notes}
    found = audit_sources({**upstream, NOTES: notes + MIXED}, upstream).findings
    assert {f.hit.where.symbol.qualname for f in found} == {"Notes.get_mixed"}
    assert sorted((f.hit.anchor, f.hit.confidence) for f in found) == [
        ("rows", "high"),
        ("texts", "high"),
    ]


def test_a_less_sure_hit_of_the_caller_does_not_stand_for_a_sure_one() -> None:
    """The new caller takes the buffer past the getters as well, of which less is known."""
    upstream = {POOL: INNER, WRITER: STORE}
    both = (
        "from sglang.srt.mem_cache.pool import Pool\n\n\ndef checksum(pool: Pool, i):\n"
        "    return float(pool.get_raw(i).sum()) + pool.rows[i].sum()\n"
    )
    found = audit_sources({**upstream, WORKER: both}, upstream).findings
    assert {f.hit.where.symbol.qualname for f in found} == {"checksum"}
    assert sorted(f.hit.confidence for f in found) == ["high", "medium"]


def test_several_raw_getters_that_a_new_caller_calls_are_one_defect() -> None:
    again = "\n    def get_bare(self, i):\n        return self.rows[i]\n\n\nclass Loader"
    upstream = {
        POOL: INNER.replace("\n\nclass Loader", again),
        WRITER: STORE + STORE.replace("store", "store_bare").replace("get_raw", "get_bare"),
    }
    assert not audit_sources(upstream).findings
    both = USE.replace("return", "return float(pool.get_bare(i).sum()) +")
    finding = only(audit_sources({**upstream, WORKER: both}, upstream))
    assert finding.hit.where.symbol.qualname == "checksum"


def test_a_getter_that_the_fork_wrote_stays_its_own_place() -> None:
    upstream = {POOL: INNER.replace("get_raw", "get_other"), WRITER: STORE}
    fork = {POOL: INNER, WRITER: STORE, WORKER: USE}
    finding = only(audit_sources(fork, upstream))
    assert finding.hit.where.symbol.qualname == "Pool.get_raw"


# -- a wait that was never there -----------------------------------------------------------------


@pytest.mark.parametrize("gated", [True, False])
def test_only_a_wait_that_upstream_made_was_removed(gated: bool) -> None:
    """A lone reader, without siblings: a newer release's wait in it is no wait that was taken."""
    lone = pool((), ["get_rows"])
    waits = pool(["get_rows"])
    report = audit_sources({POOL: lone}, {POOL: waits if gated else lone}, [{POOL: waits}])
    rules = {f.rule for f in report.findings}
    assert ("gate-removed" in rules) == gated
