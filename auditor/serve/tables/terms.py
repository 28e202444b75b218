"""Tests on settings as terms: what a condition implies, and which terms exclude each other."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, product
from typing import Final

from auditor.serve.tables.facts import Term
from auditor.serve.tables.values import Member

Conjunction = frozenset[Term]
Cases = tuple[Conjunction, ...]
"""Alternatives of which one holds; none at all is never, an empty one is always."""

NEVER: Final[Cases] = ()
ALWAYS: Final[Cases] = (frozenset(),)

_MOST = 24
"""Alternatives that are kept; what has more is taken for unknown."""

_WIDEST = 24
"""Terms of one alternative; the guards of 0.5.23 have nine at most."""

_PAIRS = (
    ("true", "false"),
    ("none", "set"),
    ("==", "!="),
    ("in", "not in"),
    ("<", ">="),
    (">", "<="),
)
_OPPOSITE: Final = {a: b for pair in _PAIRS for a, b in (pair, pair[::-1])}
_ORDER: Final[dict[str, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NAMES: Final[dict[type[ast.cmpop], str]] = {
    ast.Eq: "==",
    ast.Is: "==",
    ast.NotEq: "!=",
    ast.IsNot: "!=",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_SCALARS = (str, int, float, bool, type(None))


def opposite(term: Term) -> Term:
    """The term that holds where this one does not."""
    return Term(term.field, _OPPOSITE[term.op], term.values)


def constants(term: Term) -> list[object]:
    """The values of a term as Python values."""
    return [_literal(text) for text in term.values]


@functools.lru_cache(4096)
def _literal(text: str) -> object:
    return ast.literal_eval(text)


def holds(term: Term, value: object) -> bool:
    """Whether a value satisfies a term; a comparison that would fail does not hold."""
    match term.op:
        case "true":
            return bool(value)
        case "false":
            return not value
        case "none":
            return value is None
        case "set":
            return value is not None
        case "==" | "in":
            return value in constants(term)
        case "!=" | "not in":
            return value not in constants(term)
    (limit,) = constants(term)
    if isinstance(value, (int, float)) and isinstance(limit, (int, float)):
        return _ORDER[term.op](value, limit)
    return False


def candidates(term: Term) -> list[object] | None:
    """All values that satisfy a term, None where they are too many to list."""
    if term.op == "none":
        return [None]
    return constants(term) if term.op in ("==", "in") else None


def exclude(left: Term, right: Term) -> bool:
    """Whether two terms on one field can certainly not both hold."""
    if left.field != right.field:
        return False
    for one, other in ((left, right), (right, left)):
        values = candidates(one)
        if values is not None:
            return not any(holds(other, value) for value in values)
    if _OPPOSITE[left.op] == right.op and left.values == right.values:
        return True
    if {left.op, right.op} <= _ORDER.keys():
        (a,), (b,) = constants(left), constants(right)
        if not isinstance(a, (int, float)) or not isinstance(b, (int, float)):
            return False
        below, above = (a, b) if left.op[0] == "<" else (b, a)
        if left.op[0] == right.op[0]:
            return False
        closed = left.op.endswith("=") and right.op.endswith("=")
        return below < above or (below == above and not closed)
    return False


def possible(case: Conjunction) -> bool:
    """Whether no two terms of an alternative exclude each other."""
    if len({term.field for term in case}) == len(case):
        return True  # as most are, by far
    pairs = combinations(sorted(case), 2)
    return not any(a.field == b.field and exclude(a, b) for a, b in pairs)


def both(left: Cases, right: Cases, unknown: Cases) -> Cases:
    """Where both hold; ``unknown`` where there are too many alternatives or terms in one."""
    found: dict[Conjunction, None] = {}
    for a, b in product(left, right):
        case = a | b
        if len(case) > _WIDEST:
            if unknown:
                return unknown
        elif case in (a, b) or possible(case):
            found[case] = None
        if len(found) > _MOST:
            return unknown
    return tuple(found)


def either(cases: Iterable[Cases], unknown: Cases) -> Cases:
    """Where one holds."""
    found = dict.fromkeys(case for part in cases for case in part)
    if frozenset() in found:
        return ALWAYS
    return tuple(found) if len(found) <= _MOST else unknown


def without(cases: Cases, excluded: Cases) -> Cases:
    """A part of ``cases`` in which certainly none of ``excluded`` holds."""
    for case in excluded:
        negated = tuple(frozenset([opposite(term)]) for term in sorted(case))
        cases = both(cases, negated, NEVER)
    return cases


def compare(field: str, op: ast.cmpop, value: object) -> Term | None:
    """The term of ``field op value``, None where it is none of ours."""
    value = value.value if isinstance(value, Member) else value
    if value is None and isinstance(op, (ast.Is, ast.Eq)):
        return Term(field, "none")
    if value is None and isinstance(op, (ast.IsNot, ast.NotEq)):
        return Term(field, "set")
    name = _NAMES[type(op)]
    if name in ("in", "not in"):
        if not isinstance(value, (list, tuple, set, frozenset, dict)):
            return None
        values = [item.value if isinstance(item, Member) else item for item in value]
    else:
        values = [value]
    if not values or not all(isinstance(item, _SCALARS) for item in values):
        return None
    if name in _ORDER and not isinstance(values[0], (int, float)):
        return None
    texts = [repr(item) for item in values]
    return Term(field, name, tuple(sorted(texts) if isinstance(value, (set, frozenset)) else texts))


def simplest(case: Conjunction) -> Conjunction:
    """The same without terms that another one on the field implies."""
    kept = set(case)
    for term in sorted(case):
        values = candidates(term)
        if values is not None and term in kept:
            implied = {
                other
                for other in kept
                if other != term
                and other.field == term.field
                and all(holds(other, value) for value in values)
            }
            kept -= implied
    return frozenset(kept)


def reduced(cases: Sequence[Conjunction]) -> list[Conjunction]:
    """Without alternatives that only add terms to another."""
    return [c for c in cases if not any(other < c for other in cases)]
