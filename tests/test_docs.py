"""What the README and the pages in docs say is what the tool does."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from auditor.cli.audit import audit as cli
from auditor.cli.main import main
from auditor.cli.options import settings_of
from auditor.config import settle
from auditor.demo import Demo, build
from auditor.errors import UsageProblem
from auditor.rulebook import load

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = {path.relative_to(ROOT).as_posix(): path for path in (README, *sorted(DOCS.glob("*.md")))}
MOST_LINES = 200  # of the README: what somebody reads who came by
MOST_LINES_OF_A_REPORT = 40

# Said by --help alone.
UNSAID = {"--help", "--version"}
# Upstream's tags: it has none of v0.5.0, and every one from v0.5.1 on.
UPSTREAM_TAG = re.compile(r"v0\.5\.[1-9]\d*(\.post\d+)?")
# What the demo has for what a page names: its fork, its scripts, its releases.
STAND_INS = {
    "/path/to/your/fork": ".",
    "/opt/venv/lib/python3.11/site-packages": "python",
    "-C site-packages": "-C python",
    "/srv/sglang": ".",
    "/srv/deploy": "deploy",
    "pypi:0.": "v0.",
}
EARLIER = ("v0.5.1", "v0.5.9", "v0.5.10", "v0.5.11", "v0.5.12")


class Example(NamedTuple):
    """A line of shell that a page shows, in its text or in a block of its own."""

    page: str
    text: str

    @property
    def whole(self) -> bool:
        """Whether it can be typed as it is: no placeholder in it, and more than a mere name."""
        return not re.search(r"\b[A-Z]{4,}\b|…", self.text) and len(self.text.split()) > 2


def blocks(page: str, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)\n```$", PAGES[page].read_text(), re.MULTILINE | re.DOTALL
    )


def prose(page: str) -> str:
    """The page without what its blocks show."""
    return re.sub(r"^```.*?^```$", "", PAGES[page].read_text(), flags=re.MULTILINE | re.DOTALL)


def unfold(text: str) -> str:
    return text.replace("\\\n", " ")


def said(page: str) -> str:
    """The page without reports, which speak of the server's options too."""
    text = PAGES[page].read_text()
    return re.sub(r"^```(?:text|json)\n.*?\n```$", "", text, flags=re.MULTILINE | re.DOTALL)


def of_all_commands(group: click.Group = cli) -> Iterator[click.Command]:
    yield group
    for command in group.commands.values():
        if isinstance(command, click.Group):
            yield from of_all_commands(command)
        else:
            yield command


def examples_of(page: str) -> Iterator[Example]:
    for block in blocks(page, "(?:sh|bash|console)"):
        for line in unfold(block).splitlines():
            yield Example(page, re.sub(r"^\$ |\s+# .*", "", line))
    for code in re.findall(r"`(audit [^`]+)`", prose(page)):
        yield Example(page, " ".join(code.split()))


