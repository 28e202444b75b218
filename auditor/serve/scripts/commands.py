"""What the commands of a script do: launches, functions, texts that run, files that are read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from auditor.serve.scripts.arithmetic import Unknown
from auditor.serve.scripts.builtins import (
    echoed,
    formatted,
    lines_of,
    printed,
    read_line,
    without_ends,
)
from auditor.serve.scripts.command import launch_of
from auditor.serve.scripts.conditions import Part, Test
from auditor.serve.scripts.expansion import Command, Expander, Redirect, joined_words
from auditor.serve.scripts.state import (
    Binding,
    Capture,
    Shell,
    bindings,
    change_folder,
    exported,
    places,
    set_options,
    written,
)
from auditor.serve.scripts.syntax import PROGRAM, Tree
from auditor.serve.scripts.values import (
    Joined,
    Piece,
    Source,
    Spelled,
    Text,
    constant,
    scalar,
)
from auditor.serve.scripts.variables import (
    MISSING,
    MOST_BYTES,
    Left,
    TooMuch,
    Variables,
    whole,
)
from auditor.serve.scripts.words import SHELLS, Setting, Word, base, requirement_of

_COST_OF_CALL = 20
_MOST_LAUNCHES = 400
_MOST_NESTED = 12
# Commands that are not made to fail: what follows `||` of them is an answer to a broken machine.
_SURE = frozenset(
    {
        *("cd", "pushd", "popd", "export", "source", ".", "set", "mkdir", "rm", "cp", "mv"),
        *("chmod", "pip", "pip3", "uv", "conda", "apt", "apt-get", "echo", "printf", "shift"),
        *("local", "declare", "typeset", "readonly", "unset", "eval", "exec", "trap", "ulimit"),
    }
)
_SILENT = frozenset(
    {":", "true", "false", "mkdir", "rm", "cp", "mv", "chmod", "export", "sleep", "wait", "kill"}
)


class Commands(Variables):
    """Follows commands, on top of what is known of variables."""

    def substitution(self, source: Source, start: int, end: int, shell: Shell) -> Text | None:
        """Follows ``$(…)`` in a shell of its own; what it prints, None where that is not known."""
        self.script.step()
        if len(self.running) >= _MOST_NESTED:
            return None
        data = source.data[start:end]
        if data[:1] == b"<" and b"\n" not in data:
            return None
        inner = shell.inside()
        inner.output = Capture()
        self.running.append("$(")
        try:
            self.run(_Part(source, start, end), inner, Setting(folder=shell.folder))
        except Left as left:
            if left.kind != "exit":
                inner.output.unknown = True
        finally:
            self.running.pop()
        if inner.output.unknown:
            return None
        return without_ends(tuple(inner.output.text))

    def print(self, text: Text | None, shell: Shell) -> None:
        """Keep what a command prints, as far as that is asked for."""
        if shell.output is None:
            return
        if text is None:
            shell.output.unknown = True
        else:
            shell.output.text.extend(text)
            self.script.step(len(text))

    def passed_over(self, shell: Shell) -> None:
        """A statement is not followed: what it may print is not known."""
        if shell.output is not None:
            shell.output.unknown = True

    def command(self, node: Tree, source: Source, shell: Shell, setting: Setting) -> bool | None:
        """Follows a simple command; its status."""
        expander = self.expander(source, shell)
        found = expander.command(node.start, node.end)
        if not found.words:
            for assigned in found.assigned:
                self.assign(assigned, expander, shell, shell.export_all)
            return True
        inner = self.redirected(found.redirects, expander, shell)
        if found.assigned:
            inner = inner.inside()
            before = self.expander(source, inner)
            for assigned in found.assigned:
                self.assign(assigned, before, inner, True)
        decides = constant(found.words[0]) in {"[", "test"}
        words = expander.split(found.words, ask=decides)
        if not words:
            return True
        return self.run_words(words, found, source, shell, inner, setting)

    def redirected(self, redirects: Sequence[Redirect], expander: Expander, shell: Shell) -> Shell:
        """The shell as a command has it whose input and output go elsewhere."""
        inner = shell
        for redirect in redirects:
            if redirect.sign in {">", ">>", "&>", "&>>", ">|"} or (
                redirect.sign == ">&" and whole(redirect.target) != "1"
            ):
                if redirect.descriptor in {"", "1"} or redirect.sign.startswith("&"):
                    inner = replace(inner, output=None if shell.output is None else Capture())
            elif redirect.sign == "<<<":
                text = scalar(expander.settle(redirect.target))
                inner = replace(inner, input=lines_of(text))
            elif redirect.sign == "<":
                known = any(isinstance(t, Piece) and not t.resolved for t in redirect.target)
                text = expander.settle(redirect.target)
                path = constant(text)
                is_file = path is not None and "\n" not in path and "/" in path
                inner = replace(inner, input=None if known or is_file else lines_of(text))
        return inner

    def run_words(
        self,
        words: list[Spelled],
        found: Command,
        source: Source,
        shell: Shell,
        inner: Shell,
        setting: Setting,
    ) -> bool | None:
        """Runs a command; ``inner`` is the shell with what counts for this command only."""
        name, rest = words[0].text, words[1:]
        if name in {"command", "builtin"} and rest and rest[0].text[:1] != "-":
            return self.run_words(rest, found, source, shell, inner, setting)
        if name in self.functions:
            return self.call(words, shell, inner, setting)
        if name in {"exit", "return", "break", "continue"}:
            self._leave(name, rest)
        if name in {"cd", "pushd"}:
            change_folder(rest, shell)
        elif name in {"source", "."} and rest:
            self._source(rest, shell, setting)
        elif name == "set":
            set_options(rest, shell)
        elif name == "shift":
            self._shift(rest, shell)
        elif name in {"read", "mapfile", "readarray"}:
            return self._read_into(name, rest, shell, inner)
        elif name == "getopts":
            return self._getopts(rest, shell)
        elif name == "printf":
            self._printf(rest, shell, inner)
        elif name == "let":
            return self._let(rest, source, shell)
        elif name in {"[", "test"}:
            parts: list[Part] = [_part(word) for word in rest if word.text != "]" or word.resolved]
            if name == "[" and parts and parts[-1] == "]":
                parts.pop()
            return self._test(parts, source, shell)
        elif name == "eval":
            return self.run_text(rest, shell, setting)
        elif name == "echo":
            self.print(echoed(rest), inner)
        elif name in {":", "true"}:
            return True
        elif name == "false":
            return False
        elif name in {"unset", "unalias"}:
            for word in rest:
                if word.text.isidentifier():
                    shell.variables[word.text] = None
        else:
            return self._run_program(words, found, shell, inner, setting)
        return True

    def _run_program(
        self, words: list[Spelled], found: Command, shell: Shell, inner: Shell, setting: Setting
    ) -> bool | None:
        name = words[0].text
        if name in {"pip", "pip3", "uv"} or "install" in [word.text for word in words[1:4]]:
            for pin in map(requirement_of, words):
                if pin is not None and "install" in [word.text for word in words]:
                    self.pins[pin] = None
        if base(name) in SHELLS and len(words) == 1 and inner.input is not None:
            text = tuple(token for line in inner.input for token in line)
            self.follow(text, Shell(dict(exported(shell)), shell.folder, (), shell.script), setting)
            return None
        if name not in _SILENT and base(name) not in SHELLS:
            self.print(printed(words, inner), inner)
        self.launch(words, inner, setting)
        if name == "exec" and len(words) > 1:
            raise Left("exit")
        if name == "exec":
            return True
        return True if base(name) in _SURE else None

    def _leave(self, name: str, rest: Sequence[Spelled]) -> None:
        number = rest[0].text if rest and rest[0].resolved else ""
        count = int(number) if number.isdigit() else None
        if name in {"break", "continue"}:
            raise Left(name, max(1, count or 1))
        status = None if rest and count is None else not count
        raise Left(name, status=status)

    def _shift(self, rest: Sequence[Spelled], shell: Shell) -> None:
        known = not rest or rest[0].text.isdigit()
        count = int(rest[0].text) if rest and known else int(known)
        if shell.arguments is not None:
            shell.arguments = shell.arguments[count:]
        else:
            shell.shifted += count

    def _read_into(
        self, name: str, rest: Sequence[Spelled], shell: Shell, inner: Shell
    ) -> bool | None:
        separators = self.expander(Source(b"", ""), inner).separators()
        reading = replace(shell, input=inner.input)
        if name == "read":
            status, unknown = read_line(rest, reading, separators)
        else:
            status, unknown = True, [w.text for w in rest if w.text.isidentifier()]
            if inner.input is not None and unknown:
                lines = [without_ends(line) for line in inner.input]
                items = {str(at): line for at, line in enumerate(lines)}
                shell.variables[unknown.pop()] = Binding((), items)
        if inner.input is shell.input:
            shell.input = reading.input
        for each in unknown:
            self.forget(each, shell)
        return status

    def _getopts(self, rest: Sequence[Spelled], shell: Shell) -> bool | None:
        """One option of those that the script takes, or none more."""
        if len(rest) < 2 or not rest[0].resolved:
            return None
        letters = [sign for sign in rest[0].text if sign.isalnum()]
        name = rest[1].text
        if shell.arguments is not None and not shell.arguments:
            return False
        turn = sum(1 for key in self.place if key == "getopts")
        if turn >= 2:
            return False
        chosen = self.world.choose(len(letters) + 1)
        if not chosen or not name.isidentifier():
            return False
        self.place.append("getopts")
        letter = letters[chosen - 1]
        self.world.when.append(f"-{letter} is given")
        source = (
            rest[1].tokens[0].source if isinstance(rest[1].tokens[0], Piece) else Source(b"", "")
        )
        shell.variables[name] = Binding((Piece(letter, source, 0, exact=False),))
        self.world.assume_filled(self.forget("OPTARG", shell, outside=True), silently=True)
        return True

    def _printf(self, rest: Sequence[Spelled], shell: Shell, inner: Shell) -> None:
        if len(rest) > 2 and rest[0].text == "-v":
            name, text = rest[1].text, formatted(rest[2:])
            if text is None:
                self.forget(name, shell)
            elif name.isidentifier():
                shell.variables[name] = Binding(self.bounded(text))
            return
        rest = rest[1:] if rest and rest[0].text == "--" else rest
        self.print(formatted(rest) if rest else (), inner)

    def _let(self, rest: Sequence[Spelled], source: Source, shell: Shell) -> bool | None:
        try:
            values = [self.expander(source, shell).number(word.text) for word in rest]
        except Unknown:
            return None
        return bool(values and values[-1])

    def _test(self, parts: Sequence[Part], source: Source, shell: Shell) -> bool:
        """Decides a test."""
        expander = self.expander(source, shell)

        def number(text: str) -> int | None:
            try:
                return expander.number(text)
            except Unknown:
                return None

        def is_set(name: str) -> bool | None:
            if shell.knows(name):
                return shell.get(name) is not None
            return self.world.is_filled(name) if name.isidentifier() else None

        settled = [
            part if isinstance(part, str) else expander.settle(part, ask=True) for part in parts
        ]
        return Test(settled, self.world, is_set, number, shell.shifted).holds()

    def launch(self, words: Sequence[Spelled], shell: Shell, setting: Setting) -> None:
        """Keeps the launch that a command is, and follows the text that it hands to a shell."""
        joined = " ".join(word.text for word in words)
        heard = shell.output is not None and base(words[0].text) in SHELLS
        if not heard and not PROGRAM.search(joined.encode("utf-8", "replace")):
            return
        expander = self.expander(Source(b"", self.script.path), shell)
        around = replace(
            setting,
            environment=self.environment(shell, expander),
            folder=shell.folder,
            pins=(*setting.pins, *self.pins),
        )
        after: list[tuple[Word, Setting]] = []
        found = launch_of(
            words, around, self.script.form, lambda word, inner: after.append((word, inner))
        )
        for word, inner in after:
            arguments = _following(words, word)
            self._handed(words, word, inner, around, shell, arguments)
        if found is not None:
            own = (found.path, found.line, words[0].column, found.arguments, found.environment)
            if own in self.started:
                return
            self.started.add(own)
            self.found.append(((*self.place, found.line, words[0].column), found))
            if len(self.found) > _MOST_LAUNCHES:
                raise TooMuch(f"holds more than {_MOST_LAUNCHES} launches; read in part")

    def _handed(
        self,
        words: Sequence[Spelled],
        word: Word,
        setting: Setting,
        around: Setting,
        shell: Shell,
        arguments: tuple[Text, ...],
    ) -> None:
        """Follows the text that a command hands to another shell, which knows what is exported."""
        inner = Shell(bindings(setting.environment), setting.folder, arguments, shell.script)
        if base(words[0].text) in SHELLS:
            inner.output = shell.output
        if setting.environment[: len(around.environment)] == around.environment:
            own = bindings(setting.environment[len(around.environment) :])
            inner.variables = {**exported(shell), **own}
        functions, self.functions = self.functions, {}
        try:
            self.run_text([word], inner, setting)
        except Left:
            pass
        finally:
            self.functions = functions

    def run_text(self, words: Sequence[Word], shell: Shell, setting: Setting) -> bool | None:
        """Follows words as a script of their own, each part at the place where it was written."""
        texts = [w.tokens if isinstance(w, Spelled) and w.tokens else written(w) for w in words]
        return self.follow(joined_words(texts), shell, setting)

    def follow(self, text: Text, shell: Shell, setting: Setting) -> bool | None:
        """Follows a text of pieces, each at the place where it was written."""
        if len(self.running) >= _MOST_NESTED:
            reason = "a command runs a text that runs a text, and so on; given up"
            self.script.note(self.script.path, reason)
            return None
        expander = self.expander(Source(b"", self.script.path), shell)
        source = Joined(
            self.script.path,
            [token for token in scalar(expander.settle(text)) if isinstance(token, Piece)],
        )
        for name, piece in source.unknown.items():
            shell.variables[name] = Binding((replace(piece, quoted=False, literal=False),))
        self.running.append("text")
        try:
            return self.run(source, shell, setting)
        finally:
            self.running.pop()
            for name in source.unknown:
                shell.variables.pop(name, None)

    def call(
        self, words: Sequence[Spelled], shell: Shell, inner: Shell, setting: Setting
    ) -> bool | None:
        """Calls a function of the script."""
        name, arguments = words[0].text, words[1:]
        self.script.called.add(name)
        self.script.step(_COST_OF_CALL)
        body, root, source = self.functions[name]
        if name in self.running:
            if PROGRAM.search(source.data[body.start : body.end]):
                self.script.note(
                    self.script.path, f"the function {name} calls itself; followed once"
                )
            return None
        if len(self.running) >= 4 * _MOST_NESTED:
            self.script.note(self.script.path, "functions call each other too deeply; given up")
            return None
        own = replace(inner, arguments=tuple(word.tokens for word in arguments), shifted=0)
        self.running.append(name)
        self.locals.append({})
        place = len(self.place)
        self.place.append((words[0].path, words[0].line, words[0].column))
        status: bool | None = None
        try:
            status = self.statement(body, root, source, own, setting)
        except Left as left:
            if left.kind != "return":
                raise
            status = left.status
        finally:
            self.running.pop()
            del self.place[place:]
            for each, before in self.locals.pop().items():
                if before is MISSING:
                    own.variables.pop(each, None)
                else:
                    own.variables[each] = before
            shell.folder, shell.export_all, shell.input = own.folder, own.export_all, own.input
        return status

    def _source(self, words: Sequence[Spelled], shell: Shell, setting: Setting) -> None:
        word = words[0]
        if not word.resolved:
            return
        for path in places(word.text, shell, word.path):
            if f"source {path}" in self.running or path == self.script.path:
                self.script.note(path, "sources itself; followed once")
                return
            data = self.script.read(path)
            if data is None:
                continue
            if len(data) > MOST_BYTES:
                self.script.note(path, f"larger than {MOST_BYTES // 1_000_000} MB")
                return
            if len(self.running) >= _MOST_NESTED:
                self.script.note(path, "sourced too deeply; not read")
                return
            inner = shell
            if len(words) > 1:
                inner = replace(shell, arguments=tuple(each.tokens for each in words[1:]))
            self.running.append(f"source {path}")
            try:
                self.run(self.script.source(path, data), inner, setting)
            except Left as left:
                if left.kind != "return":
                    raise
            finally:
                self.running.pop()
            shell.folder, shell.export_all = inner.folder, inner.export_all
            return


class _Part(Source):
    """A stretch of another source as a text of its own."""

    def __init__(self, source: Source, start: int, end: int) -> None:
        super().__init__(source.data[start:end], source.path)
        self._whole = source
        self._start = start

    def place(self, offset: int) -> tuple[str, int, int]:
        """Where it stands in the whole."""
        return self._whole.place(self._start + offset)


def _part(word: Spelled) -> Part:
    """A word of ``[``: what stands there without quotes may be an operator."""
    plain = len(word.tokens) == 1 and isinstance(word.tokens[0], Piece) and word.tokens[0].literal
    if plain and re.fullmatch(r"!|\(|\)|\]|[<>=]=?|!=|-[a-zA-Z]+", word.text):
        return word.text
    if word.text in {"=", "!=", "==", "(", ")"} or re.fullmatch(r"\\?[<>]", word.text):
        return word.text.lstrip("\\")
    return word.tokens


def _following(words: Sequence[Spelled], word: Word) -> tuple[Text, ...]:
    """The arguments behind the text of ``bash -c``, the first of which is its name."""
    for at, each in enumerate(words):
        if each is word:
            return tuple(own.tokens for own in words[at + 2 :])
    return ()
