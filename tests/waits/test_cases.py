"""One small class, its waits lost in ten ways and kept in as many: only the first are told."""

from __future__ import annotations

import pytest

from auditor.runs.audit import audit_sources
from auditor.runs.rules import load
from auditor.waits.calls import Calls
from auditor.waits.changed import Pieces
from auditor.waits.comparison import Comparison, Missing

PATH = "sglang/srt/mem_cache/page_store.py"
HEAD = """\
import torch

{module}
class PageStore:
    def __init__(self, slots, width, main, copied):
        self.side = torch.cuda.Stream()
        self.main = main
        self.copied = copied
        self.mode = "decode"
        self.pages = torch.zeros(slots, width)
        self.layers = [torch.zeros(slots, width) for _ in range(4)]
        self.pending = {{}}
        self.counter = None

    def attach(self, counter):
        self.counter = counter

    def _settle(self):
        for event in self.pending.values():
            torch.cuda.current_stream().wait_event(event)
        self.pending.clear()

    def release(self, slots):
        self.pages[slots] = 0

    def compact(self, source, target):
        self._settle()
        self.pages[target] = self.pages[source]

    def get_rows(self, layer):
        if self.counter is not None:
            self.counter.wait_until(layer)
        return self.layers[layer]

"""


def store(method: str, module: str = "") -> dict[str, str]:
    lines = method.strip("\n").split("\n")
    body = "".join(f"    {line}\n" if line else "\n" for line in lines)
    return {PATH: HEAD.format(module=module) + body}


EVENT = """
def rows(self, slots):
    self.copied.wait()
    return self.pages[slots]
"""
PUBLISH = """
def publish(self, rows, slots):
    self.side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(self.side):
        self.pages[slots].copy_(rows, non_blocking=True)
    self.side.synchronize()
"""
OF_MAIN = PUBLISH.replace("torch.cuda.current_stream()", "self.main")
DEVICE = """
def host_copy(self, slots):
    copied = self.pages[slots].to("cpu", non_blocking=True)
    torch.cuda.synchronize()
    return copied
"""
HELPED = """
def free(self, slots):
    self._settle()
    return self.pages[slots]
"""
MASK = """
def mask(self, batch, slots):
    batch.update_mask()
    self.side.synchronize()
    batch.done.set()
    return self.pages[slots]
"""
FINISH = """
def finish(self, chunk, slots):
    chunk.copied.synchronize()
    if chunk.aborted:
        self.release(chunk.slots)
        return None
    return self.pages[slots]
"""
KEEP = """
def gather(self, slots):
    slots.record_stream(self.side)
    with torch.cuda.stream(self.side):
        self.side.wait_stream(self.main)
        return self.pages[slots]
"""
PAIR = """
def get_pair(self, layer, other, slots):
    self.counter.wait_until(layer)
    first = self.layers[layer][slots]
    self.counter.wait_until(other)
    return first, self.layers[other][slots]
"""
SIDE = """
def extend(self, rows):
    self.side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(self.side):
        self.pages.add_(rows)

def shrink(self, rows):
    self.side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(self.side):
        self.pages.sub_(rows)
"""


def without(text: str, line: str, count: int = 1) -> str:
    indented = next(row for row in text.split("\n") if row.strip() == line)
    return text.replace(indented + "\n", "", count)


WEAK = """
def mask(self, batch, slots):
    if self.mode != "prefill":
        batch.update_mask()
        self.side.synchronize()
    batch.done.set()
    return self.pages[slots]
"""
LATE = """
def finish(self, chunk, slots):
    if chunk.aborted:
        self.release(chunk.slots)
        return None
    chunk.copied.synchronize()
    return self.pages[slots]
"""
FORK_EDGE = "self.side.wait_stream(torch.cuda.current_stream())"

