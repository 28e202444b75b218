"""The JSON Schema of ``audit.toml`` allows and refuses what the settings do."""

from __future__ import annotations

import datetime
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from auditor.cli.schema import SCHEMA_FILE, schema
from auditor.config import OPTIONS, settle
from auditor.errors import UsageProblem
from auditor.formats import NAMES
from auditor.model import ORIGINS, SEVERITIES
from auditor.triage.ignores import KEYS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
SHIPPED = json.loads(SCHEMA_FILE.read_text())
VALIDATOR = jsonschema.Draft7Validator(SHIPPED)


def shown(value: Any) -> Any:
    """What an editor hands to a validator: dates are told as text."""
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shown(item) for item in value]
    return value.isoformat() if isinstance(value, (datetime.date, datetime.time)) else value


def toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return json.dumps(value)


def allowed(text: str) -> bool:
    return VALIDATOR.is_valid(shown(tomllib.loads(text)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A fork, and beside its configuration what a value may name as a folder."""
    for name in ("fork", "a", "b", "a,b", "tools/audit-rules"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def taken(folder: Path, text: str) -> bool:
    """Whether the settings take a configuration that the user names."""
    file = folder / "audit.toml"
    file.write_text(text, encoding="utf-8")
    try:
        settle({}, folder / "fork", file)
    except UsageProblem:
        return False
    return True


def test_the_shipped_schema_is_that_of_the_settings() -> None:
    jsonschema.Draft7Validator.check_schema(SHIPPED)
    assert SCHEMA_FILE.read_text() == schema(), (
        'regenerate: python -c "from auditor.cli.schema import schema;'
        " print(schema(), end='')\" >auditor/cli/audit-toml.schema.json"
    )
    assert list(SHIPPED["properties"]) == list(OPTIONS)
    assert all(len(value["description"]) > 20 for value in SHIPPED["properties"].values())
    [table] = [
        kind
        for kind in SHIPPED["properties"]["ignore"]["anyOf"][1]["items"]["anyOf"]
        if kind["type"] == "object"
    ]
    assert list(table["properties"]) == list(KEYS)


TEXTS = ["a", " a ", "", " ", "\t\n", "a,b", "a,,b", ",", " , ", "a\0", "\0", "a\nb", "ü漢"]
WORDS = [
    *(*SEVERITIES, "never", *ORIGINS, *NAMES, "medum", "High", "introduced,regressed"),
    *(" introduced , ,regressed, ", "introduced regressed", "introduced,", "introduced\n", "low\n"),
    *("json=a", "json=", "json= ", "json=a=b", "jsn=a", "json =a", "=a", "sarif=a\nb", "json=\n"),
]
OTHERS = [
    *(True, False, 0, 1, 256, 257, -1, 1.5, [], [[]], [["a"]], {}, {"a": 1}),
    *([1], ["a", 1], ["a", True], ["a", ""], ["a", "b"], ["a", "a"], ["a,b", "c"]),
    *(["introduced", "regressed"], ["introduced,inherited", "unknown"], ["introduced", "x"]),
    *(["json", "table"], ["json", "json"], ["json", "sarif=a"], ["json=a", "json=a"]),
    *(["json=a", "sarif=b", "html"], ["html", "json=a", "markdown"], ["json=a", "table=b"]),
]


@pytest.mark.parametrize("key", [*OPTIONS, "upstrem", "fail_on", "root", "config", "isolated"])
def test_a_value_is_allowed_where_the_settings_take_it(key: str, folder: Path) -> None:
    values = [*TEXTS, *WORDS, *OTHERS, *([text] for text in (*TEXTS, *WORDS))]
    if key == "rules":  # that a folder is there, only a run can tell
        values = [v for v in values if not isinstance(v, (str, list)) or not v or v in TEXTS]
        values = [v for v in values if not isinstance(v, str) or v in ("a", "a,b", "", " ", "\0")]
    texts = [f"{key} = {toml(value)}\n" for value in values]
    differ = [text for text in texts if allowed(text) != taken(folder, text)]
    assert differ == []
    both = {allowed(text) for text in texts}
    assert both == ({True, False} if key in OPTIONS else {False})


LONG = "x" * 1000


@pytest.mark.parametrize(
    "table",
    [
        {"rule": "gate-bypassed", "reason": "r"},
        {"rule": "", "reason": ""},
        {"rule": 1},
        {"rule": LONG, "path": f" {LONG} ", "symbol": LONG, "reason": LONG * 3},
        {"rule": f"{LONG}y"},
        {"path": f"{LONG}y"},
        {"symbol": f"{LONG}y"},
        {"path": ""},
        {"symbol": " "},
        {"path": "/".join("a" * 64)},
        {"path": "/".join("a" * 65)},
        {"path": ["a"]},
        {"reason": 5},
        {"expires": datetime.date(2027, 3, 31)},
        {"expires": datetime.datetime(2027, 3, 31, 7, 30)},
        {"expires": datetime.time(7, 30)},
        {"expires": "2027-03-31"},
        {"expires": "2027-13-31"},
        {"expires": "2027-3-1"},
        {"expires": "soon"},
        {"expires": 2027},
        {"paths": "a"},
    ],
)
def test_a_suppression_is_allowed_where_the_settings_take_it(
    table: dict[str, object], folder: Path
) -> None:
    for text in (f"ignore = [{toml(table)}]", f'ignore = ["a", {toml(table)}, {toml(table)}]'):
        assert allowed(text) == taken(folder, text)


@pytest.mark.parametrize(
    "text",
    [
        "verbose = true\nquiet = true",
        "verbose = true\nquiet = false",
        "verbose = false\nquiet = true",
        "verbose = false\nquiet = false",
        "verbose = true",
        "strict = true\njobs = 2\nupstrem = 'v1'",
    ],
)
def test_what_excludes_each_other_does_so_in_both(text: str, folder: Path) -> None:
    assert allowed(text) == taken(folder, text)


def test_it_accepts_what_the_pages_show(folder: Path) -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    blocks = re.findall(r"^```toml\n(.*?)\n```$", page, re.MULTILINE | re.DOTALL)
    inline = re.findall(r"`(ignore = \[[^`]*)`", page)
    assert (len(blocks), len(inline)) == (2, 1)
    for text in (*blocks, *inline):
        assert allowed(text)
        assert taken(folder, text)
    assert blocks[0].startswith(f"#:schema ./{SCHEMA_FILE.name}\n")


def test_it_refuses_what_is_written_wrong() -> None:
    assert not allowed('upstrem = "v1"')
    assert not allowed('fail-on = "hihg"')
    assert allowed('fail-on = "high"')
