"""Runs git on a repository that may be hostile; the only importer of GitPython.

A repository's own configuration can name programs that git starts (`core.fsmonitor`,
`diff.external`, `filter.*.clean`, `gpg.program`, `core.sshCommand`, hooks). The commands used
here read the index and the object database only, with those settings switched off and every
transport closed; nothing ever makes git compare the work tree.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO
from urllib.parse import quote, urlsplit

from auditor.errors import Unreadable, UsageProblem

if TYPE_CHECKING:
    from git import Git

_ENVIRONMENT = {
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_REPLACE_OBJECTS": "1",
    # Grafts rewrite ancestry as replace references rewrite objects.
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_LITERAL_PATHSPECS": "1",
}
_SETTINGS = (
    "core.fsmonitor=false",
    f"core.hooksPath={os.devnull}",
    f"core.attributesFile={os.devnull}",
    "core.quotePath=false",
    "log.showSignature=false",
)
# Where the user's own configuration is, and how far discovery may go: theirs to say. Everything
# else (GIT_DIR in a hook, GIT_INDEX_FILE, GIT_WORK_TREE, GIT_TRACE, …) would point git elsewhere.
_KEPT_VARIABLE = re.compile(
    r"GIT_(?:CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM|COUNT|KEY_\d+|VALUE_\d+)|CEILING_DIRECTORIES"
    r"|DISCOVERY_ACROSS_FILESYSTEM|EXEC_PATH|PYTHON_\w+)"
)
# An object that git cannot read ends the reading process; past this many starts the rest of the
# request counts as unreadable too.
_MAX_RESTARTS = 50

REGULAR = frozenset({"100644", "100755", "100664"})
SYMLINK = "120000"
SUBMODULE = "160000"


class GitError(Exception):
    """A git command failed; the message is git's own, in one line."""


@dataclass(frozen=True)
class Entry:
    """One name in a tree or an index; ``tag`` is git's letter (`S` sparse, `M` unmerged, `?`)."""

    name: bytes
    mode: str
    blob: str
    tag: str = "H"


def run_git(
    arguments: Sequence[str],
    *,
    environment: dict[str, str] | None = None,
    accept: Sequence[int] = (0,),
    stdin: BinaryIO | None = None,
) -> bytes:
    """The bytes a hardened git command wrote on stdout; ``stdin`` is an open file, if any.

    Raises GitError when it exits with a status outside ``accept``.
    """
    status, out, err = _git().execute(
        _command(arguments),
        env=_ENVIRONMENT | (environment or {}),
        with_extended_output=True,
        with_exceptions=False,
        stdout_as_string=False,
        strip_newline_in_stdout=False,
        istream=stdin,
        shell=False,
    )
    if status not in accept:
        raise _failure(str(err), int(status))
    return bytes(out)


def _failure(stderr: str, status: int) -> GitError | UsageProblem:
    """The error of a command; one that names its own way out is for the user as it is."""
    # The second wording is that of git 2.35.
    refused = re.search(
        r"(?:dubious ownership in repository at|unsafe repository \() ?'(.*?)'", stderr
    )
    if refused:
        return UsageProblem(
            f"git refuses {refused[1]}, which belongs to another user; if you trust it: "
            f"git config --global --add safe.directory {shlex.quote(refused[1])}"
        )
    fatal = [line for line in stderr.splitlines() if line.startswith(("fatal:", "error:"))]
    return GitError(fatal[-1].partition(": ")[2] if fatal else f"git ended with status {status}")


# A host needs a dot: a name without one is this machine's own, or an alias of its owner's.
_HOST = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)+")
_SCP = re.compile(r"(?:[^@/:\s]+@)?([A-Za-z0-9.-]+):(?!//)(\S+)")


