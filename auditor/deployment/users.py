"""Who uses a class or a function: makes objects of it, calls it, hands it on."""

from __future__ import annotations

import ast
from typing import Literal

from auditor.deployment.code import Code
from auditor.deployment.parts import Body, Use

WIDEST = 24
"""Places that use one name; a name that more places use says nothing."""
How = Literal["armed", "made", "run"]

_MOST_HEIRS = 8
"""Classes below one that are looked at."""


class Users:
    """Who uses what in the code of one tree."""

    def __init__(self, code: Code) -> None:
        self.code = code

    def inheriting(self, class_name: str, method: str) -> list[str]:
        """The classes below one whose objects have its method."""
        found: dict[str, None] = {}
        pending = [class_name]
        while pending and len(found) < _MOST_HEIRS:
            for file, node in self.code.subclasses(pending.pop(0)):
                own = bool(method) and file.defines(node, method)
                if node.name not in found and node.name != class_name and not own:
                    found[node.name] = None
                    pending.append(node.name)
        return list(found)

    def handed(self, use: Use) -> tuple[Body | None, str]:
        """The function of the same file to which a use hands something, and the parameter."""
        call = use.inside
        if call is None:
            return None, ""
        match call.func:
            case ast.Name(id=name):
                owner = None
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                owner = use.body.owner
            case _:
                return None, ""
        for body in use.body.file.bodies(name):
            if body.owner is owner:
                parameters = list(body.parameters)
                for keyword in call.keywords:
                    if keyword.value is use.node and keyword.arg in parameters:
                        return body, str(keyword.arg)
                for number, given in enumerate(call.args):
                    if given is use.node and number < len(parameters):
                        return body, parameters[number]
        return None, ""

    def makes(self, use: Use, name: str) -> bool:
        """Whether a use of a class's name may make an object: no type test, no own method."""
        owner = use.body.owner
        if owner is not None and owner.name == name:
            return False
        return not use.attribute or use.call is not None

    def callers(self, body: Body, how: How) -> list[Use]:
        """The uses of a function or method; of what is made those in the same file."""
        assert body.function is not None
        name = body.function.name
        if how == "made" or (how == "run" and body.owner is not None):
            found = body.file.named(name)
            return [use for use in found if use.body.function is not body.function]
        if body.owner is None:
            return [
                use
                for use in self.code.uses(name)
                if use.body.function is not body.function and self.means(use, body)
            ]
        family = self.family(body)
        known = {path for word in family for path in self.code.where("word", word)}
        near = [path for path in self.code.where("word", name) if path in known]
        uses: list[Use] = []
        for path in near if len(near) <= WIDEST else ():
            file = self.code.file(path)
            for use in file.named(name) if file is not None else ():
                if not use.attribute or use.body.function is body.function:
                    continue
                receiver = use.receiver
                if isinstance(receiver, ast.Name) and receiver.id == "self":
                    if use.body.owner is None or use.body.owner.name not in family:
                        continue
                uses.append(use)
        return uses

    def family(self, body: Body) -> set[str]:
        """The names of a method's class, its bases and those below it."""
        assert body.owner is not None
        found = {node.name for _, node in self.code.lineage(body.file, body.owner)}
        found |= {node.name for _, node in self.code.subclasses(body.owner.name)}
        return found

    def means(self, use: Use, body: Body) -> bool:
        """Whether a name can be that function: defined here, or imported from its module."""
        file = use.body.file
        assert body.function is not None
        if use.attribute:
            receiver = use.receiver
            return isinstance(receiver, ast.Name) and file.imported(receiver.id) is not None
        if file is body.file:
            return True
        return isinstance(use.node, ast.Name) and use.node.id in file.locals_of(body.function.name)


def annotated(body: Body, name: str) -> frozenset[str]:
    """The classes that a parameter is annotated with."""
    spec = body.function.args if body.function is not None else None
    arguments = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs] if spec is not None else []
    return frozenset(
        found
        for arg in arguments
        if arg.arg == name and arg.annotation is not None
        for found in names_in(arg.annotation)
    )


def names_in(annotation: ast.expr) -> set[str]:
    """The names of classes in an annotation, but for those that say nothing."""
    found: set[str] = set()
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value.rpartition(".")[2])
    return found - {"Any", "Optional", "Union", "None", "object"}
