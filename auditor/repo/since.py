"""Says which places of a fork have changed since a revision of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path

from auditor.errors import Unreadable
from auditor.model import FileChange, Location
from auditor.repo.changes import area_of, compare, patches
from auditor.repo.snapshot import Snapshot, open_past
from auditor.repo.symbols import changed_symbols

Script = Callable[[str], tuple[str, bytes] | None]
"""The name within the fork's tree and the bytes of a file that is not of the package; None where it
is not of the tree."""


class Since:
    """The fork against itself at ``rev``; raises UsageProblem where there is no such revision."""

    def __init__(self, fork: Snapshot, rev: str, cache: Path | None) -> None:
        self.fork = fork
        self.past = open_past(fork, rev)
        self.cache = cache
        self._scripts = frozenset(self.past.files.names)
        self._before = frozenset(self.past.paths)
        self._changes: dict[str, FileChange | None] = {}
        self._added: dict[str, frozenset[int]] = {}

    def holds(self, where: Location, script: Script) -> bool:
        """Whether a place, by its report path, is in a symbol or line that has changed.

        A file that is not of the package counts as a whole. What cannot be compared has changed.
        """
        path = self._package.get(where.symbol.path)
        if path is None:
            return self._script_changed(script(where.symbol.path))
        if path not in self._changes:
            self._changes[path] = self._change(path)
        change = self._changes[path]
        if change is None:
            return False
        if change.status == "added" or change.added is None:
            return True
        parts = where.symbol.qualname.split(".")
        around = {".".join(parts[:end]) for end in range(1, len(parts) + 1)} - {""}
        if around & set(change.symbols):
            return True
        lines = range(where.line, max(where.end_line, where.line) + 1)
        return not self._added_lines(change).isdisjoint(lines)

    @cached_property
    def _package(self) -> dict[str, str]:
        return {self.fork.report_path(path): path for path in self.fork.paths}

    @cached_property
    def _moves(self) -> dict[str, FileChange]:
        """All changes: only a comparison of both trees tells whether a new file was another."""
        return {change.path: change for change in compare(self.fork, self.past, self.cache).files}

    def _change(self, path: str) -> FileChange | None:
        """How a file differs, without its line counts where it has stayed in its place.

        Few files have findings, so that they alone are compared where that will do.
        """
        unknown = FileChange(path, "modified", area_of(path), None, None)
        if path not in self._before:
            return self._moves.get(path, unknown)
        try:
            before, after = self.past.read(path), self.fork.read(path)
        except Unreadable:
            return unknown
        if before == after:
            return None
        return FileChange(
            path, "modified", area_of(path), 0, 0, symbols=changed_symbols(before, after)
        )

    def _script_changed(self, script: tuple[str, bytes] | None) -> bool:
        if script is None or script[0] not in self._scripts:
            return True
        before = next(self.past.files.read([script[0]]))
        return isinstance(before, Unreadable) or before != script[1]

    def _added_lines(self, change: FileChange) -> frozenset[int]:
        if change.path not in self._added:
            found = patches(self.fork, self.past, [change]).get(change.path)
            self._added[change.path] = frozenset(
                line.target_line_no
                for hunk in found or ()
                for line in hunk
                if line.is_added and line.target_line_no is not None
            )
        return self._added[change.path]
