"""The suppressions of a configuration: what they hold for, and the lines they stand on."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from auditor.config import settle
from auditor.errors import UsageProblem
from auditor.triage.ignores import Ignore, matches

TABLES = """\
fail-on = "high"

[[ignore]]
reason = "nobody wants to touch it"
rule = "ungated-buffer-read"
path = "python/sglang/srt/**"
symbol = "Pool"

[[ignore]]
# a comment
expires = 2030-05-01
rule = "gate-removed"
"""


def fork(folder: Path, text: str, name: str = "audit.toml") -> Path:
    (folder / ".git").mkdir(exist_ok=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / name).write_text(text)
    return folder


def test_tables_with_the_lines_of_their_keys(tmp_path: Path) -> None:
    assert settle({}, fork(tmp_path, TABLES)).ignores == (
        Ignore(
            "ungated-buffer-read",
            "python/sglang/srt/**",
            "Pool",
            "nobody wants to touch it",
            None,
            "audit.toml",
            3,
            5,
            3,
            "fork",
        ),
        Ignore(
            "gate-removed", "", "", "", datetime.date(2030, 5, 1), "audit.toml", 9, 12, 11, "fork"
        ),
    )


def test_in_pyproject(tmp_path: Path) -> None:
    text = "[tool.audit]\n" + TABLES.replace("[[ignore]]", "[[tool.audit.ignore]]")
    found = settle({}, fork(tmp_path, text, "pyproject.toml")).ignores
    assert [(i.name, i.line, i.rule_line) for i in found] == [
        ("pyproject.toml", 4, 6),
        ("pyproject.toml", 10, 13),
    ]


def test_ids_and_tables_in_one_list(tmp_path: Path) -> None:
    text = 'ignore = [\n  "a-rule",\n  {rule = "b-rule", reason = "r"},\n  "c-rule, d-rule",\n]\n'
    settings = settle({}, fork(tmp_path, text))
    assert settings.ignore == ("a-rule", "c-rule", "d-rule")
    [ignore] = settings.ignores
    assert (ignore.rule, ignore.reason, ignore.line) == ("b-rule", "r", 3)
    assert settings.configuration["ignore"] == "a-rule, c-rule, d-rule (audit.toml)"


def test_ignore_on_the_command_line_leaves_the_tables(tmp_path: Path) -> None:
    settings = settle({"ignore": ("x",)}, fork(tmp_path, TABLES))
    assert settings.ignore == ("x",)
    assert len(settings.ignores) == 2


def test_isolated_ignores_those_of_the_tree_and_a_named_file_is_the_users(tmp_path: Path) -> None:
    root = fork(tmp_path, TABLES)
    assert settle({}, root, isolated=True).ignores == ()
    named = settle({}, root, root / "audit.toml").ignores
    assert {ignore.brought_by for ignore in named} == {"user"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[ignore]\nrule = 'a'", "ignore: must be text"),
        ("ignore = [5]", "ignore: must be text, not 5"),
        ("[[ignore]]\nrul = 'a'", r"ignore\[1\]: there is no key 'rul'; known are rule, path"),
        ("[[ignore]]\nrule = 5", r"ignore\[1\]\.rule: must be text"),
        ("[[ignore]]\nreason = ['a']", r"ignore\[1\]\.reason: must be text"),
        ("[[ignore]]\n[[ignore]]\nexpires = 'soon'", r"ignore\[2\]\.expires: must be a date"),
        ("[[ignore]]\nexpires = 5", "must be a date"),
        ("[[ignore]]\npath = ' '", r"path: is empty"),
        ("[[ignore]]\npath = '" + "a/" * 100 + "'", r"path: has more than 64 parts"),
        ("[[ignore]]\nsymbol = '" + "a" * 2000 + "'", r"symbol: is longer"),
        ("ignore = [" + "{}," * 6000 + "]", "more than 5,000"),
    ],
)
def test_a_wrong_table_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageProblem, match=message) as caught:
        settle({}, fork(tmp_path, text))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_dates_may_be_text(tmp_path: Path) -> None:
    text = "[[ignore]]\nexpires = '2030-05-01'\n[[ignore]]\nexpires = 2030-05-01T12:00:00\n"
    days = {ignore.expires for ignore in settle({}, fork(tmp_path, text)).ignores}
    assert days == {datetime.date(2030, 5, 1)}


@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [
        ("a/b.py", "a/b.py", True),
        ("a/*.py", "a/b.py", True),
        ("a/*.py", "a/b/c.py", False),
        ("*.py", "a/b.py", False),
        ("**", "a/b/c.py", True),
        ("**/c.py", "a/b/c.py", True),
        ("**/c.py", "c.py", True),
        ("a/**/c.py", "a/c.py", True),
        ("a/**/c.py", "b/a/c.py", False),
        ("a/**", "a/b/c.py", True),
        ("a/?.py", "a/b.py", True),
        ("A/b.py", "a/b.py", False),
        ("a", "a/b.py", False),
        ("**/" * 30 + "x", "/".join("a" * 60), False),
        ("*a" * 400, "a" * 399 + "b", False),
    ],
)
def test_globs(glob: str, path: str, expected: bool) -> None:
    assert matches(glob, path) is expected


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [("", True), ("Pool", True), ("Pool.get", True), ("Poo", False), ("Pool.get.inner", False)],
)
def test_a_symbol_holds_for_what_lies_in_it(symbol: str, expected: bool) -> None:
    assert Ignore("r", symbol=symbol).holds("a.py", "Pool.get") is expected
