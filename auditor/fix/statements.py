"""Statements as they are written: what they say, which are equal, how they are moved, renamed."""

from __future__ import annotations

import ast
import textwrap
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import cast

import libcst as cst

Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement


BARE = cst.TrailingWhitespace()


_DEEPEST = 500
"""Operands of one ``and`` or dots of one name; libcst takes some 4,000 of them on 8 MB of stack."""


def commented(wait: Statement, like: Statement) -> Statement:
    """A wait with the comments that stand above another statement."""
    told = [line for line in like.leading_lines if line.comment is not None]
    return wait.with_changes(leading_lines=told)


def core(statement: cst.CSTNode) -> frozenset[str]:
    """What the calls of a wait say, whatever conditions and white space are around them."""
    found: set[str] = set()

    def search(node: cst.CSTNode) -> None:
        if isinstance(node, cst.Expr):
            found.add(_same(node.value))
        else:
            for child in node.children:
                search(child)

    search(statement)
    return frozenset(found)


def restored(
    mine: cst.IndentedBlock, theirs: cst.IndentedBlock, gates: Sequence[Statement], unit: str
) -> cst.IndentedBlock:
    """A body with the waits of another version of it, each where it stands there."""
    wanted = {id(gate) for gate in gates}

    def block(left: cst.BaseSuite, right: cst.BaseSuite) -> cst.BaseSuite:
        if not isinstance(left, cst.IndentedBlock) or not isinstance(right, cst.IndentedBlock):
            return left
        old = cast("list[Statement]", list(left.body))
        new = cast("list[Statement]", list(right.body))
        matcher = SequenceMatcher(None, [_key(s) for s in old], [_key(s) for s in new], False)
        body: list[Statement] = []
        for tag, a, b, c, d in matcher.get_opcodes():
            if tag == "equal":
                pairs = zip(old[a:b], new[c:d], strict=True)
                body += [cast("Statement", merged(one, other)) for one, other in pairs]
                continue
            gained = [s for s in new[c:d] if id(s) in wanted]
            kept = [s for s in old[a:b] if not (gained and _passes(s))]
            body += [laid_out(s, unit) for s in gained] + kept
        return left.with_changes(body=body)

    def merged(left: cst.CSTNode, right: cst.CSTNode) -> cst.CSTNode:
        changes: dict[str, object] = {}
        for name in ("body", "orelse", "finalbody"):
            one, other = getattr(left, name, None), getattr(right, name, None)
            if isinstance(one, cst.BaseSuite) and isinstance(other, cst.BaseSuite):
                changes[name] = block(one, other)
            elif isinstance(one, cst.If) and isinstance(other, cst.If):
                if _same(one.test) == _same(other.test):
                    changes[name] = merged(one, other)
            elif isinstance(one, cst.Else | cst.Finally) and isinstance(other, type(one)):
                changes[name] = merged(one, other)
        if isinstance(left, cst.Try) and isinstance(right, cst.Try):
            if len(left.handlers) == len(right.handlers):
                pairs = zip(left.handlers, right.handlers, strict=True)
                changes["handlers"] = [merged(one, other) for one, other in pairs]
        return left.with_changes(**changes) if changes else left

    return cast("cst.IndentedBlock", block(mine, theirs))


def renamed(
    statement: Statement,
    names: Mapping[str, cst.BaseExpression],
    attributes: Mapping[tuple[str, str], cst.BaseExpression],
    method: tuple[str, str],
) -> Statement:
    """A statement with other names for what another function calls its parameters.

    ``attributes`` replace ``parameter.attribute`` as a whole; ``method`` is what ``super()`` is
    asked for there and here.
    """
    return cast("Statement", statement.visit(_Renamed(names, attributes, method)))


def free_names(statement: cst.CSTNode) -> frozenset[str]:
    """The names that a statement takes from around it."""
    return frozenset(used_in(statement)) - frozenset(bound_in(statement))


def attributes_of(node: cst.CSTNode, holder: str) -> frozenset[str]:
    """The attributes of a name that occur somewhere."""
    found: set[str] = set()

    def search(part: cst.CSTNode) -> None:
        if isinstance(part, cst.Attribute) and isinstance(part.value, cst.Name):
            if part.value.value == holder:
                found.add(part.attr.value)
        for child in part.children:
            search(child)

    search(node)
    return frozenset(found)


def arguments_of(wait: cst.CSTNode) -> frozenset[str]:
    """The names that the calls of a wait are given, whatever conditions are around them."""
    found: set[str] = set()

    def search(node: cst.CSTNode) -> None:
        if isinstance(node, cst.Expr):
            value = node.value.expression if isinstance(node.value, cst.Await) else node.value
            for argument in value.args if isinstance(value, cst.Call) else ():
                found.update(used_in(argument.value))
        else:
            for child in node.children:
                search(child)

    search(wait)
    return frozenset(found)


