"""The closest release, held against counting with plain git, on built repositories and folders."""

from __future__ import annotations

import random
import shutil
import zipfile
from pathlib import Path

import pytest
from packaging.version import Version

from auditor.repo import closest as closest_module
from auditor.repo.closest import Releases
from auditor.repo.snapshot import open_fork, open_reference

ROOT = "python/sglang"


def files(count: int, changed: int = 0, word: str = "a", folder: str = ROOT) -> dict[str, str]:
    """So many modules; the first ``changed`` of them say ``word``, the others the same always."""
    return {
        f"{folder}/srt/m{n:03}.py": f"{word if n < changed else 'same'} = {n}\n"
        for n in range(count)
    }


@pytest.fixture
def upstream(tiny_repository):
    """Releases on branches of their own, each with 40 files more that are new on main.

    v0.5.9 is the first commit, v0.5.10 and v0.5.11 are cut from main, which HEAD is.
    """
    repository = tiny_repository(files(100))
    for number, changed in ((10, 30), (11, 60)):
        repository.commit(files(100, changed, "b") | {f"{ROOT}/n{number}.py": "n = 1\n"})
        repository.git("switch", "--quiet", "--create", f"release/{number}")
        repository.commit({f"{ROOT}/picked.py": f"p = {number}\n"}, "picked", f"v0.5.{number}")
        repository.git("switch", "--quiet", "main")
    return repository


def fork_of(repository, start: str, changes: dict[str, str] | None = None, name="deploy"):
    repository.git("switch", "--quiet", "--create", name, start)
    repository.commit(changes or {f"{ROOT}/own.py": "o = 1\n", **files(3, 3, "own")}, "own")
    return open_fork(repository.top)


def counted(repository, fork: str, tag: str, folder: str = ROOT) -> tuple[int, int, int]:
    """Files of both, equal ones, and of the release, with plain git and no more."""

    def listed(commit: str) -> set[str]:
        lines = repository.git("ls-tree", "-r", commit, "--", folder).splitlines()
        return {line.partition(" blob ")[2] for line in lines if line.endswith(".py")}

    mine, theirs = listed(fork), listed(tag)
    return len(mine | theirs), len(mine & theirs), len(theirs)


def names(fork, cache=None) -> list[str]:
    return [told.ref for told in Releases(fork, cache).closest().found]


def mismatch(fork, ref: str, cache=None, related: bool = True) -> str:
    upstream = open_reference(ref, "upstream", fork, cache or Path())
    return Releases(fork, cache).mismatch(upstream, related=related)


# -- the closest ---------------------------------------------------------------------------------


@pytest.mark.parametrize("base", ["v0.5.9", "v0.5.10", "v0.5.11", "main"])
def test_the_release_that_the_fork_left_is_the_closest(upstream, base):
    fork = fork_of(upstream, base)
    [best, after, last] = Releases(fork, None).closest().found
    assert best.ref == {"main": "v0.5.11"}.get(base, base)
    for told in (best, after, last):
        _, equal, total = counted(upstream, "HEAD", told.ref)
        assert (told.equal, told.total) == (equal, total)


@pytest.mark.parametrize("seed", range(8))
def test_it_is_the_one_that_counting_finds(tiny_repository, seed):
    """Any history of releases: nearest is who shares most of all files of both."""
    choose = random.Random(seed)
    repository = tiny_repository(files(12))
    tags = ["v0.5.9"]
    for number in range(10, 10 + choose.randint(1, 12)):
        word = choose.choice("abc")
        repository.commit(files(choose.randint(8, 14), choose.randint(0, 8), word))
        tag = f"v0.5.{number}"
        repository.git("tag", tag)
        tags.append(tag)
        if choose.random() < 0.3:
            (repository.top / ROOT / f"srt/m{choose.randint(0, 7):03}.py").unlink()
            repository.commit({}, "gone")
    fork = fork_of(repository, choose.choice(tags), files(12, choose.randint(0, 6), "own"))

    def share(tag: str) -> tuple[float, int, Version]:
        either, equal, _ = counted(repository, "HEAD", tag)
        apart = repository.git("rev-list", "--count", f"HEAD...{tag}")
        return -equal / either, int(apart), Version(tag)

    ranked = sorted(tags, key=share)
    assert names(fork)[0] == ranked[0]
    shares = [share(tag)[0] for tag in names(fork)]
    assert shares == sorted(share(tag)[0] for tag in tags if share(tag)[0])[:3]


