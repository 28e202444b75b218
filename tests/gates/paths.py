"""Random method bodies, and an interpreter that walks every path of them.

It knows nothing of the analysis: it only answers whether some path reaches a use of the buffer's
elements before any wait. The gate is taken to be armed, since where it is absent there is nothing
to wait for. Loops run zero, one or two times; whatever stands in a ``try`` may raise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hypothesis import strategies as st

WAIT = "self.counter.wait_until(layer_id)"
BUFFER = "self.rows[layer_id]"


class Stmt(NamedTuple):
    """A statement of the small language: what it is, and the blocks in it."""

    kind: str
    blocks: tuple[tuple[Stmt, ...], ...] = ()


Block = tuple[Stmt, ...]

SIMPLE = {
    "wait": WAIT,
    "wrapper": "self._pause(layer_id)",
    "armed": f"if self.counter is not None:\n    {WAIT}",
    "armed-not": f"if self.counter is None:\n    pass\nelse:\n    {WAIT}",
    "armed-alias": "gate = self.counter\nif gate:\n    gate.wait_until(layer_id)",
    "armed-walrus": "if (gate := self.counter) is not None:\n    gate.wait_until(layer_id)",
    "armed-and": f"self.counter and {WAIT}",
    "half": f"probe() and {WAIT}",
    "ternary": f"{WAIT} if probe() else None",
    "never": f"def later():\n    {WAIT}",
    "lambda": f"hook(lambda: {WAIT})",
    "some": f"[{WAIT} for _ in items]",
    "work": "work(slots)",
    "take": f"rows = {BUFFER}",
    "forget": "rows = None",
    "use": "kernel(rows)",
    "select": f"out = {BUFFER}.index_select(0, slots)",
    "kernel": f"kernel({BUFFER}, slots)",
    "arith": f"out = {BUFFER} * 2",
    "augment": f"{BUFFER} *= 2",
    "lazy": f"hook(lambda: kernel({BUFFER}))",
    "return-rows": "return rows",
    "return-read": f"return {BUFFER}",
    "return": "return None",
    "return-absent": "if self.counter is None:\n    return " + BUFFER,
    "break": "break",
    "continue": "continue",
    "raise": "raise Failed()",
}
"""Statement → its text. ``rows`` is None at the start of every body."""

_WAITS = {"wait", "wrapper", "armed", "armed-not", "armed-alias", "armed-walrus", "armed-and"}
_MAY_WAIT = {"half", "ternary", "some"}
_READS = {"select", "kernel", "arith", "augment", "lazy"}

COMPOUND = {
    "if": ("if probe():", None),
    "if-else": ("if probe():", "else:"),
    "elif": ("if probe():", "elif self.mode == 2:", "else:"),
    "for": ("for item in items:",),
    "for-else": ("for item in items:", "else:"),
    "while": ("while probe():",),
    "forever": ("while True:",),
    "try": ("try:", "except Failed:"),
    "try-else": ("try:", "except Failed:", "else:"),
    "try-finally": ("try:", "finally:"),
    "try-all": ("try:", "except Failed:", "else:", "finally:"),
    "with": ("with work(slots):",),
}
"""Statement → the heads of its blocks."""

LOOPS = ("for", "for-else", "while", "forever")


def render(block: Block, indent: int = 0) -> list[str]:
    """The source lines of a block."""
    pad = "    " * indent
    lines: list[str] = []
    for stmt in block:
        if stmt.kind in SIMPLE:
            lines += [pad + line for line in SIMPLE[stmt.kind].split("\n")]
            continue
        for head, inner in zip(COMPOUND[stmt.kind], stmt.blocks, strict=False):
            if head is not None:
                lines += [pad + head, *(render(inner, indent + 1) or [pad + "    pass"])]
    return lines or [pad + "pass"]


# -- the interpreter -----------------------------------------------------------------------------


class State(NamedTuple):
    """Where a path stands: has it waited, and does ``rows`` hold the buffer's elements?"""

    waited: bool = False
    rows: bool = False


class End(NamedTuple):
    """How a block was left: ``next``, ``break``, ``continue``, ``raise``, ``return`` or ``hand``.

    ``hand`` is a return of the elements themselves: whoever called uses them, and no sooner.
    """

    how: str
    state: State


