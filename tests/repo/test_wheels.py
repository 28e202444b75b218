from __future__ import annotations

import struct
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from auditor.errors import Unreadable, UsageProblem
from auditor.repo import files, releases
from auditor.repo.files import WheelFiles
from auditor.repo.releases import fetch_release
from auditor.repo.snapshot import open_fork, open_reference

NEW = "sglang-0.5.12-cp311-cp311-manylinux_2_34_x86_64.whl"
OLD = "sglang-0.5.9-py3-none-any.whl"


def wheel(folder: Path, filename: str = OLD, extra: dict[str, bytes] | None = None) -> Path:
    name, version, *tags = filename.removesuffix(".whl").split("-")
    info = f"{name}-{version}.dist-info"
    members = {
        "sglang/srt/a.py": f"version = '{version}'\n".encode(),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nTag: {'-'.join(tags)}\n".encode(),
        f"{info}/RECORD": b"",
    }
    folder.mkdir(exist_ok=True, parents=True)
    with zipfile.ZipFile(folder / filename, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in (members | (extra or {})).items():
            archive.writestr(member, content)
    return folder / filename


@pytest.fixture
def index(tmp_path, monkeypatch) -> Path:
    """A package index that is a folder, for the real pip."""
    folder = tmp_path / "index"
    for filename in (OLD, NEW, "lsglang-1.6.5-py3-none-any.whl"):
        wheel(folder, filename)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


@pytest.fixture
def fork(tmp_path):
    (tmp_path / "plain/sglang/srt").mkdir(parents=True)
    (tmp_path / "plain/sglang/srt/a.py").write_text("version = 'fork'\n")
    return open_fork(tmp_path / "plain")


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize(
    ("ref", "version"),
    [("pypi:0.5.9", "0.5.9"), ("pypi:v0.5.12", "0.5.12"), ("pypi:LSGLang==1.6.5", "1.6.5")],
)
def test_release_is_fetched_once_and_read_from_its_wheel(fork, tmp_path, monkeypatch, ref, version):
    cache = tmp_path / "cache"
    release = open_reference(ref, "upstream", fork, cache)
    assert (release.kind, release.ref, release.commit) == ("release", ref, None)
    assert release.paths == ("sglang/srt/a.py",)
    assert release.read("sglang/srt/a.py") == f"version = '{version}'\n".encode()
    monkeypatch.setattr(releases, "_download", None)
    assert open_reference(ref, "target", fork, cache).paths == release.paths
    assert [path.suffix for path in (cache / "releases").iterdir()] == [".whl"]


def test_pip_of_the_fork_is_not_the_one_that_runs(index, fork, tmp_path, monkeypatch):
    hostile = tmp_path / "plain"
    (hostile / "pip").mkdir()
    for name in ("__init__.py", "__main__.py"):
        (hostile / "pip" / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(hostile)
    monkeypatch.setenv("PYTHONPATH", str(hostile))
    open_reference("pypi:0.5.9", "upstream", fork, tmp_path / "cache")
    assert not (tmp_path / "ran").exists()


def test_unknown_version_is_one_line_with_pips_reason(index, fork, tmp_path):
    with pytest.raises(UsageProblem) as caught:
        open_reference("pypi:9.9.9", "upstream", fork, tmp_path / "cache")
    assert "No matching distribution found for sglang==9.9.9" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "cache/releases").iterdir()) == []


@pytest.mark.parametrize(
    "spec", ["", "latest", "0.5.9 --index-url=x", "-r==1", "a b==1", "x==", "0.5\n"]
)
def test_what_is_no_release_never_reaches_pip(spec, fork, tmp_path, monkeypatch):
    monkeypatch.setattr(releases, "_download", None)
    if spec.strip() == "0.5":
        monkeypatch.setattr(releases, "_cached", lambda *_: wheel(tmp_path))
        assert fetch_release(spec, tmp_path)
        return
    with pytest.raises(UsageProblem, match="is no release") as caught:
        fetch_release(spec, tmp_path)
    assert "\n" not in str(caught.value)


