"""Makes findings of hits: identity across edits, origin across sides, severity by reach."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from auditor.model import (
    CONFIDENCES,
    SEVERITIES,
    Confidence,
    Evidence,
    Finding,
    Hit,
    Location,
    Origin,
    Severity,
    Side,
    Symbol,
)
from auditor.rulebook import Rule

State = str
"""What one side knows of a symbol: ``defect``, ``gated``, ``present``, ``absent``, ``unread``."""


@dataclass(frozen=True)
class Witness:
    """One side's answer about a fork's hit: what it has at the same symbol, and where.

    ``same`` says that its text of the symbol is the fork's. ``later`` is said of a merge base that
    upstream's release does not hold: code that upstream wrote after it.
    """

    side: Side
    ref: str
    state: State
    places: tuple[Evidence, ...] = ()
    same: bool = False
    later: bool = False


@dataclass(frozen=True)
class Blame:
    """Where a hit came from, and why that is believed.

    ``fixed_in`` is the release that no longer has it, ``evidence`` what else there is to show, and
    ``since_base`` the upstream side after which upstream's own later code brought it.
    """

    origin: Origin
    reason: str
    fixed_in: str | None = None
    evidence: tuple[Evidence, ...] = ()
    since_base: str = ""


def fingerprints(hits: Sequence[tuple[str, Hit]]) -> list[str]:
    """One fingerprint a hit, in order; ``hits`` are (rule id, hit).

    The qualified name and the anchor decide, so moved files, functions and lines keep theirs. What
    several files share is told apart by the path, and what is left in one file by an ordinal; both
    follow the hash, so that ``family`` finds it again. Ordinals go by rule and message before they
    go by place: where definitions or commands change places, equal ones keep theirs as a set and
    others each their own.
    """
    bases = [_digest(hit.where.symbol.qualname, hit.anchor) for _, hit in hits]
    paths: dict[str, set[str]] = {}
    for base, (_, hit) in zip(bases, hits, strict=True):
        paths.setdefault(base, set()).add(hit.where.symbol.path)
    marks = [
        base if len(paths[base]) == 1 else f"{base}-{_digest(hit.where.symbol.path)[:8]}"
        for base, (_, hit) in zip(bases, hits, strict=True)
    ]
    seen: dict[str, int] = {}
    result = list(marks)
    for index in sorted(range(len(hits)), key=lambda at: _apart(*hits[at])):
        mark = marks[index]
        seen[mark] = seen.get(mark, 0) + 1
        if seen[mark] > 1:
            result[index] = f"{mark}-{seen[mark]}"
    return result


def family(fingerprint: str) -> str:
    """The part of a fingerprint that name and anchor decide, whatever else has the same."""
    return fingerprint.partition("-")[0]


def _apart(rule_id: str, hit: Hit) -> tuple[str, str, Location]:
    return rule_id, hit.message, hit.where


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def severity_of(rule: Rule, hit: Hit, origin: Origin) -> Severity:
    """The rule's severity; one step less where no configuration of the tree arms the defect today.

    What upstream thought necessary and the fork took away keeps it: whether a wait is needed is
    told better by who wrote it than by what can be seen to arm it. So does a rule that says so.
    """
    kept = rule.keeps_severity or (origin == "regressed" and rule.category != "serve")
    if hit.reach != "latent" or kept:
        return rule.severity
    return SEVERITIES[min(SEVERITIES.index(rule.severity) + 1, len(SEVERITIES) - 1)]


def capped(confidence: Confidence, ceiling: Confidence) -> Confidence:
    """The lower of the two."""
    return CONFIDENCES[max(CONFIDENCES.index(confidence), CONFIDENCES.index(ceiling))]


def blame(upstreams: Sequence[Witness], targets: Sequence[Witness]) -> Blame:
    """Where a hit came from, by what the other sides have; upstream's release comes first."""
    fixed_in = next((w.ref for w in targets if w.state in ("gated", "present")), None)
    defect = next((w for w in upstreams if w.state == "defect"), None)
    if defect is not None:
        # Upstream's code from after the release is whoever merges it takes on.
        since = upstreams[0].ref if defect.later else ""
        what = f"came with upstream's code after {since}; " if since else ""
        if fixed_in is not None:
            reason = f"{what}{defect.ref} has it, {fixed_in} does not"
            return Blame("fixed-upstream", reason, fixed_in, (), since)
        release = upstreams[0]
        if not since and release.state in ("gated", "present"):  # the fork is older than it
            reason = f"{defect.ref} has it, {release.ref} does not"
            return Blame("fixed-upstream", reason, release.ref)
        reason = f"{what}{defect.ref} has it at the same symbol"
        return Blame("inherited", reason, None, (), since)
    unread = next((w for w in upstreams if w.state == "unread"), None)
    if unread is not None:
        return Blame("unknown", f"the file could not be read on {unread.ref}")
    twin = next((w for w in targets if w.state == "defect" and w.same), None)
    if twin is not None and upstreams and not any(w.same for w in upstreams):
        return taken_from(twin.ref, upstreams[0].ref)
    gated = next((w for w in upstreams if w.state == "gated"), None)
    if gated is not None:
        return Blame("regressed", f"the same symbol waits in {gated.ref}", None, gated.places)
    names = " and ".join(w.ref for w in upstreams) or "upstream"
    if any(w.state == "present" for w in upstreams):
        return Blame("introduced", f"the symbol does not read it so in {names}")
    return Blame("introduced", f"the symbol is not in {names}")


