"""Finds settings of a ``--config`` file that never reach the server, or end it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from auditor.model import Argument, Evidence, Hit
from auditor.rulebook import Param, of_shapes
from auditor.serve.checks.seen import ServeView
from auditor.serve.checks.spellings import (
    Spellings,
    declared,
    from_config,
    meaning,
    named_configs,
    once,
    place,
    reach,
)
from auditor.serve.tables.facts import Flag


def judge(params: Mapping[str, Param], view: ServeView) -> Iterator[Hit]:
    """Configuration files of one shape (``params: {shape: …}``), where the tree has them."""
    find = _SHAPES[str(params["shape"])]
    spellings = Spellings(view.tables.flags)
    config = spellings.of("--config")
    if config.exact and config.flag is not None:
        yield from once(find(view, spellings, config.flag))


def _unmerged(view: ServeView, spellings: Spellings, config: Flag) -> Iterator[Hit]:
    """One word, which the tree does not look for: it asks whether ``--config`` is among them."""
    del spellings
    for launch in view.launches:
        if launch.program != "server":
            continue
        for argument in named_configs(launch):
            if not argument.joined:
                continue
            text = f"{argument.flag}={argument.value}"
            message = f"{text} is never merged: the server looks for --config as a word of its own,"
            message += " accepts this one and starts without the file's settings"
            evidence = (declared(config, "declares --config"),)
            fix = f"write --config {argument.value}"
            yield _hit(argument, text, message, evidence, fix)


def _no_model(view: ServeView, spellings: Spellings, config: Flag) -> Iterator[Hit]:
    """``sglang serve`` asks for the model path before it reads the file."""
    for launch in view.launches:
        if launch.program != "server" or not launch.command.endswith(" serve"):
            continue
        named = list(named_configs(launch))
        if not named or launch.unresolved:
            continue
        on_the_line = [a for a in launch.arguments if not from_config(launch, a)]
        model = spellings.field("model_path")
        if any(meaning(launch, a, spellings).flag is model for a in on_the_line):
            continue
        if launch.model is not None and not any(from_config(launch, a) for a in launch.arguments):
            continue
        where = named[0]
        message = f"{launch.command} wants the model path on the command line before it reads "
        message += f"{where.value or 'the file'}, and ends without one"
        evidence = [declared(config, "declares --config")]
        if model is not None:
            evidence.append(declared(model, f"declares {model.names[0]}"))
        fix = "name the model on the command line, or start python -m sglang.launch_server"
        yield _hit(where, launch.command, message, tuple(evidence), fix)


def _unsupported(view: ServeView, spellings: Spellings, config: Flag) -> Iterator[Hit]:
    """Keys whose flags are neither a switch nor take a value: the merger ends at them."""
    for launch in view.launches:
        if launch.program != "server":
            continue
        for argument in launch.arguments:
            flag = meaning(launch, argument, spellings).flag
            if flag is None or not flag.negation or not from_config(launch, argument):
                continue
            message = f"{argument.flag} cannot stand in a --config file: it is switched by "
            message += f"{flag.names[0]} and {flag.negation[0]}, which the merger does not support"
            evidence = (
                declared(flag, f"declares {flag.names[0]} with {flag.negation[0]}"),
                declared(config, "declares --config"),
            )
            fix = f"write {flag.names[0]} or {flag.negation[0]} on the command line"
            yield _hit(argument, argument.flag, message, evidence, fix)


def _hit(
    argument: Argument, anchor: str, message: str, evidence: tuple[Evidence, ...], fix: str
) -> Hit:
    reached, why = reach(argument.conditional)
    where = place(argument.path, argument.line, argument.column)
    return Hit(where, anchor, message, evidence, "high", reached, why, fix, f"config:{anchor}")


_SHAPES: dict[str, Callable[[ServeView, Spellings, Flag], Iterator[Hit]]] = {
    "unmerged": _unmerged,
    "no-model": _no_model,
    "unsupported": _unsupported,
}

PARAMETERS = of_shapes(_SHAPES)
