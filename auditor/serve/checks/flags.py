"""Holds every flag of a launch against the command line of the tree that it starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated

import msgspec

from auditor.model import Argument, Confidence, Evidence, Hit, Rewrite
from auditor.rulebook import Param, Parameter, of_shapes
from auditor.serve.checks.seen import OtherTree, ServeView
from auditor.serve.checks.spellings import (
    Meaning,
    Scene,
    Use,
    declared,
    hit,
    is_call,
    listed,
    listed_words,
    once,
    respelled,
)
from auditor.serve.tables.facts import Flag


def judge(params: Mapping[str, Param], view: ServeView) -> Iterator[Hit]:
    """The flags of one shape (``params: {shape: …}``); nothing where the tree's are not known."""
    find = _SHAPES[str(params["shape"])]
    scene = Scene.of(params, view)
    if scene.spellings:
        yield from once(find(scene))


def _unknown(scene: Scene) -> Iterator[Hit]:
    """No flag of the tree, nor of a side that it came from."""
    elsewhere = _programs(listed_words(scene.params, "elsewhere"))
    yield from _misplaced(scene, elsewhere)
    for use in scene.uses():
        text = use.argument.flag
        if use.meaning.flags or _lost(scene, text):
            continue
        near = scene.spellings.nearest(text)
        later = [row for row in scene.elsewhere(text) if row[0].side == "target"]
        message, fix = _no_such_flag(scene, use.argument, near, elsewhere)
        evidence = _nearby(scene, near, later)
        if later:
            message += f"; {later[0][0].ref} has it"
            fix = f"deploy {later[0][0].ref} or newer, or take the flag out"
        confidence: Confidence = "high"
        rewrite = None
        if near and near == text.replace("_", "-") != text and not later:
            rewrite = Rewrite(text, near, True)
        if is_call(use.launch):
            # It takes fields that have no flag.
            confidence = "medium" if near else "low"
            field = text.lstrip("-").replace("-", "_")
            message = f"{field} is no setting of the audited tree that has a flag"
            message += f"; the nearest is {near[2:].replace('-', '_')}" if near else ""
            fix = f"take {field} out, or write the one that is meant"
            rewrite = None
        yield hit(
            *(use, text, message, evidence, fix, f"flag:{text}"),
            confidence=confidence,
            rewrite=rewrite,
        )


def _no_such_flag(
    scene: Scene, argument: Argument, near: str, elsewhere: Mapping[str, tuple[str, str]]
) -> tuple[str, str]:
    text = argument.flag
    message = (
        f"{text} is no flag of the audited tree: the server ends with 'unrecognized arguments'"
    )
    fix = f"take {text} out"
    program, ours = elsewhere.get(text, ("", ""))
    meant = scene.spellings.of(ours).flag if ours else None
    if "_" in text and near and near == text.replace("_", "-"):
        return f"{message}; flags are written with dashes", f"write {near}"
    if program:
        message += f"; it belongs to {program}"
        if meant is not None:
            return f"{message}, and {ours} is what this server has", f"write {ours}"
        return message, fix
    if near:
        return (
            f"{message}; the nearest is {near}",
            f"write {near} if that is meant; else take {text} out",
        )
    return message, fix


def _misplaced(scene: Scene, elsewhere: Mapping[str, tuple[str, str]]) -> Iterator[Hit]:
    """Flags of a sibling program after ``sglang serve``, which other flags made a diffusion one."""
    own = {text for text, (_, ours) in elsewhere.items() if ours.startswith("python -m ")}
    for launch in scene.view.launches:
        if launch.program != "diffusion" or not launch.command.endswith("sglang serve"):
            continue
        for argument in launch.arguments:
            text = argument.flag
            if text not in own or scene.spellings.of(text).flags:
                continue
            program, ours = elsewhere[text]
            message = f"{text} is no flag of a server: it belongs to {program} ({ours})"
            use = Use(launch, argument, scene.spellings.of(text))
            evidence = _nearby(scene, "", [])
            yield hit(use, text, message, evidence, f"start {ours} with it", f"flag:{text}")


