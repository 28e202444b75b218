"""One function as it is written: its waits found, taken out, put in, or taken over from another."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from auditor.fix.statements import (
    BARE,
    Moved,
    Statement,
    body_indent,
    bound_in,
    laid_out,
    names_in,
    overflows,
    parts_of,
    prepares,
    used_in,
)
from auditor.fix.text import LINE_END, Edit, Source, Unfit, narrowed


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
        if overflows(node):
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
            unit or body_indent(held, module),
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
        return frozenset(bound_in(self.node.body))

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
            if isinstance(node, cst.For | cst.CompFor) and name in used_in(node.iter):
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
        inner = parts_of(node.body)
        last = inner[-1] if inner else None
        if last is None or not (self._is_wait(last, lines) or self._only_waits(last, lines)):
            return False
        return all(prepares(s) or self._only_waits(s, lines) for s in inner[:-1])

    def _is_wait(self, node: cst.CSTNode, lines: Collection[int]) -> bool:
        if not isinstance(node, cst.Expr):
            return False
        value = node.value
        if isinstance(value, cst.Await):
            value = value.expression
        return isinstance(value, cst.Call) and self.lines(value)[0] in lines

    def guards(self, wait: Statement, naming: str) -> Statement:
        """The wait with only those of its conditions around it that ask for what it waits on."""
        while isinstance(wait, cst.If) and naming not in names_in(wait.test):
            inner = [s for s in parts_of(wait.body) if isinstance(s, Statement)]
            if len(inner) != 1 or len(parts_of(wait.body)) != 1:
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
        return frozenset(name for statement in statements for name in bound_in(statement))

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
        return laid_out(statement.with_changes(leading_lines=[]), self.unit)

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
                body[:1] = [first.with_changes(body=[told], trailing_whitespace=BARE), rest]
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
        return cast("cst.IndentedBlock", self.block.visit(Moved(gone, target, wait)))

    def replaced(self, old: cst.CSTNode, new: cst.CSTNode) -> cst.BaseSuite:
        """The body with one of its nodes replaced."""
        return cast("cst.BaseSuite", self.node.body.deep_replace(old, new))

    def without(self, waits: Collection[Statement], body: cst.IndentedBlock) -> cst.IndentedBlock:
        """A body of this function without some of its statements."""
        return cast("cst.IndentedBlock", body.visit(Moved(waits)))
