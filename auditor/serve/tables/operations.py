"""Operations on the values of constants: pure, and bounded, since the tree may be hostile."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from auditor.serve.tables.values import (
    LARGEST,
    LONGEST,
    SCALARS,
    UNKNOWN,
    External,
    LiteralType,
    Member,
    Pattern,
    Unknown,
    bounded,
    is_key,
    is_known,
    members,
    same,
)


def text_of(value: object) -> str | None:
    """What an f-string makes of a value, None where a run decides."""
    if isinstance(value, Member):
        return str(value.value) if value.is_text else None
    if isinstance(value, (str, int, float, bool, type(None))):
        return str(value)
    return None


def joined(parts: Sequence[object]) -> object:
    """The concatenation of texts."""
    total: list[str] = []
    size = 0
    for part in parts:
        text = text_of(part) if not isinstance(part, str) else part
        if text is None:
            return UNKNOWN
        size += len(text)
        if size > LONGEST:
            return UNKNOWN
        total.append(text)
    return "".join(total)


def formatted(value: object, conversion: str, spec: str) -> str | None:
    """One field of a format; None for an unknown value and for a width, which may be hostile."""
    if spec and spec != "s":
        return None
    if conversion == "r":
        return repr(value) if isinstance(value, SCALARS) else None
    return text_of(value) if conversion in ("", "s") else None


def formats(template: str, args: Sequence[object], named: Mapping[str, object]) -> object:
    """``template.format(*args, **named)``."""
    parts: list[object] = []
    counter = 0
    try:
        fields = list(string.Formatter().parse(template))
    except ValueError:
        return UNKNOWN
    for literal, name, spec, conversion in fields:
        parts.append(literal)
        if name is None:
            continue
        if name == "" or name.isdigit():
            index = int(name[:4]) if name else counter
            counter += 1
            value = args[index] if index < len(args) else UNKNOWN
        else:
            value = named.get(name, UNKNOWN)
        text = formatted(value, conversion or "", spec or "")
        if text is None:
            return UNKNOWN
        parts.append(text)
    return joined(parts)


def added(left: object, right: object) -> object:
    """``left + right``."""
    if isinstance(left, str) and isinstance(right, str):
        return left + right if len(left) + len(right) <= LONGEST else UNKNOWN
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return bounded(left + right)
    if isinstance(left, list) and isinstance(right, list):
        return left + right if len(left) + len(right) <= LARGEST else UNKNOWN
    if isinstance(left, tuple) and isinstance(right, tuple):
        return left + right if len(left) + len(right) <= LARGEST else UNKNOWN
    if isinstance(left, list) and isinstance(right, Unknown):
        return [*left, UNKNOWN]
    if isinstance(right, list) and isinstance(left, Unknown):
        return [UNKNOWN, *right]
    return UNKNOWN


def multiplied(left: object, right: object) -> object:
    """``left * right``."""
    if isinstance(left, int):
        left, right = right, left
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return bounded(left * right)
    if isinstance(right, int) and isinstance(left, str):
        return left * right if len(left) * right <= LONGEST else UNKNOWN
    if isinstance(right, int) and isinstance(left, (list, tuple)):
        return bounded(left * right) if len(left) * right <= LARGEST else UNKNOWN
    return UNKNOWN


def united(left: object, right: object) -> object:
    """``left | right``."""
    if isinstance(left, dict) and isinstance(right, dict):
        return {**left, **right} if len(left) + len(right) <= LARGEST else UNKNOWN
    if isinstance(left, dict) and isinstance(right, Unknown):
        return {**left, UNKNOWN: UNKNOWN}
    if isinstance(left, (set, frozenset)) and isinstance(right, (set, frozenset)):
        return left | right
    if isinstance(left, int) and isinstance(right, int):
        return left | right
    return UNKNOWN


def subtracted(left: object, right: object) -> object:
    """``left - right``."""
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return bounded(left - right)
    if isinstance(left, (set, frozenset)) and isinstance(right, (set, frozenset)):
        return left - right if is_known(right) else UNKNOWN
    return UNKNOWN


def shifted(left: object, right: object) -> object:
    """``left << right``."""
    if isinstance(left, int) and isinstance(right, int) and 0 <= right < 64:
        return bounded(left << right)
    return UNKNOWN


def raised(left: object, right: object) -> object:
    """``left ** right``."""
    if (
        isinstance(left, int)
        and isinstance(right, int)
        and abs(left) <= 1 << 16
        and 0 <= right < 64
    ):
        return bounded(left**right)
    return UNKNOWN


def divided(left: object, right: object) -> object:
    """``left / right``."""
    if isinstance(left, (int, float)) and isinstance(right, (int, float)) and right:
        return bounded(left / right)
    return UNKNOWN


def floored(left: object, right: object) -> object:
    """``left // right``."""
    if isinstance(left, int) and isinstance(right, int) and right:
        return bounded(left // right)
    return UNKNOWN


BINARY: Final[Mapping[type[ast.operator], Callable[[object, object], object]]] = {
    ast.Add: added,
    ast.Sub: subtracted,
    ast.Mult: multiplied,
    ast.Div: divided,
    ast.FloorDiv: floored,
    ast.Pow: raised,
    ast.LShift: shifted,
    ast.BitOr: united,
}


def compared(op: ast.cmpop, left: object, right: object) -> object:
    """One comparison, ``UNKNOWN`` where a run decides."""
    if isinstance(left, (Unknown, External)) or isinstance(right, (Unknown, External)):
        return UNKNOWN
    match op:
        case ast.Eq() | ast.Is():
            return _equal(left, right)
        case ast.NotEq() | ast.IsNot():
            equal = _equal(left, right)
            return UNKNOWN if equal is UNKNOWN else not equal
        case ast.In() | ast.NotIn():
            found = _contains(right, left)
            if isinstance(op, ast.In) or found is UNKNOWN:
                return found
            return not found
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        match op:
            case ast.Lt():
                return left < right
            case ast.LtE():
                return left <= right
            case ast.Gt():
                return left > right
            case ast.GtE():
                return left >= right
    return UNKNOWN


def _equal(left: object, right: object) -> object:
    if same(left, right):
        return True
    if isinstance(left, SCALARS) and isinstance(right, SCALARS):
        return left == right
    if left is None or right is None:
        return False
    return UNKNOWN


def _contains(container: object, item: object) -> object:
    if isinstance(container, str) and isinstance(item, str):
        return item in container
    if isinstance(container, (list, tuple, set, frozenset, dict)) and is_key(item):
        if any(same(item, other) for other in container):
            return True
        return False if all(isinstance(other, SCALARS) for other in container) else UNKNOWN
    return UNKNOWN


def method(value: object, name: str, args: list[object], named: dict[str, object]) -> object:
    """The result of a pure method of a text, list, set or dictionary."""
    if isinstance(value, str):
        return _text_method(value, name, args, named)
    if isinstance(value, dict):
        return _dict_method(value, name, args)
    if isinstance(value, (set, frozenset)) and len(args) == 1 and not named:
        other = members(args[0])
        if name == "union" and other is not None and all(map(is_key, other)):
            return value | set(other)
        if name == "difference" and other is not None and all(map(is_key, other)):
            return subtracted(value, set(other))
    if name == "copy" and isinstance(value, (list, set, frozenset)):
        return value
    return UNKNOWN


_TEXT = {
    *("lower", "upper", "strip", "lstrip", "rstrip", "title", "capitalize"),
    *("removeprefix", "removesuffix", "startswith", "endswith", "casefold"),
}


def _text_method(value: str, name: str, args: list[object], named: dict[str, object]) -> object:
    if name == "format":
        return formats(value, args, named)
    if named:
        return UNKNOWN
    if name == "join" and len(args) == 1:
        parts = members(args[0])
        if parts is None or not all(isinstance(part, str) for part in parts):
            return UNKNOWN
        between: list[object] = []
        for part in parts:
            between += [value, part]
        return joined(between[1:])
    texts = [arg for arg in args if isinstance(arg, str)]
    if len(texts) != len(args) or len(args) > 2:
        return UNKNOWN
    if name in _TEXT and len(texts) < 2:
        try:
            return getattr(value, name)(*texts)
        except TypeError:
            return UNKNOWN
    if name == "replace" and len(texts) == 2:
        size = len(value) + value.count(texts[0]) * len(texts[1])
        return value.replace(texts[0], texts[1]) if size <= LONGEST else UNKNOWN
    if name == "split" and len(texts) < 2 and (not texts or texts[0]):
        return bounded(value.split(texts[0] if texts else None))
    return UNKNOWN


def _dict_method(value: dict[object, object], name: str, args: list[object]) -> object:
    if name == "keys":
        return list(value)
    if name == "values":
        return list(value.values())
    if name == "items":
        return [UNKNOWN if key is UNKNOWN else (key, item) for key, item in value.items()]
    if name == "copy":
        return value
    if name == "get" and args and is_key(args[0]):
        if UNKNOWN in value and args[0] not in value:
            return UNKNOWN
        return value.get(args[0], args[1] if len(args) > 1 else None)
    return UNKNOWN


def changed(value: object, name: str, args: list[object], named: dict[str, object]) -> object:
    """What a list, set or dictionary is after one of its changing methods, as a new value."""
    match value, name, args:
        case dict(), "update", []:
            return {**value, **{(UNKNOWN if k == "**" else k): x for k, x in named.items()}}
        case dict(), "update", [dict() as other]:
            return {**value, **other, **named}
        case dict(), "update", [other]:
            return {**value, **_pairs(other)}
        case dict(), "setdefault", [key, default] if is_key(key):
            return value if key in value else {**value, key: default}
        case dict(), "pop", [key, *_] if is_key(key):
            return {k: x for k, x in value.items() if not same(k, key)}
        case list(), "append", [item]:
            return [*value, item] if len(value) < LARGEST else UNKNOWN
        case list(), "extend", [other]:
            more = members(other)
            return added(value, [UNKNOWN] if more is None else more)
        case list(), "insert", [int() as index, item]:
            return [*value[:index], item, *value[index:]]
        case ((list() | set()), ("remove" | "discard"), [item]) if is_known(value):
            kept = [other for other in value if not same(other, item)]
            return kept if isinstance(value, list) else set(kept)
        case set(), "add", [item]:
            return value | {item if is_key(item) else UNKNOWN}
        case set(), "update", [other]:
            more = members(other)
            return value | {x if is_key(x) else UNKNOWN for x in more or [UNKNOWN]}
        case _, "clear", []:
            return type(value)() if isinstance(value, (list, set, dict)) else UNKNOWN
    return UNKNOWN


def _pairs(value: object) -> dict[object, object]:
    """A dictionary of pairs."""
    found: dict[object, object] = {}
    items = members(value)
    for pair in [UNKNOWN] if items is None else items:
        if isinstance(pair, (tuple, list)) and len(pair) == 2 and is_key(pair[0]):
            found[pair[0]] = pair[1]
        else:
            found[UNKNOWN] = UNKNOWN
    return found


def indexed(value: object, key: object) -> object:
    """``value[key]``."""
    if isinstance(value, dict) and is_key(key):
        return value.get(key, UNKNOWN)
    if isinstance(value, (list, tuple, str)) and isinstance(key, int):
        if any(isinstance(item, Unknown) for item in value) and isinstance(value, list):
            return UNKNOWN
        return value[key] if -len(value) <= key < len(value) else UNKNOWN
    return UNKNOWN


def sliced(value: object, bounds: Sequence[object]) -> object:
    """``value[a:b:c]``."""
    if not isinstance(value, (list, tuple, str)) or bounds[2] == 0:
        return UNKNOWN
    start, stop, step = (b if b is None or isinstance(b, int) else UNKNOWN for b in bounds)
    if isinstance(start, Unknown) or isinstance(stop, Unknown) or isinstance(step, Unknown):
        return UNKNOWN
    return value[start:stop:step]


def made(dotted: str, args: list[object], named: Mapping[str, object] | None = None) -> object:
    """The result of a function that is not the tree's own, where it is a pure one that we know."""
    named = named or {}
    name = dotted.rpartition(".")[2]
    first = members(args[0]) if args else []
    match name:
        case "get" if dotted == "sys.modules.get":
            return None  # asked whether a plugin has loaded a module before: by itself none has
        case "compile" | "escape" if dotted in ("re.compile", "re.escape", "regex.compile"):
            return _regex(name, args, named)
        case "get_args":
            return args[0].members if args and isinstance(args[0], LiteralType) else UNKNOWN
        case "dict" | "OrderedDict" if not args or isinstance(args[0], dict):
            base = args[0] if args and isinstance(args[0], dict) else {}
            return {**base, **{(UNKNOWN if k == "**" else k): x for k, x in named.items()}}
        case "str" if len(args) == 1:
            text = text_of(args[0])
            return UNKNOWN if text is None else text
        case "MappingProxyType" | "deepcopy" | "copy" if len(args) == 1:
            return args[0]
    if first is None or (len(args) > 1 and name != "zip"):
        return UNKNOWN
    match name:
        case "list":
            return first
        case "tuple":
            return tuple(first)
        case "set" | "frozenset":
            return {item if is_key(item) else UNKNOWN for item in first}
        case "dict" | "OrderedDict":
            return _pairs(first)
        case "reversed":
            return first[::-1]
        case "len":
            return UNKNOWN if any(isinstance(item, Unknown) for item in first) else len(first)
        case "sorted" if not named:
            texts = [item for item in first if isinstance(item, str)]
            unknown: list[object] = [UNKNOWN] if len(texts) < len(first) else []
            return [*sorted(texts), *unknown]
        case "zip":
            columns = [members(arg) for arg in args]
            known = [column for column in columns if column is not None]
            if len(known) < len(columns):
                return UNKNOWN
            return [tuple(row) for row in zip(*known, strict=False)]
    return UNKNOWN


def _regex(name: str, args: list[object], named: Mapping[str, object]) -> object:
    if not args or not isinstance(args[0], str):
        return UNKNOWN
    if name == "escape":
        return bounded(re.escape(args[0]))
    flags = [*args[1:], *named.values()]
    plain = all(isinstance(flag, External) for flag in flags)
    ignore = any(
        isinstance(flag, External) and flag.dotted.rpartition(".")[2] in ("I", "IGNORECASE")
        for flag in flags
    )
    return Pattern(args[0], ignore) if plain else UNKNOWN
