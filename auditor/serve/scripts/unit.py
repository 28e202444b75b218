"""Reads systemd units and Makefiles: notations of their own around the commands of a shell."""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from auditor.model import Launch, Skipped, Variable
from auditor.serve.scripts.shell import read_pieces, read_words
from auditor.serve.scripts.values import (
    Piece,
    Placed,
    Source,
    Spelled,
    Text,
    Token,
    constant,
    join,
    size,
)
from auditor.serve.scripts.variables import MOST_BYTES, Read
from auditor.serve.scripts.words import Setting, Word

_MOST_SIZE = 20_000
_LONGEST_SETTING = 50_000
_MOST_VARIABLES = 2_000
_MOST_WORK = 500_000
_MOST_DEPTH = 20
_REFERENCE = re.compile(r"\$(?:\$|\{(\w+)\}|(\w+))")
_ESCAPES = {"n": "\n", "t": "\t", "s": " ", "\\": "\\", '"': '"', "'": "'"}


def _too_large(text: bytes, path: str) -> list[Skipped]:
    if len(text) <= MOST_BYTES:
        return []
    return [Skipped("fork", path, "serve", f"larger than {MOST_BYTES // 1_000_000} MB")]


# systemd


@dataclass(frozen=True)
class _Setting:
    """One ``Key=value`` of a unit: the value with the place of each of its characters."""

    key: str
    value: str
    places: tuple[tuple[int, int, int], ...]

    def place(self, offset: int) -> tuple[int, int]:
        """The line and column of a character; parts are (offset, line, column)."""
        start, line, column = self.places[bisect_right(self.places, (offset, 1 << 40, 0)) - 1]
        return line, column + offset - start

    def source(self, path: str) -> Source:
        """The value as a text that knows its places."""
        ends = [*(start for start, _, _ in self.places[1:]), len(self.value)]
        return Placed(
            path,
            (
                (self.value[start:end], line, column)
                for (start, line, column), end in zip(self.places, ends, strict=True)
            ),
        )


def read_unit(text: bytes, path: str, read: Read) -> tuple[list[Launch], list[Skipped]]:
    """Returns the launches of a systemd unit (``ExecStart=``).

    Specifiers (``%i``) are filled in by systemd and stay unresolved. A file of ``EnvironmentFile=``
    is looked for beside the unit under its own name; one that is not there leaves its variables
    unresolved.
    """
    skipped = _too_large(text, path)
    if skipped:
        return [], skipped
    environment: list[Variable] = []
    commands: list[_Setting] = []
    folder = ""
    for setting in _settings(text.decode("utf-8", "replace")):
        if len(setting.value) > _LONGEST_SETTING or len(environment) > _MOST_VARIABLES:
            skipped.append(Skipped("fork", path, "serve", "longer than any unit; read in part"))
            break
        if setting.key == "Environment":
            if not setting.value.strip():
                environment.clear()
            for word in _words(setting, path):
                name, equals, value = word.text.partition("=")
                if equals:
                    environment.append(_variable(name, value, word))
        elif setting.key == "EnvironmentFile":
            environment += _environment_file(setting.value, path, read)
        elif setting.key == "WorkingDirectory":
            folder = setting.value.strip().removeprefix("-").strip()
        elif setting.key == "ExecStart":
            commands = [*commands, setting] if setting.value.strip() else []
    launches: list[Launch] = []
    around = Setting(tuple(environment), "" if "%" in folder else folder)
    for command in commands:
        variables = {each.name: each for each in environment}
        words = [
            word
            for written in _words(command, path)
            for word in _with_variables(written, variables)
        ]
        if words:
            # Marks before the path of the program say how it is run.
            words[0] = replace(words[0], text=words[0].text.lstrip("-@:+!|"))
        found, problems = read_words(words, around, "systemd", read)
        launches += found
        skipped += problems
    return launches, skipped


