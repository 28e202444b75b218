"""The variables of a script as one run follows it: set, appended to, exported, counted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from auditor.model import Launch, Pin, Skipped, Variable
from auditor.serve.scripts.expansion import Assigned, Expander
from auditor.serve.scripts.relevance import Relevance
from auditor.serve.scripts.state import Binding, Shell, exported, variable_of
from auditor.serve.scripts.syntax import Tree, parse
from auditor.serve.scripts.values import (
    Piece,
    Source,
    Text,
    constant,
    scalar,
    size,
    split,
)
from auditor.serve.scripts.words import Setting
from auditor.serve.scripts.worlds import World

Read = Callable[[str], bytes | None]
"""Reads a file beside the script by its path, None where there is none that may be read."""
MOST_BYTES = 5_000_000
_MOST_STEPS = 1_500_000
_MOST_SIZE = 20_000
_MOST_TEXTS = 2_000

MISSING = Binding((), {"missing": ()})
"""Stands for a variable that the script has neither set nor unset."""

Place = tuple[object, ...]
"""Where in a run something stands: the calls and turns that led there."""


class Left(Exception):
    """A statement ends what it stands in: ``exit``, ``return``, ``break`` or ``continue``."""

    def __init__(self, kind: str, levels: int = 1, status: bool | None = True) -> None:
        super().__init__(kind)
        self.kind = kind
        self.levels = levels
        self.status = status


class Script:
    """What all runs of one script share: its texts as parsed, and what could not be read."""

    def __init__(self, path: str, form: str, read: Read) -> None:
        self.path = path
        self.form = form
        self.read = read
        self.steps = 0
        self.skipped: list[Skipped] = []
        self.relevance = Relevance()
        self.grown = False
        self.main: Tree | None = None
        self.broken = False
        self.known: set[str] = set()
        self.called: set[str] = set()
        self._sources: dict[str, Source] = {}
        self._parsed: dict[bytes, tuple[Tree, int | None]] = {}

    def tree(self, data: bytes) -> tuple[Tree, int | None]:
        """The statements of a text, and where it stops being bash."""
        found = self._parsed.get(data)
        if found is None:
            self.steps += len(data) // 64
            found = parse(data)
            if len(self._parsed) < _MOST_TEXTS:
                self._parsed[data] = found
        return found

    def source(self, path: str, data: bytes) -> Source:
        """A file that the script takes in, the same one in every run."""
        return self._sources.setdefault(path, Source(data, path))

    def step(self, cost: int = 1) -> None:
        """Count work; raises TooMuch."""
        self.steps += cost
        if self.steps > _MOST_STEPS:
            raise TooMuch("asks for more work than is allowed for one script; read in part")

    def note(self, path: str, reason: str) -> None:
        """Keep what could not be read; each reason once."""
        skipped = unread(path, reason)
        if skipped not in self.skipped:
            self.skipped.append(skipped)


class Variables(ABC):
    """Follows what one run assigns; each step is counted."""

    def __init__(self, script: Script, world: World) -> None:
        self.script = script
        self.world = world
        self.found: list[tuple[Place, Launch]] = []
        self.started: set[tuple[object, ...]] = set()
        self.functions: dict[str, tuple[Tree, Tree, Source]] = {}
        self.place: list[object] = []
        self.running: list[str] = []
        self.locals: list[dict[str, Binding | None]] = []
        self.pins: dict[Pin, None] = {}

    @abstractmethod
    def run(self, source: Source, shell: Shell, setting: Setting) -> bool | None:
        """Follows a text in a shell; its status, None where that is not known."""

    @abstractmethod
    def statement(
        self, node: Tree, root: Tree, source: Source, shell: Shell, setting: Setting
    ) -> bool | None:
        """Follows one statement; its status."""

    @abstractmethod
    def statements(
        self, nodes: Sequence[Tree], root: Tree, source: Source, shell: Shell, setting: Setting
    ) -> bool | None:
        """Follows statements one after the other; the status of the last one."""

    @abstractmethod
    def apart(
        self, nodes: Sequence[Tree], root: Tree, source: Source, shell: Shell, setting: Setting
    ) -> bool | None:
        """Follows statements in a shell of their own, which they alone can end."""

    @abstractmethod
    def substitution(self, source: Source, start: int, end: int, shell: Shell) -> Text | None:
        """Follows ``$(…)``; what it prints, where that is known."""

    def expander(self, source: Source, shell: Shell) -> Expander:
        """Expands words of a source in a shell of this run."""
        return Expander(source, shell, self.world, self.substitution)

    def bounded(self, text: Text) -> Text:
        """A text, or an unknown one where it grows without end."""
        weight = size(text)
        self.script.step(weight // 64)
        if weight <= _MOST_SIZE:
            return text
        reason = "a variable grows beyond what is followed; it counts as unknown"
        self.script.note(self.script.path, reason)
        first = next((token for token in text if isinstance(token, Piece)), None)
        source = first.source if first else Source(b"", self.script.path)
        return (Piece("", source, first.offset if first else 0, resolved=False, symbol="("),)

    def forget(self, name: str, shell: Shell, outside: bool = False) -> str:
        """From here on a variable is not known; returns what stands for its text in this run."""
        before = shell.get(name)
        symbol = f"{name}@{len(self.world.taken)}:{self.script.steps}"
        source = Source(b"", self.script.path)
        piece = Piece(
            f"${name}", source, 0, True, resolved=False, exact=False, symbol=symbol, outside=outside
        )
        exported_before = before.exported if before else False
        shell.variables[name] = Binding((piece,), exported=exported_before)
        return symbol

    def assign(self, assigned: Assigned, expander: Expander, shell: Shell, export: bool) -> None:
        """Follows one assignment."""
        self.script.step()
        name = assigned.name
        before = shell.get(name)
        exported_now = export or (before.exported if before else False)
        if assigned.elements is not None:
            self._assign_array(assigned, before, shell, exported_now)
            return
        text = assigned.text or ()
        if assigned.index is not None:
            self._assign_element(assigned, before, expander, shell, exported_now)
            return
        if assigned.append:
            if before is not None and before.items is not None:
                items = {**before.items, "0": (*before.items.get("0", ()), *text)}
                shell.variables[name] = replace(before, items=items)
                return
            held = before.text if before is not None else self._outside(name, expander, shell)
            text = (*held, *text)
        shell.variables[name] = Binding(self.bounded(text), exported=exported_now)

    def _outside(self, name: str, expander: Expander, shell: Shell) -> Text:
        if shell.knows(name):
            return ()
        piece = Piece(f"${name}", expander.source, 0, True, False, False, symbol=name, outside=True)
        return expander.settle((piece,))

    def _assign_array(
        self, assigned: Assigned, before: Binding | None, shell: Shell, export: bool
    ) -> None:
        keyed = before.keyed if before is not None else False
        items: dict[str, Text] = {}
        if assigned.append and before is not None:
            items = dict(before.items) if before.items is not None else {"0": before.text}
        at = 0 if keyed else max(map(int, items), default=-1) + 1 if items else 0
        for key, text in assigned.elements or ():
            if keyed:
                items[key if key is not None else "?"] = text
                continue
            if key is not None and key.isdigit():
                at = int(key)
            items[str(at)] = text
            at += 1
        every = tuple(token for text in items.values() for token in text)
        if size(every) > _MOST_SIZE or len(items) > _MOST_SIZE:
            self.bounded((*every, *every))
            items = {}
        self.script.step(len(items) // 8)
        shell.variables[assigned.name] = Binding((), items, keyed, export)

    def _assign_element(
        self,
        assigned: Assigned,
        before: Binding | None,
        expander: Expander,
        shell: Shell,
        export: bool,
    ) -> None:
        assert assigned.index is not None
        keyed = before.keyed if before is not None else False
        items: dict[str, Text] = {}
        if before is not None:
            items = dict(before.items) if before.items is not None else {"0": before.text}
        key = expander.index(assigned.name, *assigned.index)
        if key is None or (not keyed and not key.isdigit()):
            key = "?"
        if key == "?" and not keyed:
            self.forget(assigned.name, shell)
            return
        held = items.get(key, ()) if assigned.append else ()
        items[key] = self.bounded((*held, *(assigned.text or ())))
        shell.variables[assigned.name] = Binding((), items, keyed, export)

    def declare(
        self, words: list[str], rows: Iterable[Assigned | Text], expander: Expander, shell: Shell
    ) -> None:
        """Follows ``export``, ``local``, ``declare`` and their kin."""
        keyword, options = words[0], "".join(word for word in words[1:])
        export = (keyword == "export" and "n" not in options) or "x" in options
        local = bool(self.locals) and keyword in {"local", "declare", "typeset"}
        for row in rows:
            name = row.name if isinstance(row, Assigned) else constant(expander.settle(row))
            if name is None or not name.isidentifier():
                if not isinstance(row, Assigned) and export:
                    self._export_words(row, expander, shell)
                continue
            if local and "g" not in options:
                self.locals[-1].setdefault(name, shell.variables.get(name, MISSING))
                if not isinstance(row, Assigned):
                    shell.variables[name] = None
            if "A" in options or "a" in options:
                shell.variables[name] = Binding((), {}, keyed="A" in options)
            if isinstance(row, Assigned):
                self.assign(row, expander, shell, export or shell.export_all)
            elif export:
                before = shell.get(name)
                if before is not None:
                    shell.variables[name] = replace(before, exported=True)

    def _export_words(self, text: Text, expander: Expander, shell: Shell) -> None:
        for word in expander.split([text]):
            name, equals, value = word.text.partition("=")
            if equals and name.isidentifier():
                piece = next(token for token in word.tokens if isinstance(token, Piece))
                made = replace(piece, text=value, exact=False, resolved=word.resolved)
                shell.variables[name] = Binding((made,), exported=True)

    def environment(self, shell: Shell, expander: Expander) -> tuple[Variable, ...]:
        """What commands see of the variables."""
        seen = exported(shell)
        self.script.step(len(seen))
        return tuple(
            variable_of(name, expander.settle(binding.text))
            for name, binding in seen.items()
            if binding is not None
        )


class TooMuch(Exception):
    """The script asks for more work than a script to start servers does."""


def unread(path: str, reason: str) -> Skipped:
    """What of a script could not be read."""
    return Skipped("fork", path, "serve", reason)


def whole(text: Text) -> str:
    """The text of the one word that a text is."""
    words = split([scalar(text)])
    return words[0].text if words else ""
