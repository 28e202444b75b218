"""Files of every form keep all that is not edited: encodings, line ends, tabs, odd definitions."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.fix.text import Source, Unfit, narrowed
from auditor.fix.written import Written

from .trees import HEAD, fixed, method

OPEN = method("def get_mean(self, layer_id):\n    return self.pages[layer_id - self.first].mean()")
WAIT = """\
        if self.counter is not None:
            self.counter.wait_until(layer_id - self.first)
"""
CLOSED = OPEN.replace("        return", WAIT + "        return")


def test_carriage_returns_stay_and_are_added(tmp_path: Path) -> None:
    before = (HEAD + OPEN).replace("\n", "\r\n").encode()
    assert fixed(tmp_path, before) == (HEAD + CLOSED).replace("\n", "\r\n").encode()


def test_a_mark_of_the_byte_order_stays(tmp_path: Path) -> None:
    mark = b"\xef\xbb\xbf"
    assert fixed(tmp_path, mark + (HEAD + OPEN).encode()) == mark + (HEAD + CLOSED).encode()


def test_another_encoding_stays(tmp_path: Path) -> None:
    cookie = "# -*- coding: latin-1 -*-\n# größer als 0xff: nein\n"
    before = (cookie + HEAD + OPEN).encode("latin-1")
    assert fixed(tmp_path, before) == (cookie + HEAD + CLOSED).encode("latin-1")


def test_characters_beyond_ascii_before_and_in_the_function(tmp_path: Path) -> None:
    text = "# 层 🧱\n" + HEAD + OPEN.replace(".mean()", ".mean()  # 平均 🧱")
    after = text.replace(
        "        return self.pages[layer_id - self.first].mean()",
        WAIT + "        return self.pages[layer_id - self.first].mean()",
    )
    assert fixed(tmp_path, text).decode() == after


def test_tabs_are_written_as_tabs(tmp_path: Path) -> None:
    before, after = (text.replace("    ", "\t") for text in (HEAD + OPEN, HEAD + CLOSED))
    assert fixed(tmp_path, before).decode() == after


def test_two_blanks_are_written_as_two(tmp_path: Path) -> None:
    before, after = (text.replace("    ", "  ") for text in (HEAD + OPEN, HEAD + CLOSED))
    assert fixed(tmp_path, before).decode() == after


def test_a_file_without_a_last_line_end_keeps_none(tmp_path: Path) -> None:
    assert fixed(tmp_path, (HEAD + OPEN).rstrip("\n")).decode() == (HEAD + CLOSED).rstrip("\n")


def test_white_space_and_comments_around_the_edit_stay(tmp_path: Path) -> None:
    odd = (
        "\n\n    # one   \n\n    @property_of( 1,\n        2 )\n"
        "    def get_mean( self , layer_id ) :   # why\n\n        # above\n"
        "        x = (1 ,2 )  ;y=3\n"
        "        return   self.pages[ layer_id-self.first ] . mean( )   \n\n\n\n"
    )
    after = odd.replace("        # above\n", WAIT + "\n        # above\n").replace(
        "# why\n\n" + WAIT + "\n", "# why\n" + WAIT + "\n"
    )
    assert fixed(tmp_path, HEAD + odd).decode() == HEAD + after


@pytest.mark.parametrize(
    "one_line",
    [
        "    def get_mean(self, layer_id): return self.pages[layer_id - self.first].mean()\n",
        "    def get_mean(self, layer_id): x = 1; return self.pages[layer_id].mean()  # short\n",
    ],
)
def test_a_function_on_one_line_is_laid_out(tmp_path: Path, one_line: str) -> None:
    head, body = one_line.split(": ", 1)
    after = f"{head}:\n{WAIT}        {body}"
    assert fixed(tmp_path, f"{HEAD}\n{one_line}").decode() == f"{HEAD}\n{after}"


def test_decorators_and_docstrings_come_before_the_wait(tmp_path: Path) -> None:
    before = method(
        '''
        @torch.no_grad()
        @traced(
            "mean",
        )
        def get_mean(self, layer_id):
            """The mean
            of a layer."""
            return self.pages[layer_id - self.first].mean()
        '''
    )
    after = before.replace("        return", WAIT + "        return")
    assert fixed(tmp_path, HEAD + before).decode() == HEAD + after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            '(self, layer_id): "doc"; return self.pages[layer_id]  # why\n',
            f'(self, layer_id):\n        "doc"\n{WAIT}        return self.pages[layer_id]  # why\n',
        ),
        (
            '(self, layer_id):\n        # above\n        ""; x = 1; return self.pages[layer_id]',
            (
                '(self, layer_id):\n        # above\n        ""\n'
                f"{WAIT}        x = 1; return self.pages[layer_id]"
            ),
        ),
    ],
)
def test_what_shares_a_line_with_a_docstring_comes_after_the_wait(
    tmp_path: Path, before: str, after: str
) -> None:
    head = HEAD + "\n    def get_mean"
    assert fixed(tmp_path, head + before).decode() == head + after


def test_a_method_of_a_class_within_a_class(tmp_path: Path) -> None:
    lines = (HEAD + OPEN).partition("class PagePool")
    nested = "".join(
        f"    {line}" if line.strip() else line for line in (lines[1] + lines[2]).splitlines(True)
    )
    before = f"{lines[0]}class Pools:\n{nested}"
    wait = "".join(f"    {line}" for line in WAIT.splitlines(True))
    at = before.rindex("            return")
    after = before[:at] + wait + before[at:]
    assert fixed(tmp_path, before).decode() == after


def test_an_asynchronous_method_awaits_as_its_siblings(tmp_path: Path) -> None:
    head = HEAD.replace("    def get_", "    async def get_")
    before = method("async def get_mean(self, layer_id):\n    return self.pages[layer_id].mean()")
    after = before.replace("        return", WAIT + "        return")
    assert fixed(tmp_path, head + before).decode() == head + after


def test_a_definition_under_a_condition(tmp_path: Path) -> None:
    before = method(
        """
        if True:

            def get_mean(self, layer_id):
                return self.pages[layer_id - self.first].mean()
        """
    )
    wait = "".join(f"    {line}" for line in WAIT.splitlines(True))
    after = before.replace("            return", wait + "            return")
    assert fixed(tmp_path, HEAD + before).decode() == HEAD + after


# -- the text of a file ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"# -*- coding: utf-7 -*-\nx = '+AGE-'\n",  # would be written shorter
        b"\xff\xfe",
        b"# coding: no-such\n",
        b"# coding: utf-8\n\xff\n",
    ],
)
def test_what_cannot_be_written_back_is_not_edited(data: bytes) -> None:
    with pytest.raises(Unfit):
        Source.of_python(data)


LINES = st.lists(st.sampled_from(["a\n", "b\r\n", "\n", "c\r", "d d\n"]), max_size=8)


@given(LINES, LINES, st.sampled_from(["", "end"]))
def test_an_edit_is_no_larger_than_the_lines_that_differ(
    old: list[str], new: list[str], tail: str
) -> None:
    before, after = "".join(old) + tail, "".join(new) + tail
    edit = narrowed(3, before, after)
    source = Source.of_script(f"###{before}!".encode())
    assert source.edited([edit]) == f"###{after}!".encode()
    if before == after:
        assert (edit.start, edit.text) == (edit.end, "")


NAMES = st.sampled_from(["x", "层", "rows", "_y"])
BLANKS = st.sampled_from(["", " ", "  "])
NOTES = st.sampled_from(["", "  # a note", " #层", "   "])


@st.composite
def bodies(draw: st.DrawFn) -> list[str]:
    """Statements with arbitrary white space and comments; the last reads the buffer."""
    lines: list[str] = []
    for _ in range(draw(st.integers(0, 4))):
        name, blank, note = draw(NAMES), draw(BLANKS), draw(NOTES)
        lines += draw(
            st.sampled_from(
                [
                    [f"{name}{blank}={blank}({blank}1,{blank}){note}"],
                    [f"if {name}:{note}", f"    {name}{blank}= 2", "else:  # no", "    pass"],
                    [f"for {name} in ( 1,", f"{blank}    2 ):{note}", "    continue"],
                    ["", f"# {name}"],
                    [f"{name} = '''", "  kept", "'''"],
                    [f"with {name} as y ,{blank}x:{note}", f"    {name}( y )"],
                ]
            )
        )
    return [*lines, f"return{draw(BLANKS)} self.pages[i]{draw(NOTES)}"]


@settings(deadline=None, max_examples=150)
@given(
    bodies(),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["    ", "\t", "  "]),
    st.integers(0, 3),
    st.booleans(),
)
def test_all_bytes_outside_of_the_edit_stay(
    body: list[str], newline: str, unit: str, depth: int, ends: bool
) -> None:
    """A wait put into any function leaves the file, with its two lines taken out, as it was."""
    lines = [unit * level + f"class C{level}:" for level in range(depth)]
    lines += [unit * depth + "def get(self, i):"]
    inside = False
    for line in body:
        # A string over lines is not indented: what it holds is text.
        kept = line if inside or not line.strip() else unit * (depth + 1) + _indented(line, unit)
        lines.append(kept)
        inside ^= line.count("'''") % 2 == 1
    text = newline.join(lines) + (newline if ends else "")
    source = Source.of_python(text.encode())
    name = "".join(f"C{level}." for level in range(depth)) + "get"
    written = Written.of(source, name, depth + 1)
    other = Source.of_python(b"def f(self, i):\n    if self.c:\n        self.c.wait(i)\n")
    [wait] = Written.of(other, "f", 1).waits({3})
    data = source.edited([written.edit(written.with_wait(written.adopted(wait), 0))])
    added = newline.join(
        [unit * (depth + 1) + "if self.c:", unit * (depth + 2) + "self.c.wait(i)", ""]
    ).encode()
    assert data.count(added) == 1
    assert data.replace(added, b"") == text.encode()
    ast.parse(data)


def _indented(line: str, unit: str) -> str:
    """A line of the sample in a file's own unit of indentation."""
    return unit + line[4:] if line.startswith("    ") else line
