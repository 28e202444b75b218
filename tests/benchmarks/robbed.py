"""Whether a fork that takes the wait from upstream's own getters is stopped, whatever the getter.

    python -m tests.benchmarks.robbed 0.5.23
    python -m tests.benchmarks.robbed 0.5.23=/path/to/tree --ways M3,M6 --sample 10 --seed 3
    python -m tests.benchmarks.robbed 0.5.23 --with-constant
    python -m tests.benchmarks.robbed 0.5.23 --together

A getter is a public function whose name says that it reads and which makes exactly one wait on a
gate (``gated.py`` finds them without the tool). A copy of the release robs it (``mutants.py``
edits it), and the release is upstream. Wanted at the getter: severity high or critical, confidence
at least medium, origin ``regressed``, and status 1 with ``--origin introduced,regressed,unknown``,
so that what the release has itself does not count. ``--together`` robs several in one tree, each
of which must be told.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabulate import tabulate

from tests.benchmarks.audits import Found, Session, sync_findings
from tests.benchmarks.gated import GatedReader, Gates, find_gates, read_tree
from tests.benchmarks.mutants import MUTATIONS, Unfit, functions, gates_of, mutate
from tests.benchmarks.mutate import Copy
from tests.benchmarks.releases import trees

READING = frozenset({"get", "read", "load", "fetch", "gather", "peek", "view"})
"""First words of a name that says that the function reads."""

MAIN = ("get_key_buffer", "get_value_buffer", "get_kv_buffer")
"""The getters that attention backends call for every layer."""

OWN = ("introduced", "regressed", "unknown")
"""The origins for which a fork answers, as the recipes filter."""

STOPS = ("critical", "high")


@dataclass(frozen=True)
class Robbery:
    """Getters robbed in one way; ``seeds`` choose made-up names."""

    title: str
    way: str
    readers: tuple[GatedReader, ...]
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Told:
    """What the audit says of one robbed getter: the worst finding there, and the run's status.

    ``found`` is None where nothing stands at the getter; ``elsewhere`` are new findings at other
    places.
    """

    robbery: Robbery
    reader: GatedReader
    found: Found | None
    elsewhere: tuple[Found, ...]
    status: int

    @property
    def short(self) -> tuple[str, ...]:
        """What of the wanted verdict is missing."""
        if self.found is None:
            return ("no finding",)
        missing = []
        if self.found.severity not in STOPS:
            missing.append(self.found.severity)
        if self.found.origin != "regressed":
            missing.append(self.found.origin)
        if self.status != 1:
            missing.append(f"status {self.status}")
        return tuple(missing)


def getters(files: dict[str, bytes], gates: Gates) -> list[GatedReader]:
    """The public functions of a release that read and make one wait, in the order of its files."""
    named: dict[str, list[GatedReader]] = defaultdict(list)
    for reader in gates.readers:
        public = not any(part.startswith("_") for part in reader.qualname.split("."))
        if public and reader.name.split("_")[0] in READING:
            named[reader.path].append(reader)
    found = []
    for path, readers in named.items():
        bodies = functions(files[path], frozenset(reader.qualname for reader in readers))
        found += [r for r in readers if len(gates_of(bodies[r.qualname], gates.names)) == 1]
    return found


def singles(readers: Sequence[GatedReader], ways: Sequence[str], seed: int) -> Iterator[Robbery]:
    """Each getter alone, in each way."""
    for way in ways:
        for number, reader in enumerate(readers):
            yield Robbery(reader.qualname, way, (reader,), (number + seed,))


def combinations(
    readers: Sequence[GatedReader], ways: Sequence[str], seed: int
) -> Iterator[Robbery]:
    """Getters of one class two, six and all at a time, and the main getters of two classes."""
    classes: dict[tuple[str, str], list[GatedReader]] = defaultdict(list)
    for reader in readers:
        if reader.owner:
            classes[reader.path, reader.owner].append(reader)
    draw = random.Random(seed)
    groups: list[tuple[str, list[GatedReader]]] = []
    for (_, owner), own in sorted(classes.items()):
        if len(own) >= 2:
            groups.append((f"two of {owner}", draw.sample(own, 2)))
        if len(own) > 6:
            groups.append((f"six of {owner}", draw.sample(own, 6)))
        if len(own) >= 3:
            groups.append((f"all {len(own)} of {owner}", own))
    main = {
        owner: chosen
        for (_, owner), own in sorted(classes.items())
        if len(chosen := [reader for reader in own if reader.name in MAIN]) == len(MAIN)
    }
    for one, other in itertools.combinations(main, 2):
        groups.append((f"six main of {one} and {other}", [*main[one], *main[other]]))
    for way in ways:
        for title, group in groups:
            seeds = tuple(range(seed, seed + len(group)))
            yield Robbery(title, way, tuple(group), seeds)


def robbed(files: dict[str, bytes], robbery: Robbery, gates: Gates) -> dict[str, bytes]:
    """The files that the robbery changes. Raises ``Unfit`` where a getter has no such edit."""
    changed: dict[str, bytes] = {}
    for reader, seed in zip(robbery.readers, robbery.seeds, strict=True):
        source = changed.get(reader.path, files[reader.path])
        changed[reader.path], _ = mutate(source, reader.qualname, robbery.way, gates.names, seed)
    return changed


def own_status(document: dict[str, Any]) -> int:
    """The exit status with the default ``--fail-on`` where only ``OWN`` origins count."""
    for finding in document["findings"]:
        counts = finding["origin"] in OWN and finding["disposition"] == "active"
        if counts and finding["severity"] in STOPS and finding["confidence"] != "low":
            return 1
    return 0


def judge(robbery: Robbery, before: Sequence[Found], document: dict[str, Any]) -> list[Told]:
    """What the audit of a robbed tree says of each getter."""
    known = {(found.fingerprint, found.origin) for found in before}
    new = [f for f in sync_findings(document) if (f.fingerprint, f.origin) not in known]
    places = {(reader.path, reader.qualname) for reader in robbery.readers}
    elsewhere = tuple(found for found in new if (found.path, found.symbol) not in places)
    status = own_status(document)
    told = []
    for reader in robbery.readers:
        here = [f for f in new if (f.path, f.symbol) == (reader.path, reader.qualname)]
        here.sort(key=lambda f: (f.severity not in STOPS, f.origin != "regressed"))
        told.append(Told(robbery, reader, here[0] if here else None, elsewhere, status))
    return told


def run(tree: Path, chosen: Sequence[Robbery], files: dict[str, bytes], gates: Gates) -> list[Told]:
    """Audits every robbery, and prints each getter as it goes."""
    results: list[Told] = []
    with tempfile.TemporaryDirectory() as scratch, Session() as session:
        copy = Copy(tree, files, Path(scratch) / "tree")
        before = session.findings(copy.folder, tree)
        for robbery in chosen:
            try:
                changed = robbed(files, robbery, gates)
            except Unfit as unfit:
                print(f"-- {robbery.way} {robbery.title}: {unfit}", flush=True)
                continue
            for path, source in changed.items():
                copy.replace(path, source)
            told = judge(robbery, before, session.document(copy.folder, tree))
            for path in changed:
                copy.restore(path)
            results += told
            if len(told) > 1:
                right = sum(not item.short for item in told)
                print(f"== {robbery.way} {robbery.title}: {right} of {len(told)}", flush=True)
            for item in told:
                print(line(item), flush=True)
    return results


def line(told: Told) -> str:
    """One getter: verdict, way, symbol, and what stands there."""
    head = f"{'ok' if not told.short else 'SHORT':5} {told.robbery.way} {told.reader.qualname}"
    found = told.found
    if found is None:
        there = "; ".join(f"{f.symbol} {f.severity} {f.origin}" for f in told.elsewhere[:3])
        return f"{head}: no finding, status {told.status}; elsewhere: {there or 'none'}"
    return (
        f"{head}: {found.rule} {found.severity} {found.reach} ({found.reach_reason}) "
        f"{found.confidence} {found.origin} status {told.status}"
    )


def table(results: Sequence[Told]) -> str:
    """How many getters got the wanted verdict in each way, alone and together."""
    titles = {mutation.key: mutation.title for mutation in MUTATIONS}
    groups: dict[tuple[str, str], list[Told]] = defaultdict(list)
    for told in results:
        many = "together" if len(told.robbery.readers) > 1 else "alone"
        groups[told.robbery.way, many].append(told)
    rows = []
    for (way, many), group in sorted(groups.items()):
        missing = Counter(reason for told in group for reason in told.short)
        rows.append(
            [
                f"{way} {titles[way]}",
                many,
                len(group),
                sum(not told.short for told in group),
                sum(told.found is not None for told in group),
                sum(told.status == 1 for told in group),
                ", ".join(f"{n} {reason}" for reason, n in missing.most_common()),
            ]
        )
    heads = ["way", "robbed", "getters", "as wanted", "found", "status 1", "short of it"]
    return tabulate(rows, heads)


def main() -> int:
    """Prints a line a getter and the totals; 1 where any verdict falls short."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("releases", nargs="+", metavar="VERSION[=DIR]")
    parser.add_argument("--ways", default="M1", help="keys of mutants.py: M1, M3, M6, M7, M8")
    parser.add_argument("--with-constant", action="store_true", help="the ways M7 and M8")
    parser.add_argument("--together", action="store_true", help="several getters in one tree")
    parser.add_argument("--sample", type=int, help="only so many robberies, drawn")
    parser.add_argument("--only", default="", help="only getters whose name holds this")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    ways = ["M7", "M8"] if options.with_constant else options.ways.split(",")
    short = 0
    for version, tree in trees(options.releases).items():
        files = read_tree(tree)
        gates = find_gates(files)
        readers = [r for r in getters(files, gates) if options.only in r.qualname]
        choose = combinations if options.together else singles
        chosen = list(choose(readers, ways, options.seed))
        if options.sample is not None and options.sample < len(chosen):
            chosen = random.Random(options.seed).sample(chosen, options.sample)
        print(f"{version}: {len(readers)} getters, {len(chosen)} robberies")
        results = run(tree, chosen, files, gates)
        short += sum(bool(told.short) for told in results)
        print(f"\n{table(results)}\n")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
