"""Where functions and classes of a tree are used, and under which tests."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from auditor.deployment.pieces import Piece, cut, statements
from auditor.source.scout import deployed
from auditor.tables.modules import Tree, absolute, package_of

T = TypeVar("T")

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

SERVER = "sglang/srt/"
"""Where the code of the server is, in every era."""

Guard = tuple[ast.expr, bool]
"""A test, and whether it must fail."""

Given = tuple[ast.expr, int, tuple[Guard, ...]]
"""What a name is given: the value, its place in a tuple (-1: whole), the tests around."""

Row = tuple["Body", ast.expr, int, tuple[Guard, ...]]
"""What something is given: where, the value, its place in a tuple (-1: whole), the tests around."""

_LONGEST_HEADER = 500
"""Bytes from the word class to the last of its bases."""

_ONLY_WORDS = bytes(c if c > 127 or chr(c).isalnum() or c == 95 else 32 for c in range(256))
"""Turns into spaces what is no part of a name."""

_TYPE_TESTS = frozenset({"isinstance", "issubclass", "type", "cast"})
_EXITS = (ast.Return, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True, eq=False)
class Body:
    """A function with what is nested in it, or the top level of a module or class.

    ``function`` is then None.
    """

    file: File
    owner: ast.ClassDef | None
    function: FunctionNode | None
    assigned: dict[str, list[Given]] = field(default_factory=dict)
    """What local names are given; a value that a loop or a context makes is ``...``."""
    returns: list[tuple[ast.expr | None, tuple[Guard, ...]]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the function, empty for a module."""
        return self.function.name if self.function is not None else ""

    @cached_property
    def parameters(self) -> Mapping[str, ast.expr | None]:
        """The parameters with their defaults, in order, the object itself left out."""
        if self.function is None:
            return {}
        spec = self.function.args
        plain = [*spec.posonlyargs, *spec.args]
        found: dict[str, ast.expr | None] = {arg.arg: None for arg in plain}
        for arg, value in zip(reversed(plain), reversed(spec.defaults), strict=False):
            found[arg.arg] = value
        for arg, default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
            found[arg.arg] = default
        if self.owner is not None and plain:
            found.pop(plain[0].arg)
        return found


@dataclass(frozen=True, eq=False)
class Use:
    """A name that is used: called, handed on or kept, and the tests that it stands under.

    ``attribute`` tells ``x.name`` from ``name``; ``receiver`` is then ``x``.
    """

    body: Body
    node: ast.expr
    guards: tuple[Guard, ...]
    call: ast.Call | None
    inside: ast.Call | None
    attribute: bool

    @property
    def receiver(self) -> ast.expr | None:
        """The object whose attribute is used."""
        return self.node.value if isinstance(self.node, ast.Attribute) else None


