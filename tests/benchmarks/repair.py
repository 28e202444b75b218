"""How `audit fix` puts back a gate that a fork deleted from upstream's own code.

    python -m tests.benchmarks.repair 0.5.23
    python -m tests.benchmarks.repair 0.5.23=/path/to/tree --limit 5 --setups itself -v

Each mutant of ``mutate.py`` (M1, the gate deleted) is fixed with ``--unsafe`` in a linked copy of
the release. With the release as upstream the lost text can be looked up; with the mutant as its own
upstream only the siblings tell what to write. ``repaired`` means that the tool made an edit of the
function which its own audit found in order; ``equal`` that the function then reads as in the
release, white space aside; ``equal but for comments`` that the two have one syntax tree.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import tempfile
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs
from tabulate import tabulate

from auditor.rulebook import load
from auditor.runs.fix import Repair, repair
from auditor.runs.request import AuditRequest
from tests.benchmarks.gated import GatedReader, find_gates, read_tree
from tests.benchmarks.mutants import Mutation
from tests.benchmarks.mutate import SETUPS, Copy, edits
from tests.benchmarks.releases import trees

RULES = [rule.id for rule in load().rules if rule.check == "sibling-gates"]


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant."""

    reader: GatedReader
    mutation: Mutation
    setup: str
    siblings: int
    told: str
    found: bool
    repaired: bool
    equal: bool
    same: bool
    patch: str


def outcome(
    reader: GatedReader,
    mutation: Mutation,
    setup: str,
    *,
    siblings: int,
    done: Repair,
    original: bytes,
    path: str,
) -> Outcome:
    """Holds what the tool made of a mutant against the release's own file."""
    about = [
        fix
        for fix in done.fixes
        if fix.finding.hit.where.symbol.qualname == reader.qualname
        and fix.finding.hit.where.symbol.path.endswith(path)
    ]
    new = next((new for name, _, new in done.changes if name.endswith(path)), b"")
    mine, theirs = (_function(data, reader.qualname) for data in (new, original))
    return Outcome(
        reader,
        mutation,
        setup,
        siblings,
        "; ".join(f"{f.finding.rule}: {f.how} {f.state} {f.reason}" for f in about) or "not found",
        bool(about),
        bool(about) and all(fix.state == "made" for fix in about),
        mine.split() == theirs.split(),
        bool(mine) and _tree(mine) == _tree(theirs),
        "" if mine == theirs else _patch(theirs, mine),
    )


def _function(source: bytes, qualname: str) -> str:
    """The text of one function of a file; empty where there is none."""
    text = source.decode()
    body: list[ast.stmt] = ast.parse(text).body
    for name in qualname.split("."):
        nodes = [n for n in body if getattr(n, "name", None) == name]
        if not nodes:
            return ""
        node = nodes[-1]
        body = getattr(node, "body", [])
    return "".join(text.splitlines(True)[node.lineno - 1 : node.end_lineno])


def _tree(text: str) -> str:
    return ast.dump(ast.parse(textwrap.dedent(text)))


def _patch(theirs: str, mine: str) -> str:
    return "".join(difflib.unified_diff(theirs.splitlines(True), mine.splitlines(True), n=1))


def run(
    tree: Path,
    wanted: set[str],
    setups: list[str],
    limit: int | None,
    confidence: str,
    tell: Callable[[Outcome], None],
) -> list[Outcome]:
    """Fixes every mutant of one release in every setup."""
    files = read_tree(tree)
    gates = find_gates(files)
    results = []
    with tempfile.TemporaryDirectory() as scratch:
        copy = Copy(tree, files, Path(scratch) / "tree")
        for reader, mutation, source in edits(files, gates, wanted, limit):
            copy.replace(reader.path, source)
            for setup in setups:
                request = AuditRequest(
                    root=copy.folder,
                    upstream=str(tree if setup == "release" else copy.folder),
                    min_confidence=confidence,  # type: ignore[arg-type]
                    cache=Path(scratch) / "cache",
                )
                own = structs.replace(request, origins=("introduced", "regressed"))
                # What the release has by itself is asked about only where nothing else is found.
                for asked in [*([own] if setup == "release" else []), request]:
                    done = outcome(
                        reader,
                        mutation,
                        setup,
                        siblings=len(gates.siblings(reader)),
                        done=repair(asked, RULES, unsafe=True, dry=True),
                        original=files[reader.path],
                        path=reader.path,
                    )
                    if done.found:
                        break
                results.append(done)
                tell(done)
            copy.restore(reader.path)
    return results


def table(results: list[Outcome]) -> str:
    """One line a mutation, setup and population."""
    rows = []
    groups = dict.fromkeys((done.mutation, done.setup) for done in results)
    for mutation, setup in groups:
        chosen = [d for d in results if (d.mutation, d.setup) == (mutation, setup)]
        populations = {
            "all": chosen,
            "get_* only": [d for d in chosen if d.reader.name.startswith("get_")],
            "2+ gated siblings": [d for d in chosen if d.siblings >= 2],
        }
        for name, group in populations.items():
            counts = [
                sum(getattr(done, field) for done in group)
                for field in ("found", "repaired", "equal", "same")
            ]
            shares = [f"{n} ({100 * n / len(group):.0f} %)" if group else "-" for n in counts]
            rows.append([f"{mutation.key} {mutation.title}", setup, name, len(group), *shares])
    heads = ["mutant", "upstream", "functions", "n", "found", "repaired", "equal"]
    return tabulate(rows, [*heads, "equal but for comments"])


def main() -> None:
    """Prints what was not repaired, or otherwise than in the release, then the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("releases", nargs="+", metavar="VERSION[=DIR]")
    parser.add_argument("--limit", type=int, help="only the first N gated functions")
    parser.add_argument("--mutants", default="M1")
    parser.add_argument("--setups", default=",".join(SETUPS), help="upstream: release, itself")
    parser.add_argument("--min-confidence", default="medium", help="as of the command")
    parser.add_argument("-v", "--verbose", action="store_true", help="print all, with the edits")
    options = parser.parse_args()

    def tell(done: Outcome) -> None:
        if done.equal and not options.verbose:
            return
        state = "equal" if done.equal else "other" if done.repaired else "open"
        place = f"{done.reader.path}:{done.reader.line} {done.reader.qualname}"
        print(f"{state:6} {done.mutation.key} against {done.setup}: {place}\n       {done.told}")
        if done.patch:
            print(done.patch, flush=True)

    for version, tree in trees(options.releases).items():
        print(version)
        wanted = set(options.mutants.split(","))
        results = run(
            tree,
            wanted,
            options.setups.split(","),
            options.limit,
            options.min_confidence,
            tell,
        )
        print(f"\n{table(results)}\n")


if __name__ == "__main__":
    main()
