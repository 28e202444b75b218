"""Makes one launch of what several runs of a script start at one place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from auditor.model import Argument, Launch, Passed, Variable
from auditor.serve.scripts.command import model_of, role_of

T = TypeVar("T", Argument, Passed)


def merged(launches: Sequence[tuple[Launch, tuple[str, ...]]], joined: bool) -> Launch:
    """One launch of those that runs make; beside each stands what its run is one of.

    An argument that not every run passes is conditional, but for those runs in which the caller of
    the script gives another value in its place: what the script itself holds is what it runs with.
    """
    vectors: dict[tuple[Argument, ...], tuple[str, ...]] = {}
    for launch, when in launches:
        known = vectors.get(launch.arguments)
        if known is None or len(when) < len(known):
            vectors[launch.arguments] = when
    first = launches[0][0]
    environments = list(dict.fromkeys(launch.environment for launch, _ in launches))
    environment = first.environment if len(environments) == 1 else _variables(environments)
    # What the script holds itself comes before what its caller may give instead.
    vectors = dict(sorted(vectors.items(), key=lambda row: sum(map(_is_given, row[0]))))
    arguments, worlds = _arguments(list(vectors))
    return msgspec.structs.replace(
        first,
        arguments=arguments,
        environment=environment,
        words=_words(list(dict.fromkeys(launch.words for launch, _ in launches))),
        worlds=worlds,
        when=tuple(" and ".join(when) if len(vectors) > 1 else "" for when in vectors.values()),
        joined=joined,
        role=role_of(arguments),
        model=model_of(arguments),
        unresolved=max(launch.unresolved for launch, _ in launches),
        pins=tuple(dict.fromkeys(pin for launch, _ in launches for pin in launch.pins)),
        mounts=tuple(dict.fromkeys(each for launch, _ in launches for each in launch.mounts)),
        folder=first.folder if len({launch.folder for launch, _ in launches}) == 1 else "",
    )


def _arguments(
    vectors: Sequence[tuple[Argument, ...]],
) -> tuple[tuple[Argument, ...], tuple[tuple[int, ...], ...]]:
    """The arguments of all runs in their order, and which of them each run passes."""
    order, where = _ordered(vectors)
    worlds = [tuple(where[item] for item in _numbered(vector)) for vector in vectors]
    arguments = tuple(
        msgspec.structs.replace(
            argument, conditional=argument.conditional or not _certain(number, order, worlds)
        )
        for number, (argument, _) in enumerate(order)
    )
    return arguments, tuple(worlds)


def _words(vectors: Sequence[tuple[Passed, ...]]) -> tuple[Passed, ...]:
    """The words of all runs in their order; those that not every run passes are conditional."""
    order, where = _ordered(vectors)
    worlds = [{where[item] for item in _numbered(vector)} for vector in vectors]
    return tuple(
        word
        if all(number in world for world in worlds)
        else msgspec.structs.replace(word, conditional=True)
        for number, (word, _) in enumerate(order)
    )


def _ordered(
    vectors: Sequence[tuple[T, ...]],
) -> tuple[list[tuple[T, int]], dict[tuple[T, int], int]]:
    """What any of several runs passes, in one order that fits them all, and the place of each."""
    order: list[tuple[T, int]] = []
    for vector in vectors:
        items = _numbered(vector)
        at = 0
        for number, item in enumerate(items):
            if item in order:
                at = max(at, order.index(item) + 1)
                continue
            # Right before what this run passes next: alternatives follow each other.
            known = (order.index(other, at) for other in items[number + 1 :] if other in order[at:])
            at = next(known, len(order))
            order.insert(at, item)
            at += 1
    return order, {item: number for number, item in enumerate(order)}


def _is_given(argument: Argument) -> bool:
    return argument.outside and not argument.resolved


def _numbered(vector: Iterable[T]) -> list[tuple[T, int]]:
    """Arguments with their number among equal ones of a run."""
    seen: dict[T, int] = {}
    found: list[tuple[T, int]] = []
    for item in vector:
        seen[item] = seen.get(item, -1) + 1
        found.append((item, seen[item]))
    return found


def _place(argument: Argument) -> tuple[str, str, int, int]:
    return argument.flag, argument.path, argument.line, argument.column


def _certain(
    number: int, order: Sequence[tuple[Argument, int]], worlds: Sequence[tuple[int, ...]]
) -> bool:
    own = order[number][0]
    given = {
        other
        for other, (argument, _) in enumerate(order)
        if _is_given(argument) and _place(argument) == _place(own)
    }
    if _is_given(own) or not own.value:
        return all(number in world for world in worlds)
    return all(number in world or not given.isdisjoint(world) for world in worlds)


def _variables(environments: Sequence[tuple[Variable, ...]]) -> tuple[Variable, ...]:
    """The variables of all runs; what not every run has is conditional."""
    every = dict.fromkeys(variable for each in environments for variable in each)
    return tuple(
        msgspec.structs.replace(
            variable,
            conditional=variable.conditional or not all(variable in each for each in environments),
        )
        for variable in every
    )
