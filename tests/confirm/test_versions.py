"""Waits of two versions, and blocks on side streams, read a second time."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from auditor.checks import CHECKS
from auditor.checks.sides import Sides, unmarked
from auditor.checks.view import View
from auditor.claims import Claim, LostWait
from auditor.confirm.answers import Question, Row, Waits
from auditor.confirm.kept import Answers
from auditor.confirm.passages import MOST_LINES, Text
from auditor.confirm.second import SecondReading
from auditor.confirm.versions import contradicted
from auditor.model import Hit
from auditor.repo.snapshot import Snapshot
from auditor.rulebook import Rule
from auditor.runs.rules import load
from auditor.source.store import FactStore

PATH = "sglang/srt/mem_cache/page_store.py"
WAITS = Waits((("synchronize", "device"), ("wait", "keyed"), ("wait_stream", "stream")))

UP = """
def rows(self, slots):
    self.copied.wait()
    out = self.pages[slots]
    self.release(slots)
    return out
"""
LOST = """
def rows(self, slots):
    out = self.pages[slots]
    self.release(slots)
    return out
"""
WEAKENED = """
def rows(self, slots):
    if self.strict and slots is not None:
        self.copied.wait()
    out = self.pages[slots]
    self.release(slots)
    return out
"""
LATE = """
def rows(self, slots):
    out = self.pages[slots]
    self.copied.wait()
    self.release(slots)
    return out
"""
ELSEWHERE = """
def rows(self, slots):
    self.loaded.wait()
    out = self.pages[slots]
    self.release(slots)
    return out
"""
LOCKED = """
def rows(self, slots):
    with self.page_lock:
        out = self.pages[slots]
        self.release(slots)
    return out
