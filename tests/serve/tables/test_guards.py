"""Guards of small trees: what the tree refuses together, and what must not be taken for it."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from auditor.serve.tables.facts import Guard, Term
from auditor.serve.tables.flags import flags
from auditor.serve.tables.guards import guards
from tests.serve.tables.trees import tree

HEAD = """
import argparse
from typing import Optional

class ServerArgs:
    model_path: str
    alpha: bool = False
    beta: bool = False
    gamma: bool = False
    mode: str = "plain"
    size: int = 1
    step: Optional[int] = None
    depth: Optional[int] = None

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model-path", type=str)
        for_all = 1
        parser.add_argument("--alpha", action="store_true")
        parser.add_argument("--beta", action="store_true")
        parser.add_argument("--gamma", action="store_true")
        parser.add_argument("--mode", default=ServerArgs.mode)
        parser.add_argument("--long-size", type=int, default=ServerArgs.size)
        parser.add_argument("--step", type=int, default=None)
        parser.add_argument("--depth", type=int, default=ServerArgs.depth)

    def from_cli_args(cls, args):
        args.size = args.long_size
        return cls(**vars(args))
"""

BOTH = "assert not (self.alpha and self.beta)"


def _guards(start: str, methods: str = "", **files: str) -> tuple[Guard, ...]:
    body = "    def __post_init__(self):\n" + indent(dedent(start).strip(), " " * 8) + "\n"
    text = HEAD + body + indent(dedent(methods), " " * 4)
    small = tree(server_args=text, **files)
    return guards(small, flags(small))


def _terms(start: str, methods: str = "", **files: str) -> set[frozenset[str]]:
    return {
        frozenset(f"{t.field} {t.op} {' '.join(t.values)}".strip() for t in guard.terms)
        for guard in _guards(start, methods, **files)
    }


def _sets(*cases: str) -> set[frozenset[str]]:
    return {frozenset(part.strip() for part in case.split("&")) for case in cases}


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("if self.alpha and self.beta:\n    raise ValueError('no')", ["alpha true & beta true"]),
        ("assert not (self.alpha and self.beta)", ["alpha true & beta true"]),
        ("assert not self.alpha or not self.beta", ["alpha true & beta true"]),
        ("if self.alpha:\n    assert not self.beta", ["alpha true & beta true"]),
        (
            "if self.alpha and (self.beta or self.gamma):\n    raise ValueError()",
            ["alpha true & beta true", "alpha true & gamma true"],
        ),
        (
            "if self.alpha:\n    assert self.step is None and self.depth is None",
            ["alpha true & step set", "alpha true & depth set"],
        ),
        (
            "if not self.alpha:\n    pass\nelse:\n    assert self.mode in ('a', 'b')",
            ["alpha true & mode not in 'a' 'b'"],
        ),
        (
            "if self.alpha:\n    assert 1 <= self.size < 9",
            ["alpha true & long_size < 1", "alpha true & long_size >= 9"],
        ),
        (
            "if self.alpha and 'a' == self.mode:\n    raise ValueError()",
            ["alpha true & mode == 'a'"],
        ),
        (
            "both = self.alpha and self.beta\nif both:\n    raise ValueError()",
            ["alpha true & beta true"],
        ),
        (
            "if self.alpha and getattr(self, 'beta', False):\n    raise ValueError()",
            ["alpha true & beta true"],
        ),
    ],
)
def test_conditions_become_terms(start: str, expected: list[str]) -> None:
    assert _terms(start) == _sets(*expected)


def test_a_guard_says_what_the_tree_says_and_where() -> None:
    (guard,) = _guards(
        "if self.alpha and self.beta:\n    raise ValueError('alpha' f' not with {x}')"
    )
    assert guard.message == "alpha not with …"
    assert guard.path == "sglang/srt/server_args.py"
    small = (HEAD + "    def __post_init__(self):\n        if\n        raise").splitlines()
    assert guard.line == len(small)


def test_a_term_that_holds_without_the_flag_says_so() -> None:
    (guard,) = _guards("if self.alpha and self.step is None:\n    raise ValueError()")
    assert guard.terms == (Term("alpha", "true"), Term("step", "none", (), True))


@pytest.mark.parametrize(
    "start",
    [
        "if self.alpha:\n    raise ValueError()",  # one setting only
        "if self.alpha and on_some_machine():\n    raise ValueError()",
        "if self.alpha and self.beta and on_some_machine():\n    raise ValueError()",
        "if on_some_machine():\n    assert not (self.alpha and self.beta)",
        "if on_some_machine():\n    return\nassert not (self.alpha and self.beta)",
        "for x in self.names:\n    assert not (self.alpha and self.beta)",
        "try:\n    assert not (self.alpha and self.beta)\nexcept AssertionError:\n    pass",
        "try:\n    assert not (self.alpha and self.beta)\nexcept Exception as e:\n    log(e)",
        "assert self.size % self.step == 0",
        "assert self.size == self.step",
        "if self.alpha and self.unknown_field:\n    raise ValueError()",
        "def inner():\n    assert not (self.alpha and self.beta)",
        "if False:\n    assert not (self.alpha and self.beta)",
    ],
)
def test_what_is_not_understood_is_no_guard(start: str) -> None:
    assert _guards(start) == ()


@pytest.mark.parametrize(
    "write",
    [
        "self.beta = False",
        "self.beta = read_config()",
        "if on_some_machine():\n    self.beta = False",
        "if self.alpha:\n    self.beta = False",
        "self.alpha, self.beta = compute()",
        "setattr(self, 'beta', False)",
        "for name in ('alpha', 'beta'):\n    setattr(self, name, False)",
        "declare(self, 'here', beta=False)",
        "apply(self, {'beta': False})",
        "apply(self, [('beta', False)])",
        "self.beta &= on_some_machine()",
    ],
)
def test_a_setting_that_may_be_written_before_is_no_evidence(write: str) -> None:
    assert _guards(f"{write}\nassert not (self.alpha and self.beta)") == ()


@pytest.mark.parametrize(
    "write",
    [
        "self.beta = True",
        "if not self.beta:\n    self.beta = on_some_machine()",
        "if not self.alpha:\n    self.beta = False",
        "self.beta = bool(self.beta)",
        "self.beta = self.beta or on_some_machine()",
        "self.gamma = False",
        "other.beta = False",
        "if on_some_machine():\n    raise ValueError()",
    ],
)
def test_a_write_that_cannot_change_the_outcome_is_allowed(write: str) -> None:
    found = _terms(f"{write}\nassert not (self.alpha and self.beta)")
    assert found == _sets("alpha true & beta true")


def test_a_write_after_the_guard_does_not_matter() -> None:
    found = _terms("assert not (self.alpha and self.beta)\nself.beta = False")
    assert found == _sets("alpha true & beta true")


def test_a_write_under_a_known_condition_is_stepped_around() -> None:
    start = (
        "if self.mode == 'decode':\n    self.beta = False\nassert not (self.alpha and self.beta)"
    )
    assert _terms(start) == _sets("alpha true & beta true & mode != 'decode'")
    (guard,) = _guards(start)
    assert [t.absent for t in guard.terms] == [False, False, True]


def test_a_default_that_is_filled_in_does_not_count_as_given() -> None:
    start = (
        "if self.step is None:\n    self.step = 4\nif self.alpha and self.step > 2:\n    raise E()"
    )
    (guard,) = _guards(start)
    assert guard.terms == (Term("alpha", "true"), Term("step", ">", ("2",)))


def test_a_value_made_of_the_setting_itself_is_followed() -> None:
    start = """
        self.mode = self.mode.upper()
        self.mode = renamed(self.mode, self.depth)
        if self.alpha and self.mode in ("A", "B"):
            raise ValueError()
    """
    methods = ""
    helper = """
        def renamed(mode, depth):
            if depth:
                mode = look(depth)
            return "A" if mode == "OLD" else mode
    """
    body = "from sglang.srt.names import renamed\n" + dedent(start)
    found = _terms(body, methods, names=helper)
    assert found == _sets("alpha true & mode in 'A' 'B' & depth none")


def test_early_returns_are_honoured() -> None:
    start = "if not self.alpha:\n    return\nassert not self.beta"
    assert _terms(start) == _sets("alpha true & beta true")
    start = "if self.gamma:\n    if on_some_machine():\n        return\n" + BOTH
    assert _terms(start) == _sets("alpha true & beta true & gamma false")


def test_an_earlier_refusal_does_not_hide_a_later_one() -> None:
    start = "if on_some_machine():\n    raise E()\nelif self.alpha and self.beta:\n    raise E()"
    assert _terms(start) == _sets("alpha true & beta true")


def test_a_real_model_is_no_dummy() -> None:
    start = """
        if self.model_path.lower() in ["none", "dummy"]:
            return
        assert not (self.alpha and self.beta)
    """
    assert _terms(start) == _sets("alpha true & beta true")


def test_methods_are_followed_with_their_conditions_and_returns() -> None:
    start = "self._first()\nif self.alpha:\n    self._second()\nself.check()"
    methods = """
        def _first(self):
            return
        def _second(self):
            if self.gamma:
                return
            assert not self.beta
        def check(self):
            assert not (self.mode == "x" and self.gamma)
    """
    assert _terms(start, methods) == _sets(
        "alpha true & beta true & gamma false", "mode == 'x' & gamma true"
    )


def test_hooks_in_other_files_are_followed() -> None:
    hooks = """
        def run_hook(step, server_args):
            step(server_args)

        def check(server_args):
            cfg = resolving_view(server_args)
            if cfg.alpha and cfg.beta:
                raise ValueError("not both")

        def late(server_args):
            declare_resolution(server_args, "late", beta=False)
    """
    start = """
        from sglang.srt.arg_groups.hooks import check, late, run_hook
        run_hook(check, self)
        run_hook(late, self)
    """
    (guard,) = _guards(start, arg_groups__hooks=hooks)
    assert (guard.path, guard.message) == ("sglang/srt/arg_groups/hooks.py", "not both")
    swapped = (
        start.replace("run_hook(check, self)", "").rstrip() + "\n        run_hook(check, self)\n"
    )
    assert _guards(swapped, arg_groups__hooks=hooks) == ()


def test_a_hook_that_nothing_calls_in_sight_may_run_before() -> None:
    unseen = "def by_registry(server_args):\n    return {'beta': False}\n"
    assert _guards("assert not (self.alpha and self.beta)", arg_groups__unseen=unseen) == ()
    harmless = "def by_registry(server_args):\n    return {'beta': True}\n"
    assert _terms("assert not (self.alpha and self.beta)", arg_groups__unseen=harmless) == _sets(
        "alpha true & beta true"
    )


def test_what_the_launcher_writes_counts() -> None:
    launcher = "def launch(server_args):\n    server_args.beta = False\n"
    assert _guards("assert not (self.alpha and self.beta)", entrypoints__engine=launcher) == ()


def test_the_checks_of_a_launch_come_after_the_start() -> None:
    methods = "def check_server_args(self):\n    assert not (self.alpha and self.beta)\n"
    assert _terms("pass", methods) == _sets("alpha true & beta true")
    assert _guards("self.beta = False", methods) == ()


@pytest.mark.parametrize(
    "start",
    [
        "self.__post_init__()",
        "assert " + " and ".join(["self.alpha"] * 3000),
        "assert " + "not " * 3000 + "self.alpha",
        "assert " + " + ".join(["self.size"] * 3000) + " == self.step",
        "raise ValueError(" + " + ".join(["'a'"] * 5000) + ")",
        "\n".join(f"if self.size == {i} or self.step == {i}: return" for i in range(200)),
    ],
)
def test_hostile_starts_do_not_raise(start: str) -> None:
    assert isinstance(_guards(start), tuple)