@dataclass(frozen=True, eq=False)
class Repository:
    """A repository found by git; ``work_tree`` is None for a bare one or a mirror."""

    directory: Path
    work_tree: Path | None
    shallow: bool

    def run(self, *arguments: str, accept: Sequence[int] = (0,)) -> bytes:
        """The output of a hardened git command in this repository."""
        # core.worktree may name any folder of the machine; the variable outranks it.
        environment = {"GIT_WORK_TREE": str(self.work_tree)} if self.work_tree else None
        return run_git(
            ("-C", str(self.directory), *arguments), environment=environment, accept=accept
        )

    def line(self, *arguments: str) -> str | None:
        """The one line a command prints, None when it fails or prints nothing."""
        try:
            return self.run(*arguments).decode("utf-8", "replace").strip() or None
        except GitError:
            return None

    def commit(self, reference: str) -> str | None:
        """The id of the commit that a reference names, None when it names no commit."""
        revision = f"{reference}^{{commit}}"
        found = self.line("rev-parse", "--verify", "--quiet", "--end-of-options", revision)
        # A negated reference resolves too, to a negated id.
        return found if found and re.fullmatch(r"[0-9a-f]{40,64}", found) else None

    def tags(self, merged_into: str | None = None) -> tuple[str, ...]:
        """All tag names, or those of the tags that are ancestors of a commit."""
        merged = [f"--merged={merged_into}"] if merged_into else []
        out = self.run("for-each-ref", "--format=%(refname:strip=2)", *merged, "refs/tags")
        return tuple(out.decode("utf-8", "replace").splitlines())

    def references(self, *below: str) -> dict[str, str]:
        """Full names of references below some prefixes, with the commit that each leads to.

        References to anything else (a tag of a file) are left out.
        """
        peeled = "%(refname) %(objecttype) %(objectname) %(*objecttype) %(*objectname)"
        out = self.run("for-each-ref", f"--format={peeled}", *below).decode("utf-8", "replace")
        found: dict[str, str | None] = {}
        for name, *told in (line.rstrip().split(" ") for line in out.splitlines()):
            ids = dict(zip(told[-2::-2], told[-1::-2], strict=True))
            # A tag of a tag is the rare one that needs a process of its own.
            found[name] = ids.get("commit") or (self.commit(name) if "tag" in ids else None)
        return {name: commit for name, commit in found.items() if commit is not None}

    @cached_property
    def remotes(self) -> dict[str, str]:
        """The remotes by name, with the address of each without user, secret and query."""
        out = self.line("config", "--get-regexp", r"^remote\..*\.url$") or ""
        pairs = (line.partition(" ") for line in out.splitlines())
        return {key[len("remote.") : -len(".url")]: public_uri(url) for key, _, url in pairs}

    def tree(self, commit: str) -> list[Entry]:
        """Every name in a commit's tree, in git's order."""
        out = self.run("ls-tree", "-r", "-z", "--full-tree", "--end-of-options", commit)
        entries = []
        for record in out.split(b"\0")[:-1]:
            meta, _, name = record.partition(b"\t")
            mode, _, blob = meta.decode("ascii").split(" ")
            entries.append(Entry(name, mode, blob))
        return entries

    def index(self, folder: str) -> list[Entry]:
        """The index below a folder ("" for all) and the untracked names that are not ignored.

        An untracked name has mode and blob "". An unmerged name comes once.
        """
        where = ("--", folder) if folder else ()
        out = self.run(
            *("ls-files", "-t", "-s", "-o", "-z", "--exclude-standard"),
            *("--no-recurse-submodules", *where),
        )
        entries: dict[bytes, Entry] = {}
        for record in out.split(b"\0")[:-1]:
            if record.startswith(b"? "):
                name = record[2:]
                entries.setdefault(name, Entry(name, "", "", "?"))
            else:
                meta, _, name = record.partition(b"\t")
                tag, mode, blob, _ = meta.decode("ascii").split(" ")
                entries[name] = Entry(name, mode, blob, tag)
        return list(entries.values())

    def tracks(self, folder: str) -> bool:
        """Whether the index holds anything below a folder."""
        return bool(self.run("ls-files", "-z", "--no-recurse-submodules", "--", folder))

    @cached_property
    def promisor(self) -> str | None:
        """The remote that a partial clone left objects at, None for a complete repository."""
        keys = self.line("config", "--name-only", "--get-regexp", r"^remote\..*\.promisor$")
        return keys.splitlines()[0][len("remote.") : -len(".promisor")] if keys else None

    @cached_property
    def uri(self) -> str:
        """Where ``origin`` lies, without user, secret and query; empty for this machine."""
        return public_uri(self.line("config", "--get", "remote.origin.url") or "")

    def missing(self, commit: str) -> frozenset[str]:
        """The objects of a commit's tree that a partial clone does not have."""
        if self.promisor is None:
            return frozenset()
        out = self.run(
            *("rev-list", "--objects", "--no-object-names", "--missing=print", "--max-count=1"),
            *("--end-of-options", commit),
        )
        return frozenset(line[1:] for line in out.decode("ascii").split() if line[0] == "?")

    def absence(self) -> str:
        """Why an object may be absent and, in a partial clone, the command that brings it."""
        if self.promisor is None:
            return "not in the object database (damaged or incomplete repository)"
        fetch = f"git fetch --refetch --no-filter {shlex.quote(self.promisor)}"
        return f"not in this partial clone; bring it with: {fetch}"

    def blobs(self, ids: Sequence[str], limits: Sequence[int]) -> Iterator[bytes | Unreadable]:
        """The content of each blob, in order, true to its id.

        Unreadable where it is absent, damaged, or larger than its limit in bytes.
        """
        position = 0
        for _ in range(_MAX_RESTARTS):
            if position == len(ids):
                return
            for content in self._batch(ids[position:], limits[position:]):
                position += 1
                yield content
        for _ in ids[position:]:
            yield Unreadable(self.absence())

    def _batch(self, ids: Sequence[str], limits: Sequence[int]) -> Iterator[bytes | Unreadable]:
        """What one `git cat-file --batch` answers; at least one object, and ends after a bad one.

        Git dies of some damaged objects, and writes less than it announced of others.
        """
        running = _git().execute(
            _command(("-C", str(self.directory), "cat-file", "--batch", "--buffer")),
            env=_ENVIRONMENT,
            as_process=True,
            istream=subprocess.PIPE,
            shell=False,
        )
        process = running.proc
        assert process is not None and process.stdin is not None and process.stdout is not None
        # Git blocks once its output pipe is full, so the requests come from a thread.
        feeder = threading.Thread(target=_feed, args=(process.stdin, ids), daemon=True)
        feeder.start()
        try:
            for blob, limit in zip(ids, limits, strict=True):
                header = process.stdout.readline().split()
                if header == [blob.encode(), b"missing"]:
                    yield Unreadable(self.absence())
                    continue
                if len(header) != 3 or header[0] != blob.encode():
                    yield Unreadable(self.absence())
                    return
                kind, size = header[1], int(header[2])
                if kind == b"blob" and size <= limit:
                    content = process.stdout.read(size + 1)[:-1]
                    if blob_id(content, len(blob)) != blob:
                        yield Unreadable("damaged: the content is not that of its id")
                        return
                    yield content
                    continue
                remaining = size + 1
                while remaining > 0:
                    remaining -= len(process.stdout.read(min(remaining, 1 << 20))) or remaining
                yield too_large(size, limit) if kind == b"blob" else Unreadable("not a file")
        finally:
            process.kill()
            feeder.join()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


