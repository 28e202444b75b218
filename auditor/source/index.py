"""The types of attributes, names and calls, on top of what names mean across files.

Types are sets of known classes; a container is taken for its elements (``self.pools[i]`` has the
types of what was put into ``self.pools``). What cannot be resolved is an empty set, never a guess.
"""

from __future__ import annotations

from collections.abc import Iterator

from auditor.source import facts as f
from auditor.source.names import Class, ClassKey, Function, Names, Scene

_CONTAINERS = ("list", "tuple", "dict", "and", "or", "star", "await")
_DEPTH = 8


class SourceIndex(Names):
    """All that was extracted of one snapshot, with names resolved between files."""

    def attribute_types(self, context: ClassKey, name: str) -> frozenset[ClassKey]:
        """The known classes that ``self.name`` can hold on objects of a class."""
        return self._types.solve((context, name), lambda: self._attribute_types(context, name))

    def _attribute_types(self, context: ClassKey, name: str) -> frozenset[ClassKey]:
        found: set[ClassKey] = set()
        for key in self.classes[context].mro:
            own, declared = self.assigned(key).get(name, ()), self._declared(key).get(name, ())
            for function, assign in (*own, *declared):
                if assign.annotation is not None:
                    found |= self.annotation_types(function, assign.annotation)
                if assign.value is not None:
                    found |= self.types(function, context, assign.value)
        method = self.method(context, name)
        if method is not None and is_property(method.facts):
            found |= self.return_types(method, context)
        return frozenset(found)

    def return_types(self, function: Function, context: ClassKey | None) -> frozenset[ClassKey]:
        """The known classes a function returns: by its annotation, else by what it returns."""
        key = (*function.key, context)
        return self._types.solve(key, lambda: self._return_types(function, context))

    def _return_types(self, function: Function, context: ClassKey | None) -> frozenset[ClassKey]:
        declared: frozenset[ClassKey] = frozenset()
        if function.facts.returns is not None:
            declared = self.annotation_types(function, function.facts.returns)
        made: set[ClassKey] = set()
        for stmt in f.statements(function.facts.body):
            if isinstance(stmt, f.Exit) and stmt.kind == "return" and stmt.value is not None:
                made |= self.types(function, context, stmt.value)
        # What is made is more exact than what is promised, where it keeps the promise.
        exact = made and all(declared & set(self.classes[key].mro) for key in made)
        return frozenset(made) if exact or not declared else declared

    @property
    def settled(self) -> bool:
        """Whether no answer so far depends on what was asked before it."""
        return self._types.settled

    def annotation_types(self, function: Function, annotation: f.Expr) -> frozenset[ClassKey]:
        """Every known class named in an annotation (``Optional[X]``, ``list[X]``, ``X | None``)."""
        keys = (self.class_in(function, name) for name in names_in(annotation))
        return frozenset(key for key in keys if key is not None)

    def types(
        self, function: Function, context: ClassKey | None, expr: f.Expr, depth: int = 0
    ) -> frozenset[ClassKey]:
        """The known classes an expression can hold inside a function."""
        if depth > _DEPTH:
            return frozenset()
        again = depth + 1
        if isinstance(expr, f.Name):
            return self._name_types(function, context, expr.id, again)
        if isinstance(expr, f.Attr):
            found: set[ClassKey] = set()
            for key in self.types(function, context, expr.value, again):
                found |= self.attribute_types(key, expr.name)
            return frozenset(found)
        if isinstance(expr, f.Sub):
            return self.types(function, context, expr.value, again)
        if isinstance(expr, f.Call):
            return self._call_types(function, context, expr, again)
        parts: tuple[f.Expr, ...] = ()
        if isinstance(expr, f.Choice):
            parts = (expr.body, expr.orelse)
        elif isinstance(expr, f.Comp):
            parts = (expr.element,)
        elif isinstance(expr, f.Bind):
            parts = (expr.value,)
        elif isinstance(expr, f.Group) and expr.op in _CONTAINERS:
            parts = expr.parts
        return frozenset().union(*(self.types(function, context, p, again) for p in parts))

    def _name_types(
        self, function: Function, context: ClassKey | None, name: str, depth: int
    ) -> frozenset[ClassKey]:
        parameters = function.facts.parameters
        if name in ("self", "cls") and context and parameters and parameters[0].name == name:
            return frozenset((context,))
        found: set[ClassKey] = set()
        parameter = function.parameter(name)
        if parameter is not None and parameter.annotation is not None:
            found |= self.annotation_types(function, parameter.annotation)
        for value in function.scope.get(name, ()):
            found |= self.types(function, context, value, depth)
        return frozenset(found)

    def _call_types(
        self, function: Function, context: ClassKey | None, call: f.Call, depth: int
    ) -> frozenset[ClassKey]:
        name = f.dotted(call.func)
        if name in ("enumerate", "zip", "list", "tuple", "reversed", "sorted", "iter", "next"):
            return frozenset().union(*(self.types(function, context, a, depth) for a in call.args))
        if name:
            found = self.class_in(function, name)
            if found is not None:
                return frozenset((found,))
            plain = self.function_in(function, name)
            if plain is not None:
                return self.return_types(plain, None)
            if name in function.scope:  # a class held in a local: cls = A if x else B; cls(…)
                held = self._held_classes(function, name, 0)
                if held:
                    return held
        if isinstance(call.func, f.Attr):
            result: set[ClassKey] = set(self._class_attribute(context, call.func))
            for key in self.types(function, context, call.func.value, depth):
                method = self.method(key, call.func.name)
                if method is not None:
                    result |= self.return_types(method, key)
            return frozenset(result)
        return frozenset()

    def _class_attribute(self, context: ClassKey | None, func: f.Attr) -> Iterator[ClassKey]:
        """Classes that ``self.name`` holds: a nested one, or ``name = SomeClass`` in a body."""
        if context is None or func.value not in (f.Name("self"), f.Name("cls")):
            return
        for key in self.classes[context].mro:
            nested = (key[0], f"{key[1]}.{func.name}")
            if nested in self.classes:
                yield nested
                return
            held = [a for a in self.classes[key].facts.assigns if f.Name(func.name) in a.targets]
            held += [a for _, a in self.assigned(key).get(func.name, ())]
            found = [
                made
                for assign in held
                if assign.value is not None
                for option in _options(assign.value)
                if (made := self.class_of(key[0], f.dotted(option))) is not None
            ]
            if found:
                yield from found
                return

    def _held_classes(self, function: Function, name: str, depth: int) -> frozenset[ClassKey]:
        found: set[ClassKey] = set()
        stack = list(function.scope.get(name, ()))
        while stack:
            expr = stack.pop()
            if isinstance(expr, f.Choice):
                stack += [expr.body, expr.orelse]
                continue
            dotted = f.dotted(expr)
            key = self.class_in(function, dotted) if dotted else None
            if key is not None:
                found.add(key)
            elif dotted in function.scope and dotted != name and depth < 3:
                found |= self._held_classes(function, dotted, depth + 1)
        return frozenset(found)

    def class_in(self, function: Function, name: str) -> ClassKey | None:
        """The class a name means inside a function (its own imports included)."""
        return self.class_at(function.scene(name), name)

    def function_in(self, function: Function, name: str) -> Function | None:
        """The module-level function a name means inside a function (its own imports included)."""
        return self.function_at(function.scene(name), name)

    def class_at(self, scene: Scene, name: str) -> ClassKey | None:
        """The class a name means in a scene."""
        path, owner, entry = scene
        rest = name.partition(".")[2]
        if entry is not None:
            found = self._imported(entry, rest, 0)
            if found is None and not rest:
                return self.class_of(path, entry.member)
            return found.key if isinstance(found, Class) else None
        if owner and (path, f"{owner}.{name}") in self.classes:
            return (path, f"{owner}.{name}")
        return self.class_of(path, name)

    def function_at(self, scene: Scene, name: str) -> Function | None:
        """The module-level function a name means in a scene."""
        path, _, entry = scene
        if entry is not None:
            found = self._imported(entry, name.partition(".")[2], 0)
            return found if isinstance(found, Function) else None
        return self.function_of(path, name)


def names_in(annotation: f.Expr) -> Iterator[str]:
    """The names of an annotation, dotted ones whole."""
    stack = [annotation]
    while stack:
        node = stack.pop()
        name = f.dotted(node)
        if isinstance(node, f.Const) and node.kind == "str":
            name = node.text
        if name:
            yield name
        else:
            stack.extend(f.children(node))


def _options(expr: f.Expr) -> tuple[f.Expr, ...]:
    if isinstance(expr, f.Choice):
        return (*_options(expr.body), *_options(expr.orelse))
    return (expr,)


def is_property(facts: f.FunctionFacts) -> bool:
    """Whether reading the attribute runs this function."""
    return any(d.rpartition(".")[2] in ("property", "cached_property") for d in facts.decorators)
