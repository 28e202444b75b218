"""What one transfer does: what starts a copy, what ends it, and where it is left under way."""

from __future__ import annotations

import itertools

import pytest

from tests.transfers.trees import COPY, GOOD, HEAD, SIBLINGS, WAIT, method, open_in, pool, told


@pytest.mark.parametrize(
    "start",
    [
        COPY,
        "kept = self.rows[slots].to('cpu', non_blocking=True)",
        "work = self.threads.submit(self.put, slots)",
        "self.engine.write_async(self.rows, slots)",
        "ops.transfer_rows(self.rows, self.staging, slots)",
        "self.host.backup_rows(self.rows, slots)",
        "memcpy_rows(self.rows, self.staging)",
        "self.pool.rows[layer][slots] = self.staged[slots]",
        "self.rows[slots] = self.staged[slots]",
        "for layer in slots:\n    self.rows[layer][slots] = kept",
    ],
)
def test_what_starts_a_copy(start: str) -> None:
    assert open_in(start)
    assert not open_in(f"{start}\n{WAIT}")


@pytest.mark.parametrize(
    "other",
    [
        "self.staging.copy_(self.rows[slots])",
        "self.staging.copy_(self.rows[slots], non_blocking=False)",
        "kept = self.names.copy()",
        "kept = copy.copy(self.names)",
        "self.names[slots] = kept",
        "self.names[slots] = (self.kept[0], slots)",
        "self.names[slots]: int",
        "self.index.get_rows(slots)",
        "self.inner.push_out(slots)",
    ],
)
def test_what_starts_none(other: str) -> None:
    assert not open_in(other)


@pytest.mark.parametrize(
    "end",
    [
        "self.stream.synchronize()",
        "self.done.wait()",
        "torch.cuda.current_stream().wait_stream(self.stream)",
        "current_stream().wait_event(self.done)",
        "self.done.record()",
        "self.stream.record_event(self.done)",
        "self._record_copy_event()",
        "self.work.result()",
        "for one in as_completed(self.work):\n    pass",
        "[one.result() for one in self.work]",
        "while not self.done.query():\n    pass",
        "self.thread.join()",
        "kept = self.staging.sum().cpu()",
        "self.engine.wait_all(slots)",
        "self.engine.drain(slots)",
    ],
)
def test_what_ends_it(end: str) -> None:
    assert not open_in(f"{COPY}\n{end}")
    assert open_in(f"{end}\n{COPY}")


@pytest.mark.parametrize(
    "other",
    [
        "self.stream.wait_stream(torch.cuda.current_stream())",
        "self.counter.wait_until(0)",
        "self.names = ','.join(slots)",
        "self.staging.record_stream(self.stream)",
        "self.log(slots)",
    ],
)
def test_what_ends_nothing(other: str) -> None:
    assert open_in(f"{COPY}\n{other}")


def test_awaited_work_is_done() -> None:
    body = "await self.engine.write_async(slots)"
    flat = pool("Flat", method(body).replace("    def", "    async def"))
    assert not told(HEAD + SIBLINGS + flat)
    assert told(HEAD + SIBLINGS + flat.replace("await ", ""))


@pytest.mark.parametrize(
    ("body", "stands_out"),
    [
        (f"if not slots:\n    return\n{GOOD}", False),
        (f"{COPY}\nif not slots:\n    return\n{WAIT}", True),
        (f"{COPY}\nif not slots:\n    raise ValueError\n{WAIT}", False),
        (f"{COPY}\nif self.careful:\n    {WAIT}", True),
        (f"if self.all:\n    {COPY}\nif self.all:\n    {WAIT}", False),
        (f"if self.all:\n    {COPY}\nif self.some:\n    {WAIT}", True),
        (f"if self.all:\n    {COPY}\nelse:\n    {COPY}\n    {WAIT}", True),
        (f"{COPY}\nif self.done is not None:\n    self.done.synchronize()", False),
        (f"{COPY}\nif torch.cuda.is_available():\n    {WAIT}", False),
        (f"{COPY}\nif self.device.type != 'cpu':\n    {WAIT}", False),
        (f"{WAIT}\nif self.rows.is_cuda:\n    {COPY}", True),
        (f"for part in slots:\n    {COPY}\n{WAIT}", False),
        (f"for part in slots:\n    {WAIT}\n    {COPY}", True),
        (f"for part in slots:\n    {COPY}\n    {WAIT}", False),
        (f"for part in slots:\n    {COPY}\n    if part:\n        break\n    {WAIT}", True),
        (f"try:\n    {COPY}\n    return True\nfinally:\n    {WAIT}", False),
        (f"try:\n    {COPY}\n    return True\nfinally:\n    self.log(slots)", True),
        (f"try:\n    {COPY}\nexcept OSError:\n    return False\n{WAIT}", False),
        (f"with torch.cuda.stream(self.stream):\n    {COPY}", True),
        (f"with ThreadPoolExecutor() as pool:\n    pool.submit({WAIT[:-2]})", False),
        (f"with self.lock:\n    {COPY}", True),
        (f"def inner():\n    {COPY}\ninner()", True),
        (f"def inner():\n    {COPY}\ninner()\n{WAIT}", False),
        (f"def inner():\n    {WAIT}\n{COPY}\ninner()", False),
        (f"def inner():\n    {COPY}\nself.later = inner", False),
    ],
)
def test_ways_out(body: str, stands_out: bool) -> None:
    assert open_in(body) is stands_out


