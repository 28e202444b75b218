"""Follows statements for the value of a constant: branches, loops, what each assigns."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from auditor.serve.tables import operations
from auditor.serve.tables import values as v
from auditor.serve.tables.expressions import Expressions
from auditor.serve.tables.modules import CHANGES, bound
from auditor.serve.tables.names import (
    GOING,
    LOOPS,
    RAISED,
    Frame,
)
from auditor.serve.tables.values import UNKNOWN, ClassValue, External, FunctionValue, Instance


class Statements(Expressions):
    """Statements, on top of what expressions stand for."""

    def block(self, body: Sequence[ast.stmt], frame: Frame) -> object:
        """Follow statements; gives ``GOING``, ``RAISED`` or the value that is returned."""
        for node in body:
            outcome = self.deeper(lambda node=node: self.stmt(node, frame), GOING)  # type: ignore[misc]
            if outcome is not GOING:
                return outcome
        return GOING

    def stmt(self, node: ast.stmt, frame: Frame) -> object:
        """Follow one statement."""
        match node:
            case ast.Assign():
                value = self.expr(node.value, frame)
                for target in node.targets:
                    self.assign(target, value, frame)
            case ast.AnnAssign():
                if node.value is not None:
                    self.assign(node.target, self.expr(node.value, frame), frame)
            case ast.AugAssign():
                before = self.expr(node.target, frame)
                operation = operations.BINARY.get(type(node.op))
                after = operation(before, self.expr(node.value, frame)) if operation else UNKNOWN
                self.assign(node.target, after, frame)
            case ast.Expr():
                self.effect(node.value, frame)
            case ast.Return():
                return UNKNOWN if node.value is None else self.expr(node.value, frame)
            case ast.Raise():
                return RAISED
            case ast.If():
                return self.branch(node, frame)
            case ast.For():
                return self.loop(node, frame)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    if item.optional_vars is not None:
                        self.assign(item.optional_vars, UNKNOWN, frame)
                return self.block(node.body, frame)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                frame.scope[node.name] = FunctionValue(frame.module, node)
            case ast.ClassDef():
                frame.scope[node.name] = ClassValue(frame.module, node)
            case ast.Import() | ast.ImportFrom():
                self.imports(node, frame)
            case ast.Pass() | ast.Global() | ast.Nonlocal() | ast.Assert() | ast.Delete():
                pass
            case _:
                if hasattr(node, "handlers"):  # Try, and TryStar from Python 3.11 on
                    return self.guarded(node, frame)  # type: ignore[arg-type]
                self.forget([node], frame)
        return GOING

    def forget(self, body: Iterable[ast.stmt], frame: Frame) -> None:
        """Make unknown what statements may give a value."""
        for node in body:
            for name in bound(node):
                if not isinstance(frame.scope.get(name), Instance):
                    frame.scope[name] = UNKNOWN

    def assign(self, target: ast.expr, value: object, frame: Frame) -> None:
        """Give a target a value."""
        match target:
            case ast.Name():
                frame.scope[target.id] = value
            case ast.Tuple() | ast.List():
                parts = v.members(value)
                starred = any(isinstance(item, ast.Starred) for item in target.elts)
                if parts is None or len(parts) != len(target.elts) or starred:
                    parts = [UNKNOWN] * len(target.elts)
                for inner, part in zip(target.elts, parts, strict=True):
                    self.assign(inner, part, frame)
            case ast.Starred():
                self.assign(target.value, UNKNOWN, frame)
            case ast.Attribute():
                owner = target.value
                this = self.expr(owner, frame)
                if isinstance(this, Instance):
                    this.attributes[target.attr] = value
                elif isinstance(this, ClassValue) and (this, target.attr) in self.cells:
                    self.cells[this, target.attr] = value
            case ast.Subscript():
                before = self.expr(target.value, frame)
                key = self.expr(target.slice, frame)
                after: object = UNKNOWN
                if isinstance(before, dict) and v.is_key(key):
                    after = {**before, key: value}
                elif isinstance(before, dict):
                    after = {**before, UNKNOWN: UNKNOWN}
                self.put(target.value, after, frame)

    def put(self, place: ast.expr, value: object, frame: Frame) -> None:
        """Store what a change of an object in place gives, where the place is a name of ours."""
        if isinstance(place, ast.Name):
            if place.id in frame.scope or not isinstance(value, v.Unknown):
                frame.scope[place.id] = value
        elif isinstance(place, ast.Attribute):
            self.assign(place, value, frame)

    def effect(self, node: ast.expr, frame: Frame) -> None:
        """A call as a statement: a change of a list, set or dictionary, or of ``self``."""
        if not isinstance(node, ast.Call):
            return
        func = node.func
        if not (isinstance(func, ast.Attribute) and func.attr in CHANGES):
            self.expr(node, frame)
            return
        before = self.expr(func.value, frame)
        if isinstance(before, (Instance, ClassValue, External)):
            self.expr(node, frame)
            return
        args, named = self.arguments(node, frame)
        self.put(func.value, operations.changed(before, func.attr, args, named), frame)

    def imports(self, node: ast.Import | ast.ImportFrom, frame: Frame) -> None:
        """Bind the names of an import."""
        tree = frame.module.tree
        if isinstance(node, ast.Import):
            for alias in node.names:
                dotted = alias.name if alias.asname else alias.name.partition(".")[0]
                value = v.ModuleValue(tree, dotted) if tree.holds(dotted) else External(dotted)
                frame.scope[alias.asname or dotted] = value
            return
        source = frame.module.absolute(node)
        for alias in node.names:
            if alias.name != "*":
                found = self.member_of_module(tree, source, alias.name)
                frame.scope[alias.asname or alias.name] = found

    def branch(self, node: ast.If, frame: Frame) -> object:
        """Follow one way of a test, both where it is not known."""
        decided = v.truth(self.expr(node.test, frame))
        if decided is not None:
            return self.block(node.body if decided else node.orelse, frame)
        return self.either([node.body, node.orelse], frame)

    def guarded(self, node: ast.Try, frame: Frame) -> object:
        """Follow a try, with and without its handlers."""
        handlers = [handler.body for handler in node.handlers]
        outcome = self.either([[*node.body, *node.orelse], *handlers], frame, spare=True)
        final = self.block(node.finalbody, frame)
        return outcome if final is GOING else final

    def either(
        self, bodies: Sequence[Sequence[ast.stmt]], frame: Frame, spare: bool = False
    ) -> object:
        """Follow each of the bodies and keep what those agree on that come to their end.

        ``spare``: None in a later one stands for something missing and yields to the first.
        """
        this = frame.scope.get("self")
        attributes = this.attributes if isinstance(this, Instance) else {}
        before, before_attributes = dict(frame.scope), dict(attributes)
        ends: list[tuple[object, dict[str, object], dict[str, object]]] = []
        for body in bodies:
            frame.scope = dict(before)
            attributes.clear()
            attributes.update(before_attributes)
            outcome = self.block(body, frame)
            if outcome is not RAISED:
                ends.append((outcome, frame.scope, dict(attributes)))
        if not ends:
            return RAISED
        going = [end for end in ends if end[0] is GOING]
        frame.scope = _merged([scope for _, scope, _ in going or ends], spare)
        merged = _merged([found for _, _, found in going or ends], spare)
        attributes.clear()
        attributes.update(merged)
        if len(going) == len(ends):
            return GOING
        if going:
            frame.returned = True
            return GOING
        first = ends[0][0]
        return first if all(v.same(first, end[0]) for end in ends[1:]) else UNKNOWN

    def loop(self, node: ast.For, frame: Frame) -> object:
        """Follow a loop over known values."""
        items = self.iterated(node.iter, frame)
        breaks = any(
            isinstance(inner, (ast.Break, ast.Continue, ast.Return))
            for each in node.body
            for inner in ast.walk(each)
        )
        if items is None or breaks or len(items) > LOOPS or node.orelse:
            self.forget([node], frame)
            return GOING
        for item in items:
            self.assign(node.target, item, frame)
            outcome = self.block(node.body, frame)
            if outcome is not GOING:
                return outcome
        return GOING


def _merged(ends: Sequence[dict[str, object]], spare: bool) -> dict[str, object]:
    """What several ends agree on; a name that only some have is taken from those."""
    found = dict(ends[0])
    for end in ends[1:]:
        for name, value in end.items():
            if name not in found or (spare and found[name] is not UNKNOWN and value is None):
                found.setdefault(name, value)
            elif not v.same(found[name], value):
                found[name] = UNKNOWN
    return found
