"""Says which findings of a run were accepted: by comments, the configuration or a baseline."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import msgspec

from auditor.checks import CHECKS
from auditor.errors import Unreadable
from auditor.model import Baseline, BaselineEntry, Comment, Finding, Launch, Skipped, Suppression
from auditor.repo.scripts import Scripts, Surroundings
from auditor.repo.snapshot import Snapshot
from auditor.rulebook import Rule, Rulebook
from auditor.source.comments import python_comments, speaks
from auditor.source.scout import deployed
from auditor.triage import baseline, suppress
from auditor.triage.ignores import Ignore, matches

MOST_BYTES = 32 * 2**20
"""Python of one run that is cut into tokens to find comments."""

_LARGEST_SCRIPT = 10 * 2**20

Read = tuple[Snapshot, Mapping[str, bytes]]
"""A side and its Python files by package-relative path."""


@dataclass(frozen=True)
class Wanted:
    """What was asked to be accepted; ``entries`` None where no baseline was named."""

    comments: bool = True
    ignores: tuple[Ignore, ...] = ()
    entries: tuple[BaselineEntry, ...] | None = None
    name: str = ""
    today: datetime.date = field(default_factory=datetime.date.today)


@dataclass(frozen=True)
class Scope:
    """What a run looked at, without which nothing can be said to be of no use any more.

    ``rules`` were run; ``silent`` are scripts that start nothing; ``tables`` says that serve rules
    judged the tree itself; ``unread`` are report paths.
    """

    trees: Sequence[Read]
    rules: Sequence[Rule]
    around: Surroundings
    named: Scripts
    launches: Sequence[Launch] = ()
    silent: Sequence[str] = ()
    tables: bool = False
    unread: frozenset[str] = frozenset()

    @cached_property
    def launched(self) -> Mapping[str, set[int]]:
        """The lines of each script that launches are read from."""
        found: dict[str, set[int]] = {}
        for launch in self.launches:
            found.setdefault(launch.path, set()).add(launch.line)
            for argument in launch.arguments:
                found.setdefault(argument.path, set()).add(argument.line)
            for variable in launch.environment:
                found.setdefault(variable.path, set()).add(variable.line)
        return found

    @cached_property
    def scripts(self) -> frozenset[str]:
        """The scripts that were read."""
        return frozenset((*self.launched, *self.silent))

    @property
    def all_scripts(self) -> bool:
        """Whether these are all the scripts that the fork has."""
        return not self.named.paths and not self.around.blind

    def read_script(self, path: str) -> bytes | None:
        """The bytes of a script that was judged, None where it is gone."""
        if not self.named.paths:
            return self.around.read(path)
        try:
            with (self.named.base / path).open("rb") as file:
                return file.read(_LARGEST_SCRIPT)
        except (OSError, ValueError):
            return None

    def read(self, path: str) -> bytes | None:
        """A file that is not of the package, None where it is gone."""
        return self.read_script(path) if path in self.scripts else self.around.read(path)

    def in_tree(self, path: str) -> tuple[str, bytes] | None:
        """A file that is not of the package: its name from the fork's root, and its bytes."""
        data = self.read(path)
        if data is None or not self.named.paths or path not in self.scripts:
            return None if data is None else (path, data)
        try:
            real = (self.named.base / path).resolve()
            root = self.around.root
            return None if root is None else (real.relative_to(root.resolve()).as_posix(), data)
        except (OSError, ValueError, RuntimeError):
            return None


class Accepted(msgspec.Struct, frozen=True):
    """All findings with their disposition, and what accepted them."""

    findings: tuple[Finding, ...]
    suppressions: tuple[Suppression, ...] = ()
    baseline: Baseline | None = None
    skipped: tuple[Skipped, ...] = ()

    @property
    def warning(self) -> str:
        """What is wrong with the baseline, empty where nothing is."""
        gone = len(self.baseline.stale) if self.baseline else 0
        if self.baseline is None or not gone:
            return ""
        told = "1 entry matches" if gone == 1 else f"{gone:,} entries match"
        return f"{told} nothing any more in the baseline {self.baseline.name}"


def accept(findings: Sequence[Finding], wanted: Wanted, book: Rulebook, scope: Scope) -> Accepted:
    """The findings of a run, before any filter, as they stand after all that accepts them."""
    names = book.names()
    package = {scope.trees[0][0].report_path(path): path for path in scope.trees[0][1]}
    judged = _Judged(scope, package)
    comments = _Comments(scope, package)
    found_in = {finding.hit.where.symbol.path for finding in findings}
    marks = list(comments.marks(found_in)) if wanted.comments else []
    outcome = suppress.suppress(
        findings,
        marks,
        wanted.ignores,
        names,
        scope.rules,
        judged.place,
        judged.ignore,
        wanted.today,
    )
    disposed, used = outcome.findings, None
    if wanted.entries is not None:
        matched = baseline.match(wanted.entries, disposed, names)
        disposed = tuple(
            finding
            if entry is None or finding.disposition != "active"
            else msgspec.structs.replace(finding, disposition="baselined")
            for finding, entry in zip(disposed, matched.accepting, strict=True)
        )

        def looked_at(rule_id: str, path: str) -> bool:
            # What is said about suppressions depends on every rule that they name.
            whole = wanted.comments and len(scope.rules) == len(book.rules)
            return judged.place(rule_id, path) and (whole or names[rule_id].check != suppress.CHECK)

        used = Baseline(
            wanted.name,
            len(wanted.entries),
            sum(finding.disposition == "baselined" for finding in disposed),
            baseline.stale(matched.left, names, looked_at),
        )
    return Accepted(disposed, outcome.suppressions, used, tuple(comments.skipped))


