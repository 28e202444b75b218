"""Says whether a tree holds a whole change: every symbol and file of it, tests and texts aside."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from auditor.drift.lines import Code, text_lines
from auditor.drift.one_symbol import Judged, PieceState, judge_code, judge_lines
from auditor.drift.reversible import stands
from auditor.errors import Unreadable
from auditor.model import Evidence
from auditor.repo.commits import Blobs, Edit, FileEdit
from auditor.repo.files import Files
from auditor.repo.git import Repository
from auditor.repo.snapshot import Snapshot
from auditor.repo.symbols import Definition, changed_symbols, definitions

State = Literal["present", "absent", "undecided"]

# What is not deployed decides nothing.
_ASIDE = re.compile(
    r"(?:^|/)(?:tests?|docs\w*|benchmarks?|examples?|assets|\.[\w-]+|scripts)/"
    r"|\.(?:md|rst|txt|ipynb|png|jpe?g|gif|svg)$|(?:^|/)(?:CODEOWNERS|\.git\w+)$"
)
_PIECES_SHOWN = 4
_FILE_WEIGHT = 3  # of a file that needs no closer look

_UNDECIDED: State = "undecided"


class Tree:
    """A side as root-relative paths with contents and definitions, each read and cut once.

    ``rest`` are the files outside of the package, where the snapshot does not have them.
    """

    def __init__(self, snapshot: Snapshot, rest: Files | None = None) -> None:
        self.snapshot = snapshot
        self._package = {snapshot.report_path(path): path for path in snapshot.paths}
        self._rest = rest or snapshot.files
        self._names = frozenset(self._rest.names)
        self._contents: dict[str, bytes | None] = {}
        self._codes: dict[tuple[str, str], tuple[int, Code] | None] = {}

    def __contains__(self, path: str) -> bool:
        return path in self._package or path in self._names

    def blob(self, path: str) -> str | None:
        """Git's SHA-1 id of a file's content, None where there is none or it cannot be read."""
        if path in self._package:
            package = self._package[path]
            return self.snapshot.content_ids((package,)).get(package)
        return self._rest.blob(path) if path in self._names else None

    def content(self, path: str) -> bytes | None:
        """The bytes of a file, None where there is none or it cannot be read."""
        if path not in self._contents:
            found: bytes | Unreadable | None = None
            if path in self._package:
                [(_, found)] = self.snapshot.read_many((self._package[path],))
            elif path in self._names:
                [found] = self._rest.read((path,))
            self._contents[path] = found if isinstance(found, bytes) else None
        return self._contents[path]

    def code(self, path: str, name: str) -> tuple[int, Code] | None:
        """The line and the code of a symbol, None where the file does not define it."""
        key = (path, name)
        if key not in self._codes:
            content = self.content(path)
            found = definitions(content, (name,)) if content is not None else {}
            places = found.get(name)
            self._codes[key] = (places[0].line, code_of(places)) if places else None
        return self._codes[key]


class Versions:
    """Contents and codes by git's id, each worked out once while they are needed."""

    def __init__(self, repository: Repository) -> None:
        self._blobs = Blobs(repository)
        self.contents: Mapping[str, bytes | None] = {}
        self._codes: dict[tuple[str, str], Code | None] = {}

    def load(self, edits: Sequence[Edit]) -> None:
        """Makes ready what some commits changed, and forgets the rest."""
        self.contents = self._blobs.load(
            [
                blob
                for edit in edits
                for file in edit.files
                if counts(file.path or file.old_path)
                for blob in (file.old_blob, file.blob)
            ]
        )
        self._codes = {key: code for key, code in self._codes.items() if key[0] in self.contents}

    def content(self, blob: str) -> bytes | None:
        """What a file held: nothing without an id, None where it cannot be read."""
        return self.contents.get(blob) if blob else b""

    def codes(self, blob: str, names: Sequence[str]) -> dict[str, Code | None]:
        """The code of each symbol, None for what is not defined there."""
        new = [name for name in names if (blob, name) not in self._codes]
        if new:
            found = definitions(self.content(blob) or b"", new)
            for name in new:
                self._codes[blob, name] = code_of(found[name]) if name in found else None
        return {name: self._codes[blob, name] for name in names}


