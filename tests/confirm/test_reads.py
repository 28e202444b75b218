"""Functions made by hand, in which the second reading must agree, contradict, or give up."""

from __future__ import annotations

import textwrap

import pytest

from auditor.claims import Claim
from auditor.confirm.answers import Answer, Question, Waits
from auditor.confirm.kept import Answers
from auditor.confirm.passages import MOST_LINES, Text, Unreadable

WAITS = Waits((("synchronize", "device"), ("wait", "keyed"), ("wait_until", "keyed")))
GATE = "self.counter"


def asked(
    source: str,
    about: str,
    claim: Claim | None = None,
    *,
    wait: bool = False,
    unknown: bool = False,
    waits: Waits = WAITS,
) -> Answer:
    """What is said to a question about the place of a text, in the first function of a source."""
    text = textwrap.dedent(source).encode()
    lines = text.decode().split("\n")
    first = next(n for n, line in enumerate(lines, 1) if line.lstrip().startswith(("def", "async")))
    line = next(n for n, row in enumerate(lines, 1) if about in row and n >= first)
    column = 1 if unknown else lines[line - 1].index(about) + 1
    question = Question(line - first + 1, column, waits, claim, wait)
    return Answers(None).of(Text(text).passage(first, len(lines)), question)


def read(names: str, gate: str = "", *, here: bool = True, kind: str = "read") -> Claim:
    return Claim(kind, tuple(names.split()), gate, here)  # type: ignore[arg-type]


def spelled(source: str, answer: Answer) -> str:
    """The text of the span of an answer."""
    assert answer.span is not None
    text = textwrap.dedent(source).split("\n")
    first = next(n for n, line in enumerate(text) if line.lstrip().startswith(("def", "async")))
    line, column, end_line, end = answer.span
    rows = text[first + line - 1 : first + end_line]
    rows[-1] = rows[-1][: end - 1]
    rows[0] = rows[0][column - 1 :]
    return "\n".join(rows)


# -- the read ------------------------------------------------------------------------------------

SEEN = {
    "direct": ("def f(self, i):\n    return self.rows[i]\n", "self.rows", "self.rows[i]"),
    "alias": ("def f(self, i):\n    r = self.rows\n    return r[i].view(2)\n", "r[i]", "r[i]"),
    "two aliases": (
        "def f(self, i):\n    a = self.rows\n    b = a\n    return b[i]\n",
        "b[i]",
        "b[i]",
    ),
    "walrus": (
        "def f(self, i):\n    if (r := self.rows) is not None:\n        return r[i]\n",
        "r[i]",
        "r[i]",
    ),
    "unpacked": (
        "def f(self, i):\n    a, b = self.rows, self.cols\n    return a[i]\n",
        "a[i]",
        "a[i]",
    ),
    "loop": (
        "def f(self, i):\n    for pool in self.rows:\n        yield pool[i]\n",
        "pool[i]",
        "pool[i]",
    ),
    "context": (
        "def f(self, i):\n    with self.rows as r:\n        return r[i]\n",
        "r[i]",
        "r[i]",
    ),
    "comprehension": ("def f(self, i):\n    return [r[i] for r in self.rows]\n", "r[i]", "r[i]"),
    "getattr": (
        "def f(self, i):\n    return getattr(self, 'rows')[i]\n",
        "getattr",
        "getattr(self, 'rows')[i]",
    ),
    "kept in a list": (
        "def f(self, i):\n    found = []\n    found.append(self.rows)\n    return found[0][i]\n",
        "found[0]",
        "found[0]",
    ),
    "closure": (
        "def f(self, i):\n    r = self.rows\n    def g():\n        return r[i]\n    return g()\n",
        "r[i]",
        "r[i]",
    ),
    "async": (
        "async def f(self, i):\n    return await self.rows[i].get()\n",
        "self.rows",
        "self.rows[i]",
    ),
    "match": (
        "def f(self, i):\n    match self.rows:\n        case [*r]:\n            return r[i]\n",
        "r[i]",
        "r[i]",
    ),
    "tabs": ("class A:\n\tdef f(self, i):\n\t\treturn self.rows[i]\n", "self.rows", "self.rows[i]"),
    "over lines": (
        "def f(self, i):\n    return self.rows[\n        i\n    ]\n",
        "self.rows",
        "self.rows[\n        i\n    ]",
    ),
    "decorated": ("@a\n@b(1)\ndef f(self, i):\n    return self.rows[i]\n", "self.rows", None),
    "nested class": (
        "class A:\n  class B:\n    @property\n    def f(self):\n      return self.rows[0]\n",
        "self.rows",
        "self.rows[0]",
    ),
    "a wide text before it": (
        'def f(self, i):\n    return "héllo 🙂", self.rows[i]\n',
        "self.rows",
        "self.rows[i]",
    ),
}


