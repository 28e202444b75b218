"""Keeps facts by content, so that a file is parsed once whatever snapshots hold it."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from auditor.background import Background
from auditor.errors import Unreadable
from auditor.source import extract
from auditor.source.facts import ModuleFacts
from auditor.source.names import package_name

_FORMAT = 1
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS facts (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
)

_WORTH_SHARING = 256 * 1024
"""Bytes; a second process costs as much as a tenth of them."""

_TRIES = 3
_PAUSE = 0.02
"""Seconds between two tries to open the database."""

_AT_ONCE = 500
"""Keys in one query; older sqlite takes 999."""

Source = tuple[bytes, str, ModuleFacts | None]
"""A file's bytes, its package, and the facts of another version of it where they are known."""


class FactStore:
    """Facts by the sha256 of the bytes read (git's own object ids can be forged).

    A cache that cannot be opened, is corrupt or locked costs time, never the run: it is left
    aside, and a corrupt file is made anew. Several runs may share one.
    """

    def __init__(self, folder: Path | None, *, alone: bool = True) -> None:
        """``folder`` None keeps nothing beyond this run; ``alone`` asks for no second process."""
        self.folder = folder
        self._alone = alone
        self._database: sqlite3.Connection | None = None
        self._decoder = msgspec.msgpack.Decoder(ModuleFacts)
        self._recent: dict[bytes, ModuleFacts | str] = {}
        self._versions: dict[str, ModuleFacts] = {}  # of each path the one that was seen last
        self._fresh: dict[bytes, bytes] = {}
        if folder is not None:
            self._open(folder / f"facts-{_FORMAT}-{extract.VERSION}.sqlite")

    def _open(self, path: Path) -> None:
        for attempt in range(1, _TRIES + 1):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                database = sqlite3.connect(path, timeout=5)
                database.execute("PRAGMA journal_mode=WAL")
                database.execute("PRAGMA synchronous=OFF")
                database.execute(_SCHEMA)
                database.execute("SELECT count(*) FROM facts").fetchone()
            except sqlite3.OperationalError:  # locked, read-only, no room
                # Another run that makes the file right now holds it without a word of warning.
                if attempt == _TRIES:
                    return
                time.sleep(_PAUSE)
            except sqlite3.DatabaseError:
                if attempt == _TRIES:
                    return
                with contextlib.suppress(OSError):
                    path.unlink()
            except OSError:
                return
            else:
                self._database = database
                return

    def facts(self, sources: Mapping[str, bytes]) -> tuple[dict[str, ModuleFacts], dict[str, str]]:
        """The facts of files by path, and the reason for each that could not be read."""
        keys = {path: _key(data, package_name(path)) for path, data in sources.items()}
        self._recall(keys.values())
        missing: dict[bytes, Source] = {}
        for path, key in keys.items():
            if key not in self._recent:
                missing[key] = (sources[path], package_name(path), self._versions.get(path))
        self._extract(missing)
        found: dict[str, ModuleFacts] = {}
        failed: dict[str, str] = {}
        for path, key in keys.items():
            facts = self._recent[key]
            if isinstance(facts, str):
                failed[path] = facts
            else:
                found[path] = self._versions[path] = facts
        return found, failed

    def known(self, sources: Mapping[str, bytes]) -> set[str]:
        """The paths of the files whose facts are kept; other versions are read beside these."""
        keys = {path: _key(data, package_name(path)) for path, data in sources.items()}
        self._recall(keys.values())
        found = {path: self._recent[key] for path, key in keys.items() if key in self._recent}
        self._versions |= {path: one for path, one in found.items() if not isinstance(one, str)}
        return set(found)

    def _recall(self, keys: Iterable[bytes]) -> None:
        wanted = [key for key in dict.fromkeys(keys) if key not in self._recent]
        if self._database is None:
            return
        for first in range(0, len(wanted), _AT_ONCE):
            some = wanted[first : first + _AT_ONCE]
            marks = ",".join("?" * len(some))
            with contextlib.suppress(sqlite3.Error):
                rows = self._database.execute(
                    f"SELECT key, value FROM facts WHERE key IN ({marks})",
                    some,
                )
                for key, value in rows:
                    with contextlib.suppress(msgspec.DecodeError, TypeError):
                        self._recent[key] = self._decoder.decode(value)

    def _extract(self, missing: Mapping[bytes, Source]) -> None:
        """Extract files, every second one of many in another process."""
        order = sorted(missing, key=lambda key: (len(missing[key][0]), key))
        much = sum(len(data) for data, *_ in missing.values()) >= _WORTH_SHARING
        shared = order[::2] if much and not self._alone else []
        beside = Background(lambda: [_encoded(missing[key]) for key in shared], alone=not shared)
        for key in order[1::2] if shared else order:
            facts = self._recent[key] = _extracted(missing[key])
            if self._database is not None and not isinstance(facts, str):
                self._fresh[key] = msgspec.msgpack.encode(facts)
        for key, value in zip(shared, beside.result(), strict=True):
            if isinstance(value, str):
                self._recent[key] = value
                continue
            self._recent[key] = self._decoder.decode(value)
            if self._database is not None:
                self._fresh[key] = value

    @property
    def fresh(self) -> Mapping[bytes, bytes]:
        """What was extracted since the last time, encoded, by key: for another process's store."""
        return self._fresh

    def adopt(self, fresh: Mapping[bytes, bytes]) -> None:
        """Keep what another process extracted."""
        self._fresh |= fresh

    def save(self) -> None:
        """Write what was extracted since the last time, in one transaction."""
        if self._database is None or not self._fresh:
            return
        rows: Iterable[tuple[bytes, bytes]] = self._fresh.items()
        with contextlib.suppress(sqlite3.Error), self._database:
            self._database.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", rows)
        self._fresh.clear()

    def close(self) -> None:
        """Save and let go of the file."""
        self.save()
        if self._database is not None:
            self._database.close()
            self._database = None


def _key(data: bytes, package: str) -> bytes:
    return hashlib.sha256(package.encode() + b"\0" + data).digest()


def _extracted(source: Source) -> ModuleFacts | str:
    """The facts of a file, or why it cannot be read."""
    try:
        return extract.extract(*source)
    except Unreadable as error:
        return str(error)


def _encoded(source: Source) -> bytes | str:
    facts = _extracted(source)
    return facts if isinstance(facts, str) else msgspec.msgpack.encode(facts)
