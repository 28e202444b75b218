"""The cache of facts: what it spares, and how little it takes for granted."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from auditor.errors import Unreadable
from auditor.source import extract
from auditor.source.facts import ModuleFacts
from auditor.source.store import FactStore

SOURCES = {
    "p/a.py": b"class A:\n    def read(self, i):\n        return self.rows[i]\n",
    "p/b.py": b"from .a import A\nclass B(A): ...\n",
    "p/c.py": b"",
}


def facts(folder: Path | None, sources: dict[str, bytes] = SOURCES) -> dict[str, ModuleFacts]:
    store = FactStore(folder)
    try:
        found, failed = store.facts(sources)
    finally:
        store.close()
    assert not failed
    return found


EXPECTED = {p: extract.extract(data, "p") for p, data in SOURCES.items()}


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What was parsed since the test began."""
    seen: list[bytes] = []
    original = extract.extract

    def counting(data: bytes, package: str, before: ModuleFacts | None) -> ModuleFacts:
        seen.append(data)
        return original(data, package, before)

    monkeypatch.setattr(extract, "extract", counting)
    return seen


def database(folder: Path) -> Path:
    (found,) = folder.glob("*.sqlite")
    return found


def test_a_hit_needs_no_parser_and_gives_the_same(tmp_path: Path, parsed: list[bytes]) -> None:
    assert facts(tmp_path) == EXPECTED
    assert len(parsed) == len(SOURCES)
    assert facts(tmp_path) == EXPECTED
    assert len(parsed) == len(SOURCES)


def test_one_content_in_two_packages_resolves_two_ways(tmp_path: Path) -> None:
    sources = {"p/m.py": b"from .a import A\n", "q/m.py": b"from .a import A\n"}
    for _ in range(2):
        found = facts(tmp_path, sources)
        assert [found[p].imports[0].module for p in sorted(found)] == ["p.a", "q.a"]


def test_failures_are_told_each_time(tmp_path: Path) -> None:
    for _ in range(2):
        store = FactStore(tmp_path)
        found, failed = store.facts({"p/a.py": b"x = = 1\n", "p/b.py": b"x = 1\n"})
        store.close()
        assert set(found) == {"p/b.py"}
        assert failed == {"p/a.py": "syntax error at line 1: invalid syntax"}


def test_without_a_folder_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert facts(None) == EXPECTED
    assert not list(tmp_path.iterdir())


def test_another_version_of_the_facts_has_a_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parsed: list[bytes]
) -> None:
    facts(tmp_path)
    assert str(extract.VERSION) in database(tmp_path).stem.split("-")
    monkeypatch.setattr(extract, "VERSION", extract.VERSION + 1)
    facts(tmp_path)
    assert len(parsed) == 2 * len(SOURCES)
    assert len(list(tmp_path.glob("*.sqlite"))) == 2


def spoil_text(path: Path) -> None:
    path.write_bytes(b"this is no database\n" * 100)


def spoil_cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def spoil_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[200:] = os.urandom(len(data) - 200)
    path.write_bytes(data)


def spoil_empty(path: Path) -> None:
    path.write_bytes(b"")


