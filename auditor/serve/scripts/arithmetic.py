"""Arithmetic of a shell on whole numbers, with what it assigns."""

from __future__ import annotations

import re
from collections.abc import Callable

_TOKEN = re.compile(
    r"\s*(0[xX][0-9a-fA-F]+|\d+|[A-Za-z_]\w*|<<=|>>=|\+\+|--|&&|\|\||==|!=|<=|>=|<<|>>|\*\*"
    r"|[-+*/%&|^]=|[-+*/%<>=!&|^~?:(),])"
)
_LEVELS = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", "<=", ">", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
    ("**",),
)
_ASSIGNS = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="})
_MOST_TOKENS = 400
_LARGEST = 1 << 63


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "**": lambda left, right: int(left**right),
    "<<": lambda left, right: left << right,
    ">>": lambda left, right: left >> right,
    "&": lambda left, right: left & right,
    "|": lambda left, right: left | right,
    "^": lambda left, right: left ^ right,
    "==": lambda left, right: int(left == right),
    "!=": lambda left, right: int(left != right),
    "<": lambda left, right: int(left < right),
    "<=": lambda left, right: int(left <= right),
    ">": lambda left, right: int(left > right),
    ">=": lambda left, right: int(left >= right),
    "&&": lambda left, right: int(bool(left) and bool(right)),
    "||": lambda left, right: int(bool(left) or bool(right)),
}


class Unknown(Exception):
    """The value is not told here."""


class Arithmetic:
    """Works out one expression; ``get`` and ``put`` are the variables of the shell."""

    def __init__(
        self, text: str, get: Callable[[str], int | None], put: Callable[[str, int | None], None]
    ) -> None:
        self._tokens: list[str] = []
        self._get = get
        self._put = put
        self._at = 0
        self._silent = 0
        position = 0
        text = text.strip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None or len(self._tokens) > _MOST_TOKENS:
                raise Unknown
            self._tokens.append(match.group(1))
            position = match.end()

    def value(self) -> int:
        """The value; raises Unknown."""
        if not self._tokens:
            return 0
        result = self._comma()
        if self._at != len(self._tokens):
            raise Unknown
        if result is None:
            raise Unknown
        return result

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _comma(self) -> int | None:
        value = self._assigned()
        while self._peek() == ",":
            self._take()
            value = self._assigned()
        return value

    def _assigned(self) -> int | None:
        name = self._peek()
        following = self._tokens[self._at + 1] if self._at + 1 < len(self._tokens) else ""
        if name.isidentifier() and following in _ASSIGNS:
            self._at += 2
            value = self._assigned()
            if following != "=":
                value = _binary(following[:-1], self._read(name), value)
            return self._write(name, value)
        return self._ternary()

    def _ternary(self) -> int | None:
        test = self._binary(0)
        if self._peek() != "?":
            return test
        self._take()
        self._silent += test is None or not test
        one = self._assigned()
        self._silent -= test is None or not test
        if self._take() != ":":
            raise Unknown
        self._silent += test is None or bool(test)
        other = self._assigned()
        self._silent -= test is None or bool(test)
        return None if test is None else one if test else other

    def _binary(self, level: int) -> int | None:
        if level == len(_LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while self._peek() in _LEVELS[level]:
            operator = self._take()
            skipped = (operator == "&&" and left == 0) or (operator == "||" and bool(left))
            self._silent += skipped
            right = self._binary(level if operator == "**" else level + 1)
            self._silent -= skipped
            left = int(operator == "||") if skipped else _binary(operator, left, right)
        return left

    def _unary(self) -> int | None:
        token = self._take()
        if token in {"++", "--"}:
            name = self._take()
            return self._write(name, _binary(token[0], self._read(name), 1))
        if token in {"-", "+", "!", "~"}:
            value = self._unary()
            if value is None:
                return None
            return {"-": -value, "+": value, "!": int(not value), "~": ~value}[token]
        if token == "(":
            value = self._comma()
            if self._take() != ")":
                raise Unknown
            return value
        if token[:1].isdigit():
            digits = token.lower()
            base = 16 if digits.startswith("0x") else 8 if digits[0] == "0" else 10
            try:
                return int(digits, base)
            except ValueError:
                raise Unknown from None
        if not token.isidentifier():
            raise Unknown
        value = self._read(token)
        if self._peek() in {"++", "--"}:
            self._write(token, _binary(self._take()[0], value, 1))
        return value

    def _read(self, name: str) -> int | None:
        return self._get(name)

    def _write(self, name: str, value: int | None) -> int | None:
        if not self._silent:
            self._put(name, value)
        return value


def _binary(operator: str, left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return None
    if operator in {"/", "%"}:
        if right == 0:
            raise Unknown
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if operator == "/" else left - quotient * right
    if operator in {"<<", ">>", "**"} and not 0 <= right < 64:
        raise Unknown
    value = _OPERATIONS[operator](left, right)
    if abs(value) >= _LARGEST:
        raise Unknown
    return value
