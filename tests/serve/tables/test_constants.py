"""What an expression of a tree stands for: each kind of syntax, and bounds against hostile text."""

from __future__ import annotations

import pytest

from auditor.serve.tables.constants import UNKNOWN, attribute, instance, lookup, mro
from auditor.serve.tables.values import ClassValue, bounded, is_known
from tests.serve.tables.trees import expression, tree, value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("'a' 'b'", "ab"),
        ("1 + 2 * 3", 7),
        ("-1.5", -1.5),
        ("('a', *['b', 'c'])", ("a", "b", "c")),
        ("['a'] + ['b']", ["a", "b"]),
        ("['a', 'b'] * 2", ["a", "b", "a", "b"]),
        ("'=' * 3", "==="),
        ("{'a', 'b'}", {"a", "b"}),
        ("{'a': 1, **{'b': 2}}", {"a": 1, "b": 2}),
        ("{'a': 1} | {'b': 2}", {"a": 1, "b": 2}),
        ("list({'a': 1, 'b': 2}.keys())", ["a", "b"]),
        ("list({'a': 1})", ["a"]),
        ("sorted({'b', 'a'})", ["a", "b"]),
        ("{'a': 'x'}['a']", "x"),
        ("{'a': 'x'}.get('b', 'y')", "y"),
        ("['a', 'b', 'c'][1]", "b"),
        ("['a', 'b', 'c'][1:]", ["b", "c"]),
        ("f'<{\"tool\"}_{1}>'", "<tool_1>"),
        ("f'{\"a\"!r}'", "'a'"),
        ("'<' + '|'.join(['a', 'b']) + '>'", "<a|b>"),
        ("'<{}|{name}|{0}>'.format('a', name='b')", "<a|b|a>"),
        ("'a-b'.replace('-', '_').upper()", "A_B"),
        ("'  a '.strip()", "a"),
        ("'<think>'.removeprefix('<')", "think>"),
        ("'a b'.split()", ["a", "b"]),
        ("'x' if True else 'y'", "x"),
        ("'x' if 'a' in ('a', 'b') else 'y'", "x"),
        ("None or 'x'", "x"),
        ("not ''", True),
        ("1 << 20", 1048576),
        ("[n + '!' for n in ('a', 'b') if n != 'b']", ["a!"]),
        ("{n: n + n for n in ('a',)}", {"a": "aa"}),
        ("dict(a=1)", {"a": 1}),
        ("dict([('a', 1)])", {"a": 1}),
        ("(lambda x, y='b': x + y)('a')", "ab"),
    ],
)
def test_a_constant_expression(text: str, expected: object) -> None:
    found = expression(text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    "text",
    [
        "name_of_nothing",
        "open('x').read()",
        "__import__('os').system('true')",
        "eval('1')",
        "'a' + unknown",
        "f'{unknown}'",
        "'%s' % 'a'",
        "unknown.attribute['x']()",
        "'x' if unknown else 'y'",
        "[1, 2][9]",
        "{'a': 1}['b']",
        "1 / 0",
        "'{0.__class__}'.format('a')",
        "'{'.format('a')",
        "[unknown()].pop()",
        "(yield_ for yield_ in unknown)",
    ],
)
def test_what_a_run_decides_is_unknown(text: str) -> None:
    assert expression(text) is UNKNOWN


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[*unknown, 'a']", [UNKNOWN, "a"]),
        ("{**unknown, 'a': 1}", {UNKNOWN: UNKNOWN, "a": 1}),
        ("['a', unknown]", ["a", UNKNOWN]),
        ("{'a': unknown}", {"a": UNKNOWN}),
    ],
)
def test_the_known_members_of_a_container_are_kept(text: str, expected: object) -> None:
    assert expression(text) == expected


def test_names_are_followed_through_constants_and_changes() -> None:
    text = """
        BASE = ["a"]
        X = BASE + ["b"]
        X.append("c")
        X += ["d"]
        X.extend(("e",))
        X.remove("a")
    """
    assert value(text) == ["b", "c", "d", "e"]


