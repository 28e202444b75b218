"""The state of a shell: variables, folder and arguments, and what commands see of them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from auditor.model import Variable
from auditor.serve.scripts.values import (
    BREAK,
    Choice,
    Fixed,
    Piece,
    Spelled,
    Text,
    Token,
    scalar,
    split,
)
from auditor.serve.scripts.words import Word


@dataclass(frozen=True)
class Binding:
    """A variable: what it holds, and whether commands see it in their environment.

    ``items`` are the elements of an array by their index or, with ``keyed``, by their key.
    """

    text: Text = ()
    items: Mapping[str, Text] | None = None
    keyed: bool = False
    exported: bool = False

    @property
    def elements(self) -> Text:
        """All elements, each ended."""
        if self.items is None:
            return (*self.text, BREAK)
        keys = list(self.items) if self.keyed else sorted(self.items, key=int)
        return tuple(token for key in keys for token in (*self.items[key], BREAK))


@dataclass
class Capture:
    """What commands print into a substitution or a pipe; ``unknown`` says that more is printed."""

    text: list[Token] = field(default_factory=list)
    unknown: bool = False


@dataclass
class Shell:
    """The state of a shell at one point of a run.

    ``variables`` hold None where a name is unset. ``folder`` is empty where it is not known;
    ``arguments`` are None where the caller of the script gives them, ``shifted`` of these are gone.
    ``input`` is what is read next, ``output`` takes what is printed; None stands for the terminal.
    """

    variables: dict[str, Binding | None]
    folder: str = ""
    arguments: tuple[Text, ...] | None = None
    script: str = ""
    shifted: int = 0
    export_all: bool = False
    output: Capture | None = None
    input: list[Text] | None = None

    def get(self, name: str) -> Binding | None:
        """The variable of that name, None where the script has not set it."""
        return self.variables.get(name)

    def knows(self, name: str) -> bool:
        """Whether the script has set or unset the variable."""
        return name in self.variables

    def inside(self) -> Shell:
        """A shell of its own that starts from here: what it sets is not seen outside."""
        return replace(self, variables=dict(self.variables))


def written(word: Word) -> Text:
    """A word of another notation as a text; its alternatives are a choice."""
    source = Fixed(word.text.encode("utf-8", "replace"), word.path, word.line, word.column)
    piece = Piece(word.text, source, 0, resolved=word.resolved, symbol=_symbol(word))
    text: Text = (piece,)
    if word.alternatives:
        others = tuple((replace(piece, text=other),) for other in word.alternatives)
        text = (Choice(others, symbol=f"{word.line}:{word.column}"),)
    return (Choice((text, ()), f"{word.line}:{word.column}?"),) if word.conditional else text


def _symbol(word: Word) -> str:
    return "" if word.resolved else word.text


def spelled(word: Word) -> Spelled:
    """A word of another notation with its text."""
    fields = {name: getattr(word, name) for name in Word.__dataclass_fields__}
    return Spelled(**fields, tokens=written(word))


def bindings(environment: Iterable[Variable]) -> dict[str, Binding | None]:
    """The variables that an environment gives to a shell."""
    found: dict[str, Binding | None] = {}
    for variable in environment:
        word = Word(
            variable.value, variable.path, variable.line, variable.column, variable.resolved
        )
        text = written(word)
        if variable.conditional:
            before = found.get(variable.name)
            text = (Choice((text, before.text if before else ()), f"{variable.name}@"),)
        found[variable.name] = Binding(text, exported=True)
    return found


def exported(shell: Shell) -> dict[str, Binding | None]:
    """The variables that a command of the shell sees."""
    return {
        name: each
        for name, each in shell.variables.items()
        if each is not None and each.exported and each.items is None
    }


def variable_of(name: str, text: Text) -> Variable:
    """A variable as commands see it."""
    words = split([tuple(_whole(scalar(text)))])
    word = words[0] if words else Spelled("", "", 1)
    path, line, column = _name_place(name, word)
    return Variable(name, word.text, path, line, column, word.resolved)


def _whole(text: Text) -> Iterable[Token]:
    for token in text:
        yield replace(token, quoted=True) if isinstance(token, Piece) else token


def _name_place(name: str, word: Spelled) -> tuple[str, int, int]:
    """Where a variable is named: right before its value, as a rule."""
    piece = next((token for token in word.tokens if isinstance(token, Piece)), None)
    if piece is not None:
        sign = f"{name}=".encode()
        at = piece.source.data.rfind(sign, max(0, piece.offset - len(sign) - 2), piece.offset)
        if at >= 0:
            return piece.source.place(at)
    return word.path, word.line, word.column


def change_folder(words: Sequence[Spelled], shell: Shell) -> None:
    """Follows ``cd``."""
    rest = [word for word in words if not word.text.startswith("-") and word.text != "--"]
    if not rest or not rest[0].resolved:
        shell.folder = ""
        return
    text = rest[0].text
    if not text.startswith("/"):
        # A path made of the script's own is written from where the script's path starts.
        base = "" if _is_own(rest[0], shell) else shell.folder
        text = posixpath.join(base, text)
    shell.folder = posixpath.normpath(text)


def _is_own(word: Spelled, shell: Shell) -> bool:
    own = posixpath.dirname(shell.script) or "."
    return word.text == own or word.text.startswith(own + "/")


def places(text: str, shell: Shell, path: str) -> Iterable[str]:
    """Where a sourced file may lie: from the folder of the shell, beside the script, as written."""
    found = [posixpath.join(shell.folder, text)] if shell.folder else []
    found += [posixpath.join(posixpath.dirname(path), text), text]
    return dict.fromkeys(posixpath.normpath(each) for each in found)


def set_options(words: Sequence[Spelled], shell: Shell) -> None:
    """Follows ``set``: the arguments, and whether every variable is exported."""
    at = 0
    while at < len(words):
        text = words[at].text
        if text == "--" or text[:1] not in {"-", "+"}:
            rest = words[at + (text == "--") :]
            shell.arguments = tuple(each.tokens for each in rest)
            return
        at += 1
        if "o" in text[1:] and at < len(words):
            if words[at].text == "allexport":
                shell.export_all = text.startswith("-")
            at += 1
        if "a" in text[1:]:
            shell.export_all = text.startswith("-")
