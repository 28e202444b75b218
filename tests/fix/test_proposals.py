"""The edits that a report offers are those of ``audit fix``, by place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from auditor.cli.main import main
from auditor.fix.text import Source
from auditor.model import Report
from auditor.repo.scripts import Scripts
from auditor.rulebook import load
from auditor.runs import proposals
from auditor.runs.audit import run
from auditor.runs.judging import Workings
from auditor.runs.proposals import proposed
from auditor.runs.request import AuditRequest

from .trees import HEAD, POOL, method, write

OPEN = method("def get_mean(self, layer_id):\n    return self.pages[layer_id - self.first].mean()")
WAIT = (
    "        if self.counter is not None:\n"
    "            self.counter.wait_until(layer_id - self.first)\n"
)
READ = "        return self.pages[layer_id - self.first].mean()"
CLOSED = OPEN.replace(READ, WAIT + READ)
TREE = load().rule("deprecated-flag").invalid[0].side({}) or {}
START = "python -m sglang.launch_server --model-path /models/m"
LATE = method(
    """
    def get_late(self, layer_id):
        found = self.pages[layer_id - self.first].mean()
        if self.counter is not None:
            self.counter.wait_until(layer_id - self.first)
        return found
    """
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def results(folder: Path, *options: str) -> list[dict[str, Any]]:
    """The results of SARIF for a fork held against itself; they count nothing but lines."""
    out = folder / "audit.sarif"
    given = ["-C", str(folder / "fork"), "--upstream", str(folder / "fork")]
    assert main([*given, "-q", "--fail-on", "never", "-o", f"sarif={out}", *options]) == 0
    [found] = json.loads(out.read_bytes())["runs"]
    assert found["columnKind"] == "unicodeCodePoints"
    return found["results"]  # type: ignore[no-any-return]


def applied(text: str, fix: Mapping[str, Any]) -> str:
    """A text after a fix, as the standard (3.30, 3.57) has a reader apply it."""
    [change] = fix["artifactChanges"]
    [replacement] = change["replacements"]
    region = replacement["deletedRegion"]
    starts, place = [0], 0
    while (place := text.find("\n", place) + 1) > 0:
        starts.append(place)
    start = starts[region["startLine"] - 1] + region["startColumn"] - 1
    end = starts[region["endLine"] - 1] + region["endColumn"] - 1
    assert start <= end <= len(text)
    # Both ends are columns of their lines, or the place after the last character of them.
    for line, column in (("startLine", "startColumn"), ("endLine", "endColumn")):
        first = starts[region[line] - 1]
        held = text[first:].split("\n", 1)[0]
        assert 1 <= region[column] <= len(held) + 1
        assert held or first < len(text)
    return text[:start] + replacement.get("insertedContent", {"text": ""})["text"] + text[end:]


def offered(folder: Path, data: bytes, encoding: str = "utf-8") -> tuple[str, str]:
    """The pool's file after the only fix of SARIF, and after ``audit fix`` has written it."""
    write(folder / "fork", {POOL: data})
    [result] = results(folder)
    [fix] = result["fixes"]
    assert unquote(fix["artifactChanges"][0]["artifactLocation"]["uri"]) == POOL
    assert result["properties"]["applicability"] == "unsafe"
    assert fix["properties"]["applicability"] == "unsafe"
    given = ["-C", str(folder / "fork"), "--upstream", str(folder / "fork")]
    after = applied(data.decode(encoding), fix)
    assert main(["fix", *given, "--unsafe"]) == 0
    return after, (folder / "fork" / POOL).read_bytes().decode(encoding)


ONE_LINE = "\n    def get_mean(self, layer_id): return self.pages[layer_id - self.first].mean()"


@pytest.mark.parametrize(
    "text",
    [
        HEAD + OPEN,
        HEAD + OPEN.rstrip(),
        HEAD + ONE_LINE,
        HEAD + ONE_LINE + "\n",
        HEAD + LATE,
        HEAD + LATE.rstrip(),
        (HEAD + OPEN).replace("\n", "\r\n"),
        (HEAD + ONE_LINE + "\n").replace("\n", "\r\n"),
        (HEAD + OPEN).replace("    ", "\t"),
        HEAD.replace("import torch\n", "import torch  # 😀\n\x0c\n", 1) + OPEN,
        HEAD + '\n    title = "😀\u2028"; more = 1\n' + OPEN.replace("mean()", 'mean("😀")'),
        HEAD + method('def get_mean(self, layer_id):\n    """Mean."""\n' + READ[4:]),
    ],
    ids=str,
)
def test_the_offered_edit_is_the_one_that_is_made(tmp_path: Path, text: str) -> None:
    after, made = offered(tmp_path, text.encode())
    assert after == made != text
    assert after.count("wait_until") == 3


