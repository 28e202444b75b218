from __future__ import annotations

import os
from pathlib import Path

import pytest

from auditor.config import FILES, OPTIONS, Output, fork_root, settle
from auditor.errors import UsageProblem


def fork(folder: Path, text: str = "", name: str = "audit.toml") -> Path:
    root = folder / "fork"
    (root / ".git").mkdir(parents=True, exist_ok=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    if text:
        (root / name).write_text(text)
    return root


def test_defaults(tmp_path: Path) -> None:
    settings = settle({}, fork(tmp_path))
    assert (settings.fail_on, settings.min_confidence, settings.jobs) == ("high", "medium", 0)
    assert settings.outputs == (Output("table", None),)
    assert settings.upstream is None
    assert settings.configuration == {
        "min-confidence": "medium (default)",
        "fail-on": "high (default)",
    }


ALL = """
upstream = "v0.5.17"
rev = "main"
target = ["v0.5.18", "pypi:0.5.19"]
serve = ["deploy/*.sh"]
select = ["a-rule", "b-rule"]
ignore = "c-rule, d-rule"
min-confidence = "low"
fail-on = "never"
origin = ["introduced", "regressed"]
since = "main~2"
baseline = "base.json"
no-suppress = true
reachable = true
output = ["json"]
rules = "more"
strict = true
jobs = 2
color = false
quiet = true
"""


def test_every_option_can_be_configured_and_is_reported(tmp_path: Path) -> None:
    root = fork(tmp_path, ALL)
    (root / "more").mkdir()
    settings = settle({}, root)
    assert (settings.upstream, settings.rev) == ("v0.5.17", "main")
    assert settings.targets == ("v0.5.18", "pypi:0.5.19")
    assert (settings.serve, settings.serve_base) == (("deploy/*.sh",), root)
    assert not settings.serve_trusted
    assert (settings.select, settings.ignore) == (("a-rule", "b-rule"), ("c-rule", "d-rule"))
    assert (settings.min_confidence, settings.fail_on) == ("low", "never")
    assert settings.origins == ("introduced", "regressed")
    assert (settings.since, settings.baseline) == ("main~2", root / "base.json")
    assert not settings.comments
    assert settings.reachable
    assert settings.outputs == (Output("json", None),)
    assert settings.rules_dirs == (root / "more",)
    assert (settings.strict, settings.jobs, settings.color) == (True, 2, False)
    assert (settings.quiet, settings.verbose) == (True, False)
    assert settings.configuration == {
        "upstream": "v0.5.17 (audit.toml)",
        "rev": "main (audit.toml)",
        "target": "v0.5.18, pypi:0.5.19 (audit.toml)",
        "serve": "deploy/*.sh (audit.toml)",
        "select": "a-rule, b-rule (audit.toml)",
        "ignore": "c-rule, d-rule (audit.toml)",
        "min-confidence": "low (audit.toml)",
        "fail-on": "never (audit.toml)",
        "origin": "introduced, regressed (audit.toml)",
        "since": "main~2 (audit.toml)",
        "baseline": "base.json (audit.toml)",
        "no-suppress": "yes (audit.toml)",
        "reachable": "yes (audit.toml)",
        "rules": "more (audit.toml)",
        "strict": "yes (audit.toml)",
    }
    assert set(OPTIONS) == {line.split(" =")[0] for line in ALL.split("\n") if line} | {"verbose"}


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    root = fork(tmp_path, 'fail-on = "never"\nselect = ["a"]\nstrict = true\n')
    settings = settle({"fail-on": "low", "select": ("b,c", "d")}, root)
    assert (settings.fail_on, settings.select, settings.strict) == ("low", ("b", "c", "d"), True)
    assert settings.configuration["fail-on"] == "low (command line)"
    assert settings.configuration["strict"] == "yes (audit.toml)"


def test_pyproject_and_a_folder_below_the_top(tmp_path: Path) -> None:
    root = fork(tmp_path, '[tool.audit]\nupstream = "v1"\n', "pyproject.toml")
    below = root / "python" / "sglang"
    below.mkdir(parents=True)
    assert settle({}, below).upstream == "v1"
    assert settle({}, below).configuration["upstream"] == "v1 (pyproject.toml)"
    assert fork_root(below) == root


@pytest.mark.parametrize("text", ["[tool.black]\n", "[project]\nname = 'audit'\n", "not toml ["])
def test_a_pyproject_that_does_not_configure_audit_is_none_of_ours(
    tmp_path: Path, text: str
) -> None:
    assert settle({}, fork(tmp_path, text, "pyproject.toml")).upstream is None


def test_both_files_are_an_error_and_isolated_ignores_them(tmp_path: Path) -> None:
    fork(tmp_path, '[tool.audit]\nupstream = "v1"\n', "pyproject.toml")
    root = fork(tmp_path, 'upstream = "v2"\n')
    with pytest.raises(UsageProblem, match=r"both there"):
        settle({}, root)
    assert settle({}, root, isolated=True).upstream is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('upstrem = "v1"', r"audit\.toml: there is no key 'upstrem'; did you mean upstream\?"),
        ('fail_on = "high"', r"there is no key 'fail_on'; did you mean fail-on\?"),
        ("zzz = 1", r"known are upstream, rev"),
        ("upstream = 5", r"audit\.toml: upstream: must be text, not 5"),
        ('upstream = ""', r"upstream: is empty"),
        ('upstream = "a\\u0000b"', r"upstream: holds a NUL"),
        ("target = [1]", r"target: must be text, not 1"),
        ('strict = "yes"', r"strict: must be true or false"),
        ("jobs = true", r"jobs: must be a number"),
        ("jobs = 100000", r"jobs: must be from 0 .* to 256"),
        ('fail-on = "hihg"', r"fail-on: 'hihg' is none of critical, .*; did you mean high\?"),
        ('origin = "inherit"', r"origin: 'inherit' is none of .*did you mean inherited"),
        ('output = "jsn"', r"output: 'jsn' is none of table, json, .*; did you mean json\?"),
        ('output = ["json", "table"]', r"only one format can go to standard output"),
        ("verbose = true\nquiet = true", r"exclude each other"),
        ("[[[", r"audit\.toml: is not TOML"),
        ("a = " + "[" * 20_000, r"audit\.toml: is n"),
        ('x = "' + "y" * 300_000 + '"', r"audit\.toml: is larger than 256 KiB"),
        ("tool = {audit = 3}", r"tool\.audit is no table"),
    ],
)
def test_a_wrong_file_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageProblem, match=message) as caught:
        settle({}, fork(tmp_path, text))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_bytes_that_are_no_utf_8(tmp_path: Path) -> None:
    root = fork(tmp_path)
    (root / "audit.toml").write_bytes(b'upstream = "\xff"')
    with pytest.raises(UsageProblem, match=r"audit\.toml: is not UTF-8"):
        settle({}, root)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_a_link_out_of_the_tree_a_folder_or_a_pipe_is_not_read(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "outside.toml").write_text('[tool.audit]\nupstream = "v1"\n')
    root = fork(tmp_path)
    (root / name).symlink_to(tmp_path / "outside.toml")
    with pytest.raises(UsageProblem, match=rf"{name}: is a link out of the fork .*--isolated"):
        settle({}, root)
    (root / name).unlink()
    (root / name).mkdir()
    with pytest.raises(UsageProblem, match=rf"{name}: is no file"):
        settle({}, root)
    (root / name).rmdir()
    os.mkfifo(root / name)
    with pytest.raises(UsageProblem, match=rf"{name}: is no file"):
        settle({}, root)
    assert settle({}, root, isolated=True).upstream is None