LOST = {
    "the only wait": (EVENT, without(EVENT, "self.copied.wait()"), "wait-lost", "rows"),
    "another wait on the same object stays": (
        PUBLISH,
        without(PUBLISH, FORK_EDGE),
        "wait-lost",
        "publish",
    ),
    "of a stream of the object's": (
        OF_MAIN,
        without(OF_MAIN, "self.side.wait_stream(self.main)"),
        "wait-lost",
        "publish",
    ),
    "of the device": (
        DEVICE,
        without(DEVICE, "torch.cuda.synchronize()"),
        "wait-lost",
        "host_copy",
    ),
    "a method that only waits": (HELPED, without(HELPED, "self._settle()"), "wait-lost", "free"),
    "under a test": (MASK, WEAK, "wait-weakened", "mask"),
    "behind a release": (FINISH, LATE, "wait-late", "finish"),
    "memory that is no longer kept": (
        KEEP,
        without(KEEP, "slots.record_stream(self.side)"),
        "wait-lost",
        "gather",
    ),
    "one of two indices": (
        PAIR,
        without(PAIR, "self.counter.wait_until(other)"),
        None,
        "get_pair",
    ),
    "on both sides": (
        without(SIDE, FORK_EDGE),
        without(SIDE, FORK_EDGE),
        "side-stream-unordered",
        "extend",
    ),
}


def told(upstream: dict[str, str], fork: dict[str, str]) -> set[tuple[str, str]]:
    """Rule and method of what the defaults show."""
    findings = audit_sources(fork, upstream).findings
    shown = [f for f in findings if f.hit.confidence != "low"]
    return {(f.rule, f.hit.where.symbol.qualname.rpartition(".")[2]) for f in shown}


KEPT_WHILE = """
def gather(self, slots):
    slots.record_stream(self.side)
    self.side.launch(slots)
    return self.pages[slots]
"""


def under(test: str, text: str, first: str, last: str) -> str:
    """The text with some of its lines under a test."""
    rows = text.split("\n")
    begin, end = (next(n for n, row in enumerate(rows) if row.strip() == r) for r in (first, last))
    inner = ["    " + row for row in rows[begin : end + 1]]
    return "\n".join([*rows[:begin], f"    if {test}:", *inner, *rows[end + 1 :]])


OPEN = """
def rows(self, slots):
    return self.pages[slots]
"""
COMMON = """
def run(self):
    self.copied.wait()

def rows(self, slots):
    self.run()
    return self.pages[slots]
"""
LONG = (
    "\ndef settle_pages(self):\n    self.copied.wait()\n"
    + "    self.release(0)\n" * 30
    + "\ndef rows(self, slots):\n    self.settle_pages()\n    return self.pages[slots]\n"
)
OF_ANOTHER = """
def take(self, slots):
    slots._ready()
    return self.pages[slots]
"""
JOINED = """
def take(self, slots):
    self.note = self.mark.join(slots)
    self.copied.wait()
    return self.pages[slots]
"""
TAKEN = """
def take(self, slots):
    self.places.acquire()
    return self.pages[slots]
"""
LOCAL = """
def act(self, slots):
    lane = self.side
    lane.synchronize()
    return self.pages[slots]
"""
ON_EVENT = """
def act(self, slots):
    lane, event = self.side, self.copied
    lane.wait_event(event)
    lane.launch(slots)
"""
SAID = """
def gather(self, slots):
    kept = slots
    lane = self.side
    kept.record_stream(lane)
    self.side.launch(slots)
"""
REFRESHED = """
def refresh(self, slots):
    self.copied.wait()
    self.release(slots)

def rows(self, slots):
    self.refresh(slots)
    return self.pages[slots]
"""
LANE = """
def send(self, rows):
    self.side.wait_stream(self.main)
    with self.lane(self.side):
        self.pages.add_(rows)
"""
READY = """
def _ready(self):
    self.copied.wait()

def rows(self, slots):
    self._ready()
    return self.pages[slots]
"""


