"""Writes serve scripts out of idioms: which ones, in which order, and how the server is started."""

from __future__ import annotations

from random import Random

from tests.serve.scripts.draft import MODELS, STYLES, Draft, Full, Script
from tests.serve.scripts.flows import FIRST, FLOWS, NESTS
from tests.serve.scripts.idioms import Idiom
from tests.serve.scripts.values import VALUES

IDIOMS: dict[str, Idiom] = {**VALUES, **FLOWS, **NESTS, **FIRST}
STARTS = (
    *("plain", "exec", "nohup", "subshell", "tee", "prefixed", "here", "function", "log"),
    *("comments", "env", "in_if", "exported_all"),
)
_EACH = 5
"""Idioms of a script that come in turn, so that a row of seeds has all of them."""
_PROGRAMS = (
    "python3 -m sglang.launch_server",
    "python3 -m sglang.launch_server",
    "python -m sglang.launch_server",
    "python3 -u -m sglang.launch_server",
    "sglang serve",
)


def generate(seed: int) -> Script:
    """The script of a seed."""
    anywhere = [name for name in IDIOMS if name not in FIRST]
    first = list(FIRST)
    turns = -(-len(anywhere) // _EACH)
    order = Random(seed // turns)
    order.shuffle(anywhere)
    order.shuffle(first)
    turn = seed % turns
    wanted = [*first[turn : turn + 1], *anywhere[turn * _EACH : (turn + 1) * _EACH]]
    rng = Random(seed)
    rng.shuffle(wanted)
    more = [*anywhere, *first] if turn >= len(first) else anywhere
    wanted += rng.sample(more, rng.randint(0, 3))
    wanted = list(dict.fromkeys(wanted))
    style = rng.choice(STYLES)
    start = STARTS[seed % len(STARTS)]
    if start in {"comments", "exported_all"}:
        style = "line"
    return _write(rng, style, start, wanted)


def _write(rng: Random, style: str, start: str, wanted: list[str]) -> Script:
    d = Draft(rng, style)
    program = rng.choice(_PROGRAMS)
    d.emit(d.pick("#!/bin/bash", "#!/usr/bin/env bash"))
    if d.chance(0.2):
        d.emit(d.pick("set -e", "set -eo pipefail", "set -x"))
    if start == "exported_all":
        d.emit("set -a")
    options = [name for name in wanted if name in FIRST]
    others = [name for name in wanted if name not in FIRST]
    # The positional parameters are one thing: what reads them comes before what writes them.
    in_words = rng.random() < 0.5
    if style in {"array", "string"}:
        variable = d.array if style == "array" else d.string
        begin = f"({program})" if style == "array" else f'"{program}"'
        empty = "()" if style == "array" else '""'
        d.emit(f"{variable}={begin if in_words else empty}")
    elif style == "line" and d.chance(0.7):
        d.emit(f'{d.extra}=""')
    if style == "set":
        _options_then_set(d, options)
    else:
        for name in options[:1]:
            d.try_idiom(name, FIRST[name])
    for name in others:
        d.try_idiom(name, IDIOMS[name])
        if d.chance(0.1):
            d.emit("")
    if d.state.model:
        flag = d.model()
        d.add(flag, d.literal(d.pick(*MODELS)))
    if d.chance(0.4):
        flag, values = d.setting(1)
        d.add(flag, d.literal(values[0]))
    start = _start(d, program, in_words, start)
    d.state.idioms += [f"start_{start}", f"style_{style}"]
    return Script(
        "\n".join(d.state.lines) + "\n",
        d.pick("run.sh", "deploy/run.sh"),
        d.inputs(),
        tuple(dict.fromkeys(d.state.idioms)),
        tuple(d.state.owners.items()),
        frozenset(d.state.soft),
        frozenset(d.state.open),
    )


def _options_then_set(d: Draft, options: list[str]) -> None:
    """Reads the arguments while they are the caller's, then makes them the server's."""
    kept: list[tuple[str, str, bool]] = []
    splice = d.splice

    def keep(words: str, inner: str, now: bool = False) -> None:
        if d.depth or now:
            raise Full
        kept.append((words, inner, now))

    d.splice = keep  # type: ignore[method-assign]
    for name in options[:1]:
        if not d.try_idiom(name, FIRST[name]):
            kept.clear()
    d.splice = splice  # type: ignore[method-assign]
    d.emit("set --")
    for words, inner, now in kept:
        splice(words, inner, now)


def _start(d: Draft, program: str, in_words: bool, start: str) -> str:
    """Writes the command that starts the server; returns which form it has at last."""
    if d.state.passing and start == "function":
        start = "plain"
    if d.style == "string":
        command = f"${d.string}" if in_words else f"{program} ${d.string}"
        if d.chance(0.6):
            form = d.pick('eval "{}"', 'bash -c "{}"', "eval {}")
            command = form.format(command)
            # `eval` is no program that another one could start.
            if start in {"prefixed", "env", "exec", "nohup"}:
                start = "log"
    elif d.style == "array":
        quoted, bare = f'"${{{d.array}[@]}}"', f"${{{d.array}[@]}}"
        # Within a here-document the quotes would make one word of all.
        words = bare if start == "here" else d.pick(quoted, quoted, bare)
        command = words if in_words else f"{program} {words}"
    elif d.style == "set":
        command = f'{program} "$@"'
    else:
        command = _continued(d, program, start == "comments")
    first, *rest = command.split("\n")
    if start in {"exec", "nohup", "prefixed", "env"}:
        before = {
            "exec": "exec ",
            "nohup": "nohup ",
            "prefixed": d.pick("CUDA_VISIBLE_DEVICES=0 ", "SGLANG_LOG_MS=1 A='b c' "),
            "env": d.pick("env SGLANG_LOG_MS=1 ", "env -u FOO "),
        }[start]
        first = before + first
    lines = [first, *rest]
    if start == "nohup":
        lines[-1] += d.pick(" > server.log 2>&1 &", " &> server.log &", " &")
        lines.append(d.pick("wait", "wait $!", "PID=$!\nwait $PID"))
    elif start == "log":
        lines[-1] += d.pick(" > server.log 2>&1", " 2>/dev/null")
    elif start == "tee":
        lines[-1] += d.pick(" 2>&1 | tee server.log", " | tee -a server.log > /dev/null")
    elif start == "subshell":
        lines = [f"( {lines[0]}", *lines[1:]] if d.chance(0.5) else ["(", "cd . &&", *lines]
        lines[-1] += " )"
    elif start == "function":
        call = d.name("start_server")
        given = ' "$@"' if d.style == "set" else ""
        lines = [f"{call}() {{", *("  " + line for line in lines), "}", call + given]
    elif start == "in_if":
        lines = ["if true; then", *("  " + line for line in lines), "fi"]
    elif start == "here":
        opening = d.pick("bash <<EOF", "bash -s << EOF", "bash <<-END")
        lines = [opening, *lines, "END" if "END" in opening else "EOF"]
    elif start == "exported_all":
        lines = ["bash <<'EOF'", *lines, "EOF"]
    for line in lines:
        d.state.lines.extend(line.split("\n"))
    return start


def _continued(d: Draft, program: str, comments: bool) -> str:
    """A command over several lines, each going on with a backslash."""
    words = list(d.state.words)
    if any(f"${d.extra} " in line or f"{d.extra}+=" in line for line in d.state.lines):
        words.insert(d.rng.randint(0, len(words)), f"${d.extra}")
    if d.chance(0.4) and not comments:
        return f"{program} {' '.join(words)}"
    parts = [program]
    for word in words:
        if comments and d.chance(0.5):
            parts.append("  `# what follows is set for us`")
        parts.append(f"  {word}")
    return " \\\n".join(parts)
