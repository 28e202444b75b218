"""Accepts the findings that comments and the configuration suppress, and judges these in turn."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from auditor.model import Comment, Finding, Hit, Location, Suppression, Symbol
from auditor.rulebook import ON_SUPPRESSIONS, CheckName, Rule, of_shapes
from auditor.triage.findings import Blame, triage
from auditor.triage.ignores import Ignore

CHECK: CheckName = ON_SUPPRESSIONS
"""The check that rules on suppressions name; they cannot be suppressed."""

PARAMETERS = of_shapes(("unknown", "reasonless", "unused", "expired"))
"""The faults of a suppression, one a rule."""

LONGEST_REASON = 300
"""Characters of a reason that a report repeats."""

_MOST_RULES = 50
_MARK = re.compile(r"(?:^|(?<=\s))#+\s*audit:\s*ignore(?![\w-])\s*(\[[^\]]*\]?)?")
_SECOND_COMMENT = re.compile(r"(?:^|(?<=\s))#(?!\d)")

Judged = Callable[[str, str], bool]
"""Whether a rule was run on a file: rule id, report path."""

IgnoreJudged = Callable[[str, Ignore], bool]
"""Whether a rule was run on all that a configured suppression is about."""


@dataclass(frozen=True)
class Mark:
    """A suppression in a comment; ``ids`` are the names it gives, each with its column."""

    path: str
    comment: Comment
    ids: tuple[tuple[str, int], ...]
    reason: str
    inherited: bool

    def holds(self, finding: Finding) -> bool:
        """Whether a finding lies in the statement that the comment belongs to."""
        where = finding.hit.where
        return (
            where.symbol.path == self.path and self.comment.first <= where.line <= self.comment.last
        )


@dataclass(frozen=True)
class Outcome:
    """Findings with their disposition, those about suppressions last; suppressions in force."""

    findings: tuple[Finding, ...]
    suppressions: tuple[Suppression, ...]


def marks(path: str, comments: Sequence[Comment], theirs: Collection[str]) -> Iterator[Mark]:
    """The suppressions in the comments of a file; ``theirs`` are texts upstream's file has too."""
    for comment in comments:
        for found in _MARK.finditer(comment.text):
            listed = found[1] or ""
            rest = comment.text[found.end() : found.end() + 4 * LONGEST_REASON]
            reason = rest[: second.start()] if (second := _SECOND_COMMENT.search(rest)) else rest
            if listed and not listed.endswith("]"):
                listed, reason = "", ""
            yield Mark(
                path,
                comment,
                tuple(_ids(listed, comment.column + found.start(1))),
                _reason(reason),
                comment.text in theirs,
            )


def _ids(listed: str, column: int) -> Iterator[tuple[str, int]]:
    at = 1
    named: set[str] = set()
    for part in listed[1:-1].split(",")[:_MOST_RULES]:
        name = part.strip()
        if name and name not in named:
            named.add(name)
            yield name[:100], column + at + len(part) - len(part.lstrip())
        at += len(part) + 1


def _reason(text: str) -> str:
    """One short line; empty where no letter or digit gives a reason."""
    text = " ".join(text.split()).lstrip(":-— ")
    if not any(map(str.isalnum, text)):
        return ""
    return text if len(text) <= LONGEST_REASON else f"{text[: LONGEST_REASON - 1]}…"


def suppress(
    findings: Sequence[Finding],
    comments: Sequence[Mark],
    configured: Sequence[Ignore],
    names: Mapping[str, Rule],
    rules: Sequence[Rule],
    judged: Judged,
    ignore_judged: IgnoreJudged,
    today: datetime.date,
) -> Outcome:
    """What is suppressed, and what is wrong with the suppressions, by those ``rules`` that say so.

    ``names`` are all rules by id and alias. A suppression without a known rule or a reason, or out
    of date, suppresses nothing.
    """
    sheet = _Sheet(findings, names, today)
    hits: list[tuple[str, Hit, bool]] = []
    shown: list[Suppression] = []
    for mark in comments:
        for shape, hit in sheet.comment(mark, judged):
            hits.append((shape, hit, mark.inherited))
        shown += sheet.in_force(mark)
    for ignore in configured:
        hits += [(shape, hit, False) for shape, hit in sheet.ignore(ignore, ignore_judged)]
        shown += sheet.configured(ignore)
    own = [rule for rule in rules if rule.check == CHECK]
    inherited = {hit.where for _, hit, theirs in hits if theirs}
    theirs_too = Blame("inherited", "upstream's file has the same comment")
    its_own = Blame("introduced", "a suppression of the fork's own")
    judged_hits = [
        (rule, hit, theirs_too if hit.where in inherited else its_own)
        for shape, hit, _ in hits
        for rule in own
        if rule.params["shape"] == shape
    ]
    more = triage(judged_hits, lambda _, path: path)
    return Outcome((*sheet.disposed(), *more), tuple(shown))