@pytest.mark.parametrize(
    ("upstream", "fork", "shapes"),
    [
        pytest.param(
            EVENT.replace("self.copied.wait()", "slots.wait()"),
            EVENT.replace("self.copied.wait()", "slots.record_stream(self.side)"),
            ["lost"],
            id="memory that is kept is not waited for",
        ),
        pytest.param(
            PAIR,
            without(PAIR, "self.counter.wait_until(other)").replace(
                "    return", "    self.copied.wait()\n    return"
            ),
            ["lost"],
            id="an event is no index of a gate",
        ),
        pytest.param(
            READY, without(READY, "self._ready()"), ["lost"], id="a helper by what it does"
        ),
        *(
            pytest.param(EVENT, EVENT.replace("self.copied.wait()", text), shapes, id=text)
            for text, shapes in (
                ("self.mode and self.copied.wait()", ["weakened"]),
                ("self.mode or self.copied.wait()", ["weakened"]),
                ("self.copied.wait() if self.mode else None", ["weakened"]),
                ("None if self.mode else self.copied.wait()", ["weakened"]),
                ("self.later = lambda: self.copied.wait()", ["weakened"]),
                ("self.copied and self.copied.wait()", []),
                ("self.copied.wait() if self.copied is not None else None", []),
                ("self.copied.wait() and self.mode", []),
                ("None if self.copied.wait() else self.mode", []),
            )
        ),
        pytest.param(
            under("self.strict", EVENT, *["self.copied.wait()"] * 2),
            EVENT.replace("self.copied.wait()", "self.strict and self.copied.wait()"),
            [],
            id="the test that there was, within the line",
        ),
        pytest.param(
            EVENT.replace("self.copied.wait()", "self.mode and self.copied.wait()"),
            EVENT.replace("self.copied.wait()", "self.mode and self.copied.wait(); slots += 1"),
            [],
            id="in part of an expression as before",
        ),
        pytest.param(
            READY, OPEN, [], id="of a helper that is gone altogether nothing is left to call"
        ),
        pytest.param(
            PUBLISH,
            PUBLISH.replace(FORK_EDGE, "self.copied.synchronize()"),
            ["lost"],
            id="a wait for something else is no call of what waits",
        ),
        pytest.param(
            COMMON,
            without(COMMON, "self.run()"),
            [],
            id="a name that everything has is no waiter's",
        ),
        pytest.param(
            LONG, without(LONG, "self.settle_pages()"), [], id="a long function does more than wait"
        ),
        pytest.param(
            READY + OF_ANOTHER,
            READY + without(OF_ANOTHER, "slots._ready()"),
            [],
            id="another object's method of a name that says nothing is not followed",
        ),
        pytest.param(
            JOINED,
            without(JOINED, "self.note = self.mark.join(slots)").replace("wait()", "synchronize()"),
            [],
            id="a text",
        ),
        pytest.param(TAKEN, without(TAKEN, "self.places.acquire()"), [], id="no lock by its name"),
        pytest.param(
            PUBLISH,
            PUBLISH.replace("current_stream", "default_stream"),
            ["elsewhere"],
            id="the default stream is not the current one",
        ),
        pytest.param(
            LANE,
            LANE.replace("    self.side.wait_stream(self.main)\n", "").replace(
                "        self.pages",
                "        self.side.wait_stream(self.main)\n        self.pages",
            ),
            [],
            id="to enter a context is no work",
        ),
        pytest.param(
            under("self.strict and slots", EVENT, *["self.copied.wait()"] * 2),
            EVENT.replace(
                "    self.copied.wait()\n",
                "    if self.strict:\n        if slots:\n            self.copied.wait()\n",
            ),
            [],
            id="two tests in the place of one for both",
        ),
        pytest.param(
            LOCAL, LOCAL.replace("self.side", "self.main"), ["elsewhere"], id="another by its name"
        ),
        pytest.param(
            LOCAL,
            LOCAL.replace("self.side", "torch.cuda.current_stream()"),
            ["elsewhere"],
            id="another by what it is given",
        ),
        pytest.param(
            LOCAL, LOCAL.replace("self.side", "slots.side"), [], id="what cannot be told from it"
        ),
        pytest.param(LOCAL, LOCAL.replace("self.side", "self.lane"), [], id="one that nobody knew"),
        pytest.param(
            ON_EVENT, ON_EVENT.replace("self.side", "self.main"), ["elsewhere"], id="another waits"
        ),
        pytest.param(
            ON_EVENT,
            ON_EVENT.replace("self.side", "self.main").replace("self.copied", "self.pending"),
            [],
            id="another wait altogether",
        ),
        pytest.param(
            EVENT.replace("wait()", "wait(torch.cuda.current_stream())"),
            EVENT.replace("wait()", "wait(torch.cuda.default_stream())"),
            ["elsewhere"],
            id="an event that another stream waits for",
        ),
        pytest.param(
            under("slots is not None", EVENT, *["self.copied.wait()"] * 2),
            under("slots is None", EVENT, *["self.copied.wait()"] * 2),
            ["weakened"],
            id="the opposite test",
        ),
        pytest.param(
            SAID,
            SAID.replace("= slots", "= self.pick(slots)")
            .replace("= self.side", "= self.lane_of(slots)")
            .replace("    kept.record", "    self.note = kept.record"),
            [],
            id="what reads alike, of what is taken otherwise",
        ),
        pytest.param(
            REFRESHED, without(REFRESHED, "self.refresh(slots)"), [], id="work that waits went"
        ),
        pytest.param(
            KEPT_WHILE,
            KEPT_WHILE.replace("    slots.record", "    kept = slots\n    kept.record"),
            [],
            id="memory under another name",
        ),
        pytest.param(
            "\ndef _ready_for(self, layer):\n    self.counter.wait_until(layer)\n",
            "\ndef _ready_for(self, layer):\n    pass\n",
            [],
            id="who reads behind a gate is judged by itself",
        ),
    ],
)
def test_what_the_comparison_says(upstream: str, fork: str, shapes: list[str]) -> None:
    assert [one.shape for one in compared(upstream, fork)] == shapes


