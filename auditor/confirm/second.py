"""Holds hits against a second reading: what it contradicts goes, what it sees gets exact spans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from auditor.checks.view import View
from auditor.claims import Claim, Lines, LostWait
from auditor.confirm.answers import Answer, Question, Span, Waits
from auditor.confirm.kept import Answers
from auditor.confirm.passages import Passage, Text, Unreadable
from auditor.confirm.versions import contradicted
from auditor.model import Disagreement, Evidence, Hit, Location, Side, Skipped, Symbol
from auditor.rulebook import Rule
from auditor.source.index import is_property
from auditor.source.names import Function
from auditor.source.statements import cut
from auditor.triage.findings import Blame

STAGE = "confirm"
"""That of what could not be read a second time."""


class SecondReading:
    """The second reading of the sides of one audit, the fork first; paths are those of the views.

    ``disagreements`` and ``skipped`` grow by what it contradicts and what it cannot read.
    """

    def __init__(self, views: Sequence[View], cache: Path | None) -> None:
        self.views = views
        self.disagreements: list[Disagreement] = []
        self.skipped: list[Skipped] = []
        self.asked = 0
        self._answers = Answers(cache)
        self._texts: dict[tuple[int, str], Text] = {}
        words = views[0].vocabulary
        self._waits = Waits(
            tuple(
                (name, "keyed" if words.may_take_index(name) else kind)
                for name, kind in sorted(words.primitive_waits.items())
            )
        )

    def save(self) -> None:
        """Keep the answers for later runs."""
        self._answers.save()

    def confirmed(self, hits: Sequence[tuple[Rule, Hit]]) -> list[tuple[Rule, Hit]]:
        """The hits that are not contradicted, those with a claim marked by what was seen of it."""
        found = []
        for rule, hit in hits:
            kept = self._confirmed(rule, hit)
            if kept is not None:
                found.append((rule, kept))
        return found

    def spanned(self, blamed: Sequence[tuple[Rule, Hit, Blame]]) -> list[tuple[Rule, Hit, Blame]]:
        """The same with spans of what came with the origin: callers, and waits of other sides."""
        return [
            (
                rule,
                self._spanned(hit) if hit.claim is not None else hit,
                replace(blame, evidence=tuple(map(self._located, blame.evidence))),
            )
            for rule, hit, blame in blamed
        ]

    def _spanned(self, hit: Hit) -> Hit:
        where = hit.where
        if where.end_column or isinstance(hit.claim, LostWait):
            return hit
        question = Question(where.line, where.column, self._waits)
        answer = self._ask("fork", where.symbol, where.line, question)
        return hit if answer is None else msgspec.structs.replace(hit, where=_within(where, answer))

    def _located(self, piece: Evidence) -> Evidence:
        answer = None if piece.end_column else self._wait(piece)
        return piece if answer is None else _with_span(piece, answer)

    def _confirmed(self, rule: Rule, hit: Hit) -> Hit | None:
        claim = hit.claim
        if claim is None:
            return hit
        if isinstance(claim, LostWait):
            return self._of_versions(rule, hit, claim)
        evidence: list[Evidence] = []
        seen = unseen = 0
        methods: set[str] = set()
        for piece in hit.evidence:
            own = (piece.path, piece.symbol) == (hit.where.symbol.path, hit.where.symbol.qualname)
            answer = self._wait(piece) if piece.sibling or own else None
            if answer is None:
                evidence.append(piece)
                continue
            if piece.sibling and answer.verdict == "no":
                place = Location(Symbol(piece.path, piece.symbol), piece.line)
                told = f"its sibling: {answer.reason}"
                self._disagree(Disagreement(place, rule.id, told, piece.side))
                unseen += 1
                continue
            if piece.sibling and answer.verdict == "unreadable":
                self._skip(piece.side, piece.path, piece.symbol, answer.reason)
            seen += piece.sibling and answer.verdict == "yes"
            methods |= self._waiting_method(hit, piece, answer)
            evidence.append(_with_span(piece, answer))
        if unseen and not any(piece.sibling for piece in evidence):
            self._disagree(Disagreement(hit.where, rule.id, "no sibling is seen to wait"))
            return None
        where, waits = hit.where, msgspec.structs.replace(self._waits, methods=_sorted(methods))
        claim = msgspec.structs.replace(claim, names=self._names(hit, claim))
        question = Question(where.line, where.column, waits, claim)
        answer = self._ask("fork", where.symbol, where.line, question)
        if answer is None:
            answer = Answer("unreadable", "the function is not found by its lines")
        if answer.verdict == "no":
            self._disagree(Disagreement(where, rule.id, answer.reason))
            return None
        siblings = any(piece.sibling for piece in evidence)
        sure = answer.verdict == "yes" and (seen > 0 or not siblings)
        if answer.verdict == "unreadable":
            self._skip("fork", where.symbol.path, where.symbol.qualname, answer.reason)
        return msgspec.structs.replace(
            hit,
            where=_within(where, answer),
            evidence=tuple(evidence),
            confirmed="yes" if sure else "unconfirmed",
        )

    def _of_versions(self, rule: Rule, hit: Hit, lost: LostWait) -> Hit | None:
        """A hit on a wait that another version of the function makes."""
        where, first = hit.where, hit.evidence[0]
        now = self._calls(where.symbol.path, "fork", lost.own, lost.name, where.line)
        then = self._calls(first.path, first.side, lost.earlier, lost.name, first.line)
        for answer, piece in ((now, hit.where.symbol), (then, first)):
            if answer.verdict == "unreadable":
                side = "fork" if answer is now else first.side
                self._skip(side, piece.path, where.symbol.qualname, answer.reason)
        if "unreadable" in (now.verdict, then.verdict):
            return msgspec.structs.replace(hit, confirmed="unconfirmed")
        reason = contradicted(lost, first.line, then.rows, now.rows)
        if reason:
            self._disagree(Disagreement(where, rule.id, reason))
            return None
        was = [row.span for row in then.rows if row.span[0] <= first.line <= row.span[2]]
        rest = []
        for piece in hit.evidence[1:]:
            there = self._calls(piece.path, piece.side, lost.own, lost.name, piece.line)
            rest.append(_with_span(piece, there))
        return msgspec.structs.replace(
            hit,
            where=_within(where, now),
            evidence=(_with_span(first, Answer("yes", "", was[0])), *rest),
            confirmed="yes",
        )

    def _calls(self, path: str, side: Side, lines: Lines, name: str, line: int) -> Answer:
        """All calls of a name in a function, and the span of the statement that begins on a line.

        Of several versions of a side the first that has a call there, or the last, is told of.
        """
        found = Answer("unreadable", "the function is not found by its lines")
        for number, view in enumerate(self.views):
            if view.side == side and path in view.sources:
                question = Question(line, 1, self._waits, calls=name)
                found = self._read(number, path, lines, question)
                if any(row.span[0] <= line <= row.span[2] for row in found.rows):
                    break
        return found

    def _names(self, hit: Hit, claim: Claim) -> tuple[str, ...]:
        """The names of a claim, with those that the function may come to them by.

        Of properties any that leads to one of them; of what it calls too, unless the read is raw.
        """
        view, where = self.views[0], hit.where.symbol
        found = set(claim.names)
        if claim.kind in ("read", "raw"):
            here = [f for f in view.functions.get(where.qualname, ()) if f.path == where.path]
            mentions = {name for function in here for name in function.facts.mentions}
            found |= {
                function.facts.name
                for name in claim.names
                for function in view.index.mentioning(name)
                if function.facts.name in mentions
                and (claim.kind == "read" or is_property(function.facts))
            }
        return _sorted(found)

    def _waiting_method(self, hit: Hit, piece: Evidence, answer: Answer) -> set[str]:
        """The method that a sibling of the same class calls to wait, if its own text waits."""
        here = hit.where.symbol
        owner = here.qualname.rpartition(".")[0]
        near = piece.sibling and piece.side == "fork" and piece.path == here.path
        if not (near and answer.called and owner == piece.symbol.rpartition(".")[0]):
            return set()
        made = self.views[0].functions.get(f"{owner}.{answer.called}", ())
        primitive = self.views[0].vocabulary.primitive_waits.keys()
        waits = [f for f in made if f.path == here.path and primitive & set(f.facts.mentions)]
        return {answer.called} if waits else set()

    def _wait(self, piece: Evidence) -> Answer | None:
        question = Question(piece.line, 1, self._waits, wait=True)
        return self._ask(piece.side, Symbol(piece.path, piece.symbol), piece.line, question)

    def _known_to_wait(self, number: int, function: Function) -> Waits:
        """The primitive waits, and what the function names that waits on the side."""
        names = self.views[number].readings.waiting_names & set(function.facts.mentions)
        return msgspec.structs.replace(self._waits, methods=_sorted(names))

    def _ask(self, side: Side, symbol: Symbol, line: int, question: Question) -> Answer | None:
        """The answer of the first version of a side that does not say no.

        None where the line is in no function of that name but its ``def``. Lines of question and
        answer are those of the file.
        """
        last: Answer | None = None
        for number, view in enumerate(self.views):
            if view.side != side:
                continue
            for lines, function in self._functions(view, symbol, line):
                if not lines[0] <= line <= lines[1]:
                    continue
                if line == lines[0] and question.claim is None:
                    continue
                if question.wait and function is not None:
                    waits = self._known_to_wait(number, function)
                    question = msgspec.structs.replace(question, waits=waits)
                last = self._read(number, symbol.path, lines, question)
                if last.verdict != "no":
                    return last
        return last

    def _functions(
        self, view: View, symbol: Symbol, line: int
    ) -> Iterator[tuple[Lines, Function | None]]:
        """The functions of a name in a file, with their lines; of an unread file by its text."""
        known = [f for f in view.functions.get(symbol.qualname, ()) if f.path == symbol.path]
        for function in known:
            yield (function.facts.line, function.facts.end_line), function
        if not known and symbol.path in view.sources:
            # The innermost that begins before: a class comes before what it defines.
            pieces = [p for p in cut(view.sources[symbol.path]) if p.start <= line]
            for piece in pieces[-1:]:
                end = piece.start + piece.text.rstrip().count(b"\n")
                yield (piece.start + piece.decorators, end), None

    def _read(self, number: int, path: str, lines: Lines, question: Question) -> Answer:
        """The answer of a function that stands on some lines."""
        shift = lines[0] - 1
        self.asked += 1
        try:
            passage = self._passage(number, path, *lines)
        except Unreadable as problem:
            return Answer("unreadable", str(problem))
        asked = msgspec.structs.replace(question, line=question.line - shift)
        answer = self._answers.of(passage, asked)
        rows = tuple(msgspec.structs.replace(r, span=_down(r.span, shift)) for r in answer.rows)
        span = None if answer.span is None else _down(answer.span, shift)
        return msgspec.structs.replace(answer, span=span, rows=rows)

    def _passage(self, number: int, path: str, first: int, last: int) -> Passage:
        text = self._texts.get((number, path))
        if text is None:
            text = self._texts[number, path] = Text(self.views[number].sources[path])
        return text.passage(first, last)

    def _disagree(self, found: Disagreement) -> None:
        if found not in self.disagreements:
            self.disagreements.append(found)

    def _skip(self, side: Side, path: str, name: str, reason: str) -> None:
        found = Skipped(side, path, STAGE, f"{name}: {reason}")
        if found not in self.skipped:
            self.skipped.append(found)


def _down(span: Span, lines: int) -> Span:
    line, column, end_line, end_column = span
    return line + lines, column, end_line + lines, end_column


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))


def _within(where: Location, answer: Answer) -> Location:
    """The exact place of a hit; a chain that began on a line before is one of its own line on."""
    if answer.verdict != "yes" or answer.span is None:
        return where
    line, column, end_line, end_column = answer.span
    if line != where.line:
        column = where.column
    return msgspec.structs.replace(where, column=column, end_line=end_line, end_column=end_column)


def _with_span(piece: Evidence, answer: Answer) -> Evidence:
    if answer.verdict != "yes" or answer.span is None or answer.span[0] != piece.line:
        return piece
    _, column, end_line, end_column = answer.span
    return msgspec.structs.replace(piece, column=column, end_line=end_line, end_column=end_column)
