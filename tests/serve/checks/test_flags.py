"""What is said of flags that a tree does not have, or not for long."""

from __future__ import annotations

import msgspec
import pytest

from tests.serve.checks.launches import FLAGS, TABLES, flag, hits, launch, lines, other, switch


def test_a_flag_with_underscores_is_told_its_dashes() -> None:
    (hit,) = hits("unknown-flag", launch("--model-path m --enable_metrics"))
    assert hit.where.line == 2
    assert hit.anchor == "--enable_metrics"
    assert hit.fix == "write --enable-metrics"
    assert [(e.path, e.line) for e in hit.evidence] == [("args.py", 14)]
    assert (hit.confidence, hit.reach) == ("high", "live")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("--enable-reasoning", ["vLLM", "--reasoning-parser"]),
        ("--max-model-len 4096", ["vLLM", "--context-length"]),
        ("--dataset-name random", ["benchmark client"]),
        ("--page-sizes 64", ["--page-size"]),
        ("-tp 8", []),
    ],
)
def test_an_unknown_flag_is_told_whose_it_is_or_what_is_near(text: str, names: list[str]) -> None:
    (hit,) = hits("unknown-flag", launch(text))
    assert all(name in hit.message for name in names)


@pytest.mark.parametrize(
    "text",
    ["--tp 8", "--mem-frac 0.8", "--model m", "-h", "--cuda-graph-max-bs 1", "--no-enable-overlap"],
)
def test_abbreviations_and_what_argparse_adds_are_known(text: str) -> None:
    assert lines("unknown-flag", launch(text)) == []


def test_only_the_server_is_held_against_the_servers_flags() -> None:
    for program in ("router", "foreign", "diffusion"):
        assert lines("unknown-flag", launch("--policy x", program=program)) == []


def test_the_benchmarks_arguments_after_serve_are_not_diffusion() -> None:
    started = launch("--num-prompts 4", program="diffusion", command="sglang serve")
    assert lines("unknown-flag", started) == [1]


def test_a_flag_whose_text_a_run_decides_is_silent() -> None:
    assert lines("unknown-flag", launch("--${NAME}-size 4")) == []


def test_a_flag_of_a_newer_release_is_unknown_and_named() -> None:
    newer = other("target", "v9", flag("--max-loras"))
    (hit,) = hits("unknown-flag", launch("--max-loras 1"), others=[newer])
    assert "v9 has it" in hit.message
    assert lines("removed-flag", launch("--max-loras 1"), others=[newer]) == []


def test_a_flag_of_upstream_is_removed_and_its_replacement_named() -> None:
    older = other("upstream", "v1", flag("--page-len", dest="page_size", line=7))
    (hit,) = hits("removed-flag", launch("--page-len 64"), others=[older])
    assert "--page-size takes its place" in hit.message
    assert [(e.side, e.line) for e in hit.evidence] == [("upstream", 7), ("fork", 10)]
    assert lines("unknown-flag", launch("--page-len 64"), others=[older]) == []


def test_what_only_some_runs_pass_is_latent() -> None:
    (hit,) = hits("unknown-flag", launch("?--nope 1"))
    assert hit.reach == "latent"


def test_a_deprecated_flag_matters_where_a_target_lost_it() -> None:
    (hit,) = hits("deprecated-flag", launch("--stream-output"))
    assert (hit.reach, hit.fix) == ("latent", "write --incremental-output")
    target = other("target", "v9", switch("--incremental-output"))
    (hit,) = hits("deprecated-flag", launch("--stream-output"), others=[target])
    assert hit.reach == "live"
    assert "v9 no longer has it" in hit.message


def test_a_refused_flag_is_not_deprecated_too() -> None:
    (hit,) = hits("refused-flag", launch("--enable-ep-moe"))
    assert "Set --ep-size instead." in hit.message
    assert lines("deprecated-flag", launch("--enable-ep-moe")) == []


def test_an_ambiguous_abbreviation_names_its_flags() -> None:
    (hit,) = hits("ambiguous-flag", launch("--cuda-graph-max-bs 8"))
    assert "--cuda-graph-max-bs-decode and --cuda-graph-max-bs-prefill" in hit.message


def test_several_spellings_of_one_flag_are_not_ambiguous() -> None:
    tables = msgspec.structs.replace(TABLES, flags=(flag("--moe-a", "--moe-b"),))
    assert lines("ambiguous-flag", launch("--moe 1"), tables=tables) == []


def test_an_abbreviation_of_another_flag_elsewhere() -> None:
    renamed = other("upstream", "v1", flag("--tp-ranks", dest="tp_size"))
    differs = other("upstream", "v1", flag("--tp-plan"))
    assert lines("abbreviated-flag-differs", launch("--tp 8"), others=[renamed]) == []
    assert lines("abbreviated-flag-differs", launch("--tp 8"), others=[differs]) == [1]
    assert lines("abbreviated-flag-differs", launch("--tp-size 8"), others=[differs]) == []


def test_keywords_of_a_python_call_are_fields() -> None:
    call = launch("--tp_size 8 --model-path m --nope 1", form="python", command="Engine(…)")
    (hit,) = hits("unknown-flag", call)
    assert (hit.anchor, hit.confidence) == ("--nope", "low")
    words = launch("--tp_size 8", form="python")
    assert lines("unknown-flag", words) == [1]


def test_a_line_of_two_launches_is_one_hit() -> None:
    assert lines("unknown-flag", launch("--nope"), launch("--nope")) == [1]


def test_nothing_is_said_where_no_flags_are_known() -> None:
    tables = msgspec.structs.replace(TABLES, flags=())
    assert FLAGS
    assert lines("unknown-flag", launch("--nope"), tables=tables) == []


def test_guesses_are_bounded() -> None:
    text = " ".join(f"--odd-{number}x 1" for number in range(1500))
    found = hits("unknown-flag", launch(f"{text} --page-sizes 64 --{'y' * 5000} 1"))
    assert len(found) == 1502
    assert "the nearest is --page-size" not in found[1500].message
