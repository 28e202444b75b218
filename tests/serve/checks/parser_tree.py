"""A small tree's tables, templates and launches, made by hand for the checks of launches.

The markers are those of the formats' public descriptions; the paths and lines are made up.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Literal

import msgspec

from auditor.model import Argument, Hit, Launch
from auditor.rulebook import CheckName
from auditor.serve.checks.seen import OtherTree, ServeView
from auditor.serve.checks.table import SERVE_CHECKS
from auditor.serve.scripts.places import Places
from auditor.serve.scripts.template import Templates
from auditor.serve.tables.facts import (
    AutoRule,
    ConversationTemplate,
    Encoder,
    PathMatcher,
    ReasoningParser,
    Tables,
    ToolParser,
)

TEMPLATES = Templates()
CALLS = "<｜tool▁calls▁begin｜>"
DSML = "<｜DSML｜tool_calls>"
DSML_OLD = "<｜DSML｜function_calls>"

_TOOL_TABLE = "sglang/srt/function_call/function_call_parser.py"
_REASONING_TABLE = "sglang/srt/parser/reasoning_parser.py"


def tool(name: str, class_name: str, start: str, end: str, line: int, **more) -> ToolParser:
    path = f"sglang/srt/function_call/{class_name.lower()}.py"
    starts, ends = ((start,) if start else ()), ((end,) if end else ())
    markers = {"bot_token": start, "eot_token": end, **more.pop("inner", {})}
    return ToolParser(
        name,
        class_name,
        _TOOL_TABLE,
        line,
        path,
        starts=starts,
        ends=ends,
        markers={key: text for key, text in markers.items() if text},
        **more,
    )


CODER = {"tool_call_prefix": "<function=", "parameter_prefix": "<parameter="}
SECTION = {"tool_call_start_token": "<|tool_call_begin|>"}
TOOLS = (
    tool("deepseekv3", "DeepSeekV3Detector", CALLS, "<｜tool▁calls▁end｜>", 41),
    tool("deepseekv31", "DeepSeekV31Detector", CALLS, "<｜tool▁calls▁end｜>", 42),
    tool("deepseekv32", "DeepSeekV32Detector", DSML_OLD, "</｜DSML｜function_calls>", 43),
    tool("deepseekv4", "DeepSeekV4Detector", DSML, "</｜DSML｜tool_calls>", 44),
    tool("glm45", "Glm4MoeDetector", "<tool_call>", "</tool_call>", 45),
    tool("glm47", "Glm47MoeDetector", "<tool_call>", "</tool_call>", 46),
    tool("gpt-oss", "GptOssDetector", "<|start|>assistant<|channel|>commentary", "<|call|>", 47),
    tool("hermes", "HermesDetector", "<tool_call>", "</tool_call>", 48),
    tool(
        "kimi_k2",
        "KimiK2Detector",
        "<|tool_calls_section_begin|>",
        "<|tool_calls_section_end|>",
        49,
        inner=SECTION,
    ),
    msgspec.structs.replace(
        tool("llama3", "Llama32Detector", "<|python_tag|>", "", 50), starts=("<|python_tag|>", "{")
    ),
    tool("lfm2", "Lfm2Detector", "<|tool_call_start|>", "<|tool_call_end|>", 58),
    tool("minimax-m2", "MinimaxM2Detector", "<minimax:tool_call>", "</minimax:tool_call>", 51),
    tool("mistral", "MistralDetector", "[TOOL_CALLS] [", "", 52, inner={"marker": "[TOOL_CALLS"}),
    tool(
        "pythonic",
        "PythonicDetector",
        "",
        "",
        53,
        about="Reads calls as Llama-4 writes them: [name(argument=value)].",
    ),
    tool("qwen", "Qwen25Detector", "<tool_call>\n", "\n</tool_call>", 54),
    tool("qwen25", "Qwen25Detector", "<tool_call>\n", "\n</tool_call>", 55, deprecated_for="qwen"),
    tool("qwen3_coder", "Qwen3CoderDetector", "<tool_call>", "</tool_call>", 56, inner=CODER),
    tool("step3", "Step3Detector", "<｜tool_calls_begin｜>", "<｜tool_calls_end｜>", 57),
)


def thinker(name: str, class_name: str, line: int, **more) -> ReasoningParser:
    row = {"start": "<think>", "end": "</think>", **more}
    return ReasoningParser(name, class_name, _REASONING_TABLE, line, _REASONING_TABLE, **row)


EXPLICIT = {"default_mode": "explicit_thinking"}
CALL = {"tool_start": "<tool_call>"}
REASONING = (
    thinker("deepseek-r1", "DeepSeekR1Detector", 81, forced=True),
    thinker("deepseek-v3", "DeepSeekV3Thinking", 82, **CALL, **EXPLICIT),
    thinker("deepseek-v4", "DeepSeekV4Thinking", 83, **EXPLICIT),
    thinker("glm45", "Glm45Thinking", 84, default_mode="enable_thinking", **CALL),
    thinker("gpt-oss", "GptOssThinking", 85, start="<|channel|>analysis", end="<|end|>"),
    thinker("kimi_k2", "KimiK2Thinking", 86, tool_start="<|tool_calls_section_begin|>"),
    thinker("minimax", "Qwen3Detector", 87, default_mode="enable_thinking", **CALL),
    thinker("qwen3", "Qwen3Detector", 88, default_mode="enable_thinking", **CALL),
    thinker("step3", "DeepSeekR1Detector", 89, forced=True),
)

_ENCODING = "sglang/srt/entrypoints/openai/chat_encoding.py"
ENCODERS = (
    Encoder("dsv4", 'tool_call_parser == "deepseekv4"', _ENCODING, 11, parsers=("deepseekv4",)),
    Encoder("dsv32", 'tool_call_parser == "deepseekv32"', _ENCODING, 13, parsers=("deepseekv32",)),
    Encoder("dsv4", '"DeepseekV4" in arch', _ENCODING, 17, architectures=("DeepseekV4",)),
    Encoder(
        "dsv32",
        '"DeepseekV3" in arch and not has_chat_template',
        _ENCODING,
        20,
        architectures=("DeepseekV3",),
        without_template=True,
    ),
)

_CONVERSATION = "sglang/srt/parser/conversation.py"
CONVERSATIONS = (
    ConversationTemplate("chatml", _CONVERSATION, 30),
    ConversationTemplate("llama-2", _CONVERSATION, 40),
    ConversationTemplate("points-v15-chat", _CONVERSATION, 50),
    ConversationTemplate("unlimited-ocr", _CONVERSATION, 60),
)
MATCHERS = (
    PathMatcher("points-v15-chat", r"\bpoints\b", True, _CONVERSATION, 71),
    PathMatcher("unlimited-ocr", "unlimited", True, _CONVERSATION, 76, ("unlimited-ocr",)),
)

_AUTO = "sglang/srt/parser/template_detection.py"
AUTO_RULES = (
    AutoRule("tool", "kimi_k2", _AUTO, 21, undecided=True),
    AutoRule("tool", "deepseekv4", _AUTO, 23, contains=(DSML,)),
    AutoRule("tool", "deepseekv31", _AUTO, 25, contains=(CALLS, "<｜tool▁sep｜>")),
    AutoRule("tool", "qwen3_coder", _AUTO, 27, contains=("<function=", "<parameter=")),
    AutoRule("tool", "qwen", _AUTO, 29, undecided=True),
    AutoRule("reasoning", "deepseek-v3", _AUTO, 41, contains=("thinking",)),
)

MODERN = Tables(
    version="0.5.18",
    tool_parsers=TOOLS,
    reasoning_parsers=REASONING,
    encoders=ENCODERS,
    conversation_templates=CONVERSATIONS,
    path_matchers=MATCHERS,
    auto_rules=AUTO_RULES,
)
EARLY = Tables(
    version="0.5.9",
    tool_parsers=tuple(row for row in TOOLS if row.name != "deepseekv4"),
    reasoning_parsers=tuple(
        thinker(row.name, row.class_name, row.line, forced=row.forced)
        for row in REASONING
        if row.name not in ("deepseek-v4", "gpt-oss")
    ),
    encoders=ENCODERS[-1:],
    conversation_templates=CONVERSATIONS,
    path_matchers=MATCHERS,
)

TOP = """{{ bos_token }}{% for m in messages if m.role == 'system' %}{{ m.content }}
{% endfor %}
"""
DEFINE = "{% if tools %}Tools:{% for t in tools %}\n{{ t | tojson }}{% endfor %}\n{% endif %}\n"


def chat(call: str, *, define: str = DEFINE, tail: str = "<|bot|>", result: str = "") -> str:
    """A template of a made-up model that writes a call in the given way."""
    answer = result or "{% elif m.role == 'tool' %}<|out|>{{ m.content }}<|end|>\n"
    return (
        TOP
        + define
        + "{% for m in messages %}"
        + "{% if m.role == 'user' %}<|user|>{{ m.content }}<|end|>\n"
        + "{% elif m.role == 'assistant' %}<|bot|>{{ m.content or '' }}"
        + "{% for c in m.tool_calls or [] %}"
        + call
        + "{% endfor %}<|end|>\n"
        + answer
        + "{% endif %}{% endfor %}"
        + "{% if add_generation_prompt %}"
        + tail
        + "{% endif %}"
    )


_ARGUMENTS = (
    "{{ c.function.arguments if c.function.arguments is string"
    " else c.function.arguments | tojson }}"
)
WITH_CALLS = chat(
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{{ c.function.name }}<｜tool▁sep｜>"
    + _ARGUMENTS
    + "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    tail="<｜Assistant｜>{% if thinking %}<think>{% else %}</think>{% endif %}",
)
AS_JSON = chat(
    '<tool_call>\n{"name": "{{ c.function.name }}", "arguments": ' + _ARGUMENTS + "}\n</tool_call>",
    tail="<|bot|>{% if enable_thinking is defined and not enable_thinking %}"
    "<think>\n\n</think>\n\n{% endif %}",
)
AS_TAGS = chat(
    "<tool_call>{{ c.function.name }}\n{% for k in c.function.arguments %}"
    "<arg_key>{{ k }}</arg_key>\n<arg_value>{{ c.function.arguments[k] }}</arg_value>\n"
    "{% endfor %}</tool_call>"
)
AS_CODE = chat(
    "<tool_call>\n<function={{ c.function.name }}>\n{% for k in c.function.arguments %}"
    "<parameter={{ k }}>\n{{ c.function.arguments[k] }}\n</parameter>\n"
    "{% endfor %}</function>\n</tool_call>"
)
BARE = chat('{"name": "{{ c.function.name }}", "parameters": ' + _ARGUMENTS + "}")
PLAIN = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def serve(
    line: str,
    *,
    path: str = "serve.sh",
    program: Literal["server", "router", "foreign", "diffusion"] = "server",
    **more,
) -> Launch:
    """The launch of one command line, its flags on lines of their own from the second on."""
    words = shlex.split(line)
    arguments: list[Argument] = []
    for word in words:
        if word.startswith("--"):
            arguments.append(Argument(word, None, path, len(arguments) + 2, 5))
        elif arguments:
            last = arguments[-1]
            resolved = "$" not in word
            arguments[-1] = Argument(last.flag, word, path, last.line, 5, resolved)
    model = next((a.value for a in arguments if a.flag == "--model-path" and a.resolved), None)
    return Launch(
        path, 1, program, "sglang serve", "plain", model, tuple(arguments), (), 0, "shell", **more
    )


def view(
    *launches: Launch,
    tables: Tables = MODERN,
    files: dict[str, str] | None = None,
    roots: tuple[Path, ...] = (),
    others: tuple[OtherTree, ...] = (),
    outside: frozenset[str] = frozenset(),
) -> ServeView:
    known = {name: text.encode() for name, text in (files or {}).items()}
    return ServeView(launches, tables, others, Places(roots, known.get, outside), TEMPLATES)


def hits(check: CheckName, shape: str, seen: ServeView, **params) -> list[Hit]:
    return list(SERVE_CHECKS[check].judge({"shape": shape, **params}, seen))


def lines(found: list[Hit]) -> list[int]:
    return [hit.where.line for hit in found]
