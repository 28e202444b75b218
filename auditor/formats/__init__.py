"""The formats a report can be written in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from auditor.formats.text import Screen
    from auditor.formats.verdict import Verdict
    from auditor.model import Report
    from auditor.rulebook import Rule
    from auditor.serve.tables.facts import Tables

NAMES = ("table", "json", "sarif", "github", "gitlab", "junit", "markdown", "html")


def render(
    name: str,
    report: Report,
    verdict: Verdict,
    screen: Screen,
    tables: Tables | None = None,
    rules: Sequence[Rule] = (),
) -> str:
    """The report as text in the format ``name`` (one of ``NAMES``), ending in a newline.

    Only annotations of nothing are empty. ``tables`` are what the audited tree says of its
    settings, where they were asked for; only ``table`` and ``json`` show them. ``rules`` are all
    that were loaded; only ``sarif`` needs them.
    """
    if name == "json":
        from auditor.formats.json import render as render_json

        return render_json(report, verdict, tables)
    if name == "sarif":
        from auditor.formats.sarif import render as render_sarif

        return render_sarif(report, verdict, rules)
    if name == "github":
        from auditor.formats.github import render as render_github

        return render_github(report, verdict)
    if name == "gitlab":
        from auditor.formats.gitlab import render as render_gitlab

        return render_gitlab(report)
    if name == "junit":
        from auditor.formats.junit import render as render_junit

        return render_junit(report, verdict)
    if name == "markdown":
        from auditor.formats.markdown import render as render_markdown

        return render_markdown(report, verdict)
    if name == "html":
        from auditor.formats.html import render as render_html

        return render_html(report, verdict)
    from auditor.formats.table import render as render_table

    page = render_table(report, verdict, screen)
    if tables is None:
        return page
    from auditor.formats.tables import render as render_tables

    return render_tables(tables, screen) + "\n" + page
