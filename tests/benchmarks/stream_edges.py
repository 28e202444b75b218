"""Edges from the current stream to side streams, taken out of a release one at a time.

    python -m tests.benchmarks.stream_edges 0.5.23 --sample 24
    python -m tests.benchmarks.stream_edges 0.5.23=/path/to/tree --edits deleted --seed 7
    python -m tests.benchmarks.stream_edges 0.5.23 --dry-run        (the counts and diffs, no audit)

Blocks and edges are found by the syntax of the release alone: a ``with`` on ``…stream(s)``, and a
statement before it in the function, or first within it, that is one call of ``s.wait_stream``,
``s.wait_event`` or ``e.wait(s)``. Only edges whose block has no other one are taken. Each edited
tree is its own upstream, so that only the other blocks can tell. A deleted edge should be reported
in that function; one that a new function makes in its place, or that is moved to the beginning of
the block, must not.
"""

from __future__ import annotations

import ast
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

from tests.benchmarks.audits import Session, by_function
from tests.benchmarks.edits import Edit, drawn, of_server, parsed, print_dry
from tests.benchmarks.gated import read_tree
from tests.benchmarks.mutate import Copy
from tests.benchmarks.releases import trees

RULE = "side-stream-unordered"
CONTEXTS = ("stream", "StreamContext", "device_stream_context")


@dataclass(frozen=True)
class Block:
    """A block on a stream that is named where it is entered; lines are 1-based.

    ``edges`` are the statements of the function that make the stream wait, up to the first ones of
    the block: (first line, last line).
    """

    path: str
    qualname: str
    line: int
    body: int
    indent: int
    stream: str
    edges: tuple[tuple[int, int], ...]

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line} {self.qualname}: with {self.stream}"


@dataclass(frozen=True)
class Outcome:
    """What one edit led to: with which confidence it is reported there, empty for not at all."""

    block: Block
    edit: str
    confidence: str

    @property
    def wrong(self) -> bool:
        return bool(self.confidence) is not EDITS[self.edit].breaks


def find(files: dict[str, bytes]) -> list[Block]:
    """Every such block of the server's files, in the order of the files."""
    found: list[Block] = []
    for path, data in of_server(files):
        if any(f"{name}(".encode() in data for name in CONTEXTS):
            found += sorted(_within(ast.parse(data), path), key=lambda block: block.line)
    return found


def _within(tree: ast.Module, path: str) -> Iterator[Block]:
    pending: list[tuple[ast.AST, str]] = [(tree, "")]
    while pending:
        node, prefix = pending.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef):
                pending.append((child, f"{prefix}.{child.name}".lstrip(".")))
            elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield from _blocks(child, path, f"{prefix}.{child.name}".lstrip("."))
            else:
                pending.append((child, prefix))


def _blocks(function: ast.AST, path: str, qualname: str) -> Iterator[Block]:
    """The blocks of a function, those of functions within it too."""
    nodes = list(ast.walk(function))
    statements = [node for node in nodes if isinstance(node, ast.Expr)]
    for node in nodes:
        if not isinstance(node, ast.With):
            continue
        for item in node.items:
            stream = _entered(item.context_expr)
            if stream:
                first = node.body[0]
                last = first.end_lineno or first.lineno
                edges = [
                    (one.lineno, one.end_lineno or one.lineno)
                    for one in statements
                    if one.lineno <= last and _makes_wait(one.value, stream)
                ]
                place = (node.lineno, first.lineno, first.col_offset)
                yield Block(path, qualname, *place, stream, tuple(sorted(edges)))


def _entered(node: ast.expr) -> str:
    if not isinstance(node, ast.Call) or len(node.args) != 1:
        return ""
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    return ast.unparse(node.args[0]) if name in CONTEXTS else ""


def _makes_wait(node: ast.expr, stream: str) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    if node.func.attr in ("wait_stream", "wait_event"):
        return ast.unparse(node.func.value) == stream
    given = [ast.unparse(arg) for arg in node.args]
    return node.func.attr == "wait" and given == [stream]


