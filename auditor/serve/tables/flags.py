"""The server's command line options, as the tree declares them in any of its three eras."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from auditor.serve.tables.constants import UNKNOWN, Module, Tree, evaluate, lookup, mro, run
from auditor.serve.tables.facts import Flag
from auditor.serve.tables.modules import bindings, bound, definitions
from auditor.serve.tables.values import (
    ClassValue,
    External,
    FunctionValue,
    LiteralType,
    Member,
    is_known,
    members,
)

SERVER_ARGS = "sglang/srt/server_args.py"
"""The file of the server's settings; it never moved between 0.5.5 and 0.5.23."""

_ENTRY = "prepare_server_args"
_CLI = "sglang/cli/"
_LONGEST = 2_000
"""Characters of a help text or default that are kept."""

_DEEPEST = 8
_NOTHING = {"store_true", "store_false", "store_const", "append_const", "count", "help", "version"}
_REPEATS = {"append", "append_const", "extend", "count"}
_GROUPS = {"add_argument_group", "add_mutually_exclusive_group"}
_BARE = {"_StoreTrueAction", "_StoreFalseAction", "_StoreConstAction", "_CountAction"}
_DEPRECATED = re.compile(
    r"^[\s\[(]*(?:note:?\s*)?"
    r"(?:(?:--?[\w-]+|this (?:flag|option|argument))\s+(?:is|has been)\s+)?"
    r"(?:now\s+)?deprecated\b",
    re.IGNORECASE,
)
_INSTEAD = re.compile(
    r"(?:use|favou?r of|alias (?:for|of)|replaced (?:by|with))\s+[`'\"]?(--[\w-]+(?:=[\w-]+)?)",
    re.IGNORECASE,
)


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
    if not head.startswith("-") or " " in text:
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
    entry = _function(module.body, _ENTRY)
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
                    if _last(call.func).endswith("ArgumentParser"):
                        made[name] = call
        for name, call in made.items():
            if not any(k.arg == "add_help" and _is_false(k.value) for k in call.keywords):
                line = call.lineno
                about = "show this help message and exit"
                self.add(Flag(("-h", "--help"), "help", module.path, line, None, False, help=about))
            scope = _locals(module, function.body, {})
            self.follow(module, function.body, frozenset({name}), scope, 0)

    def add_cli_args(self, module: Module, owner: ast.ClassDef) -> None:
        method = _function(owner.body, "add_cli_args")
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
                method = _function(cls.node.body, node.attr)
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
            self.make(module, call.lineno, names, _Keywords(module, call, scope, body))

    def make(self, module: Module, line: int, names: list[str], words: _Keywords) -> None:
        try:
            self.add(_flag(module, line, names, words))
        except RecursionError:
            self.tree.note(f"{module.path}:{line}: {names[0]} is nested too deeply to be read")

    def field(self, field: Field) -> None:
        """One annotated field, by the rules of the tree's ``add_cli_args_from_dataclass``."""
        kind, meta = _annotated(field)
        scope: dict[str, object] = {}
        if isinstance(meta, ast.Call):
            words = _Keywords(field.module, meta, scope)
        else:
            words = _Keywords(field.module, ast.Call(meta, [], []), scope)
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
            _by_type(words, kind, field.module)
        else:
            extra = words.given.get("action_kwargs")
            if isinstance(extra, ast.Dict):
                for key, value in zip(extra.keys, extra.values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(key.value, str):
                        words.given[key.value] = value
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


class _Keywords:
    """The keyword arguments of a call, as expressions and as values."""

    def __init__(
        self,
        module: Module,
        call: ast.Call,
        scope: Mapping[str, object],
        body: Sequence[ast.stmt] = (),
    ) -> None:
        self.module = module
        self.scope = scope
        self.body = body  # of the function that the call stands in
        self.given: dict[str, ast.expr] = {}
        self.extra: dict[str, object] = {}
        for keyword in call.keywords:
            if keyword.arg is not None:
                self.given[keyword.arg] = keyword.value
                continue
            value = evaluate(keyword.value, module, scope)
            if isinstance(value, dict):
                self.extra.update({k: v for k, v in value.items() if isinstance(k, str)})
        for name, arg in zip(("help", "choices", "aliases"), call.args, strict=False):
            if not isinstance(arg, ast.Constant) or not str(arg.value).startswith("-"):
                if _last(call.func) != "add_argument":
                    self.given.setdefault(name, arg)

    def __contains__(self, name: str) -> bool:
        return name in self.given or name in self.extra

    def value(self, name: str) -> object:
        """The value, None where the argument is not given."""
        if name in self.given:
            return evaluate(self.given[name], self.module, self.scope)
        return self.extra.get(name)

    def text(self, name: str) -> str:
        """The text of an argument, unknown parts of it as ``…``."""
        if name in self.given:
            return text_of(self.given[name], self.module, self.scope)[:_LONGEST]
        value = self.extra.get(name)
        return value[:_LONGEST] if isinstance(value, str) else ""

    def constant(self, name: str) -> str:
        """An argument as a literal where it is a constant (a field's), else as it is written."""
        value = self.value(name)
        if name in self.given and (value is None or isinstance(value, (bool, int, float, str))):
            return repr(value)[:_LONGEST]
        return self.source(name)

    def source(self, name: str) -> str:
        """The expression of an argument as it is written."""
        return ast.unparse(self.given[name])[:_LONGEST] if name in self.given else ""


def _flag(module: Module, line: int, names: list[str], words: _Keywords) -> Flag:
    action = words.value("action")
    custom = _Action(action) if isinstance(action, ClassValue) else None
    plain = action if isinstance(action, str) else ""
    negated = isinstance(action, External) and action.dotted.endswith("BooleanOptionalAction")
    negated = negated or (custom is not None and "BooleanOptionalAction" in custom.bases)
    if plain in _NOTHING or negated:
        nargs, takes_value = "", False
    elif custom is not None and "nargs" not in words:
        nargs, takes_value = custom.nargs, custom.nargs != "0"
    else:
        given = words.value("nargs")
        nargs = "" if given is None or given is UNKNOWN else str(given)
        takes_value = nargs != "0"
    about, error = words.text("help"), words.text("error_message")
    replacement = words.text("new_flag")
    deprecated = ""
    if custom is not None and custom.deprecated:
        deprecated = error or about or custom.about or "deprecated"
    elif _DEPRECATED.search(about):
        deprecated = about
    if deprecated and not replacement:
        instead = _INSTEAD.search(error) or _INSTEAD.search(about)
        replacement = instead.group(1) if instead else ""
    dest = words.value("dest")
    choices, conditional = _choices(words) if takes_value else (None, ())
    return Flag(
        tuple(names),
        dest if isinstance(dest, str) else _dest(names),
        module.path,
        line,
        choices,
        takes_value,
        nargs if takes_value else "",
        plain in _REPEATS or (custom is not None and bool(custom.bases & {"_AppendAction"})),
        tuple(f"--no-{name[2:]}" for name in names if name.startswith("--")) if negated else (),
        deprecated,
        replacement,
        custom is not None and custom.refuses(words),
        about,
        words.source("type"),
        words.constant("default"),
        conditional,
    )


class _Action:
    """A class of the tree that is given as ``action``."""

    def __init__(self, cls: ClassValue) -> None:
        self.classes = mro(cls)
        self.bases = {_last(base) for c in self.classes for base in c.node.bases}
        self.bases |= {c.name for c in self.classes}
        self.about = (ast.get_docstring(cls.node) or "").partition("\n")[0]
        self.nargs = "0" if self.bases & _BARE else ""
        for c in self.classes:
            made = _function(c.node.body, "__init__")
            if made is None:
                continue
            default = _default(made, "nargs")
            if isinstance(default, ast.Constant) and default.value is not None:
                self.nargs = str(default.value)
            break
        self.call = next(
            (f for c in self.classes if (f := _function(c.node.body, "__call__"))), None
        )
        texts = (
            [n.value for n in ast.walk(self.call) if isinstance(n, ast.Constant)]
            if (self.call)
            else []
        )
        said = any(isinstance(text, str) and "deprecated" in text.lower() for text in texts)
        self.deprecated = said or any("deprecated" in c.name.lower() for c in self.classes)

    def refuses(self, words: _Keywords) -> bool:
        """Whether the action ends the start, as far as the arguments of the option decide."""
        for node in definitions(self.call.body) if self.call else ():
            match node:
                case ast.If(test=test, body=body) if _stops(body):
                    named = {n.attr for n in ast.walk(test) if isinstance(n, ast.Attribute)}
                    if any(words.value(name) is not None for name in named):
                        return True
        return self.call is not None and _stops(self.call.body)


def _stops(body: Sequence[ast.stmt]) -> bool:
    for node in body:
        match node:
            case ast.Raise():
                return True
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr="error" | "exit"))):
                return True
    return False


