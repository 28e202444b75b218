from __future__ import annotations

import json
from pathlib import Path

import pytest

from auditor.errors import UsageProblem
from auditor.formats.explain import (
    finding_page,
    is_fingerprint,
    pick,
    rule_page,
    rule_table,
    rules_json,
)
from auditor.formats.json import document
from auditor.formats.records import FindingRecord
from auditor.formats.text import Screen
from auditor.formats.verdict import decide
from auditor.model import Applicability, Evidence
from auditor.rulebook import Example, Rule

from .sample import finding, report

SOURCE = """\
class Pool:
    def get_key(self, layer):
        self.wait(layer)
        return self.key[layer]

    def get_value(self, layer):
        self.wait(layer)
        return self.value[layer]

    @property
    def get_both(self, layer):
        key = self.key[layer]
        return key, self.value[layer]
"""

FIX = "audit fix --rule ungated-buffer-read"


def record(**changes: object) -> FindingRecord:
    evidence = (
        Evidence("pool.py", 5, "Pool.get_old", "waited here", "upstream"),
        Evidence("pool.py", 3, "Pool.get_key", "waits, then reads"),
        Evidence("pool.py", 7, "Pool.get_value", "waits, then reads"),
        Evidence("pool.py", 11, "Pool.get_both", "does not"),
    )
    place = {"path": "pool.py", "line": 12, "end_line": 13, "symbol": "Pool.get_both"}
    value = report(finding(**{**place, "evidence": evidence, **changes}))
    return document(value, decide(value, "high", False))["findings"][0]


def page(folder: Path, *, source: str = SOURCE, **changes: object) -> str:
    (folder / "pool.py").write_text(source)
    return finding_page(record(**changes), (folder,), Screen())


def test_a_finding_is_shown_with_the_lines_of_the_read_and_of_every_sibling(
    tmp_path: Path,
) -> None:
    text = page(tmp_path)
    assert text.startswith("pool.py:12\nPool.get_both\nhigh · ungated-buffer-read")
    assert "  >    12          key = self.key[layer]\n  >    13          return key, self" in text
    assert "\n       11      def get_both(self, layer):" in text
    assert (
        "  pool.py:3 Pool.get_key — waits, then reads\n        2      def get_key(self, l" in text
    )
    assert "  >     3          self.wait(layer)" in text
    assert "        6      def get_value(self, layer):\n  >     7          self.wait(layer)" in text
    assert "pool.py:11 Pool.get_both — does not\n  >    11      def get_both" in text
    assert "audit explain ungated-buffer-read" in text
    assert "effect   garbled answers under load, no error" in text
    assert "means    Answers are garbled once requests hit the host tier." in text


def test_carets_stand_under_the_read_and_under_each_wait(tmp_path: Path) -> None:
    source = SOURCE.replace("        self.wait(layer)", "    \t  self.wait(layer)  # 終", 1)
    wait = Evidence("pool.py", 3, "Pool.get_key", "waits", column=8, end_line=3, end_column=24)
    place = {"column": 15, "end_line": 13, "end_column": 12}
    text = page(tmp_path, source=source, evidence=(wait,), confirmed="yes", **place)
    assert "  >    12          key = self.key[layer]\n" + " " * 25 + "^" * 15 + "\n" in text
    assert "  >    13          return key, self.value[layer]\n" + " " * 19 + "^^^\n" in text
    assert "  >     3            self.wait(layer)  # 終\n" + " " * 21 + "^" * 16 + "\n" in text
    assert "unconfirmed" not in text


def test_what_no_second_parser_read_is_said_to_be_unconfirmed(tmp_path: Path) -> None:
    assert "high confidence, unconfirmed\n" in page(tmp_path, confirmed="unconfirmed")


def test_a_long_function_is_shown_without_its_middle(tmp_path: Path) -> None:
    body = "".join(f"        x{n} = {n}\n" for n in range(100))
    source = SOURCE.replace("        self.wait(layer)\n        return self.value", f"{body}@", 1)
    source = source.replace("@", "        self.wait(layer)\n        return self.value", 1)
    shown = Evidence("pool.py", 107, "Pool.get_value", "waits, then reads")
    text = page(tmp_path, source=source, evidence=(shown,), line=112, end_line=113)
    assert "        6      def get_value(self, layer):" in text
    assert "  >   107          self.wait(layer)" in text
    assert "79 lines left out" in text
    assert "x50 = 50" not in text
    lines = text[text.index("pool.py:107 Pool") : text.index("The rule:")].splitlines()
    assert len(lines) < 30


def test_why_there_is_no_source_is_said_once(tmp_path: Path) -> None:
    text = finding_page(record(), (tmp_path,), Screen())
    assert text.count("(no source: the file is not here") == 1


def test_lines_of_another_side_are_not_taken_from_the_fork(tmp_path: Path) -> None:
    text = page(tmp_path)
    assert "pool.py:5 (upstream) Pool.get_old — waited here" in text
    assert "  >     5" not in text


