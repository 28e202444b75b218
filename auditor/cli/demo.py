"""`audit demo`: a small fork with planted defects."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from auditor.cli import console
from auditor.cli.audit import audited
from auditor.cli.options import OF_THE_FORK, OPTIONS, run_options, settings_of


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@run_options(*(name for name in OPTIONS if name not in OF_THE_FORK))
@click.pass_context
def demo(context: click.Context, /, folder: Path | None, **_: object) -> int:
    """Build a small fork with planted defects in FOLDER, and audit it.

    Without FOLDER it lies in a new temporary one, which is kept.
    """
    import tempfile

    import msgspec

    from auditor.demo import build

    made = build(folder or Path(tempfile.mkdtemp(prefix="audit-demo-")))
    settings = settings_of(context, made.fork)
    sides = {"upstream": f"{made.upstream} (demo)", "target": f"{made.target} (demo)"}
    status = audited(
        msgspec.structs.replace(
            settings,
            upstream=made.upstream,
            targets=(made.target,),
            configuration={**sides, **settings.configuration},
        )
    )
    if not settings.quiet:
        console.tell(
            "\n"
            f"The fork of this demo is kept; try next:\n"
            f"  cd {shlex.quote(str(made.fork))}\n"
            f"  audit --upstream {made.upstream} --origin introduced,regressed\n"
            "  audit explain FINGERPRINT     a finding with its source lines (the number of each)\n"
            "  audit explain gate-bypassed   what a rule looks for, and why\n"
            "  git log --oneline --graph --all"
        )
    return status
