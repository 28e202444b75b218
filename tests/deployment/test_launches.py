"""What launches make of the conditions, with argparse itself as the judge."""

from __future__ import annotations

import argparse
import json
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.model import Launch, TurnedOn, Variable
from tests.deployment.trees import ARGS, FILES, deployment, needs, tree_of
from tests.serve.checks.launches import launch

BOTH = tree_of(
    """
    def start(server_args):
        pool = Pool()
        if server_args.tier and not server_args.disable_cache:
            Tier(pool)
        elif server_args.mode == "decode" and server_args.tier_size >= 8:
            Tier(pool)
        elif not server_args.overlap and server_args.backend in ("host", "disk"):
            Tier(pool)
    """
)


def armed(args: Any) -> bool:
    """When the scheduler above arms its pool."""
    return bool(
        (args.tier and not args.disable_cache)
        or (args.mode == "decode" and args.tier_size >= 8)
        or (not args.overlap and args.backend in ("host", "disk"))
    )


def parser() -> argparse.ArgumentParser:
    """The parser of the tree's own settings, which are this test's own text."""
    names: dict[str, Any] = {}
    exec(dedent(FILES[ARGS]), names)
    made = argparse.ArgumentParser(exit_on_error=False)
    names["ServerArgs"].add_cli_args(made)
    return made


PARSER = parser()
WORDS = st.lists(
    st.sampled_from(
        [
            ["--tier"],
            ["--tie"],  # ambiguous
            ["--tier-size", "4"],
            ["--tier-size=8"],
            ["--tier-s", "9"],
            ["--disable-cache"],
            ["--disable"],
            ["--mode", "decode"],
            ["--mode=null"],
            ["--mod", "decode"],
            ["--overlap"],
            ["--no-overlap"],
            ["--backend", "host"],
            ["--backend", "disk"],
            ["--backend=paged"],
            ["--linker"],
        ]
    ),
    max_size=7,
)


@settings(max_examples=300, deadline=None)
@given(WORDS)
def test_argparse_agrees_on_what_a_launch_turns_on(words):
    flat = ["--model", "/m", *(word for row in words for word in row)]
    try:
        args = PARSER.parse_args(flat)
    except (argparse.ArgumentError, SystemExit):
        return
    found = deployment(BOTH, launch(" ".join(flat)))
    assert found.state == ("on" if armed(args) else "off")
    # What is said to turn it on does so alone.
    named = {place.setting for place in found.turned_on}
    alone = [w for row in words if " ".join(row).replace("=", " ") in named for w in row]
    if found.state == "on":
        assert armed(PARSER.parse_args(["--model", "/m", *alone]))


@settings(max_examples=150, deadline=None)
@given(WORDS, st.sets(st.integers(0, 6)))
def test_what_only_some_runs_pass_is_certain_only_where_all_runs_agree(words, conditional):
    """Each flag that stands once, and of which some stand under a condition."""
    kept = list({row[0].partition("=")[0][:6]: row for row in words}.values())
    marked = ["--model", "/m"]
    runs = [["--model", "/m"]]
    for number, row in enumerate(kept):
        optional = number in conditional
        marked += [f"?{row[0]}" if optional else row[0], *row[1:]]
        runs = [[*run, *row] for run in runs] + (runs if optional else [])
    try:
        outcomes = {armed(PARSER.parse_args(run)) for run in runs}
    except (argparse.ArgumentError, SystemExit):
        return
    found = deployment(BOTH, launch(" ".join(marked)))
    if found.state != "undecided":
        assert outcomes == {found.state == "on"}


TIER = tree_of(
    """
    def start(server_args):
        pool = Pool()
        if server_args.tier:
            Tier(pool)
    """
)


def test_a_launch_is_named_with_its_line_and_what_it_would_cost():
    found = deployment(
        TIER,
        launch("--model /m", "plain.sh"),
        launch("--model /m --tier", "deploy/a.sh", 7),
        launch("--model /m --tier", "deploy/b.sh", 3),
    )
    assert found.state == "on"
    assert found.turned_on == (
        TurnedOn("deploy/a.sh", 8, "--tier"),
        TurnedOn("deploy/b.sh", 4, "--tier"),
    )
    assert found.mitigation == (
        "take --tier out (deploy/a.sh:8, deploy/b.sh:4); costs the host tier"
    )


def test_without_a_launch_of_the_server_the_conditions_stand_alone():
    router = launch("--tier", program="router")
    for found in (deployment(TIER), deployment(TIER, router)):
        assert found.state == "no-launch"
        assert [[c.text for c in case] for case in found.conditions] == [["--tier"]]
    assert deployment(TIER, launch("--model /m")).state == "off"


@pytest.mark.parametrize(
    ("given_launch", "reason"),
    [
        (
            launch("--model /m", unresolved=1),
            "a part of the command line is known at run time only",
        ),
        (launch("--model /m ?--tier"), "whether --tier is given is known at run time only"),
    ],
)
def test_what_a_run_decides_is_undecided(given_launch, reason):
    found = deployment(TIER, given_launch)
    assert (found.state, found.reason) == ("undecided", reason)


