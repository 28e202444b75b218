"""The command line: options, exit statuses, and where the report goes."""

from __future__ import annotations

import contextlib
import gc
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click
from click.core import ParameterSource

import auditor
from auditor import console
from auditor.errors import UsageProblem

# Everything else is imported by the command that needs it: --help and --version stay quick.
if TYPE_CHECKING:
    from datetime import datetime

    from auditor.config import Settings
    from auditor.formats.text import Screen
    from auditor.model import Report
    from auditor.rulebook import Rule
    from auditor.runs.judging import Workings
    from auditor.runs.request import AuditRequest
    from auditor.serve.tables.facts import Tables

F = TypeVar("F", bound=Callable[..., Any])

_PIPED_WIDTH = 100
_INTERRUPTED = 130  # as a shell reports a command that Ctrl-C ended

SEVERITY = "critical|high|medium|low|info|never"
CONFIDENCE = "high|medium|low"
ORIGIN = "introduced|regressed|inherited|fixed-upstream|unknown"
FORMAT = "table|json|sarif|github|gitlab|junit|markdown|html"

_OPTIONS: dict[str, Callable[[F], F]] = {
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
    "output": click.option(
        "-o",
        "--output",
        metavar="FORMAT[=FILE]",
        multiple=True,
        help=f"{FORMAT.replace('|', ', ')}; to standard output or a file. Repeatable; the table"
        " is shown where no format goes to standard output.",
    ),
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
        help="Colour or none.  [default: on a terminal, unless NO_COLOR is set]",
    ),
    "verbose": click.option(
        "-v", "--verbose", is_flag=True, help="Shorten no list; show where the time went."
    ),
    "quiet": click.option(
        "-q", "--quiet", is_flag=True, help="Show only the verdict; no progress."
    ),
}

_OF_THE_FORK = (
    *("root", "upstream", "rev", "target", "serve", "config", "isolated", "since", "baseline"),
)
_OF_A_REPORT = ("output", "fail_on", "strict", "baseline", "verbose", "color")


def run_options(*names: str) -> Callable[[F], F]:
    """Adds the named options of a run, or all of them, to a command.

    Given on the group and on a sub-command, the later value wins.
    """

    def add(command: F) -> F:
        for name in reversed(names or tuple(_OPTIONS)):
            command = _OPTIONS[name](command)
        return command

    return add


@click.group(
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit status: 0 in order, 1 findings at or above --fail-on, 2 wrong usage, 3 could not"
    " decide (something of the fork could not be read).",
)
@run_options()
@click.version_option(auditor.__version__, prog_name="audit")
@click.pass_context
def cli(context: click.Context, /, **_: object) -> int:
    """Audit a patched sglang against the upstream release it came from.

    \b
      audit --upstream v0.5.17              the checkout you stand in
      audit -C FORK --upstream pypi:0.5.17  another one, the release from the index
    """
    if context.invoked_subcommand is not None:
        return 0
    settings = _settings(context)
    here = settings.root == Path()
    return _audit(settings, "audit" if here else f"audit -C {shlex.quote(str(settings.root))}")


@cli.command()
@click.argument("subject", metavar="RULE|FINGERPRINT")
@click.option(
    "--report",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A report of -o json.  [default: the last one of this fork]",
)
@run_options("root", "rules", "config", "isolated", "color")
@click.pass_context
def explain(context: click.Context, /, subject: str, report: Path | None, **_: object) -> int:
    """Explain a rule, or a finding with its source lines.

    Six digits of a fingerprint or more will do.
    """
    from auditor import rulebook
    from auditor.config import fork_root
    from auditor.formats import explain as pages
    from auditor.formats.json import load

    settings = _settings(context)
    screen = _screen(settings)
    book = rulebook.load(settings.rules_dirs)
    if not pages.is_fingerprint(subject) or book.find(subject):
        console.show(pages.rule_page(book.rule(subject), screen))
        return 0
    saved = report or _last_report(settings.root)
    if report is None and not saved.is_file():
        raise UsageProblem(
            "there is no report of this fork; name it with -C, run audit first, or give"
            " --report FILE"
        )
    finding = pages.pick(load(saved), subject)
    console.show(pages.finding_page(finding, (settings.root, fork_root(settings.root)), screen))
    return 0


