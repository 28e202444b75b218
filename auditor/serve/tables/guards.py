"""Settings that the tree refuses together, taken from its own ``raise`` and ``assert`` statements.

The start is followed as the tree runs it: from ``__post_init__`` through every method and hook that
is handed the settings, with the conditions on the way. Two approximations of each way are kept, one
in which it is certainly taken and one outside of which it is certainly not. A guard comes of the
first; what an earlier statement may write, of the second. What is not understood drops the guard,
since a setting that is wrongly said to be refused is worse than one that is not mentioned.
"""

from __future__ import annotations

import ast
import copy
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from auditor.serve.tables.constants import UNKNOWN, Module, Tree, evaluate, lookup
from auditor.serve.tables.facts import Flag, Guard, Term
from auditor.serve.tables.flags import SERVER_ARGS, Field, fields, text_of
from auditor.serve.tables.modules import definitions
from auditor.serve.tables.terms import (
    ALWAYS,
    NEVER,
    Cases,
    Conjunction,
    both,
    candidates,
    compare,
    either,
    holds,
    opposite,
    possible,
    reduced,
    simplest,
    without,
)
from auditor.serve.tables.values import ClassValue, FunctionValue, is_known, members

_ROOTS = ("__post_init__", "resolve_once", "check_server_args")
"""What a start calls on the settings, in this order, in every era."""

_BEFORE = {"from_cli_args", "add_cli_args"}
"""What makes the settings, rather than changing them."""

_STEPS = 6_000
"""Functions entered; 0.5.23 needs some 700."""

_DEEPEST = 12
_VARIANTS = 6
"""Guards that one refusal may be split into to step around what is written before it."""

_HOOKS = "sglang/srt/arg_groups/"
_LAUNCHERS = ("sglang/launch_server.py", "sglang/srt/entrypoints/")
_CAUGHT = {"", "Exception", "BaseException", "ValueError", "AssertionError", "RuntimeError"}
_CAUGHT |= {"NotImplementedError"}
_WRITES = re.compile(rb"\bserver_args\.\w+\s*=[^=]|\bsetattr\(\s*server_args\b")
_DUMMY = {"'none'", "'dummy'"}

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Imports = dict[str, tuple[str, str]]


@dataclass(frozen=True)
class _Write:
    """A value that a field may get.

    ``computed`` gives it of the field's own value before; other settings that go into it are
    unknown, but for those that the terms leave out. ``given`` are such terms, fewer first.
    """

    field: str
    value: object
    when: Cases
    order: int
    computed: Callable[[object, Conjunction], object] | None = None
    given: tuple[Conjunction, ...] = ()


@dataclass(frozen=True)
class _Refusal:
    when: Cases
    message: str
    path: str
    line: int
    order: int


@dataclass
class _Frame:
    """A function on the way: the names that stand for the settings, for a field or for a test."""

    module: Module
    args: set[str]
    owner: ClassValue | None
    imports: _Imports
    once: Mapping[str, ast.expr]
    loops: Mapping[str, Sequence[object]]
    depth: int
    exits: list[Cases] = field(default_factory=list)


def guards(tree: Tree, flags: Sequence[Flag]) -> tuple[Guard, ...]:
    """All refusals over at least two settings that have a flag, in the order of the files."""
    module = tree.module(SERVER_ARGS)
    node = module.classes.get("ServerArgs") if module else None
    if module is None or node is None:
        return ()
    walk = _Walk(tree, ClassValue(module, node), fields(tree))
    for root in _ROOTS:
        walk.method(root)
    walk.elsewhere()
    defaults = _defaults(walk.fields, flags, _renamed(node))
    writes: dict[str, list[_Write]] = {}
    for write in sorted(walk.writes, key=lambda write: write.order):
        writes.setdefault(write.field, []).append(write)
    found: dict[Guard, None] = {}
    for refusal in walk.refusals:
        kept: list[Conjunction] = []
        for case in refusal.when:
            if len({term.field for term in case}) >= 2:
                until = dict.fromkeys(case, refusal.order)
                kept += _steady(until, writes, _VARIANTS)
        for case in reduced(list(dict.fromkeys(map(simplest, kept)))):
            terms = [_told(term, defaults) for term in sorted(case)]
            known = [term for term in terms if term is not None]
            if len(known) == len(terms) and not all(term.absent for term in known):
                place = (refusal.message, refusal.path, refusal.line)
                found[Guard(tuple(known), *place)] = None
    return tuple(sorted(found, key=lambda g: (g.path, g.line, g.terms)))