@pytest.mark.parametrize("source, about, text", SEEN.values(), ids=SEEN)
def test_a_read_is_seen_and_has_its_span(source: str, about: str, text: str | None) -> None:
    answer = asked(source, about, read("rows"))
    assert (answer.verdict, answer.reason) == ("yes", "")
    assert spelled(source, answer) == (text or "self.rows[i]")


NOT_SEEN = {
    "another buffer": ("def f(self, i):\n    return self.cols[i]\n", "self.cols"),
    "an alias of another": ("def f(self, i):\n    r = self.cols\n    return r[i]\n", "r[i]"),
    "a name of another scope": (
        "def f(self, i):\n    def g(r=None):\n        r = self.rows\n    r = 1\n    return r[i]\n",
        "r[i]",
    ),
    "only in a comment": ("def f(self, i):\n    return i.b  # self.rows[i]\n", "i.b"),
    "only in a text": ("def f(self, i):\n    return 'see self.rows', i.b\n", "i.b"),
    "nothing begins there": ("def f(self, i):\n    return self.rows[i]\n", "elf.rows"),
    "a label": ("def f(self, rows):\n    return g(rows=1)\n", "rows=1"),
}


@pytest.mark.parametrize("source, about", NOT_SEEN.values(), ids=NOT_SEEN)
def test_a_read_that_is_not_there_is_contradicted(source: str, about: str) -> None:
    assert asked(source, about, read("rows")).verdict == "no"


def test_a_read_by_a_callee_needs_no_more_than_the_call() -> None:
    source = "def f(self, i):\n    return self.take(i)\n"
    assert asked(source, "self.take", read("rows")).verdict == "no"
    assert asked(source, "self.take", read("rows", here=False)).verdict == "yes"


def test_a_place_that_is_not_known_is_looked_for_on_its_line() -> None:
    source = "def f(self, i):\n    return g(self.cols[i], self.rows[i])\n"
    answer = asked(source, "return", read("rows"), unknown=True)
    assert spelled(source, answer) == "self.rows[i]"
    assert asked(source, "return", read("others"), unknown=True).verdict == "no"


def test_a_call_is_one_of_the_method() -> None:
    source = "def f(pool, i):\n    get = pool.get_rows\n    return get(i), pool.put(i)\n"
    assert asked(source, "get(i)", read("get_rows", kind="call")).verdict == "yes"
    assert asked(source, "pool.put", read("get_rows", kind="call")).verdict == "no"
    assert asked(source, "pool.get_rows", read("get_rows", kind="call")).verdict == "no"


@pytest.mark.parametrize(
    "source, verdict",
    [
        ("def f(self, event):\n    return self.rows\n", "yes"),
        ("def f(self, *, event=None):\n    return self.event, g(event=1)\n", "yes"),
        ("def f(self, event):\n    event.wait()\n", "no"),
        ("def f(self, event):\n    def g():\n        return event\n    return g\n", "no"),
        ("def f(self, event):\n    return f'{event}'\n", "no"),
        ("def f(self, other):\n    return other\n", "no"),
    ],
)
def test_a_dropped_parameter_is_used_nowhere(source: str, verdict: str) -> None:
    answer = asked(source, "def f", read("event", kind="function"))
    assert answer.verdict == verdict
    assert verdict == "no" or spelled(source, answer) == "def f"


# -- the wait ------------------------------------------------------------------------------------

