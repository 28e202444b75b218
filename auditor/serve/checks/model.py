"""Model paths and folders that do not fit the flags beside them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from auditor.model import Evidence, Hit
from auditor.rulebook import Param, Parameter, Texts, of_shapes
from auditor.serve.checks.seen import ServeView
from auditor.serve.checks.setting import (
    AUTO,
    Model,
    Setting,
    basename,
    is_meant,
    listed,
    make_hit,
    shown,
    vocabulary,
)
from auditor.serve.checks.spellings import listed_words
from auditor.serve.checks.wire import seers
from auditor.serve.tables.facts import Encoder, ToolParser

Shape = Callable[[Setting, ServeView, Mapping[str, Param]], Iterator[Hit]]

_SPECIAL = re.compile(r"[<>\[\]|｜]")


def judge(params: Mapping[str, Param], view: ServeView) -> Iterator[Hit]:
    """The launches whose model shows one defect (``params: {shape: …}``)."""
    find = _SHAPES[str(params["shape"])]
    for setting in view.settings:
        yield from find(setting, view, params)


def _path_matcher(setting: Setting, view: ServeView, params: Mapping[str, Param]) -> Iterator[Hit]:
    row, model = setting.matcher, setting.launch.model
    if row is None or not model:
        return
    at = view.tables.path_matchers.index(row)
    # Real members of the family are named so.
    if setting.matched(basename(model))[at] is not None:
        return
    found = setting.matched(model)[at] or ""
    encoders = [e for e in view.tables.encoders if setting.holds(e)]
    encoders += [e for e in (setting.likely_encoder,) if e is not None]
    tool = setting.argument("tool_call_parser")
    lost = []
    if tool is not None and tool.value:
        lost.append(f"the tools that {tool.flag} {tool.value} waits for")
    if encoders:
        lost.append(f"the native encoder {encoders[0].spec}")
    effect = f", and passes by {listed(lost)}" if lost else ""
    yield make_hit(
        setting.model_argument,
        f"the path {model} holds {found!r}, by which this tree takes the model for another "
        f"family: it is served with the built-in template {row.template} in place of its own"
        f"{effect}",
        f"rename the folder, link the model under a path without {found!r}, or give "
        "--chat-template the model's own template",
        [Evidence(row.path, row.line, "", f"{row.template} for paths that match {row.pattern!r}")],
        cause=f"path matcher {row.template}",
    )


def _architecture(setting: Setting, view: ServeView, params: Mapping[str, Param]) -> Iterator[Hit]:
    argument, tool, model = setting.argument("tool_call_parser"), setting.tool, setting.model
    if argument is None or tool is None or model is None or model.architecture is None:
        return
    config = posixpath.join(model.folder.path, "config.json")
    is_a = Evidence(config, 1, "", f"the architecture is {model.architecture}")
    chosen = next((row for row in view.tables.encoders if _chooses(row, setting)), None)
    own = Evidence(tool.path, tool.line, tool.class_name, f"{tool.name} is a parser here")
    if chosen is not None and tool.name not in _parsers_of(chosen, view):
        meant = _parsers_of(chosen, view)
        rows = [row for row in view.tables.tool_parsers if row.name in meant]
        if not rows or _share(tool, rows):
            return
        where = Evidence(chosen.path, chosen.line, "", f"{chosen.spec} if {chosen.condition}")
        yield make_hit(
            argument,
            f"the model is a {model.architecture}, which this tree encodes natively "
            f"({chosen.spec}) and so lets call tools with {shown(rows[0].starts[0])}; "
            f"{tool.name} waits for {shown(tool.starts[0] if tool.starts else 'other texts')}",
            f"use {argument.flag} {listed(meant, 'or')}",
            [is_a, where, own],
            cause="architecture",
        )
        return
    forced = next((row for row in view.tables.encoders if tool.name in row.parsers), None)
    if forced is None or chosen is not None:
        return
    same = [row for row in view.tables.encoders if row.spec == forced.spec and _names_model(row)]
    if not same or any(_fits(row, model) is not False for row in same):
        return
    where = Evidence(forced.path, forced.line, "", f"{forced.spec} if {forced.condition}")
    yield make_hit(
        argument,
        f"{argument.flag} {tool.name} forces the native encoder {forced.spec} onto a "
        f"{model.architecture}, which was not taught its format",
        "use the parser of the model's own format",
        [is_a, where, own],
        cause="architecture",
    )


def _names_model(row: Encoder) -> bool:
    return bool(row.architectures or row.model_types)


def _fits(row: Encoder, model: Model) -> bool | None:
    """Whether a row's model terms hold, whatever the template; None where one is not known."""
    terms: list[bool | None] = []
    if row.architectures:
        name = model.architecture
        terms.append(None if name is None else any(part in name for part in row.architectures))
    if row.model_types:
        kind = model.model_type
        terms.append(None if kind is None else kind in row.model_types)
    return False if False in terms else None if None in terms else True