def test_a_larger_release_is_not_closer_for_having_more_files(tiny_repository):
    repository = tiny_repository(files(10, 1, "a"))
    repository.commit(files(60, 10, "b"), "larger", "v0.5.10")
    # Nine of the ten files of v0.5.9, and ten of the sixty of v0.5.10.
    own = {f"{ROOT}/srt/m{n:03}.py": "own = 1\n" for n in range(11, 60)}
    fork = fork_of(repository, "v0.5.10", files(10, 1, "c") | own)
    assert names(fork)[0] == "v0.5.9"


def test_the_work_tree_counts_and_not_its_commit(upstream):
    fork_of(upstream, "v0.5.9")
    upstream.write(files(100, 60, "b"))
    assert names(open_fork(upstream.top))[0] == "v0.5.11"
    assert names(open_fork(upstream.top, "HEAD"))[0] == "v0.5.9"


def test_equal_files_are_told_apart_by_commits(upstream):
    """v0.5.11.post1 changes no Python file; it is the base of whoever left it last."""
    upstream.git("switch", "--quiet", "release/11")
    upstream.commit({"CHANGES": "x\n"}, "post", "v0.5.11.post1")
    assert names(fork_of(upstream, "v0.5.11", name="one"))[:2] == ["v0.5.11", "v0.5.11.post1"]
    assert names(fork_of(upstream, "v0.5.11.post1", name="two"))[:2] == ["v0.5.11.post1", "v0.5.11"]


def test_two_tags_of_one_commit_are_the_older_release(upstream):
    upstream.git("tag", "v0.5.10.post1", "v0.5.10")
    assert names(fork_of(upstream, "v0.5.10"))[0] == "v0.5.10"


def test_tags_of_the_forks_own_families_and_candidates_are_no_releases(upstream):
    fork = fork_of(upstream, "v0.5.10")
    for tag in ("mylab-v1.0", "lab/v0.5.12", "v0.5.10-lab", "1.0.0", "v0.5.10.1", "v0.5.11rc1"):
        upstream.git("tag", tag)
    assert names(fork)[0] == "v0.5.10"


def test_a_tag_that_the_fork_may_have_made_is_said_to_be_one(upstream):
    fork = fork_of(upstream, "v0.5.10")
    upstream.git("tag", "v0.5.10.post1")
    told = Releases(fork, None).closest()
    assert told.found[0].ref == "v0.5.10.post1"
    assert told.note == (
        "v0.5.10.post1 stands on this branch alone; where the fork made that tag itself,"
        " compare with v0.5.10"
    )
    # A branch that has its files and not its commit did not make it.
    upstream.git("switch", "--quiet", "--create", "copy", "v0.5.10")
    upstream.git("checkout", "--quiet", "v0.5.10.post1", "--", ROOT)
    upstream.commit({}, "copied")
    copied = Releases(open_fork(upstream.top), None).closest()
    assert (copied.found[0].ref, copied.note) == ("v0.5.10.post1", "")
    # A later release that holds it was not made by the fork.
    upstream.git("switch", "--quiet", "--create", "release/12", "deploy")
    upstream.commit(files(100, 90, "b"), "later", "v0.5.12")
    assert not Releases(open_fork(upstream.top, "deploy"), None).closest().note


def test_the_package_may_have_moved(upstream):
    fork_of(upstream, "v0.5.10")
    upstream.git("mv", "python", "engine")
    upstream.commit({}, "move")
    fork = open_fork(upstream.top / "engine")
    assert fork.folder == "engine/sglang"
    assert names(fork)[0] == "v0.5.10"


