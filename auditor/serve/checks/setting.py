"""What one launch says of its parsers, template and model, as far as it can be known."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from auditor.model import Argument, Confidence, Evidence, Hit, Launch, Location, Rewrite, Symbol
from auditor.serve.scripts.places import LARGE, SMALL, Folder, Place, Places
from auditor.serve.scripts.template import TemplateFacts, Templates, as_loaded
from auditor.serve.tables.facts import (
    ConversationTemplate,
    Encoder,
    PathMatcher,
    ReasoningParser,
    Tables,
    ToolParser,
)

AUTO = "auto"

_VERSION = re.compile(r"[a-z]*\d+[a-z0-9]*$")

_SPELLINGS = {
    "tool_call_parser": ("--tool-call-parser",),
    "reasoning_parser": ("--reasoning-parser",),
    "chat_template": ("--chat-template",),
    "model_path": ("--model-path", "--model"),
    "quantization": ("--quantization", "-q"),
}
_HASH = re.compile(r"[0-9a-f]{7,64}|main|master|snapshots|refs|v?\d+(\.\d+)*|checkpoint-\d+|hf")


@dataclass(frozen=True)
class Template:
    """The template that a launch renders; ``explicit`` where a flag names it.

    ``text`` is what the server holds, ``written`` what the file does: its lines are others.
    """

    path: str
    explicit: bool
    text: str
    written: str
    facts: TemplateFacts

    def line_of(self, text: str) -> int:
        """The line on which a text stands, the first where it is put together at run time."""
        at = self.written.find(text)
        return self.written.count("\n", 0, at) + 1 if at >= 0 else 1


@dataclass(frozen=True)
class Model:
    """A model's folder that exists where the audit runs."""

    folder: Folder
    config: Mapping[str, Any] | None

    @property
    def architecture(self) -> str | None:
        """The first architecture of ``config.json``, None where it does not say."""
        names = self.config.get("architectures") if self.config else None
        return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else None

    @property
    def model_type(self) -> str | None:
        """The model type of ``config.json``, None where it does not say."""
        found = self.config.get("model_type") if self.config else None
        return found if isinstance(found, str) else None

    def json(self, name: str, limit: int = SMALL) -> Any:
        """A JSON file of the folder, None where there is none that can be read."""
        return read_json(self.folder.read(name, limit))


