"""Lists commits with the files that each one changed, from git objects alone."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from auditor.repo.files import MAX_PYTHON, printable
from auditor.repo.git import REGULAR, Repository

MAX_MESSAGE = 16_384
"""Characters kept of a message; it is the author's to make as long as they like."""
MAX_SUBJECT = 500
"""Characters kept of a subject: git makes it of all lines up to the first empty one."""
_AT_ONCE = 500  # ids on one command line


class FileEdit(msgspec.Struct, frozen=True):
    """How a commit changed one file; paths from the repository's root, blobs by git's id.

    ``old_path`` and ``old_blob`` are "" for an added file, ``path`` and ``blob`` for a deleted one.
    Modes that are no regular file (links, submodules) have no blob either.
    """

    old_path: str
    path: str
    old_blob: str
    blob: str


class Edit(msgspec.Struct, frozen=True):
    """A commit with one parent, as a change; ``date`` is the committer's, ISO 8601.

    ``parent`` is "" for a root or where a shallow clone ends: then ``files`` is empty, since git
    would list the whole tree.
    """

    sha: str
    parent: str
    date: str
    subject: str
    message: str
    files: tuple[FileEdit, ...]


def edits(repository: Repository, tip: str, without: Sequence[str], limit: int) -> tuple[Edit, ...]:
    """The commits of ``tip`` that none of ``without`` has, newest first; merges are left out.

    Renames are followed as git does. At most ``limit``. Raises GitError.
    """
    # Names and messages follow a commit's line; they cannot hold this mark.
    mark = secrets.token_hex(16)
    out = repository.run(
        *("log", "-z", "--raw", "--no-abbrev", "--find-renames", "--no-merges", "--topo-order"),
        *("--no-ext-diff", "--no-textconv", "--no-show-signature", "--no-mailmap", "--no-color"),
        *("--no-notes", "--encoding=UTF-8", f"--max-count={limit}"),
        *(f"--format={mark}%H%x00%P%x00%cI%x00%s%x00%B%x00", "--end-of-options"),
        *(tip, *(f"^{commit}" for commit in without)),
    )
    return tuple(_edit(record) for record in out.split(mark.encode())[1:])


def _edit(record: bytes) -> Edit:
    sha, parents, date, subject, message, *rest = record.split(b"\0")
    fields = iter(rest)
    files = []
    for field in fields:
        meta = field.lstrip(b"\n")
        if not meta.startswith(b":"):
            continue
        old_mode, mode, old_blob, blob, status = meta[1:].decode("ascii").split(" ")
        first = printable(next(fields))
        second = printable(next(fields)) if status[0] in "RC" else first
        there, before = mode in REGULAR, old_mode in REGULAR and status[0] != "C"
        files.append(
            FileEdit(
                first if before else "",
                second if there else "",
                old_blob if before else "",
                blob if there else "",
            )
        )
    parent = parents.decode("ascii").split(" ")[0]
    return Edit(
        sha.decode("ascii"),
        parent,
        date.decode("ascii"),
        subject[: MAX_SUBJECT * 4].decode("utf-8", "replace")[:MAX_SUBJECT],
        message[: MAX_MESSAGE * 4].decode("utf-8", "replace")[:MAX_MESSAGE],
        tuple(files) if parent else (),
    )


def equal_patches(repository: Repository, mine: str, theirs: str) -> frozenset[str]:
    """The commits of both sides whose patch the other side has too, by git's patch id.

    Raises GitError.
    """
    out = repository.run(
        *("rev-list", "--cherry-mark", "--left-right", "--no-merges", "--no-ext-diff"),
        *("--no-textconv", "--end-of-options", f"{mine}...{theirs}"),
    ).decode("ascii")
    return frozenset(line[1:] for line in out.split() if line.startswith("="))


def trees(repository: Repository, commits: Sequence[str]) -> dict[str, str]:
    """The tree of each commit. Raises GitError."""
    found: dict[str, str] = {}
    for group in _grouped(commits):
        out = repository.run("log", "--no-walk", "--no-color", "--format=%H %T", *group)
        words = out.decode("ascii").split()
        found |= dict(zip(words[0::2], words[1::2], strict=True))
    return found


def sizes(repository: Repository, commits: Sequence[str]) -> dict[str, tuple[int, int, int]]:
    """Files, added lines and removed lines of each commit; binary files have no lines.

    Raises GitError.
    """
    mark = secrets.token_hex(16)
    found = {}
    for group in _grouped(commits):
        out = repository.run(
            *("log", "--no-walk=unsorted", "-z", "--numstat", "--no-renames", "--no-ext-diff"),
            *("--no-textconv", "--no-show-signature", "--no-color", f"--format={mark}%H", *group),
        )
        for record in out.split(mark.encode())[1:]:
            sha, *rows = record.split(b"\0")
            counts = [row.lstrip(b"\n").split(b"\t")[:2] for row in rows if b"\t" in row]
            added, removed = (
                sum(int(row[at]) for row in counts if row[at].isdigit()) for at in (0, 1)
            )
            found[sha.decode("ascii").strip()] = (len(counts), added, removed)
    return found


def _grouped(commits: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(commits), _AT_ONCE):
        yield commits[start : start + _AT_ONCE]


class Blobs:
    """Contents by git's id, each read once; ``load`` reads many at the cost of one process."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._contents: dict[str, bytes | None] = {}

    def load(self, ids: Sequence[str]) -> Mapping[str, bytes | None]:
        """These contents; None for what is absent, damaged or too large. Forgets all others."""
        wanted = dict.fromkeys(blob for blob in ids if blob)
        new = [blob for blob in wanted if blob not in self._contents]
        read = self._repository.blobs(new, [MAX_PYTHON] * len(new)) if new else iter(())
        contents = {
            blob: content if isinstance(content, bytes) else None
            for blob, content in zip(new, read, strict=True)
        }
        kept = {blob: self._contents[blob] for blob in wanted if blob in self._contents}
        self._contents = kept | contents
        return self._contents