def test_a_byte_order_mark_counts_as_no_column(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf" + (HEAD + OPEN).encode()
    after, made = offered(tmp_path, data, "utf-8-sig")
    assert after == made == HEAD + CLOSED


def test_a_missing_wait_is_put_in_at_a_point(tmp_path: Path) -> None:
    write(tmp_path / "fork", {POOL: HEAD + OPEN})
    [result] = results(tmp_path)
    line = (HEAD + OPEN)[: (HEAD + OPEN).index(READ)].count("\n") + 1
    point = {"startLine": line, "startColumn": 1, "endLine": line, "endColumn": 1}
    place = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert result["fixes"] == [
        {
            "description": {"text": "waits as PagePool.get_page_slots does"},
            "artifactChanges": [
                {
                    "artifactLocation": place,
                    "replacements": [{"deletedRegion": point, "insertedContent": {"text": WAIT}}],
                }
            ],
            "properties": {"applicability": "unsafe"},
        }
    ]


def test_all_findings_of_a_file_have_an_edit_of_their_own(tmp_path: Path) -> None:
    names = ["mean", "sum", "max", "min", "prod"]
    more = [OPEN.replace("get_mean", f"get_{n}").replace("mean()", f"{n}()") for n in names]
    text = HEAD + "".join(more)
    write(tmp_path / "fork", {POOL: text})
    found = results(tmp_path)
    assert len(found) == 5
    # From the last to the first, so that those to come are still where they were told.
    order = sorted(
        found, key=lambda r: -r["locations"][0]["physicalLocation"]["region"]["startLine"]
    )
    for result in order:
        [fix] = result["fixes"]
        text = applied(text, fix)
    closed = [CLOSED.replace("get_mean", f"get_{n}").replace("mean()", f"{n}()") for n in names]
    assert text == HEAD + "".join(closed)


def test_words_of_scripts_are_safe_where_the_tree_names_the_new_one(tmp_path: Path) -> None:
    script = f"# größe 😀\n{START} --stream-output \\\n  --port 1\n"
    write(tmp_path / "fork", {**TREE, "serve.sh": script})
    found = results(tmp_path, "--serve", str(tmp_path / "fork" / "serve.sh"))
    [result] = [r for r in found if r["ruleId"] == "deprecated-flag"]
    assert result["properties"]["applicability"] == "safe"
    [fix] = result["fixes"]
    after = script.replace("--stream-output", "--incremental-streaming-output")
    assert applied(script, fix) == after


def test_a_byte_order_mark_counts_as_no_column_of_a_script(tmp_path: Path) -> None:
    data = f"\ufeff{START} --stream-output\n".encode()
    write(tmp_path / "fork", {**TREE, "serve.sh": data})
    found = results(tmp_path, "--serve", str(tmp_path / "fork" / "serve.sh"))
    [fix] = [r["fixes"][0] for r in found if r["ruleId"] == "deprecated-flag"]
    after = f"{START} --incremental-streaming-output\n"
    assert applied(data.decode("utf-8-sig"), fix) == after


def test_what_only_a_person_can_do_has_no_edit(tmp_path: Path) -> None:
    layer = (
        "from sglang.srt.mem_cache.pool import PagePool\n\n\n"
        "class Backend:\n"
        "    def __init__(self, pool: PagePool):\n"
        "        self.pool = pool\n\n"
        "    def score(self, queries, layer_id):\n"
        "        return queries @ self.pool.pages[layer_id].transpose(0, 1)\n"
    )
    write(tmp_path / "fork", {POOL: HEAD, "sglang/srt/layers/backend.py": layer})
    found = results(tmp_path)
    assert [result["ruleId"] for result in found] == ["gate-bypassed"]
    for result in found:
        assert result["properties"]["applicability"] == "display"
        assert "fixes" not in result


def test_what_was_accepted_is_offered_nothing(tmp_path: Path) -> None:
    told = "  # audit: ignore[ungated-buffer-read] read before any load\n"
    write(tmp_path / "fork", {POOL: HEAD + OPEN.rstrip() + told})
    [result] = results(tmp_path)
    assert result["suppressions"]
    assert "fixes" not in result
    assert "applicability" not in result["properties"]


@pytest.mark.parametrize(
    "data",
    [
        ("# coding: latin-1\n# größe\n" + HEAD + OPEN).encode("latin-1"),
        (HEAD + OPEN).replace("\n\n", "\n\r", 1).encode(),
    ],
    ids=["another encoding", "a line that a carriage return ends"],
)
def test_a_file_that_readers_count_otherwise_has_no_place_for_its_edit(
    tmp_path: Path, data: bytes
) -> None:
    write(tmp_path / "fork", {POOL: data})
    [result] = results(tmp_path)
    assert result["properties"]["applicability"] == "unsafe"
    assert "fixes" not in result


def test_a_revision_is_offered_edits_as_well(tiny_repository, tmp_path: Path) -> None:
    made = tiny_repository({f"python/{POOL}": HEAD})
    made.commit({f"python/{POOL}": HEAD + OPEN, "serve.sh": "echo\n"}, tag="mine")
    made.write({f"python/{POOL}": "# not this\n"})
    out = tmp_path / "a.sarif"
    given = ["-C", str(made.top), "--upstream", "v0.5.9", "-q", "-o", f"sarif={out}"]
    assert main([*given, "--rev", "mine", "--fail-on", "never"]) == 0
    [result] = json.loads(out.read_bytes())["runs"][0]["results"]
    [fix] = result["fixes"]
    assert fix["artifactChanges"][0]["artifactLocation"]["uri"] == f"python/{POOL}"
    assert applied(HEAD + OPEN, fix) == HEAD + CLOSED


def test_a_file_behind_a_link_is_offered_nothing(tmp_path: Path) -> None:
    write(tmp_path / "fork", {"sglang/srt/real.txt": HEAD + OPEN, "sglang/srt/a.py": ""})
    (tmp_path / "fork" / POOL).parent.mkdir(parents=True)
    (tmp_path / "fork" / POOL).symlink_to("../real.txt")
    [result] = results(tmp_path)
    assert result["properties"]["applicability"] == "display"
    assert "fixes" not in result


def reported(folder: Path, text: str) -> tuple[AuditRequest, Report, Workings]:
    write(folder / "fork", {POOL: text})
    request = AuditRequest(
        root=folder / "fork", upstream=str(folder / "fork"), serve=Scripts((), folder)
    )
    workings = Workings()
    return request, run(request, workings=workings), workings


def test_a_file_that_has_changed_in_between_is_offered_nothing(tmp_path: Path) -> None:
    request, report, workings = reported(tmp_path, HEAD + OPEN)
    write(tmp_path / "fork", {POOL: "# one line more\n" + HEAD + OPEN})
    [proposal] = proposed(request, report, workings, lambda *_: None).proposals.values()
    assert (proposal.applicability, proposal.replacement) == ("display", None)


def test_what_was_worked_out_once_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "fork", {POOL: HEAD + OPEN})
    first = results(tmp_path)
    assert first[0]["fixes"]

    def refuse(*_: object) -> Source:
        raise AssertionError

    with monkeypatch.context() as without:
        without.setattr(Source, "of_python", refuse)
        assert results(tmp_path) == first
    # By content: an edit of one line later is one for the line below.
    write(tmp_path / "fork", {POOL: "# one line more\n" + HEAD + OPEN})
    regions = [
        result["fixes"][0]["artifactChanges"][0]["replacements"][0]["deletedRegion"]["startLine"]
        for result in (*first, *results(tmp_path))
    ]
    assert regions[1] == regions[0] + 1


