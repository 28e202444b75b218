"""Holds the values of a launch's flags against what the tree declares of them."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

from auditor.model import Argument, Evidence, Hit, Launch
from auditor.rulebook import Param, Parameter, Texts, of_shapes
from auditor.serve.checks.argv import deal
from auditor.serve.checks.seen import ServeView
from auditor.serve.checks.spellings import (
    SAID,
    Scene,
    Use,
    bare_type,
    declared,
    from_config,
    hit,
    is_call,
    is_key,
    listed,
    listed_words,
    once,
    shown,
    value_of,
)
from auditor.serve.tables.facts import Flag

_MOST_CHOICES = 12
# Any other callable makes something else of the text before it is held against the choices.
_PLAIN_TYPES = re.compile(r"(?:str|int|float|)$|(?:typing\.)?(?:Literal|List)\[|list\[")
# A flag given twice in these is given twice in one list; a shell hands overrides on in "$@".
_KINDS = {"int": "a whole number", "float": "a number"}
# Text that a run or a reader still has to fill in.
_OPEN = re.compile(r"[$`]|<[^<>]*>|[{][{]|[{][\w.]*[}]|[.]{3}|…")
_LONGEST = 80
_WHOLE_NOTATIONS = frozenset({"yaml", "recipe", "dockerfile", "python", "systemd"})


def judge(params: Mapping[str, Param], view: ServeView) -> Iterator[Hit]:
    """The values of one shape (``params: {shape: …}``); nothing where no flags are known."""
    find = _SHAPES[str(params["shape"])]
    scene = Scene.of(params, view)
    if scene.spellings:
        yield from once(find(scene))


def _twice(scene: Scene) -> Iterator[Hit]:
    """One field set to two values, the first of which is lost without a word."""
    for launch, group in groupby(scene.uses(), key=lambda use: use.launch):
        first: dict[str, Use] = {}
        for use in group:
            flag = use.meaning.flag
            if flag is None or flag.repeatable or not _certain(use.argument):
                continue
            before = first.get(flag.dest)
            first[flag.dest] = use
            if before is None or _handed_on(launch, before.argument, use.argument):
                continue
            values = [
                value_of(flag if u is use else (u.meaning.flag or flag), u.argument, u.meaning)
                for u in (before, use)
            ]
            if None in values or values[0] == values[1]:
                continue
            old, new = shown(before.argument), shown(use.argument)
            message = f"{new} replaces {old} of line {before.argument.line} without a word"
            place_before = before.argument
            evidence = (
                Evidence(place_before.path, place_before.line, "", f"sets {old}"),
                declared(flag, f"declares {flag.names[0]}: the last one counts"),
            )
            fix = f"keep one of the two; {new} is what runs"
            yield hit(use, f"{old}, {new}", message, evidence, fix, f"twice:{flag.dest}")


def _certain(argument: Argument) -> bool:
    return argument.resolved and not argument.conditional


def _handed_on(launch: Launch, before: Argument, after: Argument) -> bool:
    """Whether the later one comes from outside the command: ``"$@"`` is there to override."""
    if after.path != before.path:
        return True  # as the command line overrides the file that --config names
    if launch.form in _WHOLE_NOTATIONS or from_config(launch, after):
        return False
    if after.path != launch.path:
        return True
    end = launch.line
    for line in sorted({a.line for a in launch.arguments if a.path == launch.path}):
        if end < line <= end + 1:
            end = line
    return after.line > end


def _choice(scene: Scene) -> Iterator[Hit]:
    """A value that the flag does not offer."""
    skipped = frozenset(listed_words(scene.params, "except_fields"))
    for use in scene.uses():
        flag, argument = use.meaning.flag, use.argument
        if flag is None or flag.choices is None or flag.dest in skipped or flag.refused:
            continue
        if (
            not argument.resolved
            or argument.value is None
            or not _PLAIN_TYPES.match(bare_type(flag.type))
        ):
            continue
        values = [argument.value] if flag.nargs in ("", "?") else argument.value.split()
        for value in values:
            if _offered(flag, value) or _OPEN.search(value):
                continue
            yield _not_offered(scene, use, flag, value)


def _offered(flag: Flag, value: str) -> bool:
    choices = flag.choices or ()
    if value in choices or value in flag.conditional_choices:
        return True
    if bare_type(flag.type) not in ("int", "float"):
        return False
    try:
        return any(float(choice) == float(value) for choice in choices)
    except ValueError:
        return False


def _not_offered(scene: Scene, use: Use, flag: Flag, value: str) -> Hit:
    choices = flag.choices or ()
    text = use.argument.flag
    near = difflib.get_close_matches(value, choices, n=1, cutoff=0.6)
    rows = [
        (other, theirs)
        for other, theirs in scene.elsewhere(text)
        if theirs.choices is not None and value in theirs.choices
    ]
    offers = listed(choices[:_MOST_CHOICES])
    if len(choices) > _MOST_CHOICES:
        offers += f" and {len(choices) - _MOST_CHOICES} more"
    message = f"{text} does not take {value!r}; the audited tree offers {offers}"
    fix = f"write {near[0]!r} if that is meant" if near else "choose one of those"
    if rows:
        message += f"; {rows[0][0].ref} has {value!r}"
        fix += f", or deploy {rows[0][0].ref}"
    evidence = (
        declared(flag, f"declares {flag.names[0]} with {len(choices)} choices"),
        *(declared(theirs, f"{other.ref} offers {value}", other.side) for other, theirs in rows),
    )
    return hit(use, f"{text} {value}", message, evidence, fix, f"choice:{flag.dest}:{value}")


def _switch(scene: Scene) -> Iterator[Hit]:
    """A value after a flag that takes none."""
    for use in scene.uses():
        flag, argument = use.meaning.flag, use.argument
        if flag is None or flag.takes_value or argument.value is None or not argument.resolved:
            continue
        boolean = argument.value.lower() in SAID
        # Several words may be anything that the reader could not tell from a value.
        if not argument.joined and (not boolean or is_key(use.launch, argument)):
            continue
        says = "'unrecognized arguments'"
        if argument.joined:
            says = "'ignored explicit argument'"
        message = f"{argument.flag} is a switch, and argparse ends with {says} at its value "
        message += repr(argument.value)
        off = argument.value.lower() in ("false", "0", "no", "off")
        fix = f"take {argument.flag} out" if off else f"write {argument.flag} alone"
        if off and flag.negation:
            fix = f"write {flag.negation[0]}"
        evidence = (declared(flag, f"declares {flag.names[0]} without a value"),)
        yield hit(use, shown(argument), message, evidence, fix, f"switch:{flag.dest}")


def _valueless(scene: Scene) -> Iterator[Hit]:
    """A flag that ends before its value."""
    for launch in scene.view.launches:
        if launch.program != "server" or launch.form == "recipe" or is_call(launch):
            continue
        for short in deal(launch, scene.spellings).short:
            flag, word = short.flag, short.word
            name = word.text.partition("=")[0]
            wants = "at least one argument" if flag.nargs == "+" else "one argument"
            if short.needed > 1:
                wants = f"{short.needed} arguments"
            has = "no value" if not short.given else f"{short.given} of its values"
            message = f"{name} has {has}, and argparse ends with 'expected {wants}'"
            evidence = (declared(flag, f"declares {flag.names[0]} with a value"),)
            fix = f"give {name} {'a value' if short.needed == 1 else wants}, or take it out"
            argument = Argument(name, None, word.path, word.line, word.column)
            use = Use(launch, argument, scene.spellings.of(name))
            yield hit(use, name, message, evidence, fix, f"valueless:{flag.dest}")


def _kind(scene: Scene) -> Iterator[Hit]:
    """A value that the type of its flag does not read."""
    for use, flag, value in _read(scene):
        if flag.reads == "json" or _is_number(flag.reads, value) or _takes(scene, flag, value):
            continue
        kind = _KINDS[flag.reads]
        text = use.argument.flag
        message = f"{text} takes {kind}, and argparse ends with 'invalid value' at {value!r}"
        evidence = (declared(flag, f"declares {flag.names[0]} with the type {flag.type}"),)
        fix = f"write {kind}"
        yield hit(use, f"{text} {value}", message, evidence, fix, f"kind:{flag.dest}:{value}")


def _json(scene: Scene) -> Iterator[Hit]:
    """A value that is no JSON where the tree reads it as such."""
    for use, flag, value in _read(scene):
        if flag.reads != "json":
            continue
        try:
            json.loads(value)
        except ValueError as problem:
            text = use.argument.flag
            message = f"{text} takes JSON, and argparse ends with 'invalid value' at "
            message += f"{_cut(value)}: {problem}"
            evidence = (declared(flag, f"declares {flag.names[0]} with the type {flag.type}"),)
            fix = "write JSON, in single quotes where a shell reads the line"
            yield hit(use, f"{text} {value}", message, evidence, fix, f"json:{flag.dest}")
        except RecursionError:
            continue


def _read(scene: Scene) -> Iterator[tuple[Use, Flag, str]]:
    """The words that a type reads, of which no part is open."""
    for use in scene.uses():
        if use.launch.form == "recipe":
            continue  # what makes a command line of it may read an expression or a list
        flag, argument = use.meaning.flag, use.argument
        if flag is None or not flag.reads or flag.refused or is_call(use.launch):
            continue
        if argument.value is None or not argument.resolved:
            continue
        if not argument.value and argument.conditional:
            continue  # of a run in which something unknown is guessed to be empty
        values: Sequence[str] = argument.words or (argument.value,)
        if flag.nargs not in ("", "?", "1") and argument.conditional:
            values = argument.value.split()  # of alternatives the words are not known
        key = is_key(use.launch, argument)
        for value in values:
            if _OPEN.search(value) or (key and value.lower() in SAID):
                continue
            if argument.conditional and " " in value:
                continue
            yield use, flag, value


def _is_number(kind: str, text: str) -> bool:
    try:
        int(text) if kind == "int" else float(text)
    except ValueError:
        return False
    return True


def _takes(scene: Scene, flag: Flag, value: str) -> bool:
    """Whether a text is none of a number's, but one that the type takes all the same."""
    patterns = tuple(f"^((?:{pattern}))$" for pattern in flag.patterns)
    answers = scene.view.templates.groups(patterns, value.strip())
    return len(answers) < len(patterns) or any(answers)


def _cut(value: str) -> str:
    return repr(value if len(value) <= _LONGEST else value[:_LONGEST] + "…")


_SHAPES: dict[str, Callable[[Scene], Iterator[Hit]]] = {
    "twice": _twice,
    "choice": _choice,
    "switch": _switch,
    "valueless": _valueless,
    "kind": _kind,
    "json": _json,
}

PARAMETERS = of_shapes(_SHAPES, except_fields=Parameter(Texts, shapes=("choice",)))
