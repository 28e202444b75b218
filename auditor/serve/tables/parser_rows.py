"""The tables of parsers: which class has one, its rows, and the lines that they stand on."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from auditor.serve.tables.constants import (
    UNKNOWN,
    Module,
    Tree,
    attribute,
    changed,
    mro,
)
from auditor.serve.tables.modules import definitions
from auditor.serve.tables.values import ClassValue, External

_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Kind:
    """Where a table of parsers stands: the class attribute, and the file that has it so far."""

    owner: str
    attribute: str
    path: str
    field: str  # of the server's arguments

    @property
    def flag(self) -> str:
        """The option that chooses one of them."""
        return "--" + self.field.replace("_", "-")


TOOL = Kind(
    "FunctionCallParser",
    "ToolCallParserEnum",
    "sglang/srt/function_call/function_call_parser.py",
    "tool_call_parser",
)


REASONING = Kind(
    "ReasoningParser",
    "DetectorMap",
    "sglang/srt/parser/reasoning_parser.py",
    "reasoning_parser",
)


WORDS = tuple(
    word.encode()
    for kind in (TOOL, REASONING)
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
class Row:
    """A parser of the table: its name, its class or what stands for it, and its place."""

    name: str
    value: object
    path: str
    line: int


@dataclass(frozen=True)
class Table:
    """The class that has a table, and its rows."""

    owner: ClassValue
    rows: tuple[Row, ...]


def mentions(tree: Tree, word: str) -> tuple[str, ...]:
    """The files that hold a word, one of ``WORDS``."""
    return tree.mentioning(WORDS)[word.encode()]


def table_of(tree: Tree, kind: Kind) -> Table | None:
    """The table of a kind; None where the tree has none."""
    owner = owner_of(tree, kind)
    if owner is None:
        tree.note(f"no class with {kind.attribute}, where {kind.flag} is looked up")
        return None
    name = kind.attribute if kind.attribute in own_names(owner) else _only_table(owner)
    rows = attribute(owner, name) if name else UNKNOWN
    own = [node for each in mro(owner) for node in each.bindings.get(name, ())]
    places: list[tuple[Module, Sequence[ast.stmt]]] = []
    for node in own:
        for used in {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}:
            places.extend(_definition(owner.module, used))
    later = [s for s in owner.module.bindings.get(owner.name, ()) if s is not owner.node]
    places += [(owner.module, later), (owner.module, own)]
    for path in mentions(tree, kind.attribute):
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
    return Table(
        owner,
        tuple(
            Row(key, value, *lines.get(key, start))
            for key, value in rows.items()
            if isinstance(key, str)
        ),
    )


def own_names(cls: ClassValue) -> set[str]:
    """The names that a class has of its own."""
    return {name for each in mro(cls) for name in each.bindings}


def owner_of(tree: Tree, kind: Kind) -> ClassValue | None:
    """The class that has the table: the usual file first, then wherever the names stand."""
    paths = dict.fromkeys(
        [kind.path, *mentions(tree, f"class {kind.owner}"), *mentions(tree, kind.attribute)]
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
    for name in own_names(cls):
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
