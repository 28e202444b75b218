"""Answers of patterns travel between processes, by content."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from auditor.source.scans import Scans

WORD, NUMBER = re.compile(rb"a\w+"), re.compile(rb"(?s)\d+.x")
FILES = {"one.py": b"apple 1\nx", "two.py": b"avocado", "three.py": b"pear 2\nx"}


class Refusing(Scans):
    """Looks for nothing: what it knows was handed to it."""

    def found(self, data: bytes, pattern: re.Pattern[bytes], words: object = ()) -> list[bytes]:
        known = self._answers.get(pattern, {})
        if id(data) not in known:
            raise LookupError(pattern.pattern)
        return known[id(data)]


def test_what_another_process_found_is_known_here() -> None:
    child, parent = Scans(), Refusing()
    theirs, ours = child.intern(FILES), parent.intern({**FILES, "more.py": b"apricot"})
    child.found(theirs["one.py"], WORD)
    before = child.known()
    child.found(theirs["two.py"], WORD)
    child.found(theirs["three.py"], NUMBER)
    parent.adopt(child.since(before))
    assert parent.found(ours["two.py"], WORD) == [b"avocado"]
    assert parent.found(ours["three.py"], NUMBER) == [b"2\nx"]
    for path in ("one.py", "more.py"):  # found before it was asked, and unknown to the other
        with pytest.raises(LookupError):
            parent.found(ours[path], WORD)


def test_contents_that_are_not_here_are_left_out(tmp_path: Path) -> None:
    child, parent = Scans(), Scans(tmp_path)
    child.found(child.intern(FILES)["one.py"], WORD)
    parent.intern({"two.py": FILES["two.py"]})
    parent.adopt(child.since({}))
    parent.save()
    assert parent.known() == {WORD.pattern: 0}


def test_what_was_handed_over_is_kept_for_later_runs(tmp_path: Path) -> None:
    child, parent, later = Scans(), Scans(tmp_path), Scans(tmp_path)
    theirs, _, ours = (each.intern(FILES) for each in (child, parent, later))
    for data in theirs.values():
        child.found(data, WORD)
    parent.adopt(child.since({}))
    parent.save()
    wrong = re.compile(WORD.pattern)
    assert later.found(ours["one.py"], wrong) == [b"apple"]
    assert later.known() == {WORD.pattern: len(FILES)}
