"""The server's command line options, as the tree declares them in any of its three eras."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from auditor.serve.tables.constants import UNKNOWN, Module, Tree, evaluate, lookup, mro, run
from auditor.serve.tables.declarations import Keywords, by_type, flag_of
from auditor.serve.tables.facts import Flag
from auditor.serve.tables.modules import definitions
from auditor.serve.tables.nodes import function_in, is_false, last_name
from auditor.serve.tables.readers import generic, given_type
from auditor.serve.tables.values import (
    ClassValue,
    FunctionValue,
    members,
)

SERVER_ARGS = "sglang/srt/server_args.py"
"""The file of the server's settings; it never moved between 0.5.5 and 0.5.23."""

_ENTRY = "prepare_server_args"
_CLI = "sglang/cli/"

_DEEPEST = 8
_GROUPS = {"add_argument_group", "add_mutually_exclusive_group"}


class Resolution(NamedTuple):
    """What argparse makes of one word: the option meant, or those that it could be.

    ``name`` is the full spelling of the option and ``value`` what followed ``=``; ``names`` are the
    spellings that an ambiguous word begins.
    """

    kind: Literal["exact", "prefix", "ambiguous", "unknown"]
    flag: Flag | None = None
    name: str = ""
    names: tuple[str, ...] = ()
    value: str | None = None


def resolve(flags: Iterable[Flag], text: str) -> Resolution:
    """The option that argparse takes a word for, prefixes allowed (``allow_abbrev``).

    A full spelling wins, then the only one that the word begins; the rest after ``=`` is a value.
    """
    spellings = {
        name: flag for flag in flags for name in (*flag.names, *flag.negation)
    }  # a later option may take over an earlier one's name, as with conflict_handler="resolve"
    if text in spellings:
        return Resolution("exact", spellings[text], text)
    head, equals, tail = text.partition("=")
    value = tail if equals else None
    if equals and head in spellings:
        return Resolution("exact", spellings[head], head, value=value)
    if not head.startswith("-"):
        return Resolution("unknown", value=value)
    if not head.startswith("--") and head[:2] in spellings and len(head) > 2:
        return Resolution("prefix", spellings[head[:2]], head[:2], value=text[2:])
    names = tuple(sorted(name for name in spellings if name.startswith(head)))
    if len(names) == 1:
        return Resolution("prefix", spellings[names[0]], names[0], value=value)
    kind: Literal["ambiguous", "unknown"] = "ambiguous" if names else "unknown"
    return Resolution(kind, names=names, value=value)


def flags(tree: Tree) -> tuple[Flag, ...]:
    """All options that the server's parser gets, in the order in which it gets them.

    The parser is followed from where it is made through every function and class that it is handed
    to. An option whose name the text does not tell is noted in the tree.
    """
    module = tree.module(SERVER_ARGS)
    if module is None:
        return ()
    reader = _Reader(tree)
    entry = function_in(module.body, _ENTRY)
    owner = module.classes.get("ServerArgs")
    if entry is not None:
        reader.entry(module, entry)
    elif owner is not None:
        reader.add_cli_args(module, owner)
    for path in sorted(path for path in tree.paths if path.startswith(_CLI)):
        reader.words(path)
    return tuple(reader.found.values())


def fields(tree: Tree) -> dict[str, Field]:
    """The settings of the server by name, with and without an option of their own."""
    module = tree.module(SERVER_ARGS)
    owner = module.classes.get("ServerArgs") if module else None
    if module is None or owner is None:
        return {}
    return {field.name: field for field in _fields(ClassValue(module, owner))}


class Field(NamedTuple):
    """A setting as its class declares it; ``default`` is ``UNKNOWN`` where there is none."""

    name: str
    module: Module
    node: ast.AnnAssign
    annotation: ast.expr
    default: object


