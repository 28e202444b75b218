"""Which functions of a release wait for a layer before they read, found independently of the tool.

A gate is a statement that is nothing but a layer-keyed wait: ``x.wait_until(...)``, a call of a
wrapper whose whole body is such a wait, or an ``if`` around them that feeds and holds nothing
else. A gated reader has a gate with something after it. What a reader reads is told apart only as
far as "do two readers touch the same attribute", which is what counting siblings needs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

PRIMITIVES = frozenset({"wait_until"})

_LOOKUP = re.compile(
    r"mapping|_map$|dtype|layer|_dim$|_rank$|size$|counter|_ratio|quant_method|stream$|module$"
)
"""Attributes that a reader uses to find its buffer, not the buffer."""

_CLASS = re.compile(rb"^class[ ]+(\w+)(?:\(([^)]*)\))?:", re.MULTILINE)


@dataclass(frozen=True)
class GatedReader:
    """One function that waits and then reads; ``path`` starts with ``sglang/``."""

    path: str
    qualname: str
    line: int
    buffers: frozenset[str]

    @property
    def owner(self) -> str:
        return self.qualname.rpartition(".")[0]

    @property
    def name(self) -> str:
        return self.qualname.rpartition(".")[2]


@dataclass(frozen=True)
class Gates:
    """All that a release says about its gates.

    ``owners`` are the classes with a gated reader or a wrapper, ``ancestors`` maps a class to
    itself, its bases and their bases by name, over the whole release.
    """

    readers: tuple[GatedReader, ...]
    wrappers: frozenset[str]
    counters: frozenset[str]
    owners: frozenset[str]
    ancestors: dict[str, frozenset[str]]

    @property
    def names(self) -> frozenset[str]:
        return PRIMITIVES | self.wrappers

    def siblings(self, reader: GatedReader) -> list[GatedReader]:
        """Other gated readers of an attribute of this one's, in its class, bases or subclasses."""
        return [
            other
            for other in self.readers
            if other != reader
            and other.owner
            and other.buffers & reader.buffers
            and self._related(other.owner, reader.owner)
        ]

    def _related(self, one: str, other: str) -> bool:
        return other in self.ancestors.get(one, ()) or one in self.ancestors.get(other, ())


def is_gate(statement: cst.BaseStatement, names: frozenset[str]) -> bool:
    """Whether the statement only waits; an ``if`` may also prepare the argument of its wait."""
    if isinstance(statement, cst.SimpleStatementLine):
        return len(statement.body) == 1 and _is_wait(statement.body[0], names)
    if not isinstance(statement, cst.If) or statement.orelse is not None:
        return False
    body = statement.body.body
    *before, last = body
    return (
        isinstance(last, cst.BaseStatement)
        and is_gate(last, names)
        and all(isinstance(s, cst.BaseStatement) and _prepares(s, names) for s in before)
    )


def _is_wait(node: cst.CSTNode, names: frozenset[str]) -> bool:
    return (
        isinstance(node, cst.Expr)
        and isinstance(node.value, cst.Call)
        and isinstance(node.value.func, cst.Attribute)
        and node.value.func.attr.value in names
    )


def _prepares(statement: cst.BaseStatement, names: frozenset[str]) -> bool:
    if is_gate(statement, names):
        return True
    return isinstance(statement, cst.SimpleStatementLine) and all(
        isinstance(part, cst.Assign)
        and all(isinstance(target.target, cst.Name) for target in part.targets)
        for part in statement.body
    )


def without_docstring(function: cst.FunctionDef) -> Sequence[cst.CSTNode]:
    """The statements of a function's body, its docstring left out."""
    body = list(function.body.body)
    if function.get_docstring() is not None:
        return body[1:]
    return body


