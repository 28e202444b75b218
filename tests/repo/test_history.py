from __future__ import annotations

import pytest

from auditor.repo import history as history_module
from auditor.repo.history import history, moment, newest_release
from auditor.repo.snapshot import Snapshot, open_fork, open_reference

POOL = "python/sglang/srt/mem_cache/pool.py"


@pytest.fixture
def repository(tiny_repository):
    """Upstream: v0.5.9, one more commit, v0.5.10. The fork branched between the two."""
    repository = tiny_repository({POOL: "a = 1\n", "docs/a.md": "a\n"})
    repository.commit({"python/sglang/srt/later.py": "l = 1\n"}, "upstream's later commit")
    repository.git("branch", "fork")
    repository.commit({POOL: "a = 2\n"}, "release", "v0.5.10")
    repository.git("switch", "--quiet", "fork")
    repository.commit({POOL: "a = 3\n", "docs/a.md": "b\n"}, "own: pool\tand docs")
    repository.commit({}, "empty")
    repository.commit({"README.md": "r\n", "python/sglang/x\ny.py": "x = 1\n"}, "own: top")
    return repository


def test_merge_base_counts_and_own_commits_with_areas(repository, tmp_path):
    fork = open_fork(repository.top)
    past = history(fork, open_reference("v0.5.10", "upstream", fork, tmp_path))
    assert past.merge_base == repository.git("merge-base", "fork", "v0.5.10")
    assert (past.ahead, past.behind, past.note) == (3, 1, "")
    assert past.commits is not None
    assert [(commit.subject, commit.areas) for commit in past.commits] == [
        ("own: top", (".",)),
        ("empty", ()),
        ("own: pool\tand docs", ("docs", "srt/mem_cache")),
    ]
    assert past.commits[0].sha == repository.git("rev-parse", "fork")
    assert past.commits[0].date[4] == "-"


def test_long_list_is_cut_and_says_the_total(repository, tmp_path, monkeypatch):
    monkeypatch.setattr(history_module, "MAX_COMMITS", 2)
    fork = open_fork(repository.top)
    past = history(fork, open_reference("v0.5.10", "upstream", fork, tmp_path))
    assert past.commits is not None
    assert [commit.subject for commit in past.commits] == ["own: top", "empty"]
    assert past.own == 3
    assert past.note == "the newest 2 of 3 own commits are listed"


def test_shallow_clone_says_so(repository, tmp_path):
    repository.git("tag", "v0.5.9.post1", "HEAD~1")
    shallow = type(repository)(tmp_path / "shallow")
    repository.git("clone", "--quiet", "--depth=2", f"file://{repository.top}", str(shallow.top))
    shallow.git("fetch", "--quiet", "--depth=1", "origin", "tag", "v0.5.10")
    fork = open_fork(shallow.top)
    past = history(fork, open_reference("v0.5.10", "upstream", fork, tmp_path))
    assert past.commits is None
    assert "git fetch --unshallow" in past.note
    assert "no common history with v0.5.10" in past.note


def test_squashed_copy_has_no_common_history(repository, tmp_path):
    repository.git("switch", "--quiet", "--orphan", "squashed")
    repository.commit({POOL: "a = 9\n"}, "import")
    fork = open_fork(repository.top)
    past = history(fork, open_reference("v0.5.9", "upstream", fork, tmp_path))
    assert (past.merge_base, past.commits, past.ahead) == (None, None, None)
    assert past.note == "no common history with v0.5.9"


def test_folders_have_no_history(repository, tmp_path):
    (tmp_path / "up/sglang").mkdir(parents=True)
    (tmp_path / "up/sglang/a.py").write_text("")
    fork = open_fork(repository.top)
    folder = open_reference(str(tmp_path / "up"), "upstream", fork, tmp_path)
    assert history(fork, folder).note == "upstream is a folder without shared history"
    plain = open_fork(tmp_path / "up")
    assert history(plain, folder).note == "the fork is a plain folder without history"


def release(version: str) -> Snapshot:
    files = Snapshot.from_sources({"sglang/a.py": ""}).files
    return Snapshot("upstream", f"pypi:{version}", "release", files)


def test_release_takes_the_history_of_its_tag(repository):
    fork = open_fork(repository.top)
    past = history(fork, release("0.5.10"))
    assert (past.ahead, past.behind) == (3, 1)
    assert past.note == "history is that of the tag v0.5.10"
    assert history(fork, release("sglang==0.5.9")).ahead == 4
    assert history(fork, release("0.4.0")).merge_base is None


def test_own_commits_are_those_that_no_release_has(repository, tmp_path):
    """As drift counts them: what a later release or a target has is upstream's."""
    repository.git("merge", "--quiet", "-X", "ours", "v0.5.10")
    fork = open_fork(repository.top)
    past = history(fork, open_reference("v0.5.9", "upstream", fork, tmp_path))
    # Three of its own, a merge, and two of upstream's.
    assert (past.own, past.ahead) == (3, 6)
    assert past.commits is not None
    assert len(past.commits) == 3
    assert past.refs == {
        "refs/tags/v0.5.9": repository.git("rev-parse", "v0.5.9"),
        "refs/tags/v0.5.10": repository.git("rev-parse", "v0.5.10"),
        "v0.5.9": repository.git("rev-parse", "v0.5.9"),
    }
    repository.git("tag", "--delete", "v0.5.10")
    fork = open_fork(repository.top)
    upstream = open_reference("v0.5.9", "upstream", fork, tmp_path)
    assert history(fork, upstream).own == 5
    target = open_reference("main", "target", fork, tmp_path)
    assert history(fork, upstream, [target]).own == 3


def test_newest_release_is_of_upstreams_family(repository, tmp_path):
    repository.git("tag", "9.9.9")
    repository.git("tag", "gateway-v9.9.9")
    repository.git("tag", "v0.5.11rc1", "main")
    fork = open_fork(repository.top)
    assert newest_release(fork, open_reference("v0.5.9", "upstream", fork, tmp_path)) == "v0.5.10"
    repository.git("tag", "v0.5.8", "v0.5.9")
    assert newest_release(fork, release("0.5.8")) == "v0.5.10"
    assert newest_release(fork, release("0.5.11")) is None


@pytest.mark.parametrize("date", ["2026-08-22T10:07:15Z", "2026-08-22T12:07:15+02:00"])
def test_dates_of_commits_are_moments(date):
    when = moment(date)
    assert when is not None
    assert when.timestamp() == 1_787_393_235


@pytest.mark.parametrize("date", ["", "99999-01-01T00:00:00Z", "yesterday"])
def test_what_is_no_date_is_none(date):
    assert moment(date) is None
