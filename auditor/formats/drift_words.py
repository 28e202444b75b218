"""What a drift report says in words and small tables, whatever format it is written in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from auditor.drift.facts import Area, Drift, Fix, OwnPatch, PatchState
from auditor.drift.runs import Moved, Run, Seen, active, short, tally
from auditor.formats.order import HOW_TO_SHOW, rank
from auditor.formats.text import count, scrub
from auditor.formats.verdict import Verdict
from auditor.model import ORIGINS, SEVERITIES, Finding, Report

PATCH_STATES: dict[PatchState, str] = {
    "upstream": "taken upstream",
    "partly-upstream": "partly upstream",
    "own": "only here",
    "taken-back": "taken back here",
    "unknown": "not compared",
}
# Days from which on, oldest first; a patch without history has no date.
_AGES = (
    (180, "180 days and more"),
    (90, "90 to 179 days"),
    (30, "30 to 89 days"),
    (0, "under 30 days"),
)
_UNDATED = "no date"
_SUBJECT = 60
_UNREAD = 3


class Standing(NamedTuple):
    """A drift report and what its history adds.

    ``moved`` is None without an earlier run of the fork. ``runs`` are those of this fork, the
    present one last; empty without a history. ``notes`` are what is to be told of the history.
    """

    report: Report
    drift: Drift
    verdict: Verdict
    moved: Moved | None = None
    runs: tuple[Run, ...] = ()
    notes: tuple[str, ...] = ()


class Words:
    """The parts of the report; text of the fork in them is printable, and no more than that."""

    def __init__(self, standing: Standing) -> None:
        self.report = scrub(standing.report)
        self.drift = scrub(standing.drift)
        self.moved = scrub(standing.moved) if standing.moved else None
        self.findings = sorted(active(self.report), key=rank)
        self.counts = tally(self.report, self.drift)
        self.owed = [fix for fix in self.drift.fixes.listed if fix.owed]
        there = {patch.state for patch in self.drift.patches}
        self.states = {state: told for state, told in PATCH_STATES.items() if state in there}
        self.serve = [finding for finding in self.findings if finding.category == "serve"]
        history = scrub(list(standing.notes))
        hidden = [
            f"{count(number, 'finding')} {HOW_TO_SHOW.get(key, key)}"
            for key, number in self.report.hidden.items()
            if number
        ]
        told = (*self._status(standing.verdict), *self.drift.notes, self.drift.fixes.note)
        self.doubt = f"warning: {self.report.mismatch}" if self.report.mismatch else ""
        self.notes = [note for note in (*told, *hidden, *history) if note]
        whens = [run.when for run in standing.runs]
        self.since = day_of(self.moved.since, whens) if self.moved else ""
        self._subjects = {short(fix.sha): fix.subject for fix in self.drift.fixes.listed}
        self._subjects |= {short(p.sha): p.subject for p in self.drift.patches if p.sha}

    def _status(self, verdict: Verdict) -> Iterator[str]:
        """Why the exit status is not 0, and what could not be read."""
        if verdict.status:
            yield verdict.line()
        unread = [row for row in self.report.skipped if row.side == "fork"]
        if unread and verdict.undecided:
            shown, left = cut([f"{row.path}: {row.reason}" for row in unread], _UNREAD)
            more = f"; {left:,} more (audit -o json has all)" if left else ""
            yield f"not read: {'; '.join(shown)}{more}"

    def headline(self) -> list[str]:
        """Where the fork stands, in phrases."""
        drift = self.drift
        parts = []
        if drift.ahead is not None and drift.behind is not None:
            ahead = count(drift.ahead, "commit")
            parts.append(f"{ahead} ahead of {drift.target}, {drift.behind:,} behind")
        if drift.target:
            parts.append(f"{count(len(drift.both_changed), 'file')} changed on both sides")
        if drift.conflicts is not None:
            parts.append(f"{count(len(drift.conflicts), 'file')} in conflict")
        if drift.ahead is not None:
            parts.append(f"{count(len(self.owed), 'fix', 'fixes')} missed or undecided")
        told = [f"{number} {origin}" for origin, number in self.by_origin().items()]
        parts.append(f"findings: {', '.join(told)}" if told else "no findings")
        if self.serve:
            parts.append(f"{len(self.serve)} of them in serve scripts")
        return parts

    def by_origin(self) -> dict[str, int]:
        """How many findings of each origin that there is."""
        found = Counter(finding.origin for finding in self.findings)
        return {origin: found[origin] for origin in ORIGINS if found[origin]}

    def fix_counts(self) -> list[str]:
        """What was looked at among upstream's commits, in phrases."""
        fixes = self.drift.fixes
        states = Counter(fix.state for fix in fixes.listed)
        back = sum(fix.state != "present" and fix.in_target == "taken-back" for fix in fixes.listed)
        others = sum(fix.missed for fix in fixes.listed) - len(self.owed)
        commits = count(fixes.commits, "upstream commit")
        parts = [
            f"{commits}, {fixes.of_package:,} of them to the package",
            f"{fixes.same_file:,} in the fork's files but not its symbols",
            f"{len(fixes.listed) + fixes.unjudged:,} in its symbols",
            ", ".join(f"{states[state]} {state}" for state in ("present", "absent", "undecided")),
        ]
        if back:
            parts.append(f"{back} taken back upstream")
        if others:
            parts.append(f"{others} more are lacking, but repair nothing by their subject")
        if fixes.unjudged:
            parts.append(f"{fixes.unjudged:,} of low rank not judged")
        return parts

    def fix_facts(self, fix: Fix) -> list[str]:
        """Whether a fix applies, its size, and what the target makes of it, in phrases."""
        applies = "not tried whether it applies"
        if fix.conflicts is not None:
            crossing = f"conflicts in {count(len(fix.conflicts), 'file')}"
            applies = crossing if fix.conflicts else "applies cleanly"
        size = f"{count(fix.files, 'file')}, +{fix.added} -{fix.removed}"
        newer = {"held": "", "changed-since": "changed further since", "taken-back": ""}
        facts = [applies, size, newer[fix.in_target]]
        if fix.ends:
            facts.append(f"ends {count(len(fix.ends), 'finding')}")
        others = len(fix.findings) - len(fix.ends)
        if others:
            facts.append(f"at the symbol of {count(others, 'finding')} that the target ended")
        return [fact for fact in facts if fact]

    def by_state(self) -> list[str]:
        """The fork's patches by state, in phrases, and the commits that are none."""
        patches, ahead = self.drift.patches, self.drift.ahead
        states = Counter(patch.state for patch in patches)
        parts = [f"{states[state]} {told}" for state, told in self.states.items()]
        if ahead is not None and ahead > len(patches):
            rest = ahead - len(patches)
            parts.append(f"the other {rest:,} of the commits ahead are merges or upstream's own")
        return parts

    def patches_by_age(self) -> list[tuple[str, list[list[OwnPatch]]]]:
        """The patches of each age, oldest first, for each of ``states``."""
        ages = {
            name: [patch for patch in self.drift.patches if age_of(patch) == name]
            for name in _NAMES
        }
        return [
            (name, [[patch for patch in row if patch.state == state] for state in self.states])
            for name, row in ages.items()
            if row
        ]

    def finding_cells(self) -> list[tuple[str, list[list[Finding]]]]:
        """The findings of each origin, for each severity."""
        return [
            (
                origin,
                [
                    [f for f in self.findings if (f.origin, f.severity) == (origin, severity)]
                    for severity in SEVERITIES
                ],
            )
            for origin in self.by_origin()
        ]

    def moves(self) -> list[tuple[str, str]]:
        """What moved since the earlier run, findings first: a phrase each, and where its rows are.

        The places are ids of the HTML page.
        """
        moved = self.moved
        if moved is None:
            return []
        other = "with another origin or severity"
        told = [
            (moved.opened, "finding opened", "findings opened", "opened"),
            (moved.closed, "finding closed", "findings closed", "closed"),
            (moved.accepted, "finding accepted", "findings accepted", "accepted"),
            (moved.changed, f"finding {other}", f"findings {other}", "changed"),
            (moved.newly_missed, "fix newly missed", "fixes newly missed", "newly-missed"),
            (moved.taken_over, "fix taken over", "fixes taken over", "taken-over"),
            (moved.patches_added, "patch added", "patches added", "patches-added"),
            (moved.patches_gone, "patch gone", "patches gone", "patches-gone"),
            (
                *(moved.patches_upstream, "patch taken upstream", "patches taken upstream"),
                "patches-upstream",
            ),
        ]
        parts = [(count(len(rows), one, many), place) for rows, one, many, place in told if rows]
        for index, (name, value) in enumerate(MEASURES):
            before, now = value(moved.before), value(self.counts)
            if before is not None and now is not None and before != now:
                parts.append((f"{name} {before:,} → {now:,}", f"chart-{index}"))
        return parts or [("nothing moved", "")]

    def moved_line(self) -> str:
        """The same in one line."""
        return " · ".join(text for text, _ in self.moves())

    def subject(self, sha: str) -> str:
        """The subject of a commit by the digits that the history has."""
        return self._subjects.get(sha, "")


