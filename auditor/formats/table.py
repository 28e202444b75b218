"""The report for a person at a terminal: the verdict, the findings and why to believe them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, zip_longest

import msgspec
from tabulate import tabulate

from auditor.formats.areas import areas_of, busiest, differing, summed
from auditor.formats.order import HOW_TO_SHOW as _HOW_TO_SHOW
from auditor.formats.order import certainty as _certainty
from auditor.formats.order import deployment as _deployment
from auditor.formats.order import origin as _origin
from auditor.formats.order import rank as _rank
from auditor.formats.source import draw, gutter_of
from auditor.formats.text import (
    Paint,
    Screen,
    columns_of,
    count,
    finished,
    fold,
    head_of,
    printable,
    scrub,
    short_path,
    wrap,
    wrap_phrases,
)
from auditor.formats.verdict import Verdict
from auditor.model import (
    ChangeSet,
    Checked,
    Disagreement,
    Evidence,
    Excerpt,
    FileChange,
    Finding,
    Launch,
    Report,
    SideInfo,
    Skipped,
)

_PROSE = 110  # columns: longer lines of prose are hard to read
_LABEL = 10  # columns of the labels beside a finding
_AREAS = 6
_WHOLE = 3  # causes that are shown with their source
_SHORT = 8  # digits of a fingerprint
_EVIDENCE = 3
_ALSO = 2
_LAUNCHES = 5
_SKIPPED = 5
_ACCEPTED = 50
_SUPPRESSIONS = 50
_HERE = {"on": "turned on here", "off": "not turned on here", "undecided": "undecided here"}
_STALE = 20
_PLACES = 3


def render(report: Report, verdict: Verdict, screen: Screen) -> str:
    """The page, ending in a newline; text of the fork in it is harmless to a terminal."""
    # Lines of source are made harmless as they are drawn, so that carets stay under their place.
    plain = scrub(msgspec.structs.replace(report, excerpts={}))
    return finished(_Page(plain, report.excerpts, scrub(verdict), screen).lines(), screen)


class _Page:
    def __init__(
        self,
        report: Report,
        excerpts: Mapping[str, Sequence[Excerpt]],
        verdict: Verdict,
        screen: Screen,
    ) -> None:
        self.report = report
        self.excerpts = excerpts
        self.verdict = verdict
        self.screen = screen
        self.paint = Paint(screen.colour)
        self.prose = min(screen.width, _PROSE)
        self.told: set[str] = set()
        self.starts = Counter(f.fingerprint[:_SHORT] for f in report.findings)

    def lines(self) -> Iterator[str]:
        if self.screen.quiet:
            yield from self.headline()
            return
        sections = [
            self.headline(),
            self.sides(),
            self.changes(self.report.changes),
            *self.findings(),
            self.accepted(),
            self.suppressions(),
            self.stale(),
            self.launches(),
            self.checked(),
            self.left_out(),
            self.closing(),
        ]
        first = True
        for section in sections:
            lines = list(section)
            if not lines:
                continue
            if not first:
                yield ""
            yield from lines
            first = False

    def headline(self) -> Iterator[str]:
        yield from self.verdict_line()
        if self.report.mismatch:
            for line in wrap(f"warning: {self.report.mismatch}", self.prose, "", "  "):
                yield self.paint.warn(line)
        roots: dict[str, Finding] = {}
        for finding in sorted(self.verdict.failing, key=_rank):
            roots.setdefault(finding.hit.cause or finding.fingerprint, finding)
        for finding in tuple(roots.values())[:_PLACES]:
            yield from self.cause(finding)
        if len(roots) > _PLACES:
            yield f"  +{count(len(roots) - _PLACES, 'more cause')}"

    def verdict_line(self) -> Iterator[str]:
        tone = {0: self.paint.good, 1: self.paint.bad, 3: self.paint.warn}[self.verdict.status]
        yield from map(tone, wrap_phrases(self.verdict.line(), self.screen.width))

    def cause(self, finding: Finding) -> Iterator[str]:
        """Where it is, and what users of the server see: in one line, or in two."""
        severity, where = finding.severity, finding.hit.where
        told = " · ".join(filter(None, (finding.effect, finding.rule, self.short(finding))))
        place = f"{where.symbol.path}:{where.line} {where.symbol.qualname}".rstrip()
        whole = f"{place} · {told}"
        margin = " " * (3 + len(severity))
        if len(margin) + columns_of(whole) <= self.screen.width:
            lines = [margin + whole]
        else:
            lines = [margin + self.place(finding, len(margin))]
            lines += wrap_phrases(told, self.screen.width, margin)
        if _state(finding) == "on":
            lines += wrap(_deployment(finding), self.screen.width, margin)
        yield f"  {self.paint.severity(severity, severity)} {lines[0].lstrip()}"
        yield from lines[1:]

    def short(self, finding: Finding) -> str:
        """As much of a fingerprint as `audit explain` needs to find it."""
        start = finding.fingerprint[:_SHORT]
        return start if self.starts[start] == 1 else finding.fingerprint

    def place(self, finding: Finding, margin: int) -> str:
        """The place and the symbol of a finding: where the path is long, it is the path's loss."""
        where = finding.hit.where
        symbol = f" {where.symbol.qualname}" if where.symbol.qualname else ""
        room = self.screen.width - margin - columns_of(symbol)
        return short_path(f"{where.symbol.path}:{where.line}", room) + symbol

    def sides(self) -> Iterator[str]:
        report = self.report
        others = (report.upstream, report.base, *report.targets)
        sides = [report.fork, *(side for side in others if side is not None)]
        yield from self.table([self.side(side) for side in sides])
        for side in sides:
            if side.note:
                yield from wrap(f"{side.side}: {side.note}", self.prose, "  ", "    ")

    @staticmethod
    def side(side: SideInfo) -> list[str]:
        name = "merge base" if side.side == "base" else side.side
        commit = (side.commit or "")[:10]
        ref = "" if side.commit and side.commit.startswith(side.ref) else side.ref
        files = count(side.python_files, "Python file")
        return [name, ref, side.kind, commit, f"{files}, {side.read_files:,} read"]

    def changes(self, changes: ChangeSet) -> Iterator[str]:
        if self.report.upstream is None:
            return
        if changes.files and self.screen.verbose:
            yield self.paint.bold(differing(changes.files))
            yield from self.table(
                _area_rows(changes.files), ("area", "added", "modified", "deleted", "renamed", "±")
            )
        elif changes.files:
            areas = busiest(change.area or "." for change in changes.files)
            yield from wrap(f"{differing(changes.files)}: in {areas}", self.prose, "", "  ")
        else:
            yield "No file differs from upstream."
        if changes.commits is not None and changes.own is not None:
            own = f"{count(changes.own, 'commit')} of the fork's own since the merge base"
            behind = f", {changes.behind:,} behind upstream" if changes.behind else ""
            areas = busiest(area for commit in changes.commits for area in commit.areas)
            yield from wrap(own + behind + (f"; in {areas}" if areas else ""), self.prose, "  ")
        elif changes.history_note:
            yield from wrap(changes.history_note, self.prose, "  ")

    def findings(self) -> Iterator[Iterator[str]]:
        active = sorted(
            (finding for finding in self.report.findings if finding.disposition == "active"),
            key=_rank,
        )
        whole, left = 0, 0
        for severity, of_severity in groupby(active, key=lambda finding: finding.severity):
            groups: dict[str, list[Finding]] = {}
            for finding in of_severity:
                groups.setdefault(finding.hit.cause or finding.fingerprint, []).append(finding)
            total = sum(map(len, groups.values()))
            causes = f", {count(len(groups), 'cause')}" if len(groups) < total else ""
            heading = f"{severity.upper()} · {count(total, 'finding')}{causes}"
            yield iter([self.paint.severity(severity, heading)])
            room = len(groups) if self.screen.verbose else max(0, _WHOLE - whole)
            rows = list(groups.values())
            yield from (self.group(group) for group in rows[:room])
            yield (line for group in rows[room:] for line in self.brief(group))
            whole += len(rows[:room])
            left += len(rows[room:])
        if active:
            yield self.more(left, active[0])

    def more(self, left: int, first: Finding) -> Iterator[str]:
        """How to see what is not shown of findings."""
        page = f"{self.screen.command} explain {self.short(first)}"
        told = f"All of a finding: {page}"
        if left:
            told = f"{count(left, 'cause')} in short; -v shows source and evidence of all, {page}"
            told += " that of one"
        yield from map(self.paint.dim, wrap(told, self.screen.width, "", "  "))

    def heading(self, finding: Finding, here: str = "") -> Iterator[str]:
        hit = finding.hit
        facts = [finding.rule, _origin(finding)]
        if hit.reach != "live":
            facts.append("reach unknown" if hit.reach == "unknown" else hit.reach)
        facts += [*filter(None, [here]), _certainty(finding), self.short(finding)]
        first, *rest = wrap_phrases(" · ".join(facts), self.screen.width, "  ")
        first = first.replace(finding.rule, self.paint.severity(finding.severity, finding.rule), 1)
        if finding.origin in ("introduced", "regressed"):
            first = first.replace(facts[1], self.paint.bad(facts[1]), 1)
        yield from (first, *rest)

    def brief(self, group: Sequence[Finding]) -> Iterator[str]:
        """A cause in few lines."""
        finding = group[0]
        yield from self.heading(finding, _HERE.get(_state(finding), ""))
        yield f"    {self.paint.bold(self.place(finding, 4))}"
        more = f" (+{len(group) - 1} of this cause)" if len(group) > 1 else ""
        yield f"    {_cut(finding.hit.message, self.screen.width - 4 - len(more))}{more}"

    def group(self, group: Sequence[Finding]) -> Iterator[str]:
        finding, hit = group[0], group[0].hit
        yield from self.heading(finding)
        yield from wrap(hit.message, self.prose, "  ")
        yield from self.source(finding)
        if finding.means and (finding.rule not in self.told or self.screen.verbose):
            self.told.add(finding.rule)
            yield from self.labelled("means", [finding.means])
        if _deployment(finding):
            yield from self.labelled("deployed", [_deployment(finding)])
        if finding.deployment is not None and finding.deployment.mitigation:
            yield from self.labelled("until", [f"it is fixed: {finding.deployment.mitigation}"])
        if finding.origin_reason:
            yield from self.labelled("origin", [finding.origin_reason])
        if finding.fixed_by is not None:
            repair = f"{finding.fixed_in} by {finding.fixed_by.sha[:8]} {finding.fixed_by.subject}"
            yield from self.labelled("fixed in", [repair])
        if hit.reach != "live" and hit.reach_reason:
            yield from self.labelled("reach", [f"{hit.reach}: {hit.reach_reason}"])
        yield from self.evidence(finding)
        if hit.fix:
            yield from self.labelled("fix", [hit.fix])
        if len(group) > 1:
            others = [self.other(other, finding) for other in group[1:]]
            shown = others if self.screen.verbose else others[:_ALSO]
            more = (
                [f"+{len(others) - len(shown)} more, see: -v"] if len(shown) < len(others) else []
            )
            yield from self.labelled("also", [*shown, *more])

    def source(self, finding: Finding) -> Iterator[str]:
        """The read, and beside it the wait that it lacks: a sibling's, and upstream's own."""
        found = {excerpt.role: excerpt for excerpt in self.excerpts.get(finding.fingerprint, ())}
        if "sibling" in found and finding.origin != "regressed" and not self.screen.verbose:
            found.pop("upstream", None)
        gutter = gutter_of(tuple(found.values()))
        where = finding.hit.where
        place, symbol = f"{where.symbol.path}:{where.line}", where.symbol.qualname
        apart = gutter + 5 + columns_of(f"{place}{symbol}") > self.screen.width
        yield self.arrow("-->", gutter, place if apart else f"{place} {symbol}".rstrip())
        if apart and symbol:
            yield " " * (gutter + 4) + self.paint.bold(symbol)
        for role, excerpt in found.items():
            if role != "read":
                owner = "" if excerpt.side == "fork" else f" ({excerpt.side})"
                symbol = f"{owner} {printable(excerpt.symbol)}"
                place = f"{printable(excerpt.path)}:{excerpt.line}"
                room = self.screen.width - gutter - 3 - columns_of(symbol)
                yield self.arrow(":::", gutter, short_path(place, room) + symbol)
            tone = finding.severity if role == "read" else "info"
            width = self.screen.width
            yield from draw(excerpt, self.paint, width, severity=tone, gutter=gutter)

    def arrow(self, sign: str, gutter: int, place: str) -> str:
        return f"{self.paint.dim(sign.rjust(gutter + 3))} {self.paint.bold(place)}"

    def evidence(self, finding: Finding) -> Iterator[str]:
        """What the source above does not show: siblings by number, anything else by place."""
        shown = {(e.path, e.line) for e in self.excerpts.get(finding.fingerprint, ())}
        left = [e for e in finding.hit.evidence if (e.path, e.line) not in shown]
        siblings = [e for e in left if e.sibling]
        others = [e for e in left if not e.sibling]
        if self.screen.verbose or not shown:
            others, siblings = [*siblings, *others], []
        if siblings:
            told = f"+{count(len(siblings), 'more reader waits', 'more readers wait')}"
            told += f", as {siblings[0].symbol}" if len(siblings) == 1 else ""
            sides = sorted({sibling.side for sibling in siblings})
            told += "" if "fork" in sides else f" ({' and '.join(sides)})"
            yield from self.labelled("siblings", [told])
        listed = others if self.screen.verbose else others[:_EVIDENCE]
        lines = [_evidence(piece) for piece in listed]
        if len(listed) < len(others):
            lines.append(f"+{len(others) - len(listed)} more, see: -v")
        yield from self.labelled("evidence", lines)

    @staticmethod
    def other(finding: Finding, first: Finding) -> str:
        where = finding.hit.where
        parts = [f"{where.symbol.path}:{where.line} {where.symbol.qualname}".rstrip()]
        if finding.rule != first.rule:
            parts.append(finding.rule)
        if finding.origin != first.origin:
            parts.append(finding.origin)
        if finding.hit.reach != first.hit.reach:
            parts.append(f"reach {finding.hit.reach}")
        return " · ".join(parts)

    def accepted(self) -> Iterator[str]:
        """What is suppressed or baselined, by name: a hostile entry could silence the run."""
        accepted = [f for f in self.report.findings if f.disposition != "active"]
        if accepted:
            yield self.paint.bold(f"Accepted · {count(len(accepted), 'finding')}")
        accepted.sort(key=lambda finding: (finding.disposition == "baselined", _rank(finding)))
        shown = accepted if self.screen.verbose else accepted[:_ACCEPTED]
        for finding in shown:
            where = finding.hit.where
            line = f"{where.symbol.path}:{where.line} {finding.rule} · {finding.disposition}"
            reason = f": {finding.disposition_reason}" if finding.disposition_reason else ""
            yield from wrap(line + reason, self.screen.width, "  ", "    ")
        if len(shown) < len(accepted):
            more = len(accepted) - len(shown)
            yield self.paint.dim(f"  +{count(more, 'more finding')}, see: -v or -o json")

    def suppressions(self) -> Iterator[str]:
        """All that the fork itself brought to silence findings, used or not."""
        own = [s for s in self.report.suppressions if s.brought_by == "fork"]
        own.sort(key=lambda s: (s.path, s.line, s.column, s.rules))
        if own:
            yield self.paint.bold(f"Suppressions that the fork brought · {len(own)}")
        shown = own if self.screen.verbose else own[:_SUPPRESSIONS]
        for entry in shown:
            bounds = " ".join(filter(None, (entry.applies_to, entry.symbol)))
            parts = [f"{entry.path}:{entry.line} {', '.join(entry.rules)}"]
            if entry.source == "configuration":
                parts.append(f"for {bounds or 'all files'}")
            if entry.expires:
                parts.append(f"until {entry.expires}")
            parts.append(f"{count(entry.matched, 'finding')}: {entry.reason}")
            yield from wrap(" · ".join(parts), self.screen.width, "  ", "    ")
        if len(shown) < len(own):
            yield self.paint.dim(f"  +{len(own) - len(shown)} more, see: -v or -o json")

    def stale(self) -> Iterator[str]:
        """What a baseline accepts and nobody finds any more."""
        baseline = self.report.baseline
        if baseline is None or not baseline.stale:
            return
        entries = count(len(baseline.stale), "entry", "entries")
        yield self.paint.warn(f"Stale · {entries} of {baseline.name} match nothing any more")
        shown = baseline.stale if self.screen.verbose else baseline.stale[:_STALE]
        for entry in shown:
            place = f"{entry.path} {entry.symbol}".rstrip()
            line = f"{entry.rule} {entry.fingerprint} · {place}"
            yield from wrap(line, self.screen.width, "  ", "    ")
        if len(shown) < len(baseline.stale):
            more = len(baseline.stale) - len(shown)
            yield self.paint.dim(f"  +{more:,} more, see: -v or -o json")
        told = f"{self.screen.command} baseline prune {baseline.name} takes them out"
        yield from wrap(told, self.screen.width, "  ")

    def launches(self) -> Iterator[str]:
        """The starts that were found, and how much of each only a run decides."""
        launches = sorted(self.report.launches)
        if not launches:
            return
        scripts = count(len({launch.path for launch in launches}), "script")
        yield self.paint.bold(f"Launches · {len(launches)} in {scripts}")
        shown = launches if self.screen.verbose else launches[:_LAUNCHES]
        yield from self.table([_launch_row(launch) for launch in shown])
        if len(shown) < len(launches):
            more = count(len(launches) - len(shown), "more launch", "more launches")
            yield self.paint.dim(f"  +{more}, see: -v or -o json")

    def checked(self) -> Iterator[str]:
        checked = sorted(self.report.checked)
        if not checked:
            return
        whole = [entry for entry in checked if entry.held == entry.total]
        partly = [entry for entry in checked if entry.held != entry.total]
        told = f"In order · {len(whole)} of {len(checked)} checked"
        if not self.screen.verbose:
            yield f"{self.paint.bold(told)}, see: -v or -o json"
            return
        yield self.paint.bold(told)
        yield from self.checked_rows(whole)
        if partly:
            yield self.paint.bold(f"Not all in order · {len(partly)}")
            yield from self.checked_rows(partly)

    def checked_rows(self, entries: Sequence[Checked]) -> Iterator[str]:
        """A row for each, below its path; names that are too long for the screen are folded."""
        entries = sorted(entries, key=lambda entry: (entry.path, entry.subject, entry.symbol))
        cells = [[entry.subject, _held(entry), entry.symbol] for entry in entries]
        widths = _fitting(cells, self.screen.width - 4)
        path = None
        for entry, row in zip(entries, cells, strict=True):
            if entry.path != path:
                path = entry.path
                folded = fold(path, self.screen.width - 2)
                yield from (f"  {self.paint.dim(piece)}" for piece in folded)
            columns = [fold(cell, width) for cell, width in zip(row, widths, strict=True)]
            for pieces in zip_longest(*columns, fillvalue=""):
                padded = (
                    piece + " " * (width - columns_of(piece))
                    for piece, width in zip(pieces, widths, strict=True)
                )
                yield f"    {'  '.join(padded)}".rstrip()

    def left_out(self) -> Iterator[str]:
        """What was not looked at or not shown, and how to see it."""
        for (side, stage), of_stage in groupby(
            sorted(self.report.skipped, key=lambda entry: (entry.side, entry.stage, entry.path)),
            key=lambda entry: (entry.side, entry.stage),
        ):
            yield from self.skipped(f"{side}, {stage}", list(of_stage))
        yield from self.disagreements(self.report.disagreements)
        if self.report.hidden:
            yield self.paint.bold(f"Hidden · {count(sum(self.report.hidden.values()), 'finding')}")
        for reason, number in sorted(self.report.hidden.items()):
            told = _HOW_TO_SHOW.get(reason, reason)
            yield from wrap(f"{number} {told}", self.prose, "  ", "    ")

    def disagreements(self, found: Sequence[Disagreement]) -> Iterator[str]:
        """What the second reading left out: only who asks for everything wants to see it."""
        if found and self.screen.verbose:
            yield self.paint.bold(f"Contradicted by a second reading · {len(found)}")
            for row in sorted(found):
                place = f"{row.where.symbol.path}:{row.where.line}"
                owner = "" if row.side == "fork" else f" ({row.side})"
                told = f"{place}{owner} {row.where.symbol.qualname} — {row.rule}: {row.reason}"
                yield from wrap(told, self.screen.width, "  ", "    ")

    def skipped(self, where: str, entries: Sequence[Skipped]) -> Iterator[str]:
        yield self.paint.warn(f"Skipped · {len(entries)} ({where})")
        shown = entries if self.screen.verbose else entries[:_SKIPPED]
        for entry in shown:
            yield from wrap(f"{entry.path} — {entry.reason}", self.screen.width, "  ", "    ")
        if len(shown) < len(entries):
            yield self.paint.dim(f"  +{len(entries) - len(shown)} more, see: -v or -o json")

    def closing(self) -> Iterator[str]:
        """The end is what a terminal still shows when the command returns: say it again."""
        for warning in self.report.warnings:
            lines = wrap(f"warning: {warning}", self.prose, "", "  ")
            yield self.paint.warn(lines[0])
            yield from lines[1:]
        if self.report.configuration:
            told = ", ".join(f"{key} {value}" for key, value in self.report.configuration.items())
            yield from map(self.paint.dim, wrap(f"In force: {told}", self.prose, "", "  "))
        yield from self.verdict_line()

    def labelled(self, label: str, texts: Sequence[str]) -> Iterator[str]:
        """Each text as a paragraph beside its label, the label on the first line only."""
        margin = " " * (2 + _LABEL)
        hanging = margin + "  " if label in ("evidence", "also") else margin
        for position, text in enumerate(texts):
            lines = wrap(text, self.screen.width, margin, hanging)
            if position == 0:
                lines[0] = f"  {self.paint.dim(label.ljust(_LABEL))}{lines[0].lstrip()}"
            yield from lines

    def table(
        self, rows: Sequence[Sequence[str]], headers: Sequence[str] = (), indent: str = "  "
    ) -> Iterator[str]:
        right = ["left"] + ["right"] * (len(headers) - 1)
        text = tabulate(
            rows,
            headers=[self.paint.dim(header) for header in headers],
            tablefmt="plain",
            disable_numparse=True,
            colalign=right if headers else None,
        )
        for line in text.splitlines():
            yield (indent + line).rstrip()


