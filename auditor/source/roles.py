"""Files with methods of one name and parameter of which some wait on it, picked by bytes."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping

from auditor.source.scans import Scans
from auditor.vocabulary import Vocabulary

TOO_COMMON = 40
"""A name found in more files than this says nothing about what the receiver is."""


def waits_of(vocabulary: Vocabulary) -> re.Pattern[bytes]:
    """Calls of any of the primitive waits, with the first word of what they are given."""
    return _calls(tuple(sorted(vocabulary.primitive_waits)))


@functools.lru_cache(maxsize=4)
def _calls(names: tuple[str, ...]) -> re.Pattern[bytes]:
    alternatives = "|".join(map(re.escape, names))
    return re.compile(rf"\.(?:{alternatives})\s*\(\s*(\w*)".encode() if names else rb"(?!)")


LAST_WORD = re.compile(rb"\w+\Z")


def parameter_waits(sources: Mapping[str, bytes], vocabulary: Vocabulary, scans: Scans) -> set[str]:
    """Files with methods that take a parameter which some method of the same name waits on."""
    names = sorted(vocabulary.primitive_waits)
    # ``.wait`` is part of ``.wait_event``: it need not be looked for twice.
    words = [b"." + n.encode() for n in names if not any(m != n and n.startswith(m) for m in names)]
    waits = waits_of(vocabulary)
    pairs: set[tuple[bytes, bytes]] = set()
    later: Counter[tuple[bytes, bytes]] = Counter()
    for data in sources.values():
        if scans.found(data, waits, words):
            handed: set[bytes] = set()
            for found in waits.finditer(data):
                pairs |= _waited_parameters(data, found)
                handed |= _waited_names(data, found)
            later.update(_handed_parameters(data, handed, scans))
    # Of what is waited on elsewhere under its name one may be chance; two are siblings.
    pairs |= {pair for pair, count in later.items() if count > 1}
    if not pairs:
        return set()
    methods = b"|".join(re.escape(m) for m in sorted({m for m, _ in pairs}))
    definition = re.compile(rb"def\s+(" + methods + rb")\s*\(\s*self\b([^)]*)\)")
    users: dict[tuple[bytes, bytes], list[str]] = {}
    for path, data in sources.items():
        for method, parameters in scans.found(data, definition):
            for name in _PARAMETER.findall(parameters):
                if (method, name) in pairs:
                    users.setdefault((method, name), []).append(path)
    wanted = (ps for ps in users.values() if _FEWEST_ROLES <= len(ps) <= TOO_COMMON)
    return {path for paths in wanted for path in paths}


_METHODS = re.compile(rb"def\s+(\w+)\s*\(\s*self\b([^)]*)\)")
_DOTTED = re.compile(rb"[\w.]+")
_METHOD = re.compile(rb"\s+(\w+)\s*\(\s*self\b([^)]*)\)")
_NAME = re.compile(rb"\w+")
# Annotations are no names: torch.Tensor would make one of every torch.cuda.synchronize().
_PARAMETER = re.compile(rb",\s*\**(\w+)")
_BEFORE = re.compile(rb"(?<![\w.)\]])(\w+)\Z")
_FEWEST_ROLES = 3
"""Two that wait and one that does not: fewer say nothing."""


def _waited_parameters(data: bytes, found: re.Match[bytes]) -> set[tuple[bytes, bytes]]:
    """(method, parameter) where the method around a wait takes what it waits on."""
    before = _BEFORE.search(data[max(0, found.start() - 60) : found.start()])
    names = {found.group(1)} if found.group(1) else set()
    names |= {before.group(1)} if before else set()
    start = data.rfind(b"def", 0, found.start()) if names else -1
    method = _METHOD.match(data, start + 3) if start >= 0 else None
    if method is None or method.group(1).startswith(b"__"):
        return set()
    return {(method.group(1), name) for name in names & set(_PARAMETER.findall(method.group(2)))}


def _waited_names(data: bytes, found: re.Match[bytes]) -> set[bytes]:
    """The last names of what a wait is made on, and of what it is given."""
    before = LAST_WORD.search(data[max(0, found.start() - 60) : found.start()])
    given = _DOTTED.match(data, found.start(1))
    names = {before.group()} if before else set()
    return names | ({given.group().rpartition(b".")[2]} if given else set())


def _handed_parameters(
    data: bytes, waited: set[bytes], scans: Scans
) -> Iterable[tuple[bytes, bytes]]:
    """(method, parameter) where what is waited on in the file has the parameter's name.

    Or where something of the name is given the parameter, as fields of records are.
    """
    given = waited.union(*(_given(data, name) for name in waited))
    for method, parameters in scans.found(data, _METHODS, [b"def "]):
        if not method.startswith(b"__"):
            for name in given.intersection(_PARAMETER.findall(parameters)):
                yield method, name


def _given(data: bytes, name: bytes) -> Iterable[bytes]:
    """The names that something of a name is given: ``event=ready``, ``self.event = ready``."""
    for sign in (b"=", b" = "):
        at = data.find(name + sign)
        while at >= 0:
            value = _NAME.match(data, at + len(name + sign))
            if value is not None:
                yield value.group()
            at = data.find(name + sign, at + 1)
