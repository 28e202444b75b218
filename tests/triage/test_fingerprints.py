"""A fingerprint outlives every edit that does not touch what it is about."""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scenarios.pools import READERS, pool

from auditor.model import Finding, Hit, Location, Symbol
from auditor.runs.audit import audit_sources
from auditor.triage.findings import family, fingerprints

FOLDER = "sglang/srt/mem_cache"
ROWS = pool(READERS[2:], READERS[:2])
KEYS = pool(READERS[1:], READERS[:1], name="Keys", buffer="keys", gate="fence")
# The same class twice: what only the path tells apart.
TWIN = pool(READERS[1:], READERS[:1], name="Twin", buffer="scales", gate="event")
FILES = {
    f"{FOLDER}/rows.py": ROWS,
    f"{FOLDER}/keys.py": KEYS,
    f"{FOLDER}/npu/twin.py": TWIN,
    f"{FOLDER}/cuda/twin.py": TWIN,
}

Files = dict[str, str]


def found(files: Files) -> Counter[tuple[str, str, str]]:
    """What is told of each finding that must not change: rule, symbol, fingerprint."""
    report = audit_sources(files)
    assert not [s for s in report.skipped if s.stage != "tables"]
    marks = [f.fingerprint for f in report.findings]
    assert len(set(marks)) == len(marks)
    return Counter((f.rule, f.hit.where.symbol.qualname, f.fingerprint) for f in report.findings)


BEFORE = found(FILES)


def blank_line(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    lines.insert(chance.randrange(len(lines) + 1), "")
    return "\n".join(lines)


def comment(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    at = chance.randrange(len(lines))
    lines.insert(at, f"{' ' * chance.choice((0, 4, 8))}# {chance.choice(READERS)} waits here")
    return "\n".join(lines)


def trailing_comment(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    at = chance.choice([n for n, line in enumerate(lines) if line.strip()])
    lines[at] += "  # self.rows[0]"
    return "\n".join(lines)


def new_import(text: str, chance: random.Random) -> str:
    return f"import {chance.choice(('os', 'sys', 'json'))}\n{text}"


def moved_definitions(text: str, chance: random.Random) -> str:
    head, *blocks = re.split(r"(?m)^(?=class )", text)
    chance.shuffle(blocks)
    return head + "\n\n".join(blocks)


def reordered_methods(text: str, chance: random.Random) -> str:
    head, *blocks = re.split(r"(?m)^(?=class )", text)
    shuffled = []
    for block in blocks:
        first, *methods = re.split(r"(?m)^(?=    def )", block.rstrip("\n") + "\n\n")
        chance.shuffle(methods)
        shuffled.append(first + "".join(methods) + "\n")
    return head + "".join(shuffled)


def new_function(text: str, chance: random.Random) -> str:
    return f"{text}\n\ndef count_{chance.randrange(999)}(layers):\n    return len(layers)\n"


EDITS = (
    *(blank_line, comment, trailing_comment, new_import, moved_definitions),
    *(reordered_methods, new_function),
)


@given(st.lists(st.tuples(st.sampled_from(EDITS), st.randoms()), min_size=1, max_size=5))
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
def test_edits_beside_the_anchor_change_no_fingerprint(edits: list[Any]) -> None:
    files = dict(FILES)
    for edit, chance in edits:
        path = chance.choice(sorted(files))
        files[path] = edit(files[path], chance)
    assert found(files) == BEFORE


def test_the_tree_has_twins_and_several_findings() -> None:
    assert sum(BEFORE.values()) == 5
    twins = [mark for _, symbol, mark in BEFORE if symbol == "Twin.get_rows"]
    assert len(twins) == 2
    assert len({family(mark) for mark in twins}) == 1


def test_a_moved_file_keeps_what_no_other_file_has() -> None:
    moved = {path.replace("rows.py", "a/moved.py"): text for path, text in FILES.items()}
    assert found(moved) == BEFORE


def test_a_twin_elsewhere_leaves_the_family() -> None:
    def families(files: Files) -> Counter[str]:
        return Counter(family(mark) for _, _, mark in found(files).elements())

    more = FILES | {f"{FOLDER}/a_copy.py": ROWS}
    assert families(more) - families(FILES) == Counter(
        family(mark) for _, symbol, mark in BEFORE if symbol.startswith("Pool.")
    )


SCRIPT = "python -m sglang.launch_server --model-path /m --no-such-flag 1\n"
OTHER = "python -m sglang.launch_server --model-path /m --tool-call-parser nobody\n"


def served(text: str) -> list[Finding]:
    from auditor.rulebook import tree_files

    report = audit_sources({**tree_files("serve"), "run.sh": text})
    return [f for f in report.findings if f.hit.where.symbol.path == "run.sh"]


def test_commands_of_a_script_may_change_places() -> None:
    one = [(f.rule, f.fingerprint) for f in served(SCRIPT + OTHER + SCRIPT)]
    other = [(f.rule, f.fingerprint) for f in served("# moved\n" + SCRIPT + SCRIPT + OTHER)]
    assert Counter(one) == Counter(other)
    assert len({mark for _, mark in one}) == len(one) >= 3


def hit(line: int, message: str = "m", path: str = "a.sh", anchor: str = "--x 1") -> Hit:
    where = Location(Symbol(path), line)
    return Hit(where, anchor, message, (), "high", "live", "", "", "")


@pytest.mark.parametrize("swap", [False, True])
def test_rules_at_one_anchor_keep_theirs_when_lines_change_places(swap: bool) -> None:
    lines = (9, 5) if swap else (5, 9)
    marks = fingerprints([("a-rule", hit(lines[0])), ("b-rule", hit(lines[1]))])
    assert marks == [family(marks[0]), f"{family(marks[0])}-2"]


def test_many_findings_of_one_name_are_told_apart_quickly_and_all() -> None:
    hits = [("a-rule", hit(line, path=f"{line % 7}.sh")) for line in range(30_000)]
    assert len(set(fingerprints(hits))) == len(hits)
