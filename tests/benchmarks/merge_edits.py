"""What merges make of a gate, wrong or harmless, as edits of a file's own lines."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.benchmarks.merge_sites import Function, Site, deeper, names, own, statements_of
from tests.benchmarks.mutants import Unfit

Edit = Callable[[Site], str]


@dataclass(frozen=True)
class Kind:
    """A kind of edit. ``breaks`` tells whether it must be told or be met with silence.

    ``at`` names another function than the edited one at which it must be told; ``tuples`` confines
    it to readers that find their pool through a mapping's tuple.
    """

    key: str
    title: str
    breaks: bool
    edit: Edit
    at: Callable[[Site], str] = lambda site: site.reader.qualname
    tuples: bool = False


# -- broken ------------------------------------------------------------------------------------


def deleted(site: Site) -> str:
    return site.instead((site.gate, []))


def under_flag(site: Site) -> str:
    gate = deeper(site.lines(site.gate))
    return site.instead((site.gate, [f"{site.pad}if self.trace_reads:", *gate]))


def swallowed(site: Site) -> str:
    gate = deeper(site.lines(site.gate))
    pad = site.pad
    return site.instead(
        (site.gate, [f"{pad}try:", *gate, f"{pad}except Exception:", f"{pad}    pass"])
    )


def in_lambda(site: Site) -> str:
    return site.instead(
        (site.gate, [f"{site.pad}self._pending_wait = lambda: {_flat(site, site.wait)}"])
    )


def _flat(site: Site, node: ast.AST) -> str:
    return re.sub(r"\s*\n\s*", " ", site.source(node))


def inverted(site: Site) -> str:
    [counter] = site.gates.counters
    receiver = site.wait.func
    assert isinstance(receiver, ast.Attribute)
    owner = receiver.value
    asked = site.source(owner) if counter in site.source(owner) else f"self.{counter}"
    return site.instead(
        (
            site.gate,
            [f"{site.pad}if {asked} is None:", f"{site.pad}    {_flat(site, site.wait)}"],
        )
    )


def lost_in_subclass(site: Site) -> str:
    owner = site.method
    lines = [line for s in [site.gate] for line in site.lines(s)]
    body = site.text.split("\n")[site.function.lineno - 1 : site.function.end_lineno]
    start = site.gate.lineno - site.function.lineno
    del body[start : start + len(lines)]
    name = _merged(site).partition(".")[0]
    new = ["", "", f"class {name}({owner.name}):", *body, ""]
    return site.text.rstrip("\n") + "\n" + "\n".join(new)


def only_the_test(site: Site) -> str:
    if not isinstance(site.gate, ast.If):
        raise Unfit("no test")
    return site.instead((site.gate.body[0], [" " * site.gate.body[0].col_offset + "pass"]))


def disarmed(site: Site) -> str:
    [counter] = site.gates.counters
    site.method  # noqa: B018
    return site.instead((site.gate, [f"{site.pad}self.{counter} = None", *site.lines(site.gate)]))


def constant_index(site: Site) -> str:
    return site.spliced(site.index, "0")


def shifted_index(site: Site) -> str:
    return site.spliced(site.index, f"{_flat(site, site.index)} - 1")


def other_index(site: Site) -> str:
    """Waits for a parameter that the fork has given the function for something else."""
    text = site.spliced(site.index, "group_id")
    arguments = site.function.args
    if arguments.vararg or arguments.kwonlyargs or arguments.kwarg:
        raise Unfit("arguments that cannot be told")
    last = arguments.args[-1]
    defaults = arguments.defaults
    end: ast.AST = defaults[-1] if defaults else last.annotation or last
    assert isinstance(end, ast.expr | ast.arg)
    lines = text.split("\n")
    number, column = (end.end_lineno or 1) - 1, end.end_col_offset
    lines[number] = lines[number][:column] + ", group_id: int = 0" + lines[number][column:]
    return "\n".join(lines)


def cached_view(site: Site) -> str:
    """Hands out a kept view before the wait, as a fork that saves the slicing does."""
    key = next((a.arg for a in site.function.args.args[1:]), "")
    returns = [
        s for top in site.rest for s in ast.walk(top) if isinstance(s, ast.Return) and s.value
    ]
    if not key or not returns or names(site.index).isdisjoint({key}):
        raise Unfit("no view to keep")
    edits: list[tuple[ast.stmt, Sequence[str]]] = []
    for stmt in returns:
        assert stmt.value is not None
        pad = " " * stmt.col_offset
        value = site.source(stmt.value)
        edits.append(
            (
                stmt,
                [f"{pad}self._kept_views[{key}] = {value}", f"{pad}return self._kept_views[{key}]"],
            )
        )
    pad = site.pad
    early = [
        f"{pad}kept = self._kept_views.get({key})",
        f"{pad}if kept is not None:",
        f"{pad}    return kept",
    ]
    edits.append((site.gate, [*early, *site.lines(site.gate)]))
    first = _class_start(site.method)
    if first.lineno == site.function.lineno:
        raise Unfit("the first of its class")
    edits.append((first, ["    _kept_views: dict = {}", "", *site.lines(first)]))
    return site.instead(*edits)


def _class_start(owner: ast.ClassDef) -> ast.stmt:
    """The class's first method: what stands before it comes above its decorators."""
    for stmt in owner.body:
        if isinstance(stmt, ast.FunctionDef) and not stmt.decorator_list:
            return stmt
    raise Unfit("no method")