def _by_type(words: _Keywords, kind: ast.expr, module: Module) -> None:
    """What the type of a field adds: choices of a ``Literal``, many values of a list, a switch."""
    kind = _required(kind, module)
    value = evaluate(kind, module)
    if isinstance(value, LiteralType):
        literals = [m for m in value.members if m is not None]
        if not words.value("choices"):
            words.given.pop("choices", None)
            words.extra["choices"] = literals
    elif _generic(kind) in ("list", "List") and "type_parser" not in words:
        words.given.setdefault("nargs", ast.Constant("+"))
    elif isinstance(kind, ast.Name) and kind.id == "bool":
        words.given["action"] = ast.Constant("store_true")
    if "type_parser" in words.given:
        words.given["type"] = words.given["type_parser"]


def _required(kind: ast.expr, module: Module) -> ast.expr:
    """The ``X`` of ``Optional[X]``, ``Union[X, None]`` and ``X | None``."""
    match kind:
        case ast.Constant(value=str(text)):
            try:
                return _required(ast.parse(text, mode="eval").body, module)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return kind
        case ast.Subscript(slice=inner) if _generic(kind) == "Optional":
            return inner
        case ast.Subscript(slice=ast.Tuple(elts=parts)) if _generic(kind) == "Union":
            rest = [part for part in parts if not _is_none(part)]
            return rest[0] if len(rest) == 1 else kind
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            if _is_none(right):
                return left
            if _is_none(left):
                return right
    return kind


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
                if _generic(kind) == "ClassVar":
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


