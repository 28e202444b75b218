"""Lines of the history: what they hold, what moved between two, and the file that keeps them."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from datetime import timedelta

import msgspec
import pytest

from auditor.drift import keep
from auditor.drift.runs import Run, active, moved, of_fork, tally
from auditor.errors import UsageProblem
from auditor.model import SideInfo, Skipped
from tests.formats.drifts import DAY, drift, fix, line, patch, side
from tests.formats.sample import POOL, finding, report


def test_the_counts_of_a_run_are_those_of_the_report():
    state = drift(
        fixes=[
            fix("1" * 40),
            fix("2" * 40, "present"),
            fix("3" * 40, repairs=False),
            fix("4" * 40, repairs=False, findings=("x",)),
            fix("5" * 40, in_target="taken-back"),
        ],
        patches=[patch(str(n) * 40, age) for n, age in enumerate((9, 1, 5, None))],
        conflicts=None,
    )
    found = report(
        finding(fingerprint="1"),
        finding(fingerprint="2", severity="low"),
        finding(fingerprint="3", origin="inherited"),
        finding(fingerprint="4", disposition="baselined"),
    )
    counted = tally(found, state)
    assert (counted.ahead, counted.behind, counted.both_changed, counted.conflicts) == (
        *(3, 40, 1),
        None,
    )
    assert counted.missed == 2
    assert counted.fixes == {"absent": 4, "present": 1}
    assert counted.ages is not None
    assert (counted.ages.median, counted.ages.oldest) == (5, 9)
    assert counted.findings == {"introduced": {"high": 1, "low": 1}, "inherited": {"high": 1}}
    assert [f.fingerprint for f in active(found)] == ["1", "2", "3"]


def test_findings_are_opened_closed_accepted_and_changed_by_fingerprint():
    before = line([finding(fingerprint=key) for key in ("stays", "goes", "accepted", "turns")])
    found = [
        finding(fingerprint="stays", line=99, path="moved.py"),
        finding(fingerprint="accepted", disposition="suppressed"),
        finding(fingerprint="turns", origin="fixed-upstream"),
        finding(fingerprint="comes"),
    ]
    now = line(found, last=before)
    told = moved(before, now, report(*found), drift())
    assert [seen.fingerprint for seen in told.opened] == ["comes"]
    assert [seen.fingerprint for seen in told.closed] == ["goes"]
    assert [seen.fingerprint for seen in told.accepted] == ["accepted"]
    [turned] = told.changed
    assert (turned.before.origin, turned.now.origin) == ("introduced", "fixed-upstream")
    assert told.since == DAY


def test_a_file_that_could_not_be_read_closes_nothing_and_opens_nothing_afterwards():
    skipped = (Skipped("fork", POOL, "parse", "not UTF-8"),)
    first = line([finding(fingerprint="hidden")])
    second = line(last=first, skipped=skipped)
    told = moved(first, second, report(skipped=skipped), drift())
    assert (told.opened, told.closed) == ((), ())
    assert any("could not be read" in note for note in told.notes)
    assert second.tally.findings == {}
    found = [finding(fingerprint="hidden")]
    told = moved(second, line(found, last=second), report(*found), drift())
    assert (told.opened, told.closed) == ((), ())
    told = moved(second, line(last=second), report(), drift())
    assert [seen.fingerprint for seen in told.closed] == ["hidden"]


def test_fixes_and_patches_are_followed_by_their_commits():
    before = line(
        state=drift([fix("1" * 40), fix("2" * 40)], [patch("a" * 40, 1), patch("b" * 40, 2)])
    )
    state = drift(
        [fix("1" * 40, "present"), fix("2" * 40), fix("3" * 40, "undecided")],
        [patch("b" * 40, 9, "upstream"), patch("d" * 40, 0)],
    )
    told = moved(before, line(state=state), report(), state)
    assert told.taken_over == ("1" * 12,)
    assert told.newly_missed == ("3" * 12,)
    assert told.patches_added == ("d" * 12,)
    assert told.patches_gone == ("a" * 12,)
    assert told.patches_upstream == ("b" * 12,)


def test_what_makes_two_runs_unlike_is_said():
    before = line(
        state=drift(patches=[patch("a" * 40, 1)]),
        configuration={"min-confidence": "low (command line)", "upstream": "v1 (command line)"},
    )
    state = drift(patches=[patch("d" * 40, 1)])
    other = SideInfo("upstream", "v0.5.18", "revision", "e" * 40, 1, 1)
    now = line(state=state, upstream=other, tool_version="9.9")
    notes = " | ".join(moved(before, now, report(), state).notes)
    assert "and is v0.5.18" in notes
    assert "this one is by 9.9" in notes
    assert "asked otherwise (min-confidence): no finding" in notes
    assert "written anew" in notes
    assert moved(now, now, report(), state).notes == ()


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (side(), True),
        (side(commit="9" * 40), True),
        (side("f" * 12), True),
        (side("HEAD"), True),
        (side("HEAD~6"), True),
        (side("@{1}"), True),
        (side("deployed~2^2"), True),
        (side("deployed@{yesterday}"), True),
        (side("refs/heads/deployed"), True),
        (side("staging~1"), False),
        (side("staging"), False),
        (side(repository="https://git.example.org/a"), True),
        (side("HEAD", repository="https://git.example.org/b"), True),
    ],
)
def test_runs_are_of_one_fork_as_far_as_they_tell(other, same):
    run = line(fork=side())
    assert bool(of_fork([run], other)) is same


@pytest.mark.parametrize("narrow_first", [True, False])
def test_a_filter_opens_and_closes_nothing(narrow_first):
    kept = [finding(fingerprint="stays", severity="high")]
    wide = [finding(fingerprint="stays", severity="low"), finding(fingerprint="other")]
    accepted = finding(fingerprint="other", disposition="baselined")
    asked = {"origin": "introduced (command line)"}
    pair = [(kept, asked), (wide, {})]
    (then, before), (found, now) = pair if narrow_first else pair[::-1]
    first = line(then, configuration=before)
    told = moved(first, line(found, configuration=now), report(*found), drift())
    assert (told.opened, told.closed) == ((), ())
    assert len(told.changed) == 1
    if not narrow_first:  # it is there, and no filter's doing
        told = moved(first, line(kept, configuration=now), report(*kept, accepted), drift())
        assert [seen.fingerprint for seen in told.accepted] == ["other"]


@pytest.mark.parametrize(
    ("then", "now", "told"), [("HEAD", "deployed", 1), ("HEAD~6", "f" * 12, 0), ("a~1", "a", 0)]
)
def test_a_branch_that_one_run_does_not_tell_is_said(then, now, told):
    before, after = (line(fork=side(ref)) for ref in (then, now))
    notes = moved(before, after, report(), drift()).notes
    assert len(notes) == told
    assert notes == () or notes[0] == "the last run was of HEAD, this one is of deployed"


def test_a_clock_that_went_back_is_said():
    before = line(when=DAY)
    now = line(when=DAY - timedelta(hours=1))
    assert moved(before, now, report(), drift()).notes == (
        "the last run is of 2026-03-02 07:30, later than this one",
    )
    assert moved(before, line(when=DAY), report(), drift()).notes == ()


def test_what_the_fork_took_back_is_neither_a_patch_nor_of_an_age():
    before = line(state=drift(patches=[patch("a" * 40, 90), patch("b" * 40, 1)]))
    state = drift(
        patches=[
            *(patch("d" * 40, 0, "taken-back"), patch("a" * 40, 91, "taken-back")),
            patch("b" * 40, 2),
        ]
    )
    now = line(state=state)
    told = moved(before, now, report(), state)
    assert (told.patches_added, told.patches_gone) == ((), ("a" * 12,))
    assert now.tally.ages is not None
    assert now.tally.ages.oldest == 2
    assert now.tally.patches == {"taken-back": 2, "own": 1}


def test_another_repository_is_another_fork():
    run = line(fork=side("HEAD", repository="https://git.example.org/a"))
    assert of_fork([run], side("HEAD", repository="https://git.example.org/b")) == ()


def test_lines_are_added_and_read_back(tmp_path):
    file = tmp_path / "drift.jsonl"
    assert keep.load(file) == keep.Kept()
    assert not file.exists()
    runs = [line([finding()], when=DAY + timedelta(weeks=week)) for week in range(3)]
    for run in runs:
        keep.append(file, run)
    assert keep.load(file) == keep.Kept(tuple(runs))
    rows = [json.loads(row) for row in file.read_text().splitlines()]
    assert [row["schema"] for row in rows] == ["audit-drift-line/1"] * 3
    assert rows[1]["when"] == "2026-03-09T07:30:00Z"


def test_a_name_that_is_no_utf8_is_no_obstacle(tmp_path):
    file = tmp_path / "drift.jsonl"
    run = line([finding(path="a\udcff.py", symbol="f")], fork=side("br\udcffnch"))
    keep.append(file, run)
    assert keep.load(file).runs == (run,)


def _add_many(file, start, number):
    split = keep._split

    def slowly(path, data):  # between reading the end and writing: what the lock has to cover
        time.sleep(0.002)
        return split(path, data)

    keep._split = slowly
    start.wait()
    for n in range(number):
        keep.append(file, line([finding(fingerprint=f"{os.getpid()}-{n}")] * 40))


def test_runs_at_the_same_time_lose_nothing(tmp_path):
    file = tmp_path / "drift.jsonl"
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(4)
    writers = [context.Process(target=_add_many, args=(file, start, 30)) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * 4
    kept = keep.load(file)
    assert len(kept.runs) == 120
    assert len({run.findings[0].fingerprint for run in kept.runs}) == 120


@pytest.mark.parametrize("cut", [1, 20, 200, -1])
def test_a_last_line_that_is_broken_off_is_told_and_kept_aside(tmp_path, cut):
    file = tmp_path / "drift.jsonl"
    first, second = line(), line(when=DAY + timedelta(weeks=1))
    keep.append(file, first)
    whole = file.read_bytes()
    broken = whole.rstrip(b"\n")[:cut]
    file.write_bytes(whole + broken)
    kept = keep.load(file)
    assert kept.runs == (first,)
    assert len(kept.notes) == 1
    assert "drift.jsonl.broken" in kept.notes[0]
    assert file.read_bytes() == whole + broken  # reading mends nothing
    keep.append(file, second)
    assert keep.load(file) == keep.Kept((first, second))
    assert (tmp_path / "drift.jsonl.broken").read_bytes() == broken + b"\n"


def test_zeros_after_a_crash_are_a_broken_line_too(tmp_path):
    file = tmp_path / "drift.jsonl"
    keep.append(file, line())
    with file.open("ab") as end:
        end.write(bytes(300))
    assert len(keep.load(file).notes) == 1
    keep.append(file, line())
    assert len(keep.load(file).runs) == 2


def test_a_line_that_only_lacks_its_end_is_a_line(tmp_path):
    file = tmp_path / "drift.jsonl"
    keep.append(file, line())
    file.write_bytes(file.read_bytes().rstrip(b"\n"))
    assert len(keep.load(file).runs) == 1
    keep.append(file, line())
    assert len(keep.load(file).runs) == 2
    assert not (tmp_path / "drift.jsonl.broken").exists()


def test_lines_of_a_newer_version_are_told_and_stay(tmp_path):
    file = tmp_path / "drift.jsonl"
    keep.append(file, line())
    newer = b'{"schema":"audit-drift-line/2","when":[1]}\n'
    file.write_bytes(newer + file.read_bytes())
    kept = keep.load(file)
    assert len(kept.runs) == 1
    assert "1 of its lines are of a newer audit" in kept.notes[0]
    keep.append(file, line())
    assert file.read_bytes().startswith(newer)


@pytest.mark.parametrize(
    "content",
    [
        b"# a README\n",
        b"# a README",
        b"<<<<<<< HEAD\n",
        b'{"schema":"audit-drift-line/1"}\n',
        b'{"schema":"audit-drift-line/1","when":"yesterday"}\n',
        b'{"schema":"audit-drift-line/x"}\n',
        b'{"schema":"audit-drift-line/' + b"9" * 5000 + b'"}\n',
        b'{"schema":"audit/1"}\n',
        b"[" * 100_000 + b"\n",
        b"\xff\xfe\n",
        b"\n",
    ],
)
def test_what_is_no_history_is_refused_and_stays_as_it_is(tmp_path, content):
    file = tmp_path / "drift.jsonl"
    file.write_bytes(content)
    with pytest.raises(UsageProblem, match="no history of audit drift") as problem:
        keep.load(file)
    assert "\n" not in str(problem.value)
    assert file.read_bytes() == content


def test_a_file_named_by_mistake_is_not_added_to(tmp_path):
    file = tmp_path / "notes"
    file.write_bytes(b"a line\nanother without its end")
    with pytest.raises(UsageProblem):
        keep.append(file, line())
    assert file.read_bytes() == b"a line\nanother without its end"


def test_no_folder_device_or_missing_place_is_a_history(tmp_path):
    for place in (tmp_path, tmp_path / "none" / "drift.jsonl", "/dev/null"):
        with pytest.raises(UsageProblem):
            keep.load(type(tmp_path)(place))
    with pytest.raises(UsageProblem):
        keep.append(type(tmp_path)("/dev/null"), line())


@pytest.mark.parametrize("there", [True, False])
def test_what_may_not_be_written_is_refused_before_the_run(tmp_path, monkeypatch, there):
    file = tmp_path / "drift.jsonl"
    if there:
        keep.append(file, line())
    asked = []

    def refuse(path, mode):
        asked.append((path, mode))
        return False

    monkeypatch.setattr(os, "access", refuse)  # root may write anything
    with pytest.raises(UsageProblem, match="cannot be written: no permission"):
        keep.load(file)
    assert asked == [(file if there else tmp_path, os.W_OK)]


def test_what_is_kept_aside_does_not_follow_a_link(tmp_path):
    file = tmp_path / "drift.jsonl"
    keep.append(file, line())
    before = file.read_bytes() + b'{"schema":"audit-drift-line/1","wh'
    file.write_bytes(before)
    (tmp_path / "elsewhere").write_text("kept")
    (tmp_path / "drift.jsonl.broken").symlink_to("elsewhere")
    with pytest.raises(UsageProblem, match="cannot be written"):
        keep.append(file, line())
    assert (tmp_path / "elsewhere").read_text() == "kept"
    assert file.read_bytes() == before


def test_a_disk_that_is_full_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    file = tmp_path / "drift.jsonl"
    keep.append(file, line())
    before = file.read_bytes()
    write = os.pwrite

    def half(handle, data, at):
        if at > len(before):
            raise OSError(28, "No space left on device")
        return write(handle, data[:10], at)

    monkeypatch.setattr(os, "pwrite", half)
    with pytest.raises(UsageProblem, match="No space left"):
        keep.append(file, line())
    assert file.read_bytes() == before


def test_a_line_holds_what_the_schema_names():
    assert set(msgspec.to_builtins(line())) == set(Run.__struct_fields__)
