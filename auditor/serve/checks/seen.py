"""All that a check of launches may see."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from auditor.model import Hit, Launch, Side
from auditor.rulebook import Param, Parameters
from auditor.serve.checks.setting import Setting, settings
from auditor.serve.checks.wire import Wire
from auditor.serve.scripts.places import Places
from auditor.serve.scripts.template import Templates
from auditor.serve.tables.facts import Tables


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
    flag may have existed or may appear. ``places`` finds the files that a launch names,
    ``templates`` renders those of them that are chat templates.
    """

    launches: tuple[Launch, ...]
    tables: Tables
    others: tuple[OtherTree, ...]
    places: Places
    templates: Templates = field(default_factory=Templates)

    def source(self, path: str) -> str | None:
        """The text of a file of the audited package, wherever the package lies in its tree."""
        for inner in (path, f"python/{path}"):
            data = self.places.tree(inner)
            if data is not None:
                return data.decode("utf-8", "replace")
        return None

    @cached_property
    def wire(self) -> Wire:
        """What tells whether a parser of the audited tree sees a call."""
        return Wire(self.tables.tool_parsers, self.source, self.templates.groups)

    @cached_property
    def settings(self) -> tuple[Setting, ...]:
        """What the launches of the server say of parsers, templates and models, read once."""
        return settings(self.launches, self.tables, self.places, self.templates)


@dataclass(frozen=True)
class ServeCheck:
    """``judge`` judges every launch by one rule's parameters, which are what a page may give it."""

    judge: Callable[[Mapping[str, Param], ServeView], Iterator[Hit]]
    parameters: Parameters
