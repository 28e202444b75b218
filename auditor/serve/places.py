"""Finds the files that a launch names, without leaving the folders it may look into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from auditor.model import Launch


@dataclass(frozen=True)
class Places:
    """Where the files of launches may lie.

    ``roots`` are folders on disk that may be read; ``tree`` reads a file of the audited tree by a
    path from its root, None where it has none. ``outside`` are the scripts that the user named:
    what these say of absolute paths may be read too.
    """

    roots: tuple[Path, ...]
    tree: Callable[[str], bytes | None]
    outside: frozenset[str] = frozenset()

    def read(self, launch: Launch, path: str) -> bytes | None:
        """The content of a file that a launch names, None where it is not found."""
        raise NotImplementedError