def test_a_side_that_is_gone_costs_the_edits_and_not_the_report(tmp_path: Path) -> None:
    request, report, _ = reported(tmp_path, HEAD + OPEN)
    (tmp_path / "fork").rename(tmp_path / "elsewhere")
    assert proposed(request, report, Workings(), lambda *_: None) == report


def test_the_worst_come_first_where_there_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proposals, "MOST", 1)
    more = OPEN.replace("get_mean", "get_sum").replace("mean()", "sum()")
    request, report, workings = reported(tmp_path, HEAD + OPEN + more)
    assert len(report.findings) == 2
    assert len(proposed(request, report, workings, lambda *_: None).proposals) == 1


def test_json_has_the_word_where_it_was_worked_out(tmp_path: Path) -> None:
    write(tmp_path / "fork", {POOL: HEAD + OPEN})
    out = tmp_path / "audit.json"

    def word() -> object:
        [finding] = json.loads(out.read_bytes())["findings"]
        return finding["applicability"]

    given = ["-C", str(tmp_path / "fork"), "--upstream", str(tmp_path / "fork"), "-q"]
    given += ["--fail-on", "never"]
    assert main([*given, "-o", f"json={out}"]) == 0
    assert word() is None
    assert main([*given, "-o", f"json={out}", "-o", f"sarif={tmp_path / 'a.sarif'}"]) == 0
    assert word() == "unsafe"


def test_a_report_without_sarif_works_nothing_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> Source:
        raise AssertionError

    monkeypatch.setattr(Source, "of_python", refuse)
    write(tmp_path / "fork", {POOL: HEAD + OPEN})
    given = ["-C", str(tmp_path / "fork"), "--upstream", str(tmp_path / "fork"), "-q"]
    given += ["--fail-on", "never"]
    assert main([*given, "-o", "json", "-o", f"markdown={tmp_path / 'a.md'}"]) == 0
