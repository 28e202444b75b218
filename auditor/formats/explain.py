"""The pages of `audit explain`, `audit rules` and `audit baseline show`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from tabulate import tabulate

from auditor.errors import UsageProblem
from auditor.formats.order import runs
from auditor.formats.records import FindingRecord
from auditor.formats.source import spread
from auditor.formats.text import Paint, Screen, count, finished, printable, scrub, wrap
from auditor.model import SEVERITIES, BaselineEntry, Deployment
from auditor.rulebook import Example, Rule

_PROSE = 100
_BEFORE, _AFTER = 3, 1  # lines of context where there is no function, and behind a place
_LONGEST_READ = 12  # lines shown of one place
_LONGEST = 24  # lines shown of one function: its head and what leads to the place
_HEAD = 6
_LARGEST_FILE = 8 * 2**20

_FINGERPRINT = re.compile(r"[0-9a-f]{6,}(?:[^0-9a-f].*)?", re.DOTALL)
_DEFINITION = re.compile(r"(\s*)(?:async\s+def|def|class)\s+(\w+)")


def is_fingerprint(text: str) -> bool:
    """Whether ``text`` can be (the start of) a fingerprint: at least six hex digits."""
    return _FINGERPRINT.fullmatch(text) is not None


def pick(findings: Sequence[FindingRecord], fingerprint: str) -> FindingRecord:
    """The finding of that fingerprint or of the only one that begins so; else UsageProblem."""
    starting = {f["fingerprint"]: f for f in findings if f["fingerprint"].startswith(fingerprint)}
    if fingerprint in starting:
        return starting[fingerprint]
    if len(starting) == 1:
        return next(iter(starting.values()))
    if not starting:
        raise UsageProblem(
            f"the report has no finding {fingerprint}; `audit -o json` lists the fingerprints"
        )
    raise UsageProblem(f"{fingerprint} begins several fingerprints: {', '.join(sorted(starting))}")


def rule_page(rule: Rule, screen: Screen) -> str:
    """All that is known of a rule, ending in a newline."""
    return finished(_rule_lines(rule, Paint(screen.colour), min(screen.width, _PROSE)), screen)


def rule_table(rules: Sequence[Rule], screen: Screen) -> str:
    """One row a rule, the worst first within its category."""
    paint = Paint(screen.colour)
    order = sorted(rules, key=lambda r: (r.category, SEVERITIES.index(r.severity), r.id))
    rows = [
        [printable(r.id), paint.severity(r.severity, r.severity), r.category, printable(r.title)]
        for r in order
    ]
    headers = [paint.dim(name) for name in ("rule", "severity", "category", "finds")]
    # A column is two wider than its heading, and two more lie between columns.
    ids = max((len(rule.id) for rule in rules), default=0)
    categories = max((len(rule.category) for rule in rules), default=0)
    others = max(6, ids) + 2 + 10 + 2 + max(10, categories) + 2
    widths = [None, None, None, max(20, screen.width - others)]
    table = tabulate(rows, headers, tablefmt="plain", disable_numparse=True, maxcolwidths=widths)
    return finished((line.rstrip() for line in table.split("\n")), screen)


def baseline_table(entries: Sequence[BaselineEntry], screen: Screen) -> str:
    """What a baseline accepts, by rule and then by place."""
    paint = Paint(screen.colour)
    rows = []
    for entry in sorted(entries, key=lambda e: (e.rule, e.path, e.symbol, e.fingerprint)):
        place = f"{entry.path} {entry.symbol}".rstrip()
        rows.append(
            [paint.bold(printable(entry.rule)), printable(entry.fingerprint), printable(place)]
        )
    lines = [tabulate(rows, tablefmt="plain", disable_numparse=True)] if rows else []
    return finished((*lines, f"{count(len(rows), 'finding')} accepted"), screen)


def rules_json(rules: Sequence[Rule]) -> str:
    """The rules as a JSON list, in the order of their ids."""
    listed = [
        {
            "id": rule.id,
            "category": rule.category,
            "severity": rule.severity,
            "confidence": rule.confidence,
            "title": rule.title,
            "aliases": list(rule.aliases),
        }
        for rule in rules
    ]
    return json.dumps(listed, indent=2) + "\n"


def finding_page(finding: FindingRecord, roots: Sequence[Path], screen: Screen) -> str:
    """The whole evidence of a finding, with the lines of the read and of every sibling's wait.

    Functions are shown from their ``def`` on, long ones without their middle.
    Lines come from the first of ``roots`` (where the fork may lie now) that has the file; a line
    that is gone, has moved out of its function, or lies in another tree is named and not shown.
    """
    return finished(_finding_lines(scrub(finding), finding, roots, screen), screen)


def _rule_lines(rule: Rule, paint: Paint, width: int) -> Iterator[str]:
    severity = paint.severity(rule.severity, rule.severity)
    yield f"{paint.bold(printable(rule.id))} · {severity} · {rule.category}"
    yield from wrap(printable(rule.title), width)
    if rule.aliases:
        yield from wrap(f"Formerly {', '.join(rule.aliases)}", width)
    for heading, text in (("Why", rule.why), ("What to do", rule.fix)):
        yield from ("", paint.bold(heading))
        yield from _prose(text, width)
    if rule.references:
        yield from ("", paint.bold("References"))
        for reference in rule.references:
            yield f"  {printable(reference)}"
    for heading, examples in (("Reported", rule.invalid), ("Not reported", rule.valid)):
        for example in examples:
            title = f": {printable(example.title)}" if example.title else ""
            yield from ("", paint.bold(heading + title))
            yield from _example(example, paint)


def _prose(text: str, width: int) -> Iterator[str]:
    """Paragraphs wrapped, indented lines and list items kept as they are written."""
    for position, paragraph in enumerate(re.split(r"\n\s*\n", text.strip("\n"))):
        if position:
            yield ""
        lines = paragraph.split("\n")
        if any(line.startswith((" ", "-", "*")) for line in lines):
            for line in lines:
                yield from wrap(printable(line), width, "  ", "    ")
        else:
            yield from wrap(printable(" ".join(lines)), width, "  ")


def _example(example: Example, paint: Paint) -> Iterator[str]:
    sides = (("fork", example.fork), ("upstream", example.upstream), ("target", example.target))
    alone = example.upstream is None and example.target is None and len(example.fork) == 1
    for side, files in sides:
        for path, text in (files or {}).items():
            if not alone:
                yield f"  {paint.dim(f'{side}: {printable(path)}')}"
            for line in text.rstrip("\n").split("\n"):
                yield f"    {printable(line.expandtabs(4))}".rstrip()


def _finding_lines(
    finding: FindingRecord, raw: FindingRecord, roots: Sequence[Path], screen: Screen
) -> Iterator[str]:
    """``raw`` is the finding as saved: its paths open files, ``finding`` is what is shown."""
    paint, width = Paint(screen.colour), min(screen.width, _PROSE)
    yield paint.bold(f"{finding['path']}:{finding['line']}")
    if finding["symbol"]:
        yield paint.bold(finding["symbol"])
    rule = paint.severity(finding["severity"], f"{finding['severity']} · {finding['rule']}")
    doubt = ", unconfirmed" if finding.get("confirmed") == "unconfirmed" else ""
    yield f"{rule} · {finding['confidence']} confidence{doubt}"
    yield from wrap(finding["message"], width)
    yield ""
    fixed = f", fixed in {finding['fixed_in']}" if finding["fixed_in"] else ""
    facts = [
        ("effect", finding.get("effect", "")),
        ("means", finding.get("means", "")),
        ("deployed", _runs(finding)),
        ("origin", _because(finding["origin"] + fixed, finding["origin_reason"])),
        ("reach", _because(finding["reach"], finding["reach_reason"])),
        ("cause", finding["cause"]),
        ("fix", finding["fix"]),
        ("state", _because(finding["disposition"], finding["disposition_reason"])),
        ("id", finding["fingerprint"]),
    ]
    for label, text in facts:
        if text:
            lines = wrap(text, width, " " * 9)
            yield f"{paint.dim(label.ljust(9))}{lines[0].lstrip()}"
            yield from lines[1:]
    yield from ("", paint.bold("The setting" if finding["category"] == "serve" else "The read"))
    end = max(raw["line"], min(raw["end_line"], raw["line"] + _LONGEST_READ - 1))
    span = (raw["column"], raw.get("end_column", 0))
    read = list(_source(_Place(raw["path"], raw["symbol"], raw["line"], end, *span), roots, paint))
    yield from read
    absent = set(read if len(read) == 1 else ())
    shown = finding["evidence"]
    if shown:
        yield from ("", paint.bold(f"Evidence · {len(shown)}"))
    for entry, saved in zip(shown, raw["evidence"], strict=True):
        owner = "" if entry["side"] == "fork" else f" ({entry['side']})"
        symbol = f" {entry['symbol']}" if entry["symbol"] else ""
        note = f" — {entry['note']}" if entry["note"] else ""
        place = f"{entry['path']}:{entry['line']}{owner}{symbol}{note}"
        yield from wrap(place, width, "  ", "    ")
        if entry["side"] == "fork":
            line, span = saved["line"], (saved.get("column", 0), saved.get("end_column", 0))
            last = min(saved.get("end_line", line), line + _LONGEST_READ - 1)
            there = _Place(saved["path"], saved["symbol"], line, last, *span)
            drawn = list(_source(there, roots, paint))
            # Why there is no source is said once.
            yield from (row for row in drawn if row not in absent)
            absent.update(drawn if len(drawn) == 1 else ())
    yield ""
    if finding["disposition"] == "active" and finding["applicability"] != "display":
        unsafe = "" if finding["applicability"] == "safe" else " --unsafe"
        may = "" if finding["applicability"] else ", where one can be made"
        yield f"An edit{may}: audit fix --rule {finding['rule']}{unsafe} --diff"
    yield f"The rule: audit explain {finding['rule']}"


def _because(word: str, reason: str) -> str:
    return f"{word}: {reason}" if word and reason else word


class _Place(NamedTuple):
    """Lines of a file, and the columns where what is meant begins and ends; 0 for unknown."""

    path: str
    symbol: str
    line: int
    end: int
    column: int = 0
    end_column: int = 0

    def columns(self, number: int, text: str) -> range:
        """The marked code points of one of its lines, counted from 0; none where unknown."""
        if not self.end_column:
            return range(0)
        indent = len(text) - len(text.lstrip())
        start = self.column - 1 if number == self.line else indent
        end = self.end_column - 1 if number == self.end else len(text)
        return range(start, min(end, len(text)))


def _source(place: _Place, roots: Sequence[Path], paint: Paint) -> Iterator[str]:
    lines, problem = _read(place.path, roots)
    if not problem and place.end > len(lines):
        problem = f"the file now ends at line {len(lines)}; it has changed since the report"
    start = None if problem else _start(lines, place)
    if not problem and start is None:
        problem = f"line {place.line} is no longer in {printable(place.symbol)}; the file has"
        problem += " changed since the report"
    if start is None:
        yield f"    {paint.dim(f'(no source: {problem})')}"
        return
    numbers = list(range(start, min(place.end + _AFTER, len(lines)) + 1))
    left = len(numbers) - _LONGEST
    told = count(left, "line")
    for at, number in enumerate(numbers):
        if left > 0 and at == _HEAD:
            yield f"    {paint.dim(f'    …  {told} left out')}"
        if left > 0 and _HEAD <= at < _HEAD + left:
            continue
        text, columns = spread(lines[number - 1])
        if place.line <= number <= place.end:
            yield paint.bold(f"  > {number:>5}  {text}".rstrip())
            marked = place.columns(number, lines[number - 1])
            if marked:
                start, end = columns[marked.start], columns[marked.stop]
                yield f"{' ' * (11 + start)}{'^' * (end - start)}"
        else:
            yield f"    {number:>5}  {text}".rstrip()


def _read(path: str, roots: Sequence[Path]) -> tuple[list[str], str]:
    """The lines of a file of the fork, or why they are not shown; never a file outside of it."""
    problem = "the file is not here; run in the audited fork, or name it with -C"
    for root in roots:
        try:
            file = (root / path).resolve()
            if not file.is_relative_to(root.resolve()):
                problem = "the path leads out of the fork"
            elif file.is_file():
                if file.stat().st_size > _LARGEST_FILE:
                    return [], "the file is too large"
                text = file.read_bytes().decode("utf-8-sig", "replace")
                return text.replace("\r\n", "\n").split("\n"), ""
        except (OSError, ValueError, RuntimeError):  # RuntimeError: a loop of symlinks
            continue
    return [], problem


def _start(lines: Sequence[str], place: _Place) -> int | None:
    """The line to begin with: that of the definition that the report names; None if it is gone.

    Told by indentation alone, since the file may be anything by now: the nearest definitions
    above with ever less indentation are the ones around a line.
    """
    name = place.symbol.rpartition(".")[2]
    if not name:
        return max(1, place.line - _BEFORE)
    at = place.line - 1
    while lines[at].lstrip().startswith("@") and at + 1 < len(lines):
        at += 1
    own = _DEFINITION.match(lines[at])
    if own and own[2] == name:
        return place.line
    indent = len(lines[at]) - len(lines[at].lstrip())
    for number in range(at, 0, -1):
        definition = _DEFINITION.match(lines[number - 1])
        if definition and len(definition[1]) < indent:
            if definition[2] == name:
                return number
            indent = len(definition[1])
    return None


def _runs(finding: FindingRecord) -> str:
    known = finding.get("deployment")
    return runs(msgspec.convert(known, Deployment)) if known else ""
