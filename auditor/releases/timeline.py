"""Judges a row of releases, each by itself, and follows every finding through them."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from auditor.background import Background
from auditor.checks import CHECKS
from auditor.checks.sides import Sides, unmarked
from auditor.confirm.second import SecondReading
from auditor.model import (
    CONFIDENCES,
    Confidence,
    Finding,
    Hit,
    Lifetime,
    Side,
    SideInfo,
    Skipped,
    Symbol,
)
from auditor.repo.snapshot import Snapshot
from auditor.rulebook import Rule, Rulebook
from auditor.source.results import ResultStore, content_key
from auditor.source.store import FactStore
from auditor.triage.findings import Blame, triage

_KEPT = 400
"""Results of the history kept, two a release."""


class Seen(msgspec.Struct, frozen=True):
    """A finding of one release; ``body`` is a digest of the symbol's text after its first line."""

    finding: Finding
    body: str


class Verdict(msgspec.Struct, frozen=True):
    """What judging one release by itself gave.

    ``folder`` holds the package below the root of the release. ``waits`` are (qualified name,
    attribute) of reads behind a gate, ``names`` all qualified names of the extracted files,
    and ``files`` these, in report paths.
    """

    info: SideInfo
    folder: str
    seen: tuple[Seen, ...]
    waits: tuple[tuple[str, str], ...]
    names: tuple[str, ...]
    files: tuple[str, ...]
    skipped: tuple[Skipped, ...]

    @property
    def defects(self) -> frozenset[tuple[str, str]]:
        """(qualified name, attribute) of every finding, however certain."""
        hits = [one.finding.hit for one in self.seen]
        return frozenset((h.where.symbol.qualname, root) for h in hits for root in roots_of(h))


class Candidate(msgspec.Struct, frozen=True):
    """A release to be judged; ``mark`` tells its content without reading it, None if nothing does.

    ``open`` gives it as the side ``fork``.
    """

    ref: str
    open: Callable[[], Snapshot]
    mark: Callable[[], str | None]


def judge(
    candidates: Sequence[Candidate],
    book: Rulebook,
    cache: Path | None,
    alone: bool,
    told: Callable[[int, int], None],
) -> list[Verdict]:
    """The verdict of each release, those known by their content from the cache.

    The others are judged in processes of their own, two at once, from both ends of the row:
    neighbours share most files, and each file is parsed by whoever comes first. So no more than two
    releases are held at a time.
    """
    keys: ResultStore[str] = ResultStore(cache and cache / "history", str, _KEPT)
    kept: ResultStore[Verdict] = ResultStore(cache and cache / "history", Verdict, _KEPT)
    found: dict[int, Verdict] = {}
    for number, candidate in enumerate(candidates):
        short = _short_key(book, candidate)
        key = keys.load(short) if short else None
        known = kept.load(key) if key else None
        if known is not None:
            found[number] = known
    left = [number for number in range(len(candidates)) if number not in found]
    running: dict[str, tuple[int, Background[Verdict]]] = {}
    lanes = ("newest",) if alone else ("newest", "oldest")
    while left or running:
        told(len(found), len(candidates))
        for lane in lanes:
            if left and lane not in running:
                number = left.pop() if lane == "newest" else left.pop(0)
                work = _Work(candidates[number], book, cache)
                running[lane] = (number, Background(work, alone=alone))
        order = list(running)
        lane = order[Background.first([running[lane][1] for lane in order])]
        number, done = running.pop(lane)
        found[number] = done.result()
    return [
        msgspec.structs.replace(found[n], info=_named(found[n].info, candidate.ref))
        for n, candidate in enumerate(candidates)
    ]


def _named(info: SideInfo, ref: str) -> SideInfo:
    """Equal trees share a verdict, whatever they are called."""
    return msgspec.structs.replace(info, ref=ref)


def _short_key(book: Rulebook, candidate: Candidate) -> str | None:
    mark = candidate.mark()
    return None if mark is None else content_key(["mark", book.digest, mark], ())


