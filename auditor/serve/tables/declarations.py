"""How one flag is declared: its words, its type, its choices, the action that takes its values."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from auditor.serve.tables.constants import UNKNOWN, Module, evaluate, mro, run
from auditor.serve.tables.facts import Flag
from auditor.serve.tables.modules import bindings, bound, definitions
from auditor.serve.tables.nodes import default_of, function_in, last_name, text_of
from auditor.serve.tables.readers import generic, given_type, reads_of
from auditor.serve.tables.values import (
    ClassValue,
    External,
    LiteralType,
    Member,
    is_known,
    members,
)

_LONGEST = 2_000
"""Characters of a help text or default that are kept."""
_DEEPEST = 8
_NOTHING = {"store_true", "store_false", "store_const", "append_const", "count", "help", "version"}
_REPEATS = {"append", "append_const", "extend", "count"}
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


class Keywords:
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
        self.typed = True  # whether argparse is given the type
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
                if last_name(call.func) != "add_argument":
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


def flag_of(module: Module, line: int, names: list[str], words: Keywords) -> Flag:
    """A flag as one call declares it."""
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
    kind = words.given.get("type") if takes_value and words.typed else None
    reads = reads_of(kind, module, words.scope)
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
        words.value("required") is True,
        *reads,
    )


class _Action:
    """A class of the tree that is given as ``action``."""

    def __init__(self, cls: ClassValue) -> None:
        self.classes = mro(cls)
        self.bases = {last_name(base) for c in self.classes for base in c.node.bases}
        self.bases |= {c.name for c in self.classes}
        self.about = (ast.get_docstring(cls.node) or "").partition("\n")[0]
        self.nargs = "0" if self.bases & _BARE else ""
        for c in self.classes:
            made = function_in(c.node.body, "__init__")
            if made is None:
                continue
            default = default_of(made, "nargs")
            if isinstance(default, ast.Constant) and default.value is not None:
                self.nargs = str(default.value)
            break
        self.call = next(
            (f for c in self.classes if (f := function_in(c.node.body, "__call__"))), None
        )
        texts = (
            [n.value for n in ast.walk(self.call) if isinstance(n, ast.Constant)]
            if (self.call)
            else []
        )
        said = any(isinstance(text, str) and "deprecated" in text.lower() for text in texts)
        self.deprecated = said or any("deprecated" in c.name.lower() for c in self.classes)

    def refuses(self, words: Keywords) -> bool:
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


def by_type(words: Keywords, kind: ast.expr, module: Module) -> None:
    """What the type of a field adds: choices of a ``Literal``, many values of a list, a switch."""
    kind = given_type(kind)
    value = evaluate(kind, module)
    if isinstance(value, LiteralType):
        literals = [m for m in value.members if m is not None]
        if not words.value("choices"):
            words.given.pop("choices", None)
            words.extra["choices"] = literals
    elif generic(kind) in ("list", "List") and "type_parser" not in words:
        words.given.setdefault("nargs", ast.Constant("+"))
    elif isinstance(kind, ast.Name) and kind.id == "bool":
        words.given["action"] = ast.Constant("store_true")
    if "type_parser" in words.given:
        words.given["type"] = words.given["type_parser"]


def _choices(words: Keywords) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
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


def _dest(names: Sequence[str]) -> str:
    long = next((name for name in names if name.startswith("--")), names[0])
    return long.lstrip("-").replace("-", "_")
