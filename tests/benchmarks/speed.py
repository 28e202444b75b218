"""Whole-process times of the tool, paired in one run with one ast-grep rule over the same tree.

    python -m tests.benchmarks.speed 0.5.23 0.5.22 --pairs 5

The first release is the fork, the second upstream. ast-grep (A) and the tool (B) take turns,
A B A B …, first with a new empty cache for each B, then with one that is full; the ratio is that of
each pair. Then the audit of a pull request: a copy of the first release against the release itself,
with a cache that knows both; before every run of the tool the five files with the most waits
change, each by a line at the top, which moves all others, and a class more at the end. Peak memory
is the sum over the whole process tree, sampled in a run of its own. The ast-grep rule names the
gate and so needs less thought than the tool: it is the yardstick for time only.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tabulate import tabulate

from tests.benchmarks.audits import CHECKOUT
from tests.benchmarks.releases import trees

RULE = """\
id: ungated-read
language: python
message: a buffer is read for a layer with no wait before it
severity: info
rule:
  pattern: self.$BUF[$$$INDEX]
  inside:
    kind: function_definition
    stopBy: end
    has:
      field: name
      regex: ^get_
    not:
      has:
        stopBy: end
        any:
          - pattern: $OBJ.wait_until($$$ARGS)
          - pattern: $OBJ._wait_for_layer($$$ARGS)
          - pattern: $OBJ.wait_layer_transfer($$$ARGS)
constraints:
  BUF:
    regex: (buffer|pool|cache)
"""

_SAMPLE = 0.02
"""Seconds between two samples of memory."""


class Commands:
    """The command lines that are timed; ``cache`` is where the tool keeps what it extracted."""

    def __init__(self, fork: Path, upstream: Path, scratch: Path) -> None:
        rule = scratch / "rule.yml"
        rule.write_text(RULE, encoding="utf-8")
        beside = Path(sys.executable).with_name("ast-grep")
        program = str(beside) if beside.exists() else "ast-grep"
        self.ast_grep = [program, "scan", "--json=compact", "--rule", str(rule), str(fork)]
        self.tool = [sys.executable, "-m", "auditor"]
        self.audit = [*self.tool, "-C", str(fork), "--upstream", str(upstream), "-o", "json"]


class PullRequest:
    """A copy of a release of which five files change again and again."""

    def __init__(self, tree: Path, scratch: Path) -> None:
        self.fork = scratch / "fork"
        shutil.copytree(tree, self.fork)
        files = {path: path.read_bytes() for path in self.fork.rglob("*.py")}
        chosen = sorted(files, key=lambda path: files[path].count(b".wait"))[-5:]
        self.originals = {path: files[path] for path in chosen}
        self.number = 0

    def change(self) -> None:
        """Makes of each file what it has not been before."""
        self.number += 1
        for path, data in self.originals.items():
            new = f"class New{self.number}:\n    def get_it(self, i):\n        return self.it[i]\n"
            path.write_bytes(b"# changed\n" * self.number + data + b"\n\n" + new.encode())


def timed(command: list[str], cache: Path) -> float:
    """Seconds from start to end of a command, its output thrown away.

    Raises ``SystemExit`` if it could not do its work (a status above 1).
    """
    start = time.perf_counter()
    with _started(command, cache) as process:
        status = process.wait()
    seconds = time.perf_counter() - start
    if status not in (0, 1):
        raise SystemExit(f"status {status}: {' '.join(command)}")
    return seconds


def peak(command: list[str], cache: Path) -> int:
    """Bytes of memory the command and its children held at once, shared pages counted once.

    Zero where the system has no ``/proc`` to ask.
    """
    most = 0
    with _started(command, cache) as process:
        while process.poll() is None:
            most = max(most, sum(_proportional(pid) for pid in _group(process.pid)))
            time.sleep(_SAMPLE)
    return most


def _started(command: list[str], cache: Path) -> subprocess.Popen[bytes]:
    cache.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {
        "XDG_CACHE_HOME": str(cache),
        "PYTHONPYCACHEPREFIX": str(cache.parent / "bytecode"),
    }
    # An installed program is compiled; some machines forbid it to a checkout.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.Popen(
        command,
        cwd=CHECKOUT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _group(leader: int) -> list[int]:
    members = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(folder.name)) == leader:
                members.append(int(folder.name))
        except OSError:
            continue
    return members


def _proportional(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    return next((int(x.split()[1]) * 1024 for x in text.splitlines() if x.startswith("Pss:")), 0)


def pairs(count: int, first: Callable[[], float], second: Callable[[], float]) -> list[list[float]]:
    """Seconds of both, taking turns."""
    return [[first(), second()] for _ in range(count)]


def _line(name: str, rows: list[list[float]], target: str) -> list[str]:
    yardstick = statistics.median(row[0] for row in rows)
    own = statistics.median(row[1] for row in rows)
    ratio = statistics.median(row[1] / row[0] for row in rows)
    spread = f"{min(row[1] for row in rows):.2f}-{max(row[1] for row in rows):.2f}"
    return [name, f"{yardstick:.2f}", f"{own:.2f}", spread, f"{ratio:.2f}", target]


def main() -> None:
    """Times everything and prints the medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fork", metavar="VERSION[=DIR]")
    parser.add_argument("upstream", metavar="VERSION[=DIR]")
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    found = trees([options.fork, options.upstream])
    fork, upstream = found.values()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        commands = Commands(fork, upstream, scratch)
        warm = scratch / "warm"

        def yardstick() -> float:
            return timed(commands.ast_grep, warm)

        emptied = iter(range(1_000_000))
        timed(commands.audit, warm)
        yardstick()
        cold = pairs(
            options.pairs,
            yardstick,
            lambda: timed(commands.audit, scratch / f"cold{next(emptied)}"),
        )
        full = pairs(options.pairs, yardstick, lambda: timed(commands.audit, warm))
        request = PullRequest(fork, scratch)
        asked = Commands(request.fork, fork, scratch)
        timed(asked.audit, warm)

        def changed() -> float:
            request.change()
            return timed(asked.audit, warm)

        changes = pairs(options.pairs, yardstick, changed)
        bare = [sys.executable, "-c", "pass"]
        quick = {
            flag: pairs(
                options.pairs,
                lambda: timed(bare, warm),
                lambda flag=flag: timed([*commands.tool, flag], warm),  # type: ignore[misc]
            )
            for flag in ("--help", "--version")
        }
        memory = {
            "cold": peak(commands.audit, scratch / "memory"),
            "warm": peak(commands.audit, warm),
        }
    lines = [_line("cold cache", cold, "2.0 (aim 1.0)"), _line("warm cache", full, "0.5")]
    lines.append(_line("five files changed", changes, "0.5"))
    heads = ["", "ast-grep s", "audit s", "range s", "ratio", "at most"]
    print(tabulate(lines, heads, disable_numparse=True))
    print()
    heads = ["", "python -c pass s", "audit s", "range s", "ratio", "at most"]
    lines = [_line(flag, rows, "0.25 s") for flag, rows in quick.items()]
    print(tabulate(lines, heads, disable_numparse=True))
    print()
    for name, size in memory.items():
        print(f"peak memory, {name} cache: {size / 2**20:.0f} MiB (at most 1024)")


if __name__ == "__main__":
    main()
