"""Single shapes of waits and reads: what counts as waiting, and what counts as a use."""

from __future__ import annotations

import pytest

from auditor.runs.audit import audit_sources

from .test_paths import POOL

WAIT = "self.counter.wait_until(layer_id)"
USE = "kernel(self.rows[layer_id], slots)"


def reported(body: str, *more: str) -> bool:
    """Whether a method of the pool with this body is reported; ``more`` are further methods."""
    text = POOL
    for head, lines in [("get_more(self, layer_id, slots, items)", body), *map(split, more)]:
        text += f"    def {head}:\n" + "".join(f"        {x}\n" for x in lines.split("\n"))
    report = audit_sources({"sglang/srt/pool.py": text})
    assert not report.skipped
    return "Pool.get_more" in {f.hit.where.symbol.qualname for f in report.findings}


def split(method: str) -> tuple[str, str]:
    head, _, body = method.partition(": ")
    return head, body


@pytest.mark.parametrize(
    "body",
    [
        f"{WAIT}\n{USE}",
        f"self._pause(layer_id)\n{USE}",
        f"self._pause(layer_id=layer_id)\n{USE}",
        f"pause = self._pause\npause(layer_id)\n{USE}",
        f"gate = getattr(self, 'counter', None)\nif gate:\n    gate.wait_until(layer_id)\n{USE}",
        f"if self.counter is None:\n    return self.rows[layer_id]\n{WAIT}\n{USE}",
        f"if not self.counter:\n    return {USE}\n{WAIT}\n{USE}",
        f"if items:\n    {WAIT}\nelse:\n    {WAIT}\n{USE}",
        f"match items:\n    case 1:\n        {WAIT}\n    case _:\n        {WAIT}\n{USE}",
        f"match items:\n    case 1:\n        {WAIT}\n    case other:\n        {WAIT}\n{USE}",
        f"try:\n    {WAIT}\n    {USE}\nexcept Failed:\n    raise",
        f"try:\n    {WAIT}\nexcept Failed:\n    return None\n{USE}",
        f"with lock:\n    {WAIT}\n    {USE}",
        f"rows = self.rows[layer_id]\n{WAIT}\nkernel(rows)",
        f"rows = self.rows[layer_id].view(-1)\n{WAIT}\nreturn rows",
        f"def finish(rows):\n    kernel(rows)\n{WAIT}\nfinish(self.rows[layer_id])",
        f"def finish():\n    {WAIT}\nfinish()\n{USE}",
        f"try:\n    return self.rows[layer_id]\nfinally:\n    {WAIT}",
        f"while True:\n    {WAIT}\n    break\n{USE}",
        f"for index in range(len(self.rows)):\n    self.counter.wait_until(index)\n{USE}",
        f"[self.counter.wait_until(index) for index in range(9)]\n{USE}",
        f"async def later():\n    {WAIT}\n    {USE}\nreturn later",
        "return self.rows[layer_id].shape",
        "return self.rows[layer_id].data_ptr()",
        "return len(self.rows[layer_id])",
        "return self.rows",
        "self.rows[layer_id][slots] = items",
        "self.rows[layer_id].copy_(items)",
        "return self.rows[0].index_select(0, slots)",
    ],
)
def test_waits_first_or_reads_nothing(body: str) -> None:
    assert not reported(body)


