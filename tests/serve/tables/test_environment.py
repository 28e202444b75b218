"""The environment names of small trees: declared, read, renamed, retired, put together."""

from __future__ import annotations

import pytest

from auditor.serve.tables.constants import Tree
from auditor.serve.tables.environment import environment
from auditor.serve.tables.facts import EnvironmentName
from tests.serve.tables.trees import tree

DECLARED = """
    class EnvField: ...
    class EnvBool(EnvField): ...
    class EnvIntWithAlias(EnvField): ...

    class Envs:
        SGLANG_FAST = EnvBool(False)
        PLAIN_NAME: EnvField = EnvInt(3)
        SGLANG_ROWS = EnvIntWithAlias(
            1, deprecated_name="SGLANG_LINES"
        )
        not_a_name = EnvBool(True)
        SGLANG_OTHER = 3
"""

REGISTRY = """
    class _Retired:
        def __init__(self, replacement=None, transform=None, note=None): ...

    _DEPRECATED_ENVS = {
        "SGLANG_OLD_FAST": _Retired(replacement="SGLANG_FAST"),
        "SGLANG_SLOW": _Retired("SGLANG_FAST", _invert),
        "SGLANG_GONE": _Retired(note="Use --fast instead."),
    }

    def _rename():
        for key, value in os.environ.items():
            if key.startswith("SGL_"):
                os.environ[key.replace("SGL_", "SGLANG_", 1)] = value
"""

CALLS = """
    def _warn_deprecated(new_name: str, old_name: str): ...
    def _warn_deprecated_for_flag(env_name, suggestion): ...

    def convert():
        _warn_deprecated("SGLANG_FAST", "SGLANG_QUICK")
        _deprecated_units = {"SGLANG_WAIT_MS": "SGLANG_WAIT_S"}

    _warn_deprecated_for_flag("SGLANG_DELAY", "Please use --delay instead.")
"""


def _names(**files: str) -> dict[str, EnvironmentName]:
    return {row.name: row for row in environment(tree(**files)).names}


def test_declared_names_have_their_kind_and_place() -> None:
    found = _names(environ=DECLARED)
    assert found.keys() == {"SGLANG_FAST", "PLAIN_NAME", "SGLANG_ROWS", "SGLANG_LINES"}
    fast = found["SGLANG_FAST"]
    assert (fast.path, fast.line) == ("sglang/srt/environ.py", 7)
    assert (fast.declared, fast.kind) == (True, "bool")
    assert found["PLAIN_NAME"].kind == "int"


def test_an_alias_still_works() -> None:
    alias = _names(environ=DECLARED)["SGLANG_LINES"]
    assert (alias.replacement, alias.retired, alias.kind) == ("SGLANG_ROWS", False, "int")


def test_the_registry_says_what_is_renamed_converted_and_gone() -> None:
    found = _names(environ=DECLARED + REGISTRY)
    old, slow, gone = (found[n] for n in ("SGLANG_OLD_FAST", "SGLANG_SLOW", "SGLANG_GONE"))
    assert (old.replacement, old.retired) == ("SGLANG_FAST", False)
    assert slow.replacement == "SGLANG_FAST"
    assert "_invert" in slow.note
    assert (gone.retired, gone.note) == (True, "Use --fast instead.")


def test_functions_that_warn_are_read_by_their_parameters() -> None:
    found = _names(environ=DECLARED + CALLS)
    assert found["SGLANG_QUICK"].replacement == "SGLANG_FAST"
    assert found["SGLANG_WAIT_MS"].replacement == "SGLANG_WAIT_S"
    delay = found["SGLANG_DELAY"]
    assert (delay.retired, delay.note) == (True, "Please use --delay instead.")


def test_a_deprecated_name_that_is_still_read_is_not_retired() -> None:
    reader = 'import os\nvalue = os.environ.get("SGLANG_DELAY")\n'
    delay = _names(environ=DECLARED + CALLS, reader=reader)["SGLANG_DELAY"]
    assert (delay.retired, delay.path) == (False, "sglang/srt/reader.py")
    assert delay.note == "Please use --delay instead."


def test_a_prefix_that_is_renamed() -> None:
    assert environment(tree(environ=DECLARED + REGISTRY)).rewritten == (("SGL_", "SGLANG_"),)
    assert environment(tree(environ=DECLARED)).rewritten == ()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('os.getenv("SGLANG_A")', {"SGLANG_A"}),
        ("os.environ['SGL_A']", {"SGL_A"}),
        ('NAME = "SGLANG_A"', {"SGLANG_A"}),
        ('# os.getenv("SGLANG_A")', set()),
        ('"""Set os.environ["SGLANG_A"] first."""', set()),
        ('raise ValueError("SGLANG_A must be set")', set()),
        ('print(f"SGLANG_A={value}")', set()),
        ('x = "# no comment"; os.getenv("SGLANG_A")', {"SGLANG_A"}),
        ('os.getenv("OTHER_A")', set()),
    ],
)
def test_only_strings_that_are_a_name_count(text: str, names: set[str]) -> None:
    assert _names(reader=f"import os\n{text}\n").keys() == names


def test_a_name_that_is_read_has_its_line() -> None:
    row = _names(reader='import os\n\n\nx = os.getenv("SGLANG_A")\n')["SGLANG_A"]
    assert (row.line, row.declared) == (4, False)


@pytest.mark.parametrize(
    ("text", "prefixes"),
    [
        ('f"SGLANG_PART_{name}"', ("SGLANG_PART_",)),
        ('"SGLANG_PART_" + name', ("SGLANG_PART_",)),
        ('"SGLANG_PART_%s" % name', ("SGLANG_PART_",)),
        ('key.startswith("SGLANG_")', ()),
        ('key.replace("SGLANG_", "X_")', ()),
        ('"SGLANG_PART_{name}"', ()),
        ('f"SGLANG_PART={name}"', ()),
        ('f"SGLANG_PART_{name} is wrong"', ()),
    ],
)
def test_names_put_together_at_run_time_have_a_prefix(text: str, prefixes: tuple[str, ...]) -> None:
    assert environment(tree(reader=f"x = {text}\n")).prefixes == prefixes


def test_native_sources_are_read_and_tests_are_not() -> None:
    files = {
        "sglang/srt/a.cuh": b'const char* v = std::getenv("SGLANG_NATIVE");',
        "sglang/test/test_a.py": b'import os\nos.getenv("SGLANG_TEST_ONLY")\n',
    }
    found = environment(Tree(files, files.get))
    assert [row.name for row in found.names] == ["SGLANG_NATIVE"]


@pytest.mark.parametrize(
    "text",
    [
        "class Envs:\n    SGLANG_A = EnvBool(\n",
        "class Envs:\n    SGLANG_A = EnvBool(" + "(" * 5000 + ")\n",
        'x = """SGLANG_A',
        'x = "SGLANG_A\n' * 1000,
        "SGLANG_" * 100_000,
    ],
)
def test_odd_and_hostile_files_do_not_raise(text: str) -> None:
    environment(tree(environ=text, reader=text))


def test_a_registry_that_cannot_be_read_is_noted() -> None:
    small = tree(environ="class Envs:\n    SGLANG_A = EnvBool(\n")
    environment(small)
    (note,) = small.notes
    assert note.startswith("sglang/srt/environ.py: syntax error")
