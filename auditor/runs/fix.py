"""The fixes of one audit: offered, tried on the audit, and written where it stays content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from auditor.errors import UsageProblem
from auditor.fix.engine import Plan, Settled, identity, settle, write
from auditor.fix.text import Unfit
from auditor.formats.verdict import decide
from auditor.model import Finding, Fix, Report
from auditor.repo.files import DiskFiles
from auditor.repo.snapshot import Snapshot, open_fork
from auditor.runs.audit import run
from auditor.runs.plans import Desk, Progress
from auditor.runs.request import AuditRequest
from auditor.runs.rules import load as load_rules
from auditor.runs.serve import run_serve

Change = tuple[str, bytes, bytes]
"""A file's path as a patch names it, what it held, and what it holds now."""

_NOT_NEEDED = "needs no edit of its own once the others are made"


class Repair(msgspec.Struct, frozen=True):
    """What became of every wanted fix, and the files that changed.

    ``revealed`` are upstream's own defects that are found only now that others are gone;
    ``undecided`` says why more may be wrong than was found.
    """

    fixes: tuple[Fix, ...]
    changes: tuple[Change, ...]
    revealed: tuple[Finding, ...] = ()
    undecided: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether nothing that was wanted is known to be left."""
        return not self.undecided and all(fix.state == "made" for fix in self.fixes)


def repair(
    request: AuditRequest,
    rules: Sequence[str] = (),
    *,
    unsafe: bool = False,
    dry: bool = False,
    progress: Progress = lambda stage, done, total: None,
) -> Repair:
    """Fixes the active findings of a work tree, those of ``rules`` only where any are named.

    Only safe edits are made unless ``unsafe``; with ``dry`` none is, and the changes are those that
    would be. Raises UsageProblem where the fork is no tree of files on disk.
    """
    book = load_rules(request.rules_dirs)
    wanted = {book.rule(rule).id for rule in rules}
    fork = _on_disk(request)
    report = _judged(request, fork, progress)
    findings = [
        finding
        for finding in report.findings
        if finding.disposition == "active" and (not wanted or finding.rule in wanted)
    ]
    desk = Desk(request, fork, book, progress)
    fixes: dict[str, Fix] = {}
    plans: list[Plan] = []
    for finding in findings:
        plan = desk.plan(finding)
        if isinstance(plan, str):
            fixes[finding.fingerprint] = Fix(finding, "display", "none", finding.hit.fix, plan)
        elif plan.applicability == "unsafe" and not unsafe:
            fixes[finding.fingerprint] = Fix(finding, "unsafe", "held-back", plan.how)
        else:
            plans.append(plan)
    changes: tuple[Change, ...] = ()
    revealed: tuple[Finding, ...] = ()
    if plans:
        settled, tried = _settled(desk, plans)
        given_up, changes = _delivered(desk, settled, dry)
        for plan in plans:
            fixes[plan.finding.fingerprint] = _fate(plan, settled, given_up, plan in tried)
        if changes:
            fixes = {mark: _closed(fix, settled) for mark, fix in fixes.items()}
            revealed = settled.revealed
    ordered = tuple(fixes[finding.fingerprint] for finding in findings)
    return Repair(ordered, changes, revealed, decide(report, "never", False).undecided)


def _on_disk(request: AuditRequest) -> Snapshot:
    if request.rev is not None:
        raise UsageProblem(
            f"audit fix edits files on disk, and {request.rev!r} is a revision; check it out first"
        )
    fork = open_fork(request.root)
    if not isinstance(fork.files, DiskFiles):
        raise UsageProblem(
            f"audit fix edits files on disk, and {request.root} is {fork.note or fork.kind}"
        )
    return fork


def _judged(request: AuditRequest, fork: Snapshot, progress: Progress) -> Report:
    """An audit; of the scripts alone where they are held against a release."""
    if fork.folder is None and request.serve.paths:
        return run_serve(request, False, progress)[0]
    return run(request, progress)


def _settled(desk: Desk, plans: Sequence[Plan]) -> tuple[Settled, list[Plan]]:
    """Tries the plans on the audit, those that follow from others only where they are needed.

    Gives the plans that were tried as well.
    """
    everything = msgspec.structs.replace(desk.request, min_confidence="low", origins=())

    def judge(contents: Mapping[Path, bytes]) -> Sequence[Finding]:
        tried = msgspec.structs.replace(everything, instead=contents)
        return _judged(tried, desk.fork, desk.progress).findings

    before = judge({})
    first = [plan for plan in plans if not plan.follows] or list(plans)
    settled = settle(first, desk.sources, before, judge)
    left = [p for p in plans if p.follows and not settled.gone[identity(p.finding)]]
    if not left or len(first) == len(plans):
        return settled, first
    tried = [*first, *left]
    return settle(tried, desk.sources, before, judge), tried


def _delivered(
    desk: Desk, settled: Settled, dry: bool
) -> tuple[dict[Path, str], tuple[Change, ...]]:
    """Writes what stood the trial; gives what was given up as well."""
    given_up = dict(settled.given_up)
    changes: list[Change] = []
    for file, content in settled.contents.items():
        old = desk.sources[file].data
        try:
            if not dry:
                write(file, old, content, desk.tops)
            changes.append((desk.name(file), old, content))
        except Unfit as problem:
            given_up[file] = str(problem)
    return given_up, tuple(changes)


def _fate(plan: Plan, settled: Settled, given_up: Mapping[Path, str], tried: bool) -> Fix:
    if not tried:
        return Fix(plan.finding, plan.applicability, "made", _NOT_NEEDED)
    reason = settled.refused.get(plan.finding.fingerprint) or given_up.get(plan.file, "")
    state: Literal["made", "rolled-back"] = "rolled-back" if reason else "made"
    return Fix(plan.finding, plan.applicability, state, plan.how, reason)


def _closed(fix: Fix, settled: Settled) -> Fix:
    """A finding that the edits for others have closed needs none of its own."""
    if fix.state == "made" or not settled.gone[identity(fix.finding)]:
        return fix
    return Fix(fix.finding, fix.applicability, "made", _NOT_NEEDED)