def _programs(rows: list[str]) -> dict[str, tuple[str, str]]:
    """``program: --their-flag --our-flag`` by their flag; what stands for ours may be left out."""
    found: dict[str, tuple[str, str]] = {}
    for row in rows:
        program, _, rest = row.partition(": ")
        theirs, _, ours = rest.strip().partition(" ")
        found[theirs] = (program, ours)
    return found


def _nearby(scene: Scene, near: str, later: list[tuple[OtherTree, Flag]]) -> tuple[Evidence, ...]:
    rows: list[Evidence] = []
    flag = scene.spellings.of(near).flag if near else None
    if flag is not None:
        rows.append(declared(flag, f"declares {near}"))
    else:
        model = scene.spellings.field("model_path") or scene.view.tables.flags[0]
        note = f"declares {model.names[0]}; of the tree's {len(scene.spellings)} flags it is none"
        rows.append(declared(model, note))
    rows += [
        declared(flag, f"{other.ref} declares {flag.names[0]}", other.side) for other, flag in later
    ]
    return tuple(rows)


def _lost(scene: Scene, text: str) -> list[tuple[OtherTree, Flag]]:
    """The sides that the tree came from which have the flag."""
    return [row for row in scene.elsewhere(text) if row[0].side != "target"]


def _removed(scene: Scene) -> Iterator[Hit]:
    """No flag of the tree, but one of upstream's."""
    for use in scene.uses():
        text = use.argument.flag
        rows = _lost(scene, text) if not use.meaning.flags else []
        if not rows:
            continue
        other, flag = rows[0]
        replacement = _replacement(scene, text, [f for _, f in rows])
        message = f"{text} is a flag of {other.ref}, but not of the audited tree, which ends with"
        message += " 'unrecognized arguments'"
        fix = f"take {text} out, or deploy a tree that has it"
        if flag.deprecated:
            message += f"; {other.ref} already calls it deprecated"
        if replacement:
            message += f"; {replacement} takes its place"
            fix = f"write {replacement}"
        evidence = [
            declared(flag, f"{other.ref} declares {flag.names[0]}", other.side)
            for other, flag in rows
        ]
        now = scene.spellings.of(replacement).flag if replacement else None
        if now is not None:
            evidence.append(declared(now, f"declares {replacement}"))
        yield hit(
            *(use, text, message, tuple(evidence), fix, f"flag:{text}"),
            rewrite=respelled(use, flag, now, replacement),
        )


def _replacement(scene: Scene, text: str, flags: list[Flag]) -> str:
    """What is said to replace a flag: by the side that has it, or by a flag of the tree."""
    for flag in flags:
        named = scene.spellings.of(flag.replacement).flag if flag.replacement else None
        if named is not None:
            return flag.replacement
        field = scene.spellings.field(flag.dest)
        if field is not None:
            return field.names[0]
    mention = scene.spellings.mentions(text)
    return mention.names[0] if mention is not None else ""


def _deprecated(scene: Scene) -> Iterator[Hit]:
    """A flag that still works and will not for long."""
    for use in scene.uses():
        flag = use.meaning.flag
        if flag is None or not flag.deprecated or flag.refused:
            continue
        text = use.argument.flag
        gone = [
            other
            for other, spellings in scene.others
            if other.side == "target" and spellings and not spellings.of(text).flag
        ]
        message = f"{text} is deprecated"
        fix = f"take {text} out before the next upgrade"
        if flag.replacement:
            message += f" in favour of {flag.replacement}"
            fix = f"write {flag.replacement}"
        elif flag.deprecated:
            message += f": {_short(flag.deprecated)}"
        if gone:
            message += f"; {gone[0].ref} no longer has it"
        evidence = [declared(flag, f"declares {flag.names[0]} as deprecated")]
        instead = scene.spellings.of(flag.replacement).flag if flag.replacement else None
        if instead is not None:
            evidence.append(declared(instead, f"declares {flag.replacement}"))
        rewrite = respelled(use, flag, instead, flag.replacement) if use.meaning.exact else None
        found = hit(
            *(use, text, message, tuple(evidence), fix, f"flag:{text}"),
            rewrite=rewrite,
        )
        if not gone and found.reach == "live":
            found = _latent(found, "it works in the audited tree and ends with a later one")
        yield found


