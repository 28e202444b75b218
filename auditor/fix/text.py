"""The text of a file that is edited: decoded without loss, functions found, parts replaced."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

LINE_END = re.compile(r"\r\n|\r|\n")
"""What Python counts as the end of a line; str.splitlines knows more."""

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class Unfit(Exception):
    """An edit that cannot be made; the message is the reason, a short clause."""


@dataclass(frozen=True, order=True)
class Edit:
    """The characters from ``start`` to ``end`` of a file's text, replaced."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Source:
    """A file's text and how it is encoded; writing the text back gives the same bytes."""

    data: bytes
    encoding: str
    text: str

    @classmethod
    def of_python(cls, data: bytes) -> Source:
        """A Python file, decoded as its mark or cookie says. Raises Unfit."""
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
            return cls._checked(data, encoding)
        except (SyntaxError, LookupError) as problem:
            raise Unfit(f"the file cannot be decoded: {problem}") from None

    @classmethod
    def of_script(cls, data: bytes) -> Source:
        """Any other text, in UTF-8. Raises Unfit."""
        return cls._checked(data, "utf-8")

    @classmethod
    def _checked(cls, data: bytes, encoding: str) -> Source:
        try:
            text = data.decode(encoding)
            same = text.encode(encoding) == data
        except UnicodeError:
            raise Unfit(f"the file is no {encoding}") from None
        if not same:
            raise Unfit(f"the file would change by being read and written as {encoding}")
        return cls(data, encoding, text)

    def edited(self, edits: Sequence[Edit]) -> bytes:
        """The file with all edits applied; raises Unfit where two of them meet."""
        parts: list[str] = []
        done = 0
        for edit in sorted(set(edits)):
            if edit.start < done:
                raise Unfit("another fix edits the same lines; run again for this one")
            parts += [self.text[done : edit.start], edit.text]
            done = edit.end
        parts.append(self.text[done:])
        try:
            return "".join(parts).encode(self.encoding)
        except UnicodeEncodeError:
            raise Unfit(f"what is inserted cannot be written as {self.encoding}") from None

    @cached_property
    def starts(self) -> list[int]:
        """Where each line begins, and where the text ends."""
        ends = [match.end() for match in LINE_END.finditer(self.text)]
        return [0, *ends, *([len(self.text)] if not ends or ends[-1] < len(self.text) else [])]

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree. Raises Unfit."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(self.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
            raise Unfit(f"the file cannot be parsed: {problem}") from None

    @cached_property
    def functions(self) -> dict[tuple[str, int], tuple[FunctionNode, int]]:
        """Functions and methods, with how many blocks hold them, by (qualified name, ``def`` line).

        Functions within functions are left out.
        """
        return dict(_functions(self.tree.body, "", 0))

    @cached_property
    def names(self) -> frozenset[str]:
        """The names bound at the top of the module, under conditions too."""
        found: set[str] = set()
        pending: list[ast.AST] = list(self.tree.body)
        while pending:
            node = pending.pop()
            if isinstance(node, FunctionNode | ast.ClassDef):
                found.add(node.name)
                continue
            if isinstance(node, ast.alias):
                found.add((node.asname or node.name).partition(".")[0])
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
            pending.extend(ast.iter_child_nodes(node))
        return frozenset(found)


def _functions(
    body: Sequence[ast.stmt], prefix: str, depth: int
) -> Iterator[tuple[tuple[str, int], tuple[FunctionNode, int]]]:
    for node in body:
        if isinstance(node, FunctionNode):
            yield (prefix + node.name, node.lineno), (node, depth)
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{prefix}{node.name}.", depth + 1)
        else:
            for inner in ("body", "orelse", "finalbody"):
                yield from _functions(getattr(node, inner, ()), prefix, depth + 1)
            for handler in getattr(node, "handlers", ()):
                yield from _functions(handler.body, prefix, depth + 1)


def narrowed(start: int, old: str, new: str) -> Edit:
    """The edit that makes ``new`` of ``old`` at ``start``, whole lines that stay left out."""
    before, after = LINE_END.sub(_ended, old), LINE_END.sub(_ended, new)
    mine, theirs = before.split("\0"), after.split("\0")
    head = 0
    while head < min(len(mine), len(theirs)) and mine[head] == theirs[head]:
        head += 1
    tail = 0
    while tail < min(len(mine), len(theirs)) - head and mine[-1 - tail] == theirs[-1 - tail]:
        tail += 1
    first = sum(map(len, mine[:head]))
    last = sum(map(len, mine[: len(mine) - tail]))
    return Edit(start + first, start + last, "".join(theirs[head : len(theirs) - tail]))


def _ended(match: re.Match[str]) -> str:
    return f"{match[0]}\0"
