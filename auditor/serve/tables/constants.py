"""What an expression of a tree stands for, as far as its text alone decides; nothing is run.

Straight-line code is followed with values where they are constants: module constants, imports,
class attributes along the bases, ``__init__`` and small functions. A branch that a run decides is
followed both ways, and only what both agree on is kept.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from auditor.serve.tables import values as v
from auditor.serve.tables.modules import Module, Tree
from auditor.serve.tables.names import GOING, NOTHING, Exhausted, Frame
from auditor.serve.tables.statements import Statements
from auditor.serve.tables.values import UNKNOWN, ClassValue, Instance

__all__ = [
    "UNKNOWN",
    "Module",
    "Tree",
    "attribute",
    "changed",
    "evaluate",
    "instance",
    "lookup",
    "mro",
]


_T = TypeVar("_T")


def evaluate(
    expr: ast.expr,
    module: Module,
    scope: Mapping[str, object] | None = None,
    owner: ClassValue | None = None,
) -> object:
    """The value of an expression of a module, ``UNKNOWN`` where it is not a constant.

    ``scope`` are the values of local names; with ``owner`` the expression stands in the body of
    that class. A list, set or dictionary with some unknown members is given with ``UNKNOWN`` among
    them; a name from outside the tree is an ``External``. ``values.is_known`` says whether a value
    is a constant through and through.
    """
    frame = Frame(module, dict(scope or {}), owner, owner is not None)
    return _ask(lambda asked: asked.expr(expr, frame), NOTHING)


def lookup(module: Module, name: str) -> object:
    """The value of a name of a module's top level after the module was loaded."""
    return _ask(lambda asked: asked.top(module, name), NOTHING)


def attribute(cls: ClassValue, name: str) -> object:
    """The value of a class attribute, along the bases; ``UNKNOWN`` where there is none."""
    return _ask(lambda asked: asked.class_attribute(cls, name), NOTHING)


def mro(cls: ClassValue) -> tuple[ClassValue, ...]:
    """The class and its bases in the tree, in the order in which attributes are looked for."""
    return _ask(lambda asked: asked.mro(cls), (cls,))


def instance(cls: ClassValue, named: Mapping[str, object] | None = None) -> Instance:
    """An object made with these arguments, defaults for others, ``UNKNOWN`` where none is given."""
    made = Instance(cls, {})
    _ask(lambda asked: asked.initialize(made, [], dict(named or {})), None)
    return made


def changed(
    cls: ClassValue, name: str, value: object, body: Iterable[ast.stmt], module: Module
) -> object:
    """What a class attribute of that value is after these statements of a module."""
    follower = Statements(cells={(cls, name): value})
    try:
        follower.block(list(body), Frame(module, {}))
    except (Exhausted, RecursionError):
        return UNKNOWN
    return v.bounded(follower.cells[cls, name])


def run(body: Iterable[ast.stmt], module: Module, scope: Mapping[str, object]) -> dict[str, object]:
    """The values of the local names after these statements of a function were followed."""
    frame = Frame(module, dict(scope))
    _ask(lambda asked: asked.block(list(body), frame), GOING)
    return frame.scope


def _ask(question: Callable[[Statements], _T], otherwise: _T) -> _T:
    try:
        return question(Statements())
    except (Exhausted, RecursionError):
        return otherwise

    # Classes and objects
