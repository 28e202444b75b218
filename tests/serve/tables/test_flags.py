"""The options of small trees, one for each way in which a release declares them."""

from __future__ import annotations

import pytest

from auditor.serve.tables.constants import Tree
from auditor.serve.tables.facts import Flag
from auditor.serve.tables.flags import flags, resolve
from tests.serve.tables.trees import tree

ENTRY = """
    def prepare_server_args(argv):
        parser = argparse.ArgumentParser(prog="serve")
        ServerArgs.add_cli_args(parser)
        return parser.parse_args(argv)
"""

CALLS = """
    import argparse
    from sglang.srt.lists import BACKENDS, Kind
    from sglang.srt.more import add_more

    class GoneAction(argparse.Action):
        def __init__(self, option_strings, dest, error_message=None, nargs=0, **kwargs):
            self.error_message = error_message
            super().__init__(option_strings, dest, nargs=nargs, **kwargs)

        def __call__(self, parser, namespace, values, option_string=None):
            if self.error_message is not None:
                parser.error(self.error_message)
            print(f"{option_string} is deprecated")

    class RenamedAction(argparse.Action):
        def __init__(self, option_strings, dest, new_flag=None, **kwargs):
            self.new_flag = new_flag
            super().__init__(option_strings, dest, **kwargs)

        def __call__(self, parser, namespace, values, option_string=None):
            print(f"{option_string} is deprecated, use {self.new_flag}")

    class ServerArgs:
        width: int = 1

        @staticmethod
        def add_cli_args(parser):
            parser.add_argument("--width", "--w", type=int, default=ServerArgs.width, help="Wide.")
            parser.add_argument("--quiet", action="store_true", help="Say less.")
            parser.add_argument("--level", type=int, choices=[0, 1, 2])
            own = list(BACKENDS.keys())
            parser.add_argument("--backend", choices=["auto"] + own, help=f"One of {own}.")
            parser.add_argument("--kind", choices=[k.value for k in Kind])
            parser.add_argument("--found", choices=look_around())
            parser.add_argument("--buckets", type=float, nargs="+")
            parser.add_argument("--label", action="append")
            parser.add_argument("--fast", action=argparse.BooleanOptionalAction)
            parser.add_argument("--gone", action=GoneAction, error_message="Use --width instead.")
            parser.add_argument("--idle", action=GoneAction, help="Note: --idle is deprecated now.")
            parser.add_argument("--broad", action=RenamedAction, new_flag="--width", dest="width")
            parser.add_argument("--old", action="store_true", help="[Deprecated] Use --quiet.")
            parser.add_argument("--about", help="Replaces the deprecated --old.")
            group = parser.add_argument_group("more")
            group.add_argument("--grouped")
            if True:
                parser.add_argument("--nested")
            add_more(parser, "extra")
"""

LISTS = """
    import enum

    BACKENDS = {"one": 1, "two": 2}

    class Kind(enum.Enum):
        A = "a"
        B = "b"
"""

MORE = """
    def add_more(target, prefix):
        target.add_argument(f"--{prefix}-size", type=int)
"""


def _calls() -> dict[str, Flag]:
    found = flags(tree(server_args=CALLS + ENTRY, lists=LISTS, more=MORE))
    return {name: flag for flag in found for name in flag.names}


def test_calls_are_read_in_their_order_and_with_their_place() -> None:
    found = flags(tree(server_args=CALLS + ENTRY, lists=LISTS, more=MORE))
    assert [flag.names[0] for flag in found][:4] == ["-h", "--width", "--quiet", "--level"]
    width = found[1]
    assert width.names == ("--width", "--w")
    assert (width.dest, width.type, width.default) == ("width", "int", "1")
    assert width.path == "sglang/srt/server_args.py"
    assert (CALLS + ENTRY).splitlines()[width.line - 1].strip().startswith("parser.add_argument(")


def test_a_switch_takes_no_value() -> None:
    found = _calls()
    assert not found["--quiet"].takes_value
    assert found["--width"].takes_value


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("--level", ("0", "1", "2")),
        ("--backend", ("auto", "one", "two")),
        ("--kind", ("a", "b")),
        ("--found", None),
        ("--width", None),
    ],
)
def test_choices_are_evaluated_or_unknown(name: str, choices: tuple[str, ...] | None) -> None:
    assert _calls()[name].choices == choices


def test_many_values_repetition_and_negation() -> None:
    found = _calls()
    assert found["--buckets"].nargs == "+"
    assert found["--label"].repeatable
    assert not found["--buckets"].repeatable
    assert found["--fast"].negation == ("--no-fast",)
    assert not found["--fast"].takes_value
    assert found["--width"].negation == ()


