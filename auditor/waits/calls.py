"""The calls that wait, by their names: in bytes, before anything is parsed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from auditor.vocabulary import WaitKind, words

KEEPS = "record_stream"
"""Keeps memory until another stream is done with it: a wait of the allocator's."""

TAKES = "acquire"
"""Takes a lock."""

JOINS = "join"
"""Waits for a thread, or makes one text of many."""

_LOCKS = frozenset(("lock", "rlock", "mutex", "semaphore", "locked", "synchronized"))
_SAYS = """
wait waits sync synchronize settle drain flush join fence barrier finalize ensure await hold until
"""
_WAIT_VERBS = frozenset(_SAYS.split())

VERBS = ("wait", "sync", "settle", "drain", "fence", "barrier")
"""Parts of the names of most functions that wait."""

_JOINED = rb"\.join\((?:\)|timeout|\d)"
_LOCKED = rb"@[\w.]{0,80}synchronized|with[ \t][^\n:]{0,200}(?:lock|mutex|semaphore)"


def says_wait(name: str) -> bool:
    """Whether a function's name says that it waits."""
    return not _WAIT_VERBS.isdisjoint(words(name))


def names_a_lock(name: str) -> bool:
    """Whether a name says that it is a lock: ``_lock``, ``writer_lock``, ``synchronized``."""
    return not _LOCKS.isdisjoint(words(name))


@lru_cache(maxsize=256)
def _counting(names: bytes, waiters: frozenset[bytes]) -> re.Pattern[bytes]:
    called = b"|".join(map(re.escape, sorted(waiters))) or b"(?!)"
    return re.compile(
        rb"\bdef[ \t]+(\w+)|[._](?:%b)\w{0,80}[ \t]{0,8}\(|%b|%b|\b(?:%b)[ \t]{0,8}\("
        % (names, _JOINED, _LOCKED, called)
    )


@dataclass(frozen=True)
class Calls:
    """The primitive waits of the vocabulary, and what goes with them."""

    kinds: Mapping[str, WaitKind]

    @cached_property
    def literals(self) -> tuple[bytes, ...]:
        """Texts of which one is in everything in a file that waits, or takes a lock."""
        locks = (b"acquire(", b"_lock", b".lock", b" lock", b"mutex", b"semaphore", b"synchronize")
        return (*self.dotted, *locks)

    @cached_property
    def dotted(self) -> tuple[bytes, ...]:
        """Texts of which one is in every wait of a file that is asked of an object."""
        names = sorted({*self.kinds, KEEPS})
        # ``.wait`` is part of ``.wait_event``: it need not be looked for twice.
        first = [n for n in names if not any(m != n and n.startswith(m) for m in names)]
        return (*(b"." + name.encode() for name in first), b".join()", b".join(timeout")

    @cached_property
    def direct(self) -> re.Pattern[bytes]:
        """A wait as it stands in a file; reading it tells whether it is one."""
        names = self._named((KEEPS, TAKES))
        return re.compile(
            rb"\.(?:%b)[ \t]{0,8}\(|synchronize[ \t]{0,8}\(|%b|%b" % (names, _JOINED, _LOCKED)
        )

    @cached_property
    def asked(self) -> re.Pattern[bytes]:
        """A wait that is asked of an object: of a thread, a stream, an event, the device."""
        return re.compile(rb"\.(?:%b|join(?=\(\)))[ \t]{0,8}\(" % self._named((KEEPS,)))

    def counting(self, waiters: frozenset[bytes]) -> re.Pattern[bytes]:
        """The head of a function (its name), or what waits; ``waiters`` are names that do."""
        return _counting(self._named((KEEPS, TAKES, *VERBS)), waiters)

    def _named(self, more: tuple[str, ...]) -> bytes:
        return b"|".join(re.escape(name.encode()) for name in sorted({*self.kinds, *more}))
