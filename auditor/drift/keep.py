"""The file that keeps the runs: one line each, only ever added to."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from auditor.drift.runs import SCHEMA, Run
from auditor.errors import UsageProblem

LARGEST = 256 * 2**20
"""Bytes of a history: centuries of weeks."""
_PATIENCE = 30.0  # seconds until a lock that is not given up counts as stuck
_BEGINNING = b'{"schema":"audit-drift-line/'


class Kept(NamedTuple):
    """The runs of a file, oldest line first, and what is to be told of the file."""

    runs: tuple[Run, ...] = ()
    notes: tuple[str, ...] = ()


class _Head(msgspec.Struct):
    schema: str


def load(path: Path) -> Kept:
    """The runs that ``path`` holds, none where there is no file; nothing is written.

    A file that ``append`` could not write is refused here: a run takes minutes.
    A last line without its end is what a run leaves that was stopped while it wrote. Raises
    UsageProblem where anything else is no line of a history.
    """
    try:
        if not path.parent.is_dir():
            raise UsageProblem(f"the history {path} cannot be written: there is no such folder")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise UsageProblem(f"the history {path} cannot be written: no permission")
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UsageProblem(f"the history {path} is no file")
        if status.st_size > LARGEST:
            raise UsageProblem(f"{path} is too large for a history")
        data = path.read_bytes()
    except FileNotFoundError:
        return Kept()
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise UsageProblem(f"the history {path} cannot be read: {reason}") from problem
    whole, tail = _split(path, data)
    lines = whole.splitlines() + ([tail] if _is_run(tail) else [])
    runs, newer = [], 0
    for number, line in enumerate(lines, 1):
        run = _read(path, number, line)
        if run is None:
            newer += 1
        else:
            runs.append(run)
    notes = []
    if newer:
        notes.append(f"{path.name}: {newer} of its lines are of a newer audit and were not read")
    if tail and not _is_run(tail):
        notes.append(f"{path.name}: its last line is broken off; {_beside(path).name} will hold it")
    return Kept(tuple(runs), tuple(notes))


def append(path: Path, run: Run) -> None:
    """Adds a line: whole or not at all, whoever else adds one at the same time.

    A last line that is broken off goes to ``FILE.broken`` first. Raises UsageProblem.
    """
    line = msgspec.json.encode(run) + b"\n"
    try:
        # Not O_APPEND: the broken end has to go first, and the lock orders all who write.
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise UsageProblem(f"the history {path} is no file")
            with _locked(file, path):
                _add(file, path, line)
        finally:
            os.close(file)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise UsageProblem(f"the history {path} cannot be written: {reason}") from problem


def _add(file: int, path: Path, line: bytes) -> None:
    end = os.fstat(file).st_size
    if end > LARGEST:
        raise UsageProblem(f"{path} is too large for a history")
    whole, tail = _split(path, _content(file, end))
    if _is_run(tail):
        line = b"\n" + line
    elif tail:
        _set_aside(_beside(path), tail)
        end = len(whole)
        os.ftruncate(file, end)
    try:
        _write(file, line, end)
        os.fsync(file)
    except BaseException:
        os.ftruncate(file, end)
        raise


def _split(path: Path, data: bytes) -> tuple[bytes, bytes]:
    """The whole lines, and what follows the last of them. Raises UsageProblem.

    What follows must look like the beginning of a line of ours: a file that was named by mistake is
    refused, not mended. Some file systems leave zeros where a crash came before the data.
    """
    end = data.rfind(b"\n") + 1
    tail = data[end:]
    if not (tail.startswith(_BEGINNING) or _BEGINNING.startswith(tail) or not tail.strip(b"\0")):
        raise UsageProblem(f"{path} is no history of audit drift: its last line is something else")
    return data[:end], tail


def _read(path: Path, number: int, line: bytes) -> Run | None:
    """One line, None where it is of a newer version."""
    try:
        schema = msgspec.json.decode(line, type=_Head).schema
        name, _, version = schema.rpartition("/")
        ours, _, mine = SCHEMA.rpartition("/")
        if name == ours and version.isascii() and version.isdigit() and int(version) > int(mine):
            return None
        return msgspec.json.decode(line, type=Run)
    except (msgspec.DecodeError, ValueError, RecursionError) as problem:
        told = str(problem)[:200]
        raise UsageProblem(
            f"{path} is no history of audit drift: line {number} is no {SCHEMA}: {told}"
        ) from problem


def _is_run(tail: bytes) -> bool:
    """Whether a last line lacks nothing but its end (an editor may have cut it)."""
    try:
        msgspec.json.decode(tail, type=Run)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False
    return True


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.broken")


def _set_aside(path: Path, data: bytes) -> None:
    # Nobody named this file: a link in its place is not followed.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(path, flags, 0o666)
    try:
        _write(file, data + b"\n")
        os.fsync(file)
    finally:
        os.close(file)


def _content(file: int, size: int) -> bytes:
    parts = []
    at = 0
    while at < size:
        part = os.pread(file, size - at, at)
        if not part:
            break
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def _write(file: int, data: bytes, at: int | None = None) -> None:
    done = 0
    while done < len(data):
        rest = data[done:]
        done += os.write(file, rest) if at is None else os.pwrite(file, rest, at + done)


@contextlib.contextmanager
def _locked(file: int, path: Path) -> Iterator[None]:
    """Holds the file alone; a process that ends, however it ends, lets go of it."""
    import fcntl

    until = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > until:
                raise UsageProblem(f"the history {path} is held by another program") from None
            time.sleep(0.05)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)
