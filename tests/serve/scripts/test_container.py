"""Dockerfiles: the command of each stage with the environment and image that it meets."""

from __future__ import annotations

import pytest

from auditor.model import Launch, Pin
from auditor.serve.scripts.container import read_dockerfile


def read(text: str, path: str = "Dockerfile"):
    return read_dockerfile(text.encode(), path, lambda name: None)


def one(text: str) -> Launch:
    launches, skipped = read(text)
    assert not skipped
    assert len(launches) == 1
    return launches[0]


def shown(launch: Launch) -> list[str]:
    return [
        f"{a.line}:{a.column} {a.flag}" + ("" if a.value is None else f" {a.value}")
        for a in launch.arguments
    ]


def environment(launch: Launch) -> list[tuple[str, str, int]]:
    return sorted((v.name, v.value, v.line) for v in launch.environment)


def test_exec_form_joins_entry_point_and_command():
    launch = one(
        "FROM lmsysorg/sglang:v0.5.9\n"
        'ENTRYPOINT ["python3", "-m", "sglang.launch_server", \\\n'
        '            "--model-path", "/models/it\'s"]\n'
        'CMD ["--port", "30000", "--host=$HOST"]\n'
    )
    assert shown(launch) == [
        "3:14 --model-path /models/it's",
        "4:7 --port 30000",
        "4:26 --host $HOST",
    ]
    assert launch.pins == (Pin("image", "lmsysorg/sglang:v0.5.9", "Dockerfile", 1, 6),)
    assert (launch.form, launch.line) == ("dockerfile", 2)


def test_shell_form_with_comments_and_environment():
    launch = one(
        "FROM img\n"
        "ENV A=1 \\\n"
        "    # why\n"
        '    B="two words"\n'
        "ENV OLD old value\n"
        "ARG TP=4\n"
        "WORKDIR /srv\nWORKDIR app\n"
        "CMD exec sglang serve $MODEL \\\n"
        "  # another\n"
        "\n"
        "  --tp ${TP} --a $A\n"
    )
    assert shown(launch) == ["9:23 --model-path $MODEL", "12:3 --tp 4", "12:14 --a 1"]
    assert environment(launch) == [("A", "1", 2), ("B", "two words", 4), ("OLD", "old value", 5)]
    assert launch.folder == "/srv/app"
    assert launch.unresolved == 1


def test_a_shell_in_exec_form():
    launch = one(
        'FROM img\nENV TP=2\nENTRYPOINT ["/bin/bash", "-c"]\nCMD ["sglang serve m --tp $TP"]\n'
    )
    assert shown(launch) == ["4:20 --model-path m", "4:22 --tp 2"]


def test_stages():
    launches, skipped = read(
        "ARG VERSION=v0.5.9\n"
        "FROM --platform=linux/amd64 lmsysorg/sglang:${VERSION} AS base\n"
        "ENV A=1\n"
        'CMD ["sglang", "serve", "one"]\n'
        "FROM other\n"
        "CMD sglang serve two\n"
        "FROM base AS last\n"
        "ENV A=2\n"
        'ENTRYPOINT ["sglang", "serve", "three"]\n'
    )
    assert not skipped
    assert [(launch.model, [pin.text for pin in launch.pins]) for launch in launches] == [
        ("one", ["lmsysorg/sglang:v0.5.9"]),
        ("two", ["other"]),
        ("three", ["lmsysorg/sglang:v0.5.9"]),
    ]
    assert [environment(launch) for launch in launches] == [[("A", "1", 3)], [], [("A", "2", 8)]]
    assert len(launches[2].arguments) == 1


def test_the_command_of_a_shell_form_entry_point_is_not_looked_at():
    assert shown(one("FROM i\nENTRYPOINT sglang serve m\nCMD --tp 2\n")) == ["2:25 --model-path m"]


def test_copied_files_are_mounts():
    launch = one(
        "FROM img\nWORKDIR /srv\n"
        "COPY templates/a.jinja /t/\n"
        "COPY --chown=1:1 b.jinja ./c.jinja\n"
        'COPY ["d e.jinja", "/t/d.jinja"]\n'
        "COPY models /models\n"
        "COPY --from=base /x.jinja /x.jinja\n"
        "CMD sglang serve m\n"
    )
    assert launch.mounts == (
        ("/t/a.jinja", "templates/a.jinja"),
        ("/srv/c.jinja", "b.jinja"),
        ("/t/d.jinja", "d e.jinja"),
        ("/models", "models"),
    )


def test_requirements_and_heredocs():
    launches, skipped = read(
        "FROM img\n"
        "RUN --mount=type=cache,target=/root/.cache \\\n"
        "    --network=none \\\n"
        '    pip install "sglang[all]==0.5.9" && \\\n'
        "    cat > /x.py <<'PY'\n"
        'CMD ["sglang", "serve", "not-a-command"]\n'
        "PY\n"
        "RUN <<EOF\n"
        "echo sglang serve no\n"
        "EOF\n"
        "COPY <<'EOF' /start.sh\n"
        "#!/bin/sh\n"
        "exec sglang serve m --tp 2\n"
        "EOF\n"
        'CMD ["/start.sh"]\n'
    )
    assert not skipped
    (launch,) = launches
    assert shown(launch) == ["13:19 --model-path m", "13:21 --tp 2"]


def test_requirements_of_an_image():
    launch = one("FROM img\nRUN pip install sglang==0.5.9\nCMD sglang serve m\n")
    assert [(pin.kind, pin.text, pin.line) for pin in launch.pins] == [
        ("image", "img", 1),
        ("requirement", "sglang==0.5.9", 2),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "FROM img\n# CMD sglang serve m\n",
        "FROM img\nRUN echo sglang serve m\n",
        "FROM img\nHEALTHCHECK CMD pgrep sglang\n",
        "FROM img\nRUN cargo build -p smg --release\n",
        'CMD ["sglang", "serve"',
        'FROM img\nCMD ["sglang", 1]\n',
        "sglang",
    ],
)
def test_no_launches(text):
    assert read(text)[0] == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("FROM img\n" + "# sglang serve\n" * 400_000, "larger than 5 MB"),
        ("FROM a\n" + "ENV A=sglang\n" * 6_000, "more instructions than"),
        ("FROM a\nCMD sglang serve m\n" * 6_000, "more stages than"),
        ("FROM a\nCMD sglang serve 'm\n", "no valid bash"),
    ],
)
def test_hostile_files_are_noted_once(text, reason):
    _, skipped = read(text)
    assert len(skipped) == 1
    assert reason in skipped[0].reason
