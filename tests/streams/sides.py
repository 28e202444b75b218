"""Reads files given as text as one side, and says what became of every block and copy."""

from __future__ import annotations

from auditor.rulebook import load
from auditor.source.names import Names
from auditor.source.scans import Scans
from auditor.source.store import FactStore
from auditor.streams.reading import Shortened
from auditor.streams.side import SideStreams

VOCABULARY = load().vocabulary
PATH = "sglang/srt/layers/side.py"


def side(files: dict[str, str], whole: bool = False) -> SideStreams:
    """The streams of a side; ``whole`` reads its files before, as the gates do with theirs."""
    scans = Scans()
    sources = scans.intern({path: text.encode() for path, text in files.items()})
    store = FactStore(None)
    known = store.facts(sources)[0] if whole else {}
    read = lambda contents: store.facts(contents)[0]  # noqa: E731
    return SideStreams(sources, Names(known), read, scans, VOCABULARY, Shortened())


def blocks(text: str, **others: str) -> dict[int, str]:
    """The line of each block: ``ordered``, the excuse, or ``open``.

    Of the function that is read in part and of the one that is read whole it must be the same.
    """
    files = {PATH: text, **{f"sglang/srt/layers/{name}.py": more for name, more in others.items()}}
    found = [
        {
            entry.line: "ordered" if entry.ordered else entry.excuse or "open"
            for entry in side(files, whole).entries
            if entry.place.path == PATH
        }
        for whole in (False, True)
    ]
    assert found[0] == found[1]
    return found[0]


def copies(text: str, **others: str) -> dict[int, bool]:
    """The line of each copy to the host, and whether it is answered for."""
    files = {PATH: text, **{f"sglang/srt/layers/{name}.py": more for name, more in others.items()}}
    return {copy.line: answered for copy, answered in side(files).copies if copy.place.path == PATH}
