"""Which line, and which wait, of one version of a function is which of the other's."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property

from auditor.waits.lines import Body, Line
from auditor.waits.sites import Site

_LONGEST = 2000
"""Lines that are aligned in their order, which takes their square in the worst case. Of a longer
function each line is paired with the next of the same text."""

_OFTEN = 20
"""A line that stands there more often says nothing of its place."""

Numbered = tuple[int, Site]
"""A wait, and the number of its line."""


@dataclass(frozen=True, eq=False)
class Match:
    """Two versions of a function, aligned.

    ``lines`` are lines before → after of the same text, moved ones too. ``kept`` are pairs of waits
    that are the same, ``lost`` and ``new`` those of one version only.
    """

    before: Body
    after: Body
    lines: dict[int, int]
    kept: tuple[tuple[Numbered, Numbered], ...]
    lost: tuple[Numbered, ...]
    new: tuple[Numbered, ...]

    @cached_property
    def repeated(self) -> set[str]:
        """The texts of lines that one of the versions has more than once."""
        sides = (Counter(line.text for line in body.lines) for body in (self.before, self.after))
        return {text for counts in sides for text, count in counts.items() if count > 1}

    @cached_property
    def reworded(self) -> list[int]:
        """The lines after that do something and are of no line before."""
        known = set(self.lines.values())
        return [n for n, line in enumerate(self.after.lines) if line.works and n not in known]

    @cached_property
    def earliest(self) -> list[int]:
        """For each line before, the first line after that it or one behind it became."""
        found = [len(self.after.lines)] * (len(self.before.lines) + 1)
        for number in range(len(self.before.lines) - 1, -1, -1):
            found[number] = min(found[number + 1], self.lines.get(number, found[number + 1]))
        return found

    def quiet_but(self, old: set[int], added: set[int]) -> bool:
        """Whether nothing differs but the lines named, and ones that do nothing."""
        gone = set(range(len(self.before.lines))) - self.lines.keys() - old
        come = set(range(len(self.after.lines))) - set(self.lines.values()) - added
        return not any(_says(self.before.lines[n]) for n in gone) and not any(
            _says(self.after.lines[n]) for n in come
        )


def match(before: Body, after: Body) -> Match:
    """Align two versions."""
    lines = _aligned(*([line.text for line in body.lines] for body in (before, after)))
    kept: list[tuple[Numbered, Numbered]] = []
    for number, other in lines.items():
        mine, theirs = before.lines[number].sites, after.lines[other].sites
        kept += [((number, a), (other, b)) for a, b in zip(mine, theirs, strict=False)]
    lost = _rest(before, {pair[0] for pair in kept})
    come = _rest(after, {pair[1] for pair in kept})
    for key in (_of_object, _as_said, _at_any_time):
        waiting: dict[object, deque[Numbered]] = defaultdict(deque)
        for found in come:
            waiting[key(found[1])].append(found)
        for found in lost:
            others = waiting[key(found[1])]
            if others:
                kept.append((found, others.popleft()))
        lost = _rest(before, {pair[0] for pair in kept})
        come = _rest(after, {pair[1] for pair in kept})
    return Match(before, after, lines, tuple(kept), tuple(lost), tuple(come))


def _of_object(site: Site) -> object:
    return site.key


def _as_said(site: Site) -> object:
    return site.kind, site.said, site.deferred


def _at_any_time(site: Site) -> object:
    """What tells a wait whose call was put off, or no longer is."""
    return site.kind, site.what, site.by


def _rest(body: Body, taken: set[Numbered]) -> list[Numbered]:
    return [found for found in body.sites if found not in taken]


def _aligned(old: list[str], new: list[str]) -> dict[int, int]:
    """Lines in their order first, then those that moved, each with one of the same text."""
    lines = _in_order(old, new) if max(len(old), len(new)) <= _LONGEST else {}
    taken = set(lines.values())
    free: dict[str, deque[int]] = defaultdict(deque)
    for number, text in enumerate(new):
        if number not in taken:
            free[text].append(number)
    for number, text in enumerate(old):
        if number not in lines and free[text]:
            lines[number] = free[text].popleft()
    return _uncrossed(old, lines)


def _uncrossed(old: list[str], lines: dict[int, int]) -> dict[int, int]:
    """The same lines; of those with one text the first is the first: none of them has moved."""
    alike: dict[str, list[int]] = defaultdict(list)
    for number in sorted(lines):
        alike[old[number]].append(number)
    found = dict(lines)
    for numbers in alike.values():
        found.update(zip(numbers, sorted(lines[n] for n in numbers), strict=True))
    return found


def _in_order(old: list[str], new: list[str]) -> dict[int, int]:
    lines: dict[int, int] = {}
    often = {text for side in (old, new) for text, n in Counter(side).items() if n > _OFTEN}
    mine = [f"old {n}" if text in often else text for n, text in enumerate(old)]
    theirs = [f"new {n}" if text in often else text for n, text in enumerate(new)]
    aligned = SequenceMatcher(None, mine, theirs, autojunk=False)
    for a, b, size in aligned.get_matching_blocks():
        lines.update(zip(range(a, a + size), range(b, b + size), strict=True))
    return lines


def _says(line: Line) -> bool:
    return line.works or bool(line.sites) or line.test or bool(line.leaves)


def counted(body: Body) -> Counter[str]:
    """How often a version calls each name."""
    return Counter(name for line in body.lines for name in line.calls)
