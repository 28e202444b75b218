"""The parser tables of real releases against rows read off them independently.

``data/parsers.json`` was extracted by another program. Its ``DYN:`` entries say only that a value
was not resolved there, and an absent one says nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from auditor.serve.tables.constants import Tree
from auditor.serve.tables.facts import ReasoningParser, ToolParser
from auditor.serve.tables.parsers import cli_choices, reasoning_parsers, tool_parsers
from tests.benchmarks.releases import Unavailable, release

pytestmark = pytest.mark.upstream

TRUTH: dict[str, Any] = json.loads((Path(__file__).parent / "data/parsers.json").read_text())
VERSIONS = tuple(TRUTH["tool_call"])


def opened(version: str) -> Tree:
    try:
        folder = release(version)
    except Unavailable as problem:
        pytest.skip(f"no released wheel and no network: {problem}")
    paths = [str(path.relative_to(folder)) for path in folder.rglob("*.py")]
    return Tree(paths, lambda path: (folder / path).read_bytes())


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def tree(version: str) -> Tree:
    return opened(version)


@pytest.fixture(scope="module")
def tools(tree: Tree) -> tuple[ToolParser, ...]:
    return tool_parsers(tree)


@pytest.fixture(scope="module")
def reasoning(tree: Tree) -> tuple[ReasoningParser, ...]:
    return reasoning_parsers(tree)


def test_tool_parsers_names_classes_and_markers(
    version: str, tools: tuple[ToolParser, ...]
) -> None:
    expected = TRUTH["tool_call"][version]
    assert [row.name for row in tools] == list(expected)
    for row in tools:
        said = expected[row.name]
        assert (row.class_name, row.class_path) == (said["cls"], said["file"])
        assert (row.name, row.markers) == (row.name, said["markers"])


def test_tool_parsers_say_what_comes_at_run_time(
    version: str, tools: tuple[ToolParser, ...]
) -> None:
    expected = TRUTH["tool_call"][version]
    late = {name for name, said in expected.items() if said["unresolved"]}
    assert {row.name for row in tools if row.run_time} == late


def test_rows_stand_where_they_say(tree: Tree, tools: tuple[ToolParser, ...]) -> None:
    for row in tools:
        data = tree.content(row.path)
        assert data is not None
        line = data.decode().splitlines()[row.line - 1]
        assert f'"{row.name}": {row.class_name}' in line


def test_all_but_marker_less_parsers_have_a_start(tools: tuple[ToolParser, ...]) -> None:
    assert {row.name for row in tools if not row.starts and not row.run_time} == {"pythonic"}


def test_reasoning_parsers(version: str, reasoning: tuple[ReasoningParser, ...]) -> None:
    expected = TRUTH["reasoning"][version]
    assert [row.name for row in reasoning] == list(expected)
    for row in reasoning:
        said = expected[row.name]
        assert (row.class_name, row.class_path) == (said["cls"], said["file"])
        for key, value in (
            ("start", row.start),
            ("end", row.end),
            ("force_reasoning", row.forced),
            ("reasoning_default", row.default_mode),
            ("tool_start_token", row.tool_start),
        ):
            if key in said and not str(said[key]).startswith("DYN:"):
                assert (row.name, key, value) == (row.name, key, said[key])


def test_thinking_forced_by_the_owner_of_the_table(
    reasoning: tuple[ReasoningParser, ...],
) -> None:
    forced = {row.name for row in reasoning if row.forced}
    assert {"qwen3-thinking", "gpt-oss", "minimax", "deepseek-r1", "step3"} <= forced
    assert not forced & {"qwen3", "glm45", "kimi"}


def test_nothing_is_left_unread(tree: Tree, tools: tuple[ToolParser, ...]) -> None:
    assert tools
    assert tree.notes == []


def test_deprecated_names(tools: tuple[ToolParser, ...]) -> None:
    renamed = {row.name: row.deprecated_for for row in tools if row.deprecated_for}
    assert renamed == {"qwen25": "qwen", "glm45": "glm"}


def test_the_command_line_offers_what_the_tables_have() -> None:
    tree = opened("0.5.23")
    offered = cli_choices(tree)
    assert set(offered["--tool-call-parser"]) == {row.name for row in tool_parsers(tree)}
    assert set(offered["--reasoning-parser"]) == {row.name for row in reasoning_parsers(tree)}
