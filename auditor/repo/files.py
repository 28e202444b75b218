"""Where the bytes of a snapshot come from: git objects, a folder, a wheel, or memory."""

from __future__ import annotations

import copy
import os
import stat
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from auditor.errors import Unreadable, UsageProblem
from auditor.repo.git import REGULAR, SUBMODULE, SYMLINK, Entry, Repository, too_large

MAX_PYTHON = 4 << 20
"""Bytes of the largest Python file that is read; sglang's own largest has 0.3 MB."""
MAX_FILE = 64 << 20
"""Bytes of the largest other file that is read, only ever to see whether it differs."""

MAX_ENTRIES = 100_000
"""Names that a wheel or a folder may hold; sglang 0.5.23 has 5,800."""
MAX_UNPACKED = 2 << 30
"""Bytes that a wheel may unpack to; sglang 0.5.23 has 125 MB."""
_MAX_RATIO = 200
_MAX_LINKS = 5


class Files(Protocol):
    """A tree's readable files under printable names, and what was seen but cannot be read."""

    @property
    def names(self) -> Sequence[str]:
        """Every readable file's path below the tree's root."""

    @property
    def refused(self) -> Mapping[str, str]:
        """Paths that are not read, each with the reason."""

    def read(self, names: Sequence[str]) -> Iterator[bytes | Unreadable]:
        """The content of each named file, in the order asked for."""

    def blob(self, name: str) -> str | None:
        """Git's id of the content where it is known without reading."""


def printable(name: bytes) -> str:
    r"""A file name as valid text: bytes that are no UTF-8 become ``\xNN``."""
    return name.decode("utf-8", "backslashreplace")


def _limit(name: str) -> int:
    return MAX_PYTHON if name.endswith(".py") else MAX_FILE


class MemoryFiles:
    """Files given as text or bytes, such as the examples of a rule."""

    def __init__(self, contents: Mapping[str, str | bytes]) -> None:
        self._contents = {
            name: content.encode() if isinstance(content, str) else content
            for name, content in contents.items()
        }
        self.names = tuple(self._contents)
        self.refused: dict[str, str] = {}

    def read(self, names: Sequence[str]) -> Iterator[bytes | Unreadable]:
        """See Files."""
        for name in names:
            content, limit = self._contents[name], _limit(name)
            yield content if len(content) <= limit else too_large(len(content), limit)

    def blob(self, name: str) -> str | None:
        """See Files."""
        return None


class ObjectFiles:
    """The tree of a commit, read from the object database; symlinks are followed within it."""

    def __init__(self, repository: Repository, commit: str) -> None:
        self._repository = repository
        self._missing = repository.missing(commit)
        self._blobs: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        entries = {entry.name: entry for entry in repository.tree(commit)}
        links = [entry for entry in entries.values() if entry.mode == SYMLINK]
        targets = self._contents([link.blob for link in links], [MAX_PYTHON] * len(links))
        target_of = dict(zip((link.name for link in links), targets, strict=True))
        for entry in entries.values():
            name = printable(entry.name)
            found = _follow(entry.name, target_of, entries) if entry.mode == SYMLINK else entry
            if isinstance(found, str):
                self.refused[name] = found
            elif found.mode in REGULAR:
                self._blobs[name] = found.blob
            elif found.mode == SUBMODULE:
                self.refused[name] = "a submodule; audit it by itself"
        self.names = tuple(self._blobs)

    def read(self, names: Sequence[str]) -> Iterator[bytes | Unreadable]:
        """See Files."""
        return self._contents([self._blobs[n] for n in names], [_limit(n) for n in names])

    def blob(self, name: str) -> str | None:
        """See Files."""
        return self._blobs[name]

    def _contents(
        self, blobs: Sequence[str], limits: Sequence[int]
    ) -> Iterator[bytes | Unreadable]:
        there = [index for index, blob in enumerate(blobs) if blob not in self._missing]
        contents = self._repository.blobs([blobs[i] for i in there], [limits[i] for i in there])
        for blob in blobs:
            if blob in self._missing:
                yield Unreadable(self._repository.absence())
            else:
                yield next(contents)