MEASURES: tuple[tuple[str, Any], ...] = (
    ("behind", lambda counts: counts.behind),
    ("ahead", lambda counts: counts.ahead),
    ("files changed on both sides", lambda counts: counts.both_changed),
    ("files in conflict", lambda counts: counts.conflicts),
    ("fixes missed", lambda counts: counts.missed),
    ("files that differ from upstream", lambda counts: counts.differing),
)
"""The counts that are followed over time; each takes a ``Tally``, and gives None for unknown."""

_NAMES = (*(name for _, name in _AGES), _UNDATED)


def age_of(patch: OwnPatch) -> str:
    """The age of a patch, as a report groups it."""
    if patch.age is None:
        return _UNDATED
    return next(name for days, name in _AGES if patch.age >= days)


def day_of(when: datetime, others: Sequence[datetime]) -> str:
    """The day of a run, and its time (UTC) where another run is of the same day."""
    alike = sum(other.date() == when.date() for other in others)
    return f"{when:%Y-%m-%d %H:%M}" if alike > 1 else f"{when:%Y-%m-%d}"


def seen_at(seen: Seen) -> str:
    """``path Class.method``, as far as it is known."""
    return f"{seen.path} {seen.symbol}".rstrip()


def area_cells(area: Area) -> list[int]:
    """The counts of an area in the order of AREA_HEAD."""
    return [
        len(area.conflicts),
        len(area.both_changed),
        len(area.patches),
        len(area.fixes),
        len(area.findings),
    ]


