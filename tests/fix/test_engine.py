"""A file is kept with its edits where the audit is content, and written whole or not at all."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from auditor.errors import UsageProblem
from auditor.fix import engine
from auditor.fix.engine import Plan, settle, write
from auditor.fix.text import Edit, Source, Unfit
from auditor.fix.written import Written
from auditor.gates.gaps import Gap
from auditor.model import Finding, Hit, Location, Origin, Symbol
from auditor.runs.fix import repair
from auditor.runs.request import AuditRequest

from .trees import HEAD, POOL, fix, method
from .trees import write as write_tree

OPEN = method("def get_mean(self, layer_id):\n    return self.pages[layer_id].mean()")


def finding(
    path: str,
    name: str = "f",
    rule: str = "r",
    mark: str = "",
    origin: Origin = "introduced",
) -> Finding:
    hit = Hit(Location(Symbol(path, name), 1), "a", "", (), "high", "live", "", "", "")
    return Finding(rule, "sync", "high", hit, mark or f"{path}{name}{rule}", origin, "")


class Sheet:
    """Files with one word each, and an audit that is told what to find in which words."""

    def __init__(self, **words: str) -> None:
        self.sources = {
            Path(f"/{name}.txt"): Source.of_script(word.encode()) for name, word in words.items()
        }
        self.judged: list[dict[str, str]] = []
        self.rules: list[tuple[dict[str, str], Finding]] = []

    def finds(self, found: Finding, **where: str) -> Sheet:
        """The audit finds something where these files hold these words."""
        self.rules.append((where, found))
        return self

    def judge(self, contents: Mapping[Path, bytes]) -> Sequence[Finding]:
        texts = {path.stem: source.text for path, source in self.sources.items()}
        texts |= {path.stem: data.decode() for path, data in contents.items()}
        self.judged.append({path.stem: data.decode() for path, data in contents.items()})
        return [f for where, f in self.rules if all(texts[k] == v for k, v in where.items())]

    def settle(self, *plans: Plan) -> engine.Settled:
        return settle(plans, self.sources, self.judge({}), self.judge)


def plan(name: str, text: str, about: Finding | None = None, start: int = 0, end: int = 3) -> Plan:
    told = about or finding(f"{name}.txt")
    return Plan(told, Path(f"/{name}.txt"), Edit(start, end, text), "unsafe", "")


def test_what_the_audit_likes_is_kept_after_one_judgement() -> None:
    sheet = Sheet(a="old", b="old")
    sheet.finds(finding("a.txt"), a="old").finds(finding("b.txt"), b="old")
    settled = sheet.settle(plan("a", "new"), plan("b", "new"))
    assert {p.stem: d for p, d in settled.contents.items()} == {"a": b"new", "b": b"new"}
    assert settled.given_up == {}
    assert len(sheet.judged) == 2


def test_a_file_whose_finding_stays_is_given_up_and_the_others_are_kept() -> None:
    sheet = Sheet(a="old", b="old")
    sheet.finds(finding("a.txt")).finds(finding("b.txt"), b="old")
    settled = sheet.settle(plan("a", "new"), plan("b", "new"))
    assert [p.stem for p in settled.contents] == ["b"]
    assert settled.given_up == {Path("/a.txt"): "r is still found at f"}


def test_a_file_in_which_something_new_is_found_is_given_up() -> None:
    sheet = Sheet(a="old")
    sheet.finds(finding("a.txt"), a="old").finds(finding("a.txt", "g", "other"), a="new")
    settled = sheet.settle(plan("a", "new"))
    assert settled.contents == {}
    assert settled.given_up == {Path("/a.txt"): "other would be found at g of a.txt"}


def test_a_new_finding_elsewhere_is_traced_to_the_file_that_leads_to_it() -> None:
    sheet = Sheet(a="old", b="old", c="old")
    for name in "abc":
        sheet.finds(finding(f"{name}.txt"), **{name: "old"})
    sheet.finds(finding("elsewhere.py", "g"), b="new")
    settled = sheet.settle(*(plan(name, "new") for name in "abc"))
    assert [p.stem for p in settled.contents] == ["a", "c"]
    assert settled.given_up == {Path("/b.txt"): "r would be found at g of elsewhere.py"}


def test_files_that_lead_to_a_new_finding_together_only_are_all_given_up() -> None:
    sheet = Sheet(a="old", b="old")
    for name in "ab":
        sheet.finds(finding(f"{name}.txt"), **{name: "old"})
    sheet.finds(finding("elsewhere.py"), a="new", b="new")
    assert sheet.settle(plan("a", "new"), plan("b", "new")).contents == {}


def test_upstreams_own_defect_that_comes_to_light_is_told_and_stops_nothing() -> None:
    sheet = Sheet(a="old")
    other = finding("elsewhere.py", origin="inherited")
    sheet.finds(finding("a.txt"), a="old").finds(other, a="new")
    settled = sheet.settle(plan("a", "new"))
    assert [*settled.contents.values()] == [b"new"]
    assert settled.revealed == (other,)


def test_a_finding_in_what_was_edited_stops_it_whoever_has_it_too() -> None:
    sheet = Sheet(a="old")
    sheet.finds(finding("a.txt"), a="old")
    sheet.finds(finding("a.txt", rule="late", origin="inherited"), a="new")
    assert sheet.settle(plan("a", "new")).contents == {}


def test_one_of_two_equal_findings_may_stay_where_only_one_is_fixed() -> None:
    sheet = Sheet(a="old old")
    first, second = finding("a.txt", mark="x"), finding("a.txt", mark="x-2")
    sheet.finds(first, a="old old").finds(second, a="old old").finds(first, a="new old")
    settled = sheet.settle(plan("a", "new", first))
    assert [*settled.contents.values()] == [b"new old"]


def test_of_two_edits_that_meet_the_first_is_made() -> None:
    sheet = Sheet(a="old")
    one, two = finding("a.txt", "f"), finding("a.txt", "g")
    sheet.finds(one, a="old").finds(two)
    settled = sheet.settle(plan("a", "new", one, 0, 2), plan("a", "other", two, 1, 3))
    assert [*settled.contents.values()] == [b"newd"]
    assert settled.refused.keys() == {two.fingerprint}


def test_a_python_file_that_would_not_parse_is_never_judged() -> None:
    sheet = Sheet()
    file = Path("/a.py")
    sheet.sources[file] = Source.of_python(b"x = 1\n")
    broken = Plan(finding("a.py"), file, Edit(0, 1, "("), "unsafe", "")
    settled = sheet.settle(broken)
    assert settled.contents == {}
    assert "cannot be parsed" in settled.given_up[file]
    assert sheet.judged == [{}]


# -- writing --------------------------------------------------------------------------------------


def test_a_file_keeps_its_mode_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "a.sh"
    file.write_bytes(b"old")
    file.chmod(0o751)
    write(file, b"old", b"new", [tmp_path])
    assert file.read_bytes() == b"new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o751
    assert os.listdir(tmp_path) == ["a.sh"]  # noqa: PTH208


def test_a_second_name_of_the_file_keeps_the_old_text(tmp_path: Path) -> None:
    file, other = tmp_path / "a", tmp_path / "b"
    file.write_bytes(b"old")
    os.link(file, other)
    write(file, b"old", b"new", [tmp_path])
    assert other.read_bytes() == b"old"


def test_an_interruption_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"old")

    def interrupted(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(file, b"old", b"new", [tmp_path])
    assert file.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]  # noqa: PTH208


@pytest.mark.parametrize("kind", ["file", "folder", "changed", "gone", "pipe", "outside"])
def test_what_is_not_the_file_that_was_read_is_not_written(tmp_path: Path, kind: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_bytes(b"old")
    tree = tmp_path / "tree"
    tree.mkdir()
    file = tree / "a"
    if kind == "file":
        file.symlink_to(outside / "a")
    elif kind == "folder":
        (tree / "sub").symlink_to(outside)
        file = tree / "sub" / "a"
    elif kind == "changed":
        file.write_bytes(b"olden")
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "outside":
        file = outside / "a"
    with pytest.raises(Unfit):
        write(file, b"old", b"new", [tree])
    assert (outside / "a").read_bytes() == b"old"
    assert kind != "changed" or file.read_bytes() == b"olden"


# -- the whole, on hostile and unfit trees --------------------------------------------------------


def test_a_file_behind_a_link_is_told_and_left(tmp_path: Path) -> None:
    fork = write_tree(tmp_path / "fork", {"elsewhere/pool.py": HEAD + OPEN})
    (fork / POOL).parent.mkdir(parents=True)
    (fork / POOL).symlink_to(fork / "elsewhere" / "pool.py")
    done = repair(AuditRequest(root=fork, upstream=str(fork)), unsafe=True)
    assert [(f.applicability, f.state) for f in done.fixes] == [("display", "none")]
    assert "link" in done.fixes[0].reason
    assert (fork / "elsewhere" / "pool.py").read_text() == HEAD + OPEN


def test_a_file_behind_a_link_is_fixed_with_the_one_that_it_leads_to(tmp_path: Path) -> None:
    fork = write_tree(tmp_path / "fork", {"sglang/srt/mem_cache/real.py": HEAD + OPEN})
    (fork / POOL).symlink_to("real.py")
    done = repair(AuditRequest(root=fork, upstream=str(fork)), unsafe=True)
    assert len(done.fixes) == 2
    assert done.complete
    assert [path for path, _, _ in done.changes] == ["sglang/srt/mem_cache/real.py"]
    assert (fork / POOL).is_symlink()
    assert (fork / POOL).read_text().count("wait_until") == 3


def test_a_fix_that_leads_to_another_finding_is_rolled_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from auditor.fix.gates import Gates, Offer

    honest = Gates.offer
    more = method("def get_sum(self, layer_id):\n    return self.pages[layer_id].sum()")

    def careless(self: Gates, gap: Gap, about: Finding) -> Offer:
        offer = honest(self, gap, about)
        text = self.source(0, offer.path).text
        rest = offer.edit.text + text[offer.edit.end :] + more
        return Offer(offer.path, Edit(offer.edit.start, len(text), rest), "")

    monkeypatch.setattr(Gates, "offer", careless)
    done = fix(tmp_path, {POOL: HEAD + OPEN})
    assert [f.state for f in done.fixes] == ["rolled-back"]
    assert "get_sum" in done.fixes[0].reason
    assert done.changes == ()
    assert (tmp_path / "fork" / POOL).read_text() == HEAD + OPEN


@pytest.mark.parametrize(
    "odd",
    [
        "class Deep:\n" + "    if 1:\n" * 1 + "        x = " + "(" * 180 + "1" + ")" * 180 + "\n",
        "def broken(:\n",
        "x = '''never closed\n",
        "# -*- coding: no-such-thing -*-\n",
        "\0",
    ],
)
def test_files_that_nothing_can_read_do_not_stop_the_others(tmp_path: Path, odd: str) -> None:
    other = "sglang/srt/mem_cache/odd.py"
    done = fix(tmp_path, {POOL: HEAD + OPEN, other: HEAD.replace("PagePool", "Odd") + odd})
    assert [f.state for f in done.fixes if f.finding.hit.where.symbol.path == POOL] == ["made"]
    assert (tmp_path / "fork" / other).read_text() == HEAD.replace("PagePool", "Odd") + odd


@pytest.mark.parametrize("depth", [40, 90])
def test_deep_nesting_ends_in_a_reason_or_a_fix(tmp_path: Path, depth: int) -> None:
    deep = "f(" * depth + "self.pages[layer_id]" + ")" * depth
    text = HEAD + method(f"def get_mean(self, layer_id):\n    return {deep}")
    [only] = fix(tmp_path, {POOL: text}).fixes
    after = (tmp_path / "fork" / POOL).read_text()
    if only.state == "made":
        assert after.count("wait_until") == 3
    else:
        assert (only.applicability, after) == ("display", text)


@pytest.mark.parametrize(
    "chain",
    [
        "if x" + " and x" * 20_000 + ": pass",
        "y = 1" + " or 1" * 20_000,
        "y = [1 for x in y if 1" + " and 1" * 20_000 + "]",
        "import a" + ".a" * 20_000,
        "from a" + ".a" * 20_000 + " import x",
    ],
    ids=["and", "or", "within an expression", "import", "from"],
)
def test_what_libcst_has_no_stack_for_is_refused(chain: str) -> None:
    source = Source.of_python(f"class A:\n    def f(self, x, y):\n        {chain}\n".encode())
    with pytest.raises(Unfit, match="nested too deeply"):  # the process would die of it
        Written.of(source, "A.f", 2)


@pytest.mark.parametrize("form", ["fix", "sarif"])
@pytest.mark.parametrize("where", ["here", "in its siblings"])
def test_a_hostile_function_does_not_end_the_process(tmp_path: Path, where: str, form: str) -> None:
    chain = "        import a" + ".a" * 20_000 + "\n"
    before = "        return" if where == "here" else "        if self.counter"
    text = HEAD + OPEN.replace(before, chain + before)
    text = text.replace(before, chain + before) if where != "here" else text
    fork = write_tree(tmp_path / "fork", {POOL: text})
    out = tmp_path / "a.sarif"
    options = ["fix", "--unsafe"] if form == "fix" else ["-o", f"sarif={out}"]
    done = subprocess.run(
        [sys.executable, "-m", "auditor", *options, "-C", fork, "--upstream", fork],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert (fork / POOL).read_text() == text
    if form == "fix":
        assert done.returncode == 1
        assert "nested too deeply" in done.stdout
    else:
        [result] = json.loads(out.read_bytes())["runs"][0]["results"]
        assert result["properties"]["applicability"] == "display"


def test_an_invalid_escape_of_the_fork_is_not_warned_of(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    upstream = HEAD + method(
        """
        def get_tail(self, layer_id):
            name = "\\d"
            if self.counter is not None:
                self.counter.wait_until(layer_id - self.first)
            return self.pages[layer_id - self.first][name]
        """
    )
    head, _, rest = upstream.rpartition("        if self.counter is not None:\n")
    lost = head + rest.partition("\n")[2]
    assert [f.state for f in fix(tmp_path, {POOL: lost}, {POOL: upstream}).fixes] == ["made"]
    assert (tmp_path / "fork" / POOL).read_text() == upstream
    # Newer Pythons also warn of a fork beside the threads that run the tests.
    assert [str(w.message) for w in recwarn if "escape" in str(w.message)] == []


def test_what_could_not_be_read_is_no_clean_bill(tmp_path: Path) -> None:
    done = fix(tmp_path, {POOL: HEAD, "sglang/srt/mem_cache/odd.py": HEAD + "def broken(:\n"})
    assert done.fixes == ()
    assert done.undecided
    assert not done.complete


def test_only_a_tree_on_disk_can_be_fixed(tiny_repository, tmp_path: Path) -> None:
    made = tiny_repository({f"python/{POOL}": HEAD + OPEN})
    with pytest.raises(UsageProblem, match=r"v0\.5\.9.*revision"):
        repair(AuditRequest(root=made.top, rev="v0.5.9", upstream="v0.5.9"))
    made.git("clone", "--bare", "--quiet", ".", str(tmp_path / "bare"))
    with pytest.raises(UsageProblem, match="bare"):
        repair(AuditRequest(root=tmp_path / "bare", upstream="v0.5.9"))
