"""Bash scripts: what is launched, with which flags at which places, and what stays unknown."""

from __future__ import annotations

import shlex
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.model import Launch, Pin
from auditor.serve.scripts.shell import read_shell


def read(text: str, files: dict[str, str] | None = None, path: str = "run.sh"):
    beside = {name: body.encode() for name, body in (files or {}).items()}
    return read_shell(text.encode(), path, beside.get)


def one(text: str, files: dict[str, str] | None = None, path: str = "run.sh") -> Launch:
    launches, skipped = read(text, files, path)
    assert not skipped
    assert len(launches) == 1
    return launches[0]


def flags(launch: Launch) -> list[tuple[str, str | None]]:
    return [(argument.flag, argument.value) for argument in launch.arguments]


def shown(launch: Launch) -> list[str]:
    """Each flag as `line:column flag value`, with `?` for conditional and `!` for unresolved."""
    return [
        f"{a.line}:{a.column} {a.flag}"
        + ("" if a.value is None else f" {a.value}")
        + ("?" if a.conditional else "")
        + ("" if a.resolved else "!")
        for a in launch.arguments
    ]


def test_continued_lines_and_quotes():
    launch = one(
        "#!/bin/bash\n"
        "python3 -m sglang.launch_server \\\n"
        "  --model-path 'org/a model' --tp=8 \\\n"
        '    --limit "{\\"image\\": 2}" --name a\\ b\\\n'
        " --trust-remote-code > log 2>&1 &\n"
    )
    assert shown(launch) == [
        "3:3 --model-path org/a model",
        "3:30 --tp 8",
        '4:5 --limit {"image": 2}',
        "4:30 --name a b",
        "5:2 --trust-remote-code",
    ]
    assert (launch.path, launch.line, launch.form, launch.unresolved) == ("run.sh", 2, "shell", 0)


def test_columns_count_characters():
    launch = one("sglang serve 'modèle—x' --tp 2\n")
    assert shown(launch) == ["1:15 --model-path modèle—x", "1:25 --tp 2"]


def test_variables_and_defaults():
    launch = one(
        "MODEL=org/m\n"
        'PORT="${PORT:-30000}"\n'
        ': "${TP:=4}"\n'
        "sglang serve $MODEL --port $PORT --tp ${TP} --dp ${DP-2} --host $HOST"
        ' --path "${MODEL_DIR:-}/x" --sum $((PORT + 1))\n'
    )
    assert flags(launch) == [
        ("--model-path", "org/m"),
        ("--port", "30000"),
        ("--tp", "4"),
        ("--dp", "2"),
        ("--host", "$HOST"),
        ("--path", "${MODEL_DIR:-}/x"),
        ("--sum", "30001"),
    ]
    assert [a.flag for a in launch.arguments if not a.resolved] == ["--host", "--path"]
    assert (launch.model, launch.unresolved) == ("org/m", 2)


def test_a_value_known_at_run_time_is_not_guessed():
    launch = one(
        "TP=$(nvidia-smi -L | wc -l)\nread -r PORT\nsglang serve m --tp $TP --port $PORT\n"
    )
    assert shown(launch)[1:] == [
        "3:16 --tp $(nvidia-smi -L | wc -l)!",
        "3:25 --port $PORT!",
    ]


def test_arrays_and_conditional_appends():
    launch = one(
        "ARGS=(\n"
        "  --model-path m  # the model\n"
        "  --tp 4\n"
        ")\n"
        'if [ "$FAST" = 1 ]; then\n'
        "  ARGS+=(--enable-metrics)\n"
        "fi\n"
        '[[ -n "$LOG" ]] && ARGS+=(--log-level "debug info")\n'
        'CMD=(python3 -m sglang.launch_server "${ARGS[@]}" --dp 2)\n'
        '"${CMD[@]}"\n'
    )
    assert launch.line == 9
    assert shown(launch) == [
        "2:3 --model-path m",
        "3:3 --tp 4",
        "6:10 --enable-metrics?",
        "8:27 --log-level debug info?",
        "9:51 --dp 2",
    ]


