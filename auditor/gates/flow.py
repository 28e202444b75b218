"""Walks a function's flow tree and sums up its waits, its reads and what was held at each read.

A must-analysis: a gate is held where every path to the point waited. Two readings of a test make
it useful on real code: ``if counter is not None: counter.wait(i)`` counts as the wait, since
where the counter is absent there is nothing to wait for; and a wait in a loop over the indices
counts for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from auditor.gates.binding import bind, keys_of, paths_of, substitute
from auditor.gates.memory import SideMemory
from auditor.gates.questions import Asked, Grounds
from auditor.gates.values import (
    ELEMENT,
    FIXED,
    LOOP,
    LOOPED,
    MEMBERS,
    NO_KEYS,
    NOTHING,
    RESULT,
    SELF,
    CallSite,
    Keys,
    Path,
    Place,
    Read,
    Summary,
    Value,
    Wait,
    add_held,
    is_data,
    is_element,
    join_held,
    join_values,
)
from auditor.source import facts as f
from auditor.source.index import ClassKey, Function, SourceIndex, is_property
from auditor.vocabulary import Vocabulary, words

_DEEPEST = 14
_MOST_TARGETS = 6
_MOST_READS = 160
EVERYTHING: Path = ("*",)
"""The token of a wait for the whole device."""


@dataclass(slots=True)
class State:
    """What is known at a point of the walk; ``dead`` after an exit."""

    env: dict[str, Value] = field(default_factory=dict)
    held: dict[Path, Keys | None] = field(default_factory=dict)
    may: frozenset[Path] = frozenset()
    ordered: bool = False
    dead: bool = False

    def fork(self) -> State:
        """An independent copy."""
        return State(dict(self.env), dict(self.held), self.may, self.ordered, self.dead)

    def become(self, states: Iterable[State]) -> None:
        """Take what holds whichever of several ways was taken; dead ways do not count."""
        alive = [s for s in states if not s.dead]
        if not alive:
            self.dead = True
            return
        first, *rest = alive
        env, held = dict(first.env), dict(first.held)
        may, ordered = first.may, first.ordered
        for other in rest:
            held = join_held(held, other.held)
            may |= other.may
            ordered = ordered and other.ordered
            for name, value in other.env.items():
                mine = env.get(name)
                if mine is not value:
                    env[name] = value if mine is None else join_values((mine, value))
        self.env, self.held, self.may, self.ordered, self.dead = env, held, may, ordered, False


Types = tuple[tuple[str, frozenset[ClassKey]], ...]
"""Parameter names with the classes of what they are given."""


class Evaluator:
    """Summaries of functions, each made once for a class context."""

    def __init__(
        self,
        index: SourceIndex,
        vocabulary: Vocabulary,
        gates: frozenset[str],
        votes: Mapping[str, tuple[ClassKey, ...]],
        memory: SideMemory | None = None,
    ) -> None:
        """``votes`` are the classes that may be meant by a method name on an unknown object."""
        self.index = index
        self.votes = votes
        self.memory = memory
        self.asked = memory.ask(index, votes) if memory else Asked(index, votes, Grounds())
        self.words = vocabulary
        self.gates = gates
        self.too_deep: set[tuple[str, str]] = set()
        self._verdicts: dict[str, tuple[str, int]] = {}
        self._summaries: dict[tuple[object, ...], tuple[Summary | None, int]] = {}
        self._making: list[tuple[object, ...]] = []

    def summary(
        self, function: Function, context: ClassKey | None, types: Types = ()
    ) -> Summary | None:
        """The summary of a function on objects of a class; None while it is being made.

        ``types`` are the classes of parameters, where a caller knows more than the annotations.
        """
        key = (*function.key, context, types)
        known = self._summaries.get(key)
        if known is None:
            known = self._made(key, function, context, types)
        # One that calls itself gets the same answer whoever asks first.
        if known[0] is not None or not self._making or self._making[-1] != key:
            self.asked.rests |= known[1]
        return known[0]

    def _made(
        self, key: tuple[object, ...], function: Function, context: ClassKey | None, types: Types
    ) -> tuple[Summary | None, int]:
        """A summary and its grounds, remembered or worked out."""
        name = (*function.key, context, tuple((n, tuple(sorted(keys))) for n, keys in types))
        if self.memory is not None:
            remembered = self.memory.recall(name)
            if remembered is not None:
                self._summaries[key] = remembered
                return remembered
        if len(self._making) > _DEEPEST:
            return None, Grounds.order
        self._summaries[key] = (None, Grounds.order)
        outer, self.asked.rests = self.asked.rests, 0
        self._making.append(key)
        found: Summary | None = None
        try:
            found = _Walk(self, function, context, types).run()
        except RecursionError:
            self.too_deep.add((function.path, function.facts.qualname))
            self.asked.rests |= Grounds.order
        finally:
            self._making.pop()
        made = self._summaries[key] = (found, self.asked.rests)
        self.asked.rests = outer
        if self.memory is not None and found is not None:
            if self.index.settled and not made[1] & Grounds.order:
                self.memory.keep(name, made[1], found)
        return made

    def verdict(self, name: str) -> str:
        """The gate that most of the classes behind a vote wait on in a method; empty for none."""
        known = self._verdicts.get(name)
        if known is None:
            self._verdicts[name] = ("", Grounds.order)  # cuts recursion
            outer, self.asked.rests = self.asked.rests, 0
            known = self._verdicts[name] = (self._count(name), self.asked.rests)
            self.asked.rests = outer
        self.asked.rests |= known[1]
        return known[0]

    def _count(self, name: str) -> str:
        gates: list[str] = []
        voters = 0
        for key in self.asked.votes(name):
            method = self.asked.method(key, name)
            summary = self.summary(method, key) if method is not None else None
            if summary is None:
                continue
            voters += 1
            held = [t[-1] for t, keys in summary.exit_held if t[0] == "self" and keys]
            gates += [gate for gate in held if gate in self.gates][:1]
        return max(sorted(set(gates)), key=gates.count) if 2 * len(gates) > voters else ""

    def stores(self, name: str) -> bool:
        """Whether a callee's name says, first or last, that it writes to what it is handed."""
        verbs = self.words.write_verbs
        for part in name.split("."):
            parts = words(part)
            if parts and (self.words.verb(part) in verbs or parts[-1] in verbs):
                return True
        return False

    def tells_metadata(self, name: str) -> bool:
        """Whether a function's name says that it answers with sizes, addresses and the like."""
        parts = words(name)
        return bool(parts) and parts[-1] in self.words.metadata_words


