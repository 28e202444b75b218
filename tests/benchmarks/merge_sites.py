"""The functions of a release that wait once and then read, and edits of their lines."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.benchmarks.gated import GatedReader, Gates
from tests.benchmarks.mutants import Unfit

Function = ast.FunctionDef


@dataclass
class Site:
    """One function that waits and reads, in its file, with the gate apart from the rest."""

    reader: GatedReader
    gates: Gates
    files: dict[str, bytes]
    text: str = ""
    owner: ast.ClassDef | None = None
    function: Function = field(init=False)
    gate: ast.stmt = field(init=False)
    rest: list[ast.stmt] = field(init=False)

    def __post_init__(self) -> None:
        """Raises ``Unfit`` for a function without exactly one gate at the top of its body."""
        self.text = self.files[self.reader.path].decode()
        self.owner, self.function = _find(self.text, self.reader.qualname)
        body = statements_of(self.function)
        gates = [s for s in body if self.is_gate(s)]
        waits = [c for c in ast.walk(self.function) if self._waits(c)]
        if len(gates) != 1 or len(waits) != 1:
            raise Unfit(f"{self.reader.qualname} has no single gate")
        self.gate = gates[0]
        self.rest = body[body.index(self.gate) + 1 :]
        if not self.rest:
            raise Unfit(f"{self.reader.qualname} only waits")

    def is_gate(self, stmt: ast.stmt) -> bool:
        """Whether a statement is a wait, or a test around nothing but one."""
        if isinstance(stmt, ast.If):
            return not stmt.orelse and len(stmt.body) == 1 and self.is_gate(stmt.body[0])
        return isinstance(stmt, ast.Expr) and self._waits(stmt.value)

    def _waits(self, node: ast.AST) -> bool:
        called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        return called and node.func.attr in self.gates.names  # type: ignore[attr-defined]

    @property
    def wait(self) -> ast.Call:
        """The call that waits."""
        return next(c for c in ast.walk(self.gate) if isinstance(c, ast.Call) and self._waits(c))

    @property
    def index(self) -> ast.expr:
        """What is waited for."""
        if not self.wait.args:
            raise Unfit("no index")
        return self.wait.args[0]

    @property
    def method(self) -> ast.ClassDef:
        """The class of the function. Raises ``Unfit`` where it has none."""
        if self.owner is None:
            raise Unfit(f"{self.reader.qualname} is no method")
        return self.owner

    @property
    def subscript(self) -> ast.Subscript:
        """The first element that is taken of one of the object's own attributes."""
        for stmt in self.rest:
            for node in ast.walk(stmt):
                if isinstance(node, ast.Subscript) and own(node.value) in self.reader.buffers:
                    return node
        raise Unfit(f"{self.reader.qualname} takes no element itself")

    @property
    def subscripts(self) -> list[ast.Subscript]:
        """All elements that are taken of the attribute of the first."""
        attribute = own(self.subscript.value)
        return [
            node
            for stmt in self.rest
            for node in ast.walk(stmt)
            if isinstance(node, ast.Subscript) and own(node.value) == attribute
        ]

    @property
    def from_tuple(self) -> bool:
        """Whether what it reads is found through a mapping of tuples."""
        return bool(self.unpacked)

    @property
    def pool_of_tuple(self) -> bool:
        """Whether a member of such a tuple is what it reads from."""
        receivers = {
            node.value.id
            for stmt in self.rest
            for node in ast.walk(stmt)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        }
        return not receivers.isdisjoint(self.unpacked)

    @property
    def unpacked(self) -> set[str]:
        """The locals that members of a mapping's tuple are given."""
        return {
            name
            for s in self.rest
            if isinstance(s, ast.Assign)
            and isinstance(s.targets[0], ast.Tuple)
            and isinstance(s.value, ast.Subscript)
            and bool(own(s.value.value))
            for name in names(s.targets[0])
        }

    # -- text -------------------------------------------------------------------------------------

    def source(self, node: ast.AST) -> str:
        """The text of an expression."""
        return ast.get_source_segment(self.text, node) or ""

    def lines(self, stmt: ast.stmt) -> list[str]:
        """The lines of a statement, with their indentation."""
        return self.text.split("\n")[stmt.lineno - 1 : stmt.end_lineno]

    def instead(self, *edits: tuple[ast.stmt, Sequence[str]]) -> str:
        """The file with other lines for some statements; ``[]`` deletes one."""
        lines = self.text.split("\n")
        for stmt, new in sorted(edits, key=lambda e: e[0].lineno, reverse=True):
            lines[stmt.lineno - 1 : stmt.end_lineno] = list(new)
        return "\n".join(lines)

    def spliced(self, node: ast.expr, new: str, text: str | None = None) -> str:
        """The file with other text for one expression."""
        data = (self.text if text is None else text).encode().split(b"\n")
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        head, tail = data[first][: node.col_offset], data[last][node.end_col_offset :]
        data[first : last + 1] = [head + new.encode() + tail]
        return b"\n".join(data).decode()

    @property
    def pad(self) -> str:
        """The indentation of the function's body."""
        return " " * self.gate.col_offset


def _find(text: str, qualname: str) -> tuple[ast.ClassDef | None, Function]:
    body: list[ast.stmt] = ast.parse(text).body
    owner: ast.ClassDef | None = None
    *outer, name = qualname.split(".")
    for part in outer:
        owner = next(s for s in body if isinstance(s, ast.ClassDef) and s.name == part)
        body = owner.body
    found = [s for s in body if isinstance(s, ast.FunctionDef) and s.name == name]
    if not found:
        raise Unfit(f"{qualname} is not in its file")
    return owner, found[0]


def statements_of(function: Function) -> list[ast.stmt]:
    """The statements of a function without its docstring."""
    first = function.body[0]
    text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return function.body[1:] if text else function.body


def own(node: ast.AST) -> str:
    """The attribute of self that an expression is; empty for any other."""
    own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    return node.attr if own and node.value.id == "self" else ""  # type: ignore[attr-defined]


def names(node: ast.AST) -> set[str]:
    """The names in an expression or statement."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def deeper(lines: Sequence[str], by: str = "    ") -> list[str]:
    """Lines one block further in."""
    return [by + line if line.strip() else line for line in lines]
