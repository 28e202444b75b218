"""The parser tables of a tree: names, classes, and the texts those classes look for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from auditor.serve.tables.constants import (
    UNKNOWN,
    Module,
    Tree,
    attribute,
    changed,
    evaluate,
    instance,
    lookup,
    mro,
)
from auditor.serve.tables.facts import ReasoningParser, ToolParser
from auditor.serve.tables.looks import looked_for
from auditor.serve.tables.modules import definitions, source
from auditor.serve.tables.values import ClassValue, External, FunctionValue, is_known

TOOL_FLAG, REASONING_FLAG = "--tool-call-parser", "--reasoning-parser"


@dataclass(frozen=True)
class _Kind:
    """Where a table of parsers stands: the class attribute, and the file that has it so far."""

    owner: str
    attribute: str
    path: str
    field: str  # of the server's arguments

    @property
    def flag(self) -> str:
        return "--" + self.field.replace("_", "-")


_TOOL = _Kind(
    "FunctionCallParser",
    "ToolCallParserEnum",
    "sglang/srt/function_call/function_call_parser.py",
    "tool_call_parser",
)
_REASONING = _Kind(
    "ReasoningParser",
    "DetectorMap",
    "sglang/srt/parser/reasoning_parser.py",
    "reasoning_parser",
)


WORDS = tuple(
    word.encode()
    for kind in (_TOOL, _REASONING)
    for word in (
        kind.attribute,
        f"class {kind.owner}",
        kind.field,
        f"{kind.field}_NAMES".upper(),
        kind.flag,
    )
)
"""Words that the files of interest hold; see ``Tree.mentioning``."""


@dataclass(frozen=True)
class _Row:
    name: str
    value: object
    path: str
    line: int


@dataclass(frozen=True)
class _Table:
    owner: ClassValue
    rows: tuple[_Row, ...]


def tool_parsers(tree: Tree) -> tuple[ToolParser, ...]:
    """The rows of the tool-call parser table, in its order; what is unclear goes to the notes."""
    table = _table(tree, _TOOL)
    if table is None:
        return ()
    renamed = _renamed(tree, {row.name for row in table.rows})
    given = _given_by_owner(table.owner)
    return tuple(_tool_parser(row, given, renamed) for row in table.rows)


def reasoning_parsers(tree: Tree) -> tuple[ReasoningParser, ...]:
    """The rows of the reasoning parser table, in its order; what is unclear goes to the notes."""
    table = _table(tree, _REASONING)
    if table is None:
        return ()
    given = _given_by_owner(table.owner)
    forced = _forced_by_owner(table.owner, {row.name for row in table.rows})
    return tuple(_reasoning_parser(row, given, forced) for row in table.rows)


def cli_choices(tree: Tree) -> dict[str, tuple[str, ...]]:
    """Names that the command line offers by flag, where a list apart from the table says so."""
    found: dict[str, tuple[str, ...]] = {}
    for kind in (_TOOL, _REASONING):
        names = _choices(tree, kind) or _name_list(tree, kind)
        if names:
            found[kind.flag] = names
    return found


# Tables


def _mentions(tree: Tree, word: str) -> tuple[str, ...]:
    """The files that hold a word, one of ``WORDS``."""
    return tree.mentioning(WORDS)[word.encode()]


def _table(tree: Tree, kind: _Kind) -> _Table | None:
    owner = _owner(tree, kind)
    if owner is None:
        tree.note(f"no class with {kind.attribute}, where {kind.flag} is looked up")
        return None
    name = kind.attribute if kind.attribute in _own_names(owner) else _only_table(owner)
    rows = attribute(owner, name) if name else UNKNOWN
    own = [node for each in mro(owner) for node in each.bindings.get(name, ())]
    places: list[tuple[Module, Sequence[ast.stmt]]] = []
    for node in own:
        for used in {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}:
            places.extend(_definition(owner.module, used))
    later = [s for s in owner.module.bindings.get(owner.name, ()) if s is not owner.node]
    places += [(owner.module, later), (owner.module, own)]
    for path in _mentions(tree, kind.attribute):
        module = tree.module(path)
        if module is None:
            continue
        changes = list(_changes(module, name, outermost=module is not owner.module))
        if changes:
            rows = changed(owner, name, rows, changes, module)
            places.append((module, changes))
    if not isinstance(rows, dict):
        tree.note(f"{owner.module.path}: {owner.name}.{name} is put together at run time")
        return None
    if UNKNOWN in rows:
        tree.note(f"{owner.module.path}: some rows of {owner.name}.{name} come at run time")
    lines = _lines(places)
    start = (owner.module.path, owner.node.lineno)
    return _Table(
        owner,
        tuple(
            _Row(key, value, *lines.get(key, start))
            for key, value in rows.items()
            if isinstance(key, str)
        ),
    )


def _own_names(cls: ClassValue) -> set[str]:
    return {name for each in mro(cls) for name in each.bindings}


def _owner(tree: Tree, kind: _Kind) -> ClassValue | None:
    """The class that has the table: the usual file first, then wherever the names stand."""
    paths = dict.fromkeys(
        [kind.path, *_mentions(tree, f"class {kind.owner}"), *_mentions(tree, kind.attribute)]
    )
    classes = []
    for path in paths:
        module = tree.module(path)
        for node in module.classes.values() if module else ():
            cls = ClassValue(module, node)  # type: ignore[arg-type]
            if kind.attribute in cls.bindings:
                return cls
            if node.name == kind.owner:
                classes.append(cls)
    return next((cls for cls in classes if _only_table(cls)), None)


def _only_table(cls: ClassValue) -> str:
    """The class attribute that has classes by name, where the usual one is missing."""
    for name in _own_names(cls):
        value = attribute(cls, name)
        if isinstance(value, dict) and value:
            if all(isinstance(item, (ClassValue, External)) for item in value.values()):
                return name
    return ""


def _changes(module: Module, name: str, outermost: bool) -> Iterator[ast.stmt]:
    """Statements of a module that add rows to the table, with the imports that they stand behind.

    Those of the owner's own top level are known to the evaluation already.
    """
    if outermost:
        yield from _changing(module.body, name)
    for node in ast.walk(ast.Module(module.body, [])):
        if isinstance(node, ast.FunctionDef):
            found = list(_changing(node.body, name))
            if found:
                yield from (
                    inner
                    for inner in definitions(node.body)
                    if isinstance(inner, (ast.Import, ast.ImportFrom))
                )
                yield from found


def _changing(body: Sequence[ast.stmt], name: str) -> Iterator[ast.stmt]:
    for node in definitions(body):
        target: ast.expr | None = None
        match node:
            case ast.Assign(targets=[ast.Subscript(value=place, slice=ast.Constant())]):
                target = place
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=place))):
                target = place
            case ast.AugAssign(target=place):
                target = place
        if isinstance(target, ast.Attribute) and target.attr == name:
            yield node


def _lines(places: Sequence[tuple[Module, Sequence[ast.stmt]]]) -> dict[str, tuple[str, int]]:
    """Where each row stands: keys of dictionaries and subscripts; the last place counts."""
    found: dict[str, tuple[str, int]] = {}
    for module, body in places:
        for node in body:
            for inner in ast.walk(node):
                match inner:
                    case ast.Dict():
                        keys: list[ast.expr | None] = inner.keys
                    case ast.Subscript(slice=key):
                        keys = [key]
                    case ast.keyword(arg=str() as word, value=item):
                        found[word] = (module.path, item.lineno)
                        continue
                    case _:
                        continue
                for each in keys:
                    if isinstance(each, ast.Constant) and isinstance(each.value, str):
                        found[each.value] = (module.path, each.lineno)
    return found


_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _definition(module: Module, name: str) -> Iterator[tuple[Module, list[ast.stmt]]]:
    """The statements behind a name that is used in a module."""
    for node in module.bindings.get(name, ()):
        if isinstance(node, ast.ImportFrom):
            other = module.tree.find(module.absolute(node))
            for alias in node.names:
                if other is not None and (alias.asname or alias.name) == name:
                    found = other.bindings.get(alias.name, [])
                    yield other, [each for each in found if not isinstance(each, _DEFINITIONS)]
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            yield module, [node]


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


def _class(row: _Row) -> tuple[str, str]:
    """Name and path of a row's class."""
    if isinstance(row.value, ClassValue):
        return row.value.name, row.value.module.path
    if isinstance(row.value, External):
        return row.value.dotted.rpartition(".")[2], ""
    return "", ""


def _about(cls: ClassValue) -> str:
    text = ast.get_docstring(cls.node) or ""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _tool_parser(row: _Row, given: Mapping[str, object], renamed: Mapping[str, str]) -> ToolParser:
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
    for path in _mentions(tree, _TOOL.field):
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


def _reasoning_parser(row: _Row, given: Mapping[str, object], forced: set[str]) -> ReasoningParser:
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


def _choices(tree: Tree, kind: _Kind) -> tuple[str, ...]:
    """``choices`` of the option where they are a list of constants, not the table's own keys."""
    # The option as a text of its own, or the field of that name.
    declared = re.compile(rf"""["']{kind.flag}["']|^ +{kind.field} *:""".encode(), re.MULTILINE)
    paths = [
        path
        for path in dict.fromkeys([*_mentions(tree, kind.flag), *_mentions(tree, kind.field)])
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


def _name_list(tree: Tree, kind: _Kind) -> tuple[str, ...]:
    """A list of names that a module keeps for the option: ``TOOL_CALL_PARSER_NAMES``."""
    word = f"{kind.field}_NAMES".upper()
    for path in _mentions(tree, word):
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
