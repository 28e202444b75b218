"""Scripts out of ordinary idioms: what is read is what bash does, and the judge sees if not."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator

import pytest

from auditor.model import Argument, Launch
from tests.serve.scripts import oracle
from tests.serve.scripts.draft import MOST_INPUTS, Input, Script
from tests.serve.scripts.generate import IDIOMS, STARTS, generate
from tests.serve.scripts.oracle import Bash, Verdict, judge

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")

SEEDS = range(25)
NOTHING = (Input(),)
A_OR_NOT = (Input(), Input((), (("X", "a"),)), Input((), (("X", "other"),)))


@pytest.fixture(scope="module")
def bash() -> Iterator[Bash]:
    with Bash() as running:
        yield running


def script(text: str, inputs: tuple[Input, ...] = NOTHING, path: str = "run.sh", **more) -> Script:
    return Script(text, path, inputs, **more)


def launch(*arguments: Argument, unresolved: int = 0) -> Launch:
    return Launch(
        "run.sh", 1, "server", "sglang serve", "plain", None, arguments, (), unresolved, "shell"
    )


def said(flag: str, value: str | None, resolved: bool = True, conditional: bool = False):
    return Argument(flag, value, "run.sh", 1, 1, resolved, conditional)


class Followed:
    """A launch that tells its worlds."""

    def __init__(self, launch: Launch, worlds: tuple[tuple[int, ...], ...], joined: bool = False):
        self._launch, self.worlds, self.joined = launch, worlds, joined

    def __getattr__(self, name: str):
        return getattr(self._launch, name)


def judged(bash: Bash, script: Script, *read) -> Verdict:
    return judge(script, bash.runs(script), list(read))


BRANCH = script(
    'if [ "$X" = a ]; then P=1; else P=2; fi\nsglang serve --tp-size $P --port 8000\n', A_OR_NOT
)


def test_runs_are_command_lines(bash):
    text = (
        'HERE="$(cd "$(dirname "$0")" && pwd)"\n'
        'python3 -m sglang.launch_server --model-path "$HERE/w" '
        "--json '{\"a b\": 1}' --x=$X -- $1\n"
        "python3 -c 'no server' --flag\n"
    )
    [run] = bash.runs(script(text, (Input(("y z",), (("X", "v w"),)),), "deploy/run.sh"))
    # `--` is no flag; what follows `--x=…` belongs to no flag either.
    assert run.vectors == ((("--model-path", "deploy/w"), ("--json", '{"a b": 1}'), ("--x", "v")),)
    assert run.status == 0


def test_positional_model_and_two_servers(bash):
    [run] = bash.runs(script("sglang serve org/m --tp 2 &\nwait\nsglang serve org/n\nexit 3\n"))
    assert run.vectors == (
        (("--model-path", "org/m"), ("--tp", "2")),
        (("--model-path", "org/n"),),
    )
    assert run.status == 3


def test_only_the_input_is_known_to_a_script(bash, monkeypatch):
    monkeypatch.setenv("X", "mine")
    [run] = bash.runs(script("sglang serve --host ${X-unset}\n"))
    assert run.vectors == ((("--host", "unset"),),)


def test_a_script_that_bash_refuses_or_that_hangs_starts_nothing(bash, monkeypatch):
    monkeypatch.setattr(oracle, "_SECONDS", 0.2)
    [run] = bash.runs(script("if true; then\n  sglang serve --tp 2\n"))
    assert (run.vectors, run.status) == ((), 2)
    [run] = bash.runs(script("sleep 5\nsglang serve --tp 2\n"))
    assert (run.vectors, run.status) == ((), -1)


def test_what_is_read_rightly_agrees(bash):
    read = launch(
        said("--tp-size", "1", conditional=True),
        said("--tp-size", "2", conditional=True),
        said("--port", "8000"),
    )
    verdict = judged(bash, BRANCH, read)
    assert verdict.agrees
    assert not verdict.has_worlds
    assert verdict.exact == verdict.pairs
    assert len(verdict.pairs) == 3


def test_what_is_not_read_is_missing(bash):
    verdict = judged(bash, BRANCH, launch(said("--tp-size", "1", conditional=True)))
    assert verdict.missing == {("--tp-size", "2"), ("--port", "8000")}
    assert judged(bash, BRANCH).missing == verdict.pairs
    assert "missing: --port '8000'" in verdict.told()


def test_what_no_run_passes_is_invented(bash):
    verdict = judged(bash, BRANCH, launch(said("--tp-size", "1 2"), said("--port", "8000")))
    assert verdict.invented == {("--tp-size", "1 2")}


def test_what_some_run_does_not_pass_is_no_certainty(bash):
    verdict = judged(bash, BRANCH, launch(said("--tp-size", "1"), said("--port", "8000")))
    assert verdict.wrong_certain == {("--tp-size", "1")}


def test_of_several_launches_one_is_the_command(bash):
    text = 'if [ "$X" = a ]; then sglang serve --tp 1; else sglang serve --tp 2; fi\n'
    one, two = launch(said("--tp", "1")), launch(said("--tp", "2"))
    assert judged(bash, script(text, A_OR_NOT), one, two).agrees
    assert judged(bash, script(text, A_OR_NOT), one).wrong_certain == {("--tp", "1")}


@pytest.mark.parametrize(
    ("text", "value", "fits"),
    [
        ("$MODEL", "org/m", True),
        ("${X:-a}/b", "c/b", True),
        ("${X:-a}/b", "c/d", False),
        ("org/$(f ${X} (y))-x", "org/1-x", True),
        ("org/`date`", "org/now", True),
        ("a $X", "a", True),
        ("a $X", "ab", False),
        ("$X b", "b", True),
        ("$1", None, True),
        ("plain", "other", False),
    ],
)
def test_an_unknown_part_fits_anything(text, value, fits):
    assert oracle.fits(said("--f", text, resolved=False), ("--f", value)) is fits
    assert not oracle.fits(said("--f", text, resolved=False), ("--g", value))


def test_a_default_that_the_caller_replaces_is_no_fault(bash):
    text = "sglang serve --tp ${X:-1}\n"
    one = script(text, A_OR_NOT, soft=frozenset({"--tp"}))
    assert judged(bash, one, launch(said("--tp", "1"))).agrees
    assert judged(bash, one, launch(said("--tp", "2"))).invented == {("--tp", "2")}
    assert judged(bash, one, launch()).missing == {("--tp", "1"), ("--tp", "a"), ("--tp", "other")}


def test_worlds_are_runs_and_runs_are_worlds(bash):
    read = launch(
        said("--tp-size", "1", conditional=True),
        said("--tp-size", "2", conditional=True),
        said("--port", "8000"),
    )
    good = judged(bash, BRANCH, Followed(read, ((0, 2), (1, 2))))
    assert good.has_worlds
    assert good.agrees
    assert (good.followed, good.launched) == (2, 2)
    less = judged(bash, BRANCH, Followed(read, ((0, 2),)))
    assert less.unseen == [(("--tp-size", "2"), ("--port", "8000"))]
    more = judged(bash, BRANCH, Followed(read, ((0, 2), (1, 2), (0, 1, 2))))
    assert [len(vector) for vector in more.untrue] == [3]
    assert judged(bash, BRANCH, Followed(read, ((0, 2), (1, 2), (2,)), joined=True)).agrees
    assert not more.agrees


def test_a_world_with_an_unknown_value_is_any(bash):
    read = launch(said("--tp-size", "$P", resolved=False), said("--port", "8000"), unresolved=1)
    assert judged(bash, BRANCH, Followed(read, ((0, 1),))).agrees
    assert judged(bash, BRANCH, Followed(read, ((1,),))).unseen


# The scripts.


def test_scripts_are_bash_and_every_idiom_occurs():
    seen: set[str] = set()
    for seed in SEEDS:
        made = generate(seed)
        done = subprocess.run(
            ["bash", "-n"], input=made.text.encode(), capture_output=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, b""), made.text
        assert 2 <= len(made.inputs) <= MOST_INPUTS
        seen.update(made.idioms)
    assert {*IDIOMS, *(f"start_{start}" for start in STARTS)} - seen == set()


def test_scripts_are_the_same_for_the_same_seed_and_mostly_start(bash):
    assert generate(3) == generate(3)
    started = [any(run.vectors for run in bash.runs(generate(seed))) for seed in SEEDS]
    assert sum(started) >= len(SEEDS) - 2


def test_starts_are_seen_as_such(bash):
    """However little is understood: hardly a script is without a launch, and none is an error."""
    verdicts = [judge(made, bash.runs(made)) for made in map(generate, SEEDS)]
    assert sum(bool(verdict.launches) for verdict in verdicts) >= len(SEEDS) - 2


def test_what_is_read_is_what_bash_does(bash):
    """The order of a table's keys and functions that a shell hands to another are left open."""
    verdicts = [judge(made, bash.runs(made)) for made in map(generate, range(1000, 1080))]
    passed = sum(len(verdict.pairs) for verdict in verdicts)
    read = sum(len(verdict.read) for verdict in verdicts)
    assert read >= 0.97 * passed
    agreeing = sum(verdict.agrees for verdict in verdicts)
    told = "\n".join(verdict.told() for verdict in verdicts if not verdict.agrees)
    assert agreeing >= 0.95 * len(verdicts), told
