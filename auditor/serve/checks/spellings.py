"""Reads the arguments of a launch as the flags of a tree, the way argparse would."""

from __future__ import annotations

import difflib
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from auditor.model import (
    Argument,
    Confidence,
    Evidence,
    Hit,
    Launch,
    Location,
    Reach,
    Rewrite,
    Side,
    Symbol,
)
from auditor.rulebook import Param
from auditor.serve.checks.seen import OtherTree, ServeView
from auditor.serve.tables.facts import Flag
from auditor.serve.tables.flags import Resolution, resolve

Value = str | int | float | bool | tuple[str, ...]

# argparse adds these to every parser that does not forbid it; no tree declares them.
_ADDED_BY_ARGPARSE = frozenset({"-h", "--help"})
_OPTIONAL = re.compile(
    r"(?:typing\.)?Optional\[(.+)\]$|(?:typing\.)?Union\[(.+), None\]$|(.+?) \| None$"
)
_CONSTANT = re.compile(r"""'[^'"]*'|"[^'"]*"|-?[\d.]+(?:e-?\d+)?|None|True|False""")
_MOST_GUESSES = 1_000
_LONGEST_GUESSED = 100
SAID = frozenset({"true", "false", "1", "0", "yes", "no", "on", "off"})
"""What is written after a switch that takes nothing."""

_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
# Text that a run or a reader still has to fill in (`$TP`, `<model>`).
_SHELL_TEXT = frozenset("$<>{}`*")


@dataclass(frozen=True)
class Meaning:
    """What a flag's text stands for: no flag, one, or several that it abbreviates.

    ``names`` are the option strings that match, one for an exact spelling.
    """

    text: str
    flags: tuple[Flag, ...]
    names: tuple[str, ...]
    exact: bool

    @property
    def flag(self) -> Flag | None:
        """The one flag that it means, None where it means none or several."""
        return self.flags[0] if len(self.flags) == 1 else None


class Guesses:
    """What was most likely meant, of some names; bounded, since a script may hold any number."""

    def __init__(self, names: Mapping[str, str], cutoff: float) -> None:
        self._names = names
        self._cutoff = cutoff
        self._made: dict[str, str] = {}

    def of(self, text: str) -> str:
        """The value of the nearest key; empty where none is near or too much was asked."""
        if text not in self._made:
            if len(self._made) >= _MOST_GUESSES or len(text) > _LONGEST_GUESSED:
                return ""
            close = difflib.get_close_matches(text, self._names, n=1, cutoff=self._cutoff)
            self._made[text] = self._names[close[0]] if close else ""
        return self._made[text]


class Spellings:
    """The option strings of one tree."""

    def __init__(self, flags: Iterable[Flag]) -> None:
        self._flags = tuple(flags)
        self._by_name = {n: flag for flag in self._flags for n in (*flag.names, *flag.negation)}
        self._by_dest: dict[str, Flag] = {}
        self._known: dict[str, Meaning] = {}
        self._resolved: dict[str, Resolution] = {}
        self._guesses = Guesses({name: name for name in self._by_name}, 0.8)
        for flag in self._flags:
            known = self._by_dest.get(flag.dest)
            if known is None or (known.deprecated and not flag.deprecated):
                self._by_dest[flag.dest] = flag

    def __len__(self) -> int:
        return len(self._flags)

    def of(self, text: str) -> Meaning:
        """What argparse makes of a flag's text.

        Several option strings of one flag do not make an abbreviation ambiguous: they do before
        Python 3.12.8, and the interpreter that will run is not known.
        """
        if text not in self._known:
            found = self.resolution(text)
            names = found.names or ((found.name,) if found.flag is not None else ())
            flags = tuple({id(self._by_name[n]): self._by_name[n] for n in names}.values())
            self._known[text] = Meaning(text, flags, names, found.kind == "exact")
        return self._known[text]

    def resolution(self, text: str) -> Resolution:
        """What argparse makes of a word that begins as a flag does, its value included."""
        if text not in self._resolved:
            self._resolved[text] = resolve(self._flags, text)
        return self._resolved[text]

    def field(self, dest: str) -> Flag | None:
        """The flag that fills a field, one that is not deprecated where there are several.

        Older trees fill ``tensor_parallel_size`` by ``--tp-size`` and copy it to the field.
        """
        known = self._by_dest.get(dest)
        if known is not None:
            return known
        meant = self.of("--" + dest.replace("_", "-"))
        return meant.flag if meant.exact else None

    def nearest(self, text: str) -> str:
        """The option string that was most likely meant; empty where none is near."""
        dashed = text.replace("_", "-")
        if not dashed.startswith("--"):
            dashed = "-" + dashed if dashed.startswith("-") else "--" + dashed
        meant = self.of(dashed)
        if dashed != text and meant.flag is not None:
            return meant.names[0] if meant.exact else next(iter(meant.flag.names))
        return self._guesses.of(dashed)

    def mentions(self, text: str) -> Flag | None:
        """A flag that says in its help or deprecation that it has to do with another one."""
        for flag in self._by_dest.values():
            words = f"{flag.help} {flag.deprecated}".replace("`", " ").replace("'", " ").split()
            if any(word.strip(".,;:()") == text for word in words):
                return flag
        return None