class _Reader:
    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.found: dict[str, Flag] = {}

    def add(self, flag: Flag) -> None:
        self.found.setdefault(flag.names[0], flag)

    def entry(self, module: Module, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """The function that makes the parser; argparse adds ``--help`` itself."""
        made: dict[str, ast.Call] = {}
        for node in definitions(function.body):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                    if last_name(call.func).endswith("ArgumentParser"):
                        made[name] = call
        for name, call in made.items():
            if not any(k.arg == "add_help" and is_false(k.value) for k in call.keywords):
                line = call.lineno
                about = "show this help message and exit"
                self.add(Flag(("-h", "--help"), "help", module.path, line, None, False, help=about))
            scope = _locals(module, function.body, {})
            self.follow(module, function.body, frozenset({name}), scope, 0)

    def add_cli_args(self, module: Module, owner: ast.ClassDef) -> None:
        method = function_in(owner.body, "add_cli_args")
        if method is not None:
            names = [a.arg for a in method.args.args if a.arg not in ("self", "cls")]
            scope = _locals(module, method.body, {})
            self.follow(module, method.body, frozenset(names[:1]), scope, 0)

    def follow(
        self,
        module: Module,
        body: Sequence[ast.stmt],
        parsers: frozenset[str],
        scope: Mapping[str, object],
        depth: int,
    ) -> None:
        """Read the statements that a parser goes through, ``parsers`` being its names there."""
        known = set(parsers)
        for node in definitions(body):
            value = getattr(node, "value", None)
            if not isinstance(value, ast.Call):
                continue
            if isinstance(node, ast.Assign) and self.is_parser(value, known):
                known.update(t.id for t in node.targets if isinstance(t, ast.Name))
            function = value.func
            if isinstance(function, ast.Attribute) and self.is_parser(function.value, known):
                if function.attr == "add_argument":
                    self.argument(module, value, scope, body)
            elif depth < _DEEPEST:
                self.handed(module, value, known, scope, depth)

    def is_parser(self, node: ast.expr, parsers: set[str]) -> bool:
        match node:
            case ast.Name(id=name):
                return name in parsers
            case ast.Call(func=ast.Attribute(value=inner, attr=attr)):
                return attr in _GROUPS and self.is_parser(inner, parsers)
        return False

    def handed(
        self,
        module: Module,
        call: ast.Call,
        parsers: set[str],
        scope: Mapping[str, object],
        depth: int,
    ) -> None:
        """A call that is given the parser: the function's own options, or those of a class."""
        given: list[tuple[str | int, ast.expr]] = list(enumerate(call.args))
        given += [(k.arg, k.value) for k in call.keywords if k.arg]
        where = [key for key, value in given if self.is_parser(value, parsers)]
        if not where:
            return
        for _, value in given:
            owner = self.class_of(module, value, scope)
            declared = [f for f in _fields(owner) if _is_annotated(f)] if owner else []
            if declared:
                for field in declared:
                    self.field(field)
                return
        target = self.function_of(module, call.func, scope)
        if target is None:
            return
        node = target.node
        if isinstance(node, ast.Lambda):
            return
        names = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
        if target.owner is not None and not _is_static(node):
            names = names[1:]
        bound = {
            names[key] if isinstance(key, int) else key: value
            for key, value in given
            if not isinstance(key, int) or key < len(names)
        }
        inner = {
            name: evaluate(value, module, scope)
            for name, value in bound.items()
            if not self.is_parser(value, parsers)
        }
        handed = frozenset(n for n, value in bound.items() if self.is_parser(value, parsers))
        scope = _locals(target.module, node.body, inner)
        self.follow(target.module, node.body, handed, scope, depth + 1)

    def class_of(
        self, module: Module, node: ast.expr, scope: Mapping[str, object]
    ) -> ClassValue | None:
        value = evaluate(node, module, scope)
        if isinstance(value, ClassValue):
            return value
        # A later statement may have put a class that is made at run time in its place.
        if isinstance(node, ast.Name) and node.id in module.classes:
            return ClassValue(module, module.classes[node.id])
        return None

    def function_of(
        self, module: Module, node: ast.expr, scope: Mapping[str, object]
    ) -> FunctionValue | None:
        if isinstance(node, ast.Attribute):
            owner = self.class_of(module, node.value, scope)
            for cls in mro(owner) if owner else ():
                method = function_in(cls.node.body, node.attr)
                if method is not None:
                    return FunctionValue(cls.module, method, cls)
        value = evaluate(node, module, scope)
        return value if isinstance(value, FunctionValue) else None

    def argument(
        self,
        module: Module,
        call: ast.Call,
        scope: Mapping[str, object],
        body: Sequence[ast.stmt],
    ) -> None:
        """One ``parser.add_argument(…)``."""
        names: list[str] = []
        for arg in call.args:
            for value in _spread(arg, module, scope):
                if not isinstance(value, str):
                    self.tree.note(f"{module.path}:{call.lineno}: an option whose name is computed")
                elif value.startswith("-"):
                    names.append(value)
        if names:
            self.make(module, call.lineno, names, Keywords(module, call, scope, body))

    def make(self, module: Module, line: int, names: list[str], words: Keywords) -> None:
        try:
            self.add(flag_of(module, line, names, words))
        except RecursionError:
            self.tree.note(f"{module.path}:{line}: {names[0]} is nested too deeply to be read")

    def field(self, field: Field) -> None:
        """One annotated field, by the rules of the tree's ``add_cli_args_from_dataclass``."""
        kind, meta = _annotated(field)
        scope: dict[str, object] = {}
        if isinstance(meta, ast.Call):
            words = Keywords(field.module, meta, scope)
        else:
            words = Keywords(field.module, ast.Call(meta, [], []), scope)
            words.given["help"] = meta
        if words.value("no_cli") is True:
            return
        cli_name = words.value("cli_name")
        first = cli_name if isinstance(cli_name, str) else "--" + field.name.replace("_", "-")
        aliases = members(words.value("aliases")) or []
        names = [first, *(alias for alias in aliases if isinstance(alias, str))]
        words.given.setdefault("dest", ast.Constant(field.name))
        if field.node.value is not None:
            words.given.setdefault("default", field.node.value)
        if "action" not in words.given:
            by_type(words, kind, field.module)
            _required(words, kind, field)
        else:
            words.typed = False
            extra = words.given.get("action_kwargs")
            if isinstance(extra, ast.Dict):
                for key, value in zip(extra.keys, extra.values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        words.given[key.value] = value
                        words.typed = words.typed or key.value == "type"
        if words.value("choices") is None:
            words.given.pop("choices", None)
        words.given.setdefault("type", kind)
        self.make(field.module, field.node.lineno, names, words)

    def words(self, path: str) -> None:
        """Options that a command takes out of its words itself (``arg == "--model-type"``)."""
        if b'== "--' not in (self.tree.content(path) or b""):
            return
        module = self.tree.module(path)
        functions = definitions(module.body) if module else ()
        for function in functions:
            if not isinstance(function, ast.FunctionDef):
                continue
            tests = [n for n in ast.walk(function) if isinstance(n, ast.Compare)]
            texts = {n.value for n in ast.walk(function) if isinstance(n, ast.Constant)}
            for test in tests:
                match test:
                    case ast.Compare(
                        ops=[ast.Eq()], comparators=[ast.Constant(value=str(name))]
                    ) if name.startswith("--") and f"{name}=" in texts:
                        dest = name.lstrip("-").replace("-", "_")
                        self.add(Flag((name,), dest, path, test.lineno))


def _fields(owner: ClassValue) -> Iterator[Field]:
    """The annotated names of a class, its bases first; those of its parts where it is assembled."""
    named: dict[str, Field] = {}
    for cls in [*reversed(mro(owner)), *_parts(owner)]:
        for node in cls.node.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                kind = node.annotation
                if isinstance(kind, ast.Constant) and isinstance(kind.value, str):
                    try:
                        kind = ast.parse(kind.value, mode="eval").body
                    except (SyntaxError, ValueError, RecursionError, MemoryError):
                        continue
                if generic(kind) == "ClassVar":
                    continue
                default = evaluate(node.value, cls.module, {}, cls) if node.value else UNKNOWN
                named[node.target.id] = Field(node.target.id, cls.module, node, kind, default)
    yield from named.values()


def _parts(owner: ClassValue) -> Iterator[ClassValue]:
    """Classes that the module of ``owner`` lists, to put it together of their fields."""
    module = owner.module
    seen = {owner}
    for name, nodes in module.bindings.items():
        if not any(isinstance(n, (ast.Assign, ast.AnnAssign)) for n in nodes):
            continue
        if not any(isinstance(getattr(n, "value", None), (ast.List, ast.Tuple)) for n in nodes):
            continue
        for value in members(lookup(module, name)) or ():
            if isinstance(value, ClassValue) and value not in seen:
                seen.add(value)
                yield from reversed([c for c in mro(value) if c not in seen or c == value])
    for node in module.body:
        for call in ast.walk(node) if isinstance(node, (ast.Assign, ast.Expr)) else ():
            if not isinstance(call, ast.Call):
                continue
            for arg in call.args:
                if isinstance(arg, (ast.List, ast.Tuple)):
                    for value in members(evaluate(arg, module)) or ():
                        if isinstance(value, ClassValue) and value not in seen:
                            seen.add(value)
                            yield value


def _required(words: Keywords, kind: ast.expr, field: Field) -> None:
    """A field without a default must be given, where it takes one value that is no choice."""
    kind = given_type(kind)
    switch = isinstance(kind, ast.Name) and kind.id == "bool"
    if switch or generic(kind) in ("Literal", "list", "List"):
        words.given.pop("required", None)
    elif field.node.value is None and words.value("required") is None:
        words.given["required"] = ast.Constant(True)


def _is_annotated(field: Field) -> bool:
    return generic(field.annotation) in ("A", "Annotated") and _annotated(field)[1] is not None


def _annotated(field: Field) -> tuple[ast.expr, ast.expr]:
    """The type of ``A[type, …]`` and the first help text or ``Arg(…)`` after it."""
    match field.annotation:
        case ast.Subscript(slice=ast.Tuple(elts=[kind, *rest])):
            for part in rest:
                if isinstance(part, (ast.Constant, ast.JoinedStr, ast.BinOp, ast.Name)):
                    return kind, part
                if isinstance(part, ast.Call) and last_name(part.func).endswith("Arg"):
                    return kind, part
    return field.annotation, None  # type: ignore[return-value]


def _locals(
    module: Module, body: Sequence[ast.stmt], scope: Mapping[str, object]
) -> dict[str, object]:
    return {name: v for name, v in run(body, module, scope).items() if v is not UNKNOWN}


def _spread(arg: ast.expr, module: Module, scope: Mapping[str, object]) -> list[object]:
    if isinstance(arg, ast.Starred):
        return members(evaluate(arg.value, module, scope)) or [UNKNOWN]
    return [evaluate(arg, module, scope)]


def _is_static(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(last_name(d) == "staticmethod" for d in node.decorator_list)
