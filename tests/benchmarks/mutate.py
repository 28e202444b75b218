"""How the tool takes a fork that breaks, or merely moves, one of upstream's own gates.

    python -m tests.benchmarks.mutate 0.5.23
    python -m tests.benchmarks.mutate 0.5.23=/path/to/tree --limit 5 --mutants M1,M4
    python -m tests.benchmarks.mutate 0.5.23 --dry-run        (the methods and diffs, no audit)

One function at a time is edited in a linked copy of the release. Against the release itself the
broken ones must come out as ``regressed`` or ``introduced``; against the broken copy itself only
the siblings can tell, so there the functions that keep two gated siblings or more are counted
apart. A moved gate must stay silent. ``strict`` wants a new finding at the edited function;
``lenient`` takes one that names it in its evidence, or shares its class.
"""

from __future__ import annotations

import argparse
import difflib
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

from tests.benchmarks.audits import Found, Session
from tests.benchmarks.gated import GatedReader, Gates, find_gates, read_tree
from tests.benchmarks.mutants import MUTATIONS, Mutation, Unfit, mutate
from tests.benchmarks.releases import trees

SETUPS = ("release", "itself")


@dataclass(frozen=True)
class Outcome:
    """What one edit led to: the new findings, and whether they are about the edited function."""

    reader: GatedReader
    mutation: Mutation
    setup: str
    siblings: int
    new: tuple[Found, ...]
    strict: bool
    lenient: bool

    @property
    def wrong(self) -> bool:
        return bool(self.new) if not self.mutation.breaks else not self.strict


class Copy:
    """A linked copy of a release's Python files in which one file at a time is replaced."""

    def __init__(self, tree: Path, files: dict[str, bytes], folder: Path) -> None:
        self.folder = folder
        self._tree = tree
        for path in files:
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            _link(tree / path, target)

    def replace(self, path: str, source: bytes) -> None:
        """Puts other bytes at a path; the release's own file is left alone."""
        scratch = self.folder / "replaced.tmp"
        scratch.write_bytes(source)
        scratch.replace(self.folder / path)

    def restore(self, path: str) -> None:
        """Puts the release's own file back."""
        (self.folder / path).unlink()
        _link(self._tree / path, self.folder / path)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def edits(
    files: dict[str, bytes], gates: Gates, wanted: set[str], limit: int | None
) -> Iterator[tuple[GatedReader, Mutation, bytes]]:
    """Every edit of every gated reader, in the order of the files."""
    for seed, reader in enumerate(gates.readers[:limit]):
        for mutation in MUTATIONS:
            if mutation.key not in wanted:
                continue
            try:
                source, _ = mutate(
                    files[reader.path], reader.qualname, mutation.key, gates.names, seed
                )
            except Unfit:
                continue
            yield reader, mutation, source


def outcome(
    reader: GatedReader,
    mutation: Mutation,
    setup: str,
    *,
    siblings: int,
    before: list[Found],
    after: list[Found],
) -> Outcome:
    """What the edit added to the findings, or changed the origin of, and what that is about."""
    known = {(found.fingerprint, found.origin) for found in before}
    new = tuple(found for found in after if (found.fingerprint, found.origin) not in known)
    if setup == "release" and mutation.breaks:
        told = [found for found in new if found.origin in ("regressed", "introduced")]
    else:
        told = list(new)
    place = (reader.path, reader.qualname)
    strict = any((found.path, found.symbol) == place for found in told)
    lenient = strict or any(
        place in found.evidence
        or (found.path == reader.path and found.symbol.rpartition(".")[0] == reader.owner)
        for found in told
    )
    return Outcome(reader, mutation, setup, siblings, new, strict, lenient)


