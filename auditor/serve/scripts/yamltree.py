"""Reads YAML into nodes whose every character knows its place in the file, within bounds.

PyYAML's events rather than its nodes: composing is recursive in native code, follows aliases into
cycles and keeps no place for the inner lines of a block scalar.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from auditor.errors import Unreadable

LARGEST = 4 * 1024 * 1024
"""Characters of a file; manifests of real deployments have some thousands."""

MOST_NODES = 300_000
MOST_MERGED = 1000
DEEPEST = 100

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The parser in C where it is there."""

_ESCAPES = {"x": 4, "u": 6, "U": 10}


@dataclass(eq=False)
class Scalar:
    """A value without parts; ``start`` and ``end`` are offsets into the file.

    ``style`` is the quote or block indicator, empty for a plain scalar: ``false`` and ``null``
    mean something only there.
    """

    text: str
    start: int
    end: int
    style: str = ""

    @property
    def plain(self) -> bool:
        """Whether the value is written without quotes."""
        return not self.style


@dataclass(eq=False)
class Listing:
    """A sequence."""

    start: int
    items: list[Node] = field(default_factory=list)


@dataclass(eq=False)
class Mapping:
    """A mapping; ``pairs`` keeps duplicate keys and the order of the file."""

    start: int
    pairs: list[tuple[Scalar, Node]] = field(default_factory=list)
    _merged: list[tuple[Scalar, Node]] | None = field(default=None, repr=False)

    def merged(self) -> list[tuple[Scalar, Node]]:
        """The pairs with those that ``<<`` brings in and this mapping does not set itself."""
        if self._merged is None:
            self._merged = self._merge()
        return self._merged

    def _merge(self) -> list[tuple[Scalar, Node]]:
        own = [(key, value) for key, value in self.pairs if key.text != "<<"]
        if len(own) == len(self.pairs):
            return own
        seen = {key.text for key, _ in own}
        for key, value in self.pairs:
            if key.text != "<<":
                continue
            for base in value.items if isinstance(value, Listing) else [value]:
                if not isinstance(base, Mapping):
                    continue
                brought = [pair for pair in base.merged() if pair[0].text not in seen]
                if len(brought) > MOST_MERGED:
                    raise Unreadable(f"merges more than {MOST_MERGED} keys")
                seen.update(key.text for key, _ in brought)
                own.extend(brought)
        return own

    def get(self, *names: str) -> Node | None:
        """The value of the first of these keys that is there."""
        pairs = {key.text: value for key, value in reversed(self.merged())}
        return next((pairs[name] for name in names if name in pairs), None)


Node = Scalar | Listing | Mapping


class YamlFile:
    """The documents of one file; raises ``Unreadable`` where it is no YAML or out of bounds."""

    def __init__(self, text: str, places: Callable[[int], tuple[int, int]] | None = None) -> None:
        """``places`` says where a character was written, if not at its own place in the text."""
        if len(text) > LARGEST:
            raise Unreadable(f"larger than {LARGEST // 1024 // 1024} MiB of YAML")
        self.text = text
        self._places = places
        self._lines = [0]
        self._lines.extend(at + 1 for at, letter in enumerate(text) if letter == "\n")
        try:
            self.documents = list(_compose(yaml.parse(text, LOADER)))
        except yaml.YAMLError as error:
            raise Unreadable(f"no YAML: {_told(error)}") from None
        except (RecursionError, MemoryError):
            raise Unreadable("nested too deeply") from None
        except ValueError as error:
            raise Unreadable(f"no YAML: {error}") from None

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of a character, both from 1; columns count code points."""
        if self._places is not None:
            return self._places(offset)
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1

    def begin(self, scalar: Scalar) -> int:
        """The offset of the first character of the value, after tag, anchor and quote."""
        at = scalar.start
        text = self.text
        while at < scalar.end and text[at] in "!&":
            while at < scalar.end and not text[at].isspace():
                at += 1
            while at < scalar.end and text[at].isspace():
                at += 1
        if scalar.style in ("|", ">"):
            end = text.find("\n", at, scalar.end)
            return scalar.end if end < 0 else end + 1
        return at + 1 if scalar.style else at

    def offsets(self, scalar: Scalar) -> list[int]:
        """For each character of the value, the offset in the file it was written at.

        Exact for all that is no white space; a space that stands for a folded line end lies there.
        """
        source, at, end = self.text, self.begin(scalar), scalar.end
        found: list[int] = []
        for letter in scalar.text:
            if letter.isspace():
                found.append(min(at, end))
                if scalar.style == '"' and source[at : at + 1] == "\\":
                    at += 2  # \n or \t, spelled out
                elif source[at : at + 1].isspace():
                    at += 1
                continue
            while at < end and (
                source[at].isspace()
                or (scalar.style == '"' and source[at] == "\\" and source[at + 1] in "\r\n")
            ):
                at += 1
            found.append(min(at, end))
            if scalar.style == '"' and source[at : at + 1] == "\\":
                at += _ESCAPES.get(source[at + 1], 2)
            elif scalar.style == "'" and source[at : at + 2] == "''":
                at += 2
            else:
                at += 1
        return found


def _compose(events: Iterator[yaml.Event]) -> Iterator[Node]:
    """The root node of each document. An alias inside of its own anchor stands for nothing."""
    anchors: dict[str, Node] = {}
    stack: list[tuple[Listing | Mapping, str | None]] = []
    keys: list[Scalar | None] = []
    nodes = 0
    for event in events:
        done: Node
        if isinstance(event, yaml.DocumentStartEvent):
            anchors = {}
            continue
        if isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent)):
            if len(stack) >= DEEPEST:
                raise Unreadable("nested too deeply")
            start = index_of(event.start_mark)
            listing = isinstance(event, yaml.SequenceStartEvent)
            stack.append((Listing(start) if listing else Mapping(start), event.anchor))
            keys.append(None)
            continue
        if isinstance(event, yaml.ScalarEvent):
            marks = index_of(event.start_mark), index_of(event.end_mark)
            done, anchor = Scalar(event.value, *marks, event.style or ""), event.anchor
        elif isinstance(event, yaml.AliasEvent):
            at = index_of(event.start_mark)
            done, anchor = anchors.get(event.anchor or "", Listing(at)), None
        elif isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            done, anchor = stack.pop()
            keys.pop()
        else:
            continue
        nodes += 1
        if nodes > MOST_NODES:
            raise Unreadable(f"more than {MOST_NODES} values")
        if anchor:
            anchors[anchor] = done
        if not stack:
            yield done
            continue
        parent = stack[-1][0]
        if isinstance(parent, Listing):
            parent.items.append(done)
        elif (key := keys[-1]) is None:
            # A key that is no scalar names nothing that is looked for here.
            keys[-1] = done if isinstance(done, Scalar) else Scalar("", done.start, done.start)
        else:
            parent.pairs.append((key, done))
            keys[-1] = None


def index_of(mark: Any) -> int:
    """The offset of a mark; the parser's types allow an event to have none, and none has none."""
    return int(mark.index)


def _told(error: yaml.YAMLError) -> str:
    """The reason in one line, with the place where the parser gave up."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"{error.problem}, line {error.problem_mark.line + 1}"
    return " ".join(str(error).split())[:200]
