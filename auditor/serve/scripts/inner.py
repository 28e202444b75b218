"""Reads shell text that stands inside of another file, with its places in that file."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from auditor.model import Launch, Skipped
from auditor.serve.scripts.masking import Masked, for_shell, is_masked
from auditor.serve.scripts.shell import read_text
from auditor.serve.scripts.traced import Traced
from auditor.serve.scripts.values import Source
from auditor.serve.scripts.variables import Read
from auditor.serve.scripts.words import Setting


class _Inner(Source):
    """A text whose characters were written anywhere in its file."""

    def __init__(self, text: Traced, path: str, position: Callable[[int], tuple[int, int]]) -> None:
        shown = for_shell(text.text)
        super().__init__(shown.encode("utf-8", "replace"), path)
        self._shown = None if shown.isascii() else shown
        self._offsets = text.offsets
        self._position = position

    def place(self, offset: int) -> tuple[str, int, int]:
        """Where that byte stands in the file."""
        at = offset
        if self._shown is not None:
            at = len(self.data[:offset].decode("utf-8", "ignore"))
        return self.path, *self._position(self._offsets[min(at, len(self._offsets) - 1)])


def read_inner(
    text: Traced,
    path: str,
    setting: Setting,
    position: Callable[[int], tuple[int, int]],
    form: str,
    read: Read,
) -> tuple[list[Launch], list[Skipped]]:
    """What a text within the file ``path`` starts; ``position`` gives line and column of an offset.

    Placeholders of masked templates are variables that nobody sets.
    """
    if not text.offsets:
        return [], []
    return read_text(_Inner(text, path, position), setting, form, read)


def restored(launch: Launch, masked: Masked) -> Launch:
    """Puts the template's own text back, and says what only some renderings of a launch have."""
    if not masked.originals and not any(masked.depth):
        return launch
    back = masked.restore
    return msgspec.structs.replace(
        launch,
        arguments=tuple(
            msgspec.structs.replace(
                argument,
                flag=back(argument.flag),
                value=None if argument.value is None else back(argument.value),
                words=tuple(map(back, argument.words)),
                conditional=argument.conditional
                or (argument.path == launch.path and masked.enclosed(argument.line, launch.line)),
            )
            for argument in launch.arguments
        ),
        words=tuple(
            msgspec.structs.replace(
                word,
                text=back(word.text),
                resolved=word.resolved and not is_masked(word.text),
                conditional=word.conditional
                or (word.path == launch.path and masked.enclosed(word.line, launch.line)),
            )
            for word in launch.words
        ),
        environment=tuple(
            msgspec.structs.replace(
                variable,
                value=back(variable.value),
                resolved=variable.resolved and not is_masked(variable.value),
            )
            for variable in launch.environment
        ),
        pins=tuple(msgspec.structs.replace(pin, text=back(pin.text)) for pin in launch.pins),
        model=None if launch.model is not None and is_masked(launch.model) else launch.model,
        command=back(launch.command),
        folder="" if is_masked(launch.folder) else launch.folder,
    )
