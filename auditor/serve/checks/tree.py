"""Compares a tree with what names it: parser tables with choices and other programs, pins."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from auditor.model import Argument, Evidence, Hit, Pin
from auditor.rulebook import Param, Parameter, Texts, of_shapes
from auditor.serve.checks.seen import ServeView
from auditor.serve.checks.spellings import (
    Spellings,
    listed,
    listed_words,
    once,
    place,
    shown,
)
from auditor.serve.tables.facts import ReasoningParser, Tables, ToolParser

_MOST_EVIDENCE = 12
_TAG_VERSION = re.compile(r"(?:^|[-_])v?(\d+\.\d+\.\d+(?:\.?(?:post|rc)\d+)?)(?![\d.]*\d)")
_REQUIREMENT = re.compile(r"^sglang(?:\[[^\]]*\])?\s*((?:===|[=~<>!]=|[<>]).*)$")


def judge(params: Mapping[str, Param], view: ServeView) -> Iterator[Hit]:
    """One comparison (``params: {shape: …}``)."""
    find = _SHAPES[str(params["shape"])]
    yield from once(find(params, view))


def _choices(params: Mapping[str, Param], view: ServeView) -> Iterator[Hit]:
    """Names that the command line offers and no parser has, and the other way round."""
    tables = view.tables
    spare = frozenset(listed_words(params, "special"))
    spellings = Spellings(tables.flags)
    for name, parsers in _parsers(tables):
        flag = spellings.of(name).flag
        offered = tables.cli_choices.get(name)
        if offered is None and flag is not None:
            offered = flag.choices
        if not parsers or not offered:
            continue
        first = min(parsers, key=lambda parser: (parser.path, parser.line))
        path, line = (flag.path, flag.line) if flag is not None else (first.path, first.line)
        missing = [parser for parser in parsers if parser.name not in offered]
        if missing:
            names = listed([repr(parser.name) for parser in missing])
            message = f"{name} does not offer {names}, which the table of parsers has: argparse"
            message += " ends with 'invalid choice'"
            evidence = [
                Evidence(p.path, p.line, "", f"{p.name} is {p.class_name}") for p in missing
            ]
            fix = "derive the choices from the table, or add the names"
            yield _tree_hit(path, line, f"{name} lacks {names}", message, evidence, fix)
        extra = sorted(set(offered) - {parser.name for parser in parsers} - spare)
        if extra:
            names = listed([repr(text) for text in extra])
            message = f"{name} offers {names} without a parser of that name: the command line"
            message += " takes it and the server fails on it"
            evidence = [Evidence(first.path, first.line, "", f"the table of {len(parsers)} names")]
            fix = "add the parsers to the table, or take the names out"
            yield _tree_hit(path, line, f"{name} adds {names}", message, evidence, fix)


def _tree_hit(
    path: str, line: int, anchor: str, message: str, evidence: list[Evidence], fix: str
) -> Hit:
    why = "any launch with that name meets it"
    cause = f"choices:{anchor.partition(' ')[0]}"
    evidence = evidence[:_MOST_EVIDENCE]
    return Hit(place(path, line), anchor, message, tuple(evidence), "high", "live", why, fix, cause)


def _registries(params: Mapping[str, Param], view: ServeView) -> Iterator[Hit]:
    """Parser names that are given to a program with a list of its own."""
    marks = frozenset(listed_words(params, "own_names_when"))
    for launch in view.launches:
        if launch.program not in ("router", "foreign"):
            continue
        given = {argument.flag: argument for argument in launch.arguments}
        for name, parsers in _parsers(view.tables):
            argument, theirs = given.get(name), given.get(f"--dyn-{name[2:]}")
            if argument is None or not parsers:
                continue
            known = {parser.name: parser for parser in parsers}
            row = known.get(argument.value or "")
            first = min(parsers, key=lambda parser: (parser.path, parser.line))
            evidence = [Evidence(first.path, first.line, "", f"the table of {len(parsers)} names")]
            if row is not None:
                evidence = [Evidence(row.path, row.line, "", f"{row.name} is {row.class_name}")]
            if theirs is not None:
                message = f"{name} and {theirs.flag} exclude each other: the one takes names of "
                message += f"sglang, the other those of {launch.command}"
                evidence.append(Evidence(theirs.path, theirs.line, "", f"gives {theirs.flag}"))
                yield _registry_hit(argument, message, evidence, "keep one of the two", live=True)
            elif not argument.resolved:
                continue
            elif launch.program == "foreign" and row is not None and marks & given.keys():
                message = f"{argument.value!r} is a name of sglang's table; releases of "
                message += f"{launch.command} without --dyn-{name[2:]} check it against their own"
                fix = f"use a release that has --dyn-{name[2:]} for names of its own"
                yield _registry_hit(argument, message, evidence, fix, live=False)
            elif launch.program == "router" and row is None:
                message = f"{argument.value!r} is a name of the router's own list; the audited "
                message += "tree's servers know no parser of that name"
                fix = "give the servers their own name of the same family"
                yield _registry_hit(argument, message, evidence, fix, live=False)


def _registry_hit(
    argument: Argument, message: str, evidence: list[Evidence], fix: str, *, live: bool
) -> Hit:
    why = "the program starts so" if live else "it depends on that program's release"
    return Hit(
        place(argument.path, argument.line, argument.column),
        shown(argument),
        message,
        tuple(evidence),
        "medium",
        "live" if live else "latent",
        why,
        fix,
        f"registry:{argument.flag}",
    )


def _parsers(tables: Tables) -> tuple[tuple[str, tuple[ToolParser | ReasoningParser, ...]], ...]:
    return (
        ("--tool-call-parser", tables.tool_parsers),
        ("--reasoning-parser", tables.reasoning_parsers),
    )


def _pins(params: Mapping[str, Param], view: ServeView) -> Iterator[Hit]:
    """Scripts that name a release other than the tree's."""
    del params
    tree = _version(view.tables.version)
    if tree is None:
        return
    for launch in view.launches:
        for pin in launch.pins if launch.program == "server" else ():
            other = _other_version(pin, tree)
            if not other:
                continue
            what = "the image" if pin.kind == "image" else "the requirement"
            message = f"{what} {pin.text} is of sglang {other}; the audited tree is "
            message += f"{view.tables.version}, so what runs is not what was audited"
            evidence = (Evidence(launch.path, launch.line, "", f"starts {launch.command}"),)
            fix = f"audit {other}, or deploy the audited tree"
            where = place(pin.path, pin.line, pin.column)
            why = "the script names it"
            yield Hit(
                where, pin.text, message, evidence, "medium", "live", why, fix, f"pin:{pin.text}"
            )


