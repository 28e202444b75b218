"""Notes what a walk of a function comes by: reads, waits and calls, and what was held there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from auditor.gates.questions import Asked
from auditor.gates.values import (
    SELF,
    CallSite,
    Keys,
    Path,
    Place,
    Read,
    Summary,
    Types,
    Value,
    Wait,
    add_held,
    is_data,
    join_held,
    join_values,
)
from auditor.source import facts as f
from auditor.source.names import ClassKey, Function
from auditor.vocabulary import Vocabulary, words

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


@dataclass(slots=True)
class Return:
    """A way out of a function: what it returns, and what is known then."""

    value: Value
    state: State
    line: int


class Summaries(ABC):
    """What a walk asks beyond its own function: summaries of others, and what names say."""

    asked: Asked
    words: Vocabulary

    @abstractmethod
    def summary(
        self, function: Function, context: ClassKey | None, types: Types = ()
    ) -> Summary | None:
        """The summary of a function on objects of a class; None while it is being made.

        ``types`` are the classes of parameters, where a caller knows more than the annotations.
        """

    @abstractmethod
    def verdict(self, name: str) -> str:
        """The gate that most of the classes behind a vote wait on in a method; empty for none."""

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


class Events(ABC):
    """The walk of one function, as far as it only notes down.

    What tests say, what calls do, expressions and statements stand on top of it, a class each.
    """

    def __init__(
        self,
        evaluator: Summaries,
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
        self.returns: list[Return] = []
        self.bound: list[tuple[str, Value]] = []  # every binding of a local name, in order
        self.breaks: list[list[tuple[str, State]]] = []
        self.unused: dict[int, tuple[Function, State]] = {}
        self.alone: f.Expr | None = None  # the call that is a statement of its own
        self.nesting = 0

    @abstractmethod
    def expr(self, expr: f.Expr, used: bool = True) -> Value:
        """The value of an expression; ``used`` tells whether anyone takes that of a call."""

    @abstractmethod
    def block(self, body: Sequence[f.Stmt]) -> None:
        """Walk statements until one leaves."""

    def bind_parameters(self) -> None:
        """Give the parameters what is known of them."""
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

    def place(self, line: int, column: int = 1) -> Place:
        """A position in the function at hand."""
        return Place(self.function.path, self.function.facts.qualname, line, column)

    def bind_name(self, name: str, value: Value) -> None:
        """Give a local name a value."""
        self.state.env[name] = value
        self.bound.append((name, value))

    def note_call(
        self,
        receiver: Value,
        name: str,
        arguments: tuple[Value, ...],
        keywords: tuple[tuple[str, Value], ...],
        expr: f.Call,
        used: bool,
    ) -> None:
        """Keep a call on a tracked object."""
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
        """The elements of a value end here: returned, read or stored."""
        for part in value.parts:
            self.sink(part, use, line, handed)
        for path in sorted(value.paths):
            if not is_data(path):
                continue
            came, column, origin = value.came_by(path)
            where = came or line
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
                    column,
                    origin or self.place(where, column),
                    self.state.ordered,
                    handed,
                )
            )

    def note_read(self, read: Read) -> None:
        """Keep a read, once."""
        self.reads[read] = None
