"""Lines over time as SVG for a page: no script, no reference, a text alternative each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from importlib.util import find_spec
from typing import Any, NamedTuple
from xml.etree import ElementTree

_SVG = "http://www.w3.org/2000/svg"
_WIDTH = 360
_TEXT, _RULE = "#59636e", "#d1d9e0"
COLOURS = ("#0969da", "#cf222e", "#9a6700", "#1a7f37", "#8250df")
"""Of the lines, by their style; a page in a dark scheme gives them others (``drift.html``)."""
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 2, 2, 2], [12, 4])
_ALTERNATIVE = ("role", "class", "pointer-events")


class Line(NamedTuple):
    """A line of a chart: its name, and a value for each moment, None for a gap.

    ``style`` picks its colour and dashes, so that a line looks alike on every page.
    """

    name: str
    values: tuple[int | None, ...]
    style: int = 0


class Chart(NamedTuple):
    """Lines over the same moments; ``name`` is unique on a page and fit for an id."""

    name: str
    title: str
    moments: tuple[datetime, ...]
    lines: tuple[Line, ...]


def available() -> bool:
    """Whether charts can be drawn: the library is an extra, ``html``."""
    return find_spec("vl_convert") is not None


def draw(chart: Chart) -> str:
    """The chart as an ``svg`` element; the same chart gives the same text.

    Colours are plain attributes, which a style sheet may override and a mail client can show.
    """
    import vl_convert

    drawn = vl_convert.vegalite_to_svg(json.dumps(_specification(chart)), vl_version="5.20")
    ElementTree.register_namespace("", _SVG)
    root = ElementTree.fromstring(drawn)
    for element in root.iter():
        # The picture is one image to a reader; its parts say nothing that the table does not.
        for key in [k for k in element.attrib if k in _ALTERNATIVE or k.startswith("aria-")]:
            del element.attrib[key]
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    names = [f"{chart.name}-title", f"{chart.name}-desc"]
    root.set("role", "img")
    root.set("aria-labelledby", names[0])
    root.set("aria-describedby", names[1])
    for name, text in zip(reversed(names), (describe(chart), chart.title), strict=True):
        element = ElementTree.Element(f"{{{_SVG}}}{name.rpartition('-')[2]}", {"id": name})
        element.text = text
        root.insert(0, element)
    return ElementTree.tostring(root, encoding="unicode")


def describe(chart: Chart) -> str:
    """What the chart shows, in a sentence a line."""
    told = []
    for line in chart.lines:
        known = [
            (moment, value)
            for moment, value in zip(chart.moments, line.values, strict=True)
            if value is not None
        ]
        if not known:
            told.append(f"{line.name}: not known.")
            continue
        (start, first), (end, last) = known[0], known[-1]
        values = [value for _, value in known]
        told.append(
            f"{line.name}: {first:,} on {_day(start)}, {last:,} on {_day(end)}; between"
            f" {min(values):,} and {max(values):,}."
        )
    return " ".join(told)


def _day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d}"


def _specification(chart: Chart) -> dict[str, Any]:
    """Vega-Lite of one chart; nothing in it comes from anywhere but the chart."""
    several = len(chart.lines) > 1
    names = [line.name for line in chart.lines]
    values = [
        {"when": f"{moment:%Y-%m-%dT%H:%M:%SZ}", "line": line.name, "value": value}
        for line in chart.lines
        for moment, value in zip(chart.moments, line.values, strict=True)
    ]
    legend = {"orient": "top", "title": None, "symbolType": "stroke", "symbolStrokeWidth": 2}
    scale = {"domain": names, "range": [COLOURS[line.style] for line in chart.lines]}
    dash = {"domain": names, "range": [_DASHES[line.style] for line in chart.lines]}
    shown = (
        {**legend, "columns": 3, "labelLimit": 140, "symbolSize": 200, "columnPadding": 14}
        if several
        else None
    )
    points = len(chart.moments) <= 13
    top = max((value for line in chart.lines for value in line.values if value), default=1)
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": _WIDTH,
        "height": 190 if several else 130,
        "autosize": {"type": "fit", "contains": "padding"},
        "padding": 4,
        "background": None,
        "data": {"values": values},
        "mark": {
            "type": "line",
            "strokeWidth": 2,
            "point": {"size": 22} if points else False,
            "invalid": "break-paths-filter-domains",  # what is not known leaves a gap
        },
        "encoding": {
            "x": {
                "field": "when",
                "type": "temporal",
                "scale": {"type": "utc", "padding": 6},
                "axis": {
                    "title": None,
                    "grid": False,
                    "values": _ticks(chart.moments),
                    "format": _date(chart),
                },
            },
            "y": {
                "field": "value",
                "type": "quantitative",
                "scale": {"domain": [0, top], "nice": True},
                "axis": {"title": None, "tickCount": min(top, 4), "format": ",d"},  # no halves
            },
            "color": {"field": "line", "type": "nominal", "scale": scale, "legend": shown},
            "strokeDash": {"field": "line", "type": "nominal", "scale": dash, "legend": shown},
        },
        "config": {
            "view": {"stroke": None},
            "axis": {
                **dict.fromkeys(("domainColor", "tickColor", "gridColor"), _RULE),
                "labelColor": _TEXT,
                "labelFontSize": 11,
                "labelOverlap": True,
            },
            "axisY": {"domain": False, "ticks": False},
            "legend": {"labelColor": _TEXT, "labelFontSize": 11, "offset": 4},
        },
    }


def _ticks(moments: Sequence[datetime]) -> list[str]:
    """Some of the moments, evenly taken, one a day at most and the latest one among them."""
    days = list({moment.date(): moment for moment in sorted(moments)}.values())
    step = max(1, -(-len(days) // 5))
    return [f"{moment:%Y-%m-%dT%H:%M:%SZ}" for moment in days[::-1][::step][::-1]]


def _date(chart: Chart) -> str:
    span = (max(chart.moments) - min(chart.moments)).days if chart.moments else 0
    return "%b %Y" if span > 200 else "%-d %b"


def chart_of(name: str, title: str, when: Sequence[datetime], lines: Sequence[Line]) -> Chart:
    """A chart without the lines that are nothing but zero or unknown, one of them kept."""
    told = [line for line in lines if any(line.values)] or list(lines[:1])
    return Chart(name, title, tuple(when), tuple(told))
