"""Reads and judges the launches of a run, and says which of them turn a finding on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from auditor.checks import CHECKS
from auditor.deployment.needs import Needs
from auditor.model import (
    Checked,
    Deployment,
    Finding,
    Launch,
    Skipped,
    Symbol,
)
from auditor.repo.scripts import Scripts, Surroundings
from auditor.repo.snapshot import Snapshot
from auditor.rulebook import Rule
from auditor.runs import acceptance
from auditor.triage.suppress import CHECK as SUPPRESSIONS

if TYPE_CHECKING:
    from auditor.deployment.join import Launches
    from auditor.serve.tables.facts import Tables


Read = acceptance.Read
"""A side and its Python files by package-relative path."""


class Served(msgspec.Struct, frozen=True):
    """What reading and judging the launches gave, before any filter; paths are report paths.

    ``given`` are the launches in the terms of their tree, None where there are none.
    """

    findings: tuple[Finding, ...] = ()
    checked: tuple[Checked, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    launches: tuple[Launch, ...] = ()
    undecided: tuple[str, ...] = ()
    note: str = ""
    silent: tuple[str, ...] = ()
    judged: bool = False
    given: Launches | None = None


def read_launches(
    scripts: Scripts,
    rules: Sequence[Rule],
    read: Sequence[Read],
    around: Surroundings,
    cache: Path | None,
    *,
    alone: bool,
    always: bool = False,
) -> Served:
    """The first tree is the one that is started; ``always`` judges it also without a launch."""
    note = ""
    if around.blind and not scripts.paths:
        note = f"no serve scripts were looked for: {around.blind}; name them with --serve"
    if not (always or scripts.paths or (around.names and not around.blind)):
        return Served(note=note)
    # Late: an installed package has no scripts, and this is a third of all that is imported.
    from auditor.serve import judge

    found = judge.find(scripts, around)
    if not (always or found.launches):
        missing = ("no start of a server was found",) if scripts.paths else ()
        silent = tuple(found.silent)
        return Served(skipped=tuple(found.skipped), undecided=missing, note=note, silent=silent)
    trees = judge.read_trees(read, cache, alone=alone)
    mine = [rule for rule in rules if rule.check not in CHECKS and rule.check != SUPPRESSIONS]
    where = judge.places(scripts, found, around)
    findings, checked, unread = judge.judge(mine, found.launches, trees, where)
    notes = judge.unread_tables(trees) if found.launches else ()
    from auditor.deployment.join import Launches

    return Served(
        tuple(findings),
        tuple(checked),
        (*found.skipped, *unread, *notes),
        tuple(found.launches),
        note=note,
        silent=tuple(found.silent),
        judged=True,
        given=Launches.of(found.launches, trees[0].tables.flags, where),
    )


def tables_of(
    snapshot: Snapshot, sources: Mapping[str, bytes], cache: Path | None
) -> tuple[Tables, tuple[Skipped, ...]]:
    """What a tree says of its settings, and what of it could not be read."""
    from auditor.serve import judge

    [tree] = judge.read_trees([(snapshot, sources)], cache, alone=True)
    return tree.placed_tables(), tuple(judge.unread_tables([tree]))


def deployed(
    findings: Sequence[Finding], needs: Sequence[tuple[Symbol, Needs]], served: Served
) -> Iterator[Finding]:
    """The findings with what this deployment makes of each."""
    known = dict(needs)
    for finding in findings:
        found = known.get(finding.hit.where.symbol)
        if found is None:
            yield finding
        else:
            ours = (
                served.given.deployment(found)
                if served.given is not None
                else Deployment("no-launch", found.conditions())
            )
            yield msgspec.structs.replace(finding, deployment=ours)
