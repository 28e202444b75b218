"""Finds the release that a tree is based on, by the files that it has unchanged."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from packaging.version import Version

from auditor.errors import UsageProblem
from auditor.model import Closest, Likeness
from auditor.repo.files import printable
from auditor.repo.git import GitError, Repository
from auditor.repo.installed import Distribution, distributions
from auditor.repo.lineage import release_tags
from auditor.repo.references import RELEASE_PREFIX, release_of
from auditor.repo.releases import cached_releases
from auditor.repo.snapshot import LAYOUTS, PACKAGE, Snapshot, open_wheel
from auditor.repo.upstream import own_count

Files = Mapping[str, str]
"""The Python files of a tree that count here: git's SHA-1 blob id by package-relative path."""

_SHOWN = 3
_FEW = 0.2
"""Below this share of unchanged files nothing is claimed.

A release has about half of its files from the one before it (0.5.7 to 0.5.23); a fork that was
written anew after 0.4.3 has a tenth."""
_TELLING = 20  # files; a smaller tree shows no kinship
_MOSTLY = 0.9
"""The share of what tells two trees apart that makes a third the one rather than the other."""
_BUILT = f"{PACKAGE}/_version.py"
_FORMAT = 2
"""Raised with every change of what is kept in the cache."""
_PYTHON = re.compile(rb"(?:\A|\0)100\d{3} blob ([0-9a-f]{40})\t([^\0]*\.py)(?=\0)")
_AT_ONCE = 2  # processes of git


class Release(NamedTuple):
    """A release at hand: ``ref`` is how to name it, ``commit`` or ``wheel`` is where it lies."""

    ref: str
    version: Version
    commit: str = ""
    wheel: Path | None = None

    @property
    def mark(self) -> str:
        """A text that changes when the files of the release do."""
        if self.wheel is None:
            return f"{self.ref} {self.commit}"
        told = self.wheel.stat()
        return f"{self.ref} {told.st_size} {told.st_mtime_ns} {told.st_ino}"


class Index(msgspec.Struct):
    """Which releases hold which files, for releases in a fixed order.

    ``holders`` give, by path and blob id, a bit for each release, the lowest first. ``totals``
    count the files of each release, 0 for one that could not be read.
    """

    key: str
    totals: list[int]
    holders: dict[str, dict[str, bytes]]


