"""The drift report for a chat message or an issue: what moved comes first, and all of it fits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from auditor.drift.facts import Fix
from auditor.drift.runs import Changed, Seen
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
    shorten,
)
from auditor.formats.markdown import prose
from auditor.formats.text import Screen
from auditor.model import SEVERITIES, Finding

T = TypeVar("T")

MOST_CHARACTERS = 4_000
"""What a chat message holds, about; ``-v`` writes everything."""
# Rows of each list: as many as fit.
_ROWS = (8, 5, 3, 2, 1, 0)
_LONGEST = 100
_BACKTICKS = re.compile("`+")


def render(standing: Standing, screen: Screen) -> str:
    """The page, ending in a newline."""
    words = Words(standing)
    if screen.quiet:
        return "\n".join(_head(words)) + "\n"
    if screen.verbose:
        return "\n".join(_page(words, None)) + "\n"
    for most in _ROWS:
        text = "\n".join(_page(words, most)) + "\n"
        if len(text) <= MOST_CHARACTERS:
            return text
    # Only notes can be longer still.
    return text[: MOST_CHARACTERS - 2].rpartition("\n")[0] + "\n…\n"


def _head(words: Words) -> Iterator[str]:
    if words.moved is not None:
        yield f"**Since {words.since}:** {prose(words.moved_line())}"
        yield ""
    yield f"**{prose(' · '.join(words.headline()))}**"
    if words.doubt:
        yield from ("", f"> {prose(words.doubt)}")


def _page(words: Words, most: int | None) -> Iterator[str]:
    drift = words.drift
    yield from _head(words)
    for note in (*(words.moved.notes if words.moved else ()), *words.notes):
        yield from ("", f"> {prose(note, 300)}")
    yield from _moved(words, most)
    if drift.ahead is not None:
        yield from ("", "### Upstream fixes that the fork misses", "")
        yield prose(" · ".join(words.fix_counts()))
        yield from _list("", words.owed, lambda fix: _fix(words, fix, most is None), most)
    yield from ("", f"### The fork's patches ({len(drift.patches)})", "")
    yield prose(" · ".join(words.by_state()))
    if drift.patches:
        ages = [[name, *(number(len(c)) for c in row)] for name, row in words.patches_by_age()]
        yield from _table(("age", *words.states.values()), ages, None)
        rows = [patch_cells(patch) for patch in drift.patches]
        for row in rows:
            row[-1] = _code(row[-1]).replace("|", "\\|")
        yield from _table(PATCH_HEAD, rows, most)
    if drift.areas:
        yield from ("", "### Where it comes together")
        cells = [[_code(area.area), *map(number, area_cells(area))] for area in drift.areas]
        yield from _table(("area", *AREA_HEAD), cells, most)
    conflicts = drift.conflicts or ()
    yield from _list(f"A merge of {_code(drift.target)} conflicts in", conflicts, _code, most)
    if words.findings:
        yield from ("", f"### Findings ({len(words.findings)})")
        origins = [[name, *(number(len(c)) for c in row)] for name, row in words.finding_cells()]
        yield from _table(("origin", *SEVERITIES), origins, None)
    yield from _list("Findings in serve scripts", words.serve, _finding, most)


def _moved(words: Words, most: int | None) -> Iterator[str]:
    moved = words.moved
    if moved is None:
        return

    def named(sha: str) -> str:
        return f"`{sha[:10]}` {_code(words.subject(sha))}".rstrip()

    yield from _list("Findings opened", moved.opened, _seen, most)
    yield from _list("Findings closed", moved.closed, _seen, most)
    yield from _list("Findings accepted", moved.accepted, _seen, most)
    yield from _list("Findings with another origin or severity", moved.changed, _changed, most)
    yield from _list("Fixes newly missed", moved.newly_missed, named, most)
    yield from _list("Fixes taken over", moved.taken_over, named, most)
    yield from _list("Patches added", moved.patches_added, named, most)
    yield from _list("Patches taken upstream", moved.patches_upstream, named, most)
    yield from _list("Patches gone", moved.patches_gone, named, most)


def _list(
    title: str, rows: Sequence[T], told: Callable[[T], str], most: int | None
) -> Iterator[str]:
    if not rows:
        return
    if title:
        yield from ("", f"### {title} ({len(rows)})")
    shown, left = cut(rows, most)
    if shown:
        yield ""
    yield from (f"- {told(row)}" for row in shown)
    if left and most:
        yield f"- +{left:,} more; -v shows all"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], most: int | None) -> Iterator[str]:
    names, *cells = filled(head, rows)
    shown, left = cut(cells, most)
    if shown:
        yield from ("", "| " + " | ".join(names) + " |", "|" + " --- |" * len(names))
        yield from ("| " + " | ".join(row) + " |" for row in shown)
    if left and most:
        yield from ("", f"+{left:,} more; -v shows all")


def _fix(words: Words, fix: Fix, evidence: bool) -> str:
    facts = prose(" · ".join(words.fix_facts(fix)))
    told = f"`{fix.sha[:10]}` {_code(fix.subject)}: **{fix.state}** · {facts}"
    for seen in fix.evidence if evidence else ():
        place = f"{seen.path}:{seen.line}" if seen.line else seen.path or "log"
        name = f" {_code(seen.symbol)}" if seen.symbol else ""
        told += f"\n  {_code(place)}{name}: {_code(seen.note)}"
    return told


def _seen(seen: Seen) -> str:
    name = f" {_code(seen.symbol)}" if seen.symbol else ""
    return f"{seen.severity} {_code(seen.rule)} · {seen.origin} · {_code(seen.path)}{name}"


def _changed(row: Changed) -> str:
    was = f"{row.before.severity} {row.before.origin}"
    return f"{_seen(row.now)} · was {was}"


def _finding(finding: Finding) -> str:
    where = finding.hit.where
    return (
        f"{finding.severity} {_code(finding.rule)} · {_code(f'{where.symbol.path}:{where.line}')}"
    )


def _code(text: str) -> str:
    """Text of the fork as a code span: nothing in it links, mentions, formats or is HTML."""
    if not text.strip():
        return ""
    text = shorten(text, _LONGEST)
    fence = "`" * (max(map(len, _BACKTICKS.findall(text)), default=0) + 1)
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"
