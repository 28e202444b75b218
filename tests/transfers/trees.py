"""Families of pools as text, and which of their transfers stand out."""

from __future__ import annotations

from auditor.rulebook import load
from auditor.source.scans import Scans
from auditor.source.store import FactStore
from auditor.streams.reading import Shortened
from auditor.transfers.side import Transfers

VOCABULARY = load().vocabulary
PATH = "sglang/srt/mem_cache/pools.py"
COPY = "self.staging.copy_(self.rows[slots], non_blocking=True)"
WAIT = "torch.cuda.synchronize()"
HEAD = """\
import contextlib
import functools

import torch


class Pool:
    def push_out(self, slots):
        raise NotImplementedError

"""


def method(body: str, name: str = "push_out", given: str = "self, slots") -> str:
    """A method with the lines of a body; a line that begins with ``@`` decorates it."""
    lines = body.splitlines()
    wraps = "".join(f"    {line}\n" for line in lines if line.startswith("@"))
    inner = "".join(f"        {line}\n" for line in lines if not line.startswith("@"))
    return f"{wraps}    def {name}({given}):\n{inner}\n"


def pool(name: str, *methods: str, bases: str = "(Pool)") -> str:
    """A class of a pool."""
    return f"\nclass {name}{bases}:\n" + "".join(methods)


GOOD = f"{COPY}\n{WAIT}"
SIBLINGS = pool("Wide", method(GOOD)) + pool("Tall", method(GOOD))


def side(files: dict[str, str], whole: bool = False) -> Transfers:
    """The transfers of a side; ``whole`` reads its files before, as the gates do with theirs."""
    scans = Scans()
    sources = scans.intern({path: text.encode() for path, text in files.items()})
    store = FactStore(None)
    known = store.facts(sources)[0] if whole else {}
    read = lambda contents: store.facts(contents)[0]  # noqa: E731
    return Transfers(sources, known, read, scans, VOCABULARY, Shortened())


def told(text: str, **others: str) -> dict[str, int]:
    """The methods that stand out, each with the line of its last copy.

    Of files that are read in part and of those that are read whole it must be the same.
    """
    more = {f"sglang/srt/mem_cache/{name}.py": other for name, other in others.items()}
    found = [
        {
            gap.method.place.facts.qualname: gap.method.place.line(gap.method.last.line)
            for gap in side({PATH: text, **more}, whole).gaps
        }
        for whole in (False, True)
    ]
    assert found[0] == found[1]
    return found[0]


def open_in(body: str, extra: str = "", given: str = "self, slots") -> bool:
    """Whether a method of that body stands out beside two siblings that wait."""
    flat = pool("Flat", method(body, given=given))
    found = told(f"{HEAD}{extra}{SIBLINGS}{flat}")
    assert set(found) <= {"Flat.push_out"}
    return bool(found)
