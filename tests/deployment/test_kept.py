"""Conditions that an earlier run found are those that would be found anew."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.deployment import kept
from auditor.deployment.needs import Need, Needs, needs_of
from auditor.serve.tables.modules import Tree
from tests.deployment.trees import ARGS, PLACE, POOL, SCHEDULER, tree_of

START = """
def start(server_args):
    pool = Pool()
    if wanted(server_args):
        Tier(pool)


class Worker:
    size = 1

    def idle(self):
        return 1

    def work(self, server_args):
        if server_args.linker:
            Tier(Pool())


def wanted(args):
    return args.tier
"""

TREE = tree_of(START)
OTHER = "sglang/srt/other.py"
SHARED = "sglang/shared.py"
IMPORTING = START.partition("\ndef wanted")[0].replace(
    "def start", "from sglang.shared import wanted\n\n\ndef start", 1
)
BESIDE = {
    **tree_of(IMPORTING),
    SHARED: b"from sglang.srt.pool import Pool\n\n\ndef wanted(args):\n    return args.tier\n",
}
"""A tree in which an import of the server's leads to a file beside it."""


def asked(tree: Mapping[str, bytes], cache: Path | None) -> Needs:
    digests = {path: hashlib.sha256(data).digest() for path, data in tree.items()}
    return kept.conditions(tree, digests, {"attach"}, [PLACE], cache, True)()[PLACE]


def anew(tree: Mapping[str, bytes]) -> Needs:
    found, _ = needs_of(Tree(tree, tree.get), {"attach"}, [PLACE])()
    return found[PLACE]


def changed(tree: Mapping[str, bytes], path: str, old: str, new: str) -> dict[str, bytes]:
    text = tree[path].decode()
    assert old in text, (old, text)
    return {**tree, path: text.replace(old, new).encode()}


LINES = [line for line in START.splitlines() if line]
EDITS = st.lists(
    st.tuples(
        st.sampled_from([ARGS, POOL, SCHEDULER, OTHER, SHARED, "sglang/srt/environ.py"]),
        st.integers(0, 60),
        st.sampled_from(["insert", "delete", "swap"]),
        st.sampled_from(
            [
                *LINES,
                "",
                "# wanted",
                "Tier(Pool())",
                "    if args.linker:",
                "        return False",
                "import os",
                "from sglang.srt.pool import *",
                "def unrelated(x):\n    return x",
                "class Late(Pool):\n    pass",
                "wanted = None",
            ]
        ),
    ),
    min_size=1,
    max_size=3,
)


@settings(deadline=None)
@given(st.sampled_from([TREE, BESIDE]), EDITS)
def test_what_is_kept_is_what_would_be_found(
    start: dict[str, bytes], edits: list[tuple[str, int, str, str]]
) -> None:
    tree = dict(start)
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        asked(tree, cache)
        for path, number, how, text in edits:
            lines = tree.get(path, b"").decode().split("\n")
            at = number % (len(lines) + 1)
            if how == "insert":
                lines.insert(at, text)
            elif how == "delete":
                del lines[at : at + 1]
            else:
                lines[at : at + 1] = [text]
            tree[path] = "\n".join(lines).encode()
            assert asked(tree, cache) == anew(tree)


MOVES = {
    "a line at the top and a class at the end": (
        SCHEDULER,
        START,
        f"# new\n{START}\nclass New:\n    def get(self):\n        return self.rows[0]\n",
    ),
    "a comment before": (SCHEDULER, "def start", "# how it begins\ndef start"),
    "another function": (SCHEDULER, "return 1", "return 2"),
    "a longer function before": (SCHEDULER, "return 1", "x = 1\n        return x"),
    "a longer method before": (SCHEDULER, "return 1", "return 1 + 1\n"),
    "a file that has nothing to do with it": (OTHER, "x = 1", "x = 2"),
}
NEWS = {
    "a test around": (SCHEDULER, "return args.tier", "return args.linker"),
    "another call": (SCHEDULER, "size = 1", "size = Tier(Pool())"),
    "a default": (ARGS, "tier: bool = False", "tier: bool = True"),
    "the class of a method": (SCHEDULER, "class Worker:", "class Worker(Pool):"),
    "a name where there was none": (OTHER, "x = 1", "from sglang.srt.tier import Tier\nTier(1)"),
}


