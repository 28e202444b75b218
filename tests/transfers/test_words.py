"""The words by which calls of a transfer are told apart, each by itself."""

from __future__ import annotations

import pytest

from auditor.source import facts as f
from auditor.source.extract import extract
from auditor.streams.identity import Scope
from auditor.transfers import words
from tests.transfers.trees import VOCABULARY


def function(text: str, given: str = "self, slots") -> f.FunctionFacts:
    [found] = extract(f"def move({given}):\n    {text}\n".encode(), "").functions
    return found


def call(text: str) -> f.Call:
    [stmt] = function(text).body
    assert isinstance(stmt, f.Do) and isinstance(stmt.value, f.Call)
    return stmt.value


@pytest.mark.parametrize(
    "name",
    ["submit", "apply_async", "run_in_executor", "run_coroutine_threadsafe", "write_async"],
)
def test_calls_that_return_early(name: str) -> None:
    assert words.starts_visibly(call(f"self.threads.{name}(slots)"))
    assert not words.starts_visibly(call("self.threads.start(slots)"))


@pytest.mark.parametrize("name", ["copy_rows", "memcpy_h2d", "writeback_rows", "offload_rows"])
def test_calls_that_are_named_for_a_transfer(name: str) -> None:
    assert words.starts_by_name(call(f"ops.{name}(slots)"), VOCABULARY)
    assert not words.starts_by_name(call(f"ops.{name}()"), VOCABULARY)
    assert not words.starts_by_name(call("ops.sort_rows(slots)"), VOCABULARY)


@pytest.mark.parametrize("blocking", ["to(device)", "cuda()", "cpu()"])
def test_rows_that_a_copy_made_which_blocks(blocking: str) -> None:
    [plain, moved] = (
        function(f"self.pool.rows[0][slots] = staged[slots]{made}").body[0]
        for made in ("", f".{blocking}")
    )
    assert isinstance(plain, f.Assign) and isinstance(moved, f.Assign)
    assert (words.stores_rows(plain), words.stores_rows(moved)) == (True, False)


def test_rows_of_what_is_nobodys_buffer_are_less_sure() -> None:
    [stmt] = function("kept[0][slots] = staged[slots]").body
    assert isinstance(stmt, f.Assign)
    assert words.stores_rows(stmt) is False


@pytest.mark.parametrize("name", ["result", "as_completed", "cpu", "query", "wait", "record"])
def test_calls_that_end_a_copy(name: str) -> None:
    scope = Scope(function("pass"))
    assert words.ends(call(f"self.work.{name}()"), scope, VOCABULARY)
    assert not words.ends(call("self.work.look()"), scope, VOCABULARY)


@pytest.mark.parametrize("name", ["drain", "finish", "finalize", "settle", "join", "wait", "sync"])
def test_names_that_say_that_they_end_it(name: str) -> None:
    assert words.says_it_ends(f"{name}_copies", VOCABULARY)
    assert not words.says_it_ends("count_copies", VOCABULARY)


@pytest.mark.parametrize(
    "text",
    [
        *(
            f"self.pages.{v}(slots)"
            for v in ("free", "release", "recycle", "reclaim", "deallocate")
        ),
        *(f"self.{verb}(slots)" for verb in ("ack", "acknowledge", "notify", "complete")),
        *(f"self.send_{word}(slots)" for word in ("ack", "done", "complete")),
        *(f"self.acks.{verb}(slots)" for verb in ("append", "put", "put_nowait", "add")),
        *(f"self.{n}_queue.put(slots)" for n in ("ack", "done", "finished", "completed")),
        *(f"self.{n}.set()" for n in ("event", "done", "ready", "finished", "completed", "flag")),
    ],
)
def test_calls_that_let_go(text: str) -> None:
    assert words.lets_go(call(text), VOCABULARY)


@pytest.mark.parametrize("name", ["ThreadPoolExecutor", "ThreadPool", "asyncio.TaskGroup"])
def test_contexts_that_join_at_their_end(name: str) -> None:
    assert words.joins_at_its_end(call(f"{name}()"))
    assert not words.joins_at_its_end(call("self.pool()"))


@pytest.mark.parametrize("name", ["wait", "sync", "synchronize", "block", "blocking", "is_async"])
def test_parameters_by_which_callers_choose(name: str) -> None:
    assert words.left_to_callers(f.Name(name), {name})
    assert not words.left_to_callers(f.Name(name), {"slots"})


@pytest.mark.parametrize(
    "test", ["torch.cuda.on", "is_npu", "self.gpu", "x == 'cuda'", "x == 'cpu'"]
)
def test_tests_that_ask_for_the_device(test: str) -> None:
    [stmt] = function(f"assert {test}").body
    assert isinstance(stmt, f.Do)
    assert words.asks_for_device(stmt.value)
    assert not words.asks_for_device(f.Name("device_pool"))
