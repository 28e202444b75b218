"""Deals the words of a command line out to the flags of a tree, as argparse does."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from auditor.model import Launch, Passed
from auditor.serve.checks.spellings import Spellings
from auditor.serve.tables.facts import Flag
from auditor.serve.tables.flags import Resolution

END = "--"
"""After this word argparse takes every other one for a positional argument."""

_NEGATIVE = re.compile(r"-\d+$|-\d*\.\d+$")
# Which of these are values differs between the versions of Python.
_MAYBE_NUMBER = re.compile(r"-[\d.][\d._e+-]*$", re.IGNORECASE)
# Text that a person or a tool still fills in, and what only a shell would take for its own.
_OPEN = re.compile(
    r"[$`*]|^\[[A-Za-z-]|<[^<>]*>|[{][{]|[}][}]|[{][\w.]*[}]|[.]{3}$|…|^[&|;<>()]+$|^\d?[<>]"
)
# The rules on flags judge these.
_NAMED = re.compile(r"--?[A-Za-z][\w.-]+(?:=|$)")
DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
"""Signs that an editor puts in the place of a hyphen."""

_MANY = 1_000_000


@dataclass(frozen=True)
class Stray:
    """A word that belongs to no flag, with the words behind it that belong to none because of it.

    ``after`` is the flag before it, as written, which took all that it takes; empty at the start.
    """

    word: Passed
    text: str
    after: str = ""
    flag: Flag | None = None


@dataclass(frozen=True)
class Short:
    """A flag that is given fewer values than it needs."""

    word: Passed
    flag: Flag
    given: int
    needed: int


@dataclass
class Dealt:
    """What became of the words: only what is certain is in the first two.

    ``free`` says that some words are not known that may be flags.
    """

    strays: list[Stray] = field(default_factory=list)
    short: list[Short] = field(default_factory=list)
    free: bool = False


def deal(launch: Launch, spellings: Spellings) -> Dealt:
    """Deals the words of a launch out."""
    dealer = _Dealer(spellings)
    for word in launch.words:
        dealer.take(word)
    dealer.close()
    return dealer.dealt


def is_open(word: Passed) -> bool:
    """Whether the text of a word is not what the program gets."""
    return not word.resolved or word.many or _OPEN.search(word.text) is not None


def option(text: str, spellings: Spellings) -> Resolution | None:
    """What argparse makes of a word that it takes for an option, None where it is a value."""
    if not text.startswith("-") or len(text) == 1:
        return None
    found = spellings.resolution(text)
    if found.kind == "unknown" and (_NEGATIVE.match(text) or " " in text):
        return None
    return found


class _Dealer:
    def __init__(self, spellings: Spellings) -> None:
        self.spellings = spellings
        self.dealt = Dealt()
        self.ended = False
        self.open(None, None)

    def open(self, word: Passed | None, flag: Flag | None, least: int = 0, most: int = 0) -> None:
        """Further words are values of the flag, as many as it takes."""
        self.word, self.flag, self.given = word, flag, 0
        self.least, self.most = least, most
        self.sure = word is None or not word.conditional  # whose the next word is
        self.last: Passed | None = None  # the word that the strays behind it belong to

    def close(self) -> None:
        """No further value comes for the flag."""
        if self.sure and self.word is not None and self.flag is not None:
            if self.given < self.least:
                short = Short(self.word, self.flag, self.given, self.least)
                self.dealt.short.append(short)

    def take(self, word: Passed) -> None:
        if is_open(word):
            head, equals, _ = word.text.partition("=")
            known = equals and not word.many and not _OPEN.search(head)
            named = option(head, self.spellings) if known else None
            if named is None or named.flag is None or self.ended:
                self.unknown(word)
            else:
                self.close()
                self.begin(word, named._replace(value=""))
        elif self.ended:
            self.stray(word)
        elif word.text == END:
            self.close()
            self.open(None, None)
            self.ended = True
            self.stray(word)
        elif (found := option(word.text, self.spellings)) is not None:
            if self.given < self.most and _MAYBE_NUMBER.match(word.text):
                self.unknown(word)
                return
            self.close()
            self.begin(word, found)
        elif self.given < self.most:
            self.given += 1
            self.sure = self.sure and not word.conditional
        else:
            self.stray(word)

    def unknown(self, word: Passed) -> None:
        """A word that may be the value of the flag before it; else it may be any words."""
        flags = word.text.startswith("-") and not _MAYBE_NUMBER.match(word.text)
        if word.many or flags or self.given >= self.most:
            self.dealt.free = True
            self.open(None, None)
        self.given += 1
        self.sure = False

    def begin(self, word: Passed, found: Resolution) -> None:
        flag = found.flag
        if flag is None or flag.refused:
            self.open(None, None)
            if found.kind == "unknown" and not _NAMED.match(word.text):
                self.stray(word)
            self.sure = False  # what follows belongs to whatever was meant
            return
        least, most = _needs(flag) if flag.takes_value else (0, 0)
        if found.value is not None:
            if least > 1 and not word.conditional:
                self.dealt.short.append(Short(word, flag, 1, least))
            least = most = 0
        self.open(word, flag, least, most)

    def stray(self, word: Passed) -> None:
        self.sure = self.sure and not word.conditional
        # An empty word is more often a reader's mistake than a script's.
        if not self.sure or not word.text:
            return
        if self.last is not None and not word.text.startswith(("-", *DASHES)):
            before = self.dealt.strays[-1]
            self.dealt.strays[-1] = replace(before, text=f"{before.text} {word.text}")
            return
        written = self.word.text.partition("=")[0] if self.word is not None else ""
        self.dealt.strays.append(Stray(word, word.text, written, self.flag))
        self.last = word


def _needs(flag: Flag) -> tuple[int, int]:
    """How many words a flag with a value takes: at least and at most."""
    match flag.nargs:
        case "":
            return 1, 1
        case "?":
            return 0, 1
        case "*":
            return 0, _MANY
        case "+":
            return 1, _MANY
    return (int(flag.nargs), int(flag.nargs)) if flag.nargs.isdigit() else (0, _MANY)
