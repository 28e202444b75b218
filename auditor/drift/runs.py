"""One run of a drift report as a line of its history, and what moved since an earlier one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal

import msgspec

from auditor.drift.facts import Drift, FixState, OwnPatch, PatchState
from auditor.model import Category, Finding, Origin, Report, Severity, SideInfo

SCHEMA: Literal["audit-drift-line/1"] = "audit-drift-line/1"

Count = Annotated[int, msgspec.Meta(ge=0, le=10**9)]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]

_STEP = re.compile(r"[~^:]|@\{")  # from a name to another commit; no branch may hold one
# The settings that decide which findings a report has.
_ASKED = (
    *("select", "ignore", "min-confidence", "origin", "since", "serve", "baseline"),
    *("no-suppress", "rules"),
)


class Tree(msgspec.Struct, frozen=True):
    """One of the compared trees; ``repository`` is given for the fork only."""

    ref: str
    commit: str | None
    repository: str = ""

    @property
    def branch(self) -> str:
        """The name of what was audited, empty where it only says which commit.

        So do the bare commits that pipelines check out. ``main~6`` is an older ``main``.
        """
        name = _STEP.split(self.ref, maxsplit=1)[0].removeprefix("refs/heads/")
        return "" if name in ("", "@", "HEAD") or (self.commit or "-").startswith(name) else name

    def like(self, other: Tree) -> bool:
        """Whether both are of one fork, as far as they tell: its repository, its branch."""
        pairs = ((self.repository, other.repository), (self.branch, other.branch))
        return all(mine == theirs or not (mine and theirs) for mine, theirs in pairs)


class Ages(msgspec.Struct, frozen=True):
    """Ages of the fork's patches in days: the middle one, that which nine of ten stay under."""

    median: Count
    most: Count
    oldest: Count


class Tally(msgspec.Struct, frozen=True):
    """The counts of a run; None where it could not be told.

    ``missed`` are the upstream repairs that the fork owes, ``findings`` the active ones by origin,
    then severity.
    """

    ahead: Count | None
    behind: Count | None
    differing: Count
    both_changed: Count
    conflicts: Count | None
    missed: Count
    fixes: dict[FixState, Count]
    patches: dict[PatchState, Count]
    ages: Ages | None
    findings: dict[Origin, dict[Severity, Count]]

    def of_origin(self, origin: Origin) -> int:
        """The active findings of one origin."""
        return sum(self.findings.get(origin, {}).values())


class Seen(msgspec.Struct, frozen=True):
    """An active finding of a run; ``unread`` where its file could not be read in it.

    It is then known from an earlier run, and neither gone nor counted.
    """

    fingerprint: str
    rule: str
    category: Category
    severity: Severity
    origin: Origin
    path: str
    symbol: str
    unread: bool = False


class Run(msgspec.Struct, frozen=True):
    """A line of the history, ``audit-drift-line/1``.

    ``missed`` are upstream's commits that the fork owes, ``patches`` its own that it did not take
    back, both by the first twelve digits. ``asked`` are the settings that decide on the findings.
    """

    schema: Literal["audit-drift-line/1"]
    when: Moment
    tool: str
    fork: Tree
    upstream: Tree
    target: Tree | None
    tally: Tally
    findings: tuple[Seen, ...]
    missed: tuple[str, ...]
    patches: dict[str, PatchState]
    asked: dict[str, str]


class Changed(msgspec.Struct, frozen=True):
    """A finding that stayed, with another origin or severity."""

    before: Seen
    now: Seen


class Moved(msgspec.Struct, frozen=True):
    """What is otherwise than in an earlier run, ``since``.

    ``opened`` and ``closed`` findings are told apart by fingerprint, and empty where the runs were
    asked otherwise; ``accepted`` are those that a
    baseline or a suppression took out since. ``newly_missed`` are upstream commits; ``taken_over``
    are those that were missed and that the fork now has. ``patches_added`` and ``patches_gone`` are
    commits of the fork's own, ``patches_upstream`` those that the target has now and had not then.
    ``notes`` say what makes the two runs unlike.
    """

    since: Moment
    before: Tally
    opened: tuple[Seen, ...]
    closed: tuple[Seen, ...]
    accepted: tuple[Seen, ...]
    changed: tuple[Changed, ...]
    newly_missed: tuple[str, ...]
    taken_over: tuple[str, ...]
    patches_added: tuple[str, ...]
    patches_gone: tuple[str, ...]
    patches_upstream: tuple[str, ...]
    notes: tuple[str, ...]


def active(report: Report) -> list[Finding]:
    """The findings that count."""
    return [finding for finding in report.findings if finding.disposition == "active"]


def tally(report: Report, drift: Drift) -> Tally:
    """The counts of a report."""
    findings: dict[Origin, Counter[Severity]] = {}
    for finding in active(report):
        findings.setdefault(finding.origin, Counter())[finding.severity] += 1
    return Tally(
        ahead=drift.ahead,
        behind=drift.behind,
        differing=len(report.changes.files),
        both_changed=len(drift.both_changed),
        conflicts=None if drift.conflicts is None else len(drift.conflicts),
        missed=sum(fix.owed for fix in drift.fixes.listed),
        fixes=dict(Counter(fix.state for fix in drift.fixes.listed)),
        patches=dict(Counter(patch.state for patch in drift.patches)),
        ages=_ages(drift.patches),
        findings={origin: dict(counter) for origin, counter in findings.items()},
    )


