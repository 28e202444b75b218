"""The Python files of one tree: parsed once, their names, and where an import leads."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

LARGEST = 5 * 1024 * 1024
"""Bytes; a larger file is generated data, and its syntax tree would take gigabytes."""

CHANGES = frozenset(
    {"add", "append", "clear", "discard", "extend", "insert", "pop", "remove", "setdefault"}
    | {"update"}
)
"""Methods that change the list, set or dictionary on which they are called."""

_NATIVE = (".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hip", ".hpp", ".rs")

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(eq=False)
class Module:
    """One parsed file.

    ``bindings`` has for each name of the top level the statements there that bind or change it, in
    their order; a statement within ``if``, ``try``, ``for`` or ``with`` is listed as the outermost
    one that holds it. ``stars`` are the dotted modules of ``from x import *``.
    """

    tree: Tree
    path: str
    dotted: str
    package: str
    body: list[ast.stmt]
    bindings: dict[str, list[ast.stmt]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    _inside: dict[ast.ClassDef, dict[str, list[ast.stmt]]] = field(default_factory=dict)

    @property
    def classes(self) -> dict[str, ast.ClassDef]:
        """The classes of the top level by name; the last of one name."""
        return {
            node.name: node for node in definitions(self.body) if isinstance(node, ast.ClassDef)
        }

    def inside(self, node: ast.ClassDef) -> Mapping[str, list[ast.stmt]]:
        """``bindings`` of the body of a class of this file."""
        if node not in self._inside:
            self._inside[node] = bindings(node.body)
        return self._inside[node]

    def absolute(self, node: ast.ImportFrom) -> str:
        """The dotted module that a ``from … import`` of this file names."""
        return absolute(self.package, node)


class Tree:
    """The files of one tree by package-relative path (``sglang/srt/server_args.py``).

    ``paths`` are its Python files, ``native`` its sources in C++, CUDA and Rust. ``notes``
    collects what could not be read, one clause each with the path. Nothing of the tree is imported
    or run, and nothing outside these is read.
    """

    def __init__(self, paths: Collection[str], read: Callable[[str], bytes | None]) -> None:
        self.paths = frozenset(path for path in paths if path.endswith(".py"))
        self.native = frozenset(path for path in paths if path.endswith(_NATIVE))
        self.folders = frozenset(folder for path in self.paths for folder in _folders(path))
        self.notes: list[str] = []
        self.values: dict[tuple[str, str], object] = {}  # of top-level names, see ``constants``
        self._read = read
        self._modules: dict[str, Module | None] = {}
        self._contents: dict[str, bytes | None] = {}  # most files are asked for many times
        self._mentions: dict[bytes, tuple[str, ...]] = {}

    def again(self) -> Tree:
        """The same tree, of which nothing has been read."""
        return Tree(self.paths | self.native, self._read)

    @property
    def opened(self) -> frozenset[str]:
        """The paths whose contents were asked for."""
        return frozenset(self._contents)

    def note(self, text: str) -> None:
        """Keep what could not be read, once."""
        if text not in self.notes:
            self.notes.append(text)

    def content(self, path: str) -> bytes | None:
        """The bytes of a file; None, with a note, where it cannot be read or is too large."""
        if path not in self.paths and path not in self.native:
            return None
        if path not in self._contents:
            self._contents[path] = self._bounded(path, self._read(path))
        return self._contents[path]

    def _bounded(self, path: str, data: bytes | None) -> bytes | None:
        if data is None:
            self.note(f"{path}: cannot be read")
        elif len(data) > LARGEST:
            self.note(f"{path}: larger than {LARGEST // 1024 // 1024} MiB")
            return None
        return data

    def module(self, path: str) -> Module | None:
        """The parsed file; None, with a note, where this interpreter cannot parse it."""
        if path not in self._modules:
            self._modules[path] = self._parse(path)
        return self._modules[path]

    def find(self, dotted: str) -> Module | None:
        """The module of a dotted name (``sglang.srt.environ``), if it is a file of the tree."""
        path = self.located(dotted)
        return self.module(path) if path is not None else None

    def located(self, dotted: str) -> str | None:
        """The path of a dotted name, if it is a file of the tree."""
        path = dotted.replace(".", "/")
        candidates = (f"{path}.py", f"{path}/__init__.py")
        return next((candidate for candidate in candidates if candidate in self.paths), None)

    def holds(self, dotted: str) -> bool:
        """Whether a dotted name is a module or package of the tree."""
        path = dotted.replace(".", "/")
        return path in self.folders or f"{path}.py" in self.paths

    def mentioning(
        self, words: Iterable[bytes], under: str = "sglang/srt/"
    ) -> Mapping[bytes, tuple[str, ...]]:
        """For each word the sorted paths below ``under`` whose bytes hold it.

        The words of one call are looked for in one pass over the files, and what was found is kept:
        who asks for all words first reads the files once.
        """
        wanted = list(words)
        missing = [word for word in wanted if word not in self._mentions]
        if missing:
            found: dict[bytes, list[str]] = {word: [] for word in missing}
            for path in sorted(path for path in self.paths if path.startswith(under)):
                data = self.content(path) or b""
                for word in missing:
                    if word in data:
                        found[word].append(path)
            self._mentions.update({word: tuple(paths) for word, paths in found.items()})
        return {word: self._mentions[word] for word in wanted}

    def _parse(self, path: str) -> Module | None:
        data = self.content(path)
        if data is None:
            return None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                body = ast.parse(data).body
        except SyntaxError as error:
            self.note(f"{path}: syntax error at line {error.lineno or 0}: {error.msg}")
            return None
        except (RecursionError, MemoryError):
            self.note(f"{path}: nested too deeply")
            return None
        except (ValueError, LookupError) as error:
            self.note(f"{path}: {error}")
            return None
        dotted = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        module = Module(self, path, dotted, package_of(path), body, bindings(body))
        for node in definitions(body):
            if isinstance(node, ast.ImportFrom) and any(a.name == "*" for a in node.names):
                module.stars.append(module.absolute(node))
        return module


def package_of(path: str) -> str:
    """The dotted package that a file's relative imports start from."""
    return path.rpartition("/")[0].replace("/", ".")


