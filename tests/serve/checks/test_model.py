from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from auditor.serve.tables.facts import PathMatcher
from tests.serve.checks.parser_tree import AS_JSON, EARLY, MATCHERS, MODERN, hits, serve, view

QUANTIZATION = {
    "kinds": ["fp4", "fp8", "awq", "gptq"],
    "mixed": ["mixed", "compressed"],
    "offline": ["awq", "modelopt_fp4"],
}


def found(shape: str, line: str, **more):
    params = QUANTIZATION if shape in ("quantization", "near-name") else {}
    return hits("serve-model", shape, view(serve(line), **more), **params)


def model(folder: Path, name: str = "m", **files) -> Path:
    where = folder / name
    where.mkdir()
    for file, value in {"config": {}, **files}.items():
        (where / f"{file}.json").write_text(json.dumps(value), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("path", "template"),
    [
        ("/mnt/check-points/DeepSeek-V4", "points-v15-chat"),
        ("/data/unlimited-storage/GLM-5", "unlimited-ocr"),
        ("/mnt/points/models--org--Qwen3/snapshots/0123456789abcdef", "points-v15-chat"),
    ],
)
def test_a_path_that_is_caught_by_accident(path: str, template: str) -> None:
    (hit,) = found("path-matcher", f"--port 1 --model-path {path} --tool-call-parser qwen")
    assert f"built-in template {template}" in hit.message
    assert "the tools that --tool-call-parser qwen waits for" in hit.message
    assert hit.where.line == 3
    assert hit.anchor == f"--model-path {path}"


@pytest.mark.parametrize(
    "line",
    [
        "--model-path org/POINTS-1.5",
        "--model-path /models/points/points-reader/v1",
        "--model-path /hub/models--baidu--Unlimited-OCR/snapshots/0123456789abcdef",
        "--model-path /mnt/checkpoints/DeepSeek-V4",
        "--model-path /mnt/check-points/DeepSeek-V4 --chat-template own.jinja",
        "--model-path $ROOT/points/x",
    ],
)
def test_members_of_the_family_and_other_paths_are_silent(line: str) -> None:
    assert found("path-matcher", line) == []


def test_a_configuration_of_the_family_is_no_accident(tmp_path) -> None:
    model(tmp_path, "unlimited", config={"model_type": "unlimited-ocr"})
    (tmp_path / "unlimited" / "m").mkdir()
    (tmp_path / "unlimited" / "m" / "config.json").write_text('{"model_type": "unlimited-ocr"}')
    assert found("path-matcher", "--model-path unlimited/m", roots=(tmp_path,)) == []


def test_a_hostile_pattern_matches_nothing() -> None:
    hostile = PathMatcher("chatml", r"(a|a|a)*$x", False, "conversation.py", 1)
    broken = PathMatcher("llama-2", "(", False, "conversation.py", 2)
    tables = msgspec.structs.replace(MODERN, path_matchers=(hostile, broken, MATCHERS[0]))
    path = f"/mnt/points/{'a' * 60}z"
    (hit,) = found("path-matcher", f"--model-path {path}", tables=tables)
    assert "points-v15-chat" in hit.message


V4 = {"architectures": ["DeepseekV4ForCausalLM"]}


def test_a_parser_of_another_format_for_a_native_architecture(tmp_path) -> None:
    line = "--model-path m --tool-call-parser deepseekv31"
    (hit,) = found("architecture", line, roots=(model(tmp_path, config=V4),))
    assert hit.where.line == 3
    assert hit.fix == "use --tool-call-parser deepseekv4"
    assert "`<｜DSML｜tool_calls>`" in hit.message


def test_the_encoder_of_an_early_tree_has_parsers_by_its_version(tmp_path) -> None:
    root = model(tmp_path, config={"architectures": ["DeepseekV32ForCausalLM"]})
    line = "--model-path m --tool-call-parser"
    (hit,) = found("architecture", f"{line} deepseekv31", roots=(root,), tables=EARLY)
    assert hit.fix == "use --tool-call-parser deepseekv32"
    assert found("architecture", f"{line} deepseekv32", roots=(root,), tables=EARLY) == []


def test_an_encoder_that_is_forced_onto_another_model(tmp_path) -> None:
    qwen = {"architectures": ["Qwen3ForCausalLM"]}
    line = "--model-path m --tool-call-parser deepseekv4"
    (hit,) = found("architecture", line, roots=(model(tmp_path, config=qwen),))
    assert "forces the native encoder dsv4 onto a Qwen3ForCausalLM" in hit.message


