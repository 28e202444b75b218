"""The drift report as a page: numbers have rows, text stays text, charts say what they show."""

from __future__ import annotations

import re
from datetime import timedelta
from xml.etree import ElementTree

import pytest

from auditor.formats import charts
from auditor.formats.charts import Chart, Line, chart_of, describe, draw
from auditor.formats.drift import render
from auditor.formats.drift_words import Standing
from auditor.formats.text import Screen
from auditor.formats.verdict import decide
from tests.formats.drifts import DAY, HOSTILE, drift, line, weeks
from tests.formats.pages import (
    Page,
    assert_links_lead_to_rows,
    assert_nothing_is_fetched_or_run,
    assert_text_stays_text,
)
from tests.formats.sample import finding, report


def page_of(standing):
    return render("html", standing, Screen())


@pytest.mark.parametrize("text", ["Overlap the copy", HOSTILE])
@pytest.mark.parametrize("number", [1, 2, 10])
def test_every_number_leads_to_a_row_of_the_page(number, text):
    assert_links_lead_to_rows(Page(page_of(weeks(number, text))))


def test_hostile_text_stays_text():
    text = page_of(weeks(4, HOSTILE))
    assert_text_stays_text(text)
    said = "".join(Page(text).said)
    assert "<script>alert(1)</script>" in said
    assert "{{ 7*7 }}" in said
    assert "&amp;" in said


def test_nothing_is_fetched_or_run():
    assert_nothing_is_fetched_or_run(page_of(weeks()), "http://www.w3.org/2000/svg")


def test_the_charts_have_text_alternatives_and_their_numbers():
    page = Page(page_of(weeks(10)))
    pictures = [attributes for tag, attributes in page.elements if tag == "svg"]
    assert len(pictures) == 8
    ids = set(page.values("id"))
    for attributes in pictures:
        assert attributes["role"] == "img"
        assert {attributes["aria-labelledby"], attributes["aria-describedby"]} <= ids
    said = " ".join(page.said)
    assert "behind: 700 on 2026-03-02, 1,033 on 2026-05-04" in said
    assert said.count("the numbers") == 8
    rows = re.findall(r'<td class="fit">(2026-\d\d-\d\d)</td>', page_of(weeks(10)))
    assert len(rows) == 80
    assert rows[0] == "2026-05-04"


def test_the_same_report_is_the_same_page():
    assert page_of(weeks(6)) == page_of(weeks(6))


def test_without_the_library_of_charts_the_numbers_are_there(monkeypatch):
    monkeypatch.setattr(charts, "available", lambda: False)
    text = page_of(weeks(5))
    assert "<svg" not in text
    assert "sglang-fork-audit[html]" in text
    assert text.count("<details open>") == 8


def test_a_page_without_a_history_or_anything_to_say_is_whole():
    state = drift(target="", ahead=None, behind=None, conflicts=None)
    text = page_of(Standing(report(), state, decide(report(), "high", False)))
    said = " ".join(Page(text).said)
    assert "unknown" in said
    assert "Over time" not in said
    assert "Since" not in said


def test_two_years_of_weeks_are_shown():
    standing = weeks(2)
    first = standing.runs[0]
    long = tuple(first for _ in range(150))
    text = page_of(standing._replace(runs=long))
    assert "The latest 104 runs; 46 earlier ones are in the history." in text


MOMENTS = [DAY + timedelta(weeks=week) for week in range(5)]


def test_a_chart_says_what_it_shows():
    chart = chart_of("a", "A", MOMENTS, [Line("x", (1, None, 4, 1200, 9)), Line("y", (None,) * 5)])
    assert describe(chart) == "x: 1 on 2026-03-02, 9 on 2026-03-30; between 1 and 1,200."
    assert describe(Chart("a", "A", tuple(MOMENTS), (Line("y", (None,) * 5),))) == "y: not known."


def test_what_is_not_known_leaves_a_gap():
    def strokes(values):
        root = ElementTree.fromstring(draw(chart_of("a", "A", MOMENTS, [Line("x", values)])))
        [path] = [e.get("d") for e in root.iter() if e.get("stroke") == "#0969da" and e.get("d")][
            :1
        ]
        return (path or "").count("M")

    assert strokes((1, 2, 3, 4, 5)) == 1
    assert strokes((1, 2, None, 4, 5)) == 2


def test_a_day_is_named_once_and_the_latest_always():
    hours = [DAY + timedelta(hours=hour) for hour in range(12)]
    moments = [*hours, DAY + timedelta(weeks=9), DAY + timedelta(weeks=3)]  # a clock went back
    root = ElementTree.fromstring(draw(chart_of("a", "A", moments, [Line("x", (1,) * 14)])))
    texts = [e.text or "" for e in root.iter() if e.tag.endswith("text")]
    assert [text for text in texts if " " in text] == ["2 Mar", "23 Mar", "4 May"]


def test_a_single_line_says_whose_it_is_where_it_says_anything():
    def caption(found):
        runs = tuple(line(found, when=DAY + timedelta(weeks=week)) for week in range(2))
        verdict = decide(report(), "never", False)
        page = page_of(Standing(report(), drift(), verdict, None, runs))
        [told] = re.findall(r"<figcaption>Findings by origin(.*?)</figcaption>", page)
        return re.sub("<[^>]*>", "", told).strip()

    assert caption([finding(origin="inherited")]) == "· inherited, now 1"
    assert caption([]) == "· now 0"


def test_lines_differ_by_more_than_colour():
    lines = [Line(str(n), (n, n, n, n, n + 1), n) for n in range(5)]
    root = ElementTree.fromstring(draw(chart_of("a", "A", MOMENTS, lines)))
    dashes = {(e.get("stroke"), e.get("stroke-dasharray")) for e in root.iter() if e.get("stroke")}
    drawn = [pair for pair in dashes if pair[0] in charts.COLOURS and pair[1] is not None]
    assert len(drawn) == len({dash for _, dash in drawn}) == 5


@pytest.mark.parametrize(
    ("values", "labels"),
    [((0, 0), "0 1"), ((1, 0), "0 1"), ((2, 0), "0 1 2"), ((3, 1), "0 1 2 3")],
)
def test_small_counts_have_whole_steps(values, labels):
    root = ElementTree.fromstring(draw(chart_of("a", "A", MOMENTS[:2], [Line("x", values)])))
    texts = [e.text or "" for e in root.iter() if e.tag.endswith("text")]
    assert sorted(text for text in texts if text.isdigit()) == labels.split()
