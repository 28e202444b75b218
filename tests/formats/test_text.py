from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.formats.text import Paint, count, printable, scrub, wrap, wrap_phrases
from auditor.model import Skipped


@given(st.text(st.characters()))
def test_printable_leaves_no_control_format_or_surrogate_character_a_terminal_obeys(
    text: str,
) -> None:
    shown = printable(text)
    shown.encode("utf-8")
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Zl", "Zp")]
    assert not [c for c in shown if unicodedata.bidirectional(c) in ("RLO", "LRO", "RLI", "LRI")]


def test_printable_keeps_text_and_shows_what_it_escapes() -> None:
    assert printable("größe/索引_k [0;1m") == "größe/索引_k [0;1m"
    assert printable("a\x1b[31mb\nc\u202ed\x9b") == "a\\x1b[31mb\\nc\\u202ed\\x9b"
    assert printable("caf\udce9.py") == "caf\\udce9.py"


def test_scrub_reaches_every_string_and_keeps_the_type() -> None:
    skipped = Skipped("fork", "a\x1b]0;title\x07.py", "scan", "bad\rgood")
    assert scrub(skipped) == Skipped("fork", "a\\x1b]0;title\\x07.py", "scan", "bad\\x0dgood")
    assert scrub({"a\x00": ["\x1b", {"b": ("\x07",)}]}) == {"a\\x00": ["\\x1b", {"b": ["\\x07"]}]}


@pytest.mark.parametrize("width", [20, 40])
def test_wrap_hangs_and_never_cuts_a_path(width: int) -> None:
    path = "python/sglang/srt/mem_cache/memory_pool.py:1811"
    lines = wrap(f"see {path} for the read", width, "  fix  ")
    assert any(path in line for line in lines)
    assert lines[0].startswith("  fix  ")
    assert all(line.startswith("       ") for line in lines[1:])


def test_count_and_paint() -> None:
    assert (count(1, "file"), count(2, "file")) == ("1 file", "2 files")
    assert count(1234, "entry", "entries") == "1,234 entries"
    assert Paint(False).bad("x") == "x"
    assert Paint(True).bad("x") == "\x1b[1;31mx\x1b[0m"
    assert Paint(True).bad("") == ""


@pytest.mark.parametrize("width", [24, 40, 80])
def test_a_line_of_phrases_breaks_between_them(width: int) -> None:
    text = "9 findings (8 causes) · 5 introduced here · 1 inherited · 1 fixed upstream · exit 1"
    lines = wrap_phrases(text, width)
    assert " ".join(lines) == text
    assert all(len(line) <= width for line in lines)
    for phrase in text.split(" · "):
        assert any(phrase in line for line in lines)
