"""Answers of the second reading, kept by the text of the function and the question."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from auditor.confirm.answers import Answer, Question
from auditor.confirm.passages import Passage, Unreadable
from auditor.source.results import ResultStore, content_key

_MOST = 20_000
"""Answers of some 60 bytes: those of a hundred releases. Beyond, only this run's are kept."""


class Answers:
    """Asks the second parser, which is not so much as imported where all answers are known."""

    def __init__(self, cache: Path | None) -> None:
        """``cache`` None keeps nothing beyond this run."""
        self._store = ResultStore(cache and cache / "second", dict[bytes, Answer], 1)
        self._about = content_key((), ())
        self._known = self._store.load(self._about) or {}
        self._asked: dict[bytes, Answer] = {}
        self._grown = False
        self._trees: dict[Passage, object] = {}

    def of(self, passage: Passage, question: Question) -> Answer:
        """What the text says to the question; ``unreadable`` where no tree can be made of it."""
        text = passage.whole.encode(errors="surrogatepass")
        key = hashlib.sha256(msgspec.msgpack.encode(question) + text).digest()
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._read(passage, question)
            self._grown = True
        self._asked[key] = found
        return found

    def save(self) -> None:
        """Keep the answers for later runs, if there are new ones."""
        if self._grown:
            few = len(self._known) <= _MOST
            self._store.save(self._about, self._known if few else self._asked)

    def _read(self, passage: Passage, question: Question) -> Answer:
        from auditor.confirm.concrete import Tree
        from auditor.confirm.reads import answer

        try:
            tree = self._trees.get(passage)
            if not isinstance(tree, Tree):
                tree = self._trees[passage] = Tree(passage)
            return answer(tree, question)
        except Unreadable as problem:
            return Answer("unreadable", str(problem))
        except RecursionError:
            return Answer("unreadable", "the function is nested too deeply")
