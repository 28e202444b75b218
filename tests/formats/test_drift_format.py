"""The drift report: what its formats hold, and that text of the fork stays text."""

from __future__ import annotations

import json
import re
from datetime import datetime, timezone

import cmarkgfm
import jsonschema
import pytest

from auditor.cli import drift as command
from auditor.cli.main import main
from auditor.formats.drift import NAMES, render
from auditor.formats.drift_json import SCHEMA_FILE, schema
from auditor.formats.drift_words import Standing, Words
from auditor.formats.text import Screen
from auditor.formats.verdict import decide
from auditor.model import Evidence, Skipped
from tests.drift.histories import BASE, FIXED, FORKED, OTHER, OTHER_BASE, POOL, History
from tests.formats.drifts import HOSTILE as MARKUP
from tests.formats.drifts import drift, fix, weeks
from tests.formats.sample import finding, report

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
    # As many cells as the head has, the bar of the subject escaped; no finding, no such column.
    [head] = [row for row in page.splitlines() if row.startswith("| commit |")]
    assert "| findings |" not in head
    assert {row.replace("\\|", "").count("|") for row in rows} == {head.count("|")}
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


@pytest.fixture
def weekly(line, tmp_path, monkeypatch):
    """Runs the report at a date, with the history; later runs see what was changed."""

    def at(day, *arguments):
        monkeypatch.setattr(command, "_now", lambda: datetime(2026, 3, day, tzinfo=timezone.utc))
        return run(line, "--history", str(tmp_path / "drift.jsonl"), *arguments)

    return at


def test_a_run_is_told_against_the_one_before(line, weekly, tmp_path, capsys):
    assert weekly(2) == 0
    first = capsys.readouterr().out
    assert "since" not in first
    line.fork({OTHER: OTHER_BASE.replace("a + 1", "a + 3")}, "another")
    assert weekly(9, "-o", "markdown", "-o", f"json={tmp_path / 'drift.json'}") == 0
    page = capsys.readouterr().out
    assert page.startswith("**Since 2026-03-02:** 1 patch added · ahead 2 → 3\n")
    moved = json.loads((tmp_path / "drift.json").read_text())["moved"]
    assert moved["since"] == "2026-03-02T00:00:00Z"
    assert len(moved["patches_added"]) == 1
    assert (moved["opened"], moved["closed"]) == ([], [])
    assert weekly(16) == 0
    assert "since 2026-03-09: nothing moved" in capsys.readouterr().out
    assert weekly(16) == 0
    assert "since 2026-03-16 00:00: nothing moved" in capsys.readouterr().out
    rows = [json.loads(row) for row in (tmp_path / "drift.jsonl").read_text().splitlines()]
    assert [row["when"][:10] for row in rows] == [
        "2026-03-02",
        "2026-03-09",
        "2026-03-16",
        "2026-03-16",
    ]
    assert [row["tally"]["ahead"] for row in rows] == [2, 3, 3, 3]
    assert rows[0]["fork"]["ref"] == "fork"


def test_the_report_itself_has_no_clock(weekly, capsys):
    weekly(2)
    capsys.readouterr()
    documents = []
    for day in (9, 9):
        weekly(day, "-o", "json")
        documents.append(capsys.readouterr().out)
    assert "2026-03-02" in documents[0]
    assert "2026-03-09" not in documents[0]


def test_a_run_that_fails_leaves_no_line(line, weekly, tmp_path, capsys):
    history = tmp_path / "drift.jsonl"
    assert weekly(2, "--target", "v9.9.9") == 2
    assert weekly(2, "-o", f"json={tmp_path / 'none' / 'drift.json'}") == 2
    assert not history.exists()
    assert weekly(2) == 0
    before = history.read_bytes()
    assert weekly(2, "-o", f"json={history}") == 2
    assert "is an output as well" in capsys.readouterr().err
    assert history.read_bytes() == before


def test_a_broken_history_is_one_line_and_stays(weekly, tmp_path, capsys):
    history = tmp_path / "drift.jsonl"
    history.write_text("not a history\n")
    assert weekly(2) == 2
    out, told = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"audit: .*drift\.jsonl is no history of audit drift: .*\n", told)
    assert history.read_text() == "not a history\n"


