"""Says how the fork's history relates to upstream's: merge base, own commits, closest tag."""

from __future__ import annotations

import dataclasses
import re
import secrets
from collections.abc import Sequence
from datetime import datetime

import msgspec

from auditor.model import Commit
from auditor.repo.changes import area_of
from auditor.repo.git import GitError, Repository
from auditor.repo.references import RELEASE_PREFIX, version_of
from auditor.repo.snapshot import PACKAGE, Snapshot, open_revision

MAX_COMMITS = 1000
"""Own commits listed, newest first; ``ahead`` counts them all."""
_BUILT = frozenset({f"{PACKAGE}/_version.py"})
"""Python files that building a wheel writes."""


class History(msgspec.Struct, frozen=True):
    """What the commits say; everything is None without shared history, and ``note`` says why.

    ``commits`` are those of the fork that upstream lacks, newest first. ``note`` may also qualify
    what is there (a shallow clone, a list cut short).
    """

    merge_base: str | None = None
    commits: tuple[Commit, ...] | None = None
    ahead: int | None = None
    behind: int | None = None
    note: str = ""


def history(fork: Snapshot, upstream: Snapshot) -> History:
    """The fork's history against upstream.

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
        commits = _own_commits(fork, repository, theirs)
    except GitError as problem:
        return History(note="; ".join((*notes, f"the history cannot be read: {problem}")))
    if int(ahead) > len(commits):
        notes.append(f"the newest {len(commits)} of {int(ahead)} own commits are listed")
    return History(base, commits, int(ahead), int(behind), "; ".join(notes))


def closest_tag(fork: Snapshot) -> str | None:
    """The newest version tag among the fork's ancestors, None where there is none."""
    if fork.repository is None or fork.commit is None:
        return None
    return _newest_tag(fork.repository, fork.commit)


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
    known = set(repository.tags())
    own = set(repository.tags(fork.commit)) - set(repository.tags(theirs))
    least = version_of(upstream.ref.removeprefix(RELEASE_PREFIX).rpartition("==")[2])
    versions = {
        tag: version
        for tag in known - own
        if (version := version_of(tag)) and not version.is_prerelease
        if least is None or version >= least
    }
    return max(versions, key=lambda tag: versions[tag], default=None)


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


def tag_warning(fork: Snapshot, upstream: Snapshot) -> str | None:
    """A warning where upstream is an older release than the one the fork is based on.

    Every upstream commit in between would then pass for the fork's own work. Post releases and
    release candidates of one version count as that version.
    """
    closest = closest_tag(fork)
    given = version_of(upstream.ref.removeprefix(RELEASE_PREFIX).rpartition("==")[2])
    if given is None and upstream.commit and upstream.repository is fork.repository:
        assert fork.repository is not None
        given = version_of(_newest_tag(fork.repository, upstream.commit) or "")
    based = version_of(closest or "")
    if based is None or given is None or based.release <= given.release:
        return None
    return (
        f"{upstream.ref} is older than the release this fork is based on: the closest tag among "
        f"its ancestors is {closest}, and what upstream changed in between counts as the fork's"
    )


def _newest_tag(repository: Repository, commit: str) -> str | None:
    versions = {tag: version for tag in repository.tags(commit) if (version := version_of(tag))}
    return max(versions, key=lambda tag: versions[tag], default=None)


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
    version = version_of(release.ref.removeprefix(RELEASE_PREFIX).rpartition("==")[2])
    return next((t for t in repository.tags() if version and version_of(t) == version), None)


def _own_commits(fork: Snapshot, repository: Repository, theirs: str) -> tuple[Commit, ...]:
    # Names follow a commit's line without any other separator; they cannot hold this one.
    mark = secrets.token_hex(16)
    out = repository.run(
        *("log", "-z", "--name-only", "--no-renames", "--no-ext-diff", "--no-textconv"),
        *("--no-show-signature", "--no-mailmap", "--no-color", f"--max-count={MAX_COMMITS}"),
        *(f"--format={mark}%H%x09%cI%x09%s", "--end-of-options"),
        *(f"{fork.commit}", f"^{theirs}"),
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
