"""Finds the release and the commit that ended a finding, in the history of its files alone."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from packaging.version import Version

from auditor.checks import CHECKS
from auditor.checks.sides import Sides, unmarked
from auditor.model import Finding, Hit, Lifetime, Repair
from auditor.repo.git import GitError, Repository
from auditor.repo.lineage import blobs_of, contents_of, holders, release_tags, touching
from auditor.repo.references import RELEASE_PREFIX, version_of
from auditor.repo.snapshot import PACKAGE, Snapshot
from auditor.rulebook import Rulebook
from auditor.source.facts import FunctionFacts, ModuleFacts, dotted
from auditor.source.names import module_name
from auditor.source.results import ResultStore, content_key
from auditor.source.store import FactStore

_MOST_RELEASES = 40
"""Newer releases that a finding is looked for in."""
_MOST_COMMITS = 120
"""Commits between two releases that are judged for one finding."""
_MOST_WIDE = 24
"""The same where all files of a release are judged, which takes a second for each."""
_ROUNDS = 3
_MOST_FILES = 24
_KEPT = 100


Whole = Callable[[Sequence[str]], Sequence[frozenset[tuple[str, str]]]]
"""Gives (qualified name, attribute) of all defects of each of some release tags."""


class State(msgspec.Struct, frozen=True):
    """What some files have: (qualified name, attribute) of each defect and of each wait, names."""

    defects: frozenset[tuple[str, str]]
    waits: frozenset[tuple[str, str]]
    names: frozenset[str]


class Endings:
    """Asks commits of one repository what they have at the symbol of a finding.

    A commit is judged by a few of its files: the finding's own, those of its evidence, and those of
    the bases of their classes. Equal files are judged once. A change elsewhere is not seen, so an
    answer counts only where these files show the defect before and none after; where they do not,
    they are judged among all files that were extracted of the two releases, if those are known.
    """

    def __init__(
        self, repository: Repository, folder: str, book: Rulebook, store: FactStore
    ) -> None:
        """``folder`` holds the package in every commit, relative to the repository's top."""
        self.repository = repository
        self.folder = folder
        self.book = book
        self.store = store
        self.known: dict[frozenset[tuple[str, str]], State] = {}
        self.contents: dict[str, bytes] = {}
        self.paths: dict[str, set[str]] = {}

    def watch(self, finding: Finding, paths: Iterable[str] = ()) -> None:
        """Takes the files of a finding, in paths of the repository, for those that tell of it.

        Findings of one file share theirs, so that a commit is judged once for all of them.
        """
        own = finding.hit.where.symbol.path
        found = {own, *(e.path for e in finding.hit.evidence), *paths}
        self.paths.setdefault(own, set()).update(sorted(p for p in found if self._package(p)))

    def state(self, commit: str, hit: Hit, among: frozenset[str] = frozenset()) -> str:
        """``defect``, ``gated``, ``present`` or ``absent``, as for the other sides of an audit."""
        symbol = hit.where.symbol
        paths = self.paths[symbol.path]
        found = self.seen(commit, paths | among)
        if symbol.qualname not in found.names:
            first = symbol.qualname.partition(".")[0]
            kind = "class" if "." in symbol.qualname else "def"
            moved = holders(self.repository, commit, f"{kind} {first}", self.folder)
            if set(moved) - paths and len(paths) < _MOST_FILES:
                paths.update(moved)
                found = self.seen(commit, paths | among)
        asked = pairs(hit)
        if asked & found.defects:
            return "defect"
        if asked & found.waits:
            return "gated"
        return "present" if symbol.qualname in found.names else "absent"

    def same_text(self, hit: Hit, before: str, after: str) -> bool:
        """Whether a finding's function, and what it calls in its file, are word for word alike."""
        first = self.texts(before, hit)
        return bool(first) and first == self.texts(after, hit)

    def texts(self, commit: str, hit: Hit) -> set[bytes]:
        """A finding's function in a commit, with what it calls in its file; empty without it."""
        path = hit.where.symbol.path
        blobs = blobs_of(self.repository, commit, [path])
        self._load(blobs)
        return texts_of(self.contents.get(blobs.get(path, ""), b""), hit)

    def repair(
        self, hit: Hit, before: str, after: str, among: frozenset[str] = frozenset()
    ) -> Repair | None:
        """The last commit between two that took the defect away, None where that cannot be told.

        What was reverted and came again is answered with the commit that brought it again.
        ``among`` are the files to judge with where those of the finding do not tell.
        """
        most = _MOST_COMMITS
        if not self._ends(hit, before, after, frozenset()):
            most = _MOST_WIDE
            if not among or not self._ends(hit, before, after, among):
                return None
        else:
            among = frozenset()
        paths = self.paths[hit.where.symbol.path]
        for _ in range(_ROUNDS):
            known = len(paths)
            answer = self._last_change(hit, before, after, among, most)
            if len(paths) == known:  # no commit showed the symbol in yet another file
                return answer
        return answer

    def _ends(self, hit: Hit, before: str, after: str, among: frozenset[str]) -> bool:
        if self.state(before, hit, among) != "defect":
            return False
        return self.state(after, hit, among) != "defect"

    def _last_change(
        self, hit: Hit, before: str, after: str, among: frozenset[str], most: int
    ) -> Repair | None:
        paths = self.paths[hit.where.symbol.path]
        commits = touching(self.repository, before, after, paths, most)
        last: Repair | None = None
        for commit in commits or ():
            if self.state(commit.sha, hit, among) == "defect":
                return last
            last = commit
        parent = last and self.repository.commit(f"{last.sha}^")
        return last if parent and self.state(parent, hit, among) == "defect" else None

    def seen(self, commit: str, paths: Iterable[str]) -> State:
        """What files of a commit have, judged with the bases of their classes and nothing else.

        Paths are those of the repository. Raises GitError.
        """
        blobs = blobs_of(self.repository, commit, paths)
        for _ in range(_ROUNDS):
            facts = self._facts(blobs)
            bases = {p for path, module in facts.items() for p in self._bases(module, path)}
            more = blobs_of(self.repository, commit, bases - blobs.keys())
            if not more or len(more) > _MOST_FILES:
                break
            blobs |= more
        key = frozenset(blobs.items())
        if key not in self.known:
            self.known[key] = self._judge(blobs)
        return self.known[key]

    def _load(self, blobs: Mapping[str, str]) -> None:
        fresh = sorted({blob for blob in blobs.values() if blob not in self.contents})
        self.contents.update(contents_of(self.repository, fresh))

    def _facts(self, blobs: Mapping[str, str]) -> dict[str, ModuleFacts]:
        self._load(blobs)
        sources = {
            self._package(path): self.contents[blob]
            for path, blob in blobs.items()
            if blob in self.contents
        }
        return self.store.facts(sources)[0]

    def _bases(self, module: ModuleFacts, path: str) -> Iterator[str]:
        """The files that the bases of a file's classes may be imported from."""
        used = {dotted(base).partition(".")[0] for known in module.classes for base in known.bases}
        for entry in module.imports:
            if entry.name in used and entry.module.partition(".")[0] == PACKAGE:
                inner = entry.module.replace(".", "/")
                if module_name(path) != entry.module:
                    yield self._place(f"{inner}.py")
                    yield self._place(f"{inner}/__init__.py")

    def _judge(self, blobs: Mapping[str, str]) -> State:
        sources = {
            self._package(path): self.contents[blob]
            for path, blob in blobs.items()
            if blob in self.contents
        }
        snapshot = Snapshot.from_sources(sources)
        sides = Sides([snapshot], self.book.vocabulary, self.store, unmarked)
        [view] = sides.views()
        defects: set[tuple[str, str]] = set()
        norms = {name: check.learn([view]) for name, check in CHECKS.items()}
        for rule in self.book.rules:
            if rule.check in CHECKS:
                for hit in CHECKS[rule.check].judge(rule.params, norms[rule.check], view):
                    defects |= pairs(hit)
        waits = {
            (reading.function.facts.qualname, reading.root)
            for reading in view.readings.readings
            if reading.gated and not reading.optional
        }
        names = {f.qualname for module in self._facts(blobs).values() for f in _functions(module)}
        return State(frozenset(defects), frozenset(waits), frozenset(names))

    def _package(self, path: str) -> str:
        """The package-relative path of a file of the repository, empty for one outside of it."""
        prefix = f"{self.folder}/" if self.folder else ""
        return f"{PACKAGE}/{path[len(prefix) :]}" if path.startswith(prefix) else ""

    def _place(self, path: str) -> str:
        return f"{self.folder}{path[len(PACKAGE) :]}".lstrip("/")


