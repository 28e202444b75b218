from __future__ import annotations

import msgspec
import pytest

from auditor.model import Argument
from auditor.serve.checks.seen import OtherTree
from auditor.serve.tables.facts import Flag
from tests.serve.checks.parser_tree import (
    AS_JSON,
    EARLY,
    MODERN,
    PLAIN,
    WITH_CALLS,
    hits,
    lines,
    serve,
    view,
)

SEED = (
    "--tool-call-parser deepseekv4 --reasoning-parser deepseek-v4 "
    "--chat-template tool_chat_template_deepseekv32.jinja"
)


def found(shape: str, line: str, **more):
    return hits("serve-parsers", shape, view(serve(line), **more))


def test_seed_case_is_two_unknown_parsers_on_an_early_tree() -> None:
    seen = found("unknown", SEED, tables=EARLY)
    assert lines(seen) == [2, 3]
    assert "no tool-call parser of that name" in seen[0].message
    assert "no reasoning parser of that name" in seen[1].message
    assert seen[0].anchor == "--tool-call-parser deepseekv4"
    assert seen[0].evidence[0].line == 41


def test_seed_case_has_both_parsers_on_a_modern_tree() -> None:
    assert found("unknown", SEED) == []


def test_the_side_that_has_the_parser_is_named() -> None:
    others = (OtherTree("target", "v0.5.18", MODERN), OtherTree("upstream", "v0.5.9", EARLY))
    (hit,) = found("unknown", "--tool-call-parser deepseekv4", tables=EARLY, others=others)
    assert "it exists in target v0.5.18" in hit.message
    assert any(e.side == "target" and e.line == 44 for e in hit.evidence)


@pytest.mark.parametrize(
    ("line", "near"),
    [
        ("--reasoning-parser deepseek-v32", "deepseek-v3"),
        ("--tool-call-parser llama4", "pythonic"),
        ("--tool-call-parser glm53", "glm45"),
        ("--tool-call-parser qwen3-coder", "qwen3_coder"),
    ],
)
def test_nearest_names_come_from_names_and_documentation(line: str, near: str) -> None:
    (hit,) = found("unknown", line)
    assert near in hit.fix


def test_a_name_of_the_other_table_is_told() -> None:
    (hit,) = found("unknown", "--reasoning-parser glm47")
    assert "it is the name of a tool-call parser" in hit.message


@pytest.mark.parametrize(
    "line",
    [
        "--tool-call-parser $PARSER",
        "--tool-call-parser glm47 --reasoning-parser glm45",
        "--tool-call-parser auto",
    ],
)
def test_known_and_unresolved_names_are_silent(line: str) -> None:
    assert found("unknown", line) == []


def test_auto_is_no_name_on_an_early_tree() -> None:
    (hit,) = found("unknown", "--tool-call-parser auto", tables=EARLY)
    assert "cannot choose" in hit.message


@pytest.mark.parametrize("program", ["router", "foreign", "diffusion"])
def test_other_programs_have_parsers_of_their_own(program) -> None:
    launch = serve("--tool-call-parser nothing", program=program)
    assert hits("serve-parsers", "unknown", view(launch)) == []


def test_an_old_name_is_told_with_the_new_one() -> None:
    (hit,) = found("deprecated", "--tool-call-parser qwen25")
    assert hit.fix == "write --tool-call-parser qwen"
    assert found("deprecated", "--tool-call-parser qwen") == []


VALID_PAIRS = [
    ("glm47", "glm45"),
    ("qwen3_coder", "qwen3"),
    ("minimax-m2", "minimax"),
    ("deepseekv31", "deepseek-v3"),
    ("deepseekv32", "deepseek-v3"),
    ("deepseekv4", "deepseek-v4"),
    ("kimi_k2", "kimi_k2"),
    ("step3", "step3"),
    ("gpt-oss", "gpt-oss"),
    ("qwen", "deepseek-r1"),  # a distilled model writes the calls of one, the thinking of another
    ("hermes", "qwen3"),
    ("llama3", "deepseek-r1"),
    ("pythonic", "qwen3"),
    ("lfm2", "qwen3"),  # documented; the format has no thinking of its own in the tree
]


