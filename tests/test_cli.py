from __future__ import annotations

import fcntl
import io
import json
import os
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from formats.sample import finding, full_report, report

import auditor
import auditor.runs.drift  # takes the run by its name: not that of the stand-in
from auditor import config, formats, model
from auditor.cli import console, options, output
from auditor.cli.audit import audit
from auditor.cli.main import main
from auditor.errors import UsageProblem
from auditor.formats import drift, timeline
from auditor.formats.json import load
from auditor.model import Report, Skipped
from auditor.runs import audit as runs_audit
from auditor.runs.judging import Workings
from auditor.runs.request import AuditRequest

ROOT = Path(auditor.__file__).parents[1]
OF_COLOUR = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE")
OF_PAGERS = ("PAGER", "LESS", "LV")


class Pipeline:
    """Stands in for the audit: remembers what was asked for, and answers with ``report``."""

    def __init__(self) -> None:
        self.report: Report = report()
        self.problem: BaseException | None = None
        self.requests: list[AuditRequest] = []

    def __call__(
        self,
        request: AuditRequest,
        progress: Callable[[str, int, int], None],
        workings: Workings,
    ) -> Report:
        self.requests.append(request)
        progress("extract", 1, 2)
        if self.problem is not None:
            raise self.problem
        return self.report


