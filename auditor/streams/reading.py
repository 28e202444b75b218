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

_ENTERS = tuple(
    re.compile(re.escape(word))
    for word in (b".stream(", b"StreamContext(", b"stream_context(", b"stream_ctx", b"with stream(")
)
_COPIES = re.compile(rb"non_blocking\s*=\s*True")
_ORDERING = (b"wait_stream", b"wait_event", b"wait(", b"synchronize(", b"_wait", b"stream_event")
"""What a function that makes a stream wait for another holds."""


def entering(sources: Mapping[str, bytes], scans: Scans) -> list[str]:
    """The files in which some block may enter a stream."""
    found = {path for word in _ENTERS for path in _holding(sources, scans, word)}
    return sorted(found)


def copying(sources: Mapping[str, bytes], scans: Scans) -> list[str]:
    """The files with a copy that does not block."""
    found = scans.holding(sources, ["non_blocking"], _COPIES)
    return sorted(path for path in found if b"cpu" in sources[path] or b".copy_(" in sources[path])


def _holding(sources: Mapping[str, bytes], scans: Scans, word: re.Pattern[bytes]) -> list[str]:
    literal = word.pattern.replace(b"\\", b"").decode()
    return scans.holding(sources, [literal], word)


class Shortened:
    """Files cut down to the functions that hold some words, so that few lines are parsed.

    What stands is on its own line; classes keep their heads. Equal contents give equal files.
    """

    def __init__(self) -> None:
        self._pieces: dict[int, tuple[bytes, list[Piece]]] = {}

    def file(self, data: bytes, words: Iterable[bytes]) -> bytes:
        """The file with the functions that hold one of the words, and its imports."""
        known = self._pieces.get(id(data))
        if known is None:
            known = self._pieces[id(data)] = (data, cut(data))
        wanted = tuple(words)
        pieces = known[1]
        kept = [piece for piece in pieces if _wanted(piece, wanted)]
        if len(pieces) == 1:
            return data
        return _put_together(data, pieces, kept)

    def entering(self, data: bytes) -> bytes:
        """With what enters a stream and what makes one wait."""
        return self.file(data, (*(p.pattern.replace(b"\\", b"") for p in _ENTERS), *_ORDERING))

    def copying(self, data: bytes) -> bytes:
        """With what copies to the host."""
        return self.file(data, (b"non_blocking",))


def _wanted(piece: Piece, words: Sequence[bytes]) -> bool:
    if piece.shell is None and piece.text.lstrip().startswith((b"import ", b"from ")):
        return True
    return any(word in piece.text for word in words)


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
