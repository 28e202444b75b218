"""Annotations, Code Quality, JUnit and Markdown, each read back by somebody else's reader."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

import cmarkgfm
import junitparser
import pytest
from cmarkgfm.cmark import Options

from auditor.formats import NAMES
from auditor.model import Checked, Deployment, Report, TurnedOn

from .machines import GOLDEN, HOSTILE, hostile_report, small_rules, written
from .sample import POOL, finding, full_report, report

TEXTS = ("github", "gitlab", "junit", "markdown")
FILES = {
    "github": "annotations.txt",
    "gitlab": "codequality.json",
    "junit": "junit.xml",
    "markdown": "summary.md",
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_golden_file(name: str) -> None:
    assert written(name, full_report()) == (GOLDEN / FILES[name]).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_hostile_text_can_be_written_and_controls_nothing(name: str) -> None:
    text = written(name, hostile_report(), rules=small_rules())
    text.encode("utf-8")
    controls = {c for c in text if not c.isprintable()} - {"\n"}
    assert controls - {"\u2028", "\u202e"} == set()


# -- annotations -------------------------------------------------------------------------------


def unescaped(text: str, characters: str = "\r\n:,%") -> str:
    for character in characters:
        text = text.replace(f"%{ord(character):02X}", character)
    return text


def commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    """Workflow commands as the runner reads them: unescaping is the last step, in this order."""
    found = []
    for line in text.splitlines():
        match = re.fullmatch(r"::([a-z]+)(?: (.*?))?::(.*)", line)
        assert match, line
        properties = dict(part.split("=", 1) for part in (match[2] or "").split(",") if part)
        properties = {name: unescaped(value) for name, value in properties.items()}
        found.append((match[1], properties, unescaped(match[3], "\r\n%")))
    return found


def test_an_annotation_says_where_and_what() -> None:
    value = report(finding(path="a,b:c%.py", line=7, column=3, end_line=7, message="50% of it"))
    [(kind, properties, message)] = commands(written("github", value))
    assert kind == "error"
    assert properties == {
        "file": "a,b:c%.py",
        "line": "7",
        "col": "3",
        "title": "ungated-buffer-read (high, introduced by this fork)",
    }
    assert message.splitlines()[0] == "50% of it"


def test_columns_are_left_out_where_an_annotation_has_several_lines() -> None:
    value = report(finding(line=7, column=3, end_line=9))
    [(_, properties, _)] = commands(written("github", value))
    assert (properties["line"], properties["endLine"]) == ("7", "9")
    assert "col" not in properties


def test_hostile_text_makes_no_command_of_its_own() -> None:
    found = commands(written("github", hostile_report()))
    assert [kind for kind, _, _ in found] == ["warning", "error", "notice"]
    assert found[1][1]["line"] == "1811"


@pytest.mark.parametrize(
    ("severity", "kind"),
    [
        ("critical", "error"),
        ("high", "error"),
        ("medium", "warning"),
        ("low", "notice"),
        ("info", "notice"),
    ],
)
def test_ten_of_a_kind_the_worst_first_and_the_rest_in_one_notice(severity: str, kind: str) -> None:
    many = [finding(severity=severity, line=n + 100, fingerprint=f"{n:016x}") for n in range(30)]
    worse = finding(severity="critical", line=99, fingerprint="ff" * 8)
    found = commands(written("github", report(*many, worse)))
    kinds = [kind for kind, _, _ in found]
    assert all(kinds.count(k) <= 10 for k in ("error", "warning", "notice"))
    assert any(properties.get("line") == "99" for _, properties, _ in found)
    last_kind, last, told = found[-1]
    assert (last_kind, last) == ("notice", {"title": "audit"})
    left = len(many) + 1 - (len(found) - 1)
    assert told.startswith(f"{left} more findings not shown here: ")
    assert f"{left} {severity}" in told
    assert kinds.count(kind) >= 9


def test_nothing_is_annotated_where_nothing_is_active() -> None:
    accepted = finding(disposition="baselined")
    assert written("github", report(accepted)) == ""


def test_a_doubt_is_annotated() -> None:
    value = report(undecided=("no start of a server was found",))
    [(kind, properties, message)] = commands(written("github", value))
    assert kind == "warning"
    assert properties == {"title": "audit: in doubt"}
    assert message == "no start of a server was found"


# -- GitLab --------------------------------------------------------------------------------------


def test_code_quality_has_what_gitlab_asks_for() -> None:
    severities = ("critical", "high", "medium", "low", "info")
    found = [
        finding(severity=s, line=n + 1, fingerprint="aa" * 8) for n, s in enumerate(severities)
    ]
    entries = json.loads(written("gitlab", report(*found, finding(disposition="suppressed"))))
    assert [e["severity"] for e in entries] == ["blocker", "critical", "major", "minor", "info"]
    assert len({entry["fingerprint"] for entry in entries}) == 5
    for entry in entries:
        assert isinstance(entry["description"], str)
        assert entry["check_name"] == "ungated-buffer-read"
        assert entry["location"]["path"] == POOL
    assert [entry["location"]["lines"]["begin"] for entry in entries] == [1, 2, 3, 4, 5]
    assert json.loads(written("gitlab", report())) == []


def test_code_quality_of_hostile_text_is_json_in_ascii() -> None:
    text = written("gitlab", hostile_report())
    assert text.isascii()
    assert len(json.loads(text)) == 2


# -- JUnit ---------------------------------------------------------------------------------------


def cases(value: Report) -> list[Any]:
    root = junitparser.JUnitXml.fromstring(written("junit", value).encode())
    assert root.tests == sum(suite.tests for suite in root)
    assert root.failures == sum(suite.failures for suite in root)
    for suite in root:
        found = list(suite)
        assert suite.tests == len(found)
        assert suite.failures == sum(bool(c.is_failure) for c in found)
        assert suite.errors == sum(bool(c.is_error) for c in found)
        assert suite.skipped == sum(bool(c.is_skipped) for c in found)
    return [case for suite in root for case in suite]


def test_a_test_fails_for_what_fails_the_run() -> None:
    value = report(
        finding(line=1, severity="high"),
        finding(line=2, severity="medium"),
        finding(line=3, disposition="baselined", disposition_reason="known"),
        checked=(
            Checked("sync", "Pool.rows", 3, 3, POOL, "Pool"),
            Checked("serve", "settings", 4, 5, "serve.sh", ""),
        ),
    )
    by_name = {case.name: case for case in cases(value)}
    symbol = "NSATokenToKVPool.get_index_k_continuous"
    [failure] = by_name[f"{POOL}:1 {symbol}"].result
    assert isinstance(failure, junitparser.Failure)
    assert failure.type == "high"
    assert "4 of 6 readers wait first" in failure.message
    assert "audit explain 3f2a9c1d77aa0b51" in failure.text
    [below] = by_name[f"{POOL}:2 {symbol}"].result
    assert isinstance(below, junitparser.Skipped)
    assert below.message.startswith("medium, below --fail-on high")
    [known] = by_name[f"{POOL}:3 {symbol}"].result
    assert known.message.startswith("baselined: known")
    assert by_name["Pool.rows: 3 of 3 in order"].is_passed
    assert not [name for name in by_name if name.startswith("settings")]


def test_there_is_always_a_test_and_a_doubt_is_an_error() -> None:
    [only] = cases(report())
    assert only.is_passed
    [doubt] = cases(report(undecided=("no file was read",)))
    assert doubt.is_error
    assert doubt.result[0].message == "no file was read"


def test_hostile_text_is_well_formed_and_stays_text() -> None:
    found = cases(hostile_report())
    assert len(found) == 5
    [failure] = next(case for case in found if case.is_failure).result
    assert "<script>alert(1)</script>" in failure.message
    assert "\\x1b[2J" in failure.message
    assert "\\ufffe" in failure.message


# -- Markdown ------------------------------------------------------------------------------------


class Page(HTMLParser):
    """The elements and the text of a page as GitHub's own parser makes it of Markdown."""

    def __init__(self, markdown: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.rows: list[list[str]] = []
        self.words = ""
        self.feed(cmarkgfm.github_flavored_markdown_to_html(markdown, Options.CMARK_OPT_UNSAFE))

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        self.words += data
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data.rstrip("\n")


def test_the_summary_begins_with_the_verdict_and_lists_findings_by_whose_they_are() -> None:
    page = Page(written("markdown", full_report()))
    assert page.tags[0] == "h2"
    assert page.words.startswith("audit: 4 findings at or above high (3 causes)")
    assert page.rows[0] == ["severity", "where", "what", "origin"]
    rows = [row for row in page.rows if row[0] != "severity"]
    severities = [re.match("[a-z]+?(?=(high|medium|low) confidence)", row[0]) for row in rows]
    assert [s and s[0] for s in severities] == ["high"] * 4 + ["medium", "low"]
    headings = (
        "Of this fork and its deployment · 4",
        "Fixed upstream · 1",
        "Inherited",
        "Accepted",
    )
    places = [page.words.index(heading) for heading in headings]
    assert places == sorted(places)
    assert "New" not in page.words
    assert "Accepted · 1" in page.words
    assert "suppressed: read on the transfer thread only" in page.words
    assert "12 below the asked confidence" in page.words
    assert "Skipped · 2" in page.words
    assert "In order: 3 of 4 checked." in page.words


def test_what_came_with_upstream_s_later_code_is_not_called_the_fork_s() -> None:
    value = report(finding(origin="inherited", since_base="v0.5.17"))
    page = Page(written("markdown", value))
    assert "Came with upstream's later code · 1" in page.words
    assert "came with upstream's code after v0.5.17" in page.rows[1][3]
    assert "Of this fork" not in page.words


@pytest.mark.parametrize("name", ["table", "github", "junit", "markdown", "sarif"])
def test_each_format_says_what_it_means_and_what_turns_it_on(name: str) -> None:
    runs = Deployment("on", turned_on=(TurnedOn("deploy/a.sh", 3, "--enable-tier"),))
    value = report(finding(means="Answers turn out wrong.", deployment=runs))
    text = written(name, value, rules=small_rules())
    assert "Answers turn out wrong." in text
    assert "turned on by deploy/a.sh:3 (--enable-tier)" in text
    plain = written(name, report(finding(means="", effect="")), rules=small_rules())
    assert "Answers" not in plain
    assert "turned on" not in plain


def test_hostile_text_stays_text_in_its_cell() -> None:
    page = Page(written("markdown", hostile_report()))
    assert set(page.tags) <= {
        *("h2", "h3", "p", "code", "br", "strong", "ul", "li"),
        *("table", "thead", "tbody", "tr", "th", "td"),
    }
    assert [len(row) for row in page.rows] == [4, 4, 4]
    assert "<script>alert(1)</script>" in page.rows[1][2]
    assert "[link](https://evil.example/x)" in page.rows[1][2]
    assert "| `x` ```" in page.rows[1][2]
    # What GitHub would notify somebody for, or link, is broken up by a space of no width.
    assert not re.search(r"@\w|#\d|GH-\d", page.words)


def test_the_summary_is_bounded_and_says_what_it_left_out() -> None:
    many = [
        finding(line=n + 1, fingerprint=f"{n:016x}", message=HOSTILE * 5, path=HOSTILE)
        for n in range(3_000)
    ]
    known = [finding(line=1, disposition="baselined", fingerprint="ab" * 8)]
    text = written("markdown", report(*many, *known))
    assert 50_000 < len(text) <= 65_000
    shown = len(Page(text).rows) - 1
    assert f"characters: {3_000 - shown:,} findings." in text
    assert "Accepted · 1" in text


def test_the_summary_of_nothing() -> None:
    page = Page(written("markdown", report()))
    assert page.words.startswith("audit: nothing at or above high · exit 0")
    assert "table" not in page.tags
