"""What an expression of a tree stands for, as far as its text alone decides; nothing is run.

Straight-line code is followed with values where they are constants: module constants, imports,
class attributes along the bases, ``__init__`` and small functions. A branch that a run decides is
followed both ways, and only what both agree on is kept.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from auditor.serve.tables import operations
from auditor.serve.tables import values as v
from auditor.serve.tables.modules import CHANGES, Module, Tree, bound
from auditor.serve.tables.values import UNKNOWN, ClassValue, External, FunctionValue, Instance

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

_STEPS = 100_000
"""Expressions and statements of one question; the largest parser of 0.5.23 takes 3,240."""

_DEEPEST = 60
"""Levels of expressions, names and calls within each other; 0.5.23 needs 30."""

_CALLS = 12
"""Calls within each other; 0.5.23 needs 8."""

_LOOPS = 1_000
"""Rounds of one loop."""

_T = TypeVar("_T")


class _Outcome:
    """How a block ends where it does not return a value."""


_GOING: object = _Outcome()
_RAISED: object = _Outcome()
_NOTHING: object = UNKNOWN


class _Exhausted(Exception):
    """A question costs more than a constant can be worth."""


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
    frame = _Frame(module, dict(scope or {}), owner, owner is not None)
    return _ask(lambda asked: asked.expr(expr, frame), _NOTHING)


def lookup(module: Module, name: str) -> object:
    """The value of a name of a module's top level after the module was loaded."""
    return _ask(lambda asked: asked.top(module, name), _NOTHING)


def attribute(cls: ClassValue, name: str) -> object:
    """The value of a class attribute, along the bases; ``UNKNOWN`` where there is none."""
    return _ask(lambda asked: asked.class_attribute(cls, name), _NOTHING)


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
    follower = _Follower(cells={(cls, name): value})
    try:
        follower.block(list(body), _Frame(module, {}))
    except (_Exhausted, RecursionError):
        return UNKNOWN
    return v.bounded(follower.cells[cls, name])


def run(body: Iterable[ast.stmt], module: Module, scope: Mapping[str, object]) -> dict[str, object]:
    """The values of the local names after these statements of a function were followed."""
    frame = _Frame(module, dict(scope))
    _ask(lambda asked: asked.block(list(body), frame), _GOING)
    return frame.scope


def _ask(question: Callable[[_Follower], _T], otherwise: _T) -> _T:
    try:
        return question(_Follower())
    except (_Exhausted, RecursionError):
        return otherwise


@dataclass
class _Frame:
    module: Module
    scope: dict[str, object]
    cls: ClassValue | None = None  # whose body or method is followed
    body: bool = False
    returned: bool = False  # on some way already


