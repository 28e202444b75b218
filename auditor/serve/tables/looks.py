"""What a tool-call parser looks for in the model's output, by its own ``has_tool_call``."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from auditor.serve.tables.constants import attribute, evaluate, mro
from auditor.serve.tables.modules import source
from auditor.serve.tables.values import ClassValue, FunctionValue, Instance, members

_DEEPEST = 3
"""Functions within each other that are followed."""


@dataclass
class Looked:
    """``texts`` of which one must stand in the output; ``unknown`` are tests for other texts.

    A test whose text a run decides is named by its source (``bot_token``).
    """

    texts: list[str] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)


def looked_for(cls: ClassValue, constants: Mapping[str, object]) -> Looked:
    """The texts that ``has_tool_call`` of a class tests for, with the class's constants."""
    found = Looked()
    this = Instance(cls, dict(constants))
    line = list(mro(cls))
    for each in line:
        if "has_tool_call" in each.bindings:
            method = attribute(each, "has_tool_call")
            if isinstance(method, FunctionValue):
                _Reader(found, this, line).function(method, "", 0)
            break
    return found


@dataclass
class _Reader:
    found: Looked
    this: Instance
    line: list[ClassValue]

    def function(self, func: FunctionValue, text: str, depth: int) -> None:
        """Read a function; ``text`` is its parameter with the output, by default the last one."""
        if depth > _DEEPEST or isinstance(func.node, ast.Lambda):
            return
        parameters = [arg.arg for arg in func.node.args.args]
        if not parameters:
            return
        text = text or parameters[-1]
        loops = {
            id(inner)
            for node in ast.walk(func.node)
            if isinstance(node, (ast.GeneratorExp, ast.ListComp))
            for inner in ast.walk(node)
        }
        for node in ast.walk(func.node):
            match node:
                case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[right]):
                    if id(node) not in loops and _names(right, text):
                        self.add(left, func)
                case (
                    ast.GeneratorExp(elt=elt, generators=loop)
                    | ast.ListComp(elt=elt, generators=loop)
                ):
                    if isinstance(elt, ast.Compare) and _names(elt.comparators[0], text):
                        self.add(ast.ListComp(elt.left, loop), func)
                case ast.Call(func=ast.Attribute(value=value, attr="startswith"), args=[first]):
                    if _names(value, text):
                        self.add(first, func)
                case ast.Call(func=callee, args=args):
                    if any(
                        isinstance(arg, (ast.Name, ast.Call)) and _names(arg, text) for arg in args
                    ):
                        self.call(callee, func, depth)

    def add(self, node: ast.expr, func: FunctionValue) -> None:
        value = evaluate(node, func.module, {"self": self.this})
        values = [value] if isinstance(value, str) else members(value)
        for each in [None] if values is None else values:
            if isinstance(each, str) and each:
                if each not in self.found.texts:
                    self.found.texts.append(each)
            else:
                self.found.unknown.add(source(node, 60).removeprefix("self."))

    def call(self, callee: ast.expr, func: FunctionValue, depth: int) -> None:
        """Follow ``helper(text)``, ``self.method(text)`` and ``super().has_tool_call(text)``."""
        target: object = None
        match callee:
            case ast.Name():
                target = evaluate(callee, func.module)
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name):
                behind = self.line[self.line.index(func.owner) + 1 :] if func.owner else []
                owner = next((cls for cls in behind if name in cls.bindings), None)
                target = attribute(owner, name) if owner else None
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                target = attribute(self.this.cls, name)
        if isinstance(target, FunctionValue):
            self.function(target, "", depth + 1)


def _names(node: ast.expr, name: str) -> bool:
    """Whether an expression is made from a name."""
    return any(isinstance(inner, ast.Name) and inner.id == name for inner in ast.walk(node))
