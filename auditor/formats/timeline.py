"""Findings over a row of releases, for a person and as JSON, ``audit-history/1``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from auditor.formats.json import repair_record, schema_of
from auditor.formats.records import Count, Line, RepairRecord, ToolRecord
from auditor.formats.text import (
    Paint,
    Screen,
    count,
    encodable,
    finished,
    scrub,
    wrap,
    wrap_phrases,
)
from auditor.model import Category, Confidence, Lifetime, Reach, Repair, Severity, Timeline

NAMES = ("table", "json")
SCHEMA = "audit-history/1"
SCHEMA_FILE = Path(__file__).with_name("audit-history-1.schema.json")
_PROSE = 110
_SKIPPED = 5


class ReleaseRecord(TypedDict):
    """One of the releases, oldest first; ``findings`` counts its own."""

    ref: str
    kind: Literal["worktree", "revision", "directory", "release"]
    commit: str | None
    python_files: Count
    read_files: Count
    findings: Count


class NameRecord(TypedDict):
    """A symbol that a finding bore before it was moved or renamed."""

    symbol: str
    path: str


class LifetimeRecord(TypedDict):
    """A finding from ``appeared``, the first release that has it, to ``last``, the last one.

    ``ended`` is the first release without it, null where the newest still has it; ``ended_by`` is
    the commit, null where it is not known. What came back after its end is another record. Path,
    line and message are those in ``last``.
    """

    rule: str
    category: Category
    severity: Severity
    confidence: Confidence
    reach: Reach
    cause: str
    fingerprint: str
    symbol: str
    path: str
    line: Line
    message: str
    names: list[NameRecord]
    appeared: str
    appeared_reason: str
    last: str
    ended: str | None
    ended_reason: str
    ended_by: RepairRecord | None


class UnreadRecord(TypedDict):
    """Something that could not be read: ``RELEASE: path``, during what, and why."""

    path: str
    stage: str
    reason: str


class SummaryRecord(TypedDict):
    """Counts of findings; ``hidden`` are those below the asked confidence."""

    exit_status: Literal[0, 3]
    findings: Count
    ended: Count
    hidden: Count
    notes: list[str]
    configuration: dict[str, str]


class Document(TypedDict):
    """What ``audit history -o json`` writes."""

    schema: Literal["audit-history/1"]
    tool: ToolRecord
    releases: list[ReleaseRecord]
    findings: list[LifetimeRecord]
    skipped: list[UnreadRecord]
    summary: SummaryRecord


def schema() -> str:
    """The JSON Schema of the document; ``audit-history-1.schema.json`` is this text."""
    return schema_of(Document, SCHEMA)


def render(form: str, timeline: Timeline, status: Literal[0, 3], screen: Screen) -> str:
    """The timeline as text in the format ``form`` (one of ``NAMES``), ending in a newline."""
    if form == "json":
        return (
            json.dumps(encodable(_document(timeline, status)), ensure_ascii=False, indent=2) + "\n"
        )
    return finished(_lines(scrub(timeline), screen), screen)


def commit_of(repair: Repair) -> str:
    """``1a2b3c4d Wait before the scales are read``."""
    return f"{repair.sha[:8]} {repair.subject}"


def _lines(timeline: Timeline, screen: Screen) -> Iterator[str]:
    paint = Paint(screen.colour)
    width = min(screen.width, _PROSE)
    there = [life for life in timeline.lifetimes if life.ended is None]
    ended = [life for life in timeline.lifetimes if life.ended is not None]
    first, last = timeline.releases[0].ref, timeline.releases[-1].ref
    phrases = [f"{count(len(timeline.lifetimes), 'finding')} in {len(timeline.releases)} releases"]
    phrases += [f"{len(there)} still there in {last}", f"{len(ended)} ended"]
    yield from wrap_phrases(" · ".join(phrases), screen.width)
    if not screen.quiet:
        yield ""
        yield from _releases(timeline, width)
        if there:
            yield ""
            yield paint.bold(f"Still there in {last} · {len(there)}")
            for life in there:
                yield from _life(life, first, width, paint)
        if ended:
            yield ""
            yield paint.bold(f"Ended · {len(ended)}")
            for life in ended:
                yield from _life(life, first, width, paint)
        yield from _left_out(timeline, screen, paint)


def _releases(timeline: Timeline, width: int) -> Iterator[str]:
    """Each release with the number of its findings."""
    told = [f"{release.ref} ({release.findings})" for release in timeline.releases]
    yield from wrap_phrases("Findings a release: " + " · ".join(told), width)


def _life(life: Lifetime, first: str, width: int, paint: Paint) -> Iterator[str]:
    finding = life.finding
    symbol = finding.hit.where.symbol
    yield f"  {paint.bold(symbol.qualname or symbol.path)}"
    since = "in all" if life.appeared == first and life.ended is None else f"since {life.appeared}"
    facts = [finding.rule, paint.severity(finding.severity, finding.severity), since]
    if life.ended is not None:
        facts.append(paint.good(f"ended {life.ended}: {life.ended_reason}"))
    yield from wrap_phrases(" · ".join(facts), width, "    ")
    yield from wrap(
        f"{symbol.path}:{finding.hit.where.line} in {life.last}", width, "    ", "      "
    )
    if life.names:
        before = ", ".join(f"{name.qualname} in {name.path}" for name in life.names)
        yield from wrap(f"before: {before}", width, "    ", "      ")
    if life.appeared_reason:
        yield from wrap(f"appeared: {life.appeared_reason}", width, "    ", "      ")
    if life.repair is not None:
        yield from wrap(f"ended by {commit_of(life.repair)}", width, "    ", "      ")


def _left_out(timeline: Timeline, screen: Screen, paint: Paint) -> Iterator[str]:
    for note in timeline.notes:
        yield from ("", *wrap(f"note: {note}", _PROSE, "", "  "))
    if timeline.skipped:
        yield ""
        yield paint.warn(f"Skipped · {len(timeline.skipped)}")
        shown: Sequence[Any] = timeline.skipped
        shown = shown if screen.verbose else shown[:_SKIPPED]
        for entry in shown:
            yield from wrap(f"{entry.path} — {entry.reason}", screen.width, "  ", "    ")
        if len(shown) < len(timeline.skipped):
            yield f"  +{len(timeline.skipped) - len(shown)} more, see: -v or -o json"
    if timeline.hidden:
        yield ""
        hidden = count(timeline.hidden, "finding")
        yield from wrap(
            f"Hidden: {hidden} below the asked confidence; --min-confidence low shows them", _PROSE
        )


def _document(timeline: Timeline, status: Literal[0, 3]) -> Document:
    ended = [life for life in timeline.lifetimes if life.ended is not None]
    return {
        "schema": "audit-history/1",
        "tool": {"name": "audit", "version": timeline.tool_version},
        "releases": [
            {
                "ref": release.ref,
                "kind": release.kind,
                "commit": release.commit,
                "python_files": release.python_files,
                "read_files": release.read_files,
                "findings": release.findings,
            }
            for release in timeline.releases
        ],
        "findings": [_record(life) for life in timeline.lifetimes],
        "skipped": [
            {"path": entry.path, "stage": entry.stage, "reason": entry.reason}
            for entry in timeline.skipped
        ],
        "summary": {
            "exit_status": status,
            "findings": len(timeline.lifetimes),
            "ended": len(ended),
            "hidden": timeline.hidden,
            "notes": list(timeline.notes),
            "configuration": dict(sorted(timeline.configuration.items())),
        },
    }


def _record(life: Lifetime) -> LifetimeRecord:
    finding, hit = life.finding, life.finding.hit
    return {
        "rule": finding.rule,
        "category": finding.category,
        "severity": finding.severity,
        "confidence": hit.confidence,
        "reach": hit.reach,
        "cause": hit.cause,
        "fingerprint": finding.fingerprint,
        "symbol": hit.where.symbol.qualname,
        "path": hit.where.symbol.path,
        "line": hit.where.line,
        "message": hit.message,
        "names": [{"symbol": name.qualname, "path": name.path} for name in life.names],
        "appeared": life.appeared,
        "appeared_reason": life.appeared_reason,
        "last": life.last,
        "ended": life.ended,
        "ended_reason": life.ended_reason,
        "ended_by": repair_record(life.repair),
    }
