from __future__ import annotations

import pytest

from auditor.repo.lineage import version_tags
from auditor.repo.snapshot import Snapshot, open_fork, open_reference
from auditor.repo.upstream import OwnPart, own_count, own_part, upstream_refs

POOL = "python/sglang/srt/pool.py"
PROJECT = '[project.urls]\n"Homepage" = "https://git.example.org/maker/sglang"\n'


@pytest.fixture
def repository(tiny_repository):
    """Releases on branches of their own, cut from main: v0.5.10 and v0.5.11; HEAD is main."""
    repository = tiny_repository({POOL: "a = 1\n", "python/pyproject.toml": PROJECT})
    for number in (10, 11):
        repository.commit({POOL: f"a = {number}\n"}, f"main before {number}")
        repository.git("switch", "--quiet", "--create", f"release/{number}")
        repository.commit({}, f"release {number}", f"v0.5.{number}")
        repository.git("switch", "--quiet", "main")
    return repository


def refs(repository, upstream: str | None = None, rev: str | None = None) -> set[str]:
    fork = open_fork(repository.top, rev)
    theirs = open_reference(upstream, "upstream", fork, repository.top) if upstream else None
    return set(upstream_refs(fork, theirs))


def own(repository, upstream: str, rev: str | None = None) -> int:
    fork = open_fork(repository.top, rev)
    theirs = open_reference(upstream, "upstream", fork, repository.top)
    assert fork.repository is not None
    assert fork.commit is not None
    return own_count(fork.repository, fork.commit, upstream_refs(fork, theirs))


def test_what_another_release_holds_is_no_commit_of_the_forks_own(repository):
    repository.commit({POOL: "a = 99\n"}, "own")
    # Against v0.5.9 alone both commits of main would be the fork's too.
    assert own(repository, "v0.5.9") == 1
    assert own(repository, "v0.5.9", "v0.5.10") == 0


def part(repository, rev: str | None = None) -> OwnPart:
    fork = open_fork(repository.top, rev)
    assert fork.repository is not None
    assert fork.commit is not None
    return own_part(fork.repository, fork.commit, upstream_refs(fork))


def test_all_of_it_is_upstreams(repository):
    assert part(repository, "v0.5.10") == OwnPart(0, repository.git("rev-parse", "v0.5.10"))


@pytest.mark.parametrize("tags", [("v0.5.10", "v0.5.11"), ("v0.5.11", "v0.5.10")])
def test_of_two_lines_of_upstreams_the_later_is_where_its_code_ends(repository, tags):
    commit = (
        f"tree {repository.git('rev-parse', 'v0.5.11^{tree}')}\n"
        f"parent {repository.git('rev-parse', 'v0.5.11^{commit}')}\n"
        "author a <a@example.org> 4000000000 +0000\n"
        "committer a <a@example.org> 4000000000 +0000\n\nlater\n"
    )
    later = repository.git("hash-object", "-t", "commit", "-w", "--stdin", text=commit)
    repository.git("tag", "--force", "v0.5.11", later)
    repository.git("switch", "--quiet", "--create", "deploy", "v0.5.9")
    repository.commit({"own.txt": "o\n"}, "own")
    for tag in tags:
        repository.git("merge", "--quiet", "--no-edit", "-X", "theirs", tag)
    assert part(repository) == OwnPart(1, later)


def test_merges_are_no_commits_of_the_forks_own(repository):
    repository.commit({"own.txt": "o\n"}, "own")
    repository.git("merge", "--quiet", "--no-edit", "v0.5.11")
    assert own(repository, "v0.5.9") == 1


def test_other_families_of_tags_are_not_upstreams(repository):
    for name in ("mylab-v1.0", "sgl-kernel/v0.5.12", "v0.5.11-mylab", "v0.5.11.1", "0.0.11"):
        repository.git("tag", name)
    fork = open_fork(repository.top)
    assert set(version_tags(fork.repository)) == {"v0.5.9", "v0.5.10", "v0.5.11"}


