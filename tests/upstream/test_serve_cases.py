"""Known wrong settings are reported by the right rule on the right line, right ones are not.

The releases are those of wheels that are downloaded once; without them these tests are skipped.
"""

from __future__ import annotations

import functools

import pytest

from auditor.model import Finding
from auditor.repo.snapshot import Snapshot
from auditor.rulebook import load
from auditor.serve import judge
from auditor.serve.scripts.find import find_in_tree
from auditor.serve.scripts.places import Places
from tests.benchmarks.releases import Unavailable, release
from tests.upstream.serve_cases import CASES, SILENT, Case

pytestmark = pytest.mark.upstream

RULES = [rule for rule in load().rules if rule.category == "serve"]


@functools.cache
def sources(version: str) -> dict[str, bytes]:
    try:
        tree = release(version)
    except Unavailable as problem:
        pytest.skip(f"no released wheel and no network: {problem}")
    return {p.relative_to(tree).as_posix(): p.read_bytes() for p in tree.rglob("*.py")}


@functools.cache
def tree(version: str, overlay: tuple[tuple[str, str, str], ...] = ()) -> judge.Tree:
    files = dict(sources(version))
    for path, old, new in overlay:
        assert old.encode() in files[path]
        files[path] = files[path].replace(old.encode(), new.encode())
    snapshot = Snapshot.from_sources({"sglang/version.py": ""})
    [made] = judge.read_trees([(snapshot, files)], None, alone=True)
    return made


def judged(
    held: judge.Tree, script: str, files: dict[str, str], name: str = "serve.sh"
) -> list[Finding]:
    given = {path: text.encode() for path, text in {**files, name: script}.items()}
    found = find_in_tree(tuple(given), given.get, lambda path, data: False)
    assert not found.skipped

    def read(path: str) -> bytes | None:
        return given.get(path) or held.sources.get(path)

    places = Places((), read, names=tuple(given))
    findings, _, unread = judge.judge(RULES, found.launches, [held], places)
    assert not unread
    return findings


def loud(findings: list[Finding]) -> list[tuple[str, str, int]]:
    return [
        (f.rule, f.hit.message, f.hit.where.line)
        for f in findings
        if f.severity in ("critical", "high", "medium") and f.hit.confidence != "low"
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.number}-{case.release}")
def test_a_wrong_setting_is_reported_where_it_stands(case: Case) -> None:
    overlay = tuple((path, *texts) for path, texts in case.overlay.items())
    findings = judged(tree(case.release, overlay), case.script, case.files, case.name)
    told = {(f.rule, f.hit.where.line) for f in findings if f.hit.where.symbol.path == case.name}
    assert set(case.wanted) <= told
    # A tree that disagrees with itself is told in its own files.
    wrong = {f.rule for f in findings if f.hit.where.symbol.path.startswith("sglang/")}
    assert wrong == ({"parser-choices-differ"} if case.overlay else set())


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.right], ids=lambda case: f"{case.number}-{case.release}"
)
def test_the_right_setting_is_silent(case: Case) -> None:
    held = tree(case.right_release or case.release)
    assert loud(judged(held, case.right, case.right_files or case.files, case.name)) == []


@pytest.mark.parametrize(("version", "script"), SILENT)
def test_names_and_versions_alone_are_no_evidence(version: str, script: str) -> None:
    assert loud(judged(tree(version), script, {})) == []
