"""Each rule on a small tree, with the exact text after the fix."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from auditor.runs.audit import audit_sources

from .trees import HEAD, POOL, fix, fixed, method

WAIT = """\
        if self.counter is not None:
            self.counter.wait_until(layer_id - self.first)
"""


def clean(*files: tuple[str, str]) -> bool:
    return audit_sources(dict(files)).findings == ()


def test_ungated_buffer_read_gets_the_wait_of_the_nearest_sibling(tmp_path: Path) -> None:
    open_ = method(
        '''
        def get_unpacked(self, layer_id, width):
            """Unpacks a layer."""

            # the rows as they are stored
            rows = self.pages[layer_id - self.first]
            return unpack(rows, width)
        '''
    )
    after = method(
        '''
        def get_unpacked(self, layer_id, width):
            """Unpacks a layer."""
            if self.counter is not None:
                self.counter.wait_until(layer_id - self.first)

            # the rows as they are stored
            rows = self.pages[layer_id - self.first]
            return unpack(rows, width)
        '''
    )
    assert fixed(tmp_path, HEAD + open_).decode() == HEAD + after
    assert clean((POOL, HEAD + after))


def test_a_sibling_that_is_out_of_order_itself_is_copied_last(tmp_path: Path) -> None:
    late = method(
        """
        def get_late(self, layer_id):
            found = self.pages[layer_id - self.first].mean()
            if self.counter is not None:
                self.counter.wait_until(layer_id - self.first)
            return found
        """
    )
    open_read = method(
        "def get_mean(self, layer_id):\n    return self.pages[layer_id - self.first].mean()"
    )
    done = fix(tmp_path, {POOL: HEAD + late + open_read})
    told = {f.finding.hit.where.symbol.qualname: f.how for f in done.fixes}
    assert told == {
        "PagePool.get_late": "moves the wait before the read",
        "PagePool.get_mean": "waits as PagePool.get_page_slots does",
    }


def test_the_parameter_is_called_as_this_function_calls_it(tmp_path: Path) -> None:
    before = HEAD + method(
        """
        def get_mean(self, index):
            return self.pages[index - self.first].mean()
        """
    )
    after = HEAD + method(
        """
        def get_mean(self, index):
            if self.counter is not None:
                self.counter.wait_until(index - self.first)
            return self.pages[index - self.first].mean()
        """
    )
    assert fixed(tmp_path, before).decode() == after


def test_an_object_is_asked_for_its_number_where_the_sibling_has_the_number(tmp_path: Path) -> None:
    before = HEAD + method(
        """
        def get_of(this, layer, slots):
            return this.pages[layer.layer_id - this.first][slots]
        """
    )
    after = HEAD + method(
        """
        def get_of(this, layer, slots):
            if this.counter is not None:
                this.counter.wait_until(layer.layer_id - this.first)
            return this.pages[layer.layer_id - this.first][slots]
        """
    )
    assert fixed(tmp_path, before).decode() == after


def test_the_wait_keeps_what_its_siblings_do_before_it(tmp_path: Path) -> None:
    head = textwrap.dedent(
        """\
        import torch


        class PagePool:
            def __init__(self, layers, slots):
                self.counter = None
                self.place = {}
                self.pages = [torch.zeros(slots) for _ in range(layers)]

            def attach_counter(self, counter):
                self.counter = counter

            def get_pages(self, layer_id):
                place = self.place[layer_id]
                if self.counter is not None:
                    self.counter.wait_until(place)
                return self.pages[place]

            def get_slots(self, layer_id, slots):
                place = self.place[layer_id]
                if self.counter is not None:
                    self.counter.wait_until(place)
                return self.pages[place][slots]
        """
    )
    before = method(
        """
        def get_mean(self, layer_id):
            place = self.place[layer_id]
            return self.pages[place].mean()
        """
    )
    after = method(
        """
        def get_mean(self, layer_id):
            place = self.place[layer_id]
            if self.counter is not None:
                self.counter.wait_until(place)
            return self.pages[place].mean()
        """
    )
    assert fixed(tmp_path, head + before).decode() == head + after


@pytest.mark.parametrize(
    "before",
    [
        "layer_id = layer_id + 1",
        "layer_id += 1",
        "layer_id, other = layer_id + 1, 2",
        "if layer_id is None:\n        layer_id = 0",
        "try:\n        pass\n    except ValueError as layer_id:\n        pass",
        "match self.first:\n        case [1, layer_id]:\n            pass",
        "match self.first:\n        case [1, *layer_id]:\n            pass",
        'match self.first:\n        case {"a": 1, **layer_id}:\n            pass',
    ],
)
def test_a_wait_by_a_name_that_means_something_else_here_is_not_written(
    tmp_path: Path, before: str
) -> None:
    body = f"    {before}\n    return self.pages[layer_id].mean()"
    text = HEAD + method(f"def get_mean(self, layer_id):\n{body}")
    [only] = fix(tmp_path, {POOL: text}).fixes
    assert (only.applicability, only.state) == ("display", "none")
    assert only.reason.endswith("layer_id is given another value here before the read")
    assert (tmp_path / "fork" / POOL).read_text() == text


@pytest.mark.parametrize(
    "before_read", ["layer_id = layer_id - self.first", "at = layer_id - self.first; layer_id = at"]
)
def test_what_a_sibling_computes_after_its_wait_may_come_after_it_here_too(
    tmp_path: Path, before_read: str
) -> None:
    first = "        return self.pages[layer_id - self.first]"
    head = HEAD.replace(first, f"        {before_read}\n        return self.pages[layer_id]")
    before = method(
        """
        def get_mean(self, layer_id):
            layer_id = layer_id - self.first
            return self.pages[layer_id].mean()
        """
    )
    after = method(
        """
        def get_mean(self, layer_id):
            if self.counter is not None:
                self.counter.wait_until(layer_id - self.first)
            layer_id = layer_id - self.first
            return self.pages[layer_id].mean()
        """
    )
    assert fixed(tmp_path, head + before).decode() == head + after


def test_a_name_that_changes_after_the_read_is_no_matter(tmp_path: Path) -> None:
    before = HEAD + method(
        """
        def get_mean(self, layer_id):
            found = self.pages[layer_id - self.first]
            layer_id = 0
            return found[layer_id]
        """
    )
    after = before.replace(
        "        found =",
        "        if self.counter is not None:\n"
        "            self.counter.wait_until(layer_id - self.first)\n"
        "        found =",
    )
    assert fixed(tmp_path, before).decode() == after


def test_where_no_sibling_wait_can_be_written_nothing_is_edited(tmp_path: Path) -> None:
    text = HEAD.replace("layer_id - self.first)", "place)").replace(
        "        if self.counter is not None:",
        "        place = layer_id - self.first\n        if self.counter is not None:",
    )
    text += method(
        """
        def get_mean(self, layer_id):
            return self.pages[layer_id].mean()
        """
    )
    [only] = fix(tmp_path, {POOL: text}).fixes
    assert (only.applicability, only.state) == ("display", "none")
    assert "place" in only.reason
    assert (tmp_path / "fork" / POOL).read_text() == text


def test_a_lost_wait_comes_back_as_upstream_wrote_it(tmp_path: Path) -> None:
    upstream = HEAD + method(
        """
        def get_tail(self, layer_id, count):
            if count == 0:
                return None
            # Loaded layer by layer, see the loader.
            if self.counter is not None:
                self.counter.wait_until(
                    layer_id - self.first  # local
                )

            return self.pages[layer_id - self.first][-count:]
        """
    )
    lost = upstream.replace(
        """\
        # Loaded layer by layer, see the loader.
        if self.counter is not None:
            self.counter.wait_until(
                layer_id - self.first  # local
            )
