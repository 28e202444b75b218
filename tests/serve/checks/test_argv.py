"""argparse itself is the judge of what is said of a command line."""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Sequence
from textwrap import dedent
from typing import NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.model import Hit
from auditor.serve.checks.seen import ServeView
from auditor.serve.checks.table import SERVE_CHECKS
from auditor.serve.scripts.command import launch_of
from auditor.serve.scripts.words import Setting, Word
from auditor.serve.tables.facts import Flag, Tables
from auditor.serve.tables.flags import flags
from tests.serve.checks.launches import BOOK, Files
from tests.serve.tables.trees import tree

DECLARED = dedent('''\
    import argparse
    import json
    import re


    def with_unit(value: str) -> int:
        """``4k`` is 4000."""
        value = value.strip()
        units = {"k": 1000, "M": 1000000}
        match = re.fullmatch(r"(\\d+(?:\\.\\d+)?)(k|M)", value)
        if match:
            number, unit = match.groups()
            return int(float(number) * units[unit])
        try:
            return int(value)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{value} is no number")


    def listed(value):
        try:
            return json.loads(value)
        except json.JSONDecodeError:
            raise argparse.ArgumentTypeError(f"{value} is no JSON")


    def nothing_or_text(value):
        if value == "None":
            return None
        return value


    class Old(argparse.Action):
        def __call__(self, parser, namespace, values, option_string=None):
            print(f"{option_string} is deprecated")
            setattr(namespace, self.dest, values)


    class Gone(argparse.Action):
        def __init__(self, option_strings, dest, nargs=0, **kwargs):
            super().__init__(option_strings, dest, nargs=nargs, **kwargs)

        def __call__(self, parser, namespace, values, option_string=None):
            raise argparse.ArgumentError(self, "is gone")


    def add(parser):
        parser.add_argument("--model-path", "--model", type=str, required=True)
        parser.add_argument("--tensor-parallel-size", "--tp-size", "--tp", type=int, dest="tp_size")
        parser.add_argument("--mem-fraction-static", type=float)
        parser.add_argument("--context-length", type=with_unit)
        parser.add_argument("--quantization", "-q", type=str, choices=["awq", "fp8"])
        parser.add_argument("--level", type=int, choices=[1, 2], default=1)
        parser.add_argument("--limits", type=json.loads)
        parser.add_argument("--hooks", type=listed)
        parser.add_argument("--param", type=nothing_or_text)
        parser.add_argument("--cores", type=int, nargs="+")
        parser.add_argument("--lora-paths", type=str, nargs="*")
        parser.add_argument("--checksum", type=str, nargs="?", const="")
        parser.add_argument("--pair", type=float, nargs=2)
        parser.add_argument("--modules", type=str, nargs="*", choices=["q", "k"])
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--trust-remote-code", action="store_true")
        parser.add_argument("--overlap", action=argparse.BooleanOptionalAction, default=True)
        parser.add_argument("--tag", action="append")
        parser.add_argument("--old-name", type=str, action=Old)
        parser.add_argument("--gone", action=Gone)
    ''')
METHOD = """
class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        add(parser)
"""
ODD: tuple[str, ...] = (
    "four",
    "80%",
    "32k",
    "1.5k",
    "8K",
    "-1",
    "-1.5",
    "-.5",
    "1",
    "2",
    "7",
    "2.0",
    "0.8",
    "nan",
    "1e3",
)
PLAIN = ("/m/x", "awq", "fp8", "q", "k", "true", "off", "None", "a:b", "x y", " ", "-", "=", "1,2")
JSON = ('{"a": 1}', '{"a":1}', "[]", "['a']", "{a:1}", "{a: 1}")
WRONG: tuple[str, ...] = ("--", "-x", "-5x", "--5", "---host", "-tp", "-model", "-qfp8", "-qint4")
WRONG += (
    "--dtype auto",
    "--tp 4",
    "--tp=4 8",
    "--host=a b",
    "\u2014tp",
    "\u2013-host",
    "--no-overlap",
)
WRONG += ("--no-such", "--no-such=1", "--t", "--m", "--mo", "--model-p", "--trust", "--ove")
WRONG += ("--level=1", "--level=3", "--limits=[1]", "--limits=x", "--cores=1", "--cores=x")
WRONG += (
    "--pair=1",
    "--trust-remote-code=1",
    "--no-overlap=1",
    "--checksum=",
    "--gone",
    "--enable_x",
)


