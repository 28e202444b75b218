"""Fixtures shared by the tests: tiny git repositories made from a dict of files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

_IDENTITY = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


@dataclass(frozen=True)
class TinyRepository:
    """A repository under a temporary folder; paths are relative to its top."""

    top: Path

    def git(self, *arguments: str, check: bool = True, text: str | None = None) -> str:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
        done = subprocess.run(
            ["git", "-C", str(self.top), "-c", "protocol.file.allow=always", *arguments],
            env=environment | _IDENTITY,
            input=text,
            check=check,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def write(self, files: Mapping[str, str | bytes]) -> None:
        for name, content in files.items():
            path = self.top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)

    def commit(
        self, files: Mapping[str, str | bytes] | None = None, message: str = "change", tag: str = ""
    ) -> str:
        """Writes files, commits everything, and gives the commit's id."""
        self.write(files or {})
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)
        if tag:
            self.git("tag", tag)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def tiny_repository(tmp_path: Path) -> Callable[..., TinyRepository]:
    """Makes a repository with one commit of the given files, tagged ``v0.5.9``."""

    def make(files: Mapping[str, str | bytes], name: str = "fork") -> TinyRepository:
        repository = TinyRepository(tmp_path / name)
        repository.top.mkdir()
        repository.git("init", "--quiet", "--initial-branch=main")
        repository.commit(files, "first", "v0.5.9")
        return repository

    return make
