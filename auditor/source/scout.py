"""Picks the files of a snapshot that can matter to the gate analysis, by bytes first.

Three rounds: the files that call a keyed wait; their classes' bases, subclasses and inner objects;
and one round of readers, by the names of what those classes wait for.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from auditor.source import facts as f
from auditor.source.names import Derived, module_name
from auditor.source.roles import LAST_WORD, TOO_COMMON, parameter_waits, waits_of
from auditor.source.scans import Scans
from auditor.vocabulary import Vocabulary

Facts = Callable[[Iterable[str]], Mapping[str, f.ModuleFacts]]
"""Gives the facts of the named files; what cannot be read is missing from the answer."""

_NOT_DEPLOYED = re.compile(
    r"(^|/)(tests?|testing|benchmarks?|examples?|docs?)/|(^|/)(test_[^/]*|[^/]*_test|conftest)\.py$"
)


@dataclass(frozen=True)
class Scouted:
    """The chosen files, and the names that chose them.

    ``gates`` are the attributes or parameters that a keyed wait is made on; ``protected`` the
    attributes read behind one; ``optional`` the methods that wait on a parameter; ``open_readers``
    the methods that read something protected and name neither a gate nor a wait.
    """

    paths: tuple[str, ...] = ()
    gates: frozenset[str] = frozenset()
    protected: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    open_readers: frozenset[str] = frozenset()

    def names(self) -> Scouted:
        """The names alone, to be shared between sides."""
        return replace(self, paths=())

    def merge(self, other: Scouted) -> Scouted:
        """The names of both; the paths stay one's own."""
        return Scouted(
            self.paths,
            self.gates | other.gates,
            self.protected | other.protected,
            self.optional | other.optional,
            self.open_readers | other.open_readers,
        )


@functools.lru_cache(maxsize=1 << 16)
def deployed(path: str) -> bool:
    """Whether a file can be part of a running server: tests, benchmarks and examples are not."""
    return _NOT_DEPLOYED.search(path) is None


class Scout:
    """Chooses the files of one side in three steps, names shared between the sides after each.

    A gate that one side no longer holds is still looked for there, since another side names it.
    """

    def __init__(
        self,
        sources: Mapping[str, bytes],
        vocabulary: Vocabulary,
        facts: Facts,
        scans: Scans | None = None,
        derived: Derived | None = None,
    ) -> None:
        """``sources`` are all Python files of the snapshot.

        ``scans`` is shared between sides, and has interned them; so is ``derived``.
        """
        self.waits = Waits(vocabulary, Derived() if derived is None else derived)
        self.scans = Scans() if scans is None else scans
        known = sources if scans is not None else self.scans.intern(sources)
        self.sources = {path: data for path, data in known.items() if deployed(path)}
        self.vocabulary = vocabulary
        self.facts = facts
        self.modules: dict[str, f.ModuleFacts] = {}

    def find_gates(self) -> Scouted:
        """Step one: what keyed waits are made on."""
        words = [n for n in self.vocabulary.primitive_waits if self.vocabulary.may_take_index(n)]
        waits = _wait_pattern(self.vocabulary)
        seeds = self.scans.holding(self.sources, words, waits)
        self.modules |= self.facts(seeds)
        return Scouted(gates=_gates(self.modules.values(), self.waits))

    def find_families(self, shared: Scouted) -> Scouted:
        """Step two: the classes that name a gate, and what their methods read behind it."""
        gates = shared.gates
        if not gates:
            return shared
        naming = self.scans.holding(self.sources, sorted(gates), _name_pattern(gates))
        self.modules |= self.facts([path for path in naming if path not in self.modules])
        families = _close(self._bases, self.modules, gates, self.facts)
        return shared.merge(_protected(self.modules, families, gates, self.waits))

    def find_readers(self, shared: Scouted, also: Iterable[str] = ()) -> Scouted:
        """Step three: who reads any of it, and methods of one name that wait on a parameter.

        ``also`` are files wanted for other reasons.
        """
        names = shared.protected | shared.optional | shared.open_readers
        wanted = {*_readers(self.sources, names, self.scans), *also} & self.sources.keys()
        wanted |= parameter_waits(self.sources, self.vocabulary, self.scans)
        self.modules |= self.facts(sorted(wanted - self.modules.keys()))
        self._load_hosts(shared.protected)
        return replace(shared, paths=tuple(sorted(self.modules)))

    @functools.cached_property
    def _bases(self) -> dict[str, set[str]]:
        """Every word among the bases of each file's classes."""
        found = {path: self.scans.found(data, _CLASS) for path, data in self.sources.items()}
        return {path: _base_words(bases) for path, bases in found.items()}

    def _load_hosts(self, protected: frozenset[str]) -> None:
        """The subclasses of the classes that transfer what is protected: they may move more."""
        names: set[str] = set()
        while True:
            known = [c for module in self.modules.values() for c in module.classes]
            fresh = {
                c.name for c in known if self._transfers(c, protected) or _base_names(c) & names
            }
            if fresh <= names:
                return
            names |= fresh
            wanted = {path for path, bases in self._bases.items() if bases & names}
            self.modules |= self.facts(sorted(wanted - self.modules.keys()))

    def _transfers(self, known: f.ClassFacts, protected: frozenset[str]) -> bool:
        return any(
            not protected.isdisjoint(method.mentions)
            and self.vocabulary.duty(method.name) == "transfer"
            for method in known.methods
        )


