from __future__ import annotations

import re

import msgspec
import pytest

from auditor.formats.table import render
from auditor.formats.text import Screen
from auditor.formats.verdict import decide
from auditor.model import Condition, Deployment, Evidence, Excerpt, Report, Skipped

from .sample import NPU, POOL, evidence, excerpts, finding, full_report, report

SGR = re.compile(r"\x1b\[[0-9;]*m")


def page(value: Report, width: int = 100, **screen: bool) -> str:
    return render(value, decide(value, "high", False), Screen(width, **screen))


def test_the_verdict_is_the_first_line_and_the_last() -> None:
    lines = page(full_report(), 200).splitlines()
    assert lines[0].startswith("4 findings at or above high (3 causes) · 3 introduced by this fork")
    assert lines[0].endswith("exit 1")
    assert lines[-1] == lines[0]


def test_a_cause_says_what_breaks_where_by_which_rule_and_what_turns_it_on() -> None:
    lines = page(full_report(), 200).splitlines()[1:6]
    assert lines[0] == (
        f"  high {POOL}:1811 NSATokenToKVPool.get_index_k_continuous"
        " · garbled answers under load, no error · ungated-buffer-read · 3f2a9c1d"
    )
    assert lines[1] == "       turned on by deploy/decode.sh:14 (--enable-hierarchical-cache)"
    assert lines[2].startswith(f"  high {NPU}:431 DSV4NPUTokenToKVPool.get_kv_buffer · garbled")


@pytest.mark.parametrize("width", [60, 80])
def test_a_long_path_is_shortened_and_its_symbol_is_not(width: int) -> None:
    deep = "python/sglang/srt/" + "a_folder_of_some_length/" * 6 + "pool.py"
    symbol = "SomeTokenToKVPool.get_a_buffer"
    lines = page(report(finding(path=deep, symbol=symbol)), width, quiet=True).splitlines()
    [at] = [n for n, line in enumerate(lines) if line.endswith(f"/pool.py:1811 {symbol}")]
    assert lines[at].startswith("  high ")
    assert "…/" in lines[at]
    assert all(len(line) <= width for line in lines)
    told = " ".join(line.strip() for line in lines[at + 1 :])
    assert told == "garbled answers under load, no error · ungated-buffer-read · 3f2a9c1d"


def test_a_fingerprint_is_as_long_as_it_takes_to_find_it() -> None:
    value = report(
        finding(fingerprint="3f2a9c1d77aa0b51"), finding(fingerprint="3f2a9c1d77aa0b51-2")
    )
    assert "· 3f2a9c1d77aa0b51-2" in page(value, 200, quiet=True)


def test_a_finding_says_where_whose_why_and_what_to_do() -> None:
    text = page(full_report(), 200)
    block = text[text.index("HIGH ·") :].splitlines()[2:21]
    assert block == [
        "  ungated-buffer-read · introduced by this fork · high confidence · 3f2a9c1d",
        f"  {finding().hit.message}",
        f"    --> {POOL}:1811 NSATokenToKVPool.get_index_k_continuous",
        "  1810 | def get_index_k_continuous(self, layer_id):",
        "  1811 |     return self.k[layer_id]",
        "       |            ^^^^^^^^^^^^^^^^",
        f"    ::: {POOL}:1700 NSATokenToKVPool.get_part_0",
        "  1699 | def get_part_0(self, layer_id):",
        "  1700 |     self._wait_for_layer(layer_id)",
        "       |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ waits, then reads",
        "  means     Answers are garbled once requests hit the host tier.",
        "  deployed  turned on by deploy/decode.sh:14 (--enable-hierarchical-cache)",
        "  until     it is fixed: take --enable-hierarchical-cache out (decode.sh:14)",
        "  origin    neither v0.5.17 nor the merge base has this method",
        "  siblings  +4 more readers wait",
        "  fix       call self._wait_for_layer(layer_id) before the read",
        "",
        "  override-drops-gate · introduced by this fork · high confidence · cc33cc33",
        f"  {finding().hit.message}",
    ]


def test_without_source_the_evidence_is_listed_by_place() -> None:
    text = page(report(finding()), 200)
    assert f" --> {POOL}:1811 NSATokenToKVPool.get_index_k_continuous\n" in text
    assert f"  evidence  {POOL}:1700 NSATokenToKVPool.get_part_0 — waits, then reads" in text
    assert "            +2 more, see: -v" in text


def test_what_a_rule_means_is_said_once() -> None:
    text = page(full_report(), 200)
    # Two rules among those that are shown in full.
    assert text.count("  means     Answers are garbled") == 2
    assert page(full_report(), 200, verbose=True).count("  means     Answers are garbled") == 5


