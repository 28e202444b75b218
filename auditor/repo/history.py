"""Says how the fork's history relates to upstream's: merge base, own commits, newest release."""

from __future__ import annotations

import dataclasses
import re
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from auditor.model import Commit
from auditor.repo.changes import area_of
from auditor.repo.git import GitError, Repository
from auditor.repo.lineage import release_tags
from auditor.repo.references import release_of, version_of
from auditor.repo.snapshot import PACKAGE, Snapshot, open_revision
from auditor.repo.upstream import own_part, own_span, upstream_refs

MAX_COMMITS = 1000
"""Own commits listed, newest first; ``own`` counts them all."""
_BUILT = frozenset({f"{PACKAGE}/_version.py"})
"""Python files that building a wheel writes."""


class History(msgspec.Struct, frozen=True):
    """What the commits say; everything is None without shared history, and ``note`` says why.

    ``refs`` are the references that count as upstream's (``upstream_refs``); ``own`` counts the
    commits of the fork that none of them has, merges aside, and ``commits`` are the newest of
    these. ``taken`` is the commit at which upstream's code in the fork ends, and ``later`` says
    that it is none of the given upstream's. ``ahead`` and ``behind`` are against that alone.
    ``note`` may also qualify what is there (a shallow clone, a list cut short).
    """

    merge_base: str | None = None
    taken: str | None = None
    later: bool = False
    refs: Mapping[str, str] = {}
    own: int | None = None
    commits: tuple[Commit, ...] | None = None
    ahead: int | None = None
    behind: int | None = None
    note: str = ""


def history(fork: Snapshot, upstream: Snapshot, targets: Sequence[Snapshot] = ()) -> History:
    """The fork's history against upstream; targets are upstream's too.

    A release from the package index stands for the tag of its version, where the fork has it.
    """
    repository = fork.repository
    if repository is None:
        return History(note="the fork is a plain folder without history")
    if fork.commit is None:
        return History(note="the fork has no commit yet")
    theirs, notes = _upstream_commit(repository, upstream)
    if theirs is None:
        return History(note="; ".join(notes))
    if repository.shallow:
        notes.append("a shallow clone (git fetch --unshallow brings the rest)")
    try:
        base = repository.line("merge-base", fork.commit, theirs)
        if base is None:
            notes.append(f"no common history with {upstream.ref}")
            return History(note="; ".join(notes))
        span = f"{fork.commit}...{theirs}"
        ahead, behind = repository.run("rev-list", "--count", "--left-right", span).split()
        refs = upstream_refs(fork, upstream, targets)
        own, taken = own_part(repository, fork.commit, refs)
        taken = taken or base
        newer = repository.line("merge-base", taken, theirs) != taken
        commits = _own_commits(fork, repository, refs)
    except GitError as problem:
        return History(note="; ".join((*notes, f"the history cannot be read: {problem}")))
    if own > len(commits):
        notes.append(f"the newest {len(commits):,} of {own:,} own commits are listed")
    return History(
        base, taken, newer, refs, own, commits, int(ahead), int(behind), "; ".join(notes)
    )


def newest_release(fork: Snapshot, upstream: Snapshot) -> str | None:
    """The newest upstream release tag of the fork's repository that upstream is no later than.

    A tag among the fork's own commits is the fork's. None where there is none, or no history.
    """
    repository = fork.repository
    if repository is None or fork.commit is None:
        return None
    theirs, _ = _upstream_commit(repository, upstream)
    if theirs is None:
        return None
    own = set(repository.tags(fork.commit)) - set(repository.tags(theirs))
    least = release_of(upstream.ref)
    tags = [
        tag
        for tag, version in release_tags(repository)
        if tag not in own and (least is None or version >= least)
    ]
    return tags[-1] if tags else None


