"""Upstream commits that end a finding of the fork, and the bound on how many are judged."""

from __future__ import annotations

import pytest
from scenarios.pools import POOL as POOL_FILE
from scenarios.pools import READERS, pool

from auditor.drift import fixes
from auditor.runs.drift import run_drift
from auditor.runs.request import AuditRequest
from tests.drift.histories import FIXED, FORKED, POOL, History

PATH = f"python/{POOL_FILE}"
BROKEN = pool(READERS[1:], READERS[:1])
LATER = BROKEN.replace(
    "return self.rows[layer_id][slots]", "return self.rows[layer_id][slots or 0]"
)
SOUND = pool().replace(
    "return self.rows[layer_id][slots]", "return self.rows[layer_id][slots or 0]"
)
AGAIN = SOUND.replace("slots or 0", "slots or None")


@pytest.fixture
def line(tiny_repository, tmp_path):
    """The fork changed another file; upstream touched the reader three times, once to wait."""
    made = History(tiny_repository, tmp_path, {PATH: BROKEN, "python/sglang/other.py": "x = 1\n"})
    made.fork({"python/sglang/other.py": "x = 2\n"})
    return made


def audited(line):
    line.release()
    request = AuditRequest(line.repository.top, None, "v0.5.9", jobs=1, cache=line.cache)
    return run_drift(request)


def test_the_commit_that_ended_a_finding_is_named_and_its_neighbours_are_not(line):
    line.upstream({PATH: LATER}, "Take none (#1)")
    ending = line.upstream({PATH: SOUND}, "Order the rows (#2)")
    line.upstream({PATH: AGAIN}, "Take none as none (#3)")
    report, drift = audited(line)
    [finding] = report.findings
    [fix] = drift.fixes.listed
    assert (fix.sha, fix.ends, fix.findings) == (ending, (finding.fingerprint,), fix.ends)
    assert fix.missed
    seen = fix.evidence[0]
    assert seen.note == f"ends finding {finding.fingerprint}"
    assert (seen.path, seen.line, seen.symbol) == (
        PATH,
        finding.hit.where.line,
        "Pool.get_rows",
    )
    assert drift.fixes.same_file == 0  # the fork did not change that file


def test_a_helper_in_another_place_that_ended_it_is_named_too(line):
    """The reader's own symbol does not change: what it calls began to wait."""
    read = "        return self.rows[layer_id][slots]\n"
    start, _, end = BROKEN.rpartition(read)
    helper = "\n    def _at(self, layer_id):\n"
    wait = "        if self.counter is not None:\n            self.counter.wait_until(layer_id)\n"
    through = f"{start}        return self._at(layer_id)[slots]\n{helper}"
    tail = f"        return self.rows[layer_id]\n{end}"
    line.repository.git("switch", "--quiet", "main")
    line.repository.commit({PATH: through + tail}, "through a helper")
    line.repository.git("tag", "--force", "v0.5.9", "main")
    line.repository.git("branch", "--force", "fork", "main")
    line.fork({"python/sglang/other.py": "x = 3\n"})
    ending = line.upstream({PATH: through + wait + tail}, "Order the rows (#2)")
    report, drift = audited(line)
    fingerprint = next(
        f.fingerprint for f in report.findings if f.hit.where.symbol.qualname == "Pool.get_rows"
    )
    assert [fix.sha for fix in drift.fixes.listed if fingerprint in fix.ends] == [ending]


def test_what_is_beyond_the_bound_is_counted(tiny_repository, tmp_path, monkeypatch):
    monkeypatch.setattr(fixes, "MAX_JUDGED", 1)
    made = History(tiny_repository, tmp_path)
    made.fork({POOL: FORKED})
    made.upstream({POOL: FIXED.replace("rows[slots]", "rows[slots, :]")}, "Look at all (#1)")
    made.upstream({POOL: FIXED}, "Look at some again (#2)")
    made.upstream({POOL: FIXED.replace("rows[slots]", "rows[slots, 0]")}, "Fix a look (#3)")
    found = made.drift().fixes
    assert [fix.number for fix in found.listed] == [3]
    assert found.unjudged == 2


WRITER = "python/sglang/srt/writer.py"
UNORDERED = """\
class Writer:
    def rows(self, slots):
        return self.pages[slots]
"""
ORDERED = UNORDERED.replace("        return", "        self.done.synchronize()\n        return")


def test_a_wait_that_upstream_added_later_is_a_missed_fix(tiny_repository, tmp_path):
    """The fork did not touch the function, and no sibling says that it should wait."""
    made = History(tiny_repository, tmp_path, {WRITER: UNORDERED, "python/sglang/other.py": ""})
    made.fork({"python/sglang/other.py": "x = 2\n"})
    adding = made.upstream({WRITER: ORDERED}, "Wait for the copy (#7)")
    report, drift = audited(made)
    [finding] = report.findings
    assert (finding.rule, finding.severity) == ("wait-in-later-release", "low")
    assert (finding.origin, finding.fixed_in) == ("fixed-upstream", "v0.5.10")
    [fix] = drift.fixes.listed
    assert (fix.sha, fix.findings, fix.missed) == (adding, (finding.fingerprint,), True)
