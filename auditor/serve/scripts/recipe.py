"""Reads settings written as data: ``flag: value`` mappings and texts or lists of flags.

A mapping is taken for flags of the server only for a reason that can be told: its key is named for
sglang, or several of its keys are names that hardly any other program has. The flags of the tree
are not known here; they are the judge of what is found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from auditor.serve.scripts.yamltree import Listing, Mapping, Node, Scalar

_NAMED = re.compile(
    r"(?:^|[_-])(?:sglang|sgl)[_-]?(?:server|engine|extra|cli)?[_-]?"
    r"(?:config|args|arguments|params|parameters|flags|options|kwargs)(?:\.ya?ml)?$"
    r"|^sglang[\w-]*\.ya?ml$",
    re.IGNORECASE,
)
_HOLDS_FLAGS = re.compile(
    r"(?:args|arguments|flags|options|kwargs|config|params|parameters|settings)$", re.IGNORECASE
)
# Names that other servers do not have, and names that some share with sglang.
_OWN = frozenset(
    {
        *("attention-backend", "chunked-prefill-size", "cuda-graph-bs", "cuda-graph-max-bs"),
        *("deepep-mode", "disable-cuda-graph", "disable-cuda-graph-padding", "disable-radix-cache"),
        *("disaggregation-bootstrap-port", "disaggregation-ib-device", "disaggregation-mode"),
        *("disaggregation-transfer-backend", "dp-size", "enable-dp-attention", "enable-dp-lm-head"),
        *("enable-eplb", "enable-hierarchical-cache", "enable-mixed-chunk", "enable-torch-compile"),
        *("ep-size", "grammar-backend", "hicache-ratio", "hicache-size", "load-balance-method"),
        *("max-prefill-tokens", "max-running-requests", "max-total-tokens", "mem-fraction-static"),
        *(
            "moe-a2a-backend",
            "moe-dense-tp-size",
            "moe-runner-backend",
            "prefill-attention-backend",
        ),
        *("decode-attention-backend", "sampling-backend", "schedule-conservativeness"),
        *("schedule-policy", "skip-tokenizer-init", "speculative-algorithm", "speculative-algo"),
        *("speculative-draft-model-path", "speculative-eagle-topk", "speculative-num-draft-tokens"),
        *("speculative-num-steps", "stream-interval", "tp-size", "watchdog-timeout"),
        *("decode-log-interval", "fp8-gemm-backend", "fp4-gemm-backend", "pp-size"),
    }
)
_SHARED = frozenset(
    {
        *("model-path", "model", "tokenizer-path", "served-model-name", "trust-remote-code"),
        *("kv-cache-dtype", "context-length", "page-size", "quantization", "tool-call-parser"),
        *("reasoning-parser", "chat-template", "tensor-parallel-size", "data-parallel-size"),
        *("expert-parallel-size", "pipeline-parallel-size", "tp", "dp", "ep", "pp", "host", "port"),
        *("enable-metrics", "load-format", "dtype", "nnodes", "node-rank", "dist-init-addr"),
        *("log-level", "api-key", "random-seed", "download-dir", "revision", "device"),
        *("model-loader-extra-config", "enable-lora", "lora-paths", "hf-overrides"),
    }
)
_FLAG = re.compile(r"--[A-Za-z][\w.-]*(?:=.*)?$", re.DOTALL)
_FLAG_TEXT = re.compile(r"\s*--[A-Za-z][\w-]*(?:[\s=]|$)")
_FLAG_AND_VALUE = re.compile(r"--[A-Za-z][\w-]*[ \t]+\S")
_FLAG_NAMES = re.compile(r"(?:^|\s)--([A-Za-z][\w-]*)")
_KEY = re.compile(r"[A-Za-z][\w-]*$")


def named_for_flags(key: str) -> bool:
    """Whether a key says that it holds settings of sglang (``sglang_config``)."""
    return _NAMED.search(key) is not None


def holds_flags(key: str) -> bool:
    """Whether a key says that it holds settings of some program (``server_args``)."""
    return _HOLDS_FLAGS.search(key) is not None


def is_recipe(mapping: Mapping, key: str, named: bool, told: bool) -> bool:
    """Whether the keys of a mapping are flags of the server.

    ``key`` is what holds the mapping, ``named`` says that it or one around it is named for sglang,
    ``told`` that the file speaks of sglang elsewhere.
    """
    keys = [key.text for key, value in mapping.merged() if not isinstance(value, Mapping)]
    if not keys or any(not _KEY.match(key) for key in keys):
        return False
    own, shared = _count(keys)
    if named:
        return own + shared > 0
    known = (own + shared) / len(keys)
    if key == "sglang" and own >= 2 and known >= 0.75:
        return True
    if any("_" in key for key in keys):
        # Names of Python parameters: engines, trainers and benchmarks have many of them.
        return (2 * own + shared >= 8 and own >= 3 and known >= 0.75) or (
            told and holds_flags(key) and own >= 1 and known >= 0.75
        )
    return (2 * own + shared >= 5 and own >= 1 and known >= 0.5) or (
        told and holds_flags(key) and own >= 1 and known >= 0.5
    )


def is_flag_text(text: str) -> bool:
    """Whether a text is a command line without its program."""
    return _FLAG_TEXT.match(text) is not None


def is_flag_and_value(text: str) -> bool:
    """Whether a word of a list is a flag and its value in one, which no program takes for both."""
    return _FLAG_AND_VALUE.match(text) is not None


def is_flag_list(items: Sequence[Node]) -> bool:
    """Whether a sequence holds the words of a command line without its program."""
    return (
        bool(items)
        and isinstance(items[0], Scalar)
        and _FLAG_TEXT.match(items[0].text) is not None
        and all(isinstance(item, Scalar) for item in items)
    )


def flags_of_server(texts: Iterable[str], named: bool, told: bool) -> bool:
    """Whether flags found without a program are the server's, by the same reasons as a recipe's."""
    names = {name for text in texts for name in _FLAG_NAMES.findall(text)}
    own, shared = _count(names)
    if named:
        return own + shared > 0
    return own >= 1 + (not told) or (told and own + shared >= 2)


def written_flags(mapping: Mapping) -> Iterable[tuple[Scalar, list[Node]]]:
    """Each key with its values, duplicates included; ``null`` is no setting.

    A plain ``true`` is a flag without a value. ``false`` stays a value: whether it leaves the flag
    out or is given to it depends on how the tree declares the flag.
    """
    for key, value in mapping.merged():
        if isinstance(value, Mapping):
            name = key.text.replace("_", "-")
            if "-" in name and name in _OWN | _SHARED:
                yield key, [value]
        elif isinstance(value, Listing):
            if value.items:
                yield key, value.items
        elif value.plain and value.text.lower() in {"null", "~", ""}:
            continue
        elif value.plain and value.text.lower() in {"true", "yes", "on"}:
            yield key, []
        else:
            yield key, [value]


def _count(keys: Iterable[str]) -> tuple[int, int]:
    names = {key.replace("_", "-") for key in keys}
    return len(names & _OWN), len(names & _SHARED)