@dataclass(frozen=True)
class Setting:
    """A launch of the server against the tables of its tree; ``dests`` are its flags' fields."""

    launch: Launch
    tables: Tables
    places: Places
    templates: Templates
    dests: Mapping[str, str]

    def arguments(self, dest: str) -> tuple[Argument, ...]:
        """All arguments that set one destination, as argparse takes their spelling."""
        return tuple(a for a in self.launch.arguments if self._sets(a.flag, dest))

    def argument(self, dest: str) -> Argument | None:
        """The argument that holds, the last; None where branches of the script disagree."""
        found = self.arguments(dest)
        if len({a.value for a in found}) > 1 and found[-1].conditional:
            return None
        return found[-1] if found else None

    def value(self, dest: str) -> str | None:
        """The value that holds, None where there is none or it is known at run time only."""
        found = self.argument(dest)
        return found.value if found is not None and found.resolved and found.value else None

    def _sets(self, flag: str, dest: str) -> bool:
        if flag in self.dests or not self.dests:
            return self.dests.get(flag) == dest or (not self.dests and flag in _SPELLINGS[dest])
        if not flag.startswith("--") or not any(n.startswith(flag) for n in _SPELLINGS[dest]):
            return False
        return {d for name, d in self.dests.items() if name.startswith(flag)} == {dest}

    @cached_property
    def tool(self) -> ToolParser | None:
        """The row of the tool parser in force."""
        name = self.value("tool_call_parser")
        return next((row for row in self.tables.tool_parsers if row.name == name), None)

    @cached_property
    def reasoning(self) -> ReasoningParser | None:
        """The row of the reasoning parser in force."""
        name = self.value("reasoning_parser")
        return next((row for row in self.tables.reasoning_parsers if row.name == name), None)

    @cached_property
    def conversation(self) -> ConversationTemplate | None:
        """The built-in template that the flag names."""
        name = self.value("chat_template")
        return next((r for r in self.tables.conversation_templates if r.name == name), None)

    @cached_property
    def matcher(self) -> PathMatcher | None:
        """The built-in template that the model path selects, where no flag names one."""
        if self.arguments("chat_template") or not self.launch.model:
            return None
        model_type = self.model.model_type if self.model else None
        for row, found in zip(
            self.tables.path_matchers, self.matched(self.launch.model), strict=True
        ):
            if model_type is not None and model_type in row.model_types:
                return None
            if found is not None:
                return row
        return None

    def matched(self, model: str) -> tuple[str | None, ...]:
        """For each path matcher of the tree the text that it finds in a path, None if it does not.

        The patterns are a hostile tree's, so they run beside, as templates do.
        """
        rows = self.tables.path_matchers
        patterns = tuple(f"({'(?i:' if r.ignore_case else '(?:'}{r.pattern}))" for r in rows)
        answers = self.templates.groups(patterns, model) or ((),) * len(rows)
        return tuple(found[0][0] if found else None for found in answers)

    @cached_property
    def template_place(self) -> Place | None:
        """The file that the flag names, None without one or where it is a built-in name."""
        name = self.value("chat_template")
        if name is None or self.conversation is not None:
            return None
        return self.places.find(self.launch, name)

    @cached_property
    def template(self) -> Template | None:
        """The Jinja template that applies: the flag's, else the model's own; None if unknown."""
        if self.arguments("chat_template"):
            place = self.template_place
            if place is None or place.data is None or not place.path.endswith(".jinja"):
                return None
            text = as_loaded(place.data)
            written = place.data.decode("utf-8", "replace")
            return Template(place.path, True, text, written, self.templates.facts(text))
        if self.model is None or self.matcher is not None:
            return None
        for name, text in _own_templates(self.model):
            path = posixpath.join(self.model.folder.path, name)
            # Of a template inside JSON no line is known but the first.
            written = text if name.endswith(".jinja") else ""
            return Template(path, False, text, written, self.templates.facts(text))
        return None

    @cached_property
    def model(self) -> Model | None:
        """The model's folder, None where it is not here or holds no configuration."""
        if not self.launch.model:
            return None
        folder = self.places.folder(self.launch, self.launch.model)
        if folder is None:
            return None
        config = read_json(folder.read("config.json", SMALL))
        if config is None and folder.read("tokenizer_config.json", SMALL) is None:
            return None
        return Model(folder, config if isinstance(config, dict) else None)

    @cached_property
    def model_argument(self) -> Argument:
        """The argument that names the model; one at the launch itself where it is positional."""
        found = self.argument("model_path")
        if found is not None and found.value == self.launch.model:
            return found
        for argument in self.launch.arguments:
            if argument.value == self.launch.model and argument.value:
                return argument
        value = self.launch.model
        return Argument("--model-path", value, self.launch.path, self.launch.line)

    @cached_property
    def encoder(self) -> Encoder | None:
        """The native encoder that surely takes the template's place, None where none does."""
        if self.conversation is not None or self.matcher is not None:
            return None
        return next((row for row in self.tables.encoders if self.holds(row)), None)

    @cached_property
    def likely_encoder(self) -> Encoder | None:
        """The encoder of the architecture by which both model and a parser are named.

        Without a configuration the architecture is not known; the model's name alone would be no
        evidence, and neither would the parser's.
        """
        if self.launch.model is None or (self.model and self.model.architecture):
            return None
        model = plain(basename(self.launch.model))
        parsers = {plain(self.value(d) or "") for d in ("tool_call_parser", "reasoning_parser")}
        for row in self.tables.encoders:
            if row.without_template or row.parsers:
                continue
            for part in row.architectures:
                if plain(part) in model and plain(part) in parsers:
                    return row
        return None

    def holds(self, row: Encoder) -> bool | None:
        """Whether all terms of a row hold; None where one is not known and none fails."""
        terms: list[bool | None] = []
        if row.parsers:
            terms.append(self._parser_is(row.parsers))
        architecture = self.model.architecture if self.model else None
        model_type = self.model.model_type if self.model else None
        if row.architectures:
            parts = row.architectures
            terms.append(None if architecture is None else any(p in architecture for p in parts))
        if row.model_types:
            terms.append(None if model_type is None else model_type in row.model_types)
        if row.without_template:
            terms.append(self._no_template())
        if row.undecided:
            terms.append(None)
        if False in terms or not terms:
            return False
        return None if None in terms else True

    def _parser_is(self, names: tuple[str, ...]) -> bool | None:
        if not self.arguments("tool_call_parser"):
            return False
        value = self.value("tool_call_parser")
        return None if value is None or value == AUTO else value in names

    def _no_template(self) -> bool | None:
        if self.arguments("chat_template"):
            return False
        return None if self.model is None else self.template is None


