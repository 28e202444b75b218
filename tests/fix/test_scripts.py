"""Words of scripts are spelled otherwise where they stand, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.repo.scripts import Scripts
from auditor.rulebook import load
from auditor.runs.fix import repair
from auditor.runs.request import AuditRequest

from .trees import fix, write

EXAMPLES = load().rule("deprecated-flag")
TREE = EXAMPLES.invalid[0].side({}) or {}
START = "python -m sglang.launch_server --model-path /models/m"


def respelled(folder: Path, name: str, text: str, *, unsafe: bool = False) -> str:
    """The script after its fixes; the tree is the small sglang of the rule pages."""
    data = text.encode("utf-8", "surrogateescape")
    done = fix(folder, {**TREE, name: data}, serve=[name], unsafe=unsafe)
    assert done.fixes
    assert [fix.reason for fix in done.fixes if fix.state != "made"] == []
    return (folder / "fork" / name).read_bytes().decode("utf-8", "surrogateescape")


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("serve.sh", f"{START} --stream-output # --stream-output\n"),
        ("serve.sh", f'MODE=" --stream-output"\n{START} \\\r\n  $MODE --port 1\r\n'),
        ("serve.sh", f"# größe 层\n{START}  '--stream-output'"),
        (
            "compose.yaml",
            (
                "services:\n  s:\n    image: lmsysorg/sglang\n    command:\n"
                "      - python3\n      - -m\n      - sglang.launch_server\n"
                "      - --model-path=/models/m\n      - '--stream-output'\n"
            ),
        ),
        (
            "Dockerfile",
            (
                "FROM lmsysorg/sglang\n"
                'CMD ["python3", "-m", "sglang.launch_server", "--model-path", "/m",'
                ' "--stream-output"]\n'
            ),
        ),
        (
            "start.py",
            (
                "import subprocess\n"
                'words = ["python", "-m", "sglang.launch_server", "--model-path", "/m"]\n'
                "subprocess.run([*words, '--stream-output'])\n"
            ),
        ),
    ],
)
def test_a_deprecated_flag_is_renamed_and_nothing_else(
    tmp_path: Path, name: str, before: str
) -> None:
    expected = before.replace("--stream-output", "--incremental-streaming-output", 1)
    assert respelled(tmp_path, name, before) == expected


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("--enable_metrics", "--enable-metrics"),
        ("--page_size=64", "--page-size=64"),
        ("--tool-call-parser qwen25", "--tool-call-parser qwen"),
        ("--tool-call-parser=qwen25", "--tool-call-parser=qwen"),
        ("--tool-call-parser \\\n  'qwen25'", "--tool-call-parser \\\n  'qwen'"),
    ],
)
def test_spellings_and_parser_names(tmp_path: Path, before: str, after: str) -> None:
    assert respelled(tmp_path, "s.sh", f"{START} {before}\n") == f"{START} {after}\n"


def test_a_key_of_a_configuration_file(tmp_path: Path) -> None:
    text = "model-path: /models/m\nenable_metrics: true\ntool-call-parser: qwen25\n"
    write(tmp_path / "fork", {"serve.yaml": text})
    script = f"{START.partition(' --')[0]} --config serve.yaml\n"
    done = fix(tmp_path, {**TREE, "serve.yaml": text, "s.sh": script}, serve=["s.sh"], unsafe=False)
    assert {fix.state for fix in done.fixes} == {"made"}
    assert (tmp_path / "fork" / "serve.yaml").read_text() == (
        "model-path: /models/m\nenable-metrics: true\ntool-call-parser: qwen\n"
    )


def test_a_variable_of_another_name_is_unsafe_where_its_kind_is_not_told(tmp_path: Path) -> None:
    text = f"export SGLANG_SPEC_ON=1\n{START}\n"
    done = fix(tmp_path / "one", {**TREE, "s.sh": text}, serve=["s.sh"], unsafe=False)
    assert [(f.applicability, f.state) for f in done.fixes] == [("unsafe", "held-back")]
    after = respelled(tmp_path / "two", "s.sh", text, unsafe=True)
    assert after == f"export SGLANG_ENABLE_SPEC=1\n{START}\n"


def test_a_renamed_prefix_is_safe_unless_the_script_reads_the_variable_too(tmp_path: Path) -> None:
    environ = TREE["sglang/srt/environ.py"] + (
        "\n\ndef _convert_old_names():\n    for key, value in list(os.environ.items()):\n"
        '        if key.startswith("SGL_"):\n'
        '            os.environ[key.replace("SGL_", "SGLANG_", 1)] = value\n'
    )
    files = {**TREE, "sglang/srt/environ.py": environ}
    told = {}
    for name, more in (("plain", ""), ("read", 'echo "$SGL_LOG_LEVEL_STEP"\n')):
        text = f"export SGL_LOG_LEVEL_STEP=5\n{more}{START}\n"
        done = fix(tmp_path / name, {**files, "s.sh": text}, serve=["s.sh"], unsafe=False)
        told[name] = [(f.finding.rule, f.applicability) for f in done.fixes]
    assert told == {
        "plain": [("deprecated-environment-name", "safe")],
        "read": [("deprecated-environment-name", "unsafe")],
    }


def test_a_flag_that_is_put_together_is_refused(tmp_path: Path) -> None:
    text = f"X=stream\n{START} --$X-output\n"
    done = fix(tmp_path, {**TREE, "s.sh": text}, serve=["s.sh"])
    assert [(f.applicability, f.state) for f in done.fixes] == [("display", "none")]
    assert (tmp_path / "fork" / "s.sh").read_text() == text


@pytest.mark.parametrize("name", ["--a;touch x", "--a b", "--a'", "--$(id)", "--a\n--b", "--a`id`"])
def test_a_hostile_tree_cannot_write_commands_into_scripts(tmp_path: Path, name: str) -> None:
    tree = {
        "sglang/srt/server_args.py": (
            "class ServerArgs:\n    @staticmethod\n    def add_cli_args(parser):\n"
            '        parser.add_argument("--model-path", type=str)\n'
            f"        parser.add_argument({name!r}, action='store_true', dest='x')\n"
            "        parser.add_argument('--old-x', action='store_true', dest='x',\n"
            f"            help='Deprecated, use the other one.', new_flag={name!r})\n"
        )
    }
    text = f"{START} --old-x\n"
    done = fix(tmp_path, {**tree, "s.sh": text}, serve=["s.sh"])
    assert [f for f in done.fixes if f.state == "made"] == []
    assert (tmp_path / "fork" / "s.sh").read_text() == text


def test_two_flags_of_one_line_are_both_renamed(tmp_path: Path) -> None:
    before = f"{START} --stream-output --enable_metrics\n{START} --stream-output\n"
    assert respelled(tmp_path, "s.sh", before) == (
        f"{START} --incremental-streaming-output --enable-metrics\n"
        f"{START} --incremental-streaming-output\n"
    )


def test_a_script_that_was_named_outside_of_the_fork_is_fixed_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"deploy/s.sh": f"{START} --enable_metrics\n", "other/t.sh": START})
    monkeypatch.chdir(tmp_path)
    fork = write(tmp_path / "fork", TREE)
    (tmp_path / "deploy" / "out.sh").symlink_to(tmp_path / "other" / "t.sh")
    request = AuditRequest(root=fork, upstream=str(fork), serve=Scripts(("deploy",), Path()))
    done = repair(request)
    assert [name for name, _, _ in done.changes] == ["deploy/s.sh"]
    assert (tmp_path / "deploy" / "s.sh").read_text() == f"{START} --enable-metrics\n"
    assert (tmp_path / "other" / "t.sh").read_text() == START


def test_a_script_that_the_fork_configures_is_fixed_only_within_the_fork(tmp_path: Path) -> None:
    text = f"{START} --enable_metrics\n"
    fork = write(tmp_path / "fork", {**TREE, "deploy/s.sh": text})
    outside = write(tmp_path / "outside", {"s.sh": text})
    scripts = Scripts(("deploy/s.sh", "../outside/s.sh"), fork, trusted=False)
    done = repair(AuditRequest(root=fork, upstream=str(fork), serve=scripts))
    assert {f.finding.hit.where.symbol.path: f.state for f in done.fixes} == {
        "deploy/s.sh": "made",
        "../outside/s.sh": "none",
    }
    assert (outside / "s.sh").read_text() == text


def test_scripts_of_a_folder_without_sglang_are_held_against_the_release(tmp_path: Path) -> None:
    deploy = write(tmp_path / "deploy", {"s.sh": f"{START} --enable_metrics\n"})
    release = write(tmp_path / "release", TREE)
    request = AuditRequest(
        root=deploy, upstream=str(release), serve=Scripts(("s.sh",), deploy, True)
    )
    done = repair(request)
    assert [fix.state for fix in done.fixes] == ["made"]
    assert (deploy / "s.sh").read_text() == f"{START} --enable-metrics\n"
