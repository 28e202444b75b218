"""Which comments of a Python file count, and which statement each belongs to."""

from __future__ import annotations

import pytest

from auditor.errors import Unreadable
from auditor.source.comments import MOST, python_comments, speaks

TEXT = '''\
NOTE = """
# audit: ignore[text] in a string
"""  # audit: ignore[after] the string
# audit: ignore[own] above

x = 1
# audit: ignore[stacked] above
# and another comment
@decorated(  # audit: ignore[decorator] inside
    2,
)
@again
def f(a,
      b):  # audit: ignore[header] behind
    # audit: ignore[body] above
    return g(
        # audit: ignore[within] the call
        f"# audit: ignore[text] {a}",
    )
y = '# audit: ignore[text]'; z = "\\
# audit: ignore[text]"
# audit: ignore[end] nothing follows
'''


def spans(text: str) -> dict[str, tuple[int, int, int]]:
    found = {}
    for c in python_comments(text.encode()):
        found[c.text.partition("[")[2].partition("]")[0]] = (c.line, c.first, c.last)
    return found


def test_real_comments_with_the_lines_of_their_statements() -> None:
    assert spans(TEXT) == {
        "after": (3, 1, 3),
        "own": (4, 4, 4),  # a blank line parts it from what follows
        "stacked": (7, 9, 14),
        "decorator": (9, 9, 14),
        "header": (14, 9, 14),
        "body": (15, 16, 19),
        "within": (17, 16, 19),
        "end": (22, 22, 22),
    }


def test_columns_count_code_points_from_one() -> None:
    [found] = python_comments('é = "ü"  # audit: ignore[x] y\n'.encode())
    assert (found.line, found.column) == (1, 10)
    [found] = python_comments(b"# -*- coding: latin-1 -*-\n\xe9 = 1  # audit: ignore[x] \xfc\n")
    assert (found.line, found.column, found.text) == (2, 8, "# audit: ignore[x] ü")


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends_of_other_systems(end: str) -> None:
    assert spans(TEXT.replace("\n", end)) == spans(TEXT)


@pytest.mark.parametrize(
    "data",
    [
        b"# audit: x\nx = (\n",
        b"# audit: x\n'''\n",
        b"# audit: x\nif x:\n        a\n    b\n",
        b"# coding: no-such\n# audit: x\n",
        b"# audit: \xff\n",
        b"# audit: x" + b"y" * 300_000,
    ],
)
def test_what_is_no_python_is_refused(data: bytes) -> None:
    with pytest.raises(Unreadable):
        python_comments(data)


def test_too_many_comments_are_refused_by_their_bytes() -> None:
    assert not speaks(b"# nothing\n" * MOST)
    assert speaks(b"# audit: ignore[a] b\n" * MOST)
    with pytest.raises(Unreadable, match="more than 5,000"):
        speaks(b"# audit: ignore[a] b\n" * 1_000_000)


def test_a_thousand_comments_above_one_statement() -> None:
    found = python_comments(b"# audit: ignore[a] b\n" * 1000 + b"x = 1\n")
    assert {(c.first, c.last) for c in found} == {(1001, 1001)}