def _other_version(pin: Pin, tree: Version) -> str:
    """The release that a pin asks for, empty where it is the tree's or cannot be told."""
    if pin.kind == "image":
        name, _, tag = pin.text.partition("@")[0].rpartition(":")
        found = _TAG_VERSION.search(tag) if "sglang" in name.lower() and "/" not in tag else None
        version = _version(found.group(1)) if found else None
        if version is None or _public(version) == _public(tree):
            return ""
        return str(version)
    found = _REQUIREMENT.match(pin.text.strip())
    if found is None:
        return ""
    try:
        wanted = SpecifierSet(found.group(1).partition(";")[0].replace("===", "=="))
    except InvalidSpecifier:
        return ""
    return "" if wanted.contains(_public(tree), prereleases=True) else str(wanted)


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _public(version: Version) -> Version:
    """The release that a version is of or leads to, without a fork's own suffix."""
    suffix = ""
    if version.dev is None:
        suffix += f"{version.pre[0]}{version.pre[1]}" if version.pre is not None else ""
        suffix += f".post{version.post}" if version.post is not None else ""
    return Version(version.base_version + suffix)


_SHAPES: dict[str, Callable[[Mapping[str, Param], ServeView], Iterator[Hit]]] = {
    "parser-choices": _choices,
    "registries": _registries,
    "pins": _pins,
}

PARAMETERS = of_shapes(
    _SHAPES,
    special=Parameter(Texts, shapes=("parser-choices",)),
    own_names_when=Parameter(Texts, shapes=("registries",)),
)
