"""What an expression stands for, and what it does on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from auditor.gates.calls import Calls
from auditor.gates.events import State
from auditor.gates.values import (
    ELEMENT,
    FIXED,
    LOOP,
    NO_KEYS,
    NOTHING,
    Value,
    is_element,
    join_values,
)
from auditor.source import facts as f


class Expressions(Calls):
    """What expressions stand for, on top of what calls do."""

    def bind(self, target: f.Expr, value: Value) -> None:
        """Give a target a value."""
        if isinstance(target, f.Name):
            self.bind_name(target.id, value)
        elif isinstance(target, f.Group) and target.op in ("tuple", "list", "star"):
            known = len(value.parts) == len(target.parts)
            for position, part in enumerate(target.parts):
                inner = value.parts[position] if known else self.member(value, NO_KEYS)
                self.bind(part, inner)
        elif isinstance(target, f.Sub):
            self.store(target)

    def store(self, target: f.Expr) -> None:
        """Evaluate a target: what it stands on is written to, its indices are read."""
        if isinstance(target, f.Sub):
            self.expr(target.index)
            self.sink(self.expr(target.value), "store", target.line)
        elif isinstance(target, f.Attr):
            self.expr(target.value)
        elif isinstance(target, f.Call):
            self.expr(target)
        elif isinstance(target, f.Group):
            for part in target.parts:
                self.store(part)

    def iterate(self, source: f.Expr, value: Value) -> Value:
        """What a loop variable stands for."""
        if isinstance(source, f.Call) and isinstance(source.func, f.Name) and source.args:
            if source.func.id == "range":  # its bounds do not choose among the members
                return Value(deps=frozenset((LOOP,)))
            if source.func.id == "enumerate":
                inner = self.member(self.expr(source.args[0]), frozenset((LOOP,)))
                return Value(parts=(Value(deps=frozenset((LOOP,))), inner))
            if source.func.id == "zip":
                loop = frozenset((LOOP,))
                return Value(parts=tuple(self.member(self.expr(a), loop) for a in source.args))
        return self.member(value, frozenset((LOOP,)))

    def expr(self, expr: f.Expr, used: bool = True) -> Value:
        """The value of an expression; ``used`` tells whether anyone takes that of a call."""
        if isinstance(expr, f.Name):
            return self.name(expr.id)
        if isinstance(expr, f.Call):
            return self.call(expr, used)
        return _EVALUATE[type(expr)](self, expr)

    def _attribute(self, expr: f.Attr) -> Value:
        return self.attribute(self.expr(expr.value), expr.name, expr.line, expr.column)

    def _choice(self, expr: f.Choice) -> Value:
        results: list[Value] = []
        self.expr(expr.test)
        self.branch(
            expr.test,
            lambda: results.append(self.expr(expr.body)),
            lambda: results.append(self.expr(expr.orelse)),
        )
        return join_values(results)

    def _bound(self, expr: f.Bind) -> Value:
        value = self.expr(expr.value)
        self.bind_name(expr.target, value)
        return value

    def _lambda(self, expr: f.Lambda) -> Value:
        live = self.state
        self.state = live.fork()  # it runs later, if at all: what it waits on is not waited on here
        for name in expr.parameters:
            self.state.env[name] = Value(frozenset(((f"local:{name}",),)))
        self.expr(expr.body)
        self.state = live
        return NOTHING

    def _constant(self, expr: f.Const) -> Value:
        off = expr.kind == "none" or (expr.kind == "bool" and expr.text == "False")
        return Value(text=expr.text, none=off) if off or expr.text else NOTHING

    def name(self, name: str) -> Value:
        """What a bare name stands for."""
        found = self.state.env.get(name)
        if found is not None:
            return found
        return Value(frozenset(((f"global:{name}",),)))

    def subscript(self, expr: f.Sub) -> Value:
        """A member of what is indexed."""
        value = self.expr(expr.value)
        index = self.expr(expr.index)
        if value.parts and isinstance(expr.index, f.Const) and expr.index.text.isdigit():
            position = int(expr.index.text)
            if position < len(value.parts):
                return value.parts[position]
        fixed = isinstance(expr.index, f.Const) and expr.index.kind in ("int", "str")
        found = self.member(value, index.keys, FIXED if fixed else ELEMENT)
        if any(map(is_element, value.paths)) or value.parts:
            return found  # a part of an element that was taken before
        return found.at(self.place(expr.line, expr.column))

    def group(self, expr: f.Group) -> Value:
        """The value of several expressions, evaluated in order."""
        if expr.op in ("and", "or") and len(expr.parts) > 1:
            first, rest = expr.parts[0], f.Group(expr.op, expr.parts[1:])
            test = first if expr.op == "and" else f.Group("not", (first,))
            results = [self.expr(first)]
            self.branch(test, lambda: results.append(self.expr(rest)), lambda: None)
            return join_values(results)
        values = [self.expr(part) for part in expr.parts]
        if expr.op in ("tuple", "list"):
            return Value(parts=tuple(values))
        if expr.op in ("and", "or", "await", "star"):
            return values[0] if values else NOTHING
        if expr.op == "dict":
            return join_values(values)
        if expr.op == "value":  # comparisons are made of bookkeeping, not of buffers
            for value in values:
                if any(map(is_element, value.paths)):
                    self.use(value, value.line)
        return Value(deps=NO_KEYS.union(*(v.keys for v in values)))

    def comprehension(self, expr: f.Comp) -> Value:
        """What a comprehension makes: a container of its element."""
        live = self.state
        self.state = live.fork()
        for target, source in expr.generators:
            self.bind(target, self.iterate(source, self.expr(source)))
        for test in expr.tests:
            self.expr(test)
        element = self.expr(expr.element)
        self.settle_loop(live, self.state)
        self.state = live
        return Value(parts=(element,)) if element != NOTHING else NOTHING

    def settle_loop(self, before: State, after: State) -> None:
        """Keep what a loop's body waited on: for all indices where it waited for its own."""
        before.may |= after.may
        for token, keys in after.held.items():
            if keys is not None and LOOP in keys and token not in before.held:
                before.held[token] = None


_EVALUATE: dict[type, Callable[[Expressions, Any], Value]] = {
    f.Attr: Expressions._attribute,
    f.Sub: Expressions.subscript,
    f.Group: Expressions.group,
    f.Choice: Expressions._choice,
    f.Comp: Expressions.comprehension,
    f.Bind: Expressions._bound,
    f.Lambda: Expressions._lambda,
    f.Const: Expressions._constant,
}
