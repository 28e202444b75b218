"""Finds the upstream commits that matter to a fork's own changes and says which it misses."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from auditor.drift.facts import Fix, Fixes, InTarget
from auditor.drift.judge import Tree, Verdict, Versions, counts, judge
from auditor.drift.log import NUMBER, REVERT, Log
from auditor.model import ChangeSet, Evidence, Finding, Symbol
from auditor.repo.commits import Blobs, Edit, FileEdit, edits, equal_patches, sizes, trees
from auditor.repo.git import GitError, Repository
from auditor.repo.scratch import Scratch, Trial
from auditor.repo.snapshot import open_revision
from auditor.repo.symbols import changed_symbols

MAX_COMMITS = 20_000
"""Upstream commits looked through; from 0.5.12 to 0.5.18 there are 4,000."""
MAX_JUDGED = 200
"""Commits compared with the fork, best rank first; the rest is counted."""
_GROUP = 40  # commits whose contents are held at a time

_REPAIRS = re.compile(
    r"\b(?:fix(?:e[sd]|ing)?|bug(?:fix(?:es)?)?|hotfix|revert|hang|deadlock|race|leaks?|leaking"
    r"|crash(?:es)?|corrupt\w*|wrong|incorrect|regression|oom|nan|stale|stuck|illegal|missing"
    r"|avoid|prevent|guard)\b",
    re.IGNORECASE,
)
_DISTINCT = 2  # parts of a name that tell it from others wherever it lies


class Ground(NamedTuple):
    """What missed fixes and the ledger are made from, all by root-relative paths.

    ``changed`` are the fork's changed symbols by its file; ``moves`` say where the fork keeps a
    file of the base ("": it deleted it). ``own`` are the fork's commits, ``theirs`` upstream's, the
    newest first. ``paths`` are base's and target's path for one of a commit's, ``renamed`` target's
    path for one of the base, ``ancestor`` is the commit that fork and target share.
    """

    repository: Repository
    fork: Tree
    base: Tree
    target: Tree
    changed: Mapping[str, frozenset[str]]
    moves: Mapping[str, str]
    own: tuple[Edit, ...]
    theirs: tuple[Edit, ...]
    paths: Mapping[tuple[str, str], tuple[str, str]]
    renamed: Mapping[str, str]
    ancestor: Tree

    def untouched(self, path: str) -> bool:
        """Whether the fork has a file as the common ancestor with the target had it."""
        blob = self.ancestor.blob(path)
        return blob is not None and self.fork.blob(path) == blob

    def from_fork(self, path: str) -> tuple[str, str]:
        """Where base and target have a file of the fork."""
        base = next((old for old, new in self.moves.items() if new == path), path)
        return base, self.renamed.get(base, base)

    def at_base(self, sha: str, path: str) -> str:
        """Where the base has the file that an upstream commit has at ``path``."""
        return self.paths.get((sha, path), (path, path))[0]

    def at_target(self, sha: str, path: str) -> str:
        """Where the target has it."""
        return self.paths.get((sha, path), (path, path))[1]

    def in_fork(self, sha: str, path: str) -> str:
        """Where the fork has it, "" where it does not."""
        base = self.at_base(sha, path)
        found = self.moves.get(base, base)
        return found if found in self.fork else ""


class Touched(NamedTuple):
    """An upstream commit, the fork's changed symbols among its own, and findings at those.

    ``ended`` are the findings that it is known to end, among the others.
    """

    edit: Edit
    shared: tuple[Symbol, ...]
    findings: tuple[str, ...]
    ended: tuple[Finding, ...]
    rank: float


def survey_ground(
    repository: Repository,
    fork: Tree,
    base: Tree,
    target: Tree,
    changes: ChangeSet,
    commits: tuple[str, str, str],
    refs: Mapping[str, str],
) -> Ground:
    """Reads both histories; ``commits`` are those of fork, upstream and target. Raises GitError.

    ``refs`` are what counts as upstream's of the repository (``History.refs``).
    """
    mine, _, newer = commits
    own = edits(repository, mine, sorted(set(refs.values())), MAX_COMMITS)
    theirs = edits(repository, newer, (mine,), MAX_COMMITS)
    place = fork.snapshot.report_path
    changed: dict[str, frozenset[str]] = {}
    moves: dict[str, str] = {}
    for change in changes.files:
        path = place(change.path)
        if change.status == "deleted":
            moves[path] = ""
        if change.status == "renamed":
            moves[place(change.old_path)] = path
        if not path.endswith(".py") or change.status == "deleted" or not counts(path):
            continue
        names = change.symbols
        if change.status == "added":
            names = changed_symbols(b"", fork.content(path) or b"")
        changed[path] = frozenset(names)
    paths, renamed = _followed(theirs)
    shared = repository.line("merge-base", mine, newer)
    ancestor = Tree(open_revision(fork.snapshot, shared)) if shared else base
    return Ground(
        repository, fork, base, target, changed, moves, own, theirs, paths, renamed, ancestor
    )


def _followed(
    theirs: Sequence[Edit],
) -> tuple[dict[tuple[str, str], tuple[str, str]], dict[str, str]]:
    """Where base and target have what a commit has at a path; the target's names by the base's."""
    found: dict[tuple[str, str], list[str]] = {}
    origin: dict[str, str] = {}
    for edit in reversed(theirs):
        for file in edit.files:
            if file.path and file.old_path and file.path != file.old_path:
                origin[file.path] = origin.pop(file.old_path, file.old_path)
            path = file.path or file.old_path
            found[edit.sha, path] = [origin.get(path, path), path]
    later: dict[str, str] = {}
    for edit in theirs:
        for file in edit.files:
            path = file.path or file.old_path
            found[edit.sha, path][1] = later.get(path, path)
            if file.path and file.old_path and file.path != file.old_path:
                later[file.old_path] = later.pop(file.path, file.path)
    return {key: (base, target) for key, (base, target) in found.items()}, later


class Touches(NamedTuple):
    """What upstream's commits touch: the candidates, and how often each symbol changed."""

    candidates: list[Touched]
    of_package: int
    same_file: int
    changed_since: Counter[Symbol]


