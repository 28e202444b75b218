"""Where a function makes a call, by its concrete tree, and what stands around it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from auditor.confirm.answers import Answer, Row
from auditor.confirm.concrete import Tree, inside

_AROUND = (
    cst.For,
    cst.While,
    cst.Try,
    cst.TryStar,
    cst.ExceptHandler,
    cst.ExceptStarHandler,
    cst.Finally,
    cst.With,
    cst.Match,
    cst.Lambda,
    cst.FunctionDef,
    cst.IfExp,
    cst.BooleanOperation,
    cst.CompFor,
)
_EXITS = (cst.Return, cst.Raise, cst.Continue, cst.Break, cst.Assert)


def calls(tree: Tree, name: str, line: int) -> Answer:
    """The calls of a name, or for ``with`` what is entered; with the span of what begins a line."""
    rows = tuple(Row(_said(tree, n), _around(tree, n), tree.span(n)) for n in _called(tree, name))
    return Answer("yes", "", _beginning(tree, line), rows=rows)


def _called(tree: Tree, name: str) -> Iterator[cst.CSTNode]:
    for node in tree.nodes:
        if isinstance(node, cst.WithItem):
            if name == "with":
                yield node.item
        elif isinstance(node, cst.Call):
            func = node.func
            last = func.attr.value if isinstance(func, cst.Attribute) else ""
            if name in (last, func.value if isinstance(func, cst.Name) else last):
                yield node


def _said(tree: Tree, node: cst.CSTNode) -> str:
    """Code without layout, and what the local names in it are given."""
    names = {n.value for n in inside(node) if isinstance(n, cst.Name)}
    given = {f"{n}={_code(value)}" for n in names for value in tree.given.get(n, ())}
    return ";".join([_code(node), *sorted(given)])


def _around(tree: Tree, node: cst.CSTNode) -> tuple[str, ...]:
    """The tests and blocks around some code, and the exits of the function before it."""
    here = tree.span(node)[:2]
    exits = [n for n in tree.nodes if isinstance(n, _EXITS) and tree.span(n)[:2] < here]
    before = (":".join(("exit", *_blocks(tree, one))) for one in exits)
    return (*_blocks(tree, node), *before)


def _blocks(tree: Tree, node: cst.CSTNode) -> Iterator[str]:
    step = node
    for holder in tree.above(node):
        if holder is tree.function:
            return
        if isinstance(holder, cst.If):
            yield f"{'if' if step is holder.body else 'else'} {_said(tree, holder.test)}"
        elif isinstance(holder, cst.With):
            yield " ".join(["with", *(_said(tree, item.item) for item in holder.items)])
        elif isinstance(holder, _AROUND):
            yield type(holder).__name__
        step = holder


def _beginning(tree: Tree, line: int) -> tuple[int, int, int, int] | None:
    """The span of the statement that begins on a line; of a block without what is in it."""
    for node in tree.nodes:
        if isinstance(node, cst.BaseSmallStatement) and tree.span(node)[0] == line:
            return tree.span(node)
        if isinstance(node, cst.BaseCompoundStatement) and tree.span(node)[0] == line:
            head = [n for n in tree.parents if tree.parents[n] is node and _heads(n)]
            ends = [tree.span(n)[2:] for n in head]
            return (*tree.span(node)[:2], *max(ends)) if ends else None
    return None


def _heads(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.BaseExpression | cst.WithItem)


def _code(node: cst.CSTNode) -> str:
    return "".join(cst.Module([]).code_for_node(node).split())
