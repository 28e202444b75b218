"""Baselines, suppressions and --since through the command, on small repositories."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import TinyRepository
from scenarios.pools import POOL, READERS, pool

from auditor.cli.main import main
from auditor.rulebook import tree_files

Make = Callable[..., TinyRepository]
Audit = Callable[..., dict[str, Any]]

PATH = f"python/{POOL}"
OTHER = "python/sglang/srt/mem_cache/other.py"
SOUND = pool()
BROKEN = pool(READERS[1:], READERS[:1])
WORSE = pool(READERS[2:], READERS[:2])
KEYS = pool(READERS[1:], READERS[:1], name="Keys", buffer="keys", gate="fence")
WAY = "# audit: ignore[ungated-buffer-read] only the transfer thread calls it"
SERVER = {f"python/{path}": text for path, text in tree_files("serve").items()}
SCRIPT = "#!/bin/bash\npython -m sglang.launch_server --model-path /m --no-such-flag 1\n"


@pytest.fixture
def fork(tiny_repository: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TinyRepository:
    """A repository whose tag is sound, and a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = tiny_repository({PATH: SOUND})
    monkeypatch.chdir(made.top)
    return made


@pytest.fixture
def audit(capsys: pytest.CaptureFixture[str]) -> Audit:
    """Runs the command, with its status, its report and what it told beside that."""

    def run(*words: str) -> dict[str, Any]:
        capsys.readouterr()
        status = main(["--upstream", "v0.5.9", "--jobs", "1", *words, "-o", "json"])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return {"status": status, "err": err, **(json.loads(out) if out else {})}

    return run


def write(*words: str, how: str = "write") -> int:
    return main(["--upstream", "v0.5.9", "baseline", how, *words])


def told(report: dict[str, Any]) -> dict[str, str]:
    return {f["symbol"] or f["path"]: f["disposition"] for f in report["findings"]}


# -- baseline --------------------------------------------------------------------------------------


def test_what_was_accepted_stays_silent_and_what_is_new_fails(
    fork: TinyRepository, audit: Audit
) -> None:
    fork.write({PATH: BROKEN})
    assert audit()["status"] == 1
    assert write("base.json") == 0
    report = audit("--baseline", "base.json")
    assert report["status"] == 0
    assert told(report) == {"Pool.get_rows": "baselined"}
    assert report["summary"]["baselined"] == 1
    assert report["summary"]["verdict"] == "nothing at or above high · 1 baselined · exit 0"
    assert report["baseline"] == {"name": "base.json", "entries": 1, "absorbed": 1, "stale": []}

    fork.write({PATH: "# moved\n\n" + WORSE})
    report = audit("--baseline", "base.json")
    assert report["status"] == 1
    assert told(report) == {"Pool.get_rows": "baselined", "Pool.get_page": "active"}


def test_a_moved_file_is_still_accepted(fork: TinyRepository, audit: Audit) -> None:
    fork.write({PATH: BROKEN})
    write("base.json")
    (fork.top / PATH).unlink()
    fork.write({OTHER: "import os\n" + BROKEN})
    report = audit("--baseline", "base.json")
    assert (report["status"], report["baseline"]["stale"]) == (0, [])


def test_stale_entries_are_told_all_at_once_and_fail_nothing(
    fork: TinyRepository, audit: Audit
) -> None:
    fork.write({PATH: WORSE, OTHER: KEYS})
    write("base.json")
    fork.write({PATH: SOUND, OTHER: pool(name="Keys", buffer="keys", gate="fence")})
    for strict in ((), ("--strict",)):
        report = audit("--baseline", "base.json", *strict)
        assert report["status"] == 0
        stale = {entry["symbol"] for entry in report["baseline"]["stale"]}
        assert stale == {"Pool.get_rows", "Pool.get_page", "Keys.get_rows"}
        told_so = "3 entries match nothing any more in the baseline base.json"
        assert told_so in report["summary"]["warnings"]


