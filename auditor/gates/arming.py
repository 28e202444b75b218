"""What puts a gate in place, and what takes it out: of which classes a gate is never armed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from auditor.gates.families import Families, self_path
from auditor.gates.values import (
    SELF,
    CallSite,
    Path,
    Place,
)
from auditor.source import facts as f
from auditor.source.names import ClassKey, Function


class Arming(Families):
    """What arms the gates of the families."""

    @cached_property
    def arming(self) -> frozenset[str]:
        """Methods that put a parameter in a gate's place."""
        found: set[str] = set()
        for key in self.families:
            for name, method in self.index.classes[key].methods.items():
                if name != "__init__" and self._arms(method):
                    found.add(name)
        return frozenset(found)

    def _arms(self, method: Function) -> bool:
        return any(self._gates_set(method))

    def _gate_target(self, stmt: f.Assign) -> Path | None:
        for target in stmt.targets:
            path = self_path(target)
            if path is not None and path[-1] in self.gates:
                return path
        return None

    def disarmed(self, context: ClassKey) -> frozenset[Path]:
        """What a class makes void, as paths from self: inner objects with all gates, or gates."""
        known = self._disarmed.get(context)
        if known is None:
            found: set[Path] = set()
            for method in self.index.methods(context):
                found |= self._disarms(method, context).keys()
            found |= self._never_armed(context)
            known = self._disarmed[context] = frozenset(found)
        return known

    @cached_property
    def _disarmed(self) -> dict[ClassKey, frozenset[Path]]:
        return {}

    def disarming(self, context: ClassKey, root: str) -> Place | None:
        """Where a class makes the gate of what an attribute holds void; lines are the file's."""
        for method in self.index.methods(context):
            for path, line in sorted(self._disarms(method, context).items()):
                if path[1] == root:
                    where = method.facts.qualname, method.line_of(line)
                    return Place(method.path, *where)
        return None

    def _disarms(self, method: Function, context: ClassKey) -> dict[Path, int]:
        """What a method makes void, with the lines counted from its ``def``."""
        found: dict[Path, int] = {}
        mentions = set(method.facts.mentions)
        if mentions & self.arming:
            for call in self.summary(method, context).calls:
                if call.name in self.arming and _gives_none(call):
                    inner = (p for p in call.receivers if p[0] == "self" and len(p) > 1)
                    found |= dict.fromkeys(inner, call.line)
        if mentions & self.gates and method.facts.name != "__init__":
            for stmt in f.statements(method.facts.body):
                if isinstance(stmt, f.Assign) and stmt.value == f.Const("none"):
                    path = self._gate_target(stmt)
                    if path is not None and len(path) > 2:
                        found[path[:-1]] = stmt.line
        return found

    def _never_armed(self, context: ClassKey) -> set[Path]:
        """Gates of inner objects that a class makes for itself and leaves without what it is given.

        Such a class is armed itself; nothing in the tree calls the arming method on its attribute.
        """
        own = [m for m in self.in_force(context) if m.facts.name in self.arming and self._arms(m)]
        gates = {gate for method in own for gate in self._gates_set(method)}
        if not gates:
            return set()
        inside = set(self.index.classes[context].mro)
        armed: set[str] = set()
        for method in self._callers_of_arming:
            calls = self.summary(method, method.owner).calls
            receivers = [c.receivers for c in calls if c.name in self.arming and not _gives_none(c)]
            theirs = [p for found in receivers for p in found if p[0] == SELF[0]]
            if method.owner in inside and not all(
                any(p[0] == SELF[0] for p in r) for r in receivers
            ):
                return set()  # it may be any of them
            if method.owner in inside or len(theirs) < sum(map(len, receivers)):
                armed |= set(method.facts.mentions)
        for method in own:
            armed |= set(method.facts.mentions)
        # What such a caller goes through to reach an inner object, it may arm too.
        for method in self.in_force(context):
            if method.facts.name in armed:
                armed |= set(method.facts.mentions)
        return {
            (*SELF, name, gate)
            for name in self._made_by(context) - armed
            for gate in gates
            if not any(name.encode() in text for text in self._unread_armers)
        }

    def _gates_set(self, method: Function) -> Iterator[str]:
        parameters = {p.name for p in method.facts.parameters}
        for stmt in f.statements(method.facts.body):
            if isinstance(stmt, f.Assign) and isinstance(stmt.value, f.Name):
                path = self._gate_target(stmt)
                if stmt.value.id in parameters and path is not None:
                    yield path[-1]

    def _made_by(self, context: ClassKey) -> set[str]:
        """Attributes that are given nothing but results of calls: objects nobody else holds yet."""
        made: dict[str, bool] = {}
        for key in self.index.classes[context].mro:
            for name, assigned in self.index.assigned(key).items():
                values = [assign.value for _, assign in assigned if assign.value is not None]
                made[name] = made.get(name, True) and bool(values) and all(map(_is_made, values))
        return {name for name, only in made.items() if only}

    @cached_property
    def _callers_of_arming(self) -> list[Function]:
        methods = (m for known in self.index.classes.values() for m in known.methods.values())
        return [
            function
            for function in (*self.index.functions.values(), *methods)
            if not self.arming.isdisjoint(function.facts.mentions)
        ]

    @cached_property
    def _unread_armers(self) -> list[bytes]:
        names = [name.encode() for name in self.arming]
        return [
            text
            for path, text in self.sources.items()
            if path not in self.index.modules and any(name in text for name in names)
        ]

    def refuses(self, context: ClassKey) -> bool:
        """Whether a class overrides the arming method without arming anything."""
        for name in sorted(self.arming):
            method = self.index.method(context, name)
            if method is not None and not self._arms(method):
                summary = self.summary(method, context)
                forwards = any(call.name in self.arming for call in summary.calls)
                if not forwards and not _arms_super(method, name):
                    return True
        return False


def _gives_none(call: CallSite) -> bool:
    given = [*call.arguments, *(v for _, v in call.keywords)]
    return bool(given) and all(v.none for v in given)


def _arms_super(method: Function, name: str) -> bool:
    """Whether an overriding arming method hands more than None on to the one it overrides."""
    for stmt in f.statements(method.facts.body):
        for top in f.expressions(stmt):
            for node in f.walk(top):
                if not isinstance(node, f.Call) or not isinstance(node.func, f.Attr):
                    continue
                base = node.func.value
                if node.func.name == name and isinstance(base, f.Call):
                    given = (*node.args, *(value for _, value in node.keywords))
                    if base.func == f.Name("super") and any(v != f.Const("none") for v in given):
                        return True
    return False


def _is_made(value: f.Expr) -> bool:
    """A call's result, or None, or a choice between such."""
    if isinstance(value, f.Choice):
        return _is_made(value.body) and _is_made(value.orelse)
    return isinstance(value, f.Call) or value == f.Const("none")
