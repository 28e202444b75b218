"""Columns of a terminal: what takes two or none is measured as that."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcwidth import wcswidth

from auditor.formats import text
from auditor.formats.table import render
from auditor.formats.text import (
    Paint,
    Screen,
    clip,
    columns_of,
    fold,
    head_of,
    short_path,
    wrap,
    wrap_phrases,
)
from auditor.formats.verdict import decide
from auditor.model import Checked, Report

from .sample import finding, full_report, report

WIDE = "漢字仮名"  # eight columns
JOINED = "e\u0301" * 4  # four columns
TEXT = st.text(st.sampled_from("abc ./_漢字が\uff46\u0301e☁\ufe0f😀·—"), max_size=60)


def page(value: Report, width: int, **screen: bool) -> list[str]:
    return render(value, decide(value, "high", False), Screen(width, **screen)).splitlines()


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("", 0),
        ("plain", 5),
        (WIDE, 8),
        (JOINED, 4),
        ("größe · …", 9),
        (Paint(True).bad("plain"), 5),
        (Paint(True).bad(WIDE), 8),
        (f"\x1b[1;31m{JOINED}\x1b[0m and \x1b[2mmore\x1b[0m", 13),
        ("a\x07漢", 3),
    ],
)
def test_a_text_takes_as_many_columns_as_a_terminal_gives_it(text: str, columns: int) -> None:
    assert columns_of(text) == columns


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=200))
def test_plain_text_is_wrapped_as_ever(text: str) -> None:
    for first, rest in (("", None), ("  fix  ", None), ("- ", "    ")):
        assert wrap(text, 40, first, rest) == (
            textwrap.wrap(
                text,
                40,
                initial_indent=first,
                subsequent_indent=" " * len(first) if rest is None else rest,
                break_long_words=False,
                break_on_hyphens=False,
            )
            or [first.rstrip()]
        )


@given(TEXT, st.integers(10, 40))
def test_lines_are_filled_by_columns(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert " ".join(" ".join(lines).split()) == " ".join(text.split())
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        assert wcswidth(line) <= width or " " not in line
        # What comes next had no room.
        assert not after or wcswidth(f"{line} {after.split()[0]}") > width


def test_phrases_and_what_hangs_are_measured_too() -> None:
    assert wrap_phrases(f"{WIDE} · {WIDE}", 19) == [f"{WIDE} · {WIDE}"]
    assert wrap_phrases(f"{WIDE} · {WIDE}", 18) == [f"{WIDE} ·", WIDE]
    assert wrap("a a", 11, WIDE + "  ") == [f"{WIDE}  a", " " * 10 + "a"]


@given(TEXT, st.integers(2, 30))
def test_what_is_cut_keeps_to_its_columns(text: str, most: int) -> None:
    assert text.startswith(head_of(text, most))
    assert columns_of(head_of(text, most)) <= most
    assert columns_of(clip(text, most)) <= most
    assert clip(text, columns_of(text)) == text
    pieces = fold(text, most)
    assert "".join(pieces) == text
    assert all(columns_of(piece) <= most for piece in pieces)


def test_a_name_is_folded_behind_a_sign_that_is_near() -> None:
    assert fold("Pool.get_key_buffer", 12) == ["Pool.get_", "key_buffer"]
    assert fold("a.bcdefghijklmnop", 10) == ["a.bcdefghi", "jklmnop"]
    assert fold("settings of sglang.launch_server", 26) == ["settings of ", "sglang.launch_server"]
    assert fold(WIDE * 2, 7) == ["漢字仮", "名漢字", "仮名"]


@pytest.mark.parametrize("name", ["a_b." * 2000, WIDE * 2000, "e\u0301" * 4000, "\u0301" * 9000])
def test_a_name_as_long_as_its_file_is_looked_at_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hostile tree names its classes as it likes; folding must not read the rest at each step."""
    looked: list[int] = []
    for function in ("head_of", "columns_of"):
        original = getattr(text, function)

        def counted(given: str, *most: int, original: Callable[..., object] = original) -> object:
            looked.append(len(given))
            return original(given, *most)

        monkeypatch.setattr(text, function, counted)
    assert "".join(fold(name, 30)) == name
    assert sum(looked) < 40 * len(name)


