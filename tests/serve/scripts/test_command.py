"""What one command says: which program it starts, with which flags, in which surroundings."""

from __future__ import annotations

import shlex

import pytest

from auditor.model import Argument, Launch, Pin, Variable
from auditor.serve.scripts.command import launch_of
from auditor.serve.scripts.words import Setting, Word


def words(text: str) -> list[Word]:
    """Splits a command; each word's column is its number, and one with a `$` is unresolved."""
    return [
        Word(part, "run.sh", 3, number, resolved="$" not in part)
        for number, part in enumerate(shlex.split(text), 1)
    ]


def launch(text: str) -> Launch:
    found = launch_of(words(text), Setting(), "shell")
    assert found is not None
    return found


def flags(found: Launch) -> list[tuple[str, str | None]]:
    return [(argument.flag, argument.value) for argument in found.arguments]


def test_flags_have_all_words_up_to_the_next():
    found = launch(
        "python3 -m sglang.launch_server --model-path m --tp=8 --bs 1 2 -1 --trust-remote-code"
        " --limit '{\"image\": 2}' -x 3"
    )
    assert (found.program, found.command) == ("server", "python -m sglang.launch_server")
    assert flags(found) == [
        ("--model-path", "m"),
        ("--tp", "8"),
        ("--bs", "1 2 -1"),
        ("--trust-remote-code", None),
        ("--limit", '{"image": 2}'),
        ("-x", "3"),
    ]
    assert [argument.column for argument in found.arguments] == [4, 6, 7, 11, 12, 14]
    assert (found.model, found.line, found.unresolved) == ("m", 3, 0)


def test_an_unknown_value_keeps_its_text_and_unknown_words_are_no_value():
    found = launch("sglang serve --port $PORT --host 0.0.0.0 $REST --enable-metrics $EXTRA_ARGS")
    assert flags(found) == [
        ("--port", "$PORT"),
        ("--host", "0.0.0.0"),
        ("--enable-metrics", None),
    ]
    assert [argument.resolved for argument in found.arguments] == [False, True, True]
    assert found.unresolved == 3


def test_alternatives_of_a_value_are_conditional_arguments():
    command = words("sglang serve --tp")
    command.append(Word("4", "run.sh", 3, 4, alternatives=("4", "8")))
    command.append(Word("--enable-metrics", "run.sh", 4, 1, conditional=True))
    found = launch_of(command, Setting(), "shell")
    assert found is not None
    assert found.arguments == (
        Argument("--tp", "4", "run.sh", 3, 3, conditional=True),
        Argument("--tp", "8", "run.sh", 3, 3, conditional=True),
        Argument("--enable-metrics", None, "run.sh", 4, 1, conditional=True),
    )


@pytest.mark.parametrize(
    ("text", "program", "command"),
    [
        ("/venv/bin/python3.11 -u -m sglang.launch_server --tp 1", "server", None),
        ("python /opt/sglang/launch_server.py --tp 1", "server", "/opt/sglang/launch_server.py"),
        ("python launch_server.py --model-path m", "server", "launch_server.py"),
        ("sglang serve m", "server", "sglang serve"),
        ("/venv/bin/sglang serve m", "server", "sglang serve"),
        ("python -m sglang serve m", "server", "python -m sglang serve"),
        ("python -m sglang.cli.main serve m", "server", "python -m sglang.cli.main serve"),
        ("sglang serve m --model-type diffusion", "diffusion", "sglang serve"),
        ("sglang serve m --num-gpus 4", "diffusion", "sglang serve"),
        ("python -m sglang_router.launch_router --port 1", "router", None),
        ("python -m sglang_router.launch_server --port 1", "router", None),
        ("sglang-router launch --worker-urls a b", "router", "sglang-router"),
        ("smg launch --port 1", "router", "smg"),
        ("python -m dynamo.sglang --model m", "foreign", "python -m dynamo.sglang"),
        ("torchrun --nproc-per-node 8 -m sglang.launch_server --tp 1", "server", None),
        ("nohup setsid stdbuf -oL numactl -N 0 sglang serve m", "server", "sglang serve"),
        ("timeout 600 taskset -c 0-3 sglang serve m", "server", "sglang serve"),
        ("nsys profile -o out python -m sglang.launch_server --tp 1", "server", None),
        ("ray job submit --address a -- python -m sglang.launch_server --tp 1", "server", None),
        ("conda run -n env sglang serve m", "server", "sglang serve"),
        ("./trace.sh python3 -m sglang.launch_server --tp 1", "server", None),
        ("mpirun -np 2 -x A=b python3 -m sglang.launch_server --tp 1", "server", None),
    ],
)
def test_programs_and_wrappers(text, program, command):
    found = launch(text)
    assert found.program == program
    if command:
        assert found.command == command
    assert found.arguments


