"""The report as one HTML page to pass around: no script, nothing from elsewhere, light and dark."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from auditor.formats import page
from auditor.formats.areas import areas_of
from auditor.formats.columns import Column, columns
from auditor.formats.order import HOW_TO_SHOW, certainty, conditions, deployment, origin, rank
from auditor.formats.text import scrub
from auditor.formats.verdict import Verdict
from auditor.model import (
    SEVERITIES,
    Argument,
    Condition,
    Excerpt,
    Finding,
    Launch,
    Report,
)

LARGEST = 100_000
"""Bytes that the page may have, so that it can be mailed; what has no room is counted."""
_CARDS = 100  # there is no room for more
_WITH_SOURCE = 10  # causes whose source lines come before the cards of further causes
_OPEN = 1  # cards that are unfolded
_FURTHER = 100
_MOST = {
    "listed": 12,
    "evidence": 8,
    "asked": 8,
    "also": 20,
    "accepted": 50,
    "suppressions": 50,
    "launches": 30,
    "settings": 60,
    "skipped": 20,
    "checked": 40,
    "areas": 12,
    "warnings": 5,
    "ways": 3,
}
"""Entries of each list that are shown."""

_FLAG = re.compile(r"(\(?--[\w-]+\)?)")
# A page goes where a script's keys must not.
_SECRET = re.compile(r"(?:^|[-_])(?:key|token|password|secret|credentials?)$", re.IGNORECASE)


class Cause(NamedTuple):
    """The findings of one root, the first in order of importance before the others."""

    finding: Finding
    others: tuple[Finding, ...]
    ids: dict[str, str]
    """Where on the page each of the findings is, by its fingerprint."""
    columns: tuple[Column, ...]

    @property
    def id(self) -> str:
        """Where on the page the card is."""
        return self.ids[self.finding.fingerprint]


class Setting(NamedTuple):
    """A flag of a launch as written, and the causes that it turns on."""

    text: str
    turns_on: list[Cause]


def render(report: Report, verdict: Verdict) -> str:
    """The page, ending in a newline; of what no longer fits ``LARGEST``, the least goes first.

    Source lines of the last causes go before their cards, and cards become rows of a list.
    """
    told = _Page(report, verdict)
    cards = _most(
        min(len(told.causes), _CARDS), lambda number: told.fits(number, min(number, _WITH_SOURCE))
    )
    sources = _most(cards, lambda number: told.fits(cards, number))
    return told.text(cards, sources)


def _most(last: int, fits: Callable[[int], bool]) -> int:
    """The greatest number up to ``last`` that fits, or 0; of two numbers the smaller fits first."""
    return bisect_left(range(1, last + 1), True, key=lambda number: not fits(number))


class _Page:
    def __init__(self, report: Report, verdict: Verdict) -> None:
        # Places in a line are those of the text as it is: what shows lines scrubs them itself.
        excerpts = report.excerpts
        self.report = scrub(report)
        self.verdict = scrub(verdict)
        self.causes = _causes(self.report.findings, excerpts)

    def fits(self, cards: int, sources: int) -> bool:
        return len(self.text(cards, sources).encode()) <= LARGEST

    def text(self, cards: int, sources: int) -> str:
        """The page with so many cards, so many of them with source lines."""
        report, verdict = self.report, self.verdict
        headline, *facts = verdict.line().split(" · ")
        causes, further = self.causes[:cards], self.causes[cards:]
        failing = {finding.fingerprint for finding in verdict.failing}
        accepted = [f for f in report.findings if f.disposition != "active"]
        accepted.sort(key=lambda finding: (finding.disposition == "baselined", rank(finding)))
        turned_on = _turned_on(causes)
        return page.render(
            "audit.html",
            report=report,
            verdict=verdict,
            headline=headline,
            facts=facts,
            sides=[s for s in (report.fork, report.upstream, report.base, *report.targets) if s],
            refs=_refs(report),
            causes=causes,
            parts=_parts(causes, failing, verdict.fail_on),
            mitigations=_mitigations(causes, failing),
            sources=sources,
            without_source=sum(bool(cause.columns) for cause in causes[sources:]),
            further=further[:_FURTHER],
            without_card=len(further),
            counted=_by_severity(further[_FURTHER:]),
            accepted=accepted,
            suppressions=sorted(
                (s for s in report.suppressions if s.brought_by == "fork"),
                key=lambda s: (s.path, s.line, s.column, s.rules),
            ),
            launches=[(launch, _settings(launch, turned_on)) for launch in sorted(report.launches)],
            areas=areas_of(report.changes.files),
            whole=[c for c in sorted(report.checked) if c.held == c.total],
            partly=[c for c in sorted(report.checked) if c.held != c.total],
            skipped=sorted(report.skipped),
            warnings=[w for w in report.warnings if w != report.mismatch],
            most=_MOST,
            opened=_OPEN,
            how_to_show=HOW_TO_SHOW,
            certainty=certainty,
            origin=origin,
            deployment=deployment,
            in_short=_in_short,
            conditions=conditions,
            asked_for=_asked_for,
            flags=_FLAG.split,
            largest=LARGEST,
        )


def _causes(findings: Iterable[Finding], excerpts: dict[str, tuple[Excerpt, ...]]) -> list[Cause]:
    """The causes of the active findings, the most important first."""
    groups: dict[str, list[Finding]] = {}
    active = sorted((f for f in findings if f.disposition == "active"), key=rank)
    for finding in active:
        groups.setdefault(finding.hit.cause or finding.fingerprint, []).append(finding)
    short = [finding.fingerprint[:8] for finding in active]
    ids = {
        finding.fingerprint: name if short.count(name) == 1 else f"{name}-{number}"
        for number, (finding, name) in enumerate(zip(active, short, strict=True))
    }
    return [
        Cause(
            first,
            tuple(others),
            {f.fingerprint: ids[f.fingerprint] for f in (first, *others)},
            tuple(columns(excerpts.get(first.fingerprint, ()) if number < _CARDS else ())),
        )
        for number, (first, *others) in enumerate(groups.values())
    ]


def _parts(
    causes: Sequence[Cause], failing: set[str], fail_on: str
) -> list[tuple[str, list[Cause]]]:
    """The cards under their headings: what fails the run, and what does not."""
    fails = [cause for cause in causes if cause.finding.fingerprint in failing]
    rest = [cause for cause in causes if cause.finding.fingerprint not in failing]
    below = "Findings" if fail_on == "never" else f"Below {fail_on}"
    parts = [("What fails the run", fails), (below, rest)]
    return [(title, part) for title, part in parts if part]


def _mitigations(causes: Iterable[Cause], failing: set[str]) -> list[tuple[str, list[Cause]]]:
    """What to do until a cause is fixed, with the causes that it is for; the most first."""
    found: dict[str, list[Cause]] = {}
    for cause in causes:
        ours = cause.finding.deployment
        if ours is not None and ours.mitigation and cause.finding.fingerprint in failing:
            found.setdefault(ours.mitigation, []).append(cause)
    return sorted(found.items(), key=lambda entry: -len(entry[1]))


def _refs(report: Report) -> dict[str, str]:
    """How each side is called, by its role; the first target for all of them."""
    sides = (*reversed(report.targets), report.base, report.upstream, report.fork)
    return {side.side: side.ref for side in sides if side is not None}


def _by_severity(causes: Sequence[Cause]) -> str:
    """``3 high, 20 low``; empty for no causes."""
    found = [cause.finding.severity for cause in causes]
    return ", ".join(f"{found.count(s):,} {s}" for s in SEVERITIES if s in found)


def _in_short(finding: Finding) -> str:
    """Whether this deployment runs the code of a finding, in few words; its card has them all."""
    ours = finding.deployment
    if ours is not None and ours.state == "no-launch":
        flags = [c.text for way in ours.conditions[:1] for c in way if c.kind == "flag"]
        whole = len(ours.conditions) == 1 and len(flags) == len(ours.conditions[0])
        return f"with {' '.join(flags)}{'' if whole else ' …'}" if flags else ""
    if ours is None or ours.state != "on" or not ours.turned_on:
        return deployment(finding).split("; ")[0]
    first, *others = ours.turned_on
    more = f" +{len(others)}" if others else ""
    return f"turned on by {PurePosixPath(first.path).name}:{first.line}{more}"


def _asked_for(finding: Finding) -> list[Condition]:
    """Every condition of the finding's code once, with the place where the tree asks for it."""
    ways = finding.deployment.conditions if finding.deployment is not None else ()
    return list(dict.fromkeys(condition for way in ways for condition in way if condition.path))


