"""Holds the environment of a launch against the variables that the tree declares and reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from auditor.model import Confidence, Evidence, Hit, Rewrite, Side, Variable
from auditor.rulebook import Param, Parameter, Texts, of_shapes
from auditor.serve.checks.seen import OtherTree, ServeView
from auditor.serve.checks.spellings import (
    Guesses,
    Spellings,
    listed,
    listed_words,
    once,
    place,
    reach,
)
from auditor.serve.tables.facts import EnvironmentName
from auditor.vocabulary import words

_OURS = ("SGLANG_", "SGL_")
# What EnvBool.parse takes, in any case (sglang/srt/environ.py, the same from 0.5.5 to 0.5.23).
_BOOLEANS = ("true", "1", "yes", "y", "false", "0", "no", "n")
_NEAR = 0.85
_FLAG = re.compile(r"--[a-z][a-z0-9-]+")


@dataclass(frozen=True)
class _Names:
    """The variables of one tree."""

    rows: dict[str, EnvironmentName]
    prefixes: tuple[str, ...]
    rewritten: tuple[tuple[str, str], ...]

    def knows(self, name: str) -> bool:
        """Whether the tree reads a name, or puts names like it together."""
        return name in self.rows or any(name.startswith(prefix) for prefix in self.prefixes)

    def renamed(self, name: str) -> str:
        """The name that the tree takes one for when it starts."""
        for old, new in self.rewritten:
            if name.startswith(old):
                return new + name.removeprefix(old)
        return name


@dataclass(frozen=True)
class _Scene:
    params: Mapping[str, Param]
    view: ServeView
    names: _Names
    spellings: Spellings
    guesses: Guesses

    def variables(self) -> Iterator[Variable]:
        """Variables of the server's own name space that a launch is given."""
        for launch in self.view.launches:
            if launch.program == "server":
                for variable in launch.environment:
                    if variable.name.startswith(_OURS):
                        yield variable

    def elsewhere(self, name: str) -> list[tuple[OtherTree, EnvironmentName]]:
        """The other sides that know a name."""
        rows = [(o, r) for o in self.view.others for r in o.tables.environment if r.name == name]
        return sorted(rows, key=lambda row: row[1].retired)


def judge(params: Mapping[str, Param], view: ServeView) -> Iterator[Hit]:
    """The variables of one shape (``params: {shape: …}``); nothing where none are known."""
    find = _SHAPES[str(params["shape"])]
    tables = view.tables
    rows = {row.name: row for row in tables.environment}
    if rows:
        names = _Names(rows, tables.prefixes, tables.rewritten)
        alive = {_bare(row.name): row.name for row in rows.values() if not row.retired}
        guesses = Guesses(alive, _NEAR)
        yield from once(find(_Scene(params, view, names, Spellings(tables.flags), guesses)))


def _unknown(scene: _Scene) -> Iterator[Hit]:
    """A name that nothing in the tree reads."""
    own = frozenset(listed_words(scene.params, "own_words"))
    for variable in scene.variables():
        name = variable.name
        if scene.names.knows(name) or scene.names.knows(scene.names.renamed(name)):
            continue
        near = scene.guesses.of(_bare(name))
        rows = scene.elsewhere(name)
        message = f"nothing in the audited tree reads {name}: setting it does nothing"
        fix = f"take {name} out"
        evidence: list[Evidence] = []
        if near:
            message += f"; the nearest is {near}"
            fix = f"write {near} if that is meant, or take {name} out"
            evidence.append(_read_at(scene.names.rows[near], f"{near} is known"))
        for other, row in rows:
            note = f"{other.ref} {'retires' if row.retired else 'reads'} {name}"
            evidence.append(_read_at(row, note, other.side))
            message += f"; {note}" + (_told(row) if row.retired else "")
        if not evidence:
            first = min(scene.names.rows.values(), key=lambda row: (not row.declared, row))
            count = len(scene.names.rows)
            evidence.append(_read_at(first, f"one of the {count} names that the tree knows"))
        # A script may well keep a port or a folder of its own under such a name.
        private = not near and not rows and words(name)[-1] in own
        yield _hit(variable, name, message, evidence, fix, "low" if private else "medium")


