"""What a piece of a file says: its functions, where names are used, and under which tests."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from auditor.serve.tables.modules import absolute

if TYPE_CHECKING:
    from auditor.deployment.code import File

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

Guard = tuple[ast.expr, bool]
"""A test, and whether it must fail."""

Given = tuple[ast.expr, int, tuple[Guard, ...]]
"""What a name is given: the value, its place in a tuple (-1: whole), the tests around."""

Row = tuple["Body", ast.expr, int, tuple[Guard, ...]]
"""What something is given: where, the value, its place in a tuple (-1: whole), the tests around."""

_TYPE_TESTS = frozenset({"isinstance", "issubclass", "type", "cast"})
_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True, eq=False)
class Body:
    """A function with what is nested in it, or the top level of a module or class.

    ``function`` is then None.
    """

    file: File
    owner: ast.ClassDef | None
    function: FunctionNode | None
    assigned: dict[str, list[Given]] = field(default_factory=dict)
    """What local names are given; a value that a loop or a context makes is ``...``."""
    returns: list[tuple[ast.expr | None, tuple[Guard, ...]]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the function, empty for a module."""
        return self.function.name if self.function is not None else ""

    @cached_property
    def parameters(self) -> Mapping[str, ast.expr | None]:
        """The parameters with their defaults, in order, the object itself left out."""
        if self.function is None:
            return {}
        spec = self.function.args
        plain = [*spec.posonlyargs, *spec.args]
        found: dict[str, ast.expr | None] = {arg.arg: None for arg in plain}
        for arg, value in zip(reversed(plain), reversed(spec.defaults), strict=False):
            found[arg.arg] = value
        for arg, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
            found[arg.arg] = default
        if self.owner is not None and plain:
            found.pop(plain[0].arg)
        return found


@dataclass(frozen=True, eq=False)
class Use:
    """A name that is used: called, handed on or kept, and the tests that it stands under.

    ``attribute`` tells ``x.name`` from ``name``; ``receiver`` is then ``x``.
    """

    body: Body
    node: ast.expr
    guards: tuple[Guard, ...]
    call: ast.Call | None
    inside: ast.Call | None
    attribute: bool

    @property
    def receiver(self) -> ast.expr | None:
        """The object whose attribute is used."""
        return self.node.value if isinstance(self.node, ast.Attribute) else None


