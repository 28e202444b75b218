"""The measuring programs themselves, on a small pool: a wrong yardstick measures nothing."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from auditor.formats.sarif import document, render
from auditor.formats.verdict import decide
from auditor.rulebook import load
from tests.benchmarks import releases
from tests.benchmarks.audits import Found
from tests.benchmarks.gated import find_gates
from tests.benchmarks.launches import starts
from tests.benchmarks.mutants import Unfit, mutate
from tests.benchmarks.rename import names_of, new_names, renamed
from tests.benchmarks.sarif import made_up
from tests.benchmarks.score import judge, truth

POOL = b'''\
class Pool:
    def __init__(self, counter):
        self.done_counter = counter
        self.row_buffer = [object()]

    def _pause_for(self, layer_id):
        if self.done_counter is not None:
            self.done_counter.wait_until(layer_id)

    def get_row(self, layer_id):
        """Docstring."""
        self._pause_for(layer_id)
        return self.row_buffer[layer_id]

    def get_view(self, layer_id):
        if self.done_counter is not None:
            self.done_counter.wait_until(layer_id)
        return self.row_buffer[layer_id].view()

    def drain(self):
        self._pause_for(0)


class Narrow(Pool):
    def get_pair(self, layer_id):
        with self.stream:
            self._pause_for(layer_id)
            copy(self.row_buffer[layer_id])
'''
PATH = "sglang/srt/pool.py"
FILES = {PATH: POOL, "sglang/srt/use.py": b'getattr(pool, "row_buffer")\n'}


def _edited(qualname: str, key: str) -> str:
    names = find_gates(FILES).names
    return mutate(POOL, qualname, key, names, 0)[0].decode()


def test_gated_readers_are_those_that_read_after_a_wait() -> None:
    gates = find_gates(FILES)
    assert [r.qualname for r in gates.readers] == [
        "Pool.get_row",
        "Pool.get_view",
        "Narrow.get_pair",
    ]
    assert gates.wrappers == {"_pause_for"}
    assert gates.counters == {"done_counter"}
    assert [r.line for r in gates.readers] == [10, 15, 25]


def test_siblings_share_an_attribute_and_a_family() -> None:
    gates = find_gates(
        {**FILES, "sglang/srt/other.py": POOL.replace(b"Pool", b"A").replace(b"Narrow", b"B")}
    )
    row = next(r for r in gates.readers if r.qualname == "Pool.get_row")
    assert [r.qualname for r in gates.siblings(row)] == ["Pool.get_view", "Narrow.get_pair"]


def test_deleting_a_gate_touches_nothing_else() -> None:
    assert _edited("Pool.get_row", "M1") == POOL.decode().replace(
        '"""Docstring."""\n        self._pause_for(layer_id)\n', '"""Docstring."""\n'
    )


def test_a_gate_goes_behind_the_read() -> None:
    assert (
        "        result = self.row_buffer[layer_id]\n"
        "        self._pause_for(layer_id)\n"
        "        return result\n"
    ) in _edited("Pool.get_row", "M2")
    assert (
        "            copy(self.row_buffer[layer_id])\n            self._pause_for(layer_id)\n"
    ) in _edited("Narrow.get_pair", "M2")


def test_a_gate_goes_under_a_flag() -> None:
    assert (
        "        if self.enable_debug_stats:\n"
        "            if self.done_counter is not None:\n"
        "                self.done_counter.wait_until(layer_id)\n"
    ) in _edited("Pool.get_view", "M3")


def test_a_gate_moves_into_a_method_and_into_a_function() -> None:
    method = _edited("Pool.get_view", "M4")
    assert "        self._settle_rows(layer_id)\n        return" in method
    assert (
        "    def _settle_rows(self, layer_id):\n        if self.done_counter is not None:\n"
        in method
    )
    function = _edited("Pool.get_view", "M5")
    assert "        settle_rows(self, layer_id)\n        return" in function
    assert "def settle_rows(pool, layer_id):\n    if pool.done_counter is not None:\n" in function


def test_a_function_without_a_gate_has_no_mutant() -> None:
    with pytest.raises(Unfit):
        _edited("Pool.__init__", "M4")


def test_renaming_is_consistent_and_keeps_the_lines() -> None:
    names = names_of(FILES, find_gates(FILES))
    assert names == ["Narrow", "Pool", "_pause_for", "done_counter", "row_buffer"]
    new = new_names(names, FILES, 0)
    changed = renamed(FILES, new)
    assert new["row_buffer"].encode() in changed["sglang/srt/use.py"]
    assert not any(name.encode() in b"".join(changed.values()) for name in names)
    assert changed[PATH].count(b"\n") == POOL.count(b"\n")
    assert b"wait_until" in changed[PATH]


def test_the_score_counts_methods_and_causes(tmp_path: Path) -> None:
    def row(method: str, expect: str, cause: str) -> dict[str, object]:
        lines = {"line": 1, "read_line": 2, "label": "x", "reason": ""}
        names = {"version": "1", "file": PATH, "class": "Pool", "method": method}
        return {**names, **lines, "expect": expect, "root_cause": cause}

    rows = [
        row("get_a", "report", "R1"),
        row("get_b", "report", "R1"),
        row("get_c", "report", "R2"),
        row("get_d", "tolerate", ""),
        row("get_e", "silent", ""),
    ]
    file = tmp_path / "truth.jsonl"
    file.write_text("\n".join(json.dumps(item) for item in rows), encoding="utf-8")
    found = Found("r", PATH, 2, "Pool.get_a", "", "inherited", "", "f", frozenset())
    findings = [
        found,
        replace(found, line=3),
        replace(found, symbol="Pool.get_d"),
        replace(found, symbol="Pool.get_e"),
        replace(found, symbol="Pool.unheard_of"),
        replace(found, symbol="get", path="sglang/srt/elsewhere.py"),
    ]
    score = judge(findings, truth(file))
    assert score.causes_found == {"1 R1"}
    assert [r.method for r in score.missed] == ["get_b", "get_c"]
    assert (score.methods_found, score.wrong_methods) == (1, 2)
    assert (score.precision, score.recall) == ("1/3 (33 %)", "1/3 (33 %)")
    assert [len(score.tolerated), len(score.outside)] == [1, 1]


def test_the_text_of_a_script_says_what_is_to_be_found() -> None:
    script = (
        "# sglang serve no --flag\n"
        "echo sglang serve no --flag\n"
        "sglang serve m --tp 2 \\\n"
        "  --dp=$DP --trust-remote-code > log --not\n"
        "CMD=(\n"
        "  python3 -m sglang.launch_server  # --not\n"
        "  --port 1\n"
        ")\n"
        'wait_for --port 1 "${CMD[@]}"\n'
    )
    assert list(starts(script)) == [
        (3, {(3, "--tp"), (4, "--dp"), (4, "--trust-remote-code")}),
        (6, {(7, "--port")}),
    ]


def test_made_up_findings_are_distinct_and_written_as_the_document_that_is_timed() -> None:
    rules = load().rules
    report = made_up(200, rules)
    places = {(f.hit.where.symbol.path, f.hit.where.line) for f in report.findings}
    assert len(places) == len({f.fingerprint for f in report.findings}) == 200
    assert {f.rule for f in report.findings} == {rule.id for rule in rules}
    verdict = decide(report, "high", False)
    assert json.loads(render(report, verdict, rules)) == document(report, verdict, rules)


def test_two_processes_that_unpack_one_release_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second finds the first one's folder in its place, and takes it."""
    monkeypatch.setenv("AUDIT_TEST_CACHE", str(tmp_path))
    other = tmp_path / "releases" / "0.0.1" / "sglang"

    def download(version: str, folder: Path) -> Path:
        other.mkdir(parents=True)
        (other / "first.py").touch()
        with zipfile.ZipFile(folder / "made.whl", "w") as wheel:
            wheel.writestr("sglang/second.py", "")
        return folder / "made.whl"

    monkeypatch.setattr(releases, "_download", download)
    assert releases.release("0.0.1") == other.parent
    assert [path.name for path in other.iterdir()] == ["first.py"]
    assert [path.name for path in (tmp_path / "releases").iterdir()] == ["0.0.1"]
