"""The drift report: what its formats hold, and that text of the fork stays text."""

from __future__ import annotations

import json
import re

import pytest

from auditor.cli import main
from tests.drift.histories import BASE, FIXED, FORKED, OTHER, OTHER_BASE, POOL, History

HOSTILE = "x | `@all` <img src=x> ![a](http://e.example) \x1b[31m [b](c) (#5)"


@pytest.fixture
def line(tiny_repository, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = History(tiny_repository, tmp_path)
    made.upstream({POOL: FIXED}, f"Fix {HOSTILE}")
    made.fork({POOL: FORKED}, HOSTILE)
    made.fork({OTHER: OTHER_BASE.replace("a + 1", "a + 2")}, "plain")
    made.release()
    return made


def run(line, *arguments):
    return main(["drift", "-C", str(line.repository.top), "--upstream", "v0.5.9", *arguments])


def test_json_has_the_whole_of_it_and_the_same_twice(line, capsys):
    assert run(line, "-o", "json") == 0
    first = capsys.readouterr().out
    assert run(line, "-o", "json") == 0
    assert capsys.readouterr().out == first
    document = json.loads(first)
    assert document["schema"] == "audit-drift/1"
    assert document["drift"]["target"] == "v0.5.10"
    assert (document["summary"]["ahead"], document["summary"]["behind"]) == (2, 1)
    assert document["summary"]["fixes"] == {"absent": 1}
    assert document["summary"]["patches"] == {"own": 2}
    assert str(line.repository.top) not in first
    assert "a@example.org" not in first


def test_the_page_leads_with_the_counts_and_shows_the_fix(line, capsys):
    assert run(line, "--no-color") == 0
    page = capsys.readouterr().out
    assert page.startswith("2 commits ahead of v0.5.10, 1 behind · 1 file changed on both sides")
    assert "absent: 1 of 1 changed parts without it" in page
    assert "applies cleanly" in page
    assert f"{POOL}:11" in page
    assert "\x1b" not in page


def test_markdown_keeps_hostile_subjects_in_code(line, capsys):
    assert run(line, "-o", "markdown") == 0
    page = capsys.readouterr().out
    [row] = [row for row in page.splitlines() if row.startswith("- `")]
    assert "`` Fix x | `@all` <img src=x>" in row
    rows = [row for row in page.splitlines() if re.search(r"^\| [0-9a-f]{10} \|", row)]
    assert len(rows) == 2
    # As many cells as the head has, the bar of the subject escaped.
    assert {row.replace("\\|", "").count("|") for row in rows} == {9}
    assert "\x1b" not in page


def test_files_and_standard_output_at_once(line, tmp_path, capsys):
    file = tmp_path / "out.json"
    assert run(line, "-o", f"json={file}", "-o", "markdown") == 0
    assert capsys.readouterr().out.startswith("**2 commits ahead")
    assert json.loads(file.read_text())["schema"] == "audit-drift/1"
    assert run(line, "-o", "pdf") == 2
    assert "table, json, markdown" in capsys.readouterr().err


def test_without_a_newer_release_it_is_held_against_its_own(line, capsys):
    line.repository.git("tag", "--delete", "v0.5.10")
    assert run(line) == 0
    assert capsys.readouterr().out.startswith("2 commits ahead of v0.5.9, 0 behind")


def test_folders_are_compared_without_history(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, code in (("fork", FORKED), ("up", BASE)):
        (tmp_path / name / "sglang/srt").mkdir(parents=True)
        (tmp_path / name / "sglang/srt/pool.py").write_text(code)
    assert main(["drift", "-C", str(tmp_path / "fork"), "--upstream", str(tmp_path / "up")]) == 0
    page = capsys.readouterr().out
    assert "no newer release" in page
    assert "changed symbols of srt" in page
