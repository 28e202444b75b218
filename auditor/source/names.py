"""Names across files: what a name of a module means, the order of a class's bases, its methods."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TypeVar

from auditor.source import facts as f
from auditor.source.equations import Equations

T = TypeVar("T")

ClassKey = tuple[str, str]
"""(path, qualname)."""

Scene = tuple[str, str, "f.Import | None"]
"""Where a name stands: the file, the class of the method, the import inside the body that binds it.
"""

Scope = Mapping[str, list[f.Expr]]
"""Local name → the expressions assigned to it in one function."""

_CLASS_BODY = f.FunctionFacts("", "", (), (), (), None, (), 0, 0, 0, "")


class Names:
    """Classes and functions of a side by their names."""

    def __init__(
        self, modules: Mapping[str, f.ModuleFacts], derived: Derived | None = None
    ) -> None:
        """``derived`` is shared between sides that have facts in common."""
        self.modules = dict(sorted(modules.items()))
        self.classes: dict[ClassKey, Class] = {}
        self.functions: dict[tuple[str, str], Function] = {}
        self._paths = {module_name(path): path for path in self.modules}
        self._imports: dict[str, dict[str, f.Import]] = {}
        self._by_name: dict[str, list[ClassKey]] = {}
        self._assigned_in: dict[ClassKey, dict[str, list[tuple[Function, f.Assign]]]] = {}
        self._declared_in: dict[ClassKey, dict[str, list[tuple[Function, f.Assign]]]] = {}
        self._types = Equations[ClassKey]()
        self.derived = Derived() if derived is None else derived
        for path, module in self.modules.items():
            self._imports[path] = {entry.name: entry for entry in module.imports}
            for function in module.functions:
                self.functions[path, function.name] = Function(path, function)
            for facts in module.classes:
                known = Class(path, facts)
                for method in facts.methods:
                    # Of several definitions of one name the last is in force, except a property
                    # setter, which shares the getter's name.
                    setter = any(d.endswith((".setter", ".deleter")) for d in method.decorators)
                    if not (setter and method.name in known.methods):
                        known.methods[method.name] = Function(path, method, known.key)
                if known.key not in self.classes:
                    self._by_name.setdefault(facts.name, []).append(known.key)
                self.classes[known.key] = known
        for known in self.classes.values():
            known.mro = self._linearise(known.key, ())
        self.subclasses: dict[ClassKey, list[ClassKey]] = {}
        for key, known in self.classes.items():
            for base in known.mro[1:]:
                self.subclasses.setdefault(base, []).append(key)

    def class_of(self, path: str, name: str) -> ClassKey | None:
        """The class a bare or dotted name means in a file: own, imported, else unique by name."""
        found = self._resolve(path, name, 0)
        if isinstance(found, Class):
            return found.key
        if found is not None:
            return None
        candidates = self._by_name.get(name.rpartition(".")[2], [])
        return candidates[0] if len(candidates) == 1 else None

    def function_of(self, path: str, name: str) -> Function | None:
        """The module-level function a bare or dotted name means in a file."""
        found = self._resolve(path, name, 0)
        return found if isinstance(found, Function) else None

    def imported(self, path: str, name: str) -> bool:
        """Whether a name is bound by an import at the top of the file."""
        return name in self._imports.get(path, {})

    def method(
        self, context: ClassKey, name: str, after: ClassKey | None = None
    ) -> Function | None:
        """The method in force on a class, or the next one after ``after`` (for ``super()``)."""
        mro = self.classes[context].mro
        start = mro.index(after) + 1 if after in mro else 0
        for key in mro[start:]:
            found = self.classes[key].methods.get(name)
            if found is not None:
                return found
        return None

    def methods(self, context: ClassKey) -> Iterator[Function]:
        """Every method of a class and its bases, overridden ones included, own first."""
        for key in self.classes[context].mro:
            yield from self.classes[key].methods.values()

    def nested(self, context: ClassKey, name: str) -> ClassKey | None:
        """The class of that name in the body of a class or of one of its bases."""
        for path, qualname in self.classes[context].mro:
            found = (path, f"{qualname}.{name}")
            if found in self.classes:
                return found
        return None

    def _resolve(self, path: str, name: str, depth: int) -> Class | Function | None:
        head, _, rest = name.partition(".")
        local = self.classes.get((path, name))
        if local is not None:
            return local
        if not rest and (path, name) in self.functions:
            return self.functions[path, name]
        entry = self._imports.get(path, {}).get(head)
        if entry is None or depth > 4:
            return None
        return self._imported(entry, rest, depth)

    def _imported(self, entry: f.Import, rest: str, depth: int) -> Class | Function | None:
        if entry.member:
            inner = self._paths.get(f"{entry.module}.{entry.member}")
            if inner is not None:
                return self._resolve(inner, rest, depth + 1) if rest else None
            source = self._paths.get(entry.module)
            if source is None:
                return None
            return self._resolve(source, f"{entry.member}.{rest}".rstrip("."), depth + 1)
        # ``import a.b.c`` and ``a.b.c.X``: the longest module prefix wins.
        dotted = rest if entry.name == entry.module else f"{entry.module}.{rest}"
        if entry.name == entry.module.partition(".")[0]:
            dotted = f"{entry.name}.{rest}"
        module = dotted.rpartition(".")[0]
        while module:
            if module in self._paths:
                return self._resolve(self._paths[module], dotted[len(module) + 1 :], depth + 1)
            module = module.rpartition(".")[0]
        return None

    def _linearise(self, key: ClassKey, seen: tuple[ClassKey, ...]) -> tuple[ClassKey, ...]:
        """C3 where it exists, else depth first; cyclic bases are cut."""
        known = self.classes[key]
        if known.mro:
            return known.mro
        parents: list[ClassKey] = []
        for written in known.facts.bases:
            base = written
            while isinstance(base, f.Sub):  # Generic[T]
                base = base.value
            found = self.class_of(known.path, f.dotted(base))
            if found is not None and found != key and found not in seen:
                parents.append(found)
        orders = [list(self._linearise(parent, (*seen, key))) for parent in parents]
        merged = _merge([*orders, list(parents)])
        if merged is None:
            flat = [k for order in orders for k in order]
            merged = list(dict.fromkeys(flat))
        return (key, *(k for k in merged if k != key))

    def every_function(self) -> Iterator[Function]:
        """Every function of a module and method of a class."""
        yield from self.functions.values()
        for known in self.classes.values():
            yield from known.methods.values()

    def mentioning(self, name: str) -> Sequence[Function]:
        """The functions that name an attribute, a method or a called function."""
        return self._mentioning.get(name, ())

    @cached_property
    def _mentioning(self) -> dict[str, list[Function]]:
        found: dict[str, list[Function]] = {}
        for function in self.every_function():
            for name in function.facts.mentions:
                found.setdefault(name, []).append(function)
        return found

    def assigned(self, key: ClassKey) -> Mapping[str, list[tuple[Function, f.Assign]]]:
        """``self.<name> = …`` of a class's own methods: also ``self.x[i] = …`` and appends."""
        found = self._assigned_in.get(key)
        if found is None:
            known = self.classes[key]
            work = partial(_assigned, known)
            found = self.derived.of(known.facts, ("assigned", known.path), work)
            self._assigned_in[key] = found
        return found

    def _declared(self, key: ClassKey) -> Mapping[str, list[tuple[Function, f.Assign]]]:
        """``name = …`` and ``name: type`` in a class's own body."""
        known = self._declared_in.get(key)
        if known is None:
            known = self._declared_in[key] = {}
            place = Function(key[0], _CLASS_BODY, key)
            for assign in self.classes[key].facts.assigns:
                for name in {t.id for t in assign.targets if isinstance(t, f.Name)}:
                    known.setdefault(name, []).append((place, assign))
        return known


