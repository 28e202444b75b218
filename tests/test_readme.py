"""What the recipes and CONTRIBUTING say is what the tool does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from auditor.cli.audit import audit as cli
from auditor.cli.main import main
from auditor.demo import Demo, build
from auditor.runs.audit import audit_sources
from auditor.runs.rules import load

ROOT = Path(__file__).parent.parent
CI = ROOT / "examples" / "ci"

PARAMETERS = [p for command in (cli, *cli.commands.values()) for p in command.params]
OPTIONS = {name for p in PARAMETERS for name in (*p.opts, *p.secondary_opts)}


def options(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z]+(?:-[a-z]+)*", text))


def audit_commands(text: str) -> str:
    """The lines that call audit, with those that continue them."""
    lines = text.replace("\\\n", " ").splitlines()
    return "\n".join(line for line in lines if re.search(r"(^|\s)audit\s", line))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    return build(tmp_path_factory.mktemp("demo") / "fork")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_the_recipes_use_options_that_exist() -> None:
    for recipe in CI.iterdir():
        text = recipe.read_text().replace(">-\n", " \\\n").replace("\n          --", " --")
        used = options(audit_commands(text))
        assert used
        assert used <= OPTIONS, recipe.name


@pytest.mark.parametrize(("upstream", "status"), [("v0.5.17", 1), ("HEAD", 0), ("v9.9", 2)])
def test_the_shell_recipe_ends_with_the_status_of_the_audit(
    demo: Demo, tmp_path: Path, upstream: str, status: int
) -> None:
    done = subprocess.run(
        [CI / "pre-deploy.sh", demo.fork, upstream, tmp_path / "reports"],
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert done.stderr.rstrip().splitlines()[-1].startswith("audit: ")
    if status < 2:
        report = json.loads((tmp_path / "reports" / "audit.json").read_text())
        origins = {finding["origin"] for finding in report["findings"]}
        assert origins <= {"introduced", "regressed", "unknown"}
        assert report["summary"]["exit_status"] == status


def test_the_rule_that_contributing_shows_works(
    tmp_path: Path, demo: Demo, capsys: pytest.CaptureFixture[str]
) -> None:
    page, vocabulary = re.findall(
        r"^```yaml\n(.*?)^```$", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE | re.DOTALL
    )
    (tmp_path / "sync").mkdir()
    (tmp_path / "sync" / "late-wait-stops-us.yaml").write_text(page)
    (tmp_path / "vocab").mkdir()
    (tmp_path / "vocab" / "waits.yaml").write_text(vocabulary)
    book = load([tmp_path])
    rule = book.rule("late-wait-stops-us")
    assert rule.keeps_severity  # it "stops a deployment whatever their reach"
    for example in (*rule.invalid, *rule.valid):
        found = audit_sources(example.fork, rulebook=book).findings
        places = {(f.hit.where.symbol.path, f.hit.where.line, f.rule) for f in found}
        assert places == example.marks()
    assert book.vocabulary.primitive_waits["ready"] == "keyed"

    arguments = ["-C", str(demo.fork), "--upstream", demo.upstream, "-o", "json"]
    arguments += ["--rules", str(tmp_path), "--ignore", "gate-after-read"]
    assert main([*arguments, "--fail-on", "critical"]) == 1
    late = [
        (finding["symbol"], finding["severity"])
        for finding in json.loads(capsys.readouterr().out)["findings"]
        if finding["rule"] == rule.id
    ]
    assert late == [("PagePool.get_value_slots", "critical")]


@pytest.mark.parametrize("check", ["sibling-gates", "lost-waits"])
def test_contributing_names_the_rule_of_every_shape(check: str) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text.split(f"The check `{check}`")[1].split("The check `")[0]
    rows = re.findall(r"^\| `([a-z-]+)`[^|]*\| `([a-z-]+)` \|$", section, re.MULTILINE)
    assert dict(rows) == {str(r.params["shape"]): r.id for r in load().rules if r.check == check}
