"""The settings that arm a gate, by every kind of way through a tree."""

from __future__ import annotations

import pytest

from auditor.deployment.needs import Place
from tests.deployment.trees import PLACE, POOL, needs, told, tree_of

WAYS: dict[str, tuple[str, list[list[str]]]] = {
    "the settings themselves": (
        """
        def start(server_args):
            pool = Pool()
            if server_args.tier:
                Tier(pool)
        """,
        [["--tier"]],
    ),
    "an attribute that was given a setting": (
        """
        class Scheduler:
            def __init__(self, server_args):
                self.hosted = server_args.tier
                self.arm(Pool())

            def arm(self, pool):
                if self.hosted:
                    Tier(pool)
        """,
        [["--tier"]],
    ),
    "a return before": (
        """
        def start(server_args):
            pool = Pool()
            if not server_args.tier:
                return
            Tier(pool)
        """,
        [["--tier"]],
    ),
    "a refusal in the last of several branches": (
        """
        def start(server_args):
            pool = Pool()
            if server_args.tier:
                size = 1
            elif server_args.linker:
                size = 2
            else:
                raise ValueError
            Tier(pool)
        """,
        [["--linker"], ["--tier"]],
    ),
    "a factory": (
        """
        def start(server_args):
            make_tier(Pool(), server_args)

        def make_tier(pool, server_args):
            kind = tier_class(server_args)
            if kind is not None:
                return Tier(pool)

        def tier_class(server_args):
            if server_args.tier:
                return Tier
            return None
        """,
        [["--tier"]],
    ),
    "a parameter of another name": (
        """
        def start(server_args):
            arm(Pool(), hosted=server_args.tier)

        def arm(pool, hosted):
            if hosted:
                Tier(pool)
        """,
        [["--tier"]],
    ),
    "two places": (
        """
        def start(server_args):
            pool = Pool()
            if server_args.tier:
                Tier(pool)
            elif server_args.linker:
                Tier(pool)
        """,
        [["--linker"], ["--tier"]],
    ),
    "both branches": (
        """
        def start(server_args):
            pool = Pool()
            if server_args.tier:
                Tier(pool)
            else:
                Tier(pool)
        """,
        [[]],
    ),
    "a value": (
        """
        def start(server_args):
            pool = Pool()
            if server_args.mode == "decode" and server_args.tier_size > 8:
                Tier(pool)
        """,
        [["--mode decode", "--tier-size > 8"]],
    ),
    "a negation is the default": (
        """
        def start(server_args):
            pool = Pool()
            if server_args.tier and not server_args.disable_cache:
                Tier(pool)
        """,
        [["--tier"]],
    ),
    "a default that is on": (
        """
        def start(server_args):
            pool = Pool()
            if server_args.overlap:
                Tier(pool)
        """,
        [[]],
    ),
    "a default that is on, taken away": (
        """
        def start(server_args):
            pool = Pool()
            if not server_args.overlap:
                Tier(pool)
        """,
        [["--no-overlap"]],
    ),
    "a variable": (
        """
        def start(server_args):
            pool = Pool()
            if envs.SGLANG_TIER.get() and envs.SGLANG_CLASSIC.get():
                Tier(pool)
        """,
        [["SGLANG_TIER=1"]],
    ),
    "a variable that is read by its name": (
        """
        import os

        def start(server_args):
            pool = Pool()
            if os.environ.get("SGLANG_TIER", "0") == "full":
                Tier(pool)
        """,
        [["SGLANG_TIER=full"]],
    ),
    "a platform": (
        """
        _is_board = is_board()

        def start(server_args):
            pool = Pool()
            if server_args.tier and _is_board:
                Tier(pool)
        """,
        [["--tier", "a BOARD device"]],
    ),
    "a model": (
        """
        def start(server_args, model_config):
            if is_sparse(model_config.hf_config):
                pool = Pool()
                if server_args.tier:
                    Tier(pool)
        """,
        [["--tier", "the model is a SparseForCausalLM or 1 other"]],
    ),
    "what the model's configuration says of it": (
        """
        class Runner:
            def make(self, model_config):
                self.windowed = model_config.is_windowed
                self.pool = Pool() if self.windowed else None

        def start(server_args, runner):
            if server_args.tier:
                Tier(runner.pool)
        """,
        [["--tier", "the model is windowed"]],
    ),
    "a setting that the tree turns on by another": (
        """
        def start(server_args):
            pool = Pool()
            if server_args.backend == "host":
                Tier(pool)

        def settle(server_args):
            if server_args.mode == "decode":
                server_args.backend = "host"
        """,
        [["--backend host"], ["--mode decode"]],
    ),
    "None hands over nothing": (
        """
        def start(server_args):
            pool = Pool()
            pool.attach(None)
            if server_args.tier:
                Tier(pool)
        """,
        [["--tier"]],
    ),
}