_DEFINITION = re.compile(
    rb"^([ \t]*)(?:(?:async[ \t]+)?def[ \t]+(\w+)[ \t]*\(|class[ \t]+(\w+))", re.MULTILINE
)
_CALLED = re.compile(rb"(\w+)\s*\(")


def texts_of(data: bytes, hit: Hit) -> set[bytes]:
    """The function of a hit in a file, and those of the file that are called from it by name.

    Where its class is not there, all functions of its name stand for it.
    """
    found: dict[bytes, list[tuple[bytes, bytes, bytes]]] = {}
    around: list[tuple[bytes, bytes]] = []  # the classes that a definition is in, with indents
    for match in _DEFINITION.finditer(data):
        while around and len(around[-1][0]) >= len(match[1]):
            around.pop()
        if match[3]:
            around.append((match[1], match[3]))
            continue
        indent = re.escape(match[1])
        end = re.compile(rb"^(?!" + indent + rb"[ \t])[ \t]*[^\s)#]", re.MULTILINE)
        after = end.search(data, match.end())
        stop = after.start() if after else len(data)
        owner = around[-1][1] if around else b""
        text, rest = data[match.start() : stop].rstrip(), data[match.end() : stop]
        found.setdefault(match[2], []).append((owner, text, rest))
    first, _, name = hit.where.symbol.qualname.rpartition(".")
    named = found.get(name.encode(), [])
    owner = first.rpartition(".")[2].encode()
    fresh = [each for each in named if each[0] == owner] or named
    texts: set[bytes] = set()
    while fresh:
        texts |= {text for _, text, _ in fresh}
        called = {name for _, _, rest in fresh for name in _CALLED.findall(rest)}
        fresh = [each for name in called for each in found.get(name, ()) if each[1] not in texts]
    return texts