@dataclass
class _Follower:
    """Follows code for one question."""

    steps: int = 0
    depth: int = 0
    calls: int = 0
    # Class attributes whose changes are followed, from wherever they are made.
    cells: dict[tuple[ClassValue, str], object] = field(default_factory=dict)

    # Names

    def top(self, module: Module, name: str) -> object:
        key = (module.path, name)
        known = module.tree.values
        if key not in known:
            known[key] = UNKNOWN  # for a constant that refers to itself
            known[key] = self.deeper(lambda: self.top_value(module, name))
        return known[key]

    def top_value(self, module: Module, name: str) -> object:
        statements = module.bindings.get(name)
        if statements is None:
            for star in module.stars:
                found = self.member_of_module(module.tree, star, name)
                if found is not UNKNOWN:
                    return found
            return module.dotted if name == "__name__" else UNKNOWN
        frame = _Frame(module, {})
        classes = any(isinstance(node, ast.ClassDef) for node in statements)
        self.block([s for s in statements if not (classes and _is_change(s))], frame)
        return v.bounded(frame.scope.get(name, UNKNOWN))

    def member_of_module(self, tree: Tree, dotted: str, name: str) -> object:
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

    def name(self, name: str, frame: _Frame) -> object:
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
        return External(f"builtins.{name}") if name in _BUILTINS else UNKNOWN

    # Classes and objects

    def mro(
        self, cls: ClassValue, seen: frozenset[ClassValue] = frozenset()
    ) -> tuple[ClassValue, ...]:
        if cls in seen or len(seen) > 30:
            return ()
        found: list[ClassValue] = []
        for base in cls.node.bases:
            value = self.expr(base, _Frame(cls.module, {}))
            if isinstance(value, ClassValue):
                found.extend(self.mro(value, seen | {cls}))
            if len(found) > 200:
                raise _Exhausted
        # A base that several ways lead to stands behind all classes derived from it.
        kept = [c for i, c in enumerate(found) if c not in found[i + 1 :] and c != cls]
        return (cls, *kept)

    def enumeration(self, cls: ClassValue) -> tuple[bool, bool]:
        """Whether a class is an enumeration, and whether its members are texts."""
        names = set()
        for each in self.mro(cls):
            for base in each.node.bases:
                value = self.expr(base, _Frame(each.module, {}))
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
        frame = _Frame(cls.module, {}, cls, body=True)
        self.block(cls.bindings.get(name, []), frame)
        value = v.bounded(frame.scope.get(name, UNKNOWN))
        if isinstance(value, FunctionValue):
            return FunctionValue(value.module, value.node, cls)
        later = cls.module.bindings.get(cls.name, [])
        if len(later) > 1 and cls.node in later:
            outside = [node for node in later if node is not cls.node]
            self.cells[cls, name] = value
            self.block(outside, _Frame(cls.module, {cls.name: cls}))
            value = v.bounded(self.cells.pop((cls, name)))
        return value

    def class_attribute(self, cls: ClassValue, name: str) -> object:
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
        made = Instance(cls, {}, node)
        self.initialize(made, args, named)
        return made

    def initialize(self, made: Instance, args: list[object], named: dict[str, object]) -> None:
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

    def super_method(self, name: str, frame: _Frame) -> FunctionValue | None:
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

    # Statements

    def block(self, body: Sequence[ast.stmt], frame: _Frame) -> object:
        """Follow statements; gives ``_GOING``, ``_RAISED`` or the value that is returned."""
        for node in body:
            outcome = self.deeper(lambda node=node: self.stmt(node, frame), _GOING)  # type: ignore[misc]
            if outcome is not _GOING:
                return outcome
        return _GOING

    def stmt(self, node: ast.stmt, frame: _Frame) -> object:
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
                return _RAISED
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
        return _GOING

    def forget(self, body: Iterable[ast.stmt], frame: _Frame) -> None:
        for node in body:
            for name in bound(node):
                if not isinstance(frame.scope.get(name), Instance):
                    frame.scope[name] = UNKNOWN

    def assign(self, target: ast.expr, value: object, frame: _Frame) -> None:
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

    def put(self, place: ast.expr, value: object, frame: _Frame) -> None:
        """Store what a change of an object in place gives, where the place is a name of ours."""
        if isinstance(place, ast.Name):
            if place.id in frame.scope or not isinstance(value, v.Unknown):
                frame.scope[place.id] = value
        elif isinstance(place, ast.Attribute):
            self.assign(place, value, frame)

    def effect(self, node: ast.expr, frame: _Frame) -> None:
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

    def imports(self, node: ast.Import | ast.ImportFrom, frame: _Frame) -> None:
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

    def branch(self, node: ast.If, frame: _Frame) -> object:
        decided = v.truth(self.expr(node.test, frame))
        if decided is not None:
            return self.block(node.body if decided else node.orelse, frame)
        return self.either([node.body, node.orelse], frame)

    def guarded(self, node: ast.Try, frame: _Frame) -> object:
        handlers = [handler.body for handler in node.handlers]
        outcome = self.either([[*node.body, *node.orelse], *handlers], frame, spare=True)
        final = self.block(node.finalbody, frame)
        return outcome if final is _GOING else final

    def either(
        self, bodies: Sequence[Sequence[ast.stmt]], frame: _Frame, spare: bool = False
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
            if outcome is not _RAISED:
                ends.append((outcome, frame.scope, dict(attributes)))
        if not ends:
            return _RAISED
        going = [end for end in ends if end[0] is _GOING]
        frame.scope = _merged([scope for _, scope, _ in going or ends], spare)
        merged = _merged([found for _, _, found in going or ends], spare)
        attributes.clear()
        attributes.update(merged)
        if len(going) == len(ends):
            return _GOING
        if going:
            frame.returned = True
            return _GOING
        first = ends[0][0]
        return first if all(v.same(first, end[0]) for end in ends[1:]) else UNKNOWN

    def loop(self, node: ast.For, frame: _Frame) -> object:
        items = self.iterated(node.iter, frame)
        breaks = any(
            isinstance(inner, (ast.Break, ast.Continue, ast.Return))
            for each in node.body
            for inner in ast.walk(each)
        )
        if items is None or breaks or len(items) > _LOOPS or node.orelse:
            self.forget([node], frame)
            return _GOING
        for item in items:
            self.assign(node.target, item, frame)
            outcome = self.block(node.body, frame)
            if outcome is not _GOING:
                return outcome
        return _GOING

    # Expressions

    def deeper(self, question: Callable[[], object], otherwise: object = UNKNOWN) -> object:
        self.steps += 1
        if self.steps > _STEPS:
            raise _Exhausted
        if self.depth >= _DEEPEST:
            return otherwise
        self.depth += 1
        try:
            return question()
        finally:
            self.depth -= 1

    def expr(self, node: ast.expr, frame: _Frame) -> object:
        return self.deeper(lambda: self.one(node, frame))

    def one(self, node: ast.expr, frame: _Frame) -> object:
        match node:
            case ast.Constant():
                return UNKNOWN if node.value is ... else v.bounded(node.value)
            case ast.Name():
                return self.name(node.id, frame)
            case ast.Attribute():
                return self.attribute(self.expr(node.value, frame), node.attr)
            case ast.JoinedStr():
                return operations.joined([self.field(part, frame) for part in node.values])
            case ast.Tuple():
                return tuple(self.elements(node.elts, frame))
            case ast.List():
                return self.elements(node.elts, frame)
            case ast.Set():
                found = self.elements(node.elts, frame)
                return {item if v.is_key(item) else UNKNOWN for item in found}
            case ast.Dict():
                return self.dictionary(node, frame)
            case ast.BinOp():
                return self.binary(node, frame)
            case ast.BoolOp():
                return self.chain(node, frame)
            case ast.UnaryOp():
                return _unary(node.op, self.expr(node.operand, frame))
            case ast.Compare():
                return self.comparison(node, frame)
            case ast.IfExp():
                return self.choice(node, frame)
            case ast.Subscript():
                return self.item(node, frame)
            case ast.Call():
                return self.called(node, frame)
            case ast.ListComp() | ast.GeneratorExp():
                return self.comprehension(node.generators, node.elt, frame)
            case ast.SetComp():
                return operations.made(
                    "set", [self.comprehension(node.generators, node.elt, frame)]
                )
            case ast.DictComp():
                pair = ast.Tuple([node.key, node.value], ast.Load())
                return operations.made("dict", [self.comprehension(node.generators, pair, frame)])
            case ast.Lambda():
                return FunctionValue(frame.module, node)
        return UNKNOWN

    def field(self, part: ast.expr, frame: _Frame) -> object:
        if not isinstance(part, ast.FormattedValue):
            return self.expr(part, frame)
        conversion = "" if part.conversion == -1 else chr(part.conversion)
        spec = self.expr(part.format_spec, frame) if part.format_spec else ""
        if not isinstance(spec, str):
            return UNKNOWN
        text = operations.formatted(self.expr(part.value, frame), conversion, spec)
        return UNKNOWN if text is None else text

    def elements(self, nodes: Sequence[ast.expr], frame: _Frame) -> list[object]:
        found: list[object] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                inner = self.iterated(node.value, frame)
                found.extend([UNKNOWN] if inner is None else inner)
            else:
                found.append(self.expr(node, frame))
            if len(found) > v.LARGEST:
                raise _Exhausted
        return found

    def dictionary(self, node: ast.Dict, frame: _Frame) -> object:
        found: dict[object, object] = {}
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            value = self.expr(value_node, frame)
            if key_node is None:
                found.update(value if isinstance(value, dict) else {UNKNOWN: UNKNOWN})
                continue
            key = self.expr(key_node, frame)
            if v.is_key(key):
                found[key] = value
            else:
                found[UNKNOWN] = UNKNOWN
            if len(found) > v.LARGEST:
                raise _Exhausted
        return found

    def binary(self, node: ast.BinOp, frame: _Frame) -> object:
        pending: list[tuple[ast.operator, ast.expr]] = []
        left: ast.expr = node
        while isinstance(left, ast.BinOp):  # a + b + c is nested to the left
            pending.append((left.op, left.right))
            left = left.left
        value = self.expr(left, frame)
        for op, right in reversed(pending):
            operation = operations.BINARY.get(type(op))
            value = operation(value, self.expr(right, frame)) if operation else UNKNOWN
        return value

    def chain(self, node: ast.BoolOp, frame: _Frame) -> object:
        stops = isinstance(node.op, ast.Or)
        value: object = UNKNOWN
        unknown = False
        for part in node.values:
            value = self.expr(part, frame)
            decided = v.truth(value)
            if decided is stops:
                return UNKNOWN if unknown and stops and value is not True else value
            unknown = unknown or decided is None
        return UNKNOWN if unknown else value

    def comparison(self, node: ast.Compare, frame: _Frame) -> object:
        if len(node.ops) != 1:
            return UNKNOWN
        left = self.expr(node.left, frame)
        return operations.compared(node.ops[0], left, self.expr(node.comparators[0], frame))

    def choice(self, node: ast.IfExp, frame: _Frame) -> object:
        decided = v.truth(self.expr(node.test, frame))
        if decided is not None:
            return self.expr(node.body if decided else node.orelse, frame)
        left, right = self.expr(node.body, frame), self.expr(node.orelse, frame)
        return left if v.same(left, right) else UNKNOWN

    def attribute(self, owner: object, name: str) -> object:
        match owner:
            case Instance():
                if name in owner.attributes:
                    return owner.attributes[name]
                if name == "__class__":
                    return owner.cls
                found = self.class_attribute(owner.cls, name)
                if isinstance(found, FunctionValue) and _decorators(found.node) & _PROPERTIES:
                    return self.call(found, [owner], {})
                return found
            case ClassValue():
                return owner.name if name == "__name__" else self.class_attribute(owner, name)
            case v.ModuleValue():
                return self.deeper(lambda: self.member_of_module(owner.tree, owner.dotted, name))
            case External():
                return External(f"{owner.dotted}.{name}")
            case v.Member():
                return {"value": owner.value, "name": owner.name}.get(name, UNKNOWN)
            case v.Pattern():
                return owner.text if name == "pattern" else UNKNOWN
        return UNKNOWN

    def item(self, node: ast.Subscript, frame: _Frame) -> object:
        owner = self.expr(node.value, frame)
        if isinstance(owner, External) and owner.dotted.rpartition(".")[2] == "Literal":
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return v.LiteralType(tuple(self.elements(parts, frame)))
        if isinstance(node.slice, ast.Slice):
            bounds = [
                None if part is None else self.expr(part, frame)
                for part in (node.slice.lower, node.slice.upper, node.slice.step)
            ]
            return operations.sliced(owner, bounds)
        key = self.expr(node.slice, frame)
        if isinstance(owner, ClassValue) and isinstance(key, str):
            return self.class_attribute(owner, key)
        return operations.indexed(owner, key)

    def iterated(self, node: ast.expr, frame: _Frame) -> list[object] | None:
        value = self.expr(node, frame)
        return self.enum_members(value) if isinstance(value, ClassValue) else v.members(value)

    def comprehension(
        self, generators: list[ast.comprehension], element: ast.expr, frame: _Frame
    ) -> object:
        if len(generators) != 1 or generators[0].is_async:
            return UNKNOWN
        items = self.iterated(generators[0].iter, frame)
        if items is None or len(items) > _LOOPS:
            return UNKNOWN
        found: list[object] = []
        inner = _Frame(frame.module, dict(frame.scope), frame.cls, frame.body)
        for item in items:
            self.assign(generators[0].target, item, inner)
            kept = [v.truth(self.expr(test, inner)) for test in generators[0].ifs]
            if False in kept:
                continue
            found.append(UNKNOWN if None in kept else self.expr(element, inner))
        return found

    # Calls

    def arguments(self, node: ast.Call, frame: _Frame) -> tuple[list[object], dict[str, object]]:
        """The arguments; the name ``**`` stands for unknown ``*args`` or ``**kwargs``."""
        args = self.elements(node.args, frame)
        named: dict[str, object] = {}
        for arg in node.args:
            if isinstance(arg, ast.Starred) and self.iterated(arg.value, frame) is None:
                named["**"] = UNKNOWN
        for keyword in node.keywords:
            value = self.expr(keyword.value, frame)
            if keyword.arg is not None:
                named[keyword.arg] = value
            elif isinstance(value, dict) and all(isinstance(key, str) for key in value):
                named.update({str(key): item for key, item in value.items()})
            else:
                named["**"] = UNKNOWN
        return args, named

    def called(self, node: ast.Call, frame: _Frame) -> object:
        func = node.func
        args, named = self.arguments(node, frame)
        if isinstance(func, ast.Attribute):
            if isinstance(func.value, ast.Call) and _is_super(func.value.func):
                found = self.super_method(func.attr, frame)
                return self.call(found, [frame.scope["self"], *args], named) if found else UNKNOWN
            owner = self.expr(func.value, frame)
            if isinstance(owner, Instance):
                bound_to = self.class_attribute(owner.cls, func.attr)
                return self.call_on(bound_to, owner, args, named)
            if isinstance(owner, ClassValue):
                bound_to = self.class_attribute(owner, func.attr)
                return self.call_on(bound_to, owner, args, named)
            if not isinstance(owner, (External, v.ModuleValue)):
                return v.bounded(operations.method(owner, func.attr, args, named))
        target = self.expr(func, frame)
        match target:
            case ClassValue():
                return self.make(target, args, named, node)
            case FunctionValue():
                return self.call(target, args, named)
            case External():
                if args and isinstance(args[0], ClassValue):
                    inner = self.enum_members(args[0])
                    args = [args[0] if inner is None else inner, *args[1:]]
                return v.bounded(operations.made(target.dotted, args, named))
        return UNKNOWN

    def call_on(
        self,
        found: object,
        owner: Instance | ClassValue,
        args: list[object],
        named: dict[str, object],
    ) -> object:
        if not isinstance(found, FunctionValue):
            return UNKNOWN
        decorators = _decorators(found.node)
        if "staticmethod" in decorators:
            return self.call(found, args, named)
        if "classmethod" in decorators and isinstance(owner, Instance):
            owner = owner.cls
        if isinstance(owner, ClassValue) and "classmethod" not in decorators:
            return self.call(found, args, named)  # Base.__init__(self, …)
        return self.call(found, [owner, *args], named)

    def call(self, func: FunctionValue, args: list[object], named: dict[str, object]) -> object:
        if self.calls >= _CALLS or _decorators(func.node) - _HARMLESS:
            return UNKNOWN
        frame = _Frame(func.module, {}, func.owner)
        self.bind(func, args, named, frame)
        self.calls += 1
        try:
            if isinstance(func.node, ast.Lambda):
                return self.expr(func.node.body, frame)
            if isinstance(func.node, ast.AsyncFunctionDef):
                return UNKNOWN
            outcome = self.block(func.node.body, frame)
        finally:
            self.calls -= 1
        if frame.returned or isinstance(outcome, _Outcome):
            return UNKNOWN
        return outcome

    def bind(
        self, func: FunctionValue, args: list[object], named: dict[str, object], frame: _Frame
    ) -> None:
        spec = func.node.args
        plain = [arg.arg for arg in (*spec.posonlyargs, *spec.args)]
        outer = _Frame(func.module, {}, func.owner, body=func.owner is not None)
        defaults: dict[str, ast.expr | None] = dict(
            zip(reversed(plain), reversed(spec.defaults), strict=False)
        )
        defaults.update(
            {arg.arg: d for arg, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True)}
        )
        given = dict(zip(plain, args, strict=False)) | {k: x for k, x in named.items() if k != "**"}
        for name in [*plain, *(arg.arg for arg in spec.kwonlyargs)]:
            default = defaults.get(name)
            if name in given:
                frame.scope[name] = given.pop(name)
            elif default is None or "**" in named:
                frame.scope[name] = UNKNOWN
            else:
                frame.scope[name] = self.expr(default, outer)
        if spec.vararg:
            frame.scope[spec.vararg.arg] = tuple(args[len(plain) :])
        if spec.kwarg:
            more: dict[object, object] = {UNKNOWN: UNKNOWN} if "**" in named else {}
            more.update(given)
            frame.scope[spec.kwarg.arg] = more
        if plain and args and isinstance(args[0], Instance):
            frame.scope["self"] = args[0]