def test_branches_give_alternatives():
    launch = one(
        "if [ $BIG = 1 ]; then\n  TP=8\nelse\n  TP=4\nfi\n"
        "case $KIND in\n  a) EXTRA='--fast 1';;\n  *) EXTRA='--slow';;\nesac\n"
        "sglang serve m --tp $TP $EXTRA --url=h:$TP\n"
    )
    assert shown(launch) == [
        "10:14 --model-path m",
        "10:16 --tp 8?",
        "10:16 --tp 4?",
        "7:13 --fast 1?",
        "8:13 --slow?",
        "10:32 --url h:8?",
        "10:32 --url h:4?",
    ]


def test_a_variable_set_where_it_is_missing_has_a_default():
    launch = one(
        'if [ -z "$TP" ]; then TP=4; fi\n[[ -n "${DP}" ]] || DP=2\n'
        "sglang serve m --tp $TP --dp $DP\n"
    )
    assert shown(launch)[1:] == [
        "3:16 --tp 4",
        "3:16 --tp $TP?!",
        "3:25 --dp 2",
        "3:25 --dp $DP?!",
    ]
    assert launch.when[0] == "$TP is not set and $DP is not set"


def test_options_of_the_script_do_not_hide_the_default():
    launch = one(
        "PORT=30000\n"
        "while [[ $# -gt 0 ]]; do\n"
        '  case "$1" in\n    --port) PORT="$2"; shift 2 ;;\n    *) shift ;;\n  esac\n'
        "done\n"
        "sglang serve m --port $PORT\n"
    )
    assert shown(launch)[1:] == ["8:16 --port 30000", "8:16 --port $2?!"]


def test_unset_on_one_branch_is_not_empty():
    launch = one('if x; then unset LEN; fi\nsglang serve m --len "$LEN" --n $N\n')
    assert shown(launch)[1:] == ["2:16 --len ?", "2:16 --len $LEN?!", "2:29 --n $N!"]


def test_functions_are_called_with_their_arguments():
    text = (
        "start() {\n"
        "  local mode=$1 port=$2\n"
        "  local args=(--disaggregation-mode $mode)\n"
        '  if [ "$mode" = prefill ]; then args+=(--one); else args+=(--two); fi\n'
        '  sglang serve m "${args[@]}" --port "$port"\n'
        "}\n"
        "start prefill 1\n"
        "start decode 2\n"
    )
    first, second = read(text)[0]
    assert (first.role, second.role) == ("prefill", "decode")
    assert flags(first)[1:] == [
        ("--disaggregation-mode", "prefill"),
        ("--one", None),
        ("--port", "1"),
    ]
    assert flags(second)[1:] == [
        ("--disaggregation-mode", "decode"),
        ("--two", None),
        ("--port", "2"),
    ]
    assert not any(a.conditional for launch in (first, second) for a in launch.arguments)


def test_a_function_that_nothing_calls_is_read():
    assert flags(one('serve() {\n  sglang serve "$1" --tp 2\n}\n')) == [
        ("--model-path", "$1"),
        ("--tp", "2"),
    ]


def test_what_a_function_prints():
    launch = one(
        "flags() {\n"
        '  echo "for $1" >&2\n'
        '  local all="--tp 4"\n'
        '  [[ $2 == yes ]] && all="$all --fast"\n'
        '  if [ -n "$X" ]; then all="$all --x 1"; fi\n'
        '  echo "$all"\n'
        "}\n"
        "list() { ls; }\n"
        "sglang serve m $(flags prefill yes) --dp $(list)\n"
    )
    assert shown(launch)[1:] == ["3:14 --tp 4", "4:32 --fast", "5:34 --x 1?", "9:37 --dp $(list)!"]


def test_commands_in_strings():
    text = (
        'CMD="A=b python3 -m sglang.launch_server \\\n'
        "    --model-path m \\\n"
        '    --tp $TP"\n'
        'if [ $X = 1 ]; then CMD="$CMD --enable-metrics"; fi\n'
    )
    expected = ["2:5 --model-path m", "3:5 --tp $TP!", "4:31 --enable-metrics?"]
    for run in ('eval "$CMD"', 'bash -c "$CMD" > >(tee log) 2>&1 &', "$CMD", "nohup setsid $CMD &"):
        launch = one(f"{text}{run}\n")
        assert shown(launch) == expected, run
        assert [(v.name, v.value) for v in launch.environment] == [("A", "b")]


