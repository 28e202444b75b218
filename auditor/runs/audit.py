"""Runs the whole audit: the only module that knows the order of its parts."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from auditor import __version__
from auditor.beside import Beside
from auditor.checks import CHECKS
from auditor.checks.sides import Sides
from auditor.checks.view import Norm, View
from auditor.deployment.kept import conditions
from auditor.deployment.needs import Needs, Place
from auditor.deployment.words import SERVER
from auditor.errors import UsageProblem
from auditor.model import (
    CONFIDENCES,
    ChangeSet,
    Checked,
    Closest,
    Confidence,
    Deployment,
    Finding,
    Hit,
    Launch,
    Origin,
    Release,
    Report,
    Side,
    Skipped,
    Symbol,
    Timeline,
)
from auditor.releases import endings, later, timeline
from auditor.repo import changes as changes_of
from auditor.repo import history as history_of
from auditor.repo import lineage
from auditor.repo.closest import Releases
from auditor.repo.marks import mark_of
from auditor.repo.scripts import Scripts, Surroundings, surroundings
from auditor.repo.since import Since
from auditor.repo.snapshot import (
    Snapshot,
    is_folder,
    open_fork,
    open_nothing,
    open_reference,
    open_revision,
)
from auditor.rulebook import CheckName, Rule, Rulebook
from auditor.rulebook import load as load_rules
from auditor.runs import acceptance, excerpts
from auditor.runs.newcallers import pointed
from auditor.runs.witnesses import Witnesses, defects
from auditor.source.results import ResultStore, content_key
from auditor.source.store import FactStore
from auditor.triage import baseline as baselines
from auditor.triage import ignores
from auditor.triage.findings import blame, hidden_counts, triage
from auditor.triage.suppress import CHECK as SUPPRESSIONS

if TYPE_CHECKING:
    from auditor.deployment.join import Launches
    from auditor.drift.facts import Drift
    from auditor.serve.tables.facts import Tables

Progress = Callable[[str, int, int], None]
Read = acceptance.Read
"""A side and its Python files by package-relative path."""


class AuditRequest(msgspec.Struct, frozen=True):
    """All that decides on a run.

    ``upstream`` None is a UsageProblem that names the closest release. ``origins`` empty means all.
    ``cache`` None keeps nothing beyond the run. ``since`` is a revision of the fork: only findings
    in what changed since. ``comments`` False gives suppressions in comments no effect.
    ``reachable`` leaves out what no launch turns on. ``instead`` are contents that count in the
    place of files on disk, by full path: what an edit would lead to.
    """

    root: Path
    rev: str | None = None
    upstream: str | None = None
    targets: tuple[str, ...] = ()
    rules_dirs: tuple[Path, ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    min_confidence: Confidence = "medium"
    origins: tuple[Origin, ...] = ()
    jobs: int = 0
    cache: Path | None = None
    configuration: dict[str, str] = {}
    serve: Scripts = Scripts()
    since: str | None = None
    baseline: Path | None = None
    comments: bool = True
    ignores: tuple[ignores.Ignore, ...] = ()
    reachable: bool = False
    instead: Mapping[Path, bytes] = {}


class Workings:
    """What a run leaves behind for who needs more than its report.

    ``key`` stands for the content of all sides; the views and what was learned from them by each
    check are there only where they were made, and not where the outcome was known.
    """

    def __init__(self) -> None:
        self.key = ""
        self.views: Sequence[View] = ()
        self.norms: Mapping[CheckName, Norm] = {}


def _silent(stage: str, done: int, total: int) -> None:
    """No progress shown."""


def run(
    request: AuditRequest, progress: Progress = _silent, workings: Workings | None = None
) -> Report:
    """The report of one audit; raises UsageProblem where the request cannot be met.

    ``workings`` are filled.
    """
    clock = _Clock(progress)
    book = load_rules(request.rules_dirs)
    rules = chosen(book, request.select, request.ignore)
    wanted = _wanted(request)
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
        comparison = Beside(compare, alone=alone, patient=True)
        outcome = _judged(sides, book, rules, request.cache, clock, alone, past.later, workings)
    with clock.stage("origin"):
        earlier = [s for s in snapshots[1:] if s.side != "target"]
        around_it = later.Around(fork, sides.sources[0], earlier, past.refs)
        whole = _whole(fork, book, request.cache, alone)
        own = later.of_findings(outcome.findings, around_it, book, request.cache, whole)
    with clock.stage("serve"):
        around = surroundings(fork, earlier)
        read = zip(snapshots, sides.sources, strict=True)
        trees = [(snapshot, sources) for snapshot, sources in read if snapshot.side != "base"]
        served = _served(_scripts(request), rules, trees, around, request.cache, alone=alone)
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
    skipped = {*outcome.skipped, *unread, *_unread(snapshots), *served.skipped}
    findings = (*_deployed(own, outcome.needs, served), *served.findings)
    with clock.stage("accept", 0, len(findings)):
        trees = list(zip(snapshots, sides.sources, strict=True))
        scope = _scope(trees, rules, around, request.serve, served, skipped)
        accepted = acceptance.accept(findings, wanted, book, scope)
        shown, hidden = _filter(accepted.findings, request, scope, since)
    with clock.stage("fixed where", 0, len(shown)):
        shown = endings.of_findings(shown, fork, upstream, targets, book, request.cache, whole)
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
    )


def opened(request: AuditRequest) -> tuple[list[Snapshot], history_of.History]:
    """Every side of an audit, the fork and upstream first. Raises UsageProblem."""
    cache = request.cache or Path()
    fork = open_fork(request.root, request.rev).with_contents(request.instead)
    upstream = _open_upstream(request, fork, cache)
    targets = [open_reference(ref, "target", fork, cache) for ref in request.targets]
    past = history_of.history(fork, upstream, targets)
    base = _open_base(fork, upstream, past.taken)
    return [fork, upstream, *([base] if base else []), *targets], past


def run_serve(
    request: AuditRequest, tables: bool = False, progress: Progress = _silent
) -> tuple[Report, Tables | None]:
    """Only the serve scripts, held against the fork, or against upstream where there is no fork.

    With ``tables`` what the tree says of its settings is given too, and a search without scripts is
    no failure. Raises UsageProblem where there is no tree of sglang.
    """
    clock = _Clock(progress)
    book = load_rules(request.rules_dirs)
    rules = [r for r in chosen(book, request.select, request.ignore) if r.check not in CHECKS]
    wanted = _wanted(request)
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
        served = _served(
            _scripts(request), rules, trees, around, request.cache, alone=alone, always=True
        )
        found, noted = _tables(*trees[0], request.cache) if tables else (None, ())
    closest, mismatch = None, ""
    if upstream is not None:
        with clock.stage("closest"):
            releases = Releases(fork, request.cache)
            related = history_of.history(fork, upstream).merge_base is not None
            closest, mismatch = releases.closest(), releases.mismatch(upstream, related=related)
    undecided = served.undecided
    if not served.launches and not tables:
        undecided = ("no start of a server was found", *undecided)
    skipped = {*served.skipped, *noted, *_unread((fork, *others))}
    with clock.stage("accept", 0, len(served.findings)):
        scope = _scope(trees, rules, around, request.serve, served, skipped)
        accepted = acceptance.accept(served.findings, wanted, book, scope)
        shown, hidden = _filter(accepted.findings, request, scope, since)
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


def run_history(
    request: AuditRequest, strict: bool = False, progress: Progress = _silent
) -> tuple[Timeline, Literal[0, 3]]:
    """Every finding of a row of releases, from the one that brought it to the one that ended it.

    ``request.upstream`` is a range of release tags or the first release, ``targets`` are those that
    follow. Each is judged by itself, as its own user would see it. The second value is the exit
    status: 0, or 3 where a release holds no Python file, or with ``strict`` where something could
    not be read. Raises UsageProblem where there are fewer than two releases, or no rule that one
    release alone can show.
    """
    clock = _Clock(progress)
    book = load_rules(request.rules_dirs)
    rules, notes = _followed(book, request)
    with clock.stage("open"):
        around = open_nothing(request.root)
        refs = _row(request, around)
        names = _names(refs, around)
        row = [_candidate(ref, names[ref], around, request.cache) for ref in refs]
    alone = request.jobs == 1

    def told(done: int, total: int) -> None:
        progress("releases", done, total)

    with clock.stage("releases", 0, len(row)):
        verdicts = timeline.judge(row, book, request.cache, alone, told)
    lowest = request.min_confidence

    def wanted(finding: Finding) -> bool:
        return finding.rule in rules

    with clock.stage("follow", 0, len(verdicts)):
        lives = timeline.lifetimes(verdicts, wanted, lowest)
        every = timeline.lifetimes(verdicts, wanted, "low")
    repository = around.repository
    commits = {v.info.ref: v.info.commit for v in verdicts if v.info.commit is not None}
    folders = {v.folder for v in verdicts if v.info.commit is not None}
    if repository is not None and commits:
        with clock.stage("commits", 0, len(lives)):
            if len(folders) == 1:
                [folder] = folders
                extracted = {v.info.ref: v.files for v in verdicts}
                lives = endings.of_lifetimes(
                    lives, repository, folder, commits, extracted, book, request.cache
                )
            else:
                notes.append("no commits: the package moved to another folder in these releases")
    skipped = timeline.skipped_of(verdicts)
    releases = tuple(
        Release(
            v.info.ref,
            v.info.kind,
            v.info.commit,
            v.info.python_files,
            v.info.read_files,
            timeline.counted(v, wanted, lowest),
        )
        for v in verdicts
    )
    blind = [release.ref for release in releases if not release.read_files]
    notes += [f"{ref} holds no Python file that could be read" for ref in blind]
    found = Timeline(
        tool_version=__version__,
        releases=releases,
        lifetimes=tuple(lives),
        skipped=skipped,
        notes=tuple(notes),
        configuration=request.configuration,
        timings=clock.spent,
        hidden=len(every) - len(lives),
    )
    return found, 3 if blind or (strict and skipped) else 0


def _followed(book: Rulebook, request: AuditRequest) -> tuple[set[str], list[str]]:
    """The rules that a release shows by itself, and what is to be said of others asked for."""
    rules = chosen(book, request.select, request.ignore)
    notes = []
    asked = {book.rule(rule_id).id for rule_id in request.select}
    followed = set()
    for rule in rules:
        if rule.check not in CHECKS:
            lack = "looks at serve scripts, and releases are judged without them"
        elif rule.params.get("shape") == "removed":
            lack = "compares two versions, and each release is judged by itself"
        else:
            followed.add(rule.id)
            continue
        if rule.id in asked:
            notes.append(f"{rule.id} says nothing here: it {lack}")
    if asked and not followed:
        raise UsageProblem("; ".join(notes) or "every rule that was asked for is ignored")
    return followed, notes


def _candidate(ref: str, name: str, around: Snapshot, cache: Path | None) -> timeline.Candidate:
    return timeline.Candidate(
        name,
        lambda: open_reference(ref, "fork", around, cache or Path()),
        lambda: mark_of(ref, around.repository, cache or Path()),
    )


def _whole(fork: Snapshot, book: Rulebook, cache: Path | None, alone: bool) -> endings.Whole:
    """Judges releases in full, each by itself as in `audit history`."""

    def whole(tags: Sequence[str]) -> list[frozenset[tuple[str, str]]]:
        row = [_candidate(tag, tag, fork, cache) for tag in tags]
        return [v.defects for v in timeline.judge(row, book, cache, alone, lambda *_: None)]

    return whole


def _row(request: AuditRequest, around: Snapshot) -> list[str]:
    """The references of the releases, oldest first."""
    first = request.upstream
    if first is None:
        raise UsageProblem(
            "say which releases: --upstream v0.5.9..v0.5.18 by tags, or --upstream FIRST and"
            " --target for each that follows"
        )
    if is_folder(first, around.repository) or ".." not in first:
        refs = [first, *request.targets]
    else:
        refs = [*lineage.between(around.repository, first), *request.targets]
    if len(set(refs)) < 2:
        raise UsageProblem(
            f"{first} is one release: name a range of tags (FIRST..LAST), or the releases that"
            " follow with --target"
        )
    if len(set(refs)) < len(refs):
        twice = next(ref for ref in refs if refs.count(ref) > 1)
        raise UsageProblem(f"{twice} is named twice")
    return refs


def _names(refs: Sequence[str], around: Snapshot) -> dict[str, str]:
    """What a report calls each: a folder by the last parts of its path that tell it apart."""
    folders = {ref: Path(ref).parts for ref in refs if is_folder(ref, around.repository)}
    named = {ref: ref for ref in refs if ref not in folders}
    for depth in range(1, max(map(len, folders.values()), default=0) + 1):
        short = {ref: "/".join(parts[-depth:]) for ref, parts in folders.items()}
        if len(set(short.values()) - set(named.values())) == len(folders):
            return named | short
    return named | {ref: "/".join(parts[1:]) or ref for ref, parts in folders.items()}


def run_drift(request: AuditRequest, progress: Progress = _silent) -> tuple[Report, Drift]:
    """The audit, and where the fork stands against the last target.

    Without a target that is the newest upstream release tag of the repository. Raises UsageProblem.
    """
    from auditor.drift.survey import Compared, survey

    fork = open_fork(request.root, request.rev)
    cache = request.cache or Path()
    upstream = _open_upstream(request, fork, cache)
    chosen_target = request.targets or tuple(
        filter(None, (history_of.newest_release(fork, upstream),))
    )
    report = run(msgspec.structs.replace(request, targets=chosen_target), progress)
    clock = _Clock(progress)
    with clock.stage("drift"):
        targets = [open_reference(ref, "target", fork, cache) for ref in chosen_target]
        past = history_of.history(fork, upstream, targets)
        target, remark = history_of.at_tag(targets[-1], fork) if targets else (None, "")
        start = history_of.latest_base(fork, past.merge_base, target)
        base = _open_base(fork, upstream, start) or upstream
        changes = changes_of.compare(fork, base, request.cache)
        drift = survey(Compared(fork, upstream, base, target, changes, past), report.findings)
        drift = msgspec.structs.replace(drift, notes=(*filter(None, (remark,)), *drift.notes))
    return msgspec.structs.replace(report, timings=report.timings | clock.spent), drift


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
    clock = _Clock(_silent)
    snapshots = [mine, theirs, *newer]
    with contextlib.closing(FactStore(None, alone=True)) as store:
        sides = Sides(snapshots, book.vocabulary, store, clock.stage)
        outcome = _judged(sides, book, book.rules, None, clock, True)
    # What is given is the fork's own, whoever else has it.
    around = surroundings(mine, [])
    trees = list(zip(snapshots, sides.sources, strict=True))
    served = _served(Scripts(), book.rules, trees, around, None, alone=True, always=True)
    skipped = {*outcome.skipped, *served.skipped}
    compared = trees[:1] if upstream is None else trees
    scope = _scope(compared, book.rules, around, Scripts(), served, skipped)
    wanted = acceptance.Wanted(ignores=ignores.of_example(fork.get("audit.toml", "")))
    findings = (*_deployed(outcome.findings, outcome.needs, served), *served.findings)
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
    )


def _unread(snapshots: Sequence[Snapshot]) -> Iterator[Skipped]:
    for snapshot in snapshots:
        yield from snapshot.skipped


def chosen(book: Rulebook, select: Sequence[str], ignore: Sequence[str]) -> tuple[Rule, ...]:
    """The rules to run; raises UsageProblem for an id that no rule has."""
    wanted = {book.rule(rule_id).id for rule_id in select}
    unwanted = {book.rule(rule_id).id for rule_id in ignore}
    return tuple(r for r in book.rules if (not wanted or r.id in wanted) and r.id not in unwanted)


def _open_upstream(request: AuditRequest, fork: Snapshot, cache: Path) -> Snapshot:
    if request.upstream is None:
        raise UsageProblem(Releases(fork, request.cache).advice())
    return open_reference(request.upstream, "upstream", fork, cache)


def _open_base(fork: Snapshot, upstream: Snapshot, commit: str | None) -> Snapshot | None:
    """Upstream's code as the fork last took it, unless that is the upstream side itself."""
    if commit is None or commit == upstream.commit:
        return None
    return dataclasses.replace(open_revision(fork, commit, side="base"), ref=commit[:12])