@cli.command()
@click.option(
    "-o", "--output", "form", type=click.Choice(["table", "json"]), default="table", help="Format."
)
@run_options("root", "rules", "config", "isolated", "color")
@click.pass_context
def rules(context: click.Context, /, form: str, **_: object) -> int:
    """List the rules."""
    from auditor import rulebook
    from auditor.formats import explain as pages

    settings = _settings(context)
    book = rulebook.load(settings.rules_dirs)
    if form == "json":
        console.show(pages.rules_json(book.rules))
    else:
        console.show(pages.rule_table(book.rules, _screen(settings)))
    return 0


@cli.command("serve")
@click.argument("paths", metavar="[PATH]…", nargs=-1)
@click.option(
    "--tables",
    is_flag=True,
    help="Show the parsers, encoders, templates, flags and variables of the tree.",
)
@run_options(*(name for name in _OPTIONS if name != "serve"))
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

    settings = _settings(context)
    if paths:
        settings = msgspec.structs.replace(
            settings, serve=paths, serve_base=Path(), serve_trusted=True
        )
    with console.Progress(settings) as progress:
        request = _request(settings)
        report, found = run_serve(request, tables, progress)
        report = _with_proposals(settings, request, report, Workings(), progress)
    here = settings.root == Path()
    command = "audit" if here else f"audit -C {shlex.quote(str(settings.root))}"
    return _deliver(settings, report, command, found)


@cli.group(no_args_is_help=False)
def baseline() -> None:
    """Keep a list of findings that are accepted, for --baseline."""


_WRITTEN = click.argument("file", type=click.Path(path_type=Path))


@baseline.command("write")
@_WRITTEN
@run_options(*(name for name in _OPTIONS if name not in _OF_A_REPORT))
@click.pass_context
def baseline_write(context: click.Context, /, file: Path, **_: object) -> int:
    """Accept in FILE all that is found now, and take out what is gone."""
    return _baseline(context, file, prune=False)


@baseline.command("prune")
@_WRITTEN
@run_options(*(name for name in _OPTIONS if name not in _OF_A_REPORT))
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

    screen = _screen(_settings(context))
    console.show(pages.baseline_table(load(file), screen))
    return 0


def _baseline(context: click.Context, file: Path, prune: bool) -> int:
    """Runs the audit and brings a baseline up to date; the status is never that of findings.

    Nothing is written where the audit could not decide: what was not read would seem to be gone.
    """
    import msgspec

    from auditor import rulebook
    from auditor.formats.verdict import decide
    from auditor.runs.audit import run
    from auditor.triage import baseline as baselines

    there = prune or os.path.lexists(file)
    before = baselines.load(file) if there else ()
    settings = msgspec.structs.replace(_settings(context), baseline=file if there else None)
    with console.Progress(settings) as progress:
        report = run(_request(settings), progress)
    undecided = decide(report, "never", False).undecided
    if undecided:
        console.tell(f"audit: {file} is left as it was: could not decide: {'; '.join(undecided)}")
        return 3
    gone = report.baseline.stale if report.baseline else ()
    if prune:
        after = baselines.remaining(before, gone)
    else:
        names = rulebook.load(settings.rules_dirs).names()
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


