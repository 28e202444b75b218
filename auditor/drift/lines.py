"""Definitions as lists of lines that layout, comments, long statements and names do not disturb."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cached_property

_LONG = 72  # characters: a longer statement is a line for each of its parts
_MARKED = re.compile(r"«(\w+)»")  # no text of Python but a string or a comment has these
_IMPORT = (ast.Import, ast.ImportFrom)

Line = str
"""What encloses the line (a header, as ``if x``) and its own text, with a NUL between them."""


class Code:
    """A definition as lines and names, each worked out once.

    Imports that are no part of a function count for nothing, and neither do docstrings.
    """

    def __init__(self, body: Sequence[ast.stmt]) -> None:
        self.body = [part for part in body if not isinstance(part, _IMPORT)]

    @cached_property
    def lines(self) -> list[Line]:
        """Raises RecursionError."""
        return _lines(self.body)

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name but attributes."""
        return frozenset(
            name for part in self.body for node in ast.walk(part) if (name := _name(node))
        )

    @cached_property
    def locals(self) -> frozenset[str]:
        """The names that a function binds; none where it is a class or the module."""
        found: set[str] = set()
        for part in self.body:
            if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                return frozenset()
            for node in ast.walk(part):
                if isinstance(node, ast.Global | ast.Nonlocal):
                    return frozenset()
                if isinstance(node, ast.arg) or isinstance(getattr(node, "ctx", None), ast.Store):
                    found.add(_name(node))
        return frozenset(found - {"self", "cls", ""})

    def lines_named(self, new: Mapping[str, str]) -> list[Line]:
        """The lines with some names replaced."""
        changed = [
            (node, "id" if isinstance(node, ast.Name) else "arg", name)
            for part in self.body
            for node in ast.walk(part)
            if isinstance(node, ast.Name | ast.arg) and (name := _name(node)) in new
        ]
        # In place and back: a copy of a large function costs more than all that is done with it.
        for node, field, name in changed:
            setattr(node, field, new[name])
        try:
            return _lines(self.body)
        finally:
            for node, field, name in changed:
                setattr(node, field, name)


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.arg if isinstance(node, ast.arg) else ""


def _lines(body: Sequence[ast.stmt]) -> list[Line]:
    found: list[Line] = []
    _statements(found, "", body)
    return found


def text_lines(content: bytes) -> list[Line]:
    """The lines of any other file, without their white space."""
    return [
        line
        for row in content.decode("utf-8", "replace").splitlines()
        if (line := " ".join(row.split()))
    ]


def told(line: Line) -> str:
    """A line as a person may read it."""
    return line.rpartition("\0")[2]


def renamed_like(code: Code, model: Code) -> list[Line] | None:
    """The lines of ``code`` with its local names as ``model`` has them, None if that is no help.

    Only names that are local to one of the two and unknown in the other are taken for renamed, and
    only where every line that is otherwise equal agrees.
    """
    own, other = code.locals - model.names, model.locals - code.names
    if not own or not other:
        return None
    marked = code.lines_named({name: f"«{name}»" for name in own})
    wanted = model.lines_named({name: f"«{name}»" for name in other})
    new_name: dict[str, str] = {}
    matcher = SequenceMatcher(None, _skeletons(marked), _skeletons(wanted), autojunk=False)
    for block in matcher.get_matching_blocks():
        for at in range(block.size):
            ours = _MARKED.findall(marked[block.a + at])
            for name, found in zip(ours, _MARKED.findall(wanted[block.b + at]), strict=True):
                if new_name.setdefault(name, found) != found:
                    return None
    if not new_name or len(set(new_name.values())) < len(new_name):
        return None
    return code.lines_named(new_name)


def _skeletons(lines: Sequence[Line]) -> list[str]:
    return [_MARKED.sub("«»", line) for line in lines]


def _statements(found: list[Line], parent: str, body: Sequence[ast.stmt]) -> None:
    for part in body:
        if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant):
            continue
        _statement(found, parent, part)


def _statement(found: list[Line], parent: str, part: ast.stmt) -> None:
    blocks = [
        name
        for name in ("body", "orelse", "handlers", "finalbody", "cases")
        if getattr(part, name, None) and not isinstance(part, ast.Expr)
    ]
    if not blocks:
        found.extend(_split(parent, ast.unparse(part)))
        return
    for decorator in getattr(part, "decorator_list", ()):
        found.extend(_split(parent, f"@{ast.unparse(decorator)}"))
    header = _header(part)
    found.extend(_split(parent, header))
    inner = f"def {part.name}" if hasattr(part, "name") else header
    for name in blocks:
        if name == "body":
            _statements(found, inner, part.body)  # type: ignore[attr-defined]
        elif name in ("handlers", "cases"):
            for arm in getattr(part, name):
                label = _header(arm)
                found.append(f"{header}\0{label}")
                _statements(found, label, arm.body)
        else:
            label = f"{'else' if name == 'orelse' else 'finally'} of {header}"
            found.append(f"{parent}\0{label}")
            _statements(found, label, getattr(part, name))


def _header(part: ast.AST) -> str:
    """The first line of a compound statement, without what it holds."""
    bare = copy.copy(part)
    for name in ("body", "orelse", "handlers", "finalbody", "cases", "decorator_list"):
        if hasattr(bare, name):
            setattr(bare, name, [])
    if isinstance(bare, ast.Try) or type(bare).__name__ == "TryStar":
        return "try"
    return ast.unparse(bare).strip().removesuffix(":")


def _split(parent: str, text: str) -> Iterator[Line]:
    """A line, or one for each part of a long one, so that a change of one argument is small."""
    if len(text) <= _LONG:
        yield f"{parent}\0{text}"
        return
    start, *parts = _parts(text)
    yield f"{parent}\0{start}"
    for part in parts:
        yield f"{start}\0{part}"


def _parts(text: str) -> list[str]:
    """A text cut behind its first bracket and at the commas of that bracket."""
    depth, begin = 0, 0
    parts: list[str] = []
    quote = ""
    at = 0
    while at < len(text):
        char = text[at]
        if quote:
            if char == "\\":
                at += 1
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in "([{":
            depth += 1
            if depth == 1 and not parts:
                parts.append(text[: at + 1])
                begin = at + 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and depth == 1 and parts:
            parts.append(text[begin:at].strip())
            begin = at + 1
        at += 1
    return [*parts, text[begin:].strip()] if len(parts) > 1 else [text]