@dataclass(frozen=True)
class Use:
    """An argument of a server's launch and what it means to the tree."""

    launch: Launch
    argument: Argument
    meaning: Meaning


def uses(view: ServeView, spellings: Spellings) -> Iterator[Use]:
    """Every argument of every launch that the tree's own command line will read.

    Keywords of a call in Python are the names of fields; keys of a recipe may be written with
    underscores, since the tool that reads it writes the flags.
    """
    for launch in view.launches:
        if launch.program == "server":
            for argument in launch.arguments:
                yield _use(launch, argument, spellings)


def _use(launch: Launch, argument: Argument, spellings: Spellings) -> Use:
    """An argument with the words that are its own: what stands behind them belongs to no flag."""
    meant = meaning(launch, argument, spellings)
    flag, words = meant.flag, argument.words
    if flag is None or is_key(launch, argument):
        return Use(launch, argument, meant)
    attached = spellings.resolution(argument.flag).value
    if attached is not None:  # `-qfp8`
        own = replace(argument, value=attached, words=(), joined=True)
    elif words and (not flag.takes_value or flag.nargs in ("", "?", "1")):
        own = replace(argument, value=words[0], words=())
    elif words and flag.nargs.isdigit():
        kept = words[: int(flag.nargs)]
        own = replace(argument, value=" ".join(kept), words=kept)
    else:
        own = argument
    return Use(launch, own, meant)


def meaning(launch: Launch, argument: Argument, spellings: Spellings) -> Meaning:
    """What one argument means, by the notation it stands in."""
    text = argument.flag
    if is_call(launch):
        flag = spellings.field(text.lstrip("-").replace("-", "_"))
        return Meaning(text, (flag,) if flag else (), flag.names[:1] if flag else (), True)
    if launch.form == "recipe" and "_" in text:
        return spellings.of(text.replace("_", "-"))
    return spellings.of(text)


def is_call(launch: Launch) -> bool:
    """Whether the server is started by a call in Python (``sgl.Engine(…)``), not by its words."""
    return launch.form == "python" and launch.command.endswith(")")


def is_key(launch: Launch, argument: Argument) -> bool:
    """Whether a flag is written as a key, and its value beside it, not as words of a command."""
    return is_call(launch) or launch.form == "recipe" or from_config(launch, argument)


def readable(launch: Launch, argument: Argument) -> bool:
    """Whether the flag itself is known, and one that a tree must declare."""
    text = argument.flag
    return (
        (text.startswith("-") or is_call(launch))
        and text not in _ADDED_BY_ARGPARSE
        and literal(text)
    )


def named_configs(launch: Launch) -> Iterator[Argument]:
    """The arguments by which a launch names a configuration file."""
    return (argument for argument in launch.arguments if argument.flag == "--config")


def from_config(launch: Launch, argument: Argument) -> bool:
    """Whether an argument stands in the file that the launch names after ``--config``."""
    names = {posixpath.basename(named.value or "") for named in named_configs(launch)}
    return argument.path != launch.path and posixpath.basename(argument.path) in names


def literal(text: str) -> bool:
    """Whether a text says what it is, with nothing left to fill in."""
    return _SHELL_TEXT.isdisjoint(text)


@dataclass(frozen=True)
class Setting:
    """A field that a launch sets for certain, by which argument, to what."""

    flag: Flag
    argument: Argument
    value: Value

    @property
    def text(self) -> str:
        """The setting as one would write it."""
        value = self.argument.value
        return self.argument.flag if value is None else f"{self.argument.flag} {value}"


@dataclass(frozen=True)
class Settings:
    """All that a launch sets for certain, by field; of ``open`` fields only some runs are known."""

    launch: Launch
    known: dict[str, Setting]
    open: frozenset[str]

    def may_set(self, field: str) -> bool:
        """Whether a field that is not known may be set all the same."""
        return field in self.open or self.launch.unresolved > 0


def settings(launch: Launch, spellings: Spellings) -> Settings:
    """What a launch sets, the last one winning; nothing that a run decides is known."""
    known: dict[str, Setting] = {}
    open_fields: set[str] = set()
    for written in launch.arguments:
        use = _use(launch, written, spellings)
        argument, meant = use.argument, use.meaning
        flag = meant.flag
        if flag is None:
            open_fields.update(other.dest for other in meant.flags)
            continue
        value = value_of(flag, argument, meant)
        if value is None or not argument.resolved or argument.conditional:
            open_fields.add(flag.dest)
        else:
            known[flag.dest] = Setting(flag, argument, value)
    for field in open_fields:
        known.pop(field, None)
    return Settings(launch, known, frozenset(open_fields))


