from __future__ import annotations

import re

import msgspec
import pytest

from auditor.formats.table import render
from auditor.formats.text import Screen
from auditor.formats.verdict import decide
from auditor.model import Evidence, Report, Skipped

from .sample import NPU, POOL, evidence, finding, full_report, report

SGR = re.compile(r"\x1b\[[0-9;]*m")


def page(value: Report, width: int = 100, **screen: bool) -> str:
    return render(value, decide(value, "high", False), Screen(width, **screen))


def test_the_verdict_is_the_first_line_and_comes_again_at_the_end() -> None:
    lines = page(full_report(), 200).splitlines()
    assert lines[0].startswith("4 findings at or above high (3 causes) · 3 introduced by this fork")
    assert lines[0].endswith("exit 1")
    assert lines[-4] == lines[0]
    assert lines[-3].startswith(f"  high {NPU}:431 DSV4NPUTokenToKVPool")


def test_a_finding_says_where_whose_why_and_what_to_do() -> None:
    text = page(full_report(), 200)
    block = text[text.index(f"  {POOL}:1811\n") :]
    assert block.splitlines()[:10] == [
        f"  {POOL}:1811",
        "  NSATokenToKVPool.get_index_k_continuous",
        "  ungated-buffer-read · introduced by this fork · high confidence",
        f"  {finding().hit.message}",
        "  origin    neither v0.5.17 nor the merge base has this method",
        f"  evidence  {POOL}:1700 NSATokenToKVPool.get_part_0 — waits, then reads",
        f"            {POOL}:1712 NSATokenToKVPool.get_part_1 — waits, then reads",
        f"            {POOL}:1724 NSATokenToKVPool.get_part_2 — waits, then reads",
        f"            {POOL}:1736 NSATokenToKVPool.get_part_3 — waits, then reads",
        f"            {POOL}:1748 NSATokenToKVPool.get_part_4 — waits, then reads",
    ]
    assert "  fix       call self._wait_for_layer(layer_id) before the read" in text


def test_one_cause_is_one_group_and_severities_are_in_order() -> None:
    text = page(full_report(), 200)
    assert "HIGH · 4 findings, 3 causes" in text
    also = f"  also      {NPU}:416 DSV4NPUTokenToKVPool.get_key_buffer · regressed"
    assert also in text
    assert "overrides DSV4TokenToKVPool.get_key_buffer" not in text
    assert text.index("HIGH ·") < text.index("MEDIUM ·") < text.index("LOW ·")


def test_own_defects_come_before_inherited_ones() -> None:
    value = report(
        finding(path="a.py", origin="inherited", fingerprint="a" * 16),
        finding(path="z.py", origin="regressed", fingerprint="b" * 16),
        finding(path="b.py", origin="inherited", reach="latent", fingerprint="c" * 16),
    )
    text = page(value)
    places = re.findall(r"^  (\w\.py):1811$", text, re.MULTILINE)
    assert places == ["z.py", "a.py", "b.py"]


def test_reach_fix_version_and_side_are_told() -> None:
    text = page(full_report(), 200)
    assert "fixed upstream in v0.5.18 · latent · medium confidence" in text
    assert "reach     latent: no start of the server in this tree sets" in text
    lost = Evidence("old.py", 400, "Pool.get", "waited here", "upstream")
    assert "old.py:400 (upstream) Pool.get — waited here" in page(report(finding(evidence=(lost,))))


def test_checked_skipped_hidden_and_warnings_are_shown() -> None:
    text = page(full_report(), 200)
    assert "In order · 3 of 4 checked" in text
    assert re.search(r"kv_buffer +9 of 9 readers wait +MHATokenToKVPool", text)
    assert "Not all in order · 1" in text
    assert "  python/sglang/srt/broken.py — line 3: invalid syntax" in text
    assert "12 below the asked confidence; --min-confidence low shows them" in text
    assert "warning: v0.5.10 is far older than the fork's base" in text
    assert "suppressed: read on the transfer thread only" in text
    assert "fail-on high (audit.toml)" in text


def test_sides_and_changes_have_a_line_each() -> None:
    text = page(full_report())
    for line in (
        r"fork +working tree +worktree +1f1f1f1f1f +2,210 Python files, 212 read",
        r"upstream +v0\.5\.17 +revision +2e2e2e2e2e",
        r"merge base .* 3d3d3d3d3d",
        r"target +pypi:0\.5\.18 +release ",
        r"bench +1 +1 +· +· +\+140 -14",
        r"2 more areas +2 +2 +· +· +\+20 -2",
        r"2 commits of the fork's own since the merge base, 31 behind upstream;",
    ):
        assert re.search(line, text), line


def test_lists_are_short_unless_verbose() -> None:
    many = tuple(Skipped("fork", f"f{n:02}.py", "scan", "syntax") for n in range(12))
    value = report(finding(evidence=evidence(9)), skipped=many)
    assert "f11.py" not in page(value)
    assert "+7 more, see: -v or -o json" in page(value)
    assert "+4 more, see: audit explain" in page(value)
    full = page(value, verbose=True)
    assert "f11.py" in full
    assert "get_part_8" in full


def test_quiet_is_the_verdict_and_where() -> None:
    lines = page(full_report(), 200, quiet=True).splitlines()
    assert len(lines) == 4
    assert page(report(), quiet=True) == "nothing at or above high · exit 0\n"


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_lines_fit_the_width_but_for_paths_and_tables(width: int) -> None:
    text = page(full_report(), width)
    for line in text.splitlines():
        words = line.split()
        prose = len(words) > 2 and "  " not in line.strip()
        assert not prose or len(line) <= width, line
    for path in (f"{POOL}:1811", f"{NPU}:431", f"{POOL}:1736"):
        assert path in text


def test_colour_adds_codes_and_nothing_else() -> None:
    plain, coloured = page(full_report()), page(full_report(), colour=True)
    assert "\x1b" not in plain
    assert SGR.sub("", coloured) == plain
    used = {
        code for codes in re.findall(r"\x1b\[([0-9;]*)m", coloured) for code in codes.split(";")
    }
    # No white, black, yellow or blue: unreadable on a light or on a dark background.
    assert used <= {"0", "1", "2", "31", "32", "35", "36"}


def test_text_of_the_fork_cannot_drive_the_terminal() -> None:
    evil = "x\x1b]0;owned\x07\x9b2J\u202e\ny"
    value = report(
        finding(path=evil, symbol=evil, message=evil, fix=evil, cause=evil, origin_reason=evil),
        skipped=(Skipped("fork", evil, evil, evil),),
        warnings=(evil,),
        configuration={evil: evil},
        hidden={evil: 1},
    )
    for text in (page(value), page(value, quiet=True)):
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
        assert "x\\x1b]0;owned" in text


@pytest.mark.parametrize("quiet", [False, True])
def test_a_wrong_upstream_stands_under_the_verdict(quiet: bool) -> None:
    value = report(mismatch="v0.5.18 is newer than v0.5.9, the release it is based on")
    verdict, warning, *_ = page(value, quiet=quiet).splitlines()
    assert verdict.startswith("nothing at or above high")
    assert warning == f"warning: {value.mismatch}"


def test_commits_are_counted_and_not_listed_ones() -> None:
    changes = msgspec.structs.replace(full_report().changes, own=5225)
    text = page(msgspec.structs.replace(full_report(), changes=changes))
    assert "5,225 commits of the fork's own" in text
