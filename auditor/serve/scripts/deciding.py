"""Decides in one run what a statement asks for: tests, arithmetic, and whether a script ends."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence

from auditor.serve.scripts.arithmetic import Unknown
from auditor.serve.scripts.commands import Commands
from auditor.serve.scripts.conditions import Part
from auditor.serve.scripts.state import Shell
from auditor.serve.scripts.syntax import PROGRAM, Tree
from auditor.serve.scripts.values import Piece, Source, Text
from auditor.serve.scripts.words import Setting

_STOPS = b" \t\n;&|<>()"


class Deciding(Commands):
    """What conditions come to, on top of what commands do."""

    @contextlib.contextmanager
    def deciding(self, root: Tree, nodes: Sequence[Tree]) -> Iterator[None]:
        """While something is decided: whether these statements start anything."""
        before = self.world.urgent, self.world.site, self.world.near
        starts = self.script.relevance.may_start
        self.world.urgent = before[0] or any(starts(root, node) for node in nodes)
        self.world.site = (id(root), nodes[0].start) if nodes else None
        self.world.near = root is self.script.main
        try:
            yield
        finally:
            self.world.urgent, self.world.site, self.world.near = before

    def _sum(self, node: Tree, source: Source, shell: Shell) -> bool | None:
        expander = self.expander(source, shell)
        text = source.data[node.start : node.end]
        start = node.start + 2
        end = node.start + (text.rfind(b"))") if b"))" in text else len(text))
        try:
            return expander.calculated(start, end) != 0
        except Unknown:
            return self._about_arguments(expander.slice(start, end), shell)

    def _about_arguments(self, text: str, shell: Shell) -> bool | None:
        """``(( $# > 0 ))`` where the arguments are not known."""
        match = re.fullmatch(r"\s*\$?#\s*(<=|>=|==|!=|<|>)\s*(\d+)\s*", text)
        if match is None:
            bare = re.fullmatch(r"\s*\$#\s*", text)
            if bare is None or shell.arguments is not None:
                return None
            return self.world.is_filled(str(1 + shell.shifted))
        if shell.arguments is not None:
            return None
        signs = {"<": "-lt", "<=": "-le", ">": "-gt", ">=": "-ge", "==": "-eq", "!=": "-ne"}
        number: Text = (Piece(match.group(2), Source(b"", ""), 0),)
        count = Piece("$#", Source(b"", ""), 0, resolved=False, symbol=f"#{shell.shifted}")
        return self._test([(count,), signs[match.group(1)], number], Source(b"", ""), shell)

    def _bracket(self, node: Tree, source: Source, shell: Shell) -> bool | None:
        """``[ … ]`` and ``[[ … ]]``."""
        data = source.data
        if data[node.start : node.start + 2] == b"((":
            return self._sum(node, source, shell)
        expander = self.expander(source, shell)
        if data[node.start : node.start + 2] != b"[[":
            return self.command(node, source, shell, Setting())
        parts: list[Part] = []
        at, end = node.start + 2, node.end - 2
        regex = False
        while True:
            while at < end and (data[at : at + 1].isspace() or data[at : at + 2] == b"\\\n"):
                at += 1
            if at >= end:
                break
            operator = re.match(rb"&&|\|\||[()!](?=[\s(])|\)|[<>]", data[at:end])
            if operator is not None and not regex:
                parts.append(operator.group().decode())
                at += operator.end()
                continue
            text, after = expander.word(at, end, b" \t\n" if regex else _STOPS)
            if after <= at:
                at += 1
                continue
            raw = data[at:after].decode("utf-8", "replace")
            at = after
            regex = raw == "=~"
            plain = re.fullmatch(r"!|=~|[=!]?=|-[a-zA-Z]+", raw)
            parts.append(raw if plain else text)
        return self._test(parts, source, shell)

    def _ends(self, nodes: Sequence[Tree], root: Tree, source: Source) -> bool:
        """Whether statements surely end the script and start nothing on their way."""
        last = next(
            (node for node in reversed(nodes) if node.named and node.kind != "comment"), None
        )
        if last is None or PROGRAM.search(source.data[nodes[0].start : nodes[-1].end]):
            return False
        if last.kind == "command":
            name = re.match(rb"[\w.-]+", source.data[last.start : last.end])
            called = None if name is None else self.functions.get(name.group().decode())
            if called is not None:
                body, own_root, own = called
                return self._ends(body.statements, own_root, own)
            return name is not None and name.group() == b"exit"
        return last.kind == "compound_statement" and self._ends(last.statements, root, source)

    def _holds(
        self,
        nodes: Sequence[Tree],
        root: Tree,
        source: Source,
        shell: Shell,
        setting: Setting,
        refuse: bool = False,
    ) -> bool:
        """Whether a condition holds in this run; with ``refuse`` where it has to, only."""
        before = len(self.world.taken)
        status = self.statements(nodes, root, source, shell, setting)
        if status is None:
            text = " ".join(
                source.data[node.start : node.end].decode("utf-8", "replace") for node in nodes
            )
            if refuse:
                return False
            status = self.world.holds(" ".join(text.split()))
        del before
        return status

    def _refused(
        self,
        condition: Sequence[Tree],
        root: Tree,
        source: Source,
        shell: Shell,
        setting: Setting,
    ) -> bool:
        """Whether a run goes past a condition on which the script ends without a launch.

        Runs that end there start nothing: they are not followed, and the others know that it did
        not hold.
        """
        if any(node.kind == "test_command" for node in condition) and len(condition) == 1:
            return self.world.otherwise(lambda: bool(self._bracket(condition[0], source, shell)))
        status = self.statements(condition, root, source, shell, setting)
        return not status
