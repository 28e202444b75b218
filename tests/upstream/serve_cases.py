"""Public cases of wrong serve settings as scripts of our own, held to the releases they name.

The numbers are those of the collection that these tests follow; ``right`` is what its authors say
is right, and must be silent at medium severity and above. Where a case lives in a template or a
checkpoint that is not public here, a small one with the same markers stands in for it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from tests.serve.checks.parser_tree import AS_JSON, AS_TAGS, WITH_CALLS, chat

START = "python -m sglang.launch_server --model-path {} "
V32 = "examples/chat_template/tool_chat_template_deepseekv32.jinja"
CHECKPOINT = START.format("checkpoint")

_NAME = "{{ c.function.name }}"
_ARGUMENTS = "{{ c.function.arguments | tojson }}"
GLM47 = chat(
    f"<tool_call>{_NAME}{{% for k in c.function.arguments %}}<arg_key>{{{{ k }}}}</arg_key>"
    "<arg_value>{{ c.function.arguments[k] }}</arg_value>{% endfor %}</tool_call>"
)
MISTRAL_WITH_ID = chat(f"[TOOL_CALLS]{_NAME}[CALL_ID]{{{{ c.id }}}}[ARGS]{_ARGUMENTS}")
TEXT_ARGUMENTS = chat(
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>"
    + _NAME
    + "\n```json\n{{ '' + c.function.arguments }}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
)
NO_THINKING = AS_JSON.replace(
    "enable_thinking is defined and not enable_thinking", "not enable_thinking"
)
V3 = TEXT_ARGUMENTS.replace("{{ '' + c.function.arguments }}", _ARGUMENTS)


@dataclass(frozen=True)
class Case:
    """``wanted`` are (rule, line) of ``serve.sh`` or of the file that is named third."""

    number: str
    release: str
    script: str
    wanted: tuple[tuple[str, int], ...]
    right: str = ""
    right_release: str = ""
    files: dict[str, str] = field(default_factory=dict)
    right_files: dict[str, str] = field(default_factory=dict)
    name: str = "serve.sh"
    overlay: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Package-relative path of the tree to (old text, new text)."""


def checkpoint(template: str = "", architecture: str = "Qwen3ForCausalLM") -> dict[str, str]:
    files = {"checkpoint/config.json": json.dumps({"architectures": [architecture]})}
    if template:
        files["checkpoint/chat_template.jinja"] = template
    return files


def lines(*parts: str) -> str:
    return " \\\n  ".join(parts) + "\n"