def _wait_pattern(vocabulary: Vocabulary) -> re.Pattern[bytes]:
    keyed = [n for n, kind in vocabulary.primitive_waits.items() if kind == "keyed"]
    event = [n for n in vocabulary.primitive_waits if vocabulary.may_take_index(n)]
    names = "|".join(map(re.escape, sorted(keyed)))
    given = "|".join(map(re.escape, sorted(event)))
    parts = [rf"(?:{names})\s*\("] if keyed else []
    parts += [rf"(?:{given})\s*\(\s*[^)\s]"] if event else []
    return re.compile(rf"\.\s*(?:{'|'.join(parts)})".encode() if parts else rb"(?!)")


def lost_waits(mine: bytes, theirs: bytes, vocabulary: Vocabulary) -> bool:
    """Whether a file has fewer waits of some receiver than another side's version of it."""
    before, after = (_waited_on(data, vocabulary) for data in (theirs, mine))
    return any(count > after[wait] for wait, count in before.items())


def _waited_on(data: bytes, vocabulary: Vocabulary) -> Counter[tuple[bytes, ...]]:
    waits = waits_of(vocabulary)
    found: Counter[tuple[bytes, ...]] = Counter()
    for wait in waits.finditer(data):
        before = LAST_WORD.search(data[max(0, wait.start() - 60) : wait.start()])
        found[before.group() if before else b"", wait.group()] += 1
    return found


def _name_pattern(names: Iterable[str]) -> re.Pattern[bytes]:
    return re.compile(rb"\b(?:" + b"|".join(re.escape(n.encode()) for n in sorted(names)) + rb")\b")


class Waits:
    """The waits of functions, each looked at once."""

    def __init__(self, vocabulary: Vocabulary, derived: Derived) -> None:
        self.vocabulary = vocabulary
        self._derived = derived

    def of(self, function: f.FunctionFacts) -> Sequence[tuple[str, f.Call]]:
        """(gate, call) of every wait that is told what to wait for.

        The gate is the attribute, or the parameter, that is waited on. ``x.wait(i)`` counts only on
        an attribute of self and for a parameter that other code of the function's class could index
        by: most calls of that name take a time or a stream.
        """
        if self.vocabulary.primitive_waits.keys().isdisjoint(function.mentions):
            return ()
        keyed = _keyed_waits(function, self.vocabulary)
        return self._derived.of(function, "waits", lambda: tuple(keyed))


