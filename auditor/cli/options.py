"""The options of runs, and what comes of them: settings, and what is asked of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from auditor.errors import UsageProblem

# Everything else is imported by the command that needs it: --help and --version stay quick.
if TYPE_CHECKING:
    from auditor.config import Settings
    from auditor.runs.request import AuditRequest


F = TypeVar("F", bound=Callable[..., Any])


SEVERITY = "critical|high|medium|low|info|never"


CONFIDENCE = "high|medium|low"


ORIGIN = "introduced|regressed|inherited|fixed-upstream|unknown"


FORMAT = "table|json|sarif|github|gitlab|junit|markdown|html"
HISTORY_FORMAT = "table|json"


def output_option(formats: str) -> Callable[[F], F]:
    """The option ``-o`` of a command that writes these formats, with ``|`` between them."""
    return click.option(
        "-o",
        "--output",
        metavar="FORMAT[=FILE]",
        multiple=True,
        help=f"{formats.replace('|', ', ')}; to standard output or a file. Repeatable; the table"
        " is shown where no format goes to standard output.",
    )


OPTIONS: dict[str, Callable[[F], F]] = {
    "upstream": click.option(
        "--upstream",
        metavar="REF",
        help="The release the fork came from: a tag or commit, pypi:0.5.9, or a folder.",
    ),
    "root": click.option(
        "-C",
        "root",
        metavar="PATH",
        default=".",
        show_default=True,
        type=click.Path(path_type=Path),
        help="The fork: a checkout, or a folder with an installed sglang.",
    ),
    "rev": click.option(
        "--rev", metavar="REV", help="Audit this revision instead of the working tree."
    ),
    "target": click.option(
        "--target",
        metavar="REF",
        multiple=True,
        help="A newer release, to see what it already fixed. Repeatable.",
    ),
    "serve": click.option(
        "--serve",
        metavar="PATH",
        multiple=True,
        help="A serve script, a folder of them, or a pattern. Repeatable.  [default: those of the"
        " fork that upstream does not have]",
    ),
    "select": click.option(
        "--select", metavar="ID,…", multiple=True, help="Only these rules. Repeatable."
    ),
    "ignore": click.option(
        "--ignore", metavar="ID,…", multiple=True, help="Not these rules. Repeatable."
    ),
    "min_confidence": click.option(
        "--min-confidence",
        metavar=f"[{CONFIDENCE}]",
        help="Hide findings less certain than this.  [default: medium]",
    ),
    "fail_on": click.option(
        "--fail-on",
        metavar=f"[{SEVERITY}]",
        help="The least severity that ends in exit status 1.  [default: high]",
    ),
    "origin": click.option(
        "--origin",
        metavar="ORIGIN,…",
        multiple=True,
        help=f"Only findings of these origins: {ORIGIN.replace('|', ', ')}.",
    ),
    "since": click.option(
        "--since",
        metavar="REV",
        help="Only findings in what the fork changed since this revision of it.",
    ),
    "baseline": click.option(
        "--baseline",
        metavar="FILE",
        help="Accept the findings that this file lists (audit baseline).",
    ),
    "no_suppress": click.option(
        "--no-suppress", is_flag=True, help="Give '# audit: ignore' comments no effect."
    ),
    "reachable": click.option(
        "--reachable",
        is_flag=True,
        help="Leave out what no launch of this deployment turns on.",
    ),
    "output": output_option(FORMAT),
    "rules": click.option(
        "--rules", metavar="DIR", multiple=True, help="More rules and vocabulary. Repeatable."
    ),
    "config": click.option(
        "--config",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Read this configuration instead of the fork's audit.toml or pyproject.toml.",
    ),
    "isolated": click.option(
        "--isolated", is_flag=True, help="Ignore the configuration that the fork brings."
    ),
    "strict": click.option(
        "--strict", is_flag=True, help="Exit status 3 where anything was skipped."
    ),
    "jobs": click.option(
        "--jobs", metavar="N", type=int, help="1 keeps to one process.  [default: two]"
    ),
    "color": click.option(
        "--color/--no-color",
        default=None,
        help="Colour or none.  [default: on a terminal; NO_COLOR, FORCE_COLOR, CLICOLOR_FORCE and"
        " CLICOLOR are heeded]",
    ),
    "verbose": click.option(
        "-v", "--verbose", is_flag=True, help="Shorten no list; show where the time went."
    ),
    "quiet": click.option(
        "-q", "--quiet", is_flag=True, help="Show only the verdict; no progress."
    ),
}

OF_THE_FORK = (
    *("root", "upstream", "rev", "target", "serve", "config", "isolated", "since", "baseline"),
)
"""Options that say which fork."""
OF_A_REPORT = ("output", "fail_on", "strict", "baseline", "verbose", "color")
"""Options of what a report holds and how it looks."""


def run_options(*names: str) -> Callable[[F], F]:
    """Adds the named options of a run, or all of them, to a command.

    Given on the group and on a sub-command, the later value wins.
    """

    def add(command: F) -> F:
        for name in reversed(names or tuple(OPTIONS)):
            command = OPTIONS[name](command)
        return command

    return add


def settings_of(
    context: click.Context, root: Path | None = None, formats: str = FORMAT
) -> Settings:
    """The settings of this command: its own options over the group's over the configuration.

    ``formats`` are those that it writes, with ``|`` between them.
    """
    from auditor.config import OPTIONS, settle

    given = given_to(context)
    return settle(
        {key: value for key, value in given.items() if key in OPTIONS},
        root or given.get("root", Path()),
        given.get("config"),
        given.get("isolated", False),
        formats.split("|"),
    )


def given_to(context: click.Context) -> dict[str, Any]:
    """The options on the command line by name, the last word of each; raises UsageProblem for one
    that was given to a command above this one and that this one does not have."""
    taken = {parameter.name for parameter in context.command.params}
    given: dict[str, Any] = {}
    levels = [context]
    while levels[0].parent is not None:
        levels.insert(0, levels[0].parent)
    for level in levels:
        for name, value in level.params.items():
            if level.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
                continue
            if name not in taken:
                option = next(p.opts[-1] for p in level.command.params if p.name == name)
                raise UsageProblem(f"{option} means nothing to '{context.command_path}'")
            given[name.replace("_", "-")] = value
    return given


def request_of(settings: Settings) -> AuditRequest:
    """What the settings ask of a run."""
    from auditor.repo.scripts import Scripts
    from auditor.runs.request import AuditRequest

    return AuditRequest(
        root=settings.root,
        rev=settings.rev,
        upstream=settings.upstream,
        targets=settings.targets,
        rules_dirs=settings.rules_dirs,
        select=settings.select,
        ignore=settings.ignore,
        min_confidence=settings.min_confidence,
        origins=settings.origins,
        jobs=settings.jobs,
        cache=cache(),
        configuration=settings.configuration,
        serve=Scripts(settings.serve, settings.serve_base, settings.serve_trusted),
        since=settings.since,
        baseline=settings.baseline,
        comments=settings.comments,
        reachable=settings.reachable,
        ignores=settings.ignores,
    )


def cache() -> Path:
    """The folder of what is kept between runs."""
    import platformdirs

    return platformdirs.user_cache_path("sglang-fork-audit", appauthor=False)