class _Functions(cst.CSTVisitor):
    """Collects the functions and methods of a module (nested functions belong to their owner)."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self) -> None:
        self.found: list[tuple[str, int, cst.FunctionDef]] = []
        self._stack: list[str] = []

    def visit_ClassDef(self, node: cst.ClassDef) -> None:  # noqa: N802
        self._stack.append(node.name.value)

    def leave_ClassDef(self, original_node: cst.ClassDef) -> None:  # noqa: N802
        self._stack.pop()

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:  # noqa: N802
        line = self.get_metadata(PositionProvider, node.name).start.line
        self.found.append((".".join([*self._stack, node.name.value]), line, node))
        return False


def _functions(source: bytes) -> list[tuple[str, int, cst.FunctionDef]]:
    visitor = _Functions()
    MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True).visit(visitor)
    return visitor.found


def _waits_then_reads(statements: Sequence[cst.CSTNode], names: frozenset[str]) -> bool:
    """Whether a gate of these statements, or of a block in them, has something after it."""
    for index, statement in enumerate(statements):
        if not isinstance(statement, cst.BaseStatement):
            continue
        if is_gate(statement, names):
            if any(
                isinstance(later, cst.BaseStatement) and not is_gate(later, names)
                for later in statements[index + 1 :]
            ):
                return True
        elif any(_block_waits(block, names) for block in _blocks(statement)):
            last = index + 1 == len(statements)
            if not last or any(_waits_then_reads(b, names) for b in _blocks(statement)):
                return True
    return False


def _block_waits(block: Sequence[cst.CSTNode], names: frozenset[str]) -> bool:
    return any(
        isinstance(statement, cst.BaseStatement)
        and (is_gate(statement, names) or any(_block_waits(b, names) for b in _blocks(statement)))
        for statement in block
    )


def _blocks(statement: cst.CSTNode) -> Iterator[Sequence[cst.CSTNode]]:
    if isinstance(statement, (cst.If, cst.For, cst.While, cst.With, cst.Try)):
        yield statement.body.body
    if isinstance(statement, cst.If) and statement.orelse is not None:
        yield from _blocks(statement.orelse)
    if isinstance(statement, cst.Else):
        yield statement.body.body


def read_tree(tree: Path) -> dict[str, bytes]:
    """Path (from ``sglang/`` on) to bytes of every Python file of a release."""
    return {
        str(path.relative_to(tree)): path.read_bytes()
        for path in sorted(tree.rglob("sglang/**/*.py"))
    }


def find_gates(files: dict[str, bytes]) -> Gates:
    """Every gated reader of the release, with the wrappers, counters and classes they rest on."""
    primitive = re.compile(rb"\.(" + b"|".join(n.encode() for n in sorted(PRIMITIVES)) + rb")\(")
    parsed = {
        path: _functions(source) for path, source in files.items() if primitive.search(source)
    }
    wrappers, holders = set(), set()
    for functions in parsed.values():
        for qualname, _, function in functions:
            body = without_docstring(function)
            if all(isinstance(s, cst.BaseStatement) and is_gate(s, PRIMITIVES) for s in body):
                wrappers.add(qualname.rpartition(".")[2])
                holders.add(qualname.rpartition(".")[0])
    names = PRIMITIVES | wrappers
    calls = re.compile(rb"\.(" + b"|".join(n.encode() for n in sorted(names)) + rb")\(")
    for path, source in files.items():
        if path not in parsed and calls.search(source):
            parsed[path] = _functions(source)

    ancestors = _ancestors(files)
    reads = _Reads(files, parsed, ancestors, names)
    readers = [
        GatedReader(path, qualname, line, reads.of(qualname))
        for path, functions in sorted(parsed.items())
        for qualname, line, function in functions
        if qualname.rpartition(".")[2] not in names
        and _waits_then_reads(without_docstring(function), names)
    ]
    counters = {
        match.group(1).decode()
        for path in parsed
        for match in re.finditer(rb"self\.(?:\w+\.)?(\w+)\.wait_until\(", files[path])
    }
    return Gates(
        readers=tuple(readers),
        wrappers=frozenset(wrappers),
        counters=frozenset(counters),
        owners=frozenset({reader.owner for reader in readers} | holders) - {""},
        ancestors=ancestors,
    )


def _ancestors(files: dict[str, bytes]) -> dict[str, frozenset[str]]:
    bases: dict[str, set[str]] = {}
    for source in files.values():
        for match in _CLASS.finditer(source):
            named = re.findall(rb"[\w.]+", match.group(2) or b"")
            own = bases.setdefault(match.group(1).decode(), set())
            own |= {base.rpartition(b".")[2].decode() for base in named}
    closed: dict[str, frozenset[str]] = {}
    for name in bases:
        seen, todo = {name}, [name]
        while todo:
            new = bases.get(todo.pop(), set()) - seen
            seen |= new
            todo += new
        closed[name] = frozenset(seen)
    return closed


class _Reads:
    """What attributes of ``self`` a method touches, through helpers on ``self`` as well."""

    def __init__(
        self,
        files: dict[str, bytes],
        parsed: dict[str, list[tuple[str, int, cst.FunctionDef]]],
        ancestors: dict[str, frozenset[str]],
        names: frozenset[str],
    ) -> None:
        self._ancestors = ancestors
        self._names = names
        self._methods: dict[tuple[str, str], ast.FunctionDef] = {}
        for path in sorted(parsed):
            for node in ast.parse(files[path]).body:
                inner = node.body if isinstance(node, ast.ClassDef) else [node]
                owner = node.name if isinstance(node, ast.ClassDef) else ""
                for function in inner:
                    if isinstance(function, ast.FunctionDef):
                        self._methods[owner, function.name] = function

    def of(self, qualname: str) -> frozenset[str]:
        owner, _, name = qualname.rpartition(".")
        return frozenset(self._touched(owner, name, set()))

    def _touched(self, owner: str, name: str, seen: set[str]) -> Iterator[str]:
        function = self._methods.get((owner, name)) or next(
            (
                self._methods[base, name]
                for base in sorted(self._ancestors.get(owner, ()))
                if (base, name) in self._methods
            ),
            None,
        )
        if function is None or name in seen:
            return
        seen.add(name)
        for node in ast.walk(function):
            for value in _used(node):
                attribute = _own_attribute(value)
                if attribute and not _LOOKUP.search(attribute):
                    yield attribute
            if isinstance(node, ast.Call):
                helper = _own_attribute(node.func)
                if helper and helper not in self._names:
                    yield from self._touched(owner, helper, seen)


def _used(node: ast.AST) -> Iterator[ast.AST | None]:
    """Expressions whose value leaves the node: subscripted, called upon, assigned, returned."""
    if isinstance(node, ast.Subscript):
        yield node.value
        if isinstance(node.value, ast.Attribute):
            yield node.value.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield node.func.value
    elif isinstance(node, (ast.Assign, ast.Return)):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse


def _own_attribute(node: ast.AST | None) -> str:
    if (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in ("self", "pool")
    ):
        return node.attr
    return ""