def settings(
    launches: tuple[Launch, ...], tables: Tables, places: Places, templates: Templates
) -> tuple[Setting, ...]:
    """The launches of the server; other programs have parsers and templates of their own."""
    dests = {name: row.dest for row in tables.flags for name in row.names}
    return tuple(
        Setting(launch, tables, places, templates, dests)
        for launch in launches
        if launch.program == "server"
    )


def make_hit(
    argument: Argument,
    message: str,
    fix: str,
    evidence: list[Evidence],
    *,
    confidence: Confidence = "high",
    cause: str = "",
    with_: tuple[Argument | None, ...] = (),
    rewrite: Rewrite | None = None,
) -> Hit:
    """A hit at an argument; ``with_`` are the others that it takes.

    Where two of them stand in branches of the script, no run may pass both.
    """
    if sum(1 for a in (argument, *with_) if a is not None and a.conditional) > 1:
        confidence = "low"
    anchor = f"{argument.flag} {argument.value}" if argument.value else argument.flag
    return Hit(
        Location(Symbol(argument.path), argument.line, argument.column),
        anchor,
        message,
        tuple(evidence),
        confidence,
        "live",
        "",
        fix,
        cause,
        rewrite,
    )


def shown(text: str, most: int = 90) -> str:
    """A text of a template or a tree in a message: one line, bounded."""
    flat = text.strip("\n ").replace("\n", "\\n")
    return f"`{flat if len(flat) <= most else flat[:most] + '…'}`"


def listed(names: list[str] | tuple[str, ...], word: str = "and") -> str:
    """Names in a sentence."""
    *first, last = names
    return f"{', '.join(first)} {word} {last}" if first else last


def plain(name: str) -> str:
    """A name without case and punctuation: ``deepseek-v4`` and ``DeepseekV4`` are one."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def is_meant(tool: ToolParser, row: Encoder) -> bool:
    """Whether parser and encoder are of one version of a format: both names end in it."""
    parser, spec = _VERSION.search(plain(tool.name)), plain(row.spec)
    ends = parser.group() if parser else ""
    return any(len(part) > 2 and ends.endswith(part) for part in (spec, spec[1:], spec[2:]))


def basename(model: str) -> str:
    """The part of a model path that names the model.

    A cache's ``models--owner--name/snapshots/<hash>`` and folders of revisions name it higher up.
    """
    parts = [part for part in model.replace("\\", "/").split("/") if part not in ("", ".")]
    for part in reversed(parts):
        if part.startswith("models--"):
            return part.rpartition("--")[2]
    while len(parts) > 1 and _HASH.fullmatch(parts[-1].lower()):
        parts.pop()
    return parts[-1] if parts else model


def read_json(data: bytes | None) -> Any:
    """The value of a JSON text, None where it is none or nested beyond reason."""
    if data is None:
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError, MemoryError):
        return None


def _own_templates(model: Model) -> Iterator[tuple[str, str]]:
    """The chat template that comes with a checkpoint, in the order in which it is looked for."""
    data = model.folder.read("chat_template.jinja", SMALL)
    if data is not None:
        yield "chat_template.jinja", data.decode("utf-8", "replace")
    for name in ("chat_template.json", "tokenizer_config.json"):
        found = model.json(name)
        value = found.get("chat_template") if isinstance(found, dict) else None
        if isinstance(value, list):
            named = [v for v in value if isinstance(v, dict)]
            # The server takes the first of several unless a flag names one.
            value = named[0].get("template") if named else None
        if isinstance(value, str):
            yield name, value


def vocabulary(model: Model) -> tuple[frozenset[str], tuple[str, ...]]:
    """The added tokens and plain entries of a tokenizer, and the files they were read from."""
    words: set[str] = set()
    files: list[str] = []
    tokenizer = model.json("tokenizer.json", LARGE)
    if isinstance(tokenizer, dict):
        files.append("tokenizer.json")
        for entry in tokenizer.get("added_tokens") or ():
            if isinstance(entry, dict) and isinstance(entry.get("content"), str):
                words.add(entry["content"])
        inner = tokenizer.get("model")
        entries = inner.get("vocab") if isinstance(inner, dict) else None
        if isinstance(entries, dict):
            words.update(entries)
    configured = model.json("tokenizer_config.json")
    decoder = configured.get("added_tokens_decoder") if isinstance(configured, dict) else None
    if isinstance(decoder, dict):
        files.append("tokenizer_config.json")
        for entry in decoder.values():
            if isinstance(entry, dict) and isinstance(entry.get("content"), str):
                words.add(entry["content"])
    return frozenset(words), tuple(files)
