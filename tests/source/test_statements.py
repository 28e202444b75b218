"""A file cut by its lines gives what the parsed file has, statement by statement."""

from __future__ import annotations

import ast
import sysconfig
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.deployment.code import File
from auditor.deployment.words import WAYS
from auditor.source.statements import cut, statements

BLOCKS = (
    "import os\n",
    "from a import (\n    b,\n    c as d,\n)\n",
    '"""A text.\n\ndef inside():\n    no function\n"""\n',
    "x = 1\n",
    "x = '''\nclass Inside:\n    y = 1\n'''\n",
    "# a comment\n",
    "\n\n",
    "if x:\n    def f():\n        return 1\nelif y:\n    pass\nelse:\n    z = 2\n",
    "try:\n    import a\nexcept ImportError:\n    a = None\nfinally:\n    b = 1\n",
    "def f(a, b=1):\n    return a\n",
    "def f(\n    a,\n) -> int:\n    '''said'''\n    return a\n",
    "@decorated\n@of(\n    many,\n)\nasync def g():\n# at the margin\n    await x\n",
    "class A: pass\n",
    "@a\n# said\n@b(\n    c\n)\nclass A:\n    @d\n    @e(\n        f\n    )\n    def g(self): x\n",
    "class A(B, metaclass=M(1)):\n    x: int = 1\n",
    "class A:\n    '''Said.\n\n    def inside(self):\n    '''\n\n    def f(self):\n        pass\n",
    """\
class A(
    B,
    C,
):  # why
    # said

    x = 1

    @property
    def f(self):
        return 1

    y = 2
    async def g(self): pass
    class In:
        z = 3
""",
    """\
@dataclass
class A(B[int]):
    if x:
        def f(self): pass
    def g(self):
        pass
    if y:
        z = 1
    else:
        z = 2
""",
    "class A:\n\tdef f(self):\n\t\treturn 1\n\tx = 1\n",
    "match x:\n    case 1:\n        y = 1\n",
)

STDLIB = Path(sysconfig.get_paths()["stdlib"])


def flat(block: Iterable[ast.stmt]) -> list[tuple[int, int, str]]:
    """Statements with their place; a class as its header and what stands in it, but for pass."""
    found = []
    for node in block:
        said = ast.dump(node, include_attributes=True)
        if isinstance(node, ast.ClassDef):
            around = [*node.bases, *node.keywords, *node.decorator_list]
            said = f"class {node.name} {[ast.dump(a, include_attributes=True) for a in around]}"
            found += flat(row for row in node.body if not isinstance(row, ast.Pass))
        found.append((node.lineno, node.col_offset, said))
    return sorted(found)


