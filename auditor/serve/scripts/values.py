"""What a variable of a script may hold: texts with their places, unknown parts, alternatives."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from auditor.serve.scripts.words import Word

HOLE = "__unknown_"
"""How the variables start that stand for unknown parts of a text that is read as a script."""


class Source:
    """A text that is read as a script, and where each byte of it was written."""

    def __init__(self, data: bytes, path: str) -> None:
        self.data = data
        self.path = path
        self._lines: list[int] = []
        self._measured = (0, 1)

    def place(self, offset: int) -> tuple[str, int, int]:
        """The file, line and column (code points, from 1) of a byte."""
        if not self._lines:
            self._lines = [0]
            at = self.data.find(b"\n")
            while at >= 0:
                self._lines.append(at + 1)
                at = self.data.find(b"\n", at + 1)
        line = bisect_right(self._lines, offset)
        start = self._lines[line - 1]
        # Words of a line are asked for in turn: a long one is not measured anew for each.
        known, column = self._measured
        if not start <= known <= offset:
            known, column = start, 1
        column += len(self.data[known:offset].decode("utf-8", "replace"))
        self._measured = (offset, column)
        return self.path, line, column


class Fixed(Source):
    """A text all of which was written at one place."""

    def __init__(self, data: bytes, path: str, line: int, column: int) -> None:
        super().__init__(data, path)
        self._where = (path, line, column)

    def place(self, offset: int) -> tuple[str, int, int]:
        """The one place."""
        del offset
        return self._where


class Placed(Source):
    """A text of parts, each with the line and column where it was written."""

    def __init__(self, path: str, parts: Iterable[tuple[str, int, int]]) -> None:
        self._parts = list(parts)
        encoded = [text.encode("utf-8", "replace") for text, _, _ in self._parts]
        self._starts = list(accumulate((len(part) for part in encoded), initial=0))
        super().__init__(b"".join(encoded), path)

    def place(self, offset: int) -> tuple[str, int, int]:
        """Where the part of that byte was written."""
        if not self._parts:
            return self.path, 1, 1
        index = min(max(0, bisect_right(self._starts, offset) - 1), len(self._parts) - 1)
        before = self.data[self._starts[index] : offset].decode("utf-8", "replace")
        _, line, column = self._parts[index]
        return self.path, line, column + len(before)


class Joined(Source):
    """A text that a script put together of pieces.

    An unknown piece stands in it as the variable that ``unknown`` gives it.
    """

    def __init__(self, path: str, pieces: Iterable[Piece]) -> None:
        parts: list[bytes] = []
        self._starts: list[int] = []
        self._pieces: list[Piece] = []
        self.unknown: dict[str, Piece] = {}
        at = 0
        for piece in pieces:
            text = piece.text
            if not piece.resolved:
                name = f"{HOLE}{len(self.unknown)}"
                self.unknown[name] = piece
                text = f"${{{name}}}"
            self._starts.append(at)
            self._pieces.append(piece if piece.resolved else replace(piece, exact=False))
            parts.append(text.encode("utf-8", "replace"))
            at += len(parts[-1])
        super().__init__(b"".join(parts), path)

    def place(self, offset: int) -> tuple[str, int, int]:
        """Where the piece of that byte was written."""
        if not self._pieces:
            return self.path, 1, 1
        index = max(0, bisect_right(self._starts, offset) - 1)
        piece = self._pieces[index]
        inside = offset - self._starts[index] if piece.exact else 0
        return piece.source.place(piece.offset + inside)


@dataclass(frozen=True)
class Piece:
    """A part of a text; ``exact`` says that its bytes are those of the source at ``offset``.

    ``quoted`` keeps it from being split into words, ``literal`` says that it stands in the script
    without quotes, so that its braces and wildcards count. ``symbol`` names what an unknown piece
    stands for, the same wherever it is used; ``outside`` says that the script's caller gives it.
    """

    text: str
    source: Source
    offset: int
    quoted: bool = True
    resolved: bool = True
    exact: bool = True
    literal: bool = False
    symbol: str = ""
    outside: bool = False


@dataclass(frozen=True)
class Choice:
    """One of several texts, by what nothing here decides.

    ``symbol`` names what decides; with ``soft`` the first option counts for as long as nothing asks
    for more, as the default of a variable does that the caller of a script may set.
    """

    options: tuple[Text, ...]
    symbol: str = ""
    soft: bool = False


@dataclass(frozen=True)
class Break:
    """The end of an element of an array."""


BREAK = Break()
Token = Piece | Choice | Break
Text = tuple[Token, ...]
"""A sequence of pieces; elements of arrays end with a break."""


@dataclass(frozen=True)
class Spelled(Word):
    """A word that still knows the pieces it was made of."""

    tokens: Text = ()


def size(text: Text) -> int:
    """A measure of the memory and work that a text costs."""
    total = 0
    for token in text:
        if isinstance(token, Piece):
            total += 1 + len(token.text) // 16
        elif isinstance(token, Choice):
            total += 1 + sum(map(size, token.options))
        else:
            total += 1
    return total


def quoted(text: Text, quote: bool) -> Text:
    """The text as it stands inside (or outside) quotes, where it came out of an expansion."""
    made: list[Token] = []
    for token in text:
        if isinstance(token, Piece):
            same = token.quoted == quote and not token.literal
            made.append(token if same else replace(token, quoted=quote, literal=False))
        elif isinstance(token, Choice):
            made.append(replace(token, options=tuple(quoted(o, quote) for o in token.options)))
        else:
            made.append(token)
    return tuple(made)


def scalar(text: Text, between: str = " ") -> Text:
    """The text as one string: elements joined by a space."""
    made: list[Token] = []
    waiting: Piece | None = None
    last: Piece | None = None
    for token in text:
        if isinstance(token, Break):
            if last is not None:
                if waiting is not None:
                    made.append(waiting)
                waiting = replace(last, text=between, exact=False, resolved=True, symbol="")
            continue
        if waiting is not None:
            made.append(waiting)
            waiting = None
        made.append(token)
        if isinstance(token, Piece):
            last = token
    return tuple(made)


def elements(text: Text) -> list[Text]:
    """The elements of an array's text."""
    found: list[Text] = []
    current: list[Token] = []
    for token in text:
        if token is BREAK:
            found.append(tuple(current))
            current = []
        else:
            current.append(token)
    if current:
        found.append(tuple(current))
    return found


