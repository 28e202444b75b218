"""Brings releases from the package index into the cache, as wheels that are never installed."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from auditor.errors import UsageProblem
from auditor.repo.files import WheelFiles
from auditor.repo.references import DISTRIBUTION

# An explicit platform matches only itself, so each glibc level is named: sglang 0.5.12 is
# cp311-cp311-manylinux_2_34_x86_64 and cannot be had as manylinux_2_17.
_PLATFORMS = [
    *(
        f"manylinux_2_{level}_{arch}"
        for arch in ("x86_64", "aarch64")
        for level in range(40, 16, -1)
    ),
    *(f"manylinux2014_{arch}" for arch in ("x86_64", "aarch64")),
    "any",
]


def fetch_release(spec: str, cache: Path) -> WheelFiles:
    """The files of a release, ``VERSION`` or ``NAME==VERSION``, from the cache or the index.

    Two runs at once on one cache are safe: a wheel appears there whole or not at all. Raises
    UsageProblem with the reason pip gave.
    """
    name, version = _parse(spec)
    folder = cache / "releases"
    found = _cached(folder, name, version)
    if found is not None:
        return found
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # In the cache's own file system, for the rename; empty, since pip imports what lies around.
        with tempfile.TemporaryDirectory(prefix=".download-", dir=folder) as fresh:
            _download(f"{name}=={version}", Path(fresh))
            wheels = list(Path(fresh).glob("*.whl"))
            if len(wheels) != 1:
                raise UsageProblem(f"pip brought no wheel for {name}=={version}")
            return WheelFiles(wheels[0].replace(folder / wheels[0].name))
    except OSError as problem:
        raise UsageProblem(f"the cache folder {folder} cannot be written: {problem}") from None


def cached_wheel(spec: str, cache: Path) -> Path | None:
    """The wheel of a release that is in the cache, unopened; raises UsageProblem for no release."""
    name, version = _parse(spec)
    return next(iter(_wheels(cache / "releases", name, version)), None)


def cached_releases(cache: Path) -> dict[Version, Path]:
    """The wheels of upstream's final and post releases that are in the cache, unopened."""
    found: dict[Version, Path] = {}
    for wheel in sorted((cache / "releases").glob("*.whl")):
        with contextlib.suppress(InvalidWheelFilename):
            name, version = parse_wheel_filename(wheel.name)[:2]
            if name == DISTRIBUTION and not version.is_prerelease and not version.local:
                found.setdefault(version, wheel)
    return found


def _wheels(folder: Path, name: str, version: Version) -> Iterator[Path]:
    for wheel in sorted(folder.glob("*.whl")):
        with contextlib.suppress(InvalidWheelFilename):
            if parse_wheel_filename(wheel.name)[:2] == (name, version):
                yield wheel


def _parse(spec: str) -> tuple[str, Version]:
    name, equals, version = spec.rpartition("==")
    name = name.strip() if equals else DISTRIBUTION
    try:
        # ASCII letters, digits, dots, dashes and underscores, as packages are named.
        if not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", name):
            raise InvalidVersion
        return canonicalize_name(name), Version(version.strip())
    except InvalidVersion:
        raise UsageProblem(
            f"'pypi:{spec}'".encode("unicode_escape").decode()
            + " is no release; write pypi:0.5.9 or pypi:NAME==VERSION"
        ) from None


def _cached(folder: Path, name: str, version: Version) -> WheelFiles | None:
    for wheel in _wheels(folder, name, version):
        try:
            return WheelFiles(wheel)
        except UsageProblem:
            # Damaged: a fresh copy is worth more than a message.
            wheel.unlink(missing_ok=True)
    return None


def _download(requirement: str, destination: Path) -> None:
    command = [
        *(sys.executable, "-I", "-m", "pip", "download", "--quiet", "--no-input"),
        *("--disable-pip-version-check", "--progress-bar", "off", "--retries", "2"),
        *("--only-binary=:all:", "--no-deps", "--implementation", "cp", "--python-version", "3.11"),
        *(word for abi in ("cp311", "abi3", "none") for word in ("--abi", abi)),
        *(word for platform in _PLATFORMS for word in ("--platform", platform)),
        *("--dest", str(destination), requirement),
    ]
    done = subprocess.run(
        command,
        cwd=destination,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
        errors="replace",
    )
    if done.returncode == 0:
        return
    if "No module named pip" in done.stderr:
        raise UsageProblem(
            f"{requirement} is fetched with pip, which the Python that runs audit lacks; "
            f"add it with: python -m ensurepip"
        )
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
    last = errors[-1].removeprefix("ERROR: ") if errors else f"pip ended with {done.returncode}"
    raise UsageProblem(f"{requirement} cannot be had from the package index: {_anonymous(last)}")


def _anonymous(text: str) -> str:
    """What pip said without the addresses of the index, which may be private."""
    text = re.sub(r"\w+://\S+", "the index", text)
    return re.sub(r"host='[^']*'", "host=…", text)
