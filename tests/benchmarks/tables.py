"""The options of real releases held against those that were counted before, and the time taken.

Run as ``python -m tests.benchmarks.tables [VERSION | VERSION=DIR]…``; without any, all releases of
``data/flags.json``. That file has the option strings, choices, actions and values of 16 releases;
``--no-…`` forms, ``--help`` and what a help text alone deprecates are not in it.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from auditor.serve.tables.facts import Flag, Tables
from auditor.serve.tables.read import read_tables
from tests.benchmarks.releases import trees

DATA = Path(__file__).parent / "data" / "flags.json"

_BEYOND = {"--help", "-h", "--model-type"}
"""Real options that the data lacks: argparse's own, and one that ``sglang serve`` takes out."""


def counted() -> dict[str, list[dict[str, Any]]]:
    """The rows of each release."""
    data = json.loads(DATA.read_text(encoding="utf-8"))
    return {
        version: [data["rows"][i] for first, last in runs for i in range(first, last + 1)]
        for version, runs in data["releases"].items()
    }


def tables_of(folder: Path) -> Tables:
    """The tables of an unpacked release."""
    paths = [str(p.relative_to(folder)) for p in (folder / "sglang").rglob("*") if p.is_file()]
    return read_tables(paths, lambda path: (folder / path).read_bytes())


def differences(flags: Mapping[str, Flag], rows: list[dict[str, Any]]) -> Iterator[str]:
    """Where the options differ from the counted rows, one line each."""
    known = {name for row in rows for name in row["names"]}
    for name in sorted(flags.keys() - known - _BEYOND):
        yield f"{name}: not counted"
    for row in rows:
        name = row["names"][0]
        flag = flags.get(name)
        if flag is None:
            yield f"{name}: missing"
            continue
        if flag.names != tuple(row["names"]):
            yield f"{name}: names {flag.names}"
        choices, action = row.get("choices"), row.get("action", "")
        if choices != "run time" and sorted(flag.choices or ()) != sorted(choices or ()):
            yield f"{name}: choices {flag.choices}"
        # The data lacks what an action gets in a dictionary of its own.
        if action != "LoRAPathAction" and flag.nargs != row.get("nargs", ""):
            yield f"{name}: nargs {flag.nargs!r}"
        if row.get("new_flag") and flag.replacement != row["new_flag"]:
            yield f"{name}: replacement {flag.replacement!r}"
        negated = action == "argparse.BooleanOptionalAction"
        if bool(flag.negation) != negated or (negated and flag.takes_value):
            yield f"{name}: negation {flag.negation}"
        if action in ("", "store_true") and flag.takes_value != (action == ""):
            yield f"{name}: takes_value {flag.takes_value}"
        if action.startswith("Deprecated") and not flag.deprecated:
            yield f"{name}: not deprecated"


def main(arguments: list[str]) -> int:
    """Print a line for each release, and each difference; 1 if there is any."""
    rows = counted()
    gc.disable()  # as the command does
    found = 0
    for version, folder in trees(arguments or list(rows)).items():
        begin, worked = time.perf_counter(), time.process_time()
        tables = tables_of(folder)
        took, worked = time.perf_counter() - begin, time.process_time() - worked
        flags = {name: flag for flag in tables.flags for name in flag.names}
        wrong = list(differences(flags, rows.get(version, [])))
        found += len(wrong)
        negations = sum(len(flag.negation) for flag in tables.flags)
        print(
            f"{version}: {took:.2f} s ({worked:.2f} s of work), {len(flags)} option strings and "
            f"{negations} negations, "
            f"{len(wrong)} differ; {len(tables.tool_parsers)} tool and "
            f"{len(tables.reasoning_parsers)} reasoning parsers, {len(tables.environment)} "
            f"environment names, {len(tables.guards)} guards, {len(tables.notes)} notes"
        )
        for line in (*wrong, *tables.notes):
            print(f"  {line}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
