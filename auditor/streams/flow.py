"""Walks a function: which blocks enter a side stream, and whether it was made to wait before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from auditor.source import facts as f
from auditor.streams.identity import Keys, Scope, given_names, head_of, presence, renamed, text
from auditor.streams.ways import Told, Way, joined
from auditor.streams.words import called, entered, last, orders, starts_work
from auditor.vocabulary import Vocabulary, words

EVERYTHING = "*"
"""The key of all streams: the host has waited for the device, an event or a stream."""
CURRENT = "<current>"
"""The key of whatever stream is the current one."""

Held = Callable[[f.Call, str, Scope], "Keys | None"]
"""The streams that a call of a name makes wait, as its caller calls them; None where unknown."""
Context = Callable[[f.Expr, Scope], "tuple[str, Keys] | None"]
"""The stream that a name for a context enters: as it is shown, and its spellings."""


_PLAIN = (f.Name, f.Const)
"""Most of all expressions; nothing happens in them."""


@dataclass
class Block:
    """A block on a stream; lines are counted as facts count them.

    ``ordered`` says that something in it starts work, and whether the stream waits before all of
    it; None where nothing starts work. ``edge`` is the line of the wait, ``work`` the calls that
    come without one. ``before`` waited where the context was made, ``given`` are the tests under
    which it is one.
    """

    line: int
    stream: str
    keys: Keys
    current: bool = False
    handed: bool = False
    given: Told = ()
    before: Keys = frozenset()
    ordered: bool | None = None
    edge: int = 0
    work: list[f.Call] = field(default_factory=list)


@dataclass(frozen=True)
class Site:
    """A call of a watched function: the streams that wait before it, and the one it is made on."""

    call: f.Call
    held: Keys
    on: Keys
    scope: Scope


class Walk:
    """One function, its blocks and the streams that wait on every normal way out."""

    def __init__(
        self,
        function: f.FunctionFacts,
        vocabulary: Vocabulary,
        held: Held,
        context: Context,
        watched: frozenset[str] = frozenset(),
    ) -> None:
        """``watched`` are the names of functions whose calls are wanted.

        ``kept`` tells of each attribute of self whether whatever is put there is a stream that
        waits, ``lines`` where each stream is first made to wait.
        """
        self.vocabulary = vocabulary
        self.watched = watched
        self.blocks: list[Block] = []
        self.sites: list[Site] = []
        self._held = held
        self._context = context
        self._stack: list[Block] = []
        self.lines: dict[str, int] = {}
        self._about: set[tuple[str, str]] = set()
        self._events: set[tuple[str, str]] = set()
        self._made: dict[str, Keys] = {}
        self.kept: dict[str, bool] = {}
        self._loops: list[list[Way]] = []
        self._ends: list[Way] = []
        self._inner: dict[str, f.FunctionFacts] = {}
        self._inner_held: dict[str, Keys] = {}
        self.out = self._function(function, Scope(function), Way())

    def _function(self, function: f.FunctionFacts, scope: Scope, way: Way) -> Keys:
        self.scope = scope
        outer, self._inner = self._inner, {}
        self._ends = []
        end = self._block(function.body, way)
        ends = [*self._ends, *([] if end is None else [end])]
        held = frozenset.intersection(*(w.held for w in ends)) if ends else way.held
        found, self._inner = self._inner, outer
        # What waits anywhere around a function has waited when that is called, as far as told.
        around = Way(way.held | frozenset(self.lines))
        for inner in found.values():
            self._function(inner, Scope(inner, scope), around)
        self.scope = scope
        return held

    def _block(self, body: Sequence[f.Stmt], way: Way) -> Way | None:
        now: Way | None = way
        for stmt in body:
            if now is None:
                return None
            now = self._statement(stmt, now)
        return now

    def _statement(self, stmt: f.Stmt, way: Way) -> Way | None:
        if isinstance(stmt, f.Try):
            return self._try(stmt, way)
        if isinstance(stmt, f.Define):
            self._inner[stmt.function.name] = stmt.function
            return way
        way = self._evaluate(stmt, way)
        if isinstance(stmt, f.If):
            return self._branch(stmt, way)
        if isinstance(stmt, f.Loop):
            return self._loop(stmt, way)
        if isinstance(stmt, f.With):
            return self._with(stmt, way)
        if isinstance(stmt, f.Exit):
            self._leave(stmt, way)
            return None
        if isinstance(stmt, f.Assign) and stmt.value is not None:
            self._assign(stmt.targets, stmt.value, way)
        if self._stack and _stores(stmt):
            self._work(way, None)
        return way

    def _assign(self, targets: Sequence[f.Expr], value: f.Expr, way: Way) -> None:
        """Notes what waits where a context is made, or where a stream is put away."""
        options = self.scope.options(value)
        makes = any(isinstance(one, f.Call) and entered(one) for one in options)
        for target in targets:
            if isinstance(target, f.Name) and makes:
                before = self._made.get(target.id)
                self._made[target.id] = way.held if before is None else before & way.held
            elif isinstance(target, f.Attr) and target.value == f.Name("self") and options:
                waits = bool(self.scope.exact(value) & way.held)
                self.kept[target.name] = waits and self.kept.get(target.name, True)

    def _leave(self, stmt: f.Exit, way: Way) -> None:
        if stmt.kind == "return":
            self._ends.append(way)
        elif stmt.kind in ("break", "continue") and self._loops:
            self._loops[-1].append(way)

    def _branch(self, stmt: f.If, way: Way) -> Way | None:
        one = self._block(stmt.body, way.given(((stmt.test, True),)))
        other = self._block(stmt.orelse, way.given(((stmt.test, False),)))
        if one is None or other is None or one.held == other.held:
            return joined(one, other, stmt.test)
        things, outcome = presence(stmt.test)
        if text(stmt.test).endswith(".is_cuda"):
            other = other.hold(one.held)  # no stream has made what lies on the host
        if things:
            there, away = (one, other) if outcome else (other, one)
            away = away.hold(self._needless(there.held - away.held, things))
            one, other = (there, away) if outcome else (away, there)
        return joined(one, other, stmt.test)

    def _needless(self, keys: Keys, things: Sequence[f.Expr]) -> Keys:
        """Of streams that wait where some things are there, those that need not where they are not.

        The things are the stream, and what it waits for: an event alone will do; a stream that may
        be missing need not be the one that made the inputs.
        """
        spelled = [self.scope.keys(thing) for thing in things]
        found: set[str] = set()
        for key in keys:
            about = self._events if not any(key in names for names in spelled) else self._about
            told = {other for one, other in about if one == key}
            if all(key in names or any(_part_of(n, told) for n in names) for names in spelled):
                found.add(key)
        return frozenset(found)

    def _loop(self, stmt: f.Loop, way: Way) -> Way | None:
        self._loops.append([])
        start = way if stmt.target is not None else way.given(((stmt.source, True),))
        ways = [self._block(stmt.body, start), *self._loops.pop()]
        # A wait for each of some streams is one for all of them: the loop counts as run.
        after = None
        for one in ways:
            after = joined(after, one)
        return self._block(stmt.orelse, way if after is None else after)

    def _try(self, stmt: f.Try, way: Way) -> Way | None:
        done = self._block(stmt.body, way)
        if done is not None:
            done = self._block(stmt.orelse, done)
        for handler in stmt.handlers:
            done = joined(done, self._block(handler, way))
        last = self._block(stmt.final, way if done is None else done)
        return None if done is None else last

    def _with(self, stmt: f.With, way: Way) -> Way | None:
        entered_here = [b for item, _ in stmt.items for b in self._entered(item, (), stmt.line)]
        self.blocks += entered_here
        self._stack += entered_here[-1:]
        after = self._block(stmt.body, way)
        if entered_here:
            self._stack.pop()
            for block in entered_here[:-1]:
                block.ordered, block.edge = entered_here[-1].ordered, entered_here[-1].edge
        return after

    def _entered(self, item: f.Expr, given: Told, line: int) -> Iterator[Block]:
        if isinstance(item, f.Choice):
            yield from self._entered(item.body, (*given, (item.test, True)), line)
            yield from self._entered(item.orelse, (*given, (item.test, False)), line)
            return
        for option in self.scope.options(item):
            stream = entered(option) if isinstance(option, f.Call) else None
            if stream is not None:
                name = item.id if isinstance(item, f.Name) else ""
                yield Block(
                    line,
                    text(stream),
                    self.scope.keys(stream),
                    self.scope.may_be_current(stream),
                    self.scope.handed(stream),
                    given,
                    self._made.get(name, frozenset()),
                )
                return
        found = self._context(item, self.scope)
        if found is not None:
            handed = self.scope.handed(item)
            yield Block(line, found[0], found[1], False, handed, given)

    def _evaluate(self, stmt: f.Stmt, way: Way) -> Way:
        for top in f.expressions(stmt):
            if type(top) in _PLAIN:
                continue
            for node in evaluated(top):
                if isinstance(node, f.Call):
                    way = self._call(node, way)
                elif isinstance(node, f.Bind):
                    self.scope.bind(node.target, node.value)
                elif self._stack and _computes(node):
                    self._work(way, None)
        return way

    def _call(self, call: f.Call, way: Way) -> Way:
        name = called(call)
        if name in self.watched:
            on = self._stack[-1].keys if self._stack else frozenset()
            self.sites.append(Site(call, way.held, on, self.scope))
        keys, about = self._waits(call, name)
        if keys:
            if self._stack and CURRENT in keys:
                keys |= self._stack[-1].keys
            for key in keys:
                self.lines.setdefault(key, call.line)
            self._about |= {(key, other) for key in keys for other in about}
            if self.vocabulary.primitive_waits.get(name) != "stream":
                self._events |= {(key, other) for key in keys for other in about}
            return way.hold(keys)
        if self._stack and starts_work(call, self.vocabulary):
            self._work(way, call)
        return way

    def _waits(self, call: f.Call, name: str) -> tuple[Keys, Keys]:
        """The streams that a call makes wait, and what its wait is about."""
        kind = self.vocabulary.primitive_waits.get(name)
        if kind is None or not isinstance(call.func, f.Attr):
            keys = self._helped(call, name)
            about = (key for one in call.args for key in self.scope.keys(one)) if keys else ()
            return keys, frozenset(about) - {"self"}
        receiver = call.func.value
        if kind == "device":
            # That the host has waited for a side stream says nothing of what is to come on it.
            side = "stream" in words(last(receiver)) and not self.scope.may_be_current(receiver)
            return frozenset(() if side else (EVERYTHING, CURRENT)), frozenset()
        given = [*call.args, *(value for _, value in call.keywords)]
        all_given = frozenset(key for one in given for key in self.scope.keys(one))
        if len(words(name)) > 1 and kind != "keyed":
            found = self.scope.exact(receiver)
            if self.scope.may_be_current(receiver):
                found |= {CURRENT}
            return found, all_given
        waiting = frozenset(key for one in given for key in self.scope.exact(one))
        here = kind == "keyed" or not given or any(map(self.scope.may_be_current, given))
        return waiting | ({CURRENT} if here else set()), self.scope.keys(receiver)

    def _helped(self, call: f.Call, name: str) -> Keys:
        inner = self._inner.get(name) if isinstance(call.func, f.Name) else None
        if inner is not None:
            return self._of_inner(inner, call)
        found = self._held(call, name, self.scope)
        if found is not None or not orders(name):
            return found or frozenset()
        given = [*call.args, *(value for _, value in call.keywords)]
        told = [*given, *([call.func.value] if isinstance(call.func, f.Attr) else [])]
        return frozenset(key for one in told for key in self.scope.exact(one)) | {CURRENT}

    def _of_inner(self, inner: f.FunctionFacts, call: f.Call) -> Keys:
        """What a function defined in this one makes wait; other names than its own are both's."""
        known = self._inner_held.get(inner.digest)
        if known is None:
            self._inner_held[inner.digest] = frozenset()  # of a function that calls itself
            walk = Walk(inner, self.vocabulary, self._held, self._context)
            known = self._inner_held[inner.digest] = walk.out
        own = given_names(inner, call, self.scope)
        mine = frozenset(key for key in known if head_of(key) not in own)
        return mine | renamed(known, own)

    def _work(self, way: Way, call: f.Call | None) -> None:
        block = self._stack[-1]
        held = way.given(block.given).held | block.before
        met = block.keys & held or held & {EVERYTHING}
        if call is not None and not met:
            block.work.append(call)
        if met and block.ordered is None:
            block.ordered = True
            block.edge = min((self.lines[key] for key in met if key in self.lines), default=0)
        elif not met:
            block.ordered = False


def evaluated(top: f.Expr) -> list[f.Expr]:
    """All parts of an expression in the order of evaluation, those of lambdas left out."""
    found: list[f.Expr] = []
    stack = [top]
    while stack:
        node = stack.pop()
        kind = type(node)
        if kind in _PLAIN:
            continue
        found.append(node)
        if kind is not f.Lambda:
            stack.extend(f.children(node))
    found.reverse()
    return found


def _part_of(name: str, things: set[str]) -> bool:
    """Whether a spelling is one of some things, or of an attribute of one."""
    return name in things or any(name.startswith(f"{thing}.") for thing in things)


def _stores(stmt: f.Stmt) -> bool:
    if isinstance(stmt, f.Augment):
        return isinstance(stmt.target, f.Sub)
    return isinstance(stmt, f.Assign) and any(isinstance(t, f.Sub) for t in stmt.targets)


def _computes(node: f.Expr) -> bool:
    """Arithmetic on elements: an index alone may be one of a list."""
    return (
        isinstance(node, f.Group)
        and node.op == "value"
        and any(isinstance(part, f.Sub) for part in node.parts)
    )
