"""Tries merges in a temporary repository that borrows the objects of another one.

Nothing is written to the repository that lends them, and none of its configuration (which may name
merge drivers, that is: programs) is read.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from auditor.repo.git import GitError, Repository, run_git

_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_COUNT": "0",
}
_MOST_LOOSE = 50_000  # git packs them by itself from 6,700 on
_NOBODY = b"committer audit <audit> 0 +0000\ndata 0\n"


class Trial(NamedTuple):
    """A three-way merge of whole trees, each by its id: what ``theirs`` did to ``base``."""

    base: str
    ours: str
    theirs: str


class Scratch:
    """The temporary repository; see ``scratch``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def tree(self, start: str | None, files: Mapping[str, bytes | None]) -> str:
        """The id of a tree with files added, replaced or (None) deleted. Raises GitError."""
        lines = [b"commit refs/audit/tree\n", _NOBODY]
        if start is not None:
            lines.append(b"M 040000 %s \n" % start.encode())
        for path, content in sorted(files.items()):
            name = _quoted(path)
            if content is None:
                lines.append(b"D %s\n" % name)
            else:
                lines.append(b"M 100644 inline %s\ndata %d\n%s\n" % (name, len(content), content))
        self._run(b"".join(lines), "fast-import", "--quiet", "--force")
        return self._run(b"", "rev-parse", "refs/audit/tree^{tree}").decode("ascii").strip()

    def conflicts(self, trials: Sequence[Trial]) -> list[frozenset[str] | None]:
        """The paths in conflict of each merge, in order: none, if it is clean.

        None stands for a merge that could not be tried (an object is missing, or git is older than
        2.39).
        """
        answers: list[frozenset[str] | None] = []
        while len(answers) < len(trials):
            left = trials[len(answers) :]
            answers += self._merged(left)
            if len(answers) < len(trials):
                # Git ends at the first merge that it cannot even try.
                answers.append(None)
                if not any(answer is not None for answer in answers):
                    return [None] * len(trials)
        return answers

    def _merged(self, trials: Sequence[Trial]) -> list[frozenset[str] | None]:
        commits = []
        for number, trial in enumerate(trials):
            base = 3 * number + 1
            commits += [
                b"reset refs/audit/merge\n",
                *(b"commit refs/audit/merge\nmark :%d\n" % base, _NOBODY),
                b"M 040000 %s \n" % trial.base.encode(),
            ]
            for mark, tree in ((base + 1, trial.ours), (base + 2, trial.theirs)):
                commits += [
                    *(b"commit refs/audit/merge\nmark :%d\n" % mark, _NOBODY),
                    b"from :%d\nM 040000 %s \n" % (base, tree.encode()),
                ]
        marks = self.folder / "marks"
        try:
            options = ("--quiet", "--force", f"--export-marks={marks}")
            self._run(b"".join(commits), "fast-import", *options)
        except GitError:
            return self._one_by_one(trials)
        made = [line.split()[1] for line in sorted(marks.read_text().splitlines(), key=_mark)]
        requests = "".join(f"{made[at + 1]} {made[at + 2]}\n" for at in range(0, len(made), 3))
        asked = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "--stdin")
        # Whatever the status, what has been answered counts.
        return list(_answers(self._run(requests.encode(), *asked, accept=range(256))))

    def _one_by_one(self, trials: Sequence[Trial]) -> list[frozenset[str] | None]:
        """The same where a tree is missing, which spoils a whole import."""
        if len(trials) == 1:
            return [None]
        half = len(trials) // 2
        first = self.conflicts(trials[:half])
        return first + self.conflicts(trials[half:])

    def _run(self, text: bytes, *arguments: str, accept: Sequence[int] = (0,)) -> bytes:
        with tempfile.TemporaryFile() as stdin:
            stdin.write(text)
            stdin.seek(0)
            command = ("-C", str(self.folder), *arguments)
            return run_git(command, environment=_ENVIRONMENT, accept=accept, stdin=stdin)


@contextmanager
def scratch(lender: Repository | None) -> Iterator[Scratch]:
    """A temporary repository that can read every object of ``lender``. Raises GitError."""
    with tempfile.TemporaryDirectory(prefix="audit-") as name:
        folder = Path(name).resolve() / "scratch.git"
        form = "sha1"
        if lender is not None:
            form = lender.line("rev-parse", "--show-object-format") or form
        run_git(
            ("init", "--quiet", "--bare", "--template=", f"--object-format={form}", str(folder)),
            environment=_ENVIRONMENT,
        )
        if lender is not None:
            try:
                for source in _object_folders(lender):
                    _borrow(source, folder / "objects")
            except OSError as problem:
                raise GitError(f"its objects cannot be borrowed: {problem.strerror}") from None
        yield Scratch(folder)


def _object_folders(lender: Repository) -> list[Path]:
    """Where a repository keeps objects: its own folder and those it borrows from itself."""
    own = os.fsdecode(lender.run("rev-parse", "--git-path", "objects").removesuffix(b"\n"))
    told = lender.run("count-objects", "-v").splitlines()
    others = [os.fsdecode(line[11:]) for line in told if line.startswith(b"alternate: ")]
    return [lender.directory / path for path in (own, *others)]


def _borrow(source: Path, into: Path) -> None:
    """Makes the objects of a folder readable without letting git touch them.

    Git renews the time of an object, or of its pack, when it would write it again, also where it
    belongs to an alternate. It leaves packs alone that have a file of times beside them ("cruft").
    """
    (into / "pack").mkdir(exist_ok=True)
    for index in (source / "pack").glob("pack-*.idx"):
        pack = index.with_suffix(".pack")
        twin = into / "pack" / index.name
        if pack.is_file() and not twin.exists():
            twin.symlink_to(index.resolve())
            twin.with_suffix(".pack").symlink_to(pack.resolve())
            twin.with_suffix(".mtimes").touch()
    loose = 0
    for shelf in source.glob("[0-9a-f][0-9a-f]"):
        (into / shelf.name).mkdir(exist_ok=True)
        for item in shelf.iterdir():
            loose += 1
            if loose > _MOST_LOOSE:
                raise GitError(f"it has more than {_MOST_LOOSE:,} loose objects; git gc packs them")
            if item.is_file():
                shutil.copyfile(item, into / shelf.name / item.name)


def _mark(line: str) -> int:
    return int(line.split(maxsplit=1)[0][1:])


def _quoted(path: str) -> bytes:
    return _quoted_bytes(path.encode("utf-8", "surrogateescape"))


def _quoted_bytes(path: bytes) -> bytes:
    escaped = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + escaped + b'"'


def _answers(out: bytes) -> Iterator[frozenset[str]]:
    """One answer a merge: status, tree, then the names in conflict, and an empty field."""
    fields = iter(out.split(b"\0"))
    for status in fields:
        if status.strip() not in (b"0", b"1"):
            return
        next(fields, b"")
        names = []
        for field in fields:
            if not field:
                break
            names.append(field.decode("utf-8", "backslashreplace"))
        yield frozenset(names)
