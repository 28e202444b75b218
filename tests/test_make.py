"""What each target of the Makefile installs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STAMPS = (".venv/.installed", ".venv/.ready")


def planned(folder: Path, target: str) -> list[str]:
    """The calls of pip that a target would make in a folder."""
    done = subprocess.run(
        ["make", "-n", target], cwd=folder, capture_output=True, text=True, check=True
    )
    return [
        line.partition(" -m ")[2]
        for line in done.stdout.splitlines()
        if "pip install --quiet" in line
    ]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with what make looks at; nothing is installed in it."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / ".venv").mkdir()
    return tmp_path


def stamp(folder: Path, name: str, when: int) -> None:
    (folder / name).touch()
    os.utime(folder / name, (when, when))


COMMAND = ["pip install --quiet --upgrade pip", "pip install --quiet --editable ."]
TOOLS = ["pip install --quiet --editable '.[dev]'"]


def test_the_demo_installs_the_command_and_the_tests_the_tools_as_well(clone: Path) -> None:
    assert planned(clone, "demo") == COMMAND
    assert planned(clone, "test") == [*COMMAND, *TOOLS]
    assert planned(clone, "bench") == [*COMMAND, *TOOLS]


def test_what_is_installed_is_not_installed_again(clone: Path) -> None:
    os.utime(clone / "pyproject.toml", (1, 1))
    stamp(clone, STAMPS[0], 2)
    assert (planned(clone, "demo"), planned(clone, "test")) == ([], TOOLS)
    stamp(clone, STAMPS[1], 3)
    assert (planned(clone, "demo"), planned(clone, "test")) == ([], [])
    os.utime(clone / "pyproject.toml", (4, 4))
    assert planned(clone, "demo") == COMMAND
    assert planned(clone, "test") == [*COMMAND, *TOOLS]