OUTSIDE = ["../outside", "link", "{outside}", "link/below", "loop"]


@pytest.mark.parametrize("key", ["rules", "upstream", "target", "baseline"])
@pytest.mark.parametrize("value", OUTSIDE)
def test_the_trees_own_file_reads_nothing_outside_of_the_tree(
    tmp_path: Path, key: str, value: str
) -> None:
    outside = tmp_path / "outside"
    (outside / "below").mkdir(parents=True)
    root = fork(tmp_path, f'{key} = "{value.format(outside=outside)}"\n')
    (root / "link").symlink_to(outside)
    (root / "loop").symlink_to("loop")
    with pytest.raises(UsageProblem, match=rf"audit\.toml: {key}: .* leads out of the fork"):
        settle({}, root)


def test_a_reference_of_the_tree_is_no_folder_of_where_the_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "private").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageProblem, match="leads out of the fork"):
        settle({}, fork(tmp_path, 'upstream = "private"\n'))
    with pytest.raises(UsageProblem, match="outside of the fork"):
        settle({}, fork(tmp_path, 'upstream = "~/private"\n'))


def test_a_rules_folder_of_the_tree_cannot_hold_links_out_or_pipes(tmp_path: Path) -> None:
    root = fork(tmp_path, 'rules = "more"\n')
    (root / "more" / "sync").mkdir(parents=True)
    assert settle({}, root).rules_dirs == (root / "more",)
    (root / "more" / "sync" / "x.yaml").symlink_to("/etc/hostname")
    with pytest.raises(UsageProblem, match="leads out of the fork"):
        settle({}, root)
    (root / "more" / "sync" / "x.yaml").unlink()
    os.mkfifo(root / "more" / "sync" / "x.yaml")
    with pytest.raises(UsageProblem, match="is no file"):
        settle({}, root)


