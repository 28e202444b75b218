"""Changes of files as a patch that ``git apply`` takes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator

_CONTEXT = 3
_NO_NEWLINE = b"\n\\ No newline at end of file\n"
_QUOTED = re.compile(rb'[\x00-\x1f"\\\x7f-\xff]')
_SHORT = {b"\n": b"\\n", b"\t": b"\\t", b"\r": b"\\r", b'"': b'\\"', b"\\": b"\\\\"}


def patch(changes: Iterable[tuple[str, bytes, bytes]]) -> bytes:
    """A unified patch of (path, old, new) with the prefixes ``a/`` and ``b/``."""
    return b"".join(part for change in changes for part in _of_file(*change))


def _of_file(path: str, old: bytes, new: bytes) -> Iterator[bytes]:
    name = path.encode("utf-8", "surrogateescape")
    before, after = _name(b"a/" + name), _name(b"b/" + name)
    yield b"diff --git " + before + b" " + after + b"\n"
    # A tab ends a name that holds a blank, as git writes it.
    tab = b"\t" if b" " in name else b""
    lines = difflib.diff_bytes(
        difflib.unified_diff,
        _lines(old),
        _lines(new),
        before + tab,
        after + tab,
        n=_CONTEXT,
        lineterm=b"\n",
    )
    for line in lines:
        yield line if line.endswith(b"\n") else line + _NO_NEWLINE


def _lines(data: bytes) -> list[bytes]:
    """Lines as git has them, a carriage return being one more character of them."""
    found = data.split(b"\n")
    return [line + b"\n" for line in found[:-1]] + ([found[-1]] if found[-1] else [])


def _name(name: bytes) -> bytes:
    """A path as git quotes it: bytes that are no plain text as octal escapes."""
    if not _QUOTED.search(name):
        return name
    return b'"' + _QUOTED.sub(_escaped, name) + b'"'


def _escaped(match: re.Match[bytes]) -> bytes:
    return _SHORT.get(match[0]) or b"\\%03o" % match[0][0]
