"""Picks by bytes the names of methods that start copies and wait, and who defines them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from auditor.source.scans import Scans
from auditor.streams.words import startup
from auditor.vocabulary import Vocabulary, words

_WAITS = (
    *(b"synchronize(", b".wait(", b".result(", b".record(", b"record_event("),
    *(b"wait_event(", b"wait_stream("),
)
_WAITING = re.compile(rb"(?s)(%b).*" % b"|".join(map(re.escape, _WAITS)))
"""The first of them; the rest of the file is passed over."""
_STARTS = (
    *(b"non_blocking", b".submit(", b"copy_(", b"_copy("),
    *(b"transfer_", b"_transfer", b"backup"),
)
_METHOD = re.compile(rb"def (\w+)\(\s{0,80}self\b")
_FEWEST = 2
_SHARE = 0.2
"""Of the methods of a name: where fewer wait in their own text, so few cannot be a norm."""


def waiting(sources: Mapping[str, bytes], scans: Scans) -> list[str]:
    """The files in which something may wait for copies that it starts."""
    found = scans.holding(sources, [word.decode() for word in _WAITS], _WAITING)
    return [path for path in found if any(word in sources[path] for word in _STARTS)]


def picked(
    sources: Mapping[str, bytes], files: Sequence[str], vocabulary: Vocabulary
) -> dict[str, list[str]]:
    """The names of methods of which some wait for what they start, each with all its files.

    One of a name is enough beside others that share its first or its last word: ``push_rows``
    where several ``pull_rows`` wait. ``files`` are those in which something may wait.
    """
    places: dict[str, list[str]] = {}
    starting: dict[str, int] = {}
    for path in files:
        for name, starts in _methods(sources[path]):
            if not startup(name, vocabulary):
                places.setdefault(name, []).append(path)
                starting[name] = starting.get(name, 0) + starts
    several = {name for name, count in starting.items() if count >= _FEWEST}
    beside = {(path, end) for name in several for path in places[name] for end in ends(name)}
    few = {n for n, ps in places.items() if any((p, e) in beside for p in ps for e in ends(n))}
    found: dict[str, list[str]] = {}
    for name in sorted(several | few):
        head = f" def {name}(".encode()
        defining = {path: data.count(head) for path, data in sources.items() if head in data}
        if len(places[name]) >= _SHARE * sum(defining.values()):
            found[name] = list(defining)
    return found


def ends(name: str) -> Sequence[tuple[int, str]]:
    """The first and the last word of a name, each with where it stands."""
    parts = words(name)
    return ((0, parts[0]), (-1, parts[-1])) if len(parts) > 1 else ()


def _methods(data: bytes) -> Iterator[tuple[str, bool]]:
    """The names of the methods that hold a wait, each with whether they may start a copy."""
    found = list(_METHOD.finditer(data))
    stops = [*(match.start() for match in found[1:]), len(data)]
    for match, stop in zip(found, stops, strict=False):
        text = data[match.start() : stop]
        if any(word in text for word in _WAITS):
            yield match[1].decode(), any(word in text for word in _STARTS)
