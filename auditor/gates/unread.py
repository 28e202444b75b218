"""Records that only their own class takes up again, and a field of them that nobody reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from auditor.gates.handed import PUTS, every_expression, family, made, own_attributes, put_fields
from auditor.gates.readings import Readings
from auditor.source import facts as f
from auditor.source.names import ClassKey, Function

_TAKES = frozenset(("get", "get_nowait", "pop", "popleft", "copy"))
_ASKS = frozenset(("empty", "qsize", "task_done", "join", "clear", "len", "isinstance", "bool"))
_PASSES = frozenset(("enumerate", "zip", "list", "tuple", "iter", "next", "sorted", "reversed"))


def stored_in_vain(readings: Readings, key: ClassKey, method: Function, parameter: str) -> bool:
    """Whether all that becomes of a parameter is a field of a queued record, which nobody reads.

    Nobody can be told where the record leaves the class, to a function or another object.
    """
    records = {
        node: dict.fromkeys((*node.args, *(value for _, value in node.keywords)))
        for _, top in every_expression(method.facts.body)
        for node in f.walk(top)
        if isinstance(node, f.Call) and made(node)
    }
    holding = [node for node, given in records.items() if f.Name(parameter) in given]
    fields = put_fields(readings, method, parameter)
    uses = sum(
        node == f.Name(parameter)
        for _, top in every_expression(method.facts.body)
        for node in f.walk(top)
    )
    if not holding or uses != len(holding) or not fields:
        return False
    queues = _queues(method, holding)
    if not queues:
        return False
    methods = list(family(readings, key))
    others = [user for queue in sorted(queues) for user in readings.index.mentioning(queue)]
    takers = [*methods, *(user for user in others if _of_another(user, queues))]
    if any(not fields.isdisjoint(m.facts.mentions) for m in takers):
        return False
    taken = Taken(methods, queues)
    return taken.read and not taken.leaves


def _of_another(user: Function, queues: set[str]) -> bool:
    """Whether a function names one of the attributes on an object that is not its own."""
    return any(
        isinstance(node, f.Attr) and node.name in queues and node.value != f.Name("self")
        for _, top in every_expression(user.facts.body)
        for node in f.walk(top)
    )


def _queues(method: Function, records: Iterable[f.Call]) -> set[str]:
    """The attributes that hold the records, empty where one is put anywhere else."""
    found: set[str] = set()
    for record in records:
        names = {name for name, values in method.scope.items() if record in values}
        held: set[str] = set()
        uses = 0
        for _, top in every_expression(method.facts.body):
            for node in f.walk(top):
                uses += isinstance(node, f.Name) and node.id in names
                if isinstance(node, f.Call) and isinstance(node.func, f.Attr):
                    if node.func.name in PUTS and any(
                        given == record or (isinstance(given, f.Name) and given.id in names)
                        for given in node.args
                    ):
                        held.update(own_attributes(node.func.value))
        # A local name stands where it is bound and where it is put; anywhere else it may go on.
        if not held or (names and uses != len(names) + 1):
            return set()
        found |= held
    return found


class Taken:
    """Where the records of some attributes go in the methods of a class, by local names."""

    def __init__(self, methods: Sequence[Function], queues: set[str]) -> None:
        self.queues = queues
        self.leaves = False
        self.read = False
        self._methods = {m.facts.name: m for m in methods}
        self._names: set[tuple[str, str]] = set()
        before = -1
        while before != len(self._names) and not self.leaves:
            before = len(self._names)
            for method in methods:
                self._here = method.facts.name
                self._body(method.facts.body)

    def _body(self, body: tuple[f.Stmt, ...]) -> None:
        for stmt in f.statements(body):
            match stmt:
                case f.Define():
                    self._body(stmt.function.body)
                case f.Assign() if stmt.value is not None:
                    if self._holds(stmt.value):
                        for target in stmt.targets:
                            self._bind(target)
                case f.Loop() if stmt.target is not None:
                    if self._holds(stmt.source):
                        self._bind(stmt.target)
                case f.Exit():
                    self.leaves |= stmt.value is not None and self._holds(stmt.value)
                case f.Augment() | f.Do() if not isinstance(stmt.value, f.Call):
                    self.leaves |= self._holds(stmt.value)
                case _:
                    for expr in f.expressions(stmt):
                        self._holds(expr)

    def _bind(self, target: f.Expr) -> None:
        if isinstance(target, f.Name):
            self._names.add((self._here, target.id))
        elif isinstance(target, f.Group):
            for part in target.parts:
                self._bind(part)
        else:
            self.leaves = True

    def _holds(self, expr: f.Expr) -> bool:
        """Whether a value is such a record or holds some."""
        match expr:
            case f.Name():
                return (self._here, expr.id) in self._names
            case f.Attr():
                if expr.value == f.Name("self"):
                    return expr.name in self.queues
                self.read |= self._holds(expr.value)
                return False
            case f.Sub():
                self._holds(expr.index)
                return self._holds(expr.value)
            case f.Call():
                return self._call(expr)
            case f.Comp():
                for target, source in expr.generators:
                    if self._holds(source):
                        self._bind(target)
            case f.Bind() if self._holds(expr.value):
                self._names.add((self._here, expr.target))
            case _:
                pass
        held = [self._holds(part) for part in f.children(expr)]
        told = isinstance(expr, f.Group) and expr.op in ("not", "is", "is not", "==", "!=")
        return any(held) and not told

    def _call(self, call: f.Call) -> bool:
        name = f.dotted(call.func)
        given = [(str(i), e) for i, e in enumerate(call.args)]
        held = [place for place, e in (*given, *call.keywords) if self._holds(e)]
        if isinstance(call.func, f.Attr) and self._holds(call.func.value):
            # Of a record only fields are looked at: its own methods may read any of them.
            self.leaves |= call.func.name not in (_TAKES | _ASKS | PUTS)
            return call.func.name in _TAKES
        if not held or name in _ASKS:
            return False
        if name in _PASSES:
            return True
        method = self._methods.get(name.removeprefix("self.")) if name[:5] == "self." else None
        if method is not None:
            self._give(method, held)
            return False
        target = dict(call.keywords).get("target")
        later = dict(call.keywords).get("args")
        own = f.dotted(target).removeprefix("self.") if target is not None else ""
        if held == ["args"] and isinstance(later, f.Group) and own in self._methods:
            places = [str(i) for i, part in enumerate(later.parts) if self._holds(part)]
            self._give(self._methods[own], places)
            return False
        self.leaves = True
        return False

    def _give(self, method: Function, places: Sequence[str]) -> None:
        for number, parameter in enumerate(method.facts.parameters[1:]):
            if str(number) in places or parameter.name in places:
                self._names.add((method.facts.name, parameter.name))