def _deleted(lines: list[str], block: Block, seed: int) -> list[str]:
    [(first, last)] = block.edges
    return [*lines[: first - 1], _indent(lines[first - 1]) + "pass", *lines[last:]]


def _helped(lines: list[str], block: Block, seed: int) -> list[str]:
    [(first, last)] = block.edges
    own = lines[first - 1 : last]
    indent = _indent(own[0])
    call = ast.parse("\n".join(line[len(indent) :] for line in own))
    known = {line.split()[1] for line in lines if line.startswith(("import ", "from "))}
    names = sorted({n.id for n in ast.walk(call) if isinstance(n, ast.Name)} - known)
    name = f"_arrange_{seed}"
    body = ["    " + line[len(indent) :] for line in own]
    made = ["", "", f"def {name}({', '.join(names)}):", *body, ""]
    return [*lines[: first - 1], f"{indent}{name}({', '.join(names)})", *lines[last:], *made]


def _moved(lines: list[str], block: Block, seed: int) -> list[str] | None:
    """Within the block the current stream is another one, so a call for it cannot move."""
    [(first, last)] = block.edges
    own = lines[first - 1 : last]
    if last >= block.line or "(" in "".join(own).partition("(")[2]:
        return None
    indent = _indent(own[0])
    inside = [" " * block.indent + line[len(indent) :] for line in own]
    before = [*lines[: first - 1], indent + "pass", *lines[last : block.body - 1]]
    return [*before, *inside, *lines[block.body - 1 :]]


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


EDITS: dict[str, Edit[Block]] = {
    "deleted": Edit("deleted", True, _deleted),
    "helper": Edit("made by a new function", False, _helped),
    "first": Edit("the first statement of the block", False, _moved),
}


def run(
    tree: Path, edits: Sequence[str], sample: int, seed: int, tell: Callable[[str], None]
) -> list[Outcome]:
    """Audits each edit of a sample of the blocks with one edge, the edited tree with itself."""
    files = read_tree(tree)
    blocks = [block for block in find(files) if len(block.edges) == 1]
    chosen = drawn(blocks, sample, seed)
    results: list[Outcome] = []
    with tempfile.TemporaryDirectory() as scratch, Session() as session:
        copy = Copy(tree, files, Path(scratch) / "tree")
        before = by_function(session, copy.folder, RULE)
        for number, block in enumerate(chosen):
            key = f"{block.path} {block.qualname}"
            for edit in edits:
                source = EDITS[edit].of(files[block.path], block, number)
                if source is None or key in before:
                    continue
                copy.replace(block.path, source)
                results.append(
                    Outcome(block, edit, by_function(session, copy.folder, RULE).get(key, ""))
                )
                if results[-1].wrong:
                    what = "missed" if EDITS[edit].breaks else "false alarm"
                    tell(f"{what:12} {edit}: {block.place}")
            copy.restore(block.path)
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
    return tabulate(rows, ["the edge is", "n", "reported by default", "at any confidence"])


def main() -> None:
    """Prints the counts, what was missed and wrongly reported as it goes, then the table."""
    options = parsed(__doc__, EDITS, 24)
    for version, tree in trees(options.releases).items():
        blocks = find(read_tree(tree))
        with_edge = sum(bool(block.edges) for block in blocks)
        print(f"{version}: {len(blocks)} blocks that name their stream, {with_edge} with an edge")
        if options.dry_run:
            alone = [block for block in blocks if len(block.edges) == 1]
            print_dry(
                read_tree(tree),
                drawn(alone, options.sample, options.seed),
                {n: EDITS[n] for n in options.edits},
            )
            continue
        results = run(
            tree, options.edits, options.sample, options.seed, lambda text: print(text, flush=True)
        )
        print(f"\n{table(results)}\n")


if __name__ == "__main__":
    main()
