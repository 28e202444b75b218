"""The drift report in the format that was asked for, and its page for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tabulate import tabulate

from auditor.drift.runs import Seen
from auditor.formats.drift_words import (
    AREA_HEAD,
    PATCH_HEAD,
    Standing,
    Words,
    area_cells,
    cut,
    filled,
    number,
    patch_cells,
    seen_at,
    shorten,
)
from auditor.formats.text import Paint, Screen, clip, columns_of, finished, wrap, wrap_phrases
from auditor.model import SEVERITIES, Location

NAMES = ("table", "json", "markdown", "html")

_PROSE = 110
_FIXES = 15
_PATCHES = 15
_ROWS = 12
_LEAST = 40  # columns of a subject, however narrow the screen is


def render(form: str, standing: Standing, screen: Screen) -> str:
    """The report in the format ``form`` (one of ``NAMES``), ending in a newline."""
    if form == "json":
        from auditor.formats.drift_json import render as render_json

        return render_json(standing)
    if form == "markdown":
        from auditor.formats.drift_markdown import render as render_markdown

        return render_markdown(standing, screen)
    if form == "html":
        from auditor.formats.drift_html import render as render_html

        return render_html(standing)
    return finished(_Page(standing, screen).lines(), screen)


class _Page:
    def __init__(self, standing: Standing, screen: Screen) -> None:
        self.words = Words(standing)
        self.screen = screen
        self.paint = Paint(screen.colour)
        self.prose = min(screen.width, _PROSE)

    def lines(self) -> Iterator[str]:
        words = self.words
        if words.moved is not None:
            since = f"since {words.since}: "
            yield from wrap_phrases(since + words.moved_line(), self.screen.width)
        for line in wrap_phrases(" · ".join(words.headline()), self.screen.width):
            yield self.paint.bold(line)
        if words.doubt:
            yield from map(self.paint.warn, wrap(words.doubt, self.prose, "", "  "))
        if self.screen.quiet:
            return
        for note in words.notes:
            yield from wrap(note, self.prose, "  note: ", "    ")
        yield from self.moved()
        if words.drift.ahead is not None:
            yield from self.fixes()
        yield from self.patches()
        if words.drift.areas:
            rows = [[area.area, *map(number, area_cells(area))] for area in words.drift.areas]
            yield from self.heading("Where it comes together")
            yield from self.table(("area", *AREA_HEAD), rows, _ROWS)
        if words.drift.conflicts:
            yield from self.heading(f"A merge of {words.drift.target} conflicts in")
            yield from self.some(words.drift.conflicts, _ROWS)
        if words.findings:
            yield from self.heading(f"Findings · {len(words.findings)}")
            cells = [[name, *(number(len(c)) for c in row)] for name, row in words.finding_cells()]
            yield from self.table(("origin", *SEVERITIES), cells, len(cells))
        if words.serve:
            yield from self.heading(f"Of them in serve scripts · {len(words.serve)}")
            told = [f"{f.severity} {f.rule} {_place(f.hit.where)}" for f in words.serve]
            yield from self.some(told, _ROWS)

    def heading(self, text: str) -> Iterator[str]:
        yield from ("", self.paint.bold(text))

    def some(self, rows: Sequence[str], most: int) -> Iterator[str]:
        shown, left = cut(rows, None if self.screen.verbose else most)
        yield from (f"  {row}" for row in shown)
        if left:
            yield f"  +{left:,} more; -v shows all"

    def table(self, head: Sequence[str], rows: Sequence[Sequence[Any]], most: int) -> Iterator[str]:
        names, *cells = filled(head, rows)
        shown, left = cut(cells, None if self.screen.verbose else most)
        page = tabulate(shown, headers=names, tablefmt="plain", disable_numparse=True)
        yield from (f"  {line.rstrip()}" for line in page.splitlines())
        if left:
            yield f"  +{left:,} more; -v shows all"

    def moved(self) -> Iterator[str]:
        moved = self.words.moved
        if moved is None:
            return
        for note in moved.notes:
            yield from wrap(note, self.prose, "  note: ", "    ")
        turned = [
            f"{_seen(r.now)} · was {r.before.severity} {r.before.origin}" for r in moved.changed
        ]
        for told, lines in (
            ("Findings opened", [_seen(row) for row in moved.opened]),
            ("Findings closed", [_seen(row) for row in moved.closed]),
            ("Findings accepted", [_seen(row) for row in moved.accepted]),
            ("Findings with another origin or severity", turned),
            ("Fixes newly missed", self.named(moved.newly_missed)),
            ("Fixes taken over", self.named(moved.taken_over)),
            ("Patches added", self.named(moved.patches_added)),
            ("Patches taken upstream", self.named(moved.patches_upstream)),
            ("Patches gone", self.named(moved.patches_gone)),
        ):
            if lines:
                yield from self.heading(f"{told} · {len(lines)}")
                yield from self.some(lines, _ROWS)

    def named(self, shas: Sequence[str]) -> list[str]:
        subjects = (shorten(self.words.subject(sha), _PROSE) for sha in shas)
        return [f"{sha[:10]} {said}".rstrip() for sha, said in zip(shas, subjects, strict=True)]

    def fixes(self) -> Iterator[str]:
        words = self.words
        yield from self.heading("Upstream fixes that the fork misses")
        yield from wrap_phrases(" · ".join(words.fix_counts()), self.prose, "  ")
        shown, left = cut(words.owed, None if self.screen.verbose else _FIXES)
        for fix in shown:
            yield ""
            yield from wrap(
                f"{fix.sha[:10]} {shorten(fix.subject, _PROSE)}", self.prose, "  ", "    "
            )
            yield from wrap(f"{fix.state}: {fix.reason}", self.prose, "    ")
            yield from wrap_phrases(" · ".join(words.fix_facts(fix)), self.prose, "    ")
            for seen in fix.evidence:
                place = f"{seen.path}:{seen.line}" if seen.line else seen.path
                told = " ".join(filter(None, (place, seen.symbol, "—", seen.note)))
                yield from wrap(told, self.prose, "    ", "      ")
        if left:
            yield f"  +{left:,} more; -v shows all"

    def patches(self) -> Iterator[str]:
        words = self.words
        yield from self.heading(f"The fork's patches · {len(words.drift.patches)}")
        yield from wrap_phrases(" · ".join(words.by_state()), self.prose, "  ")
        if words.drift.patches:
            ages = [[name, *(number(len(c)) for c in row)] for name, row in words.patches_by_age()]
            yield from self.table(("age", *words.states.values()), ages, len(ages))
            yield ""
            rows = [patch_cells(patch) for patch in words.drift.patches]
            # A column is as wide as its longest cell, or its head and two more.
            columns = list(zip(*filled(PATCH_HEAD, rows), strict=True))[:-1]
            widths = [max(len(head) + 2, *map(columns_of, cells)) + 2 for head, *cells in columns]
            left = max(self.screen.width - 2 - sum(widths), _LEAST)
            rows = [[*cells, clip(subject, left)] for *cells, subject in rows]
            yield from self.table(PATCH_HEAD, rows, _PATCHES)


def _seen(row: Seen) -> str:
    return f"{row.severity} {row.rule} · {row.origin} · {seen_at(row)}"


def _place(where: Location) -> str:
    return f"{where.symbol.path}:{where.line}"