class Paths:
    """Every end that a body can come to; ``early`` once a use before any wait was met."""

    def __init__(self) -> None:
        self.early = False

    def block(self, block: Block, starts: Iterable[State]) -> set[End]:
        ends: set[End] = set()
        states = set(starts)
        for stmt in block:
            reached: set[State] = set()
            for state in states:
                for end in self.stmt(stmt, state):
                    if end.how == "next":
                        reached.add(end.state)
                    else:
                        ends.add(end)
            states = reached
        return ends | {End("next", state) for state in states}

    def stmt(self, stmt: Stmt, state: State) -> set[End]:
        kind = stmt.kind
        if kind in SIMPLE:
            return set(self.simple(kind, state))
        if kind.startswith("try"):
            return self.attempt(stmt, state)
        if kind in LOOPS:
            return self.loop(stmt, state)
        failed = {End("raise", state)}  # the test or the context may raise
        if kind == "with":
            return failed | self.block(stmt.blocks[0], {state})
        ends = set(failed)
        for inner in stmt.blocks:
            ends |= self.block(inner, {state})
        return ends if kind != "if" else ends | {End("next", state)}

    def simple(self, kind: str, state: State) -> Iterator[End]:
        if kind in ("break", "continue", "raise", "return"):
            yield End(kind, state)
            return
        if kind in ("return-rows", "return-read"):
            elements = kind == "return-read" or state.rows
            if kind == "return-read":
                yield End("raise", state)
            yield End("hand" if elements else "return", state)
            return
        if kind == "return-absent":
            yield End("next", state)
            return
        if kind not in ("forget", "never"):
            yield End("raise", state)
        if kind in _READS or (kind == "use" and state.rows):
            self.early |= not state.waited
        if kind in _MAY_WAIT:
            yield End("next", state)
        if kind in _WAITS | _MAY_WAIT:
            state = state._replace(waited=True)
        if kind in ("take", "forget"):
            state = state._replace(rows=kind == "take")
        yield End("next", state)

    def loop(self, stmt: Stmt, state: State) -> set[End]:
        ends: set[End] = {End("raise", state)}
        exhausted: set[State] = set() if stmt.kind == "forever" else {state}
        entering = {state}
        for _ in range(2):
            reached: set[State] = set()
            for end in self.block(stmt.blocks[0], entering):
                if end.how in ("next", "continue"):
                    reached.add(end.state)
                elif end.how == "break":
                    ends.add(End("next", end.state))
                else:
                    ends.add(end)
            if stmt.kind != "forever":
                exhausted |= reached
            entering = reached
        if stmt.kind == "for-else":
            return ends | self.block(stmt.blocks[1], exhausted)
        return ends | {End("next", s) for s in exhausted}

    def attempt(self, stmt: Stmt, state: State) -> set[End]:
        body, *others = stmt.blocks
        handler = others.pop(0) if stmt.kind != "try-finally" else None
        orelse = others.pop(0) if stmt.kind in ("try-else", "try-all") else ()
        final = others.pop(0) if others else ()
        ends: set[End] = set()
        for end in self.block(body, {state}):
            if end.how == "next":
                ends |= self.block(orelse, {end.state})
            elif end.how == "raise" and handler is not None:
                ends |= {end} | self.block(handler, {end.state})
            else:
                ends.add(end)
        left: set[End] = set()
        for end in ends:
            for last in self.block(final, {end.state}):
                left.add(End(end.how, last.state) if last.how == "next" else last)
        return left


def reads_early(block: Block) -> bool:
    """Whether some path uses the elements, or hands them to its caller, before it has waited."""
    paths = Paths()
    for end in paths.block(block, {State()}):
        paths.early |= end.how == "hand" and not end.state.waited
    return paths.early


# -- the grammar ---------------------------------------------------------------------------------

_LEAVING = ("break", "continue", "raise", "return")
_ALIASES = ("take", "forget", "use", "return-rows")


def blocks(
    depth: int = 2, loop: bool = False, most: int = 4, plain: bool = False
) -> st.SearchStrategy[Block]:
    """Blocks nested at most ``depth`` deep; ``loop`` allows break and continue.

    ``plain`` ones have neither a ``try`` nor a local alias of the buffer.
    """
    straight = [k for k in SIMPLE if k not in _LEAVING and not (plain and k in _ALIASES)]
    ends = ["raise", "return"] + (["break", "continue"] if loop else [])
    simple = st.sampled_from([*straight, *straight, *ends]).map(Stmt)
    if depth == 0:
        return st.lists(simple, min_size=1, max_size=most).map(tuple)

    def compound(kind: str) -> st.SearchStrategy[Stmt]:
        heads = [h for h in COMPOUND[kind] if h is not None]
        inner = [
            blocks(depth - 1, loop or (kind in LOOPS and n == 0), 3, plain)
            for n in range(len(heads))
        ]
        return st.tuples(*inner).map(lambda found: Stmt(kind, found))

    kinds = [k for k in sorted(COMPOUND) if not (plain and k.startswith("try"))]
    nested = st.sampled_from(kinds).flatmap(compound)
    return st.lists(simple | nested, min_size=1, max_size=most).map(tuple)
