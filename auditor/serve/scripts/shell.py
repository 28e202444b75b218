"""Reads bash: follows the possible runs of a script without running it, and collects launches.

Each run is followed apart (``worlds``): a variable holds one text, and a branch is taken or not. A
value that the script does not decide stays unknown; ``${V:-default}`` counts as the default, which
is what the script runs with as long as its caller sets nothing else. The script's own folder is
written as in the path that was given, so a file beside ``scripts/run.sh`` is ``scripts/…``.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from auditor.model import Launch, Skipped
from auditor.serve.scripts.builtins import lines_of
from auditor.serve.scripts.merging import merged
from auditor.serve.scripts.redirections import Redirections
from auditor.serve.scripts.state import Capture, Shell, bindings, spelled
from auditor.serve.scripts.syntax import PROGRAM, Tree
from auditor.serve.scripts.values import (
    Joined,
    Piece,
    Source,
    Spelled,
    Text,
    shown,
)
from auditor.serve.scripts.variables import (
    MOST_BYTES,
    Left,
    Place,
    Read,
    Script,
    TooMuch,
    unread,
    whole,
)
from auditor.serve.scripts.words import Setting, Word
from auditor.serve.scripts.worlds import Pace, World, explore

_MOST_TURNS = 64
_ENOUGH = 10_000  # steps, after which a run is followed only for a branch that none has taken
_TOO_MUCH = 60_000  # steps, after which none is
_UNKNOWN_TURNS = 2
_SOURCES = re.compile(rb"\bsource\b|^\s*\.\s", re.MULTILINE)
_SCRIPT_NAME = re.compile(r"\.(?:sh|bash|slurm|sbatch|command)$")
_SIMPLE = frozenset(
    {
        *("command", "variable_assignment", "variable_assignments"),
        *("unset_command", "redirected_statement", "pipeline", "subshell"),
    }
)
_ALWAYS = re.compile(
    rb"(?:pip3?|uv|test|true|false|let|:|exit|return|break|continue|shift|set|cd|pushd|popd)\b"
)
_STOPS = b" \t\n;&|<>()"


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
    return _read(
        source.path, form, read, setting, lambda run, shell: run.run(source, shell, setting)
    )


def read_pieces(
    text: Text, path: str, setting: Setting, form: str, read: Read
) -> tuple[list[Launch], list[Skipped]]:
    """Returns the launches of a text that was put together of pieces and is run by a shell."""
    if not PROGRAM.search(shown(text).encode("utf-8", "replace")) and "$" not in shown(text):
        return [], []
    return _read(path, form, read, setting, lambda run, shell: run.follow(text, shell, setting))


def read_words(
    words: Sequence[Word], setting: Setting, form: str, read: Read
) -> tuple[list[Launch], list[Skipped]]:
    """Returns the launches of a command that is given as words, as in ``CMD ["sglang", …]``."""
    if not words:
        return [], []
    command = [w if isinstance(w, Spelled) and w.tokens else spelled(w) for w in words]

    def start(run: _Run, shell: Shell) -> None:
        own = run.expander(Source(b"", command[0].path), shell)
        made: list[Spelled] = []
        for word in command:
            tokens = own.settle(word.tokens)
            if tokens == word.tokens:
                made.append(word)
            elif tokens:
                text = "".join(token.text for token in tokens if isinstance(token, Piece))
                plain = replace(word, text=text, tokens=tokens, alternatives=(), conditional=False)
                made.append(plain)
        run.launch(made, shell, setting)

    return _read(command[0].path, form, read, setting, start)


def _read(
    path: str,
    form: str,
    read: Read,
    setting: Setting,
    start: Callable[[_Run, Shell], object],
) -> tuple[list[Launch], list[Skipped]]:
    """Follows the runs of a script from its start; returns all launches, and what is unread."""
    script = Script(path, form, read)
    found: dict[Place, list[tuple[Launch, tuple[str, ...]]]] = {}
    every = True
    uncalled: set[str] = set()

    def follow(world: World) -> Pace:
        run = _Run(script, world)
        shell = Shell(bindings(setting.environment), setting.folder, script=path)
        try:
            with contextlib.suppress(Left):
                start(run, shell)
            for name in sorted(uncalled & run.functions.keys()):
                run.alone(name, shell, setting)
        except TooMuch as problem:
            script.skipped = [unread(path, str(problem))]
            script.grown = False
        except (RecursionError, MemoryError):
            script.skipped = [unread(path, "nested too deeply; read in part")]
            script.grown = False
        else:
            if script.grown:
                return Pace.NONE  # what was passed over may matter now: from the start
            for place, launch in run.found:
                found.setdefault(place, []).append((launch, tuple(world.when)))
            script.known |= {
                name
                for name, (body, _, source) in run.functions.items()
                if source.path == path and PROGRAM.search(source.data[body.start : body.end])
            }
            if script.steps > _TOO_MUCH:
                return Pace.NONE
            return Pace.ALL if script.steps < _ENOUGH else Pace.NEW
        for place, launch in run.found:
            found.setdefault(place, []).append((launch, tuple(world.when)))
        return Pace.NONE

    for _ in range(_MOST_TURNS):
        script.grown = False
        found.clear()
        every = explore(follow)
        if not script.grown:
            missing = {n for n in script.known - script.called if n not in uncalled}
            if not missing or (script.skipped and script.steps > MOST_BYTES):
                break
            uncalled |= missing
            script.called |= missing
    launches = [merged(rows, joined=not every) for rows in found.values()]
    return _distinct(launches), script.skipped


def _distinct(launches: Sequence[Launch]) -> list[Launch]:
    """The same command on two branches, or in a loop, is one launch."""
    found: dict[tuple[object, ...], Launch] = {}
    for launch in launches:
        environment = tuple((each.name, each.value) for each in launch.environment)
        key = (launch.path, launch.line, launch.program, launch.arguments, environment)
        found.setdefault(key, launch)
    return list(found.values())


class _Run(Redirections):
    """Follows the statements of one script, and of those that it takes in, in one run."""

    def run(self, source: Source, shell: Shell, setting: Setting) -> bool | None:
        """Follows a text in a shell; its status."""
        root, offset = self.script.tree(source.data)
        # A text put together with unknown parts is no valid bash for that reason alone.
        known = not isinstance(source, Joined) or not source.unknown
        if offset is not None and known and not self.script.broken:
            self.script.broken = True
            path, line, _ = source.place(offset)
            reason = f"no valid bash from line {line} on; launches there may be missed"
            self.script.note(path, reason)
        self.script.main = self.script.main or root
        if type(source) is Source and not self.script.relevance.knows(root):
            # What the text before it was passed over for may be used in this one.
            self.script.grown = self.script.grown or self.script.relevance.started
            self.script.relevance.add(root, source.data)
        return self.statements(self._until_last(root), root, source, shell, setting)

    def _until_last(self, root: Tree) -> Sequence[Tree]:
        """The statements of a script up to the last one that starts anything.

        What comes after it, to wait for the server or to measure it, changes no launch.
        """
        if self.running or not self.script.relevance.knows(root):
            return root.parts
        last = self.script.relevance.last_start(root)
        for number, part in enumerate(root.parts):
            # A sign such as ``&`` belongs to the statement before it.
            if part.named and part.start > last:
                return root.parts[:number]
        return root.parts

    def alone(self, name: str, shell: Shell, setting: Setting) -> None:
        """Follows a function that nothing calls, with arguments that are not known."""
        body, root, source = self.functions[name]
        inner = replace(shell.inside(), arguments=None, output=None, input=None)
        self.place = [name]
        self.locals.append({})
        with contextlib.suppress(Left):
            self.statement(body, root, source, inner, setting)
        self.locals.pop()
        self.place = []

    def statements(
        self, nodes: Sequence[Tree], root: Tree, source: Source, shell: Shell, setting: Setting
    ) -> bool | None:
        """Follows statements one after the other; the status of the last one."""
        status: bool | None = True
        for at, node in enumerate(nodes):
            if not node.named or node.kind == "comment":
                continue
            following = nodes[at + 1] if at + 1 < len(nodes) else None
            if following is not None and following.kind == "&":
                with contextlib.suppress(Left):
                    self.statement(node, root, source, shell.inside(), setting)
                status = True
                continue
            status = self.statement(node, root, source, shell, setting)
        return status

    def statement(
        self, node: Tree, root: Tree, source: Source, shell: Shell, setting: Setting
    ) -> bool | None:
        """Follows one statement."""
        self.script.step()
        kind = node.kind
        # What is printed into a substitution is known only if all of it is.
        heard = shell.output is not None
        if kind in _SIMPLE and not heard and not self.script.relevance.matters(root, node):
            if _ALWAYS.match(source.data, node.start) is None:
                return None if kind == "command" else True
        if kind == "command":
            return self.command(node, source, shell, setting)
        if kind in {"variable_assignment", "variable_assignments"}:
            return self.command(node, source, shell, setting)
        if kind == "declaration_command":
            expander = self.expander(source, shell)
            words, rows = expander.declaration(node.start, node.end)
            if words:
                self.declare(words, rows, expander, shell)
            return True
        if kind == "unset_command":
            return self._unset(node, source, shell)
        if kind == "redirected_statement":
            return self._redirected(node, root, source, shell, setting)
        if kind == "test_command":
            return self._bracket(node, source, shell)
        if kind == "if_statement":
            return self._if(node, root, source, shell, setting)
        if kind == "case_statement":
            return self._case(node, root, source, shell, setting)
        if kind == "list":
            return self._list(node, root, source, shell, setting)
        if kind in {"for_statement", "c_style_for_statement", "while_statement"}:
            if not self.script.relevance.matters(root, node):
                self.passed_over(shell)
                return None
            return self._loop(node, root, source, shell, setting)
        if kind == "function_definition":
            name, body = node.field("name"), node.field("body")
            if name is not None and body is not None:
                own = source.data[name.start : name.end].decode("utf-8", "replace")
                self.functions[own] = (body, root, source)
            return True
        if kind == "subshell":
            return self.apart(node.parts, root, source, shell.inside(), setting)
        if kind == "pipeline":
            return self._pipeline(node, root, source, shell, setting)
        if kind == "compound_statement" and source.data[node.start : node.start + 2] == b"((":
            return self._sum(node, source, shell)
        if kind == "negated_command":
            status = self.statements(node.parts, root, source, shell, setting)
            return None if status is None else not status
        if kind in {"compound_statement", "do_group", "program", "ERROR", "else_clause"}:
            return self.statements(node.parts, root, source, shell, setting)
        return None

    def apart(
        self, nodes: Sequence[Tree], root: Tree, source: Source, shell: Shell, setting: Setting
    ) -> bool | None:
        """Follows statements in a shell of their own, which they alone can end."""
        try:
            return self.statements(nodes, root, source, shell, setting)
        except Left as left:
            return left.status

    def _pipeline(
        self, node: Tree, root: Tree, source: Source, shell: Shell, setting: Setting
    ) -> bool | None:
        parts = node.statements
        given = shell.input
        status: bool | None = None
        for at, part in enumerate(parts):
            inner = replace(shell.inside(), input=given)
            if at < len(parts) - 1:
                inner.output = Capture()
            nodes = part.parts if part.kind == "subshell" else [part]
            status = self.apart(nodes, root, source, inner, setting)
            if at < len(parts) - 1 and inner.output is not None:
                known = not inner.output.unknown
                given = lines_of(tuple(inner.output.text)) if known else None
        return status

    def _unset(self, node: Tree, source: Source, shell: Shell) -> bool:
        expander = self.expander(source, shell)
        for text in expander.command(node.start, node.end).words[1:]:
            name = whole(expander.settle(text))
            base_name, bracket, rest = name.partition("[")
            binding = shell.get(base_name)
            if bracket and binding is not None and binding.items is not None:
                items = {k: v for k, v in binding.items.items() if k != rest.rstrip("]")}
                shell.variables[base_name] = replace(binding, items=items)
            elif name.isidentifier():
                shell.variables[name] = None
        return True