def code_of(places: Sequence[Definition]) -> Code:
    """All definitions of one name as one."""
    return Code([part for place in places for part in place.body])


class Place(NamedTuple):
    """A symbol of a tree; ``line`` 0 where the tree does not have it."""

    path: str
    symbol: str
    line: int


class Piece(NamedTuple):
    """What a tree has of a change to one symbol, or to a file that is no Python."""

    place: Place
    judged: Judged


class Verdict(NamedTuple):
    """What a tree has of a change, in words and by place."""

    state: State
    reason: str
    evidence: tuple[Evidence, ...]
    pieces: tuple[Piece, ...]


Locate = Callable[[str, str], str]
"""Where a tree keeps what the change has at a path and symbol; "" where it has no such file."""


def counts(path: str) -> bool:
    """Whether a file of a change decides anything."""
    return not _ASIDE.search(path)


def judge(
    files: Sequence[FileEdit],
    versions: Versions,
    tree: Tree,
    base: Tree,
    locate: Locate,
    untouched: Callable[[str], bool] = lambda _: False,
) -> Verdict:
    """Whether ``tree`` holds the change, ``base`` being what the tree was made from.

    Present only where every piece of it is there; absent where none is. What lies in a file of the
    tree that is ``untouched`` since before the change is absent without a look. Where the pieces
    do not decide, a file from which the change could be taken back has it.
    """
    pieces: list[Piece] = []
    doubtful: list[tuple[str, bytes, bytes]] = []
    lacking = False
    unread = 0
    for file in files:
        path = file.path or file.old_path
        if not path or not counts(path):
            continue
        where = locate(path, "")
        stored = tree.blob(where) if where else None
        if stored and file.old_blob and stored in (file.old_blob, file.blob):
            state: PieceState = "absent" if stored == file.old_blob else "present"
            if file.old_blob != file.blob:
                lacking |= state == "absent"
                note = f"the file is as {'before' if state == 'absent' else 'after'} the change"
                pieces.append(Piece(Place(where, "", 1), Judged(state, note, _FILE_WEIGHT)))
            continue
        if stored and file.old_blob and untouched(where):
            note = "the file is as it was at the merge base"
            pieces.append(Piece(Place(where, "", 1), Judged("absent", note, _FILE_WEIGHT)))
            lacking = True
            continue
        old, new = versions.content(file.old_blob), versions.content(file.blob)
        if old is None or new is None:
            unread += 1
            continue
        if path.endswith(".py"):
            found = list(_code_pieces(file, (old, new), versions, tree, base, locate))
        else:
            found = list(_text_pieces(file, old, new, tree, base, locate))
        pieces += found
        if any(piece.judged.state not in ("present", "gone") for piece in found):
            doubtful.append((where, old, new))
    verdict = _verdict(pieces, unread)
    if verdict.state != "undecided" or unread or lacking or not doubtful:
        return verdict
    if not all(
        (content := tree.content(path)) is not None and stands(old, new, content)
        for path, old, new in doubtful
    ):
        return verdict
    reason = f"every changed place stands in it word for word; by symbol: {verdict.reason}"
    return verdict._replace(state="present", reason=reason)


def _code_pieces(
    file: FileEdit,
    contents: tuple[bytes, bytes],
    versions: Versions,
    tree: Tree,
    base: Tree,
    locate: Locate,
) -> Iterable[Piece]:
    names = (*changed_symbols(*contents), "")
    before, after = (versions.codes(blob, names) for blob in (file.old_blob, file.blob))
    for name in names:
        where = locate(file.path or file.old_path, name)
        there = tree.code(where, name) if where else None
        sides = (before[name], after[name])
        try:
            judged = judge_code(*sides, there[1] if there else None)
            if judged is not None and judged.state == "gone":
                had = base.code(where, name)
                was = judge_code(*sides, had[1] if had else None)
                if was is None or was.state != "absent":
                    judged = judged._replace(state="missing", note="never had what it removes")
        except RecursionError:
            judged = Judged("other", "is nested too deeply to compare", 1)
        if judged is not None:
            place = Place(where or file.path or file.old_path, name, there[0] if there else 0)
            yield Piece(place, judged)


