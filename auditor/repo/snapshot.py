"""A tree of sglang at one moment: the fork, its upstream, their merge base, or a target."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from auditor.errors import Unreadable, UsageProblem
from auditor.model import Side, SideInfo, Skipped
from auditor.repo.files import (
    MAX_ENTRIES,
    DiskFiles,
    Files,
    MemoryFiles,
    ObjectFiles,
    WheelFiles,
    printable,
    walk,
)
from auditor.repo.git import SUBMODULE, GitError, Repository, blob_id, discover
from auditor.repo.references import OPTION, RELEASE_PREFIX, resolve, version_of
from auditor.repo.releases import fetch_release

Kind = Literal["worktree", "revision", "directory", "release"]

PACKAGE = "sglang"
LAYOUTS = (f"python/{PACKAGE}", f"{PACKAGE}/python/{PACKAGE}", PACKAGE)
"""Where the package lies in a checkout, in one that holds a checkout, and where it is installed."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One side of the comparison; paths are package-relative (``sglang/srt/…``) and sorted.

    Where the tree holds no sglang package, paths are relative to its root as they are. ``ref`` is
    how a report names the side, never an absolute path. ``commit`` is the checked out commit for a
    work tree. ``folder`` is where the package is below the root, None where there is none.
    """

    side: Side
    ref: str
    kind: Kind
    files: Files
    folder: str | None = None
    commit: str | None = None
    repository: Repository | None = None
    note: str = ""
    paths: tuple[str, ...] = field(init=False)
    _known: frozenset[str] = field(init=False)
    _reasons: dict[str, str] = field(init=False)
    _ids: dict[str, str] = field(init=False)
    _read: dict[str, bytes] = field(init=False)

    def __post_init__(self) -> None:
        paths = sorted(path for path in map(self._package_path, self.files.names) if path)
        reasons = {
            path: reason
            for name, reason in self.files.refused.items()
            if (path := self._package_path(name))
        }
        object.__setattr__(self, "paths", tuple(paths))
        object.__setattr__(self, "_known", frozenset(paths))
        object.__setattr__(self, "_reasons", reasons)
        object.__setattr__(self, "_ids", {})
        object.__setattr__(self, "_read", {})

    @classmethod
    def from_sources(
        cls, files: Mapping[str, str | bytes], side: Side = "fork", ref: str = "example"
    ) -> Snapshot:
        """A snapshot of files given by their package-relative paths."""
        return cls(side, ref, "directory", MemoryFiles(files))

    def with_side(self, side: Side) -> Snapshot:
        """The same tree in another role."""
        twin = copy.copy(self)
        object.__setattr__(twin, "side", side)
        return twin

    def with_contents(self, instead: Mapping[Path, bytes]) -> Snapshot:
        """The same tree on disk, some of its files with other contents; any other tree itself."""
        if not instead or not isinstance(self.files, DiskFiles):
            return self
        return dataclasses.replace(self, files=self.files.with_contents(instead))

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """What could not be read so far; grows as files are read. Paths are report paths."""
        return tuple(
            Skipped(self.side, self.report_path(path), "snapshot", reason)
            for path, reason in sorted(self._reasons.items())
        )

    @property
    def unreadable(self) -> Mapping[str, str]:
        """The same by package-relative path, with the reason."""
        return self._reasons

    def read(self, path: str) -> bytes:
        """The content of one file; raises Unreadable, and remembers it as skipped."""
        [(_, content)] = self.read_many((path,))
        if isinstance(content, Unreadable):
            raise content
        return content

    def read_many(self, paths: Sequence[str]) -> Iterator[tuple[str, bytes | Unreadable]]:
        """Path and content of many files at the cost of one pass, in the order asked for."""
        asked = [path for path in paths if path in self._known]
        contents = self.files.read([self.report_path(path) for path in asked])
        for path in paths:
            if path not in self._known:
                yield path, Unreadable(self._reasons.get(path, "no such file in the snapshot"))
                continue
            content = next(contents)
            if isinstance(content, Unreadable):
                self._reasons[path] = str(content)
            elif path not in self._ids:
                self._read[path] = content
            yield path, content

    def read_python(self) -> Iterator[tuple[str, bytes]]:
        """Path and content of every readable Python file; the others become skipped."""
        for path, content in self.read_many([p for p in self.paths if p.endswith(".py")]):
            if isinstance(content, bytes):
                yield path, content

    def content_ids(self, paths: Sequence[str], *, proven: bool = False) -> dict[str, str]:
        """An id per file, equal for equal contents in any two snapshots; unreadable ones lack it.

        It is git's SHA-1 blob id. Unless ``proven`` asks for every file to be read, that of an
        unread file in a repository is what the repository claims, which may be forged: enough to
        tell whether sides of it differ, but no key for a cache.
        """
        claimed = {} if proven else {p: found for p in paths if (found := self._stored_id(p))}
        for path in paths:
            if path not in claimed and path in self._read:
                self._ids[path] = self._stored_id(path) or blob_id(self._read.pop(path))
        for path, content in self.read_many(
            [p for p in paths if p not in claimed and p not in self._ids]
        ):
            if isinstance(content, bytes):
                self._ids[path] = self._stored_id(path) or blob_id(content)
                del self._read[path]
        return claimed | {path: self._ids[path] for path in paths if path in self._ids}

    def report_path(self, path: str) -> str:
        """The path from the root of the fork, as an editor or code scanning must find it."""
        if self.folder is None:
            return path
        return f"{self.folder}{path[len(PACKAGE) :]}".lstrip("/")

    def info(self) -> SideInfo:
        """What a report says of this side."""
        listed = {path for path in (*self.paths, *self._reasons) if path.endswith(".py")}
        return SideInfo(
            side=self.side,
            ref=self.ref,
            kind=self.kind,
            commit=self.commit,
            python_files=len(listed),
            read_files=len(listed - self._reasons.keys()),
            note=self.note,
            repository=self.repository.uri if self.repository and self.side == "fork" else "",
        )

    def _stored_id(self, path: str) -> str | None:
        """The SHA-1 id under which git stores a file; SHA-256 ids compare with no other tree's."""
        stored = self.files.blob(self.report_path(path)) if path in self._known else None
        return stored if stored and len(stored) == 40 else None

    def _package_path(self, name: str) -> str | None:
        """The package-relative path of a file of the tree, None where it is not of the package."""
        if "__pycache__/" in name or name.endswith((".pyc", ".pyo")):
            return None
        if self.folder is None:
            return name
        if self.folder == "":
            return f"{PACKAGE}/{name}"
        return PACKAGE + name[len(self.folder) :] if name.startswith(f"{self.folder}/") else None


