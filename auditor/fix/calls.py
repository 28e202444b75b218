"""Calls of a method: found in a function as it is written, and given what another one is given."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import libcst as cst

from auditor.fix.text import Unfit
from auditor.fix.written import Written
from auditor.source.names import Function


def of(written: Written, name: str) -> Iterator[cst.Call]:
    """Every call of a method of that name, in the order of the text."""

    def search(node: cst.CSTNode) -> Iterator[cst.Call]:
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            if node.func.attr.value == name:
                yield node
        for child in node.children:
            yield from search(child)

    return search(written.node)


def at(written: Written, name: str, line: int, column: int) -> cst.Call:
    """The call at a place. Raises Unfit."""
    for call in of(written, name):
        start = written.ranges[call].start
        if (start.line + written.shift, start.column + 1) == (line, column):
            return call
    raise Unfit(f"there is no call of {name} at line {line}")


def lacking(
    call: cst.Call, given: cst.Call, method: Function, wanted: Collection[str]
) -> dict[str, cst.BaseExpression]:
    """What another call hands over for the wanted parameters and this one does not.

    Raises Unfit where that is not all of them.
    """
    mine, theirs = _arguments(call, method), _arguments(given, method)
    more = {name: theirs[name] for name in sorted(wanted) if name in theirs and name not in mine}
    left = [name for name in sorted(wanted) if name not in mine and name not in more]
    if left or not more:
        raise Unfit(f"no other call hands over {' and '.join(left) or 'more'}")
    if any(isinstance(v, cst.Name) and v.value == "None" for v in more.values()):
        raise Unfit("another call hands over None")
    return more


def extended(call: cst.Call, more: Mapping[str, cst.BaseExpression]) -> cst.Call:
    """The call with further keyword arguments, laid out like those that it has."""
    arguments = list(call.args)
    between = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    last, tail = (
        (arguments[-1].comma, arguments[-1].whitespace_after_arg)
        if arguments
        else (
            cst.MaybeSentinel.DEFAULT,
            cst.SimpleWhitespace(""),
        )
    )
    if len(arguments) > 1 and isinstance(arguments[-2].comma, cst.Comma):
        between = arguments[-2].comma
    if arguments:
        plain = cst.SimpleWhitespace("")
        arguments[-1] = arguments[-1].with_changes(comma=between, whitespace_after_arg=plain)
    arguments += [
        cst.Arg(
            value.deep_clone(),
            keyword=cst.Name(name),
            equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
            comma=between,
        )
        for name, value in more.items()
    ]
    arguments[-1] = arguments[-1].with_changes(comma=last, whitespace_after_arg=tail)
    return call.with_changes(args=arguments)


def _arguments(call: cst.Call, method: Function) -> dict[str, cst.BaseExpression]:
    """The arguments of a call by parameter. Raises Unfit where a star hides them."""
    if any(argument.star for argument in call.args):
        raise Unfit("a call hands over its arguments with a star")
    names = [p.name for p in method.facts.parameters[1:] if p.kind == "plain"]
    plain = [argument.value for argument in call.args if argument.keyword is None]
    found = dict(zip(names, plain, strict=False))
    found |= {a.keyword.value: a.value for a in call.args if a.keyword is not None}
    return found
