from __future__ import annotations

import shutil
import zlib

import pytest

from auditor.repo import changes as changes_module
from auditor.repo.changes import area_of, compare, patches
from auditor.repo.snapshot import Snapshot, open_fork, open_reference

LONG = "".join(f"line_{number} = {number}\n" for number in range(40))
OLD = {
    "sglang/srt/same.py": "s = 1\n",
    "sglang/srt/edited.py": "def read():\n    gate.wait()\n    return 1\n",
    "sglang/srt/mem_cache/deep/moved.py": LONG,
    "sglang/srt/gone.py": "g = 1\n\ng = 2\n",
    "sglang/srt/blob.bin": b"\0\1",
    "sglang/srt/conf.json": "{}\n",
}
NEW = {
    "sglang/srt/same.py": "s = 1\n",
    "sglang/srt/edited.py": "def read():\n    return 1\n\n\ndef extra():\n    return 2\n",
    "sglang/srt/layers/renamed.py": LONG.replace("line_7 = 7", "line_7 = 8") + "def f(): pass\n",
    "sglang/srt/blob.bin": b"\0\2",
    "sglang/srt/conf.json": "{}\n\n",
    "sglang/top.py": "",
}
EXPECTED = [
    ("sglang/srt/blob.bin", "modified", "srt", None, None, "", ()),
    ("sglang/srt/conf.json", "modified", "srt", 1, 0, "", ()),
    ("sglang/srt/edited.py", "modified", "srt", 4, 1, "", ("extra", "read")),
    ("sglang/srt/gone.py", "deleted", "srt", 0, 3, "", ()),
    (
        *("sglang/srt/layers/renamed.py", "renamed", "srt/layers", 2, 1),
        *("sglang/srt/mem_cache/deep/moved.py", ("f",)),
    ),
    ("sglang/top.py", "added", ".", 0, 0, "", ()),
]


def rows(changes):
    return [
        (c.path, c.status, c.area, c.added, c.removed, c.old_path, c.symbols) for c in changes.files
    ]


def sources(files, side="fork"):
    return Snapshot.from_sources(files, side)


def test_files_by_status_area_lines_and_symbols():
    assert rows(compare(sources(NEW), sources(OLD, "upstream"))) == EXPECTED


def test_the_same_from_a_repository_and_its_work_tree(tiny_repository, tmp_path):
    repository = tiny_repository({f"python/{name}": text for name, text in OLD.items()})
    shutil.rmtree(repository.top / "python")
    repository.write({f"python/{name}": text for name, text in NEW.items()})
    fork = open_fork(repository.top)
    upstream = open_reference("v0.5.9", "upstream", fork, tmp_path)
    assert rows(compare(fork, upstream)) == EXPECTED
    repository.commit()
    assert rows(compare(open_fork(repository.top, "HEAD"), upstream)) == EXPECTED
    assert compare(upstream, upstream).files == ()


def test_attributes_and_configuration_around_do_not_change_the_counts(
    tiny_repository, tmp_path, monkeypatch
):
    home = tmp_path / "home"
    (home / ".config/git").mkdir(parents=True)
    (home / ".config/git/attributes").write_text("* binary\n")
    (home / ".gitconfig").write_text(
        "[diff]\n\tnoprefix = true\n\trenames = false\n\torderFile = /nowhere\n"
    )
    # The folder for temporary files may lie in a repository, the fork itself for one.
    scratch = tiny_repository({".gitattributes": "* binary\n"}, "scratch")
    scratch.git("config", "diff.orderFile", "/nowhere")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setattr(changes_module.tempfile, "tempdir", str(scratch.top))
    assert rows(compare(sources(NEW), sources(OLD))) == EXPECTED
    assert {path.name for path in scratch.top.iterdir()} == {".git", ".gitattributes"}


def test_only_the_package_counts(tiny_repository, tmp_path):
    package = {f"python/{name}": text for name, text in OLD.items()}
    repository = tiny_repository(package | {"docs/a.md": "a\n", ".github/ci.yml": "c\n"})
    fork = open_fork(repository.top)
    shutil.copytree(repository.top / "python/sglang", tmp_path / "site/sglang")
    installed = open_fork(tmp_path / "site")
    assert compare(fork, installed).files == compare(installed, fork).files == ()


def test_what_packaging_adds_and_leaves_out_is_no_change():
    kernels = {"sglang/kernels/aot/pyproject.toml": "", "sglang/kernels/aot/python/k.py": "k = 1\n"}
    built = {"sglang/_version.py": "v = 1\n", "sglang/srt/core.so": b"\0"}
    source, release = sources(OLD | kernels), sources(OLD | built)
    assert compare(source, release).files == compare(release, source).files == ()
    # Between two builds, or two source trees, the same files are changes.
    assert [c.path for c in compare(release, sources(OLD | dict([*built.items()][:1]))).files] == [
        "sglang/srt/core.so"
    ]
    assert len(compare(source, sources(OLD)).files) == len(kernels)


