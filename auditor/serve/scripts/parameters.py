"""Expands ``$NAME`` and ``${NAME…}`` in one run, as far as the script and the run decide them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

from auditor.serve.scripts.arithmetic import Unknown
from auditor.serve.scripts.patterns import in_case, pattern, replaced, trimmed
from auditor.serve.scripts.state import Binding, Shell
from auditor.serve.scripts.values import (
    BREAK,
    Choice,
    Piece,
    Source,
    Text,
    Token,
    constant,
    elements,
    quoted,
    scalar,
)
from auditor.serve.scripts.worlds import World

_HEAD = re.compile(rb"([!#]?)([A-Za-z_]\w*|[0-9]+|[@*#?$!-])")
_OPERATOR = re.compile(rb":?[-+=?]|##?|%%?|//?[#%]?|\^\^?|,,?|:|@")
_CASES: dict[str, Callable[[str], str]] = {
    "^^": str.upper,
    ",,": str.lower,
    "^": lambda text: text[:1].upper() + text[1:],
    ",": lambda text: text[:1].lower() + text[1:],
}
_LONGEST = 4096


class Parameters(ABC):
    """What the variables of a shell stand for in the words of one source."""

    def __init__(self, source: Source, shell: Shell, world: World) -> None:
        self.source = source
        self.data = source.data
        self.shell = shell
        self.world = world

    @abstractmethod
    def settle(self, text: Text, ask: bool = False, keep: bool = False) -> Text:
        """A text as this run has it; defaults hold, are asked for, or are kept open."""

    @abstractmethod
    def default(self, start: int, end: int, quote: bool) -> Text:
        """The word of ``${V:-word}``."""

    @abstractmethod
    def range(self, start: int, end: int) -> Text:
        """A stretch expanded as if it stood between double quotes."""

    @abstractmethod
    def pattern_text(self, start: int, end: int) -> Text:
        """A pattern within ``${…}``."""

    @abstractmethod
    def calculated(self, start: int, end: int) -> int:
        """The value of an arithmetic expression; raises Unknown."""

    def slice(self, start: int, end: int) -> str:
        """The text of a stretch as written."""
        return self.data[start:end].decode("utf-8", "replace")

    def piece(self, text: str, offset: int, exact: bool = True) -> Piece:
        """A known text."""
        return Piece(text, self.source, offset, exact=exact)

    def unknown(
        self, start: int, end: int, quote: bool, symbol: str = "", outside: bool = False
    ) -> Piece:
        """A stretch that only a run can tell."""
        text = self.slice(start, end)
        return Piece(
            text,
            self.source,
            start,
            quote,
            resolved=False,
            symbol=symbol or f"({text}",
            outside=outside,
        )

    def closing(self, at: int, end: int, opener: bytes, closer: bytes) -> int:
        """Where what was opened before ``at`` closes; the end where it does not."""
        data, first, depth = self.data, at, 1
        while at < end:
            sign = data[at : at + 1]
            if sign == b"\\":
                at += 2
                continue
            if sign == b"'" and opener != b'"':
                found = data.find(b"'", at + 1, end)
                at = end if found < 0 else found + 1
                continue
            if sign == b'"':
                at = self._past_quote(at + 1, end)
                continue
            if sign == b"`":
                found = data.find(b"`", at + 1, end)
                at = end if found < 0 else found + 1
                continue
            if sign == b"$" and data[at + 1 : at + 2] in {b"(", b"{"}:
                brace = data[at + 1 : at + 2]
                at = self.closing(at + 2, end, brace, b")" if brace == b"(" else b"}") + 1
                continue
            if sign == b"#" and opener == b"(" and data[at - 1 : at] in {b" ", b"\n", b"\t"}:
                found = data.find(b"\n", at, end)
                at = end if found < 0 else found
                continue
            if sign == closer:
                if closer == b")" and in_case(data[first:at]):
                    at += 1
                    continue
                depth -= 1
                if not depth:
                    return at
            elif sign == opener and opener != b"{":
                depth += 1
            at += 1
        return end

    def _past_quote(self, at: int, end: int) -> int:
        data = self.data
        while at < end:
            sign = data[at : at + 1]
            if sign == b'"':
                return at + 1
            if sign == b"\\":
                at += 2
            elif sign == b"$" and data[at + 1 : at + 2] in {b"(", b"{"}:
                brace = data[at + 1 : at + 2]
                at = self.closing(at + 2, end, brace, b")" if brace == b"(" else b"}") + 1
            else:
                at += 1
        return end

    # -- values ----------------------------------------------------------------------------------

    def value(self, name: str, index: str | None, start: int, end: int, quote: bool) -> Text:
        """What ``$NAME`` or ``${NAME[index]}`` stands for."""
        found = self._held(name, index, start, end, quote)
        if name in {"@", "*"} or index in {"@", "*"}:
            if name == "*" or index == "*":
                return quoted(scalar(found, self._between()), quote)
            return quoted(found, quote)
        return quoted(found, quote) or ((self.piece("", start),) if quote else ())

    def _between(self) -> str:
        binding = self.shell.get("IFS")
        known = constant(self.settle(binding.text)) if binding is not None else None
        return " " if known is None else known[:1]

    def _held(self, name: str, index: str | None, start: int, end: int, quote: bool) -> Text:
        if name in {"0", "BASH_SOURCE"}:
            path = self.shell.script if name == "0" else self.source.path
            # Who starts a script by its bare name has it on the path; here it is beside the caller.
            path = path if "/" in path else f"./{path}"
            return (Piece(path, self.source, start, quote, exact=False),)
        if name.isdigit() or name in {"@", "*", "#"}:
            return self._argument(name, start, end, quote)
        if not name.isidentifier():
            return (self.unknown(start, end, quote),)
        binding = self.shell.get(name)
        if binding is None:
            if name == "PWD" and self.shell.folder:
                return (Piece(self.shell.folder, self.source, start, quote, exact=False),)
            if self.shell.knows(name):
                return ()
            if index not in {None, "0", "@", "*"}:
                return (self.unknown(start, end, quote),)
            return self.settle((self.unknown(start, end, quote, name, outside=True),))
        return self.settle(self._element(binding, index, start, end, quote), keep=True)

    def _element(
        self, binding: Binding, index: str | None, start: int, end: int, quote: bool
    ) -> Text:
        if binding.items is None:
            if index in {"@", "*"}:
                return (*binding.text, BREAK)
            return binding.text if index in {None, "0"} else ()
        if index in {"@", "*"}:
            return binding.elements
        key: str | None = index
        if index is None:
            key = "0"
        elif not binding.keyed:
            try:
                number = int(index)
                key = str(
                    number if number >= 0 else max(map(int, binding.items), default=-1) + 1 + number
                )
            except ValueError:
                key = None
        if key is None or key == "?" or "?" in binding.items:
            return (self.unknown(start, end, quote),)
        return binding.items.get(key, ())

    def _argument(self, name: str, start: int, end: int, quote: bool) -> Text:
        known, shifted = self.shell.arguments, self.shell.shifted
        if known is not None:
            if name == "#":
                return (self.piece(str(len(known)), start, exact=False),)
            if name in {"@", "*"}:
                every = tuple(token for each in known for token in (*each, BREAK))
                return self.settle(every, keep=True)
            number = int(name[:4])
            return self.settle(known[number - 1], keep=True) if 0 < number <= len(known) else ()
        if name.isdigit():
            symbol = str(int(name[:4]) + shifted)
            return self.settle((self.unknown(start, end, quote, symbol, outside=True),))
        if name == "#":
            return (self.unknown(start, end, quote, f"#{shifted}", outside=True),)
        if self.world.filled(str(1 + shifted)) is False:
            return ()
        return (self.unknown(start, end, quote, f"@{shifted}", outside=True), BREAK)

    # -- ${…} ------------------------------------------------------------------------------------

    def parameter(self, at: int, close: int, start: int, end: int, quote: bool) -> Text:
        """What ``${…}`` stands for, from after its brace to before the closing one."""
        if self.data[at:close] == b"#":
            return self.value("#", None, start, end, quote)
        match = _HEAD.match(self.data, at, close)
        if match is None:
            return (self.unknown(start, end, quote),)
        sign, name = match.group(1).decode(), match.group(2).decode()
        at, index = match.end(), None
        if self.data[at : at + 1] == b"[":
            last = self.closing(at + 1, close, b"[", b"]")
            index = self.index(name, at + 1, last)
            at = last + 1
        if sign == "!":
            return self._indirect(name, index, at, close, start, end, quote)
        if sign == "#":
            return (self._length(name, index, start, end, quote),)
        operator = _OPERATOR.match(self.data, at, close)
        if operator is None:
            if at != close:
                return (self.unknown(start, end, quote),)
            return self.value(name, index, start, end, quote)
        text, rest = operator.group().decode(), operator.end()
        if text.lstrip(":") in {"-", "="} and text != ":":
            return self._or(name, index, text, rest, close, start, end, quote)
        if text in {"+", ":+"}:
            return self._instead(name, index, text, rest, close, start, end, quote)
        value = self.value(name, index, start, end, quote)
        if text in {"?", ":?"}:
            self._insist(value)
            return value
        if text == ":":
            return self._part(name, index, value, rest, close, start, end, quote)
        return self._mapped(value, text, rest, close, start, end, quote)

    def index(self, name: str, start: int, end: int) -> str | None:
        """What ``[…]`` behind a name asks for; ``?`` where that is not known."""
        raw = self.slice(start, end)
        if raw in {"@", "*"}:
            return raw
        binding = self.shell.get(name)
        if binding is not None and binding.keyed:
            text = self.settle(self.default(start, end, False), ask=True)
            known = constant(text)
            if known is not None:
                return known
            pieces = [t for t in text if isinstance(t, Piece) and (t.text or t.symbol)]
            if len(pieces) != 1 or binding.items is None:
                return "?"
            # One of the keys, or none of them.
            for key in binding.items:
                if self.world.equals(pieces[0].symbol, key):
                    return key
            return "?"  # a key of the caller's own: what a table lacks is nothing
        try:
            return str(self.calculated(start, end))
        except Unknown:
            return "?"

    def _indirect(
        self, name: str, index: str | None, at: int, close: int, start: int, end: int, quote: bool
    ) -> Text:
        binding = self.shell.get(name)
        if index in {"@", "*"}:
            if binding is None or binding.items is None or "?" in binding.items:
                return (self.unknown(start, end, quote), BREAK)
            keys = binding.items if binding.keyed else sorted(binding.items, key=int)
            made: list[Token] = []
            for key in keys:
                made += [Piece(key, self.source, start, quote, exact=False), BREAK]
            return tuple(made)
        held = constant(self.settle(self.value(name, index, start, end, True)))
        if held is None or at != close or not held.isidentifier():
            return (self.unknown(start, end, quote),)
        return self.value(held, None, start, end, quote)

    def _length(self, name: str, index: str | None, start: int, end: int, quote: bool) -> Piece:
        value = self.settle(self.value(name, index, start, end, True))
        if index in {"@", "*"} or name in {"@", "*"}:
            every = self.value("@" if name == "*" else name, index and "@", start, end, True)
            many = elements(self.settle(every))
            if all(isinstance(t, Piece) and t.resolved for each in many for t in each):
                return self.piece(str(len(many)), start, exact=False)
            return self.unknown(start, end, quote)
        known = constant(value)
        if known is None:
            return self.unknown(start, end, quote)
        return self.piece(str(len(known)), start, exact=False)

    def _is_empty(self, text: Text, ask: bool) -> bool | None:
        """Whether a text is empty; asks only where told to, None where it is not known then."""
        text = self.settle(text, ask)
        known = constant(text)
        if known is not None:
            return not known
        if any(isinstance(token, Piece) and token.resolved and token.text for token in text):
            return False
        symbols = [t.symbol for t in text if isinstance(t, Piece) and not t.resolved]
        if len(symbols) != 1:
            return None
        filled = self.world.is_filled(symbols[0]) if ask else self.world.filled(symbols[0])
        return None if filled is None else not filled

    def _or(
        self,
        name: str,
        index: str | None,
        operator: str,
        rest: int,
        close: int,
        start: int,
        end: int,
        quote: bool,
    ) -> Text:
        """``${V:-word}``: the word where the script sets no other value.

        What the caller of the script may set counts as not set until something asks for it: the
        word is what the script runs with. An empty word says only that the script does without a
        value: what its caller gives is not known.
        """
        word = self.default(rest, close, quote)
        value = self._held(name, index, start, end, quote)
        bound = self.shell.get(name) is not None
        empty = self._is_empty(value, ask=False)
        if empty is False or (empty and bound and ":" not in operator):
            found = value
        elif empty:
            found = word
        else:
            pieces = [t for t in value if isinstance(t, Piece) and not t.resolved]
            plain = constant(word) == "" or len(pieces) != 1
            choice = Choice((word, value), pieces[0].symbol if pieces else "", soft=True)
            found = value if plain else (choice,)
        if operator.endswith("=") and name.isidentifier() and index is None:
            before = self.shell.get(name)
            exported = before.exported if before else False
            self.shell.variables[name] = Binding(scalar(found), exported=exported)
        if found is word:
            return word if not quote or word else (self.piece("", start),)
        return quoted(found, quote) or ((self.piece("", start),) if quote else ())

    def _instead(
        self,
        name: str,
        index: str | None,
        operator: str,
        rest: int,
        close: int,
        start: int,
        end: int,
        quote: bool,
    ) -> Text:
        """``${V:+word}``: the word in those runs in which the variable is set."""
        binding = self.shell.get(name)
        many = index in {"@", "*"} or name in {"@", "*"}
        value = self._held(name, index, start, end, quote)
        known = all(isinstance(t, Piece) and t.resolved for t in value if t is not BREAK)
        if many and known:
            there = bool(value)
        elif binding is not None and ":" not in operator:
            there = True
        else:
            empty = self._is_empty(value, ask=True)
            there = not (not self.world.holds(self.slice(start, end)) if empty is None else empty)
        if not there:
            return (self.piece("", start),) if quote else ()
        word = self.default(rest, close, quote)
        return word or ((self.piece("", start),) if quote else ())

    def _insist(self, value: Text) -> None:
        for token in value:
            if isinstance(token, Piece) and not token.resolved and token.symbol:
                self.world.assume_filled(token.symbol)

    def _part(
        self,
        name: str,
        index: str | None,
        value: Text,
        rest: int,
        close: int,
        start: int,
        end: int,
        quote: bool,
    ) -> Text:
        """``${V:offset:length}``, of a text or of the elements of an array."""
        middle = rest
        depth = 0
        while middle < close:
            sign = self.data[middle : middle + 1]
            depth += (sign in {b"(", b"{"}) - (sign in {b")", b"}"})
            if sign == b":" and not depth:
                break
            middle += 1
        value = self.settle(value)
        try:
            offset = self.calculated(rest, middle)
            length = self.calculated(middle + 1, close) if middle < close else None
        except Unknown:
            return (self.unknown(start, end, quote),)
        if index in {"@", "*"} or name in {"@", "*"}:
            rows = elements(value)
            if name in {"@", "*"}:
                offset -= 1
            chosen = rows[offset if offset >= 0 else max(0, len(rows) + offset) :]
            chosen = chosen if length is None else chosen[: max(0, length)]
            if self.shell.arguments is None and name in {"@", "*"}:
                return (self.unknown(start, end, quote, outside=True), BREAK)
            return tuple(token for row in chosen for token in (*row, BREAK))
        known = constant(value)
        if known is None:
            return (self.unknown(start, end, quote),)
        first = offset if offset >= 0 else max(0, len(known) + offset)
        last = len(known) if length is None else first + length if length >= 0 else length
        return self._as(value, known[first:last], start, quote)

    def _as(self, value: Text, text: str, start: int, quote: bool) -> Text:
        """A text that was made of another, at its place."""
        origin = next((t for t in value if isinstance(t, Piece)), self.piece("", start))
        return (replace(origin, text=text, exact=False, quoted=quote, literal=False),)

    def _mapped(
        self, value: Text, operator: str, rest: int, close: int, start: int, end: int, quote: bool
    ) -> Text:
        """A change of the text, or of each element."""
        made: list[Token] = []
        many = BREAK in value
        for row in elements(value) if many else [value]:
            if len(row) == 1 and isinstance(row[0], Choice):
                both = (
                    self._mapped(o, operator, rest, close, start, end, quote)
                    for o in row[0].options
                )
                made.append(replace(row[0], options=tuple(both)))
                continue
            known = constant(self.settle(row))
            changed = None if known is None else self._changed(known, operator, rest, close)
            if changed is None:
                made.append(self.unknown(start, end, quote))
            else:
                made.extend(self._as(row, changed, start, quote))
            if many:
                made.append(BREAK)
        return tuple(made)

    def _changed(self, text: str, operator: str, rest: int, close: int) -> str | None:
        if len(text) > _LONGEST:
            return None
        if operator in _CASES:
            return _CASES[operator](text) if rest == close else None
        if operator == "@":
            how = self.slice(rest, close)
            return {"U": text.upper(), "L": text.lower(), "u": _CASES["^"](text)}.get(how)
        new: str | None = ""
        middle = close
        if operator.startswith("/"):
            middle = self._slash(rest, close)
            if middle < close:
                new = constant(self.settle(self.default(middle + 1, close, True)))
        regex = pattern(self.pattern_text(rest, middle))
        if regex is None or new is None:
            return None
        if operator.startswith("/"):
            return replaced(text, operator, regex, new)
        return trimmed(text, operator, regex)

    def _slash(self, at: int, close: int) -> int:
        """Where the pattern of a replacement ends."""
        while at < close and self.data[at : at + 1] != b"/":
            if self.data[at : at + 2] == b"${":
                at = self.closing(at + 2, close, b"{", b"}")
            at += 2 if self.data[at : at + 1] == b"\\" else 1
        return min(at, close)
