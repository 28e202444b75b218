"""Holds the launches of a run against the trees that they start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from auditor.background import Background
from auditor.errors import UsageProblem
from auditor.model import Checked, Finding, Hit, Launch, Side, Skipped
from auditor.repo.scripts import Scripts, Surroundings
from auditor.repo.snapshot import Snapshot
from auditor.rulebook import Rule
from auditor.serve.checks import renderings
from auditor.serve.checks.seen import OtherTree, ServeView
from auditor.serve.checks.table import SERVE_CHECKS
from auditor.serve.scripts.find import NO_SUCH, Found, find_in_tree, find_named
from auditor.serve.scripts.places import Places
from auditor.serve.tables.facts import Tables
from auditor.serve.tables.read import read_tables
from auditor.source.results import ResultStore, content_key
from auditor.source.scout import deployed
from auditor.triage.findings import Blame, triage

Sources = Mapping[str, bytes]


@dataclass(frozen=True)
class Tree:
    """One side: its Python files by package-relative path, and what these say of settings."""

    snapshot: Snapshot
    sources: Sources
    tables: Tables

    @property
    def side(self) -> Side:
        """The role of the tree."""
        return self.snapshot.side

    def report_path(self, path: str) -> str:
        """A path of the tree as a report names it; any other stays as it is."""
        return self.snapshot.report_path(path) if path in self.sources else path

    def placed_tables(self) -> Tables:
        """The tables with paths as a report names them."""
        placed: Tables = msgspec.convert(
            _placed(msgspec.to_builtins(self.tables), self.report_path), Tables
        )
        return placed


def read_trees(
    read: Sequence[tuple[Snapshot, Sources]], cache: Path | None, *, alone: bool
) -> list[Tree]:
    """The sides with their tables, each read once for each content; ``alone`` in one process."""

    def tables(sources: Sources) -> Tables:
        results = ResultStore(cache, Tables)
        key = content_key(["tables"], [sources])
        known = results.load(key)
        if known is None:
            known = read_tables(tuple(sources), sources.get)
            results.save(key, known)
        return known

    rest = Background(
        lambda: [tables(sources) for _, sources in read[1:]], alone=alone or len(read) < 2
    )
    known = [tables(sources) for _, sources in read[:1]] + rest.result()
    rows = zip(read, known, strict=True)
    return [Tree(snapshot, sources, found) for (snapshot, sources), found in rows]


def _placed(value: Any, report_path: Callable[[str], str]) -> Any:
    if isinstance(value, list | tuple):
        return [_placed(item, report_path) for item in value]
    if isinstance(value, dict):
        return {
            key: report_path(item)
            if key in ("path", "class_path") and isinstance(item, str)
            else _placed(item, report_path)
            for key, item in value.items()
        }
    return value


def find(scripts: Scripts, around: Surroundings) -> Found:
    """The launches of the scripts that were named, or else of the fork's own, if these are known.

    A tree's tests and benchmarks start servers that are never deployed. Raises UsageProblem for a
    path where nothing is.
    """
    if scripts.paths:
        also = (around.root,) if around.root is not None else ()
        found = find_named(scripts.paths, scripts.base, also, scripts.instead)
        missing = [skipped.path for skipped in found.skipped if skipped.reason == NO_SUCH]
        if missing:
            raise UsageProblem(f"{', '.join(missing)}: {NO_SUCH}")
        return found
    if around.blind:
        return Found()
    names = [name for name in around.names if deployed(name)]
    return find_in_tree(names, around.read, around.is_upstream)


def places(scripts: Scripts, found: Found, around: Surroundings) -> Places:
    """Where the files of these launches may be looked for."""
    roots = [around.root] if around.root is not None else []
    for path in scripts.paths:
        named = scripts.base / path
        roots.append(named if named.is_dir() else named.parent)
    named_by_user = scripts.paths and scripts.trusted
    outside = frozenset(launch.path for launch in found.launches) if named_by_user else frozenset()
    return Places(tuple(dict.fromkeys(roots)), around.read, outside, around.names)


def judge(
    rules: Sequence[Rule], launches: Sequence[Launch], trees: Sequence[Tree], where: Places
) -> tuple[list[Finding], list[Checked], tuple[Skipped, ...]]:
    """What is wrong with the launches, how many settings of each are in order, what was unreadable.

    The first tree is the one that they start.
    """
    fork, *others = trees
    compared = tuple(OtherTree(t.side, t.snapshot.ref, t.tables) for t in others)
    view = ServeView(tuple(launches), fork.tables, compared, where)
    hits = [(r, hit) for r in rules for hit in SERVE_CHECKS[r.check].judge(r.params, view)]
    origins = _Origins(hits, view, fork)
    unread = renderings.skipped(view)
    view.templates.close()
    by_side = {tree.side: tree for tree in reversed(trees)}

    def report_path(side: Side, path: str) -> str:
        return by_side[side].report_path(path) if side in by_side else path

    findings = triage([(rule, hit, origins(rule, hit)) for rule, hit in hits], report_path)
    return findings, list(_checked(launches, [hit for _, hit in hits])), unread


class _Origins:
    """Where a serve finding came from: the same launch is held against every other tree.

    A script is the deployment's own, so that its faults are introduced, unless upstream takes what
    the fork refuses. What is wrong within the tree itself may be upstream's.
    """

    def __init__(self, hits: Sequence[tuple[Rule, Hit]], view: ServeView, fork: Tree) -> None:
        self.fork = fork
        self.has: list[tuple[OtherTree, set[tuple[str, str, str]]]] = []
        rules = {rule.id: rule for rule, _ in hits}
        for other in view.others:
            theirs = ServeView(view.launches, other.tables, (), view.places, view.templates)
            self.has.append(
                (
                    other,
                    {
                        (rule.id, hit.where.symbol.path, hit.anchor)
                        for rule in rules.values()
                        for hit in SERVE_CHECKS[rule.check].judge(rule.params, theirs)
                    },
                )
            )

    def __call__(self, rule: Rule, hit: Hit) -> Blame:
        path = hit.where.symbol.path
        key = (rule.id, path, hit.anchor)
        upstreams = [(o, key in found) for o, found in self.has if o.side != "target"]
        fixed_in = next((o.ref for o, f in self.has if o.side == "target" and key not in f), None)
        defect = next((other for other, has in upstreams if has), None)
        if path in self.fork.sources:
            if defect is not None and fixed_in is not None:
                told = f"{defect.ref} has it, {fixed_in} does not"
                return Blame("fixed-upstream", told, fixed_in)
            if defect is not None:
                return Blame("inherited", f"{defect.ref} has it too")
            told = _without(upstreams, "the tree disagrees with itself")
            return Blame("introduced", told, fixed_in)
        if upstreams and defect is None:
            ref = upstreams[0][0].ref
            return Blame("regressed", f"with {ref} the same setting is in order", fixed_in)
        also = f"; with {defect.ref} it is wrong as well" if defect is not None else ""
        return Blame("introduced", f"a setting of the deployment's own script{also}", fixed_in)


def _without(upstreams: Sequence[tuple[OtherTree, bool]], else_: str) -> str:
    names = " and ".join(other.ref for other, _ in upstreams)
    return f"not so in {names}" if names else else_


def _checked(launches: Sequence[Launch], hits: Sequence[Hit]) -> Iterator[Checked]:
    wrong = {(hit.where.symbol.path, hit.where.line, hit.where.column) for hit in hits}
    for launch in launches:
        if launch.program != "server":
            continue
        settings = [(a.path, a.line, a.column) for a in launch.arguments]
        settings += [(v.path, v.line, v.column) for v in launch.environment]
        held = sum(place not in wrong for place in settings)
        subject = f"settings of {launch.command}, line {launch.line}"
        yield Checked("serve", subject, held, len(settings), launch.path, "")


def unread_tables(trees: Sequence[Tree]) -> Iterator[Skipped]:
    """What could not be read of the tables, for every tree."""
    for tree in trees:
        for note in tree.tables.notes:
            yield Skipped(tree.side, "", "tables", note)