def test_a_choice_within_a_string_command_is_one_value():
    launch = one(
        "if x; then P=hermes; else P=qwen; fi\n"
        'CMD="sglang serve m --tool-call-parser $P"\n'
        'eval "exec $CMD"\n'
    )
    assert shown(launch)[1:] == [
        "2:21 --tool-call-parser hermes?",
        "2:21 --tool-call-parser qwen?",
    ]


def test_text_for_a_shell_sees_what_is_exported():
    launch = one("export TP=4 DP=2\nDP=3\nX=1\nbash -c 'sglang serve m --tp $TP --dp $DP --x $X'\n")
    assert flags(launch)[1:] == [("--tp", "4"), ("--dp", "3"), ("--x", "$X")]


def test_environment():
    launch = one(
        "export A=1\n"
        "B=2\nexport B\n"
        "declare -x C='three 3'\n"
        "if x; then export D=4; fi\n"
        "NOT=5\n"
        "set -a\nF=6\nset +a\n"
        "export GONE=1; unset GONE\n"
        "G=7 env H=8 sglang serve m\n"
        "I=9\n"
    )
    assert [
        (v.name, v.value, v.line, v.column, v.conditional)
        for v in sorted(launch.environment, key=lambda v: v.name)
    ] == [
        ("A", "1", 1, 8, False),
        ("B", "2", 2, 1, False),
        ("C", "three 3", 4, 12, False),
        ("D", "4", 5, 19, True),
        ("F", "6", 8, 1, False),
        ("G", "7", 11, 1, False),
        ("H", "8", 11, 9, False),
    ]


def test_docker_run_over_several_lines():
    launch = one(
        "TAG=v0.5.9\nexport OUTER=1\n"
        "docker run --gpus '\"device=0,1\"' -it \\\n"
        "  -e HF_TOKEN=x -v /data:/models \\\n"
        "  lmsysorg/sglang:$TAG \\\n"
        "  bash -c 'cd /w && python3 -m sglang.launch_server --model-path /models/m --tp 2'\n"
    )
    assert shown(launch) == ["6:53 --model-path /models/m", "6:76 --tp 2"]
    assert launch.pins == (Pin("image", "lmsysorg/sglang:v0.5.9", "run.sh", 5, 3),)
    assert launch.mounts == (("/models", "/data"),)
    assert [v.name for v in launch.environment] == ["HF_TOKEN"]
    assert launch.folder == "/w"


def test_pip_pins():
    launch = one('pip install "sglang[all]==0.5.9" other\nsglang serve m\n')
    assert launch.pins == (Pin("requirement", "sglang[all]==0.5.9", "run.sh", 1, 14),)


def test_the_folder_of_the_script():
    launch = one(
        'HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"\n'
        'ROOT=$(cd "$HERE/.." && pwd)\n'
        'sglang serve m --chat-template "$HERE/t.jinja" --config $ROOT/c.yaml'
        " --x ${HERE##*/} --y $(basename $0 .sh)\n",
        path="scripts/a/run.sh",
    )
    assert flags(launch)[1:] == [
        ("--chat-template", "scripts/a/t.jinja"),
        ("--config", "scripts/c.yaml"),
        ("--x", "a"),
        ("--y", "run"),
    ]
    assert launch.folder == "scripts/a"


def test_cd():
    assert one("cd /opt/x\ncd y\nsglang serve m\n").folder == "/opt/x/y"
    assert one("(cd /opt)\nsglang serve m\n", path="s/run.sh").folder == "s"
    assert one("cd /opt && sglang serve m\n").folder == "/opt"


def test_sourced_files_beside_it():
    files = {
        "s/lib.sh": 'export LIB=1\nTP=8\nrun() { sglang serve m --tp $TP "$@"; }\n',
        "s/env": "PORT=1\n",
    }
    launch = one(
        'source "$(dirname "$0")/lib.sh"\n. ./env\n. /etc/profile\nrun --port $PORT\n',
        files,
        "s/run.sh",
    )
    assert launch.path == "s/lib.sh"
    assert [(a.flag, a.value, a.path, a.line) for a in launch.arguments[1:]] == [
        ("--tp", "8", "s/lib.sh", 3),
        ("--port", "1", "s/run.sh", 4),
    ]
    assert [(v.name, v.path) for v in launch.environment] == [("LIB", "s/lib.sh")]