""",
        "",
    )
    assert lost != upstream
    assert fixed(tmp_path, lost, upstream=upstream).decode() == upstream


def test_a_lost_wait_comes_back_between_the_forks_own_changes(tmp_path: Path) -> None:
    upstream = HEAD + method(
        """
        def get_tail(self, layer_id, count):
            if self.wide:
                index = layer_id
                if self.counter is not None:
                    self.counter.wait_until(index - self.first)
                return self.pages[index - self.first][-count:]
            if self.counter is not None:
                self.counter.wait_until(layer_id - self.first)
            return self.pages[layer_id - self.first][-count:]
        """
    )
    fork = HEAD + method(
        """
        def get_tail(self, layer_id, count):
            self.asked += 1
            if self.wide:
                index = layer_id
                log(index)
                return self.pages[index - self.first][-count:]
            return self.pages[layer_id - self.first][-count:].clone()
        """
    )
    after = HEAD + method(
        """
        def get_tail(self, layer_id, count):
            self.asked += 1
            if self.wide:
                index = layer_id
                if self.counter is not None:
                    self.counter.wait_until(index - self.first)
                log(index)
                return self.pages[index - self.first][-count:]
            if self.counter is not None:
                self.counter.wait_until(layer_id - self.first)
            return self.pages[layer_id - self.first][-count:].clone()
        """
    )
    assert fixed(tmp_path, fork, upstream=upstream).decode() == after


def test_gate_removed_an_event_is_waited_for_again(tmp_path: Path) -> None:
    upstream = textwrap.dedent(
        """\
        import torch


        class Ring:
            def __init__(self, slots):
                self.scratch = [torch.zeros(4) for _ in range(slots)]
                self.ready = [torch.cuda.Event() for _ in range(slots)]

            def take(self, slot):
                torch.cuda.current_stream().wait_event(self.ready[slot])
                return self.scratch[slot]

            def fill(self, slot, rows):
                self.scratch[slot].copy_(rows)
                self.ready[slot].record()
        """
    )
    lost = upstream.replace(
        "        torch.cuda.current_stream().wait_event(self.ready[slot])\n", ""
    )
    files = {POOL: lost}
    [only] = fix(tmp_path, files, {POOL: upstream}).fixes
    assert (only.finding.rule, only.state) == ("gate-removed", "made")
    assert (tmp_path / "fork" / POOL).read_text() == upstream


def test_fixed_upstream_takes_over_the_targets_change(tmp_path: Path) -> None:
    old = HEAD + method(
        """
        def get_tail(self, layer_id, count):
            return self.pages[layer_id - self.first][-count:]
        """
    )
    new = HEAD + method(
        """
        def get_tail(self, layer_id, count):
            # An empty tail needs no wait.
            if not count:
                return None
            if self.counter is not None:
                self.counter.wait_until(layer_id - self.first)
            return self.pages[layer_id - self.first][-count:]
        """
    )
    assert fixed(tmp_path, old, upstream=old, target=new).decode() == new


def test_of_a_targets_change_that_does_not_fit_only_the_wait_is_taken(tmp_path: Path) -> None:
    old = HEAD + method(
        """
        def get_tail(self, layer_id, count):
            return self.pages[layer_id - self.first][-count:]
        """
    )
    new = HEAD + method(
        """
        def get_tail(self, layer_id, count):
            if self.counter is not None:
                self.counter.wait_until(layer_id - self.first)
            return self.pages[self.places_of_2027[layer_id]][-count:]
        """
    )
    after = HEAD + method(
        """
        def get_tail(self, layer_id, count):
            if self.counter is not None:
                self.counter.wait_until(layer_id - self.first)
            return self.pages[layer_id - self.first][-count:]
        """
    )
    assert fixed(tmp_path, old, upstream=old, target=new).decode() == after


def test_gate_after_read_moves_before_it(tmp_path: Path) -> None:
    before = HEAD + method(
        """
        def get_unpacked(self, layer_id):
            rows = unpack(self.pages[layer_id - self.first])  # enqueued here
            if self.counter is not None:
                self.counter.wait_until(layer_id - self.first)
            return rows
        """
    )
    after = HEAD + method(
        """
        def get_unpacked(self, layer_id):
            if self.counter is not None:
                self.counter.wait_until(layer_id - self.first)
            rows = unpack(self.pages[layer_id - self.first])  # enqueued here
            return rows
        """
    )
    assert fixed(tmp_path, before).decode() == after


def test_a_late_wait_stays_behind_what_it_is_computed_from(tmp_path: Path) -> None:
    before = HEAD + method(
        """
        def get_unpacked(self, layer_id):
            place = layer_id - self.first
            rows = unpack(self.pages[place])
            if self.counter is not None:
                self.counter.wait_until(place)
            return rows
        """
    )
    after = HEAD + method(
        """
        def get_unpacked(self, layer_id):
            place = layer_id - self.first
            if self.counter is not None:
                self.counter.wait_until(place)
            rows = unpack(self.pages[place])
            return rows
        """
    )
    assert fixed(tmp_path, before).decode() == after


@pytest.mark.parametrize("test", ["self.trace", "self.counter is not None and self.trace"])
def test_gate_not_on_all_paths_moves_before_the_branch(tmp_path: Path, test: str) -> None:
    inner = "self.counter.wait_until(layer_id - self.first)"
    if "counter" not in test:
        inner = f"if self.counter is not None:\n                    {inner}"
    before = HEAD + method(
        f"""
        def get_tail(self, layer_id, count):
            if {test}:
                {inner}
            return self.pages[layer_id - self.first][-count:]
        """
    )
    after = HEAD + method(
        """
        def get_tail(self, layer_id, count):
            if self.counter is not None:
                self.counter.wait_until(layer_id - self.first)
            return self.pages[layer_id - self.first][-count:]
        """
    )
    done = fix(tmp_path, {POOL: before})
    assert [f.finding.rule for f in done.fixes] == ["gate-not-on-all-paths"]
    assert (tmp_path / "fork" / POOL).read_text() == after


BOARD = "sglang/srt/hardware/board.py"
SUBCLASS = """\
from sglang.srt.mem_cache.pool import PagePool


