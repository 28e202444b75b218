"""The JSON Schema of ``audit.toml``, for editors: what settings take, with the options' help."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from auditor.config import MOST_JOBS, OPTIONS, Option
from auditor.formats import NAMES
from auditor.triage.ignores import KEYS, LONGEST, MOST_PARTS

SCHEMA_FILE = Path(__file__).with_name("audit-toml.schema.json")

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string", "pattern": r"^[^\u0000]*[^\s\u0000][^\u0000]*$"}
"""Neither blank nor with a NUL."""
_DATE = r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"
_IGNORED = {
    "rule": "The rule whose findings are accepted.",
    "path": "A glob from the fork's root; ** crosses folders. All files where it is left out.",
    "symbol": "A name, with all that lies in it.",
    "reason": "Why; without one the suppression is a finding itself.",
    "expires": "The last day on which it counts.",
}


def schema() -> str:
    """The JSON Schema; ``audit-toml.schema.json`` is this text.

    Of draft 7, which every editor knows. It says what a value may be, and what excludes what; that
    a path exists, or that no two outputs go to one file, only a run can tell. To a schema a date
    of TOML is text, and ``2.0`` is 2.
    """
    from auditor.cli.audit import audit

    said = _help(audit)
    both = ("verbose", "quiet")
    head: Schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "audit.toml",
        "description": "Configuration of audit; the keys are its long options.",
        "type": "object",
        "properties": {
            key: {"description": said[key], **_value(key, option)}
            for key, option in OPTIONS.items()
        },
        "additionalProperties": False,
        "not": {"required": [*both], "properties": {key: {"const": True} for key in both}},
    }
    return json.dumps(head, indent=2) + "\n"


def _help(command: click.Command) -> Mapping[str, str]:
    """What ``--help`` says of each long option; lists stand for what is repeated there."""
    return {
        name.removeprefix("--"): re.sub(
            r"\s+", " ", (option.help or "").replace("Repeatable", "One, or a list")
        )
        for option in command.params
        if isinstance(option, click.Option)
        for name in option.opts
    }


def _value(key: str, option: Option) -> Schema:
    match option.kind:
        case "flag":
            return {"type": "boolean"}
        case "number":
            return {"type": "integer", "minimum": 0, "maximum": MOST_JOBS}
        case "choice":
            return {"enum": list(option.choices)}
        case "choices":
            return _several(_chosen(option.choices))
        case "text":
            return _TEXT
    if key == "output":
        return _outputs()
    if key == "ignore":
        return {"anyOf": [_TEXT, {"type": "array", "items": {"anyOf": [_TEXT, _ignored()]}}]}
    return _several(_TEXT)


def _several(one: Schema) -> Schema:
    return {"anyOf": [one, {"type": "array", "items": one}]}


def _chosen(choices: Sequence[str]) -> Schema:
    """One of the choices, or several with commas between them."""
    word = rf"(({'|'.join(map(re.escape, choices))})\s*)?"
    listed = {"pattern": rf"^\s*{word}(,\s*{word})*$"}
    return {"anyOf": [{"enum": list(choices)}, {"allOf": [_TEXT, listed]}]}


def _outputs() -> Schema:
    """Formats, each with a file or none; no two of them to standard output."""
    to_file = {"allOf": [_TEXT, {"pattern": rf"^({'|'.join(NAMES)})=[\s\S]"}]}
    one: Schema = {"anyOf": [{"enum": list(NAMES)}, to_file]}
    pairs = [
        {"allOf": [{"contains": {"const": name}}, {"contains": {"enum": list(NAMES[:at])}}]}
        for at, name in enumerate(NAMES)
        if at
    ]
    several = {"type": "array", "items": one, "uniqueItems": True, "not": {"anyOf": pairs}}
    return {"anyOf": [one, several]}


def _ignored() -> Schema:
    """A table of ``ignore``; dates of TOML are told as text."""
    short = rf"\s*(\S([\s\S]{{0,{LONGEST - 2}}}\S)?)"
    few = rf"^[^/]*(/[^/]*){{0,{MOST_PARTS - 1}}}$"
    values: dict[str, Schema] = {
        "rule": {"pattern": rf"^{short}?\s*$"},
        "path": {"allOf": [{"pattern": rf"^{short}\s*$"}, {"pattern": few}]},
        "symbol": {"pattern": rf"^{short}\s*$"},
        "reason": {},
        "expires": {"pattern": rf"^{_DATE}([Tt ].*)?$"},
    }
    return {
        "type": "object",
        "properties": {
            key: {"description": _IGNORED[key], "type": "string", **values[key]} for key in KEYS
        },
        "additionalProperties": False,
    }