def _handed(site: Site, called: str) -> str:
    """The gate gone, and the buffer handed whole to what takes the element now."""
    text = site.text
    for taken in sorted(site.subscripts, key=lambda n: (n.lineno, n.col_offset), reverse=True):
        if taken.lineno != taken.end_lineno:
            raise Unfit("an index of several lines")
        new = f"{called}({site.source(taken.value)}, {_flat(site, taken.slice)})"
        text = site.spliced(taken, new, text)
    lines = text.split("\n")
    first, last = site.gate.lineno - 1, site.gate.end_lineno
    del lines[first:last]
    return "\n".join(lines)


def handed_to_class(site: Site) -> str:
    owner = site.method.name
    text = _handed(site, f"{owner}._take_rows")
    lines = text.split("\n")
    number = _class_start(site.method).lineno - 1
    made = [
        "    @staticmethod",
        "    def _take_rows(rows, number):",
        "        return rows[number]",
        "",
    ]
    lines[number:number] = made
    return "\n".join(lines)


def handed_to_kernel(site: Site) -> str:
    lines = _handed(site, "take_cache_rows").split("\n")
    imports = [s for s in ast.parse(site.text).body if isinstance(s, ast.Import | ast.ImportFrom)]
    at = imports[-1].end_lineno or 0
    lines.insert(at, "from sgl_kernel import take_cache_rows")
    return "\n".join(lines)


def _new_buffer(site: Site, wait: bool) -> str:
    """A second buffer beside one that the class has, made as that is, with a getter of its own."""
    taken = site.subscript
    attribute = own(taken.value)
    made = [
        (s, f)
        for f in ast.walk(site.method)
        if isinstance(f, ast.FunctionDef)
        for s in ast.walk(f)
        if isinstance(s, ast.Assign) and own(s.targets[0]) == attribute
        if not (isinstance(s.value, ast.Constant))
    ]
    if not made or site.function.args.args[1:2] == []:
        raise Unfit("made elsewhere")
    first = made[0][0]
    copied = [line.replace(attribute, "merged_rows_buffer") for line in site.lines(first)]
    gate = [line.strip() for line in site.lines(site.gate)] if wait else []
    key = next(iter(sorted(names(site.index) - {"self"})), "")
    if not key or key not in names(taken.slice):
        raise Unfit("another index")
    inner = [f"        {gate[0]}", *(f"            {g}" for g in gate[1:])] if gate else []
    getter = [
        "",
        f"    def get_merged_rows_buffer(self, {key}: int):",
        *inner,
        f"        return self.merged_rows_buffer[{_flat(site, taken.slice)}]",
    ]
    return site.instead(
        (first, [*site.lines(first), *copied]),
        (site.function.body[-1], [*site.lines(site.function.body[-1]), *getter]),
    )