def constant(text: Text) -> str | None:
    """The one string that a text surely is, None where there are unknown parts."""
    parts: list[str] = []
    for token in text:
        if isinstance(token, Break):
            parts.append(" ")
        elif isinstance(token, Choice) or not token.resolved:
            return None
        else:
            parts.append(token.text)
    return "".join(parts)


def shown(text: Text) -> str:
    """A text as a person reads it, unknown parts as the script writes them."""
    parts: list[str] = []
    for token in text:
        if isinstance(token, Choice):
            parts.append(shown(token.options[0]))
        elif isinstance(token, Piece):
            parts.append(token.text)
    return "".join(parts)


def join(first: Text, second: Text) -> Text:
    """What a variable may hold after two branches; what both share stays as it is."""
    if first == second:
        return first
    shortest = min(len(first), len(second))
    start = 0
    while start < shortest and first[start] == second[start]:
        start += 1
    end = 0
    while end < shortest - start and first[-1 - end] == second[-1 - end]:
        end += 1
    options: list[Text] = []
    for side in (first[start : len(first) - end], second[start : len(second) - end]):
        nested = side[0] if len(side) == 1 else None
        options.extend(nested.options if isinstance(nested, Choice) else [side])
    return (*first[:start], Choice(tuple(dict.fromkeys(options))), *first[len(first) - end :])


BLANKS = " \t\n"


class _Splitter:
    """Splits pieces into words as a shell does after expansion."""

    def __init__(self, separators: str) -> None:
        self.words: list[Spelled] = []
        self.separators = separators
        self._current: list[Token] | None = None

    def add(self, text: Text) -> None:
        for token in text:
            if isinstance(token, Break):
                self.end()
            elif isinstance(token, Choice):
                if self._is_one(token):
                    self._append(token)
                else:
                    self.add(token.options[0])
            elif token.quoted or not token.resolved:
                self._append(token)
            else:
                self._split(token)

    def _is_one(self, choice: Choice) -> bool:
        """Whether what a default stands for is no more than a part of one word."""
        known = constant(choice.options[0])
        if known is None or not choice.soft:
            return False
        whole = all(isinstance(t, Piece) and t.quoted for t in choice.options[0])
        return whole or (known != "" and not any(sign in known for sign in self.separators))

    def _append(self, token: Token) -> None:
        if self._current is None:
            self._current = []
        self._current.append(token)

    def _split(self, piece: Piece) -> None:
        start = at = 0
        text = piece.text
        while at < len(text):
            if text[at] not in self.separators:
                at += 1
                continue
            if at > start:
                self._append(_part(piece, start, at))
            elif text[at] not in BLANKS and self._current is None:
                self._append(_part(piece, at, at))  # an empty field between two separators
            self.end()
            at += 1
            start = at
        if start < len(text):
            self._append(_part(piece, start, len(text)))

    def end(self) -> None:
        """Ends the current word, if there is one."""
        if self._current is None:
            return
        tokens = tuple(self._current)
        self._current = None
        self.words.append(_word(tokens))


def _part(piece: Piece, start: int, end: int) -> Piece:
    moved = piece.offset + len(piece.text[:start].encode()) if piece.exact else piece.offset
    return replace(piece, text=piece.text[start:end], offset=moved)


def _held(text: Text) -> Iterable[Piece]:
    """The pieces of a text whose defaults hold."""
    for token in text:
        if isinstance(token, Choice):
            yield from _held(token.options[0])
        elif isinstance(token, Piece):
            yield token


def _word(tokens: Text) -> Spelled:
    pieces = list(_held(tokens))
    anchor = next((piece for piece in pieces if piece.text), pieces[0] if pieces else None)
    if anchor is None:
        return Spelled("", "", 1)
    path, line, column = anchor.source.place(anchor.offset)
    return Spelled(
        text="".join(piece.text for piece in pieces),
        path=path,
        line=line,
        column=column,
        resolved=all(piece.resolved for piece in pieces),
        outside=any(piece.outside for piece in pieces if not piece.resolved),
        quoted=all(p.resolved or (p.quoted and p.symbol[:1] != "@") for p in pieces),
        tokens=tokens,
    )


def split(texts: Sequence[Text], separators: str = BLANKS) -> list[Spelled]:
    """Splits arguments, as they stand in a command, into the words that the command gets."""
    splitter = _Splitter(separators)
    for text in texts:
        splitter.add(text)
        splitter.end()
    return splitter.words
