"""Plain frozen facts about a Python file: what the checks see instead of a syntax tree.

A body is a small flow tree (branches, loops, tries, exits) over reduced expressions. Everything an
analysis of reads, calls and waits does not need (operators, formatting, literals' values) is
folded away, so facts are cheap to keep by content and to walk again on every run.

Lines are 1-based; columns are 1-based code points. Within a function of a module or a class they
are counted from its ``def``, which is 1: a function that moved in its file has equal facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeAlias

import msgspec


class _Node(msgspec.Struct, frozen=True, tag=True, array_like=True, gc=False):
    pass


class Name(_Node, frozen=True):
    """A bare name."""

    id: str


class Const(_Node, frozen=True):
    """A literal; anything but strings, integers, booleans and None reads as ``...`` (None, False).

    ``kind`` is ``none``, ``str``, ``int``, ``bool`` or ``other``.
    """

    kind: str
    text: str = ""


class Attr(_Node, frozen=True):
    """``value.name``."""

    value: Expr
    name: str
    line: int
    column: int


class Sub(_Node, frozen=True):
    """``value[index]``."""

    value: Expr
    index: Expr
    line: int
    column: int


class Call(_Node, frozen=True):
    """``func(*args, **keywords)``; a ``*x`` argument is a Group of op ``star``."""

    func: Expr
    args: tuple[Expr, ...]
    keywords: tuple[tuple[str, Expr], ...]
    line: int
    column: int


class Group(_Node, frozen=True):
    """Several expressions evaluated in order.

    ``op`` keeps what the analysis asks about: ``tuple``, ``list``, ``dict``, ``star``, ``await``,
    ``and``, ``or``, ``not``, ``is``, ``is not``, ``==``, ``!=``, ``compare``, ``slice``, ``value``
    (arithmetic, formatting and the like).
    """

    op: str
    parts: tuple[Expr, ...]


class Choice(_Node, frozen=True):
    """``body if test else orelse``."""

    test: Expr
    body: Expr
    orelse: Expr


class Comp(_Node, frozen=True):
    """A comprehension: ``generators`` are (target, iterable), conditions come as ``tests``."""

    element: Expr
    generators: tuple[tuple[Expr, Expr], ...]
    tests: tuple[Expr, ...]


class Lambda(_Node, frozen=True):
    """A lambda; its parameters shadow outer names."""

    parameters: tuple[str, ...]
    body: Expr


class Bind(_Node, frozen=True):
    """``target := value``."""

    target: str
    value: Expr


Expr: TypeAlias = Name | Const | Attr | Sub | Call | Group | Choice | Comp | Lambda | Bind


class Assign(_Node, frozen=True):
    """``targets = value``; annotated ones keep the annotation, a bare declaration has no value."""

    targets: tuple[Expr, ...]
    value: Expr | None
    annotation: Expr | None
    line: int


class Augment(_Node, frozen=True):
    """``target op= value``."""

    target: Expr
    value: Expr
    line: int


class Do(_Node, frozen=True):
    """An expression statement."""

    value: Expr
    line: int


class If(_Node, frozen=True):
    """A branch."""

    test: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]
    line: int


class Loop(_Node, frozen=True):
    """A ``for`` (with ``target``) or a ``while`` (``target`` None, ``source`` is the test)."""

    target: Expr | None
    source: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]
    line: int


class Try(_Node, frozen=True):
    """``handlers`` are bodies; ``final`` runs on every way out."""

    body: tuple[Stmt, ...]
    handlers: tuple[tuple[Stmt, ...], ...]
    orelse: tuple[Stmt, ...]
    final: tuple[Stmt, ...]
    line: int


class With(_Node, frozen=True):
    """``items`` are (context, target or None)."""

    items: tuple[tuple[Expr, Expr | None], ...]
    body: tuple[Stmt, ...]
    line: int


class Exit(_Node, frozen=True):
    """A statement that leaves the straight line."""

    kind: Literal["return", "raise", "break", "continue"]
    value: Expr | None
    line: int


class Define(_Node, frozen=True):
    """A function defined within a body."""

    function: FunctionFacts


class Import(_Node, frozen=True):
    """A name bound by an import: ``module`` is absolute, ``member`` empty for modules."""

    name: str
    module: str
    member: str


Stmt: TypeAlias = Assign | Augment | Do | If | Loop | Try | With | Exit | Define | Import


class Parameter(_Node, frozen=True):
    """One parameter; ``false`` is a falsy default but None; ``star`` is *args, ``double`` **kw."""

    name: str
    annotation: Expr | None
    default: Literal["required", "none", "false", "value"]
    kind: Literal["plain", "keyword", "star", "double"]


class FunctionFacts(_Node, frozen=True):
    """A function or method: ``qualname`` is dotted within its file.

    ``mentions`` are the attribute names used anywhere in it (also as a string given to ``getattr``
    or ``hasattr``) and the names called, sorted: whether a function can matter is decided without
    walking its body. ``digest`` tells apart all functions of a file and name that differ; where a
    function of a module or class stands in its file is no difference, where one stands in the body
    of another is.
    """

    name: str
    qualname: str
    mentions: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    decorators: tuple[str, ...]
    returns: Expr | None
    body: tuple[Stmt, ...]
    line: int
    column: int
    end_line: int
    digest: str


class ClassFacts(_Node, frozen=True):
    """A class: own methods, class-level assignments, bases as written."""

    name: str
    qualname: str
    bases: tuple[Expr, ...]
    methods: tuple[FunctionFacts, ...]
    assigns: tuple[Assign, ...]
    line: int
    end_line: int


class ModuleFacts(_Node, frozen=True):
    """Everything kept of one file."""

    imports: tuple[Import, ...]
    classes: tuple[ClassFacts, ...]
    functions: tuple[FunctionFacts, ...]
    assigns: tuple[Assign, ...]


def functions(module: ModuleFacts) -> Iterator[FunctionFacts]:
    """All functions and methods of a module."""
    yield from module.functions
    for known in module.classes:
        yield from known.methods


def children(expr: Expr) -> Iterable[Expr]:
    """The direct sub-expressions, in evaluation order."""
    below = _CHILDREN.get(type(expr))
    return () if below is None else below(expr)


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and all below it."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        below = _CHILDREN.get(type(node))
        if below is not None:
            stack.extend(below(node))


# By type rather than by one test after another: most expressions are names, and have none.
_CHILDREN: dict[type[_Node], Callable[[Any], Iterable[Expr]]] = {
    Attr: lambda expr: (expr.value,),
    Sub: lambda expr: (expr.value, expr.index),
    Call: lambda expr: (expr.func, *expr.args, *[value for _, value in expr.keywords]),
    Group: lambda expr: expr.parts,
    Choice: lambda expr: (expr.test, expr.body, expr.orelse),
    Comp: lambda expr: (
        *[part for target, source in expr.generators for part in (source, target)],
        *expr.tests,
        expr.element,
    ),
    Lambda: lambda expr: (expr.body,),
    Bind: lambda expr: (expr.value,),
}


def blocks(stmt: Stmt) -> Iterable[tuple[Stmt, ...]]:
    """The bodies nested directly in a statement (not those of nested functions)."""
    nested = _BLOCKS.get(type(stmt))
    return () if nested is None else nested(stmt)


_BLOCKS: dict[type[_Node], Callable[[Any], Iterable[tuple[Stmt, ...]]]] = {
    If: lambda stmt: (stmt.body, stmt.orelse),
    Loop: lambda stmt: (stmt.body, stmt.orelse),
    Try: lambda stmt: (stmt.body, *stmt.handlers, stmt.orelse, stmt.final),
    With: lambda stmt: (stmt.body,),
}


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement of a body in source order, nested functions' bodies excluded."""
    for stmt in body:
        yield stmt
        nested = _BLOCKS.get(type(stmt))
        if nested is not None:
            for block in nested(stmt):
                yield from statements(block)


def expressions(stmt: Stmt) -> Iterable[Expr]:
    """The top expressions of one statement (not of the statements nested in it)."""
    own = _EXPRESSIONS.get(type(stmt))
    return () if own is None else own(stmt)


_EXPRESSIONS: dict[type[_Node], Callable[[Any], Iterable[Expr]]] = {
    Assign: lambda stmt: stmt.targets if stmt.value is None else (stmt.value, *stmt.targets),
    Augment: lambda stmt: (stmt.value, stmt.target),
    Do: lambda stmt: (stmt.value,),
    If: lambda stmt: (stmt.test,),
    Loop: lambda stmt: (stmt.source,) if stmt.target is None else (stmt.source, stmt.target),
    With: lambda stmt: [part for item in stmt.items for part in item if part is not None],
    Exit: lambda stmt: () if stmt.value is None else (stmt.value,),
}


def dotted(expr: Expr) -> str:
    """``a.b.c`` as text, or empty where it is anything else."""
    parts: list[str] = []
    while isinstance(expr, Attr):
        parts.append(expr.name)
        expr = expr.value
    if not isinstance(expr, Name):
        return ""
    parts.append(expr.id)
    return ".".join(reversed(parts))
