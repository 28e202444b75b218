"""Tells code that upstream wrote after its release from the fork's own, by later releases."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from auditor.endings import Endings, texts_of
from auditor.model import Finding, Hit
from auditor.repo.git import GitError, Repository
from auditor.repo.lineage import release_tags
from auditor.repo.references import RELEASE_PREFIX, version_of
from auditor.repo.snapshot import Snapshot
from auditor.rulebook import Rulebook
from auditor.source.results import ResultStore, content_key
from auditor.source.store import FactStore
from auditor.triage.findings import severity_of, taken_from

_MOST_RELEASES = 40
"""Later releases and branches that are asked, the nearest first."""
_KEPT = 100
_BLAMED = ("introduced", "regressed")


def of_findings(
    findings: Sequence[Finding],
    fork: Snapshot,
    sources: Mapping[str, bytes],
    sides: Sequence[Snapshot],
    refs: Mapping[str, str],
    book: Rulebook,
    cache: Path | None,
) -> list[Finding]:
    """The findings, those that a later release of upstream's has in the same text as inherited.

    ``sources`` are the fork's files by package-relative path, ``sides`` upstream and the merge
    base, ``refs`` all that is upstream's in the repository. Text that upstream's release or the
    merge base has too says nothing, and a later release that waits where the fork does not is no
    excuse: then only half of its change was taken. Of what stays the fork's it is said what that
    rests on.
    """
    repository = fork.repository
    blamed = [f for f in findings if f.category == "sync" and f.origin in _BLAMED]
    if not blamed:
        return list(findings)
    later = _later(repository, sides, refs) if repository is not None else []
    if repository is None or fork.folder is None or not later:
        return [_resting(f, "no later code of upstream's is at hand") for f in findings]
    data = {fork.report_path(path): content for path, content in sources.items()}
    texts = {f.fingerprint: texts_of(data.get(f.hit.where.symbol.path, b""), f.hit) for f in blamed}
    results: ResultStore[dict[str, str]] = ResultStore(
        cache and cache / "history", dict[str, str], _KEPT
    )
    commits = [side.commit for side in sides if side.commit]
    asked = [repr((f.fingerprint, f.hit, sorted(texts[f.fingerprint]))) for f in blamed]
    head = fork.commit or ""
    where = [str(repository.directory), fork.folder, head, *commits, *map(repr, later)]
    key = content_key(["later", book.digest, *where, *asked], ())
    known = results.load(key)
    if known is None:
        with contextlib.closing(FactStore(cache, alone=True)) as store:
            search = Endings(repository, fork.folder, book, store)
            known = _search(search, blamed, texts, commits, later, fork.commit)
        results.save(key, known)
    newest = later[-1][0]
    return [
        _taken(f, known[f.fingerprint], sides[0].ref, book)
        if f.fingerprint in known
        else _resting(f, f"nor does {newest} have it in this text")
        for f in findings
    ]


def _later(
    repository: Repository, sides: Sequence[Snapshot], refs: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Name and commit of upstream's releases after its own, then of its branches."""
    version = version_of(sides[0].ref.removeprefix(RELEASE_PREFIX).rpartition("==")[2])
    if version is None and sides[0].repository is repository and sides[0].commit:
        merged = filter(None, map(version_of, repository.tags(sides[0].commit)))
        version = max(merged, default=None)
    tags = [tag for tag, _ in release_tags(repository, version)] if version is not None else []
    named = [(tag, refs[name]) for tag in tags if (name := f"refs/tags/{tag}") in refs]
    branches = [(name, sha) for name, sha in sorted(refs.items()) if "refs/remotes/" in name]
    found = [*named[:_MOST_RELEASES], *branches[:_MOST_RELEASES]]
    return [(name.removeprefix("refs/remotes/"), sha) for name, sha in found]


def _search(
    search: Endings,
    findings: Sequence[Finding],
    texts: Mapping[str, set[bytes]],
    before: Sequence[str],
    later: Sequence[tuple[str, str]],
    head: str | None,
) -> dict[str, str]:
    for finding in findings:
        search.watch(finding)
    found: dict[str, str] = {}
    for finding in findings:
        own = texts[finding.fingerprint]
        with contextlib.suppress(GitError):
            if not own or any(search.texts(commit, finding.hit) == own for commit in before):
                continue
            for name, commit in later:
                if search.texts(commit, finding.hit) == own:
                    if _has_it(search, finding.hit, commit, head):
                        found[finding.fingerprint] = name
                    break
    return found


def _has_it(search: Endings, hit: Hit, commit: str, head: str | None) -> bool:
    """Whether a commit with the same text has the defect; believed where few files cannot tell."""
    if search.state(commit, hit) == "defect":
        return True
    return head is not None and search.state(head, hit) != "defect"


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