def test_a_file_that_changed_since_is_not_shown_as_evidence(tmp_path: Path) -> None:
    moved = "import os\n" * 4 + SOURCE
    text = page(tmp_path, source=moved)
    assert "(no source: line 3 is no longer in Pool.get_key; the file has changed" in text
    short = page(tmp_path, source="x = 1\n")
    assert "(no source: the file now ends at line 2; it has changed since the report)" in short


def test_a_report_without_its_fork_says_how_to_see_the_source(tmp_path: Path) -> None:
    text = finding_page(record(), (tmp_path,), Screen())
    assert "(no source: the file is not here; run in the audited fork, or name it with -C)" in text
    assert "without waiting for its transfer" in text


@pytest.mark.parametrize("path", ["../secret.py", "link.py", "/etc/hostname", "a\0b", "x" * 5000])
def test_a_path_that_leaves_the_fork_is_never_read(tmp_path: Path, path: str) -> None:
    fork = tmp_path / "fork"
    fork.mkdir()
    (tmp_path / "secret.py").write_text("SECRET = 1\n" * 20)
    (fork / "link.py").symlink_to(tmp_path / "secret.py")
    (fork / "loop.py").symlink_to(fork / "loop.py")
    text = finding_page(record(path=path, symbol=""), (fork,), Screen())
    assert "SECRET" not in text
    assert "(no source:" in text


def test_source_lines_cannot_drive_the_terminal(tmp_path: Path) -> None:
    source = SOURCE.replace("key = self", "key\x1b[2J\u202e = self")
    text = page(tmp_path, source=source, message="\x1b]0;x\x07")
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "key\\x1b[2J\\u202e" in text


def test_pick_takes_a_prefix_that_is_of_one_finding_only() -> None:
    one, other = record(fingerprint="abcdef0011"), record(fingerprint="abcdef0022")
    longer = record(fingerprint="abcdef0011.1")
    assert pick([one, other], "abcdef0011") is one
    assert pick([one, other, longer], "abcdef0011") is one
    assert pick([one, other, longer], "abcdef0022") is other
    with pytest.raises(UsageProblem, match=r"abcdef0011, abcdef0022"):
        pick([one, other], "abcdef")
    with pytest.raises(UsageProblem, match="no finding 123456"):
        pick([one, other], "123456")


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("abcdef", True),
        ("abcdef01-2", True),
        ("abcde", False),
        ("gate-bypassed", False),
        ("", False),
    ],
)
def test_what_a_fingerprint_looks_like(text: str, is_one: bool) -> None:
    assert is_fingerprint(text) is is_one


RULE = Rule(
    id="ungated-buffer-read",
    category="sync",
    title="A read of a shared buffer without the wait that its siblings do first",
    effect="garbled answers, no error",
    means="Answers are garbled under load.",
    severity="high",
    confidence="high",
    check="sibling-gates",
    params={},
    why="First paragraph\nof two lines.\n\n- an item\n- another\n",
    fix="Wait first.",
    references=("https://github.com/sgl-project/sglang/pull/22811",),
    valid=(Example({"example.py": "wait()\nread()\n"}),),
    invalid=(
        Example({"a.py": "read()  # error: [ungated-buffer-read]\n"}, {"a.py": "w()\n"}, title="T"),
    ),
)


def test_a_rule_is_shown_with_its_reasons_and_examples() -> None:
    text = rule_page(RULE, Screen())
    assert text.startswith("ungated-buffer-read · high · sync\nA read of a shared buffer")
    assert "  First paragraph of two lines.\n\n  - an item\n  - another\n" in text
    assert (
        "Reported: T\n  fork: a.py\n    read()  # error: [ungated-buffer-read]\n  upstream: a.py"
        in text
    )
    assert "Not reported\n    wait()\n    read()\n" in text
    assert "  https://github.com/sgl-project/sglang/pull/22811\n" in text


def test_rules_are_listed_as_a_table_and_as_json() -> None:
    table = rule_table([RULE], Screen(80))
    assert table.splitlines()[1].startswith(
        "ungated-buffer-read  high        sync        A read of"
    )
    assert max(map(len, table.splitlines())) in range(70, 81)
    assert json.loads(rules_json([RULE]))[0]["id"] == "ungated-buffer-read"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {},
            "An edit, where one can be made: audit fix --rule ungated-buffer-read --unsafe --diff",
        ),
        ({"disposition": "suppressed"}, ""),
        ({"symbol": ""}, ""),  # a setting that no check knows another spelling of
    ],
)
def test_how_to_see_the_edit(tmp_path: Path, changes: dict[str, object], told: str) -> None:
    lines = page(tmp_path, **changes).splitlines()
    assert [line for line in lines if "audit fix" in line] == ([told] if told else [])


@pytest.mark.parametrize(
    ("applicability", "told"),
    [
        ("safe", f"An edit: {FIX} --diff"),
        ("unsafe", f"An edit: {FIX} --unsafe --diff"),
        ("display", ""),
    ],
)
def test_how_to_see_an_edit_that_was_worked_out(
    tmp_path: Path, applicability: Applicability, told: str
) -> None:
    value = {**record(), "applicability": applicability}
    lines = finding_page(value, (tmp_path,), Screen()).splitlines()
    assert [line for line in lines if "audit fix" in line] == ([told] if told else [])
