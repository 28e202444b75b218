"""Makes a template readable without rendering it and without moving a character.

``{{ … }}`` of Helm and Jinja and ``${{ … }}`` of workflows become unresolved words of the same
length; lines of control (``{{- if … }}``, ``{% for … %}``) become blank and make what they enclose
conditional.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import accumulate

OPEN, CLOSE = "\ue000", "\ue001"
"""Private characters around the name of a placeholder; legal anywhere in a YAML scalar."""

_LONGEST = 4000
_ENDS = {"{{": "}}", "{%": "%}", "{#": "#}"}
_CONTROL = re.compile(
    r"\{\{-?\s*(?:/\*|\$\w+\s*:?="
    r"|(?:if|else|end|range|with|define|block|template|include|toYaml|tpl|break|continue)\b)"
)
_OPENING = re.compile(r"\{[{%][-+]?\s*(?:if|range|with|for)\b")
_CLOSING = re.compile(r"\{[{%][-+]?\s*(?:end|endif|endfor|endwith)\b")
_SHORTEST = 5
_PLACEHOLDER = re.compile(f"{OPEN}([^{CLOSE}]*){CLOSE}")
_IN_SHELL = re.compile(r"\$\{([_a-z]{2,})\}")


@dataclass(frozen=True)
class Masked:
    """A text of the same length, what its placeholders stand for, and what its lines are.

    ``blanked`` are the lines (from 1) that only steer the template; ``depth`` says for each line
    how many conditions or loops enclose it.
    """

    text: str
    originals: dict[str, str] = field(default_factory=dict)
    blanked: frozenset[int] = frozenset()
    depth: tuple[int, ...] = ()

    def enclosed(self, line: int, by: int) -> bool:
        """Whether a line stands in a condition that the line ``by`` does not stand in."""
        if not self.depth:
            return False
        return self.depth[line - 1] > self.depth[by - 1]

    def restore(self, text: str) -> str:
        """Puts what stood in the file in the place of placeholders."""
        if not self.originals:
            return text
        text = _PLACEHOLDER.sub(lambda m: self.originals.get(m.group(1)[1:], m.group()), text)
        return _IN_SHELL.sub(lambda m: self.originals.get(m.group(1), m.group()), text)


def for_shell(text: str) -> str:
    """Writes placeholders as variables that nobody sets, again without moving a character."""
    return _PLACEHOLDER.sub(lambda m: "${" + m.group(1)[1:] + "}", text)


def is_masked(text: str) -> bool:
    """Whether part of the text is a template's and therefore unknown."""
    return OPEN in text


def mask(text: str) -> Masked:
    """Masks all templates of a text; one without an end stays as it is."""
    if "{{" not in text and "{%" not in text:
        return Masked(text)
    parts: list[str] = []
    originals: dict[str, str] = {}
    steering: list[tuple[int, str]] = []
    done = 0
    alone, line_end = False, -1
    for start, end in _spans(text):
        written = text[start:end]
        if start > line_end:
            # Once a line: thousands of templates may stand on one.
            before = text.rfind("\n", 0, start) + 1
            line_end = text.find("\n", end)
            line_end = line_end if line_end >= 0 else len(text)
            alone = _alone(text[before:line_end])
        silent = written.startswith(("{%", "{#")) or "/*" in written
        if silent or _CONTROL.match(written):
            steering.append((start, written))
        if silent or (alone and (_CONTROL.match(written) or "indent" in written)):
            parts.extend((text[done:start], _blank(written)))
            done = end
            continue
        parts.extend((text[done:start], _placeholder(written, originals)))
        done = end
    parts.append(text[done:])
    masked = "".join(parts)
    return Masked(masked, originals, _blanked(text, masked), _depth(text, steering))


def _spans(text: str) -> list[tuple[int, int]]:
    """Start and end of each template, the ``$`` of a workflow's expression with it."""
    spans: list[tuple[int, int]] = []
    at = 0
    ends: dict[str, int] = {}
    opening = re.compile(r"\{[{%#]")
    while match := opening.search(text, at):
        start, mark = match.start(), match.group()
        # The next end is looked for once, however many beginnings lie before it.
        if ends.get(mark, -1) < start + 2:
            ends[mark] = text.find(_ENDS[mark], start + 2)
        end = ends[mark]
        if end < 0:
            ends[mark] = len(text) + 1
        if end < 0 or end > len(text) or end - start > _LONGEST:
            at = start + 2
            continue
        # `{{ x }}}`: the last brace belongs to what the template stands in.
        spans.append((start - (mark == "{{" and text[start - 1 : start] == "$"), end + 2))
        at = end + 2
    return spans


def _alone(line: str) -> bool:
    """Whether a line holds nothing but one or more templates."""
    bare = line.strip()
    return bare.startswith("{{") and bare.endswith("}}")


def _blank(written: str) -> str:
    return "".join(letter if letter == "\n" else " " for letter in written)


def _placeholder(written: str, originals: dict[str, str]) -> str:
    first, newline, rest = written.partition("\n")
    if len(first) < _SHORTEST:
        return written
    width = len(first) - 3
    number, letters = len(originals), ""
    while len(letters) < width and (number or not letters):
        letters = chr(97 + number % 26) + letters
        number //= 26
    name = letters.rjust(width, "_")
    originals.setdefault(name, written)
    return f"{OPEN}_{name}{CLOSE}{newline}{_blank(rest)}"


def _blanked(text: str, masked: str) -> frozenset[int]:
    pairs = zip(text.split("\n"), masked.split("\n"), strict=True)
    return frozenset(
        number
        for number, (before, after) in enumerate(pairs, 1)
        if before.strip() and not after.strip()
    )


def _depth(text: str, steering: list[tuple[int, str]]) -> tuple[int, ...]:
    changes = [0] * (text.count("\n") + 2)
    line, seen = 0, 0
    for start, written in steering:
        line += text.count("\n", seen, start)
        seen = start
        if _OPENING.match(written):
            changes[line] += 1
        elif _CLOSING.match(written):
            changes[line + 1] -= 1
    return tuple(max(depth, 0) for depth in accumulate(changes))
