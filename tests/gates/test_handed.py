"""Whether a method waits whose parameter goes through a queue, a record or a closure."""

from __future__ import annotations

import pytest

from auditor.model import Finding
from auditor.runs.audit import audit_sources

BASE, LOST = "sglang/srt/base.py", "sglang/srt/lost.py"

HEAD = """
import queue
from dataclasses import dataclass
from functools import partial
from threading import Thread


@dataclass
class Entry:
    room: int
    filled: object = None


class Named:
    def __init__(self, room, ready):
        self.room = room
        self.filled = ready

    def settle(self):
        self.filled.wait()


def settle(event):
    event.wait()


class Sender:
    def send(self, room, rows, ready):
        raise NotImplementedError
"""

IGNORES = """
from sglang.srt.base import Sender


class Lost(Sender):
    def send(self, room, rows, ready):
        self.tasks.put(room)

    def run(self):
        self.post(self.tasks.get())
"""


def found(send: str, run: str, lost: str = IGNORES, count: int = 2) -> list[Finding]:
    """The findings where some siblings send and run like that, and one in another file is lost."""
    first, *rest = send.split("\n")
    lines = [
        f"    def send(self, room, rows, ready):\n        {first}",
        *(f"    {r}" for r in rest),
    ]
    body = "\n".join([*lines, *(f"    {line}" for line in run.split("\n"))])
    siblings = "".join(f"\n\nclass Sender{i}(Sender):\n{body}\n" for i in range(count))
    tree = {BASE: HEAD + siblings, LOST: lost}
    return [x for x in audit_sources(tree, tree).findings if x.rule == "gate-parameter-dropped"]


WAITS = [
    pytest.param(
        "self.tasks.put(Entry(room, filled=ready))",
        "def run(self):\n    entry = self.tasks.get()\n    entry.filled.synchronize()",
        id="a field by name",
    ),
    pytest.param(
        "self.tasks.put(Entry(room, ready))",
        "def run(self):\n    entry = self.tasks.get()\n    self.stream.wait_event(entry.filled)",
        id="a field by its place in a data class",
    ),
    pytest.param(
        "self.tasks.append(Named(room, ready))",
        "def run(self):\n    for entry in self.tasks:\n        entry.filled.wait()",
        id="a field that the record's maker stores",
    ),
    pytest.param(
        "self.tasks.append(Named(room, ready))",
        "def run(self):\n    for entry in self.tasks:\n        entry.settle()",
        id="a record that waits itself",
    ),
    pytest.param(
        "self.tasks.append(Unread(room, ready=ready))",
        "def run(self):\n    done = self.tasks.pop().ready\n    done.wait()",
        id="a record of a class that is not there, and a local name",
    ),
    pytest.param(
        "entry = (room, ready)\n    self.tasks[0].put(entry)",
        "def run(self):\n    entry = self.tasks[0].get()\n    room, done = entry\n    done.wait()",
        id="a tuple by two names",
    ),
    pytest.param(
        "self.tasks.put((room, ready))",
        "def run(self):\n    entry = self.tasks.get()\n    entry[1].wait()",
        id="a member of a tuple",
    ),
    pytest.param(
        "self.tasks.put({'room': room, 'done': ready})",
        "def run(self):\n    entry = self.tasks.get()\n    entry['done'].wait()",
        id="an entry of a mapping",
    ),
    pytest.param(
        "self.events.append(ready)",
        "def run(self):\n    for event in self.events:\n        event.synchronize()",
        id="a list of events",
    ),
    pytest.param(
        "self.ready = ready",
        "def run(self):\n    self.ready.synchronize()",
        id="an attribute",
    ),
    pytest.param(
        "def work():\n        ready.wait()\n    self.pool.submit(work)",
        "def run(self):\n    pass",
        id="a nested function",
    ),
    pytest.param(
        "self.pool.submit(lambda: self.late(room, ready))",
        "def late(self, room, event):\n    event.wait()",
        id="a lambda",
    ),
    pytest.param(
        "self.pool.submit(partial(self.late, room, event=ready))",
        "def late(self, room, event):\n    event.wait()",
        id="a partial call",
    ),
    pytest.param(
        "Thread(target=self.late, args=(room, ready)).start()",
        "def late(self, room, event):\n    event.wait()",
        id="a thread",
    ),
    pytest.param(
        "self.pool.submit(self.late, room, ready)",
        "def late(self, room, event):\n    settle(event)",
        id="a function that waits",
    ),
]


@pytest.mark.parametrize(("send", "run"), WAITS)
def test_siblings_that_wait_later_speak_against_one_that_drops(send: str, run: str) -> None:
    (finding,) = found(send, run)
    assert finding.hit.where.symbol.qualname == "Lost.send"
    assert finding.hit.confidence == "medium"
    # What is shown of a sibling is the wait, wherever in the class it stands.
    shown = {piece.symbol for piece in finding.hit.evidence}
    assert {name.partition(".")[0] for name in shown} <= {"Sender0", "Sender1", "Named"}
    assert not found(send, run, count=1)


@pytest.mark.parametrize(("send", "run"), WAITS)
def test_one_that_waits_later_is_not_told(send: str, run: str) -> None:
    plain = "ready.synchronize()\n    self.post(rows)", "def run(self):\n    pass"
    first, *rest = send.split("\n")
    body = "\n".join([f"        {first}", *(f"    {line}" for line in rest)])
    worker = "\n".join(f"    {line}" for line in run.split("\n"))
    own = f"class Lost(Sender):\n    def send(self, room, rows, ready):\n{body}\n\n{worker}\n"
    head = "from sglang.srt.base import Entry, Named, Sender, Thread, partial, settle\n\n\n"
    assert not found(*plain, head + own)