def test_a_way_out_before_a_wait_is_told() -> None:
    early = leaves("self.plain", DONE, "return self.pages[slots]")
    assert told(store(DONE), store(early)) == {("wait-weakened", "done")}


def test_what_is_done_with_a_gate_under_the_same_test_starts_no_load() -> None:
    text = """
def get_rows_of(self, layer):
    self.counter.note(layer)
    self.counter.wait_until(layer)
    return self.layers[layer]
"""
    fork = under("self.strict", text, "self.counter.note(layer)", "self.counter.wait_until(layer)")
    assert [one.shape for one in compared(text, fork)] == ["weakened"]


def test_a_wait_whose_failure_is_swallowed_now_is_told() -> None:
    assert told(store(DONE), store(IN_TRY)) == {("wait-weakened", "done")}


def compared(upstream: str, fork: str) -> list[Missing]:
    """What the comparison of the two alone says."""
    before, after = (
        Pieces({p: t.encode() for p, t in store(text).items()}, {}, lambda _: {})
        for text in (upstream, fork)
    )
    calls = Calls(load().vocabulary.primitive_waits)
    return list(Comparison(before, after, calls).missing())


@pytest.mark.parametrize("case", LOST)
def test_a_lost_wait_is_told_by_default(case: str) -> None:
    upstream, fork, rule, method = LOST[case]
    found = told(store(upstream), store(fork))
    assert {name for _, name in found} == {method}
    assert rule is None or (rule, method) in found


def test_an_event_of_the_module_is_told_too() -> None:
    function = "def rows(pages, slots):\n{wait}    return pages[slots]\n"
    wait = "    if copied is not None:\n        copied.synchronize()\n"
    sides = ({PATH: "copied = None\n\n\n" + function.format(wait=w)} for w in (wait, ""))
    assert told(*sides) == {("wait-lost", "rows")}