def test_file_that_one_side_could_not_list_is_not_deleted(tiny_repository, tmp_path):
    repository = tiny_repository({f"python/{name}": text for name, text in OLD.items()})
    target = repository.top / "python/sglang/srt/edited.py"
    target.unlink()
    target.symlink_to("/etc/hostname")
    fork = open_fork(repository.top)
    assert compare(fork, open_reference("v0.5.9", "upstream", fork, tmp_path)).files == ()
    assert len(fork.skipped) == 1


def test_names_that_lead_elsewhere_stay_in_the_temporary_folder(tmp_path):
    nasty = ["../../up.py", "/abs.py", "a\nb.py", '"q".py', "-o.py", ".gitattributes", "x" * 300]
    found = compare(sources(dict.fromkeys(nasty, "n = 1\n")), sources({}))
    assert sorted(c.path for c in found.files) == sorted(nasty)
    assert not (tmp_path.parent / "up.py").exists()


def test_patches_of_chosen_files():
    fork, upstream = sources(NEW), sources(OLD)
    changes = compare(fork, upstream).files
    found = patches(fork, upstream, changes)
    assert set(found) == {c.path for c in changes} - {"sglang/srt/blob.bin"}
    for change in changes:
        if change.path in found:
            patch = found[change.path]
            assert (patch.added, patch.removed) == (change.added, change.removed)
            assert patch.path == change.path
    [hunk] = found["sglang/srt/edited.py"]
    assert [line.value for line in hunk if line.is_removed] == ["    gate.wait()\n"]
    assert found["sglang/srt/layers/renamed.py"].source_file.endswith("mem_cache/deep/moved.py")
    assert patches(fork, upstream, changes[2:3]).keys() == {"sglang/srt/edited.py"}
    assert patches(fork, upstream, []) == {}


def test_patch_of_text_in_odd_encodings_and_line_ends():
    old = b"a = '\xe4'\r\nb = 1\x0c\r\nc = '\xe2\x80\xa8'\n"
    fork, upstream = sources({"x.py": old.replace(b"1", b"2")}, "fork"), sources({"x.py": old})
    changes = compare(fork, upstream).files
    assert (changes[0].added, changes[0].removed) == (1, 1)
    assert patches(fork, upstream, changes)["x.py"].added == 1


@pytest.mark.parametrize(
    ("path", "area"),
    [
        ("sglang/srt/mem_cache/pool.py", "srt/mem_cache"),
        ("sglang/srt/layers/attention/nsa/x.py", "srt/layers"),
        ("sglang/srt/server_args.py", "srt"),
        ("sglang/launch_server.py", "."),
        ("plain.py", "."),
        ("a/b/c/d.py", "a/b"),
    ],
)
def test_area(path, area):
    assert area_of(path) == area


def test_answer_is_kept_by_content_and_a_damaged_one_made_anew(tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    first = compare(sources(NEW), sources(OLD), cache)
    [kept] = (cache / "changes").iterdir()
    monkeypatch.setattr(changes_module, "_compare", None)
    assert compare(sources(NEW), sources(OLD), cache) == first
    monkeypatch.undo()
    kept.write_bytes(b"no answer")
    assert compare(sources(NEW), sources(OLD), cache) == first
    other = compare(sources(NEW | {"sglang/top.py": "t = 1\n"}), sources(OLD), cache)
    assert other != first
    assert len(list((cache / "changes").iterdir())) == 2
    # A folder that cannot be written costs nothing but the time.
    (tmp_path / "file").write_text("")
    assert compare(sources(NEW), sources(OLD), tmp_path / "file") == first


def test_key_of_the_cache_is_not_what_a_repository_claims(tiny_repository, tmp_path):
    path = "python/sglang/srt/edited.py"
    repository = tiny_repository({path: OLD["sglang/srt/edited.py"]})
    honest = open_fork(repository.top, "HEAD").content_ids(["sglang/srt/edited.py"], proven=True)
    blob = repository.git("rev-parse", f"HEAD:{path}")
    stored = repository.top / f".git/objects/{blob[:2]}/{blob[2:]}"
    stored.chmod(0o644)
    stored.write_bytes(zlib.compress(b"blob 6\0x = 1\n"))
    forged = open_fork(repository.top, "HEAD")
    assert forged.content_ids(["sglang/srt/edited.py"]) == honest
    assert forged.content_ids(["sglang/srt/edited.py"], proven=True) == {}
