"""What a person reads of the fixes."""

from __future__ import annotations

import pytest

from auditor.formats.fixes import page
from auditor.formats.text import Screen
from auditor.model import Finding, Fix, Hit, Location, Symbol

PLACE = "sglang/srt/pool.py"


def fix(state: str, name: str = "Pool.get", reason: str = "", how: str = "does it") -> Fix:
    hit = Hit(Location(Symbol(PLACE, name), 7), "a", "", (), "high", "live", "", "", "")
    finding = Finding("some-rule", "sync", "high", hit, name + state, "introduced", "")
    return Fix(finding, "unsafe", state, how, reason)


@pytest.mark.parametrize(
    ("states", "dry", "line"),
    [
        ([], False, "nothing to fix"),
        (["made"], False, "1 of 1 finding fixed"),
        (["made", "made"], True, "2 of 2 findings would be fixed"),
        (
            ["made", "held-back", "rolled-back", "none", "none"],
            False,
            (
                "1 of 5 findings fixed · 1 held back: --unsafe makes them, with --diff as a patch"
                " · 1 rolled back · 2 without an edit"
            ),
        ),
    ],
)
def test_the_first_line_counts(states: list[str], dry: bool, line: str) -> None:
    shown = page([fix(state) for state in states], [], Screen(200, quiet=True), dry=dry)
    assert shown == line + "\n"


def test_each_fix_is_told_with_its_reason() -> None:
    shown = page([fix("none", reason="no way"), fix("made", "Pool.take")], [], Screen(), dry=False)
    assert shown.splitlines()[1:] == [
        "",
        f"  fixed       {PLACE}:7 Pool.take",
        "              some-rule · unsafe · does it",
        "",
        f"  no edit     {PLACE}:7 Pool.get",
        "              some-rule · unsafe · does it",
        "              no way",
    ]


def test_of_a_patch_only_what_is_not_in_it_is_told() -> None:
    shown = page([fix("made", "Pool.take"), fix("rolled-back")], [], Screen(), dry=True)
    assert "Pool.take" not in shown
    assert f"  rolled back {PLACE}:7 Pool.get" in shown


def test_what_is_found_only_now_is_told() -> None:
    shown = page([fix("made")], [fix("made", "Pool.other").finding], Screen(), dry=True)
    assert shown.splitlines()[1:] == [
        "",
        "  found only now, and upstream's own:",
        f"    {PLACE}:7 Pool.other · some-rule",
    ]


def test_text_of_the_fork_cannot_drive_the_terminal() -> None:
    shown = page([fix("none", "\x1b[2J", how="\x07", reason="a\x1b]0;b")], [], Screen(), dry=False)
    assert "\x1b" not in shown
    assert "\x07" not in shown
