from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from auditor.errors import Unreadable, UsageProblem
from auditor.repo.files import MAX_PYTHON
from auditor.repo.snapshot import Snapshot, open_fork, open_reference, open_revision

POOL = "python/sglang/srt/mem_cache/pool.py"
FILES = {POOL: "a = 1\n", "python/sglang/srt/b.py": "b = 1\n", "docs/guide.md": "text\n"}


def contents(snapshot: Snapshot) -> dict[str, bytes]:
    return dict(snapshot.read_python())


def test_work_tree_has_uncommitted_and_untracked_but_no_deleted_or_ignored_files(tiny_repository):
    repository = tiny_repository(FILES | {".gitignore": "ignored.py\n"})
    repository.write(
        {
            POOL: "a = 2\n",
            "python/sglang/srt/new.py": "n = 1\n",
            "python/sglang/srt/ignored.py": "i = 1\n",
            "python/sglang/srt/__pycache__/new.cpython-311.pyc": "x",
        }
    )
    (repository.top / "python/sglang/srt/b.py").unlink()
    fork = open_fork(repository.top)
    assert fork.kind == "worktree"
    assert fork.commit == repository.git("rev-parse", "HEAD")
    assert fork.paths == ("sglang/srt/mem_cache/pool.py", "sglang/srt/new.py")
    assert contents(fork)["sglang/srt/mem_cache/pool.py"] == b"a = 2\n"
    assert fork.skipped == ()


def test_revision_is_read_from_objects_and_not_from_disk(tiny_repository):
    repository = tiny_repository(FILES)
    repository.write({POOL: "a = 2\n"})
    fork = open_fork(repository.top, "v0.5.9")
    assert fork.kind == "revision"
    assert fork.read("sglang/srt/mem_cache/pool.py") == b"a = 1\n"
    assert fork.report_path("sglang/srt/mem_cache/pool.py") == POOL
    assert fork.info().python_files == fork.info().read_files == 2


def test_revision_by_any_name(tiny_repository):
    repository = tiny_repository(FILES)
    first = repository.git("rev-parse", "HEAD")
    repository.commit({POOL: "a = 3\n"})
    assert open_fork(repository.top, first[:10]).commit == first
    assert open_fork(repository.top, "HEAD~1").commit == first
    assert contents(open_fork(repository.top, "main"))["sglang/srt/mem_cache/pool.py"] == b"a = 3\n"
    assert open_revision(open_fork(repository.top), first).side == "base"


def test_bare_repository_is_audited_at_head_and_says_so(tiny_repository, tmp_path):
    repository = tiny_repository(FILES)
    bare = tmp_path / "mirror.git"
    repository.git("clone", "--quiet", "--mirror", str(repository.top), str(bare))
    fork = open_fork(bare)
    assert fork.kind == "revision"
    assert "HEAD" in fork.note
    assert fork.read("sglang/srt/b.py") == b"b = 1\n"


def test_linked_work_tree(tiny_repository, tmp_path):
    repository = tiny_repository(FILES)
    linked = tmp_path / "linked"
    repository.git("worktree", "add", "--quiet", "-b", "side", str(linked))
    (linked / POOL).write_text("a = 5\n")
    fork = open_fork(linked)
    assert (fork.kind, fork.ref) == ("worktree", "side")
    assert fork.read("sglang/srt/mem_cache/pool.py") == b"a = 5\n"
    assert open_fork(repository.top).read("sglang/srt/mem_cache/pool.py") == b"a = 1\n"


def test_submodule_checkout_and_its_parent(tiny_repository):
    inner = tiny_repository(FILES, "inner")
    outer = tiny_repository({"python/sglang/srt/own.py": "o = 1\n"}, "outer")
    outer.git("submodule", "add", "--quiet", str(inner.top), "python/sglang/inner")
    outer.commit()
    fork = open_fork(outer.top / "python/sglang/inner")
    assert fork.paths == ("sglang/srt/b.py", "sglang/srt/mem_cache/pool.py")
    parent = open_fork(outer.top)
    assert parent.paths == ("sglang/srt/own.py",)
    assert "submodule" in parent.unreadable["sglang/inner"]


def test_shallow_clone(tiny_repository, tmp_path):
    repository = tiny_repository(FILES)
    repository.commit({POOL: "a = 3\n"})
    shallow = tmp_path / "shallow"
    repository.git("clone", "--quiet", "--depth=1", f"file://{repository.top}", str(shallow))
    fork = open_fork(shallow)
    assert fork.read("sglang/srt/mem_cache/pool.py") == b"a = 3\n"
    with pytest.raises(UsageProblem, match="shallow clone may lack the tag"):
        open_fork(shallow, "v0.5.9")


