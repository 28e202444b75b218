"""The parser tables of a tree: names, classes, and the texts those classes look for."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from auditor.serve.tables.constants import (
    UNKNOWN,
    Tree,
    attribute,
    evaluate,
    instance,
    lookup,
    mro,
)
from auditor.serve.tables.facts import ReasoningParser, ToolParser
from auditor.serve.tables.looks import looked_for
from auditor.serve.tables.modules import source
from auditor.serve.tables.parser_rows import REASONING, TOOL, Kind, Row, mentions, table_of
from auditor.serve.tables.values import ClassValue, External, FunctionValue, is_known

TOOL_FLAG = "--tool-call-parser"
REASONING_FLAG = "--reasoning-parser"


def tool_parsers(tree: Tree) -> tuple[ToolParser, ...]:
    """The rows of the tool-call parser table, in its order; what is unclear goes to the notes."""
    table = table_of(tree, TOOL)
    if table is None:
        return ()
    renamed = _renamed(tree, {row.name for row in table.rows})
    given = _given_by_owner(table.owner)
    return tuple(_tool_parser(row, given, renamed) for row in table.rows)


def reasoning_parsers(tree: Tree) -> tuple[ReasoningParser, ...]:
    """The rows of the reasoning parser table, in its order; what is unclear goes to the notes."""
    table = table_of(tree, REASONING)
    if table is None:
        return ()
    given = _given_by_owner(table.owner)
    forced = _forced_by_owner(table.owner, {row.name for row in table.rows})
    return tuple(_reasoning_parser(row, given, forced) for row in table.rows)


def cli_choices(tree: Tree) -> dict[str, tuple[str, ...]]:
    """Names that the command line offers by flag, where a list apart from the table says so."""
    found: dict[str, tuple[str, ...]] = {}
    for kind in (TOOL, REASONING):
        names = _choices(tree, kind) or _name_list(tree, kind)
        if names:
            found[kind.flag] = names
    return found


# Tables


# What the owner of a table gives to the classes


def _owner_method(owner: ClassValue) -> FunctionValue | None:
    found = attribute(owner, "__init__")
    return found if isinstance(found, FunctionValue) else None


def _given_by_owner(owner: ClassValue) -> dict[str, object]:
    """The parameters that the table's owner passes on from a request or the tokenizer."""
    method = _owner_method(owner)
    found = {"tokenizer"}
    for node in ast.walk(method.node) if method else ():
        match node:
            case ast.Subscript(slice=ast.Constant(value=str() as key), ctx=ast.Store()):
                found.add(key)
            case ast.Assign(value=ast.Dict(keys=keys)):
                found.update(
                    key.value
                    for key in keys
                    if isinstance(key, ast.Constant) and isinstance(key.value, str)
                )
    return dict.fromkeys(sorted(found), UNKNOWN)


def _forced_by_owner(owner: ClassValue, names: set[str]) -> set[str]:
    """Names for which the owner itself sets ``force_reasoning = True``."""
    method = _owner_method(owner)
    found: set[str] = set()
    for node in ast.walk(method.node) if method else ():
        match node:
            case ast.If(test=test, body=[ast.Assign(targets=[target], value=value), *_]):
                forcing = "force_reasoning" in source(target)
                if forcing and isinstance(value, ast.Constant) and value.value is True:
                    found |= _compared_names(test, method)  # type: ignore[arg-type]
    return found & names