class Derived:
    """What was worked out of facts, once for all sides that hold the same object."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, object], tuple[object, object]] = {}

    def of(self, facts: object, what: object, work: Callable[[], T]) -> T:
        """The answer to ``what`` about facts; it must depend on nothing else."""
        key = (id(facts), what)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = (facts, work())  # facts kept alive, so that ids stay theirs
        return known[1]  # type: ignore[return-value]


@dataclass(frozen=True)
class Function:
    """A function in its file; ``owner`` is the class that defines it, if any."""

    path: str
    facts: f.FunctionFacts
    owner: ClassKey | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """Equal for equal functions only (a file can define one name twice)."""
        return (self.path, self.facts.qualname, self.facts.digest)

    def line_of(self, line: int) -> int:
        """The line of the file for one that is counted within the function."""
        return self.facts.line + line - 1

    @cached_property
    def scope(self) -> Scope:
        """Every assignment to a plain local name, flow ignored."""
        found: dict[str, list[f.Expr]] = {}
        for stmt in f.statements(self.facts.body):
            if isinstance(stmt, f.Assign) and stmt.value is not None:
                for target in stmt.targets:
                    if isinstance(target, f.Name):
                        found.setdefault(target.id, []).append(stmt.value)
            elif isinstance(stmt, f.Loop) and isinstance(stmt.target, f.Name):
                found.setdefault(stmt.target.id, []).append(stmt.source)
        return found

    @cached_property
    def imports(self) -> Mapping[str, f.Import]:
        """Names imported inside the body."""
        return {s.name: s for s in f.statements(self.facts.body) if isinstance(s, f.Import)}

    def scene(self, name: str) -> Scene:
        """All of the function that decides on what a name means in it."""
        entry = self.imports.get(name.partition(".")[0])
        return (self.path, self.owner[1] if self.owner else "", entry)

    def parameter(self, name: str) -> f.Parameter | None:
        """The parameter of that name."""
        return next((p for p in self.facts.parameters if p.name == name), None)


@dataclass
class Class:
    """A class in its file; ``mro`` starts with the class itself, unknown bases are left out."""

    path: str
    facts: f.ClassFacts
    mro: tuple[ClassKey, ...] = ()
    methods: dict[str, Function] = field(default_factory=dict)

    @property
    def key(self) -> ClassKey:
        """(path, qualname)."""
        return (self.path, self.facts.qualname)


def module_name(path: str) -> str:
    """``sglang/srt/x.py`` → ``sglang.srt.x``; a package's ``__init__`` is the package."""
    dotted = path.removesuffix(".py").replace("/", ".")
    return dotted.removesuffix(".__init__")


