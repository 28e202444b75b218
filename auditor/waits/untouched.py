"""Tells by lines alone that nothing happened to the waits of a function, before it is parsed."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache

_HEAD = re.compile(
    rb"(?:async\s+)?(?:if|elif|else|for|while|try|except|finally|with|def|match|case)\b"
)
_GOES_ON = (b"elif", b"else", b"except", b"finally", b"case")
_LEAVES = re.compile(rb"\s*(?:return|continue|break)\b")
_NAME = re.compile(rb"\w+")
_TOKENS = re.compile(
    rb"""
      \\\r?\n                                 # a statement that goes on
    | \#[^\n]*
    | (\"{3}|'{3})(?:[^\\]|\\.)*?\1           # texts
    | \"(?:[^\"\\\n]|\\.)*\" | '(?:[^'\\\n]|\\.)*'
    | [()\[\]{}] | \n
    """,
    re.VERBOSE | re.DOTALL,
)
"""What decides where a statement ends."""

_OPENING = frozenset((b"(", b"[", b"{"))
_CLOSING = frozenset((b")", b"]", b"}"))
_LONGEST = 2000  # bytes of a line whose targets are looked for
_MOST = 200
"""Lines that may wait; each is held against all others."""

_WORKS = re.compile(rb"[(\[]")
"""Part of every line that calls something or reads elements."""

_TARGETS = re.compile(
    rb"^(?P<assigned>[\w.,\s()\[\]*:]*?)(?:[-+*/|&]?=)(?!=)|\bfor\b(?P<loop>.*?)\bin\b"
    rb"|\bas\b(?P<named>[^,:)]*)|(?P<walrus>\w+)\s*:=",
    re.DOTALL,
)
_ANYWHERE = frozenset((b"self", b"torch", b"cuda", b"if", b"not", b"with", b"await", b"async"))

Telling = Callable[[bytes], bool]
"""Whether a line may wait."""

Row = tuple[int, bytes]
"""The margin of a line, and what stands on it."""


def untouched(before: bytes, after: bytes, telling: Telling) -> bool:
    """Whether each line that may wait is there, under the same heads, in the same order.

    What is told so is certain; of anything else nothing is known.
    """
    old, new = _rows(before), _rows(after)
    if old is None or new is None or sum(telling(text) for _, text in old) > _MOST:
        return False
    places: dict[bytes, list[int]] = defaultdict(list)
    for number, (_, text) in enumerate(new):
        places[text].append(number)
    counts = Counter(text for _, text in old)
    seen: Counter[bytes] = Counter()
    for number, (_, text) in enumerate(old):
        if telling(text):
            found = places[text]
            if len(found) != counts[text]:
                return False
            if not _same(old, number, new, found[seen[text]]):
                return False
            seen[text] += 1
    return True


def _same(old: Sequence[Row], number: int, new: Sequence[Row], place: int) -> bool:
    """Whether all that says what a line waits for, and when, is as it was."""
    around = _around(old, number)
    if around != _around(new, place) or any(head.startswith(b"try") for head in around):
        return False
    wait = old[number][1]
    if _bound(old[:number], wait) != _bound(new[:place], wait):
        return False
    if _bound(old[number:], wait) != _bound(new[place:], wait):
        return False
    behind = {text for _, text in old[number + 1 :] if _WORKS.search(text)}
    behind -= {text for _, text in old[:number]}
    if any(text in behind for _, text in new[:place]):
        return False
    return not _ways_out(new[:place]) - _ways_out(old[:number])


def _rows(data: bytes) -> list[Row] | None:
    """The lines that say something, those of one statement as one; None where no end is found.

    A bracket or a mark of a comment within a text is none.
    """
    rows: list[Row] = []
    depth = start = 0
    data += b"\n"
    for token in _TOKENS.finditer(data):
        mark = token.group()
        if mark in _OPENING:
            depth += 1
        elif mark in _CLOSING:
            depth -= 1
        elif mark == b"\n" and depth == 0:
            line = data[start : token.start()]
            start = token.end()
            text = line.strip()
            if text and not text.startswith(b"#"):
                rows.append((len(line) - len(line.lstrip()), text))
    return rows if depth == 0 else None


def _around(rows: Sequence[Row], number: int) -> list[bytes]:
    """The heads of the blocks around a line, the innermost first, with those that they go on."""
    found: list[bytes] = []
    margin, goes_on = rows[number][0], False
    for above in range(number - 1, -1, -1):
        here, text = rows[above]
        if here < margin or (goes_on and here == margin):
            if _HEAD.match(text):
                found.append(text)
                goes_on = text.startswith(_GOES_ON)
            elif here < margin:
                goes_on = False
            margin = here
    return found


def _bound(rows: Sequence[Row], wait: bytes) -> list[bytes]:
    """The lines that give a name of a wait its value."""
    names = set(_NAME.findall(wait)) - _ANYWHERE
    return [text for _, text in rows if text != wait and not names.isdisjoint(_targets(text))]


@lru_cache(maxsize=1 << 14)
def _targets(text: bytes) -> frozenset[bytes]:
    """The names that a line gives a value."""
    if len(text) > _LONGEST:
        return frozenset(_NAME.findall(text))  # any may be one
    if not any(word in text for word in (b"=", b"for ", b" as ")):
        return frozenset()
    parts = (part for found in _TARGETS.finditer(text) for part in found.groups() if part)
    return frozenset(name for part in parts for name in _NAME.findall(part))


def _ways_out(rows: Sequence[Row]) -> Counter[Row]:
    return Counter(row for row in rows if _LEAVES.match(row[1]))
