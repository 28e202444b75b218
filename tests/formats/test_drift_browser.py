"""The drift page in a browser: quiet, fetching nothing, within the screen, in both schemes."""

from __future__ import annotations

import shutil

import pytest

from auditor.formats.drift import render
from auditor.formats.text import Screen
from tests.formats.drifts import HOSTILE, weeks

api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
)

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium (apt install chromium)")

CONTRAST = """() => {
  const level = colour => {
    const [r, g, b] = colour.match(/[0-9.]+/g).slice(0, 3).map(Number).map(part => {
      part /= 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = element => {
    for (; element; element = element.parentElement) {
      const colour = getComputedStyle(element).backgroundColor;
      if (!/, 0\\)$/.test(colour) && colour !== 'transparent') return colour;
    }
    const dark = matchMedia('(prefers-color-scheme: dark)').matches;
    return dark ? 'rgb(13, 17, 23)' : 'rgb(255, 255, 255)';
  };
  const poor = [];
  for (const element of document.querySelectorAll('body *')) {
    if (![...element.childNodes].some(node => node.nodeType === 3 && node.data.trim())) continue;
    if (['TITLE', 'DESC', 'title', 'desc'].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    const ink = element instanceof SVGElement ? style.fill : style.color;
    const [one, two] = [level(ink), level(ground(element))].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (two + 0.05);
    if (ratio < 4.5) poor.push([element.tagName, ink, ground(element), ratio]);
  }
  return poor.slice(0, 5);
}"""


@pytest.fixture(scope="module")
def browser():
    with api.sync_playwright() as playwright:
        try:
            found = playwright.chromium.launch(executable_path=BROWSER, args=list(FLAGS))
        except api.Error as problem:
            pytest.skip(f"chromium does not start: {str(problem).splitlines()[0]}")
        yield found
        found.close()


@pytest.fixture(scope="module", params=["Overlap the copy with the wait", HOSTILE])
def page_file(request, tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "drift.html"
    file.write_text(render("html", weeks(12, request.param), Screen()))
    return file


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_the_page_is_quiet_and_fits(browser, page_file, width, scheme):
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, service_workers="block"
    )
    page = context.new_page()
    noise, asked = [], []
    page.on("console", lambda message: noise.append(message.text))
    page.on("pageerror", lambda problem: noise.append(str(problem)))
    page.on("dialog", lambda dialog: noise.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(page_file.as_uri())
    assert [url for url in asked if not url.startswith("data:")] == [page_file.as_uri()]
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    across, inside = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert across <= inside == width
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(13, 17, 23)" if scheme == "dark" else "rgba(0, 0, 0, 0)"
    )
    assert page.evaluate(CONTRAST) == []
    assert noise == []
    context.close()


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
