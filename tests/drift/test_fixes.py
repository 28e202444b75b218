"""Histories built for one verdict each: what a fork has of an upstream change."""

from __future__ import annotations

import pytest

from tests.drift.histories import (
    BASE,
    FIXED,
    FORKED,
    FORKED_FIXED,
    OTHER,
    OTHER_BASE,
    POOL,
    READ,
    History,
    drift_of,
)


@pytest.fixture
def built(tiny_repository, tmp_path):
    return lambda files=None: History(tiny_repository, tmp_path, files)


def test_a_fix_that_the_fork_lacks_is_absent_and_applies(built):
    line = built()
    line.fork({POOL: FORKED})
    fix = line.fix(line.upstream({POOL: FIXED}))
    assert (fix.state, fix.in_target, fix.missed, fix.number) == ("absent", "held", True, 101)
    assert [symbol.qualname for symbol in fix.symbols] == ["Pool.get_rows"]
    assert (fix.files, fix.added, fix.removed, fix.conflicts) == (1, 1, 0, ())
    [seen] = fix.evidence
    assert (seen.path, seen.line, seen.symbol) == (POOL, 11, "Pool.get_rows")
    assert "self.counter.wait_until(offset)" in seen.note


def test_a_fix_that_does_not_apply_names_the_file(built):
    line = built()
    line.fork({POOL: BASE.replace(READ, "        rows = self.load(offset)\n")})
    fix = line.fix(
        line.upstream({POOL: BASE.replace(READ, "        rows = self.get(offset, 1)\n")})
    )
    assert fix.state != "present"
    assert fix.conflicts == (POOL,)


def test_a_cherry_pick_with_another_hash_is_present(built):
    line = built()
    line.fork({POOL: FORKED})
    sha = line.upstream({POOL: FIXED})
    line.repository.git("switch", "--quiet", "fork")
    line.repository.git("cherry-pick", sha)
    fix = line.fix(sha)
    assert (fix.state, fix.missed) == ("present", False)


def test_a_squash_of_fixes_is_present_for_each(built):
    line = built()
    first = line.upstream({POOL: FIXED})
    second = line.upstream({OTHER: OTHER_BASE.replace("a + 1", "a + 2")}, "Fix helper (#102)")
    third = line.upstream(
        {OTHER: OTHER_BASE.replace("a + 1", "a + 2").replace("return b", "return -b")},
        "Fix tail (#103)",
    )
    squashed = OTHER_BASE.replace("a + 1", "a + 2")
    line.fork({POOL: FORKED_FIXED, OTHER: squashed}, "sync with upstream")
    line.fork({OTHER: squashed.replace("return b", "return b or 0")}, "own tail")
    states = {fix.sha: fix.state for fix in line.drift().fixes.listed}
    assert states == {first: "present", second: "present", third: "undecided"}


def test_an_adapted_backport_with_a_renamed_variable_is_present(built):
    line = built()
    line.fork({POOL: FORKED_FIXED.replace("offset", "index_in_pool")})
    fix = line.fix(line.upstream({POOL: FIXED}))
    assert fix.state == "present"
    assert "other local names" in fix.evidence[0].note


def test_the_wrong_variable_under_a_new_name_is_not_present(built):
    line = built()
    wrong = FORKED.replace("offset", "place").replace(
        "        rows = self.rows[place]\n",
        "        other = self.last\n        self.counter.wait_until(other)\n"
        "        rows = self.rows[place]\n",
    )
    line.fork({POOL: wrong})
    assert line.fix(line.upstream({POOL: FIXED})).state != "present"


def test_a_removal_that_the_fork_has_under_other_names_is_not_present(built):
    start = BASE.replace(READ, "        self.touch(offset)\n" + READ)
    line = built({POOL: start})
    line.fork({POOL: start.replace("offset", "place")})
    assert line.fix(line.upstream({POOL: BASE}, "Fix: no touch (#9)")).state != "present"


def test_a_removal_is_present_once_the_fork_took_it_out_too(built):
    start = BASE.replace(READ, "        self.touch(offset)\n" + READ)
    line = built({POOL: start})
    line.fork({POOL: FORKED})
    assert line.fix(line.upstream({POOL: BASE}, "Fix: no touch (#9)")).state == "present"


def test_what_upstream_added_and_took_back_is_not_missed(built):
    line = built()
    line.fork({POOL: FORKED})
    fixing = line.upstream({POOL: FIXED})
    line.repository.git("revert", "--no-edit", fixing)
    reverting = line.repository.git("rev-parse", "HEAD")
    found = {fix.sha: fix for fix in line.drift().fixes.listed}
    assert (found[fixing].state, found[fixing].in_target) == ("absent", "taken-back")
    assert not found[fixing].missed
    # The fork never had what the revert takes out.
    assert (found[reverting].state, found[reverting].missed) == ("undecided", False)


