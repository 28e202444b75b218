"""One function as it is written: its waits found, taken out, put in, or taken over from another."""

from __future__ import annotations

import ast
import textwrap
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from typing import cast

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from auditor.fix.text import LINE_END, Edit, Source, Unfit, narrowed

Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement

_BARE = cst.TrailingWhitespace()
_DEEPEST = 500
"""Operands of one ``and`` or dots of one name; libcst takes some 4,000 of them on 8 MB of stack."""


@dataclass(frozen=True)
class Written:
    """A function of a file, parsed apart from the rest; lines are those of the file."""

    source: Source
    start: int
    text: str
    head: str
    shift: int
    unit: str
    module: cst.Module
    node: cst.FunctionDef
    ranges: Mapping[cst.CSTNode, CodeRange]

    @classmethod
    def of(cls, source: Source, qualname: str, line: int) -> Written:
        """The function of that name whose ``def`` is at a line. Raises Unfit."""
        found = source.functions.get((qualname, line))
        if found is None:
            raise Unfit(f"{qualname} is not where it was at line {line}")
        node, depth = found
        if _overflows(node):
            raise Unfit("the function is nested too deeply to be rewritten")
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        start = source.starts[first - 1]
        text = source.text[start : source.starts[node.end_lineno or node.lineno]]
        indent = text[: len(text) - len(text.lstrip(" \t"))]
        unit = indent[: len(indent) // depth] if depth and not len(indent) % depth else indent
        newline = next((m[0] for m in LINE_END.finditer(text)), "\n")
        steps = depth if unit * depth == indent else 1
        head = "".join(f"{unit * step}if 1:{newline}" for step in range(steps)) if indent else ""
        try:
            module = cst.parse_module(head + text)
            wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
            ranges = cast("Mapping[cst.CSTNode, CodeRange]", wrapper.resolve(PositionProvider))
        except (cst.ParserSyntaxError, cst.CSTValidationError, RecursionError) as problem:
            raise Unfit(f"the function cannot be rewritten: {type(problem).__name__}") from None
        held: cst.CSTNode = module
        while not isinstance(held, cst.FunctionDef):
            body = held.body if isinstance(held, cst.Module | cst.IndentedBlock) else ()
            if isinstance(held, cst.If):
                held = held.body
            elif len(body) == 1:
                held = body[0]
            else:
                raise Unfit("the function shares its lines with other code")
        if module.code != head + text:
            raise Unfit("the function would change by being parsed and written")
        return cls(
            source,
            start,
            text,
            head,
            first - 1 - head.count(newline),
            unit or _body_indent(held, module),
            module,
            held,
            ranges,
        )

    # -- asking ----------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The bare name of the function."""
        return self.node.name.value

    @cached_property
    def parameters(self) -> tuple[cst.Param, ...]:
        """All parameters that have a name of their own, in order."""
        given = self.node.params
        return (*given.posonly_params, *given.params, *given.kwonly_params)

    @cached_property
    def parameter_names(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(parameter.name.value for parameter in self.parameters)

    @property
    def collects(self) -> tuple[str, str]:
        """The names of ``*args`` and ``**kwargs``, empty without."""
        star, rest = self.node.params.star_arg, self.node.params.star_kwarg
        return star.name.value if isinstance(
            star, cst.Param
        ) else "", rest.name.value if rest else ""

    @cached_property
    def yields(self) -> bool:
        """Whether it is a generator."""

        def search(node: cst.CSTNode) -> bool:
            if isinstance(node, cst.FunctionDef | cst.ClassDef | cst.Lambda):
                return False
            return isinstance(node, cst.Yield) or any(map(search, node.children))

        return search(self.node.body)

    @cached_property
    def locals(self) -> frozenset[str]:
        """The names that the body binds."""
        return frozenset(_bound(self.node.body))

    def annotation(self, name: str) -> str:
        """The annotation of a parameter as text, empty without one."""
        for parameter in self.parameters:
            if parameter.name.value == name and parameter.annotation is not None:
                return self.module.code_for_node(parameter.annotation.annotation)
        return ""

    def takes_apart(self, name: str) -> bool:
        """Whether a name is asked for an attribute or an item, called, or gone through."""

        def search(node: cst.CSTNode) -> bool:
            held: cst.CSTNode | None = None
            if isinstance(node, cst.Attribute | cst.Subscript):
                held = node.value
            elif isinstance(node, cst.Call):
                held = node.func
            if isinstance(held, cst.Name) and held.value == name:
                return True
            if isinstance(node, cst.For | cst.CompFor) and name in _used(node.iter):
                return True
            return any(map(search, node.children))

        return search(self.node.body)

    @cached_property
    def statements(self) -> list[Statement]:
        """The statements of the body after its docstring; of a body on the ``def`` line, one."""
        return cast("list[Statement]", list(self.block.body)[self.has_docstring :])

    @cached_property
    def has_docstring(self) -> bool:
        """Whether the body begins with a docstring."""
        return self.node.get_docstring(clean=False) is not None

    @cached_property
    def block(self) -> cst.IndentedBlock:
        """The body, laid out in lines where it stands on the line of the ``def``."""
        body = self.node.body
        if isinstance(body, cst.IndentedBlock):
            return body
        assert isinstance(body, cst.SimpleStatementSuite)
        line = cst.SimpleStatementLine(body.body, trailing_whitespace=body.trailing_whitespace)
        return cst.IndentedBlock([line], indent=self.unit)

    def lines(self, node: cst.CSTNode) -> tuple[int, int]:
        """The first and last line of a node of this function."""
        found = self.ranges.get(node)
        if found is None:  # a body that was laid out anew
            found = self.ranges[self.node]
        return found.start.line + self.shift, found.end.line + self.shift

    def waits(self, lines: Collection[int]) -> list[Statement]:
        """The outermost statements that do nothing but wait, at the lines of waits."""
        found: list[Statement] = []

        def search(node: cst.CSTNode, *, other: bool = False) -> None:
            # An elif is no statement of its own.
            if not other and isinstance(node, Statement) and self._only_waits(node, lines):
                found.append(node)
            elif not isinstance(node, cst.FunctionDef | cst.ClassDef | cst.BaseExpression):
                for child in node.children:
                    search(child, other=isinstance(node, cst.If) and child is node.orelse)

        search(self.block)
        return found

    def _only_waits(self, node: cst.CSTNode, lines: Collection[int]) -> bool:
        if isinstance(node, cst.SimpleStatementLine):
            return len(node.body) == 1 and self._is_wait(node.body[0], lines)
        if isinstance(node, cst.If) and node.orelse is not None:
            return False
        if not isinstance(node, cst.If | cst.For):
            return False
        inner = _parts(node.body)
        last = inner[-1] if inner else None
        if last is None or not (self._is_wait(last, lines) or self._only_waits(last, lines)):
            return False
        return all(_prepares(s) or self._only_waits(s, lines) for s in inner[:-1])

    def _is_wait(self, node: cst.CSTNode, lines: Collection[int]) -> bool:
        if not isinstance(node, cst.Expr):
            return False
        value = node.value
        if isinstance(value, cst.Await):
            value = value.expression
        return isinstance(value, cst.Call) and self.lines(value)[0] in lines

    def guards(self, wait: Statement, naming: str) -> Statement:
        """The wait with only those of its conditions around it that ask for what it waits on."""
        while isinstance(wait, cst.If) and naming not in _names_in(wait.test):
            inner = [s for s in _parts(wait.body) if isinstance(s, Statement)]
            if len(inner) != 1 or len(_parts(wait.body)) != 1:
                break
            wait = inner[0]
        return wait

    def leading(self, wait: Statement) -> list[Statement] | None:
        """The statements of the body before a wait; None where the wait stands deeper."""
        for position, statement in enumerate(self.statements):
            if statement is wait:
                return self.statements[:position]
        return None

    def bound_by(self, statements: Sequence[Statement]) -> frozenset[str]:
        """The names that statements bind."""
        return frozenset(name for statement in statements for name in _bound(statement))

    def bound_before(self, line: int) -> frozenset[str]:
        """The names that whole statements of the body bind before a line."""
        return self.bound_by([s for s in self.statements if self.lines(s)[1] < line])

    def until(self, line: int, position: int) -> list[Statement]:
        """The statements from the ``position``-th on that begin at a line or before it."""
        return [s for s in self.statements[position:] if self.lines(s)[0] <= line]

    # -- editing ---------------------------------------------------------------------------------

    def edit(self, body: cst.BaseSuite) -> Edit:
        """The edit of the file that gives the function another body. Raises Unfit."""
        changed = self.module.deep_replace(self.node, self.node.with_changes(body=body))
        code = cast("cst.Module", changed).code
        if not code.startswith(self.head):
            raise Unfit("the function cannot be rewritten")
        return narrowed(self.start, self.text, code[len(self.head) :])

    def adopted(self, statement: Statement) -> Statement:
        """A statement of any file laid out as this one is; comments above it are left behind."""
        return _laid(statement.with_changes(leading_lines=[]), self.unit)

    def with_wait(self, wait: Statement, position: int) -> cst.IndentedBlock:
        """The body with a wait before its ``position``-th statement after the docstring."""
        body = list(self.block.body)
        at = position + self.has_docstring
        first = body[0]
        if position == 0 and self.has_docstring and isinstance(first, cst.SimpleStatementLine):
            # What shares the docstring's line comes after the wait.
            if len(first.body) > 1:
                told = first.body[0].with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
                rest = first.with_changes(body=first.body[1:], leading_lines=())
                body[:1] = [first.with_changes(body=[told], trailing_whitespace=_BARE), rest]
        body.insert(at, wait)
        return self.block.with_changes(body=body)

    def with_wait_before(
        self, line: int, wait: Statement, gone: Collection[Statement] = ()
    ) -> cst.IndentedBlock:
        """The body with a wait before the innermost statement that covers a line.

        ``gone`` are statements of the body that are taken out.
        """
        target: Statement | None = None

        def search(node: cst.CSTNode) -> None:
            nonlocal target
            if isinstance(node, Statement):
                first, last = self.lines(node)
                if not first <= line <= last:
                    return
                target = node
            for child in node.children:
                search(child)

        search(self.block)
        if target is None:
            raise Unfit(f"line {line} holds no statement of the function")
        return cast("cst.IndentedBlock", self.block.visit(_Moved(gone, target, wait)))

    def replaced(self, old: cst.CSTNode, new: cst.CSTNode) -> cst.BaseSuite:
        """The body with one of its nodes replaced."""
        return cast("cst.BaseSuite", self.node.body.deep_replace(old, new))

    def without(self, waits: Collection[Statement], body: cst.IndentedBlock) -> cst.IndentedBlock:
        """A body of this function without some of its statements."""
        return cast("cst.IndentedBlock", body.visit(_Moved(waits)))


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
            body += [_laid(s, unit) for s in gained] + kept
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
    return frozenset(_used(statement)) - frozenset(_bound(statement))


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


def _parts(body: cst.BaseSuite) -> list[cst.CSTNode]:
    """The statements of a block, or the small ones of a body on one line."""
    return list(cast("Sequence[cst.CSTNode]", body.body))


def _prepares(node: cst.CSTNode) -> bool:
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


def _names_in(node: cst.CSTNode) -> set[str]:
    found = {node.value} if isinstance(node, cst.Name) else set()
    return found.union(*map(_names_in, node.children))


def _used(node: cst.CSTNode) -> Iterator[str]:
    if isinstance(node, cst.Name):
        yield node.value
    for child in node.children:
        is_label = isinstance(node, cst.Attribute) and child is node.attr
        is_label = is_label or (isinstance(node, cst.Arg) and child is node.keyword)
        if not is_label:
            yield from _used(child)


def _bound(node: cst.CSTNode) -> Iterator[str]:
    if isinstance(node, cst.AssignTarget | cst.For | cst.AnnAssign | cst.AugAssign | cst.NamedExpr):
        yield from _used(node.target)
    elif isinstance(node, cst.AsName | cst.CompFor):
        yield from _used(node.name if isinstance(node, cst.AsName) else node.target)
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
        yield from _bound(child)


def _overflows(function: ast.AST) -> bool:
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


def _body_indent(node: cst.FunctionDef, module: cst.Module) -> str:
    body = node.body
    return (body.indent if isinstance(body, cst.IndentedBlock) else None) or module.default_indent


def _laid(statement: Statement, unit: str) -> Statement:
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


class _Moved(cst.CSTTransformer):
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
