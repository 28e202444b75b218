"""Which source lines a report carries: whose, how many, and what is marked in them."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.model import Excerpt, Report
from auditor.runs import excerpts
from auditor.runs.audit import audit_sources

HEAD = """\
import torch


class Pool:
    def __init__(self, layers, slots):
        self.counter = None
        self.k = [torch.zeros(slots, 8) for _ in range(layers)]

    def register(self, counter):
        self.counter = counter

    def get_first(self, layer_id):
        self.counter.wait_until(layer_id)
        return self.k[layer_id]

    def get_second(self, layer_id):
        self.counter.wait_until(layer_id)
        return self.k[layer_id]

"""
READ = """\
    def get_raw(self, layer_id, slots):
        return self.k[layer_id].index_select(0, slots)
"""
WAITS = READ.replace("        return", "        self.counter.wait_until(layer_id)\n        return")
PATH = "sglang/srt/pool.py"


def shown(report: Report, symbol: str = "Pool.get_raw") -> dict[str, Excerpt]:
    [found] = [f for f in report.findings if f.hit.where.symbol.qualname == symbol]
    return {excerpt.role: excerpt for excerpt in report.excerpts.get(found.fingerprint, ())}


def audit(fork: str, upstream: str | None = None) -> dict[str, Excerpt]:
    theirs = None if upstream is None else {PATH: upstream}
    return shown(audit_sources({PATH: fork}, theirs))


def marked(excerpt: Excerpt) -> str:
    line = excerpt.lines[excerpt.line - excerpt.first]
    return line[excerpt.column - 1 : (excerpt.end_column or len(line) + 1) - 1]


def test_the_read_and_the_nearest_sibling_are_whole_functions_with_a_mark() -> None:
    found = audit(HEAD + READ)
    assert list(found) == ["read", "sibling"]
    assert "\n".join(found["read"].lines) + "\n" == READ
    assert marked(found["read"]) == "self.k[layer_id]"
    assert found["sibling"].symbol == "Pool.get_second"
    assert [line.strip() for line in found["sibling"].lines] == [
        "def get_second(self, layer_id):",
        "self.counter.wait_until(layer_id)",
        "return self.k[layer_id]",
    ]
    assert marked(found["sibling"]) == "self.counter.wait_until(layer_id)"
    assert "waits on counter" in found["sibling"].note


def test_a_read_through_a_name_is_marked_as_it_is_written() -> None:
    fork = HEAD + READ.replace("self.k[layer_id]", "k [layer_id].view(2)").replace(
        "        return", "        k = self.k\n        return"
    )
    assert marked(audit(fork)["read"]) == "k [layer_id]"


def test_what_goes_on_over_lines_is_marked_to_the_end_of_its_first() -> None:
    found = audit(HEAD + READ.replace("[layer_id]", "[\n            layer_id\n        ]"))
    assert marked(found["read"]) == "self.k["


def test_upstream_s_version_is_shown_where_it_is_another_one() -> None:
    assert "upstream" not in audit(HEAD + READ, HEAD + READ)
    assert "upstream" not in audit(HEAD + READ, "x = 1\n" + HEAD + READ)
    found = audit(HEAD + READ, HEAD + WAITS)["upstream"]
    assert (found.side, found.symbol, marked(found)) == (
        "upstream",
        "Pool.get_raw",
        "self.counter.wait_until(layer_id)",
    )
    other = READ.replace("index_select", "gather")
    found = audit(HEAD + READ, HEAD + other)["upstream"]
    assert marked(found) == "return self.k[layer_id].gather(0, slots)"


def test_a_function_upstream_does_not_have_is_not_shown() -> None:
    assert list(audit(HEAD + READ, HEAD)) == ["read", "sibling"]


def test_a_long_function_is_cut_around_its_mark_and_so_is_a_long_line() -> None:
    body = "".join(f"        x{n} = {n}\n" for n in range(200))
    head, read = READ.splitlines(keepends=True)
    found = audit(HEAD + head + body + read + body)["read"]
    assert len(found.lines) == excerpts.MOST_LINES
    assert marked(found) == "self.k[layer_id]"
    wide = read.replace("return", f"note = '{'x' * 700}'; return")
    found = audit(HEAD + head + wide)["read"]
    assert max(map(len, found.lines)) == excerpts.LONGEST_LINE
    assert marked(found) == "self.k[layer_id]"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_python_ends_them(end: str) -> None:
    text = (HEAD + "    note = 'a\x0cb\u2028c'\n\n" + READ).replace("\n", end)
    found = audit(text)["read"]
    assert marked(found) == "self.k[layer_id]"
    assert found.lines[0].startswith("    def get_raw(")


def test_a_closing_bracket_at_the_head_s_own_column_ends_no_function() -> None:
    laid_out = READ.replace("(self, layer_id, slots):", "(\n        self, layer_id, slots\n    ):")
    found = audit(HEAD + laid_out + "\n    def after(self):\n        pass\n")["read"]
    assert "\n".join(found.lines) + "\n" == laid_out


@given(st.text(alphabet="ab.([]){}'\" \t漢\x00", max_size=40), st.integers(1, 60))
def test_where_a_read_ends_is_never_before_it_begins(line: str, column: int) -> None:
    end = excerpts._end_of_read(line, column)
    assert end == 0 or column < end <= len(line) + 1


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("x = self.k[i]", "self.k[i]"),
        ("x = self.k[i][j]", "self.k[i]"),
        ("x = self.pool.get(i, j=f(1)).view()", "self.pool.get(i, j=f(1))"),
        ("x = self.k[", "self.k["),
        ("x = self.k", "self.k"),
        ("x = self.k, self.v", "self.k"),
    ],
)
def test_a_read_ends_with_what_it_is_first_indexed_or_called_with(line: str, read: str) -> None:
    end = excerpts._end_of_read(line, 5)
    assert line[4 : end - 1 if end else None] == read


SCRIPT = """\
#!/bin/bash
# decode
exec python -m sglang.launch_server --model-path /m \\
  --tool-call-parser 'no-such' \\
  --port 1
"""


def tree(script: str) -> Mapping[str, str]:
    from auditor.rulebook import tree_files

    return {**tree_files("serve"), "deploy/serve.sh": script}


def test_a_setting_is_shown_among_the_lines_of_its_script() -> None:
    report = audit_sources(tree(SCRIPT))
    found = next(f for f in report.findings if f.rule == "unknown-parser")
    [excerpt] = report.excerpts[found.fingerprint]
    assert (excerpt.role, excerpt.path, excerpt.symbol) == ("read", "deploy/serve.sh", "")
    assert "\n".join(excerpt.lines) == SCRIPT
    assert re.fullmatch(r"--tool-call-parser|no-such", marked(excerpt))


def test_lines_are_cut_out_for_so_many_findings_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excerpts, "MOST_FINDINGS", 1)
    again = READ.replace("get_raw", "get_more")
    report = audit_sources({PATH: HEAD + READ + "\n" + again})
    assert len(report.findings) == 2
    assert len(report.excerpts) == 1