def value_of(flag: Flag, argument: Argument, meant: Meaning) -> Value | None:
    """The value that a field gets, None where the flag's declaration does not tell.

    A switch sets what is not its default: one that is True by default is switched off, unless there
    is a ``--no-…`` form for that. Where a key gives it a truth value, a false one leaves it at its
    default.
    """
    text = argument.value
    if meant.names and meant.names[0] in flag.negation:
        return False
    if not flag.takes_value:
        if text is not None and text.lower() not in _WORDS:
            return None
        if text is not None and not _WORDS[text.lower()]:
            return flag.default == "True"
        if flag.negation:
            return True
        if any(n.lstrip("-").replace("-", "_") == flag.dest for n in flag.names):
            return flag.default != "True"
        return None
    if text is None:
        return None
    if flag.nargs not in ("", "?", "1"):
        return tuple(text.split())
    return typed(flag.type, text)


def typed(kind: str, text: str) -> str | int | float:
    """A text as the number that argparse makes of it; the text where it makes none."""
    try:
        if bare_type(kind) == "int":
            return int(text)
        if bare_type(kind) == "float":
            return float(text)
    except ValueError:
        pass
    return text


def bare_type(kind: str) -> str:
    """The type of a value that is given: ``int`` for ``Optional[int]`` and ``int | None``."""
    found = _OPTIONAL.match(kind)
    return next((part for part in found.groups() if part), kind) if found else kind


def constant(flag: Flag) -> str | None:
    """The text of a default that the declaration tells, None where it does not.

    argparse takes None where a flag with a value has no default, and False for a switch; a switch
    that is on by default says so.
    """
    if not flag.default:
        return "None" if flag.takes_value else "False"
    if not _CONSTANT.fullmatch(flag.default):
        return None
    return flag.default.strip("'\"")


def shown(argument: Argument) -> str:
    """The argument as text of a message."""
    return argument.flag if argument.value is None else f"{argument.flag} {argument.value}"


def declared(flag: Flag, note: str, side: Side = "fork") -> Evidence:
    """The line that declares a flag."""
    return Evidence(flag.path, flag.line, flag.dest, note, side)


def place(path: str, line: int, column: int = 1) -> Location:
    """A line of a script."""
    return Location(Symbol(path), line, column, line)


def reach(conditional: bool) -> tuple[Reach, str]:
    """A setting that only some runs pass is latent."""
    if conditional:
        return "latent", "only some runs of the script pass it"
    return "live", "every run of the script passes it"


def once(hits: Iterable[Hit]) -> Iterator[Hit]:
    """A line that several launches share (a loop, a function, a base) is one hit."""
    seen: set[tuple[Location, str]] = set()
    for hit in hits:
        if (hit.where, hit.anchor) not in seen:
            seen.add((hit.where, hit.anchor))
            yield hit


def listed_words(params: Mapping[str, Param], name: str) -> list[str]:
    """A parameter that is a list of texts; one text is a list of it."""
    value = params.get(name, [])
    return value if isinstance(value, list) else [str(value)]


@dataclass(frozen=True)
class Scene:
    """The launches of a run in terms of the flags of all sides."""

    params: Mapping[str, Param]
    view: ServeView
    spellings: Spellings
    others: tuple[tuple[OtherTree, Spellings], ...]

    @classmethod
    def of(cls, params: Mapping[str, Param], view: ServeView) -> Scene:
        """The scene of a run; its spellings are empty where the tree's flags are not known."""
        others = tuple((other, Spellings(other.tables.flags)) for other in view.others)
        return cls(params, view, Spellings(view.tables.flags), others)

    def uses(self) -> Iterator[Use]:
        """The arguments whose flag is known text."""
        return (
            use
            for use in uses(self.view, self.spellings)
            if readable(use.launch, use.argument)
            # Of one letter is a word that no flag has, more often than a flag.
            if len(use.argument.flag) > 2 or use.meaning.flags
        )

    def elsewhere(self, text: str) -> list[tuple[OtherTree, Flag]]:
        """The other sides that have a flag, by its exact spelling or one abbreviation."""
        rows = ((other, spellings.of(text).flag) for other, spellings in self.others)
        return [(other, flag) for other, flag in rows if flag is not None]


def hit(
    use: Use,
    anchor: str,
    message: str,
    evidence: tuple[Evidence, ...],
    fix: str,
    cause: str,
    *,
    confidence: Confidence = "high",
    rewrite: Rewrite | None = None,
) -> Hit:
    """What is wrong with one argument, at its flag."""
    argument = use.argument
    reached, why = reach(argument.conditional)
    where = place(argument.path, argument.line, argument.column)
    return Hit(where, anchor, message, evidence, confidence, reached, why, fix, cause, rewrite)


def respelled(use: Use, old: Flag | None, new: Flag | None, name: str) -> Rewrite | None:
    """Another flag in the place of one; None where the words after it would not fit both.

    The same only where both fill one field: what a value means is the flag's own matter.
    """
    if old is None or new is None or is_call(use.launch) or name not in new.names:
        return None
    if (old.takes_value, old.nargs) != (new.takes_value, new.nargs):
        return None
    return Rewrite(use.argument.flag, name, old.dest == new.dest)


def listed(names: Sequence[str], last: str = " and ") -> str:
    """Names as a sentence has them."""
    *first, end = names
    return f"{', '.join(first)}{last}{end}" if first else end
