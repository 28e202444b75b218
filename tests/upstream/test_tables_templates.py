"""Encoders, built-in templates and ``auto`` of real releases, as their source was read by eye."""

from __future__ import annotations

import re

import pytest

from auditor.serve.tables.auto import auto_rules, conversation_templates, path_matchers
from auditor.serve.tables.encoders import encoders
from auditor.serve.tables.facts import PathMatcher
from tests.upstream.test_tables_parsers import opened

pytestmark = pytest.mark.upstream

V3 = ("dsv32", (), ("DeepseekV3",), (), True)
V4 = ("dsv4", (), ("DeepseekV4",), (), False)
BY_PARSER = [
    ("dsv4", ("deepseekv4",), (), (), False),
    ("dsv32", ("deepseekv32",), (), (), False),
]
INKLING = ("inkling", (), ("InklingForConditionalGeneration",), (), False)
KIMI = ("kimi_k3", ("kimi_k3",), (), (), False)
KIMI_MODEL = ("kimi_k3", (), ("KimiK3",), (), False)

CHAINS = {
    "0.5.9": [V3],
    "0.5.12": [*BY_PARSER, V4, V3],
    "0.5.15": [*BY_PARSER, V4, V3],
    "0.5.18": [*BY_PARSER, KIMI, V4, KIMI_MODEL, INKLING, V3],
    "0.5.23": [
        ("dsv41", ("deepseekv41",), (), (), False),
        *BY_PARSER,
        KIMI,
        ("dsv41", (), (), ("deepseek_v41",), False),
        ("dsv41", (), ("DeepseekV41",), (), False),
        V4,
        KIMI_MODEL,
        INKLING,
        V3,
    ],
}
TEMPLATES = {"0.5.9": 24, "0.5.18": 27, "0.5.23": 27}


@pytest.mark.parametrize("version", CHAINS)
def test_the_chain_of_native_encoders(version: str) -> None:
    rows = encoders(opened(version))
    assert [
        (r.spec, r.parsers, r.architectures, r.model_types, r.without_template) for r in rows
    ] == CHAINS[version]
    assert not any(row.undecided for row in rows)


@pytest.mark.parametrize("version", TEMPLATES)
def test_built_in_templates_and_paths_that_pick_them(version: str) -> None:
    tree = opened(version)
    names = [row.name for row in conversation_templates(tree)]
    assert len(names) == len(set(names)) == TEMPLATES[version]
    matchers = path_matchers(tree)
    assert {row.template for row in matchers} <= set(names)
    for row in matchers:
        re.compile(row.pattern)
    assert _picked(matchers, "/models/Janus-Pro-7B") == "janus-pro"
    assert _picked(matchers, "/mnt/check-points/Llama") == "points-v15-chat"
    assert _picked(matchers, "/models/MiniCPM-o-2_6") == "minicpmo"
    assert _picked(matchers, "/models/Qwen3-8B") is None
    assert tree.notes == []


def _picked(matchers: tuple[PathMatcher, ...], path: str) -> str | None:
    for row in matchers:
        if re.search(row.pattern, path, re.IGNORECASE if row.ignore_case else 0):
            return str(row.template)
    return None


def test_auto_of_0_5_18() -> None:
    rows = auto_rules(opened("0.5.18"))
    decided = {
        (row.kind, row.parser): (row.contains, row.any_of)
        for row in rows
        if not row.undecided and not row.architecture
    }
    assert decided["tool", "deepseekv31"] == (("<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>"), ())
    assert decided["tool", "deepseekv4"] == (("<｜DSML｜tool_calls>",), ())
    assert decided["tool", "minimax-m3"] == ((), ("<mm:think>", "]<]minimax[>["))
    models = [(row.kind, row.parser, row.architecture) for row in rows if row.architecture]
    assert ("tool", "deepseekv4", "DeepseekV4") in models
    assert ("reasoning", "deepseek-v3", "DeepseekV3") in models
    assert ("tool", "deepseekv32", "DeepseekV3") in models


def test_no_auto_before_it_was_there() -> None:
    assert auto_rules(opened("0.5.9")) == ()
