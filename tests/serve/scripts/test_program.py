"""Launches of Python programs: what each form of call and command gives, and what stays unknown."""

from __future__ import annotations

import textwrap

import pytest

from auditor.errors import Unreadable
from auditor.model import Launch
from auditor.serve.scripts.program import read_program


def launches(text: str) -> list[Launch]:
    found, skipped = read_program(textwrap.dedent(text).encode(), "run.py", lambda _: None)
    assert skipped == []
    return found


def flags(launch: Launch) -> list[tuple[str, str | None, int, int, bool]]:
    return [(a.flag, a.value, a.line, a.column, a.resolved) for a in launch.arguments]


def test_keywords_of_an_engine_are_flags():
    (launch,) = launches("""\
        import sglang as sgl

        MODEL = "org/m"
        llm = sgl.Engine(
            model_path=MODEL,
            tp_size=2,
            mem_fraction_static=0.8,
            disable_radix_cache=True,
            skip_tokenizer_init=False,
            chat_template=None,
            lora_paths=["a", "b"],
            schedule_conservativeness=-1,
            port=free_port(),
        )
        """)
    assert flags(launch) == [
        ("--model-path", "org/m", 5, 5, True),
        ("--tp-size", "2", 6, 5, True),
        ("--mem-fraction-static", "0.8", 7, 5, True),
        ("--disable-radix-cache", None, 8, 5, True),
        ("--skip-tokenizer-init", "false", 9, 5, True),
        ("--lora-paths", "a b", 11, 5, True),
        ("--schedule-conservativeness", "-1", 12, 5, True),
        ("--port", "{free_port()}", 13, 5, False),
    ]
    assert (launch.line, launch.command, launch.model) == (4, "sgl.Engine(…)", "org/m")
    assert launch.unresolved == 1
    assert launch.form == "python"


def test_only_classes_of_sglang_count():
    assert (
        launches("""\
        from other import Engine, ServerArgs
        Engine(model_path="a")
        ServerArgs(model_path="a")
        """)
        == []
    )


def test_spread_dictionaries():
    (launch,) = launches("""\
        from sglang.srt.server_args import ServerArgs
        base = {"tp_size": 4, "dtype": "auto"}
        base["page_size"] = 64
        base.update(host="0.0.0.0")
        args = ServerArgs(model_path="m", **base, **extra())
        """)
    assert flags(launch) == [
        ("--model-path", "m", 5, 19, True),
        ("--tp-size", "4", 2, 9, True),
        ("--dtype", "auto", 2, 23, True),
        ("--page-size", "64", 3, 6, True),
        ("--host", "0.0.0.0", 4, 13, True),
    ]
    assert launch.unresolved == 1


def test_a_list_that_grows_before_a_process_takes_it():
    (launch,) = launches("""\
        import os, subprocess, sys

        PORT = 30000
        def start(tp, fast):
            cmd = [sys.executable, "-m", "sglang.launch_server"]
            cmd += ["--model-path", "org/m", "--port", str(PORT)]
            cmd.append("--enable-metrics")
            cmd.extend(["--tp", str(tp)])
            if fast:
                cmd.append("--enable-torch-compile")
            env = {**os.environ, "SGLANG_A": "1"}
            env["SGLANG_B"] = tp
            return subprocess.Popen(cmd, env=env)
        """)
    assert flags(launch) == [
        ("--model-path", "org/m", 6, 14, True),
        ("--port", "30000", 6, 39, True),
        ("--enable-metrics", None, 7, 17, True),
        ("--tp", "{str(tp)}", 8, 18, False),
        ("--enable-torch-compile", None, 10, 21, True),
    ]
    assert [a.conditional for a in launch.arguments] == [False, False, False, False, True]
    assert [(v.name, v.value, v.line, v.resolved) for v in launch.environment] == [
        ("SGLANG_A", "1", 11, True),
        ("SGLANG_B", "{tp}", 12, False),
    ]