def test_repository_without_a_commit(tmp_path):
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang/a.py").write_text("a = 1\n")
    fork = open_fork(tmp_path)
    assert (fork.commit, fork.paths) == (None, ("sglang/a.py",))
    with pytest.raises(UsageProblem, match="no tag or commit"):
        open_fork(tmp_path, "HEAD")


def test_tracked_folder_stands_for_its_checkout(tiny_repository):
    repository = tiny_repository(FILES)
    for folder in ("python", "python/sglang", "python/sglang/srt/mem_cache", "docs"):
        fork = open_fork(repository.top / folder)
        assert fork.kind == "worktree"
        assert fork.paths == ("sglang/srt/b.py", "sglang/srt/mem_cache/pool.py")
        assert fork.report_path("sglang/srt/b.py") == "python/sglang/srt/b.py"


def test_untracked_folder_of_another_checkout_stands_for_itself(tiny_repository):
    repository = tiny_repository(FILES | {".gitignore": ".venv/\n"})
    repository.write(
        {
            ".venv/lib/site-packages/sglang/srt/c.py": "c = 1\n",
            ".venv/lib/site-packages/torch/t.py": "t = 1\n",
            "unpacked/sglang/srt/d.py": "d = 1\n",
        }
    )
    installed = open_fork(repository.top / ".venv/lib/site-packages")
    assert (installed.kind, installed.paths) == ("directory", ("sglang/srt/c.py",))
    assert open_fork(repository.top / "unpacked").paths == ("sglang/srt/d.py",)
    # A folder just created inside the package is work in progress on the checkout.
    repository.write({"python/sglang/srt/fresh/e.py": "e = 1\n"})
    assert open_fork(repository.top / "python/sglang/srt/fresh").kind == "worktree"
    # Asking for a revision asks for the checkout.
    assert open_fork(repository.top / "unpacked", "v0.5.9").kind == "revision"


@pytest.mark.parametrize("place", ["third_party/sg", ":(magic)sg", "s*"])
def test_fork_vendored_inside_another_project(tiny_repository, place):
    vendored = {f"{place}/{name}": text for name, text in FILES.items()}
    repository = tiny_repository(vendored | {"main.py": "m = 1\n"})
    fork = open_fork(repository.top / place)
    assert fork.paths == ("sglang/srt/b.py", "sglang/srt/mem_cache/pool.py")
    assert fork.report_path("sglang/srt/b.py") == f"{place}/python/sglang/srt/b.py"
    old = open_revision(fork, "v0.5.9")
    assert old.paths == fork.paths


@pytest.mark.parametrize(
    ("layout", "given"),
    [
        ("python/sglang", "."),
        ("sglang", "."),
        ("sglang/python/sglang", "."),
        ("sglang", "sglang"),
        ("any-name", "any-name"),
    ],
)
def test_package_is_found_in_every_layout_of_a_plain_folder(tmp_path, layout, given):
    (tmp_path / layout / "srt").mkdir(parents=True)
    (tmp_path / layout / "srt/x.py").write_text("x = 1\n")
    (tmp_path / "other.py").write_text("o = 1\n")
    fork = open_fork(tmp_path / given)
    assert (fork.kind, fork.paths) == ("directory", ("sglang/srt/x.py",))
    assert fork.read("sglang/srt/x.py") == b"x = 1\n"
    assert (tmp_path / given / fork.report_path("sglang/srt/x.py")).is_file()