def test_retired_options_say_what_to_use_and_whether_they_end_the_start() -> None:
    found = _calls()
    gone, idle, broad, old = (found[n] for n in ("--gone", "--idle", "--broad", "--old"))
    assert gone.refused
    assert gone.deprecated == "Use --width instead."
    assert gone.replacement == "--width"
    assert not gone.takes_value
    assert not idle.refused
    assert idle.deprecated
    assert not idle.replacement
    assert (broad.replacement, broad.dest, broad.takes_value) == ("--width", "width", True)
    assert (old.replacement, old.refused) == ("--quiet", False)
    assert not found["--about"].deprecated


def test_the_parser_is_followed_into_groups_branches_and_other_files() -> None:
    found = _calls()
    assert {"--grouped", "--nested", "--extra-size"} <= found.keys()
    assert found["--extra-size"].path == "sglang/srt/more.py"


FIELDS = """
    import argparse
    import dataclasses
    from typing import List, Literal, Optional
    from sglang.srt.args import A, Arg, NS, add_cli_args_from_dataclass

    SORTS = ["fifo", "lifo"]
    if environment_says_so():
        SORTS.append("random")

    class Base:
        shared: A[int, "Of the base."] = 3

    @dataclasses.dataclass
    class ServerArgs(Base):
        model_path: A[str, Arg(help="What to load.", aliases=["--model"])]
        host: A[str, "Where " "to listen."] = "127.0.0.1"
        rows: A[int, Arg(help="How many.", cli_name="--row-count"), NS("memory")] = 1
        loud: A[bool, "Say more."] = False
        maybe: A[Optional[bool], "Say something."] = None
        mode: A[Optional[Literal["fast", "slow"]], "How."] = None
        level: A[Literal[1, 2] | None, "How much."] = None
        sort: A[str, Arg(help="Order.", choices=SORTS)] = "fifo"
        names: A[Optional[List[str]], "Which."] = None
        whole: A[Optional[List[str]], Arg(help="As one.", type_parser=split)] = None
        pair: A[List[int], Arg(help="Two.", nargs="*")] = None
        swap: A[bool, Arg(help="Either.", action=argparse.BooleanOptionalAction)] = True
        loaders: A[dict, Arg(help="x", no_cli=True)] = None
        plain: int = 2

        @staticmethod
        def add_cli_args(parser):
            add_cli_args_from_dataclass(parser, ServerArgs)
            parser.add_argument("--config", type=str)
"""

ARGS = """
    from typing import Annotated
    A = Annotated

    class Arg: ...
    class NS: ...

    def add_cli_args_from_dataclass(parser, cls):
        for field in fields(cls):
            parser.add_argument("--" + field.name)
"""


def _fields() -> dict[str, Flag]:
    found = flags(tree(server_args=FIELDS + ENTRY, args=ARGS))
    return {name: flag for flag in found for name in flag.names}


def test_annotated_fields_are_options_by_the_rules_of_the_tree() -> None:
    found = _fields()
    assert found["--model"].names == ("--model-path", "--model")
    assert found["--host"].help == "Where to listen."
    assert (found["--row-count"].dest, found["--row-count"].default) == ("rows", "1")
    assert not {"--rows", "--loaders", "--plain"} & found.keys()
    assert found["--shared"].default == "3"
    assert found["--config"].takes_value


@pytest.mark.parametrize(
    ("name", "takes_value", "nargs", "choices"),
    [
        ("--loud", False, "", None),
        ("--maybe", False, "", None),
        ("--mode", True, "", ("fast", "slow")),
        ("--level", True, "", ("1", "2")),
        ("--names", True, "+", None),
        ("--whole", True, "", None),
        ("--pair", True, "*", None),
        ("--swap", False, "", None),
    ],
)
def test_the_type_of_a_field_says_what_its_option_takes(
    name: str, takes_value: bool, nargs: str, choices: tuple[str, ...] | None
) -> None:
    flag = _fields()[name]
    assert (flag.takes_value, flag.nargs, flag.choices) == (takes_value, nargs, choices)


def test_a_choice_that_a_condition_adds_is_told_apart() -> None:
    sort = _fields()["--sort"]
    assert sort.choices == ("fifo", "lifo")
    assert sort.conditional_choices == ("random",)


ASSEMBLED = """
    import argparse
    import sys
    from sglang.srt.args import add_cli_args_from_dataclass
    from sglang.srt.fields import collect
    from sglang.srt.fields.memory import Memory
    from sglang.srt.fields.serving import Serving

    class ServerArgs:
        @staticmethod
        def add_cli_args(parser):
            add_cli_args_from_dataclass(parser, ServerArgs)
            parser.add_argument("--parser", choices=["auto"] + _parsers())

    def _parsers():
        module = sys.modules.get("sglang.srt.big")
        if module is not None:
            return list(module.Big.table)
        from sglang.srt.names import NAMES
        return list(NAMES)

    _SOURCES = [Memory, Serving]
    _annotations, _defaults = collect(_SOURCES)
    ServerArgs = msgspec.defstruct("ServerArgs", list(_annotations.items()))
"""