def _scripts(request: AuditRequest) -> Scripts:
    return dataclasses.replace(request.serve, instead=request.instead)


class _Clock:
    """Tells the stages apart: progress while they run, seconds afterwards."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.spent: dict[str, float] = {}

    @contextlib.contextmanager
    def stage(self, name: str, done: int = 0, total: int = 1) -> Iterator[None]:
        self.progress(name, done, total)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.spent[name] = self.spent.get(name, 0.0) + time.perf_counter() - start


class Served(msgspec.Struct, frozen=True):
    """What reading and judging the launches gave, before any filter; paths are report paths.

    ``given`` are the launches in the terms of their tree, None where there are none.
    """

    findings: tuple[Finding, ...] = ()
    checked: tuple[Checked, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    launches: tuple[Launch, ...] = ()
    undecided: tuple[str, ...] = ()
    note: str = ""
    silent: tuple[str, ...] = ()
    judged: bool = False
    given: Launches | None = None


def _served(
    scripts: Scripts,
    rules: Sequence[Rule],
    read: Sequence[Read],
    around: Surroundings,
    cache: Path | None,
    *,
    alone: bool,
    always: bool = False,
) -> Served:
    """The first tree is the one that is started; ``always`` judges it also without a launch."""
    note = ""
    if around.blind and not scripts.paths:
        note = f"no serve scripts were looked for: {around.blind}; name them with --serve"
    if not (always or scripts.paths or (around.names and not around.blind)):
        return Served(note=note)
    # Late: an installed package has no scripts, and this is a third of all that is imported.
    from auditor.serve import judge

    found = judge.find(scripts, around)
    if not (always or found.launches):
        missing = ("no start of a server was found",) if scripts.paths else ()
        silent = tuple(found.silent)
        return Served(skipped=tuple(found.skipped), undecided=missing, note=note, silent=silent)
    trees = judge.read_trees(read, cache, alone=alone)
    mine = [rule for rule in rules if rule.check not in CHECKS and rule.check != SUPPRESSIONS]
    where = judge.places(scripts, found, around)
    findings, checked, unread = judge.judge(mine, found.launches, trees, where)
    notes = judge.unread_tables(trees) if found.launches else ()
    from auditor.deployment.join import Launches

    return Served(
        tuple(findings),
        tuple(checked),
        (*found.skipped, *unread, *notes),
        tuple(found.launches),
        note=note,
        silent=tuple(found.silent),
        judged=True,
        given=Launches.of(found.launches, trees[0].tables.flags, where),
    )


def _wanted(request: AuditRequest) -> acceptance.Wanted:
    """What is accepted; a baseline that cannot be read ends the run before it has begun."""
    if request.baseline is None:
        return acceptance.Wanted(request.comments, request.ignores)
    entries = baselines.load(request.baseline)
    return acceptance.Wanted(request.comments, request.ignores, entries, request.baseline.name)


def _scope(
    trees: Sequence[Read],
    rules: Sequence[Rule],
    around: Surroundings,
    scripts: Scripts,
    served: Served,
    skipped: Collection[Skipped],
) -> acceptance.Scope:
    return acceptance.Scope(
        trees,
        rules,
        around,
        scripts,
        served.launches,
        served.silent,
        served.judged,
        frozenset(row.path for row in skipped if row.side == "fork" and row.path),
    )


def _tables(
    snapshot: Snapshot, sources: Mapping[str, bytes], cache: Path | None
) -> tuple[Tables, tuple[Skipped, ...]]:
    from auditor.serve import judge

    [tree] = judge.read_trees([(snapshot, sources)], cache, alone=True)
    return tree.placed_tables(), tuple(judge.unread_tables([tree]))


class Outcome(msgspec.Struct, frozen=True):
    """What judging the sides gave, before any filter; paths are report paths.

    ``needs`` are the conditions of the findings' symbols.
    """

    findings: tuple[Finding, ...]
    checked: tuple[Checked, ...]
    skipped: tuple[Skipped, ...]
    needs: tuple[tuple[Symbol, Needs], ...] = ()


def _judged(
    sides: Sides,
    book: Rulebook,
    rules: Sequence[Rule],
    cache: Path | None,
    clock: _Clock,
    alone: bool,
    newer: bool = False,
    workings: Workings | None = None,
) -> Outcome:
    """From what was read to findings; the first side is the fork.

    ``newer`` says that the merge base is code that upstream wrote after its release.
    """
    workings = workings or Workings()
    results = ResultStore(cache, Outcome)
    with clock.stage("recall"):
        names = [f"{s.side}\n{s.ref}\n{s.folder}" for s in sides.snapshots]
        unread = [repr(skipped) for skipped in sorted(_unread(sides.snapshots))]
        about = [book.digest, *(r.id for r in rules), *names, f"newer {newer}", *unread]
        key = workings.key = content_key(about, sides.digests())
        known = results.load(key)
    if known is not None:
        return known
    outcome = _judge(sides, rules, cache, clock, alone, newer, workings)
    results.save(key, outcome)
    sides.save()
    return outcome


def _judge(
    sides: Sides,
    rules: Sequence[Rule],
    cache: Path | None,
    clock: _Clock,
    alone: bool,
    newer: bool,
    workings: Workings,
) -> Outcome:
    views = sides.views()
    fork, others = views[0], views[1:]
    hits: list[tuple[Rule, Hit]] = []
    checked: list[Checked] = []
    rules = [rule for rule in rules if rule.check in CHECKS]
    with clock.stage("judge", 0, len(fork.readings.readings)):
        norms = {name: CHECKS[name].learn(views) for name in sorted({r.check for r in rules})}
        workings.views, workings.norms = views, norms
        elsewhere = Beside(lambda: defects(rules, norms, others), alone=alone)
        for rule in rules:
            judged = CHECKS[rule.check].judge(rule.params, norms[rule.check], fork)
            hits += [(rule, hit) for hit in judged]
        for name, norm in norms.items():
            checked += CHECKS[name].survey(norm, fork)
    snapshots: dict[Side, Snapshot] = {}
    for snapshot in sides.snapshots:
        snapshots.setdefault(snapshot.side, snapshot)

    def report_path(side: Side, path: str) -> str:
        return snapshots[side].report_path(path) if side in snapshots else path

    with clock.stage("origin", 0, len(hits)):
        unread = [*sides.skipped, *_unread(sides.snapshots)]
        witnesses = Witnesses(fork, others, elsewhere.result(), unread, report_path, newer)
        blamed = [(rule, hit, blame(*witnesses(hit))) for rule, hit in hits]
        blamed = pointed(blamed, fork, norms, witnesses)
        findings = triage(blamed, report_path)
    placed = tuple(_placed(row, report_path) for row in checked)
    deep = (
        Skipped(view.side, report_path(view.side, path), "analyse", f"{name}: nested too deeply")
        for view in views
        for path, name in sorted(view.readings.evaluator.too_deep)
    )
    with clock.stage("conditions"):
        needs = _needs(fork, [hit for _, hit, _ in blamed], report_path, cache, alone)
    return Outcome(tuple(findings), placed, (*sides.skipped, *deep), needs)


def _needs(
    fork: View,
    hits: Sequence[Hit],
    report_path: Callable[[Side, str], str],
    cache: Path | None,
    alone: bool,
) -> tuple[tuple[Symbol, Needs], ...]:
    """The conditions of the places of hits, in the fork's tree."""
    places = {hit.where.symbol: _place(fork, hit) for hit in hits}
    # What is a guess, and about no pool, is not worth following through the tree.
    sure = {hit.where.symbol for hit in hits if hit.confidence != "low"}
    places = {
        symbol: place
        for symbol, place in places.items()
        if symbol.path.startswith(SERVER) and (place.classes or symbol in sure)
    }

    def path_of(path: str) -> str:
        return report_path("fork", path)

    sources = fork.sources
    digests = {path: fork.scans.digest(data) for path, data in sources.items()}
    asked = {*places.values()}
    found = conditions(sources, digests, fork.readings.arming, asked, cache, alone)
    return tuple(
        (msgspec.structs.replace(symbol, path=path_of(symbol.path)), found[place].placed(path_of))
        for symbol, place in places.items()
    )