def awaits(node: cst.CSTNode) -> bool:
    """Whether a statement needs an asynchronous function around it."""
    return isinstance(node, cst.Await) or any(map(awaits, node.children))


def equal_statements(left: Statement, right: Statement) -> bool:
    """Whether two statements say the same, white space and comments aside."""
    return _same(left) == _same(right)


def computes(statements: Iterable[Statement], own: Statement) -> bool:
    """Whether one of the statements is the same, or uses the value that it gives to a name."""
    wanted = {_same(own)}
    parts = own.body if isinstance(own, cst.SimpleStatementLine) else ()
    if len(parts) == 1 and isinstance(parts[0], cst.Assign) and len(parts[0].targets) == 1:
        if isinstance(parts[0].targets[0].target, cst.Name):
            wanted.add(_same(parts[0].value))

    def within(node: cst.CSTNode) -> bool:
        told = isinstance(node, Statement | cst.BaseExpression)
        return (told and _same(node) in wanted) or any(map(within, node.children))

    return any(map(within, statements))


def _same(node: cst.CSTNode) -> str:
    plain = node.with_changes(leading_lines=[]) if isinstance(node, Statement) else node
    code = cst.Module([]).code_for_node(plain)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.dump(ast.parse(textwrap.dedent(code).strip()))
    except (SyntaxError, ValueError):
        return code


def _key(statement: Statement) -> str:
    """What two versions of a statement share: all of it, or the head of one with a body."""
    if isinstance(statement, cst.If | cst.While):
        return f"{type(statement).__name__} {_same(statement.test)}"
    if isinstance(statement, cst.For):
        return f"For {_same(statement.target)} {_same(statement.iter)}"
    if isinstance(statement, cst.With):
        return "With " + " ".join(_same(item.item) for item in statement.items)
    if isinstance(statement, cst.Try):
        return "Try"
    return _same(statement)


def parts_of(body: cst.BaseSuite) -> list[cst.CSTNode]:
    """The statements of a block, or the small ones of a body on one line."""
    return list(cast("Sequence[cst.CSTNode]", body.body))


def prepares(node: cst.CSTNode) -> bool:
    """Whether a statement only gives names to values."""
    parts = node.body if isinstance(node, cst.SimpleStatementLine) else (node,)
    return all(
        isinstance(part, cst.Assign) and all(isinstance(t.target, cst.Name) for t in part.targets)
        for part in parts
    )


def _passes(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.SimpleStatementLine) and all(
        isinstance(part, cst.Pass) for part in node.body
    )


def names_in(node: cst.CSTNode) -> set[str]:
    """All names in some code."""
    found = {node.value} if isinstance(node, cst.Name) else set()
    return found.union(*map(names_in, node.children))


def used_in(node: cst.CSTNode) -> Iterator[str]:
    """Every name in some code, in order."""
    if isinstance(node, cst.Name):
        yield node.value
    for child in node.children:
        is_label = isinstance(node, cst.Attribute) and child is node.attr
        is_label = is_label or (isinstance(node, cst.Arg) and child is node.keyword)
        if not is_label:
            yield from used_in(child)


def bound_in(node: cst.CSTNode) -> Iterator[str]:
    """The names that some code gives a value."""
    if isinstance(node, cst.AssignTarget | cst.For | cst.AnnAssign | cst.AugAssign | cst.NamedExpr):
        yield from used_in(node.target)
    elif isinstance(node, cst.AsName | cst.CompFor):
        yield from used_in(node.name if isinstance(node, cst.AsName) else node.target)
    elif isinstance(node, cst.MatchAs | cst.MatchStar) and node.name is not None:
        yield node.name.value
    elif isinstance(node, cst.MatchMapping) and node.rest is not None:
        yield node.rest.value
    elif isinstance(node, cst.ImportAlias) and isinstance(node.name, cst.Name):
        yield node.name.value
    elif isinstance(node, cst.FunctionDef | cst.ClassDef):
        yield node.name.value
        return
    for child in node.children:
        yield from bound_in(child)


def overflows(function: ast.AST) -> bool:
    """Whether libcst could run out of stack, which no exception tells.

    Other nesting ends with an exception, here or when the file is parsed.
    """
    for node in ast.walk(function):
        if isinstance(node, ast.BoolOp) and len(node.values) > _DEEPEST:
            return True
        dotted = node.names if isinstance(node, ast.Import | ast.ImportFrom) else ()
        module = node.module if isinstance(node, ast.ImportFrom) else None
        if max((n.count(".") for n in (module or "", *(a.name for a in dotted))), default=0) > (
            _DEEPEST
        ):
            return True
    return False


