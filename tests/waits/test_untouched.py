"""What lines alone tell to be untouched has lost nothing, whatever was edited."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditor.source import facts as f
from auditor.source.extract import extract
from auditor.waits.calls import Calls
from auditor.waits.lines import Body, body_of
from auditor.waits.losses import losses
from auditor.waits.untouched import untouched
from auditor.waits.waiters import Waiters

CALLS = Calls({"wait_stream": "stream", "wait": "event", "synchronize": "device"})
LINES = (
    "self.side.wait_stream(main)",
    "lane.synchronize()",
    "event.wait()",
    "lane = self.side",
    "lane = self.other",
    "event = self.event",
    "rows = self.take(slots)",
    "self.put(rows, slots)",
    "return self.rows[slots]",
    "continue",
    "pass",
    "text = '('",
    "text = ')'",
    "text = '#' + str(rows)",
    'text = """(\n  """',
    "rows = self.other  # (",
    "lane \\\n        .synchronize()",
    "lane.synchronize(\n    )",
)
HEADS = (
    "if self.flag:",
    "else:",
    "for one in rows:",
    "with lane:",
    "try:",
    "except ValueError:",
)


class AnyName:
    def known(self, said: str) -> bool:
        return True


def body(text: str) -> Body:
    [function] = f.functions(extract(text.encode(), ""))
    return body_of(function, Waiters(CALLS, {}))


def tells(line: bytes) -> bool:
    return bool(CALLS.direct.search(line))


def function(seed: int, edits: int) -> tuple[str, str] | None:
    """A random function, and the same with some lines changed; None where one is no Python."""
    chance = random.Random(seed)
    rows: list[str] = []
    margin = 4
    for _ in range(chance.randint(3, 12)):
        if chance.random() < 0.3:
            rows.append(" " * margin + chance.choice(HEADS))
            margin += 4
        else:
            rows.append(" " * margin + chance.choice(LINES))
            margin = max(4, margin - 4 * chance.randint(0, 1))
    other = list(rows)
    for _ in range(edits):
        place = chance.randrange(len(other))
        match chance.randrange(5):
            case 0:
                del other[place]
            case 1:
                other.insert(place, " " * 4 + chance.choice(LINES))
            case 2:
                other.insert(min(len(other), place + 2), other.pop(place))
            case 3:
                other[place] = "    " + other[place]
            case 4:
                other[place] = re.match(r" *", other[place])[0] + chance.choice(LINES)  # type: ignore[index]
        if not other:
            return None
    sides = tuple("\n".join(["def act(self, slots, main):", *r, ""]) for r in (rows, other))
    for text in sides:
        try:
            compile(text.replace("continue", "pass"), "x", "exec")
        except SyntaxError:
            return None
    return sides[0].replace("continue", "return"), sides[1].replace("continue", "return")


@settings(max_examples=3000, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 3))
def test_what_is_untouched_lost_nothing(seed: int, edits: int) -> None:
    made = function(seed, edits)
    if made is None:
        return
    before, after = made
    if untouched(before.encode(), after.encode(), tells):
        assert list(losses(body(before), body(after), AnyName())) == []


BEFORE = """\
def act(self, slots):
    lane = self.side
    if self.ready:
        rows = self.take(
            slots,
        )
    else:
        rows = self.empty()
    lane.synchronize()
    self.put(rows, slots)
    return rows[slots]
"""


@pytest.mark.parametrize(
    "old, new, same",
    [
        ("self.empty()", "self.nothing()", True),
        ("            slots,\n", "            slots,  # all of them\n            0,\n", True),
        ("    lane.synchronize()\n", "", False),
        ("    lane.synchronize()\n", "    if self.flag:\n        lane.synchronize()\n", False),
        ("    lane.synchronize()\n", "    lane.synchronize()\n    lane.synchronize()\n", False),
        ("lane = self.side", "lane = self.other", False),
        ("    lane.sync", "    if not rows:\n        return None\n    lane.sync", False),
        ("    lane.synchronize()\n    self.put(rows, slots)\n",
         "    self.put(rows, slots)\n    lane.synchronize()\n", False),
    ],
)  # fmt: skip
def test_each_way_to_touch_a_wait(old: str, new: str, same: bool) -> None:
    after = BEFORE.replace(old, new)
    assert after != BEFORE
    assert untouched(BEFORE.encode(), after.encode(), tells) is same


@pytest.mark.parametrize(
    "line", ["text = '('", 'text = "{"', "rows = 1  # [", "text = '''\n('''", "text = '\\'('"]
)
def test_a_bracket_that_is_none_hides_no_line_behind_it(line: str) -> None:
    lines = [
        "def act(self, slots):",
        "    lane.synchronize()",
        f"    {line}",
        "    self.put(slots)",
        "",
    ]
    other = [lines[0], lines[3], lines[1]]
    before, after = ("\n".join([*rows, ""]).encode() for rows in (lines, other))
    assert not untouched(before, after, tells)


def test_of_two_equal_waits_the_first_is_the_first_still() -> None:
    first, work, last, wait = (
        "rows = self.take(slots)",
        "self.put(rows)",
        "self.end()",
        "event.wait()",
    )
    sides = ([wait, first, work, wait, last], [wait, work, wait, first, last])
    before, after = ("\n    ".join(["def act(self, slots):", *rows, ""]) for rows in sides)
    assert list(losses(body(before), body(after), AnyName())) == []


def test_a_statement_on_two_lines_is_one() -> None:
    before = b"def act(self, slots):\n    lane \\\n    .synchronize()\n    self.put(slots)\n"
    assert untouched(before, before.replace(b"self.put", b"self.puts"), tells)
    assert not untouched(before, before.replace(b"lane", b"line"), tells)


def test_of_text_without_an_end_nothing_is_known() -> None:
    text = b"def act(self, slots):\n    lane.synchronize()\n    self.put(slots\n"
    assert not untouched(text, text, tells)


@pytest.mark.parametrize("head", ["if self.busy:", "elif self.busy:"])
def test_the_test_that_an_else_belongs_to_counts(head: str) -> None:
    def text(test: str) -> bytes:
        first = "if a:\n        pass\n    " if test.startswith("el") else ""
        return (
            f"def act(self, a):\n    {first}{test}\n        pass\n    else:\n"
            "        self.side.synchronize()\n    return self.rows[a]\n"
        ).encode()

    assert untouched(text(head), text(head), tells)
    assert not untouched(text(head), text(head.replace("busy", "idle")), tells)


def test_a_wait_in_a_try_is_looked_at() -> None:
    text = (
        b"def act(self, a):\n    try:\n        self.side.synchronize()\n"
        b"    except ValueError:\n        raise\n    return self.rows[a]\n"
    )
    assert not untouched(text, text.replace(b"        raise", b"        pass"), tells)
