"""Small trees whose gates are armed under settings, and what is said of them."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import dedent

from auditor.deployment.join import Launches
from auditor.deployment.needs import Needs, Place, needs_of
from auditor.model import Deployment, Launch
from auditor.serve.scripts.places import Places
from auditor.serve.tables.flags import flags
from auditor.serve.tables.modules import Tree

ARGS = "sglang/srt/server_args.py"
POOL = "sglang/srt/pool.py"
SCHEDULER = "sglang/srt/scheduler.py"
PLACE = Place(POOL, "Pool.get_rows", ("Pool", "BasePool"))

FILES = {
    ARGS: """
        import argparse
        from dataclasses import dataclass

        @dataclass
        class ServerArgs:
            model_path: str
            device: str = "cuda"
            tier: bool = False
            tier_size: int = 4
            overlap: bool = True
            disable_cache: bool = False
            mode: str = "null"
            backend: str = None
            linker: bool = False

            @staticmethod
            def add_cli_args(parser):
                parser.add_argument("--model-path", "--model", type=str, required=True)
                parser.add_argument("--device", type=str, default="cuda", help="cuda or board")
                parser.add_argument("--tier", action="store_true", help="Enable the host tier.")
                parser.add_argument("--tier-size", type=int, default=4)
                parser.add_argument(
                    "--overlap", action=argparse.BooleanOptionalAction, default=True
                )
                parser.add_argument("--disable-cache", action="store_true")
                parser.add_argument("--mode", choices=["null", "decode"], default="null")
                parser.add_argument("--backend", type=str, default=None)
                parser.add_argument("--linker", action="store_true")

        def prepare_server_args(argv):
            parser = argparse.ArgumentParser()
            ServerArgs.add_cli_args(parser)
            return parser.parse_args(argv)
    """,
    "sglang/srt/environ.py": """
        class EnvBool:
            pass

        class Envs:
            SGLANG_TIER = EnvBool(False)
            SGLANG_CLASSIC = EnvBool(True)

        envs = Envs()
    """,
    "sglang/srt/platform.py": """
        import torch

        def is_board():
            return hasattr(torch, "board")
    """,
    "sglang/srt/model_config.py": """
        def is_sparse(config):
            return config.architectures[0] in ("SparseForCausalLM", "SparserForCausalLM")

        class ModelConfig:
            def __init__(self, path):
                self.hf_config = load(path)
                self.is_windowed = bool(self.hf_config.window)
    """,
    POOL: """
        class BasePool:
            pass

        class Pool(BasePool):
            def attach(self, counter):
                self.counter = counter

            def get_rows(self, layer):
                return self.rows[layer]
    """,
    "sglang/srt/tier.py": """
        class Tier:
            def __init__(self, pool):
                pool.attach(Counter())
    """,
}
"""A tree in which ``Tier(pool)`` arms a pool; what makes either is up to a scheduler."""

HEAD = """
from sglang.srt.environ import envs
from sglang.srt.model_config import is_sparse
from sglang.srt.platform import is_board
from sglang.srt.pool import Pool
from sglang.srt.tier import Tier

"""


def tree_of(scheduler: str, files: Mapping[str, str] | None = None) -> dict[str, bytes]:
    """The bytes of the tree with a scheduler, and more files or other ones."""
    texts = {**FILES, **(files or {}), SCHEDULER: HEAD + dedent(scheduler)}
    return {path: dedent(text).encode() for path, text in texts.items()}


def needs(tree: Mapping[str, bytes], place: Place = PLACE) -> Needs:
    """The conditions of one place of a tree."""
    found, _ = needs_of(Tree(tree, tree.get), {"attach"}, [place])()
    return found[place]


def told(tree: Mapping[str, bytes], place: Place = PLACE) -> list[list[str]]:
    """The same in words."""
    return [[c.text for c in case] for case in needs(tree, place).conditions()]


def deployment(
    tree: Mapping[str, bytes],
    *launches: Launch,
    place: Place = PLACE,
    models: Mapping[str, bytes] | None = None,
) -> Deployment:
    """What launches make of it; ``models`` are files of model folders by their path."""
    known = models or {}
    places = Places((), known.get, frozenset(), tuple(known))
    options = flags(Tree(tree, tree.get))
    return Launches.of(launches, options, places).deployment(needs(tree, place))