WAITS_FIRST = {
    "plain": "self.counter.wait_until(i)\nreturn self.rows[i]",
    "behind a test for the gate": """
        if self.counter is not None:
            self.counter.wait_until(i)
        return self.rows[i]""",
    "behind its truth": "if self.counter:\n    self.counter.wait_until(i)\nreturn self.rows[i]",
    "an alias of the gate": "c = self.counter\nc.wait_until(i - 1)\nreturn self.rows[i]",
    "before a branch": "self.counter.wait_until(i)\nif i:\n    return self.rows[i]",
    "within the same branch": "if i:\n    self.counter.wait_until(i)\n    return self.rows[i]",
    "on one line": "self.counter.wait_until(i); return self.rows[i]",
    "an index of the parameter": "k = i - 1\nself.counter.wait_until(k)\nreturn self.rows[k]",
    "the whole device": "torch.cuda.synchronize()\nreturn self.rows[i]",
    "a generic wait": "self.counter.wait(i)\nreturn self.rows[i]",
    "awaited": "await self.counter.wait_until(i)\nreturn self.rows[i]",
}


@pytest.mark.parametrize("body", WAITS_FIRST.values(), ids=WAITS_FIRST)
def test_a_wait_that_comes_first_contradicts(body: str) -> None:
    source = "async def f(self, i):\n" + textwrap.indent(textwrap.dedent(body).lstrip(), "    ")
    answer = asked(source, "self.rows", read("rows", GATE))
    assert answer.verdict == "no"
    assert "comes first on every path" in answer.reason


NOT_FIRST = {
    "after the read": "r = self.rows[i]\nself.counter.wait_until(i)\nreturn r",
    "in another branch": "if i:\n    self.counter.wait_until(i)\nreturn self.rows[i]",
    "in the other branch": """
        if self.counter is None:
            self.counter.wait_until(i)
        else:
            return self.rows[i]""",
    "where the gate is missing": """
        if not self.counter:
            self.counter.wait_until(i)
        return self.rows[i]""",
    "in an elif": """
        if i:
            pass
        elif self.counter:
            self.counter.wait_until(i)
        return self.rows[i]""",
    "for another index": "self.counter.wait_until(j)\nreturn self.rows[i]",
    "for a constant": "self.counter.wait_until(0)\nreturn self.rows[i]",
    "for what the index was": "self.counter.wait_until(i)\ni = i + 1\nreturn self.rows[i]",
    "for what a pattern made of it": """
        self.counter.wait_until(i)
        match j:
            case [i]:
                pass
        return self.rows[i]""",
    "on what a pattern made of it": """
        c = self.counter
        match j:
            case [c]:
                pass
        c.wait_until(i)
        return self.rows[i]""",
    "for another value of a name": """
        k = i
        self.counter.wait_until(k)
        k = j
        return self.rows[k]""",
    "on another gate": "self.other.wait_until(i)\nreturn self.rows[i]",
    "on another object's": "pool.counter.wait_until(i)\nreturn self.rows[i]",
    "on either of two": """
        c = self.counter
        if i:
            c = self.other
        c.wait_until(i)
        return self.rows[i]""",
    "in a try": """
        try:
            self.counter.wait_until(i)
        except RuntimeError:
            pass
        return self.rows[i]""",
    "in a lambda": "g = lambda: self.counter.wait_until(i)\nreturn self.rows[i]",
    "in a function of its own": """
        def g():
            self.counter.wait_until(i)
        return self.rows[i]""",
    "in a loop": "for i in range(0):\n    self.counter.wait_until(i)\nreturn self.rows[i]",
    "in half an expression": "i and self.counter.wait_until(i)\nreturn self.rows[i]",
    "another verb": "self.counter.advance(i)\nreturn self.rows[i]",
    "one stream only": "self.stream.synchronize()\nreturn self.rows[i]",
}


@pytest.mark.parametrize("body", NOT_FIRST.values(), ids=NOT_FIRST)
def test_a_wait_that_may_not_come_first_contradicts_nothing(body: str) -> None:
    source = "def f(self, i, j, pool):\n" + textwrap.indent(textwrap.dedent(body).lstrip(), "    ")
    assert asked(source, "self.rows", read("rows", GATE)).verdict == "yes"


def test_a_method_waits_only_where_it_is_known_to() -> None:
    source = "def f(self, i):\n    self._ready(i)\n    return self.rows[i]\n"
    known = Waits(WAITS.primitive, ("_ready",))
    assert asked(source, "self.rows", read("rows", GATE)).verdict == "yes"
    assert asked(source, "self.rows", read("rows", GATE), waits=known).verdict == "no"


