"""The conditions of each finding of a tree, ready to be held against launches."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Literal

import msgspec

from auditor.deployment.asks import Asks
from auditor.deployment.code import Code
from auditor.deployment.ways import Ways
from auditor.model import Condition
from auditor.tables.facts import Flag, Term
from auditor.tables.flags import flags
from auditor.tables.guards import defaults
from auditor.tables.modules import Tree
from auditor.tables.terms import ALWAYS, Cases, both, constants

_MOST_TOLD = 6
"""Alternatives that a finding shows."""

_POSITIVE = frozenset({"true", "set", "==", "in", "<", "<=", ">", ">="})
_MEMBER = re.compile(r"[A-Z]\w*\.[A-Z]\w*$")
_ORDER = ("flag", "variable", "platform", "model", "other")

ModelTest = tuple[str, tuple[str, ...], bool, bool]
"""``architecture`` or ``model_type``, texts, whether a part of the name is enough, negated."""


class Need(msgspec.Struct, frozen=True, order=True):
    """One test that must hold: ``term`` on a flag's ``dest``, a variable, or what ``kind`` says.

    ``usual`` is whether it holds where nothing is set, None where that is not known. ``text`` is
    what a person would write or check. ``tests`` are alternatives that a model must pass.
    """

    kind: Literal["flag", "variable", "model", "platform", "other"]
    term: Term
    text: str
    path: str
    line: int
    usual: bool | None
    tests: tuple[tuple[ModelTest, ...], ...] = ()

    @property
    def told(self) -> bool:
        """Whether it is worth saying: no default, and not what a model is not."""
        return self.usual is not True and (
            self.kind in ("flag", "variable") or self.term.op in _POSITIVE
        )


Alternatives = tuple[tuple[Need, ...], ...]


class Needs(msgspec.Struct, frozen=True):
    """When a gate is armed, and when the code behind it is there at all.

    Both are alternatives, all needs of one of which must hold. ``armed`` is empty where nothing
    was found that arms the gate, ``made`` where nothing was that makes the pool or runs the code;
    an alternative without needs says that nothing restricts it.
    """

    armed: Alternatives = ()
    made: Alternatives = ((),)

    def conditions(self) -> tuple[tuple[Condition, ...], ...]:
        """What a person is told, the simplest alternatives first."""
        found: dict[frozenset[tuple[str, str]], tuple[Condition, ...]] = {}
        for arming in self.armed or ((),):
            for making in self.made or ((),):
                needs = {(n.kind, n.text): n for n in (*arming, *making) if n.told}
                ordered = sorted(needs.values(), key=lambda n: (_ORDER.index(n.kind), n.text))
                rows = tuple(Condition(n.kind, n.text, n.path, n.line) for n in ordered)
                found.setdefault(frozenset(needs), rows)
        kept = [rows for key, rows in found.items() if not any(other < key for other in found)]
        return tuple(sorted(kept, key=_simplicity)[:_MOST_TOLD])


def _simplicity(rows: Sequence[Condition]) -> tuple[int, int, int, list[str]]:
    """Fewer that are not understood first, then fewer, then switches before values."""
    texts = [row.text for row in rows]
    unclear = sum(row.kind == "other" for row in rows)
    return unclear, len(rows), sum(" " in text for text in texts), texts


class Place(msgspec.Struct, frozen=True):
    """Where a finding is: a file, a qualified name, and the class of the pool that it is about.

    ``classes`` are that class and its bases; empty where a function is about no pool: a gate that
    it is handed has no method that arms it.
    """

    path: str
    qualname: str
    classes: tuple[str, ...] = ()


def needs_of(
    paths: Collection[str],
    read: Callable[[str], bytes | None],
    arming: Collection[str],
    places: Iterable[Place],
    report_path: Callable[[str], str],
) -> dict[Place, Needs]:
    """The conditions of each place of a tree.

    ``arming`` are the names of the methods that put something in a gate's place.
    """
    tree = Tree(paths, read)
    options = flags(tree)
    code = Code(tree)
    asks = Asks(code, defaults(tree, options))
    ways = Ways(code, asks, options)
    told = _Told(asks, options, report_path)
    made: dict[tuple[str, str], Cases] = {}
    found: dict[Place, Needs] = {}
    for place in places:
        owner, _, method = place.qualname.rpartition(".")
        parts: list[Cases] = []
        if place.classes:
            key = (place.classes[0], method if owner in place.classes else "")
            if key not in made:
                made[key] = ways.made(*key)
            parts.append(made[key])
        if owner not in place.classes:
            key = (place.path, place.qualname)
            if key not in made:
                made[key] = ways.run(*key)
            parts.append(made[key])
        there = ALWAYS
        for cases in parts:
            there = both(there, cases, there)
        found[place] = Needs(
            told.alternatives(ways.armed(arming, place.classes) if place.classes else ALWAYS),
            told.alternatives(there),
        )
    return found


class _Told:
    """Terms in words."""

    def __init__(
        self, asks: Asks, options: Iterable[Flag], report_path: Callable[[str], str]
    ) -> None:
        self.asks = asks
        self.report_path = report_path
        self.flags: dict[str, Flag] = {}
        for flag in options:
            known = self.flags.get(flag.dest)
            if known is None or (known.deprecated and not flag.deprecated):
                self.flags[flag.dest] = flag

    def alternatives(self, cases: Cases) -> Alternatives:
        return tuple(
            tuple(sorted((self.need(t) for t in case), key=lambda n: (n.kind, n.term)))
            for case in cases
        )

    def need(self, term: Term) -> Need:
        asked = self.asks.asked[term.field]
        kind: Literal["flag", "variable", "model", "platform", "other"] = "other"
        if asked.kind in ("flag", "variable", "model", "platform"):
            kind = asked.kind
        text = {
            "flag": self.flag,
            "variable": self.variable,
            "model": self.model,
            "platform": self.platform,
        }.get(kind, self.other)(term)
        place = (self.report_path(asked.path), asked.line)
        return Need(kind, term, text, *place, self.asks.absent(term), asked.tests)

    def flag(self, term: Term) -> str:
        flag = self.flags.get(term.field)
        name = spelled(flag) if flag is not None else "--" + term.field.replace("_", "-")
        if flag is not None and not flag.takes_value and term.op in ("true", "false"):
            if flag.negation:
                return name if term.op == "true" else flag.negation[0]
            # A switch sets what is not its default.
            sets = (term.op == "true") is (flag.default != "True")
            return name if sets else f"without {name}"
        return f"{name}{_compared(term)}"

    def variable(self, term: Term) -> str:
        name = term.field.removeprefix("$")
        if term.op in ("true", "false"):
            return f"{name}={int(term.op == 'true')}"
        if term.op == "==":
            return f"{name}={constants(term)[0]}"
        return f"{name}{_compared(term)}"

    def model(self, term: Term) -> str:
        asked = self.asks.asked[term.field]
        names = [
            text
            for row in asked.tests
            for subject, texts, _, negated in row
            if subject == "architecture" and not negated
            for text in texts
        ]
        word = "not " if term.op == "false" else ""
        if names and term.op in ("true", "false"):
            first, *others = dict.fromkeys(names)
            more = f" or {len(others)} {'other' if len(others) == 1 else 'others'}"
            return f"the model is {word}a {first}{more if others else ''}"
        if term.op not in ("true", "false"):
            return f"the model's {_words(asked.name)} is{_compared(term)}"
        said = _words(asked.name.partition("(")[0])
        for verb in ("is", "has", "uses", "supports"):
            if said.startswith(f"{verb} "):
                return f"the model {verb} {word}{said[len(verb) + 1 :]}"
        return f"the model {'lacks' if word else 'has'} {said}"

    def platform(self, term: Term) -> str:
        word = self.asks.asked[term.field].name.upper().replace("_", " ")
        thing = word if word.endswith("PU") else f"{word} device"
        article = "an" if word[:1] in "AEIOX" or word.startswith("NP") else "a"
        return f"{'not ' if term.op == 'false' else ''}{article} {thing}"

    def other(self, term: Term) -> str:
        name = self.asks.asked[term.field].name
        if term.op in ("true", "false"):
            return f"{'not ' if term.op == 'false' else ''}`{name}`"
        return f"`{name}{_compared(term)}`"


def spelled(flag: Flag) -> str:
    """The option string of a flag that is nearest to its field."""
    plain = "--" + flag.dest.replace("_", "-")
    long = [name for name in flag.names if name.startswith("--")]
    return plain if plain in long else (long or list(flag.names))[0]


def _words(name: str) -> str:
    return name.strip("_").replace("_", " ")


def _compared(term: Term) -> str:
    # A member of an enumeration is known by its own name.
    values = [
        str(v).rpartition(".")[2] if _MEMBER.match(str(v)) else str(v) for v in constants(term)
    ]
    match term.op:
        case "true" | "set":
            return ""
        case "false" | "none":
            return " not given"
        case "==":
            return f" {values[0]}"
        case "in":
            return f" {' or '.join(values)}"
        case "!=" | "not in":
            return f" other than {' or '.join(values)}"
    return f" {term.op} {values[0]}"
