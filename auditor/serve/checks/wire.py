"""Whether a parser sees the tool calls that a template writes, by the texts of both."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from auditor.serve.scripts.template import CALL_ID, KEY, NAME, VALUE, Matches, TemplateFacts
from auditor.serve.tables.facts import AutoRule, ToolParser
from auditor.serve.tables.patterns import patterns

_TAG = re.compile(r"<[^<>]{1,60}>|\[[A-Z_]{2,20}\]")
_SPECIAL = re.compile(r"[<>\[\]|｜]")
_IMPORT = re.compile(r"^\s*from (sglang\.[\w.]+) import", re.MULTILINE)
_GROUP_HEAD = re.compile(r"\(\?(?:P<\w+>|<?[=!:])")
_JSON_CALL = re.compile(r'"name"\s*:\s*"' + re.escape(NAME))
_PATTERN = re.compile(r"\.\*|\\|\(\?|\[\^")


FAULTS = ("unseen", "absent", "strange", "misread")


@dataclass(frozen=True)
class Verdict:
    """What a parser makes of a call, and the text that tells (``detail``).

    ``unseen``: no start marker stands in it, which is sure. ``absent``: nothing that the parser
    looks for further inside does. ``strange``: a tag in it is one that the parser does not know.
    ``misread``: it misses the tool's name, which another parser (``detail``) finds.
    """

    kind: Literal["seen", "unseen", "absent", "strange", "misread", "unknown"]
    detail: str = ""


@dataclass(frozen=True)
class Wire:
    """The parsers of a tree, the text of its files, and a place to run its patterns safely."""

    parsers: Sequence[ToolParser]
    source: Callable[[str], str | None]
    groups: Callable[[tuple[str, ...], str], tuple[Matches, ...]]


def judge(parser: ToolParser, facts: TemplateFacts, wire: Wire) -> Verdict:
    """Whether ``parser`` sees the calls of a template and finds the tool's name in them."""
    others = wire.parsers
    if parser.run_time or not parser.starts:
        return Verdict("unknown")
    if not facts.call:
        return _by_constants(parser, facts, others)
    if not any(_stands(start, facts.call) for start in parser.starts if len(start) > 2):
        # A parser that looks for a brace takes bare JSON (the Llama 3 family), one with a shorter
        # marker sees other forms by it (Mistral); neither sees what another's markers begin.
        short = [*parser.markers.values(), *(s for s in parser.starts if len(s) <= 2)]
        if not any(_stands(s, facts.call) for s in short if s.strip()) or _seers(
            others, facts.call
        ):
            return Verdict("unseen", parser.starts[0])
    for verdict in (
        _inner(parser, facts.call, wire),
        _strange_tag(parser, facts.call, wire),
        _misread(parser, facts.call, wire),
    ):
        if verdict.kind != "seen":
            return verdict
    return Verdict("seen")


def seers(facts: TemplateFacts, wire: Wire) -> tuple[str, ...]:
    """The parsers whose start markers stand in a template's calls and which nothing rules out."""
    found = [p for p in _seers(wire.parsers, facts.call) if judge(p, facts, wire).kind == "seen"]
    return tuple(sorted({p.deprecated_for or p.name for p in found}))


def opening(call: str) -> str:
    """The part of a call up to the name of the tool, which is what tells its format."""
    if NAME in call:
        return f"{call[: call.find(NAME)]}NAME"
    return f"{call[: call.find(CALL_ID)]}ID"


def _seers(parsers: Sequence[ToolParser], call: str) -> list[ToolParser]:
    return [p for p in parsers if p.ends and any(_stands(start, call) for start in p.starts)]


def _stands(start: str, text: str) -> bool:
    """Whether a marker stands in a text, however it is spaced.

    Of one that is put together of several tokens, something may stand between these
    (``<|start|>assistant to=functions.x<|channel|>commentary``).
    """
    compact = "".join(text.split())
    if "".join(start.split()) in compact:
        return True
    tags = re.findall(r"<[^<>]+>", start)
    return len(tags) > 1 and all(tag in compact for tag in tags)


def _inner(parser: ToolParser, call: str, wire: Wire) -> Verdict:
    """Whether the texts that the parser looks for inside a call are there, one of them at least.

    They are its other markers and the tags in the patterns of its class.
    """
    used = [text.strip() for text in (*parser.starts, *parser.ends)]
    texts = [*parser.markers.values()]
    source = wire.source(parser.class_path)
    for pattern in patterns(source, parser.class_name) if source is not None else ():
        texts += [tag for tag in _fixed_tags(pattern) if not any(tag in text for text in used)]
    inner = [
        text
        for text in texts
        if text.strip() not in used
        and len(text.strip()) > 2
        and _SPECIAL.search(text)
        and not _PATTERN.search(text)
    ]
    compact = "".join(call.split())
    if any(not text.startswith("</") for text in inner):
        if not any("".join(text.split()) in compact for text in inner):
            return Verdict("absent", inner[0].strip())
    return Verdict("seen")


def _fixed_tags(pattern: str) -> list[str]:
    """The opening tags in a pattern, each up to where it varies."""
    bare = _bare(_GROUP_HEAD.sub("(", pattern))
    found = (re.split(r"[(*+?|\[]", tag, maxsplit=1)[0] for tag in _TAG.findall(bare))
    return [tag for tag in found if len(tag) > 2 and not tag.startswith("</")]


