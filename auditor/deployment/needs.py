"""The conditions of each finding of a tree, ready to be held against launches."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal, TypeVar

import msgspec

from auditor.background import Background
from auditor.deployment.asks import Asks
from auditor.deployment.code import Code
from auditor.deployment.ways import Ways
from auditor.deployment.words import Way
from auditor.model import Condition
from auditor.serve.tables.facts import Flag, Term
from auditor.serve.tables.flags import flags
from auditor.serve.tables.guards import defaults
from auditor.serve.tables.modules import Tree
from auditor.serve.tables.terms import ALWAYS, Cases, both, constants
from auditor.source.statements import Piece

T = TypeVar("T")

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

    def placed(self, report_path: Callable[[str], str]) -> Needs:
        """The same with the paths of a report."""

        def rows(alternatives: Alternatives) -> Alternatives:
            return tuple(
                tuple(msgspec.structs.replace(n, path=report_path(n.path)) for n in needs)
                for needs in alternatives
            )

        return Needs(rows(self.armed), rows(self.made))

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


class Seen(msgspec.Struct, frozen=True, order=True):
    """A piece that was read: its first line, how many it has, its digest without blank ones."""

    start: int
    height: int
    digest: bytes

    @classmethod
    def of(cls, piece: Piece) -> Seen:
        """What tells a piece apart."""
        lines = piece.text.splitlines()
        # Comments at the end may be about the next piece.
        while lines and (not lines[-1].strip() or lines[-1].lstrip().startswith(b"#")):
            lines.pop()
        said = b"\n".join(line for line in lines if line.strip())
        return cls(piece.start, len(lines), hashlib.sha256(said).digest()[:16])


class Grounds(msgspec.Struct, frozen=True):
    """What conditions rest on: the questions that were asked, and what they were told.

    ``where`` are the files that hold a name in a way, ``texts`` what was looked for in a file,
    ``pieces`` what was read of it, and ``whole`` the files of which more was.
    """

    where: dict[tuple[Way, str], tuple[str, ...]]
    texts: dict[str, frozenset[str]]
    pieces: dict[str, frozenset[Seen]]
    whole: frozenset[str]

    @classmethod
    def of(cls, code: Code, tree: Tree) -> Grounds:
        """Those of all that was asked of some code, and of whole modules."""
        files = {path: file for path, file in code.files.items() if file is not None}
        texts = {path: frozenset(file.asked) for path, file in files.items()}
        pieces = {path: frozenset(map(Seen.of, file.read)) for path, file in files.items()}
        whole = tree.opened.union(path for path, file in files.items() if file.read_whole)
        return cls(dict(code.words.answers), texts, pieces, whole)

    def __or__(self, other: Grounds) -> Grounds:
        return Grounds(
            self.where | other.where,
            _union(self.texts, other.texts),
            _union(self.pieces, other.pieces),
            self.whole | other.whole,
        )


def _union(
    left: Mapping[str, frozenset[T]], right: Mapping[str, frozenset[T]]
) -> dict[str, frozenset[T]]:
    none: frozenset[T] = frozenset()
    return {key: left.get(key, none) | right.get(key, none) for key in {*left, *right}}


def needs_of(
    tree: Tree, arming: Collection[str], places: Iterable[Place], *, alone: bool = True
) -> Callable[[], tuple[dict[Place, Needs], Grounds]]:
    """The conditions of each place of a tree, by its paths, and what they rest on.

    They are begun at once, and waited for when the outcome is called for. ``arming`` are the names
    of the methods that put something in a gate's place. How a pool is made is asked apart from the
    rest: without ``alone`` two processes do it.
    """
    places = list(places)
    options = flags(tree)
    settings = defaults(tree, options)
    code = Code(tree.again())
    code.words.read()

    def ask(
        *questions: Callable[[Ways, Place], Cases],
    ) -> tuple[list[list[Alternatives]], Grounds]:
        asks = Asks(code, tree, settings)
        told = _Told(asks, options)
        ways = Ways(code, asks, options)
        found = [[told.alternatives(q(ways, place)) for q in questions] for place in places]
        return found, Grounds.of(code, tree)

    making = Background(lambda: ask(_made), alone=alone)
    running = Background(
        lambda: ask(lambda ways, place: _armed(ways, arming, place), _run), alone=alone
    )

    def outcome() -> tuple[dict[Place, Needs], Grounds]:
        (made, grounds), (others, more) = making.result(), running.result()
        found = {
            place: Needs(armed, _all(there, run))
            for place, [there], [armed, run] in zip(places, made, others, strict=True)
        }
        return found, grounds | more

    return outcome


def _armed(ways: Ways, arming: Collection[str], place: Place) -> Cases:
    return ways.armed(arming, place.classes) if place.classes else ALWAYS


def _made(ways: Ways, place: Place) -> Cases:
    """When the object is made that a place is about."""
    if not place.classes:
        return ALWAYS
    owner, _, method = place.qualname.rpartition(".")
    return ways.made(place.classes[0], method if owner in place.classes else "")


def _run(ways: Ways, place: Place) -> Cases:
    """When a place is run that is no method of the object which it is about."""
    owner = place.qualname.rpartition(".")[0]
    return ALWAYS if owner in place.classes else ways.run(place.path, place.qualname)


def _all(first: Alternatives, second: Alternatives) -> Alternatives:
    """Where one of the first alternatives holds and one of the second."""
    needs = {need.term: need for rows in (first, second) for row in rows for need in row}
    left, right = (
        tuple(frozenset(need.term for need in row) for row in rows) for rows in (first, second)
    )
    return _ordered((needs[term] for term in case) for case in both(left, right, left))


def _ordered(alternatives: Iterable[Iterable[Need]]) -> Alternatives:
    return tuple(tuple(sorted(row, key=lambda n: (n.kind, n.term))) for row in alternatives)


class _Told:
    """Terms in words."""

    def __init__(self, asks: Asks, options: Iterable[Flag]) -> None:
        self.asks = asks
        self.flags: dict[str, Flag] = {}
        for flag in options:
            known = self.flags.get(flag.dest)
            if known is None or (known.deprecated and not flag.deprecated):
                self.flags[flag.dest] = flag

    def alternatives(self, cases: Cases) -> Alternatives:
        return _ordered((self.need(term) for term in case) for case in cases)

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
        absent = self.asks.absent(term)
        return Need(kind, term, text, asked.path, asked.line, absent, asked.tests)

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