_BUILTINS = frozenset(
    {"list", "tuple", "set", "frozenset", "dict", "sorted", "str", "len", "zip", "reversed"}
)
_PROPERTIES = frozenset({"property", "cached_property"})
_HARMLESS = _PROPERTIES | {"staticmethod", "classmethod", "cache", "lru_cache", "override"}


def _decorators(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    if isinstance(node, ast.Lambda):
        return set()
    names = set()
    for each in node.decorator_list:
        inner = each.func if isinstance(each, ast.Call) else each
        last = inner.attr if isinstance(inner, ast.Attribute) else getattr(inner, "id", "?")
        names.add(last)
    return names


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "super"


def _is_change(node: ast.stmt) -> bool:
    """Whether a statement at most changes an attribute of what it names, and binds no name."""
    if isinstance(node, ast.Assign):
        return not any(isinstance(target, (ast.Name, ast.Tuple)) for target in node.targets)
    return isinstance(node, (ast.AugAssign, ast.Expr))


def _unary(op: ast.unaryop, value: object) -> object:
    if isinstance(op, ast.Not):
        decided = v.truth(value)
        return UNKNOWN if decided is None else not decided
    if isinstance(value, (int, float)):
        if isinstance(op, ast.USub):
            return -value
        if isinstance(op, ast.UAdd):
            return value
    return UNKNOWN


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