def _named(_: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """The values of an option that names rules, none of them empty."""
    if not all(part.strip() for value in values for part in value.split(",")):
        raise UsageProblem(f"{option.opts[0]}: is empty; audit rules lists what there is")
    return values


@cli.command("history")
@click.option(
    *("--rule", "select"),
    metavar="ID,…",
    multiple=True,
    callback=_named,
    help="Only these rules. Repeatable.",
)
@run_options(
    *("root", "upstream", "target", "ignore", "min_confidence", "output", "rules", "config"),
    *("isolated", "strict", "jobs", "color", "verbose", "quiet"),
)
@click.pass_context
def history_of_findings(context: click.Context, /, **_: object) -> int:
    """Show in which release each finding appeared and in which it ended.

    --upstream is a range of release tags of the repository in -C, or the first release; --target
    names those that follow, in order. Each release is judged by itself.

    \b
      audit history --upstream v0.5.0..v0.5.18 --rule ungated-buffer-read
      audit history --upstream pypi:0.5.9 --target pypi:0.5.10 --target pypi:0.5.11
    """
    import msgspec

    from auditor.formats import timeline as pages
    from auditor.runs.history import run_history

    settings = _settings(context)
    said = settings.configuration
    if "(command line)" in said.get("upstream", "") and "(command line)" not in said.get(
        "target", ""
    ):  # the fork's configured targets do not follow a row that was typed
        settings = msgspec.structs.replace(settings, targets=())
    with console.Progress(settings) as progress:
        found, status = run_history(_request(settings), settings.strict, progress)
    if settings.verbose:
        console.tell_timings(found.timings)
    screen = _screen(settings)
    _write_outputs(settings, lambda form, shown: pages.render(form, found, status, shown), screen)
    return status


@cli.command("fix")
@click.option("--diff", is_flag=True, help="Print a patch for git apply, and change nothing.")
@click.option(
    "--unsafe",
    is_flag=True,
    help="Make edits that change what runs as well: every gate that is put in.",
)
@click.option(
    "--rule", "only", metavar="ID", multiple=True, help="Fix only this rule's. Repeatable."
)
@run_options(*(name for name in _OPTIONS if name not in ("fail_on", "output", "rev", "strict")))
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

    settings = _settings(context)
    with console.Progress(settings) as progress:
        done = repair(_request(settings), only, unsafe=unsafe, dry=diff, progress=progress)
    screen = _screen(settings)
    if diff:
        console.show_bytes(patch(done.changes))
        plain = screen._replace(colour=False)
        console.tell(page(done.fixes, done.revealed, plain, dry=True).rstrip())
    else:
        console.show(page(done.fixes, done.revealed, screen, dry=False))
    if done.undecided:
        console.tell(f"audit: more may be wrong: could not decide: {'; '.join(done.undecided)}")
    return 0 if done.complete else 1


@cli.command("drift")
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
@run_options(*(name for name in _OPTIONS if name != "output"))
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

    settings = _settings(context)
    outputs = outputs_of(forms, names=pages.NAMES)
    kept = keep.Kept()
    if history is not None:
        if any(out.file and out.file.resolve() == history.resolve() for out in outputs):
            raise UsageProblem(f"--history: {history} is an output as well, which would replace it")
        kept = keep.load(history)
        for note in kept.notes:
            console.tell(f"audit: {note}")
    with console.Progress(settings) as progress:
        report, found = run_drift(_request(settings), progress)
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
    screen = _screen(settings)
    settings = msgspec.structs.replace(settings, outputs=outputs)
    _write_outputs(settings, lambda form, shown: pages.render(form, standing, shown), screen)
    if history is not None:  # at last: what was not reported is no run
        keep.append(history, now)
    return verdict.status


def _now() -> datetime:
    """The time of this run; a name of its own, for tests to replace."""
    from datetime import datetime, timezone

    return datetime.now(timezone.utc).replace(microsecond=0)


@cli.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@run_options(*(name for name in _OPTIONS if name not in _OF_THE_FORK))
@click.pass_context
def demo(context: click.Context, /, folder: Path | None, **_: object) -> int:
    """Build a small fork with planted defects in FOLDER, and audit it.

    Without FOLDER it lies in a new temporary one, which is kept.
    """
    import tempfile

    import msgspec

    from auditor.demo import build

    made = build(folder or Path(tempfile.mkdtemp(prefix="audit-demo-")))
    settings = _settings(context, made.fork)
    sides = {"upstream": f"{made.upstream} (demo)", "target": f"{made.target} (demo)"}
    status = _audit(
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


def _settings(context: click.Context, root: Path | None = None) -> Settings:
    """The settings of this command: its own options over the group's over the configuration."""
    from auditor.config import OPTIONS, settle

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
                option = "-C" if name == "root" else f"--{name.replace('_', '-')}"
                raise UsageProblem(f"{option} means nothing to '{context.command_path}'")
            given[name.replace("_", "-")] = value
    return settle(
        {key: value for key, value in given.items() if key in OPTIONS},
        root or given.get("root", Path()),
        given.get("config"),
        given.get("isolated", False),
    )


def _audit(settings: Settings, command: str = "audit") -> int:
    """Runs the audit, writes every output, and returns the exit status.

    ``command`` is what the report tells to type for more.
    """
    from auditor.runs.audit import run
    from auditor.runs.judging import Workings

    with console.Progress(settings) as progress:
        request, workings = _request(settings), Workings()
        report = run(request, progress, workings)
        report = _with_proposals(settings, request, report, workings, progress)
    return _deliver(settings, report, command)


def _with_proposals(
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


def _request(settings: Settings) -> AuditRequest:
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
        cache=_cache(),
        configuration=settings.configuration,
        serve=Scripts(settings.serve, settings.serve_base, settings.serve_trusted),
        since=settings.since,
        baseline=settings.baseline,
        comments=settings.comments,
        reachable=settings.reachable,
        ignores=settings.ignores,
    )


def _deliver(settings: Settings, report: Report, command: str, tables: Tables | None = None) -> int:
    """Writes every output, and returns the exit status."""
    from auditor.formats import render
    from auditor.formats.verdict import decide

    verdict = decide(report, settings.fail_on, settings.strict)
    screen = _screen(settings)._replace(command=command)
    machine = render("json", report, verdict, screen, tables)
    _keep(machine, settings.root)
    if settings.verbose:
        console.tell_timings(report.timings)

    def page(form: str, shown: Screen) -> str:
        if form == "json":
            return machine
        rules = _all_rules(settings) if form == "sarif" else ()
        return render(form, report, verdict, shown, tables, rules)

    _write_outputs(settings, page, screen)
    return verdict.status


def _write_outputs(settings: Settings, page: Callable[[str, Screen], str], screen: Screen) -> None:
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
    from auditor import rulebook

    return rulebook.load(settings.rules_dirs).rules


def _screen(settings: Settings) -> Screen:
    import shutil

    from auditor.formats.text import Screen, can_draw

    terminal = sys.stdout.isatty()
    colour = settings.color
    if colour is None:
        colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    width = max(40, shutil.get_terminal_size().columns) if terminal else _PIPED_WIDTH
    encoding = sys.stdout.encoding or "ascii"
    return Screen(width, colour, settings.verbose, settings.quiet, ascii=not can_draw(encoding))


def _cache() -> Path:
    import platformdirs

    return platformdirs.user_cache_path("sglang-fork-audit", appauthor=False)


def _last_report(root: Path) -> Path:
    """Where the last report of a fork is kept."""
    import hashlib

    from auditor.config import fork_root

    key = hashlib.sha256(os.fsencode(fork_root(root))).hexdigest()[:16]
    return _cache() / "reports" / key / "last-report.json"


def _keep(text: str, root: Path) -> None:
    """Keeps the report for `audit explain`; a cache that cannot be written is none."""
    path = _last_report(root)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        console.write(path, text)
    except OSError:
        pass


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status; every failure ends in one clear line."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        return int(cli.main(arguments, prog_name="audit", standalone_mode=False) or 0)
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
