"""The state of a shell: variables, folder and arguments, and what commands see of them."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from auditor.model import Variable
from auditor.serve.scripts.values import (
    BREAK,
    Choice,
    Fixed,
    Piece,
    Spelled,
    Text,
    join,
    quoted,
    scalar,
    split,
)
from auditor.serve.scripts.words import Word


@dataclass(frozen=True)
class Binding:
    """A variable: what it may hold, and whether commands see it in their environment."""

    text: Text
    array: bool = False
    exported: bool = False


@dataclass
class Shell:
    """The state of a shell at one point of a script.

    ``layers`` are the variables, those of the branch that is being read last; a name that a layer
    holds as None is unset there. ``folder`` is empty where it is not known; ``arguments`` are None
    where the caller of the script gives them.
    """

    layers: list[dict[str, Binding | None]]
    folder: str = ""
    arguments: tuple[Text, ...] | None = None
    script: str = ""
    export_all: bool = False
    defaults: set[str] = field(default_factory=set)

    def get(self, name: str) -> Binding | None:
        """The variable of that name, None where the script has not set it."""
        for layer in reversed(self.layers):
            if name in layer:
                return layer[name]
        return None

    def knows(self, name: str) -> bool:
        """Whether the script has set or unset the variable."""
        return any(name in layer for layer in self.layers)

    def inside(self) -> Shell:
        """A shell of its own that starts from here: what it sets is not seen outside."""
        return replace(self, layers=[*self.layers, {}])


def written(word: Word) -> Text:
    """A word of another notation as a text."""
    source = Fixed(word.text.encode("utf-8", "replace"), word.path, word.line, word.column)
    return (Piece(word.text, source, 0, resolved=word.resolved),)


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
            text = join(before.text if before else (), text)
        found[variable.name] = Binding(text, exported=True)
    return found


def exported(shell: Shell) -> dict[str, Binding | None]:
    """The variables that a command of the shell sees."""
    found: dict[str, Binding | None] = {}
    for layer in shell.layers:
        found.update(layer)
    return {name: each for name, each in found.items() if each is not None and each.exported}


def variables(name: str, binding: Binding) -> Iterable[Variable]:
    """A variable as commands see it, one for each value that it may have."""
    texts: Sequence[Text] = (binding.text,)
    if len(binding.text) == 1 and isinstance(binding.text[0], Choice):
        texts = binding.text[0].options
    for option in texts:
        words = split([(*_protected(option), BREAK)]) if option else []
        for word in words[:1]:
            path, line, column = _name_place(name, word)
            sometimes = word.conditional or len(texts) > 1 or len(word.alternatives) > 1
            for text in word.alternatives or (word.text,):
                yield Variable(name, text, path, line, column, word.resolved, sometimes)


def _name_place(name: str, word: Spelled) -> tuple[str, int, int]:
    """Where a variable is named: right before its value, as a rule."""
    piece = next((token for token in word.tokens if isinstance(token, Piece)), None)
    if piece is not None:
        sign = f"{name}=".encode()
        at = piece.source.data.rfind(sign, max(0, piece.offset - len(sign) - 2), piece.offset)
        if at >= 0:
            return piece.source.place(at)
    return word.path, word.line, word.column


def _protected(text: Text) -> Text:
    return quoted(scalar(text), True)


def change_folder(words: Sequence[Spelled], shell: Shell) -> None:
    """Follows ``cd``."""
    rest = [word for word in words if not word.text.startswith("-") and word.text != "--"]
    if not rest or not rest[0].resolved or rest[0].alternatives:
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
    for index, word in enumerate(words):
        if word.text == "--":
            shell.arguments = tuple(each.tokens for each in words[index + 1 :])
            return
        if word.text in {"-a", "-o"} and (word.text == "-a" or "allexport" in _rest(words, index)):
            shell.export_all = True
        elif word.text in {"+a", "+o"} and (
            word.text == "+a" or "allexport" in _rest(words, index)
        ):
            shell.export_all = False


def _rest(words: Sequence[Spelled], index: int) -> list[str]:
    return [word.text for word in words[index + 1 : index + 2]]