class Refused(Exception):
    """argparse would end here."""


class Parser(argparse.ArgumentParser):
    """One that says so instead of ending."""

    def error(self, message: str) -> NoReturn:
        raise Refused(message)


def declared_parser() -> Parser:
    """The parser as the text makes it."""
    scope: dict[str, object] = {}
    exec(compile(DECLARED, "declared", "exec"), scope)
    parser = Parser(add_help=False)
    add = scope["add"]
    assert callable(add)
    add(parser)
    return parser


def table_parser(table: Sequence[Flag]) -> Parser:
    """A parser made of what a table says."""
    kinds: dict[str, Callable[[str], object]] = {"int": int, "float": float, "json": json.loads}
    parser = Parser(add_help=False)
    for flag in table:
        names = [name for name in flag.names if name not in ("-h", "--help")]
        if not names:
            continue
        if not flag.takes_value:
            parser.add_argument(*names, *flag.negation, dest=flag.dest, action="store_true")
            continue
        nargs = int(flag.nargs) if flag.nargs.isdigit() else flag.nargs or None
        read = kinds.get(flag.reads, str)
        choices = None if flag.choices is None else [read(choice) for choice in flag.choices]
        parser.add_argument(
            *names, dest=flag.dest, type=read, nargs=nargs, choices=choices, required=flag.required
        )
    return parser


def refusal(parser: Parser, words: Sequence[str]) -> str:
    """What argparse says of the words; empty where it takes them."""
    try:
        parser.parse_args(list(words))
    except (Refused, argparse.ArgumentError) as problem:
        return str(problem) or "refused"
    return ""


def told(table: Tables, words: Sequence[str], form: str = "shell") -> list[tuple[str, Hit]]:
    """What the rules on flags, values and words hold for an end of the start.

    A word with ``$`` is one that a run decides.
    """
    program = [Word(text, "serve.sh", 1) for text in ("python", "-m", "sglang.launch_server")]
    given = [
        Word(text, "serve.sh", 2 + index, resolved="$" not in text)
        for index, text in enumerate(words)
    ]
    launch = launch_of([*program, *given], Setting(), form)
    assert launch is not None
    view = ServeView((launch,), table, (), Files((), lambda path: None))
    found = [
        (rule.id, hit)
        for rule in BOOK.rules
        if rule.check in ("serve-flags", "serve-values", "serve-words") and rule.severity == "high"
        for hit in SERVE_CHECKS[rule.check].judge(rule.params, view)
        if hit.confidence == "high"
    ]
    view.templates.close()
    return found


TABLE = Tables(flags=flags(tree(server_args=DECLARED + METHOD)))
NAMES = [name for flag in TABLE.flags for name in flag.names]
WORDS = st.sampled_from([*NAMES, *NAMES, *ODD, *PLAIN, *JSON, *WRONG])
VALUES = st.sampled_from([*ODD, *PLAIN, *JSON])
PAIRS = st.tuples(st.sampled_from(NAMES), VALUES).map(list)
JOINED = st.builds("{}={}".format, st.sampled_from(NAMES), VALUES).map(lambda word: [word])
MODEL = st.sampled_from([["--model-path", "/m"], ["--model", "/m"], ["--model-path=/m"], []])


def _vector(parts: list[list[str]], model: list[str], first: bool) -> list[str]:
    ordered = [model, *parts] if first else [*parts, model]
    return [word for part in ordered for word in part]


