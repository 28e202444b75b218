"""Brace expansion: ``{a,b}`` and ``{1..4}`` outside of quotes make several words of one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from auditor.serve.scripts.values import Piece, Text, Token

_MOST_WORDS = 256
_RANGE = re.compile(r"(-?\d{1,6})\.\.(-?\d{1,6})(?:\.\.(-?\d{1,6}))?$|([A-Za-z])\.\.([A-Za-z])$")
_Unit = tuple[str, Token]
"""A character that has a meaning, or an empty text; and what stands there."""


def braced(text: Text) -> list[Text]:
    """The words that a word as written stands for."""
    if not any(isinstance(t, Piece) and t.literal and "{" in t.text for t in text):
        return [text]
    units: list[_Unit] = []
    for token in text:
        if isinstance(token, Piece) and token.literal:
            offset = token.offset
            for sign in token.text:
                units.append((sign, replace(token, text=sign, offset=offset)))
                offset += len(sign.encode()) if token.exact else 0
        else:
            units.append(("", token))
    return [_glued(word) for word in _words(units)[:_MOST_WORDS]]


def _words(units: Sequence[_Unit]) -> list[list[Token]]:
    opened = _opened(units)
    if opened is None:
        return [[token for _, token in units]]
    start, end, commas = opened
    before = [token for _, token in units[:start]]
    options: list[list[Token]] = []
    if commas:
        edges = [start, *commas, end]
        for first, last in pairwise(edges):
            options.extend(_words(units[first + 1 : last]))
    else:
        options = [[token] for token in _counted(units[start + 1 : end])]
    rest = _words(units[end + 1 :])
    if len(options) * len(rest) > _MOST_WORDS:
        return [[token for _, token in units]]
    return [[*before, *option, *tail] for option in options for tail in rest]


def _opened(units: Sequence[_Unit]) -> tuple[int, int, list[int]] | None:
    """The first braces that part a word: where they stand, and their commas."""
    for start, (sign, _) in enumerate(units):
        if sign != "{" or (start and units[start - 1][0] == "$"):
            continue
        depth = 0
        commas: list[int] = []
        for at in range(start, len(units)):
            here = units[at][0]
            depth += (here == "{") - (here == "}")
            if here == "," and depth == 1:
                commas.append(at)
            if depth == 0:
                if commas or _counted(units[start + 1 : at]):
                    return start, at, commas
                break
    return None


def _counted(units: Sequence[_Unit]) -> list[Piece]:
    text = "".join(sign for sign, _ in units)
    match = _RANGE.match(text)
    first = units[0][1] if units else None
    if match is None or not isinstance(first, Piece) or len(text) != len(units):
        return []
    one, other, step, low, high = match.groups()
    if low is not None:
        way = 1 if low <= high else -1
        texts = [chr(code) for code in range(ord(low), ord(high) + way, way)]
    else:
        begin, last = int(one), int(other)
        way = (1 if begin <= last else -1) * (abs(int(step)) or 1 if step else 1)
        numbers = range(begin, last + (1 if way > 0 else -1), way)[: _MOST_WORDS + 1]
        width = max(len(one), len(other)) if _padded(one) or _padded(other) else 0
        texts = [str(number).zfill(width) for number in numbers]
    return [replace(first, text=text, exact=False) for text in texts]


def _padded(text: str) -> bool:
    return len(text.lstrip("-")) > 1 and text.lstrip("-").startswith("0")


def _glued(tokens: Sequence[Token]) -> Text:
    """Characters that stand behind each other as one piece again."""
    made: list[Token] = []
    for token in tokens:
        last = made[-1] if made else None
        if (
            isinstance(token, Piece)
            and isinstance(last, Piece)
            and token.literal
            and last.literal
            and token.exact
            and last.exact
            and last.offset + len(last.text.encode()) == token.offset
        ):
            made[-1] = replace(last, text=last.text + token.text)
        else:
            made.append(token)
    return tuple(made)
