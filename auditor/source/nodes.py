"""Small questions about nodes of a syntax tree, for the reading of facts."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from auditor.source import facts as f

ELLIPSIS = f.Const("other")
"""What stands for a literal that says nothing."""


def definitions(body: Iterable[ast.stmt]) -> Iterable[ast.stmt]:
    """The statements of a module or class body, through ``if``, ``try``, ``with`` and the like."""
    pending = list(body)[::-1]
    while pending:
        node = pending.pop()
        inner: list[ast.stmt] = []
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            for part in ("body", "handlers", "cases", "orelse", "finalbody"):
                for child in getattr(node, part, ()):
                    inner += [child] if isinstance(child, ast.stmt) else child.body
        if inner:
            pending.extend(reversed(inner))
        else:
            yield node


def operands(node: ast.BinOp) -> list[ast.expr]:
    """The operands of ``a + b + c``, which is nested to the left."""
    found = [node.right]
    left = node.left
    while isinstance(left, ast.BinOp):
        found.append(left.right)
        left = left.left
    return [left, *reversed(found)]


def callee(node: ast.expr) -> ast.expr:
    """What a decorator calls, or is."""
    return node.func if isinstance(node, ast.Call) else node


def end_of(node: ast.stmt) -> int:
    """The last line of a statement."""
    return node.end_lineno or node.lineno


def comparison_of(node: ast.Compare) -> str:
    """The operator of a comparison that facts keep apart."""
    if len(node.ops) != 1:
        return "compare"
    names = {ast.Is: "is", ast.IsNot: "is not", ast.Eq: "==", ast.NotEq: "!="}
    return names.get(type(node.ops[0]), "compare")


def constant_of(value: object) -> f.Const:
    """A literal as a fact."""
    if value is None:
        return f.Const("none")
    if isinstance(value, bool):
        return f.Const("bool", str(value))
    if isinstance(value, int):
        return f.Const("int", str(value)[:20]) if abs(value) < 10**18 else ELLIPSIS
    if isinstance(value, str):
        return f.Const("str", value if len(value) <= 200 else "")
    return ELLIPSIS
