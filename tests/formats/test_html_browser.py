"""The audit's page in a browser: quiet, fetching nothing, within the screen, in both schemes."""

from __future__ import annotations

import pytest

from auditor.cli.main import main
from auditor.formats.html import render
from auditor.formats.verdict import decide

from .browsing import assert_quiet_and_fitting
from .incidents import hostile, many, on_fire

REPORTS = {"on fire": on_fire, "hostile": hostile, "very many": lambda: many(300)}


def written(folder, value):
    file = folder / "audit.html"
    file.write_text(render(value, decide(value, "high", False)), encoding="utf-8")
    return file


@pytest.fixture(scope="module", params=REPORTS)
def page_file(request, tmp_path_factory):
    return written(tmp_path_factory.mktemp("page"), REPORTS[request.param]())


@pytest.fixture
def opened(browser, tmp_path):
    """The page of an incident, opened on a screen of a width."""
    pages = []

    def opened(width):
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.goto(written(tmp_path, on_fire()).as_uri())
        pages.append(page)
        return page

    yield opened
    for page in pages:
        page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_the_page_is_quiet_and_fits(browser, page_file, width, scheme):
    assert_quiet_and_fitting(browser, page_file, width, scheme)


def test_a_row_of_the_list_unfolds_its_card(opened):
    page = opened(390)
    card = page.locator("[id='dd44dd44']")
    assert not card.is_visible()
    page.locator("a[href='#dd44dd44']").first.click()
    card.wait_for(state="visible")


def test_a_link_leaves_the_heading_of_its_card_in_sight(browser, tmp_path):
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.emulate_media(reduced_motion="reduce")
    page.goto(written(tmp_path, many(12)).as_uri())
    page.locator("a[href='#00000001']").first.click()
    heading = page.locator("article").nth(1).locator("h3").bounding_box()
    assert 0 <= heading["y"] < 100
    page.close()


def test_one_screen_says_what_breaks_where_it_runs_and_what_to_do(opened):
    page = opened(1400)
    for text in ("4 findings at or above high", "upstream v0.5.17 is not", "take --enable-hier"):
        assert page.get_by_text(text).first.bounding_box()["y"] < 800
    lines = page.locator("pre").first.bounding_box()
    assert lines["y"] + lines["height"] < 1000


@pytest.mark.parametrize(("width", "rows"), [(1400, 1), (390, 3)])
def test_the_lines_are_side_by_side_where_there_is_room(opened, width, rows):
    blocks = opened(width).locator("article").first.locator("figure")
    boxes = [blocks.nth(n).bounding_box() for n in range(3)]
    assert blocks.count() == 3
    assert len({box["y"] for box in boxes}) == rows


def test_a_long_line_scrolls_in_its_own_block(opened):
    block = opened(390).locator("pre").first
    assert block.evaluate("e => e.scrollWidth > e.clientWidth")
    assert block.evaluate("e => getComputedStyle(e).overflowX") == "auto"


def test_a_line_takes_one_line(opened):
    block = opened(1400).locator("pre").nth(2)
    height = block.evaluate("e => parseFloat(getComputedStyle(e).lineHeight)")
    assert block.bounding_box()["height"] < 5.5 * height
    assert block.evaluate("e => e.innerText.trim().split('\\n').length") == 4


def test_what_is_left_out_of_a_function_takes_one_line_too(browser, tmp_path):
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(written(tmp_path, many(1)).as_uri())
    told = page.locator("pre").first.evaluate("e => e.innerText.trimEnd().split('\\n')")
    assert [line for line in told if not line.strip()] == []
    assert told[-1].strip() == "… 2 lines"
    page.close()


def test_on_paper_everything_is_unfolded(opened):
    page = opened(1400)
    page.emulate_media(media="print")
    assert page.locator("[id='dd44dd44']").bounding_box()["height"] > 0


def test_the_page_of_the_demo_fits_two_screens(browser, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "audit.html"
    assert main(["demo", str(tmp_path / "demo"), "-q", "-o", f"html={file}"]) == 1
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(file.as_uri())
    assert page.locator("article").count() == 12
    assert page.evaluate("document.documentElement.scrollHeight") <= 1800
    page.close()