class _Sheet:
    """The findings of a run, and which suppressions each of them meets."""

    def __init__(
        self, findings: Sequence[Finding], names: Mapping[str, Rule], today: datetime.date
    ) -> None:
        self.findings = findings
        self.names = names
        self.today = today
        self.reasons: dict[int, str] = {}
        self.matched: dict[int, int] = {}  # findings by the identity of a suppression
        self.by_rule: dict[str, list[int]] = {}
        self.by_place: dict[tuple[str, str], list[int]] = {}
        for at, finding in enumerate(findings):
            self.by_rule.setdefault(finding.rule, []).append(at)
            place = (finding.rule, finding.hit.where.symbol.path)
            self.by_place.setdefault(place, []).append(at)

    def known(self, name: str) -> Rule | None:
        """The rule that a suppression may name so."""
        rule = self.names.get(name)
        return None if rule is None or rule.check == CHECK else rule

    def comment(self, mark: Mark, judged: Judged) -> Iterator[tuple[str, Hit]]:
        """Lets a comment suppress what it can, and gives what is wrong with it."""
        line, column = mark.comment.line, mark.comment.column
        if not mark.ids:
            why = "a suppression names the rules it is for: # audit: ignore[rule-id] reason"
            yield "unknown", _hit(mark.path, line, column, "", why, "name the rule")
        if mark.ids and not mark.reason:
            why = "the suppression gives no reason, so that it suppresses nothing"
            anchor = ",".join(name for name, _ in mark.ids)
            yield "reasonless", _hit(mark.path, line, column, anchor, why, "say why it is accepted")
        for name, at in mark.ids:
            rule = self.known(name)
            if rule is None:
                yield "unknown", _hit(mark.path, line, at, name, *self.unknown(name))
            elif mark.reason:
                rows = [
                    index
                    for index in self.by_place.get((rule.id, mark.path), ())
                    if mark.holds(self.findings[index])
                ]
                self.take(mark, rows, mark.reason)
                if not rows and judged(rule.id, mark.path):
                    why = f"{rule.id} finds nothing in this statement"
                    yield "unused", _hit(mark.path, line, at, name, why, "take the rule out of it")

    def ignore(self, ignore: Ignore, judged: IgnoreJudged) -> Iterator[tuple[str, Hit]]:
        """The same for a configured suppression."""
        rule = self.known(ignore.rule)
        anchor = f"{ignore.rule} {ignore.path} {ignore.symbol}"
        if rule is None:
            yield (
                "unknown",
                _hit(ignore.name, ignore.rule_line, 1, anchor, *self.unknown(ignore.rule)),
            )
        if not _reason(ignore.reason):
            why = "the suppression gives no reason, so that it suppresses nothing"
            yield "reasonless", _hit(ignore.name, ignore.line, 1, anchor, why, "say why")
        elif self.expired(ignore):
            why = f"the suppression has expired on {ignore.expires}, and suppresses nothing"
            fix = "take it out, or look at the finding again and set a new date"
            yield "expired", _hit(ignore.name, ignore.expires_line, 1, anchor, why, fix)
        elif rule is not None:
            rows = [
                index
                for index in self.by_rule.get(rule.id, ())
                if ignore.holds(
                    self.findings[index].hit.where.symbol.path,
                    self.findings[index].hit.where.symbol.qualname,
                )
            ]
            self.take(ignore, rows, _reason(ignore.reason))
            if not rows and judged(rule.id, ignore):
                why = f"{rule.id} finds nothing that this suppression is for"
                yield "unused", _hit(ignore.name, ignore.line, 1, anchor, why, "take it out")

    def unknown(self, name: str) -> tuple[str, str]:
        """What is wrong with a rule's name, and what to do."""
        if not name:
            return "the suppression names no rule", "name the rule it is for"
        if name in self.names:
            return f"{name} judges suppressions and cannot be suppressed", "do what it asks for"
        return f"there is no rule {name!r}", "name a rule that `audit rules` lists"

    def expired(self, ignore: Ignore) -> bool:
        """Whether the last day has passed."""
        return ignore.expires is not None and ignore.expires < self.today

    def take(self, suppression: object, rows: Sequence[int], reason: str) -> None:
        """Marks findings as suppressed; the first reason counts."""
        self.matched[id(suppression)] = self.matched.get(id(suppression), 0) + len(rows)
        for index in rows:
            self.reasons.setdefault(index, reason)

    def in_force(self, mark: Mark) -> Iterator[Suppression]:
        """The comment as the report lists it, where it can suppress anything."""
        ids = tuple(name for name, _ in mark.ids if self.known(name))
        if ids and mark.reason:
            yield Suppression(
                mark.path,
                mark.comment.line,
                mark.comment.column,
                ids,
                mark.reason,
                "comment",
                "upstream" if mark.inherited else "fork",
                matched=self.matched.get(id(mark), 0),
            )

    def configured(self, ignore: Ignore) -> Iterator[Suppression]:
        """The same for a configured one."""
        reason = _reason(ignore.reason)
        if self.known(ignore.rule) and reason and not self.expired(ignore):
            yield Suppression(
                ignore.name,
                ignore.line,
                1,
                (ignore.rule,),
                reason,
                "configuration",
                ignore.brought_by,
                ignore.path,
                ignore.symbol,
                ignore.expires.isoformat() if ignore.expires else None,
                self.matched.get(id(ignore), 0),
            )

    def disposed(self) -> Iterator[Finding]:
        """The findings in their order, with what became of each."""
        for at, finding in enumerate(self.findings):
            if at in self.reasons:
                reason = self.reasons[at]
                yield msgspec.structs.replace(
                    finding, disposition="suppressed", disposition_reason=reason
                )
            else:
                yield finding


def _hit(path: str, line: int, column: int, anchor: str, message: str, fix: str) -> Hit:
    where = Location(Symbol(path), line, column, line)
    # No other finding of a file as a whole has such an anchor.
    return Hit(where, f"audit: ignore[{anchor}]", message, (), "high", "live", "", fix, "")
