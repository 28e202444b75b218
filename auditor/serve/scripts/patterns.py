"""Shell patterns as regular expressions, and what they take off a text."""

from __future__ import annotations

import re

from auditor.serve.scripts.values import Piece, Text

_LONGEST = 1024


def pattern(text: Text) -> str | None:
    """The regular expression of a pattern, None where it is not known.

    What is quoted stands for itself.
    """
    parts: list[str] = []
    for token in text:
        if not isinstance(token, Piece) or not token.resolved:
            return None
        if token.quoted and not token.literal:
            parts.append(re.escape(token.text))
            continue
        translated = _translated(token.text)
        if translated is None:
            return None
        parts.append(translated)
    return "".join(parts)


def _translated(text: str) -> str | None:
    parts: list[str] = []
    at = 0
    while at < len(text):
        sign = text[at]
        at += 1
        if text[at : at + 1] == "(" and sign in "?*+@!":
            return None
        if sign == "*":
            parts.append("" if parts and parts[-1] == ".*" else ".*")
        elif sign == "?":
            parts.append(".")
        elif sign == "[":
            end = text.find("]", at + 1 + (text[at : at + 1] in {"!", "^"}))
            if end < 0:
                parts.append(r"\[")
                continue
            inner = text[at:end]
            if "[" in inner:  # a class such as [[:upper:]]
                return None
            negated = inner[:1] in {"!", "^"}
            inner = inner[negated:].replace("\\", r"\\").replace("^", r"\^")
            parts.append(f"[{'^' if negated else ''}{inner}]")
            at = end + 1
        else:
            parts.append(re.escape(sign))
    return "".join(parts)


def matches(regex: str, text: str) -> bool | None:
    """Whether a pattern fits a whole text; None where that is not told here."""
    if len(text) > _LONGEST or regex.count(".*") > 3:
        return None
    try:
        return re.fullmatch(regex, text, re.DOTALL) is not None
    except re.error:
        return None


def trimmed(text: str, operator: str, regex: str) -> str | None:
    """What ``${V#pattern}`` and its kin (``#``, ``##``, ``%``, ``%%``) leave of a text."""
    prefix, longest = operator[0] == "#", len(operator) == 2
    cuts = range(len(text) + 1) if prefix != longest else range(len(text), -1, -1)
    for cut in cuts:
        found = matches(regex, text[:cut] if prefix else text[cut:])
        if found is None:
            return None
        if found:
            return text[cut:] if prefix else text[:cut]
    return text


def replaced(text: str, operator: str, regex: str, new: str) -> str | None:
    """What ``${V/pattern/new}`` and its kin (``/``, ``//``, ``/#``, ``/%``) make of a text."""
    if len(text) > _LONGEST or regex.count(".*") > 3:
        return None
    if not regex:
        return text
    whole = {"/#": f"^(?:{regex})", "/%": f"(?:{regex})$"}.get(operator, regex)
    try:
        most = 0 if operator == "//" else 1
        return re.sub(whole, lambda _: new, text, count=most, flags=re.DOTALL)
    except re.error:
        return None


def in_case(text: bytes) -> bool:
    """Whether a text stands within a ``case``, where a parenthesis ends a pattern."""
    return len(re.findall(rb"\bcase\b", text)) > len(re.findall(rb"\besac\b", text))