def test_a_dictionary_is_followed_through_its_changes() -> None:
    text = """
        X = {"a": 1}
        X["b"] = 2
        X.update({"c": 3}, d=4)
        X.update(e=5)
        for name in ("f", "g"):
            X[name] = 6
        X.pop("a")
    """
    assert value(text) == {"b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "g": 6}


def test_branches_that_a_run_decides_keep_what_they_agree_on() -> None:
    text = """
        import torch
        A = B = C = "start"
        if torch.cuda.is_available():
            A = "one"
            B = "both"
        else:
            A = "two"
            B = "both"
        if False:
            C = "never"
        if __name__ == "__main__":
            C = "script"
        X = (A, B, C)
    """
    assert value(text) == (UNKNOWN, "both", "start")


def test_a_fallback_for_a_missing_import_yields_to_the_import() -> None:
    text = """
        try:
            from sglang.srt.other import X
        except ImportError:
            X = None
    """
    assert value(text, other="X = 'found'") == "found"


def test_imports_absolute_relative_and_passed_on() -> None:
    files = {
        "here": """
            from sglang.srt.names import A as a
            from .names import B
            from . import names
            import sglang.srt.names as again
            import sglang.srt.names
            from .facade import passed_on
            from sglang.srt.stars import C
            X = (a, B, names.C, again.A, sglang.srt.names.B, passed_on, C)
        """,
        "names": "A, B = 'a', 'b'\nC = A + B",
        "facade": "from .names import C as passed_on",
        "stars": "from sglang.srt.names import *",
    }
    module = tree(**files).find("sglang.srt.here")
    assert module is not None
    assert lookup(module, "X") == ("a", "b", "ab", "a", "b", "ab", "ab")


def test_class_constants_along_the_bases() -> None:
    text = """
        from enum import Enum
        class Base:
            open = "<a>"
            close = "</" + open[1:]
        class Derived(Base):
            open = "<b>"
        class Kind(str, Enum):
            ONE = "one"
            TWO = "two"
        class Plain:
            rows = {"a": 1}
        Plain.rows["b"] = 2
        X = (Derived.open, Derived.close, Kind.ONE.value, [k.value for k in Kind], Plain.rows)
    """
    assert value(text) == ("<b>", "</a>", "one", ["one", "two"], {"a": 1, "b": 2})


def test_literal_types_give_their_members() -> None:
    text = """
        from typing import Literal, get_args
        Kind = Literal["a", "b"]
        X = list(get_args(Kind))
    """
    assert value(text) == ["a", "b"]


def test_small_functions_are_followed() -> None:
    text = """
        def tag(name, closing=False):
            if closing:
                return f"</{name}>"
            return f"<{name}>"
        X = tag("a") + tag("b", closing=True)
    """
    assert value(text) == "<a></b>"


def test_a_function_whose_result_a_run_decides_is_unknown() -> None:
    text = """
        import torch
        def pick():
            if torch.version.hip:
                return "a"
            return "b"
        X = pick()
    """
    assert value(text) is UNKNOWN


def _object(text: str, name: str = "Last") -> dict[str, object]:
    module = tree(here=text).find("sglang.srt.here")
    assert module is not None
    cls = lookup(module, name)
    assert isinstance(cls, ClassValue)
    return instance(cls).attributes


def test_an_object_has_what_its_classes_set_with_the_last_class_s_constants() -> None:
    text = """
        class Base:
            word = "base"
            def __init__(self, close, tail="!", *, mode: str = "slow"):
                inner = f"|{self.word}|"
                self.open: str = f"<{inner}>"
                self.close = close + tail
                self.mode = mode
                self._more()
            def _more(self):
                self.more = "base"
        class Middle(Base):
            def __init__(self, tokenizer=None, **kwargs):
                super().__init__("</x>", mode="fast", **kwargs)
                self.bos = tokenizer.bos
        class Last(Middle):
            word = "last"
            def _more(self):
                super()._more()
                self.more = self.more + "+last"
    """
    assert _object(text) == {
        "open": "<|last|>",
        "close": "</x>!",
        "mode": "fast",
        "more": "base+last",
        "bos": UNKNOWN,
    }


def test_a_call_by_the_name_of_the_base_is_one_too() -> None:
    text = """
        class Base:
            def __init__(self, word):
                self.word = word
        class Last(Base):
            def __init__(self):
                Base.__init__(self, "x")
    """
    assert _object(text) == {"word": "x"}


def test_bases_in_the_order_of_lookup() -> None:
    text = """
        class A: pass
        class B(A): pass
        class C(A): pass
        class Last(B, C): pass
    """
    module = tree(here=text).find("sglang.srt.here")
    assert module is not None
    last = lookup(module, "Last")
    assert isinstance(last, ClassValue)
    assert [cls.name for cls in mro(last)] == ["Last", "B", "C", "A"]


def test_a_dataclass_takes_its_fields() -> None:
    text = """
        from dataclasses import dataclass
        @dataclass
        class Row:
            name: str
            spec: str = "x"
        X = Row("a")
        Y = (X.name, X.spec, Row(name="b", spec="c").spec)
    """
    assert value(text, "Y") == ("a", "x", "c")


HOSTILE = {
    "itself": "X = X + 'a'",
    "each other": "X = Y\nY = X",
    "itself within": "X = [X, X]",
    "long text": "A = 'x' * 60000\nX = A + A + A",
    "long text by replace": "A = 'x' * 60000\nX = A.replace('x', A)",
    "long text by join": "A = 'x' * 60000\nX = A.join(list(A))",
    "long text by format": "A = 'x' * 60000\nX = '{0}{0}{0}'.format(A)",
    "width": "X = '{:>1000000000}'.format('a')",
    "width in an f-string": "X = f\"{'a':>1000000000}\"",
    "large number": "X = 10 ** 10 ** 10",
    "large shift": "X = 1 << 10 ** 9",
    "large number by products": "A = 2 ** 63\nX = A * A * A * A",
    "list of lists of lists": "".join(
        f"A{i} = [A{i - 1}] * 10\n" if i else "A0 = ['x'] * 10\n" for i in range(30)
    )
    + "X = [A29]",
    "key of tuples of tuples": "".join(
        f"A{i} = (A{i - 1},) * 10\n" if i else "A0 = ('x',) * 10\n" for i in range(30)
    )
    + "X = {A29: 1}[A29]",
    "endless recursion": "def f(x):\n    return f(x + 'a')\nX = f('a')",
    "twofold recursion": "def f(x):\n    return f(x) + f(x)\nX = f('a')",
    "loop": "X = 'a'\nfor i in range(10 ** 9):\n    X += 'a'",
    "class of itself": "class X(X): pass\nX = X.name",
    "classes of each other": "class A(B): pass\nclass B(A): pass\nX = B.name",
    "import of itself": "from sglang.srt.here import X",
    "long chain of names": "A0 = 'a'\n"
    + "".join(f"A{i} = A{i - 1}\n" for i in range(1, 5000))
    + "X = A4999",
    "deep attributes": "import a\nX = a" + ".b" * 200,
    "nested conditions": "X = " + "u or (" * 80 + "'a'" + ")" * 80,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_constants_are_bounded_and_unknown(text: str) -> None:
    found = value(text)
    assert bounded(found) is found
    assert not is_known(found)


def test_a_long_sum_is_no_deep_one() -> None:
    assert value("X = " + " + ".join(["'a'"] * 500)) == "a" * 500


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("X = (", "syntax error at line 1"),
        ("X = " + "(" * 10_000 + ")" * 10_000, "sglang/srt/here.py: "),
        ("X = 1\0", "sglang/srt/here.py: "),
        ("# coding: no-such-code\nX = 1", "sglang/srt/here.py: "),
        ("#" * (5 * 1024 * 1024 + 1), "larger than 5 MiB"),
    ],
    ids=["syntax", "parentheses", "null byte", "encoding", "size"],
)
def test_a_file_that_cannot_be_parsed_is_a_note(text: str, reason: str) -> None:
    found = tree(here=text)
    assert found.find("sglang.srt.here") is None
    assert len(found.notes) == 1
    assert reason in found.notes[0]