def _follow(
    link: bytes, target_of: Mapping[bytes, bytes | Unreadable], entries: Mapping[bytes, Entry]
) -> Entry | str:
    """The file that a symlink of a tree names, or why there is none to read."""
    name = link
    for _ in range(_MAX_LINKS):
        target = target_of[name]
        if isinstance(target, Unreadable):
            return str(target)
        name = os.path.normpath(b"/".join((os.path.dirname(name) or b".", target)))  # noqa: PTH120
        if target.startswith(b"/") or name == b".." or name.startswith(b"../"):
            return "a symlink out of the tree"
        if name not in entries:
            return "a symlink to a folder or to nothing"
        if name not in target_of:
            return entries[name]
    return "a symlink that leads round in a circle"


class DiskFiles:
    """Files of a folder on disk; nothing outside ``root`` is read, whatever symlinks say.

    ``instead`` are contents that count in the place of what is on disk, by full path.
    """

    def __init__(
        self,
        root: Path,
        names: Iterable[bytes],
        instead: Mapping[Path, bytes] | None = None,
        plain: Collection[bytes] = (),
    ) -> None:
        """``plain`` are names that a listing of the folder has just shown as regular files."""
        self._root = os.fsencode(root)
        self._instead = dict(instead or {})
        self._raw: dict[str, bytes] = {}
        self.refused: dict[str, str] = {}
        inside: dict[bytes, bool] = {}
        for raw in names:
            path = os.path.join(self._root, raw)  # noqa: PTH118
            parent = os.path.dirname(path)  # noqa: PTH120
            if parent not in inside:
                inside[parent] = self._holds(parent)
            reason: str | None = ""
            if not inside[parent]:
                reason = "reached by a symlink out of the tree"
            elif raw not in plain:
                reason = self._obstacle(path)
            if reason == "":
                self._raw[printable(raw)] = raw
            elif reason is not None:
                self.refused[printable(raw)] = reason
        self.names = tuple(self._raw)

    @property
    def root(self) -> Path:
        """The folder that names start from."""
        return Path(os.fsdecode(self._root))

    @property
    def instead(self) -> Mapping[Path, bytes]:
        """What counts in the place of files on disk."""
        return self._instead

    def with_contents(self, instead: Mapping[Path, bytes]) -> DiskFiles:
        """The same files, some with other contents."""
        twin = copy.copy(self)
        twin._instead = dict(instead)
        return twin

    def path(self, name: str) -> Path | None:
        """Where a file lies, None for a name that is not listed."""
        raw = self._raw.get(name)
        return None if raw is None else Path(os.fsdecode(os.path.join(self._root, raw)))  # noqa: PTH118

    def read(self, names: Sequence[str]) -> Iterator[bytes | Unreadable]:
        """See Files."""
        for name in names:
            if self._instead:
                path = self.path(name)
                if path is not None and path.is_symlink():
                    path = path.resolve()
                if path in self._instead:
                    yield self._instead[path]
                    continue
            try:
                yield _content(self._root + b"/" + self._raw[name], _limit(name))
            except OSError as problem:
                yield Unreadable(problem.strerror or "cannot be read")

    def blob(self, name: str) -> str | None:
        """See Files."""
        return None

    def _obstacle(self, path: bytes) -> str | None:
        """Why a path cannot be read as a file: "" if it can, None if there is nothing."""
        try:
            if stat.S_ISREG(os.lstat(path).st_mode):
                return ""
        except OSError:
            return _obstacle(path)
        reason = _obstacle(path)
        if reason == "" and not self._holds(path):
            return "a symlink out of the tree"
        return reason

    def _holds(self, path: bytes) -> bool:
        real = os.path.realpath(path)
        return real == self._root or real.startswith(self._root.rstrip(b"/") + b"/")


def _content(path: bytes, limit: int) -> bytes | Unreadable:
    """A file's bytes; io's objects would cost a third of reading a release."""
    file = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(file).st_size
        asked = min(size, limit) + 1
        content = os.read(file, asked)
        # As much as asked for: the file has grown, or lies about its size.
        while len(content) == asked <= limit:
            content += os.read(file, limit)
            asked = limit + 1
    finally:
        os.close(file)
    return content if len(content) <= limit else too_large(max(size, len(content)), limit)


