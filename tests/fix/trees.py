"""Small trees on disk that are fixed, and what becomes of them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from auditor.model import Confidence
from auditor.repo.scripts import Scripts
from auditor.runs.fix import Repair, repair
from auditor.runs.request import AuditRequest

POOL = "sglang/srt/mem_cache/pool.py"
Files = Mapping[str, str | bytes]

HEAD = """\
import torch

from kernels import unpack


class PagePool:
    def __init__(self, layers, slots):
        self.first = 0
        self.counter = None
        self.pages = [torch.zeros(slots) for _ in range(layers)]

    def attach_counter(self, counter):
        self.counter = counter

    def get_pages(self, layer_id):
        if self.counter is not None:
            self.counter.wait_until(layer_id - self.first)
        return self.pages[layer_id - self.first]

    def get_page_slots(self, layer_id, slots):
        if self.counter is not None:
            self.counter.wait_until(layer_id - self.first)
        return self.pages[layer_id - self.first][slots]
"""
"""A pool with two getters that wait."""


def method(text: str) -> str:
    """More of a class, its text given without the class's indentation."""
    return "\n" + textwrap.indent(textwrap.dedent(text).strip("\n"), "    ") + "\n"


def write(folder: Path, files: Files) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def fix(
    folder: Path,
    fork: Files,
    upstream: Files | None = None,
    target: Files | None = None,
    *,
    rules: Sequence[str] = (),
    unsafe: bool = True,
    dry: bool = False,
    serve: Sequence[str] = (),
    confidence: Confidence = "medium",
) -> Repair:
    """Writes the sides below a folder, and fixes the one in ``fork``; no upstream is the fork's."""
    made = write(folder / "fork", fork)
    theirs = write(folder / "upstream", fork if upstream is None else upstream)
    targets = () if target is None else (str(write(folder / "target", target)),)
    request = AuditRequest(
        root=made,
        upstream=str(theirs),
        targets=targets,
        min_confidence=confidence,
        serve=Scripts(tuple(serve), made),
    )
    return repair(request, rules, unsafe=unsafe, dry=dry)


def fixed(folder: Path, fork: str | bytes, **sides: str | bytes | None) -> bytes:
    """What the pool's file holds after all of its findings were fixed."""
    files = {name: None if text is None else {POOL: text} for name, text in sides.items()}
    done = fix(folder, {POOL: fork}, **files)  # type: ignore[arg-type]
    assert done.fixes
    assert [fix.reason for fix in done.fixes if fix.state != "made"] == []
    return (folder / "fork" / POOL).read_bytes()
