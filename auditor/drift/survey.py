"""Puts a drift report together: histories, merges, missed fixes and the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import NamedTuple

from auditor.drift.areas import hotspots
from auditor.drift.facts import Drift, Fixes, OwnPatch
from auditor.drift.fixes import missed_fixes, survey_ground, touches
from auditor.drift.judge import Tree
from auditor.drift.ledger import MAX_PATCHES, clusters, ledger
from auditor.model import ChangeSet, Finding
from auditor.repo.commits import trees
from auditor.repo.files import ObjectFiles
from auditor.repo.git import GitError, Repository
from auditor.repo.history import History, newest_commit
from auditor.repo.references import RELEASE_PREFIX, version_of
from auditor.repo.scratch import Scratch, Trial, scratch
from auditor.repo.snapshot import Snapshot, open_revision


class Compared(NamedTuple):
    """The sides of a drift report; ``base`` is upstream's code as the fork last took it.

    ``changes`` are those of the fork since ``base``, ``history`` is that of fork and upstream.
    """

    fork: Snapshot
    upstream: Snapshot
    base: Snapshot
    target: Snapshot | None
    changes: ChangeSet
    history: History


def survey(sides: Compared, findings: Sequence[Finding]) -> Drift:
    """Where the fork stands against the target; what cannot be had is said in the notes."""
    fork, target, repository = sides.fork, sides.target, sides.fork.repository
    notes = [sides.history.note] if sides.history.note else []
    if not any(path.endswith(".py") for path in fork.paths):
        notes.append("the fork holds no Python file, so every change of it is a deletion")
    if target is None:
        notes.append("there is no newer release in the repository; name one with --target")
    elif _older(target, sides.upstream):
        notes.append(
            f"{target.ref} is an older release than {sides.upstream.ref}; name a newer one"
        )
    ahead = behind = newest = None
    patches: tuple[OwnPatch, ...] = ()
    fixes = Fixes(note="upstream's commits up to the target are not in this repository")
    own, start = _tree(fork), Tree(sides.base)
    newer = Tree(target) if target is not None else None
    with ExitStack() as stack:
        merging, merged = None, None
        conflicts: frozenset[str] | None = None
        try:
            merging = stack.enter_context(scratch(repository))
            merged = _trees_to_merge(sides, merging) if target is not None else None
            conflicts = merging.conflicts([merged])[0] if merged is not None else None
            if merged is not None and conflicts is not None:
                notes += _plain_merge(sides, merging, merged)
        except GitError as problem:
            notes.append(f"no merge could be tried: {problem}")
            merging = None
        commits = _shared_commits(sides)
        if repository is not None and newer is not None and commits is not None:
            try:
                ahead, behind = _ahead_behind(repository, commits[0], commits[2])
                newest = newest_commit(repository, commits)
                refs = sides.history.refs
                ground = survey_ground(repository, own, start, newer, sides.changes, commits, refs)
                ids = (merged.ours, merged.theirs) if merged is not None else None
                trying = merging if ids else None
                trees_of = ids or ("", "")
                found = touches(ground, findings)
                fixes = missed_fixes(ground, found, trees_of, trying)
                patches = ledger(ground, findings, trees_of, newest, conflicts, trying)
                every = sides.history.own or 0
                if every > len(patches) == MAX_PATCHES:
                    notes.append(f"the newest {MAX_PATCHES:,} of {every:,} own patches are listed")
            except GitError as problem:
                notes.append(f"the history cannot be read: {problem}")
        if ahead is None:
            patches = clusters(own, start, newer, sides.changes, findings, conflicts)
    both = _both_changed(sides) if target is not None else ()
    crossing = None if conflicts is None else tuple(sorted(conflicts))
    return Drift(
        target=target.ref if target is not None else "",
        target_commit=target.commit if target is not None else None,
        base=sides.base.commit,
        ahead=ahead,
        behind=behind,
        newest=newest,
        both_changed=both,
        conflicts=crossing,
        fixes=fixes,
        patches=patches,
        areas=hotspots(fork, patches, both, crossing or (), fixes.listed, findings),
        notes=tuple(notes),
    )


def _older(target: Snapshot, upstream: Snapshot) -> bool:
    """Whether both are releases by their names, and the target the earlier one."""
    newer, old = (version_of(side.ref.removeprefix(RELEASE_PREFIX)) for side in (target, upstream))
    return newer is not None and old is not None and newer < old


def _tree(fork: Snapshot) -> Tree:
    """The fork with its files outside of the package, as committed."""
    if fork.kind == "worktree" and fork.repository is not None and fork.commit is not None:
        try:
            return Tree(fork, ObjectFiles(fork.repository, fork.commit))
        except GitError:
            return Tree(fork)
    return Tree(fork)


def _shared_commits(sides: Compared) -> tuple[str, str, str] | None:
    """Commits of fork, upstream and target in one history, None where there is no such."""
    fork, upstream, target = sides.fork, sides.upstream, sides.target
    repository = fork.repository
    if repository is None or target is None or target.repository is not repository:
        return None
    theirs = upstream.commit if upstream.repository is repository else sides.history.merge_base
    if not (fork.commit and target.commit and theirs and sides.history.merge_base):
        return None
    if repository.line("merge-base", fork.commit, target.commit) is None:
        return None
    return fork.commit, theirs, target.commit


def _ahead_behind(repository: Repository, fork: str, target: str) -> tuple[int, int]:
    out = repository.run("rev-list", "--count", "--left-right", f"{fork}...{target}")
    ahead, behind = map(int, out.split())
    return ahead, behind


def _both_changed(sides: Compared) -> tuple[str, ...]:
    """The fork's changed files that the target changed too, added or deleted."""
    assert sides.target is not None
    old = [change.old_path or change.path for change in sides.changes.files]
    before, after = (
        sides.base.content_ids(_known(sides.base, old)),
        sides.target.content_ids(_known(sides.target, old)),
    )
    return tuple(
        sorted(
            sides.fork.report_path(change.path)
            for change, path in zip(sides.changes.files, old, strict=True)
            if before.get(path) != after.get(path)
        )
    )


