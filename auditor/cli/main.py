"""The whole command: its failures as one line each, and its exit status."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from auditor.cli import console
from auditor.cli.audit import audit
from auditor.cli.baseline import baseline
from auditor.cli.demo import demo
from auditor.cli.drift import drift_report
from auditor.cli.explain import explain
from auditor.cli.fix import fix_findings
from auditor.cli.history import history_of_findings
from auditor.cli.rules import rules
from auditor.cli.serve import serve_scripts
from auditor.errors import UsageProblem

_INTERRUPTED = 130  # as a shell reports a command that Ctrl-C ended

for _command in (
    baseline,
    demo,
    drift_report,
    explain,
    fix_findings,
    history_of_findings,
    rules,
    serve_scripts,
):
    audit.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status; every failure ends in one clear line."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        return int(audit.main(arguments, prog_name="audit", standalone_mode=False) or 0)
    except UsageProblem as problem:
        console.tell(f"audit: {problem}")
    except click.ClickException as problem:
        console.tell(f"audit: {problem.format_message()} (audit --help lists what there is)")
    except (click.Abort, KeyboardInterrupt):
        console.tell("audit: interrupted")
        return _INTERRUPTED
    except OSError as problem:  # a name too long, a disk full: the place's matter, not a defect
        console.tell_traceback(arguments)
        name = str(problem.filename or "this machine")
        console.tell(f"audit: {name[:80]}: {problem.strerror or problem}")
    except Exception as problem:
        console.tell_traceback(arguments)
        told = f"{type(problem).__name__}: {problem}".split("\n")[0]
        console.tell(
            f"audit: a defect of audit itself: {told}; please report it with the output of -v"
        )
    return 2


def program() -> NoReturn:
    """Runs the command as the whole of this process, and ends it with the exit status.

    A run makes millions of objects that stay until its end, and next to no cycles. Searching them
    for some took a fifth of a cold run; taking them apart one by one at the end took longer than to
    judge five changed files.
    """
    gc.disable()
    status = main()
    with contextlib.suppress(
        OSError
    ):  # console.show and console.tell have dealt with a reader that is gone
        sys.stdout.flush()
        sys.stderr.flush()
    children = sys.modules.get("multiprocessing")  # not loaded by --help
    if children is not None and children.active_children():
        sys.exit(status)
    os._exit(status)