def _retired(scene: _Scene) -> Iterator[Hit]:
    """A name that the tree knows only to warn of it."""
    for variable in scene.variables():
        row = scene.names.rows.get(variable.name)
        if row is None or not row.retired:
            continue
        message = f"{row.name} is retired: setting it does no more than warn"
        message += _told(row)
        fix = f"set {row.replacement} instead" if row.replacement else f"take {row.name} out"
        instead = [text for text in _FLAG.findall(row.note) if scene.spellings.of(text).exact]
        if instead:
            fix += f"; the note names {listed(instead)}"
        evidence = [_read_at(row, f"retires {row.name}")]
        rewrite = Rewrite(row.name, row.replacement, False) if row.replacement else None
        yield _hit(variable, row.name, message, evidence, fix, "high", rewrite)


def _deprecated(scene: _Scene) -> Iterator[Hit]:
    """A name that still works under another one."""
    for variable in scene.variables():
        name = variable.name
        row = scene.names.rows.get(name)
        if row is not None and row.replacement and not row.retired:
            message = f"{name} is deprecated in favour of {row.replacement}" + _told(row, note=True)
            evidence = [_read_at(row, f"maps {name} to {row.replacement}")]
            # Only of names with one kind is it told that a value means the same under both.
            instead = scene.names.rows.get(row.replacement)
            same = instead is not None and instead.kind == row.kind != ""
            rewrite = Rewrite(name, row.replacement, same)
            yield _hit(
                *(variable, name, message, evidence, f"set {row.replacement}", "high"), rewrite
            )
        elif row is None and not scene.names.knows(name) and name != scene.names.renamed(name):
            now = scene.names.rows.get(scene.names.renamed(name))
            if now is not None:
                message = f"{name} is a name of old: the tree renames it to {now.name} and warns"
                evidence = [_read_at(now, f"{now.name} is known")]
                rewrite = Rewrite(name, now.name, True)
                yield _hit(variable, name, message, evidence, f"set {now.name}", "medium", rewrite)


def _unparsed(scene: _Scene) -> Iterator[Hit]:
    """A value that the declared kind cannot hold."""
    for variable in scene.variables():
        row = scene.names.rows.get(variable.name)
        if row is None or not row.declared or row.retired or not variable.resolved:
            continue
        wants = _wants(row.kind, variable.value)
        if not wants:
            continue
        message = f"{row.name} is declared as {row.kind} and cannot hold {variable.value!r}: "
        message += "the tree warns and takes its default"
        evidence = [_read_at(row, f"declares {row.name} as {row.kind}")]
        anchor = f"{row.name}={variable.value}"
        yield _hit(variable, anchor, message, evidence, f"set it to {wants}", "high")


def _wants(kind: str, value: str) -> str:
    """What a value of a kind looks like, empty where this one does or nobody can say.

    An empty value is a common way to unset one, and not judged.
    """
    if not value.strip():
        return ""
    if kind == "bool":
        return "" if value.lower() in _BOOLEANS else f"one of {', '.join(_BOOLEANS)}"
    number: Callable[[str], object] | None = {"int": int, "float": float}.get(kind)
    if number is None:
        return ""
    try:
        number(value)
    except ValueError:
        return "a whole number" if kind == "int" else "a number"
    return ""


def _bare(name: str) -> str:
    """A name without the prefix that makes all of them look alike."""
    return name.removeprefix("SGLANG_").removeprefix("SGL_")


def _told(row: EnvironmentName, *, note: bool = False) -> str:
    parts = [] if note or not row.replacement else [f"{row.replacement} takes its place"]
    if row.note:
        parts.append(" ".join(row.note.split())[:200].rstrip("."))
    return f"; {'; '.join(parts)}" if parts else ""


def _read_at(row: EnvironmentName, note: str, side: Side = "fork") -> Evidence:
    return Evidence(row.path, row.line, row.name, note, side)


def _hit(
    variable: Variable,
    anchor: str,
    message: str,
    evidence: list[Evidence],
    fix: str,
    confidence: Confidence,
    rewrite: Rewrite | None = None,
) -> Hit:
    reached, why = reach(variable.conditional)
    where = place(variable.path, variable.line, variable.column)
    cause = f"environment:{variable.name}"
    return Hit(
        where, anchor, message, tuple(evidence), confidence, reached, why, fix, cause, rewrite
    )


_SHAPES: dict[str, Callable[[_Scene], Iterator[Hit]]] = {
    "unknown": _unknown,
    "retired": _retired,
    "deprecated": _deprecated,
    "unparsed": _unparsed,
}

PARAMETERS = of_shapes(_SHAPES, own_words=Parameter(Texts, shapes=("unknown",)))
