"""A change that could be taken back word for word is there, whatever became of the rest."""

from __future__ import annotations

import pytest

from auditor.drift.reversible import stands
from tests.drift.histories import BASE, FIXED, OTHER, OTHER_BASE, POOL, READ, History

GUARDED = """\
def drain(queue, limit):
    if queue.ready:
        first = queue.first
        second = queue.second
        third = queue.third
        first.close(second)
        third.close(second)
        limit.release(first)
    else:
        queue.wait()
    return limit
"""
CLOSE = "        first.close(second)\n"
MENDED = GUARDED.replace(CLOSE, f"        first.stop(second)\n{CLOSE}")


def held(old: str, new: str, tree: str) -> bool:
    return stands(old.encode(), new.encode(), tree.encode())


def test_the_file_after_the_change_has_it_and_the_one_before_does_not():
    assert held(BASE, FIXED, FIXED)
    assert not held(BASE, FIXED, BASE)


def test_code_around_it_may_be_any():
    own = MENDED.replace("    if queue.ready:\n", "    if queue.ready and limit:\n")
    assert held(GUARDED, MENDED, f"import os\n\n\n{own}\n\ndef more():\n    pass\n")


def test_the_lines_next_to_it_count():
    assert not held(GUARDED, MENDED, MENDED.replace("third = queue.third", "third = queue.last"))


def test_a_place_that_looks_alike_elsewhere_proves_nothing():
    twice = MENDED + "\n\n" + MENDED.replace("def drain", "def drain_all")
    assert not held(GUARDED, MENDED, twice)
    assert not held(GUARDED + twice, MENDED + twice, MENDED)


def test_what_was_before_may_stand_nowhere():
    again = GUARDED.replace("def drain", "def drain_all").replace("queue.ready", "queue.full")
    assert not held(GUARDED, MENDED, MENDED + "\n\n" + again)


def test_the_same_lines_in_another_function_are_no_proof():
    assert not held(GUARDED, MENDED, MENDED.replace("def drain", "def close_all"))


def test_another_class_name_does_not_matter():
    assert held(BASE, FIXED, FIXED.replace("class Pool", "class RowPool"))


def test_what_only_removes_lines_proves_nothing():
    assert not held(FIXED, BASE, BASE)
    assert not held(
        BASE, BASE.replace(READ, "        # gone\n"), BASE.replace(READ, "        # gone\n")
    )


def test_every_place_must_be_there_and_in_order():
    both = FIXED.replace("        return self.used\n", "        return self.used + 0\n")
    assert held(BASE, both, both)
    assert not held(BASE, both, FIXED)


@pytest.mark.parametrize("text", ["", "\n", "x = 1\n"])
def test_nothing_and_odd_bytes_break_nothing(text):
    assert not held(text, text, text)
    assert held(text, "y = 2\n", "y = 2\n")
    assert stands(b"\xff\n", b"\xff\nx = 1\n", b"\xff\nx = 1\n")


@pytest.mark.parametrize("has_it", [True, False])
def test_under_another_test_of_the_forks_own_the_fix_is_there(tiny_repository, tmp_path, has_it):
    """By symbol nothing can be said: a line is one under its own `if`."""
    line = History(tiny_repository, tmp_path, {POOL: GUARDED})
    own = MENDED if has_it else GUARDED
    line.fork({POOL: own.replace("if queue.ready:", "if queue.ready and limit:")})
    fix = line.fix(line.upstream({POOL: MENDED}))
    assert (fix.state == "present") == has_it
    assert ("word for word" in fix.reason) == has_it


@pytest.mark.parametrize("touched", [True, False])
def test_one_file_that_lacks_its_part_is_enough(tiny_repository, tmp_path, touched):
    line = History(tiny_repository, tmp_path, {POOL: GUARDED, OTHER: OTHER_BASE})
    line.fork(
        {
            POOL: MENDED.replace("if queue.ready:", "if queue.ready and limit:"),
            OTHER: OTHER_BASE.replace("return b", "return -b") if touched else OTHER_BASE,
        }
    )
    fixed = {POOL: MENDED, OTHER: OTHER_BASE.replace("a + 1", "a + 2")}
    assert line.fix(line.upstream(fixed)).state != "present"