def _text_pieces(
    file: FileEdit, old: bytes, new: bytes, tree: Tree, base: Tree, locate: Locate
) -> Iterable[Piece]:
    path = file.path or file.old_path
    where = locate(path, "")
    content = tree.content(where) if where else None
    place = Place(where or path, "", 1 if content is not None else 0)
    if old == new:
        return
    if b"\0" in old + new + (content or b""):
        equal = content is not None and content == new
        state: PieceState = "present" if equal else "other"
        yield Piece(place, Judged(state, "holds the same bytes" if equal else "is binary", 1))
        return
    lines = (text_lines(old), text_lines(new))
    flags = (not file.old_blob, not file.blob)
    if lines[0] == lines[1] and flags == (False, False):
        return
    judged = judge_lines(*lines, text_lines(content or b""), *flags, content is None)
    if judged.state == "gone":
        was = base.content(where)
        again = judge_lines(*lines, text_lines(was or b""), *flags, was is None)
        if again.state != "absent":
            judged = judged._replace(state="missing", note="never had what it removes")
    yield Piece(place, judged)


def _verdict(pieces: Sequence[Piece], unread: int) -> Verdict:
    by_state: dict[str, list[Piece]] = {}
    for piece in pieces:
        by_state.setdefault(piece.judged.state, []).append(piece)
    present, gone, absent, other, missing = (
        by_state.get(state, []) for state in ("present", "gone", "absent", "other", "missing")
    )
    if unread:
        state, reason = _UNDECIDED, f"{unread} of its files could not be read"
    elif not pieces:
        state, reason = _UNDECIDED, "it changes no code that could be compared"
    else:
        state, reason = _decided(present, gone, absent, other, missing)
    shown = [*present, *gone]
    if state == "absent":
        shown = [*absent, *other, *missing, *shown]
    if state == "undecided":  # what differs is why
        shown = [*other, *absent, *missing, *shown]
    shown = sorted(shown, key=lambda piece: not piece.place.symbol)
    evidence = tuple(
        Evidence(piece.place.path, piece.place.line, piece.place.symbol, piece.judged.note)
        for piece in sorted(shown[:_PIECES_SHOWN], key=lambda piece: piece.place)
    )
    return Verdict(state, reason, evidence, tuple(pieces))


def _decided(
    present: Sequence[Piece],
    gone: Sequence[Piece],
    absent: Sequence[Piece],
    other: Sequence[Piece],
    missing: Sequence[Piece],
) -> tuple[State, str]:
    """What the parts of a change say together, and why."""
    whole = sum(map(len, (present, gone, absent, other, missing)))
    if not (absent or other or missing):
        if not present:
            return "present", "what it removes was taken out here too"
        return "present", f"all {whole} changed parts hold it" if whole > 1 else (
            "the changed part holds it"
        )
    if absent and not (present or other):
        reason = _counted(absent, whole, "without it")
        return "absent", reason + (
            f", {_counted(missing, whole, 'not in this tree')}" if missing else ""
        )
    if not (absent or other):
        if present:
            held = _counted(present, whole, "hold it")
            return _UNDECIDED, f"{held}, the others are not in this tree"
        return _UNDECIDED, "the code that it changes is not in this tree"
    if _weight(absent) > 2 * _weight((*present, *other)):
        reason = _counted(absent, whole, "without it")
        reason += f", {_counted(other, whole, 'differ')}" if other else ""
        reason += f", only {_counted(present, whole, 'hold it')}" if present else ""
        return "absent", reason
    parts = [
        _counted(group, whole, what)
        for group, what in ((present, "hold it"), (other, "differ"), (absent, "without it"))
        if group
    ]
    kind = "partly there: " if present else "other code in its place: "
    return _UNDECIDED, kind + ", ".join(parts)


def _counted(group: Sequence[Piece], whole: int, what: str) -> str:
    return f"{len(group)} of {whole} changed parts {what}"


def _weight(group: Sequence[Piece]) -> int:
    return sum(piece.judged.weight for piece in group)
