"""Where a wait may have gone: into what a function calls now, or into what calls it."""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property

from auditor.source.statements import Piece
from auditor.waits.calls import JOINS, KEEPS, TAKES, says_wait
from auditor.waits.changed import Changed, Pair
from auditor.waits.lines import TELLS_NOTHING, Body
from auditor.waits.match import counted
from auditor.waits.waiters import Waiters

_PRIMITIVE = (JOINS, KEEPS, TAKES)


class Moves:
    """Which functions wait more often than they did, by name: a wait may have moved there.

    Names are all that is asked for: a wait that is told to have moved and did not is a missed
    alarm, one that is told to be lost and was moved is a false one.
    """

    def __init__(self, changed: Changed, waiters: Waiters) -> None:
        """``waiters`` are those of the later tree."""
        self._changed = changed
        self._waiters = waiters
        self._calls_that_wait = waiters.calls
        self._known: dict[tuple[str, str, str], bool] = {}

    def decorated(self, pair: Pair) -> bool:
        """Whether a function has a decorator that it had not, and that the later tree defines.

        What it does is not followed; one of a library waits for nothing that upstream's code made.
        """
        new = set(pair.after.facts.decorators) - set(pair.before.facts.decorators)
        defined = [b"def " + name.rpartition(".")[2].encode() for name in new]
        sources = self._changed.after.sources.values() if defined else ()
        return any(word in data for data in sources for word in defined)

    def explains(self, pair: Pair, before: Body, after: Body, waiter: str) -> bool:
        """Whether a function calls what waits in the place of a wait, or is called by what does.

        That is something it did not call so often before, or that did not wait so often.
        ``waiter`` is the name of the function that was called for the wait; empty for none.
        """
        key = (pair.after.path, pair.after.facts.digest, waiter)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._explains(pair, before, after, waiter)
        return known

    def _explains(self, pair: Pair, before: Body, after: Body, waiter: str) -> bool:
        name = pair.before.facts.name
        earlier = counted(before)
        # Any class may have one so named; or it is a wait of the function itself.
        silent = {name, *TELLS_NOTHING, *_PRIMITIVE, *self._calls_that_wait.kinds}
        for called, count in counted(after).items():
            if called in silent:
                continue
            if self._gained[called] > 0:
                return True
            if count <= earlier[called]:
                continue
            if says_wait(called) or called in self._waiters.names:
                return True
            if waiter and self._calls(pair, called, waiter):
                return True
        call = re.compile(rb"\b" + re.escape(name.encode()) + rb"\s*\(")
        return any(waiting != name and call.search(text) for waiting, text in self._texts)

    def _calls(self, pair: Pair, name: str, waiter: str) -> bool:
        """Whether a new function of the file calls what was called for the wait."""
        _, come = self._changed.differing(pair.before.path, pair.after.path)
        defined = re.compile(rb"\bdef[ \t]+" + re.escape(name.encode()) + rb"\b")
        call = re.compile(rb"\b" + re.escape(waiter.encode()) + rb"[ \t]*\(")
        return any(defined.search(p.text) and call.search(p.text) for p in come)

    @cached_property
    def _gained(self) -> Counter[str]:
        """By how much the functions of a name wait more often in the later tree."""
        found: Counter[str] = Counter()
        for gone, come in self._waiting:
            for piece in come:
                found.update(self._counts(piece))
            for piece in gone:
                found.subtract(self._counts(piece))
        return found

    @cached_property
    def _texts(self) -> list[tuple[str, bytes]]:
        """The functions of the later tree that wait more often, with the text around them."""
        return [
            (name, piece.text)
            for _, come in self._waiting
            for piece in come
            for name in self._counts(piece)
            if self._gained[name] > 0
        ]

    @cached_property
    def _waiting(self) -> list[tuple[list[Piece], list[Piece]]]:
        """What differs in files that wait now."""
        sources = self._changed.after.sources
        return [
            self._changed.differing(path, other)
            for path, other in self._changed.files
            if any(word in sources[other] for word in self._calls_that_wait.literals)
        ]

    def _counts(self, piece: Piece) -> Counter[str]:
        """How often each function in a statement waits, or calls what only waits."""
        found: Counter[str] = Counter()
        called = self._waiters.among(piece.words)
        if not called and not any(word in piece.text for word in self._calls_that_wait.literals):
            return found
        name = ""
        for match in self._calls_that_wait.counting(frozenset(called)).finditer(piece.text):
            if match[1]:
                name = match[1].decode()
            elif name:
                found[name] += 1
        return found