def test_a_class_that_is_assembled_has_the_options_of_its_parts() -> None:
    text = """
        import msgspec
        from sglang.srt.args import A, Arg

        class {name}(msgspec.Struct):
            _NS_PATH = "x"
            {field}: A[int, "Some."] = 1
    """
    found = flags(
        tree(
            server_args=ASSEMBLED + ENTRY,
            args=ARGS,
            fields__memory=text.format(name="Memory", field="page_size"),
            fields__serving=text.format(name="Serving", field="stream_every"),
            names='NAMES = ("a", "b")',
        )
    )
    by_name = {flag.names[0]: flag for flag in found}
    assert by_name["--page-size"].path == "sglang/srt/fields/memory.py"
    assert "--stream-every" in by_name
    assert by_name["--parser"].choices == ("auto", "a", "b")


def test_an_option_of_unknown_name_is_noted() -> None:
    text = "class ServerArgs:\n    def add_cli_args(p):\n        p.add_argument('--' + x())\n"
    small = tree(server_args=text)
    assert flags(small) == ()
    assert small.notes == ["sglang/srt/server_args.py:3: an option whose name is computed"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ServerArgs = 1",
        "class ServerArgs: pass",
        "class ServerArgs(ServerArgs): x: A[int, 'y'] = 1\n",
        "class ServerArgs:\n    def add_cli_args(p):\n        ServerArgs.add_cli_args(p)\n",
        "def prepare_server_args():\n    p = ArgumentParser()\n    p.add_argument(*x, **y)\n",
        "class ServerArgs:\n    x: A[" + "(" * 150 + "1" + ")" * 150 + ", 'y'] = 1\n",
        "class ServerArgs:\n    def add_cli_args(p):\n        p.add_argument('--x', help="
        + "+".join(["a"] * 5000)
        + ")\n",
    ],
)
def test_odd_and_hostile_trees_do_not_raise(text: str) -> None:
    assert isinstance(flags(tree(server_args=text)), tuple)


def test_words_that_a_command_takes_itself_are_options() -> None:
    files = {
        "sglang/srt/server_args.py": b"class ServerArgs: pass\n",
        "sglang/cli/serve.py": b"""
def kind_of(words):
    for word in words:
        if word == "--kind":
            return "given"
        if word.startswith("--kind="):
            return word
        if word == "--help":
            return ""
""",
    }
    (flag,) = flags(Tree(files, files.get))
    assert (flag.names, flag.path, flag.line) == (("--kind",), "sglang/cli/serve.py", 4)


OPTIONS = (
    Flag(("-h", "--help"), "help", "a.py", 1, takes_value=False),
    Flag(("--tp-size", "--tensor-parallel-size"), "tp_size", "a.py", 2),
    Flag(("--trust-remote-code",), "trust_remote_code", "a.py", 3, takes_value=False),
    Flag(("--model",), "model", "a.py", 4),
    Flag(("--model-impl",), "model_impl", "a.py", 5),
    Flag(("--fast",), "fast", "a.py", 6, takes_value=False, negation=("--no-fast",)),
)


@pytest.mark.parametrize(
    ("text", "kind", "name", "value"),
    [
        ("--tp-size", "exact", "--tp-size", None),
        ("--tp-size=8", "exact", "--tp-size", "8"),
        ("--tp", "prefix", "--tp-size", None),
        ("--tp=8", "prefix", "--tp-size", "8"),
        ("--tensor", "prefix", "--tensor-parallel-size", None),
        ("--model", "exact", "--model", None),
        ("--model-i", "prefix", "--model-impl", None),
        ("--no-f", "prefix", "--no-fast", None),
        ("--no-fast", "exact", "--no-fast", None),
        ("-h", "exact", "-h", None),
        ("--t", "ambiguous", "", None),
        ("--mod", "ambiguous", "", None),
        ("--tp_size", "unknown", "", None),
        ("model", "unknown", "", None),
        ("--tp size", "unknown", "", None),
    ],
)
def test_words_are_resolved_as_argparse_does(
    text: str, kind: str, name: str, value: str | None
) -> None:
    found = resolve(OPTIONS, text)
    assert (found.kind, found.name, found.value) == (kind, name, value)


def test_an_ambiguous_word_names_what_it_could_be() -> None:
    assert resolve(OPTIONS, "--t").names == (
        "--tensor-parallel-size",
        "--tp-size",
        "--trust-remote-code",
    )
