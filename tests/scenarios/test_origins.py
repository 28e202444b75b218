"""Whose defect it is: the fork's, upstream's, or one that upstream has already repaired."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from auditor.model import Finding, Report
from auditor.runs.audit import audit_sources

from .pools import POOL, READERS, pool

SOUND = pool()
BROKEN = pool(READERS[1:], READERS[:1])


def only(report: Report) -> Finding:
    (finding,) = report.findings
    return finding


def story(fork: str, upstream: str, *targets: str) -> Report:
    return audit_sources({POOL: fork}, {POOL: upstream}, [{POOL: text} for text in targets])


def test_the_fork_added_a_reader() -> None:
    finding = only(story(pool(READERS, ["get_new"]), SOUND))
    assert finding.origin == "introduced"
    assert finding.hit.where.symbol.qualname == "Pool.get_new"


def test_the_fork_lost_the_wait_and_upstreams_line_is_named() -> None:
    finding = only(story(BROKEN, SOUND))
    assert finding.origin == "regressed"
    wait = next(n for n, line in enumerate(SOUND.split("\n"), 1) if "wait_until" in line)
    lost = [(e.line, e.symbol) for e in finding.hit.evidence if e.side == "upstream"]
    assert (wait, "Pool.get_rows") in lost


def test_upstream_has_it_too() -> None:
    assert only(story(BROKEN, BROKEN)).origin == "inherited"


@pytest.mark.parametrize("target", [SOUND, pool(READERS)])
def test_a_target_repaired_it(target: str) -> None:
    finding = only(story(BROKEN, BROKEN, BROKEN, target))
    assert (finding.origin, finding.fixed_in) == ("fixed-upstream", "target1")


def test_no_target_has_repaired_it() -> None:
    finding = only(story(BROKEN, BROKEN, BROKEN))
    assert (finding.origin, finding.fixed_in) == ("inherited", None)


def test_a_target_without_the_symbol_repaired_nothing() -> None:
    finding = only(story(BROKEN, BROKEN, pool(READERS[1:])))
    assert (finding.origin, finding.fixed_in) == ("inherited", None)


def test_the_fork_moved_the_file() -> None:
    moved = "sglang/srt/elsewhere/buffers.py"
    report = audit_sources({moved: BROKEN}, {POOL: BROKEN})
    assert only(report).origin == "inherited"
    assert only(report).hit.where.symbol.path == moved
    assert only(audit_sources({moved: BROKEN}, {POOL: SOUND})).origin == "regressed"


def test_the_fork_moved_the_class_to_another_file() -> None:
    keys = pool(name="Keys", buffer="keys")
    upstream = {POOL: SOUND + keys.replace("import torch\n", "")}
    broken = {POOL: keys, "sglang/srt/mem_cache/rows.py": BROKEN}
    assert only(audit_sources(broken, upstream)).origin == "regressed"


def test_gating_a_second_reader_does_not_make_a_third_one_new() -> None:
    upstream = pool(["get_rows"], ["get_page", "get_head"])
    fork = pool(["get_rows", "get_page"], ["get_head"])
    finding = only(story(fork, upstream))
    assert finding.hit.where.symbol.qualname == "Pool.get_head"
    assert finding.origin == "inherited"


def test_the_first_gate_of_a_class_is_the_forks_own() -> None:
    upstream = pool([], READERS)
    fork = pool(READERS[:2], READERS[2:])
    finding = only(story(fork, upstream))
    assert finding.origin == "inherited"
    assert finding.hit.where.symbol.qualname == "Pool.get_head"


def test_a_gate_that_only_the_target_has_is_found() -> None:
    none = pool([], READERS)
    report = story(none, none, SOUND)
    assert {f.hit.where.symbol.qualname for f in report.findings} == {f"Pool.{r}" for r in READERS}
    assert {(f.origin, f.fixed_in) for f in report.findings} == {("fixed-upstream", "target0")}


def test_where_no_reader_waits_nothing_is_said() -> None:
    none = pool([], READERS)
    assert not story(none, none).findings


def test_more_waiting_than_upstream_is_no_finding() -> None:
    assert not story(SOUND, BROKEN).findings


def test_upstreams_file_cannot_be_read() -> None:
    finding = only(story(BROKEN, SOUND + "\nx = = 1\n"))
    assert finding.origin == "unknown"
    assert "upstream" in finding.origin_reason


def test_the_targets_file_cannot_be_read() -> None:
    report = story(BROKEN, BROKEN, SOUND + "\nx = = 1\n")
    assert only(report).origin == "inherited"
    assert [(s.side, s.path) for s in report.skipped] == [("target", POOL)]


@pytest.mark.parametrize("fork_breaks", ["cuda", "npu"])
def test_two_classes_of_one_name_answer_for_themselves(fork_breaks: str) -> None:
    def files(broken: set[str]) -> Mapping[str, str]:
        return {
            f"sglang/srt/{p}/pool.py": BROKEN if p in broken else SOUND for p in ("cuda", "npu")
        }

    other = {"cuda", "npu"} - {fork_breaks}
    report = audit_sources(files({"cuda", "npu"}), files(other))
    origins = {f.hit.where.symbol.path.split("/")[2]: f.origin for f in report.findings}
    assert origins == {fork_breaks: "regressed", other.pop(): "inherited"}


def test_a_second_defect_beside_an_old_one_is_new() -> None:
    upstream = pool(READERS[1:], READERS[:1])
    fork = pool(READERS[2:], READERS[:2])
    report = story(fork, upstream)
    origins = {f.hit.where.symbol.qualname: f.origin for f in report.findings}
    assert origins == {"Pool.get_rows": "inherited", "Pool.get_page": "regressed"}


def test_a_latent_defect_is_less_severe() -> None:
    live = only(story(BROKEN, BROKEN))
    asleep = pool(READERS[1:], READERS[:1], armed=False)
    latent = only(story(asleep, asleep))
    assert (live.hit.reach, live.severity) == ("live", "high")
    assert (latent.hit.reach, latent.severity) == ("latent", "medium")
    assert latent.hit.reach_reason


def test_waits_that_all_came_with_the_target_say_little_of_this_tree() -> None:
    """The newer release may have begun to load the buffer; one wait here says that it is loaded."""
    none = pool((), READERS)
    report = story(none, none, SOUND)
    assert {f.hit.where.symbol.qualname for f in report.findings} == {f"Pool.{r}" for r in READERS}
    for finding in report.findings:
        assert (finding.origin, finding.hit.reach) == ("fixed-upstream", "latent")
        assert finding.severity == "medium"
    assert only(story(BROKEN, BROKEN, SOUND)).hit.reach == "live"