def test_what_only_some_parsers_take_is_a_note_or_unknown() -> None:
    """Python 3.10 parses this chain, later ones call it too deep."""
    found = tree(here="X = a" + ".b" * 100_000)
    module = found.find("sglang.srt.here")
    if module is None:
        assert "nested too deeply" in found.notes[0]
    else:
        assert not is_known(lookup(module, "X"))


def test_a_file_outside_the_tree_is_no_module() -> None:
    found = tree(here="from sglang.srt.gone import X\nfrom os import sep as Y")
    module = found.find("sglang.srt.here")
    assert module is not None
    assert not is_known(lookup(module, "X"))
    assert found.module("../secret.py") is None
    assert found.notes == []


def test_a_class_attribute_that_is_missing_is_unknown() -> None:
    module = tree(here="class A: pass").find("sglang.srt.here")
    assert module is not None
    cls = lookup(module, "A")
    assert isinstance(cls, ClassValue)
    assert attribute(cls, "x") is UNKNOWN


def test_words_are_found_in_the_files_below_srt() -> None:
    found = tree(a="ToolTable = {}", b__c="x = 'ToolTable'", d="y = 1")
    assert found.mentioning([b"ToolTable", b"nothing"]) == {
        b"ToolTable": ("sglang/srt/a.py", "sglang/srt/b/c.py"),
        b"nothing": (),
    }