class Releases:
    """The releases that can be had without a download, held against a fork.

    They are the release tags of the fork's repository, and the wheels in the cache of versions that
    have no tag (``known``, oldest first). ``cache`` is a folder that keeps what each of them holds;
    None keeps nothing.
    """

    def __init__(self, fork: Snapshot, cache: Path | None) -> None:
        self._fork = fork
        self._cache = cache
        self._files = files_of(fork)
        self.known = _at_hand(fork, cache)
        self._index = _index(self.known, fork, cache)
        self._told = distributions(fork)
        self._ranking = self._rank(self._files)

    def closest(self) -> Closest:
        """The releases that share most files with the fork, of the files of both; best first."""
        found = tuple(self._likeness(at, equal) for at, equal in self._ranking[:_SHOWN])
        return Closest(found, "; ".join(self._notes(found)))

    @property
    def claimed(self) -> Distribution | None:
        """The release that the ``dist-info`` beside the package names and that is not at hand.

        Of those at hand, and where one of these has nearly all files, the files are the better
        witness.
        """
        told = self._told[0] if len(self._told) == 1 else None
        if told is None or told.release in {None, *(release.version for release in self.known)}:
            return None
        return None if self._version_of(self._files) else told

    def advice(self) -> str:
        """What to say to someone who named no upstream: the closest release, and what to type."""
        closest = self.closest()
        shares = _in_full(closest.found)
        note = f"; {closest.note}" if closest.note else ""
        ask = "say which upstream release to compare with"
        if self.claimed:
            way = f"--upstream {RELEASE_PREFIX}{self.claimed.version}"
            told = f"the dist-info beside the package says {self.claimed}"
            return f"{ask}: {way}; {told}{f' ({shares})' if shares else ''}"
        if not closest.found or not is_close(closest.found[0]):
            far = f"; no release at hand is close ({shares})" if shares else ""
            return f"{ask}: for example --upstream v0.5.17, or pypi:0.5.17{far}{note}"
        ref = closest.found[0].ref
        return f"{ask}: --upstream {ref}, the closest to this fork ({shares}){note}"

    def mismatch(self, upstream: Snapshot, *, related: bool) -> str:
        """A sentence where upstream is not the release that the fork is based on, else "".

        A fork between two releases may be held against either, and one of a post release or a
        candidate against any of the same release. ``related`` says that history shows both to be
        of one family, whatever their files say.
        """
        theirs = files_of(upstream)
        given = Likeness(upstream.ref, _count_equal(self._files, theirs), len(theirs))
        asked = self._version(upstream, theirs)
        claimed = self.claimed
        if claimed and claimed.release and asked:
            if _same_release(claimed.release, asked):
                return ""
            return (
                f"{given.ref} is not the release that the dist-info beside the package names,"
                f" {claimed}: compare with --upstream {RELEASE_PREFIX}{claimed.version}"
            )
        strange = not related and given.total >= _TELLING and not is_close(given)
        best = self._likeness(*self._ranking[0]) if self._ranking else None
        if best is None or not is_close(best) or (strange and asked is None):
            return _unlike(given, best) if strange else ""
        based = self.known[self._ranking[0][0]]
        # A branch or commit that went on after the fork left it is no mismatch: they meet in the
        # merge base. An older one is.
        order = asked or min(self._nearest(theirs) or based.version, based.version)
        if _same_release(order, based.version) or not self._sides_with(based, theirs):
            return ""
        relation, effect = (
            ("older", "what upstream changed in between counts as the fork's")
            if order < based.version
            else ("newer", "what upstream changed in between is held against the fork")
        )
        return (
            f"{given.ref} is {relation} than {best.ref}, the release that this fork is based on"
            f" ({_in_full((best, given))}); {effect}; compare with --upstream {best.ref}"
        )

    def _rank(self, files: Files) -> list[tuple[int, int]]:
        """Releases by their place, with the files that they share with a tree, closest first."""
        held: Counter[bytes] = Counter()
        for path, blob in files.items():
            held[self._index.holders.get(path, {}).get(blob, b"")] += 1
        equal = [0] * len(self.known)
        for bits, number in held.items():
            rest = int.from_bytes(bits, "little")
            while rest:
                low = rest & -rest
                equal[low.bit_length() - 1] += number
                rest ^= low
        totals = self._index.totals
        # Not the count alone: a later release has more files, and so more that are equal.
        shares = {
            at: number / (len(files) + totals[at] - number)
            for at, number in enumerate(equal)
            if number
        }
        order = sorted(shares, key=lambda at: (-shares[at], self.known[at].version))
        first = [at for at in order if shares[at] == shares[order[0]]]
        if len(first) > 1:
            order[: len(first)] = sorted(first, key=self._distance)
        return [(at, equal[at]) for at in order]

    def _distance(self, at: int) -> tuple[bool, int, Version]:
        """What tells releases of equal files apart: the ``dist-info``, then commits in between."""
        release, repository = self.known[at], self._fork.repository
        told = release.version not in {distribution.release for distribution in self._told}
        commits = 0
        if repository is not None and self._fork.commit and release.commit:
            span = f"{self._fork.commit}...{release.commit}"
            commits = int(repository.line("rev-list", "--count", span) or 0)
        return told, commits, release.version

    def _likeness(self, at: int, equal: int) -> Likeness:
        return Likeness(self.known[at].ref, equal, self._index.totals[at])

    def _notes(self, found: Sequence[Likeness]) -> Iterator[str]:
        """What qualifies the answer."""
        best = found[0] if found else None
        version = release_of(best.ref) if best else None
        for told in self._told:
            if told.release is None or told.release != version:
                yield f"the dist-info beside the package says {told}"
        if below := self._below_own_tag():
            yield (
                f"{found[0].ref} stands on this branch alone; where the fork made that tag itself,"
                f" compare with {below}"
            )
        unread = [
            r.ref for r, total in zip(self.known, self._index.totals, strict=True) if not total
        ]
        if unread:
            yield f"releases that could not be looked at: {', '.join(unread)}"

    def _below_own_tag(self) -> str:
        """The release below the closest one, where that is a tag which the fork may have made.

        Such a tag is of the same release, lies on the way to HEAD, and in no later release.
        """
        repository = self._fork.repository
        best = self.known[self._ranking[0][0]] if self._ranking else None
        if repository is None or best is None or not (best.commit and self._fork.commit):
            return ""
        tagged = [release for release in self.known if release.commit]
        lower = [
            r for r in tagged if r.version < best.version and _same_release(r.version, best.version)
        ]
        later = {r.ref: r.commit for r in tagged if r.version > best.version}
        with suppress(GitError):
            if (
                lower
                and not own_count(repository, best.commit, {"HEAD": self._fork.commit})
                and not own_count(repository, lower[-1].commit, {best.ref: best.commit})
                and own_count(repository, best.commit, later)
            ):
                return lower[-1].ref
        return ""

    def _version(self, upstream: Snapshot, files: Files) -> Version | None:
        """The release that upstream is: by its name, by a tag of its commit, or by its files."""
        named = release_of(upstream.ref)
        if named is not None:
            return named
        if upstream.repository is not None and upstream.repository is self._fork.repository:
            tagged = (r.version for r in self.known if r.commit and r.commit == upstream.commit)
            return next(tagged, None)
        return self._version_of(files)

    def _version_of(self, files: Files) -> Version | None:
        """The release that has nearly all of some files, and little else."""
        for at, equal in self._rank(files)[:1]:
            if equal >= _MOSTLY * max(len(files), self._index.totals[at]):
                return self.known[at].version
        return None

    def _nearest(self, files: Files) -> Version | None:
        ranked = self._rank(files)
        return self.known[ranked[0][0]].version if ranked else None

    def _sides_with(self, release: Release, theirs: Files) -> bool:
        """Whether the fork has the release's version of what tells it from upstream.

        Files that the fork changed itself, and those of a state in between, count for neither.
        """
        at = self.known.index(release)
        ours = {
            path: blob
            for path, blob in self._files.items()
            if int.from_bytes(self._index.holders.get(path, {}).get(blob, b""), "little") >> at & 1
        }
        with_release = sum(theirs.get(path) != blob for path, blob in ours.items())
        shared = self._files.items() & theirs.items()
        with_upstream = sum(path not in ours for path, _ in shared)
        return with_release > 0 and with_release >= _MOSTLY * (with_release + with_upstream)