def _place(fork: View, hit: Hit) -> Place:
    """Where a hit is; code outside of the pools is about the pool that the evidence names."""
    where = hit.where.symbol
    own = (where.path, where.qualname.rpartition(".")[0])
    pools = set(fork.readings.families)
    classes = [own] if own in pools else []
    if not classes:
        here = fork.functions.get(where.qualname, ())
        named = {name for function in here for name in function.facts.mentions}
        shown = [(e.path, e.symbol.rpartition(".")) for e in hit.evidence if e.side == "fork"]
        rows = [((path, owner), name) for path, (owner, _, name) in shown if (path, owner) in pools]
        # What the code calls by its name tells more than what it is compared with.
        classes = [key for key, name in rows if name in named] or [key for key, _ in rows]
    if not classes:
        return Place(where.path, where.qualname)
    # Of several the one that most are made from.
    chosen = max(classes, key=lambda key: len(fork.index.subclasses.get(key, ())))
    names = tuple(name for _, name in fork.index.classes[chosen].mro)
    return Place(where.path, where.qualname, names)


def _deployed(
    findings: Sequence[Finding], needs: Sequence[tuple[Symbol, Needs]], served: Served
) -> Iterator[Finding]:
    """The findings with what this deployment makes of each."""
    known = dict(needs)
    for finding in findings:
        found = known.get(finding.hit.where.symbol)
        if found is None:
            yield finding
        else:
            ours = (
                served.given.deployment(found)
                if served.given is not None
                else Deployment("no-launch", found.conditions())
            )
            yield msgspec.structs.replace(finding, deployment=ours)