def _keyed_waits(function: f.FunctionFacts, vocabulary: Vocabulary) -> Iterable[tuple[str, f.Call]]:
    for stmt in f.statements(function.body):
        for top in f.expressions(stmt):
            for node in f.walk(top):
                if isinstance(node, f.Call) and isinstance(node.func, f.Attr):
                    if not vocabulary.may_take_index(node.func.name):
                        continue
                    kind = vocabulary.primitive_waits[node.func.name]
                    receiver = node.func.value
                    if kind == "keyed" or _indexed(function, node):
                        for name in _gate_names(function, receiver, kind):
                            yield name, node


def _indexed(function: f.FunctionFacts, call: f.Call) -> bool:
    parameters = {p.name for p in function.parameters[1:]}
    if len(call.args) != 1 or call.keywords:
        return False
    names = {n.id for n in f.walk(call.args[0]) if isinstance(n, f.Name)}
    calls = any(isinstance(n, f.Call) for n in f.walk(call.args[0]))
    return bool(names & parameters) and not calls


def _gate_names(function: f.FunctionFacts, receiver: f.Expr, kind: str) -> Iterable[str]:
    if isinstance(receiver, f.Attr) and (kind == "keyed" or _rooted_at_self(receiver)):
        yield receiver.name
    elif isinstance(receiver, f.Name) and receiver.id != "self" and kind == "keyed":
        for stmt in f.statements(function.body):
            if isinstance(stmt, f.Assign) and receiver in stmt.targets:
                if isinstance(stmt.value, f.Attr):
                    yield stmt.value.name
        if any(p.name == receiver.id for p in function.parameters):
            yield receiver.id


def _rooted_at_self(expr: f.Expr) -> bool:
    while isinstance(expr, f.Attr):
        expr = expr.value
    return expr == f.Name("self")


def _gates(modules: Iterable[f.ModuleFacts], keyed: Waits) -> frozenset[str]:
    kinds = keyed.vocabulary.primitive_waits
    found: set[str] = set()
    for module in modules:
        for function in module.functions:
            found |= {name for name, _ in keyed.of(function)}
        for known in module.classes:
            waits = [w for method in known.methods for w in keyed.of(method)]
            doubtful = any(kinds[_called(call)] != "keyed" for _, call in waits)
            indices = {i for m in known.methods for i in _indices(m)} if doubtful else set()
            for name, call in waits:
                names = {n for argument in call.args for n in _names(argument)}
                if kinds[_called(call)] == "keyed" or names & indices:
                    found.add(name)
    return frozenset(found)


def _called(call: f.Call) -> str:
    return call.func.name if isinstance(call.func, f.Attr) else ""


def _indices(method: f.FunctionFacts) -> Iterable[str]:
    """Parameters that a method indexes an attribute of self by."""
    parameters = {p.name for p in method.parameters}
    for stmt in f.statements(method.body):
        for top in f.expressions(stmt):
            for node in f.walk(top):
                if isinstance(node, f.Sub) and _rooted_at_self(node.value):
                    yield from _names(node.index) & parameters


def _names(expr: f.Expr) -> set[str]:
    return {n.id for n in f.walk(expr) if isinstance(n, f.Name)}


def _close(
    bases: Mapping[str, set[str]],
    modules: dict[str, f.ModuleFacts],
    gates: frozenset[str],
    facts: Facts,
) -> set[str]:
    """Load bases, subclasses and inner objects of the classes that name a gate.

    ``bases`` are the words among those of each file's classes. Returns the names of the classes
    that name a gate or inherit from one that does; ``modules`` grows.
    """
    families: set[str] = set()
    tried: set[str] = set()
    paths = {module_name(path): path for path in bases}
    while True:
        for module in modules.values():
            for known in module.classes:
                named = any(gates & set(m.mentions) for m in known.methods)
                if named or _base_names(known) & families:
                    families.add(known.name)
        fresh = families - tried
        if not fresh:
            return families
        tried |= fresh
        wanted = {path for path, words in bases.items() if words & fresh and path not in modules}
        for module in modules.values():
            for known in module.classes:
                if known.name in fresh:
                    wanted |= _used_modules(module, known, paths)
        modules |= facts(sorted(wanted - modules.keys()))


