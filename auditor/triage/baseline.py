"""Accepts the findings that a baseline lists, and keeps its file."""

from __future__ import annotations

import json
import stat
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from auditor.errors import UsageProblem
from auditor.model import BaselineEntry, Finding
from auditor.rulebook import Rule
from auditor.triage.findings import family

SCHEMA = "audit-baseline/1"
LARGEST = 64 * 2**20
"""Bytes of a baseline: some 300,000 entries."""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: Literal["audit-baseline/1"]
    findings: list[BaselineEntry]


class Matched(msgspec.Struct, frozen=True):
    """Which entry accepts each finding, None for none, and the entries that accept nothing."""

    accepting: tuple[BaselineEntry | None, ...]
    left: tuple[BaselineEntry, ...]


def load(path: Path) -> tuple[BaselineEntry, ...]:
    """The entries of a baseline; raises UsageProblem where there is none or it is no baseline."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UsageProblem(f"the baseline {path} is no file")
        if status.st_size > LARGEST:
            raise UsageProblem(f"{path} is too large for a baseline")
        data = path.read_bytes()
    except FileNotFoundError as problem:
        raise UsageProblem(
            f"there is no baseline {path}; audit baseline write {path} makes it"
        ) from problem
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise UsageProblem(f"the baseline {path} cannot be read: {reason}") from problem
    try:
        return tuple(msgspec.json.decode(data, type=_File).findings)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        told = str(problem)[:200]
        raise UsageProblem(f"{path} is no baseline (schema {SCHEMA}): {told}") from problem


def dump(entries: Sequence[BaselineEntry]) -> str:
    """The text of a baseline: the same entries give the same bytes, whatever their order."""
    listed = [
        {"rule": e.rule, "fingerprint": e.fingerprint, "path": e.path, "symbol": e.symbol}
        for e in sorted(entries)
    ]
    return json.dumps({"schema": SCHEMA, "findings": listed}, indent=2) + "\n"


def entry_of(finding: Finding) -> BaselineEntry:
    """The entry that accepts a finding."""
    symbol = finding.hit.where.symbol
    path = symbol.path.encode("utf-8", "backslashreplace").decode()
    return BaselineEntry(finding.rule, family(finding.fingerprint), path, symbol.qualname)


def match(
    entries: Sequence[BaselineEntry], findings: Sequence[Finding], names: Mapping[str, Rule]
) -> Matched:
    """Each entry accepts one finding of its rule and fingerprint, one at its old place before all.

    ``names`` are the rules by id and alias. Active findings come before suppressed ones.
    """
    there: dict[BaselineEntry, list[BaselineEntry]] = {}
    for entry in sorted(entries, reverse=True):
        alike = BaselineEntry(
            _rule(entry.rule, names), family(entry.fingerprint), entry.path, entry.symbol
        )
        there.setdefault(alike, []).append(entry)
    wanted = [entry_of(finding) for finding in findings]
    accepting: list[BaselineEntry | None] = [None] * len(findings)
    order = sorted(range(len(findings)), key=lambda at: (findings[at].disposition != "active", at))
    for at in order:
        if there.get(wanted[at]):
            accepting[at] = there[wanted[at]].pop()
    elsewhere: dict[tuple[str, str], list[BaselineEntry]] = {}
    for alike in sorted(there, reverse=True):
        elsewhere.setdefault((alike.rule, alike.fingerprint), []).extend(there[alike])
    for at in order:
        rest = elsewhere.get((wanted[at].rule, wanted[at].fingerprint))
        if accepting[at] is None and rest:
            accepting[at] = rest.pop()
    left = tuple(sorted(entry for rest in elsewhere.values() for entry in rest))
    return Matched(tuple(accepting), left)


def _rule(rule_id: str, names: Mapping[str, Rule]) -> str:
    rule = names.get(rule_id)
    return rule_id if rule is None else rule.id


def stale(
    left: Sequence[BaselineEntry],
    names: Mapping[str, Rule],
    judged: Callable[[str, str], bool],
) -> tuple[BaselineEntry, ...]:
    """The entries that would have met their finding: ``judged`` says so of a rule and a path.

    A rule that is no more finds nothing either.
    """
    return tuple(e for e in left if e.rule not in names or judged(names[e.rule].id, e.path))


def renewed(
    entries: Sequence[BaselineEntry],
    gone: Sequence[BaselineEntry],
    findings: Sequence[Finding],
    names: Mapping[str, Rule],
) -> tuple[BaselineEntry, ...]:
    """The entries of a baseline written anew: those not ``gone``, and all that is found now.

    An entry whose finding has moved, or whose rule has a new name, says so afterwards.
    """
    accepted = [finding for finding in findings if finding.disposition != "suppressed"]
    kept = remaining(entries, gone)
    matched = match(kept, accepted, names)
    return (*matched.left, *map(entry_of, accepted))


def remaining(
    entries: Sequence[BaselineEntry], gone: Sequence[BaselineEntry]
) -> tuple[BaselineEntry, ...]:
    """The entries without those that are gone, each as often as it is there."""
    return tuple(sorted((Counter(entries) - Counter(gone)).elements()))