def test_folder_without_a_package_keeps_its_paths_and_leaves_out_litter(tmp_path):
    for name in ("a/x.py", ".hidden/h.py", "__pycache__/p.pyc", "env/lib/e.py", "env/pyvenv.cfg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    fork = open_fork(tmp_path)
    assert fork.paths == ("a/x.py",)
    assert fork.report_path("a/x.py") == "a/x.py"


def test_symlinks_never_lead_out_of_the_tree(tiny_repository, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.py").write_text("secret = 1\n")
    repository = tiny_repository(FILES)
    package = repository.top / "python/sglang/srt"
    (package / "out.py").symlink_to(tmp_path / "outside/secret.py")
    (package / "up.py").symlink_to("../../../../outside/secret.py")
    (package / "in.py").symlink_to("mem_cache/pool.py")
    (package / "chain.py").symlink_to("in.py")
    (package / "gone.py").symlink_to("nothing.py")
    (package / "loop.py").symlink_to("loop.py")
    (package / "folder.py").symlink_to("mem_cache")
    repository.commit()
    for fork in (open_fork(repository.top), open_fork(repository.top, "HEAD")):
        read = contents(fork)
        assert b"secret = 1\n" not in read.values()
        assert read["sglang/srt/in.py"] == read["sglang/srt/chain.py"] == b"a = 1\n"
        refused = {"out", "up", "gone", "loop", "folder"}
        assert {item.path for item in fork.skipped} == {
            f"python/sglang/srt/{name}.py" for name in refused
        }
        assert fork.info().python_files - fork.info().read_files == len(refused)
        for name in ("out", "up"):
            assert fork.unreadable[f"sglang/srt/{name}.py"] == "a symlink out of the tree"


def test_folder_swapped_for_a_symlink_out_of_the_tree(tiny_repository, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "pool.py").write_text("secret = 1\n")
    repository = tiny_repository(FILES)
    shutil.rmtree(repository.top / "python/sglang/srt/mem_cache")
    (repository.top / "python/sglang/srt/mem_cache").symlink_to(outside)
    fork = open_fork(repository.top)
    assert fork.paths == ("sglang/srt/b.py",)
    assert any("symlink" in item.reason for item in fork.skipped)


def test_package_that_is_a_symlink_out_of_the_tree_is_named(tmp_path):
    (tmp_path / "real/sglang/srt").mkdir(parents=True)
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sglang").symlink_to(tmp_path / "real/sglang")
    with pytest.raises(UsageProblem, match=f"-C {tmp_path}/real/sglang"):
        open_fork(tmp_path / "site")


def test_file_names_with_newlines_quotes_and_bytes_that_are_no_text(tiny_repository):
    repository = tiny_repository(FILES)
    package = os.fsencode(repository.top / "python/sglang")
    names = [b"new\nline.py", b"qu\"o'te.py", b"tab\t.py", b"l\xe4tin.py", "ünïcode.py".encode()]
    for number, name in enumerate(names):
        Path(os.fsdecode(package + b"/" + name)).write_text(f"n = {number}\n")
    for change in (lambda: None, repository.commit):
        change()
        read = contents(open_fork(repository.top))
        assert read["sglang/new\nline.py"] == b"n = 0\n"
        assert read["sglang/qu\"o'te.py"] == b"n = 1\n"
        assert read["sglang/tab\t.py"] == b"n = 2\n"
        assert read["sglang/l\\xe4tin.py"] == b"n = 3\n"
        assert read["sglang/ünïcode.py"] == b"n = 4\n"
    assert contents(open_fork(repository.top, "HEAD")) == read
    assert all(path.encode() for path in read)


def test_large_python_file_is_skipped_on_every_side(tiny_repository):
    repository = tiny_repository(FILES | {"python/sglang/huge.py": b"#" * (MAX_PYTHON + 1)})
    for fork in (open_fork(repository.top), open_fork(repository.top, "HEAD")):
        assert set(contents(fork)) == {"sglang/srt/b.py", "sglang/srt/mem_cache/pool.py"}
        [skipped] = fork.skipped
        assert skipped.path == "python/sglang/huge.py"
        assert "too large: 4.0 MiB" in skipped.reason


def test_unmerged_file_is_read_as_it_is_and_said(tiny_repository):
    repository = tiny_repository(FILES)
    repository.git("switch", "--quiet", "-c", "side")
    repository.commit({POOL: "a = 'side'\n"})
    repository.git("switch", "--quiet", "main")
    repository.commit({POOL: "a = 'main'\n"})
    repository.git("merge", "side", check=False)
    fork = open_fork(repository.top)
    assert b"<<<<<<<" in fork.read("sglang/srt/mem_cache/pool.py")
    assert len(fork.paths) == len(set(fork.paths))
    assert "unmerged" in fork.unreadable["sglang/srt/mem_cache/pool.py"]


def test_sparse_checkout_is_not_taken_for_deleted_files(tiny_repository):
    repository = tiny_repository(FILES)
    repository.git("sparse-checkout", "set", "--no-cone", "/*", "!/python/sglang/srt/mem_cache")
    fork = open_fork(repository.top)
    assert fork.paths == ("sglang/srt/b.py",)
    assert "sparse" in fork.unreadable["sglang/srt/mem_cache/pool.py"]


def test_device_in_place_of_a_file_is_not_opened(tiny_repository):
    repository = tiny_repository(FILES)
    (repository.top / POOL).unlink()
    os.mkfifo(repository.top / POOL)
    fork = open_fork(repository.top)
    assert fork.unreadable == {"sglang/srt/mem_cache/pool.py": "not a regular file"}


def test_file_that_vanishes_is_unreadable_and_skipped(tmp_path):
    (tmp_path / "x.py").write_text("x = 1\n")
    fork = open_fork(tmp_path)
    (tmp_path / "x.py").unlink()
    with pytest.raises(Unreadable):
        fork.read("x.py")
    assert [item.path for item in fork.skipped] == ["x.py"]
    with pytest.raises(Unreadable):
        fork.read("never.py")


def test_missing_path(tmp_path):
    with pytest.raises(UsageProblem, match="does not exist"):
        open_fork(tmp_path / "nowhere")
    with pytest.raises(UsageProblem, match="needs a git repository"):
        open_fork(tmp_path, "v0.5.9")


def test_gitfile_that_points_nowhere_leaves_a_plain_folder(tmp_path):
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang/a.py").write_text("a = 1\n")
    (tmp_path / ".git").write_text("gitdir: /nowhere/at/all\n")
    assert open_fork(tmp_path).kind == "directory"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_dubious_ownership_names_the_folder_to_allow(tiny_repository):
    repository = tiny_repository(FILES)
    for path in (repository.top, repository.top / ".git"):
        os.chown(path, 12345, 12345)
    with pytest.raises(UsageProblem) as caught:
        open_fork(repository.top / "python")
    assert f"git config --global --add safe.directory {repository.top}" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://git.example.org/team/sglang.git", "https://git.example.org/team/sglang.git"),
        (
            "https://bot:s3cret@git.example.org:8443/a b?token=t#f",
            "https://git.example.org:8443/a%20b",
        ),
        ("git@git.example.org:team/sglang.git", "ssh://git.example.org/team/sglang.git"),
        ("git.example.org:/team/sglang", "ssh://git.example.org/team/sglang"),
        ("ssh://bot@git.example.org/team", "ssh://git.example.org/team"),
        ("/srv/git/sglang.git", ""),
        ("file:///srv/git/sglang.git", ""),
        ("../sglang", ""),
        ("mirror:team/sglang", ""),
        ("https://localhost/sglang", ""),
        ("https://[::1/x", ""),
        ("https://git.example.org:port/x", ""),
        ("https://<script>.example.org/x", ""),
        ("ext::sh -c touch% /tmp/x", ""),
        ("", ""),
    ],
)
def test_the_repository_is_named_without_secrets_and_places_of_this_machine(
    tiny_repository, url, told
):
    repository = tiny_repository(FILES)
    if url:
        repository.git("config", "remote.origin.url", url)
    assert open_fork(repository.top).info().repository == told