def package_name(path: str) -> str:
    """The dotted package that relative imports of this file start from."""
    return path.rpartition("/")[0].replace("/", ".")


def _assigned(known: Class) -> dict[str, list[tuple[Function, f.Assign]]]:
    found: dict[str, list[tuple[Function, f.Assign]]] = {}
    for function in known.methods.values():
        for stmt in f.statements(function.facts.body):
            for name, assign in _self_assignments(stmt):
                found.setdefault(name, []).append((function, assign))
    return found


def _self_assignments(stmt: f.Stmt) -> Iterator[tuple[str, f.Assign]]:
    if isinstance(stmt, f.Assign):
        for target in stmt.targets:
            inner = target
            while isinstance(inner, f.Sub):
                inner = inner.value
            if isinstance(inner, f.Attr) and inner.value == f.Name("self"):
                yield inner.name, stmt
            elif isinstance(target, f.Group):
                values = stmt.value.parts if isinstance(stmt.value, f.Group) else ()
                paired = len(values) == len(target.parts)
                for position, part in enumerate(target.parts):
                    if isinstance(part, f.Attr) and part.value == f.Name("self"):
                        value = values[position] if paired else stmt.value
                        yield part.name, f.Assign((part,), value, None, stmt.line)
    elif isinstance(stmt, f.Do) and isinstance(stmt.value, f.Call):
        func = stmt.value.func
        if isinstance(func, f.Attr) and func.name in ("append", "extend", "insert", "add"):
            held = func.value
            if isinstance(held, f.Attr) and held.value == f.Name("self") and stmt.value.args:
                value = stmt.value.args[-1]
                yield held.name, f.Assign((held,), value, None, stmt.line)


def _merge(orders: list[list[ClassKey]]) -> list[ClassKey] | None:
    """The C3 merge; None where the orders contradict each other."""
    orders = [list(order) for order in orders if order]
    merged: list[ClassKey] = []
    while orders:
        for order in orders:
            head = order[0]
            if not any(head in other[1:] for other in orders):
                break
        else:
            return None
        merged.append(head)
        orders = [[k for k in order if k != head] for order in orders]
        orders = [order for order in orders if order]
    return merged
