"""What an expression of a tree stands for, where it is a constant: operations, items, calls."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from auditor.serve.tables import operations
from auditor.serve.tables import values as v
from auditor.serve.tables.names import (
    LOOPS,
    Exhausted,
    Frame,
    Names,
    Outcome,
    decorators_of,
)
from auditor.serve.tables.values import UNKNOWN, ClassValue, External, FunctionValue, Instance

_CALLS = 12
"""Calls within each other; 0.5.23 needs 8."""
_PROPERTIES = frozenset({"property", "cached_property"})
_HARMLESS = _PROPERTIES | {"staticmethod", "classmethod", "cache", "lru_cache", "override"}


class Expressions(Names):
    """Expressions, on top of what names mean."""

    def expr(self, node: ast.expr, frame: Frame) -> object:
        """The value of an expression."""
        return self.deeper(lambda: self.one(node, frame))

    def one(self, node: ast.expr, frame: Frame) -> object:
        """The value of an expression by its kind."""
        match node:
            case ast.Constant():
                return UNKNOWN if node.value is ... else v.bounded(node.value)
            case ast.Name():
                return self.name(node.id, frame)
            case ast.Attribute():
                return self.attribute(self.expr(node.value, frame), node.attr)
            case ast.JoinedStr():
                return operations.joined([self.field(part, frame) for part in node.values])
            case ast.Tuple():
                return tuple(self.elements(node.elts, frame))
            case ast.List():
                return self.elements(node.elts, frame)
            case ast.Set():
                found = self.elements(node.elts, frame)
                return {item if v.is_key(item) else UNKNOWN for item in found}
            case ast.Dict():
                return self.dictionary(node, frame)
            case ast.BinOp():
                return self.binary(node, frame)
            case ast.BoolOp():
                return self.chain(node, frame)
            case ast.UnaryOp():
                return _unary(node.op, self.expr(node.operand, frame))
            case ast.Compare():
                return self.comparison(node, frame)
            case ast.IfExp():
                return self.choice(node, frame)
            case ast.Subscript():
                return self.item(node, frame)
            case ast.Call():
                return self.called(node, frame)
            case ast.ListComp() | ast.GeneratorExp():
                return self.comprehension(node.generators, node.elt, frame)
            case ast.SetComp():
                return operations.made(
                    "set", [self.comprehension(node.generators, node.elt, frame)]
                )
            case ast.DictComp():
                pair = ast.Tuple([node.key, node.value], ast.Load())
                return operations.made("dict", [self.comprehension(node.generators, pair, frame)])
            case ast.Lambda():
                return FunctionValue(frame.module, node)
        return UNKNOWN

    def field(self, part: ast.expr, frame: Frame) -> object:
        """A part of a text with values in it."""
        if not isinstance(part, ast.FormattedValue):
            return self.expr(part, frame)
        conversion = "" if part.conversion == -1 else chr(part.conversion)
        spec = self.expr(part.format_spec, frame) if part.format_spec else ""
        if not isinstance(spec, str):
            return UNKNOWN
        text = operations.formatted(self.expr(part.value, frame), conversion, spec)
        return UNKNOWN if text is None else text

    def elements(self, nodes: Sequence[ast.expr], frame: Frame) -> list[object]:
        """The values of several expressions, starred ones spread."""
        found: list[object] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                inner = self.iterated(node.value, frame)
                found.extend([UNKNOWN] if inner is None else inner)
            else:
                found.append(self.expr(node, frame))
            if len(found) > v.LARGEST:
                raise Exhausted
        return found

    def dictionary(self, node: ast.Dict, frame: Frame) -> object:
        """The value of a display of a dictionary."""
        found: dict[object, object] = {}
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            value = self.expr(value_node, frame)
            if key_node is None:
                found.update(value if isinstance(value, dict) else {UNKNOWN: UNKNOWN})
                continue
            key = self.expr(key_node, frame)
            if v.is_key(key):
                found[key] = value
            else:
                found[UNKNOWN] = UNKNOWN
            if len(found) > v.LARGEST:
                raise Exhausted
        return found

    def binary(self, node: ast.BinOp, frame: Frame) -> object:
        """The value of an operation on two."""
        pending: list[tuple[ast.operator, ast.expr]] = []
        left: ast.expr = node
        while isinstance(left, ast.BinOp):  # a + b + c is nested to the left
            pending.append((left.op, left.right))
            left = left.left
        value = self.expr(left, frame)
        for op, right in reversed(pending):
            operation = operations.BINARY.get(type(op))
            value = operation(value, self.expr(right, frame)) if operation else UNKNOWN
        return value

    def chain(self, node: ast.BoolOp, frame: Frame) -> object:
        """The value of ``and`` and ``or``."""
        stops = isinstance(node.op, ast.Or)
        value: object = UNKNOWN
        unknown = False
        for part in node.values:
            value = self.expr(part, frame)
            decided = v.truth(value)
            if decided is stops:
                return UNKNOWN if unknown and stops and value is not True else value
            unknown = unknown or decided is None
        return UNKNOWN if unknown else value

    def comparison(self, node: ast.Compare, frame: Frame) -> object:
        """Whether a comparison holds."""
        if len(node.ops) != 1:
            return UNKNOWN
        left = self.expr(node.left, frame)
        return operations.compared(node.ops[0], left, self.expr(node.comparators[0], frame))

    def choice(self, node: ast.IfExp, frame: Frame) -> object:
        """The value of either branch of a conditional expression."""
        decided = v.truth(self.expr(node.test, frame))
        if decided is not None:
            return self.expr(node.body if decided else node.orelse, frame)
        left, right = self.expr(node.body, frame), self.expr(node.orelse, frame)
        return left if v.same(left, right) else UNKNOWN

    def attribute(self, owner: object, name: str) -> object:
        """The value of an attribute of whatever has it."""
        match owner:
            case Instance():
                if name in owner.attributes:
                    return owner.attributes[name]
                if name == "__class__":
                    return owner.cls
                found = self.class_attribute(owner.cls, name)
                if isinstance(found, FunctionValue) and decorators_of(found.node) & _PROPERTIES:
                    return self.call(found, [owner], {})
                return found
            case ClassValue():
                return owner.name if name == "__name__" else self.class_attribute(owner, name)
            case v.ModuleValue():
                return self.deeper(lambda: self.member_of_module(owner.tree, owner.dotted, name))
            case External():
                return External(f"{owner.dotted}.{name}")
            case v.Member():
                return {"value": owner.value, "name": owner.name}.get(name, UNKNOWN)
            case v.Pattern():
                return owner.text if name == "pattern" else UNKNOWN
        return UNKNOWN

    def item(self, node: ast.Subscript, frame: Frame) -> object:
        """The value of what is indexed."""
        owner = self.expr(node.value, frame)
        if isinstance(owner, External) and owner.dotted.rpartition(".")[2] == "Literal":
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return v.LiteralType(tuple(self.elements(parts, frame)))
        if isinstance(node.slice, ast.Slice):
            bounds = [
                None if part is None else self.expr(part, frame)
                for part in (node.slice.lower, node.slice.upper, node.slice.step)
            ]
            return operations.sliced(owner, bounds)
        key = self.expr(node.slice, frame)
        if isinstance(owner, ClassValue) and isinstance(key, str):
            return self.class_attribute(owner, key)
        return operations.indexed(owner, key)

    def iterated(self, node: ast.expr, frame: Frame) -> list[object] | None:
        """The values that something gives one after another."""
        value = self.expr(node, frame)
        return self.enum_members(value) if isinstance(value, ClassValue) else v.members(value)

    def comprehension(
        self, generators: list[ast.comprehension], element: ast.expr, frame: Frame
    ) -> object:
        """The values of a comprehension."""
        if len(generators) != 1 or generators[0].is_async:
            return UNKNOWN
        items = self.iterated(generators[0].iter, frame)
        if items is None or len(items) > LOOPS:
            return UNKNOWN
        found: list[object] = []
        inner = Frame(frame.module, dict(frame.scope), frame.cls, frame.body)
        for item in items:
            self.assign(generators[0].target, item, inner)
            kept = [v.truth(self.expr(test, inner)) for test in generators[0].ifs]
            if False in kept:
                continue
            found.append(UNKNOWN if None in kept else self.expr(element, inner))
        return found

    def arguments(self, node: ast.Call, frame: Frame) -> tuple[list[object], dict[str, object]]:
        """The arguments; the name ``**`` stands for unknown ``*args`` or ``**kwargs``."""
        args = self.elements(node.args, frame)
        named: dict[str, object] = {}
        for arg in node.args:
            if isinstance(arg, ast.Starred) and self.iterated(arg.value, frame) is None:
                named["**"] = UNKNOWN
        for keyword in node.keywords:
            value = self.expr(keyword.value, frame)
            if keyword.arg is not None:
                named[keyword.arg] = value
            elif isinstance(value, dict) and all(isinstance(key, str) for key in value):
                named.update({str(key): item for key, item in value.items()})
            else:
                named["**"] = UNKNOWN
        return args, named

    def called(self, node: ast.Call, frame: Frame) -> object:
        """The value of a call."""
        func = node.func
        args, named = self.arguments(node, frame)
        if isinstance(func, ast.Attribute):
            if isinstance(func.value, ast.Call) and _is_super(func.value.func):
                found = self.super_method(func.attr, frame)
                return self.call(found, [frame.scope["self"], *args], named) if found else UNKNOWN
            owner = self.expr(func.value, frame)
            if isinstance(owner, Instance):
                bound_to = self.class_attribute(owner.cls, func.attr)
                return self.call_on(bound_to, owner, args, named)
            if isinstance(owner, ClassValue):
                bound_to = self.class_attribute(owner, func.attr)
                return self.call_on(bound_to, owner, args, named)
            if not isinstance(owner, (External, v.ModuleValue)):
                return v.bounded(operations.method(owner, func.attr, args, named))
        target = self.expr(func, frame)
        match target:
            case ClassValue():
                return self.make(target, args, named, node)
            case FunctionValue():
                return self.call(target, args, named)
            case External():
                if args and isinstance(args[0], ClassValue):
                    inner = self.enum_members(args[0])
                    args = [args[0] if inner is None else inner, *args[1:]]
                return v.bounded(operations.made(target.dotted, args, named))
        return UNKNOWN

    def call_on(
        self,
        found: object,
        owner: Instance | ClassValue,
        args: list[object],
        named: dict[str, object],
    ) -> object:
        """The value of a call on what was evaluated."""
        if not isinstance(found, FunctionValue):
            return UNKNOWN
        decorators = decorators_of(found.node)
        if "staticmethod" in decorators:
            return self.call(found, args, named)
        if "classmethod" in decorators and isinstance(owner, Instance):
            owner = owner.cls
        if isinstance(owner, ClassValue) and "classmethod" not in decorators:
            return self.call(found, args, named)  # Base.__init__(self, …)
        return self.call(found, [owner, *args], named)

    def call(self, func: FunctionValue, args: list[object], named: dict[str, object]) -> object:
        """What a function of the tree returns."""
        if self.calls >= _CALLS or decorators_of(func.node) - _HARMLESS:
            return UNKNOWN
        frame = Frame(func.module, {}, func.owner)
        self.bind(func, args, named, frame)
        self.calls += 1
        try:
            if isinstance(func.node, ast.Lambda):
                return self.expr(func.node.body, frame)
            if isinstance(func.node, ast.AsyncFunctionDef):
                return UNKNOWN
            outcome = self.block(func.node.body, frame)
        finally:
            self.calls -= 1
        if frame.returned or isinstance(outcome, Outcome):
            return UNKNOWN
        return outcome

    def bind(
        self, func: FunctionValue, args: list[object], named: dict[str, object], frame: Frame
    ) -> None:
        """The local names of a function by what it is called with."""
        spec = func.node.args
        plain = [arg.arg for arg in (*spec.posonlyargs, *spec.args)]
        outer = Frame(func.module, {}, func.owner, body=func.owner is not None)
        defaults: dict[str, ast.expr | None] = dict(
            zip(reversed(plain), reversed(spec.defaults), strict=False)
        )
        defaults.update(
            {arg.arg: d for arg, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True)}
        )
        given = dict(zip(plain, args, strict=False)) | {k: x for k, x in named.items() if k != "**"}
        for name in [*plain, *(arg.arg for arg in spec.kwonlyargs)]:
            default = defaults.get(name)
            if name in given:
                frame.scope[name] = given.pop(name)
            elif default is None or "**" in named:
                frame.scope[name] = UNKNOWN
            else:
                frame.scope[name] = self.expr(default, outer)
        if spec.vararg:
            frame.scope[spec.vararg.arg] = tuple(args[len(plain) :])
        if spec.kwarg:
            more: dict[object, object] = {UNKNOWN: UNKNOWN} if "**" in named else {}
            more.update(given)
            frame.scope[spec.kwarg.arg] = more
        if plain and args and isinstance(args[0], Instance):
            frame.scope["self"] = args[0]


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "super"


def _unary(op: ast.unaryop, value: object) -> object:
    if isinstance(op, ast.Not):
        decided = v.truth(value)
        return UNKNOWN if decided is None else not decided
    if isinstance(value, (int, float)):
        if isinstance(op, ast.USub):
            return -value
        if isinstance(op, ast.UAdd):
            return value
    return UNKNOWN