def test_only_the_fork_names_its_repository(tiny_repository, tmp_path):
    repository = tiny_repository(FILES)
    repository.git("config", "remote.origin.url", "https://git.example.org/x")
    fork = open_fork(repository.top)
    assert open_reference("v0.5.9", "upstream", fork, tmp_path).info().repository == ""


def test_sources_and_roles():
    snapshot = Snapshot.from_sources({"sglang/a.py": "a = 1\n", "sglang/b.py": b"\xff"}, "upstream")
    target = snapshot.with_side("target")
    assert (snapshot.side, target.side) == ("upstream", "target")
    assert contents(target) == {"sglang/a.py": b"a = 1\n", "sglang/b.py": b"\xff"}


def test_equal_content_has_one_id_in_every_kind_of_tree(tiny_repository, tmp_path):
    repository = tiny_repository(FILES)
    shutil.copytree(repository.top / "python", tmp_path / "plain")
    path = "sglang/srt/b.py"
    trees = [
        open_fork(repository.top),
        open_fork(repository.top, "HEAD"),
        open_fork(tmp_path / "plain"),
        Snapshot.from_sources({path: "b = 1\n"}),
    ]
    ids = {tree.content_ids([path])[path] for tree in trees}
    assert ids == {repository.git("rev-parse", f"HEAD:python/{path}")}
    assert Snapshot.from_sources({path: "b = 2\n"}).content_ids([path])[path] not in ids


def test_repository_with_sha256_ids(tiny_repository, tmp_path):
    repository = tiny_repository({"unused": ""}, "unused")
    modern = type(repository)(tmp_path / "modern")
    modern.top.mkdir()
    modern.git("init", "--quiet", "--object-format=sha256")
    modern.commit(FILES)
    fork, head = open_fork(modern.top), open_fork(modern.top, "HEAD")
    assert contents(fork) == contents(head)
    path = "sglang/srt/b.py"
    assert fork.content_ids([path]) == head.content_ids([path]) != {}