def test_branches_that_choose_between_texts():
    (launch,) = launches("""\
        import subprocess
        if big():
            parser = "hermes"
        else:
            parser = "qwen"
        subprocess.run(["sglang", "serve", "m", "--tool-call-parser", parser])
        """)
    assert [(a.flag, a.value, a.resolved, a.conditional) for a in launch.arguments] == [
        ("--model-path", "m", True, False),
        ("--tool-call-parser", "hermes", True, True),
        ("--tool-call-parser", "qwen", True, True),
    ]


def test_unknown_words_of_a_list_are_no_value_of_the_flag_before():
    (launch,) = launches("""\
        import subprocess
        subprocess.run(["sglang", "serve", "m", "--enable-metrics", *extra, "--tp", "2"])
        """)
    assert flags(launch) == [
        ("--model-path", "m", 2, 37, True),
        ("--enable-metrics", None, 2, 42, True),
        ("--tp", "2", 2, 70, True),
    ]
    assert launch.unresolved == 1


def test_commands_as_text():
    (launch,) = launches("""\
        import os
        model = "org/m"
        cmd = f"python3 -m sglang.launch_server --model-path {model} "
        cmd += f"--port {port} "
        cmd += "--reasoning-parser qwen3"
        os.system(cmd)
        """)
    assert flags(launch) == [
        ("--model-path", "org/m", 3, 41, True),
        ("--port", "{port}", 4, 10, False),
        ("--reasoning-parser", "qwen3", 5, 9, True),
    ]


def test_a_text_that_branches_write_differently_is_conditional():
    (launch,) = launches("""\
        import os
        if base:
            cmd = f"sglang serve {model} --tp 2"
        else:
            cmd = f"sglang serve {model} --tp 2 --enable-lora"
        cmd += " --port 1"
        os.system(cmd)
        """)
    assert [(a.flag, a.line, a.conditional) for a in launch.arguments] == [
        ("--model-path", 5, True),
        ("--tp", 5, True),
        ("--enable-lora", 5, True),
        ("--port", 6, True),
    ]


def test_text_over_several_lines_with_variables_and_continuation():
    (launch,) = launches('''\
        from sglang.utils import launch_server_cmd
        process, port = launch_server_cmd("""
            SGLANG_X=1 python3 -m sglang.launch_server \\\\
              --model-path org/m \\\\
              --chat-template './a b.jinja'
        """)
        ''')
    assert flags(launch) == [
        ("--model-path", "org/m", 4, 7, True),
        ("--chat-template", "./a b.jinja", 5, 7, True),
    ]
    assert [(v.name, v.line) for v in launch.environment] == [("SGLANG_X", 3)]
    assert launch.line == 3


def test_words_joined_into_a_text():
    (launch,) = launches("""\
        import subprocess
        words = ["sglang", "serve", "org/m", "--tp", "2"]
        subprocess.Popen(" ".join(words), shell=True)
        """)
    assert flags(launch) == [
        ("--model-path", "org/m", 2, 30, True),
        ("--tp", "2", 2, 39, True),
    ]


def test_a_list_handed_out_of_a_function():
    (launch,) = launches("""\
        class App:
            model = "org/m"

            def command(self):
                return ["python", "-m", "sglang.launch_server", "--model-path", self.model]
        """)
    assert flags(launch) == [("--model-path", "org/m", 5, 58, True)]


def test_a_text_for_a_shell_in_a_list():
    (launch,) = launches("""\
        import subprocess
        subprocess.run(["bash", "-c", "cd /x && sglang serve org/m --tp 2"])
        """)
    assert flags(launch) == [
        ("--model-path", "org/m", 2, 54, True),
        ("--tp", "2", 2, 60, True),
    ]
    assert launch.folder == "/x"


def test_the_fixture_of_sglangs_own_tests():
    (launch,) = launches("""\
        from sglang.test.test_utils import DEFAULT, popen_launch_server
        class T:
            @classmethod
            def setUpClass(cls):
                cls.model = "org/m"
                cls.process = popen_launch_server(
                    cls.model,
                    url,
                    timeout=DEFAULT,
                    other_args=["--tp", "2"] + more,
                    env={"SGLANG_A": "1"},
                )
        """)
    assert launch.model == "org/m"
    assert launch.command == "popen_launch_server(…)"
    assert [(a.flag, a.value) for a in launch.arguments] == [
        ("--model-path", "org/m"),
        ("--tp", "2"),
    ]
    assert launch.unresolved == 1
    assert [v.name for v in launch.environment] == ["SGLANG_A"]


