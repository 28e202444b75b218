"""The ways a fork breaks, or merely moves, one gate: edits of one function that keep all else."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import libcst as cst
import libcst.matchers as m

from tests.benchmarks.gated import is_gate


@dataclass(frozen=True)
class Mutation:
    """One kind of edit; ``breaks`` says whether the tool must report it or stay silent."""

    key: str
    title: str
    breaks: bool


MUTATIONS = (
    Mutation("M1", "gate deleted", True),
    Mutation("M2", "gate after the read", True),
    Mutation("M3", "gate under an unrelated flag", True),
    Mutation("M4", "gate moved into a new method", False),
    Mutation("M5", "gate moved into a new function", False),
    Mutation("M6", "only the test around the gate left", True),
    Mutation("M7", "gate deleted, a constant of the layer read", True),
    Mutation("M8", "gate deleted, an optional scale read", True),
)

_FLAGS = ("enable_debug_stats", "trace_reads", "verbose_pool", "use_alt_layout", "record_shapes")
_CONSTANTS = ("calib", "row_norms", "layer_bias", "inv_range", "page_gain")
_MOVED = ("_settle_rows", "_until_ready", "_fence_slot", "_hold_for_load", "_sync_side")


class Unfit(Exception):
    """The function has no such mutant (a free function has no class to move a gate within)."""


def mutate(
    source: bytes, qualname: str, key: str, names: frozenset[str], seed: int
) -> tuple[bytes, str]:
    """The source with one function's gates edited, and the name of the new function, if any.

    ``names`` are the calls that wait. ``seed`` chooses among made-up names, so that no result
    hangs on one of them. Raises ``Unfit``.
    """
    module = _parsed(source)
    edit = _Edit(qualname, key, names, seed)
    changed = module.visit(edit)
    if not edit.edited:
        raise Unfit(f"{qualname}: no gate to edit for {key}")
    if edit.function is not None:
        gap = [cst.EmptyLine(indent=False), cst.EmptyLine(indent=False)]
        moved = edit.function.with_changes(leading_lines=gap)
        changed = changed.with_changes(body=[*changed.body, moved])
    result = changed.bytes
    compile(result, qualname, "exec")
    return result, edit.moved_to


def functions(source: bytes, qualnames: frozenset[str]) -> dict[str, cst.FunctionDef]:
    """The functions of a module that bear these qualified names."""
    found = _Named(qualnames)
    _parsed(source).visit(found)
    return found.functions


class _Named(cst.CSTVisitor):
    """Finds functions by qualified name; of two at one name the first."""

    def __init__(self, qualnames: frozenset[str]) -> None:
        self.functions: dict[str, cst.FunctionDef] = {}
        self._qualnames = qualnames
        self._stack: list[str] = []

    def visit_ClassDef(self, node: cst.ClassDef) -> None:  # noqa: N802
        self._stack.append(node.name.value)

    def leave_ClassDef(self, original_node: cst.ClassDef) -> None:  # noqa: N802
        self._stack.pop()

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:  # noqa: N802
        name = ".".join([*self._stack, node.name.value])
        if name in self._qualnames:
            self.functions.setdefault(name, node)
        return False


@lru_cache(maxsize=4)
def _parsed(source: bytes) -> cst.Module:
    return cst.parse_module(source)


class _Edit(cst.CSTTransformer):
    """Applies one mutation to the function at a qualified name."""

    def __init__(self, qualname: str, key: str, names: frozenset[str], seed: int) -> None:
        self.edited = False
        self.function: cst.FunctionDef | None = None
        self.moved_to = ""
        self._qualname = qualname
        self._key = key
        self._names = names
        self._flag = _FLAGS[seed % len(_FLAGS)]
        self._new_name = _MOVED[seed % len(_MOVED)]
        self._constant = _CONSTANTS[seed % len(_CONSTANTS)]
        self._stack: list[str] = []
        self._method: cst.FunctionDef | None = None

    def visit_ClassDef(self, node: cst.ClassDef) -> None:  # noqa: N802
        self._stack.append(node.name.value)

    def leave_ClassDef(  # noqa: N802
        self, original_node: cst.ClassDef, updated_node: cst.ClassDef
    ) -> cst.ClassDef:
        here = ".".join(self._stack)
        self._stack.pop()
        if here != self._qualname.rpartition(".")[0]:
            return updated_node
        if self._key in ("M7", "M8") and self.edited:
            return _with_attribute(updated_node, self._constant, self._key == "M8")
        if self._method is None:
            return updated_node
        method = self._method.with_changes(leading_lines=[cst.EmptyLine(indent=False)])
        self._method = None
        body = [*updated_node.body.body, method]
        return updated_node.with_changes(body=updated_node.body.with_changes(body=body))

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:  # noqa: N802
        self._stack.append(node.name.value)
        return False

    def leave_FunctionDef(  # noqa: N802
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        here = ".".join(self._stack)
        self._stack.pop()
        if here != self._qualname or self.edited:
            return updated_node
        self.edited = True
        return self._rewritten(updated_node)

    def _rewritten(self, function: cst.FunctionDef) -> cst.FunctionDef:
        receiver = function.params.params[0].name.value
        if self._key == "M1":
            return each_gate(function, self._names, lambda gate: [])
        if self._key == "M2":
            return _gates_last(function, self._names)
        if self._key == "M3":
            test = cst.parse_expression(f"{receiver}.{self._flag}")
            return each_gate(
                function,
                self._names,
                lambda gate: [cst.If(test=test, body=cst.IndentedBlock(body=[gate]))],
            )
        if self._key == "M6":
            return _hollow(function, self._names)
        if "." not in self._qualname and self._key in ("M4", "M7", "M8"):
            raise Unfit(f"{self._qualname} is no method")
        if self._key in ("M7", "M8"):
            return self._scaled(function, receiver)
        return self._moved(function, receiver)

    def _scaled(self, function: cst.FunctionDef, receiver: str) -> cst.FunctionDef:
        """The function without its gates, what it returns times a row for the waited layer."""
        index = _waited_for(function, self._names)
        if index is None:
            raise Unfit(f"{self._qualname} waits for no layer")
        attribute = cst.parse_expression(f"{receiver}.{self._constant}")
        row = cst.Subscript(attribute, [cst.SubscriptElement(cst.Index(index))])
        returns = _Returns(attribute, row, self._key == "M8")
        bare = each_gate(function, self._names, lambda gate: [])
        changed = bare.with_changes(body=bare.body.visit(returns))
        if not returns.found:
            raise Unfit(f"{self._qualname} returns nothing")
        return changed

    def _moved(self, function: cst.FunctionDef, receiver: str) -> cst.FunctionDef:
        gates = gates_of(function, self._names)
        if len(gates) != 1:
            raise Unfit(f"{self._qualname} has {len(gates)} gates")
        gate = gates[0]
        arguments = [name for name in _inputs(gate, function) if name != receiver]
        self.moved_to = self._new_name
        if self._key == "M4":
            parameters = [receiver, *arguments]
            self._method = _function(self._new_name, parameters, gate)
            call = f"{receiver}.{self._new_name}({', '.join(arguments)})"
        else:
            self.moved_to = self._new_name.lstrip("_")
            renamed = gate.visit(_Renamed(receiver, "pool"))
            assert isinstance(renamed, cst.BaseStatement)
            self.function = _function(self.moved_to, ["pool", *arguments], renamed)
            call = f"{self.moved_to}({', '.join([receiver, *arguments])})"
        statement = cst.parse_statement(call)
        return each_gate(function, self._names, lambda gate: [statement])


class _Renamed(cst.CSTTransformer):
    """Renames one local name (a receiver, which no attribute shares)."""

    def __init__(self, old: str, new: str) -> None:
        self._old, self._new = old, new

    def leave_Name(  # noqa: N802
        self, original_node: cst.Name, updated_node: cst.Name
    ) -> cst.Name:
        if updated_node.value != self._old:
            return updated_node
        return updated_node.with_changes(value=self._new)


def _function(name: str, parameters: Sequence[str], body: cst.BaseStatement) -> cst.FunctionDef:
    return cst.FunctionDef(
        name=cst.Name(name),
        params=cst.Parameters(params=[cst.Param(cst.Name(p)) for p in parameters]),
        body=cst.IndentedBlock(body=[body.with_changes(leading_lines=[])]),
    )


class _Returns(cst.CSTTransformer):
    """Multiplies what a function returns by ``row``, of a tuple the first part."""

    def __init__(self, attribute: cst.BaseExpression, row: cst.Subscript, optional: bool) -> None:
        self.found = 0
        self._attribute, self._row, self._optional = attribute, row, optional

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:  # noqa: N802
        return False

    def visit_Lambda(self, node: cst.Lambda) -> bool:  # noqa: N802
        return False

    def leave_SimpleStatementLine(  # noqa: N802
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
        last = updated_node.body[-1]
        if not isinstance(last, cst.Return) or last.value is None:
            return updated_node
        self.found += 1
        before = updated_node.body[:-1]
        times = updated_node.with_changes(body=[*before, cst.Return(self._times(last.value))])
        if not self._optional:
            return times
        test = cst.Comparison(
            self._attribute, [cst.ComparisonTarget(cst.IsNot(), cst.Name("None"))]
        )
        scaled = cst.If(test, cst.IndentedBlock([times.with_changes(leading_lines=[])]))
        return cst.FlattenSentinel([scaled, updated_node])

    def _times(self, value: cst.BaseExpression) -> cst.BaseExpression:
        if isinstance(value, cst.Tuple):
            first, *rest = value.elements
            return value.with_changes(
                elements=[first.with_changes(value=self._times(first.value)), *rest]
            )
        if not isinstance(value, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)):
            value = value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        return cst.BinaryOperation(value, cst.Multiply(), self._row)


def _with_attribute(owner: cst.ClassDef, name: str, optional: bool) -> cst.ClassDef:
    """The class with a list of one tensor a layer, made at the end of ``__init__``."""
    rows = f"self.{name} = [torch.ones(1) for _ in range(self.layer_num)]\n"
    text = f"if self.layer_num > 1:\n    {rows}" if optional else rows
    made = [cst.parse_statement(text)]
    if optional:
        made.insert(0, cst.parse_statement(f"self.{name} = None\n"))
    body = list(owner.body.body)
    for at, statement in enumerate(body):
        if isinstance(statement, cst.FunctionDef) and statement.name.value == "__init__":
            block = statement.body.with_changes(body=[*statement.body.body, *made])
            body[at] = statement.with_changes(body=block)
            return owner.with_changes(body=owner.body.with_changes(body=body))
    init = cst.parse_statement(
        "def __init__(self, *args, **kwargs):\n    super().__init__(*args, **kwargs)\n"
    )
    assert isinstance(init, cst.FunctionDef)
    block = init.body.with_changes(body=[*init.body.body, *made])
    gap = [cst.EmptyLine(indent=False)]
    body.append(init.with_changes(body=block, leading_lines=gap))
    return owner.with_changes(body=owner.body.with_changes(body=body))


def _hollow(function: cst.FunctionDef, names: frozenset[str]) -> cst.FunctionDef:
    """The function with ``pass`` where its gates wait, all tests around the waits kept."""

    class Waits(cst.CSTTransformer):
        def leave_SimpleStatementLine(  # noqa: N802
            self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
        ) -> cst.BaseStatement:
            if not is_gate(original_node, names):
                return updated_node
            return updated_node.with_changes(body=[cst.Pass()])

    if not any(isinstance(gate, cst.If) for gate in gates_of(function, names)):
        raise Unfit(f"{function.name.value} has no test around its gate")

    def emptied(gate: cst.BaseStatement) -> list[cst.BaseStatement]:
        changed = gate.visit(Waits())
        assert isinstance(changed, cst.BaseStatement)
        return [changed]

    return each_gate(function, names, emptied)


def _waited_for(function: cst.FunctionDef, names: frozenset[str]) -> cst.BaseExpression | None:
    """What the function's first wait is given: the layer, or what stands for it."""
    for gate in gates_of(function, names):
        for call in m.findall(gate, m.Call(func=m.Attribute())):
            assert isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute)
            if call.func.attr.value in names and call.args:
                made = m.findall(gate, m.AssignTarget(target=m.Name()))
                return None if made else call.args[0].value
    return None


