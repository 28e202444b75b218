"""`audit rules`, `audit rules test`, and what every command refuses of a page."""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import auditor
from auditor import rulebook
from auditor.checks import CHECKS
from auditor.cli.main import main
from auditor.errors import UsageProblem
from auditor.rulebook import Param, Parameter
from auditor.runs import audit, fix, history, serve
from auditor.runs.examples import try_all
from auditor.runs.request import AuditRequest
from auditor.runs.rules import declared, load
from auditor.serve.checks.table import SERVE_CHECKS
from auditor.triage import suppress

PACKAGE = Path(auditor.__file__).parent

POOL = """\
import torch


class RowPool:
    def __init__(self, layers, slots, width):
        self.fence = None
        self.rows = [torch.zeros(slots, width) for _ in range(layers)]

    def attach_fence(self, fence):
        self.fence = fence

    def get_rows(self, layer_id):
        if self.fence is not None:
            self.fence.ready(layer_id)
        return self.rows[layer_id]

    def gather(self, layer_id, slots):
        found = self.rows[layer_id].index_select(0, slots)  # error: [gate-after-read, own-late]
        if self.fence is not None:
            self.fence.ready(layer_id)
        return found
"""

PAGE = """\
id: own-late
category: sync
title: A late wait
effect: nothing happens
severity: low
confidence: high
check: sibling-gates
params:
  shape: late
why: "In production: it stops."
fix: change it
valid:
  - x = 1
invalid:
  - title: the wait comes last
    fork: |
"""

WORDS = "primitive_waits: {ready: keyed}\n"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder of rules that is as it must be, with words of its own."""
    folder = tmp_path / "own"
    for name in ("sync", "vocab"):
        (folder / name).mkdir(parents=True)
    page(folder).write_text(PAGE + textwrap.indent(POOL, "      "))
    (folder / "vocab" / "own.yaml").write_text(WORDS)
    return folder


def page(folder: Path) -> Path:
    return folder / "sync" / "own-late.yaml"


def change(folder: Path, old: str, new: str) -> None:
    text = page(folder).read_text()
    assert old in text
    page(folder).write_text(text.replace(old, new, 1))


def line_of(folder: Path, text: str) -> int:
    lines = page(folder).read_text().split("\n")
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_examples_that_are_as_marked(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules", "test", "own"]) == 0
    assert capsys.readouterr().out == "2 examples of 1 page: all as marked\n"


@pytest.mark.parametrize(
    ("old", "new", "at", "found"),
    [
        ("shape: late", "shape: partial", "found = self", "line 18 [gate-after-read]"),
        (
            "        return found\n",
            "        return found  # error: [own-late]\n",
            "return found",
            "line 18 [gate-after-read, own-late]",
        ),
        (
            "gate-after-read, own-late]",
            "own-late]",
            "found = self",
            "line 18 [gate-after-read, own-late]",
        ),
    ],
)
def test_an_example_that_is_not_as_marked_is_told_with_its_line(
    own: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, at: str, found: str
) -> None:
    change(own, old, new)
    assert main(["rules", "test", "own"]) == 1
    told, summary = capsys.readouterr().out.splitlines()
    place = f"own/sync/own-late.yaml:{line_of(own, at)}: invalid[0] (the wait comes last): "
    assert told.startswith(f"{place}expected example.py line 18 [")
    assert told.endswith(f"; found example.py {found}")
    assert summary == "2 examples of 1 page: 1 example not as marked"


def test_an_example_that_is_marked_and_finds_nothing(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (own / "vocab" / "own.yaml").write_text("write_verbs: [stash]\n")
    assert main(["rules", "test", "own"]) == 1
    assert "[gate-after-read, own-late]; found nothing\n" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["[[ignore]", "ignore = 3"])
def test_an_example_that_could_not_be_read_is_not_as_marked(
    own: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    change(own, "  - x = 1", f"  - {{fork: {{a.py: x = 1, audit.toml: '{text}'}}}}")
    assert main(["rules", "test", "own"]) == 1
    told, _ = capsys.readouterr().out.splitlines()
    assert told.startswith(f"own/sync/own-late.yaml:{line_of(own, 'a.py')}: valid[0]: expected ")
    assert "; found nothing; not read: audit.toml: " in told


def test_a_page_that_cannot_be_loaded_ends_the_test(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(own, "shape: late", "shape: lat")
    assert main(["rules", "test", "own"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("audit: own/sync/own-late.yaml:9: params.shape: 'lat' is none that ")
    assert told.err.count("\n") == 1


def test_only_the_pages_of_the_folders_are_run_and_several_work_together(
    own: Path, tmp_path: Path
) -> None:
    more = tmp_path / "more"
    (more / "sync").mkdir(parents=True)
    text = page(own).read_text().replace("id: own-late", "id: own-later")
    text = text.replace(", own-late]", ", own-late, own-later]")
    (more / "sync" / "own-later.yaml").write_text(text)
    change(own, ", own-late]", ", own-late, own-later]")
    tried = list(try_all([more, own]))
    assert [(t.page.name, t.name, t.as_marked) for t in tried] == [
        ("own-later.yaml", "invalid[0]", True),
        ("own-later.yaml", "valid[0]", True),
        ("own-late.yaml", "invalid[0]", True),
        ("own-late.yaml", "valid[0]", True),
    ]
    with pytest.raises(UsageProblem, match="there is no rule 'own-late'"):
        list(try_all([more]))


def test_the_shipped_pages_are_run_where_no_folder_is_named(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take a minute, and `test_rules.py` runs them; here a shorter row of them."""
    few = [rulebook.packaged_rules() / "sync" / "gate-after-read.yaml"]
    monkeypatch.setattr("auditor.runs.examples.rule_pages", lambda folder: few)
    named = [list(try_all([])), list(try_all([rulebook.packaged_rules()]))]
    assert named[0] == named[1]
    assert {tried.page for tried in named[0]} == set(few)
    assert all(tried.as_marked for tried in named[0])


