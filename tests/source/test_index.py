"""Names across files: imports, base classes, and the classes that attributes hold."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from auditor.source.extract import extract
from auditor.source.index import SourceIndex
from auditor.source.names import module_name, package_name


def index(files: Mapping[str, str]) -> SourceIndex:
    return SourceIndex({p: extract(t.encode(), package_name(p)) for p, t in files.items()})


def mro(found: SourceIndex, path: str, name: str) -> list[str]:
    return [key[1] for key in found.classes[path, name].mro]


def held(text: str, name: str = "x", owner: str = "A") -> set[str]:
    """The classes that an attribute of a class in one file can hold."""
    found = index({"p/m.py": text})
    return {key[1] for key in found.attribute_types(("p/m.py", owner), name)}


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("from p.base import Base", "Base"),
        ("from p.base import Base as B", "B"),
        ("from .base import Base", "Base"),
        ("from . import base", "base.Base"),
        ("import p.base", "p.base.Base"),
        ("import p.base as pb", "pb.Base"),
        ("from p import base as pb", "pb.Base"),
        ("from p import Base", "Base"),  # through p/__init__.py
        ("from p import Renamed", "Renamed"),
        ("try:\n    from p.base import Base\nexcept ImportError:\n    Base = object", "Base"),
        ("if TYPE_CHECKING:\n    from p.base import Base", "Base"),
    ],
)
def test_imported_bases(statement: str, name: str) -> None:
    found = index(
        {
            "p/__init__.py": "from .base import Base\nfrom .base import Base as Renamed\n",
            "p/base.py": "class Base: ...\n",
            "q/base.py": "class Base: ...\n",  # or the name alone would decide
            "p/m.py": f"{statement}\nclass A({name}): ...\n",
        }
    )
    assert found.classes["p/m.py", "A"].mro == (("p/m.py", "A"), ("p/base.py", "Base"))


def test_relative_imports_count_the_dots() -> None:
    found = index(
        {
            "p/base.py": "class Base: ...\n",
            "p/q/base.py": "class Base: ...\n",
            "p/q/m.py": "from ..base import Base\nclass A(Base): ...\n",
            "p/q/__init__.py": "from .base import Base\nclass A(Base): ...\n",
        }
    )
    assert found.classes["p/q/m.py", "A"].mro[1] == ("p/base.py", "Base")
    assert found.classes["p/q/__init__.py", "A"].mro[1] == ("p/q/base.py", "Base")


def test_a_name_that_two_files_define_is_not_guessed() -> None:
    files = {"p/a.py": "class Base: ...\n", "p/b.py": "class Base: ...\n"}
    found = index(files | {"p/m.py": "class A(Base): ...\n"})
    assert mro(found, "p/m.py", "A") == ["A"]
    del files["p/b.py"]
    found = index(files | {"p/m.py": "class A(Base): ...\n"})
    assert mro(found, "p/m.py", "A") == ["A", "Base"]


def test_a_class_defined_twice_in_one_file_is_still_one_name() -> None:
    text = "if flag:\n    class Base: ...\nelse:\n    class Base: ...\n"
    found = index({"p/a.py": text, "p/m.py": "class A(Base): ...\n"})
    assert mro(found, "p/m.py", "A") == ["A", "Base"]


def test_linearisation() -> None:
    text = """
class Root: ...
class Left(Root): ...
class Right(Root): ...
class Diamond(Left, Right): ...
class Mixin: ...
class Mixed(Mixin, Diamond): ...
class Generic_(Left[int]): ...
class Crossed(Left, Root, Right): ...
class Contradiction(Root, Left): ...
"""
    found = index({"p/m.py": text})
    assert mro(found, "p/m.py", "Diamond") == ["Diamond", "Left", "Right", "Root"]
    assert mro(found, "p/m.py", "Mixed") == ["Mixed", "Mixin", "Diamond", "Left", "Right", "Root"]
    assert mro(found, "p/m.py", "Generic_") == ["Generic_", "Left", "Root"]
    assert set(mro(found, "p/m.py", "Contradiction")) == {"Contradiction", "Root", "Left"}
    assert set(mro(found, "p/m.py", "Crossed")) == {"Crossed", "Left", "Root", "Right"}


def test_cycles_of_bases_and_imports_end() -> None:
    found = index(
        {
            "p/a.py": "from p.b import B, Lost\nclass A(B): ...\nclass S(S): ...\n",
            "p/b.py": "from p.a import A, Lost\nclass B(A): ...\n",
            "p/c.py": "from p.a import Lost\nclass C(Lost): ...\n",
        }
    )
    assert set(mro(found, "p/a.py", "A")) == {"A", "B"}
    assert mro(found, "p/a.py", "S") == ["S"]
    assert mro(found, "p/c.py", "C") == ["C"]


def test_method_in_force_and_super() -> None:
    text = """
class Root:
    def m(self): return 1
class Left(Root): ...
class Right(Root):
    def m(self): return 2
