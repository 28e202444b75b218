"""Points at the fork's caller where it is what made upstream's own code a defect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from auditor.checks.view import Norm, View
from auditor.gates.values import Place
from auditor.model import CONFIDENCES, Evidence, Hit, Location, Symbol
from auditor.rulebook import CheckName, Rule
from auditor.runs.other_sides import Witnesses, texts
from auditor.triage.findings import Blame

Judged = tuple[Rule, Hit, Blame]


def pointed(
    judged: Sequence[Judged], fork: View, norms: Mapping[CheckName, Norm], witnesses: Witnesses
) -> list[Judged]:
    """The same hits, those in text of upstream's moved to the fork's callers that brought them.

    Upstream calls the function behind a wait, or only to store; the fork calls it otherwise. A
    caller that has a hit on the same buffer, no less sure, is told by that.
    """
    told: dict[tuple[str, str], list[Hit]] = {}
    for _, hit, _ in judged:
        told.setdefault((hit.where.symbol.path, hit.where.symbol.qualname), []).append(hit)
    kept: list[Judged] = []
    moved: dict[tuple[str, str, str], Judged] = {}
    for rule, hit, blame in judged:
        users = _changed_users(hit, blame, fork, norms.get(rule.check), witnesses)
        if not users:
            kept.append((rule, hit, blame))
            continue
        users = [u for u in users if not _covers(told.get((u.path, u.qualname), ()), hit)]
        if not users:
            continue
        found = _at_caller(hit, users)
        key = (found.where.symbol.path, found.where.symbol.qualname, found.anchor)
        refs = " and ".join(view.ref for view in witnesses.upstreams)
        reason = f"{hit.where.symbol.qualname} is upstream's; in {refs} nothing calls it so"
        moved.setdefault(key, (rule, found, Blame("introduced", reason)))
    return [*kept, *moved.values()]


def _covers(own: Iterable[Hit], hit: Hit) -> bool:
    """Whether a caller's own hits tell of a hit below it."""
    roots = set(hit.anchor.split(","))
    return any(
        roots & set(other.anchor.split(","))
        and CONFIDENCES.index(other.confidence) <= CONFIDENCES.index(hit.confidence)
        for other in own
    )


def _changed_users(
    hit: Hit, blame: Blame, fork: View, norm: Norm | None, witnesses: Witnesses
) -> list[Place]:
    """The callers that make the hit one, and that upstream has not or not with this text."""
    if blame.origin != "introduced" or not _is_upstreams(hit.where.symbol, fork, witnesses):
        return []
    return [
        user
        for user in fork.open_users(norm, hit.where.symbol)
        if not _is_upstreams(Symbol(user.path, user.qualname), fork, witnesses)
    ]


def _is_upstreams(symbol: Symbol, fork: View, witnesses: Witnesses) -> bool:
    own = texts(fork, symbol)
    return bool(own) and any(texts(view, symbol) == own for view in witnesses.upstreams)


def _at_caller(hit: Hit, users: Sequence[Place]) -> Hit:
    first, *others = users
    caller, helper = first.qualname.rpartition(".")[2], hit.where.symbol.qualname
    place = hit.where
    read = Evidence(
        place.symbol.path,
        place.line,
        helper,
        "the read that does not wait",
        column=place.column if place.end_column else 0,
        end_line=place.end_line if place.end_column else 0,
        end_column=place.end_column,
    )
    also = [Evidence(u.path, u.line, u.qualname, f"calls {helper} too") for u in others]
    symbol = Symbol(first.path, first.qualname)
    return msgspec.structs.replace(
        hit,
        where=Location(symbol, first.line, first.column, first.line),
        message=f"{caller} calls {helper} without a wait before it; {hit.message}",
        evidence=(read, *hit.evidence, *also),
        fix=f"wait before the call, or let {helper} wait itself; {hit.fix}",
    )
