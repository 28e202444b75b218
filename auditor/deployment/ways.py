"""Follows a place of the tree back to the settings under which it runs."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Sequence

from auditor.deployment.asks import Asks
from auditor.deployment.code import Code
from auditor.deployment.kinds import Asked
from auditor.deployment.parts import Body, Use
from auditor.deployment.users import WIDEST, How, Users, annotated, names_in
from auditor.serve.tables.facts import Flag, Term
from auditor.serve.tables.terms import (
    ALWAYS,
    NEVER,
    Cases,
    Conjunction,
    both,
    opposite,
    possible,
    reduced,
    simplest,
)

_DEEPEST = 9
"""Calls from a place up to where settings are asked for; 0.5.23 needs six."""


_MOST = 16
"""Alternatives that are kept."""

_MOST_GIVEN = 6
"""Places that give a setting its value."""


_MOST_HANDS = 4
"""Names and functions that a class goes through before an object is made of it."""

_STEPS = 300
"""Functions entered for one place; in 0.5.23 some 60 are, and more change no answer there."""


class Ways(Users):
    """The conditions of places of one tree: alternatives of terms."""

    def __init__(self, code: Code, asks: Asks, flags: Iterable[Flag]) -> None:
        super().__init__(code)
        self.asks = asks
        self.flags = tuple(flags)
        self.steps = 0
        self._known: dict[tuple[int, Cases, How], Cases] = {}
        self._rows: list[tuple[frozenset[str], Cases]] | None = None
        self._armed: dict[tuple[Cases, ...], Cases] = {}
        self._made: dict[tuple[str, ...], Cases] = {}

    def armed(self, names: Collection[str], classes: Collection[str]) -> Cases:
        """When a method that puts something in a gate's place is called with it.

        ``classes`` are a pool's class and its bases: calls on objects of other classes arm other
        pools, and those that say that they are on its own count alone.
        """
        rows = self._arming(tuple(sorted(names)))
        own = [cases for kinds, cases in rows if kinds & set(classes)]
        found = own or [cases for kinds, cases in rows if not kinds or not classes]
        if not found:
            return NEVER
        key = tuple(found)
        if key not in self._armed:
            whole = self.finished([*found, *self.settled(self.joined(found))])
            self._armed[key] = whole
        return self._of_classes(self._armed[key], classes)

    def _arming(self, names: tuple[str, ...]) -> list[tuple[frozenset[str], Cases]]:
        """For each call that arms the classes that its object is said to be, and when it runs."""
        if self._rows is None:
            self._rows = []
            self.steps = 0
            for name in names:
                for use in self.code.uses(name):
                    if use.call is None or not _gives(use.call) or use.body.name == name:
                        continue
                    here = self.asks.guards(use.guards, use.body, use.body, ALWAYS)
                    cases = self.climb(use.body, here, "armed", ())
                    self._rows.append((self.declared(use), cases))
        return self._rows

    def declared(self, use: Use) -> frozenset[str]:
        """The classes that the object of a call is annotated with; none where that is not said."""
        receiver = use.receiver
        match receiver:
            case ast.Name(id=name):
                return annotated(use.body, name)
            case ast.Attribute(value=ast.Name(id=name), attr=attr):
                return frozenset(
                    found
                    for holder in annotated(use.body, name)
                    for _, node in self.code.classes(holder)[:1]
                    for row in node.body
                    if isinstance(row, ast.AnnAssign)
                    and isinstance(row.target, ast.Name)
                    and row.target.id == attr
                    for found in names_in(row.annotation)
                )
        return frozenset()

    def _of_classes(self, cases: Cases, classes: Collection[str]) -> Cases:
        """Without the alternatives that are for other pools, and without saying of which."""
        kept: list[Conjunction] = []
        strange: list[Conjunction] = []
        for case in cases:
            asked = {term for term in case if self.asks.kind(term) == "class"}
            fitting = [self._fits(term, classes) for term in asked]
            if False not in fitting:
                # Tests on other objects alone say less than those on the pool, or none.
                few = True in fitting or not any(term.op == "true" for term in asked)
                (kept if few else strange).append(case - asked)
        rest = [frozenset(t for t in c if self.asks.kind(t) != "class") for c in cases]
        return tidy([tuple(kept or strange or rest)])

    def _fits(self, term: Term, classes: Collection[str]) -> bool | None:
        """Whether a pool of these classes passes a test on an object's class.

        None for the test on another object: one that has no base in common with the pool.
        """
        names = self.asks.asked[term.field].name.split("|")
        if not classes:
            return True
        if set(names) & set(classes):
            return term.op == "true"
        own = next(iter(classes))
        rows = [row for name in names for row in self.code.classes(name)[:1]]
        lines = [{node.name for _, node in self.code.lineage(*row)} for row in rows]
        if not any(line & set(classes) for line in lines):
            return None
        return term.op == "false" or any(own in line for line in lines)

    def made(self, class_name: str, method: str = "") -> Cases:
        """When objects are made of a class, or of one that inherits the method from it.

        None at all where nothing that makes any was found.
        """
        names = (class_name, *self.inheriting(class_name, method))
        if names not in self._made:
            self.steps = 0
            rows = [self.constructed(name, ALWAYS, "made", ()) for name in names]
            found = [cases for cases in rows if cases is not None]
            self._made[names] = self.finished(found) if found else NEVER
        return self._made[names]

    def run(self, path: str, qualname: str) -> Cases:
        """When a function that is no method of a pool runs; none where nothing makes its object."""
        file = self.code.file(path)
        owner, _, name = qualname.rpartition(".")
        for body in file.bodies(name) if file is not None else ():
            if (body.owner.name if body.owner else "") == owner:
                self.steps = 0
                if owner and self.constructed(owner, ALWAYS, "made", ()) is None:
                    return NEVER
                found = self.finished([self.climb(body, ALWAYS, "run", ())])
                # What is asked of a request is no matter of how the server was started.
                lasting = (frozenset(t for t in case if self.lasting(t)) for case in found)
                return tidy([tuple(lasting)]) or ALWAYS
        return ALWAYS

    def settled(self, cases: Cases) -> list[Cases]:
        """The same where the tree itself gives a setting the value that is asked for.

        A setting that says nothing by default is often settled when the server starts.
        """
        found: list[Cases] = []
        for case in cases:
            for term in sorted(case):
                if self.asks.kind(term) == "flag" and self.asks.absent(term) is False:
                    for when in self.given(term):
                        more = both(when, (case - {term},), NEVER)
                        if more != NEVER:
                            found.append(more)
        return found

    def given(self, term: Term) -> list[Cases]:
        """When the tree gives a setting a value that satisfies a term."""
        names = [n for n, (dest, _) in self.asks.settings.items() if dest == term.field]
        found: list[Cases] = []
        for name in names:
            for path in self.code.where("given", name):
                file = self.code.file(path)
                if file is None:
                    continue
                rows = [r for r in file.attributes(name) if _of_settings(r[0])]
                for body, value, number, guards in (*file.values(name), *rows):
                    if number >= 0 or body.function is None or len(found) >= _MOST_GIVEN:
                        continue
                    if not _chosen(value, body):
                        continue
                    when = self.asks.satisfied(value, body, body, term, 1)
                    when = self.asks.guards(guards, body, body, when)
                    closed = self.closed(when, body)
                    if closed not in (NEVER, ALWAYS):
                        found.append(closed)
        return found

    # -- up from a function ----------------------------------------------------------------------

    def climb(self, body: Body, inner: Cases, how: How, stack: tuple[int, ...]) -> Cases:
        """When a function is run, given what must hold within it.

        What is ``armed`` is followed to the first settings that a launch has to give: beyond them
        the tests are those of starting at all. Where something is ``made`` is left with the file.
        """
        if inner == NEVER:
            return NEVER
        if how == "armed" and self.decisive(inner):
            return inner
        self.steps += 1
        if body.function is None or len(stack) >= _DEEPEST or self.steps > _STEPS:
            return inner
        key = (id(body.function), inner, how)
        if key in self._known:
            return self._known[key]
        if id(body.function) in stack:
            return NEVER
        deeper = (*stack, id(body.function))
        found = self.registered(body, inner)
        if found is None:
            found = self.called(body, inner, how, deeper)
        self._known[key] = found
        return found

    def called(self, body: Body, inner: Cases, how: How, stack: tuple[int, ...]) -> Cases:
        """When a function runs by one of its calls."""
        assert body.function is not None
        # Where the object of a method is made is enough, whoever calls that.
        of_object: How = "made" if how == "run" else how
        if body.owner is not None and body.name == "__init__":
            made = self.constructed(body.owner.name, inner, of_object, stack, body)
            return inner if made is None else made
        uses = self.callers(body, how)
        if how == "made" and not uses:
            if self.told(inner):
                return self.closed(inner, body)
            uses = self.callers(body, "armed")
        if body.owner is not None and not uses:
            made = self.constructed(body.owner.name, self.closed(inner, body), of_object, stack)
            return inner if made is None else made
        if not uses or len(uses) > WIDEST:
            return self.closed(inner, body)
        return self.joined([self.through(use, body, inner, how, stack) for use in uses])

    def through(
        self, use: Use, callee: Body | None, inner: Cases, how: How, stack: tuple[int, ...]
    ) -> Cases:
        """When what stands behind a use of a name runs by it."""
        if callee is not None:
            inner = self.asks.substituted(inner, use.call, callee, use.body, use.body)
        elif use.call is None and use.body.function is not None:
            inner = both(inner, self.held(use, 0), inner)
        here = self.asks.guards(use.guards, use.body, use.body, inner)
        if use.body.function is None and use.body.owner is not None:
            made = self.constructed(use.body.owner.name, here, how, stack)
            return here if made is None else made
        if use.body.function is None:
            return self.kept(use, here)
        return self.climb(use.body, here, how, stack)

    def held(self, use: Use, depth: int) -> Cases:
        """When an object is made of a class that is kept in a local name or handed on."""
        body = use.body
        if depth > _MOST_HANDS:
            return ALWAYS
        found = ALWAYS
        callee, name = self.handed(use)
        if callee is not None:
            inner = self.flowing(callee, name, depth + 1)
            found = self.asks.substituted(inner, use.inside, callee, body, body)
        for name, rows in body.assigned.items():
            if any(node is use.node for value, *_ in rows for node in ast.walk(value)):
                return both(found, self.flowing(body, name, depth + 1), found)
        return found

    def flowing(self, body: Body, name: str, depth: int) -> Cases:
        """When an object is made of the class that a local name or parameter holds."""
        found: list[Cases] = []
        for use in body.file.uses(name):
            if use.body is not body or use.attribute:
                continue
            inner = ALWAYS if use.call is not None else self.held(use, depth)
            found.append(self.asks.guards(use.guards, body, body, inner))
        return self.joined(found) if found else ALWAYS

    def kept(self, use: Use, inner: Cases) -> Cases:
        """When something that is handed on at the top level of a module is taken from there."""
        name = _constant_of(use.inside)
        if name is None:
            text = ast.unparse(use.node)
        else:
            found = self.by_name(use.inside, name)
            if found is not None:
                return both(inner, found, inner)
            text = f"{ast.unparse(use.node)} as {name}"
        field = f"? {text}"
        place = (use.body.file.path, use.node.lineno)
        self.asks.asked.setdefault(field, Asked("other", text, *place))
        return both(inner, (frozenset([Term(field, "true")]),), inner)

    def registered(self, body: Body, inner: Cases) -> Cases | None:
        """When a function runs that a decorator registers under a name."""
        assert body.function is not None
        for decorator in body.function.decorator_list:
            name = _constant_of(decorator)
            if name is not None:
                found = self.by_name(decorator, name)
                if found is not None:
                    return both(self.closed(inner, body), found, inner)
        return None

    def by_name(self, call: ast.expr | None, name: str) -> Cases | None:
        """The setting that chooses what a call registers: the one that the call is named for."""
        told = ast.unparse(call.func).lower() if isinstance(call, ast.Call) else ""
        named = [flag for flag in self.flags if flag.takes_value and flag.dest in told]
        if not named:
            return None
        flag = max(named, key=lambda row: len(row.dest))
        dest, default = self.asks.settings.get(flag.dest, (flag.dest, None))
        self.asks.asked.setdefault(dest, Asked("flag", dest, flag.path, flag.line, default))
        return (frozenset([Term(dest, "==", (repr(name),))]),)

    def finished(self, parts: Sequence[Cases]) -> Cases:
        """One of these, with what no caller told as what it is: not understood."""
        found = []
        for part in parts:
            for case in part:
                left = {t for t in case if self.asks.kind(t) != "parameter"}
                for term in case - left:
                    asked = self.asks.asked[term.field]
                    field = f"? {asked.name}"
                    place = (asked.path, asked.line)
                    self.asks.asked.setdefault(field, Asked("other", asked.name, *place))
                    left.add(Term(field, term.op, term.values))
                found.append((frozenset(left),))
        return self.joined(found)

    def joined(self, parts: Sequence[Cases]) -> Cases:
        """Where one holds; with less said of each where they are too many."""
        found = tidy(parts)
        for kept in (("flag", "variable", "model", "platform", "parameter"), ("flag", "variable")):
            if len(found) <= _MOST:
                break
            told = [
                frozenset(t for t in c if self.asks.kind(t) in kept and not self.asks.absent(t))
                for c in found
            ]
            found = tidy([tuple(told)])
        return found[:_MOST]

    def closed(self, cases: Cases, body: Body) -> Cases:
        """Without open parameters: who calls is not known."""
        return self.asks.substituted(cases, None, body, body, body)

    def lasting(self, term: Term) -> bool:
        """Whether a test is on more than the values of one call."""
        name = self.asks.asked[term.field].name
        return self.asks.kind(term) != "other" or name.startswith("self.")

    def told(self, cases: Cases) -> bool:
        """Whether every alternative says something of the model, the platform or the settings."""
        kinds = ("flag", "variable", "model", "platform")
        return all(any(self.asks.kind(term) in kinds for term in case) for case in cases)

    def decisive(self, cases: Cases) -> bool:
        """Whether every alternative has something that a launch must give."""
        return all(
            any(
                self.asks.kind(term) in ("flag", "variable") and self.asks.absent(term) is False
                for term in case
            )
            for case in cases
        )

    # -- who uses what ---------------------------------------------------------------------------

    def constructed(
        self,
        name: str,
        inner: Cases,
        how: How,
        stack: tuple[int, ...],
        init: Body | None = None,
    ) -> Cases | None:
        """When objects of a class, or of those that inherit its constructor, are made.

        None where nothing makes any.
        """
        if id(name) in stack or len(stack) >= _DEEPEST:
            return NEVER
        uses = [use for use in self.code.uses(name) if self.makes(use, name)]
        uses = [use for use in uses if use.body.function is not None] or uses
        found: list[Cases] = []
        if len(uses) <= WIDEST:
            for use in uses:
                found.append(self.through(use, init, inner, how, stack))
        for file, node in self.code.subclasses(name):
            if node.name == name:
                continue
            own = next((b.function for b in file.bodies("__init__") if b.owner is node), None)
            if (init is not None or not uses) and (own is None or _calls_super(own)):
                open_left = inner if own is None or init is None else self.closed(inner, init)
                below = self.constructed(node.name, open_left, how, (*stack, id(node)))
                if below is not None:
                    found.append(below)
        return self.joined(found) if found else None


def _of_settings(body: Body) -> bool:
    """Whether a function is of the settings, or is handed them."""
    owner = body.owner.name if body.owner is not None else ""
    return owner == "ServerArgs" or "server_args" in body.parameters


def _chosen(value: ast.expr, body: Body) -> bool:
    """Whether a value is written out somewhere, and not only handed through."""
    if isinstance(value, ast.Name):
        return any(_chosen(v, body) for v, *_ in body.assigned.get(value.id, ()) if v is not value)
    return isinstance(value, (ast.Constant, ast.IfExp))


def tidy(found: Sequence[Cases]) -> Cases:
    """One of these, in as few and as short alternatives as there are."""
    cases = [case for part in found for case in part]
    kept = reduced(list(dict.fromkeys(simplest(case) for case in cases if possible(case))))
    merged = _merged(kept)
    return tuple(sorted(merged, key=lambda case: (len(case), sorted(case))))


def _merged(cases: list[Conjunction]) -> list[Conjunction]:
    """Alternatives that differ in one test alone, once with it and once without, as one."""
    again = True
    while again:
        again = False
        for case in cases:
            for term in sorted(case):
                other = (case - {term}) | {opposite(term)}
                if other in cases:
                    cases = [c for c in cases if c not in (case, other)]
                    cases = reduced([*cases, case - {term}])
                    again = True
                    break
            if again:
                break
    return cases


def _gives(call: ast.Call) -> bool:
    """Whether a call hands over more than None."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return not given or not all(isinstance(v, ast.Constant) and v.value is None for v in given)


def _constant_of(call: ast.expr | None) -> str | None:
    """The text that a call is given first."""
    if isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Constant):
        value = call.args[0].value
        return value if isinstance(value, str) else None
    return None


def _calls_super(node: ast.AST) -> bool:
    return any(
        isinstance(inner, ast.Call)
        and isinstance(inner.func, ast.Attribute)
        and inner.func.attr == "__init__"
        for inner in ast.walk(node)
    )
