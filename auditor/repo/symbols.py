"""Says which functions, methods and classes differ between two versions of a Python file."""

from __future__ import annotations

import ast
import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterator
from typing import NamedTuple

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

# Where a statement of the module and one of a class begin. Decorators and text inside a string
# match too and are put together again.
_OF_MODULE = re.compile(r"\n(?=[^\W\d]|@)(?!(?:else|elif|except|finally|case)\b)")
_OF_CLASS = re.compile(r"\n(?=    (?:[^\W\d]|@))(?!    (?:else|elif|except|finally)\b)")
_CLASS = re.compile(r"(?:@[^\n]*\n)*class +(\w+)")
_FUNCTION = re.compile(r"(?:@[^\n]*\n)*(?:async +)?def +(\w+)")
_METHOD = re.compile(r"(?:    @[^\n]*\n)*    (?:async +)?def +(\w+)")
_COMMENT = re.compile(r"#[^\n]*")
_TRAILING_COMMA = re.compile(r",(?=[)\]}])")


def changed_symbols(old: bytes, new: bytes) -> tuple[str, ...]:
    """The qualified names (``Class.method``) whose code differs, in order of name.

    Comments, blank lines and layout do not count. A name on one side only differs. A class is
    named for its own statements (bases, decorators, attributes), not for its methods'. Code of the
    module itself has no name. Empty where a side cannot be parsed.
    """
    before, after = _text(old), _text(new)
    try:
        try:
            changed, left_before, left_after = _compare_texts(before, after)
            ours, theirs = _definitions(left_before), _definitions(left_after)
        except SyntaxError:
            # The cut went through a string or an unusual layout.
            changed, ours, theirs = set(), _definitions(before), _definitions(after)
        names = ours.keys() | theirs.keys()
        return tuple(sorted(changed | {n for n in names if not _same(ours.get(n), theirs.get(n))}))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


class Definition(NamedTuple):
    """The statements of one symbol, and the 1-based line of its ``def`` or ``class``.

    A function or a class is one statement, a class without its methods; of the module itself (the
    name "") there are all statements but definitions.
    """

    line: int
    body: list[ast.stmt]


def definitions(content: bytes, names: Collection[str]) -> dict[str, list[Definition]]:
    """The named definitions of a Python file, those that are there, in order of place.

    Several may share a name. Empty where the file cannot be parsed.
    """
    source = _text(content)
    try:
        found = _cut_out(source, names)
        if any(not places and _may_define(source, name) for name, places in found.items()):
            # Within a branch, a nested class, or cut through a string.
            whole = _placed(source)
            found = {name: places or whole.get(name, []) for name, places in found.items()}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    return {name: places for name, places in found.items() if places}


def _may_define(source: str, name: str) -> bool:
    last = name.rpartition(".")[2]
    return bool(last) and bool(re.search(rf"\b(?:def|class)\s+{re.escape(last)}\b", source))


def _cut_out(source: str, names: Collection[str]) -> dict[str, list[Definition]]:
    """The named definitions as far as the text tells them; parsing a whole file is slow."""
    found: dict[str, list[Definition]] = {name: [] for name in names}
    classes = {name.partition(".")[0] for name in names if "." in name} | set(names)
    rest, line = [], 1
    for piece in _pieces(_OF_MODULE, source):
        function, made = _FUNCTION.match(piece), _CLASS.match(piece)
        if function and function[1] in found:
            _add(found, function[1], line, piece)
        elif made and made[1] in classes:
            _cut_class(found, made[1], line, piece)
        if not (function or made):
            rest.append(piece)
        line += piece.count("\n")
    if "" in found:
        _add(found, "", 1, "".join(rest))
    return found


def _cut_class(found: dict[str, list[Definition]], name: str, line: int, piece: str) -> None:
    own, at = [], line
    for member in _pieces(_OF_CLASS, piece):
        method = _METHOD.match(member)
        if method and f"{name}.{method[1]}" in found:
            _add(found, f"{name}.{method[1]}", at, f"class _:\n{member}")
        if not method:
            own.append(member)
        at += member.count("\n")
    if name in found:
        _add(found, name, line, "".join((*own, "    pass\n")))


def _add(found: dict[str, list[Definition]], name: str, line: int, text: str) -> None:
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return
    skipped = 0
    if "." in name and len(body) == 1 and isinstance(body[0], ast.ClassDef):
        body = body[0].body
        skipped = 1
    if name and "." not in name and body and isinstance(body[0], ast.ClassDef):
        body[0].body = [part for part in body[0].body if not isinstance(part, _Definition)]
    if name and body:
        line += body[0].lineno - 1 - skipped
    found[name].append(Definition(line, body))


def _placed(source: str) -> dict[str, list[Definition]]:
    """Every definition of a file by its name, and the module's own statements by the name ""."""
    tree = ast.parse(source)
    found: dict[str, list[Definition]] = {}
    for name, node in _walk(tree, ""):
        if isinstance(node, ast.ClassDef):
            node.body = [part for part in node.body if not isinstance(part, _Definition)]
        found.setdefault(name, []).append(Definition(node.lineno, [node]))
    own = [part for part in tree.body if not isinstance(part, _Definition)]
    found[""] = [Definition(1, own)] if own else []
    return found


