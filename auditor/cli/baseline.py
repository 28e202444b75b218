"""`audit baseline`: a list of findings that are accepted."""

from __future__ import annotations

import os
from pathlib import Path

import click

from auditor.cli import console
from auditor.cli.options import OF_A_REPORT, OPTIONS, request_of, run_options, settings_of
from auditor.cli.output import screen_of
from auditor.errors import UsageProblem


@click.group(no_args_is_help=False)
def baseline() -> None:
    """Keep a list of findings that are accepted, for --baseline."""


_WRITTEN = click.argument("file", type=click.Path(path_type=Path))


@baseline.command("write")
@_WRITTEN
@run_options(*(name for name in OPTIONS if name not in OF_A_REPORT))
@click.pass_context
def baseline_write(context: click.Context, /, file: Path, **_: object) -> int:
    """Accept in FILE all that is found now, and take out what is gone."""
    return _baseline(context, file, prune=False)


@baseline.command("prune")
@_WRITTEN
@run_options(*(name for name in OPTIONS if name not in OF_A_REPORT))
@click.pass_context
def baseline_prune(context: click.Context, /, file: Path, **_: object) -> int:
    """Take out of FILE what is found no more; add nothing."""
    return _baseline(context, file, prune=True)


@baseline.command("show")
@_WRITTEN
@run_options("color")
@click.pass_context
def baseline_show(context: click.Context, /, file: Path, **_: object) -> int:
    """List what FILE accepts."""
    from auditor.formats import explain as pages
    from auditor.triage.baseline import load

    screen = screen_of(settings_of(context))
    console.show(pages.baseline_table(load(file), screen))
    return 0


def _baseline(context: click.Context, file: Path, prune: bool) -> int:
    """Runs the audit and brings a baseline up to date; the status is never that of findings.

    Nothing is written where the audit could not decide: what was not read would seem to be gone.
    """
    import msgspec

    from auditor.formats.verdict import decide
    from auditor.runs.audit import run
    from auditor.runs.rules import load as load_rules
    from auditor.triage import baseline as baselines

    there = prune or os.path.lexists(file)
    before = baselines.load(file) if there else ()
    settings = msgspec.structs.replace(settings_of(context), baseline=file if there else None)
    with console.Progress(settings) as progress:
        report = run(request_of(settings), progress)
    undecided = decide(report, "never", False).undecided
    if undecided:
        console.tell(f"audit: {file} is left as it was: could not decide: {'; '.join(undecided)}")
        return 3
    gone = report.baseline.stale if report.baseline else ()
    if prune:
        after = baselines.remaining(before, gone)
    else:
        names = load_rules(settings.rules_dirs).names()
        after = baselines.renewed(before, gone, report.findings, names)
    text = baselines.dump(after)
    try:
        if not there or file.read_bytes() != text.encode():
            console.write(file, text)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise UsageProblem(f"cannot write {file}: {reason}") from problem
    added = len(after) - (len(before) - len(gone))
    if not settings.quiet:
        console.show(f"{file}: {len(after):,} accepted, {added:,} added, {len(gone):,} taken out\n")
    return 0