def test_nothing_is_stale_that_was_not_looked_for(fork: TinyRepository, audit: Audit) -> None:
    fork.write({PATH: BROKEN})
    write("base.json")
    fork.write({PATH: SOUND})
    assert audit("--baseline", "base.json", "--select", "gate-removed")["baseline"]["stale"] == []
    assert audit("--baseline", "base.json", "--ignore", "ungated-buffer-read")["status"] == 0
    fork.write({PATH: "def broken(:\n"})
    report = audit("--baseline", "base.json")
    assert (report["status"], report["baseline"]["stale"]) == (3, [])


def test_filters_make_nothing_stale(fork: TinyRepository, audit: Audit) -> None:
    fork.write({PATH: BROKEN})
    write("base.json")
    report = audit("--baseline", "base.json", "--origin", "inherited")
    assert (report["status"], report["findings"]) == (0, [])
    assert report["baseline"]["stale"] == []


def test_write_again_changes_no_byte_and_prune_only_takes_out(
    fork: TinyRepository, audit: Audit, capsys: pytest.CaptureFixture[str]
) -> None:
    fork.write({PATH: BROKEN, OTHER: KEYS})
    assert write("base.json") == 0
    before = (fork.top / "base.json").read_bytes()
    assert write("base.json") == write("base.json", how="prune") == 0
    assert (fork.top / "base.json").read_bytes() == before

    fork.write({PATH: WORSE, OTHER: SOUND.replace("Pool", "Keys")})
    capsys.readouterr()
    assert write("base.json", how="prune") == 0
    assert capsys.readouterr().out == "base.json: 1 accepted, 0 added, 1 taken out\n"
    assert audit("--baseline", "base.json")["status"] == 1
    capsys.readouterr()
    assert write("base.json") == 0
    assert capsys.readouterr().out == "base.json: 2 accepted, 1 added, 0 taken out\n"
    assert audit("--baseline", "base.json")["status"] == 0


def test_what_a_comment_accepts_is_not_written(fork: TinyRepository) -> None:
    fork.write({PATH: silenced(BROKEN)})
    assert write("base.json") == 0
    assert json.loads((fork.top / "base.json").read_text())["findings"] == []


