"""The files of a fork that are not of the package: where its serve scripts lie."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from auditor.errors import Unreadable
from auditor.repo.files import MAX_ENTRIES, DiskFiles, Files, walk
from auditor.repo.git import GitError, blob_id
from auditor.repo.snapshot import Snapshot


@dataclass(frozen=True)
class Scripts:
    """The scripts that were asked for; none stands for the fork's own.

    ``paths`` are spelled as typed, relative to ``base``; ``trusted`` says that a user typed them.
    ``instead`` are contents that count in the place of what is on disk, by full path.
    """

    paths: tuple[str, ...] = ()
    base: Path = Path()
    trusted: bool = True
    instead: Mapping[Path, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Surroundings:
    """A fork's tree around the package; ``names`` are paths from its root.

    ``root`` is where the tree lies on disk, None for a revision. ``is_upstream`` says whether a
    file with that content is upstream's own; ``blind`` says why that cannot be told, empty where it
    can.
    """

    names: tuple[str, ...]
    read: Callable[[str], bytes | None]
    is_upstream: Callable[[str, bytes], bool]
    root: Path | None = None
    blind: str = ""


def surroundings(fork: Snapshot, others: Sequence[Snapshot]) -> Surroundings:
    """What lies around the package of a fork; ``others`` are the sides that are upstream's."""
    files = _all_files(fork)
    package = f"{fork.folder}/" if fork.folder else None
    names = [n for n in files.names if package is None or not n.startswith(package)]
    listed = frozenset(files.names)
    known = [
        (around, frozenset(around.names))
        for other in others
        if (around := _around(other)) is not None
    ]

    def read(name: str) -> bytes | None:
        if name not in listed:
            return None
        content = next(files.read([name]))
        return None if isinstance(content, Unreadable) else content

    def is_upstream(name: str, data: bytes) -> bool:
        return any(name in names and _same(theirs, name, data) for theirs, names in known)

    blind = ""
    if others and names and not known:
        ref = others[0].ref
        blind = (
            f"{ref} comes without scripts, so that the fork's own cannot be told from upstream's"
        )
    return Surroundings(tuple(names), read, is_upstream, root_of(fork), blind)


def root_of(fork: Snapshot) -> Path | None:
    """The folder on disk that a fork's paths start from, None for a revision."""
    return fork.files.root if isinstance(fork.files, DiskFiles) else None


def _all_files(fork: Snapshot) -> Files:
    if not isinstance(fork.files, DiskFiles):
        return fork.files
    root, instead = fork.files.root, fork.files.instead
    if fork.kind == "worktree" and fork.repository is not None:
        try:
            names = [entry.name for entry in fork.repository.index("")]
        except GitError:
            return fork.files
        return DiskFiles(root, names, instead)
    # A folder of installed packages holds everything but scripts.
    if fork.folder is not None and "/" not in fork.folder:
        return fork.files
    found = (name for name, _ in walk(root, ""))
    return DiskFiles(root, itertools.islice(found, MAX_ENTRIES), instead)


def _around(other: Snapshot) -> Files | None:
    """The files of another side that has more than the package."""
    if other.kind == "release":
        return None
    files = _all_files(other)
    package = f"{other.folder}/" if other.folder else ""
    return files if any(not name.startswith(package) for name in files.names) else None


def _same(files: Files, name: str, data: bytes) -> bool:
    stored = files.blob(name)
    if stored is not None and len(stored) == 40:
        return stored == blob_id(data)
    return next(files.read([name])) == data
