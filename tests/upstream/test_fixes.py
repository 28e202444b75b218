"""The known defects of a real release are fixed by the tool, and the result is in order."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from auditor.pipeline import AuditRequest, run
from auditor.repair import repair
from tests.benchmarks.releases import Unavailable, release

pytestmark = pytest.mark.upstream

POOL = "sglang/srt/mem_cache/memory_pool.py"
GETTERS = ("get_index_k_continuous", "get_index_k_scale_continuous", "get_index_k_scale_buffer")
WAIT = (
    "        if self.layer_transfer_counter is not None:\n"
    "            self.layer_transfer_counter.wait_until(layer_id - self.start_layer)\n"
)


@pytest.fixture(scope="module")
def tree() -> Path:
    try:
        return release("0.5.9")
    except Unavailable as problem:
        pytest.skip(f"no released wheel and no network: {problem}")


def test_the_index_getters_of_0_5_9_get_the_wait_of_their_sibling(
    tree: Path, tmp_path: Path
) -> None:
    fork = tmp_path / "fork"
    shutil.copytree(tree / "sglang", fork / "sglang")
    before = (fork / POOL).read_text()
    done = repair(AuditRequest(root=fork, upstream=str(tree), cache=tmp_path / "c"), unsafe=True)
    assert {
        f.finding.hit.where.symbol.qualname.rpartition(".")[2]: f.state for f in done.fixes
    } == (dict.fromkeys(GETTERS, "made"))
    after = (fork / POOL).read_text()
    for name in GETTERS:
        text = after[after.index(f"    def {name}(") :]
        body = text[: text.index("\n    def ", 1)]
        assert body.count(WAIT) == 1
        assert body.index(WAIT) < body.index("buf = self.index_k_with_scale_buffer")
    # What was put in is three times the sibling's two lines, and nothing else changed.
    assert sorted(after.splitlines()) == sorted([*before.splitlines(), *WAIT.splitlines() * 3])
    report = run(AuditRequest(root=fork, upstream=str(tree), cache=tmp_path / "c"))
    assert report.findings == ()
