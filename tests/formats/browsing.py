"""Looks at a page in a browser: quiet, fetching nothing, within the screen, easy to read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

# Words whose colour is too near to that of their ground (WCAG 2.2, 1.4.3, AA).
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


def assert_quiet_and_fitting(browser: Any, file: Path, width: int, scheme: str) -> None:
    """The page as it opens and with everything unfolded."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, service_workers="block"
    )
    page = context.new_page()
    noise, asked = [], []
    page.on("console", lambda message: noise.append(message.text))
    page.on("pageerror", lambda problem: noise.append(str(problem)))
    page.on("dialog", lambda dialog: noise.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    assert [url for url in asked if not url.startswith("data:")] == [file.as_uri()]
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    across, inside = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert across <= inside == width
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(13, 17, 23)" if scheme == "dark" else "rgba(0, 0, 0, 0)"
    )
    assert page.evaluate(CONTRAST) == []
    assert noise == []
    context.close()
