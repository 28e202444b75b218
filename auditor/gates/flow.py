"""Walks a function's flow tree and sums up its waits, its reads and what was held at each read.

A must-analysis: a gate is held where every path to the point waited. Two readings of a test make
it useful on real code: ``if counter is not None: counter.wait(i)`` counts as the wait, since
where the counter is absent there is nothing to wait for; and a wait in a loop over the indices
counts for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from auditor.gates.events import Return, State
from auditor.gates.expressions import Expressions
from auditor.gates.values import (
    NOTHING,
    Keys,
    Path,
    Summary,
    Value,
    add_held,
    is_data,
    join_values,
)
from auditor.source import facts as f
from auditor.source.names import Function

_MOST_READS = 160


class Walk(Expressions):
    """The walk of one function: its statements, on top of what expressions stand for."""

    def run(self) -> Summary:
        """Walk the whole function and sum it up."""
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
        """Hold what a wrapper holds, in the names of the function that it wraps."""
        theirs = [p.name for p in wrapper.facts.parameters]
        mine = [p.name for p in self.function.facts.parameters]
        names = dict(zip(theirs, mine, strict=False))
        for token, keys in summary.exit_held if summary is not None else ():
            if token[0] == "self":
                own = None if keys is None else frozenset(names.get(k, k) for k in keys)
                add_held(self.state.held, token, own)
                self.state.may |= {token}

    def block(self, body: Sequence[f.Stmt]) -> None:
        """Walk statements until one leaves."""
        for stmt in body:
            if self.state.dead:
                return
            self.stmt(stmt)

    def stmt(self, stmt: f.Stmt) -> None:
        """Walk one statement."""
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
        """Give targets their value; what is put into a container of another is used."""
        if stmt.value is None:
            return
        earlier = dict(self.waits)
        value = self.expr(stmt.value)
        if isinstance(stmt.value, f.Lambda) and not any(map(_is_name, stmt.targets)):
            self.waits = earlier  # put away: whether anyone ever calls it is not known here
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

    def leave(self, stmt: f.Exit) -> None:
        """Note where a return, raise, break or continue leads."""
        value = self.expr(stmt.value) if stmt.value is not None else NOTHING
        if stmt.kind == "return":
            self.returns.append(Return(value, self.state.fork(), stmt.line))
        elif stmt.kind in ("break", "continue") and self.breaks:
            self.breaks[-1].append((stmt.kind, self.state.fork()))
        self.state.dead = True

    def loop(self, stmt: f.Loop) -> None:
        """Walk a loop: none, one and, where it carries elements on, a second round."""
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

    def attempt(self, stmt: f.Try) -> None:
        """Walk a try: what an exception leaves is known of no wait."""
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


def _is_name(target: f.Expr) -> bool:
    return isinstance(target, f.Name)


def _suppresses(context: f.Expr) -> bool:
    """``contextlib.suppress(...)``: what follows runs also where the body was left early."""
    return isinstance(context, f.Call) and f.dotted(context.func).rpartition(".")[2] == "suppress"
