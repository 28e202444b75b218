"""What calls of a transfer are, by their names: starts of copies, their ends, and letting go."""

from __future__ import annotations

from auditor.source import facts as f
from auditor.streams.copies import unblocking
from auditor.streams.identity import Scope
from auditor.streams.words import called, last, orders
from auditor.vocabulary import Vocabulary, words
from auditor.waits.calls import names_a_lock

_SUBMITS = frozenset({"submit", "apply_async", "run_in_executor", "run_coroutine_threadsafe"})
_COPIES = frozenset({"copy", "memcpy", "writeback"})
_MOVES = frozenset({"to", "cuda", "cpu"})
_FUTURES = frozenset({"result", "as_completed"})
_BLOCKING = frozenset({"cpu", "query"})
"""A copy that blocks waits for all that was enqueued before it, and who polls waits too."""
_ENDS = frozenset({"drain", "finish", "finalize", "settle", "join"})
_FREES = frozenset({"free", "release", "recycle", "reclaim", "deallocate"})
_ACKNOWLEDGES = frozenset({"ack", "acknowledge", "notify", "complete", "done"})
_ACKNOWLEDGED = frozenset({"ack", "acks", "done", "finished", "completed"})
_APPENDS = frozenset({"append", "put", "put_nowait", "add"})
_FLAGS = frozenset({"event", "done", "ready", "finished", "completed", "flag"})
_EXECUTORS = ("Executor", "ThreadPool", "TaskGroup")
_CHOICES = frozenset({"wait", "sync", "synchronize", "block", "blocking", "async"})
_DEVICES = frozenset({"cuda", "npu", "gpu"})


def starts_visibly(call: f.Call) -> bool:
    """Whether a call says that it returns before its work is done."""
    name = called(call)
    return unblocking(call) or name in _SUBMITS or "async" in words(name)


def starts_by_name(call: f.Call, vocabulary: Vocabulary) -> bool:
    """Whether a call that cannot be looked into is named for a copy between two places.

    ``x.copy()`` and ``copy.copy(x)`` copy objects of the host, ``x.copy_(y)`` blocks by itself.
    """
    name = called(call)
    if name in vocabulary.store_methods:
        return False
    parts = set(words(name))
    if parts.isdisjoint(_COPIES) and parts.isdisjoint(vocabulary.transfer_verbs):
        return False
    of_host = isinstance(call.func, f.Attr) and call.func.value == f.Name("copy")
    return bool(call.args or call.keywords) and not of_host


def stores_rows(stmt: f.Assign) -> bool | None:
    """Whether a statement that writes elements of a buffer visibly leaves that to the device.

    ``pool.rows[layer][slots] = staged[places]`` does, and reads what is staged when its turn comes;
    not so where a copy that blocks makes the value. None where no elements are written: one index
    into a thing of which no index was taken, filled with what is no part of anything, is most often
    a dictionary's.
    """
    if stmt.value is None or isinstance(stmt.value, f.Group):
        return None
    targets = [target.value for target in stmt.targets if isinstance(target, f.Sub)]
    nodes = list(f.walk(stmt.value))
    taken = any(isinstance(node, f.Sub) for node in nodes)
    if not any(taken or isinstance(target, f.Sub) for target in targets):
        return None
    blocks = any(isinstance(node, f.Call) and called(node) in _MOVES for node in nodes)
    in_pool = any(isinstance(t, f.Sub) and isinstance(t.value, f.Attr) for t in targets)
    return in_pool and not blocks


def ends(call: f.Call, scope: Scope, vocabulary: Vocabulary) -> bool:
    """Whether a call waits for what was started before it, or records an event for who will."""
    name = called(call)
    kind = vocabulary.primitive_waits.get(name)
    if kind == "keyed":
        return False
    if kind is not None and len(words(name)) > 1:
        # A side stream that waits for the current one is about to begin.
        return not any(map(scope.may_be_current, call.args))
    if kind is not None or name in _FUTURES or name in _BLOCKING:
        return True
    if name == "join":
        return not call.args
    return name == "record" or {"record", "event"} <= set(words(name))


def says_it_ends(name: str, vocabulary: Vocabulary) -> bool:
    """Whether a call that cannot be looked into says by its name that it waits."""
    if name in vocabulary.primitive_waits or name == "join":
        return False
    return orders(name) or not _ENDS.isdisjoint(words(name))


def lets_go(call: f.Call, vocabulary: Vocabulary) -> bool:
    """Whether a call frees what was copied from, or tells others that the copy is there."""
    name = called(call)
    held = last(call.func.value) if isinstance(call.func, f.Attr) else ""
    if names_a_lock(held):
        return False
    if name == "set":
        return not call.args and not _FLAGS.isdisjoint(words(held))
    if name in _APPENDS:
        return not _ACKNOWLEDGED.isdisjoint(words(held))
    verb, parts = vocabulary.verb(name), words(name)
    if verb in vocabulary.read_verbs or parts == ("done",):
        return False
    return verb in _FREES or not _ACKNOWLEDGES.isdisjoint((verb, *parts[-1:]))


def joins_at_its_end(context: f.Expr) -> bool:
    """Whether a context waits for its work when it is left: ``with ThreadPoolExecutor():``."""
    return isinstance(context, f.Call) and called(context).endswith(_EXECUTORS)


def left_to_callers(test: f.Expr, parameters: set[str]) -> bool:
    """Whether a test asks a parameter if there is to be a wait."""
    names = {node.id for node in f.walk(test) if isinstance(node, f.Name)} & parameters
    return any(not _CHOICES.isdisjoint(words(name)) for name in names)


def asks_for_device(test: f.Expr) -> bool:
    """Whether a test asks for the kind of the device: on the host nothing is left to wait for."""
    named = [last(node) for node in f.walk(test) if isinstance(node, (f.Name, f.Attr))]
    kinds = [node.text for node in f.walk(test) if isinstance(node, f.Const)]
    return "cpu" in kinds or any(not _DEVICES.isdisjoint(words(n)) for n in (*named, *kinds))
