"""Finds what a launch passes beside all flags, and flags that it must pass and does not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from auditor.model import Argument, Evidence, Hit, Launch
from auditor.rulebook import Param, of_shapes
from auditor.serve.checks.argv import DASHES, END, Dealt, Stray, deal
from auditor.serve.checks.seen import ServeView
from auditor.serve.checks.spellings import (
    SAID,
    Meaning,
    Scene,
    Use,
    declared,
    hit,
    is_call,
    once,
)
from auditor.serve.tables.facts import Flag

# A command that names the program; where only its arguments are known, an image may add others.
_PROGRAM = re.compile(r"python -m |sglang serve$|(?:.*/)?launch_server\.py$")
# Lists in Python may get more words before they run, or be joined to a text that a shell splits;
# what starts an image replaces the words of its Dockerfile.
_WHOLE = frozenset({"shell", "systemd", "makefile", "yaml"})
_SHOWN = 80


def judge(params: Mapping[str, Param], view: ServeView) -> Iterator[Hit]:
    """The words of one shape (``params: {shape: …}``); nothing where no flags are known."""
    find = _SHAPES[str(params["shape"])]
    scene = Scene.of(params, view)
    if scene.spellings:
        yield from once(find(scene))


def _dealt(scene: Scene) -> Iterator[tuple[Launch, Dealt]]:
    """The launches that are a command line of the tree's own."""
    for launch in scene.view.launches:
        if launch.program == "server" and launch.form != "recipe" and not is_call(launch):
            yield launch, deal(launch, scene.spellings)


def _stray(scene: Scene) -> Iterator[Hit]:
    """A word that no flag takes."""
    for launch, dealt in _dealt(scene):
        for stray in dealt.strays:
            text, flag = stray.word.text, stray.flag
            if flag is not None and not flag.takes_value and text.lower() in SAID:
                continue  # a switch with a value
            blank = text.startswith("-") and " " in text
            if blank and launch.form == "python":
                continue  # such a list is often joined before it runs
            message, fix = _told(stray, scene)
            model = scene.spellings.field("model_path") or scene.view.tables.flags[0]
            note = f"of the tree's {len(scene.spellings)} flags none takes it"
            evidence = declared(flag or model, note)
            yield _hit(launch, stray, message, evidence, fix)


def _told(stray: Stray, scene: Scene) -> tuple[str, str]:
    """What is wrong with a word, and what to write."""
    text = stray.word.text
    ends = "the server ends with 'unrecognized arguments'"
    shown = repr(stray.text if len(stray.text) <= _SHOWN else stray.text[:_SHOWN] + "…")
    if text == END:
        return f"behind '--' no flag is read, and the server takes nothing else: {ends}", (
            "take '--' out"
        )
    if text.isspace():
        message = f"a blank is a word of the command line, as behind a backslash: {ends}"
        return message, "take the blank behind the backslash out, so that the line goes on"
    if text[0] in DASHES:
        plain = "--" + text.lstrip(DASHES + "-")
        known = scene.spellings.of(plain.partition("=")[0]).flags
        message = f"{shown} begins with a typographic dash ({text[0]}), which makes it no flag: "
        return message + ends, f"write {plain}" if known else "write hyphens"
    if text.startswith("-") and " " in text:
        name, _, value = text.partition(" ")
        message = f"{shown} is one word, and no flag has a blank in its name: {ends}"
        return message, f"write {name} and {value.strip()} as two words, or {name}={value.strip()}"
    if not stray.after:
        return f"{shown} belongs to no flag: {ends}", "take it out, or write the flag it is for"
    takes = _takes(stray.flag)
    message = f"{shown} belongs to no flag, since {stray.after} {takes}: {ends}"
    return message, "take it out, or write the flag it is for"


def _takes(flag: Flag | None) -> str:
    if flag is None or not flag.takes_value:
        return "takes no value"
    return "takes one value" if not flag.nargs.isdigit() else f"takes {flag.nargs} values"


def _hit(launch: Launch, stray: Stray, message: str, evidence: Evidence, fix: str) -> Hit:
    word = stray.word
    argument = Argument(word.text, None, word.path, word.line, word.column)
    use = Use(launch, argument, Meaning(word.text, (), (), False))
    return hit(use, stray.text, message, (evidence,), fix, f"stray:{stray.text}")


def _missing(scene: Scene) -> Iterator[Hit]:
    """A flag without which argparse ends."""
    required = [flag for flag in scene.view.tables.flags if flag.required]
    for launch, dealt in _dealt(scene):
        whole = launch.form in _WHOLE and _PROGRAM.match(launch.command)
        if not whole or not launch.words or dealt.free:
            continue
        meant = [scene.spellings.of(a.flag) for a in launch.arguments]
        if any(meaning.text == "--config" for meaning in meant):
            continue  # its file may hold them
        given = {flag.dest for meaning in meant for flag in meaning.flags}
        unknown = [meaning.text for meaning in meant if not meaning.flags]
        given |= {near.dest for text in unknown if (near := _near(text, scene)) is not None}
        for flag in required:
            if flag.dest not in given:
                yield _absent(launch, flag)


def _near(text: str, scene: Scene) -> Flag | None:
    near = scene.spellings.nearest(text)
    return scene.spellings.of(near).flag if near else None


def _absent(launch: Launch, flag: Flag) -> Hit:
    name = flag.names[0]
    message = f"{name} is missing: the server ends with 'the following arguments are required'"
    argument = Argument(name, None, launch.path, launch.line)
    use = Use(launch, argument, Meaning(name, (flag,), (name,), True))
    evidence = declared(flag, f"declares {name} as required")
    return hit(use, name, message, (evidence,), f"give {name}", f"missing:{flag.dest}")


_SHAPES: dict[str, Callable[[Scene], Iterator[Hit]]] = {"stray": _stray, "missing": _missing}

PARAMETERS = of_shapes(_SHAPES)
