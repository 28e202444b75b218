"""The demo: what it builds, wherever it is built, and every finding of its report."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from auditor.cli import output
from auditor.cli.main import main
from auditor.demo import Demo, build, packaged_examples
from auditor.errors import UsageProblem
from auditor.formats.text import columns_of
from auditor.rulebook import load, tree_files

POOLS = "python/sglang/srt/mem_cache"

# One row for each row of the table in examples/README.md; a call that leaves the gate out is
# reported at the call and at the read.
PLANTED = [
    (
        "ungated-buffer-read",
        f"{POOLS}/page_pool.py",
        "return self.scale_pages[layer_id - self.first_layer].amax(dim=0)",
        "PagePool.get_scale_peak",
        "introduced",
        "high",
    ),
    (
        "gate-after-read",
        f"{POOLS}/page_pool.py",
        "rows = self.value_pages[layer_id - self.first_layer].index_select(0, slots)",
        "PagePool.get_value_slots",
        "regressed",
        "high",
    ),
    (
        "gate-not-on-all-paths",
        f"{POOLS}/page_pool.py",
        "return self.key_pages[layer_id - self.first_layer][-count:]",
        "PagePool.get_recent_keys",
        "regressed",
        "high",
    ),
    (
        "override-drops-gate",
        "python/sglang/srt/hardware/board_pool.py",
        "return self.scale_pages[layer_id - self.first_layer].view(-1, 16, 2)",
        "BoardPool.get_scales",
        "inherited",
        "high",
    ),
    (
        "delegate-skips-gate",
        f"{POOLS}/hybrid_pool.py",
        "return self.inner.get_rope(self.index_of[layer_id], width)",
        "HybridPool.get_rope",
        "fixed-upstream",
        "high",
    ),
    (
        "gate-bypassed",
        "python/sglang/srt/layers/attention/sparse_backend.py",
        "rows = self.pool.key_pages[layer_id - self.pool.first_layer]",
        "SparseBackend.score",
        "introduced",
        "high",
    ),
    (
        "optional-gate-omitted",
        "python/sglang/srt/layers/prefetch.py",
        "pool.share_latent(index + 1, group)",
        "share_next",
        "introduced",
        "high",
    ),
    (
        "optional-gate-omitted",
        f"{POOLS}/latent_pool.py",
        "torch.distributed.broadcast(self.latent_rows[index], 0, group)",
        "LatentPool.share_latent",
        "introduced",
        "high",
    ),
    (
        "gate-parameter-dropped",
        "python/sglang/srt/disaggregation/senders.py",
        "def send_rows(self, rows, peer, ready):",
        "BatchSender.send_rows",
        "introduced",
        "high",
    ),
    (
        "gate-removed",
        f"{POOLS}/draft_stash.py",
        "return self.hidden[step]",
        "DraftStash.take_hidden",
        "regressed",
        "high",  # upstream waits there: latent, and no less severe for it
    ),
]

SCRIPT = "deploy/serve_chat.sh"
TEMPLATE = "examples/chat_template/tool_chat_template_deepseekv32.jinja"

# The same of the table on the serve script.
PLANTED_SETTINGS = [
    ("unknown-flag", SCRIPT, "--enable_metrics", "", "introduced", "high"),
    (
        "template-never-rendered",
        SCRIPT,
        f"--chat-template {TEMPLATE} \\",
        "",
        "introduced",
        "medium",
    ),
    ("deprecated-environment-name", SCRIPT, "export SGLANG_SPEC_ON=1", "", "introduced", "low"),
]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    return build(tmp_path_factory.mktemp("demo") / "fork")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    main([*arguments, "-o", "json"])
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


@pytest.mark.parametrize("width", [60, 80])
def test_what_is_in_order_keeps_to_the_screen(
    demo: Demo, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "_PIPED_WIDTH", width)
    main(["-C", str(demo.fork), "--upstream", demo.upstream, "-v"])
    page = capsys.readouterr().out
    section = page[page.index("\nIn order · ") :].split("\n\n")[0].splitlines()
    assert len(section) > 10
    assert [line for line in section if columns_of(line) > width] == []


def git(checkout: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(checkout), *arguments], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_every_planted_defect_is_found_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = report(capsys, "demo", str(tmp_path / "fork"))
    told = []
    for finding in found["findings"]:
        text = (tmp_path / "fork" / finding["path"]).read_text().splitlines()
        row = (finding["path"], text[finding["line"] - 1].strip(), finding["symbol"])
        told.append((finding["rule"], *row, finding["origin"], finding["severity"]))
    assert sorted(told) == sorted(PLANTED + PLANTED_SETTINGS)
    assert found["skipped"] == []
    assert found["target"][0]["ref"] == "v0.5.18"
    fixed = [f["fixed_in"] for f in found["findings"] if f["origin"] == "fixed-upstream"]
    assert fixed == ["v0.5.18"]


def test_each_rule_on_gates_has_a_planted_defect_that_the_page_explains() -> None:
    rules = {rule.id for rule in load().rules if rule.check == "sibling-gates"}
    assert {row[0] for row in PLANTED} == rules
    page = (packaged_examples() / "README.md").read_text()
    table = [line.split("|") for line in page.splitlines() if line.startswith("| `")]
    rows = {(cells[1].strip(" `"), cells[2].strip(" `"), cells[5].strip()) for cells in table}
    wanted = {
        (rule, f"{path.partition('srt/')[2]}` `{symbol}", origin)
        for rule, path, _, symbol, origin, _ in PLANTED
    }
    settings = {
        (rule, text.strip(" \\"), origin) for rule, _, text, _, origin, _ in PLANTED_SETTINGS
    }
    assert rows == wanted | settings


def test_sound_code_of_the_fork_is_counted_as_in_order(
    demo: Demo, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("-C", str(demo.fork), "--upstream", demo.upstream)
    checked = {row["subject"]: row for row in report(capsys, *arguments)["checked"]}
    for buffer in ("StatePool.conv_states", "StatePool.scan_states", "BoardPool.value_pages"):
        assert checked[buffer]["held"] == checked[buffer]["total"] >= 1


# What the launch of the script makes of each planted defect of the code.
DEPLOYED = {
    "PagePool.get_scale_peak": "on",
    "PagePool.get_value_slots": "on",
    "PagePool.get_recent_keys": "on",
    "SparseBackend.score": "on",
    "share_next": "on",
    "LatentPool.share_latent": "on",
    "HybridPool.get_rope": "on",
    "BoardPool.get_scales": "undecided",  # on a board alone
    "DraftStash.take_hidden": "off",  # with a draft model alone
    "BatchSender.send_rows": "off",  # on a prefill server alone
}


def test_each_defect_says_whether_the_launch_turns_it_on(
    demo: Demo, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["-C", str(demo.fork), "--upstream", demo.upstream, "-o", "json"]
    status = main(words)
    rows = json.loads(capsys.readouterr().out)["findings"]
    code = [row for row in rows if row["category"] == "sync"]
    assert {row["symbol"]: row["deployment"]["state"] for row in code} == DEPLOYED
    for row in code:
        ours = row["deployment"]
        if ours["state"] == "on":
            [place] = ours["turned_on"]
            text = (demo.fork / place["path"]).read_text().splitlines()[place["line"] - 1]
            assert (place["path"], text.strip(" \\")) == (SCRIPT, "--enable-hierarchical-cache")
            assert place["setting"] == "--enable-hierarchical-cache"
            assert "take --enable-hierarchical-cache out" in ours["mitigation"]
    # It changes no severity and no status: what is off is only hidden where that is asked for.
    off = {symbol for symbol, state in DEPLOYED.items() if state == "off"}
    assert [row["severity"] for row in code if row["symbol"] == "BatchSender.send_rows"] == ["high"]
    assert main([*words, "--reachable"]) == status == 1
    document = json.loads(capsys.readouterr().out)
    assert {row["symbol"] for row in rows} - off == {row["symbol"] for row in document["findings"]}
    assert document["summary"]["hidden"] == {"reachable": len(off)}


def test_the_checkout_is_the_example_fork(demo: Demo) -> None:
    def tree(folder: Path) -> dict[str, bytes]:
        files = (path for path in (folder / "python").rglob("*") if path.is_file())
        return {str(path.relative_to(folder)): path.read_bytes() for path in files}

    settings = tree_files("serve")
    wanted = tree(packaged_examples() / "fork")
    for path, text in settings.items():
        if path.startswith("sglang/"):
            wanted.setdefault(f"python/{path}", text.encode())
    assert tree(demo.fork) == wanted
    assert git(demo.fork, "status", "--porcelain") == ""
    assert git(demo.fork, "tag", "--list").split() == ["v0.5.17", "v0.5.18"]
    assert git(demo.fork, "merge-base", "HEAD", demo.target) == git(
        demo.fork, "rev-parse", demo.upstream
    )


def test_the_repository_does_not_depend_on_the_users_git(
    demo: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("pre-commit", "commit-msg", "post-checkout"):
        (hooks / name).write_text("#!/bin/sh\nexit 1\n")
        (hooks / name).chmod(0o755)
    settings = tmp_path / "gitconfig"
    settings.write_text(
        f"[core]\n hooksPath = {hooks}\n autocrlf = true\n excludesFile = {tmp_path}/ignored\n"
        "[commit]\n gpgSign = true\n[tag]\n gpgSign = true\n[gpg]\n program = false\n"
        "[init]\n defaultBranch = trunk\n[user]\n useConfigOnly = true\n"
    )
    (tmp_path / "ignored").write_text("*.py\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_AUTHOR_DATE", "2001-01-01T00:00:00Z")
    monkeypatch.setenv("HOME", str(tmp_path))
    made = build(tmp_path / "fork")
    for name in list(os.environ):
        if name.startswith("GIT_"):
            monkeypatch.delenv(name)
    assert git(made.fork, "rev-parse", "HEAD") == git(demo.fork, "rev-parse", "HEAD")


def test_files_of_one_size_and_date_do_not_pass_for_each_other(
    demo: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = tmp_path / "examples"
    shutil.copytree(packaged_examples(), examples)
    for path in examples.rglob("*"):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    monkeypatch.setattr("auditor.demo.packaged_examples", lambda: examples)
    made = build(tmp_path / "fork")
    for name in ("HEAD", demo.upstream, demo.target):
        assert git(made.fork, "rev-parse", name) == git(demo.fork, "rev-parse", name)


def test_a_folder_with_something_in_it_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(UsageProblem, match="is not empty"):
        build(tmp_path)
    assert main(["demo", str(tmp_path)]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    with pytest.raises(UsageProblem, match="cannot be made a folder"):
        build(tmp_path / "mine")


def test_without_git_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageProblem, match="needs the git program"):
        build(tmp_path / "fork")


def test_the_page_says_what_to_try_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", str(tmp_path / "fork")]) == 1
    shown = capsys.readouterr()
    assert shown.out.startswith("11 findings at or above high (10 causes)")
    assert f"cd {tmp_path / 'fork'}" in shown.err
    assert main(["demo", str(tmp_path / "other"), "-q", "--fail-on", "never"]) == 0
    assert capsys.readouterr().err == ""


def test_the_options_of_a_fork_mean_nothing_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--upstream", "v0.5.17", "demo"]) == 2
    assert "--upstream means nothing to 'audit demo'" in capsys.readouterr().err
