"""Follows the loops of a script, each turn as its own."""

from __future__ import annotations

import re

from auditor.serve.scripts.arithmetic import Unknown
from auditor.serve.scripts.branches import Branches
from auditor.serve.scripts.state import Binding, Shell
from auditor.serve.scripts.syntax import Tree
from auditor.serve.scripts.values import Piece, Source
from auditor.serve.scripts.variables import (
    Left,
)
from auditor.serve.scripts.words import Setting

_MOST_TURNS = 64
_UNKNOWN_TURNS = 2


class Loops(Branches):
    """Turns of loops, those that depend on what is not known at most twice."""

    def _loop(
        self, node: Tree, root: Tree, source: Source, shell: Shell, setting: Setting
    ) -> bool | None:
        body = node.field("body")
        if body is None:
            return None
        place = len(self.place)
        try:
            if node.kind == "for_statement":
                self._for(node, body, root, source, shell, setting)
            elif node.kind == "c_style_for_statement":
                self._counting(node, body, root, source, shell, setting)
            else:
                self._while(node, body, root, source, shell, setting)
        finally:
            del self.place[place:]
        return True

    def _turn(
        self,
        body: Tree,
        number: int,
        root: Tree,
        source: Source,
        shell: Shell,
        setting: Setting,
    ) -> bool:
        """Follows the body of a loop once; whether the loop goes on."""
        place = len(self.place)
        self.place.append(number)
        try:
            self.statement(body, root, source, shell, setting)
        except Left as left:
            if left.kind not in {"break", "continue"}:
                raise
            if left.levels > 1:
                raise Left(left.kind, left.levels - 1) from None
            return left.kind == "continue"
        finally:
            self.place[place:] = [key for key in self.place[place + 1 :] if key == "getopts"]
        return True

    def _for(
        self,
        node: Tree,
        body: Tree,
        root: Tree,
        source: Source,
        shell: Shell,
        setting: Setting,
    ) -> None:
        variable = node.field("variable")
        if variable is None:
            return
        name = source.data[variable.start : variable.end].decode("utf-8", "replace")
        expander = self.expander(source, shell)
        values = node.fields.get("value", ())
        head = source.data[variable.end : body.start]
        start = re.match(rb"\s+in\b", head)
        if start is not None:
            last = max((each.end for each in values), default=variable.end + start.end())
            words = expander.split(expander.texts(variable.end + start.end(), last))
        else:
            words = expander.split([expander.value("@", None, variable.start, variable.end, True)])
        turns = 0
        for word in words:
            many = not word.resolved and any(
                isinstance(t, Piece) and not t.resolved and not t.quoted for t in word.tokens
            )
            if many or (not word.resolved and word.text in {"$@", "${@}"}):
                if not self.world.holds(f"{word.text} is not empty"):
                    continue
                self.forget(name, shell, outside=True)
            else:
                shell.variables[name] = Binding(word.tokens)
            turns += 1
            if turns > _MOST_TURNS or not self._turn(body, turns, root, source, shell, setting):
                break

    def _counting(
        self,
        node: Tree,
        body: Tree,
        root: Tree,
        source: Source,
        shell: Shell,
        setting: Setting,
    ) -> None:
        head = source.data[node.start : body.start]
        match = re.search(rb"\(\(([^;]*);([^;]*);(.*?)\)\)", head, re.DOTALL)
        if match is None:
            return
        expander = self.expander(source, shell)
        spans = [(node.start + match.start(n), node.start + match.end(n)) for n in (1, 2, 3)]
        try:
            expander.calculated(*spans[0])
            turns = 0
            while turns < _MOST_TURNS and (
                match.group(2).strip() == b"" or expander.calculated(*spans[1])
            ):
                turns += 1
                if not self._turn(body, turns, root, source, shell, setting):
                    break
                expander.calculated(*spans[2])
        except Unknown:
            question = " ".join(head.decode("utf-8", "replace").split())
            if self.world.holds(question):
                for name in re.findall(r"[A-Za-z_]\w*", expander.slice(*spans[2])):
                    self.forget(name, shell)
                self._turn(body, 1, root, source, shell, setting)

    def _while(
        self,
        node: Tree,
        body: Tree,
        root: Tree,
        source: Source,
        shell: Shell,
        setting: Setting,
    ) -> None:
        condition = [p for p in node.parts if p.start < body.start and p.named]
        until = source.data[node.start : node.start + 5] == b"until"
        text = source.data[node.start : body.start]
        fixed = re.match(rb"while\s+(?:true|:|\[\s*1\s*\]|\(\(\s*1\s*\)\))", text) is not None
        asked = 0
        for turn in range(1, _MOST_TURNS + 1):
            before = len(self.world.taken)
            if asked >= _UNKNOWN_TURNS:
                # What more arguments would do is not followed.
                break
            status = self.statements(condition, root, source, shell, setting)
            if status is None:
                asked = _UNKNOWN_TURNS if asked else asked
                question = " ".join(text.decode("utf-8", "replace").split())
                if turn > 1 or not self.world.holds(question):
                    break
                asked = _UNKNOWN_TURNS
                for name in _counted(source.data[body.start : body.end]):
                    self.forget(name, shell)
            elif status is until:
                break
            asked += len(self.world.taken) > before
            if not self._turn(body, turn, root, source, shell, setting):
                break
            if fixed:
                break


def _counted(body: bytes) -> list[str]:
    """The variables that a body counts with: of a loop without a known end they are unknown."""
    names = re.findall(rb"([A-Za-z_]\w*)=\$\(\(|\(\(\s*([A-Za-z_]\w*)\s*(?:\+\+|--|[-+*]=)", body)
    return [(one or other).decode() for one, other in names]
