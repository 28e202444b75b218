"""The audit as a page: the verdict first, every finding placed or counted, text that stays text."""

from __future__ import annotations

import re

import msgspec
import pytest

from auditor.formats.html import LARGEST, render
from auditor.formats.verdict import decide
from auditor.model import (
    Argument,
    Checked,
    Deployment,
    Evidence,
    Report,
    Skipped,
    Suppression,
)

from .incidents import ARGS, LAYERS, ON, SCRIPT, TIER, hostile, launch, many, on_fire
from .pages import (
    Page,
    assert_links_lead_to_rows,
    assert_nothing_is_fetched_or_run,
    assert_text_stays_text,
)
from .sample import POOL, finding, full_report, report

REPORTS = {
    "in order": report(),
    "full": full_report(),
    "on fire": on_fire(),
    "twenty": many(20),
    "very many": many(300),
    "hostile": hostile(),
}


def page_of(value: Report, fail_on="high") -> str:
    return render(value, decide(value, fail_on, False))


@pytest.mark.parametrize("value", REPORTS.values(), ids=REPORTS)
def test_a_page_is_whole_and_nothing_leads_away(value):
    text = page_of(value)
    page = Page(text)
    assert text.endswith("</html>\n")
    assert_text_stays_text(text)
    if value.findings:
        assert_links_lead_to_rows(page)
    assert_nothing_is_fetched_or_run(text)


@pytest.mark.parametrize("value", REPORTS.values(), ids=REPORTS)
def test_headings_and_landmarks_are_in_order(value):
    page = Page(page_of(value))
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip([0, *levels], levels, strict=False))
    tags = [tag for tag, _ in page.elements]
    assert [tags.count(tag) for tag in ("header", "main", "footer")] == [1, 1, 1]
    assert ("html", {"lang": "en"}) in page.elements
    assert all(a.get("scope") for tag, a in page.elements if tag == "th")


def test_hostile_text_is_told_as_it_is():
    said = Page(page_of(hostile())).text
    assert "<script>alert(1)</script>" in said
    assert "{{x}}" in said
    assert "</pre></details>" in said
    assert "\\x1b[2J" in said


def test_the_verdict_comes_first_and_the_doubt_about_the_base_under_it():
    page = Page(page_of(on_fire()))
    said = page.text
    title = said.index("audit: 4 findings at or above high (3 causes) · exit 1")
    heading = said.index("4 findings at or above high (3 causes)", title + 20)
    mismatch = said.index("upstream v0.5.17 is not the release")
    assert title < heading < said.index("exit 1", heading) < mismatch < said.index("2,210 Python")
    assert said.index("2,210 Python") < said.index("garbled answers under load")


def test_a_person_reads_what_breaks_for_whom_since_when_and_what_to_do():
    said = Page(page_of(on_fire())).text
    row = (
        "high garbled answers under load, no error NSATokenToKVPool.get_index_k_continuous"
        " introduced by this fork, fixed in v0.5.18 turned on by serve_decode.sh:14"
    )
    assert row in said
    advice = f"Until it is fixed {ON.mitigation} (NSATokenToKVPool.get_index_k_continuous)"
    assert advice in said
    for told in (
        f"{POOL}:1811 · ungated-buffer-read · high confidence · audit explain 3f2a9c1d77aa0b51",
        "means Requests that hit the host tier",
        "since introduced by this fork, fixed in v0.5.18: neither v0.5.17 nor the merge base has",
        "has this method; fixed by 9c9c9c9c Wait before the read",
        "runs with --enable-hierarchical-cache and the model is a DeepseekV32ForCausalLM",
        "evidence · 5, where the tree asks for this · 2",
        f"{ARGS}:812 — asks for --enable-hierarchical-cache",
        "fix call self._wait_for_layer(layer_id) before the read",
        "in this fork",
        "how a sibling waits",
        "in v0.5.17",
        "no launch here turns it on; needs --enable-hierarchical-cache",
    ):
        assert told in said, told


def test_the_lines_stand_side_by_side_with_what_differs_marked():
    text = page_of(on_fire())
    first = text.split("<article")[1]
    blocks = re.findall(r"<pre tabindex=\"0\">(.*?)</pre>", first, re.DOTALL)
    assert len(blocks) == 3
    assert "<mark>self.index_k_with_scale_buffer[layer_id]</mark>" in blocks[0]
    assert '<span class="ours"><i> 1812+</i>' in blocks[0]
    assert "return gather(buffer, pages, <b>128</b>)" in blocks[0]
    assert "<mark>self._wait_for_layer(layer_id)</mark>" in blocks[1]
    assert '<span class="theirs"><i> 1811-</i>' in blocks[2]
    assert "<b>64</b>" in blocks[2]


