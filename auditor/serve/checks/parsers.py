"""Parsers that the tree does not have, that do not belong together or that expect to think."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping

from auditor.model import Argument, Evidence, Hit, Rewrite
from auditor.rulebook import Param, of_shapes
from auditor.serve.checks.renderings import starts
from auditor.serve.checks.seen import ServeView
from auditor.serve.checks.setting import AUTO, Setting, Template, listed, make_hit, plain, shown
from auditor.serve.tables.facts import ReasoningParser, Tables, ToolParser

_KINDS = {"tool_call_parser": "tool-call", "reasoning_parser": "reasoning"}
_FAMILY = re.compile(r"[a-z]+?(?=v?\d|[-_]|$)")
_NEAREST = 3

Row = ToolParser | ReasoningParser


def judge(params: Mapping[str, Param], view: ServeView) -> Iterator[Hit]:
    """The launches whose parsers show one defect (``params: {shape: …}``)."""
    find = _SHAPES[str(params["shape"])]
    for setting in view.settings:
        yield from find(setting, view)


def rows(tables: Tables, dest: str) -> tuple[Row, ...]:
    """The parsers of a tree for one of the two flags."""
    return tables.tool_parsers if dest == "tool_call_parser" else tables.reasoning_parsers


def _unknown(setting: Setting, view: ServeView) -> Iterator[Hit]:
    for dest, kind in _KINDS.items():
        table = rows(view.tables, dest)
        known = {row.name for row in table}
        if not known:
            continue
        for argument in setting.arguments(dest):
            name = argument.value
            if not name or not argument.resolved or name in known:
                continue
            if name == AUTO and _has_auto(view.tables):
                continue
            yield _unknown_hit(setting, view, argument, dest, kind)


def _has_auto(tables: Tables) -> bool:
    return bool(tables.auto_rules) or any(AUTO in names for names in tables.cli_choices.values())


def _unknown_hit(
    setting: Setting, view: ServeView, argument: Argument, dest: str, kind: str
) -> Hit:
    name = argument.value or ""
    table = rows(view.tables, dest)
    near = _nearest(name, table)
    elsewhere = [
        (other, row)
        for other in view.others
        for row in rows(other.tables, dest)
        if row.name == name
    ]
    other_dest = next(d for d in _KINDS if d != dest)
    swapped = [row for row in rows(view.tables, other_dest) if row.name == name]
    message = f"{argument.flag} {name}: this tree has no {kind} parser of that name"
    if name == AUTO:
        message = f"{argument.flag} auto: this tree cannot choose a {kind} parser by itself yet"
    message += ", so the server ends at its command line"
    if elsewhere:
        refs = listed([f"{other.side} {other.ref}" for other, _ in elsewhere])
        message += f"; it exists in {refs}"
    if swapped:
        message += f"; it is the name of a {_KINDS[other_dest]} parser"
    places = sorted({(row.path, row.line) for row in table})
    evidence = [
        Evidence(places[0][0], places[0][1], "", f"the {kind} parsers begin here: {len(table)}")
    ]
    for row in near:
        evidence.append(Evidence(row.path, row.line, row.class_name, f"{row.name} is a name here"))
    for other, row in elsewhere:
        note = f"{name} is a name in {other.ref}"
        evidence.append(Evidence(row.path, row.line, row.class_name, note, other.side))
    fix = "take the flag out"
    if near:
        fix = f"use {listed([row.name for row in near], 'or')}, by what the model writes"
    if elsewhere:
        fix += f", or bring the parser of {elsewhere[0][0].ref} into the fork"
    return make_hit(argument, message, fix, evidence, cause=f"{kind} parser {name}")


def _nearest(name: str, table: tuple[Row, ...]) -> list[Row]:
    """The most alike names, then parsers whose documentation speaks of the name."""
    by_name = {row.name: row for row in table}
    alike = difflib.get_close_matches(name.lower(), by_name, n=_NEAREST, cutoff=0.6)
    told = [row for row in table if len(plain(name)) > 3 and plain(name) in plain(row.about)]
    found = {row.name: row for row in [*(by_name[n] for n in alike), *told]}
    return list(found.values())[: _NEAREST + 1]


def _deprecated(setting: Setting, view: ServeView) -> Iterator[Hit]:
    for argument in setting.arguments("tool_call_parser"):
        for row in view.tables.tool_parsers:
            if argument.resolved and row.name == argument.value and row.deprecated_for:
                yield make_hit(
                    argument,
                    f"{argument.flag} {row.name} is an old name of {row.deprecated_for}: it still "
                    "works, with a warning, until it is dropped",
                    f"write {argument.flag} {row.deprecated_for}",
                    [Evidence(row.path, row.line, row.class_name, "the old name")],
                    rewrite=_renamed(row, view.tables),
                )


def _renamed(row: ToolParser, tables: Tables) -> Rewrite:
    """The new name of a parser; the same where both names make one class."""
    new = row.deprecated_for
    same = any(r.name == new and r.class_name == row.class_name for r in tables.tool_parsers)
    return Rewrite(row.name, new, same, value=True)


def _families(setting: Setting, view: ServeView) -> Iterator[Hit]:
    argument = setting.argument("reasoning_parser")
    tool, reasoning = setting.tool, setting.reasoning
    if argument is None or tool is None or reasoning is None:
        return
    if _families_of(tool, view.tables.tool_parsers) & _families_of(
        reasoning, view.tables.reasoning_parsers
    ):
        return
    reason = _disagreement(tool, reasoning, view.tables)
    if reason is None:
        return
    message, extra = reason
    evidence = [
        Evidence(reasoning.path, reasoning.line, reasoning.class_name, "the reasoning parser"),
        Evidence(tool.path, tool.line, tool.class_name, f"begins a call at {starts(tool)}"),
        *extra,
    ]
    yield make_hit(
        argument,
        message,
        f"take both parsers of one family, the one whose texts the model writes; for {tool.name} "
        f"that is {listed([e.note.partition(' ')[0] for e in extra], 'or')}",
        evidence,
        confidence="medium",
        cause=f"{tool.name} with {reasoning.name}",
        with_=(setting.argument("tool_call_parser"),),
    )


def _disagreement(
    tool: ToolParser, reasoning: ReasoningParser, tables: Tables
) -> tuple[str, list[Evidence]] | None:
    """What two parsers of different families disagree on, by their texts; None if nothing."""
    own = [
        row
        for row in tables.reasoning_parsers
        if _families_of(tool, tables.tool_parsers) & {_family(row.name)} and row.start
    ]
    pair = f"--tool-call-parser {tool.name} with --reasoning-parser {reasoning.name}"
    extra = [
        Evidence(row.path, row.line, row.class_name, f"{row.name} thinks in {shown(row.start)}")
        for row in own
        if row.start
    ]
    if not own:
        # A format whose tree has no thinking of its own goes with any that the model writes (LFM2).
        return None
    if reasoning.tool_start and tool.starts:
        if not any(_overlap(reasoning.tool_start, start) for start in tool.starts):
            message = (
                f"{pair}: the reasoning parser ends thinking at {shown(reasoning.tool_start)}, "
                f"while calls begin at {starts(tool)}; a call that follows open thinking stays "
                "in the reasoning"
            )
            return message, extra
        return None
    if reasoning.start and all(row.start != reasoning.start for row in own):
        message = (
            f"{pair}: the reasoning parser looks for {shown(reasoning.start)}, but the tree's "
            f"parser of that family, {own[0].name}, for {shown(own[0].start or '')}; thinking "
            "reaches the content as it is written"
        )
        return message, extra
    return None


def _overlap(first: str, second: str) -> bool:
    one, two = "".join(first.split()), "".join(second.split())
    return one.startswith(two) or two.startswith(one)


def _family(name: str) -> str:
    found = _FAMILY.match(name.lower())
    return found.group() if found else name.lower()


def _families_of(row: Row, table: tuple[Row, ...]) -> set[str]:
    """The families of all names that share the row's class: these behave as one."""
    return {_family(other.name) for other in table if other.class_name == row.class_name}