def _strange_tag(parser: ToolParser, call: str, wire: Wire) -> Verdict:
    """A tag of the call that stands nowhere in the parser's file, not even in its documentation.

    That a file (with those it imports) says nothing of a tag tells something only where it spells
    out the parser's own markers, and where it does speak of another tag inside the call, or another
    parser's file of this one.
    """
    bare = _with_imports(parser.class_path, wire)
    if not any(start.strip() and start.strip() in bare for start in parser.starts):
        return Verdict("seen")
    tags = [tag for tag in _tags(parser, call) if not any(tag in start for start in parser.starts)]
    strange = next((tag for tag in tags if tag not in bare), None)
    if strange is None:
        return Verdict("seen")
    aware = any(tag in bare for tag in tags)
    paths = {p.class_path for p in _seers(wire.parsers, call)} - {parser.class_path}
    if aware or any(strange in _bare(wire.source(path)) for path in sorted(paths)):
        return Verdict("strange", strange)
    return Verdict("seen")


def _with_imports(path: str, wire: Wire) -> str:
    """The text of a file and of the files of its package that it imports."""
    own = wire.source(path) or ""
    texts = [own]
    for dotted in sorted(set(_IMPORT.findall(own))):
        texts.append(wire.source(f"{dotted.replace('.', '/')}.py") or "")
    return _bare("\n".join(texts))


def _misread(parser: ToolParser, call: str, wire: Wire) -> Verdict:
    """A name that the parser's own patterns miss and those of another, with its start, find.

    Of formats that begin alike only the patterns tell which is read (GLM 4.5 and 4.7, DeepSeek V3
    and V3.1). Patterns that do not hold a tag before the name read something else of the call.
    """
    own = _names(parser, call, wire)
    if own is None or own:
        return Verdict("seen")
    for other in _seers(wire.parsers, call):
        if other.class_name != parser.class_name and _names(other, call, wire):
            return Verdict("misread", other.name)
    return Verdict("seen")


def _names(parser: ToolParser, call: str, wire: Wire) -> bool | None:
    """Whether a parser's patterns find the tool's name, alone or in JSON; None if they don't say.

    They don't where one takes the whole inside for code to split, nor where the call holds the id
    of the fixture: some formats demand ids of their own.
    """
    source = wire.source(parser.class_path)
    tags = {tag.replace("\\", "") for tag in _TAG.findall(call[: call.find(NAME)])}
    tags.update(start.strip() for start in parser.starts if start.strip())
    found = patterns(source, parser.class_name) if source is not None else ()
    near = tuple(p for p in found if any(tag in _bare(p) for tag in tags))
    if not near or CALL_ID in call:
        return None
    matched = [groups for matches in wire.groups(near, call) for groups in matches]
    for groups in matched:
        if any(part.strip() == NAME or _JSON_CALL.search(part) for part in groups):
            return True
    whole = any(len(groups) == 1 and NAME in groups[0] and VALUE in groups[0] for groups in matched)
    return None if whole else False


def _bare(source: str | None) -> str:
    """A source without what escapes characters in strings and patterns."""
    return (source or "").replace("\\", "")


def _tags(parser: ToolParser, call: str) -> list[str]:
    """The tags of a call between its start and its last argument, cut before what varies."""
    texts = {text.strip() for text in (*parser.starts, *parser.markers.values()) if text.strip()}
    found = [call.find(text) for text in texts if text in call]
    part = call[min(found) : call.rfind(VALUE)] if found else ""
    tags = []
    for tag in _TAG.findall(part):
        fixed = tag.partition(NAME)[0].partition(KEY)[0]
        if len(fixed) > 2 and not fixed.startswith("</"):
            tags.append(fixed)
    return tags


def _by_constants(
    parser: ToolParser, facts: TemplateFacts, others: Sequence[ToolParser]
) -> Verdict:
    """Of a template that was not rendered, the constants: they tell no order and no branch."""
    if not facts.unread or not facts.constants:
        return Verdict("unknown")
    text = " ".join(constant for _, constant in facts.constants)
    if any(_stands(start, text) for start in parser.starts):
        return Verdict("unknown")
    if any(_stands(s, text) for other in others if other.ends for s in other.starts):
        return Verdict("absent", parser.starts[0])
    return Verdict("unknown")


@dataclass(frozen=True)
class Pick:
    """What ``auto`` makes of a template: the rule that fits, None where none does.

    ``open`` are the rules before it that also look at what is not known here (the vocabulary, a
    condition in code) and might fit first.
    """

    rule: AutoRule | None
    open: tuple[AutoRule, ...] = ()


def pick(rules: Sequence[AutoRule], kind: str, text: str) -> Pick:
    """The first rule of a kind that fits a template's text."""
    unsure: list[AutoRule] = []
    for rule in rules:
        if rule.kind != kind or rule.architecture:
            continue
        if not all(part in text for part in rule.contains):
            continue
        if rule.any_of and not any(part in text for part in rule.any_of):
            continue
        if any(part in text for part in rule.excludes):
            continue
        if rule.undecided:
            unsure.append(rule)
        elif rule.contains or rule.any_of:
            return Pick(rule, tuple(unsure))
    return Pick(None, tuple(unsure))
