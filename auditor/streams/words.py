"""What calls around streams are, by their names: contexts, waits, work and what is none."""

from __future__ import annotations

import functools

from auditor.source import facts as f
from auditor.vocabulary import Vocabulary, words

_CONTEXTS = frozenset({"stream", "StreamContext", "CudaStreamContext", "device_stream_context"})
_NAMES = frozenset({"stream", "ctx", "context", "cm", "guard"})
_MODULES = frozenset({"cuda", "npu", "xpu", "musa", "hpu", "mlu", "hip", "accelerator"})
_CURRENT = frozenset({"current", "default"})

ALLOCATIONS = frozenset(
    {"empty", "zeros", "ones", "full", "arange", "empty_like", "zeros_like", "ones_like"}
    | {"full_like", "new_empty", "new_zeros", "new_ones", "new_full", "empty_strided"}
)
"""Calls that make a tensor of nothing: they read no input."""

_NO_WORK = frozenset(
    {"Event", "Stream", "nullcontext", "isinstance", "getattr", "hasattr", "setattr", "print"}
    | {"append", "extend", "appendleft", "popleft", "get", "items", "values", "keys", "query"}
    | {"min", "max", "int", "bool", "float", "str", "dict", "set", "list", "tuple", "zip"}
    | {"enumerate", "sorted", "format", "partial", "time", "perf_counter", "monotonic"}
    | {"device", "get_device_module", "replay"}
)
"""Host code, for the most part on containers. What a graph waits for was captured with it."""

_NO_WORK_WORDS = frozenset(
    {"event", "events", "record", "wait", "sync", "synchronize", "log", "logger", "debug", "info"}
    | {"warning", "current", "stream"}
)
"""Words of calls that order or report work and start none: ``_record_comm_event``."""

_ORDERS = frozenset({"wait", "fork", "sync", "synchronize", "barrier", "fence", "order"})
_RECEIVES = frozenset({"recv", "irecv", "receive"})
_COLLECTIVES = frozenset({"broadcast", "gather", "scatter", "collective", "fetch"})


def called(call: f.Call) -> str:
    """The last name of what is called; empty where it has none."""
    return last(call.func)


def last(expr: f.Expr) -> str:
    """The last name of a path; empty where it ends in none."""
    return expr.name if isinstance(expr, f.Attr) else expr.id if isinstance(expr, f.Name) else ""


def context(expr: f.Expr) -> bool:
    """Whether an item of a ``with`` may enter a stream: by what is called, or as a name for it."""
    if isinstance(expr, f.Call):
        return called(expr) in _CONTEXTS
    if isinstance(expr, f.Choice):
        return context(expr.body) or context(expr.orelse)
    return not _NAMES.isdisjoint(words(last(expr)))


def entered(call: f.Call) -> f.Expr | None:
    """The stream that a context enters (``torch.cuda.stream(S)``); None where it is none."""
    if called(call) not in _CONTEXTS:
        return None
    given = [*call.args, *(value for name, value in call.keywords if name == "stream")]
    if len(given) != 1 or isinstance(given[0], f.Const):
        return None
    named = "stream" in words(last(given[0]))
    return given[0] if named or _of_device(call.func) else None


def _of_device(func: f.Expr) -> bool:
    """Whether a context is one of torch's: ``mx.stream(mx.cpu)`` and a client's are not."""
    if isinstance(func, f.Name):
        return True
    base = func.value if isinstance(func, f.Attr) else func
    name = called(base) if isinstance(base, f.Call) else last(base)
    return name in _MODULES or {"device", "module"} <= set(words(name))


def current(expr: f.Expr) -> bool:
    """Whether an expression is, by its name, the stream that is the current one where it stands."""
    parts = set(words(called(expr) if isinstance(expr, f.Call) else last(expr)))
    return "stream" in parts and not _CURRENT.isdisjoint(parts)


@functools.lru_cache(maxsize=1 << 14)
def orders(name: str) -> bool:
    """Whether a call that cannot be looked into says by its name that it makes a stream wait."""
    return not _ORDERS.isdisjoint(words(name))


def starts_work(call: f.Call, vocabulary: Vocabulary) -> bool:
    """Whether a call may enqueue something that has inputs."""
    name = called(call)
    if name in _NO_WORK or name in ALLOCATIONS or name in vocabulary.primitive_waits:
        return False
    if name in vocabulary.metadata_methods or name in vocabulary.metadata_functions:
        return False
    return _NO_WORK_WORDS.isdisjoint(words(name))


def receives(name: str) -> bool:
    """Whether a call takes in what another rank sends, by its name."""
    return not _RECEIVES.isdisjoint(words(name))


def collective(name: str) -> bool:
    """Whether a call exchanges with other ranks, by its name."""
    return not _COLLECTIVES.isdisjoint(words(name))


def event_loop(name: str) -> bool:
    """Whether a function is what the server runs for all of its time: nothing came before it."""
    return {"event", "loop"} <= set(words(name))


def startup(qualname: str, vocabulary: Vocabulary) -> bool:
    """Whether a function runs before anything is served: set-up, warm-up, capture of graphs."""
    name = qualname.rpartition(".")[2]
    parts = set(words(name))
    told = {"warmup", "warm", "capture", "capturing", "autotune", "init", "prealloc", "benchmark"}
    return vocabulary.duty(name) == "setup" or not parts.isdisjoint(told)