def _obstacle(path: bytes) -> str | None:
    """Why a path cannot be read as a file: "" if it can, None if there is nothing."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116
    except OSError as problem:
        if os.path.islink(path):  # noqa: PTH114
            return "a symlink to nothing"
        return None if isinstance(problem, FileNotFoundError | NotADirectoryError) else "unreadable"
    if stat.S_ISREG(mode):
        return ""
    if os.path.islink(path):  # noqa: PTH114
        return "a symlink to a folder or a device"
    if stat.S_ISDIR(mode):
        return "a repository of its own, or a folder that cannot be listed"
    return "not a regular file"


def walk(root: Path, folder: str) -> Iterator[tuple[bytes, bool]]:
    """Every file below a folder of ``root``, relative to ``root``, and whether it is a regular one.

    Symlinks are not entered.
    Virtual environments, caches and version control are left out, and every hidden folder at the
    top; below it a hidden folder can be part of a package.
    """
    base = os.fsencode(root)
    pending = [os.fsencode(folder)]
    while pending:
        current = pending.pop()
        try:
            entries = sorted(os.scandir(os.path.join(base, current)), key=lambda e: e.name)  # noqa: PTH118
        except OSError:
            # The name of the folder itself stands for what could not be listed.
            yield current, False
            continue
        if current and any(entry.name == b"pyvenv.cfg" for entry in entries):
            continue
        for entry in entries:
            path = os.path.join(current, entry.name)  # noqa: PTH118
            if not entry.is_dir(follow_symlinks=False):
                yield path, entry.is_file(follow_symlinks=False)
            elif not (entry.name in _NEVER or (not current and entry.name.startswith(b"."))):
                pending.append(path)


_NEVER = frozenset(
    b"__pycache__ .git .hg .svn .venv .tox .nox .eggs .mypy_cache .ruff_cache .pytest_cache"
    b" .hypothesis".split()
)


class WheelFiles:
    """The files of a wheel, read from the archive and never unpacked.

    Raises UsageProblem for an archive that is no zip or exceeds the bounds; single entries with a
    dangerous name or a bomb's compression are refused one by one.
    """

    def __init__(self, archive: Path) -> None:
        try:
            self._zip = zipfile.ZipFile(archive)
        except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile) as problem:
            raise UsageProblem(f"{archive.name} is not a readable wheel: {problem}") from None
        entries = self._zip.infolist()
        if len(entries) > MAX_ENTRIES:
            raise UsageProblem(f"{archive.name} holds more than {MAX_ENTRIES:,} entries; refused")
        if sum(entry.file_size for entry in entries) > MAX_UNPACKED:
            raise UsageProblem(f"{archive.name} unpacks to more than 2 GiB; refused")
        self._entries: dict[str, zipfile.ZipInfo] = {}
        self.refused: dict[str, str] = {}
        for entry in entries:
            name = entry.orig_filename
            if name.endswith("/"):
                continue
            reason = _unfit(entry)
            if name in self._entries or name in self.refused:
                reason = "more than once in the archive"
                self._entries.pop(name, None)
            if reason:
                self.refused[name] = reason
            else:
                self._entries[name] = entry
        self.names = tuple(self._entries)
        self._archive = archive
        self._opened_by = os.getpid()

    def _own_zip(self) -> zipfile.ZipFile:
        """The archive, opened anew after a fork: a file position is shared with the parent's."""
        if self._opened_by != os.getpid():
            self._zip = zipfile.ZipFile(self._archive)
            self._opened_by = os.getpid()
        return self._zip

    def read(self, names: Sequence[str]) -> Iterator[bytes | Unreadable]:
        """See Files."""
        for name in names:
            entry, limit = self._entries[name], _limit(name)
            if entry.file_size > limit:
                yield too_large(entry.file_size, limit)
                continue
            try:
                # At most file_size bytes come out, whatever the compressed stream holds.
                yield self._own_zip().read(entry)
            except (
                *(OSError, EOFError, ValueError, RuntimeError, NotImplementedError),
                *(zipfile.BadZipFile, zlib.error),
            ) as problem:
                yield Unreadable(f"damaged in the archive: {problem}")

    def blob(self, name: str) -> str | None:
        """See Files."""
        return None


def _unfit(entry: zipfile.ZipInfo) -> str:
    """Why an entry of a wheel is not read, "" if it is."""
    name = entry.orig_filename
    parts = name.split("/")
    if "\\" in name or "\0" in name or ":" in parts[0] or ".." in parts or "" in parts:
        return "a path that would leave the archive"
    if stat.S_ISLNK(entry.external_attr >> 16):
        return "a symlink in an archive"
    if entry.file_size > _MAX_RATIO * max(entry.compress_size, 1) and entry.file_size > MAX_PYTHON:
        return "compressed beyond any honest file"
    return ""
