"""What a variable of a script may hold: texts with their places, unknown parts, alternatives."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice, product

from auditor.serve.scripts.words import Word

MOST_ALTERNATIVES = 16
"""Texts that one word may have; a word with more of them counts as unknown."""

MOST_OPTIONS = 64
"""Texts that one choice may hold; a variable with more of them counts as unknown."""


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

    def conditional(self, offset: int) -> bool:
        """Whether only some runs have the text there."""
        del offset
        return False


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
    """A text that a script put together of pieces."""

    def __init__(self, path: str, pieces: Iterable[tuple[Piece, bool]]) -> None:
        parts: list[bytes] = []
        self._starts: list[int] = []
        self._pieces: list[tuple[Piece, bool]] = []
        at = 0
        for piece, conditional in pieces:
            self._starts.append(at)
            self._pieces.append((piece, conditional))
            parts.append(piece.text.encode("utf-8", "replace"))
            at += len(parts[-1])
        super().__init__(b"".join(parts), path)
        self.known = all(piece.resolved for piece, _ in self._pieces)

    def place(self, offset: int) -> tuple[str, int, int]:
        """Where the piece of that byte was written."""
        if not self._pieces:
            return self.path, 1, 1
        index = max(0, bisect_right(self._starts, offset) - 1)
        piece, _ = self._pieces[index]
        inside = offset - self._starts[index] if piece.exact else 0
        return piece.source.place(piece.offset + inside)

    def conditional(self, offset: int) -> bool:
        """Whether the piece of that byte is there in some runs only."""
        index = max(0, bisect_right(self._starts, offset) - 1)
        return bool(self._pieces) and self._pieces[index][1]


@dataclass(frozen=True)
class Piece:
    """A part of a text; ``exact`` says that its bytes are those of the source at ``offset``.

    ``quoted`` keeps it from being split into words. ``soft`` is a default that the environment of
    the script may replace; ``outside`` an unknown text that the script's caller gives.
    """

    text: str
    source: Source
    offset: int
    quoted: bool = True
    resolved: bool = True
    exact: bool = True
    soft: bool = False
    outside: bool = False


@dataclass(frozen=True)
class Choice:
    """One of several texts, by branches that are not decided here."""

    options: tuple[Text, ...]
    size: int = field(init=False, compare=False)
    depth: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        # Options share their parts: added up anew each time, nested ones would take for ever.
        object.__setattr__(self, "size", 1 + sum(size(option) for option in self.options))
        object.__setattr__(self, "depth", 1 + max(map(depth, self.options), default=0))


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
            total += token.size
        else:
            total += 1
    return total


def depth(text: Text) -> int:
    """How many choices of a text stand within each other."""
    return max((token.depth for token in text if isinstance(token, Choice)), default=0)


def quoted(text: Text, quote: bool) -> Text:
    """The text as it stands inside (or outside) quotes."""
    made: list[Token] = []
    for token in text:
        if isinstance(token, Piece):
            made.append(token if token.quoted == quote else replace(token, quoted=quote))
        elif isinstance(token, Choice):
            made.append(Choice(tuple(quoted(option, quote) for option in token.options)))
        else:
            made.append(token)
    return tuple(made)


def scalar(text: Text) -> Text:
    """The text as one string: elements joined by a space."""
    made: list[Token] = []
    waiting: Piece | None = None
    last: Piece | None = None
    for token in text:
        if isinstance(token, Break):
            if last is not None:
                waiting = replace(last, text=" ", exact=False)
            continue
        if waiting is not None:
            made.append(waiting)
            waiting = None
        if isinstance(token, Choice):
            made.append(Choice(tuple(scalar(option) for option in token.options)))
        else:
            made.append(token)
            last = token
    return tuple(made)


def options(text: Text) -> int:
    """The most texts that one choice of a text holds."""
    return max((len(token.options) for token in text if isinstance(token, Choice)), default=0)


def constant(text: Text, soft: bool = True) -> str | None:
    """The one string that a text surely is, None where there are unknown parts or alternatives.

    With ``soft`` False a default counts as unknown, too.
    """
    parts: list[str] = []
    for token in text:
        if not isinstance(token, Piece) or not token.resolved or (token.soft and not soft):
            return None
        parts.append(token.text)
    return "".join(parts)


def is_empty(text: Text) -> bool:
    """Whether a text is surely the empty string."""
    return all(isinstance(token, Piece) and not token.text for token in text)


def join(first: Text, second: Text) -> Text:
    """What a variable may hold after two branches.

    What both share stays as it is, so that appending in branches does not multiply texts.
    """
    if first == second:
        return first
    shortest = min(len(first), len(second))
    start = 0
    while start < shortest and first[start] == second[start]:
        start += 1
    end = 0
    while end < shortest - start and first[-1 - end] == second[-1 - end]:
        end += 1
    one, other = first[start : len(first) - end], second[start : len(second) - end]
    if _from_outside(one) and _given(other):
        middle: Text = other
    elif _from_outside(other) and _given(one):
        middle = one
    else:
        options: list[Text] = []
        for side in (one, other):
            if len(side) == 1 and isinstance(side[0], Choice):
                options.extend(side[0].options)
            else:
                options.append(side)
        distinct = _distinct(options)
        middle = (Choice(distinct),) if len(distinct) > 1 else distinct[0]
    return first[:start] + middle + first[len(first) - end :]


def _distinct(options: Iterable[Text]) -> tuple[Text, ...]:
    """Leaves out options that say the same as one before, wherever they were written."""
    found: dict[object, Text] = {}
    for option in options:
        value = constant(option)
        found.setdefault(option if value is None or BREAK in option else value, option)
    return tuple(found.values())


def _from_outside(text: Text) -> bool:
    return any(isinstance(token, Piece) and token.outside for token in text)


def _given(text: Text) -> bool:
    value = constant(text)
    return value is not None and value != ""


class _Splitter:
    """Splits pieces into words as a shell does after expansion."""

    def __init__(self) -> None:
        self.words: list[Spelled] = []
        self._current: list[Token] | None = None
        self._conditional = False

    def add(self, text: Text) -> None:
        for token in text:
            if isinstance(token, Break):
                if self._current is None:
                    continue
                self.end()
            elif isinstance(token, Choice):
                self._choice(token)
            elif token.quoted or not token.resolved:
                self._append(token)
            else:
                self._split(token)

    def _append(self, token: Token) -> None:
        if self._current is None:
            self._current = []
        self._current.append(token)

    def _split(self, piece: Piece) -> None:
        at = 0
        text = piece.text
        consumed = 0
        for part in text.split():
            start = text.index(part, at)
            if start > at:
                self.end()
            consumed += len(text[at:start].encode())
            moved = piece.offset + consumed if piece.exact else piece.offset
            self._append(replace(piece, text=part, offset=moved))
            consumed += len(part.encode())
            at = start + len(part)
        if text[at:]:
            self.end()

    def _choice(self, choice: Choice) -> None:
        if all(_within_word(option) for option in choice.options):
            single = self._current is not None or all(
                not is_empty(option) and not _starts_flag(option) for option in choice.options
            )
            quoted_empty = all(
                option and all(isinstance(token, Piece) and token.quoted for token in option)
                for option in choice.options
            )
            if single or quoted_empty:
                self._append(choice)
                return
        before = self._conditional
        if self._current is not None and all(_begins_word(option) for option in choice.options):
            self.end()
        self._conditional = True
        for option in choice.options:
            self.add(option)
            self.end()
        self._conditional = before

    def end(self) -> None:
        """Ends the current word, if there is one."""
        if self._current is None:
            return
        tokens = tuple(self._current)
        self._current = None
        self.words.append(_word(tokens, self._conditional))


def _within_word(option: Text) -> bool:
    for token in option:
        if isinstance(token, Break):
            return False
        if isinstance(token, Choice):
            if not all(_within_word(inner) for inner in token.options):
                return False
        elif token.resolved and not token.quoted and token.text.split() != [token.text]:
            if token.text:
                return False
    return True


def _begins_word(option: Text) -> bool:
    first = option[0] if option else None
    return first is None or (isinstance(first, Piece) and first.text[:1].isspace())


def _starts_flag(option: Text) -> bool:
    first = option[0] if option else None
    return isinstance(first, Piece) and first.text[:1] == "-" and not first.text[1:2].isdigit()


def _word(tokens: Text, conditional: bool) -> Spelled:
    texts, resolved = _texts(tokens)
    pieces = list(each_piece(tokens))
    anchor = next((piece for piece in pieces if piece.text), pieces[0] if pieces else None)
    if anchor is None:
        return Spelled("", "", 1)
    path, line, column = anchor.source.place(anchor.offset)
    conditional = conditional or anchor.source.conditional(anchor.offset)
    return Spelled(
        text=texts[0],
        path=path,
        line=line,
        column=column,
        resolved=resolved,
        conditional=conditional,
        alternatives=texts if resolved and len(texts) > 1 else (),
        tokens=tokens,
    )


def _texts(tokens: Text) -> tuple[tuple[str, ...], bool]:
    """All texts of a word, and whether they are known."""
    parts: list[tuple[str, ...]] = []
    resolved = True
    for token in tokens:
        if isinstance(token, Piece):
            parts.append((token.text,))
            resolved = resolved and token.resolved
        elif isinstance(token, Choice):
            options: list[str] = []
            unknown: list[str] = []
            for option in token.options:
                texts, known = _texts(option)
                (options if known else unknown).extend(texts)
            resolved = resolved and not unknown
            parts.append(tuple(dict.fromkeys(unknown or options)) or ("",))
    many = islice(product(*parts), MOST_ALTERNATIVES + 1)
    found = tuple(dict.fromkeys("".join(combination) for combination in many))
    if len(found) > MOST_ALTERNATIVES:
        return found[:1], False
    return found, resolved


def each_piece(text: Text) -> Iterable[Piece]:
    """All pieces, those of every alternative."""
    for token in text:
        if isinstance(token, Piece):
            yield token
        elif isinstance(token, Choice):
            for option in token.options:
                yield from each_piece(option)


def split(texts: Sequence[Text]) -> list[Spelled]:
    """Splits arguments, as they stand in a command, into the words that the command gets."""
    splitter = _Splitter()
    for text in texts:
        splitter.add(text)
        splitter.end()
    return splitter.words


def flat(text: Text, conditional: bool = False) -> Iterable[tuple[Piece | Choice, bool]]:
    """Lays a text out for reading it as a script.

    Branches of several words follow each other, marked as conditional; a choice within a word is
    kept, for the caller to put a name in its place.
    """
    for token in scalar(text):
        if isinstance(token, Piece):
            yield token, conditional
        elif isinstance(token, Choice):
            options = [quoted(option, False) for option in token.options]
            if all(option and _within_word(option) for option in options):
                yield token, conditional
                continue
            last: Piece | None = None
            for option in options:
                for item in flat(option, True):
                    if isinstance(item[0], Piece):
                        last = item[0]
                    yield item
                if last is not None:
                    yield replace(last, text=" ", exact=False), True
