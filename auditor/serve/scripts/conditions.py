"""Decides the tests of a script in one run: ``[ … ]``, ``[[ … ]]`` and ``test``.

What the script alone does not decide is asked of the run, and what follows from its answer is
remembered: after ``[ "$1" = fast ]`` held, ``$1`` is ``fast``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from auditor.serve.scripts.patterns import matches, pattern
from auditor.serve.scripts.values import Piece, Source, Text, constant, shown
from auditor.serve.scripts.worlds import World

_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
}
_NOWHERE = Source(b"", "")
_NUMBER = re.compile(r"\s*[-+]?\d{1,15}\s*$")
_BINARY = frozenset({"=", "==", "!=", "=~", "<", ">", "-nt", "-ot", "-ef", *_NUMBERS})

Part = str | Text
"""An operator, or a text that is expanded and settled."""


class Test:
    """One test; ``is_set`` answers ``-v``, ``number`` works out a side of ``[[ A -eq B ]]``."""

    def __init__(
        self,
        parts: Sequence[Part],
        world: World,
        is_set: Callable[[str], bool | None],
        number: Callable[[str], int | None],
        shifted: int = 0,
    ) -> None:
        self._parts = parts
        self._world = world
        self._is_set = is_set
        self._number = number
        self._shifted = shifted
        self._at = 0

    def holds(self) -> bool:
        """Whether it holds in this run."""
        if not self._parts:
            return False
        return self._or(True)

    def _peek(self) -> Part:
        return self._parts[self._at] if self._at < len(self._parts) else ""

    def _or(self, live: bool) -> bool:
        value = self._and(live)
        while self._peek() in ("||", "-o") and isinstance(self._peek(), str):
            self._at += 1
            other = self._and(live and not value)
            value = value or other
        return value

    def _and(self, live: bool) -> bool:
        value = self._not(live)
        while self._peek() in ("&&", "-a") and isinstance(self._peek(), str):
            self._at += 1
            other = self._not(live and value)
            value = value and other
        return value

    def _not(self, live: bool) -> bool:
        if self._peek() == "!":
            self._at += 1
            return not self._not(live)
        if self._peek() == "(":
            self._at += 1
            value = self._or(live)
            self._at += self._peek() == ")"
            return value
        return self._one(live)

    def _one(self, live: bool) -> bool:
        """One comparison; where it does not matter it is passed over and asks nothing."""
        first = self._peek()
        self._at += 1
        following = self._peek()
        if isinstance(following, str) and following in _BINARY:
            self._at += 1
            other = self._peek()
            self._at += 1
            return live and self._compared(_text(first), following, _text(other))
        if isinstance(first, str) and len(first) == 2 and first[0] == "-":
            if self._at < len(self._parts) and not (
                isinstance(following, str) and following in {"&&", "||", ")", "-a", "-o"}
            ):
                self._at += 1
                return live and self._unary(first, _text(following))
        return live and not self._empty(_text(first))

    def _unary(self, operator: str, text: Text) -> bool:
        if operator == "-n":
            return not self._empty(text)
        if operator == "-z":
            return self._empty(text)
        if operator == "-v":
            known = self._is_set(constant(text) or "")
            return self._asked(f"-v {shown(text)}") if known is None else known
        return self._asked(f"{operator} {shown(text)}")

    def _asked(self, question: str) -> bool:
        return self._world.holds(question)

    def _empty(self, text: Text) -> bool:
        known = constant(text)
        if known is not None:
            return not known
        if any(isinstance(t, Piece) and t.resolved and t.text for t in text):
            return False
        symbols = {t.symbol for t in text if isinstance(t, Piece) and not t.resolved}
        if len(symbols) == 1:
            (symbol,) = symbols
            if symbol.startswith("@"):
                symbol = str(int(symbol[1:]) + 1)
            if not symbol.startswith("#"):
                return not self._world.is_filled(symbol)
            return False
        return not self._asked(f"-n {shown(text)}")

    def _compared(self, left: Text, operator: str, right: Text) -> bool:
        one, other = constant(left), constant(right)
        if operator in _NUMBERS:
            return self._counted(left, operator, right)
        if operator in {"=", "==", "!="}:
            return self._same(left, right) == (operator != "!=")
        if operator == "=~" and one is not None and other is not None:
            try:
                return re.search(other, one) is not None
            except re.error:
                pass
        if operator in {"<", ">"} and one is not None and other is not None:
            return one < other if operator == "<" else one > other
        return self._asked(f"{shown(left)} {operator} {shown(right)}")

    def _same(self, left: Text, right: Text) -> bool:
        regex, known = pattern(right), constant(left)
        exact = constant(right)
        plain = regex is not None and exact is not None and regex == re.escape(exact)
        if known is not None and regex is not None:
            found = matches(regex, known)
            if found is not None:
                return found
        symbol = symbol_of(left)
        if symbol and plain and exact is not None:
            return self._world.equals(symbol, exact)
        other = symbol_of(right)
        if other and known is not None:
            return self._world.equals(other, known)
        return self._asked(f"{shown(left)} = {shown(right)}")

    def _counted(self, left: Text, operator: str, right: Text) -> bool:
        one, other = (self._figure(text) for text in (left, right))
        if one is not None and other is not None:
            return _NUMBERS[operator](one, other)
        symbol = symbol_of(left)
        if symbol.startswith("#") and other is not None:
            return self.arguments(int(symbol[1:]), operator, other)
        if symbol and other is not None and operator in {"-eq", "-ne"}:
            return self._world.equals(symbol, str(other)) == (operator == "-eq")
        return self._asked(f"{shown(left)} {operator} {shown(right)}")

    def arguments(self, shifted: int, operator: str, count: int) -> bool:
        """Whether the script has so many arguments of which nothing is known."""
        if operator in {"-gt", "-ge", "-lt", "-le"}:
            least = count + (operator in {"-gt", "-le"})
            more = least <= 0 or self._world.is_filled(str(shifted + least))
            return more == (operator in {"-gt", "-ge"})
        enough = count <= 0 or self._world.is_filled(str(shifted + count))
        same = enough and not self._world.is_filled(str(shifted + count + 1))
        return same == (operator == "-eq")

    def _figure(self, text: Text) -> int | None:
        known = constant(text)
        if known is None:
            return None
        if _NUMBER.match(known):
            return int(known)
        return self._number(known)


def symbol_of(text: Text) -> str:
    """What an unknown text is as a whole, empty where it is more than that."""
    pieces = [token for token in text if isinstance(token, Piece) and (token.text or token.symbol)]
    if len(pieces) == 1 and not pieces[0].resolved:
        return pieces[0].symbol
    return ""


def _text(part: Part) -> Text:
    if isinstance(part, str):
        return (Piece(part, _NOWHERE, 0),) if part else ()
    return part