def test_heredocs_that_write_scripts():
    launch = one(
        "PORT=1\n"
        "cat > /tmp/serve.sh <<EOF\n"
        "#!/bin/bash\n"
        "TP=4\n"
        "exec python3 -m sglang.launch_server --model-path m --port $PORT --tp \\$TP\n"
        "EOF\n"
    )
    assert shown(launch) == ["5:38 --model-path m", "5:53 --port 1", "5:66 --tp 4"]
    quoted = one("PORT=1\nbash <<'EOF'\nsglang serve m --port $PORT\nEOF\n")
    # The variable is not exported, so the shell that reads the document does not have it.
    assert shown(quoted)[1:] == ["3:16 --port $PORT!"]
    text = "cat <<EOF\nUsage: python3 -m sglang.launch_server --port 1\nEOF\n"
    assert read(text) == ([], [])


def test_loops_over_words():
    text = "for p in {}; do\n  sglang serve m --port $p &\ndone\n"
    few = read(text.format("1 2"))[0]
    assert [shown(launch)[1:] for launch in few] == [["2:18 --port 1"], ["2:18 --port 2"]]
    many = read(text.format("1 2 3 4 5"))[0]
    assert [shown(launch)[1:] for launch in many] == [[f"2:18 --port {n}"] for n in range(1, 6)]
    counted = one("i=0\nwhile x; do\n  sglang serve m --port $i\n  i=$((i + 1))\ndone\n")
    assert shown(counted)[1:] == ["3:18 --port $i!"]


def test_words_that_may_be_any_number_end_a_flag():
    launch = one('sglang serve m --trust-remote-code "$@" --tp 2 $EXTRA_ARGS\n')
    assert flags(launch)[1:] == [("--trust-remote-code", None), ("--tp", "2")]
    assert launch.unresolved == 2


@pytest.mark.parametrize(
    "text",
    [
        'set -- --tp 4 --fast; exec sglang serve m "$@"',
        "A='--tp 4'; A=\"$A --fast\"; sglang serve m $A",
        'declare -a A=(--tp 4); A+=("--fast"); sglang serve m "${A[@]}"',
        'A=(--tp 4 --fast); sglang serve m ${A[@]+"${A[@]}"}',
        'A=(--tp 4 --fast); sglang serve m "${A[@]:-}"',
        'A=(--tp 4 --fast); eval "sglang serve m ${A[*]}"',
        "cat <<EOF | bash\nsglang serve m --tp 4 --fast\nEOF",
        "if ! sglang serve m --tp 4 --fast; then exit 1; fi",
        "{ time sglang serve m --tp 4 --fast; } 2>&1 | tee log &",
        "D='docker run --rm img'; $D sglang serve m --tp 4 --fast",
        "tmux new-session -d -s x 'sglang serve m --tp 4 --fast'",
        "tmux send-keys -t x 'sglang serve m --tp 4 --fast' C-m",
        "screen -dmS x bash -c 'sglang serve m --tp 4 --fast'",
        "su - user -c 'sglang serve m --tp 4 --fast'",
        "function go() { sglang serve m --tp $1 --fast; }; go 4",
        "(cd /x; sglang serve m --tp 4 --fast)",
        "PID=$(sglang serve m --tp 4 --fast & echo $!)",
        "while true; do sglang serve m --tp 4 --fast; done",
        "trap 'kill 0' EXIT; sglang serve m --tp 4 --fast",
        "x || sglang serve m --tp 4 --fast",
        "[[ $M == x ]] && sglang serve m --tp 4 --fast",
        "ssh h <<'EOF'\nsglang serve m --tp 4 --fast\nEOF",
        "docker exec -i c bash <<'EOF'\nsglang serve m --tp 4 --fast\nEOF",
        "coproc sglang serve m --tp 4 --fast",
        "sglang serve m --tp 4 --fast |& tee log",
        "sglang serve m --tp 4 --fast &>> log &",
        "sglang \\\n serve m \\\n --tp \\\n 4 --fast",
        "A=sglang; $A serve m --tp 4 --fast",
        'CMD="sglang serve m"; CMD+=" --tp 4"; CMD+=" --fast"; $CMD',
        'echo "starting"; nohup sh -c "exec sglang serve m --tp 4 --fast" > log &',
    ],
)
def test_ways_to_write_one_launch(text):
    assert flags(one(text + "\n")) == [("--model-path", "m"), ("--tp", "4"), ("--fast", None)]


