"""What argparse makes of the words of an option: the type, as far as it refuses some of them."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from auditor.serve.tables.constants import Module, evaluate
from auditor.serve.tables.nodes import is_none, last_name
from auditor.serve.tables.values import External, FunctionValue, LiteralType, Pattern

_NUMBERS = ("int", "float")
_JSON = ("json.loads", "orjson.loads")


class Reads(NamedTuple):
    """How a word is read (``Flag.reads``), and the patterns of words that are taken as well."""

    kind: str = ""
    patterns: tuple[str, ...] = ()


def reads_of(node: ast.expr | None, module: Module, scope: Mapping[str, object]) -> Reads:
    """What a type makes of each word: one that argparse is given, or the annotation of a field."""
    if node is None:
        return Reads()
    node = given_type(node)
    if generic(node) in ("list", "List") and isinstance(node, ast.Subscript):
        node = node.slice
    name = _builtin(node, module)
    if name in _NUMBERS:
        return Reads(name)
    match evaluate(node, module, scope):
        case LiteralType(members=[first, *_]):
            kind = type(first).__name__
            return Reads(kind if kind in _NUMBERS else "")
        case External(dotted=dotted) if dotted in _JSON:
            return Reads("json")
        case FunctionValue(module=where, node=ast.FunctionDef() as function):
            return _function(function, where)
    return Reads()


def _builtin(node: ast.expr, module: Module) -> str:
    return node.id if isinstance(node, ast.Name) and node.id not in module.bindings else ""


def _function(function: ast.FunctionDef, module: Module) -> Reads:
    """A function that ends in one conversion, after patterns that it tries before it.

    Any other statement may take words that the conversion would not.
    """
    if len(function.args.args) != 1:
        return Reads()
    name = function.args.args[0].arg
    tried: dict[str, str] = {}
    patterns: list[str] = []
    for node in function.body:
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom():
                continue
            case ast.Assign(
                targets=[ast.Name(id=target)],
                value=ast.Call(func=ast.Attribute(value=ast.Name(id=inner), attr="strip"), args=[]),
            ) if target == inner == name:
                continue
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.Call() as call) if (
                target != name and (pattern := _pattern(call, name, module))
            ):
                tried[target] = pattern
                continue
            case ast.Assign(targets=[ast.Name(id=target)], value=ast.Dict()) if target != name:
                continue
            case ast.If(test=ast.Name(id=target), orelse=[]) if target in tried:
                patterns.append(tried[target])
                continue
        kind = _conversion([node], name, module)
        return Reads(kind, tuple(patterns)) if kind else Reads()
    return Reads()


def _conversion(body: Sequence[ast.stmt], name: str, module: Module) -> str:
    """How the first of some statements reads the parameter, where a failure ends the start."""
    match body[0]:
        case ast.Try(body=inner, handlers=handlers) if all(
            isinstance(handler.body[-1], ast.Raise) for handler in handlers
        ):
            return _conversion(inner, name, module)
        case ast.Return(value=ast.Call() as call) | ast.Assign(value=ast.Call() as call):
            match call:
                case ast.Call(func=func, args=[ast.Name(id=given)], keywords=[]) if given == name:
                    if _builtin(func, module) in _NUMBERS:
                        return last_name(func)
                    value = evaluate(func, module)
                    if isinstance(value, External) and value.dotted in _JSON:
                        return "json"
    return ""


def _pattern(call: ast.Call, name: str, module: Module) -> str:
    """The expression that a call wants the parameter to match as a whole; empty for any other."""
    match call:
        case ast.Call(
            func=ast.Attribute(attr="fullmatch") as func,
            args=[ast.Constant(value=str(text)), ast.Name(id=given)],
            keywords=[],
        ) if given == name:
            value = evaluate(func, module)
            return text if isinstance(value, External) and value.dotted == "re.fullmatch" else ""
        case ast.Call(
            func=ast.Attribute(value=compiled, attr="fullmatch"),
            args=[ast.Name(id=given)],
            keywords=[],
        ) if given == name:
            found = evaluate(compiled, module)
            if isinstance(found, Pattern) and not found.ignore_case:
                return found.text
    return ""


def given_type(kind: ast.expr) -> ast.expr:
    """The ``X`` of ``Optional[X]``, ``Union[X, None]`` and ``X | None``."""
    match kind:
        case ast.Constant(value=str(text)):
            try:
                return given_type(ast.parse(text, mode="eval").body)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return kind
        case ast.Subscript(slice=inner) if generic(kind) == "Optional":
            return inner
        case ast.Subscript(slice=ast.Tuple(elts=parts)) if generic(kind) == "Union":
            rest = [part for part in parts if not is_none(part)]
            return rest[0] if len(rest) == 1 else kind
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            if is_none(right):
                return left
            if is_none(left):
                return right
    return kind


def generic(node: ast.expr) -> str:
    """The generic of an annotation; empty for any other."""
    return last_name(node.value) if isinstance(node, ast.Subscript) else ""
