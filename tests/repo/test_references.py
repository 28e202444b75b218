from __future__ import annotations

import pytest

from auditor.errors import UsageProblem
from auditor.repo.references import nearest_tags, version_of
from auditor.repo.snapshot import open_fork, open_reference

FILES = {"python/sglang/srt/a.py": "a = 1\n"}


@pytest.fixture
def repository(tiny_repository):
    return tiny_repository(FILES)


def test_tag_commit_and_branch(repository, tmp_path):
    commit = repository.git("rev-parse", "HEAD")
    fork = open_fork(repository.top)
    for ref in ("v0.5.9", commit, commit[:8], "main", "refs/tags/v0.5.9", "HEAD@{0}"):
        upstream = open_reference(ref, "upstream", fork, tmp_path)
        assert (upstream.commit, upstream.kind, upstream.ref) == (commit, "revision", ref)


def test_tag_outranks_a_branch_of_the_same_name_and_says_so(repository, tmp_path):
    tagged = repository.git("rev-parse", "HEAD")
    later = repository.commit({"python/sglang/srt/a.py": "a = 2\n"})
    repository.git("branch", "v0.5.9")
    repository.git("tag", later[:9], tagged)
    fork = open_fork(repository.top)
    for ref in ("v0.5.9", later[:9]):
        upstream = open_reference(ref, "upstream", fork, tmp_path)
        assert upstream.commit == tagged
        assert "the tag is taken" in upstream.note


@pytest.mark.parametrize(
    ("ref", "said"),
    [
        ("", "is empty"),
        (" ", "is empty"),
        ("--output=x", "begins with '-'"),
        ("-h", "begins with '-'"),
        ("v0.5.9\nv0.5.8", "control characters"),
        ("v0.5.9\0", "control characters"),
        (":/first", "names a file or a search"),
        ("v0.5.9:python", "names a file or a search"),
        ("HEAD@{7}", "no tag or commit"),
        ("@{upstream}", "no tag or commit"),
        ("^HEAD", "no tag or commit"),
        ("HEAD..main", "no tag or commit"),
        ("HEAD^{tree}", "no tag or commit"),
        ("v0.5.9^{/first}", None),
    ],
)
def test_strange_references_end_in_a_clear_line(repository, tmp_path, monkeypatch, ref, said):
    monkeypatch.chdir(repository.top)
    fork = open_fork(repository.top)
    for side, option in (("upstream", "--upstream"), ("target", "--target")):
        if said is None:
            assert open_reference(ref, side, fork, tmp_path).commit == fork.commit
            continue
        with pytest.raises(UsageProblem, match=said) as caught:
            open_reference(ref, side, fork, tmp_path)
        assert str(caught.value).startswith(option)
    assert not (repository.top / "x").exists()


def test_unknown_version_names_the_nearest_tags_and_the_release(repository, tmp_path):
    for tag in ("v0.5.7", "v0.5.8", "v0.5.10", "v0.5.10rc1", "v0.4.9", "gateway-v0.5.11"):
        repository.git("tag", tag)
    fork = open_fork(repository.top)
    with pytest.raises(UsageProblem) as caught:
        open_reference("0.5.11", "upstream", fork, tmp_path)
    first, second = str(caught.value).splitlines()
    assert first.endswith("nearest tags: v0.5.10, v0.5.10rc1, v0.5.9")
    assert second == "from the package index: --upstream pypi:0.5.11"
    with pytest.raises(UsageProblem) as caught:
        open_fork(repository.top, "v0.5.99")
    assert "pypi:" not in str(caught.value)


def test_nearest_tags_by_spelling():
    assert nearest_tags("relase-a", ["release-a", "v0.5.9", "other"]) == ["release-a"]


@pytest.mark.parametrize(
    ("name", "version"),
    [("v0.5.9", "0.5.9"), ("0.5.10rc1", "0.5.10rc1"), ("v0.5.6.post2", "0.5.6.post2"), ("v1", None)]
    + [(name, None) for name in ("gateway-v0.3.0", "main", "v0.5.9-cu130x", "v0.5.x", "")],
)
def test_version_of(name, version):
    assert (str(version_of(name)) if version else version_of(name)) == version


def test_folder_needs_the_form_of_a_path(repository, tmp_path, monkeypatch):
    other = tmp_path / "old" / "release"
    (other / "sglang/srt").mkdir(parents=True)
    (other / "sglang/srt/a.py").write_text("a = 0\n")
    monkeypatch.chdir(tmp_path / "old")
    fork = open_fork(repository.top)
    for ref in ("./release", str(other), "release/", "../old/release"):
        upstream = open_reference(ref, "upstream", fork, tmp_path)
        assert (upstream.kind, upstream.read("sglang/srt/a.py")) == ("directory", b"a = 0\n")
        assert not upstream.ref.startswith("/")
    with pytest.raises(UsageProblem, match=r"for the folder of that name: --upstream \./release"):
        open_reference("release", "upstream", fork, tmp_path)
    # A tag of that very name is not overshadowed by the folder.
    repository.git("tag", "release")
    assert open_reference("release", "upstream", fork, tmp_path).kind == "revision"
    with pytest.raises(UsageProblem, match="does not exist"):
        open_reference("./nowhere", "upstream", fork, tmp_path)


def test_folder_that_is_another_checkout(tiny_repository, tmp_path, repository):
    other = tiny_repository(FILES | {".gitignore": "no.py\n"}, "other")
    other.write({"python/sglang/srt/no.py": "n = 1\n", "python/sglang/srt/a.py": "a = 7\n"})
    fork = open_fork(repository.top)
    upstream = open_reference(str(other.top), "upstream", fork, tmp_path)
    assert (upstream.kind, upstream.ref) == ("worktree", "other")
    assert dict(upstream.read_python()) == {"sglang/srt/a.py": b"a = 7\n"}


def test_plain_folder_has_no_tags(tmp_path):
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang/a.py").write_text("")
    fork = open_fork(tmp_path)
    with pytest.raises(UsageProblem, match=r"--upstream pypi:0\.5\.9\)"):
        open_reference("v0.5.9", "upstream", fork, tmp_path)