class BoardPool(PagePool):
    def get_pages(self, layer_id):
{wait}        return self.pages[layer_id - self.first].flip(0)

    def get_pair(self, layer_id):
        rows = self.get_pages(layer_id)
        return rows, rows
"""


def test_what_is_said_of_a_wait_moves_with_it(tmp_path: Path) -> None:
    before = method(
        """
        def get_mean(self, layer_id):
            # the rows
            found = self.pages[layer_id - self.first].mean()

            # before anybody
            # sees them
            if self.counter is not None:
                self.counter.wait_until(layer_id - self.first)
            # done
            return found
        """
    )
    after = method(
        """
        def get_mean(self, layer_id):
            # before anybody
            # sees them
            if self.counter is not None:
                self.counter.wait_until(layer_id - self.first)
            # the rows
            found = self.pages[layer_id - self.first].mean()
            # done
            return found
        """
    )
    assert fixed(tmp_path, HEAD + before).decode() == HEAD + after


def test_a_condition_that_does_more_than_look_stays_without_its_wait(tmp_path: Path) -> None:
    before = method(
        """
        def get_mean(self, layer_id, flag):
            # counts
            if self.count(flag):
                if self.counter is not None:
                    self.counter.wait_until(layer_id - self.first)
            return self.pages[layer_id - self.first].mean()
        """
    )
    after = method(
        """
        def get_mean(self, layer_id, flag):
            if self.counter is not None:
                self.counter.wait_until(layer_id - self.first)
            # counts
            if self.count(flag):
                pass
            return self.pages[layer_id - self.first].mean()
        """
    )
    assert fixed(tmp_path, HEAD + before).decode() == HEAD + after


@pytest.mark.parametrize(
    "read",
    [
        "return [self.pages[layer - self.first] for layer in wanted]",
        "return [self.pages[layer - self.first] for _, layer in enumerate(wanted)]",
        "for layer in wanted:\n        last = self.pages[layer - self.first]\n    return last",
        "return self.pages[wanted.number - self.first].mean()",
        "return self.pages[wanted[0] - self.first].mean()",
        "return self.pages[wanted() - self.first].mean()",
    ],
)
def test_what_holds_more_than_an_index_is_not_waited_by(tmp_path: Path, read: str) -> None:
    text = HEAD + method(f"def get_mean(self, wanted):\n    {read}")
    [only] = fix(tmp_path, {POOL: text}, confidence="low").fixes
    assert (only.applicability, only.state) == ("display", "none")
    assert only.reason.endswith("wanted is more than its layer_id")
    assert (tmp_path / "fork" / POOL).read_text() == text


def test_override_drops_gate_is_fixed_once_for_all_that_read_through_it(tmp_path: Path) -> None:
    done = fix(tmp_path, {POOL: HEAD, BOARD: SUBCLASS.format(wait="")})
    assert {f.finding.hit.where.symbol.qualname: f.state for f in done.fixes} == {
        "BoardPool.get_pages": "made",
        "BoardPool.get_pair": "made",
    }
    assert (tmp_path / "fork" / BOARD).read_text() == SUBCLASS.format(wait=WAIT)


def test_override_calls_super_where_nobody_has_a_wait_to_copy(tmp_path: Path) -> None:
    pool = textwrap.dedent(
        """\
        import torch


        class PagePool:
            def __init__(self, layers, slots):
                self.counter = None
                self.first = 0
                self.pages = [torch.zeros(slots) for _ in range(layers)]

            def attach_counter(self, counter):
                self.counter = counter

            def get_pages(self, layer_id):
                place = layer_id - self.first
                if self.counter is not None:
                    self.counter.wait_until(place)
                return self.pages[place]

            def get_mean(self, layer_id):
                place = layer_id - self.first
                if self.counter is not None:
                    self.counter.wait_until(place)
                return self.pages[place].mean()


        class BoardPool(PagePool):
            def get_pages(self, layer_id):
                return self.pages[layer_id].flip(0)
        """
    )
    after = pool.replace(
        "        return self.pages[layer_id].flip(0)",
        "        super().get_pages(layer_id)\n        return self.pages[layer_id].flip(0)",
    )
    assert fixed(tmp_path, pool).decode() == after


OVERRIDDEN = """\
import functools

