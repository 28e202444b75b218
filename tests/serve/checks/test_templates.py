from __future__ import annotations

import pytest

from auditor.serve.checks.seen import ServeView
from auditor.serve.scripts.places import Places
from tests.serve.checks.parser_tree import (
    AS_CODE,
    AS_JSON,
    BARE,
    EARLY,
    MODERN,
    PLAIN,
    TEMPLATES,
    WITH_CALLS,
    hits,
    serve,
    view,
)
from tests.serve.checks.test_parsers import SEED

OWN = "--chat-template own.jinja"
V4_CLASS = "sglang/srt/function_call/deepseekv4detector.py"


def found(shape: str, line: str, **more):
    return hits("serve-templates", shape, view(serve(line), **more))


def test_seed_case_is_a_template_that_is_never_rendered() -> None:
    files = {
        "examples/chat_template/tool_chat_template_deepseekv32.jinja": WITH_CALLS,
        V4_CLASS: 'token = "｜DSML｜"\n',
    }
    (hit,) = found("never-rendered", f"--model-path org/DeepSeek-V4 {SEED}", files=files)
    assert hit.where.line == 5
    assert hit.confidence == "high"
    assert hit.anchor == "--chat-template tool_chat_template_deepseekv32.jinja"
    message = hit.message
    assert "loaded and never rendered" in message
    assert "--tool-call-parser deepseekv4 chooses the native encoder dsv4" in message
    assert "not the cause of a leak that appears only under load" in message
    assert "a real break under --tool-call-parser auto" in message
    assert "it would pick deepseekv31 and the reasoning parser deepseek-v3" in message
    assert "A text search for `<｜DSML｜tool_calls>`" in message
    assert "DeepSeekV4Detector builds them from parts" in message
    assert "`｜` is U+FF5C, not ASCII" in message
    assert [(e.path.rpartition("/")[2], e.line) for e in hit.evidence] == [
        ("chat_encoding.py", 11),
        ("template_detection.py", 25),
        ("function_call_parser.py", 44),
    ]


def test_seed_case_says_nothing_of_a_native_encoder_on_an_early_tree() -> None:
    assert found("never-rendered", SEED, tables=EARLY) == []


def test_markers_that_the_class_spells_out_are_said_so() -> None:
    (hit,) = found("never-rendered", SEED, files={V4_CLASS: 'bot = "<｜DSML｜tool_calls>"\n'})
    assert "only DeepSeekV4Detector spells them out" in hit.message
    assert "which goes by this file (not found here)" in hit.message


@pytest.mark.parametrize(
    "line",
    [
        "--tool-call-parser deepseekv4 --reasoning-parser deepseek-v4",
        f"--tool-call-parser deepseekv31 {OWN}",
        "--tool-call-parser deepseekv4 --chat-template $TEMPLATE",
        f"--tool-call-parser auto {OWN}",
        f"--model-path org/DeepSeek-V4 {OWN}",  # the model's name alone is no evidence
    ],
)
def test_templates_that_are_used_or_not_known_are_silent(line: str) -> None:
    assert found("never-rendered", line) == []


def test_model_and_parser_named_alike_stand_in_for_an_unknown_architecture() -> None:
    line = f"--model-path org/DeepSeek-V4-Flash --reasoning-parser deepseek-v4 {OWN}"
    (hit,) = found("never-rendered", line)
    assert hit.confidence == "medium"
    assert hit.where.line == 4