@pytest.fixture
def known(tmp_path: Path) -> tuple[dict[str, bytes], Path]:
    tree = {**TREE, OTHER: b"x = 1\n"}
    asked(tree, tmp_path)
    return tree, tmp_path


@pytest.mark.parametrize("edit", MOVES.values(), ids=MOVES)
def test_what_was_not_read_may_change(
    known: tuple[dict[str, bytes], Path],
    edit: tuple[str, str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree, cache = known
    after = changed(tree, *edit)
    expected = anew(after)
    monkeypatch.setattr(kept, "needs_of", None)
    assert asked(after, cache) == expected


@pytest.mark.parametrize("edit", NEWS.values(), ids=NEWS)
def test_what_was_read_may_not(
    known: tuple[dict[str, bytes], Path],
    edit: tuple[str, str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree, cache = known
    monkeypatch.setattr(kept, "needs_of", None)
    with pytest.raises(TypeError):
        asked(changed(tree, *edit), cache)


def test_a_file_that_comes_or_goes_is_asked_anew(
    known: tuple[dict[str, bytes], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, cache = known
    monkeypatch.setattr(kept, "needs_of", None)
    less = {path: data for path, data in tree.items() if path != OTHER}
    for now in (less, {**tree, "sglang/srt/new.py": b""}):
        with pytest.raises(TypeError):
            asked(now, cache)


def test_files_beside_the_server_count_where_an_import_leads_to_them(tmp_path: Path) -> None:
    tree = {**tree_of(IMPORTING), "sglang/unrelated.py": b"Tier = wanted = 1\n"}
    without = asked(tree, tmp_path)
    there = {**tree, SHARED: BESIDE[SHARED]}
    assert asked(there, tmp_path) == anew(there) != without
    other = changed(there, SHARED, "args.tier", "args.linker")
    assert asked(other, tmp_path) == anew(other) != anew(there)


def test_files_beside_the_server_that_nothing_leads_to_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = {**TREE, SHARED: b"Tier = wanted = 1\n"}
    expected = asked(tree, tmp_path)
    monkeypatch.setattr(kept, "needs_of", None)
    assert asked({**tree, SHARED: b"Tier(wanted)\n"}, tmp_path) == expected
    assert asked({**tree, SHARED: b"x = 1\n"}, tmp_path) == expected


def test_lines_follow_what_moved(known: tuple[dict[str, bytes], Path]) -> None:
    tree, cache = known

    def lines(needs: Needs) -> set[int]:
        rows: list[Need] = [need for row in needs.armed for need in row]
        return {need.line for need in rows if need.path == SCHEDULER}

    before = lines(asked(tree, cache))
    after = lines(asked({**tree, SCHEDULER: b"#\n#\n" + tree[SCHEDULER]}, cache))
    assert before and after == {line + 2 for line in before}


def test_a_blank_line_within_is_asked_anew_for_the_lines(
    known: tuple[dict[str, bytes], Path],
) -> None:
    tree, cache = known
    after = changed(tree, SCHEDULER, "def wanted(args):\n", "def wanted(args):\n\n")
    assert asked(after, cache) == anew(after)
    assert anew(after) != anew(tree)


MISLEADING = START.replace("    return args.tier", '    text = "\\\ndef x"\n    return args.tier')
"""Half of a function looks like another one, which holds no name that is asked for."""


def test_of_a_file_that_its_lines_do_not_tell_all_counts(tmp_path: Path) -> None:
    tree = tree_of(MISLEADING)
    assert asked(tree, tmp_path) == anew(tree)
    after = changed(tree, SCHEDULER, "return args.tier", "return args.linker")
    assert asked(after, tmp_path) == anew(after)
    assert anew(after) != anew(tree)


@pytest.mark.parametrize("start", [START, MISLEADING])
def test_two_processes_find_and_rest_on_the_same(start: str) -> None:
    tree = tree_of(start)
    one, two = (
        needs_of(Tree(tree, tree.get), {"attach"}, [PLACE], alone=alone)()
        for alone in (True, False)
    )
    assert one == two
    assert (SCHEDULER in one[1].whole) is (start is MISLEADING)
