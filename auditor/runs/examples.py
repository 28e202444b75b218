"""Runs the examples of rule pages: what is reported is what they mark, all of it and no more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from auditor.errors import UsageProblem
from auditor.pages import Page, field
from auditor.rulebook import Example, Rulebook, packaged_rules, rule_pages
from auditor.runs.audit import audit_sources
from auditor.runs.rules import load

Lines = frozenset[tuple[str, int, str]]
"""Places in an example's files: path, line (1-based) and the rule that finds something there."""


@dataclass(frozen=True)
class Tried:
    """An example that was run: ``name`` is its place in the page, ``line`` the page's (1-based).

    ``unread`` says what kept it from being judged; then ``found`` may lack anything.
    """

    page: Path
    line: int
    name: str
    title: str
    expected: Lines
    found: Lines
    unread: str

    @property
    def as_marked(self) -> bool:
        """Whether everything was read, and what is reported is what is marked."""
        return not self.unread and self.found == self.expected


def try_all(folders: Sequence[Path] = ()) -> Iterator[Tried]:
    """Runs every example of the pages in some folders of rules, in order; of the shipped ones
    where no folder is given.

    All rules are run on each, the shipped ones too, with the words of all folders. Raises
    UsageProblem for a page that cannot be loaded, before any is run.
    """
    shipped = packaged_rules()
    extra = [folder for folder in folders if folder.resolve() != shipped.resolve()]
    whole = len(extra) < len(folders) or not folders
    book = load(extra, whole=whole)
    for folder in (*([shipped] if whole else []), *extra):
        for path in rule_pages(folder):
            yield from _tried(Page.open(path), book)


def reported(example: Example, book: Rulebook) -> tuple[Lines, str]:
    """What all rules find in an example, and what could not be read of it (empty: all could)."""
    fork, target = example.side(example.fork), example.side(example.target)
    assert fork is not None
    try:
        report = audit_sources(
            fork,
            upstream=example.side(example.upstream),
            targets=() if target is None else (target,),
            rulebook=book,
        )
    except UsageProblem as problem:  # of a configuration among the files
        return frozenset(), str(problem)
    lines = frozenset(
        (finding.hit.where.symbol.path, finding.hit.where.line, finding.rule)
        for finding in report.findings
    )
    return lines, "; ".join(f"{skip.path}: {skip.reason}" for skip in report.skipped)


def _tried(page: Page, book: Rulebook) -> Iterator[Tried]:
    rule = book.rule(page.path.stem)
    for kind, examples in (("invalid", rule.invalid), ("valid", rule.valid)):
        for number, example in enumerate(examples):
            expected, (found, unread) = example.marks(), reported(example, book)
            steps: tuple[str | int, ...] = (kind, number)
            name, inner = field(steps), 0
            for path, line, _ in sorted(expected ^ found):
                if path in example.fork:  # and not in the tree beside it
                    steps, inner = (*steps, "fork", path), line
                    break
            yield Tried(
                page.path, page.line(steps, inner), name, example.title, expected, found, unread
            )
