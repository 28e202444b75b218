"""The formats a report can be written in."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from auditor.formats.text import Screen
    from auditor.formats.verdict import Verdict
    from auditor.model import Report

NAMES = ("table", "json")


def render(name: str, report: Report, verdict: Verdict, screen: Screen) -> str:
    """The report as text in the format ``name`` (one of ``NAMES``), ending in a newline."""
    if name == "json":
        from auditor.formats.json import render as render_json

        return render_json(report, verdict)
    from auditor.formats.table import render as render_table

    return render_table(report, verdict, screen)