def new_buffer(site: Site) -> str:
    return _new_buffer(site, wait=False)


def behind_a_copy(site: Site) -> str:
    """The gate behind the read, where what is read is copied before it."""
    returns = [s for s in site.rest if isinstance(s, ast.Return)]
    every = [s for top in site.rest for s in ast.walk(top) if isinstance(s, ast.Return)]
    if len(returns) != 1 or every != returns or returns[0].value is None:
        raise Unfit("several ways out")
    value = returns[0].value
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    copies = ", ".join(f"({_flat(site, part)}).clone()" for part in parts)
    pad = site.pad
    last = [f"{pad}result = {copies}", *site.lines(site.gate), f"{pad}return result"]
    return site.instead((site.gate, []), (returns[0], last))


def _merged(site: Site) -> str:
    """Several may be lost in one file: the class is named by the getter too."""
    owner, _, name = site.reader.qualname.rpartition(".")
    return f"Merged{owner}_{name}.{name}"


def _getter_of_new(site: Site) -> str:
    return f"{site.reader.owner}.get_merged_rows_buffer"


# -- harmless ----------------------------------------------------------------------------------


def renamed_local(site: Site) -> str:
    stored = [
        n.id
        for s in site.rest
        for n in ast.walk(s)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    ]
    parameters = {a.arg for a in ast.walk(site.function.args) if isinstance(a, ast.arg)}
    own = [name for name in dict.fromkeys(stored) if name not in parameters and len(name) > 1]
    if not own:
        raise Unfit("no local")
    uses = [n for n in ast.walk(site.function) if isinstance(n, ast.Name) and n.id == own[0]]
    text = site.text
    for use in sorted(uses, key=lambda n: (n.lineno, n.col_offset), reverse=True):
        text = site.spliced(use, f"merged_{own[0]}", text)
    return text


def helper(site: Site) -> str:
    """The wait in a new method, which is called where it stood."""
    needed = sorted(names(site.gate) - {"self"})
    if site.owner is None or "self" not in names(site.gate):
        raise Unfit("no method")
    receiver = "self"
    call = f"{site.pad}{receiver}._settle_rows({', '.join(needed)})"
    made = [f"    def _settle_rows({', '.join(['self', *needed])}):", *site.lines(site.gate), ""]
    first = _class_start(site.owner)
    text = site.instead((site.gate, [call]))
    lines = text.split("\n")
    lines[first.lineno - 1 : first.lineno - 1] = made
    return "\n".join(lines)


def reordered(site: Site) -> str:
    """The gate behind a statement that looks up an index and touches no buffer."""
    after = site.rest[0]
    if isinstance(after, ast.Assign):
        bound = {n for t in after.targets for n in names(t)}
    elif isinstance(after, ast.Assert):
        bound = set()
    else:
        raise Unfit("not independent")
    called = [n.func for n in ast.walk(after) if isinstance(n, ast.Call)]
    if any(not isinstance(c, ast.Attribute) or c.attr != "get" for c in called):
        raise Unfit("what it calls may read")
    touched = {own(n) for n in ast.walk(after)}
    pools = {a for a in touched if a in site.reader.buffers}
    if pools or bound & names(site.gate):
        raise Unfit("not independent")
    return site.instead((site.gate, site.lines(after)), (after, site.lines(site.gate)))


def twice(site: Site) -> str:
    return site.instead((site.gate, [*site.lines(site.gate), *site.lines(site.gate)]))


def without_grad(site: Site) -> str:
    body = statements_of(site.function)
    first, last = body[0].lineno - 1, body[-1].end_lineno
    lines = site.text.split("\n")
    lines[first:last] = [f"{site.pad}with torch.no_grad():", *deeper(lines[first:last])]
    return "\n".join(lines)


def inlined(site: Site) -> str:
    """What a waiting helper does, in its caller's place."""
    called = site.wait.func
    assert isinstance(called, ast.Attribute)
    if called.attr not in site.gates.wrappers:
        raise Unfit("no helper")
    for name in (site.reader.owner, *sorted(site.gates.ancestors.get(site.reader.owner, ()))):
        for data in site.files.values():
            if f"class {name}".encode() not in data or called.attr.encode() not in data:
                continue
            for owner in ast.parse(data).body:
                if isinstance(owner, ast.ClassDef) and owner.name == name:
                    for made in owner.body:
                        if isinstance(made, ast.FunctionDef) and made.name == called.attr:
                            return site.instead((site.gate, _inline(site, made, called.value)))
    raise Unfit("no helper")


