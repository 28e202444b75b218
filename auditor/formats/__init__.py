"""The formats a report can be written in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from auditor.formats.text import Screen
    from auditor.formats.verdict import Verdict
    from auditor.model import Report
    from auditor.tables.facts import Tables

NAMES = ("table", "json")


def render(
    name: str, report: Report, verdict: Verdict, screen: Screen, tables: Tables | None = None
) -> str:
    """The report as text in the format ``name`` (one of ``NAMES``), ending in a newline.

    ``tables`` are what the audited tree says of its settings, where they were asked for.
    """
    if name == "json":
        from auditor.formats.json import render as render_json

        return render_json(report, verdict, tables)
    from auditor.formats.table import render as render_table

    page = render_table(report, verdict, screen)
    if tables is None:
        return page
    from auditor.formats.tables import render as render_tables

    return render_tables(tables, screen) + "\n" + page
