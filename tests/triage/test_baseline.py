"""What a baseline accepts, what of it is stale, and what its file holds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from formats.sample import POOL, finding
from hypothesis import given
from hypothesis import strategies as st

from auditor.errors import UsageProblem
from auditor.model import BaselineEntry, Finding
from auditor.rulebook import Rule
from auditor.triage.baseline import dump, entry_of, load, match, remaining, renewed, stale

MARK, OTHER = "3f2a9c1d77aa0b51", "54b466c897e9a87d"
RULE = "ungated-buffer-read"
NAMES: dict[str, Rule] = {}


def found(mark: str = MARK, path: str = POOL, symbol: str = "Pool.get", **more: Any) -> Finding:
    return finding(fingerprint=mark, path=path, symbol=symbol, **more)


def entry(
    mark: str = MARK, path: str = POOL, symbol: str = "Pool.get", rule: str = RULE
) -> BaselineEntry:
    return BaselineEntry(rule, mark, path, symbol)


def accepted(entries: list[BaselineEntry], findings: list[Finding]) -> list[bool]:
    return [e is not None for e in match(entries, findings, NAMES).accepting]


def test_as_many_entries_so_many_findings() -> None:
    three = [found(f"{MARK}-{n}" if n > 1 else MARK) for n in (1, 2, 3)]
    assert accepted([entry()], three) == [True, False, False]
    assert accepted([entry(), entry()], three) == [True, True, False]
    assert accepted([entry()] * 4, three) == [True, True, True]
    assert match([entry()] * 4, three, NAMES).left == (entry(),)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (found(line=9000), True),
        (found(path="elsewhere/moved.py"), True),
        (found(symbol="Renamed.symbol"), True),
        (found(f"{MARK}-1a2b3c4d-2"), True),
        (found(message="other words"), True),
        (found(OTHER), False),
        (found(rule="gate-after-read"), False),
    ],
)
def test_rule_and_fingerprint_decide(other: Finding, expected: bool) -> None:
    assert accepted([entry()], [other]) == [expected]


def test_the_one_that_stood_there_before_is_the_one_accepted() -> None:
    old, new = found(f"{MARK}-11111111", path="b.py"), found(f"{MARK}-22222222", path="a.py")
    assert accepted([entry(path="b.py")], [new, old]) == [False, True]
    assert accepted([entry(path="gone.py")], [new, old]) == [True, False]


def test_what_a_comment_accepts_takes_no_entry_from_an_active_finding_but_its_own() -> None:
    suppressed = found(path="a.py", disposition="suppressed")
    active = found(path="b.py")
    assert accepted([entry(path="c.py")], [suppressed, active]) == [False, True]
    assert accepted([entry(path="a.py")], [suppressed, active]) == [True, False]


def test_stale_is_what_was_looked_for_and_not_found() -> None:
    left = [entry(), entry(path="unread.py"), entry(rule="not-selected"), entry(rule="no-more")]
    names = dict.fromkeys((RULE, "not-selected"), None)

    class Named:
        def __init__(self, rule_id: str) -> None:
            self.id = rule_id

    gone = stale(
        left,
        {name: Named(name) for name in names},  # type: ignore[misc]
        lambda rule, path: rule == RULE and path != "unread.py",
    )
    assert gone == (entry(), entry(rule="no-more"))


def test_written_anew_it_keeps_what_is_valid_and_adds_what_is_found() -> None:
    hidden, moved, gone = entry(OTHER), entry(path="old.py"), entry("0" * 16)
    findings = [
        found(path="new.py", disposition="baselined"),
        found("1" * 16),
        found("2" * 16, disposition="suppressed"),
    ]
    after = renewed([hidden, moved, gone], [gone], findings, NAMES)
    assert sorted(after) == sorted([hidden, entry(path="new.py"), entry("1" * 16)])
    assert remaining([hidden, gone, gone], [gone]) == (gone, hidden)


entries = st.builds(
    BaselineEntry,
    st.sampled_from(["a-rule", "b-rule"]),
    st.text("0123456789abcdef", min_size=16, max_size=16),
    st.text(max_size=9).map(lambda text: text.encode("utf-8", "replace").decode()),
    st.sampled_from(["", "Pool.get"]),
)


@given(st.lists(entries, max_size=8), st.randoms())
def test_the_bytes_depend_on_the_entries_alone_and_are_read_back(rows, chance) -> None:
    import tempfile

    shuffled = list(rows)
    chance.shuffle(shuffled)
    assert dump(shuffled) == dump(rows)
    assert dump(rows).isascii()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "base.json"
        file.write_text(dump(rows))
        assert sorted(load(file)) == sorted(rows)


def test_a_path_that_is_no_utf_8_can_be_written_and_is_met_again(tmp_path: Path) -> None:
    odd = found(path="a\udce9.py")
    (tmp_path / "base.json").write_text(dump([entry_of(odd)]))
    assert accepted(list(load(tmp_path / "base.json")), [odd]) == [True]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b'{"schema": "audit/1", "findings": []}',
        b'{"schema": "audit-baseline/2", "findings": []}',
        b'{"schema": "audit-baseline/1", "findings": [{"rule": "a"}]}',
        b'{"schema": "audit-baseline/1", "findings": [], "more": 1}',
        b'{"schema": "audit-baseline/1", "findings": ' + b"[" * 100_000,
    ],
)
def test_what_is_no_baseline_is_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "base.json"
    file.write_bytes(content)
    with pytest.raises(UsageProblem, match="is no baseline") as caught:
        load(file)
    assert "\n" not in str(caught.value)


def test_a_missing_one_a_folder_and_a_pipe_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match=r"there is no baseline .*audit baseline write"):
        load(tmp_path / "none.json")
    with pytest.raises(UsageProblem, match="is no file"):
        load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageProblem, match="is no file"):
        load(tmp_path / "pipe")


def test_many_alike_are_matched_without_comparing_each_with_each() -> None:
    alike = [entry(path=f"{n}.sh") for n in range(20_000)]
    findings = [
        msgspec.structs.replace(found(path=f"{n}.sh"), fingerprint=f"{MARK}-{n}")
        for n in range(10_000, 30_000)
    ]
    matched = match(alike, findings, NAMES)
    assert all(matched.accepting)
    assert matched.left == ()
