"""The house is as its plan says: floors, folders, modules that say what they are."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from tests.test_docs import anchors

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "auditor"
PLAN = PACKAGE / "ARCHITECTURE.md"
PAGES = [PLAN, *sorted(PACKAGE.glob("*/README.md"))]
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.read_text().strip())
MOST_LINES = 500
"""Of a module: what is longer has a seam with a name."""
LONGER = {
    "config.py": 520,  # one table, and what reads it
    "model.py": 590,  # values, one after another
    "formats/sarif.py": 550,  # one document
    "formats/table.py": 570,  # one page
    "serve/scripts/program.py": 510,  # one walk
}


def first_lines() -> dict[str, str]:
    return {
        path.relative_to(PACKAGE).as_posix(): (ast.get_docstring(ast.parse(path.read_text())) or "")
        .partition("\n")[0]
        .strip()
        for path in MODULES
    }


def test_modules_say_in_their_first_line_what_they_are() -> None:
    """Shown with ``-s``: the list of modules."""
    said = first_lines()
    width = max(map(len, said))
    print()
    for name, line in said.items():
        print(f"{name:{width}}  {line}")
    assert [name for name, line in said.items() if not re.fullmatch(r"\S.{8,98}[.:]", line)] == []
    lines = list(said.values())
    assert [line for line in lines if lines.count(line) > 1] == []


def test_no_module_is_two() -> None:
    lengths = {p.relative_to(PACKAGE).as_posix(): len(p.read_text().split("\n")) for p in MODULES}
    most = dict.fromkeys(lengths, MOST_LINES) | LONGER
    assert {name: n for name, n in lengths.items() if n > most[name]} == {}
    assert {name for name in LONGER if lengths[name] <= MOST_LINES} == set()


def test_the_floors_are_those_that_are_held() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    [held] = [c["layers"] for c in contracts["contracts"] if c["id"] == "layers"]
    [shown] = re.findall(r"^```\n(__main__\n.*?)\n```$", PLAN.read_text(), re.MULTILINE | re.DOTALL)
    assert shown.splitlines() == held


def test_every_folder_and_loose_module_has_its_paragraph() -> None:
    loose = {path.name for path in PACKAGE.glob("*.py")} - {"__init__.py", "__main__.py"}
    folders = {path.parent.name + "/" for path in PACKAGE.glob("*/__init__.py")}
    named = set(re.findall(r"\*\*`([a-z_]+(?:/|\.py))`\*\*", PLAN.read_text()))
    assert named - {"errors.py"} == loose - {"errors.py"} | folders


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_the_modules_that_a_page_names_are_there(page: Path) -> None:
    # In a paragraph on a folder its modules go by their names alone.
    for paragraph in page.read_text().split("\n\n"):
        above = re.match(r"\*\*`([a-z]+)/`\*\*", paragraph)
        home = PACKAGE / above[1] if above else page.parent
        for name in re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.py)`", paragraph):
            places = (PACKAGE / name, home / name)
            assert any(place.exists() for place in places), f"{name} in: {paragraph[:60]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target, _, anchor in re.findall(r"\]\(([^)#]*)(#?)([^)]*)\)", page.read_text()):
        place = page.parent / target if target else page
        assert place.exists(), target
        assert not anchor or anchor in anchors(place), f"{target}#{anchor}"


def test_every_page_of_a_folder_is_linked_from_the_plan() -> None:
    linked = set(re.findall(r"\]\(([a-z]+/README\.md)", PLAN.read_text()))
    assert linked == {page.relative_to(PACKAGE).as_posix() for page in PAGES[1:]}
