"""The values of a drift report: missed fixes, the fork's patches, and the counts around them."""

from __future__ import annotations

from typing import Literal

import msgspec

from auditor.model import Evidence, Symbol

FixState = Literal["present", "absent", "undecided"]
InTarget = Literal["held", "taken-back", "changed-since"]
PatchState = Literal["upstream", "partly-upstream", "own", "taken-back", "unknown"]


class Fix(msgspec.Struct, frozen=True):
    """An upstream commit that touches what the fork changed, and whether the fork has it.

    ``reason`` says in words what decided, ``evidence`` where; its paths are the fork's, from the
    root. ``symbols`` are those that the fork changed too or has such a finding at, ``findings`` the
    fingerprints of findings of the fork that the target no longer has: those that this commit ended
    (``ends``, judged by the state of the code), and those at a symbol that it changes where the
    commit that ended them is not known. ``repairs``: its subject says that something was wrong.
    ``in_target`` says whether the target still holds the change, ``moot`` that the fork has nothing
    of what it changes. ``conflicts`` are the paths at which applying it to the fork conflicts, None
    where that was not tried; ``added`` and ``removed`` are lines.
    """

    sha: str
    date: str
    subject: str
    number: int | None
    repairs: bool
    state: FixState
    reason: str
    evidence: tuple[Evidence, ...]
    symbols: tuple[Symbol, ...]
    findings: tuple[str, ...]
    in_target: InTarget
    moot: bool
    files: int
    added: int
    removed: int
    conflicts: tuple[str, ...] | None
    rank: float
    ends: tuple[str, ...] = ()

    @property
    def missed(self) -> bool:
        """Whether there may be something to take over."""
        return self.state != "present" and self.in_target != "taken-back" and not self.moot

    @property
    def owed(self) -> bool:
        """Whether it is missed and repairs something: what a report shows."""
        return self.missed and (self.repairs or bool(self.findings))


class Fixes(msgspec.Struct, frozen=True):
    """The upstream commits between the fork and the target.

    ``commits`` are those that the fork's history does not have, ``of_package`` those of them that
    change Python files of the package, ``same_file`` those that touch a file which the fork changed
    but none of the same symbols. ``listed`` are the rest, best rank first; ``unjudged`` counts what
    the bound left out. ``note`` says why there is nothing, or what limits it.
    """

    commits: int = 0
    of_package: int = 0
    same_file: int = 0
    unjudged: int = 0
    listed: tuple[Fix, ...] = ()
    note: str = ""


class OwnPatch(msgspec.Struct, frozen=True):
    """A commit of the fork's own, or, without history, the changed symbols of one area.

    ``sha``, ``date`` and ``age`` (days, up to the newest commit of the compared sides) are None
    without history. ``state`` tells whether the target holds an equal change, or that the fork took
    it back itself: so are it and its revert, and what follows is empty. ``upstream_since`` are the
    symbols that upstream changed too, ``conflicts`` the paths at which it conflicts with the target
    (None: not tried), ``findings`` the fingerprints of those that it introduced.
    """

    sha: str | None
    date: str | None
    age: int | None
    subject: str
    areas: tuple[str, ...]
    symbols: tuple[Symbol, ...]
    files: int
    added: int
    removed: int
    state: PatchState
    reason: str
    upstream_since: tuple[Symbol, ...]
    conflicts: tuple[str, ...] | None
    findings: tuple[str, ...]


class Area(msgspec.Struct, frozen=True):
    """What lies in one area of the tree (``srt/mem_cache``).

    ``patches`` are commits of the fork's own (their subjects, without history), ``both_changed``
    and ``conflicts`` paths from the fork's root, ``fixes`` upstream commits that are owed,
    ``findings`` fingerprints. A patch or a fix may lie in several areas.
    """

    area: str
    patches: tuple[str, ...] = ()
    both_changed: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    fixes: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()


class Drift(msgspec.Struct, frozen=True):
    """Where the fork stands; what an audit says of it is in the report beside it.

    ``ahead`` and ``behind`` count commits against the target, None without shared history.
    ``both_changed`` are the files that the fork and upstream changed since ``base``, ``conflicts``
    those at which a merge of the target conflicts (None: not tried). Paths are the fork's, from the
    root. ``newest`` is the date of the newest commit of the compared sides. ``areas`` begin with
    that in which most comes together.
    """

    target: str
    target_commit: str | None
    base: str | None
    ahead: int | None
    behind: int | None
    newest: str | None
    both_changed: tuple[str, ...]
    conflicts: tuple[str, ...] | None
    fixes: Fixes
    patches: tuple[OwnPatch, ...]
    areas: tuple[Area, ...]
    notes: tuple[str, ...]