def touches(ground: Ground, findings: Sequence[Finding]) -> Touches:
    """The upstream commits that touch a symbol which the fork changed, or that end a finding.

    Which commit ended a finding is known of most; of the others all count that touch its symbol.
    File by file, so that no content is read or compared twice.
    """
    ended: dict[Symbol, list[str]] = {}
    endings: dict[str, list[Finding]] = {}
    rows_of = {edit.sha: edit for edit in ground.theirs}
    for finding in findings:
        if finding.fixed_by is not None and finding.fixed_by.sha in rows_of:
            endings.setdefault(finding.fixed_by.sha, []).append(finding)
        elif finding.fixed_in is not None:
            ended.setdefault(finding.hit.where.symbol, []).append(finding.fingerprint)
    wanted = set(ground.changed) | {symbol.path for symbol in ended}
    by_name = _distinct_names(ground)
    of_package, by_file = _edits_of_package(ground)
    shared: dict[str, set[Symbol]] = {}
    near: set[str] = set()
    frequency: Counter[Symbol] = Counter()
    holders = _holders(ground, by_file, by_name)
    for base, rows in by_file.items():
        place = ground.moves.get(base, base)
        known = place in wanted
        if not known and base not in holders:
            continue
        for edit, symbols in _symbols(ground, rows, place, by_name):
            mine = {
                symbol
                for symbol in symbols
                if symbol.qualname in ground.changed.get(symbol.path, ()) or symbol in ended
            }
            if known:
                near.add(edit.sha)
            frequency.update(mine)
            if mine:
                shared.setdefault(edit.sha, set()).update(mine)
    for sha, found in endings.items():
        shared.setdefault(sha, set()).update(finding.hit.where.symbol for finding in found)
    candidates = [
        _candidate(rows_of[sha], symbols, endings.get(sha, []), ended, frequency)
        for sha, symbols in shared.items()
    ]
    order = {edit.sha: number for number, edit in enumerate(ground.theirs)}
    candidates.sort(key=lambda one: (-one.rank, order[one.edit.sha]))
    return Touches(candidates, len(of_package), len(near - shared.keys()), frequency)


def _edits_of_package(
    ground: Ground,
) -> tuple[set[str], dict[str, list[tuple[Edit, FileEdit]]]]:
    """The commits that edit Python files of the package; their edits by the file at the base."""
    package = ground.fork.snapshot.report_path("sglang/")
    of_package: set[str] = set()
    by_file: dict[str, list[tuple[Edit, FileEdit]]] = {}
    for edit in ground.theirs:
        for file in edit.files:
            path = file.path or file.old_path
            if path.endswith(".py") and path.startswith(package) and counts(path):
                of_package.add(edit.sha)
                by_file.setdefault(ground.at_base(edit.sha, path), []).append((edit, file))
    return of_package, by_file