def run(
    tree: Path, wanted: set[str], setups: list[str], limit: int | None, tell: Callable[[str], None]
) -> list[Outcome]:
    """Audits every edit of one release in every setup."""
    files = read_tree(tree)
    gates = find_gates(files)
    results = []
    with tempfile.TemporaryDirectory() as scratch, Session() as session:
        copy = Copy(tree, files, Path(scratch) / "tree")
        before = session.findings(copy.folder, tree)
        for reader, mutation, source in edits(files, gates, wanted, limit):
            copy.replace(reader.path, source)
            for setup in setups:
                upstream = tree if setup == "release" else copy.folder
                after = session.findings(copy.folder, upstream)
                siblings = len(gates.siblings(reader))
                done = outcome(
                    reader, mutation, setup, siblings=siblings, before=before, after=after
                )
                results.append(done)
                if done.wrong:
                    tell(_told(done))
            copy.restore(reader.path)
    return results


def _told(done: Outcome) -> str:
    what = "false alarm" if not done.mutation.breaks else "missed"
    reader = done.reader
    head = f"{what:12} {done.mutation.key} against {done.setup}: {reader.path}:{reader.line} "
    lines = [head + f"{reader.qualname} ({done.siblings} gated siblings)"]
    lines += [f"{'':13}  new: {found.place} {found.origin}" for found in done.new]
    return "\n".join(lines)


def table(results: list[Outcome]) -> str:
    """One line a mutation, setup and population: all functions, getters, two siblings left."""
    populations: list[tuple[str, Callable[[Outcome], bool]]] = [
        ("all", lambda done: True),
        ("get_* only", lambda done: done.reader.name.startswith("get_")),
        ("2+ gated siblings", lambda done: done.siblings >= 2),
    ]
    grouped: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for done in results:
        grouped[done.mutation.key, done.setup].append(done)
    lines = []
    for (key, setup), outcomes in sorted(grouped.items()):
        mutation = outcomes[0].mutation
        for name, chosen in populations:
            group = [done for done in outcomes if chosen(done)]
            head = [f"{key} {mutation.title}", setup, name, len(group)]
            if mutation.breaks:
                found = [sum(d.strict for d in group), sum(d.lenient for d in group)]
                lines.append([*head, *(_share(part, len(group)) for part in found), "-"])
            else:
                alarms = sum(bool(done.new) for done in group)
                lines.append([*head, "-", "-", _share(alarms, len(group))])
    heads = ["mutant", "upstream", "functions", "n", "found", "found (lenient)", "false alarms"]
    return tabulate(lines, heads)


def _share(part: int, whole: int) -> str:
    return f"{part} ({100 * part / whole:.0f} %)" if whole else "-"


def _dry(tree: Path, wanted: set[str], limit: int | None) -> None:
    files = read_tree(tree)
    gates = find_gates(files)
    print(f"{len(gates.readers)} gated functions, wrappers: {', '.join(sorted(gates.wrappers))}")
    for reader in gates.readers[:limit]:
        print(
            f"{reader.path}:{reader.line} {reader.qualname} reads "
            f"{', '.join(sorted(reader.buffers)) or '?'}; {len(gates.siblings(reader))} siblings"
        )
    for reader, mutation, source in edits(files, gates, wanted, limit):
        old, new = (data.decode().splitlines(True) for data in (files[reader.path], source))
        print(f"\n{mutation.key} {reader.qualname}")
        print("".join(difflib.unified_diff(old, new, reader.path, reader.path)))


def main() -> None:
    """Prints what was missed and wrongly reported as it goes, then the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("releases", nargs="+", metavar="VERSION[=DIR]")
    parser.add_argument("--limit", type=int, help="only the first N gated functions")
    parser.add_argument("--mutants", default="M1,M3,M4,M5", help="M2 is not judged: see README.md")
    parser.add_argument("--setups", default=",".join(SETUPS), help="upstream: release, itself")
    parser.add_argument("--dry-run", action="store_true", help="print the edits, audit nothing")
    options = parser.parse_args()
    wanted = set(options.mutants.split(","))
    for version, tree in trees(options.releases).items():
        print(f"{version}")
        if options.dry_run:
            _dry(tree, wanted, options.limit)
            continue
        results = run(
            tree,
            wanted,
            options.setups.split(","),
            options.limit,
            lambda text: print(text, flush=True),
        )
        print(f"\n{table(results)}\n")


if __name__ == "__main__":
    main()