def _known(side: Snapshot, paths: Sequence[str]) -> list[str]:
    there = set(side.paths)
    return [path for path in paths if path in there]


def _trees_to_merge(sides: Compared, merging: Scratch) -> Trial:
    """The trees of base, fork and target, as far as a merge of them needs. Raises GitError."""
    fork, base, target = sides.fork, sides.base, sides.target
    assert target is not None
    repository = fork.repository
    ids = [side.commit for side in (base, fork, target)]
    if (
        repository is not None
        and all(ids)
        and all(side.repository is repository for side in (base, target))
    ):
        tree_of = trees(repository, [str(commit) for commit in ids])
        start, mine, theirs = (tree_of[str(commit)] for commit in ids)
        uncommitted = _uncommitted(fork)
        return Trial(start, merging.tree(mine, uncommitted) if uncommitted else mine, theirs)
    paths = [change.path for change in sides.changes.files]
    paths += [change.old_path for change in sides.changes.files if change.old_path]
    made = [merging.tree(None, _contents(side, paths, fork)) for side in (base, fork, target)]
    return Trial(*made)


def _plain_merge(sides: Compared, merging: Scratch, merged: Trial) -> list[str]:
    """What to know of ``git merge``, which starts further back where the base left the main line.

    Raises GitError.
    """
    fork, base, target = sides.fork, sides.base, sides.target
    repository = fork.repository
    if repository is None or target is None or target.repository is not repository:
        return []
    start = repository.line("merge-base", str(fork.commit), str(target.commit))
    if start is None or base.commit is None or start == base.commit:
        return []
    tree = trees(repository, [start])[start]
    [plain] = merging.conflicts([merged._replace(base=tree)])
    many = "" if plain is None else f" (files in conflict: {len(plain):,})"
    name = sides.upstream.ref if base.commit == sides.upstream.commit else base.commit[:10]
    told = f"{target.ref} does not hold {name}: conflicts are those of git rebase --onto"
    return [f"{told} {target.ref} {name}; git merge begins at {start[:10]}{many}"]


def _contents(side: Snapshot, paths: Sequence[str], fork: Snapshot) -> Mapping[str, bytes | None]:
    read = side.read_many(_known(side, paths))
    return {fork.report_path(path): found for path, found in read if isinstance(found, bytes)}


def _uncommitted(fork: Snapshot) -> dict[str, bytes | None]:
    """The files of a work tree that differ from its commit; None where one is gone."""
    if fork.kind != "worktree" or fork.commit is None:
        return {}
    committed = open_revision(fork, fork.commit)
    mine, theirs = fork.content_ids(fork.paths), committed.content_ids(committed.paths)
    changed = [path for path, blob in mine.items() if theirs.get(path) != blob]
    found: dict[str, bytes | None] = {
        fork.report_path(path): content
        for path, content in fork.read_many(changed)
        if isinstance(content, bytes)
    }
    gone = theirs.keys() - mine.keys() - fork.unreadable.keys()
    return found | {fork.report_path(path): None for path in gone}
