"""Words of a script spelled otherwise, at the place where a finding saw them."""

from __future__ import annotations

import re

from auditor.fix.text import Edit, Source, Unfit
from auditor.model import Hit, Rewrite

# What is put into a script comes from the tables of a hostile tree: words that no shell, YAML or
# Python reads as anything else.
_PLAIN = re.compile(r"-{0,2}[A-Za-z0-9](?:[\w.-]*\w)?", re.ASCII)
_BETWEEN = re.compile(
    r"""["']?(?:[ \t]*[=:,][ \t]*|(?:[ \t]*\\?\r?\n|[ \t])[ \t]*(?:-[ \t]+)?)"""
    r"""(?:[ \t]*\r?\n[ \t]*)?["']?"""
)
"""What stands between a flag and its value: blanks, a continued line, the next item of a list."""
_INSIDE = re.compile(r"[\w.-]", re.ASCII)


def respelling(source: Source, hit: Hit, rewrite: Rewrite) -> Edit:
    """The edit that writes a hit's word otherwise; raises Unfit where it does not stand there."""
    old, new = rewrite.old, rewrite.new
    if not _PLAIN.fullmatch(old) or not _PLAIN.fullmatch(new):
        raise Unfit("the new spelling is no plain word")
    lines = source.text.split("\n")
    if hit.where.line > len(lines) or hit.where.column > len(lines[hit.where.line - 1]):
        raise Unfit("the script has no such place")
    start = sum(len(line) + 1 for line in lines[: hit.where.line - 1]) + hit.where.column - 1
    while source.text[start : start + 1] in ("'", '"'):
        start += 1
    if rewrite.value:
        return _value(source.text, start, hit.anchor.partition(" ")[0], old, new)
    word, instead = _written(source.text, start, old, new)
    return Edit(start, start + len(word), instead)


def elsewhere(source: Source, word: str) -> int:
    """How often a word stands in a script."""
    return len(re.findall(rf"(?<![\w.-]){re.escape(word)}(?![\w-])", source.text))


def _written(text: str, start: int, old: str, new: str) -> tuple[str, str]:
    """A flag as it stands there, and its new spelling: a key of YAML leaves the dashes out."""
    bare, instead = old.lstrip("-"), new.lstrip("-")
    spellings = [(old, new), (bare, instead)]
    if "-" in bare and old.startswith("-"):
        spellings.append((bare.replace("-", "_"), instead.replace("-", "_")))
    for word, other in spellings:
        if _stands(text, start, word):
            return word, other
    raise Unfit(f"{old} is put together there, not written out")


def _value(text: str, start: int, flag: str, old: str, new: str) -> Edit:
    word, _ = _written(text, start, flag, flag)
    between = _BETWEEN.match(text, start + len(word))
    if between is None or not _stands(text, between.end(), old):
        raise Unfit(f"{old} does not stand after {flag}")
    return Edit(between.end(), between.end() + len(old), new)


def _stands(text: str, start: int, word: str) -> bool:
    """Whether a word stands at a place, and no more of it after."""
    end = start + len(word)
    return text.startswith(word, start) and not _INSIDE.match(text[end : end + 1])
