"""The generator of lost edges between streams: what it finds, and what each edit makes of it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.benchmarks.stream_edges import EDITS, Block, find, run, table

FILE = """\
import torch


class Mover:
    def __init__(self):
        self.side = torch.cuda.Stream()

    def one(self, rows, main):
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            return rows.abs()

    def two(self, rows):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            return rows.abs()

    def three(self, rows, ready):
        with torch.cuda.stream(self.side):
            ready.wait(self.side)
            return rows.abs()

    def four(self, rows):
        with torch.cuda.stream(self.side):
            return rows.abs()
"""
PATH = "sglang/srt/layers/mover.py"


def blocks() -> dict[str, Block]:
    return {block.qualname: block for block in find({PATH: FILE.encode()})}


def made(edit: str, qualname: str) -> str | None:
    source = EDITS[edit].of(FILE.encode(), blocks()[qualname], 0)
    return None if source is None else source.decode()


def test_blocks_and_their_edges() -> None:
    found = {name: (block.line, block.edges) for name, block in blocks().items()}
    assert found == {
        "Mover.one": (10, ((9, 9),)),
        "Mover.two": (15, ((14, 14),)),
        "Mover.three": (19, ((20, 20),)),
        "Mover.four": (24, ()),
    }
    assert find({"sglang/srt/test_mover.py": FILE.encode()}) == []


def test_the_edits() -> None:
    edge = "        self.side.wait_stream(main)\n"
    assert made("deleted", "Mover.one") == FILE.replace(edge, "        pass\n")
    helped = made("helper", "Mover.one")
    assert helped is not None
    assert helped.startswith(FILE.replace(edge, "        _arrange_0(main, self)\n"))
    assert helped.endswith("def _arrange_0(main, self):\n    self.side.wait_stream(main)\n")
    first = made("first", "Mover.one")
    assert first is not None
    assert "with torch.cuda.stream(self.side):\n            self.side.wait_stream(main)\n" in first


@pytest.mark.parametrize("qualname", ["Mover.two", "Mover.three"])
def test_an_edge_that_would_mean_another_one_in_the_block_is_not_moved(qualname: str) -> None:
    assert made("first", qualname) is None


@pytest.mark.parametrize("edit", EDITS)
def test_every_edit_is_python(edit: str) -> None:
    for block in blocks().values():
        if len(block.edges) == 1:
            source = EDITS[edit].of(FILE.encode(), block, 3)
            assert source is None or ast.parse(source)


def test_a_run_tells_losses_from_what_is_none(tmp_path: Path) -> None:
    for name, text in ((PATH, FILE), ("sglang/version.py", "__version__ = '0.5.9'\n")):
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    told: list[str] = []
    results = run(tmp_path, list(EDITS), 3, 1, told.append)
    assert told == []
    by_edit = {edit: {d.confidence for d in results if d.edit == edit} for edit in EDITS}
    assert by_edit == {"deleted": {"medium"}, "helper": {""}, "first": {""}}
    assert "reported by default" in table(results)
