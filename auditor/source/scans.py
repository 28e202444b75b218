"""What patterns find in files, looked for once for each content."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from auditor.source.results import ResultStore, content_key

Found = dict[bytes, dict[bytes, list[Any]]]
"""Pattern → digest of a content → what the pattern finds there."""
_KEPT = 2
_WORTH_WRITING = 0.02
"""The share of the answers that is new; fewer are quicker looked for than all are written."""


class Scans:
    """Answers of patterns by content, so that files equal on several sides are scanned once.

    Patterns start with a literal, or are tried only where a literal word occurs: the interpreter
    searches for literals many times faster than for anything else.
    """

    def __init__(self, cache: Path | None = None) -> None:
        """What an earlier run found is taken over from the folder ``cache``."""
        self._store = ResultStore(cache and cache / "scans", Found, _KEPT)
        self._about = content_key(["scans"], ())
        self._kept: Found | None = None
        self._interned: dict[bytes, bytes] = {}
        self._digests: dict[int, bytes] = {}
        self._answers: dict[re.Pattern[bytes], dict[int, list[Any]]] = {}
        self._grown = 0

    def intern(self, sources: Mapping[str, bytes]) -> dict[str, bytes]:
        """The same files, equal contents being one object that is kept as long as this one."""
        return {p: self._interned.setdefault(data, data) for p, data in sources.items()}

    def digest(self, data: bytes) -> bytes:
        """The sha256 of an interned content."""
        known = self._digests.get(id(data))
        if known is None:
            known = self._digests[id(data)] = hashlib.sha256(data).digest()
        return known

    def found(
        self, data: bytes, pattern: re.Pattern[bytes], words: Sequence[bytes] = ()
    ) -> list[Any]:
        """All matches of a pattern in an interned content, as ``findall`` gives them.

        One of ``words`` is part of every match; a pattern always comes with the same ones.
        """
        answers = self._answers.get(pattern)
        if answers is None:
            answers = self._answers[pattern] = self._recalled(pattern)
        known = answers.get(id(data))
        if known is None:
            self._grown += 1
            worth = not words or any(word in data for word in words)
            known = answers[id(data)] = pattern.findall(data) if worth else []
        return known

    def _recalled(self, pattern: re.Pattern[bytes]) -> dict[int, list[Any]]:
        if self._kept is None:
            self._kept = self._store.load(self._about) or {}
        kept = self._kept.get(pattern.pattern)
        if kept is None:
            return {}
        interned = self._interned.values()
        return {id(data): kept[d] for data in interned if (d := self.digest(data)) in kept}

    def known(self) -> dict[bytes, int]:
        """How many contents each pattern has been looked for in."""
        return {pattern.pattern: len(answers) for pattern, answers in self._answers.items()}

    def since(self, known: Mapping[bytes, int]) -> Found:
        """What was found after ``known`` was asked for, for ``adopt`` in another process."""
        digests = self._digests_by_id
        return {
            pattern.pattern: {
                digests[n]: answer
                for n, answer in islice(answers.items(), known.get(pattern.pattern, 0), None)
            }
            for pattern, answers in self._answers.items()
        }

    def adopt(self, found: Found) -> None:
        """Take over what another process found in contents that are interned here too."""
        interned = {self.digest(data): id(data) for data in self._interned.values()}
        for text, answers in found.items():
            pattern = re.compile(text)
            known = self._answers.get(pattern)
            if known is None:
                known = self._answers[pattern] = self._recalled(pattern)
            new = {interned[d]: answer for d, answer in answers.items() if d in interned}
            self._grown += len(new.keys() - known.keys())
            known.update(new)

    @property
    def _digests_by_id(self) -> dict[int, bytes]:
        return {id(data): self.digest(data) for data in self._interned.values()}

    def save(self) -> None:
        """Keep what was found in the files of this run, if enough of it is new to be worth it."""
        if self._grown > _WORTH_WRITING * len(self._answers) * len(self._interned):
            digests = self._digests_by_id
            found = {
                pattern.pattern: {digests[n]: answer for n, answer in answers.items()}
                for pattern, answers in self._answers.items()
            }
            self._store.save(self._about, found)

    def occurs(self, name: str, contents: Iterable[bytes]) -> bool:
        """Whether a text is anywhere in some interned contents."""
        pattern = re.compile(re.escape(name.encode()))
        return any(self.found(data, pattern) for data in contents)

    def holding(
        self, sources: Mapping[str, bytes], words: Iterable[str], pattern: re.Pattern[bytes]
    ) -> list[str]:
        """The files in which a pattern is found; each match holds one of the words."""
        literals = [word.encode() for word in words]
        return [path for path, data in sources.items() if self.found(data, pattern, literals)]
