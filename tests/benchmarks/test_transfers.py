"""The generator of lost completion waits: what it finds, and what each edit makes of it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.benchmarks.transfers import EDITS, Method, find, run, table

POOL = """

class {name}Pool(Pool):
    def push_out(self, slots):
        for layer in range(self.layers):
            self.staging[layer].copy_(self.rows[layer][slots], non_blocking=True)
        torch.cuda.synchronize()
        return self.staging
"""
FILE = "import torch\n\n\nclass Pool:\n    def push_out(self, slots):\n        pass\n" + "".join(
    POOL.format(name=name) for name in ("Wide", "Tall", "Flat")
)
PATH = "sglang/srt/mem_cache/pools.py"


def methods() -> dict[str, Method]:
    return {method.qualname: method for method in find({PATH: FILE.encode()})}


def made(edit: str) -> str:
    source = EDITS[edit].of(FILE.encode(), methods()["WidePool.push_out"], 0)
    assert source is not None
    return source.decode().split("class TallPool")[0].split("class WidePool")[1]


def test_methods_and_their_waits() -> None:
    found = {name: (one.line, one.starts, one.waits) for name, one in methods().items()}
    assert found == {
        "WidePool.push_out": (10, 12, ((13, 13),)),
        "TallPool.push_out": (18, 20, ((21, 21),)),
        "FlatPool.push_out": (26, 28, ((29, 29),)),
    }
    assert {one.siblings for one in methods().values()} == {2}
    assert find({"sglang/srt/test_pools.py": FILE.encode()}) == []
    alone = FILE.replace("non_blocking=True", "").replace("copy_", "set_", 2)
    assert find({PATH: alone.encode()}) == []


@pytest.mark.parametrize(
    ("edit", "text"),
    [
        ("deleted", "        pass\n        return"),
        ("flagged", "        if self._careful_0:\n            torch.cuda.synchronize()\n"),
        ("left", "        if self._hasty_0:\n            return None\n        torch.cuda"),
        ("early", "slots):\n        torch.cuda.synchronize()\n        for layer"),
        ("helper", "        _settle_0_0()\n        return"),
        ("recorded", "        self._done_0.record()\n        return"),
    ],
)
def test_the_edits(edit: str, text: str) -> None:
    assert text in made(edit)


@pytest.mark.parametrize("edit", EDITS)
def test_every_edit_is_python(edit: str) -> None:
    for method in methods().values():
        source = EDITS[edit].of(FILE.encode(), method, 3)
        assert source is not None and ast.parse(source)


def test_a_run_tells_losses_from_what_is_none(tmp_path: Path) -> None:
    for name, text in ((PATH, FILE), ("sglang/version.py", "__version__ = '0.5.9'\n")):
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    told: list[str] = []
    results = run(tmp_path, list(EDITS), 2, told.append)
    assert told == []
    by_edit = {edit: {d.confidence for d in results if d.edit == edit} for edit in EDITS}
    silent = {"helper", "recorded"}
    assert by_edit == {edit: {"" if edit in silent else "medium"} for edit in EDITS}
    assert "reported by default" in table(results)
