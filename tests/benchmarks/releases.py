"""Real releases on disk: given as VERSION=DIR, or downloaded once from the package index."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import platformdirs

_PLATFORM = "manylinux_2_34_x86_64"
"""Releases from 0.5.11 on are cp311 wheels for this platform; before that they are pure Python."""


class Unavailable(Exception):
    """A release is neither in the cache nor to be had from the package index."""


def cache_folder() -> Path:
    """Where downloads are kept between runs (``AUDIT_TEST_CACHE`` or the user's cache)."""
    named = os.environ.get("AUDIT_TEST_CACHE")
    return Path(named) if named else platformdirs.user_cache_path("sglang-fork-audit-tests")


def release(version: str) -> Path:
    """The folder holding ``sglang/`` of one release, downloaded and unpacked on first use.

    The wheel is fetched with pip from an empty folder and read as a zip, never installed.
    Raises ``Unavailable`` if there is no network and no copy.
    """
    folder = cache_folder() / "releases" / version
    if (folder / "sglang").is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        unpacked = Path(scratch) / "tree"
        with zipfile.ZipFile(_download(version, Path(scratch))) as wheel:
            wheel.extractall(
                unpacked, [name for name in wheel.namelist() if name.startswith("sglang/")]
            )
        try:
            unpacked.rename(folder)
        except OSError:  # another process of these tests was first
            if not (folder / "sglang").is_dir():
                raise
    return folder


def _download(version: str, folder: Path) -> Path:
    command = [sys.executable, "-I", "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", "--python-version", "3.11", "--implementation", "cp"]
    command += ["--abi", "cp311", "--platform", _PLATFORM, "--dest", str(folder)]
    done = subprocess.run(
        [*command, f"sglang=={version}"], cwd=folder, capture_output=True, text=True, check=False
    )
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        last = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        raise Unavailable(f"sglang {version}: {last}")
    return wheels[0]


def trees(arguments: list[str]) -> dict[str, Path]:
    """Version to folder, from ``VERSION=DIR`` or plain ``VERSION`` arguments, in their order.

    DIR holds ``sglang/``. Raises ``SystemExit`` with a message for a folder that does not.
    """
    found = {}
    for argument in arguments:
        version, equals, folder = argument.partition("=")
        tree = Path(folder).resolve() if equals else release(version)
        if not (tree / "sglang").is_dir():
            raise SystemExit(f"{argument}: no sglang/ in {tree}")
        found[version] = tree
    return found
