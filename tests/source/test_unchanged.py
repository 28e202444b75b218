"""Facts read beside another version of a file are those of the file read whole."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.source import extract, unchanged
from auditor.source.store import FactStore
from tests.source.test_statements import BLOCKS, STDLIB

MORE = (
    "def g(a: 'A[\\n int]' = 1) -> 'B': return a\n",
    "def g(a):\n    from .b import c\n    def f(x): return a[x]\n    return f\n",
    "def f(self):\n    '''Said.\n\n    # no comment\n    '''\n    return self.a\n    # a comment\n",
    "class A:\n    def f(self): return self.x  # said\n    def f(self): return self.y\n",
    "class B:\n    def f(self): return self.x  # said\n    # the end\n",
    "class A:\n    if x:\n        def f(self): return 1\n    async def g(s, *a, b=1, **c): a()\n",
    "def ä(ö):\n    x = 'ü'; return ö.ß(x)\n",
)


def check(old: bytes, new: bytes) -> None:
    before = extract.extract(old, "p")
    assert extract.extract(new, "p", before) == extract.extract(new, "p")


@given(st.data(), st.lists(st.sampled_from([*BLOCKS, *MORE]), max_size=6))
def test_versions_of_a_file(data: st.DataObject, blocks: list[str]) -> None:
    """Blocks are moved, left out, brought in, and edited within."""
    other = st.one_of(st.sampled_from(blocks or [""]), st.sampled_from([*BLOCKS, *MORE]))
    new = "".join(data.draw(st.lists(other, max_size=6)))
    at = data.draw(st.integers(0, len(new)))
    edited = new[:at] + data.draw(st.sampled_from(["", " ", "#", "1", "\n", "'''"])) + new[at:]
    old = "".join(blocks).encode()
    try:
        expected = extract.extract(edited.encode(), "p")
    except extract.Unreadable as error:
        with pytest.raises(extract.Unreadable, match="^" + extract.re.escape(str(error)) + "$"):
            extract.extract(edited.encode(), "p", extract.extract(old, "p"))
    else:
        assert extract.extract(edited.encode(), "p", extract.extract(old, "p")) == expected
    check(old, new.encode())


@pytest.mark.parametrize("path", sorted(STDLIB.glob("[f-k]*.py")), ids=lambda path: path.stem)
def test_the_standard_library(path: Path) -> None:
    """One function in two is another one."""
    lines = path.read_bytes().split(b"\n")
    heads = [n for n, line in enumerate(lines) if line.lstrip().startswith(b"def ")][::2]
    new = list(lines)
    for n in reversed(heads):
        new[n] = new[n].replace(b"def ", b"def new_", 1)
        new.insert(n, b"")
    check(b"\n".join(lines), b"\n".join(new))


def spared(old: str, new: str) -> list[tuple[int, str]]:
    """Line and name of the functions that are not read again."""
    found = unchanged.without(new.encode(), extract.extract(old.encode(), "p"))[1]
    return [(line, one.qualname) for line, one in found.items()]


FILE = """\
import a


@decorated(
    by=1,
)
@again
def f(x):
    return x[1]


class A:
    def f(self): return self.x  # said

    # of g
    async def g(
        self,
    ):
        return 1
    # the end
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", [(8, "f"), (13, "A.f"), (16, "A.g")]),
        ("import a\n", "import a\nimport b\n", [(9, "f"), (14, "A.f"), (17, "A.g")]),
        ("by=1", "by=2", [(13, "A.f"), (16, "A.g")]),
        ("# said", "# told", [(8, "f"), (16, "A.g")]),
        ("        return 1", "        return 2", [(8, "f"), (13, "A.f")]),
        ("# the end", "# an end", [(8, "f"), (13, "A.f"), (16, "A.g")]),
        ("class A:", "class B:", [(8, "f")]),
        ("\n", "\r\n", []),
    ],
)
def test_what_is_as_it_was_is_not_read_again(
    old: str, new: str, expected: list[tuple[int, str]]
) -> None:
    assert spared(FILE, FILE.replace(old, new)) == expected


@pytest.mark.parametrize(
    "new",
    [
        # What looks like a function is a text: two quotes in comments hide it from the cut.
        "x = '''\ndef f(): return 1\n'''\n",
        "# '''\nx = '''\ndef f(): return 1\n'''\n# '''\ny = 1\n",
        "def f(): return 1\n\\\n\ndef f(): return 1\n",
        "def f(): return 1\n    # deeper\n",
        "if x:\n    pass\ndef f(): return 1\nelse:\n    pass\n",
        "def f(): return 1\n  x = 1\n",
        "x = 1\ry = 2\ndef f(): return 1\n",
        "@",
    ],
)
def test_lines_that_mislead(new: str) -> None:
    before = extract.extract(b"def f(): return 1\n", "p")
    found: list[object] = []
    for known in (None, before):
        try:
            found.append(extract.extract(new.encode(), "p", known))
        except extract.Unreadable as error:
            found.append(str(error))
    assert found[0] == found[1]


@pytest.mark.parametrize("mark", [b"# coding: latin-1\n", b"\xef\xbb\xbf"])
def test_a_file_that_says_how_it_is_encoded(mark: bytes) -> None:
    text = b"\xe9" if mark.startswith(b"#") else "é".encode()
    old = mark + b"def f(): return x.a\ny = '" + text + b"'\n"
    check(old, old.replace(b"def", b"x = 1\ndef"))


def test_a_store_reads_a_version_beside_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same path only: a name says nothing of another file's function."""
    seen: list[str] = []
    original = extract._parsed

    def parsed(text: str) -> ast.Module:
        seen.append(text)
        return original(text)

    monkeypatch.setattr(extract, "_parsed", parsed)
    store = FactStore(None)
    newer = FILE.replace("by=1", "by=2").encode()
    [first] = store.facts({"p/a.py": FILE.encode()})[0].values()
    [second] = store.facts({"p/a.py": newer})[0].values()
    [third] = store.facts({"p/b.py": newer + b"\n"})[0].values()
    assert second.classes == first.classes == third.classes
    assert ["self.x" in text for text in seen] == [True, False, True]
    assert second == extract.extract(newer, "p")


def test_a_version_of_an_earlier_run_spares_as_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It need not be asked for by itself: that its facts are kept is enough."""
    before, newer = FILE.encode(), FILE.replace("by=1", "by=2").encode()
    store = FactStore(tmp_path)
    store.facts({"p/a.py": before})
    store.close()
    seen: list[str] = []
    original = extract._parsed

    def parsed(text: str) -> ast.Module:
        seen.append(text)
        return original(text)

    monkeypatch.setattr(extract, "_parsed", parsed)
    store = FactStore(tmp_path)
    assert store.known({"p/a.py": before, "p/b.py": newer}) == {"p/a.py"}
    store.facts({"p/a.py": newer})
    store.close()
    assert ["self.x" in text for text in seen] == [False]
