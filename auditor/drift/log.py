"""What the fork's log says of its commits: where they come from, and which take others back."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from auditor.drift.judge import Verdict, counts
from auditor.model import Evidence
from auditor.repo.commits import Blobs, Edit

REVERT = re.compile(r"^\W*(?:\[[^\]]*\]\W*)*revert", re.IGNORECASE)
"""The subject of a commit that takes another one back."""
NUMBER = re.compile(r"\(#(\d{1,7})\)\s*$")
"""The number of a pull request, at the end of a line."""
_PICKED = re.compile(r"^\(cherry picked from commit ([0-9a-f]{40,64})\)\s*$", re.MULTILINE)
_REVERTED = re.compile(r"^This reverts commit ([0-9a-f]{40,64})", re.MULTILINE)
_QUOTED = re.compile(r'^Revert "(.+)"(?: \(#\d+\))?$')  # as git and GitHub write it


class Log:
    """What the messages and patches of the fork's commits prove: presence, never absence.

    ``equal`` are the upstream commits that the fork has an equal patch of.
    """

    def __init__(self, own: Sequence[Edit], equal: frozenset[str]) -> None:
        self.equal = equal
        self.picked: dict[str, Edit] = {}
        self.numbers: dict[int, list[Edit]] = {}
        reverted = {sha for edit in own for sha in _REVERTED.findall(edit.message)}
        undone = {
            number
            for edit in own
            if REVERT.search(edit.subject)
            for number in map(int, re.findall(r"#(\d{1,7})\b", edit.subject))
        }
        for edit in own:
            if REVERT.search(edit.subject) or edit.sha in reverted:
                continue
            for sha in _PICKED.findall(edit.message):
                self.picked.setdefault(sha, edit)
            for line in edit.message.splitlines():
                number = NUMBER.search(line)
                if number and int(number[1]) not in undone and not REVERT.search(line):
                    self.numbers.setdefault(int(number[1]), []).append(edit)

    def weigh(self, edit: Edit, verdict: Verdict) -> Verdict:
        """The verdict with what the log says; code that plainly lacks the change outweighs it."""
        told, proof = self._told(edit)
        if not told:
            return verdict
        if verdict.state == "present":
            return verdict._replace(reason=f"{verdict.reason}; {told}")
        states = {piece.judged.state for piece in verdict.pieces}
        if "absent" not in states and (proof or "present" in states):
            evidence = (Evidence("", 0, "", told), *verdict.evidence)
            reason = f"{told}; by content: {verdict.reason}"
            return Verdict("present", reason, evidence, verdict.pieces)
        return verdict._replace(reason=f"{verdict.reason}, although {told}")

    def _told(self, edit: Edit) -> tuple[str, bool]:
        """What the log says of an upstream commit, and whether that stands without its content."""
        if edit.sha in self.equal:
            return "an equal patch is in the fork's log", True
        if edit.sha in self.picked:
            return f"{self.picked[edit.sha].sha[:10]} names it as its source", False
        number = NUMBER.search(edit.subject)
        files = {file.path for file in edit.files if counts(file.path or file.old_path)}
        for own in self.numbers.get(int(number[1]), ()) if number else ():
            if files & {file.path for file in own.files}:
                return f"{own.sha[:10]} in the fork's log has its number", False
        return "", False


def taken_back(own: Sequence[Edit], blobs: Blobs) -> dict[str, str]:
    """Commits that another one takes back, and those others, each with what is to be said of it.

    ``own`` is in the order of a log, the newest first. The message only proposes; both must change
    the same files, and the one must take out the very lines that the other put in. What was
    reverted and put in again stands.
    """
    pairs: dict[str, str] = {}
    order = {edit.sha: number for number, edit in enumerate(own)}
    for number, edit in enumerate(own):
        if edit.sha in pairs:
            continue
        named = [own[order[sha]] for sha in _REVERTED.findall(edit.message) if sha in order]
        quoted = _QUOTED.match(edit.subject)
        if quoted and not named:
            named = [other for other in own[number + 1 :] if other.subject == quoted[1]]
        for other in named[:1]:
            if order[other.sha] > number and other.sha not in pairs and _undoes(edit, other, blobs):
                pairs[edit.sha] = f"it takes {other.sha[:10]} back"
                pairs[other.sha] = f"{edit.sha[:10]} takes it back"
    return pairs


def _undoes(edit: Edit, other: Edit, blobs: Blobs) -> bool:
    files = {(file.old_path, file.path): file for file in edit.files}
    if ("", "") in files or files.keys() != {(file.path, file.old_path) for file in other.files}:
        return False  # a link or a submodule has no content to compare
    pairs = [(done, files[done.path, done.old_path]) for done in other.files]
    unlike = [
        (done.old_blob, done.blob, undone.blob, undone.old_blob)
        for done, undone in pairs
        if (undone.old_blob, undone.blob) != (done.blob, done.old_blob)
    ]
    contents = blobs.load([blob for ids in unlike for blob in ids])
    for before, after, again, instead in unlike:
        lines = _gained(before, after, contents)
        if not lines or lines != _gained(again, instead, contents):
            return False
    return bool(files)


def _gained(old: str, new: str, contents: Mapping[str, bytes | None]) -> dict[bytes, int] | None:
    """How many more of each line a file has than before, fewer below 0; None where unreadable."""
    before, after = (contents.get(blob) if blob else b"" for blob in (old, new))
    if before is None or after is None:
        return None
    lines = Counter(after.splitlines())
    lines.subtract(before.splitlines())
    return {line: number for line, number in lines.items() if number}