_NAME = re.compile(rb"\w+")
_CLASS = re.compile(rb"class\s+\w+\s*\(([^)]*)\)")


def _base_words(found: Iterable[bytes]) -> set[str]:
    """Every word among the bases of a file's classes."""
    return {word.decode() for bases in found for word in _NAME.findall(bases)}


def _base_names(known: f.ClassFacts) -> set[str]:
    return {f.dotted(base).rpartition(".")[2] for base in known.bases} - {""}


def _used_modules(module: f.ModuleFacts, known: f.ClassFacts, paths: Mapping[str, str]) -> set[str]:
    """Files that a class's bases, constructed objects and annotations are imported from."""
    bases = {f.dotted(base).partition(".")[0] for base in known.bases}
    imports = list(module.imports)
    for method in known.methods:
        imports += [s for s in f.statements(method.body) if isinstance(s, f.Import)]
    found: set[str] = set()
    for entry in imports:
        if entry.name in bases or entry.member[:1].isupper():
            path = paths.get(entry.module)
            if path is not None:
                found.add(path)
    return found


def _protected(
    modules: Mapping[str, f.ModuleFacts],
    families: set[str],
    gates: frozenset[str],
    keyed: Waits,
) -> Scouted:
    """What methods of the families read behind a wait, and which methods may do without."""
    wrappers: set[str] = set()
    optional: set[str] = set()
    methods: list[f.FunctionFacts] = []
    for module in modules.values():
        for function in module.functions:
            if any(name in gates for name, _ in keyed.of(function)):
                wrappers.add(function.name)
        for known in module.classes:
            if known.name not in families:
                continue
            methods += known.methods
            for method in known.methods:
                for name, call in keyed.of(method):
                    if name not in gates:
                        continue
                    wrappers.add(method.name)
                    receiver = call.func.value if isinstance(call.func, f.Attr) else None
                    if receiver == f.Name(name):
                        optional.add(method.name)
    telling = gates | wrappers
    found: set[str] = set()
    for method in methods:
        if telling & set(method.mentions):
            parameters = {p.name for p in method.parameters[1:]}
            for stmt in f.statements(method.body):
                for top in f.expressions(stmt):
                    found |= _read_attributes(top, parameters)
    protected = frozenset(found - telling)
    readers = {
        m.name
        for m in methods
        if m.name[:1] != "_"
        and not keyed.vocabulary.duty(m.name)
        and protected & set(m.mentions)
        and not telling & set(m.mentions)
    }
    return Scouted((), gates, protected, frozenset(optional), frozenset(readers))


def _read_attributes(top: f.Expr, parameters: set[str]) -> set[str]:
    """Attributes of self that are indexed, or asked by method, with a parameter."""
    found: set[str] = set()
    for node in f.walk(top):
        inner: f.Expr | None = None
        if isinstance(node, f.Sub) and _names(node.index) & parameters:
            inner = node.value
        elif isinstance(node, f.Call) and isinstance(node.func, f.Attr):
            if any(_names(a) & parameters for a in (*node.args, *(v for _, v in node.keywords))):
                inner = node.func.value
        while isinstance(inner, f.Attr | f.Sub):
            if isinstance(inner, f.Attr) and inner.value == f.Name("self"):
                found.add(inner.name)
            inner = inner.value
    return found


def _readers(sources: Mapping[str, bytes], names: frozenset[str], scans: Scans) -> Sequence[str]:
    """Files that use one of the names on some object, unless the name is used everywhere."""
    if not names:
        return ()
    alternatives = b"|".join(re.escape(n.encode()) for n in sorted(names))
    used = re.compile(rb"\.(" + alternatives + rb")\b")
    asked = re.compile(rb"attr\([^'\"]{0,200}['\"](" + alternatives + rb")['\"]")
    users: dict[bytes, list[str]] = {}
    for path, data in sources.items():
        for name in {*scans.found(data, used), *scans.found(data, asked, [b"attr("])}:
            users.setdefault(name, []).append(path)
    return sorted({p for paths in users.values() if len(paths) <= TOO_COMMON for p in paths})