def spoil_schema(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE facts (other TEXT)")


@pytest.mark.parametrize("spoil", [spoil_text, spoil_cut, spoil_middle, spoil_empty, spoil_schema])
def test_a_corrupt_file_costs_time_only(
    tmp_path: Path, parsed: list[bytes], spoil: Callable[[Path], None]
) -> None:
    many = SOURCES | {f"p/n{n}.py": b"x = %d\n" % n * 50 for n in range(200)}
    before = facts(tmp_path, many)
    spoil(database(tmp_path))
    assert facts(tmp_path, many) == before
    if spoil is not spoil_schema:
        parsed.clear()
        assert facts(tmp_path, many) == before
        assert not parsed, "the file was made anew"


@pytest.mark.parametrize(
    "value",
    [b"", b"\xc1", b"\x91" * 5000, msgspec.msgpack.encode("text"), msgspec.msgpack.encode([1]), 7],
)
def test_a_poisoned_row_is_extracted_again(tmp_path: Path, value: object) -> None:
    facts(tmp_path)
    with sqlite3.connect(database(tmp_path)) as connection:
        assert connection.execute("UPDATE facts SET value = ?", (value,)).rowcount
    assert facts(tmp_path) == EXPECTED
    with sqlite3.connect(database(tmp_path)) as connection:
        assert (value,) not in connection.execute("SELECT value FROM facts").fetchall()


def test_a_locked_file_costs_time_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts(tmp_path)
    impatient = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, timeout: impatient(path, timeout=0.05))
    other = impatient(database(tmp_path))
    other.execute("PRAGMA locking_mode=EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    try:
        assert facts(tmp_path) == EXPECTED
        assert facts(tmp_path, {"p/new.py": b"y = 1\n"})
    finally:
        other.close()


@pytest.mark.parametrize("kind", ["file", "missing-parent", "database-is-a-folder"])
def test_a_folder_that_is_none(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "cache"
    if kind == "file":
        folder.write_text("")
    elif kind == "missing-parent":
        folder = folder / "deeper" / "still"
    else:
        facts(folder)
        path = database(folder)
        path.unlink()
        path.mkdir()
    assert facts(folder) == EXPECTED


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        assert facts(tmp_path) == EXPECTED
    finally:
        tmp_path.chmod(0o755)


def test_a_file_that_cannot_be_written_is_still_read(tmp_path: Path, parsed: list[bytes]) -> None:
    facts(tmp_path)
    with sqlite3.connect(database(tmp_path)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    database(tmp_path).chmod(0o444)
    parsed.clear()
    assert facts(tmp_path) == EXPECTED
    assert facts(tmp_path, {"p/new.py": b"y = 1\n"})


def work(folder: Path, start: int) -> None:
    for n in range(start, start + 20):
        store = FactStore(folder)
        store.facts({f"p/m{n % 30}.py": b"x = %d\n" % (n % 30)})
        store.close()


def test_two_processes_at_once(tmp_path: Path, parsed: list[bytes]) -> None:
    context = multiprocessing.get_context("spawn" if os.name == "nt" else "fork")
    both = [context.Process(target=work, args=(tmp_path, start)) for start in (0, 10)]
    for process in both:
        process.start()
    for process in both:
        process.join(60)
        assert process.exitcode == 0
    facts(tmp_path, {f"p/m{n}.py": b"x = %d\n" % n for n in range(30)})
    assert not parsed


def test_what_was_read_before_an_interruption_is_kept(
    tmp_path: Path, parsed: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FactStore(tmp_path)
    counting = extract.extract

    def interrupted(data: bytes, package: str, before: ModuleFacts | None) -> ModuleFacts:
        if len(parsed) == 2:
            raise KeyboardInterrupt
        return counting(data, package, before)

    monkeypatch.setattr(extract, "extract", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            store.facts(SOURCES)
    finally:
        store.close()
    monkeypatch.setattr(extract, "extract", counting)
    assert facts(tmp_path) == EXPECTED
    assert len(parsed) == len(SOURCES)


def test_an_unreadable_file_is_not_kept_as_facts(tmp_path: Path) -> None:
    with pytest.raises(Unreadable):
        extract.extract(b"(", "p")
    store = FactStore(tmp_path)
    store.facts({"p/a.py": b"("})
    store.close()
    with sqlite3.connect(database(tmp_path)) as connection:
        assert not connection.execute("SELECT * FROM facts").fetchall()


@pytest.mark.parametrize("folder", [False, True])
def test_two_processes_find_what_one_finds(tmp_path: Path, folder: bool) -> None:
    sources = {f"sglang/srt/m{n}.py": f"def f{n}():\n    return {n}\n".encode() for n in range(90)}
    sources["sglang/srt/broken.py"] = b"def (:\n"
    kept = tmp_path if folder else None
    two = FactStore(kept, alone=False)
    found, failed = two.facts(sources)
    assert (found, failed) == FactStore(None).facts(sources)
    assert list(found) == [path for path in sources if path not in failed]
    assert list(failed) == ["sglang/srt/broken.py"]
    two.close()
    if folder:
        again = FactStore(kept)
        assert again.facts(sources) == (found, failed)
        again.close()