def test_the_launches_are_a_table_and_what_turns_a_cause_on_leads_to_it():
    text = page_of(on_fire())
    said = Page(text).text
    assert "Launches · 1" in said
    row = said[said.index(f"{SCRIPT}:11") :]
    command = "python -m sglang.launch_server"
    assert row.startswith(f"{SCRIPT}:11 {command} decode /models/DeepSeek-V3.2 --enable")
    assert "--enable-hierarchical-cache turns on NSATokenToKVPool.get_index_k_continuous" in row
    assert "4 flags, 1 variable" in row
    assert "--tp 8" in row


def test_a_flag_that_may_turn_a_cause_on_is_not_said_to_do_so():
    perhaps = msgspec.structs.replace(ON, state="undecided", reason="$A is not known")
    text = page_of(report(finding(deployment=perhaps), launches=(launch(),)))
    assert "</b></code> turns on" not in text


def test_of_flags_on_one_line_only_the_one_that_turns_a_cause_on_is_named():
    flags = ("--tp", "--enable_hierarchical_cache", "--enable-hierarchical-cache-more")
    arguments = tuple(Argument(flag, None, SCRIPT, 14) for flag in flags)
    text = page_of(report(finding(deployment=ON), launches=(launch(arguments=arguments),)))
    assert re.findall(r"<code><b>(.*?)</b></code> turns on", text) == [flags[1]]


def test_the_areas_that_differ_most_come_first():
    said = Page(page_of(full_report())).text
    row = said[said.index("area added modified") :]
    assert re.findall(r"(\S+)(?: \d+)* \+\d+ -\d+", row)[:3] == [
        "bench",
        "srt/hardware_backend/npu",
        "srt/disaggregation",
    ]


def test_a_warning_that_stands_under_the_verdict_is_not_said_again():
    value = msgspec.structs.replace(on_fire(), warnings=(on_fire().mismatch, "another"))
    said = Page(page_of(value)).text
    assert said.count(value.mismatch) == 1
    assert "another" in said


def test_keys_of_a_script_do_not_go_into_a_page():
    text = page_of(on_fire())
    assert "--api-key …" in text
    assert "HF_TOKEN=…" in text
    assert "in-a-script" not in text
    assert "in_a_script" not in text


def test_what_helps_several_causes_is_said_once():
    found = [finding(fingerprint=f"{n:016x}", line=n + 1, deployment=ON) for n in range(12)]
    harmless = finding(fingerprint="ab" * 8, severity="low", deployment=ON)
    said = Page(page_of(report(*found, harmless))).text
    assert said.count(f"{ON.mitigation} (") == 1
    [causes] = re.findall(r"costs the host tier \((.*?)\)", said)
    assert causes.count("get_index_k_continuous") == 8
    assert causes.endswith("and 4 more")


@pytest.mark.parametrize(
    ("ours", "told"),
    [
        (Deployment("on"), "every launch here runs it"),
        (Deployment("off"), "no launch here turns it on"),
        (Deployment("no-launch", ((TIER,),)), "with --enable-hierarchical-cache What"),
        (
            Deployment("no-launch", ((TIER, LAYERS),)),
            "with --enable-hierarchical-cache …",
        ),
        (Deployment("no-launch", ((TIER,), (LAYERS,))), "with --enable-hierarchical-cache …"),
        (Deployment("no-launch", ((LAYERS,),)), "What fails the run"),
        (Deployment("undecided", reason="$A is not known"), "undecided: $A is not known"),
        (
            msgspec.structs.replace(ON, turned_on=ON.turned_on * 3),
            "turned on by serve_decode.sh:14 +2",
        ),
    ],
)
def test_the_list_of_causes_says_in_few_words_where_they_run(ours, told):
    said = Page(page_of(report(finding(deployment=ours)))).text
    assert f"introduced by this fork {told}" in said


def test_without_a_deployment_nothing_is_said_of_one():
    assert "runs here" not in page_of(report(finding()))
    assert "Until it is fixed" not in page_of(report(finding()))


def placed(text: str, value: Report) -> int:
    """How many active findings have an id on the page, and how many are counted only."""
    ids = set(Page(text).values("id"))
    active = [f for f in value.findings if f.disposition == "active"]
    names = [f.fingerprint[:8] for f in active]
    there = sum(name in ids for name in names)
    there += sum(bool(re.fullmatch(r"[0-9a-f]{8}-\d+", name)) for name in ids)
    counted = re.findall(r"Counted only: ([^<]*)\.", text)
    counted += re.findall(r"\+([\d,]+) more, see <code>audit -o json</code></p>\n<details", text)
    numbers = re.findall(r"[\d,]+", " ".join(counted))
    return there + sum(int(number.replace(",", "")) for number in numbers)


