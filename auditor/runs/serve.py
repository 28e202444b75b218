"""What `audit serve` does: only the scripts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from auditor import __version__
from auditor.checks import CHECKS
from auditor.errors import UsageProblem
from auditor.model import (
    ChangeSet,
    Report,
)
from auditor.repo import history as history_of
from auditor.repo.closest import Releases
from auditor.repo.scripts import surroundings
from auditor.repo.since import Since
from auditor.repo.snapshot import (
    Snapshot,
    open_fork,
    open_reference,
)
from auditor.runs import acceptance, excerpts
from auditor.runs.launches import read_launches, tables_of
from auditor.runs.opening import scripts_of, skipped_of
from auditor.runs.request import AuditRequest, Clock, Progress, chosen, silent
from auditor.runs.rules import load as load_rules
from auditor.runs.selection import scope_of, selected, wanted_of

if TYPE_CHECKING:
    from auditor.serve.tables.facts import Tables


def run_serve(
    request: AuditRequest, tables: bool = False, progress: Progress = silent
) -> tuple[Report, Tables | None]:
    """Only the serve scripts, held against the fork, or against upstream where there is no fork.

    With ``tables`` what the tree says of its settings is given too, and a search without scripts is
    no failure. Raises UsageProblem where there is no tree of sglang.
    """
    clock = Clock(progress)
    book = load_rules(request.rules_dirs)
    rules = [r for r in chosen(book, request.select, request.ignore) if r.check not in CHECKS]
    wanted = wanted_of(request)
    with clock.stage("open"):
        fork, upstream = _open_to_serve(request)
        cache = request.cache or Path()
        since = Since(fork, request.since, request.cache) if request.since else None
        targets = [open_reference(ref, "target", fork, cache) for ref in request.targets]
        others = [*([upstream] if upstream is not None else []), *targets]
    with clock.stage("read"):
        trees = [(snapshot, dict(snapshot.read_python())) for snapshot in (fork, *others)]
    with clock.stage("serve"):
        around = surroundings(fork, [] if upstream is None else [upstream])
        alone = request.jobs == 1
        served = read_launches(
            scripts_of(request), rules, trees, around, request.cache, alone=alone, always=True
        )
        found, noted = tables_of(*trees[0], request.cache) if tables else (None, ())
    closest, mismatch = None, ""
    if upstream is not None:
        with clock.stage("closest"):
            releases = Releases(fork, request.cache)
            related = history_of.history(fork, upstream).merge_base is not None
            closest, mismatch = releases.closest(), releases.mismatch(upstream, related=related)
    undecided = served.undecided
    if not served.launches and not tables:
        undecided = ("no start of a server was found", *undecided)
    skipped = {*served.skipped, *noted, *skipped_of((fork, *others))}
    with clock.stage("accept", 0, len(served.findings)):
        scope = scope_of(trees, rules, around, request.serve, served, skipped)
        accepted = acceptance.accept(served.findings, wanted, book, scope)
        shown, hidden = selected(accepted.findings, request, scope, since)
        lines = excerpts.excerpts(shown, trees, scope.read)
    report = Report(
        tool_version=__version__,
        fork=fork.info(),
        upstream=None if upstream is None else upstream.info(),
        base=None,
        targets=tuple(target.info() for target in targets),
        changes=ChangeSet(()),
        findings=tuple(shown),
        hidden=hidden,
        checked=served.checked,
        skipped=tuple(sorted({*skipped, *accepted.skipped})),
        warnings=tuple(filter(None, (served.note, accepted.warning))),
        configuration=request.configuration,
        timings=clock.spent,
        launches=served.launches,
        undecided=undecided,
        suppressions=accepted.suppressions,
        baseline=accepted.baseline,
        excerpts=lines,
        closest=closest,
        mismatch=mismatch,
    )
    return report, found


def _open_to_serve(request: AuditRequest) -> tuple[Snapshot, Snapshot | None]:
    """The tree that scripts are held against, and upstream where that is another one."""
    cache = request.cache or Path()
    fork = open_fork(request.root, request.rev).with_contents(request.instead)
    upstream = None
    if request.upstream is not None:
        upstream = open_reference(request.upstream, "upstream", fork, cache)
    if fork.folder is not None:
        return fork, upstream
    if upstream is None:
        raise UsageProblem(
            f"{request.root} holds no sglang: say whose parsers and flags count, with -C FORK,"
            " --upstream v0.5.17 or --upstream pypi:0.5.17"
        )
    return upstream.with_side("fork"), None
