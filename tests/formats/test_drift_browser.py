"""The drift page in a browser: quiet, fetching nothing, within the screen, in both schemes."""

from __future__ import annotations

import pytest

from auditor.formats.drift import render
from auditor.formats.text import Screen
from tests.formats.browsing import assert_quiet_and_fitting
from tests.formats.drifts import HOSTILE, weeks


@pytest.fixture(scope="module", params=["Overlap the copy with the wait", HOSTILE])
def page_file(request, tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "drift.html"
    file.write_text(render("html", weeks(12, request.param), Screen()))
    return file


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_the_page_is_quiet_and_fits(browser, page_file, width, scheme):
    assert_quiet_and_fitting(browser, page_file, width, scheme)


@pytest.mark.parametrize("place", ["area-1-5", "fixes-absent"])
def test_a_number_in_the_page_opens_its_rows(browser, page_file, place):
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.goto(page_file.as_uri())
    link = page.locator(f"a[href='#{place}']")
    row = page.locator(f"#{place}")
    assert not row.is_visible()
    link.first.click()
    row.wait_for(state="visible")
    page.close()


def test_a_picture_is_one_image_with_a_name(browser, page_file):
    page = browser.new_page()
    page.goto(page_file.as_uri())
    assert page.get_by_role("img", name="Findings by origin", exact=True).count() == 1
    assert page.get_by_role("img").count() == 8
    page.close()
