"""What the commands of a script do: launches, functions, texts that run, files that are read."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import replace

from tree_sitter import Node

from auditor.serve.scripts.command import launch_of
from auditor.serve.scripts.expansion import printed
from auditor.serve.scripts.state import (
    Binding,
    Shell,
    bindings,
    change_folder,
    exported,
    places,
    set_options,
    written,
)
from auditor.serve.scripts.syntax import (
    PROGRAM,
    head,
    target,
    text_of,
    words_of,
)
from auditor.serve.scripts.values import (
    BREAK,
    Choice,
    Joined,
    Piece,
    Source,
    Spelled,
    Text,
    Token,
    constant,
    each_piece,
    flat,
    scalar,
    split,
)
from auditor.serve.scripts.variables import MOST_BYTES, TooMuch, Variables
from auditor.serve.scripts.words import Setting, Word, requirement_of

_COST_OF_CALL = 20
_MOST_LAUNCHES = 400
_MOST_NESTED = 12
_SCRIPT_NAME = re.compile(r"\.(?:sh|bash|slurm|sbatch|command)$")


class Commands(Variables):
    """Follows commands, on top of what is known of variables."""

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
                raise TooMuch(f"holds more than {_MOST_LAUNCHES} launches; read in part")

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
