"""What is reported of transfers: words, siblings, confidence, origin, and what was looked at."""

from __future__ import annotations

import pytest

from auditor.model import Finding, Report
from auditor.rulebook import load
from auditor.runs.audit import audit_sources
from tests.transfers.trees import COPY, GOOD, HEAD, PATH, SIBLINGS, WAIT, method, pool

BOOK = load()
RULE = "transfer-unfinished"


def audited(fork: str, upstream: str | None = None) -> Report:
    other = None if upstream is None else {PATH: upstream}
    return audit_sources({PATH: fork}, upstream=other, rulebook=BOOK)


def found(fork: str, upstream: str | None = None) -> list[Finding]:
    return [one for one in audited(fork, upstream).findings if one.rule == RULE]


def flat(body: str) -> str:
    return HEAD + SIBLINGS + pool("Flat", method(body))


def test_a_finding_names_the_siblings_and_where_they_wait() -> None:
    [finding] = found(flat(COPY))
    assert (finding.severity, finding.hit.confidence) == ("medium", "medium")
    assert finding.hit.message == (
        "push_out starts copies and returns without waiting for them; 2 of 3 methods of that name "
        "in its family wait, as Wide (pools.py:15), Tall (pools.py:21)"
    )
    assert finding.hit.fix == (
        "wait for the copies on every path before it returns, as Wide.push_out does"
    )
    assert [(e.symbol, e.line, e.sibling) for e in finding.hit.evidence] == [
        ("Wide.push_out", 15, True),
        ("Tall.push_out", 21, True),
    ]
    assert finding.hit.where.line == 26


@pytest.mark.parametrize("wait", [WAIT, "await self.sent.wait()"])
def test_a_second_reading_sees_the_copy_and_the_ends_of_the_siblings(wait: str) -> None:
    family = "".join(pool(name, method(f"{COPY}\n{wait}")) for name in ("Wide", "Tall"))
    made = HEAD + family + pool("Flat", method(COPY))
    report = audited(made.replace("def push", "async def push") if "await" in wait else made)
    [finding] = [one for one in report.findings if one.rule == RULE]
    assert (finding.hit.confirmed, report.disagreements) == ("yes", ())
    assert finding.hit.where.end_column > finding.hit.where.column
    ends = [piece.end_column - piece.column for piece in finding.hit.evidence if piece.sibling]
    assert ends == [len(wait.removeprefix("await "))] * 2


def test_a_wait_on_some_path_and_one_that_comes_too_late_are_said_so() -> None:
    [finding] = found(flat(f"{COPY}\nif slots:\n    return\n{WAIT}"))
    assert "returns on some path without waiting" in finding.hit.message
    good = f"{COPY}\n{WAIT}\nself.pages.release(slots)"
    family = HEAD + "".join(pool(name, method(good)) for name in ("Wide", "Tall"))
    early = pool("Flat", method(f"{COPY}\nself.pages.release(slots)\n{WAIT}"))
    [finding] = found(family + early)
    assert "push_out calls self.pages.release before its copies are waited" in finding.hit.message
    assert finding.hit.fix.startswith("wait for the copies before that")
    place = family.count("\n") + early[: early.index("self.pages")].count("\n") + 1
    assert finding.hit.where.line == place


def test_the_other_ways_are_said_where_they_tell() -> None:
    back = "self.pool.rows[0][slots] = staged[slots]"
    text = HEAD
    for name, body in (("Wide", f"{back}\n{WAIT}"), ("Tall", back)):
        text += pool(name, method(GOOD), method(body, "push_in"))
    [finding] = found(text)
    assert "1 of 2 methods of that name in its family wait" in finding.hit.message
    assert finding.hit.message.endswith("as Wide (pools.py:19), and so do 2 of push_out")
    siblings = [(piece.symbol, piece.line) for piece in finding.hit.evidence]
    assert siblings == [("Wide.push_in", 19), ("Wide.push_out", 15), ("Tall.push_out", 25)]


def test_confidence_is_low_where_no_copy_is_seen_to_return_early() -> None:
    [finding] = found(flat("ops.transfer_rows(self.rows, slots)"))
    assert finding.hit.confidence == "low"


def test_what_upstream_waits_for_is_told_by_its_version_alone() -> None:
    report = audited(flat(COPY), flat(GOOD))
    assert [finding.rule for finding in report.findings] == ["wait-lost"]


def test_a_copy_to_the_host_is_told_once() -> None:
    body = "kept = self.rows[slots].to('cpu', non_blocking=True)\nreturn kept.tolist()"
    assert [finding.rule for finding in audited(flat(body)).findings] == [RULE]
    alone = HEAD + pool("Flat", method(body))
    assert [finding.rule for finding in audited(alone).findings] == ["host-copy-unordered"]


@pytest.mark.parametrize(("upstream", "origin"), [(COPY, "inherited"), ("pass", "introduced")])
def test_origin_is_by_what_upstream_has(upstream: str, origin: str) -> None:
    [finding] = found(flat(COPY), flat(upstream))
    assert finding.origin == origin


def test_what_is_in_order_is_counted() -> None:
    [row] = [row for row in audited(flat(COPY)).checked if row.subject.startswith("transfers")]
    assert (row.subject, row.held, row.total) == ("transfers named push_out", 2, 3)
    assert len(row.evidence) == 2
    [row] = [row for row in audited(flat(GOOD)).checked if row.subject.startswith("transfers")]
    assert (row.held, row.total) == (3, 3)