def test_a_line_that_is_broken_off_is_told_and_kept(weekly, tmp_path, capsys):
    history = tmp_path / "drift.jsonl"
    weekly(2)
    with history.open("a") as file:
        file.write('{"schema":"audit-drift-line/1","when":"20')
    capsys.readouterr()
    assert weekly(9) == 0
    out, told = capsys.readouterr()
    assert "its last line is broken off; drift.jsonl.broken will hold it" in told
    assert told.count("\n") == 1
    assert str(tmp_path) not in out
    assert (tmp_path / "drift.jsonl.broken").is_file()
    assert len(history.read_text().splitlines()) == 2


def test_the_page_goes_to_its_file(weekly, tmp_path, capsys):
    for day in (2, 9):
        assert weekly(day, "-o", f"html={tmp_path / 'drift.html'}") == 0
    page = (tmp_path / "drift.html").read_text()
    assert page.startswith("<!doctype html>")
    assert page.count('role="img"') == 8
    assert "&lt;img src=x&gt;" in page
    assert str(tmp_path) not in page
    assert "a@example.org" not in page


def test_a_run_of_another_branch_is_not_compared(line, weekly, capsys):
    weekly(2)
    line.repository.git("switch", "--quiet", "--create", "staging")
    capsys.readouterr()
    assert weekly(9) == 0
    page = capsys.readouterr().out
    assert "since" not in page
    assert "drift.jsonl also holds 1 of another fork or branch" in page


@pytest.mark.parametrize("text", ["Overlap the copy with the wait", MARKUP, "`" * 70, "x" * 3000])
@pytest.mark.parametrize("number", [1, 3, 30])
def test_markdown_fits_a_chat_message(number, text):
    page = render("markdown", weeks(number, text), Screen())
    assert len(page) <= 4_000
    html = cmarkgfm.github_flavored_markdown_to_html(page)
    assert "<script" not in html
    assert "<img" not in html
    # What moved is there however much there is.
    assert number == 1 or page.startswith("**Since 2026-")


def test_markdown_says_what_it_leaves_out_and_shows_it_when_asked():
    standing = weeks(20)
    short = render("markdown", standing, Screen())
    assert re.search(r"\+\d+ more; -v shows all", short)
    whole = render("markdown", standing, Screen(verbose=True))
    assert "more; -v" not in whole
    assert len(whole) > len(short)
    assert render("markdown", standing, Screen(quiet=True)).count("\n") == 3


@pytest.mark.parametrize("number", [1, 5])
@pytest.mark.parametrize("text", ["Overlap", MARKUP, "na\udcffme"])
def test_every_document_keeps_to_the_shipped_schema(number, text):
    shipped = json.loads(SCHEMA_FILE.read_text())
    jsonschema.Draft202012Validator.check_schema(shipped)
    document = json.loads(render("json", weeks(number, text), Screen()))
    jsonschema.validate(document, shipped, jsonschema.Draft202012Validator)
    assert (document["moved"] is None) is (number == 1)
    assert document["drift"]["areas"][0]["area"] == "srt/mem_cache"
    document["summary"]["more"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, shipped, jsonschema.Draft202012Validator)


def test_the_shipped_schema_is_that_of_the_code():
    assert SCHEMA_FILE.read_text() == schema(), (
        'regenerate: python -c "from auditor.formats import drift_json as d;'
        ' d.SCHEMA_FILE.write_text(d.schema())"'
    )


def test_the_page_for_a_terminal_says_what_moved_and_where():
    page = render("table", weeks(6), Screen())
    assert page.startswith("since 2026-03-30: ")
    for heading in ("Findings opened · ", "Where it comes together", "Of them in serve scripts · "):
        assert heading in page
    hostile = render("table", weeks(6, MARKUP), Screen())
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", hostile)


def test_the_page_for_a_terminal_lists_all_that_moved():
    standing = weeks(6)
    assert standing.moved is not None
    page = render("table", standing, Screen(verbose=True))
    for heading, rows in (
        ("Findings opened", standing.moved.opened),
        ("Findings closed", standing.moved.closed),
        ("Fixes newly missed", standing.moved.newly_missed),
        ("Patches added", standing.moved.patches_added),
    ):
        assert (f"\n{heading} · {len(rows)}\n" in page) is bool(rows)
    assert standing.moved.opened
    assert standing.moved.patches_added


