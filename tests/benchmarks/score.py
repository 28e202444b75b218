"""Precision and recall of the findings on real releases, against methods judged by hand.

    python -m tests.benchmarks.score 0.5.9 0.5.12 0.5.18
    python -m tests.benchmarks.score 0.5.9=/path/to/tree …

Each release is audited against itself with the default settings. A row of the truth is a file and
a method with ``expect``: ``report`` must be found, ``tolerate`` does not count, anything else that
is reported in a file which the truth covers is a false alarm. Findings in other files are listed
for a person to read.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tabulate import tabulate

from tests.benchmarks.audits import Found, audit, sync_findings
from tests.benchmarks.releases import trees

TRUTH = Path(__file__).with_name("data") / "gates_triage.jsonl"
_NEAR = 5
"""Lines within which a finding is at a row's read, for rows that name no real function."""


@dataclass(frozen=True)
class Row:
    """One judged method; ``owner`` is its class, empty for a function."""

    version: str
    path: str
    owner: str
    method: str
    line: int
    read_line: int
    expect: str
    label: str
    cause: str

    @property
    def place(self) -> str:
        name = f"{self.owner}.{self.method}" if self.owner else self.method
        return f"{self.path}:{self.read_line} {name}"

    @property
    def key(self) -> tuple[str, str, str]:
        """What is counted: a method judged at two of its lines is one method."""
        return self.path, self.owner, self.method

    def matches(self, found: Found) -> bool:
        """Whether the finding is about this method, whatever its class is called in the truth."""
        if found.path != self.path:
            return False
        if not self.method.isidentifier():
            return abs(found.line - self.read_line) <= _NEAR
        owner, _, method = found.symbol.rpartition(".")
        if method != self.method:
            return False
        return not self.owner.isidentifier() or not owner or owner.split(".")[-1] == self.owner


@dataclass
class Score:
    """How the findings of one release (or, added up, of several) agree with the truth."""

    causes: set[str] = field(default_factory=set)
    causes_found: set[str] = field(default_factory=set)
    hits: list[tuple[Row, Found]] = field(default_factory=list)
    missed: list[Row] = field(default_factory=list)
    tolerated: list[Found] = field(default_factory=list)
    false_alarms: list[Found] = field(default_factory=list)
    outside: list[Found] = field(default_factory=list)

    @property
    def methods_found(self) -> int:
        return len({(row.version, *row.key) for row, _ in self.hits})

    @property
    def recall(self) -> str:
        missed = len({(row.version, *row.key) for row in self.missed})
        return _share(self.methods_found, self.methods_found + missed)

    @property
    def precision(self) -> str:
        return _share(self.methods_found, self.methods_found + self.wrong_methods)

    @property
    def wrong_methods(self) -> int:
        return len({(found.path, found.symbol) for found in self.false_alarms})


def truth(path: Path = TRUTH) -> list[Row]:
    """Every judged method of every release in the file."""
    rows = []
    for text in path.read_text(encoding="utf-8").splitlines():
        raw: dict[str, Any] = json.loads(text)
        rows.append(
            Row(
                version=raw["version"],
                path=raw["file"],
                owner=raw.get("class") or "",
                method=raw["method"],
                line=raw["line"],
                read_line=raw["read_line"],
                expect=raw["expect"],
                label=raw["label"],
                cause=f"{raw['version']} {raw.get('root_cause', '')}".strip(),
            )
        )
    return rows


def judge(findings: Iterable[Found], rows: Sequence[Row]) -> Score:
    """The findings of one release held against the rows of that release."""
    covered = {row.path for row in rows}
    score = Score(causes={row.cause for row in rows if row.expect == "report"})
    for found in findings:
        matching = [row for row in rows if row.matches(found)]
        wanted = [row for row in matching if row.expect == "report"]
        if wanted:
            score.hits += [(row, found) for row in wanted]
        elif any(row.expect == "tolerate" for row in matching):
            score.tolerated.append(found)
        elif found.path in covered:
            score.false_alarms.append(found)
        else:
            score.outside.append(found)
    reported = {row.key for row, _ in score.hits}
    score.causes_found = {row.cause for row, _ in score.hits}
    score.missed = [r for r in rows if r.expect == "report" and r.key not in reported]
    return score


def total(scores: Iterable[Score]) -> Score:
    """The scores of several releases as one; a cause counts once in each release that has it."""
    summed = Score()
    for score in scores:
        summed.causes |= score.causes
        summed.causes_found |= score.causes_found
        summed.hits += score.hits
        summed.missed += score.missed
        summed.tolerated += score.tolerated
        summed.false_alarms += score.false_alarms
        summed.outside += score.outside
    return summed


def _share(part: int, whole: int) -> str:
    return f"{part}/{whole} ({100 * part / whole:.0f} %)" if whole else "-"


def _line(name: str, score: Score) -> list[object]:
    causes = _share(len(score.causes_found), len(score.causes))
    return [name, causes, score.recall, score.precision, len(score.outside)]


def _by_rule(score: Score) -> list[list[object]]:
    right = Counter(found.rule for _, found in score.hits)
    wrong = Counter(found.rule for found in score.false_alarms)
    spared = Counter(found.rule for found in score.tolerated)
    outside = Counter(found.rule for found in score.outside)
    return [
        [rule, right[rule], wrong[rule], spared[rule], outside[rule]]
        for rule in sorted(right | wrong | spared | outside)
    ]


def main() -> None:
    """Audits each release given and prints the tables, then what to read, a line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("releases", nargs="+", metavar="VERSION[=DIR]")
    judged = truth()
    scores: dict[str, Score] = {}
    for version, tree in trees(parser.parse_args().releases).items():
        rows = [row for row in judged if row.version == version]
        scores[version] = judge(sync_findings(audit(tree, str(tree))), rows)
    lines = [_line(version, score) for version, score in scores.items()]
    if len(scores) > 1:
        lines.append(_line("all", total(scores.values())))
    heads = ["release", "root causes", "methods found", "precision", "outside the truth"]
    print(tabulate(lines, heads))
    print()
    heads = ["rule", "right", "false alarm", "tolerated", "outside the truth"]
    print(tabulate(_by_rule(total(scores.values())), heads))
    for version, score in scores.items():
        print(f"\n{version}")
        for row in score.missed:
            print(f"  missed       {row.place} ({row.cause})")
        for found in score.false_alarms:
            print(f"  false alarm  {found.place}\n               {found.message}")
        for found in score.tolerated:
            print(f"  tolerated    {found.place}")
        for found in score.outside:
            print(f"  to be read   {found.place}\n               {found.message}")


if __name__ == "__main__":
    main()
