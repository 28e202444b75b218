"""What the command says of the release that a fork is based on."""

from __future__ import annotations

import json

import pytest

from auditor.cli.main import main

ROOT = "python/sglang"


@pytest.fixture
def fork(tiny_repository, tmp_path, monkeypatch):
    """Upstream at v0.5.9, v0.5.10 and v0.5.11, each on a branch; the fork left v0.5.10."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    names = [f"{ROOT}/srt/m{number:02}.py" for number in range(30)]
    repository = tiny_repository(dict.fromkeys(names, "x = 9\n"))
    for number, changed in ((10, 12), (11, 24)):
        repository.commit(dict.fromkeys(names[:changed], f"x = {number}\n"))
        repository.git("switch", "--quiet", "--create", f"release/{number}")
        repository.commit({}, "release", f"v0.5.{number}")
        repository.git("switch", "--quiet", "main")
    repository.git("switch", "--quiet", "--create", "deploy", "v0.5.10")
    repository.commit({f"{ROOT}/own.py": "own = 1\n"}, "own")
    return repository


def run(fork, *arguments: str) -> int:
    return main([*arguments, "-C", str(fork.top), "--isolated"])


def test_without_upstream_the_base_is_named_and_nothing_is_audited(fork, capsys):
    assert run(fork) == 2
    told = capsys.readouterr()
    assert not told.out
    assert told.err == (
        "audit: say which upstream release to compare with: --upstream v0.5.10, the closest to"
        " this fork (v0.5.10: 30 of 30 Python files unchanged here, 100 %; v0.5.9: 18 of 30,"
        " 60 %)\n"
    )


@pytest.mark.parametrize(("upstream", "relation"), [("v0.5.9", "older"), ("v0.5.11", "newer")])
def test_a_wrong_upstream_stands_under_the_verdict(fork, capsys, upstream, relation):
    assert run(fork, "--upstream", upstream, "-q") == 0
    verdict, *warning = capsys.readouterr().out.splitlines()
    assert verdict.endswith("exit 0")
    text = " ".join(line.strip() for line in warning)
    assert text.startswith(f"warning: {upstream} is {relation} than v0.5.10, the release that this")
    assert run(fork, "--upstream", upstream, "--strict", "-q") == 3


def test_the_right_upstream_is_silent_also_where_strict(fork, capsys):
    assert run(fork, "--upstream", "v0.5.10", "--strict", "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["summary"]["mismatch"] == ""
    assert document["closest"]["found"][0] == {"ref": "v0.5.10", "equal": 30, "total": 30}
    assert document["changes"]["own_commits"] == 1


@pytest.mark.parametrize("form", ["table", "markdown", "json", "html"])
def test_drift_says_so_in_every_format(fork, capsys, form):
    run(fork, "drift", "--upstream", "v0.5.9", "--target", "v0.5.11", "-o", form)
    assert "v0.5.9 is older than v0.5.10" in " ".join(capsys.readouterr().out.split())


def test_serve_says_so_too(fork, capsys):
    fork.write({"deploy/run.sh": "python -m sglang.launch_server --model-path m\n"})
    fork.commit({}, "script")
    run(fork, "serve", "--upstream", "v0.5.11", "-o", "json")
    summary = json.loads(capsys.readouterr().out)["summary"]
    assert summary["mismatch"].startswith("v0.5.11 is newer than v0.5.10")
