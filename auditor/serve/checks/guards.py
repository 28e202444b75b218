"""Finds launches whose settings the tree refuses together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from auditor.model import Evidence, Hit
from auditor.rulebook import Param, Parameters
from auditor.serve.checks.seen import ServeView
from auditor.serve.checks.spellings import (
    Setting,
    Settings,
    Spellings,
    Value,
    declared,
    listed,
    once,
    place,
    settings,
)
from auditor.serve.tables.facts import Guard, Term

_LEAST_EXPLICIT = 2
_ABSENCES = ("none", "false")


def judge(params: Mapping[str, Param], view: ServeView) -> Iterator[Hit]:
    """Guards of the tree all of whose terms hold for what a launch sets for certain.

    A term on a field that is not given counts only where it asks for that absence (``none``,
    ``false``) and holds by the flag's default, and only beside two fields that are given.
    """
    del params
    spellings = Spellings(view.tables.flags)
    yield from once(_hits(view, spellings))


def _hits(view: ServeView, spellings: Spellings) -> Iterator[Hit]:
    for launch in view.launches:
        if launch.program != "server":
            continue
        given = settings(launch, spellings)
        told: set[frozenset[str]] = set()
        for guard in view.tables.guards:
            explicit = _explicit(guard, given)
            fields = frozenset(explicit)
            if len(explicit) >= _LEAST_EXPLICIT and fields not in told:
                told.add(fields)
                yield _hit(guard, explicit, spellings)


def _explicit(guard: Guard, given: Settings) -> dict[str, Setting]:
    """The given settings by which a guard holds; empty where it does not for certain."""
    explicit: dict[str, Setting] = {}
    for term in guard.terms:
        setting = given.known.get(term.field)
        if setting is not None:
            if not _holds(term, setting.value):
                return {}
            explicit[term.field] = setting
        elif given.may_set(term.field) or not (term.absent and term.op in _ABSENCES):
            return {}
    return explicit


def _holds(term: Term, value: Value) -> bool:
    """Whether a test is true of a value; False where it cannot be told."""
    if term.op == "true":
        return bool(value)
    if term.op == "false":
        return not value
    if term.op == "none":
        return False
    if term.op == "set":
        return True
    wanted = [_literal(text) for text in term.values]
    if not wanted or not all(_comparable(value, other) for other in wanted):
        return False
    if term.op in ("==", "in"):
        return value in wanted
    if term.op in ("!=", "not in"):
        return value not in wanted
    other = wanted[0]
    if not isinstance(value, (int, float)) or not isinstance(other, (int, float)):
        return False
    if term.op in ("<", "<="):
        return value < other or (term.op == "<=" and value == other)
    return term.op in (">", ">=") and (value > other or (term.op == ">=" and value == other))


def _literal(text: str) -> str | int | float | bool | None:
    """A constant as Python writes it; numbers that it cannot be read as stay text."""
    named = {"None": None, "True": True, "False": False}
    if text in named:
        return named[text]
    if text[:1] in ("'", '"'):
        return text[1:-1]
    try:
        return int(text) if text.lstrip("-").isdigit() else float(text)
    except ValueError:
        return text


def _comparable(value: Value, other: object) -> bool:
    """Whether a text of the command line and a constant of the tree are of one kind."""
    if other is None:
        return True
    if isinstance(value, bool) or isinstance(other, bool):
        return isinstance(value, bool) and isinstance(other, bool)
    if isinstance(value, (int, float)):
        return isinstance(other, (int, float))
    return isinstance(value, str) and isinstance(other, str)


def _hit(guard: Guard, explicit: Mapping[str, Setting], spellings: Spellings) -> Hit:
    rows = list(explicit.values())
    last = max(rows, key=lambda setting: (setting.argument.path, setting.argument.line))
    texts = [setting.text for setting in rows]
    message = f"{listed(texts)} are refused together"
    absent = [
        flag.names[0]
        for term in guard.terms
        if term.op == "none" and term.field not in explicit
        if (flag := spellings.field(term.field)) is not None
    ]
    if absent:
        message += f" without {listed(absent)}"
    if guard.message:
        message += f": {' '.join(guard.message.split())[:240]}"
    evidence = [Evidence(guard.path, guard.line, "", "refuses the combination")]
    for setting in rows:
        if setting is not last:
            argument = setting.argument
            evidence.append(Evidence(argument.path, argument.line, "", f"sets {setting.text}"))
    evidence += [declared(s.flag, f"declares {s.flag.names[0]}") for s in rows]
    fix = f"take one of {listed([s.argument.flag for s in rows])} out"
    if absent:
        fix += f", or set {listed(absent)}"
    return Hit(
        place(last.argument.path, last.argument.line, last.argument.column),
        ", ".join(sorted(texts)),
        message,
        tuple(evidence),
        "high",
        "live",
        "every run of the script passes them",
        fix,
        f"guard:{','.join(sorted(explicit))}",
    )


PARAMETERS: Parameters = {}
