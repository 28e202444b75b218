from __future__ import annotations

import json

import pytest

from auditor.serve.checks.renderings import skipped
from tests.serve.checks.parser_tree import (
    AS_CODE,
    AS_JSON,
    AS_TAGS,
    BARE,
    EARLY,
    PLAIN,
    TOP,
    WITH_CALLS,
    chat,
    hits,
    serve,
    view,
)


def found(shape: str, parser: str, template: str, more: str = "", **rest):
    files = {"own.jinja": template, **rest.pop("files", {})}
    launch = serve(f"--tool-call-parser {parser} --chat-template own.jinja {more}")
    tables = {"tables": rest.pop("tables")} if "tables" in rest else {}
    return hits("serve-renderings", shape, view(launch, files=files, **tables), **rest)


def test_markers_of_another_format() -> None:
    (hit,) = found("markers", "deepseekv32", WITH_CALLS, tables=EARLY)
    assert hit.where.line == 3
    assert hit.confidence == "high"
    assert "`<|bot|><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>NAME`" in hit.message
    assert "it is what deepseekv3 or deepseekv31 would read" in hit.message
    template, parser = hit.evidence[:2]
    call_line = WITH_CALLS[: WITH_CALLS.index("<｜tool▁calls▁begin｜>")].count("\n") + 1
    assert (template.path, template.line) == ("own.jinja", call_line)
    assert parser.line == 43


@pytest.mark.parametrize(
    ("parser", "template"),
    [
        ("deepseekv31", WITH_CALLS),
        ("deepseekv3", WITH_CALLS),
        ("qwen", AS_JSON),
        ("hermes", AS_JSON),
        ("qwen3_coder", AS_CODE),
        ("glm45", AS_TAGS),
        ("llama3", BARE),
        ("pythonic", BARE),
        ("qwen", PLAIN),
        ("unheard", AS_JSON),
    ],
)
def test_parsers_that_see_the_calls_are_silent(parser: str, template: str) -> None:
    assert found("markers", parser, template) == []


@pytest.mark.parametrize(
    ("parser", "template"),
    [
        ("kimi_k2", AS_JSON),
        ("qwen", WITH_CALLS),
        ("glm47", WITH_CALLS),
        ("llama3", AS_JSON),
        ("qwen3_coder", BARE),
        ("mistral", AS_JSON),
        ("mistral", BARE),
    ],
)
def test_parsers_that_do_not_see_the_calls(parser: str, template: str) -> None:
    (hit,) = found("markers", parser, template)
    assert hit.confidence == "high"


def test_a_native_encoder_takes_the_templates_place() -> None:
    assert found("markers", "deepseekv4", WITH_CALLS) == []


def test_inner_markers_tell_formats_with_one_start_apart() -> None:
    (hit,) = found("markers", "qwen3_coder", AS_JSON)
    assert "looks for `<function=`" in hit.message
    assert hit.confidence == "medium"


def test_tags_that_the_class_knows_nothing_of() -> None:
    source = 'class HermesDetector:\n    bot_token = "<tool_call>"\n    end = "</tool_call>"\n'
    folder = "sglang/srt/function_call/"
    alone = {f"{folder}hermesdetector.py": source}
    assert found("markers", "hermes", AS_TAGS, files=alone) == []
    files = {**alone, f"{folder}glm4moedetector.py": "# <arg_key>name</arg_key>\n"}
    (hit,) = found("markers", "hermes", AS_TAGS, files=files)
    assert "knows nothing of `<arg_key>`" in hit.message
    assert found("markers", "hermes", AS_JSON, files=files) == []


def test_one_of_the_tags_that_the_class_speaks_of_is_strange() -> None:
    source = 'bot_token = "[TOOL_CALLS] ["\n# or [TOOL_CALLS]name[ARGS]{...}\n'
    files = {"sglang/srt/function_call/mistraldetector.py": source}
    compact = "[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments | tojson }}"
    assert found("markers", "mistral", chat(compact), files=files) == []
    with_id = compact.replace("[ARGS]", "[CALL_ID]{{ c.id }}[ARGS]")
    (hit,) = found("markers", "mistral", chat(with_id), files=files)
    assert "knows nothing of `[CALL_ID]`" in hit.message


GLM = "sglang/srt/function_call/glm4moedetector.py"
GLM_CLASS = (
    "import re\n\n\nclass Glm4MoeDetector:\n    def __init__(self):\n"
    '        self.bot_token = "<tool_call>"\n'
    '        self.name_regex = r"<tool_call>(.*?)\\n(.*?)</tool_call>"\n'
    '        self.arg = re.compile(r"<arg_key>(?P<key>.*?)</arg_key>\\s*<arg_value>(.*?)<")\n'
)