def _refused(scene: Scene) -> Iterator[Hit]:
    """A flag that is declared only to end with an error."""
    for use in scene.uses():
        flag = use.meaning.flag
        if flag is None or not flag.refused:
            continue
        text = use.argument.flag
        message = f"{text} is declared only to refuse it: the server ends at once"
        if flag.deprecated:
            message += f" ({_short(flag.deprecated)})"
        fix = f"write {flag.replacement}" if flag.replacement else f"take {text} out"
        evidence = (declared(flag, f"refuses {flag.names[0]}"),)
        yield hit(use, text, message, evidence, fix, f"flag:{text}")


def _ambiguous(scene: Scene) -> Iterator[Hit]:
    """An abbreviation of several flags."""
    for use in scene.uses():
        if len(use.meaning.flags) < 2:
            continue
        text, names = use.argument.flag, use.meaning.names
        rows = [row for row in scene.elsewhere(text) if text in row[1].names]
        message = f"{text} is no flag of the audited tree and abbreviates several: "
        message += f"{listed(names)}; argparse ends with 'ambiguous option'"
        if rows:
            message += f"; in {rows[0][0].ref} it is a flag of its own"
        replacement = _replacement(scene, text, [flag for _, flag in rows]) if rows else ""
        fix = f"write {replacement}" if replacement else f"write out {listed(names, ' or ')}"
        evidence = [declared(flag, f"declares {flag.names[0]}") for flag in use.meaning.flags[:6]]
        evidence += [
            declared(flag, f"{other.ref} declares {text}", other.side) for other, flag in rows
        ]
        yield hit(use, text, message, tuple(evidence), fix, f"flag:{text}")


def _abbreviation(scene: Scene) -> Iterator[Hit]:
    """An abbreviation that another side takes for another flag."""
    for use in scene.uses():
        flag, text = use.meaning.flag, use.argument.flag
        if flag is None or use.meaning.exact:
            continue
        for other, spellings in scene.others:
            theirs = spellings.of(text)
            if not theirs.flags or _same(flag, theirs):
                continue
            what = "abbreviates several flags" if len(theirs.flags) > 1 else "means"
            message = f"{text} abbreviates {flag.names[0]} here; in {other.ref} it {what}"
            message += f" {listed(theirs.names)}" if len(theirs.flags) == 1 else ""
            evidence = (
                declared(flag, f"declares {flag.names[0]}"),
                declared(theirs.flags[0], f"declares {theirs.names[0]}", other.side),
            )
            fix = f"write {flag.names[0]} if that is meant"
            yield hit(use, text, message, evidence, fix, f"flag:{text}")
            break


def _same(flag: Flag, theirs: Meaning) -> bool:
    other = theirs.flag
    if other is None:
        return False
    return other.dest == flag.dest or not set(other.names).isdisjoint(flag.names)


def _latent(found: Hit, why: str) -> Hit:
    return msgspec.structs.replace(found, reach="latent", reach_reason=why)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 160 else f"{line[:159]}…"


_SHAPES: dict[str, Callable[[Scene], Iterator[Hit]]] = {
    "unknown": _unknown,
    "removed": _removed,
    "deprecated": _deprecated,
    "refused": _refused,
    "ambiguous": _ambiguous,
    "abbreviation": _abbreviation,
}

_Elsewhere = Annotated[str, msgspec.Meta(pattern=r"^[^:]+: --\S+( .+)?$")]

PARAMETERS = of_shapes(
    _SHAPES, elsewhere=Parameter(_Elsewhere | list[_Elsewhere], shapes=("unknown",))
)
