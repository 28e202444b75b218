"""Whether what a read ends in is a buffer at all, or host data: numbers, mappings, records."""

from __future__ import annotations

from functools import cached_property

from auditor.gates.arming import Arming
from auditor.gates.values import (
    ELEMENT,
    FIXED,
    RESULT,
    SELF,
    Path,
    is_element,
)
from auditor.source import facts as f
from auditor.source.names import ClassKey, Function

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


class Bookkeeping(Arming):
    """What the attributes of a family hold, on top of what arms its gates."""

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

    def no_buffer(self, context: ClassKey, path: Path) -> bool:
        """Whether a read from self does not end in a buffer that the gate could be meant for.

        The attribute that is indexed holds host data, an event guards it, or a plain field of an
        object is all that is taken; or an element is called, so that it is a table of functions; or
        it computes on elements that it is handed, which are reads of their own.
        """
        if self.event_guarded(context, path[1]) or _calls_an_element(path):
            return True
        if len(path) > 2 and path[2].endswith(RESULT):
            if (path[1], path[2].removesuffix(RESULT)) in self._computing(context):
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

    def _computing(self, context: ClassKey) -> frozenset[tuple[str, str]]:
        """Attributes with those of their methods that every call hands elements of the object."""
        known = self._computing_of.get(context)
        if known is None:
            handed: dict[tuple[str, str], bool] = {}
            for method in self.index.methods(context):
                for call in self.summary(method, context).calls:
                    held = [p[1] for p in call.receivers if len(p) == 2 and p[0] == SELF[0]]
                    if not held or call.name in self.evaluator.votes:
                        continue
                    values = (*call.arguments, *(value for _, value in call.keywords))
                    own = any(
                        p[0] == SELF[0] and is_element(p) and not self.bookkeeping(context, p[1])
                        for value in values
                        for p in value.paths
                    )
                    for root in held:
                        handed[root, call.name] = own and handed.get((root, call.name), True)
            found = frozenset(key for key, always in handed.items() if always)
            known = self._computing_of[context] = found
        return known

    @cached_property
    def _computing_of(self) -> dict[ClassKey, frozenset[tuple[str, str]]]:
        return {}

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