class _Work:
    """Judges one release, or recalls it by what was read."""

    def __init__(self, candidate: Candidate, book: Rulebook, cache: Path | None) -> None:
        self.candidate = candidate
        self.book = book
        self.cache = cache

    def __call__(self) -> Verdict:
        folder = self.cache and self.cache / "history"
        keys: ResultStore[str] = ResultStore(folder, str, _KEPT)
        kept: ResultStore[Verdict] = ResultStore(folder, Verdict, _KEPT)
        snapshot = self.candidate.open()
        # Opened here: a connection to the database does not outlive a fork.
        with contextlib.closing(FactStore(self.cache, alone=True)) as store:
            sides = Sides([snapshot], self.book.vocabulary, store, unmarked)
            info = snapshot.info()
            about = ["verdict", self.book.digest, info.kind, str(info.commit), str(snapshot.folder)]
            key = content_key([*about, *map(repr, snapshot.skipped)], sides.digests())
            verdict = kept.load(key)
            if verdict is None:
                verdict = _verdict(sides, self.book.rules)
                kept.save(key, verdict)
        short = None if snapshot.skipped else _short_key(self.book, self.candidate)
        if short is not None:
            keys.save(short, key)
        return verdict


def _verdict(sides: Sides, rules: Sequence[Rule]) -> Verdict:
    [snapshot] = sides.snapshots
    [view] = sides.views()
    hits: list[tuple[Rule, Hit]] = []
    norms = {name: check.learn([view]) for name, check in CHECKS.items()}
    for rule in rules:
        if rule.check in CHECKS:
            judged = CHECKS[rule.check].judge(rule.params, norms[rule.check], view)
            hits += [(rule, hit) for hit in judged]

    # What it cannot read is said by an audit: here a row under Skipped means that a finding may be
    # missing for want of its file.
    second = SecondReading([view], sides.store.folder)
    hits = second.confirmed(hits)
    second.save()

    def report_path(side: Side, path: str) -> str:
        return snapshot.report_path(path)

    findings = triage([(*hit, Blame("unknown", "")) for hit in hits], report_path)
    seen = []
    for finding in findings:
        symbol, body = finding.hit.where.symbol, ""
        for function in view.functions.get(symbol.qualname, ()):
            if snapshot.report_path(function.path) == symbol.path:
                text = view.text(function).partition(b"\n")[2]
                body = hashlib.sha256(text).hexdigest()[:16] if text.strip() else ""
        seen.append(Seen(finding, body))
    waits = {
        (reading.function.facts.qualname, reading.root)
        for reading in view.readings.readings
        if reading.gated and not reading.optional
    }
    return Verdict(
        snapshot.info(),
        snapshot.folder or "",
        tuple(seen),
        tuple(sorted(waits)),
        tuple(sorted(view.functions)),
        tuple(map(snapshot.report_path, view.index.modules)),
        (*snapshot.skipped, *sides.skipped),
    )


class _Course:
    """A finding on its way through the releases: its latest sight, and where it came from."""

    def __init__(self, seen: Seen, start: int, reason: str) -> None:
        self.seen = seen
        self.start = start
        self.reason = reason
        self.last = start
        self.names: list[Symbol] = []

    @property
    def symbol(self) -> Symbol:
        return self.seen.finding.hit.where.symbol

    def go_on(self, seen: Seen, number: int) -> None:
        """Takes the sight of a later release."""
        symbol = seen.finding.hit.where.symbol
        if symbol != self.symbol:
            self.names = [*(name for name in self.names if name != symbol), self.symbol]
        self.seen = seen
        self.last = number


def lifetimes(
    verdicts: Sequence[Verdict], wanted: Callable[[Finding], bool], lowest: Confidence
) -> list[Lifetime]:
    """Every finding that some release has at ``lowest`` confidence or above, through the row.

    The qualified name and the anchor identify a finding, whatever file it is in. A method that now
    reads another buffer so goes on with it; where the symbol is gone, a new finding on the same
    anchor goes on with it if it has the same text, or the same method name in the same file. One
    that is still there with less confidence has not ended.
    """
    refs = [verdict.info.ref for verdict in verdicts]
    ended: list[Lifetime] = []
    active: list[_Course] = []
    for number, verdict in enumerate(verdicts):
        seen = [one for one in verdict.seen if wanted(one.finding)]
        matches = _matched(active, seen, verdict, verdicts[number - 1] if number else None)
        unread = {skipped.path for skipped in verdict.skipped}
        names, waits = set(verdict.names), set(verdict.waits)
        going: list[_Course] = []
        for course in active:
            if id(course) in matches:
                course.go_on(matches.pop(id(course)), number)
            elif course.symbol.path not in unread:
                reason = _how_it_ended(course, names, waits)
                ended.append(_lifetime(course, refs, number, reason))
                continue
            going.append(course)
        known = {id(course.seen) for course in going}
        before = set(verdicts[number - 1].names) if number else set()
        for one in seen:
            if id(one) in known or _below(one.finding.hit.confidence, lowest):
                continue
            new = one.finding.hit.where.symbol.qualname not in before
            reason = "came with the symbol" if new else _SINCE
            going.append(_Course(one, number, reason if number else ""))
        active = going
    ended += [_lifetime(course, refs, None, "") for course in active]
    return sorted(ended, key=lambda life: _order(life, refs))


