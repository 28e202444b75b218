"""Terms against an enumeration of values: what excludes what, and what conditions leave."""

from __future__ import annotations

from itertools import product

import pytest

from auditor.serve.tables.facts import Term
from auditor.serve.tables.terms import (
    ALWAYS,
    NEVER,
    both,
    candidates,
    either,
    exclude,
    holds,
    opposite,
    possible,
    simplest,
    without,
)

NUMBERS = [None, 0, 1, 2, 3, -1, 1.5]
TEXTS = [None, "", "a", "b", "c"]
ORDERS = [Term("x", op, (str(n),)) for op in ("<", "<=", ">", ">=") for n in (0, 1, 2)]
NUMERIC = [
    *ORDERS,
    *(Term("x", op, values) for op in ("in", "not in") for values in (("1",), ("0", "2"))),
    *(Term("x", op, ("1",)) for op in ("==", "!=")),
    *(Term("x", op) for op in ("true", "false", "none", "set")),
]
TEXTUAL = [
    *(Term("x", op, ("'a'",)) for op in ("==", "!=")),
    *(Term("x", op, ("'a'", "'b'")) for op in ("in", "not in")),
    *(Term("x", op) for op in ("true", "false", "none", "set")),
]


@pytest.mark.parametrize(("terms", "values"), [(NUMERIC, NUMBERS), (TEXTUAL, TEXTS)])
def test_terms_that_exclude_each_other_never_hold_together(
    terms: list[Term], values: list[object]
) -> None:
    for left, right in product(terms, repeat=2):
        if exclude(left, right):
            assert not any(holds(left, v) and holds(right, v) for v in values), (left, right)


def test_orders_that_no_number_satisfies_exclude_each_other() -> None:
    fine = [n / 4 for n in range(-8, 16)]
    for left, right in product(ORDERS, repeat=2):
        together = any(holds(left, v) and holds(right, v) for v in fine)
        assert exclude(left, right) == (not together), (left, right)


@pytest.mark.parametrize("term", [*NUMERIC, *TEXTUAL])
def test_the_opposite_holds_where_the_term_does_not(term: Term) -> None:
    assert opposite(opposite(term)) == term
    values = NUMBERS[1:] if term in ORDERS else [*NUMBERS, *TEXTS]
    assert all(holds(term, v) != holds(opposite(term), v) for v in values)


def test_terms_on_other_settings_do_not_exclude_each_other() -> None:
    assert not exclude(Term("x", "true"), Term("y", "false"))


@pytest.mark.parametrize("term", NUMERIC)
def test_candidates_are_all_values(term: Term) -> None:
    found = candidates(term)
    if found is not None:
        assert {v for v in NUMBERS if holds(term, v)} <= set(found)


def test_without_leaves_only_what_is_certainly_outside() -> None:
    a, b = Term("a", "true"), Term("b", "true")
    left = without(ALWAYS, (frozenset([a, b]),))
    for x, y in product((True, False), repeat=2):
        inside = any(all(holds(t, {"a": x, "b": y}[t.field]) for t in case) for case in left)
        assert inside == (not (x and y))
    assert without(ALWAYS, ALWAYS) == NEVER


def test_alternatives_are_bounded() -> None:
    many = tuple(frozenset([Term(f"a{i}", "true")]) for i in range(20))
    more = tuple(frozenset([Term(f"b{i}", "true")]) for i in range(20))
    assert both(many, more, NEVER) == NEVER
    assert both(many, more, ALWAYS) == ALWAYS
    assert either([many, more], ALWAYS) == ALWAYS
    wide = (frozenset(Term(f"a{i}", "true") for i in range(20)),)
    other = (frozenset(Term(f"b{i}", "true") for i in range(20)),)
    assert both(wide, other, NEVER) == NEVER
    assert both(wide, other, ALWAYS) == ALWAYS


def test_an_impossible_alternative_is_left_out() -> None:
    yes, no = (frozenset([Term("a", op)]) for op in ("true", "false"))
    assert both((yes,), (no,), ALWAYS) == NEVER
    assert not possible(yes | no)


def test_implied_terms_go() -> None:
    case = frozenset([Term("m", "==", ("'a'",)), Term("m", "!=", ("'b'",)), Term("m", "set")])
    assert simplest(case) == frozenset([Term("m", "==", ("'a'",))])
