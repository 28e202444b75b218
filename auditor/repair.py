"""The fixes of one audit: offered, tried on the audit, and written where it stays content."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from auditor.checks import CHECKS
from auditor.errors import UsageProblem
from auditor.fix.engine import Plan, Settled, identity, settle, write
from auditor.fix.scripts import elsewhere, respelling
from auditor.fix.text import Source, Unfit
from auditor.formats.verdict import decide
from auditor.model import Applicability, Finding, Fix, Report
from auditor.pipeline import AuditRequest, opened, run, run_serve
from auditor.repo.files import DiskFiles
from auditor.repo.snapshot import Snapshot, open_fork
from auditor.rulebook import Rulebook
from auditor.rulebook import load as load_rules
from auditor.source.store import FactStore
from auditor.views import Sides

if TYPE_CHECKING:
    from auditor.fix.gates import Gates

Progress = Callable[[str, int, int], None]
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
    desk = _Desk(request, fork, book, progress)
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


def _settled(desk: _Desk, plans: Sequence[Plan]) -> tuple[Settled, list[Plan]]:
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
    desk: _Desk, settled: Settled, dry: bool
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


@dataclass
class _Desk:
    """Where plans are made: the fork's files, and the views of all sides once they are needed."""

    request: AuditRequest
    fork: Snapshot
    book: Rulebook
    progress: Progress
    sources: dict[Path, Source] = field(default_factory=dict)

    @property
    def top(self) -> Path:
        """The folder that the paths of a report start from."""
        assert isinstance(self.fork.files, DiskFiles)
        return self.fork.files.root

    @property
    def tops(self) -> tuple[Path, ...]:
        """The folders in which files may be written: the fork's, and those of named scripts."""
        scripts = self.request.serve
        named = [scripts.base / path for path in scripts.paths if scripts.trusted]
        folders = [path if path.is_dir() else path.parent for path in named]
        return (self.top, *(folder.resolve() for folder in folders if folder.is_dir()))

    def name(self, file: Path) -> str:
        """How a patch names a file: from the fork's root, else from here, else in full."""
        for folder in (self.top, Path.cwd()):
            if file.is_relative_to(folder):
                return file.relative_to(folder).as_posix()
        return file.as_posix().lstrip("/")

    def plan(self, finding: Finding) -> Plan | str:
        """The edit for a finding, or why there is none."""
        try:
            if finding.hit.rewrite is not None:
                return self._respelled(finding)
            if self.book.rule(finding.rule).check == "sibling-gates":
                return self._gated(finding)
        except Unfit as problem:
            return str(problem)
        except RecursionError:
            return "the function is nested too deeply to be rewritten"
        return "there is no edit for this rule"

    def _respelled(self, finding: Finding) -> Plan:
        hit, rewrite = finding.hit, finding.hit.rewrite
        assert rewrite is not None
        file = self._script(hit.where.symbol.path)
        source = self._source(file, Source.of_script)
        edit = respelling(source, hit, rewrite)
        safe: Applicability = "safe" if rewrite.same else "unsafe"
        # A script that speaks of a variable twice may read it itself.
        if rewrite.old[:1] != "-" and not rewrite.value and elsewhere(source, rewrite.old) > 1:
            safe = "unsafe"
        return Plan(finding, file, edit, safe, f"writes {rewrite.new} for {rewrite.old}")

    def _script(self, path: str) -> Path:
        scripts = self.request.serve
        if scripts.paths and (scripts.base / path).is_file():
            file = (scripts.base / path).resolve()
        else:
            file = self._unlinked(self.top / path)
        if not any(file.is_relative_to(top) for top in self.tops):
            raise Unfit("it is reached by a link out of the tree")
        return file

    def _gated(self, finding: Finding) -> Plan:
        symbol = finding.hit.where.symbol
        for (path, qualname), gap in self.gates.gaps().items():
            if qualname == symbol.qualname and self.fork.report_path(path) == symbol.path:
                offer = self.gates.offer(gap, finding)
                follows = offer.guessed and self.gates.follows(gap)
                break
        else:
            raise Unfit("the gap is not seen any more")
        assert isinstance(self.fork.files, DiskFiles)
        file = self._unlinked(self.fork.files.path(symbol.path) or self.top / symbol.path)
        source = self._source(file, Source.of_python)
        if source.data != self.gates.fork.sources[path]:
            raise Unfit("the file has changed since it was read")
        return Plan(finding, file, offer.edit, "unsafe", offer.how, follows)

    def _unlinked(self, file: Path) -> Path:
        if file.resolve() != file:
            raise Unfit("it is reached by a link; fix the file that it leads to")
        return file

    def _source(self, file: Path, of: Callable[[bytes], Source]) -> Source:
        if file not in self.sources:
            try:
                self.sources[file] = of(file.read_bytes())
            except OSError as problem:
                raise Unfit(f"the file cannot be read: {problem.strerror}") from None
        return self.sources[file]

    @cached_property
    def gates(self) -> Gates:
        """The gaps of the fork and what they can be closed with."""
        from auditor.fix.gates import Gates

        snapshots, _ = opened(self.request)
        with contextlib.closing(FactStore(self.request.cache, alone=True)) as store:
            views = Sides(snapshots, self.book.vocabulary, store, self._stage).views()
        return Gates(views, CHECKS["sibling-gates"].learn(views))

    @contextlib.contextmanager
    def _stage(self, name: str, done: int = 0, total: int = 1) -> Iterator[None]:
        self.progress(name, done, total)
        yield