@pytest.mark.parametrize("number", [0, 1, 20, 60, 300])
def test_every_cause_has_a_card_a_row_or_is_counted(number):
    value = many(number)
    text = page_of(value)
    assert placed(text, value) == number
    assert len(text.encode()) <= LARGEST


def test_every_finding_of_a_cause_has_its_place_or_is_counted():
    found = [finding(fingerprint=f"{n:08x}" * 2, line=n + 1, cause="pool") for n in range(45)]
    value = report(*found)
    text = page_of(value)
    assert placed(text, value) == 45
    assert text.count("<article") == 1


def test_equal_findings_have_places_of_their_own():
    found = [finding(fingerprint=f"{'ab' * 8}{end}", line=n) for n, end in enumerate(("", "~2"))]
    value = report(*found)
    assert placed(page_of(value), value) == 2
    assert_links_lead_to_rows(Page(page_of(value)))


def test_a_page_of_twenty_causes_can_be_mailed_and_says_what_it_left_out():
    text = page_of(many(20))
    assert len(text.encode()) <= LARGEST
    assert text.count("<article") == 20
    with_source = text.count("<figure>") // 3
    assert with_source >= 10
    left = 20 - with_source
    assert f"the source lines of {left} causes left out" in Page(text).text


def test_of_very_many_causes_the_first_keep_their_lines():
    text = page_of(many(300))
    cards = text.count("<article")
    assert 15 < cards < 100
    assert text.count("<figure>") >= 30
    first = text.split("<article")[1:11]
    assert all("<pre" in card for card in first)
    assert f"{300 - cards:,} causes without a card" in Page(text).text
    assert "300 causes" in Page(text).text


def test_a_page_that_has_room_leaves_nothing_out():
    assert "left out" not in page_of(on_fire())
    assert "without a card" not in page_of(on_fire())


def test_what_was_accepted_hidden_skipped_and_checked_is_there():
    said = Page(page_of(full_report())).text
    for told in (
        "Accepted · 1 finding",
        "suppressed: read on the transfer thread only",
        "Hidden · 15 findings",
        "12 below the asked confidence",
        "Skipped · 2",
        "python/sglang/srt/broken.py — line 3: invalid syntax",
        "In order · 3 of 4 checked",
        "9 of 9 readers wait: kv_buffer",
        "Not all in order · 1",
        "4 of 6 readers wait: index_k_with_scale_buffer",
        "17 files differ from upstream · 2 own commits",
        "2 commits of the fork's own since the merge base, 31 behind upstream",
        "v0.5.10 is far older than the fork's base",
        "fail-on high (audit.toml)",
    ):
        assert told in said, told


def test_lists_are_bounded_and_say_how_much_more_there_is():
    number = 500
    known = [finding(fingerprint=f"{n:016x}", disposition="baselined") for n in range(number)]
    told = Evidence(POOL, 1, "f", "waits")
    value = report(
        *known,
        finding(evidence=(told,) * number),
        skipped=tuple(Skipped("fork", f"{n}.py", "scan", "x") for n in range(number)),
        checked=tuple(Checked("sync", f"b{n}", 1, 1, POOL, "") for n in range(number)),
        launches=tuple(launch(line=n) for n in range(number)),
        warnings=tuple(f"warning {n}" for n in range(number)),
        suppressions=tuple(
            Suppression(POOL, n + 1, 1, ("gate-removed",), "why", "comment", side)
            for n in range(number)
            for side in ("fork", "upstream")
        ),
    )
    text = page_of(value)
    assert len(text.encode()) <= LARGEST
    assert f"Suppressions that the fork brought · {number}" in Page(text).text
    more = [int(n) for n in re.findall(r"\+(\d+) more, see", text)]
    assert sorted(more) == sorted(number - shown for shown in (50, 8, 20, 40, 30, 5, 50))


def test_a_report_in_order_is_a_short_page():
    said = Page(page_of(report())).text
    assert "nothing at or above high exit 0" in said.replace(" · ", " ")
    assert "What fails the run" not in said
    assert "Launches" not in said


def test_where_nothing_fails_the_run_the_findings_are_still_cards():
    text = page_of(full_report(), "never")
    assert "<h2>Findings · 5 causes</h2>" in text
    assert "What fails the run" not in text


def test_scripts_alone_have_no_upstream_to_differ_from():
    value = report(finding(category="serve", path=SCRIPT), upstream=None)
    said = Page(page_of(value)).text
    assert "differ from upstream" not in said
    assert "of this deployment" in said


def test_the_same_report_is_the_same_page_whenever_and_wherever_it_was_made():
    slow = msgspec.structs.replace(on_fire(), timings={"scan": 99.0})
    assert page_of(on_fire()) == page_of(slow)
