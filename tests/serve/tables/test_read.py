"""All tables of a tree together: its version, and that no tree makes it fail."""

from __future__ import annotations

import pytest

from auditor.serve.tables.read import read_tables

SMALL = {
    "sglang/version.py": b'__version__ = "1.2.3"\n',
    "sglang/srt/environ.py": b"class Envs:\n    SGLANG_FAST = EnvBool(False)\n",
    "sglang/srt/server_args.py": b"""
class ServerArgs:
    alpha: bool = False
    beta: bool = False

    def add_cli_args(parser):
        parser.add_argument("--alpha", action="store_true")
        parser.add_argument("--beta", action="store_true")

    def __post_init__(self):
        assert not (self.alpha and self.beta), "not both"
""",
}


def test_every_table_is_read() -> None:
    tables = read_tables(SMALL, SMALL.get)
    assert tables.version == "1.2.3"
    assert [flag.names for flag in tables.flags] == [("--alpha",), ("--beta",)]
    assert [row.name for row in tables.environment] == ["SGLANG_FAST"]
    assert [guard.message for guard in tables.guards] == ["not both"]
    # It has no parsers: that is said, and nothing else.
    assert all("parser" in note for note in tables.notes)


@pytest.mark.parametrize(
    ("files", "version"),
    [
        ({"sglang/_version.py": b"__version__ = version = '0.9.1'\n"}, "0.9.1"),
        ({"sglang/version.py": b"__version__ = '0.0.0.dev0'\n"}, ""),
        ({"sglang/version.py": b"import git\n__version__ = git.describe()\n"}, ""),
        ({}, ""),
    ],
)
def test_the_version_is_what_a_file_says(files: dict[str, bytes], version: str) -> None:
    assert read_tables(files, files.get).version == version


def test_a_tree_without_a_server_has_empty_tables() -> None:
    tables = read_tables({}, lambda path: None)
    assert (tables.flags, tables.environment, tables.guards) == ((), (), ())


@pytest.mark.parametrize("path", sorted(SMALL))
@pytest.mark.parametrize(
    "data",
    [
        None,
        b"\xff\xfe\x00",
        b"class ServerArgs(\n",
        b"x = " + b"[" * 5000 + b"]" * 5000,
        b"x = " + b"-" * 20_000 + b"1",
        b"#" * (5 * 1024 * 1024 + 1),
    ],
)
def test_a_file_that_cannot_be_read_is_noted(path: str, data: bytes | None) -> None:
    files = {**SMALL, path: data}
    tables = read_tables(files, files.get)
    if path != "sglang/srt/environ.py" or data is None or len(data) > 5_000_000:
        assert any(note.startswith(path) for note in tables.notes)
