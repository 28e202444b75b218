"""Picks by bytes the files, and of these the functions, that enter a stream or copy to the host."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence

from auditor.source import facts as f
from auditor.source.scans import Scans
from auditor.source.statements import Piece, cut

Read = Callable[[Mapping[str, bytes]], Mapping[str, f.ModuleFacts]]
"""Gives the facts of files by path and content; what cannot be read is missing from the answer."""

_ENTERING = (".stream(", " stream(", "StreamContext(", "stream_context(", "stream_ctx")
_ENTERS = re.compile(rb"tream(?:\(|Context\(|_context\(|_ctx)")
_COPIES = re.compile(rb"non_blocking\s*=\s*True")
_TELLING = (*map(str.encode, _ENTERING), b"wait_stream", b"wait_event")
_HOSTS = (b"cpu", b"host", b"pin")
_KEPT = re.compile(rb"self(\.\w+)\b[^=\n]{0,80}=[^=\n]{0,80}[. ]stream\(")
"""An attribute that holds a context."""
_DEFINED = re.compile(rb"def (\w+)")
_NEAR = 400
"""Bytes around a copy in which the host is named: the call, and what makes its buffer."""


def entering(sources: Mapping[str, bytes], scans: Scans) -> list[str]:
    """The files in which some block may enter a stream."""
    return scans.holding(sources, _ENTERING, _ENTERS)


def copying(sources: Mapping[str, bytes], scans: Scans) -> list[str]:
    """The files with a copy that does not block and may go to the host."""
    found = scans.holding(sources, ["non_blocking"], _COPIES)
    return [path for path in found if _copies(sources[path])]


def _copies(data: bytes) -> bool:
    at = data.find(b"non_blocking")
    while at >= 0:
        near = data[max(0, at - _NEAR) : at + _NEAR]
        if any(word in near for word in _HOSTS):
            return True
        at = data.find(b"non_blocking", at + 1)
    return False


class Shortened:
    """Files cut down to the functions that hold some words, so that few lines are parsed.

    What stands is on its own line; classes keep their heads. Equal contents give equal files.
    """

    def __init__(self) -> None:
        self._pieces: dict[int, tuple[bytes, list[Piece]]] = {}

    def file(self, data: bytes, words: Iterable[bytes]) -> bytes:
        """The file with the functions that hold one of the words."""
        wanted = tuple(words)
        return self._with(data, lambda text: any(word in text for word in wanted))

    def telling(self, data: bytes) -> bytes:
        """With what enters a stream, makes one wait for another, or copies to the host."""
        contexts = tuple(set(_KEPT.findall(data)))
        return self._with(data, lambda text: _tells(text) or any(c in text for c in contexts))

    def naming(self, data: bytes, words: Iterable[bytes]) -> set[bytes]:
        """The names of the functions that hold one of the words."""
        wanted = tuple(words)
        pieces = (piece for piece in self._cut(data) if any(w in piece.text for w in wanted))
        return {found[1] for piece in pieces if (found := _DEFINED.search(piece.text))}

    def _cut(self, data: bytes) -> list[Piece]:
        known = self._pieces.get(id(data))
        if known is None:
            known = self._pieces[id(data)] = (data, cut(data))
        return known[1]

    def _with(self, data: bytes, wanted: Callable[[bytes], bool]) -> bytes:
        pieces = self._cut(data)
        kept = [piece for piece in pieces if wanted(piece.text)]
        return data if len(pieces) == 1 else _put_together(data, pieces, kept)


def _tells(text: bytes) -> bool:
    if b"non_blocking" in text and any(word in text for word in _HOSTS):
        return True
    return any(word in text for word in _TELLING)


def _put_together(data: bytes, pieces: Sequence[Piece], kept: Sequence[Piece]) -> bytes:
    """The kept pieces on their lines, within the heads of their classes."""
    chosen = {id(piece) for piece in kept} | {id(piece.shell) for piece in kept}
    lines = [b""] * (data.count(b"\n") + 1)
    starts = [piece.start for piece in pieces if piece.shell is None] + [len(lines) + 1]
    for piece in pieces:
        if id(piece) in chosen:
            # A class by itself ends in a ``pass`` that stands in no file: not beyond its end.
            end = starts[bisect_right(starts, piece.start)]
            for number, line in enumerate(piece.text.split(b"\n"), start=piece.start):
                if line.strip() and number < end:
                    lines[number - 1] = line
    return b"\n".join(lines)