def test_tag_of_the_forks_own_on_top_of_the_given_upstream(repository):
    repository.git("switch", "--quiet", "--create", "deploy", "v0.5.10")
    repository.commit({}, "own one", "v0.5.10.post1")
    repository.commit({}, "own two")
    assert "refs/tags/v0.5.10.post1" not in refs(repository, "v0.5.10")
    assert own(repository, "v0.5.10") == 2
    assert own(repository, "v0.5.10", "v0.5.10.post1") == 1
    # The same where upstream is given as the release of the index that has this tag.
    fork = open_fork(repository.top)
    files = Snapshot.from_sources({"sglang/a.py": ""}).files
    release = Snapshot("upstream", "pypi:0.5.10", "release", files)
    assert "refs/tags/v0.5.10.post1" not in upstream_refs(fork, release)
    # As the base of a fork that is held against another release it is taken for upstream's.
    assert "refs/tags/v0.5.10.post1" in refs(repository, "v0.5.9", "deploy~2")
    # A release that holds it shows that it is upstream's.
    repository.git("switch", "--quiet", "--create", "next", "v0.5.10.post1")
    repository.commit({}, "release", "v0.5.12")
    assert own(repository, "v0.5.10", "deploy") == 1


def test_upstream_older_than_the_base_leaves_the_base_to_upstream(repository):
    repository.git("switch", "--quiet", "--create", "deploy", "v0.5.11")
    repository.commit({}, "own")
    assert own(repository, "v0.5.10") == 1


def test_branches_of_upstreams_remote_count(repository):
    repository.git("update-ref", "refs/remotes/upstream/main", "main")
    repository.git("update-ref", "refs/remotes/origin/main", "main")
    repository.git("update-ref", "refs/heads/upstream/main", "main")
    assert not any("main" in name for name in refs(repository))
    repository.git("config", "remote.upstream.url", "/srv/sglang")
    repository.git("config", "remote.origin.url", "https://git.example.org/team/sglang")
    assert {name for name in refs(repository) if "main" in name} == {"refs/remotes/upstream/main"}


@pytest.mark.parametrize(
    ("url", "counts"),
    [
        ("git@git.example.org:maker/sglang.git", True),
        ("https://user:secret@git.example.org/Maker/sglang/", True),
        ("https://git.example.org/maker/sglang-kernels", False),
        ("https://git.example.org/team/sglang", False),
    ],
)
def test_remote_of_the_address_that_upstreams_project_names_counts(repository, url, counts):
    repository.git("config", "remote.origin.url", url)
    own_project = PROJECT.replace("maker", "team")
    repository.commit({"python/pyproject.toml": own_project}, "own address")
    repository.git("update-ref", "refs/remotes/origin/main", "main")
    assert ("refs/remotes/origin/main" in refs(repository, "v0.5.9")) is counts


def test_head_that_is_upstreams_main_has_no_commits_of_its_own(repository):
    repository.commit({POOL: "a = 12\n"}, "after the newest release")
    assert own(repository, "v0.5.9") == 1
    repository.git("config", "remote.upstream.url", "/srv/sglang")
    repository.git("update-ref", "refs/remotes/upstream/main", "main")
    assert own(repository, "v0.5.9") == 0


def test_tags_of_anything_but_commits_are_passed_over(repository):
    blob = repository.git("rev-parse", f"main:{POOL}")
    repository.git("tag", "v0.5.12", blob)
    repository.git("tag", "-a", "-m", "x", "v0.5.13", "main")
    repository.git("tag", "-a", "-m", "x", "v0.5.14", "v0.5.13")
    main = repository.git("rev-parse", "main")
    fork = open_fork(repository.top)
    found = upstream_refs(fork)
    assert "refs/tags/v0.5.12" not in found
    assert found["refs/tags/v0.5.13"] == found["refs/tags/v0.5.14"] == main


def test_plain_folder_has_none(tmp_path):
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang/a.py").write_text("")
    assert upstream_refs(open_fork(tmp_path)) == {}
