from __future__ import annotations

import pytest

from auditor.serve.tables.patterns import patterns

CLASS = """
import re

OUTSIDE = re.compile(r"(outside)")


class Detector:
    start = "(not a pattern)"
    own_regex = r"<a>(.*?)</a>"

    def __init__(self):
        self.call_regex: str = r"<b>(?P<name>.*?)</b>"
        self.flat = re.compile(r"<c>.*?</c>")
        self.arg = re.compile(r"<d>(.*?)</d>|" + self.start, re.DOTALL)

    def read(self, text):
        return re.findall(r"<e>([^<]*)", text)


class Other:
    other_regex = r"(other)"
"""


def test_patterns_with_groups_of_one_class() -> None:
    assert set(patterns(CLASS, "Detector")) == {
        "<a>(.*?)</a>",
        "<b>(?P<name>.*?)</b>",
        "<d>(.*?)</d>|",
        "<e>([^<]*)",
    }
    assert patterns(CLASS, "Absent") == ()


@pytest.mark.parametrize("text", ["class", "x = " + "(" * 5000, "\0", "x = " + "-" * 100_000 + "1"])
def test_a_file_that_is_no_python_has_none(text: str) -> None:
    assert patterns(text, "Detector") == ()
