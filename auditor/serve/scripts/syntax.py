"""What the nodes of a bash syntax tree say, apart from any run."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tree_sitter import Language, Node, Parser
from tree_sitter_bash import language

from auditor.serve.scripts.expansion import Expander
from auditor.serve.scripts.values import Text, split

PROGRAM = re.compile(rb"sglang|launch_server|launch_router|\b(?:smg|amg)\b|sgl-")
"""What stands in every command that starts a server or router."""

_LAUNCH = re.compile(rb"launch_server|launch_router|sglang[\s\\]+serve|\bsmg\b")
# Commands whose failure ends what follows them, so `cd x && run` is no choice.
_SURE = frozenset(
    {
        *("cd", "pushd", "export", "source", ".", "set", "mkdir", "rm", "cp", "mv", "chmod"),
        *("pip", "pip3", "uv", "conda", "apt", "apt-get", "echo", ":"),
    }
)
_LANGUAGE = Language(language())


def parse(data: bytes) -> Node:
    """The tree of a script; its offsets are those of ``data``."""
    return Parser(_LANGUAGE).parse(_parseable(data)).root_node


def target(node: Node, redirect: Node, expander: Expander) -> str:
    """The file that a redirected command writes, as far as known."""
    for child in (*node.named_children, *redirect.named_children):
        if child.type == "file_redirect" and any(
            part.type in {">", ">>"} for part in child.children
        ):
            destination = child.child_by_field_name("destination")
            if destination is not None:
                words = split([expander.word(destination)])
                return words[0].text if words else ""
    return ""


def text_of(node: Node) -> str:
    """The text of a node."""
    return (node.text or b"").decode("utf-8", "replace")


def _parseable(data: bytes) -> bytes:
    """The text with what the grammar stumbles over replaced, byte for byte.

    It takes ``\\$`` in some places for the start of an expansion, loses an escaped blank and does
    not know ``3<>file``.
    """
    data = re.sub(rb"(?<!\\)((?:\\\\)*)\\[$ \t]", rb"\1\\_", data)
    return re.sub(rb"(\d)<>", rb"\1> ", data)


def broken(root: Node, data: bytes) -> int | None:
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


def clause(node: Node) -> tuple[list[Node], list[Node]]:
    """The condition and the body of an ``elif``."""
    parts: tuple[list[Node], list[Node]] = ([], [])
    then = False
    for child in node.children:
        if child.type == "then":
            then = True
        elif child.is_named:
            parts[1 if then else 0].append(child)
    return parts


def head(node: Node) -> str:
    """The name of a command as written, empty for anything else."""
    if node.type == "redirected_statement":
        body = node.child_by_field_name("body")
        return head(body) if body is not None else ""
    name = node.child_by_field_name("name") if node.type == "command" else None
    return text_of(name) if name is not None else ""


def is_sure(node: Node) -> bool:
    """Whether a command is not made to fail, so that what follows ``&&`` is no branch."""
    if node.type in {"declaration_command", "variable_assignment", "function_definition"}:
        return True
    return head(node) in _SURE


def _names(condition: Sequence[Node], signs: frozenset[str]) -> tuple[str, ...]:
    found: list[str] = []
    for node in condition:
        match = re.fullmatch(
            r"(?:\[\[?|test)\s+(!\s*)?(-[zn])\s+\"?\$\{?(\w+)(?::?-)?\}?\"?\s*\]{0,2}",
            text_of(node),
        )
        if match and ("!" if match.group(1) else "") + match.group(2) in signs:
            found.append(match.group(3))
    return tuple(found)


def unset_names(condition: Sequence[Node]) -> tuple[str, ...]:
    """The variables that a condition asks to be empty: setting one there gives it a default."""
    return _names(condition, frozenset({"-z", "!-n"}))


def set_names(condition: Sequence[Node]) -> tuple[str, ...]:
    """The variables that a condition asks to hold something."""
    return _names(condition, frozenset({"-n", "!-z"}))


def words_of(node: Node, expander: Expander) -> list[Text]:
    """The expanded words of a simple command, not yet split."""
    if node.type == "redirected_statement":
        body = node.child_by_field_name("body")
        return words_of(body, expander) if body is not None else []
    if node.type != "command":
        return []
    nodes: list[Node] = []
    for index, child in enumerate(node.children):
        if child.is_named and node.field_name_for_child(index) in {"name", "argument"}:
            command = child.type == "command_name" and child.child_count == 1
            nodes.append(child.children[0] if command else child)
    return expanded(nodes, expander)


def expanded(nodes: Sequence[Node], expander: Expander) -> list[Text]:
    """The words that nodes stand for; the grammar parts some words that have no blank between."""
    words: list[Text] = []
    end = -1
    for node in nodes:
        text = expander.word(node)
        if node.start_byte == end and words:
            words[-1] = words[-1] + text
        else:
            words.append(text)
        end = node.end_byte
    return words