class _Judged:
    """Whether a rule was run on a place."""

    def __init__(self, scope: Scope, package: Mapping[str, str]) -> None:
        self.scope = scope
        self.package = package
        self.ran = {rule.id for rule in scope.rules}
        self.serving = {
            rule.id
            for rule in scope.rules
            if rule.check not in CHECKS and rule.check != suppress.CHECK
        }

    def place(self, rule_id: str, path: str) -> bool:
        """Whether the rule would have been found broken in a file, which may be gone."""
        if rule_id not in self.ran or path in self.scope.unread:
            return False
        inner = self.package.get(path)
        if rule_id not in self.serving:
            return inner is None or deployed(inner)
        if inner is not None:
            return self.scope.tables
        return self.scope.all_scripts or path in self.scope.scripts

    def ignore(self, rule_id: str, ignore: Ignore) -> bool:
        """The same for all files that a configured suppression is about."""
        if rule_id not in self.ran or any(map(ignore.covers, self.scope.unread)):
            return False
        if rule_id not in self.serving or self.scope.all_scripts:
            return True
        return bool(ignore.path) and any(matches(ignore.path, p) for p in self.scope.scripts)


class _Comments:
    """Reads the comments of the fork's files that speak to this program."""

    def __init__(self, scope: Scope, package: Mapping[str, str]) -> None:
        self.scope = scope
        self.package = package
        self.skipped: list[Skipped] = []
        self.left = MOST_BYTES
        self.theirs = [read for read in scope.trees[1:] if read[0].side in ("upstream", "base")]

    def marks(self, found_in: Collection[str]) -> Iterator[suppress.Mark]:
        """The suppressions in comments of the fork's files.

        A file of upstream's own is looked at only where something is ``found_in`` it.
        """
        fork = self.scope.trees[0][1]
        for path, inner in self.package.items():
            data = fork[inner]
            own = all(sources.get(inner) != data for _, sources in self.theirs)
            if path not in self.scope.unread and (own or path in found_in):
                found = self._speaking(path, data, self._python)
                yield from suppress.marks(path, found, self._package_texts(inner) if found else ())
        if self.scope.launches:
            yield from self._of_scripts()

    def _of_scripts(self) -> Iterator[suppress.Mark]:
        from auditor.serve.scripts.comments import script_comments

        for path, lines in sorted(self.scope.launched.items()):
            data = self.scope.read_script(path)
            if path in self.package or data is None:
                continue

            def read(text: bytes, path: str = path, lines: set[int] = lines) -> list[Comment]:
                return script_comments(path, text, lines)

            found = self._speaking(path, data, read)
            if found:
                texts = {
                    c.text for theirs in self._script_texts(path) for c in _tried(read, theirs)
                }
                yield from suppress.marks(path, found, texts)

    def _speaking(
        self, path: str, data: bytes, read: Callable[[bytes], list[Comment]]
    ) -> list[Comment]:
        try:
            return read(data) if speaks(data) else []
        except Unreadable as problem:
            self.skipped.append(Skipped("fork", path, "comments", str(problem)))
            return []

    def _python(self, data: bytes) -> list[Comment]:
        self.left -= len(data)
        if self.left < 0:
            limit = MOST_BYTES // 2**20
            raise Unreadable(f"more than {limit} MiB of files with comments to audit")
        return python_comments(data)

    def _package_texts(self, inner: str) -> set[str]:
        """The comments that upstream's file of the same name has."""
        texts: set[str] = set()
        for _, sources in self.theirs:
            texts |= {c.text for c in _tried(python_comments, sources.get(inner, b""))}
        return texts

    def _script_texts(self, path: str) -> Iterator[bytes]:
        placed = self.scope.in_tree(path)
        for snapshot, _ in self.theirs if placed else ():
            assert placed is not None
            if placed[0] in snapshot.files.names:
                data = next(snapshot.files.read([placed[0]]))
                if isinstance(data, bytes):
                    yield data


def _tried(read: Callable[[bytes], list[Comment]], data: bytes) -> list[Comment]:
    """The comments of another side's file: what it is not known to have is the fork's own."""
    try:
        return read(data) if speaks(data) else []
    except Unreadable:
        return []
