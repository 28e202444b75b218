"""What the commands print and read that a shell has itself, or that scripts build words with."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import replace

from auditor.serve.scripts.state import Binding, Shell
from auditor.serve.scripts.values import (
    BREAK,
    Piece,
    Source,
    Spelled,
    Text,
    Token,
    constant,
    scalar,
    split,
)

_FORMAT = re.compile(r"%(?:%|(-?\d*)([sdiqb]))|\\([nt\\])")
_MOST_NUMBERS = 256


def echoed(words: Sequence[Spelled]) -> Text:
    """What ``echo`` prints, its line end too."""
    rest = list(words)
    newline = True
    while rest and re.fullmatch(r"-[neE]+", rest[0].text):
        newline = newline and "n" not in rest[0].text
        rest = rest[1:]
    text = scalar(tuple(token for word in rest for token in (*word.tokens, BREAK)))
    return (*text, *_line_end(words)) if newline else text


def _line_end(words: Sequence[Spelled]) -> Text:
    return (Piece("\n", _source(words), 0, exact=False),)


def _source(words: Sequence[Spelled]) -> Source:
    for word in words:
        for token in word.tokens:
            if isinstance(token, Piece):
                return token.source
    return Source(b"", "")


def formatted(words: Sequence[Spelled]) -> Text | None:
    """What ``printf FORMAT WORD…`` prints, None where that is not told here."""
    form = constant(words[0].tokens) if words else None
    if form is None:
        return None
    rest = list(words[1:])
    origin = next((t for t in words[0].tokens if isinstance(t, Piece)), None)
    if origin is None:
        return ()
    made: list[Token] = []
    while True:
        took, at = False, 0
        for match in _FORMAT.finditer(form):
            made.append(replace(origin, text=form[at : match.start()], exact=False))
            at = match.end()
            if match.group(3):
                sign = {"n": "\n", "t": "\t", "\\": "\\"}[match.group(3)]
                made.append(replace(origin, text=sign, exact=False))
            elif match.group() == "%%":
                made.append(replace(origin, text="%", exact=False))
            else:
                if match.group(1):
                    return None
                took = True
                if rest:
                    made.extend(rest.pop(0).tokens)
                elif match.group(2) in "di":
                    made.append(replace(origin, text="0", exact=False))
        tail = form[at:]
        if "%" in tail or "\\" in tail:
            return None
        made.append(replace(origin, text=tail, exact=False))
        if not rest or not took:
            return tuple(made)


def printed(words: Sequence[Spelled], shell: Shell) -> Text | None:
    """What one of the few commands prints that scripts build paths and words with."""
    name, rest = posixpath.basename(words[0].text), list(words[1:])
    piece = next((t for t in words[0].tokens if isinstance(t, Piece)), None)
    if piece is None:
        return None
    if name == "pwd":
        return (replace(piece, text=shell.folder, exact=False),) if shell.folder else None
    plain = [word for word in rest if not word.text.startswith("-") or word.text == "-"]
    if name in {"cat", "tee"} and shell.input is not None and (not plain or name == "tee"):
        lines, shell.input = shell.input, None
        return tuple(token for line in lines for token in line)
    if not all(word.resolved for word in rest):
        return None
    texts = [word.text for word in plain]
    text: str | None = None
    if name == "dirname" and len(texts) == 1:
        text = posixpath.dirname(texts[0]) or "."
    elif name == "basename" and texts:
        text = _basename(rest)
    elif name in {"realpath", "readlink"} and len(texts) == 1:
        text = posixpath.normpath(texts[0])
    elif name == "seq":
        text = _sequence(texts)
    elif name == "tr" and shell.input is not None:
        text = _translated(shell, rest)
    if text is None:
        return None
    origin = next((t for word in plain for t in word.tokens if isinstance(t, Piece)), piece)
    return (replace(origin, text=text, exact=False, literal=False),)


def _basename(words: Sequence[Spelled]) -> str | None:
    texts = [word.text for word in words]
    suffix = ""
    if texts[:1] == ["-s"] and len(texts) == 3:
        suffix, texts = texts[1], texts[2:]
    if len(texts) == 2:
        suffix, texts = texts[1], texts[:1]
    if len(texts) != 1:
        return None
    name = posixpath.basename(texts[0].rstrip("/"))
    return name.removesuffix(suffix) if name != suffix else name


def _sequence(texts: Sequence[str]) -> str | None:
    try:
        numbers = [int(text) for text in texts]
    except ValueError:
        return None
    if not 1 <= len(numbers) <= 3:
        return None
    first, step = (1, 1) if len(numbers) == 1 else (numbers[0], 1)
    if len(numbers) == 3:
        step = numbers[1]
    if not step:
        return None
    found = range(first, numbers[-1] + (1 if step > 0 else -1), step)[: _MOST_NUMBERS + 1]
    return "\n".join(map(str, found)) if len(found) <= _MOST_NUMBERS else None


_CLASSES = {
    "[:upper:]": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "A-Z": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "[:lower:]": "abcdefghijklmnopqrstuvwxyz",
    "a-z": "abcdefghijklmnopqrstuvwxyz",
}


def _translated(shell: Shell, words: Sequence[Spelled]) -> str | None:
    """What ``tr`` makes of its input: one set of characters by another, or without it."""
    known = [constant(line) for line in shell.input or ()]
    text = "".join(line for line in known if line is not None)
    if None in known:
        return None
    texts = [word.text.replace("\\n", "\n") for word in words]
    if texts[:1] == ["-d"] and len(texts) == 2:
        gone = _CLASSES.get(texts[1], texts[1])
        return "".join(sign for sign in text if sign not in gone) if "-" not in gone else None
    if len(texts) != 2 or texts[0].startswith("-"):
        return None
    one, other = (_CLASSES.get(each, each) for each in texts)
    if "-" in one[1:-1] or "[" in one or not other:
        return None
    table = {ord(a): other[min(at, len(other) - 1)] for at, a in enumerate(one)}
    return text.translate(table)


def lines_of(text: Text) -> list[Text]:
    """A text as lines, each with its end."""
    lines: list[Text] = []
    current: list[Token] = []
    for token in text:
        if not isinstance(token, Piece) or "\n" not in token.text or not token.resolved:
            current.append(token)
            continue
        at = 0
        while True:
            end = token.text.find("\n", at)
            if end < 0:
                break
            current.append(_cut(token, at, end + 1))
            lines.append(tuple(current))
            current, at = [], end + 1
        if at < len(token.text):
            current.append(_cut(token, at, len(token.text)))
    if current:
        lines.append(tuple(current))
    return lines


def _cut(piece: Piece, start: int, end: int) -> Piece:
    moved = piece.offset + len(piece.text[:start].encode()) if piece.exact else piece.offset
    return replace(piece, text=piece.text[start:end], offset=moved)


def without_ends(text: Text) -> Text:
    """A text without the line ends at its end, as a substitution takes it."""
    made = list(text)
    while made:
        last = made[-1]
        if not isinstance(last, Piece) or not last.resolved:
            break
        cut = last.text.rstrip("\n")
        if cut:
            made[-1] = replace(last, text=cut)
            break
        made.pop()
    return tuple(made)


def read_line(
    words: Sequence[Spelled], shell: Shell, separators: str
) -> tuple[bool | None, list[str]]:
    """Follows ``read``: its status, and the names of which it is not known what they hold."""
    names = [word.text for word in words if word.text.isidentifier()]
    options = "".join(w.text[1:] for w in words if w.text.startswith("-"))
    if any(option in options for option in "dnNut"):
        return None, names
    if shell.input is None:
        return None, names
    if not shell.input:
        return False, []
    line = without_ends(shell.input.pop(0))
    loose = tuple(
        replace(token, quoted=False) if isinstance(token, Piece) else token for token in line
    )
    if "a" in options:
        found = split([loose], separators)
        items = {str(at): word.tokens for at, word in enumerate(found)}
        shell.variables[names[-1] if names else "REPLY"] = Binding((), items)
        return True, []
    names = names or ["REPLY"]
    found = split([loose], separators)
    blank = Piece("", Source(b"", shell.script), 0)
    for at, name in enumerate(names):
        rest = found[at:] if at == len(names) - 1 else found[at : at + 1]
        if at == len(names) - 1 and len(rest) > 1:
            text = _remainder(line, len(names), separators)
        else:
            text = rest[0].tokens if rest else (blank,)
        shell.variables[name] = Binding(text)
    return True, []


def _remainder(line: Text, count: int, separators: str) -> Text:
    """What is left of a line for the last of several names, its separators kept."""
    known = constant(line)
    first = next((t for t in line if isinstance(t, Piece)), None)
    if known is None or first is None:
        return line
    blanks = "".join(sign for sign in separators if sign in " \t\n")
    rest = known.strip(blanks) if blanks else known
    for _ in range(count - 1):
        at = next((n for n, sign in enumerate(rest) if sign in separators), len(rest))
        rest = rest[at + 1 :]
        rest = rest.lstrip(blanks) if blanks else rest
    return (replace(first, text=rest, exact=False),)
