"""The known defects of a real release are fixed by the tool, and the result is in order."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path

import pytest

from auditor.cli.main import main
from auditor.rulebook import load
from auditor.runs.audit import run
from auditor.runs.request import AuditRequest
from tests.benchmarks.releases import Unavailable, release

pytestmark = pytest.mark.upstream

POOL = "sglang/srt/mem_cache/memory_pool.py"
CLASS = "NSATokenToKVPool"
ON_GATES = {rule.id for rule in load().rules if rule.check == "sibling-gates"}
"""What is edited; the release has blocks on streams that nothing orders, too."""
GETTERS = ("get_index_k_continuous", "get_index_k_scale_continuous", "get_index_k_scale_buffer")
READ = "        buf = self.index_k_with_scale_buffer"


def _tree(version: str) -> Path:
    try:
        return release(version)
    except Unavailable as problem:
        pytest.skip(f"no released wheel and no network: {problem}")


@pytest.fixture(scope="module")
def old() -> Path:
    return _tree("0.5.9")


@pytest.fixture(scope="module")
def new() -> Path:
    return _tree("0.5.12")


@pytest.fixture
def fork(old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.copytree(old / "sglang", tmp_path / "fork" / "sglang")
    return tmp_path / "fork"


def method(text: str, name: str) -> str:
    """The text of a method of the pool."""
    [pool] = [n for n in ast.parse(text).body if isinstance(n, ast.ClassDef) and n.name == CLASS]
    [node] = [n for n in pool.body if isinstance(n, ast.FunctionDef) and n.name == name]
    return "\n".join(text.splitlines()[node.lineno - 1 : node.end_lineno])


def upstreams_wait(text: str, name: str) -> list[str]:
    """What upstream's later text of a getter has before the read and after the docstring."""
    found = method(text, name)
    before = found[: found.index(READ)]
    return before[before.index("        if self.layer_transfer_counter") :].splitlines()


def expected(old: Path, new: Path) -> str:
    """0.5.9's pool with the waits of 0.5.12, put in by hand."""
    text, later = (old / POOL).read_text(), (new / POOL).read_text()
    for name in GETTERS:
        before = method(text, name)
        wait = "".join(f"{line}\n" for line in upstreams_wait(later, name))
        text = text.replace(before, before.replace(READ, wait + READ, 1))
    return text


def test_the_waits_of_the_text_that_upstream_wrote_are_two_lines_each(new: Path) -> None:
    later = (new / POOL).read_text()
    assert [len(upstreams_wait(later, name)) for name in GETTERS] == [2, 2, 2]


@pytest.mark.parametrize("knows", ["its siblings only", "the release that fixed it"])
def test_the_index_getters_of_0_5_9_become_what_upstream_made_of_them(
    fork: Path, old: Path, new: Path, knows: str
) -> None:
    sides = ["-C", str(fork), "--upstream", str(old)]
    if knows != "its siblings only":
        sides += ["--target", str(new)]
    assert main([*sides, "-q"]) == 1
    # By 0.5.12 other pools wait as well, in methods that 0.5.9 does not have: no edit for those.
    assert main(["fix", *sides, "--unsafe", "--rule", "ungated-buffer-read"]) == 0
    after = (fork / POOL).read_text()
    assert after == expected(old, new)
    later = (new / POOL).read_text()
    for name in GETTERS[:2]:  # the third takes other arguments by 0.5.12
        assert method(after, name) == method(later, name)
    left = run(AuditRequest(root=fork, upstream=str(old))).findings
    assert [finding for finding in left if finding.rule in ON_GATES] == []
    assert main([*sides, "-q"]) == 0


def test_sarif_offers_the_same_edits(fork: Path, old: Path, new: Path, tmp_path: Path) -> None:
    out = tmp_path / "audit.sarif"
    assert main(["-C", str(fork), "--upstream", str(old), "-q", "-o", f"sarif={out}"]) == 1
    lines = (fork / POOL).read_text().splitlines(keepends=True)
    results = json.loads(out.read_text())["runs"][0]["results"]
    results = [result for result in results if result["ruleId"] in ON_GATES]
    assert len(results) == 3
    for result in reversed(results):  # by line: those before are where they were
        [fix] = result["fixes"]
        [change] = fix["artifactChanges"][0]["replacements"]
        place = change["deletedRegion"]
        assert (place["startLine"], 1) == (place["endLine"], place["startColumn"])
        assert place["endColumn"] == 1
        lines.insert(place["startLine"] - 1, change["insertedContent"]["text"])
    assert "".join(lines) == expected(old, new)
