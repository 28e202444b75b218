"""Reads bash: follows a script without running it and collects the launches on its way.

Both sides of a branch are followed, and what only one of them sets is conditional. A value that the
script does not decide stays unresolved; ``${V:-default}`` counts as the default, which is what the
script runs with as long as its caller sets nothing else. The script's own folder is written as in
the path that was given, so a file beside ``scripts/run.sh`` is ``scripts/…``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from tree_sitter import Node

from auditor.model import Launch, Pin, Skipped, Variable
from auditor.serve.scripts.command import Setting, Word, launch_of, requirement_of
from auditor.serve.scripts.expansion import Expander, printed
from auditor.serve.scripts.state import (
    Binding,
    Shell,
    bindings,
    change_folder,
    exported,
    places,
    set_options,
    spelled,
    variables,
    written,
)
from auditor.serve.scripts.syntax import (
    PROGRAM,
    broken,
    clause,
    expanded,
    head,
    is_sure,
    parse,
    set_names,
    target,
    text_of,
    unset_names,
    words_of,
)
from auditor.serve.scripts.values import (
    BREAK,
    MOST_OPTIONS,
    Choice,
    Joined,
    Piece,
    Source,
    Spelled,
    Text,
    Token,
    constant,
    depth,
    each_piece,
    flat,
    join,
    options,
    scalar,
    size,
    split,
)

Read = Callable[[str], bytes | None]
"""Reads a file beside the script by its path, None where there is none that may be read."""

MOST_BYTES = 5_000_000
_MOST_STEPS = 500_000
_COST_OF_CALL = 20
_MOST_SIZE = 20_000
_MOST_DEPTH = 40
_MOST_LAUNCHES = 400
_MOST_NESTED = 12
_MOST_TURNS = 4
_SOURCES = re.compile(rb"\bsource\b|^\s*\.\s", re.MULTILINE)
_SCRIPT_NAME = re.compile(r"\.(?:sh|bash|slurm|sbatch|command)$")


class _TooMuch(Exception):
    """The script asks for more work than a script to start servers does."""


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
        return [], [_skipped(source.path, f"larger than {MOST_BYTES // 1_000_000} MB")]
    if b"\0" in source.data:
        return [], [_skipped(source.path, "binary")]
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


def _skipped(path: str, reason: str) -> Skipped:
    return Skipped("fork", path, "serve", reason)


class _Reader:
    """Follows the statements of one script and of those that it takes in."""

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

    def read(
        self, start: Callable[[Shell], None], setting: Setting
    ) -> tuple[list[Launch], list[Skipped]]:
        """Follows a script from its start; returns all launches, and what could not be read."""
        shell = Shell([bindings(setting.environment)], setting.folder, script=self._path)
        try:
            start(shell)
            self._run_uncalled(setting)
        except _TooMuch as problem:
            self._skipped = [_skipped(self._path, str(problem))]
        except (RecursionError, MemoryError):
            self._skipped = [_skipped(self._path, "nested too deeply; read in part")]
        return list(self._found.values()), self._skipped

    def _note(self, path: str, reason: str) -> None:
        """Keeps what could not be read; each reason once."""
        skipped = _skipped(path, reason)
        if skipped not in self._skipped:
            self._skipped.append(skipped)

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

    def _step(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise _TooMuch("asks for more work than is allowed for one script; read in part")

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

    def _bounded(self, text: Text) -> Text:
        weight = size(text)
        self._steps += weight // 64
        if weight <= _MOST_SIZE and depth(text) <= _MOST_DEPTH and options(text) <= MOST_OPTIONS:
            return text
        self._note(self._path, "a variable grows beyond what is followed; it counts as unknown")
        first = next((token for token in text if isinstance(token, Piece)), None)
        source = first.source if first else Source(b"", self._path)
        return (Piece("", source, first.offset if first else 0, resolved=False),)

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

    # Variables.

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

    # Commands.

    def _expander(self, source: Source, shell: Shell) -> Expander:
        return Expander(source, shell, self._substitution)

    def _substitution(self, node: Node, source: Source, shell: Shell) -> Text | None:
        """Follows ``$(…)`` in a shell of its own; what it prints is known for a few commands."""
        self._step()
        inner = shell.inside()
        commands = [child for child in node.named_children if child.type != "comment"]
        if (
            len(commands) == 1
            and commands[0].type == "list"
            and b"sglang" not in (node.text or b"")
        ):
            parts = commands[0].named_children
            if len(parts) == 2 and head(parts[0]) == "cd" and head(parts[1]) == "pwd":
                self._statement(parts[0], source, inner, Setting())
                return printed([words_of(parts[1], self._expander(source, inner))[0]], inner)
            return None
        if len(commands) == 1 and commands[0].type in {"command", "redirected_statement"}:
            command = commands[0]
            if command.type == "redirected_statement":
                body = command.child_by_field_name("body")
                if body is None or body.type != "command":
                    return None
                command = body
            if head(command) in self._functions:
                return self._printed_by(command, source, inner)
            if head(command) in {"dirname", "basename", "pwd", "realpath", "readlink", "echo"}:
                return printed(words_of(command, self._expander(source, inner)), inner)
        if b"sglang" in (node.text or b"") and len(self._running) < _MOST_NESTED:
            self._running.append("$(")
            self._statements(commands, source, inner, Setting(folder=shell.folder))
            self._running.pop()
        return None

    def _printed_by(self, command: Node, source: Source, shell: Shell) -> Text | None:
        """What a function of the script prints, where it prints with ``echo`` only."""
        words = split(words_of(command, self._expander(source, shell)))
        self._output.append([])
        self._depth.append(len(shell.layers))
        self._call(words[0].text, words[1:], shell, Setting(folder=shell.folder))
        self._depth.pop()
        lines = self._output.pop()
        text: list[Token] = []
        for line in lines:
            if line is None:
                return None
            text.extend((*line, BREAK))
        return scalar(tuple(text)) if text else None

    def _print(self, words: Sequence[Spelled], shell: Shell) -> None:
        """Keeps what a command prints, as far as a function's output is asked for."""
        if not self._output:
            return
        name = words[0].text
        rest = [word for word in words[1:] if word.text not in {"-n", "-e", "%s", "%s\\n"}]
        if name == "echo" or (name == "printf" and len(rest) == len(words) - 2):
            text = scalar(tuple(token for word in rest for token in (*word.tokens, BREAK)))
            sometimes = len(shell.layers) > self._depth[-1]
            self._output[-1].append((Choice(((), text)),) if sometimes else text)
        elif name not in {":", "true", "false", "mkdir", "rm", "export"}:
            self._output[-1].append(None)

    def _command(self, node: Node, source: Source, shell: Shell, setting: Setting) -> bool:
        expander = self._expander(source, shell)
        prefix = [child for child in node.children if child.type == "variable_assignment"]
        words = split(words_of(node, expander))
        if not words:
            return False
        inner = shell
        if prefix:
            inner = shell.inside()
            for assignment in prefix:
                self._assign(assignment, source, inner, True)
        return self._run_words(words, source, shell, inner, setting)

    def _run_words(
        self, words: list[Spelled], source: Source, shell: Shell, inner: Shell, setting: Setting
    ) -> bool:
        """Runs a command; ``inner`` is the shell with the variables written before it."""
        name = words[0].text
        if name in {"command", "builtin"} and len(words) > 1 and words[1].text[:1] != "-":
            return self._run_words(words[1:], source, shell, inner, setting)
        if name in self._functions:
            self._call(name, words[1:], inner if inner is not shell else shell, setting)
            return False
        if name in {"exit", "return"}:
            return True
        if name in {"cd", "pushd"}:
            change_folder(words[1:], shell)
        elif name in {"source", "."} and len(words) > 1:
            self._source(words[1:], shell, setting)
        elif name == "set":
            set_options(words[1:], shell)
        elif name == "shift" and shell.arguments is not None:
            shell.arguments = shell.arguments[1:]
        elif name in {"read", "mapfile", "readarray", "getopts", "let", "printf"}:
            for word in words[1:]:
                if word.text.isidentifier() and (name != "printf" or words[1].text == "-v"):
                    self._forget(word.text, shell)
            if name == "printf" and len(words) > 1 and words[1].text != "-v":
                self._print(words, shell)
        elif name == "eval":
            self._run_text(words[1:], shell, setting)
        else:
            if name in {"pip", "pip3", "uv"} or "install" in [word.text for word in words[1:4]]:
                for pin in map(requirement_of, words):
                    if pin is not None and "install" in [word.text for word in words]:
                        self._pins[pin] = None
            self._print(words, shell)
            self.launch(words, inner, setting)
            return name == "exec" and len(words) > 1
        return False

    def launch(self, words: Sequence[Spelled], shell: Shell, setting: Setting) -> None:
        """Keeps the launch that a command is, and follows the text that it hands to a shell."""
        pieces = (piece for word in words for piece in each_piece(word.tokens))
        if not any(PROGRAM.search(piece.text.encode("utf-8", "replace")) for piece in pieces):
            return
        around = replace(
            setting,
            environment=self._environment(shell),
            folder=shell.folder,
            pins=(*setting.pins, *self._pins),
        )
        found = launch_of(
            words,
            around,
            self._form,
            lambda word, inner: self._handed(word, inner, around, shell),
        )
        if found is not None:
            # The same command on two branches, or in a loop, is one launch.
            environment = tuple((each.name, each.value) for each in found.environment)
            key = (found.path, found.line, found.program, found.arguments, environment)
            self._found.setdefault(key, found)
            if len(self._found) > _MOST_LAUNCHES:
                raise _TooMuch(f"holds more than {_MOST_LAUNCHES} launches; read in part")

    def _handed(self, word: Word, setting: Setting, around: Setting, shell: Shell) -> None:
        """Follows the text that a command hands to another shell, which knows what is exported."""
        inner = Shell([bindings(setting.environment)], setting.folder, (), shell.script)
        if setting.environment[: len(around.environment)] == around.environment:
            inner.layers = [
                exported(shell),
                bindings(setting.environment[len(around.environment) :]),
            ]
        functions, self._functions = self._functions, {}
        self._run_text([word], inner, setting)
        self._functions = functions

    def _run_text(self, words: Sequence[Word], shell: Shell, setting: Setting) -> None:
        """Follows words as a script of their own, each part at the place where it was written."""
        tokens: list[Token] = []
        for word in words:
            own = word.tokens if isinstance(word, Spelled) and word.tokens else written(word)
            tokens.extend((*own, BREAK))
        self.follow(tuple(tokens), shell, setting)

    def follow(self, text: Text, shell: Shell, setting: Setting) -> None:
        """Follows a text of pieces, each at the place where it was written."""
        if len(self._running) >= _MOST_NESTED:
            self._note(self._path, "a command runs a text that runs a text, and so on; given up")
            return
        pieces: list[tuple[Piece, bool]] = []
        for token, conditional in flat(text):
            if isinstance(token, Choice):
                # The alternatives of one word get a name, so that they are read as one word.
                name = f"__choice_{len(pieces)}"
                shell.layers[-1][name] = Binding((token,))
                first = next((item for item in token.options[0] if isinstance(item, Piece)), None)
                if first is not None:
                    pieces.append((replace(first, text=f"${{{name}}}", exact=False), conditional))
            else:
                pieces.append((token, conditional))
        self._running.append("text")
        self.run(Joined(self._path, pieces), shell, setting)
        self._running.pop()

    def _call(
        self, name: str, arguments: Sequence[Spelled], shell: Shell, setting: Setting
    ) -> None:
        self._called.add(name)
        self._steps += _COST_OF_CALL
        if name in self._running:
            if PROGRAM.search(self._functions[name][0].text or b""):
                self._note(self._path, f"the function {name} calls itself; followed once")
            return
        if len(self._running) >= 4 * _MOST_NESTED:
            self._note(self._path, "functions call each other too deeply; given up")
            return
        body, source = self._functions[name]
        inner = replace(shell, arguments=tuple(word.tokens for word in arguments))
        if len(arguments) and any(word.conditional for word in arguments):
            inner.arguments = None
        self._running.append(name)
        self._locals.append({})
        self._statement(body, source, inner, setting)
        shell.layers[-1].update(self._locals.pop())
        self._running.pop()
        shell.folder = inner.folder

    def _source(self, words: Sequence[Spelled], shell: Shell, setting: Setting) -> None:
        word = words[0]
        if not word.resolved or word.alternatives:
            return
        for path in places(word.text, shell, word.path):
            if f"source {path}" in self._running or path == self._path:
                self._note(path, "sources itself; followed once")
                return
            data = self._read(path)
            if data is None:
                continue
            if len(data) > MOST_BYTES:
                self._note(path, f"larger than {MOST_BYTES // 1_000_000} MB")
                return
            if len(self._running) >= _MOST_NESTED:
                self._note(path, "sourced too deeply; not read")
                return
            self._running.append(f"source {path}")
            inner = shell
            if len(words) > 1:
                inner = replace(shell, arguments=tuple(each.tokens for each in words[1:]))
            self.run(Source(data, path), inner, setting)
            self._running.pop()
            return

    # Redirections.

    def _redirected(self, node: Node, source: Source, shell: Shell, setting: Setting) -> bool:
        body = node.child_by_field_name("body")
        ended = False
        if body is not None:
            # What goes to a file or to the other stream is no output of a function.
            self._output.append([])
            self._depth.append(len(shell.layers))
            ended = self._statement(body, source, shell, setting)
            self._output.pop()
            self._depth.pop()
        for redirect in node.children_by_field_name("redirect"):
            if redirect.type == "heredoc_redirect":
                self._heredoc(redirect, node, body, source, shell, setting)
        return ended

    def _heredoc(
        self,
        redirect: Node,
        node: Node,
        body: Node | None,
        source: Source,
        shell: Shell,
        setting: Setting,
    ) -> None:
        """Follows a here-document that a shell gets, or that becomes a script."""
        start = text = None
        piped: list[str] = []
        for child in redirect.named_children:
            if child.type == "heredoc_start":
                start = child
            elif child.type == "heredoc_body":
                text = child
            elif child.type in {"pipeline", "list"}:
                self._statement(child, source, shell.inside(), setting)
                piped += [head(command) for command in child.named_children]
        if start is None or text is None or b"sglang" not in (text.text or b""):
            return
        raw = any(sign in text_of(start) for sign in "\"'\\")
        expander = self._expander(source, shell)
        content = expander.heredoc(text.start_byte, text.end_byte, text.children, raw)
        words = split(words_of(body, expander)) if body is not None else []
        names = [posixpath.basename(word.text) for word in words]
        written = target(node, redirect, expander)
        if names[:1] in (["cat"], ["tee"]):
            written = written or (words[1].text if names[0] == "tee" and len(words) > 1 else "")
            first = constant(content[:1]) or ""
            if _SCRIPT_NAME.search(written) or re.match(r"#!.*\b(?:ba|z|da|k)?sh\b", first):
                functions, self._functions = self._functions, {}
                self.follow(content, Shell([{}], script=written), Setting())
                self._functions = functions
        if {"bash", "sh", "zsh", "ssh", "sbatch"} & {*names, *piped}:
            seen = {} if "ssh" in names else exported(shell)
            self.follow(content, Shell([seen], shell.folder, (), self._path), setting)


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
