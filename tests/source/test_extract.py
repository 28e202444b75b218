"""Facts of single files: places, every kind of statement, and files that resist."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import msgspec
import pytest

from auditor.errors import Unreadable
from auditor.source import facts as f
from auditor.source.extract import DEEPEST, LARGEST, extract


def module(text: str | bytes, package: str = "sglang.srt") -> f.ModuleFacts:
    return extract(text.encode() if isinstance(text, str) else text, package)


def body(text: str) -> tuple[f.Stmt, ...]:
    indented = "".join(f"    {line}\n" for line in text.split("\n"))
    (function,) = module(f"def function():\n{indented}").functions
    return function.body


def nodes(facts: f.ModuleFacts) -> Iterator[f.Expr]:
    pending = [fn.body for fn in facts.functions]
    pending += [m.body for c in facts.classes for m in c.methods]
    while pending:
        for stmt in f.statements(pending.pop()):
            if isinstance(stmt, f.Define):
                pending.append(stmt.function.body)
            for top in f.expressions(stmt):
                yield from f.walk(top)


def calls(facts: f.ModuleFacts) -> list[str]:
    return sorted(f.dotted(n.func) for n in nodes(facts) if isinstance(n, f.Call))


def place(text: str | bytes, name: str) -> tuple[int, int]:
    """Line and column in the file of the call of a name in its only function."""
    facts = module(text)
    (function,) = facts.functions
    found = [n for n in nodes(facts) if isinstance(n, f.Call)]
    (call,) = [n for n in found if f.dotted(n.func) == name]
    return function.line + call.line - 1, call.column


def place_free(facts: f.FunctionFacts) -> f.FunctionFacts:
    """A function's facts without where it stands in its file."""
    return msgspec.structs.replace(facts, line=0, end_line=0)


MOVED = """\
@decorated
def function(a, b=1, c: "d.C" = None):
    def inner(c):
        return a.x[c]
    # a comment
    return [inner(i) for i in b]
"""


@pytest.mark.parametrize("before", ["", "\n", "x = 1\n\n\n", "def other(): ...\n", '"""\n"""\n'])
def test_a_function_that_moved_has_equal_facts(before: str) -> None:
    first, moved = (
        next(g for g in module(text).functions if g.name == "function")
        for text in (MOVED, before + MOVED)
    )
    assert place_free(moved) == place_free(first)
    assert moved.digest
    lines = before.count("\n")
    assert (moved.line, moved.end_line) == (2 + lines, 6 + lines)


def test_lines_count_from_the_definition() -> None:
    (function,) = module("\n\n" + MOVED).functions
    define, leave = function.body
    assert isinstance(define, f.Define)
    assert (define.function.line, define.function.end_line) == (2, 3)
    (inner,) = define.function.body
    assert isinstance(inner, f.Exit) and inner.line == 3
    assert isinstance(leave, f.Exit) and leave.line == 5
    methods = module("class A:\n    x = 1\n\n    def get(self): return self.x\n").classes[0]
    (method,) = methods.methods
    assert (method.line, method.body[0].line) == (4, 1)  # type: ignore[union-attr]
    assert methods.assigns[0].line == 2


def inner_digests(text: str) -> list[str]:
    """The digests of the functions defined in the bodies of others."""
    bodies = [function.body for function in module(text).functions]
    return [s.function.digest for body in bodies for s in body if isinstance(s, f.Define)]


def test_functions_of_one_name_in_other_bodies_have_other_digests() -> None:
    """Two decorators of a file often have an inner function of one name."""
    one = "def one(g):\n    def inner(x):\n        return g(x)\n    return inner\n"
    other = one.replace("one", "other").replace("return g(x)", "return g(x + 1)")
    lower = one.replace("one", "lower").replace("(g):\n", "(g):\n    y = 1\n")
    first, second, third = inner_digests(one + other + lower)
    assert len({first, second, third}) == 3
    assert inner_digests("\n\n" + one) == [first]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return", "return not"),
        ("b=1", "b=2"),
        ("@decorated", "@other"),
        ("    # a comment\n", ""),
        ("a.x[c]", "a.x[ c]"),
        ("[inner", "[inner "),
    ],
)
def test_any_other_text_has_another_digest(old: str, new: str) -> None:
    assert MOVED.count(old) >= 1
    first, other = (module(t).functions[0] for t in (MOVED, MOVED.replace(old, new, 1)))
    assert first.digest != other.digest


# -- places --------------------------------------------------------------------------------------


def test_columns_count_code_points() -> None:
    assert place("def function():\n    x = 'äöü𝄞'; call()\n", "call") == (2, 17)


def test_a_tab_is_one_column() -> None:
    assert place("def function():\n\tif x:\n\t\tcall()\n", "call") == (3, 3)


@pytest.mark.parametrize("strange", ["\f", "\v", "\x1c", "\x85", "\u2028"])
def test_only_what_python_calls_a_line_end_ends_a_line(strange: str) -> None:
    text = f"def function():\n    x = 'ä{strange}'\n    y = 'ä'; call()\n"
    assert place(text, "call") == (3, 14)


