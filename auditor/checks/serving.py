"""All that a check of launches may see."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from auditor.model import Hit, Launch, Side
from auditor.rulebook import Param
from auditor.serve.places import Places
from auditor.tables.facts import Tables


@dataclass(frozen=True)
class OtherTree:
    """Another side of the comparison, by what it says of its own settings."""

    side: Side
    ref: str
    tables: Tables


@dataclass(frozen=True)
class ServeView:
    """The launches of a run and the tree that they start.

    ``tables`` are those of the audited tree; ``others`` are upstream's and the targets', in which a
    flag may have existed or may appear. ``places`` finds the files that a launch names.
    """

    launches: tuple[Launch, ...]
    tables: Tables
    others: tuple[OtherTree, ...]
    places: Places


ServeCheck = Callable[[Mapping[str, Param], ServeView], Iterator[Hit]]
"""Judges every launch by one rule's parameters."""
