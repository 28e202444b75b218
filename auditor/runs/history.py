"""What `audit history` does: a row of releases."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from auditor import __version__
from auditor.checks import CHECKS
from auditor.errors import UsageProblem
from auditor.model import (
    Finding,
    Release,
    Timeline,
)
from auditor.releases import fixed_by, timeline
from auditor.repo import lineage
from auditor.repo.snapshot import (
    Snapshot,
    is_folder,
    open_nothing,
)
from auditor.rulebook import Rule, Rulebook
from auditor.runs.request import AuditRequest, Clock, Progress, chosen, silent
from auditor.runs.rows import candidate
from auditor.runs.rules import load as load_rules


def run_history(
    request: AuditRequest, strict: bool = False, progress: Progress = silent
) -> tuple[Timeline, Literal[0, 3]]:
    """Every finding of a row of releases, from the one that brought it to the one that ended it.

    ``request.upstream`` is a range of release tags or the first release, ``targets`` are those that
    follow. Each is judged by itself, as its own user would see it. The second value is the exit
    status: 0, or 3 where a release holds no Python file, or with ``strict`` where something could
    not be read. Raises UsageProblem where there are fewer than two releases, or no rule that one
    release alone can show.
    """
    clock = Clock(progress)
    book = load_rules(request.rules_dirs)
    rules, notes = _followed(book, request)
    with clock.stage("open"):
        around = open_nothing(request.root)
        refs = _row(request, around)
        names = _names(refs, around)
        row = [candidate(ref, names[ref], around, request.cache) for ref in refs]
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
                lives = fixed_by.of_lifetimes(
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
        elif rule.check == "lost-waits" or _asks_other_version(rule):
            lack = "compares two versions, and each release is judged by itself"
        else:
            followed.add(rule.id)
            continue
        if rule.id in asked:
            notes.append(f"{rule.id} says nothing here: it {lack}")
    if asked and not followed:
        raise UsageProblem("; ".join(notes) or "every rule that was asked for is ignored")
    return followed, notes


def _asks_other_version(rule: Rule) -> bool:
    return rule.check == "sibling-gates" and rule.params["shape"] == "removed"


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
