"""Which statements of a script have a say in what it starts.

A question is asked of a run only where an answer changes a launch: the branches of a script that
write a log or look for a tool are passed over, and do not make two worlds of one. Names are
followed without regard to order: what a launch uses, what that is made of, and what decides over
either.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field

from auditor.serve.scripts.syntax import PROGRAM, Tree

_NAMES_PROGRAM = re.compile(
    rb"launch_server|launch_router|sglang[\s\\]+serve|-m\s+sglang|sglang_router|dynamo\.sglang"
    rb"|\b(?:smg|amg)\b|sgl-|mini_lb|launch_lb|[=(][\"']?sglang(?:[\s\"')]|$)"
)
_NAME = re.compile(rb"[A-Za-z_]\w*")
_USED = re.compile(rb"\$\{?[#!]?([A-Za-z_]\w*)")
_ARGUMENTS = re.compile(rb"\$\{?[#!]?[@*#\d]|\bshift\b|\bgetopts\b")
_SETS = frozenset({b"read", b"mapfile", b"readarray", b"getopts", b"printf", b"let", b"unset"})
_DECLARES = frozenset({b"export", b"local", b"declare", b"typeset", b"readonly"})
_READS = frozenset({b"source", b"."})
_MOVES = frozenset({b"cd", b"pushd", b"popd", b"exit", b"shift"})
_SHARED = re.compile(
    rb"\b(?:SGL|NCCL|CUDA|HIP|ROC|NV|PYTORCH|TORCH|HF_|MC_|MOONCAKE|VLLM|FLASH|AITER)"
)
"""Variables of the environment that change what a server does."""
_PREFIX = re.compile(rb"^(?:[A-Za-z_]\w*=(?:'[^']*'|\"[^\"]*\"|[^\s'\"]*)\s+)+")
_JUMPS = frozenset({b"break", b"continue"})
_OPTIONS = re.compile(rb"set\s+[-+][b-z]*(?:o\s+\w+)?\s*$")
# What shows its words, or does other things with them than to run them.
_INERT = frozenset(
    b"echo printf mkdir rm cp mv ln cat sleep wait kill pkill pgrep killall trap curl wget grep sed"
    b" awk ls ps test true false : tee log info warn error die fatal touch tail head which type"
    b" command [ [[ read mapfile readarray getopts let unset".split()
)
# What runs a command or a text that it is given.
_RUNNERS = re.compile(
    rb"^[\"']?\$|(?:^|/)(?:ba|z|da|k|a)?sh$|^(?:exec|env|nohup|setsid|sudo|time|timeout|nice|ionice"
    rb"|stdbuf|taskset|numactl|srun|sbatch|mpirun|mpiexec|docker|podman|nerdctl|enroot|apptainer"
    rb"|singularity|kubectl|ssh|tmux|screen|su|script|coproc|command|builtin|xargs|parallel)$"
)
_TARGET = re.compile(rb"(?:^|\s)([A-Za-z_]\w*)(?:\[[^\]]*\])?\+?=")
_BARE = re.compile(rb"\s([A-Za-z_]\w*)(?=\s|$)")
_EXPORTS = re.compile(rb"\bset\s+-\w*a|\ballexport\b")
_ASSIGNED = re.compile(rb"\$\{([A-Za-z_]\w*):?[=?]")
_ARGS = b"@"
_OUTCOME = b">"
"""Behind the name of a function: what it prints and returns; ``()`` stands for its being called."""


@dataclass
class _Leaf:
    """A simple statement: what it sets, what it uses, and the names that decide over it."""

    start: int
    targets: set[bytes]
    used: set[bytes]
    words: set[bytes]
    controls: tuple[frozenset[bytes], ...]
    seed: bool = False
    starts: bool = False
    runs: bool = False
    names: bool = False
    asks: bool = False
    call: bytes = b""
    function: bytes = b""
    jump: tuple[int, int] | None = None


@dataclass
class _Walked:
    leaves: list[_Leaf] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    starting: list[int] = field(default_factory=list)


class Relevance:
    """What matters of the texts that were added; of any other text everything does."""

    def __init__(self) -> None:
        self._texts: dict[int, _Walked] = {}
        self._functions: set[bytes] = set()
        self._names: set[bytes] = set()
        self._starting: set[bytes] = set()

    def knows(self, root: Tree) -> bool:
        """Whether a text was added."""
        return id(root) in self._texts

    @property
    def started(self) -> bool:
        """Whether any text was added."""
        return bool(self._texts)

    def add(self, root: Tree, data: bytes) -> None:
        """Take in one text more; what was said to matter before may be more now."""
        walked = _Walked()
        self._texts[id(root)] = walked
        _Walk(data, walked.leaves, self._functions).statement(root, (), b"", None)
        self._solve()

    def matters(self, root: Tree, node: Tree) -> bool:
        """Whether a statement of a text has a say in a launch."""
        walked = self._texts.get(id(root))
        if walked is None:
            return True
        at = bisect_left(walked.starts, node.start)
        return at < len(walked.starts) and walked.starts[at] < node.end

    def last_start(self, root: Tree) -> int:
        """Where in a text the last statement stands that starts anything, itself or by a call."""
        found = self._texts[id(root)].starting
        return found[-1] if found else -1

    def may_start(self, root: Tree, node: Tree) -> bool:
        """Whether anything is started in a statement of a text that was added."""
        walked = self._texts.get(id(root))
        if walked is None:
            return False
        at = bisect_left(walked.starting, node.start)
        return at < len(walked.starting) and walked.starting[at] < node.end

    def _starts(self, leaf: _Leaf) -> bool:
        return leaf.starts or leaf.call in self._starting

    def _solve(self) -> None:
        every = [leaf for walked in self._texts.values() for leaf in walked.leaves]
        named = self._naming(every)
        for leaf in every:
            if leaf.runs and leaf.used & named:
                leaf.starts = leaf.seed = True
        names = {leaf_name for leaf in every if leaf.seed for leaf_name in self._reached(leaf)}
        waiting = [leaf for leaf in every if not leaf.seed and leaf.jump is None]
        while True:
            rest: list[_Leaf] = []
            grown = False
            for leaf in waiting:
                if leaf.targets & names:
                    names |= self._reached(leaf)
                    grown = True
                else:
                    rest.append(leaf)
            waiting = rest
            if not grown:
                break
        self._names = names
        self._starting = set()
        while True:
            found = {leaf.function for leaf in every if self._starts(leaf)} - {b""}
            if found <= self._starting:
                break
            self._starting |= found
        for walked in self._texts.values():
            starts = [
                leaf.start
                for leaf in walked.leaves
                if leaf.seed or (leaf.jump is None and leaf.targets & names)
            ]
            starts.sort()
            jumps = [leaf for leaf in walked.leaves if leaf.jump is not None]
            for leaf in jumps:
                assert leaf.jump is not None
                at = bisect_left(starts, leaf.jump[0])
                if at < len(starts) and starts[at] < leaf.jump[1]:
                    walked.starts.append(leaf.start)
            walked.starts = sorted({*starts, *walked.starts})
            walked.starting = sorted(leaf.start for leaf in walked.leaves if self._starts(leaf))

    def _naming(self, leaves: list[_Leaf]) -> set[bytes]:
        """The variables that may hold a command which starts something."""
        named: set[bytes] = set()
        while True:
            found: set[bytes] = set()
            for leaf in leaves:
                if leaf.names or not self._reached(leaf, controls=False).isdisjoint(named):
                    found |= {name for name in leaf.targets if not name.endswith(b"()")}
                    if leaf.call in self._functions:
                        found.add(_arguments_of(leaf.call))
            if found <= named:
                return named
            named |= found

    def _reached(self, leaf: _Leaf, controls: bool = True) -> set[bytes]:
        called = {name + _OUTCOME for name in leaf.words & self._functions} if leaf.asks else set()
        deciding = {name for control in leaf.controls for name in control} if controls else set()
        return leaf.used | called | deciding


def _arguments_of(function: bytes) -> bytes:
    """The name under which the arguments of a function, or of the script, are followed."""
    return function + _ARGS


class _Walk:
    """Collects the simple statements of one text."""

    def __init__(self, data: bytes, leaves: list[_Leaf], functions: set[bytes]) -> None:
        self.data = data
        self.leaves = leaves
        self.functions = functions
        self.exports_all = _EXPORTS.search(data) is not None

    def statement(
        self,
        node: Tree,
        controls: tuple[frozenset[bytes], ...],
        function: bytes,
        loop: tuple[int, int] | None,
    ) -> None:
        """Walk one statement; ``controls`` are the names that decide whether it runs."""
        kind = node.kind
        if kind == "function_definition":
            name, body = node.field("name"), node.field("body")
            if name is not None and body is not None:
                own = self.data[name.start : name.end]
                self.functions.add(own)
                if controls:
                    made = {own + b"()", own + _OUTCOME}
                    self.leaves.append(_Leaf(node.start, made, set(), set(), controls))
                self.statement(body, (frozenset({own + b"()"}),), own, None)
        elif kind == "if_statement":
            self._if(node, controls, function, loop)
        elif kind == "case_statement":
            value = node.field("value")
            items = [part for part in node.parts if part.kind == "case_item"]
            head = items[0].start if items else node.end
            inner = (*controls, self._deciding(value.start if value else node.start, head))
            for item in items:
                for part in item.statements:
                    self.statement(part, inner, function, loop)
        elif kind == "list":
            parts = node.statements
            inner = controls
            for part in parts:
                self.statement(part, inner, function, loop)
                inner = (*inner, self._deciding(part.start, part.end))
        elif kind in {"for_statement", "c_style_for_statement", "while_statement"}:
            self._loop(node, controls, function)
        elif kind in {
            *("command", "variable_assignment", "variable_assignments", "declaration_command"),
            "unset_command",
        }:
            self._leaf(node, controls, function, loop)
        elif kind == "compound_statement" and self.data[node.start : node.start + 2] == b"((":
            names = set(_NAME.findall(self.data, node.start, node.end))
            self.leaves.append(_Leaf(node.start, names, names, set(), controls))
        elif kind == "heredoc_redirect":
            text = self.data[node.start : node.end]
            shown = PROGRAM.search(text) is not None
            used = set(_USED.findall(text))
            leaf = _Leaf(node.start, set(), used, set(), controls, seed=shown, starts=shown)
            leaf.runs, leaf.function = True, function
            self.leaves.append(leaf)
            for part in node.statements:
                self.statement(part, controls, function, loop)
        elif kind not in {"test_command", "comment"}:
            for part in node.parts:
                self.statement(part, controls, function, loop)

    def _deciding(self, start: int, end: int) -> frozenset[bytes]:
        text = self.data[start:end]
        used = set(_USED.findall(text))
        if b"((" in text or b"-v " in text or b"[[" in text:
            used |= set(_NAME.findall(text))
        used |= {name + _OUTCOME for name in _NAME.findall(text)}
        if _ARGUMENTS.search(text):
            used.add(_ARGS)
        return frozenset(used)

    def _if(
        self,
        node: Tree,
        controls: tuple[frozenset[bytes], ...],
        function: bytes,
        loop: tuple[int, int] | None,
    ) -> None:
        then = next((part for part in node.parts if part.kind == "then"), None)
        inner = controls
        if then is not None:
            inner = (*controls, self._deciding(node.start + 2, then.start))
        for part in node.parts:
            if part.kind == "elif_clause":
                self._if(part, inner, function, loop)
            else:
                own = then is not None and part.start > then.start
                self.statement(part, inner if own else controls, function, loop)

    def _loop(self, node: Tree, controls: tuple[frozenset[bytes], ...], function: bytes) -> None:
        body = node.field("body")
        if body is None:
            return
        inner = (*controls, self._deciding(node.start, body.start))
        variable = node.field("variable")
        if variable is not None:
            name = self.data[variable.start : variable.end]
            used = self._deciding(variable.end, body.start)
            self.leaves.append(_Leaf(node.start, {name}, set(used), set(), controls))
        for part in node.parts:
            own = part is body
            place = (node.start, node.end) if own else None
            self.statement(part, inner if own else controls, function, place)

    def _leaf(
        self,
        node: Tree,
        controls: tuple[frozenset[bytes], ...],
        function: bytes,
        loop: tuple[int, int] | None,
    ) -> None:
        text = self.data[node.start : node.end]
        used = set(_USED.findall(text))
        words = set(_NAME.findall(text))
        if b"((" in text or b"[" in text:
            used |= words
        if _ARGUMENTS.search(text):
            used.add(_arguments_of(function))
        leaf = _Leaf(node.start, set(), used, words, controls, function=function)
        leaf.names = _NAMES_PROGRAM.search(text) is not None
        leaf.asks = b"$(" in text or b"`" in text
        self.leaves.append(leaf)
        assigned = set(_ASSIGNED.findall(text))
        bare = _PREFIX.sub(b"", text)
        head = bare.split(None, 1)[0] if bare.strip() else b""
        if node.kind in {"variable_assignment", "variable_assignments"}:
            leaf.targets = set(_TARGET.findall(text))
            runs = PROGRAM.search(text) is not None and b"$(" in text
            leaf.seed, leaf.starts = runs or self.exports_all, runs
            return
        if node.kind == "declaration_command" or head in _DECLARES:
            named = set(_TARGET.findall(text)) | set(_BARE.findall(text, len(head)))
            leaf.targets = named
            shared = head == b"export" or b" -x" in text
            leaf.seed = shared and (not function or _SHARED.search(text) is not None)
            leaf.used |= named if shared else set()
            return
        if head in _SETS or node.kind == "unset_command":
            leaf.targets = words
            if head == b"getopts":
                leaf.targets = {*words, b"OPTARG", b"OPTIND"}
            if head == b"printf" and function:
                leaf.targets = {*words, function + _OUTCOME}
            return
        if head in _JUMPS:
            leaf.jump = loop or (node.start, node.end)
            return
        if head == b"return":
            leaf.targets = {function + _OUTCOME}
            return
        if head == b"set":
            leaf.seed = not function and _OPTIONS.match(text) is None
            leaf.targets = {_arguments_of(function)}
            return
        leaf.call = head
        leaf.targets = {head + b"()", *assigned}
        if function:
            leaf.targets.add(function + _OUTCOME)
        leaf.starts = (leaf.names and head not in _INERT) or (head in _READS and not function)
        leaf.runs = head == b"eval" or (
            b"$" in text
            and (
                _RUNNERS.search(head) is not None
                or (head.startswith(b"python") and b"-m $" in text.replace(b'"', b""))
            )
        )
        leaf.targets.add(_arguments_of(head))
        installs = b"install" in text and PROGRAM.search(text) is not None
        leaf.seed = leaf.starts or installs or (head in _MOVES and not function)
