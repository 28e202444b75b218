"""What names of a tree mean: of a module, of a class along its bases, of an object when made."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from auditor.serve.tables import values as v
from auditor.serve.tables.modules import Module, Tree
from auditor.serve.tables.values import UNKNOWN, ClassValue, External, FunctionValue, Instance

_STEPS = 100_000
"""Expressions and statements of one question; the largest parser of 0.5.23 takes 3,240."""
LOOPS = 1_000
"""Rounds of one loop."""
_DEEPEST = 60
"""Levels of expressions, names and calls within each other; 0.5.23 needs 30."""
NOTHING: object = UNKNOWN

BUILTINS = frozenset(
    {"list", "tuple", "set", "frozenset", "dict", "sorted", "str", "len", "zip", "reversed"}
)
"""Built-in functions that are called as they are."""


@dataclass
class Names(ABC):
    """Follows code for one question: names, classes and objects; the rest stands on top of it."""

    steps: int = 0
    depth: int = 0
    calls: int = 0
    # Class attributes whose changes are followed, from wherever they are made.
    cells: dict[tuple[ClassValue, str], object] = field(default_factory=dict)

    @abstractmethod
    def block(self, body: Sequence[ast.stmt], frame: Frame) -> object:
        """Follow statements; what is returned, or how they end."""

    @abstractmethod
    def assign(self, target: ast.expr, value: object, frame: Frame) -> None:
        """Give a target a value."""

    @abstractmethod
    def expr(self, node: ast.expr, frame: Frame) -> object:
        """The value of an expression."""

    @abstractmethod
    def call(self, func: FunctionValue, args: list[object], named: dict[str, object]) -> object:
        """What a function of the tree returns."""

    def deeper(self, question: Callable[[], object], otherwise: object = UNKNOWN) -> object:
        """Ask within a question: its cost is counted, and beyond a depth there is no answer."""
        self.steps += 1
        if self.steps > _STEPS:
            raise Exhausted
        if self.depth >= _DEEPEST:
            return otherwise
        self.depth += 1
        try:
            return question()
        finally:
            self.depth -= 1

    def top(self, module: Module, name: str) -> object:
        """The value of a name of a module, found once."""
        key = (module.path, name)
        known = module.tree.values
        if key not in known:
            known[key] = UNKNOWN  # for a constant that refers to itself
            known[key] = self.deeper(lambda: self.top_value(module, name))
        return known[key]

    def top_value(self, module: Module, name: str) -> object:
        """The value of a name of a module by what binds it."""
        statements = module.bindings.get(name)
        if statements is None:
            for star in module.stars:
                found = self.member_of_module(module.tree, star, name)
                if found is not UNKNOWN:
                    return found
            return module.dotted if name == "__name__" else UNKNOWN
        frame = Frame(module, {})
        classes = any(isinstance(node, ast.ClassDef) for node in statements)
        self.block([s for s in statements if not (classes and is_change(s))], frame)
        return v.bounded(frame.scope.get(name, UNKNOWN))

    def member_of_module(self, tree: Tree, dotted: str, name: str) -> object:
        """The value of a name that a module of the tree gives to others."""
        module = tree.find(dotted)
        if module is not None:
            if name in module.bindings or module.stars:
                found = self.top(module, name)
                if name in module.bindings or found is not UNKNOWN:
                    return found
            if module.package != module.dotted:
                return UNKNOWN
        inner = f"{dotted}.{name}"
        if tree.holds(inner):
            return v.ModuleValue(tree, inner)
        return UNKNOWN if tree.holds(dotted) else External(inner)

    def name(self, name: str, frame: Frame) -> object:
        """The value of a name where it is used."""
        if name in frame.scope:
            return frame.scope[name]
        if frame.body and frame.cls is not None:
            own = frame.cls.bindings
            if name in own:
                return self.class_own(frame.cls, name)
        if name in frame.module.bindings or frame.module.stars or name == "__name__":
            found = self.top(frame.module, name)
            if found is not UNKNOWN or name in frame.module.bindings:
                return found
        return External(f"builtins.{name}") if name in BUILTINS else UNKNOWN

    def mro(
        self, cls: ClassValue, seen: frozenset[ClassValue] = frozenset()
    ) -> tuple[ClassValue, ...]:
        """A class and its bases in the order in which attributes are looked for."""
        if cls in seen or len(seen) > 30:
            return ()
        found: list[ClassValue] = []
        for base in cls.node.bases:
            value = self.expr(base, Frame(cls.module, {}))
            if isinstance(value, ClassValue):
                found.extend(self.mro(value, seen | {cls}))
            if len(found) > 200:
                raise Exhausted
        # A base that several ways lead to stands behind all classes derived from it.
        kept = [c for i, c in enumerate(found) if c not in found[i + 1 :] and c != cls]
        return (cls, *kept)

    def enumeration(self, cls: ClassValue) -> tuple[bool, bool]:
        """Whether a class is an enumeration, and whether its members are texts."""
        names = set()
        for each in self.mro(cls):
            for base in each.node.bases:
                value = self.expr(base, Frame(each.module, {}))
                if isinstance(value, External):
                    names.add(value.dotted.rpartition(".")[2])
        enum = bool(names & {"Enum", "StrEnum", "IntEnum", "Flag", "IntFlag"})
        return enum, enum and bool(names & {"StrEnum", "str"})

    def class_own(self, cls: ClassValue, name: str) -> object:
        """A name of the class's own body, with what the module later does to it."""
        key = (f"{cls.module.path}:{cls.node.lineno}:{cls.name}", name)
        known = cls.module.tree.values
        if key not in known:
            known[key] = UNKNOWN
            known[key] = self.deeper(lambda: self.class_own_value(cls, name))
        return known[key]

    def class_own_value(self, cls: ClassValue, name: str) -> object:
        """The value of an attribute by the body of its class."""
        frame = Frame(cls.module, {}, cls, body=True)
        self.block(cls.bindings.get(name, []), frame)
        value = v.bounded(frame.scope.get(name, UNKNOWN))
        if isinstance(value, FunctionValue):
            return FunctionValue(value.module, value.node, cls)
        later = cls.module.bindings.get(cls.name, [])
        if len(later) > 1 and cls.node in later:
            outside = [node for node in later if node is not cls.node]
            self.cells[cls, name] = value
            self.block(outside, Frame(cls.module, {cls.name: cls}))
            value = v.bounded(self.cells.pop((cls, name)))
        return value

    def class_attribute(self, cls: ClassValue, name: str) -> object:
        """The value of an attribute along the bases."""
        for each in self.mro(cls):
            if (each, name) in self.cells:
                return self.cells[each, name]
            own = each.bindings
            if name in own:
                value = self.class_own(each, name)
                if not isinstance(value, FunctionValue):
                    enum, text = self.enumeration(cls)
                    if enum and not name.startswith("_"):
                        return v.Member(cls.name, name, value, text)
                return value
        return UNKNOWN

    def enum_members(self, cls: ClassValue) -> list[object] | None:
        """The values of an enumeration, None where a class is none."""
        if not self.enumeration(cls)[0]:
            return None
        names = [
            name
            for name, found in cls.bindings.items()
            if isinstance(found[0], ast.Assign) and not name.startswith("_")
        ]
        return [self.class_attribute(cls, name) for name in names]

    def make(
        self, cls: ClassValue, args: list[object], named: dict[str, object], node: ast.Call | None
    ) -> Instance:
        """An object made by a call of its class."""
        made = Instance(cls, {}, node)
        self.initialize(made, args, named)
        return made

    def initialize(self, made: Instance, args: list[object], named: dict[str, object]) -> None:
        """Give an object what its constructor gives it."""
        line = self.mro(made.cls)
        for each in line:
            if "__init__" in each.bindings:
                init = self.class_own(each, "__init__")
                if isinstance(init, FunctionValue):
                    self.call(init, [made, *args], named)
                return
        # A dataclass, named tuple or struct: the annotated names are its parameters, in order.
        fields: dict[str, None] = {}
        for each in reversed(line):
            for node in each.node.body:
                if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    fields.setdefault(node.target.id)
        made.attributes.update(zip(fields, args, strict=False))
        made.attributes.update({key: named[key] for key in fields if key in named})

    def super_method(self, name: str, frame: Frame) -> FunctionValue | None:
        """What ``super().name`` is in a method."""
        this = frame.scope.get("self")
        if frame.cls is None or not isinstance(this, Instance):
            return None
        line = self.mro(this.cls)
        behind = line[line.index(frame.cls) + 1 :] if frame.cls in line else ()
        for each in behind:
            if name in each.bindings:
                found = self.class_own(each, name)
                return found if isinstance(found, FunctionValue) else None
        return None


class Outcome:
    """How a block ends where it does not return a value."""


GOING: object = Outcome()


RAISED: object = Outcome()


class Exhausted(Exception):
    """A question costs more than a constant can be worth."""


@dataclass
class Frame:
    """Where code is followed: its module, its local names, the class around it."""

    module: Module
    scope: dict[str, object]
    cls: ClassValue | None = None  # whose body or method is followed
    body: bool = False
    returned: bool = False  # on some way already


def decorators_of(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    """The names that a function is decorated with."""
    if isinstance(node, ast.Lambda):
        return set()
    names = set()
    for each in node.decorator_list:
        inner = each.func if isinstance(each, ast.Call) else each
        last = inner.attr if isinstance(inner, ast.Attribute) else getattr(inner, "id", "?")
        names.add(last)
    return names


def is_change(node: ast.stmt) -> bool:
    """Whether a statement at most changes an attribute of what it names, and binds no name."""
    if isinstance(node, ast.Assign):
        return not any(isinstance(target, (ast.Name, ast.Tuple)) for target in node.targets)
    return isinstance(node, (ast.AugAssign, ast.Expr))
