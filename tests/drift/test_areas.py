"""Hotspots: what lies in which area, the fullest first."""

from __future__ import annotations

import pytest

from auditor.drift.areas import area_at
from auditor.repo.snapshot import Snapshot, open_fork
from tests.drift.histories import FIXED, FORKED, POOL, READ, History


@pytest.mark.parametrize(
    ("path", "area"),
    [
        ("python/sglang/srt/mem_cache/pool.py", "srt/mem_cache"),
        ("python/sglang/srt/pool.py", "srt"),
        ("python/sglang/version.py", "."),
        ("deploy/serve.sh", "deploy"),
        ("Makefile", "."),
        ("python/sglang_other/a.py", "python"),
    ],
)
def test_areas_of_a_checkout_are_those_of_the_package(tiny_repository, path, area):
    repository = tiny_repository({"python/sglang/srt/a.py": "x = 1\n"})
    assert area_at(open_fork(repository.top), path) == area


def test_areas_of_an_installed_package():
    fork = Snapshot.from_sources({"sglang/srt/layers/a.py": "x = 1\n"})
    assert area_at(fork, "sglang/srt/layers/a.py") == "srt/layers"


def test_what_meets_in_an_area_counts_there(tiny_repository, tmp_path):
    made = History(tiny_repository, tmp_path)
    fix = made.upstream({POOL: FIXED}, "Fix a read")
    own = made.fork({POOL: FORKED.replace(READ, READ + "        rows = rows + 1\n")}, "own")
    other = made.fork({"deploy/serve.sh": "echo\n"}, "deploy")
    made.fork({POOL: FORKED.replace(READ, "        rows = 1\n")}, "again")
    drift = made.drift()
    first, second = drift.areas
    assert first.area == "srt"
    assert own in first.patches
    assert len(first.patches) == 2
    assert first.fixes == (fix,)
    assert first.both_changed == (POOL,)
    assert first.conflicts == (POOL,)
    assert (second.area, second.patches, second.both_changed) == ("deploy", (other,), ())