_SINCE = "the symbol was there before: it, or what its siblings do, changed"


def _below(confidence: Confidence, lowest: Confidence) -> bool:
    return CONFIDENCES.index(confidence) > CONFIDENCES.index(lowest)


def _order(life: Lifetime, refs: Sequence[str]) -> tuple[int, int, Symbol, str]:
    ended = len(refs) if life.ended is None else refs.index(life.ended)
    symbol = life.finding.hit.where.symbol
    return (-ended, refs.index(life.appeared), symbol, life.finding.rule)


def _lifetime(course: _Course, refs: Sequence[str], ended: int | None, reason: str) -> Lifetime:
    return Lifetime(
        course.seen.finding,
        refs[course.start],
        course.reason,
        refs[course.last],
        None if ended is None else refs[ended],
        reason,
        tuple(course.names),
    )


def roots_of(hit: Hit) -> set[str]:
    """What a hit is about: each part of its anchor."""
    return set(hit.anchor.split(","))


def _how_it_ended(course: _Course, names: set[str], waits: set[tuple[str, str]]) -> str:
    qualname = course.symbol.qualname
    if any((qualname, root) in waits for root in roots_of(course.seen.finding.hit)):
        return "it waits"
    return "it no longer reads so" if qualname in names else "the symbol is gone"


def _matched(
    active: Sequence[_Course], seen: Sequence[Seen], verdict: Verdict, before: Verdict | None
) -> dict[int, Seen]:
    """The sight with which each course goes on, by the course's id."""
    found: dict[int, Seen] = {}
    free = list(seen)

    def take(course: _Course, fits: Callable[[Seen], bool], other: bool = False) -> None:
        for one in free:
            same = roots_of(one.finding.hit) & roots_of(course.seen.finding.hit)
            if bool(same) != other and fits(one):
                found[id(course)] = one
                free.remove(one)
                return

    def left() -> list[_Course]:
        return [course for course in active if id(course) not in found]

    for course in left():
        take(course, lambda one, at=course.symbol: one.finding.hit.where.symbol == at)  # type: ignore[misc]
    for course in left():
        name = course.symbol.qualname
        take(course, lambda one, at=name: one.finding.hit.where.symbol.qualname == at)  # type: ignore[misc]
    for course in left():  # the buffer bears another name, or the method reads another one so
        take(course, lambda one, at=course.symbol: one.finding.hit.where.symbol == at, True)  # type: ignore[misc]
    if before is None:
        return found
    old, new = set(before.names), set(verdict.names)
    for course in left():
        if course.symbol.qualname not in new:
            take(course, lambda one, of=course: _renamed(of, one, old))  # type: ignore[misc]
    return found


def _renamed(course: _Course, one: Seen, old: set[str]) -> bool:
    symbol = one.finding.hit.where.symbol
    if symbol.qualname in old:
        return False
    if course.seen.body and course.seen.body == one.body:
        return True
    last = symbol.qualname.rpartition(".")[2]
    return (symbol.path, last) == (course.symbol.path, course.symbol.qualname.rpartition(".")[2])


def counted(verdict: Verdict, wanted: Callable[[Finding], bool], lowest: Confidence) -> int:
    """The findings of a release that are wanted and certain enough."""
    return sum(
        wanted(one.finding) and not _below(one.finding.hit.confidence, lowest)
        for one in verdict.seen
    )


def skipped_of(verdicts: Sequence[Verdict]) -> tuple[Skipped, ...]:
    """What could not be read, the release before the path."""
    rows: Mapping[Skipped, None] = {
        msgspec.structs.replace(skipped, path=f"{verdict.info.ref}: {skipped.path}"): None
        for verdict in verdicts
        for skipped in verdict.skipped
    }
    return tuple(rows)
