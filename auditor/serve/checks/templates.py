"""Which template a launch in fact uses: one that is ignored, missing, or not what it seems."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping

from auditor.model import Argument, Evidence, Hit
from auditor.rulebook import Param, of_shapes
from auditor.serve.checks import wire
from auditor.serve.checks.renderings import starts, verdict_of
from auditor.serve.checks.seen import ServeView
from auditor.serve.checks.setting import (
    AUTO,
    Setting,
    basename,
    is_meant,
    listed,
    make_hit,
    plain,
    shown,
)
from auditor.serve.scripts.places import TEMPLATES_OF_TREE
from auditor.serve.tables.facts import Encoder

_LOADED = (".jinja", ".json")
_NATIVE = "native encoder"

Shape = Callable[[Setting, ServeView], Iterator[Hit]]


def judge(params: Mapping[str, Param], view: ServeView) -> Iterator[Hit]:
    """The launches whose template shows one defect (``params: {shape: …}``)."""
    find = _SHAPES[str(params["shape"])]
    for setting in view.settings:
        yield from find(setting, view)


def _never_rendered(setting: Setting, view: ServeView) -> Iterator[Hit]:
    argument = setting.argument("chat_template")
    if argument is None or not argument.resolved or setting.conversation is not None:
        return
    encoder, likely = setting.encoder, setting.likely_encoder
    row = encoder or likely
    if row is None or not (argument.value or "").endswith(".jinja"):
        return
    tool = setting.tool
    if encoder is not None and tool is not None and tool.name in encoder.parsers:
        cause = f"--tool-call-parser {tool.name} chooses the native encoder {row.spec}"
    elif encoder is not None:
        cause = f"the model's architecture chooses the native encoder {row.spec}"
    else:
        cause = f"a model of that name and parser is encoded natively ({row.spec})"
    message = (
        f"{argument.flag} {argument.value} is loaded and never rendered: {cause}, so prompts do "
        "not depend on it. It misleads, and it acts alike on every request: it is not the cause "
        "of a leak that appears only under load"
    )
    evidence = [Evidence(row.path, row.line, "", f"{row.spec} if {row.condition}")]
    place = setting.template_place
    if place is not None and place.state == "missing":
        message += " (no such file was found here: where it is missing the server does not start)"
    turned, more = _under_auto(setting, view, row)
    searched, where = _search_note(setting, view)
    extra = [part for part in (turned, searched) if part]
    yield make_hit(
        argument,
        ". ".join([message, *extra]),
        f"take {argument.flag} out; the encoder {row.spec} writes the prompt",
        [*evidence, *more, *where],
        confidence="high" if encoder is not None else "medium",
        cause=_NATIVE,
        with_=(setting.argument("tool_call_parser"),),
    )


def _under_auto(setting: Setting, view: ServeView, row: Encoder) -> tuple[str, list[Evidence]]:
    """What would become of an ignored template if the parser were chosen by it."""
    tool, template = setting.tool, setting.template
    if not view.tables.auto_rules or tool is None:
        return "", []
    lead = "It turns into a real break under --tool-call-parser auto, which goes by this file"
    if template is None:
        return f"{lead} (not found here) and no longer by the name {tool.name}", []
    choice = wire.pick(view.tables.auto_rules, "tool", template.text)
    picked = choice.rule
    if picked is None:
        may = sorted({rule.parser for rule in choice.open})
        if tool.name in may:
            return "", []
        rest = f" (those that also look at more may pick {listed(may, 'or')})" if may else ""
        return f"{lead}: no rule of the tree picks {tool.name} for it{rest}", []
    taken = next((p for p in view.tables.tool_parsers if p.name == picked.parser), None)
    if taken is None or taken.name == tool.name:
        return "", []
    thinking = wire.pick(view.tables.auto_rules, "reasoning", template.text).rule
    also = f" and the reasoning parser {thinking.parser}" if thinking else ""
    note = (
        f"{lead}: it would pick {taken.name}{also}, and with it calls of the model, which was "
        f"taught {starts(tool)}, are looked for at {starts(taken)}"
    )
    line = Evidence(picked.path, picked.line, "", f"auto takes {taken.name} for this template")
    return note, [line]


def _search_note(setting: Setting, view: ServeView) -> tuple[str, list[Evidence]]:
    """Why the markers of a natively encoded parser are not found by searching the files."""
    tool, template = setting.tool, setting.template
    if tool is None or not tool.starts:
        return "", []
    marker = tool.starts[0]
    whole = marker in (view.source(tool.class_path) or "")
    where = "no template writes them"
    if template is not None and marker not in template.text:
        where = "this template does not hold them"
    built = (
        f"only {tool.class_name} spells them out"
        if whole
        else f"{tool.class_name} builds them from parts (class attributes and constants)"
    )
    note = (
        f"A text search for {shown(marker)} in the template or the model's files finds nothing: "
        f"{where}, {built}, the encoder puts them together at run time and the tokenizer knows "
        "only pieces"
    )
    bars = sorted({c for c in marker if ord(c) > 127})
    if bars:
        named = ", ".join(f"`{c}` is U+{ord(c):04X}" for c in bars)
        note += f"; {named}, not ASCII"
    seen = "spells" if whole else "builds"
    line = Evidence(tool.path, tool.line, tool.class_name, f"{tool.class_name} {seen} the markers")
    return note, [line]


def _disables_encoder(setting: Setting, view: ServeView) -> Iterator[Hit]:
    """An explicit template, in a tree whose only way to the encoder is to have none."""
    argument, tool = setting.argument("chat_template"), setting.tool
    if argument is None or tool is None or not argument.resolved or setting.encoder is not None:
        return
    if any(tool.name in row.parsers for row in view.tables.encoders):
        return
    for row in view.tables.encoders:
        if not row.without_template or not is_meant(tool, row):
            continue
        architecture = setting.model.architecture if setting.model else None
        if architecture and not any(part in architecture for part in row.architectures):
            continue
        template = setting.template
        verdict = verdict_of(tool, template, view) if template is not None else None
        if verdict is not None and verdict.kind == "seen":
            continue
        known = " (the model's architecture is not known here, the parser tells the intent)"
        yield make_hit(
            argument,
            f"{argument.flag} {argument.value} switches the native encoder {row.spec} off: this "
            f"tree uses it only where no template is given, and --tool-call-parser {tool.name} "
            f"reads what it makes the model write{'' if architecture else known}. Tool calls come "
            "back as plain text",
            f"take {argument.flag} out",
            [
                Evidence(row.path, row.line, "", f"{row.spec} if {row.condition}"),
                Evidence(tool.path, tool.line, tool.class_name, f"expects {starts(tool)}"),
            ],
            confidence="high" if architecture or verdict is not None else "medium",
            cause=_NATIVE,
            with_=(setting.argument("tool_call_parser"),),
        )
        return


def _conversation(setting: Setting, view: ServeView) -> Iterator[Hit]:
    argument = setting.argument("chat_template")
    if argument is None or not argument.resolved:
        return
    row = setting.conversation
    place = setting.template_place
    from_file = place is not None and place.state == "found" and place.path.endswith(".json")
    if row is None and not from_file:
        return
    what = f"{argument.flag} {argument.value}"
    evidence = []
    if row is not None:
        what += " is a built-in conversation template"
        evidence.append(Evidence(row.path, row.line, "", f"{row.name} is registered here"))
    else:
        what += " is a conversation template in JSON"
        evidence.append(Evidence(place.path if place else "", 1, "", "the template"))
    tool = setting.argument("tool_call_parser")
    encoders = [e for e in view.tables.encoders if _without_name(setting, e)]
    if tool is not None and tool.value:
        evidence += [
            Evidence(t.path, t.line, t.class_name, "the tool parser, which sees no call")
            for t in [setting.tool]
            if t is not None
        ]
        also = f" and the native encoder {encoders[0].spec} is passed by" if encoders else ""
        yield make_hit(
            argument,
            f"{what}: it is never given the tools of a request{also}, so that "
            f"{tool.flag} {tool.value} waits for calls that the model does not know of",
            f"take {argument.flag} out, or give a Jinja template that writes the tools",
            evidence,
            cause="conversation template",
            with_=(tool,),
        )
    elif encoders:
        encoder = encoders[0]
        evidence.append(Evidence(encoder.path, encoder.line, "", f"if {encoder.condition}"))
        yield make_hit(
            argument,
            f"{what}, which passes the native encoder {encoder.spec} by: the model gets prompts of "
            "a format that it was not taught",
            f"take {argument.flag} out",
            evidence,
            cause="conversation template",
        )


def _without_name(setting: Setting, row: Encoder) -> bool:
    return setting.holds(row) is True or row is setting.likely_encoder


def _missing(setting: Setting, view: ServeView) -> Iterator[Hit]:
    argument, place = setting.argument("chat_template"), setting.template_place
    if argument is None or place is None or not argument.value:
        return
    names = [row.name for row in view.tables.conversation_templates]
    ignored = setting.encoder is not None or setting.likely_encoder is not None
    if not names or (ignored and argument.value.endswith(".jinja")):
        # An ignored template is reported as such; without the names nothing can be said.
        return
    value = argument.value
    if place.state == "found":
        if not place.path.endswith(_LOADED):
            yield make_hit(
                argument,
                f"{argument.flag} {value}: the server loads templates from files that end in "
                f"{listed(_LOADED, 'or')} only, and ends at this one",
                "rename the file",
                [Evidence(place.path, 1, "", "the file")],
            )
        return
    if place.state != "missing":
        return
    near = difflib.get_close_matches(value, names, n=2, cutoff=0.6)
    as_name = "/" not in value and not value.endswith(_LOADED)
    first = min(view.tables.conversation_templates, key=lambda row: (row.path, row.line))
    evidence = [Evidence(first.path, first.line, "", f"{len(names)} built-in names begin here")]
    if as_name:
        message = f"{argument.flag} {value} is neither a built-in template of this tree nor a file"
        fix = f"use {listed(near, 'or')}" if near else "give a built-in name or a file"
    else:
        message = (
            f"{argument.flag} {value}: there is no such file ({place.why}), nor is it a built-in "
            "name; the server ends when it loads the template"
        )
        fix = "give a path that holds in the folder or container where the server runs"
    yield make_hit(
        argument, message, fix, evidence, confidence="high" if as_name else "medium", cause=value
    )


def _of_tree(setting: Setting, view: ServeView) -> Iterator[Hit]:
    """A model without a template for which, by its name, the tree ships one.

    Templates for tools are left out: models bring these themselves, the tree's are other versions.
    """
    model = setting.launch.model
    if not model or setting.arguments("chat_template") or setting.encoder is not None:
        return
    if setting.template is not None:
        return
    for path in sorted(view.places.names):
        folder, _, name = path.rpartition("/")
        stem = name.removesuffix(".jinja")
        if folder != TEMPLATES_OF_TREE or stem == name or "template" in stem:
            continue
        if not plain(basename(model)).startswith(plain(stem)):
            continue
        yield make_hit(
            setting.model_argument,
            f"the tree ships a template for models of this name, {path}, and the launch gives "
            "none: where the checkpoint has no template of its own, prompts are of another format",
            f"add --chat-template {path}, or make sure that the checkpoint has its own",
            [Evidence(path, 1, "", "the template")],
            confidence="medium",
            cause=path,
        )


def _auto(setting: Setting, view: ServeView) -> Iterator[Hit]:
    argument = setting.argument("tool_call_parser")
    if argument is None or argument.value != AUTO or not view.tables.auto_rules:
        return
    template = setting.template
    if template is None or setting.encoder is not None or not template.facts.call:
        return
    picked = wire.pick(view.tables.auto_rules, "tool", template.text)
    call = template.facts.call
    seers = wire.seers(template.facts, view.wire)
    fix = f"name the parser: {listed(seers, 'or')}" if seers else "name the parser"
    written = shown(wire.opening(call).strip())
    line = Evidence(template.path, 1, "", f"writes a call as {written}")
    if picked.rule is None:
        yield from _auto_nothing(setting, view, argument, picked, line, fix)
        return
    rows = {row.name: row for row in view.tables.tool_parsers}
    row = rows.get(picked.rule.parser)
    if row is None or row.run_time or not row.starts:
        return
    verdict = verdict_of(row, template, view)
    if verdict.kind not in wire.FAULTS:
        return
    why = f"expects {starts(row)}"
    if verdict.kind == "misread":
        why = f"does not find the tool's name by its patterns, as {verdict.detail} does,"
    yield make_hit(
        argument,
        f"{argument.flag} auto picks {row.name} by the text of {template.path}, but it {why} and "
        f"the template writes a call as {written}",
        fix,
        [
            Evidence(picked.rule.path, picked.rule.line, "", f"the rule that picks {row.name}"),
            line,
        ],
        confidence="medium",
        with_=(setting.argument("chat_template"),),
        cause="auto",
    )


def _auto_nothing(
    setting: Setting,
    view: ServeView,
    argument: Argument,
    picked: wire.Pick,
    line: Evidence,
    fix: str,
) -> Iterator[Hit]:
    """No rule fits: sure only where those that look at more cannot fit either."""
    template = setting.template
    if template is None or template.facts.toggle or "think>" in template.text:
        return
    # A rule with a text that does stand in the template needs only the rest to fit.
    if any(rule.contains or rule.any_of for rule in picked.open):
        return
    first = min(view.tables.auto_rules, key=lambda rule: (rule.path, rule.line))
    yield make_hit(
        argument,
        f"{argument.flag} auto finds no parser by the text of {template.path}: none of the tree's "
        "rules fits it, so that tool calls are switched off with a warning (the tokenizer's "
        "vocabulary could still decide)",
        fix,
        [Evidence(first.path, first.line, "", "the rules of auto begin here"), line],
        confidence="medium",
        with_=(setting.argument("chat_template"),),
        cause="auto",
    )


_SHAPES: dict[str, Shape] = {
    "never-rendered": _never_rendered,
    "disables-encoder": _disables_encoder,
    "conversation": _conversation,
    "missing": _missing,
    "of-tree": _of_tree,
    "auto": _auto,
}

PARAMETERS = of_shapes(_SHAPES)