class Part:
    """What one piece of a file says: its bodies, the uses of each name, what attributes are given.

    ``named_values`` are those given by a name as text or a keyword of a function. ``around`` is
    the body in which the piece stands: that of the file, or of a class.
    """

    def __init__(self, block: Sequence[ast.stmt], around: Body) -> None:
        self.file = around.file
        self.bodies: list[Body] = []
        self.uses: dict[str, list[Use]] = {}
        self.attributes: dict[str, list[Row]] = {}
        self.named_values: dict[str, list[Row]] = {}
        self.classes: list[ast.ClassDef] = []
        self.aliases: dict[str, str] = {}
        self.imports: dict[str, tuple[str, str]] = {}
        self.stars: list[str] = []
        self._block(block, around, around.owner, ())

    def _block(
        self,
        block: Sequence[ast.stmt],
        body: Body,
        owner: ast.ClassDef | None,
        guards: tuple[Guard, ...],
    ) -> None:
        for node in block:
            guards = self._statement(node, body, owner, guards)

    def _statement(
        self, node: ast.stmt, body: Body, owner: ast.ClassDef | None, guards: tuple[Guard, ...]
    ) -> tuple[Guard, ...]:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for decorator in node.decorator_list:
                    self._expression(decorator, body, guards, None)
                for default in (*node.args.defaults, *node.args.kw_defaults):
                    if default is not None:
                        inner = Body(self.file, owner, node)
                        self._expression(default, inner, (), None)
                if body.function is None:
                    body = Body(self.file, owner, node)
                    self.bodies.append(body)
                    self._block(node.body, body, owner, ())
                else:
                    told = len(body.returns)
                    self._block(node.body, body, owner, guards)
                    del body.returns[told:]  # what a nested function returns is its own
            case ast.ClassDef():
                self.classes.append(node)
                for decorator in node.decorator_list:
                    self._expression(decorator, body, guards, None)
                inside = body
                if body.function is None:
                    inside = Body(self.file, node, None)
                    self.bodies.append(inside)
                self._block(node.body, inside, node, guards)
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    local = alias.asname or alias.name
                    if alias.asname:
                        self.aliases[alias.asname] = alias.name
                    if isinstance(node, ast.ImportFrom):
                        dotted = absolute(self.file.package, node)
                        self.imports[local] = (dotted, alias.name)
                        if alias.name == "*":
                            self.stars.append(dotted)
            case ast.If():
                self._expression(node.test, body, guards, None)
                self._block(node.body, body, owner, (*guards, (node.test, False)))
                self._block(node.orelse, body, owner, (*guards, (node.test, True)))
                after = _passed(node)
                return guards if after is None else (*guards, after)
            case ast.Match():
                self._expression(node.subject, body, guards, None)
                for case in node.cases:
                    matched = _pattern(node.subject, case.pattern)
                    more = ((matched, False),) if matched is not None else ()
                    self._block(case.body, body, owner, (*guards, *more))
            case ast.Return():
                if node.value is not None:
                    self._expression(node.value, body, guards, None)
                body.returns.append((node.value, guards))
            case ast.Assign():
                self._expression(node.value, body, guards, None)
                for target in node.targets:
                    self._assigned(target, node.value, body, guards)
            case ast.AnnAssign():
                if node.value is not None:
                    self._expression(node.value, body, guards, None)
                    self._assigned(node.target, node.value, body, guards)
            case ast.While():
                self._expression(node.test, body, guards, None)
                self._block(node.body, body, owner, (*guards, (node.test, False)))
                self._block(node.orelse, body, owner, guards)
            case ast.For() | ast.AsyncFor():
                self._expression(node.iter, body, guards, None)
                self._assigned(node.target, _unknown(node.target), body, guards)
                self._block(node.body, body, owner, guards)
                self._block(node.orelse, body, owner, guards)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self._expression(item.context_expr, body, guards, None)
                    if item.optional_vars is not None:
                        self._assigned(
                            item.optional_vars, _unknown(item.optional_vars), body, guards
                        )
                self._block(node.body, body, owner, guards)
            case ast.Try():
                for block in (node.body, *(handler.body for handler in node.handlers)):
                    self._block(block, body, owner, guards)
                self._block(node.orelse, body, owner, guards)
                self._block(node.finalbody, body, owner, guards)
            case ast.AugAssign():
                self._expression(node.value, body, guards, None)
                self._assigned(node.target, _unknown(node.target), body, guards)
            case _:
                for child in ast.iter_child_nodes(node):
                    self._expression(child, body, guards, None)
        return guards

    def _assigned(
        self, target: ast.expr, value: ast.expr, body: Body, guards: tuple[Guard, ...]
    ) -> None:
        pairs = [(target, -1)]
        if isinstance(target, (ast.Tuple, ast.List)):
            pairs = [(part, number) for number, part in enumerate(target.elts)]
        for part, number in pairs:
            if isinstance(part, ast.Name):
                body.assigned.setdefault(part.id, []).append((value, number, guards))
            elif isinstance(part, ast.Attribute):
                row = (body, value, number, guards)
                self.attributes.setdefault(part.attr, []).append(row)
            elif isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Constant):
                if isinstance(part.slice.value, str) and number < 0:
                    row = (body, value, number, guards)
                    self.named_values.setdefault(part.slice.value, []).append(row)

    def _expression(
        self, node: ast.AST, body: Body, guards: tuple[Guard, ...], inside: ast.Call | None
    ) -> None:
        match node:
            case ast.Call(func=func, args=args, keywords=keywords):
                self._callee(node, func, body, guards, inside)
                if last(func) in _TYPE_TESTS:
                    args = args[:1] if last(func) != "cast" else args[1:]
                for arg in args:
                    self._expression(arg, body, guards, node)
                for keyword in keywords:
                    self._expression(keyword.value, body, guards, node)
                    if keyword.arg and not last(func)[:1].isupper():
                        row = (body, keyword.value, -1, guards)
                        self.named_values.setdefault(keyword.arg, []).append(row)
            case ast.IfExp(test=test, body=then, orelse=orelse):
                self._expression(test, body, guards, inside)
                self._expression(then, body, (*guards, (test, False)), inside)
                self._expression(orelse, body, (*guards, (test, True)), inside)
            case ast.BoolOp(op=ast.And(), values=values):
                for value in values:
                    self._expression(value, body, guards, inside)
                    guards = (*guards, (value, False))
            case ast.NamedExpr(target=target, value=value):
                self._expression(value, body, guards, inside)
                self._assigned(target, value, body, guards)
            case ast.Compare(left=left, ops=ops, comparators=others):
                if not _of_types(left, ops):
                    for part in (left, *others):
                        self._expression(part, body, guards, inside)
            case ast.Name(id=name, ctx=ast.Load()):
                self._use(name, Use(body, node, guards, None, inside, False))
            case ast.Attribute(value=value, attr=name):
                self._use(name, Use(body, node, guards, None, inside, True))
                if not isinstance(value, ast.Name):
                    self._expression(value, body, guards, inside)
            case ast.Dict(keys=keys, values=values):
                # A class as a key tells types apart; it makes no object.
                for key in keys:
                    if key is not None and not isinstance(key, ast.Name):
                        self._expression(key, body, guards, inside)
                for value in values:
                    self._expression(value, body, guards, inside)
            case ast.Lambda(body=value):
                self._expression(value, body, guards, inside)
            case ast.expr() | ast.comprehension():
                for child in ast.iter_child_nodes(node):
                    self._expression(child, body, guards, inside)

    def _callee(
        self,
        call: ast.Call,
        func: ast.expr,
        body: Body,
        guards: tuple[Guard, ...],
        inside: ast.Call | None,
    ) -> None:
        match func:
            case ast.Name(id=name):
                self._use(name, Use(body, func, guards, call, inside, False))
            case ast.Attribute(value=value, attr=name):
                self._use(name, Use(body, func, guards, call, inside, True))
                if not isinstance(value, ast.Name):
                    self._expression(value, body, guards, inside)
            case ast.BoolOp(values=values):  # (given or Default)(…)
                for value in values:
                    self._callee(call, value, body, guards, inside)
            case _:
                self._expression(func, body, guards, inside)

    def _use(self, name: str, use: Use) -> None:
        self.uses.setdefault(name, []).append(use)


