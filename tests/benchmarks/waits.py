"""Waits on streams, events and devices, taken out of a release.

    python -m tests.benchmarks.waits 0.5.23 --sample 48
    python -m tests.benchmarks.waits 0.5.23=/path/to/tree --edits deleted,helper --seed 7
    python -m tests.benchmarks.waits 0.5.23 --dry-run        (the waits and diffs, no audit)

The waits are found by the syntax of the release alone: a statement that is one call of
``wait_stream``, ``wait_event``, ``synchronize``, ``record_stream``, or ``wait()`` on what is named
for a piece of work. The edit decides what is right: a wait that is gone, that stands under an
unrelated flag, or behind a call that it came before is a loss, and the tool should report it
at default settings as regressed, in that function; one that a new function makes in its place, or
for which the whole device is waited for, is none, and the tool must stay silent.
"""

from __future__ import annotations

import ast
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabulate import tabulate

from tests.benchmarks.audits import Session, from_package
from tests.benchmarks.edits import Edit, drawn, of_server, parsed, print_dry
from tests.benchmarks.gated import read_tree
from tests.benchmarks.mutate import Copy
from tests.benchmarks.releases import trees

CALLS = ("wait_stream", "wait_event", "synchronize", "record_stream")
WORK = ("work", "handle", "req", "future")
"""Words in the names of what ``wait()`` is a wait on: most calls of that name are on threads."""
_FLAGS = ("trace_reads", "verbose_pool", "record_shapes", "use_alt_layout")
_HELPERS = ("_settle_side", "_until_done", "_fence_work", "_hold_for_copy")


@dataclass(frozen=True)
class Wait:
    """A statement that only waits, in its function; lines are 1-based, ``end`` is its last."""

    path: str
    qualname: str
    line: int
    end: int
    indent: int
    text: str
    names: tuple[str, ...]
    following: int
    """The last line of the statement behind it, if that calls something and waits for nothing; else
    0. A memory block that is kept alive a line later is kept alive all the same."""

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line} {self.qualname}: {' '.join(self.text.split())}"


@dataclass(frozen=True)
class Outcome:
    """What one edit led to: the findings that were not there before, by rule and place."""

    wait: Wait
    edit: str
    new: tuple[tuple[str, str, str, str], ...]  # rule, path, symbol, origin

    @property
    def told(self) -> bool:
        """Whether a regression is reported in the function."""
        return any(
            (path, symbol) == (self.wait.path, self.wait.qualname) and origin == "regressed"
            for _, path, symbol, origin in self.new
        )

    @property
    def wrong(self) -> bool:
        return not self.told if EDITS[self.edit].breaks else bool(self.new)


def find(files: dict[str, bytes]) -> list[Wait]:
    """Every such wait of the server's files, in the order of the files."""
    found: list[Wait] = []
    for path, data in of_server(files):
        if any(f".{name}(".encode() in data for name in (*CALLS, "wait")):
            text = data.decode()
            found += _within(ast.parse(text), path, text.split("\n"))
    return found


def _within(tree: ast.Module, path: str, lines: Sequence[str]) -> Iterator[Wait]:
    pending: list[tuple[ast.AST, str, bool]] = [(tree, "", False)]
    while pending:
        node, prefix, inside = pending.pop()
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            block = getattr(node, field, None)
            if not isinstance(block, list):
                continue
            for number, child in enumerate(block):
                if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    # What is defined within a function is part of that.
                    deeper = inside or not isinstance(child, ast.ClassDef)
                    name = prefix if inside else f"{prefix}.{child.name}".lstrip(".")
                    pending.append((child, name, deeper))
                    continue
                pending.append((child, prefix, inside))
                if inside and isinstance(child, ast.Expr) and _waits(child.value):
                    after = block[number + 1] if number + 1 < len(block) else None
                    yield _wait(child, path, prefix, lines, after)


def _waits(node: ast.expr) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    if node.func.attr in CALLS:
        return True
    last = getattr(node.func.value, "attr", getattr(node.func.value, "id", ""))
    return (
        node.func.attr == "wait"
        and not node.args
        and not node.keywords
        and any(word in str(last).lower() for word in WORK)
    )


def _wait(
    node: ast.Expr, path: str, qualname: str, lines: Sequence[str], after: ast.stmt | None
) -> Wait:
    end = node.end_lineno or node.lineno
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return Wait(
        path,
        qualname,
        node.lineno,
        end,
        node.col_offset,
        "\n".join(lines[node.lineno - 1 : end]),
        tuple(sorted(names)),
        (after.end_lineno or 0) if after is not None and _ordered(node, after) else 0,
    )


def _ordered(wait: ast.Expr, after: ast.stmt) -> bool:
    """Whether a statement may be work that the wait before it orders."""
    if not isinstance(after, (ast.Expr, ast.Assign)) or _waits(after.value):
        return False
    call = wait.value
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        if call.func.attr == "record_stream":
            return False
    return any(isinstance(node, ast.Call) for node in ast.walk(after))


def _deleted(lines: list[str], wait: Wait, seed: int) -> list[str]:
    return [*lines[: wait.line - 1], " " * wait.indent + "pass", *lines[wait.end :]]


def _flagged(lines: list[str], wait: Wait, seed: int) -> list[str]:
    flag = _FLAGS[seed % len(_FLAGS)]
    test = f"self.{flag}" if "self" in wait.names else f"globals().get('{flag}')"
    own = ["    " + line for line in lines[wait.line - 1 : wait.end]]
    return [*lines[: wait.line - 1], " " * wait.indent + f"if {test}:", *own, *lines[wait.end :]]