def test_no_network_names_no_host(monkeypatch, tmp_path):
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(UsageProblem) as caught:
        fetch_release("0.5.9", tmp_path / "cache")
    assert "127.0.0.1" not in str(caught.value)
    assert releases._anonymous("see https://host.example/x host='host.example'").count("host.") == 0


def test_python_without_pip_is_said(monkeypatch, tmp_path):
    bare = tmp_path / "python"
    bare.write_text(f"#!/bin/sh\necho '{sys.executable}: No module named pip' >&2\nexit 1\n")
    bare.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(bare))
    with pytest.raises(UsageProblem, match="python -m ensurepip"):
        fetch_release("0.5.9", tmp_path / "cache")


def test_damaged_wheel_in_the_cache_is_fetched_again(index, tmp_path):
    cache = tmp_path / "cache"
    fetch_release("0.5.9", cache)
    (cache / "releases" / OLD).write_bytes(b"PK\x03\x04 half a wheel")
    assert "sglang/srt/a.py" in fetch_release("0.5.9", cache).names


def test_two_runs_at_once_on_one_cache(index, tmp_path):
    cache, names = tmp_path / "cache", []
    runs = [
        threading.Thread(target=lambda: names.append(fetch_release("0.5.9", cache).names))
        for _ in range(3)
    ]
    for run in runs:
        run.start()
    for run in runs:
        run.join()
    assert len(names) == 3
    assert len({tuple(found) for found in names}) == 1
    assert [path.name for path in (cache / "releases").iterdir()] == [OLD]


def test_cache_that_cannot_be_written(tmp_path):
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(UsageProblem, match="cannot be written"):
        fetch_release("0.5.9", tmp_path / "cache")


def test_entries_with_dangerous_names_are_refused(tmp_path):
    hostile = [
        "../up.py",
        "/abs.py",
        "sglang/../../up.py",
        "sglang\\win.py",
        "C:/x.py",
        "sglang//y.py",
    ]
    archive = WheelFiles(wheel(tmp_path, extra=dict.fromkeys(hostile, b"x = 1\n")))
    assert set(archive.refused) == set(hostile)
    assert not set(archive.names) & set(hostile)


def test_entry_that_comes_twice_is_refused(tmp_path):
    path = wheel(tmp_path)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("sglang/srt/a.py", b"other = 1\n")
    found = WheelFiles(path)
    assert "sglang/srt/a.py" not in found.names
    assert found.refused["sglang/srt/a.py"] == "more than once in the archive"


def test_symlink_entry_is_refused(tmp_path):
    path = wheel(tmp_path)
    entry = zipfile.ZipInfo("sglang/link.py")
    entry.external_attr = 0o120777 << 16
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(entry, "/etc/passwd")
    assert "symlink" in WheelFiles(path).refused["sglang/link.py"]


def test_bombs_are_not_unpacked(tmp_path, monkeypatch):
    path = wheel(
        tmp_path, extra={"sglang/bomb.bin": bytes(32 << 20), "sglang/big.py": b"#" * (5 << 20)}
    )
    found = WheelFiles(path)
    assert "compressed" in found.refused["sglang/bomb.bin"]
    assert "sglang/big.py" in found.refused
    monkeypatch.setattr(files, "MAX_UNPACKED", 1 << 20)
    with pytest.raises(UsageProblem, match="refused"):
        WheelFiles(path)
    monkeypatch.setattr(files, "MAX_ENTRIES", 3)
    with pytest.raises(UsageProblem, match="more than 3 entries"):
        WheelFiles(path)


def test_entry_that_lies_about_its_size_or_content_is_unreadable(tmp_path):
    path = wheel(tmp_path, extra={"sglang/lie.py": b"x = 1\n" * 1000})
    raw = bytearray(path.read_bytes())
    at = raw.rindex(b"sglang/lie.py") - 46
    assert raw[at : at + 4] == b"PK\x01\x02"
    raw[at + 24 : at + 28] = struct.pack("<I", 10)
    path.write_bytes(raw)
    found = WheelFiles(path)
    [content] = found.read(["sglang/lie.py"])
    assert isinstance(content, Unreadable)
    [good] = found.read(["sglang/srt/a.py"])
    assert good == b"version = '0.5.9'\n"
