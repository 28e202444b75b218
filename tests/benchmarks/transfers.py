"""Completion waits of transfer methods, taken out of a release one at a time.

    python -m tests.benchmarks.transfers 0.5.23
    python -m tests.benchmarks.transfers 0.5.23=/path/to/tree --edits deleted --siblings 1
    python -m tests.benchmarks.transfers 0.5.23 --dry-run        (the methods and diffs, no audit)

Methods are found by the syntax of the release alone: one of a class that starts copies (it says
``non_blocking=True``, submits work, or calls something named for a transfer) and then makes a wait
that is a statement by itself, and whose name is a method's of other classes that do so too. Each
edited tree is its own upstream, so that only siblings can tell. A wait that is deleted, put under a
test, left out on an early way out or moved before the copies should be reported in that method; one
that a new function makes in its place, or that an event recorded there stands for, must not.
"""

from __future__ import annotations

import argparse
import ast
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tabulate import tabulate

from tests.benchmarks.audits import Session, by_function
from tests.benchmarks.edits import Edit, of_server, print_dry
from tests.benchmarks.gated import read_tree
from tests.benchmarks.mutate import Copy
from tests.benchmarks.releases import trees

RULE = "transfer-unfinished"
WAITS = ("synchronize", "wait", "wait_stream", "wait_event", "result", "record")
STARTS = re.compile(r"(?:^|_)(?:transfer|backup|writeback|offload|async|submit|copy)(?:_|$)")
NO_TRANSFER = re.compile(r"__|forward|capture|warmup|init|load_weights|_?(?:get_\w+_buffer|free)$")
Lines = tuple[int, int]


@dataclass(frozen=True)
class Method:
    """A transfer that waits; lines are 1-based, ``waits`` first and last lines of statements.

    ``starts`` is the line of the first copy, ``siblings`` how many methods of its name in other
    classes do so too.
    """

    path: str
    qualname: str
    name: str
    line: int
    starts: int
    waits: tuple[Lines, ...]
    siblings: int = 0

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line} {self.qualname} ({self.siblings} siblings)"


@dataclass(frozen=True)
class Outcome:
    """What one edit led to: with which confidence it is reported there, empty for not at all."""

    method: Method
    edit: str
    confidence: str

    @property
    def wrong(self) -> bool:
        return bool(self.confidence) is not EDITS[self.edit].breaks


def find(files: dict[str, bytes]) -> list[Method]:
    """Every such method of the server's files that has a sibling, in the order of the files."""
    found: list[Method] = []
    for path, data in of_server(files):
        if any(f".{name}(".encode() in data for name in WAITS):
            found += sorted(_methods(ast.parse(data), path, ""), key=lambda method: method.line)
    named: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for method in found:
        named[method.name].add((method.path, method.qualname))
    counted = [replace(method, siblings=len(named[method.name]) - 1) for method in found]
    return [method for method in counted if method.siblings]


def _methods(node: ast.AST, path: str, prefix: str) -> Iterator[Method]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _methods(child, path, f"{prefix}{child.name}.")
        elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if prefix and not NO_TRANSFER.match(child.name):
                yield from _method(child, path, prefix)
        else:
            yield from _methods(child, path, prefix)


def _method(
    function: ast.FunctionDef | ast.AsyncFunctionDef, path: str, prefix: str
) -> Iterator[Method]:
    nodes = list(ast.walk(function))
    starts = [node.lineno for node in nodes if isinstance(node, ast.Call) and _starts(node)]
    if not starts:
        return
    statements = [node for node in nodes if isinstance(node, ast.Expr)]
    waits = {
        (one.lineno, one.end_lineno or one.lineno)
        for one in statements
        if one.lineno > min(starts)
        and isinstance(one.value, ast.Call)
        and _called(one.value) in WAITS
    }
    if waits:
        name = function.name
        place = (path, prefix + name, name, function.lineno, min(starts))
        yield Method(*place, tuple(sorted(waits)))


def _starts(call: ast.Call) -> bool:
    for keyword in call.keywords:
        if keyword.arg == "non_blocking" and getattr(keyword.value, "value", None) is True:
            return True
    return bool(STARTS.search(_called(call)))


def _called(call: ast.Call) -> str:
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _without(
    lines: list[str], method: Method, instead: Callable[[list[str]], list[str]]
) -> list[str]:
    """The lines with something else in the place of each wait."""
    made = list(lines)
    for first, last in reversed(method.waits):
        made[first - 1 : last] = instead(lines[first - 1 : last])
    return made


def _deleted(lines: list[str], method: Method, seed: int) -> list[str]:
    return _without(lines, method, lambda own: [_indent(own[0]) + "pass"])


def _flagged(lines: list[str], method: Method, seed: int) -> list[str]:
    def under(own: list[str]) -> list[str]:
        return [f"{_indent(own[0])}if self._careful_{seed}:", *("    " + line for line in own)]

    return _without(lines, method, under)


