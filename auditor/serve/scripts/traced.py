"""Expands and splits words as manifests do it, keeping where each character was written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_REFERENCE = re.compile(
    r"\$(?:(?P<escaped>\$)|\((?P<given>[A-Za-z_][\w.-]*)\)|(?P<command>\()"
    r"|\{(?P<braced>[A-Za-z_]\w*)(?::?(?P<how>[-?+=])(?P<other>[^{}$]*))?\}"
    r"|(?P<odd>\{)|(?P<bare>[A-Za-z_]\w*))"
)


@dataclass(frozen=True)
class Expanded:
    """A text after expansion; with ``resolved`` False it is as written."""

    text: str
    resolved: bool = True


def expand(text: str, given: Mapping[str, str | None], outside: Mapping[str, str]) -> Expanded:
    """Expands ``$(NAME)`` from ``given`` and ``${NAME:-default}`` from ``outside``.

    Kubernetes takes the first from a container's variables (None: known by name only), compose the
    second from the file `.env` and the caller's environment. A default is taken where the name is
    not in ``outside``.
    """
    resolved = True

    def replaced(match: re.Match[str]) -> str:
        nonlocal resolved
        value: str | None = None
        if match["escaped"]:
            return "$"
        if match["given"]:
            value = given.get(match["given"])
        elif match["braced"]:
            value = outside.get(match["braced"])
            if match["how"] in {"-", "="} and not value:
                value = match["other"]
            elif match["how"] == "+":
                value = match["other"] if value else ""
        elif match["bare"]:
            value = outside.get(match["bare"])
        resolved = resolved and value is not None
        return value or ""

    expanded = _REFERENCE.sub(replaced, text)
    return Expanded(expanded) if resolved else Expanded(text, resolved=False)


@dataclass(frozen=True)
class Traced:
    """A text and, for each of its characters, the offset in the file it was written at."""

    text: str
    offsets: list[int]
    start: int = 0

    def replaced(self, old: str, new: str) -> Traced:
        """The text with a sequence of characters replaced by its shorter form."""
        if old not in self.text:
            return self
        letters: list[str] = []
        offsets: list[int] = []
        at = 0
        while at < len(self.text):
            written = new if self.text.startswith(old, at) else self.text[at]
            letters.append(written)
            offsets.extend(self.offsets[at : at + len(written)])
            at += len(old) if self.text.startswith(old, at) else 1
        return Traced("".join(letters), offsets, self.start)

    def referring(self, given: Mapping[str, str | None]) -> Traced:
        """Writes Kubernetes' ``$(NAME)`` as a shell's variable, where there is that variable."""

        def braced(match: re.Match[str]) -> str:
            return f"${{{match[1]}}}" if match[1] in given else match[0]

        return Traced(re.sub(r"\$\((\w+)\)", braced, self.text), self.offsets, self.start)


def split(traced: Traced) -> list[Traced]:
    """Splits a text into words as a shell reads quotes and backslashes, expanding nothing.

    A quote without an end goes to the end of the text.
    """
    words: list[Traced] = []
    letters: list[str] = []
    offsets: list[int] = []
    begun, quote, escaped = -1, "", False
    for letter, offset in zip(traced.text, traced.offsets, strict=True):
        if escaped:
            escaped = False
            if letter != "\n":
                if quote and letter not in '"\\$`':
                    letters.append("\\")
                    offsets.append(offset)
                letters.append(letter)
                offsets.append(offset)
            continue
        if not quote and letter.isspace():
            if begun >= 0:
                words.append(Traced("".join(letters), offsets, begun))
            letters, offsets, begun = [], [], -1
            continue
        if begun < 0:
            begun = offset
        if letter == "\\" and quote != "'":
            escaped = True
        elif letter == quote:
            quote = ""
        elif not quote and letter in "'\"":
            quote = letter
        else:
            letters.append(letter)
            offsets.append(offset)
    if begun >= 0:
        words.append(Traced("".join(letters), offsets, begun))
    return words