def _candidate(
    edit: Edit,
    symbols: set[Symbol],
    ending: Sequence[Finding],
    ended: Mapping[Symbol, Sequence[str]],
    frequency: Counter[Symbol],
) -> Touched:
    """A commit with the findings that it ends, surely or maybe; those rank first."""
    of_findings = {print_ for symbol in symbols for print_ in ended.get(symbol, ())}
    of_findings.update(finding.fingerprint for finding in ending)
    rank = sum(1 / max(frequency[symbol], 1) for symbol in symbols)
    rank += 10 * len(of_findings) + (5 if _REPAIRS.search(edit.subject) else 0)
    return Touched(
        edit,
        tuple(sorted(symbols)),
        tuple(sorted(of_findings)),
        tuple(sorted(ending, key=lambda finding: finding.fingerprint)),
        rank,
    )


def _distinct_names(ground: Ground) -> dict[str, str]:
    """The file of each changed method whose name (``Class.method``) one changed file alone has.

    Upstream may have moved it to another file since, or the fork.
    """
    files: dict[str, set[str]] = {}
    for path, names in ground.changed.items():
        for name in names:
            if name.count(".") + 1 >= _DISTINCT:
                files.setdefault(name, set()).add(path)
    for name, paths in files.items():
        if len(paths) > 1:
            files[name] = {path for path in paths if ground.fork.code(path, name)}
    return {name: next(iter(paths)) for name, paths in files.items() if len(paths) == 1}


def _holders(
    ground: Ground,
    by_file: Mapping[str, Sequence[tuple[Edit, FileEdit]]],
    by_name: Mapping[str, str],
) -> set[str]:
    """The files whose newest content defines a class of the wanted methods."""
    classes = {name.partition(".")[0].encode() for name in by_name}
    newest = {base: file.blob or file.old_blob for base, [(_, file), *_] in by_file.items()}
    found, bases, blobs = set(), list(newest), Blobs(ground.repository)
    for start in range(0, len(bases), _GROUP):
        group = bases[start : start + _GROUP]
        contents = blobs.load([newest[base] for base in group])
        for base in group:
            names = re.findall(rb"^class +(\w+)", contents.get(newest[base]) or b"", re.MULTILINE)
            if classes.intersection(names):
                found.add(base)
    return found


def _symbols(
    ground: Ground,
    rows: Sequence[tuple[Edit, FileEdit]],
    place: str,
    by_name: Mapping[str, str],
) -> Iterable[tuple[Edit, set[Symbol]]]:
    """The changed symbols of each commit to one file, as places of the fork."""
    blobs = Blobs(ground.repository)
    seen: dict[tuple[str, str], tuple[str, ...]] = {}
    for start in range(0, len(rows), _GROUP):
        group = rows[start : start + _GROUP]
        contents = blobs.load([b for _, file in group for b in (file.old_blob, file.blob)])
        for edit, file in group:
            key = (file.old_blob, file.blob)
            if key not in seen:
                old, new = (contents.get(blob) if blob else b"" for blob in key)
                known = old is not None and new is not None
                seen[key] = changed_symbols(old or b"", new or b"") if known else ()
            yield edit, {Symbol(_home(ground, place, name, by_name), name) for name in seen[key]}


def _home(ground: Ground, place: str, name: str, by_name: Mapping[str, str]) -> str:
    """The fork's file for a symbol that upstream has in the file that the fork has at ``place``."""
    if name in ground.changed.get(place, ()) and ground.fork.code(place, name):
        return place
    other = by_name.get(name)
    if other and other != place and not ground.fork.code(place, name):
        return other
    return place


