"""Holds both readings of all candidates of releases against each other, and lists what differs.

    python -m tests.benchmarks.second 0.5.9 0.5.12 0.5.18
    python -m tests.benchmarks.second 0.5.22=/path/to/tree 0.5.23=/path/to/other

Each release is the fork of the one before it in the row, the first its own. Candidates are the hits
of every confidence with the waits of their siblings. Two questions more have known answers: each
hit with another buffer's name in its claim, and each read that the first reading finds behind a
wait on a gate of ``self`` that its own text makes, given as one that is not.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from tabulate import tabulate

from auditor.checks import CHECKS
from auditor.checks.sides import Sides, unmarked
from auditor.checks.view import View
from auditor.claims import Claim, LostWait
from auditor.confirm.second import SecondReading
from auditor.gates.readings import Reading, reads_elements
from auditor.model import Disagreement, Hit, Location, Skipped, Symbol
from auditor.repo.snapshot import open_fork, open_reference
from auditor.rulebook import Rule
from auditor.runs.rules import load
from auditor.source.store import FactStore
from tests.benchmarks.releases import trees


@dataclass(frozen=True)
class Held:
    """What holding the readings of one release against each other gave; ``seconds`` of the CPU."""

    version: str
    hits: int
    asked: int
    disagreements: tuple[Disagreement, ...]
    skipped: tuple[Skipped, ...]
    without_span: int
    misnamed: int
    gated: int
    seen_gated: int
    seconds: float

    def row(self) -> tuple[object, ...]:
        return (
            self.version,
            self.hits,
            self.asked,
            len(self.disagreements),
            len(self.skipped),
            self.without_span,
            f"{self.misnamed} of {self.hits}",
            f"{self.seen_gated} of {self.gated}",
            f"{self.seconds:.2f}",
        )


def sides(fork: Path, upstream: Path, cache: Path) -> list[View]:
    """The views of two trees, their facts kept in a folder."""
    mine = open_fork(fork, None)
    snapshots = [mine, open_reference(str(upstream), "upstream", mine, cache)]
    return Sides(snapshots, load().vocabulary, FactStore(cache), unmarked).views()


def hold(version: str, views: Sequence[View]) -> Held:
    """Both readings of every candidate of the first of some views."""
    norms = {name: check.learn(views) for name, check in CHECKS.items()}
    hits = [
        (rule, hit)
        for rule in load().rules
        if rule.check in CHECKS
        for hit in CHECKS[rule.check].judge(rule.params, norms[rule.check], views[0])
        if hit.claim is not None
    ]
    start = time.process_time()
    second = SecondReading(views, None)
    kept = second.confirmed(hits)
    spent = time.process_time() - start
    ends = [hit.where.end_column for _, hit in kept]
    ends += [e.end_column for _, hit in kept for e in hit.evidence if e.sibling]
    wrong = [(rule, _misnamed(hit)) for rule, hit in hits]
    open_ = _as_open(hits[0], views[0]) if hits else []
    return Held(
        version,
        len(hits),
        second.asked,
        tuple(second.disagreements),
        tuple(second.skipped),
        ends.count(0),
        len(wrong) - len(SecondReading(views, None).confirmed(wrong)),
        len(open_),
        len(open_) - len(SecondReading(views, None).confirmed(open_)),
        spent,
    )


def _misnamed(hit: Hit) -> Hit:
    """The hit with a claim on what no text names."""
    claim = hit.claim
    if isinstance(claim, LostWait):
        claim = msgspec.structs.replace(claim, name="no_such_name")
    elif claim is not None:
        claim = msgspec.structs.replace(claim, names=("no_such_name",), here=True)
    return msgspec.structs.replace(hit, claim=claim)


def _as_open(like: tuple[Rule, Hit], view: View) -> list[tuple[Rule, Hit]]:
    """The reads behind a wait that their own text makes, one a method, as if they were not."""
    found: dict[str, tuple[Rule, Hit]] = {}
    for reading in view.readings.readings:
        if _waits_itself(reading, view):
            facts, read = reading.function.facts, reading.read
            symbol = Symbol(reading.function.path, facts.qualname)
            where = Location(symbol, reading.function.line_of(read.line), read.column)
            here = read.origin.qualname == facts.qualname
            claim = Claim("read", (reading.root,), reading.gate, here)
            hit = msgspec.structs.replace(like[1], where=where, claim=claim, evidence=())
            found.setdefault(f"{symbol.path} {symbol.qualname}", (like[0], hit))
    return list(found.values())


def _waits_itself(reading: Reading, view: View) -> bool:
    """Whether a read of elements is behind a wait on an attribute of ``self``, made in the text."""
    if not (reading.gated and reads_elements(reading.read) and reading.gate.startswith("self.")):
        return False
    function, gate = reading.function, tuple(reading.gate.split("."))
    waits = view.readings.summary(function, reading.context).waits
    own = (function.path, function.facts.qualname)
    return any(
        wait.token == gate
        and wait.kind == "keyed"
        and (wait.origin.path, wait.origin.qualname) == own
        and wait.keys
        for wait in waits
    )


HEADERS = (
    "release",
    "hits",
    "places",
    "disagree",
    "unread",
    "no span",
    "misnamed, told",
    "gated, told",
    "CPU s",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("releases", nargs="+", metavar="VERSION[=DIR]")
    row = list(trees(parser.parse_args().releases).items())
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for (_, before), (version, tree) in itertools.pairwise([row[0], *row]):
            found.append(hold(version, sides(tree, before, Path(folder))))
    print(tabulate([held.row() for held in found], HEADERS))
    for held in found:
        for told in (*held.disagreements, *held.skipped):
            print(f"{held.version}: {told}")


if __name__ == "__main__":
    main()
