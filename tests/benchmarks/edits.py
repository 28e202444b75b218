"""What programs share that edit places of a release: the edits, the draw, options, a dry run."""

from __future__ import annotations

import argparse
import ast
import difflib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

LEFT_OUT = ("/test", "/benchmark", "multimodal_gen/", "/bench_")


class Placed(Protocol):
    """Something in a file of a release."""

    @property
    def path(self) -> str:
        """The file."""

    @property
    def place(self) -> str:
        """Where it is and what, in words."""


T = TypeVar("T", bound=Placed)


@dataclass(frozen=True)
class Edit(Generic[T]):
    """What is done to a place; ``breaks`` says whether something is lost by that.

    ``make`` gives the new lines of the file, None where the edit does not fit; it is told the
    lines, the place, and a number that chooses names.
    """

    title: str
    breaks: bool
    make: Callable[[list[str], T, int], list[str] | None]

    def of(self, source: bytes, place: T, seed: int) -> bytes | None:
        """The edited file; None where the edit does not fit or makes no Python."""
        made = self.make(source.decode().split("\n"), place, seed)
        if made is None:
            return None
        text = "\n".join(made)
        try:
            ast.parse(text)
        except SyntaxError:
            return None
        return text.encode()


def of_server(files: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """The files of the server with their paths: no tests, no line ends that Python joins."""
    for path in sorted(files):
        if path.startswith("sglang/srt/") and not any(part in f"/{path}" for part in LEFT_OUT):
            if b"\r" not in files[path]:
                yield path, files[path]


def drawn(places: Sequence[T], sample: int, seed: int) -> list[T]:
    """As many of the places as are asked for, at random, the same for one seed."""
    return random.Random(seed).sample(places, min(sample, len(places)))


def parsed(description: str, edits: Mapping[str, Edit[T]], sample: int) -> argparse.Namespace:
    """The options of such a program; ``edits`` are the names of the chosen ones."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("releases", nargs="+", metavar="VERSION[=DIR]")
    parser.add_argument("--edits", default=",".join(edits), help="of " + ", ".join(edits))
    parser.add_argument("--sample", type=int, default=sample, help="places taken at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dry-run", action="store_true", help="print the edits, audit nothing")
    options = parser.parse_args()
    options.edits = options.edits.split(",")
    return options


def print_dry(
    files: Mapping[str, bytes], chosen: Sequence[T], edits: Mapping[str, Edit[T]]
) -> None:
    """The difference that each edit makes."""
    for number, place in enumerate(chosen):
        print(f"\n{place.place}")
        for name, edit in edits.items():
            source = edit.of(files[place.path], place, number)
            if source is None:
                print(f"{name}: does not fit")
                continue
            old, new = (text.decode().splitlines(True) for text in (files[place.path], source))
            print(f"{name}:", "".join(list(difflib.unified_diff(old, new, n=1))[2:]))
