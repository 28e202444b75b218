"""What a test says of gates that may be missing: without one there is nothing to wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from auditor.gates.events import Events, State
from auditor.gates.values import (
    MEMBERS,
    NOTHING,
    RESULT,
    Keys,
    Path,
    add_held,
)
from auditor.source import facts as f
from auditor.source.index import is_property
from auditor.source.names import ClassKey


class Absence(Events):
    """What tests say, on top of what is noted."""

    def branch(
        self, test: f.Expr, body: Callable[[], object], orelse: Callable[[], object]
    ) -> None:
        """Walk both ways on from a test that has been evaluated."""
        before = self.state
        absent_if, absent_else = self.absent(test)
        yes, no = before.fork(), before.fork()
        for token in absent_if:
            yes.held[token] = None
        for token in absent_else:
            no.held[token] = None
        self.state = yes
        body()
        yes = self.state
        self.settle_optional(test, before, yes, no)
        self.state = no
        orelse()
        no = self.state
        conditional = self.switched(test, before, yes, no)
        before.become((yes, no))
        if not before.dead:
            for token, keys in conditional:
                add_held(before.held, token, keys)
        self.state = before

    def switched(
        self, test: f.Expr, before: State, yes: State, no: State
    ) -> list[tuple[Path, Keys | None]]:
        """Waits that a parameter switches: ``if wait: …`` holds where the caller says so."""
        if not isinstance(test, f.Name) or yes.dead or no.dead:
            return []
        roots = [p[0] for p in self.peek(test) if len(p) == 1 and p[0].startswith("param:")]
        if len(roots) != 1:
            return []
        switch = "?" + roots[0].removeprefix("param:")
        gained = [(t, k) for t, k in yes.held.items() if t not in no.held and t in yes.may]
        return [((switch, *t), k) for t, k in gained if not t[0].startswith("?")]

    def settle_optional(self, test: f.Expr, before: State, yes: State, no: State) -> None:
        """Count ``if gate is not None and index is not None: gate.wait(index)`` as the wait."""
        for token, keys in yes.held.items():
            if token in before.held and before.held[token] == keys:
                continue
            if all(self.concerns(part, token, keys) for part in _conjuncts(test)):
                no.held.setdefault(token, keys)

    def concerns(self, test: f.Expr, token: Path, keys: Keys | None) -> bool:
        """Whether a test asks only about the gate itself, or whether its index was given."""
        paths: set[Path] = set()
        for node in f.walk(test):
            if isinstance(node, f.Name | f.Attr):
                paths |= self.peek(node)
        paths = {p for p in paths if not any(len(q) > len(p) and q[: len(p)] == p for q in paths)}
        if not paths:
            return False
        presence = bool(self.absent(test)[1])
        explicit = isinstance(test, f.Group) and test.op in ("is not", "!=")
        for path in paths:
            about_gate = path[: len(token)] == token or token[: len(path)] == path
            index_given = (
                explicit
                and keys is not None
                and path[0].startswith("param:")
                and path[0].removeprefix("param:") in keys
            )
            if not (about_gate and (presence or len(path) > len(token))) and not index_given:
                return False
        return True

    def absent(self, test: f.Expr) -> tuple[frozenset[Path], frozenset[Path]]:
        """The objects known to be missing where a test holds, and where it does not."""
        nothing: frozenset[Path] = frozenset()
        if isinstance(test, f.Group):
            if test.op == "not":
                return self.absent(test.parts[0])[::-1]
            if test.op in ("and", "or"):
                pairs = [self.absent(part) for part in test.parts]
                union = (
                    nothing.union(*(p[0] for p in pairs)),
                    nothing.union(*(p[1] for p in pairs)),
                )
                common = (
                    frozenset.intersection(*(p[0] for p in pairs)),
                    frozenset.intersection(*(p[1] for p in pairs)),
                )
                return (union[0], common[1]) if test.op == "and" else (common[0], union[1])
            if test.op in ("is", "==", "is not", "!=") and test.parts[1] == f.Const("none"):
                paths = self.peek(test.parts[0])
                return (paths, nothing) if test.op in ("is", "==") else (nothing, paths)
            return nothing, nothing
        if isinstance(test, f.Call) and isinstance(test.func, f.Name):
            if test.func.id == "hasattr" and len(test.args) == 2:
                name = test.args[1]
                if isinstance(name, f.Const) and name.kind == "str":
                    owner = self.peek(test.args[0])
                    return nothing, frozenset((*p, name.text) for p in owner)
            return nothing, nothing
        inner = self.absent_by_property(test)
        return inner if inner is not None else (nothing, self.peek(test))

    def absent_by_property(self, test: f.Expr) -> tuple[frozenset[Path], frozenset[Path]] | None:
        """The same of a property, or a method without arguments, that only answers a test."""
        access = test
        if isinstance(test, f.Call) and not test.args and not test.keywords:
            access = test.func
        if not isinstance(access, f.Attr):
            return None
        owners = self.peek(access.value)
        for key in sorted(self.path_types(owners)):
            found = self.asked.method(key, access.name)
            if found is None or (access is test and not is_property(found.facts)):
                continue
            body = found.facts.body
            if len(body) == 1 and isinstance(body[0], f.Exit) and body[0].value is not None:
                walk = type(self)(self.evaluator, found, key)
                walk.bind_parameters()
                return _rebased(walk.absent(body[0].value), owners)
        return None

    def peek(self, expr: f.Expr) -> frozenset[Path]:
        """The paths of a plain access expression, without evaluating anything."""
        if isinstance(expr, f.Bind):
            return self.peek(expr.value)
        if isinstance(expr, f.Name):
            return self.state.env.get(expr.id, NOTHING).paths
        if isinstance(expr, f.Attr):
            return frozenset((*p, expr.name) for p in self.peek(expr.value))
        if isinstance(expr, f.Call) and isinstance(expr.func, f.Name) and expr.func.id == "getattr":
            name = expr.args[1] if len(expr.args) > 1 else None
            if isinstance(name, f.Const) and name.kind == "str":
                return frozenset((*p, name.text) for p in self.peek(expr.args[0]))
        return frozenset()

    def path_types(self, paths: Iterable[Path]) -> frozenset[ClassKey]:
        """The classes that paths may lead to."""
        found: set[ClassKey] = set()
        for path in paths:
            types: frozenset[ClassKey] = frozenset()
            if path[0] == "self" and self.context is not None:
                types = frozenset((self.context,))
            for step in path[1:]:
                if step not in MEMBERS and not step.endswith(RESULT):
                    types = frozenset().union(
                        *(self.asked.attribute(key, step)[0] for key in types)
                    )
            found |= types
        return frozenset(found)


def _rebased(
    pair: tuple[frozenset[Path], frozenset[Path]], owners: frozenset[Path]
) -> tuple[frozenset[Path], frozenset[Path]]:
    """Paths from self as paths from each owner."""

    def moved(paths: frozenset[Path]) -> frozenset[Path]:
        return frozenset((*o, *p[1:]) for p in paths if p[0] == "self" for o in owners)

    return moved(pair[0]), moved(pair[1])


def _conjuncts(test: f.Expr) -> tuple[f.Expr, ...]:
    if isinstance(test, f.Group) and test.op == "and":
        return tuple(c for part in test.parts for c in _conjuncts(part))
    return (test,)
