"""The families of a side, classes that share a gate by inheritance, and their summaries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from auditor.gates.evaluator import Evaluator
from auditor.gates.memory import SideMemory
from auditor.gates.values import (
    Path,
    Summary,
)
from auditor.source import facts as f
from auditor.source.index import SourceIndex
from auditor.source.names import ClassKey, Function
from auditor.source.scout import Scouted
from auditor.vocabulary import Vocabulary

_MOST_VOTERS = 12


class Families:
    """The families of a snapshot, found by who names a gate."""

    def __init__(
        self,
        index: SourceIndex,
        scouted: Scouted,
        vocabulary: Vocabulary,
        sources: Mapping[str, bytes] | None = None,
        memory: SideMemory | None = None,
    ) -> None:
        """``sources`` are the files of the server by path, extracted or not."""
        self.index = index
        self.sources = sources or {}
        self.words = vocabulary
        self.gates = scouted.gates
        self.scouted = scouted
        self.families = self._families()
        self.evaluator = Evaluator(index, vocabulary, self.gates, self._votes(), memory)

    def _families(self) -> tuple[ClassKey, ...]:
        """Classes that hold a gate, themselves or in an inner object, with bases and subclasses."""
        naming = {
            key
            for key, known in self.index.classes.items()
            if any(self._names_own_gate(m.facts) for m in known.methods.values())
        }
        related: set[ClassKey] = set()
        for key in naming:
            for base in self.index.classes[key].mro:
                related.add(base)
                related.update(self.index.subclasses.get(base, ()))
        return tuple(sorted(related))

    def _names_own_gate(self, facts: f.FunctionFacts) -> bool:
        """Whether a method names ``self.gate``, or waits on ``self.inner.gate``."""
        if self.gates.isdisjoint(facts.mentions):
            return False
        for stmt in f.statements(facts.body):
            for top in f.expressions(stmt):
                for node in f.walk(top):
                    if isinstance(node, f.Attr) and node.name in self.gates:
                        path = self_path(node)
                        if path is not None and len(path) == 2:
                            return True
                    if isinstance(node, f.Call) and isinstance(node.func, f.Attr):
                        waits = self.words.may_take_index(node.func.name)
                        path = self_path(node.func.value) if waits else None
                        if path is not None and len(path) <= 3 and path[-1] in self.gates:
                            return True
        return False

    def _votes(self) -> Mapping[str, tuple[ClassKey, ...]]:
        """Method names that only families use for reading or waiting → the classes meant."""
        telling = self.gates | self.scouted.protected
        found: dict[str, list[ClassKey]] = {}
        for key in self.families:
            for name, method in self.index.classes[key].methods.items():
                if name.startswith("__") or self.duty(name):
                    continue
                if telling & set(method.facts.mentions) or self._calls_wrapper(key, method):
                    found.setdefault(name, []).append(key)
        elsewhere: dict[str, int] = {}
        inside = set(self.families)
        for key, known in self.index.classes.items():
            if key not in inside:
                for name in known.methods:
                    elsewhere[name] = elsewhere.get(name, 0) + 1
        return {
            name: tuple(keys[:_MOST_VOTERS])
            for name, keys in found.items()
            if elsewhere.get(name, 0) <= len(keys) + 1
        }

    def _calls_wrapper(self, key: ClassKey, method: Function) -> bool:
        for name in method.facts.mentions:
            found = self.index.method(key, name)
            if found is not None and self.gates & set(found.facts.mentions):
                return True
        return False

    @cached_property
    def waiting_names(self) -> frozenset[str]:
        """The gates, and the names of all functions that name one."""
        found = set(self.gates)
        for function in self.index.functions.values():
            if not self.gates.isdisjoint(function.facts.mentions):
                found.add(function.facts.name)
        for known in self.index.classes.values():
            for name, method in known.methods.items():
                if not self.gates.isdisjoint(method.facts.mentions):
                    found.add(name)
        return frozenset(found)

    @cached_property
    def classes_that_wait(self) -> frozenset[ClassKey]:
        """The classes of which a method, a base's or a subclass's may come to a primitive wait.

        It names one, or a function or class in whose own code one is named.
        """
        primitive = self.words.primitive_waits.keys()
        telling = set(primitive)
        for function in self.index.functions.values():
            if not primitive.isdisjoint(function.facts.mentions):
                telling.add(function.facts.name)
        for (_, name), known in self.index.classes.items():
            if any(not primitive.isdisjoint(m.facts.mentions) for m in known.methods.values()):
                telling.add(name.rpartition(".")[2])
        found: set[ClassKey] = set()
        for key, known in self.index.classes.items():
            if any(not telling.isdisjoint(m.facts.mentions) for m in known.methods.values()):
                found |= {*known.mro, *self.index.subclasses.get(key, ())}
        return frozenset(found)

    def summary(self, function: Function, context: ClassKey | None) -> Summary:
        """The summary of a function; empty where it recurses without end."""
        return self.evaluator.summary(function, context) or Summary()

    def types_of(self, function: Function, path: Path) -> frozenset[ClassKey]:
        """The known classes of the object at the end of an access path in a function."""
        types: frozenset[ClassKey] = frozenset()
        if path[0] == "self" and function.owner is not None:
            types = frozenset((function.owner,))
        elif path[0].startswith("param:"):
            parameter = function.parameter(path[0].removeprefix("param:"))
            if parameter is not None and parameter.annotation is not None:
                types = self.index.annotation_types(function, parameter.annotation)
        for step in path[1:]:
            if step.isidentifier():
                inner = (self.index.attribute_types(key, step) for key in types)
                types = frozenset().union(*inner)
        return types

    def duty(self, name: str) -> str:
        """Why waiting is not a method's business, by its name; empty where it is."""
        known = self._duties.get(name)
        if known is None:
            known = self._duties[name] = self.words.duty(name)
        return known

    @cached_property
    def _duties(self) -> dict[str, str]:
        return {}

    def in_force(self, context: ClassKey) -> Iterator[Function]:
        """The methods of a class as its objects have them: own first, overridden ones left out."""
        seen: set[str] = set()
        for method in self.index.methods(context):
            if method.facts.name not in seen:
                seen.add(method.facts.name)
                yield method

    def is_gate(self, token: Path) -> bool:
        """Whether what is waited on is one of the gates: an attribute, or a parameter for it."""
        return token[-1].removeprefix("param:") in self.gates


def self_path(expr: f.Expr) -> Path | None:
    """The names of an access path from ``self``; None for any other."""
    steps: list[str] = []
    while isinstance(expr, f.Attr):
        steps.append(expr.name)
        expr = expr.value
    return ("self", *reversed(steps)) if expr == f.Name("self") and steps else None
