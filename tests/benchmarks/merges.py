"""How the tool takes the gates that merges break, and what merges only rewrite.

    python -m tests.benchmarks.merges 0.5.23
    python -m tests.benchmarks.merges 0.5.23=/path/to/tree --kinds cached --places 10 --seed 3
    python -m tests.benchmarks.merges 0.5.23 --setup itself --kinds deleted --places 100 --alone
    python -m tests.benchmarks.merges 0.5.23 --dry-run        (the edits, no audit)

Each kind of ``merge_edits.py`` is made at a few places of a release, drawn by a seed from those
where it can be made (``gated.py`` finds them without the tool), those of a kind in one tree and in
different classes as far as there are any; with ``--alone`` one at a time. A broken one is told
where a new finding of synchronization, at least of medium confidence and introduced or regressed,
stands at the edited function; of a harmless one any new finding is a false alarm. With ``--setup
itself`` the edited tree is its own upstream, and any new finding at the function tells it.
"""

from __future__ import annotations

import argparse
import difflib
import random
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabulate import tabulate

from auditor.rulebook import load
from tests.benchmarks.audits import Session, from_package
from tests.benchmarks.gated import Gates, find_gates, read_tree
from tests.benchmarks.merge_edits import KINDS, Kind
from tests.benchmarks.merge_sites import Site
from tests.benchmarks.mutants import Unfit
from tests.benchmarks.mutate import Copy
from tests.benchmarks.releases import trees

SYNC = {rule.id for rule in load().rules if rule.category == "sync"}


@dataclass(frozen=True)
class New:
    """A finding that the edit brought; ``low`` are those that the defaults do not show."""

    path: str
    symbol: str
    origin: str
    low: bool
    text: str


@dataclass(frozen=True)
class Outcome:
    """One edit and what it brought."""

    kind: Kind
    place: str
    told: bool
    told_low: bool
    new: tuple[New, ...]


def sites(files: dict[str, bytes], gates: Gates) -> list[Site]:
    """The functions of a release that wait once and then read."""
    found = []
    for reader in gates.readers:
        try:
            found.append(Site(reader, gates, files))
        except Unfit:
            continue
    return found


def drawn(
    kind: Kind, all_sites: Sequence[Site], count: int, seed: int
) -> Iterator[tuple[Site, bytes]]:
    """Up to so many places of a kind where it can be made, with the file as it is then.

    The order is drawn, but no class comes again before all the others did.
    """
    order = list(all_sites)
    random.Random(f"{seed} {kind.key}").shuffle(order)
    seen: Counter[str] = Counter()
    turns: dict[int, int] = {}
    for number, site in enumerate(order):
        turns[number] = seen[site.reader.owner]
        seen[site.reader.owner] += 1
    made = 0
    first = {n: kind.tuples and not order[n].pool_of_tuple for n in turns}
    for number in sorted(turns, key=lambda n: (first[n], turns[n])):
        site = order[number]
        if made == count or (kind.tuples and not site.from_tuple):
            continue
        data = edited(kind, site)
        if data is not None:
            made += 1
            yield site, data


def edited(kind: Kind, site: Site) -> bytes | None:
    """The file with one edit; None where it cannot be made there."""
    try:
        text = kind.edit(site)
        compile(text, site.reader.path, "exec")
    except (Unfit, SyntaxError):
        return None
    return text.encode()


def batches(
    kind: Kind, places: Sequence[Site], count: int, seed: int, alone: bool
) -> Iterator[tuple[list[Site], dict[str, bytes]]]:
    """The places of a kind that are edited in one tree, with the files that are changed."""
    chosen = list(drawn(kind, places, count, seed))
    if alone:
        for site, data in chosen:
            yield [site], {site.reader.path: data}
        return
    files: dict[str, bytes] = {}
    done: list[Site] = []
    for site, _ in chosen:
        again = Site(site.reader, site.gates, {**site.files, **files})
        changed = edited(kind, again)
        if changed is not None:
            files[site.reader.path] = changed
            done.append(site)
    if done:
        yield done, files


def findings(document: dict[str, Any]) -> dict[tuple[str, str], New]:
    """The active findings of synchronization by fingerprint and origin."""
    return {
        (finding["fingerprint"], finding["origin"]): New(
            from_package(finding["path"]),
            finding["symbol"],
            finding["origin"],
            finding["confidence"] == "low",
            f"{finding['symbol']} [{finding['rule']}] {finding['origin']} "
            f"{finding['confidence']}: {finding['message']}",
        )
        for finding in document["findings"]
        if finding["rule"] in SYNC and finding["disposition"] == "active"
    }