@pytest.mark.parametrize(
    ("parser", "architecture"),
    [
        ("deepseekv4", "DeepseekV4ForCausalLM"),
        ("deepseekv32", "DeepseekV32ForCausalLM"),
        ("deepseekv31", "DeepseekV32ForCausalLM"),
        ("glm47", "Glm5ForCausalLM"),
        ("qwen", "Qwen3ForCausalLM"),
    ],
)
def test_parsers_that_fit_the_architecture(tmp_path, parser: str, architecture: str) -> None:
    root = model(tmp_path, config={"architectures": [architecture]}, chat_template={})
    (root / "m" / "chat_template.jinja").write_text(AS_JSON, encoding="utf-8")
    line = f"--model-path m --tool-call-parser {parser}"
    assert found("architecture", line, roots=(root,)) == []


@pytest.mark.parametrize("text", ["[]", '{"architectures": [3]}', "{", "[" * 100_000, '"x"'])
def test_a_broken_configuration_says_nothing(tmp_path, text: str) -> None:
    model(tmp_path)
    (tmp_path / "m" / "config.json").write_text(text)
    line = "--model-path m --tool-call-parser deepseekv4 --quantization awq"
    for shape in ("architecture", "quantization", "near-name", "vocabulary", "path-matcher"):
        if text != '{"architectures": [3]}':
            assert found(shape, line, roots=(tmp_path,)) == []


FP4 = {"quantization": {"quant_algo": "NVFP4"}}


def test_a_quantization_that_the_checkpoint_does_not_have(tmp_path) -> None:
    root = model(tmp_path, hf_quant_config=FP4)
    (hit,) = found("quantization", "--model-path m --quantization fp8", roots=(root,))
    assert "the checkpoint says that it is NVFP4" in hit.message
    assert hit.evidence[0].path == "m/hf_quant_config.json"
    assert hit.where.line == 3


@pytest.mark.parametrize(
    ("flag", "config"),
    [
        ("modelopt_fp4", FP4),
        ("compressed-tensors", FP4),
        ("fp8", {"quantization": {"quant_algo": "MIXED_PRECISION"}}),
    ],
)
def test_quantizations_that_fit(tmp_path, flag: str, config: dict[str, object]) -> None:
    root = model(tmp_path, hf_quant_config=config)
    assert found("quantization", f"--model-path m --quantization {flag}", roots=(root,)) == []


def test_a_quantization_made_at_load_needs_no_checkpoint_of_it(tmp_path) -> None:
    root = model(tmp_path)
    assert found("quantization", "--model-path m --quantization fp8", roots=(root,)) == []


def test_the_quantized_folder_beside_is_named(tmp_path) -> None:
    root = model(model(tmp_path), "m-NVFP4")
    line = "--model-path m --quantization modelopt_fp4"
    (hit,) = found("quantization", line, roots=(root,))
    assert "m-NVFP4 stands beside it" in hit.message
    (near,) = found("near-name", "--model-path m", roots=(root,))
    assert "this one is not quantized" in near.message
    assert found("near-name", "--model-path m-NVFP4", roots=(root,)) == []


def tokens(*words: str) -> dict[str, object]:
    return {"added_tokens": [{"content": w} for w in words], "model": {"vocab": {"the": 1}}}


def test_a_marker_that_is_not_in_the_vocabulary(tmp_path) -> None:
    root = model(tmp_path, tokenizer=tokens("<tool_call>", "<|im_end|>"))
    (hit,) = found("vocabulary", "--model-path m --tool-call-parser kimi_k2", roots=(root,))
    assert "searched: m/tokenizer.json, 3 entries" in hit.message
    assert "qwen" in hit.fix


@pytest.mark.parametrize("parser", ["qwen", "deepseekv4", "pythonic"])
def test_markers_that_are_in_the_vocabulary_or_around_a_part_of_it(tmp_path, parser: str) -> None:
    root = model(tmp_path, tokenizer=tokens("<tool_call>", "｜DSML｜"))
    line = f"--model-path m --tool-call-parser {parser}"
    assert found("vocabulary", line, roots=(root,)) == []


def test_no_tool_parser_for_a_model_that_calls_tools(tmp_path) -> None:
    root = model(tmp_path)
    (root / "m" / "chat_template.jinja").write_text(AS_JSON, encoding="utf-8")
    (hit,) = found("parser-missing", "--model-path m --reasoning-parser qwen3", roots=(root,))
    assert hit.where.line == 3
    assert "hermes" in hit.fix
    line = "--model-path m --reasoning-parser qwen3 --tool-call-parser qwen"
    assert found("parser-missing", line, roots=(root,)) == []
