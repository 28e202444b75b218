"""A row of releases judged and followed: what it costs, and whether it shows what is known.

    python -m tests.benchmarks.history 0.5.5 0.5.6 … 0.5.23 --pairs 3

`audit history` over all releases (B) and the audit of the last over the one before (A) take turns,
A B A B …, first with a new empty cache for each, then with full ones; the ratio is that of each
pair, once by the clock and once by the time of the processor, which other work on the machine
disturbs less. Then every finding that is there in a release which the truth of ``score`` holds is
judged by that truth, and the findings of which the end is known are looked up.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tabulate import tabulate

from tests.benchmarks.audits import CHECKOUT, Found, from_package
from tests.benchmarks.releases import trees
from tests.benchmarks.score import Row, Score, judge, truth
from tests.benchmarks.speed import timed

ENDS = {
    f"NSATokenToKVPool.{name}": "0.5.11"
    for name in (
        "get_index_k_continuous",
        "get_index_k_scale_buffer",
        "get_index_k_scale_continuous",
    )
}
"""The first release without a finding at a method: upstream's pull request 22811."""


class Spent(NamedTuple):
    """Seconds of a command by the clock and, over all its processes, of the processor."""

    clock: float
    work: float


def spent(command: list[str], cache: Path) -> Spent:
    """Runs a command to its end; raises ``SystemExit`` if it could not do its work."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    clock = timed(command, cache)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    work = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Spent(clock, work)


def there(document: dict[str, Any], ref: str, rows: Sequence[Row]) -> list[Found]:
    """The findings of one release, under the name that the truth knows, if it knows any of theirs.

    Lines are those of another release and left out.
    """
    refs = [release["ref"] for release in document["releases"]]
    number = refs.index(ref)
    found = []
    for record in document["findings"]:
        if not refs.index(record["appeared"]) <= number <= refs.index(record["last"]):
            continue
        names = [_found(record, name) for name in (record, *record["names"])]
        known = (one for one in names if any(row.matches(one) for row in rows))
        found.append(next(known, names[0]))
    return found


def _found(record: dict[str, Any], name: dict[str, str]) -> Found:
    return Found(
        rule=record["rule"],
        path=from_package(name["path"]),
        line=0,
        symbol=name["symbol"],
        cause=record["cause"],
        origin="",
        message=record["message"],
        fingerprint=record["fingerprint"],
        evidence=frozenset(),
    )


def ends(document: dict[str, Any], versions: Sequence[str]) -> list[tuple[str, str, str]]:
    """(method, release of its end, release reported) of the known ends that lie within the row.

    ``versions`` are those of the document's releases, in order.
    """
    version = {
        release["ref"]: name for release, name in zip(document["releases"], versions, strict=True)
    }
    told = {
        record["symbol"]: version.get(record["ended"] or "", "-") for record in document["findings"]
    }
    return [
        (symbol, release, told.get(symbol, "not found"))
        for symbol, release in ENDS.items()
        if release in versions[1:]
    ]


def _told(command: list[str], cache: Path) -> dict[str, Any]:
    done = subprocess.run(
        [*command, "-o", "json"],
        cwd=CHECKOUT,
        env=os.environ | {"XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"status {done.returncode}: {done.stderr}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def _line(name: str, rows: Sequence[tuple[Spent, Spent]], target: str) -> list[str]:
    told = [name]
    for at in range(len(Spent._fields)):
        one, all_ = (statistics.median(row[side][at] for row in rows) for side in (0, 1))
        ratio = statistics.median(row[1][at] / row[0][at] for row in rows)
        told += [f"{one:.2f}", f"{all_:.2f}", f"{ratio:.2f}"]
    return [*told, target]


def _turns(
    pairs: int, one: Callable[[int], Spent], all_: Callable[[int], Spent]
) -> list[tuple[Spent, Spent]]:
    return [(one(number), all_(number)) for number in range(pairs)]


def main() -> None:
    """Times everything, judges what is shown, and prints both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("releases", nargs="+", metavar="VERSION[=DIR]")
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_args()
    found = trees(options.releases)
    versions, folders = list(found), list(map(str, found.values()))
    if len(folders) < 2:
        parser.error("a row needs two releases")
    tool = [sys.executable, "-m", "auditor"]
    audit = [*tool, "-C", folders[-1], "--upstream", folders[-2], "-o", "json"]
    history = [*tool, "history", "--upstream", folders[0]]
    history += [word for folder in folders[1:] for word in ("--target", folder)]
    with tempfile.TemporaryDirectory() as folder:
        caches = Path(folder)
        cold = _turns(
            options.pairs,
            lambda number: spent(audit, caches / f"audit{number}"),
            lambda number: spent(history, caches / f"history{number}"),
        )
        full = _turns(
            options.pairs,
            lambda _: spent(audit, caches / "audit0"),
            lambda _: spent(history, caches / "history0"),
        )
        document = _told(history, caches / "history0")
    lines = [_line("cold cache", cold, "8"), _line("warm cache", full, "1")]
    heads = ["", "audit s", "all s", "ratio", "audit work s", "all work s", "ratio", "at most"]
    print(f"{len(folders)} releases beside the audit of {versions[-1]} over {versions[-2]}\n")
    print(tabulate(lines, heads, disable_numparse=True))
    judged = truth()
    scores: dict[str, Score] = {}
    for version, release in zip(versions, document["releases"], strict=True):
        rows = [row for row in judged if row.version == version]
        if rows:
            scores[version] = judge(there(document, release["ref"], rows), rows)
    print()
    shares = [
        [version, score.recall, score.wrong_methods, len(score.outside)]
        for version, score in scores.items()
    ]
    print(tabulate(shares, ["release", "methods there", "false alarms", "outside the truth"]))
    for version, score in scores.items():
        for row in score.missed:
            print(f"  {version}  missed       {row.place} ({row.cause})")
        for alarm in score.false_alarms:
            print(f"  {version}  false alarm  {alarm.path} {alarm.symbol}")
    print()
    print(tabulate(ends(document, versions), ["method", "ends at", "reported"]))


if __name__ == "__main__":
    main()
