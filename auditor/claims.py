"""What a hit says of the source in its place, for another parser to be held against."""

from __future__ import annotations

from typing import Literal

import msgspec

Lines = tuple[int, int]
"""The first and the last line of a function in its file."""


class Claim(msgspec.Struct, frozen=True, tag=True):
    """What a hit says of one tree.

    ``kind``: an element of one of the buffers ``names`` is read there, ``raw`` with no method
    between; one of the methods ``names`` is called there; the first of ``names``, a stream, is
    entered there by one of them; or the ``function`` that begins there uses none of its parameters
    ``names``. ``here`` says that the function takes the element itself, and not what it calls.
    ``gate`` is the access path of the gate that no wait on the way there is for, a bare name for
    any that ends so; empty where that is not said.
    """

    kind: Literal["read", "raw", "call", "function", "enter"]
    names: tuple[str, ...]
    gate: str = ""
    here: bool = True


class LostWait(msgspec.Struct, frozen=True, tag=True):
    """What a hit says of two versions of a function; the first piece of its evidence is the wait.

    ``name`` is that of the method or function which waits, ``with`` for a lock. Functions are given
    by their first and last line: ``own`` is the fork's version, ``earlier`` the one that waits.
    ``about`` is the line of the fork's that its wait stands behind now, 0 where it does not.
    """

    shape: Literal["lost", "weakened", "late", "elsewhere", "lock"]
    name: str
    own: Lines
    earlier: Lines
    about: int = 0