@pytest.mark.parametrize(
    ("send", "run"),
    [
        pytest.param(
            "self.tasks.put((room, ready))",
            "def run(self):\n    room, ready = self.tasks.get()\n    room.wait()",
            id="another member",
        ),
        pytest.param(
            "self.tasks.put((room, ready))",
            "def run(self):\n    room, ready = self.others.get()\n    ready.wait()",
            id="another queue",
        ),
        pytest.param(
            "self.tasks.put(Named(room, ready))",
            "def run(self):\n    entry = self.tasks.get()\n    entry.room.wait()",
            id="another field",
        ),
        pytest.param(
            "self.tasks.put(Named(room, ready))",
            "def run(self):\n    entry = self.tasks.get()\n    self.done.wait()",
            id="a record that could wait, and is not asked to",
        ),
        pytest.param(
            "self.pool.submit(self.late, ready, room)",
            "def late(self, room, event):\n    event.wait()",
            id="another argument",
        ),
        pytest.param(
            "self.pool.submit(lambda: ready.query())",
            "def late(self, room):\n    room.wait()",
            id="a closure that only asks",
        ),
    ],
)
def test_what_nobody_waits_on_speaks_against_nobody(send: str, run: str) -> None:
    assert not found(send, run)


def test_a_shared_base_that_was_not_read_makes_siblings() -> None:
    waits = (
        "class {0}({1}):\n    def send(self, rows, ready):\n        self.ready = ready\n\n"
        "    def run(self):\n        self.ready.wait()\n"
    )
    drops = "class Lost({0}):\n    def send(self, rows, ready):\n        self.post(rows)\n"

    def told(*bases: str, module: str = "sglang.srt.common") -> bool:
        names = ("First", "Second")
        tree = {
            f"sglang/srt/{name.lower()}.py": f"from {module} import {base}\n\n\n"
            + waits.format(name, base)
            for name, base in zip(names, bases, strict=False)
        }
        tree[LOST] = f"from {module} import {bases[2]}\n\n\n" + drops.format(bases[2])
        tree["sglang/srt/common.py"] = "class Base:\n    pass\n\n\nclass Other:\n    pass\n"
        return any(x.rule == "gate-parameter-dropped" for x in audit_sources(tree, tree).findings)

    assert told("Base", "Base", "Base")
    assert not told("Base", "Base", "Other")
    # Half a tree derives from torch.nn.Module.
    assert not told("Module", "Module", "Module", module="torch.nn")


VAIN = """
from sglang.srt.base import Entry, Sender, Thread


class Lost(Sender):
    def send(self, room, rows, ready):
        {send}

    def start(self):
        for tasks in self.queues:
            Thread(target=self.run, args=(tasks,)).start()

    def run(self, tasks):
        while True:
            entry = tasks.get()
            if entry is not None:
                {run}

    def work(self, entry):
        self.post(entry.room)
"""
WAITING = (
    "self.queues[room].put(Entry(room, filled=ready))",
    "def run(self, tasks):\n    entry = tasks.get()\n    entry.filled.synchronize()",
)


@pytest.mark.parametrize(
    "send",
    [
        "self.queues[room].put(Entry(room, filled=ready))",
        "entry = Entry(room, ready)\n        self.queues[room].put(entry)",
    ],
)
@pytest.mark.parametrize("run", ["self.work(entry)", "self.post(entry.room)"])
def test_a_field_that_nobody_reads_is_told(send: str, run: str) -> None:
    (finding,) = found(*WAITING, VAIN.format(send=send, run=run))
    assert finding.hit.where.symbol.qualname == "Lost.send"
    assert "stores ready in a record" in finding.hit.message


@pytest.mark.parametrize(
    ("send", "run"),
    [
        pytest.param(
            "self.queues[room].put(Entry(room, ready))", "entry.filled.wait()", id="waits"
        ),
        pytest.param(
            "self.queues[room].put(Entry(room, ready))", "self.post(entry.filled)", id="hands on"
        ),
        pytest.param(
            "self.queues[room].put(Entry(room, ready))", "self.engine.post(entry)", id="record goes"
        ),
        pytest.param(
            "self.queues[room].put(Entry(room, ready))", "entry.settle()", id="record is asked"
        ),
        pytest.param(
            "self.queues[room].put(Entry(room, ready))", "return entry", id="record returned"
        ),
        pytest.param(
            "self.queues[room].put(Entry(room, ready))", "self.last = entry", id="record kept"
        ),
        pytest.param(
            "self.engine.put(Entry(room, ready), self)", "self.work(entry)", id="another's queue"
        ),
        pytest.param(
            "entry = Entry(room, ready)\n        self.queues[room].put(entry)\n"
            "        self.engine.follow(entry)",
            "self.work(entry)",
            id="record goes elsewhere too",
        ),
        pytest.param(
            "self.queues[room].put(Entry(room, ready))\n        self.stream.follow(ready)",
            "self.work(entry)",
            id="event goes elsewhere too",
        ),
    ],
)
def test_a_field_that_somebody_may_read_is_not(send: str, run: str) -> None:
    assert not found(*WAITING, VAIN.format(send=send, run=run))


def test_a_queue_that_others_take_from_is_not_judged() -> None:
    lost = VAIN.format(send=WAITING[0], run="self.work(entry)")
    assert found(*WAITING, lost)
    outside = "\n\ndef drain(sender):\n    sender.queues[0].get().filled.wait()\n"
    assert not found(*WAITING, lost + outside)
