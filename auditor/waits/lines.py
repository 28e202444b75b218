"""A function as a row of lines, each with the tests, loops and blocks around it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from auditor.source import facts as f
from auditor.waits.calls import names_a_lock
from auditor.waits.sites import Known, Site, lock_of, site_of
from auditor.waits.text import NO_ALIASES, Aliases, last_name, names_in, text_of

Block = Literal["if", "else", "loop", "try", "handler", "with", "def"]

_QUIET = """
len isinstance getattr hasattr print range enumerate zip int str min max bool list tuple dict set
float any all sum sorted reversed repr type id super format debug info warning error exception
log append extend add update remove discard pop popleft clear get keys items values
time perf_counter monotonic is_available current_stream get_current_stream default_stream
"""
TELLS_NOTHING = frozenset(_QUIET.split())
"""Calls that no other thread, stream or rank can notice, or that say nothing of it."""

DECORATES = "@"
"""What stands for the method of a lock that a decorator takes."""

_SAYS = frozenset(("print", "log", "debug", "info", "warning", "error", "exception"))

Given = frozenset[str]
"""The names that decide within an expression whether a part of it is come to."""

_OPPOSITES = {"is not": "is", "!=": "=="}
"""Comparisons that say the same as the opposite of another."""


@dataclass(frozen=True)
class Around:
    """A block around a line: ``text`` is its test, source or context, ``number`` its statement.

    ``asks`` are what all has to hold for a branch to be taken, each with whether it must, and the
    names in it. ``names`` are those of the text; ``leaves`` says of a ``try`` that no
    handler swallows what is raised.
    """

    block: Block
    text: str
    number: int
    names: frozenset[str] = frozenset()
    leaves: bool = False
    asks: tuple[tuple[str, bool, frozenset[str]], ...] = ()


@dataclass(frozen=True)
class Line:
    """A statement, or the head of one that holds others.

    ``works`` says that it calls something, or reads elements; ``leaves`` is how it leaves the
    straight line, if it does; ``number`` is that of the statement.
    """

    text: str
    line: int
    around: tuple[Around, ...]
    sites: tuple[Site, ...]
    names: frozenset[str]
    calls: tuple[str, ...]
    works: bool
    leaves: str = ""
    test: bool = False
    number: int = 0


@dataclass
class Body:
    """The lines of a function, in source order."""

    lines: list[Line] = field(default_factory=list)

    @property
    def sites(self) -> Iterator[tuple[int, Site]]:
        """Every wait with the number of its line."""
        for number, line in enumerate(self.lines):
            for site in line.sites:
                yield number, site

    def head(self, around: Around) -> int | None:
        """The number of the line that opens a block; a ``try`` has none."""
        return next((n for n, one in enumerate(self.lines) if one.number == around.number), None)

    def wrapped(self, number: int) -> set[int]:
        """A line, and the heads of the statements that hold nothing else."""
        found = {number}
        for around in reversed(self.lines[number].around):
            held = [
                n
                for n, one in enumerate(self.lines)
                if any(other.number == around.number for other in one.around)
            ]
            head = self.head(around)
            if head is None or not found.issuperset(held):
                break
            found.add(head)
        return found

    def names(self, without: Collection[int] = ()) -> set[str]:
        """All names but those of some lines."""
        found: set[str] = set()
        for number, line in enumerate(self.lines):
            if number not in without:
                found |= line.names
        return found


def body_of(function: f.FunctionFacts, waiters: Known) -> Body:
    """The lines of a function, those of the functions in it too."""
    reader = _Reader(Aliases(function), waiters)
    reader.block(function.body, reader.locked(function.decorators))
    return reader.body


class _Reader:
    def __init__(self, aliases: Aliases, waiters: Known) -> None:
        self.aliases = aliases
        self.waiters = waiters
        self.body = Body()
        self.number = 0

    def locked(self, decorators: Iterable[str]) -> tuple[Around, ...]:
        """The locks that decorators take around a whole function, each with a line of its own."""
        around: tuple[Around, ...] = ()
        for said in decorators:
            name = said.rpartition(".")[2]
            if names_a_lock(name):
                self.number += 1
                site = Site("lock", DECORATES, said, "", said, name, "", 1, 1)
                line = Line(f"with {said}", 1, around, (site,), frozenset((name,)), (), works=False)
                self.body.lines.append(replace(line, number=self.number))
                around += (Around("with", said, self.number, frozenset((name,))),)
        return around

    def block(self, body: tuple[f.Stmt, ...], around: tuple[Around, ...]) -> None:
        for stmt in body:
            self.number += 1
            self.stmt(stmt, around)

    def stmt(self, stmt: f.Stmt, around: tuple[Around, ...]) -> None:
        match stmt:
            case f.If():
                self.line(stmt, f"if {self.said(stmt.test)}", around, test=True)
                yes, no = self.around("if", stmt.test), self.around("else", stmt.test)
                self.block(stmt.body, (*around, yes))
                self.block(stmt.orelse, (*around, no))
            case f.Loop():
                head = self.said(stmt.source)
                target = "" if stmt.target is None else f"{self.said(stmt.target)} in "
                self.line(stmt, f"loop {target}{head}", around)
                self.block(stmt.body, (*around, self.around("loop", stmt.source)))
                self.block(stmt.orelse, around)
            case f.Try():
                number = self.number
                leaves = not any(map(_swallows, stmt.handlers))
                self.block(stmt.body, (*around, Around("try", "", number, leaves=leaves)))
                for handler in stmt.handlers:
                    self.block(handler, (*around, Around("handler", "", number)))
                self.block(stmt.orelse, around)
                self.block(stmt.final, around)
            case f.With():
                text = ", ".join(self.said(context) for context, _ in stmt.items)
                locks = [lock_of(context, self.aliases) for context, _ in stmt.items]
                self.line(stmt, f"with {text}", around, tuple(s for s in locks if s is not None))
                inner = [self.around("with", context) for context, _ in stmt.items]
                self.block(stmt.body, (*around, *inner))
            case f.Define():
                name = stmt.function.name
                inside = Around("def", name, self.number, frozenset((name,)))
                first = stmt.function.line
                self.body.lines.append(
                    Line(
                        f"def {name}",
                        first,
                        around,
                        (),
                        frozenset(),
                        (),
                        works=False,
                        number=self.number,
                    )
                )
                self.block(stmt.function.body, (*around, inside))
            case f.Import():
                pass
            case f.Exit():
                value = "" if stmt.value is None else f" {self.said(stmt.value)}"
                self.line(stmt, f"{stmt.kind}{value}", around, leaves=stmt.kind)
            case f.Assign():
                targets = " = ".join(self.said(t) for t in stmt.targets)
                value = "" if stmt.value is None else self.said(stmt.value)
                self.line(stmt, f"{targets} = {value}", around)
            case f.Augment():
                text = f"{self.said(stmt.target)} op= {self.said(stmt.value)}"
                self.line(stmt, text, around)
            case f.Do():
                self.line(stmt, self.said(stmt.value), around)

    def line(
        self,
        stmt: f.If | f.Loop | f.With | f.Exit | f.Assign | f.Augment | f.Do,
        text: str,
        around: tuple[Around, ...],
        locks: tuple[Site, ...] = (),
        leaves: str = "",
        test: bool = False,
    ) -> None:
        sites: list[Site] = list(locks)
        names: set[str] = set()
        calls: list[str] = []
        works = False
        for top in f.expressions(stmt):
            pending: list[tuple[f.Expr, bool, Given]] = [(top, False, frozenset())]
            while pending:
                node, deferred, given = pending.pop()
                if isinstance(node, f.Name):
                    names.add(node.id)
                    continue
                if isinstance(node, f.Attr):
                    names.add(node.name)
                elif isinstance(node, f.Call):
                    called = last_name(node.func)
                    calls.append(called)
                    works |= called not in TELLS_NOTHING
                    site = site_of(node, called, self.aliases, self.waiters, deferred)
                    if site is not None:
                        sites.append(replace(site, given=given))
                elif isinstance(node, f.Sub):
                    works = True
                deferred |= isinstance(node, f.Lambda)
                pending += [(child, deferred, told) for child, told in _parts(node, given)]
        # What the aliases stand for is named too.
        names = self.aliases.named(names)
        if (sites and len(calls) <= len(sites)) or isinstance(stmt, f.With):
            works = False  # nothing runs on a stream before the first line in its context
        self.body.lines.append(
            Line(
                text,
                stmt.line,
                around,
                tuple(sorted(sites, key=lambda s: (s.line, s.column))),
                frozenset(names),
                tuple(calls),
                works,
                leaves,
                test,
                self.number,
            )
        )

    def around(self, block: Block, expr: f.Expr) -> Around:
        names = self.aliases.named(names_in(expr))
        asks = tuple(self.asks(expr, block == "if")) if block in ("if", "else") else ()
        text = text_of(expr, self.aliases)
        return Around(block, text, self.number, frozenset(names), asks=asks)

    def asks(self, test: f.Expr, holds: bool) -> Iterator[tuple[str, bool, frozenset[str]]]:
        """What must hold for a test to come out so; one that may for several reasons is one."""
        if isinstance(test, f.Group):
            if test.op == "not":
                yield from self.asks(test.parts[0], not holds)
                return
            if test.op == ("and" if holds else "or"):
                for part in test.parts:
                    yield from self.asks(part, holds)
                return
            if test.op in _OPPOSITES:
                test, holds = f.Group(_OPPOSITES[test.op], test.parts), not holds
        names = self.aliases.named(names_in(test))
        yield text_of(test, self.aliases), holds, frozenset(names)

    def said(self, expr: f.Expr) -> str:
        return text_of(expr, NO_ALIASES)


def _parts(expr: f.Expr, given: Given) -> Iterator[tuple[f.Expr, Given]]:
    """What an expression is made of, each with the names by which it is come to."""
    if isinstance(expr, f.Choice):
        yield expr.test, given
        given |= frozenset(names_in(expr.test))
        yield from ((expr.body, given), (expr.orelse, given))
    elif isinstance(expr, f.Group) and expr.op in ("and", "or"):
        for part in expr.parts:
            yield part, given
            given |= frozenset(names_in(part))
    else:
        yield from ((child, given) for child in f.children(expr))


def _swallows(handler: tuple[f.Stmt, ...]) -> bool:
    """Whether a handler lets what follows run as if nothing had been, and keeps no note of it."""
    return all(
        isinstance(stmt, f.Do)
        and isinstance(stmt.value, f.Call)
        and last_name(stmt.value.func) in _SAYS
        for stmt in handler
    )
