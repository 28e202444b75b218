"""The words by which code tells what it does."""

from __future__ import annotations

import functools
import re
from typing import Literal

import msgspec

WaitKind = Literal["keyed", "event", "stream", "device"]
"""What a primitive wait waits for: the index it is given, one event, one stream, everything."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


class Vocabulary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The words by which code tells what it does; ``rules/vocab/`` says why each list exists."""

    primitive_waits: dict[str, WaitKind] = {}
    metadata_attributes: frozenset[str] = frozenset()
    metadata_methods: frozenset[str] = frozenset()
    metadata_functions: frozenset[str] = frozenset()
    metadata_words: frozenset[str] = frozenset()
    view_methods: frozenset[str] = frozenset()
    element_functions: frozenset[str] = frozenset()
    store_methods: frozenset[str] = frozenset()
    write_verbs: frozenset[str] = frozenset()
    read_verbs: frozenset[str] = frozenset()
    setup_verbs: frozenset[str] = frozenset()
    setup_methods: frozenset[str] = frozenset()
    transfer_verbs: frozenset[str] = frozenset()
    verb_prefixes: frozenset[str] = frozenset()
    host_words: frozenset[str] = frozenset()
    destination_words: frozenset[str] = frozenset()

    def merge(self, other: Vocabulary) -> Vocabulary:
        """Both vocabularies' words; where a wait has two kinds, the other's holds."""
        return Vocabulary(
            **{name: getattr(self, name) | getattr(other, name) for name in self.__struct_fields__}
        )

    def may_take_index(self, name: str) -> bool:
        """Whether a wait of that name can be told an index of what to wait for.

        A keyed one always is; of the event waits only those named for nothing else: ``wait(i)``
        may, ``wait_event(e)`` is told the event.
        """
        kind = self.primitive_waits.get(name)
        return kind == "keyed" or (kind == "event" and len(words(name)) == 1)

    def verb(self, name: str) -> str:
        """What a function's name says it does: its first word that is not a ``verb_prefixes``.

        Empty where the name has no such word (``__init__`` is ``init``, ``_`` is empty).
        """
        return next((word for word in words(name) if word not in self.verb_prefixes), "")

    def duty(self, name: str) -> str:
        """Why waiting is not a function's business, by its name; empty where it is.

        One of ``setup``, ``write``, ``transfer``, ``host`` and ``metadata``.
        """
        parts = words(name)
        verb = self.verb(name)
        if name in self.setup_methods or verb in self.setup_verbs:
            return "setup"
        if verb in self.write_verbs:
            return "write"
        if verb not in self.read_verbs and not self.write_verbs.isdisjoint(parts):
            return "write"
        if verb in self.transfer_verbs:
            return "transfer"
        if verb not in self.read_verbs and not self.transfer_verbs.isdisjoint(parts):
            return "transfer"
        if not self.host_words.isdisjoint(parts):
            return "host"
        if parts and parts[-1] in self.metadata_words:
            return "metadata"
        return ""


@functools.lru_cache(maxsize=65536)
def words(name: str) -> tuple[str, ...]:
    """The lower-case words of an identifier, of either style: ``SetKAndS`` is set, k, and, s."""
    return tuple(word.lower() for word in _WORD.findall(name))