@dataclass(slots=True)
class _Return:
    value: Value
    state: State
    line: int


class _Walk:
    def __init__(
        self,
        evaluator: Evaluator,
        function: Function,
        context: ClassKey | None,
        types: Types = (),
    ) -> None:
        self.evaluator = evaluator
        self.types = dict(types)
        self.asked = evaluator.asked
        self.words = evaluator.words
        self.function = function
        self.context = context
        self.state = State()
        self.reads: dict[Read, None] = {}
        self.waits: dict[Wait, None] = {}
        self.calls: list[CallSite] = []
        self.returns: list[_Return] = []
        self.bound: list[tuple[str, Value]] = []  # every binding of a local name, in order
        self.breaks: list[list[tuple[str, State]]] = []
        self.unused: dict[int, tuple[Function, State]] = {}
        self.alone: f.Expr | None = None  # the call that is a statement of its own
        self.nesting = 0

    # -- the function as a whole -----------------------------------------------------------------

    def run(self) -> Summary:
        self.bind_parameters()
        self.enter_decorators()
        self.block(self.function.facts.body)
        for function, state in list(self.unused.values()):
            # Handed out, not called: its body runs later, with what is held by then at least.
            self.inline(function, state.fork(), {})
        ends = [r.state for r in self.returns]
        for found in self.returns:
            self.state, live = found.state, self.state
            self.sink(found.value, "return", found.line)
            self.state = live
        if not self.state.dead:
            ends.append(self.state)
        final = State(dead=True)
        final.become(ends)
        return Summary(
            tuple(self.reads)[:_MOST_READS],
            tuple(self.waits),
            tuple(self.calls),
            tuple(sorted(final.held.items())),
            final.may,
            final.ordered,
            join_values(_guarded(r.value, r.state.held, final.held) for r in self.returns),
        )

    def bind_parameters(self) -> None:
        facts = self.function.facts
        static = "staticmethod" in facts.decorators
        for position, parameter in enumerate(facts.parameters):
            if position == 0 and self.function.owner is not None and not static:
                types = frozenset((self.context,)) if self.context else frozenset()
                self.state.env[parameter.name] = Value(frozenset((SELF,)), types=types)
                continue
            types = self.types.get(parameter.name, frozenset())
            if parameter.annotation is not None:
                types = self.asked.annotation_types(self.function, parameter.annotation)
            path = (f"param:{parameter.name}",)
            self.state.env[parameter.name] = Value(frozenset((path,)), types=types)

    def enter_decorators(self) -> None:
        """Hold what a decorator's wrapper waits on before it calls on."""
        for name in self.function.facts.decorators:
            made = self.asked.function_in(self.function, name) if name else None
            if made is None:
                continue
            for stmt in f.statements(made.facts.body):
                if isinstance(stmt, f.Define):
                    wrapper = Function(made.path, stmt.function, self.function.owner)
                    summary = self.evaluator.summary(wrapper, self.context)
                    self.hold_as(wrapper, summary)

    def hold_as(self, wrapper: Function, summary: Summary | None) -> None:
        theirs = [p.name for p in wrapper.facts.parameters]
        mine = [p.name for p in self.function.facts.parameters]
        names = dict(zip(theirs, mine, strict=False))
        for token, keys in summary.exit_held if summary is not None else ():
            if token[0] == "self":
                own = None if keys is None else frozenset(names.get(k, k) for k in keys)
                add_held(self.state.held, token, own)
                self.state.may |= {token}

    def place(self, line: int, column: int = 1) -> Place:
        return Place(self.function.path, self.function.facts.qualname, line, column)

    # -- statements ------------------------------------------------------------------------------

    def block(self, body: Sequence[f.Stmt]) -> None:
        for stmt in body:
            if self.state.dead:
                return
            self.stmt(stmt)

    def stmt(self, stmt: f.Stmt) -> None:
        match stmt:
            case f.Assign():
                self.assign(stmt)
            case f.Augment():
                self.use(self.expr(stmt.value), stmt.line)
                self.use(self.expr(stmt.target), stmt.line)
                self.store(stmt.target)
            case f.Do():
                self.alone = stmt.value
                self.expr(stmt.value, used=False)
            case f.If():
                self.expr(stmt.test)
                self.branch(
                    stmt.test, lambda: self.block(stmt.body), lambda: self.block(stmt.orelse)
                )
            case f.Loop():
                self.loop(stmt)
            case f.Try():
                self.attempt(stmt)
            case f.With():
                for context, target in stmt.items:
                    value = self.expr(context)
                    if target is not None:
                        self.bind(target, value)
                if any(_suppresses(context) for context, _ in stmt.items):
                    self.attempt(f.Try(stmt.body, ((),), (), (), stmt.line))
                else:
                    self.block(stmt.body)
            case f.Exit():
                self.leave(stmt)
            case f.Define():
                local = Function(self.function.path, stmt.function)
                self.bind_name(stmt.function.name, Value(local=local))
                self.unused[stmt.function.line] = (local, self.state.fork())
            case f.Import():
                self.state.env.pop(stmt.name, None)

    def assign(self, stmt: f.Assign) -> None:
        if stmt.value is None:
            return
        value = self.expr(stmt.value)
        for target in stmt.targets:
            if isinstance(target, f.Sub):
                # The elements end up in another container or buffer: a use, unless that container
                # is a local one that only collects aliases.
                holder = self.expr(target.value)
                if holder.paths:
                    self.use(value, stmt.line)
                elif isinstance(target.value, f.Name):
                    name = target.value.id
                    merged = join_values((self.state.env.get(name, NOTHING), value))
                    self.state.env[name] = merged
                self.store(target)
            else:
                self.bind(target, value)

    def bind(self, target: f.Expr, value: Value) -> None:
        if isinstance(target, f.Name):
            self.bind_name(target.id, value)
        elif isinstance(target, f.Group) and target.op in ("tuple", "list", "star"):
            known = len(value.parts) == len(target.parts)
            for position, part in enumerate(target.parts):
                inner = value.parts[position] if known else self.member(value, NO_KEYS)
                self.bind(part, inner)
        elif isinstance(target, f.Sub):
            self.store(target)

    def store(self, target: f.Expr) -> None:
        """Evaluate a target: what it stands on is written to, its indices are read."""
        if isinstance(target, f.Sub):
            self.expr(target.index)
            self.sink(self.expr(target.value), "store", target.line)
        elif isinstance(target, f.Attr):
            self.expr(target.value)
        elif isinstance(target, f.Call):
            self.expr(target)
        elif isinstance(target, f.Group):
            for part in target.parts:
                self.store(part)

    def leave(self, stmt: f.Exit) -> None:
        value = self.expr(stmt.value) if stmt.value is not None else NOTHING
        if stmt.kind == "return":
            self.returns.append(_Return(value, self.state.fork(), stmt.line))
        elif stmt.kind in ("break", "continue") and self.breaks:
            self.breaks[-1].append((stmt.kind, self.state.fork()))
        self.state.dead = True

    def branch(
        self, test: f.Expr, body: Callable[[], object], orelse: Callable[[], object]
    ) -> None:
        """Walk both ways on from a test that has been evaluated."""
        before = self.state
        absent_if, absent_else = self.absent(test)
        yes, no = before.fork(), before.fork()
        for token in absent_if:
            yes.held[token] = None
        for token in absent_else:
            no.held[token] = None
        self.state = yes
        body()
        yes = self.state
        self.settle_optional(test, before, yes, no)
        self.state = no
        orelse()
        no = self.state
        conditional = self.switched(test, before, yes, no)
        before.become((yes, no))
        if not before.dead:
            for token, keys in conditional:
                add_held(before.held, token, keys)
        self.state = before

    def switched(
        self, test: f.Expr, before: State, yes: State, no: State
    ) -> list[tuple[Path, Keys | None]]:
        """Waits that a parameter switches: ``if wait: …`` holds where the caller says so."""
        if not isinstance(test, f.Name) or yes.dead or no.dead:
            return []
        roots = [p[0] for p in self.peek(test) if len(p) == 1 and p[0].startswith("param:")]
        if len(roots) != 1:
            return []
        switch = "?" + roots[0].removeprefix("param:")
        gained = [(t, k) for t, k in yes.held.items() if t not in no.held and t in yes.may]
        return [((switch, *t), k) for t, k in gained if not t[0].startswith("?")]

    def settle_optional(self, test: f.Expr, before: State, yes: State, no: State) -> None:
        """Count ``if gate is not None and index is not None: gate.wait(index)`` as the wait."""
        for token, keys in yes.held.items():
            if token in before.held and before.held[token] == keys:
                continue
            if all(self.concerns(part, token, keys) for part in _conjuncts(test)):
                no.held.setdefault(token, keys)

    def concerns(self, test: f.Expr, token: Path, keys: Keys | None) -> bool:
        """Whether a test asks only about the gate itself, or whether its index was given."""
        paths: set[Path] = set()
        for node in f.walk(test):
            if isinstance(node, f.Name | f.Attr):
                paths |= self.peek(node)
        paths = {p for p in paths if not any(len(q) > len(p) and q[: len(p)] == p for q in paths)}
        if not paths:
            return False
        presence = bool(self.absent(test)[1])
        explicit = isinstance(test, f.Group) and test.op in ("is not", "!=")
        for path in paths:
            about_gate = path[: len(token)] == token or token[: len(path)] == path
            index_given = (
                explicit
                and keys is not None
                and path[0].startswith("param:")
                and path[0].removeprefix("param:") in keys
            )
            if not (about_gate and (presence or len(path) > len(token))) and not index_given:
                return False
        return True

    def absent(self, test: f.Expr) -> tuple[frozenset[Path], frozenset[Path]]:
        """The objects known to be missing where a test holds, and where it does not."""
        nothing: frozenset[Path] = frozenset()
        if isinstance(test, f.Group):
            if test.op == "not":
                return self.absent(test.parts[0])[::-1]
            if test.op in ("and", "or"):
                pairs = [self.absent(part) for part in test.parts]
                union = (
                    nothing.union(*(p[0] for p in pairs)),
                    nothing.union(*(p[1] for p in pairs)),
                )
                common = (
                    frozenset.intersection(*(p[0] for p in pairs)),
                    frozenset.intersection(*(p[1] for p in pairs)),
                )
                return (union[0], common[1]) if test.op == "and" else (common[0], union[1])
            if test.op in ("is", "==", "is not", "!=") and test.parts[1] == f.Const("none"):
                paths = self.peek(test.parts[0])
                return (paths, nothing) if test.op in ("is", "==") else (nothing, paths)
            return nothing, nothing
        if isinstance(test, f.Call) and isinstance(test.func, f.Name):
            if test.func.id == "hasattr" and len(test.args) == 2:
                name = test.args[1]
                if isinstance(name, f.Const) and name.kind == "str":
                    owner = self.peek(test.args[0])
                    return nothing, frozenset((*p, name.text) for p in owner)
            return nothing, nothing
        inner = self.absent_by_property(test)
        return inner if inner is not None else (nothing, self.peek(test))

    def absent_by_property(self, test: f.Expr) -> tuple[frozenset[Path], frozenset[Path]] | None:
        """The same of a property, or a method without arguments, that only answers a test."""
        access = test
        if isinstance(test, f.Call) and not test.args and not test.keywords:
            access = test.func
        if not isinstance(access, f.Attr):
            return None
        owners = self.peek(access.value)
        for key in sorted(self.path_types(owners)):
            found = self.asked.method(key, access.name)
            if found is None or (access is test and not is_property(found.facts)):
                continue
            body = found.facts.body
            if len(body) == 1 and isinstance(body[0], f.Exit) and body[0].value is not None:
                walk = _Walk(self.evaluator, found, key)
                walk.bind_parameters()
                return _rebased(walk.absent(body[0].value), owners)
        return None

    def peek(self, expr: f.Expr) -> frozenset[Path]:
        """The paths of a plain access expression, without evaluating anything."""
        if isinstance(expr, f.Bind):
            return self.peek(expr.value)
        if isinstance(expr, f.Name):
            return self.state.env.get(expr.id, NOTHING).paths
        if isinstance(expr, f.Attr):
            return frozenset((*p, expr.name) for p in self.peek(expr.value))
        if isinstance(expr, f.Call) and isinstance(expr.func, f.Name) and expr.func.id == "getattr":
            name = expr.args[1] if len(expr.args) > 1 else None
            if isinstance(name, f.Const) and name.kind == "str":
                return frozenset((*p, name.text) for p in self.peek(expr.args[0]))
        return frozenset()

    def loop(self, stmt: f.Loop) -> None:
        source = self.expr(stmt.source)
        before = self.state
        left: list[tuple[str, State]] = []
        inside = self.once(stmt, source, before.fork(), left)
        if self.carries(before, inside):
            again = State(dead=True)
            again.become([before.fork(), inside])
            inside = self.once(stmt, source, again, left)
        if stmt.target is None and _always(stmt.source):
            before.become([state for kind, state in left if kind == "break"])
            self.state = before
            return
        ran = [inside, *(state for kind, state in left if kind == "continue")]
        broken = [state for kind, state in left if kind == "break"]
        gained = State(dead=True)
        gained.become([*ran, *broken])
        self.state = State(dead=True)
        self.state.become([before.fork(), *ran])
        if not self.state.dead:
            self.block(stmt.orelse)
        before.become([self.state, *broken])
        self.state = before
        if not gained.dead:
            self.settle_loop(before, gained)

    def once(
        self, stmt: f.Loop, source: Value, state: State, left: list[tuple[str, State]]
    ) -> State:
        """Walk a loop's body once; breaks and continues are added to ``left``."""
        self.state = state
        if stmt.target is not None:
            self.bind(stmt.target, self.iterate(stmt.source, source))
        self.breaks.append(left)
        self.block(stmt.body)
        self.breaks.pop()
        return self.state

    def carries(self, before: State, after: State) -> bool:
        """Whether a body binds a name to a buffer's elements that its next round may use."""
        return not after.dead and any(
            name in before.env and value != before.env[name] and any(map(is_data, value.paths))
            for name, value in after.env.items()
        )

    def iterate(self, source: f.Expr, value: Value) -> Value:
        """What a loop variable stands for."""
        if isinstance(source, f.Call) and isinstance(source.func, f.Name) and source.args:
            if source.func.id == "range":  # its bounds do not choose among the members
                return Value(deps=frozenset((LOOP,)))
            if source.func.id == "enumerate":
                inner = self.member(self.expr(source.args[0]), frozenset((LOOP,)))
                return Value(parts=(Value(deps=frozenset((LOOP,))), inner))
            if source.func.id == "zip":
                loop = frozenset((LOOP,))
                return Value(parts=tuple(self.member(self.expr(a), loop) for a in source.args))
        return self.member(value, frozenset((LOOP,)))

    def member(self, value: Value, keys: Keys, step: str = ELEMENT) -> Value:
        """A member of a container."""
        if value.parts:
            inner = join_values(value.parts)
            return msgspec.structs.replace(inner, deps=inner.deps | keys)
        looped = step == ELEMENT and keys == {LOOP}
        return value.step(LOOPED if looped else step, value.types, keys)

    def attempt(self, stmt: f.Try) -> None:
        before = self.state.fork()
        earlier, first = len(self.returns), len(self.bound)
        self.block(stmt.body)
        caught = self.left_early(before, first)
        self.block(stmt.orelse)
        ends = [self.state]
        for handler in stmt.handlers:
            self.state = caught.fork()
            self.block(handler)
            ends.append(self.state)
        after = State(dead=True)
        after.become(ends)
        if stmt.final:
            for found in self.returns[earlier:]:
                self.state = found.state
                self.block(stmt.final)
                found.state.dead = False
            self.state = self.left_early(before, first)
            self.block(stmt.final)
            self.state = after
            if not after.dead:
                self.block(stmt.final)
        self.state = after

    def left_early(self, before: State, first: int) -> State:
        """What an exception leaves: no wait is sure, any binding may have been made.

        ``first`` is the number of bindings made before.
        """
        state = before.fork()
        for name, value in self.bound[first:]:
            state.env[name] = join_values((state.env.get(name, value), value))
        return state

    def bind_name(self, name: str, value: Value) -> None:
        self.state.env[name] = value
        self.bound.append((name, value))

    # -- expressions -----------------------------------------------------------------------------

    def expr(self, expr: f.Expr, used: bool = True) -> Value:
        if isinstance(expr, f.Name):
            return self.name(expr.id)
        if isinstance(expr, f.Call):
            return self.call(expr, used)
        return _EVALUATE[type(expr)](self, expr)

    def _attribute(self, expr: f.Attr) -> Value:
        return self.attribute(self.expr(expr.value), expr.name, expr.line, expr.column)

    def _choice(self, expr: f.Choice) -> Value:
        results: list[Value] = []
        self.expr(expr.test)
        self.branch(
            expr.test,
            lambda: results.append(self.expr(expr.body)),
            lambda: results.append(self.expr(expr.orelse)),
        )
        return join_values(results)

    def _bound(self, expr: f.Bind) -> Value:
        value = self.expr(expr.value)
        self.bind_name(expr.target, value)
        return value

    def _lambda(self, expr: f.Lambda) -> Value:
        live = self.state
        self.state = live.fork()  # it runs later, if at all: what it waits on is not waited on here
        for name in expr.parameters:
            self.state.env[name] = Value(frozenset(((f"local:{name}",),)))
        self.expr(expr.body)
        self.state = live
        return NOTHING

    def _constant(self, expr: f.Const) -> Value:
        off = expr.kind == "none" or (expr.kind == "bool" and expr.text == "False")
        return Value(text=expr.text, none=off) if off or expr.text else NOTHING

    def name(self, name: str) -> Value:
        found = self.state.env.get(name)
        if found is not None:
            return found
        return Value(frozenset(((f"global:{name}",),)))

    def attribute(self, value: Value, name: str, line: int, column: int) -> Value:
        if name in self.words.metadata_attributes and any(map(is_data, value.paths)):
            return Value(deps=value.keys)
        types: set[ClassKey] = set()
        results: list[Value] = []
        for key in sorted(value.types):
            held, found = self.asked.attribute(key, name)
            types |= held
            if found is not None:
                results.append(self.invoke(found, key, value, (), (), line, column))
        if results:
            return join_values(results)
        stepped = value.step(name, frozenset(types))
        return stepped if value.origin is not None else stepped.at(self.place(line, column))

    def subscript(self, expr: f.Sub) -> Value:
        value = self.expr(expr.value)
        index = self.expr(expr.index)
        if value.parts and isinstance(expr.index, f.Const) and expr.index.text.isdigit():
            position = int(expr.index.text)
            if position < len(value.parts):
                return value.parts[position]
        fixed = isinstance(expr.index, f.Const) and expr.index.kind in ("int", "str")
        found = self.member(value, index.keys, FIXED if fixed else ELEMENT)
        if any(map(is_element, value.paths)) or value.parts:
            return found  # a part of an element that was taken before
        return found.at(self.place(expr.line, expr.column))

    def group(self, expr: f.Group) -> Value:
        if expr.op in ("and", "or") and len(expr.parts) > 1:
            first, rest = expr.parts[0], f.Group(expr.op, expr.parts[1:])
            test = first if expr.op == "and" else f.Group("not", (first,))
            results = [self.expr(first)]
            self.branch(test, lambda: results.append(self.expr(rest)), lambda: None)
            return join_values(results)
        values = [self.expr(part) for part in expr.parts]
        if expr.op in ("tuple", "list"):
            return Value(parts=tuple(values))
        if expr.op in ("and", "or", "await", "star"):
            return values[0] if values else NOTHING
        if expr.op == "dict":
            return join_values(values)
        if expr.op == "value":  # comparisons are made of bookkeeping, not of buffers
            for value in values:
                if any(map(is_element, value.paths)):
                    self.use(value, value.line)
        return Value(deps=NO_KEYS.union(*(v.keys for v in values)))

    def comprehension(self, expr: f.Comp) -> Value:
        live = self.state
        self.state = live.fork()
        for target, source in expr.generators:
            self.bind(target, self.iterate(source, self.expr(source)))
        for test in expr.tests:
            self.expr(test)
        element = self.expr(expr.element)
        self.settle_loop(live, self.state)
        self.state = live
        return Value(parts=(element,)) if element != NOTHING else NOTHING

    def settle_loop(self, before: State, after: State) -> None:
        """Keep what a loop's body waited on: for all indices where it waited for its own."""
        before.may |= after.may
        for token, keys in after.held.items():
            if keys is not None and LOOP in keys and token not in before.held:
                before.held[token] = None

    # -- calls -----------------------------------------------------------------------------------

    def call(self, expr: f.Call, used: bool) -> Value:
        func = expr.func
        if isinstance(func, f.Call) and isinstance(func.func, f.Name) and func.func.id == "super":
            func = f.Name("super")
        if isinstance(func, f.Attr) and _is_super(func.value):
            return self.super_call(func.name, expr)
        if isinstance(func, f.Name):
            special = self.builtin(func.id, expr)
            if special is not None:
                return special
            callee = self.state.env.get(func.id)
            if callee is None or callee.types or (not callee.paths and callee.local is None):
                return self.named_call(func.id, expr)
            if callee.local is not None:
                arguments, keywords = self.arguments(expr)
                return self.local_call(callee.local, arguments, keywords)
            return self.bound_call(callee, expr, used)
        if isinstance(func, f.Attr):
            return self.method_call(func, expr, used)
        callee = self.expr(func)  # kernel[grid](…), factory(…)(…)
        arguments, keywords = self.arguments(expr)
        name = f.dotted(func.value) if isinstance(func, f.Sub) else ""
        return self.opaque(name, callee, arguments, keywords, expr)

    def arguments(self, expr: f.Call) -> tuple[tuple[Value, ...], tuple[tuple[str, Value], ...]]:
        positional = tuple(self.expr(a) for a in expr.args)
        return positional, tuple((name, self.expr(v)) for name, v in expr.keywords)

    def builtin(self, name: str, expr: f.Call) -> Value | None:
        if name in self.state.env:
            return None
        if name == "getattr" and len(expr.args) >= 2:
            value, key = self.expr(expr.args[0]), self.expr(expr.args[1])
            if key.text:
                return self.attribute(value, key.text, expr.line, expr.column)
            return value.step(ELEMENT, frozenset(), key.keys).at(self.place(expr.line, expr.column))
        if name == "vars" and expr.args:
            return self.expr(expr.args[0])
        if name in self.words.element_functions:
            values = [self.expr(a) for a in expr.args]
            if name == "next" and values:
                return self.member(values[0], NO_KEYS)
            return join_values(values)
        if name in self.words.metadata_functions:
            values = [self.expr(a) for a in expr.args]
            return Value(deps=NO_KEYS.union(*(v.keys for v in values)))
        return None

    def named_call(self, name: str, expr: f.Call) -> Value:
        arguments, keywords = self.arguments(expr)
        made = self.asked.class_in(self.function, name)
        if made is not None:
            for value in (*arguments, *(v for _, v in keywords)):
                self.use(value, expr.line)
            return Value(types=frozenset((made,)))
        known = self.asked.function_in(self.function, name)
        if known is not None and not self.evaluator.stores(name):
            if self.evaluator.tells_metadata(name):
                return Value(deps=_keys_of(arguments, keywords))
            summary = self.summary_of(known, arguments, keywords)
            if summary is not None:
                return self.apply(summary, known, NOTHING, arguments, keywords, expr)
        return self.opaque(name, NOTHING, arguments, keywords, expr)

    def summary_of(
        self,
        function: Function,
        arguments: tuple[Value, ...],
        keywords: tuple[tuple[str, Value], ...],
    ) -> Summary | None:
        """The summary of a free function; handed ``self``, it knows of which class that is."""
        binding = bind(function, NOTHING, arguments, keywords)
        types: list[tuple[str, frozenset[ClassKey]]] = []
        for parameter in function.facts.parameters:
            value = binding.get(f"param:{parameter.name}", NOTHING)
            if parameter.annotation is None and value.paths == {SELF} and value.types:
                types.append((parameter.name, value.types))
        return self.evaluator.summary(function, None, tuple(types))

    def super_call(self, name: str, expr: f.Call) -> Value:
        arguments, keywords = self.arguments(expr)
        receiver = Value(
            frozenset((SELF,)), types=frozenset((self.context,) if self.context else ())
        )
        owner = self.function.owner
        if self.context is None or owner is None:
            return NOTHING
        found = self.asked.method(self.context, name, after=owner)
        if found is None:
            return self.opaque(name, NOTHING, arguments, keywords, expr)
        return self.invoke(
            found, self.context, receiver, arguments, keywords, expr.line, expr.column
        )

    def bound_call(self, callee: Value, expr: f.Call, used: bool) -> Value:
        """A call through a local that holds ``object.method``."""
        arguments, keywords = self.arguments(expr)
        by_name: dict[str, set[Path]] = {}
        for path in callee.paths:
            if len(path) > 1 and path[-1] not in MEMBERS and not path[-1].endswith(RESULT):
                by_name.setdefault(path[-1], set()).add(path[:-1])
        for name, receivers in sorted(by_name.items()):
            types = self.path_types(receivers)
            receiver = Value(frozenset(receivers), types=types)
            self.note_call(receiver, name, arguments, keywords, expr, used)
            result = self.dispatch(receiver, name, arguments, keywords, expr)
            if result is not None:
                return result
        return self.opaque(next(iter(sorted(by_name)), ""), callee, arguments, keywords, expr)

    def path_types(self, paths: Iterable[Path]) -> frozenset[ClassKey]:
        found: set[ClassKey] = set()
        for path in paths:
            types: frozenset[ClassKey] = frozenset()
            if path[0] == "self" and self.context is not None:
                types = frozenset((self.context,))
            for step in path[1:]:
                if step not in MEMBERS and not step.endswith(RESULT):
                    types = frozenset().union(
                        *(self.asked.attribute(key, step)[0] for key in types)
                    )
            found |= types
        return frozenset(found)

    def method_call(self, func: f.Attr, expr: f.Call, used: bool) -> Value:
        name = func.name
        receiver = self.expr(func.value)
        arguments, keywords = self.arguments(expr)
        element = any(map(is_data, receiver.paths)) and not receiver.types
        dotted = f.dotted(func)
        if element and name in self.words.metadata_methods:
            return Value(deps=receiver.keys)
        if element and name in self.words.view_methods:
            return receiver  # a view says how the memory is seen, not which member it is
        if element and name in self.words.store_methods:
            for value in (*arguments, *(v for _, v in keywords)):
                self.use(value, expr.line)
            self.sink(receiver, "store", expr.line)
            return receiver
        kind = self.words.primitive_waits.get(name)
        if kind is not None and not receiver.parts:
            self.wait(name, receiver, arguments, keywords, expr)
            return NOTHING
        self.note_call(receiver, name, arguments, keywords, expr, used)
        known = self.dispatch(receiver, name, arguments, keywords, expr)
        if known is not None:
            return known
        if dotted and not receiver.types and dotted.partition(".")[0] not in self.state.env:
            known_function = self.asked.function_in(self.function, dotted)
            made = self.asked.class_in(self.function, dotted) if name[:1].isupper() else None
            if made is not None:
                return Value(types=frozenset((made,)))
            if known_function is not None and not self.evaluator.stores(dotted):
                summary = self.summary_of(known_function, arguments, keywords)
                if summary is not None:
                    return self.apply(summary, known_function, NOTHING, arguments, keywords, expr)
        if element:
            self.use(receiver, receiver.line)
        return self.opaque(dotted or f".{name}", receiver, arguments, keywords, expr)

    def dispatch(
        self,
        receiver: Value,
        name: str,
        arguments: tuple[Value, ...],
        keywords: tuple[tuple[str, Value], ...],
        expr: f.Call,
    ) -> Value | None:
        """The call on every class that the receiver can be; None where none is known."""
        targets: dict[tuple[object, ...], tuple[Function, ClassKey]] = {}
        for key in sorted(receiver.types):
            found = self.asked.method(key, name)
            if found is not None:
                place = (*found.key, key)
                targets[place] = (found, key)
        if not targets:
            nested = self.nested_class(receiver, name)
            if nested is not None:
                return Value(types=frozenset((nested,)))
            if receiver.types and name in _TAKING:
                return self.member(receiver, _keys_of(arguments, keywords))
            return self.vote(receiver, name, arguments, keywords, expr)
        before = self.state
        states: list[State] = []
        results: list[Value] = []
        for function, key in list(targets.values())[:_MOST_TARGETS]:
            self.state = before.fork()
            results.append(
                self.invoke(function, key, receiver, arguments, keywords, expr.line, expr.column)
            )
            states.append(self.state)
        before.become(states)
        self.state = before
        return join_values(results)

    def vote(
        self,
        receiver: Value,
        name: str,
        arguments: tuple[Value, ...],
        keywords: tuple[tuple[str, Value], ...],
        expr: f.Call,
    ) -> Value | None:
        """A method known by name only: what most classes that define it do."""
        tracked = any(len(p) > 1 or p[0].startswith("param:") for p in receiver.paths)
        if receiver.types or not tracked or not self.asked.votes(name):
            return None
        gate = self.evaluator.verdict(name)
        keys = _keys_of(arguments, keywords)
        if gate:
            for path in sorted(receiver.paths):
                token = (*path, gate)
                add_held(self.state.held, token, keys or None)
                self.state.may |= {token}
                self.waits[Wait(token, keys, "believed", expr.line, self.place(expr.line))] = None
        place = self.place(expr.line, expr.column)
        return receiver.step(name + RESULT, frozenset(), keys).at(place)

    def nested_class(self, receiver: Value, name: str) -> ClassKey | None:
        for key in sorted(receiver.types):
            nested = self.asked.nested(key, name)
            if nested is not None:
                return nested
        return None

    def invoke(
        self,
        function: Function,
        context: ClassKey,
        receiver: Value,
        arguments: tuple[Value, ...],
        keywords: tuple[tuple[str, Value], ...],
        line: int,
        column: int,
    ) -> Value:
        """Apply a method's summary at a call, or treat it as unknown where there is none."""
        place = f.Call(f.Name(function.facts.name), (), (), line, column)
        if self.evaluator.tells_metadata(function.facts.name):
            return Value(deps=_keys_of(arguments, keywords))
        summary = self.evaluator.summary(function, context)
        if (
            summary is None
            or _is_abstract(function.facts)
            or (self.evaluator.stores(function.facts.name) and not _only_waits(summary))
        ):
            return self.opaque(function.facts.name, receiver, arguments, keywords, place)
        return self.apply(summary, function, receiver, arguments, keywords, place)

    def apply(
        self,
        summary: Summary,
        function: Function,
        receiver: Value,
        arguments: tuple[Value, ...],
        keywords: tuple[tuple[str, Value], ...],
        expr: f.Call,
    ) -> Value:
        binding = bind(function, receiver, arguments, keywords)
        state = self.state
        for read in summary.reads:
            if read.use == "return":
                continue
            held = dict(state.held)
            for token, keys in read.held:
                for path in paths_of(token, binding):
                    add_held(held, path, keys_of(keys, binding))
            may = state.may | {q for p in read.may for q in paths_of(p, binding)}
            given = binding.get(read.path[0], NOTHING).deps
            for path in paths_of(read.path, binding):
                if not is_data(path):
                    continue
                self.note_read(
                    Read(
                        path,
                        given | (keys_of(read.keys, binding) or NO_KEYS),
                        tuple(sorted(held.items())),
                        frozenset(may),
                        read.use,
                        expr.line,
                        expr.column,
                        read.origin,
                        state.ordered or read.ordered,
                    )
                )
        for wait in summary.waits:
            for path in paths_of(wait.token, binding):
                keys = keys_of(wait.keys, binding) or NO_KEYS
                self.waits[Wait(path, keys, wait.kind, expr.line, wait.origin)] = None
        for token, keys in summary.exit_held:
            for path in paths_of(token, binding):
                add_held(state.held, path, keys_of(keys, binding))
        state.may |= {q for p in summary.exit_may for q in paths_of(p, binding)}
        state.ordered = state.ordered or summary.exit_ordered
        return substitute(summary.result, binding, expr.line, expr.column)

    def wait(
        self,
        name: str,
        receiver: Value,
        arguments: tuple[Value, ...],
        keywords: tuple[tuple[str, Value], ...],
        expr: f.Call,
    ) -> None:
        kind: str = self.words.primitive_waits[name]
        keys = _keys_of(arguments, keywords)
        given = bool(arguments or keywords)
        if self.words.may_take_index(name) and arguments and not _names_time(keywords) and keys:
            kind = "keyed"  # tracker.wait(layer): the index says for what
        if kind == "keyed":
            for token in sorted(receiver.paths):
                add_held(self.state.held, token, keys or None)
                self.state.may |= {token}
                self.waits[Wait(token, keys, kind, expr.line, self.place(expr.line))] = None
            return
        if kind == "device" and not given and all(_is_module(p) for p in receiver.paths):
            self.state.held[EVERYTHING] = None
        self.state.ordered = True
        waited = [*receiver.paths, *(p for a in arguments for p in a.paths)]
        for token in sorted(set(waited)):
            self.waits[Wait(token, keys, kind, expr.line, self.place(expr.line))] = None

    def local_call(
        self,
        function: Function,
        arguments: tuple[Value, ...],
        keywords: tuple[tuple[str, Value], ...],
    ) -> Value:
        self.unused.pop(function.facts.line, None)
        if self.nesting > 40:
            return NOTHING
        binding = bind(function, NOTHING, arguments, keywords)
        results, state = self.inline(function, self.state.fork(), binding)
        saved = self.state.env
        self.state.become([state])
        self.state.env, self.state.dead = saved, False
        return join_values(results)

    def inline(
        self, function: Function, state: State, binding: dict[str, Value]
    ) -> tuple[list[Value], State]:
        """Walk a nested function's body in place; its returns stay its own."""
        self.nesting += 8
        live, outer, bound = self.state, self.returns, self.bound
        self.state, self.returns, self.bound = state, [], []
        for parameter in function.facts.parameters:
            unknown = Value(frozenset(((f"local:{parameter.name}",),)))
            state.env[parameter.name] = binding.get(f"param:{parameter.name}", unknown)
        self.block(function.facts.body)
        own, self.returns, self.bound = self.returns, outer, bound
        end = State(dead=True)
        end.become([self.state, *(r.state for r in own)])
        self.state = live
        self.nesting -= 8
        return [r.value for r in own], end

    def opaque(
        self,
        name: str,
        receiver: Value,
        arguments: tuple[Value, ...],
        keywords: tuple[tuple[str, Value], ...],
        expr: f.Call,
    ) -> Value:
        """A call whose body is not known: what it is handed is read, unless its name says store."""
        deps = _keys_of(arguments, keywords)
        metadata = self.evaluator.tells_metadata(name.rpartition(".")[2]) if name else False
        if not metadata:
            stores = bool(name) and self.evaluator.stores(name)
            # ``rows.append(row)`` keeps its argument; ``store_rows(buffer, row)`` writes to it.
            method = "." in name and not (receiver.paths and all(map(_is_module, receiver.paths)))
            keeps = method and len(words(name.rpartition(".")[2])) == 1
            stored = "store" if stores and not keeps else "read"
            handed = (expr.line, expr.column) if expr is self.alone else None
            for value in arguments:
                self.sink(value, stored, expr.line, handed)
            for keyword, value in keywords:
                destination = set(words(keyword)) & self.words.destination_words
                self.sink(value, "store" if destination else stored, expr.line, handed)
        if metadata:
            return Value(deps=deps | receiver.keys)
        step = name.rpartition(".")[2] + RESULT
        place = self.place(expr.line, expr.column)
        # What an element is asked for does not change which element it is.
        chosen = receiver.deps if any(map(is_element, receiver.paths)) else NO_KEYS
        result = receiver.step(step, frozenset(), NO_KEYS if chosen else deps)
        if not any(map(is_element, receiver.paths)):
            result = result.at(place)
        if not receiver.paths:
            named = frozenset(((f"global:{name}", step),)) if name else frozenset()
            result = Value(named, deps).at(place)
        return result

    # -- events ----------------------------------------------------------------------------------

    def note_call(
        self,
        receiver: Value,
        name: str,
        arguments: tuple[Value, ...],
        keywords: tuple[tuple[str, Value], ...],
        expr: f.Call,
        used: bool,
    ) -> None:
        if receiver.paths:
            self.calls.append(
                CallSite(
                    receiver.paths,
                    name,
                    receiver.types,
                    arguments,
                    keywords,
                    tuple(sorted(self.state.held.items())),
                    self.state.may,
                    used,
                    expr.line,
                    expr.column,
                )
            )

    def use(self, value: Value, line: int) -> None:
        """The elements of a value are consumed here."""
        self.sink(value, "read", line)

    def sink(
        self, value: Value, use: str, line: int, handed: tuple[int, int] | None = None
    ) -> None:
        for part in value.parts:
            self.sink(part, use, line, handed)
        for path in sorted(value.paths):
            if not is_data(path):
                continue
            where = value.line or line
            held = dict(self.state.held)
            for token, keys in value.guard(path):
                add_held(held, token, keys)
            self.note_read(
                Read(
                    path,
                    value.deps,
                    tuple(sorted(held.items())),
                    self.state.may,
                    use,
                    where,
                    value.column,
                    value.origin or self.place(where, value.column),
                    self.state.ordered,
                    handed,
                )
            )

    def note_read(self, read: Read) -> None:
        self.reads[read] = None