import torch


class PagePool:
    def __init__(self, layers, slots):
        self.counter = None
        self.first = 0
        self.pages = [torch.zeros(slots) for _ in range(layers)]

    def attach_counter(self, counter):
        self.counter = counter

{base}
        place = layer_id - self.first
        if self.counter is not None:
            self.counter.wait_until(place)
        {gives} self.pages[place]


class BoardPool(PagePool):
{own}
        return self.pages[layer_id].flip(0)
"""


@pytest.mark.parametrize(
    ("base", "own", "call"),
    [
        ("    async def get(self, layer_id):", None, "await super().get(layer_id)"),
        (
            "    @classmethod\n    def get(self, layer_id):",
            None,
            "super().get(layer_id)",
        ),
        (
            "    def get(self, layer_id, *more, flag=1, **rest):",
            "    def get(self, layer_id, *others, flag=1, **kwargs):",
            "super().get(layer_id, *others, flag=flag, **kwargs)",
        ),
        (
            "    def get(self, layer_id, /, *, flag):",
            None,
            "super().get(layer_id, flag=flag)",
        ),
        (
            "    def get(self, layer_id):",
            "    async def get(self, layer_id):",
            "super().get(layer_id)",
        ),
    ],
)
def test_super_is_called_as_the_overridden_method_must_be(
    tmp_path: Path, base: str, own: str | None, call: str
) -> None:
    text = OVERRIDDEN.format(base=base, own=own or base, gives="return")
    last = "        return self.pages[layer_id].flip(0)"
    assert fixed(tmp_path, text).decode() == text.replace(last, f"        {call}\n{last}")


@pytest.mark.parametrize(
    ("base", "own", "gives"),
    [
        ("    @property\n    def get(self, layer_id=0):", None, "return"),
        ("    @functools.cached_property\n    def get(self, layer_id=0):", None, "return"),
        ("    @functools.wraps(print)\n    def get(self, layer_id):", None, "return"),
        ("    def get(self, layer_id):", None, "yield"),
        ("    async def get(self, layer_id):", None, "yield"),
        ("    async def get(self, layer_id):", "    def get(self, layer_id):", "return"),
        ("    def get(self, layer_id, *more):", "    def get(self, layer_id):", "return"),
        ("    def get(self, layer_id):", "    def get(self, layer_id, **more):", "return"),
    ],
)
def test_super_is_not_called_where_that_would_not_wait(
    tmp_path: Path, base: str, own: str | None, gives: str
) -> None:
    text = OVERRIDDEN.format(base=base, own=own or base, gives=gives)
    [only] = fix(tmp_path, {POOL: text}, confidence="low").fixes
    assert (only.finding.rule, only.applicability, only.state) == (
        *("override-drops-gate", "display", "none"),
    )
    assert "overridden method" in only.reason
    assert (tmp_path / "fork" / POOL).read_text() == text


def test_delegate_skips_gate_gets_the_wrapper_of_its_siblings(tmp_path: Path) -> None:
    outer = textwrap.dedent(
        """\
        from sglang.srt.mem_cache.pool import PagePool


        class Hybrid:
            def __init__(self, layers, slots):
                self.counter = None
                self.place = {layer: layer // 2 for layer in range(layers)}
                self.inner = PagePool(layers, slots)

            def attach_counter(self, counter):
                self.counter = counter
                self.inner.attach_counter(None)

            def _settle(self, layer_id):
                if self.counter is not None:
                    self.counter.wait_until(layer_id)

            def get_pages(self, layer_id):
                self._settle(layer_id)
                return self.inner.get_pages(self.place[layer_id])

            def get_mean(self, layer_id):
                self._settle(layer_id)
                return self.inner.get_pages(self.place[layer_id]).mean()

            def get_page_slots(self, layer_id, slots):
                layer_id = self.place[layer_id]
                return self.inner.get_page_slots(layer_id, slots)
        """
    )
    after = outer.replace(
        "        layer_id = self.place[layer_id]\n",
        "        self._settle(layer_id)\n        layer_id = self.place[layer_id]\n",
    )
    path = "sglang/srt/mem_cache/hybrid.py"
    done = fix(tmp_path, {POOL: HEAD, path: outer})
    assert [(f.finding.rule, f.state) for f in done.fixes] == [("delegate-skips-gate", "made")]
    assert (tmp_path / "fork" / path).read_text() == after


LAYER = """\
from sglang.srt.mem_cache.pool import PagePool


class Layer:
    def __init__(self, pool: PagePool, layer_id):
        self.pool = pool
        self.layer_id = layer_id

    def extend(self, numbers):
        return self.pool.gather(self.layer_id, numbers, counter=self.pool.counter)

    def verify(self, numbers):
        return self.pool.gather({arguments})
"""
GATHER = method(
    """
    def gather(self, layer_id, numbers, counter=None):
        if counter is not None:
            counter.wait_until(layer_id)
        return unpack(self.pages[layer_id], numbers)
    """
)
LAYER_FILE = "sglang/srt/layers/layer.py"


@pytest.mark.parametrize(
    ("given", "handed"),
    [
        ("self.layer_id, numbers", "self.layer_id, numbers, counter=self.pool.counter"),
        (
            "\n            self.layer_id,\n            numbers,\n        ",
            (
                "\n            self.layer_id,\n            numbers,\n"
                "            counter=self.pool.counter,\n        "
            ),
        ),
        (
            "layer_id=self.layer_id, numbers=numbers",
            "layer_id=self.layer_id, numbers=numbers, counter=self.pool.counter",
        ),
    ],
)
def test_optional_gate_omitted_is_handed_over_as_the_other_call_does(
    tmp_path: Path, given: str, handed: str
) -> None:
    before = LAYER.format(arguments=given)
    done = fix(tmp_path, {POOL: HEAD + GATHER, LAYER_FILE: before})
    assert {f.finding.rule for f in done.fixes} == {"optional-gate-omitted"}
    assert {f.state for f in done.fixes} == {"made"}
    assert (tmp_path / "fork" / LAYER_FILE).read_text() == LAYER.format(arguments=handed)
    assert (tmp_path / "fork" / POOL).read_text() == HEAD + GATHER


SENDERS = """\
class Sender:
    def send(self, rows, peer, ready):
        raise NotImplementedError


class First(Sender):
    def send(self, rows, peer, ready):
        if ready is not None:
            ready.synchronize()
        self.post(rows, peer)


class Second(Sender):
    def send(self, rows, peer, ready):
        if ready is not None:
            ready.synchronize()
        self.post(peer, rows)


class Third(Sender):
    def send(self, rows, peer, ready):
{wait}        self.post_all(rows, peer)
"""


def test_gate_parameter_dropped_is_waited_on_as_the_siblings_do(tmp_path: Path) -> None:
    wait = "        if ready is not None:\n            ready.synchronize()\n"
    done = fix(tmp_path, {POOL: SENDERS.format(wait="")})
    assert [f.finding.rule for f in done.fixes] == ["gate-parameter-dropped"]
    assert (tmp_path / "fork" / POOL).read_text() == SENDERS.format(wait=wait)


def test_gate_bypassed_is_only_told(tmp_path: Path) -> None:
    layer = textwrap.dedent(
        """\
        from sglang.srt.mem_cache.pool import PagePool


        class Backend:
            def __init__(self, pool: PagePool):
                self.pool = pool

            def score(self, queries, layer_id):
                return queries @ self.pool.pages[layer_id].transpose(0, 1)
        """
    )
    [only] = fix(tmp_path, {POOL: HEAD, LAYER_FILE: layer}).fixes
    assert (only.finding.rule, only.applicability, only.state) == (
        "gate-bypassed",
        "display",
        "none",
    )
    assert (tmp_path / "fork" / LAYER_FILE).read_text() == layer


def test_gate_bypassed_gets_back_the_wait_that_upstream_makes_there(tmp_path: Path) -> None:
    upstream = textwrap.dedent(
        """\
        from sglang.srt.mem_cache.pool import PagePool


        def pages_of(pool: PagePool, layer_id, inner):
            if inner:
                pool.counter.wait_until(layer_id)
                pool = pool.inner
            elif pool.counter is not None:
                pool.counter.wait_until(layer_id)
            return pool.pages[layer_id].view(-1)
        """
    )
    lost = upstream.replace(
        "        pool.counter.wait_until(layer_id)\n        pool =", "        pool ="
    ).replace("pool.counter.wait_until(layer_id)", "pass")
    assert lost.count("wait_until") == 0
    done = fix(tmp_path, {POOL: HEAD, LAYER_FILE: lost}, {POOL: HEAD, LAYER_FILE: upstream})
    assert [(f.finding.rule, f.state) for f in done.fixes] == [("gate-bypassed", "made")]
    assert (tmp_path / "fork" / LAYER_FILE).read_text() == upstream


def test_of_a_getter_and_the_helper_that_reads_for_it_the_getter_waits(tmp_path: Path) -> None:
    split = textwrap.dedent(
        """\
        import torch


        class SplitPool:
            def __init__(self, layers, slots):
                self.counter = None
                self.keys = [torch.zeros(slots) for _ in range(layers)]
                self.values = [torch.zeros(slots) for _ in range(layers)]

            def attach_counter(self, counter):
                self.counter = counter

            def _get_keys(self, layer_id):
                return self.keys[layer_id].view(-1)

            def get_keys(self, layer_id):
                if self.counter is not None:
                    self.counter.wait_until(layer_id)
                return self._get_keys(layer_id)

            def _get_values(self, layer_id):
                return self.values[layer_id].view(-1)

            def get_values(self, layer_id):
                {wait}return self._get_values(layer_id)

            def get_value_slots(self, layer_id, slots):
                if self.counter is not None:
                    self.counter.wait_until(layer_id)
                return self.values[layer_id][slots]

            def get_value_head(self, layer_id, count):
                if self.counter is not None:
                    self.counter.wait_until(layer_id)
                return self.values[layer_id][:count]
        """
    )
    wait = "if self.counter is not None:\n            self.counter.wait_until(layer_id)\n        "
    assert fixed(tmp_path, split.format(wait="")).decode() == split.format(wait=wait)


def test_a_gate_is_never_safe(tmp_path: Path) -> None:
    text = HEAD + method("def get_mean(self, layer_id):\n    return self.pages[layer_id].mean()")
    done = fix(tmp_path, {POOL: text}, unsafe=False)
    assert [(f.applicability, f.state) for f in done.fixes] == [("unsafe", "held-back")]
    assert done.changes == ()
    assert not done.complete
    assert (tmp_path / "fork" / POOL).read_text() == text


def test_only_the_named_rules_are_fixed(tmp_path: Path) -> None:
    text = HEAD + method("def get_mean(self, layer_id):\n    return self.pages[layer_id].mean()")
    assert fix(tmp_path, {POOL: text}, rules=["gate-after-read"]).fixes == ()
    assert len(fix(tmp_path, {POOL: text}, rules=["ungated-buffer-read"]).changes) == 1


MIXED = (
    HEAD.replace(
        "class PagePool:",
        """class Gather:
    def gather(self, layer_id):
%s        return torch.clone(self.pages[layer_id - self.first])


class PagePool:""",
    )
    + "\n\nclass GatherPool(Gather, PagePool):\n    pass\n"
)
"""A class whose objects are those of another, which has what it asks for."""


def test_a_class_to_mix_in_may_ask_for_what_all_that_mix_it_in_have(tmp_path: Path) -> None:
    assert fixed(tmp_path, MIXED % "", upstream=MIXED % WAIT).decode() == MIXED % WAIT


def test_but_not_for_what_one_of_them_lacks(tmp_path: Path) -> None:
    bare = (
        "\n\nclass Bare(Gather):\n    def __init__(self):\n        self.pages, self.first = [], 0\n"
    )
    done = fix(tmp_path, {POOL: MIXED % "" + bare}, {POOL: MIXED % WAIT})
    assert [(f.state, f.reason) for f in done.fixes] == [("none", "the class has no counter")]


OPTIONAL = (
    HEAD
    + """
    def prefetch(self, layer_id, counter=None):
%s        return self.pages[layer_id - self.first].cuda()


class Runner:
    def __init__(self, pool: PagePool):
        self.pool = pool

    def warm(self, layer_id):
        return self.pool.prefetch(layer_id)
"""
)
"""A read whose wait upstream leaves to the caller, who leaves it out: a defect of its own."""


def test_a_defect_of_upstreams_own_does_not_keep_its_wait_from_coming_back(
    tmp_path: Path,
) -> None:
    """The fork took out the wait as well: the function is made upstream's, whose defect is told."""
    wait = (
        "        if counter is not None:\n            counter.wait_until(layer_id - self.first)\n"
    )
    done = fix(tmp_path, {POOL: OPTIONAL % ""}, {POOL: OPTIONAL % wait})
    assert [(f.finding.origin, f.state) for f in done.fixes] == [("inherited", "made")]
    assert (tmp_path / "fork" / POOL).read_text() == OPTIONAL % wait
    told = {(f.rule, f.origin) for f in done.revealed}
    assert told == {("optional-gate-omitted", "inherited")}


def test_upstream_gives_back_no_wait_that_the_fork_has(tmp_path: Path) -> None:
    late = method(
        """
        def get_late(self, layer_id):
            found = self.pages[layer_id - self.first].mean()
            if self.counter is not None:
                self.counter.wait_until(layer_id - self.first)
            return found
        """
    )
    done = fix(tmp_path, {POOL: HEAD + late})
    assert [f.how for f in done.fixes] == ["moves the wait before the read"]


@pytest.mark.parametrize(
    "read",
    [
        "return torch.stack([page[wanted] for page in self.pages])",
        "return torch.stack([self.pages[i][wanted] for i in range(4)])",
        "return [self.pages[i] for i in range(4)][0][wanted]",
    ],
)
def test_rows_are_not_waited_for_as_if_they_were_a_layer(tmp_path: Path, read: str) -> None:
    text = HEAD + method(f"def get_rows(self, wanted):\n    {read}")
    found = fix(tmp_path, {POOL: text}, confidence="low").fixes
    assert {(only.applicability, only.state) for only in found} <= {("display", "none")}
    assert (tmp_path / "fork" / POOL).read_text() == text


@pytest.mark.parametrize(
    "body",
    [
        "return self.pages[(layer.layer_id if other is None else other) - self.first][slots]",
        """
        index = layer.layer_id
        if other is not None:
            index = other
        return self.pages[index - self.first][slots]
        """,
        """
        if other is None:
            return self.pages[layer.layer_id - self.first][slots]
        return self.pages[other - self.first][slots]
        """,
    ],
)
def test_a_layer_that_another_argument_replaces_is_not_waited_for(
    tmp_path: Path, body: str
) -> None:
    read = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    text = HEAD + method(f"def get_of(self, layer, slots, other=None):\n{read}")
    [only] = fix(tmp_path, {POOL: text}).fixes
    assert (only.applicability, only.state) == ("display", "none")
    assert only.reason.endswith("the read here is not known to be chosen by layer.layer_id")


def test_a_layer_is_followed_into_the_helper_that_reads(tmp_path: Path) -> None:
    text = HEAD + method(
        """
        def get_of(self, layer, slots, other=None):
            return self._read(layer.layer_id if other is None else other, slots)

        def _read(self, layer_id, slots):
            return self.pages[layer_id - self.first][slots]
        """
    )
    done = fix(tmp_path, {POOL: text})
    after = (tmp_path / "fork" / POOL).read_text()
    assert done.complete
    assert "wait_until(layer.layer_id" not in after
    assert after.count("wait_until(layer_id - self.first)") == 3
