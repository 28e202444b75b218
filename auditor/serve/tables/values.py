"""What an expression of the tree may stand for.

Values are plain Python ones (texts, numbers, lists, tuples, sets, dictionaries) and those below.
They are never changed once made.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from auditor.serve.tables.modules import Module, Tree

LONGEST = 64 * 1024
"""Characters of a text that is still a constant; the longest marker of 0.5.23 has 39."""

LARGEST = 10_000
"""Values within a list or dictionary, all levels."""


class Unknown:
    """Not a constant. Within a list, set or dictionary (as key): any number of unknown members."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown()


@dataclass(frozen=True)
class External:
    """A name of a module that is not in the tree: ``re.compile``."""

    dotted: str


@dataclass(frozen=True)
class ModuleValue:
    """A module or package of the tree, by its dotted name."""

    tree: Tree
    dotted: str


@dataclass(frozen=True, eq=False)
class ClassValue:
    """A class of the tree; two are the same where their nodes are."""

    module: Module
    node: ast.ClassDef

    @property
    def name(self) -> str:
        """The name in its ``class`` statement."""
        return self.node.name

    @property
    def bindings(self) -> Mapping[str, list[ast.stmt]]:
        """For each name of the class's own body the statements that bind or change it."""
        return self.module.inside(self.node)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClassValue) and other.node is self.node

    def __hash__(self) -> int:
        return id(self.node)


@dataclass(frozen=True, eq=False)
class FunctionValue:
    """A function of the tree or, with ``owner``, a method as its class has it."""

    module: Module
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    owner: ClassValue | None = None


@dataclass(frozen=True, eq=False)
class Instance:
    """An object of a class of the tree, with the attributes that its making sets."""

    cls: ClassValue
    attributes: dict[str, object]
    node: ast.Call | None = None


@dataclass(frozen=True)
class Member:
    """A member of an enumeration."""

    cls: str
    name: str
    value: object
    is_text: bool = False


@dataclass(frozen=True)
class LiteralType:
    """``Literal["a", "b"]``."""

    members: tuple[object, ...]


@dataclass(frozen=True)
class Pattern:
    """A compiled regular expression."""

    text: str
    ignore_case: bool = False


SCALARS = (str, int, float, bool, bytes, type(None))
_KEYS = (*SCALARS, Unknown, ClassValue, Member)


def is_key(value: object) -> bool:
    """Whether a value can be hashed at once: a tuple of tuples of tuples cannot."""
    if isinstance(value, tuple):
        return len(value) <= 64 and all(isinstance(item, _KEYS) for item in value)
    return isinstance(value, _KEYS)


def bounded(value: object) -> object:
    """The value, or ``UNKNOWN`` where it is too large with all that it holds."""
    pending, count = [value], 0
    while pending:
        item = pending.pop()
        count += 1
        if count > LARGEST:
            return UNKNOWN
        if isinstance(item, (str, bytes)):
            count += len(item) // 64
            if len(item) > LONGEST:
                return UNKNOWN
        elif isinstance(item, (list, tuple, set, frozenset)):
            if len(item) > LARGEST:
                return UNKNOWN
            pending.extend(item)
        elif isinstance(item, dict):
            if len(item) > LARGEST:
                return UNKNOWN
            pending.extend(item)
            pending.extend(item.values())
        elif isinstance(item, int) and abs(item) >= 1 << 64:
            return UNKNOWN
    return value


def is_known(value: object) -> bool:
    """Whether a value, with all that it holds, is a constant."""
    if bounded(value) is UNKNOWN:
        return False
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, (Unknown, External)):
            return False
        if isinstance(item, (list, tuple, set, frozenset)):
            pending.extend(item)
        elif isinstance(item, dict):
            pending.extend(item)
            pending.extend(item.values())
    return True


def truth(value: object) -> bool | None:
    """Whether a value is true, None where a run decides."""
    if isinstance(value, (Unknown, External)):
        return None
    if isinstance(value, (list, tuple, set, frozenset, dict)):
        if value and all(isinstance(item, Unknown) for item in value):
            return None
        return bool(value)
    if isinstance(value, SCALARS):
        return bool(value)
    return True


def same(left: object, right: object) -> bool:
    """Whether two values are certainly the same."""
    if left is right:
        return not isinstance(left, Unknown)
    if isinstance(left, (*SCALARS, Member, Pattern, ClassValue)):
        return type(left) is type(right) and left == right
    if isinstance(left, (list, tuple)) and type(left) is type(right):
        assert isinstance(right, (list, tuple))
        return len(left) == len(right) and all(
            a is b or (isinstance(a, SCALARS) and type(a) is type(b) and a == b)
            for a, b in zip(left, right, strict=True)
        )
    return False


def members(value: object) -> list[object] | None:
    """What iterating over a value gives, None where that is unknown."""
    if isinstance(value, str):
        return list(value)
    if isinstance(value, (set, frozenset)):
        if any(isinstance(item, Unknown) for item in value):
            return list(value)
        return sorted(value, key=lambda item: (type(item).__name__, str(item)))
    if isinstance(value, (list, tuple, dict)):
        return list(value)
    return None
