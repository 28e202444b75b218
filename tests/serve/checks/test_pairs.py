"""What is said of prefill and decode servers that differ."""

from __future__ import annotations

import pytest

from tests.serve.checks.launches import hits, launch, lines

PREFILL = "--model-path m --disaggregation-mode prefill "
DECODE = "--model-path m --disaggregation-mode decode "


@pytest.mark.parametrize(
    ("prefill", "decode", "found"),
    [
        ("--kv-cache-dtype bfloat16", "--kv-cache-dtype fp8_e4m3", ["high"]),
        ("--page-size 1", "--page-size 64", ["high"]),
        ("--page-size 64", "--page-size 064", []),
        ("--kv-cache-dtype bfloat16", "", ["medium"]),
        ("--kv-cache-dtype auto", "", []),
        ("--page-size 64", "", ["low"]),  # a backend may well choose 64 itself
        ("--quantization fp8", "", ["low"]),
        ("--disaggregation-transfer-backend nixl", "", ["high"]),
        ("--disaggregation-transfer-backend mooncake", "", []),
        ("--page-size $P", "--page-size 64", []),
        ("?--page-size 1", "--page-size 64", []),
        ("--tp 8 --mem-fraction-static 0.7", "--tp 4 --mem-fraction-static 0.9", []),
    ],
)
def test_settings_that_must_agree(prefill: str, decode: str, found: list[str]) -> None:
    rows = hits("pair-settings-differ", launch(PREFILL + prefill), launch(DECODE + decode, line=10))
    assert [hit.confidence for hit in rows] == found


def test_the_hit_stands_at_decode_and_shows_prefill() -> None:
    pair = launch(PREFILL + "--page-size 1"), launch(DECODE + "--page-size 64", line=10)
    (hit,) = hits("pair-settings-differ", *pair)
    assert hit.where.line == 12
    assert ("serve.sh", 3) in [(e.path, e.line) for e in hit.evidence]


def test_a_setting_of_prefill_alone_is_shown_there() -> None:
    pair = launch(PREFILL + "--kv-cache-dtype bfloat16"), launch(DECODE, line=10)
    assert lines("pair-settings-differ", *pair) == [3]


def test_a_server_with_open_words_may_agree() -> None:
    pair = launch(PREFILL + "--page-size 1"), launch(DECODE, line=10, unresolved=1)
    assert lines("pair-settings-differ", *pair) == []


def test_a_model_mounted_at_two_places_is_one() -> None:
    prefill = launch("--model-path /a/big --disaggregation-mode prefill")
    decode = launch("--model-path /b/big/ --disaggregation-mode decode", line=10)
    other = launch("--model-path /b/small --disaggregation-mode decode", line=10)
    assert lines("pair-settings-differ", prefill, decode) == []
    assert lines("pair-settings-differ", prefill, other) == [10]


def test_several_models_of_one_file_are_pairs_of_their_own() -> None:
    rows = [
        launch(f"--model-path {model} --disaggregation-mode {role} --page-size {size}", line=line)
        for line, (model, role, size) in enumerate(
            [("a", "prefill", 1), ("a", "decode", 1), ("b", "prefill", 64), ("b", "decode", 64)]
        )
    ]
    assert lines("pair-settings-differ", *rows) == []


def test_alternatives_that_do_not_agree_among_themselves_are_not_compared() -> None:
    rows = [
        launch(PREFILL + "--page-size 1", line=1),
        launch(PREFILL + "--page-size 64", line=10),
        launch(DECODE + "--page-size 1", line=20),
        launch(DECODE + "--page-size 64", line=30),
    ]
    assert lines("pair-settings-differ", *rows) == []
    assert lines("pair-settings-differ", rows[0], rows[3]) == [32]


def test_replicas_that_agree_are_compared() -> None:
    rows = [
        launch(PREFILL + "--page-size 1", line=1),
        launch(PREFILL + "--page-size 1", line=10),
        launch(DECODE + "--page-size 64", line=20),
    ]
    assert lines("pair-settings-differ", *rows) == [22]


def test_two_files_of_a_folder() -> None:
    prefill = launch(PREFILL + "--page-size 1", path="a/prefill.sh")
    decode = launch(DECODE + "--page-size 64", path="a/decode.sh")
    elsewhere = launch(DECODE + "--page-size 64", path="b/decode.sh")
    second = launch(DECODE + "--page-size 32", path="a/decode2.sh")
    (hit,) = hits("pair-settings-differ", prefill, decode)
    assert (hit.where.symbol.path, hit.confidence) == ("a/decode.sh", "medium")
    assert hits("pair-settings-differ", prefill, elsewhere) == []
    assert hits("pair-settings-differ", prefill, decode, second) == []


def test_plain_servers_and_other_programs_are_no_pair() -> None:
    plain = launch("--model-path m --page-size 1")
    router = launch(DECODE + "--page-size 64", line=10, program="router")
    assert lines("pair-settings-differ", plain, router) == []


def test_what_answers_requests_should_agree() -> None:
    pair = launch(PREFILL + "--context-length 10"), launch(DECODE + "--context-length 20", line=10)
    assert lines("pair-answers-differ", *pair) == [12]
    assert lines("pair-settings-differ", *pair) == []


@pytest.mark.parametrize(
    ("prefill", "decode", "config", "found"),
    [
        ("--tp 2", "--tp 1", None, ["latent"]),
        ("--tp 2", "", None, ["latent"]),
        ("--tp 2", "--tp 1", b'{"num_key_value_heads": 8}', ["live"]),
        ("--tp 2", "--tp 1", b'{"kv_lora_rank": 512}', []),
        ("--tp 2", "--tp 1", b'{"text_config": {"kv_lora_rank": 512}}', []),
        ("--tp 2", "--tp 1", b"not json", ["latent"]),
        ("--tp 8", "--tp 8", None, []),
        ("--tp 8 --dp-size 8 --enable-dp-attention", "--tp 1", None, []),
        ("--tp 8 --dp-size 8 --enable-dp-attention", "--tp 8", None, ["latent"]),
        ("--tp $TP", "--tp 8", None, []),
    ],
)
def test_attention_is_split_the_same(
    prefill: str, decode: str, config: bytes | None, found: list[str]
) -> None:
    files = {} if config is None else {"m/config.json": config}
    pair = launch(PREFILL + prefill), launch(DECODE + decode, line=10)
    rows = hits("pair-tensor-parallel-differs", *pair, files=files)
    assert [hit.reach for hit in rows] == found
