"""Source lines side by side: what is marked is what differs, and the place is always there."""

from __future__ import annotations

import random

import pytest

from auditor.formats.columns import ROWS, columns
from auditor.model import Excerpt

from .incidents import EXCERPTS, excerpt

WORDS = ("wait(layer)", "read(layer)", "return a[layer]", "if a:", "x = f(a, b)", "x = f(a, c)")


def text_of(row, kinds=("", "place", "word")):
    return "".join(piece.text for piece in row.pieces if piece.kind in kinds)


def held_against(mine, theirs):
    return columns([excerpt("read", mine, 0, 1), excerpt("upstream", theirs, 0, 1)])


@pytest.mark.parametrize("seed", range(200))
def test_what_is_not_marked_is_the_same_on_both_sides(seed):
    chance = random.Random(seed)
    sides = ["\n".join(chance.choices(WORDS, k=chance.randint(1, 10))) for _ in range(2)]
    ours, theirs = held_against(*sides)
    kept = [[text_of(row) for row in column.rows if not row.sign] for column in (ours, theirs)]
    assert kept[0] == kept[1]
    for column, text, sign in ((ours, sides[0], "+"), (theirs, sides[1], "-")):
        assert [text_of(row) for row in column.rows] == text.split("\n")
        assert {row.sign for row in column.rows} <= {"", sign}
    if sides[0] == sides[1]:
        assert not [row for row in ours.rows if row.sign]


def test_within_a_changed_line_the_words_that_differ_are_marked():
    ours, _, theirs = columns(EXCERPTS)
    [changed] = [row for row in ours.rows if row.sign]
    [lost, other] = [row for row in theirs.rows if row.sign]
    assert text_of(changed, ("word",)) == "128"
    assert text_of(other, ("word",)) == "64"
    assert text_of(lost, ("place",)) == "self._wait_for_layer(layer_id)"


def test_lines_that_have_little_in_common_are_marked_as_a_whole():
    ours, theirs = held_against("def f():\na = 1", "def f():\nreturn self.other(b)")
    assert [row.sign for row in (*ours.rows, *theirs.rows)] == ["", "+", "", "-"]
    assert text_of(ours.rows[1], ("word",)) == ""


def test_the_place_is_marked_where_the_margin_is_gone():
    [column] = columns([excerpt("read", "    def f(self):\n        return self.a[0]", 1, 16, 25)])
    assert [text_of(row) for row in column.rows] == ["def f(self):", "    return self.a[0]"]
    assert [row.number for row in column.rows] == [1810, 1811]
    assert [row.marked for row in column.rows] == [False, True]
    assert text_of(column.rows[1], ("place",)) == "self.a[0]"


@pytest.mark.parametrize("role", ROWS)
@pytest.mark.parametrize("at", range(59))
def test_of_a_long_function_some_lines_are_shown_and_the_others_counted(role, at):
    text = "\n".join(f"line {n}" for n in range(59))
    [column] = columns([excerpt(role, text, at, 1)])
    shown = [row for row in column.rows if not row.left_out]
    assert ROWS[role] <= len(shown) <= ROWS[role] + 2
    assert shown[0].number == 1810
    assert [row.number for row in shown if row.marked] == [1810 + at]
    assert len(shown) + sum(row.left_out for row in column.rows) == 59
    assert all(row.left_out != 1 for row in column.rows)
    numbers = {row.number for row in shown}
    assert {max(1810, 1810 + at - 1), min(1868, 1810 + at + 1)} <= numbers


def test_where_the_excerpt_begins_within_a_function_its_first_line_says_nothing():
    text = "\n".join(f"line {n}" for n in range(60))
    [column] = columns([excerpt("read", text, 40, 1)])
    assert column.rows[0].left_out > 30


def test_of_a_long_function_what_differs_is_shown_before_what_is_near():
    lines = [f"line {n}" for n in range(50)]
    other = [*lines[:40], "self.wait()", *lines[40:]]
    ours, theirs = columns(
        [excerpt("read", "\n".join(lines), 5, 1), excerpt("upstream", "\n".join(other), 5, 1)]
    )
    assert not [row for row in ours.rows if row.sign]
    assert "self.wait()" in [text_of(row) for row in theirs.rows if row.sign == "-"]


def test_where_only_the_cut_differs_nothing_is_marked():
    whole = [f"line {n}" for n in range(80)]
    ours, theirs = held_against("\n".join(whole[5:65]), "\n".join(whole[20:80]))
    assert not [row for row in (*ours.rows, *theirs.rows) if row.sign]
    short, more = held_against("\n".join(whole[5:15]), "\n".join(whole[5:20]))
    assert not [row for row in short.rows if row.sign]
    assert [row.sign for row in more.rows if row.sign]


@pytest.mark.parametrize("column", [1, 150, 199, 1000, 4990])
def test_a_long_line_is_cut_around_the_place(column):
    line = "a" * (column - 1) + "place" + "b" * 5000
    [found] = columns([excerpt("read", line, 0, column, column + 5)])
    [row] = found.rows
    assert len(text_of(row)) < 210
    assert text_of(row, ("place",))[:5] == "place"[: 201 - column if 195 < column <= 200 else 5]


def test_controls_are_shown_and_the_place_stays_where_it_was():
    line = "\x1b\x1b\u202e<b>read()"
    [found] = columns([excerpt("read", line, 0, 7, 13, path="a\x07.py", symbol="f\x00")])
    assert text_of(found.rows[0]) == "\\x1b\\x1b\\u202e<b>read()"
    assert text_of(found.rows[0], ("place",)) == "read()"
    assert (found.path, found.symbol) == ("a\\x07.py", "f\\x00")


@pytest.mark.parametrize("line", [-5, 99])
def test_a_place_outside_of_the_lines_marks_nothing(line):
    [found] = columns([excerpt("read", "a\nb", line, 1)])
    assert not [row for row in found.rows if row.marked]
    assert [row.number for row in found.rows] == [1810, 1811]


def test_no_lines_are_no_rows():
    empty = Excerpt("read", "fork", "a.py", "", 1, (), 1, 1, 0)
    assert columns([empty])[0].rows == ()
    assert columns([]) == []
