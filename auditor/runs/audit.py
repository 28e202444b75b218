"""What `audit` does, in order: sides, findings, origins, launches, what is accepted, the report."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

import msgspec

from auditor import __version__
from auditor.background import Background
from auditor.checks.sides import Sides
from auditor.model import (
    ChangeSet,
    Closest,
    Report,
    Skipped,
)
from auditor.releases import fixed_by, later
from auditor.repo import changes as changes_of
from auditor.repo.closest import Releases
from auditor.repo.scripts import Scripts, surroundings
from auditor.repo.since import Since
from auditor.repo.snapshot import Snapshot
from auditor.rulebook import Rulebook
from auditor.runs import acceptance, excerpts
from auditor.runs.judging import Workings, judged
from auditor.runs.launches import deployed, read_launches
from auditor.runs.opening import opened, scripts_of, skipped_of
from auditor.runs.request import AuditRequest, Clock, Progress, chosen, silent
from auditor.runs.rows import whole_releases
from auditor.runs.rules import load as load_rules
from auditor.runs.selection import scope_of, selected, wanted_of
from auditor.source.store import FactStore
from auditor.triage import ignores


def run(
    request: AuditRequest, progress: Progress = silent, workings: Workings | None = None
) -> Report:
    """The report of one audit; raises UsageProblem where the request cannot be met.

    ``workings`` are filled.
    """
    clock = Clock(progress)
    book = load_rules(request.rules_dirs)
    rules = chosen(book, request.select, request.ignore)
    wanted = wanted_of(request)
    with clock.stage("open"):
        snapshots, past = opened(request)
        fork, upstream, *_ = snapshots
        since = Since(fork, request.since, request.cache) if request.since else None
    base = next((s for s in snapshots if s.side == "base"), None)
    targets = [s for s in snapshots if s.side == "target"]

    def compare() -> tuple[ChangeSet, tuple[Skipped, ...], Closest, str]:
        changes = changes_of.compare(fork, upstream, request.cache)
        releases = Releases(fork, request.cache)
        mismatch = releases.mismatch(upstream, related=past.merge_base is not None)
        skipped = (*fork.skipped, *upstream.skipped)
        return changes, skipped, releases.closest(), mismatch

    alone = request.jobs == 1
    with contextlib.closing(FactStore(request.cache, alone=alone)) as store:
        sides = Sides(snapshots, book.vocabulary, store, clock.stage)
        # Not earlier: what has been read need not be read again to be compared.
        comparison = Background(compare, alone=alone, patient=True)
        outcome = judged(sides, book, rules, request.cache, clock, alone, past.later, workings)
    with clock.stage("origin"):
        earlier = [s for s in snapshots[1:] if s.side != "target"]
        around_it = later.Around(fork, sides.sources[0], earlier, past.refs)
        whole = whole_releases(fork, book, request.cache, alone)
        own = later.of_findings(outcome.findings, around_it, book, request.cache, whole)
    with clock.stage("serve"):
        around = surroundings(fork, earlier)
        read = zip(snapshots, sides.sources, strict=True)
        trees = [(snapshot, sources) for snapshot, sources in read if snapshot.side != "base"]
        served = read_launches(
            scripts_of(request), rules, trees, around, request.cache, alone=alone
        )
    with clock.stage("compare", 0, len(sides.sources[0])):
        compared, unread, closest, mismatch = comparison.result()
        changes = msgspec.structs.replace(
            compared,
            commits=past.commits,
            ahead=past.ahead,
            behind=past.behind,
            history_note=past.note,
            own=past.own,
        )
    skipped = {*outcome.skipped, *unread, *skipped_of(snapshots), *served.skipped}
    findings = (*deployed(own, outcome.needs, served), *served.findings)
    with clock.stage("accept", 0, len(findings)):
        trees = list(zip(snapshots, sides.sources, strict=True))
        scope = scope_of(trees, rules, around, request.serve, served, skipped)
        accepted = acceptance.accept(findings, wanted, book, scope)
        shown, hidden = selected(accepted.findings, request, scope, since)
    with clock.stage("fixed where", 0, len(shown)):
        shown = fixed_by.of_findings(shown, fork, upstream, targets, book, request.cache, whole)
    with clock.stage("cut out", 0, len(shown)):
        lines = excerpts.excerpts(shown, trees, scope.read)
    skipped |= {*accepted.skipped}
    return Report(
        tool_version=__version__,
        fork=fork.info(),
        upstream=upstream.info(),
        base=base.info() if base else None,
        targets=tuple(target.info() for target in targets),
        changes=changes,
        findings=tuple(shown),
        hidden=hidden,
        checked=(*outcome.checked, *served.checked),
        skipped=tuple(sorted(skipped)),
        warnings=tuple(filter(None, (served.note, accepted.warning))),
        configuration=request.configuration,
        timings=clock.spent,
        launches=served.launches,
        undecided=served.undecided,
        suppressions=accepted.suppressions,
        baseline=accepted.baseline,
        excerpts=lines,
        closest=closest,
        mismatch=mismatch,
        disagreements=outcome.disagreements,
    )


def audit_sources(
    fork: Mapping[str, str],
    upstream: Mapping[str, str] | None = None,
    targets: Sequence[Mapping[str, str]] = (),
    rulebook: Rulebook | None = None,
) -> Report:
    """Audit files given as text, unfiltered; ``upstream`` None means the fork itself.

    For rule examples and tests: no history, no cache; the suppressions of an ``audit.toml`` among
    the files count.
    """
    book = rulebook or load_rules()
    mine = Snapshot.from_sources(fork)
    theirs = Snapshot.from_sources(fork if upstream is None else upstream, "upstream", "upstream")
    newer = [
        Snapshot.from_sources(files, "target", f"target{i}") for i, files in enumerate(targets)
    ]
    clock = Clock(silent)
    snapshots = [mine, theirs, *newer]
    with contextlib.closing(FactStore(None, alone=True)) as store:
        sides = Sides(snapshots, book.vocabulary, store, clock.stage)
        outcome = judged(sides, book, book.rules, None, clock, True)
    # What is given is the fork's own, whoever else has it.
    around = surroundings(mine, [])
    trees = list(zip(snapshots, sides.sources, strict=True))
    served = read_launches(Scripts(), book.rules, trees, around, None, alone=True, always=True)
    skipped = {*outcome.skipped, *served.skipped}
    compared = trees[:1] if upstream is None else trees
    scope = scope_of(compared, book.rules, around, Scripts(), served, skipped)
    wanted = acceptance.Wanted(ignores=ignores.of_example(fork.get("audit.toml", "")))
    findings = (*deployed(outcome.findings, outcome.needs, served), *served.findings)
    accepted = acceptance.accept(findings, wanted, book, scope)
    return Report(
        tool_version=__version__,
        fork=mine.info(),
        upstream=theirs.info(),
        base=None,
        targets=tuple(target.info() for target in newer),
        changes=ChangeSet(()),
        findings=accepted.findings,
        hidden={},
        checked=(*outcome.checked, *served.checked),
        skipped=(*outcome.skipped, *served.skipped, *accepted.skipped),
        warnings=(),
        configuration={},
        timings={},
        launches=served.launches,
        suppressions=accepted.suppressions,
        excerpts=excerpts.excerpts(accepted.findings, trees, scope.read),
        disagreements=outcome.disagreements,
    )
