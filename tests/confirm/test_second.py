"""Hits held against the second reading: kept with spans, dropped, or marked unconfirmed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from auditor.checks import CHECKS
from auditor.checks.sides import Sides, unmarked
from auditor.checks.view import View
from auditor.confirm.answers import Answer
from auditor.confirm.kept import Answers
from auditor.confirm.passages import MOST_LINES
from auditor.confirm.second import SecondReading
from auditor.formats import render
from auditor.formats.text import Screen
from auditor.formats.verdict import decide
from auditor.model import Evidence, Hit, Report
from auditor.repo.snapshot import Snapshot
from auditor.rulebook import Rule
from auditor.runs.audit import audit_sources
from auditor.runs.rules import load
from auditor.source.store import FactStore

PATH = "sglang/srt/mem_cache/pool.py"
POOL = """
class RowPool:
    def __init__(self, layers, slots, width):
        self.counter = None
        self.rows = [torch.zeros(slots, width) for _ in range(layers)]
        self.other = 1

    def attach_counter(self, counter):
        self.counter = counter

    def get_rows(self, layer_id):
        if self.counter is not None:
            self.counter.wait_until(layer_id)
        return self.rows[layer_id]

    def _ready(self, layer_id):
        self.counter.wait_until(layer_id)

    def get_first(self, layer_id):
        self._ready(layer_id)
        return self.rows[layer_id][0]

    def get_part(self, layer_id, slots):
        found = self.rows
        return found[layer_id].index_select(0, slots)
