"""The measuring programs over many releases and many heads, on small histories."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from conftest import TinyRepository
from scenarios.pools import POOL, READERS, pool

from tests.benchmarks import heads
from tests.benchmarks.history import ends, there
from tests.benchmarks.score import Row

PATH = f"python/{POOL}"
SOUND = pool()
BROKEN = pool(READERS[1:], READERS[:1])
INNER = """\
class Cells:
    def __init__(self, pool):
        self.pool = pool
        self.cells = [0]

    def get(self, layer_id):
        if self.pool.counter is not None:
            self.pool.counter.wait_until(layer_id)
        return self.cells[layer_id]
"""


def record(name: str, path: str, appeared: str, last: str, ended: str | None) -> dict[str, Any]:
    said = {"rule": "r", "cause": "", "message": "", "fingerprint": name}
    spans = {"appeared": appeared, "last": last, "ended": ended}
    return {**said, **spans, "symbol": name, "path": path, "line": 90, "names": []}


def document(*records: dict[str, Any]) -> dict[str, Any]:
    return {"releases": [{"ref": ref} for ref in ("a", "b", "c")], "findings": list(records)}


def test_a_finding_is_there_from_its_first_release_to_its_last() -> None:
    found = document(
        record("P.x", POOL, "a", "b", "c"),
        record("P.y", POOL, "b", "b", "c"),
        record("P.z", POOL, "c", "c", None),
    )
    names = {ref: [one.symbol for one in there(found, ref, [])] for ref in ("a", "b", "c")}
    assert names == {"a": ["P.x"], "b": ["P.x", "P.y"], "c": ["P.z"]}


def test_a_finding_counts_under_the_name_that_the_truth_knows() -> None:
    now = record("New.get", "python/sglang/srt/new.py", "a", "c", None)
    now["names"] = [{"symbol": "Old.get", "path": "python/sglang/srt/old.py"}]
    row = Row("1", "sglang/srt/old.py", "Old", "get", 1, 2, "report", "x", "R")
    [found] = there(document(now), "a", [row])
    assert row.matches(found)
    assert there(document(now), "a", [])[0].symbol == "New.get"


def test_known_ends_are_held_against_what_is_reported() -> None:
    name = "NSATokenToKVPool.get_index_k_continuous"
    found = document(record(name, POOL, "a", "a", "b"))
    reported = {method: (end, told) for method, end, told in ends(found, ["1", "0.5.11", "2"])}
    assert reported[name] == ("0.5.11", "0.5.11")
    assert set(reported.values()) == {("0.5.11", "0.5.11"), ("0.5.11", "not found")}
    assert ends(found, ["0.5.11", "1", "2"]) == []


def test_each_head_is_told_by_the_state_of_its_symbols(
    tiny_repository: Callable[..., TinyRepository], capsys: pytest.CaptureFixture[str]
) -> None:
    repository = tiny_repository({PATH: BROKEN, "python/sglang/version.py": ""})
    repository.git("branch", "lacking")
    repository.git("branch", "lacking-too")
    fix = repository.commit({PATH: SOUND}, "wait (#7)")

    def head(name: str, text: str, more: dict[str, str] | None = None) -> None:
        repository.git("switch", "--quiet", "--create", name, "v0.5.9")
        repository.commit({PATH: text, **(more or {})}, name)

    head("adapted", SOUND.replace("if self.counter is not None:", "if self.counter:"))
    head("lacking-with-more", f"# ours\n{BROKEN}")
    head("renamed-class", pool(name="RowPool"))
    head("renamed-class-lacking", pool(READERS[1:], READERS[:1], name="RowPool"))
    head("no-such-method", pool(READERS[1:]))
    head("elsewhere", "", {"python/sglang/srt/rows.py": SOUND})
    getter = (
        "    def get_rows(self, layer_id, slots=None):\n        return self.inner.get(layer_id)\n"
    )
    delegating = (
        "from sglang.srt.inner import Cells\n\n\nclass Pool:\n    def __init__(self):\n"
        "        self.counter = None\n        self.inner = Cells(self)\n\n" + getter
    )
    head("delegating", delegating, {"python/sglang/srt/inner.py": INNER})
    repository.git("switch", "--quiet", "--orphan", "nothing")
    repository.commit({"README": ""}, "nothing")

    heads.main([str(repository.top), fix])
    page = capsys.readouterr().out
    assert "Pool.get_rows on rows" in page
    assert "11 heads at 10 commits" in page
    told = {
        name: (state, owner)
        for state, name, owner in re.findall(
            r"^  (\w+)  \w{10}  refs/heads/(\S+)  (\S+)$", page, re.MULTILINE
        )
    }
    assert told == {
        "lacking": ("affected", "Pool"),
        "lacking-too": ("affected", "Pool"),
        "lacking-with-more": ("affected", "Pool"),
        "renamed-class-lacking": ("affected", "RowPool"),
    }
    counts = {
        (state, owner): int(number)
        for state, owner, number in re.findall(
            r"^(affected|fixed|not applicable|undecided) +([A-Z]\w*|) .* (\d+)$", page, re.MULTILINE
        )
    }
    assert counts == {
        ("affected", "Pool"): 3,
        ("affected", "RowPool"): 1,
        ("fixed", "Pool"): 4,
        ("fixed", "RowPool"): 1,
        ("not applicable", ""): 2,
    }


def test_a_commit_that_ends_nothing_asks_nothing(
    tiny_repository: Callable[..., TinyRepository],
) -> None:
    repository = tiny_repository({PATH: SOUND})
    sha = repository.commit({PATH: f"# more\n{SOUND}"})
    with pytest.raises(SystemExit, match="ends no finding"):
        heads.main([str(repository.top), sha])
