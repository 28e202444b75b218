"""Repositories that try to run a program, to lie about their content, or to lead elsewhere."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pytest

from auditor.errors import UsageProblem
from auditor.repo.changes import compare, patches
from auditor.repo.closest import Releases
from auditor.repo.history import history
from auditor.repo.snapshot import Snapshot, open_fork, open_reference, open_revision

PATH = "python/sglang/srt/pool.py"
POOL, OTHER = "sglang/srt/pool.py", "sglang/srt/other.py"
FILES = {
    PATH: "def read():\n    gate.wait()\n",
    f"python/{OTHER}": "o = 1\n",
    ".gitattributes": "*.py filter=evil diff=evil\n",
}


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "a-program-ran"


@pytest.fixture
def trap(tmp_path: Path, marker: Path) -> str:
    """A program that leaves the marker, echoing what it is given."""
    program = tmp_path / "trap.sh"
    program.write_text(f"#!/bin/sh\ntouch '{marker}'\ncat\n")
    program.chmod(0o755)
    return str(program)


def audit_everything(fork: Snapshot, cache: Path) -> dict[str, bytes]:
    """Runs all that the reading of a fork consists of and gives the fork's Python files."""
    upstream = open_reference("v0.5.9", "upstream", fork, cache)
    changes = compare(fork, upstream)
    patches(fork, upstream, changes.files)
    past = history(fork, upstream)
    releases = Releases(fork, cache)
    releases.advice()
    releases.mismatch(upstream, related=False)
    if past.merge_base:
        list(open_revision(fork, past.merge_base).read_python())
    list(upstream.read_python())
    return dict(fork.read_python())


def signed(repository, commit: str) -> str:
    """A copy of a commit with a signature header."""
    head, _, message = repository.git("cat-file", "commit", commit).partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n iQ==\n -----END PGP SIGNATURE-----"
    raw = repository.top.parent / "commit"
    raw.write_text(f"{head}\n{signature}\n\n{message}\n")
    return repository.git("hash-object", "-t", "commit", "-w", str(raw))