class File:
    """One file, parsed piece by piece: those that hold a name are, once it is asked for."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.package = package_of(path)
        self.top = Body(self, None, None)
        self._data = data
        self._pieces = cut(data)
        self._parts: dict[Piece, Part] = {}
        self._holding: dict[str, list[Part]] = {}
        self._classes: dict[Piece, Body | None] = {}
        """The body of a class by its shell; None where what it defines was read with it."""

    def parts(self, text: str) -> list[Part]:
        """What the pieces say that hold a text, in their order."""
        found = self._holding.get(text)
        if found is None:
            data = text.encode()
            parts = (self._part(piece) for piece in self._pieces if data in piece.text)
            found = self._holding[text] = list(dict.fromkeys(parts))
        return found

    def bodies(self, name: str) -> list[Body]:
        """The functions and methods of a name."""
        return [body for part in self.parts(name) for body in part.bodies if body.name == name]

    def uses(self, name: str) -> list[Use]:
        """Where a name is used that is not renamed."""
        return [use for part in self.parts(name) for use in part.uses.get(name, ())]

    def named(self, name: str) -> list[Use]:
        """The uses of a name, under whatever name it was imported."""
        return [use for text in self.names_of(name) for use in self.uses(text)]

    def names_of(self, name: str) -> list[str]:
        """A name, and those under which it was imported."""
        rows = [row for part in self.parts(name) for row in part.aliases.items()]
        return list(dict.fromkeys([name, *(alias for alias, real in rows if real == name)]))

    def attributes(self, name: str) -> list[Row]:
        """What attributes of a name are given."""
        return [row for part in self.parts(name) for row in part.attributes.get(name, ())]

    def values(self, name: str) -> list[Row]:
        """What is given by a name as text or a keyword of a function."""
        return [row for part in self.parts(name) for row in part.named_values.get(name, ())]

    def classes(self, name: str) -> list[ast.ClassDef]:
        """The classes of a name."""
        return [node for part in self.parts(name) for node in part.classes if node.name == name]

    def based_on(self, name: str) -> list[ast.ClassDef]:
        """The classes that name one among their bases."""
        names = self.names_of(name)
        nodes = {id(n): n for text in names for part in self.parts(text) for n in part.classes}
        return [n for n in nodes.values() if any(last(base) in names for base in n.bases)]

    def real(self, name: str) -> str:
        """The name that an imported one had."""
        found = [part.aliases[name] for part in self.parts(name) if name in part.aliases]
        return found[-1] if found else name

    def imported(self, name: str) -> tuple[str, str] | None:
        """The dotted module that a name was imported from, and its name there."""
        found = [part.imports[name] for part in self.parts(name) if name in part.imports]
        return found[-1] if found else None

    def locals_of(self, name: str) -> list[str]:
        """What a name is called here that was imported."""
        return [
            local
            for part in self.parts(name)
            for local, (_, real) in part.imports.items()
            if real == name
        ]

    def stars(self) -> list[str]:
        """The modules all of whose names are imported."""
        return [dotted for part in self.parts("import *") for dotted in part.stars]

    def given(self, body: Body, name: str) -> list[Given]:
        """What a local name of a body is given, or a name of the file."""
        if body is self.top:
            self.parts(name)
            return sorted(body.assigned.get(name, ()), key=lambda row: row[0].lineno)
        return body.assigned.get(name, [])

    def defines(self, owner: ast.ClassDef, name: str) -> bool:
        """Whether a class of this file has a method of its own of a name."""
        return any(body.owner is owner for body in self.bodies(name))

    def mixed_into(self, owner: ast.ClassDef) -> set[str]:
        """The class that a mixin says its methods are of: ``def f(self: Runner)``."""
        return self._mixed.get(owner, set()) - {"Self", owner.name}

    @cached_property
    def _mixed(self) -> dict[ast.ClassDef, set[str]]:
        found: dict[ast.ClassDef, set[str]] = {}
        for body in (body for part in self.parts("self:") for body in part.bodies):
            if body.owner is not None and body.function is not None:
                for arg in body.function.args.args[:1]:
                    if arg.arg == "self" and arg.annotation is not None:
                        found.setdefault(body.owner, set()).add(_named(arg.annotation))
        return found

    def _part(self, piece: Piece) -> Part:
        """What a piece says, or where it was read with its class what that says."""
        if piece not in self._parts:
            around = self.top
            if piece.shell is not None:
                of_class = self._part(piece.shell)
                body = self._classes[piece.shell]
                if body is None:
                    return of_class
                around = body
            block = piece.parsed()
            said = self._there(piece) if block is None else block
            part = self._parts[piece] = Part(said, around)
            if piece.shell is None:
                bodies = (body for body in part.bodies if body.function is None)
                self._classes[piece] = next(bodies, None) if block is not None else None
        return self._parts[piece]

    def _there(self, piece: Piece) -> list[ast.stmt]:
        """What the whole file, parsed, has at a piece that is none by itself."""
        block = self._whole
        following = self._pieces[self._pieces.index(piece) + 1 :]
        if piece.shell is not None:
            block = [row for node in block if isinstance(node, ast.ClassDef) for row in node.body]
        else:
            following = [other for other in following if other.shell is None]
        end = following[0].start if following else math.inf
        return [node for node in block if piece.start <= _first_line(node) < end]

    @cached_property
    def _whole(self) -> list[ast.stmt]:
        return statements(self._data) or []


class Code:
    """The deployed files of a tree, looked through by bytes and parsed where a name stands."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._files: dict[str, File | None] = {}
        self._paths = [p for p in sorted(tree.paths) if p.startswith(SERVER) and deployed(p)]
        self._mentions: dict[str, tuple[str, ...]] = {}
        self._uses: dict[str, list[Use]] = {}
        self._subclasses: dict[str, list[tuple[File, ast.ClassDef]]] = {}

    @cached_property
    def _words(self) -> dict[str, frozenset[bytes]]:
        """The words of each file of the server.

        Read once: a hundred words are asked for, and no one knows which before.
        """
        return {
            path: frozenset((self.tree.content(path) or b"").translate(_ONLY_WORDS).split())
            for path in self._paths
        }

    def mentioning(self, name: str, text: str = "") -> tuple[str, ...]:
        """The files of the server that hold a name, and a text around it."""
        key = text or name
        known = self._mentions.get(key)
        if known is None:
            word = name.encode()
            paths = [path for path, words in self._words.items() if word in words]
            if text:
                around = text.encode()
                paths = [path for path in paths if around in (self.tree.content(path) or b"")]
            known = self._mentions[key] = tuple(paths)
        return known

    def file(self, path: str) -> File | None:
        """A file, None where it cannot be read."""
        if path not in self._files:
            data = self.tree.content(path)
            self._files[path] = File(path, data) if data is not None else None
        return self._files[path]

    def imported(self, dotted: str) -> File | None:
        """The file of a dotted module."""
        path = self.tree.located(dotted)
        return self.file(path) if path is not None else None

    def _of(self, paths: Iterable[str], ask: Callable[[File], list[T]]) -> list[tuple[File, T]]:
        files = [file for file in map(self.file, paths) if file is not None]
        return [(file, found) for file in files for found in ask(file)]

    def uses(self, name: str) -> list[Use]:
        """All uses of a name, in the files of which a line may be one."""
        if name not in self._uses:
            used = _used(name)
            paths = (
                path
                for path in self.mentioning(name)
                if any(map(used.search, _lines(self.tree.content(path) or b"", name)))
            )
            self._uses[name] = [use for _, use in self._of(paths, lambda file: file.named(name))]
        return self._uses[name]

    def subclasses(self, name: str) -> list[tuple[File, ast.ClassDef]]:
        """The classes that name one among their bases."""
        if name not in self._subclasses:
            paths = (
                path
                for path in self.mentioning(name)
                if _may_be_a_base(self.tree.content(path) or b"", name.encode())
            )
            self._subclasses[name] = self._of(paths, lambda file: file.based_on(name))
        return self._subclasses[name]

    def classes(self, name: str) -> list[tuple[File, ast.ClassDef]]:
        """The classes of a name."""
        return self._of(self.mentioning(name, f"class {name}"), lambda file: file.classes(name))

    def lineage(self, file: File, owner: ast.ClassDef) -> list[tuple[File, ast.ClassDef]]:
        """A class and its known bases, nearest first."""
        found: list[tuple[File, ast.ClassDef]] = []
        pending = [(file, owner)]
        while pending and len(found) < 12:
            here, node = pending.pop(0)
            if any(node is other for _, other in found):
                continue
            found.append((here, node))
            names = [here.real(last(base)) for base in node.bases if last(base)]
            for name in [*names, *sorted(here.mixed_into(node))]:
                pending += self.classes(name)[:1]
        return found

    def function(self, file: File, name: str) -> Body | None:
        """The function of the top level that a name means in a file."""
        for body in file.bodies(name):
            if body.owner is None:
                return body
        imported = file.imported(name)
        if imported is not None:
            dotted, real = imported
            there = self.imported(dotted)
            if there is not None and there is not file:
                return self.function(there, real)
        for dotted in file.stars():
            there = self.imported(dotted)
            if there is not None and there is not file and not there.stars():
                found = self.function(there, name)
                if found is not None:
                    return found
        return None