def pairs(hit: Hit) -> set[tuple[str, str]]:
    """(qualified name, attribute) of all that a hit is about."""
    return {(hit.where.symbol.qualname, root) for root in hit.anchor.split(",")}


def _functions(module: ModuleFacts) -> Iterator[FunctionFacts]:
    yield from module.functions
    for known in module.classes:
        yield from known.methods


class _Ending(msgspec.Struct, frozen=True):
    """The release that no longer has a finding, and the commit of it; both may be unknown."""

    release: str | None
    repair: Repair | None


def of_findings(
    findings: Sequence[Finding],
    fork: Snapshot,
    upstream: Snapshot,
    targets: Sequence[Snapshot],
    book: Rulebook,
    cache: Path | None,
    whole: Whole,
) -> list[Finding]:
    """The findings with ``fixed_in`` and ``fixed_by`` from the fork's own history, where it tells.

    Asked are those on code that upstream has too, in the release tags after upstream's, up to the
    newest ``--target`` that is a release; with one, a finding that is not fixed there is not asked,
    and one that the last of them has again counts as not fixed.
    Without such tags nothing is done. ``whole`` judges a release in full: what a few files say of
    the first one without the defect counts only where all of them agree.
    """
    repository = fork.repository
    ends = [found for target in targets if (found := _version(target)) is not None]
    wanted = [f for f in findings if _asked(f, bool(ends))]
    if repository is None or fork.folder is None or not wanted:
        return list(findings)
    start = _start(repository, upstream)
    if start is None:
        return list(findings)
    first, version = start
    tags = release_tags(repository, version, max(ends) if ends else None)[:_MOST_RELEASES]
    commits = [
        (tag, commit) for tag, _ in tags if (commit := repository.commit(f"refs/tags/{tag}"))
    ]
    if not commits:
        return list(findings)
    results: ResultStore[dict[str, _Ending]] = ResultStore(
        cache and cache / "history", dict[str, _Ending], _KEPT
    )
    told = [repr((finding.fingerprint, finding.hit)) for finding in wanted]
    where = [str(repository.directory), fork.folder, first]
    key = content_key(["fixed by", book.digest, *where, *map(repr, commits), *told], ())
    known = results.load(key)
    if known is None:
        with contextlib.closing(FactStore(cache, alone=True)) as store:
            search = Endings(repository, fork.folder, book, store)
            known = _confirmed(_search(search, wanted, first, commits), wanted, whole)
        results.save(key, known)
    return [_told(finding, known.get(finding.fingerprint)) for finding in findings]


