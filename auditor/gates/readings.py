"""Who reads which buffer, how, and behind which gate: one reading of a snapshot for all rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from auditor.gates.flow import EVERYTHING, Evaluator
from auditor.gates.memory import SideMemory
from auditor.gates.values import (
    ELEMENT,
    FIXED,
    LOOP,
    LOOPED,
    NO_KEYS,
    RESULT,
    SELF,
    CallSite,
    Keys,
    Path,
    Place,
    Read,
    Summary,
)
from auditor.source import facts as f
from auditor.source.index import ClassKey, Function, SourceIndex
from auditor.source.scout import Scouted
from auditor.vocabulary import Vocabulary

_MOST_VOTERS = 12


@dataclass(frozen=True)
class Reading:
    """One method's read of one attribute of its object, on objects of ``context``.

    ``gated``: a gate is held on every path; ``partial``: it was waited on along some; ``late``: the
    method waits, but only after the read; ``waits``: it waits at all. ``gate`` is the receiver
    waited on, as text.
    """

    context: ClassKey
    function: Function
    root: str
    read: Read
    gated: bool
    partial: bool
    late: bool
    waits: bool
    gate: str

    @property
    def optional(self) -> bool:
        """Whether the gate is one that a caller may leave out."""
        return self.gate.startswith(("param:", "?"))

    @property
    def delegated(self) -> bool:
        """Whether the elements are another object's, reached through an attribute."""
        step = self.read.path[2] if len(self.read.path) > 2 else ""
        return step.endswith(RESULT) or step.isidentifier()


class Readings:
    """The families of a snapshot (classes that share a gate by inheritance) and their readings."""

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

    # -- families --------------------------------------------------------------------------------

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
                        path = _self_path(node)
                        if path is not None and len(path) == 2:
                            return True
                    if isinstance(node, f.Call) and isinstance(node.func, f.Attr):
                        waits = self.words.may_take_index(node.func.name)
                        path = _self_path(node.func.value) if waits else None
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

    # -- arming ----------------------------------------------------------------------------------

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
            path = _self_path(target)
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

    def in_force(self, context: ClassKey) -> Iterator[Function]:
        """The methods of a class as its objects have them: own first, overridden ones left out."""
        seen: set[str] = set()
        for method in self.index.methods(context):
            if method.facts.name not in seen:
                seen.add(method.facts.name)
                yield method

    # -- readings --------------------------------------------------------------------------------

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        """Every reading by a family's own methods, in a fixed order."""
        return tuple(self._readings())

    def _readings(self) -> Iterator[Reading]:
        for context in self.families:
            known = self.index.classes[context]
            for _, method in sorted(known.methods.items()):
                yield from self.of_method(context, method)

    def of_method(self, context: ClassKey, method: Function) -> Iterator[Reading]:
        """The readings of one method on objects of a class."""
        summary = self.summary(method, context)
        waited = [w for w in summary.waits if w.kind == "keyed" and self.is_gate(w.token)]
        for read in summary.reads:
            if read.path[0] != "self" or len(read.path) < 2 or read.path[1] in self.gates:
                continue
            held = self.gate_held(read, context)
            own = [w for w in waited if w.keys & read.keys and not self._void(w.token, context)]
            after = read.use != "return" and any(
                w.line > read.line for w in own if w.token not in read.may
            )
            may = {w.token for w in own} & read.may
            yield Reading(
                context,
                method,
                read.path[1],
                read,
                held is not None,
                bool(may),
                after,
                bool(waited),
                ".".join(held) if held else "",
            )

    def is_gate(self, token: Path) -> bool:
        """Whether what is waited on is one of the gates: an attribute, or a parameter for it."""
        return token[-1].removeprefix("param:") in self.gates

    def event_guarded(self, context: ClassKey, root: str) -> bool:
        """Whether members of an attribute carry events of their own that readers wait on."""
        known = self._event_roots.get(context)
        if known is None:
            found: set[str] = set()
            for method in self.index.methods(context):
                if self.words.primitive_waits.keys() & set(method.facts.mentions):
                    for wait in self.summary(method, context).waits:
                        # A wait that is only believed of a method's name is one on a gate.
                        if wait.kind not in ("keyed", "believed") and wait.token[0] == "self":
                            if len(wait.token) > 2:
                                found.add(wait.token[1])
            known = self._event_roots[context] = frozenset(found)
        return root in known

    @cached_property
    def _event_roots(self) -> dict[ClassKey, frozenset[str]]:
        return {}

    def gate_held(self, read: Read, context: ClassKey | None) -> Path | None:
        """The gate that a read is behind on every path, for the read's own keys."""
        wanted = read.keys - {LOOP}
        for token, keys in read.held:
            if token == EVERYTHING:
                return token
            if not self.is_gate(token):
                continue
            if context is not None and self._void(token, context):
                continue
            if keys is None or not wanted or keys & read.keys:
                return token
        return None

    def _void(self, token: Path, context: ClassKey) -> bool:
        return any(token[: len(p)] == p for p in self.disarmed(context))

    # -- data or bookkeeping ---------------------------------------------------------------------

    def no_buffer(self, context: ClassKey, path: Path) -> bool:
        """Whether a read from self does not end in a buffer that the gate could be meant for.

        The attribute that is indexed holds host data, an event guards it, or a plain field of an
        object is all that is taken; or an element is called, so that it is a table of functions.
        """
        if self.event_guarded(context, path[1]) or _calls_an_element(path):
            return True
        owners = frozenset((context,))
        for position, step in enumerate(path[1:], 1):
            if not step.isidentifier():
                continue
            last = position + 1 == len(path) or not path[position + 1].isidentifier()
            if last and owners and all(self.bookkeeping(owner, step) for owner in owners):
                return True
            inner = (self.index.attribute_types(owner, step) for owner in owners)
            owners = frozenset().union(*inner)
        return False

    def bookkeeping(self, context: ClassKey, name: str) -> bool:
        """Whether all that is put into an attribute is host data: numbers, mappings, records."""
        known = self._bookkeeping.get((context, name))
        if known is None:
            known = self._bookkeeping[context, name] = self._only_bookkeeping(context, name)
        return known

    @cached_property
    def _bookkeeping(self) -> dict[tuple[ClassKey, str], bool]:
        return {}

    def _only_bookkeeping(self, context: ClassKey, name: str) -> bool:
        seen = False
        for key in self.index.classes[context].mro:
            for function, assign in self.index.assigned(key).get(name, ()):
                if assign.value is None:
                    continue
                seen = True
                made = self.index.types(function, context, assign.value)
                if (
                    not _plain(assign.value)
                    and not _plain_parameter(function, assign)
                    and not (made and all(map(self._is_record, made)))
                ):
                    return False
        held = self.index.attribute_types(context, name)
        return seen and all(map(self._is_record, held))

    def _is_record(self, key: ClassKey) -> bool:
        """Whether a class only names fields, none of which can be a tensor."""
        known = self.index.classes[key]
        if known.methods or not known.facts.assigns:
            return False
        place = Function(key[0], _NOWHERE, key)
        for assign in known.facts.assigns:
            if assign.annotation is None:
                return False
            for node in f.walk(assign.annotation):
                name = f.dotted(node)
                if name and name.rpartition(".")[2] not in _PLAIN_ANNOTATIONS:
                    if not self.index.annotation_types(place, node):
                        return False
        return True

    def holds_nothing(self, context: ClassKey) -> bool:
        """Whether a class is a placeholder: its writers replace the base's and store nothing."""
        known = self.index.classes[context]
        for name, method in known.methods.items():
            if self.duty(name) == "write" and _is_empty(method.facts):
                if any(name in self.index.classes[base].methods for base in known.mro[1:]):
                    return True
        return False