class Part:
    """What one piece of a file says: its bodies, the uses of each name, what attributes are given.

    ``named_values`` are those given by a name as text or a keyword of a function. ``around`` is
    the body in which the piece stands: that of the file, or of a class.
    """

    def __init__(self, block: Sequence[ast.stmt], around: Body) -> None:
        self.file = around.file
        self.bodies: list[Body] = []
        self.uses: dict[str, list[Use]] = {}
        self.attributes: dict[str, list[Row]] = {}
        self.named_values: dict[str, list[Row]] = {}
        self.classes: list[ast.ClassDef] = []
        self.aliases: dict[str, str] = {}
        self.imports: dict[str, tuple[str, str]] = {}
        self.stars: list[str] = []
        self._block(block, around, around.owner, ())

    def _block(
        self,
        block: Sequence[ast.stmt],
        body: Body,
        owner: ast.ClassDef | None,
        guards: tuple[Guard, ...],
    ) -> None:
        for node in block:
            guards = self._statement(node, body, owner, guards)

    def _statement(
        self, node: ast.stmt, body: Body, owner: ast.ClassDef | None, guards: tuple[Guard, ...]
    ) -> tuple[Guard, ...]:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node, body, owner, guards)
            case ast.ClassDef():
                self._class(node, body, guards)
            case ast.Import() | ast.ImportFrom():
                self._imported(node)
            case ast.If():
                self._expression(node.test, body, guards, None)
                self._block(node.body, body, owner, (*guards, (node.test, False)))
                self._block(node.orelse, body, owner, (*guards, (node.test, True)))
                after = _passed(node)
                return guards if after is None else (*guards, after)
            case ast.Match():
                self._expression(node.subject, body, guards, None)
                for case in node.cases:
                    matched = _pattern(node.subject, case.pattern)
                    more = ((matched, False),) if matched is not None else ()
                    self._block(case.body, body, owner, (*guards, *more))
            case ast.Return():
                if node.value is not None:
                    self._expression(node.value, body, guards, None)
                body.returns.append((node.value, guards))
            case ast.Assign():
                self._expression(node.value, body, guards, None)
                for target in node.targets:
                    self._assigned(target, node.value, body, guards)
            case ast.AnnAssign():
                if node.value is not None:
                    self._expression(node.value, body, guards, None)
                    self._assigned(node.target, node.value, body, guards)
            case ast.While():
                self._expression(node.test, body, guards, None)
                self._block(node.body, body, owner, (*guards, (node.test, False)))
                self._block(node.orelse, body, owner, guards)
            case ast.For() | ast.AsyncFor():
                self._expression(node.iter, body, guards, None)
                self._assigned(node.target, _unknown(node.target), body, guards)
                self._block(node.body, body, owner, guards)
                self._block(node.orelse, body, owner, guards)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self._expression(item.context_expr, body, guards, None)
                    if item.optional_vars is not None:
                        self._assigned(
                            item.optional_vars, _unknown(item.optional_vars), body, guards
                        )
                self._block(node.body, body, owner, guards)
            case ast.Try():
                for block in (node.body, *(handler.body for handler in node.handlers)):
                    self._block(block, body, owner, guards)
                self._block(node.orelse, body, owner, guards)
                self._block(node.finalbody, body, owner, guards)
            case ast.AugAssign():
                self._expression(node.value, body, guards, None)
                self._assigned(node.target, _unknown(node.target), body, guards)
            case _:
                for child in ast.iter_child_nodes(node):
                    self._expression(child, body, guards, None)
        return guards

    def _function(
        self, node: FunctionNode, body: Body, owner: ast.ClassDef | None, guards: tuple[Guard, ...]
    ) -> None:
        for decorator in node.decorator_list:
            self._expression(decorator, body, guards, None)
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self._expression(default, Body(self.file, owner, node), (), None)
        if body.function is None:
            body = Body(self.file, owner, node)
            self.bodies.append(body)
            self._block(node.body, body, owner, ())
        else:
            told = len(body.returns)
            self._block(node.body, body, owner, guards)
            del body.returns[told:]  # what a nested function returns is its own

    def _class(self, node: ast.ClassDef, body: Body, guards: tuple[Guard, ...]) -> None:
        self.classes.append(node)
        for decorator in node.decorator_list:
            self._expression(decorator, body, guards, None)
        inside = body
        if body.function is None:
            inside = Body(self.file, node, None)
            self.bodies.append(inside)
        self._block(node.body, inside, node, guards)

    def _imported(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.asname:
                self.aliases[alias.asname] = alias.name
            if isinstance(node, ast.ImportFrom):
                dotted = absolute(self.file.package, node)
                self.imports[alias.asname or alias.name] = (dotted, alias.name)
                if alias.name == "*":
                    self.stars.append(dotted)

    def _assigned(
        self, target: ast.expr, value: ast.expr, body: Body, guards: tuple[Guard, ...]
    ) -> None:
        pairs = [(target, -1)]
        if isinstance(target, (ast.Tuple, ast.List)):
            pairs = [(part, number) for number, part in enumerate(target.elts)]
        for part, number in pairs:
            if isinstance(part, ast.Name):
                body.assigned.setdefault(part.id, []).append((value, number, guards))
            elif isinstance(part, ast.Attribute):
                row = (body, value, number, guards)
                self.attributes.setdefault(part.attr, []).append(row)
            elif isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Constant):
                if isinstance(part.slice.value, str) and number < 0:
                    row = (body, value, number, guards)
                    self.named_values.setdefault(part.slice.value, []).append(row)

    def _expression(
        self, node: ast.AST, body: Body, guards: tuple[Guard, ...], inside: ast.Call | None
    ) -> None:
        match node:
            case ast.Call(func=func, args=args, keywords=keywords):
                self._callee(node, func, body, guards, inside)
                if last(func) in _TYPE_TESTS:
                    args = args[:1] if last(func) != "cast" else args[1:]
                for arg in args:
                    self._expression(arg, body, guards, node)
                for keyword in keywords:
                    self._expression(keyword.value, body, guards, node)
                    if keyword.arg and not last(func)[:1].isupper():
                        row = (body, keyword.value, -1, guards)
                        self.named_values.setdefault(keyword.arg, []).append(row)
            case ast.IfExp(test=test, body=then, orelse=orelse):
                self._expression(test, body, guards, inside)
                self._expression(then, body, (*guards, (test, False)), inside)
                self._expression(orelse, body, (*guards, (test, True)), inside)
            case ast.BoolOp(op=ast.And(), values=values):
                for value in values:
                    self._expression(value, body, guards, inside)
                    guards = (*guards, (value, False))
            case ast.NamedExpr(target=target, value=value):
                self._expression(value, body, guards, inside)
                self._assigned(target, value, body, guards)
            case ast.Compare(left=left, ops=ops, comparators=others):
                if not _of_types(left, ops):
                    for part in (left, *others):
                        self._expression(part, body, guards, inside)
            case ast.Name(id=name, ctx=ast.Load()):
                self._use(name, Use(body, node, guards, None, inside, False))
            case ast.Attribute(value=value, attr=name):
                self._use(name, Use(body, node, guards, None, inside, True))
                if not isinstance(value, ast.Name):
                    self._expression(value, body, guards, inside)
            case ast.Dict(keys=keys, values=values):
                # A class as a key tells types apart; it makes no object.
                for key in keys:
                    if key is not None and not isinstance(key, ast.Name):
                        self._expression(key, body, guards, inside)
                for value in values:
                    self._expression(value, body, guards, inside)
            case ast.Lambda(body=value):
                self._expression(value, body, guards, inside)
            case ast.expr() | ast.comprehension():
                for child in ast.iter_child_nodes(node):
                    self._expression(child, body, guards, inside)

    def _callee(
        self,
        call: ast.Call,
        func: ast.expr,
        body: Body,
        guards: tuple[Guard, ...],
        inside: ast.Call | None,
    ) -> None:
        match func:
            case ast.Name(id=name):
                self._use(name, Use(body, func, guards, call, inside, False))
            case ast.Attribute(value=value, attr=name):
                self._use(name, Use(body, func, guards, call, inside, True))
                if not isinstance(value, ast.Name):
                    self._expression(value, body, guards, inside)
            case ast.BoolOp(values=values):  # (given or Default)(…)
                for value in values:
                    self._callee(call, value, body, guards, inside)
            case _:
                self._expression(func, body, guards, inside)

    def _use(self, name: str, use: Use) -> None:
        self.uses.setdefault(name, []).append(use)


