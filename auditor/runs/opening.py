"""Opens the sides that a request names."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from auditor.errors import UsageProblem
from auditor.model import Skipped
from auditor.repo import history as history_of
from auditor.repo.closest import Releases
from auditor.repo.scripts import Scripts
from auditor.repo.snapshot import (
    Snapshot,
    open_fork,
    open_reference,
    open_revision,
)
from auditor.runs.request import AuditRequest


def opened(request: AuditRequest) -> tuple[list[Snapshot], history_of.History]:
    """Every side of an audit, the fork and upstream first. Raises UsageProblem."""
    cache = request.cache or Path()
    fork = open_fork(request.root, request.rev).with_contents(request.instead)
    upstream = open_upstream(request, fork, cache)
    targets = [open_reference(ref, "target", fork, cache) for ref in request.targets]
    past = history_of.history(fork, upstream, targets)
    base = open_base(fork, upstream, past.taken)
    return [fork, upstream, *([base] if base else []), *targets], past


def skipped_of(snapshots: Sequence[Snapshot]) -> Iterator[Skipped]:
    """What could not be read of some sides."""
    for snapshot in snapshots:
        yield from snapshot.skipped


def open_upstream(request: AuditRequest, fork: Snapshot, cache: Path) -> Snapshot:
    """The upstream side; without one the UsageProblem names the closest release."""
    if request.upstream is None:
        raise UsageProblem(Releases(fork, request.cache).advice())
    return open_reference(request.upstream, "upstream", fork, cache)


def open_base(fork: Snapshot, upstream: Snapshot, commit: str | None) -> Snapshot | None:
    """Upstream's code as the fork last took it, unless that is the upstream side itself."""
    if commit is None or commit == upstream.commit:
        return None
    return dataclasses.replace(open_revision(fork, commit, side="base"), ref=commit[:12])


def scripts_of(request: AuditRequest) -> Scripts:
    """The scripts to be read, with the contents that count in the place of files."""
    return dataclasses.replace(request.serve, instead=request.instead)
