"""SARIF of many findings beside `json.dumps` of the same document, and the memory it takes.

    python -m tests.benchmarks.sarif --findings 25000 --rounds 5

The findings are made up: every rule of the rulebook, a thousand files, four pieces of evidence
each, messages with no two alike. The two take turns in one process, A B A B …, and the ratio is
the median of the pairs. Memory is the peak of a process of its own that makes the report and
writes it once.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from tabulate import tabulate

from auditor.formats.sarif import document, render
from auditor.formats.verdict import decide
from auditor.model import (
    CONFIDENCES,
    ORIGINS,
    SEVERITIES,
    ChangeSet,
    Evidence,
    Finding,
    Hit,
    Location,
    Report,
    SideInfo,
    Symbol,
)
from auditor.rulebook import Rule, load

_FILES = 1_000
_MEMORY = "--memory-only"


def made_up(number: int, rules: tuple[Rule, ...]) -> Report:
    """A report of ``number`` findings, no two at one place."""
    fork = SideInfo("fork", "deployed", "worktree", "1f" * 20, _FILES, _FILES)
    upstream = SideInfo("upstream", "v0.5.17", "revision", "2e" * 20, _FILES, _FILES)
    return Report(
        tool_version="0.1.0",
        fork=fork,
        upstream=upstream,
        base=None,
        targets=(),
        changes=ChangeSet(()),
        findings=tuple(_finding(position, rules) for position in range(number)),
        hidden={},
        checked=(),
        skipped=(),
        warnings=(),
        configuration={},
        timings={},
    )


def _finding(position: int, rules: tuple[Rule, ...]) -> Finding:
    rule = rules[position % len(rules)]
    path = f"python/sglang/srt/part_{position % 40}/module_{position % _FILES}.py"
    symbol = f"Pool{position % 700}.get_rows_{position}"
    evidence = tuple(
        Evidence(
            path,
            position + 10 * step,
            f"Pool{position % 700}.get_part_{step}",
            f"waits on counter_{position % 90} before it reads rows_{position}",
            "upstream" if step == 3 else "fork",
        )
        for step in range(4)
    )
    hit = Hit(
        Location(Symbol(path, symbol), position + 1, 5 + position % 60, position + 1),
        f"rows_{position}",
        f"get_rows_{position} reads rows_{position} without waiting on counter_{position % 90};"
        " 3 of 4 readers of it wait first",
        evidence,
        CONFIDENCES[position % len(CONFIDENCES)],
        "live",
        f"a transfer of the tree moves rows_{position}",
        f"wait on counter_{position % 90} first, as Pool{position % 700}.get_part_0 does",
        f"Pool{position % 700}.rows_{position}",
    )
    return Finding(
        rule.id,
        rule.category,
        SEVERITIES[position % len(SEVERITIES)],
        hit,
        f"{position * 2654435761 % 2**64:016x}",
        ORIGINS[position % len(ORIGINS)],
        "the symbol is not in v0.5.17",
    )


def seconds(work: Callable[[], object]) -> float:
    """Seconds of processor time of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def peak(number: int) -> int:
    """Peak resident memory, in bytes, of a process that writes SARIF of ``number`` findings."""
    command = [sys.executable, "-m", "tests.benchmarks.sarif", _MEMORY, "--findings", str(number)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--findings", type=int, default=25_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(_MEMORY, action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    rules = load().rules
    report = made_up(options.findings, rules)
    verdict = decide(report, "high", False)
    if options.memory_only:
        render(report, verdict, rules)
        # Kibibytes on Linux.
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
        return
    same = document(report, verdict, rules)
    pairs = []
    for _ in range(options.rounds):
        dumped = seconds(lambda: json.dumps(same))
        pairs.append((dumped, seconds(lambda: render(report, verdict, rules))))
    text = render(report, verdict, rules).encode()
    ratios = [mine / theirs for theirs, mine in pairs]
    rows = [
        ["findings", f"{options.findings:,}"],
        [
            "size, compressed",
            f"{len(text) / 2**20:.1f} MiB, {len(gzip.compress(text)) / 2**20:.1f} MiB",
        ],
        ["json.dumps, median", f"{statistics.median(theirs for theirs, _ in pairs):.2f} s"],
        ["SARIF, median", f"{statistics.median(mine for _, mine in pairs):.2f} s"],
        [
            "ratio, median (least, most)",
            f"{statistics.median(ratios):.2f} ({min(ratios):.2f}, {max(ratios):.2f})",
        ],
        ["peak memory", f"{peak(options.findings) / 2**20:.0f} MiB"],
    ]
    print(tabulate(rows, tablefmt="plain", disable_numparse=True))


if __name__ == "__main__":
    main()