def _late(lines: list[str], wait: Wait, seed: int) -> list[str] | None:
    if not wait.following:
        return None
    own, after = lines[wait.line - 1 : wait.end], lines[wait.end : wait.following]
    return [*lines[: wait.line - 1], *after, *own, *lines[wait.following :]]


def _helped(lines: list[str], wait: Wait, seed: int) -> list[str] | None:
    known = {line.split()[1] for line in lines if line.startswith("import ")}
    names = [name for name in wait.names if name not in known]
    helper = f"{_HELPERS[seed % len(_HELPERS)]}_{seed}"
    call = " " * wait.indent + f"{helper}({', '.join(names)})"
    body = [line[wait.indent :] for line in lines[wait.line - 1 : wait.end]]
    made = ["", "", f"def {helper}({', '.join(names)}):", *("    " + line for line in body), ""]
    return [*lines[: wait.line - 1], call, *lines[wait.end :], *made]


def _for_the_device(lines: list[str], wait: Wait, seed: int) -> list[str] | None:
    if "import torch" not in lines or "record_stream" in wait.text:
        return None
    own = " " * wait.indent + "torch.cuda.synchronize()"
    return None if own == wait.text else [*lines[: wait.line - 1], own, *lines[wait.end :]]


EDITS: dict[str, Edit[Wait]] = {
    "deleted": Edit("deleted", True, _deleted),
    "flag": Edit("under an unrelated flag", True, _flagged),
    "late": Edit("behind the next statement", True, _late),
    "helper": Edit("made by a new function", False, _helped),
    "device": Edit("the whole device waited for", False, _for_the_device),
}


def reported(document: dict[str, Any]) -> set[tuple[str, str, str, str]]:
    """The active findings that the defaults show: rule, path, symbol, origin."""
    return {
        (row["rule"], from_package(row["path"]), row["symbol"], row["origin"])
        for row in document["findings"]
        if row["confidence"] != "low" and row["disposition"] == "active"
    }


def batches(waits: Sequence[Wait]) -> list[list[Wait]]:
    """The waits in as few groups as there are waits in one file, of each file one a group."""
    found: list[list[Wait]] = []
    taken: Counter[str] = Counter()
    for wait in waits:
        if taken[wait.path] == len(found):
            found.append([])
        found[taken[wait.path]].append(wait)
        taken[wait.path] += 1
    return found


def run(
    tree: Path, edits: Sequence[str], sample: int, seed: int, tell: Callable[[str], None]
) -> list[Outcome]:
    """Audits the edits of a sample of a release's waits against the release.

    In one audit each file is edited once, all in the same way. What is new in a file that is not
    edited counts for the first of them.
    """
    files = read_tree(tree)
    chosen = drawn(find(files), sample, seed)
    results: list[Outcome] = []
    with tempfile.TemporaryDirectory() as scratch, Session() as session:
        copy = Copy(tree, files, Path(scratch) / "tree")
        before = reported(session.document(copy.folder, tree))
        for group, edit in ((group, edit) for group in batches(chosen) for edit in edits):
            made = [(w, EDITS[edit].of(files[w.path], w, chosen.index(w))) for w in group]
            done = {wait.path: (wait, source) for wait, source in made if source is not None}
            for path, (_, source) in done.items():
                copy.replace(path, source)
            new = reported(session.document(copy.folder, tree)) - before
            strays = {row for row in new if row[1] not in done}
            for path, (wait, _) in done.items():
                own = {row for row in new if row[1] == path} | strays
                strays = set()
                results.append(Outcome(wait, edit, tuple(sorted(own))))
                if results[-1].wrong:
                    tell(_told(results[-1]))
                copy.restore(path)
    return results


def _told(done: Outcome) -> str:
    head = "missed" if EDITS[done.edit].breaks else "false alarm"
    lines = [f"{head:12} {done.edit}: {done.wait.place}"]
    lines += [f"{'':13}  new: {' '.join(row)}" for row in done.new]
    return "\n".join(lines)


def table(results: Sequence[Outcome]) -> str:
    """One line an edit: how many were tried, how many are reported."""
    grouped: dict[str, list[Outcome]] = defaultdict(list)
    for done in results:
        grouped[done.edit].append(done)
    rows = []
    for edit, outcomes in grouped.items():
        breaks = EDITS[edit].breaks
        count = sum(done.told if breaks else bool(done.new) for done in outcomes)
        share = f"{count} ({100 * count / len(outcomes):.0f} %)"
        row = [share, "-"] if breaks else ["-", share]
        rows.append([EDITS[edit].title, len(outcomes), *row])
    return tabulate(rows, ["a wait is", "n", "reported as regressed", "false alarms"])


def main() -> None:
    """Prints what was missed and wrongly reported as it goes, then the table."""
    options = parsed(__doc__, EDITS, 48)
    for version, tree in trees(options.releases).items():
        print(version)
        if options.dry_run:
            files = read_tree(tree)
            waits = find(files)
            print(f"{len(waits)} waits")
            print_dry(
                files,
                drawn(waits, options.sample, options.seed),
                {n: EDITS[n] for n in options.edits},
            )
            continue
        results = run(
            tree, options.edits, options.sample, options.seed, lambda text: print(text, flush=True)
        )
        print(f"\n{table(results)}\n")


if __name__ == "__main__":
    main()