@pytest.mark.parametrize(
    "text",
    [
        "python -m sglang.bench_serving --backend sglang --model m",
        "python -m sglang.launch_server --help",
        "sglang serve --help",
        "echo python -m sglang.launch_server --tp 1",
        "A=b nohup echo sglang serve m",
        "pkill -f sglang.launch_server",
        "grep sglang serve log",
        "pip install sglang==0.5.9",
        "python benchmark/lora/launch_server.py --num-loras 4",
        "python launch_server.py --num-loras 4",
        "smg version",
        "docker run image --model-path m",
        "vllm serve m",
        "",
    ],
)
def test_no_launches(text):
    assert launch_of(words(text), Setting(), "shell") is None


def test_the_model_path_of_serve_may_stand_alone():
    found = launch("sglang serve --model-type llm org/model --tp 2")
    assert (found.model, flags(found)) == (
        "org/model",
        [("--model-type", "llm"), ("--model-path", "org/model"), ("--tp", "2")],
    )
    assert found.arguments[1].column == 5


def test_roles():
    command = "sglang serve m --disaggregation-mode"
    assert launch(f"{command} prefill").role == "prefill"
    assert launch(f"{command}=decode").role == "decode"
    assert launch(f"{command} $MODE").role == "plain"


def test_a_container_has_its_own_environment():
    outer = Setting(
        environment=(Variable("HERE", "1", "run.sh", 1), Variable("KEPT", "2", "run.sh", 2))
    )
    found = launch_of(
        words(
            "docker run -itd --gpus all -p30000:30000 --ipc=host -e A=b --env C=d -e KEPT"
            " -v /data/m:/models:ro --mount type=bind,source=/t,target=/templates -w /srv"
            " lmsysorg/sglang:v0.5.9 python3 -m sglang.launch_server --model-path /models/x"
        ),
        outer,
        "shell",
    )
    assert found is not None
    assert {(variable.name, variable.value) for variable in found.environment} == {
        ("A", "b"),
        ("C", "d"),
        ("KEPT", "2"),
    }
    assert found.pins == (Pin("image", "lmsysorg/sglang:v0.5.9", "run.sh", 3, 20),)
    assert found.mounts == (("/models", "/data/m"), ("/templates", "/t"))
    assert (found.folder, found.model) == ("/srv", "/models/x")


def test_what_srun_and_uv_say():
    found = launch(
        "srun -N 1 --mpi none --container-image=img:1 --container-mounts /a:/b,/c:/d"
        " --export=ALL,A=b uv run --with sglang==0.5.9 sglang serve m"
    )
    assert [(pin.kind, pin.text) for pin in found.pins] == [
        ("image", "img:1"),
        ("requirement", "sglang==0.5.9"),
    ]
    assert found.mounts == (("/b", "/a"), ("/d", "/c"))
    assert [(variable.name, variable.value) for variable in found.environment] == [("A", "b")]


def test_a_later_variable_replaces_an_earlier_one():
    environment = (
        Variable("A", "1", "run.sh", 1),
        Variable("A", "2", "run.sh", 2),
        Variable("A", "3", "run.sh", 3, conditional=True),
    )
    found = launch_of(words("env B=x -u B sglang serve m"), Setting(environment), "shell")
    assert found is not None
    assert found.environment == environment[1:]


def test_text_for_a_shell_is_handed_on():
    handed: list[tuple[Word, Setting]] = []
    for text in (
        "A=b bash -lc 'sglang serve m'",
        "docker run img bash -c 'sglang serve m'",
        "ssh -p 22 host 'sglang serve m'",
        "eval sglang serve m",
    ):
        assert (
            launch_of(words(text), Setting(), "shell", lambda w, s: handed.append((w, s))) is None
        )
    assert [word.text for word, _ in handed] == ["sglang serve m"] * 4
    assert [variable.name for variable in handed[0][1].environment] == ["A"]
    assert [pin.text for pin in handed[1][1].pins] == ["img"]