def anchors(page: Path) -> set[str]:
    """What GitHub lets link to: the headings, in small letters, without signs, spaces as dashes."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.*?) *$", text, re.MULTILINE):
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        count = 0
        while (unique := f"{name}-{count}" if count else name) in found:
            count += 1
        found.add(unique)
    return found


EXAMPLES = [example for page in PAGES for example in examples_of(page)]
RUNNABLE = [example for example in EXAMPLES if example.text.startswith("audit") and example.whole]
PARAMETERS = [p for command in of_all_commands() for p in command.params]
OPTIONS = {name for p in PARAMETERS for name in (*p.opts, *p.secondary_opts)}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """The demo's fork, with tags of earlier releases beside its own two and a remote's branch."""
    made = build(tmp_path_factory.mktemp("demo") / "fork")
    for name in (*(f"tags/{tag}" for tag in EARLIER), "remotes/origin/main"):
        subprocess.run(
            ["git", "-C", made.fork, "update-ref", f"refs/{name}", made.upstream], check=True
        )
    return made


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_the_readme_is_short() -> None:
    assert len(README.read_text().splitlines()) <= MOST_LINES
    [report] = blocks("README.md", "text")
    assert len(report.splitlines()) <= MOST_LINES_OF_A_REPORT


def test_every_option_the_pages_name_exists_and_none_is_left_out() -> None:
    named = set()
    for page in PAGES:
        text = said(page)
        options = set(re.findall(r"(?<![\w-])--[a-z]+(?:-[a-z]+)*", text))
        options |= {f"-{letter}" for letter in re.findall(r"`-([A-Za-z])\b", text)}
        assert options - OPTIONS == set(), page
        named |= options
    unsaid = [
        p.opts[-1]
        for p in PARAMETERS
        if isinstance(p, click.Option) and not (UNSAID | named) & {*p.opts, *p.secondary_opts}
    ]
    assert unsaid == []


def test_every_command_the_pages_name_exists_and_none_is_left_out() -> None:
    text = "\n".join(prose(page) for page in PAGES)
    assert set(re.findall(r"`audit ([a-z]+)\b", text)) == set(cli.commands)
    for name, group in cli.commands.items():
        if isinstance(group, click.Group):
            assert set(re.findall(rf"`audit {name} ([a-z]+)\b", text)) == set(group.commands)


def test_the_pages_name_every_exit_status_alike() -> None:
    rows = [
        re.findall(r"^\| (\d) \| (.{14})", PAGES[page].read_text(), re.MULTILINE)
        for page in ("README.md", "docs/commands.md")
    ]
    assert [status for status, _ in rows[0]] == ["0", "1", "2", "3"]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_links_to_exists(page: str) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    broken = []
    for link in links:
        path, _, anchor = link.partition("#")
        if re.match(r"https://[\w.-]+(/|$)", link):
            continue
        target = (PAGES[page].parent / path).resolve() if path else PAGES[page]
        inside = not path.startswith("/") and target.is_relative_to(ROOT)
        if not inside or not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_is_linked_from_the_readme_and_from_the_index() -> None:
    every = {path for path in PAGES.values() if path.parent == DOCS}
    for page, own in (("README.md", set()), ("docs/README.md", {DOCS / "README.md"})):
        links = re.findall(r"\]\(([^)#\s]+)", prose(page))
        assert every - own <= {(PAGES[page].parent / link).resolve() for link in links}, page


@pytest.mark.parametrize("page", PAGES)
def test_a_page_reads_alike_on_every_forge(page: str) -> None:
    """A title and what it is for; headings whose anchors no forge makes in its own way."""
    text = PAGES[page].read_text()
    assert re.match(r"# [^\n]+\n\n[A-Z`][^\n]*", text)
    headings = re.findall(r"^(#+) +(.*)$", prose(page), re.MULTILINE)
    assert [len(level) for level, _ in headings].count(1) == 1
    assert [words for _, words in headings if not re.fullmatch(r"\w[\w ,]*\w", words)] == []
    fences = re.findall(r"^```(.*)$", text, re.MULTILINE)
    assert len(fences) % 2 == 0
    assert set(fences[::2]) <= {"sh", "text", "json", "toml", "python"}
    assert not re.search(r"<\w+[ />]|^> ?\[!|^\[\[", prose(page), re.MULTILINE)


@pytest.mark.parametrize("page", ["README.md", "docs/report.md"])
def test_the_report_a_page_shows_is_what_the_demo_prints(
    page: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["demo", str(tmp_path / "fork")])
    printed = capsys.readouterr().out
    shown = [part.strip("\n…") for part in blocks(page, "text")[0].split("…\n")]
    assert len(shown) >= 2
    assert [part for part in shown if part not in printed] == []


def test_the_finding_they_show_is_one_of_the_demo(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [shown] = blocks("docs/formats.md", "json")
    made = build(tmp_path / "fork")
    main(["-C", str(made.fork), "--upstream", made.upstream, "-o", "json"])
    assert json.loads(shown) in json.loads(capsys.readouterr().out)["findings"]


def test_the_configuration_they_show_is_accepted(tmp_path: Path) -> None:
    shown, accepting = blocks("docs/configuration.md", "toml")
    (tmp_path / "audit.toml").write_text(shown)
    (tmp_path / "tools" / "audit-rules").mkdir(parents=True)
    settings = settle({}, tmp_path)
    assert settings.upstream == "v0.5.17"
    assert settings.origins == ("introduced", "regressed", "unknown")
    (tmp_path / "audit.toml").write_text(accepting)
    settings = settle({}, tmp_path)
    assert settings.baseline == tmp_path / "audit-baseline.json"
    [ignore] = settings.ignores
    assert load().find(ignore.rule)
    assert ignore.holds("python/sglang/srt/speculative/a/b.py", "DraftWorker.draft")


def commands(text: str) -> Iterator[list[str]]:
    """The calls of audit in a line of shell, as words; brackets of placeholders taken off."""
    words = shlex.shlex(re.sub(r"[\[\]…]", "", text), posix=True, punctuation_chars=True)
    words.whitespace_split = True
    call: list[str] = []
    for word in (*words, ";"):
        if set(word) <= set("|&;"):
            if call[:1] == ["audit"]:
                yield call[1:]
            call = []
        else:
            call.append(word)


def refused(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Why the command line does not take the calls of audit in a line; nothing is run."""

    def settled(context: click.Context, /, **_: object) -> None:
        if context.invoked_subcommand is None:
            settings_of(context, folder)

    reasons = []
    with monkeypatch.context() as patch:
        for command in of_all_commands():
            patch.setattr(command, "callback", click.pass_context(settled))
        for words in commands(text):
            try:
                cli.main(words, prog_name="audit", standalone_mode=False)
            except (click.ClickException, UsageProblem) as problem:
                reasons.append(f"{text}: {problem}")
    return reasons


