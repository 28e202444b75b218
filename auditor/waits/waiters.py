"""The functions of a tree that do nothing but wait, by the names they are called by."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from functools import cached_property

from auditor.errors import Unreadable
from auditor.source import facts as f
from auditor.source.extract import extract
from auditor.waits.calls import Calls, says_wait
from auditor.waits.lines import Body, body_of

_HEAD = re.compile(rb"([ \t]*)(?:async[ \t]+)?def[ \t]+(\w+)")
_SHORT = 30
"""Lines of a function that waits and little else."""

_COMMON = frozenset(("forward", "__init__", "run", "close", "stop", "shutdown", "__enter__", "get"))


class Waiters(Container[str]):
    """Which names of a side's functions are those of waiters, looked up when they are asked for."""

    def __init__(
        self, calls: Calls, sources: Mapping[str, bytes], other: Waiters | None = None
    ) -> None:
        """``other`` are those of a tree that shares contents with this one."""
        self.calls = calls
        self._sources = sources
        self._found: dict[int, list[tuple[str, bytes]]] = {} if other is None else other._found
        self._known: dict[str, bool] = {}

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of functions that wait themselves and are short."""
        return frozenset(self._by_name)

    def among(self, words: frozenset[bytes]) -> frozenset[bytes]:
        """Those of some words that name what does nothing but wait."""
        found = self._encoded & words
        return frozenset(word for word in found if self.only_waits(word.decode()))

    @cached_property
    def _encoded(self) -> frozenset[bytes]:
        return frozenset(name.encode() for name in self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name and self.only_waits(str(name))

    def only_waits(self, name: str) -> bool:
        """Whether some function of that name does nothing but wait."""
        known = self._known.get(name)
        if known is None:
            texts = self._by_name.get(name, ())
            known = self._known[name] = any(says_wait(name) or self._only_waits(t) for t in texts)
        return known

    @cached_property
    def _by_name(self) -> dict[str, list[bytes]]:
        found: dict[str, list[bytes]] = {}
        for data in self._sources.values():
            waiting = self._found.get(id(data))
            if waiting is None:
                waiting = self._found[id(data)] = list(_waiting(data, self.calls))
            for name, text in waiting:
                found.setdefault(name, []).append(text)
        return found

    def _only_waits(self, text: bytes) -> bool:
        try:
            read = extract(b"if True:\n" + text + b"\n" if text[:1] in b" \t" else text, "")
        except Unreadable:
            return False
        none = Waiters(self.calls, {})
        return any(_is_only(body_of(function, none)) for function in f.functions(read))


def _waiting(data: bytes, calls: Calls) -> Iterator[tuple[str, bytes]]:
    """(name, text) of the functions of a file that wait themselves, and are short."""
    if not any(word in data for word in calls.dotted):
        return
    last = -1
    for match in calls.asked.finditer(data):
        start = data.rfind(b"def ", 0, match.start())
        head = _HEAD.match(data, data.rfind(b"\n", 0, start) + 1)
        if head is None or head.start() == last:
            continue  # one wait of a function is enough
        last = head.start()
        name, text = head[2].decode(), _text(data, head)
        if name not in _COMMON and text.count(b"\n") <= _SHORT:
            yield name, text


def _text(data: bytes, head: re.Match[bytes]) -> bytes:
    """A function from its ``def`` to the next line that is not deeper."""
    margin = len(head[1])
    ended = re.compile(rb"\n[ \t]{0,%d}[^\s#)\]}]" % margin).search(data, head.end())
    return data[head.start(1) : ended.start() if ended else len(data)]


def _is_only(body: Body) -> bool:
    """Whether each line waits, tests, forgets, or says something."""
    return any(line.sites for line in body.lines) and not any(
        line.works and not line.sites and not line.test for line in body.lines
    )
