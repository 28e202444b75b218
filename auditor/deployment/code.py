"""The code of a tree by the names in it: files, of which the pieces that matter are parsed."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TypeVar

from auditor.deployment.parts import Body, Given, Part, Row, Use, last
from auditor.deployment.words import Way, Words
from auditor.serve.tables.modules import Tree, package_of
from auditor.source.statements import Piece, cut, statements

T = TypeVar("T")


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

    @property
    def asked(self) -> Iterable[str]:
        """What was looked for in it."""
        return self._holding.keys()

    @property
    def read(self) -> Iterable[Piece]:
        """The pieces that were."""
        return self._parts.keys()

    @property
    def read_whole(self) -> bool:
        """Whether a piece was none by itself, so that more of the file counts than its pieces."""
        return "_whole" in vars(self)

    def parts(self, text: str) -> list[Part]:
        """What the pieces say that hold a text, in their order."""
        found = self._holding.get(text)
        if found is None:
            parts = (self._part(piece) for piece in self._pieces if piece.holds(text))
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
        self.words = Words(tree)
        self.files: dict[str, File | None] = {}
        """Those that were asked for."""

    def where(self, way: Way, name: str) -> tuple[str, ...]:
        """The sorted paths of the server's files that hold a name in a way."""
        return self.words.where(way, name)

    def file(self, path: str) -> File | None:
        """A file, None where it cannot be read."""
        if path not in self.files:
            data = self.tree.content(path)
            self.files[path] = File(path, data) if data is not None else None
        return self.files[path]

    def imported(self, dotted: str) -> File | None:
        """The file of a dotted module."""
        path = self.tree.located(dotted)
        return self.file(path) if path is not None else None

    def _of(self, paths: Iterable[str], ask: Callable[[File], list[T]]) -> list[tuple[File, T]]:
        files = [file for file in map(self.file, paths) if file is not None]
        return [(file, found) for file in files for found in ask(file)]

    def uses(self, name: str) -> list[Use]:
        """All uses of a name, in the files of which a line may be one."""
        return [use for _, use in self._of(self.where("used", name), lambda file: file.named(name))]

    def subclasses(self, name: str) -> list[tuple[File, ast.ClassDef]]:
        """The classes that name one among their bases."""
        return self._of(self.where("base", name), lambda file: file.based_on(name))

    def classes(self, name: str) -> list[tuple[File, ast.ClassDef]]:
        """The classes of a name."""
        return self._of(self.where("class", name), lambda file: file.classes(name))

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


def _named(annotation: ast.expr) -> str:
    """The class that an annotation names, as text too."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value
    return last(annotation)


def _first_line(node: ast.stmt) -> int:
    """Where a statement begins, its decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])
