"""What the ledger says of the fork's own patches, with and without history."""

from __future__ import annotations

import re

import pytest

from auditor.drift.survey import Compared, survey
from auditor.model import Evidence, Finding, Hit, Location, Side, Symbol
from auditor.repo.changes import compare
from auditor.repo.history import history
from auditor.repo.snapshot import open_fork, open_reference
from tests.drift.histories import (
    BASE,
    FIXED,
    FORKED,
    OTHER,
    OTHER_BASE,
    POOL,
    READ,
    History,
    drift_of,
)


@pytest.fixture
def line(tiny_repository, tmp_path):
    return History(tiny_repository, tmp_path)


SIDES: tuple[tuple[str, Side], ...] = (("up", "upstream"), ("new", "target"))


def finding(origin, fixed_in=None):
    where = Location(Symbol(POOL, "Pool.get_rows"), 12)
    hit = Hit(where, "rows", "m", (Evidence(POOL, 1, "", "n"),), "high", "live", "", "f", "c")
    return Finding("r", "sync", "high", hit, "abc123", origin, "", fixed_in)


def dated(line, commit, folder, seconds):
    """A copy of a commit with another committer's date."""
    raw = folder / "commit"
    text = line.repository.git("cat-file", "commit", commit)
    raw.write_text(re.sub(r"(committer .*> )\d+", rf"\g<1>{seconds}", text) + "\n")
    return line.repository.git("hash-object", "-t", "commit", "-w", str(raw))


def test_each_patch_with_its_state_symbols_age_and_size(line):
    line.upstream({POOL: FIXED})
    taken = line.fork({POOL: FIXED}, "ours first")
    own = line.fork({OTHER: OTHER_BASE.replace("a + 1", "a + 2")}, "only ours")
    docs = line.fork({"docs/a.md": "a\n"}, "docs")
    found = {patch.sha: patch for patch in line.drift().patches}
    assert list(found) == [docs, own, taken]
    assert {sha: patch.state for sha, patch in found.items()} == {
        docs: "unknown",
        own: "own",
        taken: "upstream",
    }
    assert [s.qualname for s in found[taken].symbols] == ["Pool.get_rows"]
    assert found[taken].upstream_since == found[taken].symbols
    assert (found[own].symbols, found[own].upstream_since) == ((Symbol(OTHER, "helper"),), ())
    assert (found[own].files, found[own].added, found[own].removed) == (1, 1, 1)
    assert (found[own].areas, found[docs].areas) == (("srt",), ("docs",))


def states(drift):
    return {patch.sha: patch.state for patch in drift.patches}


ADDED = OTHER_BASE.replace("a + 1", "a + 2")


@pytest.mark.parametrize(
    "message", ["Back out\n\nThis reverts commit {}.", 'Revert "Add two" (#9)', 'Revert "Add two"']
)
def test_a_patch_and_its_own_revert_do_not_stand(line, message):
    own = line.fork({OTHER: ADDED}, "Add two")
    later = line.fork({OTHER: f"{ADDED}\n\nLAST = 1\n"}, "another in the same file")
    back = line.fork({OTHER: f"{OTHER_BASE}\n\nLAST = 1\n"}, message.format(own))
    line.upstream({OTHER: OTHER_BASE.replace("a + 1", "a + 3")})
    drift = line.drift()
    assert states(drift) == {back: "taken-back", later: "own", own: "taken-back"}
    reasons = {patch.sha: patch.reason for patch in drift.patches}
    assert reasons[own] == f"{back[:10]} takes it back"
    assert reasons[back] == f"it takes {own[:10]} back"
    [row] = [patch for patch in drift.patches if patch.sha == own]
    assert (row.upstream_since, row.conflicts, row.findings) == ((), (), ())
    assert [area.patches for area in drift.areas] == [(later,)]


def test_what_was_taken_back_and_put_in_again_stands(line):
    own = line.fork({OTHER: ADDED}, "Add two")
    back = line.fork({OTHER: OTHER_BASE}, f'Revert "Add two"\n\nThis reverts commit {own}.')
    again = line.fork({OTHER: ADDED}, f'Reapply "Add two"\n\nThis reverts commit {back}.')
    line.upstream({POOL: FIXED})
    assert states(line.drift()) == {again: "taken-back", back: "taken-back", own: "own"}


@pytest.mark.parametrize(
    "files",
    [
        {OTHER: OTHER_BASE.replace("a + 1", "a + 4")},
        {OTHER: OTHER_BASE, POOL: FORKED},
        {POOL: BASE.replace("size = 1", "size = 2")},
    ],
)
def test_a_revert_that_takes_out_something_else_stands_beside_its_patch(line, files):
    own = line.fork({OTHER: ADDED}, "Add two")
    back = line.fork(files, f'Revert "Add two"\n\nThis reverts commit {own}.')
    line.upstream({POOL: FIXED})
    found = states(line.drift())
    assert found[own] == "own"
    assert found[back] != "taken-back"


def test_a_revert_of_upstreams_own_is_a_patch(line):
    base = line.repository.git("rev-parse", "fork")
    back = line.fork({OTHER: ADDED}, f"This reverts commit {base}.")
    line.upstream({POOL: FIXED})
    assert states(line.drift()) == {back: "own"}


def test_ages_count_from_the_newest_commit_of_the_sides(line, tmp_path):
    day = 86_400
    old = dated(line, line.fork({POOL: FORKED}), tmp_path, 1_700_000_000)
    line.repository.git("reset", "--quiet", "--hard", old)
    new = dated(line, line.fork({OTHER: OTHER_BASE + "\n"}), tmp_path, 1_700_000_000 + 3 * day)
    line.repository.git("reset", "--quiet", "--hard", new)
    drift = line.drift()
    # The newest of all is upstream's, made just now.
    newest = int(line.repository.git("log", "-1", "--format=%ct", "main"))
    since = (newest - 1_700_000_000) // day
    assert {p.sha: p.age for p in drift.patches} == {new: since - 3, old: since}