def absolute(package: str, node: ast.ImportFrom) -> str:
    """The dotted module that a ``from … import`` names in a file of a package."""
    module = node.module or ""
    if not node.level:
        return module
    parts = package.split(".")
    parts = parts[: len(parts) - (node.level - 1)]
    return ".".join([*parts, module] if module else parts)


def _folders(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def bindings(body: Iterable[ast.stmt]) -> dict[str, list[ast.stmt]]:
    """For each name the statements of a body that bind or change it, in their order."""
    found: dict[str, list[ast.stmt]] = {}
    for node in body:
        for name in bound(node):
            found.setdefault(name, []).append(node)
    return found


def bound(node: ast.stmt) -> set[str]:
    """The names that a statement binds or changes, not entering functions and classes."""
    names: set[str] = set()
    for inner in definitions([node]):
        names.update(_bound(inner))
    return names


def definitions(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body and those within ``if``, ``for``, ``try``, ``with`` and the like."""
    pending = list(body)[::-1]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, _SCOPES):
            continue
        inner: list[ast.stmt] = []
        for part in ("body", "handlers", "cases", "orelse", "finalbody"):
            for child in getattr(node, part, ()):
                inner += [child] if isinstance(child, ast.stmt) else child.body
        pending.extend(reversed(inner))


def source(node: ast.AST, most: int = 200) -> str:
    """The text of a piece of code on one line, cut to ``most`` characters."""
    try:
        return " ".join(ast.unparse(node).split())[:most]
    except RecursionError:
        return "(nested too deeply)"


def _bound(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Import():
            for alias in node.names:
                yield alias.asname or alias.name.partition(".")[0]
        case ast.ImportFrom():
            for alias in node.names:
                yield alias.asname or alias.name
        case ast.Assign():
            for target in node.targets:
                yield from _targets(target)
        case ast.AugAssign() | ast.AnnAssign() | ast.For() | ast.AsyncFor():
            yield from _targets(node.target)
        case ast.With() | ast.AsyncWith():
            for item in node.items:
                if item.optional_vars is not None:
                    yield from _targets(item.optional_vars)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name, value=changed))):
            if name in CHANGES:
                yield from _targets(changed)


def _targets(target: ast.expr) -> Iterator[str]:
    pending = [target]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
            pending.append(node.value)
        elif isinstance(node, (ast.Tuple, ast.List)):
            pending.extend(node.elts)