def _same_release(one: Version, other: Version) -> bool:
    """Whether they differ at most as post releases and candidates of one release do."""
    return one.release == other.release


def _unlike(given: Likeness, best: Likeness | None) -> str:
    """What is said where upstream and fork have next to nothing in common."""
    told = [given] if best is None else [given, best]
    last = f"; the closest release is {best.ref}" if best is not None else ""
    return f"{given.ref} does not look like the upstream of this fork ({_in_full(told)}){last}"


def is_close(likeness: Likeness) -> bool:
    """Whether so many files are unchanged that a fork can be said to be based on a release."""
    return likeness.equal >= _FEW * likeness.total


def files_of(tree: Snapshot) -> Files:
    """The Python files that count; the one that a build writes does not."""
    return tree.content_ids([p for p in tree.paths if p.endswith(".py") and p != _BUILT])


def _count_equal(files: Files, others: Files) -> int:
    return len(files.items() & others.items())


def _in_full(found: Sequence[Likeness]) -> str:
    """How much of the first two releases is unchanged; empty for none."""
    parts: list[str] = []
    for told in found[:2]:
        many = f"{told.equal:,} of {told.total:,} Python files unchanged here"
        short = f"{told.equal:,} of {told.total:,}"
        percent = f"{100 * told.equal // max(told.total, 1)} %"
        parts.append(f"{told.ref}: {short if parts else many}, {percent}")
    return "; ".join(parts)


def _at_hand(fork: Snapshot, cache: Path | None) -> list[Release]:
    """The releases, oldest first; nothing for a tree that holds no package."""
    if fork.folder is None:
        return []
    found: dict[Version, Release] = {}
    if fork.repository is not None:
        commits = fork.repository.references("refs/tags")
        for tag, version in release_tags(fork.repository):
            if f"refs/tags/{tag}" in commits:
                found[version] = Release(tag, version, commits[f"refs/tags/{tag}"])
    for version, wheel in (cached_releases(cache) if cache is not None else {}).items():
        found.setdefault(version, Release(f"{RELEASE_PREFIX}{version}", version, wheel=wheel))
    return [found[version] for version in sorted(found)]


