"""A page of YAML as typed values: every complaint names its file, its line and what is allowed."""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec
import yaml

from auditor.errors import UsageProblem

Steps = Sequence[str | int]
"""The way to a field of a page: keys of mappings, indices of lists (0-based)."""

_LONGEST_NAME = 100  # characters of a made-up name that are compared with the known ones
_WHERE = re.compile(r"^(?P<told>.*?)(?: - at `(?P<key>key` in `)?\$(?P<at>.*)`)?$", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|(\[\.\.\.\])")
_UNKNOWN = re.compile(r"^Object contains unknown field `(.*)`$", re.DOTALL)
_ANY_KEY = "[...]"
_T = TypeVar("_T")


class _Loader(yaml.CSafeLoader):
    """The C safe loader, except that a key given twice is an error and not the last one's win.

    Whatever is wrong has a place: for a day that no month has (`2024-02-31`) the safe loader raises
    what its constructors happen to raise.
    """

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError) as error:
            kind = node.tag.rpartition(":")[2]
            raise yaml.MarkedYAMLError(
                problem=f"{node.value!r} is no {kind}", problem_mark=node.start_mark
            ) from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            told = f"key {key.value!r} is given twice" if isinstance(key.value, str) else ""
            if not told or key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=told or "a key is no text", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


@dataclass(frozen=True)
class Page:
    """A file of YAML; its text is looked at again only to tell the line of a complaint."""

    path: Path
    data: bytes

    @classmethod
    def open(cls, path: Path) -> Page:
        """The file's bytes; raises UsageProblem where it cannot be read."""
        try:
            return cls(path, path.read_bytes())
        except OSError as error:
            raise UsageProblem(f"{path}: cannot be read: {error.strerror}") from error

    def read(self, kind: type[_T]) -> _T:
        """The page as a value of a struct; raises UsageProblem where it is none."""
        try:
            text = self.data.decode()
            given = yaml.load(text, Loader=_Loader)
        except UnicodeDecodeError as error:
            line = self.data.count(b"\n", 0, error.start) + 1
            raise UsageProblem(f"{self.path}:{line}: is not UTF-8 (byte {error.start})") from error
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            raise UsageProblem(f"{self.path}:{line}: {error.reason}") from error
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else 1
            raise UsageProblem(f"{self.path}:{line}: {error.problem}") from error
        try:
            return msgspec.convert(given, kind)
        except msgspec.ValidationError as error:
            raise self._refused(given, kind, str(error)) from error

    def check(self, steps: Steps, value: Any, kind: Any, allowed: Collection[str] = ()) -> None:
        """Raises UsageProblem where the value of a field is not of a kind, as msgspec knows it."""
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            told, inner, _ = _told(str(error), value, kind)
            raise self.problem((*steps, *inner), told, allowed) from error

    def problem(
        self, steps: Steps, message: str, allowed: Collection[str] = (), line: int = 0
    ) -> UsageProblem:
        """A complaint about a field, or about a line (1-based) of the text that it holds."""
        parts = (field(steps), f"line {line}" if line else "", message)
        told = " ".join(": ".join(filter(None, parts)).split())
        more = f"; allowed: {', '.join(allowed)}" if allowed else ""
        return UsageProblem(f"{self.path}:{self.line(steps, line)}: {told}{more}")

    def line(self, steps: Steps, inner: int = 0) -> int:
        """The line (1-based) of a field, of the nearest one around it that the page has.

        ``inner`` is a line (1-based) of the text that stands there; only a text after ``|`` tells
        its lines apart.
        """
        node = yaml.compose(self.data.decode(), Loader=yaml.CSafeLoader)
        line = node.start_mark.line if node is not None else 0
        for step in steps:
            found = _inside(node, step)
            if found is None:
                break
            line, node = found
        if inner and isinstance(node, yaml.ScalarNode) and node.style == "|":
            line = node.start_mark.line + inner
        return int(line) + 1

    def _refused(self, given: Any, kind: Any, message: str) -> UsageProblem:
        """What msgspec says of a page, with the line and the values that would do."""
        told, steps, of_key = _told(message, given, kind)
        unknown = _UNKNOWN.match(told)
        if unknown is not None:
            name, keys = unknown[1], _allowed(kind, steps, True)
            told = f"there is no such key{near(name, keys)}"
            return self.problem((*steps, name), told, keys)
        allowed = _allowed(kind, steps, False) if steps and not of_key else ()
        return self.problem(steps, told, allowed)


def field(steps: Steps) -> str:
    """A field as messages name it: ``valid[0].fork.example.py``."""
    return "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in steps).lstrip(".")


def closest(name: str, known: Iterable[str]) -> list[str]:
    """The names nearest to one that is none of them."""
    return difflib.get_close_matches(name[:_LONGEST_NAME], known)


def near(name: str, known: Iterable[str]) -> str:
    """The question after the closest of the known names; empty where none is close."""
    close = closest(name, known)
    return f", did you mean {' or '.join(close)}?" if close else ""


def _inside(node: yaml.Node | None, step: str | int) -> tuple[int, yaml.Node] | None:
    """The line (0-based) and node of a part of a node, None where it has no such part."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == step:
                return key.start_mark.line, value
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step].start_mark.line, node.value[step]
    return None


def _told(message: str, given: Any, kind: Any) -> tuple[str, list[str | int], bool]:
    """What msgspec says, of what, and whether it is about a key itself.

    msgspec ends with the field (``… - at `$.params[...]` ``); keys of mappings, which it leaves
    open, are filled in.
    """
    where = _WHERE.match(message)
    assert where is not None
    of_key = bool(where["key"])
    steps: list[str | int] = []
    for name, index, any_key in _STEP.findall(f"{where['at'] or ''}{_ANY_KEY if of_key else ''}"):
        steps.append(int(index) if index else any_key or name)
    while _ANY_KEY in steps:
        open_at = steps.index(_ANY_KEY)
        steps[open_at] = _guilty(given, kind, steps[:open_at], message)
    return where["told"], steps, of_key


def _guilty(given: Any, kind: Any, way: Steps, message: str) -> str:
    """The first key of a mapping with which alone the page is refused with the same words."""
    mapping = given
    for step in way:
        mapping = mapping[step]
    for key in mapping:
        try:
            msgspec.convert(_narrowed(given, way, key), kind)
        except msgspec.ValidationError as error:
            if str(error) == message:
                return str(key)
    return _ANY_KEY.strip("[]")  # a key of a kind that no page can have


def _narrowed(given: Any, way: Steps, key: Any) -> Any:
    """The same with one key only in the mapping to which a way leads."""
    if not way:
        return {key: given[key]}
    copied = copy.copy(given)
    copied[way[0]] = _narrowed(given[way[0]], way[1:], key)
    return copied


def _allowed(kind: Any, steps: Steps, unknown: bool) -> tuple[str, ...]:
    """The keys of the struct that a way leads to, or the values that its first field may have."""
    if not steps:
        return tuple(kind.__struct_fields__)
    types = {known.name: known.type for known in msgspec.structs.fields(kind)}
    for part in _parts(types[str(steps[0])]):
        if unknown and isinstance(part, type) and issubclass(part, msgspec.Struct):
            return part.__struct_fields__
        if not unknown and get_origin(part) is Literal:
            return get_args(part)
    return ()


def _parts(kind: Any) -> Iterator[Any]:
    yield kind
    for part in get_args(kind):
        yield from _parts(part)
