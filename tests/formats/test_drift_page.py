"""The drift report as a page: numbers have rows, text stays text, charts say what they show."""

from __future__ import annotations

import re
from datetime import timedelta
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from auditor.formats import charts
from auditor.formats.charts import Chart, Line, chart_of, describe, draw
from auditor.formats.drift import render
from auditor.formats.drift_words import Standing
from auditor.formats.text import Screen
from auditor.formats.verdict import decide
from tests.formats.drifts import DAY, HOSTILE, drift, line, weeks
from tests.formats.sample import finding, report

VOID = {"meta", "link", "br", "wbr", "img", "hr", "input"}
KNOWN = set(
    re.findall(
        "[a-z0-9]+",
        """html head meta link title style body header main section article footer h1 h2 h3 p a b
        code span ul li dl dt dd div table thead tbody tr th td details summary figure figcaption
        br wbr svg desc g path line text""",
    )
)


class Page(HTMLParser):
    """The elements of a page; refuses what is not closed as it was opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.said: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.said.append(data)

    def values(self, name):
        return [attributes[name] or "" for _, attributes in self.elements if name in attributes]


def page_of(standing):
    return render("html", standing, Screen())


@pytest.mark.parametrize("text", ["Overlap the copy", HOSTILE])
@pytest.mark.parametrize("number", [1, 2, 10])
def test_every_number_leads_to_a_row_of_the_page(number, text):
    page = Page(page_of(weeks(number, text)))
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    links = page.values("href")
    assert links.pop(0) == "data:,"
    assert links
    assert {link[0] for link in links} == {"#"}
    assert {link[1:] for link in links} <= set(ids)


def test_hostile_text_stays_text():
    text = page_of(weeks(4, HOSTILE))
    page = Page(text)
    assert {tag for tag, _ in page.elements} <= KNOWN
    names = {name for _, attributes in page.elements for name in attributes}
    assert not [name for name in names if name.startswith("on")]
    assert "src" not in names
    said = "".join(page.said)
    assert "<script>alert(1)</script>" in said
    assert "{{ 7*7 }}" in said
    assert "&amp;" in said
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e]", text)


def test_nothing_is_fetched_or_run():
    text = page_of(weeks())
    page = Page(text)
    [policy] = [a["content"] for _, a in page.elements if a.get("http-equiv")]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
    assert "<script" not in text
    assert not re.search(r"url\(|@import|javascript:", text)
    outside = set(re.findall(r"https?://[^\"'\s<>)]+", text))
    assert outside == {"http://www.w3.org/2000/svg"}


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
