"""Whether the settings said to arm each finding are the right ones, against a tree read by hand.

    python -m tests.benchmarks.arming 0.5.12 0.5.18 0.5.23
    python -m tests.benchmarks.arming 0.5.23=/path/to/tree …

Each release is audited against itself. The truth says for each release the ways in which a gate
gets its counter, as settings, and for each finding which of them are for its pool and what must be
so for the pool to be made. A finding is right when the first of its alternatives is the first way,
each alternative is one of its ways (or a tolerated one), has all words of how the pool is made, and
no other flag or variable. What the report calls ``other`` is not a setting and not compared, but
where the truth asks for its words.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.audits import GATES, audit
from tests.benchmarks.releases import trees

TRUTH = Path(__file__).with_name("data") / "arming.json"

Condition = Mapping[str, Any]


def faults(
    alternatives: Sequence[Sequence[Condition]],
    place: Mapping[str, Any],
    ways: Mapping[str, Mapping[str, Any]],
) -> list[str]:
    """What is wrong with the conditions of one finding; empty where they are right."""
    if not alternatives:
        return ["says nothing"]
    found = []
    names = [*place["ways"], *place.get("tolerated", ())]
    wanted = {name: frozenset(ways[name]["settings"]) for name in names}
    seen: set[str] = set()
    for conditions in alternatives:
        texts = [str(condition["text"]) for condition in conditions]
        shown = " & ".join(texts)
        made = [words for words in place["made"] if all(_among(word, texts) for word in words)]
        if not made:
            found.append(f"lacks how the pool is made: {shown}")
            continue
        settings = {str(c["text"]) for c in conditions if c["kind"] in ("flag", "variable")}
        settings -= {word for words in place["made"] for word in words}
        by = [name for name in names if wanted[name] == settings]
        if not by:
            found.append(f"is no way: {shown}")
        seen.update(by)
    if place["ways"][0] not in seen:
        found.append(f"lacks {place['ways'][0]}")
    return found


def _among(word: str, texts: Sequence[str]) -> bool:
    return any(word.lower() in text.lower() for text in texts)


def judge(
    document: Mapping[str, Any], truth: Mapping[str, Any]
) -> tuple[dict[tuple[str, str], list[str]], list[str]]:
    """The faults by reach and symbol of each finding that the truth has, and what it lacks."""
    places = {place["symbol"]: place for place in truth["places"]}
    judged: dict[tuple[str, str], list[str]] = {}
    unknown: list[str] = []
    for finding in document["findings"]:
        if finding["rule"] not in GATES:
            continue
        symbol = finding["symbol"]
        if symbol not in places:
            unknown.append(symbol)
            continue
        ours = finding["deployment"] or {"conditions": []}
        judged[finding["reach"], symbol] = faults(ours["conditions"], places[symbol], truth["ways"])
    return judged, unknown


def main() -> None:
    """Prints what is wrong, and how many are right of each release."""
    parser = argparse.ArgumentParser(description="Are the settings that arm a finding right?")
    parser.add_argument("releases", nargs="+", metavar="VERSION[=DIR]")
    truth = json.loads(TRUTH.read_text())
    for version, tree in trees(parser.parse_args().releases).items():
        document = audit(tree, str(tree), "--min-confidence", "low")
        judged, unknown = judge(document, truth[version])
        for (reach, symbol), wrong in judged.items():
            for fault in wrong:
                print(f"  {version} {reach} {symbol}: {fault}")
        for symbol in unknown:
            print(f"  {version} {symbol}: not in the truth, read it")
        live = [wrong for (reach, _), wrong in judged.items() if reach == "live"]
        print(
            f"{version}: {sum(not wrong for wrong in live)} of {len(live)} live,"
            f" {sum(not wrong for wrong in judged.values())} of {len(judged)} in all"
        )


if __name__ == "__main__":
    main()