def _settings(text: str) -> Iterator[_Setting]:
    key: str | None = None
    value = ""
    places: list[tuple[int, int, int]] = []
    section = ""
    for number, line in enumerate(text.split("\n"), 1):
        if key is None:
            stripped = line.strip()
            if stripped.startswith("["):
                section = stripped
            if not stripped or stripped[0] in "#;[" or "=" not in line:
                continue
            name, _, rest = line.partition("=")
            if section not in {"[Service]", ""}:
                continue
            key, value = name.strip(), ""
            places = [(0, number, len(name) + 2)]
        elif line.lstrip()[:1] in {"#", ";"} and line.strip():
            continue
        else:
            rest = line
            places.append((len(value), number, 1))
        if rest.rstrip("\r").endswith("\\"):
            value += rest.rstrip("\r")[:-1] + " "
            continue
        value += rest.rstrip("\r")
        yield _Setting(key, value, tuple(places))
        key = None
    if key is not None:
        yield _Setting(key, value, tuple(places))


def _words(setting: _Setting, path: str) -> list[Spelled]:
    """Splits a value as systemd does: quotes, C escapes, ``%`` specifiers."""
    words: list[Spelled] = []
    text = setting.value
    source = setting.source(path)
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        start, sign = at, ""
        marks: list[tuple[str, int, bool]] = []
        while at < len(text) and (sign or not text[at].isspace()):
            character, following = text[at], text[at + 1 : at + 2]
            if character in "\"'" and sign in {"", character}:
                sign = "" if sign else character
                at += 1
            elif character == "\\" and following:
                marks.append((_ESCAPES.get(following, character + following), at, True))
                at += 2
            elif character == "%" and following:
                marks.append(("%", at, True) if following == "%" else ("%" + following, at, False))
                at += 2
            else:
                marks.append((character, at, True))
                at += 1
        line, column = setting.place(start)
        words.append(_spelled(_pieces(marks, text, source), path, line, column))
    return words


def _pieces(marks: Sequence[tuple[str, int, bool]], text: str, source: Source) -> list[Piece]:
    """Joins characters that stand beside each other; a mark is (text, where, known)."""
    pieces: list[Piece] = []
    end = -1
    for made, at, resolved in marks:
        plain = text[at : at + len(made)] == made
        if pieces and at == end and plain and resolved and pieces[-1].exact:
            pieces[-1] = replace(pieces[-1], text=pieces[-1].text + made)
        else:
            offset = len(text[:at].encode())
            exact = plain and resolved
            pieces.append(Piece(made, source, offset, resolved=resolved, exact=exact))
        end = at + len(made) if plain else -1
    return pieces


def _spelled(pieces: Sequence[Piece], path: str, line: int, column: int) -> Spelled:
    return Spelled(
        "".join(piece.text for piece in pieces),
        path,
        line,
        column,
        all(piece.resolved for piece in pieces),
        tokens=tuple(pieces),
    )


def _with_variables(word: Spelled, variables: dict[str, Variable]) -> list[Spelled]:
    """``${V}`` is put into its word, ``$V`` alone becomes the words of its value."""
    alone = re.fullmatch(r"\$(\w+)", word.text)
    if alone and alone.group(1) in variables and variables[alone.group(1)].resolved:
        value = variables[alone.group(1)].value
        return [replace(word, text=part, tokens=()) for part in value.split()]
    pieces: list[Piece] = []
    for token in word.tokens:
        if not isinstance(token, Piece) or "$" not in token.text:
            pieces.extend([token] if isinstance(token, Piece) else [])
            continue
        at = 0
        for match in _REFERENCE.finditer(token.text):
            offset = token.offset + len(token.text[:at].encode())
            pieces.append(replace(token, text=token.text[at : match.start()], offset=offset))
            found = variables.get(match.group(1) or match.group(2) or "")
            known = match.group() == "$$" or (found is not None and found.resolved)
            made = found.value if found and known else "$" if known else match.group()
            pieces.append(replace(token, text=made, resolved=known, exact=False))
            at = match.end()
        offset = token.offset + len(token.text[:at].encode())
        pieces.append(replace(token, text=token.text[at:], offset=offset))
    kept = [piece for piece in pieces if piece.text]
    return [_spelled(kept, word.path, word.line, word.column)]


