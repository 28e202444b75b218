"""From the sides of an audit to findings with their origin, kept by content."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from auditor.background import Background
from auditor.checks import CHECKS
from auditor.checks.overlap import distinct
from auditor.checks.sides import Sides
from auditor.checks.view import Norm, View
from auditor.confirm.second import SecondReading
from auditor.deployment.kept import conditions
from auditor.deployment.needs import Needs, Place
from auditor.deployment.words import SERVER
from auditor.model import (
    Checked,
    Disagreement,
    Finding,
    Hit,
    Side,
    Skipped,
    Symbol,
)
from auditor.repo.snapshot import Snapshot
from auditor.rulebook import CheckName, Rule, Rulebook
from auditor.runs.newcallers import pointed
from auditor.runs.opening import skipped_of
from auditor.runs.other_sides import Defects, Witnesses, defects
from auditor.runs.request import Clock
from auditor.source.results import ResultStore, content_key
from auditor.source.scans import Found
from auditor.triage.findings import blame, triage

Norms = dict[CheckName, Any]
"""What each check learned of all sides; opaque but to the check."""


class Workings:
    """What a run leaves behind for who needs more than its report.

    ``key`` stands for the content of all sides; the views and what was learned from them by each
    check are there only where they were made, and not where the outcome was known.
    """

    def __init__(self) -> None:
        self.key = ""
        self.views: Sequence[View] = ()
        self.norms: Mapping[CheckName, Norm] = {}


class Outcome(msgspec.Struct, frozen=True):
    """What judging the sides gave, before any filter; paths are report paths.

    ``needs`` are the conditions of the findings' symbols, ``disagreements`` what the second reading
    left out.
    """

    findings: tuple[Finding, ...]
    checked: tuple[Checked, ...]
    skipped: tuple[Skipped, ...]
    needs: tuple[tuple[Symbol, Needs], ...] = ()
    disagreements: tuple[Disagreement, ...] = ()


def judged(
    sides: Sides,
    book: Rulebook,
    rules: Sequence[Rule],
    cache: Path | None,
    clock: Clock,
    alone: bool,
    newer: bool = False,
    workings: Workings | None = None,
) -> Outcome:
    """From what was read to findings; the first side is the fork.

    ``newer`` says that the merge base is code that upstream wrote after its release.
    """
    workings = workings or Workings()
    results = ResultStore(cache, Outcome)
    with clock.stage("recall"):
        names = [f"{s.side}\n{s.ref}\n{s.folder}" for s in sides.snapshots]
        unread = [repr(skipped) for skipped in sorted(skipped_of(sides.snapshots))]
        about = [book.digest, *(r.id for r in rules), *names, f"newer {newer}", *unread]
        key = workings.key = content_key(about, sides.digests())
        known = results.load(key)
    if known is not None:
        return known
    outcome = _judge(sides, rules, cache, clock, alone, newer, workings)
    results.save(key, outcome)
    sides.save()
    return outcome


def _judge(
    sides: Sides,
    rules: Sequence[Rule],
    cache: Path | None,
    clock: Clock,
    alone: bool,
    newer: bool,
    workings: Workings,
) -> Outcome:
    views = sides.views()
    fork, others = views[0], views[1:]
    rules = [rule for rule in rules if rule.check in CHECKS]
    apart = [rule for rule in rules if CHECKS[rule.check].alone]
    rest = [rule for rule in rules if not CHECKS[rule.check].alone]
    beside = Background(lambda: _found(apart, views, sides), alone=alone)
    sides.analyse(views)
    with clock.stage("judge", 0, len(fork.readings.readings)):
        norms = _learned(rest, views)
        workings.views, workings.norms = views, norms
        elsewhere = Background(lambda: defects(rest, norms, others), alone=alone)
        hits = [(rule, hit) for rule in rest for hit in _hits(rule, norms, fork)]
        checked = _checked(rest, norms, fork)
    with clock.stage("confirm", 0, len(hits)):
        also = beside.result()
        sides.adopt(also.skipped, also.facts, also.scanned)
        places = _Places(fork, cache, alone)
        places.ask(hit for _, hit in [*hits, *also.hits])
        second = SecondReading(views, cache)
        hits = second.confirmed([*hits, *((apart[number], hit) for number, hit in also.hits)])
        hits = distinct(hits)
        checked += also.checked
    snapshots: dict[Side, Snapshot] = {}
    for snapshot in sides.snapshots:
        snapshots.setdefault(snapshot.side, snapshot)

    def report_path(side: Side, path: str) -> str:
        return snapshots[side].report_path(path) if side in snapshots else path

    with clock.stage("origin", 0, len(hits)):
        unread = [*sides.skipped, *skipped_of(sides.snapshots)]
        known = [_merged(*pair) for pair in zip(elsewhere.result(), also.elsewhere, strict=True)]
        witnesses = Witnesses(fork, others, known, unread, report_path, newer)
        blamed = [(rule, hit, blame(*witnesses(hit))) for rule, hit in hits]
        blamed = second.spanned(pointed(blamed, fork, norms, witnesses))
        second.save()
        findings = triage(blamed, report_path)
    placed = tuple(_placed(row, report_path) for row in checked)
    deep = (
        Skipped(view.side, report_path(view.side, path), "analyse", f"{name}: nested too deeply")
        for view in views
        for path, name in sorted(view.readings.evaluator.too_deep)
    )
    with clock.stage("conditions"):
        needs = places.needs([hit for _, hit, _ in blamed], report_path)
    unconfirmed = (
        msgspec.structs.replace(row, path=report_path(row.side, row.path)) for row in second.skipped
    )
    skipped = (*sides.skipped, *deep, *unconfirmed)
    contradicted = tuple(_located(row, report_path) for row in second.disagreements)
    return Outcome(tuple(findings), placed, skipped, needs, contradicted)


class _Found(NamedTuple):
    """What checks found that were done in another process; hits go by the number of their rule."""

    hits: list[tuple[int, Hit]]
    checked: list[Checked]
    elsewhere: list[Defects]
    skipped: Sequence[Skipped]
    facts: Mapping[bytes, bytes]
    scanned: Found


def _found(rules: Sequence[Rule], views: Sequence[View], sides: Sides) -> _Found:
    known = sides.scans.known()
    fork, others = views[0], views[1:]
    norms = _learned(rules, views)
    hits = [(number, hit) for number, rule in enumerate(rules) for hit in _hits(rule, norms, fork)]
    checked = _checked(rules, norms, fork)
    elsewhere = defects(rules, norms, others)
    return _Found(
        hits, checked, elsewhere, sides.skipped, sides.store.fresh, sides.scans.since(known)
    )


def _learned(rules: Sequence[Rule], views: Sequence[View]) -> Norms:
    return {name: CHECKS[name].learn(views) for name in sorted({r.check for r in rules})}


def _hits(rule: Rule, norms: Norms, view: View) -> Iterator[Hit]:
    return CHECKS[rule.check].judge(rule.params, norms[rule.check], view)


def _checked(rules: Sequence[Rule], norms: Norms, view: View) -> list[Checked]:
    names = sorted({rule.check for rule in rules})
    return [row for name in names for row in CHECKS[name].survey(norms[name], view)]


def _merged(one: Defects, other: Defects) -> Defects:
    return {name: [*one.get(name, ()), *other.get(name, ())] for name in {*one, *other}}


class _Places:
    """The conditions of the places of hits, in the fork's tree."""

    def __init__(self, fork: View, cache: Path | None, alone: bool) -> None:
        self.fork = fork
        self.cache = cache
        self.alone = alone
        self.asked: dict[Place, Callable[[], dict[Place, Needs]]] = {}

    def ask(self, hits: Iterable[Hit]) -> None:
        """Have them worked out, where they are not yet, while the run goes on."""
        places = {*self._of(hits).values()} - self.asked.keys()
        sources, scans = self.fork.sources, self.fork.scans
        digests = {path: scans.digest(data) for path, data in sources.items()}
        arming = self.fork.readings.arming
        begun = conditions(sources, digests, arming, places, self.cache, self.alone)
        self.asked |= dict.fromkeys(places, begun)

    def needs(
        self, hits: Sequence[Hit], report_path: Callable[[Side, str], str]
    ) -> tuple[tuple[Symbol, Needs], ...]:
        """What was asked for, by symbols with report paths."""
        self.ask(hits)  # a hit may have moved to a caller since

        def path_of(path: str) -> str:
            return report_path("fork", path)

        found = {place: each for begun in {*self.asked.values()} for place, each in begun().items()}
        return tuple(
            (
                msgspec.structs.replace(symbol, path=path_of(symbol.path)),
                found[place].placed(path_of),
            )
            for symbol, place in self._of(hits).items()
        )

    def _of(self, hits: Iterable[Hit]) -> dict[Symbol, Place]:
        hits = list(hits)
        places = {hit.where.symbol: _place(self.fork, hit) for hit in hits}
        # What is a guess, and about no pool, is not worth following through the tree.
        sure = {hit.where.symbol for hit in hits if hit.confidence != "low"}
        return {
            symbol: place
            for symbol, place in places.items()
            if symbol.path.startswith(SERVER) and (place.classes or symbol in sure)
        }


