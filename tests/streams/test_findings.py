"""What is reported of streams: confidence, siblings, origin, identity, and what was looked at."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from auditor.model import Finding, Report
from auditor.rulebook import load
from auditor.runs.audit import audit_sources
from tests.streams.sides import PATH

BOOK = load()
# Without the rules that tell of a wait by upstream's version: they would speak instead.
BOOK = replace(BOOK, rules=tuple(rule for rule in BOOK.rules if rule.check == "stream-order"))

BOARD = """\
import torch


class Board:
    def __init__(self, rows):
        self.paint = torch.cuda.Stream()
        self.rows = rows

    def put(self, x):
        self.paint.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.paint):
            self.rows.add_(x)

    def mix(self, x):
        self.paint.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.paint):
            self.rows.mul_(x)
"""
WAIT = "        self.paint.wait_stream(torch.cuda.current_stream())\n"
OPEN = BOARD.replace(f"mix(self, x):\n{WAIT}", "mix(self, x):\n")


def audited(fork: str, upstream: str | None = None, target: str | None = None) -> Report:
    return audit_sources(
        {PATH: fork},
        upstream=None if upstream is None else {PATH: upstream},
        targets=() if target is None else ({PATH: target},),
        rulebook=BOOK,
    )


def one(*sides: str | None) -> Finding:
    [finding] = audited(*sides).findings  # type: ignore[arg-type]
    return finding


def test_a_finding_names_the_stream_its_siblings_and_the_place() -> None:
    finding = one(OPEN)
    assert finding.rule == "side-stream-unordered"
    assert (finding.severity, finding.hit.confidence) == ("medium", "medium")
    assert "mix starts work on self.paint" in finding.hit.message
    assert "1 of 2 blocks on it in its class wait first, as side.py:10" in finding.hit.message
    [sibling] = [piece for piece in finding.hit.evidence if piece.sibling]
    assert (sibling.symbol, sibling.line) == ("Board.put", 10)
    assert finding.hit.where.line == 15


def test_without_a_sibling_confidence_is_low() -> None:
    alone = OPEN.replace("        self.paint.wait_stream(torch.cuda.current_stream())\n", "")
    assert [f.hit.confidence for f in audited(alone).findings] == ["low", "low"]


@pytest.mark.parametrize(
    ("name", "confidence"), [("alt_stream", "medium"), ("stream", "low"), ("paint", "low")]
)
def test_a_stream_of_another_class_is_the_same_where_its_name_tells(
    name: str, confidence: str
) -> None:
    lone = OPEN.replace("put", "mix").split("    def mix")
    own = f"{lone[0]}    def mix{lone[2]}".replace("paint", name)
    report = audit_sources({PATH: own, "sglang/srt/other.py": BOARD.replace("paint", name)})
    assert [f.hit.confidence for f in report.findings] == [confidence]


@pytest.mark.parametrize(
    ("fork", "upstream", "origin"),
    [
        (OPEN, OPEN, "inherited"),
        (OPEN, BOARD, "regressed"),
        (OPEN, BOARD.replace("mix", "blend"), "introduced"),
    ],
)
def test_origin_by_what_upstream_has_at_the_symbol(fork: str, upstream: str, origin: str) -> None:
    assert one(fork, upstream).origin == origin


def test_upstreams_own_wait_is_shown() -> None:
    finding = one(OPEN, BOARD)
    assert [(e.side, e.line) for e in finding.hit.evidence if e.symbol == "Board.mix"] == [
        ("upstream", 15)
    ]


def test_a_later_release_that_has_the_wait_fixed_it() -> None:
    finding = one(OPEN, OPEN, BOARD)
    assert finding.origin == "fixed-upstream"
    assert finding.fixed_in


def test_a_finding_keeps_its_fingerprint_where_lines_move() -> None:
    moved = OPEN.replace("import torch\n", "import torch\n\nROWS = 4\n").replace(
        "            self.rows.mul_(x)", "            x = x.abs()\n            self.rows.mul_(x)"
    )
    assert one(OPEN).fingerprint == one(moved).fingerprint


def test_two_blocks_of_a_function_on_one_stream_are_one_finding() -> None:
    twice = OPEN + "        with torch.cuda.stream(self.paint):\n            self.rows.abs_()\n"
    assert one(twice).hit.where.line == 15


def test_what_was_looked_at_is_counted() -> None:
    rows = {row.subject: row for row in audited(OPEN).checked}
    assert (rows["Board.paint"].held, rows["Board.paint"].total) == (1, 2)
    assert [(e.symbol, e.line) for e in rows["Board.paint"].evidence] == [("Board.put", 10)]
    copies = "def take(rows, event):\n    event.record()\n    rows.to('cpu', non_blocking=True)\n"
    [row] = audited(copies).checked
    assert (row.subject, row.held, row.total) == ("copies to the host in side.py", 1, 1)


COPY = """\
import torch


def lengths(rows, done):
    host = rows.to("cpu", non_blocking=True)
    done.synchronize()
    return host.tolist()
"""
BARE = COPY.replace("    done.synchronize()\n", "")


@pytest.mark.parametrize(
    ("upstream", "origin"),
    [(BARE, "inherited"), (COPY, "regressed"), ("import torch\n", "introduced")],
)
def test_the_origin_of_a_copy(upstream: str, origin: str) -> None:
    finding = one(BARE, upstream)
    assert (finding.rule, finding.origin) == ("host-copy-unordered", origin)
    assert finding.hit.confidence == "medium"


def test_one_finding_for_the_copies_of_a_function() -> None:
    twice = BARE.replace("    return", "    other = rows.to('cpu', non_blocking=True)\n    return")
    assert one(twice).hit.where.line == 5


def test_a_caller_of_the_forks_that_breaks_upstreams_text_disturbs_nothing() -> None:
    """Upstream's function is in order by its caller, which the fork has changed."""
    text = BOARD.replace(
        f"    def mix(self, x):\n{WAIT}",
        f"    def all(self, x):\n{WAIT}        self.mix(x)\n\n    def mix(self, x):\n",
    )
    assert audited(text).findings == ()
    assert one(text.replace(f"all(self, x):\n{WAIT}", "all(self, x):\n"), text).origin == (
        "introduced"
    )


def test_files_that_cannot_be_read_are_told_and_no_more() -> None:
    broken = OPEN.replace("x)\n", "x\n")
    report = audited(broken)
    assert report.findings == ()
    assert {(skip.path, skip.stage) for skip in report.skipped} == {(PATH, "parse")}


def test_a_function_nested_as_deep_as_facts_allow() -> None:
    deep = "".join(f"{'    ' * (n + 2)}if x.a{n}:\n" for n in range(80))
    chain = ""
    for name, call in (("one", "self.two(x)"), ("two", "self.three(x)"), ("three", "x.wait()")):
        chain += f"\n    def {name}(self, x):\n{deep}{'    ' * 82}{call}\n"
    text = OPEN.replace("    def mix(self, x):\n", "    def mix(self, x):\n        self.one(x)\n")
    assert one(text + chain).rule == "side-stream-unordered"
