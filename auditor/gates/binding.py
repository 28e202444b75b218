"""A callee's paths and keys in the words of a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from auditor.gates.values import LOOP, NO_KEYS, NOTHING, Keys, Path, Value, join_values
from auditor.source.names import Function

Binding: TypeAlias = dict[str, Value]
"""Root of the callee (``self``, ``param:x``) → the value given; what is not given is missing."""


def bind(
    function: Function,
    receiver: Value,
    arguments: Sequence[Value],
    keywords: Sequence[tuple[str, Value]],
) -> Binding:
    """Root → the value given at a call; what is not given is missing."""
    binding: Binding = {"self": receiver}
    facts = function.facts
    parameters = list(facts.parameters)
    bound = function.owner is not None and "staticmethod" not in facts.decorators
    if bound and parameters:
        parameters = parameters[1:]
    rest = list(arguments)
    for parameter in parameters:
        if parameter.kind == "plain" and rest:
            binding[f"param:{parameter.name}"] = rest.pop(0)
        elif parameter.kind == "star":
            binding[f"param:{parameter.name}"] = Value(parts=tuple(rest))
            rest = []
    named = dict(keywords)
    for parameter in parameters:
        if parameter.name in named:
            binding[f"param:{parameter.name}"] = named.pop(parameter.name)
    for parameter in parameters:
        if parameter.default in ("none", "false"):
            binding.setdefault(f"param:{parameter.name}", Value(none=True))
    for parameter in parameters:
        if parameter.kind == "double":
            binding[f"param:{parameter.name}"] = join_values(named.values())
    return binding


def paths_of(path: Path, binding: Binding) -> list[Path]:
    """A path of the callee as paths of the caller; none where nothing was given for its root."""
    root = path[0]
    if root.startswith(("global:", "local:")) or root == "*":
        return [path]
    if root.startswith("?"):
        given = binding.get(f"param:{root[1:]}", NOTHING)
        if given.none:
            return []
        switches = [p[0] for p in given.paths if len(p) == 1 and p[0].startswith("param:")]
        inner = paths_of(path[1:], binding)
        if len(switches) == 1:
            return [(f"?{switches[0].removeprefix('param:')}", *p) for p in inner]
        return inner
    value = binding.get(root)
    if value is None or value.none:
        return []
    paths = value.paths
    if not paths and value.parts:
        paths = frozenset().union(*(part.paths for part in value.parts))
    return [(*start, *path[1:])[:10] for start in sorted(paths)]


def keys_of(keys: Keys | None, binding: Binding) -> Keys | None:
    """Keys of the callee as keys of the caller; None where they are all, or none is left."""
    if keys is None:
        return None
    found: set[str] = set()
    for key in keys:
        if key == LOOP:
            found.add(key)
        else:
            value = binding.get(f"param:{key}")
            if value is not None:
                found |= value.keys
    return frozenset(found) or None


def is_number(value: Value) -> bool:
    """Whether a value is a number that is written out."""
    return value.text.isdigit()


def for_one_member(keys: Keys | None, binding: Binding) -> bool:
    """Whether numbers are given for what a callee waits for: one member, whichever is read."""
    return bool(keys) and all(is_number(binding.get(f"param:{k}", NOTHING)) for k in keys or ())


def substitute(value: Value, binding: Binding, line: int, column: int) -> Value:
    """What a callee returns, as a value of the caller, who came by it at a place."""
    paths = frozenset(q for p in value.paths for q in paths_of(p, binding))
    types = value.types
    whole = [p for p in value.paths if len(p) == 1]
    if len(whole) == 1 and len(value.paths) == 1 and whole[0][0] in binding:
        return binding[whole[0][0]]
    parts = tuple(substitute(part, binding, line, column) for part in value.parts)
    given = (binding[p[0]].deps for p in value.paths if p[0] in binding)
    deps = (keys_of(value.deps, binding) or NO_KEYS).union(*given)
    guards = tuple(
        (
            path,
            tuple(
                (token, keys_of(keys, binding))
                for held, keys in gates
                for token in paths_of(held, binding)
            ),
        )
        for before, gates in value.guards
        for path in paths_of(before, binding)
    )
    taken = tuple(
        (path, (line, column, origin))
        for before, (_, _, origin) in value.taken
        for path in paths_of(before, binding)
    )
    return Value(
        paths,
        deps,
        types,
        parts,
        line,
        column,
        value.origin,
        guards,
        none=value.none,
        taken=taken,
    )
