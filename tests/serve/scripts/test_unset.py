"""A variable that only some runs unset."""

from __future__ import annotations

from auditor.serve.scripts.shell import read_shell


def values_of(script: str) -> list[tuple[str | None, bool, bool]]:
    launches, _ = read_shell(script.encode(), "serve.sh", lambda path: None)
    found = [a for a in launches[0].arguments if a.flag == "--page-size"]
    return [(a.value, a.resolved, a.conditional) for a in found]


START = "python -m sglang.launch_server --model-path m --page-size $PAGE\n"


def test_what_the_caller_may_have_given_is_not_known() -> None:
    """One run passes the flag alone, the other what the caller has set."""
    assert values_of(f'if [ "$A" ]; then unset PAGE; fi\n{START}') == [
        (None, True, True),
        ("$PAGE", False, True),
    ]