def _forced(setting: Setting, view: ServeView) -> Iterator[Hit]:
    argument, reasoning = setting.argument("reasoning_parser"), setting.reasoning
    if argument is None or reasoning is None or reasoning.forced is not True:
        return
    head = (
        f"{argument.flag} {reasoning.name} takes all text for thinking until "
        f"{shown(reasoning.end or '')} comes"
    )
    if setting.encoder is not None:
        yield from _forced_encoder(setting, view, argument, reasoning, head)
        return
    template = setting.template
    if template is None or not _switches(template, reasoning):
        return
    toggle = template.facts.toggle
    by_default = "" if _open(template.facts.tail, reasoning) else ", as it is by default"
    yield make_hit(
        argument,
        f"{head}, but the template can switch thinking off ({toggle}){by_default}: the whole "
        "answer then is reasoning and the content stays empty",
        "use the reasoning parser of the template's family, which follows the switch",
        [_forced_row(reasoning), _toggle_line(template)],
        with_=(setting.argument("chat_template"),),
        cause="forced thinking",
    )


def _forced_encoder(
    setting: Setting, view: ServeView, argument: Argument, reasoning: ReasoningParser, head: str
) -> Iterator[Hit]:
    """A native encoder of a family whose own parser says that thinking is off unless asked for."""
    tool, encoder = setting.tool, setting.encoder
    if tool is None or encoder is None:
        return
    for own in view.tables.reasoning_parsers:
        if plain(own.name) != plain(tool.name) or own.class_name == reasoning.class_name:
            continue
        if not own.default_mode.startswith("explicit"):
            continue
        yield make_hit(
            argument,
            f"{head}, but {tool.name} is encoded natively ({encoder.spec}), which thinks only when "
            "a request asks for it: other answers are all reasoning, their content empty",
            f"use {argument.flag} {own.name}",
            [
                _forced_row(reasoning),
                Evidence(own.path, own.line, own.class_name, f"{own.default_mode} by default"),
                Evidence(encoder.path, encoder.line, "", f"chosen by {encoder.condition}"),
            ],
            with_=(setting.argument("tool_call_parser"),),
            cause="forced thinking",
        )
        return


