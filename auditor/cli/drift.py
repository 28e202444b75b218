"""`audit drift`: where the fork stands against a newer release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from auditor.cli import console
from auditor.cli.options import OPTIONS, request_of, run_options, settings_of
from auditor.cli.output import screen_of, write_outputs
from auditor.errors import UsageProblem

if TYPE_CHECKING:
    from datetime import datetime


@click.command("drift")
@click.option(
    "-o",
    "--output",
    "forms",
    metavar="FORMAT[=FILE]",
    multiple=True,
    help="table, json, markdown or html, to standard output or a file. Repeatable.",
)
@click.option(
    "--history",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Add a line on this run to FILE, and say what moved since the last one.",
)
@run_options(*(name for name in OPTIONS if name != "output"))
@click.pass_context
def drift_report(
    context: click.Context, /, forms: tuple[str, ...], history: Path | None, **_: object
) -> int:
    """Report where the fork stands against a newer upstream release.

    Which upstream fixes it misses in what it changed itself, what became of its own patches, what a
    merge would conflict in, where all of this meets, and the findings by origin. The newer release
    is the last --target, or the newest release tag of the repository.

    \b
      audit drift --upstream v0.5.17                   against the newest tag
      audit drift --upstream v0.5.17 -o markdown       for a message or an issue
      audit drift --upstream v0.5.17 --history drift.jsonl -o html=drift.html    every week
    """
    import msgspec

    from auditor.config import outputs_of
    from auditor.drift import keep, runs
    from auditor.formats import drift as pages
    from auditor.formats.drift_words import Standing
    from auditor.formats.verdict import decide
    from auditor.runs.drift import run_drift

    settings = settings_of(context)
    outputs = outputs_of(forms, names=pages.NAMES)
    kept = keep.Kept()
    if history is not None:
        if any(out.file and out.file.resolve() == history.resolve() for out in outputs):
            raise UsageProblem(f"--history: {history} is an output as well, which would replace it")
        kept = keep.load(history)
        for note in kept.notes:
            console.tell(f"audit: {note}")
    with console.Progress(settings) as progress:
        report, found = run_drift(request_of(settings), progress)
    if settings.verbose:
        console.tell_timings(report.timings)
    verdict = decide(report, settings.fail_on, settings.strict)
    standing = Standing(report, found, verdict)
    if history is not None:
        before = runs.of_fork(kept.runs, report.fork)
        now = runs.run_of(report, found, _now(), before[-1] if before else None)
        moved = runs.moved(before[-1], now, report, found) if before else None
        others = len(kept.runs) - len(before)
        notes = [f"{history.name} also holds {others} of another fork or branch"] if others else []
        standing = Standing(report, found, verdict, moved, (*before, now), (*kept.notes, *notes))
    screen = screen_of(settings)
    settings = msgspec.structs.replace(settings, outputs=outputs)
    write_outputs(settings, lambda form, shown: pages.render(form, standing, shown), screen)
    if history is not None:  # at last: what was not reported is no run
        keep.append(history, now)
    return verdict.status


def _now() -> datetime:
    """The time of this run; a name of its own, for tests to replace."""
    from datetime import datetime, timezone

    return datetime.now(timezone.utc).replace(microsecond=0)
