"""A report as an incident has it: a lost wait that a launch turns on, with its source lines."""

from __future__ import annotations

from typing import Any

import msgspec

from auditor.model import (
    Argument,
    ChangeSet,
    Closest,
    Condition,
    Deployment,
    Excerpt,
    FileChange,
    Launch,
    Likeness,
    Repair,
    Report,
    TurnedOn,
    Variable,
)

from .machines import HOSTILE, hostile_report
from .sample import POOL, finding, full_report

SCRIPT = "deploy/serve_decode.sh"
ARGS = "python/sglang/srt/server_args.py"
TIER = Condition("flag", "--enable-hierarchical-cache", ARGS, 812)
LAYERS = Condition("model", "the model is a DeepseekV32ForCausalLM", POOL, 90)
ON = Deployment(
    "on",
    ((TIER, LAYERS),),
    (TurnedOn(SCRIPT, 14, "--enable-hierarchical-cache"),),
    mitigation="take --enable-hierarchical-cache out (serve_decode.sh:14); costs the host tier",
)
OFF = Deployment("off", ((TIER,),))

FORKS = """\
    def get_index_k_continuous(self, layer_id, pages):
        buffer = self.index_k_with_scale_buffer[layer_id]
        return gather(buffer, pages, 128)"""
UPSTREAMS = """\
    def get_index_k_continuous(self, layer_id, pages):
        self._wait_for_layer(layer_id)
        buffer = self.index_k_with_scale_buffer[layer_id]
        return gather(buffer, pages, 64)"""
SIBLINGS = """\
    def get_part_0(self, layer_id):
        self._wait_for_layer(layer_id)
        return self.part_0[layer_id]"""


def excerpt(role: str, text: str, line: int, column: int, end: int = 0, **changes: Any) -> Excerpt:
    """An excerpt of ``text`` from line 1810 on, the marked ``line`` counted from it."""
    side = "upstream" if role == "upstream" else "fork"
    lines = tuple(text.split("\n"))
    told = Excerpt(role, side, POOL, "NSATokenToKVPool.f", 1810, lines, 1810 + line, column, end)
    return msgspec.structs.replace(told, **changes)


EXCERPTS = (
    excerpt("read", FORKS, 1, 18, 58),
    excerpt("sibling", SIBLINGS, 1, 9),
    excerpt("upstream", UPSTREAMS, 1, 9),
)


def launch(**changes: Any) -> Launch:
    """A start of a decode server that turns the host tier on."""
    flags = (("--model-path", "/models/DeepSeek-V3.2", 12), ("--tp", "8", 13))
    flags += (("--enable-hierarchical-cache", None, 14), ("--api-key", "sk-in-a-script", 15))
    plain = Launch(
        path=SCRIPT,
        line=11,
        program="server",
        command="python -m sglang.launch_server",
        role="decode",
        model="/models/DeepSeek-V3.2",
        arguments=tuple(Argument(flag, value, SCRIPT, line, 3) for flag, value, line in flags),
        environment=(Variable("HF_TOKEN", "hf_in_a_script", SCRIPT, 9),),
        unresolved=0,
        form="shell",
    )
    return msgspec.structs.replace(plain, **changes)


def on_fire() -> Report:
    """One of everything, the worst of it turned on, with effects, lines and launches."""
    told = full_report()
    first, *rest = told.findings
    first = msgspec.structs.replace(
        first,
        effect="garbled answers under load, no error",
        means="Requests that hit the host tier read rows which are still being copied.",
        deployment=ON,
        fixed_in="v0.5.18",
        fixed_by=Repair("9c" * 20, "2026-08-09T10:00:00+00:00", "Wait before the read"),
    )
    others = [msgspec.structs.replace(each, deployment=OFF) for each in rest]
    return msgspec.structs.replace(
        told,
        findings=(first, *others),
        excerpts={first.fingerprint: EXCERPTS},
        launches=(launch(),),
        mismatch="upstream v0.5.17 is not the release this fork is based on: that is v0.5.18",
    )


def many(number: int, **changes: Any) -> Report:
    """So many causes, each with source lines of the usual size."""
    lines = "\n".join(
        [*FORKS.split("\n"), *["        more = f(more, 'words of a usual line')"] * 9]
    )
    found = tuple(
        finding(
            fingerprint=f"{n:08x}{n:08x}", symbol=f"Pool.get_part_{n}", line=100 + n, deployment=ON
        )
        for n in range(number)
    )
    shown = (excerpt("read", lines, 1, 18, 58), excerpt("sibling", lines, 1, 9), EXCERPTS[2])
    told = {f.fingerprint: shown for f in found}
    return msgspec.structs.replace(full_report(), findings=found, excerpts=told, **changes)


def hostile() -> Report:
    """Text of the tree that does its worst where only a page shows it."""
    told = hostile_report()
    word = "--" + "a-word_without_any_end" * 20
    turned = (TurnedOn(HOSTILE, 3, HOSTILE), TurnedOn(word, 4, word))
    way = (Condition("flag", word, HOSTILE, 1), Condition("other", HOSTILE, HOSTILE, 2))
    ours = Deployment("on", (way, way), turned, mitigation=f"{HOSTILE} {word}")
    changes = {"effect": HOSTILE, "means": word, "deployment": ours}
    lines = f"{HOSTILE}\n{'x' * 9000}\n\t{HOSTILE.replace(chr(10), ' ')}\n</pre></details>"
    shown = tuple(
        excerpt(role, lines, 2, 5, path=HOSTILE, symbol=word, note=HOSTILE)
        for role in ("read", "sibling", "upstream")
    )
    argument = Argument(word, HOSTILE, HOSTILE, 3)
    variable = Variable(HOSTILE, HOSTILE, HOSTILE, 3)
    started = launch(
        path=HOSTILE, command=HOSTILE, model=word, arguments=(argument,), environment=(variable,)
    )
    return msgspec.structs.replace(
        told,
        findings=tuple(msgspec.structs.replace(f, **changes) for f in told.findings),
        excerpts={f.fingerprint: shown for f in told.findings},
        launches=(started,),
        mismatch=f"{HOSTILE} {word}",
        changes=ChangeSet((FileChange(word, "added", word, 1, 1),), history_note=HOSTILE),
        closest=Closest((Likeness(word, 1, 2),), HOSTILE),
    )
