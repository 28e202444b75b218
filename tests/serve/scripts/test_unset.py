"""A variable that only some runs unset."""

from __future__ import annotations

from auditor.serve.scripts.shell import read_shell


def value_of(script: str) -> tuple[str | None, bool]:
    launches, _ = read_shell(script.encode(), "serve.sh", lambda path: None)
    argument = next(a for a in launches[0].arguments if a.flag == "--page-size")
    return argument.value, argument.resolved


START = "python -m sglang.launch_server --model-path m --page-size $PAGE\n"


def test_what_the_caller_may_have_given_is_not_known() -> None:
    assert value_of(f'if [ "$A" ]; then unset PAGE; fi\n{START}') == ("$PAGE", False)