@pytest.mark.parametrize("flag", ["wait", "blocking", "sync", "is_async"])
def test_a_wait_that_is_left_to_the_caller(flag: str) -> None:
    body = f"{COPY}\nif {{}}:\n    {WAIT}"
    assert not open_in(body.format(flag), given=f"self, slots, {flag}=True")
    assert open_in(body.format("other"), given="self, slots, other=True")
    assert open_in(body.format(flag))  # a name of the module is nobody's choice


STEPS = {"copy": COPY, "wait": WAIT, "leave": "if self.closing:\n    return"}


@pytest.mark.parametrize("steps", list(itertools.product(STEPS, repeat=4)), ids="-".join)
def test_every_order_of_copies_waits_and_ways_out(steps: tuple[str, ...]) -> None:
    pending, stands_out = False, False
    for step in steps:
        pending = {"copy": True, "wait": False}.get(step, pending)
        stands_out |= step == "leave" and pending
    assert open_in("\n".join(STEPS[step] for step in steps)) is (stands_out or pending)


HELPERS = {
    "a function": ("def settle():\n    torch.cuda.synchronize()\n", "settle()"),
    "one of another name": ("def close_up():\n    torch.cuda.synchronize()\n", "close_up()"),
    "a helper's helper": (
        "def close_up():\n    close_all()\n\n\ndef close_all():\n    torch.cuda.synchronize()\n",
        "close_up()",
    ),
}


@pytest.mark.parametrize("name", HELPERS)
def test_a_wait_in_a_helper(name: str) -> None:
    helper, call = HELPERS[name]
    assert not open_in(f"{COPY}\n{call}", f"\n\n{helper}\n\n")
    assert open_in(
        f"{COPY}\n{call}", f"\n\n{helper}\n\n".replace("torch.cuda.synchronize()", "pass")
    )


def test_a_helper_that_starts_copies() -> None:
    helper = method(COPY, "_push")
    flat = pool("Flat", method("self._push(slots)"), helper)
    assert told(HEAD + SIBLINGS + flat)
    assert not told(HEAD + SIBLINGS + flat.replace(COPY, GOOD.replace("\n", "; ")))


def test_a_wait_in_the_method_of_a_base() -> None:
    flat = pool("Flat", method(f"{COPY}\nsuper().push_out(slots)"), bases="(Wide)")
    assert not told(HEAD + SIBLINGS + flat)
    assert told(HEAD + SIBLINGS + flat.replace("super().push_out", "super().other"))


def test_what_a_base_leaves_open_is_told_there_alone() -> None:
    flat = pool("Flat", method(COPY)) + pool(
        "Flatter",
        method(f"self.log({COPY[:-1]}))\n{WAIT}\nsuper().push_out(slots)"),
        bases="(Flat)",
    )
    assert set(told(HEAD + SIBLINGS + flat)) == {"Flat.push_out"}


CONTEXT = "\n\n@contextlib.contextmanager\ndef settling():\n    yield\n    {}\n\n\n"


def test_a_wait_in_a_context() -> None:
    body = f"with settling():\n    {COPY}"
    assert not open_in(body, CONTEXT.format(WAIT))
    assert open_in(body, CONTEXT.format("pass"))
    early = f"with settling():\n    {COPY}\n    return True"
    assert not open_in(early, CONTEXT.format(WAIT))


DECORATOR = """

def settled(method):
    @functools.wraps(method)
    def wrapped(*given):
        found = method(*given)
        {}
        return found

    return wrapped


"""


def test_a_wait_around_the_method() -> None:
    assert not open_in(f"@settled\n{COPY}", DECORATOR.format(WAIT))
    assert open_in(f"@settled\n{COPY}", DECORATOR.format("pass"))
    assert not open_in(f"@library.waits_for_all\n@wait_after\n{COPY}")
    assert open_in(f"@library.counted\n{COPY}")