# Of a command without any words nothing is said: it is what others put words to.
VECTORS = st.builds(
    _vector,
    st.lists(WORDS.map(lambda word: [word]) | PAIRS | JOINED, max_size=3),
    MODEL,
    st.booleans(),
).filter(bool)


def test_the_table_says_what_the_text_declares() -> None:
    rows = {flag.names[0]: (flag.reads, flag.nargs, flag.required) for flag in TABLE.flags}
    assert rows["--model-path"] == ("", "", True)
    assert rows["--context-length"] == ("int", "", False)
    assert rows["--hooks"] == rows["--limits"] == ("json", "", False)
    assert rows["--param"] == ("", "", False)
    assert rows["--pair"] == ("float", "2", False)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(VECTORS)
def test_what_argparse_refuses_is_told_and_nothing_else(words: list[str]) -> None:
    found = told(TABLE, words)
    problem = refusal(declared_parser(), words)
    assert bool(found) == bool(problem), (problem, found)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(VECTORS)
def test_the_table_alone_makes_the_same_parser(words: list[str]) -> None:
    numbers = {name for flag in TABLE.flags if flag.patterns for name in flag.names}
    if numbers.isdisjoint(words) and "--gone" not in words:
        made = refusal(table_parser(TABLE.flags), words)
        assert bool(made) == bool(refusal(declared_parser(), words))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(VECTORS, st.randoms(use_true_random=False))
def test_words_that_a_run_decides_are_refused_only_where_nothing_helps(
    words: list[str], chance: random.Random
) -> None:
    """One unknown word is one value, ``$ARGS`` any words."""
    holes = chance.sample(range(len(words)), min(len(words), chance.randint(1, 2)))
    unknown = {hole: chance.choice(["$X", "$ARGS"]) for hole in holes}
    found = told(TABLE, [unknown.get(index, word) for index, word in enumerate(words)])
    if not found:
        return
    parser = declared_parser()
    pool = [*NAMES, *ODD, *PLAIN, *JSON]
    for _ in range(20):
        tried: list[str] = []
        for index, word in enumerate(words):
            if unknown.get(index) == "$X":
                tried.append(chance.choice(["4", "/m", "q", "[]"]))
            elif index in unknown:
                model = chance.choice([[], ["--model-path", "/m"]])
                tried += [*chance.choices(pool, k=chance.randint(0, 2)), *model]
            else:
                tried.append(word)
        assert refusal(parser, tried), (tried, found)


@pytest.mark.parametrize(
    ("words", "rules"),
    [
        ("--model-path /m foo", ["stray-word"]),
        ("--model-path /m $X foo", []),
        ("--model-path /m --host $X foo", []),
        ("--model-path /m $ARGS foo", []),
        ("--model-path /m --host $X --tp four", ["value-of-another-type"]),
        ("--model-path /m $ARGS --tp four", ["value-of-another-type"]),
        ("--host $X", ["missing-flag"]),
        ("--host h $X", []),
        ("--host $ARGS", []),
        ("--host $ARGS --tp", ["flag-without-value"]),
        ("--model-path /m --host $ARGS", []),
        ("--model-path=$X foo", ["stray-word"]),
        ("--model-path /m --cores 1 $X 2", []),
        ("--model-path /m --cores $X two", []),
        ("--model-path /m --pair 1", ["flag-without-value"]),
        ("--model-path /m --pair 1 $X", []),
        ("--model-path /m --pair 1 2 3", ["stray-word"]),
        ("--model-path /m --pair=1 2", ["flag-without-value", "stray-word"]),
        ("--model-path /m --trust-remote-code true", ["switch-with-value"]),
        ("--model-path /m --trust-remote-code true foo", ["switch-with-value"]),
        ("--model-path /m --no-such foo", ["unknown-flag"]),
        ("--model-path /m --old-name x y", ["stray-word"]),
        ("--modle-path /m", ["unknown-flag"]),
        ("--config f --tp 4", ["unknown-flag"]),
        ("--model-path /m -1e5", ["stray-word"]),
        ("--model-path /m --tp -1e5", ["value-of-another-type"]),
        ("--model-path /m --mem-fraction-static -1e5", []),
        ("--model-path /m [OPTIONS]", []),
        ("--model-path /m foo && bar", ["stray-word"]),
        ("--model-path /m ...", []),
        ("--model-path /m <port>", []),
        ("--model-path /m --host -q", ["flag-without-value", "flag-without-value"]),
    ],
)
def test_what_is_said_of_a_few_words(words: str, rules: list[str]) -> None:
    assert sorted(rule for rule, _ in told(TABLE, words.split())) == rules


