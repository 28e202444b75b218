"""The measuring programs of lost waits, blame and reach, on a small pool and a small history."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import TinyRepository

from tests.benchmarks import blame, reach, robbed
from tests.benchmarks.audits import Found
from tests.benchmarks.gated import GatedReader, find_gates
from tests.benchmarks.mutants import Unfit, mutate

PATH = "sglang/srt/pool.py"
POOL = b"""\
class Pool:
    def __init__(self, counter):
        self.counter = counter
        self.rows = [object()]
        self.layer_num = 1

    def _pause_for(self, layer_id):
        if self.counter is not None:
            self.counter.wait_until(layer_id)

    def get_row(self, layer_id):
        self._pause_for(layer_id - self.first)
        return self.rows[layer_id]

    def get_view(self, layer_id):
        if self.counter is not None:
            self.counter.wait_until(layer_id)
        return self.rows[layer_id].view(), 1

    def get_both(self, layer_id):
        self._pause_for(layer_id)
        first = self.rows[layer_id]
        self._pause_for(layer_id + 1)
        return first, self.rows[layer_id + 1]

    def drain(self, layer_id):
        self._pause_for(layer_id)
        copy(self.rows[layer_id])

    def _get_hidden(self, layer_id):
        self._pause_for(layer_id)
        return self.rows[layer_id]


class Narrow(Pool):
    def get_part(self, layer_id):
        self._pause_for(layer_id)
        return self.rows[layer_id]