def _variable(name: str, value: str, word: Word) -> Variable:
    return Variable(name, value, word.path, word.line, word.column, word.resolved)


def _environment_file(value: str, path: str, read: Read) -> list[Variable]:
    """The variables of a file of ``NAME=value`` lines that lies beside the unit."""
    name = posixpath.basename(value.strip().removeprefix("-"))
    beside = posixpath.join(posixpath.dirname(path), name)
    data = read(beside) if name else None
    if data is None or len(data) > MOST_BYTES:
        return []
    found: list[Variable] = []
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        match = re.match(r"\s*(?:export\s+)?([A-Za-z_]\w*)=(.*)$", line)
        if match:
            text = match.group(2).strip()
            if len(text) > 1 and text[0] in "\"'" and text[-1] == text[0]:
                text = text[1:-1]
            found.append(Variable(match.group(1), text, beside, number, match.start(1) + 1))
    return found


# make


@dataclass
class _Make:
    """What a Makefile has set so far; values keep their references until they are used."""

    source: Source
    variables: dict[str, Text] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    export_all: bool = False
    work: int = 0

    def step(self, cost: int) -> None:
        """Counts work; raises where it is more than a Makefile of servers needs."""
        self.work += cost
        if self.work > _MOST_WORK:
            raise _TooLarge


_ASSIGNMENT = re.compile(
    r"[ ]*(?P<words>(?:(?:export|override|private)[ \t]+)*)(?P<name>[\w.-]+)[ \t]*"
    r"(?P<sign>\?=|:=|::=|:::=|\+=|!=|=)[ \t]*"
)
_CONDITION = re.compile(r"[ ]*(ifeq|ifneq|ifdef|ifndef|else|endif)\b")


def read_makefile(text: bytes, path: str, read: Read) -> tuple[list[Launch], list[Skipped]]:
    """Returns the launches in the recipes of a Makefile.

    Variables that branches set differently give alternatives; automatic ones (``$@``) and calls of
    functions (``$(shell …)``) stay unresolved. ``X ?= value`` counts as the value.
    """
    skipped = _too_large(text, path)
    if skipped or b"sglang" not in text:
        return [], skipped
    make = _Make(Source(text, path))
    launches: dict[Launch, None] = {}
    try:
        recipes = _declared(make)
        environment = tuple(_exports(make, path))
        for start, end in recipes:
            # What stands before a command says how make shows and judges it.
            first = end - len(text[start:end].lstrip(b"\t @+-"))
            recipe = _expand(make, first, end, 0)
            found, problems = read_pieces(recipe, path, Setting(environment), "makefile", read)
            launches.update(dict.fromkeys(found))
            skipped += problems
    except (RecursionError, _TooLarge):
        skipped = [Skipped("fork", path, "serve", "variables grow without end; read in part")]
    return list(launches), skipped


def _declared(make: _Make) -> list[tuple[int, int]]:
    """Takes in the variables of a Makefile; returns where its recipes stand."""
    recipes: list[tuple[int, int]] = []
    depth = 0
    for start, end in _logical_lines(make.source.data):
        line = make.source.data[start:end].decode("utf-8", "replace")
        if line.startswith("\t"):
            recipes.append((start, end))
            continue
        condition = _CONDITION.match(line)
        if condition:
            depth += {"else": 0, "endif": -1}.get(condition.group(1), 1)
            continue
        assignment = _ASSIGNMENT.match(line)
        if assignment:
            _assign(make, assignment, start, end, depth > 0)
        elif re.match(r"[ ]*export\b", line):
            names = line.split()[1:]
            make.exported.update(names)
            make.export_all = make.export_all or not names
    return recipes


class _TooLarge(Exception):
    """A variable's value is more than a Makefile that starts servers needs."""


def _logical_lines(text: bytes) -> Iterator[tuple[int, int]]:
    """The lines with those that continue them, as offsets without the last line's end."""
    start = 0
    while start < len(text):
        end = start
        while True:
            found = text.find(b"\n", end)
            found = len(text) if found < 0 else found
            if found == len(text) or not text[start:found].rstrip(b"\r").endswith(b"\\"):
                break
            end = found + 1
        yield start, found
        start = found + 1


