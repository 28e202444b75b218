"""Every example of every rule page is judged: the marked lines, all of them and no others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from auditor import rulebook
from auditor.rulebook import Example, Rulebook
from auditor.runs import examples
from auditor.runs.examples import Lines
from auditor.runs.rules import load
from auditor.vocabulary import Vocabulary

BOOK = rulebook.load()


def reported(example: Example, book: Rulebook = BOOK) -> Lines:
    lines, unread = examples.reported(example, book)
    assert not unread
    return lines


def cases(*checks: str) -> Iterator[object]:
    for rule in BOOK.rules:
        if checks and rule.check not in checks:
            continue
        for kind, shown in (("invalid", rule.invalid), ("valid", rule.valid)):
            for number, example in enumerate(shown):
                yield pytest.param(example, id=f"{rule.id}-{kind}-{number}")


def user_vocabulary(folder: Path, text: str) -> Rulebook:
    (folder / "vocab").mkdir()
    (folder / "vocab" / "own.yaml").write_text(text, encoding="utf-8")
    return load([folder])


def renamed(example: Example, names: Mapping[str, str]) -> Example:
    """The example with identifiers replaced on every side; no line moves."""
    word = re.compile(r"\b(" + "|".join(map(re.escape, names)) + r")\b")

    def side(files: dict[str, str]) -> dict[str, str]:
        return {
            path: word.sub(lambda found: names[found.group()], text) for path, text in files.items()
        }

    return Example(
        fork=side(example.fork),
        upstream=None if example.upstream is None else side(example.upstream),
        target=None if example.target is None else side(example.target),
    )


def own_names(example: Example, vocabulary: Vocabulary) -> dict[str, str]:
    """New names for what no vocabulary lists: classes, attributes and wrappers of waits.

    Attributes are those that constructors set: buffers, counters, inner pools. Other methods keep
    their names, since the verb in them is vocabulary.
    """
    sides = (example.fork, example.upstream or {}, example.target or {})
    files = [(path, ast.parse(text)) for side in sides for path, text in side.items()]
    nodes = [node for _, tree in files for node in ast.walk(tree)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    attributes = {
        node.attr
        for function in functions
        if function.name == "__init__"
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    classes = {node.name for node in nodes if isinstance(node, ast.ClassDef)}
    fixed = {"torch", "kernels"} | {
        part for path, _ in files for part in Path(path).with_suffix("").parts
    }
    fixed |= vocabulary.metadata_attributes | vocabulary.metadata_methods
    found = classes | attributes | wrappers(functions, set(vocabulary.primitive_waits))
    return {
        name: f"Q{number}" if name[0].isupper() else f"q{number}"
        for number, name in enumerate(sorted(found - fixed))
    }


def wrappers(functions: list[ast.FunctionDef], waits: set[str]) -> set[str]:
    """Functions that wait, also through one another, touch no element and give nothing back."""
    bare = [
        function
        for function in functions
        if not any(
            isinstance(node, ast.Subscript)
            or (isinstance(node, ast.Return) and node.value is not None)
            for node in ast.walk(function)
        )
    ]
    found: set[str] = set()
    while True:
        more = {function.name for function in bare if called(function) & (waits | found)} - found
        if not more:
            return found
        found |= more


def called(function: ast.FunctionDef) -> set[str]:
    return {
        node.func.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }


@pytest.mark.parametrize("example", list(cases()))
def test_marked_lines_are_the_reported_lines(example: Example) -> None:
    assert reported(example) == example.marks()


@pytest.mark.parametrize("example", list(cases("sibling-gates")))
def test_names_do_not_matter(example: Example) -> None:
    names = own_names(example, BOOK.vocabulary)
    assert names
    assert reported(renamed(example, names)) == example.marks()


@pytest.mark.parametrize(
    "rule_id",
    [
        "ungated-buffer-read",
        "override-drops-gate",
        "delegate-skips-gate",
        "gate-bypassed",
        "gate-not-on-all-paths",
        "gate-after-read",
        "optional-gate-omitted",
        "gate-removed",
    ],
)
def test_a_gate_of_another_name_needs_one_word(rule_id: str, tmp_path: Path) -> None:
    example = BOOK.rule(rule_id).invalid[0]
    fenced = renamed(example, {"counter": "fence", "wait_until": "ready"})
    assert reported(fenced) == frozenset()
    book = user_vocabulary(tmp_path, "primitive_waits: {ready: keyed}\n")
    assert reported(fenced, book) == example.marks()


STASH = """\
import torch

from kernels import pack_rows


class StashPool:
    def __init__(self, layers, slots, dim):
        self.counter = None
        self.row_store = [torch.zeros(slots, dim) for _ in range(layers)]

    def attach_counter(self, counter):
        self.counter = counter

    def get_rows(self, layer_id):
        if self.counter is not None:
            self.counter.wait_until(layer_id)
        return self.row_store[layer_id]

    def get_row_slots(self, layer_id, slots):
        if self.counter is not None:
            self.counter.wait_until(layer_id)
        return self.row_store[layer_id][slots]

    def get_row_head(self, layer_id, count):
        if self.counter is not None:
            self.counter.wait_until(layer_id)
        return self.row_store[layer_id][:count]

    def stash_rows(self, layer_id, slots, rows):
        pack_rows(self.row_store[layer_id], slots, rows)  # error: [ungated-buffer-read]
"""


def test_a_users_write_verb_says_what_a_method_is_for(tmp_path: Path) -> None:
    example = Example({rulebook.SINGLE_FILE: STASH})
    assert reported(example) == example.marks()
    assert reported(example, user_vocabulary(tmp_path, "write_verbs: [stash]\n")) == frozenset()


def test_rules_do_not_disturb_each_other() -> None:
    """One defect of each rule in files side by side gives the same lines as each alone."""
    fork: dict[str, str] = {}
    marks: set[tuple[str, int, str]] = set()
    rules = [rule for rule in BOOK.rules if rule.check == "sibling-gates"]
    for rule in rules:
        for example in rule.invalid:
            alone = example.upstream is None and example.target is None
            if alone and set(example.fork) == {rulebook.SINGLE_FILE}:
                path = f"part{len(fork)}.py"
                names = own_names(example, BOOK.vocabulary)
                unique = {old: f"{new}_{len(fork)}" for old, new in names.items()}
                fork[path] = renamed(example, unique).fork[rulebook.SINGLE_FILE]
                marks.update((path, line, rule_id) for _, line, rule_id in example.marks())
                break
    assert len(fork) == len(rules) - 1  # gate-removed needs two sides
    assert reported(Example(fork)) == marks
