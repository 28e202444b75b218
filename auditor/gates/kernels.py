"""Which parameters a kernel of known body only stores to: what is handed for them is not read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from auditor.source import facts as f

Stores = Callable[[str], bool]
"""Whether a callee's name says that it writes to what it is handed first."""


def stored_to(facts: f.FunctionFacts, stores: Stores) -> frozenset[int | str]:
    """The parameters, by place and name, that stand in nothing but targets of stores.

    There a pointer may have an offset.
    """
    tops = (top for stmt in f.statements(facts.body) for top in f.expressions(stmt))
    if not any(True for top in tops for _ in _calls(top, stores)):
        return frozenset()
    names = enumerate(p.name for p in facts.parameters)
    found = [(place, name) for place, name in names if _is_target(facts, name, stores)]
    return frozenset(part for pair in found for part in pair)


def _is_target(facts: f.FunctionFacts, parameter: str, stores: Stores) -> bool:
    pointers = {parameter}
    stored = False
    for stmt in f.statements(facts.body):
        if isinstance(stmt, f.Assign) and isinstance(stmt.value, f.Group | f.Name):
            if _named(stmt.value, pointers):
                # An offset from the pointer, under another name.
                names = [t.id for t in stmt.targets if isinstance(t, f.Name)]
                if len(names) != len(stmt.targets):
                    return False
                pointers.update(names)
                continue
        for top in f.expressions(stmt):
            targets = [call.args[0] for call in _calls(top, stores) if call.args]
            inside = [name for target in targets for name in _named(target, pointers)]
            stored = stored or bool(inside)
            if len(_named(top, pointers)) > len(inside):
                return False
    return stored


def _calls(expr: f.Expr, stores: Stores) -> Iterator[f.Call]:
    for node in f.walk(expr):
        if isinstance(node, f.Call) and stores(f.dotted(node.func)):
            yield node


def _named(expr: f.Expr, names: set[str]) -> list[str]:
    """Uses of some names in an expression; what is asked of them (a type, a stride) is none."""
    asked = {id(n.value) for n in f.walk(expr) if isinstance(n, f.Attr)}
    return [
        node.id
        for node in f.walk(expr)
        if isinstance(node, f.Name) and node.id in names and id(node) not in asked
    ]
