"""Turns waits that a fork's version of a function no longer makes into hits."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from auditor.checks.view import View
from auditor.model import Checked, Confidence, Evidence, Hit, Location, Side, Symbol
from auditor.rulebook import Param, of_shapes
from auditor.waits.calls import Calls
from auditor.waits.comparison import Comparison, Missing
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
}
"""Whose versions of a function each side is held against."""

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
    found: dict[Side, list[tuple[View, Missing]]] = field(default_factory=dict)

    def missing(self, view: View) -> list[tuple[View, Missing]]:
        """The waits that a side lacks, each with the side that makes it."""
        known = self.found.get(view.side)
        if known is None:
            known = self.found[view.side] = list(self._missing(view))
        return known

    def _missing(self, view: View) -> Iterator[tuple[View, Missing]]:
        # Of the others only what says something of the fork's findings is asked.
        only = None if view.side == "fork" else {m.path for _, m in self._of_fork()}
        seen: set[tuple[str, str, Shape, tuple[str, str, str, bool]]] = set()
        for other in self.views:
            if other.side not in _BEFORE.get(view.side, ()):
                continue
            compared = _compared(other, view)
            for missing in compared.missing(only):
                mark = (missing.path, missing.qualname, missing.shape, missing.site.key)
                if other.side == "upstream" or mark not in seen:
                    yield other, missing
                seen.add(mark)
            # Read whole, such a file is told to be unreadable.
            for side, paths in ((other, compared.unread_before), (view, compared.unread)):
                side.read({path: side.sources[path] for path in paths})

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
    known = (before.index.modules, after.index.modules)
    return Comparison(before.deployed, after.deployed, calls, *known)


def _hit(view: View, other: View, missing: Missing) -> Hit:
    symbol = Symbol(missing.path, missing.qualname)
    site = missing.site
    was = _line(other, missing.earlier, missing.was)
    earlier = Evidence(
        missing.earlier, missing.was, missing.qualname, f"{_does(site)} here", other.side
    )
    evidence = [earlier]
    if missing.about and missing.about != missing.line:
        evidence.append(Evidence(missing.path, missing.about, missing.qualname, _about(missing)))
    name = missing.qualname.rpartition(".")[2]
    confidence: Confidence = "high" if missing.alone else "medium"
    if other.side == "target":
        confidence = "medium"
    what = site.what or "device"
    return Hit(
        Location(symbol, missing.line, _column(view, missing), missing.line),
        f"{site.kind} {what} {site.by}".replace(",", " ").strip(),
        _message(view, missing, name, was),
        tuple(evidence),
        confidence,
        "unknown",
        "whether anything else orders this is not known",
        _fix(missing, was),
        f"{missing.qualname}.{site.subject or site.kind}",
        about=_of_whom(site),
    )


def _of_whom(site: Site) -> str:
    """The stream that waits, or else what is waited for; what a call waits for is not known."""
    if site.kind == "call":
        return ""
    waits = site.waiter if site.by not in ("", AT_HAND) else ""
    return waits or site.subject or site.kind


def _message(view: View, missing: Missing, name: str, was: str) -> str:
    site = missing.site
    orders = _ORDERS[site.kind]
    here = _line(view, missing.path, missing.now) if missing.now else ""
    about = _line(view, missing.path, missing.about) if missing.about else ""
    match missing.shape:
        case "weakened":
            under = f" {missing.why}: {about}" if about else f" {missing.why}"
            return f"{name} makes the wait {was} only{under}; upstream's version always does"
        case "late":
            return f"{name} makes the wait {was} only after {about}, which came behind it"
        case "elsewhere":
            return f"{name} waits by {here} where the other version does by {was}"
        case "lock":
            return f"{name} does without {was} what the other version does within; {orders}"
    return f"{name} no longer does {was}, and does what came behind it; {orders}"


def _does(site: Site) -> str:
    return "takes the lock" if site.kind == "lock" else "waits"


def _about(missing: Missing) -> str:
    return "comes first now" if missing.shape == "late" else f"waits only {missing.why}"


def _fix(missing: Missing, was: str) -> str:
    match missing.shape:
        case "weakened":
            return "wait on every way that leads to the work, or show that the others need no wait"
        case "late":
            return f"put {was} back before it"
        case "elsewhere":
            return f"wait as before, by {was}, or record here what is waited for now"
        case "lock":
            return f"put it back within {was}"
    return f"put {was} back, or wait in something that is called in its place"


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