def test_tags_of_a_class_s_patterns_are_looked_for_in_a_call() -> None:
    files = {GLM: GLM_CLASS}
    (hit,) = found("markers", "glm45", AS_JSON, files=files)
    assert "looks for `<arg_key>`" in hit.message
    assert found("markers", "glm45", AS_TAGS, files=files) == []


def test_of_formats_that_begin_alike_the_patterns_tell_which_is_read() -> None:
    later = GLM_CLASS.replace("Glm4Moe", "Glm47Moe").replace(r"(.*?)\n(", "(.*?)<arg_key>(")
    files = {GLM: GLM_CLASS, "sglang/srt/function_call/glm47moedetector.py": later}
    on_one_line = AS_TAGS.replace("\n", "").replace(TOP.replace("\n", ""), TOP)
    (hit,) = found("markers", "glm45", on_one_line, files=files)
    assert "by its patterns, as glm47 does" in hit.message
    for parser, template in (("glm47", on_one_line), ("glm47", AS_TAGS), ("glm45", AS_TAGS)):
        assert found("markers", parser, template, files=files) == []


def test_a_pattern_that_takes_the_whole_inside_says_nothing() -> None:
    whole = GLM_CLASS.replace(r"(.*?)\n(.*?)", "(.*?)")
    later = GLM_CLASS.replace("Glm4Moe", "Glm47Moe").replace(r"(.*?)\n(", "(.*?)<arg_key>(")
    files = {GLM: whole, "sglang/srt/function_call/glm47moedetector.py": later}
    assert found("markers", "glm45", AS_TAGS, files=files) == []


def test_a_tag_may_stand_in_an_imported_file() -> None:
    folder = "sglang/srt/function_call"
    own = 'from sglang.srt.function_call.shared import split\n# "<tool_call>", <arg_key>\n'
    files = {f"{folder}/hermesdetector.py": own, f"{folder}/glm4moedetector.py": "# <arg_value>"}
    assert len(found("markers", "hermes", AS_TAGS, files=files)) == 1
    files[f"{folder}/shared.py"] = 'VALUE = "<arg_value>"\n'
    assert found("markers", "hermes", AS_TAGS, files=files) == []


def test_an_id_in_the_place_of_the_name() -> None:
    by_id = chat(
        "<|tool_calls_section_begin|><|tool_call_begin|>{{ c.id }}"
        "{{ c.function.arguments | tojson }}<|tool_calls_section_end|>"
    )
    for shape in ("markers", "drops-call", "drops-result"):
        assert found(shape, "kimi_k2", by_id) == []
    (hit,) = found("markers", "qwen", by_id)
    assert "<|tool_call_begin|>ID`" in hit.message


def test_a_marker_in_several_tokens_may_be_interrupted() -> None:
    harmony = chat(
        "<|start|>assistant to=functions.{{ c.function.name }}<|channel|>commentary"
        "<|message|>{{ c.function.arguments | tojson }}<|call|>"
    )
    assert found("markers", "gpt-oss", harmony) == []


def test_constants_stand_in_for_a_template_that_does_not_render() -> None:
    endless = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    (hit,) = found("markers", "kimi_k2", endless + AS_JSON)
    assert hit.confidence == "medium"
    assert found("markers", "qwen", endless + AS_JSON) == []


def test_the_models_own_template(tmp_path) -> None:
    model = tmp_path / "m"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "tokenizer_config.json").write_text(json.dumps({"chat_template": AS_JSON}))
    launch = serve("--model-path m --tool-call-parser kimi_k2")
    (hit,) = hits("serve-renderings", "markers", view(launch, roots=(tmp_path,)))
    assert hit.where.line == 3
    assert "the model's own template" in hit.message
    assert hit.evidence[0].path == "m/tokenizer_config.json"


def test_a_template_without_tools() -> None:
    assert found("no-tools", "unheard", PLAIN) == []
    assert len(found("no-tools", "$PARSER", PLAIN)) == 1
    (hit,) = found("no-tools", "qwen", PLAIN)
    assert hit.where.line == 3
    assert found("no-tools", "qwen", AS_JSON) == []
    assert found("no-tools", "deepseekv4", PLAIN) == []
    quiet = view(serve("--chat-template own.jinja"), files={"own.jinja": PLAIN})
    assert hits("serve-renderings", "no-tools", quiet) == []