def _is_annotated(field: Field) -> bool:
    return _generic(field.annotation) in ("A", "Annotated") and _annotated(field)[1] is not None


def _annotated(field: Field) -> tuple[ast.expr, ast.expr]:
    """The type of ``A[type, …]`` and the first help text or ``Arg(…)`` after it."""
    match field.annotation:
        case ast.Subscript(slice=ast.Tuple(elts=[kind, *rest])):
            for part in rest:
                if isinstance(part, (ast.Constant, ast.JoinedStr, ast.BinOp, ast.Name)):
                    return kind, part
                if isinstance(part, ast.Call) and _last(part.func).endswith("Arg"):
                    return kind, part
    return field.annotation, None  # type: ignore[return-value]


def _choices(words: _Keywords) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """The choices, and those that come in only on a condition."""
    if "choices" not in words:
        return None, ()
    found = _texts(words.value("choices"))
    node = words.given.get("choices")
    if found is not None or not isinstance(node, ast.Name):
        return found, ()
    module: Module | None = words.module
    statements = bindings(words.body).get(node.id) or words.module.bindings.get(node.id, [])
    for _ in range(_DEEPEST):
        match statements:
            case [ast.ImportFrom() as imported] if module is not None:
                module = module.tree.find(module.absolute(imported))
                statements = module.bindings.get(node.id, []) if module else []
    if module is None:
        return None, ()
    simple = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)
    always = [s for s in statements if isinstance(s, simple)]
    every = [s for s in definitions(statements) if isinstance(s, simple) and node.id in bound(s)]
    found = _texts(run(always, module, {}).get(node.id))
    widest = _texts(run(every, module, {}).get(node.id))
    if found is None or widest is None:
        return None, ()
    return found, tuple(choice for choice in widest if choice not in found)


def _texts(value: object) -> tuple[str, ...] | None:
    values = members(value)
    if values is None or isinstance(value, str) or not all(is_known(v) for v in values):
        return None
    return tuple(str(v.value if isinstance(v, Member) else v) for v in values)


def _locals(
    module: Module, body: Sequence[ast.stmt], scope: Mapping[str, object]
) -> dict[str, object]:
    return {name: v for name, v in run(body, module, scope).items() if v is not UNKNOWN}


def _spread(arg: ast.expr, module: Module, scope: Mapping[str, object]) -> list[object]:
    if isinstance(arg, ast.Starred):
        return members(evaluate(arg.value, module, scope)) or [UNKNOWN]
    return [evaluate(arg, module, scope)]


def text_of(node: ast.expr, module: Module, scope: Mapping[str, object] | None = None) -> str:
    """The text of an expression, parts that a run decides as ``…``."""
    value = evaluate(node, module, scope)
    if isinstance(value, str):
        return value
    match node:
        case ast.JoinedStr(values=parts):
            return "".join(text_of(part, module, scope) for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return text_of(left, module, scope) + text_of(right, module, scope)
        case ast.FormattedValue():
            return "…"
    return ""


def _dest(names: Sequence[str]) -> str:
    long = next((name for name in names if name.startswith("--")), names[0])
    return long.lstrip("-").replace("-", "_")


def _function(body: Iterable[ast.stmt], name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            return node
    return None


def _default(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> ast.expr | None:
    arguments = [*function.args.posonlyargs, *function.args.args]
    defaults = dict(
        zip([a.arg for a in arguments][::-1], function.args.defaults[::-1], strict=False)
    )
    for keyword, value in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        if value is not None:
            defaults[keyword.arg] = value
    return defaults.get(name)


def _is_static(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(_last(d) == "staticmethod" for d in node.decorator_list)


def _generic(node: ast.expr) -> str:
    return _last(node.value) if isinstance(node, ast.Subscript) else ""


def _last(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False