@pytest.fixture(autouse=True)
def fork(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fork to stand in, and a cache of its own."""
    root = tmp_path / "fork"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    monkeypatch.chdir(root)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in OF_COLOUR:
        monkeypatch.delenv(name, raising=False)
    return root


@pytest.fixture(autouse=True)
def audited(monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    stand_in = Pipeline()
    monkeypatch.setattr(runs_audit, "run", stand_in)
    return stand_in


def test_options_reach_the_pipeline(audited: Pipeline, fork: Path) -> None:
    (fork / "more").mkdir()
    words = "--upstream v1 --rev r1 --target t1 --target t2 --select a,b --select c --ignore d"
    words += " --min-confidence low --origin introduced,regressed --rules more --jobs 3"
    assert main(words.split()) == 0
    (request,) = audited.requests
    assert (request.upstream, request.rev, request.targets) == ("v1", "r1", ("t1", "t2"))
    assert (request.select, request.ignore) == (("a", "b", "c"), ("d",))
    assert (request.min_confidence, request.origins) == ("low", ("introduced", "regressed"))
    assert (request.rules_dirs, request.jobs) == ((Path("more"),), 3)
    assert request.configuration["min-confidence"] == "low (command line)"


def test_without_options_the_folder_one_stands_in_is_audited(audited: Pipeline) -> None:
    assert main([]) == 0
    (request,) = audited.requests
    assert (request.root, request.upstream, request.jobs) == (Path(), None, 0)


@pytest.mark.parametrize(
    ("value", "options", "status"),
    [
        (report(), [], 0),
        (report(finding()), [], 1),
        (report(finding(severity="medium")), [], 0),
        (report(finding(severity="medium")), ["--fail-on", "medium"], 1),
        (report(finding(severity="critical")), ["--fail-on", "never"], 0),
        (report(skipped=(Skipped("fork", "a.py", "scan", "x"),)), [], 3),
        (report(skipped=(Skipped("upstream", "a.py", "scan", "x"),)), [], 0),
        (report(skipped=(Skipped("upstream", "a.py", "scan", "x"),)), ["--strict"], 3),
        (report(finding(), skipped=(Skipped("fork", "a.py", "scan", "x"),)), ["--strict"], 1),
    ],
)
@pytest.mark.parametrize(
    "form",
    [
        [],
        ["-q"],
        *(["-o", name] for name in formats.NAMES),
        ["-o", "json=f", "-o", "table=g"],
        [word for name in formats.NAMES for word in ("-o", f"{name}={name}.out")],
    ],
)
def test_exit_statuses_whatever_the_format(
    audited: Pipeline, value: Report, options: list[str], status: int, form: list[str]
) -> None:
    audited.report = value
    assert main([*options, *form]) == status


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--upstrem", "v1"], "No such option"),
        (["nonsense"], "No such command 'nonsense'"),
        (["no\0thing"], "No such command"),
        (["x" * 5000], "No such command"),
        (["-o", "x.sarif"], "'x.sarif' is no format; to write a file: -o sarif=x.sarif"),
        (["-o", "a b/x.XML"], "to write a file: -o 'junit=a b/x.XML'"),
        (["-o", "x.html"], "-o html=x.html"),
        (["-o", "x.json"], "-o json=x.json"),
        (["-o", "x.md"], "-o markdown=x.md"),
        (["-o", "x.txt"], "-o table=x.txt"),
        (["-o", "x.pdf"], "--output: 'x.pdf' is none of table, json, sarif"),
        (["drift", "-o", "x.md"], "to write a file: -o markdown=x.md"),
        (["drift", "-o", "x.sarif"], "'x.sarif' is none of table, json, markdown, html"),
        (["history", "-o", "sarif"], "--output: 'sarif' is none of table, json"),
        (["history", "-o", "sarif=x.sarif"], "--output: 'sarif' is none of table, json"),
        (["history", "-o", "x.sarif"], "--output: 'x.sarif' is none of table, json"),
        (["-o", "html", "history"], "--output: 'html' is none of table, json"),
        (["rules", "-o", "sarif"], "'sarif' is not one of 'table', 'json'"),
        (["--fail-on", "hgh"], "did you mean high?"),
        (["--jobs", "x"], "not a valid integer"),
        (["-o", "xml"], "--output: 'xml' is none of table, json"),
        (["-C", "nowhere"], "-C nowhere: there is no such folder"),
        (["-v", "-q"], "exclude each other"),
        (["--config", "none.toml"], "none.toml: cannot be read"),
        (["--fail-on", "low", "rules"], "--fail-on means nothing to 'audit rules'"),
        (["explain", "abcdef123456"], "there is no report of this fork;"),
        (["explain", "ungated-bufer-read"], "did you mean ungated-buffer-read"),
        (["explain", "--report", "none.json", "abcdef123456"], "No such file"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("audit: ")
    assert told in err
    assert err.count("\n") == 1


def test_a_folder_in_place_of_a_command_is_answered_with_the_option_for_it(
    fork: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (fork / "my fork").mkdir()
    (fork / "file").touch()
    for name, quoted in ((str(fork), str(fork)), ("my fork", "'my fork'"), (".", ".")):
        assert main(["-v", name, "--strict"]) == 2
        assert capsys.readouterr() == (
            "",
            f"audit: No such command '{name}'; to audit a fork in a folder: audit -C {quoted}\n",
        )
    assert main(["file"]) == 2
    assert "-C" not in capsys.readouterr().err
    (fork / "rules").mkdir()
    assert main(["rules"]) == 0


def test_a_file_in_place_of_a_format_is_no_hint_where_a_file_cannot_be_named(
    fork: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (fork / "audit.toml").write_text('output = "x.sarif"\n')
    assert main([]) == 2
    assert "output: 'x.sarif' is none of table, json" in capsys.readouterr().err


def test_a_command_lists_the_formats_that_it_writes(capsys: pytest.CaptureFixture[str]) -> None:
    shown = {}
    for command in ("history", "drift", "rules", "demo", "serve"):
        assert main([command, "--help"]) == 0
        shown[command] = set(re.findall(r"\w+", capsys.readouterr().out)) & {*formats.NAMES}
    assert shown["history"] >= {*timeline.NAMES}
    assert not shown["history"] & {"sarif", "github", "gitlab", "junit", "markdown", "html"}
    assert shown["drift"] >= {*drift.NAMES}
    assert not shown["drift"] & {"sarif", "github", "gitlab", "junit"}
    assert not shown["rules"] & {"sarif", "html"}
    assert shown["demo"] == shown["serve"] == {*formats.NAMES}


def test_what_is_configured_for_the_audit_does_not_stop_a_command_that_cannot_write_it(
    fork: Path,
) -> None:
    (fork / "audit.toml").write_text('output = ["sarif"]\n')
    settings = config.settle({}, fork, formats=timeline.NAMES)
    assert settings.outputs == (config.Output("table", None),)
    assert config.settle({}, fork).outputs == (config.Output("sarif", None),)
    (fork / "audit.toml").write_text('output = ["json"]\n')
    settings = config.settle({}, fork, formats=timeline.NAMES)
    assert settings.outputs == (config.Output("json", None),)
    mine = fork / "mine.toml"
    mine.write_text('output = ["sarif=x.sarif", "json=x.json"]\n')
    settings = config.settle({}, fork, mine, formats=timeline.NAMES)
    assert settings.outputs == (
        config.Output("json", fork / "x.json"),
        config.Output("table", None),
    )


def test_a_problem_of_the_pipeline_is_one_line_and_harmless(
    audited: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    audited.problem = UsageProblem("no upstream; the closest tag is v0\x1b[2J")
    assert main([]) == 2
    assert capsys.readouterr().err == "audit: no upstream; the closest tag is v0\\x1b[2J\n"


def test_a_defect_of_the_tool_asks_for_a_report_and_shows_where_only_if_asked(
    audited: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    audited.problem = RuntimeError("boom\nsecond line")
    assert main([]) == 2
    plain = capsys.readouterr().err
    assert plain.count("\n") == 1
    assert "RuntimeError: boom;" in plain
    assert "report it" in plain
    assert main(["-v"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_is_one_line_and_status_130(
    audited: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    audited.problem = KeyboardInterrupt()
    assert main([]) == 130
    assert capsys.readouterr().err.split() == ["audit:", "interrupted"]


def test_the_later_value_wins_between_the_group_the_sub_command_and_the_file(
    fork: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fork / "audit.toml").write_text('fail-on = "info"\nmin-confidence = "low"\n')
    seen: list[config.Settings] = []

    @audit.command("probe")
    @options.run_options()
    @click.pass_context
    def probe(context: click.Context, /, **_: object) -> None:
        seen.append(options.settings_of(context))

    try:
        assert main(["probe"]) == 0
        assert main(["--fail-on", "low", "--select", "a", "probe", "--select", "b"]) == 0
        assert main(["--fail-on", "low", "probe", "--fail-on", "critical"]) == 0
    finally:
        del audit.commands["probe"]
    assert [settings.fail_on for settings in seen] == ["info", "low", "critical"]
    assert [settings.select for settings in seen] == [(), ("b",), ()]
    assert {settings.min_confidence for settings in seen} == {"low"}


def test_json_to_standard_output_and_files(
    audited: Pipeline, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audited.report = full_report()
    file = tmp_path / "out.json"
    assert main(["-o", "json"]) == 1
    on_stdout = capsys.readouterr().out
    assert main(["-o", f"json={file}"]) == 1
    assert file.read_text() == on_stdout
    assert json.loads(on_stdout)["schema"] == "audit/1"
    assert capsys.readouterr().out.startswith("4 findings at or above high")
    assert str(tmp_path) not in on_stdout


def test_every_format_of_one_run_goes_to_a_file_of_its_own(
    audited: Pipeline, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audited.report = full_report()
    words = [word for name in formats.NAMES for word in ("-o", f"{name}={tmp_path / name}")]
    assert main([*words, "-q"]) == 1
    written = {name: (tmp_path / name).read_text(encoding="utf-8") for name in formats.NAMES}
    assert len(set(written.values())) == len(formats.NAMES)
    # The rules of the run are in it, whatever it found.
    driver = json.loads(written["sarif"])["runs"][0]["tool"]["driver"]
    assert "gate-after-read" in {rule["id"] for rule in driver["rules"]}
    capsys.readouterr()
    for name in formats.NAMES[1:]:
        assert main(["-o", name]) == 1
        assert capsys.readouterr().out == written[name]


def test_a_table_in_a_file_has_no_colour(audited: Pipeline, tmp_path: Path) -> None:
    audited.report = full_report()
    file = tmp_path / "out.txt"
    main(["--color", "-o", f"table={file}", "-o", "json"])
    assert file.read_text().startswith("4 findings")
    assert "\x1b" not in file.read_text()


@pytest.mark.parametrize("target", ["none/out.json", "folder"])
def test_a_file_that_cannot_be_written_is_status_2(
    audited: Pipeline, fork: Path, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (fork / "folder").mkdir()
    audited.report = report(finding())
    assert main(["-o", f"json={target}"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"audit: cannot write {target}: ")
    assert err.count("\n") == 1


def test_a_report_replaces_a_file_at_once_through_a_link_and_leaves_devices_alone(
    fork: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fork / "real.json").write_text("old")
    (fork / "link.json").symlink_to("real.json")
    assert main(["-o", "json=link.json"]) == 0
    assert (fork / "link.json").is_symlink()
    assert (fork / "real.json").read_text().startswith("{")
    assert main(["-o", "json=/dev/null"]) == 0
    assert Path("/dev/null").is_char_device()
    assert sorted(path.name for path in fork.iterdir()) == [".git", "link.json", "real.json"]

    def full(_: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert main(["-o", "json=real.json"]) == 2
    assert (fork / "real.json").read_text().startswith("{")
    assert sorted(path.name for path in fork.iterdir()) == [".git", "link.json", "real.json"]


@pytest.mark.parametrize(
    ("terminal", "environment", "coloured"),
    [
        (False, {}, False),
        (False, {"FORCE_COLOR": "1"}, True),
        (False, {"FORCE_COLOR": "3"}, True),
        (False, {"FORCE_COLOR": ""}, False),
        (False, {"FORCE_COLOR": "0"}, False),
        (False, {"CLICOLOR_FORCE": "1"}, True),
        (False, {"CLICOLOR_FORCE": "yes", "TERM": "dumb"}, True),
        (False, {"CLICOLOR_FORCE": ""}, False),
        (False, {"CLICOLOR_FORCE": "0"}, False),
        (False, {"CLICOLOR_FORCE": "0", "FORCE_COLOR": "1"}, True),
        (False, {"CLICOLOR": "1"}, False),
        (False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (False, {"CLICOLOR_FORCE": "1", "NO_COLOR": "0"}, False),
        (False, {"CLICOLOR_FORCE": "1", "NO_COLOR": ""}, True),
        (True, {}, True),
        (True, {"CLICOLOR": "0"}, False),
        (True, {"CLICOLOR": ""}, True),
        (True, {"CLICOLOR": "1"}, True),
        (True, {"CLICOLOR": "0", "CLICOLOR_FORCE": "1"}, True),
        (True, {"FORCE_COLOR": "0", "CLICOLOR_FORCE": "0"}, True),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_the_environment_turns_colour_on_and_off(
    terminal: bool, environment: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    assert output.screen_of(config.Settings(Path())).colour is coloured
    for said in (True, False):
        assert output.screen_of(config.Settings(Path(), color=said)).colour is said


@pytest.mark.parametrize("no_color", ["", "1"])
@pytest.mark.parametrize(
    ("options", "coloured"), [([], False), (["--color"], True), (["--no-color"], False)]
)
def test_colour_on_a_pipe_only_where_it_is_asked_for(
    audited: Pipeline,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    coloured: bool,
    no_color: str,
) -> None:
    audited.report = full_report()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_COLOR", no_color)
        main(options)
    assert ("\x1b[" in capsys.readouterr().out) is coloured


def on_terminal(
    command: str, tmp_path: Path, columns: int = 80, **environment: str
) -> tuple[int, str]:
    """Runs python code with every stream on a terminal of that width; its status and output."""
    main, other = os.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", command],
        stdin=other,
        stdout=other,
        stderr=other,
        env=child_environment(tmp_path, **{"TERM": "xterm", **environment}),
    )
    os.close(other)
    output = b""
    while True:
        try:
            piece = os.read(main, 65536)
        except OSError:
            break
        if not piece:
            break
        output += piece
    os.close(main)
    return process.wait(), output.decode().replace("\r\n", "\n")


def child_environment(tmp_path: Path, **more: str) -> dict[str, str]:
    left = (*OF_COLOUR, *OF_PAGERS, "COLUMNS", "LINES")
    kept = {k: v for k, v in os.environ.items() if k not in left}
    path = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
    return {**kept, "PYTHONPATH": path, "XDG_CACHE_HOME": str(tmp_path / "cache"), **more}


STAND_IN = """
import sys
from formats.sample import full_report
from auditor.cli.main import main
from auditor.runs import audit

def run(request, progress, workings):
    progress("releases", 1, 2)
    return full_report()

audit.run = run
sys.exit(main({arguments!r}))
"""


def test_on_a_terminal_there_is_colour_progress_and_its_width(tmp_path: Path) -> None:
    status, output = on_terminal(STAND_IN.format(arguments=[]), tmp_path, columns=72)
    assert status == 1
    assert output.startswith(
        "\r\x1b[2Kjudging release 2 of 2\r\x1b[2K\x1b[1;31m4 findings at or above"
    )
    messages = [line for line in output.split("\n") if line.startswith("  reads index_k")]
    assert messages
    assert {len(line) for line in messages} <= set(range(60, 73))
    status, quiet = on_terminal(STAND_IN.format(arguments=["-q"]), tmp_path)
    assert "judging" not in quiet
    _, plain = on_terminal(STAND_IN.format(arguments=["-q"]), tmp_path, NO_COLOR="1")
    assert "\x1b" not in plain


EXPLAIN = """
import sys
from auditor.cli.main import main
sys.exit(main(["explain", {subject!r}, "--color"]))
"""
RULE = "ungated-buffer-read"


def explained(tmp_path: Path, subject: str = RULE, **environment: str) -> str:
    status, shown = on_terminal(EXPLAIN.format(subject=subject), tmp_path, 80, **environment)
    assert status == 0
    return shown


@pytest.fixture
def unpaged(tmp_path: Path) -> str:
    """The page of the rule, as a terminal is shown it without a pager."""
    return explained(tmp_path, PAGER="")


def test_a_page_of_explain_goes_through_the_pager(tmp_path: Path, unpaged: str) -> None:
    assert unpaged.startswith("\x1b[1mungated-buffer-read\x1b[0m")
    assert len(unpaged.splitlines()) > 24
    # The pager is a shell's command, as git has it, and is told to keep colour.
    assert explained(tmp_path, PAGER="sed 's/^/> /'; echo $LESS $LV") == (
        "".join(f"> {line}\n" for line in unpaged.splitlines()) + "FRX -c\n"
    )
    assert explained(tmp_path, PAGER="cat >taken; echo $LESS", LESS="M") == "M\n"
    assert Path("taken").read_text() == unpaged


def test_without_a_pager_that_works_the_page_is_printed(tmp_path: Path, unpaged: str) -> None:
    assert explained(tmp_path, PAGER="cat") == unpaged
    assert explained(tmp_path, PAGER=" ") == unpaged
    assert explained(tmp_path, PAGER="exit 3") == unpaged
    shown = explained(tmp_path, PAGER="no-such-pager-anywhere").splitlines(keepends=True)
    assert "no-such-pager-anywhere" in shown[0]
    assert "".join(shown[1:]) == unpaged


def test_a_page_that_its_reader_has_left_is_not_shown_again(tmp_path: Path) -> None:
    assert explained(tmp_path, PAGER="head -c 5; true") == "\x1b[1mu"
    assert explained(tmp_path, PAGER="true") == ""
    # Ctrl-C reaches both; the pager may end by it, with whatever status.
    assert explained(tmp_path, PAGER="kill -INT $PPID; sleep 0.2; cat >taken; exit 2") == ""


def test_no_pager_where_there_is_none_or_the_terminal_can_do_nothing(
    tmp_path: Path, unpaged: str
) -> None:
    (tmp_path / "bin").mkdir()
    less = tmp_path / "bin" / "less"
    less.write_text("#!/bin/sh\necho paged $LESS\n")
    less.chmod(0o755)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    assert explained(tmp_path, PATH=path) == "paged FRX\n"
    assert explained(tmp_path, PATH=path, TERM="dumb") == unpaged
    less.unlink()
    assert explained(tmp_path, PATH=str(tmp_path / "bin")) == unpaged


def test_no_pager_where_the_output_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PAGER", "touch paged")
    assert main(["explain", RULE]) == 0
    assert "What to do" in capsys.readouterr().out
    assert not Path("paged").exists()


def test_a_reader_that_stops_reading_changes_nothing(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.run(
        [sys.executable, "-c", STAND_IN.format(arguments=["-o", "json=kept.json", "-o", "table"])],
        stdout=writing,
        stderr=subprocess.PIPE,
        env=child_environment(tmp_path),
        check=False,
    )
    os.close(writing)
    assert (process.returncode, process.stderr) == (1, b"")
    assert len(load(Path("kept.json"))) == 7


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_status_2(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        process = subprocess.run(
            [sys.executable, "-c", STAND_IN.format(arguments=[])],
            stdout=full,
            stderr=subprocess.PIPE,
            env=child_environment(tmp_path),
            check=False,
        )
    assert process.returncode == 2
    assert process.stderr == b"audit: cannot write the report: No space left on device\n"


def test_an_output_that_knows_ascii_only(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-c", STAND_IN.format(arguments=["-q"])],
        capture_output=True,
        env=child_environment(tmp_path, PYTHONIOENCODING="ascii"),
        check=False,
    )
    assert (process.returncode, process.stderr) == (1, b"")
    assert b"4 findings at or above high" in process.stdout


def test_verbose_says_where_the_time_went(capsys: pytest.CaptureFixture[str]) -> None:
    main(["-v"])
    err = capsys.readouterr().err
    assert [line.split()[0] for line in err.splitlines()] == ["scan", "extract", "all"]
    assert "1.710 s" in err


def test_nothing_but_the_report_is_on_standard_output_and_nothing_is_on_the_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main([])
    out, err = capsys.readouterr()
    assert out.startswith("nothing at or above high · exit 0\n")
    assert err == ""


def test_a_finding_of_the_last_report_is_explained(
    audited: Pipeline, fork: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (fork / "pool.py").write_text("class P:\n    def get(self):\n        return self.k[0]\n")
    place = {"path": "pool.py", "symbol": "P.get", "line": 3, "end_line": 3, "evidence": ()}
    audited.report = report(finding(**place))
    (fork / "python").mkdir()
    main([])
    capsys.readouterr()
    for where in (".", "python"):
        assert main(["explain", "-C", where, "3f2a9c"]) == 0
        assert "  >     3          return self.k[0]" in capsys.readouterr().out


def test_the_way_to_more_works_from_where_the_user_stands(
    audited: Pipeline,
    fork: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    audited.report = report(finding(fingerprint="3f2a9c0000000000"))
    monkeypatch.chdir(fork.parent)
    main(["-C", "fork", "--upstream", "v0.5.17"])
    assert "audit -C fork explain 3f2a9c00\n" in capsys.readouterr().out
    assert main(["-C", "fork", "explain", "3f2a9c00"]) == 0


def test_a_finding_of_a_report_that_came_from_elsewhere_is_explained(
    audited: Pipeline, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audited.report = full_report()
    file = tmp_path / "report.json"
    main(["-o", f"json={file}"])
    capsys.readouterr()
    assert main(["explain", "--report", str(file), "dd44dd"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("python/sglang/srt/layers/attention/layer_split.py:470\n")
    assert "the file is not here" in out


def test_a_cache_that_cannot_be_written_is_no_problem(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    assert main([]) == 0


def test_rules_are_explained_and_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules"]) == 0
    assert "ungated-buffer-read" in capsys.readouterr().out
    assert main(["rules", "-o", "json"]) == 0
    assert "ungated-buffer-read" in {rule["id"] for rule in json.loads(capsys.readouterr().out)}
    assert main(["explain", "ungated-buffer-read"]) == 0
    out = capsys.readouterr().out
    assert "# error: [ungated-buffer-read]" in out
    assert "What to do" in out


def test_help_lists_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for option in (*config.OPTIONS, "config", "isolated", "version"):
        assert f"--{option}" in text
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"audit, version {auditor.__version__}\n"


def test_the_words_in_the_help_are_those_of_the_model() -> None:
    assert options.SEVERITY.split("|") == [*model.SEVERITIES, "never"]
    assert options.CONFIDENCE.split("|") == [*model.CONFIDENCES]
    assert options.ORIGIN.split("|") == [*model.ORIGINS]
    assert options.FORMAT.split("|") == [*formats.NAMES]
    assert options.HISTORY_FORMAT.split("|") == [*timeline.NAMES]


def test_help_and_version_import_nothing_heavy(tmp_path: Path) -> None:
    heavy = ("msgspec", "tabulate", "git", "libcst", "yaml", "unidiff", "auditor.formats")
    code = f"""
import sys
from auditor.cli.audit import audit
from auditor.cli.main import main
status = main(["--help"]) or main(["--version"])
print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
sys.exit(status)
"""
    process = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=child_environment(tmp_path),
        check=True,
    )
    assert process.stderr == "[]\n"


def completed(tmp_path: Path, instruction: str, words: str = "") -> str:
    """What a shell is told that asks this program for completion."""
    done = subprocess.run(
        [sys.executable, "-m", "auditor"],
        capture_output=True,
        text=True,
        env=child_environment(
            tmp_path,
            _AUDIT_COMPLETE=instruction,
            COMP_WORDS=words,
            COMP_CWORD=str(len(words.split()) - 1),
        ),
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    ("shell", "registers"),
    [
        ("bash", "complete -o nosort -F _audit_completion audit"),
        ("zsh", "#compdef audit"),
        ("fish", 'complete --no-files --command audit --arguments "(_audit_completion)"'),
    ],
)
def test_there_is_completion_for_three_shells(shell: str, registers: str, tmp_path: Path) -> None:
    source = completed(tmp_path, f"{shell}_source")
    assert registers in source
    assert f"_AUDIT_COMPLETE={shell}_complete" in source


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("audit --up", ["--upstream"]),
        ("audit dr", ["drift"]),
        ("audit drift --hi", ["--history"]),
        ("audit -C . explain --re", ["--report"]),
        ("audit baseline w", ["write"]),
        ("audit rules -o js", ["json"]),
    ],
)
def test_commands_and_options_are_completed(words: str, offered: list[str], tmp_path: Path) -> None:
    lines = completed(tmp_path, "bash_complete", words).splitlines()
    assert lines == [f"plain,{word}" for word in offered]


def test_a_folder_is_no_mistake_while_a_line_is_completed(fork: Path, tmp_path: Path) -> None:
    assert completed(tmp_path, "bash_complete", f"audit {fork} --up") == "plain,--upstream\n"


def test_python_dash_m(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "auditor", "--version"],
        capture_output=True,
        text=True,
        env=child_environment(tmp_path),
        check=True,
    )
    assert process.stdout.startswith("audit, version ")


@pytest.mark.parametrize(("encoding", "plain"), [("utf-8", False), ("ascii", True)])
def test_a_stream_that_cannot_draw_gets_what_it_can(
    encoding: str, plain: bool, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "auditor", "explain", "ungated-buffer-read"],
        env={**os.environ, "PYTHONIOENCODING": encoding, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        check=True,
    )
    first = done.stdout.decode(encoding).splitlines()[0]
    separator = "-" if plain else "·"
    assert first == f"ungated-buffer-read {separator} high {separator} sync"


@pytest.mark.parametrize(
    ("stage", "done", "total", "line"),
    [
        ("scout", 0, 4719, "searching 4,719 files for what waits"),
        ("releases", 4, 12, "judging release 5 of 12"),
        ("releases", 12, 12, "judging release 12 of 12"),
        ("cut out", 0, 1, "taking source lines for 1 finding"),
        ("a stage of no words", 0, 1, "a stage of no words"),
    ],
)
def test_progress_says_what_is_done_to_how_much(
    stage: str, done: int, total: int, line: str
) -> None:
    assert console.stage_line(stage, done, total) == line


def test_every_stage_of_the_pipeline_has_its_words() -> None:
    root = Path(auditor.__file__).parent
    files = [*(root / "runs").glob("*.py"), root / "checks" / "sides.py"]
    texts = [file.read_text() for file in files]
    stages = {name for text in texts for name in re.findall(r'stage\("([^"]+)"', text)}
    assert len(stages) > 10
    assert all(console.stage_line(stage, 0, 2) != stage for stage in stages)
