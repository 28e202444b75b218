"""A target from the package index stands for its tag where it holds the same code."""

from __future__ import annotations

import zipfile

import pytest

from auditor.runs.drift import run_drift
from auditor.runs.request import AuditRequest
from tests.drift.histories import FIXED, FORKED, OTHER, OTHER_BASE, POOL, History

VERSION = {"sglang/_version.py": "version = '0.5.10'\n"}


@pytest.fixture
def line(tiny_repository, tmp_path):
    made = History(tiny_repository, tmp_path)
    made.upstream({POOL: FIXED})
    made.fork({POOL: FORKED})
    made.release()
    return made


def drift(line, files):
    folder = line.cache / "releases"
    folder.mkdir()
    with zipfile.ZipFile(folder / "sglang-0.5.10-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path.removeprefix("python/"), text)
    request = AuditRequest(
        line.repository.top, None, "v0.5.9", ("pypi:0.5.10",), jobs=1, cache=line.cache
    )
    return run_drift(request)[1]


def test_the_wheel_of_a_tag_has_the_commits_of_the_tag(line):
    found = drift(line, {POOL: FIXED, OTHER: OTHER_BASE, **VERSION})
    assert (found.target, found.behind) == ("pypi:0.5.10", 1)
    released = line.repository.git("rev-parse", "v0.5.10")  # the fix is the release's last commit
    assert found.target_commit == released
    assert [(fix.sha, fix.state) for fix in found.fixes.listed] == [(released, "absent")]
    assert "commits up to pypi:0.5.10 are those of the tag v0.5.10" in found.notes


def test_files_that_a_wheel_leaves_out_do_not_part_it_from_its_tag(line):
    assert drift(line, {POOL: FIXED, **VERSION}).behind == 1


def test_another_tree_of_that_version_is_not_the_tag(line):
    found = drift(line, {POOL: FIXED + "\nX = 1\n", OTHER: OTHER_BASE, **VERSION})
    assert (found.behind, found.fixes.listed, found.target_commit) == (None, (), None)
    [note] = [note for note in found.notes if "v0.5.10" in note]
    assert "1 of its 3 Python files" in note


def test_without_the_tag_it_is_said_that_the_commits_are_not_known(line):
    line.repository.git("tag", "--delete", "v0.5.10")
    found = drift(line, {POOL: FIXED, OTHER: OTHER_BASE, **VERSION})
    assert found.behind is None
    assert any("no tag for pypi:0.5.10" in note for note in found.notes)


def test_a_target_that_is_older_than_upstream_is_told(line):
    request = AuditRequest(
        line.repository.top, None, "v0.5.10", ("v0.5.9",), jobs=1, cache=line.cache
    )
    assert (
        "v0.5.9 is an older release than v0.5.10; name a newer one" in run_drift(request)[1].notes
    )


def test_a_fork_without_python_files_is_told(line):
    line.repository.git("rm", "-r", "--quiet", "python")
    line.repository.write({"python/sglang/x.txt": "x"})
    request = AuditRequest(line.repository.top, None, "v0.5.9", ("v0.5.10",), jobs=1)
    assert any("no Python file" in note for note in run_drift(request)[1].notes)
