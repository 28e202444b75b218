"""What `audit drift` does: the audit, and where the fork stands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from auditor.model import Report
from auditor.repo import changes as changes_of
from auditor.repo import history as history_of
from auditor.repo.snapshot import (
    open_fork,
    open_reference,
)
from auditor.runs.audit import run
from auditor.runs.opening import open_base, open_upstream
from auditor.runs.request import AuditRequest, Clock, Progress, silent

if TYPE_CHECKING:
    from auditor.drift.facts import Drift


def run_drift(request: AuditRequest, progress: Progress = silent) -> tuple[Report, Drift]:
    """The audit, and where the fork stands against the last target.

    Without a target that is the newest upstream release tag of the repository. Raises UsageProblem.
    """
    from auditor.drift.survey import Compared, survey

    fork = open_fork(request.root, request.rev)
    cache = request.cache or Path()
    upstream = open_upstream(request, fork, cache)
    chosen_target = request.targets or tuple(
        filter(None, (history_of.newest_release(fork, upstream),))
    )
    report = run(msgspec.structs.replace(request, targets=chosen_target), progress)
    clock = Clock(progress)
    with clock.stage("drift"):
        targets = [open_reference(ref, "target", fork, cache) for ref in chosen_target]
        past = history_of.history(fork, upstream, targets)
        target, remark = history_of.at_tag(targets[-1], fork) if targets else (None, "")
        start = history_of.latest_base(fork, past.merge_base, target)
        base = open_base(fork, upstream, start) or upstream
        changes = changes_of.compare(fork, base, request.cache)
        drift = survey(Compared(fork, upstream, base, target, changes, past), report.findings)
        drift = msgspec.structs.replace(drift, notes=(*filter(None, (remark,)), *drift.notes))
    return msgspec.structs.replace(report, timings=report.timings | clock.spent), drift
