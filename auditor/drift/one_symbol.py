"""Says whether a tree holds a change to one symbol, by comparing parent, change and tree."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from difflib import SequenceMatcher, get_close_matches
from typing import Literal, NamedTuple

from auditor.drift.lines import Code, Line, renamed_like, told

PieceState = Literal["present", "gone", "absent", "other", "missing"]
"""What a tree has of a change to one symbol.

``present``: the added lines are there and the removed ones are not. ``gone``: there was only
something to remove, and it is not there. ``absent``: none of it. ``other``: some of it, or other
code in its place. ``missing``: the tree has no such symbol.
"""

_MOST_LINES = 4000
_CLIP = 72  # characters of a line that is shown
_WORD = re.compile(r"\w+")
_TELLING = 12  # characters of code that a coincidence rarely writes
_ALIKE = 0.7  # of two lines, that one may be the other adapted
_COINCIDENCE = 0.15  # of the added code, found there, proves nothing


class Judged(NamedTuple):
    """``weight`` is the number of changed lines; ``note`` a clause on what was seen."""

    state: PieceState
    note: str
    weight: int


def judge_code(old: Code | None, new: Code | None, tree: Code | None) -> Judged | None:
    """A change from ``old`` to ``new`` against what the tree has; None of a code: no such symbol.

    The answer None: the change is one of layout, comments or imports. Raises RecursionError.
    """
    before, after = (code.lines if code else [] for code in (old, new))
    if before == after and (old is None) == (new is None):
        return None
    flags = (old is None, new is None, tree is None)
    judged = judge_lines(before, after, tree.lines if tree else [], *flags)
    if tree is None or new is None:
        return judged
    strange = new.locals - tree.names
    if judged.state in ("absent", "other") and strange & _words(Counter(after) - Counter(before)):
        alike = renamed_like(tree, new)
        again = judge_lines(before, after, alike, *flags) if alike is not None else judged
        if again.state == "present":
            return again._replace(note=f"{again.note}, under other local names")
        return again if judged.state == "absent" else judged
    if judged.state in ("present", "gone") and old is not None:
        strange = old.locals - tree.names
        if strange & _words(Counter(before) - Counter(after)):
            # What was removed may still be there, under other names.
            alike = renamed_like(tree, old)
            if alike is not None:
                again = judge_lines(before, after, alike, *flags)
                return again if again.state not in ("present", "gone") else judged
    return judged


def judge_lines(
    old: Sequence[Line],
    new: Sequence[Line],
    tree: Sequence[Line],
    added: bool = False,
    removed: bool = False,
    missing: bool = False,
) -> Judged:
    """The same on lines; the flags say which sides do not have the symbol at all."""
    had, has = Counter(old), Counter(new)
    weight = (has - had).total() + (had - has).total() or 1
    if removed or missing:
        return _judge_absence(added, removed, missing, weight)
    if max(map(len, (old, new, tree))) > _MOST_LINES:
        return Judged("other", "is too long to compare", weight)
    found = Counter(tree)
    plus = {line: n for line, n in has.items() if n > had[line]}
    minus = {line: n for line, n in had.items() if n > has[line]}
    if added:
        if all(found[line] >= n for line, n in plus.items()) and _in_order(new, tree):
            return Judged("present", "is there", weight)
        return Judged("other", "is there with other code", weight)
    hunks = _hunks(old, new)
    if not plus and not minus:
        return _judge_order(hunks, tree, weight)
    there = [line for line, n in plus.items() if found[line] >= n]
    left = [line for line, n in minus.items() if found[line] > has[line]]
    counted = _counted(plus, there, minus, left)
    if len(there) == len(plus) and not left:
        state, doubt = _judge_made(plus, minus, hunks, tree)
        return Judged(state, counted + doubt, weight)
    lacking = next((line for line in plus if line not in there), None)
    shown = f"lacks `{_clip(lacking)}`" if lacking else f"has `{_clip(left[0])}`"
    untouched = bool(minus) and all(
        [
            *(found[line] <= had[line] for line in plus),
            *(found[line] >= n for line, n in minus.items()),
        ]
    )
    share = sum(map(len, there)) / max(sum(map(len, plus)), 1)
    plainly = share <= _COINCIDENCE and (untouched or (plus and not _adapted(plus, old, tree)))
    return Judged("absent" if plainly else "other", f"{counted}; {shown}", weight)


def _judge_absence(added: bool, removed: bool, missing: bool, weight: int) -> Judged:
    """Where the change or the tree does not have the symbol at all."""
    if removed:
        if missing:
            return Judged("gone", "is not there", weight)
        return Judged("absent", "is still there", weight)
    if added:
        return Judged("absent", "is not there", weight)
    return Judged("missing", "has no such symbol", weight)


def _judge_made(
    plus: Collection[Line], minus: Collection[Line], hunks: Sequence[_Hunk], tree: Sequence[Line]
) -> tuple[PieceState, str]:
    """Where all that was added is there and all that was removed is not; and what is doubtful."""
    if not all(_in_order(hunk.after, tree) for hunk in hunks):
        return "other", ", in another order"
    if not plus:
        # A line that the tree has in other words is not gone.
        if all(_stands(hunk.after, tree) for hunk in hunks):
            return "gone", ""
        return "other", ", other lines in their place"
    if minus or any(len(line) >= _TELLING for line in plus):
        return "present", ""
    return "other", ", which may be chance"


def _words(lines: Iterable[Line]) -> set[str]:
    return {word for line in lines for word in _WORD.findall(told(line))}


def _adapted(plus: Iterable[Line], old: Sequence[Line], tree: Sequence[Line]) -> bool:
    """Whether lines that only the tree has could be the added ones in other words."""
    before = set(old)
    own = [line for line in tree if line not in before]
    new_words = _words(plus) - _words(old)
    if new_words:
        return len(new_words & _words(own)) * 2 >= len(new_words)
    texts = {told(line) for line in own}
    return any(get_close_matches(told(line), texts, 1, _ALIKE) for line in plus)


def _counted(
    plus: dict[Line, int], there: Sequence[Line], minus: dict[Line, int], left: Sequence[Line]
) -> str:
    texts = []
    if plus:
        texts.append(f"{len(there)} of {len(plus)} added lines")
    if minus:
        texts.append(f"{len(minus) - len(left)} of {len(minus)} removed lines gone")
    return ", ".join(texts)


def _clip(line: Line) -> str:
    text = told(line)
    return text if len(text) <= _CLIP else f"{text[: _CLIP - 1]}…"


class _Hunk(NamedTuple):
    """A changed place with the line in front of it and the one behind, on both sides."""

    before: Sequence[Line]
    after: Sequence[Line]
    added: Sequence[Line]


def _hunks(old: Sequence[Line], new: Sequence[Line]) -> list[_Hunk]:
    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [
        _Hunk(old[max(i - 1, 0) : j + 1], new[max(k - 1, 0) : m + 1], new[k:m])
        for tag, i, j, k, m in codes
        if tag != "equal"
    ]


def _judge_order(hunks: Sequence[_Hunk], tree: Sequence[Line], weight: int) -> Judged:
    """A change that only moves lines."""
    known = set(tree)
    if not all(line in known for hunk in hunks for line in hunk.added):
        return Judged("other", "moves lines that are not all there", weight)
    as_new = all(_in_order(hunk.after, tree) for hunk in hunks)
    as_old = all(_in_order(hunk.before, tree) for hunk in hunks)
    if as_new and not as_old:
        return Judged("present", "has the lines in the changed order", weight)
    if as_old and not as_new:
        return Judged("absent", "has the lines in the order before", weight)
    return Judged("other", "has the lines in a third order", weight)


def _in_order(lines: Sequence[Line], tree: Sequence[Line]) -> bool:
    """Whether those of the lines that the tree has stand there in this order."""
    known = set(tree)
    rest = iter(tree)
    return all(line in rest for line in lines if line in known)


def _stands(lines: Sequence[Line], tree: Sequence[Line]) -> bool:
    """Whether the lines stand in the tree without another one between them."""
    size, wanted = len(lines), list(lines)
    return any(list(tree[at : at + size]) == wanted for at in range(len(tree) - size + 1))
