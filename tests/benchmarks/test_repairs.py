"""The program that takes repairs back finds them by what functions gained."""

from __future__ import annotations

from collections.abc import Callable

from tests.benchmarks import repairs
from tests.conftest import TinyRepository

PATH = "python/sglang/srt/writer.py"
BEFORE = "class Writer:\n    def rows(self, slots):\n        return self.pages[slots]\n"
WAITING = BEFORE.replace("        return", "        self.done.synchronize()\n        return")
GROWN = BEFORE + "\n" + WAITING.split("\n", 1)[1].replace("rows", "both")


def test_a_commit_that_adds_a_wait_and_little_else_is_a_repair(
    tiny_repository: Callable[..., TinyRepository],
) -> None:
    repository = tiny_repository({PATH: BEFORE})
    repository.commit({PATH: GROWN}, "a new function that waits is none")
    repository.commit({PATH: GROWN.replace(BEFORE, WAITING)}, "wait for the copy")
    [repair] = repairs.repairs(str(repository.top), "HEAD", "2000-01-01")
    assert repair.subject == "wait for the copy"
    assert repair.gained == {("sglang/srt/writer.py", "Writer.rows")}
    assert repairs.told(repair) == [("sglang/srt/writer.py", "Writer.rows")]
