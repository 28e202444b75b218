"""The report as SARIF 2.1.0, for code scanning and every viewer of that standard.

What a consumer does with a property is said beside it; "code scanning" is GitHub's, after its
pages "SARIF support for code scanning" and "SARIF results exceed limits".
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from auditor.formats.order import HOW_TO_SHOW, deployment, place, rank
from auditor.formats.text import count, encodable, printable
from auditor.formats.verdict import Verdict
from auditor.model import (
    Evidence,
    Finding,
    Location,
    Proposal,
    Replacement,
    Report,
    Severity,
    SideInfo,
    Skipped,
)
from auditor.rulebook import Rule

Json = dict[str, Any]

SCHEMA_URI = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
FINGERPRINT = "audit/v1"

# What code scanning takes; it refuses the whole file where one of them is exceeded.
MOST_RESULTS = 25_000
MOST_LOCATIONS = 1_000  # of a result, the place of the finding being one
MOST_TAGS = 20
LARGEST_UPLOAD = 10 * 2**20  # bytes, compressed
# What it shows of a text, in characters; the rest is cut there and not refused.
_NAME, _DESCRIPTION = 255, 1024

_LINKED = 3  # evidence that the message itself points to
_ELSEWHERE = 2
_ROOT = "%SRCROOT%"
_LEVELS: dict[Severity, str] = {
    "critical": "error",
    "high": "error",
    "medium": "warning",
    "low": "note",
    "info": "note",
}
_PROBLEM = {"error": "error", "warning": "warning", "note": "recommendation"}
_NOTIFICATIONS = {
    "skipped": "Something could not be looked at",
    "undecided": "The run cannot be called in order",
    "mismatch": "Upstream is not the release that the fork is based on",
    "warning": "Something about the run that a reader should know",
    "hidden": "Findings that filters left out",
    "limit": "What was left out to keep within the limits of code scanning, or of time",
}
_CWE = re.compile(r"https://cwe\.mitre\.org/data/definitions/(\d+)\.html")
_META = re.compile(r"[\\\[\]{}]")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_ENCODER = msgspec.json.Encoder()


def render(report: Report, verdict: Verdict, rules: Sequence[Rule]) -> str:
    """The report as ASCII JSON on one line, small enough for code scanning to take."""
    most = MOST_RESULTS
    while True:
        # Result by result: all of them as dictionaries take five times the room of the text.
        text = _ascii(_encoded(_log(report, verdict, rules, most, _encoded_list))) + "\n"
        packed = _packed(text)
        if packed <= LARGEST_UPLOAD or most == 0:
            return text
        # What is left varies in size, so aim a little lower and look again.
        shown = min(most, len(report.findings))
        most = shown * LARGEST_UPLOAD * 9 // (packed * 10)


def document(
    report: Report, verdict: Verdict, rules: Sequence[Rule], most: int = MOST_RESULTS
) -> Json:
    """The same as plain values: a log with one run, whose results are the ``most`` severe."""
    return _log(report, verdict, rules, most, list)


def _log(
    report: Report,
    verdict: Verdict,
    rules: Sequence[Rule],
    most: int,
    collect: Callable[[Iterator[Json]], Any],
) -> Json:
    """A log with one run; ``collect`` makes its list of results.

    ``rules`` are all that were loaded: code scanning wants the same list from every run, whatever
    was found. ``security-severity`` is left out on purpose: it would file a race or a wrong flag
    among the vulnerabilities with a score that nobody has worked out.
    """
    findings = sorted(report.findings, key=_worth)[:most]
    configured = {
        (rule, entry.reason)
        for entry in report.suppressions
        if entry.source == "configuration"
        for rule in entry.rules
    }
    listed = {rule.id: rule for rule in rules}
    descriptors = [_rule(rule) for rule in rules]
    for finding in findings:
        if finding.rule not in listed:  # the saved report of another version, or a made up one
            listed[finding.rule] = _unlisted(finding)
            descriptors.append(_rule(listed[finding.rule]))
    index = {rule_id: number for number, rule_id in enumerate(listed)}
    make = _Results(listed, index, report.baseline is not None, configured, report.proposals)
    results = collect(make.result(finding) for finding in sorted(findings, key=place))
    run: Json = {
        "tool": {
            "driver": {
                "name": "audit",
                "version": report.tool_version,
                "semanticVersion": report.tool_version,
                "shortDescription": {
                    "text": "Audits a patched sglang against the upstream release it came from"
                },
                "rules": descriptors,
                "notifications": [
                    {"id": name, "shortDescription": {"text": text}}
                    for name, text in _NOTIFICATIONS.items()
                ],
            }
        },
        # "category/run": without a run, so that each run takes the place of the one before.
        "automationDetails": {"id": "audit/"},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The root of the audited tree"}}},
        "invocations": [
            {
                "executionSuccessful": not verdict.undecided,
                "exitCode": verdict.status,
                "exitCodeDescription": printable(verdict.line()),
                "toolExecutionNotifications": [
                    *_notifications(report, verdict),
                    *_cuts(len(report.findings) - len(findings), make.unlocated, _unfixed(report)),
                ],
            }
        ],
        "results": results,
        "properties": {"sides": [_side(side) for side in _sides(report)]},
    }
    provenance = _provenance(report.fork)
    if provenance:
        run["versionControlProvenance"] = [provenance]
    return {"$schema": SCHEMA_URI, "version": "2.1.0", "runs": [run]}


class _Results:
    """Makes results; remembers what they share, and what it left out of them."""

    def __init__(
        self,
        rules: Mapping[str, Rule],
        index: Mapping[str, int],
        compared: bool,
        configured: Collection[tuple[str, str]],
        proposals: Mapping[str, Proposal],
    ) -> None:
        """``compared`` to a baseline; ``configured`` are rule and reason of suppressions."""
        self.rules = rules
        self.index = index
        self.compared = compared
        self.configured = configured
        self.proposals = proposals
        self.unlocated = 0
        self.artifacts: dict[str, Json] = {}

    def result(self, finding: Finding) -> Json:
        hit = finding.hit
        where = hit.where
        region: Json = {"startLine": where.line, "startColumn": where.column}
        region |= _end(where)
        spot: Json = {
            "physicalLocation": {
                "artifactLocation": self.artifact(where.symbol.path),
                "region": region,
            }
        }
        if where.symbol.qualname:
            spot["logicalLocations"] = [{"fullyQualifiedName": printable(where.symbol.qualname)}]
        # Only the fork's lines are locations: code scanning ignores uriBaseId and would show the
        # fork's line of that number for one of upstream.
        here = [piece for piece in hit.evidence if piece.side == "fork"]
        elsewhere = [piece for piece in hit.evidence if piece.side != "fork"]
        self.unlocated += len(here[MOST_LOCATIONS - 1 :])
        del here[MOST_LOCATIONS - 1 :]
        related = [self.location(piece, number) for number, piece in enumerate(here, start=1)]
        result: Json = {
            "ruleId": finding.rule,
            "ruleIndex": self.index[finding.rule],
            "level": _LEVELS[finding.severity],
            "message": {"text": _message(finding, here, elsewhere)},
            "locations": [spot],
            # Under a key of our own: primaryLocationLineHash is the uploader's to make.
            "partialFingerprints": {FINGERPRINT: finding.fingerprint},
            "properties": {
                "severity": finding.severity,
                "confidence": hit.confidence,
                **({"confirmed": hit.confirmed} if hit.confirmed else {}),
                "origin": finding.origin,
                "originReason": finding.origin_reason,
                "reach": hit.reach,
                "reachReason": hit.reach_reason,
                "cause": hit.cause,
                "fixedIn": finding.fixed_in,
                "fix": hit.fix,
                "sinceBase": finding.since_base,
                "effect": finding.effect,
                "means": finding.means,
                "deployment": deployment(finding),
            },
        }
        if related:
            result["relatedLocations"] = related
        if elsewhere:
            result["properties"]["evidenceElsewhere"] = [
                {
                    "side": piece.side,
                    "path": piece.path,
                    "line": piece.line,
                    "symbol": piece.symbol,
                    "note": piece.note,
                    **({"region": _region(piece)} if piece.end_column else {}),
                }
                for piece in elsewhere
            ]
        if here and _of_paths(self.rules[finding.rule]):
            result["codeFlows"] = [self.flow(finding, here, spot)]
        if self.compared:
            known = finding.disposition == "baselined"
            result["baselineState"] = "unchanged" if known else "new"
        if finding.disposition == "suppressed":
            result["suppressions"] = [self.suppression(finding)]
        proposal = self.proposals.get(finding.fingerprint)
        if proposal is not None:
            result["properties"]["applicability"] = proposal.applicability
            if proposal.replacement is not None:
                result["fixes"] = [self.fix(proposal, proposal.replacement)]
        return result

    def fix(self, proposal: Proposal, replacement: Replacement) -> Json:
        region = {
            "startLine": replacement.line,
            "startColumn": replacement.column,
            "endLine": replacement.end_line,
            "endColumn": replacement.end_column,
        }
        change: Json = {"deletedRegion": region}
        if replacement.text:
            change["insertedContent"] = {"text": replacement.text}
        place = self.artifact(replacement.path)
        return {
            "description": {"text": plain(proposal.how)},
            "artifactChanges": [{"artifactLocation": place, "replacements": [change]}],
            "properties": {"applicability": proposal.applicability},
        }

    def suppression(self, finding: Finding) -> Json:
        outside = (finding.rule, finding.disposition_reason) in self.configured
        return {
            "kind": "external" if outside else "inSource",
            "status": "accepted",
            "justification": printable(finding.disposition_reason),
        }

    def artifact(self, path: str) -> Json:
        """Where a file is; of a path that was typed for one outside of the fork, as typed."""
        found = self.artifacts.get(path)
        if found is None:
            found = {"uri": uri(path)}
            if not path.startswith("/") and path.split("/", 1)[0] != "..":
                found["uriBaseId"] = _ROOT
            self.artifacts[path] = found
        return found

    def location(self, piece: Evidence, number: int) -> Json:
        label = ": ".join(filter(None, (piece.symbol, piece.note)))
        location: Json = {
            "id": number,
            "physicalLocation": {
                "artifactLocation": self.artifact(piece.path),
                "region": _region(piece),
            },
        }
        if label:
            location["message"] = {"text": plain(label)}
        return location

    def flow(self, finding: Finding, here: Sequence[Evidence], spot: Json) -> Json:
        """The read among the waits of its own method, else after that of a sibling.

        The order is that of the lines, which is the order of a path only without loops.
        """
        where = finding.hit.where
        place = (where.symbol.path, where.symbol.qualname)
        own = [piece for piece in here if (piece.path, piece.symbol) == place]
        steps = [(piece.line, self.step(piece)) for piece in own]
        if not steps:
            steps = [(0, self.step(here[0]))]
        read = {**spot, "message": {"text": "the read"}}
        steps.append((where.line, {"location": read, "importance": "essential"}))
        steps.sort(key=lambda step: step[0])
        return {"threadFlows": [{"locations": [step for _, step in steps]}]}

    def step(self, piece: Evidence) -> Json:
        location = self.location(piece, 0)
        del location["id"]
        return {"location": location}


def _region(piece: Evidence) -> Json:
    """A line, or the exact place on it where that is known."""
    start = {"startColumn": piece.column} if piece.end_column else {}
    return {"startLine": piece.line, **start, **_end(piece)}


def _end(where: Location | Evidence) -> Json:
    """The end of a region as far as it is known; the column is that of the character behind."""
    end: Json = {"endLine": where.end_line} if where.end_line > where.line else {}
    return end | ({"endColumn": where.end_column} if where.end_column else {})


def plain(text: str) -> str:
    """Text of the tree as a plain text message: one line, no link and no placeholder in it.

    Brackets make links and braces placeholders in such a message (SARIF 2.1.0, 3.11.5 and 3.11.6).
    """
    return _META.sub(_escaped, printable(text))


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    return character * 2 if character in "{}\\" else f"\\{character}"


def uri(path: str) -> str:
    """A path as a URI reference: relative, or ``file:`` where it is an absolute one.

    The bytes of a name that is no UTF-8 are kept; any other lone surrogate becomes what UTF-8
    would make of it.
    """
    try:
        raw = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raw = path.encode("utf-8", "surrogatepass")
    quoted = quote(raw, safe="/!$&'()*+,;=@")
    return f"file://{quoted}" if path.startswith("/") else quoted


def _message(finding: Finding, here: Sequence[Evidence], elsewhere: Sequence[Evidence]) -> str:
    """What is wrong and the evidence; code scanning shows one sentence where room is short."""
    parts = [plain(text) for text in (finding.hit.message, finding.means) if text]
    if here:
        links = [
            f"[{plain(piece.symbol or f'{piece.path}:{piece.line}')}]({number})"
            for number, piece in enumerate(here[:_LINKED], start=1)
        ]
        more = f" and {len(here) - _LINKED} more" if len(here) > _LINKED else ""
        parts.append(f"Compare with {', '.join(links)}{more}")
    for piece in elsewhere[:_ELSEWHERE]:
        told = f"In {piece.side}: {piece.path}:{piece.line} {piece.symbol}".rstrip()
        parts.append(plain(f"{told}: {piece.note}" if piece.note else told))
    if finding.origin_reason:
        parts.append(plain(f"Origin {finding.origin}: {finding.origin_reason}"))
    if deployment(finding):
        parts.append(plain(f"Here: {deployment(finding)}"))
    if finding.hit.fix:
        parts.append(plain(f"To do: {finding.hit.fix}"))
    return ". ".join(part.rstrip(".") for part in parts) + "."


def _of_paths(rule: Rule) -> bool:
    """Whether a rule's findings are about the order of a wait and a read within one method."""
    return rule.check == "sibling-gates" and rule.params.get("shape") in ("partial", "late")