@pytest.mark.parametrize(("tool", "reasoning"), VALID_PAIRS)
def test_pairs_that_belong_together_are_silent(tool: str, reasoning: str) -> None:
    line = f"--tool-call-parser {tool} --reasoning-parser {reasoning}"
    assert found("families", line) == []


@pytest.mark.parametrize(
    ("tool", "reasoning", "why"),
    [
        ("kimi_k2", "qwen3", "ends thinking at `<tool_call>`"),
        ("deepseekv4", "qwen3", "ends thinking at `<tool_call>`"),
        ("qwen3_coder", "kimi_k2", "ends thinking at `<|tool_calls_section_begin|>`"),
        ("gpt-oss", "deepseek-r1", "gpt-oss, for `<|channel|>analysis`"),
    ],
)
def test_pairs_whose_texts_disagree(tool: str, reasoning: str, why: str) -> None:
    (hit,) = found("families", f"--tool-call-parser {tool} --reasoning-parser {reasoning}")
    assert why in hit.message
    assert hit.where.line == 3
    assert hit.confidence == "medium"


def test_names_that_share_a_class_are_one_family() -> None:
    line = "--tool-call-parser minimax-m2 --reasoning-parser qwen3"
    assert found("families", line) == []


def test_branches_that_may_exclude_each_other_lower_the_confidence() -> None:
    launch = serve("--tool-call-parser kimi_k2 --reasoning-parser qwen3")
    arguments = tuple(
        Argument(a.flag, a.value, a.path, a.line, conditional=True) for a in launch.arguments
    )
    launch = msgspec.structs.replace(launch, arguments=arguments)
    (hit,) = hits("serve-parsers", "families", view(launch))
    assert hit.confidence == "low"


TEMPLATE = "--chat-template own.jinja"


def test_forced_thinking_with_a_template_that_switches() -> None:
    files = {"own.jinja": WITH_CALLS}
    (hit,) = found("forced-thinking", f"--reasoning-parser deepseek-r1 {TEMPLATE}", files=files)
    assert hit.where.line == 2
    assert "as it is by default" in hit.message
    assert hit.evidence[1].path == "own.jinja"
    for line, text in (("deepseek-r1", PLAIN), ("deepseek-v3", WITH_CALLS)):
        quiet = {"own.jinja": text}
        assert not found("forced-thinking", f"--reasoning-parser {line} {TEMPLATE}", files=quiet)


def test_forced_thinking_with_a_native_encoder() -> None:
    line = "--tool-call-parser deepseekv4 --reasoning-parser deepseek-r1"
    (hit,) = found("forced-thinking", line)
    assert hit.fix == "use --reasoning-parser deepseek-v4"
    assert found("forced-thinking", "--tool-call-parser qwen --reasoning-parser deepseek-r1") == []


QUIET_BY_DEFAULT = AS_JSON.replace(
    "enable_thinking is defined and not enable_thinking", "not enable_thinking"
)


def test_a_tree_that_assumes_thinking_with_a_template_that_does_not() -> None:
    line = f"--reasoning-parser qwen3 {TEMPLATE}"
    files = {"own.jinja": QUIET_BY_DEFAULT}
    (hit,) = found("assumed-thinking", line, tables=EARLY, files=files)
    assert hit.where.line == 2
    assert "`<|bot|><think>" in hit.message
    # A tree that reads the template knows; a template that thinks by default is what it assumes.
    assert found("assumed-thinking", line, files=files) == []
    assert found("assumed-thinking", line, tables=EARLY, files={"own.jinja": AS_JSON}) == []


FLAGS = msgspec.structs.replace(
    MODERN,
    flags=(
        Flag(("--tool-call-parser",), "tool_call_parser", "server_args.py", 1),
        Flag(("--reasoning-parser",), "reasoning_parser", "server_args.py", 2),
        Flag(("--tool-server",), "tool_server", "server_args.py", 3),
    ),
)


@pytest.mark.parametrize(
    ("flag", "found_lines"),
    [("--tool-call-parser", [2]), ("--tool-call", [2]), ("--tool", []), ("--tool_call_parser", [])],
)
def test_flags_are_taken_as_argparse_takes_them(flag: str, found_lines: list[int]) -> None:
    assert lines(found("unknown", f"{flag} nothing", tables=FLAGS)) == found_lines
