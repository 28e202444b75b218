"""Keeps conditions for later runs, with all that they rest on.

Of a fork that changed a few files since they can be used again where what was read of these files
is as it was, wherever in them it now stands.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from auditor.deployment.needs import Alternatives, Grounds, Need, Needs, Place, Seen, needs_of
from auditor.deployment.words import WAYS, Way, of_server
from auditor.serve.tables.modules import Tree
from auditor.source.results import ResultStore, content_key
from auditor.source.statements import cut, words


class Kept(msgspec.Struct, frozen=True):
    """The conditions of places, and what they rest on.

    ``digests`` tell the contents of the tree's files apart; ``seen`` are the pieces that were read.
    """

    digests: dict[str, bytes]
    where: list[tuple[Way, str, tuple[str, ...]]]
    texts: dict[str, frozenset[str]]
    whole: frozenset[str]
    seen: dict[str, list[Seen]]
    needs: list[tuple[Place, Needs]]


def conditions(
    sources: Mapping[str, bytes],
    digests: Mapping[str, bytes],
    arming: Collection[str],
    places: Collection[Place],
    cache: Path | None,
    alone: bool,
) -> Callable[[], dict[Place, Needs]]:
    """The conditions of places of a tree, as an earlier run found them or anew.

    They are begun at once, and waited for when the outcome is called for. ``digests`` tell the
    contents of the tree's files apart. ``arming`` are the names of the methods that put something
    in a gate's place. ``alone`` asks for no second process.
    """
    if not places:
        return dict
    tree = Tree(sources, sources.get)
    store = ResultStore(cache, Kept)
    rows = sorted(places, key=msgspec.json.encode)
    key = content_key(["conditions", *sorted(arming), *map(msgspec.json.encode, rows)], ())
    kept = store.load(key)
    known = still(kept, tree, digests) if kept is not None else None
    if known is not None:
        return known.copy
    begun = needs_of(tree, arming, rows, alone=alone)

    def outcome() -> dict[Place, Needs]:
        found, grounds = begun()
        store.save(key, keep(digests, found, grounds))
        return found

    return outcome


def keep(digests: Mapping[str, bytes], found: Mapping[Place, Needs], grounds: Grounds) -> Kept:
    """What is to be kept of conditions that were found."""
    return Kept(
        dict(digests),
        [(way, name, paths) for (way, name), paths in grounds.where.items()],
        grounds.texts,
        grounds.whole,
        {path: sorted(pieces) for path, pieces in grounds.pieces.items()},
        list(found.items()),
    )


def still(kept: Kept, tree: Tree, digests: Mapping[str, bytes]) -> dict[Place, Needs] | None:
    """The conditions at the lines of a tree as it is now; None where they may be others."""
    if digests.keys() != kept.digests.keys():
        return None  # an import may lead elsewhere
    changed = sorted(path for path, digest in digests.items() if kept.digests[path] != digest)
    if not kept.whole.isdisjoint(changed):
        return None
    server = set(of_server(changed))
    moved: dict[str, list[tuple[Seen, Seen]]] = {}
    for path in changed:
        data = tree.content(path) or b""
        if path in server:
            held = words(data)
            for way, name, paths in kept.where:
                if (name.encode() in held and WAYS[way](data, name)) is not (path in paths):
                    return None
        if path in kept.seen:
            before, after = kept.seen[path], _seen(data, kept.texts[path])
            if [row.digest for row in before] != [row.digest for row in after]:
                return None
            moved[path] = list(zip(before, after, strict=True))
    try:
        return {place: _moved(needs, moved) for place, needs in kept.needs}
    except LookupError:
        return None


def _seen(data: bytes, texts: Collection[str]) -> list[Seen]:
    """The pieces of a file that hold a text, and the classes that these are of."""
    found = {piece for piece in cut(data) if any(map(piece.holds, texts))}
    return sorted(map(Seen.of, found | {p.shell for p in found if p.shell is not None}))


def _moved(needs: Needs, moved: Mapping[str, Sequence[tuple[Seen, Seen]]]) -> Needs:
    def need(row: Need) -> Need:
        if row.path not in moved:
            return row
        return msgspec.structs.replace(row, line=_line(row.line, moved[row.path]))

    def alternatives(rows: Alternatives) -> Alternatives:
        return tuple(tuple(map(need, row)) for row in rows)

    return Needs(alternatives(needs.armed), alternatives(needs.made))


def _line(line: int, rows: Sequence[tuple[Seen, Seen]]) -> int:
    """Where a line of a piece now stands; a LookupError where that is not certain."""
    for before, after in reversed(rows):  # what a class defines comes after the class
        if before.start <= line < before.start + before.height:
            if before.height != after.height:
                break
            return line - before.start + after.start
    raise LookupError(line)
