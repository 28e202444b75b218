"""Keeps facts by content, so that a file is parsed once whatever snapshots hold it."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from auditor.errors import Unreadable
from auditor.source import extract
from auditor.source.facts import ModuleFacts
from auditor.source.index import package_name

_FORMAT = 1
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS facts (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
)


class FactStore:
    """Facts by the sha256 of the bytes read (git's own object ids can be forged).

    A cache that cannot be opened, is corrupt or locked costs time, never the run: it is left
    aside, and a corrupt file is made anew. Several runs may share one.
    """

    def __init__(self, folder: Path | None) -> None:
        """``folder`` None keeps nothing beyond this run."""
        self._database: sqlite3.Connection | None = None
        self._decoder = msgspec.msgpack.Decoder(ModuleFacts)
        self._recent: dict[bytes, ModuleFacts | str] = {}
        self._fresh: dict[bytes, bytes] = {}
        if folder is not None:
            self._open(folder / f"facts-{_FORMAT}-{extract.VERSION}.sqlite")

    def _open(self, path: Path) -> None:
        for attempt in (1, 2):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                database = sqlite3.connect(path, timeout=5)
                database.execute("PRAGMA journal_mode=WAL")
                database.execute("PRAGMA synchronous=OFF")
                database.execute(_SCHEMA)
                database.execute("SELECT count(*) FROM facts").fetchone()
            except sqlite3.OperationalError:  # locked, read-only, no room
                return
            except sqlite3.DatabaseError:
                if attempt == 2:
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
        found: dict[str, ModuleFacts] = {}
        failed: dict[str, str] = {}
        for path, data in sources.items():
            package = package_name(path)
            key = hashlib.sha256(package.encode() + b"\0" + data).digest()
            known = self._recent.get(key)
            if known is None:
                known = self._kept(key)
            if known is None:
                known = self._extract(key, data, package)
            self._recent[key] = known
            if isinstance(known, str):
                failed[path] = known
            else:
                found[path] = known
        return found, failed

    def _kept(self, key: bytes) -> ModuleFacts | None:
        if self._database is None:
            return None
        try:
            row = self._database.execute("SELECT value FROM facts WHERE key = ?", (key,)).fetchone()
            return None if row is None else self._decoder.decode(row[0])
        except (sqlite3.Error, msgspec.DecodeError, msgspec.ValidationError, TypeError):
            return None

    def _extract(self, key: bytes, data: bytes, package: str) -> ModuleFacts | str:
        try:
            facts = extract.extract(data, package)
        except Unreadable as error:
            return str(error)
        if self._database is not None:
            self._fresh[key] = msgspec.msgpack.encode(facts)
        return facts

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
