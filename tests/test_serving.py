"""Serve scripts through the whole program: what is read, from where, held against which tree."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from conftest import TinyRepository

from auditor import rulebook
from auditor.cli.main import main
from auditor.errors import UsageProblem
from auditor.model import Report
from auditor.repo.scripts import Scripts
from auditor.runs.audit import run
from auditor.runs.request import AuditRequest
from auditor.runs.serve import run_serve

Make = Callable[[Mapping[str, str | bytes]], TinyRepository]

START = "python -m sglang.launch_server --model-path org/model "
UNKNOWN_PARSER = START + "--tool-call-parser hermez\n"


def tree(**changes: str) -> dict[str, str | bytes]:
    """A checkout of the small sglang; ``changes`` are (old text, new text) joined by ``=>``."""
    files = {
        f"python/{path}" if path.startswith("sglang/") else path: text
        for path, text in rulebook.tree_files("serve").items()
    }
    for change in changes.values():
        old, new = change.split("=>")
        [path] = [path for path, text in files.items() if old in text]
        files[path] = files[path].replace(old, new)
    return dict(files)


def served(repository: TinyRepository, *paths: str, **more: object) -> Report:
    scripts = Scripts(paths, repository.top)
    request = AuditRequest(root=repository.top, serve=scripts, **more)  # type: ignore[arg-type]
    return run_serve(request)[0]


def found(report: Report) -> set[tuple[str, str, int]]:
    return {
        (f.rule, f.hit.where.symbol.path, f.hit.where.line)
        for f in report.findings
        if f.category == "serve"
    }


def test_the_forks_own_scripts_are_found_and_upstreams_are_left_alone(
    tiny_repository: Make,
) -> None:
    repository = tiny_repository({**tree(), "scripts/ci.sh": UNKNOWN_PARSER})
    repository.write({"deploy/run.sh": UNKNOWN_PARSER, "notes.txt": UNKNOWN_PARSER})
    repository.write({"test/run.sh": UNKNOWN_PARSER, "benchmark/run.sh": UNKNOWN_PARSER})
    report = run(AuditRequest(root=repository.top, upstream="v0.5.9"))
    assert found(report) == {("unknown-parser", "deploy/run.sh", 1)}
    assert [launch.path for launch in report.launches] == ["deploy/run.sh"]
    repository.write({"scripts/ci.sh": "# ours\n" + UNKNOWN_PARSER})
    report = run(AuditRequest(root=repository.top, upstream="v0.5.9"))
    assert ("unknown-parser", "scripts/ci.sh", 2) in found(report)


def test_scripts_that_are_named_are_the_only_ones(tiny_repository: Make) -> None:
    repository = tiny_repository({**tree(), "scripts/ci.sh": UNKNOWN_PARSER})
    repository.write({"deploy/run.sh": UNKNOWN_PARSER})
    request = AuditRequest(
        root=repository.top, upstream="v0.5.9", serve=Scripts(("scripts/*.sh",), repository.top)
    )
    assert found(run(request)) == {("unknown-parser", "scripts/ci.sh", 1)}


def test_a_release_as_upstream_cannot_tell_whose_scripts_these_are(
    tiny_repository: Make, tmp_path: Path
) -> None:
    repository = tiny_repository({**tree(), "scripts/ci.sh": UNKNOWN_PARSER})
    package = TinyRepository(tmp_path / "site-packages")
    package.write({p: t for p, t in rulebook.tree_files("serve").items() if p[:6] == "sglang"})
    report = run(AuditRequest(root=repository.top, upstream=str(package.top)))
    assert not report.launches
    assert any("--serve" in warning for warning in report.warnings)


def test_origins_of_settings(tiny_repository: Make) -> None:
    repository = tiny_repository(tree())
    lost = tree(lost='        "hermes": HermesDetector,\n=>')
    repository.write(lost)
    repository.write(
        {"a.sh": START + "--tool-call-parser hermes\n", "b.sh": START + "--reasoning-parser nano\n"}
    )
    report = served(repository, "a.sh", "b.sh", upstream="v0.5.9")
    origins = {f.hit.where.symbol.path: f.origin for f in report.findings}
    assert origins == {"a.sh": "regressed", "b.sh": "introduced"}
    [regressed] = [f for f in report.findings if f.origin == "regressed"]
    assert "v0.5.9" in regressed.origin_reason


def test_a_target_that_has_the_parser_is_named(tiny_repository: Make) -> None:
    repository = tiny_repository(tree())
    repository.commit(
        tree(new='        "hermes": HermesDetector,=>        "hermez": HermesDetector,')
    )
    repository.git("tag", "v0.6.0")
    repository.git("checkout", "--quiet", "v0.5.9")
    repository.write({"run.sh": UNKNOWN_PARSER})
    [finding] = served(repository, "run.sh", upstream="v0.5.9", targets=("v0.6.0",)).findings
    assert (finding.origin, finding.fixed_in) == ("introduced", "v0.6.0")


def test_scripts_beside_no_sglang_need_a_tree(tmp_path: Path, tiny_repository: Make) -> None:
    repository = tiny_repository({"run.sh": UNKNOWN_PARSER})
    with pytest.raises(UsageProblem, match=r"holds no sglang.*-C.*--upstream"):
        served(repository, "run.sh")
    package = TinyRepository(tmp_path / "release")
    package.write({p: t for p, t in rulebook.tree_files("serve").items() if p[:6] == "sglang"})
    report = served(repository, "run.sh", upstream=str(package.top))
    assert found(report) == {("unknown-parser", "run.sh", 1)}
    assert report.upstream is None


@pytest.mark.parametrize(
    ("script", "status"),
    [(UNKNOWN_PARSER, 1), (START, 0), ("echo nothing\n", 3), (None, 2)],
)
def test_exit_statuses(
    tiny_repository: Make,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    script: str | None,
    status: int,
) -> None:
    repository = tiny_repository(tree())
    if script is not None:
        repository.write({"run.sh": script})
    monkeypatch.chdir(repository.top)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert main(["serve", "run.sh", "-o", "json"]) == status
    if status == 2:
        assert "run.sh: no such file" in capsys.readouterr().err
        return
    document = json.loads(capsys.readouterr().out)
    assert document["summary"]["exit_status"] == status
    assert document["upstream"] is None


def test_the_tables_are_a_report_of_their_own(
    tiny_repository: Make,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    repository = tiny_repository(tree())
    monkeypatch.chdir(repository.top)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert main(["serve", "--tables", "-o", "json"]) == 0
    tables = json.loads(capsys.readouterr().out)["tables"]
    [hermes] = [row for row in tables["tool_parsers"] if row["name"] == "hermes"]
    assert hermes["starts"] == ["<tool_call>"]
    assert hermes["path"] == "python/sglang/srt/function_call/function_call_parser.py"
    for kind in ("reasoning_parsers", "encoders", "conversation_templates", "flags", "environment"):
        assert tables[kind]
        for row in tables[kind]:
            assert (repository.top / row["path"]).is_file()
            assert row["line"] >= 1
    assert main(["serve", "--tables"]) == 0
    page = capsys.readouterr().out
    for text in (
        "hermes",
        "deepseek-r1",
        "dsv4",
        "points-v15-chat",
        "--tp-size",
        "SGLANG_OLD_SPEC",
    ):
        assert text in page


def test_what_a_launch_holds_is_reported(tiny_repository: Make) -> None:
    repository = tiny_repository(tree())
    repository.write({"run.sh": "export SGLANG_ENABLE_SPEC=1\n" + START + '--port "$PORT"\n'})
    [launch] = served(repository, "run.sh").launches
    assert (launch.program, launch.model, launch.unresolved) == ("server", "org/model", 1)
    assert [(a.flag, a.line, a.resolved) for a in launch.arguments] == [
        ("--model-path", 2, True),
        ("--port", 2, False),
    ]
    assert [variable.name for variable in launch.environment] == ["SGLANG_ENABLE_SPEC"]


def test_the_forks_configuration_names_scripts_inside_the_fork_only(
    tiny_repository: Make,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    repository = tiny_repository(tree())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    repository.write({"run.sh": UNKNOWN_PARSER, "audit.toml": 'serve = ["run.sh"]\n'})
    monkeypatch.chdir(tmp_path)
    assert main(["serve", "-C", str(repository.top)]) == 1
    assert "run.sh:1" in capsys.readouterr().out
    repository.write({"audit.toml": 'serve = ["../outside.sh"]\n'})
    assert main(["serve", "-C", str(repository.top)]) == 2
    assert "leads out of the fork" in capsys.readouterr().err


def test_only_a_user_may_name_a_script_that_names_places_of_the_machine(
    tiny_repository: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A template elsewhere on the machine is read for a named script, not for one of the tree."""
    elsewhere = tmp_path / "elsewhere" / "call.jinja"
    elsewhere.parent.mkdir()
    elsewhere.write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    script = f"{START} --tool-call-parser hermes --chat-template {elsewhere}\n"
    repository = tiny_repository(tree())
    repository.write({"run.sh": script})
    assert "template-without-tools" in {rule for rule, _, _ in found(served(repository, "run.sh"))}
    assert "template-without-tools" not in {rule for rule, _, _ in found(served(repository))}