def _compared_names(test: ast.expr, method: FunctionValue) -> set[str]:
    """The constants of ``x == "a"``, ``x in {…}`` and an ``or`` of them."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        return {name for part in test.values for name in _compared_names(part, method)}
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.Eq, ast.In)):
        value = evaluate(test.comparators[0], method.module, owner=method.owner)
        if isinstance(value, str):
            return {value}
        if isinstance(value, (set, list, tuple)):
            return {name for name in value if isinstance(name, str)}
    return set()


# Tool-call parsers

_OPENING = {"bot", "begin", "start", "open", "opening", "opener", "prefix", "head"}
_CLOSING = {"eot", "end", "stop", "close", "closing", "closer", "suffix", "tail"}
_INNER = {
    *("arg", "args", "argument", "arguments", "param", "params", "parameter", "parameters"),
    *("key", "value", "name", "invoke", "function", "func", "id", "sep", "think", "reasoning"),
}
_MARKUP = re.compile(r"[<>\[\]{}|\uff5c\u25c1\u25b7]")
_REGEX = re.compile(r"\\[sdwnSDW.()\[\]{}*+?|]|\(\?|\.\*|\.\+|\[\^")


def _words(name: str) -> set[str]:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return set(spaced.lower().split("_"))


def _is_marker(name: str, value: object) -> bool:
    """Whether a constant of a parser is a text of the model's output.

    It has markup in it, and more than one character, since a single bracket stands everywhere; a
    regular expression is none.
    """
    if not isinstance(value, str) or len(value) < 2 or not _MARKUP.search(value):
        return False
    return not _words(name) & {"regex", "pattern", "re"} and not _REGEX.search(value)


def _opens(name: str) -> bool:
    """Whether an attribute's name says that it opens a call, and not something within one."""
    words = _words(name)
    return bool(words & _OPENING) and not words & _INNER


def _closes(name: str) -> bool:
    words = _words(name)
    return bool(words & _CLOSING) and not words & _INNER


def _constants(cls: ClassValue, given: Mapping[str, object]) -> dict[str, object]:
    """The attributes of an object of the class, and the texts among its class attributes."""
    found: dict[str, object] = {}
    for each in mro(cls):
        for name, nodes in each.bindings.items():
            if name not in found and not isinstance(nodes[0], (ast.FunctionDef, ast.ClassDef)):
                value = attribute(cls, name)
                if isinstance(value, str):
                    found[name] = value
    found.update(instance(cls, given).attributes)
    return found


def _class(row: Row) -> tuple[str, str]:
    """Name and path of a row's class."""
    if isinstance(row.value, ClassValue):
        return row.value.name, row.value.module.path
    if isinstance(row.value, External):
        return row.value.dotted.rpartition(".")[2], ""
    return "", ""


def _about(cls: ClassValue) -> str:
    text = ast.get_docstring(cls.node) or ""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _tool_parser(row: Row, given: Mapping[str, object], renamed: Mapping[str, str]) -> ToolParser:
    name, path = _class(row)
    instead = renamed.get(row.name, "")
    if not isinstance(row.value, ClassValue):
        reason = "the class is not in the tree" if name else "the class is chosen at run time"
        return ToolParser(
            row.name, name, row.path, row.line, path, run_time=reason, deprecated_for=instead
        )
    constants = _constants(row.value, given)
    markers = {
        attr: value
        for attr, value in constants.items()
        if isinstance(value, str) and _is_marker(attr, value)
    }
    # What the class itself looks for tells more than the name of an attribute. The base class
    # looks for ``bot_token`` while it streams; other names count where nothing else is known.
    looked = looked_for(row.value, constants)
    starts = [*looked.texts, *(markers[a] for a in ("bot_token",) if a in markers)]
    if not starts and not looked.unknown:
        starts = [text for attr, text in markers.items() if _opens(attr)]
    ends = [text for attr, text in sorted(markers.items(), key=_first_eot) if _closes(attr)]
    undecided = sorted(
        attr
        for attr, value in constants.items()
        if not is_known(value) and (_opens(attr) or _closes(attr) or attr in looked.unknown)
    )
    run_time = ""
    if not starts and (undecided or looked.unknown):
        what = ", ".join(undecided or sorted(looked.unknown))
        run_time = f"{what}: set at run time"
    return ToolParser(
        row.name,
        name,
        row.path,
        row.line,
        path,
        tuple(dict.fromkeys(starts)),
        tuple(dict.fromkeys(ends)),
        markers,
        run_time,
        _about(row.value),
        instead,
    )


def _first_eot(item: tuple[str, str]) -> bool:
    return item[0] != "eot_token"


_RENAMING = re.compile(
    rb"(?i)\b\w*(?:(?:deprecat|alias|legacy|renam)\w*pars|pars\w*(?:deprecat|alias|legacy|renam))"
)


