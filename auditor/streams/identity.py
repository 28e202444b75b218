"""Which expressions of a function name one stream: paths through aliases, loops and options."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from auditor.source import facts as f
from auditor.streams.words import current

Keys = frozenset[str]
"""Every spelling of a thing, each a text without lines; two things that share one are the same."""

_MOST = 16
"""Spellings of one expression; what has more is no stream that anybody could follow."""
_DEPTH = 6
_EACH = "[*]"


def text(expr: f.Expr) -> str:
    """An expression as text, equal wherever it stands."""
    if isinstance(expr, f.Name):
        return expr.id
    if isinstance(expr, f.Attr):
        return f"{text(expr.value)}.{expr.name}"
    if isinstance(expr, f.Const):
        return repr(expr.text) if expr.kind == "str" else expr.text or expr.kind
    if isinstance(expr, f.Sub):
        return f"{text(expr.value)}[{text(expr.index)}]"
    if isinstance(expr, f.Call):
        given = [*map(text, expr.args), *(f"{name}={text(value)}" for name, value in expr.keywords)]
        return f"{text(expr.func)}({', '.join(given)})"
    inner = ", ".join(map(text, f.children(expr)))
    return f"{expr.op if isinstance(expr, f.Group) else type(expr).__name__}({inner})"


def attribute(expr: f.Expr) -> f.Expr:
    """``getattr(x, "name")`` as the attribute that it is; anything else as it stands."""
    if isinstance(expr, f.Call) and expr.func == f.Name("getattr") and len(expr.args) > 1:
        name = expr.args[1]
        if isinstance(name, f.Const) and name.kind == "str":
            return f.Attr(expr.args[0], name.text, expr.line, expr.column)
    return expr


class Scope:
    """What the local names of a function stand for, flow ignored."""

    def __init__(self, function: f.FunctionFacts, outer: Scope | None = None) -> None:
        """``outer`` is the scope of the function in whose body this one stands."""
        self.parameters = {p.name for p in function.parameters}
        self.values: dict[str, list[f.Expr]] = {}
        self.members: dict[str, list[f.Expr]] = {}
        for stmt in f.statements(function.body):
            self._read(stmt)
        if outer is not None:
            own = {*self.values, *self.members, *self.parameters}
            self.parameters |= outer.parameters - own
            for mine, theirs in ((self.values, outer.values), (self.members, outer.members)):
                mine.update({name: found for name, found in theirs.items() if name not in own})

    def _read(self, stmt: f.Stmt) -> None:
        if isinstance(stmt, f.Assign) and stmt.value is not None:
            for target in stmt.targets:
                self._bind(target, stmt.value)
        elif isinstance(stmt, f.Loop) and stmt.target is not None:
            self._each(stmt.target, stmt.source)
        elif isinstance(stmt, f.With):
            for context, name in stmt.items:
                if name is not None:
                    self._bind(name, context)

    def bind(self, name: str, value: f.Expr) -> None:
        """Take in what a name is bound to within an expression."""
        self.values.setdefault(name, []).append(value)

    def _bind(self, target: f.Expr, value: f.Expr) -> None:
        if isinstance(target, f.Name):
            self.values.setdefault(target.id, []).append(value)
        elif isinstance(target, f.Group) and isinstance(value, f.Group):
            if len(target.parts) == len(value.parts):
                for part, one in zip(target.parts, value.parts, strict=True):
                    self._bind(part, one)
        elif isinstance(target, f.Group) and isinstance(value, f.Choice):
            self._bind(target, value.body)
            self._bind(target, value.orelse)

    def _each(self, target: f.Expr, source: f.Expr) -> None:
        """The elements of what a loop goes over."""
        if isinstance(target, f.Name):
            self.members.setdefault(target.id, []).append(source)
        elif isinstance(target, f.Group) and isinstance(source, f.Call):
            called = f.dotted(source.func)
            if called == "enumerate" and len(target.parts) == 2 and source.args:
                self._each(target.parts[1], source.args[0])
            elif called == "zip" and len(target.parts) == len(source.args):
                for part, one in zip(target.parts, source.args, strict=True):
                    self._each(part, one)

    def options(self, expr: f.Expr) -> list[f.Expr]:
        """All that an expression may stand for, aliases followed, None left out."""
        found: list[f.Expr] = []
        seen: set[str] = set()
        pending = [expr]
        while pending and len(found) < _MOST:
            one = attribute(pending.pop())
            if isinstance(one, f.Choice):
                pending += [one.body, one.orelse]
            elif isinstance(one, f.Group) and one.op in ("or", "and"):
                pending += one.parts
            elif isinstance(one, f.Bind):
                pending.append(one.value)
            elif not isinstance(one, f.Const):
                found.append(one)
                if isinstance(one, f.Name) and one.id not in seen:
                    seen.add(one.id)
                    pending += self.values.get(one.id, ())
        return found

    def keys(self, expr: f.Expr) -> Keys:
        """All spellings of what an expression may stand for."""
        found: set[str] = set()
        for option in self.options(expr):
            found |= self._spelled(option, 0)
        return frozenset(found)

    def _spelled(self, expr: f.Expr, depth: int) -> set[str]:
        expr = attribute(expr)
        if depth > _DEPTH:
            return {text(expr)}
        below = depth + 1
        found: set[str]
        if isinstance(expr, f.Name):
            found = {expr.id}
            for value in self.values.get(expr.id, ()):
                if isinstance(attribute(value), (f.Name, f.Attr, f.Sub)):
                    found |= self._spelled(value, below)
            for source in self.members.get(expr.id, ()):
                found |= {one + _EACH for one in self._spelled(source, below)}
        elif isinstance(expr, f.Attr):
            found = {f"{one}.{expr.name}" for one in self._spelled(expr.value, below)}
        elif isinstance(expr, f.Sub):
            held = self._spelled(expr.value, below)
            found = {f"{one}[{text(expr.index)}]" for one in held} | {one + _EACH for one in held}
        else:
            found = {text(expr)}
        return set(sorted(found)[:_MOST])

    def exact(self, expr: f.Expr) -> Keys:
        """As ``keys``, of an expression that means one element and not each."""
        found = self.keys(expr)
        if not any(key.endswith(_EACH) for key in found):
            return found
        loops = {one + _EACH for n in self.members.values() for s in n for one in self.keys(s)}
        return frozenset(key for key in found if not key.endswith(_EACH) or key in loops)

    def may_be_current(self, expr: f.Expr) -> bool:
        """Whether what an expression stands for may be the stream that is the current one."""
        return any(current(option) for option in self.options(expr))

    def handed(self, expr: f.Expr) -> bool:
        """Whether an expression may stand for a parameter as the caller gave it."""
        names = (o.id for o in self.options(expr) if isinstance(o, f.Name))
        return any(name in self.parameters - {"self", "cls"} for name in names)


def subject(test: f.Expr) -> tuple[f.Expr, bool] | None:
    """(x, whether the test is true of an x that is there) where a test asks for x's presence."""
    if isinstance(test, f.Group) and test.op == "not" and len(test.parts) == 1:
        inner = subject(test.parts[0])
        return None if inner is None else (inner[0], not inner[1])
    if isinstance(test, f.Group) and test.op in ("is", "is not") and len(test.parts) == 2:
        thing, other = test.parts
        if isinstance(other, f.Const) and other.kind == "none":
            return thing, test.op == "is not"
        return None
    return (test, True) if isinstance(test, (f.Name, f.Attr)) else None