AREA_HEAD = ("conflicts", "both changed", "patches", "missed fixes", "findings")
PATCH_HEAD = ("commit", "age", "±", "state", "moved on", "conflicts", "findings", "subject")


def patch_cells(patch: OwnPatch) -> list[str]:
    """A patch in the order of PATCH_HEAD."""
    return [
        (patch.sha or "")[:10],
        "" if patch.age is None else f"{patch.age} d",
        f"+{patch.added} -{patch.removed}",
        PATCH_STATES[patch.state],
        number(len(patch.upstream_since)),
        "?" if patch.conflicts is None else number(len(patch.conflicts)),
        number(len(patch.findings)),
        shorten(patch.subject, _SUBJECT),
    ]


def shorten(text: str, most: int) -> str:
    """The first ``most`` characters of a text, the last of them a mark where more is left out."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def number(value: int) -> str:
    """A count in a cell: nothing for none."""
    return f"{value:,}" if value else ""


def filled(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """A table, its head first, without the columns in which no row says anything."""
    columns = [column for column in zip(head, *rows, strict=True) if any(column[1:])]
    return [list(row) for row in zip(*columns, strict=True)]


def cut(rows: Sequence[Any], most: int | None) -> tuple[Sequence[Any], int]:
    """The first rows, and how many are left out; None takes all."""
    shown = rows if most is None else rows[:most]
    return shown, len(rows) - len(shown)