def run_of(report: Report, drift: Drift, when: datetime, last: Run | None) -> Run:
    """The line of a run; ``when`` has a time zone, ``last`` is the run of this fork before it."""
    found = {
        finding.fingerprint: Seen(
            finding.fingerprint,
            finding.rule,
            finding.category,
            finding.severity,
            finding.origin,
            _plain(finding.hit.where.symbol.path),
            finding.hit.where.symbol.qualname,
        )
        for finding in active(report)
    }
    unread = {_plain(row.path) for row in report.skipped if row.side == "fork" and row.path}
    for seen in last.findings if last is not None else ():
        if seen.path in unread and seen.fingerprint not in found:
            found[seen.fingerprint] = msgspec.structs.replace(seen, unread=True)
    target = report.targets[-1] if report.targets else None
    return Run(
        schema=SCHEMA,
        when=when,
        tool=report.tool_version,
        fork=_tree(report.fork),
        upstream=_tree(report.upstream) if report.upstream else Tree("", None),
        target=_tree(target) if target else None,
        tally=tally(report, drift),
        findings=tuple(found.values()),
        missed=tuple(short(fix.sha) for fix in drift.fixes.listed if fix.owed),
        patches={
            short(patch.sha): patch.state
            for patch in drift.patches
            if patch.sha and patch.state != "taken-back"
        },
        asked={
            key: _plain(report.configuration[key].rpartition(" (")[0])
            for key in _ASKED
            if key in report.configuration
        },
    )


def of_fork(runs: Sequence[Run], fork: SideInfo) -> tuple[Run, ...]:
    """The lines of the same fork."""
    return tuple(run for run in runs if run.fork.like(_tree(fork)))


def moved(before: Run, now: Run, report: Report, drift: Drift) -> Moved:
    """What is otherwise in ``now``, the run of ``report`` and ``drift``."""
    then = {seen.fingerprint: seen for seen in before.findings}
    here = {seen.fingerprint: seen for seen in now.findings}
    gone = [seen for key, seen in then.items() if key not in here]
    there = {finding.fingerprint for finding in report.findings}
    # What another filter hides or shows was neither closed nor opened.
    alike = before.asked == now.asked
    holds = {short(fix.sha) for fix in drift.fixes.listed if fix.state == "present"}
    return Moved(
        since=before.when,
        before=before.tally,
        opened=tuple(seen for key, seen in here.items() if alike and key not in then),
        closed=tuple(seen for seen in gone if alike and seen.fingerprint not in there),
        accepted=tuple(seen for seen in gone if seen.fingerprint in there),
        changed=tuple(
            Changed(then[key], seen)
            for key, seen in here.items()
            if key in then and _weight(then[key]) != _weight(seen) and not seen.unread
        ),
        newly_missed=tuple(sha for sha in now.missed if sha not in before.missed),
        taken_over=tuple(sha for sha in before.missed if sha in holds),
        patches_added=tuple(sha for sha in now.patches if sha not in before.patches),
        patches_gone=tuple(sha for sha in before.patches if sha not in now.patches),
        patches_upstream=tuple(
            sha
            for sha, state in now.patches.items()
            if state == "upstream" and before.patches.get(sha, state) != state
        ),
        notes=tuple(_unlike(before, now)),
    )


def short(sha: str) -> str:
    """A commit as the history has it."""
    return sha[:12]


def _weight(seen: Seen) -> tuple[str, str]:
    return seen.origin, seen.severity


def _unlike(before: Run, now: Run) -> list[str]:
    notes = []
    if before.fork.branch != now.fork.branch:  # one of them does not tell
        notes.append(f"the last run was of {before.fork.ref}, this one is of {now.fork.ref}")
    if before.upstream.ref != now.upstream.ref:
        notes.append(f"upstream was {before.upstream.ref} and is {now.upstream.ref}")
    targets = [run.target.ref if run.target else "none" for run in (before, now)]
    if targets[0] != targets[1]:
        notes.append(f"the target was {targets[0]} and is {targets[1]}")
    if before.tool != now.tool:
        notes.append(f"the last run was by audit {before.tool}, this one is by {now.tool}")
    keys = sorted(
        key for key in {*before.asked, *now.asked} if before.asked.get(key) != now.asked.get(key)
    )
    if keys:
        told = ", ".join(keys)
        notes.append(
            f"the last run was asked otherwise ({told}): no finding counts as opened or closed"
        )
    if now.when < before.when:
        notes.append(f"the last run is of {before.when:%Y-%m-%d %H:%M}, later than this one")
    if before.patches and now.patches and not before.patches.keys() & now.patches.keys():
        notes.append("no commit of the fork's own is the same: its history was written anew")
    unread = sum(seen.unread for seen in now.findings)
    if unread:
        notes.append(f"{unread} of the findings before lie in files that could not be read now")
    return notes


def _tree(side: SideInfo) -> Tree:
    return Tree(_plain(side.ref), side.commit, side.repository)


def _plain(text: str) -> str:
    """A name that is no UTF-8, as text that a file can hold."""
    return text.encode("utf-8", "backslashreplace").decode()


def _ages(patches: Sequence[OwnPatch]) -> Ages | None:
    ages = sorted(
        patch.age for patch in patches if patch.age is not None and patch.state != "taken-back"
    )
    if not ages:
        return None
    last = len(ages) - 1
    return Ages(ages[last // 2], ages[last * 9 // 10], ages[-1])