@pytest.mark.parametrize(
    ("words", "message", "fix"),
    [
        (
            ["a b"],
            "'a b' belongs to no flag, since --model-path takes one value: ",
            "take it out, or write the flag it is for",
        ),
        (
            ["--tp", "4", "8", "9"],
            "'8 9' belongs to no flag, since --tp takes one value: ",
            "take it out, or write the flag it is for",
        ),
        (["--pair", "1", "2", "3"], "'3' belongs to no flag, since --pair takes 2 values: ", ""),
        (
            ["--trust-remote-code", "x"],
            "'x' belongs to no flag, since --trust-remote-code takes no value: ",
            "",
        ),
        (
            ["--host=h", "--tp 4"],
            "'--tp 4' is one word, and no flag has a blank in its name: ",
            "write --tp and 4 as two words, or --tp=4",
        ),
        (
            ["--host=h", "\u2014tp", "4"],
            "'\u2014tp 4' begins with a typographic dash (\u2014), which makes it no flag: ",
            "write --tp",
        ),
        (
            ["--host=h", "\u2013nope"],
            "'\u2013nope' begins with a typographic dash",
            "write hyphens",
        ),
        (["--", "--tp", "4"], "behind '--' no flag is read", "take '--' out"),
        ([" "], "a blank is a word of the command line", ""),
    ],
)
def test_a_stray_word_is_told_with_its_reason(words: list[str], message: str, fix: str) -> None:
    first = next(
        hit for rule, hit in told(TABLE, ["--model-path=/m", *words]) if rule == "stray-word"
    )
    assert first.message.startswith(message)
    assert first.fix.startswith(fix)


def test_a_word_before_all_flags() -> None:
    ((_, hit),) = told(TABLE, ["foo", "--model-path", "/m"])
    assert hit.message == (
        "'foo' belongs to no flag: the server ends with 'unrecognized arguments'"
    )


def test_a_list_in_python_may_be_joined_and_get_more_words() -> None:
    assert told(TABLE, ["--model-path=/m", "--tp 4"], "python") == []
    assert told(TABLE, ["--tp=4"], "python") == []
    assert [rule for rule, _ in told(TABLE, ["--model-path=/m", "x"], "python")] == ["stray-word"]


def test_a_flag_of_some_runs_leaves_open_whose_the_next_word_is() -> None:
    table, places = TABLE, Files((), lambda path: None)
    words = [Word(text, "serve.sh", 1) for text in ("python", "-m", "sglang.launch_server")]
    words += [Word(text, "serve.sh", 1) for text in ("--model-path", "/m")]
    maybe = Word("--host", "serve.sh", 2, conditional=True)
    for rest in ([maybe, Word("x", "serve.sh", 3)], [Word("x", "serve.sh", 3, conditional=True)]):
        launch = launch_of([*words, *rest], Setting(), "shell")
        assert launch is not None
        page = BOOK.rule("stray-word")
        view = ServeView((launch,), table, (), places)
        assert list(SERVE_CHECKS[page.check].judge(page.params, view)) == []
