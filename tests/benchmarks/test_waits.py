"""The generator of lost waits: what it finds, and what each edit makes of it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.benchmarks.waits import EDITS, Wait, find, run, table

FILE = """\
import torch


class Copier:
    def store(self, rows, stream):
        self.side.wait_stream(stream)
        with torch.cuda.stream(self.side):
            self.host.copy_(rows, non_blocking=True)
            rows.record_stream(self.side)
        if rows:
            self.done.synchronize()
        self.thread.wait()
        self.work.wait()
        return self.host

    def other(self):
        def inner(handle):
            handle.wait()
            return handle.value()

        return inner


torch.cuda.synchronize()
"""
PATH = "sglang/srt/mem_cache/copier.py"
FOUND = [(6, "Copier.store"), (9, "Copier.store"), (11, "Copier.store"), (13, "Copier.store")]


def waits(text: str = FILE, path: str = PATH) -> list[Wait]:
    return sorted(find({path: text.encode()}), key=lambda wait: wait.line)


def made(edit: str, line: int, text: str = FILE) -> str | None:
    [wait] = [wait for wait in waits(text) if wait.line == line]
    source = EDITS[edit].of(text.encode(), wait, 0)
    return None if source is None else source.decode()


def test_waits_are_statements_of_functions() -> None:
    """Not those of threads, and not what a module does as it is loaded."""
    assert [(w.line, w.qualname) for w in waits()] == [*FOUND, (18, "Copier.other")]


@pytest.mark.parametrize(
    "path", ["sglang/srt/test_x.py", "sglang/multimodal_gen/a.py", "sglang/srt/benchmark/a.py"]
)
def test_what_is_no_part_of_the_server_is_left_out(path: str) -> None:
    assert waits(path=path) == []


def test_the_edits() -> None:
    lines = FILE.split("\n")
    assert made("deleted", 6) == FILE.replace(lines[5], "        pass")
    assert made("flag", 6) == FILE.replace(
        lines[5], "        if self.trace_reads:\n    " + lines[5]
    )
    assert made("flag", 9) == FILE.replace(
        lines[8], "            if self.trace_reads:\n    " + lines[8]
    )
    assert made("device", 6) == FILE.replace(lines[5], "        torch.cuda.synchronize()")
    helped = made("helper", 6)
    assert helped is not None
    assert helped.startswith(FILE.replace(lines[5], "        _settle_side_0(self, stream)"))
    assert helped.endswith("def _settle_side_0(self, stream):\n    self.side.wait_stream(stream)\n")


def test_a_wait_is_late_behind_work_and_nothing_else() -> None:
    assert made("late", 9) is None  # nothing behind it, and it only keeps memory alive
    assert made("late", 13) is None  # a return calls nothing
    text = FILE.replace("        if rows:\n", "        self.launch(rows)\n        if rows:\n")
    work = text.replace(
        "        self.work.wait()\n        return",
        "        self.work.wait()\n        self.go()\n        return",
    )
    late = made("late", 14, work)
    assert late is not None
    assert "        self.go()\n        self.work.wait()\n" in late


@pytest.mark.parametrize("edit", EDITS)
def test_every_edit_is_python_and_leaves_the_rest(edit: str) -> None:
    for wait in waits():
        source = EDITS[edit].of(FILE.encode(), wait, 3)
        if source is not None:
            ast.parse(source)
            assert b"return self.host" in source


def test_a_run_tells_losses_from_what_is_none(tmp_path: Path) -> None:
    """Whatever is reported: the sums are right, and both kinds of edit were tried."""
    for name, text in ((PATH, FILE), ("sglang/version.py", "__version__ = '0.5.9'\n")):
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    told: list[str] = []
    results = run(tmp_path, ["deleted", "helper"], 2, 1, told.append)
    assert [done.edit for done in results] == ["deleted", "helper"] * 2
    assert len(told) == sum(done.wrong for done in results)
    shown = table(results)
    assert "deleted" in shown
    assert "false alarms" in shown