def _rebased(
    pair: tuple[frozenset[Path], frozenset[Path]], owners: frozenset[Path]
) -> tuple[frozenset[Path], frozenset[Path]]:
    """Paths from self as paths from each owner."""

    def moved(paths: frozenset[Path]) -> frozenset[Path]:
        return frozenset((*o, *p[1:]) for p in paths if p[0] == "self" for o in owners)

    return moved(pair[0]), moved(pair[1])


def _guarded(
    value: Value, held: Mapping[Path, Keys | None], final: Mapping[Path, Keys | None]
) -> Value:
    """A returned value with the gates of its own way out, where others do not hold them."""
    extra = tuple(sorted((t, k) for t, k in held.items() if t not in final))
    if not extra or not (value.paths or value.parts):
        return value
    guards = dict(value.guards)
    for path in value.paths:
        guards[path] = tuple(sorted({**dict(guards.get(path, ())), **dict(extra)}.items()))
    parts = tuple(_guarded(part, held, final) for part in value.parts)
    return msgspec.structs.replace(value, guards=tuple(sorted(guards.items())), parts=parts)


def _always(test: f.Expr) -> bool:
    return isinstance(test, f.Const) and test.text not in ("False", "0", "") and test.kind != "none"


def _is_super(expr: f.Expr) -> bool:
    return isinstance(expr, f.Call) and expr.func == f.Name("super")


