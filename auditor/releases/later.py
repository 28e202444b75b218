"""Tells code that upstream wrote after its release from the fork's own, by later releases."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from packaging.version import Version

from auditor.errors import UsageProblem
from auditor.model import Finding, Hit
from auditor.releases.fixed_by import Endings, Whole, pairs, texts_of
from auditor.repo.git import GitError
from auditor.repo.lineage import release_tags
from auditor.repo.references import RELEASE_PREFIX, release_of
from auditor.repo.releases import cached_releases
from auditor.repo.snapshot import Snapshot, open_wheel
from auditor.rulebook import Rulebook
from auditor.source.results import ResultStore, content_key
from auditor.source.store import FactStore
from auditor.triage.findings import severity_of, taken_from

_MOST_RELEASES = 40
"""Later releases that are asked, the nearest first; as many branches."""
_KEPT = 100
_BLAMED = ("introduced", "regressed")

Texts = Mapping[str, set[bytes]]
"""The fork's text of each finding's function, by fingerprint."""


class Around(NamedTuple):
    """What a fork's findings are held against.

    ``sources`` are the fork's files by package-relative path, ``earlier`` upstream and the merge
    base, ``refs`` all that is upstream's in the repository.
    """

    fork: Snapshot
    sources: Mapping[str, bytes]
    earlier: Sequence[Snapshot]
    refs: Mapping[str, str]


def of_findings(
    findings: Sequence[Finding], around: Around, book: Rulebook, cache: Path | None, whole: Whole
) -> list[Finding]:
    """The findings, those that a later release of upstream's has in the same text as inherited.

    Later releases are tags and branches of the repository, and wheels in the cache, which are
    judged in ``whole``. A later release that waits where the fork does not is no excuse: then only
    half of its change was taken. Nor is one that lost the wait as the fork did, in other text than
    this, which upstream's release or the merge base has too. Where it never waited there, upstream
    came to wait around it, and a later release must show the defect. Of what stays the fork's it is
    said what that rests on.
    """
    blamed = [f for f in findings if f.category == "sync" and f.origin in _BLAMED]
    if not blamed:
        return list(findings)
    at_home = {around.fork.report_path(path): path for path in around.sources}
    texts = {f.fingerprint: _text(f, around.sources, at_home) for f in blamed}
    version = _version(around.earlier[0])
    commits = _later_commits(around, version)
    wheels = _later_wheels(cache, version, {name for name, _ in commits})
    asked = [f for f in blamed if texts[f.fingerprint]]
    old = {f.fingerprint for f in asked if _is_old(f, texts, around, at_home)}
    asked = [f for f in asked if f.origin == "introduced" or f.fingerprint not in old]
    taken = _in_history(asked, texts, old, around, commits, book, cache) if commits else {}
    rest = [f for f in asked if f.fingerprint not in taken]
    taken |= _in_wheels(rest, texts, at_home, wheels, whole)
    # Not the wheels by name: what a report says of the fork's own is the same with any cache.
    told = "no later release in the repository tells of it"
    if commits:
        told = f"no later release in the repository, up to {commits[-1][0]}, has it in this text"
    return [
        _taken(f, taken[f.fingerprint], around.earlier[0].ref, book)
        if f.fingerprint in taken
        else _resting(f, told)
        for f in findings
    ]


def _text(finding: Finding, sources: Mapping[str, bytes], at_home: Mapping[str, str]) -> set[bytes]:
    path = at_home.get(finding.hit.where.symbol.path, "")
    return texts_of(sources.get(path, b""), finding.hit)


def _is_old(finding: Finding, texts: Texts, around: Around, at_home: Mapping[str, str]) -> bool:
    """Whether upstream's release, or the merge base, has the text too."""
    path = at_home[finding.hit.where.symbol.path]
    for side in around.earlier:
        (_, content) = next(side.read_many([path]))
        if isinstance(content, bytes):
            if texts_of(content, finding.hit) == texts[finding.fingerprint]:
                return True
    return False


def _version(upstream: Snapshot) -> Version | None:
    """The release that upstream is, or comes after; None where that cannot be told."""
    version = release_of(upstream.ref)
    if version is None and upstream.repository is not None and upstream.commit:
        merged = filter(None, map(release_of, upstream.repository.tags(upstream.commit)))
        version = max(merged, default=None)
    return version


def _later_commits(around: Around, version: Version | None) -> list[tuple[str, str]]:
    """Name and commit of upstream's releases after its own, then of its branches."""
    repository = around.fork.repository
    if repository is None or around.fork.folder is None:
        return []
    tags = [tag for tag, _ in release_tags(repository, version)] if version is not None else []
    named = [(tag, sha) for tag in tags if (sha := around.refs.get(f"refs/tags/{tag}"))]
    remotes = "refs/remotes/"
    branches = [
        (name.removeprefix(remotes), sha)
        for name, sha in sorted(around.refs.items())
        if name.startswith(remotes)
    ]
    return [*named[:_MOST_RELEASES], *branches[:_MOST_RELEASES]]


