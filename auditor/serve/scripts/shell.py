"""Reads bash: follows a script without running it and collects the launches on its way.

Both sides of a branch are followed, and what only one of them sets is conditional. A value that the
script does not decide stays unresolved; ``${V:-default}`` counts as the default, which is what the
script runs with as long as its caller sets nothing else. The script's own folder is written as in
the path that was given, so a file beside ``scripts/run.sh`` is ``scripts/…``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tree_sitter import Node

from auditor.model import Launch, Skipped
from auditor.serve.scripts.commands import Commands
from auditor.serve.scripts.state import (
    Binding,
    Shell,
    bindings,
    spelled,
)
from auditor.serve.scripts.syntax import (
    PROGRAM,
    broken,
    clause,
    is_sure,
    parse,
    set_names,
    text_of,
    unset_names,
)
from auditor.serve.scripts.values import (
    MOST_OPTIONS,
    Choice,
    Joined,
    Piece,
    Source,
    Spelled,
    Text,
    constant,
    each_piece,
    join,
    split,
)
from auditor.serve.scripts.variables import MOST_BYTES, Read, TooMuch, unread
from auditor.serve.scripts.words import Setting, Word

_MOST_TURNS = 4
_SOURCES = re.compile(rb"\bsource\b|^\s*\.\s", re.MULTILINE)


def read_shell(text: bytes, path: str, read: Read) -> tuple[list[Launch], list[Skipped]]:
    """Returns the launches of a bash script, and what of it could not be read.

    ``path`` is repeated in all places; ``read`` finds the files that the script sources.
    """
    return read_text(Source(text, path), Setting(), "shell", read)


def read_text(
    source: Source, setting: Setting, form: str, read: Read
) -> tuple[list[Launch], list[Skipped]]:
    """Returns the launches of a text that a shell runs and that may stand within another file.

    ``setting`` is what surrounds it there: its environment is known to the text.
    """
    if len(source.data) > MOST_BYTES:
        return [], [unread(source.path, f"larger than {MOST_BYTES // 1_000_000} MB")]
    if b"\0" in source.data:
        return [], [unread(source.path, "binary")]
    if not PROGRAM.search(source.data) and not _SOURCES.search(source.data):
        return [], []
    reader = _Reader(source.path, form, read)
    return reader.read(lambda shell: reader.run(source, shell, setting), setting)


def read_pieces(
    text: Text, path: str, setting: Setting, form: str, read: Read
) -> tuple[list[Launch], list[Skipped]]:
    """Returns the launches of a text that was put together of pieces and is run by a shell."""
    if not any(PROGRAM.search(piece.text.encode("utf-8", "replace")) for piece in each_piece(text)):
        return [], []
    reader = _Reader(path, form, read)
    return reader.read(lambda shell: reader.follow(text, shell, setting), setting)


def read_words(
    words: Sequence[Word], setting: Setting, form: str, read: Read
) -> tuple[list[Launch], list[Skipped]]:
    """Returns the launches of a command that is given as words, as in ``CMD ["sglang", …]``."""
    command = [
        word if isinstance(word, Spelled) and word.tokens else spelled(word) for word in words
    ]
    if not command:
        return [], []
    reader = _Reader(command[0].path, form, read)
    return reader.read(lambda shell: reader.launch(command, shell, setting), setting)


class _Reader(Commands):
    """Follows the statements of one script and of those that it takes in."""

    def read(
        self, start: Callable[[Shell], None], setting: Setting
    ) -> tuple[list[Launch], list[Skipped]]:
        """Follows a script from its start; returns all launches, and what could not be read."""
        shell = Shell([bindings(setting.environment)], setting.folder, script=self._path)
        try:
            start(shell)
            self._run_uncalled(setting)
        except TooMuch as problem:
            self._skipped = [unread(self._path, str(problem))]
        except (RecursionError, MemoryError):
            self._skipped = [unread(self._path, "nested too deeply; read in part")]
        return list(self._found.values()), self._skipped

    def run(self, source: Source, shell: Shell, setting: Setting) -> None:
        """Follows a text in a shell."""
        root = parse(source.data)
        # A text put together with unknown parts is no valid bash for that reason alone.
        known = not isinstance(source, Joined) or source.known
        offset = broken(root, source.data) if root.has_error and known else None
        if offset is not None and not self._broken:
            self._broken = True
            path, line, _ = source.place(offset)
            self._note(path, f"no valid bash from line {line} on; launches there may be missed")
        self._statements(root.children, source, shell, setting)
        self._last = shell

    def _run_uncalled(self, setting: Setting) -> None:
        """Follows the functions that nothing called, with arguments that are not known."""
        for name, (body, source) in list(self._functions.items()):
            if name not in self._called and source.path == self._path and self._last is not None:
                self._called.add(name)
                shell = self._last.inside()
                shell.arguments = None
                self._statement(body, source, shell, setting)

    # Statements. Each says whether it surely ends the script or function.

    def _statements(
        self, nodes: Sequence[Node], source: Source, shell: Shell, setting: Setting
    ) -> bool:
        ended = False
        for node in nodes:
            if node.is_named and node.type != "comment":
                ended = self._statement(node, source, shell, setting) or ended
        return ended

    def _statement(self, node: Node, source: Source, shell: Shell, setting: Setting) -> bool:
        self._step()
        kind = node.type
        if kind == "command":
            return self._command(node, source, shell, setting)
        if kind in {"variable_assignment", "variable_assignments"}:
            for assignment in [node] if kind == "variable_assignment" else node.children:
                self._assign(assignment, source, shell, shell.export_all)
            return False
        if kind == "declaration_command":
            return self._declare(node, source, shell)
        if kind == "unset_command":
            for child in node.named_children:
                if child.type in {"variable_name", "word"}:
                    shell.layers[-1][text_of(child)] = None
            return False
        if kind == "redirected_statement":
            return self._redirected(node, source, shell, setting)
        if kind == "if_statement":
            return self._if(node, source, shell, setting)
        if kind == "case_statement":
            return self._case(node, source, shell, setting)
        if kind == "list":
            return self._list(node, source, shell, setting)
        if kind in {"for_statement", "c_style_for_statement", "while_statement"}:
            return self._loop(node, source, shell, setting)
        if kind == "function_definition":
            name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
            if name is not None and body is not None:
                self._functions[text_of(name)] = (body, source)
            return False
        if kind in {"subshell", "pipeline"}:
            for part in [node] if kind == "subshell" else node.named_children:
                nodes = part.children if part.type == "subshell" else [part]
                self._statements(nodes, source, shell.inside(), setting)
            return False
        if kind == "compound_statement" and node.children and text_of(node.children[0]) == "((":
            self._unknown_names(node, shell)
            return False
        if kind in {"compound_statement", "do_group", "program", "negated_command", "ERROR"}:
            return self._statements(node.children, source, shell, setting)
        return False

    def _branches(
        self,
        bodies: Sequence[tuple[Sequence[Node], tuple[str, ...]]],
        complete: bool,
        source: Source,
        shell: Shell,
        setting: Setting,
    ) -> bool:
        """Follows each body from the same state and joins what they leave.

        The names beside a body are variables that the body runs for only while they are unset.
        """
        layers: list[tuple[dict[str, Binding | None], tuple[str, ...]]] = []
        folders = {shell.folder} if not complete else set()
        ends = 0
        for nodes, unset in bodies:
            inner = shell.inside()
            if self._statements(nodes, source, inner, setting):
                ends += 1
                continue
            layers.append((inner.layers[-1], unset))
            folders.add(inner.folder)
        if not complete:
            layers.append(({}, ()))
        for name in dict.fromkeys(name for layer, _ in layers for name in layer):
            joined = self._joined(name, layers, shell)
            # Unset on one branch and never set on the other: its caller may have set it.
            if joined is not None or all(name in layer for layer, _ in layers):
                shell.layers[-1][name] = joined
        if len(folders) == 1:
            (shell.folder,) = folders
        elif folders:
            shell.folder = ""
        return complete and ends == len(bodies)

    def _joined(
        self,
        name: str,
        layers: Sequence[tuple[dict[str, Binding | None], tuple[str, ...]]],
        shell: Shell,
    ) -> Binding | None:
        before = shell.get(name)
        result: Binding | None = None
        first = True
        for layer, _ in layers:
            binding = layer.get(name, before)
            if binding is None and any(name in unset for _, unset in layers):
                continue
            if first:
                result, first = binding, False
                continue
            if result is None and binding is None:
                continue
            one, other = result or Binding(()), binding or Binding(())
            result = Binding(
                self._bounded(join(one.text, other.text)),
                array=one.array or other.array,
                exported=one.exported or other.exported,
            )
        return result

    def _if(self, node: Node, source: Source, shell: Shell, setting: Setting) -> bool:
        bodies: list[tuple[Sequence[Node], tuple[str, ...]]] = []
        complete = False
        clauses: list[tuple[list[Node], list[Node]]] = [([], [])]
        otherwise: list[Node] | None = None
        then = False
        for child in node.children:
            if child.type == "elif_clause":
                clauses.append(clause(child))
            elif child.type == "else_clause":
                otherwise = child.children
            elif child.type == "then":
                then = True
            elif child.is_named:
                clauses[0][1 if then else 0].append(child)
        for condition, body in clauses:
            self._statements(condition, source, shell, setting)
            truth = self._truth(condition, source, shell)
            if truth is False:
                continue
            bodies.append((body, unset_names(condition)))
            if truth is True:
                complete = True
                break
        if not complete and otherwise is not None:
            unset = set_names(clauses[0][0]) if len(clauses) == 1 else ()
            bodies.append((otherwise, unset))
            complete = True
        if complete and len(bodies) == 1:
            return self._statements(bodies[0][0], source, shell, setting)
        return self._branches(bodies, complete, source, shell, setting)

    def _truth(self, condition: Sequence[Node], source: Source, shell: Shell) -> bool | None:
        """Whether a single comparison holds; None where the script alone does not decide it."""
        if len(condition) != 1 or condition[0].type != "test_command":
            return None
        tests = condition[0].named_children
        if len(tests) != 1 or tests[0].type != "binary_expression":
            return None
        left, right = (tests[0].child_by_field_name(side) for side in ("left", "right"))
        operator = tests[0].child_by_field_name("operator")
        if left is None or right is None or operator is None:
            return None
        expander = self._expander(source, shell)
        one = constant(expander.word(left, True), soft=False)
        other = constant(expander.word(right, True), soft=False)
        if one is None or other is None or text_of(operator) not in {"=", "==", "!="}:
            return None
        if any(sign in other for sign in "*?["):
            return None
        return (one == other) == (text_of(operator) != "!=")

    def _case(self, node: Node, source: Source, shell: Shell, setting: Setting) -> bool:
        value = node.child_by_field_name("value")
        expander = self._expander(source, shell)
        subject = None if value is None else constant(expander.word(value, True), soft=False)
        bodies: list[tuple[Sequence[Node], tuple[str, ...]]] = []
        complete = False
        for item in node.named_children:
            if item.type != "case_item":
                continue
            patterns = [text_of(pattern) for pattern in item.children_by_field_name("value")]
            plain = [pattern.strip("\"'") for pattern in patterns]
            body = [
                child
                for index, child in enumerate(item.children)
                if item.field_name_for_child(index) not in {"value", "termination"}
            ]
            anything = "*" in patterns
            wild = any(sign in pattern for pattern in plain for sign in "*?[$")
            if subject is not None and not anything and not wild and subject not in plain:
                continue
            bodies.append((body, ()))
            if anything or (subject is not None and not wild):
                complete = True
                break
        if complete and len(bodies) == 1:
            return self._statements(bodies[0][0], source, shell, setting)
        return self._branches(bodies, complete, source, shell, setting)

    def _list(self, node: Node, source: Source, shell: Shell, setting: Setting) -> bool:
        parts = [child for child in node.children if child.is_named and child.type != "comment"]
        if len(parts) < 2:
            return self._statements(parts, source, shell, setting)
        operator = next((text_of(child) for child in node.children if not child.is_named), "")
        left, right = parts[0], parts[1:]
        ended = self._statement(left, source, shell, setting)
        if operator == "&&":
            last = left
            while last.type == "list" and last.named_children:
                last = last.named_children[-1]
            if is_sure(last):
                return self._statements(right, source, shell, setting) or ended
            truth = self._truth([left], source, shell)
            if truth is not None:
                return truth and self._statements(right, source, shell, setting)
            self._branches([(right, unset_names([left]))], False, source, shell, setting)
            return ended
        self._branches([(right, set_names([left]))], False, source, shell, setting)
        return ended

    def _loop(self, node: Node, source: Source, shell: Shell, setting: Setting) -> bool:
        """Follows the body once, with each value that a list of words gives the variable."""
        body = node.child_by_field_name("body")
        if body is None:
            return False
        self._counted(body, shell)
        sure = False
        variable = node.child_by_field_name("variable")
        if node.type == "for_statement" and variable is not None:
            expander = self._expander(source, shell)
            values = split([expander.word(value) for value in node.children_by_field_name("value")])
            sure = bool(values) and all(not word.conditional for word in values)
            known = sure and all(word.resolved and not word.alternatives for word in values)
            if known and len(values) <= _MOST_TURNS and not self._unrolled:
                # `for role in prefill decode` starts two servers, not one of either.
                self._unrolled = True
                for word in values:
                    shell.layers[-1][text_of(variable)] = Binding(word.tokens)
                    self._statement(body, source, shell, setting)
                self._unrolled = False
                return False
            shell.layers[-1][text_of(variable)] = Binding(self._one_of(values, variable, source))
        else:
            self._unknown_names(node, shell, below=body)
            condition = [child for child in node.named_children if child.id != body.id]
            self._statements(condition, source, shell, setting)
        if sure:
            self._statement(body, source, shell, setting)
        else:
            self._branches([([body], ())], False, source, shell, setting)
        return False

    def _one_of(self, values: Sequence[Spelled], variable: Node, source: Source) -> Text:
        known = values and all(word.resolved and not word.alternatives for word in values)
        if not known:
            name = f"${text_of(variable)}"
            return (Piece(name, source, variable.start_byte, resolved=False, exact=False),)
        texts = tuple({word.text: word.tokens for word in values}.values())
        if len(texts) > MOST_OPTIONS:
            return (Piece(f"${text_of(variable)}", source, 0, resolved=False, exact=False),)
        return texts[0] if len(texts) == 1 else (Choice(texts),)

    # Commands.

    # Redirections.
