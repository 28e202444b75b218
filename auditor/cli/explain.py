"""`audit explain`: a rule, or a finding with its source lines."""

from __future__ import annotations

from pathlib import Path

import click

from auditor.cli import console
from auditor.cli.options import run_options, settings_of
from auditor.cli.output import last_report, screen_of
from auditor.errors import UsageProblem


@click.command()
@click.argument("subject", metavar="RULE|FINGERPRINT")
@click.option(
    "--report",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A report of -o json.  [default: the last one of this fork]",
)
@run_options("root", "rules", "config", "isolated", "color")
@click.pass_context
def explain(context: click.Context, /, subject: str, report: Path | None, **_: object) -> int:
    """Explain a rule, or a finding with its source lines.

    Six digits of a fingerprint or more will do. On a terminal the page is shown through a pager:
    the command in PAGER, else less.
    """
    from auditor.config import fork_root
    from auditor.formats import explain as pages
    from auditor.formats.json import load
    from auditor.runs.rules import load as load_rules

    settings = settings_of(context)
    screen = screen_of(settings)
    book = load_rules(settings.rules_dirs)
    if not pages.is_fingerprint(subject) or book.find(subject):
        console.page(pages.rule_page(book.rule(subject), screen))
        return 0
    saved = report or last_report(settings.root)
    if report is None and not saved.is_file():
        raise UsageProblem(
            "there is no report of this fork; name it with -C, run audit first, or give"
            " --report FILE"
        )
    finding = pages.pick(load(saved), subject)
    console.page(pages.finding_page(finding, (settings.root, fork_root(settings.root)), screen))
    return 0
