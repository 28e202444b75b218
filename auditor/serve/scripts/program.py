"""Reads the launches of Python programs: engines, argument lists, and commands as text.

A small evaluation of strings, lists and dictionaries, in the order of the statements. What it does
not follow stays unresolved: parameters, calls, attributes of objects.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from auditor.errors import Unreadable
from auditor.model import Launch, Skipped, Variable
from auditor.serve.scripts.command import launch_of
from auditor.serve.scripts.evaluate import (
    MOST_ITEMS,
    Dict,
    Evaluator,
    Flag,
    List,
    Nothing,
    Text,
    Value,
    dotted,
)
from auditor.serve.scripts.inner import read_inner, restored
from auditor.serve.scripts.literals import Source
from auditor.serve.scripts.masking import CLOSE, OPEN, Masked, is_masked
from auditor.serve.scripts.traced import Traced
from auditor.serve.scripts.variables import Read
from auditor.serve.scripts.words import Setting, Word

LARGEST = 4 * 1024 * 1024
"""Bytes; a larger file is generated data, and its syntax tree would take gigabytes."""

MOST_LAUNCHES = 1000
DEEPEST = 60

_STARTS = re.compile(
    r"sglang\.launch_server|\bsglang(?:-diffusion)?\s+serve|sglang[._-]router|launch_router"
    r"|launch_server\b|dynamo\.sglang|-m\s+sglang\b"
)
_RUNS = re.compile(
    r"popen|run|call|system|exec|spawn|launch|start|shell|cmd|command|process|serve|remote", re.I
)
_COMMAND = re.compile(
    r"\s*(?:#!|(?:[A-Za-z_]\w*=\S*\s+|export\s[^\n;&]*[\n;&]+\s*|cd\s[^\n;&]*[\n;&]+\s*)*"
    r"(?:exec\s+|nohup\s+|env\s+)*(?:\S*/)?"
    r"(?:python[\d.]*|sglang|docker|podman|srun|torchrun|bash|sh|uv)\s"
    rf"|(?:[A-Za-z_]\w*=\S*\s+)*{OPEN}\w*{CLOSE}\s+-m\s)"
)
_SETTINGS = frozenset({"Engine", "Runtime", "ServerArgs"})
_HOLE = re.compile(f"{OPEN}.*?{CLOSE}")


@dataclass
class _Scope:
    names: dict[str, Value]
    environment: list[Variable]
    depth: int = 0


def read_program(data: bytes, path: str, read: Read) -> tuple[list[Launch], list[Skipped]]:
    """Returns the launches of a Python file, and what of it could not be read.

    ``read`` finds the files that its shell texts source. Raises ``Unreadable`` where the file
    cannot be parsed.
    """
    if len(data) > LARGEST:
        raise Unreadable(f"larger than {LARGEST // 1024 // 1024} MiB of Python")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        program = _Program(text, path, read)
        return program.launches(tree), program.skipped
    except (LookupError, UnicodeDecodeError) as error:
        raise Unreadable(f"cannot be decoded: {error}") from None
    except SyntaxError as error:
        raise Unreadable(f"syntax error at line {error.lineno or 0}: {error.msg}") from None
    except (RecursionError, MemoryError):
        raise Unreadable("nested too deeply") from None
    except ValueError as error:
        raise Unreadable(str(error)) from None


class _Program:
    def __init__(self, data: str, path: str, read: Read) -> None:
        self.source = Source(data)
        self.path = path
        self.read = read
        self.skipped: list[Skipped] = []
        self.found: list[Launch] = []
        self.reported: set[int] = set()
        self.values = Evaluator(self.source)
        self.engines: set[str] = set()
        self.packages: set[str] = set()

    def value(self, node: ast.expr, scope: _Scope) -> Value | None:
        return self.values.value(node, scope.names)

    def hole(self, node: ast.expr, many: bool = False) -> Text:
        return self.values.hole(node, many)

    def launches(self, tree: ast.Module) -> list[Launch]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names = [item for item in node.names if item.name.split(".")[0] == "sglang"]
                self.packages.update(item.asname or item.name.split(".")[0] for item in names)
            elif isinstance(node, ast.ImportFrom):
                if (node.module or "").split(".")[0] == "sglang":
                    taken = [item for item in node.names if item.name in _SETTINGS]
                    self.engines.update(item.asname or item.name for item in taken)
        scope = _Scope({}, [])
        try:
            self.functions(self.block(tree.body, scope), scope)
            self.leftovers(scope)
        except Unreadable as problem:
            self.skipped.append(Skipped("fork", self.path, "serve", f"{problem}; read in part"))
        masked = Masked("", self.values.holes)
        return [restored(launch, masked) for launch in dict.fromkeys(self.found)]

    # Statements

    def functions(self, later: Sequence[ast.stmt], outer: _Scope) -> None:
        """Bodies run when the module is complete, each with what it knows by then."""
        for node in later:
            scope = _Scope(dict(outer.names), list(outer.environment), outer.depth + 1)
            self.values.spend(len(scope.names))
            if scope.depth > DEEPEST:
                raise Unreadable("nested too deeply")
            if isinstance(node, ast.ClassDef):
                before = dict(scope.names)
                inner = self.block(node.body, scope)
                own = {k: v for k, v in scope.names.items() if before.get(k) is not v}
                scope.names = before
                for name, value in own.items():
                    scope.names.update({f"self.{name}": value, f"cls.{name}": value})
                self.functions(inner, scope)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                arguments = node.args
                every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
                every.extend(item for item in (arguments.vararg, arguments.kwarg) if item)
                for item in every:
                    scope.names.pop(item.arg, None)
                self.functions(self.block(node.body, scope), scope)
                self.leftovers(scope, outer)

    def block(self, body: Sequence[ast.stmt], scope: _Scope) -> list[ast.stmt]:
        """Runs statements; what has a body of its own comes back for later."""
        later: list[ast.stmt] = []
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                later.append(node)
                continue
            for expression in _expressions(node):
                self.calls(expression, scope)
            if isinstance(node, ast.Assign):
                value = self.value(node.value, scope)
                for target in node.targets:
                    if value is None and isinstance(target, ast.Subscript):
                        value = self.hole(node.value)
                    self.assign(target, value, scope)
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                self.assign(node.target, self.value(node.value, scope), scope)
            elif isinstance(node, ast.AugAssign):
                name = dotted(node.target)
                if isinstance(node.op, ast.Add) and name in scope.names:
                    added = self.values.sum(scope.names[name], self.value(node.value, scope))
                    self.assign(node.target, added, scope)
            elif isinstance(node, ast.Return) and node.value is not None:
                self.command(self.value(node.value, scope), scope, sure=False)
            elif isinstance(node, ast.If):
                later += self.branches([node.body, node.orelse], scope)
            elif isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
                if isinstance(node, (ast.For, ast.AsyncFor)):
                    self.assign(node.target, self.hole(node.target), scope)
                later += self.branches([node.body, []], scope)
                later += self.block(node.orelse, scope)
            elif isinstance(node, (ast.With, ast.AsyncWith)):
                later += self.block(node.body, scope)
            elif isinstance(node, ast.Try):
                later += self.block(node.body, scope)
                later += self.branches([[], *(item.body for item in node.handlers)], scope)
                later += self.block([*node.orelse, *node.finalbody], scope)
            elif isinstance(node, ast.Match):
                later += self.branches([[], *(case.body for case in node.cases)], scope)
        return later

    def branches(self, bodies: Sequence[Sequence[ast.stmt]], scope: _Scope) -> list[ast.stmt]:
        """Runs each body on its own and joins what they leave behind."""
        scope.depth += 1
        if scope.depth > DEEPEST:
            raise Unreadable("nested too deeply")
        later: list[ast.stmt] = []
        before = dict(scope.names)
        self.values.spend(len(before) * len(bodies))
        known = len(scope.environment)
        outcomes: list[dict[str, Value]] = []
        for body in bodies:
            scope.names = {
                name: List(list(value.items), value.start) if isinstance(value, List) else value
                for name, value in before.items()
            }
            later += self.block(body, scope)
            if not (body and isinstance(body[-1], (ast.Return, ast.Raise, ast.Continue))):
                outcomes.append(scope.names)
        scope.depth -= 1
        scope.environment[known:] = [
            msgspec.structs.replace(variable, conditional=True)
            for variable in scope.environment[known:]
        ]
        scope.names = before
        for name in {name for outcome in outcomes for name in outcome}:
            values = [outcome.get(name) for outcome in outcomes]
            joined = self.values.join(before.get(name), values)
            if joined is None:
                scope.names.pop(name, None)
            else:
                scope.names[name] = joined
        return later

    def assign(self, target: ast.expr, value: Value | None, scope: _Scope) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            for item in target.elts:
                self.assign(item, None, scope)
            return
        if isinstance(target, ast.Subscript):
            key = self.value(target.slice, scope)
            where = self.source.start(target.slice)
            if not isinstance(key, Text) or is_masked(key.text):
                return
            holder = dotted(target.value)
            if holder.endswith("environ"):
                scope.environment.append(self.variable(key.text, value, where))
            elif isinstance(held := scope.names.get(holder), Dict):
                self.values.spend(len(held.items))
                kept = {**held.items, key.text: (value or self.hole(target), where)}
                scope.names[holder] = replace(held, items=kept)
            return
        name = dotted(target)
        if not name:
            return
        if value is None:
            scope.names.pop(name, None)
        else:
            scope.names[name] = value

    def leftovers(self, scope: _Scope, outer: _Scope | None = None) -> None:
        """Commands that were built and given to something that is not followed."""
        for name, value in scope.names.items():
            if outer is None or outer.names.get(name) is not value:
                self.command(value, scope, sure=False)

    # Calls

    def calls(self, expression: ast.expr, scope: _Scope) -> None:
        for node in ast.walk(expression):
            if isinstance(node, ast.Call):
                self.call(node, scope)

    def call(self, node: ast.Call, scope: _Scope) -> None:
        name = dotted(node.func)
        last = name.rsplit(".", 1)[-1] or (
            node.func.attr if isinstance(node.func, ast.Attribute) else ""
        )
        holder = name.rpartition(".")[0]
        if last in _SETTINGS and (name in self.engines or holder in self.packages):
            self.engine(node, name, scope)
        elif last == "popen_launch_server":
            self.fixture(node, scope)
        elif last in {"append", "extend", "insert"} and isinstance(scope.names.get(holder), List):
            self.extend(node, last, holder, scope)
        elif holder.endswith("environ") and last in {"setdefault", "update", "putenv"}:
            self.environ(node, last, scope)
        elif isinstance(held := scope.names.get(holder), Dict) and last in {
            "update",
            "setdefault",
        }:
            self.update(node, last, holder, held, scope)
        elif _RUNS.search(last) and not last.endswith(("Exit", "Error", "Exception")):
            given = [
                keyword for keyword in node.keywords if keyword.arg in {"args", "cmd", "command"}
            ]
            environment = next((k.value for k in node.keywords if k.arg == "env"), None)
            values = [*node.args[:3], *(keyword.value for keyword in given)]
            if last.startswith("exec") and len(node.args) >= 2:
                values = node.args[1:2]
            for argument in values:
                value = self.value(argument, scope)
                self.command(value, self.surrounded(environment, scope), sure=True)

    def surrounded(self, environment: ast.expr | None, scope: _Scope) -> _Scope:
        """The scope as a process sees it that is started with ``env=…``."""
        value = self.value(environment, scope) if environment is not None else None
        if not isinstance(value, Dict):
            return scope
        given = [self.variable(name, v, at) for name, (v, at) in value.items.items()]
        kept = scope.environment if value.inherits or not value.whole else []
        return replace(scope, environment=[*kept, *given])

    def extend(self, node: ast.Call, how: str, holder: str, scope: _Scope) -> None:
        held = scope.names[holder]
        if not isinstance(held, List) or not node.args:
            return
        value = self.value(node.args[-1], scope)
        if how == "extend":
            added = (
                value.items if isinstance(value, List) else [self.hole(node.args[-1], many=True)]
            )
        else:
            added = [value if value is not None else self.hole(node.args[-1])]
        held.items[len(held.items) :] = added[: MOST_ITEMS - len(held.items)]

    def environ(self, node: ast.Call, how: str, scope: _Scope) -> None:
        if how == "update" and node.args:
            value = self.value(node.args[0], scope)
            if isinstance(value, Dict):
                scope.environment.extend(
                    self.variable(name, v, at) for name, (v, at) in value.items.items()
                )
        elif how != "update" and len(node.args) == 2:
            key = self.value(node.args[0], scope)
            if isinstance(key, Text) and not is_masked(key.text):
                value = self.value(node.args[1], scope)
                scope.environment.append(
                    self.variable(key.text, value, self.source.start(node.args[0]))
                )
        for keyword in node.keywords:
            if keyword.arg:
                value = self.value(keyword.value, scope)
                where = self.source.start(keyword)
                scope.environment.append(self.variable(keyword.arg, value, where))

    def update(self, node: ast.Call, how: str, holder: str, held: Dict, scope: _Scope) -> None:
        self.values.spend(len(held.items))
        items = dict(held.items)
        whole = held.whole
        value = self.value(node.args[0], scope) if node.args else None
        if how == "update" and isinstance(value, Dict):
            items.update(value.items)
            whole = whole and value.whole
        elif node.args:
            whole = False
        for keyword in node.keywords:
            if keyword.arg:
                known = self.value(keyword.value, scope) or self.hole(keyword.value)
                items[keyword.arg] = (known, self.source.start(keyword))
        scope.names[holder] = replace(held, items=items, whole=whole)

    def variable(self, name: str, value: Value | None, where: int) -> Variable:
        text = value.text if isinstance(value, Text) else f"${name}"
        resolved = isinstance(value, Text) and not is_masked(text) and not value.alternatives
        return Variable(name, text, self.path, *self.source.position(where), resolved=resolved)

    # Launches

    def engine(self, node: ast.Call, name: str, scope: _Scope) -> None:
        """Keywords are fields of the server's settings: ``tp_size=2`` is ``--tp-size 2``."""
        words: list[Word] = []
        splats: list[Word] = []
        for keyword in node.keywords:
            if keyword.arg is not None:
                value = self.value(keyword.value, scope) or self.hole(keyword.value)
                words.extend(self.setting(keyword.arg, value, self.source.start(keyword)))
                continue
            spread = self.value(keyword.value, scope)
            if isinstance(spread, Dict):
                for key, (value, where) in spread.items.items():
                    words.extend(self.setting(key, value, where))
            if not isinstance(spread, Dict) or not spread.whole:
                splats.append(self.word(self.hole(keyword.value)))
        if name.endswith("ServerArgs") and node.args:
            splats.append(self.word(self.hole(node.args[0])))
        start = replace(self.word(self.hole(node)), text="-m", resolved=True)
        # What is not known stands first: after a flag it would be taken for its value.
        self.add([start, *splats, *words], scope, f"{name}(…)")

    def setting(self, name: str, value: Value, where: int) -> Iterator[Word]:
        if isinstance(value, Nothing):
            return
        line, column = self.source.position(where)
        flag = Word(f"--{name.replace('_', '-')}", self.path, line, column)
        if isinstance(value, Flag):
            yield flag
            if not value.value:
                yield replace(flag, text="false")
        elif isinstance(value, List):
            yield flag
            yield from (self.word(item) for item in value.items)
        elif isinstance(value, Dict):
            yield flag
            yield replace(flag, text="{…}", resolved=False)
        else:
            yield replace(flag, conditional=value.conditional)
            yield self.word(value)

    def fixture(self, node: ast.Call, scope: _Scope) -> None:
        """sglang's ``popen_launch_server(model, url, timeout, other_args=[…], env={…})``."""
        given = {keyword.arg: keyword.value for keyword in node.keywords}
        model = given.get("model", node.args[0] if node.args else None)
        other = given.get("other_args", node.args[4] if len(node.args) > 4 else None)
        words = [replace(self.word(self.hole(node)), text="-m", resolved=True)]
        if model is not None:
            value = self.value(model, scope)
            text = value if isinstance(value, Text) else self.hole(model)
            words.extend((replace(self.word(text), text="--model-path"), self.word(text)))
            words[1] = replace(words[1], resolved=True, alternatives=())
        listed = self.value(other, scope) if other is not None else None
        if isinstance(listed, List):
            words.extend(self.word(item) for item in listed.items)
        elif other is not None:
            words.insert(1, self.word(self.hole(other)))
        scope = self.surrounded(given.get("env"), scope)
        self.add(words, scope, "popen_launch_server(…)")

    def add(self, words: Sequence[Word], scope: _Scope, command: str) -> None:
        if len(self.found) > MOST_LAUNCHES:
            raise Unreadable(f"holds more than {MOST_LAUNCHES} launches")
        self.values.spend(50 * (len(words) + len(scope.environment)))
        program = [words[0], replace(words[0], text="sglang.launch_server")]
        setting = Setting(environment=tuple(scope.environment))
        launch = launch_of([*program, *words[1:]], setting, "python")
        if launch is not None:
            self.found.append(msgspec.structs.replace(launch, command=command))

    def command(self, value: Value | None, scope: _Scope, sure: bool) -> None:
        """Reads a list or a text as a command. ``sure`` says that something runs it."""
        if not isinstance(value, (List, Text)) or (not sure and value.start in self.reported):
            return
        if len(self.found) > MOST_LAUNCHES:
            raise Unreadable(f"holds more than {MOST_LAUNCHES} launches")
        # A launch costs far more than the words that it is made of.
        size = len(value.items) if isinstance(value, List) else len(value.text) // 10
        self.values.spend(50 * (size + len(scope.environment)))
        setting = Setting(environment=tuple(scope.environment))
        before = len(self.found)
        if isinstance(value, List):
            texts: dict[tuple[int, int], Text] = {}
            words = []
            for item in value.items:
                word = self.word(item)
                words.append(word)
                if isinstance(item, Text):
                    texts[word.line, word.column] = item

            def script(word: Word, setting: Setting) -> None:
                if (text := texts.get((word.line, word.column))) is not None:
                    self.run(text, setting)

            launch = launch_of(words, setting, "python", script)
            if launch is not None:
                self.found.append(launch)
        elif _STARTS.search(_HOLE.sub("", value.text)) and (sure or _COMMAND.match(value.text)):
            self.run(value, setting)
        if len(self.found) > before:
            self.reported.add(value.start)

    def run(self, text: Text, setting: Setting) -> None:
        traced = Traced(text.text, text.offsets, text.start)
        position = self.source.position
        launches, skipped = read_inner(traced, self.path, setting, position, "python", self.read)
        if text.conditional or text.alternatives:
            # One of the texts that branches leave; which parts the others share is not known.
            launches = [_conditional(launch) for launch in launches]
        self.found.extend(launches)
        self.skipped.extend(skipped)

    def word(self, value: Value) -> Word:
        if not isinstance(value, Text):
            return Word("{…}", self.path, 1, resolved=False)
        where = value.offsets[0] if value.offsets else value.start
        return Word(
            value.text,
            self.path,
            *self.source.position(where),
            resolved=not is_masked(value.text) and not value.many,
            conditional=value.conditional,
            alternatives=value.alternatives,
        )


def _conditional(launch: Launch) -> Launch:
    return msgspec.structs.replace(
        launch,
        arguments=tuple(
            msgspec.structs.replace(argument, conditional=True) for argument in launch.arguments
        ),
        words=tuple(msgspec.structs.replace(word, conditional=True) for word in launch.words),
    )


def _expressions(node: ast.stmt) -> Iterable[ast.expr]:
    """The expressions of a statement itself, without those of the statements in it."""
    for _, value in ast.iter_fields(node):
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, ast.expr):
                yield item
            elif isinstance(item, ast.withitem):
                yield item.context_expr