def _asked(finding: Finding, bounded: bool) -> bool:
    origins = ("fixed-upstream",) if bounded else ("inherited", "fixed-upstream")
    return finding.category != "serve" and finding.origin in origins


def _confirmed(
    found: Mapping[str, _Ending], findings: Sequence[Finding], whole: Whole
) -> dict[str, _Ending]:
    tags = sorted({ending.release for ending in found.values() if ending.release})
    defects = dict(zip(tags, whole(tags), strict=True)) if tags else {}
    hits = {finding.fingerprint: finding.hit for finding in findings}
    return {
        fingerprint: ending
        for fingerprint, ending in found.items()
        if ending.release and not pairs(hits[fingerprint]) & defects[ending.release]
    }


def _start(repository: Repository, upstream: Snapshot) -> tuple[str, Version] | None:
    """Upstream's commit in the fork's repository and the release that it is, or comes after."""
    version = _version(upstream)
    if upstream.repository is repository and upstream.commit:
        if version is None:
            merged = filter(None, map(version_of, repository.tags(upstream.commit)))
            version = max(merged, default=None)
        return None if version is None else (upstream.commit, version)
    for tag in repository.tags():
        if version is not None and version_of(tag) == version:
            commit = repository.commit(f"refs/tags/{tag}")
            return None if commit is None else (commit, version)
    return None


def _version(side: Snapshot) -> Version | None:
    return version_of(side.ref.removeprefix(RELEASE_PREFIX).rpartition("==")[2])


def _search(
    search: Endings, findings: Sequence[Finding], first: str, commits: Sequence[tuple[str, str]]
) -> dict[str, _Ending]:
    for finding in findings:
        search.watch(finding)
    found: dict[str, _Ending] = {}
    for finding in findings:
        hit = finding.hit
        with contextlib.suppress(GitError):
            # Most old findings are still there in the newest release, and the text often tells.
            newest = commits[-1][1]
            if search.same_text(hit, first, newest) or search.state(first, hit) != "defect":
                continue
            if search.state(newest, hit) == "defect":
                continue
            before = first
            for tag, commit in commits:
                state = search.state(commit, hit)
                if state in ("gated", "present"):
                    found[finding.fingerprint] = _Ending(tag, search.repair(hit, before, commit))
                if state != "defect":
                    break
                before = commit
    return found


def _told(finding: Finding, ending: _Ending | None) -> Finding:
    if ending is None or ending.release is None:
        return finding
    return msgspec.structs.replace(finding, fixed_in=ending.release, fixed_by=ending.repair)


def of_lifetimes(
    lives: Sequence[Lifetime],
    repository: Repository,
    folder: str,
    commits: Mapping[str, str],
    extracted: Mapping[str, Sequence[str]],
    book: Rulebook,
    cache: Path | None,
) -> list[Lifetime]:
    """The lifetimes with the commit that ended each.

    ``commits`` are those of the releases, ``extracted`` their files that matter at all.
    """
    ended = [life for life in lives if life.ended in commits and life.last in commits]
    if not ended:
        return list(lives)
    results: ResultStore[dict[str, Repair]] = ResultStore(
        cache and cache / "history", dict[str, Repair], _KEPT
    )
    told = [repr((life.finding.hit, life.last, life.ended)) for life in ended]
    where = [str(repository.directory), folder, *map(repr, sorted(commits.items()))]
    key = content_key(["lifetimes", book.digest, *where, *told], ())
    known = results.load(key)
    if known is None:
        known = {}
        with contextlib.closing(FactStore(cache, alone=True)) as store:
            search = Endings(repository, folder, book, store)
            for life in ended:
                search.watch(life.finding)
            for life, name in zip(ended, told, strict=True):
                assert life.ended is not None
                with contextlib.suppress(GitError):
                    before, after = commits[life.last], commits[life.ended]
                    among = frozenset((*extracted[life.last], *extracted[life.ended]))
                    repair = search.repair(life.finding.hit, before, after, among)
                    if repair is not None:
                        known[name] = repair
        results.save(key, known)
    by_life = dict(zip(map(id, ended), told, strict=True))
    return [
        msgspec.structs.replace(life, repair=known.get(by_life.get(id(life), ""))) for life in lives
    ]