def test_a_path_is_shortened_by_columns() -> None:
    path = f"python/{WIDE}/{WIDE}/a.py"
    assert short_path(path, columns_of(path)) == path
    assert short_path(path, columns_of(path) - 1) == f"python/…/{WIDE}/a.py"


def test_columns_of_a_table_stand_under_each_other_whatever_is_in_them() -> None:
    entries = tuple(
        Checked("sync", subject, 9, 9, "a.py", symbol)
        for subject, symbol in (("plain", "A"), (WIDE, "B"), (JOINED, "C"))
    )
    for colour in (False, True):
        lines = page(report(checked=entries), 80, verbose=True, colour=colour)
        rows = [line for line in lines if "9 of 9" in line]
        assert {wcswidth(row[: row.index("9 of 9")]) for row in rows} == {4 + 8 + 2}


@pytest.mark.parametrize("quiet", [False, True])
def test_a_long_path_of_wide_characters_is_shortened_to_the_screen(quiet: bool) -> None:
    deep = f"python/{WIDE * 2}/" * 3 + "pool.py"
    lines = page(report(finding(path=deep)), 80, quiet=quiet)
    shown = [line for line in lines if "pool.py:1811" in line and "…/" in line]
    assert shown
    assert all(wcswidth(line) <= 80 for line in shown)
    brief = [finding(message=WIDE * 40, fingerprint=f"{n}" * 16, cause=f"{n}") for n in range(5)]
    cut = [line for line in page(report(*brief), 80) if line.endswith("…")]
    assert len(cut) == 2
    assert all(76 <= wcswidth(line) <= 80 for line in cut)


NAMES = (
    *("kv", "a_buffer_of_a_name_that_is_rather_long", "_".join(["buffer"] * 30), WIDE * 20),
    *("X" * 200, JOINED * 20, ""),
)


@pytest.mark.parametrize("width", [40, 60, 80, 100])
@pytest.mark.parametrize("whole", [9, 8])
def test_what_is_in_order_keeps_to_the_screen_and_leaves_nothing_out(
    width: int, whole: int
) -> None:
    entries = tuple(
        Checked("sync", subject, whole, 9, f"python/{path}.py", symbol)
        for subject in NAMES[:-1]
        for path in NAMES[:-1]
        for symbol in NAMES
    )
    value = msgspec.structs.replace(full_report(), checked=entries)
    lines = page(value, width, verbose=True)
    first = next(n for n, line in enumerate(lines) if "n order · " in line)
    last = next(n for n, line in enumerate(lines) if n > first and not line)
    section = [line for line in lines[first + 1 : last] if not line.startswith("Not all")]
    assert all(wcswidth(line) <= width for line in section)
    # Nothing of a name is left out, however many pieces it takes.
    held = f"{whole} of 9 readers wait"
    told = "".join(f"{entry.subject}{held}{entry.symbol}" for entry in entries)
    told += "".join({entry.path for entry in entries})
    shown = Counter("".join("".join(section).split()))
    assert shown == Counter("".join(told.split()))


@pytest.mark.parametrize("width", [80, 200])
def test_what_fits_is_not_folded(width: int) -> None:
    entries = (
        Checked("sync", "kv", 9, 9, "a.py", "Pool"),
        Checked("serve", "--tp", 1, 1, "b.sh", ""),
    )
    lines = page(report(checked=entries), width, verbose=True)
    at = lines.index("In order · 2 of 2 checked")
    assert lines[at + 1 : at + 5] == [
        "  a.py",
        "    kv    9 of 9 readers wait  Pool",
        "  b.sh",
        "    --tp  1 of 1 in order",
    ]