"""
FILES = {PATH: POOL}


def edited(qualname: str, key: str) -> str:
    return mutate(POOL, qualname, key, find_gates(FILES).names, 0)[0].decode()


def getter(name: str) -> GatedReader:
    [reader] = [r for r in robbed.getters(FILES, find_gates(FILES)) if r.qualname == name]
    return reader


def test_getters_are_public_named_for_reading_and_wait_once() -> None:
    names = [r.qualname for r in robbed.getters(FILES, find_gates(FILES))]
    assert names == ["Pool.get_row", "Pool.get_view", "Narrow.get_part"]


def test_the_test_around_a_gate_can_be_all_that_is_left() -> None:
    assert (
        "        if self.counter is not None:\n            pass\n        return self.rows"
    ) in edited("Pool.get_view", "M6")
    with pytest.raises(Unfit):
        edited("Pool.get_row", "M6")


def test_a_constant_of_the_layer_stands_beside_the_read() -> None:
    changed = edited("Pool.get_row", "M7")
    assert (
        "    def get_row(self, layer_id):\n"
        "        return self.rows[layer_id] * self.calib[layer_id - self.first]\n"
    ) in changed
    made = "        self.calib = [torch.ones(1) for _ in range(self.layer_num)]\n"
    assert f"        self.layer_num = 1\n{made}" in changed
    assert "return self.rows[layer_id].view() * self.calib[layer_id], 1" in edited(
        "Pool.get_view", "M7"
    )


def test_a_class_without_an_initializer_gets_one_for_its_constant() -> None:
    changed = edited("Narrow.get_part", "M7")
    assert (
        "    def __init__(self, *args, **kwargs):\n"
        "        super().__init__(*args, **kwargs)\n"
        "        self.calib = "
    ) in changed.partition("class Narrow")[2]


def test_a_scale_is_optional() -> None:
    changed = edited("Pool.get_row", "M8")
    assert (
        "        if self.calib is not None:\n"
        "            return self.rows[layer_id] * self.calib[layer_id - self.first]\n"
        "        return self.rows[layer_id]\n"
    ) in changed
    assert "        self.calib = None\n        if self.layer_num > 1:\n" in changed


def finding(**changes: Any) -> dict[str, Any]:
    whole = {
        "rule": "ungated-buffer-read",
        "category": "sync",
        "severity": "high",
        "confidence": "medium",
        "origin": "regressed",
        "origin_reason": "",
        "since_base": "",
        "reach": "live",
        "reach_reason": "",
        "cause": "",
        "path": f"python/{PATH}",
        "line": 12,
        "symbol": "Pool.get_row",
        "message": "",
        "evidence": [],
        "fingerprint": "f",
        "disposition": "active",
    }
    return {**whole, **changes}


@pytest.mark.parametrize(
    ("changes", "short"),
    [
        ({}, ()),
        ({"severity": "medium"}, ("medium", "status 0")),
        ({"origin": "introduced"}, ("introduced",)),
        ({"confidence": "low"}, ("no finding",)),
        ({"symbol": "Pool.get_view"}, ("no finding",)),
        ({"disposition": "suppressed"}, ("no finding",)),
    ],
)
def test_what_a_robbed_getter_must_be_told(changes: dict[str, Any], short: tuple[str, ...]) -> None:
    robbery = robbed.Robbery("t", "M1", (getter("Pool.get_row"),), (0,))
    [told] = robbed.judge(robbery, [], {"findings": [finding(**changes)]})
    assert told.short == short


def test_what_the_release_has_itself_does_not_count() -> None:
    robbery = robbed.Robbery("t", "M1", (getter("Pool.get_row"),), (0,))
    inherited = {"findings": [finding(origin="inherited", symbol="Pool.get_view")]}
    [told] = robbed.judge(robbery, [], inherited)
    assert (told.status, told.short) == (0, ("no finding",))
    known = Found("r", PATH, 12, "Pool.get_row", "", "regressed", "", "f", frozenset())
    [told] = robbed.judge(robbery, [known], {"findings": [finding()]})
    assert told.found is None


def test_robberies_together_are_of_one_class_or_the_main_getters_of_two() -> None:
    reader = getter("Pool.get_row")
    many = [
        replace(reader, qualname=f"{owner}.{name}")
        for owner in ("A", "B")
        for name in (*robbed.MAIN, "get_a", "get_b", "get_c", "get_d")
    ]
    titles = [r.title for r in robbed.combinations(many, ["M1"], 0)]
    assert titles == [
        "two of A",
        "six of A",
        "all 7 of A",
        "two of B",
        "six of B",
        "all 7 of B",
        "six main of A and B",
    ]


OURS = "class Pool:\n    def get(self, i):\n        return self.rows[i]\n"
NEWER = "class Pool:\n    def get(self, i):\n        # faster\n        return  self.rows[i + 0]\n"
FORK = "class Pool:\n    def get(self, i):\n        return self.rows[i] * 2\n"


@pytest.fixture
def history(tiny_repository: Callable[..., TinyRepository]) -> TinyRepository:
    """A fork of v0.5.9 that takes upstream's newer text, then changes it."""
    repository = tiny_repository({f"python/{PATH}": OURS})
    repository.git("checkout", "-q", "-b", "theirs")
    repository.commit({f"python/{PATH}": NEWER}, "Read faster (#2000)")
    repository.git("checkout", "-q", "-b", "fork", "v0.5.9")
    repository.commit({f"python/{PATH}": NEWER.replace("+ 0", "+ 0 ")}, "take it (#7)")
    return repository


def judged(repository: TinyRepository, lines: list[str]) -> blame.Judgement:
    git = blame.Git(repository.top)
    upstream = blame.Upstream(git, ["v0.5.9"], lines, {})
    source = git("show", f"fork:python/{PATH}")
    about = finding(symbol="Pool.get", line=3)
    return blame.judge(upstream, blame.Place("fork", about, source, upstream.versions("fork")))


def test_the_same_text_in_an_upstream_version_is_upstreams(history: TinyRepository) -> None:
    assert judged(history, ["theirs"]) == blame.Judgement("upstream", "the same text in theirs")
    assert judged(history, []).whose == "fork"