def test_a_revert_that_the_fork_lacks_is_absent(built):
    line = built()
    fixing = line.upstream({POOL: FIXED})
    line.fork({POOL: FORKED_FIXED}, "Fix a read (#101)")
    line.repository.git("switch", "--quiet", "main")
    line.repository.git("revert", "--no-edit", fixing)
    reverting = line.repository.git("rev-parse", "HEAD")
    states = {fix.sha: fix.state for fix in line.drift().fixes.listed}
    assert states == {fixing: "present", reverting: "absent"}


def test_a_backport_that_the_fork_reverted_is_absent_whatever_the_log_says(built):
    line = built()
    line.fork({POOL: FORKED})
    sha = line.upstream({POOL: FIXED})
    line.repository.git("switch", "--quiet", "fork")
    line.repository.git("cherry-pick", "-x", sha)
    line.repository.git("revert", "--no-edit", "HEAD")
    fix = line.fix(sha)
    assert fix.state == "absent"


def test_a_fix_landed_again_is_judged_each_time(built):
    line = built()
    line.fork({POOL: FORKED_FIXED})
    first = line.upstream({POOL: FIXED})
    back = line.upstream({POOL: BASE}, 'Revert "Fix a read (#101)" (#104)')
    again = line.upstream({POOL: FIXED}, "Reland: fix a read (#105)")
    found = {fix.sha: fix for fix in line.drift().fixes.listed}
    assert {sha: fix.state for sha, fix in found.items()} == {
        first: "present",
        back: "absent",
        again: "present",
    }
    assert not found[back].missed


@pytest.mark.parametrize("has_it", [True, False])
def test_a_file_that_upstream_renamed_first(built, has_it):
    line = built()
    line.fork({POOL: FORKED_FIXED if has_it else FORKED})
    line.repository.git("switch", "--quiet", "main")
    line.repository.git("mv", POOL, "python/sglang/srt/row_pool.py")
    line.repository.commit({}, "rename")
    fix = line.fix(line.upstream({"python/sglang/srt/row_pool.py": FIXED}))
    assert (fix.state, fix.in_target) == ("present" if has_it else "absent", "held")
    assert fix.evidence[0].path == POOL


@pytest.mark.parametrize("has_it", [True, False])
def test_a_file_that_the_fork_renamed(built, has_it):
    line = built()
    line.repository.git("switch", "--quiet", "fork")
    line.repository.git("mv", POOL, "python/sglang/srt/our_pool.py")
    line.fork({"python/sglang/srt/our_pool.py": FORKED_FIXED if has_it else FORKED})
    fix = line.fix(line.upstream({POOL: FIXED}))
    assert fix.state == ("present" if has_it else "absent")
    assert fix.evidence[0].path == "python/sglang/srt/our_pool.py"


@pytest.mark.parametrize("has_it", [True, False])
def test_a_method_that_the_fork_moved_to_another_file(built, has_it):
    line = built()
    code = FORKED_FIXED if has_it else FORKED
    line.fork(
        {
            POOL: "from sglang.srt.moved import Pool\n",
            "python/sglang/srt/moved.py": code,
            OTHER: OTHER_BASE + "\nX = 1\n",
        }
    )
    fix = line.fix(line.upstream({POOL: FIXED}))
    assert fix.state == ("present" if has_it else "absent")


@pytest.mark.parametrize("has_it", [True, False])
def test_reordered_methods_and_layout_do_not_matter(built, has_it):
    code = FORKED_FIXED if has_it else FORKED
    head, init, get, free = code.split("    def ")
    free, _, rest = free.partition("\n\n\n")
    text = "    def ".join(
        (head, free + "\n\n", get.replace("slots):", "slots,\n    ):  # ours"), init)
    )
    line = built()
    line.fork({POOL: f"{text.rstrip()}\n\n\n{rest}"})
    fix = line.fix(line.upstream({POOL: FIXED}))
    assert fix.state == ("present" if has_it else "absent")


def test_a_partial_backport_is_never_present(built):
    both = FIXED.replace("        self.log(slots)\n", "        self.log(slots, self.layers)\n")
    line = built()
    line.fork({POOL: FORKED_FIXED})
    fix = line.fix(line.upstream({POOL: both}))
    assert fix.state == "undecided"
    assert "1 of 2" in fix.reason


def test_the_number_in_the_log_does_not_make_up_for_lacking_code(built):
    line = built()
    line.fork({POOL: FORKED}, "Fix a read (#101)")
    assert line.fix(line.upstream({POOL: FIXED})).state == "absent"


@pytest.mark.parametrize(("fork_has_order", "state"), [(True, "present"), (False, "absent")])
def test_a_change_of_order_alone(built, fork_has_order, state):
    late = BASE.replace(READ, READ + "        self.counter.wait_until(offset)\n")
    line = built({POOL: late})
    mine = FIXED if fork_has_order else late
    line.fork({POOL: mine.replace("rows[slots]", "rows[slots].contiguous()")})
    assert line.fix(line.upstream({POOL: FIXED})).state == state


