"""The JSON of ``audit history``: its schema, and what arrives in it."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from auditor.formats.text import Screen
from auditor.formats.timeline import SCHEMA_FILE, render, schema
from auditor.model import Lifetime, Release, Repair, Skipped, Symbol, Timeline

from .sample import POOL, finding

OLD = Symbol("python/sglang/srt/old.py", "OldPool.get_k")


def timeline(*lives: Lifetime, **changes: Any) -> Timeline:
    plain: dict[str, Any] = {
        "tool_version": "0.1.0",
        "releases": (
            Release("v0.5.9", "revision", "1f" * 20, 2210, 212, 1),
            Release("pypi:0.5.10", "release", None, 2215, 0, 0),
        ),
        "lifetimes": lives,
        "skipped": (Skipped("fork", "v0.5.9: a\udce9.py", "scan", "line 3: invalid syntax"),),
        "notes": ("pypi:0.5.10 holds no Python file that could be read",),
        "configuration": {"upstream": "v0.5.9 (command line)"},
        "timings": {"releases": 1.0},
        "hidden": 2,
    }
    return Timeline(**{**plain, **changes})


def full() -> Timeline:
    ended = Lifetime(
        finding(),
        *("v0.5.9", "came with the symbol", "v0.5.9", "pypi:0.5.10", "it waits"),
        (OLD,),
        Repair("16" * 20, "2026-04-17T09:52:13+08:00", "wait \x1b[31m"),
    )
    return timeline(ended, Lifetime(finding(line=12), "v0.5.9", "", "pypi:0.5.10"))


def parsed(value: Timeline) -> dict[str, Any]:
    return json.loads(render("json", value, 3, Screen()))  # type: ignore[no-any-return]


def shipped_schema() -> dict[str, Any]:
    return json.loads(SCHEMA_FILE.read_text())  # type: ignore[no-any-return]


@pytest.mark.parametrize("value", [timeline(skipped=(), notes=(), configuration={}), full()])
def test_every_timeline_keeps_to_the_shipped_schema(value: Timeline) -> None:
    jsonschema.Draft202012Validator.check_schema(shipped_schema())
    jsonschema.validate(parsed(value), shipped_schema(), jsonschema.Draft202012Validator)


def test_the_shipped_schema_is_that_of_the_code() -> None:
    assert shipped_schema() == json.loads(schema()), (
        'regenerate: python -c "from auditor.formats.timeline import schema;'
        " print(schema(), end='')\""
    )


@pytest.mark.parametrize(
    "place", [(), ("releases", 0), ("findings", 0), ("findings", 0, "names", 0), ("summary",)]
)
def test_the_schema_refuses_a_key_that_is_not_of_the_contract(place: tuple[Any, ...]) -> None:
    document = parsed(full())
    node: Any = document
    for step in place:
        node = node[step]
    node["surplus"] = 1
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, shipped_schema(), jsonschema.Draft202012Validator)


@pytest.mark.parametrize("key", ["schema", "releases", "findings", "skipped", "summary", "tool"])
def test_the_schema_wants_every_key_of_the_contract(key: str) -> None:
    document = parsed(full())
    del document[key]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, shipped_schema(), jsonschema.Draft202012Validator)


def test_values_arrive() -> None:
    document = parsed(full())
    assert document["schema"] == "audit-history/1"
    first, second = document["findings"]
    assert (first["path"], first["line"], first["last"]) == (POOL, 1811, "v0.5.9")
    assert (first["ended"], first["ended_reason"]) == ("pypi:0.5.10", "it waits")
    assert first["ended_by"]["sha"] == "16" * 20
    assert first["names"] == [{"symbol": OLD.qualname, "path": OLD.path}]
    assert (second["ended"], second["ended_by"]) == (None, None)
    summary = document["summary"]
    assert (summary["exit_status"], summary["findings"], summary["ended"]) == (3, 2, 1)
    assert summary["hidden"] == 2