@pytest.mark.parametrize(
    "body",
    [
        USE,
        f"{USE}\n{WAIT}",
        f"if probe():\n    {WAIT}\n{USE}",
        f"if self.mode == 1 and self.counter is not None:\n    {WAIT}\n{USE}",
        # The first layer's index is 0, which is false.
        f"if layer_id and self.counter is not None:\n    {WAIT}\n{USE}",
        f"{WAIT} if probe() else None\n{USE}",
        f"probe() and {WAIT}\n{USE}",
        f"hook(lambda: {WAIT})\n{USE}",
        f"hook(lambda: self._pause(layer_id))\n{USE}",
        f"[{WAIT} for _ in items]\n{USE}",
        f"{{item: {WAIT} for item in items}}\n{USE}",
        f"def later():\n    {WAIT}\n{USE}",
        f"def later():\n    {WAIT}\nif probe():\n    later()\n{USE}",
        f"for item in items:\n    {WAIT}\n{USE}",
        f"for item in items:\n    if probe():\n        continue\n    {WAIT}\n    break\n{USE}",
        f"while probe():\n    {WAIT}\n{USE}",
        f"match items:\n    case 1:\n        {WAIT}\n{USE}",
        f"match items:\n    case 1:\n        {WAIT}\n    case _ if probe():\n        {WAIT}\n{USE}",
        f"match items:\n    case 1 if {USE}:\n        pass",
        "match self.rows[layer_id]:\n    case rows:\n        kernel(rows)",
        f"try:\n    {WAIT}\nexcept Failed:\n    pass\n{USE}",
        f"try:\n    work()\nexcept Failed:\n    {USE}\nelse:\n    {WAIT}\n    {USE}",
        f"with suppress(Failed):\n    {WAIT}\n{USE}",
        f"with contextlib.suppress(Failed), items:\n    {WAIT}\n{USE}",
        f"try:\n    {WAIT}\nfinally:\n    {USE}",
        # A try within a branch must not let its own wait stand for the whole branch.
        (
            f"if probe():\n    try:\n        {WAIT}\n    except Failed:\n        pass\n"
            f"else:\n    {WAIT}\n{USE}"
        ),
        (
            f"for item in range(9):\n    try:\n        self.counter.wait_until(item)\n"
            f"    except Failed:\n        pass\n{USE}"
        ),
        (
            "rows = None\ntry:\n    rows = self.rows[layer_id]\n    work()\n"
            "except Failed:\n    kernel(rows)"
        ),
        (
            "rows = None\ntry:\n    rows = self.rows[layer_id]\n    work()\n    rows = None\n"
            "except Failed:\n    kernel(rows)"
        ),
        (
            "rows = None\ntry:\n    if probe():\n        rows = self.rows[layer_id]\n"
            "        raise Failed()\nexcept Failed:\n    kernel(rows)"
        ),
        (
            f"rows = None\ntry:\n    rows = self.rows[layer_id]\n    {WAIT}\n"
            f"finally:\n    kernel(rows)"
        ),
        (
            f"rows = None\ntry:\n    work()\nexcept Failed:\n"
            f"    rows = self.rows[layer_id]\n    {WAIT}\n"
            "finally:\n    kernel(rows)"
        ),
        "rows = None\nfor item in items:\n    kernel(rows)\n    rows = self.rows[layer_id]",
        (
            "rows = None\nfor item in items:\n    if rows is not None:\n        kernel(rows)\n"
            "    rows = self.rows[layer_id]"
        ),
        "self.rows[layer_id] *= 2",
        "rows = self.rows[layer_id]\nrows += items\nreturn None",
        "return self.rows[layer_id]",
        "return [self.rows[layer_id], None]",
        "yield self.rows[layer_id]",
        "return lambda: kernel(self.rows[layer_id])",
        "return {'rows': self.rows[layer_id]}",
        "rows = buffers = self.rows[layer_id]\nkernel(buffers)",
        "first, second = self.rows[layer_id], items\nkernel(first)",
        "kernel[(1,)](self.rows[layer_id])",
        "kernel(out=items, rows=self.rows[layer_id])",
        "if (rows := self.rows[layer_id]) is not None:\n    kernel(rows)",
        "kernel(getattr(self, 'rows')[layer_id])",
        "items[:] = self.rows[layer_id][slots]",
        "assert self.rows[layer_id].sum() > 0",
        "return f'{self.rows[layer_id]}'",
    ],
)
def test_some_path_reads_first(body: str) -> None:
    assert reported(body)


def test_waiting_for_another_index_is_not_waiting() -> None:
    assert reported(f"self.counter.wait_until(slots)\n{USE}")


def test_a_switch_counts_where_every_caller_says_so() -> None:
    body = f"if items:\n    {WAIT}\n{USE}"
    sound = "step(self, layer_id): return self.get_more(layer_id, 1, True)"
    assert not reported(body, sound)
    careless = "step(self, layer_id): return self.get_more(layer_id, 1, False)"
    assert reported(body, careless)


def test_chains_of_calls_too_deep_to_follow_are_named_and_the_rest_is_judged() -> None:
    deep = "\n".join("    " * n + "if probe():" for n in range(40))
    text = POOL
    for n in range(14):
        text += f"    def get_step_{n}(self, layer_id):\n"
        text += "".join(f"        {line}\n" for line in deep.split("\n"))
        text += f"{' ' * 168}self.get_step_{n + 1}(layer_id)\n"
    text += f"    def get_more(self, layer_id, slots):\n        {USE}\n"
    report = audit_sources({"sglang/srt/pool.py": text})
    assert {s.stage for s in report.skipped} <= {"analyse"}
    assert {f.hit.where.symbol.qualname for f in report.findings} == {"Pool.get_more"}
