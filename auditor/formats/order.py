"""The orders of findings and the words for them that several formats share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from auditor.model import CONFIDENCES, SEVERITIES, Condition, Deployment, Finding

# This fork's own defects first, then those that a newer release would take away.
_ORIGIN_ORDER = ("introduced", "regressed", "fixed-upstream", "unknown", "inherited")
_REACH_ORDER = ("live", "unknown", "latent")
# What runs here, what may, and what does not; the findings without a deployment may.
_DEPLOYMENT_ORDER = {"on": 0, "undecided": 1, "no-launch": 1, "off": 2}

_MOST_TOLD = 2
"""Places and alternatives that a line has room for."""

HOW_TO_SHOW = {
    "min-confidence": "below the asked confidence; --min-confidence low shows them",
    "origin": "of another origin; shown without --origin",
    "since": "in what has not changed; shown without --since",
    "reachable": "in what no launch turns on; shown without --reachable",
    "select": "of rules not selected; shown without --select",
    "ignore": "of ignored rules; shown without --ignore",
}
"""What hid findings, by the key of ``Report.hidden``, and how to see them."""


def rank(finding: Finding) -> tuple[int, int, int, int, int, int, str, int, str]:
    """The order of importance: severity, whether it runs here, whose it is, reach, certainty.

    Of equals a gate comes before a setting of a script, which a start would often refuse.
    """
    hit = finding.hit
    ours = finding.deployment
    return (
        SEVERITIES.index(finding.severity),
        _DEPLOYMENT_ORDER[ours.state] if ours is not None else 1,
        _ORIGIN_ORDER.index(finding.origin),
        _REACH_ORDER.index(hit.reach),
        int(finding.category == "serve"),
        CONFIDENCES.index(hit.confidence),
        hit.where.symbol.path,
        hit.where.line,
        finding.fingerprint,
    )


def place(finding: Finding) -> tuple[str, int, int, str, str]:
    """The order of places, which a machine's document is written in."""
    where = finding.hit.where
    return where.symbol.path, where.line, where.column, finding.rule, finding.fingerprint


def certainty(finding: Finding) -> str:
    """How sure a finding is, and whether a second parser could not be asked."""
    doubt = ", unconfirmed" if finding.hit.confirmed == "unconfirmed" else ""
    return f"{finding.hit.confidence} confidence{doubt}"


def origin(finding: Finding) -> str:
    """Where a finding came from, in words."""
    if finding.since_base:
        return f"came with upstream's code after {finding.since_base}"
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


def deployment(finding: Finding) -> str:
    """Whether this deployment runs the code of a finding, in a line; empty where nothing tells."""
    return "" if finding.deployment is None else runs(finding.deployment)


def runs(ours: Deployment) -> str:
    """The same of a deployment alone."""
    needed = conditions(ours.conditions)
    match ours.state:
        case "on" if ours.turned_on:
            places = [f"{place.path}:{place.line} ({place.setting})" for place in ours.turned_on]
            return "turned on by " + _few(places, " and ", "places")
        case "on":
            return "every launch here runs it"
        case "off":
            return "no launch here turns it on" + (f"; needs {needed}" if needed else "")
        case "undecided":
            return f"undecided: {ours.reason}" + (f"; needs {needed}" if needed else "")
        case "no-launch":
            return f"runs with {needed}" if needed else ""


def conditions(alternatives: Sequence[Iterable[Condition]]) -> str:
    """Alternatives of conditions as a sentence has them; empty for none, or one without any."""
    texts = [" and ".join(condition.text for condition in case) for case in alternatives]
    return _few(texts, ", or ", "ways") if all(texts) else ""


def _few(texts: Sequence[str], last: str, what: str) -> str:
    """Some of the texts as a list, and how many more there are."""
    told = list(dict.fromkeys(texts))
    if len(told) > _MOST_TOLD:
        told[_MOST_TOLD - 1 :] = [f"{len(told) - _MOST_TOLD + 1} more {what}"]
    return last.join(told)