def test_a_patch_that_will_conflict_names_the_file_and_a_later_one_does_not(line):
    first = line.fork({POOL: BASE.replace(READ, "        rows = self.load(offset)\n")})
    second = line.fork({OTHER: OTHER_BASE.replace("a + 1", "a + 2")})
    line.upstream({POOL: BASE.replace(READ, "        rows = self.get(offset, 1)\n")})
    drift = line.drift()
    assert (drift.both_changed, drift.conflicts) == ((POOL,), (POOL,))
    assert {p.sha: p.conflicts for p in drift.patches} == {first: (POOL,), second: ()}


def test_a_release_branch_that_the_target_does_not_hold_is_told(line):
    # v0.5.9 is on a branch of its own: main never had its last change, and the fork starts there.
    git = line.repository.git
    git("switch", "--quiet", "fork")
    released = line.repository.commit({OTHER: OTHER_BASE.replace("a + 1", "a + 9")}, "release only")
    git("tag", "--force", "v0.5.9", released)
    own = line.fork({POOL: FORKED})
    start = git("rev-parse", "main")
    line.upstream({OTHER: OTHER_BASE.replace("a + 1", "a + 3")})
    drift = line.drift()
    assert [patch.sha for patch in drift.patches] == [own]
    assert drift.conflicts == ()
    told = "v0.5.10 does not hold v0.5.9: conflicts are those of git rebase --onto v0.5.10 v0.5.9"
    assert drift.notes == (f"{told}; git merge begins at {start[:10]} (files in conflict: 1)",)


def test_findings_belong_to_the_patch_of_their_symbol(line):
    own = line.fork({POOL: FORKED})
    other = line.fork({OTHER: OTHER_BASE.replace("a + 1", "a + 2")})
    line.upstream({POOL: FIXED})
    line.release()
    drift = drift_of(line.repository.top, line.cache, findings=[finding("introduced")])
    assert {p.sha: p.findings for p in drift.patches} == {own: ("abc123",), other: ()}
    inherited = drift_of(line.repository.top, line.cache, findings=[finding("inherited")])
    assert {p.findings for p in inherited.patches} == {()}


def test_a_finding_draws_the_fix_of_a_symbol_that_the_fork_did_not_touch(line):
    sha = line.upstream({POOL: FIXED}, "Refactor (#7)")
    line.fork({OTHER: OTHER_BASE.replace("a + 1", "a + 2")})
    assert line.drift().fixes.listed == ()
    found = [finding("fixed-upstream", "v0.5.10")]
    [fix] = drift_of(line.repository.top, line.cache, findings=found).fixes.listed
    assert (fix.sha, fix.state, fix.findings) == (sha, "absent", ("abc123",))


def test_without_history_a_row_for_each_area(tmp_path):
    trees = {"fork": FORKED, "up": BASE, "new": FIXED.replace("        return self.used\n", "")}
    for name, code in trees.items():
        (tmp_path / name / "sglang/srt").mkdir(parents=True)
        (tmp_path / name / "sglang/srt/pool.py").write_text(code)
    fork = open_fork(tmp_path / "fork")
    up, new = (open_reference(str(tmp_path / name), side, fork, tmp_path) for name, side in SIDES)
    sides = Compared(fork, up, up, new, compare(fork, up), history(fork, up))
    drift = survey(sides, [])
    assert (drift.ahead, drift.behind, drift.newest) == (None, None, None)
    assert "plain folder" in drift.notes[0]
    [patch] = drift.patches
    place = Symbol("sglang/srt/pool.py", "Pool.get_rows")
    assert (patch.sha, patch.age, patch.areas) == (None, None, ("srt",))
    assert (patch.symbols, patch.upstream_since, patch.state) == ((place,), (place,), "own")
    assert drift.both_changed == ("sglang/srt/pool.py",)
    assert drift.conflicts == ()


def test_patches_are_those_that_the_audit_counts_as_its_own(line):
    """What only another reference of upstream's holds is no patch, in either report."""
    line.fork({POOL: FORKED}, "own one")
    line.repository.git("switch", "--quiet", "main")
    line.upstream({OTHER: OTHER_BASE + "\n\nX = 1\n"}, "upstream after the release")
    line.repository.git("switch", "--quiet", "--create", "later", "main")
    line.repository.commit({}, "another release", "v0.5.11")
    line.release()
    line.repository.git("merge", "--quiet", "--no-edit", "v0.5.11")
    line.fork({OTHER: OTHER_BASE + "\n\nX = 2\n"}, "own two")
    fork = open_fork(line.repository.top)
    past = history(fork, open_reference("v0.5.9", "upstream", fork, line.cache))
    assert past.commits is not None
    patches = drift_of(line.repository.top, line.cache).patches
    assert {patch.sha for patch in patches} == {commit.sha for commit in past.commits}
    assert past.own == len(patches) == 2


def test_a_list_that_is_cut_says_of_how_many(line, monkeypatch):
    for module in ("ledger", "survey"):
        monkeypatch.setattr(f"auditor.drift.{module}.MAX_PATCHES", 2)
    for number in range(3):
        line.fork({POOL: FORKED + f"\nX = {number}\n"}, f"own {number}")
        assert ("the newest 2 of 3 own patches are listed" in line.drift().notes) is (number == 2)
        line.repository.git("tag", "--delete", "v0.5.10")
