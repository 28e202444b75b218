"""Turns the bytes of one Python file into facts.

The standard library's parser is used rather than a concrete syntax tree: facts need no comments or
white space, and on a release's files it was measured about 25 times faster than libcst with
positions, which is the difference between reading every file that names a gate and reading only a
guess at them. libcst serves where source is written (see ``fix``) or read twice (``confirm``).
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from auditor.errors import Unreadable
from auditor.source import facts as f
from auditor.source import unchanged
from auditor.source.nodes import (
    ELLIPSIS,
    callee,
    comparison_of,
    constant_of,
    definitions,
    end_of,
    operands,
)

VERSION = 6
"""Raised whenever the facts of the same bytes change: it is part of the cache key."""

LARGEST = 4 * 1024 * 1024
"""Bytes; a larger file is generated data, and its syntax tree would take gigabytes."""

DEEPEST = 100
"""Levels of statements and expressions within each other; 0.5.23 needs 45 at most. What is deeper
is generated or hostile, and would exhaust the stack of whatever walks the facts."""

ExitKind = Literal["return", "raise", "break", "continue"]

_LINE_END = re.compile(r"\r\n|\r|\n")  # what Python counts as one; str.splitlines knows more


def extract(data: bytes, package: str, before: f.ModuleFacts | None = None) -> f.ModuleFacts:
    """The facts of one file; ``package`` is its dotted package, to make relative imports absolute.

    ``before`` are those of another version of it: they spare time. Raises ``Unreadable`` for
    anything that this interpreter cannot parse, with the reason.
    """
    if len(data) > LARGEST:
        raise Unreadable(f"larger than {LARGEST // 1024 // 1024} MiB")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise Unreadable(f"cannot be decoded: {error}") from None
    if before is not None and encoding == "utf-8":
        found = _again(data, package, before)
        if found is not None:
            return found
    try:
        return _Extractor(text, package).module(_parsed(text))
    except SyntaxError as error:
        raise Unreadable(f"syntax error at line {error.lineno or 0}: {error.msg}") from None
    except (RecursionError, MemoryError):
        raise Unreadable("nested too deeply") from None
    except ValueError as error:
        raise Unreadable(str(error)) from None


def _again(data: bytes, package: str, before: f.ModuleFacts) -> f.ModuleFacts | None:
    """The facts of a file of which another version is known; None where it has to be read whole."""
    rest, known = unchanged.without(data, before)
    if not known:
        return None
    text = rest.decode()
    reader = _Extractor(text, package, known)
    try:
        found = reader.module(_parsed(text))
    except (SyntaxError, RecursionError, MemoryError, ValueError):
        return None
    # A stub within a text of several lines is no function, and has changed the text.
    return None if reader.known else found


def _parsed(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


class _Extractor:
    """``known`` are functions that need not be read, by line; those that were met are taken out."""

    def __init__(
        self, text: str, package: str, known: Mapping[int, f.FunctionFacts] | None = None
    ) -> None:
        self.package = package
        self.known = dict(known or {})
        self.lines = _LINE_END.split(text) if "\r" in text else text.split("\n")
        self.plain = text.isascii()
        self.before = 0  # lines before the function of a module or class that is being read
        self.mentions: set[str] = set()
        self.depth = 0

    def module(self, tree: ast.Module) -> f.ModuleFacts:
        imports: list[f.Import] = []
        classes: list[f.ClassFacts] = []
        functions: list[f.FunctionFacts] = []
        assigns: list[f.Assign] = []
        for node in definitions(tree.body):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                imports.extend(self.imports(node))
            elif isinstance(node, ast.ClassDef):
                classes.extend(self.classes(node, ""))
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                functions.append(self.function(node, ""))
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                assigns.append(self.assign(node))
        return f.ModuleFacts(tuple(imports), tuple(classes), tuple(functions), tuple(assigns))

    def classes(self, node: ast.ClassDef, prefix: str) -> list[f.ClassFacts]:
        qualname = prefix + node.name
        methods: list[f.FunctionFacts] = []
        assigns: list[f.Assign] = []
        nested: list[f.ClassFacts] = []
        for item in definitions(node.body):
            if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)):
                methods.append(self.function(item, qualname + "."))
            elif isinstance(item, ast.ClassDef):
                nested.extend(self.classes(item, qualname + "."))
            elif isinstance(item, (ast.Assign, ast.AnnAssign)):
                assigns.append(self.assign(item))
        bases = tuple(self.expr(base) for base in node.bases)
        own = f.ClassFacts(
            node.name, qualname, bases, tuple(methods), tuple(assigns), node.lineno, end_of(node)
        )
        return [own, *nested]

    def function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, prefix: str
    ) -> f.FunctionFacts:
        known = self.known.pop(node.lineno, None)
        if known is not None:
            return known
        outer, self.mentions = self.mentions, set()
        line, inner = node.lineno - self.before, self.depth > 0
        if not inner:
            self.before = node.lineno - 1
        parameters = self.parameters(node.args)
        decorators = tuple(f.dotted(self.expr(callee(d))) for d in node.decorator_list)
        returns = self.annotation(node.returns)
        body = self.block(node.body)
        mentions, self.mentions = self.mentions, outer
        outer |= mentions
        if not inner:
            self.before = 0
        return f.FunctionFacts(
            node.name,
            prefix + node.name,
            tuple(sorted(mentions)),
            parameters,
            decorators,
            returns,
            body,
            line,
            self.column(node),
            line + end_of(node) - node.lineno,
            self.digest(node, line if inner else 0),
        )

    def digest(self, node: ast.FunctionDef | ast.AsyncFunctionDef, line: int) -> str:
        first = min([d.lineno for d in node.decorator_list], default=node.lineno)
        text = "\n".join(self.lines[first - 1 : end_of(node)])
        return unchanged.digest(text.encode(errors="surrogatepass"), line)

    def line(self, node: ast.expr | ast.stmt) -> int:
        return node.lineno - self.before

    def parameters(self, args: ast.arguments) -> tuple[f.Parameter, ...]:
        plain = [*args.posonlyargs, *args.args]
        defaults: list[ast.expr | None] = [None] * (len(plain) - len(args.defaults))
        defaults.extend(args.defaults)
        found = [self.parameter(a, d, "plain") for a, d in zip(plain, defaults, strict=True)]
        if args.vararg:
            found.append(self.parameter(args.vararg, None, "star"))
        pairs = zip(args.kwonlyargs, args.kw_defaults, strict=True)
        found.extend(self.parameter(a, d, "keyword") for a, d in pairs)
        if args.kwarg:
            found.append(self.parameter(args.kwarg, None, "double"))
        return tuple(found)

    def parameter(self, arg: ast.arg, default: ast.expr | None, kind: str) -> f.Parameter:
        if default is None:
            state = "required"
        elif isinstance(default, ast.Constant) and not default.value:
            state = "none" if default.value is None else "false"
        else:
            state = "value"
        return f.Parameter(arg.arg, self.annotation(arg.annotation), state, kind)  # type: ignore[arg-type]

    def annotation(self, node: ast.expr | None) -> f.Expr | None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                said = ast.parse(node.value, mode="eval").body
            except (SyntaxError, ValueError):
                return None
            return self.expr(ast.increment_lineno(said, node.lineno - 1))
        return None if node is None else self.expr(node)

    def imports(self, node: ast.Import | ast.ImportFrom) -> list[f.Import]:
        if isinstance(node, ast.Import):
            return [
                f.Import(alias.asname or alias.name.split(".")[0], alias.name, "")
                for alias in node.names
            ]
        module = node.module or ""
        if node.level:
            parent = self.package.split(".")
            parent = parent[: len(parent) - (node.level - 1)]
            module = ".".join([*parent, module] if module else parent)
        return [f.Import(alias.asname or alias.name, module, alias.name) for alias in node.names]

    def block(self, body: Iterable[ast.stmt]) -> tuple[f.Stmt, ...]:
        found: list[f.Stmt] = []
        self.descend(1)
        for node in body:
            found.extend(self.stmt(node))
        self.depth -= 1
        return tuple(found)

    def descend(self, levels: int) -> None:
        self.depth += levels
        if self.depth > DEEPEST:
            raise RecursionError

    def stmt(self, node: ast.stmt) -> Sequence[f.Stmt]:
        read = _STATEMENTS.get(type(node))
        return self.other(node) if read is None else read(self, node)

    def bare(self, node: ast.Expr) -> Sequence[f.Stmt]:
        if isinstance(node.value, ast.Constant):
            return ()
        return (f.Do(self.expr(node.value), self.line(node)),)

    def branch(self, node: ast.If) -> Sequence[f.Stmt]:
        body, orelse = self.block(node.body), self.block(node.orelse)
        return (f.If(self.expr(node.test), body, orelse, self.line(node)),)

    def context(self, node: ast.With | ast.AsyncWith) -> Sequence[f.Stmt]:
        items = tuple(
            (self.expr(i.context_expr), self.expr(i.optional_vars) if i.optional_vars else None)
            for i in node.items
        )
        return (f.With(items, self.block(node.body), self.line(node)),)

    def leave(self, kind: ExitKind, value: ast.expr | None, node: ast.stmt) -> Sequence[f.Stmt]:
        return (f.Exit(kind, self.expr(value) if value else None, self.line(node)),)

    def other(self, node: ast.stmt) -> Sequence[f.Stmt]:
        # Try and TryStar share their fields; TryStar exists from Python 3.11 on only.
        if isinstance(node, ast.Try) or type(node).__name__ == "TryStar":
            assert hasattr(node, "handlers")
            handlers = tuple(self.block(h.body) for h in node.handlers)
            final = self.block(getattr(node, "finalbody", []))
            orelse = self.block(getattr(node, "orelse", []))
            return (
                f.Try(
                    self.block(getattr(node, "body", [])), handlers, orelse, final, self.line(node)
                ),
            )
        return ()

    def loop(
        self, node: ast.For | ast.AsyncFor | ast.While, target: f.Expr | None, source: f.Expr
    ) -> f.Loop:
        return f.Loop(
            target, source, self.block(node.body), self.block(node.orelse), self.line(node)
        )

    def match(self, node: ast.Match) -> Sequence[f.Stmt]:
        subject = self.expr(node.subject)
        chain: tuple[f.Stmt, ...] = ()
        self.descend(len(node.cases))
        for case in reversed(node.cases):
            pattern, matched = case.pattern, subject
            if isinstance(pattern, ast.MatchAs) and pattern.name is not None:
                matched = f.Bind(pattern.name, subject)
            test: f.Expr = f.Group("compare", (matched,))
            if case.guard is not None:
                test = f.Group("and", (test, self.expr(case.guard)))
            body = self.block(case.body)
            total = isinstance(pattern, ast.MatchAs) and pattern.pattern is None
            if total and case.guard is None:
                chain = (f.Do(matched, self.line(case.body[0])), *body)
            else:
                chain = (f.If(test, body, chain, self.line(node)),)
        self.depth -= len(node.cases)
        return chain

    def assign(self, node: ast.Assign | ast.AnnAssign) -> f.Assign:
        if isinstance(node, ast.Assign):
            targets = tuple(self.expr(t) for t in node.targets)
            return f.Assign(targets, self.expr(node.value), None, self.line(node))
        value = self.expr(node.value) if node.value else None
        return f.Assign(
            (self.expr(node.target),), value, self.annotation(node.annotation), self.line(node)
        )

    def exprs(self, nodes: Iterable[ast.expr | None]) -> tuple[f.Expr, ...]:
        read = self.expr
        return tuple([read(n) for n in nodes if n is not None])

    def expr(self, node: ast.expr) -> f.Expr:
        # By far the most frequent step of a run without a cache.
        if self.depth >= DEEPEST:
            raise RecursionError
        kind = type(node)
        if kind is ast.Name:
            return f.Name(node.id)  # type: ignore[attr-defined]
        self.depth += 1
        read = _READERS.get(kind)
        found = ELLIPSIS if read is None else read(self, node)
        self.depth -= 1
        return found

    def attribute(self, node: ast.Attribute) -> f.Expr:
        self.mentions.add(node.attr)
        # A chain that spans lines is read where its last name stands.
        line = node.end_lineno or node.lineno
        if line != node.lineno:
            column = 1
        else:
            column = node.col_offset + 1 if self.plain else self.column(node)
        return f.Attr(self.expr(node.value), node.attr, line - self.before, column)

    def call(self, node: ast.Call) -> f.Expr:
        function = node.func
        if type(function) is ast.Name:
            self.mentions.add(function.id)
            if function.id in ("getattr", "hasattr"):
                self.mention_by_text(node)
        keywords = tuple((k.arg or "**", self.expr(k.value)) for k in node.keywords)
        arguments = self.exprs(node.args)
        line, column = node.lineno - self.before, node.col_offset + 1
        column = column if self.plain else self.column(node)
        return f.Call(self.expr(function), arguments, keywords, line, column)

    def subscript(self, node: ast.Subscript) -> f.Expr:
        place = (self.line(node), self.column(node))
        return f.Sub(self.expr(node.value), self.expr(node.slice), *place)

    def dictionary(self, node: ast.Dict) -> f.Expr:
        return f.Group("dict", self.exprs([*node.keys, *node.values]))

    def boolean(self, node: ast.BoolOp) -> f.Expr:
        return f.Group("and" if isinstance(node.op, ast.And) else "or", self.chain(node.values))

    def unary(self, node: ast.UnaryOp) -> f.Expr:
        op = "not" if isinstance(node.op, ast.Not) else "value"
        return f.Group(op, (self.expr(node.operand),))

    def choice(self, node: ast.IfExp) -> f.Expr:
        return f.Choice(self.expr(node.test), self.expr(node.body), self.expr(node.orelse))

    def function_value(self, node: ast.Lambda) -> f.Expr:
        names = tuple(p.name for p in self.parameters(node.args))
        return f.Lambda(names, self.expr(node.body))

    def pairs(self, node: ast.DictComp) -> f.Expr:
        pair = f.Group("dict", self.exprs([node.key, node.value]))
        return self.comprehension(node.generators, pair)

    def mention_by_text(self, node: ast.Call) -> None:
        for arg in node.args[1:2]:
            if isinstance(arg, ast.Constant) and isinstance(arg.value, str):
                self.mentions.add(arg.value)

    def chain(self, values: list[ast.expr]) -> tuple[f.Expr, ...]:
        self.descend(len(values))  # each is evaluated on one outcome of those before
        found = self.exprs(values)
        self.depth -= len(values)
        return found

    def comprehension(self, generators: list[ast.comprehension], element: f.Expr) -> f.Comp:
        pairs = tuple((self.expr(g.target), self.expr(g.iter)) for g in generators)
        tests = self.exprs(test for g in generators for test in g.ifs)
        return f.Comp(element, pairs, tests)

    def column(self, node: ast.expr | ast.stmt) -> int:
        if self.plain:
            return node.col_offset + 1
        line = self.lines[node.lineno - 1] if node.lineno <= len(self.lines) else ""
        return len(line.encode()[: node.col_offset].decode(errors="replace")) + 1


_STATEMENTS: dict[type[ast.stmt], Callable[[_Extractor, Any], Sequence[f.Stmt]]] = {
    ast.AnnAssign: lambda x, node: (x.assign(node),),
    ast.Assert: lambda x, node: (f.Do(x.expr(node.test), x.line(node)),),
    ast.Assign: lambda x, node: (x.assign(node),),
    ast.AsyncFor: lambda x, node: (x.loop(node, x.expr(node.target), x.expr(node.iter)),),
    ast.AsyncFunctionDef: lambda x, node: (f.Define(x.function(node, "")),),
    ast.AsyncWith: _Extractor.context,
    ast.AugAssign: lambda x, node: (
        f.Augment(x.expr(node.target), x.expr(node.value), x.line(node)),
    ),
    ast.Break: lambda x, node: x.leave("break", None, node),
    ast.Continue: lambda x, node: x.leave("continue", None, node),
    ast.Expr: _Extractor.bare,
    ast.For: lambda x, node: (x.loop(node, x.expr(node.target), x.expr(node.iter)),),
    ast.FunctionDef: lambda x, node: (f.Define(x.function(node, "")),),
    ast.If: _Extractor.branch,
    ast.Import: _Extractor.imports,
    ast.ImportFrom: _Extractor.imports,
    ast.Match: _Extractor.match,
    ast.Raise: lambda x, node: x.leave("raise", node.exc, node),
    ast.Return: lambda x, node: x.leave("return", node.value, node),
    ast.While: lambda x, node: (x.loop(node, None, x.expr(node.test)),),
    ast.With: _Extractor.context,
}
"""How each kind of statement is reduced; any other is looked at by ``other``."""

_READERS: dict[type[ast.expr], Callable[[_Extractor, Any], f.Expr]] = {
    ast.Attribute: _Extractor.attribute,
    ast.Await: lambda x, node: f.Group("await", (x.expr(node.value),)),
    ast.BinOp: lambda x, node: f.Group("value", x.exprs(operands(node))),
    ast.BoolOp: _Extractor.boolean,
    ast.Call: _Extractor.call,
    ast.Compare: lambda x, node: f.Group(
        comparison_of(node), x.exprs([node.left, *node.comparators])
    ),
    ast.Constant: lambda _, node: constant_of(node.value),
    ast.Dict: _Extractor.dictionary,
    ast.DictComp: _Extractor.pairs,
    ast.FormattedValue: lambda x, node: x.expr(node.value),
    ast.GeneratorExp: lambda x, node: x.comprehension(node.generators, x.expr(node.elt)),
    ast.IfExp: _Extractor.choice,
    ast.JoinedStr: lambda x, node: f.Group("value", x.exprs(node.values)),
    ast.Lambda: _Extractor.function_value,
    ast.List: lambda x, node: f.Group("list", x.exprs(node.elts)),
    ast.ListComp: lambda x, node: x.comprehension(node.generators, x.expr(node.elt)),
    ast.NamedExpr: lambda x, node: f.Bind(node.target.id, x.expr(node.value)),
    ast.Set: lambda x, node: f.Group("list", x.exprs(node.elts)),
    ast.SetComp: lambda x, node: x.comprehension(node.generators, x.expr(node.elt)),
    ast.Slice: lambda x, node: f.Group("slice", x.exprs([node.lower, node.upper, node.step])),
    ast.Starred: lambda x, node: f.Group("star", (x.expr(node.value),)),
    ast.Subscript: _Extractor.subscript,
    ast.Tuple: lambda x, node: f.Group("tuple", x.exprs(node.elts)),
    ast.UnaryOp: _Extractor.unary,
    ast.Yield: lambda x, node: f.Group("value", x.exprs([node.value])),
    ast.YieldFrom: lambda x, node: f.Group("value", x.exprs([node.value])),
}
"""How each kind of expression is reduced; any other reads as a constant."""