def _later_wheels(
    cache: Path | None, version: Version | None, tags: Collection[str]
) -> list[tuple[str, Path]]:
    """Releases in the cache that have no tag in the repository, oldest first."""
    if cache is None or version is None:
        return []
    tagged = {release_of(tag) for tag in tags}
    found = sorted(cached_releases(cache).items())
    return [
        (f"{RELEASE_PREFIX}{release}", wheel)
        for release, wheel in found
        if release > version and release not in tagged
    ][:_MOST_RELEASES]


def _in_history(
    findings: Sequence[Finding],
    texts: Texts,
    old: Collection[str],
    around: Around,
    later: Sequence[tuple[str, str]],
    book: Rulebook,
    cache: Path | None,
) -> dict[str, str]:
    """The first of some commits that has the text and the defect of a finding, by fingerprint.

    ``old`` are the findings whose text upstream has had all along.
    """
    fork, repository = around.fork, around.fork.repository
    assert repository is not None and fork.folder is not None
    results: ResultStore[dict[str, str]] = ResultStore(
        cache and cache / "history", dict[str, str], _KEPT
    )
    asked = [repr((f.fingerprint, f.hit, sorted(texts[f.fingerprint]))) for f in findings]
    where = [str(repository.directory), fork.folder, fork.commit or "", *map(repr, later)]
    key = content_key(["later", book.digest, *where, *asked, *sorted(old)], ())
    known = results.load(key)
    if known is not None:
        return known
    found: dict[str, str] = {}
    with contextlib.closing(FactStore(cache, alone=True)) as store:
        search = Endings(repository, fork.folder, book, store)
        for finding in findings:
            search.watch(finding)
        for finding in findings:
            own, hit = texts[finding.fingerprint], finding.hit
            head = None if finding.fingerprint in old else fork.commit
            with contextlib.suppress(GitError):
                twins = (n for n, sha in later if _has_it(search, hit, own, sha, head))
                twin = next(twins, None)
                if twin is not None:
                    found[finding.fingerprint] = twin
    results.save(key, found)
    return found


def _has_it(search: Endings, hit: Hit, text: set[bytes], commit: str, head: str | None) -> bool:
    """Whether a commit has the text, and with it the defect.

    A wait there is no defect. Where the few files that are looked at show neither, and of the
    fork's own commit ``head`` with that text neither, the text decides, if there is one.
    """
    if search.texts(commit, hit) != text:
        return False
    state = search.state(commit, hit)
    if state in ("defect", "gated"):
        return state == "defect"
    if head is None or search.texts(head, hit) != text:
        return False
    return search.state(head, hit) != "defect"


def _in_wheels(
    findings: Sequence[Finding],
    texts: Texts,
    at_home: Mapping[str, str],
    wheels: Iterable[tuple[str, Path]],
    whole: Whole,
) -> dict[str, str]:
    """The same of releases in the cache."""
    found: dict[str, str] = {}
    for ref, wheel in wheels if findings else ():
        try:
            release = open_wheel(wheel, ref, "target")
        except UsageProblem:
            continue
        twins = list(_of_same_text(findings, texts, at_home, release, found))
        if twins:
            [defects] = whole([ref])
            found |= {f.fingerprint: ref for f in twins if pairs(f.hit) & defects}
    return found


def _of_same_text(
    findings: Iterable[Finding],
    texts: Texts,
    at_home: Mapping[str, str],
    release: Snapshot,
    found: Collection[str],
) -> Iterator[Finding]:
    for finding in findings:
        if finding.fingerprint not in found:
            path = at_home[finding.hit.where.symbol.path]
            (_, content) = next(release.read_many([path]))
            if isinstance(content, bytes):
                if texts_of(content, finding.hit) == texts[finding.fingerprint]:
                    yield finding


def _taken(finding: Finding, later: str, upstream: str, book: Rulebook) -> Finding:
    blame = taken_from(later, upstream)
    return msgspec.structs.replace(
        finding,
        severity=severity_of(book.rule(finding.rule), finding.hit, blame.origin),
        origin=blame.origin,
        origin_reason=blame.reason,
        since_base=blame.since_base,
    )


def _resting(finding: Finding, told: str) -> Finding:
    if finding.category != "sync" or finding.origin != "introduced":
        return finding
    return msgspec.structs.replace(finding, origin_reason=f"{finding.origin_reason}; {told}")
