"""The edit for a finding: where its file lies, what it holds, and what puts it right."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from auditor.checks import CHECKS
from auditor.checks.sides import Sides
from auditor.errors import Unreadable
from auditor.fix.engine import Plan
from auditor.fix.scripts import elsewhere, respelling
from auditor.fix.text import Source, Unfit
from auditor.model import Applicability, Finding
from auditor.repo.files import DiskFiles
from auditor.repo.snapshot import Snapshot
from auditor.rulebook import Rulebook
from auditor.runs.judging import Workings
from auditor.runs.opening import opened
from auditor.runs.request import AuditRequest
from auditor.source.store import FactStore

if TYPE_CHECKING:
    from auditor.fix.gates import Gates

Progress = Callable[[str, int, int], None]


@dataclass
class Desk:
    """Where plans are made: the fork's files, and the views of all sides once they are needed.

    Of a revision ``Plan.file`` is a path in it; nothing can be written there. ``workings`` are
    those of the audit whose findings are planned for, where it left any.
    """

    request: AuditRequest
    fork: Snapshot
    book: Rulebook
    progress: Progress
    workings: Workings = field(default_factory=Workings)
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
        mine = (self.top,) if isinstance(self.fork.files, DiskFiles) else ()
        return (*mine, *(folder.resolve() for folder in folders if folder.is_dir()))

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
        elif not isinstance(self.fork.files, DiskFiles):
            return Path(path)
        else:
            file = self._unlinked(self.top / path)
        if not any(file.is_relative_to(top) for top in self.tops):
            raise Unfit("it is reached by a link out of the tree")
        return file

    def _gated(self, finding: Finding) -> Plan:
        symbol, line = finding.hit.where.symbol, finding.hit.where.line
        for (path, qualname), gap in self.gates.gaps().items():
            if qualname == symbol.qualname and self.fork.report_path(path) == symbol.path:
                if gap.line != line:
                    raise Unfit("the file has changed since it was read")
                offer = self.gates.offer(gap, finding)
                follows = offer.guessed and self.gates.follows(gap)
                break
        else:
            raise Unfit("the gap is not seen any more")
        file = self._module(symbol.path)
        source = self._source(file, Source.of_python)
        if source.data != self.gates.fork.sources[path]:
            raise Unfit("the file has changed since it was read")
        return Plan(finding, file, offer.edit, "unsafe", offer.how, follows, offer.restores)

    def _module(self, path: str) -> Path:
        files = self.fork.files
        if not isinstance(files, DiskFiles):
            return Path(path)
        return self._unlinked(files.path(path) or self.top / path)

    def _unlinked(self, file: Path) -> Path:
        if file.resolve() != file:
            raise Unfit("it is reached by a link; fix the file that it leads to")
        return file

    def _source(self, file: Path, of: Callable[[bytes], Source]) -> Source:
        if file not in self.sources:
            self.sources[file] = of(self._content(file))
        return self.sources[file]

    def _content(self, file: Path) -> bytes:
        if file.is_absolute():
            try:
                return file.read_bytes()
            except OSError as problem:
                raise Unfit(f"the file cannot be read: {problem.strerror}") from None
        try:
            content = next(self.fork.files.read([file.as_posix()]))
        except KeyError:
            raise Unfit("the file is not in the tree") from None
        if isinstance(content, Unreadable):
            raise Unfit(f"the file cannot be read: {content}")
        return content

    @cached_property
    def gates(self) -> Gates:
        """The gaps of the fork and what they can be closed with."""
        from auditor.fix.gates import Gates

        made = self.workings.norms.get("sibling-gates")
        if made is not None:
            return Gates(self.workings.views, made)
        snapshots, _ = opened(self.request)
        with contextlib.closing(FactStore(self.request.cache, alone=True)) as store:
            views = Sides(snapshots, self.book.vocabulary, store, self._stage).views()
        return Gates(views, CHECKS["sibling-gates"].learn(views))

    @contextlib.contextmanager
    def _stage(self, name: str, done: int = 0, total: int = 1) -> Iterator[None]:
        self.progress(name, done, total)
        yield
