"""Two trees, and the waits that the functions of one make and those of the other do not."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from dataclasses import dataclass

from auditor.claims import Lines
from auditor.source.statements import Piece
from auditor.waits.calls import VERBS, Calls
from auditor.waits.changed import Changed, Pair, Pieces
from auditor.waits.lines import body_of
from auditor.waits.losses import Loss, Shape, losses
from auditor.waits.moves import Moves
from auditor.waits.sites import Site
from auditor.waits.untouched import Telling
from auditor.waits.waiters import Waiters

_NAME = re.compile(rb"\w+")


@dataclass(frozen=True)
class Missing:
    """A wait of the earlier version of a function that the later one no longer makes as it did.

    ``path`` and ``line`` are where it is missed in the later tree, ``earlier`` and ``was`` where it
    stands in the earlier one; ``own`` and ``theirs`` are the lines of both versions. ``now`` is the
    line on which it stands in the later version, 0 where it does not; ``about`` the line of the
    later version that it is held against, 0 where there is none.
    """

    shape: Shape
    path: str
    qualname: str
    line: int
    earlier: str
    was: int
    site: Site
    alone: bool
    now: int
    about: int
    why: str
    own: Lines
    theirs: Lines


class Comparison:
    """What the functions of two trees wait for; contents that are equal are one object in both."""

    def __init__(self, before: Pieces, after: Pieces, calls: Calls) -> None:
        self._calls = calls
        self._changed = Changed(before, after)
        self._waiters = Waiters(calls, before.sources)
        self._still = Waiters(calls, after.sources, self._waiters)
        self._moves = Moves(self._changed, self._still)

    def missing(self, only: Container[str] | None = None) -> Iterator[Missing]:
        """What the later tree lost, in the order of the files; ``only`` in some of its files."""
        for path, other in self._changed.files:
            if not path or (only is not None and other not in only):
                continue
            if not self._may_matter(path, other):
                continue
            for pair in self._changed.pairs(path, other, self._telling):
                for loss in self._losses(pair):
                    yield _placed(pair, loss)

    def _losses(self, pair: Pair) -> Iterator[Loss]:
        if self._moves.decorated(pair):
            return
        before = body_of(pair.before.facts, self._waiters)
        after = body_of(pair.after.facts, self._waiters)
        names = _Named(self._changed.before.sources[pair.before.path])
        for loss in losses(before, after, names):
            name = loss.site.name
            if loss.site.kind == "call" and loss.shape == "lost" and name not in self._still.names:
                continue  # there is nothing of that name to call any more
            if loss.site.kind == "keyed" and not any(line.works for line in after.lines):
                continue  # who reads behind a gate that this only waits on is judged by itself
            if loss.shape in ("lost", "lock", "weakened"):
                called = name if loss.site.kind == "call" else ""
                if self._moves.explains(pair, before, after, called):
                    continue
            yield loss

    def _may_matter(self, path: str, other: str) -> bool:
        """Whether a file waits, or may have called something less often that does."""
        before = self._changed.before.sources[path]
        after = self._changed.after.sources[other]
        if any(word in before for word in self._calls.literals):
            if self._calls.direct.search(before) is not None:
                return True
        return any(before.count(verb) > after.count(verb) for verb in map(str.encode, VERBS))

    def _telling(self, piece: Piece) -> Telling | None:
        """What tells the lines of a statement that may wait; None where none does."""
        direct = self._calls.direct
        called = self._waiters.among(piece.words)
        if called:
            return lambda line: bool(
                direct.search(line) or not called.isdisjoint(_NAME.findall(line))
            )
        return (lambda line: bool(direct.search(line))) if direct.search(piece.text) else None


def _placed(pair: Pair, loss: Loss) -> Missing:
    before, after = pair.before, pair.after
    return Missing(
        loss.shape,
        after.path,
        after.qualname,
        after.line_of(loss.near),
        before.path,
        before.line_of(loss.site.line),
        loss.site,
        loss.alone,
        0 if loss.now is None else after.line_of(loss.now.line),
        after.line_of(loss.about) if loss.about else 0,
        loss.why,
        (after.facts.line, after.facts.end_line),
        (before.facts.line, before.facts.end_line),
    )


class _Named:
    """The objects that a file names."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def known(self, said: str) -> bool:
        """Whether the last two names of an access stand somewhere: ``b.c`` of ``a.b.c``."""
        access = re.split(r"[(\[]", said)[0]
        last = re.findall(r"(?:\w+\.)?\w+$", access)
        named = re.compile(rb"\b%b\b" % re.escape(last[0].encode())) if last else None
        return named is None or named.search(self._data) is not None