def _placed(row: Checked, report_path: Callable[[Side, str], str]) -> Checked:
    evidence = tuple(
        msgspec.structs.replace(e, path=report_path(e.side, e.path)) for e in row.evidence
    )
    return msgspec.structs.replace(row, path=report_path("fork", row.path), evidence=evidence)


def _filter(
    findings: Sequence[Finding],
    request: AuditRequest,
    scope: acceptance.Scope,
    since: Since | None,
) -> tuple[list[Finding], dict[str, int]]:
    lowest = CONFIDENCES.index(request.min_confidence)
    shown: list[Finding] = []
    hidden: dict[str, list[Finding]] = {
        "min-confidence": [],
        "origin": [],
        "since": [],
        "reachable": [],
    }
    for finding in findings:
        if CONFIDENCES.index(finding.hit.confidence) > lowest:
            hidden["min-confidence"].append(finding)
        elif request.origins and not _asked_for(finding, request.origins):
            hidden["origin"].append(finding)
        elif since and not since.holds(finding.hit.where, scope.in_tree):
            hidden["since"].append(finding)
        elif request.reachable and finding.deployment and finding.deployment.state == "off":
            hidden["reachable"].append(finding)
        else:
            shown.append(finding)
    return shown, hidden_counts(hidden)


def _asked_for(finding: Finding, origins: Collection[Origin]) -> bool:
    """Whether a finding is of the asked origins.

    What came with later code of upstream's counts as introduced too: who merges it takes it on.
    """
    return finding.origin in origins or bool(finding.since_base and "introduced" in origins)