def _left(lines: list[str], method: Method, seed: int) -> list[str]:
    def before(own: list[str]) -> list[str]:
        indent = _indent(own[0])
        return [f"{indent}if self._hasty_{seed}:", f"{indent}    return None", *own]

    return _without(lines, method, before)


def _early(lines: list[str], method: Method, seed: int) -> list[str]:
    """The waits stand before the statement of the function's body that holds the first copy."""
    own = lines[method.waits[0][0] - 1 : method.waits[0][1]]
    tree = ast.parse("\n".join(lines))
    body = next(
        node.body
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.lineno == method.line
    )
    at = next(one for one in body if (one.end_lineno or one.lineno) >= method.starts)
    moved = [" " * at.col_offset + line.strip() for line in own]
    made = _deleted(lines, method, seed)
    return [*made[: at.lineno - 1], *moved, *made[at.lineno - 1 :]]


def _helped(lines: list[str], method: Method, seed: int) -> list[str]:
    known = {line.split()[1] for line in lines if line.startswith(("import ", "from "))}
    functions: list[str] = []

    def call(own: list[str]) -> list[str]:
        indent = _indent(own[0])
        text = "\n".join(line[len(indent) :] for line in own)
        names = {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)}
        given = ", ".join(sorted(names - known))
        name = f"_settle_{seed}_{len(functions)}"
        body = "\n".join("    " + line for line in text.split("\n"))
        functions.append(f"\n\ndef {name}({given}):\n{body}")
        return [f"{indent}{name}({given})"]

    made = _without(lines, method, call)
    return [*made, *"".join(functions).split("\n"), ""]


def _recorded(lines: list[str], method: Method, seed: int) -> list[str]:
    def event(own: list[str]) -> list[str]:
        indent = _indent(own[0])
        return [
            f"{indent}self._done_{seed} = torch.cuda.Event()",
            f"{indent}self._done_{seed}.record()",
        ]

    return _without(lines, method, event)


EDITS: dict[str, Edit[Method]] = {
    "deleted": Edit("deleted", True, _deleted),
    "flagged": Edit("under a test", True, _flagged),
    "left": Edit("behind a way out", True, _left),
    "early": Edit("before the copies", True, _early),
    "helper": Edit("made by a new function", False, _helped),
    "recorded": Edit("an event that is recorded", False, _recorded),
}


def run(
    tree: Path, edits: Sequence[str], siblings: int, tell: Callable[[str], None]
) -> list[Outcome]:
    """Audits each edit of every method with so many siblings, the edited tree with itself."""
    files = read_tree(tree)
    results: list[Outcome] = []
    with tempfile.TemporaryDirectory() as scratch, Session() as session:
        copy = Copy(tree, files, Path(scratch) / "tree")
        before = by_function(session, copy.folder, RULE)
        for number, method in enumerate(find(files)):
            key = f"{method.path} {method.qualname}"
            if method.siblings < siblings or key in before:
                continue
            for edit in edits:
                source = EDITS[edit].of(files[method.path], method, number)
                if source is None:
                    continue
                copy.replace(method.path, source)
                results.append(
                    Outcome(method, edit, by_function(session, copy.folder, RULE).get(key, ""))
                )
                if results[-1].wrong:
                    what = "missed" if EDITS[edit].breaks else "false alarm"
                    tell(f"{what:12} {edit}: {method.place}")
            copy.restore(method.path)
    return results


def table(results: Sequence[Outcome]) -> str:
    """One line an edit: how many were tried, how many are reported, by default and at all."""
    grouped: dict[str, list[Outcome]] = defaultdict(list)
    for done in results:
        grouped[done.edit].append(done)
    rows = []
    for edit, outcomes in grouped.items():
        shown = sum(done.confidence in ("high", "medium") for done in outcomes)
        told = sum(bool(done.confidence) for done in outcomes)
        rows.append([EDITS[edit].title, len(outcomes), shown, told])
    return tabulate(rows, ["the wait is", "n", "reported by default", "at any confidence"])


def main() -> None:
    """Prints what was missed and wrongly reported as it goes, then the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("releases", nargs="+", metavar="VERSION[=DIR]")
    parser.add_argument("--edits", default=",".join(EDITS), help="of " + ", ".join(EDITS))
    parser.add_argument("--siblings", type=int, default=2, help="the fewest that wait too")
    parser.add_argument("--dry-run", action="store_true", help="print the edits, audit nothing")
    options = parser.parse_args()
    edits = options.edits.split(",")
    for version, tree in trees(options.releases).items():
        if options.dry_run:
            files = read_tree(tree)
            chosen = [method for method in find(files) if method.siblings >= options.siblings]
            print_dry(files, chosen, {name: EDITS[name] for name in edits})
            continue
        results = run(tree, edits, options.siblings, lambda text: print(text, flush=True))
        print(f"{version}: {len({done.method for done in results})} methods\n\n{table(results)}\n")


if __name__ == "__main__":
    main()