def presence(test: f.Expr) -> tuple[list[f.Expr], bool]:
    """(things, how the test comes out) where a test asks whether all of some things are there."""
    if isinstance(test, f.Group) and test.op == "not" and len(test.parts) == 1:
        things, outcome = presence(test.parts[0])
        return things, not outcome
    parts = test.parts if isinstance(test, f.Group) and test.op in ("and", "or") else (test,)
    outcome = not (isinstance(test, f.Group) and test.op == "or")
    asked = [subject(part) for part in parts]
    if len(asked) == 1:
        outcome = asked[0] is None or asked[0][1]
    things = [one[0] for one in asked if one is not None and one[1] is outcome]
    return (things if len(things) == len(parts) else []), outcome


def known(test: f.Expr, outcome: bool) -> Iterator[tuple[str, bool]]:
    """What is known where a test came out so: its text, and its parts' where they follow."""
    pending = [(test, outcome)]
    while pending:
        one, so = pending.pop()
        if isinstance(one, f.Group) and one.op == "not" and len(one.parts) == 1:
            pending.append((one.parts[0], not so))
            continue
        asked = subject(one)
        if asked is not None:
            yield text(asked[0]), asked[1] == so
        else:
            yield text(one), so
        if isinstance(one, f.Group) and one.op == ("and" if so else "or"):
            pending += [(part, so) for part in one.parts]


def head_of(key: str) -> str:
    """The name that a spelling begins with."""
    return key.partition(".")[0].partition("[")[0]


def given_names(function: f.FunctionFacts, call: f.Call, scope: Scope) -> dict[str, Keys]:
    """What the parameters of a function are where it is called, the bound one left out."""
    plain = [p.name for p in function.parameters if p.kind == "plain"]
    names = {n: scope.keys(given) for n, given in zip(plain, call.args, strict=False)}
    known = {p.name for p in function.parameters}
    return names | {name: scope.keys(given) for name, given in call.keywords if name in known}


def renamed(keys: Iterable[str], names: Mapping[str, Keys]) -> Keys:
    """Keys of a callee in the words of its caller; what hangs on no name that it was given falls.

    ``names`` are the callee's parameters and ``self``.
    """
    found: set[str] = set()
    for key in keys:
        for name, instead in names.items():
            if key == name or key.startswith((f"{name}.", f"{name}[")):
                found |= {one + key[len(name) :] for one in instead}
    return frozenset(found)