def test_what_a_build_writes_does_not_count(upstream):
    fork = fork_of(upstream, "v0.5.10", {f"{ROOT}/_version.py": "version = '9'\n"})
    best = Releases(fork, None).closest().found[0]
    assert (best.ref, best.equal) == ("v0.5.10", best.total)
    # Nor where a release has it in its tree.
    upstream.git("switch", "--quiet", "--detach", "v0.5.10")
    upstream.commit({f"{ROOT}/_version.py": "version = '10'\n"}, "built", "v0.5.10.post1")
    totals = {told.ref: told.total for told in Releases(fork, None).closest().found}
    assert totals["v0.5.10.post1"] == totals["v0.5.10"]


def test_without_tags_or_wheels_there_is_nothing_to_name(upstream, tmp_path):
    fork = fork_of(upstream, "v0.5.10")
    for tag in upstream.git("tag").split():
        upstream.git("tag", "--delete", tag)
    assert names(fork, tmp_path) == []
    advice = Releases(fork, tmp_path).advice()
    assert advice.endswith("for example --upstream v0.5.17, or pypi:0.5.17")
    assert not mismatch(fork, "main", tmp_path)


def test_a_shallow_clone_knows_the_tags_that_it_has(upstream, tmp_path):
    fork_of(upstream, "v0.5.10")
    shallow = type(upstream)(tmp_path / "shallow")
    upstream.git("clone", "--quiet", "--depth=1", f"file://{upstream.top}", str(shallow.top))
    assert names(open_fork(shallow.top)) == []
    shallow.git("fetch", "--quiet", "--depth=1", "origin", "tag", "v0.5.10")
    shallow.git("fetch", "--quiet", "--depth=1", "origin", "tag", "v0.5.9")
    assert names(open_fork(shallow.top)) == ["v0.5.10", "v0.5.9"]


def test_trees_that_a_clone_lacks_are_named(upstream):
    fork = fork_of(upstream, "v0.5.10")
    tree = upstream.git("rev-parse", f"v0.5.11:{ROOT}")
    (upstream.top / ".git/objects" / tree[:2] / tree[2:]).unlink()
    told = Releases(fork, None).closest()
    assert [best.ref for best in told.found] == ["v0.5.10", "v0.5.9"]
    assert told.note == "releases that could not be looked at: v0.5.11"


def test_a_fork_with_every_file_laid_out_anew_is_close_to_nothing(upstream):
    """Few files are equal: that is said, and no release is claimed."""
    laid_out = {path: f"# laid out\n{text}" for path, text in files(98).items()}
    fork = fork_of(upstream, "v0.5.9", laid_out)
    advice = Releases(fork, None).advice()
    assert advice.startswith(
        "say which upstream release to compare with: for example --upstream v0"
    )
    assert advice.endswith(
        "no release at hand is close (v0.5.9: 2 of 100 Python files unchanged here, 2 %;"
        " v0.5.10: 2 of 102, 1 %)"
    )
    # History shows where it comes from, so upstream is in order.
    assert not mismatch(fork, "v0.5.9")


# -- what is kept --------------------------------------------------------------------------------


def test_what_releases_hold_is_listed_once(upstream, tmp_path, monkeypatch):
    fork = fork_of(upstream, "v0.5.10")
    first = names(fork, tmp_path)
    monkeypatch.setattr(closest_module, "_listing", lambda *_: pytest.fail("listed again"))
    assert names(fork, tmp_path) == first
    monkeypatch.undo()
    upstream.git("tag", "v0.5.12", "HEAD")
    assert names(fork, tmp_path)[0] == "v0.5.12"
    upstream.git("tag", "--force", "v0.5.12", "v0.5.9")
    assert names(fork, tmp_path)[0] == "v0.5.10"


