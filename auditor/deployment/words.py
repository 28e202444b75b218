"""Which files of the server hold a name, and how, by their bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Literal

from auditor.serve.tables.modules import Tree
from auditor.source.scout import deployed
from auditor.source.statements import words

SERVER = "sglang/srt/"
"""Where the code of the server is, in every era."""

Way = Literal["word", "used", "base", "class", "function", "attribute", "kept", "given"]
"""How a file holds a name: at all; where a line may use it; where it may be a base of a class; as a
class or function that is defined; as an attribute that is given something, at once or with a type;
as a keyword, a text or a name that is given something."""


class Words:
    """The deployed files of the server's tree by the words in them."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.paths = of_server(tree.paths)
        self.answers: dict[tuple[Way, str], tuple[str, ...]] = {}
        """What was asked, and the paths that were told."""

    def where(self, way: Way, name: str) -> tuple[str, ...]:
        """The sorted paths of the files that hold a name in a way."""
        known = self.answers.get((way, name))
        if known is None:
            if way == "word":
                word = name.encode()
                paths = [path for path, words in self._of_files.items() if word in words]
            else:
                test = WAYS[way]
                paths = [p for p in self.where("word", name) if test(self.content(p), name)]
            known = self.answers[way, name] = tuple(paths)
        return known

    def content(self, path: str) -> bytes:
        """The bytes of a file; none where it cannot be read."""
        return self.tree.content(path) or b""

    def read(self) -> None:
        """Read all files now, and not when the first word is asked for."""
        _ = self._of_files

    @cached_property
    def _of_files(self) -> dict[str, frozenset[bytes]]:
        """The words of each file: a hundred are asked for, and no one knows which before."""
        return {path: words(self.content(path)) for path in self.paths}


def of_server(paths: Iterable[str]) -> list[str]:
    """The deployed Python files of the server, sorted."""
    mine = (path for path in paths if path.startswith(SERVER) and path.endswith(".py"))
    return sorted(filter(deployed, mine))


def _may_be_used(data: bytes, name: str) -> bool:
    return any(map(_using(name).search, _lines(data, name)))


@lru_cache(maxsize=1024)
def _using(name: str) -> re.Pattern[bytes]:
    """Whether a line calls a name, hands it on, keeps it, or renames it by an import."""
    word = name.encode()
    return re.compile(
        rb"\b%b\(|\b%b as |@.*\b%b\b|[=(]\s*%b\b(?! *:)|\b(?:else|or|return)\s+%b\b"
        rb"|[\"']\s*:\s*%b\b|^(?!.*\b(?:import|isinstance)\b).*, %b[,)]|^\s*%b,?$" % ((word,) * 8)
    )


def _may_be_a_base(data: bytes, name: str) -> bool:
    """Whether a name stands in the header of a class, or is given another name."""
    word = name.encode()
    renamed = word + b" as "
    at = data.find(word)
    while at >= 0:
        header = data.rfind(b"class ", 0, at)
        if header >= 0 and b"):" not in data[header:at]:
            return True
        if data.startswith(renamed, at):
            return True
        at = data.find(word, at + len(word))
    return False


def _lines(data: bytes, name: str) -> Iterator[bytes]:
    """The lines that hold a name."""
    word = name.encode()
    at = data.find(word)
    while at >= 0:
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        yield data[data.rfind(b"\n", 0, at) + 1 : end]
        at = data.find(word, end)


def _may_be_given(data: bytes, name: str) -> bool:
    return bool(re.search(rb"\b%b[\"']?\]?\s*=[^=]" % name.encode(), data))


def _written(text: str) -> Callable[[bytes, str], bool]:
    return lambda data, name: text.format(name).encode() in data


WAYS: Mapping[Way, Callable[[bytes, str], bool]] = {
    "word": lambda data, name: True,
    "used": _may_be_used,
    "base": _may_be_a_base,
    "class": _written("class {}"),
    "function": _written("def {}("),
    "attribute": _written("self.{} = "),
    "kept": _written("self.{} ="),
    "given": _may_be_given,
}
"""Whether a file that holds a name as a word holds it so."""
