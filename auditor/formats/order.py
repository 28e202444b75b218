"""The orders of findings and the words for them that several formats share."""

from __future__ import annotations

from auditor.model import CONFIDENCES, SEVERITIES, Finding

# This fork's own defects first, then those that a newer release would take away.
_ORIGIN_ORDER = ("introduced", "regressed", "fixed-upstream", "unknown", "inherited")
_REACH_ORDER = ("live", "unknown", "latent")

HOW_TO_SHOW = {
    "min-confidence": "below the asked confidence; --min-confidence low shows them",
    "origin": "of another origin; shown without --origin",
    "since": "in what has not changed; shown without --since",
    "select": "of rules not selected; shown without --select",
    "ignore": "of ignored rules; shown without --ignore",
}
"""What hid findings, by the key of ``Report.hidden``, and how to see them."""


def rank(finding: Finding) -> tuple[int, int, int, int, str, int, str]:
    """The order of importance: severity first, then whose it is, reach and certainty."""
    hit = finding.hit
    return (
        SEVERITIES.index(finding.severity),
        _ORIGIN_ORDER.index(finding.origin),
        _REACH_ORDER.index(hit.reach),
        CONFIDENCES.index(hit.confidence),
        hit.where.symbol.path,
        hit.where.line,
        finding.fingerprint,
    )


def place(finding: Finding) -> tuple[str, int, int, str, str]:
    """The order of places, which a machine's document is written in."""
    where = finding.hit.where
    return where.symbol.path, where.line, where.column, finding.rule, finding.fingerprint


def origin(finding: Finding) -> str:
    """Where a finding came from, in words."""
    if finding.origin == "fixed-upstream":
        return f"fixed upstream in {finding.fixed_in}" if finding.fixed_in else "fixed upstream"
    fixed = f", fixed in {finding.fixed_in}" if finding.fixed_in else ""
    if finding.category == "serve" and finding.origin == "introduced":
        return f"of this deployment{fixed}"
    words = {
        "introduced": "introduced by this fork",
        "regressed": "regressed by this fork",
        "unknown": "origin unknown",
    }
    return words.get(finding.origin, finding.origin) + fixed