def _chooses(row: Encoder, setting: Setting) -> bool:
    return _names_model(row) and not row.parsers and setting.holds(row) is True


def _parsers_of(row: Encoder, view: ServeView) -> tuple[str, ...]:
    """The parsers of an encoder's format: those that choose it, else those of its version."""
    same = (other for other in view.tables.encoders if other.spec == row.spec)
    names = {name for other in same for name in other.parsers}
    names = names or {tool.name for tool in view.tables.tool_parsers if is_meant(tool, row)}
    return tuple(sorted(names))


def _share(tool: ToolParser, rows: list[ToolParser]) -> bool:
    """Whether a parser reads one of the start markers of others, or says none of its own."""
    return not tool.starts or any(set(tool.starts) & set(row.starts) for row in rows)


def _quantization(setting: Setting, view: ServeView, params: Mapping[str, Param]) -> Iterator[Hit]:
    argument, model = setting.argument("quantization"), setting.model
    value = setting.value("quantization")
    if argument is None or model is None or value is None:
        return
    name, method = _method(model)
    asked, has = _kinds(value, params), _kinds(method, params)
    where = posixpath.join(model.folder.path, name or "config.json")
    offline = listed_words(params, "offline")
    if method and asked and has and not asked & has:
        message = f"{argument.flag} {value}: the checkpoint says that it is {method}"
        fix = f"take {argument.flag} out, or give the one that fits {method}"
        note = f"the quantization is {method}"
    elif not method and model.config is not None and value in offline:
        message = (
            f"{argument.flag} {value} needs a checkpoint that was quantized so, but this one says "
            "nothing of a quantization"
        )
        near = [n for n in _near(model) if _kinds(n, params) & asked]
        fix = f"take {argument.flag} out"
        if near:
            message += f"; {listed(near)} stands beside it"
            fix = f"start {near[0]}, or take {argument.flag} out"
        note = "no quantization_config in it"
    else:
        return
    yield make_hit(
        argument, message, fix, [Evidence(where, 1, "", note)], cause=f"quantization {value}"
    )


def _method(model: Model) -> tuple[str, str]:
    """The file that tells a checkpoint's quantization and what it says, empty where none does."""
    found = model.json("hf_quant_config.json")
    inner = found.get("quantization") if isinstance(found, dict) else None
    if isinstance(inner, dict):
        return "hf_quant_config.json", str(inner.get("quant_algo") or "")[:60]
    config: Any = (model.config or {}).get("quantization_config")
    if isinstance(config, dict):
        said = (config.get("quant_algo"), config.get("quant_method"))
        return "config.json", " ".join(str(word) for word in said if word)[:60]
    return "", ""


def _kinds(text: str, params: Mapping[str, Param]) -> set[str]:
    """The kinds of number formats that a text names (``params.kinds``), all where it is mixed."""
    kinds = listed_words(params, "kinds")
    low = text.lower()
    if any(word in low for word in listed_words(params, "mixed")):
        return set(kinds)
    return {kind for kind in kinds if kind in low}


def _near(model: Model) -> list[str]:
    """The folders beside a model whose names begin with its own."""
    own = posixpath.basename(model.folder.path.rstrip("/"))
    return [n for n in model.folder.beside if own and n.startswith((f"{own}-", f"{own}_"))]


