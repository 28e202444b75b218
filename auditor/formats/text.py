"""Makes text fit for a terminal: control characters made visible, lines wrapped, colour applied."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

import msgspec

T = TypeVar("T")


class Screen(NamedTuple):
    """What a page is shown on: columns, whether colour is wanted, and how much to show.

    ``command`` is how to call this program on the same fork; ``ascii`` says that the screen has no
    other characters.
    """

    width: int = 100
    colour: bool = False
    verbose: bool = False
    quiet: bool = False
    command: str = "audit"
    ascii: bool = False


# What pages are drawn with, for a screen that has ASCII only.
_PLAIN = str.maketrans({"·": "-", "—": "-", "…": "...", "±": "+/-", "→": "->"})


# C0, DEL, C1, soft hyphen, bidirectional and zero-width controls, line separators, surrogates and
# tags: all that a terminal acts on, reorders or hides instead of showing, or that XML cannot hold.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\ufffe\uffff\U000e0000-\U000e007f]"
)


_SGR = re.compile(r"\x1b\[[0-9;]*m")


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if match[0] == "\n":
        return "\\n"
    if match[0] == "\t":
        return " "
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def printable(text: str) -> str:
    """One line of ``text`` that a terminal can only show: every control becomes its escape."""
    return text if text.isprintable() else _UNSAFE.sub(_escape, text)


def scrub(value: T) -> T:
    """The same value with every string in it printable; takes structs and what JSON holds.

    The one place where text of the audited tree is disarmed: a page is built from scrubbed values
    only.
    """
    if isinstance(value, msgspec.Struct):
        return msgspec.convert(_scrubbed(msgspec.to_builtins(value)), type(value))
    return _scrubbed(value)  # type: ignore[no-any-return]


def _scrubbed(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {_scrubbed(key): _scrubbed(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_scrubbed(item) for item in value]
    return value


def encodable(value: Any) -> Any:
    """Text with lone surrogates (a file name that is no UTF-8) as text every parser takes.

    Takes what JSON holds.
    """
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {encodable(key): encodable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encodable(item) for item in value]
    return value


def can_draw(encoding: str) -> bool:
    """Whether an encoding has the characters that pages are drawn with."""
    try:
        "".join(map(chr, _PLAIN)).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def finished(lines: Iterable[str], screen: Screen) -> str:
    """The lines of a page as the text that is shown, ending in a newline."""
    text = "\n".join(lines) + "\n"
    return text.translate(_PLAIN) if screen.ascii else text


def columns_of(text: str) -> int:
    """How many columns of a terminal a text takes.

    CJK takes two, an accent that joins none; codes of colour and controls take none.
    """
    if text.isascii() and "\x1b" not in text:
        return len(text)
    # Late: most of what the command says by itself is ASCII.
    from wcwidth import wcswidth

    plain = _SGR.sub("", text)
    columns = wcswidth(plain)
    return columns if columns >= 0 else sum(map(width_of, plain))


def width_of(character: str) -> int:
    """The columns of a character by itself."""
    from wcwidth import wcwidth

    return max(0, wcwidth(character))


def head_of(text: str, most: int) -> str:
    """The longest beginning of a text without colour that takes ``most`` columns or less."""
    if text.isascii() and "\x1b" not in text:
        return text[: max(0, most)]
    end, room = 0, most
    for character in text:
        room -= width_of(character)
        if room < 0:
            break
        end += 1
    # Characters that join may take more together than alone.
    while columns_of(text[:end]) > most:
        end -= 1
    return text[:end]


def clip(text: str, most: int) -> str:
    """A text without colour in ``most`` columns, the last of them a mark where more is left out."""
    return text if columns_of(text) <= most else f"{head_of(text, most - 1)}…"


def fold(text: str, most: int) -> list[str]:
    """A name in pieces of at most ``most`` columns (two or more), cut at a space or sign nearby.

    Joined, the pieces are the text.
    """
    pieces = []
    start = 0
    # Never looked at beyond a few lines: a name of a hostile tree may be as long as its file.
    while len(text) - start > (span := 4 * most) or columns_of(text[start:]) > most:
        piece = head_of(text[start : start + span], most) or text[start : start + 1]
        ends = [piece.rfind(" ") + 1, max(map(piece.rfind, "./_:")) + 1]
        end = next((end for end in ends if end > len(piece) // 3), len(piece))
        pieces.append(piece[:end])
        start += end
    return [*pieces, text[start:]]


def short_path(path: str, most: int) -> str:
    """A path in ``most`` columns, if that can be: folders in its middle are left out first.

    The name of the file, with the line behind it, is always whole.
    """
    first, *rest = path.split("/")
    if columns_of(path) <= most or len(rest) < 2:
        return path
    ways = [f"{first}/…/" + "/".join(rest[at:]) for at in range(1, len(rest))]
    # Two columns less: where the screen has ASCII only, the dots are three.
    return next((way for way in ways if columns_of(way) <= most - 2), f"…/{rest[-1]}")


def wrap(text: str, width: int, first: str = "", rest: str | None = None) -> list[str]:
    """``text`` in lines of at most ``width`` columns; words (so: paths) are never cut.

    ``first`` begins the first line and ``rest`` the others (default: as many spaces).
    """
    return _Wrapper(
        width,
        initial_indent=_Measured(first),
        subsequent_indent=_Measured(" " * columns_of(first) if rest is None else rest),
        break_long_words=False,
        break_on_hyphens=False,
    ).wrap(text) or [first.rstrip()]


class _Measured(str):
    """Text that is as long as it is wide on a terminal."""

    __slots__ = ()

    def __len__(self) -> int:
        return columns_of(str(self))


class _Wrapper(textwrap.TextWrapper):
    """Wraps at columns of a terminal, not at characters."""

    def _split(self, text: str) -> list[str]:
        return [_Measured(chunk) for chunk in super()._split(text)]


def wrap_phrases(text: str, width: int, first: str = "") -> list[str]:
    """Like ``wrap`` for phrases with `` · `` between them, none of which is broken over lines."""
    phrases = (phrase.replace(" ", "\xa0") for phrase in text.split(" · "))
    return [line.replace("\xa0", " ") for line in wrap(" · ".join(phrases), width, first)]


def count(number: int, noun: str, plural: str = "") -> str:
    """``1 file``, ``2 files``; ``plural`` where an s does not do."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


class Paint:
    """Puts SGR codes around text, or nothing where colour is off.

    Only codes that stay readable on light and dark backgrounds: no white, black, yellow or blue.
    """

    def __init__(self, colour: bool) -> None:
        self.colour = colour

    def _sgr(self, codes: str, text: str) -> str:
        return f"\x1b[{codes}m{text}\x1b[0m" if self.colour and text else text

    def bold(self, text: str) -> str:
        """A place or a heading."""
        return self._sgr("1", text)

    def dim(self, text: str) -> str:
        """What can wait: labels, notes."""
        return self._sgr("2", text)

    def bad(self, text: str) -> str:
        """Fails the run, or comes from this fork."""
        return self._sgr("1;31", text)

    def warn(self, text: str) -> str:
        """Wants attention."""
        return self._sgr("1;35", text)

    def good(self, text: str) -> str:
        """In order."""
        return self._sgr("32", text)

    def note(self, text: str) -> str:
        """A minor class of finding."""
        return self._sgr("36", text)

    def severity(self, severity: str, text: str) -> str:
        """``text`` in the colour of a severity."""
        if severity in ("critical", "high"):
            return self.bad(text)
        return self.warn(text) if severity == "medium" else self.note(text)