def outcome(kind: Kind, site: Site, setup: str, new: Sequence[New]) -> Outcome:
    """Whether what an edit brought tells of it."""
    place = (site.reader.path, kind.at(site))
    blamed = [f for f in new if setup == "itself" or f.origin in ("introduced", "regressed")]
    here = [f for f in blamed if (f.path, f.symbol) == place]
    shown = tuple(f for f in new if not f.low)
    return Outcome(kind, kind.at(site), any(not f.low for f in here), bool(here), shown)


def run(tree: Path, kinds: Sequence[Kind], options: argparse.Namespace) -> list[Outcome]:
    """Makes and audits every edit; prints each as it goes."""
    files = read_tree(tree)
    gates = find_gates(files)
    places = [site for site in sites(files, gates) if options.only in site.reader.qualname]
    print(f"{len(gates.readers)} gated functions, {len(places)} of them with one gate")
    results: list[Outcome] = []
    with tempfile.TemporaryDirectory() as scratch, Session() as session:
        copied = Copy(tree, files, Path(scratch) / "tree")
        before = None if options.dry_run else findings(_document(session, copied.folder, tree))
        for kind in kinds:
            made = batches(kind, places, options.places, options.seed, options.alone)
            for edits, changed in made:
                if before is None:
                    _print_diff(kind, files, changed)
                    continue
                for path, data in changed.items():
                    copied.replace(path, data)
                upstream = tree if options.setup == "release" else copied.folder
                after = findings(_document(session, copied.folder, upstream))
                for path in changed:
                    copied.restore(path)
                new = [found for key, found in after.items() if key not in before]
                done = [outcome(kind, site, options.setup, new) for site in edits]
                results += done
                _tell(kind, done, new)
    return results


def _document(session: Session, fork: Path, upstream: Path) -> dict[str, Any]:
    return session.document(fork, upstream, select=tuple(sorted(SYNC)), confidence="low")


def _print_diff(kind: Kind, files: dict[str, bytes], changed: dict[str, bytes]) -> None:
    print(f"\n{kind.key}")
    for path, data in changed.items():
        old, new = (text.decode().splitlines(True) for text in (files[path], data))
        print("".join(difflib.unified_diff(old, new, path, path, n=2)))


def _tell(kind: Kind, outcomes: Sequence[Outcome], new: Sequence[New]) -> None:
    for done in outcomes:
        what = "told" if done.told else "low only" if done.told_low else "missed"
        if not kind.breaks:
            what = "false alarm" if done.new else "silent"
        print(f"{what:12} {kind.key}: {done.place}", flush=True)
    places = {done.place for done in outcomes}
    for found in new:
        if not found.low and (not kind.breaks or found.symbol not in places):
            print(f"{'':13}elsewhere: {found.text}", flush=True)


def table(results: Sequence[Outcome]) -> str:
    """A line a kind: places, told by default, told at low confidence as well, false alarms."""
    grouped: dict[str, list[Outcome]] = defaultdict(list)
    for done in results:
        grouped[done.kind.key].append(done)
    rows = []
    for group in grouped.values():
        kind = group[0].kind
        told: list[object] = ["-", "-", sum(bool(done.new) for done in group)]
        if kind.breaks:
            told = [sum(d.told for d in group), sum(d.told_low for d in group), "-"]
        rows.append([kind.key, kind.title, len(group), *told])
    broken = [done for done in results if done.kind.breaks]
    harmless = [done for done in results if not done.kind.breaks]
    rows.append(
        [
            "all",
            "",
            len(results),
            f"{sum(d.told for d in broken)} of {len(broken)}",
            f"{sum(d.told_low for d in broken)} of {len(broken)}",
            f"{sum(bool(d.new) for d in harmless)} of {len(harmless)}",
        ]
    )
    return tabulate(rows, ["kind", "edit", "places", "told", "told at low", "false alarms"])


def main() -> None:
    """Prints a line an edit, then the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("releases", nargs="+", metavar="VERSION[=DIR]")
    parser.add_argument("--kinds", default="", help="keys of merge_edits.py, all where none")
    parser.add_argument("--places", type=int, default=5, help="at most so many a kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="only functions whose name holds this")
    parser.add_argument("--setup", default="release", choices=["release", "itself"])
    parser.add_argument("--alone", action="store_true", help="a tree for every edit")
    parser.add_argument("--dry-run", action="store_true", help="print the edits, audit nothing")
    options = parser.parse_args()
    wanted = options.kinds.split(",") if options.kinds else [kind.key for kind in KINDS]
    kinds = [kind for kind in KINDS if kind.key in wanted]
    for version, tree in trees(options.releases).items():
        print(version)
        results = run(tree, kinds, options)
        if results:
            print(f"\n{table(results)}\n")


if __name__ == "__main__":
    main()
