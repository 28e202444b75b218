"""Holds what the first reading says of a function against its second reading."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import libcst as cst

from auditor.claims import Claim
from auditor.confirm.answers import Answer, Question, Waits
from auditor.confirm.calls import calls
from auditor.confirm.concrete import Tree, first_of, inside, is_getattr, text_of

Access = cst.Attribute | cst.Subscript | cst.Call


def answer(tree: Tree, question: Question) -> Answer:
    """What the tree of a function says to a question. Raises Unreadable."""
    line, column, waits = question.line, question.column, question.waits
    if question.calls:
        return calls(tree, question.calls, line)
    if question.claim is not None:
        return _of_claim(tree, question.claim, line, column, waits)
    return _of_wait(tree, line, waits) if question.wait else _of_place(tree, line, column)


def _of_claim(tree: Tree, claim: Claim, line: int, column: int, waits: Waits) -> Answer:
    """Whether the function says what the claim says of this place; column 1 is an unknown one."""
    if claim.kind == "function":
        return _dropped(tree, claim)
    if claim.kind == "enter":
        return _entered(tree, claim, line, waits)
    there = _standing(tree, line, column)
    if not there:
        return Answer("no", f"no name, attribute, member or call stands in column {column}")
    chosen = _named(tree, there, claim)
    if chosen is None:
        what = "call of" if claim.kind == "call" else "way to"
        return Answer("no", f"what stands there is no {what} {' or '.join(claim.names)}")
    if claim.gate:
        covering = _wait_before(tree, chosen, claim, waits)
        if covering is not None:
            at = tree.span(covering)[0] - line
            way = "on the same line" if not at else f"{abs(at)} lines {'down' if at > 0 else 'up'}"
            return Answer("no", f"the wait {way} comes first on every path", tree.span(covering))
    return Answer("yes", "", tree.span(chosen))


def _of_wait(tree: Tree, line: int, waits: Waits) -> Answer:
    """The wait on a line of a function that waits there: a primitive one, else a call that does."""
    found: list[tuple[tuple[int, ...], cst.CSTNode]] = []
    kinds = dict(waits.primitive)
    for span, node in tree.expressions:
        if not span[0] <= line <= span[2] or isinstance(node, cst.Name):
            continue
        call = isinstance(node, cst.Call)
        primitive = call and _method(node) in kinds
        alone = isinstance(tree.parents.get(node), cst.Expr | cst.Await)
        own = call and _is_own(first_of(node))
        waiting = call and _method(node) in waits.methods
        # The nearest to a wait: a primitive, what is known to wait, a statement, any call.
        rank = (not primitive, not waiting, not alone, not own, not call, span[0] != line)
        found.append(((*map(int, rank), span[1]), node))
    if not found:
        return Answer("no", "no call stands there that could wait")
    _, best = min(found, key=lambda row: row[0])
    return Answer("yes", "", tree.span(best), _called_alone(tree, best))


def _of_place(tree: Tree, line: int, column: int) -> Answer:
    """The span of what stands in a place, as far as it is a call or an access."""
    there = _standing(tree, line, column)
    if not there:
        return Answer("no", f"no name, attribute, member or call stands in column {column}")
    return Answer("yes", "", tree.span(_taken(there)))


# -- where it stands -----------------------------------------------------------------------------


def _standing(tree: Tree, line: int, column: int) -> list[cst.BaseExpression]:
    """What begins in a place, the shortest first; in column 1 all that touches the line."""
    rows = [
        (span, node)
        for span, node in tree.expressions
        if (span[:2] == (line, column) if column > 1 else span[0] <= line <= span[2])
    ]
    rows.sort(key=lambda row: (row[0][2], row[0][3]))
    return [node for _, node in rows]


def _named(
    tree: Tree, there: Sequence[cst.BaseExpression], claim: Claim
) -> cst.BaseExpression | None:
    """The shortest of some expressions that is what the claim names."""
    names = set(claim.names)
    if claim.kind == "call":
        calls = [node for node in there if isinstance(node, cst.Call)]
        plain = (node for node in calls if _method(node) in names)
        return next(plain, None) or next((n for n in calls if names & tree.trail(n.func)), None)
    if not names:
        return _taken(there)
    direct = [node for node in there if names & _written(node)]
    if direct:
        return _taken(direct)
    if not claim.here:
        # Taken by what is called or asked there, whose body is another function's.
        asked = [node for node in there if isinstance(node, cst.Call | cst.Attribute)]
        return _taken(asked) if asked else None
    return next((_taken(there[n:]) for n, x in enumerate(there) if names & tree.trail(x)), None)


def _taken(there: Sequence[cst.BaseExpression]) -> cst.BaseExpression:
    """An access with what is first taken of it: a member, or the result of a call."""
    first = there[0]
    for node in there:
        if isinstance(node, cst.Subscript | cst.Call) and first_of(node) is first_of(first):
            if not (isinstance(node, cst.Call) and is_getattr(node)):
                return node
    return first


def _written(node: cst.CSTNode) -> set[str]:
    """The names that an access is written with, without what is in its brackets."""
    found: set[str] = set()
    while isinstance(node, Access):
        if isinstance(node, cst.Attribute):
            found.add(node.attr.value)
        elif isinstance(node, cst.Call) and is_getattr(node):
            found |= {text_of(t) for t in inside(node) if isinstance(t, cst.SimpleString)}
            found |= _written(node.args[0].value)
        node = node.func if isinstance(node, cst.Call) else node.value
    if isinstance(node, cst.Name):
        found.add(node.value)
    return found


def _dropped(tree: Tree, claim: Claim) -> Answer:
    line, column, _, _ = tree.span(tree.function)
    _, _, end_line, end = tree.span(tree.function.name)
    missing = [name for name in claim.names if name not in tree.parameters]
    if missing:
        return Answer("no", f"{missing[0]} is no parameter")
    used = [name for name in claim.names if tree.used(name)]
    if used:
        return Answer("no", f"{used[0]} is used in it")
    return Answer("yes", "", (line, column, end_line, end))


def _entered(tree: Tree, claim: Claim, line: int, waits: Waits) -> Answer:
    """Whether a block begins on a line that nothing makes the stream of it wait before."""
    blocks = [n for n in tree.nodes if isinstance(n, cst.With) and tree.span(n)[0] == line]
    if not blocks:
        return Answer("no", "no block begins there")
    block = blocks[0]
    items = [item.item for item in block.items]
    written = {n.value for item in items for n in inside(item) if isinstance(n, cst.Name)}
    if not set(claim.names) & written:
        return Answer("no", f"what is entered there leads to no {claim.names[0]}")
    first = block.body.body[:1]
    kinds = dict(waits.primitive)
    for call in (node for node in tree.nodes if isinstance(node, cst.Call)):
        # What waits until the stream is done does not make the stream wait.
        if kinds.get(_method(call), "device") == "device":
            continue
        asked = (cast("cst.Attribute", call.func).value, *(arg.value for arg in call.args))
        if claim.names[0] not in {tree.path(node).rpartition(".")[2] for node in asked}:
            continue
        around = list(tree.above(call))
        within = any(isinstance(s, cst.SimpleStatementLine) and s in around for s in first)
        if within or _dominates(tree, call, block, ""):
            away = tree.span(call)[0] - line
            way = f"{abs(away)} lines {'down' if away > 0 else 'up'}"
            return Answer("no", f"the wait {way} is for that stream")
    start, column, *_ = tree.span(block)
    *_, end_line, end = tree.span(block.items[-1])
    return Answer("yes", "", (start, column, end_line, end))


# -- waits ---------------------------------------------------------------------------------------


def _wait_before(tree: Tree, read: cst.CSTNode, claim: Claim, waits: Waits) -> cst.Call | None:
    """A wait on the gate, for what chooses the element, that no path to the read goes around."""
    kinds = dict(waits.primitive)
    names = {*kinds, *waits.methods}
    calls = [node for node in tree.nodes if isinstance(node, cst.Call) and _method(node) in names]
    if not calls:
        return None
    index = tree.chosen_by(_widest(tree, read))
    for call in calls:
        func = cast("cst.Attribute", call.func)
        receiver = tree.path(func.value)
        name = func.attr.value
        whole = kinds.get(name) == "device" and not call.args and _is_module(tree, func.value)
        if name in waits.methods:
            meant = receiver == "self"
        else:
            meant = bool(receiver) and _same_gate(receiver, claim.gate)
        told = index & tree.chosen_by(*(arg.value for arg in call.args))
        keyed = kinds.get(name, "keyed") == "keyed"
        anywise = "." not in claim.gate  # of a wait that is gone the kind does not matter
        if whole or (meant and ((keyed and told) or anywise)):
            if _dominates(tree, call, read, claim.gate):
                return call
    return None


def _widest(tree: Tree, node: cst.CSTNode) -> cst.CSTNode:
    """The whole chain of accesses that begins with some access."""
    for parent in tree.above(node):
        if not isinstance(parent, Access) or first_of(parent) is not first_of(node):
            break
        node = parent
    return node


def _same_gate(receiver: str, gate: str) -> bool:
    return receiver == gate if "." in gate else receiver.rpartition(".")[2] == gate


def _is_module(tree: Tree, node: cst.CSTNode) -> bool:
    """Whether a dotted name begins with one that the function does not bind."""
    first = first_of(node)
    return isinstance(first, cst.Name) and not tree.bindings(first) and not _is_own(first)


def _dominates(tree: Tree, wait: cst.CSTNode, read: cst.CSTNode, gate: str) -> bool:
    """Whether a statement that only waits stands before the read in a block around both."""
    around = {id(read), *map(id, tree.above(read))}
    step: cst.CSTNode = wait
    for holder in tree.above(wait):
        body = getattr(holder, "body", None)
        if isinstance(holder, cst.SimpleStatementLine | cst.BaseSuite):
            rows = list(cast("Iterable[cst.CSTNode]", body))
            place = next(n for n, row in enumerate(rows) if row is step)
            if any(id(row) in around for row in rows[place + 1 :]):
                return True
        elif isinstance(holder, cst.If):
            lone = not isinstance(tree.parents.get(holder), cst.If)
            if not (lone and step is holder.body and _asks_for(tree, holder.test, gate)):
                return False
        elif not isinstance(holder, cst.Expr | cst.Await):
            return False
        step = holder
    return False


def _asks_for(tree: Tree, test: cst.BaseExpression, gate: str) -> bool:
    """Whether a test only asks if there is a gate."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        return _asks_for(tree, test.left, gate) and _asks_for(tree, test.right, gate)
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        [comparison] = test.comparisons
        nothing = isinstance(comparison.comparator, cst.Name)
        nothing = nothing and cast("cst.Name", comparison.comparator).value == "None"
        if not (nothing and isinstance(comparison.operator, cst.IsNot)):
            return False
        test = test.left
    path = tree.path(test)
    return bool(path) and _same_gate(path, gate)


def _method(node: cst.CSTNode) -> str:
    """The name of the method that a call is of; empty for other calls."""
    func = node.func if isinstance(node, cst.Call) else None
    return func.attr.value if isinstance(func, cst.Attribute) else ""


def _is_own(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Name) and node.value in ("self", "cls", "super")


def _called_alone(tree: Tree, node: cst.CSTNode) -> str:
    """The method of ``self`` that a statement calls, if that is all it does."""
    alone = isinstance(tree.parents.get(node), cst.Expr)
    if alone and isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        if isinstance(node.func.value, cst.Name) and node.func.value.value == "self":
            return node.func.attr.value
    return ""