def test_commits_of_upstream_make_a_text_upstreams(history: TinyRepository) -> None:
    """A cherry-pick keeps the subject; a newer number than upstream's last fits its numbering."""
    history.git("checkout", "-q", "-B", "fork", "v0.5.9")
    history.commit({f"python/{PATH}": FORK}, "Read faster (#2000)")
    assert judged(history, ["theirs"]).whose == "upstream"
    history.git("commit", "-q", "--amend", "-m", "Read twice (#2345)")
    assert judged(history, ["theirs"]).whose == "upstream"
    history.git("commit", "-q", "--amend", "-m", "Read twice (#345)")
    assert judged(history, ["theirs"]).whose == "fork"


def rows(history: TinyRepository, about: dict[str, Any], nothing_own: bool = False) -> list[str]:
    git = blame.Git(history.top)
    upstream = blame.Upstream(git, ["v0.5.9"], ["theirs"], {})
    found = blame.rows_of(
        upstream,
        "fork",
        {"findings": [about]},
        lambda path: git("show", f"fork:{path}"),
        nothing_own=nothing_own,
    )
    return [row.verdict for row in found]


def test_blame_and_excuse_are_held_against_the_judge(history: TinyRepository) -> None:
    about = finding(symbol="Pool.get", line=3, origin="introduced")
    assert rows(history, about) == ["wrongly blamed"]
    assert rows(history, {**about, "since_base": "v0.5.9"}) == []
    assert rows(history, {**about, "origin": "inherited"}) == []
    history.commit({f"python/{PATH}": FORK}, "our own")
    assert rows(history, about) == ["blamed"]
    assert rows(history, about, nothing_own=True) == ["wrongly blamed"]
    excused = {**about, "origin": "inherited"}
    assert rows(history, excused) == ["excused?"]
    assert rows(history, {**excused, "since_base": "v0.5.9"}) == ["excused?"]


def test_a_line_of_a_script_is_upstreams_where_upstream_has_it(history: TinyRepository) -> None:
    path = "serve.sh"
    history.git("checkout", "-q", "theirs")
    history.commit({path: "run  --tp 2\n"})
    history.git("checkout", "-q", "fork")
    history.commit({path: "run --tp 2\nrun --tp 3\n"})
    about = finding(path=path, symbol="", line=1, origin="introduced", category="serve")
    assert rows(history, about) == ["wrongly blamed"]
    assert rows(history, {**about, "line": 2}) == ["blamed"]


def test_the_truth_says_which_words_are_right() -> None:
    entry = {"symbol": "Pool.get_row", "path": PATH, "rule": "ungated-buffer-read"}
    assert blame.told(entry, {"findings": []}) == "none"
    assert blame.told(entry, {"findings": [finding()]}) == "regressed"
    assert blame.told(entry, {"findings": [finding(since_base="v1")]}) == "since-base"
    two = [finding(rule="q", origin="introduced"), finding()]
    assert blame.told(entry, {"findings": two}) == "regressed"


def test_reach_is_right_too_low_or_too_high(tmp_path: Path) -> None:
    read = {"version": "1", "path": PATH, "symbol": "Pool.get_row", "why": "w", "at": "a:1"}
    triaged = {"version": "1", "file": PATH, "class": "", "method": "f", "reason": ""}
    (tmp_path / "reach_truth.jsonl").write_text(json.dumps({**read, "reach": "live"}))
    (tmp_path / "gates_triage.jsonl").write_text(json.dumps({**triaged, "severity": "latent"}))
    known = reach.truth(tmp_path)
    assert {place[2]: one.reach for place, one in known.items()} == {
        "Pool.get_row": "live",
        "f": "latent",
    }
    found = Found("r", PATH, 2, "f", "", "inherited", "", "f", frozenset(), reach="latent")
    live, latent = reach.Known("live", ""), reach.Known("latent", "")
    assert reach.verdict(found, live) == "too low"
    assert reach.verdict(found, latent) == "right"
    assert reach.verdict(replace(found, reach="unknown"), latent) == "too high"
    assert reach.verdict(found, reach.Known("either", "")) == "right"
    assert reach.verdict(found, None) == "not read"
