"""The environment variables that a tree declares, reads, renames and has retired."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from auditor.serve.tables.constants import Tree
from auditor.serve.tables.facts import EnvironmentName
from auditor.source.scout import deployed

_DECLARES = re.compile(rb"^\s+[A-Z]\w*\s*(?::[^=\n]*)?=\s*(?:\w+\.)?Env[A-Z]\w*\(", re.MULTILINE)
_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")
_OURS = rb"SGL(?:ANG)?_[A-Z0-9_]*"
_MENTION = re.compile(_OURS + rb"(?=[\"'{%])")  # begins with a literal, which is quick to find
_PYTHON_TOKEN = re.compile(
    rb'(?P<skip>#[^\n]*)|[rbuRBU]*(?P<f>[fF]?)[rR]?(?P<string>"""(?:\\.|[^\\])*?"""'
    rb"|'''(?:\\.|[^\\])*?'''"
    rb'|"(?:\\.|[^"\\\n])*"'
    rb"|'(?:\\.|[^'\\\n])*')",
    re.DOTALL,
)
_NATIVE_READ = re.compile(rb"getenv\w*\(\s*\"(" + _OURS + rb")\"")
_READS = re.compile(rb"(?:env\w*|environ(?:\.\w+)?)\s*[\[(]\s*$", re.IGNORECASE)
_JOINED = re.compile(rb"\s*(?:\+|%|\.format\()")
_GONE = re.compile(r"\b(?:removed|retired|deprecated|no longer|no effect|ignored)\b", re.IGNORECASE)
_LONGEST_NOTE = 400


class _Use(NamedTuple):
    name: str
    path: str
    line: int


class Environment(NamedTuple):
    """All names by name, prefixes of those that are put together at run time, and renamed prefixes.

    ``rewritten`` are (old, new): a variable that begins with the old prefix is taken for the new.
    """

    names: tuple[EnvironmentName, ...]
    prefixes: tuple[str, ...]
    rewritten: tuple[tuple[str, str], ...]


def environment(tree: Tree) -> Environment:
    """The environment of the deployed code, its tests and benchmarks left out.

    A name is declared by a class body of ``Env…(default)`` values; it is read where a string of the
    code is exactly that name. What the tree deprecates is told by the registry beside the
    declarations, whatever its era: a table of old names, or calls of a function that warns.
    """
    found: dict[str, EnvironmentName] = {}
    retiring: dict[str, EnvironmentName] = {}
    reads: list[_Use] = []
    mentioning: list[tuple[str, bytes, bool]] = []
    prefixes: set[str] = set()
    rewritten: list[tuple[str, str]] = []
    for path in sorted(tree.paths | tree.native):
        data = tree.content(path) if deployed(path) else None
        if data is None or b"SGL" not in data:
            continue
        if path in tree.native:
            for read in _NATIVE_READ.finditer(data):
                reads.append(_use(read.group(1), path, data, read.start()))
            continue
        registry = b" Env" in data and _DECLARES.search(data) is not None
        module = tree.module(path) if registry else None
        if module is not None:
            for row in _declarations(module.body, path):
                found.setdefault(row.name, row)
            for row in _deprecations(module.body, path):
                retiring.setdefault(row.name, row)
            rewritten += _rewritten(module.body)
        if b'"SGL' in data or b"'SGL" in data:
            mentioning.append((path, data, registry))
    for path, data, registry in mentioning:
        named = {
            match.group().decode()
            for match in _MENTION.finditer(data)
            if data[match.start() - 1 : match.start()] in (b'"', b"'")
        }
        if not named <= found.keys():
            reads += _python_uses(path, data, registry, prefixes)
    uses: dict[str, list[_Use]] = {}
    for use in reads:
        uses.setdefault(use.name, []).append(use)
    for name, places in uses.items():
        notes = [_notice(tree, use) for use in places] if name not in found else []
        retired = bool(notes) and all(notes)
        note = notes[0] if retired else ""
        found.setdefault(
            name,
            EnvironmentName(name, places[0].path, places[0].line, False, "", retired, "", note),
        )
    for name, row in retiring.items():
        known = found.get(name)
        # One that is declared or read elsewhere still works: the warning is all that changes.
        found[name] = row if known is None else _warned_of(known, row)
    return Environment(
        tuple(sorted(found.values())), tuple(sorted(prefixes)), tuple(dict.fromkeys(rewritten))
    )


def _notice(tree: Tree, use: _Use) -> str:
    """What is told where a name is looked for only to tell it; empty where it is really read.

    A removed variable may be asked for once more, in an ``if`` whose body does nothing but warn.
    """
    near = (tree.content(use.path) or b"").splitlines()[use.line - 1 : use.line + 4]
    if not use.path.endswith(".py") or not any(b"warn" in line for line in near):
        return ""
    module = tree.module(use.path)
    for node in _nodes(module.body) if module is not None else ():
        if not isinstance(node, ast.If) or node.orelse:
            continue
        tested = any(
            isinstance(n, ast.Constant) and n.value == use.name for n in ast.walk(node.test)
        )
        if tested and all(_warns(part) for part in node.body):
            constants = (n for part in node.body for n in ast.walk(part))
            texts = [
                n.value
                for n in constants
                if isinstance(n, ast.Constant) and isinstance(n.value, str)
            ]
            text = " ".join(" ".join(texts).split())
            if _GONE.search(text):
                return text[:_LONGEST_NOTE]
    return ""


def _warns(node: ast.stmt) -> bool:
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name))):
            return "warn" in name
    return False


def _warned_of(known: EnvironmentName, row: EnvironmentName) -> EnvironmentName:
    replacement, note = row.replacement or known.replacement, row.note or known.note
    return EnvironmentName(
        known.name, known.path, known.line, known.declared, known.kind, False, replacement, note
    )


def _rewritten(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Prefixes that are replaced in names (``key.replace("SGL_", "SGLANG_", 1)``)."""
    for node in _nodes(body):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="replace"),
                args=[ast.Constant(value=str(old)), ast.Constant(value=str(new)), *_],
            ) if old.endswith("_") and new.endswith("_") and _NAME.fullmatch(old + new):
                yield old, new