def test_an_unknown_value_of_another_flag_decides_nothing():
    assert deployment(TIER, launch("--model $MODEL", unresolved=1)).state == "off"
    assert deployment(TIER, launch("--model $MODEL", unresolved=2)).state == "undecided"


def test_one_launch_that_is_certain_outweighs_one_that_is_not():
    found = deployment(TIER, launch("--model /m", unresolved=1), launch("--tier", "on.sh"))
    assert found.state == "on"
    assert [place.path for place in found.turned_on] == ["on.sh"]


SPARSE = tree_of(
    """
    def start(server_args, model_config):
        pool = Pool() if is_sparse(model_config.hf_config) else None
        if server_args.tier:
            Tier(pool)
    """
)


@pytest.mark.parametrize(
    ("name", "state"),
    [("SparseForCausalLM", "on"), ("DenseForCausalLM", "off"), (None, "undecided")],
)
def test_the_models_own_configuration_decides_where_it_is_at_hand(name, state):
    models = {}
    if name is not None:
        models["models/m/config.json"] = json.dumps({"architectures": [name]}).encode()
    found = deployment(SPARSE, launch("--model models/m --tier"), models=models)
    assert found.state == state
    if state == "undecided":
        assert found.reason == "the model's configuration is not at hand"
        assert found.turned_on == (TurnedOn("serve.sh", 2, "--tier"),)
        assert found.mitigation.startswith("take --tier out (serve.sh:2)")
    # Without the flag no model matters.
    assert deployment(SPARSE, launch("--model models/m"), models=models).state == "off"


BOARD = tree_of(
    """
    def start(server_args):
        pool = Pool()
        if server_args.tier and is_board():
            Tier(pool)
    """
)


@pytest.mark.parametrize(
    ("words", "state"),
    [("--tier", "undecided"), ("--tier --device board", "on"), ("--tier --device cuda", "off")],
)
def test_a_platform_is_known_by_the_device_alone(words, state):
    tree = BOARD if state != "off" else _on("cuda")
    assert deployment(tree, launch(words)).state == ("on" if tree is not BOARD else state)


def _on(device: str) -> dict[str, bytes]:
    files = {
        "sglang/srt/platform.py": f"""
            import torch

            def is_board():
                return hasattr(torch, "board")

            def is_{device}():
                return torch.{device}.is_available()
        """
    }
    return tree_of(
        f"""
        from sglang.srt.platform import is_{device}

        def start(server_args):
            pool = Pool()
            if server_args.tier and is_{device}():
                Tier(pool)
        """,
        files,
    )


VARIABLES = tree_of(
    """
    def start(server_args):
        pool = Pool()
        if envs.SGLANG_TIER.get() and envs.SGLANG_CLASSIC.get():
            Tier(pool)
    """
)


def with_variables(**values: str) -> Launch:
    rows = tuple(Variable(name, value, "env.sh", 5) for name, value in values.items())
    return launch("--model /m", environment=rows)


@pytest.mark.parametrize(
    ("values", "state"),
    [
        ({}, "off"),
        ({"SGLANG_TIER": "1"}, "on"),
        ({"SGLANG_TIER": "true"}, "on"),
        ({"SGLANG_TIER": "0"}, "off"),
        ({"SGLANG_TIER": "1", "SGLANG_CLASSIC": "0"}, "off"),
    ],
)
def test_variables_count_with_their_declared_defaults(values, state):
    found = deployment(VARIABLES, with_variables(**values))
    assert found.state == state
    if state == "on":
        assert [(p.path, p.line) for p in found.turned_on] == [("env.sh", 5)]
        assert found.mitigation == ""  # no flag of the command line helps


def test_the_role_of_a_server_is_no_mitigation():
    tree = tree_of(
        """
        def start(server_args):
            pool = Pool()
            if server_args.mode == "decode":
                Tier(pool)
        """
    )
    found = deployment(tree, launch("--mode decode"))
    assert (found.state, found.mitigation) == ("on", "")


def test_a_setting_that_is_not_needed_is_no_mitigation():
    found = deployment(BOTH, launch("--tier --mode decode --tier-size 8"))
    assert (found.state, found.mitigation) == ("on", "")


def test_what_the_server_settles_itself_is_followed():
    tree = tree_of(
        """
        def start(server_args):
            pool = Pool()
            if server_args.backend == "host":
                Tier(pool)

        def settle(server_args):
            if server_args.mode == "decode":
                server_args.backend = "host"
        """
    )
    assert deployment(tree, launch("--mode decode")).state == "on"
    assert deployment(tree, launch("--model /m")).state == "off"
    assert deployment(tree, launch("--backend host")).state == "on"


def test_what_nothing_arms_is_undecided():
    bare = tree_of("def start(server_args):\n    return Pool()\n", {"sglang/srt/tier.py": ""})
    found = deployment(bare, launch("--tier"))
    assert (found.state, found.reason) == (
        "undecided",
        "what arms the gate was not found in the tree",
    )
    assert needs(bare).armed == ()
