"""What a call does: to its receiver, to what it is handed, and to what is held after it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from auditor.gates.absence import Absence
from auditor.gates.binding import (
    bind,
    for_one_member,
    is_number,
    keys_of,
    paths_of,
    substitute,
)
from auditor.gates.events import EVERYTHING, State
from auditor.gates.kernels import stored_to
from auditor.gates.values import (
    ELEMENT,
    LOOP,
    LOOPED,
    MEMBERS,
    NO_KEYS,
    NOTHING,
    RESULT,
    SELF,
    Keys,
    Path,
    Read,
    Summary,
    Value,
    Wait,
    add_held,
    is_data,
    is_element,
    join_values,
)
from auditor.source import facts as f
from auditor.source.names import ClassKey, Function
from auditor.vocabulary import words

_MOST_TARGETS = 6


class Calls(Absence):
    """What calls do, on top of what tests say."""

    def member(self, value: Value, keys: Keys, step: str = ELEMENT) -> Value:
        """A member of a container."""
        if value.parts:
            inner = join_values(value.parts)
            return msgspec.structs.replace(inner, deps=inner.deps | keys)
        looped = step == ELEMENT and keys == {LOOP}
        return value.step(LOOPED if looped else step, value.types, keys)

    def attribute(self, value: Value, name: str, line: int, column: int) -> Value:
        """The value of an attribute; that of a property is what it returns."""
        if name in self.words.metadata_attributes and any(map(is_data, value.paths)):
            return Value(deps=value.keys)
        types: set[ClassKey] = set()
        results: list[Value] = []
        for key in sorted(value.types):
            held, found = self.asked.attribute(key, name)
            types |= held
            if found is not None:
                results.append(self.invoke(found, key, value, (), (), line, column))
        if results:
            return join_values(results)
        stepped = value.step(name, frozenset(types))
        return stepped if value.origin is not None else stepped.at(self.place(line, column))

    def call(self, expr: f.Call, used: bool) -> Value:
        """The value of a call; ``used`` tells whether anyone takes it."""
        func = expr.func
        if isinstance(func, f.Call) and isinstance(func.func, f.Name) and func.func.id == "super":
            func = f.Name("super")
        if isinstance(func, f.Attr) and _is_super(func.value):
            return self.super_call(func.name, expr)
        if isinstance(func, f.Name):
            special = self.builtin(func.id, expr)
            if special is not None:
                return special
            callee = self.state.env.get(func.id)
            if callee is None or callee.types or (not callee.paths and callee.local is None):
                return self.named_call(func.id, expr)
            if callee.local is not None:
                arguments, keywords = self.arguments(expr)
                return self.local_call(callee.local, arguments, keywords)
            return self.bound_call(callee, expr, used)
        if isinstance(func, f.Attr):
            return self.method_call(func, expr, used)
        callee = self.expr(func)  # kernel[grid](…), factory(…)(…)
        arguments, keywords = self.arguments(expr)
        name = f.dotted(func.value) if isinstance(func, f.Sub) else ""
        return self.opaque(name, callee, arguments, keywords, expr)

    def arguments(self, expr: f.Call) -> tuple[tuple[Value, ...], tuple[tuple[str, Value], ...]]:
        """The values of what a call is handed, by position and by name."""
        positional = tuple(self.expr(a) for a in expr.args)
        return positional, tuple((name, self.expr(v)) for name, v in expr.keywords)

    def builtin(self, name: str, expr: f.Call) -> Value | None:
        """The value of a call of a built-in that the analysis knows; None for any other."""
        if name in self.state.env:
            return None
        if name == "getattr" and len(expr.args) >= 2:
            value, key = self.expr(expr.args[0]), self.expr(expr.args[1])
            if key.text:
                return self.attribute(value, key.text, expr.line, expr.column)
            return value.step(ELEMENT, frozenset(), key.keys).at(self.place(expr.line, expr.column))
        if name == "vars" and expr.args:
            return self.expr(expr.args[0])
        if name in self.words.element_functions:
            values = [self.expr(a) for a in expr.args]
            if name == "next" and values:
                return self.member(values[0], NO_KEYS)
            return join_values(values)
        if name in self.words.metadata_functions:
            values = [self.expr(a) for a in expr.args]
            return Value(deps=NO_KEYS.union(*(v.keys for v in values)))
        return None

    def named_call(self, name: str, expr: f.Call) -> Value:
        """A call of a function or class by its name."""
        arguments, keywords = self.arguments(expr)
        made = self.asked.class_in(self.function, name)
        if made is not None:
            for value in (*arguments, *(v for _, v in keywords)):
                self.use(value, expr.line)
            return Value(types=frozenset((made,)))
        known = self.asked.function_in(self.function, name)
        if known is not None and not self.evaluator.stores(name):
            if self.evaluator.tells_metadata(name):
                return Value(deps=_keys_of(arguments, keywords))
            summary = self.summary_of(known, arguments, keywords)
            if summary is not None:
                return self.apply(summary, known, NOTHING, arguments, keywords, expr)
        return self.opaque(name, NOTHING, arguments, keywords, expr)

    def summary_of(
        self,
        function: Function,
        arguments: tuple[Value, ...],
        keywords: tuple[tuple[str, Value], ...],
    ) -> Summary | None:
        """The summary of a free function; handed ``self``, it knows of which class that is."""
        binding = bind(function, NOTHING, arguments, keywords)
        types: list[tuple[str, frozenset[ClassKey]]] = []
        for parameter in function.facts.parameters:
            value = binding.get(f"param:{parameter.name}", NOTHING)
            if parameter.annotation is None and value.paths == {SELF} and value.types:
                types.append((parameter.name, value.types))
        return self.evaluator.summary(function, None, tuple(types))

    def super_call(self, name: str, expr: f.Call) -> Value:
        """A call on ``super()``."""
        arguments, keywords = self.arguments(expr)
        receiver = Value(
            frozenset((SELF,)), types=frozenset((self.context,) if self.context else ())
        )
        owner = self.function.owner
        if self.context is None or owner is None:
            return NOTHING
        found = self.asked.method(self.context, name, after=owner)
        if found is None:
            return self.opaque(name, NOTHING, arguments, keywords, expr)
        return self.invoke(
            found, self.context, receiver, arguments, keywords, expr.line, expr.column
        )

    def bound_call(self, callee: Value, expr: f.Call, used: bool) -> Value:
        """A call through a local that holds ``object.method``."""
        arguments, keywords = self.arguments(expr)
        by_name: dict[str, set[Path]] = {}
        for path in callee.paths:
            if len(path) > 1 and path[-1] not in MEMBERS and not path[-1].endswith(RESULT):
                by_name.setdefault(path[-1], set()).add(path[:-1])
        for name, receivers in sorted(by_name.items()):
            types = self.path_types(receivers)
            receiver = Value(frozenset(receivers), types=types)
            self.note_call(receiver, name, arguments, keywords, expr, used)
            result = self.dispatch(receiver, name, arguments, keywords, expr)
            if result is not None:
                return result
        return self.opaque(next(iter(sorted(by_name)), ""), callee, arguments, keywords, expr)

    def method_call(self, func: f.Attr, expr: f.Call, used: bool) -> Value:
        """A call on an object."""
        name = func.name
        receiver = self.expr(func.value)
        arguments, keywords = self.arguments(expr)
        element = any(map(is_data, receiver.paths)) and not receiver.types
        dotted = f.dotted(func)
        if element and name in self.words.metadata_methods:
            return Value(deps=receiver.keys)
        if element and name in self.words.view_methods:
            return receiver  # a view says how the memory is seen, not which member it is
        if element and name in self.words.store_methods:
            for value in (*arguments, *(v for _, v in keywords)):
                self.use(value, expr.line)
            self.sink(receiver, "store", expr.line)
            return receiver
        kind = self.words.primitive_waits.get(name)
        if kind is not None and not receiver.parts:
            self.wait(name, receiver, arguments, keywords, expr)
            return NOTHING
        self.note_call(receiver, name, arguments, keywords, expr, used)
        known = self.dispatch(receiver, name, arguments, keywords, expr)
        if known is not None:
            return known
        if dotted and not receiver.types and dotted.partition(".")[0] not in self.state.env:
            known_function = self.asked.function_in(self.function, dotted)
            made = self.asked.class_in(self.function, dotted) if name[:1].isupper() else None
            if made is not None:
                return Value(types=frozenset((made,)))
            if known_function is not None and not self.evaluator.stores(dotted):
                summary = self.summary_of(known_function, arguments, keywords)
                if summary is not None:
                    return self.apply(summary, known_function, NOTHING, arguments, keywords, expr)
        if element:
            self.use(receiver, receiver.line)
        return self.opaque(dotted or f".{name}", receiver, arguments, keywords, expr)

    def dispatch(
        self,
        receiver: Value,
        name: str,
        arguments: tuple[Value, ...],
        keywords: tuple[tuple[str, Value], ...],
        expr: f.Call,
    ) -> Value | None:
        """The call on every class that the receiver can be; None where none is known."""
        targets: dict[tuple[object, ...], tuple[Function, ClassKey]] = {}
        for key in sorted(receiver.types):
            found = self.asked.method(key, name)
            if found is not None:
                place = (*found.key, key)
                targets[place] = (found, key)
        if not targets:
            nested = self.nested_class(receiver, name)
            if nested is not None:
                return Value(types=frozenset((nested,)))
            if receiver.types and name in _TAKING:
                return self.member(receiver, _keys_of(arguments, keywords))
            return self.vote(receiver, name, arguments, keywords, expr)
        before = self.state
        states: list[State] = []
        results: list[Value] = []
        for function, key in list(targets.values())[:_MOST_TARGETS]:
            self.state = before.fork()
            results.append(
                self.invoke(function, key, receiver, arguments, keywords, expr.line, expr.column)
            )
            states.append(self.state)
        before.become(states)
        self.state = before
        return join_values(results)

    def vote(
        self,
        receiver: Value,
        name: str,
        arguments: tuple[Value, ...],
        keywords: tuple[tuple[str, Value], ...],
        expr: f.Call,
    ) -> Value | None:
        """A method known by name only: what most classes that define it do."""
        tracked = any(len(p) > 1 or p[0].startswith("param:") for p in receiver.paths)
        if receiver.types or not tracked or not self.asked.votes(name):
            return None
        gate = self.evaluator.verdict(name)
        keys = _keys_of(arguments, keywords)
        if gate:
            for path in sorted(receiver.paths):
                token = (*path, gate)
                add_held(self.state.held, token, keys or None)
                self.state.may |= {token}
                self.waits[Wait(token, keys, "believed", expr.line, self.place(expr.line))] = None
        place = self.place(expr.line, expr.column)
        return receiver.step(name + RESULT, frozenset(), keys).at(place)

    def nested_class(self, receiver: Value, name: str) -> ClassKey | None:
        """The class that a call on an object makes, where the name is a class of its own."""
        for key in sorted(receiver.types):
            nested = self.asked.nested(key, name)
            if nested is not None:
                return nested
        return None

    def invoke(
        self,
        function: Function,
        context: ClassKey,
        receiver: Value,
        arguments: tuple[Value, ...],
        keywords: tuple[tuple[str, Value], ...],
        line: int,
        column: int,
    ) -> Value:
        """Apply a method's summary at a call, or treat it as unknown where there is none."""
        place = f.Call(f.Name(function.facts.name), (), (), line, column)
        if self.evaluator.tells_metadata(function.facts.name):
            return Value(deps=_keys_of(arguments, keywords))
        summary = self.evaluator.summary(function, context)
        if (
            summary is None
            or _is_abstract(function.facts)
            or (self.evaluator.stores(function.facts.name) and not summary.only_waits)
        ):
            return self.opaque(function.facts.name, receiver, arguments, keywords, place)
        return self.apply(summary, function, receiver, arguments, keywords, place)

    def apply(
        self,
        summary: Summary,
        function: Function,
        receiver: Value,
        arguments: tuple[Value, ...],
        keywords: tuple[tuple[str, Value], ...],
        expr: f.Call,
    ) -> Value:
        """Do what a summary says in the words of a call; gives its result."""
        binding = bind(function, receiver, arguments, keywords)
        state = self.state
        for read in summary.reads:
            if read.use == "return":
                continue
            held = dict(state.held)
            for token, keys in read.held:
                for path in paths_of(token, binding):
                    add_held(held, path, keys_of(keys, binding))
            may = state.may | {q for p in read.may for q in paths_of(p, binding)}
            given = binding.get(read.path[0], NOTHING).deps
            for path in paths_of(read.path, binding):
                if not is_data(path):
                    continue
                self.note_read(
                    Read(
                        path,
                        given | (keys_of(read.keys, binding) or NO_KEYS),
                        tuple(sorted(held.items())),
                        frozenset(may),
                        read.use,
                        expr.line,
                        expr.column,
                        read.origin,
                        state.ordered or read.ordered,
                    )
                )
        for wait in summary.waits:
            for path in paths_of(wait.token, binding):
                keys = keys_of(wait.keys, binding) or NO_KEYS
                self.waits[Wait(path, keys, wait.kind, expr.line, wait.origin)] = None
        for token, keys in summary.exit_held:
            if for_one_member(keys, binding):
                continue
            for path in paths_of(token, binding):
                add_held(state.held, path, keys_of(keys, binding))
        state.may |= {q for p in summary.exit_may for q in paths_of(p, binding)}
        state.ordered = state.ordered or summary.exit_ordered
        return substitute(summary.result, binding, expr.line, expr.column)

    def wait(
        self,
        name: str,
        receiver: Value,
        arguments: tuple[Value, ...],
        keywords: tuple[tuple[str, Value], ...],
        expr: f.Call,
    ) -> None:
        """A primitive wait: what it is made on is held from here."""
        kind: str = self.words.primitive_waits[name]
        keys = _keys_of(arguments, keywords)
        given = bool(arguments or keywords)
        if self.words.may_take_index(name) and arguments and not _names_time(keywords) and keys:
            kind = "keyed"  # tracker.wait(layer): the index says for what
        if kind == "keyed":
            # For a number it is waited for one member, whichever is read.
            for_one = bool(arguments) and all(map(is_number, arguments))
            for token in sorted(receiver.paths):
                if not for_one:
                    add_held(self.state.held, token, keys or None)
                    self.state.may |= {token}
                self.waits[Wait(token, keys, kind, expr.line, self.place(expr.line))] = None
            return
        if kind == "device" and not given and all(_is_module(p) for p in receiver.paths):
            self.state.held[EVERYTHING] = None
        self.state.ordered = True
        waited = [*receiver.paths, *(p for a in arguments for p in a.paths)]
        for token in sorted(set(waited)):
            self.waits[Wait(token, keys, kind, expr.line, self.place(expr.line))] = None

    def local_call(
        self,
        function: Function,
        arguments: tuple[Value, ...],
        keywords: tuple[tuple[str, Value], ...],
    ) -> Value:
        """A call of a function that is defined in the same body."""
        self.unused.pop(function.facts.line, None)
        if self.nesting > 40:
            return NOTHING
        binding = bind(function, NOTHING, arguments, keywords)
        results, state = self.inline(function, self.state.fork(), binding)
        saved = self.state.env
        self.state.become([state])
        self.state.env, self.state.dead = saved, False
        return join_values(results)

    def inline(
        self, function: Function, state: State, binding: dict[str, Value]
    ) -> tuple[list[Value], State]:
        """Walk a nested function's body in place; its returns stay its own."""
        self.nesting += 8
        live, outer, bound = self.state, self.returns, self.bound
        self.state, self.returns, self.bound = state, [], []
        for parameter in function.facts.parameters:
            unknown = Value(frozenset(((f"local:{parameter.name}",),)))
            state.env[parameter.name] = binding.get(f"param:{parameter.name}", unknown)
        self.block(function.facts.body)
        own, self.returns, self.bound = self.returns, outer, bound
        end = State(dead=True)
        end.become([self.state, *(r.state for r in own)])
        self.state = live
        self.nesting -= 8
        return [r.value for r in own], end

    def opaque(
        self,
        name: str,
        receiver: Value,
        arguments: tuple[Value, ...],
        keywords: tuple[tuple[str, Value], ...],
        expr: f.Call,
    ) -> Value:
        """A call whose body is not known: what it is handed is read, unless its name says store."""
        deps = _keys_of(arguments, keywords)
        metadata = self.evaluator.tells_metadata(name.rpartition(".")[2]) if name else False
        if not metadata:
            stores = bool(name) and self.evaluator.stores(name)
            # ``rows.append(row)`` keeps its argument; ``store_rows(buffer, row)`` writes to it.
            method = "." in name and not (receiver.paths and all(map(_is_module, receiver.paths)))
            keeps = method and len(words(name.rpartition(".")[2])) == 1
            stored = "store" if stores and not keeps else "read"
            handed = (expr.line, expr.column) if expr is self.alone else None
            launched = isinstance(expr.func, f.Sub) and name  # kernel[grid](…)
            known = self.asked.function_in(self.function, name) if launched else None
            targets = stored_to(known.facts, self.evaluator.stores) if known else ()
            for number, value in enumerate(arguments):
                self.sink(value, "store" if number in targets else stored, expr.line, handed)
            for keyword, value in keywords:
                destination = set(words(keyword)) & self.words.destination_words
                destination |= {keyword} & {*targets}
                self.sink(value, "store" if destination else stored, expr.line, handed)
        if metadata:
            return Value(deps=deps | receiver.keys)
        step = name.rpartition(".")[2] + RESULT
        place = self.place(expr.line, expr.column)
        # What an element is asked for does not change which element it is.
        chosen = receiver.deps if any(map(is_element, receiver.paths)) else NO_KEYS
        result = receiver.step(step, frozenset(), NO_KEYS if chosen else deps)
        if not any(map(is_element, receiver.paths)):
            result = result.at(place)
        if not receiver.paths:
            named = frozenset(((f"global:{name}", step),)) if name else frozenset()
            result = Value(named, deps).at(place)
        return result


def _is_super(expr: f.Expr) -> bool:
    return isinstance(expr, f.Call) and expr.func == f.Name("super")


def _keys_of(arguments: Sequence[Value], keywords: Sequence[tuple[str, Value]]) -> Keys:
    return NO_KEYS.union(*(v.keys for v in arguments), *(v.keys for _, v in keywords))


def _names_time(keywords: Sequence[tuple[str, Value]]) -> bool:
    return any("timeout" in words(name) for name, _ in keywords)


def _is_module(path: Path) -> bool:
    return path[0].startswith("global:")


def _is_abstract(facts: f.FunctionFacts) -> bool:
    """Whether a body only refuses: what is handed to it is read by some override."""
    refusing = all(isinstance(s, f.Exit) and s.kind == "raise" for s in facts.body)
    return refusing and (bool(facts.body) or "abstractmethod" in ".".join(facts.decorators))


_TAKING = ("get", "pop", "values", "setdefault")
"""Methods of a mapping that hand out what it holds."""
