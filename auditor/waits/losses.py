"""What one version of a function waits for and another no longer does, in five shapes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from auditor.waits.calls import names_a_lock
from auditor.waits.lines import Around, Body, Line
from auditor.waits.match import Match, Numbered, match
from auditor.waits.sites import AT_HAND, STRENGTH, Site

Shape = Literal["lost", "weakened", "late", "elsewhere", "lock"]
"""How a wait no longer does what it did: gone, under a test, behind what it came before, on another
object, and a lock that is gone while what it was taken for is still done."""

_PLAIN = re.compile(rf"self(?:\.\w+)+|{re.escape(AT_HAND)}|default_stream\(\)")
"""Objects that are the same wherever a function names them."""

Ask = tuple[str, bool, frozenset[str]]
"""What a test asks: the text, whether it must hold, and the names in it."""

_PLATFORMS = """
is_cuda is_npu is_hip is_xpu is_cpu is_musa is_hpu is_mps is_rocm is_cuda_alike is_out_of_tree
is_available device_type is_in_ci TYPE_CHECKING
"""
_PLATFORM = frozenset(_PLATFORMS.split())
"""Names by which a test asks for the platform: without one there is nothing to wait for."""


@dataclass(frozen=True)
class Loss:
    """A wait that one version makes.

    ``site`` is the wait before; ``now`` is where it stands in the later version, where it does, and
    ``near`` the line of the later version (counted from the ``def``) that it is missed at.
    ``alone`` says that nothing else of the function differs. ``about`` is the line of the later
    version with the test, or the work, that it is held against (0: none), and ``why`` what that is
    in words.
    """

    shape: Shape
    site: Site
    near: int
    alone: bool
    now: Site | None = None
    about: int = 0
    why: str = ""


class Names(Protocol):
    """Whether an object, given as text, is named in the earlier file."""

    def known(self, said: str) -> bool:
        """Whether it is."""


def losses(before: Body, after: Body, names: Names) -> Iterator[Loss]:
    """Every wait that the later version makes no longer, or no longer in time or on every way.

    Whether it moved into another function is not asked here.
    """
    yield from _Comparison(match(before, after), names).losses()


class _Comparison:
    def __init__(self, found: Match, names: Names) -> None:
        self.match = found
        self.names = names
        self.before = found.before.lines
        self.after = found.after.lines
        known = set(found.lines.values())
        self.ways_out = [
            number
            for number, line in enumerate(self.after)
            if line.leaves in ("return", "continue", "break") and number not in known
        ]
        self.old_sites = {number for number, _ in found.before.sites}
        self.new_sites = {number for number, _ in found.after.sites}

    def losses(self) -> Iterator[Loss]:
        for old, now in self.match.kept:
            if old[1].kind == "lock":
                continue
            if self.redirected(old[1], now[1]):
                alone = self.match.quiet_but({old[0]}, {now[0]})
                yield Loss("elsewhere", old[1], now[1].line, alone, now[1])
                continue
            weak = self.weakened(old, now)
            if weak is not None:
                yield weak
            elif old[1].kind != "keep":
                late = self.late(old, now)
                if late is not None:
                    yield late
        replaced: set[Numbered] = set()
        for old in self.match.lost:
            other = self.other_object(old, replaced)
            if other is not None:
                replaced.add(other)
                if self.renamed(old[1], other[1]):
                    continue
                yield Loss(
                    "elsewhere",
                    old[1],
                    other[1].line,
                    self.match.quiet_but({old[0]}, {other[0]}),
                    other[1],
                )
                continue
            if self.covered(old):
                continue
            alone = self.match.quiet_but(self.match.before.wrapped(old[0]), set())
            if alone or self.work_stays(old):
                shape: Shape = "lock" if old[1].kind == "lock" else "lost"
                yield Loss(shape, old[1], self.near(old[0]), alone)

    # -- under a test ----------------------------------------------------------------------------

    def weakened(self, old: Numbered, now: Numbered) -> Loss | None:
        """Whether a wait stands under a test that there was not, while its work does not."""
        line, then = self.after[now[0]], self.before[old[0]]
        if now[1].deferred and not old[1].deferred:
            why = "in a function that is only defined here"
            return Loss("weakened", old[1], now[1].line, False, now[1], why=why)
        if not old[1].given:
            had = {name for a in then.around for _, _, names in a.asks for name in names}
            if now[1].given - had and not self.asks_for_it(now[1].given, now[1]):
                why = "in a part of an expression that need not be come to"
                alone = self.match.quiet_but({old[0]}, {now[0]})
                return Loss("weakened", old[1], now[1].line, alone, now[1], why=why)
        for depth, around in enumerate(line.around):
            new = self.new_asks(around, line, then)
            if around.block in ("if", "else"):
                if not new or all(self.asks_for_it(names, now[1]) for _, _, names in new):
                    continue
                if self.waits_else(around, now, depth):
                    continue
            elif around.block == "try":
                known = any(a.block == "try" for a in then.around)
                if known or around.leaves or not self.follows(old, around):
                    continue
            elif around.block != "def" or any(a.text == around.text for a in then.around):
                continue
            if self.work_within(old, now, around):
                continue
            head = self.match.after.head(around)
            alone = self.match.quiet_but({old[0]}, {now[0]} if head is None else {now[0], head})
            about = 0 if head is None else self.after[head].line
            return Loss("weakened", old[1], now[1].line, alone, now[1], about, _way(around))
        return self.left_before(old, now)

    def new_asks(self, around: Around, line: Line, then: Line) -> list[Ask]:
        """What a test asks that no test around the wait asked before.

        Where as much is no longer asked, the test was put in other words; the opposite is no such
        word.
        """
        before = [ask for a in then.around for ask in a.asks]
        now = [ask for a in line.around for ask in a.asks]
        had, have = {ask[:2] for ask in before}, {ask[:2] for ask in now}
        new = [ask for ask in around.asks if ask[:2] not in had]
        gone = [ask for ask in before if ask[:2] not in have]
        turned = [ask for ask in new if (ask[0], not ask[1]) in had]
        all_new = [ask for ask in now if ask[:2] not in had]
        return new if turned or len(all_new) > len(gone) else []

    def asks_for_it(self, names: frozenset[str], site: Site) -> bool:
        """Whether a test asks for the object itself, or for the platform."""
        plain = {name.lstrip("_") for name in names}
        return site.subject in names or site.waiter in names or not _PLATFORM.isdisjoint(plain)

    def waits_else(self, around: Around, now: Numbered, depth: int) -> bool:
        """Whether the other branch of a test, or what is new behind it, waits for as much."""
        for number, site in self.match.after.sites:
            if number == now[0] or not _as_strong(site, now[1]):
                continue
            others = self.after[number].around
            there = others[depth] if len(others) > depth else None
            if there == around:
                continue
            opposite = there is not None and there.number == around.number
            if opposite or (number, site) in self.match.new:
                return True
        return False

    def follows(self, old: Numbered, around: Around) -> bool:
        """Whether work that followed the wait stands outside of a block now."""
        return any(
            self.before[number].works and around not in self.after[other].around
            for number, other in self.match.lines.items()
            if number > old[0]
        )

    def work_within(self, old: Numbered, now: Numbered, around: Around) -> bool:
        """Whether all that a wait orders went under the test with it."""
        site = now[1]
        if site.kind in ("stream", "event") and site.by:
            # What is ordered runs on the stream that waits, or was started on the one waited for.
            side = {site.waiter, site.subject} - {"", "current_stream", "get_current_stream"}
            inside = [
                number
                for number, line in enumerate(self.after)
                if any(a.block == "with" and side & a.names for a in line.around)
            ]
            if inside:
                return all(_under(self.after[number], around) for number in inside)
        subjects = {site.subject, site.waiter} - {"", "current_stream"}
        # Of a loop over what was started, that is what each was taken from.
        loops = (a.names for a in self.after[now[0]].around if a.block == "loop")
        subjects |= set().union(*loops)
        started = any(
            number < now[0]
            and subjects & line.names
            and line.works
            and not line.sites
            and _under(line, around)
            for number, line in enumerate(self.after)
        )
        return (started and site.kind != "keyed") or self.moved_whole(old, around)

    def moved_whole(self, old: Numbered, around: Around) -> bool:
        """Whether all that stood beside a wait, in the nearest block with any work, went along."""
        outside = self.before[old[0]].around
        for depth in range(len(outside), -1, -1):
            beside = [
                self.after[self.match.lines[number]]
                for number, line in enumerate(self.before)
                if line.works
                and number in self.match.lines
                and number != old[0]
                and line.around[:depth] == outside[:depth]
            ]
            if beside:
                return all(_under(line, around) for line in beside)
        return False

    def left_before(self, old: Numbered, now: Numbered) -> Loss | None:
        """Whether a new way that leaves before the wait gives what the wait was made for.

        That is what the object holds: an attribute that is named behind the wait too.
        """
        if now[1].kind in ("stream", "keep"):
            return None  # what runs on the other stream is started behind it as well
        before = [number for number in self.ways_out if number < now[0]]
        if not before:
            return None
        behind = [line for line in self.before[old[0] + 1 :] if line.works]
        wanted = {name for line in behind for name in line.names if f"self.{name}" in line.text}
        here = self.after[now[0]].around
        for number in before:
            line = self.after[number]
            head = next((a for a in line.around if a not in here), None)
            if head is None or head.block not in ("if", "else"):
                continue
            if all(self.asks_for_it(names, now[1]) for _, _, names in head.asks):
                continue
            block = [n for n, one in enumerate(self.after) if head in one.around and n <= number]
            if any(_as_strong(s, now[1]) for n in block for s in self.after[n].sites):
                continue
            if any(f"self.{name}" in self.after[n].text for n in block for name in wanted):
                opened = self.match.after.head(head)
                added = {now[0], *block} if opened is None else {now[0], *block, opened}
                alone = self.match.quiet_but({old[0]}, added)
                why = "a way out before it"
                return Loss("weakened", old[1], line.line, alone, now[1], line.line, why)
        return None

    # -- too late --------------------------------------------------------------------------------

    def late(self, old: Numbered, now: Numbered) -> Loss | None:
        """Whether work that came behind the wait comes before it now."""
        site = old[1]
        if self.match.earliest[old[0] + 1] > now[0]:
            return None
        for number, other in sorted(self.match.lines.items()):
            if number <= old[0] or other >= now[0] or not self.before[number].works:
                continue
            if self.before[number].text in self.match.repeated:
                continue  # which one is which cannot be told
            line, there = self.before[number], self.after[other]
            if _apart(there, self.after[now[0]]) or _apart(line, self.before[old[0]]):
                continue
            if not _ordered_by(site, line):
                continue
            if site.kind in ("keyed", "call") and _unpacks(line):
                continue
            alone = self.match.quiet_but({old[0], number}, {now[0], other})
            return Loss("late", site, now[1].line, alone, now[1], there.line)
        return None

    # -- gone ------------------------------------------------------------------------------------

    def other_object(self, old: Numbered, replaced: set[Numbered]) -> Numbered | None:
        """The same call on another object, at the same place."""
        site = old[1]
        for number, other in self.match.new:
            if (number, other) in replaced or (other.kind, other.name) != (site.kind, site.name):
                continue
            one = (site.what == other.what) != (site.by == other.by)
            if one and self.same_place(old[0], number):
                return number, other
        return None

    def redirected(self, old: Site, new: Site) -> bool:
        """Whether a wait that reads as before is one on another object, by what a local stands for.

        That is told where both are attributes of the object, or streams at hand.
        """
        if old.said != new.said or (old.what != new.what) == (old.by != new.by):
            return False
        pair = (old.what, new.what) if old.what != new.what else (old.by, new.by)
        return all(map(_PLAIN.fullmatch, pair)) and not self.renamed(old, new)

    def renamed(self, old: Site, new: Site) -> bool:
        """Whether the object that differs is the same under another name, or a new one.

        Another one is one that the earlier version knew already.
        """
        mine, theirs = (old.what, new.what) if old.what != new.what else (old.by, new.by)
        if old.kind == "keyed":
            left, known = self.match.after.names(self.new_sites), self.match.before.names()
            return not (old.index & left) and not (new.index & known) and bool(new.index)
        if theirs in (AT_HAND, "default_stream()"):
            return False
        root = re.match(r"\w+", mine)
        if old.subject == new.subject and root and root[0] not in self.match.after.names():
            return True  # the same of what bears another name
        if re.fullmatch(r"\w+", theirs):
            return theirs not in self.match.before.names() or mine.endswith("." + theirs)
        return not self.names.known(theirs) or theirs.endswith("." + mine)

    def same_place(self, old: int, new: int) -> bool:
        """Whether two lines stand between the same neighbours."""
        above = next((n for n in range(old - 1, -1, -1) if n in self.match.lines), None)
        below = next((n for n in range(old + 1, len(self.before)) if n in self.match.lines), None)
        first = -1 if above is None else self.match.lines[above]
        last = len(self.after) if below is None else self.match.lines[below]
        return first < new < last

    def covered(self, old: Numbered) -> bool:
        """Whether a new wait of this version does as much."""
        site = old[1]
        return any(_replaces(other, site) for _, other in self.match.new)

    def work_stays(self, old: Numbered) -> bool:
        """Whether what a wait ordered is still there, in a version that differs elsewhere too."""
        site = old[1]
        rest = self.match.after.names(self.new_sites)
        had = self.match.before.names(self.old_sites)
        for name in {site.subject, site.waiter} - {"", "current_stream"}:
            if name in had and name not in rest:
                return False
        lines = self.match.lines
        behind = [n for n in range(old[0] + 1, len(self.before)) if self.before[n].works]
        around = self.before[old[0]].around
        if site.kind == "lock":
            inner = [n for n in behind if len(self.before[n].around) > len(around)]
            return any(n in lines and not self.locked(lines[n]) for n in inner)
        for depth in range(len(around) - 1, -1, -1):
            # Of a block that went as a whole nothing is left to be ordered.
            if around[depth].block in ("if", "else", "with", "loop"):
                inside = [
                    n
                    for n, line in enumerate(self.before)
                    if around[depth] in line.around and n not in self.old_sites
                ]
                beside = [n for n in inside if self.before[n].works] or inside
                if beside and not any(map(self.stays, beside)):
                    return False
        return any(map(self.stays, behind))

    def stays(self, number: int) -> bool:
        """Whether a line is there still, or one that does the same to most of what it names."""
        if number in self.match.lines:
            return True
        named = self.before[number].names - {"self"}
        return bool(named) and any(
            2 * len(named & self.after[n].names) > len(named) for n in self.match.reworded
        )

    def locked(self, number: int) -> bool:
        """Whether a line of the later version stands within a lock."""
        held = {n for n, site in self.match.after.sites if site.kind == "lock"}
        return any(
            names_a_lock(name)
            for around in self.after[number].around
            if around.block == "with" and held
            for name in around.names
        )

    def near(self, old: int) -> int:
        """The line of the later version that a lost wait stood before."""
        for number in range(old + 1, len(self.before)):
            if number in self.match.lines:
                return self.after[self.match.lines[number]].line
        for number in range(old - 1, -1, -1):
            if number in self.match.lines:
                return self.after[self.match.lines[number]].line
        return 1


def _way(around: Around) -> str:
    """What a block around a wait makes of it."""
    if around.block == "try":
        return "in a try that swallows what it raises"
    if around.block == "def":
        return "in a function that is only defined here"
    return "where this does not hold" if around.block == "else" else "where this holds"


def _under(line: Line, around: Around) -> bool:
    """Whether a line runs only where a block is entered, or another one for the same reason.

    A context that is chosen by the same test is entered for the same reason.
    """
    for other in line.around:
        if other == around or (other.block == around.block and other.text == around.text):
            return True
        if other.block == "with" and around.text and around.text in other.text:
            return True
    asked = {ask for other in line.around for ask in other.asks}
    return bool(around.asks) and asked.issuperset(around.asks)


def _apart(line: Line, other: Line) -> bool:
    """Whether two lines never both run: they are on the two sides of a test."""
    sides = {a.number: a.block for a in line.around if a.block in ("if", "else")}
    return any(sides.get(a.number, a.block) != a.block for a in other.around)


def _as_strong(other: Site, site: Site) -> bool:
    """Whether a wait is for what another is for, or for more."""
    if other.kind == "device":
        return site.kind != "keep"
    if other.kind == "stream" and site.kind == "event" and other.by == site.by:
        return True  # all of a stream, for one event of some
    if other.key[:2] == site.key[:2] or (other.subject and other.subject == site.subject):
        return STRENGTH.get(other.kind, 0) >= STRENGTH.get(site.kind, 0)
    return False


def _replaces(other: Site, site: Site) -> bool:
    """Whether a wait that is new may stand for one that is gone."""
    if other.kind == "lock" or site.kind == "lock":
        return other.kind == site.kind
    if site.kind == "call":
        return True
    if site.kind == "keep":
        return other.kind in ("stream", "host", "device", "event")
    if other.kind == "keep":
        return False
    if other.kind in ("device", "call"):
        return True
    if site.kind == "keyed" or other.kind == "keyed":
        return other.kind == site.kind and other.subject == site.subject
    if site.kind == "stream":
        # A wait for an event that was recorded there; the thread may wait for the stream itself.
        return other.kind == "event" or other.subject in (site.subject, site.waiter)
    return other.kind == site.kind or bool(other.subject and other.subject == site.subject)


def _unpacks(line: Line) -> bool:
    """Whether a line only gives names to the members of an entry: a lookup, or views at most."""
    targets, gives, _ = line.text.partition(" = ")
    return bool(gives) and "," in targets and not line.calls


def _ordered_by(site: Site, line: Line) -> bool:
    """Whether a line may be work that a wait comes before."""
    if site.kind in ("host", "device", "keyed", "join", "call"):
        return True
    contexts = {n for a in line.around if a.block == "with" for n in a.names}
    if site.by in ("", AT_HAND):
        return "stream" not in contexts or site.waiter in contexts
    return site.waiter in contexts or site.waiter in line.names
