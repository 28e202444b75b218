"""What became of the fork's own patches: taken upstream, overtaken there, or in conflict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from auditor.drift.areas import area_at
from auditor.drift.facts import OwnPatch, PatchState
from auditor.drift.fixes import Ground
from auditor.drift.judge import Tree, Versions, counts, judge
from auditor.drift.log import taken_back
from auditor.model import ChangeSet, FileChange, Finding, Symbol
from auditor.repo.commits import Blobs, Edit, sizes, trees
from auditor.repo.history import moment
from auditor.repo.scratch import Scratch, Trial
from auditor.repo.symbols import changed_symbols

MAX_PATCHES = 1000
"""Own commits listed, newest first."""
_OWN_ORIGINS = ("introduced", "regressed")


def ledger(
    ground: Ground,
    findings: Sequence[Finding],
    trees_of: tuple[str, str],
    newest: str | None,
    conflicts: frozenset[str] | None,
    merging: Scratch | None,
) -> tuple[OwnPatch, ...]:
    """One row for each own commit, newest first; ``conflicts`` are those of the whole merge.

    Raises GitError.
    """
    own = [edit for edit in ground.own if edit.parent][:MAX_PATCHES]
    size = sizes(ground.repository, [edit.sha for edit in own])
    back = taken_back(ground.own, Blobs(ground.repository))
    live = [edit for edit in own if edit.sha not in back]
    forecast = _forecast(ground, live, trees_of[1], conflicts, merging)
    by_symbol = _introduced(findings)
    versions = Versions(ground.repository)
    rows = []
    for edit in own:
        files = [file for file in edit.files if counts(file.path or file.old_path)]
        versions.load([edit])
        symbols: set[Symbol] = set()
        for file in files:
            path = file.path or file.old_path
            old, new = versions.content(file.old_blob), versions.content(file.blob)
            if path.endswith(".py") and old is not None and new is not None:
                symbols |= {Symbol(path, name) for name in changed_symbols(old, new)}
        standing: tuple[PatchState, str] = ("taken-back", back.get(edit.sha, ""))
        here: set[Symbol] = set()
        if edit.sha not in back:
            standing, here = _standing(edit, versions, ground), symbols
        files_, added, removed = size.get(edit.sha, (len(edit.files), 0, 0))
        rows.append(
            OwnPatch(
                edit.sha,
                edit.date,
                _days(edit.date, newest),
                edit.subject,
                tuple(
                    sorted(
                        {area_at(ground.fork.snapshot, f.path or f.old_path) for f in edit.files}
                    )
                ),
                tuple(sorted(symbols)),
                files_,
                added,
                removed,
                *standing,
                tuple(sorted(s for s in here if _moved_on(s, ground))),
                () if edit.sha in back else forecast.get(edit.sha),
                tuple(sorted({f for symbol in here for f in by_symbol.get(symbol, ())})),
            )
        )
    return tuple(rows)


def _standing(edit: Edit, versions: Versions, ground: Ground) -> tuple[PatchState, str]:
    """Whether the target holds a patch, and why it counts so."""
    verdict = judge(
        edit.files, versions, ground.target, ground.base, lambda path, _: ground.from_fork(path)[1]
    )
    if verdict.state == "present":
        return "upstream", verdict.reason
    if any(piece.judged.state == "present" for piece in verdict.pieces):
        return "partly-upstream", verdict.reason
    return ("own" if verdict.pieces else "unknown"), verdict.reason


def clusters(
    fork: Tree,
    upstream: Tree,
    target: Tree | None,
    changes: ChangeSet,
    findings: Sequence[Finding],
    conflicts: frozenset[str] | None,
) -> tuple[OwnPatch, ...]:
    """The same without history: one row for the changed symbols of each area."""
    by_area: dict[str, list[FileChange]] = {}
    for change in changes.files:
        by_area.setdefault(change.area, []).append(change)
    by_symbol = _introduced(findings)
    rows = []
    for area, group in sorted(by_area.items()):
        paths = {fork.snapshot.report_path(change.path) for change in group}
        symbols = {
            Symbol(fork.snapshot.report_path(change.path), name)
            for change in group
            for name in change.symbols
        }
        state: PatchState = "unknown"
        reason = "there is no target to compare with"
        since: list[Symbol] = []
        if target is not None:
            equal = [s for s in symbols if _code(fork, s) == _code(target, s) is not None]
            since = [s for s in symbols if _differs(s, s, upstream, target)]
            state = "upstream" if symbols and len(equal) == len(symbols) else "own"
            state = "partly-upstream" if state == "own" and equal else state
            reason = f"{len(equal)} of {len(symbols)} changed symbols read so in the target"
        rows.append(
            OwnPatch(
                None,
                None,
                None,
                f"changed symbols of {area}",
                (area,),
                tuple(sorted(symbols)),
                len(group),
                sum(change.added or 0 for change in group),
                sum(change.removed or 0 for change in group),
                state,
                reason,
                tuple(sorted(since)),
                None if conflicts is None else tuple(sorted(conflicts & paths)),
                tuple(sorted({f for symbol in symbols for f in by_symbol.get(symbol, ())})),
            )
        )
    return tuple(rows)


def _forecast(
    ground: Ground,
    own: Sequence[Edit],
    target: str,
    conflicts: frozenset[str] | None,
    merging: Scratch | None,
) -> Mapping[str, tuple[str, ...] | None]:
    """Where each patch conflicts with the target, both alone and in the merge of all.

    Alone, a patch on top of another one conflicts for want of that one.
    """
    if merging is None or conflicts is None:
        return {}
    if not conflicts:
        return {edit.sha: () for edit in own}
    tree_of = trees(ground.repository, [sha for edit in own for sha in (edit.parent, edit.sha)])
    known = [edit for edit in own if {edit.parent, edit.sha} <= tree_of.keys()]
    answers = merging.conflicts(
        [Trial(tree_of[edit.parent], target, tree_of[edit.sha]) for edit in known]
    )
    return {
        edit.sha: None if paths is None else tuple(sorted(paths & conflicts))
        for edit, paths in zip(known, answers, strict=True)
    }


def _introduced(findings: Iterable[Finding]) -> dict[Symbol, list[str]]:
    found: dict[Symbol, list[str]] = {}
    for finding in findings:
        if finding.origin in _OWN_ORIGINS:
            found.setdefault(finding.hit.where.symbol, []).append(finding.fingerprint)
    return found


def _moved_on(symbol: Symbol, ground: Ground) -> bool:
    """Whether upstream changed a symbol that the base had."""
    before, after = (Symbol(path, symbol.qualname) for path in ground.from_fork(symbol.path))
    return _differs(before, after, ground.base, ground.target)


def _differs(before: Symbol, after: Symbol, base: Tree, target: Tree) -> bool:
    old = _code(base, before)
    return old is not None and old != _code(target, after)


def _code(tree: Tree, symbol: Symbol) -> tuple[str, ...] | None:
    found = tree.code(symbol.path, symbol.qualname)
    try:
        return tuple(found[1].lines) if found else None
    except RecursionError:
        return None


def _days(date: str, newest: str | None) -> int | None:
    last, when = moment(newest or ""), moment(date)
    return max((last - when).days, 0) if last and when else None