@pytest.mark.parametrize(
    ("settings", "springs"),
    [
        ({"diff.external": "{}"}, ["diff"]),
        ({"core.fsmonitor": "{}"}, ["status"]),
        ({"filter.evil.clean": "{}"}, ["diff"]),
        ({"filter.evil.process": "{}", "filter.evil.required": "false"}, ["diff"]),
        ({"diff.evil.textconv": "{}"}, ["diff"]),
        ({"diff.evil.command": "{}"}, ["diff"]),
        ({"gpg.program": "{}", "log.showSignature": "true"}, ["log"]),
        ({"core.pager": "{}", "pager.log": "true"}, ["-p", "log"]),
        ({"alias.x": "!{}"}, ["x"]),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_configured_programs_do_not_run(tiny_repository, tmp_path, trap, settings, springs):
    marker = tmp_path / "a-program-ran"
    repository = tiny_repository(FILES)
    repository.commit({PATH: "def read():\n    pass\n"})
    repository.git("reset", "--quiet", "--hard", signed(repository, "HEAD"))
    repository.write({PATH: "def read():\n    return 1\n", "python/sglang/srt/new.py": "n = 1\n"})
    for key, value in settings.items():
        repository.git("config", key, value.format(trap))

    work_tree = audit_everything(open_fork(repository.top), tmp_path)
    revision = audit_everything(open_fork(repository.top, "HEAD"), tmp_path)

    assert not marker.exists()
    assert work_tree == {
        POOL: b"def read():\n    return 1\n",
        OTHER: b"o = 1\n",
        "sglang/srt/new.py": b"n = 1\n",
    }
    assert revision == {POOL: b"def read():\n    pass\n", OTHER: b"o = 1\n"}
    if springs != ["-p", "log"]:
        repository.git(*springs, check=False)
        assert marker.exists(), "the trap was not armed, so the test shows nothing"


def test_hooks_do_not_run(tiny_repository, tmp_path, trap, marker):
    repository = tiny_repository(FILES)
    hooks = repository.top / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-index-change", "reference-transaction", "fsmonitor-watchman", "pre-commit"):
        (hooks / name).symlink_to(trap)
    # An index with stale times is what git likes to refresh.
    os.utime(repository.top / PATH, (1, 1))
    index = (repository.top / ".git/index").read_bytes()
    assert audit_everything(open_fork(repository.top), tmp_path)[POOL] == FILES[PATH].encode()
    assert not marker.exists()
    assert (repository.top / ".git/index").read_bytes() == index
    repository.git("status")
    assert marker.exists()


@pytest.fixture
def partial_clone(tiny_repository, tmp_path, marker):
    """A clone without the blobs of v0.5.9 that its HEAD changed; fetching them is a trap."""
    origin = tiny_repository(FILES, "origin")
    origin.git("config", "uploadpack.allowFilter", "true")
    origin.git("config", "uploadpack.allowAnySHA1InWant", "true")
    origin.commit({PATH: "def read():\n    pass\n"})
    clone = type(origin)(tmp_path / "clone")
    origin.git("clone", "--quiet", "--filter=blob:none", f"file://{origin.top}", str(clone.top))
    clone.git("config", "remote.origin.url", "ssh://nowhere.invalid/x")
    clone.git("config", "core.sshCommand", f"touch '{marker}'; false")
    return origin, clone


def test_missing_blob_of_a_partial_clone_is_not_fetched(partial_clone, tmp_path, marker):
    origin, clone = partial_clone
    fork = open_fork(clone.top)
    assert audit_everything(fork, tmp_path)[POOL] == b"def read():\n    pass\n"
    old = open_revision(fork, "v0.5.9", "upstream")
    assert dict(old.read_python()) == {OTHER: b"o = 1\n"}
    assert not marker.exists()
    [skipped] = old.skipped
    assert skipped.path == PATH
    command = "git fetch --refetch --no-filter origin"
    assert skipped.reason.endswith(command)
    [change] = compare(fork, old).files
    assert (change.path, change.status, change.added) == (POOL, "modified", None)

    clone.git("cat-file", "blob", f"v0.5.9:{PATH}", check=False)
    assert marker.exists()
    clone.git("config", "remote.origin.url", f"file://{origin.top}")
    clone.git(*command.split()[1:])
    assert open_fork(clone.top, "v0.5.9").read(POOL) == FILES[PATH].encode()


def test_clone_without_trees_says_what_to_fetch(tiny_repository, tmp_path, marker):
    origin = tiny_repository(FILES, "origin")
    origin.git("config", "uploadpack.allowFilter", "true")
    origin.commit({PATH: "def read():\n    pass\n"})
    clone = type(origin)(tmp_path / "clone")
    origin.git("clone", "--quiet", "--filter=tree:0", f"file://{origin.top}", str(clone.top))
    clone.git("config", "remote.origin.url", "ssh://nowhere.invalid/x")
    clone.git("config", "core.sshCommand", f"touch '{marker}'; false")
    with pytest.raises(UsageProblem, match="git fetch --refetch --no-filter origin"):
        open_fork(clone.top, "v0.5.9")
    assert not marker.exists()


def test_replaced_and_grafted_objects_are_not_believed(tiny_repository, tmp_path):
    repository = tiny_repository(FILES)
    base = repository.git("rev-parse", "HEAD")
    middle = repository.commit({PATH: "def read():\n    return 2\n"})
    repository.commit({PATH: "def read():\n    return 3\n"})
    blob = repository.git("rev-parse", f"v0.5.9:{PATH}")
    lie = repository.git("rev-parse", f"HEAD:{PATH}")
    repository.git("replace", blob, lie)
    repository.git("replace", "--graft", middle)
    (repository.top / ".git/info").mkdir(exist_ok=True)
    (repository.top / ".git/info/grafts").write_text(f"{middle}\n")
    assert repository.git("show", f"v0.5.9:{PATH}").endswith("return 3")

    fork = open_fork(repository.top)
    upstream = open_reference("v0.5.9", "upstream", fork, tmp_path)
    assert upstream.read(POOL) == FILES[PATH].encode()
    assert [change.path for change in compare(fork, upstream).files] == [POOL]
    past = history(fork, upstream)
    assert (past.merge_base, past.ahead) == (base, 2)


def test_configured_work_tree_elsewhere_is_not_read(tiny_repository, tmp_path):
    elsewhere = tmp_path / "elsewhere/python/sglang/srt"
    elsewhere.mkdir(parents=True)
    (elsewhere / "private.py").write_text("secret = 1\n")
    repository = tiny_repository(FILES)
    repository.write({"python/sglang/srt/untracked.py": "u = 1\n"})
    repository.git("config", "core.worktree", str(tmp_path / "elsewhere"))
    fork = open_fork(repository.top / "python")
    assert fork.paths == (OTHER, POOL, "sglang/srt/untracked.py")


def test_variables_of_a_hook_or_a_ci_do_not_redirect_git(tiny_repository, tmp_path, monkeypatch):
    other = tiny_repository({"python/sglang/srt/wrong.py": "w = 1\n"}, "other")
    repository = tiny_repository(FILES)
    monkeypatch.setenv("GIT_DIR", str(other.top / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.top))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.top / ".git/index"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(other.top / ".git/objects"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "false")
    monkeypatch.setenv("GIT_TRACE2", str(tmp_path / "trace"))
    fork = open_fork(repository.top)
    assert fork.paths == (OTHER, POOL)
    assert audit_everything(fork, tmp_path)[OTHER] == b"o = 1\n"
    assert not (tmp_path / "trace").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_configuration_given_by_variables_is_the_users_own(tiny_repository, monkeypatch):
    repository = tiny_repository(FILES)
    for path in (repository.top, repository.top / ".git"):
        os.chown(path, 12345, 12345)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "safe.directory")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(repository.top))
    assert open_fork(repository.top).paths == (OTHER, POOL)


def test_damaged_object_costs_only_its_own_file(tiny_repository):
    names = [f"python/sglang/srt/f{number}.py" for number in range(6)]
    repository = tiny_repository({name: f"{name} = 1\n" for name in names})
    for index, damage in ((1, b"garbage"), (3, zlib.compress(b"blob 9\0short")), (4, None)):
        blob = repository.git("rev-parse", f"HEAD:{names[index]}")
        path = repository.top / f".git/objects/{blob[:2]}/{blob[2:]}"
        path.chmod(0o644)
        path.write_bytes(damage) if damage else path.unlink()
    fork = open_fork(repository.top, "HEAD")
    assert [path[-5:] for path, _ in fork.read_python()] == ["f0.py", "f2.py", "f5.py"]
    assert [item.path[-5:] for item in fork.skipped] == ["f1.py", "f3.py", "f4.py"]


def test_broken_configuration_is_one_clear_line(tiny_repository):
    repository = tiny_repository(FILES)
    (repository.top / ".git/config").write_text("[core\nbroken")
    with pytest.raises(UsageProblem, match=r"git cannot open .*bad config line 1"):
        open_fork(repository.top)
