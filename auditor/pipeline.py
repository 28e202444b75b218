"""Runs the whole audit: the only module that knows the order of its parts."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from auditor import __version__
from auditor.checks import CHECKS
from auditor.checks.view import View
from auditor.errors import UsageProblem
from auditor.model import (
    CONFIDENCES,
    ChangeSet,
    Checked,
    Confidence,
    Evidence,
    Finding,
    Hit,
    Origin,
    Report,
    Side,
    Skipped,
)
from auditor.repo import changes as changes_of
from auditor.repo import history as history_of
from auditor.repo.snapshot import Snapshot, open_fork, open_reference, open_revision
from auditor.rulebook import CheckName, Rule, Rulebook
from auditor.rulebook import load as load_rules
from auditor.source.facts import ModuleFacts
from auditor.source.index import SourceIndex
from auditor.source.scout import Scans, Scout, Scouted, lost_waits
from auditor.source.store import FactStore
from auditor.triage.findings import Witness, hidden_counts, triage

Progress = Callable[[str, int, int], None]


class AuditRequest(msgspec.Struct, frozen=True):
    """All that decides on a run.

    ``upstream`` None is a UsageProblem that names the closest tag. ``origins`` empty means all.
    ``cache`` None keeps nothing beyond the run.
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


def _silent(stage: str, done: int, total: int) -> None:
    """No progress shown."""


def run(request: AuditRequest, progress: Progress = _silent) -> Report:
    """The report of one audit; raises UsageProblem where the request cannot be met."""
    clock = _Clock(progress)
    book = load_rules(request.rules_dirs)
    rules = chosen(book, request.select, request.ignore)
    with clock.stage("open"):
        fork = open_fork(request.root, request.rev)
        cache = request.cache or Path()
        upstream = _open_upstream(request, fork, cache)
        targets = [open_reference(ref, "target", fork, cache) for ref in request.targets]
        past = history_of.history(fork, upstream)
        base = _open_base(fork, upstream, past.merge_base)
        warning = history_of.tag_warning(fork, upstream)
    snapshots = [fork, upstream, *([base] if base else []), *targets]
    store = FactStore(request.cache)
    try:
        audit = _Audit(book, rules, store, clock)
        findings, checked, skipped = audit.run(snapshots)
    finally:
        store.close()
    with clock.stage("compare"):
        changes = msgspec.structs.replace(
            changes_of.compare(fork, upstream, request.cache),
            commits=past.commits,
            ahead=past.ahead,
            behind=past.behind,
            history_note=past.note,
        )
    shown, hidden = _filter(findings, request)
    return Report(
        tool_version=__version__,
        fork=fork.info(),
        upstream=upstream.info(),
        base=base.info() if base else None,
        targets=tuple(target.info() for target in targets),
        changes=changes,
        findings=tuple(shown),
        hidden=hidden,
        checked=tuple(checked),
        skipped=tuple(sorted({*skipped, *(s for snap in snapshots for s in snap.skipped)})),
        warnings=(warning,) if warning else (),
        configuration=request.configuration,
        timings=clock.spent,
    )


def audit_sources(
    fork: Mapping[str, str],
    upstream: Mapping[str, str] | None = None,
    targets: Sequence[Mapping[str, str]] = (),
    rulebook: Rulebook | None = None,
) -> Report:
    """Audit files given as text, unfiltered; ``upstream`` None means the fork itself.

    For rule examples and tests: no history, no cache.
    """
    book = rulebook or load_rules()
    mine = Snapshot.from_sources(fork)
    theirs = Snapshot.from_sources(fork if upstream is None else upstream, "upstream", "upstream")
    newer = [
        Snapshot.from_sources(files, "target", f"target{i}") for i, files in enumerate(targets)
    ]
    audit = _Audit(book, book.rules, FactStore(None), _Clock(_silent))
    findings, checked, skipped = audit.run([mine, theirs, *newer])
    return Report(
        tool_version=__version__,
        fork=mine.info(),
        upstream=theirs.info(),
        base=None,
        targets=tuple(target.info() for target in newer),
        changes=ChangeSet(()),
        findings=tuple(findings),
        hidden={},
        checked=tuple(checked),
        skipped=tuple(skipped),
        warnings=(),
        configuration={},
        timings={},
    )


