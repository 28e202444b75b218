"""What is said of the values of flags."""

from __future__ import annotations

import msgspec
import pytest

from tests.serve.checks.launches import flag, hits, launch, lines, other


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("--tp-size 4 --tensor-parallel-size 8", [2]),
        ("--tp 4 --tp-size 8", [2]),
        ("--tp 4 --tp 4", []),
        ("--mem-fraction-static 0.80 --mem-fraction-static 0.8", []),
        ("?--tp 4 --tp 8", []),
        ("--tp $A --tp 8", []),
        ("--lora-paths a --lora-paths b", []),
        ("--enable-overlap --no-enable-overlap", [2]),
        ("--enable-metrics --enable-metrics", []),
        ("--stream-output --incremental-output", []),
    ],
)
def test_one_field_with_two_values(text: str, found: list[int]) -> None:
    assert lines("flag-set-twice", launch(text)) == found


def test_arguments_handed_to_the_command_override() -> None:
    inner = launch("--tp 4 --page-size 64", line=5)
    outer = launch("--tp 8", line=20).arguments
    handed = launch("", line=5)
    both = msgspec.structs.replace(handed, arguments=(*inner.arguments, *outer))
    assert lines("flag-set-twice", both) == []


def test_a_key_of_a_recipe_written_twice_far_apart() -> None:
    first, second = launch("--page-size 64", line=140), launch("--page_size 1", line=158)
    recipe = launch("", line=100, form="recipe")
    both = msgspec.structs.replace(recipe, arguments=(*first.arguments, *second.arguments))
    (hit,) = hits("flag-set-twice", both)
    assert hit.where.line == 158
    assert "of line 140" in hit.message


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        ("--page-size 64 --page-size 32", [("conf/a.yaml", 2)]),
        ("--page-size 64", []),
    ],
)
def test_the_command_line_overrides_its_file_and_the_file_not_itself(
    keys: str, found: list[tuple[str, int]]
) -> None:
    file = launch(keys, path="conf/a.yaml").arguments
    line = launch("--config conf/a.yaml --page-size 1")
    both = msgspec.structs.replace(line, arguments=(*file, *line.arguments))
    rows = hits("flag-set-twice", both)
    assert [(hit.where.symbol.path, hit.where.line) for hit in rows] == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("--kv-cache-dtype fp8_e5m2", [1]),
        ("--kv-cache-dtype=fp8_e5m2", [1]),
        ("--kv-cache-dtype bfloat16", []),
        ("--kv-cache-dtype $DTYPE", []),
        ("--quantization gptq", [1]),
        ("--log-level INFO", []),
        ("--port-args 1 3", [1]),
        ("--port-args 1 2", []),
        ("--tool-call-parser nobody", []),
        ("--attention-backend anything", []),
    ],
)
def test_a_value_among_the_choices(text: str, found: list[int]) -> None:
    assert lines("value-not-offered", launch(text)) == found


def test_a_value_that_another_side_offers() -> None:
    older = other("upstream", "v1", flag("--quantization", choices=("fp8", "qoq"), line=3))
    (hit,) = hits("value-not-offered", launch("--quantization qoq"), others=[older])
    assert "v1 has 'qoq'" in hit.message
    assert ("upstream", 3) in [(e.side, e.line) for e in hit.evidence]
    (near,) = hits("value-not-offered", launch("--kv-cache-dtype fp8_e4m3fn"))
    assert near.fix == "write 'fp8_e4m3' if that is meant"
    assert near.anchor == "--kv-cache-dtype fp8_e4m3fn"


@pytest.mark.parametrize(
    ("text", "form", "found"),
    [
        ("--enable-metrics true", "shell", [1]),
        ("--enable-metrics=false", "shell", [1]),
        ("--enable-metrics leftover", "shell", []),
        ("--enable-metrics true", "yaml", [1]),
        ("--enable-metrics true", "recipe", []),
        ("--enable-metrics", "shell", []),
    ],
)
def test_a_switch_with_a_value(text: str, form: str, found: list[int]) -> None:
    assert lines("switch-with-value", launch(text, form=form)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("--page-size --enable-metrics", [1]),
        ("--lora-paths", []),
        ("--port-args", [1]),
        ("--page-size 64", []),
        ("--chat-template=", []),
    ],
)
def test_a_flag_without_its_value(text: str, found: list[int]) -> None:
    assert lines("flag-without-value", launch(text)) == found
