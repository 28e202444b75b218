"""Where in the tree own patches, upstream changes, conflicts and findings come together."""

from __future__ import annotations

from collections.abc import Sequence

from auditor.drift.facts import Area, Fix, OwnPatch
from auditor.model import Finding
from auditor.repo.changes import area_of
from auditor.repo.snapshot import PACKAGE, Snapshot


def area_at(fork: Snapshot, path: str) -> str:
    """The area of a path from the root: of the package as everywhere, else the top folder."""
    folder = fork.folder
    if folder is None:
        return area_of(path)
    if path.startswith(f"{folder}/") or not folder:
        return area_of(PACKAGE + "/" + path[len(folder) :].lstrip("/"))
    return path.partition("/")[0] if "/" in path else "."


def hotspots(
    fork: Snapshot,
    patches: Sequence[OwnPatch],
    both_changed: Sequence[str],
    conflicts: Sequence[str],
    fixes: Sequence[Fix],
    findings: Sequence[Finding],
) -> tuple[Area, ...]:
    """Every area in which there is anything, the fullest first; only active findings count.

    An area that the fork alone works on is no hotspot: its patches break ties only, and what the
    fork took back itself is none.
    """
    found: dict[str, dict[str, list[str]]] = {}

    def put(name: str, kind: str, what: str) -> None:
        found.setdefault(name, {}).setdefault(kind, []).append(what)

    for patch in patches:
        for name in patch.areas if patch.state != "taken-back" else ():
            put(name, "patches", patch.sha or patch.subject)
    for path in both_changed:
        put(area_at(fork, path), "both_changed", path)
    for path in conflicts:
        put(area_at(fork, path), "conflicts", path)
    for fix in fixes:
        if fix.owed:
            for name in sorted({area_at(fork, symbol.path) for symbol in fix.symbols}):
                put(name, "fixes", fix.sha)
    for finding in findings:
        if finding.disposition == "active":
            put(area_at(fork, finding.hit.where.symbol.path), "findings", finding.fingerprint)
    rows = [
        Area(name, **{kind: tuple(what) for kind, what in kinds.items()})
        for name, kinds in found.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-_weight(row), -len(row.patches), row.area)))


def _weight(row: Area) -> int:
    return sum(map(len, (row.both_changed, row.conflicts, row.fixes, row.findings)))