def taken_from(later: str, upstream: str) -> Blame:
    """The blame for a defect that a later release has too, in a function of the same text."""
    reason = f"came with upstream's code after {upstream}; {later} has it in the same text"
    return Blame("inherited", reason, None, (), upstream)


def triage(
    hits: Iterable[tuple[Rule, Hit, Blame]],
    report_path: Callable[[Side, str], str],
) -> list[Finding]:
    """Findings of the fork's hits, most severe first; paths become those of the report."""
    ordered = sorted(hits, key=lambda judged: (judged[1].where, judged[0].id))
    marks = fingerprints([(rule.id, hit) for rule, hit, _ in ordered])
    found: list[Finding] = []
    for (rule, hit, whose), mark in zip(ordered, marks, strict=True):
        placed = msgspec.structs.replace(
            hit,
            where=_placed(hit, report_path),
            evidence=tuple(
                msgspec.structs.replace(e, path=report_path(e.side, e.path))
                for e in _merged(hit.evidence, whose.evidence)
            ),
            confidence=capped(hit.confidence, rule.confidence),
        )
        found.append(
            Finding(
                rule.id,
                rule.category,
                severity_of(rule, hit, whose.origin),
                placed,
                mark,
                whose.origin,
                whose.reason,
                whose.fixed_in,
                since_base=whose.since_base,
                effect=rule.effect,
                means=rule.means,
            )
        )
    return sorted(found, key=lambda f: (SEVERITIES.index(f.severity), f.hit.where, f.rule))


def _merged(belief: Sequence[Evidence], more: Sequence[Evidence]) -> list[Evidence]:
    """Further evidence is more exact on a symbol than what was believed about it."""
    told = {(e.side, e.path, e.symbol) for e in more}
    return [e for e in belief if (e.side, e.path, e.symbol) not in told] + list(more)


def _placed(hit: Hit, report_path: Callable[[Side, str], str]) -> Location:
    symbol = hit.where.symbol
    placed = Symbol(report_path("fork", symbol.path), symbol.qualname)
    return msgspec.structs.replace(hit.where, symbol=placed)


def hidden_counts(findings: Mapping[str, Sequence[Finding]]) -> dict[str, int]:
    """How many findings each filter hid, filters that hid none left out."""
    return {reason: len(rows) for reason, rows in findings.items() if rows}
