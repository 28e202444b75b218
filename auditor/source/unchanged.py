"""What a file shares with another version of it: the functions that need not be read again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

import msgspec

from auditor.source import facts as f
from auditor.source.statements import Piece, cut

_DIGEST = 40
"""Hexadecimal digits; 160 bits are enough against contents made to collide."""

_FUNCTION = re.compile(rb"([ \t]*)(?:async[ \t]+)?def[ \t]+(\w+)")
_CLASS = re.compile(rb"^class[ \t]+(\w+)", re.MULTILINE)


def digest(text: bytes, line: int = 0) -> str:
    """Tells functions apart by their lines, and by where they begin in another one."""
    return hashlib.sha256(b"%d\n%b" % (line, text)).hexdigest()[:_DIGEST]


def without(data: bytes, before: f.ModuleFacts) -> tuple[bytes, dict[int, f.FunctionFacts]]:
    """A file with a stub on the lines of each function that another version of it has too.

    Beside it the facts of these functions at their new place, by the line of their ``def``. A stub
    is parsed in no time, and ends on the line on which its function does.
    """
    known = {(one.qualname, one.digest): one for one in f.functions(before)}
    lines = data.split(b"\n")
    found: dict[int, f.FunctionFacts] = {}
    for piece in cut(data):
        text = _own_lines(piece)
        head = _FUNCTION.match(text[piece.decorators])
        name = _owner(piece) + head[2] if head else b""
        one = known.get((name.decode(errors="replace"), digest(b"\n".join(text))))
        if head is not None and one is not None:
            line, end = piece.start + piece.decorators, piece.start + len(text) - 1
            found[line] = msgspec.structs.replace(one, line=line, end_line=end)
            stub = [b""] * len(text)
            stub[piece.decorators] = head[1] + b"def _("
            stub[-1] += b"): ..."
            lines[piece.start - 1 : end] = stub
    return b"\n".join(lines), found


def digests(data: bytes, qualname: str) -> Iterator[str]:
    """What tells the functions of a name in a file apart, by its lines alone."""
    for piece in cut(data):
        text = _own_lines(piece)
        head = _FUNCTION.match(text[piece.decorators])
        if head is not None and _owner(piece) + head[2] == qualname.encode():
            yield digest(b"\n".join(text))


def _own_lines(piece: Piece) -> list[bytes]:
    """The lines of a piece without what stands between it and the next one."""
    text = piece.text.split(b"\n")
    while len(text) > 1 and (not text[-1].strip() or text[-1].lstrip().startswith(b"#")):
        text.pop()
    return text


def _owner(piece: Piece) -> bytes:
    """The class around a piece, with the dot that follows it."""
    name = _CLASS.search(piece.shell.text) if piece.shell else None
    return name[1] + b"." if name else b""
