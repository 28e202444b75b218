from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from auditor.errors import UsageProblem
from auditor.formats.json import SCHEMA_FILE, load, render, schema
from auditor.formats.verdict import decide
from auditor.model import Report, SideInfo

from .sample import finding, full_report, report

# The contract: design section 6.
KEYS = [
    *("schema", "tool", "fork", "upstream", "target", "closest", "changes", "findings"),
    *("checked", "launches", "tables", "skipped", "suppressions", "baseline", "summary"),
]
FINDING_KEYS = {
    *("rule", "category", "severity", "confidence", "origin", "reach", "cause", "fixed_in"),
    *("fixed_by", "applicability", "since_base", "effect", "means", "deployment"),
    *("path", "line", "column", "end_line", "symbol", "message", "evidence", "fingerprint"),
    *("disposition", "disposition_reason", "origin_reason", "reach_reason", "fix"),
}


def rendered(value: Report) -> str:
    return render(value, decide(value, "high", False))


def parsed(value: Report) -> dict[str, Any]:
    return json.loads(rendered(value))  # type: ignore[no-any-return]


def shipped_schema() -> dict[str, Any]:
    return json.loads(SCHEMA_FILE.read_text())  # type: ignore[no-any-return]


@pytest.mark.parametrize("value", [report(), report(finding()), full_report()])
def test_every_report_keeps_to_the_shipped_schema(value: Report) -> None:
    jsonschema.Draft202012Validator.check_schema(shipped_schema())
    jsonschema.validate(parsed(value), shipped_schema(), jsonschema.Draft202012Validator)


def test_the_shipped_schema_is_that_of_the_code() -> None:
    assert shipped_schema() == json.loads(schema()), (
        "regenerate: python -c \"from auditor.formats.json import schema; print(schema(), end='')\""
    )


@pytest.mark.parametrize("place", [(), ("fork",), ("findings", 0), ("findings", 0, "evidence", 0)])
def test_the_schema_refuses_a_key_that_is_not_of_the_contract(place: tuple[Any, ...]) -> None:
    document = parsed(full_report())
    node: Any = document
    for step in place:
        node = node[step]
    node["surplus"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, shipped_schema(), jsonschema.Draft202012Validator)


def test_keys_are_those_of_the_contract() -> None:
    document = parsed(full_report())
    assert list(document) == KEYS
    assert document["schema"] == "audit/1"
    assert set(document["findings"][0]) == FINDING_KEYS
    assert {"path", "line", "symbol", "note"} <= set(document["findings"][0]["evidence"][0])
    assert isinstance(document["target"], list)


def test_values_arrive() -> None:
    document = parsed(full_report())
    medium = next(f for f in document["findings"] if f["severity"] == "medium")
    assert medium["fixed_in"] == "v0.5.18"
    assert medium["path"] == "python/sglang/srt/layers/attention/layer_split.py"
    assert (medium["line"], medium["end_line"], medium["column"]) == (470, 1811, 15)
    assert medium["symbol"] == "LayerSplit.prefetch_kv_buffer"
    words = {f["fingerprint"]: f["applicability"] for f in document["findings"]}
    assert words["ff66" * 4] is None
    assert words["3f2a9c1d77aa0b51"] == "unsafe"
    assert words["ee55" * 4] == "display"
    regressed = next(f for f in document["findings"] if f["origin"] == "regressed")
    assert regressed["evidence"][0]["side"] == "upstream"
    summary = document["summary"]
    assert summary["exit_status"] == 1
    assert (summary["findings"], summary["failing"], summary["suppressed"]) == (6, 4, 1)
    assert summary["by_severity"] == {"critical": 0, "high": 4, "medium": 1, "low": 1, "info": 0}
    assert sum(summary["by_origin"].values()) == 6
    assert summary["hidden"] == {"min-confidence": 12, "origin": 3}
    assert document["changes"]["base"]["side"] == "base"
    deleted = next(c for c in document["changes"]["files"] if c["status"] == "deleted")
    assert (deleted["added"], deleted["removed"]) == (None, None)


def test_order_and_bytes_do_not_depend_on_the_order_of_discovery() -> None:
    value = full_report()
    shuffled = msgspec.structs.replace(
        value,
        findings=value.findings[::-1],
        skipped=value.skipped[::-1],
        checked=value.checked[::-1],
        hidden=dict(reversed(value.hidden.items())),
        timings={"other": 9.0},
        changes=msgspec.structs.replace(value.changes, files=value.changes.files[::-1]),
    )
    assert rendered(value) == rendered(shuffled)
    lines = [(f["path"], f["line"]) for f in parsed(value)["findings"]]
    assert lines == sorted(lines)


def test_hostile_text_stays_text() -> None:
    side = SideInfo("fork", "a\x1b[2J\u202e\n", "directory", None, 1, 1)
    value = report(finding(path='é\udce9 "q"\n.py', message="\x9b31m"), fork=side)
    text = rendered(value)
    assert text.isascii()
    assert "\x1b" not in text
    assert parsed(value)["findings"][0]["path"] == 'é\\udce9 "q"\n.py'
    assert parsed(value)["fork"]["ref"] == "a\x1b[2J\u202e\n"


def test_load_gives_the_findings_back(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_text(rendered(full_report()))
    assert load(file) == parsed(full_report())["findings"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b'{"schema": "audit/2", "findings": []}',
        b'{"schema": "audit/1", "findings": [{"path": "a"}]}',
        b'{"schema": "audit/1", "findings": ' + b"[" * 100_000,
    ],
)
def test_load_refuses_what_is_no_report(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "report.json"
    file.write_bytes(content)
    with pytest.raises(UsageProblem, match=r"report\.json"):
        load(file)


def test_load_says_when_there_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="No such file"):
        load(tmp_path / "none.json")