def _renamed(tree: Tree, names: set[str]) -> dict[str, str]:
    """The names that the tree calls deprecated, with those to use instead."""
    found: dict[str, str] = {}
    for path in mentions(tree, TOOL.field):
        if not _RENAMING.search(tree.content(path) or b""):
            continue
        module = tree.module(path)
        for node in ast.walk(ast.Module(module.body, [])) if module else ():
            match node:
                case ast.Assign(targets=[ast.Name(id=target)], value=ast.Dict() as value):
                    pass
                case ast.AnnAssign(target=ast.Name(id=target), value=ast.Dict() as value):
                    pass
                case _:
                    continue
            if not _RENAMING.search(target.encode()):
                continue
            table = evaluate(value, module)  # type: ignore[arg-type]
            if isinstance(table, dict):
                found.update(
                    {
                        old: new
                        for old, new in table.items()
                        if isinstance(old, str) and isinstance(new, str) and old in names
                    }
                )
    return found


# Reasoning parsers


def _reasoning_parser(row: Row, given: Mapping[str, object], forced: set[str]) -> ReasoningParser:
    name, path = _class(row)
    always = True if row.name in forced else None
    if not isinstance(row.value, ClassValue):
        reason = "the class is not in the tree" if name else "the class is chosen at run time"
        return ReasoningParser(
            row.name, name, row.path, row.line, path, forced=always, run_time=reason
        )
    constants = _constants(row.value, given)
    usual = instance(row.value, {"force_reasoning": UNKNOWN}).attributes
    start = constants.get("think_start_token", UNKNOWN)
    end = constants.get("think_end_token", UNKNOWN)
    tool_start = constants.get("tool_start_token")
    mode = usual.get("reasoning_default", "")
    force = usual.get("force_reasoning", usual.get("_in_reasoning", UNKNOWN))
    run_time = [
        label
        for label, value in (
            ("think_start_token", start),
            ("think_end_token", end),
            ("tool_start_token", tool_start),
            ("reasoning_default", mode),
        )
        if not is_known(value)
    ]
    return ReasoningParser(
        row.name,
        name,
        row.path,
        row.line,
        path,
        start if isinstance(start, str) else None,
        end if isinstance(end, str) else None,
        always if always or not isinstance(force, bool) else force,
        mode if isinstance(mode, str) else "",
        tool_start if isinstance(tool_start, str) else "",
        f"{', '.join(run_time)}: set at run time" if run_time else "",
        _about(row.value),
    )


# Names on the command line


def _choices(tree: Tree, kind: Kind) -> tuple[str, ...]:
    """``choices`` of the option where they are a list of constants, not the table's own keys."""
    # The option as a text of its own, or the field of that name.
    declared = re.compile(rf"""["']{kind.flag}["']|^ +{kind.field} *:""".encode(), re.MULTILINE)
    paths = [
        path
        for path in dict.fromkeys([*mentions(tree, kind.flag), *mentions(tree, kind.field)])
        if b"choices" in (data := tree.content(path) or b"") and declared.search(data)
    ]
    for path in paths:
        module = tree.module(path)
        for node in ast.walk(ast.Module(module.body, [])) if module else ():
            match node:
                case ast.Call(args=[ast.Constant(value=first), *_], keywords=keywords):
                    if first != kind.flag:
                        continue
                case ast.AnnAssign(target=ast.Name(id=kind.field), annotation=inner):
                    keywords = [k for k in ast.walk(inner) if isinstance(k, ast.keyword)]
                case _:
                    continue
            for keyword in keywords:
                if keyword.arg != "choices" or kind.attribute in source(keyword.value):
                    continue
                names = _texts(evaluate(keyword.value, module))  # type: ignore[arg-type]
                if names:
                    return names
    return ()


def _name_list(tree: Tree, kind: Kind) -> tuple[str, ...]:
    """A list of names that a module keeps for the option: ``TOOL_CALL_PARSER_NAMES``."""
    word = f"{kind.field}_NAMES".upper()
    for path in mentions(tree, word):
        module = tree.module(path)
        for name, nodes in module.bindings.items() if module else ():
            if name.upper().endswith(word) and not isinstance(nodes[0], ast.ImportFrom):
                names = _texts(lookup(module, name))  # type: ignore[arg-type]
                if names:
                    return names
    return ()


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple, set, dict)) or not is_known(value):
        return ()
    return tuple(item for item in value if isinstance(item, str))
