"""Whether the reach of a release's findings is what reading the release says.

    python -m tests.benchmarks.reach 0.5.12 0.5.18 0.5.23

The truth is two files of ``data``: the ``UNGATED-REAL`` rows of ``gates_triage.jsonl`` (their
``severity``), and ``reach_truth.jsonl`` with the line of each release that decides it. ``live``: a
released configuration arms the counter, moves what is read and reaches the read. ``latent``: none
does. ``either``: a person could not settle it, so that both count as right.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

from tests.benchmarks.audits import Found, Session
from tests.benchmarks.releases import trees

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Known:
    """The reach of one symbol of a release by reading, and why."""

    reach: str
    why: str


def truth(folder: Path = DATA) -> dict[tuple[str, str, str], Known]:
    """(version, path from ``sglang/`` on, symbol) to what was read."""
    known = {}
    for row in _rows(folder / "gates_triage.jsonl"):
        if row.get("severity"):
            symbol = ".".join(filter(None, (row["class"], row["method"])))
            known[row["version"], row["file"], symbol] = Known(row["severity"], row["reason"])
    for row in _rows(folder / "reach_truth.jsonl"):
        place = row["version"], row["path"], row["symbol"]
        known[place] = Known(row["reach"], f"{row['why']} ({row['at']})")
    return known


def _rows(file: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]


def verdict(found: Found, known: Known | None) -> str:
    """``right``, ``too low``, ``too high`` or ``not read``; an unknown reach counts as live."""
    if known is None:
        return "not read"
    told = "latent" if found.reach == "latent" else "live"
    if known.reach in ("either", told):
        return "right"
    return "too low" if told == "latent" else "too high"


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line a finding and the totals; 1 where any reach is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("releases", nargs="+", metavar="VERSION[=DIR]")
    options = parser.parse_args(arguments)
    known = truth()
    totals = []
    for version, tree in trees(options.releases).items():
        with Session() as session:
            findings = session.findings(tree, tree)
        verdicts = []
        for found in findings:
            read = known.get((version, found.path, found.symbol))
            verdicts.append(verdict(found, read))
            print(f"{version} {verdicts[-1]:8} {found.reach:7} {found.place}: {found.reach_reason}")
            if read is not None and verdicts[-1] != "right":
                print(f"{'':16} read: {read.reach}, {read.why}")
        kinds = ("right", "too low", "too high", "not read")
        totals.append([version, len(findings), *(verdicts.count(kind) for kind in kinds)])
    heads = ["release", "findings", "right", "too low", "too high", "not read"]
    print(f"\n{tabulate(totals, heads)}")
    return 1 if any(row[3] or row[4] for row in totals) else 0


if __name__ == "__main__":
    sys.exit(main())
