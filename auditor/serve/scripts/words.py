"""The words of a command as written, what surrounds it, and which program it starts."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from auditor.model import Pin, Variable

Program = Literal["server", "diffusion", "router", "foreign"]
_SERVER_MODULES = frozenset({"sglang.launch_server"})
_ROUTER_MODULES = frozenset(
    {
        "sglang_router",
        "sglang_router.launch_router",
        "sglang_router.launch_server",
        "smg",
        "smg.launch_router",
        "smg.launch_server",
        "sglang.srt.disaggregation.mini_lb",
        "sglang.srt.disaggregation.launch_lb",
    }
)
_DIFFUSION_MODULES = frozenset({"sglang.multimodal_gen.runtime.launch_server"})
_ROUTERS = frozenset({"sglang-router", "sgl-router", "sgl-model-gateway", "smg", "amg"})
ROUTING = frozenset(
    {"--worker-urls", "--pd-disaggregation", "--prefill", "--decode", "--service-discovery"}
)
SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh", "ash"})
PYTHON = re.compile(r"(?:python|pypy)[0-9.]*$")
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(?!=)(.*)$", re.DOTALL)
_REQUIREMENT = re.compile(r"\bsglang(?:\[[\w,.-]+\])?\s*(?:===?|~=|>=|<=|@)\s*[^\s;,'\"]+")


@dataclass(frozen=True)
class Word:
    """One word of a command after expansion, and where it stands as written.

    A word with ``resolved`` False keeps the text of the script (``$MODEL``). ``alternatives`` are
    all texts that the word may have, where branches decide between known ones (``text`` is the
    first); ``conditional`` says that only some runs have the word at all, ``outside`` that the
    caller of the script gives what is not resolved, ``quoted`` that the word is one whatever that
    is.
    """

    text: str
    path: str
    line: int
    column: int = 1
    resolved: bool = True
    conditional: bool = False
    alternatives: tuple[str, ...] = ()
    outside: bool = False
    quoted: bool = False


@dataclass(frozen=True)
class Setting:
    """What surrounds a command: its environment, folder (empty: not known), image and mounts."""

    environment: tuple[Variable, ...] = ()
    folder: str = ""
    pins: tuple[Pin, ...] = ()
    mounts: tuple[tuple[str, str], ...] = ()


Script = Callable[[Word, Setting], None]
"""Takes the text that a command hands to a shell (``bash -c TEXT``), and what surrounds it."""


def program_of(words: list[Word]) -> tuple[Program, str, int] | None:
    """Says which program the words start, how it is called, and where its arguments begin."""
    first = words[0].text
    name = base(first)
    following = words[1].text if len(words) > 1 else ""
    found: tuple[Program, str, int] | None = None
    if first == "-m" or (first.startswith("-m") and "." in first):
        module = following if first == "-m" else first[2:]
        found = _module(module, words, 2 if first == "-m" else 1)
    elif name == "sglang" and following == "serve":
        found = ("server", "sglang serve", 2)
    elif name == "sglang-diffusion" and following == "serve":
        found = ("diffusion", "sglang-diffusion serve", 2)
    elif name in _ROUTERS and not first.startswith("-"):
        # `smg` is the name of other tools as well: without a router's words it is not this one.
        if following == "launch" or any(word.text.split("=")[0] in ROUTING for word in words):
            found = ("router", name, 2 if following == "launch" else 1)
    elif name == "launch_server.py":
        if _is_package_file(first) or _names_model(words):
            found = ("server", first, 1)
    elif name == "launch_router.py":
        found = ("router", first, 1)
    return found


def _module(module: str, words: list[Word], start: int) -> tuple[Program, str, int] | None:
    if module in _SERVER_MODULES:
        return "server", f"python -m {module}", start
    if module in _ROUTER_MODULES:
        if len(words) > start and words[start].text == "launch":
            start += 1
        return "router", f"python -m {module}", start
    if module in {"sglang", "sglang.cli", "sglang.cli.main"}:
        if len(words) > start and words[start].text == "serve":
            return "server", f"python -m {module} serve", start + 1
        return None
    if module in _DIFFUSION_MODULES:
        return "diffusion", f"python -m {module}", start
    if module == "dynamo.sglang" or module.startswith("dynamo.sglang."):
        return "foreign", f"python -m {module}", start
    return None


def _is_package_file(path: str) -> bool:
    return posixpath.basename(posixpath.dirname(path)) == "sglang"


def _names_model(words: list[Word]) -> bool:
    return any(word.text.split("=")[0] in {"--model-path", "--model"} for word in words)


def base(text: str) -> str:
    """The last part of a path."""
    return text.rstrip("/").rsplit("/", 1)[-1]


def with_variable(setting: Setting, word: Word, name: str, value: str) -> Setting:
    """What surrounds a command, with one variable more."""
    variable = Variable(
        name, value, word.path, word.line, word.column, word.resolved, word.conditional
    )
    return replace(setting, environment=(*setting.environment, variable))


def noted(word: Word, setting: Setting) -> Setting:
    """Keeps a requirement that a wrapper names (``uv run --with sglang==0.5.9``)."""
    found = requirement_of(word)
    return replace(setting, pins=(*setting.pins, found)) if found else setting


def requirement_of(word: Word) -> Pin | None:
    """The version of sglang that a word asks an installer for, None where it asks for none."""
    match = _REQUIREMENT.search(word.text)
    if match is None:
        return None
    return Pin("requirement", match.group(), word.path, word.line, word.column)