def test_one_repository_says_nothing_of_another(upstream, tmp_path):
    fork = fork_of(upstream, "v0.5.10")
    twin = tmp_path / "twin"
    shutil.copytree(upstream.top, twin)
    names(fork, tmp_path / "cache")
    names(open_fork(twin), tmp_path / "cache")
    assert len(list((tmp_path / "cache/closest").iterdir())) == 2


@pytest.mark.parametrize("content", [b"", b"\xc1", b"\x93\x01\x02\x03"])
def test_a_broken_cache_costs_no_answer(upstream, tmp_path, content):
    fork = fork_of(upstream, "v0.5.10")
    first = names(fork, tmp_path)
    for kept in (tmp_path / "closest").iterdir():
        kept.write_bytes(content)
    assert names(fork, tmp_path) == first


# -- wheels and installed packages ---------------------------------------------------------------


def wheel(cache: Path, version: str, members: dict[str, str], name: str = "sglang") -> Path:
    folder = cache / "releases"
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return path


def install(root: Path, members: dict[str, str], **claims: str) -> Path:
    """An environment with the package, and a ``dist-info`` for each name and version."""
    for name, content in members.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    for name, version in claims.items():
        info = root / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n")
        record = [f"{path},sha256=x,1" for path in members]
        (info / "RECORD").write_text("\n".join(record) + "\n")
    return root


OLD = files(50, folder="sglang")
NEW = files(50, 30, "b", "sglang")


@pytest.fixture
def cache(tmp_path) -> Path:
    """Two releases in the cache; the later one was built with a version file."""
    cache = tmp_path / "cache"
    wheel(cache, "0.5.9", OLD)
    wheel(cache, "0.5.12", NEW | {"sglang/_version.py": "v = 1\n"})
    wheel(cache, "0.5.13rc1", NEW)
    wheel(cache, "9.0", NEW, "lsglang")
    return cache


def test_releases_in_the_cache_are_named_by_how_to_type_them(tmp_path, cache):
    fork = open_fork(install(tmp_path / "env", NEW | {"sglang/own.py": "o = 1\n"}))
    found = Releases(fork, cache).closest().found
    assert [(told.ref, told.equal, told.total) for told in found] == [
        ("pypi:0.5.12", 50, 50),
        ("pypi:0.5.9", 20, 50),
    ]
    assert "--upstream pypi:0.5.12" in Releases(fork, cache).advice()


def test_a_wheel_of_a_version_without_a_tag_counts_in_a_repository(upstream, cache):
    fork_of(upstream, "v0.5.10")
    upstream.write({f"python/{path}": text for path, text in NEW.items()})
    upstream.git("rm", "--quiet", "--cached", "-r", ROOT)
    shutil.rmtree(upstream.top / ROOT)
    upstream.write({f"python/{path}": text for path, text in NEW.items()})
    found = names(open_fork(upstream.top), cache)
    assert found[0] == "pypi:0.5.12"
    # 0.5.9 has a tag, which says the same and costs no reading.
    assert "pypi:0.5.9" not in found


def test_wheels_are_read_once_and_again_when_they_change(tmp_path, cache, monkeypatch):
    fork = open_fork(install(tmp_path / "env", NEW))
    first = names(fork, cache)
    wheel(cache, "0.5.14", files(50, 45, "c", "sglang"))
    opened = []
    real = closest_module.open_wheel

    def seen(path, *rest):
        opened.append(path.name)
        return real(path, *rest)

    monkeypatch.setattr(closest_module, "open_wheel", seen)
    assert names(fork, cache)[:2] == first
    assert opened == ["sglang-0.5.14-py3-none-any.whl"]
    wheel(cache, "0.5.14", NEW | {"sglang/more.py": "m = 1\n"})
    assert names(fork, cache) == ["pypi:0.5.12", "pypi:0.5.14", "pypi:0.5.9"]


def test_a_damaged_wheel_is_named_and_left_alone(tmp_path, cache):
    damaged = cache / "releases/sglang-0.5.11-py3-none-any.whl"
    damaged.write_bytes(b"no zip")
    told = Releases(open_fork(install(tmp_path / "env", NEW)), cache).closest()
    assert told.note == "releases that could not be looked at: pypi:0.5.11"
    assert damaged.exists()