_EVALUATE: dict[type, Callable[[_Walk, Any], Value]] = {
    f.Attr: _Walk._attribute,
    f.Sub: _Walk.subscript,
    f.Group: _Walk.group,
    f.Choice: _Walk._choice,
    f.Comp: _Walk.comprehension,
    f.Bind: _Walk._bound,
    f.Lambda: _Walk._lambda,
    f.Const: _Walk._constant,
}


def _conjuncts(test: f.Expr) -> tuple[f.Expr, ...]:
    if isinstance(test, f.Group) and test.op == "and":
        return tuple(c for part in test.parts for c in _conjuncts(part))
    return (test,)


def _keys_of(arguments: Sequence[Value], keywords: Sequence[tuple[str, Value]]) -> Keys:
    return NO_KEYS.union(*(v.keys for v in arguments), *(v.keys for _, v in keywords))


def _names_time(keywords: Sequence[tuple[str, Value]]) -> bool:
    return any("timeout" in words(name) for name, _ in keywords)


def _is_module(path: Path) -> bool:
    return path[0].startswith("global:")


def _is_abstract(facts: f.FunctionFacts) -> bool:
    """Whether a body only refuses: what is handed to it is read by some override."""
    refusing = all(isinstance(s, f.Exit) and s.kind == "raise" for s in facts.body)
    return refusing and (bool(facts.body) or "abstractmethod" in ".".join(facts.decorators))


_TAKING = ("get", "pop", "values", "setdefault")
"""Methods of a mapping that hand out what it holds."""


def _only_waits(summary: Summary) -> bool:
    return bool(summary.exit_held) and not summary.reads


def _suppresses(context: f.Expr) -> bool:
    """``contextlib.suppress(...)``: what follows runs also where the body was left early."""
    return isinstance(context, f.Call) and f.dotted(context.func).rpartition(".")[2] == "suppress"