def test_environment_of_the_process_itself():
    (launch,) = launches("""\
        import os
        import sglang
        os.environ["SGLANG_A"] = "1"
        os.environ.setdefault("SGLANG_B", "2")
        os.environ.update({"SGLANG_C": "3"})
        if x:
            os.environ["SGLANG_D"] = "4"
        sglang.Engine(model_path="m")
        """)
    assert [(v.name, v.value, v.line, v.column, v.conditional) for v in launch.environment] == [
        ("SGLANG_A", "1", 3, 12, False),
        ("SGLANG_B", "2", 4, 23, False),
        ("SGLANG_C", "3", 5, 20, False),
        ("SGLANG_D", "4", 7, 16, True),
    ]


def test_docstrings_help_and_messages_are_no_launches():
    assert (
        launches('''\
        """Start the server first: python -m sglang.launch_server --model-path x"""
        import sys

        def main():
            """
            python -m sglang.launch_server --model-path x
            """
            # python -m sglang.launch_server
            print("python -m sglang.launch_server --model-path x")
            raise SystemExit("start it: python -m sglang.launch_server --model-path x")
        ''')
        == []
    )


def test_columns_count_code_points_and_adjacent_literals_are_one():
    (launch,) = launches("""\
        import os
        os.system("# ü" "\\n" 'sglang '
                  "serve m --tp \\x32 --served-model-name 'ö'"  # --dp 2
                  " --port 1")
        """)
    assert flags(launch) == [
        ("--model-path", "m", 3, 18, True),
        ("--tp", "2", 3, 20, True),
        ("--served-model-name", "ö", 3, 30, True),
        ("--port", "1", 4, 13, True),
    ]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"def f(:\n", "syntax error at line 1"),
        (b"x = " + b"(" * 5000 + b")" * 5000, "nested|syntax error|too many"),
        (b"x = " + b"-" * 50_000 + b"1", "nested"),
        (b"x = 1\n" * 800_000, "larger than"),
        (b"# coding: nonsense\n", "unknown encoding|cannot be decoded|syntax error"),
        (b"x = '\xff'\n", "cannot be decoded|syntax error"),
        (b"x = '\0'\n", "null byte|syntax error"),
    ],
)
def test_what_cannot_be_parsed_is_told(data, reason):
    with pytest.raises(Unreadable, match=reason):
        read_program(data, "x.py", lambda _: None)


def test_text_that_doubles_forever_is_given_up():
    lines = ["a = 'python -m sglang.launch_server '"] + ["a = a + a"] * 5000
    assert read_program("\n".join(lines).encode(), "x.py", lambda _: None)[0] == []


def test_lists_that_grow_without_bounds_are_told():
    lines = ["a = ['x', 'y']"] + ["a = a + a"] * 5000
    lines.insert(0, "import sglang; sglang.Engine(model_path='m')")
    found, skipped = read_program("\n".join(lines).encode(), "x.py", lambda _: None)
    assert [launch.model for launch in found] == ["m"]
    assert [s.reason for s in skipped] == ["builds more text than any command has; read in part"]


def test_deep_branches_are_told():
    lines = [" " * depth + "if x:" for depth in range(95)] + [" " * 95 + "pass"]
    found, skipped = read_program("\n".join(lines).encode(), "x.py", lambda _: None)
    assert found == []
    assert [(s.path, s.reason) for s in skipped] == [("x.py", "nested too deeply; read in part")]


def test_more_launches_than_anyone_writes():
    lines = ["import sglang"] + ["sglang.Engine(model_path='m', port=1)"] * 3000
    lines = [line.replace("port=1", f"port={i}") for i, line in enumerate(lines)]
    found, skipped = read_program("\n".join(lines).encode(), "x.py", lambda _: None)
    assert len(found) == 1001
    assert [s.reason for s in skipped] == ["holds more than 1000 launches; read in part"]
