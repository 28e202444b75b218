"""`audit fix`: what was found, mended in the working tree."""

from __future__ import annotations

import click

from auditor.cli import console
from auditor.cli.options import OPTIONS, request_of, run_options, settings_of
from auditor.cli.output import screen_of


@click.command("fix")
@click.option("--diff", is_flag=True, help="Print a patch for git apply, and change nothing.")
@click.option(
    "--unsafe",
    is_flag=True,
    help="Make edits that change what runs as well: every gate that is put in.",
)
@click.option(
    "--rule", "only", metavar="ID", multiple=True, help="Fix only this rule's. Repeatable."
)
@run_options(*(name for name in OPTIONS if name not in ("fail_on", "output", "rev", "strict")))
@click.pass_context
def fix_findings(
    context: click.Context, /, diff: bool, unsafe: bool, only: tuple[str, ...], **_: object
) -> int:
    """Fix what was found, in the working tree.

    A lost or missing wait is put in as its siblings write it; a flag, variable or parser that has
    another name is renamed in the scripts. Each file is audited with its edits first: where a
    finding stays, or a new one would come, it is left as it was.

    \b
      audit fix --upstream v0.5.17                    safe edits; what else there is, is listed
      audit fix --upstream v0.5.17 --unsafe --diff    all of them, as a patch to read

    Exit status: 0 nothing is left to fix, 1 something is or could not be read, 2 wrong usage.
    """
    from auditor.fix.patch import patch
    from auditor.formats.fixes import page
    from auditor.runs.fix import repair

    settings = settings_of(context)
    with console.Progress(settings) as progress:
        done = repair(request_of(settings), only, unsafe=unsafe, dry=diff, progress=progress)
    screen = screen_of(settings)
    if diff:
        console.show_bytes(patch(done.changes))
        plain = screen._replace(colour=False)
        console.tell(page(done.fixes, done.revealed, plain, dry=True).rstrip())
    else:
        console.show(page(done.fixes, done.revealed, screen, dry=False))
    if done.undecided:
        console.tell(f"audit: more may be wrong: could not decide: {'; '.join(done.undecided)}")
    return 0 if done.complete else 1
