"""What the reader makes of single words, held against what bash makes of them."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.serve.scripts.shell import read_shell

BASH = shutil.which("bash")
pytestmark = pytest.mark.skipif(BASH is None, reason="bash judges")

SETUP = "A=7\nB=3\nN=-2\nT=a.b-c.d\nE=\nW='one two  three'\nL=(x 'y z' '' w)\n"


def by_bash(word: str) -> list[str] | None:
    """The words that bash passes; None where it refuses."""
    script = f"{SETUP}printf '%s\\0' X {word}\n"
    assert BASH is not None
    done = subprocess.run(
        [BASH, "-f", "-c", script], capture_output=True, timeout=10, check=False, env={}
    )
    if done.returncode or done.stderr:
        return None
    return done.stdout.decode("utf-8", "replace").split("\0")[1:-1]


def by_reader(word: str) -> list[str] | None:
    """The same by the reader; None where any of them is not known to it."""
    text = f"{SETUP}sglang serve m --name X {word}\n"
    launches, skipped = read_shell(text.encode(), "run.sh", lambda path: None)
    assert not skipped
    (launch,) = launches
    if not all(passed.resolved for passed in launch.words):
        return None
    return [passed.text for passed in launch.words][4:]


def agree(word: str) -> None:
    """Where bash and the reader both know what a word is, it is the same."""
    expected = by_bash(word)
    if expected is None:
        return
    found = by_reader(word)
    if found is not None:
        assert found == expected, word


@pytest.mark.parametrize(
    "word",
    [
        "{a,b}{1,2}",
        "x{1..3}y",
        "{01..10..3}",
        "{c..a}",
        '{"a":1,"b":[2,{}]}',
        "a{b}c",
        "{a,{b,c}}",
        "'{a,b}'",
        "$((A * B - N % 4))",
        "$((A > B && N < 0 ? A ** 2 : 1))",
        "$((x = A + 1, x++, x))",
        "$((0x1f | 010))",
        "${T%.*} ${T%%.*} ${T#*.} ${T##*.}",
        "${T/./_} ${T//./_} ${T/#a/z} ${T/%d/z}",
        "${T^^} ${T^} ${T:2:3} ${T: -2} ${#T}",
        '"${L[@]}" ${#L[@]} ${L[-1]} "${L[@]:1:2}"',
        '$W "$W" x$W',
        "${E:-d} ${E-d} ${E:+d} ${E+d}",
        "$'a\\tb\\x41\\101'",
        "a\"b $A\"'c $A'\\ d",
        '"pre${L[@]}post"',
        "$(echo a; printf '%s-' b c)",
        "${L[*]}",
        "`# note` z",
    ],
)
def test_words_are_those_of_bash(word: str) -> None:
    found = by_reader(word)
    assert found is not None
    assert found == by_bash(word)


NUMBERS = st.sampled_from(["1", "2", "7", "A", "B", "N", "$A", "${B}", "0", "0x10"])
OPERATORS = st.sampled_from(
    ["+", "-", "*", "/", "%", "<", ">=", "==", "&&", "||", "&", "|", "^", "<<", "!="]
)


@st.composite
def sums(draw: st.DrawFn, depth: int = 0) -> str:
    """An arithmetic expression."""
    if depth > 2 or draw(st.booleans()):
        return draw(st.sampled_from(["", "-", "!"])) + draw(NUMBERS)
    left, right = draw(sums(depth + 1)), draw(sums(depth + 1))
    inner = f"{left} {draw(OPERATORS)} {right}"
    return f"({inner})" if draw(st.booleans()) else inner


@settings(max_examples=60, deadline=None, derandomize=True)
@given(sums())
def test_arithmetic(expression: str) -> None:
    agree(f"$(({expression}))")


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.text(alphabet="ab{},.$'\"\\\\ 12", max_size=12))
def test_any_word(word: str) -> None:
    quotes = word.replace("\\\\", "")
    if "$$" in word:  # a process id, behind which the grammar of statements loses its way
        return
    if "{}" in word or word.count("{") != word.count("}"):  # bash has its own ways with these
        return
    if "$}" in word or "$," in word:  # braces may join the sign with a name behind them
        return
    if quotes.count("'") % 2 or quotes.count('"') % 2 or word.endswith("\\"):
        return
    agree(word)