def _state(finding: Finding) -> str:
    return "" if finding.deployment is None else finding.deployment.state


def _cut(text: str, most: int) -> str:
    # Two columns less: where the screen has ASCII only, the dots are three.
    return text if columns_of(text) <= most else f"{head_of(text, most - 3)}…"


def _evidence(evidence: Evidence) -> str:
    place = f"{evidence.path}:{evidence.line}"
    owner = "" if evidence.side == "fork" else f" ({evidence.side})"
    symbol = f" {evidence.symbol}" if evidence.symbol else ""
    return f"{place}{owner}{symbol}" + (f" — {evidence.note}" if evidence.note else "")


def _launch_row(launch: Launch) -> list[str]:
    settings = count(len(launch.arguments), "flag")
    if launch.environment:
        settings += f", {count(len(launch.environment), 'variable')}"
    told = f"{launch.unresolved} unresolved" if launch.unresolved else ""
    role = "" if launch.role == "plain" else launch.role
    place = f"{launch.path}:{launch.line}"
    return [place, launch.command, role, launch.model or "", settings, told]


def _held(entry: Checked) -> str:
    noun = "readers wait" if entry.category == "sync" else "in order"
    return f"{entry.held} of {entry.total} {noun}"


def _fitting(rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """The widths of the columns of a table, two columns apart, that has so much room.

    The widest give way first.
    """
    widths = [max(map(columns_of, column)) for column in zip(*rows, strict=True)]
    room -= 2 * (len(widths) - 1)
    widths = [min(width, room) for width in widths]
    while sum(widths) > room:
        widths[widths.index(max(widths))] -= 1
    return widths


def _area_rows(files: Iterable[FileChange]) -> list[list[str]]:
    """One row an area, the most changed ones first, the rest summed in a last row."""
    areas = areas_of(files)
    shown, rest = areas[:_AREAS], areas[_AREAS:]
    if rest:
        shown.append(summed(f"{len(rest)} more areas", rest))
    return [
        [
            area.name,
            *(f"{n:,}" if n else "·" for n in area.statuses),
            f"+{area.added:,} -{area.removed:,}",
        ]
        for area in shown
    ]
