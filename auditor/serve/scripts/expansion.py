"""Reads the words of a bash script from its text and expands them, as bash does, in one run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from auditor.serve.scripts.arithmetic import Arithmetic, Unknown
from auditor.serve.scripts.braces import braced
from auditor.serve.scripts.parameters import Parameters
from auditor.serve.scripts.state import Binding, Shell
from auditor.serve.scripts.values import (
    BREAK,
    Choice,
    Piece,
    Source,
    Spelled,
    Text,
    Token,
    constant,
    quoted,
    scalar,
    split,
)
from auditor.serve.scripts.worlds import World

Substitution = Callable[[Source, int, int, Shell], Text | None]
"""Runs the body of ``$(…)``: what it prints, None where that is not known."""

_META = b" \t\n;&|<>()"
_SPECIAL = b"\\'\"$`"
_NAME = re.compile(rb"[A-Za-z_]\w*")
_ASSIGNMENT = re.compile(rb"([A-Za-z_]\w*)(\[)?")
_REDIRECT = re.compile(rb"(\d*|\{\w+\})(<<<|<<-?|<>|<&|>&|>>|>\||&>>|&>|<|>)")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{1,4})|(.))", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "e": "\x1b", "E": "\x1b", "a": "\a", "b": "\b"}


@dataclass(frozen=True)
class Redirect:
    """Where a command reads from or writes to."""

    sign: str
    descriptor: str
    target: Text


@dataclass(frozen=True)
class Assigned:
    """``NAME=…`` in front of a command or as one; ``elements`` are those of an array."""

    name: str
    index: tuple[int, int] | None
    append: bool
    text: Text | None
    elements: tuple[tuple[str | None, Text], ...] | None


@dataclass
class Command:
    """A simple command as read."""

    assigned: list[Assigned]
    words: list[Text]
    redirects: list[Redirect]


def settled(text: Text, world: World, ask: bool = False, keep: bool = False) -> Text:
    """A text as this run has it: without choices, and with what the run found out.

    Only with ``ask`` it is decided whether a default holds; else it does. With ``keep`` that stays
    open.
    """
    made: list[Token] = []
    for token in text:
        if isinstance(token, Choice):
            if keep and token.soft and world.filled(token.symbol) is None:
                made.append(token)
                continue
            made.extend(settled(_chosen(token, world, ask), world, ask, keep))
        elif isinstance(token, Piece) and not token.resolved and token.symbol:
            value = world.value(token.symbol)
            # That a program printed nothing is a guess of this run, and no value to judge.
            if value is None or (not value and token.symbol.startswith("(")):
                made.append(token)
            else:
                made.append(
                    replace(token, text=value, resolved=True, exact=False, symbol="", outside=False)
                )
        else:
            made.append(token)
    return tuple(made)


def _chosen(choice: Choice, world: World, ask: bool) -> Text:
    if not choice.soft:
        return choice.options[world.choose(len(choice.options), ("choice", choice))]
    filled = world.filled(choice.symbol)
    if filled is None and ask:
        filled = not world.is_default(choice.symbol)
    return choice.options[1 if filled else 0]


class Expander(Parameters):
    """Reads and expands the words of one source in one shell of one run."""

    def __init__(
        self, source: Source, shell: Shell, world: World, substitution: Substitution
    ) -> None:
        super().__init__(source, shell, world)
        self._substitution = substitution

    def settle(self, text: Text, ask: bool = False, keep: bool = False) -> Text:
        """A text as this run has it; with ``ask`` it is decided whether defaults hold."""
        return settled(text, self.world, ask, keep)

    # -- commands --------------------------------------------------------------------------------

    def command(self, start: int, end: int) -> Command:
        """A simple command: its assignments, its words before they are split, its redirections."""
        found = Command([], [], [])
        at = start
        while True:
            at = self._blanks(at, end)
            if at >= end or self.data[at : at + 1] in {b"#", b";", b"\n", b"&", b"|", b")"}:
                if self.data[at : at + 2] != b"&>" or at >= end:
                    return found
            match = _REDIRECT.match(self.data, at, end)
            if match is not None and not self.data.startswith((b"<(", b">("), match.end() - 1):
                at = self._redirect(match, end, found)
                continue
            if not found.words:
                assigned, after = self.assignment(at, end)
                if assigned is not None:
                    found.assigned.append(assigned)
                    at = after
                    continue
            text, after = self.word(at, end)
            if after <= at:
                return found
            found.words.extend(braced(text))
            at = after

    def _blanks(self, at: int, end: int) -> int:
        data = self.data
        while at < end:
            if data[at : at + 1] in b" \t":
                at += 1
            elif data[at : at + 2] == b"\\\n":
                at += 2
            elif data[at : at + 3] == b"\\\r\n":
                at += 3
            else:
                break
        return at

    def _redirect(self, match: re.Match[bytes], end: int, found: Command) -> int:
        sign, descriptor = match.group(2).decode(), match.group(1).decode()
        at = self._blanks(match.end(), end)
        if self.data[at : at + 2] in {b"<(", b">("}:
            close = self.closing(at + 2, end, b"(", b")")
            printed = self._substitution(self.source, at + 2, close, self.shell)
            text = printed if printed is not None else (self.unknown(at, close + 1, True),)
            after = close + 1
        else:
            text, after = self.word(at, end)
        found.redirects.append(Redirect(sign, descriptor, text))
        return max(after, match.end())

    def declaration(self, start: int, end: int) -> tuple[list[str], list[Assigned | Text]]:
        """``declare`` and its kin: the keyword with its options, and what is declared."""
        words: list[str] = []
        rows: list[Assigned | Text] = []
        at = start
        while True:
            at = self._blanks(at, end)
            match = _REDIRECT.match(self.data, at, end)
            if at >= end or match is not None:
                return words, rows
            assigned, after = self.assignment(at, end) if words else (None, at)
            if assigned is not None:
                rows.append(assigned)
            else:
                text, after = self.word(at, end)
                if after <= at:
                    return words, rows
                known = constant(self.settle(text))
                if not words or (known is not None and known[:1] in {"-", "+"} and not rows):
                    words.append(known or "")
                else:
                    rows.append(text)
            at = after

    def assignment(self, at: int, end: int) -> tuple[Assigned | None, int]:
        """An assignment at a place, and where it ends."""
        data = self.data
        match = _ASSIGNMENT.match(data, at, end)
        if match is None:
            return None, at
        after, index = match.end(), None
        if match.group(2) is not None:
            close = self.closing(after, end, b"[", b"]")
            index, after = (after, close), close + 1
        append = data[after : after + 2] == b"+="
        if not append and data[after : after + 1] != b"=":
            return None, at
        after += 2 if append else 1
        name = match.group(1).decode()
        if data[after : after + 1] == b"(":
            close = self.closing(after + 1, end, b"(", b")")
            rows = tuple(self._elements(after + 1, close))
            return Assigned(name, index, append, None, rows), close + 1
        text, last = self.word(after, end)
        if last == after:
            text = (self.piece("", after),)
        return Assigned(name, index, append, scalar(text) or (self.piece("", after),), None), last

    def _elements(self, at: int, end: int) -> Iterable[tuple[str | None, Text]]:
        """The elements of an array as written: their keys, where they have some, and texts."""
        while True:
            at = self._gap(at, end)
            if at >= end:
                return
            if self.data[at : at + 1] == b"[":
                close = self.closing(at + 1, end, b"[", b"]")
                if self.data[close + 1 : close + 2] == b"=":
                    key = constant(self.settle(self.range(at + 1, close)))
                    text, at = self.word(close + 2, end)
                    yield key if key is not None else "?", scalar(text)
                    continue
            text, after = self.word(at, end)
            if after <= at:
                at += 1
                continue
            at = after
            for one in braced(text):
                for word in self.split([one]):
                    yield None, word.tokens

    def _gap(self, at: int, end: int) -> int:
        """Where the next word of a list of several lines starts, past comments."""
        while at < end:
            at = self._blanks(at, end)
            sign = self.data[at : at + 1]
            if sign in {b"\n", b"\r"}:
                at += 1
            elif sign == b"#":
                found = self.data.find(b"\n", at, end)
                at = end if found < 0 else found
            else:
                break
        return min(at, end)

    def texts(self, start: int, end: int) -> list[Text]:
        """The words of a stretch, before they are split (``for X in …``)."""
        return self.command(start, end).words if start < end else []

    def split(self, texts: Sequence[Text], ask: bool = False) -> list[Spelled]:
        """The words that a command gets; with ``ask`` it is decided whether defaults hold."""
        separators = self.separators()
        return split([self.settle(text, ask, keep=not ask) for text in texts], separators)

    def separators(self) -> str:
        """What words are split at."""
        binding = self.shell.get("IFS")
        known = constant(self.settle(binding.text)) if binding is not None else None
        return " \t\n" if known is None else known

    # -- words -----------------------------------------------------------------------------------

    def word(self, at: int, end: int, stop: bytes = _META) -> tuple[Text, int]:
        """The word at a place, and where it ends."""
        data = self.data
        tokens: list[Token] = []
        if data[at : at + 2] in {b"<(", b">("}:
            close = self.closing(at + 2, end, b"(", b")")
            return (self.unknown(at, close + 1, True),), close + 1
        while at < end:
            sign = data[at : at + 1]
            if sign in stop:
                # An extended pattern: ?(…), @(…)
                if sign == b"(" and at and data[at - 1 : at] in b"?*+@!" and tokens:
                    close = self.closing(at + 1, end, b"(", b")")
                    tokens.append(self._plain(at, close + 1))
                    at = close + 1
                    continue
                break
            if sign == b"\\":
                at = self._escaped(at, end, tokens)
            elif sign == b"'":
                close = data.find(b"'", at + 1, end)
                close = end if close < 0 else close
                tokens.append(self.piece(self.slice(at + 1, close), at + 1))
                at = close + 1
            elif sign == b'"':
                inner, after = self._double(at + 1, end)
                tokens.extend(inner if inner or after - at > 2 else (self.piece("", at + 1),))
                at = after
            elif sign == b"$":
                text, at = self._dollar(at, end, False)
                tokens.extend(text)
            elif sign == b"`":
                text, at = self._backquote(at, end, False)
                tokens.extend(text)
            else:
                first = at
                while at < end and data[at : at + 1] not in _SPECIAL + stop:
                    at += 1
                tokens.append(self._plain(first, at))
        return tuple(tokens), at

    def _plain(self, start: int, end: int) -> Piece:
        return Piece(self.slice(start, end), self.source, start, literal=True)

    def _escaped(self, at: int, end: int, tokens: list[Token]) -> int:
        if at + 1 >= end:
            tokens.append(self._plain(at, end))
            return end
        if self.data[at + 1 : at + 2] == b"\n":
            return at + 2
        if self.data[at + 1 : at + 3] == b"\r\n":
            return at + 3
        # What is escaped may be the first byte of several.
        following = self.data[at + 1 : min(end, at + 5)].decode("utf-8", "replace")
        width = len(following[:1].encode())
        tokens.append(self.piece(self.slice(at + 1, at + 1 + width), at + 1))
        return at + 1 + width

    def _double(self, at: int, end: int, sign: bytes = b'"') -> tuple[Text, int]:
        """What stands between double quotes, from after the first one."""
        data = self.data
        tokens: list[Token] = []
        first = at
        while at < end:
            here = data[at : at + 1]
            if here == sign and sign:
                break
            if here not in b"\\$`":
                at += 1
                continue
            if at > first:
                tokens.append(self.piece(self.slice(first, at), first))
            if here == b"\\":
                following = data[at + 1 : at + 2]
                if following == b"\n":
                    at += 2
                elif following in {b"$", b"`", b"\\"} or (following == sign and sign):
                    tokens.append(self.piece(self.slice(at + 1, at + 2), at + 1))
                    at += 2
                else:
                    tokens.append(self.piece("\\", at))
                    at += 1
            elif here == b"$":
                text, at = self._dollar(at, end, True)
                tokens.extend(text)
            else:
                text, at = self._backquote(at, end, True)
                tokens.extend(text)
            first = at
        if at > first:
            tokens.append(self.piece(self.slice(first, at), first))
        return tuple(tokens), at + 1

    def range(self, start: int, end: int) -> Text:
        """A stretch expanded as if it stood between double quotes; a quote is a character."""
        return self._double(start, end, b"")[0]

    def default(self, start: int, end: int, quote: bool) -> Text:
        """The word of ``${V:-word}``: outside of quotes its blanks part words."""
        if quote:
            return self.range(start, end)
        text, _ = self.word(start, end, b"")
        return tuple(
            replace(token, quoted=False, literal=False)
            if isinstance(token, Piece) and token.literal
            else token
            for token in text
        )

    def pattern_text(self, start: int, end: int) -> Text:
        """A pattern within ``${…}`` or of a ``case``: what is not quoted in it has its meaning."""
        return self.settle(self.word(start, end, b"")[0])

    def heredoc(self, start: int, end: int, raw: bool) -> Text:
        """The text of a here-document; only ``$``, backquote and backslash can be escaped."""
        if raw:
            return (self.piece(self.slice(start, end), start),)
        return self.range(start, end)

    def _backquote(self, at: int, end: int, quote: bool) -> tuple[Text, int]:
        close = at + 1
        while close < end and self.data[close : close + 1] != b"`":
            close += 2 if self.data[close : close + 1] == b"\\" else 1
        return self._printed(at, at + 1, min(close, end), close + 1, quote), close + 1

    def _printed(self, start: int, first: int, last: int, end: int, quote: bool) -> Text:
        printed = self._substitution(self.source, first, last, self.shell)
        if printed is None:
            return (self.unknown(start, end, quote),)
        return quoted(printed, quote) or ((self.piece("", first),) if quote else ())

    def _dollar(self, at: int, end: int, quote: bool) -> tuple[Text, int]:
        data = self.data
        if data.startswith(b"$((", at):
            close = self.closing(at + 3, end, b"(", b")")
            if data[close : close + 2] == b"))":
                return (self._sum(at, close + 2),), close + 2
        if data.startswith(b"$(", at):
            close = self.closing(at + 2, end, b"(", b")")
            return self._printed(at, at + 2, close, close + 1, quote), close + 1
        if data.startswith(b"${", at):
            close = self.closing(at + 2, end, b"{", b"}")
            return _unended(self.parameter(at + 2, close, at, close + 1, quote)), close + 1
        following = data[at + 1 : at + 2]
        if following == b"'" and not quote:
            close = at + 2
            while close < end and data[close : close + 1] != b"'":
                close += 2 if data[close : close + 1] == b"\\" else 1
            text = _ansi(self.slice(at + 2, min(close, end)))
            return (Piece(text, self.source, at + 2, exact=False),), close + 1
        if following == b'"' and not quote:
            inner, after = self._double(at + 2, end)
            return inner or (self.piece("", at + 1),), after
        match = _NAME.match(data, at + 1, end)
        if match is not None:
            name = match.group().decode()
            return self.value(name, None, at, match.end(), quote), match.end()
        if following.isdigit() or following in {b"@", b"*", b"#", b"?", b"$", b"!", b"-"}:
            if following and at + 1 < end:
                found = self.value(following.decode(), None, at, at + 2, quote)
                return _unended(found), at + 2
        return (self._plain(at, at + 1) if not quote else self.piece("$", at),), at + 1

    # -- arithmetic ------------------------------------------------------------------------------

    def _sum(self, start: int, end: int) -> Piece:
        try:
            number = self.calculated(start + 3, end - 2)
        except Unknown:
            found = self.unknown(start, end, True)
            self.world.assume_filled(found.symbol, silently=True)
            return found
        return Piece(str(number), self.source, start, exact=False)

    def calculated(self, start: int, end: int) -> int:
        """The value of an arithmetic expression, its assignments done; raises Unknown."""
        text = constant(self.settle(self.range(start, end)))
        if text is None:
            raise Unknown
        return self.number(text)

    def number(self, text: str) -> int:
        """The same for an expression that is expanded already."""
        return Arithmetic(text.replace('"', ""), self._number, self._count).value()

    def _number(self, name: str, depth: int = 0) -> int | None:
        binding = self.shell.get(name)
        if binding is None:
            return 0 if self.shell.knows(name) else None
        known = constant(self.settle(binding.text))
        if known is None or depth > 5:
            return None
        if not known.strip():
            return 0
        try:
            return Arithmetic(known, lambda n: self._number(n, depth + 1), self._count).value()
        except Unknown:
            return None

    def _count(self, name: str, value: int | None) -> None:
        before = self.shell.get(name)
        piece = Piece("" if value is None else str(value), self.source, 0, exact=False)
        if value is None:
            piece = replace(piece, text=f"${name}", resolved=False)
        exported = before.exported if before else False
        self.shell.variables[name] = Binding((piece,), exported=exported)


def _ansi(text: str) -> str:
    """What ``$'…'`` stands for."""

    def sign(match: re.Match[str]) -> str:
        hexadecimal, octal, code, other = match.groups()
        if other is not None:
            return _ESCAPES.get(other, other if other in "\\'\"?" else match.group())
        return chr(int(octal, 8) & 255 if octal else int(hexadecimal or code, 16))

    return _ESCAPE.sub(sign, text)


def _unended(text: Text) -> Text:
    """Elements within a word: what follows the last one belongs to it."""
    return text[:-1] if text and text[-1] is BREAK else text


def joined_words(words: Iterable[Text]) -> Text:
    """Words as one text, each ended."""
    return tuple(token for word in words for token in (*word, BREAK))
