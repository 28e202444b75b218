"""`audit rules`: the list of rules."""

from __future__ import annotations

import click

from auditor.cli import console
from auditor.cli.options import run_options, settings_of
from auditor.cli.output import screen_of


@click.command()
@click.option(
    "-o", "--output", "form", type=click.Choice(["table", "json"]), default="table", help="Format."
)
@run_options("root", "rules", "config", "isolated", "color")
@click.pass_context
def rules(context: click.Context, /, form: str, **_: object) -> int:
    """List the rules."""
    from auditor import rulebook
    from auditor.formats import explain as pages

    settings = settings_of(context)
    book = rulebook.load(settings.rules_dirs)
    if form == "json":
        console.show(pages.rules_json(book.rules))
    else:
        console.show(pages.rule_table(book.rules, screen_of(settings)))
    return 0