CASES = [
    Case(
        "C01",
        "0.5.9",
        lines(
            START.format("deepseek-ai/DeepSeek-V3.2"),
            "--tool-call-parser deepseekv32",
            f"--chat-template ./{V32}",
        ),
        (("template-disables-encoder", 3),),
        START.format("deepseek-ai/DeepSeek-V3.2") + "--tool-call-parser deepseekv32\n",
        files={V32: WITH_CALLS},
    ),
    Case(
        "C02",
        "0.5.9",
        lines(
            START.format("deepseek-ai/DeepSeek-V3.2-Exp"),
            f"--chat-template {V32}",
            "--tool-call-parser deepseekv32",
        ),
        (("template-markers-unseen", 2),),
        lines(
            START.format("deepseek-ai/DeepSeek-V3.2-Exp"),
            "--tool-call-parser deepseekv31 --reasoning-parser deepseek-v3",
            f"--chat-template {V32}",
        ),
        files={V32: WITH_CALLS},
    ),
    Case(
        "C03",
        "0.5.18",
        lines(
            START.format("checkpoint"),
            "--reasoning-parser deepseek-v4",
            "--chat-template v4.jinja",
        ),
        (("template-never-rendered", 3),),
        CHECKPOINT + "--tool-call-parser deepseekv4 --reasoning-parser deepseek-v4\n",
        files={"v4.jinja": WITH_CALLS, **checkpoint("", "DeepseekV4ForCausalLM")},
        right_files=checkpoint("", "DeepseekV4ForCausalLM"),
    ),
    Case(
        "C09",
        "0.5.9",
        START.format("m") + "--tool-call-parser deepseekv3 --chat-template own.jinja\n",
        (("template-needs-string-arguments", 1),),
        files={"own.jinja": TEXT_ARGUMENTS},
    ),
    Case(
        "C12",
        "0.5.9",
        lines(START.format("m"), "--chat-template configs/chat_templates/zephyr.jinja"),
        (("template-file-missing", 2),),
        lines(START.format("m"), "--chat-template configs/chat_templates/zephyr.jinja"),
        right_files={"configs/chat_templates/zephyr.jinja": AS_JSON},
    ),
    Case(
        "C13",
        "0.5.9",
        START.format("Qwen/Qwen3-Reranker-8B"),
        (("template-of-tree-unused", 1),),
        START.format("Qwen/Qwen3-Reranker-8B")
        + "--chat-template examples/chat_template/qwen3_reranker.jinja\n",
        files={"examples/chat_template/qwen3_reranker.jinja": "{{ messages[0].content }}"},
        right_files={"examples/chat_template/qwen3_reranker.jinja": "{{ messages[0].content }}"},
    ),
    Case(
        "C14",
        "0.5.9",
        START.format("/mnt/internvl-share/Intern-S1"),
        (("model-path-caught", 1),),
        START.format("/mnt/share/Intern-S1"),
    ),
    Case(
        "C19",
        "0.5.18",
        CHECKPOINT + "--tool-call-parser qwen3_coder\n",
        (("template-markers-unseen", 1),),
        CHECKPOINT + "--tool-call-parser hermes\n",
        files=checkpoint(AS_JSON),
    ),
    Case(
        "C20",
        "0.5.9",
        CHECKPOINT + "--tool-call-parser hermes\n",
        (("template-markers-unseen", 1),),
        CHECKPOINT + "--tool-call-parser glm45\n",
        files=checkpoint(AS_TAGS, "Glm4MoeForCausalLM"),
    ),
    Case(
        "C22",
        "0.5.18",
        CHECKPOINT + "--tool-call-parser glm45 --reasoning-parser glm45\n",
        (("template-markers-unseen", 1),),
        CHECKPOINT + "--tool-call-parser glm47 --reasoning-parser glm45\n",
        files=checkpoint(GLM47, "Glm4MoeForCausalLM"),
    ),
    Case(
        "C23",
        "0.5.9",
        CHECKPOINT + "--reasoning-parser glm45\n",
        (("tool-parser-missing", 1),),
        CHECKPOINT + "--tool-call-parser glm47 --reasoning-parser glm45\n",
        files=checkpoint(GLM47, "Glm4MoeForCausalLM"),
    ),
    Case(
        "C25",
        "0.5.18",
        CHECKPOINT + "--tool-call-parser mistral\n",
        (("template-markers-unseen", 1),),
        files=checkpoint(MISTRAL_WITH_ID, "MistralForCausalLM"),
    ),
    Case(
        "C29",
        "0.5.12",
        lines(
            START.format("deepseek-ai/DeepSeek-V3.2"),
            "--reasoning-parser deepseek-v32",
            "--tool-call-parser deepseekv32",
        ),
        (("unknown-parser", 2),),
        START.format("m") + "--reasoning-parser deepseek-v3 --tool-call-parser deepseekv32\n",
    ),
    Case(
        "C31",
        "0.5.9",
        START.format("meta-llama/Llama-4-Scout") + "--tool-call-parser llama4\n",
        (("unknown-parser", 1),),
        START.format("meta-llama/Llama-4-Scout") + "--tool-call-parser pythonic\n",
    ),
    Case(
        "C34",
        "0.5.23",
        START.format("m"),
        (),
        overlay={
            "sglang/srt/function_call/parser_names.py": ('    "gpt-oss",\n', ""),
        },
    ),
    Case(
        "C36",
        "0.5.9",
        CHECKPOINT + "--tool-call-parser qwen --reasoning-parser qwen3\n",
        (("thinking-assumed", 1),),
        CHECKPOINT + "--tool-call-parser qwen --reasoning-parser qwen3\n",
        "0.5.18",
        files=checkpoint(NO_THINKING),
    ),
    Case(
        "C41",
        "0.5.18",
        "python -m dynamo.sglang --model-path m --dyn-tool-call-parser hermes"
        " --tool-call-parser qwen\n",
        (("parser-of-another-registry", 1),),
        "python -m dynamo.sglang --model-path m --dyn-tool-call-parser hermes\n",
    ),
    Case(
        "C44",
        "0.5.9",
        START.format("m") + "--enable_metrics\n",
        (("unknown-flag", 1),),
        START.format("m") + "--enable-metrics\n",
    ),
    Case(
        "C45",
        "0.5.9",
        START.format("m") + "--enable-reasoning\n",
        (("unknown-flag", 1),),
        START.format("m") + "--reasoning-parser qwen3\n",
    ),
    Case(
        "C47",
        "0.5.9",
        lines(
            START.format("m"),
            "--disaggregation-mode prefill",
            "--disaggregation-decode-url http://d",
        ),
        (("unknown-flag", 3),),
        START.format("m") + "--disaggregation-mode prefill\n",
    ),
    Case(
        "C48",
        "0.5.18",
        lines(START.format("m"), "--enable-ep-moe", "--enable-deepep-moe"),
        (("unknown-flag", 2), ("unknown-flag", 3)),
        START.format("m") + "--ep-size 8 --moe-a2a-backend deepep\n",
    ),
    Case(
        "C49",
        "0.5.23",
        START.format("m") + "--stream-output\n",
        (("unknown-flag", 1),),
        START.format("m") + "--incremental-streaming-output\n",
    ),
    Case(
        "C49",
        "0.5.18",
        START.format("m") + "--stream-output\n",
        (("deprecated-flag", 1),),
        START.format("m") + "--incremental-streaming-output\n",
    ),
    Case(
        "C50",
        "0.5.23",
        lines(START.format("m"), "--nsa-prefill-backend trtllm", "--nsa-decode-backend trtllm"),
        (("unknown-flag", 2), ("unknown-flag", 3)),
        START.format("m") + "--dsa-prefill-backend trtllm --dsa-decode-backend trtllm\n",
    ),
    Case(
        "C51",
        "0.5.23",
        START.format("m") + "--cuda-graph-max-bs 64\n",
        (("ambiguous-flag", 1),),
        START.format("m") + "--cuda-graph-max-bs-decode 64\n",
    ),
    Case(
        "C52",
        "0.5.18",
        START.format("m") + "--torchao-config int4wo-128\n",
        (("unknown-flag", 1),),
        START.format("m"),
    ),
    Case(
        "C53",
        "0.5.12",
        START.format("m") + "--enable-double-sparsity --ds-channel-config-path c\n",
        (("unknown-flag", 1),),
        START.format("m"),
    ),
    Case(
        "C54",
        "0.5.18",
        "export SGLANG_ENABLE_SPEC_V2=0\n" + START.format("m") + "\n",
        (("retired-environment-name", 1),),
        START.format("m") + "--disable-overlap-schedule\n",
    ),
    Case(
        "C56",
        "0.5.18",
        "sglang serve --config my.yaml\n",
        (("config-without-model", 1),),
        "python -m sglang.launch_server --config my.yaml\n",
        files={"my.yaml": "model-path: m\n"},
        right_files={"my.yaml": "model-path: m\n"},
    ),
    Case(
        "C59",
        "0.5.12",
        "sglang_config:\n  decode:\n    model-path: m\n    moe-runner-backend: flashinfer_cutedsl\n"
        "    disaggregation-mode: decode\n    moe-runner-backend: flashinfer_trtllm\n",
        (("flag-set-twice", 6),),
        "sglang_config:\n  decode:\n    model-path: m\n    disaggregation-mode: decode\n"
        "    moe-runner-backend: flashinfer_trtllm\n",
        name="recipe.yaml",
    ),
    Case(
        "C60",
        "0.5.9",
        lines(START.format("m"), "--enable-hierarchical-cache", "--disable-radix-cache"),
        (("conflicting-flags", 3),),
        START.format("m") + "--enable-hierarchical-cache\n",
    ),
    Case(
        "C62",
        "0.5.12",
        START.format("m")
        + "--enable-two-batch-overlap --moe-a2a-backend deepep --enforce-shared-experts-fusion\n",
        (("conflicting-flags", 1),),
        START.format("m") + "--enable-two-batch-overlap --moe-a2a-backend deepep\n",
    ),
    Case(
        "C63",
        "0.5.18",
        START.format("m") + "--disable-cuda-graph-padding --enable-torch-compile\n",
        (("conflicting-flags", 1),),
        START.format("m") + "--enable-torch-compile\n",
    ),
    Case(
        "C65",
        "0.5.9",
        START.format("m")
        + "--speculative-algorithm EAGLE --speculative-draft-model-path d"
        + " --speculative-num-draft-tokens 4\n",
        (("conflicting-flags", 1),),
        START.format("m")
        + "--speculative-algorithm EAGLE --speculative-draft-model-path d"
        + " --speculative-num-draft-tokens 4 --speculative-num-steps 3"
        + " --speculative-eagle-topk 1\n",
    ),
    Case(
        "C69",
        "0.5.9",
        START.format("checkpoint")
        + "--disaggregation-mode prefill --tp-size 2 &\n"
        + START.format("checkpoint")
        + "--disaggregation-mode decode --tp-size 1\n",
        (("pair-tensor-parallel-differs", 2),),
        START.format("checkpoint")
        + "--disaggregation-mode prefill --tp-size 2 &\n"
        + START.format("checkpoint")
        + "--disaggregation-mode decode --tp-size 2\n",
        files=checkpoint(),
    ),
    Case(
        "C72",
        "0.5.18",
        CHECKPOINT + "--quantization fp8\n",
        (("quantization-against-checkpoint", 1),),
        CHECKPOINT + "--quantization modelopt_fp4\n",
        files={
            **checkpoint(),
            "checkpoint/hf_quant_config.json": '{"quantization": {"quant_algo": "NVFP4"}}',
        },
    ),
    Case(
        "C77",
        "0.5.18",
        lines("sglang serve m", "--backend sglang", "--dataset-name random"),
        (("unknown-flag", 3),),
        "python -m sglang.bench_serving --backend sglang --dataset-name random\n",
    ),
    Case(
        "C78",
        "0.5.18",
        lines(START.format("m"), "--tool-call-parser auto", "--chat-template v3.jinja"),
        (("auto-parser-misses", 2),),
        lines(START.format("m"), "--tool-call-parser deepseekv3", "--chat-template v3.jinja"),
        files={"v3.jinja": V3},
    ),
]

SILENT = [
    (
        "0.5.23",
        START.format("zai-org/GLM-5.3-Flash")
        + "--tool-call-parser glm47 --reasoning-parser glm45\n",
    ),
    (
        "0.5.12",
        START.format("Qwen/Qwen3-30B-A3B") + "--tool-call-parser qwen --reasoning-parser qwen3\n",
    ),
    (
        "0.5.18",
        START.format("moonshotai/Kimi-K2-Thinking")
        + "--tool-call-parser kimi_k2 --reasoning-parser kimi_k2\n",
    ),
    (
        "0.5.18",
        START.format("MiniMaxAI/MiniMax-M2")
        + "--tool-call-parser minimax-m2 --reasoning-parser minimax-append-think --tp 8 --ep 8\n",
    ),
]
