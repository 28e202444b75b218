"""Evaluates the strings, lists and dictionaries of a Python program, as far as they are told."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from auditor.errors import Unreadable
from auditor.serve.scripts.literals import Source
from auditor.serve.scripts.masking import CLOSE, OPEN, is_masked
from auditor.serve.scripts.traced import Traced, split

MOST_TEXT = 100_000
MOST_ITEMS = 5_000
MOST_WORK = 5_000_000
"""Characters and items made in all; a program that builds more builds no command."""

DEEPEST = 100


@dataclass(eq=False)
class Text:
    """A text with the places of its characters; holes are placeholders.

    ``alternatives`` and ``conditional`` are those of a word; ``many`` says that the text stands for
    any number of words.
    """

    text: str
    offsets: list[int]
    start: int
    alternatives: tuple[str, ...] = ()
    conditional: bool = False
    many: bool = False


@dataclass(eq=False)
class Flag:
    """``True`` or ``False``."""

    value: bool


class Nothing:
    """``None``."""


@dataclass(eq=False)
class List:
    """A list or tuple; the words of a command where all goes well."""

    items: list[Value]
    start: int


@dataclass(eq=False)
class Dict:
    """``inherits``: the environment of the process is in it; ``whole``: all of it is known."""

    items: dict[str, tuple[Value, int]] = field(default_factory=dict)
    inherits: bool = False
    whole: bool = True


Value = Text | Flag | Nothing | List | Dict


class Evaluator:
    """Evaluates expressions of one program; what is not known becomes a hole in a text.

    ``holes`` are the program's own words for each, by the name of its placeholder.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.holes: dict[str, str] = {}
        self.work = 0

    def spend(self, amount: int) -> None:
        """Counts what was made; raises ``Unreadable`` where it is out of all proportion."""
        self.work += amount
        if self.work > MOST_WORK:
            raise Unreadable("builds more text than any command has")

    def hole(self, node: ast.expr, many: bool = False) -> Text:
        """A text that is known at run time only, shown as the program writes it."""
        start = self.source.start(node)
        end = self.source.offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
        written = " ".join(self.source.text[start : min(end, start + 200)].split())
        self.spend(1)
        if many:
            return Text("${*" + written + "}", [start] * (len(written) + 4), start, many=True)
        name = f"py{len(self.holes)}"
        name = "__" + "".join(chr(97 + int(d)) if d.isdigit() else d for d in name)
        self.holes[name] = "{" + written + "}"
        text = f"{OPEN}_{name}{CLOSE}"
        return Text(text, [start] * len(text), start)

    def value(self, node: ast.expr, names: Mapping[str, Value], depth: int = 0) -> Value | None:
        """What an expression is, None where that is not known."""
        if depth > DEEPEST:
            return None
        if isinstance(node, ast.Constant):
            return self._constant(node)
        if isinstance(node, ast.JoinedStr):
            return self._joined(node, names, depth)
        if isinstance(node, (ast.Name, ast.Attribute)):
            name = dotted(node)
            if name.endswith("os.environ") or name == "environ":
                return Dict(inherits=True)
            return names.get(name)
        if isinstance(node, (ast.List, ast.Tuple)):
            return self._listed(node, names, depth)
        if isinstance(node, ast.Dict):
            return self._mapped(node, names, depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left = self.value(node.left, names, depth + 1)
            right = self.value(node.right, names, depth + 1)
            if left is None and right is None:
                return None
            listed = isinstance(left or right, List)
            return self.sum(
                left or self.hole(node.left, listed), right or self.hole(node.right, listed)
            )
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            number = node.operand
            if isinstance(number, ast.Constant) and isinstance(number.value, (int, float)):
                return self._spelled(f"-{number.value}", node)
        if isinstance(node, ast.IfExp):
            one = self.value(node.body, names, depth + 1)
            two = self.value(node.orelse, names, depth + 1)
            if one is None or two is None:
                return None
            return self.join(None, [one, two])
        if isinstance(node, ast.Starred):
            return self.value(node.value, names, depth + 1)
        if isinstance(node, ast.Call):
            return self._result(node, names, depth)
        return None

    def _constant(self, node: ast.Constant) -> Value | None:
        if node.value is None:
            return Nothing()
        if isinstance(node.value, bool):
            return Flag(node.value)
        if isinstance(node.value, (int, float)):
            return self._spelled(repr(node.value), node)
        if not isinstance(node.value, str) or len(node.value) > MOST_TEXT:
            return None
        start = self.source.start(node)
        units = self.source.units(node)
        if len(units) != len(node.value):
            return self._spelled(node.value, node)
        return Text(node.value, [offset for offset, _ in units], start)

    def _spelled(self, text: str, node: ast.expr) -> Text:
        start = self.source.start(node)
        return Text(text, [start] * len(text), start)

    def _joined(self, node: ast.JoinedStr, names: Mapping[str, Value], depth: int) -> Value | None:
        units = iter(self.source.units(node))
        start = self.source.start(node)
        text: list[str] = []
        offsets: list[int] = []
        size = 0
        for part in node.values:
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                own = [next(units, (start, False))[0] for _ in part.value]
                text.append(part.value)
                offsets.extend(own)
            elif isinstance(part, ast.FormattedValue):
                at = next(units, (start, True))[0]
                value = self.value(part.value, names, depth + 1)
                known = isinstance(value, Text) and part.format_spec is None
                if not isinstance(value, Text) or not known or value.alternatives:
                    value = self.hole(part.value)
                text.append(value.text)
                offsets.extend([at] * len(value.text))
            size = len(offsets)
            if size > MOST_TEXT:
                return None
        return Text("".join(text), offsets, start)

    def _listed(self, node: ast.List | ast.Tuple, names: Mapping[str, Value], depth: int) -> Value:
        items: list[Value] = []
        for item in node.elts[:MOST_ITEMS]:
            value = self.value(item, names, depth + 1)
            if isinstance(item, ast.Starred):
                spread = value.items if isinstance(value, List) else [self.hole(item, many=True)]
                items.extend(spread[: MOST_ITEMS - len(items)])
            else:
                items.append(value if value is not None else self.hole(item))
        return List(items, self.source.start(node))

    def _mapped(self, node: ast.Dict, names: Mapping[str, Value], depth: int) -> Value:
        made = Dict()
        for key, item in zip(node.keys[:MOST_ITEMS], node.values, strict=False):
            value = self.value(item, names, depth + 1)
            if key is None:
                spread = value if isinstance(value, Dict) else Dict(whole=False)
                made.items.update(spread.items)
                made.inherits |= spread.inherits
                made.whole &= spread.whole
                continue
            name = self.value(key, names, depth + 1)
            if isinstance(name, Text) and not is_masked(name.text):
                known = value if value is not None else self.hole(item)
                made.items[name.text] = (known, self.source.start(key))
            else:
                made.whole = False
        return made

    def sum(self, left: Value | None, right: Value | None) -> Value | None:
        """Two texts or lists behind each other."""
        self.spend(_size(left) + _size(right))
        if isinstance(left, List):
            added = right.items if isinstance(right, List) else []
            if isinstance(right, Text):
                added = [right]
            return List([*left.items, *added][:MOST_ITEMS], left.start)
        if isinstance(left, Text) and isinstance(right, List):
            return List([left, *right.items][:MOST_ITEMS], right.start)
        if isinstance(left, Text) and isinstance(right, Text):
            if len(left.text) + len(right.text) > MOST_TEXT:
                return None
            return Text(
                left.text + right.text,
                [*left.offsets, *right.offsets],
                left.start,
                conditional=left.conditional or right.conditional or bool(left.alternatives),
            )
        return left if isinstance(left, Text) else None

    def _result(self, node: ast.Call, names: Mapping[str, Value], depth: int) -> Value | None:
        """The few calls that build commands and environments."""
        name = dotted(node.func)
        first = self.value(node.args[0], names, depth + 1) if node.args else None
        if name == "str" and isinstance(first, Text):
            return first
        if name in {"list", "tuple"} and isinstance(first, List):
            return List(list(first.items), first.start)
        if name == "dict":
            base = first if isinstance(first, Dict) else Dict(whole=not node.args)
            items = dict(base.items)
            for keyword in node.keywords:
                if keyword.arg:
                    value = self.value(keyword.value, names, depth + 1) or self.hole(keyword.value)
                    items[keyword.arg] = (value, self.source.start(keyword))
            return replace(base, items=items)
        if name == "shlex.split" and isinstance(first, Text):
            return self._parted(first)
        if not isinstance(node.func, ast.Attribute):
            return None
        held = self.value(node.func.value, names, depth + 1)
        how = node.func.attr
        if how == "copy" and isinstance(held, (Dict, List)):
            return held if isinstance(held, Dict) else List(list(held.items), held.start)
        if how == "split" and isinstance(held, Text) and not node.args:
            return self._parted(held)
        if how == "join" and isinstance(held, Text) and isinstance(first, List):
            return self._glued(held.text, first)
        if how in {"strip", "lstrip", "rstrip"} and isinstance(held, Text) and not node.args:
            return held
        if name.endswith("dedent") and isinstance(first, Text):
            return first
        return None

    def _parted(self, text: Text) -> List:
        parts = split(Traced(text.text, text.offsets, text.start))
        return List([Text(p.text, p.offsets, p.start) for p in parts[:MOST_ITEMS]], text.start)

    def _glued(self, between: str, value: List) -> Value | None:
        text: list[str] = []
        offsets: list[int] = []
        for number, item in enumerate(value.items):
            if not isinstance(item, Text):
                return None
            if number:
                text.append(between)
                offsets.extend([item.offsets[0] if item.offsets else item.start] * len(between))
            text.append(item.text)
            offsets.extend(item.offsets)
            if len(offsets) > MOST_TEXT:
                return None
        return Text("".join(text), offsets, value.start)

    def join(self, before: Value | None, values: Sequence[Value | None]) -> Value | None:
        """What a name is after branches that left these values; ``before`` is what it was."""
        known = [value for value in values if value is not None]
        if all(value is values[0] for value in values) or not known:
            return values[0]
        lists = [value for value in known if isinstance(value, List)]
        if len(lists) == len(known):
            common = lists[0].items
            for other in lists[1:]:
                pairs = zip(common, other.items, strict=False)
                same = 0
                for one, two in pairs:
                    if one is not two:
                        break
                    same += 1
                common = common[:same]
            rest = [_perhaps(item) for value in lists for item in value.items[len(common) :]]
            start = before.start if isinstance(before, List) else lists[0].start
            return List([*common, *rest][:MOST_ITEMS], start)
        texts = [value for value in known if isinstance(value, Text)]
        if len(texts) == len(known):
            spellings = dict.fromkeys(
                spelling for text in texts for spelling in (text.alternatives or (text.text,))
            )
            if len(spellings) == 1 or len(texts) < len(values):
                return replace(texts[0], conditional=len(texts) < len(values))
            if len(spellings) <= 8 and not any(is_masked(spelling) for spelling in spellings):
                return replace(texts[0], alternatives=tuple(spellings))
            return replace(max(texts, key=lambda text: len(text.text)), conditional=True)
        return None


def _size(value: Value | None) -> int:
    if isinstance(value, Text):
        return len(value.text)
    return len(value.items) if isinstance(value, List) else 1


def _perhaps(value: Value) -> Value:
    return replace(value, conditional=True) if isinstance(value, Text) else value


def dotted(node: ast.expr) -> str:
    """``a.b.c`` of names and attributes, empty for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])