def _worth(finding: Finding) -> tuple[object, ...]:
    """The order in which findings are kept where not all can be."""
    return finding.disposition != "active", rank(finding)


def _rule(rule: Rule) -> Json:
    level = _LEVELS[rule.severity]
    links = [link for link in rule.references if link.startswith(("https://", "http://"))]
    weaknesses = [found[1] for link in links if (found := _CWE.fullmatch(link))]
    tags = [rule.category, *(f"external/cwe/cwe-{number}" for number in weaknesses)]
    told = [("Why", rule.why), ("What to do", rule.fix)]
    text = "\n\n".join(f"{heading}\n\n{body.strip()}" for heading, body in told)
    markdown = "\n\n".join(f"## {heading}\n\n{body.strip()}" for heading, body in told)
    if rule.references:
        text += "\n\nReferences\n\n" + "\n".join(rule.references)
        markdown += "\n\n## References\n\n" + "\n".join(f"- {link}" for link in rule.references)
    descriptor: Json = {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.id.split("-"))[:_NAME],
        "shortDescription": {"text": rule.title[:_DESCRIPTION]},
        "fullDescription": {"text": _described(rule)[:_DESCRIPTION]},
        "help": {"text": text, "markdown": markdown},
        "defaultConfiguration": {"level": level},
        "properties": {
            "precision": rule.confidence,
            "problem.severity": _PROBLEM[level],
            "tags": tags[:MOST_TAGS],
        },
    }
    if links:
        descriptor["helpUri"] = quote(links[0], safe=":/?#[]@!$&'()*+,;=%-._~")
    return descriptor


