"""Upstream's own repairs of synchronization, taken back one at a time.

    python -m tests.benchmarks.repairs /path/to/sglang.git v0.5.18
    python -m tests.benchmarks.repairs /path/to/sglang.git v0.5.18 --list      (no audit)

A repair is a commit in whose files some function that was there before gained a wait or a lock,
counted in the syntax trees, and hardly anything else: at most four lines in all, whatever the
commit calls itself. The tree before it is audited as the fork of the tree after it, with the files
that the commit changed: the tool should report one of the functions that gained, at default
settings.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tabulate import tabulate

from auditor.runs.audit import audit_sources

CALLS = ("wait_stream", "wait_event", "synchronize", "record_stream", "wait_until", "wait")
SERVER = "python/sglang/srt"
MOST_LINES = 4
"""What a function may gain in a repair; with more it is new work that waits."""


@dataclass
class Repair:
    """A commit, the files that it changed before and after it, and the functions that gained."""

    sha: str
    subject: str
    before: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)
    gained: set[tuple[str, str]] = field(default_factory=set)


def git(repository: str, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", repository, *arguments], capture_output=True, check=False, text=True
    )
    return done.stdout


def repairs(repository: str, tip: str, since: str) -> Iterator[Repair]:
    """The repairs in the history of a commit, newest first."""
    waits = r"\.(wait_stream|wait_event|synchronize|record_stream|wait_until|wait)\(|with .*lock"
    chosen = ("-E", "-G", waits, "--format=%H %s", f"--since={since}")
    for row in git(repository, "log", "--no-merges", *chosen, tip, "--", SERVER).splitlines():
        sha, _, subject = row.partition(" ")
        repair = Repair(sha, subject)
        names = git(repository, "diff", "--name-only", f"{sha}^", sha, "--", SERVER)
        for path in names.splitlines():
            if not path.endswith(".py"):
                continue
            old, new = (git(repository, "show", f"{at}:{path}") for at in (f"{sha}^", sha))
            name = path.removeprefix("python/")
            if old:
                repair.before[name] = old
            if new:
                repair.after[name] = new
            earlier, later = waiting(old), waiting(new)
            repair.gained |= {
                (name, function)
                for function, (counts, lines) in later.items()
                if function in earlier
                if any(n > earlier[function][0][call] for call, n in counts.items())
                if _gained(earlier[function][1], lines) <= MOST_LINES
            }
        if repair.gained:
            yield repair


def _gained(old: list[str], new: list[str]) -> int:
    return sum(row[0] == "+" for row in difflib.ndiff(old, new))


def waiting(text: str) -> dict[str, tuple[Counter[str], list[str]]]:
    """How often each function of a file calls each wait, or takes a lock, and its lines."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return {}
    found: dict[str, tuple[Counter[str], list[str]]] = {}
    pending: list[tuple[ast.AST, str]] = [(tree, "")]
    while pending:
        node, prefix = pending.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = ast.unparse(child).split("\n")
                found[f"{prefix}{child.name}"] = (Counter(_waits(child)), lines)
            elif isinstance(child, ast.ClassDef):
                pending.append((child, f"{prefix}{child.name}."))
            elif isinstance(child, (ast.If, ast.Try)):
                pending.append((child, prefix))
    return found


def _waits(function: ast.AST) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in CALLS:
                yield node.func.attr
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                if "lock" in ast.unparse(item.context_expr).lower():
                    yield "lock"


def told(repair: Repair) -> list[tuple[str, str]]:
    """The functions that gained and are reported, where the repair is taken back."""
    report = audit_sources(repair.before, repair.after)
    shown = {
        (f.hit.where.symbol.path, f.hit.where.symbol.qualname)
        for f in report.findings
        if f.hit.confidence != "low"
    }
    return sorted(shown & repair.gained)


def main() -> None:
    """Prints each repair, whether it is told, and the share."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repository", help="a git repository with upstream's history")
    parser.add_argument("tip", help="a tag or commit")
    parser.add_argument("--since", default="2025-06-01")
    parser.add_argument("--list", action="store_true", help="print the repairs, audit nothing")
    options = parser.parse_args()
    rows = []
    for repair in repairs(options.repository, options.tip, options.since):
        hit = "" if options.list else "told" if told(repair) else "missed"
        functions = " ".join(sorted(name for _, name in repair.gained))
        rows.append([repair.sha[:10], hit, repair.subject[:60], functions[:90]])
        print(*rows[-1], sep="  ", flush=True)
    count = sum(row[1] == "told" for row in rows)
    print(tabulate([[len(rows), count]], ["repairs", "told"]))


if __name__ == "__main__":
    main()
