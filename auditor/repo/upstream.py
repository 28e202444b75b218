"""Says which references of a fork's repository are upstream's, and what they lack of the fork."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

from auditor.repo.files import MAX_PYTHON
from auditor.repo.git import Repository
from auditor.repo.lineage import version_tags
from auditor.repo.references import release_of, version_of
from auditor.repo.snapshot import Snapshot

_TAGS = "refs/tags/"
_REMOTES = "refs/remotes/"
_CONVENTION = "upstream"
"""What a fork calls the remote that it was forked from, as GitHub's manual has it."""
_ADDRESS = re.compile(r"[\"'](https?://[^\"'\s]+)[\"']")


def upstream_refs(
    fork: Snapshot, upstream: Snapshot | None = None, targets: Sequence[Snapshot] = ()
) -> dict[str, str]:
    """The references that count as upstream's, by full name, with the commit of each.

    These are the version tags, the branches of upstream's remote, and what was given as upstream or
    target (by the name that was given). Left out is a tag that the fork has made itself, as far as
    that shows: one of the same release as upstream (``v0.5.17.post1``), on the way from there to
    HEAD. Empty where the fork has no history. Raises GitError.
    """
    repository = fork.repository
    if repository is None or fork.commit is None:
        return {}
    given = {
        side.ref: side.commit
        for side in (upstream, *targets)
        if side is not None and side.commit is not None and side.repository is repository
    }
    names = repository.references(_TAGS.rstrip("/"), _REMOTES.rstrip("/"))
    tags = {name: names[name] for tag in version_tags(repository) if (name := _TAGS + tag) in names}
    remotes = _upstream_remotes(fork, upstream)
    branches = {
        name: commit
        for name, commit in names.items()
        if name.startswith(tuple(f"{_REMOTES}{remote}/" for remote in remotes))
    }
    own = _made_by_fork(repository, fork.commit, upstream, tags) if upstream is not None else ()
    return {name: commit for name, commit in tags.items() if name not in own} | branches | given


class OwnPart(NamedTuple):
    """What of a commit's history no reference of upstream's has.

    ``commits`` counts them, merges aside. ``taken`` is upstream's newest commit in it, where
    the code of upstream's ends: the commit itself where all of it is upstream's, the latest by
    date where lines of upstream's were merged that do not hold each other, None where the two
    share nothing.
    """

    commits: int
    taken: str | None


def own_part(repository: Repository, commit: str, upstream: Mapping[str, str]) -> OwnPart:
    """The fork's own part of a commit's history. Raises GitError."""
    span = ("--boundary", "--parents", "--end-of-options", *own_span(commit, upstream))
    rows = [line.split() for line in repository.run("rev-list", *span).decode("ascii").splitlines()]
    if not rows:
        return OwnPart(0, commit)
    edges = [row[0].removeprefix("-") for row in rows if row[0].startswith("-")]
    commits = sum(len(row) <= 2 for row in rows if not row[0].startswith("-"))
    if not edges:
        return OwnPart(commits, None)
    newest = repository.run("rev-list", "--max-count=1", "--date-order", "--end-of-options", *edges)
    return OwnPart(commits, newest.decode("ascii").strip() or None)


def own_count(repository: Repository, commit: str, upstream: Mapping[str, str]) -> int:
    """How many commits, merges aside, no reference of upstream's has. Raises GitError."""
    return own_part(repository, commit, upstream).commits


def own_span(commit: str, upstream: Mapping[str, str]) -> tuple[str, ...]:
    """The same commits as arguments of ``git rev-list`` and ``git log``."""
    return (commit, *(f"^{held}" for held in sorted(set(upstream.values()))))


def _made_by_fork(
    repository: Repository, head: str, upstream: Snapshot, tags: Mapping[str, str]
) -> set[str]:
    """Tags of upstream's release between its commit and HEAD.

    Where upstream made one nevertheless, and other references hold it, these say so. A tag of a
    later release there is believed: the fork is based on it, and upstream is too old.
    """
    given = release_of(upstream.ref)
    versions = {name: version_of(name.removeprefix(_TAGS)) for name in tags}
    start = upstream.commit if upstream.repository is repository else None
    start = start or next((tags[name] for name, told in versions.items() if told == given), None)
    if given is None or start is None:
        return set()
    out = repository.run("rev-list", "--ancestry-path", head, f"^{start}")
    between = set(out.decode("ascii").split())
    return {
        name
        for name, told in versions.items()
        if tags[name] in between and told is not None and told.release == given.release
    }


def _upstream_remotes(fork: Snapshot, upstream: Snapshot | None) -> set[str]:
    """The remotes that are upstream's: by the name, or by the address that its project gives."""
    repository = fork.repository
    assert repository is not None
    known = repository.remotes
    found = {_CONVENTION} & known.keys()
    addresses = {name: _place(uri) for name, uri in known.items() if uri}
    if addresses:
        # Not from the fork's own tree where there is another: it may name the fork.
        tree = upstream if upstream is not None and upstream.commit else fork
        homes = _homes(repository, tree)
        found |= {name for name, place in addresses.items() if place in homes}
    return found


def _homes(repository: Repository, tree: Snapshot) -> set[str]:
    """The addresses that the project file beside the package names."""
    if tree.folder is None or tree.commit is None:
        return set()
    path = f"{tree.folder.rpartition('/')[0]}/pyproject.toml".lstrip("/")
    blob = repository.line("rev-parse", "--verify", "--quiet", f"{tree.commit}:{path}")
    if blob is None or not re.fullmatch(r"[0-9a-f]{40,64}", blob):
        return set()
    [content] = repository.blobs([blob], [MAX_PYTHON])
    if not isinstance(content, bytes):
        return set()
    return {_place(address) for address in _ADDRESS.findall(content.decode("utf-8", "replace"))}


def _place(uri: str) -> str:
    """Host and path of an address, the same whichever protocol it is reached by."""
    try:
        parts = urlsplit(uri)
        return f"{parts.hostname}/{parts.path.strip('/').removesuffix('.git')}".lower()
    except ValueError:
        return ""