def test_a_template_that_refuses_tools() -> None:
    refuses = "{% if tools %}{{ raise_exception('no tools') }}{% endif %}" + PLAIN
    (hit,) = found("refuses-tools", "qwen", refuses)
    assert "in either shape (TemplateError: no tools)" in hit.message
    strict = AS_JSON.replace("{% elif m.role == 'tool' %}", "{% else %}{{ raise_exception('x') }}")
    (hit,) = found("refuses-tools", "qwen", strict)
    assert "as soon as a tool has answered" in hit.message


def test_one_of_the_shapes_is_enough() -> None:
    flat = chat(
        "<tool_call>{{ c.function.name }}{{ c.function.arguments }}</tool_call>",
        define="{% for t in tools or [] %}{{ t.name.strip() }}{{ t | tojson }}{% endfor %}",
    )
    assert found("refuses-tools", "qwen", flat) == []
    assert found("no-tools", "qwen", flat) == []


def test_a_template_that_demands_no_system_message() -> None:
    strict = AS_JSON.replace(
        TOP, "{% for m in messages if m.role == 'system' %}{{ raise_exception('no') }}{% endfor %}"
    )
    for shape in ("refuses-tools", "no-tools", "drops-call", "drops-result"):
        assert found(shape, "qwen", strict) == []


def test_a_call_that_is_left_out() -> None:
    (hit,) = found("drops-call", "qwen", chat(""))
    assert "its own" not in hit.fix
    assert found("drops-call", "qwen", AS_JSON) == []


def test_an_answer_that_is_left_out() -> None:
    silent = AS_JSON.replace("<|out|>{{ m.content }}", "<|out|>")
    (hit,) = found("drops-result", "qwen", silent)
    assert hit.where.line == 3
    assert found("drops-result", "qwen", AS_JSON) == []


PARTS = {"files": ["serving.py"], "words": ["normalize_tool_content"]}
WALKS = chat(
    "<tool_call>{{ c.function.name }}{{ c.function.arguments }}</tool_call>",
    result="{% elif m.role == 'tool' %}<|out|>{% if m.content is string %}{{ m.content }}"
    "{% endif %}\n{% elif m.role == 'never' %}{% for part in m.content %}{% endfor %}",
)


def test_an_answer_in_parts_that_is_left_out() -> None:
    tree = {"serving.py": "def answer(): ...\n"}
    launch = serve("--tool-call-parser qwen --chat-template own.jinja")
    seen = view(launch, files={"own.jinja": WALKS, **tree})
    (hit,) = hits("serve-renderings", "drops-list", seen, **PARTS)
    assert "leaves it out" in hit.message
    flattens = view(
        launch, files={"own.jinja": WALKS, "serving.py": "def normalize_tool_content(): ..."}
    )
    unknown = view(launch, files={"own.jinja": WALKS})
    as_strings = view(launch, files={"own.jinja": AS_JSON, **tree})
    for quiet in (flattens, unknown, as_strings):
        assert hits("serve-renderings", "drops-list", quiet, **PARTS) == []


STRINGS_ONLY = chat("<tool_call>{{ c.function.name + c.function.arguments }}</tool_call>")
OBJECTS_ONLY = chat(
    "<tool_call>{{ c.function.name }}{{ c.function.arguments | tojson }}</tool_call>"
)


def test_arguments_that_are_taken_for_a_string() -> None:
    (hit,) = found("parsed-arguments", "qwen", STRINGS_ONLY)
    assert "fails (TypeError" in hit.message
    assert found("parsed-arguments", "qwen", OBJECTS_ONLY) == []
    assert found("refuses-tools", "qwen", STRINGS_ONLY) == []


def test_arguments_that_are_taken_for_an_object() -> None:
    (hit,) = found("string-arguments", "qwen", OBJECTS_ONLY)
    assert "quotes it twice" in hit.message
    for template in (AS_JSON, STRINGS_ONLY):
        assert found("string-arguments", "qwen", template) == []


def test_templates_that_were_not_rendered_are_told() -> None:
    launch = serve("--tool-call-parser qwen --chat-template own.jinja")
    (one,) = skipped(view(launch, launch, files={"own.jinja": "{{ ''.__class__.__mro__ }}"}))
    assert (one.path, one.stage) == ("own.jinja", "template")
    assert "may not use" in one.reason


def test_a_template_that_fails_whatever_it_is_given_is_told() -> None:
    launch = serve("--chat-template own.jinja")
    (one,) = skipped(view(launch, files={"own.jinja": "{{ raise_exception('never') }}"}))
    assert (one.path, one.stage) == ("own.jinja", "template")
    assert "fails on a plain conversation" in one.reason and "never" in one.reason
