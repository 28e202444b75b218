"""Where reports go: standard output, files, and the place of the last one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from auditor.cli import console
from auditor.cli.options import cache

if TYPE_CHECKING:
    from auditor.config import Settings
    from auditor.formats.text import Screen
    from auditor.model import Report
    from auditor.rulebook import Rule
    from auditor.serve.tables.facts import Tables


_PIPED_WIDTH = 100


def deliver(settings: Settings, report: Report, command: str, tables: Tables | None = None) -> int:
    """Writes every output, and returns the exit status."""
    from auditor.formats import render
    from auditor.formats.verdict import decide

    verdict = decide(report, settings.fail_on, settings.strict)
    screen = screen_of(settings)._replace(command=command)
    machine = render("json", report, verdict, screen, tables)
    _keep(machine, settings.root)
    if settings.verbose:
        console.tell_timings(report.timings)

    def page(form: str, shown: Screen) -> str:
        if form == "json":
            return machine
        rules = _all_rules(settings) if form == "sarif" else ()
        return render(form, report, verdict, shown, tables, rules)

    write_outputs(settings, page, screen)
    return verdict.status


def write_outputs(settings: Settings, page: Callable[[str, Screen], str], screen: Screen) -> None:
    """Writes each format that was asked for to where it belongs."""
    # Files first: they are complete even where standard output cannot be written.
    for form, file in sorted(settings.outputs, key=lambda output: output.file is None):
        shown = screen if file is None else screen._replace(width=_PIPED_WIDTH, colour=False)
        text = page(form, shown)
        if file is None:
            console.show(text)
        else:
            console.save(file, text)


def _all_rules(settings: Settings) -> tuple[Rule, ...]:
    from auditor.runs.rules import load as load_rules

    return load_rules(settings.rules_dirs).rules


def screen_of(settings: Settings) -> Screen:
    """What standard output can show."""
    import shutil

    from auditor.formats.text import Screen, can_draw

    terminal = sys.stdout.isatty()
    colour = _wants_colour(terminal) if settings.color is None else settings.color
    width = max(40, shutil.get_terminal_size().columns) if terminal else _PIPED_WIDTH
    encoding = sys.stdout.encoding or "ascii"
    return Screen(width, colour, settings.verbose, settings.quiet, ascii=not can_draw(encoding))


def _wants_colour(terminal: bool) -> bool:
    """Whether the environment wants colour, as no-color.org and bixense.com/clicolors have it."""
    set_to = os.environ.get
    if set_to("NO_COLOR"):
        return False
    if any(set_to(name, "") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return terminal and set_to("CLICOLOR") != "0" and set_to("TERM") != "dumb"


def last_report(root: Path) -> Path:
    """Where the last report of a fork is kept."""
    import hashlib

    from auditor.config import fork_root

    key = hashlib.sha256(os.fsencode(fork_root(root))).hexdigest()[:16]
    return cache() / "reports" / key / "last-report.json"


def _keep(text: str, root: Path) -> None:
    """Keeps the report for `audit explain`; a cache that cannot be written is none."""
    path = last_report(root)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        console.write(path, text)
    except OSError:
        pass
