"""What a summary rests on: the answers that the walk of a body got from its side.

A question and its answer are a ground. Where all grounds of a summary hold on another side, or in a
later run, the walk there would go the same way, and the summary can be used again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from auditor.source import facts as f
from auditor.source.index import SourceIndex, is_property, names_in
from auditor.source.names import ClassKey, Function

Question = tuple[str, ...]
"""The kind of question and what it is about, all as text."""

Ground = tuple[Question, str]
"""A question and its answer."""


class Grounds:
    """Numbers grounds, so that a set of them is one integer with a bit for each."""

    order = 1
    """A bit of its own: the answer depends on what was asked before (recursion was cut)."""

    def __init__(self, known: Sequence[Ground] = ()) -> None:
        """``known`` get the lowest bits, in their order."""
        self.known = list(known)
        self._numbers = {ground: number for number, ground in enumerate(self.known)}

    def bit(self, ground: Ground) -> int:
        """The bit of a ground, a new one where it has none yet."""
        number = self._numbers.get(ground)
        if number is None:
            number = self._numbers[ground] = len(self.known)
            self.known.append(ground)
        return 2 << number


class Asked:
    """Puts questions to one side and gathers in ``rests`` what the answers are.

    Whoever sums up a function sets ``rests`` to 0 before and reads it afterwards.
    """

    def __init__(
        self,
        index: SourceIndex,
        votes: Mapping[str, tuple[ClassKey, ...]],
        grounds: Grounds,
        holding: int | None = None,
    ) -> None:
        """``votes`` are the classes that may be meant by a method name on an unknown object.

        ``holding`` are the grounds that held on an equal side, of all that are numbered so far.
        """
        self.rests = 0
        self._index = index
        self._votes = votes
        self._grounds = grounds
        self._bits: dict[Question, int] = {}
        self._looked = 0 if holding is None else len(grounds.known)
        self._holding = Grounds.order | (holding or 0)

    def method(
        self, context: ClassKey, name: str, after: ClassKey | None = None
    ) -> Function | None:
        """See SourceIndex."""
        found = self._index.method(context, name, after)
        self._note(("method", *context, name, *(after or ())), lambda: _function(found))
        return found

    def attribute(
        self, context: ClassKey, name: str
    ) -> tuple[frozenset[ClassKey], Function | None]:
        """The classes that an attribute can hold, and the function of a property."""
        types, made = self._attribute(context, name)
        self._note(("attribute", *context, name), lambda: _attribute(types, made))
        return types, made

    def _attribute(
        self, context: ClassKey, name: str
    ) -> tuple[frozenset[ClassKey], Function | None]:
        made = self._index.method(context, name)
        types = self._index.attribute_types(context, name)
        return types, made if made is not None and is_property(made.facts) else None

    def nested(self, context: ClassKey, name: str) -> ClassKey | None:
        """See SourceIndex."""
        found = self._index.nested(context, name)
        self._note(("nested", *context, name), lambda: _classes([found] if found else []))
        return found

    def class_in(self, function: Function, name: str) -> ClassKey | None:
        """See SourceIndex."""
        found = self._index.class_in(function, name)
        question = ("class", name, *_scene(function, name))
        self._note(question, lambda: _classes([found] if found else []))
        return found

    def function_in(self, function: Function, name: str) -> Function | None:
        """See SourceIndex."""
        found = self._index.function_in(function, name)
        self._note(("function", name, *_scene(function, name)), lambda: _function(found))
        return found

    def annotation_types(self, function: Function, annotation: f.Expr) -> frozenset[ClassKey]:
        """See SourceIndex."""
        keys = (self.class_in(function, name) for name in names_in(annotation))
        return frozenset(key for key in keys if key is not None)

    def votes(self, name: str) -> tuple[ClassKey, ...]:
        """The classes that may be meant by a method name."""
        found = self._votes.get(name, ())
        self._note(("vote", name), lambda: _classes(found))
        return found

    def _note(self, question: Question, answer: Callable[[], str]) -> None:
        bit = self._bits.get(question)
        if bit is None:
            bit = self._bits[question] = self._grounds.bit((question, answer()))
        self.rests |= bit

    def holding(self) -> int:
        """All grounds that hold."""
        self.holds(0)
        return self._holding

    def holds(self, rests: int) -> bool:
        """Whether the side gives the same answer to all of a set of grounds."""
        known = self._grounds.known
        for number in range(self._looked, len(known)):
            question, answer = known[number]
            if self._answer(question) == answer:
                self._holding |= 2 << number
        self._looked = len(known)
        return not rests & ~self._holding

    def _answer(self, question: Question) -> str | None:
        """The answer to a question as text, None where nothing of the kind can be asked here."""
        kind, *about = question
        index = self._index
        if kind == "vote":
            return _classes(self._votes.get(about[0], ()))
        if kind in ("class", "function"):
            name, path, owner, *imported = about
            scene = (path, owner, f.Import(*imported) if imported else None)
            if kind == "function":
                return _function(index.function_at(scene, name))
            key = index.class_at(scene, name)
            return _classes([key] if key else [])
        path, qualname, name, *after = about
        context = (path, qualname)
        if context not in index.classes:
            return None
        if kind == "method":
            return _function(index.method(context, name, (after[0], after[1]) if after else None))
        if kind == "nested":
            key = index.nested(context, name)
            return _classes([key] if key else [])
        return _attribute(*self._attribute(context, name))


def _scene(function: Function, name: str) -> tuple[str, ...]:
    path, owner, entry = function.scene(name)
    return (path, owner, *((entry.name, entry.module, entry.member) if entry else ()))


def _function(function: Function | None) -> str:
    return "" if function is None else "\0".join((*function.key, *(function.owner or ())))


def _attribute(types: frozenset[ClassKey], made: Function | None) -> str:
    return f"{_classes(sorted(types))}\n\n{_function(made)}"


def _classes(keys: Sequence[ClassKey]) -> str:
    return "\n".join(map("\0".join, keys))
