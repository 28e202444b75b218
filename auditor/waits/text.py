"""Expressions as text, equal where they mean the same whatever a local name is."""

from __future__ import annotations

from auditor.source import facts as f

_DEEPEST = 8
"""Aliases followed one after another; a name may be assigned from itself by way of others."""

_LONGEST = 400
"""Characters of one expression; what is longer tells no more, and may double with each alias."""


class Aliases:
    """The locals that a function gives one value only, which is the same object under a name.

    The result of a call is an object of its own, but for what asks for the stream at hand.
    """

    def __init__(self, function: f.FunctionFacts | None = None) -> None:
        """None of a function where none is given."""
        self.exprs: dict[str, f.Expr] = {}
        self.texts: dict[str, str] = {}
        for name, values in _given(function).items() if function is not None else ():
            value = values[0]
            if len(values) == 1 and value is not None and _names_an_object(value):
                # In the order of the source: an alias of an alias is written out already.
                self.texts[name] = text_of(value, self)
                self.exprs[name] = value

    def followed(self, expr: f.Expr) -> f.Expr:
        """What a local stands for; an expression that is no alias as it is."""
        for _ in range(_DEEPEST):
            if not (isinstance(expr, f.Name) and expr.id in self.exprs):
                break
            expr = self.exprs[expr.id]
        return expr

    def named(self, names: set[str]) -> set[str]:
        """Names, with those in what they are aliases of."""
        return names.union(*(names_in(self.exprs[n]) for n in names & self.exprs.keys()))


def text_of(expr: f.Expr, aliases: Aliases) -> str:
    """An expression with its local aliases written out."""
    said = _said(expr, aliases)
    return said if len(said) <= _LONGEST else said[:_LONGEST]


def _said(expr: f.Expr, aliases: Aliases) -> str:
    match expr:
        case f.Name():
            return aliases.texts.get(expr.id, expr.id)
        case f.Const():
            return repr(expr.text) if expr.kind == "str" else expr.text or expr.kind
        case f.Attr():
            return f"{text_of(expr.value, aliases)}.{expr.name}"
        case f.Sub():
            return f"{text_of(expr.value, aliases)}[{text_of(expr.index, aliases)}]"
        case f.Call():
            given = [text_of(a, aliases) for a in expr.args]
            given += [f"{name}={text_of(value, aliases)}" for name, value in expr.keywords]
            return f"{text_of(expr.func, aliases)}({', '.join(given)})"
        case f.Lambda():
            return f"lambda {', '.join(expr.parameters)}: {text_of(expr.body, NO_ALIASES)}"
        case f.Bind():
            return f"{expr.target} := {text_of(expr.value, aliases)}"
    name = expr.op if isinstance(expr, f.Group) else type(expr).__name__
    return f"{name}({', '.join([text_of(part, aliases) for part in f.children(expr)])})"


def _given(function: f.FunctionFacts) -> dict[str, list[f.Expr | None]]:
    """What each local is given; None for what no expression tells."""
    given: dict[str, list[f.Expr | None]] = {p.name: [None] for p in function.parameters}
    for stmt in f.statements(function.body):
        match stmt:
            case f.Assign():
                for target in stmt.targets:
                    _give(target, stmt.value, given)
            case f.Augment():
                _give(stmt.target, None, given)
            case f.Loop() if stmt.target is not None:
                _give(stmt.target, None, given)
            case f.With():
                for _, named in stmt.items:
                    if named is not None:
                        _give(named, None, given)
            case _:
                pass
    return given


def _give(target: f.Expr, value: f.Expr | None, given: dict[str, list[f.Expr | None]]) -> None:
    if isinstance(target, f.Name):
        given.setdefault(target.id, []).append(value)
    elif isinstance(target, f.Group):
        one_each = isinstance(value, f.Group) and len(value.parts) == len(target.parts)
        values = value.parts if one_each and isinstance(value, f.Group) else ()
        for position, part in enumerate(target.parts):
            _give(part, values[position] if values else None, given)


def _names_an_object(expr: f.Expr) -> bool:
    while isinstance(expr, (f.Attr, f.Sub)):
        expr = expr.value
    return isinstance(expr, f.Name) or (isinstance(expr, f.Call) and asks_for_stream(expr))


def asks_for_stream(call: f.Call) -> bool:
    """Whether a call gives the stream at hand, or the default one: the same one each time."""
    return last_name(call.func) in STREAMS_AT_HAND


STREAMS_AT_HAND = frozenset(("current_stream", "get_current_stream", "default_stream"))


def last_name(expr: f.Expr) -> str:
    """The last name of an access: ``b`` of ``a.b``, of ``a.b[i]`` and of ``a.b()``."""
    while isinstance(expr, (f.Sub, f.Call)):
        expr = expr.func if isinstance(expr, f.Call) else expr.value
    match expr:
        case f.Attr():
            return expr.name
        case f.Name():
            return expr.id
    return ""


def names_in(expr: f.Expr) -> set[str]:
    """All attribute names and bare names of an expression."""
    found = {node.name for node in f.walk(expr) if isinstance(node, f.Attr)}
    return found | {node.id for node in f.walk(expr) if isinstance(node, f.Name)}


NO_ALIASES = Aliases()
