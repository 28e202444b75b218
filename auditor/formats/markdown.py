"""The report as GitHub's Markdown, for a job summary or a comment on a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from auditor.formats.order import HOW_TO_SHOW, certainty, deployment, origin, rank
from auditor.formats.text import printable
from auditor.formats.verdict import Verdict
from auditor.model import Finding, Origin, Report, SideInfo, Skipped

# A comment holds 65,536 characters; a job summary 1 MiB.
MOST_CHARACTERS = 65_000
_LONGEST_CELL = 600
_RESERVED = 300  # characters of the line on what is left out

_TITLES: dict[Origin, str] = {
    "introduced": "Of this fork and its deployment",
    "regressed": "Of this fork and its deployment",
    "unknown": "Of unknown origin",
    "fixed-upstream": "Fixed upstream",
    "inherited": "Inherited from upstream",
}
_LATER = "Came with upstream's later code"

_MARKUP = re.compile(r"[\\`*_\[\]<>&|~$@#]|:(?=//)|(?<=[Ww]{3})\.|(?<=GH)-(?=\d)")
# What GitHub looks for once the Markdown is rendered, to notify people and to refer to tickets; a
# space of no width stops it.
_REFERENCE = {"@": "&#64;&#8203;", "#": "&#35;&#8203;", "-": "&#45;&#8203;"}


def render(report: Report, verdict: Verdict) -> str:
    """The verdict, the findings by whose they are, and what was left out; bounded in length."""
    page = _Page()
    doubt = ["", f"> Warning: {prose(report.mismatch)}"] if report.mismatch else []
    page.add([f"## audit: {prose(verdict.line())}", *doubt, "", _sides(report)])
    active = sorted((f for f in report.findings if f.disposition == "active"), key=rank)
    accepted = sorted((f for f in report.findings if f.disposition != "active"), key=rank)
    table = ["| severity | where | what | origin |", "| --- | --- | --- | --- |"]
    for title, rows in _by_owner(active).items():
        page.section(title, "findings", map(_row, rows), len(rows), table)
    page.section("Accepted", "accepted findings", map(_accepted, accepted), len(accepted))
    hidden = sum(report.hidden.values())
    page.section("Hidden", "kinds of hidden findings", _hidden(report), hidden)
    warnings = [f"- {prose(warning)}" for warning in report.warnings]
    page.section("Warnings", "warnings", warnings, len(warnings))
    skipped = sorted(report.skipped)
    page.section("Skipped", "skipped places", map(_skipped, skipped), len(skipped))
    if report.checked:
        whole = sum(entry.held == entry.total for entry in report.checked)
        page.add(["", f"In order: {whole:,} of {len(report.checked):,} checked."])
    return page.text()


class _Page:
    """Lines within the bound; the last one counts what did not fit."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.room = MOST_CHARACTERS - _RESERVED
        self.left_out: list[str] = []

    def add(self, lines: Sequence[str]) -> bool:
        """Adds all of the lines, or none of them where they do not fit."""
        size = sum(len(line) + 1 for line in lines)
        if size > self.room:
            return False
        self.lines += lines
        self.room -= size
        return True

    def section(
        self, title: str, noun: str, rows: Iterable[str], total: int, head: Sequence[str] = ()
    ) -> None:
        """A heading with a count and the rows under it, as many as fit; nothing for no rows."""
        lines = ["", f"### {title} · {total:,}", "", *head]
        shown = 0
        entries = list(rows)
        for row in entries:
            if not self.add([*lines, row]):
                break
            lines = []
            shown += 1
        if shown < len(entries):
            self.left_out.append(f"{len(entries) - shown:,} {noun}")

    def text(self) -> str:
        if self.left_out:
            told = f"Left out, since a page holds {MOST_CHARACTERS:,} characters:"
            self.lines += ["", f"{told} {', '.join(self.left_out)}."]
        return "\n".join(self.lines) + "\n"


def prose(text: str, longest: int = 10 * _LONGEST_CELL) -> str:
    """Text of the tree that is shown as it is: no markup, link, mention, reference or cell end."""
    clean = printable(text)
    if len(clean) > longest:
        clean = clean[:longest] + "…"
    return _MARKUP.sub(_entity, clean)


def _entity(match: re.Match[str]) -> str:
    # An entity is never structure (CommonMark 0.31, 2.5), so one form does for every place.
    character = match[0]
    if character == "_":
        return "\\_"
    if character in _REFERENCE:
        return _REFERENCE[character]
    return f"&#{ord(character)};"


def code(text: str) -> str:
    """Text of the tree as code, which nothing in it ends."""
    return f"<code>{prose(text, _LONGEST_CELL)}</code>"


def _sides(report: Report) -> str:
    others = (report.upstream, report.base, *report.targets)
    return " · ".join(_side(side) for side in (report.fork, *others) if side is not None)


def _side(side: SideInfo) -> str:
    name = "merge base" if side.side == "base" else side.side
    commit = f" ({side.commit[:10]})" if side.commit else ""
    return f"{name} {code(side.ref)}{commit}"


def _by_owner(active: Sequence[Finding]) -> dict[str, list[Finding]]:
    """The findings under headings that say who has to act, in the order of the headings."""
    found: dict[str, list[Finding]] = {title: [] for title in _TITLES.values()}
    for finding in active:
        title = _LATER if finding.since_base else _TITLES[finding.origin]
        found.setdefault(title, []).append(finding)
    return {title: rows for title, rows in found.items() if rows}


def _row(finding: Finding) -> str:
    hit, where = finding.hit, finding.hit.where
    place = code(f"{where.symbol.path}:{where.line}")
    if where.symbol.qualname:
        place += f"<br>{code(where.symbol.qualname)}"
    what = f"**{prose(finding.rule)}** {prose(hit.message, _LONGEST_CELL)}"
    for more in (finding.means, deployment(finding)):
        what += f"<br>{prose(more, _LONGEST_CELL)}" if more else ""
    if hit.fix:
        what += f"<br>To do: {prose(hit.fix, _LONGEST_CELL)}"
    reach = "" if hit.reach == "live" else f", reach {hit.reach}"
    certain = f"{finding.severity}<br>{certainty(finding)}{reach}"
    return f"| {certain} | {place} | {what} | {prose(origin(finding), _LONGEST_CELL)} |"


def _accepted(finding: Finding) -> str:
    where = finding.hit.where
    place = code(f"{where.symbol.path}:{where.line}")
    reason = f": {prose(finding.disposition_reason, _LONGEST_CELL)}"
    told = finding.disposition + (reason if finding.disposition_reason else "")
    return f"- {finding.severity} {place} {prose(finding.rule)} · {told}"


def _hidden(report: Report) -> Iterator[str]:
    for reason, number in sorted(report.hidden.items()):
        yield f"- {number:,} {prose(HOW_TO_SHOW.get(reason, reason))}"


def _skipped(entry: Skipped) -> str:
    reason = prose(entry.reason, _LONGEST_CELL)
    return f"- {entry.side}, {prose(entry.stage)}: {code(entry.path)} {reason}"
