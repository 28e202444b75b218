"""Parameters that are waited on later: by a worker, out of a record or a queue, or in a closure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from auditor.gates.readings import Readings
from auditor.source import facts as f
from auditor.source.names import ClassKey, Function

Mark = tuple[str, ...]
"""Where a value is put, and where it is waited on again.

``("field", name)`` is an attribute of a record, or an entry under a constant text;
``("item", attribute, position)`` a member of the tuples that an attribute of the object holds,
without a position what it holds itself. ``("argument", class, position or name)`` is what a record
is made of, until its class says which field that is.
"""

PUTS = frozenset(("put", "put_nowait", "append", "appendleft"))


def waited_later(
    readings: Readings, key: ClassKey, method: Function, parameter: str
) -> tuple[Function, int] | None:
    """The function of a class that waits on what a method was given and put away, and the line."""
    if key not in readings.classes_that_wait:
        return None  # no need to follow where it goes
    line = _closures(readings, method).get(parameter)
    if line is not None:
        return method, method.line_of(line)
    marks = put_away(readings, method).get(parameter, frozenset())
    fields = _fields(readings, method, parameter)
    records = {r for mark in marks if (r := _record(readings, method, mark)) is not None}
    for worker in _workers(readings, key, records) if fields else ():
        for mark, line in _marks_waited(readings, worker).items():
            if mark in fields:
                return worker, worker.line_of(line)
    for name, position in sorted(_tasks(readings, method).get(parameter, ())):
        task = readings.index.method(key, name)
        if task is not None and (line := _waits_as(readings, key, task, position)) is not None:
            return task, task.line_of(line)
    return None


def _fields(readings: Readings, method: Function, parameter: str) -> set[Mark]:
    marks = put_away(readings, method).get(parameter, ())
    return {field for mark in marks for field in _resolved(readings, method, mark, parameter)}


def put_fields(readings: Readings, method: Function, parameter: str) -> set[str]:
    """The fields of records that a method puts its parameter in."""
    return {mark[1] for mark in _fields(readings, method, parameter) if mark[0] == "field"}


def family(readings: Readings, key: ClassKey) -> Iterator[Function]:
    """The methods of a class, its bases and its subclasses."""
    for owner in (*readings.index.classes[key].mro, *readings.index.subclasses.get(key, ())):
        yield from readings.index.classes[owner].methods.values()


def _workers(readings: Readings, key: ClassKey, records: Collection[ClassKey]) -> list[Function]:
    """The methods that wait on something: those of the family, and of records that it asks."""
    own = list(family(readings, key))
    asked = {name for method in own for name in method.facts.mentions} if records else set()
    theirs = [m for r in sorted(records) for m in readings.index.classes[r].methods.values()]
    primitive = readings.words.primitive_waits.keys()
    return [
        method
        for method in (*own, *(m for m in theirs if m.facts.name in asked))
        if not primitive.isdisjoint(method.facts.mentions)
    ]


def _record(readings: Readings, method: Function, mark: Mark) -> ClassKey | None:
    return readings.index.class_of(method.path, mark[1]) if mark[0] == "argument" else None


def _resolved(readings: Readings, method: Function, mark: Mark, parameter: str) -> Collection[Mark]:
    """The fields of a record that one of its arguments becomes.

    Where the record's class was not read, the field is believed to have the argument's name, or the
    name of what is given.
    """
    if mark[0] != "argument":
        return (mark,)
    record, given = _record(readings, method, mark), mark[2]
    if record is None:
        return (("field", parameter if given.isdigit() else given),)
    maker = readings.index.method(record, "__init__")
    if maker is None:
        fields = _declared(readings, record)
        names = [n for i, n in enumerate(fields) if given in (str(i), n)]
        return [("field", name) for name in names]
    taken = [p.name for i, p in enumerate(maker.facts.parameters[1:]) if given in (str(i), p.name)]
    return [m for name in taken for m in put_away(readings, maker).get(name, ())]


def _declared(readings: Readings, record: ClassKey) -> list[str]:
    """The fields of a data class or named tuple, in order."""
    found: dict[str, None] = {}
    for key in reversed(readings.index.classes[record].mro):
        for assign in readings.index.classes[key].facts.assigns:
            if assign.annotation is not None:
                found |= {t.id: None for t in assign.targets if isinstance(t, f.Name)}
    return list(found)


def _waits_as(readings: Readings, key: ClassKey, task: Function, position: str) -> int | None:
    """The line on which a method waits on one of its arguments, by position or name."""
    for number, parameter in enumerate(task.facts.parameters[1:]):
        if position in (str(number), parameter.name):
            for wait in readings.summary(task, key).waits:
                if wait.token == (f"param:{parameter.name}",):
                    return wait.line
    return None


# -- where a method puts its parameters ----------------------------------------------------------


def put_away(readings: Readings, method: Function) -> Mapping[str, frozenset[Mark]]:
    """Parameter, or other plain name, → what a method puts it in."""

    def work() -> Mapping[str, frozenset[Mark]]:
        found: dict[str, set[Mark]] = {}
        for name, mark in _puts(method, _met(readings, method)):
            found.setdefault(name, set()).add(mark)
        return {name: frozenset(marks) for name, marks in found.items()}

    return readings.index.derived.of(method.facts, "put away", work)


def _puts(method: Function, met: _Met) -> Iterator[tuple[str, Mark]]:
    for name, target in met.given:
        if mark := _field(target):
            yield name, mark
    for call in met.calls:
        yield from _puts_by_call(method, call)
    for group in met.mappings:
        half = len(group.parts) // 2
        for entry, value in zip(group.parts[:half], group.parts[half:], strict=False):
            if isinstance(entry, f.Const) and isinstance(value, f.Name):
                yield value.id, ("field", entry.text)


def _puts_by_call(method: Function, call: f.Call) -> Iterator[tuple[str, Mark]]:
    if record := made(call):
        given = [(str(i), value) for i, value in enumerate(call.args)]
        for place, value in (*given, *call.keywords):
            if isinstance(value, f.Name):
                yield value.id, ("argument", record, place)
    if isinstance(call.func, f.Attr) and call.func.name in PUTS:
        for attribute in own_attributes(call.func.value):
            for value in call.args:
                if isinstance(value, f.Name):
                    yield value.id, ("item", attribute)
                    for entry in method.scope.get(value.id, ()):
                        yield from _puts_members(entry, attribute)
                yield from _puts_members(value, attribute)


def _puts_members(entry: f.Expr, attribute: str) -> Iterator[tuple[str, Mark]]:
    if isinstance(entry, f.Group) and entry.op == "tuple":
        for position, part in enumerate(entry.parts):
            if isinstance(part, f.Name):
                yield part.id, ("item", attribute, str(position))


def made(call: f.Call) -> str:
    """The class that is called, by its name, for its file need not have been read; else empty."""
    name = f.dotted(call.func)
    own = name.rpartition(".")[2].lstrip("_")
    return name if own[:1].isupper() or name == "dict" else ""


def own_attributes(expr: f.Expr) -> Iterator[str]:
    """The attributes of self in an expression."""
    for node in f.walk(expr):
        if isinstance(node, f.Attr) and node.value == f.Name("self"):
            yield node.name


def _field(expr: f.Expr) -> Mark | None:
    if isinstance(expr, f.Attr):
        return ("field", expr.name)
    if isinstance(expr, f.Sub) and isinstance(expr.index, f.Const) and expr.index.kind == "str":
        return ("field", expr.index.text)
    return None


# -- calls that are made later -------------------------------------------------------------------


def _tasks(readings: Readings, method: Function) -> Mapping[str, frozenset[tuple[str, str]]]:
    """Parameter → the own methods that will be called with it, and as which of their arguments."""

    def work() -> Mapping[str, frozenset[tuple[str, str]]]:
        found: dict[str, set[tuple[str, str]]] = {}
        met = _met(readings, method)
        for call in met.inner:
            if name := _own_method(call.func):
                _note(found, name, call.args, call.keywords)
        for call in met.calls:
            _note_handed(found, call)
        return {name: frozenset(tasks) for name, tasks in found.items()}

    return readings.index.derived.of(method.facts, "tasks", work)


def _note_handed(found: dict[str, set[tuple[str, str]]], call: f.Call) -> None:
    """A call that is handed an own method with its arguments, as executors and threads are."""
    for position, given in enumerate(call.args):
        if name := _own_method(given):
            _note(found, name, call.args[position + 1 :], call.keywords)
    words = dict(call.keywords)
    arguments = words.get("args")
    if (name := _own_method(words.get("target"))) and isinstance(arguments, f.Group):
        _note(found, name, arguments.parts, ())


def _note(
    found: dict[str, set[tuple[str, str]]],
    name: str,
    arguments: Iterable[f.Expr],
    keywords: Iterable[tuple[str, f.Expr]],
) -> None:
    given = [(str(i), value) for i, value in enumerate(arguments)]
    for position, value in (*given, *keywords):
        if isinstance(value, f.Name):
            found.setdefault(value.id, set()).add((name, position))


def _own_method(expr: f.Expr | None) -> str:
    own = isinstance(expr, f.Attr) and expr.value == f.Name("self")
    return expr.name if own and isinstance(expr, f.Attr) else ""


def _closures(readings: Readings, method: Function) -> Mapping[str, int]:
    """Plain names that a closure of a method waits on, with the line."""
    if readings.words.primitive_waits.keys().isdisjoint(method.facts.mentions):
        return {}

    def work() -> Mapping[str, int]:
        waits = _waits(_met(readings, method).inner, readings.words.primitive_waits)
        return {e.id: line for e, line in waits if isinstance(e, f.Name)}

    return readings.index.derived.of(method.facts, "closures", work)


# -- what a worker waits on ----------------------------------------------------------------------


def _marks_waited(readings: Readings, worker: Function) -> Mapping[Mark, int]:
    def work() -> Mapping[Mark, int]:
        found: dict[Mark, int] = {}
        taken = _taken(worker)
        for expr, line in _waits(_met(readings, worker).calls, readings.words.primitive_waits):
            if mark := _field(expr):
                found.setdefault(mark, line)
            for mark in _members(expr, taken):
                found.setdefault(mark, line)
        return found

    return readings.index.derived.of(worker.facts, "marks waited", work)


def _members(expr: f.Expr, taken: Mapping[str, set[Mark]]) -> Iterator[Mark]:
    if isinstance(expr, f.Name):
        yield from sorted(taken.get(expr.id, ()))
    elif isinstance(expr, f.Sub) and isinstance(expr.index, f.Const) and expr.index.kind == "int":
        if isinstance(expr.value, f.Name):
            for mark in sorted(taken.get(expr.value.id, ())):
                if len(mark) == 2 and mark[0] == "item":
                    yield (*mark, expr.index.text)


def _taken(worker: Function) -> dict[str, set[Mark]]:
    """Local name → what it was taken from: a field, or a member of what an attribute holds."""
    found: dict[str, set[Mark]] = {}
    for stmt in f.statements(worker.facts.body):
        if isinstance(stmt, f.Assign) and stmt.value is not None:
            pairs = [(target, stmt.value) for target in stmt.targets]
        elif isinstance(stmt, f.Loop) and stmt.target is not None:
            pairs = [(stmt.target, stmt.source)]
        else:
            continue
        for target, source in pairs:
            if isinstance(target, f.Name):
                marks: set[Mark] = {("item", attribute) for attribute in own_attributes(source)}
                if field := _field(source):
                    marks.add(field)
                found.setdefault(target.id, set()).update(marks)
            elif isinstance(target, f.Group):
                whole: set[Mark] = {("item", attribute) for attribute in own_attributes(source)}
                if isinstance(source, f.Name):
                    whole |= {m for m in found.get(source.id, ()) if m[0] == "item"}
                for position, part in enumerate(target.parts):
                    if isinstance(part, f.Name):
                        members = {(*mark[:2], str(position)) for mark in whole if len(mark) == 2}
                        found.setdefault(part.id, set()).update(members)
    return found


def _waits(calls: Iterable[f.Call], primitive: Collection[str]) -> Iterator[tuple[f.Expr, int]]:
    """What primitive waits are made on, by receiver or argument, with their lines."""
    for call in calls:
        if isinstance(call.func, f.Attr) and call.func.name in primitive:
            for expr in (call.func.value, *call.args):
                yield expr, call.line


# -- what stands in a method ---------------------------------------------------------------------


class _Met:
    """What a method holds, with its closures; ``inner`` are the calls that stand in these.

    ``given`` are plain names and the targets that they are assigned to.
    """

    def __init__(self, body: tuple[f.Stmt, ...]) -> None:
        self.given: list[tuple[str, f.Expr]] = []
        self.calls: list[f.Call] = []
        self.mappings: list[f.Group] = []
        self.inner: list[f.Call] = []
        self._gather(body, inside=False)

    def _gather(self, body: tuple[f.Stmt, ...], inside: bool) -> None:
        for stmt in f.statements(body):
            if isinstance(stmt, f.Assign) and isinstance(stmt.value, f.Name):
                self.given += [(stmt.value.id, target) for target in stmt.targets]
            for top in f.expressions(stmt):
                for node in f.walk(top):
                    if isinstance(node, f.Call):
                        self.calls.append(node)
                        if inside:
                            self.inner.append(node)
                    elif isinstance(node, f.Lambda):
                        self.inner += [n for n in f.walk(node.body) if isinstance(n, f.Call)]
                    elif isinstance(node, f.Group) and node.op == "dict":
                        self.mappings.append(node)
            if isinstance(stmt, f.Define):
                self._gather(stmt.function.body, inside=True)


def _met(readings: Readings, method: Function) -> _Met:
    return readings.index.derived.of(method.facts, "met", lambda: _Met(method.facts.body))


def every_expression(body: tuple[f.Stmt, ...]) -> Iterator[tuple[f.Stmt, f.Expr]]:
    """Each top expression of a body with its statement, those of nested functions included."""
    for stmt in f.statements(body):
        for expr in f.expressions(stmt):
            yield stmt, expr
        if isinstance(stmt, f.Define):
            yield from every_expression(stmt.function.body)
