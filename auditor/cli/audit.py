"""`audit`: the group of all commands, which audits by itself."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

import auditor
from auditor.cli import console
from auditor.cli.options import request_of, run_options, settings_of
from auditor.cli.output import deliver
from auditor.errors import UsageProblem

if TYPE_CHECKING:
    from auditor.config import Settings
    from auditor.model import Report
    from auditor.runs.judging import Workings
    from auditor.runs.request import AuditRequest


class _Commands(click.Group):
    """The commands; where a folder is named instead of one, the option for it is told."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first argument names; raises UsageProblem for a folder."""
        name = args[0]
        unknown = self.get_command(ctx, name) is None and not ctx.resilient_parsing
        if unknown and os.path.isdir(name):  # noqa: PTH112 - what no path can be is none
            raise UsageProblem(
                f"No such command '{name}'; to audit a fork in a folder: audit -C"
                f" {shlex.quote(name)}"
            )
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit status: 0 in order, 1 findings at or above --fail-on, 2 wrong usage, 3 could not"
    " decide (something of the fork could not be read).",
)
@run_options()
@click.version_option(auditor.__version__, prog_name="audit")
@click.pass_context
def audit(context: click.Context, /, **_: object) -> int:
    """Audit a patched sglang against the upstream release it came from.

    \b
      audit --upstream v0.5.17              the checkout you stand in
      audit -C FORK --upstream pypi:0.5.17  another one, the release from the index
    """
    if context.invoked_subcommand is not None:
        return 0
    settings = settings_of(context)
    here = settings.root == Path()
    return audited(settings, "audit" if here else f"audit -C {shlex.quote(str(settings.root))}")


def audited(settings: Settings, command: str = "audit") -> int:
    """Runs the audit, writes every output, and returns the exit status.

    ``command`` is what the report tells to type for more.
    """
    from auditor.runs.audit import run
    from auditor.runs.judging import Workings

    with console.Progress(settings) as progress:
        request, workings = request_of(settings), Workings()
        report = run(request, progress, workings)
        report = with_proposals(settings, request, report, workings, progress)
    return deliver(settings, report, command)


def with_proposals(
    settings: Settings,
    request: AuditRequest,
    report: Report,
    workings: Workings,
    progress: console.Progress,
) -> Report:
    """The report with the edits that SARIF shows, where that was asked for."""
    if all(output.format != "sarif" for output in settings.outputs):
        return report
    from auditor.runs.proposals import proposed

    return proposed(request, report, workings, progress)
