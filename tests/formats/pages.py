"""What the tests of our HTML pages share: a strict reader, and what holds for every page."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "wbr", "img", "hr", "input"}
KNOWN = set(
    re.findall(
        "[a-z0-9]+",
        """html head meta link title style body header main section article footer nav h1 h2 h3 p a
        b i code pre mark span ul li dl dt dd div table thead tbody tr th td details summary figure
        figcaption br wbr svg desc g path line text""",
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

    @property
    def text(self):
        """What the page says, with single spaces."""
        return " ".join("".join(self.said).split())

    def values(self, name):
        return [attributes[name] or "" for _, attributes in self.elements if name in attributes]


def assert_links_lead_to_rows(page: Page) -> None:
    """Nothing leads away, and every link within the page has its place."""
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    links = page.values("href")
    assert links.pop(0) == "data:,"
    assert links
    assert {link[0] for link in links} == {"#"}
    assert {link[1:] for link in links} <= set(ids)


def assert_text_stays_text(text: str) -> None:
    """Only elements of our own, none of which can act."""
    page = Page(text)
    assert {tag for tag, _ in page.elements} <= KNOWN
    names = {name for _, attributes in page.elements for name in attributes}
    assert not [name for name in names if name.startswith("on")]
    assert "src" not in names
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e\u2028]", text)


def assert_nothing_is_fetched_or_run(text: str, *known: str) -> None:
    """No address in an attribute or a style; ``known`` are names that fetch nothing."""
    page = Page(text)
    [policy] = [a["content"] for _, a in page.elements if a.get("http-equiv")]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
    assert "<script" not in text
    values = [value or "" for _, attributes in page.elements for value in attributes.values()]
    acting = [*values, *re.findall(r"<style>(.*?)</style>", text, re.DOTALL)]
    assert not re.search(r"url\(|@import|javascript:", " ".join(acting))
    assert {value for value in acting if "//" in value} == set(known)