def test_form_feed_before_a_definition() -> None:
    assert place("x = 1\n\f\ndef function():\n    y = 'ä'; call()\n", "call") == (4, 14)


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_other_line_ends(end: str) -> None:
    text = "def function():\n    x = 'ä'; call()\n".replace("\n", end)
    assert place(text, "call") == (2, 14)


def test_byte_order_mark_is_no_column() -> None:
    assert place("\ufeffdef function():\n    'ä' and call()\n", "call") == (2, 13)


def test_coding_cookie() -> None:
    text = "# -*- coding: latin-1 -*-\ndef function():\n    x = 'ä'; call()\n"
    assert place(text.encode("latin-1"), "call") == (3, 14)


def test_a_chain_over_lines_is_read_where_its_last_name_stands() -> None:
    text = "def function():\n    return (\n        self\n        .rows\n    )\n"
    (attribute,) = [n for n in nodes(module(text)) if isinstance(n, f.Attr)]
    assert attribute.line == 4


def test_lines_of_definitions() -> None:
    (known,) = module("@mark\nclass A:\n    @mark\n    def m(self):\n        pass\n").classes
    (method,) = known.methods
    assert (known.line, known.end_line) == (2, 5)
    assert (method.line, method.column, method.end_line) == (4, 5, 5)
    assert method.qualname == "A.m"


# -- statements and expressions ------------------------------------------------------------------


EVERYTHING = '''
async def function(a, /, b: "Pool" = None, *args, c=0, d=1, **more) -> Pool:
    """Docstring."""
    global g
    one()
    x = two()
    y: int = three()
    z += four()
    del five()[0]
    if six():
        seven()
    elif eight():
        nine()
    else:
        ten()
    for i in eleven():
        twelve()
        continue
    else:
        thirteen()
    async for i in fourteen():
        break
    while fifteen():
        sixteen()
    else:
        seventeen()
    with eighteen() as w, nineteen():
        twenty()
    async with twentyone():
        pass
    try:
        a1()
    except E:
        a2()
    except (F, G) as error:
        a3()
    else:
        a4()
    finally:
        a5()
    match a6():
        case 1 if a7():
            a8()
        case [x, *rest]:
            a9()
        case _:
            b1()
    assert b2(), b3()
    def nested(q=1):
        b4()
    b5(*b6(), **b7())
    (walrus := b8())
    b9() if c1() else c2()
    [c3() for j in c4() if c5()]
    {c6(): c7() for j in c8()}
    lambda u: c9()
    f"{d1():{d2()}}"
    await d3()
    yield d4()
    yield from d5()
    x[d6() : d7() : d8()]
    not d9() or -e1() < e2() is e3()
    {e4(): e5(), **e6()}
    {e7(), e8()}
    raise e9() from f1()
'''

IGNORED = {"five", "b3", "d2", "f1"}
"""Not looked at: deletions, what fails anyway, formats."""


def test_every_call_is_seen_wherever_it_stands() -> None:
    written = set(re.findall(r"\b([a-z]+\d?)\(", EVERYTHING)) - {"function", "nested"}
    assert set(calls(module(EVERYTHING))) == written - IGNORED


def test_parameters() -> None:
    (function,) = module(EVERYTHING).functions
    assert [(p.name, p.kind, p.default) for p in function.parameters] == [
        ("a", "plain", "required"),
        ("b", "plain", "none"),
        ("args", "star", "required"),
        ("c", "keyword", "false"),
        ("d", "keyword", "value"),
        ("more", "double", "required"),
    ]
    assert function.parameters[1].annotation == f.Name("Pool")  # also where it is a string
    assert function.returns == f.Name("Pool")


def test_docstring_is_no_statement_and_lines_are_kept() -> None:
    assert body('"""text"""\ncall()') == (f.Do(f.Call(f.Name("call"), (), (), 3, 5), 3),)


def test_match_is_a_chain_of_branches() -> None:
    (first,) = body("match x:\n    case 1:\n        one()\n    case y:\n        two(y)")
    assert isinstance(first, f.If)
    assert len(first.body) == 1
    bound, used = first.orelse
    assert bound == f.Do(f.Bind("y", f.Name("x")), 6)
    assert isinstance(used, f.Do)


def test_a_guard_may_fail_and_the_next_case_be_tried() -> None:
    (first,) = body("match x:\n    case _ if probe():\n        one()\n    case _:\n        two()")
    assert isinstance(first, f.If)
    assert first.body
    assert first.orelse


@pytest.mark.skipif(sys.version_info < (3, 11), reason="new in Python 3.11")
def test_exception_groups() -> None:
    (first,) = body("try:\n    one()\nexcept* E:\n    two()")
    assert isinstance(first, f.Try)
    assert len(first.handlers) == 1


def test_mentions_are_attributes_and_calls_also_by_text() -> None:
    text = """
def function(self):
    self.rows.data = other
    helper(getattr(self, "counter", None))
    def inner():
        return self.deep
"""
    (function,) = module(text).functions
    assert set(function.mentions) == {"rows", "data", "helper", "getattr", "counter", "deep"}


