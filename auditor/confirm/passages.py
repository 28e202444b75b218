"""One function's text, cut out of its file and looked at before a native parser is given it."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from auditor.source.statements import statements

MOST_LINES = 2_000
"""Of a function: positions take a millisecond a line, and no reader of buffers is that long."""
MOST_NODES = 40_000
"""Of its syntax tree, whatever its lines: a function of 2,000 lines has some 30,000."""
DEEPEST = 300
"""Levels within each other, the operands of a chain counted; libcst takes some 4,000 of them on
8 MB of stack and ends the process beyond. Facts are never deeper than 100, but know no sums."""

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")
_DEFINITION = re.compile(r"[ \t\f]*(?:async[ \t]+)?def\b")
_MOST_QUOTES = 1_000  # on the lines of one text


class Unreadable(Exception):
    """What the second parser is not given, or does not take; the message is why, a clause."""


@dataclass(frozen=True)
class Passage:
    """A function's lines as they are written, decorators left out.

    ``head`` is a line that holds what is indented; line 1 of ``text`` is that of the ``def``.
    """

    text: str
    head: str = ""

    @property
    def whole(self) -> str:
        """What is parsed."""
        return self.head + self.text

    def check(self) -> None:
        """Raise Unreadable where a native parser could run out of stack, or of all patience."""
        if self.text.count("\n") > MOST_LINES:
            raise Unreadable(f"the function is longer than {MOST_LINES:,} lines")
        found = statements(self.whole.encode(errors="surrogatepass"))
        if found is None:
            raise Unreadable("the function cannot be parsed by itself")
        deepest, nodes = _size(found)
        if deepest > DEEPEST:
            raise Unreadable("the function is nested too deeply")
        if nodes > MOST_NODES:
            raise Unreadable(f"the function has more than {MOST_NODES:,} parts")
        quotes = self.whole.count('"') + self.whole.count("'")
        if quotes > _MOST_QUOTES and _quotes(found, _LINE.findall(self.whole)) > _MOST_QUOTES:
            raise Unreadable("the function has too many texts in a row")


@dataclass(frozen=True)
class Text:
    """A file's lines with their ends."""

    data: bytes

    @cached_property
    def lines(self) -> list[str]:
        """Decoded as the file says; raises Unreadable."""
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(self.data).readline)
            return _LINE.findall(self.data.decode(encoding))
        except (SyntaxError, UnicodeDecodeError, LookupError):
            raise Unreadable("the file cannot be decoded") from None

    def passage(self, first: int, last: int) -> Passage:
        """The function whose ``def`` is on the line ``first``; raises Unreadable."""
        lines = self.lines[first - 1 : last]
        if not lines or _DEFINITION.match(lines[0]) is None:
            raise Unreadable(f"no function begins on line {first}")
        end = "" if lines[-1].endswith(("\n", "\r")) else "\n"
        return Passage("".join(lines) + end, "if 1:\n" if lines[0][0] in " \t\f" else "")


def _size(found: Sequence[ast.stmt]) -> tuple[int, int]:
    """How deep code is for a parser that nests what this one keeps as lists, and its nodes."""
    deepest = nodes = 0
    pending: list[tuple[ast.AST, int]] = [(top, 1) for top in found]
    while pending:
        node, depth = pending.pop()
        depth += sum(_also(node))
        deepest = max(deepest, depth)
        nodes += 1
        pending += [(child, depth + 1) for child in ast.iter_child_nodes(node)]
    return deepest, nodes


def _also(node: ast.AST) -> Iterator[int]:
    if isinstance(node, ast.BoolOp):
        yield len(node.values)
    elif isinstance(node, ast.Import | ast.ImportFrom):
        dotted = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
        yield max(name.count(".") for name in dotted)


def _quotes(found: Sequence[ast.stmt], lines: Sequence[str]) -> int:
    """The most quotation marks on the lines of one text: literals in a row are one constant here.

    There they are pairs within each other. What is counted are two marks and more for each.
    """
    most = 0
    for node in (node for top in found for node in ast.walk(top)):
        if isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
        ):
            text = "".join(lines[node.lineno - 1 : node.end_lineno])
            most = max(most, text.count('"') + text.count("'"))
    return most