@pytest.mark.parametrize("form", NAMES)
def test_an_exit_status_is_explained_in_every_format(form):
    unread = tuple(Skipped("fork", f"srt/{n}.py", "parse", "not UTF-8") for n in range(5))
    cases = (
        (report(finding()), "high", "1 finding at or above high", 1),
        (report(skipped=unread), "never", "could not decide: 5 files of the fork could not be", 3),
    )
    for found, fail_on, told, status in cases:
        verdict = decide(found, fail_on, False)
        assert verdict.status == status
        page = render(form, Standing(found, drift(), verdict), Screen())
        if form == "json":
            summary = json.loads(page)["summary"]
            assert summary["exit_status"] == status
            assert bool(summary["undecided"]) is (status == 3)
            continue
        flat = " ".join(page.split())
        assert told in flat
        assert ("not read: " in flat) is (status == 3)
        assert ("srt/2.py: not UTF-8; 2 more" in flat) is (status == 3)
    in_order = render(form, Standing(report(), drift(), decide(report(), "high", False)), Screen())
    assert "exit 0" not in in_order
    assert "could not decide" not in in_order


def words(*fixes, **changes):
    found = report(**changes)
    return Words(Standing(found, drift(fixes), decide(found, "never", False)))


@pytest.mark.parametrize(
    ("ends", "findings", "told"),
    [
        ((), (), []),
        (("a",), ("a",), ["ends 1 finding"]),
        (("a", "b"), ("a", "b"), ["ends 2 findings"]),
        ((), ("a",), ["at the symbol of 1 finding that the target ended"]),
        (
            ("a",),
            ("a", "b", "c"),
            ["ends 1 finding", "at the symbol of 2 findings that the target ended"],
        ),
    ],
)
def test_what_a_fix_ends_is_told_apart_from_what_lies_at_its_symbols(ends, findings, told):
    one = fix("1" * 40, ends=ends, findings=findings)
    assert words(one).fix_facts(one)[2:] == told


def test_a_place_without_a_symbol_leaves_no_gap():
    one = fix("1" * 40, evidence=(Evidence("a.cuh", 3, "", "as before"), Evidence("", 0, "", "x")))
    found = report()
    page = render("table", Standing(found, drift([one]), decide(found, "never", False)), Screen())
    assert "    a.cuh:3 — as before\n    — x\n" in page


def test_findings_that_a_filter_hid_are_counted():
    notes = words(hidden={"origin": 12, "min-confidence": 1}).notes
    assert notes == [
        "12 findings of another origin; shown without --origin",
        "1 finding below the asked confidence; --min-confidence low shows them",
    ]


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_the_table_of_patches_keeps_to_the_width_where_it_can(width):
    page = render("table", weeks(6, "Overlap " * 30), Screen(width, verbose=True))
    rows = [row for row in page.splitlines() if re.match(r"  [0-9a-f]{10}  ", row)]
    assert rows
    least = rows[0].index("Overlap") + 40
    assert max(map(len, rows)) <= max(width, least)


def test_a_subject_without_an_end_is_cut(line, capsys):
    line.fork({OTHER: OTHER_BASE.replace("a + 1", "a + 5")}, "x" * 9_000 + "\n" + "y" * 9_000)
    assert run(line, "-o", "json") == 0
    out = capsys.readouterr().out
    assert "x" * 500 in out
    assert "x" * 501 not in out
    assert run(line) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 120


def test_commits_ahead_that_are_no_patches_are_explained(line, capsys):
    line.repository.git("switch", "--quiet", "fork")
    line.repository.git("merge", "--quiet", "--no-ff", "-m", "merge", "-s", "ours", "main")
    # The merge threw upstream's wait away, which is the fork's doing.
    assert run(line, "--target", "v0.5.10") == 1
    page = " ".join(capsys.readouterr().out.split())
    assert "1 regressed by this fork" in page
    assert "3 commits ahead" in page
    assert "The fork's patches · 2" in page
    assert "the other 1 of the commits ahead are merges or upstream's own" in page