def _text(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _compare_texts(before: str, after: str) -> tuple[set[str], str, str]:
    """The definitions that differ as text, and of both texts what only parsing can compare.

    Parsing costs 7 MB/s; most of a changed file is unchanged, and most of the rest has changed for
    certain.
    """
    old, new = _unshared(_pieces(_OF_MODULE, before), _pieces(_OF_MODULE, after))
    old_classes, new_classes = _named(_CLASS, old), _named(_CLASS, new)
    changed, old, new = _split_off(_FUNCTION, "", old, new)
    for name in old_classes.keys() | new_classes.keys():
        sides = (old_classes.get(name, []), new_classes.get(name, []))
        if any(len(side) > 1 for side in sides):
            continue
        members = [_pieces(_OF_CLASS, text) for side in sides for text in (side or [""])]
        mine, theirs = _unshared(members[0][1:], members[1][1:])
        methods, mine, theirs = _split_off(_METHOD, f"{name}.", mine, theirs)
        changed |= methods
        for side, texts, head, rest in zip(
            sides, (old, new), (members[0][0], members[1][0]), (mine, theirs), strict=True
        ):
            if side:
                texts[texts.index(side[0])] = "".join((head, *rest, "    pass\n"))
    return changed, "".join(old), "".join(new)


def _split_off(
    pattern: re.Pattern[str], prefix: str, old: list[str], new: list[str]
) -> tuple[set[str], list[str], list[str]]:
    """The names of functions that surely differ, and both lists without their texts."""
    ours, theirs = _named(pattern, old), _named(pattern, new)
    changed = {
        name
        for name in ours.keys() | theirs.keys()
        if _differ(ours.get(name, []), theirs.get(name, []))
    }
    gone = {text for name in changed for side in (ours, theirs) for text in side.get(name, [])}
    left = [[text for text in texts if text not in gone] for texts in (old, new)]
    return {prefix + name for name in changed}, left[0], left[1]


def _differ(old: list[str], new: list[str]) -> bool:
    """Whether two lists of definitions are unequal code for certain."""
    return len(old) != len(new) or any(_code(a) != _code(b) for a, b in zip(old, new, strict=True))


def _named(pattern: re.Pattern[str], pieces: list[str]) -> dict[str, list[str]]:
    """The pieces that are one definition each, by its name."""
    named: dict[str, list[str]] = {}
    for piece in pieces:
        found = pattern.match(piece)
        if found:
            named.setdefault(found[1], []).append(piece)
    return named


def _code(piece: str) -> str:
    """A text without comments and layout; what is unequal here is unequal code."""
    bare = _COMMENT.sub("", piece) if "#" in piece else piece
    return _TRAILING_COMMA.sub("", "".join(bare.split()))


def _pieces(start: re.Pattern[str], text: str) -> list[str]:
    """A text cut into statements; the first piece is what comes before any."""
    cuts = [0, *(found.end() for found in start.finditer(text)), len(text)]
    pieces: list[str] = []
    incomplete = in_string = False
    for begin, end in itertools.pairwise(cuts):
        piece = text[begin:end]
        if incomplete:
            pieces[-1] += piece
        else:
            pieces.append(piece)
        if (piece.count('"""') + piece.count("'''")) % 2:
            in_string = not in_string
        incomplete = in_string or piece.lstrip().startswith("@")
        if len(pieces) == 1:
            # The bases of a class, a line each.
            incomplete |= pieces[0].count("(") != pieces[0].count(")")
    return pieces


def _unshared(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    """Both lists without the texts that both hold, each as often as both do."""
    shared = Counter(old) & Counter(new)
    return _without(old, shared.copy()), _without(new, shared)


def _without(pieces: list[str], shared: Counter[str]) -> list[str]:
    kept = []
    for piece in pieces:
        if shared[piece]:
            shared[piece] -= 1
        else:
            kept.append(piece)
    return kept


def _definitions(source: str) -> dict[str, list[ast.AST]]:
    """The tree of each definition; several may share a name (overloads, branches)."""
    found: dict[str, list[ast.AST]] = {}
    if "def " not in source and "class " not in source:
        return found
    for name, node in _walk(ast.parse(source), ""):
        if isinstance(node, ast.ClassDef):
            node.body = [part for part in node.body if not isinstance(part, _Definition)]
        found.setdefault(name, []).append(node)
    return found


def _walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, _Definition]]:
    """Definitions by qualified name, innermost first; those local to a function are part of it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Definition):
            name = f"{prefix}{child.name}"
            if isinstance(child, ast.ClassDef):
                yield from _walk(child, f"{name}.")
            yield name, child
        elif isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _walk(child, prefix)


def _same(mine: object, theirs: object) -> bool:
    """Whether two trees hold the same code, positions aside; ends at the first difference."""
    if type(mine) is not type(theirs):
        return False
    if isinstance(mine, ast.AST):
        return all(_same(getattr(mine, f, None), getattr(theirs, f, None)) for f in mine._fields)
    if isinstance(mine, list) and isinstance(theirs, list):
        return len(mine) == len(theirs) and all(map(_same, mine, theirs))
    return mine == theirs