def _assign(
    make: _Make, assignment: re.Match[str], start: int, end: int, conditional: bool
) -> None:
    name, sign = assignment["name"], assignment["sign"]
    offset = start + len(assignment.group(0).encode())
    text: Text
    if sign == "!=":
        text = (Piece(f"$({name})", make.source, offset, resolved=False, exact=False),)
    else:
        text = _raw(make.source, offset, end)
        if sign in {":=", "::=", ":::="}:
            text = _expand_text(make, text, 0)
    before = make.variables.get(name)
    make.step(len(before or ()))
    if sign == "+=" and before is not None:
        space = Piece(" ", make.source, offset, exact=False)
        text = (*before, space, *text)
        if conditional:
            text = join(before, text)
    elif before is not None and sign == "?=":
        text = before
    elif before is not None and conditional:
        text = join(before, text)
    if size(text) > _MOST_SIZE:
        text = (Piece(f"$({name})", make.source, offset, resolved=False, exact=False),)
    make.variables[name] = text
    if "export" in assignment["words"]:
        make.exported.add(name)


def _raw(source: Source, start: int, end: int) -> Text:
    """A value as written, without comments and the breaks of continued lines."""
    data = source.data[start:end]
    comment = re.search(rb"(?<!\\)#", data)
    if comment:
        data = data[: comment.start()].rstrip()
    tokens: list[Token] = []
    at = 0
    for line in re.split(rb"[ \t]*\\\r?\n[ \t]*", data):
        found = data.index(line, at) if line else at
        if tokens:
            tokens.append(Piece(" ", source, start + found, exact=False))
        tokens.append(Piece(line.decode("utf-8", "replace"), source, start + found))
        at = found + len(line)
    return tuple(tokens)


def _exports(make: _Make, path: str) -> Iterator[Variable]:
    names = make.variables if make.export_all else sorted(make.exported & set(make.variables))
    for name in names:
        text = _expand_text(make, make.variables[name], 0)
        first = next((token for token in text if isinstance(token, Piece)), None)
        value = constant(text)
        if first is not None:
            _, line, column = first.source.place(first.offset)
            shown = value if value is not None else first.text
            yield Variable(name, shown, path, line, column, value is not None)


def _expand(make: _Make, start: int, end: int, depth: int) -> Text:
    piece = Piece(make.source.data[start:end].decode("utf-8", "replace"), make.source, start)
    return _expand_text(make, (piece,), depth)


def _expand_text(make: _Make, text: Text, depth: int) -> Text:
    if depth > _MOST_DEPTH:
        raise _TooLarge
    make.step(1 + len(text))
    tokens: list[Token] = []
    for token in text:
        if isinstance(token, Piece) and token.resolved and "$" in token.text:
            tokens.extend(_expand_piece(make, token, depth))
        else:
            tokens.append(token)
        if size(tuple(tokens[-1:])) > _MOST_SIZE or len(tokens) > _MOST_SIZE:
            raise _TooLarge
    return tuple(tokens)


_MAKE_REFERENCE = re.compile(r"\$(?:\$|[({]([\w.-]+)[)}]|[({][^(){}]*[)}]?|.)", re.DOTALL)


def _expand_piece(make: _Make, piece: Piece, depth: int) -> Iterator[Token]:
    at = 0

    def part(start: int, end: int, **changes: object) -> Piece:
        moved = piece.offset + len(piece.text[:start].encode()) if piece.exact else piece.offset
        return replace(piece, text=piece.text[start:end], offset=moved, **changes)  # type: ignore[arg-type]

    for match in _MAKE_REFERENCE.finditer(piece.text):
        if match.start() > at:
            yield part(at, match.start())
        at = match.end()
        name = match.group(1)
        if match.group() == "$$":
            yield part(match.start() + 1, match.end())
        elif name is not None and name in make.variables:
            yield from _expand_text(make, make.variables[name], depth + 1)
        else:
            yield part(match.start(), match.end(), resolved=False)
    if at < len(piece.text):
        yield part(at, len(piece.text))
