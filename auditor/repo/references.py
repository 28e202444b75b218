"""Turns the reference someone typed into a commit, or says what would have worked."""

from __future__ import annotations

import difflib
import itertools
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from packaging.version import InvalidVersion, Version

from auditor.errors import UsageProblem
from auditor.repo.git import Repository

RELEASE_PREFIX = "pypi:"
DISTRIBUTION = "sglang"
"""What upstream calls its releases in the package index."""
OPTION = {"fork": "--rev", "upstream": "--upstream", "base": "--upstream", "target": "--target"}
"""The command line option by which each side is given."""


def resolve(repository: Repository, ref: str, option: str) -> tuple[str, str]:
    """The commit a reference names, and a remark where it could mean two. Raises UsageProblem.

    ``option`` is how the reference was given.
    """
    wrong = _malformed(ref)
    if wrong:
        raise UsageProblem(f"{option} {ref!r} {wrong}")
    commit = repository.commit(f"refs/tags/{ref}")
    if commit is not None:
        others = {repository.commit(f"refs/heads/{ref}")}
        if re.fullmatch(r"[0-9a-f]{4,64}", ref):
            ids = (repository.line("rev-parse", f"--disambiguate={ref}") or "").split()
            others |= {repository.commit(found) for found in ids}
        twin = others - {None, commit}
        return commit, f"{ref} is a tag and also names another commit; the tag is taken" * bool(
            twin
        )
    commit = repository.commit(ref)
    if commit is None:
        raise UsageProblem(_unresolved(repository, ref, option))
    return commit, ""


def _malformed(ref: str) -> str:
    if not ref.strip():
        return "is empty; name a tag, a commit, pypi:VERSION or a folder"
    if not ref.isprintable():
        return "holds control characters and cannot be a reference"
    if ref.startswith("-"):
        return "begins with '-' and cannot be a reference"
    return "names a file or a search, not a tag or commit" if ":" in ref else ""


def _unresolved(repository: Repository, ref: str, option: str) -> str:
    version = version_of(ref)
    message = f"{option} {ref!r} is no tag or commit of the repository"
    nearest = nearest_tags(ref, repository.tags())
    if nearest:
        message += f"; nearest tags: {', '.join(nearest)}"
    ways = []
    if version and option in (OPTION["upstream"], OPTION["target"]):
        ways.append(f"from the package index: {option} {RELEASE_PREFIX}{version}")
    if Path(ref).is_dir():
        ways.append(f"for the folder of that name: {option} ./{ref}")
    if repository.shallow:
        fetch = f"git fetch --depth=1 origin tag {shlex.quote(ref)}"
        ways.append(f"a shallow clone may lack the tag: {fetch}")
    return "\n".join((message, "; ".join(ways))) if ways else message


def nearest_tags(ref: str, tags: Sequence[str], count: int = 3) -> list[str]:
    """The tags someone may have meant: by version where the name is one, else by spelling."""
    version = version_of(ref)
    if version is None:
        return difflib.get_close_matches(ref, tags, count)
    versions = {tag: found for tag in tags if (found := version_of(tag))}

    def distance(tag: str) -> tuple[int, ...]:
        pairs = itertools.zip_longest(version.release, versions[tag].release, fillvalue=0)
        post = abs((version.post or 0) - (versions[tag].post or 0))
        return (*(abs(mine - theirs) for mine, theirs in pairs), post, versions[tag].is_prerelease)

    return sorted(versions, key=distance)[:count]


def version_of(name: str) -> Version | None:
    """The release that a tag name such as ``v0.5.9.post1`` stands for, None for other names."""
    if not re.fullmatch(r"v?\d+(\.\d+)+[\w.]*", name):
        return None
    try:
        return Version(name)
    except InvalidVersion:
        return None


def release_of(ref: str) -> Version | None:
    """The release of upstream's that ``v0.5.9`` or ``pypi:0.5.9`` names, None for other names."""
    if not ref.startswith(RELEASE_PREFIX):
        return version_of(ref)
    name, equals, version = ref.removeprefix(RELEASE_PREFIX).rpartition("==")
    return version_of(version.strip()) if not equals or name.strip() == DISTRIBUTION else None