def _index(known: Sequence[Release], fork: Snapshot, cache: Path | None) -> Index:
    """What the releases hold, from the cache as long as they are the same ones."""
    # Of a repository that may lie about what a commit holds, nothing is believed for another one.
    place = str(fork.repository.directory.resolve()) if fork.repository is not None else ""
    digest = hashlib.sha256(repr((_FORMAT, place, fork.folder)).encode())
    kept = None if cache is None else cache / "closest" / f"{digest.hexdigest()}.msgpack"
    digest.update(repr([release.mark for release in known]).encode())
    key = digest.hexdigest()
    with suppress(OSError, msgspec.DecodeError):
        if kept is not None:
            index = msgspec.msgpack.decode(kept.read_bytes(), type=Index)
            if index.key == key:
                return index
    index = _indexed(key, _contents(known, fork, cache))
    if kept is not None:
        _keep(kept, index)
    return index


def _indexed(key: str, contents: Iterable[Files]) -> Index:
    totals: list[int] = []
    bits: dict[str, dict[str, int]] = {}
    for at, files in enumerate(contents):
        totals.append(len(files))
        for path, blob in files.items():
            of_path = bits.setdefault(path, {})
            of_path[blob] = of_path.get(blob, 0) | 1 << at
    size = len(totals) // 8 + 1
    holders = {
        path: {blob: held.to_bytes(size, "little").rstrip(b"\0") for blob, held in blobs.items()}
        for path, blobs in bits.items()
    }
    return Index(key, totals, holders)


def _keep(path: Path, value: object) -> None:
    # A cache that cannot be written costs time, never the run.
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".writing-", dir=path.parent) as fresh:
            (Path(fresh) / "value").write_bytes(msgspec.msgpack.encode(value))
            (Path(fresh) / "value").replace(path)


def _contents(known: Sequence[Release], fork: Snapshot, cache: Path | None) -> Iterator[Files]:
    """The files of each release, nothing of one that cannot be read."""
    repository = fork.repository
    # Where the fork has the package, else where upstream has it; "" comes last, it holds them all.
    folders = sorted(dict.fromkeys((fork.folder or "", *LAYOUTS)), key=lambda folder: not folder)

    def listed(release: Release) -> bytes:
        if repository is None or not release.commit:
            return b""
        return _listing(repository, release.commit, folders)

    # Git lists the next tags while this one is sorted in.
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for release, listing in zip(known, pool.map(listed, known), strict=True):
            if release.wheel is not None and cache is not None:
                yield _of_wheel(release.wheel, release.ref, release.mark, cache)
            else:
                yield _of_listing(listing, folders)


def _listing(repository: Repository, commit: str, folders: Sequence[str]) -> bytes:
    where = ("--", *folders) if all(folders) else ()
    try:
        return repository.run(
            *("ls-tree", "-r", "-z", "--full-tree", "--end-of-options", commit, *where)
        )
    except GitError:
        return b""


def _of_listing(listing: bytes, folders: Sequence[str]) -> Files:
    """The files of the first folder that holds any, as package-relative paths."""
    blobs = {printable(name): blob.decode("ascii") for blob, name in _PYTHON.findall(listing)}
    for folder in folders:
        prefix = f"{folder}/" if folder else ""
        inside = {
            f"{PACKAGE}/{name.removeprefix(prefix)}": blob
            for name, blob in blobs.items()
            if name.startswith(prefix)
        }
        if inside:
            inside.pop(_BUILT, None)
            return inside
    return {}


def _of_wheel(wheel: Path, ref: str, mark: str, cache: Path) -> Files:
    """The files of a wheel, which are hashed once as long as the wheel stays the same."""
    name = hashlib.sha256(f"{_FORMAT} {mark}".encode()).hexdigest()
    kept = cache / "closest" / f"{name}.wheel.msgpack"
    with suppress(OSError, msgspec.DecodeError):
        return msgspec.msgpack.decode(kept.read_bytes(), type=dict[str, str])
    try:
        files = files_of(open_wheel(wheel, ref, "upstream"))
    except UsageProblem:
        return {}
    _keep(kept, files)
    return files
