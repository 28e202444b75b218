"""Turns waits that a fork's version of a function no longer makes into hits."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from auditor.checks.view import View
from auditor.claims import LostWait
from auditor.model import Checked, Confidence, Evidence, Hit, Location, Side, Symbol
from auditor.rulebook import Param, of_shapes
from auditor.waits.calls import Calls
from auditor.waits.changed import Pieces
from auditor.waits.comparison import Comparison, Missing
from auditor.waits.lines import DECORATES
from auditor.waits.losses import Shape
from auditor.waits.sites import AT_HAND, Kind, Site

Told = Literal[Shape, "later"]
"""The shape of a loss; ``later`` is one that only a later release than upstream's shows."""

PARAMETERS = of_shapes((*get_args(Shape), "later"))

_LONGEST = 72  # characters of a line of code within a message

_BEFORE: Mapping[Side, tuple[Side, ...]] = {
    "fork": ("upstream", "base", "target"),
    "base": ("upstream", "target"),
    "upstream": ("target",),
    "target": ("target",),
}
"""Whose versions of a function each side is held against; of several targets each against others.
"""

_ORDERS: Mapping[Kind, str] = {
    "keyed": "what is read here may not be loaded yet",
    "event": "what comes after it may run before the work of the event is done",
    "stream": "the streams are no longer ordered here",
    "host": "the thread goes on before the work it waited for is done",
    "device": "the thread goes on before the device is done",
    "keep": "the memory may be given to another tensor while the other stream still uses it",
    "join": "the thread goes on before the other one is done",
    "lock": "other threads may come in between",
    "call": "nothing that it waited for is waited for here",
}


@dataclass(frozen=True)
class Norm:
    """All sides, and what each of them lacks of the others, worked out once."""

    views: tuple[View, ...]
    found: dict[int, list[tuple[View, Missing]]] = field(default_factory=dict)

    def missing(self, view: View) -> list[tuple[View, Missing]]:
        """The waits that a side lacks, each with the side that makes it."""
        known = self.found.get(id(view))
        if known is None:
            known = self.found[id(view)] = list(self._missing(view))
        return known

    def _missing(self, view: View) -> Iterator[tuple[View, Missing]]:
        # Of the others only what says something of the fork's findings is asked. A function that
        # lost the same twice has two rows; what a second side says again has none.
        only = None if view.side == "fork" else {m.path for _, m in self._of_fork()}
        seen: set[tuple[str, str, Shape, tuple[str, str, str, bool]]] = set()
        for other in self.views:
            if other is view or other.side not in _BEFORE[view.side]:
                continue
            for missing in _compared(other, view).missing(only):
                mark = (missing.path, missing.qualname, missing.shape, missing.site.key)
                if other.side == "upstream" or mark not in seen:
                    yield other, missing
                seen.add(mark)

    def _of_fork(self) -> list[tuple[View, Missing]]:
        return next((self.missing(v) for v in self.views if v.side == "fork"), [])


def learn(views: Sequence[View]) -> Norm:
    """The sides; what each lacks is worked out when it is asked for."""
    return Norm(tuple(views))


def judge(params: Mapping[str, Param], norm: Norm, view: View) -> Iterator[Hit]:
    """The losses of one shape (``params: {shape: …}``)."""
    for other, missing in norm.missing(view):
        told: Told = "later" if other.side == "target" else missing.shape
        if told == params["shape"]:
            yield _hit(view, other, missing)


def survey(norm: Norm, view: View) -> Iterator[Checked]:
    """Nothing is counted: each function is held against its own other version only."""
    yield from ()


def _compared(before: View, after: View) -> Comparison:
    calls = Calls(after.vocabulary.primitive_waits)
    earlier, later = (Pieces(v.deployed, v.index.modules, v.read) for v in (before, after))
    return Comparison(earlier, later, calls)


