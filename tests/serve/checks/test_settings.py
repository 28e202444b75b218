"""What is said of the environment, refused combinations, configuration files, tables and pins."""

from __future__ import annotations

import msgspec
import pytest

from auditor.serve.tables.facts import EnvironmentName, ToolParser
from tests.serve.checks.launches import TABLES, hits, launch, lines, other, pin, variable


@pytest.mark.parametrize(
    ("name", "found", "confidence"),
    [
        ("SGLANG_ENABLE_SPECS", [1], "medium"),
        ("SGLANG_NOTHING_LIKE_IT", [1], "medium"),
        ("SGLANG_SERVE_PORT", [1], "low"),
        ("SGLANG_ENABLE_SPEC", [], ""),
        ("SGLANG_READ_ELSEWHERE", [], ""),
        ("SGLANG_LOG_ANYTHING", [], ""),
        ("SGLANG_GONE", [], ""),
        ("SGL_ENABLE_SPEC", [], ""),
        ("CUDA_VISIBLE_DEVICES", [], ""),
    ],
)
def test_a_name_that_nothing_reads(name: str, found: list[int], confidence: str) -> None:
    rows = hits("unknown-environment-name", launch("", environment=(variable(name),)))
    assert [hit.where.line for hit in rows] == found
    assert [hit.confidence for hit in rows] == [confidence] * len(found)


def test_another_side_may_read_the_name() -> None:
    row = EnvironmentName("SGLANG_CUTLASS", "environ.py", 3, True)
    older = other("upstream", "v1", environment=(row,))
    started = launch("", environment=(variable("SGLANG_CUTLASS"),))
    (hit,) = hits("unknown-environment-name", started, others=[older])
    assert "v1 reads SGLANG_CUTLASS" in hit.message
    assert ("upstream", 3) in [(e.side, e.line) for e in hit.evidence]


def test_a_retired_name_says_what_to_use() -> None:
    (hit,) = hits("retired-environment-name", launch("", environment=(variable("SGLANG_GONE"),)))
    assert "Use --page-size" in hit.message
    assert hit.fix.endswith("the note names --page-size")
    assert [(e.path, e.line) for e in hit.evidence] == [("environ.py", 8)]


@pytest.mark.parametrize("name", ["SGLANG_SPEC_ON", "SGL_ENABLE_SPEC"])
def test_a_name_of_old_names_the_new_one(name: str) -> None:
    (hit,) = hits("deprecated-environment-name", launch("", environment=(variable(name),)))
    assert hit.fix == "set SGLANG_ENABLE_SPEC"


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("SGLANG_ENABLE_SPEC", "on", [1]),
        ("SGLANG_ENABLE_SPEC", "Yes", []),
        ("SGLANG_ENABLE_SPEC", "", []),
        ("SGLANG_STEPS", "1.5", [1]),
        ("SGLANG_STEPS", " 15 ", []),
        ("SGLANG_READ_ELSEWHERE", "on", []),
    ],
)
def test_a_value_of_another_kind(name: str, value: str, found: list[int]) -> None:
    started = launch("", environment=(variable(name, value),))
    assert lines("environment-value-of-other-kind", started) == found


def test_a_value_that_a_run_decides_is_silent() -> None:
    started = launch("", environment=(variable("SGLANG_STEPS", "$STEPS", resolved=False),))
    assert lines("environment-value-of-other-kind", started) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("--enable-hierarchical-cache --disable-radix-cache", [2]),
        ("--disable-radix-cache --enable-hierarchical-cache", [2]),
        ("--enable-hierarchical-cache", []),
        ("--enable-hierarchical-cache ?--disable-radix-cache", []),
        ("--speculative-algorithm EAGLE --speculative-num-draft-tokens 4", [2]),
        ("--speculative-algorithm NGRAM --speculative-num-draft-tokens 4", []),
        ("--speculative-algo EAGLE --speculative-num-draft 4 --speculative-num-steps 3", []),
        ("--speculative-algorithm EAGLE --speculative-num-draft-tokens $N", []),
        ("--speculative-algorithm EAGLE", []),
        ("--tp 8 --page-size 64", [2]),
        ("--tp 1 --page-size 64", []),
        ("--tp 8 --page-size 32", []),
        ("--tp 8 --page-size 64 --page-size 1", []),
    ],
)
def test_a_guard_of_the_tree(text: str, found: list[int]) -> None:
    assert lines("conflicting-flags", launch(text)) == found


def test_an_absence_counts_only_where_no_word_is_left_open() -> None:
    text = "--speculative-algorithm EAGLE --speculative-num-draft-tokens 4"
    assert lines("conflicting-flags", launch(text, unresolved=1)) == []
    (hit,) = hits("conflicting-flags", launch(text))
    assert "without --speculative-num-steps: set all of them" in hit.message
    assert ("args.py", 91) in [(e.path, e.line) for e in hit.evidence]
    assert ("serve.sh", 1) in [(e.path, e.line) for e in hit.evidence]


def test_a_configuration_file_in_one_word_is_never_read() -> None:
    assert lines("config-never-merged", launch("--model-path m --config=a.yaml")) == [2]
    assert lines("config-never-merged", launch("--model-path m --config a.yaml")) == []