def test_the_architecture_chooses_the_encoder(tmp_path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text('{"architectures": ["DeepseekV4ForCausalLM"]}')
    line = f"--model-path model --tool-call-parser deepseekv4 {OWN}"
    (hit,) = found("never-rendered", line, roots=(tmp_path,))
    assert hit.confidence == "high"


def test_an_explicit_template_disables_the_encoder_of_an_early_tree() -> None:
    line = f"--tool-call-parser deepseekv32 --reasoning-parser deepseek-v3 {OWN}"
    (hit,) = found("disables-encoder", line, tables=EARLY)
    assert hit.where.line == 4
    assert "switches the native encoder dsv32 off" in hit.message
    assert hit.confidence == "medium"
    (hit,) = found("disables-encoder", line, tables=EARLY, files={"own.jinja": WITH_CALLS})
    assert hit.confidence == "high"


@pytest.mark.parametrize("parser", ["deepseekv31", "deepseekv3", "qwen"])
def test_other_parsers_do_not_mean_the_encoder(parser: str) -> None:
    assert found("disables-encoder", f"--tool-call-parser {parser} {OWN}", tables=EARLY) == []


def test_a_parser_that_forces_its_encoder_is_not_disabled() -> None:
    assert found("disables-encoder", f"--tool-call-parser deepseekv32 {OWN}") == []


def test_a_template_that_writes_the_encoders_markers_disables_nothing_of_use() -> None:
    files = {"own.jinja": WITH_CALLS.replace("<｜tool▁calls▁begin｜>", "<｜DSML｜function_calls>")}
    line = f"--tool-call-parser deepseekv32 {OWN}"
    assert found("disables-encoder", line, tables=EARLY, files=files) == []


def test_a_conversation_name_with_tools() -> None:
    (hit,) = found("conversation", "--chat-template chatml --tool-call-parser qwen")
    assert hit.where.line == 2
    assert "never given the tools" in hit.message
    assert hit.evidence[0].line == 30
    assert found("conversation", "--chat-template chatml") == []
    assert found("conversation", f"{OWN} --tool-call-parser qwen") == []


def test_a_conversation_name_with_a_natively_encoded_model() -> None:
    line = "--model-path org/DeepSeek-V4 --reasoning-parser deepseek-v4 --chat-template chatml"
    (hit,) = found("conversation", line)
    assert "passes the native encoder dsv4 by" in hit.message
    assert hit.where.line == 4


def test_a_conversation_in_json_is_given_no_tools_either() -> None:
    line = "--chat-template own.json --tool-call-parser qwen"
    assert len(found("conversation", line, files={"own.json": "{}"})) == 1


def test_a_missing_file() -> None:
    (hit,) = found("missing", "--chat-template configs/templates/zephyr.jinja")
    assert hit.where.line == 2
    assert "there is no such file (looked in" in hit.message
    assert hit.confidence == "medium"


def test_a_missing_file_that_would_be_ignored_is_one_finding() -> None:
    line = "--tool-call-parser deepseekv4 --chat-template zephyr.jinja"
    assert found("missing", line) == []
    (hit,) = found("never-rendered", line)
    assert "no such file was found here" in hit.message


def test_a_name_that_is_no_built_in() -> None:
    (hit,) = found("missing", "--chat-template chat-ml")
    assert hit.fix == "use chatml"
    assert hit.confidence == "high"


@pytest.mark.parametrize(
    "line",
    [
        "--chat-template chatml",
        "--chat-template $DIR/own.jinja",
        "--chat-template /in/a/container.jinja",
        "--chat-template ~/own.jinja",
        "--chat-template ./examples/chat_template/of_the_checkout.jinja",
        "--chat-template own.jinja",
    ],
)
def test_files_that_exist_or_cannot_be_known_are_not_missing(line: str) -> None:
    assert found("missing", line, files={"own.jinja": PLAIN}) == []


def test_a_file_of_another_ending_is_not_loaded() -> None:
    (hit,) = found("missing", "--chat-template own.j2", files={"own.j2": PLAIN})
    assert "end in .jinja or .json only" in hit.message


def test_a_template_that_the_tree_ships_for_the_model() -> None:
    launch = serve("--port 1 --model-path org/Some-Reranker-8B")
    names = ("examples/chat_template/some_reranker.jinja", "examples/chat_template/other.jinja")
    places = Places((), lambda path: None, names=names)
    seen = ServeView((launch,), MODERN, (), places, TEMPLATES)
    (hit,) = hits("serve-templates", "of-tree", seen)
    assert hit.where.line == 3
    assert names[0] in hit.fix
    given = serve("--model-path org/Some-Reranker-8B --chat-template some_reranker.jinja")
    other = serve("--model-path org/Reranker-8B")
    quiet = ServeView((given, other), MODERN, (), places, TEMPLATES)
    assert hits("serve-templates", "of-tree", quiet) == []


def test_auto_that_picks_another_parser() -> None:
    # A mention in a comment is enough for a rule that looks at the text only.
    files = {"own.jinja": "{# not <function= nor <parameter= #}" + WITH_CALLS.replace("sep", "")}
    (hit,) = found("auto", f"--tool-call-parser auto {OWN}", files=files)
    assert "auto picks qwen3_coder" in hit.message
    assert "deepseekv3" in hit.fix


def test_auto_that_finds_nothing() -> None:
    (hit,) = found("auto", f"--tool-call-parser auto {OWN}", files={"own.jinja": BARE})
    assert "finds no parser" in hit.message
    assert hit.where.line == 2


@pytest.mark.parametrize("text", [WITH_CALLS, AS_CODE, AS_JSON])
def test_auto_that_fits_or_is_not_known_is_silent(text: str) -> None:
    assert found("auto", f"--tool-call-parser auto {OWN}", files={"own.jinja": text}) == []