def _near_name(setting: Setting, view: ServeView, params: Mapping[str, Param]) -> Iterator[Hit]:
    model = setting.model
    near = [n for n in _near(model) if _kinds(n, params)] if model else []
    if model is None or not near:
        return
    _, method = _method(model)
    said = f"this one is {method}" if method else "this one is not quantized"
    config = posixpath.join(model.folder.path, "config.json")
    yield make_hit(
        setting.model_argument,
        f"beside {basename(setting.launch.model or '')} stands {listed(near)}: {said}; make sure "
        "that it is the one you mean",
        "name the folder that you mean",
        [Evidence(config, 1, "", said)],
        confidence="medium",
        cause="near name",
    )


def _vocabulary(setting: Setting, view: ServeView, params: Mapping[str, Param]) -> Iterator[Hit]:
    argument, tool, model = setting.argument("tool_call_parser"), setting.tool, setting.model
    if argument is None or tool is None or model is None or tool.run_time or not tool.starts:
        return
    words, files = vocabulary(model)
    if not words or any(_covered(start.strip(), words) for start in tool.starts):
        return
    template = setting.template
    if template is not None and any(s.strip() in template.facts.call for s in tool.starts):
        return
    others = [
        row
        for row in view.tables.tool_parsers
        if row.ends and any(start.strip() in words for start in row.starts)
    ]
    names = sorted({row.deprecated_for or row.name for row in others})
    scope = listed([posixpath.join(model.folder.path, name) for name in files])
    also = f"; it does hold the start marker of {listed(names, 'or')}" if names else ""
    yield make_hit(
        argument,
        f"{argument.flag} {tool.name} waits for {shown(tool.starts[0])}, but neither it nor a "
        f"special token inside it is in the tokenizer's vocabulary (searched: {scope}, "
        f"{len(words)} entries){also}",
        f"use {argument.flag} {listed(names, 'or')}" if names else "compare the model's page",
        [
            Evidence(posixpath.join(model.folder.path, files[0]), 1, "", "the vocabulary"),
            Evidence(tool.path, tool.line, tool.class_name, f"{tool.name} is a parser here"),
        ],
        confidence="medium" if names else "low",
        cause="vocabulary",
    )


def _covered(marker: str, words: frozenset[str]) -> bool:
    """Whether a marker is an entry, or is written around one (``｜DSML｜`` in a longer tag)."""
    if marker in words:
        return True
    longest = range(len(marker), 3, -1)
    parts = (marker[i : i + size] for size in longest for i in range(len(marker) - size + 1))
    return any(part in words and _SPECIAL.search(part) for part in parts)


def _parser_missing(
    setting: Setting, view: ServeView, params: Mapping[str, Param]
) -> Iterator[Hit]:
    argument, template = setting.argument("reasoning_parser"), setting.template
    if argument is None or setting.arguments("tool_call_parser") or template is None:
        return
    if argument.value == AUTO or not template.facts.shapes or not template.facts.call:
        return
    names = seers(template.facts, view.wire)
    if not names:
        return
    yield make_hit(
        argument,
        f"{template.path} writes tools and their calls, but the launch has no --tool-call-parser: "
        "calls come back as plain text",
        f"add --tool-call-parser {listed(names, 'or')}, if clients send tools",
        [Evidence(template.path, template.line_of("tool_calls"), "", "writes calls")],
        confidence="medium",
        cause="no tool parser",
    )


_SHAPES: dict[str, Shape] = {
    "path-matcher": _path_matcher,
    "architecture": _architecture,
    "quantization": _quantization,
    "near-name": _near_name,
    "vocabulary": _vocabulary,
    "parser-missing": _parser_missing,
}

PARAMETERS = of_shapes(
    _SHAPES,
    kinds=Parameter(Texts, required=True, shapes=("quantization", "near-name")),
    mixed=Parameter(Texts, shapes=("quantization", "near-name")),
    offline=Parameter(Texts, shapes=("quantization",)),
)