def key_parameters(read: Read) -> Keys:
    """The parameters that say which element is read."""
    return read.keys - {LOOP} if read.keys else NO_KEYS


def reads_elements(read: Read) -> bool:
    """Whether elements are taken and used: not the container, its metadata or one fixed member."""
    chosen = any(s in (ELEMENT, LOOPED) or s.endswith(RESULT) for s in read.path[2:])
    return read.use in ("read", "return") and chosen


def _self_path(expr: f.Expr) -> Path | None:
    steps: list[str] = []
    while isinstance(expr, f.Attr):
        steps.append(expr.name)
        expr = expr.value
    return ("self", *reversed(steps)) if expr == f.Name("self") and steps else None


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


def _plain_parameter(function: Function, assign: f.Assign) -> bool:
    """Whether what is assigned is a parameter annotated as a number, a string or a switch."""
    if not isinstance(assign.value, f.Name):
        return False
    parameter = function.parameter(assign.value.id)
    if parameter is None or parameter.annotation is None:
        return False
    names = {f.dotted(node) for node in f.walk(parameter.annotation)} - {""}
    return bool(names) and names <= {"int", "float", "bool", "str", "Optional", "Union", "None"}


def _is_empty(facts: f.FunctionFacts) -> bool:
    return all(isinstance(s, f.Exit) and s.kind == "return" and s.value is None for s in facts.body)


_NOWHERE = f.FunctionFacts("", "", (), (), (), None, (), 0, 0, 0, "")
_PLAIN_ANNOTATIONS = frozenset(
    [
        "int",
        "float",
        "bool",
        "str",
        "None",
        "Optional",
        "Union",
        "List",
        "list",
        "Tuple",
        "tuple",
        "Dict",
        "dict",
        "Set",
        "set",
        "Literal",
        "ClassVar",
        "typing",
    ]
)
_PLAIN_CALLS = frozenset(
    [
        "len",
        "range",
        "int",
        "float",
        "str",
        "bool",
        "dict",
        "set",
        "list",
        "tuple",
        "sum",
        "min",
        "max",
        "sorted",
        "enumerate",
        "zip",
        "defaultdict",
        "deque",
        "OrderedDict",
        "Counter",
    ]
)


def _plain(expr: f.Expr) -> bool:
    for node in f.walk(expr):
        if isinstance(node, f.Call) and f.dotted(node.func).rpartition(".")[2] not in _PLAIN_CALLS:
            return False
    if isinstance(expr, f.Group) and expr.op in ("and", "not", "is", "is not", "==", "!="):
        return True
    displays = isinstance(expr, f.Const | f.Comp) or (
        isinstance(expr, f.Group) and expr.op in ("list", "dict", "tuple", "value", "compare")
    )
    return displays or isinstance(expr, f.Call)


def _calls_an_element(path: Path) -> bool:
    """``table[key](...)``, whose path is table, the subscript, table's result."""
    triples = zip(path, path[1:], path[2:], strict=False)
    return any(after == name + RESULT and step in (ELEMENT, FIXED) for name, step, after in triples)


def _is_made(value: f.Expr) -> bool:
    """A call's result, or None, or a choice between such."""
    if isinstance(value, f.Choice):
        return _is_made(value.body) and _is_made(value.orelse)
    return isinstance(value, f.Call) or value == f.Const("none")