def body_indent(node: cst.FunctionDef, module: cst.Module) -> str:
    """How far the body of a function stands in from it."""
    body = node.body
    return (body.indent if isinstance(body, cst.IndentedBlock) else None) or module.default_indent


def laid_out(statement: Statement, unit: str) -> Statement:
    """A statement with blocks that stand in by ``unit``."""
    return cast("Statement", statement.visit(_Laid(unit)))


class _Laid(cst.CSTTransformer):
    """Lays blocks out in a file's own indentation and line ends."""

    def __init__(self, unit: str) -> None:
        self._unit = unit

    def leave_IndentedBlock(  # noqa: N802
        self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        return updated_node.with_changes(indent=self._unit)

    def leave_Newline(  # noqa: N802
        self, original_node: cst.Newline, updated_node: cst.Newline
    ) -> cst.Newline:
        return updated_node.with_changes(value=None)


class Moved(cst.CSTTransformer):
    """Takes statements out, and puts one before another, all known by identity.

    A condition that is left with nothing to do goes with what it held.
    """

    def __init__(
        self,
        gone: Collection[Statement],
        target: Statement | None = None,
        wait: Statement | None = None,
    ) -> None:
        self._gone = {id(statement) for statement in gone}
        self._target = target
        self._wait = wait

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> object:  # type: ignore[override]
        """Takes out what is to go, and puts the wait before its target."""
        if id(original_node) in self._gone:
            return cst.RemoveFromParent()
        left: cst.CSTNode | None = updated_node
        if _is_empty(getattr(updated_node, "body", None)):
            left = _emptied(updated_node)
        if original_node is not self._target:
            return cst.RemoveFromParent() if left is None else left
        # What is said above the statement stays above it, and the wait comes before both.
        return cst.FlattenSentinel([n for n in (self._wait, left) if n is not None])


def _emptied(node: cst.CSTNode) -> cst.CSTNode | None:
    """What becomes of a statement whose block lost all that it held; None where it can go too."""
    if isinstance(node, cst.Else):
        return None
    if isinstance(node, cst.If) and node.orelse is None and _only_looks(node.test):
        return None
    block = cast("cst.IndentedBlock", node.body)  # type: ignore[attr-defined]
    nothing = cst.SimpleStatementLine([cst.Pass()])
    return node.with_changes(body=block.with_changes(body=[nothing]))


def _is_empty(body: object) -> bool:
    return isinstance(body, cst.IndentedBlock) and not body.body


def _only_looks(test: cst.CSTNode) -> bool:
    """Whether a test has no effect: names, attributes, constants and comparisons."""
    if isinstance(test, cst.Call | cst.NamedExpr | cst.Await | cst.Yield):
        return False
    return all(map(_only_looks, test.children))


class _Renamed(cst.CSTTransformer):
    def __init__(
        self,
        names: Mapping[str, cst.BaseExpression],
        attributes: Mapping[tuple[str, str], cst.BaseExpression],
        method: tuple[str, str],
    ) -> None:
        self._names = names
        self._attributes = attributes
        self._method = method

    def visit_Attribute(self, node: cst.Attribute) -> bool:  # noqa: N802
        return not self._whole(node)

    def visit_Attribute_attr(self, node: cst.Attribute) -> None:  # noqa: N802
        self._label = node.attr

    def visit_Arg_keyword(self, node: cst.Arg) -> None:  # noqa: N802
        self._label = node.keyword

    _label: cst.Name | None = None

    def _whole(self, node: cst.Attribute) -> cst.BaseExpression | None:
        if isinstance(node.value, cst.Name):
            return self._attributes.get((node.value.value, node.attr.value))
        return None

    def leave_Attribute(  # noqa: N802
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.BaseExpression:
        whole = self._whole(original_node)
        if whole is not None:
            return whole.deep_clone()
        value, (there, here) = original_node.value, self._method
        if isinstance(value, cst.Call) and isinstance(value.func, cst.Name):
            if value.func.value == "super" and original_node.attr.value == there:
                return updated_node.with_changes(attr=cst.Name(here))
        return updated_node

    def leave_Name(  # noqa: N802
        self, original_node: cst.Name, updated_node: cst.Name
    ) -> cst.BaseExpression:
        if original_node is self._label:
            return updated_node
        new = self._names.get(original_node.value)
        return new.deep_clone() if new is not None else updated_node
