"""A function as libcst reads it: where its expressions stand, and what its names are bound to."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any, cast

import libcst as cst
from libcst.metadata import (
    Assignment,
    CodeRange,
    MetadataWrapper,
    PositionProvider,
    Scope,
    ScopeProvider,
)

from auditor.confirm.answers import Span
from auditor.confirm.passages import Passage, Unreadable

_MOST_NAMES = 50
"""Followed back from an index; what is computed from more is none that a wait is made for."""

_LAYOUT = re.compile(
    r".*whitespace.*|.*comma.*|.*semicolon.*|.*leading_lines.*|lines_after.*|lpar|rpar|lbracket"
    r"|rbracket|lbrace|rbrace|header|footer|dot|colon|.*indicator.*|newline|indent|prefix|arrow"
)
"""Fields of nodes that hold no code."""

_BROKEN = (
    cst.ParserSyntaxError,
    cst.CSTValidationError,
    cst.MetadataException,
    RecursionError,
    MemoryError,
    UnicodeError,
)


class _Positions(PositionProvider):
    """Positions without the walk for other providers that a wrapper adds, which takes as long."""

    def of(self, module: cst.Module) -> Mapping[cst.CSTNode, CodeRange]:
        self._gen_impl(module)
        return cast("Mapping[cst.CSTNode, CodeRange]", self._computed)


class Tree:
    """One function; lines count from its ``def``, which is 1, columns are those of its file."""

    def __init__(self, passage: Passage) -> None:
        """Raises Unreadable for what libcst does not take."""
        passage.check()
        self._shift = passage.head.count("\n")
        try:
            module = cst.parse_module(passage.whole)
            self._metadata = MetadataWrapper(module, unsafe_skip_copy=True)
            self._positions = _Positions().of(module)
            self.parents: dict[cst.CSTNode, cst.CSTNode] = {}
            self.nodes: list[cst.CSTNode] = []
            self._walk(module)
        except _BROKEN as problem:
            raise Unreadable(f"libcst does not read it: {type(problem).__name__}") from None
        functions = [node for node in self.nodes if isinstance(node, cst.FunctionDef)]
        if not functions:
            raise Unreadable("libcst finds no function in it")
        self.function = functions[0]

    def _walk(self, top: cst.CSTNode) -> None:
        """Note all nodes in the order of the source, and their parents."""
        pending = [top]
        while pending:
            node = pending.pop()
            self.nodes.append(node)
            for child in reversed(list(below(node))):
                self.parents[child] = node
                pending.append(child)

    def span(self, node: cst.CSTNode) -> Span:
        """Where a node stands."""
        place = self._positions[node]
        start, end = place.start, place.end
        return (
            start.line - self._shift,
            start.column + 1,
            end.line - self._shift,
            end.column + 1,
        )

    @cached_property
    def expressions(self) -> list[tuple[Span, cst.BaseExpression]]:
        """What can be read: names, attributes, members and calls, without a declared name."""
        kinds = (cst.Name, cst.Attribute, cst.Subscript, cst.Call)
        found = []
        for node in self.nodes:
            if isinstance(node, kinds):
                label = isinstance(node, cst.Name) and self._is_label(node)
                if not label:
                    found.append((self.span(node), cast("cst.BaseExpression", node)))
        return found

    def _is_label(self, node: cst.Name) -> bool:
        parent = self.parents.get(node)
        if isinstance(parent, cst.Attribute):
            return parent.attr is node
        if isinstance(parent, cst.Arg):
            return parent.keyword is node
        return isinstance(parent, cst.FunctionDef | cst.ClassDef | cst.Param | cst.ImportAlias)

    def above(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The parent and what is around it, the nearest first."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    @cached_property
    def parameters(self) -> frozenset[str]:
        """The names of the function's own parameters."""
        return frozenset(
            node.name.value for node in inside(self.function.params) if isinstance(node, cst.Param)
        )

    # -- names -----------------------------------------------------------------------------------

    @cached_property
    def _scopes(self) -> Mapping[cst.CSTNode, Any]:
        try:
            return self._metadata.resolve(ScopeProvider)
        except _BROKEN as problem:
            raise Unreadable(f"libcst does not read it: {type(problem).__name__}") from None

    def bindings(self, name: cst.Name) -> list[cst.CSTNode]:
        """Where the name that is used here is given a value, in its own scope or around it."""
        scope = self._scopes.get(name)
        if not isinstance(scope, Scope):
            return []
        return [each.node for each in scope[name.value] if isinstance(each, Assignment)]

    def used(self, name: str) -> bool:
        """Whether a name of the function's own scope is read anywhere, in closures too."""
        scope = self._scopes.get(self.function.body)
        found = scope[name] if isinstance(scope, Scope) else ()
        return any(each.references for each in found if isinstance(each, Assignment))

    def sources(self, name: cst.Name) -> list[cst.CSTNode]:
        """What a name may stand for: all that is assigned to it, put into it, or passed to it."""
        found: list[cst.CSTNode] = []
        for node in self.bindings(name):
            value = self.bound(node)
            if value is not None:
                found.append(value)
        kept = self._stored.get(name.value, []) if name.value not in ("self", "cls") else []
        return found + kept + self._captured.get(name.value, [])

    def bound(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """What the target of some statement, or a definition, is bound to."""
        if isinstance(node, cst.FunctionDef | cst.Lambda):
            return node.body
        for holder in self.above(node):
            if isinstance(holder, cst.Assign | cst.AnnAssign | cst.AugAssign | cst.NamedExpr):
                return holder.value
            if isinstance(holder, cst.For | cst.CompFor):
                return holder.iter
            if isinstance(holder, cst.WithItem):
                return holder.item
            if isinstance(holder, cst.Match):
                return holder.subject
            if isinstance(holder, cst.BaseStatement | cst.Param | cst.Parameters):
                return None
        return None

    @cached_property
    def given(self) -> Mapping[str, list[cst.CSTNode]]:
        """What names are given anywhere in the function, by the name; scopes are not asked."""
        found: dict[str, list[cst.CSTNode]] = {}
        for node in self.nodes:
            targets: list[cst.CSTNode] = []
            value: cst.CSTNode | None = None
            if isinstance(node, cst.Assign):
                targets, value = [one.target for one in node.targets], node.value
            elif isinstance(node, cst.AnnAssign | cst.AugAssign | cst.NamedExpr):
                targets, value = [node.target], node.value
            elif isinstance(node, cst.For | cst.CompFor):
                targets, value = [node.target], node.iter
            elif isinstance(node, cst.WithItem) and node.asname is not None:
                targets, value = [node.asname.name], node.item
            for name in (one for target in targets for one in inside(target)):
                if isinstance(name, cst.Name) and value is not None:
                    found.setdefault(name.value, []).append(value)
        return found

    @cached_property
    def _captured(self) -> dict[str, list[cst.CSTNode]]:
        """What patterns give names to, by the name: libcst's scopes leave them out."""
        found: dict[str, list[cst.CSTNode]] = {}
        for match in (node for node in self.nodes if isinstance(node, cst.Match)):
            for node in (node for case in match.cases for node in inside(case.pattern)):
                name = node.rest if isinstance(node, cst.MatchMapping) else None
                name = node.name if isinstance(node, cst.MatchAs | cst.MatchStar) else name
                if name is not None:
                    found.setdefault(name.value, []).append(match.subject)
        return found

    @cached_property
    def _stored(self) -> dict[str, list[cst.CSTNode]]:
        """What is put into what a local name stands for, by the name."""
        found: dict[str, list[cst.CSTNode]] = {}
        for node in self.nodes:
            if isinstance(node, cst.Assign):
                for target in node.targets:
                    holder = first_of(target.target)
                    if isinstance(holder, cst.Name) and holder is not target.target:
                        found.setdefault(holder.value, []).append(node.value)
            elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
                holder = first_of(node.func)
                if isinstance(holder, cst.Name):
                    found.setdefault(holder.value, []).extend(arg.value for arg in node.args)
        return found

    def chosen_by(self, *starts: cst.CSTNode) -> frozenset[str]:
        """The parameters that some code is computed from, by names of one value only."""
        found: set[str] = set()
        pending: list[cst.CSTNode] = list(starts)
        for _ in range(_MOST_NAMES):
            if not pending:
                break
            for node in inside(pending.pop()):
                if isinstance(node, cst.Name) and not self._is_label(node):
                    made = self.bindings(node)
                    if len(made) != 1 or node.value in self._captured:
                        continue
                    if isinstance(made[0], cst.Param):
                        found |= {node.value} & self.parameters
                    elif (value := self.bound(made[0])) is not None:
                        pending.append(value)
        return frozenset(found - {"self", "cls"})

    def trail(self, *starts: cst.CSTNode) -> frozenset[str]:
        """All names on the way back from some code: its own, and those of what its names hold.

        What ``self`` was passed is on no way back.
        """
        found: set[str] = set()
        done: set[tuple[object, str] | int] = set()
        pending: list[cst.CSTNode] = list(starts)
        while pending:
            top = pending.pop()
            if id(top) in done:
                continue
            done.add(id(top))
            for node in inside(top):
                if isinstance(node, cst.SimpleString):
                    text = text_of(node)
                    found |= {text} if text.isidentifier() else set()
                elif isinstance(node, cst.Name):
                    found.add(node.value)
                    place = (id(self._scopes.get(node)), node.value)
                    if place not in done and not self._is_label(node):
                        done.add(place)
                        pending += self.sources(node)
        return frozenset(found)

    def path(self, node: cst.CSTNode, most: int = 8) -> str:
        """``self.pool.rows`` for what leads there by names alone, local ones resolved; else empty.

        ``most`` names are followed back.
        """
        if isinstance(node, cst.Attribute):
            before = self.path(node.value, most)
            return f"{before}.{node.attr.value}" if before else ""
        if isinstance(node, cst.NamedExpr):
            return self.path(node.value, most)
        if isinstance(node, cst.Call):
            return self._asked(node, most)
        if not isinstance(node, cst.Name):
            return ""
        made = self.bindings(node)
        if not made or all(isinstance(one, cst.Param) for one in made):
            return node.value
        if len(made) != 1 or most == 0 or node.value in {*self.parameters, *self._captured}:
            return ""
        parent = self.parents.get(made[0])
        if isinstance(parent, cst.AssignTarget):
            return self.path(cast("cst.Assign", self.parents[parent]).value, most - 1)
        if isinstance(parent, cst.AnnAssign | cst.NamedExpr) and parent.value is not None:
            return self.path(parent.value, most - 1)
        return ""

    def _asked(self, node: cst.Call, most: int) -> str:
        """The attribute that ``getattr`` is asked for by a text."""
        if is_getattr(node):
            name = node.args[1].value
            before = self.path(node.args[0].value, most)
            if isinstance(name, cst.SimpleString) and before:
                return f"{before}.{text_of(name)}"
        return ""


def below(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The nodes of code directly in a node, without those of its layout."""
    for name in _fields(type(node)):
        value = getattr(node, name)
        if isinstance(value, cst.CSTNode):
            yield value
        elif isinstance(value, list | tuple):
            yield from (item for item in value if isinstance(item, cst.CSTNode))


@lru_cache(maxsize=512)
def _fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    fields = dataclasses.fields(cast("Any", kind))
    return tuple(field.name for field in fields if not _LAYOUT.fullmatch(field.name))


def inside(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A node and all below it, in the order of the source."""
    pending = [node]
    while pending:
        one = pending.pop()
        yield one
        pending += reversed(list(below(one)))


def first_of(node: cst.CSTNode) -> cst.CSTNode:
    """What an access begins with: ``self`` of ``self.rows[i].view()``."""
    while True:
        if isinstance(node, cst.Attribute | cst.Subscript):
            node = node.value
        elif isinstance(node, cst.Call):
            node = node.func
        else:
            return node


def is_getattr(node: cst.Call) -> bool:
    """Whether a call asks for an attribute by a text."""
    named = isinstance(node.func, cst.Name) and node.func.value == "getattr"
    return named and len(node.args) > 1


def text_of(node: cst.SimpleString) -> str:
    """What a literal says; empty for bytes and what cannot be told."""
    try:
        said = node.evaluated_value
    except (ValueError, SyntaxError):
        return ""
    return said if isinstance(said, str) else ""