def _declarations(body: list[ast.stmt], path: str) -> Iterator[EnvironmentName]:
    for owner in _nodes(body):
        if not isinstance(owner, ast.ClassDef):
            continue
        for node in owner.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                    pass
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.Call() as call):
                    pass
                case _:
                    continue
            kind = _last_name(call.func)
            if not kind.startswith("Env") or not _NAME.fullmatch(name):
                continue
            kind = kind.removeprefix("Env").removesuffix("WithAlias").lower()
            yield EnvironmentName(name, path, node.lineno, True, kind)
            for keyword in call.keywords:
                old = keyword.value
                if keyword.arg == "deprecated_name" and isinstance(old, ast.Constant):
                    note = "the old name is still read where the new one is unset"
                    yield EnvironmentName(
                        str(old.value), path, old.lineno, True, kind, False, name, note
                    )


def _deprecations(body: list[ast.stmt], path: str) -> Iterator[EnvironmentName]:
    functions = {n.name: n for n in _nodes(body) if isinstance(n, ast.FunctionDef)}
    classes = {n.name: n for n in _nodes(body) if isinstance(n, ast.ClassDef)}
    for node in _nodes(body):
        match node:
            case ast.Call(func=ast.Name(id=name)) if (
                "deprecat" in name.lower() and name in functions
            ):
                yield from _warned(node, _arguments(node, functions[name]), path)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() as table):
                yield from _table(table, name, classes, path)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Dict() as table):
                yield from _table(table, name, classes, path)


def _warned(call: ast.Call, given: dict[str, ast.expr], path: str) -> Iterator[EnvironmentName]:
    """The call of a function that warns of an old name, by what its parameters are called."""
    old = replacement = note = ""
    for parameter, value in given.items():
        text = _text(value)
        if "new" in parameter or "replace" in parameter:
            replacement = text
        elif "old" in parameter or ("name" in parameter and not old):
            old = text
        else:
            note = note or text
    if _NAME.fullmatch(old):
        yield EnvironmentName(old, path, call.lineno, False, "", not replacement, replacement, note)


def _table(
    table: ast.Dict, variable: str, classes: dict[str, ast.ClassDef], path: str
) -> Iterator[EnvironmentName]:
    if "deprecat" not in variable.lower():
        return
    for key, value in zip(table.keys, table.values, strict=True):
        old = _text(key)
        if not _NAME.fullmatch(old) or key is None:
            continue
        if isinstance(value, ast.Constant):
            new = _text(value)
            yield EnvironmentName(old, path, key.lineno, False, "", not new, new)
        elif isinstance(value, ast.Call):
            maker = classes.get(_last_name(value.func))
            init = next(
                (n for n in maker.body if isinstance(n, ast.FunctionDef) and n.name == "__init__")
                if maker
                else iter(()),
                None,
            )
            given = _arguments(value, init)
            replacement, note = _text(given.get("replacement")), _text(given.get("note"))
            if "transform" in given and replacement:
                how = f"its value is converted ({ast.unparse(given['transform'])})"
                note = f"{how}; {note}" if note else how
            yield EnvironmentName(
                old, path, key.lineno, False, "", not replacement, replacement, note
            )


def _arguments(call: ast.Call, function: ast.FunctionDef | None) -> dict[str, ast.expr]:
    names = [a.arg for a in function.args.args if a.arg != "self"] if function else []
    given = dict(zip(names, call.args, strict=False))
    given.update({k.arg: k.value for k in call.keywords if k.arg})
    return given


def _python_uses(path: str, data: bytes, registry: bool, prefixes: set[str]) -> Iterator[_Use]:
    """Strings that are exactly a name, and prefixes of joined ones; comments do not count.

    The names in a registry of declarations are its own rows, unless they are asked for there.
    """
    for token in _PYTHON_TOKEN.finditer(data):
        text = token.group("string")
        if text is None or b"SGL" not in text:
            continue
        found = re.fullmatch(rb"[\"'](" + _OURS + rb")(\{.*|%s.*|)[\"']", text, re.DOTALL)
        if found is None:
            continue
        name, rest = found.groups()
        before, after = data[max(0, token.start() - 60) : token.start()], data[token.end() :][:12]
        if rest:
            joined = name.endswith(b"_") and (rest.startswith(b"%s") or bool(token.group("f")))
            if joined and re.fullmatch(rb"(\{[^{}]*\}|%s|[A-Z0-9_])+", rest):
                prefixes.add(name.decode())
        elif name.endswith(b"_"):
            if _JOINED.match(after):
                prefixes.add(name.decode())
        elif not registry or _READS.search(before):
            yield _use(name, path, data, token.start())


def _use(name: bytes, path: str, data: bytes, offset: int) -> _Use:
    return _Use(name.decode(), path, data.count(b"\n", 0, offset) + 1)


def _text(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _last_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    return ast.walk(ast.Module(body, []))
