"""The drift report as one HTML page: no script, nothing from elsewhere, light and dark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from auditor.drift.facts import Fix, OwnPatch
from auditor.drift.runs import Run, short
from auditor.formats import charts, page
from auditor.formats.charts import Chart, Line, chart_of
from auditor.formats.drift_words import (
    AREA_HEAD,
    MEASURES,
    Standing,
    Words,
    area_cells,
    day_of,
)
from auditor.formats.order import origin as origin_told
from auditor.model import ORIGINS, SEVERITIES

MOST_RUNS = 104
"""The latest runs that are charted and listed: two years of weeks."""

# Whose the findings are, in the colours of the charts.
_STYLES = {"introduced": 1, "regressed": 2, "inherited": 0, "fixed-upstream": 3, "unknown": 4}


class Group(NamedTuple):
    """Rows under one heading; ``name`` is their id on the page."""

    name: str
    title: str
    rows: Sequence[Any]


class Figure(NamedTuple):
    """A chart, drawn where it can be, and its numbers; the newest run is the first row."""

    chart: Chart
    svg: str | None
    rows: list[tuple[str, list[int | None]]]


def render(standing: Standing) -> str:
    """The page, ending in a newline."""
    words = Words(standing)
    runs = standing.runs[-MOST_RUNS:]
    return page.render(
        "drift.html",
        words=words,
        report=words.report,
        drift=words.drift,
        moved=words.moved,
        moves=words.moves(),
        target=words.report.targets[-1] if words.report.targets else None,
        run=runs[-1] if runs else None,
        left_out=len(standing.runs) - len(runs),
        figures=list(_figures(runs)),
        drawn=charts.available(),
        fixes=_fixes(words),
        patches=_patches(words),
        findings=_findings(words),
        severities=SEVERITIES,
        area_head=AREA_HEAD,
        area_cells=area_cells,
        ids=_Ids(words),
        origin_told=origin_told,
    )


class _Ids:
    """Where on the page a commit, a finding or a file has its row; empty where it has none."""

    def __init__(self, words: Words) -> None:
        drift = words.drift
        self._patches = {patch.sha or patch.subject: n for n, patch in enumerate(drift.patches)}
        self._commits = {patch.sha for patch in drift.patches if patch.sha}
        self._short = {short(patch.sha): n for n, patch in enumerate(drift.patches) if patch.sha}
        self._findings = {f.fingerprint: n for n, f in enumerate(words.findings)}
        self._fixes = {short(fix.sha): n for n, fix in enumerate(drift.fixes.listed)}

    def patch(self, patch: OwnPatch | str) -> str:
        key = patch if isinstance(patch, str) else patch.sha or patch.subject
        return self._id("patch", self._patches.get(key))

    def patch_of(self, sha: str) -> str:
        """The row of a patch by the digits that the history has."""
        return self._id("patch", self._short.get(sha))

    def told(self, key: str) -> str:
        """A patch in a few letters, by what an area has of it."""
        return key[:10] if key in self._commits else key

    def finding(self, fingerprint: str) -> str:
        return self._id("finding", self._findings.get(fingerprint))

    def fix(self, sha: str) -> str:
        return self._id("fix", self._fixes.get(short(sha)))

    @staticmethod
    def _id(kind: str, number: int | None) -> str:
        return "" if number is None else f"{kind}-{number}"


def _figures(runs: Sequence[Run]) -> Iterator[Figure]:
    """The charts over the runs; a single run draws no line."""
    if len(runs) < 2:
        return
    when = [run.when for run in runs]
    for number, (name, value) in enumerate(MEASURES):
        values = tuple(value(run.tally) for run in runs)
        if any(known is not None for known in values):
            title = name[0].upper() + name[1:]
            yield _figure(chart_of(f"chart-{number}", title, when, [Line(name, values)]))
    origins = [
        Line(origin, tuple(run.tally.of_origin(origin) for run in runs), _STYLES[origin])
        for origin in ORIGINS
    ]
    yield _figure(chart_of("chart-findings", "Findings by origin", when, origins))
    ages = [run.tally.ages for run in runs]
    if any(ages):
        lines = [
            Line("oldest", tuple(a.oldest if a else None for a in ages), 2),
            Line("9 of 10 under", tuple(a.most if a else None for a in ages), 4),
            Line("median", tuple(a.median if a else None for a in ages), 0),
        ]
        yield _figure(chart_of("chart-ages", "Age of the fork's patches, in days", when, lines))


def _figure(chart: Chart) -> Figure:
    rows = [
        (day_of(moment, chart.moments), [line.values[n] for line in chart.lines])
        for n, moment in enumerate(chart.moments)
    ]
    svg = charts.draw(chart) if charts.available() else None
    return Figure(chart, svg, rows[::-1])


def _fixes(words: Words) -> list[Group]:
    """All commits that were judged, by state; each with why it is not among the missed."""

    def why(fix: Fix) -> str:
        if fix.owed or fix.state == "present":
            return ""
        if fix.in_target == "taken-back":
            return "taken back upstream"
        return "the fork has nothing of it" if fix.moot else "no repair"

    groups = []
    for state in ("present", "absent", "undecided"):
        rows = [(fix, why(fix)) for fix in words.drift.fixes.listed if fix.state == state]
        groups.append(Group(f"fixes-{state}", state, rows))
    return groups


def _patches(words: Words) -> list[Group]:
    """The patches as their table of ages and states counts them."""
    cells = words.patches_by_age()
    return [
        Group(f"patches-{column}-{row}", f"{told}, {age}", patches)
        for column, told in enumerate(words.states.values())
        for row, (age, columns) in enumerate(cells)
        for patches in [columns[column]]
        if patches
    ]


def _findings(words: Words) -> list[Group]:
    return [
        Group(f"findings-{origin}-{severity}", f"{severity}, {origin}", found)
        for origin, columns in words.finding_cells()
        for severity, found in zip(SEVERITIES, columns, strict=True)
        if found
    ]
