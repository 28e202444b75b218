"""What a tree says of its settings, for a person: parsers, encoders, templates, flags, names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tabulate import tabulate

from auditor.formats.text import Paint, Screen, finished, scrub
from auditor.serve.tables.facts import EnvironmentName, Flag, ReasoningParser, Tables, ToolParser

_CHOICES = 6


def render(tables: Tables, screen: Screen) -> str:
    """The page, ending in a newline; each row ends with its place."""
    paint = Paint(screen.colour)
    lines: list[str] = []
    for heading, headers, rows in _sections(scrub(tables)):
        lines += [paint.bold(f"{heading} · {len(rows)}")]
        text = tabulate(
            rows, [paint.dim(name) for name in headers], tablefmt="plain", disable_numparse=True
        )
        lines += [f"  {line}".rstrip() for line in text.split("\n") if rows]
        lines.append("")
    return finished(lines[:-1], screen)


def _sections(tables: Tables) -> Iterator[tuple[str, Sequence[str], list[list[str]]]]:
    yield (
        "Tool-call parsers",
        ("name", "class", "start", "end", "at"),
        [_tool_row(parser) for parser in tables.tool_parsers],
    )
    yield (
        "Reasoning parsers",
        ("name", "class", "start", "end", "mode", "at"),
        [_reasoning_row(parser) for parser in tables.reasoning_parsers],
    )
    yield (
        "Native encoders, the first that fits",
        ("encoder", "where", "at"),
        [[row.spec, row.condition, f"{row.path}:{row.line}"] for row in tables.encoders],
    )
    yield (
        "Conversation templates",
        ("name", "at"),
        [[row.name, f"{row.path}:{row.line}"] for row in tables.conversation_templates],
    )
    yield (
        "Templates picked by the model path",
        ("template", "pattern", "at"),
        [[row.template, row.pattern, f"{row.path}:{row.line}"] for row in tables.path_matchers],
    )
    yield "Flags", ("flag", "choices", "", "at"), [_flag_row(flag) for flag in tables.flags]
    yield (
        "Environment",
        ("name", "kind", "", "at"),
        [_environment_row(name) for name in tables.environment],
    )
    if tables.notes:
        yield "Not read", ("",), [[note] for note in tables.notes]


def _tool_row(parser: ToolParser) -> list[str]:
    start = " or ".join(map(repr, parser.starts)) or parser.run_time
    end = " or ".join(map(repr, parser.ends))
    old = f" (now {parser.deprecated_for})" if parser.deprecated_for else ""
    return [parser.name + old, parser.class_name, start, end, f"{parser.path}:{parser.line}"]


def _reasoning_row(parser: ReasoningParser) -> list[str]:
    start = parser.run_time if parser.start is None else repr(parser.start)
    end = "" if parser.end is None else repr(parser.end)
    mode = "forced" if parser.forced else parser.default_mode
    place = f"{parser.path}:{parser.line}"
    return [parser.name, parser.class_name, start, end, mode, place]


def _flag_row(flag: Flag) -> list[str]:
    names = ", ".join((*flag.names, *flag.negation))
    choices = flag.choices or ()
    shown = ", ".join(choices[:_CHOICES])
    if len(choices) > _CHOICES:
        shown += f", +{len(choices) - _CHOICES}"
    state = ""
    if flag.refused or flag.deprecated or flag.replacement:
        state = "refused" if flag.refused else "deprecated"
        state += f", use {flag.replacement}" if flag.replacement else ""
    return [names, shown, state, f"{flag.path}:{flag.line}"]


def _environment_row(name: EnvironmentName) -> list[str]:
    state = "retired" if name.retired else "" if name.declared else "read only"
    state += f", use {name.replacement}" if name.replacement else ""
    return [name.name, name.kind, state.removeprefix(", "), f"{name.path}:{name.line}"]