@pytest.mark.parametrize("page", PAGES)
def test_the_command_line_takes_what_a_page_shows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [example.text for example in EXAMPLES if example.page == page]
    assert [why for text in texts for why in refused(text, tmp_path, monkeypatch)] == []


def test_the_command_line_takes_what_the_help_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [
        re.split(r"\s{2,}", line.strip())[0]
        for command in of_all_commands()
        for line in (command.help or "").splitlines()
        if re.match(r" +audit ", line)
    ]
    assert len(texts) >= 8
    assert [why for text in texts for why in refused(text, tmp_path, monkeypatch)] == []


def test_every_release_that_is_named_is_one_of_upstream() -> None:
    texts = {page: path.read_text() for page, path in PAGES.items()}
    texts |= {f"audit {command.name} --help": command.help or "" for command in of_all_commands()}
    named = {
        (where, tag)
        for where, text in texts.items()
        for tag in re.findall(r"(?<!\w)v\d+(?:\.\d+)+(?:\.?(?:post|rc)\d+)?", text)
    }
    assert any(where == "audit history --help" for where, _ in named)
    assert [name for name in sorted(named) if not UPSTREAM_TAG.fullmatch(name[1])] == []


def test_the_make_targets_and_extras_they_name_exist() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    for path in PAGES.values():
        for extra in re.findall(r"sglang-fork-audit\[(\w+)\]", path.read_text()):
            assert re.search(rf"^{extra} = \[", project, re.MULTILINE)
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        code = "\n".join([*blocks(page, "sh"), *re.findall(r"`([^`]+)`", prose(page))])
        assert set(re.findall(r"^make (\w+)", code, re.MULTILINE)) <= targets
    assert {"make demo", "make test"} <= set(re.findall(r"make \w+", README.read_text()))


def test_the_pages_show_what_can_be_run() -> None:
    shown = " ".join(example.text for example in RUNNABLE)
    assert [name for name in cli.commands if f"audit {name} " not in shown] == ["demo", "rules"]
    assert len(RUNNABLE) >= 20


@pytest.mark.parametrize("example", dict.fromkeys(e.text for e in RUNNABLE))
def test_what_a_page_shows_runs(example: str, demo: Demo, tmp_path: Path) -> None:
    """On the demo's fork: it ends in order or with findings, and has nothing to complain of."""
    fork = tmp_path / "fork"
    shutil.copytree(demo.fork, fork)
    program = tmp_path / "bin" / "audit"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m auditor "$@"\n')
    program.chmod(0o755)
    script = example
    for shown, there in STAND_INS.items():
        script = script.replace(shown, there)
    if script.startswith("audit baseline"):  # "with the options of your audit"
        script += " --upstream v0.5.17"
    if re.match(r"audit explain [0-9a-f]+$", script):  # of the last report
        script = f"audit --upstream v0.5.17 >report.txt || test $? -eq 1; {script}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=fork,
        env={
            **os.environ,
            "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    assert not re.search(r"^(error|audit|fatal|Traceback)\b", done.stderr, re.MULTILINE)