def _turned_on(causes: Iterable[Cause]) -> dict[tuple[str, int], list[tuple[str, Cause]]]:
    """What the settings of scripts turn on, by their places: the setting and a cause."""
    found: dict[tuple[str, int], list[tuple[str, Cause]]] = {}
    for cause in causes:
        ours = cause.finding.deployment
        for place in ours.turned_on if ours is not None and ours.state == "on" else ():
            found.setdefault((place.path, place.line), []).append((place.setting, cause))
    return found


def _settings(
    launch: Launch, turned_on: dict[tuple[str, int], list[tuple[str, Cause]]]
) -> list[Setting]:
    """The flags as written, and variables by name."""

    def setting(name: str, text: str, place: tuple[str, int]) -> Setting:
        told = turned_on.get(place, ())
        return Setting(text, [cause for words, cause in told if _named(words) == _named(name)])

    found = [setting(a.flag, _written(a), (a.path, a.line)) for a in launch.arguments]
    return found + [setting(v.name, f"{v.name}=…", (v.path, v.line)) for v in launch.environment]


def _named(setting: str) -> str:
    """The flag or variable of a setting, whose value may follow, in one spelling."""
    return re.split("[ =]", setting)[0].replace("_", "-")


def _written(argument: Argument) -> str:
    if argument.value is None:
        return argument.flag
    return f"{argument.flag} {'…' if _SECRET.search(argument.flag) else argument.value}"