def _described(rule: Rule) -> str:
    """The first paragraph of why on one line, and what it means in production."""
    first = " ".join(rule.why.strip().split("\n\n", 1)[0].split())
    return f"{first} In production: {rule.means}" if rule.means else first


def _unlisted(finding: Finding) -> Rule:
    return Rule(
        id=finding.rule,
        category=finding.category,
        title=finding.rule,
        effect=finding.effect,
        means=finding.means,
        severity=finding.severity,
        confidence=finding.hit.confidence,
        check="sibling-gates",
        params={},
        why="The page of this rule is not among those that were loaded.",
        fix="See the finding.",
        references=(),
        valid=(),
        invalid=(),
    )


def _notifications(report: Report, verdict: Verdict) -> Iterator[Json]:
    for reason in verdict.undecided:
        yield _notification("undecided", "error", reason)
    if report.mismatch:
        yield _notification("mismatch", "warning", report.mismatch)
    for skipped in sorted(report.skipped):
        yield _skipped(skipped)
    for warning in report.warnings:
        yield _notification("warning", "warning", warning)
    for reason, number in sorted(report.hidden.items()):
        yield _notification("hidden", "note", f"{number} {HOW_TO_SHOW.get(reason, reason)}")


def _skipped(skipped: Skipped) -> Json:
    text = f"{skipped.side}, {skipped.stage}: {skipped.path} — {skipped.reason}"
    notification = _notification("skipped", "warning", text)
    if skipped.side == "fork" and skipped.path:
        artifact = _Results({}, {}, False, (), {}).artifact(skipped.path)
        notification["locations"] = [{"physicalLocation": {"artifactLocation": artifact}}]
    return notification