def _used(name: str) -> re.Pattern[bytes]:
    """Whether a line calls a name, hands it on, keeps it, or renames it by an import."""
    word = name.encode()
    return re.compile(
        rb"\b%b\(|\b%b as |@.*\b%b\b|[=(]\s*%b\b(?! *:)|\b(?:else|or|return)\s+%b\b"
        rb"|[\"']\s*:\s*%b\b|^(?!.*\b(?:import|isinstance)\b).*, %b[,)]|^\s*%b,?$" % ((word,) * 8)
    )


def _may_be_a_base(data: bytes, word: bytes) -> bool:
    """Whether a name stands in the header of a class, or is given another name."""
    renamed = word + b" as "
    at = data.find(word)
    while at >= 0:
        header = data.rfind(b"class ", max(0, at - _LONGEST_HEADER), at)
        if header >= 0 and b"):" not in data[header:at]:
            return True
        if data.startswith(renamed, at):
            return True
        at = data.find(word, at + len(word))
    return False


def _lines(data: bytes, name: str) -> Iterator[bytes]:
    """The lines that hold a name."""
    word = name.encode()
    at = data.find(word)
    while at >= 0:
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        yield data[data.rfind(b"\n", 0, at) + 1 : end]
        at = data.find(word, end)


def _passed(node: ast.If) -> Guard | None:
    """The test under which what follows a choice is reached through it; None where that is sure."""
    if leaves(node.body):
        return node.test, True
    if not node.orelse:
        return None
    if leaves(node.orelse):
        return node.test, False
    after = _passed(node.orelse[0]) if isinstance(node.orelse[0], ast.If) else None
    if after is None or len(node.orelse) > 1:
        return None
    test, negated = after
    other = ast.UnaryOp(ast.Not(), test) if negated else test
    return ast.BoolOp(ast.Or(), [node.test, other]), False


