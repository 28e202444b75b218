"""What tests in the code of the start ask of settings."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from auditor.serve.tables.constants import UNKNOWN, Module, Tree, evaluate, lookup
from auditor.serve.tables.facts import Term
from auditor.serve.tables.flags import Field
from auditor.serve.tables.nodes import last_name
from auditor.serve.tables.terms import (
    ALWAYS,
    NEVER,
    Cases,
    both,
    compare,
    either,
    opposite,
)
from auditor.serve.tables.values import ClassValue, FunctionValue, is_known

_DUMMY = {"'none'", "'dummy'"}
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Imports = dict[str, tuple[str, str]]


class Tests:
    """Code that is walked, as far as it only asks."""

    def __init__(self, tree: Tree, owner: ClassValue, declared: Mapping[str, Field]) -> None:
        self.tree = tree
        self.owner = owner
        self.fields = dict(declared)
        self.refusals: list[Refusal] = []
        self.entered: set[int] = set()
        self.strangers: set[str] = set()
        self.order = 0
        self.steps = 0
        self.stack: list[int] = []
        # By the expression, since functions are entered more than once:
        self.parts: dict[int, list[ast.Dict | ast.Tuple | ast.Call]] = {}
        self.constants: dict[int, object] = {}
        self.functions: dict[int, FunctionValue | None] = {}
        self.known: dict[int, tuple[Imports, dict[str, ast.expr], dict[str, list[object]]]] = {}
        self.methods = {
            n.name: n
            for n in owner.node.body
            if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))
        }

    def function(self, node: ast.expr, frame: Frame) -> FunctionValue | None:
        """The function of the tree that an expression names, found once."""
        if id(node) not in self.functions:
            self.functions[id(node)] = self.resolved(node, frame)
        return self.functions[id(node)]

    def resolved(self, node: ast.expr, frame: Frame) -> FunctionValue | None:
        """The function of the tree that an expression names."""
        if isinstance(node, ast.Name) and node.id in frame.imports:
            value = imported(node, frame)[node.id] if imported(node, frame) else UNKNOWN
        elif isinstance(node, ast.Name) and node.id in frame.module.bindings:
            value = lookup(frame.module, node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            value = evaluate(node, frame.module, imported(node, frame))
        else:
            return None
        return value if isinstance(value, FunctionValue) else None

    def is_args(self, node: ast.expr | None, frame: Frame) -> bool:
        """Whether an expression stands for the settings, resolved as far as they are by then."""
        if isinstance(node, ast.Name):
            return node.id in frame.args
        return node is not None and self.is_view(node, frame)

    def is_view(self, node: ast.expr, frame: Frame) -> bool:
        """Whether an expression stands for a view of the settings."""
        match node:
            case ast.Call(func=function, args=[first]):
                return "view" in last_name(function).lower() and self.is_args(first, frame)
            case ast.Name(id=name):
                return name in frame.args
        return False

    def field_of(self, node: ast.expr | None, frame: Frame) -> str | None:
        """The setting that an expression reads; None where it reads none."""
        match node:
            case ast.Attribute(value=owner, attr=name) if name in self.fields:
                return name if self.is_args(owner, frame) else None
            case ast.Call(
                func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=str(name)), *_]
            ) if name in self.fields:
                return name if self.is_args(owner, frame) else None
            case ast.Name(id=name) if name in frame.once and name not in frame.args:
                inner = frame.once[name]
                return None if isinstance(inner, ast.Name) else self.field_of(inner, frame)
        return None

    def constant(self, node: ast.expr, frame: Frame) -> object:
        """The value of an expression that calls nothing, ``UNKNOWN`` where it is no constant."""
        if id(node) not in self.constants:
            value: object = UNKNOWN
            if not any(isinstance(inner, ast.Call) for inner in ast.walk(node)):
                value = evaluate(node, frame.module, imported(node, frame))
            self.constants[id(node)] = value if is_known(value) else UNKNOWN
        return self.constants[id(node)]

    def test(
        self, node: ast.expr, frame: Frame, negated: bool, depth: int = 0
    ) -> tuple[Cases, Cases]:
        """When a test (or its opposite) surely holds, and outside of what it surely does not."""
        unknown = (NEVER, ALWAYS)
        if depth > 20:
            return unknown
        name = self.field_of(node, frame)
        if name is not None:
            term = (frozenset([Term(name, "false" if negated else "true")]),)
            return term, term
        match node:
            case ast.BoolOp(op=op, values=values):
                parts = [self.test(value, frame, negated, depth + 1) for value in values]
                if isinstance(op, ast.And) != negated:
                    surely: Cases = ALWAYS
                    maybe: Cases = ALWAYS
                    for part in parts:
                        surely = both(surely, part[0], NEVER)
                        maybe = both(maybe, part[1], maybe)
                    return surely, maybe
                return (
                    either((part[0] for part in parts), NEVER),
                    either((part[1] for part in parts), ALWAYS),
                )
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return self.test(inner, frame, not negated, depth + 1)
            case ast.Compare():
                return self.comparison(node, frame, negated, depth)
            case ast.Call(func=ast.Name(id="bool"), args=[inner]):
                return self.test(inner, frame, negated, depth + 1)
            case ast.Call(
                func=ast.Name(id="getattr"),
                args=[owner, ast.Constant(value=str(attr)), ast.Constant(value=default)],
            ) if attr.startswith("_") and self.is_args(owner, frame):
                # Bookkeeping of the start itself, which is not set when it begins.
                return (ALWAYS, ALWAYS) if bool(default) != negated else (NEVER, NEVER)
            case ast.Constant(value=value):
                return (ALWAYS, ALWAYS) if bool(value) != negated else (NEVER, NEVER)
            case ast.Name(id=name) if name in frame.once:
                return self.test(frame.once[name], frame, negated, depth + 1)
        return unknown

    def comparison(
        self, node: ast.Compare, frame: Frame, negated: bool, depth: int
    ) -> tuple[Cases, Cases]:
        """When a comparison of a setting with a constant holds, as in ``test``."""
        if len(node.ops) > 1:
            sides = [node.left, *node.comparators]
            pairs: list[ast.expr] = [
                ast.Compare(left, [op], [right])
                for left, op, right in zip(sides, node.ops, sides[1:], strict=False)
            ]
            return self.test(ast.BoolOp(ast.And(), pairs), frame, negated, depth + 1)
        op, right = node.ops[0], node.comparators[0]
        name, other = self.field_of(node.left, frame), right
        match node.left:
            case ast.Call(func=ast.Attribute(value=inner, attr="lower"), args=[]) if (
                self.field_of(inner, frame) == "model_path"
            ):
                name = "model_path"
        if name is None:
            name, other = self.field_of(right, frame), node.left
            flipped = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE}
            if isinstance(op, (ast.In, ast.NotIn)):
                name = None
            op = flipped.get(type(op), type(op))()
        value = self.constant(other, frame) if name is not None else UNKNOWN
        term = compare(name, op, value) if name is not None and value is not UNKNOWN else None
        if term is None:
            return NEVER, ALWAYS
        if name == "model_path" and term.op in ("==", "in") and set(term.values) <= _DUMMY:
            # A launch that serves names a real model: the tree leaves early for these two.
            return (ALWAYS, ALWAYS) if negated else (NEVER, NEVER)
        case = (frozenset([opposite(term) if negated else term]),)
        return case, case


@dataclass(frozen=True)
class Refusal:
    """A start that is refused: when, with which words, where."""

    when: Cases
    message: str
    path: str
    line: int
    order: int


@dataclass
class Frame:
    """A function on the way: the names that stand for the settings, for a field or for a test."""

    module: Module
    args: set[str]
    owner: ClassValue | None
    imports: Imports
    once: Mapping[str, ast.expr]
    loops: Mapping[str, Sequence[object]]
    depth: int
    exits: list[Cases] = field(default_factory=list)


def imported(node: ast.AST, frame: Frame) -> dict[str, object]:
    """The values of the names in an expression that its function imports."""
    found: dict[str, object] = {}
    for name in ast.walk(node):
        if isinstance(name, ast.Name) and name.id in frame.imports:
            dotted, inner = frame.imports[name.id]
            module = frame.module.tree.find(dotted)
            if module is not None:
                found[name.id] = lookup(module, inner)
    return found