def _unfixed(report: Report) -> int:
    """How many findings have no word on their fix, though others have."""
    active = (f.fingerprint for f in report.findings if f.disposition == "active")
    return sum(mark not in report.proposals for mark in active) if report.proposals else 0


def _cuts(results: int, locations: int, fixes: int) -> Iterator[Json]:
    if results:
        told = f"{count(results, 'finding')} left out, the least severe: code scanning takes"
        told += f" {MOST_RESULTS:,} results and {LARGEST_UPLOAD // 2**20} MiB at most"
        yield _notification("limit", "warning", told)
    if locations:
        told = f"{count(locations, 'place')} of evidence left out: code scanning takes"
        yield _notification("limit", "note", f"{told} {MOST_LOCATIONS:,} for a finding")
    if fixes:
        told = f"no edit was worked out for {count(fixes, 'finding')}, the least severe;"
        told += " audit fix does that"
        yield _notification("limit", "note", told)


def _notification(name: str, level: str, text: str) -> Json:
    return {"descriptor": {"id": name}, "level": level, "message": {"text": plain(text)}}


def _sides(report: Report) -> Iterable[SideInfo]:
    others = (report.upstream, report.base, *report.targets)
    return [report.fork, *(side for side in others if side is not None)]


def _side(side: SideInfo) -> Json:
    return {"side": side.side, "ref": side.ref, "kind": side.kind, "commit": side.commit}