def open_fork(path: Path, rev: str | None = None) -> Snapshot:
    """The fork at a path: its work tree, a revision of it, or a plain folder.

    A folder of a checkout that git tracks stands for the whole checkout; one that git does not
    track (an environment, an unpacked wheel) for itself alone. A bare repository without ``rev``
    is audited at HEAD. Raises UsageProblem.
    """
    root = _existing(path)
    repository = discover(root)
    if repository is None:
        if rev is not None:
            raise UsageProblem(f"--rev needs a git repository; {path} is not in one")
        return _open_directory(root, "fork", root.name)
    if repository.work_tree is None:
        note = "" if rev else "a bare repository, audited at its HEAD"
        return _open_revision(repository, rev or "HEAD", "fork", "", note)
    start = root.relative_to(repository.work_tree).as_posix().removeprefix(".")
    if rev is not None:
        return _open_revision(repository, rev, "fork", start)
    if start and not _belongs(repository, start):
        return _open_directory(root, "fork", root.name)
    return _open_worktree(repository, repository.work_tree, "fork", start)


def open_reference(ref: str, side: Side, fork: Snapshot, cache: Path) -> Snapshot:
    """The tree that ``--upstream`` or ``--target`` names, seen from the fork.

    ``pypi:VERSION`` or ``pypi:NAME==VERSION`` is a release, brought into the folder ``cache``;
    ``./folder`` (or any path that is no reference) a folder; the rest a tag or commit of the fork's
    repository, where a tag outranks everything else of that name. Raises UsageProblem.
    """
    if ref.startswith(RELEASE_PREFIX):
        return _open_release(fetch_release(ref.removeprefix(RELEASE_PREFIX), cache), ref, side)
    if _spelled_as_folder(ref):
        return _open_folder(ref, side)
    option = OPTION[side]
    if fork.repository is None:
        if Path(ref).is_dir():
            return _open_folder(ref, side)
        raise UsageProblem(
            f"{option} {ref!r}: the fork is a plain folder without tags; name a release "
            f"({option} {RELEASE_PREFIX}{version_of(ref) or 'VERSION'}) or a folder"
        )
    try:
        return _open_revision(fork.repository, ref, side, fork.folder or "")
    except UsageProblem:
        if "/" in ref and Path(ref).is_dir():
            return _open_folder(ref, side)
        raise


