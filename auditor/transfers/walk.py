"""Walks a transfer: is what it started done wherever it returns, frees or acknowledges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from auditor.source import facts as f
from auditor.streams.flow import Context, Walk
from auditor.streams.identity import Keys, Scope
from auditor.streams.ways import Way, joined
from auditor.streams.words import called
from auditor.transfers.words import (
    asks_for_device,
    ends,
    joins_at_its_end,
    left_to_callers,
    lets_go,
    says_it_ends,
    starts_by_name,
    starts_visibly,
    stores_rows,
)
from auditor.vocabulary import Vocabulary

_DONE = "<done>"
"""Held on a way on which nothing is under way."""
_ALL = frozenset((_DONE,))

Effect = Literal["starts", "starts visibly", "ends", "none"]
"""What a function that is called leaves behind it: copies under way, or nothing that ever was."""
Ask = Callable[[f.Call], "Effect | None"]
"""What a call does, by looking at the function; None where that is not known."""


@dataclass(frozen=True)
class Start:
    """A copy that begins; ``visible`` where it is seen to return before it is done."""

    line: int
    column: int
    visible: bool


class TransferWalk(Walk):
    """One function; lines are counted as facts count them.

    ``done`` says that nothing that it started is under way at any normal way out, ``waits`` are the
    lines that saw to it, ``early`` what it freed or acknowledged while something was under way, and
    ``late`` what it did when nothing was any more.
    """

    def __init__(
        self,
        function: f.FunctionFacts,
        vocabulary: Vocabulary,
        ask: Ask,
        context: Context,
        *,
        begun: bool = False,
    ) -> None:
        """``begun`` begins with something under way."""
        self.starts: dict[tuple[int, int], Start] = {}
        self.waits: set[int] = set()
        self.early: list[f.Call] = []
        self.late: list[f.Call] = []
        self._begun = begun
        self._ask = ask
        self._within = False
        super().__init__(function, vocabulary, lambda *_: None, context)
        self.done = _DONE in self.out

    def _function(self, function: f.FunctionFacts, scope: Scope, way: Way) -> Keys:
        # The functions in its body are looked at where they are called.
        if self._within:
            return frozenset()
        self._within = True
        return super()._function(function, scope, way if self._begun else way.hold(_ALL))

    def _statement(self, stmt: f.Stmt, way: Way) -> Way | None:
        after = super()._statement(stmt, way)
        if after is None or not isinstance(stmt, f.Assign):
            return after
        visible = stores_rows(stmt)
        return after if visible is None else self._started(stmt.line, 1, visible, after)

    def _branch(self, stmt: f.If, way: Way) -> Way | None:
        excused = asks_for_device(stmt.test) or left_to_callers(stmt.test, self.scope.parameters)
        if not excused or _DONE in way.held:
            return super()._branch(stmt, way)
        one = self._block(stmt.body, way.given(((stmt.test, True),)))
        other = self._block(stmt.orelse, way.given(((stmt.test, False),)))
        if one is None or other is None:
            return joined(one, other, stmt.test)
        return joined(one.hold(other.held & _ALL), other.hold(one.held & _ALL), stmt.test)

    def _try(self, stmt: f.Try, way: Way) -> Way | None:
        before = len(self._ends)
        after = super()._try(stmt, way)
        if stmt.final:
            # Who returns from within passes through the end of it too.
            self._ends[before:] = [self._block(stmt.final, e) or e for e in self._ends[before:]]
        return after

    def _with(self, stmt: f.With, way: Way) -> Way | None:
        before = len(self._ends)
        after = super()._with(stmt, way)
        if not any(self._ends_with(context) for context, _ in stmt.items):
            return after
        self.waits.add(stmt.line)
        self._ends[before:] = [end.hold(_ALL) for end in self._ends[before:]]
        return None if after is None else after.hold(_ALL)

    def _ends_with(self, context: f.Expr) -> bool:
        """Whether a context waits when it is left."""
        if joins_at_its_end(context):
            return True
        return isinstance(context, f.Call) and self._effect(context) == "ends"

    def _evaluate(self, stmt: f.Stmt, way: Way) -> Way:
        way = super()._evaluate(stmt, way)
        tops = f.expressions(stmt)
        if not any(isinstance(n, f.Group) and n.op == "await" for top in tops for n in f.walk(top)):
            return way
        if _DONE not in way.held and isinstance(stmt, (f.Assign, f.Do, f.Exit)):
            self.waits.add(stmt.line)
        return way.hold(_ALL)

    def _call(self, call: f.Call, way: Way) -> Way:
        effect = self._effect(call)
        if effect == "ends":
            return self._ended(call, way)
        if effect is not None and effect != "none":
            return self._started(call.line, call.column, effect == "starts visibly", way)
        if lets_go(call, self.vocabulary):
            (self.late if _DONE in way.held else self.early).append(call)
        return way

    def _effect(self, call: f.Call) -> Effect | None:
        if ends(call, self.scope, self.vocabulary):
            return "ends"
        if starts_visibly(call):
            return "starts visibly"
        name = called(call)
        inner = self._inner.get(name) if isinstance(call.func, f.Name) else None
        if inner is not None:
            return effect(inner, self.vocabulary, self._ask, self._context)
        known = self._ask(call)
        if known is not None:
            return known
        if says_it_ends(name, self.vocabulary):
            return "ends"
        return "starts" if starts_by_name(call, self.vocabulary) else None

    def _started(self, line: int, column: int, visible: bool, way: Way) -> Way:
        self.starts[line, column] = Start(line, column, visible)
        return way.without(_DONE)

    def _ended(self, call: f.Call, way: Way) -> Way:
        if _DONE not in way.held:
            self.waits.add(call.line)
        told = [*call.args, *([call.func.value] if isinstance(call.func, f.Attr) else [])]
        # Where there is no event or stream to wait for, nothing was started on it.
        about = {(_DONE, key) for one in told for key in self.scope.keys(one)}
        self._about |= about
        self._events |= about
        return way.hold(_ALL)


def effect(function: f.FunctionFacts, vocabulary: Vocabulary, ask: Ask, context: Context) -> Effect:
    """What a call of a function leaves behind it."""
    fresh = TransferWalk(function, vocabulary, ask, context)
    if not fresh.done:
        visible = any(start.visible for start in fresh.starts.values())
        return "starts visibly" if visible else "starts"
    if TransferWalk(function, vocabulary, ask, context, begun=True).done:
        return "ends"
    return "none"