def test_of_a_wait_that_is_gone_any_of_its_name_counts() -> None:
    source = "def f(self, i):\n    self.pool.event.wait(i)\n    return self.rows[i]\n"
    assert asked(source, "self.rows", read("rows", "event")).verdict == "no"
    assert asked(source, "self.rows", read("rows", "stream")).verdict == "yes"


@pytest.mark.parametrize(
    "line, text",
    [
        ("g(self.counter.wait_until(i), self.take(i))", "self.counter.wait_until(i)"),
        ("self._ready(i)", "self._ready(i)"),
        ("return quantized(self.get_rows(i))", "self.get_rows(i)"),
        ("return self.waited_rows", "self.waited_rows"),
    ],
)
def test_the_wait_of_a_sibling_has_its_span(line: str, text: str) -> None:
    source = f"def f(self, i):\n    {line}\n"
    answer = asked(source, line, wait=True, unknown=True)
    assert answer.verdict == "yes"
    assert spelled(source, answer) == text


def test_a_sibling_that_does_nothing_there_is_contradicted() -> None:
    assert asked("def f(self, i):\n    x = i + 1\n", "x =", wait=True, unknown=True).verdict == "no"


# -- what cannot be read -------------------------------------------------------------------------

UNREADABLE = {
    "sum": "def f(self, i):\n    return " + "+".join("i" * 500) + "\n",
    "chain": "def f(self, i):\n    return " + " and ".join("i" * 500) + "\n",
    "attributes": "def f(self, i):\n    return i" + ".a" * 500 + "\n",
    "texts in a row": "def f(self, i):\n    return " + "''" * 50_000 + "\n",
    "import": f"def f(self, i):\n    import {'.'.join('a' * 50_000)}\n",
    "brackets": "def f(self, i):\n    return " + "(" * 5_000 + ")" * 5_000 + "\n",
    "length": "def f(self, i):\n" + "    i\n" * (MOST_LINES + 1),
    "width": "def f(self, i):\n    return [" + "i," * 50_000 + "]\n",
    "no Python": "def f(self, i):\n    return ]\n",
    "shared line": "def f(self, i):\n    return 1\nelse: pass\n",
}


@pytest.mark.parametrize("source", UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_too_much_is_not_read(source: str) -> None:
    answer = Answers(None).of(
        Text(source.encode()).passage(1, source.count("\n")), Question(2, 12, WAITS, read("rows"))
    )
    assert answer.verdict == "unreadable"
    assert answer.reason


def test_comments_and_texts_may_be_of_any_length() -> None:
    source = f"def f(self, i):\n    # {'x' * 1_000_000}\n    return self.rows[i], '{'y' * 10**6}'\n"
    answer = Answers(None).of(
        Text(source.encode()).passage(1, 3), Question(3, 12, WAITS, read("rows"))
    )
    assert answer.span == (3, 12, 3, 24)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_they_do(end: str) -> None:
    source = (
        "class A:\n    def f(self, i):\n        '''a\n        b'''\n        return self.rows[i]\n"
    )
    passage = Text(source.replace("\n", end).encode()).passage(2, 5)
    answer = Answers(None).of(passage, Question(4, 16, WAITS, read("rows")))
    assert answer.span == (4, 16, 4, 28)


def test_a_file_says_how_it_is_encoded() -> None:
    source = "# coding: latin-1\ndef f(self, i):\n    return 'é', self.rows[i]\n"
    passage = Text(source.encode("latin-1")).passage(2, 3)
    assert Answers(None).of(passage, Question(2, 17, WAITS, read("rows"))).verdict == "yes"
    with pytest.raises(Unreadable, match="decoded"):
        Text(b"def f():\n    return '\xff'\n").passage(1, 2)


def test_a_mark_before_the_first_line_is_no_column() -> None:
    passage = Text(b"\xef\xbb\xbfdef f(self, i): return self.rows[i]\n").passage(1, 1)
    answer = Answers(None).of(passage, Question(1, 24, WAITS, read("rows")))
    assert answer.span == (1, 24, 1, 36)


def test_a_line_without_a_function_is_said_to_be_none() -> None:
    with pytest.raises(Unreadable, match="no function begins on line 2"):
        Text(b"def f():\n    return 1\n").passage(2, 2)