def defaults(tree: Tree, flags: Sequence[Flag]) -> dict[str, tuple[str, object]]:
    """For each setting with a flag the flag's ``dest`` and what the setting is without it.

    A default that the declaration does not tell is ``UNKNOWN``.
    """
    module = tree.module(SERVER_ARGS)
    node = module.classes.get("ServerArgs") if module else None
    return _defaults(fields(tree), flags, _renamed(node)) if node is not None else {}


def _steady(
    until: Mapping[Term, int], writes: Mapping[str, Sequence[_Write]], budget: int
) -> list[Conjunction]:
    """The alternatives of a refusal in which no term is changed before it was needed.

    ``until`` says for each term up to where on the way it has to hold. A write that would change
    one is stepped around by a further term, which has to hold up to that write.
    """
    for term in sorted(until):
        for write in writes.get(term.field, ()):
            if write.order >= until[term]:
                break
            case = frozenset(other for other, order in until.items() if order >= write.order)
            ways = [way for way in write.when if possible(way | case)]
            known = case & frozenset().union(*write.given)
            if not ways or _survives(term, write, known):
                continue
            for left_out in write.given:
                if not left_out <= case and _survives(term, write, left_out):
                    around = _around(until, left_out, write.order)
                    return _steady(around, writes, budget // 2) if around else []
            found: list[Conjunction] = []
            for other in sorted(ways[0]) if budget else ():
                around = _around(until, [opposite(other)], write.order)
                if around:
                    found += _steady(around, writes, budget // 2)
            return found[:_VARIANTS]
    return [frozenset(until)]


def _around(until: Mapping[Term, int], terms: Iterable[Term], order: int) -> dict[Term, int] | None:
    """With more terms that hold at least up to there, None where they exclude each other."""
    more = dict(until)
    for term in terms:
        more[term] = max(more.get(term, order), order)
    return more if possible(frozenset(more)) else None


def _survives(term: Term, write: _Write, left_out: Conjunction = frozenset()) -> bool:
    """Whether a term that held before a write holds after it, other settings not being given."""
    if write.computed is None:
        return write.value is not UNKNOWN and holds(term, write.value)
    values = candidates(term)
    if values is None:
        return False
    after = [write.computed(value, left_out) for value in values]
    return all(value is not UNKNOWN and holds(term, value) for value in after)


def _told(term: Term, defaults: Mapping[str, tuple[str, object]]) -> Term | None:
    """The term by the name of the flag, None for a setting that has none."""
    if term.field not in defaults:
        return None
    dest, default = defaults[term.field]
    absent = default is not UNKNOWN and holds(term, default)
    return Term(dest, term.op, term.values, absent)


def _renamed(owner: ast.ClassDef) -> dict[str, str]:
    """Settings that ``from_cli_args`` takes from a flag of another name."""
    found: dict[str, str] = {}
    for node in ast.walk(owner):
        match node:
            case ast.Assign(
                targets=[ast.Attribute(value=ast.Name(id="args"), attr=new)],
                value=ast.Attribute(value=ast.Name(id="args"), attr=old),
            ):
                found[new] = old
    return found


def _defaults(
    declared: Mapping[str, Field], flags: Sequence[Flag], renamed: Mapping[str, str]
) -> dict[str, tuple[str, object]]:
    """For each setting with a flag the flag's ``dest`` and what the setting is without it."""
    by_dest: dict[str, Flag] = {}
    for flag in flags:
        if flag.dest not in by_dest or (by_dest[flag.dest].deprecated and not flag.deprecated):
            by_dest[flag.dest] = flag
    found: dict[str, tuple[str, object]] = {}
    for name, declaration in declared.items():
        dest = renamed.get(name, name)
        flag_ = by_dest.get(dest)
        if flag_ is not None:
            found[name] = (dest, _default(flag_, declaration))
    return found


def _default(flag: Flag, declaration: Field) -> object:
    text = flag.default
    own = declaration.default if is_known(declaration.default) else UNKNOWN
    if flag.line == declaration.node.lineno and flag.path == declaration.module.path:
        return own
    if text.startswith(("ServerArgs.", "_declared_default(")) or text.endswith("SUPPRESS"):
        return own
    if not text:
        return None if flag.takes_value else False
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return UNKNOWN


class _Walk:
    def __init__(self, tree: Tree, owner: ClassValue, declared: Mapping[str, Field]) -> None:
        self.tree = tree
        self.owner = owner
        self.fields = dict(declared)
        self.writes: list[_Write] = []
        self.refusals: list[_Refusal] = []
        self.entered: set[int] = set()
        self.strangers: set[str] = set()
        self.order = 0
        self.steps = 0
        self.stack: list[int] = []
        # By the expression, since functions are entered more than once:
        self.parts: dict[int, list[ast.Dict | ast.Tuple | ast.Call]] = {}
        self.constants: dict[int, object] = {}
        self.functions: dict[int, FunctionValue | None] = {}
        self.known: dict[int, tuple[_Imports, dict[str, ast.expr], dict[str, list[object]]]] = {}
        self.methods = {
            n.name: n
            for n in owner.node.body
            if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))
        }

    def method(self, name: str) -> None:
        node = self.methods.get(name)
        if node is not None:
            self.enter(self.owner.module, node, {"self"}, self.owner, ALWAYS, ALWAYS, 0)

    def elsewhere(self) -> None:
        """Writes whose place on the way is not known count from the start on."""
        paths = [p for p in self.tree.paths if p.startswith(_HOOKS)]
        paths += [p for p in self.tree.paths if p.startswith(_LAUNCHERS)]
        names = sorted(self.strangers - self.methods.keys())
        found = self.tree.mentioning([f"def {name}(".encode() for name in names], "sglang/")
        strangers = {path for hits in found.values() for path in hits}
        for path in sorted({*paths, *strangers, SERVER_ARGS}):
            data = self.tree.content(path) or b""
            if not path.startswith((_HOOKS, SERVER_ARGS)) and not _WRITES.search(data):
                continue
            module = self.tree.module(path)
            for node in _functions(module.body) if module else ():
                if id(node) in self.entered or not module:
                    continue
                own = path == SERVER_ARGS and node.name in self.methods.keys() - _BEFORE
                if own or path.startswith((_HOOKS, *_LAUNCHERS)) or node.name in names:
                    self.anywhere(module, node)

    def anywhere(self, module: Module, function: _Function) -> None:
        names = {a.arg for a in (*function.args.args, *function.args.kwonlyargs)}
        frame = self.frame(module, function, names | {"server_args", "self"}, None, 0)
        self.order = -1
        for node in ast.walk(function):
            if isinstance(node, ast.stmt):
                self.stores(node, frame, ALWAYS)
            if isinstance(node, ast.expr):
                self.declared(node, frame, ALWAYS)

    def enter(
        self,
        module: Module,
        function: _Function,
        args: set[str],
        owner: ClassValue | None,
        sure: Cases,
        may: Cases,
        depth: int,
    ) -> None:
        self.steps += 1
        if self.steps > _STEPS or depth > _DEEPEST or id(function) in self.stack:
            return
        self.entered.add(id(function))
        self.stack.append(id(function))
        frame = self.frame(module, function, args, owner, depth)
        self.block(function.body, frame, sure, may)
        self.stack.pop()

    def frame(
        self,
        module: Module,
        function: _Function,
        args: set[str],
        owner: ClassValue | None,
        depth: int,
    ) -> _Frame:
        if id(function) not in self.known:
            parts = (_imports(module, function), _once(function), _loops(module, function))
            self.known[id(function)] = parts
        return _Frame(module, set(args), owner, *self.known[id(function)], depth)

    # Statements

    def block(
        self, body: Sequence[ast.stmt], frame: _Frame, sure: Cases, may: Cases
    ) -> tuple[Cases, Cases]:
        """What holds at the end of the block: (surely reached or refused, possibly reached)."""
        for node in body:
            if may == NEVER:
                break
            left = len(frame.exits)
            sure, may = self.statement(node, frame, sure, may)
            for gone in frame.exits[left:]:
                sure = without(sure, gone)
        return sure, may

    def statement(
        self, node: ast.stmt, frame: _Frame, sure: Cases, may: Cases
    ) -> tuple[Cases, Cases]:
        self.order += 1
        match node:
            case ast.If():
                self.calls(node.test, frame, sure, may)
                return self.branch(node, frame, sure, may)
            case ast.Assert():
                holds_not = self.test(node.test, frame, True)[0]
                self.refuse(node, node.msg, frame, both(sure, holds_not, NEVER))
                return sure, may
            case ast.Raise():
                told = (
                    node.exc.args[0] if isinstance(node.exc, ast.Call) and node.exc.args else None
                )
                if node.exc is not None:
                    self.refuse(node, told, frame, sure)
                return sure, NEVER
            case ast.Return():
                if node.value is not None:
                    self.calls(node.value, frame, sure, may, whole=True)
                frame.exits.append(may)
                return sure, NEVER
            case ast.Break() | ast.Continue():
                return sure, NEVER
            case ast.For() | ast.AsyncFor() | ast.While():
                head = node.test if isinstance(node, ast.While) else node.iter
                self.calls(head, frame, NEVER, may)
                self.block(node.body, frame, NEVER, may)
                self.block(node.orelse, frame, NEVER, may)
            case ast.Try():
                inside = sure if all(_lets_through(h) for h in node.handlers) else NEVER
                self.block(node.body, frame, inside, may)
                for handler in node.handlers:
                    self.block(handler.body, frame, NEVER, may)
                self.block(node.orelse, frame, inside, may)
                self.block(node.finalbody, frame, inside, may)
            case ast.With() | ast.AsyncWith():
                self.block(node.body, frame, sure, may)
            case ast.Match():
                for case in node.cases:
                    self.block(case.body, frame, NEVER, may)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                pass
            case _:
                self.stores(node, frame, may)
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.calls(child, frame, sure, may, whole=True)
        return sure, may

    def branch(self, node: ast.If, frame: _Frame, sure: Cases, may: Cases) -> tuple[Cases, Cases]:
        surely, maybe = self.test(node.test, frame, False)
        surely_not, maybe_not = self.test(node.test, frame, True)
        _, after = self.block(node.body, frame, both(sure, surely, NEVER), both(may, maybe, may))
        refused = len(node.body) == 1 and isinstance(node.body[0], ast.Raise)
        if refused:
            surely_not = ALWAYS  # where the test held, the start is refused already
        _, after_not = self.block(
            node.orelse, frame, both(sure, surely_not, NEVER), both(may, maybe_not, may)
        )
        if after == NEVER and not refused:
            return sure, after_not
        return sure, after if after_not == NEVER else may

    def refuse(self, node: ast.stmt, told: ast.expr | None, frame: _Frame, when: Cases) -> None:
        if when != NEVER:
            message = " ".join(text_of(told, frame.module).split()) if told is not None else ""
            place = (frame.module.path, node.lineno, self.order)
            self.refusals.append(_Refusal(when, message[:500], *place))

    # Writes

    def stores(self, node: ast.stmt, frame: _Frame, may: Cases) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self.store(target, value, frame, may)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self.store(target, value, frame, may)
            case ast.AugAssign(target=target) | ast.For(target=target):
                self.store(target, None, frame, may)
            case ast.Delete(targets=targets):
                for target in targets:
                    self.store(target, None, frame, may)

    def store(self, target: ast.expr, value: ast.expr | None, frame: _Frame, may: Cases) -> None:
        match target:
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                values = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
                for index, part in enumerate(parts):
                    same = len(values) == len(parts)
                    self.store(part, values[index] if same else None, frame, may)
            case ast.Attribute(value=owner, attr=name) if name in self.fields:
                if self.is_args(owner, frame):
                    self.write(name, value, frame, may)
            case ast.Subscript(slice=ast.Constant(value=str(name))) if name in self.fields:
                self.write(name, value, frame, may)
            case ast.Name(id=name):
                if value is not None and self.is_view(value, frame):
                    frame.args.add(name)

    def write(self, name: str, value: ast.expr | None, frame: _Frame, may: Cases) -> None:
        match value:
            case None:
                self.writes.append(_Write(name, UNKNOWN, may, self.order))
            case ast.IfExp():
                for part, negated in ((value.body, False), (value.orelse, True)):
                    when = both(may, self.test(value.test, frame, negated)[1], may)
                    self.write(name, part, frame, when)
            case ast.BoolOp(op=ast.Or(), values=[first, *rest]) if (
                self.field_of(first, frame) == name and len(rest) == 1
            ):
                when = both(may, (frozenset([Term(name, "false")]),), may)
                self.write(name, rest[0], frame, when)
            case ast.Call(func=ast.Name(id="int" | "float" | "bool" | "str"), args=[inner]) if (
                self.field_of(inner, frame) == name
            ):
                pass
            case _ if self.field_of(value, frame) == name:
                pass
            case _:
                constant = self.constant(value, frame)
                made = self.computed(name, value, frame) if constant is UNKNOWN else ()
                self.writes.append(_Write(name, constant, may, self.order, *made))

    def computed(
        self, name: str, value: ast.expr, frame: _Frame
    ) -> tuple[()] | tuple[Callable[[object, Conjunction], object], tuple[Conjunction, ...]]:
        """A value that is made of the field's own, and what says that others are not given."""
        settings = _Settings(lambda node: self.field_of(node, frame))
        expression = settings.expression(value)
        if name not in settings.found:
            return ()
        scope = _imported(value, frame)
        terms = [
            Term(other, "none" if self.fields[other].default is None else "false")
            for other in sorted(settings.found - {name})
            if self.fields[other].default in (None, False)
        ]
        alone = [frozenset([term]) for term in terms]
        given = (*alone, frozenset(terms)) if len(terms) > 1 else tuple(alone)

        @functools.cache
        def compute(before: object, left_out: Conjunction) -> object:
            names = {_Settings.name(t.field): self.fields[t.field].default for t in left_out}
            own = {_Settings.name(name): before}
            after = evaluate(expression, frame.module, {**scope, **names, **own})
            return after if is_known(after) else UNKNOWN

        return compute, given

    def declared(self, node: ast.expr, frame: _Frame, may: Cases) -> None:
        """Values for settings by their name: keywords, dictionaries, pairs, ``setattr``."""
        match node:
            case ast.Call(func=function, args=args, keywords=keywords):
                handed = any(self.is_args(arg, frame) for arg in args)
                if handed or _last(function) in ("dict", "update", "override"):
                    for keyword in keywords:
                        if keyword.arg in self.fields:
                            self.write(str(keyword.arg), keyword.value, frame, may)
                if _last(function) == "setattr" and len(args) == 3 and handed:
                    for name in self.named(args[1], frame):
                        self.write(name, args[2], frame, may)
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    if isinstance(key, ast.Constant) and key.value in self.fields:
                        self.write(str(key.value), value, frame, may)
            case ast.Tuple(elts=[ast.Constant(value=str(name)), value]) if name in self.fields:
                self.write(name, value, frame, may)

    def named(self, node: ast.expr, frame: _Frame) -> list[str]:
        """The settings that a name which is put together or looped over may stand for.

        Where a run decides it, the values come from declarations, which count where they stand.
        """
        match node:
            case ast.Constant(value=str(name)):
                names = [name]
            case ast.Name(id=variable):
                names = [
                    text
                    for rows in frame.loops.get(variable, ())
                    for text in (rows if isinstance(rows, (list, tuple)) else [rows])
                    if isinstance(text, str)
                ]
            case _:
                names = []
        return [name for name in names if name in self.fields]

    # Calls

    def calls(
        self, node: ast.expr, frame: _Frame, sure: Cases, may: Cases, whole: bool = False
    ) -> None:
        """Everything that is called within an expression; only the outermost call is sure."""
        if id(node) not in self.parts:
            kinds = (ast.Dict, ast.Tuple, ast.Call)
            self.parts[id(node)] = [n for n in ast.walk(node) if isinstance(n, kinds)]
        for inner in self.parts[id(node)]:
            self.declared(inner, frame, may)
            if isinstance(inner, ast.Call):
                self.call(inner, frame, sure if whole and inner is node else NEVER, may)

    def call(self, call: ast.Call, frame: _Frame, sure: Cases, may: Cases) -> None:
        function = call.func
        given: list[tuple[int | str, ast.expr]] = list(enumerate(call.args))
        given += [(k.arg, k.value) for k in call.keywords if k.arg]
        handed = [key for key, value in given if self.is_args(value, frame)]
        if isinstance(function, ast.Attribute) and self.is_args(function.value, frame):
            method = self.methods.get(function.attr)
            if method is not None:
                args = {"self"} | _parameters(method, handed, 1)
                depth = frame.depth + 1
                self.enter(self.owner.module, method, args, self.owner, sure, may, depth)
            return
        if not handed:
            return
        target = self.function(function, frame)
        for _, value in given:
            step = self.function(value, frame) if isinstance(value, ast.Name) else None
            if step is not None and isinstance(step.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                args = _parameters(step.node, [0], 0)
                self.enter(step.module, step.node, args, None, sure, may, frame.depth + 1)
                return
        if target is None and isinstance(function, ast.Attribute):
            self.strangers.add(function.attr)
        elif target and isinstance(target.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            args = _parameters(target.node, handed, 0)
            self.enter(target.module, target.node, args, None, sure, may, frame.depth + 1)

    def function(self, node: ast.expr, frame: _Frame) -> FunctionValue | None:
        if id(node) not in self.functions:
            self.functions[id(node)] = self.resolved(node, frame)
        return self.functions[id(node)]

    def resolved(self, node: ast.expr, frame: _Frame) -> FunctionValue | None:
        if isinstance(node, ast.Name) and node.id in frame.imports:
            value = _imported(node, frame)[node.id] if _imported(node, frame) else UNKNOWN
        elif isinstance(node, ast.Name) and node.id in frame.module.bindings:
            value = lookup(frame.module, node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            value = evaluate(node, frame.module, _imported(node, frame))
        else:
            return None
        return value if isinstance(value, FunctionValue) else None

    # Tests

    def is_args(self, node: ast.expr | None, frame: _Frame) -> bool:
        """Whether an expression stands for the settings, resolved as far as they are by then."""
        if isinstance(node, ast.Name):
            return node.id in frame.args
        return node is not None and self.is_view(node, frame)

    def is_view(self, node: ast.expr, frame: _Frame) -> bool:
        match node:
            case ast.Call(func=function, args=[first]):
                return "view" in _last(function).lower() and self.is_args(first, frame)
            case ast.Name(id=name):
                return name in frame.args
        return False

    def field_of(self, node: ast.expr | None, frame: _Frame) -> str | None:
        match node:
            case ast.Attribute(value=owner, attr=name) if name in self.fields:
                return name if self.is_args(owner, frame) else None
            case ast.Call(
                func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=str(name)), *_]
            ) if name in self.fields:
                return name if self.is_args(owner, frame) else None
            case ast.Name(id=name) if name in frame.once and name not in frame.args:
                inner = frame.once[name]
                return None if isinstance(inner, ast.Name) else self.field_of(inner, frame)
        return None

    def constant(self, node: ast.expr, frame: _Frame) -> object:
        """The value of an expression that calls nothing, ``UNKNOWN`` where it is no constant."""
        if id(node) not in self.constants:
            value: object = UNKNOWN
            if not any(isinstance(inner, ast.Call) for inner in ast.walk(node)):
                value = evaluate(node, frame.module, _imported(node, frame))
            self.constants[id(node)] = value if is_known(value) else UNKNOWN
        return self.constants[id(node)]

    def test(
        self, node: ast.expr, frame: _Frame, negated: bool, depth: int = 0
    ) -> tuple[Cases, Cases]:
        """When a test (or its opposite) surely holds, and outside of what it surely does not."""
        unknown = (NEVER, ALWAYS)
        if depth > 20:
            return unknown
        name = self.field_of(node, frame)
        if name is not None:
            term = (frozenset([Term(name, "false" if negated else "true")]),)
            return term, term
        match node:
            case ast.BoolOp(op=op, values=values):
                parts = [self.test(value, frame, negated, depth + 1) for value in values]
                if isinstance(op, ast.And) != negated:
                    surely: Cases = ALWAYS
                    maybe: Cases = ALWAYS
                    for part in parts:
                        surely = both(surely, part[0], NEVER)
                        maybe = both(maybe, part[1], maybe)
                    return surely, maybe
                return (
                    either((part[0] for part in parts), NEVER),
                    either((part[1] for part in parts), ALWAYS),
                )
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return self.test(inner, frame, not negated, depth + 1)
            case ast.Compare():
                return self.comparison(node, frame, negated, depth)
            case ast.Call(func=ast.Name(id="bool"), args=[inner]):
                return self.test(inner, frame, negated, depth + 1)
            case ast.Call(
                func=ast.Name(id="getattr"),
                args=[owner, ast.Constant(value=str(attr)), ast.Constant(value=default)],
            ) if attr.startswith("_") and self.is_args(owner, frame):
                # Bookkeeping of the start itself, which is not set when it begins.
                return (ALWAYS, ALWAYS) if bool(default) != negated else (NEVER, NEVER)
            case ast.Constant(value=value):
                return (ALWAYS, ALWAYS) if bool(value) != negated else (NEVER, NEVER)
            case ast.Name(id=name) if name in frame.once:
                return self.test(frame.once[name], frame, negated, depth + 1)
        return unknown

    def comparison(
        self, node: ast.Compare, frame: _Frame, negated: bool, depth: int
    ) -> tuple[Cases, Cases]:
        if len(node.ops) > 1:
            sides = [node.left, *node.comparators]
            pairs: list[ast.expr] = [
                ast.Compare(left, [op], [right])
                for left, op, right in zip(sides, node.ops, sides[1:], strict=False)
            ]
            return self.test(ast.BoolOp(ast.And(), pairs), frame, negated, depth + 1)
        op, right = node.ops[0], node.comparators[0]
        name, other = self.field_of(node.left, frame), right
        match node.left:
            case ast.Call(func=ast.Attribute(value=inner, attr="lower"), args=[]) if (
                self.field_of(inner, frame) == "model_path"
            ):
                name = "model_path"
        if name is None:
            name, other = self.field_of(right, frame), node.left
            flipped = {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE}
            if isinstance(op, (ast.In, ast.NotIn)):
                name = None
            op = flipped.get(type(op), type(op))()
        value = self.constant(other, frame) if name is not None else UNKNOWN
        term = compare(name, op, value) if name is not None and value is not UNKNOWN else None
        if term is None:
            return NEVER, ALWAYS
        if name == "model_path" and term.op in ("==", "in") and set(term.values) <= _DUMMY:
            # A launch that serves names a real model: the tree leaves early for these two.
            return (ALWAYS, ALWAYS) if negated else (NEVER, NEVER)
        case = (frozenset([opposite(term) if negated else term]),)
        return case, case


class _Settings(ast.NodeTransformer):
    """Puts a name in the place of each setting in an expression."""

    def __init__(self, field_of: Callable[[ast.expr], str | None]) -> None:
        self.field_of = field_of
        self.found: set[str] = set()

    def expression(self, node: ast.expr) -> ast.expr:
        """A copy with the names in it."""
        made = self.visit(copy.deepcopy(node))
        return made if isinstance(made, ast.expr) else node

    @staticmethod
    def name(field_name: str) -> str:
        """A name that no text can have."""
        return f"setting {field_name}"

    def visit(self, node: ast.AST) -> ast.AST:
        found = self.field_of(node) if isinstance(node, ast.expr) else None
        if found is None:
            return self.generic_visit(node)
        self.found.add(found)
        return ast.Name(self.name(found), ast.Load())


def _imports(module: Module, function: _Function) -> _Imports:
    """The names that a function imports itself: the module and the name there."""
    return {
        alias.asname or alias.name: (module.absolute(node), alias.name)
        for node in definitions(function.body)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def _imported(node: ast.AST, frame: _Frame) -> dict[str, object]:
    """The values of the names in an expression that its function imports."""
    found: dict[str, object] = {}
    for name in ast.walk(node):
        if isinstance(name, ast.Name) and name.id in frame.imports:
            dotted, inner = frame.imports[name.id]
            module = frame.module.tree.find(dotted)
            if module is not None:
                found[name.id] = lookup(module, inner)
    return found


def _once(function: _Function) -> dict[str, ast.expr]:
    """Local names that one assignment alone gives a value."""
    found: dict[str, ast.expr] = {}
    several: set[str] = {a.arg for a in function.args.args}
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            several |= {node.id} if node.id in found else set()
            found[node.id] = ast.Constant(...)
    single = {name for name in found if name not in several}
    return {
        node.targets[0].id: node.value
        for node in definitions(function.body)
        if isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id in single
    }


def _loops(module: Module, function: _Function) -> dict[str, list[object]]:
    """What the loops over constants in a function give each variable."""
    found: dict[str, list[object]] = {}
    for node in ast.walk(function):
        if not isinstance(node, (ast.For, ast.comprehension)):
            continue
        values = members(evaluate(node.iter, module))
        targets = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
        for target in targets:
            if isinstance(target, ast.Name) and values is not None and is_known(values):
                found.setdefault(target.id, []).extend(values)
    return found


def _parameters(function: _Function, handed: Iterable[int | str], skip: int) -> set[str]:
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    keywords = {*names, *(a.arg for a in function.args.kwonlyargs)}
    found = {names[k + skip] for k in handed if isinstance(k, int) and k + skip < len(names)}
    return found | {key for key in handed if isinstance(key, str) and key in keywords}


def _lets_through(handler: ast.ExceptHandler) -> bool:
    """Whether a refusal inside still ends the start."""
    if handler.body and isinstance(handler.body[-1], ast.Raise):
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return not any(_last(kind) in _CAUGHT if kind is not None else True for kind in kinds)


def _functions(body: Sequence[ast.stmt]) -> Iterator[_Function]:
    """The functions of a module and the methods of its classes."""
    for node in definitions(body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node.body)


def _last(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