def blob_id(content: bytes, digits: int = 40) -> str:
    """The id that git gives a file's content: 40 digits of SHA-1, or 64 of SHA-256."""
    make = hashlib.sha1 if digits == 40 else hashlib.sha256
    return make(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def too_large(size: int, limit: int) -> Unreadable:
    """The refusal of a file above its limit, both in bytes."""
    return Unreadable(f"too large: {size / 2**20:.1f} MiB, the limit is {limit // 2**20} MiB")


def discover(path: Path) -> Repository | None:
    """The repository that a resolved, existing folder belongs to, None where there is none.

    Raises UsageProblem when git refuses the repository ("dubious ownership") or cannot open it.
    """
    question = ("--is-bare-repository", "--is-inside-git-dir", "--is-shallow-repository")
    try:
        answer = run_git(("-C", str(path), "rev-parse", *question)).decode().split()
    except GitError as failure:
        if "not a git repository" in str(failure):
            return None
        raise UsageProblem(f"git cannot open {path}: {failure}") from None
    bare, inside, shallow = (word == "true" for word in answer)
    work_tree = None if bare or inside else _work_tree(path)
    return Repository(work_tree or path, work_tree, shallow)


def public_uri(url: str) -> str:
    """The address of a remote as a report may name it, empty for a path or what is none.

    Every part that may hold a secret is dropped; ``git@host:path`` becomes ``ssh://host/path``.
    """
    short = _SCP.fullmatch(url)
    if short:
        url = f"ssh://{short[1]}/{short[2].lstrip('/')}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("https", "http", "ssh", "git") or not _HOST.fullmatch(host):
        return ""
    at = f":{port}" if port else ""
    return f"{parts.scheme}://{host}{at}{quote(parts.path, safe='/%-._~')}"


def _work_tree(path: Path) -> Path | None:
    """The nearest ancestor that git takes for the top of a checkout, by its `.git`."""
    for folder in (path, *path.parents):
        marker = folder / ".git"
        if marker.is_file() or (marker / "HEAD").exists() or (marker / "HEAD").is_symlink():
            return folder
    return None


def _feed(stream: IO[bytes], ids: Sequence[str]) -> None:
    with contextlib.suppress(BrokenPipeError), stream:
        stream.write("".join(f"{blob}\n" for blob in ids).encode("ascii"))


def _command(arguments: Sequence[str]) -> list[str]:
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    return [_git().GIT_PYTHON_GIT_EXECUTABLE or "git", "--no-pager", *settings, *arguments]


def _git() -> Git:
    """GitPython's command runner; imported late, since the import costs some 45 ms."""
    # It starts every process with the whole environment and can only add to it. Nothing else in
    # this process wants these variables, so they go for good.
    for name in list(os.environ):
        if name.startswith("GIT_") and not _KEPT_VARIABLE.fullmatch(name):
            del os.environ[name]
    try:
        import git
    except ImportError:
        raise UsageProblem("the git program was not found; install git to audit") from None
    return git.Git()