def _forced_row(row: ReasoningParser) -> Evidence:
    return Evidence(row.path, row.line, row.class_name, "thinking is forced on")


def _assumed(setting: Setting, view: ServeView) -> Iterator[Hit]:
    """A tree that does not look at the template, with one that does not think by default."""
    argument, reasoning = setting.argument("reasoning_parser"), setting.reasoning
    template = setting.template
    if argument is None or reasoning is None or template is None or setting.encoder is not None:
        return
    if view.tables.auto_rules or reasoning.forced is not None:
        return
    facts = template.facts
    if facts.toggle != "enable_thinking" or not _switches(template, reasoning):
        return
    if _open(facts.tail, reasoning) or not _closed(facts.tail, reasoning):
        return
    yield make_hit(
        argument,
        f"{argument.flag} {reasoning.name}: this tree takes thinking as on unless a request "
        f"switches it off, but the template begins answers with {shown(facts.tail)}: all of an "
        "answer is reasoning and the content stays empty",
        "take the reasoning parser out, send enable_thinking with each request, or use a release "
        "whose server reads the template",
        [
            Evidence(reasoning.path, reasoning.line, reasoning.class_name, "the reasoning parser"),
            _toggle_line(template),
        ],
        confidence="medium",
        with_=(setting.argument("chat_template"),),
        cause="assumed thinking",
    )


def _switches(template: Template, reasoning: ReasoningParser) -> bool:
    """Whether the template's switch changes how an answer begins, in this parser's markers."""
    facts = template.facts
    if not facts.toggle or facts.tail_on == facts.tail_off or not reasoning.end:
        return False
    return not _open(facts.tail_off, reasoning)


def _open(tail: str, reasoning: ReasoningParser) -> bool:
    return bool(reasoning.start) and tail.rfind(reasoning.start or "") > tail.rfind(
        reasoning.end or "\0"
    )


def _closed(tail: str, reasoning: ReasoningParser) -> bool:
    return bool(reasoning.end) and (reasoning.end or "") in tail


def _toggle_line(template: Template) -> Evidence:
    toggle = template.facts.toggle
    return Evidence(template.path, template.line_of(toggle), "", f"{toggle} switches thinking")


_SHAPES: dict[str, Callable[[Setting, ServeView], Iterator[Hit]]] = {
    "unknown": _unknown,
    "deprecated": _deprecated,
    "families": _families,
    "forced-thinking": _forced,
    "assumed-thinking": _assumed,
}

PARAMETERS = of_shapes(_SHAPES)