@pytest.mark.parametrize("case", WAYS)
def test_the_settings_that_lead_to_the_arming_call_are_found(case):
    scheduler, expected = WAYS[case]
    assert sorted(told(tree_of(scheduler))) == sorted(expected)


def test_what_registers_itself_is_chosen_by_the_flag_of_that_name():
    scheduler = """
        from sglang.srt.registry import register_backend

        @register_backend("paged")
        def paged(server_args):
            Tier(Pool())
    """
    assert told(tree_of(scheduler)) == [["--backend paged"]]


def test_a_pool_is_made_where_one_is_that_inherits_the_method():
    files = {
        "sglang/srt/board_pool.py": """
            from sglang.srt.pool import Pool

            class BoardPool(Pool):
                def put_rows(self, layer, rows):
                    pass
        """
    }
    scheduler = """
        from sglang.srt.board_pool import BoardPool

        def start(server_args):
            kind = BoardPool if is_board() else Pool
            pool = kind()
            if server_args.tier:
                Tier(pool)
    """
    assert told(tree_of(scheduler, files)) == [["--tier"]]
    overriding = {path: text.replace("put_rows", "get_rows") for path, text in files.items()}
    [[tier]] = told(tree_of(scheduler, overriding))
    assert tier == "--tier"
    [made] = needs(tree_of(scheduler, overriding)).made
    assert [need.term.op for need in made] == ["false"]  # not on a board


def test_a_call_that_is_for_another_class_does_not_count():
    files = {
        "sglang/srt/other.py": """
            class RowPool:
                def attach(self, counter):
                    self.counter = counter

                def get(self, layer):
                    return self.rows[layer]
        """
    }
    scheduler = """
        from sglang.srt.other import RowPool

        def start(server_args, rows: RowPool, pool: Pool):
            if server_args.tier:
                pool.attach(1)
            if server_args.linker:
                rows.attach(1)

        def make():
            return Pool(), RowPool()
    """
    bare = {"sglang/srt/tier.py": ""}
    tree = tree_of(scheduler, {**files, **bare})
    assert told(tree) == [["--tier"]]
    assert told(tree, Place("sglang/srt/other.py", "RowPool.get", ("RowPool",))) == [["--linker"]]


def test_a_pool_that_is_refused_is_not_armed_that_way():
    files = {
        "sglang/srt/plain_pool.py": """
            from sglang.srt.pool import BasePool

            class PlainPool(BasePool):
                pass
        """
    }
    scheduler = """
        from sglang.srt.plain_pool import PlainPool

        def start(server_args):
            arm(Pool(), server_args)

        def arm(pool, server_args):
            if server_args.linker:
                if not isinstance(pool, PlainPool):
                    raise ValueError
                Tier(pool)
            if server_args.tier:
                Tier(pool)
    """
    assert told(tree_of(scheduler, files)) == [["--tier"]]


def test_code_outside_the_pools_is_followed_to_where_it_is_used():
    scheduler = """
        class Backend:
            def read(self, pool):
                return pool.rows

        def start(server_args):
            pool = Pool()
            if server_args.tier:
                Tier(pool)
            if server_args.backend == "sparse":
                return Backend()
    """
    place = Place("sglang/srt/scheduler.py", "Backend.read", PLACE.classes)
    assert told(tree_of(scheduler), place) == [["--backend sparse", "--tier"]]


def test_what_nothing_arms_or_makes_says_so():
    found = needs(
        tree_of("def start(server_args):\n    return Pool()\n", {POOL.replace("pool", "tier"): ""})
    )
    assert found.armed == ()
    found = needs(tree_of("def start(server_args, pool):\n    Tier(pool)\n"))
    assert found.armed and not found.made
