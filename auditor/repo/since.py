"""Says which places of a fork have changed since a revision of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from auditor.errors import Unreadable
from auditor.model import FileChange, Location
from auditor.repo.changes import compare, patches
from auditor.repo.snapshot import Snapshot, open_past

Script = Callable[[str], tuple[str, bytes] | None]
"""The name within the fork's tree and the bytes of a file that is not of the package; None where it
is not of the tree."""


class Since:
    """The fork against itself at ``rev``; raises UsageProblem where there is no such revision."""

    def __init__(self, fork: Snapshot, rev: str, cache: Path | None) -> None:
        self.fork = fork
        self.past = open_past(fork, rev)
        changes = compare(fork, self.past, cache).files
        self.changes = {fork.report_path(c.path): c for c in changes if c.status != "deleted"}
        self.package = frozenset(map(fork.report_path, fork.paths))
        self.unread = frozenset(map(fork.report_path, self.past.unreadable))
        self.names = frozenset(self.past.files.names)
        self._added: dict[str, frozenset[int]] = {}

    def holds(self, where: Location, script: Script) -> bool:
        """Whether a place, by its report path, is in a symbol or line that has changed.

        A file that is not of the package counts as a whole. What cannot be compared has changed.
        """
        path = where.symbol.path
        if path not in self.package:
            return self._script_changed(script(path))
        change = self.changes.get(path)
        if change is None:
            return path in self.unread
        if change.status == "added" or change.added is None:
            return True
        parts = where.symbol.qualname.split(".")
        around = {".".join(parts[:end]) for end in range(1, len(parts) + 1)} - {""}
        if around & set(change.symbols):
            return True
        lines = range(where.line, max(where.end_line, where.line) + 1)
        return not self._added_lines(path, change).isdisjoint(lines)

    def _script_changed(self, script: tuple[str, bytes] | None) -> bool:
        if script is None or script[0] not in self.names:
            return True
        before = next(self.past.files.read([script[0]]))
        return isinstance(before, Unreadable) or before != script[1]

    def _added_lines(self, path: str, change: FileChange) -> frozenset[int]:
        if path not in self._added:
            found = patches(self.fork, self.past, [change]).get(change.path)
            self._added[path] = frozenset(
                line.target_line_no
                for hunk in found or ()
                for line in hunk
                if line.is_added and line.target_line_no is not None
            )
        return self._added[path]
