"""The fixes that a report offers: worked out for every finding, none of them tried."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

import msgspec

from auditor.checks import CHECKS
from auditor.errors import UsageProblem
from auditor.fix.engine import Plan
from auditor.fix.text import Source
from auditor.formats.order import rank
from auditor.model import Finding, Proposal, Replacement, Report
from auditor.repo.snapshot import open_fork
from auditor.runs.judging import Workings
from auditor.runs.plans import Desk, Progress
from auditor.runs.request import AuditRequest
from auditor.runs.rules import load as load_rules
from auditor.source.results import ResultStore, content_key

MOST = 200
"""Findings whose fix is worked out, the worst first; of a hostile tree each may cost 60 ms."""

_PLAIN_ENCODINGS = ("utf-8", "utf-8-sig", "ascii")
_LONE_RETURN = re.compile(r"\r(?!\n)")


def proposed(
    request: AuditRequest, report: Report, workings: Workings, progress: Progress
) -> Report:
    """The report of a request with a proposal for each active finding.

    Those for functions are kept with the outcomes of audits, since they need what an audit of known
    content does not make anew. A function that is not where the report has it any more gets none.
    """
    active = [finding for finding in report.findings if finding.disposition == "active"]
    active = sorted(active, key=rank)[:MOST]
    if not active:
        return report
    try:
        proposals = _worked_out(request, active, workings, progress)
    except UsageProblem:  # a side is gone since it was read; the report stands
        return report
    return msgspec.structs.replace(report, proposals=proposals)


def _worked_out(
    request: AuditRequest, active: Sequence[Finding], workings: Workings, progress: Progress
) -> dict[str, Proposal]:
    book = load_rules(request.rules_dirs)
    desk = Desk(request, open_fork(request.root, request.rev), book, progress, workings)
    functions = [finding for finding in active if book.rule(finding.rule).check in CHECKS]
    known = ResultStore(request.cache, dict[str, Proposal])
    key = content_key(["proposals", workings.key, *map(repr, functions)], [])
    proposals = known.load(key) if functions else {}
    if proposals is None:
        proposals = {finding.fingerprint: _proposal(desk, finding) for finding in functions}
        known.save(key, proposals)
    for finding in active:
        if finding.fingerprint not in proposals:
            proposals[finding.fingerprint] = _proposal(desk, finding)
    return proposals


def _proposal(desk: Desk, finding: Finding) -> Proposal:
    plan = desk.plan(finding)
    if isinstance(plan, str):
        return Proposal("display", finding.hit.fix)
    replacement = _replacement(plan, desk.sources[plan.file], finding)
    return Proposal(plan.applicability, plan.how, replacement)


def _replacement(plan: Plan, source: Source, finding: Finding) -> Replacement | None:
    """The edit by line and column; None where readers of a report would count otherwise.

    They know of no line that a carriage return alone ends, and of no encoding.
    """
    if source.encoding not in _PLAIN_ENCODINGS or _LONE_RETURN.search(source.text):
        return None
    start, end, text = plan.edit.start, plan.edit.end, plan.edit.text
    # An end of line that stays is no part of it: the last of a file has no line behind it.
    while start < end and text[-1:] in ("\r", "\n") and source.text[end - 1] == text[-1]:
        end, text = end - 1, text[:-1]
    path = finding.hit.where.symbol.path
    return Replacement(path, *_place(source, start), *_place(source, end), text)


def _place(source: Source, offset: int) -> tuple[int, int]:
    starts = source.starts if source.text.endswith("\n") else source.starts[:-1]
    line = bisect_right(starts, offset)
    # A mark of the byte order is no column; Python's is no part of the text already.
    marked = line == 1 and source.text.startswith("\ufeff")
    return line, offset - starts[line - 1] + 1 - marked