def _inline(site: Site, made: Function, receiver: ast.expr) -> list[str]:
    own, key = (a.arg for a in made.args.args)

    class Put(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            given = {own: receiver, key: site.index}.get(node.id)
            return copy.deepcopy(given) if given is not None else node

    body = [ast.unparse(Put().visit(copy.deepcopy(s))) for s in statements_of(made)]
    return [site.pad + line for text in body for line in text.split("\n")]


def new_buffer_behind(site: Site) -> str:
    return _new_buffer(site, wait=True)


def new_constants(site: Site) -> str:
    """A list of numbers, one a layer, that nothing transfers, and a getter that does not wait."""
    made = next(
        (f for f in site.method.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"),
        None,
    )
    if made is None:
        raise Unfit("made elsewhere")
    last = made.body[-1]
    key = next(iter(sorted(names(site.index) - {"self"})), "")
    if not key or key not in {a.arg for a in site.function.args.args}:
        raise Unfit("no index")
    end = site.function.body[-1]
    getter = [
        "",
        f"    def get_merged_gain(self, {key}: int):",
        f"        return self.merged_gains[{key} - self.start_layer]",
    ]
    return site.instead(
        (last, [*site.lines(last), "        self.merged_gains = [1.0] * self.layer_num"]),
        (end, [*site.lines(end), *getter]),
    )


KINDS = (
    Kind("deleted", "gate deleted", True, deleted),
    Kind("behind", "gate behind a copy of what is read", True, behind_a_copy),
    Kind("flag", "gate under a flag", True, under_flag),
    Kind("try", "gate in a try that swallows", True, swallowed),
    Kind("lambda", "gate in a lambda that is never called", True, in_lambda),
    Kind("inverted", "gate where there is no counter", True, inverted),
    Kind("hollow", "only the test around the gate left", True, only_the_test),
    Kind("disarmed", "counter taken away before the gate", True, disarmed),
    Kind("subclass", "gate lost in a subclass", True, lost_in_subclass, _merged),
    Kind("constant", "a constant waited for", True, constant_index),
    Kind("shifted", "the layer before waited for", True, shifted_index),
    Kind("other", "another argument waited for", True, other_index),
    Kind("cached", "a kept view handed out before the gate", True, cached_view),
    Kind("class", "buffer handed whole to a static method, no gate", True, handed_to_class),
    Kind("kernel", "buffer handed whole to an imported kernel, no gate", True, handed_to_kernel),
    Kind("new", "a new buffer without a gate", True, new_buffer, _getter_of_new),
    Kind("tuple-deleted", "pool of a tuple: deleted", True, deleted, tuples=True),
    Kind("tuple-flag", "pool of a tuple: under a flag", True, under_flag, tuples=True),
    Kind("tuple-try", "pool of a tuple: a try that swallows", True, swallowed, tuples=True),
    Kind("tuple-lambda", "pool of a tuple: in a lambda", True, in_lambda, tuples=True),
    Kind("tuple-inverted", "pool of a tuple: inverted test", True, inverted, tuples=True),
    Kind(
        "tuple-subclass",
        "pool of a tuple: lost in a subclass",
        True,
        lost_in_subclass,
        _merged,
        True,
    ),
    Kind("rename", "a local renamed", False, renamed_local),
    Kind("helper", "the wait in a new helper", False, helper),
    Kind("reorder", "a lookup before the gate", False, reordered),
    Kind("twice", "waited for twice", False, twice),
    Kind("no-grad", "the body under torch.no_grad()", False, without_grad),
    Kind("inline", "the waiting helper inlined", False, inlined),
    Kind("new-behind", "a new buffer behind the gate", False, new_buffer_behind),
    Kind("new-constants", "a new list of constants, not waited for", False, new_constants),
)
