"""The fixes that a report offers: worked out for every finding, none of them tried."""

from __future__ import annotations

import re
from bisect import bisect_right

import msgspec

from auditor.fix.engine import Plan
from auditor.fix.text import Source
from auditor.formats.order import rank
from auditor.model import Finding, Proposal, Replacement, Report
from auditor.pipeline import AuditRequest
from auditor.plans import Desk, Progress
from auditor.repo.snapshot import open_fork
from auditor.rulebook import load as load_rules

MOST = 1_000
"""Findings whose fix is worked out, the worst first; each costs some milliseconds."""

_PLAIN_ENCODINGS = ("utf-8", "utf-8-sig", "ascii")
_LONE_RETURN = re.compile(r"\r(?!\n)")


def proposed(request: AuditRequest, report: Report, progress: Progress) -> Report:
    """The report of a request with a proposal for each active finding.

    A file that has changed since the report was made gets none.
    """
    active = [finding for finding in report.findings if finding.disposition == "active"]
    if not active:
        return report
    book = load_rules(request.rules_dirs)
    desk = Desk(request, open_fork(request.root, request.rev), book, progress)
    proposals: dict[str, Proposal] = {}
    for finding in sorted(active, key=rank)[:MOST]:
        plan = desk.plan(finding)
        if isinstance(plan, str):
            proposals[finding.fingerprint] = Proposal("display", finding.hit.fix)
        else:
            replacement = _replacement(plan, desk.sources[plan.file], finding)
            proposals[finding.fingerprint] = Proposal(plan.applicability, plan.how, replacement)
    return msgspec.structs.replace(report, proposals=proposals)


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
    return line, offset - starts[line - 1] + 1