def test_the_trees_own_file_cannot_write(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="cannot write files"):
        settle({}, fork(tmp_path, 'output = ["json=.git/config"]\n'))


def test_folders_of_the_tree_are_taken_from_the_tree(tmp_path: Path) -> None:
    root = fork(tmp_path, 'upstream = "vendor/upstream"\ntarget = ["vendor/none"]\n')
    (root / "vendor" / "upstream").mkdir(parents=True)
    settings = settle({}, root)
    assert settings.upstream == str(root / "vendor" / "upstream")
    assert settings.targets == ("vendor/none",)
    assert settings.configuration["upstream"] == "vendor/upstream (audit.toml)"


def test_a_file_that_the_user_names_is_trusted(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    file = tmp_path / "mine.toml"
    file.write_text('rules = "outside"\nupstream = "outside"\noutput = "json=out.json"\n')
    root = fork(tmp_path, 'upstream = "v1"\n')
    settings = settle({}, root, file)
    assert settings.rules_dirs == (outside,)
    assert settings.upstream == str(outside)
    assert settings.outputs == (Output("json", tmp_path / "out.json"), Output("table", None))
    assert settings.configuration["upstream"] == "outside (mine.toml)"
    assert str(tmp_path) not in str(settings.configuration)


def test_a_named_file_must_be_there_and_configure_audit(tmp_path: Path) -> None:
    root = fork(tmp_path)
    with pytest.raises(UsageProblem, match=r"none\.toml: cannot be read: No such file"):
        settle({}, root, tmp_path / "none.toml")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    with pytest.raises(UsageProblem, match=r"there is no \[tool\.audit\]"):
        settle({}, root, tmp_path / "pyproject.toml")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"fail-on": "hgh"}, r"--fail-on: 'hgh' is none of .*did you mean high"),
        ({"output": ("json", "table")}, r"--output: only one format"),
        ({"output": ("json=a", "table=a")}, r"two formats go to one file"),
        ({"output": ("json=",)}, r"names no file"),
        ({"jobs": -1}, r"--jobs: must be from 0"),
        ({"upstream": " "}, r"--upstream: is empty"),
    ],
)
def test_wrong_options_are_one_clear_line(
    tmp_path: Path, given: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageProblem, match=message):
        settle(given, fork(tmp_path))


def test_a_fork_that_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="there is no such folder"):
        settle({}, tmp_path / "none")