@pytest.mark.parametrize("content", ["{}", "notes", '{"schema": "audit/1", "findings": []}'])
@pytest.mark.parametrize("how", ["write", "prune"])
def test_a_file_that_is_no_baseline_is_left_alone(
    fork: TinyRepository, content: str, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (fork.top / "base.json").write_text(content)
    assert write("base.json", how=how) == 2
    assert (fork.top / "base.json").read_text() == content
    assert "is no baseline" in capsys.readouterr().err


def test_a_missing_or_broken_baseline_is_status_2(fork: TinyRepository, audit: Audit) -> None:
    report = audit("--baseline", "none.json")
    assert report["status"] == 2
    assert "there is no baseline none.json" in report["err"]
    (fork.top / "base.json").write_text("[]")
    assert audit("--baseline", "base.json")["status"] == 2
    assert write("none.json", how="prune") == 2
    assert main(["baseline", "show", "none.json"]) == 2


def test_nothing_is_written_where_the_audit_could_not_decide(
    fork: TinyRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    fork.write({PATH: BROKEN})
    write("base.json")
    before = (fork.top / "base.json").read_bytes()
    fork.write({PATH: "def broken(:\n"})
    capsys.readouterr()
    assert write("base.json") == 3
    assert write("base.json", how="prune") == 3
    assert (fork.top / "base.json").read_bytes() == before
    assert "could not decide" in capsys.readouterr().err


def test_show_lists_what_is_accepted(
    fork: TinyRepository, capsys: pytest.CaptureFixture[str]
) -> None:
    fork.write({PATH: BROKEN})
    write("base.json")
    capsys.readouterr()
    assert main(["baseline", "show", "base.json"]) == 0
    out = capsys.readouterr().out
    assert f"{PATH} Pool.get_rows" in out
    assert out.endswith("1 finding accepted\n")


def test_the_configuration_names_a_baseline_of_the_tree_only(
    fork: TinyRepository, audit: Audit, tmp_path: Path
) -> None:
    fork.write({PATH: BROKEN, "audit.toml": 'baseline = "ci/base.json"\n'})
    assert audit()["status"] == 2
    (fork.top / "ci").mkdir()
    assert write("ci/base.json") == 0
    report = audit()
    assert report["status"] == 0
    assert report["summary"]["configuration"]["baseline"] == "ci/base.json (audit.toml)"
    assert audit("--isolated")["status"] == 1
    (tmp_path / "outside.json").write_bytes((fork.top / "ci/base.json").read_bytes())
    fork.write({"audit.toml": 'baseline = "../outside.json"\n'})
    assert "leads out of the fork" in audit()["err"]
    (fork.top / "ci/base.json").unlink()
    (fork.top / "ci/base.json").symlink_to(tmp_path / "outside.json")
    fork.write({"audit.toml": 'baseline = "ci/base.json"\n'})
    assert "leads out of the fork" in audit()["err"]
    fork.write({"audit.toml": ""})
    assert audit("--baseline", str(tmp_path / "outside.json"))["status"] == 0


def test_a_baseline_of_serve_scripts(fork: TinyRepository, audit: Audit) -> None:
    fork.commit(SERVER, tag="v0.5.10")
    fork.write({"deploy/a.sh": SCRIPT})
    upstream = ("--upstream", "v0.5.10")
    assert main([*upstream, "baseline", "write", "base.json"]) == 0
    assert audit(*upstream, "--baseline", "base.json")["status"] == 0
    fork.write({"deploy/b.sh": SCRIPT})
    report = audit(*upstream, "--baseline", "base.json")
    assert report["status"] == 1
    assert told(report) == {"deploy/a.sh": "baselined", "deploy/b.sh": "active"}
    report = audit(*upstream, "--baseline", "base.json", "--serve", "deploy/b.sh")
    assert report["baseline"]["stale"] == []


# -- suppressions ----------------------------------------------------------------------------------


def silenced(text: str, comment: str = WAY) -> str:
    read = "        return self.rows[layer_id][slots]\n"
    at = text.rindex(read, 0, text.index("class PoolLoader"))
    return f"{text[:at]}        {comment}\n{text[at:]}"


def test_a_comment_silences_and_no_suppress_does_not_listen(
    fork: TinyRepository, audit: Audit
) -> None:
    fork.write({PATH: silenced(BROKEN)})
    report = audit()
    assert (report["status"], told(report)) == (0, {"Pool.get_rows": "suppressed"})
    assert report["summary"]["verdict"] == "nothing at or above high · 1 suppressed · exit 0"
    [finding] = report["findings"]
    assert finding["disposition_reason"] == "only the transfer thread calls it"
    [entry] = report["suppressions"]
    assert (entry["path"], entry["brought_by"], entry["matched"]) == (PATH, "fork", 1)

    report = audit("--no-suppress")
    assert (report["status"], told(report)) == (1, {"Pool.get_rows": "active"})
    assert report["suppressions"] == []
    assert report["summary"]["configuration"]["no-suppress"] == "yes (command line)"


def test_isolated_ignores_the_tables_of_the_tree(fork: TinyRepository, audit: Audit) -> None:
    table = '[[ignore]]\nrule = "ungated-buffer-read"\nreason = "upstream has it"\n'
    fork.write({PATH: BROKEN, "audit.toml": table})
    report = audit()
    assert (report["status"], told(report)) == (0, {"Pool.get_rows": "suppressed"})
    assert report["suppressions"][0]["path"] == "audit.toml"
    assert audit("--no-suppress")["status"] == 0
    assert audit("--isolated")["status"] == 1


def test_the_page_names_what_the_fork_brought_and_not_what_upstream_has(
    tiny_repository: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = tiny_repository({PATH: silenced(BROKEN)})
    monkeypatch.chdir(made.top)
    assert main(["--upstream", "v0.5.9"]) == 0
    assert "that the fork brought" not in capsys.readouterr().out
    made.write({PATH: silenced(BROKEN, WAY + "\x1b[2J now")})
    assert main(["--upstream", "v0.5.9"]) == 0
    out = capsys.readouterr().out
    assert "Suppressions that the fork brought · 1\n" in out
    assert "\x1b" not in out
    assert out.endswith("1 suppressed · exit 0\n")


def test_comments_in_scripts(fork: TinyRepository, audit: Audit) -> None:
    fork.commit(SERVER, tag="v0.5.10")
    way = "# audit: ignore[unknown-flag] our own build has it"
    fork.write(
        {
            "deploy/a.sh": SCRIPT.rstrip() + f"  {way}\n",
            "deploy/b.sh": f"cat <<EOF\n{way}\nEOF\n" + SCRIPT,
            "deploy/c.yaml": "jobs:\n  a:\n    steps:\n      - run: |\n"
            f"          {way}\n          {SCRIPT.splitlines()[1]}\n",
            "deploy/d.sh": f"{way}\n{SCRIPT}",
            "deploy/e.service": f"[Service]\n{way}\nExecStart={SCRIPT.splitlines()[1]}\n",
        }
    )
    report = audit("--upstream", "v0.5.10", "--fail-on", "low")
    told_of = {(f["path"], f["rule"]): f["disposition"] for f in report["findings"]}
    assert told_of == {
        ("deploy/a.sh", "unknown-flag"): "suppressed",
        ("deploy/b.sh", "unknown-flag"): "active",
        ("deploy/c.yaml", "unknown-flag"): "suppressed",
        ("deploy/d.sh", "unknown-flag"): "suppressed",
        ("deploy/e.service", "unknown-flag"): "suppressed",
    }
    assert {s["brought_by"] for s in report["suppressions"]} == {"fork"}


def test_serve_alone_knows_the_same(fork: TinyRepository, capsys: Any) -> None:
    fork.commit(SERVER, tag="v0.5.10")
    way = "# audit: ignore[unknown-flag, ungated-buffer-read] our own build has it"
    fork.write({"deploy/a.sh": SCRIPT.rstrip() + f"  {way}\n", PATH: silenced(SOUND)})
    assert main(["serve", "deploy/a.sh", "-o", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    # Rules on code were not run: nothing is said of their suppressions.
    assert told(report) == {"deploy/a.sh": "suppressed"}
    assert main(["serve", "deploy/a.sh", "--no-suppress"]) == 1


def test_a_flood_of_comments_does_not_open_the_gate(fork: TinyRepository, audit: Audit) -> None:
    fork.write({PATH: silenced(BROKEN) + "# audit: ignore[a] b\n" * 150_000})
    report = audit()
    assert report["status"] == 1
    assert [s["stage"] for s in report["skipped"]] == ["comments"]


def test_whose_comment_it_is_in_a_script_that_upstream_has_too(
    fork: TinyRepository, audit: Audit
) -> None:
    way = "# audit: ignore[unknown-flag] our own build has it"
    fork.commit({**SERVER, "deploy/a.sh": f"{way}\n{SCRIPT}"}, tag="v0.5.10")
    fork.write({"deploy/a.sh": f"{way}\n{SCRIPT}{way} too\n{SCRIPT}"})
    report = audit("--upstream", "v0.5.10", "--serve", "deploy/a.sh")
    assert [(s["line"], s["brought_by"]) for s in report["suppressions"]] == [
        (1, "upstream"),
        (4, "fork"),
    ]
    assert set(told(report).values()) == {"suppressed"}


def test_comments_are_those_of_the_revision_that_is_audited(
    fork: TinyRepository, audit: Audit
) -> None:
    silent = fork.commit({PATH: silenced(BROKEN)})
    fork.commit({PATH: BROKEN})
    assert told(audit("--rev", silent)) == {"Pool.get_rows": "suppressed"}
    assert told(audit("--rev", "HEAD")) == {"Pool.get_rows": "active"}


def test_what_is_said_of_suppressions_is_not_stale_because_a_rule_was_not_run(
    fork: TinyRepository, audit: Audit
) -> None:
    fork.write({PATH: SOUND + f"x = 1  {WAY}\n"})
    write("base.json")
    report = audit("--baseline", "base.json", "--fail-on", "low")
    assert [(f["rule"], f["disposition"]) for f in report["findings"]] == [
        ("suppression-unused", "baselined")
    ]
    for words in (("--select", "suppression-unused"), ("--no-suppress",)):
        report = audit("--baseline", "base.json", *words)
        assert (report["findings"], report["baseline"]["stale"]) == ([], [])


@pytest.mark.parametrize("words", [["baseline"], ["baseline", "write"], ["baseline", "no", "x"]])
def test_wrong_usage_is_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err.count("\n") == 1


# -- since -----------------------------------------------------------------------------------------


def test_only_what_changed_since_a_revision(fork: TinyRepository, audit: Audit) -> None:
    first = fork.commit({PATH: BROKEN, OTHER: KEYS})
    fork.write({PATH: WORSE})
    report = audit("--since", first)
    assert told(report) == {"Pool.get_page": "active"}
    assert report["summary"]["hidden"] == {"since": 2}
    assert report["summary"]["configuration"]["since"] == f"{first} (command line)"
    assert set(told(audit("--since", "v0.5.9"))) == {
        *("Pool.get_rows", "Pool.get_page", "Keys.get_rows"),
    }
    fork.commit()
    assert told(audit("--since", "HEAD")) == {}
    assert audit("--since", "HEAD")["status"] == 0


def test_comments_layout_and_moves_are_no_change(fork: TinyRepository, audit: Audit) -> None:
    first = fork.commit({PATH: BROKEN})
    fork.write({PATH: "# a comment\n\n" + BROKEN})
    assert told(audit("--since", first)) == {}
    (fork.top / PATH).unlink()
    fork.write({OTHER: BROKEN})
    assert told(audit("--since", first)) == {}


def test_a_class_whose_bases_changed_is_changed_with_all_its_methods(
    fork: TinyRepository, audit: Audit
) -> None:
    first = fork.commit({PATH: BROKEN})
    fork.write({PATH: BROKEN.replace("class Pool:", "class Pool(object):")})
    assert told(audit("--since", first)) == {"Pool.get_rows": "active"}


def test_scripts_that_changed_as_a_whole(fork: TinyRepository, audit: Audit) -> None:
    fork.commit(SERVER, tag="v0.5.10")
    first = fork.commit({"deploy/a.sh": SCRIPT, "deploy/b.sh": SCRIPT})
    fork.write({"deploy/b.sh": SCRIPT + "# more\n", "deploy/c.sh": SCRIPT})
    upstream = ("--upstream", "v0.5.10", "--since", first)
    assert set(told(audit(*upstream))) == {"deploy/b.sh", "deploy/c.sh"}
    os.chdir(fork.top / "deploy")
    assert set(told(audit("-C", "..", *upstream, "--serve", "*.sh"))) == {"b.sh", "c.sh"}


def test_with_origins_it_is_the_case_of_a_pull_request(fork: TinyRepository, audit: Audit) -> None:
    fork.commit({PATH: BROKEN}, tag="v0.5.10")
    fork.write({PATH: WORSE})
    words = ("--upstream", "v0.5.10", "--since", "HEAD", "--origin", "introduced,regressed")
    report = audit(*words)
    assert (report["status"], told(report)) == (1, {"Pool.get_page": "active"})
    assert report["summary"]["hidden"] == {"origin": 1}


@pytest.mark.parametrize(
    ("rev", "message"),
    [
        ("no-such", "--since 'no-such' is no tag or commit"),
        ("--output=x", "begins with '-'"),
        (" ", "--since: is empty"),
        ("HEAD:python", "names a file"),
    ],
)
def test_a_revision_that_is_none_is_one_clear_line(
    fork: TinyRepository, audit: Audit, rev: str, message: str
) -> None:
    report = audit(f"--since={rev}")
    assert report["status"] == 2
    assert message in report["err"]


def test_without_history_there_is_no_since(
    fork: TinyRepository, audit: Audit, tmp_path: Path
) -> None:
    plain = tmp_path / "plain" / POOL
    plain.parent.mkdir(parents=True)
    plain.write_text(BROKEN)
    report = audit("-C", str(tmp_path / "plain"), "--upstream", str(fork.top), "--since", "HEAD")
    assert report["status"] == 2
    assert report["err"].count("\n") == 1
    assert "--since 'HEAD' needs the history of the fork" in report["err"]
