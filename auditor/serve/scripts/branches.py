"""Takes the branches of a script that one run takes: ``if``, ``case``, ``&&`` and ``||``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from auditor.serve.scripts.conditions import symbol_of
from auditor.serve.scripts.deciding import Deciding
from auditor.serve.scripts.patterns import matches, pattern
from auditor.serve.scripts.state import Shell
from auditor.serve.scripts.syntax import Tree
from auditor.serve.scripts.values import Source, Text, constant, shown
from auditor.serve.scripts.words import Setting


class Branches(Deciding):
    """Follows the one branch that a run takes, where any of them has a say in a launch."""

    def _if(
        self, node: Tree, root: Tree, source: Source, shell: Shell, setting: Setting
    ) -> bool | None:
        matters = self.script.relevance.matters
        if not matters(root, node):
            self.passed_over(shell)
            return None
        clauses: list[tuple[list[Tree], list[Tree]]] = []
        otherwise: list[Tree] | None = None
        for condition, body in _clauses(node):
            if condition is None:
                otherwise = body
            else:
                clauses.append((condition, body))
        for number, (condition, body) in enumerate(clauses):
            rest = [part for _, each in clauses[number:] for part in each] + (otherwise or [])
            if not any(matters(root, part) for part in rest):
                self.statements(condition, root, source, shell, setting)
                self.passed_over(shell)
                return None
            last = number == len(clauses) - 1 and otherwise is None
            refuse = last and self._ends(body, root, source)
            if refuse and self._refused(condition, root, source, shell, setting):
                continue
            with self.deciding(root, [*body, *rest]):
                held = self._holds(condition, root, source, shell, setting, refuse)
            if held:
                return self.statements(body, root, source, shell, setting)
        if otherwise is not None:
            return self.statements(otherwise, root, source, shell, setting)
        return True

    def _case(
        self, node: Tree, root: Tree, source: Source, shell: Shell, setting: Setting
    ) -> bool | None:
        matters = self.script.relevance.matters
        value = node.field("value")
        if value is None or not matters(root, node):
            self.passed_over(shell)
            return None
        expander = self.expander(source, shell)
        subject = expander.settle(expander.word(value.start, value.end, b"")[0], ask=True)
        known = constant(subject)
        symbol = symbol_of(subject)
        options: list[tuple[list[str | None], list[Tree]]] = []
        for item in node.parts:
            if item.kind != "case_item":
                continue
            values = item.fields.get("value", ())
            body = [part for part in item.parts if part not in values]
            patterns = [
                pattern(expander.pattern_text(each.start, each.end))
                for each in _parted(values, source.data)
            ]
            if known is not None:
                fits = [None if p is None else matches(p, known) for p in patterns]
                if True in fits:
                    options.append((patterns, body))
                    break
                if None not in fits:
                    continue
            options.append((patterns, body))
            if ".*" in patterns:
                break
        if known is not None and len(options) == 1 and options[0][0]:
            return self.statements(options[0][1], root, source, shell, setting)
        chosen = self._chosen(options, symbol, known, subject, root)
        if chosen is None:
            return True
        return self.statements(chosen, root, source, shell, setting)

    def _chosen(
        self,
        options: Sequence[tuple[list[str | None], list[Tree]]],
        symbol: str,
        known: str | None,
        subject: Text,
        root: Tree,
    ) -> list[Tree] | None:
        """The branch of a ``case`` that this run takes; one that does nothing of weight is none."""
        if known is not None and not options:
            return None
        texts = [[_plain(each) for each in patterns] for patterns, _ in options]
        ways: list[int | None] = []
        for number, (_, body) in enumerate(options):
            refused = symbol and all(
                text is not None and self.world.may_equal(symbol, text) is False
                for text in texts[number]
            )
            if not refused and any(self.script.relevance.matters(root, part) for part in body):
                ways.append(number)
        if len(ways) < len(options) or ".*" not in options[-1][0]:
            ways.append(None)  # any of the others, or none at all
        key = ("case", shown(subject), *ways)
        with self.deciding(root, [part for _, body in options for part in body]):
            way = ways[self.world.choose(len(ways), None if symbol else key)]
        last = len(options) if way is None else way
        passed = [
            text
            for number, row in enumerate(texts)
            for text in row
            if text is not None and (number in ways if way is None else number < last)
        ]
        if symbol:
            self._remember(symbol, [] if way is None else texts[way], passed)
        return None if way is None else options[way][1]

    def _remember(self, symbol: str, own: Sequence[str | None], passed: Sequence[str]) -> None:
        """What follows for the subject of a ``case`` of which a branch was taken."""
        if len(own) == 1 and own[0] is not None:
            self.world.set(symbol, own[0])
            return
        self.world.exclude(symbol, passed)
        if own and None not in own:
            self.world.when.append(f"${symbol} is one of {' '.join(filter(None, own))}")

    def _list(
        self, node: Tree, root: Tree, source: Source, shell: Shell, setting: Setting
    ) -> bool | None:
        parts = node.statements
        signs = [part.kind for part in node.parts if not part.named]
        status: bool | None = (
            self.statement(parts[0], root, source, shell, setting) if parts else True
        )
        for part, sign in zip(parts[1:], signs, strict=False):
            if sign not in {"&&", "||"}:
                status = self.statement(part, root, source, shell, setting)
                continue
            if status is None and not self.script.relevance.matters(root, part):
                self.passed_over(shell)
                continue
            if status is None and sign == "||" and self._ends([part], root, source):
                status = True
                continue
            if status is None:
                text = source.data[parts[0].start : part.start].decode("utf-8", "replace")
                question = " ".join(text.rstrip().rstrip("&|").split())
                with self.deciding(root, [part]):
                    status = self.world.holds(question)
            if status == (sign == "&&"):
                status = self.statement(part, root, source, shell, setting)
        return status


def _clauses(node: Tree) -> list[tuple[list[Tree] | None, list[Tree]]]:
    """The conditions of an ``if`` with their bodies; that of ``else`` is None."""
    found: list[tuple[list[Tree] | None, list[Tree]]] = []
    condition: list[Tree] = []
    body: list[Tree] = []
    then = False
    later: list[tuple[list[Tree] | None, list[Tree]]] = []
    for part in node.parts:
        if part.kind == "elif_clause":
            later += _clauses(part)
        elif part.kind == "else_clause":
            later.append((None, list(part.parts)))
        elif part.kind == "then":
            then = True
        elif part.named or part.kind == "&":
            (body if then else condition).append(part)
    found.append((condition, body))
    return found + later


def _parted(values: Sequence[Tree], data: bytes) -> list[Tree]:
    """The patterns of a case item; the grammar parts some that belong together."""
    found: list[Tree] = []
    for each in values:
        if found and found[-1].end == each.start and data[each.start - 1 : each.start] != b"|":
            found[-1] = Tree("word", found[-1].start, each.end, True, (), {})
        else:
            found.append(each)
    return found


def _plain(regex: str | None) -> str | None:
    """The one text that a pattern fits, None where there are more."""
    if regex is None or re.search(r"(?<!\\)[.*\[]", regex):
        return None
    return re.sub(r"\\(.)", r"\1", regex)
