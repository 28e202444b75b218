"""systemd units and Makefiles: commands, environment, and what only the run decides."""

from __future__ import annotations

import pytest

from auditor.model import Launch
from auditor.serve.scripts.unit import read_makefile, read_unit


def shown(launch: Launch) -> list[str]:
    return [
        f"{a.line}:{a.column} {a.flag}"
        + ("" if a.value is None else f" {a.value}")
        + ("?" if a.conditional else "")
        + ("" if a.resolved else "!")
        for a in launch.arguments
    ]


def unit(text: str, files: dict[str, bytes] | None = None) -> Launch:
    launches, skipped = read_unit(text.encode(), "d/sglang.service", (files or {}).get)
    assert not skipped
    assert len(launches) == 1
    return launches[0]


def make(text: str) -> Launch:
    launches, skipped = read_makefile(text.encode(), "Makefile", lambda path: None)
    assert not skipped
    assert len(launches) == 1
    return launches[0]


def test_a_unit():
    launch = unit(
        "[Unit]\n"
        "Description=sglang serve not-this\n"
        "[Service]\n"
        'Environment=A=1 "B=two words"\n'
        "Environment=PORT=30000\n"
        "EnvironmentFile=-/etc/sglang/sglang.env\n"
        "WorkingDirectory=/opt/x\n"
        "ExecStartPre=/usr/bin/sglang serve before\n"
        "ExecStart=-/opt/venv/bin/python -m sglang.launch_server \\\n"
        "    --model-path ${MODEL} \\\n"
        "    # don't count this\n"
        "    --port $PORT --dp %i --share 90%% --tp $TP \\\n"
        "    --json '{\"a\": 1}'\n",
        {"d/sglang.env": b'# c\nMODEL="org/m"\n'},
    )
    assert shown(launch) == [
        "10:5 --model-path org/m",
        "12:5 --port 30000",
        "12:18 --dp %i!",
        "12:26 --share 90%",
        "12:39 --tp $TP!",
        '13:5 --json {"a": 1}',
    ]
    assert [(v.name, v.value, v.path, v.line) for v in launch.environment] == [
        ("A", "1", "d/sglang.service", 4),
        ("B", "two words", "d/sglang.service", 4),
        ("PORT", "30000", "d/sglang.service", 5),
        ("MODEL", "org/m", "d/sglang.env", 2),
    ]
    assert (launch.form, launch.folder, launch.unresolved) == ("systemd", "/opt/x", 2)


def test_a_unit_that_starts_over():
    launch = unit(
        "[Service]\nEnvironment=A=1\nEnvironment=\nEnvironment=B=2\n"
        "ExecStart=/bin/sglang serve a\nExecStart=\n"
        "ExecStart=/bin/bash -c 'exec sglang serve b --b $B'\n"
    )
    assert shown(launch) == ["7:43 --model-path b", "7:45 --b 2"]
    assert [v.name for v in launch.environment] == ["B"]


def test_a_variable_of_a_unit_may_be_several_words():
    launch = unit('[Service]\nEnvironment="X=--tp 2"\nExecStart=/bin/sglang serve m $X\n')
    assert [(a.flag, a.value) for a in launch.arguments][1:] == [("--tp", "2")]


def test_a_makefile():
    launch = make(
        "MODEL ?= org/m\n"
        "IMG := lmsysorg/sglang:v0.5.9\n"
        "ARGS = --tp $(TP) \\\n"
        "  --dp 2  # why\n"
        "TP = 4\n"
        "ifdef X\n"
        "ARGS += --enable-metrics\n"
        "endif\n"
        "run: build\n"
        "\t@docker run --gpus all -e A=$$A \\\n"
        "\t  $(IMG) python3 -m sglang.launch_server --model-path ${MODEL} $(ARGS)"
        " --port $(PORT) --n $(shell nproc)\n"
    )
    assert shown(launch) == [
        "11:43 --model-path org/m",
        "3:8 --tp 4",
        "4:3 --dp 2",
        "7:9 --enable-metrics?",
        "11:73 --port $(PORT)!",
        "11:88 --n $(shell nproc)!",
    ]
    assert [pin.text for pin in launch.pins] == ["lmsysorg/sglang:v0.5.9"]
    assert (launch.form, launch.line, launch.model) == ("makefile", 11, "org/m")


def test_what_a_makefile_exports():
    launch = make(
        "export A = 1\nB := 2\nexport B\nC = 3\nrun:\n\t-D=4 sglang serve m --x $(lastword a b)\n"
    )
    assert sorted((v.name, v.value) for v in launch.environment) == [
        ("A", "1"),
        ("B", "2"),
        ("D", "4"),
    ]


def test_branches_of_a_makefile_give_alternatives():
    launch = make("TP = 4\nifeq ($(X),1)\nTP = 8\nendif\nrun:\n\tsglang serve m --tp $(TP)\n")
    assert shown(launch)[1:] == ["6:17 --tp 4?", "6:17 --tp 8?"]


@pytest.mark.parametrize(
    "text",
    [
        "run:\n\t# sglang serve m\n",
        "run:\n\t@echo sglang serve m\n",
        "# sglang serve m\nX = sglang serve m\n",
    ],
)
def test_no_launches_in_a_makefile(text):
    assert read_makefile(text.encode(), "Makefile", lambda path: None) == ([], [])


@pytest.mark.parametrize(
    "text",
    [
        "A = sglang\n" + "A := $(A) $(A)\n" * 60 + "run:\n\tsglang serve $(A)\n",
        "A += sglang\n" * 20_000 + "run:\n\tsglang serve $(A)\n",
        "A = $(A) $(A)\nrun:\n\tsglang serve $(A)\n",
        "".join(f"A{i} = $(A{i + 1})$(A{i + 1})\n" for i in range(19))
        + "A19 = x\nrun:\n\tsglang serve $(A0)\n",
    ],
)
def test_endless_variables_are_noted_once(text):
    _, skipped = read_makefile(text.encode(), "Makefile", lambda path: None)
    assert [each.reason for each in skipped] == ["variables grow without end; read in part"]


def test_large_files_are_noted():
    for reader in (read_unit, read_makefile):
        launches, skipped = reader(b"# sglang\n" * 600_000, "x", lambda path: None)
        assert launches == []
        assert [each.reason for each in skipped] == ["larger than 5 MB"]