def test_a_dist_info_that_agrees_is_not_worth_a_word(tmp_path, cache):
    fork = open_fork(install(tmp_path / "env", NEW, sglang="0.5.12"))
    assert Releases(fork, cache).closest().note == ""
    assert not mismatch(fork, "pypi:0.5.12", cache, related=False)


@pytest.mark.parametrize("claims", [{"sglang": "0.5.9"}, {"lsglang": "1.6.5"}])
def test_a_dist_info_that_says_otherwise_is_told(tmp_path, cache, claims):
    fork = open_fork(install(tmp_path / "env", NEW, **claims))
    told = Releases(fork, cache).closest()
    [(name, version)] = claims.items()
    assert told.found[0].ref == "pypi:0.5.12"
    assert told.note == f"the dist-info beside the package says {name} {version}"
    assert not mismatch(fork, "pypi:0.5.12", cache, related=False)


def test_a_dist_info_names_what_is_not_at_hand(tmp_path, cache):
    half_way = files(50, 30, "c", "sglang")
    fork = open_fork(install(tmp_path / "env", half_way, sglang="0.5.11.post1"))
    releases = Releases(fork, cache)
    assert releases.advice().startswith(
        "say which upstream release to compare with: --upstream pypi:0.5.11.post1; the dist-info"
        " beside the package says sglang 0.5.11.post1"
    )
    told = mismatch(fork, "pypi:0.5.12", cache, related=False)
    assert told.endswith("compare with --upstream pypi:0.5.11.post1")
    # Files that are those of a release at hand are believed before it.
    other = open_fork(install(tmp_path / "other", NEW, sglang="0.5.11"))
    assert "--upstream pypi:0.5.12, the closest" in Releases(other, cache).advice()
    assert not mismatch(other, "pypi:0.5.12", cache, related=False)
    wheel(cache, "0.5.11", half_way)
    assert not mismatch(fork, "pypi:0.5.11", cache, related=False)


@pytest.mark.parametrize("version", ["0.5.13rc1", "0.5.13.dev12", "0.5.11+local"])
def test_a_dist_info_of_no_release_names_none(tmp_path, cache, version):
    half_way = files(50, 30, "c", "sglang")
    fork = open_fork(install(tmp_path / "env", half_way, sglang=version))
    releases = Releases(fork, cache)
    assert releases.claimed is None
    assert releases.closest().note == f"the dist-info beside the package says sglang {version}"


def test_only_a_dist_info_that_lists_the_package_speaks_for_it(tmp_path, cache):
    root = install(tmp_path / "env", NEW)
    install(root, {"other/a.py": ""}, other="3.0", sglang="0.5.9")
    (root / "sglang-0.5.9.dist-info/RECORD").unlink()
    (root / "sglang-0.5.9.dist-info/RECORD").symlink_to("/etc/hostname")
    assert Releases(open_fork(root), cache).closest().note == ""


def test_a_dist_info_out_of_the_folder_is_not_read(tmp_path, cache):
    install(tmp_path / "elsewhere", NEW, sglang="0.5.9")
    root = install(tmp_path / "env", NEW)
    info = root / "sglang-0.5.9.dist-info"
    info.symlink_to(tmp_path / "elsewhere/sglang-0.5.9.dist-info")
    assert Releases(open_fork(root), cache).closest().note == ""


@pytest.mark.parametrize(
    "metadata", ["Name: sglang\nVersion: new\n", "Name: s/g\nVersion: 1\n", ""]
)
def test_metadata_that_says_nothing_is_passed_over(tmp_path, cache, metadata):
    root = install(tmp_path / "env", NEW, sglang="0.5.9")
    (root / "sglang-0.5.9.dist-info/METADATA").write_text(metadata)
    assert Releases(open_fork(root), cache).closest().note == ""


# -- a given upstream ----------------------------------------------------------------------------