PULL = """
def pull(self, work, many):
    if many:
        work.start(2)
        work.wait()
    else:
        work.begin(1)
        work.wait()
    return self.pages[0]
"""
PULLED = """
def pull(self, work, many):
    work.start(2)
    work.wait()
    return self.pages[0]
"""

TWICE = """
def act(self, slots):
    self.copied.wait()
    rows = self.pages[slots]
    self.copied.wait()
    self.release(slots)
    return rows
"""
EITHER = """
def act(self, slots):
    if self.strict:
        self.copied.wait()
        rows = self.pages[slots]
    else:
        self.copied.wait()
        rows = self.layers[slots]
    self.release(slots)
    return rows
"""
TO_SIDE = """
def send(self, rows, slots):
    self.side.wait_event(self.copied)
    self.side.launch(rows)
    self.release(slots)
"""
ON_SIDE = """
def send(self, rows, slots):
    self.side.wait_stream(self.main)
    with torch.cuda.stream(self.side):
        self.pages[slots].copy_(rows)
    self.release(slots)
"""
STARTED = """
def pull(self, many, slots):
    started = self.start(slots)
    for one in started:
        one.wait()
    self.release(slots)
"""


OF_SIDE = """
def view(self, slots):
    self.side.wait_stream(self.main)
    with torch.cuda.stream(self.side):
        return self.pages[slots]
"""


PUTS = """
def put(self, slots):
    self.copied.wait()
    self.release(slots)
    rows = self.pages[slots]
    self.release(slots)
    return rows
"""
BRANCHES = """
def put(self, slots):
    if self.strict:
        self.copied.wait()
        self.release(slots)
    else:
        self.compact(slots, slots)
"""
TURNED = """
def put(self, slots):
    if not self.strict:
        self.compact(slots, slots)
    else:
        self.copied.wait()
        self.release(slots)
"""
TOGETHER = """
def both(self, slots):
    with self.page_lock:
        self.release(slots)
    with self.table_lock:
        self.compact(slots, slots)
"""
BY_TEST = """
def send(self, rows, slots):
    if self.overlap:
        self.side.wait_stream(self.main)
    with torch.cuda.stream(self.side) if self.overlap else nullcontext():
        self.pages[slots].copy_(rows)
    self.release(slots)
"""
BY_TWO_TESTS = """
def send(self, rows, slots):
    if rows:
        self.side.wait_stream(self.main)
    if rows and slots:
        with torch.cuda.stream(self.side):
            self.pages[slots].copy_(rows)
    self.release(slots)
"""
REFRESH = """
def refresh(self, slots):
    self.copied.wait()
    self.release(slots)
"""
ASKS = """
def ask(self, part):
    return part.copied.query()
"""
PREPARED = """
def _ready(self):
    self.copied.wait()
    self.release(0)

def _prepare(self):
    self._ready()
    self.compact(0, 1)

def rows(self, slots):
    self._prepare()
    return self.pages[slots]
"""


def leaves(test: str, text: str, *block: str) -> str:
    """The text with a way out at its beginning."""
    head, first, *rest = text.strip("\n").split("\n")
    new = [f"    if {test}:", *(f"        {line}" for line in block)]
    return "\n".join(["", head, *new, first, *rest, ""])


LOCKED = """
def drop(self, slots):
    with self.page_lock:
        self.pages[slots] = 0
    return self.pages
"""
DONE = """
def done(self, slots):
    self.copied.synchronize()
    self.release(slots)
    return self.pages[slots]
"""
IN_TRY = """
def done(self, slots):
    try:
        self.copied.synchronize()
    except RuntimeError:
        pass
    self.release(slots)
    return self.pages[slots]
"""

