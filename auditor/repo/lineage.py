"""Follows releases and files through history: tags in order, the commits that touch some files."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from packaging.version import Version

from auditor.errors import Unreadable, UsageProblem
from auditor.model import Repair
from auditor.repo.files import MAX_PYTHON
from auditor.repo.git import REGULAR, Repository
from auditor.repo.references import RELEASE_PREFIX, nearest_tags, version_of

_MOST_HOLDERS = 8
_MOST_RELEASES = 200


def version_tags(repository: Repository) -> dict[str, Version]:
    """The tags that are named as releases are, candidates included, by name.

    They are spelled as most are. A version of other parts (``v0.5.17.1``), or without the ``v`` of
    the others (``0.0.11``), is a tag of the fork's own.
    """
    versions = {tag: found for tag in sorted(repository.tags()) if (found := version_of(tag))}
    spelled = {tag: (tag[0] == "v", len(found.release)) for tag, found in versions.items()}
    usual = Counter(spelled.values()).most_common(1)
    return {tag: versions[tag] for tag, form in spelled.items() if form == usual[0][0]}


def release_tags(
    repository: Repository, after: Version | None = None, until: Version | None = None
) -> list[tuple[str, Version]]:
    """Tags of final and post releases, oldest first, later than one version and up to another.

    Of two tags for one version (``v0.5.9.post1``, ``v0.5.9post1``) the first by name counts.
    """
    found: dict[Version, str] = {}
    for tag, version in version_tags(repository).items():
        if version.is_prerelease:
            continue
        if (after is None or version > after) and (until is None or version <= until):
            found.setdefault(version, tag)
    return [(found[version], version) for version in sorted(found)]


def between(repository: Repository | None, span: str) -> list[str]:
    """The release tags of ``FIRST..LAST``, both included; raises UsageProblem for other ends."""
    first, _, last = span.partition("..")
    if repository is None:
        raise UsageProblem(
            f"--upstream {span!r} needs a repository with tags; without one name the releases in"
            " order: --upstream FIRST --target NEXT --target LAST"
        )
    ends = []
    if not first or not last:
        raise UsageProblem(f"--upstream {span!r} needs both ends: FIRST..LAST")
    for name in (first, last):
        version = version_of(name)
        if version is None or repository.commit(f"refs/tags/{name}") is None:
            raise UsageProblem(
                f"--upstream {span!r}: {name!r} is no release tag{_way(repository, name)}"
            )
        ends.append(version)
    inner = [(t, v) for t, v in release_tags(repository, ends[0], ends[1]) if v != ends[1]]
    tags = [first, *(tag for tag, _ in inner), *([last] if ends[0] != ends[1] else [])]
    if ends[0] > ends[1]:
        raise UsageProblem(
            f"--upstream {span!r} runs backwards; the oldest comes first: {last}..{first}"
        )
    if len(tags) > _MOST_RELEASES:
        raise UsageProblem(f"--upstream {span!r} names more than {_MOST_RELEASES} releases")
    return tags


def _way(repository: Repository, name: str) -> str:
    """What to do about an end of a range that is no tag of a release."""
    if name.startswith(RELEASE_PREFIX):
        return (
            "; a range is one of tags, releases of the index are named one by one: --upstream"
            f" {name} --target {RELEASE_PREFIX}NEXT"
        )
    if version_of(name) is None and repository.commit(name):
        return "; a range is one of release tags, any other commit can follow it: --target " + name
    nearest = nearest_tags(name, repository.tags())
    return f"; nearest tags: {', '.join(nearest)}" if nearest else ""


def blobs_of(repository: Repository, commit: str, paths: Iterable[str]) -> dict[str, str]:
    """The blob id of each of the files that a commit has; paths are those of the repository."""
    asked = sorted(set(paths))
    if not asked:
        return {}
    out = repository.run(
        "ls-tree", "-r", "-z", "--full-tree", "--end-of-options", commit, "--", *asked
    )
    found: dict[str, str] = {}
    for record in out.split(b"\0")[:-1]:
        meta, _, name = record.partition(b"\t")
        mode, _, blob = meta.decode("ascii").split(" ")
        if mode in REGULAR:
            found[name.decode("utf-8", "backslashreplace")] = blob
    return {path: found[path] for path in asked if path in found}


def contents_of(repository: Repository, blobs: Sequence[str]) -> Mapping[str, bytes]:
    """The content of each blob, true to its id; those that cannot be read are left out."""
    contents = repository.blobs(blobs, [MAX_PYTHON] * len(blobs))
    return {
        blob: content
        for blob, content in zip(blobs, contents, strict=True)
        if not isinstance(content, Unreadable)
    }


def holders(repository: Repository, commit: str, text: str, folder: str) -> list[str]:
    """Some Python files of a commit (by its id), below a folder, that hold a text."""
    # `git grep` knows no --end-of-options; an id cannot be an option.
    out = repository.run(
        *("grep", "-l", "-z", "-F", "--full-name", "--no-textconv", "--no-color"),
        *("--no-recurse-submodules", "-e", text, commit),
        *(("--", folder) if folder else ()),
        accept=(0, 1),
    )
    names = [n.decode("utf-8", "backslashreplace") for n in out.split(b"\0") if n]
    paths = [name.removeprefix(f"{commit}:") for name in names]
    return [path for path in paths if path.endswith(".py")][:_MOST_HOLDERS]


def touching(
    repository: Repository, before: str, after: str, paths: Iterable[str], most: int
) -> list[Repair] | None:
    """The commits of ``after`` that ``before`` lacks and that touch a file, newest first.

    None where there are more than ``most``.
    """
    # A subject cannot hold this, whoever wrote it.
    mark = secrets.token_hex(16)
    out = repository.run(
        *("log", "--topo-order", "--no-ext-diff", "--no-textconv", "--no-show-signature"),
        *("--no-mailmap", "--no-color", f"--max-count={most + 1}"),
        *(f"--format={mark}%H%x09%cI%x09%s", "--end-of-options"),
        *(after, f"^{before}", "--", *sorted(set(paths))),
    ).decode("utf-8", "replace")
    found = [Repair(*record.rstrip("\n").split("\t", 2)) for record in out.split(mark)[1:]]
    return found if len(found) <= most else None
