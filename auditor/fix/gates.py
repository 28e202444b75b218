"""Decides what would close a gap: which wait, written as whom, and where."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import libcst as cst

from auditor.checks.view import View
from auditor.fix import calls
from auditor.fix.material import gate_name, last_of, versions_of
from auditor.fix.meaning import Meaning, declared, receiver_of
from auditor.fix.statements import (
    Statement,
    awaits,
    commented,
    computes,
    core,
    equal_statements,
    free_names,
    renamed,
    restored,
)
from auditor.fix.text import LINE_END, Edit, Unfit, narrowed
from auditor.fix.written import Written
from auditor.gates.gaps import Gap, nearness
from auditor.gates.values import SELF
from auditor.model import Finding
from auditor.source.names import Function

_MOST_SIBLINGS = 24


@dataclass(frozen=True)
class Offer:
    """An edit of a file of the package that should close a gap; ``how`` is a short clause.

    ``guessed`` says that no other side has the wait there: only siblings speak for it.
    ``restores`` says that the function then reads as upstream's.
    """

    path: str
    edit: Edit
    how: str
    guessed: bool = False
    restores: bool = False


@dataclass
class Gates(Meaning):
    """The gaps of a fork with all that can be learned from: its siblings and the other sides.

    ``views`` are those of the audit, the fork's first.
    """

    def follows(self, gap: Gap) -> bool:
        """Whether a gap is likely to close with others, so that it is edited only if it does not.

        A method that reads through one that will wait needs no wait. Between a public method and a
        private one that reads for it the public one waits, as getters do; and what a call leaves
        out is the call's matter before it is the method's.
        """
        function, owner = gap.function, gap.function.owner
        if gap.shape == "optional":
            return not gap.callers
        if owner is None or gap.shape in ("bypass", "dropped-parameter"):
            return False
        name = function.facts.name
        if name.startswith("_"):
            return any(name in g.function.facts.mentions for g in self._others(gap))
        here = (function.path, function.facts.qualname)
        found = self.fork.readings.of_method(owner, function)
        own = [r.read.origin for r in found if r.root in gap.roots and not r.gated]
        if any((origin.path, origin.qualname) == here for origin in own):
            return False
        made = self.fork.readings.summary(function, owner).calls
        if any(path[1:2] and path[1] in gap.roots for call in made for path in call.receivers):
            return False
        called = {call.name for call in made if call.receivers == {SELF}}
        return any(
            g.function.facts.name in called and not g.function.facts.name.startswith("_")
            for g in self._others(gap)
        )

    def _others(self, gap: Gap) -> Iterator[Gap]:
        """Other gaps of the same class, of its bases and of its subclasses."""
        owner = gap.function.owner
        classes = self.fork.index.classes
        for other in self.gaps().values():
            theirs = other.function.owner
            if other is gap or owner is None or theirs is None:
                continue
            if theirs in classes[owner].mro or owner in classes[theirs].mro:
                yield other

    def offer(self, gap: Gap, finding: Finding) -> Offer:
        """The edit that closes a gap; raises Unfit with what stands against every way."""
        if gap.shape == "optional" and gap.callers:
            return self._handed_over(gap)
        ways: list[Callable[[Gap, Finding], Offer]] = [
            self._taken_over,
            self._put_back,
            *([self._moved] if gap.shape in ("late", "partial") else []),
            self._bypassed if gap.shape == "bypass" else self._as_siblings,
            *([self._through_super] if gap.shape == "override" else []),
        ]
        reasons: list[str] = []
        for way in ways:
            try:
                return way(gap, finding)
            except Unfit as problem:
                if str(problem):
                    reasons.append(str(problem))
            except cst.CSTValidationError:
                reasons.append("it cannot be written here")
        # Way after way often fails for one reason, which the first has told.
        told = [r for n, r in enumerate(reasons) if not r.endswith(tuple(reasons[:n]))]
        raise Unfit("; ".join(told) or "no sibling's wait can be written here")

    # -- ways ------------------------------------------------------------------------------------

    def _taken_over(self, gap: Gap, finding: Finding) -> Offer:
        """The target's own text of a function that is upstream's unchanged."""
        if finding.origin != "fixed-upstream":
            raise Unfit("")
        mine = self.written(self.fork, gap.function)
        upstreams = [view for view in self.views[1:] if view.side != "target"]
        if not any(_lines_of(t) == _lines_of(mine) for t in self._versions(gap, upstreams)):
            raise Unfit("the function differs from upstream's")
        targets = [v for v in self.views if v.side == "target" and v.ref == finding.fixed_in]
        for theirs in self._versions(gap, targets):
            self._same_shape(gap, mine, theirs)
            text = LINE_END.sub(lambda _: _newline(mine.text), theirs.text)
            edit = narrowed(mine.start, mine.text, text)
            return Offer(gap.function.path, edit, f"takes over the change of {finding.fixed_in}")
        raise Unfit(f"{finding.fixed_in} has no such function")

    def _put_back(self, gap: Gap, finding: Finding) -> Offer:
        """The waits that another side's version of the function makes, where it makes them.

        Upstream may have a gap of its own there, of which the fork made a wider one: then it has
        something to give back only if it makes a wait that the fork's version does not.
        """
        mine = self.written(self.fork, gap.function)
        order = {"upstream": 0, "base": 1, "target": 2}
        has_it = finding.origin in ("inherited", "fixed-upstream")
        sides = [
            view for view in self.views[1:] if view.side != "target" or view.ref == finding.fixed_in
        ]
        for view in sorted(sides, key=lambda view: order[view.side]):
            for function in versions_of(view, gap.function):
                theirs = self.written(view, function)
                gates = theirs.waits(self._lines(view, function, gap))
                if not gates:
                    continue
                for gate in gates:
                    self._in_reach(gap, gate, mine, theirs)
                kept = frozenset().union(*map(core, gates))
                own = mine.waits(self._lines(self.fork, gap.function, gap))
                if view.side != "target" and has_it:
                    if kept <= frozenset().union(*map(core, own)):
                        continue
                about = gate_name(gap.gate.split("."))
                gone = [mine.guards(w, about) for w in own if core(w) <= kept]
                body = mine.without(gone, mine.block)
                edit = mine.edit(restored(body, theirs.block, gates, mine.unit))
                if edit.text.strip() or edit.end > edit.start:
                    verb = "takes over" if view.side == "target" else "puts back"
                    how = f"{verb} the wait of {view.ref}"
                    same = view.side != "target" and _makes(edit, mine, theirs)
                    return Offer(gap.function.path, edit, how, restores=same)
        raise Unfit("")

    def _moved(self, gap: Gap, finding: Finding) -> Offer:
        """The function's own wait, before what it reads too early."""
        mine = self.written(self.fork, gap.function)
        waits = mine.waits(self._lines(self.fork, gap.function, gap))
        about = gate_name(gap.gate.split("."))
        for wait in waits:
            told = mine.guards(wait, about)
            # Conditions of its own that ask for something else stay where they do more than look.
            same = [mine.guards(w, about) for w in waits if core(w) == core(told)]
            local = free_names(told) & mine.locals
            moved = self._spelled_by_siblings(gap, mine, told) or mine.adopted(told)
            moved = commented(moved, told)
            if not local:
                body = mine.without(same, mine.with_wait(moved, 0))
            elif local <= mine.bound_before(gap.line):
                body = mine.with_wait_before(gap.line, moved, same)
            else:
                continue
            edit = mine.edit(body)
            return Offer(gap.function.path, edit, "moves the wait before the read")
        raise Unfit("the function's own wait needs what is known after the read only")

    def _spelled_by_siblings(self, gap: Gap, mine: Written, wait: Statement) -> Statement | None:
        """The same wait under the conditions that a sibling asks; None where none makes it."""
        for view, function in self._siblings(gap)[:_MOST_SIBLINGS]:
            theirs = self.written(view, function)
            for other in theirs.waits(self._lines(view, function, gap)):
                try:
                    names, attributes = self._mapping(gap, mine, function, theirs, other)
                except Unfit:
                    continue
                method = (theirs.name, mine.name)
                told = renamed(mine.adopted(other), names, attributes, method)
                if core(told) == core(wait):
                    return told
        return None

    def _as_siblings(self, gap: Gap, finding: Finding) -> Offer:
        """The wait of the nearest sibling."""
        mine = self.written(self.fork, gap.function)
        reasons: list[str] = []
        for view, function in self._siblings(gap)[:_MOST_SIBLINGS]:
            theirs = self.written(view, function)
            for wait in theirs.waits(self._lines(view, function, gap))[:1]:
                try:
                    body = self._beside(gap, mine, view, function, theirs, wait)
                    edit = mine.edit(body)
                except Unfit as problem:
                    reasons.append(f"as {function.facts.qualname} does: {problem}")
                    continue
                how = f"waits as {function.facts.qualname} does"
                return Offer(gap.function.path, edit, how, guessed=True)
        raise Unfit(reasons[0] if reasons else "no sibling has a wait of its own to copy")

    def _through_super(self, gap: Gap, finding: Finding) -> Offer:
        """The overridden method, called first for its wait."""
        mine = self.written(self.fork, gap.function)
        context = gap.function.owner
        index = self.fork.index
        base = index.method(context, gap.function.facts.name, context) if context else None
        if base is None:
            raise Unfit("the overridden method is not in the tree")
        given = self.written(self.fork, base)
        if not receiver_of(gap.function, mine):
            raise Unfit("a static method has nothing to ask super() by")
        if _decorators(given) - {"classmethod"} or given.yields:
            raise Unfit("that a call of the overridden method runs it is not known")
        if given.node.asynchronous is not None and mine.node.asynchronous is None:
            raise Unfit("the overridden method is asynchronous, and this function is not")
        same = [declared(p) for p in given.parameters] == [declared(p) for p in mine.parameters]
        if not same or list(map(bool, given.collects)) != list(map(bool, mine.collects)):
            raise Unfit("the overridden method takes other arguments")
        keywords = {p.name.value for p in mine.node.params.kwonly_params}
        told = [f"{name}={name}" if name in keywords else name for name in mine.parameter_names[1:]]
        first, rest = mine.collects
        at = len(told) - len(keywords)
        told[at:at] = [f"*{first}"] if first else []
        told += [f"**{rest}"] if rest else []
        prefix = "await " if given.node.asynchronous is not None else ""
        call = cst.parse_statement(f"{prefix}super().{mine.name}({', '.join(told)})")
        assert isinstance(call, cst.SimpleStatementLine)
        edit = mine.edit(mine.with_wait(mine.adopted(call), 0))
        how = f"calls super().{mine.name} first, which waits"
        return Offer(gap.function.path, edit, how, guessed=True)

    def _bypassed(self, gap: Gap, finding: Finding) -> Offer:
        """None: the wait of a getter is no statement of the code that reads past it."""
        raise Unfit("how to read through the getter is for a person to decide")

    def _handed_over(self, gap: Gap) -> Offer:
        """The gate that a call leaves out, as another call of the same method hands it over."""
        place = gap.callers[0]
        method = next(
            m
            for m in self.fork.functions[place.qualname]
            if (m.path, m.facts.line) == (place.path, place.line)
        )
        wanted = self._gate_parameters(method)
        mine = self.written(self.fork, gap.function)
        there = calls.at(mine, method.facts.name, gap.line, gap.column)
        reasons: list[str] = []
        for view, function in self._callers(method, gap.function):
            theirs = self.written(view, function)
            for given in calls.of(theirs, method.facts.name):
                if given is there:
                    continue
                try:
                    more = calls.lacking(there, given, method, wanted)
                    for value in more.values():
                        self._within_reach(gap, value, function, mine, theirs)
                except Unfit as problem:
                    reasons.append(str(problem))
                    continue
                edit = mine.edit(mine.replaced(there, calls.extended(there, more)))
                names = " and ".join(more)
                how = f"hands over {names} as {function.facts.qualname} does"
                return Offer(gap.function.path, edit, how)
        raise Unfit(reasons[0] if reasons else "no other call hands it over")

    # -- siblings --------------------------------------------------------------------------------

    def _siblings(self, gap: Gap) -> list[tuple[View, Function]]:
        """Who waits, nearest first: on the fork, in order itself, in the class, by the same key."""
        told = list(gap.siblings)
        if gap.function.owner is not None:
            for key in self.fork.index.classes[gap.function.owner].mro:
                told += [s for s in self.norm.siblings.by_class.get(key[1], ()) if s.path == key[0]]
        keys, gaps = self._keys(gap), self.gaps()
        rows: dict[tuple[int, str, str], tuple[tuple[int, ...], View, Function]] = {}
        for place, sibling in enumerate(told):
            view = next(v for v in self.views if v.side == sibling.side)
            for function in view.functions.get(sibling.symbol, ()):
                if function.path != sibling.path:
                    continue
                if view is self.fork and function.key == gap.function.key:
                    continue
                shares = keys & {p.name for p in function.facts.parameters}
                *near, lines_between = nearness(gap, sibling)
                rank = (
                    view is not self.fork,
                    view is self.fork and (function.path, function.facts.qualname) in gaps,
                    place >= len(gap.siblings),
                    *near,
                    not shares,
                    lines_between,
                )
                who = (self.views.index(view), function.path, function.facts.qualname)
                if who not in rows or rank < rows[who][0]:
                    rows[who] = (rank, view, function)
        ordered = sorted(rows.items(), key=lambda row: (row[1][0], row[0]))
        return [(view, function) for _, (_, view, function) in ordered]

    def _beside(
        self,
        gap: Gap,
        mine: Written,
        view: View,
        function: Function,
        theirs: Written,
        wait: Statement,
    ) -> cst.IndentedBlock:
        """My body with a sibling's wait where the sibling has it. Raises Unfit."""
        names, attributes = self._mapping(gap, mine, function, theirs, wait)
        self._by_its_index(gap, mine, theirs, wait, names, attributes)
        method = (theirs.name, mine.name)

        def mapped(statement: Statement) -> Statement:
            return renamed(mine.adopted(statement), names, attributes, method)

        moved = mapped(wait)
        if awaits(moved) and mine.node.asynchronous is None:
            raise Unfit("it awaits, and this function is not asynchronous")
        self._known_attributes(gap, moved, mine, view, function)
        before = theirs.leading(wait) or []
        position = 0
        for statement, own in zip(before, mine.statements, strict=False):
            first, last = mine.lines(own)
            if first <= gap.line <= last or not equal_statements(mapped(statement), own):
                break
            position += 1
        # What the sibling has computed by then must have been computed here in the same way.
        computed = free_names(wait) & theirs.locals
        shared = theirs.bound_by(before[:position])
        changed = theirs.bound_by(before[position:])
        for name in sorted(computed):
            if name in changed or (name not in shared and name not in theirs.parameter_names):
                raise Unfit(f"it waits by {name}, which it has computed before")
        after = [mapped(statement) for statement in theirs.statements[len(before) :]]
        for own in mine.until(gap.line, position):
            rebound = sorted(free_names(moved) & mine.bound_by([own]) & {*mine.parameter_names})
            if rebound and not computes(after, own):
                raise Unfit(f"{rebound[0]} is given another value here before the read")
        return mine.with_wait(moved, position)

    def _gate_parameters(self, method: Function) -> frozenset[str]:
        """The parameters without which a method does not wait."""
        summary = self.fork.readings.summary(method, method.owner)
        found: set[str] = set()
        for wait in summary.waits:
            if wait.token[0].startswith("param:") and self.fork.readings.is_gate(wait.token[:1]):
                found |= {last_of(wait.token[0]), *wait.keys}
        for read in summary.reads:
            for token, keys in read.held:
                if token[0].startswith("?"):
                    found |= {token[0][1:], *(keys or ())}
        absent = {p.name for p in method.facts.parameters if p.default in ("none", "false")}
        return frozenset(found & absent)

    def _callers(self, method: Function, but: Function) -> list[tuple[View, Function]]:
        """Who calls a method: other sides' versions of the caller, its class, then the rest."""
        rows: list[tuple[tuple[bool, bool, tuple[str, int], int], View, Function]] = []
        for place, view in enumerate(self.views):
            for functions in view.functions.values():
                for function in functions:
                    if method.facts.name not in function.facts.mentions:
                        continue
                    mine = function.facts.qualname == but.facts.qualname
                    if place and not (mine and function.path == but.path):
                        continue
                    at = (function.path, function.facts.line)
                    rank = (not (mine and place), function.owner != but.owner, at, place)
                    rows.append((rank, view, function))
        rows.sort(key=lambda row: row[0])
        return [(view, function) for _, view, function in rows[:_MOST_SIBLINGS]]


def _decorators(written: Written) -> set[str]:
    """The decorators of a function, those that are no plain name as empty text."""
    found = (decorator.decorator for decorator in written.node.decorators)
    return {node.value if isinstance(node, cst.Name) else "" for node in found}


def _lines_of(written: Written) -> list[str]:
    return LINE_END.split(written.text.rstrip("\r\n"))


def _makes(edit: Edit, mine: Written, theirs: Written) -> bool:
    """Whether a function is another version of it, line by line, once it is edited."""
    before, after = mine.text[: edit.start - mine.start], mine.text[edit.end - mine.start :]
    edited = f"{before}{edit.text}{after}"
    return LINE_END.split(edited.rstrip("\r\n")) == _lines_of(theirs)


def _newline(text: str) -> str:
    found = LINE_END.search(text)
    return found[0] if found else "\n"