"""
Found = list[tuple[Rule, Hit]]


def line_of(text: str, source: str = POOL) -> int:
    return source[: source.index(text)].count("\n") + 1


def views(source: str = POOL) -> tuple[list[View], Found]:
    book = load()
    snapshots = [
        Snapshot.from_sources({PATH: source}),
        Snapshot.from_sources({PATH: source}, "upstream", "upstream"),
    ]
    made = Sides(snapshots, book.vocabulary, FactStore(None, alone=True), unmarked).views()
    norms = {name: check.learn(made) for name, check in CHECKS.items()}
    hits = [
        (rule, hit)
        for rule in book.rules
        if rule.check in CHECKS
        for hit in CHECKS[rule.check].judge(rule.params, norms[rule.check], made[0])
    ]
    return made, hits


def changed(hits: Found, change: Callable[[Hit], Hit]) -> Found:
    return [(rule, change(hit)) for rule, hit in hits]


def at(line: int, column: int) -> Callable[[Hit], Hit]:
    def moved(hit: Hit) -> Hit:
        where = msgspec.structs.replace(hit.where, line=line, column=column, end_line=line)
        return msgspec.structs.replace(hit, where=where)

    return moved


def of_siblings(change: Callable[[Evidence], Evidence]) -> Callable[[Hit], Hit]:
    def moved(hit: Hit) -> Hit:
        pieces = tuple(change(e) if e.sibling else e for e in hit.evidence)
        return msgspec.structs.replace(hit, evidence=pieces)

    return moved


def test_a_hit_that_is_seen_has_its_spans() -> None:
    made, hits = views()
    second = SecondReading(made, None)
    [(_, hit)] = second.confirmed(hits)
    where = hit.where
    line = line_of("found[layer_id]")
    assert hit.confirmed == "yes"
    assert (where.line, where.column, where.end_line, where.end_column) == (line, 16, line, 31)
    waits = {
        e.symbol: (e.line, e.column, e.end_line, e.end_column) for e in hit.evidence if e.sibling
    }
    direct, through = line_of("self.counter.wait_until"), line_of("self._ready(")
    assert waits["RowPool.get_rows"] == (direct, 13, direct, 46)
    assert waits["RowPool.get_first"] == (through, 9, through, 30)
    assert (second.disagreements, second.skipped) == ([], [])


def test_a_read_of_something_else_is_not_reported() -> None:
    made, hits = views()
    second = SecondReading(made, None)
    assert second.confirmed(changed(hits, at(line_of("found = self.rows") + 1, 9))) == []
    [told] = second.disagreements
    assert (told.rule, told.side) == ("ungated-buffer-read", "fork")
    assert told.reason


def test_a_read_behind_a_wait_is_not_reported() -> None:
    source = POOL.replace("        found = self.rows\n", "        self._ready(layer_id)\n" * 2)
    source = source.replace("found[layer_id]", "self.rows[layer_id]")
    made, hits = views(source)
    assert hits == []
    # As if the first reading had not seen it.
    _, blind = views()
    line = line_of("self.rows[layer_id].index_select", source)
    second = SecondReading(made, None)
    assert second.confirmed(changed(blind, at(line, 16))) == []
    [told] = second.disagreements
    assert told.reason == "the wait 2 lines up comes first on every path"


def test_a_finding_goes_with_the_last_sibling_that_waits() -> None:
    source = POOL.replace("self.other = 1", "other = 1")
    made, hits = views(source)
    nothing, name = line_of("other = 1", source), "RowPool.__init__"

    def moved(piece: Evidence) -> Evidence:
        return msgspec.structs.replace(piece, line=nothing, symbol=name)

    def one_moved(piece: Evidence) -> Evidence:
        return moved(piece) if piece.symbol == "RowPool.get_first" else piece

    second = SecondReading(made, None)
    [(_, kept)] = second.confirmed(changed(hits, of_siblings(one_moved)))
    assert [e.symbol for e in kept.evidence if e.sibling] == ["RowPool.get_rows"]
    assert kept.confirmed == "yes"
    assert second.confirmed(changed(hits, of_siblings(moved))) == []
    assert [told.reason for told in second.disagreements] == [
        "its sibling: no call stands there that could wait",
        "no sibling is seen to wait",
    ]


def long_fork() -> str:
    """The pool with an open reader that the second parser is not given."""
    filler = "        slots = slots + 1\n" * (MOST_LINES + 10)
    return POOL.replace("        found = self.rows\n", f"        found = self.rows\n{filler}")


@pytest.fixture(scope="module")
def unconfirmed() -> Report:
    return audit_sources({PATH: long_fork()})


def test_what_cannot_be_read_twice_is_reported_and_said(unconfirmed: Report) -> None:
    [finding] = [f for f in unconfirmed.findings if f.category == "sync"]
    assert finding.hit.confirmed == "unconfirmed"
    [row] = unconfirmed.skipped
    assert (row.side, row.stage) == ("fork", "confirm")
    assert row.reason.startswith("RowPool.get_part: the function is longer than")
    # It was read once: the run is decided, and only a strict one minds.
    assert decide(unconfirmed, "never", False).status == 0
    assert decide(unconfirmed, "never", True).status == 3


def test_reports_say_what_is_unconfirmed(unconfirmed: Report) -> None:
    verdict = decide(unconfirmed, "never", False)
    screen = Screen(100, False)
    for form in ("table", "markdown", "html"):
        assert "confidence, unconfirmed" in render(form, unconfirmed, verdict, screen)
    assert '"confirmed": "unconfirmed"' in render("json", unconfirmed, verdict, screen)
    assert '"confirmed":"unconfirmed"' in render("sarif", unconfirmed, verdict, screen)


def test_disagreements_are_shown_to_who_asks_for_all() -> None:
    made, hits = views()
    second = SecondReading(made, None)
    second.confirmed(changed(hits, at(line_of("found = self.rows") + 1, 9)))
    report = msgspec.structs.replace(
        audit_sources({PATH: POOL}), disagreements=tuple(second.disagreements)
    )
    verdict = decide(report, "never", False)
    assert "second reading" not in render("table", report, verdict, Screen(100, False))
    page = render("table", report, verdict, Screen(100, False, verbose=True))
    assert "Contradicted by a second reading · 1" in page
    assert "RowPool.get_part — ungated-buffer-read:" in page


def test_answers_are_kept_wherever_the_function_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, hits = views()
    second = SecondReading(made, tmp_path)
    [(_, before)] = second.confirmed(hits)
    second.save()

    def never(*_: object) -> Answer:
        raise AssertionError("asked again")

    monkeypatch.setattr(Answers, "_read", never)
    made, hits = views("# a line\n" + POOL)
    [(_, after)] = SecondReading(made, tmp_path).confirmed(hits)
    assert after.where.line == before.where.line + 1
    assert after.where.end_column == before.where.end_column


def test_a_run_that_asks_nothing_does_not_import_the_second_parser() -> None:
    code = "import sys, auditor.runs.audit, auditor.cli.main; print('libcst' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
