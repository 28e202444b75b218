"""Where each character of a Python string literal was written."""

from __future__ import annotations

import ast
from bisect import bisect_right

_PREFIX = frozenset("rRbBuUfF")
_ESCAPES = {"x": 4, "u": 6, "U": 10}


class Source:
    """The text of a program, by offsets in code points; the parser's columns count bytes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0]
        # The parser knows these three line ends, and no others that str.splitlines knows.
        at = 0
        while at < len(text):
            if text[at] == "\r" and text[at + 1 : at + 2] == "\n":
                at += 1
            if text[at] in "\r\n":
                self._starts.append(at + 1)
            at += 1
        self._ascii = text.isascii()

    def offset(self, line: int, column: int) -> int:
        """The offset of a place as a syntax tree tells it."""
        start = self._starts[min(line, len(self._starts)) - 1]
        if self._ascii:
            return start + column
        before = self.text[start : start + column].encode()[:column]
        return start + len(before.decode(errors="ignore"))

    def start(self, node: ast.expr | ast.keyword) -> int:
        """The offset at which an expression begins."""
        return self.offset(node.lineno, node.col_offset)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def units(self, node: ast.expr) -> list[tuple[int, bool]]:
        """Each character and each ``{hole}`` of a literal: its offset, and whether it is a hole.

        Adjacent literals are one. A line end escaped by a backslash is nothing.
        """
        end = self.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
        at = self.start(node)
        found: list[tuple[int, bool]] = []
        while at < end:
            if self.text[at] == "#":
                at = _after(self.text, "\n", at, end)
            elif self.text[at] in "'\"":
                at = self._literal(at, end, found)
            else:
                at += 1
        return found

    def _literal(self, at: int, end: int, found: list[tuple[int, bool]]) -> int:
        """Adds the units of the one literal whose quote is at ``at``; returns where it ends."""
        text, begun = self.text, at
        while begun > 0 and text[begun - 1] in _PREFIX:
            begun -= 1
        prefix = text[begun:at].lower()
        quote = text[at] * 3 if text.startswith(text[at] * 3, at) else text[at]
        at += len(quote)
        while at < end and not text.startswith(quote, at):
            step, hole = 1, False
            if text[at] == "\\" and "r" not in prefix:
                after = text[at + 1 : at + 2]
                step = _escape(text, at)
                if after in {"\n", "\r"}:
                    at += step
                    continue
            elif text[at] == "\r" and text[at + 1 : at + 2] == "\n":
                step = 2
            elif "f" in prefix and text[at] in "{}":
                if text[at + 1 : at + 2] == text[at]:
                    step = 2
                else:
                    step, hole = _hole(text, at, end) - at, True
            found.append((at, hole))
            at += step
        return at + len(quote)


def _escape(text: str, at: int) -> int:
    """The length of the escape at ``at``."""
    letter = text[at + 1 : at + 2]
    if letter == "N":
        return _after(text, "}", at, len(text)) - at
    if letter == "\r" and text[at + 2 : at + 3] == "\n":
        return 3
    if letter and letter in "01234567":
        length = 2
        while length < 4 and text[at + length : at + length + 1] in set("01234567"):
            length += 1
        return length
    return _ESCAPES.get(letter, 2)


def _hole(text: str, at: int, end: int) -> int:
    """Where the replacement field that begins at ``at`` ends."""
    depth = 0
    while at < end:
        if text[at] in "'\"":
            at = _after(text, text[at], at + 1, end)
            continue
        if text[at] == "{":
            depth += 1
        elif text[at] == "}":
            depth -= 1
            if depth <= 0:
                return at + 1
        at += 1
    return end


def _after(text: str, what: str, at: int, end: int) -> int:
    found = text.find(what, at, end)
    return end if found < 0 else found + len(what)
