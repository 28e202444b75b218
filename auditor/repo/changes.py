"""Says what differs between the fork and upstream; the only importer of unidiff."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from auditor.model import ChangeSet, FileChange
from auditor.repo.git import run_git
from auditor.repo.snapshot import PACKAGE, Snapshot
from auditor.repo.symbols import changed_symbols

if TYPE_CHECKING:
    from unidiff.patch import PatchedFile

# What building a release adds to the source tree.
_VERSION_FILE = f"{PACKAGE}/_version.py"
_PROJECT = "pyproject.toml"
_BUILT_SUFFIXES = (".so", ".pyd", ".dylib")

_SHARED_MEMORY = Path("/dev/shm")
_ROOM = 512 * 2**20  # bytes: all of a release, several times

_FORMAT = 1
"""Raised with every change of what is kept in the cache."""


def compare(fork: Snapshot, upstream: Snapshot, cache: Path | None = None) -> ChangeSet:
    """The files that differ, without the history; ``cache`` is a folder that keeps the answer.

    Renames are followed as git does (half of the content kept). Only what both trees are known to
    hold or lack counts: a file that one side could not list is in neither group, and what a build
    adds to a source tree is no change. Lines are None for binary, huge and unreadable files, whose
    renames are not followed either. ``symbols`` are given for modified and renamed Python files; of
    an added or deleted file everything differs.
    """
    ours, theirs = set(fork.paths), set(upstream.paths)
    unsure = (fork.unreadable.keys() - ours) | (upstream.unreadable.keys() - theirs)
    if _built(fork) != _built(upstream):
        unsure |= _made_by_packaging(ours ^ theirs)
    common = sorted(ours & theirs)
    mine, before = fork.content_ids(common), upstream.content_ids(common)
    pairs = [(path, path) for path in common if mine.get(path) != before.get(path)]
    pairs += [(path, "") for path in sorted(theirs - ours - unsure)]
    pairs += [("", path) for path in sorted(ours - theirs - unsure)]
    if cache is None:
        return _compare(fork, upstream, pairs)
    kept = cache / "changes" / f"{_key(fork, upstream, pairs)}.msgpack"
    # A cache that cannot be read or written costs time, never the run.
    with suppress(OSError, msgspec.DecodeError):
        return msgspec.msgpack.decode(kept.read_bytes(), type=ChangeSet)
    changes = _compare(fork, upstream, pairs)
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".writing-", dir=kept.parent) as fresh:
            (Path(fresh) / "value").write_bytes(msgspec.msgpack.encode(changes))
            (Path(fresh) / "value").replace(kept)
    return changes


def _key(fork: Snapshot, upstream: Snapshot, pairs: Sequence[tuple[str, str]]) -> str:
    """What the answer depends on: the names and contents of the files that differ."""
    digest = hashlib.sha256(b"%d" % _FORMAT)
    for snapshot, paths in (
        (upstream, [old for old, _ in pairs if old]),
        (fork, [new for _, new in pairs if new]),
    ):
        ids = snapshot.content_ids(paths, proven=True)
        digest.update(repr([(path, ids.get(path)) for path in paths]).encode())
    return digest.hexdigest()


def _compare(fork: Snapshot, upstream: Snapshot, pairs: Sequence[tuple[str, str]]) -> ChangeSet:
    changes = []
    counted: set[int | None] = set()
    with _side_by_side(fork, upstream, pairs) as folder, ThreadPoolExecutor(1) as beside:
        # Git is a process of its own and leaves this one free meanwhile.
        counting = beside.submit(_line_counts, folder)
        named: dict[tuple[int | None, int | None], tuple[str, ...]] = {
            (at, at): _symbols(folder, at, at)
            for at, (old, new) in enumerate(pairs)
            if old == new and new.endswith(".py")
        }
        for removed, added, old_at, new_at in counting.result():
            counted |= {old_at, new_at}
            old = pairs[old_at][0] if old_at is not None else ""
            new = pairs[new_at][1] if new_at is not None else ""
            if old and new and old != new and new.endswith(".py"):
                named[old_at, new_at] = _symbols(folder, old_at, new_at)
            symbols = named.get((old_at, new_at), ())
            changes.append(_change(old, new, added, removed, symbols))
    uncounted = (pair for index, pair in enumerate(pairs) if index not in counted)
    changes += [_change(old, new, None, None) for old, new in uncounted]
    return ChangeSet(files=tuple(sorted(changes)))


def _symbols(folder: Path, old_at: int | None, new_at: int | None) -> tuple[str, ...]:
    old, new = folder / f"a/{old_at}", folder / f"b/{new_at}"
    return changed_symbols(old.read_bytes(), new.read_bytes()) if new.exists() else ()


def patches(
    fork: Snapshot, upstream: Snapshot, changes: Iterable[FileChange]
) -> dict[str, PatchedFile]:
    """The hunks of some changed files, by path; binary and unreadable ones are left out.

    Meant for the files that have findings: a patch of everything is slow to parse.
    """
    from unidiff.patch import PatchSet

    pairs = [
        (
            "" if change.status == "added" else change.old_path or change.path,
            "" if change.status == "deleted" else change.path,
        )
        for change in changes
    ]
    with _side_by_side(fork, upstream, pairs) as folder:
        diff = _diff(folder, "--patch", "--no-renames").decode("utf-8", "replace")
    found = {}
    for patch in PatchSet(diff):
        number = patch.target_file if patch.source_file == "/dev/null" else patch.source_file
        old, new = pairs[int(number.rpartition("/")[2])]
        patch.source_file = f"a/{old}" if old else "/dev/null"
        patch.target_file = f"b/{new}" if new else "/dev/null"
        found[new or old] = patch
    return found


def area_of(path: str) -> str:
    """The folder that a report groups a package-relative path by, "." for the package's own.

    Two levels below the package tell sglang's subsystems apart: ``srt/mem_cache``.
    """
    folders = path.split("/")[:-1]
    return "/".join(folders[folders[:1] == [PACKAGE] :][:2]) or "."


def _change(
    old: str, new: str, added: int | None, removed: int | None, symbols: tuple[str, ...] = ()
) -> FileChange:
    path = new or old
    area = area_of(path)
    if not old:
        return FileChange(path, "added", area, added, removed)
    if not new:
        return FileChange(path, "deleted", area, added, removed)
    if old == new:
        return FileChange(path, "modified", area, added, removed, symbols=symbols)
    return FileChange(path, "renamed", area, added, removed, old, symbols)


def _made_by_packaging(one_sided: set[str]) -> set[str]:
    """The paths that a source tree and a release of the same code would differ by.

    A build adds compiled modules and a version; a folder with its own ``pyproject.toml`` (sglang
    0.5.17 has one for its kernels) is left to a release of its own.
    """
    apart = tuple(
        path.removesuffix(_PROJECT) for path in one_sided if path.endswith(f"/{_PROJECT}")
    )
    return {
        path
        for path in one_sided
        if path == _VERSION_FILE or path.endswith(_BUILT_SUFFIXES) or path.startswith(apart)
    }


def _built(snapshot: Snapshot) -> bool:
    """Whether a tree came out of a build."""
    return snapshot.kind == "release" or _VERSION_FILE in snapshot.paths


@contextmanager
def _side_by_side(
    fork: Snapshot, upstream: Snapshot, pairs: Sequence[tuple[str, str]]
) -> Iterator[Path]:
    """A temporary folder with pair N's upstream file as ``a/N`` and the fork's as ``b/N``.

    Git may compare these: numbers for names leave no room for a path that leads elsewhere, and no
    configuration or attribute of the fork applies. A pair with an unreadable or binary file is
    left out.
    """
    sides = ((upstream, "a", [old for old, _ in pairs]), (fork, "b", [new for _, new in pairs]))
    with tempfile.TemporaryDirectory(prefix="audit-", dir=_memory()) as name:
        folder = Path(name).resolve()
        for snapshot, side, paths in sides:
            (folder / side).mkdir()
            at = [index for index, path in enumerate(paths) if path]
            contents = snapshot.read_many([paths[index] for index in at])
            for index, (_, content) in zip(at, contents, strict=True):
                # Binary is what git calls so.
                if isinstance(content, bytes) and b"\0" not in content[:8000]:
                    (folder / side / str(index)).write_bytes(content)
        for index, (old, new) in enumerate(pairs):
            if old and new:
                twins = [folder / side / str(index) for side in "ab"]
                if not all(twin.exists() for twin in twins):
                    for twin in twins:
                        twin.unlink(missing_ok=True)
        yield folder


def _memory() -> Path | None:
    """A folder that lies in memory and has room, None where the usual one must do.

    Between two releases there are 4,000 small files to write; on a disk that took two seconds.
    """
    with suppress(OSError):
        if os.access(_SHARED_MEMORY, os.W_OK | os.X_OK):
            room = os.statvfs(_SHARED_MEMORY)
            if room.f_bavail * room.f_frsize >= _ROOM:
                return _SHARED_MEMORY
    return None


def _diff(folder: Path, *options: str) -> bytes:
    return run_git(
        (
            *("-C", str(folder), "diff", "--no-index", "--no-ext-diff", "--no-textconv"),
            *("--no-color", "--src-prefix=", "--dst-prefix=", *options, "a", "b"),
        ),
        environment={
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_COUNT": "0",
            "GIT_CEILING_DIRECTORIES": str(folder.parent),
        },
        accept=(0, 1),
    )


def _line_counts(folder: Path) -> list[tuple[int, int, int | None, int | None]]:
    """Removed and added lines, and the numbers of the old and the new file of each difference."""
    fields = _diff(folder, "--numstat", "-z", "--find-renames", "-l1000").split(b"\0")
    found = []
    for counts, old, new in zip(fields[0::3], fields[1::3], fields[2::3], strict=False):
        added, removed = counts.split(b"\t")[:2]
        old_at, new_at = (
            None if name == b"/dev/null" else int(name.rpartition(b"/")[2]) for name in (old, new)
        )
        found.append((int(removed), int(added), old_at, new_at))
    return found
