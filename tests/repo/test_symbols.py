from __future__ import annotations

import ast

import pytest

from auditor.repo.symbols import changed_symbols, definitions

BASE = '''\
"""Module.

def not_code(): the margin of a string
"""
import os

LIMIT = 1


@decorate(
    1,
)
def helper(a):
    return a  # a comment


class Pool(
    Base,
    Other,
):
    """Doc

    def neither(self): in a string
    """

    size = 1

    @property
    def keys(self):
        return self._keys

    @keys.setter
    def keys(self, value):
        self._keys = value

    async def read(self, i):
        if i:
            self.wait(i)
        return self.buffer[i]

    class Inner:
        def deep(self):
            return 1


if os.name == "posix":

    def conditional():
        return 1
else:

    def conditional():
        return 2


@dataclass
class Row:
    a: int = 1

    def total(self):
        return self.a
'''


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("return a  # a comment", "return a", ()),
        ("    return a  # a comment", "    # moved\n\n    return (\n        a\n    )", ()),
        ("return a  #", "return b  #", ("helper",)),
        ("@decorate(\n    1,", "@decorate(\n    2,", ("helper",)),
        ("self.wait(i)", "pass", ("Pool.read",)),
        ("            self.wait(i)", "            pass\n        self.wait(i)", ("Pool.read",)),
        ("        return self.buffer[i]", "            return self.buffer[i]", ("Pool.read",)),
        ("self._keys = value", "self._keys = 0", ("Pool.keys",)),
        ("    Other,\n", "", ("Pool",)),
        ("size = 1", "size = 2", ("Pool",)),
        (
            "def deep(self):\n            return 1",
            "def deep(self):\n            return 2",
            ("Pool.Inner.deep",),
        ),
        ("return 2\n", "return 3\n", ("conditional",)),
        ("a: int = 1", "a: int = 2", ("Row",)),
        ("return self.a\n", "return -self.a\n", ("Row.total",)),
        ("def total", "def sum", ("Row.sum", "Row.total")),
        ("LIMIT = 1", "LIMIT = 2", ()),
        ("not_code(): the", "not_code(): another", ()),
        ("class Row:", "class Line:", ("Line", "Line.total", "Row", "Row.total")),
        ("async def read", "def read", ("Pool.read",)),
        ("\n", "\r\n", ()),
    ],
)
def test_names_what_differs_and_nothing_else(old, new, expected):
    assert old in BASE
    changed = BASE.replace(old, new)
    assert changed_symbols(BASE.encode(), changed.encode()) == expected
    assert changed_symbols(changed.encode(), BASE.encode()) == expected


def test_text_at_the_margin_of_a_string_does_not_hide_a_change():
    text = "def f():\n    return '''\\\ndef g():\n    pass\n''' + {}\n\n\ndef h():\n    return {}\n"
    assert changed_symbols(text.format(1, 1).encode(), text.format(1, 2).encode()) == ("h",)
    assert changed_symbols(text.format(1, 1).encode(), text.format(2, 1).encode()) == ("f",)


@pytest.mark.parametrize(
    "broken", [b"def f(:\n", b"\0", b"x = " + b"(" * 10_000, b"x = " + b"-" * 100_000 + b"1"]
)
def test_what_cannot_be_parsed_has_no_symbols(broken):
    assert changed_symbols(broken, b"def f():\n    return 1\n") in ((), ("f",))
    assert changed_symbols(broken, broken + b" \n") == ()


def test_encodings():
    assert (
        changed_symbols(b"def f():\n    return 1\n", b"\xef\xbb\xbfdef f():\n    return 1\n") == ()
    )
    latin = b"# -*- coding: latin-1 -*-\ndef f():\n    return '\xe4'\n"
    assert changed_symbols(latin, latin.replace(b"\xe4", b"\xe5")) == ("f",)


def told(name):
    return [
        (place.line, [ast.unparse(part) for part in place.body])
        for place in definitions(BASE.encode(), (name,)).get(name, [])
    ]


@pytest.mark.parametrize(
    ("name", "lines", "begins"),
    [
        ("helper", [13], "@decorate(1)\ndef helper(a):"),
        ("Pool.read", [36], "async def read(self, i):"),
        ("Pool.Inner.deep", [42], "def deep(self):"),
        ("conditional", [48, 52], "def conditional():"),
        ("Pool.neither", [], ""),
        ("nowhere", [], ""),
    ],
)
def test_definitions_are_found_with_their_lines(name, lines, begins):
    found = told(name)
    assert [line for line, _ in found] == lines
    assert all(body[0].startswith(begins) for _, body in found)


def test_a_property_and_its_setter_are_two_of_one_name():
    assert [line for line, _ in told("Pool.keys")] == [29, 33]


def test_a_class_comes_without_its_methods_and_the_module_without_either():
    [(_, [pool])] = told("Pool")
    assert "size = 1" in pool
    assert "def read" not in pool
    [(_, module)] = told("")
    assert "import os" in module
    assert "LIMIT = 1" in module
    assert not any(text.startswith(("def ", "class ")) for text in module)


def test_definitions_of_what_is_no_python_are_none():
    assert definitions(b"def f(:\n", ("f",)) == {}
