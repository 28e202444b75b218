"""The recipes for pipelines: taken by their systems' own readers, their commands run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import junitparser
import pytest
import yaml
from conftest import TinyRepository
from scenarios.pools import POOL, READERS, pool

from auditor.cli.main import main
from auditor.demo import Demo, build

ROOT = Path(__file__).parent.parent
CI = ROOT / "examples" / "ci"
WORKFLOW = yaml.safe_load((CI / "github-actions.yml").read_text())
GITLAB = yaml.safe_load((CI / "gitlab-ci.yml").read_text())
HOOKS = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}


@pytest.fixture
def demo(tmp_path: Path) -> Demo:
    return build(tmp_path / "fork")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def run(script: str, folder: Path, **variables: object) -> subprocess.CompletedProcess[str]:
    """What a runner does with a step: bash that stops at the first command that fails."""
    environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def step(event: str) -> str:
    """The script of the workflow that runs the audit on an event."""
    [script] = [
        step["run"]
        for step in WORKFLOW["jobs"]["audit"]["steps"]
        if step.get("if") == f"github.event_name == '{event}'"
    ]
    return str(script)


def sarif_rules(file: Path) -> set[str]:
    [found] = json.loads(file.read_text())["runs"]
    return {result["ruleId"] for result in found["results"]}


@pytest.mark.parametrize(
    "command",
    [
        [
            "check-jsonschema",
            "--builtin-schema",
            "vendor.github-workflows",
            CI / "github-actions.yml",
        ],
        ["check-jsonschema", "--builtin-schema", "vendor.gitlab-ci", CI / "gitlab-ci.yml"],
        ["pre-commit", "validate-manifest", ROOT / ".pre-commit-hooks.yaml"],
    ],
    ids=["github", "gitlab", "pre-commit"],
)
def test_the_reader_of_the_system_takes_the_recipe(command: list[str | Path]) -> None:
    program = Path(sys.executable).with_name(str(command[0]))
    done = subprocess.run([program, *command[1:]], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_workflow_fails_a_pull_request_and_shows_why_in_three_places(
    demo: Demo, tmp_path: Path
) -> None:
    summary = tmp_path / "summary.md"
    summary.touch()  # as the runner does
    done = run(step("pull_request"), demo.fork, UPSTREAM=demo.upstream, GITHUB_STEP_SUMMARY=summary)
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert lines
    assert all(re.match(r"::(error|warning|notice) ", line) for line in lines)
    assert "gate-after-read" in sarif_rules(demo.fork / "audit.sarif")
    assert '"fixes"' in (demo.fork / "audit.sarif").read_text()
    assert summary.read_text().startswith("## audit: 9 findings at or above high")
    assert json.loads((demo.fork / "audit.json").read_text())["summary"]["exit_status"] == 1
    uploads = [s for s in WORKFLOW["jobs"]["audit"]["steps"] if "artifact" in s.get("uses", "")]
    for upload in uploads:
        assert all((demo.fork / path).is_file() for path in upload["with"]["path"].split())
    assert uploads


def test_the_workflow_passes_a_pull_request_that_adds_nothing(demo: Demo, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    done = run(step("pull_request"), demo.fork, UPSTREAM="HEAD", GITHUB_STEP_SUMMARY=summary)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert sarif_rules(demo.fork / "audit.sarif") == set()


def test_the_workflow_stops_a_merge_of_upstreams_later_code_that_is_broken(
    tiny_repository: Callable[..., TinyRepository], tmp_path: Path
) -> None:
    """The release is sound, a later one is not: who merges its code takes the defect on."""
    path = f"python/{POOL}"
    version = "python/sglang/version.py"
    repository = tiny_repository({path: pool(), version: "__version__ = '0.5.9'\n"})
    later = pool(READERS, ["get_later"])
    repository.commit({path: later, version: "__version__ = '0.5.10'\n"}, "later", "v0.5.10")
    repository.commit({"deploy/notes.txt": "merged\n"}, "the fork's own")
    done = run(
        step("pull_request"),
        repository.top,
        UPSTREAM="v0.5.9",
        GITHUB_STEP_SUMMARY=tmp_path / "summary.md",
    )
    assert done.returncode == 1, done.stderr
    assert "get_later" in done.stdout
    report = json.loads((repository.top / "audit.json").read_text())
    assert [(f["origin"], f["since_base"]) for f in report["findings"]] == [("inherited", "v0.5.9")]
    # Upstream's release had it, and the change did not bring it.
    done = run(
        step("pull_request"),
        repository.top,
        UPSTREAM="v0.5.10",
        GITHUB_STEP_SUMMARY=tmp_path / "summary.md",
    )
    assert done.returncode == 0, done.stdout


def test_the_workflow_looks_at_everything_at_night(demo: Demo, tmp_path: Path) -> None:
    done = run(
        step("schedule"),
        demo.fork,
        UPSTREAM=demo.upstream,
        TARGET=demo.target,
        GITHUB_STEP_SUMMARY=tmp_path / "summary.md",
    )
    assert done.returncode == 0, done.stderr
    assert {"override-drops-gate", "delegate-skips-gate"} <= sarif_rules(demo.fork / "audit.sarif")


def test_the_workflow_uploads_what_it_wrote_and_keeps_the_cache_of_the_tool() -> None:
    steps = WORKFLOW["jobs"]["audit"]["steps"]
    by_action = {step["uses"].partition("@")[0]: step for step in steps if "uses" in step}
    upload = by_action["github/codeql-action/upload-sarif"]
    assert upload["with"]["sarif_file"] == "audit.sarif"
    assert "always()" in upload["if"]
    assert WORKFLOW["permissions"]["security-events"] == "write"
    assert by_action["actions/cache"]["with"]["path"] == "~/.cache/sglang-fork-audit"
    assert by_action["actions/checkout"]["with"]["fetch-depth"] == 0


def test_the_job_of_gitlab_writes_the_reports_that_it_hands_over(demo: Demo) -> None:
    job = GITLAB["audit"]
    [script] = job["script"]
    done = run(
        script,
        demo.fork,
        **{**job["variables"], "UPSTREAM": demo.upstream, "XDG_CACHE_HOME": demo.fork / ".cache"},
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("9 findings at or above high")
    reports = job["artifacts"]["reports"]
    entries = json.loads((demo.fork / reports["codequality"]).read_text())
    assert "gate-after-read" in {entry["check_name"] for entry in entries}
    root = junitparser.JUnitXml.fromfile(str(demo.fork / reports["junit"]))
    assert root.failures == 9
    assert all((demo.fork / path).is_file() for path in job["artifacts"]["paths"])
    [kept] = job["cache"]["paths"]
    assert (demo.fork / kept).is_dir()


def instructions(text: str) -> list[tuple[str, str]]:
    lines = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    return [(line.split(" ")[0], line.partition(" ")[2]) for line in lines if line.strip()]


def test_the_dockerfile_audits_the_package_of_the_image(demo: Demo, tmp_path: Path) -> None:
    found = instructions((CI / "image-check.Dockerfile").read_text())
    assert {name for name, _ in found} == {"ARG", "FROM", "RUN", "COPY"}
    stage = found[[name for name, _ in found].index("FROM", 2) :]
    declared: dict[str, str] = {}
    for name, words in stage:
        if name == "ARG":
            key, _, declared_as = words.partition("=")
            declared[key] = declared_as
        # A variable is empty unless its stage declared it.
        assert set(re.findall(r"\$\{?(\w+)", words)) <= {*declared, "IMAGE"}
    copied = next(words.split() for name, words in stage if name == "COPY")
    assert copied[:2] == ["--from=deployed", "${PACKAGES}/sglang"]
    assert copied[2] == "/deployed/sglang"
    assert declared["UPSTREAM"].startswith("pypi:")

    [script] = [words for name, words in stage if name == "RUN" and words.startswith("audit")]
    deployed, upstream = tmp_path / "deployed", tmp_path / "upstream"
    shutil.copytree(demo.fork / "python" / "sglang", deployed / "sglang")
    subprocess.run(
        ["git", "-C", demo.fork, "worktree", "add", "--quiet", upstream, demo.upstream], check=True
    )
    assert "/deployed" in script
    assert "=/audit.json" in script
    here = script.replace("/deployed", str(deployed)).replace("=/audit.json", f"={tmp_path}/a.json")
    done = run(here, tmp_path, UPSTREAM=upstream)
    assert done.returncode == 1, done.stderr
    rules = {f["rule"] for f in json.loads((tmp_path / "a.json").read_text())["findings"]}
    assert {"gate-after-read", "ungated-buffer-read"} <= rules


@pytest.mark.parametrize(
    ("hook", "more", "status"),
    [("audit", "--upstream v0.5.17", 1), ("audit", "--upstream HEAD", 0), ("audit-serve", "", 1)],
)
def test_the_hooks_end_as_the_audit_ends(demo: Demo, hook: str, more: str, status: int) -> None:
    entry, arguments = HOOKS[hook]["entry"], HOOKS[hook].get("args", [])
    done = run(" ".join([entry, *arguments, more]), demo.fork)
    assert done.returncode == status, done.stdout + done.stderr


@pytest.mark.parametrize("hook", sorted(HOOKS))
def test_the_hooks_run_for_the_files_that_they_read(hook: str) -> None:
    files = HOOKS[hook]["files"]
    for name in ("deploy/serve.sh", "compose.yaml", "Dockerfile", "deploy/Dockerfile.gpu"):
        assert re.search(files, name), name
    assert bool(re.search(files, "python/sglang/srt/pool.py")) is (hook == "audit")
    assert not re.search(files, "README.md")


def findings(capsys: pytest.CaptureFixture[str]) -> list[tuple[Any, ...]]:
    found = json.loads(capsys.readouterr().out)["findings"]
    return [(f["rule"], f["path"], f["line"], f["origin"], f["fingerprint"]) for f in found]


def test_a_shallow_checkout_names_the_command_that_helps_and_then_works(
    demo: Demo, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["-C", str(demo.fork), "--upstream", demo.upstream, "-o", "json"]) == 1
    whole = findings(capsys)
    shallow = tmp_path / "shallow"
    clone = ["git", "clone", "--quiet", "--depth=1", "--no-tags", f"file://{demo.fork}"]
    subprocess.run([*clone, shallow], check=True)
    arguments = ["-C", str(shallow), "--upstream", demo.upstream, "-o", "json"]
    assert main(arguments) == 2
    out, told = capsys.readouterr()
    assert out == ""
    [way_out] = re.findall(r"a shallow clone may lack the tag: (git .*)", told)
    subprocess.run(way_out.split(), cwd=shallow, check=True, capture_output=True)
    assert main(arguments) == 1
    # The findings need no history here, and the report says what is missing.
    text = capsys.readouterr().out
    assert "git fetch --unshallow" in json.loads(text)["changes"]["history_note"]
    again = [
        (f["rule"], f["path"], f["line"], f["origin"], f["fingerprint"])
        for f in json.loads(text)["findings"]
    ]
    assert again == whole


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_checkout_of_another_user_is_one_line_with_the_command_that_helps(
    demo: Demo, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for path in (demo.fork, demo.fork / ".git"):
        os.chown(path, 12345, 12345)
    arguments = ["-C", str(demo.fork), "--upstream", demo.upstream, "-o", "sarif"]
    assert main(arguments) == 2
    out, told = capsys.readouterr()
    assert out == ""
    assert told.count("\n") == 1
    assert f"git refuses {demo.fork}, which belongs to another user" in told
    way_out = told.rstrip().partition("if you trust it: ")[2]
    subprocess.run(way_out.split(), check=True)
    assert main(arguments) == 1
