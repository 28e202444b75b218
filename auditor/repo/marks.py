"""Marks of trees: texts that change whenever a tree does, made without reading its files."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from pathlib import Path

from auditor.repo.git import GitError, Repository
from auditor.repo.references import RELEASE_PREFIX
from auditor.repo.releases import cached_wheel
from auditor.repo.snapshot import PACKAGE, find_package, is_folder, on_disk

_SETTLED = 2 * 10**9
"""Nanoseconds after which a second write of a file shows in its times (git's racy index)."""
_CHUNK = 1 << 20


def mark_of(ref: str, repository: Repository | None, cache: Path) -> str | None:
    """What ``ref`` (as after ``--target``) names, told by marks; None where only reading tells.

    A commit is told by the ids of all its files (whose content is held against them as they are
    read), a release by the digest of its wheel, a folder by names, sizes, times and inodes of its
    files. A folder with a symlink, one that changed just now, or a checkout has none.
    """
    if ref.startswith(RELEASE_PREFIX):
        wheel = cached_wheel(ref.removeprefix(RELEASE_PREFIX), cache)
        return None if wheel is None else f"wheel {_file_digest(wheel)}"
    if is_folder(ref, repository):
        return _folder_mark(Path(ref).expanduser())
    if repository is None:
        return None
    commit = repository.commit(f"refs/tags/{ref}") or repository.commit(ref)
    if commit is None:
        return None
    try:
        listing = repository.run("ls-tree", "-r", "-z", "--full-tree", "--end-of-options", commit)
    except GitError:
        return None
    return f"commit {commit} {hashlib.sha256(listing).hexdigest()}"


def _file_digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _folder_mark(root: Path) -> str | None:
    try:
        root = root.resolve(strict=True)
        if any((folder / ".git").exists() for folder in (root, *root.parents)):
            return None
        folder = find_package("", on_disk(root))
        if folder is None:
            return None
        digest = hashlib.sha256(f"{PACKAGE} {folder}".encode())
        newest = _add(digest, os.fsencode(root / folder))
    except (OSError, _Unmarkable):
        return None
    return f"folder {root} {digest.hexdigest()}" if newest < time.time_ns() - _SETTLED else None


class _Unmarkable(Exception):
    """What the folder holds depends on more than its own entries."""


def _add(digest: hashlib._Hash, top: bytes) -> int:
    """Adds every entry below a folder; returns the newest time among them, in nanoseconds."""
    newest = 0
    pending = [top]
    while pending:
        current = pending.pop()
        digest.update(b"\0/" + current)
        with os.scandir(current) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != b"__pycache__":
                    pending.append(entry.path)
                continue
            told = entry.stat(follow_symlinks=False)
            if not stat.S_ISREG(told.st_mode):
                raise _Unmarkable
            newest = max(newest, told.st_mtime_ns, told.st_ctime_ns)
            facts = (told.st_mode, told.st_size, told.st_mtime_ns, told.st_ctime_ns, told.st_ino)
            digest.update(b"\0%b %d %d %d %d %d" % (entry.name, *facts))
    return newest