def test_an_upstream_that_is_newer_or_older_is_told(upstream):
    fork = fork_of(upstream, "v0.5.10")
    newer = mismatch(fork, "v0.5.11")
    assert newer == (
        "v0.5.11 is newer than v0.5.10, the release that this fork is based on (v0.5.10: 99 of 102"
        " Python files unchanged here, 97 %; v0.5.11: 68 of 103, 66 %); what upstream changed in"
        " between is held against the fork; compare with --upstream v0.5.10"
    )
    older = mismatch(fork, "v0.5.9")
    assert older.startswith("v0.5.9 is older than v0.5.10, the release that this fork is based on")
    assert "what upstream changed in between counts as the fork's" in older
    # The commit of a tag is that release.
    assert mismatch(fork, upstream.git("rev-parse", "v0.5.11")).endswith("--upstream v0.5.10")


@pytest.mark.parametrize("ref", ["v0.5.10", "v0.5.10.post1", "v0.5.10rc1", "release/10"])
def test_the_base_its_post_releases_and_candidates_are_right(upstream, ref):
    upstream.git("tag", "v0.5.10rc1", "v0.5.10~1")
    upstream.git("switch", "--quiet", "release/10")
    upstream.commit(files(100, 34, "post"), "post", "v0.5.10.post1")
    fork = fork_of(upstream, "v0.5.10")
    assert not mismatch(fork, ref)
    assert not mismatch(fork, upstream.git("rev-parse", ref))


def test_a_fork_between_two_releases_may_be_held_against_either(upstream):
    """Half of what changed after v0.5.10 is there: neither is wrong, v0.5.9 is."""
    upstream.git("switch", "--quiet", "--detach", "release/10~1")
    upstream.commit(files(100, 45, "b"), "half way")
    fork = fork_of(upstream, "HEAD")
    assert not mismatch(fork, "v0.5.10")
    assert not mismatch(fork, "v0.5.11")
    assert "is older than" in mismatch(fork, "v0.5.9")


def test_a_branch_that_went_on_is_still_where_the_fork_comes_from(upstream):
    fork = fork_of(upstream, "v0.5.10")
    assert not mismatch(fork, "main")
    assert not mismatch(fork, upstream.git("rev-parse", "main"))
    later = fork_of(upstream, "v0.5.11", name="later")
    behind = upstream.git("rev-parse", "v0.5.10~1")
    assert mismatch(later, behind).startswith(f"{behind} is older than v0.5.11")


def test_a_folder_counts_as_the_release_that_it_is(upstream, tmp_path):
    fork = fork_of(upstream, "v0.5.10")
    for tag in ("v0.5.10", "v0.5.11"):
        upstream.git("worktree", "add", "--quiet", "--detach", str(tmp_path / tag), tag)
        shutil.copytree(tmp_path / tag / "python", tmp_path / f"folder-{tag}")
    assert not mismatch(fork, str(tmp_path / "folder-v0.5.10"), related=False)
    assert "is newer than v0.5.10" in mismatch(
        fork, str(tmp_path / "folder-v0.5.11"), related=False
    )
    # A checkout of its own as well.
    assert "is newer than" in mismatch(fork, str(tmp_path / "v0.5.11"), related=False)


def test_another_family_is_told(upstream, tmp_path):
    fork = fork_of(upstream, "v0.5.10")
    other = install(tmp_path / "other", files(30, 30, "other", "sglang"))
    assert mismatch(fork, str(other), related=False) == (
        "other does not look like the upstream of this fork (other: 0 of 30 Python files unchanged"
        " here, 0 %; v0.5.10: 99 of 102, 97 %); the closest release is v0.5.10"
    )
    stranger = fork_of(upstream, "main", files(100, 100, "stranger"), "stranger")
    assert "does not look like the upstream" in mismatch(stranger, "v0.5.9", related=False)
    # A few files show no kinship, and no lack of it.
    few = install(tmp_path / "few", files(10, 10, "other", "sglang"))
    assert not mismatch(fork, str(few), related=False)
