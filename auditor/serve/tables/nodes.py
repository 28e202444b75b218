"""Small questions about nodes of a syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

from auditor.serve.tables.constants import Module, evaluate


def text_of(node: ast.expr, module: Module, scope: Mapping[str, object] | None = None) -> str:
    """The text of an expression, parts that a run decides as ``…``."""
    value = evaluate(node, module, scope)
    if isinstance(value, str):
        return value
    match node:
        case ast.JoinedStr(values=parts):
            return "".join(text_of(part, module, scope) for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return text_of(left, module, scope) + text_of(right, module, scope)
        case ast.FormattedValue():
            return "…"
    return ""


def function_in(
    body: Iterable[ast.stmt], name: str
) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The function of a name among statements."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            return node
    return None


def default_of(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> ast.expr | None:
    """The default of a parameter."""
    arguments = [*function.args.posonlyargs, *function.args.args]
    defaults = dict(
        zip([a.arg for a in arguments][::-1], function.args.defaults[::-1], strict=False)
    )
    for keyword, value in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        if value is not None:
            defaults[keyword.arg] = value
    return defaults.get(name)


def last_name(node: ast.expr) -> str:
    """The last name of what is named or called."""
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def is_none(node: ast.expr) -> bool:
    """Whether an expression is None."""
    return isinstance(node, ast.Constant) and node.value is None


def is_false(node: ast.expr) -> bool:
    """Whether an expression is False."""
    return isinstance(node, ast.Constant) and node.value is False