def open_wheel(wheel: Path, ref: str, side: Side) -> Snapshot:
    """A release read from its wheel, which is there. Raises UsageProblem for a damaged one."""
    return _open_release(WheelFiles(wheel), ref, side)


def _open_release(files: WheelFiles, ref: str, side: Side) -> Snapshot:
    return Snapshot(side, ref, "release", files, find_package("", _listing(files.names)))


def _spelled_as_folder(ref: str) -> bool:
    return ref in (".", "..") or ref.startswith(("./", "../", "/", "~")) or ref.endswith("/")


def is_folder(ref: str, repository: Repository | None) -> bool:
    """Whether a reference names a folder: by its spelling, or where no tag can be meant."""
    return _spelled_as_folder(ref) or (repository is None and Path(ref).is_dir())


def open_nothing(path: Path) -> Snapshot:
    """A side without files that knows the repository around a folder, to open references from.

    Raises UsageProblem where the folder is none.
    """
    root = _existing(path)
    return Snapshot("fork", root.name, "directory", MemoryFiles({}), None, None, discover(root))


def open_revision(fork: Snapshot, sha: str, side: Side = "base") -> Snapshot:
    """A commit of the fork's repository, such as the merge base. Raises UsageProblem."""
    if fork.repository is None:
        raise UsageProblem(f"{sha}: the fork has no repository")
    return _open_revision(fork.repository, sha, side, fork.folder or "")


def open_past(fork: Snapshot, rev: str) -> Snapshot:
    """The fork's own tree at a revision, as ``--since`` names it. Raises UsageProblem."""
    if fork.repository is None:
        raise UsageProblem(
            f"--since {rev!r} needs the history of the fork, and {fork.ref} is a plain folder"
        )
    return _open_revision(fork.repository, rev, "base", fork.folder or "", option="--since")


def find_package(start: str, children: Callable[[str], Collection[str]]) -> str | None:
    """The folder of the sglang package, looked for in ``start`` and then in its parents.

    ``children`` lists the names in a folder; "" is the root. None where there is no package.
    """
    base = start
    while True:
        for layout in LAYOUTS:
            folder = f"{base}/{layout}".lstrip("/")
            if any(name == "srt" or name.endswith(".py") for name in children(folder)):
                return folder
        if "srt" in children(base):
            return base
        if not base:
            return None
        base = base.rpartition("/")[0]


def _listing(names: Collection[str]) -> Callable[[str], Collection[str]]:
    def children(folder: str) -> Collection[str]:
        prefix = f"{folder}/" if folder else ""
        return {name[len(prefix) :].split("/", 1)[0] for name in names if name.startswith(prefix)}

    return children


def on_disk(root: Path) -> Callable[[str], Collection[str]]:
    """Lists the folders of a tree on disk, for ``find_package``."""

    def children(folder: str) -> Collection[str]:
        try:
            return os.listdir(root / folder)  # noqa: PTH208
        except OSError:
            return ()

    return children