def _passed(node: ast.If) -> Guard | None:
    """The test under which what follows a choice is reached through it; None where that is sure."""
    if leaves(node.body):
        return node.test, True
    if not node.orelse:
        return None
    if leaves(node.orelse):
        return node.test, False
    after = _passed(node.orelse[0]) if isinstance(node.orelse[0], ast.If) else None
    if after is None or len(node.orelse) > 1:
        return None
    test, negated = after
    other = ast.UnaryOp(ast.Not(), test) if negated else test
    return ast.BoolOp(ast.Or(), [node.test, other]), False


def leaves(block: Sequence[ast.stmt]) -> bool:
    """Whether what follows a block is not reached through it."""
    if not block:
        return False
    last = block[-1]
    if isinstance(last, ast.If):
        return leaves(last.body) and leaves(last.orelse)
    return isinstance(last, _EXITS)


def _unknown(target: ast.expr) -> ast.expr:
    """The value that a loop or a context gives a name."""
    return ast.copy_location(ast.Constant(...), target)


def _pattern(subject: ast.expr, pattern: ast.pattern) -> ast.expr | None:
    match pattern:
        case ast.MatchValue(value=value):
            return ast.Compare(subject, [ast.Eq()], [value])
        case ast.MatchOr(patterns=parts):
            tests = [_pattern(subject, part) for part in parts]
            known = [test for test in tests if test is not None]
            return ast.BoolOp(ast.Or(), known) if len(known) == len(tests) else None
    return None


def _of_types(left: ast.expr, ops: Iterable[ast.cmpop]) -> bool:
    """``type(x) is C``."""
    return isinstance(left, ast.Call) and last(left.func) == "type"


def last(node: ast.expr) -> str:
    """The last name of a dotted one."""
    if isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