def test_serve_wants_the_model_before_it_reads_the_file() -> None:
    serve = "sglang serve"
    assert lines("config-without-model", launch("--config a.yaml", command=serve)) == [1]
    assert lines("config-without-model", launch("--config a.yaml")) == []
    named = launch("--model m --config a.yaml", command=serve)
    assert lines("config-without-model", named) == []
    positional = launch("--config a.yaml", command=serve, model="m")
    assert lines("config-without-model", positional) == []
    open_words = launch("--config a.yaml", command=serve, unresolved=1)
    assert lines("config-without-model", open_words) == []


def test_a_key_that_the_merger_does_not_support() -> None:
    keys = launch("--enable-overlap --enable-metrics", path="etc/a.yaml").arguments
    line = launch("--config a.yaml --enable-overlap")
    both = msgspec.structs.replace(line, arguments=(*line.arguments, *keys))
    (hit,) = hits("config-key-unsupported", both)
    assert (hit.where.symbol.path, hit.where.line) == ("etc/a.yaml", 1)


def parsers(*names: str) -> tuple[ToolParser, ...]:
    return tuple(
        ToolParser(name, name.title(), "table.py", row, f"{name}.py")
        for row, name in enumerate(names, start=30)
    )


def test_parsers_that_the_command_line_does_not_offer() -> None:
    tables = msgspec.structs.replace(TABLES, tool_parsers=parsers("hermes", "qwen", "gpt-oss"))
    (hit,) = hits("parser-choices-differ", tables=tables)
    assert (hit.where.symbol.path, hit.where.line) == ("args.py", 13)
    assert "'gpt-oss'" in hit.message
    assert [(e.path, e.line) for e in hit.evidence] == [("table.py", 32)]


def test_names_that_are_offered_without_a_parser() -> None:
    tables = msgspec.structs.replace(
        TABLES,
        tool_parsers=parsers("hermes"),
        cli_choices={"--tool-call-parser": ("auto", "hermes", "ghost")},
    )
    (hit,) = hits("parser-choices-differ", tables=tables)
    assert "'ghost'" in hit.message
    equal = msgspec.structs.replace(tables, cli_choices={"--tool-call-parser": ("auto", "hermes")})
    assert hits("parser-choices-differ", tables=equal) == []
    unknown = msgspec.structs.replace(tables, tool_parsers=())
    assert hits("parser-choices-differ", tables=unknown) == []


@pytest.mark.parametrize(
    ("text", "program", "found"),
    [
        ("--dyn-tool-call-parser x --tool-call-parser hermes", "foreign", ["live"]),
        ("--use-sglang-tokenizer --tool-call-parser hermes", "foreign", ["latent"]),
        ("--use-sglang-tokenizer --tool-call-parser $NAME", "foreign", []),
        ("--tool-call-parser hermes", "foreign", []),
        ("--tool-call-parser ghost", "router", ["latent"]),
        ("--tool-call-parser hermes", "router", []),
        ("--tool-call-parser ghost", "server", []),
    ],
)
def test_names_of_another_registry(text: str, program: str, found: list[str]) -> None:
    tables = msgspec.structs.replace(TABLES, tool_parsers=parsers("hermes"))
    rows = hits("parser-of-another-registry", launch(text, program=program), tables=tables)
    assert [hit.reach for hit in rows] == found


@pytest.mark.parametrize(
    ("text", "kind", "version", "found"),
    [
        ("lmsysorg/sglang:v0.5.11-cu129", "image", "0.5.12", 1),
        ("lmsysorg/sglang:v0.5.12-rocm700-mi35x", "image", "0.5.12", 0),
        ("lmsysorg/sglang:v0.5.12.post1", "image", "0.5.12", 1),
        ("lmsysorg/sglang:v0.5.12rc0-rocm7.0.1", "image", "0.5.12", 1),
        ("lmsysorg/sglang:v0.5.12", "image", "0.5.12.post1+fork.3", 1),
        ("lmsysorg/sglang:v0.5.12", "image", "0.5.12+fork.3", 0),
        ("registry:5000/team/sglang@sha256:00", "image", "0.5.12", 0),
        ("lmsysorg/sglang:latest", "image", "0.5.12", 0),
        ("lmsysorg/sglang:dev-rocm7.0.1", "image", "0.5.12", 0),
        ("vllm/vllm-openai:v0.9.1", "image", "0.5.12", 0),
        ("sglang[all]==0.5.9", "requirement", "0.5.12", 1),
        ("sglang>=0.5.9", "requirement", "0.5.12", 0),
        ("sglang==0.5.9", "requirement", "", 0),
        ("sglang @ git+https://example.org/sglang", "requirement", "0.5.12", 0),
    ],
)
def test_a_pin_of_another_release(text: str, kind: str, version: str, found: int) -> None:
    tables = msgspec.structs.replace(TABLES, version=version)
    started = launch("", pins=(pin(text, kind),))
    assert len(hits("pinned-release-differs", started, tables=tables)) == found
