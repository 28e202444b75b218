"""Built histories of an upstream and a fork, and the drift of the one against the other."""

from __future__ import annotations

from auditor.drift.facts import Drift, Fix
from auditor.drift.survey import Compared, survey
from auditor.repo.changes import compare
from auditor.repo.history import history, latest_base, newest_release
from auditor.repo.snapshot import open_fork, open_reference, open_revision

POOL = "python/sglang/srt/pool.py"
OTHER = "python/sglang/srt/other.py"

BASE = """\
import os


class Pool:
    size = 1

    def __init__(self, layers):
        self.layers = layers
        self.rows = [None] * layers

    def get_rows(self, layer, slots):
        offset = layer - self.first
        rows = self.rows[offset]
        return rows[slots]

    def free(self, slots):
        self.used -= len(slots)
        self.log(slots)
        return self.used


def reset(pool):
    pool.rows = []
"""
OTHER_BASE = "def helper(a):\n    total = a + 1\n    return total\n\n\ndef tail(b):\n    return b\n"

READ = "        rows = self.rows[offset]\n"
GATED = "        self.counter.wait_until(offset)\n" + READ
FIXED = BASE.replace(READ, GATED)

# The fork's own change to the same method, so that every upstream change to it matters.
FORKED = BASE.replace("        return rows[slots]\n", "        return rows[slots].contiguous()\n")
FORKED_FIXED = FORKED.replace(READ, GATED)


class History:
    """Upstream's line on ``main``, the fork's on ``fork``; both start at v0.5.9."""

    def __init__(self, make, tmp_path, files=None):
        self.repository = make(files or {POOL: BASE, OTHER: OTHER_BASE})
        self.repository.git("branch", "fork")
        self.cache = tmp_path

    def upstream(self, files, message="Fix a read (#101)"):
        self.repository.git("switch", "--quiet", "main")
        return self.repository.commit(files, message)

    def fork(self, files, message="own change"):
        self.repository.git("switch", "--quiet", "fork")
        return self.repository.commit(files, message)

    def release(self):
        self.repository.git("tag", "v0.5.10", "main")
        self.repository.git("switch", "--quiet", "fork")

    def drift(self) -> Drift:
        self.release()
        return drift_of(self.repository.top, self.cache)

    def fix(self, sha) -> Fix:
        [found] = [fix for fix in self.drift().fixes.listed if fix.sha == sha]
        return found


def drift_of(top, cache, upstream="v0.5.9", findings=()):
    fork = open_fork(top)
    release = open_reference(upstream, "upstream", fork, cache)
    newest = newest_release(fork, release)
    target = open_reference(newest, "target", fork, cache) if newest else None
    past = history(fork, release)
    start = latest_base(fork, past.merge_base, target)
    base = open_revision(fork, start) if start else release
    return survey(Compared(fork, release, base, target, compare(fork, base), past), findings)