def _inputs(gate: cst.BaseStatement, function: cst.FunctionDef) -> list[str]:
    """The function's own names that the gate reads, in order of first use."""
    own = {p.name.value for p in function.params.params} | {
        p.name.value for p in function.params.kwonly_params
    }
    for target in m.findall(function.body, m.AssignTarget(target=m.Name())):
        assert isinstance(target, cst.AssignTarget) and isinstance(target.target, cst.Name)
        own.add(target.target.value)
    made = {
        target.target.value
        for target in m.findall(gate, m.AssignTarget(target=m.Name()))
        if isinstance(target, cst.AssignTarget) and isinstance(target.target, cst.Name)
    }
    attributes = {
        id(a.attr) for a in m.findall(gate, m.Attribute()) if isinstance(a, cst.Attribute)
    }
    used = [
        name.value
        for name in m.findall(gate, m.Name())
        if isinstance(name, cst.Name) and id(name) not in attributes
    ]
    wanted = [n for n in used if n in own and n not in made and not hasattr(builtins, n)]
    return list(dict.fromkeys(wanted))


def each_gate(
    function: cst.FunctionDef,
    names: frozenset[str],
    replace: Callable[[cst.BaseStatement], list[cst.BaseStatement]],
) -> cst.FunctionDef:
    """The function with every gate replaced; comments above a gate go with it."""

    class Blocks(cst.CSTTransformer):
        def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:  # noqa: N802
            return node is function

        def visit_If(self, node: cst.If) -> bool:  # noqa: N802
            return id(node) not in whole

        def visit_IndentedBlock(self, node: cst.IndentedBlock) -> None:  # noqa: N802
            whole.update(id(s) for s in node.body if is_gate(s, names))

        def leave_IndentedBlock(  # noqa: N802
            self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
        ) -> cst.IndentedBlock:
            body: list[cst.BaseStatement] = []
            for before, after in zip(original_node.body, updated_node.body, strict=True):
                assert isinstance(after, cst.BaseStatement)
                body += replace(after) if id(before) in whole else [after]
            return updated_node.with_changes(body=body or [cst.parse_statement("pass")])

    whole: set[int] = set()
    changed = function.visit(Blocks())
    assert isinstance(changed, cst.FunctionDef)
    return changed