def missed_fixes(
    ground: Ground, found: Touches, trees_of: tuple[str, str], merging: Scratch | None
) -> Fixes:
    """The candidates, each judged by content; ``trees_of`` are the fork's and the target's tree.

    Raises GitError.
    """
    chosen = found.candidates[:MAX_JUDGED]
    log = Log(ground.own, _equal(ground))
    verdicts: dict[str, tuple[Verdict, InTarget]] = {}
    by_name = _distinct_names(ground)
    versions = Versions(ground.repository)
    # Neighbours in history share contents.
    order = {edit.sha: number for number, edit in enumerate(ground.theirs)}
    in_time = sorted((one.edit for one in chosen), key=lambda edit: order[edit.sha])
    places = {one.edit.sha: {symbol.path for symbol in one.shared} for one in chosen}
    for start in range(0, len(in_time), _GROUP):
        group = in_time[start : start + _GROUP]
        versions.load(group)
        for edit in group:
            sha = edit.sha

            def in_fork(path: str, name: str, sha: str = sha) -> str:
                return _home(ground, ground.in_fork(sha, path), name, by_name)

            def in_target(path: str, name: str, sha: str = sha) -> str:
                return ground.at_target(sha, path)

            untouched = _never if REVERT.search(edit.subject) else ground.untouched
            there = judge(edit.files, versions, ground.fork, ground.base, in_fork, untouched)
            verdict = log.weigh(edit, there)
            newer: InTarget = "held"
            if verdict.state != "present":
                near = [f for f in edit.files if ground.in_fork(sha, f.path) in places[sha]]
                there = judge(near or edit.files, versions, ground.target, ground.base, in_target)
                states = {"present": "held", "absent": "taken-back", "undecided": "changed-since"}
                newer = states[there.state]  # type: ignore[assignment]
            verdicts[sha] = verdict, newer
    size = sizes(ground.repository, [one.edit.sha for one in chosen])
    lacking = [one.edit for one in chosen if verdicts[one.edit.sha][0].state != "present"]
    conflicts = _conflicts(ground.repository, lacking, trees_of[0], merging)
    listed = []
    for one in chosen:
        verdict, newer = verdicts[one.edit.sha]
        files, added, removed = size.get(one.edit.sha, (len(one.edit.files), 0, 0))
        number = NUMBER.search(one.edit.subject)
        listed.append(
            Fix(
                one.edit.sha,
                one.edit.date,
                one.edit.subject,
                int(number[1]) if number else None,
                bool(_REPAIRS.search(one.edit.subject)),
                verdict.state,
                verdict.reason,
                (*_ends(one.ended), *verdict.evidence),
                one.shared,
                one.findings,
                newer,
                verdict.state == "undecided"
                and all(piece.judged.state == "missing" for piece in verdict.pieces),
                files,
                added,
                removed,
                conflicts.get(one.edit.sha),
                round(one.rank, 3),
                tuple(finding.fingerprint for finding in one.ended),
            )
        )
    cut = len(ground.theirs) == MAX_COMMITS
    return Fixes(
        len(ground.theirs),
        found.of_package,
        found.same_file,
        len(found.candidates) - len(chosen),
        tuple(listed),
        f"only the newest {MAX_COMMITS:,} upstream commits were looked through" * cut,
    )


def _ends(findings: Sequence[Finding]) -> Iterable[Evidence]:
    for finding in findings:
        where = finding.hit.where
        note = f"ends finding {finding.fingerprint}"
        yield Evidence(where.symbol.path, where.line, where.symbol.qualname, note)


def _conflicts(
    repository: Repository, changes: Sequence[Edit], onto: str, merging: Scratch | None
) -> dict[str, tuple[str, ...] | None]:
    """For each change the paths at which it does not apply to a tree; None: could not be tried."""
    if merging is None or not changes:
        return {}
    tree_of = trees(repository, [sha for edit in changes for sha in (edit.parent, edit.sha)])
    known = [edit for edit in changes if {edit.parent, edit.sha} <= tree_of.keys()]
    trials = [Trial(tree_of[edit.parent], onto, tree_of[edit.sha]) for edit in known]
    answers = merging.conflicts(trials)
    return {
        edit.sha: None if paths is None else tuple(sorted(filter(counts, paths)))
        for edit, paths in zip(known, answers, strict=True)
    }


def _equal(ground: Ground) -> frozenset[str]:
    """The upstream commits that the fork has an equal patch of; none where that cannot be told."""
    mine, theirs = ground.fork.snapshot.commit, ground.target.snapshot.commit
    try:
        return equal_patches(ground.repository, str(mine), str(theirs))
    except GitError:
        return frozenset()


def _never(_: str) -> bool:
    return False
