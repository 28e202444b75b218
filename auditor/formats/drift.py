"""The drift report: a page for a terminal, Markdown for a message, and JSON, ``audit-drift/1``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from tabulate import tabulate

from auditor.drift.facts import Drift, Fix, OwnPatch, PatchState
from auditor.formats.text import Paint, Screen, count, scrub, wrap, wrap_phrases
from auditor.model import ORIGINS, SEVERITIES, Finding, Report

NAMES = ("table", "json", "markdown")
SCHEMA = "audit-drift/1"

_PROSE = 110
_FIXES = 15
_PATCHES = 15
_PATHS = 12
_BACKTICKS = re.compile("`+")

_PATCH_STATES: dict[PatchState, str] = {
    "upstream": "taken upstream",
    "partly-upstream": "partly upstream",
    "own": "only here",
    "unknown": "not compared",
}


def render(form: str, report: Report, drift: Drift, screen: Screen) -> str:
    """The report in the format ``form`` (one of ``NAMES``), ending in a newline."""
    if form == "json":
        return _json(report, drift)
    page = _Page(scrub(report), scrub(drift), screen)
    lines = page.markdown() if form == "markdown" else page.table()
    return "\n".join(lines) + "\n"


def _json(report: Report, drift: Drift) -> str:
    """The whole of it; no clock, host or absolute path."""
    findings = [
        {
            "fingerprint": finding.fingerprint,
            "rule": finding.rule,
            "severity": finding.severity,
            "origin": finding.origin,
            "fixed_in": finding.fixed_in,
            "path": finding.hit.where.symbol.path,
            "line": finding.hit.where.line,
            "symbol": finding.hit.where.symbol.qualname,
        }
        for finding in _active(report)
    ]
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "tool": {"name": "audit", "version": report.tool_version},
        "fork": msgspec.to_builtins(report.fork),
        "upstream": msgspec.to_builtins(report.upstream),
        "drift": msgspec.to_builtins(drift),
        "findings": findings,
        "summary": _summary(report, drift),
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _active(report: Report) -> list[Finding]:
    return [finding for finding in report.findings if finding.disposition == "active"]


def _summary(report: Report, drift: Drift) -> dict[str, Any]:
    fixes = drift.fixes.listed
    return {
        "ahead": drift.ahead,
        "behind": drift.behind,
        "both_changed": len(drift.both_changed),
        "conflicts": None if drift.conflicts is None else len(drift.conflicts),
        "fixes": dict(Counter(fix.state for fix in fixes)),
        "missed": sum(fix.missed and fix.repairs for fix in fixes),
        "patches": dict(Counter(patch.state for patch in drift.patches)),
        "findings": dict(Counter(finding.origin for finding in _active(report))),
    }


class _Page:
    def __init__(self, report: Report, drift: Drift, screen: Screen) -> None:
        self.report = report
        self.drift = drift
        self.screen = screen
        self.paint = Paint(screen.colour)
        self.prose = min(screen.width, _PROSE)
        missed = [fix for fix in drift.fixes.listed if fix.missed]
        self.repairs = [fix for fix in missed if fix.repairs or fix.findings]
        self.others = len(missed) - len(self.repairs)

    def headline(self) -> str:
        drift = self.drift
        parts = []
        if drift.ahead is not None and drift.behind is not None:
            parts.append(
                f"{count(drift.ahead, 'commit')} ahead of {drift.target}, {drift.behind:,} behind"
            )
        if drift.target:
            parts.append(f"{count(len(drift.both_changed), 'file')} changed on both sides")
        if drift.conflicts is not None:
            parts.append(f"{count(len(drift.conflicts), 'file')} in conflict")
        if drift.ahead is not None:
            parts.append(f"{count(len(self.repairs), 'fix', 'fixes')} missed or undecided")
        found = Counter(finding.origin for finding in _active(self.report))
        told = ", ".join(f"{found[origin]} {origin}" for origin in ORIGINS if found[origin])
        parts.append(f"findings: {told}" if told else "no findings")
        return " · ".join(parts)

    def fix_counts(self) -> str:
        fixes = self.drift.fixes
        states = Counter(fix.state for fix in fixes.listed)
        back = sum(fix.state != "present" and fix.in_target == "taken-back" for fix in fixes.listed)
        parts = [
            f"{fixes.commits:,} upstream commits, {fixes.of_package:,} of them to the package",
            f"{fixes.same_file:,} in the fork's files but not its symbols",
            f"{len(fixes.listed) + fixes.unjudged:,} in its symbols",
            ", ".join(f"{states[state]} {state}" for state in ("present", "absent", "undecided")),
        ]
        if back:
            parts.append(f"{back} taken back upstream")
        if self.others:
            parts.append(f"{self.others} lacking ones are no repairs and not shown")
        if fixes.unjudged:
            parts.append(f"{fixes.unjudged:,} of low rank not judged")
        return " · ".join(parts)

    @staticmethod
    def applies(fix: Fix) -> str:
        if fix.conflicts is None:
            return "not tried whether it applies"
        if not fix.conflicts:
            return "applies cleanly"
        return f"conflicts in {count(len(fix.conflicts), 'file')}"

    def fix_facts(self, fix: Fix) -> str:
        size = f"{count(fix.files, 'file')}, +{fix.added} -{fix.removed}"
        newer = {"held": "", "changed-since": "changed further since", "taken-back": ""}
        ends = f"at the symbol of {count(len(fix.findings), 'finding')} that the target ended"
        facts = [self.applies(fix), size, newer[fix.in_target], ends if fix.findings else ""]
        return " · ".join(filter(None, facts))

    def patch_rows(self) -> list[list[str]]:
        rows = []
        for patch in self.shown(self.drift.patches, _PATCHES):
            rows.append(
                [
                    (patch.sha or "")[:10],
                    "" if patch.age is None else f"{patch.age} d",
                    f"+{patch.added} -{patch.removed}",
                    _PATCH_STATES[patch.state],
                    _number(len(patch.upstream_since)),
                    "?" if patch.conflicts is None else _number(len(patch.conflicts)),
                    _number(len(patch.findings)),
                    self.subject(patch),
                ]
            )
        return rows

    PATCH_HEAD = ("commit", "age", "±", "state", "moved on", "conflicts", "findings", "subject")

    @staticmethod
    def subject(patch: OwnPatch) -> str:
        return patch.subject if len(patch.subject) <= 60 else f"{patch.subject[:59]}…"

    def shown(self, rows: Sequence[Any], most: int) -> Sequence[Any]:
        return rows if self.screen.verbose else rows[:most]

    def more(self, rows: Sequence[Any], most: int) -> Iterator[str]:
        if len(rows) > most and not self.screen.verbose:
            yield f"+{len(rows) - most:,} more; -v shows all"

    def by_state(self) -> str:
        states = Counter(patch.state for patch in self.drift.patches)
        return " · ".join(f"{states[state]} {_PATCH_STATES[state]}" for state in _PATCH_STATES)

    def table(self) -> Iterator[str]:
        paint, drift, width = self.paint, self.drift, self.screen.width
        for line in wrap_phrases(self.headline(), width):
            yield paint.bold(line)
        if self.screen.quiet:
            return
        for note in (*drift.notes, drift.fixes.note):
            if note:
                yield from wrap(note, self.prose, "  note: ", "    ")
        if drift.ahead is not None:
            yield from ("", paint.bold("Upstream fixes that the fork misses"))
            yield from wrap_phrases(self.fix_counts(), self.prose, "  ")
            for fix in self.shown(self.repairs, _FIXES):
                yield ""
                yield from wrap(f"{fix.sha[:10]} {fix.subject}", self.prose, "  ", "    ")
                yield from wrap(f"{fix.state}: {fix.reason}", self.prose, "    ")
                yield from wrap_phrases(self.fix_facts(fix), self.prose, "    ")
                for seen in fix.evidence:
                    place = f"{seen.path}:{seen.line}" if seen.line else seen.path
                    yield from wrap(
                        f"{place} {seen.symbol} — {seen.note}".strip(), self.prose, "    ", "      "
                    )
            yield from ("  " + line for line in self.more(self.repairs, _FIXES))
        yield from ("", paint.bold(f"The fork's patches · {len(drift.patches)}"))
        yield from wrap_phrases(self.by_state(), self.prose, "  ")
        if drift.patches:
            page = tabulate(
                self.patch_rows(), headers=self.PATCH_HEAD, tablefmt="plain", disable_numparse=True
            )
            yield from ("  " + line for line in page.splitlines())
            yield from ("  " + line for line in self.more(drift.patches, _PATCHES))
        if drift.conflicts:
            yield from ("", paint.bold(f"A merge of {drift.target} conflicts in"))
            yield from ("  " + path for path in self.shown(drift.conflicts, _PATHS))
            yield from ("  " + line for line in self.more(drift.conflicts, _PATHS))
        yield from self.finding_lines()

    def finding_lines(self) -> Iterator[str]:
        found = _active(self.report)
        if found:
            yield from ("", self.paint.bold(f"Findings · {len(found)}"))
            page = tabulate(self.finding_rows(), headers=("origin", *SEVERITIES), tablefmt="plain")
            yield from ("  " + line for line in page.splitlines())

    def finding_rows(self) -> list[list[object]]:
        cells = Counter((f.origin, f.severity) for f in _active(self.report))
        return [
            [origin, *(cells[origin, severity] or "" for severity in SEVERITIES)]
            for origin in ORIGINS
            if any(cells[origin, severity] for severity in SEVERITIES)
        ]

    def markdown(self) -> Iterator[str]:
        drift = self.drift
        yield f"**{_plain(self.headline())}**"
        if self.screen.quiet:
            return
        for note in (*drift.notes, drift.fixes.note):
            if note:
                yield from ("", f"> {_plain(note)}")
        if drift.ahead is not None:
            yield from ("", "### Upstream fixes that the fork misses", "")
            yield from (_plain(self.fix_counts()), "")
            for fix in self.shown(self.repairs, _FIXES):
                facts = _plain(self.fix_facts(fix))
                yield f"- `{fix.sha[:10]}` {_code(fix.subject)}: **{fix.state}** · {facts}"
                for seen in fix.evidence[:1]:
                    place = f"{seen.path}:{seen.line}" if seen.line else seen.path or "log"
                    name = f" {_code(seen.symbol)}" if seen.symbol else ""
                    yield f"  {_code(place)}{name}: {_code(seen.note)}"
            yield from ("", *self.more(self.repairs, _FIXES))
        yield from ("", f"### The fork's patches ({len(drift.patches)})", "")
        yield from (_plain(self.by_state()), "")
        if drift.patches:
            yield "| " + " | ".join(self.PATCH_HEAD) + " |"
            yield "|" + " --- |" * len(self.PATCH_HEAD)
            for row in self.patch_rows():
                cells = (*row[:-1], _code(row[-1]).replace("|", "\\|"))
                yield "| " + " | ".join(cells) + " |"
            yield from ("", *self.more(drift.patches, _PATCHES))
        if drift.conflicts:
            yield from ("", f"### A merge of {_code(drift.target)} conflicts in", "")
            yield from (f"- {_code(path)}" for path in self.shown(drift.conflicts, _PATHS))
            yield from ("", *self.more(drift.conflicts, _PATHS))
        if _active(self.report):
            yield from ("", "### Findings", "", f"| origin | {' | '.join(SEVERITIES)} |")
            yield "|" + " --- |" * (len(SEVERITIES) + 1)
            for cells_ in self.finding_rows():
                yield "| " + " | ".join(map(str, cells_)) + " |"


def _number(number: int) -> str:
    return str(number) if number else ""


def _code(text: str) -> str:
    """Text of the fork as a code span: nothing in it links, mentions, formats or is HTML."""
    if not text.strip():
        return ""
    fence = "`" * (max(map(len, _BACKTICKS.findall(text)), default=0) + 1)
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"


def _plain(text: str) -> str:
    """Text with the signs escaped that Markdown or HTML would act on."""
    return re.sub(r"([\\`*_{}\[\]<>#|~@!])", r"\\\1", text)