"""


def file(method: str) -> str:
    body = "".join(f"    {line}\n" if line else "\n" for line in method.strip("\n").split("\n"))
    head = "import torch\n\n\nclass PageStore:\n    def __init__(self, copied, loaded):\n"
    return f"{head}        self.copied, self.loaded = copied, loaded\n\n{body}"


def heard(fork: str, upstream: str) -> tuple[list[View], list[tuple[Rule, Hit]]]:
    book = load()
    snapshots = [
        Snapshot.from_sources({PATH: fork}),
        Snapshot.from_sources({PATH: upstream}, "upstream", "upstream"),
    ]
    made = Sides(snapshots, book.vocabulary, FactStore(None, alone=True), unmarked).views()
    norms = {name: check.learn(made) for name, check in CHECKS.items()}
    rules = [rule for rule in book.rules if rule.check in ("lost-waits", "stream-order")]
    judged = [
        (rule, CHECKS[rule.check].judge(rule.params, norms[rule.check], made[0])) for rule in rules
    ]
    return made, [(rule, hit) for rule, hits in judged for hit in hits]


def spelled(source: str, line: int, column: int, end_line: int, end: int) -> str:
    rows = source.split("\n")[line - 1 : end_line]
    rows[-1] = rows[-1][: end - 1]
    rows[0] = rows[0][column - 1 :]
    return "\n".join(rows)


@pytest.mark.parametrize(
    ("fork", "upstream", "rule", "place", "wait"),
    [
        (LOST, UP, "wait-lost", "out = self.pages[slots]", "self.copied.wait()"),
        (
            WEAKENED,
            UP,
            "wait-weakened",
            "self.copied.wait()",
            "self.copied.wait()",
        ),
        (LATE, UP, "wait-late", "self.copied.wait()", "self.copied.wait()"),
        (ELSEWHERE, UP, "wait-elsewhere", "self.loaded.wait()", "self.copied.wait()"),
        (LOST, LOCKED, "lock-lost", "out = self.pages[slots]", "self.page_lock"),
    ],
)
def test_what_is_seen_in_both_versions_has_its_spans(
    fork: str, upstream: str, rule: str, place: str, wait: str
) -> None:
    mine, theirs = file(fork), file(upstream)
    made, hits = heard(mine, theirs)
    second = SecondReading(made, None)
    [(told, hit)] = second.confirmed(hits)
    assert (told.id, hit.confirmed, second.disagreements) == (rule, "yes", [])
    where, first = hit.where, hit.evidence[0]
    assert spelled(mine, where.line, where.column, where.end_line, where.end_column) == place
    assert spelled(theirs, first.line, first.column, first.end_line, first.end_column) == wait


def test_the_test_around_a_wait_has_its_span_too() -> None:
    mine = file(WEAKENED)
    made, hits = heard(mine, file(UP))
    [(_, hit)] = SecondReading(made, None).confirmed(hits)
    test = hit.evidence[1]
    shown = spelled(mine, test.line, test.column, test.end_line, test.end_column)
    assert shown == "if self.strict and slots is not None"


@pytest.mark.parametrize(
    ("shape", "fork"),
    [
        ("lost", UP),
        ("lost", LATE),
        ("lost", WEAKENED),
        ("elsewhere", UP),
        ("weakened", UP),
        ("late", UP),
    ],
)
def test_what_the_text_shows_is_not_reported(shape: str, fork: str) -> None:
    """A first reading that says of these functions that the wait is gone is wrong."""
    mine, theirs = file(fork), file(UP)
    made, hits = heard(file(LOST), theirs)
    made[0].sources[PATH] = mine.encode()  # type: ignore[index]
    [(rule, hit)] = hits
    lines = (8, 8 + fork.strip().count("\n"))
    about = mine.split("\n").index("        out = self.pages[slots]") + 1
    claim = LostWait(shape, "wait", lines, (8, 12), about)  # type: ignore[arg-type]
    second = SecondReading(made, None)
    assert second.confirmed([(rule, msgspec.structs.replace(hit, claim=claim))]) == []
    [disagreement] = second.disagreements
    assert disagreement.rule == rule.id
    assert disagreement.where == hit.where


def calls(source: str, name: str = "wait") -> Sequence[Row]:
    text = source.strip("\n").encode()
    question = Question(1, 1, WAITS, calls=name)
    passage = Text(text).passage(1, text.count(b"\n") + 1)
    return Answers(None).of(passage, question).rows


def said(shape: str, fork: str, upstream: str = UP, about: int = 0) -> str:
    claim = LostWait(shape, "wait", (1, 9), (1, 9), about)  # type: ignore[arg-type]
    then = calls(upstream)
    return contradicted(claim, then[0].span[0], then, calls(fork))


UNSEEN = {
    "another call": ("lost", ELSEWHERE),
    "once of two": ("lost", UP, UP.replace("    out", "    self.copied.wait()\n    out")),
    "in a lambda": ("lost", UP.replace("self.copied.wait()", "later = lambda: self.copied.wait()")),
    "another object of the name": (
        "lost",
        UP.replace("    self.copied.wait()", "    e = self.loaded\n    e.wait()"),
        UP.replace("    self.copied.wait()", "    e = self.copied\n    e.wait()"),
    ),
    "a test": ("weakened", WEAKENED),
    "the other branch": (
        "weakened",
        WEAKENED.replace("        self.copied", "        pass\n    else:\n        self.copied"),
        WEAKENED,
    ),
    "an exit before it": (
        "weakened",
        UP.replace("    self.copied", "    if slots is None:\n        return\n    self.copied"),
    ),
    "a try around it": (
        "weakened",
        UP.replace(
            "    self.copied.wait()",
            "    try:\n        self.copied.wait()\n    except RuntimeError:\n        pass",
        ),
    ),
    "behind the work": ("late", LATE, UP, 2),
}


@pytest.mark.parametrize("case", UNSEEN.values(), ids=UNSEEN.keys())
def test_what_the_text_does_not_show_is_not_contradicted(
    case: tuple[str, str] | tuple[str, str, str] | tuple[str, str, str, int],
) -> None:
    assert said(*case) == ""


@pytest.mark.parametrize(
    ("shape", "fork", "about"), [("lost", UP, 0), ("weakened", UP, 0), ("late", UP, 3)]
)
def test_what_the_text_shows_is_contradicted(shape: str, fork: str, about: int) -> None:
    assert said(shape, fork, UP, about)


def test_a_wait_that_the_other_version_does_not_make_contradicts() -> None:
    claim = LostWait("lost", "wait", (1, 5), (1, 5))
    assert "no call of wait" in contradicted(claim, 3, calls(UP), calls(LOST))


def test_a_function_by_its_plain_name_is_found() -> None:
    [row] = calls(UP.replace("self.copied.wait()", "wait(self.copied)"))
    assert row.code == "wait(self.copied)"


def test_what_cannot_be_read_keeps_its_verdict_and_is_told() -> None:
    long = LOST.replace("    return", "    out += 1\n" * MOST_LINES + "    return")
    upstream = UP.replace("    return", "    out += 1\n" * MOST_LINES + "    return")
    made, hits = heard(file(long), file(upstream))
    second = SecondReading(made, None)
    [(_, hit)] = second.confirmed(hits)
    assert hit.confirmed == "unconfirmed"
    assert [(row.side, row.stage) for row in second.skipped] == [
        ("fork", "confirm"),
        ("upstream", "confirm"),
    ]


# -- blocks on side streams ----------------------------------------------------------------------


def entered(before: str = "pass", within: str = "self.start(x)") -> str:
    lines = ["def run(self, x):", *(f"    {line}" for line in before.split("\n"))]
    lines += ["    with torch.cuda.stream(self.side):", f"        {within}", "    return x"]
    text = "\n".join(lines)
    at = next(n for n, line in enumerate(lines, 1) if "with torch" in line)
    question = Question(at, 1, WAITS, Claim("enter", ("side",)))
    return Answers(None).of(Text(text.encode()).passage(1, len(lines)), question).verdict


@pytest.mark.parametrize(
    "before",
    [
        "self.side.wait_stream(self.main)",
        "s = self.side\ns.wait_stream(self.main)",
        "self.made.wait(self.side)",
    ],
)
def test_a_wait_of_the_stream_before_its_block_contradicts(before: str) -> None:
    assert entered(before) == "no"
    assert entered(within=before.partition("\n")[2] or before) == (
        "yes" if "\n" in before else "no"
    )


@pytest.mark.parametrize(
    "before",
    [
        "self.side.synchronize()",
        "self.main.wait_stream(self.other)",
        "if x:\n    self.side.wait_stream(self.main)",
    ],
)
def test_what_makes_another_wait_or_only_sometimes_does_not(before: str) -> None:
    assert entered(before) == "yes"


def test_a_wait_behind_the_first_statement_of_the_block_does_not() -> None:
    assert entered(within="self.start(x)\n        self.side.wait_stream(self.main)") == "yes"
    nested = "if x:\n            self.side.wait_stream(self.main)"
    assert entered(within=nested) == "yes"


def test_no_block_on_the_line_contradicts() -> None:
    text = b"def run(self, x):\n    self.start(x)\n"
    question = Question(2, 1, WAITS, Claim("enter", ("side",)))
    assert Answers(None).of(Text(text).passage(1, 2), question).verdict == "no"


SIDE = """
import torch


class Store:
    def __init__(self):
        self.side = torch.cuda.Stream()

    def one(self, x):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.rows.copy_(x)

    def two(self, x):
        with torch.cuda.stream(self.side):
            self.rows.copy_(x)
"""


def test_a_block_and_its_sibling_have_their_spans() -> None:
    made, hits = heard(SIDE, SIDE)
    [(_, hit)] = SecondReading(made, None).confirmed(hits)
    where, sibling = hit.where, hit.evidence[-1]
    assert hit.confirmed == "yes"
    shown = spelled(SIDE, where.line, where.column, where.end_line, where.end_column)
    assert shown == "with torch.cuda.stream(self.side)"
    shown = spelled(SIDE, sibling.line, sibling.column, sibling.end_line, sibling.end_column)
    assert shown == "self.side.wait_stream(torch.cuda.current_stream())"