def leaves(block: Sequence[ast.stmt]) -> bool:
    """Whether what follows a block is not reached through it."""
    if not block:
        return False
    last = block[-1]
    if isinstance(last, ast.If):
        return leaves(last.body) and leaves(last.orelse)
    return isinstance(last, _EXITS)


def _named(annotation: ast.expr) -> str:
    """The class that an annotation names, as text too."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value
    return last(annotation)


def _unknown(target: ast.expr) -> ast.expr:
    """The value that a loop or a context gives a name."""
    return ast.copy_location(ast.Constant(...), target)


def _first_line(node: ast.stmt) -> int:
    """Where a statement begins, its decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _pattern(subject: ast.expr, pattern: ast.pattern) -> ast.expr | None:
    match pattern:
        case ast.MatchValue(value=value):
            return ast.Compare(subject, [ast.Eq()], [value])
        case ast.MatchOr(patterns=parts):
            tests = [_pattern(subject, part) for part in parts]
            known = [test for test in tests if test is not None]
            return ast.BoolOp(ast.Or(), known) if len(known) == len(tests) else None
    return None


def _of_types(left: ast.expr, ops: Iterable[ast.cmpop]) -> bool:
    """``type(x) is C``."""
    return isinstance(left, ast.Call) and last(left.func) == "type"


def last(node: ast.expr) -> str:
    """The last name of a dotted one."""
    if isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
