"""Everything that a tree says of its own settings, in one value."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from auditor.serve.tables.auto import auto_rules, conversation_templates, path_matchers
from auditor.serve.tables.constants import Tree, lookup
from auditor.serve.tables.encoders import encoders
from auditor.serve.tables.environment import Environment, environment
from auditor.serve.tables.facts import Flag, Tables
from auditor.serve.tables.flags import flags
from auditor.serve.tables.guards import guards
from auditor.serve.tables.parsers import cli_choices, reasoning_parsers, tool_parsers

Table = TypeVar("Table")


def read_tables(paths: Collection[str], read: Callable[[str], bytes | None]) -> Tables:
    """The tables of the tree of these package-relative paths; ``read`` gives their bytes or None.

    Never raises for what the tree holds: what could not be read is in ``notes``.
    """
    tree = Tree(paths, read)

    def part(name: str, table: Callable[[], Table], empty: Table) -> Table:
        try:
            return table()
        except (RecursionError, MemoryError):
            tree.note(f"{name}: nested too deeply to be read")
            return empty

    options: tuple[Flag, ...] = part("flags", lambda: flags(tree), ())
    variables = part("environment", lambda: environment(tree), Environment((), (), ()))
    return Tables(
        version=part("version", lambda: _version(tree), ""),
        tool_parsers=part("tool parsers", lambda: tool_parsers(tree), ()),
        reasoning_parsers=part("reasoning parsers", lambda: reasoning_parsers(tree), ()),
        encoders=part("encoders", lambda: encoders(tree), ()),
        conversation_templates=part(
            "conversation templates", lambda: conversation_templates(tree), ()
        ),
        path_matchers=part("path matchers", lambda: path_matchers(tree), ()),
        auto_rules=part("auto rules", lambda: auto_rules(tree), ()),
        flags=options,
        environment=variables.names,
        prefixes=variables.prefixes,
        rewritten=variables.rewritten,
        guards=part("guards", lambda: guards(tree, options), ()),
        cli_choices=part("choices of the parser flags", lambda: cli_choices(tree), {}),
        notes=tuple(tree.notes),
    )


def _version(tree: Tree) -> str:
    """What the build wrote, else what the package says; empty for a checkout that asks git."""
    for dotted in ("sglang._version", "sglang.version"):
        module = tree.find(dotted)
        value = lookup(module, "__version__") if module is not None else None
        if isinstance(value, str) and not value.startswith("0.0.0"):
            return value
    return ""