def _existing(path: Path) -> Path:
    if not path.is_dir():
        what = "is not a folder" if path.exists() else "does not exist"
        raise UsageProblem(f"{path} {what}")
    return path.resolve()


def _belongs(repository: Repository, start: str) -> bool:
    """Whether a folder of a checkout stands for the checkout and not just lies within it."""
    assert repository.work_tree is not None
    children = on_disk(repository.work_tree)
    if repository.tracks(start):
        return find_package(start, children) is not None
    package = find_package("", children)
    return bool(package) and f"{start}/".startswith(f"{package}/")


def _open_folder(ref: str, side: Side) -> Snapshot:
    """A folder given as a reference: a checkout only where it is the checkout's own top."""
    path = Path(ref).expanduser()
    root = _existing(path)
    label = path.name or root.name if path.is_absolute() or ref.startswith("~") else ref
    repository = discover(root)
    if repository is not None and repository.work_tree is None:
        return _open_revision(repository, "HEAD", side, "", f"{label}, a bare repository")
    if repository is not None and repository.work_tree == root:
        snapshot = _open_worktree(repository, root, side, "")
        object.__setattr__(snapshot, "ref", label)
        return snapshot
    return _open_directory(root, side, label)


def _open_directory(root: Path, side: Side, label: str) -> Snapshot:
    folder = find_package("", on_disk(root))
    _refuse_link(root, folder)
    listed = dict(itertools.islice(walk(root, folder or ""), MAX_ENTRIES + 1))
    if len(listed) > MAX_ENTRIES:
        raise UsageProblem(f"{root} holds more than {MAX_ENTRIES:,} files and no sglang package")
    files = DiskFiles(root, listed, plain={name for name, regular in listed.items() if regular})
    return Snapshot(side, label, "directory", files, folder)


def _open_worktree(repository: Repository, top: Path, side: Side, start: str) -> Snapshot:
    folder = find_package(start, on_disk(top))
    _refuse_link(top, folder)
    names, refused = [], {}
    try:
        entries = repository.index(folder or "")
    except GitError as problem:
        raise UsageProblem(f"the checkout {top} cannot be listed: {problem}") from None
    for entry in entries:
        if entry.mode == SUBMODULE:
            refused[printable(entry.name)] = "a submodule; audit it by itself"
            continue
        if entry.tag == "S" and not os.path.lexists(os.path.join(os.fsencode(top), entry.name)):  # noqa: PTH118
            refused[printable(entry.name)] = "not checked out (sparse checkout)"
        if entry.tag == "M":
            refused[printable(entry.name)] = "unmerged; read as it is on disk, conflict and all"
        names.append(entry.name)
    files = DiskFiles(top, names)
    files.refused.update(refused)
    commit = repository.commit("HEAD")
    branch = repository.line("symbolic-ref", "--short", "--quiet", "HEAD")
    label = branch or (commit or "no commit yet")[:12]
    note = "" if commit else "a repository without a commit"
    return Snapshot(side, label, "worktree", files, folder, commit, repository, note)


def _refuse_link(root: Path, folder: str | None) -> None:
    real = (root / (folder or "")).resolve()
    if not real.is_relative_to(root):
        raise UsageProblem(f"{folder} is a symlink out of {root}; to audit it: -C {real}")


def _open_revision(
    repository: Repository, ref: str, side: Side, start: str, note: str = "", option: str = ""
) -> Snapshot:
    commit, remark = resolve(repository, ref, option or OPTION[side])
    try:
        files = ObjectFiles(repository, commit)
    except GitError as problem:
        raise UsageProblem(f"{ref!r} cannot be read ({problem}): {repository.absence()}") from None
    folder = find_package(start, _listing(files.names))
    note = "; ".join(text for text in (note, remark) if text)
    return Snapshot(side, ref, "revision", files, folder, commit, repository, note)
