"""Where code waits: what for, who waits, and by which call."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol

from auditor.source import facts as f
from auditor.vocabulary import words
from auditor.waits.calls import JOINS, KEEPS, TAKES, Calls, names_a_lock, says_wait
from auditor.waits.text import (
    NO_ALIASES,
    STREAMS_AT_HAND,
    Aliases,
    asks_for_stream,
    last_name,
    names_in,
    text_of,
)

Kind = Literal["keyed", "event", "stream", "host", "device", "keep", "join", "lock", "call"]
"""What a wait is for: an index of a gate; an event or piece of work; all that a stream holds; the
same with the thread waiting; everything; a block of memory that another stream uses; a thread; a
lock; and whatever a function that is called waits for."""

AT_HAND = "current_stream()"
"""The stream that the code runs on, however it is asked for."""

STRENGTH: dict[Kind, int] = {"event": 1, "stream": 2, "host": 3, "device": 4}
"""Kinds of which a later one waits for at least as much."""

_MODULES = """
torch cuda npu xpu hip musa hpu mps accelerator torch_npu device_module get_device_module
current_platform platform device
"""
_DEVICES = frozenset(_MODULES.split())


@dataclass(frozen=True)
class Site:
    """One wait of a function.

    ``what`` and ``by`` are texts with aliases written out, ``said`` is the call as it stands,
    ``index`` are the names in what a keyed wait is given;
    ``subject`` the last name of what is waited for, ``waiter`` that of who waits. ``by`` is empty
    for the thread itself. ``name`` is the method. ``deferred`` says that it stands in a lambda;
    ``given`` are the names that decide within the expression whether it is made at all.
    """

    kind: Kind
    name: str
    what: str
    by: str
    said: str
    subject: str
    waiter: str
    line: int
    column: int
    deferred: bool = False
    index: frozenset[str] = frozenset()
    given: frozenset[str] = frozenset()

    @property
    def key(self) -> tuple[str, str, str, bool]:
        """What makes two waits the same, wherever they stand."""
        return self.kind, self.what, self.by, self.deferred


def lock_of(context: f.Expr, aliases: Aliases) -> Site | None:
    """The lock that a ``with`` takes, by the words of its name."""
    if not names_a_lock(last_name(context)):
        return None
    place = (context.line, context.column) if isinstance(context, (f.Attr, f.Call)) else (0, 1)
    what = text_of(context, aliases)
    return Site(
        "lock", "with", what, "", text_of(context, NO_ALIASES), last_name(context), "", *place
    )


class Known(Protocol):
    """The functions that wait: the primitive ones, and names of those that do nothing else."""

    calls: Calls

    def __contains__(self, name: object) -> bool:
        """Whether functions of that name only wait."""


def site_of(
    call: f.Call, name: str, aliases: Aliases, waiters: Known, deferred: bool
) -> Site | None:
    """The wait that a call is, if it is one; ``name`` is that of what is called.

    ``waiters`` are the functions that wait, ``deferred`` says that it stands in a lambda.
    """
    wait = waiters.calls.kinds.get(name)
    if wait is None and name not in (KEEPS, TAKES, JOINS) and name not in waiters:
        return None
    owner = call.func.value if isinstance(call.func, f.Attr) else None
    given = [*call.args, *(value for _, value in call.keywords)]

    def site(kind: Kind, what: f.Expr | None, by: f.Expr | None = None) -> Site:
        return Site(
            kind,
            name,
            "" if what is None else _object(what, aliases),
            "" if by is None else _object(by, aliases),
            text_of(call, NO_ALIASES),
            "" if what is None else _subject(what, aliases),
            "" if by is None else _subject(by, aliases),
            call.line,
            call.column,
            deferred,
        )

    if owner is None:
        if name in waiters:
            return site("call", call.func)
        return site("device", None) if wait == "device" else None
    match wait:
        case "keyed":
            index = f.Group("tuple", tuple(given))
            keyed = site("keyed", f.Sub(owner, index, 0, 1))
            return replace(keyed, index=frozenset(names_in(index)))
        case "stream":
            return site("stream", given[0], owner) if given else None
        case "device":
            return site("device", None) if last_name(owner) in _DEVICES else site("host", owner)
        case "event" if len(words(name)) > 1 and given:
            return site("event", given[0], owner)
        case "event":
            # An event is given the stream that waits; what else is given is a time, or an index.
            streams = [a for a in given if _is_stream(a, aliases)]
            return site("event", owner, streams[0] if streams else None)
    if name == KEEPS:
        return site("keep", owner, given[0]) if given else None
    if name == JOINS:
        joins = _may_join(call) and not isinstance(owner, f.Const)
        return site("join", owner) if joins else None
    if name == TAKES:
        return site("lock", owner) if names_a_lock(last_name(owner)) else None
    # Any object may have a method of the name: the class tells that it waits, or its words.
    own = owner == f.Name("self") or text_of(owner, NO_ALIASES) == "super()"
    return site("call", call.func) if own or says_wait(name) else None


def _may_join(call: f.Call) -> bool:
    """Whether a call is not that of a text: that one is given what it joins, and no time."""
    return not call.args or isinstance(call.args[0], f.Const)


def _is_stream(expr: f.Expr, aliases: Aliases) -> bool:
    return "stream" in _subject(expr, aliases).lower()


def _object(expr: f.Expr, aliases: Aliases) -> str:
    """An object as text; streams at hand are one, whatever module is asked for them."""
    followed = aliases.followed(expr)
    if isinstance(followed, f.Call) and asks_for_stream(followed):
        name = last_name(followed.func)
        return "default_stream()" if name == "default_stream" else AT_HAND
    if isinstance(expr, f.Name) and expr.id in STREAMS_AT_HAND:
        return AT_HAND
    return text_of(expr, aliases)


def _subject(expr: f.Expr, aliases: Aliases) -> str:
    return last_name(aliases.followed(expr)) or next(iter(sorted(names_in(expr))), "")