def at_tag(release: Snapshot, fork: Snapshot) -> tuple[Snapshot, str]:
    """A release from the package index as the fork's tag of its version has it, and a remark.

    Only where their Python files agree: a wheel is built, and a tag can be moved. Any other
    snapshot is given back as it is.
    """
    repository = fork.repository
    if release.kind != "release" or repository is None:
        return release, ""
    tag = _tag_of(repository, release)
    commit = tag and repository.commit(f"refs/tags/{tag}")
    if not tag or not commit:
        return (
            release,
            f"the repository has no tag for {release.ref}, so no commits are told up to it",
        )
    tagged = dataclasses.replace(
        open_revision(fork, commit, side=release.side), ref=release.ref, note=release.note
    )
    mine, theirs = (
        side.content_ids([path for path in side.paths if path.endswith(".py")])
        for side in (release, tagged)
    )
    other = {path for path in mine if mine[path] != theirs.get(path)} - _BUILT
    if other or not mine:
        return release, (
            f"{release.ref} is not the tag {tag}: {len(other)} of its {len(mine)} Python files are"
            " other ones, so no commits are told up to it"
        )
    return tagged, f"commits up to {release.ref} are those of the tag {tag}"


def latest_base(fork: Snapshot, merge_base: str | None, target: Snapshot | None) -> str | None:
    """The later merge base, with upstream or with the target; since then all is the fork's own.

    A fork that branched after the release carries upstream's commits in between, a release's own
    branch carries commits that the target lacks.
    """
    repository = fork.repository
    if repository is None or merge_base is None or target is None or fork.commit is None:
        return merge_base
    if target.repository is not repository or target.commit is None:
        return merge_base
    other = repository.line("merge-base", fork.commit, target.commit)
    if other is not None and repository.line("merge-base", merge_base, other) == merge_base:
        return other
    return merge_base


def newest_commit(repository: Repository, commits: Sequence[str]) -> str | None:
    """The latest date of some commits, ISO 8601; None where none can be read."""
    dates = (repository.line("log", "-1", "--format=%cI", commit) for commit in commits)
    known = [(when, date) for date in dates if date and (when := moment(date))]
    return max(known)[1] if known else None


def moment(date: str) -> datetime | None:
    """A commit's date, None where it is none that the calendar has."""
    try:
        # Python 3.10 does not read the Z that git writes for UTC.
        return datetime.fromisoformat(re.sub("Z$", "+00:00", date))
    except ValueError:
        return None


def _upstream_commit(repository: Repository, upstream: Snapshot) -> tuple[str | None, list[str]]:
    if upstream.repository is repository:
        return upstream.commit, []
    if upstream.kind != "release":
        return None, ["upstream is a folder without shared history"]
    tag = _tag_of(repository, upstream)
    if tag is None:
        return None, ["upstream is a release without a tag of its version in the repository"]
    return repository.commit(f"refs/tags/{tag}"), [f"history is that of the tag {tag}"]


def _tag_of(repository: Repository, release: Snapshot) -> str | None:
    """The first tag, by name, of the version of a release from the package index."""
    version = release_of(release.ref)
    return next((t for t in repository.tags() if version and version_of(t) == version), None)


def _own_commits(
    fork: Snapshot, repository: Repository, refs: Mapping[str, str]
) -> tuple[Commit, ...]:
    # Names follow a commit's line without any other separator; they cannot hold this one.
    mark = secrets.token_hex(16)
    out = repository.run(
        *("log", "-z", "--name-only", "--no-renames", "--no-ext-diff", "--no-textconv"),
        *("--no-show-signature", "--no-mailmap", "--no-color", f"--max-count={MAX_COMMITS}"),
        *("--no-merges", f"--format={mark}%H%x09%cI%x09%s", "--end-of-options"),
        *own_span(str(fork.commit), refs),
    ).decode("utf-8", "replace")
    commits = []
    for record in out.split(mark)[1:]:
        line, *names = record.split("\0")
        sha, date, subject = line.split("\t", 2)
        areas = {_area(fork, name.removeprefix("\n")) for name in names if name}
        commits.append(Commit(sha, date, subject, tuple(sorted(areas))))
    return tuple(commits)


def _area(fork: Snapshot, name: str) -> str:
    """The area of a path of the repository; outside the package, its topmost folder."""
    if fork.folder is None:
        return area_of(name)
    if name.startswith(f"{fork.folder}/") or not fork.folder:
        return area_of(PACKAGE + "/" + name[len(fork.folder) :].lstrip("/"))
    return name.partition("/")[0] if "/" in name else "."