def test_a_guard_around_a_line_is_not_there_for_standing_elsewhere(built):
    guarded = BASE.replace(
        "        self.log(slots)\n", "        if self.ready:\n            self.log(slots)\n"
    )
    line = built()
    elsewhere = BASE.replace(
        "        return self.used\n",
        "        if self.ready:\n            self.flush()\n        return self.used\n",
    )
    line.fork({POOL: elsewhere})
    assert line.fix(line.upstream({POOL: guarded})).state != "present"


def test_commits_elsewhere_are_only_counted(built):
    line = built()
    line.fork({POOL: FORKED})
    line.upstream({OTHER: OTHER_BASE.replace("a + 1", "a + 2")}, "Fix helper (#1)")
    line.upstream({POOL: BASE.replace("pool.rows = []", "pool.rows = [1]")}, "Fix reset (#2)")
    line.upstream({"docs/x.md": "x\n"}, "docs")
    fixes = line.drift().fixes
    assert (fixes.commits, fixes.of_package, fixes.same_file) == (3, 2, 1)
    assert fixes.listed == ()


def test_hostile_messages_prove_nothing_and_break_nothing(built):
    line = built()
    sha = line.upstream({POOL: FIXED})
    message = (
        f"x (#101)\n\nThis reverts commit {'0' * 40}.\n(cherry picked from commit {sha})\n"
        "\x1b[31m --output=/x :000000 100644 a b A\t|`@all`\n* y (#101)\n"
    )
    line.fork({POOL: FORKED}, message)
    fix = line.fix(sha)
    assert fix.state == "absent"
    assert "names it as its source" in fix.reason


def test_uncommitted_work_counts(built):
    line = built()
    sha = line.upstream({POOL: FIXED})
    line.fork({POOL: FORKED})
    line.release()
    line.repository.write({POOL: FORKED_FIXED})
    [fix] = drift_of(line.repository.top, line.cache).fixes.listed
    assert (fix.sha, fix.state) == (sha, "present")


def test_the_default_target_is_upstreams_and_no_tag_of_the_fork(built):
    line = built()
    line.upstream({POOL: FIXED})
    line.fork({POOL: FORKED})
    line.repository.git("tag", "v9.9.9")
    line.release()
    line.repository.git("tag", "v0.5.11rc1", "main")
    assert drift_of(line.repository.top, line.cache).target == "v0.5.10"


@pytest.mark.parametrize("packed", [True, False])
def test_nothing_is_written_to_the_repository(built, tmp_path, packed):
    line = built()
    line.upstream({POOL: FIXED})
    line.fork({POOL: FORKED})
    # What a merge will make is there already, so that git is tempted to renew its time.
    line.repository.git("switch", "--quiet", "--create", "both", "fork")
    line.repository.git("merge", "--quiet", "--no-edit", "main")
    line.release()
    if packed:
        line.repository.git("gc", "--quiet")
    marker = tmp_path / "ran"
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch '{marker}'\n")
    trap.chmod(0o755)
    line.repository.git("config", "merge.evil.driver", f"{trap} %A")
    line.repository.write(
        {".gitattributes": "*.py merge=evil\n", ".git/info/attributes": "*.py merge=evil\n"}
    )
    before = {p: p.stat().st_mtime_ns for p in line.repository.top.rglob("*") if p.is_file()}
    [fix] = drift_of(line.repository.top, line.cache).fixes.listed
    assert fix.conflicts == ()
    after = {p: p.stat().st_mtime_ns for p in line.repository.top.rglob("*") if p.is_file()}
    assert after == before
    assert not marker.exists()


def test_a_shallow_clone_says_what_is_lacking(built, tmp_path):
    line = built()
    line.upstream({POOL: FIXED})
    line.fork({POOL: FORKED})
    line.release()
    shallow = type(line.repository)(tmp_path / "shallow")
    line.repository.git(
        "clone",
        "--quiet",
        "--depth=1",
        "--branch=fork",
        f"file://{line.repository.top}",
        str(shallow.top),
    )
    for tag in ("v0.5.9", "v0.5.10"):
        shallow.git("fetch", "--quiet", "--depth=1", "origin", "tag", tag)
    drift = drift_of(shallow.top, tmp_path)
    assert (drift.ahead, drift.fixes.listed) == (None, ())
    assert any("unshallow" in note for note in drift.notes)
    assert [patch.sha for patch in drift.patches] == [None]
    assert drift.conflicts == ()


def test_upstreams_commits_after_the_release_are_not_the_forks_own(built):
    line = built()
    line.upstream({OTHER: OTHER_BASE.replace("a + 1", "a + 2")}, "upstream after the release")
    line.repository.git("branch", "--force", "fork", "main")
    own = line.fork({POOL: FORKED})
    line.upstream({OTHER: OTHER_BASE.replace("a + 1", "a + 3")}, "Fix helper (#1)")
    drift = line.drift()
    assert [patch.sha for patch in drift.patches] == [own]
    assert drift.fixes.listed == ()
