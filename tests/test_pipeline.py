"""Whole audits of small repositories: sides, origins, filters, and what a report may depend on."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from conftest import TinyRepository
from scenarios.pools import POOL, READERS, pool

import auditor
from auditor.errors import UsageProblem
from auditor.formats import render
from auditor.formats.text import Screen
from auditor.formats.verdict import decide
from auditor.model import Finding, Report
from auditor.runs.audit import audit_sources, run
from auditor.runs.request import AuditRequest

ROOT = Path(auditor.__file__).parents[1]
PATH = f"python/{POOL}"
SOUND = pool()
BROKEN = pool(READERS[1:], READERS[:1])
TWO = pool(READERS[2:], READERS[:2])
OTHER = {"python/sglang/version.py": "__version__ = '0'\n"}

Make = Callable[..., TinyRepository]


def audit(repository: TinyRepository, upstream: str = "v0.5.9", **more: object) -> Report:
    request = AuditRequest(root=repository.top, upstream=upstream, jobs=1, **more)  # type: ignore[arg-type]
    return run(request)


def origins(report: Report) -> dict[str, str]:
    return {f.hit.where.symbol.qualname.rpartition(".")[2]: f.origin for f in report.findings}


def machine(report: Report) -> str:
    return render("json", report, decide(report, "high", False), Screen(100))


# -- sides ---------------------------------------------------------------------------------------


def test_the_work_tree_against_a_tag(tiny_repository: Make) -> None:
    repository = tiny_repository({PATH: SOUND, **OTHER})
    assert not audit(repository).findings
    repository.write({PATH: BROKEN})
    (finding,) = audit(repository).findings
    assert finding.origin == "regressed"
    assert finding.hit.where.symbol.path == PATH
    assert {e.path for e in finding.hit.evidence} == {PATH}
    assert not audit(repository, rev="HEAD").findings


def test_an_untracked_file_of_the_fork_is_audited(tiny_repository: Make) -> None:
    repository = tiny_repository({PATH: SOUND, **OTHER})
    more = pool(READERS[1:], READERS[:1], name="Own", buffer="own_rows")
    repository.write({"python/sglang/srt/mem_cache/own.py": more})
    assert origins(audit(repository)) == {"get_rows": "introduced"}


def test_what_upstream_did_after_the_tag_is_inherited(tiny_repository: Make) -> None:
    """The fork branched later than the release it names: the merge base is a side."""
    repository = tiny_repository({PATH: SOUND, **OTHER})
    repository.git("branch", "upstream")
    repository.commit({PATH: pool(READERS, ["get_later"])}, "upstream's own later commit")
    repository.commit({}, "release", "v0.6.0")
    repository.git("checkout", "--quiet", "-b", "fork")
    repository.commit({PATH: pool(READERS, ["get_later", "get_mine"])}, "ours")
    repository.git("checkout", "--quiet", "upstream")
    repository.commit({"python/sglang/release.py": "r = 1\n"}, "on the release branch", "v0.5.9.1")
    repository.git("checkout", "--quiet", "fork")
    # v0.5.9.1 and the fork part at v0.5.9; against v0.6.0 the later reader is upstream's.
    assert origins(audit(repository, "v0.6.0")) == {
        "get_later": "inherited",
        "get_mine": "introduced",
    }


def test_the_merge_base_is_asked_where_the_tag_is_on_a_release_branch(
    tiny_repository: Make,
) -> None:
    repository = tiny_repository({PATH: SOUND, **OTHER})
    middle = repository.commit({PATH: pool(READERS, ["get_later"])}, "upstream goes on")
    repository.git("checkout", "--quiet", "-b", "release", "v0.5.9")
    repository.commit({"python/sglang/release.py": "r = 1\n"}, "cut", "v0.5.10")
    repository.git("merge", "--quiet", "-m", "take it", middle)
    repository.commit({PATH: SOUND}, "taken back for the release", "v0.5.11")
    repository.git("checkout", "--quiet", "-b", "fork", middle)
    repository.commit({PATH: pool(READERS, ["get_later", "get_mine"])}, "ours")
    report = audit(repository, "v0.5.11")
    assert report.base is not None
    assert origins(report) == {"get_later": "inherited", "get_mine": "introduced"}


def test_a_target_that_repaired_it_is_named(tiny_repository: Make) -> None:
    repository = tiny_repository({PATH: BROKEN, **OTHER})
    repository.commit({PATH: SOUND}, "repaired", "v0.6.0")
    repository.git("checkout", "--quiet", "-b", "fork", "v0.5.9")
    (finding,) = audit(repository, targets=("v0.6.0",)).findings
    assert (finding.origin, finding.fixed_in) == ("fixed-upstream", "v0.6.0")
    (finding,) = audit(repository).findings
    assert finding.origin == "inherited"


def test_upstreams_file_that_cannot_be_parsed_makes_the_origin_unknown(
    tiny_repository: Make,
) -> None:
    repository = tiny_repository({PATH: SOUND + "x = = 1\n", **OTHER})
    repository.write({PATH: BROKEN})
    report = audit(repository)
    assert origins(report) == {"get_rows": "unknown"}
    assert [(s.side, s.path) for s in report.skipped] == [("upstream", PATH)]


def test_upstreams_file_that_is_too_large_makes_the_origin_unknown(
    tiny_repository: Make,
) -> None:
    repository = tiny_repository({PATH: SOUND + "#" * 5_000_000, **OTHER})
    repository.write({PATH: BROKEN})
    report = audit(repository)
    assert origins(report) == {"get_rows": "unknown"}
    assert {(s.side, s.path) for s in report.skipped} == {("upstream", PATH)}


def test_a_moved_file_and_a_plain_folder_as_upstream(tiny_repository: Make, tmp_path: Path) -> None:
    folder = tmp_path / "site-packages"
    (folder / POOL).parent.mkdir(parents=True)
    (folder / POOL).write_text(SOUND)
    (folder / "sglang" / "version.py").write_text("v = 1\n")
    repository = tiny_repository({"python/sglang/srt/moved.py": BROKEN, **OTHER})
    report = audit(repository, str(folder))
    assert origins(report) == {"get_rows": "regressed"}
    (finding,) = report.findings
    upstream = {e.path for e in finding.hit.evidence if e.side == "upstream"}
    assert upstream == {POOL}, "a path from the root of its own side"


# -- filters -------------------------------------------------------------------------------------


def test_filters_govern_and_what_they_hid_is_counted(tiny_repository: Make) -> None:
    repository = tiny_repository({PATH: BROKEN, **OTHER})
    repository.write({PATH: TWO})
    report = audit(repository)
    assert origins(report) == {"get_rows": "inherited", "get_page": "regressed"}
    assert report.hidden == {}
    report = audit(repository, origins=("regressed", "introduced"))
    assert origins(report) == {"get_page": "regressed"}
    assert report.hidden == {"origin": 1}
    everything = audit(repository, min_confidence="low")
    certain = audit(repository, min_confidence="high")
    hidden = len(everything.findings) - len(certain.findings)
    assert certain.hidden.get("min-confidence", 0) == hidden
    assert all(f.hit.confidence == "high" for f in certain.findings)


def test_select_and_ignore(tiny_repository: Make) -> None:
    repository = tiny_repository({PATH: BROKEN, **OTHER})
    (finding,) = audit(repository).findings
    assert not audit(repository, ignore=(finding.rule,)).findings
    assert audit(repository, select=(finding.rule,)).findings == (finding,)
    assert not audit(repository, select=("gate-after-read",)).findings
    with pytest.raises(UsageProblem, match="no-such-rule"):
        audit(repository, select=("no-such-rule",))


# -- the cache -----------------------------------------------------------------------------------


def test_a_second_run_says_the_same_from_its_cache(tiny_repository: Make, tmp_path: Path) -> None:
    repository = tiny_repository({PATH: BROKEN, **OTHER})
    cold = machine(audit(repository, cache=tmp_path / "cache"))
    assert machine(audit(repository, cache=tmp_path / "cache")) == cold
    assert machine(audit(repository)) == cold
    repository.write({PATH: SOUND})
    assert not audit(repository, cache=tmp_path / "cache").findings
    repository.write({PATH: TWO})
    assert len(audit(repository, cache=tmp_path / "cache").findings) == 2


@pytest.mark.parametrize("content", [b"", b"\xc1\xff", b"\x93", b"\x80"])
def test_a_spoilt_cache_changes_no_answer(
    tiny_repository: Make, tmp_path: Path, content: bytes
) -> None:
    repository = tiny_repository({PATH: BROKEN, **OTHER})
    cache = tmp_path / "cache"
    cold = machine(audit(repository, cache=cache))
    spoilt = [p for p in cache.rglob("*") if p.is_file()]
    assert spoilt
    for path in spoilt:
        path.write_bytes(content)
    assert machine(audit(repository, cache=cache)) == cold


def test_renaming_a_tag_is_seen_through_the_cache(tiny_repository: Make, tmp_path: Path) -> None:
    repository = tiny_repository({PATH: BROKEN, **OTHER})
    repository.git("tag", "v0.5.8", "v0.5.9")
    for tag in ("v0.5.9", "v0.5.8"):
        report = audit(repository, tag, cache=tmp_path / "cache")
        assert report.findings[0].origin_reason == f"{tag} has it at the same symbol"


# -- what a report may depend on -----------------------------------------------------------------

TELLING = {
    PATH: TWO,
    "python/sglang/srt/mem_cache/other.py": pool(
        READERS[1:], READERS[:1], name="Other", buffer="keys", gate="tracker"
    ),
    "python/sglang/srt/broken.py": "def f(:\n    x.wait_until(1)\n",
    "python/sglang/srt/user.py": "def use(pool, i):\n    return kernel(pool.rows[i], i)\n",
}


def command(
    cwd: Path, *arguments: str, cache: Path, seed: str = "0", **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "auditor", *arguments],
        cwd=cwd,
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "XDG_"))},
            "PYTHONPATH": str(ROOT),
            "PYTHONHASHSEED": seed,
            "XDG_CACHE_HOME": str(cache),
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_report_names_no_place_and_no_moment(tiny_repository: Make, tmp_path: Path) -> None:
    """Two copies, two folders to stand in, two caches, two hash seeds: equal bytes."""
    repository = tiny_repository({**TELLING, PATH: BROKEN}, "first")
    repository.write(TELLING)
    second = tmp_path / "elsewhere" / "second"
    shutil.copytree(repository.top, second)
    runs = [
        command(
            repository.top,
            *("--upstream", "v0.5.9", "-o", "json", "--min-confidence", "low"),
            cache=tmp_path / "c1",
            seed="1",
        ),
        command(
            tmp_path,
            *("-C", str(second), "--upstream", "v0.5.9", "-o", "json"),
            *("--min-confidence", "low", "--jobs", "1"),
            cache=tmp_path / "c2",
            seed="4242",
        ),
    ]
    assert [r.returncode for r in runs] == [1, 1], runs[0].stderr
    assert json.loads(runs[0].stdout)["findings"]
    assert runs[0].stdout == runs[1].stdout
    for hint in (str(tmp_path), str(ROOT), socket.gethostname(), "timings"):
        assert hint not in runs[0].stdout
    assert not re.search(r"20\d\d-\d\d-\d\dT", runs[0].stdout)
    tables = [
        command(top, "--upstream", "v0.5.9", cache=tmp_path / "c1", seed=seed).stdout
        for top, seed in ((repository.top, "7"), (second, "8"))
    ]
    assert tables[0] == tables[1]


# -- identity ------------------------------------------------------------------------------------


def fingerprints(files: Mapping[str, str]) -> list[str]:
    return [f.fingerprint for f in audit_sources(files).findings]


def test_fingerprints_outlive_edits_around_them() -> None:
    before = fingerprints({POOL: TWO})
    assert len(set(before)) == 2
    assert set(fingerprints({POOL: "# a\n# comment\n\n" + TWO})) == set(before)
    assert set(fingerprints({"sglang/srt/moved.py": TWO})) == set(before)
    assert set(fingerprints({POOL: TWO.replace("get_head", "get_tail")})) == set(before)
    swapped = pool(READERS[2:], READERS[1::-1])
    assert set(fingerprints({POOL: swapped})) == set(before)


def test_fingerprints_are_unique_among_copies() -> None:
    files = {f"sglang/srt/{n}/pool.py": TWO for n in range(3)}
    found = fingerprints(files)
    assert len(found) == len(set(found)) == 6


# -- what must not matter ------------------------------------------------------------------------


def essence(
    findings: Sequence[Finding], names: Mapping[str, str] | None = None
) -> Sequence[object]:
    def told(text: str) -> str:
        for new, old in (names or {}).items():
            text = re.sub(rf"(?<![A-Za-z]){new}(?![A-Za-z])", old, text)
        return text

    return sorted(
        (
            f.rule,
            f.severity,
            f.origin,
            f.hit.confidence,
            f.hit.reach,
            f.hit.where.line,
            f.hit.where.column,
            told(f.hit.where.symbol.qualname),
            told(f.hit.anchor),
            told(f.hit.message),
        )
        for f in findings
    )


STORY = {
    POOL: pool(["get_rows", "get_page", "get_head"], ["get_more"]),
    "sglang/srt/mem_cache/sub.py": "from sglang.srt.mem_cache.pool import Pool\n\n\n"
    "class SubPool(Pool):\n    def get_rows(self, layer_id, slots=None):\n"
    "        return self.rows[layer_id][slots]\n",
    "sglang/srt/user.py": "from sglang.srt.mem_cache.pool import Pool\n\n\n"
    "def spy(pool: Pool, layer_id):\n    return kernel(pool.rows[layer_id])\n",
}


def test_the_story_has_something_to_tell() -> None:
    rules = {f.rule for f in audit_sources(STORY).findings}
    assert {"ungated-buffer-read", "override-drops-gate", "gate-bypassed"} <= rules


def test_names_do_not_matter() -> None:
    # Equally long, so that columns stay; verbs of methods are words of the vocabulary.
    names = {"Quux": "Pool", "SubQuux": "SubPool", "blob": "rows", "sentry_": "counter"}
    names |= {"get_gulp": "get_rows", "get_sip0": "get_page", "get_bite": "get_more"}
    text = json.dumps(STORY)
    for new, old in names.items():
        text = re.sub(rf"(?<![A-Za-z]){old}(?![A-Za-z])", new, text)
    text = text.replace("QuuxLoader", "PoolLoader").replace("attach_sentry_", "attach_counter")
    report = audit_sources(json.loads(text))
    assert essence(report.findings, names) == essence(audit_sources(STORY).findings)


def test_an_unrelated_class_or_file_changes_nothing() -> None:
    before = essence(audit_sources(STORY).findings)
    unrelated = "\n\nclass Stranger:\n    def get_all(self, i):\n        return self.things[i]\n"
    assert essence(audit_sources({**STORY, POOL: STORY[POOL] + unrelated}).findings) == before
    assert essence(audit_sources({**STORY, "sglang/srt/z.py": unrelated}).findings) == before
    assert essence(audit_sources({**STORY, "sglang/a.py": unrelated}).findings) == before
    sound = pool(name="Sound", buffer="others", gate="clock")
    assert essence(audit_sources({**STORY, "sglang/srt/b.py": sound}).findings) == before


def test_the_order_of_files_does_not_matter() -> None:
    backwards = dict(reversed(STORY.items()))
    assert audit_sources(backwards) == audit_sources(STORY)
    assert audit_sources(STORY) == audit_sources(STORY)


def test_the_order_of_methods_does_not_matter() -> None:
    one = audit_sources({POOL: pool(READERS, ["get_a", "get_b"])})
    two = audit_sources({POOL: pool(tuple(reversed(READERS)), ["get_b", "get_a"])})

    def told(report: Report) -> set[tuple[str, str, str]]:
        return {(f.fingerprint, f.rule, f.hit.message) for f in report.findings}

    assert told(one) == told(two)
