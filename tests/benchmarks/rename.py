"""Whether the findings survive when classes, buffers, counters and wrappers are renamed.

    python -m tests.benchmarks.rename 0.5.23 --seeds 3
    python -m tests.benchmarks.rename 0.5.23=/path/to/tree --dry-run      (only the names)

The names are those of the gated classes with their bases and subclasses, of the attributes that
gated readers read, of the counters that are waited on and of the wrappers around the wait. Each is
replaced as a whole word in every Python file, in strings too, so that lines stay where they were.
Names of modules are spared (their files are not renamed), and so are single lower-case words,
which other libraries share. Method names stay: they are the interface that callers know.
"""

from __future__ import annotations

import argparse
import ast
import keyword
import random
import re
import string
import tempfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from tabulate import tabulate

from tests.benchmarks.audits import Found, Session
from tests.benchmarks.gated import PRIMITIVES, Gates, find_gates, read_tree
from tests.benchmarks.releases import trees


def names_of(files: dict[str, bytes], gates: Gates) -> list[str]:
    """Every name to be replaced, sorted."""
    related = {
        name
        for name, ancestors in gates.ancestors.items()
        if ancestors & gates.owners or any(name in gates.ancestors[o] for o in gates.owners)
    }
    buffers = {buffer for reader in gates.readers for buffer in reader.buffers}
    modules = {PurePosixPath(path).stem for path in files}
    modules |= {part for path in files for part in PurePosixPath(path).parts}
    found = related | buffers | gates.counters | gates.wrappers
    return sorted(
        name
        for name in found
        if name not in modules
        and name not in PRIMITIVES
        and not (name.islower() and "_" not in name.strip("_"))
        and _defined(name, files)
    )


def _defined(name: str, files: dict[str, bytes]) -> bool:
    """Whether the release itself defines the name, so that no library's name is touched."""
    here = re.compile(rb"(?:class|def) %b\b|self\.%b\s*[:=]" % (name.encode(), name.encode()))
    return any(name.encode() in source and here.search(source) for source in files.values())


def new_names(names: Iterable[str], files: dict[str, bytes], seed: int) -> dict[str, str]:
    """A made-up name for each, of the same kind (class, private, plain), used nowhere yet."""
    chance = random.Random(seed)
    everything = b"\n".join(files.values())
    made: dict[str, str] = {}
    for name in names:
        while True:
            word = "".join(chance.choices(string.ascii_lowercase, k=8))
            new = word.capitalize() if name[0].isupper() else word
            new = f"_{new}" if name.startswith("_") else new
            if new.encode() not in everything and not keyword.iskeyword(new):
                break
        made[name] = new
    return made


def renamed(files: dict[str, bytes], new: dict[str, str]) -> dict[str, bytes]:
    """The files with every name replaced where it stands as a whole word."""
    word = re.compile(rb"\b(?:%b)\b" % b"|".join(sorted(old.encode() for old in new)))
    table = {old.encode(): made.encode() for old, made in new.items()}
    return {
        path: word.sub(lambda match: table[match.group()], source) for path, source in files.items()
    }


Key = tuple[str, str, int, str]


def keys(findings: Iterable[Found], back: dict[str, str]) -> set[Key]:
    """What must not change of a finding, with its names as they were before renaming."""
    return {
        (
            found.rule,
            found.path,
            found.line,
            ".".join(back.get(part, part) for part in found.symbol.split(".")),
        )
        for found in findings
    }


def main() -> None:
    """Audits each release as it is and renamed, and prints what differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("releases", nargs="+", metavar="VERSION[=DIR]")
    parser.add_argument("--seeds", type=int, default=1, help="how many renamings of each release")
    parser.add_argument("--dry-run", action="store_true", help="print the names, audit nothing")
    options = parser.parse_args()
    lines = []
    for version, tree in trees(options.releases).items():
        files = read_tree(tree)
        names = names_of(files, find_gates(files))
        if options.dry_run:
            for seed in range(options.seeds):
                _check(renamed(files, new_names(names, files, seed)))
            print(f"{version}: {len(names)} names, every file compiles as before")
            print("  " + "\n  ".join(names))
            continue
        lines += [_compare(version, tree, files, names, seed) for seed in range(options.seeds)]
    if lines:
        heads = ["release", "seed", "names", "findings", "renamed", "unchanged", "share"]
        print(tabulate(lines, heads))


def _check(files: dict[str, bytes]) -> None:
    for path, source in files.items():
        try:
            ast.parse(source)
        except SyntaxError as problem:
            if "/test" not in path:
                print(f"  {path}: {problem}")


def _compare(
    version: str, tree: Path, files: dict[str, bytes], names: list[str], seed: int
) -> list[object]:
    new = new_names(names, files, seed)
    with tempfile.TemporaryDirectory() as scratch, Session() as session:
        for path, source in renamed(files, new).items():
            target = Path(scratch) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source)
        before = keys(session.findings(tree, tree), {})
        after = keys(
            session.findings(Path(scratch), Path(scratch)), {made: old for old, made in new.items()}
        )
    for note, some in (("lost", before - after), ("new ", after - before)):
        for rule, path, line, symbol in sorted(some):
            print(f"{version} seed {seed} {note} {path}:{line} {symbol} [{rule}]")
    kept = len(before & after)
    most = max(len(before), len(after))
    share = f"{100 * kept / most:.1f} %" if most else "-"
    return [version, seed, len(names), len(before), len(after), kept, share]


if __name__ == "__main__":
    main()
