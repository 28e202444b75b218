"""Settings that the tree refuses together, taken from its own ``raise`` and ``assert`` statements.

The start is followed as the tree runs it: from ``__post_init__`` through every method and hook that
is handed the settings, with the conditions on the way. Two approximations of each way are kept, one
in which it is certainly taken and one outside of which it is certainly not. A guard comes of the
first; what an earlier statement may write, of the second. What is not understood drops the guard,
since a setting that is wrongly said to be refused is worse than one that is not mentioned.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from auditor.serve.tables.constants import UNKNOWN, Module, Tree, evaluate
from auditor.serve.tables.facts import Flag, Guard, Term
from auditor.serve.tables.flags import SERVER_ARGS, Field, fields
from auditor.serve.tables.modules import definitions
from auditor.serve.tables.nodes import last_name, text_of
from auditor.serve.tables.setting_tests import Frame, FunctionNode, Imports, Refusal
from auditor.serve.tables.setting_writes import Write, Writes
from auditor.serve.tables.terms import (
    ALWAYS,
    NEVER,
    Cases,
    Conjunction,
    both,
    candidates,
    holds,
    opposite,
    possible,
    reduced,
    simplest,
    without,
)
from auditor.serve.tables.values import ClassValue, is_known, members

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
    writes: dict[str, list[Write]] = {}
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
    until: Mapping[Term, int], writes: Mapping[str, Sequence[Write]], budget: int
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


def _survives(term: Term, write: Write, left_out: Conjunction = frozenset()) -> bool:
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


class _Walk(Writes):
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

    def anywhere(self, module: Module, function: FunctionNode) -> None:
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
        function: FunctionNode,
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
        function: FunctionNode,
        args: set[str],
        owner: ClassValue | None,
        depth: int,
    ) -> Frame:
        if id(function) not in self.known:
            parts = (_imports(module, function), _once(function), _loops(module, function))
            self.known[id(function)] = parts
        return Frame(module, set(args), owner, *self.known[id(function)], depth)

    def block(
        self, body: Sequence[ast.stmt], frame: Frame, sure: Cases, may: Cases
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
        self, node: ast.stmt, frame: Frame, sure: Cases, may: Cases
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

    def branch(self, node: ast.If, frame: Frame, sure: Cases, may: Cases) -> tuple[Cases, Cases]:
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

    def refuse(self, node: ast.stmt, told: ast.expr | None, frame: Frame, when: Cases) -> None:
        if when != NEVER:
            message = " ".join(text_of(told, frame.module).split()) if told is not None else ""
            place = (frame.module.path, node.lineno, self.order)
            self.refusals.append(Refusal(when, message[:500], *place))

    # Calls

    def calls(
        self, node: ast.expr, frame: Frame, sure: Cases, may: Cases, whole: bool = False
    ) -> None:
        """Everything that is called within an expression; only the outermost call is sure."""
        if id(node) not in self.parts:
            kinds = (ast.Dict, ast.Tuple, ast.Call)
            self.parts[id(node)] = [n for n in ast.walk(node) if isinstance(n, kinds)]
        for inner in self.parts[id(node)]:
            self.declared(inner, frame, may)
            if isinstance(inner, ast.Call):
                self.call(inner, frame, sure if whole and inner is node else NEVER, may)

    def call(self, call: ast.Call, frame: Frame, sure: Cases, may: Cases) -> None:
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


def _imports(module: Module, function: FunctionNode) -> Imports:
    """The names that a function imports itself: the module and the name there."""
    return {
        alias.asname or alias.name: (module.absolute(node), alias.name)
        for node in definitions(function.body)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def _once(function: FunctionNode) -> dict[str, ast.expr]:
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


def _loops(module: Module, function: FunctionNode) -> dict[str, list[object]]:
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


def _parameters(function: FunctionNode, handed: Iterable[int | str], skip: int) -> set[str]:
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    keywords = {*names, *(a.arg for a in function.args.kwonlyargs)}
    found = {names[k + skip] for k in handed if isinstance(k, int) and k + skip < len(names)}
    return found | {key for key in handed if isinstance(key, str) and key in keywords}


def _lets_through(handler: ast.ExceptHandler) -> bool:
    """Whether a refusal inside still ends the start."""
    if handler.body and isinstance(handler.body[-1], ast.Raise):
        return True
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return not any(last_name(kind) in _CAUGHT if kind is not None else True for kind in kinds)


def _functions(body: Sequence[ast.stmt]) -> Iterator[FunctionNode]:
    """The functions of a module and the methods of its classes."""
    for node in definitions(body):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node.body)
