"""Tries edits on the audit before they reach the files, and writes files whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from auditor.fix.text import Edit, Source, Unfit
from auditor.model import Applicability, Finding

Contents = Mapping[Path, bytes]
"""Files on disk, and what is to be in them."""

Identity = tuple[str, str, str, str]

Judge = Callable[[Contents], Sequence[Finding]]
"""What the audit finds where files have other contents; unfiltered."""


@dataclass(frozen=True)
class Plan:
    """An edit of one file for one finding.

    One that ``follows`` may turn out not to be needed. One that ``restores`` makes a function what
    it is upstream: a defect that is found there then is upstream's own.
    """

    finding: Finding
    file: Path
    edit: Edit
    applicability: Applicability
    how: str
    follows: bool = False
    restores: bool = False


@dataclass(frozen=True)
class Settled:
    """Files with their new contents, and why others, or single plans, were given up.

    ``refused`` names plans by fingerprint; ``gone`` are identities of findings that are no more.
    ``revealed`` are upstream's own defects, in code that no plan is for or that is upstream's once
    more, which only the edits make visible: a wait that is back speaks for its siblings.
    """

    contents: dict[Path, bytes]
    given_up: dict[Path, str]
    refused: dict[str, str]
    gone: Counter[Identity]
    revealed: tuple[Finding, ...]


def settle(
    plans: Sequence[Plan], sources: Mapping[Path, Source], before: Sequence[Finding], judge: Judge
) -> Settled:
    """The contents with which each file parses, its findings are gone and no new one appeared.

    All files are judged together. Where that fails, the files that the trouble is in are given up;
    where it is in none of them, each is judged alone.
    """
    refused: dict[str, str] = {}
    given_up: dict[Path, str] = {}
    kept: dict[Path, bytes] = {}
    for file in dict.fromkeys(plan.file for plan in plans):
        chosen: list[Plan] = []
        for plan in (plan for plan in plans if plan.file == file):
            try:
                kept[file] = sources[file].edited([p.edit for p in (*chosen, plan)])
                chosen.append(plan)
            except Unfit as problem:
                refused[plan.finding.fingerprint] = str(problem)
        if file in kept and (problem_text := _unparsable(file, kept[file])):
            given_up[file] = problem_text
            del kept[file]
    trial = _Trial([p for p in plans if p.finding.fingerprint not in refused], before, judge)
    while kept:
        trouble = trial(kept)
        if not trouble:
            break
        named = {file: why for file, why in trouble.items() if file is not None}
        if not named and len(kept) > 1:
            named = {f: _any(found) for f in kept if (found := trial({f: kept[f]}))}
        if not named:
            named = dict.fromkeys(kept, _any(trouble))
        given_up |= named
        kept = {file: content for file, content in kept.items() if file not in named}
    if not kept:
        return Settled(kept, given_up, refused, Counter(), ())
    return Settled(kept, given_up, refused, trial.before - trial.after, tuple(trial.revealed))


class _Trial:
    """Judges contents; gives the trouble by file, under None where no edited file holds it."""

    def __init__(self, plans: Sequence[Plan], before: Sequence[Finding], judge: Judge) -> None:
        self.plans = plans
        self.judge = judge
        self.before = Counter(map(identity, before))
        self.after = self.before
        self.revealed: list[Finding] = []
        self.symbols = {plan.finding.hit.where.symbol for plan in plans if not plan.restores}
        self.files = {plan.finding.hit.where.symbol.path: plan.file for plan in plans}

    def __call__(self, contents: Contents) -> dict[Path | None, str]:
        found = self.judge(contents)
        self.after = after = Counter(map(identity, found))
        wanted = Counter(identity(p.finding) for p in self.plans if p.file in contents)
        trouble: dict[Path | None, str] = {}
        self.revealed = []
        for plan in self.plans:
            key = identity(plan.finding)
            if plan.file in contents and after[key] > self.before[key] - wanted[key]:
                where = plan.finding.hit.where
                name = where.symbol.qualname or f"line {where.line}"
                trouble.setdefault(plan.file, f"{plan.finding.rule} is still found at {name}")
        for finding in found:
            key = identity(finding)
            if after[key] <= self.before[key]:
                continue
            where = finding.hit.where
            upstreams = finding.origin in ("inherited", "fixed-upstream")
            if upstreams and where.symbol not in self.symbols:
                self.revealed.append(finding)
            else:
                file = self.files.get(where.symbol.path)
                name = where.symbol.qualname or f"line {where.line}"
                why = f"{finding.rule} would be found at {name} of {where.symbol.path}"
                trouble.setdefault(file if file in contents else None, why)
        return trouble


def identity(finding: Finding) -> Identity:
    """What tells findings apart before and after an edit: no line, and no ordinal."""
    symbol = finding.hit.where.symbol
    return finding.rule, symbol.path, symbol.qualname, finding.hit.anchor


def _any(trouble: Mapping[Path | None, str]) -> str:
    return next(iter(trouble.values()))


def _unparsable(file: Path, content: bytes) -> str:
    if file.suffix != ".py":
        return ""
    try:
        _ = Source.of_python(content).tree
    except Unfit as problem:
        return str(problem)
    return ""


def write(file: Path, old: bytes, new: bytes, inside: Iterable[Path]) -> None:
    """Puts other contents into a file below one of the folders ``inside``, at once.

    Its mode stays. Raises Unfit where the way to it is a link, it is no plain file or no longer
    holds ``old``, or it cannot be written; nothing is left behind then.
    """
    real = next((top for top in inside if file.is_relative_to(top)), None)
    if real is None or file.parent.resolve() != file.parent:
        raise Unfit("it is reached by a link out of the tree")
    try:
        folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as problem:
        raise Unfit(f"its folder cannot be opened: {problem.strerror}") from None
    try:
        _replace(folder, file.name, old, new)
    except OSError as problem:
        raise Unfit(f"it cannot be written: {problem.strerror}") from None
    finally:
        os.close(folder)


def _replace(folder: int, name: str, old: bytes, new: bytes) -> None:
    here = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    with open(here, "rb") as file:  # noqa: PTH123
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise Unfit("it is no plain file")
        if file.read(len(old) + 1) != old:
            raise Unfit("it has changed since it was read")
    scratch = f".audit-fix-{os.getpid()}.new"
    made = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
    try:
        with open(made, "wb") as file:  # noqa: PTH123
            file.write(new)
            file.flush()
            with contextlib.suppress(OSError):  # another owner's file stays as near as it can
                os.fchown(file.fileno(), status.st_uid, status.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode))
            os.fsync(file.fileno())
        os.replace(scratch, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(scratch, dir_fd=folder)
        raise