def chosen(book: Rulebook, select: Sequence[str], ignore: Sequence[str]) -> tuple[Rule, ...]:
    """The rules to run; raises UsageProblem for an id that no rule has."""
    wanted = {book.rule(rule_id).id for rule_id in select}
    unwanted = {book.rule(rule_id).id for rule_id in ignore}
    return tuple(r for r in book.rules if (not wanted or r.id in wanted) and r.id not in unwanted)


def _open_upstream(request: AuditRequest, fork: Snapshot, cache: Path) -> Snapshot:
    if request.upstream is None:
        closest = history_of.closest_tag(fork)
        way = f"--upstream {closest}" if closest else "--upstream v0.5.17, or pypi:0.5.17"
        hint = f"the closest upstream tag of this fork is {closest}" if closest else "for example"
        raise UsageProblem(f"say which upstream release to compare with: {hint} ({way})")
    return open_reference(request.upstream, "upstream", fork, cache)


def _open_base(fork: Snapshot, upstream: Snapshot, commit: str | None) -> Snapshot | None:
    """Upstream's code as the fork last took it, unless that is the upstream side itself."""
    if commit is None or commit == upstream.commit:
        return None
    return open_revision(fork, commit, side="base")


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


class _Audit:
    """From snapshots to findings; the first snapshot is the fork."""

    def __init__(
        self, book: Rulebook, rules: Sequence[Rule], store: FactStore, clock: _Clock
    ) -> None:
        self.book = book
        self.rules = rules
        self.store = store
        self.clock = clock
        self.skipped: list[Skipped] = []

    def run(
        self, snapshots: Sequence[Snapshot]
    ) -> tuple[list[Finding], list[Checked], list[Skipped]]:
        views = self._views(snapshots)
        fork, others = views[0], views[1:]
        hits: list[tuple[Rule, Hit]] = []
        checked: list[Checked] = []
        with self.clock.stage("judge"):
            norms = {name: CHECKS[name].learn(views) for name in {r.check for r in self.rules}}
            for rule in self.rules:
                judged = CHECKS[rule.check].judge(rule.params, norms[rule.check], fork)
                hits += [(rule, hit) for hit in judged]
            for name in sorted(norms):
                checked += CHECKS[name].survey(norms[name], fork)
        sides: dict[Side, Snapshot] = {}
        for snapshot in snapshots:
            sides.setdefault(snapshot.side, snapshot)

        def report_path(side: Side, path: str) -> str:
            return sides[side].report_path(path) if side in sides else path

        with self.clock.stage("origin"):
            witness = _Witnesses(self.rules, norms, others, self.skipped)
            findings = triage(hits, witness, report_path)
        placed = [_placed(row, report_path) for row in checked]
        return findings, placed, self.skipped

    def _views(self, snapshots: Sequence[Snapshot]) -> list[View]:
        """Read every side; what one side calls a gate is looked for on all."""
        total = len(snapshots)
        scouts: list[Scout] = []
        scans = Scans()
        for number, snapshot in enumerate(snapshots):
            with self.clock.stage("read", number, total):
                sources = scans.intern(dict(snapshot.read_python()))
            facts = self._facts(snapshot, sources)
            scouts.append(Scout(sources, self.book.vocabulary, facts, scans))
        with self.clock.stage("scout"):
            shared = _merged(scout.find_gates() for scout in scouts)
            shared = _merged(scout.find_families(shared) for scout in scouts)
            changed = self._changed_waits(scouts)
            chosen = [scout.find_readers(shared, changed) for scout in scouts]
        self.store.save()
        views: list[View] = []
        for number, (snapshot, scout, names) in enumerate(
            zip(snapshots, scouts, chosen, strict=True)
        ):
            with self.clock.stage("analyse", number, total):
                index = SourceIndex(scout.modules)
                vocabulary = self.book.vocabulary
                view = View(snapshot.side, snapshot.ref, scout.sources, names, index, vocabulary)
                _ = view.readings.readings
            views.append(view)
        return views

    def _facts(
        self, snapshot: Snapshot, sources: Mapping[str, bytes]
    ) -> Callable[[Iterable[str]], Mapping[str, ModuleFacts]]:
        def facts(paths: Iterable[str]) -> Mapping[str, ModuleFacts]:
            found, failed = self.store.facts({path: sources[path] for path in paths})
            for path, reason in failed.items():
                place = snapshot.report_path(path)
                skipped = Skipped(snapshot.side, place, "parse", reason)
                if skipped not in self.skipped:
                    self.skipped.append(skipped)
            return found

        return facts

    def _changed_waits(self, scouts: Sequence[Scout]) -> set[str]:
        """Files in which the fork has fewer waits of some kind than another side.

        Where a file is missing on one side, its functions may have moved: then both count.
        """
        vocabulary = self.book.vocabulary
        fork = scouts[0].sources
        lost: set[str] = set()
        for scout in scouts[1:]:
            for path, theirs in scout.sources.items():
                mine = fork.get(path, b"")
                if mine != theirs and lost_waits(mine, theirs, vocabulary):
                    lost.add(path)
            if any(path not in fork for path in lost):
                gained = fork.keys() - scout.sources.keys()
                lost |= {p for p in gained if lost_waits(b"", fork[p], vocabulary)}
        return lost


