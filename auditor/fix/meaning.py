"""Whether a wait, or an argument, means the same in another function."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from auditor.checks.view import View
from auditor.fix.indices import chosen
from auditor.fix.material import Material
from auditor.fix.statements import (
    Statement,
    arguments_of,
    attributes_of,
    free_names,
)
from auditor.fix.text import Unfit
from auditor.fix.written import Written
from auditor.gates.gaps import Gap
from auditor.source.names import ClassKey, Function

BUILT_IN = frozenset(dir(builtins))
"""Names that are known everywhere."""


class Meaning(Material):
    """What the code of one function means in another."""

    def _mapping(
        self, gap: Gap, mine: Written, function: Function, theirs: Written, wait: Statement
    ) -> tuple[dict[str, cst.BaseExpression], dict[tuple[str, str], cst.BaseExpression]]:
        """What the sibling's names are called here. Raises Unfit for one that nothing answers to.

        ``layer.layer_id`` and ``layer_id`` are the same where one has the object and the other its
        number.
        """
        names: dict[str, cst.BaseExpression] = {}
        attributes: dict[tuple[str, str], cst.BaseExpression] = {}
        their_self = receiver_of(function, theirs)
        my_self = receiver_of(gap.function, mine)
        for name in sorted(free_names(wait)):
            if name == their_self:
                if not my_self:
                    raise Unfit("this function has no object of its own")
                names[name] = cst.Name(my_self)
            elif name in theirs.parameter_names:
                if name not in mine.parameter_names:
                    self._parameter(gap, name, mine, theirs, wait, names, attributes)
            elif name not in {*theirs.locals, *BUILT_IN, *mine.source.names}:
                raise Unfit(f"{name} is not known in this file")
        return names, attributes

    def _parameter(
        self,
        gap: Gap,
        name: str,
        mine: Written,
        theirs: Written,
        wait: Statement,
        names: dict[str, cst.BaseExpression],
        attributes: dict[tuple[str, str], cst.BaseExpression],
    ) -> None:
        for attribute in sorted(attributes_of(wait, name)):
            if attribute in mine.parameter_names:
                attributes[name, attribute] = cst.Name(attribute)
                return
        for own in mine.parameter_names:
            if name in attributes_of(mine.node.body, own) and own != receiver_of(
                gap.function, mine
            ):
                names[name] = cst.Attribute(cst.Name(own), cst.Name(name))
                return
        keys = sorted(self._keys(gap) & set(mine.parameter_names))
        if len(keys) != 1:
            raise Unfit(f"nothing here is its {name}")
        if mine.takes_apart(keys[0]):
            raise Unfit(f"{keys[0]} is more than its {name}")
        told = {theirs.annotation(name), mine.annotation(keys[0])} - {""}
        if len(told) > 1 or attributes_of(wait, name):
            raise Unfit(f"its {name} is of another kind than {keys[0]}")
        names[name] = cst.Name(keys[0])

    def _by_its_index(
        self,
        gap: Gap,
        mine: Written,
        theirs: Written,
        wait: Statement,
        names: Mapping[str, cst.BaseExpression],
        attributes: Mapping[tuple[str, str], cst.BaseExpression],
    ) -> None:
        """Raises Unfit unless a sibling's wait would be for what the read here is chosen by.

        A parameter of the same name plays the same part in a family; but what is read may be chosen
        by more than it, and of another parameter only the read can tell what it is.
        """
        owner = gap.function.owner
        waited: set[str] = set()
        guessed = False
        for name in sorted(arguments_of(wait) & {*theirs.parameter_names}):
            told = attributes_of(wait, name)
            put = names.get(name)
            if any((name, attribute) in attributes for attribute in told):
                waited |= {a for a in told if (name, a) in attributes}
            elif put is None:
                waited |= {f"{name}.{a}" for a in told} or {name}
            elif not (isinstance(put, cst.Name) and mine.parameter_names[:1] == (put.value,)):
                waited.add(mine.module.code_for_node(put))
                guessed = True
        if not waited or owner is None or gap.shape == "dropped-parameter":
            return
        found = chosen(self.fork.readings, gap.function, owner, frozenset(gap.roots))
        if any(terms != waited for terms in found) or (guessed and not found):
            raise Unfit(
                f"the read here is not known to be chosen by {' and '.join(sorted(waited))}"
            )

    def _in_reach(self, gap: Gap, gate: Statement, mine: Written, theirs: Written) -> None:
        """Raises Unfit unless all that another version's wait names is there in mine."""
        own = {*mine.parameter_names, *mine.locals, *mine.source.names, *BUILT_IN}
        for name in sorted(free_names(gate) - own):
            raise Unfit(f"the wait names {name}, which is not known here")
        self._known_attributes(gap, gate, mine, None, None)

    def _within_reach(
        self,
        gap: Gap,
        value: cst.BaseExpression,
        function: Function,
        mine: Written,
        theirs: Written,
    ) -> None:
        """Raises Unfit unless an argument of another call means the same here."""
        receiver = receiver_of(gap.function, mine)
        for name in sorted(free_names(value) - BUILT_IN):
            if name == receiver == receiver_of(function, theirs):
                continue
            here = name in mine.parameter_names or name in mine.source.names
            if function.facts.qualname == gap.function.facts.qualname:
                here = here or name in mine.locals
            if not here or (name in theirs.locals and name not in mine.locals):
                raise Unfit(f"{function.facts.qualname} hands over {name}, which is not known here")
        view = self.fork if function.owner == gap.function.owner else None
        self._known_attributes(gap, value, mine, view, function)

    def _known_attributes(
        self,
        gap: Gap,
        node: cst.CSTNode,
        mine: Written,
        view: View | None,
        function: Function | None,
    ) -> None:
        """Raises Unfit where code asks ``self`` for what the fork's class does not have.

        Objects of a class that others are made of may have what all of those have.
        """
        owner = gap.function.owner
        receiver = receiver_of(gap.function, mine)
        if owner is None or not receiver:
            return
        mro = self.fork.index.classes[owner].mro
        if view is self.fork and function is not None and function.owner in mro:
            return
        known = set(attributes_known(self.fork, mro))
        made = [
            self.fork.index.classes[key].mro for key in self.fork.index.subclasses.get(owner, ())
        ]
        if made:
            known |= set.intersection(*(set(attributes_known(self.fork, order)) for order in made))
        for name in sorted(attributes_of(node, receiver) - known):
            if name not in gap.function.facts.mentions:
                raise Unfit(f"the class has no {name}")

    def _same_shape(self, gap: Gap, mine: Written, theirs: Written) -> None:
        """Raises Unfit where another version of a function cannot stand in the fork's place."""
        if (theirs.head != mine.head and theirs.head.strip() != mine.head.strip()) or (
            indent_of(theirs.text) != indent_of(mine.text)
        ):
            raise Unfit("the target's function is laid out otherwise")
        if [declared(p) for p in theirs.parameters] != [declared(p) for p in mine.parameters]:
            raise Unfit("the target's function takes other arguments")
        if len(theirs.node.decorators) != len(mine.node.decorators):
            raise Unfit("the target's function is decorated otherwise")
        known = {*mine.source.names, *BUILT_IN, *mine.parameter_names, *theirs.locals}
        known |= free_names(mine.node)
        for name in sorted(free_names(theirs.node) - set(theirs.parameter_names) - known):
            raise Unfit(f"the target's function names {name}, which is not known here")
        self._known_attributes(gap, theirs.node, mine, None, None)


def attributes_known(view: View, mro: Sequence[ClassKey]) -> Iterator[str]:
    """The attributes and methods of objects of a class, by the order of its bases."""
    for key in mro:
        known = view.index.classes[key]
        yield from known.methods
        yield from view.index.assigned(key)
        for assign in known.facts.assigns:
            yield from (t.id for t in assign.targets if hasattr(t, "id"))


def receiver_of(function: Function, written: Written) -> str:
    """The name of a method's object; empty for a function and a static method."""
    if function.owner is None or "staticmethod" in function.facts.decorators:
        return ""
    return written.parameter_names[0] if written.parameter_names else ""


def declared(parameter: cst.Param) -> tuple[str, bool]:
    """A parameter as it is declared."""
    return parameter.name.value, parameter.default is None


def indent_of(text: str) -> str:
    """How far a text stands in."""
    return text[: len(text) - len(text.lstrip(" \t"))]