# The same waits, still made: by something else, for as much, for nothing that is left.
KEPT = {
    "by a method that is called in its place": (
        EVENT,
        EVENT.replace("self.copied.wait()", "self._ready()")
        + "\ndef _ready(self):\n    self.copied.wait()\n",
    ),
    "as an event that is recorded there": (
        PUBLISH,
        PUBLISH.replace(
            FORK_EDGE,
            "ready = torch.cuda.Event()\n    ready.record()\n    self.side.wait_event(ready)",
        ),
    ),
    "under another local name": (
        OF_MAIN,
        OF_MAIN.replace("    self.side.wait", "    lane = self.side\n    lane.wait"),
    ),
    "by the event of the copy": (
        DEVICE,
        DEVICE.replace("torch.cuda.synchronize()", "torch.cuda.current_stream().synchronize()"),
    ),
    "in all that calls it": (
        HELPED + "\ndef drop(self, slots):\n    return self.free(slots)\n",
        without(HELPED, "self._settle()")
        + "\ndef drop(self, slots):\n    self._settle()\n    return self.free(slots)\n",
    ),
    "under a test for the stream": (
        MASK,
        MASK.replace(
            "    self.side.synchronize()",
            "    if self.side is not None:\n        self.side.synchronize()",
        ),
    ),
    "behind a line that says something": (
        FINISH,
        FINISH.replace(
            "    chunk.copied.synchronize()\n",
            '    print("finish")\n    chunk.copied.synchronize()\n',
        ),
    ),
    "not needed any more, since the work went": (
        KEEP,
        "\ndef gather(self, slots):\n    return self.pages[slots]\n",
    ),
    "by an index of another name": (
        PAIR,
        PAIR.replace("other", "second"),
    ),
    "by all of the stream where the event is not to be had": (
        EVENT.replace("self.copied.wait()", "self.side.wait_event(self.copied)"),
        EVENT.replace(
            "    self.copied.wait()\n",
            "    if self.mode:\n        self.side.wait_event(self.copied)\n    else:\n"
            "        self.side.wait_stream(self.main)\n",
        ),
    ),
    "of the same attribute of what bears another name": (
        FINISH,
        FINISH.replace("chunk", "part"),
    ),
    "in the one branch that is left": (PULL, PULLED),
    "in both branches, where it was made at two places": (TWICE, EITHER),
    "by a wait behind it for more, where a test is new": (
        TO_SIDE,
        under("self.strict", TO_SIDE, *["self.side.wait_event(self.copied)"] * 2).replace(
            "    self.side.launch", "    self.side.wait_stream(self.main)\n    self.side.launch"
        ),
    ),
    "under a test with all that runs on the stream": (
        ON_SIDE,
        under("rows", ON_SIDE, "self.side.wait_stream(self.main)", "self.pages[slots].copy_(rows)"),
    ),
    "under a test with what was started": (
        STARTED,
        under("many", STARTED, "started = self.start(slots)", "one.wait()"),
    ),
    "under a test with all there was to do": (
        DONE,
        under("self.ready", DONE, "self.copied.synchronize()", "return self.pages[slots]"),
    ),
    "behind a way out that starts nothing on the stream": (
        OF_SIDE,
        leaves("self.plain", OF_SIDE, "return self.pages[slots]"),
    ),
    "behind a way out where there is nothing to wait for": (
        DONE,
        leaves("self.copied is None", DONE, "return self.pages[slots]"),
    ),
    "behind a way out that waits itself": (
        DONE,
        leaves("self.plain", DONE, "self.copied.synchronize()", "return self.pages[slots]"),
    ),
    "where it cannot be told which of two equal lines moved before it": (
        PUTS,
        without(PUTS, "self.copied.wait()").replace("    rows", "    self.copied.wait()\n    rows"),
    ),
    "in the branch that is the second now": (BRANCHES, TURNED),
    "within the lock before it": (
        TOGETHER,
        without(TOGETHER, "with self.table_lock:").replace("release(slots)", "release(slots, 1)"),
    ),
    "under a test by which the stream is chosen too": (ON_SIDE, BY_TEST),
    "under a test that all on the stream is under": (ON_SIDE, BY_TWO_TESTS),
    "by another wait than what a helper makes": (
        HELPED,
        HELPED.replace("self._settle()", "self.copied.wait()"),
    ),
    "by a stream that waits for the one that uses the memory": (
        KEPT_WHILE,
        KEPT_WHILE.replace("slots.record_stream(self.side)", "self.main.wait_stream(self.side)"),
    ),
    "by a method that waits and goes on": (
        EVENT + REFRESH,
        EVENT.replace("self.copied.wait()", "self.refresh(slots)") + REFRESH,
    ),
    "by a new method that calls what waits, and now does more": (READY, PREPARED),
    "of what bears another name, which another method knows too": (
        FINISH + ASKS,
        FINISH.replace("chunk", "part") + ASKS,
    ),
    "by a new wait at another place, for what it is not known": (
        DONE,
        without(DONE, "self.copied.synchronize()").replace(
            "    return", "    self.side.synchronize()\n    return"
        ),
    ),
    "within a lock that is not taken where there is nothing to do": (
        LOCKED,
        LOCKED.replace(
            "    with self.page_lock",
            "    if not len(slots):\n        return self.pages\n    with self.page_lock",
        ),
    ),
    "by a block that is kept a line later": (
        KEPT_WHILE,
        KEPT_WHILE.replace("    slots.record_stream(self.side)\n", "").replace(
            "    return", "    slots.record_stream(self.side)\n    return"
        ),
    ),
    "in a try with another exception": (
        IN_TRY,
        IN_TRY.replace("except RuntimeError:", "except OSError:").replace(
            "    try:\n", "    try:\n        self.mode = slots\n"
        ),
    ),
    "in a try that goes on only where the wait is done": (
        DONE,
        IN_TRY.replace("        pass", "        raise ValueError from None"),
    ),
    "in a try with all that follows it": (
        DONE,
        without(IN_TRY, "self.release(slots)")
        .replace("    return self.pages[slots]\n", "")
        .replace(
            ".synchronize()\n",
            ".synchronize()\n        self.release(slots)\n        return self.pages[slots]\n",
        ),
    ),
    "in a try before other work": (
        DONE,
        without(IN_TRY, "self.release(slots)").replace("self.pages[slots]", "self.mode"),
    ),
    "as the first of the block": (
        SIDE,
        SIDE.replace(
            f"    {FORK_EDGE}\n    with torch.cuda.stream(self.side):\n",
            f"    with torch.cuda.stream(self.side):\n        {FORK_EDGE}\n",
        ),
    ),
}


@pytest.mark.parametrize("case", KEPT)
def test_a_wait_that_is_made_otherwise_is_not_told(case: str) -> None:
    upstream, fork = KEPT[case]
    assert upstream != fork
    assert told(store(upstream), store(fork)) == set()


@pytest.mark.parametrize("case", KEPT)
def test_the_comparison_needs_no_second_reading_to_stay_silent(case: str) -> None:
    assert compared(*KEPT[case]) == []


def test_that_another_class_waits_more_often_in_a_common_name_explains_nothing() -> None:
    """The store's ``clear`` of a dictionary is not the method of that name that began to wait."""
    clearing = EVENT.replace("    return", "    self.pending.clear()\n    return")
    other = "\n\nclass Other:\n    def clear(self):\n{}        self.done = None\n"
    sides = []
    for text, wait in ((clearing, ""), (without(clearing, "self.copied.wait()"), "pass")):
        files = store(text)
        made = wait.replace("pass", "        self.done.synchronize()\n")
        sides.append({PATH: files[PATH] + other.format(made)})
    assert ("wait-lost", "rows") in told(*sides)
