from dataclasses import dataclass
from typing import Callable


@dataclass(frozen=True)
class TemplateDetectionContext:
    template: str
    vocab: set

    def has_text(self, needle: str) -> bool:
        return needle in self.template

    def has_vocab(self, token: str) -> bool:
        return token in self.vocab


@dataclass(frozen=True)
class DetectionRule:
    name: str
    value: object
    predicate: Callable[[TemplateDetectionContext], bool]


def _is_kimi_k2(ctx):
    return ctx.has_text("<|tool_calls_section_begin|>")


def _is_deepseek(ctx):
    return ctx.has_text("<｜tool▁calls▁begin｜>")


def _is_qwen(ctx):
    return ctx.has_text("<tool_call>") and ctx.has_text("<|im_start|>")


TOOL_CALL_PARSER_RULES = (
    DetectionRule(name="kimi_k2", value="kimi_k2", predicate=_is_kimi_k2),
    DetectionRule(name="deepseek_v31", value="deepseekv31", predicate=_is_deepseek),
    DetectionRule(name="qwen", value="qwen", predicate=_is_qwen),
)

REASONING_PARSER_RULES = (
    DetectionRule(name="kimi_k2", value="kimi_k2", predicate=_is_kimi_k2),
    DetectionRule(name="deepseek_v3", value="deepseek-v3", predicate=_is_deepseek),
)