def test_definitions_inside_blocks_of_a_module_or_class() -> None:
    facts = module("""
if TYPE_CHECKING:
    from a import One
try:
    from b import Two
except ImportError:
    class Three: ...
else:
    def four(): ...
with suppress(ImportError):
    from c import Five
for name in names:
    six = name
class Seven:
    if flag:
        def eight(self): ...
    else:
        class Nine: ...
    ten = 1
""")
    assert {i.name for i in facts.imports} == {"One", "Two", "Five"}
    assert {c.qualname for c in facts.classes} == {"Three", "Seven", "Seven.Nine"}
    assert [m.qualname for c in facts.classes for m in c.methods] == ["Seven.eight"]
    assert [fn.name for fn in facts.functions] == ["four"]
    assert len(facts.assigns) == 1


def test_long_sums_are_no_nesting() -> None:
    (stmt,) = body("x = " + " + ".join(f"part{n}()" for n in range(2000)))
    names = [f.dotted(n.func) for n in f.walk(stmt.value) if isinstance(n, f.Call)]
    assert sorted(names, key=lambda n: int(n[4:])) == [f"part{n}" for n in range(2000)]


@pytest.mark.parametrize("text", ["", "\n", "# only a comment", "\ufeff", '"""Docstring."""'])
def test_files_without_code(text: str) -> None:
    assert module(text) == f.ModuleFacts((), (), (), ())


def test_facts_survive_the_cache() -> None:
    facts = module(EVERYTHING + "class A(B[int], c.D):\n    def m(self): return self.x[0]\n")
    packed = msgspec.msgpack.encode(facts)
    assert msgspec.msgpack.decode(packed, type=f.ModuleFacts) == facts


# -- files that resist ---------------------------------------------------------------------------

DEEP = 10_000


def reason(text: str | bytes) -> str:
    with pytest.raises(Unreadable) as refused:
        module(text)
    return str(refused.value)


def test_a_syntax_error_says_the_line() -> None:
    assert reason("x = 1\ny = = 2\n") == "syntax error at line 2: invalid syntax"


@pytest.mark.parametrize(
    "data",
    [b"x = '\xff'\n", b"# coding: utf-8\nx = '\xe4'\n", b"# coding: no-such-codec\n"],
)
def test_undecodable_bytes(data: bytes) -> None:
    assert reason(data).startswith("cannot be decoded: ")


def test_nul_bytes() -> None:
    assert "null bytes" in reason(b"x = 1\0\n")


def test_a_generated_file_is_not_parsed() -> None:
    assert reason(b"x = 1\n" * (5 * 1024 * 1024 // 6)) == "larger than 4 MiB"
    assert len(b"#" * LARGEST) == LARGEST
    assert module(b"#" * LARGEST) == f.ModuleFacts((), (), (), ())


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "(" * DEEP + ")" * DEEP,
        "x = " + "[" * DEEP + "]" * DEEP,
        "x = " + "{1:" * DEEP + "1" + "}" * DEEP,
        "x = " + "-" * DEEP + "1",
        "x = " + "not " * DEEP + "1",
        "x = a" + ".a" * DEEP,
        "x = a" + "()" * DEEP,
        "x = a" + "[0]" * DEEP,
        "x = " + " ** ".join("a" * DEEP),
        "x = " + "a if a else " * DEEP + "a",
        "x = " + "lambda: " * DEEP + "a",
        "x = " + "await " * DEEP + "a",
        "\n".join(" " * n + "if x:" for n in range(DEEP // 20)) + " y",
        "\n".join(" " * n + "def f():" for n in range(DEEP // 20)) + " y",
        "\n".join(" " * n + "class C:" for n in range(DEEP // 20)) + " y",
        "def f():\n if x: y\n" + " elif x: y\n" * DEEP,
        "def f():\n x = " + " and ".join(["y"] * DEEP),
        "def f():\n match x:\n" + "  case 1: y\n" * DEEP,
        "f'" + '{f"' * 3 + "{x}" * DEEP + '"}' * 3 + "'",
        "def f(x: '" + "(" * DEEP + "'): pass",
        "def f(x: '" + "-" * DEEP + "1'): pass",
    ],
    ids=lambda text: text[:12],
)
def test_deep_nesting_ends_in_a_reason_or_in_facts(text: str) -> None:
    try:
        facts = module(text)
    except Unreadable as refused:
        assert "nest" in str(refused) or "syntax" in str(refused)
    else:
        msgspec.msgpack.decode(msgspec.msgpack.encode(facts), type=f.ModuleFacts)


def test_the_bound_on_nesting() -> None:
    assert module("x = a" + ".a" * (DEEPEST // 2)).assigns
    assert "nest" in reason("x = a" + ".a" * DEEPEST)


def test_a_null_byte_in_an_annotation_costs_the_annotation_only() -> None:
    (function,) = module("def f(x: 'a\\0b'): pass").functions
    assert function.parameters[0].annotation is None