def _place(fork: View, hit: Hit) -> Place:
    """Where a hit is; code outside of the pools is about the pool that the evidence names."""
    where = hit.where.symbol
    own = (where.path, where.qualname.rpartition(".")[0])
    pools = set(fork.readings.families)
    classes = [own] if own in pools else []
    if not classes:
        here = fork.functions.get(where.qualname, ())
        named = {name for function in here for name in function.facts.mentions}
        shown = [(e.path, e.symbol.rpartition(".")) for e in hit.evidence if e.side == "fork"]
        rows = [((path, owner), name) for path, (owner, _, name) in shown if (path, owner) in pools]
        # What the code calls by its name tells more than what it is compared with.
        classes = [key for key, name in rows if name in named] or [key for key, _ in rows]
    if not classes:
        return Place(where.path, where.qualname)
    # Of several the one that most are made from.
    chosen = max(classes, key=lambda key: len(fork.index.subclasses.get(key, ())))
    names = tuple(name for _, name in fork.index.classes[chosen].mro)
    return Place(where.path, where.qualname, names)


def _located(row: Disagreement, report_path: Callable[[Side, str], str]) -> Disagreement:
    symbol = row.where.symbol
    symbol = msgspec.structs.replace(symbol, path=report_path(row.side, symbol.path))
    return msgspec.structs.replace(row, where=msgspec.structs.replace(row.where, symbol=symbol))


def _placed(row: Checked, report_path: Callable[[Side, str], str]) -> Checked:
    evidence = tuple(
        msgspec.structs.replace(e, path=report_path(e.side, e.path)) for e in row.evidence
    )
    return msgspec.structs.replace(row, path=report_path("fork", row.path), evidence=evidence)
