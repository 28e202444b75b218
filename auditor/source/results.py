"""Keeps what an audit found by the content of all that went into it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")

_KEPT = 40
"""Results; the oldest go. One is some kilobytes."""


def content_key(parts: Iterable[str | bytes], trees: Iterable[Mapping[str, bytes]]) -> str:
    """A digest of texts and of whole trees, of this program's own code and of its Python.

    A tree is given as contents by path, or as digests of them.

    What cannot be parsed depends on the Python that runs.
    """
    digest = hashlib.sha256(_own_code())
    for part in parts:
        _add(digest, part.encode() if isinstance(part, str) else part)
    for tree in trees:
        digest.update(len(tree).to_bytes(8, "big"))
        for path, data in sorted(tree.items()):
            _add(digest, path.encode())
            _add(digest, data)
    return digest.hexdigest()


def _add(digest: hashlib._Hash, data: bytes) -> None:
    digest.update(len(data).to_bytes(8, "big"))
    digest.update(data)


@lru_cache(maxsize=1)
def _own_code() -> bytes:
    """Two checkouts may bear one version: a result is another program's if its code differs."""
    digest = hashlib.sha256(sys.version.encode())
    package = Path(__file__).parent.parent
    for path in sorted(package.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.digest()


class ResultStore(Generic[T]):
    """Values of one type by key, one file each; a file that cannot be read counts as missing."""

    def __init__(self, folder: Path | None, kind: type[T], kept: int = _KEPT) -> None:
        """``folder`` None keeps nothing; the oldest beyond ``kept`` go."""
        self._folder = folder / "results" if folder is not None else None
        self._kept = kept
        self._decoder = msgspec.msgpack.Decoder(kind)

    def load(self, key: str) -> T | None:
        """What was kept under a key."""
        if self._folder is None:
            return None
        try:
            return self._decoder.decode((self._folder / key).read_bytes())
        except (OSError, msgspec.DecodeError):
            return None

    def save(self, key: str, value: T) -> None:
        """Keep a value; a folder that cannot be written to is no matter."""
        if self._folder is None:
            return
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._folder, prefix=".new-")
            with os.fdopen(handle, "wb") as file:
                file.write(msgspec.msgpack.encode(value))
            Path(name).replace(self._folder / key)
            self._prune(self._folder)

    def _prune(self, folder: Path) -> None:
        """The oldest go, a file that was never finished among them."""
        files = list(folder.iterdir())
        files.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        for path in files[self._kept :]:
            path.unlink(missing_ok=True)
