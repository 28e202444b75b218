"""The variables of a script as it is followed: set, appended to, exported, counted, forgotten."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace

from tree_sitter import Node

from auditor.model import Launch, Pin, Skipped, Variable
from auditor.serve.scripts.expansion import Expander
from auditor.serve.scripts.state import (
    Binding,
    Shell,
    variables,
    written,
)
from auditor.serve.scripts.syntax import (
    expanded,
    text_of,
)
from auditor.serve.scripts.values import (
    BREAK,
    MOST_OPTIONS,
    Choice,
    Piece,
    Source,
    Text,
    Token,
    depth,
    options,
    scalar,
    size,
    split,
)
from auditor.serve.scripts.words import Setting

Read = Callable[[str], bytes | None]
"""Reads a file beside the script by its path, None where there is none that may be read."""
MOST_BYTES = 5_000_000
_MOST_STEPS = 500_000
_MOST_SIZE = 20_000
_MOST_DEPTH = 40


class Variables(ABC):
    """Follows what is assigned; each step is counted."""

    def __init__(self, path: str, form: str, read: Read) -> None:
        self._path = path
        self._form = form
        self._read = read
        self._found: dict[tuple[object, ...], Launch] = {}
        self._steps = 0
        self._functions: dict[str, tuple[Node, Source]] = {}
        self._called: set[str] = set()
        self._running: list[str] = []
        self._locals: list[dict[str, Binding | None]] = []
        self._pins: dict[Pin, None] = {}
        self._last: Shell | None = None
        self._broken = False
        self._unrolled = False
        self._output: list[list[Text | None]] = []
        self._depth: list[int] = []
        self._skipped: list[Skipped] = []

    @abstractmethod
    def run(self, source: Source, shell: Shell, setting: Setting) -> None:
        """Follows a text in a shell."""

    @abstractmethod
    def _statements(
        self, nodes: Sequence[Node], source: Source, shell: Shell, setting: Setting
    ) -> bool:
        """Follows statements; whether they surely end the script or function."""

    @abstractmethod
    def _statement(self, node: Node, source: Source, shell: Shell, setting: Setting) -> bool:
        """Follows one statement; whether it surely ends the script or function."""

    @abstractmethod
    def _substitution(self, node: Node, source: Source, shell: Shell) -> Text | None:
        """Follows ``$(…)``; what it prints, where that is known."""

    def _note(self, path: str, reason: str) -> None:
        """Keeps what could not be read; each reason once."""
        skipped = unread(path, reason)
        if skipped not in self._skipped:
            self._skipped.append(skipped)

    def _step(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise TooMuch("asks for more work than is allowed for one script; read in part")

    def _bounded(self, text: Text) -> Text:
        weight = size(text)
        self._steps += weight // 64
        if weight <= _MOST_SIZE and depth(text) <= _MOST_DEPTH and options(text) <= MOST_OPTIONS:
            return text
        self._note(self._path, "a variable grows beyond what is followed; it counts as unknown")
        first = next((token for token in text if isinstance(token, Piece)), None)
        source = first.source if first else Source(b"", self._path)
        return (Piece("", source, first.offset if first else 0, resolved=False),)

    def _counted(self, body: Node, shell: Shell) -> None:
        """Forgets the variables that a loop counts with: their value differs on each turn."""
        waiting = [body]
        while waiting:
            node = waiting.pop()
            if node.type == "variable_assignment":
                name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
                if name is not None and value is not None and b"$((" in (value.text or b""):
                    self._forget(text_of(name), shell)
            elif node.type == "compound_statement" and text_of(node.children[0]) == "((":
                self._unknown_names(node, shell)
            waiting.extend(node.named_children)

    def _unknown_names(self, node: Node, shell: Shell, below: Node | None = None) -> None:
        """Forgets the variables that ``((…))`` changes."""
        waiting = [child for child in node.named_children if below is None or child.id != below.id]
        while waiting:
            child = waiting.pop()
            if child.type in {"postfix_expression", "unary_expression", "variable_assignment"}:
                for name in child.named_children[:1]:
                    if name.type in {"word", "variable_name"}:
                        self._forget(text_of(name), shell)
            waiting.extend(child.named_children)

    def _forget(self, name: str, shell: Shell) -> None:
        before = shell.get(name)
        source = Source(b"", self._path)
        shell.layers[-1][name] = Binding(
            (Piece(f"${name}", source, 0, resolved=False, exact=False),),
            exported=before.exported if before else False,
        )

    def _assign(self, node: Node, source: Source, shell: Shell, export: bool) -> None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None:
            return
        if name.type == "subscript":
            base = name.child_by_field_name("name")
            if base is not None:
                self._forget(text_of(base), shell)
            return
        self._step()
        before = shell.get(text_of(name))
        append = any(child.type == "+=" for child in node.children)
        expander = self._expander(source, shell)
        array = False
        if value is None:
            text: Text = ()
        elif value.type == "array":
            array = True
            nodes = [child for child in value.named_children if child.type != "comment"]
            text = _elements(expanded(nodes, expander))
        else:
            text = scalar(expander.word(value, True))
        if append and before is not None:
            if before.array:
                array = True
                text = before.text + (text if value is not None and value.type == "array" else ())
            else:
                text = (*before.text, BREAK, *text) if array else before.text + text
        elif append and not array:
            known = Piece(f"${text_of(name)}", source, node.start_byte, resolved=False, exact=False)
            text = (known, *text)
        exported = export or (before.exported if before else False)
        if not text and not array:
            text = (Piece("", source, node.start_byte),)
        shell.layers[-1][text_of(name)] = Binding(self._bounded(text), array, exported)

    def _declare(self, node: Node, source: Source, shell: Shell) -> bool:
        words = [text_of(child) for child in node.children if child.type == "word"]
        options = "".join(word for word in words if word.startswith("-"))
        keyword = text_of(node.children[0])
        export = (keyword == "export" and "n" not in options) or "x" in options
        if self._locals and keyword in {"local", "declare", "typeset"} and "g" not in options:
            for child in node.named_children:
                name = child.child_by_field_name("name") or child
                if name.type == "variable_name":
                    self._locals[-1].setdefault(text_of(name), shell.get(text_of(name)))
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._assign(child, source, shell, export)
            elif child.type == "variable_name" and export:
                before = shell.get(text_of(child))
                if before is not None:
                    shell.layers[-1][text_of(child)] = replace(before, exported=True)
            elif child.type in {"string", "concatenation", "simple_expansion"} and export:
                self._export_words(self._expander(source, shell).word(child), shell)
        return False

    def _export_words(self, text: Text, shell: Shell) -> None:
        for word in split([text]):
            name, equals, value = word.text.partition("=")
            if equals and name.isidentifier():
                made = replace(word, text=value)
                shell.layers[-1][name] = Binding(written(made), exported=True)

    def _environment(self, shell: Shell) -> tuple[Variable, ...]:
        found: dict[str, Binding] = {}
        for layer in shell.layers:
            for name, binding in layer.items():
                found.pop(name, None)
                if binding is not None and binding.exported and not binding.array:
                    found[name] = binding
        self._steps += len(found)
        return tuple(
            variable for name, binding in found.items() for variable in variables(name, binding)
        )

    def _expander(self, source: Source, shell: Shell) -> Expander:
        return Expander(source, shell, self._substitution)


class TooMuch(Exception):
    """The script asks for more work than a script to start servers does."""


def unread(path: str, reason: str) -> Skipped:
    """What of a script could not be read."""
    return Skipped("fork", path, "serve", reason)


def _elements(texts: Sequence[Text]) -> Text:
    """The elements of an array, each ended; those that only some runs have stay choices."""
    tokens: list[Token] = []
    for text in texts:
        if any(isinstance(token, Choice) for token in text):
            tokens.extend((*text, BREAK))
            continue
        for word in split([text]):
            tokens.extend((*word.tokens, BREAK))
    return tuple(tokens)
