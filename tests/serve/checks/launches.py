"""Launches and tables made by hand for the tests of the serve checks."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from auditor import rulebook
from auditor.model import Argument, Hit, Launch, Passed, Pin, Side, Variable
from auditor.serve.checks.seen import OtherTree, ServeView
from auditor.serve.checks.table import SERVE_CHECKS
from auditor.serve.scripts.places import Places
from auditor.serve.tables.facts import EnvironmentName, Flag, Guard, Tables, Term

BOOK = rulebook.load()


@dataclass(frozen=True)
class Files(Places):
    """The files that a launch may name, by path."""

    files: Mapping[str, bytes] | None = None

    def read(self, launch: Launch, path: str) -> bytes | None:
        return (self.files or {}).get(path)


def flag(*names: str, **more: object) -> Flag:
    """A flag that is declared in ``args.py``; its field is its first name unless ``dest`` says."""
    dest = str(more.pop("dest", names[0].lstrip("-").replace("-", "_")))
    return Flag(names, dest, "args.py", int(str(more.pop("line", 10))), **more)  # type: ignore[arg-type]


def switch(*names: str, **more: object) -> Flag:
    return flag(*names, takes_value=False, default="False", **more)


FLAGS = (
    flag("--model-path", "--model", type="str"),
    flag("--tp-size", "--tensor-parallel-size", type="int", default="1", line=11),
    flag("--dp-size", type="int", default="1"),
    flag("--page-size", type="Optional[int]", default="None"),
    flag("--context-length", type="Optional[int]", default="None"),
    flag("--mem-fraction-static", type="float"),
    flag("--kv-cache-dtype", choices=("auto", "fp8_e4m3", "bfloat16"), default="'auto'", line=12),
    flag("--quantization", choices=("fp8", "awq"), default="None", type="Optional[str]"),
    flag("--tool-call-parser", choices=("auto", "hermes", "qwen"), line=13),
    flag("--reasoning-parser"),
    flag("--log-level", choices=("info", "debug"), type="str.lower"),
    flag("--port-args", nargs="+", type="List[int]", choices=("1", "2")),
    flag("--disaggregation-mode", choices=("null", "prefill", "decode")),
    flag("--disaggregation-transfer-backend", default="'mooncake'"),
    flag("--cuda-graph-max-bs-decode", type="int"),
    flag("--cuda-graph-max-bs-prefill", type="int"),
    flag("--lora-paths", nargs="*", repeatable=True),
    flag("--speculative-algorithm", default="None"),
    flag("--speculative-num-steps", type="int", default="None"),
    flag("--speculative-num-draft-tokens", type="int", default="None"),
    flag("--config"),
    switch("--enable-metrics", line=14),
    switch("--enable-dp-attention"),
    switch("--disable-radix-cache"),
    switch("--enable-hierarchical-cache"),
    switch("--enable-overlap", negation=("--no-enable-overlap",)),
    switch("--incremental-output", dest="incremental_output"),
    switch(
        "--stream-output",
        dest="incremental_output",
        deprecated="old",
        replacement="--incremental-output",
    ),
    switch("--enable-ep-moe", deprecated="Set --ep-size instead.", refused=True),
)

ENVIRONMENT = (
    EnvironmentName("SGLANG_ENABLE_SPEC", "environ.py", 5, True, "bool"),
    EnvironmentName("SGLANG_STEPS", "environ.py", 6, True, "int"),
    EnvironmentName("SGLANG_READ_ELSEWHERE", "other.py", 7, False),
    EnvironmentName("SGLANG_GONE", "environ.py", 8, False, retired=True, note="Use --page-size."),
    EnvironmentName("SGLANG_SPEC_ON", "environ.py", 9, False, replacement="SGLANG_ENABLE_SPEC"),
)

GUARDS = (
    Guard(
        (Term("enable_hierarchical_cache", "true"), Term("disable_radix_cache", "true")),
        "the cache needs the other",
        "args.py",
        90,
    ),
    Guard(
        (
            Term("speculative_algorithm", "in", ("'EAGLE'", "'EAGLE3'")),
            Term("speculative_num_steps", "none", absent=True),
            Term("speculative_num_draft_tokens", "set"),
        ),
        "set all of them",
        "args.py",
        91,
    ),
    Guard((Term("tp_size", ">", ("1",)), Term("page_size", "==", ("64",))), "", "args.py", 92),
)

TABLES = Tables(
    version="0.5.12",
    flags=FLAGS,
    environment=ENVIRONMENT,
    prefixes=("SGLANG_LOG_",),
    rewritten=(("SGL_", "SGLANG_"),),
    guards=GUARDS,
)


def launch(text: str, path: str = "serve.sh", line: int = 1, **more: object) -> Launch:
    """A launch of the words of a text, one argument a line from ``line`` on.

    ``?--flag`` is conditional, ``$X`` in a value unresolved, ``--flag=x`` one word.
    """
    arguments: list[Argument] = []
    words: list[Passed] = []
    for written in shlex.split(text):
        conditional = written.startswith("?")
        word = written.removeprefix("?")
        if not word.startswith("-") and arguments:
            conditional = arguments[-1].conditional
        at = line + len(arguments) - (not word.startswith("-"))
        words.append(Passed(word, path, at, resolved="$" not in word, conditional=conditional))
        if word.startswith("-"):
            name, equals, value = word.partition("=")
            arguments.append(
                Argument(
                    name,
                    value if equals else None,
                    path,
                    line + len(arguments),
                    conditional=conditional,
                    joined=bool(equals),
                )
            )
            continue
        last = arguments[-1]
        joined = word if last.value is None else f"{last.value} {word}"
        arguments[-1] = Argument(
            last.flag,
            joined,
            path,
            last.line,
            resolved="$" not in joined,
            conditional=last.conditional,
            words=(*last.words, *([] if last.words else [last.value]), word) if last.value else (),
        )
    role = next((a.value for a in arguments if a.flag == "--disaggregation-mode"), "plain")
    model = next((a.value for a in arguments if a.flag in ("--model-path", "--model")), None)
    fields: dict[str, object] = {
        "program": "server",
        "command": "python -m sglang.launch_server",
        "role": role,
        "model": model,
        "environment": (),
        "unresolved": 0,
        "form": "shell",
        "words": tuple(words),
        **more,
    }
    return Launch(path=path, line=line, arguments=tuple(arguments), **fields)  # type: ignore[arg-type]


def variable(name: str, value: str = "1", line: int = 1, **more: bool) -> Variable:
    return Variable(name, value, "serve.sh", line, **more)


def pin(text: str, kind: str = "image") -> Pin:
    return Pin(kind, text, "serve.sh", 1)  # type: ignore[arg-type]


def other(side: Side, ref: str, *flags: Flag, **more: object) -> OtherTree:
    return OtherTree(side, ref, Tables(flags=flags, **more))  # type: ignore[arg-type]


def hits(
    rule: str,
    *launches: Launch,
    tables: Tables = TABLES,
    others: Sequence[OtherTree] = (),
    files: Mapping[str, bytes] | None = None,
) -> list[Hit]:
    """What a rule's own page finds in launches."""
    page = BOOK.rule(rule)
    places = Files((), lambda path: None, files=files)
    view = ServeView(launches, tables, tuple(others), places)
    return list(SERVE_CHECKS[page.check].judge(page.params, view))


def lines(rule: str, *launches: Launch, **more: object) -> list[int]:
    """The lines of what a rule finds."""
    return [hit.where.line for hit in hits(rule, *launches, **more)]  # type: ignore[arg-type]