def _hit(view: View, other: View, missing: Missing) -> Hit:
    symbol = Symbol(missing.path, missing.qualname)
    site = missing.site
    was = _line(other, missing.earlier, missing.was)
    if site.name == DECORATES:
        was = f"`@{site.said}`"
    earlier = Evidence(
        missing.earlier, missing.was, missing.qualname, f"{_does(site)} here", other.side
    )
    evidence = [earlier]
    if missing.about and missing.about != missing.line:
        evidence.append(Evidence(missing.path, missing.about, missing.qualname, _about(missing)))
    confidence: Confidence = "high" if missing.alone else "medium"
    if other.side == "target":
        confidence = "medium"
    what = site.what or "device"
    return Hit(
        Location(symbol, missing.line, _column(view, missing), missing.line),
        f"{site.kind} {what} {site.by}".replace(",", " ").strip(),
        _message(view, other, missing, was),
        tuple(evidence),
        confidence,
        "unknown",
        "whether anything else orders this is not known",
        _fix(missing, was),
        f"{missing.qualname}.{site.subject or site.kind}",
        about=_of_whom(site),
        claim=_claim(missing),
    )


def _claim(missing: Missing) -> LostWait | None:
    """What another parser is asked: nothing of a decorator, which stands outside the function."""
    if missing.site.name == DECORATES:
        return None
    about = missing.about if missing.shape == "late" else 0
    return LostWait(missing.shape, missing.site.name, missing.own, missing.theirs, about)


def _of_whom(site: Site) -> str:
    """The stream that waits, or else what is waited for; what a call waits for is not known."""
    if site.kind == "call":
        return ""
    waits = site.waiter if site.by not in ("", AT_HAND) else ""
    return waits or site.subject or site.kind


def _message(view: View, other: View, missing: Missing, was: str) -> str:
    name = missing.qualname.rpartition(".")[2]
    orders = _ORDERS[missing.site.kind]
    whose = f"the version of {other.ref}"
    here = _line(view, missing.path, missing.now) if missing.now else ""
    about = _line(view, missing.path, missing.about) if missing.about else ""
    match missing.shape:
        case "weakened":
            under = f" {missing.why}: {about}" if about else f" {missing.why}"
            return f"{name} makes the wait {was} only{under}; {whose} always does"
        case "late":
            return f"{name} makes the wait {was} only after {about}; in {whose} it comes first"
        case "elsewhere":
            return f"{name} waits by {here} where {whose} does by {was}"
        case "lock":
            return f"{name} does without {was} what {whose} does within; {orders}"
    return f"{name} does not wait by {was}, as {whose} does before the same work; {orders}"


def _does(site: Site) -> str:
    return "takes the lock" if site.kind == "lock" else "waits"


def _about(missing: Missing) -> str:
    return "comes first now" if missing.shape == "late" else f"waits only {missing.why}"


def _fix(missing: Missing, was: str) -> str:
    match missing.shape:
        case "weakened":
            return "wait on every way that leads to the work, or show that the others need no wait"
        case "late":
            return f"move {was} before it"
        case "elsewhere":
            return f"wait as before, by {was}, or record here what is waited for now"
        case "lock":
            return f"put it back within {was}"
    return f"wait by {was} as well, or wait in something that is called in its place"


def _line(view: View, path: str, line: int) -> str:
    """A line of code as a message shows it."""
    rows = _rows(view.sources[path])
    text = rows[line - 1].strip().decode(errors="replace") if 0 < line <= len(rows) else ""
    text = text.rstrip(":")
    return f"`{text if len(text) <= _LONGEST else text[: _LONGEST - 1] + '…'}`"


def _column(view: View, missing: Missing) -> int:
    rows = _rows(view.sources[missing.path])
    row = rows[missing.line - 1] if missing.line <= len(rows) else b""
    return len(row) - len(row.lstrip()) + 1


@functools.lru_cache(maxsize=64)
def _rows(data: bytes) -> list[bytes]:
    return data.split(b"\n")
