"""How many of the launches and flags in the text of real scripts are found.

    python -m tests.benchmarks.launches DIR [--misses]

DIR is a folder of scripts, such as a checkout of a public repository. The yardstick is text, not
the reader: a file starts sglang where a line that is no comment and prints nothing names the
program; its flags are those on that line and on the lines that continue it (backslash, or the
array or quoted string that it stands in). A flag is found when a launch has it at that line.
``--misses`` prints what was not found, for reading.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterator
from pathlib import Path

from tabulate import tabulate

from auditor.model import Launch
from auditor.serve.scripts.shell import read_shell

ENDINGS = frozenset({".sh", ".bash", ".slurm", ".sbatch"})
_START = re.compile(
    r"(?:-m\s+sglang\.launch_server|-m\s+sglang_router\.launch_\w+|\bsglang\s+serve"
    r"|sglang/launch_server\.py)(?=\s|\\|$)"
)
_SHOWN = re.compile(
    r"^\s*(?:#|echo|printf|log\w*|pkill|pgrep|grep|ps|kill|if\s+pgrep|while\s+pgrep)\b|^\s*#"
)
_FLAG = re.compile(r"(?<![\w$/.=-])--[A-Za-z][\w-]*")


def starts(text: str) -> Iterator[tuple[int, set[tuple[int, str]]]]:
    """The lines that start a server or router, each with the flags of its command by line."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        match = _START.search(line)
        if match is None or _SHOWN.match(line) or "--help" in line:
            continue
        in_array = _opens_array(lines, number)
        found: set[tuple[int, str]] = set()
        at = number
        rest = line[match.end() :]
        while True:
            code = re.sub(r"(?:^|\s)#.*$", "", rest)
            found.update((at + 1, flag.group()) for flag in _FLAG.finditer(_command(code)))
            goes_on = code.rstrip().endswith("\\")
            if in_array:
                goes_on = not re.match(r"\s*\)", code)
            at += 1
            if not goes_on or at >= len(lines):
                break
            rest = lines[at]
        yield number + 1, found


def _opens_array(lines: list[str], number: int) -> bool:
    for line in reversed(lines[max(0, number - 5) : number + 1]):
        if re.search(r"\w\+?=\(\s*(?:#.*)?$", line):
            return True
        if re.search(r"\w\+?=\(", line) and ")" not in line.split("=(", 1)[1]:
            return True
        if re.match(r"\s*\)", line):
            return False
    return False


def _command(code: str) -> str:
    """The part of a line before a pipe, a redirection or the next command."""
    return re.split(r"\s(?:\||>|2>|&&|;)", code)[0]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--misses", action="store_true")
    options = parser.parse_args()
    root: Path = options.folder

    def read(path: str) -> bytes | None:
        file = (root / path).resolve()
        inside = file.is_relative_to(root.resolve()) and file.is_file()
        return file.read_bytes() if inside else None

    files = with_launch = launches = text_starts = found_starts = flags = found_flags = 0
    arguments = unresolved = skipped = 0
    seconds = 0.0
    for file in sorted(root.rglob("*")):
        if file.suffix not in ENDINGS or not file.is_file() or file.is_symlink():
            continue
        data = file.read_bytes()
        expected = list(starts(data.decode("utf-8", "replace")))
        path = file.relative_to(root).as_posix()
        began = time.perf_counter()
        found, problems = read_shell(data, path, read)
        seconds += time.perf_counter() - began
        skipped += len(problems)
        for problem in problems if options.misses else []:
            print(f"{problem.path}: {problem.reason}")
        if not expected:
            continue
        files += 1
        own = [launch for launch in found if launch.path == path]
        with_launch += bool(own)
        launches += len(found)
        arguments += sum(len(launch.arguments) for launch in found)
        unresolved += sum(not a.resolved for launch in found for a in launch.arguments)
        have = {(a.line, a.flag) for launch in found for a in launch.arguments if a.path == path}
        for line, block in expected:
            text_starts += 1
            near = _at(own, line)
            found_starts += near
            if options.misses and not near:
                print(f"{path}:{line}: no launch")
            flags += len(block)
            found_flags += len(block & have)
            for miss in sorted(block - have) if options.misses else []:
                print(f"{path}:{miss[0]}: {miss[1]}")
    rows = [
        ("files that start sglang, of them with a launch", files, with_launch),
        ("starts in their text, found", text_starts, found_starts),
        ("flags in their text, found", flags, found_flags),
        ("launches, arguments of unknown value", launches, unresolved),
        ("arguments in all, notes of what was not read", arguments, skipped),
    ]
    print(
        tabulate(
            [(name, one, other, f"{other / one:.1%}" if one else "") for name, one, other in rows]
        )
    )
    print(f"{seconds:.1f} s for reading")


def _at(launches: list[Launch], line: int) -> bool:
    return any(abs(launch.line - line) <= 1 for launch in launches)


if __name__ == "__main__":
    main()
