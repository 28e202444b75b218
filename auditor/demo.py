"""Builds the example fork, with its history and its upstream's, as a git repository."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from auditor.errors import UsageProblem
from auditor.rulebook import packaged_rules

UPSTREAM = "v0.5.17"
TARGET = "v0.5.18"

_PACKAGE = "python/sglang"
_POOLS = f"{_PACKAGE}/srt/mem_cache"
# The fork's commits, oldest first: what each says, and the files that it takes from the fork.
_COMMITS = (
    ("Attend to the best pages only", (f"{_PACKAGE}/srt/layers/attention/sparse_backend.py",)),
    ("Overlap gathering values with waiting", (f"{_POOLS}/page_pool.py",)),
    ("Wait in one place for recurrent states", (f"{_POOLS}/state_pool.py",)),
    (
        "Send latent rows to the other ranks early",
        (f"{_POOLS}/latent_pool.py", f"{_PACKAGE}/srt/layers/prefetch.py"),
    ),
    ("Hand hidden states over without a stall", (f"{_POOLS}/draft_stash.py",)),
    (
        "Send finished rows in batches",
        (f"{_PACKAGE}/srt/disaggregation/senders.py", f"{_PACKAGE}/srt/managers/scheduler.py"),
    ),
    ("Start the chat model", ("deploy/serve_chat.sh",)),
)

# The repository is the same to the last bit wherever it is built.
_ENVIRONMENT = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in (
        ("NAME", "Demo"),
        ("EMAIL", "demo@example.org"),
        ("DATE", "2026-01-05T12:00:00+00:00"),
    )
}
# Nothing of the user's own configuration may change, sign or stop a commit.
_ENVIRONMENT |= {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
}
_SETTINGS = (
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "core.autocrlf=false",
    "core.fileMode=false",
    "core.fsmonitor=false",
    f"core.attributesFile={os.devnull}",
    f"core.excludesFile={os.devnull}",
    f"core.hooksPath={os.devnull}",
    "gc.auto=0",
)


class Demo(NamedTuple):
    """The references to compare with, and the checkout to audit."""

    upstream: str
    fork: Path
    target: str


def packaged_examples() -> Path:
    """The folder of the example trees: inside an installed wheel, else beside the package."""
    package = Path(str(resources.files("auditor")))
    inside = package / "_data" / "examples"
    return inside if inside.is_dir() else package.parent / "examples"


def build(path: Path) -> Demo:
    """Makes a repository of the example fork in ``path``, which must be empty or not exist.

    Upstream's two releases are tagged on ``main``; the fork's commits lie on ``deployed``, which
    is checked out. Raises UsageProblem.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        occupied = any(path.iterdir())
    except OSError as problem:
        raise UsageProblem(f"{path}: cannot be made a folder: {problem.strerror}") from problem
    if occupied:
        raise UsageProblem(f"{path}: is not empty; the demo needs a folder of its own")
    examples = packaged_examples()
    _git(path, "init", "--quiet", "--template=")
    # --initial-branch is younger than the gits that are still around.
    _git(path, "symbolic-ref", "HEAD", "refs/heads/main")
    # The tables of settings are those that the examples of the serve rules start from.
    settings = packaged_rules() / "trees" / "serve"
    for tree, tag in (("upstream", UPSTREAM), ("target", TARGET)):
        _take(settings / "sglang", path / _PACKAGE, ("",))
        _take(settings / "examples", path / "examples", ("",))
        _take(examples / tree, path, (_PACKAGE,))
        _commit(path, f"Release {tag.removeprefix('v')}")
        _git(path, "tag", tag)
    _git(path, "checkout", "--quiet", "-b", "deployed", UPSTREAM)
    for message, files in _COMMITS:
        _take(examples / "fork", path, files)
        _commit(path, message)
    return Demo(UPSTREAM, path, TARGET)


def _take(tree: Path, checkout: Path, files: tuple[str, ...]) -> None:
    """Copies files and folders of a tree, or all of it ("").

    Their dates are those of the copy: by an old date and an equal size git would take a file of
    the next release for the one that it knows.
    """
    for name in files:
        source, destination = tree / name, checkout / name
        if source.is_dir():
            shutil.copytree(
                source,
                destination,
                dirs_exist_ok=True,
                copy_function=shutil.copyfile,
                ignore=shutil.ignore_patterns("__pycache__"),
            )
        else:
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, destination)


def _commit(checkout: Path, message: str) -> None:
    _git(checkout, "add", "--all")
    _git(checkout, "commit", "--quiet", "-m", message)


def _git(checkout: Path, *arguments: str) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    settings = (word for setting in _SETTINGS for word in ("-c", setting))
    try:
        subprocess.run(
            ["git", "-C", str(checkout), *settings, *arguments],
            env=environment | _ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
        )
    except FileNotFoundError as problem:
        raise UsageProblem("the demo needs the git program, which was not found") from problem
    except subprocess.CalledProcessError as problem:
        said = problem.stderr.decode("utf-8", "replace").strip().split("\n")[-1]
        raise UsageProblem(f"the demo fork cannot be built: {said}") from problem
