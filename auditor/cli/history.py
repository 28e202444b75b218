"""`audit history`: findings over a row of releases."""

from __future__ import annotations

import click

from auditor.cli import console
from auditor.cli.options import (
    HISTORY_FORMAT,
    output_option,
    request_of,
    run_options,
    settings_of,
)
from auditor.cli.output import screen_of, write_outputs
from auditor.errors import UsageProblem


def _named(_: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """The values of an option that names rules, none of them empty."""
    if not all(part.strip() for value in values for part in value.split(",")):
        raise UsageProblem(f"{option.opts[0]}: is empty; audit rules lists what there is")
    return values


@click.command("history")
@click.option(
    *("--rule", "select"),
    metavar="ID,…",
    multiple=True,
    callback=_named,
    help="Only these rules. Repeatable.",
)
@run_options("root", "upstream", "target", "ignore", "min_confidence")
@output_option(HISTORY_FORMAT)
@run_options("rules", "config", "isolated", "strict", "jobs", "color", "verbose", "quiet")
@click.pass_context
def history_of_findings(context: click.Context, /, **_: object) -> int:
    """Show in which release each finding appeared and in which it ended.

    --upstream is a range of release tags of the repository in -C, or the first release; --target
    names those that follow, in order. Each release is judged by itself.

    \b
      audit history --upstream v0.5.1..v0.5.18 --rule ungated-buffer-read
      audit history --upstream pypi:0.5.9 --target pypi:0.5.10 --target pypi:0.5.11
    """
    import msgspec

    from auditor.formats import timeline as pages
    from auditor.runs.history import run_history

    settings = settings_of(context, formats=HISTORY_FORMAT)
    said = settings.configuration
    if "(command line)" in said.get("upstream", "") and "(command line)" not in said.get(
        "target", ""
    ):  # the fork's configured targets do not follow a row that was typed
        settings = msgspec.structs.replace(settings, targets=())
    with console.Progress(settings) as progress:
        found, status = run_history(request_of(settings), settings.strict, progress)
    if settings.verbose:
        console.tell_timings(found.timings)
    screen = screen_of(settings)
    write_outputs(settings, lambda form, shown: pages.render(form, found, status, shown), screen)
    return status