def by_pieces(data: bytes) -> list[tuple[int, int, str]]:
    found: list[tuple[int, int, str]] = []
    for piece in cut(data):
        block = piece.parsed()
        assert block is not None, piece
        if isinstance(block[0], (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            assert piece.start + piece.decorators == block[0].lineno
        found += flat(block)
    return sorted(found)


@given(st.lists(st.sampled_from(BLOCKS), max_size=8))
def test_pieces_are_the_statements_of_the_file(blocks: list[str]) -> None:
    data = "".join(blocks).encode()
    assert by_pieces(data) == flat(ast.parse(data).body)


@pytest.mark.parametrize("block", BLOCKS)
def test_what_a_class_defines_is_cut(block: str) -> None:
    """Else a file is one piece, and the test above says nothing."""
    [*nodes] = ast.parse(block).body
    members = [
        row
        for node in nodes
        if isinstance(node, ast.ClassDef)
        for row in node.body
        if isinstance(row, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    ]
    assert len(cut(block.encode())) == len(nodes) + len(members)


@pytest.mark.parametrize("path", sorted(STDLIB.glob("[a-e]*.py")), ids=lambda path: path.stem)
def test_the_standard_library(path: Path) -> None:
    data = path.read_bytes()
    assert by_pieces(data) == flat(ast.parse(data).body)


def told(data: bytes) -> tuple[list[str], list[str]]:
    """The functions f, and what x is given, by a file that is asked for one name after another."""
    file = File("sglang/srt/a.py", data)
    values = [ast.unparse(value) for value, *_ in file.given(file.top, "x")]
    return [f"{b.owner.name if b.owner else ''}.{b.name}" for b in file.bodies("f")], values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('x = "a\\\ndef f(): pass"\n', ([], ["'adef f(): pass'"])),
        ("x = (\n1,\n)\ndef f(): pass\n", ([".f"], ["(1,)"])),
        ("class A:\n    x = (\n    1,\n    )\n    def f(self): pass\n", (["A.f"], [])),
        ('class A:\n    def f(self):\n        y = "\\\n    z"\n\nx = 2\n', (["A.f"], ["2"])),
        ("def f(:\n    pass\nx = 1\n", ([], ["1"])),
        ("x = 1\nx = 2\nif y:\n    x = 3\n", ([], ["1", "2", "3"])),
    ],
)
def test_lines_that_mislead(text: str, expected: tuple[list[str], list[str]]) -> None:
    """What is no statement by itself is taken from the file as it is parsed."""
    assert told(text.encode()) == expected


@given(st.permutations(["f", "g", "A", "x", "B", "import *", "self:"]))
def test_the_order_of_questions_is_no_matter(names: list[str]) -> None:
    data = "".join(BLOCKS).encode()
    file, alone = File("a.py", data), {n: File("a.py", data) for n in names}
    for name in names:
        for ask in ("bodies", "uses", "attributes", "classes", "real", "imported", "locals_of"):
            assert _shown(getattr(file, ask)(name)) == _shown(getattr(alone[name], ask)(name))


def _shown(found: object) -> str:
    if isinstance(found, list):
        return str([_shown(row) for row in found])
    node = getattr(found, "node", getattr(found, "function", found))
    return ast.dump(node, include_attributes=True) if isinstance(node, ast.AST) else str(node)


def test_what_cannot_be_parsed_has_no_statements() -> None:
    assert statements(b"def f(:\n") is None
    assert statements(b"x = 1\0\n") is None


def test_what_a_name_of_the_file_is_given_comes_in_the_order_of_lines() -> None:
    file = File("a.py", b"x = 1\ny = x = 2\n")
    assert file.uses("y") == []
    assert [ast.unparse(value) for value, *_ in file.given(file.top, "x")] == ["1", "2"]


def test_only_self_says_what_a_mixin_is_for() -> None:
    text = "class A:\n def f(self: 'Run'): pass\n @staticmethod\n def g(x: int, self: B): pass"
    file = File("a.py", text.encode())
    [owner] = file.classes("A")
    assert file.mixed_into(owner) == {"Run"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("class A(Pool):\n    pass\n", True),
        ("class A(\n    Base,\n    Pool,\n):\n    pass\n", True),
        ("from a import Pool as P\nclass A(P):\n    pass\n", True),
        ("class A(\n" + "    Base,\n" * 100 + "    Pool,\n):\n    pass\n", True),
        ("class A(Base):\n    pool: Pool\n", False),
        ("x = Pool()\n", False),
    ],
)
def test_where_a_name_may_be_a_base(text: str, found: bool) -> None:
    assert WAYS["base"](text.encode(), "Pool") is found
    assert bool(File("a.py", text.encode()).based_on("Pool")) is found


def test_a_text_that_is_no_name_is_looked_for_as_it_stands() -> None:
    file = File("a.py", b"def f(self):\n    self.hf_config = 1\n\n\ndef g(hf_config):\n    pass\n")
    assert [body.name for part in file.parts("self.hf_config") for body in part.bodies] == ["f"]
    assert [body.name for part in file.parts("hf_config") for body in part.bodies] == ["f", "g"]
    assert file.parts("config") == []
