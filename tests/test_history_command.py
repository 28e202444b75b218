"""Findings over releases: where they appear, where and by which commit they end."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from conftest import TinyRepository
from scenarios.pools import POOL, READERS, pool

from auditor.cli.main import main
from auditor.errors import UsageProblem
from auditor.model import Finding, Lifetime, Timeline
from auditor.runs.audit import run
from auditor.runs.history import run_history
from auditor.runs.request import AuditRequest

PATH = f"python/{POOL}"
MOVED = "python/sglang/srt/elsewhere/rows.py"
SOUND = pool()
BROKEN = pool(READERS[1:], READERS[:1])
OTHER = {"python/sglang/version.py": "__version__ = '0'\n"}

Make = Callable[..., TinyRepository]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def history(root: Path, *refs: str, cache: Path | None = None, **more: object) -> Timeline:
    request = AuditRequest(root, None, refs[0], refs[1:], jobs=1, cache=cache, **more)  # type: ignore[arg-type]
    return run_history(request)[0]


def told(found: Timeline) -> list[tuple[str, str, str | None, str]]:
    return [
        (life.finding.hit.where.symbol.qualname, life.appeared, life.ended, life.ended_reason)
        for life in found.lifetimes
    ]


def only(found: Timeline) -> Lifetime:
    (life,) = found.lifetimes
    return life


def subject(life: Lifetime) -> str | None:
    return None if life.repair is None else life.repair.subject


def after(text: str, number: int) -> str:
    """The same code after a comment: another content, the same symbols."""
    return f"# revision {number}\n{text}"


# -- what appeared and what ended ----------------------------------------------------------------


def test_a_defect_from_the_release_that_brought_it_to_the_one_that_ended_it(
    tiny_repository: Make,
) -> None:
    repository = tiny_repository({PATH: SOUND, **OTHER})
    repository.commit({PATH: BROKEN}, "lose the wait", "v0.5.10")
    repository.commit({PATH: after(BROKEN, 1)}, "say which revision it is", "v0.5.11")
    repository.commit({PATH: after(BROKEN, 2)}, "count on")
    fix = repository.commit({PATH: after(SOUND, 2)}, "wait again")
    repository.commit({PATH: after(SOUND, 3)}, "count further", "v0.5.12")
    found = history(repository.top, "v0.5.9..v0.5.12")
    life = only(found)
    assert told(found) == [("Pool.get_rows", "v0.5.10", "v0.5.12", "it waits")]
    assert life.last == "v0.5.11"
    assert life.repair is not None
    assert (life.repair.sha, life.repair.subject) == (fix, "wait again")
    assert [release.ref for release in found.releases] == [
        "v0.5.9",
        "v0.5.10",
        "v0.5.11",
        "v0.5.12",
    ]
    assert [release.findings for release in found.releases] == [0, 1, 1, 0]


def test_one_that_all_releases_have(tiny_repository: Make) -> None:
    repository = tiny_repository({PATH: BROKEN, **OTHER})
    repository.commit({PATH: after(BROKEN, 1)}, "count", "v0.5.10")
    assert told(history(repository.top, "v0.5.9..v0.5.10")) == [
        ("Pool.get_rows", "v0.5.9", None, "")
    ]


def test_candidates_are_no_releases_and_versions_are_in_order(tiny_repository: Make) -> None:
    repository = tiny_repository({PATH: BROKEN, **OTHER})
    repository.commit({PATH: after(BROKEN, 1)}, "candidate", "v0.5.10rc0")
    repository.commit({PATH: after(BROKEN, 2)}, "ten", "v0.5.10")
    repository.commit({PATH: after(BROKEN, 3)}, "post", "v0.5.10.post1")
    repository.commit({PATH: after(BROKEN, 4)}, "beyond", "v0.5.11")
    found = history(repository.top, "v0.5.9..v0.5.10.post1")
    assert [release.ref for release in found.releases] == ["v0.5.9", "v0.5.10", "v0.5.10.post1"]


def test_a_symbol_that_is_gone(tiny_repository: Make) -> None:
    repository = tiny_repository({PATH: BROKEN, **OTHER})
    repository.commit({PATH: pool(READERS[1:])}, "take the reader out", "v0.5.10")
    life = only(history(repository.top, "v0.5.9..v0.5.10"))
    assert (life.ended, life.ended_reason) == ("v0.5.10", "the symbol is gone")
    assert subject(life) == "take the reader out"


def test_reverted_and_landed_again(tiny_repository: Make) -> None:
    repository = tiny_repository({PATH: BROKEN, **OTHER})
    repository.commit({PATH: after(SOUND, 1)}, "wait")
    repository.commit({PATH: after(BROKEN, 2)}, "revert: wait")
    again = repository.commit({PATH: after(SOUND, 3)}, "wait, again")
    repository.commit({PATH: after(SOUND, 4)}, "count", "v0.5.10")
    life = only(history(repository.top, "v0.5.9..v0.5.10"))
    assert life.repair is not None
    assert life.repair.sha == again


def test_what_comes_back_in_a_later_release_is_listed_twice(tiny_repository: Make) -> None:
    repository = tiny_repository({PATH: BROKEN, **OTHER})
    repository.commit({PATH: SOUND}, "wait", "v0.5.10")
    repository.commit({PATH: after(BROKEN, 1)}, "revert: wait", "v0.5.11")
    repository.commit({PATH: after(SOUND, 1)}, "wait, again", "v0.5.12")
    found = history(repository.top, "v0.5.9..v0.5.12")
    spans = {(life.appeared, life.ended, subject(life)) for life in found.lifetimes}
    assert spans == {("v0.5.9", "v0.5.10", "wait"), ("v0.5.11", "v0.5.12", "wait, again")}


def test_a_subject_that_a_terminal_would_obey(
    tiny_repository: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    repository = tiny_repository({PATH: BROKEN, **OTHER})
    repository.commit({PATH: SOUND}, "wait\x1b[2J\there", "v0.5.10")
    words = ["-C", str(repository.top), "history", "--upstream", "v0.5.9..v0.5.10"]
    assert main(words) == 0
    page = capsys.readouterr().out
    assert "wait" in page
    assert "\x1b" not in page


# -- moved and renamed ---------------------------------------------------------------------------


def test_a_renamed_file_and_the_fix_under_its_new_name(tiny_repository: Make) -> None:
    repository = tiny_repository({PATH: BROKEN, **OTHER})
    (repository.top / PATH).unlink()
    repository.commit({MOVED: BROKEN}, "move the file", "v0.5.10")
    repository.commit({MOVED: SOUND}, "wait", "v0.5.11")
    life = only(history(repository.top, "v0.5.9..v0.5.11"))
    assert (life.appeared, life.ended, subject(life)) == ("v0.5.9", "v0.5.11", "wait")
    assert [name.path for name in life.names] == [PATH]


def test_renamed_and_fixed_between_the_same_two_releases(tiny_repository: Make) -> None:
    repository = tiny_repository({PATH: BROKEN, **OTHER})
    (repository.top / PATH).unlink()
    repository.commit({MOVED: BROKEN}, "move the file")
    repository.commit({MOVED: SOUND}, "wait")
    repository.commit({MOVED: after(SOUND, 1)}, "count", "v0.5.10")
    life = only(history(repository.top, "v0.5.9..v0.5.10"))
    assert (life.ended, life.ended_reason, subject(life)) == ("v0.5.10", "it waits", "wait")


def test_a_class_that_moved_to_another_file(tiny_repository: Make) -> None:
    keys = pool(name="Keys", buffer="keys")
    both = BROKEN + keys.replace("import torch\n", "")
    repository = tiny_repository({PATH: both, **OTHER})
    repository.commit({PATH: keys, MOVED: BROKEN}, "move the class", "v0.5.10")
    repository.commit({MOVED: SOUND}, "wait", "v0.5.11")
    life = only(history(repository.top, "v0.5.9..v0.5.11"))
    assert (life.appeared, life.ended, subject(life)) == ("v0.5.9", "v0.5.11", "wait")


def test_a_renamed_class_goes_on(tiny_repository: Make) -> None:
    repository = tiny_repository({PATH: BROKEN, **OTHER})
    renamed = pool(READERS[1:], READERS[:1], name="RowPool")
    repository.commit({PATH: renamed}, "rename the class", "v0.5.10")
    life = only(history(repository.top, "v0.5.9..v0.5.10"))
    assert (life.appeared, life.ended) == ("v0.5.9", None)
    assert [name.qualname for name in life.names] == ["Pool.get_rows"]


def test_another_symbol_on_the_same_buffer_is_another_finding(tiny_repository: Make) -> None:
    repository = tiny_repository({PATH: BROKEN, **OTHER})
    repository.commit({PATH: pool(READERS, ["get_new"])}, "fix one, bring one", "v0.5.10")
    spans = {
        (name, since, end)
        for name, since, end, _ in told(history(repository.top, "v0.5.9..v0.5.10"))
    }
    assert spans == {("Pool.get_rows", "v0.5.9", "v0.5.10"), ("Pool.get_new", "v0.5.10", None)}


# -- without history -----------------------------------------------------------------------------


def folders(tmp_path: Path, *trees: Mapping[str, str]) -> list[str]:
    found = []
    for number, files in enumerate(trees):
        for name, text in files.items():
            path = tmp_path / f"r{number}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        found.append(str(tmp_path / f"r{number}"))
    return found


def test_folders_in_order_and_no_absolute_path_in_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = folders(tmp_path, {POOL: SOUND}, {POOL: BROKEN}, {POOL: SOUND})
    monkeypatch.chdir(tmp_path)
    words = ["history", "--upstream", first, "--target", second, "--target", third]
    assert main([*words, "-o", "json"]) == 0
    text = capsys.readouterr().out
    (found,) = json.loads(text)["findings"]
    assert (found["appeared"], found["ended"], found["ended_by"]) == ("r1", "r2", None)
    assert str(tmp_path) not in text
    assert main(words) == 0
    page = capsys.readouterr().out
    assert "since r1 · ended r2: it waits" in page


def test_one_that_could_not_be_read_ends_nothing(tmp_path: Path) -> None:
    trees = ({POOL: BROKEN}, {POOL: BROKEN + "\nx = = 1\n"}, {POOL: BROKEN})
    found = history(tmp_path, *folders(tmp_path, *trees))
    assert told(found) == [("Pool.get_rows", "r0", None, "")]
    assert [entry.path for entry in found.skipped] == [f"r1: {POOL}"]


def test_rules_and_confidence_filter(tmp_path: Path) -> None:
    refs = folders(tmp_path, {POOL: BROKEN}, {POOL: BROKEN, "sglang/x.py": ""})
    assert only(history(tmp_path, *refs, select=("ungated-buffer-read",)))
    assert not history(tmp_path, *refs, select=("gate-bypassed",)).lifetimes


@pytest.mark.parametrize(
    ("refs", "words"),
    [
        (("v0.5.9",), "is one release"),
        (("v0.5.9..v0.6.0",), "is no release tag; nearest tags: "),
        (("v0.5.10..v0.5.9",), r"runs backwards; .*: v0.5.9\.\.v0.5.10"),
        (("v0.5.9..",), "needs both ends"),
        (("..v0.5.10",), "needs both ends"),
        (("v0.5.9..main",), "--target main"),
        (("pypi:0.5.9..pypi:0.5.10",), "--upstream pypi:0.5.9 --target pypi:NEXT"),
        (("v0.5.9..v0.5.10", "v0.5.9"), "named twice"),
    ],
)
def test_rows_that_are_none(tiny_repository: Make, refs: tuple[str, ...], words: str) -> None:
    repository = tiny_repository({PATH: BROKEN, **OTHER})
    repository.commit({PATH: SOUND}, "wait", "v0.5.10")
    with pytest.raises(UsageProblem, match=words):
        history(repository.top, *refs)


def test_rules_that_one_release_cannot_show(tmp_path: Path) -> None:
    refs = folders(tmp_path, {POOL: BROKEN}, {POOL: BROKEN, "sglang/x.py": ""})
    found = history(tmp_path, *refs, select=("gate-removed", "ungated-buffer-read"))
    assert [life.finding.rule for life in found.lifetimes] == ["ungated-buffer-read"]
    assert len(found.notes) == 1
    assert "gate-removed says nothing here" in found.notes[0]
    for select in (("gate-removed",), ("ambiguous-flag", "gate-removed")):
        with pytest.raises(UsageProblem, match="says nothing here"):
            history(tmp_path, *refs, select=select)
    with pytest.raises(UsageProblem, match="ignored"):
        history(tmp_path, *refs, select=("gate-bypassed",), ignore=("gate-bypassed",))
    assert not history(tmp_path, *refs).notes


@pytest.mark.parametrize("rule", ["", "gate-bypassed,", " "])
def test_an_empty_rule_is_told_by_its_own_option(
    rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["history", "--upstream", "v0.5.9..v0.5.10", "--rule", rule]) == 2
    assert "--rule: is empty" in capsys.readouterr().err


def test_tags_on_unrelated_history_are_judged_and_no_commit_is_made_up(
    tiny_repository: Make,
) -> None:
    repository = tiny_repository({PATH: BROKEN, **OTHER})
    repository.git("switch", "--quiet", "--orphan", "other")
    repository.commit({PATH: SOUND, **OTHER}, "another beginning", "v0.5.10")
    life = only(history(repository.top, "v0.5.9..v0.5.10"))
    assert (life.ended, life.ended_reason, life.repair) == ("v0.5.10", "it waits", None)


# -- the cache -----------------------------------------------------------------------------------


def test_a_row_once_judged_is_told_unread_and_a_changed_tree_is_judged_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    from auditor.repo import marks

    # Files that were written just now have no mark yet.
    monkeypatch.setattr(marks, "_SETTLED", 0)
    refs = folders(tmp_path, {POOL: BROKEN}, {POOL: BROKEN, "sglang/x.py": ""})
    first = history(tmp_path, *refs, cache=tmp_path / "kept")
    unread = tmp_path / "unread"
    unread.mkdir()

    def refuse(*_: object) -> None:
        raise AssertionError("a tree was read")

    with monkeypatch.context() as patch:
        patch.setattr("auditor.releases.timeline.Sides", refuse)
        assert history(tmp_path, *refs, cache=tmp_path / "kept").lifetimes == first.lifetimes
    changed = tmp_path / "r1" / POOL
    before = changed.stat()
    changed.write_text(SOUND)
    os.utime(changed, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert only(history(tmp_path, *refs, cache=tmp_path / "kept")).ended == "r1"


# -- fixed where, in an audit --------------------------------------------------------------------


def audited(repository: TinyRepository, *targets: str, cache: Path | None = None) -> Finding:
    request = AuditRequest(repository.top, "v0.5.9", "v0.5.9", targets, jobs=1, cache=cache)
    (finding,) = run(request).findings
    return finding


def fixed(tiny_repository: Make) -> TinyRepository:
    repository = tiny_repository({PATH: BROKEN, **OTHER})
    repository.commit({PATH: after(BROKEN, 1)}, "count", "v0.5.10")
    repository.commit({PATH: after(SOUND, 1)}, "wait")
    repository.commit({PATH: after(SOUND, 2)}, "count on", "v0.5.11")
    repository.commit({PATH: after(SOUND, 3)}, "count further", "v0.5.12")
    return repository


def test_an_inherited_finding_says_where_upstream_fixed_it(
    tiny_repository: Make, tmp_path: Path
) -> None:
    repository = fixed(tiny_repository)
    for _ in range(2):  # the second time from the cache
        finding = audited(repository, cache=tmp_path / "kept")
        assert (finding.origin, finding.fixed_in) == ("inherited", "v0.5.11")
        assert finding.fixed_by is not None
        assert finding.fixed_by.subject == "wait"


def test_with_a_target_the_first_release_is_named_and_not_the_target(
    tiny_repository: Make,
) -> None:
    finding = audited(fixed(tiny_repository), "v0.5.12")
    assert (finding.origin, finding.fixed_in) == ("fixed-upstream", "v0.5.11")
    assert finding.fixed_by is not None


def test_no_further_than_the_target(tiny_repository: Make) -> None:
    finding = audited(fixed(tiny_repository), "v0.5.10")
    assert (finding.origin, finding.fixed_in, finding.fixed_by) == ("inherited", None, None)


def test_a_helper_that_began_to_wait_is_a_fix(tiny_repository: Make) -> None:
    """The reader's own text is the same; what it calls is not."""
    start, read, end = BROKEN.rpartition("        return self.rows[layer_id][slots]\n")
    asked = f"{start}        return self._rows(layer_id, slots)\n\n"
    wait = "        if self.counter is not None:\n            self.counter.wait_until(layer_id)\n"
    head = "    def _rows(self, layer_id, slots):\n"
    before, behind = (asked + head + more + read + end for more in ("", wait))
    repository = tiny_repository({PATH: before, **OTHER})
    repository.commit({PATH: behind}, "wait in the helper", "v0.5.10")
    request = AuditRequest(repository.top, "v0.5.9", "v0.5.9", jobs=1)
    by_name = {f.hit.where.symbol.qualname: f for f in run(request).findings}
    finding = by_name["Pool.get_rows"]
    assert (finding.fixed_in, finding.fixed_by and finding.fixed_by.subject) == (
        "v0.5.10",
        "wait in the helper",
    )


def test_a_backport_that_differs_from_upstreams_fix_is_no_finding_at_all(
    tiny_repository: Make,
) -> None:
    """By symbol state, not by patch: the fork's own wording of the wait ends it as well."""
    repository = fixed(tiny_repository)
    repository.git("checkout", "--quiet", "-b", "fork", "v0.5.9")
    own = SOUND.replace("if self.counter is not None:", "if self.counter:", 1)
    repository.commit({PATH: own}, "wait as we do")
    request = AuditRequest(repository.top, None, "v0.5.9", jobs=1)
    assert not run(request).findings
