"""Picks by bytes the names of methods that start copies and wait, and who defines them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from auditor.vocabulary import Vocabulary, words

_WAITS = (
    *(b"synchronize(", b".wait(", b".result(", b".record(", b"record_event("),
    *(b"wait_event(", b"wait_stream("),
)
_WAITING = (b"synchronize(", b"wait", b"record", b".result(")
"""One of these is part of each: a file is looked through for few."""
_STARTS = (
    b"non_blocking",
    b".submit(",
    b"copy_(",
    b"_copy(",
    b"transfer_",
    b"_transfer",
    b"backup",
)
_METHOD = re.compile(rb"\n[ \t]+(?:async[ \t]+)?def[ \t]+(\w+)\(\s{0,80}self\b")
_FEWEST = 2
_SHARE = 0.2
"""Of the methods of a name: where fewer wait in their own text, so few cannot be a norm."""


def named(sources: Mapping[str, bytes], vocabulary: Vocabulary) -> frozenset[str]:
    """The names of methods of which some wait for what they start, and others may.

    One of a name is enough beside others that share its first or its last word: ``push_rows``
    where several ``pull_rows`` wait.
    """
    places: dict[str, list[str]] = {}
    starting: dict[str, int] = {}
    for path, data in sources.items():
        if any(word in data for word in _WAITING) and any(word in data for word in _STARTS):
            for name, starts in _waiting(data):
                if vocabulary.duty(name) != "setup":
                    places.setdefault(name, []).append(path)
                    starting[name] = starting.get(name, 0) + starts
    several = {name for name, count in starting.items() if count >= _FEWEST}
    beside = {(path, end) for name in several for path in places[name] for end in ends(name)}
    few = {n for n, ps in places.items() if any((p, e) in beside for p in ps for e in ends(n))}
    return frozenset(n for n in several | few if len(places[n]) >= _SHARE * _defined(n, sources))


def defining(sources: Mapping[str, bytes], names: frozenset[str]) -> list[str]:
    """The files with a definition of one of the names."""
    heads = [f"def {name}(".encode() for name in sorted(names)]
    return [path for path, data in sources.items() if any(head in data for head in heads)]


def ends(name: str) -> Sequence[tuple[int, str]]:
    """The first and the last word of a name, each with where it stands."""
    parts = words(name)
    return ((0, parts[0]), (-1, parts[-1])) if len(parts) > 1 else ()


def _defined(name: str, sources: Mapping[str, bytes]) -> int:
    head = f" def {name}(".encode()
    return sum(data.count(head) for data in sources.values())


def _waiting(data: bytes) -> Iterator[tuple[str, bool]]:
    """The names of the methods that hold a wait, each with whether they may start a copy."""
    found = list(_METHOD.finditer(data))
    stops = [*(match.start() for match in found[1:]), len(data)]
    for match, stop in zip(found, stops, strict=False):
        text = data[match.start() : stop]
        if any(word in text for word in _WAITS):
            yield match[1].decode(), any(word in text for word in _STARTS)