class Both(Left, Right):
    def m(self): return 3
    @property
    def p(self): return 4
    @p.setter
    def p(self, value): self.q = value
    def twice(self): return 5
    def twice(self): return 6
"""
    found = index({"p/m.py": text})
    both = ("p/m.py", "Both")

    def owner(name: str, after: str) -> str | None:
        method = found.method(both, name, ("p/m.py", after))
        return method.owner[1] if method and method.owner else None

    assert owner("m", "Both") == "Right"
    assert owner("m", "Right") == "Root"
    assert owner("m", "Root") is None
    assert found.classes[both].methods["p"].facts.line == 10
    assert found.classes[both].methods["twice"].facts.line == 14
    assert set(found.subclasses["p/m.py", "Root"]) >= {both, ("p/m.py", "Left")}


INNER = "class Inner: ...\nclass Other: ...\n"


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("    def __init__(self): self.x = Inner()", {"Inner"}),
        ("    def __init__(self): self.x = Inner() if flag else Other()", {"Inner", "Other"}),
        ("    def __init__(self): self.x = None or Inner()", {"Inner"}),
        ("    def __init__(self): self.x = [Inner() for _ in y]", {"Inner"}),
        ("    def __init__(self): self.x = {0: Inner(), 1: Other()}", {"Inner", "Other"}),
        ("    def __init__(self): self.x[3] = Inner()", {"Inner"}),
        ("    def __init__(self): self.x.append(Inner())", {"Inner"}),
        ("    def __init__(self, x: Inner): self.x = x", {"Inner"}),
        ("    def __init__(self, x: 'Inner | None' = None): self.x = x", {"Inner"}),
        ("    def __init__(self, x: Optional['Inner']): self.x = x", {"Inner"}),
        ("    def __init__(self, x: list[Inner]): self.x = x[0]", {"Inner"}),
        ("    def __init__(self): self.x: Inner = make()", {"Inner"}),
        ("    def __init__(self): self.x, self.y = Inner(), Other()", {"Inner"}),
        ("    x: Inner", {"Inner"}),
        ("    x: Inner = None", {"Inner"}),
        (
            (
                "    def __init__(self):\n        kind = Inner if flag else Other\n"
                "        self.x = kind()"
            ),
            {"Inner", "Other"},
        ),
        ("    kind = Inner\n    def __init__(self): self.x = self.kind()", {"Inner"}),
        (
            (
                "    def __init__(self, kind=None):\n        self.kind = Other\n"
                "        self.x = self.kind()"
            ),
            {"Other"},
        ),
        (
            "    def make(self): return Inner()\n    def __init__(self): self.x = self.make()",
            {"Inner"},
        ),
        (
            "    def make(self) -> Inner: ...\n    def __init__(self): self.x = self.make()",
            {"Inner"},
        ),
        ("    class Nested: ...\n    def __init__(self): self.x = self.Nested()", {"A.Nested"}),
        ("    @property\n    def x(self): return Inner()", {"Inner"}),
        (
            (
                "    def __init__(self):\n        if flag:\n            self.x = Inner()\n"
                "        else:\n            self.x = Other()"
            ),
            {"Inner", "Other"},
        ),
        ("    def __init__(self):\n        y = Inner()\n        self.x = y", {"Inner"}),
        ("    def __init__(self):\n        for y in [Inner()]:\n            self.x = y", {"Inner"}),
        ("    def __init__(self):\n        with lock:\n            self.x = Inner()", {"Inner"}),
        ("    def __init__(self): self.x = unknown()", set()),
        ("    def __init__(self): self.x = self.x", set()),
        ("    def __init__(self): self.x = self.y\n    def other(self): self.y = self.x", set()),
    ],
)
def test_what_an_attribute_holds(rest: str, expected: set[str]) -> None:
    assert held(f"{INNER}class A:\n{rest}\n") == expected


def test_assigning_several_takes_each_its_own() -> None:
    text = f"{INNER}class A:\n    def __init__(self): self.x, self.y = Inner(), Other()\n"
    assert held(text, "x") == {"Inner"}
    assert held(text, "y") == {"Other"}


def test_an_attribute_of_a_base_class_and_an_import_in_a_function() -> None:
    found = index(
        {
            "p/inner.py": "class Inner: ...\n",
            "q/inner.py": "class Inner: ...\n",
            "p/base.py": "class Base:\n    def __init__(self):\n"
            "        from p.inner import Inner as I\n        self.x = I()\n",
            "p/m.py": "from p.base import Base\nclass A(Base): ...\n",
        }
    )
    assert found.attribute_types(("p/m.py", "A"), "x") == {("p/inner.py", "Inner")}


def test_names_of_modules() -> None:
    assert module_name("sglang/srt/__init__.py") == "sglang.srt"
    assert module_name("sglang/srt/x.py") == "sglang.srt.x"
    assert package_name("sglang/srt/x.py") == package_name("sglang/srt/__init__.py") == "sglang.srt"
    assert package_name("top.py") == ""