def test_shipped_pages_are_whole() -> None:
    assert load(whole=True) == load()


def test_shipped_pages_are_held_against_all_this_only_where_that_is_asked_for(
    tmp_path: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(own, "  - x = 1", "  - x =")
    change(own, "gate-after-read, ", "")
    monkeypatch.setattr(rulebook, "packaged_rules", lambda: own)
    assert load().rule("own-late")
    with pytest.raises(UsageProblem, match="is not Python"):
        load(whole=True)


def test_a_test_of_rules_takes_no_option_of_the_list(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["--rules", "own"], ["--output", "json"], ["-o", "json"], ["-C", "."]):
        assert main(["rules", *words, "test", "own"]) == 2
        told = capsys.readouterr().err
        option = "--output" if words[0] == "-o" else words[0]
        assert told == f"audit: {option} means nothing to 'audit rules test'\n"


def test_a_configuration_has_no_say_in_a_test_of_rules(own: Path) -> None:
    (own.parent / "audit.toml").write_text('rules = ["own"]\n')
    assert main(["rules", "test", "own"]) == 0


def test_the_list_is_the_same_with_and_without_options(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rules"]) == 0
    assert "\ngate-after-read" in capsys.readouterr().out
    assert main(["rules", "-o", "json", "--rules", "own"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {"own-late", "gate-after-read"} < {row["id"] for row in rows}


def _run(request: AuditRequest) -> object:
    return audit.run(request)


def _serve(request: AuditRequest) -> object:
    return serve.run_serve(request)


def _history(request: AuditRequest) -> object:
    return history.run_history(request, False)


def _repair(request: AuditRequest) -> object:
    return fix.repair(request)


@pytest.mark.parametrize("run", [_run, _serve, _history, _repair])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("shape: late", "shape: lat"),
        ("  - x = 1", "  - x ="),
        ("      import torch", "      import"),
    ],
)
def test_every_run_refuses_a_page_before_it_begins(
    own: Path, run: Callable[[AuditRequest], object], old: str, new: str
) -> None:
    change(own, old, new)
    with pytest.raises(UsageProblem, match=rf"^{own}/sync/own-late\.yaml:\d+: "):
        run(AuditRequest(Path("nowhere"), rules_dirs=(own,)))


@pytest.mark.parametrize("command", [["rules"], ["explain", "own-late"]])
def test_what_only_reads_pages_refuses_them_too(
    own: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    change(own, "shape: late", "shap: late")
    assert main([*command, "--rules", "own"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("audit: ")
    assert told.endswith(
        "/sync/own-late.yaml:9: params.shap: sibling-gates reads no such parameter,"
        " did you mean shape?; allowed: shape\n"
    )


def test_nothing_loads_rules_of_its_own_past_the_parameters() -> None:
    past = re.compile(r"rulebook\.load\(|from auditor\.rulebook import [^\n]*\bload\b")
    modules = PACKAGE.rglob("*.py")
    found = {m.relative_to(PACKAGE).as_posix() for m in modules if past.search(m.read_text())}
    assert found == {"runs/rules.py"}


def test_every_check_says_what_a_page_may_give_it() -> None:
    assert set(declared()) == {*CHECKS, *SERVE_CHECKS, suppress.CHECK}
    assert {rule.check for rule in load().rules} <= set(declared())


def test_parameters_are_those_that_the_code_of_the_check_reads() -> None:
    """By the texts with which a module looks into `params`: none is dead, none goes unchecked."""
    for name, parameters in declared().items():
        judge = CHECKS[name].judge if name in CHECKS else None
        if name in SERVE_CHECKS:
            judge = SERVE_CHECKS[name].judge  # type: ignore[assignment]
        module = (judge or suppress.suppress).__module__
        tree = ast.parse((PACKAGE.parent / f"{module.replace('.', '/')}.py").read_text())
        assert _read_of_params(tree) == set(parameters), name


def _read_of_params(tree: ast.Module) -> set[str]:
    read = set()
    for node in ast.walk(tree):
        key: ast.expr | None = None
        if isinstance(node, ast.Subscript) and _is_params(node.value):
            key = node.slice
        elif isinstance(node, ast.Call):
            asked = isinstance(node.func, ast.Attribute) and _is_params(node.func.value)
            listed = isinstance(node.func, ast.Name) and any(map(_is_params, node.args[:1]))
            if asked or listed:
                key = node.args[0 if asked else -1]
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            read.add(key.value)
    return read


def _is_params(node: ast.expr) -> bool:
    return getattr(node, "id", getattr(node, "attr", "")) == "params"


SERVE = """\
id: own-late
category: serve
title: A rule of our own
effect: nothing happens
severity: low
confidence: high
check: {check}
params: {params}
why: "In production: it stops."
fix: change it
tree: serve
valid:
  - fork: {{serve.sh: "true"}}
invalid:
  - fork: {{serve.sh: "python x  # error: [own-late]"}}
"""


@pytest.mark.parametrize(
    ("check", "params", "told"),
    [
        ("serve-guards", "{}", ""),
        ("serve-guards", "{shape: late}", "reads no such parameter; allowed: none"),
        ("serve-model", "{shape: near-name, kinds: [fp8], mixed: [w4a]}", ""),
        ("serve-model", "{shape: near-name, kinds: fp8}", ""),
        ("serve-model", "{shape: near-name}", "serve-model with the shape near-name needs the par"),
        ("serve-model", "{shape: near-name, kinds: []}", "params.kinds: Expected `array`"),
        ("serve-model", "{shape: near-name, kinds: [8]}", "params.kinds[0]: Expected `str`"),
        (
            "serve-model",
            "{shape: near-name, kinds: fp8, offline: awq}",
            "with the shape near-name reads no such parameter; allowed: shape, kinds, mixed",
        ),
        ("serve-pairs", "{shape: settings}", "needs the parameter 'fields'"),
        ("serve-pairs", "{shape: settings, field: [a]}", "did you mean fields?; allowed: shape, f"),
        ("serve-flags", '{shape: unknown, elsewhere: "vLLM: --a --b"}', ""),
        (
            "serve-flags",
            "{shape: unknown, elsewhere: [--a]}",
            "params.elsewhere[0]: Expected `str` ",
        ),
        ("suppressions", "{shape: unusd}", "did you mean unused?; allowed: unknown, reasonless, "),
    ],
)
def test_parameters_by_check_and_shape(own: Path, check: str, params: str, told: str) -> None:
    page(own).unlink()
    (own / "serve").mkdir()
    path = own / "serve" / "own-late.yaml"
    path.write_text(SERVE.format(check=check, params=params))
    if not told:
        assert load([own]).rule("own-late").check == check
        return
    with pytest.raises(UsageProblem) as caught:
        load([own])
    message = str(caught.value)
    assert message.startswith(f"{path}:8: ")
    assert told in message
    assert "\n" not in message


def test_a_parameter_of_another_kind(own: Path) -> None:
    """A check may want a number: what msgspec knows of it is what a page is held to."""
    checks = {"sibling-gates": {"most": Parameter(int, required=True)}}
    change(own, "shape: late", "most: 3")
    assert rulebook.load([own], checks).rule("own-late").params == {"most": 3}
    change(own, "most: 3", "most: three")
    with pytest.raises(UsageProblem, match=r":9: params\.most: Expected `int`, got `str`$"):
        rulebook.load([own], checks)


@pytest.mark.parametrize(
    ("mark", "told"),
    [
        ("\n          # error: [own-late]\n", "nothing stands on the line of the mark"),
        ("\n          # so it is  # error: [own-late]\n", "own-late finds nothing in a comment"),
        (
            "\n          # so  # error: [own-late, suppression-unused]\n",
            "own-late finds nothing in",
        ),
        ("\n          # so it is  # error: [suppression-unused]\n", ""),
        ("  # error: [own-lat]\n", "there is no rule 'own-lat', did you mean own-late or"),
    ],
)
def test_a_mark_that_can_hold_no_finding_is_named_with_its_line(
    own: Path, mark: str, told: str
) -> None:
    before = "return found\n"
    change(own, before, before.rstrip() + mark)
    if not told:
        assert load([own])
        return
    inner = 21 + mark.startswith("\n")
    at = line_of(own, "import torch") + inner - 1
    with pytest.raises(UsageProblem) as caught:
        load([own])
    where = f"{page(own)}:{at}: invalid[0].fork.example.py: line {inner}: "
    assert str(caught.value).startswith(where + told)


@pytest.mark.parametrize(
    "text", ["x = 'a'\ny = (\n", "x = 1\n\n\ndef f():\nreturn 1\n", "x = 1\n  y\n"]
)
def test_code_that_is_not_python_is_named_with_its_line(own: Path, text: str) -> None:
    with pytest.raises(SyntaxError) as broken:
        ast.parse(text)
    for side in ("fork", "upstream", "target"):
        rest = "" if side == "fork" else "    fork: x = 1\n"
        block = textwrap.indent(text, "        ")
        change(
            own,
            "valid:\n  - x = 1\n",
            f"valid:\n  - title: t\n{rest}    {side}:\n      a.py: |\n{block}",
        )
        at = line_of(own, "a.py: |") + (broken.value.lineno or 0)
        with pytest.raises(UsageProblem) as caught:
            load([own])
        assert str(caught.value).startswith(
            f"{page(own)}:{at}: valid[0].{side}.a.py: line {broken.value.lineno}: is not Python: "
        )
        page(own).write_text(PAGE + textwrap.indent(POOL, "      "))


@pytest.mark.parametrize("given", ['"x = 1\\ny = ="', ">\n      x = 1\n\n      y = ="])
def test_a_text_whose_lines_cannot_be_told_is_named_where_it_begins(own: Path, given: str) -> None:
    change(own, "  - x = 1", f"  - {given}")
    with pytest.raises(UsageProblem, match=r":13: valid\[0\]\.fork\.example\.py: line 2: is not"):
        load([own])


def test_only_files_of_python_must_be_python(own: Path) -> None:
    change(own, "  - x = 1", '  - fork: {serve.sh: "if true; then true; fi", a.py: x = 1}')
    assert load([own])


@pytest.mark.parametrize("params", [{"shape": "removed"}, {}])
def test_another_check_on_code_is_followed_through_releases_whatever_its_parameters(
    monkeypatch: pytest.MonkeyPatch, params: dict[str, Param]
) -> None:
    monkeypatch.setitem(CHECKS, "another", CHECKS["sibling-gates"])
    book = load()
    one = msgspec.structs.replace(book.rule("gate-removed"), check="another", params=params)
    book = msgspec.structs.replace(book, rules=(one,))
    assert history._followed(book, AuditRequest(Path())) == ({"gate-removed"}, [])
