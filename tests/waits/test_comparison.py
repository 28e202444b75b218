"""Nothing that hides a function from one way of reading hides a wait that it lost."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from auditor.model import Report
from auditor.rulebook import load
from auditor.runs.audit import audit_sources
from auditor.source.extract import extract
from auditor.source.facts import ModuleFacts
from auditor.waits.calls import Calls
from auditor.waits.changed import Pieces
from auditor.waits.comparison import Comparison, Missing

CALLS = Calls(load().vocabulary.primitive_waits)
WAITS = """\
class Store:
    def rows(self, slots):
        self.done.synchronize()
        return self.pages[slots]
"""
OPEN = WAITS.replace("        self.done.synchronize()\n", "")
LOCKED = """\
class Store:
    @synchronized()
    def put(self, key, value):
        self.table[key] = value
        self.tell(key)
"""
BARE = LOCKED.replace("    @synchronized()\n", "")


def missing(before: bytes, after: bytes) -> list[Missing]:
    def read(files: Mapping[str, bytes]) -> dict[str, ModuleFacts]:
        return {path: extract(data, "") for path, data in files.items()}

    earlier, later = (Pieces({"store.py": data}, {}, read) for data in (before, after))
    return list(Comparison(earlier, later, CALLS).missing())


def names(before: str, after: str, encoding: str = "utf-8") -> list[str]:
    return [m.qualname for m in missing(before.encode(encoding), after.encode(encoding))]


def nested(text: str) -> str:
    return "class Outer:\n" + "".join(f"    {line}\n" for line in text.splitlines())


def test_a_file_that_says_how_it_is_to_be_read() -> None:
    """A function by itself does not say that its text is latin-1."""
    head = "# -*- coding: latin-1 -*-\n"
    before, after = (head + t.replace("return", "x = 'é'; return") for t in (WAITS, OPEN))
    assert names(before, after, "latin-1") == ["Store.rows"]


def test_a_function_of_thousands_of_lines() -> None:
    pad = "".join(f"        self.x{n} = self.f(slots)\n" for n in range(2100))
    sides = [text.replace("        return", pad + "        return") for text in (WAITS, OPEN)]
    assert names(*sides) == ["Store.rows"]


def test_a_class_in_a_class_and_lines_with_carriage_returns() -> None:
    assert names(nested(WAITS), nested(OPEN)) == ["Outer.Store.rows"]
    assert names(WAITS.replace("\n", "\r\n"), OPEN.replace("\n", "\r\n")) == ["Store.rows"]


def test_a_decorator_hides_nothing_unless_the_tree_says_what_it_does() -> None:
    marked = OPEN.replace("    def", "    @torch.no_grad()\n    def")
    assert names(WAITS, marked) == ["Store.rows"]
    own = "def settled(method):\n    return method\n\n\n"
    assert names(WAITS, own + OPEN.replace("    def", "    @settled\n    def")) == []


def test_a_lock_that_a_decorator_takes() -> None:
    [lost] = missing(LOCKED.encode(), BARE.encode())
    assert (lost.shape, lost.qualname, lost.alone) == ("lock", "Store.put", True)
    inside = BARE.replace("        self", "            self").replace(
        "            self", "        with self.lock:\n            self", 1
    )
    assert names(LOCKED, inside) == []


def test_a_file_whose_waits_are_all_made_elsewhere() -> None:
    helper = b"def drain_pages(store):\n    store.done.synchronize()\n"
    use = b"def rows(store, slots):\n    drain_pages(store)\n    return store.pages[slots]\n"
    less = use.replace(b"    drain_pages(store)\n", b"")
    earlier, later = (
        Pieces({"helper.py": helper, "use.py": text}, {}, lambda _: {}) for text in (use, less)
    )
    assert [m.qualname for m in Comparison(earlier, later, CALLS).missing()] == ["rows"]


def test_a_file_that_moved() -> None:
    def compared(*paths: str) -> list[Missing]:
        before, after = ({"old/store.py": WAITS.encode()}, {p: OPEN.encode() for p in paths})
        earlier, later = (Pieces(files, {}, lambda _: {}) for files in (before, after))
        return list(Comparison(earlier, later, CALLS).missing())

    [lost] = compared("new/store.py")
    assert (lost.earlier, lost.path) == ("old/store.py", "new/store.py")
    assert compared("new/store.py", "newer/store.py") == []  # which of them it is, nobody says


PATH = "sglang/srt/store.py"


def report(fork: str, upstream: str, *targets: str) -> Report:
    return audit_sources({PATH: fork}, {PATH: upstream}, [{PATH: text} for text in targets])


def test_the_first_target_that_waits_is_the_one_that_mended_it() -> None:
    [finding] = report(OPEN, OPEN, OPEN, WAITS).findings
    assert (finding.rule, finding.severity) == ("wait-in-later-release", "low")
    assert (finding.origin, finding.fixed_in) == ("fixed-upstream", "target1")
    assert "as the version of target1 does" in finding.hit.message


def test_what_upstream_waits_for_is_a_loss_whatever_a_target_does() -> None:
    [finding] = report(OPEN, WAITS, OPEN).findings
    assert (finding.rule, finding.origin) == ("wait-lost", "regressed")


@pytest.mark.parametrize(
    ("now", "confidence"),
    [
        ("self.pages[slots]", "high"),
        ("self.pages[slots].clone()", "medium"),
        ("self.texts", None),  # what was waited for is not read any more
    ],
)
def test_confidence_is_high_where_nothing_else_differs(now: str, confidence: str | None) -> None:
    found = report(OPEN.replace("self.pages[slots]", now), WAITS).findings
    assert [f.hit.confidence for f in found] == ([confidence] if confidence else [])


def test_what_cannot_be_read_is_told() -> None:
    found = report(OPEN + "def x(:\n", WAITS)
    assert [(skip.side, skip.path) for skip in found.skipped] == [("fork", PATH)]
