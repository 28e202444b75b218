"""Whether the release that forks are based on is named rightly, beside what plain git says.

    python -m tests.benchmarks.base --releases REPOSITORY REPOSITORY@REV … FOLDER …

The judge of a revision counts commits and looks at no file. The newest commit that a fork shares
with upstream is the newest one at the border of what no release tag of ``--releases`` holds, and
the base is the tag with the fewest commits between itself and that one, on either side. Where the
next tag is at most a quarter further away the fork is *between* both, and either is right; where
the nearest is further than a release from the next, none is. The
judge of an installed package goes by the requirements that its ``METADATA`` pins, held against
those of the cached wheels: the release with most of them. What neither can tell is left open, for a
person to read. Releases that the tool has not at hand cannot be named, and are no candidates.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from packaging.version import Version
from platformdirs import user_cache_path
from tabulate import tabulate

from auditor.repo.closest import Releases, is_close
from auditor.repo.snapshot import open_fork

_RELEASE = re.compile(r"v\d+\.\d+\.\d+(\.post\d+)?")
_NEAR = 1.25
_FAR = 1500  # commits; there are some 500 to 1,500 from one release to the next
_PIN = re.compile(r"^Requires-Dist: ([\w.-]+)(?:\[[^]]*\])?==([\w.]+)", re.MULTILINE)


class Judged(NamedTuple):
    """What a judge holds for the base, each of them right, and what it goes by."""

    right: tuple[str, ...]
    by: str


class Judge:
    """The judges; ``releases`` is a repository with upstream's tags, ``wheels`` a folder."""

    def __init__(self, releases: Path, wheels: Path) -> None:
        self.objects = releases / self._git(releases, "rev-parse", "--git-path", "objects")
        told = self._git(releases, "for-each-ref", "--format=%(refname:strip=2) %(objectname)",
                         "refs/tags").splitlines()  # fmt: skip
        tags = dict(line.split(" ") for line in told)
        self.tags = {tag: sha for tag, sha in tags.items() if _RELEASE.fullmatch(tag)}
        self.pins = {
            wheel.name.split("-")[1]: pins_of(_metadata(wheel))
            for wheel in wheels.glob("sglang-*.whl")
        }

    def revision(self, repository: Path, rev: str, at_hand: set[str]) -> Judged:
        """The base of a revision, of the versions at hand."""
        exclude = [f"^{sha}" for sha in self.tags.values()]
        listed = self._git(repository, "rev-list", "--boundary", rev, *exclude).split()
        border = [line[1:] for line in listed if line.startswith("-")]
        if not border and not listed:
            border = [self._git(repository, "rev-parse", f"{rev}^{{commit}}").strip()]
        if not border:
            return Judged((), "no commit of upstream's")
        count = {sha: int(self._git(repository, "rev-list", "--count", sha)) for sha in border}
        shared = max(border, key=lambda sha: count[sha])
        away = {
            tag.removeprefix("v"): int(
                self._git(repository, "rev-list", "--count", f"{shared}...{sha}")
            )
            for tag, sha in self.tags.items()
            if tag.removeprefix("v") in at_hand
        }
        order = sorted(away, key=lambda version: (away[version], Version(version)))
        near = [version for version in order if away[version] <= _NEAR * away[order[0]] <= _FAR]
        by = ", ".join(f"{version} {away[version]:,}" for version in order[:2])
        return Judged(tuple(near), f"{max(len(listed) - len(border), 0):,} own, {shared[:8]}: {by}")

    def package(self, folder: Path, at_hand: set[str]) -> Judged:
        """The base of an unpacked wheel."""
        [metadata] = folder.glob("*.dist-info/METADATA")
        mine = pins_of(metadata.read_text(encoding="utf-8"))
        same = {
            version: len(mine.items() & pins.items())
            for version, pins in self.pins.items()
            if version in at_hand
        }
        most = max(same.values(), default=0)
        right = tuple(version for version, number in same.items() if most and number == most)
        return Judged(right, f"{most} of {len(mine)} pins")

    def _git(self, repository: Path, *arguments: str) -> str:
        environment = dict(os.environ, GIT_NO_REPLACE_OBJECTS="1", GIT_NO_LAZY_FETCH="1")
        if hasattr(self, "objects"):
            environment["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = str(self.objects.resolve())
        command = ["git", "-C", str(repository), *arguments]
        return subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True
        ).stdout.strip()


def pins_of(metadata: str) -> dict[str, str]:
    """The requirements of a distribution that name one version, by name."""
    return dict(_PIN.findall(metadata))


def _metadata(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        return archive.read(name).decode("utf-8")


def verdict(named: str, judged: Judged) -> str:
    """What to say of a named version; post releases are told apart."""
    if not judged.right:
        return "open" if named else "right"
    return "right" if named in judged.right else "WRONG"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each fork, and how many are right."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--releases", type=Path, required=True)
    parser.add_argument("--cache", type=Path, default=user_cache_path("sglang-fork-audit"))
    parser.add_argument("forks", nargs="+")
    options = parser.parse_args(arguments)
    judge = Judge(options.releases, options.cache / "releases")
    rows, right = [], 0
    for name in options.forks:
        place, _, rev = name.partition("@")
        fork = open_fork(Path(place), rev or None)
        start = time.perf_counter()
        releases = Releases(fork, options.cache)
        closest = releases.closest()
        took = time.perf_counter() - start
        at_hand = {str(release.version) for release in releases.known}
        best = closest.found[0] if closest.found and is_close(closest.found[0]) else None
        version = best.ref.removeprefix("pypi:").removeprefix("v") if best else ""
        if fork.commit is not None:
            judged = judge.revision(Path(place), rev or "HEAD", at_hand)
        else:
            judged = judge.package(Path(place), at_hand)
        told = verdict(version, judged)
        right += told == "right"
        share = f"{best.equal:,}/{best.total:,}" if best else ""
        row = [rev or Path(place).name, version or "none", share, told]
        rows.append([*row, " or ".join(judged.right), judged.by, f"{took:.1f} s"])
    head = ("fork", "named", "unchanged", "", "judge", "by", "took")
    print(tabulate(rows, head, tablefmt="plain", disable_numparse=True))
    print(f"{right} of {len(rows)} right")


if __name__ == "__main__":
    main()
