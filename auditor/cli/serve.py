"""`audit serve`: only serve scripts."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from auditor.cli import console
from auditor.cli.audit import with_proposals
from auditor.cli.options import OPTIONS, request_of, run_options, settings_of
from auditor.cli.output import deliver


@click.command("serve")
@click.argument("paths", metavar="[PATH]…", nargs=-1)
@click.option(
    "--tables",
    is_flag=True,
    help="Show the parsers, encoders, templates, flags and variables of the tree.",
)
@run_options(*(name for name in OPTIONS if name != "serve"))
@click.pass_context
def serve_scripts(
    context: click.Context, /, paths: tuple[str, ...], tables: bool, **_: object
) -> int:
    """Audit only serve scripts: files, folders or patterns.

    They are held against the sglang in -C, or against --upstream where there is none; without PATH
    the scripts of the tree itself are read.

    \b
      audit serve deploy/ --upstream pypi:0.5.17   scripts, and the release that they start
      audit serve -C FORK --tables                 what the tree offers
    """
    import msgspec

    from auditor.runs.judging import Workings
    from auditor.runs.serve import run_serve

    settings = settings_of(context)
    if paths:
        settings = msgspec.structs.replace(
            settings, serve=paths, serve_base=Path(), serve_trusted=True
        )
    with console.Progress(settings) as progress:
        request = request_of(settings)
        report, found = run_serve(request, tables, progress)
        report = with_proposals(settings, request, report, Workings(), progress)
    here = settings.root == Path()
    command = "audit" if here else f"audit -C {shlex.quote(str(settings.root))}"
    return deliver(settings, report, command, found)
