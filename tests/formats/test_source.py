"""Lines of source as a terminal shows them: carets stand under what they mark."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcwidth import wcwidth

from auditor.formats.source import columns_of, draw, rows, spread
from auditor.formats.text import Paint
from auditor.model import Excerpt

TEXT = st.text(
    st.one_of(
        st.sampled_from("ab.[]()=_ \t\t漢字가\uff46\u0301\x1b\x07\x9b\u202e\u200b\x0b😀é"),
        st.characters(exclude_characters="\r\n"),
    ),
    min_size=1,
    max_size=40,
)


def excerpt(*lines: str, column: int = 1, end: int = 0, note: str = "") -> Excerpt:
    """The last line is the marked one."""
    last = 10 + len(lines) - 1
    return Excerpt("read", "fork", "a.py", "f", 10, lines, last, column, end, note)


def cells(text: str) -> list[str]:
    """What stands in each column of a terminal, as one that knows East Asian widths draws it."""
    return [character for character in text for _ in range(wcwidth(character))]


@pytest.mark.parametrize(
    ("line", "marked", "shown"),
    [
        ("    x = self.k[i]", "self.k[i]", "self.k[i]"),
        ("\tx = self.k[i]", "self.k[i]", "self.k[i]"),
        ("\tif a:\tself.k[i]", "self.k[i]", "self.k[i]"),
        ("x = '漢字', self.k[i]", "self.k[i]", "self.k[i]"),
        ("x = 'e\u0301', self.k[i]", "self.k[i]", "self.k[i]"),
        ("x = '\x1b[2J', self.k[i]", "self.k[i]", "self.k[i]"),
        ("x = '\u202e', self.k['漢']", "self.k['漢']", "self.k['漢漢']"),
    ],
)
def test_carets_stand_under_the_marked_text(line: str, marked: str, shown: str) -> None:
    column = line.index(marked) + 1
    [row] = rows(excerpt(line, column=column, end=column + len(marked)), 1000, 1)
    assert row.carets is not None
    start, length = row.carets
    assert "".join(cells(row.text)[start : start + length]) == shown


@given(TEXT, st.integers(0, 39), st.integers(1, 10))
def test_carets_are_where_a_terminal_draws_the_mark(line: str, at: int, size: int) -> None:
    start = min(at, len(line) - 1)
    end = min(start + size, len(line))
    # A letter in front, so that there is no indentation to leave out.
    [row] = rows(excerpt(f"x{line}", column=start + 2, end=end + 2), 1000, 1)
    before, marked = (len(cells(spread(f"x{line[:n]}")[0])) for n in (start, end))
    assert row.carets == (before, max(1, marked - before))
    assert not set(row.text) & set(map(chr, (*range(32), 127, 0x9B, 0x202E)))


@given(st.lists(TEXT, min_size=1, max_size=4), st.integers(1, 60), st.integers(20, 60))
def test_lines_keep_to_the_room(lines: list[str], column: int, room: int) -> None:
    found = rows(excerpt(*lines, column=min(column, len(lines[-1]))), room, 3)
    assert all(columns_of(row.text) <= room for row in found)
    carets = found[-1].carets
    assert carets is not None
    assert carets[0] >= 0
    assert sum(carets) <= room + 1


def test_indentation_that_all_lines_have_is_left_out_and_no_blank_line_comes_first() -> None:
    found = rows(excerpt("        if a:", "            self.k[i]", column=13), 80, 1)
    assert [(row.number, row.text) for row in found] == [(10, "if a:"), (11, "    self.k[i]")]
    found = rows(excerpt('        """', "        self.k[i]", column=9), 80, 1)
    assert [row.text for row in found] == ["self.k[i]"]


def test_a_long_line_is_shown_around_its_mark() -> None:
    line = "x = [" + "0, " * 100 + "self.k[i]" + ", 0" * 100 + "]"
    column = line.index("self") + 1
    [row] = rows(excerpt(line, column=column, end=column + 9), 60, 1)
    assert row.carets is not None
    start, length = row.carets
    assert row.text[start : start + length] == "self.k[i]"
    assert row.text.startswith("…")
    assert row.text.endswith("…")


def test_a_note_stands_beside_the_carets_or_under_them() -> None:
    short = draw(excerpt("self.wait(i)", note="waits"), Paint(False), 40, severity="high", gutter=2)
    assert list(short) == ["  10 | self.wait(i)", "     | ^^^^^^^^^^^^ waits"]
    long = draw(
        excerpt("self.wait(i)", note="waits on a gate of a long name"),
        Paint(False),
        40,
        severity="high",
        gutter=2,
    )
    assert list(long)[1:] == ["     | ^^^^^^^^^^^^", "     | waits on a gate of a long name"]


def test_source_cannot_drive_the_terminal() -> None:
    evil = "x\x1b]0;owned\x07\x9b2J\u202e = self.k[i]"
    lines = list(draw(excerpt(evil, note=evil), Paint(False), 80, severity="high", gutter=2))
    assert not set("".join(lines)) & {"\x1b", "\x07", "\x9b", "\u202e"}
    assert "x\\x1b]0;owned\\x07" in lines[0]


def test_a_tab_leads_to_the_next_stop() -> None:
    assert spread("ab\tc") == ("ab  c", [0, 1, 2, 4, 5])
    assert spread("漢\tc") == ("漢  c", [0, 2, 4, 5])
    assert spread("\t\tc") == ("        c", [0, 4, 8, 9])