def test_optional_words():
    launch = one(
        "sglang serve m ${LORA:+--lora-paths $LORA} --tp 2\nLORA=a\n",
    )
    assert shown(launch)[1:] == ["1:24 --lora-paths $LORA?!", "1:44 --tp 2"]


@pytest.mark.parametrize(
    "text",
    [
        "# sglang serve m\n",
        "echo 'sglang serve m'\n",
        "echo sglang serve m\n",
        'pgrep -f "sglang serve" && kill 1\n',
        "sglang serve --help\n",
        "MSG='run sglang serve m'\nlog $MSG\n",
        ": <<'DOC'\nsglang serve m\nDOC\n",
    ],
)
def test_mentions_that_start_nothing(text):
    assert read(text) == ([], [])


def test_sbatch_is_bash_with_a_header():
    launch = one(
        "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --time=1:00\n"
        "srun --ntasks 1 --container-image=img:1 \\\n"
        "  python3 -m sglang.launch_server --model-path m --node-rank $SLURM_NODEID\n",
        path="job.slurm",
    )
    assert shown(launch) == ["5:35 --model-path m", "5:50 --node-rank $SLURM_NODEID!"]
    assert [pin.text for pin in launch.pins] == ["img:1"]


WORDS = st.text(alphabet="abc ,'\"\\$#-=*", max_size=6).map(
    lambda text: text.replace("$", "").replace("*", "")
)


@settings(max_examples=300, deadline=None)
@given(st.lists(WORDS, max_size=6))
def test_quoted_words_come_back(words):
    """Whatever stands in a word, quoted as the shell wants it, is the value of its flag."""
    pairs = [(f"--f{number}", word) for number, word in enumerate(words)]
    line = " ".join(f"{flag}={shlex.quote(word)}" for flag, word in pairs)
    launch = one(f"sglang serve m {line}\n")
    assert flags(launch)[1:] == pairs


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab '\"\\-", max_size=20))
def test_words_split_as_shlex_splits_them(text):
    """Where the standard library reads a line, the same words come out."""
    try:
        words = shlex.split(text)
    except ValueError:
        return
    with patch("auditor.serve.scripts.commands.launch_of", return_value=None) as called:
        _, skipped = read(f"sglang serve {text}\n")
    assert not skipped
    assert [word.text for word in called.call_args.args[0]] == ["sglang", "serve", *words]


HOSTILE = {
    "doubling": ("A=xx\n" + "A=$A$A\n" * 200 + "sglang serve m --x $A\n", "grows"),
    "self call": ("f() { sglang serve m; f; }\nf\n", "calls itself"),
    "self source": ("source run.sh\nsglang serve m\n", "sources itself"),
    "calls": (
        "".join(f"f{i}() {{ f{i + 1}; f{i + 1}; }}\n" for i in range(40))
        + "f40() { sglang serve m; }\nf0\n",
        "more work",
    ),
    "endless eval": ('A=\'sglang serve m; eval "$A"\'\neval "$A"\n', "and so on"),
    "10 MB": ("# sglang\n" * 1_200_000, "larger than 5 MB"),
    "unterminated quote": ("sglang serve m --name 'x\n" + "y\n" * 100, "no valid bash"),
    "nesting": ("for i in $(seq 2); do " * 400 + "sglang serve m; " + "done; " * 400, "nested"),
    "launches": (
        "sglang serve m --tp 1\n" * 1
        + "".join(f"sglang serve m --port {i}\n" for i in range(1000)),
        "more than 400 launches",
    ),
    "binary": ("sglang serve\0", "binary"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_scripts_are_noted_once(name):
    text, reason = HOSTILE[name]
    files = {"run.sh": text}
    _, skipped = read(text, files)
    assert len(skipped) == 1
    assert reason in skipped[0].reason
    assert (skipped[0].path, skipped[0].stage) == ("run.sh", "serve")


def test_a_hundred_thousand_lines_are_read():
    text = 'A=1\nexport B=$A\n[ -n "$A" ] && C=$B\n' * 33_000 + "sglang serve m --x $A\n"
    assert flags(one(text))[1:] == [("--x", "1")]