def _provenance(fork: SideInfo) -> Json | None:
    """Which repository was audited; the standard wants its URI, so nothing without one."""
    if not fork.repository:
        return None
    details: Json = {"repositoryUri": fork.repository, "mappedTo": {"uriBaseId": _ROOT}}
    if fork.commit:
        details["revisionId"] = fork.commit
    return details


def _encoded(value: Json) -> bytes:
    # msgspec, since json alone would take most of the time that a large document may cost.
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        return _ENCODER.encode(encodable(value))


def _encoded_list(values: Iterator[Json]) -> msgspec.Raw:
    return msgspec.Raw(b"[" + b",".join(map(_encoded, values)) + b"]")


def _ascii(data: bytes) -> str:
    """JSON text with escapes for what an output that knows ASCII only could not hold."""
    text = data.decode()
    if text.isascii():
        return text
    return _NOT_ASCII.sub(lambda match: json.dumps(match[0])[1:-1], text)


def _packed(text: str) -> int:
    """The size in bytes after compression, at most; what is small anyway is not compressed."""
    if len(text) <= LARGEST_UPLOAD:
        return len(text)
    # The uploader compresses better than this fastest level.
    packer = zlib.compressobj(1)
    total = 0
    for start in range(0, len(text), 2**20):
        total += len(packer.compress(text[start : start + 2**20].encode("ascii")))
    return total + len(packer.flush())
