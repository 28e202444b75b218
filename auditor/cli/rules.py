"""`audit rules`: the list of rules, and whether their examples are as marked."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from auditor.cli import console
from auditor.cli.options import given_to, run_options, settings_of
from auditor.cli.output import screen_of

if TYPE_CHECKING:
    from auditor.runs.examples import Lines, Tried


@click.group(invoke_without_command=True)
@click.option(
    "-o", "--output", "form", type=click.Choice(["table", "json"]), default="table", help="Format."
)
@run_options("root", "rules", "config", "isolated", "color")
@click.pass_context
def rules(context: click.Context, /, form: str, **_: object) -> int:
    """List the rules."""
    if context.invoked_subcommand is not None:
        return 0
    from auditor.formats import explain as pages
    from auditor.runs.rules import load as load_rules

    settings = settings_of(context)
    book = load_rules(settings.rules_dirs)
    if form == "json":
        console.show(pages.rules_json(book.rules))
    else:
        console.show(pages.rule_table(book.rules, screen_of(settings)))
    return 0


@rules.command("test")
@click.argument("folders", metavar="[DIR]...", nargs=-1, type=click.Path(path_type=Path))
@click.pass_context
def rules_test(context: click.Context, /, folders: tuple[Path, ...]) -> int:
    """Run the examples of every page in DIR, a folder as --rules takes it.

    What the rules report must be what the examples mark. Exit status: 0 all as marked, 1 some are
    not, 2 a page that cannot be loaded. Without DIR the rules that come with audit.
    """
    from auditor.formats.text import count, printable
    from auditor.runs.examples import try_all

    given_to(context)  # refuses options of the commands above this one
    pages: dict[Path, int] = {}
    failed = 0
    for tried in try_all(folders):
        pages[tried.page] = pages.get(tried.page, 0) + 1
        if not tried.as_marked:
            failed += 1
            console.show(f"{printable(_difference(tried))}\n")
    told = f"{count(failed, 'example')} not as marked" if failed else "all as marked"
    ran = f"{count(sum(pages.values()), 'example')} of {count(len(pages), 'page')}"
    console.show(f"{ran}: {told}\n")
    return 1 if failed else 0


def _difference(tried: Tried) -> str:
    title = f" ({tried.title})" if tried.title else ""
    unread = f"; not read: {tried.unread}" if tried.unread else ""
    return (
        f"{tried.page}:{tried.line}: {tried.name}{title}: expected {_listed(tried.expected)};"
        f" found {_listed(tried.found)}{unread}"
    )


def _listed(lines: Lines) -> str:
    """Places and what is there, as marks are written; `nothing` where there are none."""
    rows: dict[tuple[str, int], list[str]] = defaultdict(list)
    for path, line, rule_id in sorted(lines):
        rows[path, line].append(rule_id)
    return (
        ", ".join(f"{p} line {n} [{', '.join(ids)}]" for (p, n), ids in rows.items()) or "nothing"
    )
