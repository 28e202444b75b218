"""The regular expressions by which a class takes its text apart, as far as they are constant."""

from __future__ import annotations

import ast
import functools
import re
import warnings

_MOST = 40
_LONGEST = 2_000
_GROUP = re.compile(r"\((?:[^?]|\?P<)")


@functools.lru_cache(maxsize=256)
def patterns(source: str, class_name: str) -> tuple[str, ...]:
    """The patterns with groups in one class of a file: compiled ones and those kept as text.

    What comes from other classes or is put together at run time is left out, so an empty answer
    says nothing. Never raises.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
        found = [
            inner.value
            for node in tree.body
            if isinstance(node, ast.ClassDef) and node.name == class_name
            for statement in ast.walk(node)
            for value in _patterns_of(statement)
            for inner in ast.walk(value)
            if isinstance(inner, ast.Constant) and isinstance(inner.value, str)
        ]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    kept = (text for text in found if len(text) <= _LONGEST and _GROUP.search(text))
    return tuple(dict.fromkeys(kept))[:_MOST]


def _patterns_of(node: ast.AST) -> tuple[ast.expr, ...]:
    """The expressions of a statement that are patterns, by what is done with or called them."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re" | "regex")), args=[first, *_]):
            return (first,)
        case ast.Assign(targets=[target], value=value) if _is_pattern_name(target):
            return (value,)
        case ast.AnnAssign(target=target, value=ast.expr() as value) if _is_pattern_name(target):
            return (value,)
    return ()


def _is_pattern_name(target: ast.expr) -> bool:
    name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
    return "regex" in name.lower() or "pattern" in name.lower()
