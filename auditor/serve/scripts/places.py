"""Finds the files that a launch names, without leaving the folders it may look into."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from auditor.model import Launch

SMALL = 2_000_000
"""The most bytes of a template or a configuration that are read."""

LARGE = 64_000_000
"""The most bytes of a tokenizer that are read; those of large vocabularies have 10 to 30 MB."""

_MOST_NAMES = 10_000
TEMPLATES_OF_TREE = "examples/chat_template"
"""Where a checkout of sglang has the templates that it ships; a wheel has none."""

State = Literal["found", "missing", "unknown"]


@dataclass(frozen=True)
class Place:
    """What became of a path that a launch names.

    ``found``: ``data`` is the content and ``path`` where it was read, by the tree's root where it
    lies in the tree. ``missing``: the script's own folders were looked into and hold no such file.
    ``unknown``: nothing can be said from here (a path of another machine or of a container, a file
    that may not be read). ``why`` is a short clause for a reader.
    """

    state: State
    path: str
    data: bytes | None = None
    why: str = ""


@dataclass(frozen=True)
class Folder:
    """A folder that a launch names, on disk or in the audited tree.

    ``beside`` are the names of the folders that stand next to it, empty where these are not known.
    """

    path: str
    read: Callable[[str, int], bytes | None]
    beside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Places:
    """Where the files of launches may lie.

    ``roots`` are folders on disk that may be read; ``tree`` reads a file of the audited tree by a
    path from its root, None where it has none; ``names`` are the paths of all its files.
    ``outside`` are the scripts that the user named: what these say of absolute paths may be read
    too.
    """

    roots: tuple[Path, ...]
    tree: Callable[[str], bytes | None]
    outside: frozenset[str] = frozenset()
    names: Collection[str] = ()

    def read(self, launch: Launch, path: str) -> bytes | None:
        """The content of a file that a launch names, None where it is not found."""
        return self.find(launch, path).data

    def find(self, launch: Launch, path: str) -> Place:
        """The file of a launch at ``path``, as the script writes it; at most ``SMALL`` bytes.

        Looked for in the folder of the launch, that of the script and the roots, through mounts and
        copies, and last among the templates of the audited tree.
        """
        if not path or "\0" in path:
            return Place("unknown", path, why="the path is empty or no path")
        refused = ""
        for inner in self._inner_paths(launch, path):
            data = self.tree(inner)
            if data is not None:
                return _sized(inner, data)
        for base, inner, shown in self._outer_paths(launch, path):
            data, reason = self._from_disk(base, inner, SMALL)
            if data is not None:
                return Place("found", shown, data)
            refused = refused or reason
        if refused:
            return Place("unknown", path, why=refused)
        return self._not_found(launch, path)

    def folder(self, launch: Launch, path: str) -> Folder | None:
        """The folder of a launch at ``path`` (a model's), None where none is found."""
        if not path or "\0" in path:
            return None
        for base, inner, shown in self._outer_paths(launch, path):
            full = self._allowed(base, inner)
            if full is not None and full.is_dir():
                return _disk_folder(self, base, inner, shown, full)
        for inner in self._inner_paths(launch, path):
            if self.tree(posixpath.join(inner, "config.json")) is not None:
                return _tree_folder(self, inner)
        return None

    def _not_found(self, launch: Launch, path: str) -> Place:
        if path.startswith("~") or "://" in path:
            return Place("unknown", path, why="it is a path of the machine that runs the script")
        if path.startswith("/"):
            if self._is_mounted(launch, path):
                why = "what is mounted or copied there has no such file"
                return Place("missing", path, why=why)
            parent = Path(path).parent
            if launch.path in self.outside and len(parent.parts) > 1 and parent.is_dir():
                return Place("missing", path, why=f"{parent} holds no such file")
            return Place("unknown", path, why="it is a path of a container or another machine")
        if f"{TEMPLATES_OF_TREE}/" in path and not self._has_examples():
            return Place("unknown", path, why="the audited tree comes without upstream's examples")
        elsewhere = launch.folder != posixpath.dirname(launch.path)
        if (
            elsewhere
            and launch.folder.startswith("/")
            and not self._is_mounted(launch, launch.folder)
        ):
            why = f"the launch runs in {launch.folder}, which is not known here"
            return Place("unknown", path, why=why)
        looked = sorted({posixpath.dirname(p) or "." for p in self._inner_paths(launch, path)})
        return Place("missing", path, why=f"looked in {', '.join(looked[:4])}")

    def _has_examples(self) -> bool:
        """Whether the tree carries upstream's folder of templates: git trees do, wheels do not."""
        if any((root / TEMPLATES_OF_TREE).is_dir() for root in self.roots):
            return True
        return any(name.startswith(f"{TEMPLATES_OF_TREE}/") for name in self.names)

    def _is_mounted(self, launch: Launch, path: str) -> bool:
        return any(_below(path, inner) is not None for inner, _ in launch.mounts)

    def _inner_paths(self, launch: Launch, path: str) -> Iterator[str]:
        """The paths from the tree's root that ``path`` may mean, most likely first."""
        seen: set[str] = set()
        for inner in self._candidates(launch, path):
            clean = posixpath.normpath(inner)
            if clean.startswith(("/", "..")) or clean in seen:
                continue
            seen.add(clean)
            yield clean

    def _candidates(self, launch: Launch, path: str) -> Iterator[str]:
        script = posixpath.dirname(launch.path)
        for real in _through_mounts(launch, path):
            if real != path and not real.startswith("/"):
                yield posixpath.join(script, real)
                yield real
        if not path.startswith("/"):
            if launch.folder and not launch.folder.startswith("/"):
                yield posixpath.join(launch.folder, path)
            yield posixpath.join(script, path)
            yield path
        at = path.find(f"{TEMPLATES_OF_TREE}/")
        if at >= 0:
            yield path[at:]
        elif "/" not in path.removeprefix("./"):
            yield f"{TEMPLATES_OF_TREE}/{path.removeprefix('./')}"

    def _outer_paths(self, launch: Launch, path: str) -> Iterator[tuple[Path, str, str]]:
        """Places on disk: the folder that bounds the search, the path in it, and its name."""
        inner_paths = tuple(self._inner_paths(launch, path))
        for root in self.roots:
            for inner in inner_paths:
                yield root, inner, inner
        if launch.path not in self.outside:
            return
        script = Path(launch.path).parent
        for real in _through_mounts(launch, path):
            if real.startswith("/"):
                yield Path(real).parent, posixpath.basename(real), real
            else:
                # A path made of the script's own folder starts where the script's path does.
                if "/" in real and not script.is_absolute():
                    yield Path(real).parent, posixpath.basename(real), real
                yield script, real, posixpath.join(script.as_posix(), real)

    def _from_disk(self, base: Path, inner: str, limit: int) -> tuple[bytes | None, str]:
        """The content, or None and why it may not be read (empty where there is no such file)."""
        full = self._allowed(base, inner)
        if full is None:
            return None, _leaves(base, inner)
        try:
            # No wait on a FIFO that lies in the place of a file.
            handle = os.open(full, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        except (OSError, ValueError):
            return None, ""
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                return None, "" if stat.S_ISDIR(found.st_mode) else "it is no regular file"
            if found.st_size > limit:
                return None, f"it is larger than {limit // 1_000_000} MB"
            try:
                return file.read(limit), ""
            except OSError:
                return None, "it cannot be read"

    def _allowed(self, base: Path, inner: str) -> Path | None:
        """The real path, None where it leaves its folder and every root."""
        try:
            full = Path(os.path.realpath(base / inner))
            bounds = [Path(os.path.realpath(folder)) for folder in (base, *self.roots)]
        except (OSError, ValueError):
            return None
        return full if any(full.is_relative_to(bound) for bound in bounds) else None


def _leaves(base: Path, inner: str) -> str:
    return "it leads out of the folders that may be read" if os.path.lexists(base / inner) else ""


def _sized(path: str, data: bytes) -> Place:
    if len(data) > SMALL:
        return Place("unknown", path, why=f"it is larger than {SMALL // 1_000_000} MB")
    return Place("found", path, data)


def _below(path: str, folder: str) -> str | None:
    """The rest of ``path`` below ``folder``, None where it is not below."""
    path, folder = posixpath.normpath(path), posixpath.normpath(folder)
    if path == folder:
        return ""
    prefix = folder if folder.endswith("/") else f"{folder}/"
    return path[len(prefix) :] if path.startswith(prefix) else None


def _through_mounts(launch: Launch, path: str) -> Iterator[str]:
    """What a path of the launch is outside its container, the deepest mount first."""
    full = path
    if not path.startswith("/") and launch.folder.startswith("/"):
        full = posixpath.join(launch.folder, path)
    for inner, outer in sorted(launch.mounts, key=lambda mount: -len(mount[0])):
        rest = _below(full, inner)
        if rest is not None:
            yield posixpath.join(outer, rest) if rest else outer
    yield path


def _disk_folder(places: Places, base: Path, inner: str, shown: str, full: Path) -> Folder:
    def read(name: str, limit: int) -> bytes | None:
        return places._from_disk(base, posixpath.join(inner, name), limit)[0]

    beside: list[str] = []
    parent = full.parent
    bounds = [Path(os.path.realpath(folder)) for folder in (base, *places.roots)]
    if any(parent.is_relative_to(bound) for bound in bounds):
        try:
            with os.scandir(parent) as entries:
                for _, entry in zip(range(_MOST_NAMES), entries, strict=False):
                    if entry.name != full.name and entry.is_dir(follow_symlinks=False):
                        beside.append(entry.name)
        except OSError:
            beside = []
    return Folder(shown, read, tuple(sorted(beside)))


def _tree_folder(places: Places, inner: str) -> Folder:
    def read(name: str, limit: int) -> bytes | None:
        data = places.tree(posixpath.join(inner, name))
        return data if data is not None and len(data) <= limit else None

    parent = posixpath.dirname(inner)
    start = f"{parent}/" if parent else ""
    below = {n[len(start) :].partition("/") for n in places.names if n.startswith(start)}
    own = posixpath.basename(inner)
    return Folder(inner, read, tuple(sorted(n for n, slash, _ in below if slash and n != own)))
