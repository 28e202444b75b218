"""What a test of the tree asks of settings, the environment, the model and the platform."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence

from auditor.deployment.kinds import Asked, Kinds, place_of
from auditor.deployment.parts import Body, Given, Guard
from auditor.serve.tables.constants import UNKNOWN
from auditor.serve.tables.facts import Term
from auditor.serve.tables.terms import (
    ALWAYS,
    NEVER,
    Cases,
    Conjunction,
    both,
    compare,
    either,
    holds,
    opposite,
)

_DEEPEST = 10
_MOST_TOGETHER = 8
"""Alternatives of an ``and`` beyond which each part is taken as it is where nothing is set."""

_MOST_MAKERS = 4
"""Files that make an attribute of one name."""

_MOST_CLEAR = 4
"""Ways past a test by settings alone that are all kept."""

_MOST_RETURNS = 8
_MOST_ASSIGNED = 4


_OPERATORS: Mapping[str, type[ast.cmpop]] = {
    "==": ast.Eq,
    "!=": ast.NotEq,
    "in": ast.In,
    "not in": ast.NotIn,
    "<": ast.Lt,
    "<=": ast.LtE,
    ">": ast.Gt,
    ">=": ast.GtE,
}


class Asks(Kinds):
    """Reads tests; ``asked`` says of every field of a term what it is."""

    def guards(self, guards: Sequence[Guard], body: Body, own: Body, inner: Cases) -> Cases:
        """When all tests around a place hold, and what must hold within it.

        Of the ways past a test the one that is open where nothing is set will do, unless another
        test closes it.
        """
        tests = [self.read(test, body, own, negated) for test, negated in guards]
        for parts in ([self.usual(cases) for cases in tests], tests):
            found = inner
            for cases in parts:
                found = both(found, cases, found)
            if found != NEVER:
                break
        return found

    def usual(self, cases: Cases) -> Cases:
        """The way past a test that is open where nothing is set, if there is one, else all.

        A few ways by settings alone are all kept: a launch may go by any of them.
        """
        open_ = [case for case in cases if all(self.absent(term) is True for term in case)]
        clear = all(self.kind(term) in ("flag", "variable") for case in cases for term in case)
        if not open_ or (clear and len(cases) <= _MOST_CLEAR):
            return cases

        def unclear(case: Conjunction) -> tuple[int, int, list[Term]]:
            others = sum(self.kind(term) not in ("flag", "variable") for term in case)
            return others, len(case), sorted(case)

        return (min(open_, key=unclear),)

    # -- tests -----------------------------------------------------------------------------------

    def read(
        self, node: ast.expr, body: Body, own: Body, negated: bool = False, depth: int = 0
    ) -> Cases:
        """When a test holds, or with ``negated`` does not; parameters of ``own`` stay open."""
        if depth > _DEEPEST:
            return self.opaque(node, body, negated)
        match node:
            case ast.Constant(value=value):
                return ALWAYS if bool(value) is not negated else NEVER
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.read(operand, body, own, not negated, depth + 1)
            case ast.NamedExpr(value=value):
                return self.read(value, body, own, negated, depth + 1)
            case ast.BoolOp(op=op, values=values):
                parts = [self.read(value, body, own, negated, depth + 1) for value in values]
                if isinstance(op, ast.And) is not negated:
                    if math.prod(map(len, parts)) > _MOST_TOGETHER:
                        parts = [self.usual(part) for part in parts]
                    found = ALWAYS
                    for part in parts:
                        found = both(found, part, found)
                    return found
                return either(parts, parts[0])
            case ast.IfExp(test=test, body=then, orelse=orelse):
                return self.chosen(
                    [
                        (self.read(test, body, own, False, depth + 1), then, body),
                        (self.read(test, body, own, True, depth + 1), orelse, body),
                    ],
                    own,
                    negated,
                    depth,
                )
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self.comparison(node, left, op, right, body, own, negated, depth)
            case ast.Compare(left=left, ops=ops, comparators=others):
                sides = [left, *others]
                pairs: list[ast.expr] = [
                    ast.Compare(a, [op], [b]) for a, op, b in zip(sides, ops, others, strict=False)
                ]
                return self.read(ast.BoolOp(ast.And(), pairs), body, own, negated, depth + 1)
            case ast.Call(func=ast.Name(id="bool"), args=[inner]):
                return self.read(inner, body, own, negated, depth + 1)
            case ast.Call(func=ast.Name(id="isinstance"), args=[given, kinds]):
                return self.of_class(given, kinds, body, negated)
        return self.subject(node, body, own, Term("", "false" if negated else "true"), depth)

    def comparison(
        self,
        node: ast.Compare,
        left: ast.expr,
        op: ast.cmpop,
        right: ast.expr,
        body: Body,
        own: Body,
        negated: bool,
        depth: int,
    ) -> Cases:
        """When one comparison holds."""
        value = self.constant(right, body)
        if value is UNKNOWN and not isinstance(op, (ast.In, ast.NotIn)):
            value, left = self.constant(left, body), right
            flipped = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE}
            op = flipped.get(type(op), type(op))()
        term = compare("", op, value) if value is not UNKNOWN else None
        if term is None:
            return self.opaque(node, body, negated)
        if isinstance(left, ast.Call) and not left.args and isinstance(left.func, ast.Attribute):
            if left.func.attr in ("lower", "strip"):
                left = left.func.value
        return self.subject(left, body, own, opposite(term) if negated else term, depth)

    # -- what is tested --------------------------------------------------------------------------

    def subject(self, node: ast.expr, body: Body, own: Body, term: Term, depth: int) -> Cases:
        """When what an expression stands for satisfies a term (whose field is not yet known)."""
        known = self.setting(node, body)
        if known is None:
            known = self.variable(node, body) or self.platform(node, body, term)
        if known is not None:
            return (frozenset([Term(known, term.op, term.values)]),)
        if isinstance(node, ast.Name) and node.id in body.parameters:
            if node.id not in body.assigned:
                if body is own:
                    name = f"parameter {node.id}"
                    self.note(name, "parameter", node.id, node, body)
                    return (frozenset([Term(name, term.op, term.values)]),)
                return self.opaque_subject(node, body, term)
        answers = isinstance(node, ast.Call) or getattr(node, "attr", "") in self.models
        if answers and self.of_model(node, body):
            return self.model(node, body, term)
        found = self.followed(node, body, own, term, depth)
        if found is None:
            return self.opaque_subject(node, body, term)
        terms = {t for case in found for t in case}
        kinds = {self.kind(t) for t in terms}
        if len(terms) > 1 and "model" in kinds and kinds <= {"model", "other"}:
            return self.model(node, body, term)  # one name for all that is asked of the model
        if kinds == {"other"}:
            return self.opaque_subject(node, body, term)
        return found

    def followed(
        self, node: ast.expr, body: Body, own: Body, term: Term, depth: int
    ) -> Cases | None:
        """The same of what a name, an attribute or a call stands for; None where it is unknown."""
        if depth >= _DEEPEST or id(node) in self._following:
            return None
        self._following.append(id(node))
        try:
            ways = self.ways(node, body, own, depth)
            if not ways:
                return None
            parts = [
                both(when, self.satisfied(value, there, own, term, depth + 1), when)
                for when, value, there in ways
            ]
            return either(parts, parts[0])
        finally:
            self._following.pop()

    def chosen(
        self,
        ways: Sequence[tuple[Cases, ast.expr, Body]],
        own: Body,
        negated: bool,
        depth: int,
    ) -> Cases:
        """When what is chosen between is true."""
        parts = [
            both(when, self.read(value, there, own, negated, depth + 1), when)
            for when, value, there in ways
        ]
        return either(parts, parts[0])

    def satisfied(self, node: ast.expr, body: Body, own: Body, term: Term, depth: int) -> Cases:
        """When a value satisfies a term."""
        if isinstance(node, ast.IfExp):
            yes = self.read(node.test, body, own, False, depth + 1)
            no = self.read(node.test, body, own, True, depth + 1)
            return either(
                (
                    both(yes, self.satisfied(node.body, body, own, term, depth + 1), yes),
                    both(no, self.satisfied(node.orelse, body, own, term, depth + 1), no),
                ),
                yes,
            )
        value = self.constant(node, body)
        if value is not UNKNOWN:
            return ALWAYS if holds(Term("", term.op, term.values), value) else NEVER
        if term.op in ("true", "false"):
            return self.read(node, body, own, term.op == "false", depth)
        if isinstance(node, (ast.List, ast.Tuple, ast.Dict, ast.JoinedStr, ast.BinOp)):
            return NEVER if term.op == "none" else ALWAYS if term.op == "set" else NEVER
        return self.subject(node, body, own, term, depth)

    def ways(
        self, node: ast.expr, body: Body, own: Body, depth: int
    ) -> list[tuple[Cases, ast.expr, Body]]:
        """What an expression may stand for, and when; none where that is not told."""
        file = body.file
        match node:
            case ast.Name(id=name) if name in body.assigned and name in body.parameters:
                return []
            case ast.Name(id=name):
                for scope in (body, file.top):
                    rows = file.given(scope, name)
                    if rows:
                        return self.assigned(rows, scope, own, depth)
                imported = file.imported(name)
                there = self.code.imported(imported[0]) if imported is not None else None
                if imported is not None and there is not None:
                    rows = there.given(there.top, imported[1])
                    if rows:
                        return self.assigned(rows, there.top, own, depth)
            case ast.Attribute(value=ast.Name(id="self"), attr=name) if body.owner is not None:
                return self.attribute(body, own, name, depth)
            case ast.Call(func=ast.Name(id=name)):
                function = self.code.function(file, name)
                if function is not None:
                    return self.returned(function, own, -1, depth)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
                if body.owner is not None:
                    return self.attribute(body, own, name, depth)
            case ast.Attribute(attr=name):
                return self.elsewhere(name, own, depth)
        return []

    def elsewhere(self, name: str, own: Body, depth: int) -> list[tuple[Cases, ast.expr, Body]]:
        """What an attribute of an unknown object gives, where one class alone makes it.

        Several will do that all take it from the model.
        """
        paths = self.code.where("function", name)
        if len(paths) == 1:
            file = self.code.file(paths[0])
            bodies = [b for b in (file.bodies(name) if file else ()) if b.owner]
            if bodies:
                return self.returned(bodies[0], own, -1, depth) if len(bodies) == 1 else []
        paths = self.code.where("attribute", name) if len(paths) < 2 else ()
        if not 0 < len(paths) <= _MOST_MAKERS:
            return []
        files = [file for file in map(self.code.file, paths) if file is not None]
        rows = [row for file in files for row in file.attributes(name)]
        real = [row for row in rows if self.of_model(row[1], row[0])]
        if rows and (len(rows) == 1 or len(real) == len(rows)):
            there, value, number, guards = rows[0]
            return self.assigned([(value, number, guards)], there, own, depth)
        return []

    def assigned(
        self,
        rows: Sequence[Given],
        body: Body,
        own: Body,
        depth: int,
    ) -> list[tuple[Cases, ast.expr, Body]]:
        """What something is that is assigned in these places."""
        if len(rows) > _MOST_ASSIGNED:
            return []
        found: list[tuple[Cases, ast.expr, Body]] = []
        for value, number, guards in rows:
            if isinstance(value, ast.Constant) and value.value is ...:
                return []
            when = ALWAYS
            if len(rows) > 1:
                for test, negated in guards:
                    when = both(when, self.read(test, body, own, negated, depth + 1), when)
            if number < 0:
                found.append((when, value, body))
            elif isinstance(value, ast.Tuple) and number < len(value.elts):
                found.append((when, value.elts[number], body))
            elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
                function = self.code.function(body.file, value.func.id)
                if function is None:
                    return []
                for inner, part, there in self.returned(function, own, number, depth):
                    found.append((both(when, inner, when), part, there))
            else:
                return []
        return found

    def returned(
        self, function: Body, own: Body, number: int, depth: int
    ) -> list[tuple[Cases, ast.expr, Body]]:
        """What a function returns, or the part of it that is taken."""
        if not 0 < len(function.returns) <= _MOST_RETURNS or function is own:
            return []
        found: list[tuple[Cases, ast.expr, Body]] = []
        for value, guards in function.returns:
            when = ALWAYS
            for test, negated in guards:
                when = both(when, self.read(test, function, own, negated, depth + 1), when)
            part: ast.expr = value if value is not None else ast.Constant(None)
            if number >= 0:
                if not isinstance(part, ast.Tuple) or number >= len(part.elts):
                    return []
                part = part.elts[number]
            found.append((when, part, function))
        return found

    def attribute(
        self, body: Body, own: Body, name: str, depth: int
    ) -> list[tuple[Cases, ast.expr, Body]]:
        """What an attribute, a property or a method of the object gives."""
        assert body.owner is not None
        for here, owner in self.code.lineage(body.file, body.owner):
            for other in here.bodies(name):
                if other.owner is owner:
                    return self.returned(other, own, -1, depth)
            rows = [row for row in here.attributes(name) if row[0].owner is owner]
            # What an attribute is at first, before it gets its value.
            real = [row for row in rows if not isinstance(row[1], ast.Constant)] or rows
            if len(real) == 1:
                there, value, number, guards = real[0]
                return self.assigned([(value, number, guards)], there, own, depth)
            if real:
                return []
        return self.elsewhere(name, own, depth)

    # -- kinds -----------------------------------------------------------------------------------

    def substituted(
        self, cases: Cases, call: ast.Call | None, callee: Body, body: Body, own: Body
    ) -> Cases:
        """Cases with the parameters of a function replaced by what a call gives them."""
        found: list[Cases] = []
        for case in cases:
            left: Cases = (frozenset(t for t in case if self.kind(t) != "parameter"),)
            for term in sorted(t for t in case if self.kind(t) == "parameter"):
                name = self.asked[term.field].name
                given, there = _argument(call, callee, name), body
                if given is None and call is not None:
                    given, there = callee.parameters.get(name), callee
                if given is None:
                    text = f"? {name}"
                    self.asked.setdefault(text, Asked("other", name, *place_of(callee)))
                    more: Cases = (frozenset([Term(text, term.op, term.values)]),)
                else:
                    more = self.satisfied(given, there, own, term, 1)
                left = both(left, more, left)
            found.append(left)
        return either(found, found[0]) if found else NEVER


def _argument(call: ast.Call | None, callee: Body, name: str) -> ast.expr | None:
    if call is None:
        return None
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    names = list(callee.parameters)
    at = names.index(name) if name in names else len(call.args)
    plain = at < len(call.args) and not any(isinstance(a, ast.Starred) for a in call.args[: at + 1])
    return call.args[at] if plain else None
