"""What a template makes of conversations with tools, against the parser that reads the answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from auditor.model import Argument, Evidence, Hit, Skipped
from auditor.rulebook import Param, Parameter, Texts, of_shapes
from auditor.serve.checks import wire
from auditor.serve.checks.seen import ServeView
from auditor.serve.checks.setting import AUTO, Setting, Template, listed, make_hit, shown
from auditor.serve.checks.spellings import listed_words
from auditor.serve.tables.facts import ToolParser

Shape = Callable[[Setting, ServeView, Mapping[str, Param]], Iterator[Hit]]


def judge(params: Mapping[str, Param], view: ServeView) -> Iterator[Hit]:
    """The launches whose template renders tools in one wrong way (``params: {shape: …}``)."""
    find = _SHAPES[str(params["shape"])]
    for setting in view.settings:
        yield from find(setting, view, params)


def skipped(view: ServeView) -> tuple[Skipped, ...]:
    """The templates of launches that could not be rendered, each once, with the reason."""
    found: dict[str, Skipped] = {}
    for setting in view.settings:
        template = setting.template
        if template is None:
            continue
        reason = template.facts.unread
        if not reason and template.facts.plain_error and not template.facts.renders:
            reason = f"fails on a plain conversation: {template.facts.plain_error}"
        if reason:
            found[template.path] = Skipped(
                "fork", template.path, "template", f"the template {reason}"
            )
    return tuple(found[path] for path in sorted(found))


def verdict_of(tool: ToolParser, template: Template, view: ServeView) -> wire.Verdict:
    """Whether a parser of the audited tree sees the calls that a template writes."""
    return wire.judge(tool, template.facts, view.wire)


def starts(tool: ToolParser) -> str:
    """The start markers of a parser in a sentence."""
    return listed([shown(start) for start in tool.starts], "or") if tool.starts else "no marker"


def _markers(setting: Setting, view: ServeView, params: Mapping[str, Param]) -> Iterator[Hit]:
    argument = setting.argument("tool_call_parser")
    tool, template = setting.tool, setting.template
    if argument is None or tool is None or template is None or setting.encoder is not None:
        return
    verdict = verdict_of(tool, template, view)
    if verdict.kind not in wire.FAULTS:
        return
    facts = template.facts
    seers = [n for n in wire.seers(facts, view.wire) if n != tool.name]
    written = shown(wire.opening(facts.call).strip()) if facts.call else "other markers"
    if verdict.kind == "unseen":
        why = f"begins a call at {starts(tool)}, which is not in it"
    elif verdict.kind == "misread":
        why = f"does not find the tool's name in it by its patterns, as {verdict.detail} does"
    elif verdict.kind == "absent":
        why = f"looks for {shown(verdict.detail)} in a call, which is not in it"
    else:
        why = f"knows nothing of {shown(verdict.detail)}, which stands in it"
    also = f"; it is what {listed(seers, 'or')} would read" if seers else ""
    own = "the template" if template.explicit else "the model's own template"
    key = _first_marker(facts.call)
    evidence = [
        Evidence(template.path, template.line_of(key), "", f"writes a call as {written}"),
        Evidence(tool.path, tool.line, tool.class_name, f"{tool.name} expects {starts(tool)}"),
    ]
    evidence += [
        Evidence(row.path, row.line, row.class_name, f"{row.name} expects {starts(row)}")
        for row in view.tables.tool_parsers
        if row.name in seers[:3]
    ]
    yield make_hit(
        (setting.argument("chat_template") or argument) if template.explicit else argument,
        f"{own} writes a call as {written}, but {argument.flag} {tool.name} {why}{also}: a model "
        "that writes what it is shown has its calls returned as plain text",
        (f"use {argument.flag} {listed(seers, 'or')}, or " if seers else "")
        + ("take the template out" if template.explicit else "the parser of the model's format"),
        evidence,
        confidence="high" if verdict.kind == "unseen" and facts.call else "medium",
        cause=f"{tool.name} with {template.path}",
        with_=(argument,) if template.explicit else (),
    )


def _first_marker(call: str) -> str:
    found = re.search(r"<[^<>\n]{2,60}>|\[[A-Z_]{2,20}\]", call)
    return found.group() if found else "tool_calls"


def _rendered(setting: Setting) -> tuple[Argument, Template] | None:
    """The template of a launch with a tool parser, where it was rendered and is used."""
    argument, template = setting.argument("tool_call_parser"), setting.template
    if argument is None or template is None or not argument.value:
        return None
    if setting.encoder is not None or template.facts.unread or not template.facts.renders:
        return None
    if argument.resolved and argument.value != AUTO and setting.tool is None:
        # The server does not start; that is told of the parser.
        return None
    if template.explicit:
        argument = setting.argument("chat_template") or argument
    return argument, template


def _about_template(
    setting: Setting, message: str, note: str, word: str, fix: str
) -> Iterator[Hit]:
    """A hit on what a template does, at the flag that names it, else at the tool parser."""
    found = _rendered(setting)
    if found is None:
        return
    argument, template = found
    own = "the template" if template.explicit else "the model's own template"
    tool = setting.argument("tool_call_parser")
    yield make_hit(
        argument,
        f"{own} {template.path} {message}",
        fix,
        [Evidence(template.path, template.line_of(word), "", note)],
        cause=f"template {template.path}",
        with_=(tool,) if template.explicit else (),
    )


def _no_tools(setting: Setting, view: ServeView, params: Mapping[str, Param]) -> Iterator[Hit]:
    found = _rendered(setting)
    if found is None:
        return
    facts = found[1].facts
    if facts.shapes or len(facts.shape_errors) == 2:
        return
    tool = setting.argument("tool_call_parser")
    yield from _about_template(
        setting,
        "renders a conversation with tools as if there were none: the model is never told of "
        f"them, so that {tool.flag if tool else ''} {tool.value if tool else ''} has nothing to "
        "parse (unless clients write the tools into their messages)",
        "no use of `tools` in it" if "tools" not in facts.variables else "uses `tools`, in vain",
        "tools",
        "use a template that writes the tools, or the model's own",
    )


def _refuses(setting: Setting, view: ServeView, params: Mapping[str, Param]) -> Iterator[Hit]:
    found = _rendered(setting)
    if found is None:
        return
    facts = found[1].facts
    errors = [state for state in facts.arguments.values() if state not in _STATES]
    if len(facts.shape_errors) == 2 and not facts.shapes:
        reason = next(iter(facts.shape_errors.values()))
        message = f"fails as soon as a request has tools, in either shape ({reason})"
        word = "tools"
    elif facts.arguments and len(errors) == len(facts.arguments):
        message = f"fails as soon as a tool call stands in the conversation ({errors[0]})"
        word = "tool_calls"
    elif facts.call and facts.result and facts.result not in _STATES:
        message = f"fails as soon as a tool has answered ({facts.result})"
        word = "tool"
    else:
        return
    fix = "use a template that renders tool conversations, or the model's own"
    yield from _about_template(setting, message, "fails on a tool conversation", word, fix)


_STATES = ("shown", "lost", "doubled")


def _drops_call(setting: Setting, view: ServeView, params: Mapping[str, Param]) -> Iterator[Hit]:
    found = _rendered(setting)
    if found is None:
        return
    facts = found[1].facts
    if facts.shapes and facts.arguments.get("dict") == "lost" == facts.arguments.get("str"):
        yield from _about_template(
            setting,
            "leaves the model's own tool calls out of the conversation: in the next turn it does "
            "not see that it has called, and calls again",
            "no use of `tool_calls` that reaches the prompt",
            "tool_calls",
            "use a template that writes calls back, or the model's own",
        )


def _drops_result(setting: Setting, view: ServeView, params: Mapping[str, Param]) -> Iterator[Hit]:
    found = _rendered(setting)
    if found is not None and found[1].facts.result == "lost":
        yield from _about_template(
            setting,
            "leaves a tool's answer out of the prompt: the model calls again and again",
            "no part for the role `tool` that reaches the prompt",
            "tool",
            "write the messages of the role `tool` into the prompt",
        )


def _drops_list(setting: Setting, view: ServeView, params: Mapping[str, Param]) -> Iterator[Hit]:
    """Parts of content, in a tree that hands them over as they are."""
    found = _rendered(setting)
    if found is None:
        return
    facts = found[1].facts
    if not facts.walks_content or facts.result != "shown" or facts.list_result == "shown":
        return
    if _flattens(view, params):
        return
    lost = "leaves it out" if facts.list_result == "lost" else f"fails ({facts.list_result})"
    yield from _about_template(
        setting,
        f"is handed a tool's answer as a list of parts where a client sends one, and {lost}",
        "no loop over the content of the role `tool`",
        "tool",
        "loop over the parts, or bring the server's flattening of tool answers into the fork",
    )


def _flattens(view: ServeView, params: Mapping[str, Param]) -> bool:
    """Whether the tree makes strings of a tool's parts before it renders (by the rule's words)."""
    files, words = listed_words(params, "files"), listed_words(params, "words")
    if not files or not words:
        return False
    texts = [view.source(path) for path in files]
    read = [text for text in texts if text is not None]
    # What cannot be read is not held against the template.
    return not read or any(word in text for text in read for word in words)


def _parsed_arguments(
    setting: Setting, view: ServeView, params: Mapping[str, Param]
) -> Iterator[Hit]:
    found = _rendered(setting)
    if found is None:
        return
    facts = found[1].facts
    state = facts.arguments.get("dict", "shown")
    if state == "shown" or facts.arguments.get("str") not in ("shown", "doubled"):
        return
    effect = "leaves the call out" if state == "lost" else f"fails ({state})"
    yield from _about_template(
        setting,
        f"takes the arguments of a call for a string and {effect}: the server hands them over as "
        "an object, so that every request after a tool call is hit",
        "takes `arguments` for a string",
        "arguments",
        "write `arguments | tojson` where they are no string",
    )


def _string_arguments(
    setting: Setting, view: ServeView, params: Mapping[str, Param]
) -> Iterator[Hit]:
    found = _rendered(setting)
    if found is None:
        return
    facts = found[1].facts
    state = facts.arguments.get("str", "shown")
    if facts.arguments.get("dict") != "shown" or state == "shown":
        return
    effect = {"lost": "leaves the call out", "doubled": "quotes it twice"}.get(
        state, f"fails ({state})"
    )
    yield from _about_template(
        setting,
        f"takes the arguments of a call for an object; of a string it {effect}. The server parses "
        "strings first, so it matters to other users of the file only",
        "takes `arguments` for an object",
        "arguments",
        "write strings as they are (`arguments if arguments is string else arguments | tojson`)",
    )


_SHAPES: dict[str, Shape] = {
    "markers": _markers,
    "no-tools": _no_tools,
    "refuses-tools": _refuses,
    "drops-call": _drops_call,
    "drops-result": _drops_result,
    "drops-list": _drops_list,
    "parsed-arguments": _parsed_arguments,
    "string-arguments": _string_arguments,
}

PARAMETERS = of_shapes(
    _SHAPES,
    files=Parameter(Texts, shapes=("drops-list",)),
    words=Parameter(Texts, shapes=("drops-list",)),
)
