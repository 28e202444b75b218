"""Finds comments with the lines of the statement that each belongs to, in Python files."""

from __future__ import annotations

import io
import tokenize
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from auditor.errors import Unreadable
from auditor.model import Comment

WORD = "audit:"
"""What stands in every comment that speaks to this program; others are not given."""

MOST = 5_000
"""Comments of one file that speak to this program."""

_LONGEST_LINE = 200_000
_LAYOUT = frozenset({tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.ENCODING})

Span = tuple[int, int]
"""First and last line of a statement, both from 1."""

Found = tuple[int, int, str]
"""Line and column of a comment, both from 1, and its text from the sign on."""


def speaks(data: bytes) -> bool:
    """Whether a file can hold such a comment; raises Unreadable where it holds too many."""
    word = WORD.encode()
    if word not in data:
        return False
    if data.count(word) > MOST:
        raise Unreadable(f"more than {MOST:,} comments to audit: none of them counts")
    return True


def python_comments(data: bytes) -> list[Comment]:
    """The comments of a Python file that hold ``WORD``, in order.

    A comment belongs to the statement that it stands in or directly before, where only other
    comments lie between; decorators and the line that they decorate are one statement, the body of
    a compound statement is none of it. Raises Unreadable where the file cannot be cut into tokens.
    """
    # The parser ends a line at a lone carriage return, the reader of tokens does not.
    text = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if max(map(len, text.split(b"\n"))) > _LONGEST_LINE:
        raise Unreadable("a line too long to look for comments")
    found: list[Found] = []
    spans: list[Span] = []
    start = decorated = 0
    try:
        for token in tokenize.tokenize(io.BytesIO(text).readline):
            if token.type == tokenize.COMMENT:
                if WORD in token.string:
                    found.append((token.start[0], token.start[1] + 1, token.string))
            elif token.type == tokenize.NEWLINE:
                if not decorated:
                    spans.append((start, token.start[0]))
                start = 0
            elif token.type != tokenize.NL and token.type not in _LAYOUT and not start:
                start = token.start[0]
                if token.string == "@":
                    decorated = decorated or start
                elif decorated:
                    start, decorated = decorated, 0
    except (tokenize.TokenError, SyntaxError, UnicodeDecodeError, LookupError, ValueError):
        raise Unreadable("comments cannot be told from text") from None
    lines = text.decode("utf-8", "replace").split("\n")
    return belonging(found, spans, lines)


def belonging(found: Iterable[Found], spans: Iterable[Span], lines: Sequence[str]) -> list[Comment]:
    """The comments with the lines of their statements; one that belongs to none has its own line.

    ``spans`` may come in any order and share lines: what shares a line is one statement.
    """
    merged: list[Span] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    starts = [first for first, _ in merged]

    def holding(line: int) -> Span | None:
        at = bisect_right(starts, line) - 1
        return merged[at] if at >= 0 and line <= merged[at][1] else None

    comments: list[Comment] = []
    after: dict[int, Span | None] = {}
    for line, column, text in sorted(found, reverse=True):
        span = holding(line)
        if span is None:
            below = line + 1
            # What a comment below it belongs to is known: a thousand in a row cost no more.
            while below not in after and below <= len(lines) and _is_comment(lines[below - 1]):
                below += 1
            span = after[below] if below in after else holding(below)
            after[line] = span
        comments.append(Comment(line, column, text, *(span or (line, line))))
    return comments[::-1]


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")
