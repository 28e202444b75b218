"""The command: what it prints where, what it changes, and how it ends."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from auditor.cli.main import main

from .trees import HEAD, POOL, method

OPEN = method("def get_mean(self, layer_id):\n    return self.pages[layer_id - self.first].mean()")
CLOSED = OPEN.replace(
    "        return",
    "        if self.counter is not None:\n"
    "            self.counter.wait_until(layer_id - self.first)\n"
    "        return",
)
PATH = f"python/{POOL}"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def fork(tiny_repository) -> Path:
    made = tiny_repository({PATH: HEAD})
    made.commit({PATH: HEAD + OPEN})
    top: Path = made.top
    return top


def run(fork: Path, *options: str) -> int:
    return main(["fix", "-C", str(fork), "--upstream", "v0.5.9", *options])


def test_unsafe_edits_are_listed_and_not_made(
    fork: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(fork) == 1
    out, err = capsys.readouterr()
    assert "0 of 1 finding fixed · 1 held back: --unsafe makes them" in out
    read_at = HEAD.count("\n") + 3
    assert f"{PATH}:{read_at} PagePool.get_mean" in out
    assert "ungated-buffer-read · unsafe · waits as PagePool.get_page_slots does" in out
    assert err == ""
    assert (fork / PATH).read_text() == HEAD + OPEN


def test_unsafe_makes_them_and_a_second_run_has_nothing_to_do(
    fork: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(fork, "--unsafe") == 0
    assert "1 of 1 finding fixed" in capsys.readouterr().out
    assert (fork / PATH).read_text() == HEAD + CLOSED
    assert run(fork) == 0
    assert capsys.readouterr().out == "nothing to fix\n"
    assert main(["-C", str(fork), "--upstream", "v0.5.9", "-q"]) == 0


def test_diff_prints_what_git_takes_and_changes_nothing(
    fork: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run(fork, "--unsafe", "--diff") == 0
    out, err = capfdbinary.readouterr()
    assert out.startswith(f"diff --git a/{PATH} b/{PATH}\n".encode())
    assert b"1 of 1 finding would be fixed" in err
    assert (fork / PATH).read_text() == HEAD + OPEN
    subprocess.run(["git", "apply", "-"], cwd=fork, input=out, check=True)
    assert (fork / PATH).read_text() == HEAD + CLOSED


def test_diff_of_safe_edits_alone_says_what_it_leaves_out(
    fork: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(fork, "--diff") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "1 held back" in err


def test_from_a_folder_of_the_checkout_names_start_at_its_top(
    fork: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(fork / "python")
    assert main(["fix", "--upstream", "v0.5.9", "--unsafe", "--diff"]) == 0
    assert f"--- a/{PATH}\n".encode() in capfdbinary.readouterr().out


def test_filters_choose_what_is_fixed(fork: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(fork, "--unsafe", "--origin", "inherited") == 0
    assert run(fork, "--unsafe", "--rule", "unknown-flag") == 0
    assert run(fork, "--unsafe", "--ignore", "ungated-buffer-read") == 0
    assert capsys.readouterr().out == "nothing to fix\n" * 3
    assert (fork / PATH).read_text() == HEAD + OPEN


def test_what_was_accepted_is_left_alone(fork: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = "  # audit: ignore[ungated-buffer-read] read before any load\n"
    accepted = OPEN.rstrip() + told
    (fork / PATH).write_text(HEAD + accepted)
    assert run(fork, "--unsafe") == 0
    assert capsys.readouterr().out == "nothing to fix\n"
    assert (fork / PATH).read_text() == HEAD + accepted
    # The neighbour's fix does not care for what the comment says of this one.
    more = OPEN.replace("get_mean", "get_sum").replace("mean()", "sum()")
    (fork / PATH).write_text(HEAD + accepted + more)
    assert run(fork, "--unsafe") == 0
    after = CLOSED.replace("get_mean", "get_sum").replace("mean()", "sum()")
    assert (fork / PATH).read_text() == HEAD + accepted + after


def test_a_baseline_accepts_too(fork: Path, tmp_path: Path) -> None:
    accepted = tmp_path / "accepted.json"
    chosen = ["-C", str(fork), "--upstream", "v0.5.9"]
    assert main(["baseline", "write", str(accepted), *chosen]) == 0
    assert run(fork, "--unsafe", "--baseline", str(accepted)) == 0
    assert (fork / PATH).read_text() == HEAD + OPEN


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--rule", "no-such-rule"], "no-such-rule"),
        (["--rev", "v0.5.9"], "--rev"),
        (["--upstream", "v9"], "v9"),
    ],
)
def test_wrong_usage_is_one_line(
    fork: Path, options: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(fork, *options) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert told in err
    assert err.startswith("audit: ")
    assert (fork / PATH).read_text() == HEAD + OPEN


def test_uncommitted_work_is_fixed_as_it_stands(
    fork: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = "\n\ndef uncommitted():\n    return 1\n"
    (fork / PATH).write_text(HEAD + OPEN + more)
    assert run(fork, "--unsafe") == 0
    assert (fork / PATH).read_text() == HEAD + CLOSED + more
