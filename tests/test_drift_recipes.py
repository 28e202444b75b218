"""The weekly recipes for the drift report: taken by their system's reader, their commands run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from auditor.demo import Demo, build

CI = Path(__file__).parent.parent / "examples" / "ci"
WORKFLOW = yaml.safe_load((CI / "github-drift.yml").read_text())
JOBS = {
    job: {step["name"]: step for step in found["steps"] if "name" in step}
    for job, found in WORKFLOW["jobs"].items()
}


@pytest.fixture
def demo(tmp_path: Path) -> Demo:
    return build(tmp_path / "fork")


def run(script: str, folder: Path, cache: Path, **variables: object) -> str:
    """What a runner does with a step: bash that stops at the first command that fails."""
    environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment |= {"XDG_CACHE_HOME": str(cache), "GIT_CONFIG_NOSYSTEM": "1"}
    environment["GIT_CONFIG_GLOBAL"] = os.devnull
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", folder, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_the_reader_of_the_system_takes_the_workflow() -> None:
    program = Path(sys.executable).with_name("check-jsonschema")
    command = [program, "--builtin-schema", "vendor.github-workflows", CI / "github-drift.yml"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_workflow_keeps_its_history_on_a_branch(demo: Demo, tmp_path: Path) -> None:
    origin = tmp_path / "origin.git"
    subprocess.run(["git", "clone", "--quiet", "--bare", demo.fork, origin], check=True)
    summary = tmp_path / "summary.md"
    for week in (1, 2):
        # As a runner begins: a fresh checkout of the branch, and an empty place for files.
        summary.write_text("")
        for job, steps in JOBS.items():
            checkout, temporary = tmp_path / f"checkout-{job}{week}", tmp_path / f"temp-{job}{week}"
            temporary.mkdir()
            clone = ["git", "clone", "--quiet", "--no-tags", "--branch", "deployed"]
            subprocess.run([*clone, str(origin), str(checkout)], check=True)
            if job == "keep":
                (temporary / "drift").mkdir()
                for file in (tmp_path / f"temp-drift{week}").iterdir():
                    shutil.copy(file, temporary / "drift")
            variables = {
                **WORKFLOW["env"],
                "UPSTREAM_URL": demo.fork,
                "RUNNER_TEMP": temporary,
                "GITHUB_STEP_SUMMARY": summary,
                "GITHUB_RUN_ID": week,
            }
            for step in steps.values():
                said = run(step["run"], checkout, tmp_path / "cache", **variables)
                assert "commits ahead" not in said
            assert git(checkout, "status", "--porcelain") == ""
        branch = WORKFLOW["env"]["HISTORY_BRANCH"]
        temporary = tmp_path / f"temp-drift{week}"
        assert git(origin, "ls-tree", "--name-only", branch) == "drift.jsonl"
        lines = git(origin, "show", f"{branch}:drift.jsonl").splitlines()
        assert [json.loads(line)["schema"] for line in lines] == ["audit-drift-line/1"] * week
        page = (temporary / "drift.html").read_text()
        assert ('role="img"' in page) is (week == 2)
        report = json.loads((temporary / "drift.json").read_text())
        assert report["drift"]["target"] == demo.target
    assert summary.read_text().startswith("**Since 20")
    assert "nothing moved" in summary.read_text()
    assert int(git(origin, "rev-list", "--count", branch)) == 3
    assert git(origin, "merge-base", "--all", "main", "deployed")


def test_the_workflow_runs_weekly_uploads_and_only_one_job_may_push() -> None:
    [schedule] = WORKFLOW[True]["schedule"]  # YAML 1.1 reads "on" so
    assert re.fullmatch(r"\d+ \d+ \* \* \d", schedule["cron"])
    assert WORKFLOW["permissions"] == {"contents": "read"}
    drift, keep = WORKFLOW["jobs"]["drift"], WORKFLOW["jobs"]["keep"]
    assert "permissions" not in drift
    assert keep["permissions"] == {"contents": "write"}
    # The job that may push installs nothing, and no script has anything put into it.
    assert not [step for step in keep["steps"] if "pip" in step.get("run", "")]
    scripts = [step["run"] for job in (drift, keep) for step in job["steps"] if "run" in step]
    assert not [script for script in scripts if "${{" in script]
    assert WORKFLOW["concurrency"]["cancel-in-progress"] is False
    steps = drift["steps"]
    by_action = {step["uses"].partition("@")[0]: step for step in steps if "uses" in step}
    assert by_action["actions/checkout"]["with"] == {
        "fetch-depth": 0,
        "persist-credentials": False,
    }
    uploaded = by_action["actions/upload-artifact"]["with"]["path"].split()
    written = re.findall(r"\$RUNNER_TEMP(/drift\.[a-z]+)\"", JOBS["drift"]["Report"]["run"])
    assert "".join(uploaded).replace("${{runner.temp}}", "") == "".join(written)
    assert any("sglang-fork-audit[html] @" in step.get("run", "") for step in steps)


def test_the_line_of_cron_reports_and_adds_to_its_history(demo: Demo, tmp_path: Path) -> None:
    script = CI / "drift-weekly.sh"
    [line] = re.findall(r"^#   (\d.*)$", script.read_text(), re.MULTILINE)
    minute, hour, *days = line.split()[:5]
    assert (int(minute) < 60, int(hour) < 24, days) == (True, True, ["*", "*", "1"])
    folder = tmp_path / "reports"
    command = f"{script} {demo.fork} {demo.upstream} {folder}"
    said = [run(command, tmp_path, tmp_path / "cache", UPSTREAM_URL=demo.fork) for _ in range(2)]
    assert "Upstream fixes that the fork misses" in said[0]
    assert said[1].startswith("**Since 20")
    assert len((folder / "drift.jsonl").read_text().splitlines()) == 2
    assert sorted(file.name for file in folder.iterdir()) == [
        *("drift.html", "drift.json", "drift.jsonl"),
    ]