def _merged(names: Iterable[Scouted]) -> Scouted:
    shared = Scouted()
    for one in names:
        shared = shared.merge(one)
    return shared


def _placed(row: Checked, report_path: Callable[[Side, str], str]) -> Checked:
    evidence = tuple(
        msgspec.structs.replace(e, path=report_path(e.side, e.path)) for e in row.evidence
    )
    return msgspec.structs.replace(row, path=report_path("fork", row.path), evidence=evidence)


class _Witnesses:
    """Asks the other sides what they have at the symbol of a fork's hit."""

    def __init__(
        self,
        rules: Sequence[Rule],
        norms: Mapping[CheckName, object],
        views: Sequence[View],
        skipped: Sequence[Skipped],
    ) -> None:
        self.views = views
        self.unread = {(s.side, s.path) for s in skipped}
        self.defects: dict[int, dict[str, list[Hit]]] = {}
        for view in views:
            found: dict[str, list[Hit]] = {}
            for rule in rules:
                for hit in CHECKS[rule.check].judge(rule.params, norms[rule.check], view):
                    found.setdefault(hit.where.symbol.qualname, []).append(hit)
            self.defects[id(view)] = found

    def __call__(self, hit: Hit) -> tuple[list[Witness], list[Witness]]:
        upstreams = [self._ask(v, hit) for v in self.views if v.side != "target"]
        targets = [self._ask(v, hit) for v in self.views if v.side == "target"]
        return upstreams, targets

    def _ask(self, view: View, hit: Hit) -> Witness:
        symbol = hit.where.symbol
        roots = set(hit.anchor.split(","))
        for other in self.defects[id(view)].get(symbol.qualname, ()):
            if roots & set(other.anchor.split(",")):
                return Witness(view.side, view.ref, "defect")
        if (view.side, symbol.path) in self.unread:
            return Witness(view.side, view.ref, "unread")
        gated = [
            r for r in view.readings_of.get(symbol.qualname, ()) if r.gated and r.root in roots
        ]
        if gated:
            facts = gated[0].function.facts
            gate = gated[0].gate.rpartition(".")[2]
            line = _wait_line(view, gated[0]) or facts.line
            place = Evidence(
                gated[0].function.path, line, facts.qualname, f"waits on {gate} here", view.side
            )
            return Witness(view.side, view.ref, "gated", (place,))
        if symbol.qualname in view.functions or _defines(view, symbol.path, symbol.qualname):
            return Witness(view.side, view.ref, "present")
        return Witness(view.side, view.ref, "absent")


def _wait_line(view: View, reading: object) -> int | None:
    from auditor.analysis.readings import Reading

    assert isinstance(reading, Reading)
    summary = view.readings.summary(reading.function, reading.context)
    lines = [w.line for w in summary.waits if view.readings.is_gate(w.token)]
    return min(lines, default=None)


def _defines(view: View, path: str, qualname: str) -> bool:
    """Whether a file that was not extracted defines a symbol, by its text."""
    data = view.sources.get(path)
    if data is None or path in view.index.modules:
        return False
    return f"def {qualname.rpartition('.')[2]}(".encode() in data


def _filter(
    findings: Sequence[Finding], request: AuditRequest
) -> tuple[list[Finding], dict[str, int]]:
    lowest = CONFIDENCES.index(request.min_confidence)
    shown: list[Finding] = []
    hidden: dict[str, list[Finding]] = {"min-confidence": [], "origin": []}
    for finding in findings:
        if CONFIDENCES.index(finding.hit.confidence) > lowest:
            hidden["min-confidence"].append(finding)
        elif request.origins and finding.origin not in request.origins:
            hidden["origin"].append(finding)
        else:
            shown.append(finding)
    return shown, hidden_counts(hidden)