def test_a_page_of_sixteen_findings_fits_about_a_hundred_lines() -> None:
    many = tuple(
        finding(
            rule=("ungated-buffer-read", "override-drops-gate", "gate-bypassed")[n % 3],
            severity="high" if n < 8 else "medium",
            line=100 + n,
            fingerprint=f"{n:x}" * 16,
            cause=f"Pool{n // 2}.kv",
            deployment=Deployment("off", ((Condition("flag", "--x", POOL, 1),),)),
        )
        for n in range(16)
    )
    shown = {one.fingerprint: excerpts() for one in many}
    value = msgspec.structs.replace(full_report(), findings=many, excerpts=shown)
    lines = page(value, 100).splitlines()
    assert len(lines) <= 116
    causes = {one.hit.cause or one.fingerprint for one in many}
    left = len(causes) - 3
    assert f"{left} causes in short; -v shows source and evidence of all" in page(value)
    # Nothing is left out without a word: each cause has its line, each other finding is counted.
    text = page(value, 200)
    firsts = {one.hit.cause or one.fingerprint: one for one in reversed(many)}
    assert all(one.fingerprint[:8] in text for one in firsts.values())
    counted = sum(int(n) for n in re.findall(r"\(\+(\d+) of this cause\)", text))
    listed = sum(f"{POOL}:{one.hit.where.line} " in text for one in many)
    assert counted + listed == len(many)


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
    places = re.findall(r"^ +--> (\w\.py):1811 ", text, re.MULTILINE)
    assert places == ["z.py", "a.py", "b.py"]


def test_reach_fix_version_and_side_are_told() -> None:
    text = page(full_report(), 200, verbose=True)
    assert "fixed upstream in v0.5.18 · latent · medium confidence" in text
    assert "reach     latent: no start of the server in this tree sets" in text
    lost = Evidence("old.py", 400, "Pool.get", "waited here", "upstream")
    assert "old.py:400 (upstream) Pool.get — waited here" in page(report(finding(evidence=(lost,))))


def test_checked_skipped_hidden_and_warnings_are_shown() -> None:
    assert "In order · 3 of 4 checked, see: -v or -o json" in page(full_report(), 200)
    text = page(full_report(), 200, verbose=True)
    assert re.search(r"kv_buffer +9 of 9 readers wait +MHATokenToKVPool", text)
    assert "Not all in order · 1" in text
    assert "  python/sglang/srt/broken.py — line 3: invalid syntax" in text
    assert "12 below the asked confidence; --min-confidence low shows them" in text
    assert "warning: v0.5.10 is far older than the fork's base" in text
    assert "suppressed: read on the transfer thread only" in text
    assert "fail-on high (audit.toml)" in text


def test_sides_and_changes_have_a_line_each() -> None:
    short = "17 files differ from upstream (+560 -56): in bench (2), lang (3)"
    assert "17 files differ from upstream (+" in page(full_report()), short
    text = page(full_report(), verbose=True)
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
    assert "+6 more, see: -v" in page(value)
    full = page(value, verbose=True)
    assert "f11.py" in full
    assert "get_part_8" in full


def test_quiet_is_the_verdict_and_where() -> None:
    lines = page(full_report(), 200, quiet=True).splitlines()
    assert len(lines) == 5  # the verdict, three causes, and what turns one of them on
    assert page(report(), quiet=True) == "nothing at or above high · exit 0\n"


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_lines_fit_the_width_but_for_paths_and_tables(width: int) -> None:
    text = page(full_report(), width)
    for line in text.splitlines():
        words = line.split()
        # A symbol is never cut, whatever its path has lost.
        prose = len(words) > 2 and "  " not in line.strip() and "…/" not in line
        assert not prose or len(line) <= width, line
    for path in (f"{POOL}:1811", f"{NPU}:431", f"{POOL}:1700"):
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
        excerpts={
            finding().fingerprint: (Excerpt("read", "fork", evil, evil, 1, (evil,), 1, 1, 0, evil),)
        },
    )
    for text in (page(value), page(value, quiet=True)):
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
        assert "x\\x1b]0;owned" in text


def test_a_screen_of_ascii_gets_ascii() -> None:
    deep = finding(path="python/sglang/" + "a_long_folder/" * 6 + "pool.py", fingerprint="de" * 8)
    for value in (full_report(), report(deep), report()):
        for quiet in (True, False):
            text = page(value, 80, ascii=True, quiet=quiet)
            assert text.isascii()
            assert "\\x" not in text
    for line in page(report(deep), 80, ascii=True, quiet=True).splitlines():
        assert len(line) <= 80
    assert "nothing at or above high - exit 0" in page(report(), ascii=True)


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