def gates_of(function: cst.FunctionDef, names: frozenset[str]) -> list[cst.BaseStatement]:
    """The gates of a function, outermost statements, in order; ``names`` are calls that wait."""
    found: list[cst.BaseStatement] = []

    def keep(gate: cst.BaseStatement) -> list[cst.BaseStatement]:
        found.append(gate)
        return [gate]

    each_gate(function, names, keep)
    return found


def _gates_last(function: cst.FunctionDef, names: frozenset[str]) -> cst.FunctionDef:
    """The function with its gates behind what they guard: before each return, or at the end."""
    gates = gates_of(function, names)
    if len(gates) != 1:
        raise Unfit(f"{len(gates)} gates")
    gate = gates[0].with_changes(leading_lines=[])
    if not any(isinstance(s, cst.BaseStatement) and is_gate(s, names) for s in function.body.body):
        return _to_end_of_block(function, names)
    placed = 0

    class Returns(cst.CSTTransformer):
        def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:  # noqa: N802
            return node.name.value == function.name.value

        def leave_SimpleStatementLine(  # noqa: N802
            self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
        ) -> cst.BaseStatement | cst.FlattenSentinel[cst.BaseStatement]:
            nonlocal placed
            last = updated_node.body[-1]
            if not isinstance(last, cst.Return) or last.value is None:
                return updated_node
            placed += 1
            stored = cst.Assign([cst.AssignTarget(cst.Name("result"))], last.value)
            return cst.FlattenSentinel(
                [
                    updated_node.with_changes(body=[stored]),
                    gate,
                    cst.SimpleStatementLine([cst.Return(cst.Name("result"))]),
                ]
            )

    without = each_gate(function, names, lambda gate: [])
    changed = without.visit(Returns())
    assert isinstance(changed, cst.FunctionDef)
    if placed:
        return changed
    body = [*changed.body.body, gate]
    return changed.with_changes(body=changed.body.with_changes(body=body))


def _to_end_of_block(function: cst.FunctionDef, names: frozenset[str]) -> cst.FunctionDef:
    """The gate of an inner block (under ``with``), put at that block's end."""

    class Blocks(cst.CSTTransformer):
        def leave_IndentedBlock(  # noqa: N802
            self, original_node: cst.IndentedBlock, updated_node: cst.IndentedBlock
        ) -> cst.IndentedBlock:
            waits = [s for s in updated_node.body if is_gate(s, names)]
            if not waits or len(waits) == len(updated_node.body):
                return updated_node
            rest = [s for s in updated_node.body if s not in waits]
            return updated_node.with_changes(body=[*rest, *waits])

    changed = function.visit(Blocks())
    assert isinstance(changed, cst.FunctionDef)
    return changed
