"""The statements of a bash script, as a tree that is made once and followed in every run.

The grammar is asked for statements only: the words of a command are read from the text itself
(``expansion``), by the shell's own rules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tree_sitter import Language, Node, Parser
from tree_sitter_bash import language

PROGRAM = re.compile(rb"sglang|launch_server|launch_router|\b(?:smg|amg)\b|sgl-")
"""What stands in every command that starts a server or router."""

_LAUNCH = re.compile(rb"launch_server|launch_router|sglang[\s\\]+serve|\bsmg\b")
_LANGUAGE = Language(language())

# What is within these is read from the text.
_WHOLE = frozenset(
    {
        *("command", "variable_assignment", "variable_assignments", "declaration_command"),
        *("unset_command", "test_command", "comment", "heredoc_body", "word", "string"),
        *("process_substitution", "file_redirect", "herestring_redirect"),
    }
)


@dataclass(frozen=True, eq=False)
class Tree:
    """A statement and its parts; ``fields`` are those parts that the grammar names."""

    kind: str
    start: int
    end: int
    named: bool
    parts: tuple[Tree, ...]
    fields: dict[str, tuple[Tree, ...]]

    def field(self, name: str) -> Tree | None:
        """The first part of a name."""
        found = self.fields.get(name)
        return found[0] if found else None

    @property
    def statements(self) -> list[Tree]:
        """The parts that are statements."""
        return [part for part in self.parts if part.named and part.kind != "comment"]


def node_of(data: bytes) -> Node:
    """The syntax tree of a script as the grammar gives it; its offsets are those of ``data``."""
    return Parser(_LANGUAGE).parse(_parseable(data)).root_node


def parse(data: bytes) -> tuple[Tree, int | None]:
    """The tree of a script, whose offsets are those of ``data``, and where it stops being bash."""
    root = node_of(data)
    return _tree(root), _broken(root, data) if root.has_error else None


def _tree(node: Node) -> Tree:
    parts: list[Tree] = []
    fields: dict[str, tuple[Tree, ...]] = {}
    if node.type not in _WHOLE:
        for index, child in enumerate(node.children):
            part = _tree(child)
            parts.append(part)
            name = node.field_name_for_child(index)
            if name is not None:
                fields[name] = (*fields.get(name, ()), part)
    return Tree(node.type, node.start_byte, node.end_byte, node.is_named, tuple(parts), fields)


def _parseable(data: bytes) -> bytes:
    """The text with what the grammar stumbles over replaced, byte for byte.

    It takes ``\\$`` in some places for the start of an expansion, loses an escaped blank, does not
    know ``3<>file`` nor a comment as the whole of a substitution.
    """
    data = re.sub(rb"(?<!\\)((?:\\\\)*)\\[$ \t]", rb"\1\\_", data)
    data = re.sub(rb"\$(?=[^\w{(@*#?$!'\"-]|$)", b"_", data)
    data = re.sub(rb"`[ \t]*#[^`\n]*`", lambda match: b" " * len(match.group()), data)
    return re.sub(rb"(\d)<>", rb"\1> ", data)


def _broken(root: Node, data: bytes) -> int | None:
    """Where the text stops being bash, as far as that can hide a launch.

    The grammar does not know all of bash (``3<>file``); such a gap within a line hides nothing.
    """
    if not PROGRAM.search(data):
        return None
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.is_missing and node.start_byte >= len(data.rstrip()):
            return node.parent.start_byte if node.parent else node.start_byte
        if node.type == "ERROR":
            content = node.text or b""
            if _LAUNCH.search(content) or node.end_byte >= len(data.rstrip()):
                return node.start_byte
        waiting.extend(child for child in reversed(node.children) if child.has_error)
    return None
